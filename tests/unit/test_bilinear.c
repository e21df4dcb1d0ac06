/* Forms with fewer products compute what the window's sum says: with formulas of f64 up to rounding, with formulas
 * of f32 within the bound that bilinear.c states. */
#include "passes/bilinear.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

typedef struct values {
  emodule *m;
  const double *x;
  tid t;
} values;
static ex load_at(void *env, int64_t i) {
  const values *v = env;
  sz at = sym_int(v->m->c, i);
  return expr_load(v->m, v->t, &at, 1, 0);
}
static double value_of(const values *v, ex e, double *memo, bool *known) { /* each node once */
  const ex_node *n = exn(v->m, e);
  double a[3] = {0}, r = 0;
  if (known[e]) return memo[e];
  int64_t at = 0;
  if (n->kind == EX_CONST)
    r = n->k.f;
  else if (n->kind == EX_LOAD)
    assert_true(sym_is_int(v->m->c, n->args[0], &at)), r = v->x[at];
  else {
    assert_int_equal(n->kind, EX_OP);
    for (int i = 0; i < n->nargs; i++) a[i] = value_of(v, n->args[i], memo, known);
    r = n->op == OP_ADD   ? a[0] + a[1]
        : n->op == OP_SUB ? a[0] - a[1]
        : n->op == OP_NEG ? -a[0]
        : n->op == OP_MUL ? a[0] * a[1]
        : n->op == OP_FMA ? fma(a[0], a[1], a[2])
                          : NAN;
  }
  known[e] = true;
  return memo[e] = n->type == ET_F32 ? (double)(float)r : r;
}
static uint64_t seed = 1;
static double rnd(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (double)(float)((double)(seed >> 11) / (double)(1ull << 52) - 1);
}
typedef struct of_pair {
  values v;                    /* the inputs; first, since inputs are read by it */
  const window *w;             /* the form */
  const bilinear_pairs *pairs; /* its pairs */
  int64_t p;                   /* the pair that is computed */
} of_pair;
static ex coefficient_of(void *env, int64_t j) {
  const of_pair *k = env;
  return expr_f(k->v.m, xt(k->v.m, k->v.t)->type, bilinear_coefficient(k->w, k->pairs, k->p, j));
}
enum { NODES = 1 << 17 };
static uint32_t looped;
/* The products that one formula computes are those that each has a formula of its own for, bit by bit. */
static void check_pairs(const window *w, const values *v, double *memo, bool *known) {
  const bilinear_pairs pairs = bilinear_find_pairs(w);
  for (int64_t p = 0; p < pairs.n; p++)
    for (int64_t second = 0; second < 2; second++) {
      of_pair k = {*v, w, &pairs, p};
      const int64_t i = (second ? pairs.twin : pairs.first) + p * pairs.step;
      const double want = value_of(v, bilinear_in(w, v->m, i, load_at, &k), memo, known),
                   is =
                       value_of(v, bilinear_in_pair(w, v->m, &pairs, second, coefficient_of, load_at, &k), memo, known);
      assert_true(want == is);
    }
  looped += (uint32_t)pairs.n;
}
static void check(ctx *c, const window *w, etype t) {
  double x[BILINEAR_INPUTS * 4] = {0}, taps[BILINEAR_INPUTS] = {0}, in[BILINEAR_INPUTS], product[BILINEAR_PRODUCTS],
                             len = 0, wide = 0, *memo = NEWN(ctx_arena(c), double, NODES);
  bool *known = NEWN(ctx_arena(c), bool, NODES);
  emodule *m = expr_module(c);
  sz n = sym_int(c, BILINEAR_PRODUCTS);
  values v = {m, in, expr_tensor(m, TK_INPUT, t, &n, 1, "x", NULL)};
  for (int64_t i = 0; i < BILINEAR_INPUTS * 4; i++) x[i] = rnd();
  for (int64_t k = 0; k < w->r; k++) taps[k] = rnd(), wide += taps[k] * taps[k];
  for (int64_t i = 0; i < w->len; i++) in[i] = x[w->at[i]], len += in[i] * in[i];
  for (int64_t i = 0; i < w->n; i++) {
    double u = 0, p = value_of(&v, bilinear_in(w, m, i, load_at, &v), memo, known);
    for (int64_t k = 0; k < w->r; k++) u += w->g[i * w->r + k] * (w->scale ? w->scale[k] : 1) * taps[k];
    if (w->scale) { /* the formula of the factor says the same */
      double kept[BILINEAR_INPUTS], *of = NEWN(ctx_arena(c), double, NODES);
      bool *there = NEWN(ctx_arena(c), bool, NODES);
      values f = {m, kept, v.t};
      for (int64_t k = 0; k < w->r; k++) kept[k] = w->scale[k] * taps[k];
      assert_true(fabs(value_of(&f, bilinear_factor(w, m, i, load_at, &f), of, there) - u) <=
                  (t == ET_F64 ? 1e-13 : 1e-5));
    }
    product[i] = t == ET_F32 ? (double)((float)p * (float)u) : p * u;
  }
  check_pairs(w, &v, memo, known);
  memset(known, 0, NODES * sizeof *known);
  v.x = product;
  double bound = t == ET_F64 ? 1e-13 : w->circle ? (6 * log2((double)w->circle) + 8) / (1 << 24) : 1e-5;
  for (int64_t o = 0; o < w->m; o++) {
    double want = 0, is = value_of(&v, bilinear_out(w, m, o, load_at, &v), memo, known);
    for (int64_t k = 0; k < w->r; k++) want += x[o * w->stride + k * (w->phases > 1 ? w->stride : 1)] * taps[k];
    assert_true(m->nodes.n < NODES);
    if (!(fabs(is - want) <= bound * sqrt(len * wide)))
      fail_msg("taps %d stride %d outputs %d circle %d: %.17g, not %.17g", (int)w->taps, (int)w->stride, (int)w->m,
               (int)w->circle, is, want);
  }
}
static uint32_t lines, taps_kept, phases, turns;
static void all_forms(ctx *c, int64_t taps, int64_t stride) {
  static const int64_t circles[] = {7, 8, 9, 12, 15, 16, 20, 24, 32, 40, 48, 64};
  window plain = {.sign = 1, .stride = stride, .taps = taps, .phases = 1, .parts = 1, .r = taps, .m = 1, .n = taps}, w;
  for (int64_t m = 2; m <= 7; m++) {
    w = plain;
    if (!bilinear_line(&w, m, ctx_arena(c))) continue;
    check(c, &w, ET_F64), check(c, &w, ET_F32), lines++;
    if (!bilinear_keep_taps(&w, ctx_arena(c))) continue;
    check(c, &w, ET_F64), check(c, &w, ET_F32), taps_kept++;
  }
  for (int64_t m = 2; m <= 7 && stride > 1; m++) {
    w = plain, w.phases = stride, w.r = (taps + stride - 1) / stride;
    if (!bilinear_line(&w, m, ctx_arena(c))) continue;
    check(c, &w, ET_F64), check(c, &w, ET_F32), phases++;
  }
  for (uint32_t i = 0; i < sizeof circles / sizeof *circles; i++)
    for (int64_t m = 2; m <= circles[i]; m += 1 + m / 3) {
      w = plain;
      if (!bilinear_circle(&w, m, 1, circles[i], ctx_arena(c))) continue;
      check(c, &w, ET_F64), check(c, &w, ET_F32), turns++;
    }
}
static bool fine;
static void run_forms(ctx *c, int64_t taps, int64_t stride) {
  fine = false;
  CTX_TRY(c) {
    all_forms(c, taps, stride);
    fine = true;
  }
}
static void forms(void **state) {
  (void)state;
  for (int64_t stride = 1; stride <= 3; stride++)
    for (int64_t taps = 2; taps <= 40; taps += 1 + taps / 8) {
      ctx *c = ctx_new();
      run_forms(c, taps, stride);
      ctx_free(c);
      assert_true(fine);
    }
  assert_true(lines > 20 && taps_kept > 10 && phases > 20 && turns > 200 && looped > 50);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(forms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
