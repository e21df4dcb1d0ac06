/* Which nests are there in two versions?
 *
 * A quotient by an open size is a division at every place, and often it is 0 for all sizes but the smallest: the period
 * of a reflection is longer than what is reflected. Then there are two versions of the nest behind one test of the
 * sizes: one in which these quotients are known to be 0, with all that follows for the addresses, and one in general.
 * Not of a nest of one point, whose values stay in registers for the nests that follow.
 */
#include "schedule/kernel_in.h"

static bool large(void *env, atom a, int64_t *v) { /* Gives any open size a large value. */
  ctx *c = env;
  int64_t lo;
  if (sym_kind(c, a) != AT_SYMBOL) return false;
  sym_range(c, sym_of_atom(c, a), &lo, v);
  *v = min64(*v, LARGE_EXTENT);
  return true;
}
static void quotient(kctx *k, atom q, conditions *out) {
  ctx *c = k->c;
  sz g[3], coef, rest;
  u32vec vars = {0};
  int64_t at;
  sym_args(c, q, g);
  if (sym_is_int(c, g[1], NULL) || sym_uses_kind(c, g[1], AT_VAR) || sym_uses_kind(c, g[0], AT_DATA) ||
      sym_uses_kind(c, g[1], AT_DATA) || !sym_ge0(c, g[0]))
    return;
  sym_atoms(c, g[0], AT_VAR, k->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++) { /* the greatest dividend */
    if (!sym_linear(c, g[0], vars.v[i], &coef, &rest) || !sym_ge0(c, coef)) return;
    g[0] = sym_add(c, rest, sym_mul(c, coef, sym_addi(c, sym_extent(c, vars.v[i]), -1)));
  }
  sz cond = sym_addi(c, sym_sub(c, g[1], g[0]), -1);
  for (uint32_t i = 0; i < out->n; i++)
    if (out->v[i].if_ge0 == cond) return;
  if (vars.n) vec_push(k->a, *out, ((condition){cond, sym_eval(c, cond, large, c, &at) && at >= 0}));
}
void kernel_quotients(kctx *k, const u32vec *group, conditions *out) {
  for (uint32_t i = 0; i < group->n; i++) {
    u32vec loads = schedule_loads(k->p, group->v[i]), qs = {0};
    for (uint32_t j = 0; j < loads.n; j++) {
      const ex_node *n = exn(k->m, loads.v[j]);
      for (uint32_t x = 0; x < n->nargs; x++) sym_atoms(k->c, n->args[x], AT_DIV, k->a, &qs);
    }
    for (uint32_t j = 0; j < qs.n; j++) quotient(k, qs.v[j], out);
  }
}
void kernel_emit(kctx *k, nest *n) {
  ectx *e = &k->e;
  kernel_finish(k, n);
  kernel_record_nest(k, n);
  lv all = 0;
  uint32_t mark = sym_mark(k->c);
  for (uint32_t i = 0; i < n->versions.n; i++) {
    lv yes = lb_cmp(&e->b, OP_GE, emit_size(e, n->versions.v[i]),
                    lb_int(&e->b, EK_PLANTED("schedule-quotients") ? INT16_MIN : 0));
    all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, yes, 0) : yes;
  }
  if (all) {
    lb_if(&e->b, all);
    emit_scope(e);
    for (uint32_t i = 0; i < n->versions.n; i++) sym_push(k->c, n->versions.v[i]);
    e->view.assumed = true;
    nest_emit(e, n);
    e->view.assumed = false;
    sym_pop(k->c, mark);
    emit_unscope(e);
    lb_else(&e->b);
    emit_scope(e);
    emit_epoch(e);
  }
  nest_emit(e, n);
  if (all) {
    emit_unscope(e);
    lb_end(&e->b);
  }
}
