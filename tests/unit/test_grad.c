/* grad: adjoints against central differences, both computed by the evaluator in f64. Modules come from text, and from
 * the operator library's definitions at random shapes and attributes (fixed seeds). Every module is verified after
 * differentiation, its forward values must not have changed, and the adjoints must survive expr_optimise. The last
 * tests look at the structure: a window product's gradients are contractions without guards. */
#include "eval/eval.h"
#include "passes/passes.h"
#include "fusion/fusion.h"
#include "grad/grad.h"
#include "notation/notation.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

static uint32_t seed = 1;
static uint32_t rnd(uint32_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % n;
}
static int setup(void **state) {
  seed = 7;
  *state = ctx_new();
  return *state ? 0 : -1;
}
static int teardown(void **state) {
  ctx_free(*state);
  return 0;
}

/* ---- harness --------------------------------------------------------------------------------- */
enum { MAX_IN = 16, SAMPLES = 10 };
typedef struct feed {
  tid t;
  ndarray nd;
  bool wrt;
} feed;
typedef struct check {
  bool again; /* differentiate the adjoints instead, with respect to inputs and seeds */
  ctx *c;
  emodule *m;
  const char *what;
  feed in[MAX_IN];
  uint32_t nin;
  tid outs[MAX_IN], seeds[MAX_IN];
  uint32_t nout;
  double worst;
} check;

static void show_errors(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) fprintf(stderr, "%s: %s\n", d->node ? d->node : "", d->text);
}
static char *text_of(emodule *m) {
  sbuf b = sbuf_new(ctx_arena(m->c));
  expr_print(m, &b, (print_opts){.weights_inline = true, .kernels = true});
  return b.n ? b.s : "";
}
static int64_t elements(const ndarray *a) {
  int64_t n = 1;
  for (uint32_t i = 0; i < a->rank; i++) n *= a->dims[i];
  return n;
}
static ndarray array(ctx *c, etype t, uint32_t rank, const int64_t *dims) {
  ndarray a = {.type = t, .rank = rank};
  if (rank) memcpy(a.dims, dims, rank * sizeof *dims);
  a.bytes = (size_t)elements(&a) * et_bytes(t);
  a.data = arena_alloc(ctx_arena(c), a.bytes + 16);
  return a;
}
/* Different values, evenly spread over (lo, hi) in random order: no two within a step of each other, so that no
 * winner changes under a small step. */
static ndarray spread(ctx *c, uint32_t rank, const int64_t *dims, double lo, double hi) {
  ndarray a = array(c, ET_F64, rank, dims);
  double *x = (double *)(uintptr_t)a.data;
  int64_t n = elements(&a);
  double shift = 0.2 + 0.6 * rnd(1000) / 1000;
  for (int64_t i = 0; i < n; i++) x[i] = lo + (hi - lo) * ((double)i + shift) / (double)n;
  for (int64_t i = n; i-- > 1;) {
    int64_t k = rnd((uint32_t)i + 1);
    double t = x[i];
    x[i] = x[k], x[k] = t;
  }
  return a;
}
static void symbol_of(check *k, evaluation *v) {
  for (uint32_t i = 0; i < k->nin; i++) expr_eval_input(v, k->in[i].t, &k->in[i].nd);
}
static double loss(check *k, const ndarray *at) { /* sum over outs of <seed, out>; at: values of the seeds */
  arena *a = arena_new(k->c);
  evaluation *v = expr_eval_new(k->m, a, 1);
  double sum = 0;
  symbol_of(k, v);
  for (uint32_t o = 0; o < k->nout; o++) {
    const ndarray *y = expr_eval_get(v, k->outs[o]);
    for (int64_t i = 0; i < elements(y); i++)
      sum += ((const double *)y->data)[i] * (at[o].data ? ((const double *)at[o].data)[i] : 1);
  }
  arena_free(a);
  return sum;
}
static void close_to(check *k, const char *name, int64_t i, double got, double want, double tol) {
  double e = fabs(got - want) / fmax(1, fmax(fabs(got), fabs(want)));
  if (e > k->worst || e != e) k->worst = e;
  if (!(e <= tol))
    fail_msg("%s: adjoint of %s at %lld is %.12g, differences give %.12g\n%s", k->what, name, (long long)i, got, want,
             text_of(k->m));
}
static void run_check_(check *k) {
  emodule *m = k->m;
  ctx *c = k->c;
  tid wrt[MAX_IN], adj[MAX_IN];
  uint32_t nw = 0, nin = k->nin;
  ndarray sv[MAX_IN], got[MAX_IN], before[MAX_IN];
  evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
  symbol_of(k, v);
  for (uint32_t o = 0; o < k->nout; o++) {
    before[o] = *expr_eval_get(v, k->outs[o]);
    sv[o] = spread(c, before[o].rank, before[o].dims, -1, 1);
    const tensor y = *xt(m, k->outs[o]);
    k->seeds[o] = expr_tensor(m, TK_INPUT, y.type, y.shape, y.rank, "seed", NULL);
    vec_push(m->a, m->inputs, ((io){k->seeds[o], "seed"}));
  }
  for (uint32_t i = 0; i < nin; i++)
    if (k->in[i].wrt) wrt[nw++] = k->in[i].t;
  if (!grad_reverse(m, 0, k->outs, k->seeds, k->nout, wrt, nw, adj) || !expr_verify(m, "grad")) {
    show_errors(c);
    fail_msg("%s: no gradient\n%s", k->what, text_of(m));
  }
  for (uint32_t o = 0; o < k->nout; o++) k->in[k->nin++] = (feed){k->seeds[o], sv[o], false};
  bool by_data = false;
  sbuf unproved = sbuf_new(m->a);
  for (uint32_t i = 0; i < k->nin; i++) by_data |= k->in[i].nd.type != ET_F64;
  /* a counter is not known to be less than a symbol */
  for (uint32_t i = 0; i < m->loops.n; i++) by_data |= !sym_is_int(c, m->loops.v[i].trips, NULL);
  if (!by_data && expr_verify_ranges(m, &unproved))
    fail_msg("%s: reads not proved in range: %s\n%s", k->what, unproved.s, text_of(m));
  /* the evaluator's adjoints; forward values are as before */
  v = expr_eval_new(m, ctx_arena(c), 1);
  symbol_of(k, v);
  for (uint32_t i = 0; i < nw; i++) got[i] = *expr_eval_get(v, adj[i]);
  for (uint32_t o = 0; o < k->nout; o++) {
    const ndarray *y = expr_eval_get(v, k->outs[o]);
    assert_int_equal(y->bytes, before[o].bytes);
    for (int64_t i = 0; i < elements(y); i++)
      close_to(k, "the value itself", i, ((const double *)y->data)[i], ((const double *)before[o].data)[i], 1e-12);
  }
  for (uint32_t i = 0, w = 0; i < nin; i++) {
    if (!k->in[i].wrt) continue;
    double *x = (double *)(uintptr_t)k->in[i].nd.data;
    int64_t n = elements(&k->in[i].nd);
    assert_int_equal(got[w].bytes, k->in[i].nd.bytes);
    for (int64_t q = 0; q < n && q < SAMPLES; q++) {
      int64_t at = n <= SAMPLES ? q : rnd((uint32_t)n);
      double keep = x[at], h = 1e-5;
      x[at] = keep + h;
      double up = loss(k, sv);
      x[at] = keep - h;
      double down = loss(k, sv);
      x[at] = keep;
      close_to(k, xt(m, wrt[w])->name, at, ((const double *)got[w].data)[at], (up - down) / (2 * h), 1e-6);
    }
    w++;
  }
  /* the passes keep them */
  m->outputs.n = 0;
  for (tid t = 1; t < m->tensors.n; t++) xt(m, t)->output = false;
  for (uint32_t i = 0; i < nw; i++) {
    tid t = adj[i];
    if (xt(m, t)->kind != TK_STAGE) continue;
    xt(m, t)->output = true;
    vec_push(m->a, m->outputs, ((io){t, "d"}));
  }
  char *raw = text_of(m);
  expr_optimise(m, 1, NULL);
  if (!expr_verify(m, "passes")) {
    show_errors(c);
    fail_msg("%s: the passes break it\n%s\n%s", k->what, raw, text_of(m));
  }
  v = expr_eval_new(m, ctx_arena(c), 1);
  symbol_of(k, v);
  for (uint32_t i = 0; i < nw; i++) {
    if (xt(m, adj[i])->kind != TK_STAGE) continue;
    const ndarray *y = expr_eval_get(v, adj[i]);
    for (int64_t q = 0; q < elements(y); q++) {
      double a = ((const double *)y->data)[q], b = ((const double *)got[i].data)[q];
      if (!(fabs(a - b) <= 1e-9 * fmax(1, fabs(b))))
        fail_msg("%s: after the passes adjoint %u at %lld is %.12g, was %.12g\n%s\n%s", k->what, i, (long long)q, a, b,
                 raw, text_of(m));
    }
  }
}
/* Adjoints become the outputs, seeds inputs like the others. */
static void differentiate_first(check *k) {
  tid wrt[MAX_IN], adj[MAX_IN];
  uint32_t nw = 0;
  evaluation *v = expr_eval_new(k->m, ctx_arena(k->c), 1);
  symbol_of(k, v);
  for (uint32_t i = 0; i < k->nin; i++)
    if (k->in[i].wrt) wrt[nw++] = k->in[i].t;
  for (uint32_t o = 0; o < k->nout; o++) {
    ndarray y = *expr_eval_get(v, k->outs[o]);
    const tensor t = *xt(k->m, k->outs[o]);
    tid s = expr_tensor(k->m, TK_INPUT, t.type, t.shape, t.rank, "seed", NULL);
    vec_push(k->m->a, k->m->inputs, ((io){s, xt(k->m, s)->name}));
    k->seeds[o] = s;
    k->in[k->nin++] = (feed){s, spread(k->c, y.rank, y.dims, -1, 1), true};
  }
  assert_true(grad_reverse(k->m, 0, k->outs, k->seeds, k->nout, wrt, nw, adj));
  for (uint32_t i = 0; i < nw; i++) k->outs[i] = adj[i];
  k->nout = nw;
}
static void run_check(check *k) {
  volatile bool ok = false;
  CTX_TRY(k->c) {
    if (k->again) differentiate_first(k);
    run_check_(k);
    ok = true;
  }
  CTX_CATCH { ok = false; }
  if (!ok) {
    show_errors(k->c);
    fail_msg("%s: unwound\n%s", k->what, text_of(k->m));
  }
  if (getenv("GRAD_VERBOSE")) printf("  %-40s %.1e\n", k->what, k->worst);
}

