/* What does one scalar operation give, lane by lane?
 *
 * The definitions of ops.h, spelled out: floats in their own precision (transcendental functions through double, then
 * rounded), narrow floats in f32 and rounded to their type afterwards (for + - * / and sqrt that is the correctly
 * rounded result, f32 having more than twice their digits), integers in 64 bits and wrapped. One long dispatch per
 * class of lanes.
 */
#include "eval/eval_in.h"
#include <math.h>
#include <string.h>

/* ---- lanes and memory ------------------------------------------------------------------------ */
static int64_t wrap(etype t, int64_t x) {
  switch (t) {
  case ET_I64:
  case ET_U64:
    return x;
  case ET_I32:
    return (int32_t)x;
  case ET_U32:
    return (uint32_t)x;
  case ET_I16:
    return (int16_t)x;
  case ET_U16:
    return (uint16_t)x;
  case ET_I8:
    return (int8_t)x;
  case ET_U8:
    return (uint8_t)x;
  case ET_BOOL:
    return x != 0;
  default:
    return et_round(t, (scalar){.i = x}).i;
  }
}
scalar lanes_get(etype t, const strip *r, uint32_t i) {
  lane_class lc = lanes_of(t);
  return lc == LC_INT ? (scalar){.i = r->i[i]} : (scalar){.f = lc == LC_F64 ? r->d[i] : (double)r->f[i]};
}
void lanes_put(etype t, strip *r, uint32_t i, scalar k) {
  lane_class lc = lanes_of(t);
  if (lc == LC_INT)
    r->i[i] = k.i;
  else if (lc == LC_F64)
    r->d[i] = k.f;
  else
    r->f[i] = (float)k.f;
}
void lanes_fill(etype t, strip *r, scalar k, uint32_t n) {
  lane_class lc = lanes_of(t);
  for (uint32_t i = 0; i < n && lc == LC_INT; i++) r->i[i] = k.i;
  for (uint32_t i = 0; i < n && lc == LC_F64; i++) r->d[i] = k.f;
  for (uint32_t i = 0; i < n && lc == LC_F32; i++) r->f[i] = (float)k.f;
}
static float bf16_round(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  if (x != x) return x;
  u += 0x7fff + (u >> 16 & 1);
  u &= 0xffff0000u;
  memcpy(&x, &u, 4);
  return x;
}
/* The f16 next to x, as a float: the quantum of what f16 holds as a subnormal is 2^-24, else 13 bits are rounded
 * away. */
static float f16_round(float x) {
  uint32_t u;
  float a = fabsf(x);
  if (!(a < 65520.0f)) return x != x ? x : copysignf(INFINITY, x);
  if (a < 0x1p-14f) return copysignf((a + 0.5f) - 0.5f, x);
  memcpy(&u, &x, 4);
  u += 0xfff + (u >> 13 & 1);
  u &= ~0x1fffu;
  memcpy(&x, &u, 4);
  return x;
}
static float f16_float(uint16_t h) {
  uint32_t u = (uint32_t)(h & 0x7fff) << 13;
  float x;
  if (u >= 0x7c00u << 13) u |= 0x7f800000u;
  memcpy(&x, &u, 4);
  if (u < 0x7f800000u) x *= 0x1p112f;
  return h & 0x8000 ? -x : x;
}
static float bf16_float(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}
void lanes_round(etype t, strip *r, uint32_t n) {
  if (t == ET_F32 || t == ET_F64 || t == ET_I64 || t == ET_U64) return;
  if (t == ET_BF16)
    for (uint32_t i = 0; i < n; i++) r->f[i] = bf16_round(r->f[i]);
  else if (t == ET_F16)
    for (uint32_t i = 0; i < n; i++) r->f[i] = f16_round(r->f[i]);
  else if (lanes_of(t) == LC_F32)
    for (uint32_t i = 0; i < n; i++) r->f[i] = (float)et_round(t, (scalar){.f = (double)r->f[i]}).f;
  else
    for (uint32_t i = 0; i < n; i++) r->i[i] = wrap(t, r->i[i]);
}
#define READ(field, T)                                                                                                 \
  {                                                                                                                    \
    typedef T raw __attribute__((aligned(1), may_alias)); /* constants of a mapped file lie anywhere */                \
    const raw *p = base;                                                                                               \
    if (at)                                                                                                            \
      for (uint32_t i = 0; i < n; i++) r->field[i] = p[at[i] + add];                                                   \
    else                                                                                                               \
      for (uint32_t i = 0; i < n; i++) r->field[i] = p[add + i];                                                       \
    return;                                                                                                            \
  }
