/* What do the texts of options say? */
#include "data/image.h"
#include <math.h>
#include <string.h>

static double fraction(ctx *c, const char *text) {
  char *end;
  const double x = num_parse(c, text, &end);
  if (end == text || *end || !(x > 0 && x < 1))
    ctx_fail(c, E_USAGE, "--split %s: a fraction of the samples is expected, such as 0.2", text);
  return x;
}
/* A whole number of at least 1 at *p, which moves behind it; 0: there is none, or it is above the limit. */
static int64_t number(const char **p, int64_t limit) {
  char *end;
  if (**p < '0' || **p > '9') return 0;
  const int64_t x = int_parse(*p, &end);
  *p = end;
  return x <= limit ? x : 0;
}
/* HEIGHT, HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS */
static void image_size(ctx *c, const char *text, dataset_options *o) {
  const char *p = text;
  int64_t v[3] = {0};
  int n = 0;
  for (;; p++) {
    v[n] = number(&p, n < 2 ? IMAGE_MAX_SIDE : 3);
    if (!v[n++] || n == 3 || *p != 'x') break;
  }
  if (*p || !v[n - 1] || v[2] == 2)
    ctx_fail(
        c, E_USAGE,
        "--image-size %s: HEIGHT, HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS is expected, such as 32x32x3; channels are 1 "
        "(gray) or 3 (RGB)",
        text);
  o->image_height = (uint32_t)v[0], o->image_width = (uint32_t)v[n > 1], o->image_channels = (uint32_t)v[2];
}
/* flip, crop:PIXELS, noise:DEVIATION, with commas between them */
static void augmentation(ctx *c, const char *text, dataset_augment *g) {
  *g = (dataset_augment){0};
  for (const char *p = text;; p++) {
    bool good = true;
    if (!strncmp(p, "flip", 4)) {
      g->flip = true, p += 4;
    } else if (!strncmp(p, "crop:", 5)) {
      p += 5, g->crop = (uint32_t)number(&p, IMAGE_MAX_SIDE);
      good = g->crop > 0;
    } else if (!strncmp(p, "noise:", 6)) {
      char *end;
      g->noise = num_parse(c, p + 6, &end);
      good = g->noise > 0 && g->noise < HUGE_VAL, p = end;
    } else {
      good = false;
    }
    if (!good || (*p && *p != ','))
      ctx_fail(c, E_USAGE,
               "--augment %s: flip, crop:PIXELS and noise:DEVIATION are expected, with commas between them, such as "
               "flip,crop:4,noise:0.1",
               text);
    if (!*p) break;
  }
}
static int64_t sequence(ctx *c, const char *text) {
  const char *p = text;
  const int64_t n = number(&p, INT32_MAX);
  if (!n || *p) ctx_fail(c, E_USAGE, "--sequence %s: a number of tokens is expected, such as 64", text);
  return n;
}
bool dataset_option(ctx *c, dataset_options *o, const char *name, const char *value) {
  if (!strcmp(name, "target"))
    o->target = value;
  else if (!strcmp(name, "split"))
    o->split = fraction(c, value);
  else if (!strcmp(name, "standardize"))
    o->standardize = true;
  else if (!strcmp(name, "image-size"))
    image_size(c, value, o);
  else if (!strcmp(name, "augment"))
    augmentation(c, value, &o->augment);
  else if (!strcmp(name, "sequence"))
    o->sequence = sequence(c, value);
  else if (!strcmp(name, "vocabulary"))
    o->vocabulary = value;
  else
    return false;
  return true;
}
