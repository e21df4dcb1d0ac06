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
/* The elements are finite floats of the type, which has one byte; drop: bits of f32's mantissa that it has not. */
static bool all_small(const uint8_t *p, size_t n, etype t, int drop) {
  const uint32_t rest = (1u << drop) - 1;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    uint8_t code;
    float f;
    memcpy(&bits, p + 4 * i, 4), memcpy(&f, p + 4 * i, 4);
    if (bits & rest || !isfinite(f)) return false;
    et_store(t, &code, (scalar){.f = f});
    const float back = (float)et_load(t, &code).f;
    if (memcmp(&back, &f, 4)) return false;
  }
  return true;
}
static etype fewer(const uint8_t *p, size_t n) {
  bool i8 = true, u8 = true, e4m3 = true, e5m2 = true, same = true;
  for (size_t at = 0; at < n && (i8 || u8 || e4m3 || e5m2); at += STRETCH) {
    size_t k = n - at < STRETCH ? n - at : STRETCH;
    const uint8_t *q = p + 4 * at;
    i8 = i8 && all_of(q, k, -128), u8 = u8 && all_of(q, k, 0);
    e4m3 = e4m3 && all_small(q, k, ET_F8E4M3FN, 20), e5m2 = e5m2 && all_small(q, k, ET_F8E5M2, 21);
    for (size_t i = 0; i < k && same; i++) same = !memcmp(p, q + 4 * i, 4);
  }
  return same ? ET_NONE : i8 ? ET_I8 : u8 ? ET_U8 : e4m3 ? ET_F8E4M3FN : e5m2 ? ET_F8E5M2 : ET_NONE;
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
  for (size_t i = 0; i < (size_t)n; i++) {
    float f;
    memcpy(&f, p + 4 * i, 4);
    if (et_kind(k) == K_FLOAT)
      et_store(k, to + i, (scalar){.f = f});
    else
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
