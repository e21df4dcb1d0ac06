/* grad_all: every definition's gradient against central differences, in f64, by the evaluator.
 *
 *   grad_all [-n INSTANCES] [-t TRIES] [-s SEED] [-2] [-p] [-v] [NAME...]
 *   grad_all -l                                                           the names of all definitions
 *
 * For each definition of the library (or those named) random legal calls are made from its signature
 * (src/notation/instance.h): shapes, attributes, contents. The call's outputs of floating type are weighted with
 * random seeds and summed; the derived adjoint of every floating input is compared with (f(x+h) - f(x-h)) / 2h at a
 * few places. -2: then the adjoints are weighted and summed in their turn, and what is derived of this sum for every
 * floating input, and for the seeds, is compared with its differences: second derivatives. Places where differences of
 * two step widths disagree (a kink within the step), or where rounding hides them, do not count. Definitions are
 * differentiated as they stand, but with `f32` read as `f64`, so that differences are exact enough (those that ask for
 * f32's bits or random numbers: as they stand). -p: also after the passes. A definition without any floating input or
 * output, or whose floating inputs are values known when compiling, has no gradient and is skipped, by that property.
 * One line per definition with -v; at the end `N passed, N failed, N skipped`, counted by definition.
 */
#include "eval/eval.h"
#include "passes/passes.h"
#include "grad/grad.h"
#include "notation/ast.h"
#include "notation/instance.h"
#include "wide.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 5, MAX_ELEMENTS = 600 };
static uint32_t instances = 12, tries = 6000;
static uint64_t first_seed = 1;
static bool verbose, passes, second, list;

typedef struct tally {
  uint32_t legal, floats, refused, compared, nonzero, kinks, singular, instances;
  double worst;
  char why[400];
  bool failed;
} tally;
/* One differentiation: of the sum of outs, weighted by seeds, by wrt. */
typedef struct level {
  tid outs[OPINST_MAX], seeds[OPINST_MAX], wrt[2 * OPINST_MAX], adj[2 * OPINST_MAX];
  ndarray weights[OPINST_MAX], got[2 * OPINST_MAX], *x[2 * OPINST_MAX]; /* of the seeds; of adj; of wrt */
  uint32_t nout, nw;
} level;
typedef struct check {
  ctx *c;
  const opdef *d;
  opinst i;
  level of[2];    /* the call, and its adjoints */
  uint32_t depth; /* which of them is looked at */
  tally *t;
} check;