/* ---- modules from text ----------------------------------------------------------------------- */
/* Float inputs are differentiated; integer inputs get values in 0..ints-1. Symbols are 5. */
static void text_(ctx *c, const char *what, const char *source, double lo, double hi, int ints, bool again) {
  emodule *m = expr_parse(c, source, what);
  if (!m) show_errors(c);
  assert_non_null(m);
  check k = {.again = again, .c = c, .m = m, .what = what};
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    const tensor *t = xt(m, m->inputs.v[i].t);
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < t->rank; d++) dims[d] = sym_int_or(c, t->shape[d], 5);
    feed f = {.t = m->inputs.v[i].t, .wrt = t->type == ET_F64};
    if (f.wrt)
      f.nd = spread(c, t->rank, dims, lo, hi);
    else {
      f.nd = array(c, t->type, t->rank, dims);
      for (int64_t e = 0; e < elements(&f.nd); e++)
        et_store(t->type, (uint8_t *)(uintptr_t)f.nd.data + e * et_bytes(t->type), (scalar){.i = rnd((uint32_t)ints)});
    }
    k.in[k.nin++] = f;
  }
  for (uint32_t i = 0; i < m->outputs.n; i++) k.outs[k.nout++] = m->outputs.v[i].t;
  run_check(&k);
}
static void text(ctx *c, const char *what, const char *source, double lo, double hi, int ints) {
  text_(c, what, source, lo, hi, ints, false);
}
#define IN(name, shape) "tensor " name ": f64[" shape "] input \"" name "\"\n"
#define INT(name, shape) "tensor " name ": i64[" shape "] input \"" name "\"\n"
#define OUT "output y \"y\"\n"
static void by_hand(void **state) {
  ctx *c = *state;
  text(c, "product",
       "size N\n" IN("a", "N, 4") IN("b", "4, 3") "stage y: f64 [i<N, j<3] = sum[k<4] a[i, k] * b[k, j]\n" OUT, -1, 1,
       1);
  text(c, "shared value",
       IN("a", "6") "stage e: f64 [i<6] = exp(a[i])\nstage y: f64 [j<6] = e[j] / (sum[k<6] e[k])\n" OUT, -1, 1, 1);
  text(c, "window",
       IN("x", "2, 3, 9") IN("w", "4, 3, 3") "stage y: f64 [n<2, m<4, h<9] = sum[c<3, p<3] (load x[n, c, h + p - 1] "
                                             "else 0.0f64) * w[m, c, p]\n" OUT,
       -1, 1, 1);
  text(c, "strided window",
       IN("x", "2, 3, 11") IN("w", "4, 3, 3") "stage y: f64 [n<2, m<4, h<6] = sum[c<3, p<3] (load x[n, c, 2*h + p - 1] "
                                              "else 0.0f64) * w[m, c, p]\n" OUT,
       -1, 1, 1);
  static const struct { /* places, results, taps, and how they are read */
    const char *what, *x, *y, *w, *at;
  } strided[] = {{"strided window, odd offset", "12", "6", "3", "2*h + p - 1"},
                 {"strided window, odd number of places", "13", "7", "3", "2*h + p - 1"},
                 {"strided window, even offset", "11", "5", "4", "2*h + p - 2"},
                 {"strided window with gaps", "14", "5", "3", "2*h + 3*p - 1"},
                 {"a step of 3, a third of the offset", "13", "4", "5", "3*h + p - 3"},
                 {"a step of 3, other offset", "13", "4", "5", "3*h + p - 1"}};
  for (uint32_t i = 0; i < sizeof strided / sizeof *strided; i++)
    text(c, strided[i].what,
         arena_fmt(ctx_arena(c),
                   IN("x", "%s") IN("w", "%s") "stage y: f64 [h<%s] = sum[p<%s] (load x[%s] else 0.0f64) * w[p]\n" OUT,
                   strided[i].x, strided[i].w, strided[i].y, strided[i].w, strided[i].at),
         -1, 1, 1);
  text(c, "window of symbolic size",
       "size N\n" IN("x", "2, N")
           IN("w", "3") "stage y: f64 [n<2, h<(N + 1)//2] = sum[p<3] (load x[n, 2*h + p - 1] else 0.0f64) * w[p]\n" OUT,
       -1, 1, 1);
  text(c, "diagonal", IN("a", "5, 5") "stage y: f64 [i<5] = a[i, i] * a[4 - i, i]\n" OUT, -1, 1, 1);
  text(c, "fixed row", IN("a", "5, 3") "stage y: f64 [i<3] = a[2, i] * a[4, i] + a[0, 0]\n" OUT, -1, 1, 1);
  text(c, "mirror", IN("a", "7") "stage y: f64 [i<7] = a[6 - i] * 2.0f64\n" OUT, -1, 1, 1);
  text(c, "every third, backwards", IN("a", "12") "stage y: f64 [i<4] = a[10 - 3*i] * a[3*i + 2]\n" OUT, -1, 1, 1);
  text(c, "reshape 2x3 to 3x2",
       IN("a", "3, 2") "stage y: f64 [i<2, j<3] = a[(3*i + j)//2, (3*i + j) - 2*((3*i + j)//2)] * f64(#i + 1)\n" OUT,
       -1, 1, 1);
  text(c, "nearest", IN("a", "3, 4") "stage y: f64 [i<6, j<7] = a[i//2, j//2]\n" OUT, -1, 1, 1);
  text(c, "clamped", IN("a", "5") "stage y: f64 [i<9] = a[max(min(i - 2, 4), 0)] * f64(#i)\n" OUT, -1, 1, 1);
  text(c, "by data", IN("a", "40, 3") INT("j", "6") "stage y: f64 [i<6, k<3] = a[{j[i]}, k] * f64(#i + 1)\n" OUT, -1, 1,
       40);
  text(c, "by data, summed",
       IN("a", "40") IN("w", "4, 5")
           INT("j", "4") "stage y: f64 [i<4] = sum[k<5] (load a[{j[i]} + 20] else 0.0f64) * w[i, k]\n" OUT,
       -1, 1, 40);
  text(c, "prefix sums", IN("a", "6") "stage y: f64 [p<6] = sum[k<6 where #k <= #p] a[k] * a[k]\n" OUT, -1, 1, 1);
  text(c, "greatest", IN("a", "4, 5") "stage y: f64 [i<4] = max[k<5] a[i, k] * a[i, k]\n" OUT, -1, 1, 1);
  text(c, "least with a condition", IN("a", "4, 5") "stage y: f64 [i<4] = min[k<5 where #k > 1] a[i, k]\n" OUT, -1, 1,
       1);
  text(c, "product of all", IN("a", "4, 5") "stage y: f64 [i<4] = prod[k<5] a[i, k]\n" OUT, -1, 1, 1);
  text(c, "product with a zero", IN("a", "5") "stage y: f64 [] = prod[k<5] (#k == 2 ? a[k] - 2.0f64 : a[k])\n" OUT, 2,
       2, 1);
  text(c, "product with two zeros", IN("a", "5") "stage y: f64 [] = prod[k<5] (#k >= 3 ? a[k] - 2.0f64 : a[k])\n" OUT,
       2, 2, 1);
  text(c, "sum inside an expression",
       IN("a", "4, 5") "stage y: f64 [i<4, j<5] = (a[i, j] - (sum[k<5] a[i, k]) / 5.0f64) * (max[q<5] a[i, q])\n" OUT,
       -1, 1, 1);
  text(c, "sum of a nonlinear sum", IN("a", "4, 5") "stage y: f64 [] = sum[i<4] exp(sum[k<5] a[i, k] * a[i, k])\n" OUT,
       -1, 1, 1);
  text(c, "undefined where not taken",
       IN("a", "6") "stage y: f64 [i<6] = a[i] > 0.0f64 ? log(a[i]) : a[i] * a[i]\n" OUT, -1, 1, 1);
  text(c, "a sum out of range where not taken",
       IN("a", "6, 3") "stage y: f64 [i<6] = #i >= 1 ? (sum[k<3] a[i - 1, k]) * a[i, 0] : a[i, 0]\n" OUT, -1, 1, 1);
  text(c, "out of range where not taken", IN("a", "6") "stage y: f64 [i<6] = #i >= 2 ? a[i - 2] * a[i] : a[i]\n" OUT,
       -1, 1, 1);
  text(c, "else of another",
       IN("a", "4") IN("b", "3") "stage y: f64 [i<8] = (load a[i - 2] else b[1] * b[2]) * b[0]\n" OUT, -1, 1, 1);
  text(c, "mixed radix", IN("a", "12") IN("b", "3, 4") "stage y: f64 [(i<3, j<4)] = a[4*i + j] * b[i, j]\n" OUT, -1, 1,
       1);
  text(c, "part of a mixed radix",
       IN("a", "17") IN("b", "3, 4, 2") "stage y: f64 [i<3, j<4] = sum[k<2] a[4*i + j + 2] * b[i, j, k]\n" OUT, -1, 1,
       1);
}
/* The gradient of a strided window sums over the taps of one residue, also where there are less results than taps. */
static void short_sums(void **state) {
  ctx *c = *state;
  emodule *m = expr_parse(c,
                          IN("x", "8") IN("w", "3") "stage y: f64 [h<4] = sum[p<3] (load x[2*h + p - 1] else 0.0f64) * "
                                                    "w[p]\n" OUT,
                          "short");
  assert_non_null(m);
  tid y = m->outputs.v[0].t, x = m->inputs.v[0].t, d;
  assert_true(grad_reverse(m, 0, &y, NULL, 1, &x, 1, &d));
  if (!strstr(text_of(m), "(h.2<4, q<2)] = sum[p.1<2]")) fail_msg("%s", text_of(m));
}
/* The result of a bound tells where its operand was taken: the gradient reads nothing else. Of two operands with
 * gradients it reads both. */
