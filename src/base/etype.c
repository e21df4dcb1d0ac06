/* What is an element of each type, as a number?
 *
 * All floats narrower than 32 bits are described by one row (mantissa bits, exponent bias, largest finite code, what
 * lies beyond) and share one decoder and one encoder, which rounds to nearest even directly from double: one rounding,
 * never two. f8e8m0 (a bare power of two) has its own three lines. Integers narrower than a byte live sign- or
 * zero-extended in a byte.
 */
#include "base/base.h"
#include <math.h>
#include <string.h>

typedef struct info {
  const char *name; /* name of the type */
  uint32_t bits;    /* bits of an element */
  ekind kind;       /* kind of number */
  int onnx;         /* ONNX's code */
} info;

static const info table[ET_COUNT] = {[ET_NONE] = {"none", 0, K_STR, 0},
#define X(id, name, bits, kind, onnx) [ET_##id] = {name, bits, kind, onnx},
                                     ETYPES(X)
#undef X
};

static const info *row(etype t) { return &table[(unsigned)t < ET_COUNT ? t : ET_NONE]; }
const char *et_name(etype t) { return row(t)->name; }
uint32_t et_bits(etype t) { return row(t)->bits; }
uint32_t et_bytes(etype t) { return (row(t)->bits + 7) / 8; }
ekind et_kind(etype t) { return row(t)->kind; }
int et_to_onnx(etype t) { return row(t)->onnx; }

etype et_parse(const char *name) {
  for (int t = 1; t < ET_COUNT; t++)
    if (strcmp(name, table[t].name) == 0) return (etype)t;
  return ET_NONE;
}

etype et_from_onnx(int code) {
  for (int t = 1; t < ET_COUNT; t++)
    if (table[t].onnx == code) return (etype)t;
  return ET_NONE;
}

/* ---- narrow floats --------------------------------------------------------------------------- */
typedef enum {
  BEYOND_INF,
  BEYOND_NAN,
  BEYOND_FNUZ,
  BEYOND_CLAMP
} beyond; /* FNUZ: one NaN, where -0 would be; CLAMP: neither inf nor NaN */
typedef struct fkind {
  int bits;     /* bits of a number */
  int mant;     /* bits of the mantissa */
  int bias;     /* bias of the exponent */
  unsigned max; /* code of the largest finite number */
  beyond over;  /* what a larger number becomes */
} fkind;

static bool narrow(etype t, fkind *k) {
  switch (t) {
  case ET_F16:
    *k = (fkind){16, 10, 15, 0x7bff, BEYOND_INF};
    return true;
  case ET_BF16:
    *k = (fkind){16, 7, 127, 0x7f7f, BEYOND_INF};
    return true;
  case ET_F8E4M3FN:
    *k = (fkind){8, 3, 7, 0x7e, BEYOND_NAN};
    return true;
  case ET_F8E4M3FNUZ:
    *k = (fkind){8, 3, 8, 0x7f, BEYOND_FNUZ};
    return true;
  case ET_F8E5M2:
    *k = (fkind){8, 2, 15, 0x7b, BEYOND_INF};
    return true;
  case ET_F8E5M2FNUZ:
    *k = (fkind){8, 2, 16, 0x7f, BEYOND_FNUZ};
    return true;
  case ET_F4E2M1:
    *k = (fkind){4, 1, 1, 7, BEYOND_CLAMP};
    return true;
  default:
    return false;
  }
}

static double from_bits(uint64_t b) {
  double x;
  memcpy(&x, &b, sizeof x);
  return x;
}

static double pow2(int e) { return from_bits((uint64_t)(e + 1023) << 52); } /* normal range only */

static double decode(const fkind *k, unsigned code) {
  unsigned sign = code >> (k->bits - 1) & 1, mag = code & ((1u << (k->bits - 1)) - 1);
  double x;
  if (k->over == BEYOND_FNUZ && mag == 0) return sign ? NAN : 0.0;
  if (mag > k->max)
    x = k->over == BEYOND_INF && mag == k->max + 1 ? INFINITY : NAN;
  else if (mag >> k->mant == 0)
    x = mag * pow2(1 - k->bias - k->mant);
  else
    x = from_bits(((uint64_t)(mag >> k->mant) + 1023 - (uint64_t)k->bias) << 52 |
                  (uint64_t)(mag & ((1u << k->mant) - 1)) << (52 - k->mant));
  return sign ? -x : x;
}

