/* When is an axis of several digits several axes?
 *
 * Where a tensor is seen in another shape for a while (a norm over groups of channels), the stages in between
 * have axes of several digits, which can be stored in one order only. Where all that read such a stage name its
 * digits, it is computed into a tensor with an axis for each digit: then a layout may order them, and a read outside
 * of one of them is a guard of the load. Before, such a read was a choice,
 *
 *     x >= 0 and n-1-x >= 0 ? Y[.., n*q + x, ..] : k        becomes     load Y'[.., q, x, ..] else k
 *
 * since a place outside of a digit is one inside of its neighbour. Recurrences, placements and tensors that leave
 * the module keep their axes. Needs views; keeps everything. */
#include "passes/pass.h"

typedef struct unfold {
  pw *p;      /* the run of passes */
  uint32_t s; /* the stage with such axes */
  tid from;   /* tensor with these axes */
  tid to;     /* tensor with an axis for each digit */
  sz *by;     /* room for its digits */
} unfold;
/* x where `e` says x >= 0; 0: it says something else */
static sz not_negative(unfold *u, ex e) {
  const ex_node *n = exn(u->p->m, e), *x = n->kind == EX_OP && n->op == OP_GE ? exn(u->p->m, n->args[0]) : NULL,
                *zero = x ? exn(u->p->m, n->args[1]) : NULL;
  return zero && x->kind == EX_INDEX && zero->kind == EX_CONST && !zero->k.i ? x->index : 0;
}
/* Is 0 <= x < n, by itself or where the conditions hold? Marks those that say no more than this. */
static bool inside(unfold *u, sz x, sz n, const u32vec *conds, uint64_t *used) {
  ctx *c = u->p->c;
  sz ends[2] = {x, sym_sub(c, sym_addi(c, n, -1), x)};
  for (uint32_t k = 0; k < 2; k++) {
    bool known = false;
    for (uint32_t i = 0; i < conds->n && i < 64; i++) {
      sz y = not_negative(u, conds->v[i]);
      if (y && sym_eq(c, y, ends[k])) known = true, *used |= UINT64_C(1) << i;
    }
    if (!known && !sym_ge0(c, ends[k])) return false;
  }
  return true;
}
/* The digits at these indices, of which the conditions say where they are. */
static bool digits_where(unfold *u, const sz *idx, const u32vec *conds, uint64_t *used) {
  ctx *c = u->p->c;
  const stage *x = xs(u->p->m, u->s);
  for (uint32_t a = 0, at = 0; a < x->naxes; at += x->axes[a].n, a++) {
    sz rest = idx[a], q, r;
    for (uint32_t k = x->axes[a].n; k-- > 1;) {
      sz n = x->axes[a].d[k].extent;
      bool found = sym_divmod(c, rest, n, &q, &r, NULL, NULL);
      for (uint32_t i = 0; i < 2 * conds->n && !found; i++) {
        sz y = not_negative(u, conds->v[i / 2]);
        if (!y) continue;
        r = i % 2 ? sym_sub(c, sym_addi(c, n, -1), y) : y;
        found = sym_exact_div(c, sym_sub(c, rest, r), n, &q) && inside(u, r, n, conds, used);
      }
      if (!found) return false;
      u->by[at + k] = r, rest = q;
    }
    if (x->axes[a].n) u->by[at] = rest;
  }
  return true;
}
static ex named(unfold *u, ex otherwise) {
  return expr_load(u->p->m, u->to, u->by, expr_ndigits(xs(u->p->m, u->s)), otherwise);
}
/* An axis of size 1 has no digit that could say that a read is outside of it. */
static bool units_inside(unfold *u, const sz *idx) {
  const stage *x = xs(u->p->m, u->s);
  for (uint32_t a = 0; a < x->naxes; a++)
    if (!x->axes[a].n && !sym_eq(u->p->c, idx[a], sym_int(u->p->c, 0))) return false;
  return true;
}
static ex unfolded(void *env, emodule *m, ex e) { /* bottom-up: a choice sees a load that could not be named alone */
  unfold *u = env;
  ex_node n = *exn(m, e);
  if (n.kind == EX_LOAD && n.tensor == u->from) {
    if (n.otherwise && !units_inside(u, n.args)) return e;
    return expr_comps(m, u->s, n.args, u->by, NULL, NULL) ? named(u, n.otherwise) : e;
  }
  if (n.kind != EX_OP || n.op != OP_SEL || exn(m, n.args[2])->kind != EX_CONST) return e;
  ex_node l = *exn(m, n.args[1]);
  u32vec conds = {0};
  uint64_t used = 0;
  ex left = 0;
  if (l.kind != EX_LOAD || l.tensor != u->from || l.otherwise) return e;
  expr_operands(m, n.args[0], OP_AND, u->p->a, &conds);
  if (conds.n > 64 || !digits_where(u, l.args, &conds, &used)) return e;
  ex load = named(u, n.args[2]);
  for (uint32_t i = 0; i < conds.n; i++)
    if (!(used >> i & 1) && !EK_PLANTED("axes")) left = left ? expr_op2(m, OP_AND, left, conds.v[i]) : conds.v[i];
  return left ? expr_sel(m, left, load, n.args[2]) : load;
}
static bool axes(pw *p, uint32_t s) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  unfold u = {.p = p, .s = s, .from = x->tensor};
  uint32_t nd = expr_ndigits(x), several = 0, n = p->readers.v[u.from].n;
  for (uint32_t i = 0; i < x->naxes; i++) several += x->axes[i].n > 1;
  if (!several || nd > MAX_RANK || !x->value || x->updates.n || x->recurrence || p->pinned.v[u.from] || !n)
    return false;
  u.by = NEWN(p->a, sz, nd + 1);
  u32vec readers = {0}; /* a copy: the list changes with the readers */
  ex *to = NEWN(p->a, ex, n);
  digit *d = NEWN(p->a, digit, nd);
  sz shape[MAX_RANK];
  expr_digits(x, d);
  for (uint32_t i = 0; i < nd; i++) shape[i] = d[i].extent;
  for (uint32_t i = 0; i < n; i++) vec_push(p->a, readers, p->readers.v[u.from].v[i]);
  tensor old = *xt(m, u.from);
  u.to = expr_tensor(m, TK_STAGE, old.type, shape, nd, old.name, old.origin);
  pass_changed(p, s); /* makes room for the new tensor in the index of readers */
  for (uint32_t i = 0; i < n; i++) {
    const stage *r = xs(m, readers.v[i]);
    if (!r->value || r->updates.n || r->recurrence || r->block != x->block) return false;
    to[i] = expr_rewrite(m, r->value, &(ex_map){.node = unfolded, .env = &u});
    if (expr_reads(m, to[i], u.from, p->a)) return false;
  }
  if (!pass_spend(p)) return false;
  axis *ax = NEWN(m->a, axis, nd);
  for (uint32_t i = 0; i < nd; i++) ax[i] = (axis){1, arena_dup(m->a, &d[i], sizeof d[i])};
  stage *y = xs(m, s);
  /* the new tensor takes the name, since nobody reads the old one from now on */
  xt(m, u.from)->name = xt(m, u.to)->name, xt(m, u.to)->name = old.name;
  y->tensor = u.to, y->axes = ax, y->naxes = nd;
  xt(m, u.to)->stage = s;
  pass_changed(p, s);
  for (uint32_t i = 0; i < n; i++) pass_set(p, readers.v[i], simplify(p, to[i]));
  return true;
}
bool pass_axes(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) any |= axes(p, order.v[i]);
  return any;
}
