/* How wrong are the polynomials of loop_expand? Every function of f32 and f64 over sampled bit patterns (all exponents,
 * both signs, special values) against the C library at higher precision; the largest error in ulp is printed and must
 * not grow. The functions are expanded here, with an emitter that has only the basic operations (BARE), also fma and
 * rounding (RICH), also ldexp and lookups in a register (WIDE, where this machine has those), so that what is tested
 * does not depend on what LLVM has. */
#include "jitkit.h"
#include <fenv.h>
#include <math.h>

enum { BARE, RICH, WIDE };
static const struct kind {
  bool f64;
  int has;
  const char *target;
} kinds[] = {{false, RICH, "host"},
             {true, RICH, "host"},
             {false, BARE, "x86-64"},
             {true, BARE, "x86-64"},
             {false, WIDE, "host"}};
static bool bare(void *env, sop op, etype t) {
  const int *has = env;
  if (et_kind(t) != K_FLOAT)
    return et_bits(t) >= 8 && op != OP_POW && op != OP_RAND && op != OP_SAT && op != OP_SATF &&
           !(t == ET_BOOL && (op == OP_ADD || op == OP_MUL));
  if (t != ET_F32 && t != ET_F64) return false;
  switch (op) {
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_DIV:
  case OP_NEG:
  case OP_ABS:
  case OP_SQRT:
  case OP_MIN:
  case OP_MAX:
  case OP_FMOD:
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
  case OP_SEL:
  case OP_CAST:
  case OP_BITCAST:
  case OP_ISNAN:
  case OP_ISINF:
  case OP_SIGNBIT:
    return true;
  case OP_FMA:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
  case OP_ROUND_EVEN:
    return *has >= RICH;
  case OP_NONE:
  case OP_LDEXP:
    return *has >= WIDE && t == ET_F32;
  default:
    return false;
  }
}
static size_t n_kinds = sizeof kinds / sizeof *kinds;
static bool of_minus; /* functions are of -x */
static bool in_short; /* functions are expanded as in a module that says fast */
static void binary(lmodule *m, sop op, etype t, unsigned lanes, bool two, int has) {
  lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
  lbuild b = loop_builder(f);
  ltype ty = lt(t, lanes);
  lv x = lb_param(&b, "x", lptr(t), LP_READ | LP_NOALIAS, 0), w = lb_param(&b, "w", lptr(t), LP_READ | LP_NOALIAS, 0),
     y = lb_param(&b, "y", lptr(t), LP_WRITE | LP_NOALIAS, 0), i;
  lb_for(&b, "i", lb_int(&b, 0), lb_hi(&b), lb_int(&b, lanes), 0, &i);
  lv at = lb_load(&b, ty, x, i);
  lb_store(&b, y, i,
           lb_op(&b, op, ty, of_minus ? lb_op(&b, OP_NEG, ty, at, 0, 0) : at, two ? lb_load(&b, ty, w, i) : 0, 0));
  lb_end(&b);
  m->fast = in_short;
  loop_expand(m, f, bare, &has);
}
static uint64_t rng = 88172645463325252ull;
static uint64_t rnd(void) {
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return rng;
}
enum { N = 1 << 17 };
/* Distance in units of the last place of the exact value; special values must be equal. */
static double ulps(double got, long double want, bool f64) {
  double w = f64 ? (double)want : (double)(float)want;
  if (isnan(w) || isnan(got)) return isnan(w) && isnan(got) ? 0 : 1e30;
  if (w == got) return w == 0 && signbit(w) != signbit(got) ? 1e20 : 0;
  int e;
  if (isinf(w)) { /* overflow: the largest number is one ulp away */
    frexp(f64 ? 0x1p1023 : 0x1p127, &e);
    if (isinf(got)) return 1e30;
  } else {
    frexpl(want, &e);
  }
  int least = f64 ? -1073 : -148, p = f64 ? 53 : 24;
  long double u = ldexpl(1, (e - p > least - 1 ? e - p : least - 1));
  if (isinf(got)) got = copysign(f64 ? 0x1p1023 * 2 : 0x1p128, got);
  return (double)(fabsl((isinf(w) ? ldexpl(signbit(w) ? -1 : 1, f64 ? 1024 : 128) : want) - got) / u);
}
typedef long double (*ref1)(long double);
static long double exp_minus(long double x) { return expl(-x); }
static const struct fn {
  sop op;
  const char *name;
  ref1 ref;
  double limit32, limit64, lo, hi; /* half of the samples in lo..hi */
} fns[] = {
    {OP_EXP, "exp", expl, 1.1, 1.1, -100, 89},    {OP_LOG, "log", logl, 0.8, 0.85, 0, 4},
    {OP_TANH, "tanh", tanhl, 5.6, 1.35, -10, 10}, {OP_ERF, "erf", erfl, 5.7, 1.7, -5, 5},
    {OP_SIN, "sin", sinl, 1.5, 2.4, -100, 100},   {OP_COS, "cos", cosl, 1.5, 2.4, -100, 100},
    {OP_TAN, "tan", tanl, 2.9, 3.8, -20, 20},     {OP_ASIN, "asin", asinl, 2.4, 2.2, -1, 1},
    {OP_ACOS, "acos", acosl, 1.2, 1.2, -1, 1},    {OP_ATAN, "atan", atanl, 2.1, 2.3, -5, 5},
    {OP_SINH, "sinh", sinhl, 2.2, 1.7, -90, 90},  {OP_COSH, "cosh", coshl, 1.5, 1.5, -90, 90},
    {OP_ASINH, "asinh", asinhl, 3.6, 2.3, -3, 3}, {OP_ACOSH, "acosh", acoshl, 2.1, 2.1, 1, 5},
    {OP_ATANH, "atanh", atanhl, 1.5, 1.5, -1, 1}, {OP_EXP, "exp -", exp_minus, 1.1, 1.1, -89, 100},
};
static const double special[] = {0.0,
                                 -0.0,
                                 1,
                                 -1,
                                 INFINITY,
                                 -INFINITY,
                                 NAN,
                                 0x1p-149,
                                 -0x1p-149,
                                 0x1p-1074,
                                 -0x1p-1074,
                                 0x1.fffffep127,
                                 -0x1.fffffep127,
                                 0x1.fffffffffffffp1023,
                                 -0x1.fffffffffffffp1023,
                                 0x1p-126,
                                 0x1p-1022,
                                 88.72284,
                                 89,
                                 -87.3,
                                 -103.97,
                                 -104.5,
                                 709.78271289338397,
                                 709.9,
                                 -744.5,
                                 -746,
                                 0.5,
                                 0x1.921fb6p0,
                                 0x1.921fb54442d18p0,
                                 1e10,
                                 1e22,
                                 0x1.6ac5b262ca1ffp849,
                                 2,
                                 3,
                                 -2,
                                 -3,
                                 0x1p20,
                                 1e6,
                                 1647099.3291652855,
                                 0x1.ffffp19,
                                 2.414213562373095,
                                 0.625,
                                 0.4142135623730950};
