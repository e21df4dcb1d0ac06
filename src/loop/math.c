/* How are the functions of floats computed without a library? Vector polynomials after range reduction, in the
 * operations every emitter has; the same code for f32 and f64, with tables of their own (math_coef.h).
 *
 * Errors, in ulp, measured over sampled bit patterns by tests/unit/test_loop_math.c (which fails when they grow);
 * both types unless said otherwise:
 *   exp 1.1 (f32 with lookups 4.7 at |x| = 88, an ulp less for each 22)   log 0.8   tanh 5.6 (f64 1.3)   erf 5.5
 *   (f64 1.7)   sin, cos 1.5 (f64 2.3)   tan 2.9 (f64 3.7)   asin 2.4   acos 1.1   atan 2.1 (f64 2.3)   sinh 2.2
 *   (f64 1.6)   cosh 1.4   asinh 3.6 (f64 2.2)   acosh 2   atanh 1.4   pow 0.6 (f64 0.8), of constant multiples
 *   of 1/4 3.4
 * In a module that says fast, of f32, relative: exp 1.2e-5, tanh 6.5e-5, erf 3.5e-5; and with them what is
 * computed by exp.
 * NaN, infinities, overflow, underflow and signed zeros behave as in C. tanh and erf reach 1 and -1 exactly, so that
 * 1 + f(x), times however large an x, is 0 far below 0; between, 1 + erf(x) errs by as much as erf: 3e-7.
 *
 * To an integer without a conversion: v + 1.5*2^23 (2^52) has round(v) in its low bits.
 */
#include "loop/expand.h"
#include "loop/math_coef.h"
#include <math.h>

