/* What does a reduction's condition leave out as a whole?
 *
 * A part of it that no variable of the reduction occurs in is asked once, before the loops; a bound on one
 * variable alone (k <= p) ends its loop there. So does a factor that is 0 outside of a tensor, where
 * it is outside for all else that a step of that variable takes: rows of a window above or below a picture. Only
 * for tiles for all of whose points that is the same.
 */
#include "expr/expr.h"
#include "schedule/tile.h"
#include <string.h>

static bool one_of(const ex_node *red, const u32vec *vars, atom *which) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < vars->n; i++)
    for (uint32_t j = 0; j < red->nargs; j++)
      if (vars->v[i] == red->args[j]) *which = vars->v[i], n++;
  return n == 1;
}
static bool bound_of(ectx *e, const ex_node *red, ex part, const u32vec *vars, var_range *out) {
  const ex_node *n = exn(e->m, part);
  sz coef, rest;
  int64_t k;
  if (n->kind != EX_OP || n->op != OP_GE || exn(e->m, n->args[0])->kind != EX_INDEX ||
      exn(e->m, n->args[1])->kind != EX_CONST || exn(e->m, n->args[1])->k.i != 0 || !one_of(red, vars, &out->var))
    return false;
  if (!sym_linear(e->c, exn(e->m, n->args[0])->index, out->var, &coef, &rest) || !sym_is_int(e->c, coef, &k) ||
      (k != 1 && k != -1))
    return false;
  lv at = emit_size(e, k == 1 ? sym_neg(e->c, rest) : sym_addi(e->c, rest, 1 - EK_PLANTED("schedule-bound"))),
     zero = lb_int(&e->b, 0), end = emit_size(e, sym_extent(e->c, out->var));
  out->lo =
      k == 1 ? lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_op(&e->b, OP_MAX, lt(ET_I64, 1), at, zero, 0), end, 0) : zero;
  out->hi =
      k == 1 ? end : lb_op(&e->b, OP_MAX, lt(ET_I64, 1), lb_op(&e->b, OP_MIN, lt(ET_I64, 1), at, end, 0), zero, 0);
  return true;
}
/* Is k the neutral element of the reduction, so that the place counts nothing? */
static bool counts_nothing(const ex_node *red, etype t, scalar k) {
  scalar id = schedule_identity((rop)red->op, t);
  if (red->op == RED_SUM) return et_kind(t) == K_FLOAT ? k.f == 0 : k.i == 0;
  return (red->op == RED_MAX || red->op == RED_MIN) && red->acc == t &&
         (memcmp(&k, &id, sizeof k) == 0 || EK_PLANTED("schedule-outside-max"));
}
/* The factors of the reduction that are loads of which what is read outside counts nothing. */
static void outside_factors(const index_view *iv, const ex_node *red, u32vec *out) {
  u32vec fs = {0};
  if (red->op == RED_SUM)
    expr_operands(iv->m, red->body, OP_MUL, iv->a, &fs);
  else
    vec_push(iv->a, fs, red->body);
  for (uint32_t i = 0; i < fs.n; i++) {
    const ex_node *f = exn(iv->m, fs.v[i]);
    if (f->kind == EX_LOAD && f->otherwise && exn(iv->m, f->otherwise)->kind == EX_CONST &&
        counts_nothing(red, f->type, exn(iv->m, f->otherwise)->k))
      vec_push(iv->a, *out, fs.v[i]);
  }
}
/* An index of a load that goes on with one variable of the reduction. */
typedef struct outside_index {
  sz at;       /* the index */
  atom var;    /* the variable */
  sz coef;     /* its coefficient, a number */
  int64_t k;   /* the same */
  sz rest;     /* the index without it */
  int64_t ext; /* values of the variable */
  u32vec vars; /* all variables of the index */
} outside_index;
static bool outside_index_of(index_view *iv, const ex_node *red, sz index, outside_index *x) {
  ctx *c = iv->c;
  *x = (outside_index){.at = view_resolve(iv, index)};
  sym_atoms(c, x->at, AT_VAR, iv->a, &x->vars);
  return x->vars.n >= 2 && !sym_uses_kind(c, x->at, AT_DATA) && one_of(red, &x->vars, &x->var) &&
         sym_linear(c, x->at, x->var, &x->coef, &x->rest) && sym_is_int(c, x->coef, &x->k) && x->k >= 1 &&
         sym_is_int(c, sym_extent(c, x->var), &x->ext);
}
void outside_variables(index_view *iv, const ex_node *red, u32vec *all, u32vec *worth) {
  u32vec fs = {0};
  outside_index x;
  if (red->kind != EX_REDUCE || red->op != RED_SUM || red->nargs < 2) return;
  outside_factors(iv, red, &fs);
  for (uint32_t i = 0; i < fs.n; i++) {
    const ex_node *f = exn(iv->m, fs.v[i]);
    for (uint32_t d = 0; d < f->nargs; d++) {
      if (!outside_index_of(iv, red, f->args[d], &x) || x.ext < 2) continue;
      if (!vec_has(all, x.var)) vec_push(iv->a, *all, x.var);
      if (cost_bound_pays(x.k * (x.ext - 1), expr_typical(iv->m, xt(iv->m, f->tensor)->shape[d])) &&
          !vec_has(worth, x.var))
        vec_push(iv->a, *worth, x.var);
    }
  }
}
/* The values of its variable for which an index is inside: they go to e->ranges. several: the tile has several values
 * of row2, of which the first row has the least. asks: it is not known that the halo holds what is read outside. */
