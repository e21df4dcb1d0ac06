/* What does a sample look like in a batch? Stored elements become those of the wanted type: as they are where the types
 * are equal, integer to integer exactly, and otherwise through double, in which the transformation is computed, with
 * one rounding at the end. */
#include "data/data_in.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 256 }; /* elements converted at a time */

/* ---- double and the element types: loops over the common ones -------------------------------- */
void elements_load(etype t, const uint8_t *p, size_t n, double *out) {
#define LOOP(id, type)                                                                                                 \
  case id:                                                                                                             \
    for (size_t i = 0; i < n; i++) out[i] = (double)((const type *)(const void *)p)[i];                                \
    break
  switch (t) {
    LOOP(ET_F64, double);
    LOOP(ET_F32, float);
    LOOP(ET_U8, uint8_t);
    LOOP(ET_U32, uint32_t);
    LOOP(ET_I64, int64_t);
  default:
    for (size_t i = 0; i < n; i++) out[i] = et_number(t, p + i * et_bytes(t));
  }
}
void elements_store(etype t, const double *x, size_t n, uint8_t *p) {
  switch (t) {
  case ET_F64:
    memcpy(p, x, n * sizeof *x);
    break;
  case ET_F32:
    for (size_t i = 0; i < n; i++) {
      const float f = (float)x[i];
      memcpy(p + 4 * i, &f, 4);
    }
    break;
  default:
    for (size_t i = 0; i < n; i++) et_store(t, p + i * et_bytes(t), (scalar){.f = x[i]});
  }
}

/* ---- integers -------------------------------------------------------------------------------- */
static bool is_integer_type(etype t) { return et_kind(t) != K_FLOAT; }
/* The value of an integer; false: it is beyond int64 (and fits u64 alone). */
static bool whole(etype t, const uint8_t *p, int64_t *x) {
  *x = et_load(t, p).i;
  return t != ET_U64 || *x >= 0;
}
static bool whole_float(double f, int64_t *x) {
  if (!(f >= -0x1p63 && f < 0x1p63) || f != floor(f)) return false;
  *x = (int64_t)f;
  return true;
}
static bool in_range(etype t, int64_t x) {
  return t == ET_I64 || (t == ET_U64 && x >= 0) || (t == ET_BOOL && (x == 0 || x == 1)) ||
         (t != ET_U64 && t != ET_BOOL && (double)x >= et_lowest(t) && (double)x <= et_highest(t));
}
static _Noreturn void no_value(ctx *c, const column *k, int64_t i, etype type, double x) {
  sbuf text = sbuf_new(ctx_arena(c));
  sb_double(&text, x);
  ctx_fail(c, E_SHAPE, "%s: column '%s', sample %lld: %s is no value of %s", k->file, k->shown.name, (long long)i,
           text.s, et_name(type));
}
static void to_integers(ctx *c, const column *k, int64_t i, const uint8_t *from, etype type, uint8_t *out) {
  const etype t = k->shown.type;
  for (int64_t e = 0; e < k->shown.elements; e++, from += et_bytes(t), out += et_bytes(type)) {
    int64_t x;
    const bool known = is_integer_type(t) ? whole(t, from, &x) : whole_float(et_number(t, from), &x);
    if (!known || !in_range(type, x)) no_value(c, k, i, type, et_number(t, from));
    et_store(type, out, (scalar){.i = x});
  }
}

/* ---- samples --------------------------------------------------------------------------------- */
static void to_floats(const column *k, const uint8_t *from, const dataset_transform *t, etype type, uint8_t *out) {
  double x[CHUNK];
  const size_t n = (size_t)k->shown.elements, group = t->groups ? n / t->groups : n, width = et_bytes(k->shown.type);
  for (size_t e = 0, m; e < n; e += m) {
    const size_t g = e / group, left = (g + 1) * group - e;
    m = left < CHUNK ? left : CHUNK;
    elements_load(k->shown.type, from + e * width, m, x);
    if (t->groups)
      for (size_t j = 0; j < m; j++) x[j] = (x[j] - t->mean[g]) * t->factor[g];
    elements_store(type, x, m, out + e * et_bytes(type));
  }
}
/* The sample as stored, moved by augmentation if g says so: where it lies, or in the arena. */
static const uint8_t *stored(arena *a, const column *k, const dataset_draw *r, const dataset_augment *g) {
  const uint8_t *from = k->data ? k->data + (size_t)r->sample * k->bytes : NULL;
  if (!from) {
    uint8_t *made = arena_alloc(a, k->bytes);
    k->fill(a, k->env, r->sample, made);
    from = made;
  }
  if (!g || !augments_place(g)) return from;
  uint8_t *moved = arena_alloc(a, k->bytes);
  augment_place(arena_ctx(a), k, g, r, from, moved);
  return moved;
}
void dataset_read_augmented(ctx *c, const dataset *d, uint32_t column_number, const dataset_draw *r,
                            const dataset_transform *t, const dataset_augment *g, void *out) {
  const column *k = &d->columns.v[column_number];
  const etype type = t->type == ET_NONE ? k->shown.type : t->type;
  if (r->sample < 0 || r->sample >= k->n)
    ctx_bug(c, "sample %lld of %lld is asked for", (long long)r->sample, (long long)k->n);
  if (t->groups && (k->shown.elements % t->groups || is_integer_type(type)))
    ctx_bug(c, "%u groups of %lld elements become %s", t->groups, (long long)k->shown.elements, et_name(type));
  if (g && g->noise > 0 && is_integer_type(type))
    ctx_fail(c, E_USAGE, "%s: noise needs floats; '%s' is read as %s", k->file, k->shown.name, et_name(type));
  arena *scratch = k->data && (!g || !augments_place(g)) ? NULL : arena_new(c);
  const uint8_t *from = stored(scratch, k, r, g);
  if (type == k->shown.type && !t->groups)
    memcpy(out, from, k->bytes);
  else if (is_integer_type(type))
    to_integers(c, k, r->sample, from, type, out);
  else
    to_floats(k, from, t, type, out);
  dataset_transform how = *t;
  how.type = type;
  if (g && g->noise > 0) augment_noise(g->noise, r, &how, (size_t)k->shown.elements, out);
  if (scratch) arena_free(scratch);
}
void dataset_read(ctx *c, const dataset *d, uint32_t column_number, int64_t i, const dataset_transform *t, void *out) {
  dataset_read_augmented(c, d, column_number, &(dataset_draw){.sample = i}, t, NULL, out);
}
dataset_transform dataset_converted(const dataset *d, uint32_t column_number, etype type) {
  static const double zero = 0, factor = 1.0 / 255;
  const dataset_column *k = dataset_column_at(d, column_number);
  const bool image = k->type == ET_U8 && k->rank >= 2 && et_kind(type) == K_FLOAT;
  return image ? (dataset_transform){.type = type, .groups = 1, .mean = &zero, .factor = &factor}
               : (dataset_transform){.type = type};
}
