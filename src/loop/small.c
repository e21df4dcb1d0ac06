/* How are narrow numbers converted with 32-bit operations? f16, bf16, the 8-bit and 4-bit floats, and integers under
 * 8 bits, on vectors, rounding to nearest even, without tables.
 *
 * A narrow float is (sign, exponent, mantissa) with a bias and a rule for what lies beyond its largest finite
 * code. From f32: normal results by adding half an ulp (minus one, plus the ulp's parity) to the f32 bits
 * and shifting; subnormal results by adding a power of two whose ulp is theirs. To f32: shift the code up and
 * multiply by 2^(127 - bias), which normalises subnormals.
 * Wider sources go through f32 with the lost bits kept in its last bit (rounding to odd), so that there is one
 * rounding.
 */
#include "loop/expand.h"
#include <math.h>

typedef enum {
  BEYOND_INF,
  BEYOND_NAN,
  BEYOND_FNUZ,
  BEYOND_CLAMP
} beyond; /* FNUZ: the only NaN is -0's code; CLAMP: neither inf nor NaN */
typedef struct nkind {
  int bits;    /* bits of a number */
  int mant;    /* bits of the mantissa */
  int bias;    /* bias of the exponent */
  int max;     /* largest finite code */
  beyond over; /* what a larger number becomes */
} nkind;
static bool kind_of(etype t, nkind *k) {
  switch (t) {
  case ET_F16:
    *k = (nkind){16, 10, 15, 0x7bff, BEYOND_INF};
    return true;
  case ET_BF16:
    *k = (nkind){16, 7, 127, 0x7f7f, BEYOND_INF};
    return true;
  case ET_F8E4M3FN:
    *k = (nkind){8, 3, 7, 0x7e, BEYOND_NAN};
    return true;
  case ET_F8E4M3FNUZ:
    *k = (nkind){8, 3, 8, 0x7f, BEYOND_FNUZ};
    return true;
  case ET_F8E5M2:
    *k = (nkind){8, 2, 15, 0x7b, BEYOND_INF};
    return true;
  case ET_F8E5M2FNUZ:
    *k = (nkind){8, 2, 16, 0x7f, BEYOND_FNUZ};
    return true;
  case ET_F4E2M1:
    *k = (nkind){4, 1, 1, 7, BEYOND_CLAMP};
    return true;
  default:
    return false;
  }
}
bool x_narrow(etype t) { return et_kind(t) == K_FLOAT && et_bits(t) < 32; }
etype x_carrier(etype t) { return et_bits(t) == 16 ? ET_U16 : ET_U8; }
static bool sub_byte(etype t) { return et_kind(t) != K_FLOAT && et_bits(t) < 8; }
static bool plain(etype t) { return !x_narrow(t) && !sub_byte(t); }
bool x_cast_direct(const xp *p, etype to, etype from) {
  if (to == from || (plain(to) && plain(from))) return true;
  bool half = (to == ET_F16 && from == ET_F32) || (to == ET_F32 && from == ET_F16);
  if (to == ET_BF16 && from == ET_F32) return p->flush && p->native(p->env, OP_CAST, ET_BF16);
  return half && p->native(p->env, OP_CAST, ET_F16);
}
static lv widen(xp *p, etype t, lv x) { return x_op(p, OP_CAST, lt(t, x_type(p, x).lanes), x, 0, 0); }

