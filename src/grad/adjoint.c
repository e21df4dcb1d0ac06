/* How do contributions become an adjoint?
 *
 * Each contribution is a gather over the index space of its tensor where its index map can be inverted (invert.c). One
 * gather alone is the adjoint stage; of several, element-wise ones are written into one sum and the others become
 * stages that the sum reads (R9). What cannot be inverted, a read at indices from data, is scattered: the adjoint stage
 * starts from the sum and adds them up in updates, in row-major order. Before that, variables that the place does not
 * depend on are summed up in a stage of their own.
 */
#include "grad/grad_in.h"
#include <string.h>

const char *grad_name(gr *g, tid x) { return arena_fmt(g->a, "d.%s", xt(g->m, x)->name); }

void grad_axes(gr *g, tid x, axis *axes, sz *idx) {
  emodule *m = g->m;
  const tensor t = *xt(m, x);
  for (uint32_t i = 0; i < t.rank; i++) {
    const axis *a = t.kind == TK_STAGE && i < xs(m, t.stage)->naxes ? &xs(m, t.stage)->axes[i] : NULL;
    axes[i] =
        expr_axis1(m, a && a->n == 1 ? sym_name(g->c, a->d[0].var) : arena_fmt(m->a, "i%u", i), t.shape[i], &idx[i]);
  }
}
static ex zero_of(gr *g, tid x) { return expr_f(g->m, xt(g->m, x)->type, 0); }

piece grad_piece(gr *g, tid x, const gathered *p, const axis *axes, const frame_u *f, int64_t later) {
  emodule *m = g->m;
  uint32_t rank = xt(m, x)->rank, nv = 0;
  if (p->plain && !p->reduce && !p->compact && !later) return (piece){.ref = p->value};
  piece r = {0};
  atom from[MAX_RANK];
  sz to[MAX_RANK], at[MAX_RANK];
  bool inside = true;
  for (uint32_t i = 0; i < rank; i++) {
    bool step = f && i == f->axis;
    r.axes[i] = p->axes[i];
    at[i] = step ? sym_addi(g->c, f->u, -later) : p->back[i];
    inside &= sym_ge0(g->c, at[i]) && sym_lt(g->c, at[i], p->shape[i]);
    if (r.axes[i].n != 1 || r.axes[i].d != axes[i].d || step) continue;
    from[nv] = r.axes[i].d[0].var;
    r.axes[i] = expr_axis1(m, sym_name(g->c, from[nv]), r.axes[i].d[0].extent, &to[nv]);
    nv++;
  }
  r.t = expr_tensor(m, TK_STAGE, exn(m, p->value)->type, p->shape, rank, arena_fmt(g->a, "%s.part", grad_name(g, x)),
                    xt(m, x)->origin);
  r.value = nv ? expr_subst_vars(m, p->value, from, to, nv) : p->value;
  r.ref = expr_load(m, r.t, at, rank, inside ? 0 : zero_of(g, x));
  if (p->back_cond && !EK_PLANTED("grad-piece")) r.ref = expr_sel(m, p->back_cond, r.ref, zero_of(g, x));
  return r;
}
void grad_piece_emit(gr *g, const piece *p, uint32_t recurrence) {
  if (!p->t) return;
  uint32_t s = grad_append(g, p->t, p->axes, xt(g->m, p->t)->rank, p->value);
  xs(g->m, s)->recurrence = recurrence;
}