typedef uint16_t raw16 __attribute__((aligned(1), may_alias));
void lanes_read(etype t, strip *r, const void *base, const int64_t *at, int64_t add, uint32_t n) {
  switch (t) {
  case ET_F32:
    READ(f, float)
  case ET_F64:
    READ(d, double)
  case ET_I64:
  case ET_U64:
    READ(i, int64_t)
  case ET_I32:
    READ(i, int32_t)
  case ET_U32:
    READ(i, uint32_t)
  case ET_I16:
    READ(i, int16_t)
  case ET_U16:
    READ(i, uint16_t)
  case ET_I8:
    READ(i, int8_t)
  case ET_U8:
    READ(i, uint8_t)
  case ET_F16: {
    const raw16 *p = base;
    for (uint32_t i = 0; i < n; i++) r->f[i] = f16_float(p[(at ? at[i] : (int64_t)i) + add]);
    return;
  }
  case ET_BF16: {
    const raw16 *p = base;
    for (uint32_t i = 0; i < n; i++) r->f[i] = bf16_float(p[(at ? at[i] : (int64_t)i) + add]);
    return;
  }
  default: {
    uint32_t w = et_bytes(t);
    for (uint32_t i = 0; i < n; i++)
      lanes_put(t, r, i, et_load(t, (const char *)base + ((at ? at[i] : (int64_t)i) + add) * w));
  }
  }
}
#define WRITE(field, T)                                                                                                \
  {                                                                                                                    \
    T *p = (T *)base + at;                                                                                             \
    for (uint32_t i = 0; i < n; i++) p[i] = (T)r->field[i];                                                            \
    return;                                                                                                            \
  }
void lanes_write(etype t, void *base, int64_t at, const strip *r, uint32_t n) {
  switch (t) {
  case ET_F32:
    WRITE(f, float)
  case ET_F64:
    WRITE(d, double)
  case ET_I64:
  case ET_U64:
    WRITE(i, int64_t)
  case ET_I32:
  case ET_U32:
    WRITE(i, int32_t)
  case ET_I16:
  case ET_U16:
    WRITE(i, int16_t)
  case ET_I8:
  case ET_U8:
    WRITE(i, int8_t)
  default: {
    uint32_t w = et_bytes(t);
    for (uint32_t i = 0; i < n; i++) et_store(t, (char *)base + (at + i) * w, lanes_get(t, r, i));
  }
  }
}

/* ---- floats ---------------------------------------------------------------------------------- */
#define LOOP(x)                                                                                                        \
  for (uint32_t i = 0; i < n; i++) { x; }                                                                              \
  break
