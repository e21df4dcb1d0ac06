/* grad_models: gradients of whole models against central differences, in f64, by the evaluator.
 *
 *   grad_models [-v] MODEL.onnx...
 *
 * Everything of a model that is f32 is read as f64 (values, constants, casts, the operators' definitions). Finite data
 * beyond 2^16 are read as 2^16: adding a step to a number x rounds by up to x/2^53, and a mask of the least float
 * swallows the step whole; differences then measure the rounding, not the function. Inputs come from NAME.npz beside
 * the model. The outputs of floating type are weighted at random; adjoints of floating inputs and of some constants
 * are compared with (f(x+h) - f(x-h)) / 2h at a few places, except where two step widths disagree (a kink). The
 * difference is taken of each element of the outputs, and then summed: large elements that stay as they are hide
 * nothing. Models that take longer than a second to evaluate, that round to narrow floats, or whose gradient is refused
 * with a reason (grad.h), are skipped. One line per failure, with -v per model; at the end `N passed, N failed, N
 * skipped`.
 */
#include "eval/eval.h"
#include "driver/driver.h"
#include "grad/grad.h"
#include "onnx/onnx.h"
#include "wide.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENSORS = 24, SAMPLES = 3 };
static const double FAR = 65536; /* rounds to 2^-37: 4e-7 of a step */
typedef struct check {
  ctx *c;
  emodule *m;
  const ndarray *in;
  tid wrt[TENSORS], adj[TENSORS], outs[TENSORS], seeds[TENSORS];
  ndarray sv[TENSORS];
  uint32_t nw, no, nin;
  int64_t total; /* elements of all outs */
} check;
static uint64_t state = 1;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 40) / (1 << 24);
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

/* ---- f32 read as f64 ------------------------------------------------------------------------- */
static void widen(ctx *c, const ndarray **d) {
  if (!*d || (*d)->type != ET_F32) return;
  ndarray *w = arena_dup(ctx_arena(c), *d, sizeof *w);
  int64_t n = elements(w);
  double *x = arena_alloc(ctx_arena(c), (size_t)n * 8 + 16);
  for (int64_t i = 0; i < n; i++) {
    x[i] = et_load(ET_F32, (const uint8_t *)(*d)->data + 4 * i).f;
    if (isfinite(x[i]) && fabs(x[i]) > FAR) x[i] = copysign(FAR, x[i]);
  }
  w->type = ET_F64, w->data = x, w->bytes = (size_t)n * 8, w->file = NULL;
  *d = w;
}
static void widen_graph(graph *g) {
  for (uint32_t i = 0; i < g->values.n; i++) {
    value *v = g->values.v[i];
    if (v->type == ET_F32) v->type = ET_F64;
    widen(g->c, &v->data);
  }
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->attrs.n; k++) {
      attr *a = &g->nodes.v[i]->attrs.v[k];
      if (a->tensor) widen(g->c, &a->tensor);
      if (a->g) widen_graph(a->g);
      if (a->kind == AK_INT && a->i == 1 && (!strcmp(a->name, "to") || !strcmp(a->name, "dtype"))) a->i = 11;
    }
}