enum { SPECIALS = sizeof special / sizeof *special };
static double random_value(bool f64, int i, double lo, double hi) {
  if (i < SPECIALS) return special[i];
  if (i & 1) return lo + (hi - lo) * (double)(rnd() >> 11) * 0x1p-53;
  union {
    uint64_t u;
    double d;
  } a = {rnd()};
  union {
    uint32_t u;
    float f;
  } b = {(uint32_t)rnd()};
  return f64 ? a.d : b.f;
}
static void *xs, *ws, *ys;
static double get(bool f64, const void *p, int i) { return f64 ? ((const double *)p)[i] : ((const float *)p)[i]; }
static void put(bool f64, void *p, int i, double v) {
  if (f64)
    ((double *)p)[i] = v;
  else
    ((float *)p)[i] = (float)v;
}
static void run(sop op, unsigned lanes, bool two, const struct kind *kd) {
  bool f64 = kd->f64;
  ctx *c = ctx_new();
  lmodule *m = loop_module(c, ctx_arena(c));
  binary(m, op, f64 ? ET_F64 : ET_F32, lanes, two, kd->has);
  jit *j = NULL;
  ek_rt_kernel k = (ek_rt_kernel)kit_find(c, m, kd->target, 1, "k", &j);
  k((int64_t[]){ARG(xs), ARG(ws), ARG(ys)}, 0, N, 0);
  jit_free(j);
  ctx_free(c);
}
static void test_functions(void **s) {
  (void)s;
  printf("largest error in ulp, f32 and f64: with fma and rounding instructions; without; f32 with lookups\n");
  bool any = false;
  for (size_t q = 0; q < sizeof fns / sizeof *fns; q++) {
    const struct fn *f = &fns[q];
    of_minus = f->ref == exp_minus;
    printf("  %-6s", f->name);
    for (const struct kind *kd = kinds; kd < kinds + n_kinds; kd++) {
      bool f64 = kd->f64, rich = kd->has >= RICH;
      for (int i = 0; i < N; i++) put(f64, xs, i, random_value(f64, i, f->lo, f->hi));
      run(f->op, rich ? (f64 ? 8 : 16) : 4, false, kd);
      double worst = 0, at = 0, res = 0;
      for (int i = 0; i < N; i++) {
        double x = get(f64, xs, i), u = ulps(get(f64, ys, i), f->ref((long double)x), f64);
        if (u > worst) worst = u, at = x, res = get(f64, ys, i);
      }
      /* functions by lookups: an ulp for each 22 of x */
      bool far = f->op == OP_EXP || f->op == OP_SINH || f->op == OP_COSH;
      double limit = (f64 ? f->limit64 : f->limit32) + (far && kd->has >= WIDE ? 4 : 0.1);
      printf("  %s %.2f", f64 ? "f64" : "f32", worst);
      if (worst > limit) printf(" (at %a: %a, expected %a)", at, res, (double)f->ref((long double)at)), any = true;
    }
    printf("\n");
  }
  of_minus = false;
  assert_false(any);
}
/* As fast as may be: relative errors; NaN, infinities and zeros as ever. */
static void test_fast(void **s) {
  (void)s;
  static const struct {
    size_t fn;
    double limit;
  } some[] = {{0, 1.2e-5}, {2, 6.6e-5}, {3, 3.6e-5}}; /* exp, tanh, erf */
  in_short = true;
  for (size_t q = 0; q < sizeof some / sizeof *some; q++)
    for (const struct kind *kd = kinds; kd < kinds + n_kinds; kd++) {
      const struct fn *f = &fns[some[q].fn];
      bool f64 = kd->f64, rich = kd->has >= RICH;
      double worst = 0, at = 0;
      for (int i = 0; i < N; i++) put(f64, xs, i, random_value(f64, i, f->lo, f->hi));
      run(f->op, rich ? (f64 ? 8 : 16) : 4, false, kd);
      for (int i = 0; i < N; i++) {
        double x = get(f64, xs, i), got = get(f64, ys, i),
               want = f64 ? (double)f->ref((long double)x) : (float)f->ref((long double)x), e = 0;
        if (isnan(want) || isinf(want) || want == 0)
          e = isnan(want) ? !isnan(got) : got != want;
        else if (fabs(want) >= 0x1p-126)
          e = fabs(got / want - 1);
        if (!(e <= worst)) worst = e, at = x;
      }
      printf("  fast %s %s %.2e at %a\n", f->name, f64 ? "f64" : "f32", worst, at);
      assert_true(worst <= (f64 ? 1e-15 : some[q].limit));
    }
  in_short = false;
}
/* What tends to -1 and 1 gets there, and stays: else 1 + f(x), times x, would grow with x. All of f32 from where
 * the functions round to 1 on, and the same numbers as f64. */
