/* In which order do the axes of a state lie?
 *
 * A state is an input and an output of one memory, or of two that are exchanged, and whoever runs the program never
 * looks into it (driver/state.c converts where he asks). So its order is free, as that of a tensor between kernels: it
 * is chosen once for the life of the state, for all that read it and write it in a run. One axis may lie innermost in
 * place of the last one. What that takes is compared in cycles: what the lanes of its readers save (order_saves), for
 * each vector of their values, and the lines that an update touches in part. With its length innermost a cache of keys
 * serves products of several rows: the lanes run along it, and all rows read the same vectors. For one row that does
 * not pay, since the sum may run along the lanes as well.
 *
 * Both tensors have the order, and the state's first value is packed in it. */
#include "cost/cost.h"
#include "schedule/kernel.h"
#include "schedule/layout_in.h"
#include "schedule/tile.h"
#include <string.h>

typedef struct count_names {
  tid t;      /* a tensor */
  uint32_t n; /* how often something names it besides loads */
} count_names;
static void count(void *env, tid t) {
  count_names *k = env;
  k->n += t == k->t;
}
/* Has the tensor this many names besides loads? */
static bool names(const lay *L, tid t, uint32_t n) {
  count_names k = {.t = t};
  expr_each_use(L->m, count, &k);
  return k.n == n;
}
/* Nothing but loads reads the old value, and a kernel computes the new one, in memory of its own. */
static bool is_free(lay *L, tid old, tid new) {
  const tensor *x = xt(L->m, new);
  if (L->p->level == 0 || old == new || x->kind != TK_STAGE) return false;
  return xs(L->m, x->stage)->kernel && !xs(L->m, x->stage)->recurrence && names(L, old, 0) && names(L, new, 1);
}
const uint32_t *state_order(const lay *L, tid t) {
  for (uint32_t i = 0; i < L->m->states.n; i++)
    if (L->state[i] && expr_state_out(L->m, i) == t) return L->state[i];
  return NULL;
}