static void bounds(void **state) {
  ctx *c = *state;
  static const char *const values[] = {"max(x[i], 0.0f64)", "min(x[i], 0.25f64)",
                                       "min(max(x[i] * x[i], 0.1f64), 0.5f64)", "max(x[i], w[i])"};
  for (int k = 0; k < 4; k++) {
    const char *source = arena_fmt(ctx_arena(c), IN("x", "8") IN("w", "8") "stage y: f64 [i<8] = %s\n" OUT, values[k]);
    text(c, values[k], source, -1, 1, 1);
    emodule *m = expr_parse(c, source, "bounds");
    assert_non_null(m);
    tid y = m->outputs.v[0].t, d[2];
    const tid wrt[] = {m->inputs.v[0].t, m->inputs.v[1].t};
    assert_true(grad_reverse(m, 0, &y, NULL, 1, wrt, 2, d));
    const char *stage = strstr(text_of(m), "stage d.x:");
    if (!stage) fail_msg("%s", text_of(m));
    if ((strstr(stage, " y[") != NULL) != (k < 3)) fail_msg("%s", stage);
    if (k != 2 && (strstr(stage, "x[") != NULL) != (k == 3)) fail_msg("%s", stage);
  }
}
static void updates(void **state) {
  ctx *c = *state;
  text(c, "adding at places",
       IN("a", "7") IN("u", "5")
           INT("j", "5") "stage y: f64 [i<7] = a[i] * a[i]\n  update [k<5] y[{j[k]}] += u[k] * a[k]\n" OUT,
       -1, 1, 7);
  text(c, "writing at places",
       IN("a", "7") IN("u", "5")
           INT("j", "5") "stage y: f64 [i<7] = a[i]\n  update [k<5] y[{j[k]}] := u[k] * u[k] if #k > 0\n" OUT,
       -1, 1, 4);
  text(c, "pieces",
       IN("a", "3, 2") IN("b", "3, 4") "stage y: f64 [i<3, j<6] tiled\n  update [p<3, q<2] y[p, q] := a[p, q]\n  "
                                       "update [p.1<3, q.1<4] y[p.1, q.1 + 2] := b[p.1, q.1] * b[p.1, q.1]\n" OUT,
       -1, 1, 1);
}
static void recurrences(void **state) {
  ctx *c = *state;
  text(c, "one state",
       "recurrence s1 t<6\n" IN("x", "6, 3")
           IN("h0", "3") "stage h: f64 [t, i<3] recurrence s1 = tanh((load h[t - 1, i] else h0[i]) * 0.5f64 + x[t, "
                         "i])\nstage y: f64 [k<3] = h[5, k] * h[2, k]\n" OUT,
       -1, 1, 1);
  text(c, "a matrix at every step",
       "recurrence s1 t<5\n" IN("x", "5, 3") IN(
           "r",
           "3, 3") "stage h: f64 [t, i<3] recurrence s1 = tanh((sum[k<3] (load h[t - 1, k] else 0.1f64) * r[i, k]) + "
                   "x[t, i])\nstage y: f64 [q<5, j<3] = h[q, j]\n" OUT,
       -1, 1, 1);
  text(c, "two states, two steps back",
       "recurrence s1 t<6\n" IN("x", "6")
           IN("w", "2") "declare b: f64[6]\nstage a: f64 [t] recurrence s1 = (load a[t - 2] else "
                        "w[0]) * x[t] + sin((load b[t - 1] else w[1]))\n"
                        "stage b: f64 [t] recurrence s1 = a[t] * (load b[t - 1] else x[0]) + "
                        "w[0]\nstage y: f64 [] = sum[k<6] b[k] * b[k]\n" OUT,
       -1, 1, 1);
}
static void second(void **state) { /* what comes out is a module like any other */
  ctx *c = *state;
  text_(c, "softmax, twice",
        IN("a", "2, 4") "stage e: f64 [i<2, j<4] = exp(a[i, j])\nstage y: f64 [p<2, j.1<4] = e[p, j.1] / (sum[k<4] "
                        "e[p, k])\n" OUT,
        -1, 1, 1, true);
  text_(c, "window, twice",
        IN("x", "1, 2, 9") IN("w", "2, 2, 3") "stage y: f64 [1, m<2, h<5] = sum[c<2, p<3] (load x[0, c, 2*h + p - 1] "
                                              "else 0.0f64) * w[m, c, p]\n" OUT,
        -1, 1, 1, true);
  text_(c, "recurrence, twice",
        "recurrence s1 t<4\n" IN("x", "4, 2")
            IN("r",
               "2, 2") "stage h: f64 [t, i<2] recurrence s1 = tanh((sum[k<2] (load h[t - 1, k] else 0.1f64) * r[i, k]) "
                       "+ x[t, i])\nstage y: f64 [q<4, j<2] = h[q, j]\n" OUT,
        -1, 1, 1, true);
  text_(c, "writing under a condition, twice",
        IN("a", "6")
            INT("j", "4") "stage y: f64 [i<4] = 0.5f64\n  update [k<4] y[{j[k]}] := a[k] * a[k] if j[k] > 0i64\n" OUT,
        -1, 1, 4, true);
  text_(c, "greatest, twice", IN("a", "4, 5") "stage y: f64 [i<4] = max[k<5] a[i, k] * a[i, k]\n" OUT, -1, 1, 1, true);
}
static void combining(void **state) { /* *=, max=, min=: alone, after another update, with zeros */
  ctx *c = *state;
  text(c, "multiplying at places",
       IN("a", "7") IN("u", "9")
           INT("j", "9") "stage y: f64 [i<7] = a[i] * a[i]\n  update [k<9] y[{j[k]}] *= u[k] * a[0]\n" OUT,
       -1, 1, 7);
  text(
      c, "multiplying zeros",
      IN("a", "3") IN("u", "6") INT(
          "j",
          "6") "stage y: f64 [i<3] = a[i]\n  update [k<6] y[{j[k]}] *= (#k == 2 ? u[k] - u[k] : u[k]) if #k != 4\n" OUT,
      -1, 1, 3);
  text(c, "greatest at places",
       IN("a", "7") IN("u", "9")
           INT("j", "9") "stage y: f64 [i<7] = a[i]\n  update [k<9] y[{j[k]}] max= u[k] * u[k] if #k > 1\n" OUT,
       -1, 1, 4);
  text(c, "least at places",
       IN("a", "7") IN("u", "9") INT("j", "9") "stage y: f64 [i<7] = a[i]\n  update [k<9] y[{j[k]}] min= u[k]\n" OUT,
       -1, 1, 4);
  text(c, "three updates",
       IN("a", "7") IN("u", "9")
           INT("j", "9") "stage y: f64 [i<7] = a[i]\n  update [k<9] y[{j[k]}] += u[k]\n  update [k.1<9] y[{j[k.1]}] *= "
                         "u[k.1]\n  update [k.2<9] y[{j[k.2]}] max= u[k.2]*a[1]\n" OUT,
       -1, 1, 7);
}
static void control(void **state) {
  ctx *c = *state;
  text(c, "if",
       IN("a", "7") INT("j", "2") "stage c: bool [] = j[0] == 0i64\nif c  origin \"n8\" {\n  stage p: f64 [i<7] = "
                                  "exp(a[i])\n  stage p2: f64 [i.1<7] = p[i.1] * p[i.1] * a[0]\n} else {\n"
                                  "  stage q: f64 [k<7] = a[k] * a[k]\n}\n  result r: f64[7] = p2 | q  origin "
                                  "\"n8\"\nstage y: f64 [n<7] = r[n] * a[n]\n" OUT,
       -1, 1, 2);
  text(c, "if, outer tensors as results",
       IN("a", "4")
           IN("b", "4") "stage c: bool [] = false\nstage d: f64 [m<4] = a[m] * b[m]\nif c {\n  stage p: f64 [i<4] = "
                        "a[i]\n} else {\n  stage q: f64 [k<4] = 2.0f64 * a[k]\n}\n  result r: f64[4] = p | d\n"
                        "  result s: f64[4] = a | q\nstage y: f64 [n<4] = r[n] * s[n]\n" OUT,
       -1, 1, 1);
  text(c, "if in an if",
       IN("a", "4") INT(
           "j",
           "2") "stage c: bool [] = j[0] == 0i64\nstage c2: bool [] = j[1] == 0i64\nif c {\n  stage p: f64 [i<4] = "
                "a[i] * a[i]\n  if c2 {\n    stage u: f64 [i.1<4] = p[i.1] * a[i.1]\n  } else {\n"
                "    stage v: f64 [i.2<4] = sin(p[i.2])\n  }\n    result w: f64[4] = u | v\n  stage z: f64 [i.3<4] = "
                "w[i.3] + p[i.3]\n} else {\n  stage q: f64 [k<4] = cos(a[k])\n}\n  result y: f64[4] = z | q\n" OUT,
       -1, 1, 2);
  text(c, "loop",
       IN("h0", "3") IN("w", "3, 3")
           IN("x", "5, 3") "size t in 0..4\nloop trips 5 counter t {\n  carry h: f64[3] = h0\n  stage n: f64 [i<3] = "
                           "tanh((sum[k<3] h[k] * w[i, k]) + x[t, i])\n  next h = n -> f: f64[3]\n  collect n -> "
                           "every: f64[5, 3]\n}\n"
                           "stage y: f64 [m<3] = f[m] * every[2, m]\n" OUT,
       -1, 1, 1);
  text(c, "loop of two, one without adjoint",
       IN("a", "3") IN("b", "3") "size t in 0..inf\nstage k0: i64 [] = 1\nloop trips 4 counter t {\n  carry p: f64[3] "
                                 "= a\n  carry q: f64[3] = b\n  carry k: i64[] = k0\n  stage p2: f64 [i<3] = p[i] * "
                                 "q[2 - i] + a[i]\n  stage q2: f64 [i.1<3] = q[i.1] * f64(k[]) * 0.5f64\n"
                                 "  stage k2: i64 [] = k[] + #t\n  next p = p2 -> f: f64[3]\n  next q = q2\n  next k = "
                                 "k2\n}\nstage y: f64 [m<3] = f[m]\n" OUT,
       -1, 1, 1);
  text(c, "a branch in a loop, trips of symbolic number",
       "size N\n" IN("x", "N")
           IN("a", "2") "size t in 0..inf\nloop trips N counter t {\n  carry h: f64[2] = a\n  stage odd: bool [] = #t "
                        "- 2*(#t//2) == 1\n  if odd {\n    stage u: f64 [i<2] = h[i] * x[t]\n  } else {\n    stage v: "
                        "f64 [i.1<2] = sin(h[i.1]) + a[1 - i.1]\n  }\n"
                        "    result r: f64[2] = u | v\n  next h = r -> f: f64[2]\n}\nstage y: f64 [m<2] = f[m]\n" OUT,
       -1, 1, 1);
  text(c, "a loop in a loop",
       IN("a", "2")
           IN("w", "3, 4") "size t in 0..2\nsize s in 0..3\nloop trips 3 counter t {\n  carry h: f64[2] = a\n  loop "
                           "trips 4 counter s {\n    carry g: f64[2] = h\n    stage n: f64 [i<2] = sin(g[i] * w[t, s]) "
                           "+ h[1 - i]\n    next g = n -> o: f64[2]\n    collect n -> c: f64[4, 2]\n  }\n"
                           "  stage e: f64 [i.1<2] = o[i.1] * (sum[k<4] c[k, i.1])\n  next h = e -> f: "
                           "f64[2]\n}\nstage y: f64 [m<2] = f[m]\n" OUT,
       -1, 1, 1);
}
/* Each is refused with the node, and words that say why. */
static void refused(void **state) {
  ctx *c = *state;
  static const char *const source[][2] = {
      {"an update with mul=",
       IN("a", "7") INT("j", "7") "stage y: f64 [i<7] tiled\n  update [k<7] y[{j[k]}] *= a[k]  origin \"n0\"\n" OUT},
      {"number of trips depends on data",
       IN("a", "2") "size t in 0..inf\nloop trips 9 counter t origin \"n1\" {\n  carry h: f64[2] = a\n"
                    "  stage n: f64 [i<2] = h[i] * a[i]\n  stage more: bool [] = n[0] > 0.5f64\n"
                    "  next h = n -> y: f64[2]\n  while more\n}\n" OUT},
      {"carries h, whose size changes", /* as the counter says */
       "size t in 0..3\n" IN("a", "0") "loop trips 3 counter t origin \"n2\" {\n  carry h: f64[t] = a\n"
                                       "  stage n: f64 [i<t + 1] = h[min(i, t)] * 2.0f64\n"
                                       "  next h = n -> y: f64[3]\n}\n" OUT},
      {"carries h, whose size changes", /* as another carried value says */
       "size L in 0..9\nsize M in 0..9\nsize t in 0..3\n" IN("a", "1")
           INT("z", "") "loop trips 3 counter t origin \"n3\" {\n  carry s: i64[] = z\n  carry h: f64[L] = a\n"
                        "  stage n: f64 [i<L + 1] = #(-i) >= 0 ? a[0] : h[i - 1]\n  stage more: i64 [] = s[] + 1\n"
                        "  next s = more -> end: i64[]\n  next h = n -> r: f64[M]\n}\n"
                        "stage y: f64 [i.1<M] = r[i.1]\n" OUT "late L = s <= 9\nlate M = end <= 9\n"},
      {"a loop in which sizes are computed", /* by a loop inside */
       "size L in 0..9\nsize t in 0..3\nsize u in 0..3\n" IN("a", "9")
           INT("z", "") "loop trips 3 counter t origin \"n4\" {\n  carry h: f64[9] = a\n"
                        "  loop trips 3 counter u {\n    carry s: i64[] = z\n    stage more: i64 [] = s[] + 1\n"
                        "    next s = more -> end: i64[]\n  }\n"
                        "  stage n: f64 [i<9] = h[i] * (sum[k<L] a[k])\n  next h = n -> y: f64[9]\n}\n" OUT
                        "late L = end <= 9\n"},
  };
  for (uint32_t i = 0; i < sizeof source / sizeof *source; i++) {
    uint32_t mark = diag_mark(c);
    emodule *m = expr_parse(c, source[i][1], "refused");
    if (!m) show_errors(c);
    assert_non_null(m);
    tid y = m->outputs.v[0].t, a = m->inputs.v[0].t, d;
    assert_false(grad_reverse(m, 0, &y, NULL, 1, &a, 1, &d));
    assert_int_equal(diag_code(c), E_UNSUPPORTED);
    const diag *e = diag_first(c);
    char node[8];
    snprintf(node, sizeof node, "n%u", i);
    assert_string_equal(e->node, node);
    if (!strstr(e->text, source[i][0])) fail_msg("expected %s, found %s", source[i][0], e->text);
    diag_reset(c, mark);
  }
}

