/* In which stages may a small error change a decision?
 *
 * Most of a model is continuous: an error of 1e-7 in a tensor becomes one of that size in what is computed from it. A
 * comparison is not. Where Relu's gradient asks whether a value is above 0, or that of a maximum where it was, an error
 * turns the answer for the values that lie closer than it, and a whole element of a gradient comes or goes. The larger
 * the error, the more of them. So a stage decides if a comparison, or the place of a maximum or minimum, reads it, or
 * if a stage that decides does; in a step of training these are those of the forward pass, and not those of gradients.
 *
 * The answer follows from one walk over the stages, last to first; with loops, whose values come back, from walks until
 * nothing changes. */
#include "passes/decisions.h"

typedef struct decisions {
  pw *p;            /* the run of passes */
  uint8_t *decides; /* by tensor */
  bool changed;     /* a tensor was found to decide */
} decisions;

static void decide(decisions *d, tid t) {
  if (!t || d->decides[t]) return;
  d->decides[t] = 1, d->changed = true;
}
static void all_of(decisions *d, ex e) {
  u32vec loads = {0};
  if (!e) return;
  expr_loads(d->p->m, e, d->p->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) decide(d, exn(d->p->m, loads.v[i])->tensor);
}
static ex compared(void *env, emodule *m, ex e) {
  const ex_node n = *exn(m, e);
  const bool arg = n.kind == EX_REDUCE && red_is_arg((rop)n.op);
  if (arg) all_of(env, n.body);
  if (n.kind == EX_OP && n.op >= OP_EQ && n.op <= OP_GE)
    for (uint32_t i = 0; i < n.nargs; i++) all_of(env, n.args[i]);
  return e;
}
static void of_value(decisions *d, ex e) {
  if (e) (void)expr_rewrite(d->p->m, e, &(ex_map){.node = compared, .env = d});
}
static void of_stage(decisions *d, uint32_t s) {
  const stage *x = xs(d->p->m, s);
  of_value(d, x->value);
  for (uint32_t i = 0; i < x->updates.n; i++) of_value(d, x->updates.v[i].value), of_value(d, x->updates.v[i].cond);
  if (!d->decides[x->tensor] || EK_PLANTED("decisions")) return;
  const u32vec *loads = stage_loads(d->p, s);
  for (uint32_t i = 0; i < loads->n; i++) decide(d, exn(d->p->m, loads->v[i])->tensor);
}
static void of_ifs(decisions *d) {
  const emodule *m = d->p->m;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t k = 0; k < m->ifs.v[i].n; k++)
      if (d->decides[m->ifs.v[i].results[k]]) decide(d, m->ifs.v[i].then_vals[k]), decide(d, m->ifs.v[i].else_vals[k]);
}
static void of_loops(decisions *d) {
  const emodule *m = d->p->m;
  for (uint32_t i = 0; i < m->loops.n; i++) {
    const xloop *l = &m->loops.v[i];
    for (uint32_t k = 0; k < l->ncarried; k++)
      if (d->decides[l->final[k]] || d->decides[l->inner[k]]) decide(d, l->next[k]), decide(d, l->init[k]);
    for (uint32_t k = 0; k < l->ncollected; k++)
      if (d->decides[l->collected[k]]) decide(d, l->slice[k]);
  }
}
uint8_t *deciding_stages(pw *p, const u32vec *order) {
  const emodule *m = p->m;
  decisions d = {.p = p, .decides = NEWN(p->a, uint8_t, m->tensors.n + 1)};
  uint8_t *stages = NEWN(p->a, uint8_t, m->stages.n + 1);
  do {
    d.changed = false;
    of_ifs(&d), of_loops(&d);
    for (uint32_t i = order->n; i-- > 0;) of_stage(&d, order->v[i]);
  } while (d.changed && m->ifs.n + m->loops.n);
  for (uint32_t i = 0; i < order->n; i++) stages[order->v[i]] = d.decides[xs(m, order->v[i])->tensor];
  return stages;
}