/* ---- what an order takes in a run -------------------------------------------------------------- */
static bool loads(lay *L, uint32_t si, tid t) {
  const u32vec readers = order_readers(L, t);
  return vec_has(&readers, si);
}
/* Points of the stage's values, terms of its sum counted. */
static double points(const lay *L, const stage *s) {
  const ex_node *root = exn(L->m, s->value);
  double n = 1;
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) n *= (double)expr_typical(L->m, sym_extent(L->c, s->axes[i].d[j].var));
  for (uint32_t i = 0; root->kind == EX_REDUCE && i < root->nargs; i++)
    n *= (double)expr_typical(L->m, sym_extent(L->c, root->args[i]));
  return n;
}
/* Neighbours that the update writes from one place on, where the axes lie in this order. */
static double run_of(const lay *L, const tensor *x, const update *u, const uint32_t *order) {
  double run = 1;
  for (uint32_t k = x->rank; k-- > 0;) {
    const uint32_t ax = order[k];
    int64_t most = 1;
    if (sym_int_or(L->c, x->shape[ax], 0) == 1) continue;
    for (uint32_t v = 0; v < u->nvars; v++) {
      sz coef;
      if (sym_linear(L->c, u->idx[ax], u->vars[v], &coef, NULL) && sym_int_or(L->c, coef, 0) == 1)
        most = max64(most, expr_typical(L->m, sym_extent(L->c, u->vars[v])));
    }
    run *= (double)most;
    if (most < expr_typical(L->m, x->shape[ax])) break;
  }
  return run;
}
/* Cycles of the updates of the state's new value. */
static double written(const lay *L, const stage *s, const uint32_t *order) {
  const tensor *x = xt(L->m, s->tensor);
  double cycles = 0, bytes = et_bytes(x->type);
  for (uint32_t i = 0; i < x->rank; i++) bytes *= (double)expr_typical(L->m, x->shape[i]);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    const double run = run_of(L, x, u, order);
    double values = 1;
    for (uint32_t v = 0; v < u->nvars; v++) values *= (double)expr_typical(L->m, sym_extent(L->c, u->vars[v]));
    cycles += cost_written_runs(L->p->t, values / run, run * et_bytes(x->type), bytes);
  }
  return cycles;
}
/* Cycles of all stages that read or write the state, against single lanes; *vectors: how many they take. */
static double order_cycles(lay *L, tid old, tid new, const uint32_t *order, double *vectors) {
  const uint32_t lanes = max64(1, target_lanes(L->p->t, xt(L->m, new)->type));
  double cycles = 0;
  const tid both[] = {old, new};
  layout had[2];
  *vectors = 0;
  for (uint32_t i = 0; i < 2; i++) {
    had[i] = L->p->layouts[both[i]];
    L->p->layouts[both[i]] = layout_permuted(L->p, xt(L->m, both[i]), order, had[i].buffer);
  }
  for (uint32_t si = 0; si < L->m->stages.n; si++) {
    const stage *s = xs(L->m, si);
    const bool stores = s->tensor == new;
    if (s->dead || !(stores || loads(L, si, old) || loads(L, si, new))) continue;
    if (s->updates.n)
      cycles += stores ? written(L, s, order) : 0;
    else if (s->value) {
      const double n = points(L, s) / lanes;
      cycles -= order_saves(L, si, stores) * n, *vectors += n;
    }
  }
  for (uint32_t i = 0; i < 2; i++) L->p->layouts[both[i]] = had[i];
  return cycles;
}
/* Tensors that have no layout yet count as row-major meanwhile; returns those. */
static u32vec lay_out_all(lay *L) {
  u32vec some = {0};
  for (uint32_t t = 1; t < L->m->tensors.n; t++) {
    const tensor *x = xt(L->m, t);
    sz elems;
    if (L->p->layouts[t].known || x->kind != TK_STAGE || xs(L->m, x->stage)->dead) continue;
    L->p->layouts[t] = layout_dense(L->p, x->shape, x->rank, NULL, &elems);
    vec_push(L->a, some, t);
  }
  return some;
}
/* Does an update look at the state? What that takes is not estimated. */
static bool updates_read(lay *L, tid old, tid new) {
  for (uint32_t si = 0; si < L->m->stages.n; si++)
    for (uint32_t i = 0; !xs(L->m, si)->dead && i < xs(L->m, si)->updates.n; i++) {
      const update *u = &xs(L->m, si)->updates.v[i];
      u32vec all = {0};
      expr_loads(L->m, u->value, L->a, &all);
      if (u->cond) expr_loads(L->m, u->cond, L->a, &all);
      for (uint32_t k = 0; k < all.n; k++)
        if (exn(L->m, all.v[k])->tensor == old || exn(L->m, all.v[k])->tensor == new) return true;
    }
  return false;
}
static void prefer(lay *L, tid old, tid new, uint32_t *order) {
  const tensor *x = xt(L->m, new);
  double vectors;
  const double rows = order_cycles(L, old, new, order, &vectors);
  double least = rows;
  uint32_t best[MAX_RANK];
  memcpy(best, order, sizeof best);
  for (uint32_t axis = 0; axis + 1 < x->rank; axis++) {
    uint32_t other[MAX_RANK], n = 0;
    if (sym_int_or(L->c, x->shape[axis], 0) < 2) continue; /* one of open size may be too short for lanes */
    for (uint32_t i = 0; i < x->rank; i++)
      if (i != axis) other[n++] = i;
    other[n] = axis;
    const double cycles = order_cycles(L, old, new, other, &vectors);
    if (cycles < least) least = cycles, memcpy(best, other, sizeof best);
  }
  if (cost_state_order_pays(rows - least, vectors)) memcpy(order, best, sizeof best);
}
static bool is_row_major(const uint32_t *order, uint32_t rank) {
  for (uint32_t i = 0; i < rank; i++)
    if (order[i] != i) return false;
  return true;
}
/* The state lies in this order, and so does its first value. One that a kernel computes from its own old value has two
 * memories then. */
static void lies(lay *L, uint32_t i, const uint32_t *order) {
  splan *p = L->p;
  const tid old = expr_state_in(L->m, i), new = expr_state_out(L->m, i), first = L->m->states.v[i];
  const tensor *x = xt(L->m, old);
  p->states[i].first = first ? p->layouts[first].buffer : 0;
  if (is_row_major(order, x->rank)) return;
  p->states[i].order = arena_dup(p->l->a, order, x->rank * sizeof *order);
  p->layouts[old] = layout_permuted(p, x, order, p->layouts[old].buffer);
  /* squares that are transposed in registers are not written where they were read */
  if (!p->begun[new] && loads(L, xt(L->m, new)->stage, old)) p->states[i].in_place = false;
  if (first && !EK_PLANTED("schedule-state-order")) p->states[i].first = pack_permuted(p, first, order);
}
void state_layouts(lay *L) {
  emodule *m = L->m;
  if (!m->states.n) return;
  L->state = NEWN(L->a, uint32_t *, m->states.n);
  const u32vec some = L->p->level > 0 ? lay_out_all(L) : (u32vec){0};
  for (uint32_t i = 0; i < m->states.n; i++) {
    const tid old = expr_state_in(m, i), new = expr_state_out(m, i);
    storage s = {0};
    for (uint32_t k = 0; k < MAX_RANK; k++) s.order[k] = k;
    if (is_free(L, old, new)) {
      if (!updates_read(L, old, new)) prefer(L, old, new, s.order);
      storage_follow_order(L, new, &s);
      L->state[i] = arena_dup(L->a, s.order, sizeof s.order);
    }
    lies(L, i, s.order);
  }
  for (uint32_t i = 0; i < some.n; i++) L->p->layouts[some.v[i]] = (layout){0};
}
