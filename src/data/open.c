/* Which files does a path name, and what is in them? A path is one file or folder, or several with commas. Each is
 * recognised by its first bytes, a CSV file by its name, and its reader appends columns to the data set. */
#include "data/data_in.h"
#include <stdlib.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */
_Noreturn void fail_at(ctx *c, const char *file, uint64_t line, uint64_t col, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vfmt(ctx_arena(c), fmt, ap);
  va_end(ap);
  const srcpos at = {file, line < UINT32_MAX ? (uint32_t)line : UINT32_MAX,
                     col < UINT32_MAX ? (uint32_t)col : UINT32_MAX};
  diag_add(c, D_ERROR, E_IO, at, NULL, "%s", text);
  ctx_unwind(c);
}

/* ---- columns --------------------------------------------------------------------------------- */
/* Names are unique: one that is there already gets a number. */
static const char *free_name(ctx *c, const dataset *d, const char *name) {
  const char *free = name;
  for (uint32_t i = 2; dataset_find(d, free) >= 0; i++) free = arena_fmt(ctx_arena(c), "%s_%u", name, i);
  return free;
}
void dataset_add(ctx *c, dataset *d, const char *file, const char *name, const ndarray *x) {
  column k = {.shown = {.type = x->type, .rank = x->rank - 1}, .file = file, .data = x->data};
  if (!x->rank) ctx_fail(c, E_SHAPE, "%s: the array '%s' is a scalar: it has no axis of samples", file, name);
  ndarray one = {.rank = x->rank - 1};
  memcpy(one.dims, x->dims + 1, one.rank * sizeof *one.dims);
  memcpy(k.shown.dims, one.dims, sizeof one.dims);
  if (!nd_count(&one, &k.shown.elements) ||
      __builtin_mul_overflow((size_t)k.shown.elements, et_bytes(x->type), &k.bytes))
    ctx_fail(c, E_SHAPE, "%s: a sample of '%s' is too large", file, name);
  k.n = x->dims[0];
  if (k.n < 1 || !k.shown.elements)
    ctx_fail(c, E_SHAPE, "%s: '%s' has no %s", file, name, k.n < 1 ? "samples" : "elements");
  if (d->columns.n && d->columns.v[0].n != k.n)
    ctx_fail(c, E_SHAPE,
             "%s: '%s' has %lld samples, and '%s' has %lld; arrays that go together are named as NAME=FILE:ARRAY, with "
             "commas between them",
             file, name, (long long)k.n, d->columns.v[0].shown.name, (long long)d->columns.v[0].n);
  k.shown.name = free_name(c, d, name);
  vec_push(ctx_arena(c), d->columns, k);
}

/* ---- .npy and .npz --------------------------------------------------------------------------- */
static void add_array(ctx *c, dataset *d, const data_source *s, const char *named, const ndarray *x) {
  const char *name = s->name ? s->name : named;
  if (x->type != ET_STR)
    dataset_add(c, d, s->path, name, x);
  else if (x->rank == 1)
    dataset_add_texts(c, d, s->path, name, x->data, x->dims[0]);
  else
    ctx_fail(c, E_UNSUPPORTED, "%s: '%s' is an array of texts; only one text for each sample is possible, its class",
             s->path, name);
}
/* The file's name without its folder and all that follows the first dot in it. */
static const char *base_name(ctx *c, const char *path) {
  const char *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path;
  const size_t n = strcspn(from, ".");
  return n ? arena_strndup(ctx_arena(c), from, n) : "x";
}
static void read_npy(ctx *c, dataset *d, const data_source *s) {
  ndarray x;
  if (!npy_read(c, s->content, s->path, &x)) ctx_unwind(c);
  add_array(c, d, s, base_name(c, s->path), &x);
}
static void read_npz(ctx *c, dataset *d, const data_source *s) {
  npz z;
  if (!npz_read(c, s->path, &z)) ctx_unwind(c);
  if (s->name && !s->member && z.n != 1)
    ctx_fail(c, E_USAGE, "%s=%s: the file has %u arrays; name one, as in %s=%s:ARRAY", s->name, s->path, z.n, s->name,
             s->path);
  bool found = false;
  for (uint32_t i = 0; i < z.n; i++) {
    if (s->member && strcmp(s->member, z.names[i])) continue;
    add_array(c, d, s, z.names[i], &z.arrays[i]);
    found = true;
  }
  if (!found && s->member)
    ctx_fail(c, E_USAGE, "%s has no array '%s'%s", s->path, s->member,
             did_you_mean(ctx_arena(c), s->member, z.names, z.n));
}
static bool is_npy(bytes b) { return b.n >= 6 && !memcmp(b.p, "\x93NUMPY", 6); }
static bool is_zip(bytes b) { return b.n >= 4 && (!memcmp(b.p, "PK\3\4", 4) || !memcmp(b.p, "PK\5\6", 4)); }

/* ---- folders --------------------------------------------------------------------------------- */
/* The labels' name that goes with a name of images: train-images-idx3-ubyte and train-labels-idx1-ubyte. NULL: the name
 * is none of images. */
