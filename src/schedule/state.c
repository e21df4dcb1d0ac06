/* Which states can be changed in place?
 *
 * A state's old value is an input, its new one an output. They may be one memory if nothing reads the old value any
 * more once the first element of the new one is written: every kernel that reads the old one comes before the item of
 * the root block that writes the new one. The stage that writes may read the old value itself, where it computes each
 * element from the one in its own place (a decaying sum), since a kernel of such stages computes each point once, also
 * behind a sum (a parameter, from its gradient); so may each of several stages that compute parts of it. An update of a
 * few places (a row of a cache) begins as a copy of the old value. In place that copy is not made, and does not count
 * as a reader: so a run touches those places only. Where this is not so, the state has two buffers, and who runs the
 * program exchanges them: nothing is copied either way.
 *
 * A run that finds it needs more memory begins again (program.h), which it can do only if the old values are still
 * there: so where sizes without a bound are found in a run, no state is changed in place.
 */
#include "schedule/state.h"
#include <string.h>

typedef struct order {
  splan *p;           /* the plan */
  emodule *m;         /* the module */
  arena *a;           /* memory */
  uint32_t *stage_at; /* per stage: the item of the root block that it is run in */
} order;

/* Everything in the block, and in those inside of it, runs in item `at` of the root block; UINT32_MAX: it is the root
 * block. */