static unsigned encode(const fkind *k, double x) {
  unsigned sign = signbit(x) ? 1u << (k->bits - 1) : 0;
  unsigned top = 1u << (k->bits - 1);
  if (isnan(x))
    return k->over == BEYOND_FNUZ    ? top
           : k->over == BEYOND_CLAMP ? top
                                     : sign | (k->over == BEYOND_INF ? k->max + 1 + (1u << (k->mant - 1)) : k->max + 1);
  unsigned code = k->max + 1;
  if (isfinite(x)) {
    int e;
    double ax = fabs(x);
    (void)frexp(ax, &e); /* ax in [2^(e-1), 2^e) */
    e = ax == 0 || e - 1 < 1 - k->bias ? 1 - k->bias : e - 1;
    double q = e + k->bias > 2 * k->bias + 2 ? INFINITY : nearbyint(ldexp(ax, k->mant - e));
    /* a carry out of the mantissa is the next exponent */
    if (q <= (double)(2u << k->mant)) code = ((unsigned)(e + k->bias - 1) << k->mant) + (unsigned)q;
  }
  if (code > k->max)
    code = k->over == BEYOND_CLAMP ? k->max : k->over == BEYOND_FNUZ ? 0 : k->max + 1;
  else if (code == 0 && k->over == BEYOND_FNUZ)
    return 0;
  if (code == 0 && k->over == BEYOND_FNUZ) return top;
  return sign | code;
}

/* f8e8m0: 2^(code-127), 255 is NaN. Ties go up: the one mantissa bit that is there is odd. Zero and negative numbers
 * have no neighbour and are NaN; what is too small becomes the smallest. */
static unsigned encode_e8m0(double x) {
  if (!(x > 0) || isinf(x)) return 255;
  int e;
  double m = frexp(x, &e); /* m is in [0.5, 1) */
  e += 127 - 1 + (m >= 0.75);
  return e < 0 ? 0 : e > 254 ? 255 : (unsigned)e;
}

/* ---- one element ----------------------------------------------------------------------------- */
scalar et_load(etype t, const void *p) {
  scalar s = {.i = 0};
  fkind k;
#define LOAD(field, T)                                                                                                 \
  {                                                                                                                    \
    T x;                                                                                                               \
    memcpy(&x, p, sizeof x);                                                                                           \
    s.field = x;                                                                                                       \
    return s;                                                                                                          \
  }
  switch (t) {
  case ET_F64:
    LOAD(f, double)
  case ET_F32:
    LOAD(f, float)
  case ET_I64:
    LOAD(i, int64_t)
  case ET_I32:
    LOAD(i, int32_t)
  case ET_I16:
    LOAD(i, int16_t)
  case ET_I8:
  case ET_I4:
  case ET_I2:
    LOAD(i, int8_t)
  case ET_U64:
    LOAD(i, int64_t)
  case ET_U32:
    LOAD(i, uint32_t)
  case ET_U16:
    LOAD(i, uint16_t)
  case ET_U8:
  case ET_U4:
  case ET_U2:
    LOAD(i, uint8_t)
  case ET_BOOL:
    s.i = *(const uint8_t *)p != 0;
    return s;
  case ET_F8E8M0: {
    unsigned code = *(const uint8_t *)p;
    s.f = code == 255 ? NAN : pow2((int)code - 127);
    return s;
  }
  default:
    break;
  }
#undef LOAD
  if (narrow(t, &k)) {
    uint16_t code = 0;
    memcpy(&code, p, k.bits > 8 ? 2 : 1);
    s.f = decode(&k, code & (unsigned)((1ul << k.bits) - 1));
  }
  return s;
}

void et_store(etype t, void *p, scalar v) {
  fkind k;
#define STORE(T, value)                                                                                                \
  {                                                                                                                    \
    T x = (T)(value);                                                                                                  \
    memcpy(p, &x, sizeof x);                                                                                           \
    return;                                                                                                            \
  }
  switch (t) {
  case ET_F64:
    STORE(double, v.f)
  case ET_F32:
    STORE(float, v.f)
  case ET_I64:
  case ET_U64:
    STORE(int64_t, v.i)
  case ET_I32:
  case ET_U32:
    STORE(uint32_t, v.i)
  case ET_I16:
  case ET_U16:
    STORE(uint16_t, v.i)
  case ET_I8:
  case ET_U8:
    STORE(uint8_t, v.i)
  case ET_I4:
    STORE(int8_t, ((v.i & 15) ^ 8) - 8)
  case ET_I2:
    STORE(int8_t, ((v.i & 3) ^ 2) - 2)
  case ET_U4:
    STORE(uint8_t, v.i & 15)
  case ET_U2:
    STORE(uint8_t, v.i & 3)
  case ET_BOOL:
    STORE(uint8_t, v.i != 0)
  case ET_F8E8M0:
    STORE(uint8_t, encode_e8m0(v.f))
  default:
    break;
  }
#undef STORE
  if (narrow(t, &k)) {
    uint16_t code = (uint16_t)encode(&k, v.f);
    memcpy(p, &code, k.bits > 8 ? 2 : 1);
  }
}