static lv from_narrow(xp *p, etype from, lv x) { /* Conversion of a narrow float to f32. */
  nkind k;
  lv u = widen(p, ET_I32, xbits(p, x_carrier(from), x));
  if (from == ET_F8E8M0) { /* 2^(code-127); code 0 is subnormal in f32, 255 NaN */
    lv e = xbits(p, ET_F32, x2(p, OP_SHL, u, xi(p, u, 23)));
    e = xsel(p, xcmp(p, OP_EQ, u, xi(p, u, 0)), xf(p, e, 0x1p-127), e);
    return xsel(p, xcmp(p, OP_EQ, u, xi(p, u, 255)), xf(p, e, NAN), e);
  }
  kind_of(from, &k);
  if (from == ET_BF16) return xbits(p, ET_F32, x2(p, OP_SHL, u, xi(p, u, 16)));
  int top = 1 << (k.bits - 1);
  lv mag = x2(p, OP_BAND, u, xi(p, u, top - 1)),
     sign = x2(p, OP_SHL, x2(p, OP_BAND, u, xi(p, u, top)), xi(p, u, 32 - k.bits));
  lv raw = xbits(p, ET_F32, x2(p, OP_SHL, mag, xi(p, u, 23 - k.mant)));
  lv b = xbits(p, ET_I32, x2(p, OP_MUL, raw, xf(p, raw, ldexp(1, 127 - k.bias))));
  if (k.over == BEYOND_INF) /* exponent all ones: inf and NaN keep their mantissa */
    b = xsel(p, xcmp(p, OP_GT, mag, xi(p, u, k.max)),
             x2(p, OP_BOR, x2(p, OP_SHL, mag, xi(p, u, 23 - k.mant)), xi(p, u, 0x7f800000)), b);
  if (k.over == BEYOND_NAN) b = xsel(p, xcmp(p, OP_GT, mag, xi(p, u, k.max)), xi(p, u, 0x7fc00000), b);
  b = x2(p, OP_BOR, b, sign);
  if (k.over == BEYOND_FNUZ) b = xsel(p, xcmp(p, OP_EQ, u, xi(p, u, top)), xi(p, u, 0x7fc00000), b);
  return xbits(p, ET_F32, b);
}
static lv to_narrow(xp *p, etype to, lv x) { /* Conversion of f32 to a narrow float. */
  nkind k;
  lv u = xbits(p, ET_I32, x), code;
  lv mag = x2(p, OP_BAND, u, xi(p, u, INT32_MAX));
  /* rounds to the nearest power of two, ties up; zero and negative: NaN; too small: the smallest */
  if (to == ET_F8E8M0) {
    lv e = x2(p, OP_SHR, x2(p, OP_ADD, mag, xi(p, u, 0x400000)), xi(p, u, 23));
    e = xsel(p, xcmp(p, OP_LT, mag, xi(p, u, 0x600000)), xi(p, u, 0), e); /* below 0.75 * 2^-126 */
    lv ok = xcmp(p, OP_GT, x, xf(p, x, 0));
    ok = x_op(p, OP_AND, x_type(p, ok), ok, xcmp(p, OP_LT, mag, xi(p, u, 0x7f800000)), 0);
    code = xsel(p, ok, e, xi(p, u, 255));
    return xbits(p, to, widen(p, ET_U8, code));
  }
  if (to == ET_BF16) { /* the upper half of f32, rounded; NaN keeps its upper half, made quiet */
    lv half = x2(p, OP_SHR, u, xi(p, u, 16)), even = x2(p, OP_ADD, x2(p, OP_BAND, half, xi(p, u, 1)), xi(p, u, 0x7fff));
    code = xsel(p, xtest(p, OP_ISNAN, x), x2(p, OP_BOR, half, xi(p, u, 0x40)),
                x2(p, OP_SHR, x2(p, OP_ADD, u, even), xi(p, u, 16)));
    return xbits(p, to, widen(p, ET_U16, code));
  }
  kind_of(to, &k);
  int drop = 23 - k.mant, top = 1 << (k.bits - 1);
  lv odd = x2(p, OP_BAND, x2(p, OP_SHR, mag, xi(p, u, drop)), xi(p, u, 1));
  code = x2(
      p, OP_SHR,
      x2(p, OP_ADD, x2(p, OP_ADD, mag, xi(p, u, (1 << (drop - 1)) - 1)), EK_PLANTED("loop-narrow") ? xi(p, u, 1) : odd),
      xi(p, u, drop));
  code = x2(p, OP_SUB, code, xi(p, u, (int64_t)(127 - k.bias) << k.mant));
  /* its ulp is the smallest subnormal */
  lv a = xbits(p, ET_F32, mag), magic = xf(p, a, ldexp(1, 23 + 1 - k.bias - k.mant));
  lv sub = x2(p, OP_SUB, xbits(p, ET_I32, x2(p, OP_ADD, a, magic)), xbits(p, ET_I32, magic));
  code = xsel(p, xcmp(p, OP_LT, a, xf(p, a, ldexp(1, 1 - k.bias))), sub, code);
  int inf = k.over == BEYOND_CLAMP ? k.max : k.over == BEYOND_FNUZ ? top : k.max + 1;
  /* also infinity, whose code came out larger */
  code = xsel(p, xcmp(p, OP_GT, code, xi(p, u, k.max)), xi(p, u, inf), code);
  lv is_nan = xcmp(p, OP_GT, mag, xi(p, u, 0x7f800000));
  lv nan = xi(p, u, k.over == BEYOND_INF ? k.max + 1 + (1 << (k.mant - 1)) : k.over == BEYOND_NAN ? k.max + 1 : top);
  code = xsel(p, is_nan, nan, code);
  lv sign = x2(p, OP_BAND, x2(p, OP_SHR, u, xi(p, u, 32 - k.bits)), xi(p, u, top));
  lv zero = xi(p, u, 0);
  /* these types have no -0 */
  if (k.over == BEYOND_FNUZ) sign = xsel(p, xcmp(p, OP_EQ, code, zero), zero, sign);
  if (k.over == BEYOND_CLAMP) sign = xsel(p, is_nan, zero, sign);
  code = x2(p, OP_BOR, code, sign);
  return xbits(p, to, widen(p, x_carrier(to), code));
}
/* f64 -> f32 by truncation, the last bit set when something was lost: rounding that to a narrower type is one
 * rounding of the original. */