static uint64_t state = 1;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 40) / (1 << 24);
}
static int64_t elements(const ndarray *a) {
  int64_t n = 1;
  for (uint32_t i = 0; i < a->rank; i++) n *= a->dims[i];
  return n;
}
static const char *first_error(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) return d->text;
  return "no reason given";
}
static char *text_of(emodule *m) {
  sbuf b = sbuf_new(ctx_arena(m->c));
  expr_print(m, &b, (print_opts){.weights_inline = true});
  return b.n ? b.s : "";
}
static void fail(check *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(check *k, const char *fmt, ...) {
  va_list ap;
  sbuf b = sbuf_new(ctx_arena(k->c));
  if (k->t->failed) return;
  opinst_print(k->c, k->d, &k->i, &b);
  va_start(ap, fmt);
  int n = vsnprintf(k->t->why, sizeof k->t->why, fmt, ap);
  va_end(ap);
  if (n > 0 && n < 350) snprintf(k->t->why + n, sizeof k->t->why - (size_t)n, " in %s", b.s);
  k->t->failed = true;
  if (getenv("GRAD_TEXT")) fprintf(stderr, "%s\n%s\n", k->t->why, text_of(k->i.m));
}
static evaluation *start(check *k, arena *a) {
  evaluation *v = expr_eval_new(k->i.m, a, 1);
  for (uint32_t i = 0; i < k->i.nin; i++)
    if (k->i.in[i].present && xt(k->i.m, k->i.in[i].t)->kind == TK_INPUT)
      expr_eval_input(v, k->i.in[i].t, &k->i.data[i]);
  for (uint32_t at = 0; at <= k->depth; at++)
    for (uint32_t i = 0; i < k->of[at].nout; i++)
      if (k->of[at].seeds[i]) expr_eval_input(v, k->of[at].seeds[i], &k->of[at].weights[i]);
  return v;
}
/* large: the sum of the terms' absolute values, of which rounding is a part */
static double loss(check *k, double *large) {
  const level *l = &k->of[k->depth];
  arena *a = arena_new(k->c);
  evaluation *v = start(k, a);
  double sum = 0;
  *large = 0;
  for (uint32_t o = 0; o < l->nout; o++) {
    const ndarray *y = expr_eval_get(v, l->outs[o]);
    for (int64_t i = 0; i < elements(y); i++) {
      const double term = ((const double *)y->data)[i] * ((const double *)l->weights[o].data)[i];
      sum += term, *large += fabs(term);
    }
  }
  arena_free(a);
  return sum;
}
/* What is differentiated is small and has finite values; draws its weights. */
static bool forward(check *k) {
  level *l = &k->of[k->depth];
  evaluation *v = start(k, ctx_arena(k->c));
  int64_t all = 0;
  for (uint32_t o = 0; o < l->nout; o++) {
    const ndarray *y = expr_eval_get(v, l->outs[o]);
    if (elements(y) > MAX_ELEMENTS) return false;
    all += elements(y);
    ndarray s = *y;
    double *w = arena_alloc(ctx_arena(k->c), s.bytes + 16);
    for (int64_t i = 0; i < elements(y); i++) {
      if (!isfinite(((const double *)y->data)[i]) || fabs(((const double *)y->data)[i]) > 1e6) return false;
      w[i] = 2 * uniform() - 1;
    }
    s.data = w;
    l->weights[o] = s;
  }
  return all > 0;
}
static void compare(check *k, uint32_t w) {
  const level *l = &k->of[k->depth];
  ndarray *x = l->x[w];
  double *p = (double *)(uintptr_t)x->data;
  int64_t n = elements(x);
  for (int64_t q = 0; q < SAMPLES && q < n; q++) {
    int64_t at = n <= SAMPLES ? q : (int64_t)(uniform() * (double)n);
    double keep = p[at], h = 2e-5, f[5], large;
    for (int s = 0; s < 5; s++) {
      p[at] = keep + h * (s - 2) / 2;
      f[s] = loss(k, &large);
    }
    p[at] = keep;
    double one = (f[4] - f[0]) / (2 * h), two = (f[3] - f[1]) / h, right = (f[4] - f[2]) / h, left = (f[2] - f[0]) / h,
           got = ((const double *)l->got[w].data)[at];
    double scale = fmax(1, fmax(fabs(one), fabs(got))), e = fabs(got - two) / scale;
    /* what rounding makes of a difference: that of the sum, and that on the way, which a fourth difference shows */
    double noise = fmax(4e-16 * large, fabs(f[0] - 4 * f[1] + 6 * f[2] - 4 * f[3] + f[4]) / 4) / h;
    if (!isfinite(one) || fabs(one - two) > 3e-7 * scale || fabs(right - left) > 1e-2 * scale || noise > 1e-6 * scale) {
      k->t->kinks++;
      continue;
    }
    if (!isfinite(got)) { /* the square root of a variance of one element and the like: no more than a few */
      k->t->singular++;
      continue;
    }
    k->t->compared++;
    if (fabs(two) > 1e-7) k->t->nonzero++;
    if (e > k->t->worst) k->t->worst = e;
    if (!(e <= 2e-6))
      fail(k, "%sadjoint of %s at %lld is %.10g, differences give %.10g", k->depth ? "second " : "",
           xt(k->i.m, l->wrt[w])->name, (long long)at, got, two);
  }
}
static void after_passes(check *k) {
  emodule *m = k->i.m;
  VEC(const ndarray *) was = {0}; /* per output: the adjoint's value. A pass may compute it in another tensor */
  m->outputs.n = 0;
  for (tid t = 1; t < m->tensors.n; t++) xt(m, t)->output = false;
  for (uint32_t at = 0; at <= k->depth; at++)
    for (uint32_t i = 0; i < k->of[at].nw; i++) {
      tensor *t = xt(m, k->of[at].adj[i]);
      if (t->kind == TK_INPUT || t->kind == TK_CONST || t->output) continue;
      t->output = true;
      vec_push(m->a, m->outputs, ((io){k->of[at].adj[i], "d"}));
      vec_push(m->a, was, &k->of[at].got[i]);
    }
  expr_optimise(m, 1, NULL);
  if (!expr_verify(m, "passes")) {
    fail(k, "after the passes: %s", first_error(k->c));
    return;
  }
  evaluation *v = start(k, ctx_arena(k->c));
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    const ndarray *y = expr_eval_get(v, m->outputs.v[i].t);
    for (int64_t q = 0; q < elements(y); q++) {
      double a = ((const double *)y->data)[q], b = ((const double *)was.v[i]->data)[q];
      if (a != b && !(fabs(a - b) <= 1e-9 * fmax(1, fabs(b))) && !(isnan(a) && isnan(b)))
        fail(k, "after the passes adjoint %u at %lld is %.12g, was %.12g", i, (long long)q, a, b);
    }
  }
}
/* The adjoints of the level that is looked at, compared with differences; false: refused or wrong. */
static bool differentiate(check *k) {
  emodule *m = k->i.m;
  level *l = &k->of[k->depth];
  for (uint32_t o = 0; o < l->nout; o++) {
    const tensor y = *xt(m, l->outs[o]);
    l->seeds[o] = expr_tensor(m, TK_INPUT, y.type, y.shape, y.rank, k->depth ? "weight" : "seed", NULL);
    vec_push(m->a, m->inputs, ((io){l->seeds[o], xt(m, l->seeds[o])->name}));
  }
  if (!grad_reverse(m, 0, l->outs, l->seeds, l->nout, l->wrt, l->nw, l->adj)) {
    k->t->refused++;
    fail(k, "%s%s", k->depth ? "second derivative: " : "", first_error(k->c));
    return false;
  }
  if (!expr_verify(m, "grad")) {
    fail(k, "%s", first_error(k->c));
    return false;
  }
  evaluation *v = start(k, ctx_arena(k->c));
  for (uint32_t w = 0; w < l->nw; w++) l->got[w] = *expr_eval_get(v, l->adj[w]);
  for (uint32_t w = 0; w < l->nw; w++) compare(k, w);
  return !k->t->failed;
}
/* The adjoints become what is differentiated, by the inputs and by the seeds. False: they are not finite. */
static bool descend(check *k) {
  const level *from = &k->of[0];
  level *l = &k->of[1];
  for (uint32_t w = 0; w < from->nw; w++) {
    l->outs[l->nout++] = from->adj[w];
    l->x[l->nw] = from->x[w], l->wrt[l->nw++] = from->wrt[w];
  }
  for (uint32_t o = 0; o < from->nout; o++) {
    l->x[l->nw] = &k->of[0].weights[o];
    l->wrt[l->nw++] = from->seeds[o];
  }
  k->depth = 1;
  return forward(k);
}
static void one(check *k) {
  if (!differentiate(k)) return;
  if (second) {
    if (!descend(k)) {
      k->depth = 0;
      return;
    }
    if (!differentiate(k)) return;
  }
  k->t->instances++;
  if (passes) after_passes(k);
}
static void attempt(ctx *c, const oplib *lib, const opdef *d, uint64_t seed, tally *t) {
  uint32_t mark = diag_mark(c);
  check *k = NEW(ctx_arena(c), check);
  level *l = &k->of[0];
  k->c = c, k->d = d, k->t = t;
  if (!notation_instance(c, lib, d, seed,
                         (opinst_opts){.types = 1u << ET_F64 | 1u << ET_I64 | 1u << ET_I32 | 1u << ET_BOOL,
                                       .sizes = seed % 4 == 3 ? 9 : 0},
                         &k->i))
    return;
  t->legal++;
  for (uint32_t i = 0; i < k->i.nout; i++)
    if (k->i.out[i].present && k->i.out[i].want && k->i.out[i].type == ET_F64) l->outs[l->nout++] = k->i.out[i].t;
  for (uint32_t i = 0; i < k->i.nin; i++) {
    const arg *a = &k->i.in[i];
    if (!a->present || a->type != ET_F64 || xt(k->i.m, a->t)->kind != TK_INPUT) continue;
    l->x[l->nw] = &k->i.data[i];
    l->wrt[l->nw++] = a->t;
  }
  if (!l->nout || !l->nw) return;
  t->floats++;
  volatile bool runs = false;
  CTX_TRY(c) { runs = forward(k); }
  CTX_CATCH { runs = false; }
  if (!runs) {
    diag_reset(c, mark);
    return;
  }
  volatile bool ok = false;
  CTX_TRY(c) {
    one(k);
    ok = true;
  }
  CTX_CATCH { ok = false; }
  if (!ok) fail(k, "unwound: %s", first_error(c));
}
static oplib *library(ctx *c, bool wide) {
  if (wide) return wide_library(c);
  oplib *lib = notation_lib(c);
  return notation_add_builtin(lib) ? lib : NULL;
}
/* wide: f32 read as f64. */
static void define(uint32_t at, tally *t, bool wide) {
  ctx *c = NULL;
  oplib *lib = NULL;
  struct timespec a, b;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
  for (uint32_t s = 0; s < tries && !t->failed; s++) {
    if (t->instances >= instances && (t->nonzero || t->instances >= 8 * instances)) break;
    if ((!t->floats && t->legal >= 300)) break;
    if (s % 400 == 0) {
      if (c) ctx_free(c);
      c = ctx_new();
      lib = library(c, wide);
      if (!lib) {
        printf("the library does not load: %s\n", first_error(c));
        exit(1);
      }
    }
    state = first_seed * 977 + s;
    attempt(c, lib, notation_nth(lib, at), first_seed * 1000003 + s, t);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    if (s > 200 && b.tv_sec - a.tv_sec > 8) break;
  }
  ctx_free(c);
}
/* By the types alone: can a float come in, and can one go out? */
static bool can_be_float(const opdef *d, const char *elem) {
  uint32_t mask = 0, m, floats;
  elem_set("float", &floats);
  for (uint32_t i = 0; i < d->ntv; i++)
    if (d->tv[i].name == elem) {
      for (uint32_t k = 0; k < d->tv[i].nsets; k++)
        if (elem_set(d->tv[i].sets[k], &m)) mask |= m;
      return !d->tv[i].nsets || (mask & floats);
    }
  return !elem_set(elem, &mask) || (mask & floats); /* no set: a type that the body makes */
}
static bool types_allow(const opdef *d) {
  bool in = false, out = false;
  for (uint32_t i = 0; i < d->nin; i++) in |= can_be_float(d, d->in[i].type.elem);
  for (uint32_t i = 0; i < d->nout; i++) out |= can_be_float(d, d->out[i].type.elem);
  return in && out;
}
int main(int argc, char **argv) {
  uint32_t passed = 0, failed = 0, skipped = 0;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    if (!strcmp(argv[i], "-v"))
      verbose = true;
    else if (!strcmp(argv[i], "-p"))
      passes = true;
    else if (!strcmp(argv[i], "-2"))
      second = true;
    else if (!strcmp(argv[i], "-l"))
      list = true;
    else if (!strcmp(argv[i], "-n") && i + 1 < argc)
      instances = (uint32_t)atoi(argv[++i]);
    else if (!strcmp(argv[i], "-t") && i + 1 < argc)
      tries = (uint32_t)atoi(argv[++i]);
    else if (!strcmp(argv[i], "-s") && i + 1 < argc)
      first_seed = (uint64_t)atoll(argv[++i]);
    else
      return fprintf(stderr, "usage: grad_all [-n INSTANCES] [-t TRIES] [-s SEED] [-2] [-p] [-v] [-l] [NAME...]\n"), 2;
  }
  ctx *c = ctx_new();
  oplib *lib = library(c, true);
  if (!lib) return printf("the library does not load: %s\n", first_error(c)), 1;
  if (list) {
    for (uint32_t q = 0; q < notation_count(lib); q++) printf("%s\n", opdef_name(notation_nth(lib, q)));
    return ctx_free(c), 0;
  }
  for (uint32_t q = 0; q < notation_count(lib); q++) {
    const char *name = opdef_name(notation_nth(lib, q));
    bool asked = i == argc;
    for (int j = i; j < argc; j++) asked |= !strcmp(argv[j], name);
    if (!asked) continue;
    tally t = {0};
    if (!types_allow(notation_nth(lib, q))) {
      skipped++;
      if (verbose) printf("%-28s no floats by its types\n", name);
      continue;
    }
    define(q, &t, true);
    if (!t.legal) define(q, &t, false);
    if (t.singular * 4 > t.compared && !t.failed)
      t.failed = true,
      snprintf(t.why, sizeof t.why, "%u of %u adjoints are not finite", t.singular, t.singular + t.compared);
    const char *what = t.failed       ? "FAIL"
                       : !t.legal     ? "no instance"
                       : !t.floats    ? "no floats"
                       : !t.instances ? "no finite instance"
                       : !t.compared  ? "nowhere smooth"
                       : !t.nonzero   ? "zero"
                                      : "ok";
    if (t.failed || !t.legal || (t.floats && !t.compared))
      failed++;
    else if (!t.floats)
      skipped++;
    else
      passed++;
    if (verbose || t.failed || !t.legal || (t.floats && !t.compared))
      printf("%-28s %-18s legal %u, instances %u, places %u (%u not 0, %u at kinks, %u singular), worst %.1e %s\n",
             name, what, t.legal, t.instances, t.compared, t.nonzero, t.kinks, t.singular, t.worst, t.why);
    fflush(stdout);
  }
  printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
  ctx_free(c);
  return failed != 0;
}
