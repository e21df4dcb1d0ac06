/* The greatest or least of values that are kept in bytes: the byte of the greatest value is the greatest byte.
 *
 * A pooling window, or a reduction over an axis, of whole values of which there are at most 256 reads bytes and
 * compares bytes: a quarter of the memory, and four times as many in a vector. Outside of the tensor, where an infinite
 * value stands that never counts, stands the least (greatest) byte instead, which never counts either as long as
 * something in the tensor is read at every point. */
#include "passes/interval.h"
#include "passes/keep.h"
#include <math.h>

/* Does one of the values that i takes for values of v lie in 0..n-1, whatever the other variables are? */
static bool inside_once(ctx *c, sz i, atom v, sz n) {
  int64_t values;
  if (!sym_is_int(c, sym_extent(c, v), &values)) return false;
  for (int64_t x = 0; x < values; x++)
    if (in_range(c, sym_replace(c, i, v, sym_int(c, x)), n)) return true;
  return false;
}
/* Is an element of the tensor read at every point of the stage? Each index may depend on one variable of the
 * reduction, each of them on another one. */
static bool reads_inside(pw *p, const ex_node *red, const ex_node *load) {
  ctx *c = p->c;
  u32vec used = {0};
  for (uint32_t i = 0; i < load->nargs; i++) {
    const sz n = xt(p->m, load->tensor)->shape[i];
    atom by = 0;
    for (uint32_t k = 0; k < red->nargs; k++) {
      if (!sym_uses(c, load->args[i], red->args[k])) continue;
      if (by || vec_has(&used, red->args[k])) return false;
      by = red->args[k];
    }
    if (by) vec_push(p->a, used, by);
    if (by ? !inside_once(c, load->args[i], by, n) : !in_range(c, load->args[i], n)) return false;
  }
  return true;
}
/* Stage s as the extreme of what it reads alone, and how the values are kept; false: it is something else */
static bool find(keeper *k, uint32_t s, ex_node *red, ex_node *load, coding *as) {
  emodule *m = k->m;
  if (!stage_is_reduce(k->p, s) || xs(m, s)->recurrence) return false;
  *red = *exn(m, xs(m, s)->value), *load = *exn(m, red->body);
  if ((red->op != RED_MAX && red->op != RED_MIN) || red->where || load->kind != EX_LOAD || load->type != ET_F32)
    return false;
  const interval v = interval_of(k->p, expr_load(m, load->tensor, load->args, load->nargs, 0));
  if (!v.known || !v.whole || v.hi - v.lo > 255) return false;
  const ex_node *outside = load->otherwise ? exn(m, load->otherwise) : NULL;
  if (outside && (outside->kind != EX_CONST || outside->k.f != (red->op == RED_MAX ? -HUGE_VAL : HUGE_VAL) ||
                  !reads_inside(k->p, red, load)))
    return false;
  const tid has = kept(k, load->tensor);
  if (has) *as = kept_form(k, has);
  if (!has) *as = (coding){ET_U8, v.lo >= 0 && v.hi <= 255 ? 0 : (int64_t)v.lo};
  return as->type != ET_BF16 && (has || keep_can(k, load->tensor, *as));
}
bool extremes_kept(keeper *k, const u32vec *order) {
  emodule *m = k->m;
  pw *p = k->p;
  bool any = false;
  for (uint32_t i = 0; i < order->n; i++) {
    const uint32_t s = order->v[i];
    ex_node red, load;
    coding as;
    if (!find(k, s, &red, &load, &as) || !pass_spend(p)) continue;
    keep_stage(k, load.tensor, as);
    const bool top = red.op == RED_MAX;
    const int64_t last = top == !EK_PLANTED("extremes") ? code_first(as.type) : code_last(as.type);
    const ex outside = load.otherwise ? expr_i(m, as.type, last) : 0;
    const ex code = expr_load(m, kept(k, load.tensor), load.args, load.nargs, outside);
    const ex most = expr_reduce(m, (rop)red.op, red.args, red.nargs, 0, code, 0, as.type, as.type);
    pass_set(p, s, keep_value(m, pass_stage_own(p, s, most, top ? "max" : "min"), ET_F32, as));
    any = true;
  }
  return any;
}