/* ---- operators from their definitions -------------------------------------------------------- */
typedef struct given { /* an argument */
  uint32_t rank;
  int64_t dims[6];
  double lo, hi;
  etype type;            /* ET_NONE: f64, differentiated */
  int ints;              /* integer values 0..ints-1 */
  const int64_t *values; /* integer constants known to the compiler */
  bool absent;
} given;
#define D(...)                                                                                                         \
  (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), { __VA_ARGS__ }
#define REAL(...) {D(__VA_ARGS__), -1, 1, ET_NONE, 0, NULL, false}
#define RANGE(lo, hi, ...) {D(__VA_ARGS__), lo, hi, ET_NONE, 0, NULL, false}
#define WHOLE(n, ...) {D(__VA_ARGS__), 0, 0, ET_I64, n, NULL, false}
#define NONE {0, {0}, 0, 0, ET_NONE, 0, NULL, true}

static void op_try(ctx *c, const oplib *lib, const char *name, const char *what, const given *in, uint32_t nin,
                   const sattr *attrs, uint32_t nattrs, uint32_t nout) {
  emodule *m = expr_module(c);
  const opdef *d = notation_find(lib, "", name);
  arg args[MAX_IN] = {0}, out[MAX_IN] = {0};
  check k = {.c = c, .m = m, .what = what};
  assert_non_null(d);
  for (uint32_t i = 0; i < nin; i++) {
    const given *g = &in[i];
    if (g->absent) continue;
    etype t = g->type ? g->type : ET_F64;
    feed f = {.wrt = !g->type};
    sz shape[6], *vals = NULL;
    for (uint32_t j = 0; j < g->rank; j++) shape[j] = sym_int(c, g->dims[j]);
    if (f.wrt)
      f.nd = spread(c, g->rank, g->dims, g->lo, g->hi);
    else
      f.nd = array(c, t, g->rank, g->dims);
    for (int64_t e = 0; !f.wrt && e < elements(&f.nd); e++)
      et_store(t, (uint8_t *)(uintptr_t)f.nd.data + e * et_bytes(t),
               (scalar){.i = g->values ? g->values[e] : rnd((uint32_t)g->ints)});
    if (g->values) {
      vals = NEWN(m->a, sz, elements(&f.nd) + 1);
      for (int64_t e = 0; e < elements(&f.nd); e++) vals[e] = sym_int(c, g->values[e]);
      f.t = expr_const_tensor(m, &f.nd, "k");
    } else {
      f.t = expr_tensor(m, TK_INPUT, t, shape, g->rank, "x", NULL);
      vec_push(m->a, m->inputs, ((io){f.t, xt(m, f.t)->name}));
      k.in[k.nin++] = f;
    }
    args[i] = (arg){.present = true, .type = t, .rank = g->rank, .shape = xt(m, f.t)->shape, .t = f.t, .values = vals};
  }
  for (uint32_t i = 0; i < nout; i++) out[i].want = true;
  if (!notation_elaborate(lib, d, m, 0, "node", args, nin, attrs, nattrs, out, nout)) {
    show_errors(c);
    fail_msg("%s does not elaborate", what);
  }
  for (uint32_t i = 0; i < nout; i++)
    if (out[i].present && out[i].type == ET_F64) k.outs[k.nout++] = out[i].t;
  run_check(&k);
}
static void op(ctx *c, const oplib *lib, const char *name, const given *in, uint32_t nin, const sattr *attrs,
               uint32_t nattrs, uint32_t nout) {
  char what[200];
  int n = snprintf(what, sizeof what, "%s", name);
  for (uint32_t i = 0; i < nattrs && n < 150; i++) {
    n += snprintf(what + n, sizeof what - n, " %s", attrs[i].name);
    if (attrs[i].kind == SK_INT) n += snprintf(what + n, sizeof what - n, "=%lld", (long long)attrs[i].i);
    if (attrs[i].kind == SK_STRING) n += snprintf(what + n, sizeof what - n, "=%s", attrs[i].s);
    for (uint32_t q = 0; attrs[i].kind == SK_INTS && q < attrs[i].n && n < 190; q++)
      n += snprintf(what + n, sizeof what - n, "%c%lld", q ? ',' : '=', (long long)attrs[i].ints[q]);
  }
  volatile bool ok = false;
  CTX_TRY(c) {
    op_try(c, lib, name, arena_strdup(ctx_arena(c), what), in, nin, attrs, nattrs, nout);
    ok = true;
  }
  CTX_CATCH { ok = false; }
  if (!ok) show_errors(c);
  assert_true(ok);
}
#define N(a) (uint32_t)(sizeof(a) / sizeof *(a))
static sattr ai(const char *n, int64_t v) { return (sattr){.name = n, .kind = SK_INT, .i = v}; }
static sattr af(const char *n, double v) { return (sattr){.name = n, .kind = SK_FLOAT, .f = v}; }
static sattr as(const char *n, const char *v) { return (sattr){.name = n, .kind = SK_STRING, .s = v}; }
static sattr al(const char *n, const int64_t *v, uint32_t k) {
  return (sattr){.name = n, .kind = SK_INTS, .ints = v, .n = k};
}
static oplib *library(ctx *c) {
  oplib *l = notation_lib(c);
  if (!notation_add_builtin(l)) show_errors(c);
  return l;
}