scalar et_round(etype t, scalar v) {
  uint64_t cell = 0;
  if (et_kind(t) == K_STR) return v;
  et_store(t, &cell, v);
  return et_load(t, &cell);
}

/* The double next to an integer of 64 bits such that rounding it once more to any narrower float gives what rounding
 * the integer would: what is lost shows in the last bit. */
static double odd_double(uint64_t mag, bool negative) {
  double x;
  if (mag >> 53) {
    int drop = 11 - __builtin_clzll(mag);
    uint64_t lost = mag & (((uint64_t)1 << drop) - 1);
    x = ldexp((double)(mag >> drop | (lost != 0)), drop);
  } else {
    x = (double)mag;
  }
  return negative ? -x : x;
}

scalar et_convert(etype to, etype from, scalar v) {
  bool from_float = et_kind(from) == K_FLOAT, to_float = et_kind(to) == K_FLOAT;
  if (to == ET_BOOL) return (scalar){.i = from_float ? v.f != 0 : v.i != 0};
  if (from_float && !to_float) {
    double x = trunc(v.f);
    int64_t i;
    if (!isfinite(x))
      i = 0;
    else if (x >= -0x1p63 && x < 0x1p63)
      i = (int64_t)x;
    else if (to == ET_U64 && x > 0 && x < 0x1p64)
      i = (int64_t)(uint64_t)x;
    else
      i = INT64_MIN;
    v.i = i;
  } else if (!from_float && to_float) {
    bool negative = from != ET_U64 && v.i < 0;
    uint64_t mag = negative ? -(uint64_t)v.i : (uint64_t)v.i;
    if (to == ET_F64)
      v.f = negative ? -(double)mag : (double)mag;
    else
      v.f = odd_double(mag, negative);
  }
  return et_round(to, v);
}

double et_highest(etype t) {
  fkind k;
  if (narrow(t, &k)) return decode(&k, k.max);
  switch (t) {
  case ET_F64:
    return 0x1.fffffffffffffp+1023;
  case ET_F32:
    return 0x1.fffffep+127;
  case ET_F8E8M0:
    return 0x1p127;
  case ET_BOOL:
    return 1;
  default:
    break;
  }
  if (et_kind(t) == K_STR) return 0;
  return ldexp(1, (int)et_bits(t) - (et_kind(t) == K_INT)) - 1; /* 64 bits: the double next to it */
}

double et_lowest(etype t) {
  if (t == ET_F8E8M0) return 0x1p-127;
  if (et_kind(t) == K_FLOAT) return -et_highest(t);
  return et_kind(t) == K_INT ? -ldexp(1, (int)et_bits(t) - 1) : 0;
}

double et_number(etype t, const void *p) {
  const scalar v = et_load(t, p);
  return et_kind(t) == K_FLOAT ? v.f : t == ET_U64 ? (double)(uint64_t)v.i : (double)v.i;
}
bool nd_count(const ndarray *t, int64_t *n) {
  int64_t r = 1;
  bool empty = false, ok = true;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (t->dims[i] < 0) return false;
    empty |= t->dims[i] == 0;
  }
  for (uint32_t i = 0; i < t->rank && !empty; i++) ok = ok && mul64(r, t->dims[i], &r);
  *n = empty ? 0 : r;
  return ok;
}
bool nd_bytes(arena *a, const ndarray *s, ndarray *out) {
  int64_t n, width = 1;
  const bytes *b = s->data;
  if (s->type != ET_STR || s->rank >= MAX_RANK || !nd_count(s, &n)) return false;
  for (int64_t i = 0; i < n; i++) width = max64(width, (int64_t)b[i].n);
  *out = *s;
  out->type = ET_U8;
  out->dims[out->rank++] = width;
  int64_t size;
  if (!mul64(n, width, &size)) return false;
  uint8_t *p = arena_array(a, (size_t)size + 1, 1);
  for (int64_t i = 0; i < n; i++)
    if (b[i].n) memcpy(p + i * width, b[i].p, b[i].n);
  out->data = p, out->bytes = (size_t)size, out->file = NULL;
  return true;
}

scalar et_bound(etype t, bool high) {
  ekind k = et_kind(t);
  uint32_t bits = et_bits(t);
  if (k == K_FLOAT) {
    double inf = et_round(t, (scalar){.f = high ? __builtin_inf() : -__builtin_inf()}).f;
    return (scalar){.f = __builtin_isinf(inf) ? inf : high ? et_highest(t) : et_lowest(t)};
  }
  if (k == K_BOOL) return (scalar){.i = high};
  if (k == K_UINT) return (scalar){.i = !high ? 0 : bits == 64 ? -1 : (int64_t)((UINT64_C(1) << bits) - 1)};
  int64_t top = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  return (scalar){.i = high ? top : -top - 1};
}