static void outside_range(ectx *e, const outside_index *x, sz size, bool several, bool asks) {
  ctx *c = e->c;
  const lv zero = lb_int(&e->b, 0), end = lb_int(&e->b, x->ext);
  var_range r = {.var = x->var};
  if (asks) r.facts[0] = x->at, r.facts[1] = sym_addi(c, sym_sub(c, size, x->at), -1);
  e->r = several ? e->mr - 1 : 0;
  const lv from = emit_size(e, sym_ceildiv(c, sym_neg(c, x->rest), x->coef));
  e->r = 0;
  const lv to = emit_size(e, sym_addi(c, sym_div(c, sym_addi(c, sym_sub(c, size, x->rest), -1), x->coef),
                                      1 - EK_PLANTED("schedule-outside")));
  r.lo = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_op(&e->b, OP_MAX, lt(ET_I64, 1), from, zero, 0), end, 0);
  r.hi = lb_op(&e->b, OP_MAX, lt(ET_I64, 1), lb_op(&e->b, OP_MIN, lt(ET_I64, 1), to, end, 0), zero, 0);
  vec_push(e->a, e->ranges, r);
}
void outside_bounds(ectx *e, const nest *n, const ex_node *red, atom unrolled) {
  u32vec fs = {0};
  ctx *c = e->c;
  if (e->p->level == 0) return;
  outside_factors(&e->view, red, &fs);
  for (uint32_t i = 0; i < fs.n; i++) {
    const ex_node *f = exn(e->m, fs.v[i]);
    for (uint32_t d = 0; d < f->nargs; d++) {
      const sz size = xt(e->m, f->tensor)->shape[d];
      outside_index x;
      sz coef;
      int64_t k;
      if (!outside_index_of(&e->view, red, f->args[d], &x) || vec_has(&x.vars, e->row) || vec_has(&x.vars, e->lane))
        continue;
      const bool several = vec_has(&x.vars, e->row2);
      if (several &&
          (e->row_fold > 1 || !sym_linear(c, x.at, e->row2, &coef, NULL) || !sym_is_int(c, coef, &k) || k < 1))
        continue;
      const bool asks = x.var != unrolled && !view_in_range(c, view_halo(&e->view, fs.v[i]), d, x.at, size);
      if (asks ? !several : vec_has(&n->bounds, x.var)) outside_range(e, &x, size, several, asks);
    }
  }
}
bool open_condition(ectx *e, const ex_node *red) {
  u32vec parts = {0};
  lv all = 0;
  if (!red->where || e->p->level == 0) return false;
  expr_operands(e->m, red->where, OP_AND, e->a, &parts);
  for (uint32_t i = 0; i < parts.n; i++) {
    u32vec vars = {0};
    atom v;
    var_range k = {0};
    expr_vars(e->m, parts.v[i], e->a, &vars);
    if (!emit_scalar(e, parts.v[i])) continue;
    uint32_t own = 0;
    for (uint32_t j = 0; j < vars.n; j++) own += one_of(red, &(u32vec){.v = &vars.v[j], .n = 1}, &v);
    if (own == 0) {
      lv x = emit_value(e, parts.v[i]).v;
      all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, x, 0) : x;
    } else if (bound_of(e, red, parts.v[i], &vars, &k))
      vec_push(e->a, e->ranges, k);
  }
  if (!all) return false;
  lb_if(&e->b, all);
  emit_scope(e);
  return true;
}