static char *labels_name(ctx *c, const char *images) {
  const char *at = strstr(images, "images"), *idx = at ? strstr(at, "idx") : NULL;
  if (!idx || idx[3] < '2' || idx[3] > '9') return NULL;
  char *name = arena_strdup(ctx_arena(c), images);
  memcpy(name + (at - images), "labels", 6);
  name[idx - images + 3] = '1';
  return name;
}
static void read_source(ctx *c, dataset *d, data_source *s);
/* Folders of images, or names of MNIST: images and labels in pairs. */
static void read_folder(ctx *c, dataset *d, const data_source *s) {
  strvec names;
  if (!folder_names(c, s->path, &names)) ctx_unwind(c);
  if (!s->member && read_image_folder(c, d, s, &names)) return;
  const char *images = NULL, *beginning = s->member ? s->member : "";
  uint32_t pairs = 0;
  for (int pass = 0; pass < 2 && pairs != 1; pass++) { /* among several, those for training */
    pairs = 0;
    for (uint32_t i = 0; i < names.n; i++) {
      const char *name = names.v[i];
      if (strncmp(name, beginning, strlen(beginning)) || !labels_name(c, name)) continue;
      if (pass && !strstr(name, "train-images")) continue;
      images = name, pairs++;
    }
  }
  if (pairs != 1)
    ctx_fail(c, E_USAGE,
             "the folder %s has %s: a folder of images (.png, .jpg) for each class is expected, or files such as "
             "train-images-idx3-ubyte and train-labels-idx1-ubyte, and FOLDER:BEGINNING names a pair by what its "
             "files' names "
             "begin with",
             s->path, pairs ? "several pairs of IDX files" : "neither folders of images nor a pair of IDX files");
  for (int i = 0; i < 2; i++) {
    const char *name = i ? labels_name(c, images) : images;
    data_source file = {.name = i || !s->name ? NULL : s->name, .path = path_join(ctx_arena(c), s->path, name)};
    read_source(c, d, &file);
  }
}

void read_idx(ctx *c, dataset *d, const data_source *s) {
  const ndarray x = idx_read(c, s->path, s->content);
  dataset_add(c, d, s->path, s->name ? s->name : x.rank > 1 ? "images" : "labels", &x);
}
/* ---- paths ----------------------------------------------------------------------------------- */
static void read_source(ctx *c, dataset *d, data_source *s) {
  if (is_folder(s->path)) {
    read_folder(c, d, s);
    return;
  }
  if (!file_map(c, s->path, &s->content)) ctx_unwind(c);
  if (is_zip(s->content)) {
    read_npz(c, d, s);
    return;
  }
  if (s->member) ctx_fail(c, E_USAGE, "%s:%s: only a .npz file has named arrays", s->path, s->member);
  if (is_gzip(s->content)) s->content = gzip_read(c, s->path, s->content);
  if (is_npy(s->content))
    read_npy(c, d, s);
  else if (is_idx(s->content))
    read_idx(c, d, s);
  else if (is_csv(s))
    read_csv(c, d, s);
  else if (d->o.sequence)
    read_text(c, d, s);
  else
    ctx_fail(
        c, E_UNSUPPORTED,
        "%s: the format is not known; .npy, .npz, IDX (also packed by gzip), files named .csv, folders of images or "
        "IDX files are, and a text with --sequence",
        s->path);
}
/* [NAME=]FILE[:MEMBER]: whatever exists under the whole text is a file. */
static data_source parse_source(ctx *c, const char *text) {
  data_source s = {.path = text};
  const char *equals = strchr(text, '=');
  if (!file_exists(text) && equals && equals > text)
    s.name = arena_strndup(ctx_arena(c), text, (size_t)(equals - text)), s.path = equals + 1;
  const char *colon = strrchr(s.path, ':');
  if (!file_exists(s.path) && colon && colon > s.path && colon[1])
    s.path = arena_strndup(ctx_arena(c), s.path, (size_t)(colon - s.path)), s.member = colon + 1;
  return s;
}
static void read_path(ctx *c, dataset *d, const char *path) {
  if (file_exists(path) || !strchr(path, ',')) {
    data_source s = parse_source(c, path);
    read_source(c, d, &s);
    return;
  }
  for (const char *p = path;; p++) {
    const size_t n = strcspn(p, ",");
    if (!n) ctx_fail(c, E_USAGE, "%s: a name of a file is missing at a comma", path);
    data_source s = parse_source(c, arena_strndup(ctx_arena(c), p, n));
    read_source(c, d, &s);
    p += n;
    if (!*p) break;
  }
}
static int32_t choose_target(ctx *c, const dataset *d) {
  if (!d->o.target) return d->columns.n > 1 ? (int32_t)d->columns.n - 1 : -1;
  const int32_t k = dataset_find(d, d->o.target);
  if (k >= 0) return k;
  const char **names = NEWN(ctx_arena(c), const char *, d->columns.n);
  for (uint32_t i = 0; i < d->columns.n; i++) names[i] = d->columns.v[i].shown.name;
  ctx_fail(c, E_USAGE, "%s has no column '%s' for the target%s", d->path, d->o.target,
           did_you_mean(ctx_arena(c), d->o.target, names, d->columns.n));
}
dataset *dataset_open(ctx *c, const char *path, const dataset_options *o, const dataset *like) {
  dataset *d = NEW(ctx_arena(c), dataset);
  *d = (dataset){.path = arena_strdup(ctx_arena(c), path), .like = like, .o = *o};
  read_path(c, d, d->path);
  if (!d->columns.n) ctx_fail(c, E_IO, "%s has no arrays", path);
  d->target = choose_target(c, d);
  return d;
}

/* ---- what is there --------------------------------------------------------------------------- */
int64_t dataset_count(const dataset *d) { return d->columns.v[0].n; }
uint32_t dataset_columns(const dataset *d) { return d->columns.n; }
const dataset_column *dataset_column_at(const dataset *d, uint32_t column) { return &d->columns.v[column].shown; }
int32_t dataset_target(const dataset *d) { return d->target; }
int32_t dataset_find(const dataset *d, const char *name) {
  for (uint32_t i = 0; i < d->columns.n; i++)
    if (!strcmp(d->columns.v[i].shown.name, name)) return (int32_t)i;
  return -1;
}