static void elementwise(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  static const struct {
    const char *name;
    double lo, hi;
  } unary[] = {{"Abs", -1, 1},       {"Neg", -1, 1},       {"Exp", -1, 1},
               {"Log", 0.2, 2},      {"Sqrt", 0.2, 2},     {"Reciprocal", 0.3, 2},
               {"Sin", -2, 2},       {"Cos", -2, 2},       {"Tan", -1, 1},
               {"Asin", -0.8, 0.8},  {"Acos", -0.8, 0.8},  {"Atan", -2, 2},
               {"Sinh", -1, 1},      {"Cosh", -1, 1},      {"Asinh", -2, 2},
               {"Acosh", 1.5, 3},    {"Atanh", -0.8, 0.8}, {"Tanh", -2, 2},
               {"Erf", -2, 2},       {"Sigmoid", -3, 3},   {"Softplus", -3, 3},
               {"Softsign", -2, 2},  {"Relu", -1, 1},      {"LeakyRelu", -1, 1},
               {"Elu", -1, 1},       {"Selu", -1, 1},      {"Celu", -1, 1},
               {"Gelu", -2, 2},      {"Mish", -2, 2},      {"HardSigmoid", -4, 4},
               {"HardSwish", -4, 4}, {"Swish", -2, 2},     {"ThresholdedRelu", -2, 2},
               {"Shrink", -2, 2},    {"Floor", -2, 2},     {"Ceil", -2, 2},
               {"Round", -2, 2},     {"Sign", -2, 2},      {"Identity", -1, 1}};
  for (uint32_t i = 0; i < N(unary); i++) {
    given in[] = {RANGE(unary[i].lo, unary[i].hi, 1 + rnd(4), 2 + rnd(4))};
    op(c, lib, unary[i].name, in, 1, NULL, 0, 1);
  }
  given gelu[] = {REAL(7)};
  op(c, lib, "Gelu", gelu, 1, (sattr[]){as("approximate", "tanh")}, 1, 1);
  static const struct {
    const char *name;
    double lo, hi;
  } binary[] = {{"Add", -1, 1}, {"Sub", -1, 1}, {"Mul", -1, 1},  {"Div", 0.3, 2}, {"Pow", 0.3, 2},  {"PRelu", -1, 1},
                {"Max", -1, 1}, {"Min", -1, 1}, {"Mean", -1, 1}, {"Sum", -1, 1},  {"SwiGLU", -1, 1}};
  for (uint32_t i = 0; i < N(binary); i++) {
    double l = binary[i].lo, h = binary[i].hi;
    given same[] = {RANGE(l, h, 2, 3), RANGE(l, h, 2, 3)}, wide[] = {RANGE(l, h, 2, 3, 4), RANGE(l, h, 3, 1)},
          up[] = {RANGE(l, h, 3, 1), RANGE(l, h, 2, 1, 4)};
    op(c, lib, binary[i].name, same, 2, NULL, 0, 1);
    if (strcmp(binary[i].name, "SwiGLU")) op(c, lib, binary[i].name, wide, 2, NULL, 0, 1);
    if (strcmp(binary[i].name, "SwiGLU") && strcmp(binary[i].name, "PRelu"))
      op(c, lib, binary[i].name, up, 2, NULL, 0, 1);
  }
  given mod[] = {RANGE(2, 9, 4), RANGE(0.6, 1.4, 4)};
  op(c, lib, "Mod", mod, 2, (sattr[]){ai("fmod", 1)}, 1, 1);
  given where[] = {{D(2, 1), 0, 0, ET_BOOL, 2, NULL, false}, REAL(2, 3), REAL(3)};
  op(c, lib, "Where", where, 3, NULL, 0, 1);
  given clip[] = {REAL(9), RANGE(-0.6, -0.5, 1), RANGE(0.4, 0.5, 1)};
  clip[1].rank = clip[2].rank = 0;
  op(c, lib, "Clip", clip, 3, NULL, 0, 1);
}
static void products(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  given a[] = {REAL(4), REAL(4)}, b[] = {REAL(3, 4), REAL(4)}, d[] = {REAL(4), REAL(4, 2)},
        e[] = {REAL(3, 4), REAL(4, 5)}, f[] = {REAL(2, 1, 3, 4), REAL(5, 4, 2)}, g[] = {REAL(4), REAL(2, 4, 3)};
  op(c, lib, "MatMul", a, 2, NULL, 0, 1);
  op(c, lib, "MatMul", b, 2, NULL, 0, 1);
  op(c, lib, "MatMul", d, 2, NULL, 0, 1);
  op(c, lib, "MatMul", e, 2, NULL, 0, 1);
  op(c, lib, "MatMul", f, 2, NULL, 0, 1);
  op(c, lib, "MatMul", g, 2, NULL, 0, 1);
  given q[] = {REAL(4, 3), REAL(5, 4), REAL(5)};
  op(c, lib, "Gemm", q, 3, (sattr[]){ai("transA", 1), ai("transB", 1), af("alpha", 0.7), af("beta", 1.3)}, 4, 1);
}
static void convolutions(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  for (int round = 0; round < 40; round++) {
    uint32_t nd = 1 + rnd(round < 30 ? 2 : 3);
    int64_t g = 1 + rnd(2), st[3], di[3], pa[6];
    given x = REAL(1), w = REAL(1), b = REAL(1);
    x.rank = w.rank = nd + 2;
    x.dims[0] = 1 + rnd(2), w.dims[1] = 1 + rnd(3), w.dims[0] = g * (1 + rnd(2)), x.dims[1] = g * w.dims[1],
    b.dims[0] = w.dims[0];
    for (uint32_t i = 0; i < nd; i++) {
      w.dims[2 + i] = 1 + rnd(3), st[i] = 1 + rnd(3), di[i] = 1 + rnd(3);
      pa[i] = rnd(3), pa[nd + i] = rnd(3);
      int64_t least = (w.dims[2 + i] - 1) * di[i] + 1 - pa[i] - pa[nd + i];
      x.dims[2 + i] = max64(least, 1) + rnd(nd == 3 ? 3 : 6);
    }
    given in[] = {x, w, b};
    op(c, lib, "Conv", in, rnd(3) ? 2 : 3,
       (sattr[]){ai("group", g), al("strides", st, nd), al("dilations", di, nd), al("pads", pa, 2 * nd)}, 4, 1);
  }
}
static void pools(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  for (int round = 0; round < 30; round++) {
    uint32_t nd = 1 + rnd(2);
    bool avg = rnd(2), dil = rnd(3) == 0;
    int64_t st[3], di[3], pa[6], ks[3];
    given x = REAL(1);
    x.rank = nd + 2, x.dims[0] = 1 + rnd(2), x.dims[1] = 1 + rnd(2);
    for (uint32_t i = 0; i < nd; i++) {
      ks[i] = 1 + rnd(3), st[i] = 1 + rnd(3), di[i] = dil ? 1 + rnd(2) : 1;
      pa[i] = rnd((uint32_t)min64(ks[i], 2)), pa[nd + i] = rnd((uint32_t)min64(ks[i], 2));
      x.dims[2 + i] = max64((ks[i] - 1) * di[i] + 1 - pa[i] - pa[nd + i], 1) + rnd(6);
    }
    sattr at[] = {al("kernel_shape", ks, nd), al("strides", st, nd),   al("dilations", di, nd),
                  al("pads", pa, 2 * nd),     ai("ceil_mode", rnd(2)), ai("count_include_pad", rnd(2))};
    op(c, lib, avg ? "AveragePool" : "MaxPool", &x, 1, at, avg ? 6 : 5, 1);
  }
  given x[] = {REAL(2, 3, 4, 5)};
  op(c, lib, "GlobalAveragePool", x, 1, NULL, 0, 1);
}
static void rows(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  for (int64_t axis = -1; axis < 3; axis++) {
    given x[] = {REAL(2, 3, 4)};
    op(c, lib, "Softmax", x, 1, (sattr[]){ai("axis", axis)}, 1, 1);
    op(c, lib, "LogSoftmax", x, 1, (sattr[]){ai("axis", axis)}, 1, 1);
  }
  static const int64_t ax[] = {0, 2};
  static const char *const red[] = {"ReduceSum", "ReduceMean", "ReduceMax",       "ReduceMin",       "ReduceProd",
                                    "ReduceL1",  "ReduceL2",   "ReduceLogSumExp", "ReduceSumSquare", "ReduceLogSum"};
  for (uint32_t i = 0; i < N(red); i++) {
    given x[] = {RANGE(0.2, 1.5, 2, 3, 4), {D(2), 0, 0, ET_I64, 0, ax, false}};
    op(c, lib, red[i], x, 2, (sattr[]){ai("keepdims", i & 1)}, 1, 1);
    op(c, lib, red[i], x, 1, NULL, 0, 1);
  }
  given bn[] = {REAL(3, 2, 4), REAL(2), REAL(2), REAL(2), RANGE(0.5, 1, 2)};
  op(c, lib, "BatchNormalization", bn, 5, NULL, 0, 1);
  op(c, lib, "BatchNormalization", bn, 5, (sattr[]){ai("training_mode", 1)}, 1, 1);
}
/* The library's definition with its f32 inner stages in f64, so that differences are exact enough. */
static bool widened(ctx *c, oplib *lib, const char *name) {
  sbuf b = sbuf_new(ctx_arena(c)), w = sbuf_new(ctx_arena(c));
  opdef_print(notation_find(lib, "", name), &b);
  for (const char *p = b.s; *p; p++) {
    bool f32 = !strncmp(p, "f32", 3);
    sb_put(&w, f32 ? "f64" : (char[]){*p, 0});
    if (f32) p += 2;
  }
  return notation_add(lib, w.s, w.n, "widened");
}
static void normalised(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  assert_true(widened(c, lib, "LayerNormalization"));
  for (int64_t axis = 1; axis < 3; axis++) {
    given x[] = {REAL(2, 3, 4), REAL(3, 4), REAL(3, 4)};
    if (axis == 2) x[1] = x[2] = (given)REAL(4);
    op(c, lib, "LayerNormalization", x, 3, (sattr[]){ai("axis", axis)}, 1, 1);
    op(c, lib, "LayerNormalization", x, 2, (sattr[]){ai("axis", axis)}, 1, 3);
  }
}
static void moved(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  static const int64_t perm[] = {2, 0, 1}, to[] = {4, -1}, st[] = {3, 0}, en[] = {-9, 4}, ax[] = {1, 2}, sp[] = {-1, 2},
                       pads[] = {1, 2, 0, 1, 0, 2}, two[] = {2, 1}, half[] = {1, 1, 2, 3};
  given x[] = {REAL(2, 3, 4)};
  op(c, lib, "Transpose", x, 1, (sattr[]){al("perm", perm, 3)}, 1, 1);
  given r[] = {REAL(2, 3, 4), {D(2), 0, 0, ET_I64, 0, to, false}};
  op(c, lib, "Reshape", r, 2, NULL, 0, 1);
  given s[] = {REAL(2, 5, 6),
               {D(2), 0, 0, ET_I64, 0, st, false},
               {D(2), 0, 0, ET_I64, 0, en, false},
               {D(2), 0, 0, ET_I64, 0, ax, false},
               {D(2), 0, 0, ET_I64, 0, sp, false}};
  op(c, lib, "Slice", s, 5, NULL, 0, 1);
  static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
  for (int i = 0; i < 4; i++) {
    given p[] = {REAL(3, 4, 3), {D(6), 0, 0, ET_I64, 0, pads, false}};
    op(c, lib, "Pad", p, 2, (sattr[]){as("mode", modes[i])}, 1, 1);
  }
  given cat[] = {REAL(2, 3), REAL(2, 1), REAL(2, 4)};
  op(c, lib, "Concat", cat, 3, (sattr[]){ai("axis", 1)}, 1, 1);
  given sl[] = {REAL(3, 4), {D(2), 0, 0, ET_I64, 0, two, false}};
  op(c, lib, "Split", sl, 2, (sattr[]){ai("axis", 0)}, 1, 2);
  (void)half;
}
static void indexed(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  for (int64_t axis = 0; axis < 3; axis++) {
    given g[] = {REAL(4, 19, 3), WHOLE(3, 2, 3)};
    op(c, lib, "Gather", g, 2, (sattr[]){ai("axis", axis)}, 1, 1);
    given e[] = {REAL(4, 5, 3), WHOLE(3, 3, 4, 2)};
    op(c, lib, "GatherElements", e, 2, (sattr[]){ai("axis", axis)}, 1, 1);
    static const char *const how[] = {"none", "add"};
    for (int i = 0; i < 2; i++) {
      given s[] = {REAL(4, 5, 3), WHOLE(3, 3, 4, 2), REAL(3, 4, 2)};
      op(c, lib, "ScatterElements", s, 3, (sattr[]){ai("axis", axis), as("reduction", how[i])}, 2, 1);
      given n[] = {REAL(4, 5, 3), WHOLE(4, 6, 2), REAL(6, 3)};
      op(c, lib, "ScatterND", n, 3, (sattr[]){as("reduction", how[i])}, 1, 1);
    }
  }
  given nd[] = {REAL(4, 5, 3), WHOLE(4, 6, 2)};
  op(c, lib, "GatherND", nd, 2, NULL, 0, 1);
  static const int64_t axis = 1;
  for (int i = 0; i < 4; i++) {
    given x[] = {REAL(3, 5), {D(1), 0, 0, ET_I64, 0, &axis, false}};
    x[1].rank = 0;
    op(c, lib, "CumSum", x, 2, (sattr[]){ai("exclusive", i & 1), ai("reverse", i >> 1)}, 2, 1);
  }
}
/* R, W, B by gates of hidden size 3; batch 2, input 4, 5 steps */
static void over_time(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  static const struct {
    const char *name;
    int64_t gates;
  } nets[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
  static const char *const dirs[] = {"forward", "reverse", "bidirectional"};
  static const int64_t lens[] = {5, 3};
  for (uint32_t i = 0; i < N(nets); i++)
    for (int d = 0; d < 3; d++) {
      int64_t g = nets[i].gates, dn = d == 2 ? 2 : 1;
      bool by_length = (d + i) % 2;
      given in[] = {REAL(5, 2, 4),
                    REAL(dn, 3 * g, 4),
                    REAL(dn, 3 * g, 3),
                    REAL(dn, 6 * g),
                    {D(2), 0, 0, ET_I32, 0, lens, !by_length},
                    REAL(dn, 2, 3),
                    REAL(dn, 2, 3),
                    REAL(dn, 9)};
      uint32_t n = i == 2 ? 8 : 6;
      sattr at[] = {ai("hidden_size", 3), as("direction", dirs[d]), ai("linear_before_reset", d & 1)};
      op(c, lib, nets[i].name, in, n, at, i == 1 ? 3 : 2, i == 2 ? 3 : 2);
      in[0].dims[0] = 1, in[4].absent = true; /* a single step is no recurrence */
      op(c, lib, nets[i].name, in, n, at, i == 1 ? 3 : 2, i == 2 ? 3 : 2);
    }
}
static void others(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  static const char *const wide[] = {"InstanceNormalization",
                                     "GroupNormalization",
                                     "RMSNormalization",
                                     "MeanVarianceNormalization",
                                     "LRN",
                                     "Attention"};
  for (uint32_t i = 0; i < N(wide); i++) widened(c, lib, wide[i]);
  given x4[] = {REAL(2, 4, 3, 3), REAL(4), REAL(4)};
  op(c, lib, "InstanceNormalization", x4, 3, NULL, 0, 1);
  op(c, lib, "GroupNormalization", x4, 3, (sattr[]){ai("num_groups", 2)}, 1, 1);
  op(c, lib, "LRN", x4, 1, (sattr[]){ai("size", 3)}, 1, 1);
  op(c, lib, "DepthToSpace", x4, 1, (sattr[]){ai("blocksize", 2)}, 1, 1);
  op(c, lib, "GlobalMaxPool", x4, 1, NULL, 0, 1);
  op(c, lib, "Trilu", x4, 1, NULL, 0, 1);
  given rms[] = {REAL(2, 3, 4), REAL(4)};
  op(c, lib, "RMSNormalization", rms, 2, NULL, 0, 1);
  static const int64_t st[] = {2, 1}, di[] = {1, 2}, pa[] = {1, 0, 0, 1};
  given ct[] = {REAL(1, 4, 3, 4), REAL(4, 2, 3, 2), REAL(4)};
  op(c, lib, "ConvTranspose", ct, 3,
     (sattr[]){ai("group", 2), al("strides", st, 2), al("dilations", di, 2), al("pads", pa, 4)}, 4, 1);
  given e[] = {REAL(2, 3, 4), REAL(2, 4, 3)}, ii[] = {REAL(3, 3)};
  op(c, lib, "Einsum", e, 2, (sattr[]){as("equation", "bij,bjk->bik")}, 1, 1);
  op(c, lib, "Einsum", ii, 1, (sattr[]){as("equation", "ii->i")}, 1, 1);
  given at[] = {REAL(1, 4, 3, 2), REAL(1, 2, 5, 2), REAL(1, 2, 5, 3)};
  op(c, lib, "Attention", at, 3, NULL, 0, 1);
  op(c, lib, "Attention", at, 3, (sattr[]){ai("is_causal", 1)}, 1, 1);
}

/* ---- structure ------------------------------------------------------------------------------- */
static bool only_constant_guards(emodule *m, ex e) { /* no condition anywhere; an `else` is a constant */
  const ex_node n = *exn(m, e);
  bool ok = true;
  if (n.kind == EX_OP) {
    ok = n.op != OP_SEL && n.op != OP_AND && n.op != OP_OR;
    for (uint32_t i = 0; i < n.nargs; i++) ok &= only_constant_guards(m, n.args[i]);
  }
  if (n.kind == EX_LOAD) ok = !n.otherwise || exn(m, n.otherwise)->kind == EX_CONST;
  if (n.kind == EX_REDUCE) ok = !n.where && only_constant_guards(m, n.body);
  return ok;
}
static void contractions(void **state) {
  ctx *c = *state;
  for (int symbolic = 0; symbolic < 2; symbolic++)
    for (int stride = 1; stride < 3; stride++) {
      emodule *m = expr_parse(c,
                              arena_fmt(ctx_arena(c),
                                        "size N\n%stensor x: f32[%s, 64, 56, 56] input \"x\"\ntensor w: f32[64, 64, 3, "
                                        "3] input \"w\"\ntensor g: f32[%s, 64, %d, %d] input \"g\"\n"
                                        "stage y: f32 [%s, m<64, h<%d, v<%d] = sum[c<64, p<3, q<3] (load x[%s, c, %d*h "
                                        "+ p - 1, %d*v + q - 1] else 0.0) * w[m, c, p, q]\noutput y \"y\"\n",
                                        symbolic ? "" : "tensor s: f32[N] input \"s\"\n", symbolic ? "N" : "1",
                                        symbolic ? "N" : "1", 56 / stride, 56 / stride, symbolic ? "n<N" : "1",
                                        56 / stride, 56 / stride, symbolic ? "n" : "0", stride, stride),
                              "conv");
      if (!m) show_errors(c);
      assert_non_null(m);
      tid y = m->outputs.v[0].t, wrt[2], g = m->inputs.v[m->inputs.n - 1].t, adj[2];
      wrt[0] = m->inputs.v[m->inputs.n - 3].t, wrt[1] = m->inputs.v[m->inputs.n - 2].t;
      assert_true(grad_reverse(m, 0, &y, &g, 1, wrt, 2, adj));
      m->outputs.n = 0;
      for (int i = 0; i < 2; i++) xt(m, adj[i])->output = true, vec_push(m->a, m->outputs, ((io){adj[i], "d"}));
      expr_optimise(m, 1, &(expr_observer){.skip = "windows"}); /* copies that they read are no contractions */
      uint32_t found = 0;
      for (uint32_t s = 0; s < m->stages.n; s++) {
        if (xs(m, s)->dead) continue;
        /* dX lies shifted in what the contraction gives */
        if (stride == 2 && exn(m, xs(m, s)->value)->kind == EX_LOAD) continue;
        found++;
        if (expr_class(m, s) != KC_CONTRACTION || !only_constant_guards(m, xs(m, s)->value))
          fail_msg("not a plain contraction:\n%s", text_of(m));
      }
      assert_int_equal(found, 2);
    }
}
/* Stated gradients: a rounding that passes its adjoint on, which no derivation would give. */
static const char ste[] =
    "op Ste<T: float>(X: T[a...], W: T[~a...]) -> Y: T[a...] {\n  Y[a...] = round_even(X[a...]) * W~[a...]\n  grad(X) "
    "{ dX[a...] = dY[a...] * W~[a...] }\n}\n"
    "op Nested<T: float>(X: T[a...], W: T[~a...]) -> Y: T[a...] {\n  E[a...] = exp(X[a...])\n  Z = Ste(E, W)\n  "
    "Y[a...] = Z[a...] + Z[a...]\n}\n"
    "op Same<T: float>(X: T[a...], W: T[~a...]) -> Y: T[a...] { Y = Ste(X, X) }\n"
    "op Two<T: float>(X: T[n], W: T[n]) -> Y: T[n], S: T[n] {\n  H[n] = floor(X[n])\n  Y[n] = H[n] * W[n]\n  S[n] = "
    "H[n] + W[n]\n  grad(X) { dX[n] = dY[n] + 2.0*dS[n] }\n  grad(W) { dW[n] = Y[n] * dY[n] }\n}\n";
static void with_stated(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  assert_true(notation_add(lib, ste, strlen(ste), "ste.ek"));
  static const char *const names[] = {"Ste", "Nested", "Same", "Two", "Ste"};
  for (int q = 0; q < 5; q++) {
    emodule *m = expr_module(c);
    sz shape[1] = {sym_int(c, 4)};
    int64_t dims[1] = {4};
    uint32_t blk = 0;
    tid x = expr_tensor(m, TK_INPUT, ET_F64, shape, 1, "x", NULL),
        w = expr_tensor(m, TK_INPUT, ET_F64, shape, 1, "w", NULL),
        s = expr_tensor(m, TK_INPUT, ET_F64, shape, 1, "s", NULL), got[2];
    vec_push(m->a, m->inputs, ((io){x, "x"})), vec_push(m->a, m->inputs, ((io){w, "w"})),
        vec_push(m->a, m->inputs, ((io){s, "s"}));
    xif f = {.n = 1};
    if (q == 4) { /* inside a branch */
      f.cond = expr_tensor(m, TK_STAGE, ET_BOOL, shape, 0, "c", NULL);
      expr_stage(m, 0, f.cond, NULL, 0, expr_bool(m, true));
      vec_push(m->a, m->blocks, ((block){0})), vec_push(m->a, m->blocks, ((block){0}));
      f.then_block = blk = m->blocks.n - 2, f.else_block = m->blocks.n - 1;
    }
    arg in[2] = {{.present = true, .type = ET_F64, .rank = 1, .shape = shape, .t = x},
                 {.present = true, .type = ET_F64, .rank = 1, .shape = shape, .t = w}},
        out[2] = {{.want = true}, {.want = true}};
    assert_true(
        notation_elaborate(lib, notation_find(lib, "", names[q]), m, blk, "n", in, 2, NULL, 0, out, q == 3 ? 2 : 1));
    tid y = out[0].t;
    if (q == 4) {
      f.results = NEWN(m->a, tid, 1), f.then_vals = NEWN(m->a, tid, 1), f.else_vals = NEWN(m->a, tid, 1);
      f.results[0] = expr_tensor(m, TK_RESULT, ET_F64, shape, 1, "r", NULL), f.then_vals[0] = y, f.else_vals[0] = x;
      vec_push(m->a, m->ifs, f);
      vec_push(m->a, m->blocks.v[0].items, ((item){IT_IF, 0}));
      y = f.results[0];
    }
    bool ok = grad_reverse(m, 0, &y, &s, 1, (tid[]){x, w}, 2, got);
    if (!ok || !expr_verify(m, "grad")) show_errors(c);
    assert_true(ok);
    ndarray X = spread(c, 1, dims, -2, 2), W = spread(c, 1, dims, -1, 1), S = spread(c, 1, dims, -1, 1);
    evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
    expr_eval_input(v, x, &X), expr_eval_input(v, w, &W), expr_eval_input(v, s, &S);
    const double *dx = expr_eval_get(v, got[0])->data, *dw = expr_eval_get(v, got[1])->data, *xv = X.data, *wv = W.data,
                 *sv = S.data;
    for (int i = 0; i < 4; i++) {
      double e = q == 1   ? 2 * sv[i] * wv[i] * exp(xv[i])
                 : q == 2 ? sv[i] * xv[i] + sv[i] * nearbyint(xv[i])
                 : q == 3 ? sv[i]
                          : sv[i] * wv[i];
      double ew = q == 1   ? 2 * sv[i] * nearbyint(exp(xv[i]))
                  : q == 2 ? 0
                  : q == 3 ? floor(xv[i]) * wv[i] * sv[i]
                           : sv[i] * nearbyint(xv[i]);
      if (fabs(dx[i] - e) > 1e-12 || fabs(dw[i] - ew) > 1e-12)
        fail_msg("%s: dX %g, expected %g; dW %g, expected %g\n%s", names[q], dx[i], e, dw[i], ew, text_of(m));
    }
  }
}
/* A stated gradient is differentiated in its turn: through the inputs, other tensors of the definition, and its
 * results, for which the stated gradient holds once more. */
static void stated_twice(void **state) {
  ctx *c = *state;
  oplib *lib = library(c);
  static const char curve[] = "op Curve<T: float>(X: T[n]) -> Y: T[n] {\n  R[n] = X[n]*X[n]\n  Y[n] = "
                              "round_even(R[n]*X[n])\n  grad(X) { dX[n] = dY[n]*(3.0*R[n] + Y[n]) }\n}\n";
  assert_true(notation_add(lib, curve, strlen(curve), "curve.ek"));
  emodule *m = expr_module(c);
  sz shape[1] = {sym_int(c, 4)};
  int64_t dims[1] = {4};
  tid in[3], dx, twice[2];
  for (int i = 0; i < 3; i++) {
    in[i] = expr_tensor(m, TK_INPUT, ET_F64, shape, 1, (const char *const[]){"x", "s", "w"}[i], NULL);
    vec_push(m->a, m->inputs, ((io){in[i], xt(m, in[i])->name}));
  }
  arg x = {.present = true, .type = ET_F64, .rank = 1, .shape = shape, .t = in[0]}, y = {.want = true};
  assert_true(notation_elaborate(lib, notation_find(lib, "", "Curve"), m, 0, "n", &x, 1, NULL, 0, &y, 1));
  assert_true(grad_reverse(m, 0, &y.t, &in[1], 1, in, 1, &dx));
  assert_true(grad_reverse(m, 0, &dx, &in[2], 1, in, 2, twice) && expr_verify(m, "grad"));
  evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
  ndarray data[3];
  for (int i = 0; i < 3; i++) {
    data[i] = spread(c, 1, dims, -2, 2);
    expr_eval_input(v, in[i], &data[i]);
  }
  const double *got[2] = {expr_eval_get(v, twice[0])->data, expr_eval_get(v, twice[1])->data}, *xv = data[0].data,
               *sv = data[1].data, *wv = data[2].data;
  for (int i = 0; i < 4; i++) {
    double slope = 3 * xv[i] * xv[i] + nearbyint(xv[i] * xv[i] * xv[i]);
    assert_true(fabs(got[0][i] - wv[i] * sv[i] * (6 * xv[i] + slope)) < 1e-12);
    assert_true(fabs(got[1][i] - wv[i] * slope) < 1e-12);
  }
}
static void zero_norms(void **state) { /* a norm has a kink at 0: the derivative counts as 0, as its differences do */
  ctx *c = *state;
  oplib *lib = library(c);
  static const int64_t two[] = {2, 2};
  given x[] = {RANGE(0, 0, 1, 2, 3, 3)};
  op(c, lib, "ReduceL2", x, 1, NULL, 0, 1);
  op(c, lib, "GlobalLpPool", x, 1, NULL, 0, 1);
  op(c, lib, "GlobalLpPool", x, 1, (sattr[]){ai("p", 3)}, 1, 1);
  op(c, lib, "LpPool", x, 1, (sattr[]){al("kernel_shape", two, 2)}, 1, 1);
}
static void zero_power(void **state) { /* x**p by x and then by p, at p = 0: x**(p - 1) * (1 + p * log(x)) = 1/x */
  ctx *c = *state;
  static const char source[] = IN("x", "") IN("p", "") "stage y: f64 [] = pow(x[], p[])\n" OUT;
  emodule *m = expr_parse(c, source, "power");
  assert_non_null(m);
  const tid in[2] = {m->inputs.v[0].t, m->inputs.v[1].t};
  tid dx, twice;
  assert_true(grad_reverse(m, 0, &m->outputs.v[0].t, NULL, 1, in, 1, &dx));
  assert_true(grad_reverse(m, 0, &dx, NULL, 1, in + 1, 1, &twice));
  ndarray data[2] = {array(c, ET_F64, 0, NULL), array(c, ET_F64, 0, NULL)};
  evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
  for (int i = 0; i < 2; i++) {
    *(double *)(uintptr_t)data[i].data = i ? 0 : 4;
    expr_eval_input(v, in[i], &data[i]);
  }
  assert_true(*(const double *)expr_eval_get(v, dx)->data == 0);
  assert_true(*(const double *)expr_eval_get(v, twice)->data == 0.25);
}
int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(by_hand),   T(short_sums),   T(bounds),      T(updates),      T(recurrences), T(second),
      T(combining), T(control),      T(refused),     T(elementwise),  T(products),    T(convolutions),
      T(pools),     T(rows),         T(normalised),  T(moved),        T(indexed),     T(over_time),
      T(others),    T(contractions), T(with_stated), T(stated_twice), T(zero_power),  T(zero_norms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