/* ---- ranges ---------------------------------------------------------------------------------- */
/* The least (most) that a bound is over the values of these variables; false: it is not linear in them. */
static bool extreme(ectx *e, sz bound, const var_spans *of, bool most, lv *out) {
  lv sum = lb_int(&e->b, 0);
  bound = view_resolve(&e->view, bound);
  for (uint32_t i = 0; i < of->n; i++) {
    sz coef, rest;
    int64_t k;
    if (!address_uses(&e->view, bound, of->v[i].var)) continue;
    if (!sym_linear(e->c, bound, of->v[i].var, &coef, &rest) || !sym_is_int(e->c, coef, &k) ||
        address_uses(&e->view, rest, of->v[i].var))
      return false;
    bound = rest;
    sum = lb_add(&e->b, sum, lb_muli(&e->b, (k > 0) == most ? of->v[i].last : of->v[i].first, k));
  }
  *out = lb_add(&e->b, sum, emit_size(e, bound));
  return true;
}
/* Has every place of these a value inside? */
static bool inhabited(ectx *e, const sz *lo, uint32_t nlo, const sz *hi, uint32_t nhi, const var_spans *of, lv *out) {
  lv x;
  *out = 0;
  for (uint32_t i = 0; i < nlo; i++)
    for (uint32_t j = 0; j < nhi; j++) {
      if (!extreme(e, sym_sub(e->c, hi[j], lo[i]), of, false, &x)) return false;
      x = lb_cmp(&e->b, OP_GT, x, lb_int(&e->b, 0));
      *out = *out ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), *out, x, 0) : x;
    }
  return true;
}
bool range_of(ectx *e, atom var, const var_spans *of, int64_t unit, lv *lo, lv *hi) {
  const xrange *r = expr_range(e->m, var);
  lbuild *b = &e->b;
  ltype i64 = lt(ET_I64, 1);
  if (!r || e->p->level == 0) return false;
  sz from[RANGE_PARTS + 1], to[RANGE_PARTS + 1], ext = sym_extent(e->c, var);
  uint32_t nfrom = expr_range_parts(e->c, r->lo, true, from), nto = expr_range_parts(e->c, r->hi, false, to);
  lv zero = lb_int(b, 0), end = emit_size(e, ext), some = 0, x;
  bool any = false;
  *lo = zero, *hi = end;
  for (uint32_t i = 0; i < nfrom; i++)
    if (extreme(e, from[i], of, false, &x))
      *lo = lb_op(b, OP_MAX, i64, *lo, x, 0), any |= !sym_is_int(e->c, from[i], NULL);
    else if (r->all)
      return false;
  for (uint32_t i = 0; i < nto; i++)
    if (extreme(e, to[i], of, !EK_PLANTED("schedule-range"), &x))
      *hi = lb_op(b, OP_MIN, i64, *hi, x, 0), any |= to[i] != ext;
    else if (r->all)
      return false;
  if (!any && sym_int_or(e->c, r->lo, 0) == 0) return false;
  from[nfrom++] = sym_int(e->c, 0), to[nto++] = ext;
  if (r->all && !inhabited(e, from, nfrom, to, nto, of, &some)) return false;
  *hi = lb_op(b, OP_MAX, i64, *hi, zero, 0), *lo = lb_op(b, OP_MIN, i64, *lo, *hi, 0);
  if (some) *lo = lb_op(b, OP_SEL, i64, some, *lo, zero), *hi = lb_op(b, OP_SEL, i64, some, *hi, end);
  lv u = lb_int(b, unit);
  *lo = lb_muli(b, lb_op(b, OP_IDIV, i64, *lo, u, 0), unit);
  *hi = lb_muli(b, lb_op(b, OP_IDIV, i64, lb_addi(b, *hi, unit - 1), u, 0), unit);
  *hi = lb_op(b, OP_MIN, i64, *hi, end, 0);
  return true;
}
bool has_ranges(const ectx *e, const ex_node *red) {
  for (uint32_t i = 0; i < red->nargs; i++)
    if (expr_range(e->m, red->args[i])) return true;
  return false;
}
void range_bounds(ectx *e, const ex_node *red, const var_spans *of, int64_t unit, atom unrolled) {
  for (uint32_t i = 0; i < red->nargs; i++) {
    var_range r = {.var = red->args[i]};
    if (r.var != unrolled && range_of(e, r.var, of, unit, &r.lo, &r.hi)) vec_push(e->a, e->ranges, r);
  }
}
void range_span(ectx *e, var_spans *of, const nvar *v) {
  if (!v->var) return;
  var_span r = {v->var, v->lo ? v->lo : lb_int(&e->b, 0), v->hi ? v->hi : emit_size(e, v->extent)};
  r.last = lb_addi(&e->b, r.last, -1);
  vec_push(e->a, *of, r);
}
bool bounded(ectx *e, atom var, lv *lo, lv *hi) {
  bool any = false;
  for (uint32_t i = 0; i < e->ranges.n; i++)
    if (e->ranges.v[i].var == var) {
      *lo = lb_op(&e->b, OP_MAX, lt(ET_I64, 1), *lo, e->ranges.v[i].lo, 0);
      *hi = lb_op(&e->b, OP_MAX, lt(ET_I64, 1), lb_op(&e->b, OP_MIN, lt(ET_I64, 1), *hi, e->ranges.v[i].hi, 0), *lo, 0);
      any = true;
    }
  return any;
}
