/* Which places of a state does a run change?
 *
 * A model may state the new value of a cache by a condition on places: from row p on n rows are new, all others are
 * what they were.
 *
 *     S[h, r, d] = r >= p and r - p < n ? K[h, r - p, d] : old[h, r, d]
 *
 * Computed so, each run looks at every place. An update of what was there writes the new rows alone, and changed in
 * place (schedule/state.c) it touches nothing else, however long the cache is:
 *
 *     S[h, r, d] = old[h, r, d],  S[h, p + i, d] := K[h, i, d]  for i < n
 *
 * p may be data; n may not, since it is the extent of a variable. Needs simplify; comes before views, which would give
 * the condition to those that read the state. Keeps everything. */
#include "passes/counted.h"

/* The places of a stage at which it is not what a state was. */
typedef struct change {
  ex value; /* what it is there */
  ex where; /* where that is; 0: not known yet */
} change;
static bool is_own_place(pw *p, uint32_t s, ex e, tid old) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  const ex_node *n = exn(m, e);
  if (n->kind != EX_LOAD || n->tensor != old || n->otherwise || n->nargs != x->naxes) return false;
  for (uint32_t i = 0; i < x->naxes; i++)
    if (!sym_eq(p->c, n->args[i], expr_axis_index(m, &x->axes[i]))) return false;
  return true;
}
/* Takes choices between something and what was there apart. */
static bool find_change(pw *p, uint32_t s, tid old, change *k) {
  emodule *m = p->m;
  *k = (change){.value = xs(m, s)->value};
  for (const ex_node *n; n = exn(m, k->value), n->kind == EX_OP && n->op == OP_SEL;) {
    const ex cond = n->args[0], then = n->args[1], otherwise = n->args[2];
    const bool keeps_else = is_own_place(p, s, otherwise, old);
    if (!keeps_else && !is_own_place(p, s, then, old)) break;
    const ex where = keeps_else ? cond : expr_op1(m, OP_NOT, cond);
    k->where = k->where ? expr_op2(m, OP_AND, k->where, where) : where;
    k->value = keeps_else ? then : otherwise;
  }
  return k->where && !expr_reads(m, k->value, old, p->a) && !expr_reads(m, k->where, old, p->a);
}
/* The values of a variable that can be changed: `first` and the `extent` - 1 ones behind it. */
static bool changed_range(pw *p, uint32_t s, const digit *d, ex where, sz *first, sz *extent) {
  emodule *m = p->m;
  finder f = {.p = p, .m = m, .c = p->c, .var = d->var, .stage = s, .any_data = true};
  const ex bit = expr_sel(m, where, expr_i(m, ET_I64, 1), expr_i(m, ET_I64, 0));
  const span x = counted(&f, bit, ZERO);
  if (x.none || (!x.lo && !x.hi)) return false;
  *first = x.lo ? x.lo : sym_int(p->c, 0);
  *extent = sym_sub(p->c, x.hi ? x.hi : d->extent, *first);
  return !sym_uses_kind(p->c, *extent, AT_DATA) && !sym_uses_kind(p->c, *extent, AT_VAR) && sym_ge0(p->c, *extent) &&
         !sym_le(p->c, d->extent, *extent);
}
/* i of a digit's places from `first` on. */
static update make_update(pw *p, uint32_t s, const change *k, uint32_t which, sz first, sz extent) {
  emodule *m = p->m;
  ctx *c = p->c;
  const stage x = *xs(m, s);
  const uint32_t nd = expr_ndigits(&x);
  digit *d = NEWN(p->a, digit, nd + 1);
  atom *from = NEWN(p->a, atom, nd + 1);
  sz *to = NEWN(p->a, sz, nd + 1);
  update u = {.nidx = x.naxes, .vars = NEWN(m->a, atom, nd + 1), .idx = NEWN(m->a, sz, x.naxes + 1)};
  expr_digits(&x, d);
  for (uint32_t i = 0; i < nd; i++) {
    const sz v = sym_var(c, sym_name(c, d[i].var), i == which ? extent : d[i].extent);
    from[i] = d[i].var, to[i] = v;
    if (sym_is_atom(c, v, &u.vars[u.nvars])) u.nvars++;
  }
  const sz start = expr_as_size(m, expr_subst_vars(m, expr_index(m, first), from, to, nd));
  to[which] = EK_PLANTED("state") ? start : sym_add(c, start, to[which]);
  for (uint32_t a = 0, i = 0; a < x.naxes; a++) {
    u.idx[a] = sym_int(c, 0);
    for (uint32_t j = 0; j < x.axes[a].n; j++, i++)
      u.idx[a] = sym_add(c, sym_mul(c, u.idx[a], x.axes[a].d[j].extent), to[i]);
  }
  const sz end = sym_addi(c, sym_sub(c, d[which].extent, to[which]), -1), bound[2] = {to[which], end};
  ex where = expr_subst_vars(m, k->where, from, to, nd);
  for (int i = 0; i < 2; i++)
    where = expr_op2(m, OP_AND, where, expr_op2(m, OP_GE, expr_index(m, bound[i]), expr_i(m, ET_I64, 0)));
  where = simplify(p, where);
  const ex_node *n = exn(m, where);
  u.cond = n->kind == EX_CONST && n->k.i ? 0 : where;
  u.value = simplify(p, expr_subst_vars(m, k->value, from, to, nd));
  return u;
}
static bool update_state(pw *p, tid old, tid new) {
  emodule *m = p->m;
  const uint32_t producer = producer_of(m, new), s = producer - 1;
  change k;
  sz first, extent;
  if (!producer || xs(m, s)->block || !stage_plain(p, s) || xs(m, s)->recurrence || !find_change(p, s, old, &k))
    return false;
  const uint32_t nd = expr_ndigits(xs(m, s));
  digit *d = NEWN(p->a, digit, nd + 1);
  expr_digits(xs(m, s), d);
  for (uint32_t i = 0; i < nd; i++) {
    if (!changed_range(p, s, &d[i], k.where, &first, &extent)) continue;
    if (!pass_spend(p)) return false;
    const update u = make_update(p, s, &k, i, first, extent);
    stage *x = xs(m, s);
    sz own[MAX_RANK];
    for (uint32_t a = 0; a < x->naxes; a++) own[a] = expr_axis_index(m, &x->axes[a]);
    x->value = expr_load(m, old, own, x->naxes, 0);
    vec_push(m->a, x->updates, u);
    pass_changed(p, s);
    return true;
  }
  pass_remark(p, "state", s, 0, "no axis has a number of changed places that is known before the run");
  return false;
}
bool pass_state(pw *p) {
  bool any = false;
  for (uint32_t i = 0; i < p->m->states.n; i++) any |= update_state(p, expr_state_in(p->m, i), expr_state_out(p->m, i));
  return any;
}