static void walk(order *k, uint32_t block, uint32_t at) {
  const emodule *m = k->m;
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    const item it = m->blocks.v[block].items.v[i];
    const uint32_t here = at == UINT32_MAX ? i : at;
    if (it.kind == IT_STAGE) k->stage_at[it.index] = here;
    if (it.kind == IT_IF) walk(k, m->ifs.v[it.index].then_block, here), walk(k, m->ifs.v[it.index].else_block, here);
    if (it.kind == IT_LOOP) walk(k, m->loops.v[it.index].body, here);
  }
}
/* A kernel, or without kernels a recurrence, runs where its first stage stands. */
static bool together(const emodule *m, uint32_t s, uint32_t t) {
  const stage *x = xs(m, s), *y = xs(m, t);
  return s == t || (x->kernel && x->kernel == y->kernel) || (x->recurrence && x->recurrence == y->recurrence);
}
static uint32_t runs_at(const order *k, uint32_t s) {
  uint32_t at = k->stage_at[s];
  for (uint32_t t = 0; t < k->m->stages.n; t++)
    if (!xs(k->m, t)->dead && together(k->m, s, t) && k->stage_at[t] < at) at = k->stage_at[t];
  return at;
}
/* The tensor of a stage that is stored as it is by this update of a placement; 0: there is none. */
static tid piece_of(const emodule *m, const stage *whole, uint32_t i) {
  const update *u = &whole->updates.v[i];
  const ex_node *n = exn(m, u->value);
  const bool stored = whole->tiled && n->kind == EX_LOAD && !n->otherwise && !u->cond;
  return stored && xt(m, n->tensor)->kind == TK_STAGE ? n->tensor : 0;
}
/* The item of the root block that writes t first; UINT32_MAX: not known. */
static uint32_t written_at(const order *k, tid t) {
  const emodule *m = k->m;
  if (xt(m, t)->kind == TK_STAGE) {
    const stage *x = xs(m, xt(m, t)->stage);
    uint32_t at = UINT32_MAX;
    if (k->p->level == 0 || x->kernel) return runs_at(k, xt(m, t)->stage);
    for (uint32_t i = 0; i < x->updates.n; i++) { /* other kernels store its pieces */
      const tid piece = piece_of(m, x, i);
      if (!piece || !xs(m, xt(m, piece)->stage)->kernel) return UINT32_MAX;
      at = (uint32_t)min64(at, runs_at(k, xt(m, piece)->stage));
    }
    return at;
  }
  for (uint32_t i = 0; i < m->blocks.v[0].items.n; i++) {
    const item it = m->blocks.v[0].items.v[i];
    for (uint32_t r = 0; it.kind == IT_IF && r < m->ifs.v[it.index].n; r++)
      if (m->ifs.v[it.index].results[r] == t) return i;
  }
  return UINT32_MAX;
}
/* A tensor, and whether something names it that is no stage: a branch, a loop, a late size, a check. */
typedef struct mention {
  tid t;      /* the tensor */
  bool found; /* something names it */
} mention;
static void look(void *env, tid t) {
  mention *x = env;
  x->found |= t == x->t;
}
static bool named(const emodule *m, tid t) {
  mention x = {.t = t};
  expr_each_use(m, look, &x);
  return x.found;
}
/* Does stage s begin as a copy of t, place by place, and read t nowhere else? */
static bool begins_as(const order *k, uint32_t s, tid t) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  if (!x->updates.n || !x->value || (x->kernel && m->kernels.v[x->kernel - 1].cls != KC_UPDATE)) return false;
  const ex_node *n = exn(m, x->value);
  if (n->kind != EX_LOAD || n->tensor != t || n->otherwise) return false;
  for (uint32_t i = 0; i < x->naxes; i++)
    if (!sym_eq(m->c, n->args[i], expr_axis_index(m, &x->axes[i]))) return false;
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    if (expr_reads(m, u->value, t, k->a) || expr_reads(m, u->cond, t, k->a)) return false;
    for (uint32_t j = 0; j < u->nidx; j++)
      if (sym_uses_kind(m->c, u->idx[j], AT_DATA) && expr_reads(m, expr_index(m, u->idx[j]), t, k->a)) return false;
  }
  return true;
}
/* Does a kernel compute each point of its element-wise stages once, behind the sums that they read? */
static bool computes_once(kernel_class cls) {
  return cls == KC_ELEMENTWISE || cls == KC_CONTRACTION || cls == KC_STENCIL || cls == KC_MATVEC || cls == KC_ROW;
}
/* Where stage s, which is a piece, stores what it computes: by this update of the placement. */
static bool piece_place(const order *k, uint32_t s, const update *u, sz *idx) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  const uint32_t n = expr_ndigits(x);
  digit *d = NEWN(k->a, digit, n + 1);
  sz *at = NEWN(k->a, sz, n + 1), *by = NEWN(k->a, sz, n + 1);
  atom *vars = NEWN(k->a, atom, n + 1);
  if (!expr_comps(m, s, exn(m, u->value)->args, at, NULL, NULL)) return false;
  expr_digits(x, d);
  for (uint32_t i = 0; i < n; i++) {
    by[i] = sym_of_atom(m->c, d[i].var);
    if (!sym_is_atom(m->c, at[i], &vars[i])) return false;
  }
  for (uint32_t i = 0; i < u->nidx; i++) idx[i] = sym_subst_atoms(m->c, u->idx[i], vars, by, n);
  return true;
}
/* Where does stage s store what it computes in the tensor `new`, of which it may be a piece? */
static bool place_in(const order *k, uint32_t s, tid new, sz *idx) {
  const emodule *m = k->m;
  const stage *x = xs(m, s), *whole = xt(m, new)->kind == TK_STAGE ? xs(m, xt(m, new)->stage) : x;
  for (uint32_t i = 0; x->tensor == new && i < x->naxes; i++) idx[i] = expr_axis_index(k->m, &x->axes[i]);
  for (uint32_t i = 0; x->tensor != new && i < whole->updates.n; i++)
    if (piece_of(m, whole, i) == x->tensor) return piece_place(k, s, &whole->updates.v[i], idx);
  return x->tensor == new;
}
/* Does stage s, which computes `new` or a piece of it, read t at the place that it computes, and nowhere else? */
static bool reads_own_places(const order *k, uint32_t s, tid t, tid new) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  u32vec loads = {0};
  sz place[MAX_RANK];
  if (x->updates.n || x->recurrence || !x->value || exn(m, x->value)->kind == EX_REDUCE) return false;
  if (x->kernel && !computes_once(m->kernels.v[x->kernel - 1].cls)) return false;
  if (!place_in(k, s, new, place)) return false;
  expr_stage_loads(m, s, k->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(m, loads.v[i]);
    if (n->tensor != t) continue;
    if (n->otherwise || n->nargs != xt(m, new)->rank) return false;
    for (uint32_t d = 0; d < n->nargs; d++)
      if (!sym_eq(m->c, n->args[d], place[d]) && !EK_PLANTED("schedule-state-piece")) return false;
  }
  return true;
}
static bool in_place(const order *k, tid old, tid new, bool *begins) {
  emodule *m = k->m;
  *begins = false;
  if (new == old) return true; /* it never changes */
  const uint32_t writes = written_at(k, new);
  if (writes == UINT32_MAX || named(m, old)) return false;
  for (uint32_t s = 0; s < m->stages.n; s++) {
    u32vec loads = {0};
    bool any = false;
    if (xs(m, s)->dead) continue;
    expr_stage_loads(m, s, k->a, &loads);
    for (uint32_t i = 0; i < loads.n; i++) any |= exn(m, loads.v[i])->tensor == old;
    if (!any) continue;
    if (xs(m, s)->tensor == new && begins_as(k, s, old))
      *begins = true;
    else if (reads_own_places(k, s, old, new))
      continue;
    else if (runs_at(k, s) >= writes && !EK_PLANTED("schedule-state"))
      return false;
  }
  return true;
}
static bool begins_again(const emodule *m) {
  for (uint32_t i = 0; i < m->lates.n; i++) {
    int64_t least, most;
    sym_range(m->c, m->lates.v[i].bound, &least, &most);
    if (least >= EXPR_NO_BOUND) return true;
  }
  return false;
}
void schedule_states(splan *p) {
  emodule *m = p->m;
  if (!m->states.n) return;
  arena *a = arena_new(m->c);
  order k = {.p = p, .m = m, .a = a, .stage_at = NEWN(a, uint32_t, m->stages.n + 1)};
  p->states = NEWN(p->l->a, state_plan, m->states.n);
  p->begun = NEWN(p->l->a, bool, m->tensors.n);
  walk(&k, 0, UINT32_MAX);
  for (uint32_t i = 0; i < m->states.n && !begins_again(m); i++) {
    const tid old = expr_state_in(m, i), new = expr_state_out(m, i);
    bool begins;
    p->states[i].in_place = in_place(&k, old, new, &begins);
    if (p->states[i].in_place && begins) p->begun[new] = true;
  }
  arena_free(a);
}
static int64_t typical_bytes(emodule *m, tid t) {
  const tensor *x = xt(m, t);
  sz n = sym_int(m->c, et_bytes(x->type));
  for (uint32_t d = 0; d < x->rank; d++) n = sym_mul(m->c, n, x->shape[d]);
  return expr_typical(m, n);
}
int64_t schedule_state_bytes(const splan *p) {
  emodule *m = p->m;
  int64_t sum = 0;
  for (uint32_t i = 0; i < m->states.n; i++)
    sum += typical_bytes(m, expr_state_in(m, i)) * (p->states[i].in_place ? 1 : 2);
  return sum;
}
int64_t schedule_output_bytes(const splan *p) {
  emodule *m = p->m;
  int64_t sum = 0;
  for (uint32_t i = 0; i < m->outputs.n - m->states.n; i++) sum += typical_bytes(m, m->outputs.v[i].t);
  return sum;
}
