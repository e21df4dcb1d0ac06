/* grad: adjoints against central differences, both computed by the evaluator in f64. Modules come from text, and from the operator library's definitions at random shapes and attributes (fixed seeds). Every module is verified after
 * differentiation, its forward values must not have changed, and the adjoints must survive expr_optimise. The last tests look at the structure: a window product's gradients are contractions without guards. */
#include "expr/passes.h"
#include "grad/grad.h"
#include "notation/notation.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
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

/* ---- harness ------------------------------------------------------------------------------------------------------------------------------------ */
enum { MAX_IN = 16, SAMPLES = 10 };
typedef struct feed { tid t; ndarray nd; bool wrt; } feed;
typedef struct check {
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
/* Different values, evenly spread over (lo, hi) in random order: no two within a step of each other, so that no winner changes under a small step. */
static ndarray spread(ctx *c, uint32_t rank, const int64_t *dims, double lo, double hi) {
  ndarray a = array(c, ET_F64, rank, dims);
  double *x = (double *)(uintptr_t)a.data;
  int64_t n = elements(&a);
  for (int64_t i = 0; i < n; i++) x[i] = lo + (hi - lo) * ((double)i + 0.37) / (double)n;
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
    for (int64_t i = 0; i < elements(y); i++) sum += ((const double *)y->data)[i] * (at[o].data ? ((const double *)at[o].data)[i] : 1);
  }
  arena_free(a);
  return sum;
}
static void close_to(check *k, const char *name, int64_t i, double got, double want, double tol) {
  double e = fabs(got - want) / fmax(1, fmax(fabs(got), fabs(want)));
  if (e > k->worst || e != e) k->worst = e;
  if (!(e <= tol)) fail_msg("%s: adjoint of %s at %lld is %.12g, differences give %.12g\n%s", k->what, name, (long long)i, got, want, text_of(k->m));
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
  /* the evaluator's adjoints; forward values are as before */
  v = expr_eval_new(m, ctx_arena(c), 1);
  symbol_of(k, v);
  for (uint32_t i = 0; i < nw; i++) got[i] = *expr_eval_get(v, adj[i]);
  for (uint32_t o = 0; o < k->nout; o++) {
    const ndarray *y = expr_eval_get(v, k->outs[o]);
    assert_int_equal(y->bytes, before[o].bytes);
    for (int64_t i = 0; i < elements(y); i++) close_to(k, "the value itself", i, ((const double *)y->data)[i], ((const double *)before[o].data)[i], 1e-12);
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
      if (!(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)))) fail_msg("%s: after the passes adjoint %u at %lld is %.12g, was %.12g\n%s\n%s", k->what, i, (long long)q, a, b, raw, text_of(m));
    }
  }
}
static void run_check(check *k) {
  volatile bool ok = false;
  CTX_TRY(k->c) {
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

/* ---- modules from text ----------------------------------------------------------------------------------------------------------------------------- */
/* Float inputs are differentiated; integer inputs get values in 0..ints-1. Symbols are 5. */
static void text(ctx *c, const char *what, const char *source, double lo, double hi, int ints) {
  emodule *m = expr_parse(c, source, what);
  if (!m) show_errors(c);
  assert_non_null(m);
  check k = {.c = c, .m = m, .what = what};
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    const tensor *t = xt(m, m->inputs.v[i].t);
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < t->rank; d++) dims[d] = sym_int_or(c, t->shape[d], 5);
    feed f = {.t = m->inputs.v[i].t, .wrt = t->type == ET_F64};
    if (f.wrt) f.nd = spread(c, t->rank, dims, lo, hi);
    else {
      f.nd = array(c, t->type, t->rank, dims);
      for (int64_t e = 0; e < elements(&f.nd); e++) et_store(t->type, (uint8_t *)(uintptr_t)f.nd.data + e * et_bytes(t->type), (scalar){.i = rnd((uint32_t)ints)});
    }
    k.in[k.nin++] = f;
  }
  for (uint32_t i = 0; i < m->outputs.n; i++) k.outs[k.nout++] = m->outputs.v[i].t;
  run_check(&k);
}
static void by_hand(void **state) {
  ctx *c = *state;
  text(c, "product", "size N\ntensor a: f64[N, 4] input \"a\"\ntensor b: f64[4, 3] input \"b\"\n"
                     "stage y: f64 [i<N, j<3] = sum[k<4] a[i, k] * b[k, j]\noutput y \"y\"\n", -1, 1, 1);
  text(c, "shared", "tensor a: f64[6] input \"a\"\nstage e: f64 [i<6] = exp(a[i])\nstage y: f64 [j<6] = e[j] / (sum[k<6] e[k])\noutput y \"y\"\n", -1, 1, 1);
  text(c, "window", "tensor x: f64[2, 3, 9] input \"x\"\ntensor w: f64[4, 3, 3] input \"w\"\n"
                    "stage y: f64 [n<2, m<4, h<9] = sum[c<3, p<3] (load x[n, c, h + p - 1] else 0.0) * w[m, c, p]\noutput y \"y\"\n", -1, 1, 1);
  text(c, "strided", "tensor x: f64[2, 3, 11] input \"x\"\ntensor w: f64[4, 3, 3] input \"w\"\n"
                     "stage y: f64 [n<2, m<4, h<6] = sum[c<3, p<3] (load x[n, c, 2*h + p - 1] else 0.0) * w[m, c, p]\noutput y \"y\"\n", -1, 1, 1);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(by_hand, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
