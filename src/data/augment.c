/* How does one image become many? Its mirror image, a window of the image with a border of zeros, and noise: all by
 * numbers that are a function of seed, epoch and sample. Flips and crops move stored elements, so that the border is
 * black whatever the transformation; noise is added to what has been transformed. */
#include "data/data_in.h"
#include <math.h>
#include <string.h>

static void words_of(const dataset_draw *r, random_use use, uint64_t i, uint32_t out[4]) {
  /* one key for each epoch, so that all of the counter is left for the sample and its elements */
  const uint32_t epoch[4] = {(uint32_t)r->epoch, (uint32_t)(r->epoch >> 32), 0, (uint32_t)use << 8};
  uint32_t key[4];
  philox(epoch, r->seed, key);
  const uint32_t at[4] = {(uint32_t)r->sample, (uint32_t)(r->sample >> 32), (uint32_t)i, (uint32_t)(i >> 32)};
  philox(at, (uint64_t)key[1] << 32 | key[0], out);
}
bool augments_place(const dataset_augment *g) { return g->flip || g->crop; }
/* out = from, mirrored and moved: the last two axes are rows and columns. */
void augment_place(ctx *c, const column *k, const dataset_augment *g, const dataset_draw *r, const uint8_t *from,
                   uint8_t *out) {
  const dataset_column *s = &k->shown;
  uint32_t word[4];
  if (s->rank < 2)
    ctx_fail(c, E_USAGE, "%s: flips and crops need images; samples of '%s' have %u axes", k->file, s->name, s->rank);
  const int64_t height = s->dims[s->rank - 2], width = s->dims[s->rank - 1], planes = s->elements / (height * width);
  const size_t size = et_bytes(s->type);
  words_of(r, RANDOM_PLACE, 0, word);
  const uint64_t places = 2 * (uint64_t)g->crop + 1;
  const int64_t dy = (int64_t)(word[1] * places >> 32) - g->crop, dx = (int64_t)(word[2] * places >> 32) - g->crop;
  const bool flip = g->flip && (word[0] & 1) && !EK_PLANTED("data-augment");
  memset(out, 0, k->bytes);
  for (int64_t p = 0; p < planes; p++)
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++) {
        const int64_t sy = y + dy, sx = (flip ? width - 1 - x : x) + dx;
        if (sy < 0 || sy >= height || sx < 0 || sx >= width) continue;
        memcpy(out + (size_t)((p * height + y) * width + x) * size,
               from + (size_t)((p * height + sy) * width + sx) * size, size);
      }
}
/* Adds numbers of a normal distribution (Box and Muller 1958), four from each word of random numbers. */
void augment_noise(double deviation, const dataset_draw *r, const dataset_transform *t, size_t n, uint8_t *p) {
  const etype type = t->type;
  const size_t group = t->noise ? n / t->groups : n;
  for (size_t i = 0; i < n; i += 4) {
    const size_t m = n - i < 4 ? n - i : 4;
    uint32_t word[4];
    double z[4], x[4];
    words_of(r, RANDOM_NOISE, i / 4, word);
    for (int k = 0; k < 4; k += 2) {
      const double radius = sqrt(-2 * log((word[k] + 0.5) * 0x1p-32)), angle = word[k + 1] * 0x1p-31 * acos(-1);
      z[k] = radius * cos(angle), z[k + 1] = radius * sin(angle);
    }
    elements_load(type, p + i * et_bytes(type), m, x);
    for (size_t k = 0; k < m; k++) x[k] += (t->noise ? t->noise[(i + k) / group] : 1) * deviation * z[k];
    elements_store(type, x, m, p + i * et_bytes(type));
  }
}