/* ---- one model ------------------------------------------------------------------------------- */
static evaluation *start(check *k, arena *a, bool seeds) {
  evaluation *v = expr_eval_new(k->m, a, 1);
  for (uint32_t i = 0; i < k->nin; i++) expr_eval_input(v, k->m->inputs.v[i].t, &k->in[i]);
  for (uint32_t i = 0; seeds && i < k->no; i++) expr_eval_input(v, k->seeds[i], &k->sv[i]);
  return v;
}
/* The outputs' elements, one output after the other; NaN for one whose size depends on the data and is another now. */
static double *outputs(check *k, arena *a) {
  evaluation *v = start(k, a, false);
  double *y = arena_alloc(a, (size_t)k->total * sizeof *y + 16), *next = y;
  for (uint32_t o = 0; o < k->no; o++) {
    const ndarray *d = expr_eval_get(v, k->outs[o]);
    int64_t n = elements(&k->sv[o]);
    if (elements(d) == n) memcpy(next, d->data, (size_t)n * sizeof *y);
    for (int64_t i = 0; elements(d) != n && i < n; i++) next[i] = NAN;
    next += n;
  }
  return y;
}
/* The weighted sum of what changes from one to the other. */
static double gain_along(check *k, const double *from, const double *to) {
  double sum = 0;
  for (uint32_t o = 0; o < k->no; o++) {
    const double *weight = k->sv[o].data;
    for (int64_t i = 0, n = elements(&k->sv[o]); i < n; i++) sum += (*to++ - *from++) * weight[i];
  }
  return sum;
}
/* Central differences over h (two) and 2h (wide) at element `at` of p. */
static void differences(check *k, double *p, int64_t at, double *wide, double *two) {
  arena *a = arena_new(k->c);
  double keep = p[at], h = 2e-5, *f[4];
  static const double steps[] = {-1, -0.5, 0.5, 1};
  for (int s = 0; s < 4; s++) {
    p[at] = keep + h * steps[s];
    f[s] = outputs(k, a);
  }
  p[at] = keep;
  *wide = gain_along(k, f[0], f[3]) / (2 * h), *two = gain_along(k, f[1], f[2]) / h;
  arena_free(a);
}
static const ndarray *data_of(check *k, tid t) {
  if (xt(k->m, t)->kind == TK_CONST) return &xt(k->m, t)->data;
  for (uint32_t i = 0; i < k->nin; i++)
    if (k->m->inputs.v[i].t == t) return &k->in[i];
  return NULL;
}
/* by the input's name, or in_0, in_1, .. */
static const ndarray *npz_find(const npz *z, const char *name, uint32_t i) {
  char number[32];
  const ndarray *numbered = NULL;
  snprintf(number, sizeof number, "in_%u", i);
  for (uint32_t j = 0; j < z->n; j++) {
    if (!strcmp(z->names[j], name) || (!strncmp(z->names[j], "in_", 3) && !strcmp(z->names[j] + 3, name)))
      return &z->arrays[j];
    if (!strcmp(z->names[j], number)) numbered = &z->arrays[j];
  }
  return numbered;
}
static int one(ctx *c, const char *path, char *said, size_t room) { /* 1 passed, 0 failed, -1 skipped */
  arena *a = ctx_arena(c);
  check *k = NEW(a, check);
  graph *g = onnx_load_file(c, path);
  if (!g) return snprintf(said, room, "%s", first_error(c)), -1;
  npz z = {0};
  if (!npz_read(c, arena_fmt(a, "%.*s.npz", (int)(strlen(path) - 5), path), &z))
    return snprintf(said, room, "no inputs beside it"), -1;
  widen_graph(g);
  oplib *lib = wide_library(c);
  emodule *m = lib ? lower_graph(g, lib, NULL, 0) : NULL;
  if (!m) return snprintf(said, room, "%s", first_error(c)), -1;
  k->c = c, k->m = m;
  ndarray *in = NEWN(a, ndarray, m->inputs.n + 1);
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    const ndarray *d = npz_find(&z, m->inputs.v[i].name, i);
    if (!d) return snprintf(said, room, "no data for input %s", m->inputs.v[i].name), -1;
    widen(c, &d);
    if (d->type != ET_STR || !nd_bytes(a, d, &in[i])) in[i] = *d;
    if (d->type == ET_F64 && k->nw < TENSORS / 2) k->wrt[k->nw++] = m->inputs.v[i].t;
  }
  k->in = in, k->nin = m->inputs.n;
  for (uint32_t i = 0; i < m->outputs.n && k->no < TENSORS; i++)
    if (xt(m, m->outputs.v[i].t)->type == ET_F64) k->outs[k->no++] = m->outputs.v[i].t;
  for (tid t = 1; t < m->tensors.n && k->nw < TENSORS; t++)
    if (xt(m, t)->kind == TK_CONST && xt(m, t)->type == ET_F64 && elements(&xt(m, t)->data) > 3) k->wrt[k->nw++] = t;
  for (tid t = 1; t < m->tensors.n; t++)
    if (xt(m, t)->kind == TK_STAGE && et_kind(xt(m, t)->type) == K_FLOAT && xt(m, t)->type != ET_F64)
      return snprintf(said, room, "it rounds to %s on the way: differences see steps", et_name(xt(m, t)->type)), -1;
  if (!k->nw || !k->no) return snprintf(said, room, "no floats go in, or none come out"), -1;
  double began = now();
  evaluation *v = start(k, a, false);
  for (uint32_t o = 0; o < k->no; o++) {
    k->sv[o] = *expr_eval_get(v, k->outs[o]);
    double *w = arena_alloc(a, k->sv[o].bytes + 16);
    for (int64_t i = 0; i < elements(&k->sv[o]); i++) w[i] = 2 * uniform() - 1;
    k->sv[o].data = w, k->total += elements(&k->sv[o]);
  }
  if (now() - began > 1) return snprintf(said, room, "too slow to evaluate"), -1;
  for (uint32_t o = 0; o < k->no; o++) {
    const tensor y = *xt(m, k->outs[o]);
    k->seeds[o] = expr_tensor(m, TK_INPUT, y.type, y.shape, y.rank, "seed", NULL);
    vec_push(m->a, m->inputs, ((io){k->seeds[o], "seed"}));
  }
  if (!grad_reverse(m, 0, k->outs, k->seeds, k->no, k->wrt, k->nw, k->adj))
    return snprintf(said, room, "%s", first_error(c)), diag_code(c) == E_UNSUPPORTED ? -1 : 0;
  if (!expr_verify(m, "grad")) return snprintf(said, room, "%s", first_error(c)), 0;
  v = start(k, a, true);
  uint32_t compared = 0, nonzero = 0, kinks = 0;
  double worst = 0;
  for (uint32_t w = 0; w < k->nw && now() - began < 60; w++) {
    const ndarray *got = expr_eval_get(v, k->adj[w]), *x = data_of(k, k->wrt[w]);
    double *p = (double *)(uintptr_t)x->data;
    for (int q = 0; q < SAMPLES; q++) {
      int64_t at = (int64_t)(uniform() * (double)elements(x));
      double wide, two, d = ((const double *)got->data)[at];
      differences(k, p, at, &wide, &two);
      double scale = fmax(1, fmax(fabs(two), fabs(d)));
      if (!isfinite(wide) || fabs(wide - two) > 1e-6 * scale) {
        kinks++;
        continue;
      }
      compared++, nonzero += fabs(two) > 1e-9;
      worst = fmax(worst, fabs(d - two) / scale);
      if (!(fabs(d - two) <= 5e-6 * scale))
        return snprintf(said, room, "adjoint of %s at %lld is %.10g, differences give %.10g", xt(m, k->wrt[w])->name,
                        (long long)at, d, two),
               0;
    }
  }
  snprintf(said, room, "%u places (%u not 0, %u at kinks), worst %.1e", compared, nonzero, kinks, worst);
  return compared ? 1 : -1;
}
static bool verbose;
static uint32_t n[3];
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-v")) {
      verbose = true;
      continue;
    }
    ctx *c = ctx_new();
    char said[500] = "";
    volatile int r = 0;
    CTX_TRY(c)
    r = one(c, argv[i], said, sizeof said);
    CTX_CATCH { r = 0, snprintf(said, sizeof said, "unwound: %s", first_error(c)); }
    n[r + 1]++;
    const char *name = strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i];
    if (verbose || !r) printf("%-6s %s: %s\n", r > 0 ? "ok" : r ? "skip" : "FAIL", name, said);
    fflush(stdout);
    ctx_free(c);
  }
  printf("%u passed, %u failed, %u skipped\n", n[2], n[1], n[0]);
  return n[1] != 0;
}
