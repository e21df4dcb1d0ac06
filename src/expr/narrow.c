/* Which constants are kept in fewer bytes than they have? Those whose values are whole numbers of one byte, or finite
 * floats of one byte: the weights of a quantised model, folded to floats for the sake of the products that read them.
 * Their floats are made where and when somebody wants them (program/weights.c, straight into a pack); whoever else
 * asks, as the evaluator does, has them made by expr_data. What is the same number everywhere is left alone: the
 * simplifier sees that from the bytes. */
#include "expr/expr.h"
#include <math.h>
#include <string.h>

enum { MIN_BYTES = 1 << 16 /* bytes */, STRETCH = 4096 };

/* The bits of the numbers 0..255 less `low` are those of the elements, -0 is none of them. */
static bool all_of(const uint8_t *p, size_t n, int32_t low) {
  int32_t odd = 0;
  for (size_t i = 0; i < n; i++) {
    float f, g;
    memcpy(&f, p + 4 * i, 4);
    int32_t q = (int32_t)(f >= (float)low && f <= (float)(low + 255) ? f : 0.0f), x, y;
    g = (float)q;
    memcpy(&x, &f, 4), memcpy(&y, &g, 4);
    odd |= x ^ y;
  }
  return !odd;
}
/* Finite floats of one byte. */
typedef struct small_type {
  uint32_t rest;  /* bits of f32's mantissa that it has not */
  float normal;   /* its least normal number */
  float step;     /* distance of the numbers below that */
  float greatest; /* its greatest finite number */
} small_type;
static const small_type e4m3 = {(1 << 20) - 1, 0x1p-6f, 0x1p-9f, 448},
                        e5m2 = {(1 << 21) - 1, 0x1p-14f, 0x1p-16f, 57344};
/* Are all elements finite floats of that type? */
static bool all_small(const uint8_t *p, size_t n, const small_type *t) {
  const float whole = t->step * 0x1p23f; /* added to a smaller number, it leaves multiples of the step */
  int32_t odd = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    float f;
    memcpy(&bits, p + 4 * i, 4), memcpy(&f, p + 4 * i, 4);
    const float size = fabsf(f);
    const bool normal = size >= t->normal && size <= t->greatest && !(bits & t->rest),
               below = size < t->normal && (size + whole) - whole == size;
    odd |= !(normal | below);
  }
  return !odd;
}
static etype fewer(const uint8_t *p, size_t n) {
  bool i8 = true, u8 = true, four = true, five = true, same = true;
  for (size_t at = 0; at < n && (i8 || u8); at += STRETCH) {
    const size_t k = n - at < STRETCH ? n - at : STRETCH;
    i8 = i8 && all_of(p + 4 * at, k, -128), u8 = u8 && all_of(p + 4 * at, k, 0);
  }
  for (size_t at = 0; at < n && !i8 && !u8 && (four || five); at += STRETCH) {
    const size_t k = n - at < STRETCH ? n - at : STRETCH;
    four = four && all_small(p + 4 * at, k, &e4m3), five = five && all_small(p + 4 * at, k, &e5m2);
  }
  for (size_t i = 0; i < n && same; i++) same = !memcmp(p, p + 4 * i, 4);
  return same ? ET_NONE : i8 ? ET_I8 : u8 ? ET_U8 : four ? ET_F8E4M3FN : five ? ET_F8E5M2 : ET_NONE;
}
/* The codes of floats of one byte: the upper half of an f32 tells which one it is. */
static void write_small(etype k, const uint8_t *p, size_t n, uint8_t *to) {
  uint8_t code_of[1 << 16] = {0};
  for (uint32_t i = 0; i < 256; i++) {
    const uint8_t code = (uint8_t)i;
    const float f = (float)et_load(k, &code).f;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (isfinite(f)) code_of[bits >> 16] = code;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, p + 4 * i, 4);
    to[i] = code_of[bits >> 16];
  }
}
void expr_narrow(emodule *m, tid t) {
  tensor *x = xt(m, t);
  const uint8_t *p = x->data.data;
  int64_t n;
  if (x->kind != TK_CONST || x->type != ET_F32 || !p || x->data.bytes < MIN_BYTES || !nd_count(&x->data, &n) ||
      (size_t)n * 4 != x->data.bytes)
    return;
  etype k = fewer(p, (size_t)n);
  if (!k) return;
  uint8_t *to = arena_alloc(m->a, (size_t)n);
  if (et_kind(k) == K_FLOAT)
    write_small(k, p, (size_t)n, to);
  else
    for (size_t i = 0; i < (size_t)n; i++) {
      float f;
      memcpy(&f, p + 4 * i, 4);
      to[i] = (uint8_t)(int32_t)f;
    }
  ctx_release(m->c, p, x->data.bytes);
  x->data.data = NULL;
  x->narrow = (narrow_bytes){k, {to, (size_t)n}};
}
void narrow_write(etype k, const uint8_t *from, size_t n, uint8_t *to) {
  float value[256];
  for (uint32_t i = 0; i < 256; i++) {
    const uint8_t code = (uint8_t)i;
    const scalar x = et_load(k == ET_I8 && EK_PLANTED("narrow-storage") ? ET_U8 : k, &code);
    value[i] = et_kind(k) == K_FLOAT ? (float)x.f : (float)x.i;
  }
  for (size_t i = 0; i < n; i++) memcpy(to + 4 * i, &value[from[i]], 4);
}
int64_t expr_constant_floats(const emodule *m) {
  int64_t all = 0, n;
  for (tid t = 1; t < m->tensors.n; t++)
    if (xt(m, t)->kind == TK_CONST && nd_count(&xt(m, t)->data, &n)) all += n * (int64_t)sizeof(float);
  return all;
}