#define FLOAT_OPS(NAME, T, M, SUFFIX)                                                                                  \
  static bool NAME(sop op, strip *r, const strip *pa, const strip *pb, const strip *pc, uint32_t n) {                  \
    const T *a = pa->M, *b = pb->M, *c = pc->M;                                                                        \
    T *o = r->M;                                                                                                       \
    switch (op) {                                                                                                      \
    case OP_ADD:                                                                                                       \
      LOOP(o[i] = a[i] + b[i]);                                                                                        \
    case OP_SUB:                                                                                                       \
      LOOP(o[i] = a[i] - b[i]);                                                                                        \
    case OP_MUL:                                                                                                       \
      LOOP(o[i] = a[i] * b[i]);                                                                                        \
    case OP_DIV:                                                                                                       \
      LOOP(o[i] = a[i] / b[i]);                                                                                        \
    case OP_IDIV:                                                                                                      \
      LOOP(o[i] = floor##SUFFIX(a[i] / b[i]));                                                                         \
    case OP_MOD:                                                                                                       \
      LOOP(T m = fmod##SUFFIX(a[i], b[i]); o[i] = m != 0 && (m < 0) != (b[i] < 0) ? m + b[i] : m);                     \
    case OP_FMOD:                                                                                                      \
      LOOP(o[i] = fmod##SUFFIX(a[i], b[i]));                                                                           \
    case OP_NEG:                                                                                                       \
      LOOP(o[i] = -a[i]);                                                                                              \
    case OP_ABS:                                                                                                       \
      LOOP(o[i] = fabs##SUFFIX(a[i]));                                                                                 \
    case OP_SIGN:                                                                                                      \
      LOOP(o[i] = a[i] != a[i] ? a[i] : (T)((a[i] > 0) - (a[i] < 0)));                                                 \
    case OP_MIN:                                                                                                       \
      LOOP(o[i] = a[i] != a[i] ? a[i] : b[i] != b[i] ? b[i] : b[i] < a[i] ? b[i] : a[i]);                              \
    case OP_MAX:                                                                                                       \
      LOOP(o[i] = a[i] != a[i] ? a[i] : b[i] != b[i] ? b[i] : b[i] > a[i] ? b[i] : a[i]);                              \
    case OP_FMA:                                                                                                       \
      LOOP(o[i] = fma##SUFFIX(a[i], b[i], c[i]));                                                                      \
    case OP_POW:                                                                                                       \
      LOOP(o[i] = (T)pow((double)a[i], (double)b[i]));                                                                 \
    case OP_EXP:                                                                                                       \
      LOOP(o[i] = (T)exp((double)a[i]));                                                                               \
    case OP_LOG:                                                                                                       \
      LOOP(o[i] = (T)log((double)a[i]));                                                                               \
    case OP_SQRT:                                                                                                      \
      LOOP(o[i] = sqrt##SUFFIX(a[i]));                                                                                 \
    case OP_SIN:                                                                                                       \
      LOOP(o[i] = (T)sin((double)a[i]));                                                                               \
    case OP_COS:                                                                                                       \
      LOOP(o[i] = (T)cos((double)a[i]));                                                                               \
    case OP_TAN:                                                                                                       \
      LOOP(o[i] = (T)tan((double)a[i]));                                                                               \
    case OP_ASIN:                                                                                                      \
      LOOP(o[i] = (T)asin((double)a[i]));                                                                              \
    case OP_ACOS:                                                                                                      \
      LOOP(o[i] = (T)acos((double)a[i]));                                                                              \
    case OP_ATAN:                                                                                                      \
      LOOP(o[i] = (T)atan((double)a[i]));                                                                              \
    case OP_SINH:                                                                                                      \
      LOOP(o[i] = (T)sinh((double)a[i]));                                                                              \
    case OP_COSH:                                                                                                      \
      LOOP(o[i] = (T)cosh((double)a[i]));                                                                              \
    case OP_ASINH:                                                                                                     \
      LOOP(o[i] = (T)asinh((double)a[i]));                                                                             \
    case OP_ACOSH:                                                                                                     \
      LOOP(o[i] = (T)acosh((double)a[i]));                                                                             \
    case OP_ATANH:                                                                                                     \
      LOOP(o[i] = (T)atanh((double)a[i]));                                                                             \
    case OP_TANH:                                                                                                      \
      LOOP(o[i] = (T)tanh((double)a[i]));                                                                              \
    case OP_ERF:                                                                                                       \
      LOOP(o[i] = (T)erf((double)a[i]));                                                                               \
    case OP_FLOOR:                                                                                                     \
      LOOP(o[i] = floor##SUFFIX(a[i]));                                                                                \
    case OP_CEIL:                                                                                                      \
      LOOP(o[i] = ceil##SUFFIX(a[i]));                                                                                 \
    case OP_ROUND_EVEN:                                                                                                \
      LOOP(o[i] = nearbyint##SUFFIX(a[i]));                                                                            \
    case OP_TRUNC:                                                                                                     \
      LOOP(o[i] = trunc##SUFFIX(a[i]));                                                                                \
    case OP_LDEXP:                                                                                                     \
      LOOP(o[i] = ldexp##SUFFIX(a[i], (int)floor(fmax(-4000, fmin(b[i], 4000)))));                                     \
    case OP_NEXTAFTER:                                                                                                 \
      LOOP(o[i] = nextafter##SUFFIX(a[i], b[i]));                                                                      \
    case OP_ISNAN:                                                                                                     \
      LOOP(r->i[i] = a[i] != a[i]);                                                                                    \
    case OP_ISINF:                                                                                                     \
      LOOP(r->i[i] = isinf(a[i]) != 0);                                                                                \
    case OP_SIGNBIT:                                                                                                   \
      LOOP(r->i[i] = signbit(a[i]) != 0);                                                                              \
    case OP_EQ:                                                                                                        \
      LOOP(r->i[i] = a[i] == b[i]);                                                                                    \
    case OP_NE:                                                                                                        \
      LOOP(r->i[i] = a[i] != b[i]);                                                                                    \
    case OP_LT:                                                                                                        \
      LOOP(r->i[i] = a[i] < b[i]);                                                                                     \
    case OP_LE:                                                                                                        \
      LOOP(r->i[i] = a[i] <= b[i]);                                                                                    \
    case OP_GT:                                                                                                        \
      LOOP(r->i[i] = a[i] > b[i]);                                                                                     \
    case OP_GE:                                                                                                        \
      LOOP(r->i[i] = a[i] >= b[i]);                                                                                    \
    default:                                                                                                           \
      return false;                                                                                                    \
    }                                                                                                                  \
    return true;                                                                                                       \
  }
FLOAT_OPS(ops_f32, float, f, f)
FLOAT_OPS(ops_f64, double, d, )

/* The neighbour of a in a narrow type: codes of one sign are ordered like their values. */
static float narrow_next(etype t, float a, float b) {
  if (a != a || b != b) return NAN;
  if (a == b) return b;
  uint16_t code = 0, tiny = 1;
  uint16_t top = (uint16_t)(1u << (et_bits(t) - 1));
  et_store(t, &code, (scalar){.f = (double)a});
  if (a == 0) {
    float x = (float)et_load(t, &tiny).f;
    return b > 0 ? x : -x;
  }
  bool up = (b > a) == (a > 0); /* rounds away from zero */
  code = (uint16_t)((code & top) | ((up ? (code & (top - 1)) + 1 : (code & (top - 1)) - 1) & (top - 1)));
  return (float)et_load(t, &code).f;
}

/* ---- integers -------------------------------------------------------------------------------- */
static int64_t int_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t r = 1, x = (uint64_t)a;
  for (; b; b >>= 1, x *= x)
    if (b & 1) r *= x;
  return (int64_t)r;
}
static int64_t floor_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : floordiv64(a, b);
}
static int64_t floor_mod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : floormod64(a, b); }
static int64_t shift_left(int64_t a, int64_t s, int64_t bits) {
  return s < 0 || s >= bits ? 0 : (int64_t)((uint64_t)a << s);
}
static int64_t shift_right(int64_t a, int64_t s, int64_t bits, bool sign) {
  if (s < 0 || s >= bits) return sign && a < 0 ? -1 : 0;
  return sign ? a >> s : (int64_t)((uint64_t)a >> s);
}
static bool ops_int(sop op, etype t, strip *r, const strip *pa, const strip *pb, const strip *pc, uint32_t n) {
  const int64_t *a = pa->i, *b = pb->i, *c = pc->i;
  int64_t *o = r->i, bits = et_bits(t);
  bool sign = et_kind(t) == K_INT, big = t == ET_U64;
#define U(x) ((uint64_t)(x))
  switch (op) {
  case OP_ADD:
    LOOP(o[i] = (int64_t)(U(a[i]) + U(b[i])));
  case OP_SUB:
    LOOP(o[i] = (int64_t)(U(a[i]) - U(b[i])));
  case OP_MUL:
    LOOP(o[i] = (int64_t)(U(a[i]) * U(b[i])));
  case OP_FMA:
    LOOP(o[i] = (int64_t)(U(a[i]) * U(b[i]) + U(c[i])));
  case OP_IDIV:
    LOOP(o[i] = big ? b[i] ? (int64_t)(U(a[i]) / U(b[i])) : 0 : floor_div(a[i], b[i]));
  case OP_MOD:
    LOOP(o[i] = big ? b[i] ? (int64_t)(U(a[i]) % U(b[i])) : 0 : floor_mod(a[i], b[i]));
  case OP_FMOD:
    LOOP(o[i] = big ? b[i] ? (int64_t)(U(a[i]) % U(b[i])) : 0 : b[i] == 0 || b[i] == -1 ? 0 : a[i] % b[i]);
  case OP_NEG:
    LOOP(o[i] = (int64_t)(0 - U(a[i])));
  case OP_ABS:
    LOOP(o[i] = sign && a[i] < 0 ? (int64_t)(0 - U(a[i])) : a[i]);
  case OP_SIGN:
    LOOP(o[i] = sign ? (a[i] > 0) - (a[i] < 0) : a[i] != 0);
  case OP_MIN:
    LOOP(o[i] = (big ? U(b[i]) < U(a[i]) : b[i] < a[i]) ? b[i] : a[i]);
  case OP_MAX:
    LOOP(o[i] = (big ? U(b[i]) > U(a[i]) : b[i] > a[i]) ? b[i] : a[i]);
  case OP_POW:
    LOOP(o[i] = int_pow(a[i], sign ? b[i] : b[i] & INT64_MAX));
  case OP_BAND:
    LOOP(o[i] = a[i] & b[i]);
  case OP_BOR:
    LOOP(o[i] = a[i] | b[i]);
  case OP_BXOR:
    LOOP(o[i] = a[i] ^ b[i]);
  case OP_BNOT:
    LOOP(o[i] = t == ET_BOOL ? !a[i] : ~a[i]);
  case OP_SHL:
    LOOP(o[i] = shift_left(a[i], b[i], bits));
  case OP_SHR:
    LOOP(o[i] = shift_right(a[i], b[i], bits, sign));
  case OP_EQ:
    LOOP(o[i] = a[i] == b[i]);
  case OP_NE:
    LOOP(o[i] = a[i] != b[i]);
  case OP_LT:
    LOOP(o[i] = big ? U(a[i]) < U(b[i]) : a[i] < b[i]);
  case OP_LE:
    LOOP(o[i] = big ? U(a[i]) <= U(b[i]) : a[i] <= b[i]);
  case OP_GT:
    LOOP(o[i] = big ? U(a[i]) > U(b[i]) : a[i] > b[i]);
  case OP_GE:
    LOOP(o[i] = big ? U(a[i]) >= U(b[i]) : a[i] >= b[i]);
  case OP_AND:
    LOOP(o[i] = a[i] && b[i]);
  case OP_OR:
    LOOP(o[i] = a[i] || b[i]);
  case OP_NOT:
    LOOP(o[i] = !a[i]);
  default:
    return false;
  }
#undef U
  return true;
}

/* ---- conversions ----------------------------------------------------------------------------- */
void lanes_convert(etype to, etype from, strip *r, const strip *a, uint32_t n) {
  lane_class lt = lanes_of(to), lf = lanes_of(from);
  if (to == from) {
    if (r != a) memcpy(r, a, (lt == LC_F32 ? 4 : 8) * n);
  } else if (lt == LC_INT && lf == LC_INT) {
    for (uint32_t i = 0; i < n; i++) r->i[i] = wrap(to, a->i[i]);
  } else if (lt == LC_F32 && lf == LC_F32) {
    if (r != a) memcpy(r, a, 4 * n);
    lanes_round(to, r, n);
  } else if (to == ET_F32 && lf == LC_INT && from != ET_U64) {
    for (uint32_t i = 0; i < n; i++) r->f[i] = (float)a->i[i];
  } else { /* lanes change their width: through a copy */
    strip s = *a;
    for (uint32_t i = 0; i < n; i++) lanes_put(to, r, i, et_round(to, et_convert(to, from, lanes_get(from, &s, i))));
  }
}
static scalar saturate(etype to, etype from, scalar x) {
  ekind kt = et_kind(to), kf = et_kind(from);
  if (kt == K_FLOAT) {
    double v = kf == K_FLOAT    ? x.f
               : from == ET_U64 ? (double)(uint64_t)x.i
                                : (double)x.i,
           hi = et_highest(to), lo = et_lowest(to);
    return (scalar){.f = v > hi ? hi : v < lo ? lo : v};
  }
  uint32_t bits = to == ET_BOOL ? 1 : et_bits(to);
  bool sign = kt == K_INT;
  int64_t lo = sign ? (int64_t)(~UINT64_C(0) << (bits - 1)) : 0;
  uint64_t hi = sign ? (UINT64_C(1) << (bits - 1)) - 1 : bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
  if (kf == K_FLOAT) {
    if (isnan(x.f)) return (scalar){.i = 0};
    if (x.f <= (double)lo) return (scalar){.i = lo};
    if (x.f >= (double)hi) return (scalar){.i = (int64_t)hi};
    return (scalar){.i = sign ? (int64_t)x.f : (int64_t)(uint64_t)x.f};
  }
  if (from == ET_U64) return (scalar){.i = (uint64_t)x.i > hi ? (int64_t)hi : x.i};
  if (x.i < lo) return (scalar){.i = lo};
  return (scalar){.i = x.i > 0 && (uint64_t)x.i > hi ? (int64_t)hi : x.i};
}

/* Philox 4x32-10 (Salmon et al., 2011) */
static float philox(int64_t seed, int64_t position) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)((uint64_t)seed >> 32);
  uint32_t c0 = (uint32_t)position, c1 = (uint32_t)((uint64_t)position >> 32), c2 = 0, c3 = 0;
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = UINT64_C(0xD2511F53) * c0, p1 = UINT64_C(0xCD9E8D57) * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return (float)(c0 >> 8) * 0x1p-24f;
}

void lanes_op(sop op, etype t, etype at, strip *r, const strip *a, const strip *b, const strip *c, uint32_t n) {
  strip tmp;
  switch (op) {
  case OP_CAST:
    lanes_convert(t, at, r, a, n);
    return;
  case OP_SAT:
  case OP_SATF:
    tmp = *a;
    for (uint32_t i = 0; i < n; i++) lanes_put(t, r, i, et_round(t, saturate(t, at, lanes_get(at, &tmp, i))));
    return;
  case OP_BITCAST:
    tmp = *a;
    for (uint32_t i = 0; i < n; i++) {
      uint64_t cell = 0;
      et_store(at, &cell, lanes_get(at, &tmp, i));
      lanes_put(t, r, i, et_load(t, &cell));
    }
    return;
  case OP_RAND:
    tmp = *a;
    for (uint32_t i = 0; i < n; i++) r->f[i] = philox(tmp.i[i], b->i[i]);
    return;
  case OP_SEL: { /* here all three are there; laziness is the caller's */
    const strip *cond = a;
    if (lanes_of(t) == LC_F32)
      for (uint32_t i = 0; i < n; i++) tmp.f[i] = cond->i[i] ? b->f[i] : c->f[i];
    else
      for (uint32_t i = 0; i < n; i++) tmp.i[i] = cond->i[i] ? b->i[i] : c->i[i];
    memcpy(r, &tmp, (lanes_of(t) == LC_F32 ? 4 : 8) * n);
    return;
  }
  case OP_NEXTAFTER:
    if (lanes_of(t) == LC_F32 && t != ET_F32) {
      for (uint32_t i = 0; i < n; i++) r->f[i] = narrow_next(t, a->f[i], b->f[i]);
      return;
    }
    break;
  default:
    break;
  }
  lane_class lc = lanes_of(at);
  if (!b) b = a;
  if (!c) c = a;
  bool narrower = t == ET_BOOL && lc == LC_F32; /* results are wider than operands: not in place */
  strip *o = narrower && (r == a || r == b) ? &tmp : r;
  if (lc == LC_F32)
    ops_f32(op, o, a, b, c, n);
  else if (lc == LC_F64)
    ops_f64(op, o, a, b, c, n);
  else
    ops_int(op, at, o, a, b, c, n);
  if (o != r) memcpy(r, o, 8 * n);
  lanes_round(t, r, n);
}
