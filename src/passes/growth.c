/* How large may the error of each window sum be, if the whole module shall be within 1e-4 of an output's largest
 * value?
 *
 * The model is statistical. Let an error be relative to the size of the tensor's values, and count variances in units
 * of that which one plain window sum adds, LAYER_ERROR^2. Errors of different sums are independent, so that
 *     a window sum      v = AMPLIFY^2 * v(input) + g^2     its form adds g times the error of a plain sum
 *     any other stage   v = mean of the v of the tensors it reads, constants left out
 * The mean is that of a sum of independent tensors of one size (a residual connection) and of a concatenation. An
 * activation, a normalisation, a pooling keep v. A loop adds in each trip what it adds in the first one.
 * With one g for all sums the largest v of a module is at most g^2 * v1, v1 with plain sums everywhere, and
 *     g <= BUDGET / (LAYER_ERROR * sqrt(v1)).
 * Below 1 no form on a line is left; those on a circle err less than plain sums (0.4 to 0.7 times as much). Where v1 is
 * small, MOST_GROWTH bounds g instead.
 *
 * AMPLIFY and LAYER_ERROR are fitted to 80 random networks of 10 to 60 window sums on a line or in a plane, of 8, 16
 * or 32 channels, one of three activations a Tanh, with a residual sum behind one of three, compiled with plain sums:
 * their error over sqrt(v1) does not grow or shrink with depth if AMPLIFY is 1.1 (of 1, 1.05, 1.1, 1.15 tried). It has
 * a median of 1.6e-7, a ninth decile of 5.5e-7, near which LAYER_ERROR lies, and a largest value of 3.6e-6 (a network
 * of 13 sums, whose error is below the budget all the same). */
#include "passes/growth.h"
#include <math.h>

static const double BUDGET = 1e-4;        /* error of an output, relative to its largest value */
static const double LAYER_ERROR = 5e-7;   /* error of a plain window sum, relative to its largest value */
static const double AMPLIFY = 1.1;        /* error of a window sum for one of 1 in what it reads, both relative */
static const double MOST_GROWTH = 8;      /* most that any sum's error may grow */
static const int64_t UNKNOWN_TRIPS = 100; /* trips that count for a loop whose length only the run tells */

typedef struct propagation {
  pw *p;                  /* the run of passes */
  const uint8_t *windows; /* see most_growth */
  double *variance;       /* variance of the error, by tensor */
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
static void set(propagation *g, tid t, double v) {
  if (!t) return;
  g->variance[t] = v;
  if (v > g->most) g->most = v;
}
static void propagate(propagation *g, uint32_t block);
static void propagate_loop(propagation *g, const xloop *l) {
  int64_t trips = l->trips ? expr_typical(g->p->m, l->trips) : UNKNOWN_TRIPS;
  double added = 0;
  for (uint32_t i = 0; i < l->ncarried; i++) set(g, l->inner[i], g->variance[l->init[i]]);
  propagate(g, l->body);
  for (uint32_t i = 0; i < l->ncarried; i++) added = fmax(added, g->variance[l->next[i]] - g->variance[l->inner[i]]);
  added *= (double)max64(trips - 1, 0);
  for (uint32_t i = 0; i < l->ncarried; i++) set(g, l->final[i], g->variance[l->next[i]] + added);
  for (uint32_t i = 0; i < l->ncollected; i++) set(g, l->collected[i], g->variance[l->slice[i]] + added);
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
        set(g, x->results[k], fmax(g->variance[x->then_vals[k]], g->variance[x->else_vals[k]]));
    } else if (!xs(m, it.index)->dead) {
      const double v = of_reads(g, it.index);
      set(g, xs(m, it.index)->tensor, g->windows[it.index] ? AMPLIFY * AMPLIFY * v + 1 : v);
    }
  }
}
double most_growth(pw *p, const uint8_t *windows) {
  propagation g = {.p = p, .windows = windows, .variance = NEWN(p->a, double, p->m->tensors.n)};
  propagate(&g, 0);
  if (!(g.most > 0) || EK_PLANTED("growth-of-depth")) return MOST_GROWTH;
  return fmin(MOST_GROWTH, BUDGET / (LAYER_ERROR * sqrt(g.most)));
}
