/* What kind of reduction is a stage?
 *
 * The body of a sum is a product of factors; factors are grouped into operands by the variables that occur in them (two
 * factors are always two operands; of three or more, one whose variables are among another's joins it, constants and
 * others each among themselves if several are constants). With two
 * operands A and B, an output variable of A only is a row, of B only a column, of both a batch; a reduction variable of
 * both is reduced. The names follow from nothing else.
 * - contraction: reduced variables, rows and columns.
 * - matvec: rows or columns only, no window.
 * - stencil: a window and no columns, or one operand only.
 * - row: everything else.
 *
 * A window is an index in which output and reduction variables overlap (o*st + k*d with overlap, or with an
 * offset); a mixed radix number of both is not.
 */
#include "fusion/fuse.h"

static bool within(const u32vec *a, const u32vec *b) {
  for (uint32_t i = 0; i < a->n; i++)
    if (!vec_has(b, a->v[i])) return false;
  return true;
}
static bool intersects(const u32vec *a, const u32vec *b) {
  for (uint32_t i = 0; i < a->n; i++)
    if (vec_has(b, a->v[i])) return true;
  return false;
}
static void join(arena *a, u32vec *to, const u32vec *from) {
  for (uint32_t i = 0; i < from->n; i++)
    if (!vec_has(to, from->v[i])) vec_push(a, *to, from->v[i]);
}
/* Do the terms of an index overlap? Sorted by coefficient each must reach beyond what the smaller ones span. */
static bool overlaps(emodule *m, sz idx, arena *a) {
  ctx *c = m->c;
  if (sym_uses_kind(c, idx, AT_DATA)) return false; /* a table look-up, not a window */
  if (sym_uses_kind(c, idx, AT_DIV) || sym_uses_kind(c, idx, AT_MIN) || sym_uses_kind(c, idx, AT_MAX) ||
      sym_uses_kind(c, idx, AT_SEL))
    return true;
  u32vec vs = {0};
  sym_atoms(c, idx, AT_VAR, a, &vs);
  sz *q = NEWN(a, sz, vs.n + 1), rest = idx;
  for (uint32_t i = 0; i < vs.n; i++) {
    sz r;
    if (!sym_linear(c, rest, vs.v[i], &q[i], &r)) return true;
    rest = r;
    if (!sym_ge0(c, q[i])) q[i] = sym_neg(c, q[i]);
    for (uint32_t k = i; k > 0 && !sym_le(c, q[k - 1], q[k]); k--) {
      sz t = q[k];
      q[k] = q[k - 1], q[k - 1] = t;
      uint32_t u = vs.v[k];
      vs.v[k] = vs.v[k - 1], vs.v[k - 1] = u;
    }
  }
  sz span = sym_int(c, 1);
  for (uint32_t i = 0; i < vs.n; i++) {
    if (!sym_le(c, span, q[i])) return true;
    span = sym_mul(c, q[i], sym_extent(c, vs.v[i]));
  }
  int64_t k;
  return !(sym_is_int(c, rest, &k) && k == 0);
}
static bool has_window(emodule *m, ex body, arena *a, const u32vec *o, const u32vec *r) {
  u32vec l = {0};
  expr_loads(m, body, a, &l);
  for (uint32_t i = 0; i < l.n; i++) {
    ex_node n = *exn(m, l.v[i]);
    for (uint32_t k = 0; k < n.nargs; k++) {
      u32vec vs = {0};
      if (sym_is_int(m->c, n.args[k], NULL) || one_atom(m->c, n.args[k])) continue;
      sym_atoms(m->c, n.args[k], AT_VAR, a, &vs);
      if (intersects(&vs, o) && intersects(&vs, r) && overlaps(m, n.args[k], a)) return true;
    }
  }
  return false;
}
static bool all_const(emodule *m, const u32vec *f, arena *a) {
  u32vec l = {0};
  for (uint32_t i = 0; i < f->n; i++) expr_loads(m, f->v[i], a, &l);
  for (uint32_t i = 0; i < l.n; i++)
    if (xt(m, exn(m, l.v[i])->tensor)->kind != TK_CONST) return false;
  return l.n > 0;
}
/* The factors of a product. Whole numbers that are multiplied, converted, and multiplied by others are factors, too. */
static void factors_of(emodule *m, ex body, arena *a, u32vec *out) {
  u32vec f = {0};
  expr_operands(m, body, OP_MUL, a, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    const ex_node *n = exn(m, f.v[i]);
    const bool whole = f.n > 1 && n->kind == EX_OP && n->op == OP_CAST && et_kind((etype)n->type) == K_FLOAT &&
                       et_kind((etype)exn(m, n->args[0])->type) == K_INT;
    if (whole)
      expr_operands(m, n->args[0], OP_MUL, a, out);
    else
      vec_push(a, *out, f.v[i]);
  }
}
static bool is_constant(emodule *m, ex factor, arena *a) { return all_const(m, &(u32vec){&factor, 1, 1}, a); }
bool expr_roles(emodule *m, uint32_t s, arena *a, roles *out) {
  const stage *x = xs(m, s);
  *out = (roles){0};
  if (!x->value || x->updates.n || exn(m, x->value)->kind != EX_REDUCE) return false;
  ex_node n = *exn(m, x->value);
  u32vec o = {0}, r = {0}, f = {0};
  stage_vars(m, s, a, &o);
  for (uint32_t i = 0; i < n.nargs; i++) vec_push(a, r, n.args[i]);
  out->red = x->value;
  out->cls = KC_ROW;
  out->window = has_window(m, n.body, a, &o, &r) && !EK_PLANTED("kernels-roles");
  if (n.where) {
    u32vec w = {0};
    expr_vars(m, n.where, a, &w);
    out->triangle = intersects(&w, &o) && intersects(&w, &r);
  }
  if (n.op == RED_SUM) {
    factors_of(m, n.body, a, &f);
    VEC(u32vec) vars = {0}, group = {0};
    uint32_t with_vars = 0, constants = 0;
    u32vec *fv = NEWN(a, u32vec, f.n + 1), scalars = {0};
    for (uint32_t i = 0; i < f.n; i++) {
      expr_vars(m, f.v[i], a, &fv[i]);
      constants += is_constant(m, f.v[i], a);
      if (fv[i].n)
        with_vars++;
      else
        vec_push(a, scalars, f.v[i]);
    }
    for (uint32_t i = 0; i < f.n; i++) {
      if (!fv[i].n) continue;
      uint32_t g = 0;
      while (g < group.n && !(with_vars > 2 && (within(&fv[i], &vars.v[g]) || within(&vars.v[g], &fv[i])) &&
                              (constants < 2 || is_constant(m, f.v[i], a) == is_constant(m, group.v[g].v[0], a))))
        g++;
      if (g == group.n) vec_push(a, vars, ((u32vec){0})), vec_push(a, group, ((u32vec){0}));
      join(a, &vars.v[g], &fv[i]);
      vec_push(a, group.v[g], f.v[i]);
    }
    if (group.n == 2) {
      uint32_t ia = 0;
      bool c0 = all_const(m, &group.v[0], a), c1 = all_const(m, &group.v[1], a);
      if (c0 && !c1) ia = 1;
      out->two = true, out->b_const = c0 || c1;
      out->a = group.v[ia], out->b = group.v[1 - ia];
      for (uint32_t i = 0; i < scalars.n; i++) vec_push(a, out->a, scalars.v[i]);
      const u32vec *va = &vars.v[ia], *vb = &vars.v[1 - ia];
      for (uint32_t i = 0; i < o.n; i++) {
        bool p = vec_has(va, o.v[i]), q = vec_has(vb, o.v[i]);
        vec_push(a, *(p && q ? &out->batch : p ? &out->row : q ? &out->col : &out->none), o.v[i]);
      }
      for (uint32_t i = 0; i < r.n; i++)
        vec_push(a, *(vec_has(va, r.v[i]) && vec_has(vb, r.v[i]) ? &out->red_both : &out->red_one), r.v[i]);
      bool red = out->red_both.n > 0, hidden = n.where && out->triangle;
      if (red && !hidden && out->row.n && out->col.n)
        out->cls = KC_CONTRACTION;
      else if (red && !hidden && !out->window && (out->row.n || out->col.n))
        out->cls = KC_MATVEC;
      else if (red && !hidden && out->window)
        out->cls = out->col.n ? KC_MATVEC : KC_STENCIL;
      return true;
    }
  }
  vec_push(a, out->a, n.body);
  u32vec bv = {0};
  expr_vars(m, n.body, a, &bv);
  for (uint32_t i = 0; i < o.n; i++) vec_push(a, *(vec_has(&bv, o.v[i]) ? &out->row : &out->none), o.v[i]);
  for (uint32_t i = 0; i < r.n; i++) vec_push(a, out->red_one, r.v[i]);
  if (out->window && !out->triangle) out->cls = KC_STENCIL;
  return true;
}
kernel_class expr_class(emodule *m, uint32_t s) {
  const stage *x = xs(m, s);
  if (x->recurrence) return KC_RECURRENCE;
  if (x->updates.n) return KC_UPDATE;
  arena *a = arena_new(m->c);
  roles r;
  kernel_class k = KC_ELEMENTWISE;
  prefix_scan run;
  ranking rank;
  if (expr_prefix_scan(m, s, a, &run))
    k = KC_PREFIX_SCAN;
  else if (expr_ranking(m, s, a, &rank))
    k = KC_RANKING;
  else if (expr_roles(m, s, a, &r))
    k = r.cls;
  else {
    u32vec l = {0};
    expr_loads(m, x->value, a, &l);
    for (uint32_t i = 0; i < l.n; i++) {
      const ex_node *n = exn(m, l.v[i]);
      for (uint32_t d = 0; d < n->nargs; d++)
        if (sym_uses_kind(m->c, n->args[d], AT_DATA) && !expr_in_table(m, l.v[i])) k = KC_GATHER;
    }
    const ex_node *v = exn(m, x->value);
    if (k == KC_ELEMENTWISE && v->kind == EX_LOAD && !v->otherwise) k = KC_COPY;
  }
  arena_free(a);
  return k;
}