typedef struct table {
  const double *c; /* coefficients */
  int n;           /* number of coefficients */
} table;
#define T(name)                                                                                                        \
  (is64(p, x) ? (table){name##_64, (int)(sizeof name##_64 / sizeof *name##_64)}                                        \
              : (table){name##_32, (int)(sizeof name##_32 / sizeof *name##_32)})
#define TABLE(name) ((table){name, (int)(sizeof name / sizeof *name)})
static bool is64(const xp *p, lv x) { return x_type(p, x).elem == ET_F64; }
static bool fast(const xp *p, lv x) { return p->fast && !is64(p, x); }
static etype int_of(const xp *p, lv x) { return is64(p, x) ? ET_I64 : ET_I32; }
static lv poly(xp *p, lv x, table t) {
  lv r = xf(p, x, t.c[t.n - 1]);
  for (int i = t.n - 2; i >= 0; i--) r = xfma(p, r, x, xf(p, x, t.c[i]));
  return r;
}
static lv add(xp *p, lv x, lv y) { return x2(p, OP_ADD, x, y); }
static lv sub(xp *p, lv x, lv y) { return x2(p, OP_SUB, x, y); }
static lv mul(xp *p, lv x, lv y) { return x2(p, OP_MUL, x, y); }
static lv quot(xp *p, lv x, lv y) { return x2(p, OP_DIV, x, y); }
static lv both(xp *p, lv x, lv y) { return x_op(p, OP_AND, x_type(p, x), x, y, 0); }
/* x + x*z*P(z), z = x*x: the odd functions, of |x| (the sign is put back last: x = -0 would lose it here) */
static lv odd_poly(xp *p, lv x, lv z, table t) { return xfma(p, mul(p, poly(p, z, t), z), x, x); }
static lv sign_mask(xp *p, lv x) { /* the sign bit of x, as an integer */
  lv b = xbits(p, int_of(p, x), x);
  return x2(p, OP_BAND, b, xi(p, b, is64(p, x) ? INT64_MIN : INT32_MIN));
}
static lv flip(xp *p, lv x, lv mask) {
  return xbits(p, (etype)x_type(p, x).elem, x2(p, OP_BXOR, xbits(p, int_of(p, x), x), mask));
}
static double magic(const xp *p, lv x) { return is64(p, x) ? 0x1.8p52 : 0x1.8p23; }
/* n = round(x*c), as a float; *k as an integer */
static lv nearest(xp *p, lv x, double c, lv *k) {
  lv m = xf(p, x, magic(p, x)), t = xfma(p, x, xf(p, x, c), m);
  *k = sub(p, xbits(p, int_of(p, x), t), xbits(p, int_of(p, x), m));
  return sub(p, t, m);
}
static lv pow2_int(xp *p, lv k, etype f) {
  return xbits(p, f,
               x2(p, OP_SHL, x2(p, OP_ADD, k, xi(p, k, f == ET_F64 ? 1023 : 127)), xi(p, k, f == ET_F64 ? 52 : 23)));
}

/* x * 2^k, in two steps so that subnormal and almost infinite results come out */
static lv scaled(xp *p, lv x, lv k) {
  etype f = (etype)x_type(p, x).elem;
  lv h = x2(p, OP_SHR, k, xi(p, k, 1));
  return mul(p, mul(p, x, pow2_int(p, h, f)), pow2_int(p, sub(p, k, h), f));
}

/* ---- exp, log -------------------------------------------------------------------------------- */
/* e^x, or e^-x, = 2^n e^r, n a multiple of 1/16, r = +-x - n ln 2: the power of two of n's fraction is looked up, so
 * that a polynomial of three terms is enough and the sum takes three operations less. 2^floor(n) is
 * left to ldexp. */
static lv exp_looked_up(xp *p, lv x, bool minus, lv *n) {
  uint32_t powers[16];
  for (int i = 0; i < 16; i++) et_store(ET_F32, &powers[i], (scalar){.f = exp2((minus ? (16 - i) % 16 : i) / 16.0)});
  lv sixteenths = xf(p, x, 0x1.8p19), z = xfma(p, x, xf(p, x, M_LOG2E), sixteenths); /* z's low four bits count them */
  *n = minus ? sub(p, sixteenths, z) : sub(p, z, sixteenths);
  lv power = lb_lookup(p->b, x_type(p, x), xbits(p, ET_I32, z), powers, 16);
  double one = minus ? -1 : 1; /* sign with which x, and r below, are taken */
  lv r = xfma(p, *n, xf(p, x, -one * M_LN2), x), c = xfma(p, r, xf(p, x, one * 0x1.5555p-3), xf(p, x, 0.5));
  lv more = minus ? mul(p, r, xfma(p, r, c, xf(p, x, -1))) : xfma(p, mul(p, r, r), c, r);
  return xfma(p, power, more, power);
}
/* e^x * 2^bias */
static lv exp_biased(xp *p, lv x, int bias) {
  bool d = is64(p, x), to_power = p->native(p->env, OP_LDEXP, (etype)x_type(p, x).elem);
  lv k = 0, n, q;
  double least = d ? -746 : -104, most = d ? 711 : 90;
  bool look = to_power && !d && p->native(p->env, OP_NONE, ET_F32),
       minus = look && li(p->b->f, x)->kind == L_OP && li(p->b->f, x)->op == OP_NEG;
  if (minus) x = li(p->b->f, x)->a;
  /* 0 where no bit is left, chosen at the end: a result below the normal numbers takes many processors 200 cycles */
  lv none = xcmp(p, minus ? OP_GT : OP_LT, x, xf(p, x, minus ? -least : least)), zero = xf(p, x, 0);
  x = xsel(p, none, zero, x2(p, minus ? OP_MAX : OP_MIN, x, xf(p, x, minus ? -most : most)));
  if (look) {
    q = exp_looked_up(p, x, minus, &n);
  } else if (fast(p, x)) {
    n = nearest(p, x, M_LOG2E, &k);
    q = poly(p, xfma(p, n, xf(p, x, -M_LN2), x), TABLE(exp_fast));
  } else {
    n = nearest(p, x, M_LOG2E, &k);
    lv r = xfma(p, n, xf(p, x, d ? -0x1.62e42feep-1 : -0.693359375), x);
    r = xfma(p, n, xf(p, x, d ? -0x1.a39ef35793c76p-33 : 2.12194440e-4), r);
    q = poly(p, r, T(exp));
    q = add(p, xfma(p, mul(p, q, r), r, r), xf(p, x, 1));
  }
  if (to_power) return xsel(p, none, zero, x2(p, OP_LDEXP, q, bias ? add(p, n, xf(p, n, bias)) : n));
  return xsel(p, none, zero, scaled(p, q, bias ? add(p, k, xi(p, k, bias)) : k));
}
static lv m_ldexp(xp *p, lv x, lv n) {
  n = x1(p, OP_FLOOR, n);
  lv m = xf(p, x, magic(p, x));
  return scaled(p, x, sub(p, xbits(p, int_of(p, x), add(p, n, m)), xbits(p, int_of(p, x), m)));
}
static lv m_exp(xp *p, lv x) { return exp_biased(p, x, 0); }
static lv m_log(xp *p, lv x) {
  bool d = is64(p, x);
  int shift = d ? 52 : 23;
  etype it = int_of(p, x), ft = (etype)x_type(p, x).elem;
  lv tiny = xcmp(p, OP_LT, x, xf(p, x, d ? 0x1p-1022 : 0x1p-126));
  lv u = xbits(p, it, xsel(p, tiny, mul(p, x, xf(p, x, d ? 0x1p54 : 0x1p23)), x));
  /* x = m 2^e, m in sqrt(1/2) .. sqrt(2) */
  lv e = x2(p, OP_SHR, sub(p, u, xi(p, u, d ? 0x3fe6a09e667f3bcd : 0x3f3504f3)), xi(p, u, shift));
  lv f = sub(p, xbits(p, ft, sub(p, u, x2(p, OP_SHL, e, xi(p, u, shift)))), xf(p, x, 1));
  lv mg = xf(p, x, magic(p, x)), ef = sub(p, xbits(p, ft, add(p, e, xbits(p, it, mg))), mg);
  ef = sub(p, ef, xsel(p, tiny, xf(p, x, d ? 54 : 23), xf(p, x, 0)));
  lv r, z = mul(p, f, f);
  if (d) {
    lv half = mul(p, z, xf(p, x, 0.5)), s = quot(p, f, add(p, f, xf(p, x, 2))), s2 = mul(p, s, s);
    lv t = xfma(p, s, add(p, half, mul(p, s2, poly(p, s2, T(log)))), mul(p, ef, xf(p, x, 0x1.a39ef35793c76p-33)));
    r = xfma(p, ef, xf(p, x, 0x1.62e42feep-1), sub(p, f, sub(p, half, t)));
  } else {
    lv y = mul(p, mul(p, f, z), poly(p, f, T(log)));
    y = xfma(p, ef, xf(p, x, -2.12194440e-4), y);
    y = xfma(p, xf(p, x, -0.5), z, y);
    r = xfma(p, ef, xf(p, x, 0.693359375), add(p, f, y));
  }
  lv zero = xf(p, x, 0), inf = xf(p, x, INFINITY);
  r = xsel(p, xcmp(p, OP_EQ, x, zero), xf(p, x, -INFINITY), r);
  r = xsel(p, xcmp(p, OP_LT, x, zero), xf(p, x, NAN), r);
  r = xsel(p, xcmp(p, OP_EQ, x, inf), x, r);
  return xsel(p, xtest(p, OP_ISNAN, x), x, r);
}

/* ---- sigmoid family -------------------------------------------------------------------------- */
static lv within(xp *p, lv x, double most) { return x2(p, OP_MIN, x2(p, OP_MAX, x, xf(p, x, -most)), xf(p, x, most)); }
/* x*P(z)/Q(z), z = x*x, within -1..1. Beyond `most` the quotient stays as it is there, about 1/most, and x goes on
 * growing: the result is exactly 1 or -1 from a little behind `most` to infinity, so that 1 + f(x) is 0 there. */
static lv odd_quotient(xp *p, lv x, double most, table above, table below) {
  lv z = x2(p, OP_MIN, mul(p, x, x), xf(p, x, most * most));
  return within(p, quot(p, mul(p, poly(p, z, above), x), poly(p, z, below)), 1);
}
static lv m_tanh(xp *p, lv x) {
  if (fast(p, x)) return odd_quotient(p, x, 5.2, TABLE(tanh_fast), TABLE(tanh_fast_below));
  if (!is64(p, x)) return odd_quotient(p, x, EK_PLANTED("loop-math") ? 4 : 9.02, TABLE(tanh_32), TABLE(tanh_32_below));
  lv a = x1(p, OP_ABS, x), z = mul(p, x, x), one = xf(p, x, 1);
  lv small = odd_poly(p, a, z, TABLE(tanh_64));
  lv big = sub(p, one, quot(p, xf(p, x, 2), add(p, m_exp(p, add(p, a, a)), one)));
  return flip(p, xsel(p, xcmp(p, OP_LT, a, xf(p, x, 0.625)), small, big), sign_mask(p, x));
}
static lv m_erf(xp *p, lv x) {
  /* the polynomial exceeds 1 beyond 3 */
  if (fast(p, x)) return within(p, mul(p, poly(p, mul(p, x, x), TABLE(erf_fast)), x), 1);
  if (!is64(p, x)) return odd_quotient(p, x, 3.96, TABLE(erf_32), TABLE(erf_32_below));
  lv a = x1(p, OP_ABS, x), one = xf(p, x, 1), small = mul(p, poly(p, mul(p, x, x), TABLE(erf_64)), x);
  lv q = x2(p, OP_MIN, a, xf(p, x, 6)), two = xf(p, x, 2);
  lv c =
      mul(p, m_exp(p, x1(p, OP_NEG, mul(p, q, q))), poly(p, quot(p, sub(p, q, two), add(p, q, two)), TABLE(erfc_64)));
  return xsel(p, xcmp(p, OP_LT, a, one), small, flip(p, sub(p, one, c), sign_mask(p, x)));
}
static lv m_sinh(xp *p, lv x) {
  lv a = x1(p, OP_ABS, x), e = exp_biased(p, a, -1);
  lv big = sub(p, e, quot(p, xf(p, x, 0.25), e));
  return flip(p, xsel(p, xcmp(p, OP_LT, a, xf(p, x, 1)), odd_poly(p, a, mul(p, x, x), T(sinh)), big), sign_mask(p, x));
}
static lv m_cosh(xp *p, lv x) {
  lv e = exp_biased(p, x1(p, OP_ABS, x), -1);
  return add(p, e, quot(p, xf(p, x, 0.25), e));
}

/* ---- sin, cos, tan --------------------------------------------------------------------------- */
static lv mul_high(xp *p, lv x, lv y) { /* The upper half of a product of u64. */
  lv w = xi(p, x, 32), low = xi(p, x, 0xffffffff);
  lv xl = x2(p, OP_BAND, x, low), xh = x2(p, OP_SHR, x, w), yl = x2(p, OP_BAND, y, low), yh = x2(p, OP_SHR, y, w);
  lv ll = mul(p, xl, yl), lh = mul(p, xl, yh), hl = mul(p, xh, yl), hh = mul(p, xh, yh);
  lv mid = add(p, add(p, x2(p, OP_SHR, ll, w), x2(p, OP_BAND, lh, low)), hl);
  return add(p, add(p, hh, x2(p, OP_SHR, lh, w)), x2(p, OP_SHR, mid, w));
}
/* x > 0 as M*2^E; the bits of 2/pi that matter are those from 2^-(E-1) on: three words of them times M are the
 * quadrant (2 bits) and the fraction of one (Payne and Hanek). Returns the angle as f64, *q the quadrant. */
static lv reduce_huge(xp *p, lv x, lv *q) {
  bool d = is64(p, x);
  unsigned lanes = x_type(p, x).lanes;
  int mant = d ? 52 : 23;
  lv b = x_op(p, OP_CAST, lt(ET_U64, lanes), xbits(p, d ? ET_U64 : ET_U32, x), 0, 0);
  lv frac = xi(p, b, ((int64_t)1 << mant) - 1), e = x2(p, OP_SHR, b, xi(p, b, mant));
  lv m = x2(p, OP_BOR, x2(p, OP_BAND, b, frac), xi(p, b, (int64_t)1 << mant));
  lv s = add(p, e, xi(p, b, 64 - 2 - mant - (d ? 1023 : 127))); /* first bit, in 64 zeros followed by 2/pi */
  lv at = x2(p, OP_SHR, s, xi(p, b, 6)), sh = x2(p, OP_BAND, s, xi(p, b, 63)), back = sub(p, xi(p, b, 64), sh), w[4];
  int words = d ? 17 : 3;
  for (int k = 0; k < 4; k++) {
    w[k] = xi(p, b, 0);
    for (int j = 0; j < words; j++)
      if (j + k > 0) w[k] = xsel(p, xcmp(p, OP_EQ, at, xi(p, b, j)), xi(p, b, (int64_t)two_over_pi[j + k - 1]), w[k]);
  }
  for (int k = 0; k < 3; k++) w[k] = x2(p, OP_BOR, x2(p, OP_SHL, w[k], sh), x2(p, OP_SHR, w[k + 1], back));
  lv low = mul(p, m, w[1]), l3 = mul_high(p, m, w[2]), sum = add(p, low, l3);
  lv carry = x_op(p, OP_CAST, lt(ET_U64, lanes), xcmp(p, OP_LT, sum, low), 0, 0);
  lv high = add(p, add(p, mul(p, m, w[0]), mul_high(p, m, w[1])), carry);
  *q = xbits(p, ET_I64, x2(p, OP_SHR, add(p, high, xi(p, b, (int64_t)1 << 61)), xi(p, b, 62)));
  lv two = xi(p, b, 2), top = x2(p, OP_BOR, x2(p, OP_SHL, high, two), x2(p, OP_SHR, sum, xi(p, b, 62)));
  lv f = x_op(p, OP_CAST, lt(ET_F64, lanes), xbits(p, ET_I64, top), 0, 0),
     g = x_op(p, OP_CAST, lt(ET_F64, lanes), x2(p, OP_SHL, sum, two), 0, 0);
  f = xfma(p, g, xf(p, f, 0x1p-128), mul(p, f, xf(p, f, 0x1p-64)));
  f = mul(p, f, xf(p, f, M_PI_2));
  return f;
}
/* x = r + k*pi/2, |r| <= pi/4, x >= 0. f32 is reduced in f64. Arguments of 2^20 and more go another way when there
 * are any. */
static lv reduce(xp *p, lv x, lv *k) {
  lbuild *b = p->b;
  unsigned lanes = x_type(p, x).lanes;
  bool d = is64(p, x);
  lv w = d ? x : x_cast(p, ET_F64, x), n = nearest(p, w, M_2_PI, k), r = xfma(p, n, xf(p, w, -0x1.921fb544p0), w);
  if (d)
    r = xfma(p, n, xf(p, w, -0x1.3198a2e037073p-69), xfma(p, n, xf(p, w, -0x1.0b4611a6p-34), r));
  else
    r = xfma(p, n, xf(p, w, -0x1.0b4611a626331p-34), r);
  lv huge = both(p, xcmp(p, OP_GE, x, xf(p, x, 0x1p20)), xcmp(p, OP_LT, x, xf(p, x, INFINITY)));
  lv rr = lb_reg(b, r), rk = lb_reg(b, *k), qk;
  lb_if(b, lb_hreduce(b, RED_ANY, huge));
  lv h = reduce_huge(p, x, &qk);
  lb_set(b, rr, xsel(p, huge, h, r));
  lb_set(b, rk, xsel(p, huge, qk, *k));
  lb_end(b);
  *k = lb_get(b, rk);
  r = lb_get(b, rr);
  if (d) return r;
  *k = x_op(p, OP_CAST, lt(ET_I32, lanes), *k, 0, 0);
  return x_cast(p, ET_F32, r);
}
static lv sin_poly(xp *p, lv x, lv z) { return odd_poly(p, x, z, T(sin)); }
static lv cos_poly(xp *p, lv x, lv z) {
  lv h = xfma(p, mul(p, z, z), poly(p, z, T(cos)), mul(p, z, xf(p, x, -0.5)));
  return add(p, h, xf(p, x, 1));
}
static lv m_sincos(xp *p, lv x, int quarter) {
  lv k, r = reduce(p, x1(p, OP_ABS, x), &k), z = mul(p, r, r);
  if (quarter) k = add(p, k, xi(p, k, 1));
  lv odd = xcmp(p, OP_NE, x2(p, OP_BAND, k, xi(p, k, 1)), xi(p, k, 0));
  lv y = xsel(p, odd, cos_poly(p, r, z), sin_poly(p, r, z));
  lv sign = x2(p, OP_SHL, x2(p, OP_BAND, k, xi(p, k, 2)), xi(p, k, is64(p, x) ? 62 : 30));
  return flip(p, y, quarter ? sign : x2(p, OP_BXOR, sign, sign_mask(p, x)));
}
static lv m_tan(xp *p, lv x) {
  lv k, r = reduce(p, x1(p, OP_ABS, x), &k), z = mul(p, r, r), s = sin_poly(p, r, z), c = cos_poly(p, r, z);
  lv odd = xcmp(p, OP_NE, x2(p, OP_BAND, k, xi(p, k, 1)), xi(p, k, 0));
  return flip(p, quot(p, xsel(p, odd, x1(p, OP_NEG, c), s), xsel(p, odd, s, c)), sign_mask(p, x));
}

/* ---- inverse functions ----------------------------------------------------------------------- */
static double low_part(const xp *p, lv x, double k) { return is64(p, x) ? 0 : k - (double)(float)k; }
/* For |x| > 1/2: asin x = pi/2 - 2 asin(sqrt((1-x)/2)). *big: that way was taken; returns asin of the reduced |x|. */
static lv asin_core(xp *p, lv x, lv *big) {
  lv a = x1(p, OP_ABS, x), half = xf(p, x, 0.5);
  *big = xcmp(p, OP_GT, a, half);
  lv z = xsel(p, *big, mul(p, sub(p, xf(p, x, 1), a), half), mul(p, x, x));
  lv s = xsel(p, *big, x1(p, OP_SQRT, z), a);
  return odd_poly(p, s, z, T(asin));
}
static double pi_2_low(const xp *p, lv x) { return is64(p, x) ? 0x1.1a62633145c07p-54 : low_part(p, x, M_PI_2); }
static lv m_asin(xp *p, lv x) {
  lv big, y = asin_core(p, x, &big);
  lv t = sub(p, xf(p, x, M_PI_2), sub(p, add(p, y, y), xf(p, x, pi_2_low(p, x))));
  return flip(p, xsel(p, big, t, y), sign_mask(p, x));
}
static lv m_acos(xp *p, lv x) {
  lv big, y = asin_core(p, x, &big), neg = xtest(p, OP_SIGNBIT, x), two = add(p, y, y);
  lv pi = xf(p, x, M_PI), pi_2 = xf(p, x, M_PI_2), low = xf(p, x, pi_2_low(p, x));
  lv far = xsel(p, neg, sub(p, pi, sub(p, two, add(p, low, low))), two);
  lv near = sub(p, pi_2, sub(p, flip(p, y, sign_mask(p, x)), low));
  return xsel(p, big, far, near);
}
static lv m_atan(xp *p, lv x) {
  lv a = x1(p, OP_ABS, x), one = xf(p, x, 1), zero = xf(p, x, 0);
  lv far = xcmp(p, OP_GT, a, xf(p, x, 2.414213562373095)), mid = xcmp(p, OP_GT, a, xf(p, x, 0.4142135623730950));
  lv num = xsel(p, far, xf(p, x, -1), xsel(p, mid, sub(p, a, one), a)),
     den = xsel(p, far, a, xsel(p, mid, add(p, a, one), one));
  lv t = quot(p, num, den), y = odd_poly(p, t, mul(p, t, t), T(atan));
  double l2 = pi_2_low(p, x), l4 = is64(p, x) ? l2 / 2 : low_part(p, x, M_PI_4);
  y = add(p, y, xsel(p, far, xf(p, x, l2), xsel(p, mid, xf(p, x, l4), zero)));
  y = add(p, y, xsel(p, far, xf(p, x, M_PI_2), xsel(p, mid, xf(p, x, M_PI_4), zero)));
  return flip(p, y, sign_mask(p, x));
}
static lv m_asinh(xp *p, lv x) {
  lv a = x1(p, OP_ABS, x), large = xcmp(p, OP_GT, a, xf(p, x, is64(p, x) ? 0x1p28 : 0x1p13)), zero = xf(p, x, 0);
  lv arg = xsel(p, large, a, add(p, a, x1(p, OP_SQRT, xfma(p, a, a, xf(p, x, 1)))));
  lv y = add(p, m_log(p, arg), xsel(p, large, xf(p, x, M_LN2), zero));
  return flip(p, xsel(p, xcmp(p, OP_LT, a, xf(p, x, 0.5)), odd_poly(p, a, mul(p, x, x), T(asinh)), y), sign_mask(p, x));
}
static lv m_acosh(xp *p, lv x) {
  lv one = xf(p, x, 1), t = sub(p, x, one), large = xcmp(p, OP_GT, x, xf(p, x, is64(p, x) ? 0x1p28 : 0x1p13));
  lv s = x1(p, OP_SQRT, add(p, t, t)), small = xfma(p, mul(p, poly(p, t, T(acosh)), t), s, s);
  lv arg = xsel(p, large, x, add(p, x, x1(p, OP_SQRT, mul(p, t, add(p, x, one)))));
  lv y = add(p, m_log(p, arg), xsel(p, large, xf(p, x, M_LN2), xf(p, x, 0)));
  return xsel(p, xcmp(p, OP_LT, t, xf(p, x, 0.5)), small, y);
}
static lv m_atanh(xp *p, lv x) {
  lv a = x1(p, OP_ABS, x), one = xf(p, x, 1);
  lv y = mul(p, m_log(p, quot(p, add(p, one, a), sub(p, one, a))), xf(p, x, 0.5));
  return flip(p, xsel(p, xcmp(p, OP_LT, a, xf(p, x, 0.5)), odd_poly(p, a, mul(p, x, x), T(atanh)), y), sign_mask(p, x));
}

/* ---- pow: exp(y log|x|) in f64, then the sign and the exceptions ----------------------------- */
/* The number hi + lo. */
typedef struct pair {
  lv hi; /* rounded value */
  lv lo; /* rest, at most half an ulp of hi */
} pair;
static pair two_sum(xp *p, lv a, lv b) {
  lv s = add(p, a, b), t = sub(p, s, a);
  return (pair){s, add(p, sub(p, a, sub(p, s, t)), sub(p, b, t))};
}
static pair split(xp *p, lv a) { /* 26 bits and the rest */
  lv c = mul(p, a, xf(p, a, 134217729)), hi = sub(p, c, sub(p, c, a));
  return (pair){hi, sub(p, a, hi)};
}
static pair two_product(xp *p, lv a, lv b) { /* without fma: not every emitter has a fused one */
  lv t = mul(p, a, b);
  pair x = split(p, a), y = split(p, b);
  lv e = add(p, add(p, sub(p, mul(p, x.hi, y.hi), t), mul(p, x.hi, y.lo)), mul(p, x.lo, y.hi));
  return (pair){t, add(p, e, mul(p, x.lo, y.lo))};
}
/* log of a > 0 to 2^-65: as m_log with f in two parts: log(1 + f) = 2s + s^3 (2/3 + s^2 P(s^2)), s = f/(2 + f),
 * where s, s^2 and the term of s^3 are pairs. */
static pair log_pair(xp *p, lv a) {
  lv tiny = xcmp(p, OP_LT, a, xf(p, a, 0x1p-1022)), u = xbits(p, ET_I64, xsel(p, tiny, mul(p, a, xf(p, a, 0x1p54)), a));
  lv e = x2(p, OP_SHR, sub(p, u, xi(p, u, 0x3fe6a09e667f3bcd)), xi(p, u, 52));
  lv f = sub(p, xbits(p, ET_F64, sub(p, u, x2(p, OP_SHL, e, xi(p, u, 52)))), xf(p, a, 1));
  lv mg = xf(p, a, 0x1.8p52), ef = sub(p, sub(p, xbits(p, ET_F64, add(p, e, xbits(p, ET_I64, mg))), mg),
                                       xsel(p, tiny, xf(p, a, 54), xf(p, a, 0)));
  lv two = xf(p, a, 2), d = add(p, f, two), dl = sub(p, f, sub(p, d, two)), s = quot(p, f, d);
  pair sd = two_product(p, s, d);
  lv sl = quot(p, sub(p, sub(p, sub(p, f, sd.hi), sd.lo), mul(p, s, dl)), d); /* s + sl = f/(2 + f) */
  pair z = two_product(p, s, s);
  z.lo = add(p, z.lo, mul(p, mul(p, two, s), sl));
  pair c = two_product(p, s, z.hi);
  c.lo = add(p, c.lo, add(p, mul(p, s, z.lo), mul(p, sl, z.hi))); /* s^3 */
  lv third = xf(p, a, 0x1.5555555555555p-1);
  pair t = two_product(p, c.hi, third);
  t.lo = add(p, t.lo, add(p, mul(p, c.lo, third), mul(p, c.hi, xf(p, a, 0x1.5555555555555p-55))));
  static const double tail[] = {0x1.999999999999ap-2, 0x1.2492492492492p-2, 0x1.c71c71c71c71cp-3, 0x1.745d1745d1746p-3,
                                0x1.3b13b13b13b14p-3, 0x1.1111111111111p-3, 0x1.e1e1e1e1e1e1ep-4, 0x1.af286bca1af28p-4,
                                0x1.8618618618618p-4}; /* 2/5, 2/7, .. 2/21 */
  lv rest = mul(p, mul(p, c.hi, z.hi), poly(p, z.hi, (table){tail, 9}));
  pair r = two_sum(p, mul(p, ef, xf(p, a, 0x1.62e42feep-1)), add(p, s, s)), q = two_sum(p, r.hi, t.hi);
  lv lo = add(p, add(p, r.lo, q.lo),
              add(p, add(p, add(p, sl, sl), t.lo), add(p, rest, mul(p, ef, xf(p, a, 0x1.a39ef35793c76p-33)))));
  return two_sum(p, q.hi, lo);
}
/* e^(hi + lo) for f64, to less than a quarter of an ulp before the last rounding, so that a result that is a number
 * of f64 comes out as that: 1 + r is a pair, and what is added to it is small. */
static lv exp_of_pair(xp *p, lv hi, lv lo) {
  lv k, x = x2(p, OP_MIN, x2(p, OP_MAX, hi, xf(p, hi, -746)), xf(p, hi, 711)), n = nearest(p, x, M_LOG2E, &k),
        one = xf(p, x, 1);
  /* r is exact */
  lv r = xfma(p, n, xf(p, x, -0x1.62e42feep-1), x), rl = xfma(p, n, xf(p, x, -0x1.a39ef35793c76p-33), lo);
  lv rs = add(p, r, rl), q = mul(p, mul(p, rs, rs), poly(p, rs, T(exp))), s = add(p, one, r);
  q = add(p, s, add(p, sub(p, r, sub(p, s, one)), add(p, rl, q)));
  return p->native(p->env, OP_LDEXP, ET_F64) ? x2(p, OP_LDEXP, q, n) : scaled(p, q, k);
}
/* a^y for f64: the error of the logarithm would be multiplied by y log a, so it is computed in two parts */
static lv pow_of_pair(xp *p, lv a, lv y) {
  /* beyond: 0 or inf in any case */
  lv big = xf(p, a, 0x1p64), zero = xf(p, a, 0), inf = xf(p, a, INFINITY),
     yc = x2(p, OP_MAX, x2(p, OP_MIN, y, big), x1(p, OP_NEG, big));
  pair l = log_pair(p, a), t = two_product(p, yc, l.hi);
  lv lo = add(p, t.lo, mul(p, yc, l.lo)), plain = both(p, xcmp(p, OP_GT, a, zero), xcmp(p, OP_LT, a, inf));
  lv inner = both(p, plain, xcmp(p, OP_LT, x1(p, OP_ABS, t.hi), xf(p, a, 1024)));
  return exp_of_pair(p, xsel(p, plain, t.hi, mul(p, yc, m_log(p, a))), xsel(p, inner, lo, zero));
}
/* x^(n/4), or 1 over it, by roots */
static lv quarters(xp *p, lv x, int n, bool below) {
  x = xsel(p, xcmp(p, OP_EQ, x, xf(p, x, -INFINITY)), xf(p, x, INFINITY), add(p, x, xf(p, x, 0))); /* +0 for -0 */
  lv root = x1(p, OP_SQRT, x), r = n & 4 ? x : 0;
  if (n & 2) r = r ? mul(p, r, root) : root;
  if (n & 1) r = r ? mul(p, r, x1(p, OP_SQRT, root)) : x1(p, OP_SQRT, root);
  return below ? quot(p, xf(p, x, 1), r) : r;
}
static lv m_pow(xp *p, lv x, lv y) {
  etype t = (etype)x_type(p, x).elem;
  scalar k;
  if (loop_const(p->b->f, y, &k)) { /* small powers are products, within the error of the rest */
    lv sq = k.f == 2 || k.f == 3 || k.f == 4 ? mul(p, x, x) : 0;
    if (k.f == 1) return x;
    if (k.f == 2) return sq;
    if (k.f == 3) return mul(p, sq, x);
    if (k.f == 4) return mul(p, sq, sq);
    lv inv = k.f == -1 || k.f == -2 ? quot(p, xf(p, x, 1), x) : 0; /* not 1/(x*x), which overflows sooner */
    if (k.f == -1) return inv;
    if (k.f == -2) return mul(p, inv, inv);
    double q = 4 * fabs(k.f);
    /* beyond, the quotient would lose what is nearly 0 */
    if (q == floor(q) && q > 0 && q < (k.f < 0 ? 4 : 8)) return quarters(p, x, (int)q, k.f < 0);
  }
  lv a = x1(p, OP_ABS, x), one = xf(p, x, 1), zero = xf(p, x, 0), half = xf(p, x, 0.5);
  lv wx = t == ET_F64 ? a : x_cast(p, ET_F64, a), wy = t == ET_F64 ? y : x_cast(p, ET_F64, y);
  lv r = t == ET_F64 ? pow_of_pair(p, wx, wy) : x_cast(p, t, m_exp(p, mul(p, wy, m_log(p, wx))));
  lv whole = xcmp(p, OP_EQ, x1(p, OP_FLOOR, y), y), h = mul(p, y, half),
     odd = both(p, whole, xcmp(p, OP_NE, x1(p, OP_FLOOR, h), h));
  r = xsel(p, xcmp(p, OP_EQ, a, one), xsel(p, xtest(p, OP_ISNAN, y), y, one), r); /* (-1)^inf is 1 */
  r = xsel(p, both(p, odd, xtest(p, OP_SIGNBIT, x)), x1(p, OP_NEG, r), r);
  lv finite_neg = both(p, xcmp(p, OP_LT, x, zero), xcmp(p, OP_GT, x, xf(p, x, -INFINITY)));
  lv broken = both(p, finite_neg, x_op(p, OP_NOT, x_type(p, whole), whole, 0, 0));
  r = xsel(p, broken, xf(p, x, NAN), r);
  lv always = x_op(p, OP_OR, x_type(p, whole), xcmp(p, OP_EQ, y, zero), xcmp(p, OP_EQ, x, one), 0);
  return xsel(p, always, one, r);
}

lv x_math(xp *p, sop op, lv x, lv y) {
  switch (op) {
  case OP_EXP:
    return m_exp(p, x);
  case OP_LOG:
    return m_log(p, x);
  case OP_TANH:
    return m_tanh(p, x);
  case OP_ERF:
    return m_erf(p, x);
  case OP_SINH:
    return m_sinh(p, x);
  case OP_COSH:
    return m_cosh(p, x);
  case OP_SIN:
    return m_sincos(p, x, 0);
  case OP_COS:
    return m_sincos(p, x, 1);
  case OP_TAN:
    return m_tan(p, x);
  case OP_ASIN:
    return m_asin(p, x);
  case OP_ACOS:
    return m_acos(p, x);
  case OP_ATAN:
    return m_atan(p, x);
  case OP_ASINH:
    return m_asinh(p, x);
  case OP_ACOSH:
    return m_acosh(p, x);
  case OP_ATANH:
    return m_atanh(p, x);
  case OP_POW:
    return m_pow(p, x, y);
  case OP_LDEXP:
    return m_ldexp(p, x, y);
  default:
    return 0;
  }
}
