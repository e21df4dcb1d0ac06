/* What does a reduction's condition leave out as a whole?
 *
 * A part of it that no variable of the reduction occurs in is asked once, before the loops; a bound on one variable alone (k <= p) ends its loop there. Only for tiles for all of whose points that is the same.
 */
#include "schedule/nest.h"

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
  if (n->kind != EX_OP || n->op != OP_GE || exn(e->m, n->args[0])->kind != EX_INDEX || exn(e->m, n->args[1])->kind != EX_CONST || exn(e->m, n->args[1])->k.i != 0 || !one_of(red, vars, &out->var)) return false;
  if (!sym_linear(e->c, exn(e->m, n->args[0])->index, out->var, &coef, &rest) || !sym_is_int(e->c, coef, &k) || (k != 1 && k != -1)) return false;
  lv at = emit_size(e, k == 1 ? sym_neg(e->c, rest) : sym_addi(e->c, rest, 1 - EK_PLANTED("schedule-bound"))), zero = lb_int(&e->b, 0), end = emit_size(e, sym_extent(e->c, out->var));
  out->lo = k == 1 ? lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_op(&e->b, OP_MAX, lt(ET_I64, 1), at, zero, 0), end, 0) : zero;
  out->hi = k == 1 ? end : lb_op(&e->b, OP_MAX, lt(ET_I64, 1), lb_op(&e->b, OP_MIN, lt(ET_I64, 1), at, end, 0), zero, 0);
  return true;
}
bool open_condition(ectx *e, const ex_node *red) {
  u32vec parts = {0};
  lv all = 0;
  if (!red->where || e->p->level == 0) return false;
  expr_operands(e->m, red->where, OP_AND, e->a, &parts);
  for (uint32_t i = 0; i < parts.n; i++) {
    u32vec vars = {0};
    atom v;
    var_range k;
    expr_vars(e->m, parts.v[i], e->a, &vars);
    if (!emit_scalar(e, parts.v[i])) continue;
    uint32_t own = 0;
    for (uint32_t j = 0; j < vars.n; j++) own += one_of(red, &(u32vec){.v = &vars.v[j], .n = 1}, &v);
    if (own == 0) {
      lv x = emit_value(e, parts.v[i]).v;
      all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, x, 0) : x;
    } else if (bound_of(e, red, parts.v[i], &vars, &k)) vec_push(e->a, e->ranges, k);
  }
  if (!all) return false;
  lb_if(&e->b, all);
  emit_scope(e);
  return true;
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
