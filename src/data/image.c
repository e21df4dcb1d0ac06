/* How does an image of any form and size become a sample? Decode, gray or RGB, resize, channels first. It is done when
 * the sample is read. */
#include "data/image.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

image image_new(arena *a, const char *path, uint32_t height, uint32_t width, uint32_t channels) {
  if (!height || !width || height > IMAGE_MAX_SIDE || width > IMAGE_MAX_SIDE ||
      (uint64_t)height * width > IMAGE_MAX_PIXELS)
    ctx_fail(arena_ctx(a), E_UNSUPPORTED, "%s: an image of %u x %u pixels; at most %d pixels are read", path, height,
             width, (int)IMAGE_MAX_PIXELS);
  return (image){height, width, channels, arena_alloc(a, (size_t)height * width * channels)};
}

/* ---- files ----------------------------------------------------------------------------------- */
/* The whole file, in the arena: a mapping for each image would stay until the end. */
static bytes file_bytes(arena *a, const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) ctx_fail(arena_ctx(a), E_IO, "cannot open '%s': %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode)) ctx_fail(arena_ctx(a), E_IO, "%s is no file", path);
  uint8_t *p = arena_alloc(a, (size_t)st.st_size + 1);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t n = 0;
  ssize_t got = fd < 0 ? -1 : 1;
  while (got > 0 && n < (size_t)st.st_size) {
    got = read(fd, p + n, (size_t)st.st_size - n);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      n += (size_t)got;
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (got < 0) ctx_fail(arena_ctx(a), E_IO, "cannot read '%s': %s", path, strerror(error));
  return (bytes){p, n};
}
image read_image(arena *a, const char *path) {
  const bytes f = file_bytes(a, path);
  if (f.n >= 8 && !memcmp(f.p, "\x89PNG\r\n\x1a\n", 8)) return read_png(a, path, f);
  if (f.n >= 3 && !memcmp(f.p, "\xff\xd8\xff", 3)) return read_jpeg(a, path, f);
  ctx_fail(arena_ctx(a), E_IO, "%s is neither a PNG nor a JPEG file", path);
}

/* ---- pixels ---------------------------------------------------------------------------------- */
image image_converted(arena *a, const image *m, uint32_t channels) {
  if (m->channels == channels) return *m;
  const size_t n = (size_t)m->height * m->width;
  image out = {m->height, m->width, channels, arena_alloc(a, n * channels)};
  const uint8_t *p = m->pixels;
  for (size_t i = 0; i < n; i++) {
    if (channels == 1) /* luma of ITU-R 601, in 16 bits of fraction */
      out.pixels[i] = (uint8_t)((p[3 * i] * 19595u + p[3 * i + 1] * 38470u + p[3 * i + 2] * 7471u + 0x8000u) >> 16);
    else
      memset(out.pixels + 3 * i, p[i], 3);
  }
  return out;
}
/* Which of n pixels have a part in pixel i of `to`, with the weights of a triangle: the first of them; *count: how
 * many. */
static uint32_t weigh(uint32_t n, uint32_t to, uint32_t i, double *weights, uint32_t *count) {
  const double scale = (double)n / to, half = scale > 1 && !EK_PLANTED("data-resize") ? scale : 1,
               center = (i + 0.5) * scale;
  const double low = floor(center - half + 0.5), high = floor(center + half + 0.5);
  const uint32_t from = low > 0 ? (uint32_t)low : 0, end = high < n ? (uint32_t)high : n;
  double sum = 0;
  for (uint32_t k = from; k < end; k++) {
    const double w = 1 - fabs((k + 0.5 - center) / half);
    sum += weights[k - from] = w > 0 ? w : 0;
  }
  for (uint32_t k = from; k < end; k++) weights[k - from] /= sum;
  *count = end - from;
  return from;
}
/* One axis: `lines` runs of n vectors of `width` values become runs of `to` vectors. */
static void resize_axis(arena *a, const double *in, size_t lines, uint32_t n, uint32_t to, size_t width, double *out) {
  double *weights = NEWN(a, double, (size_t)n + 1);
  for (uint32_t i = 0; i < to; i++) {
    uint32_t count;
    const uint32_t from = weigh(n, to, i, weights, &count);
    for (size_t l = 0; l < lines; l++) {
      double *o = out + (l * to + i) * width;
      const double *p = in + (l * n + from) * width;
      for (size_t x = 0; x < width; x++) o[x] = 0;
      for (uint32_t k = 0; k < count; k++)
        for (size_t x = 0; x < width; x++) o[x] += weights[k] * p[k * width + x];
    }
  }
}
image image_resized(arena *a, const image *m, uint32_t height, uint32_t width) {
  if (m->height == height && m->width == width) return *m;
  const size_t n = (size_t)m->height * m->width * m->channels, row = (size_t)width * m->channels;
  double *in = NEWN(a, double, n), *wide = NEWN(a, double, m->height *row), *last = NEWN(a, double, height *row);
  for (size_t i = 0; i < n; i++) in[i] = m->pixels[i];
  resize_axis(a, in, m->height, m->width, width, m->channels, wide);
  resize_axis(a, wide, 1, m->height, height, row, last);
  image out = {height, width, m->channels, arena_alloc(a, height * row)};
  for (size_t i = 0; i < height * row; i++) out.pixels[i] = (uint8_t)(last[i] + 0.5);
  return out;
}

/* ---- folders: a class is a folder of images -------------------------------------------------- */
typedef struct files {
  strvec paths;     /* of the images */
  bool fixed;       /* a size was asked for: images of other sizes are resized */
  uint32_t size[3]; /* channels, height, width */
} files;
static void fill(arena *a, const void *env, int64_t i, uint8_t *out) {
  const files *f = env;
  const char *path = f->paths.v[i];
  const uint32_t channels = f->size[0], height = f->size[1], width = f->size[2];
  image m = read_image(a, path);
  if (!f->fixed && (m.height != height || m.width != width))
    ctx_fail(arena_ctx(a), E_SHAPE,
             "%s is of %u x %u pixels, the first image of %u x %u; --image-size %ux%u resizes all to one size", path,
             m.height, m.width, height, width, height, width);
  m = image_converted(a, &m, channels);
  m = image_resized(a, &m, height, width);
  const size_t n = (size_t)height * width;
  for (size_t p = 0; p < n; p++)
    for (size_t k = 0; k < channels; k++) out[k * n + p] = m.pixels[p * channels + k];
}
static bool ends_in(const char *name, const char *end) {
  const size_t n = strlen(name), k = strlen(end);
  return n > k && !strcasecmp(name + n - k, end);
}
/* What was asked for; else the size of the training set's images; else that of the first image. */
static void choose_size(ctx *c, const dataset *d, files *f) {
  const int32_t k = d->like ? dataset_find(d->like, "images") : -1;
  const dataset_column *like = k < 0 ? NULL : dataset_column_at(d->like, (uint32_t)k);
  const bool same = like && like->rank == 3;
  const uint32_t asked[3] = {d->o.image_channels, d->o.image_height, d->o.image_width};
  arena *scratch = arena_new(c);
  image first = {0};
  if (!same && (!asked[0] || !asked[1])) first = read_image(scratch, f->paths.v[0]);
  const uint32_t found[3] = {first.channels, first.height, first.width};
  f->fixed = asked[1] > 0 || (same && d->like->o.image_height > 0);
  for (int i = 0; i < 3; i++) f->size[i] = asked[i] ? asked[i] : same ? (uint32_t)like->dims[i] : found[i];
  arena_free(scratch);
}
bool read_image_folder(ctx *c, dataset *d, const data_source *s, const strvec *classes) {
  arena *a = ctx_arena(c);
  files *f = NEW(a, files);
  VEC(bytes) labels = {0};
  for (uint32_t i = 0; i < classes->n; i++) {
    const char *folder = path_join(a, s->path, classes->v[i]);
    strvec names;
    if (!is_folder(folder)) continue;
    if (!folder_names(c, folder, &names)) ctx_unwind(c);
    for (uint32_t k = 0; k < names.n; k++) {
      if (!ends_in(names.v[k], ".png") && !ends_in(names.v[k], ".jpg") && !ends_in(names.v[k], ".jpeg")) continue;
      vec_push(a, f->paths, path_join(a, folder, names.v[k]));
      vec_push(a, labels, ((bytes){(const uint8_t *)classes->v[i], strlen(classes->v[i])}));
    }
  }
  const uint32_t n = f->paths.n;
  if (!n) return false;
  choose_size(c, d, f);
  const ndarray x = {.type = ET_U8, .rank = 4, .dims = {n, f->size[0], f->size[1], f->size[2]}};
  dataset_add(c, d, s->path, s->name ? s->name : "images", &x);
  column *k = &d->columns.v[d->columns.n - 1];
  k->fill = fill, k->env = f, k->shown.resizable = true;
  dataset_add_texts(c, d, s->path, "labels", labels.v, n);
  return true;
}
