/* When is a table that is updated made with its axes in another order?
 *
 * Exporters write an update along an inner axis as three nodes: the table is transposed, so that this axis comes first,
 * rows of it are replaced, and it is transposed back. The first transposition is read through (views); the last one is
 * a copy of the whole table, where the result leaves the module:
 *
 *     S[p, h, d] = X[h, p, d],  S[at, h, d] := row[h, d]         S[h, p, d] = X[h, p, d],  S[h, at, d] := row[h, d]
 *     Y[h, p, d] = S[p, h, d]                  becomes           and S leaves the module itself
 *
 * So what is updated has the order of the result, and all that read it are told. A state that is updated so can be
 * changed in place (schedule/state.c). Where the result has another use than as an output, it stays. Needs views; keeps
 * everything. */
#include "passes/pass.h"

typedef struct permutation {
  tid to;                /* the tensor in the new order */
  uint32_t at[MAX_RANK]; /* per axis of the new order: which axis it was */
} permutation;
static ex permuted_load(pw *p, const ex_node *l, const void *env) {
  const permutation *k = env;
  sz idx[MAX_RANK];
  for (uint32_t i = 0; i < l->nargs; i++) idx[i] = l->args[k->at[i]];
  return expr_load(p->m, k->to, idx, l->nargs, l->otherwise);
}
/* Of a stage's axes each has one digit at most. */
static bool simple_axes(const stage *x) {
  for (uint32_t i = 0; i < x->naxes; i++)
    if (x->axes[i].n > 1) return false;
  return true;
}
/* Is y all that x is, with its axes in another order or the same? */
static bool permutes(pw *p, const stage *y, const stage *x, permutation *k) {
  const ex_node *n = exn(p->m, y->value);
  bool used[MAX_RANK] = {0};
  for (uint32_t i = 0; i < y->naxes; i++) {
    uint32_t a = 0;
    const sz index = expr_axis_index(p->m, &y->axes[i]), size = xt(p->m, y->tensor)->shape[i];
    while (a < x->naxes && (used[a] || !sym_eq(p->c, n->args[a], index) || y->axes[i].n != x->axes[a].n ||
                            !sym_eq(p->c, size, xt(p->m, x->tensor)->shape[a])))
      a++;
    if (a == x->naxes) return false;
    used[a] = true, k->at[i] = a;
  }
  return true;
}
typedef struct usage {
  tid t;      /* a tensor */
  uint32_t n; /* how often it is named outside of values */
} usage;
static void count_use(void *env, tid t) {
  usage *u = env;
  u->n += t == u->t;
}
/* The output that the tensor is; UINT32_MAX: it is none, two, or something beside. */
static uint32_t only_output(const emodule *m, tid t) {
  usage all = {.t = t};
  expr_each_use(m, count_use, &all);
  for (uint32_t i = 0; i < m->outputs.n && all.n == 1; i++)
    if (m->outputs.v[i].t == t) return i;
  return UINT32_MAX;
}
/* Does anything read the tensor at a place that the tensor itself tells? What stands for such a load follows from what
 * stands for the inner one, which may be simpler once its tensor is another one: it would not be found again. */
static bool read_by_itself(pw *p, tid t) {
  for (uint32_t i = 0; i < p->readers.v[t].n; i++) {
    const u32vec *l = stage_loads(p, p->readers.v[t].v[i]);
    for (uint32_t k = 0; k < l->n; k++) {
      u32vec all = {0};
      uint32_t n = 0;
      if (exn(p->m, l->v[k])->tensor != t) continue;
      expr_loads(p->m, l->v[k], p->a, &all);
      for (uint32_t j = 0; j < all.n; j++) n += exn(p->m, all.v[j])->tensor == t;
      if (n > 1) return true;
    }
  }
  return false;
}
/* Axes, indices of updates, shape: the stage as it is now, in the new order. */
static void reorder(pw *p, uint32_t s, const permutation *k) {
  emodule *m = p->m;
  stage *x = xs(m, s);
  axis *axes = NEWN(m->a, axis, x->naxes + 1);
  for (uint32_t i = 0; i < x->naxes; i++) axes[i] = x->axes[k->at[i]];
  x->axes = axes;
  for (uint32_t u = 0; u < x->updates.n; u++) {
    sz *idx = NEWN(m->a, sz, x->naxes + 1);
    for (uint32_t i = 0; i < x->naxes; i++) idx[i] = x->updates.v[u].idx[k->at[EK_PLANTED("permute") ? 0 : i]];
    x->updates.v[u].idx = idx;
  }
  x->tensor = k->to;
}
static bool permute(pw *p, uint32_t y) {
  emodule *m = p->m;
  const stage *out = xs(m, y);
  const ex_node *n = out->value && !out->updates.n && !out->recurrence ? exn(m, out->value) : NULL;
  const uint32_t producer = n && n->kind == EX_LOAD && !n->otherwise ? producer_of(m, n->tensor) : 0;
  const uint32_t s = producer - 1, which = producer ? only_output(m, out->tensor) : UINT32_MAX;
  permutation k = {0};
  if (which == UINT32_MAX) return false;
  const stage *x = xs(m, s);
  const tid from = x->tensor;
  if (!x->updates.n || !x->value || x->recurrence || x->block != out->block || p->pinned.v[from] ||
      x->naxes != out->naxes || !simple_axes(x) || !simple_axes(out) || !permutes(p, out, x, &k))
    return false;
  for (uint32_t i = 0; i < p->readers.v[from].n; i++)
    if (p->readers.v[from].v[i] == s) return false; /* updates that look at what is there */
  if (p->readers.v[out->tensor].n || read_by_itself(p, from)) return false;
  sz shape[MAX_RANK];
  const tensor old = *xt(m, from);
  for (uint32_t i = 0; i < old.rank; i++) shape[i] = old.shape[k.at[i]];
  k.to = expr_tensor(m, TK_STAGE, old.type, shape, old.rank, old.name, old.origin);
  pass_changed(p, s); /* makes room for the new tensor in the index of readers */
  reload r;
  if (!reload_make(p, from, permuted_load, &k, &r) || !pass_spend(p)) return false;
  /* the new tensor takes the name, since nobody reads the old one from now on */
  xt(m, from)->name = xt(m, k.to)->name, xt(m, k.to)->name = old.name;
  xt(m, k.to)->stage = s, xt(m, k.to)->output = true;
  m->outputs.v[which].t = k.to;
  reorder(p, s, &k);
  pass_changed(p, s);
  reload_put(p, &r);
  pass_kill(p, y);
  p->pinned.v[k.to] = 1;
  return true;
}
bool pass_permute(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++)
    if (!xs(p->m, order.v[i])->dead) any |= permute(p, order.v[i]);
  pass_flush(p);
  return any;
}