static void test_ends(void **s) {
  (void)s;
  static const struct {
    sop op;
    double from, fast_from; /* 1 behind */
  } some[] = {{OP_TANH, 9.03, 5.21}, {OP_ERF, 3.97, 3.01}};
  for (int q = 0; q < 4; q++)
    for (const struct kind *kd = kinds; kd < kinds + n_kinds; kd++) {
      bool f64 = kd->f64, rich = kd->has >= RICH;
      double from = f64 ? (q & 1 ? 5.93 : 19.1) : q & 2 ? some[q & 1].fast_from : some[q & 1].from;
      union {
        float f;
        uint32_t u;
      } x = {(float)from};
      uint32_t least = x.u, step = (0x7f800000 - least) / (N - 1);
      for (int i = 0; i < N; i++) {
        x.u = i < N / 2 ? least + (uint32_t)i : least + (uint32_t)i * step;
        put(f64, xs, i, i == N - 1 ? INFINITY : x.f);
        if (i & 1) put(f64, xs, i, -get(f64, xs, i));
      }
      in_short = q & 2;
      run(some[q & 1].op, rich ? (f64 ? 8 : 16) : 4, false, kd);
      in_short = false;
      for (int i = 0; i < N; i++)
        if (get(f64, ys, i) != (i & 1 ? -1 : 1)) {
          printf("%s of %a is %a\n", q & 1 ? "erf" : "tanh", get(f64, xs, i), get(f64, ys, i));
          assert_true(false);
        }
    }
}
/* Where e^x is 0 it comes without a result below the normal numbers: processors take 200 cycles for each. */
static void test_zero_exp(void **s) {
  (void)s;
  for (int minus = 0; minus < 2; minus++)
    for (const struct kind *kd = kinds; kd < kinds + n_kinds; kd++) {
      for (int i = 0; i < N; i++) {
        const double x = i == N - 1 ? INFINITY : (kd->f64 ? 746.5 : 104.5) * exp2(64.0 * i / N);
        put(kd->f64, xs, i, minus ? x : -x);
      }
      of_minus = minus;
      feclearexcept(FE_ALL_EXCEPT);
      run(OP_EXP, kd->has >= RICH ? (kd->f64 ? 8 : 16) : 4, false, kd);
      of_minus = false;
      assert_false(fetestexcept(FE_UNDERFLOW));
      for (int i = 0; i < N; i++) assert_true(get(kd->f64, ys, i) == 0);
    }
}
static void test_pow(void **s) {
  (void)s;
  for (const struct kind *kd = kinds; kd < kinds + n_kinds; kd++) {
    bool f64 = kd->f64;
    for (int i = 0; i < N; i++) {
      put(f64, xs, i, i < SPECIALS * SPECIALS ? special[i / SPECIALS] : random_value(f64, i + SPECIALS, 0, 10));
      put(f64, ws, i,
          i < SPECIALS * SPECIALS ? special[i % SPECIALS]
          : i % 4 < 2             ? (double)((int)(rnd() % 41) - 20)
                                  : random_value(f64, i | 1, -20, 20));
    }
    run(OP_POW, f64 ? 8 : 16, true, kd);
    double worst = 0, wx = 0, wy = 0, res = 0;
    for (int i = 0; i < N; i++) {
      double x = get(f64, xs, i), y = get(f64, ws, i),
             u = ulps(get(f64, ys, i), powl((long double)x, (long double)y), f64);
      if (u > worst) worst = u, wx = x, wy = y, res = get(f64, ys, i);
    }
    printf("  pow %s %.2f ulp (at %a, %a: %a, expected %a)\n", f64 ? "f64" : "f32", worst, wx, wy, res, pow(wx, wy));
    assert_true(worst < (f64 ? 0.8 : 0.6));
    for (int i = 0; i < N; i++) put(f64, xs, i, (double)(i % 121 - 60)), put(f64, ws, i, (double)(i / 121 % 9));
    run(OP_POW, f64 ? 8 : 16, true, kd);
    for (int i = 0; i < N; i++) { /* whole numbers are exact: an integer Pow cuts off what is behind the point */
      double want = 1;
      for (int k = 0; k < i / 121 % 9; k++) want *= i % 121 - 60;
      if (fabs(want) < (f64 ? 0x1p53 : 0x1p24)) assert_true(get(f64, ys, i) == want);
    }
  }
}
/* Constant exponents go shorter ways. */
static void test_pow_constant(void **s) {
  (void)s;
  enum { BY_ROOTS = 9 }; /* kind from which on functions are products of several roots, or one over them */
  static const double ys_[] = {0, 0.5, 1, 2, 3, 4, -1, -2, 1.5, 0.25, 0.75, 1.25, 1.75, -0.25, -0.5, -0.75, -1.5},
                      odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-140, 0x1.fp127, -1};
  double worst = 0;
  for (size_t q = 0; q < sizeof ys_ / sizeof *ys_; q++) {
    const double most = q < BY_ROOTS ? 2.1 : 3.5;
    for (int i = 0; i < N; i++)
      put(false, xs, i, i < (int)(sizeof odd / sizeof *odd) ? odd[i] : random_value(false, i, -10, 10));
    ctx *c = ctx_new();
    lmodule *m = loop_module(c, ctx_arena(c));
    lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
    lbuild b = loop_builder(f);
    ltype ty = lt(ET_F32, 16);
    lv x = lb_param(&b, "x", lptr(ET_F32), LP_READ, 0), y = lb_param(&b, "y", lptr(ET_F32), LP_WRITE, 0), i;
    lb_for(&b, "i", lb_int(&b, 0), lb_hi(&b), lb_int(&b, 16), 0, &i);
    lb_store(&b, y, i, lb_op(&b, OP_POW, ty, lb_load(&b, ty, x, i), lb_const(&b, ty, (scalar){.f = ys_[q]}), 0));
    lb_end(&b);
    jit *j = NULL;
    ek_rt_kernel k = (ek_rt_kernel)kit_find(c, m, "host", 1, "k", &j);
    k((int64_t[]){ARG(xs), ARG(ys)}, 0, N, 0);
    for (int n = 0; n < N; n++) {
      double v = get(false, xs, n), u = ulps(get(false, ys, n), powl((long double)v, (long double)ys_[q]), false);
      if (u > worst) worst = u;
      if (u > most) printf("pow(%a, %g) gives %a, expected %a\n", v, ys_[q], get(false, ys, n), pow(v, ys_[q]));
      assert_true(u <= most);
    }
    jit_free(j);
    ctx_free(c);
  }
  printf("  pow of constants %.2f ulp\n", worst);
}
static void find_machine(void) {
  ctx *c = ctx_new();
  const target *t = target_get(c, "host");
  if (!t || t->vector_bits < 512) n_kinds--;
  ctx_free(c);
}
int main(void) {
  find_machine();
  xs = aligned_alloc(64, N * 8), ws = aligned_alloc(64, N * 8), ys = aligned_alloc(64, N * 8);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_fast),
                                     cmocka_unit_test(test_ends),      cmocka_unit_test(test_zero_exp),
                                     cmocka_unit_test(test_pow),       cmocka_unit_test(test_pow_constant)};
  int r = cmocka_run_group_tests(tests, NULL, NULL);
  free(xs), free(ws), free(ys);
  return r;
}