/* ---- scattering ------------------------------------------------------------------------------ */
static void fresh_vars(gr *g, const u32vec *from, atom *vars, sz *by) {
  for (uint32_t i = 0; i < from->n; i++) {
    by[i] = sym_var(g->c, sym_name(g->c, from->v[i]), sym_extent(g->c, from->v[i]));
    sym_is_atom(g->c, by[i], &vars[i]);
  }
}
static ex in_place(gr *g, tid x, const sz *idx) { /* an index that the read's `else` covered */
  emodule *m = g->m;
  ex r = 0;
  for (uint32_t i = 0; i < xt(m, x)->rank; i++) {
    sz size = xt(m, x)->shape[i];
    if (!sym_ge0(g->c, idx[i])) r = k_and(m, r, expr_op2(m, OP_GE, expr_index(m, idx[i]), expr_i(m, ET_I64, 0)));
    if (!sym_lt(g->c, idx[i], size)) r = k_and(m, r, expr_op2(m, OP_LT, expr_index(m, idx[i]), expr_index(m, size)));
  }
  return r;
}
/* Sums over the variables in `over`, a stage over those in `keep`; returns its read. */
static ex presum(gr *g, const contrib *k, ex value, const u32vec *keep, const u32vec *over) {
  emodule *m = g->m;
  axis axes[MAX_RANK];
  sz by[MAX_RANK], idx[MAX_RANK], shape[MAX_RANK];
  for (uint32_t i = 0; i < keep->n; i++) {
    idx[i] = sym_of_atom(g->c, keep->v[i]), shape[i] = sym_extent(g->c, keep->v[i]);
    axes[i] = expr_axis1(m, sym_name(g->c, keep->v[i]), shape[i], &by[i]);
  }
  atom *red = NEWN(g->a, atom, over->n);
  sz *rby = NEWN(g->a, sz, over->n);
  fresh_vars(g, over, red, rby);
  value = expr_subst_vars(m, expr_subst_vars(m, value, keep->v, by, keep->n), over->v, rby, over->n);
  tid t = expr_tensor(m, TK_STAGE, exn(m, value)->type, shape, keep->n, arena_fmt(g->a, "%s.part", grad_name(g, k->x)),
                      k->origin);
  grad_append(g, t, axes, keep->n, expr_reduce(m, RED_SUM, red, over->n, 0, value, 0, ET_NONE, ET_NONE));
  return expr_load(m, t, idx, keep->n, 0);
}
static update scatter(gr *g, const contrib *k) {
  emodule *m = g->m;
  uint32_t rank = xt(m, k->x)->rank;
  u32vec place = {0}, keep = {0}, over = {0};
  ex cond = mask_ex(g, k->when), value = k_mul(m, k->d, k->g);
  for (uint32_t i = 0; i < rank; i++) size_free(g, k->idx[i], &place);
  if (cond) expr_vars(m, cond, g->a, &place);
  for (uint32_t i = 0; i < k->nvars; i++)
    if (vec_has(&place, k->vars[i]))
      vec_push(g->a, keep, k->vars[i]);
    else
      vec_push(g->a, over, k->vars[i]);
  if (keep.n > MAX_RANK)
    while (over.n) vec_push(g->a, keep, over.v[--over.n]);
  /* under a condition the sum may be read only where it holds: it is computed everywhere, so its reads must be safe */
  if (over.n) {
    u32vec l = {0};
    expr_loads(m, value, g->a, &l);
    bool safe = true;
    for (uint32_t i = 0; i < l.n; i++) safe &= exn(m, l.v[i])->otherwise || !in_range_cond(g, l.v[i]);
    if (safe)
      value = presum(g, k, value, &keep, &over);
    else
      while (over.n) vec_push(g->a, keep, over.v[--over.n]);
  }
  if (k->guarded && !EK_PLANTED("grad-scatter")) cond = k_and(m, in_place(g, k->x, k->idx), cond);
  update u = {.vars = NEWN(m->a, atom, keep.n + 1),
              .nvars = keep.n,
              .nidx = rank,
              .idx = NEWN(m->a, sz, rank + 1),
              .op = OP_ADD};
  sz *by = NEWN(g->a, sz, keep.n + 1);
  fresh_vars(g, &keep, u.vars, by);
  for (uint32_t i = 0; i < rank; i++) u.idx[i] = size_subst(g, k->idx[i], keep.v, by, keep.n);
  u.value = expr_cast(m, xt(m, k->x)->type, expr_subst_vars(m, value, keep.v, by, keep.n));
  u.cond = cond ? expr_subst_vars(m, cond, keep.v, by, keep.n) : 0;
  return u;
}

/* ---- the adjoint of one tensor --------------------------------------------------------------- */
static bool is_copy(gr *g, tid x, ex value, const sz *idx) {
  const ex_node *n = exn(g->m, value);
  if (n->kind != EX_LOAD || n->otherwise || n->type != xt(g->m, x)->type || n->nargs != xt(g->m, x)->rank) return false;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (n->args[i] != idx[i] || xt(g->m, n->tensor)->shape[i] != xt(g->m, x)->shape[i]) return false;
  return true;
}
typedef VEC(gathered) pieces;
static bool gather_all(gr *g, const contrib *k, const axis *axes, const sz *idx, pieces *out) {
  gathered p;
  if (grad_gather(g, k, axes, idx, NULL, &p)) {
    if (!p.empty) vec_push(g->a, *out, p);
    return true;
  }
  contribs cases = {0};
  uint32_t before = out->n;
  if (!grad_split_cases(g, k, &cases)) return false;
  for (uint32_t i = 0; i < cases.n; i++)
    if (!gather_all(g, &cases.v[i], axes, idx, out)) {
      out->n = before;
      return false;
    }
  return true;
}
tid grad_finish(gr *g, tid x, const contribs *k) {
  emodule *m = g->m;
  const tensor t = *xt(m, x);
  axis axes[MAX_RANK];
  sz idx[MAX_RANK];
  pieces ps = {0};
  contribs rest = {0};
  ex sum = 0;
  grad_axes(g, x, axes, idx);
  for (uint32_t i = 0; i < k->n; i++)
    if (!gather_all(g, &k->v[i], axes, idx, &ps)) vec_push(g->a, rest, k->v[i]);
  if (!ps.n && !rest.n) return 0;
  if (ps.n == 1 && !rest.n && !ps.v[0].compact) {
    gathered *p = &ps.v[0];
    if (p->plain && is_copy(g, x, p->value, idx)) return exn(m, p->value)->tensor;
    tid r = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, grad_name(g, x), t.origin);
    grad_append(g, r, p->axes, t.rank, p->value);
    return r;
  }
  for (uint32_t i = 0; i < ps.n; i++) {
    piece p = grad_piece(g, x, &ps.v[i], axes, NULL, 0);
    grad_piece_emit(g, &p, 0);
    sum = sum ? k_add(m, sum, p.ref) : p.ref;
  }
  VEC(update) us = {0};
  for (uint32_t i = 0; i < rest.n; i++) vec_push(m->a, us, scatter(g, &rest.v[i]));
  tid r = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, grad_name(g, x), t.origin);
  uint32_t s = grad_append(g, r, axes, t.rank, sum ? sum : zero_of(g, x));
  for (uint32_t i = 0; i < us.n; i++) vec_push(m->a, xs(m, s)->updates, us.v[i]);
  return r;
}