static lv to_f32_odd(xp *p, lv x) {
  unsigned lanes = x_type(p, x).lanes;
  lv f = x_op(p, OP_CAST, lt(ET_F32, lanes), x, 0, 0), back = x_op(p, OP_CAST, lt(ET_F64, lanes), f, 0, 0);
  lv bits = xbits(p, ET_I32, f), one = xi(p, bits, 1);
  lv past = xcmp(p, OP_GT, x1(p, OP_ABS, back), x1(p, OP_ABS, x));
  lv odd = x2(p, OP_BOR, xsel(p, past, x2(p, OP_SUB, bits, one), bits), one);
  lv lost = xcmp(p, OP_NE, back, x); /* NaN stays NaN with its last bit set */
  return xbits(p, ET_F32, xsel(p, lost, odd, bits));
}
static lv wrap(xp *p, etype to, lv x) { /* a byte -> an integer under 8 bits, extended into the byte */
  int n = 8 - (int)et_bits(to);
  if (et_kind(to) == K_UINT)
    x = x2(p, OP_BAND, x, xi(p, x, (1 << et_bits(to)) - 1));
  else
    x = x2(p, OP_SHR, x2(p, OP_SHL, x, xi(p, x, n)), xi(p, x, n));
  return xbits(p, to, x);
}
lv x_cast(xp *p, etype to, lv x) {
  ltype t = x_type(p, x);
  etype from = (etype)t.elem;
  if (x_cast_direct(p, to, from)) return lb_op(p->b, OP_CAST, lt(to, t.lanes), x, 0, 0);
  scalar k;
  if (loop_const(p->b->f, x, &k)) return lb_const(p->b, lt(to, t.lanes), et_convert(to, from, k));
  if (sub_byte(from)) return x_cast(p, to, xbits(p, et_kind(from) == K_UINT ? ET_U8 : ET_I8, x));
  if (x_narrow(from)) {
    bool half = from == ET_F16 && p->native(p->env, OP_CAST, ET_F16);
    return x_cast(p, to, half ? widen(p, ET_F32, x) : from_narrow(p, from, x));
  }
  if (sub_byte(to)) return wrap(p, to, x_cast(p, et_kind(to) == K_UINT ? ET_U8 : ET_I8, x));
  /* conversion from a plain type to a narrow float */
  if (from != ET_F32) {
    bool exact = from == ET_BOOL || (et_kind(from) != K_FLOAT && et_bits(from) <= 16);
    x = exact ? widen(p, ET_F32, x) : to_f32_odd(p, from == ET_F64 ? x : widen(p, ET_F64, x));
  }
  if (to == ET_F16 && p->native(p->env, OP_CAST, ET_F16)) return lb_op(p->b, OP_CAST, lt(to, t.lanes), x, 0, 0);
  return to_narrow(p, to, x);
}
