/* How large may the error of each window sum be, if the whole module shall be within 1e-4 of an output's largest
 * value?
 *
 * The model is statistical. Let an error be relative to the size of the tensor's values, and count variances in units
 * of that which one plain window sum adds, LAYER_ERROR^2. Errors of different sums are independent, so that
 *     a window sum      v = AMPLIFY^2 * v(input) + g^2  its form adds g times the error of a plain sum
 *     any other stage   v = gain^2 * mean of the v of the tensors it reads, constants left out
 *     an output         v = peak^2 * the same mean      if that is more
 * The mean is that of a sum of independent tensors of one size (a residual connection) and of a concatenation. A
 * stage's gain and peak say how much it magnifies what it reads (response.c): most keep errors as they are, but an
 * activation that saturates is steep where its result changes sign. A loop adds in each trip what it adds in the first
 * one. With one g for all sums the largest v of a module is at most g^2 * v1, v1 with plain sums everywhere, and
 *     g <= BUDGET / (LAYER_ERROR * sqrt(v1)).
 * Below 1 no form on a line is left; those on a circle err less than plain sums (0.4 to 0.7 times as much). Where v1 is
 * small, MOST_GROWTH bounds g instead.
 *
 * AMPLIFY and LAYER_ERROR are chosen by 200 random networks of 10 to 60 layers compiled with plain sums (an earlier
 * state of tests/tools/networks.h, numbers 1000 to 1199, whose normalisations enlarge values): their error / sqrt(v1)
 * has a median of 3.6e-8, a ninth decile of 1.6e-7 and a 99th percentile of 5.1e-7, near which LAYER_ERROR lies; in
 * another 200 networks 4.5e-8, 1.6e-7 and 3.2e-7. With AMPLIFY 1.03 nothing of that would depend on the depth where all
 * activations are Relu; 1.1 is on the careful side for deep networks.
 *
 * In a step of training, whose factors are no constants, a decision costs more than an error: each that an error
 * changes moves gradients by far more than the error, and training goes on from there. So sums on which decisions
 * depend (decisions.c) take no form that magnifies errors. */
#include "passes/growth.h"
#include "passes/decisions.h"
#include "passes/response.h"
#include <math.h>

static const double BUDGET = 1e-4;        /* error of an output, relative to its largest value */
static const double LAYER_ERROR = 5e-7;   /* error of a plain window sum, relative to its largest value */
static const double AMPLIFY = 1.1;        /* error of a window sum for one of 1 in what it reads, both relative */
static const double MOST_GROWTH = 8;      /* most that any sum's error may grow */
static const double DECIDING_GROWTH = 1;  /* the same where decisions of a step of training depend on it */
static const int64_t UNKNOWN_TRIPS = 100; /* trips that count for a loop whose length only the run tells */

typedef struct propagation {
  pw *p;                  /* the run of passes */
  const uint8_t *windows; /* see find_growth */
  double *variance;       /* variance of the error, by tensor */
  spread *values;         /* what values are like, by tensor; inputs have the mean 0 and the deviation 1 */
  double most;            /* the answer */
} propagation;

static double of_reads(const propagation *g, uint32_t s) {
  const u32vec *loads = stage_loads(g->p, s);
  const emodule *m = g->p->m;
  double sum = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < loads->n; i++) {
    const tid t = exn(m, loads->v[i])->tensor;
    if (xt(m, t)->kind == TK_CONST) continue;
    sum += g->variance[t], n++;
  }
  return n ? sum / n : 0;
}
static void set(propagation *g, tid t, double v, spread values) {
  if (!t) return;
  g->variance[t] = v, g->values[t] = values;
  if (v > g->most) g->most = v;
}
static void propagate(propagation *g, uint32_t block);
static void propagate_loop(propagation *g, const xloop *l) {
  int64_t trips = l->trips ? expr_typical(g->p->m, l->trips) : UNKNOWN_TRIPS;
  double added = 0;
  for (uint32_t i = 0; i < l->ncarried; i++) set(g, l->inner[i], g->variance[l->init[i]], g->values[l->init[i]]);
  propagate(g, l->body);
  for (uint32_t i = 0; i < l->ncarried; i++) added = fmax(added, g->variance[l->next[i]] - g->variance[l->inner[i]]);
  added *= (double)max64(trips - 1, 0);
  for (uint32_t i = 0; i < l->ncarried; i++)
    set(g, l->final[i], g->variance[l->next[i]] + added, g->values[l->next[i]]);
  for (uint32_t i = 0; i < l->ncollected; i++)
    set(g, l->collected[i], g->variance[l->slice[i]] + added, g->values[l->slice[i]]);
}
static void propagate(propagation *g, uint32_t block) {
  const emodule *m = g->p->m;
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    const item it = m->blocks.v[block].items.v[i];
    if (it.kind == IT_LOOP)
      propagate_loop(g, &m->loops.v[it.index]);
    else if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      propagate(g, x->then_block), propagate(g, x->else_block);
      for (uint32_t k = 0; k < x->n; k++)
        set(g, x->results[k], fmax(g->variance[x->then_vals[k]], g->variance[x->else_vals[k]]),
            g->values[x->then_vals[k]]);
    } else if (!xs(m, it.index)->dead) {
      const response r = stage_response(g->p, it.index, g->values);
      const tid t = xs(m, it.index)->tensor;
      const double read = of_reads(g, it.index), v = r.gain * r.gain * read;
      set(g, t, g->windows[it.index] == 1 ? AMPLIFY * AMPLIFY * v + 1 : v, r.values);
      if (xt(m, t)->output) g->most = fmax(g->most, r.peak * r.peak * read);
    }
  }
}
void find_growth(pw *p, const u32vec *order, const uint8_t *windows) {
  const uint32_t n = p->m->tensors.n;
  propagation g = {.p = p, .windows = windows, .variance = NEWN(p->a, double, n), .values = NEWN(p->a, spread, n)};
  for (uint32_t t = 0; t < n; t++) g.values[t] = (spread){0, 1, -INFINITY};
  propagate(&g, 0);
  p->most_growth = MOST_GROWTH;
  if (g.most > 0 && !EK_PLANTED("growth-of-depth"))
    p->most_growth = fmin(MOST_GROWTH, BUDGET / (LAYER_ERROR * sqrt(g.most)));
  p->deciding = deciding_stages(p, order);
}
double most_growth(const pw *p, uint32_t s, bool constant) {
  return constant || !p->deciding[s] ? p->most_growth : fmin(p->most_growth, DECIDING_GROWTH);
}
