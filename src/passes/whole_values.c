/* What is simpler about floats that are whole numbers? Between two sums of a quantised model values are scaled,
 * rounded, moved by zero points and clamped, often several times over. Of whole numbers, which are exact while they are
 * small, and of values that are known to be numbers in an interval, some of that can be left out; of floats in general
 * it cannot. */
#include "passes/interval.h"
#include "passes/keep.h"
#include <math.h>

static const double EXACT = 0x1p20; /* up to here sums and products by 1 of whole floats of f32 are whole */
/* w * c / c, rounded, is the whole number w: both operations together err by less than a half. */
static ex scaled_and_back(pw *p, const ex_node *n) {
  emodule *m = p->m;
  const ex_node *by = exn(m, n->args[0]), *up = by->kind == EX_OP && by->op == OP_DIV ? exn(m, by->args[0]) : NULL;
  if (!up || up->kind != EX_OP || up->op != OP_MUL || up->args[1] != by->args[1] ||
      exn(m, by->args[1])->kind != EX_CONST)
    return 0;
  const interval w = interval_of(p, up->args[0]);
  const double c = fabs(exn(m, by->args[1])->k.f);
  return w.known && w.whole && fmax(fabs(w.lo), fabs(w.hi)) <= EXACT && c > 0x1p-60 && c < 0x1p60 ? up->args[0] : 0;
}
/* A whole float that becomes a byte and a float again is the float clamped. */
static ex clamped(pw *p, const ex_node *n) {
  emodule *m = p->m;
  const ex_node s = *exn(m, n->args[0]);
  const etype t = (etype)n->type;
  if (s.kind != EX_OP || s.op != OP_SAT || (s.type != ET_U8 && s.type != ET_I8) || exn(m, s.args[0])->type != t)
    return 0;
  const interval v = interval_of(p, s.args[0]);
  const bool positive = s.type == ET_U8;
  if (!v.known || !v.whole) return 0;
  const ex low = expr_op2(m, OP_MAX, s.args[0], expr_f(m, t, positive ? 0 : -128));
  return expr_op2(m, OP_MIN, low, expr_f(m, t, positive ? 255 : EK_PLANTED("whole-values") ? 126 : 127));
}
/* (w + a) + b of a whole w and whole constants is w + (a + b). */
static ex moved_twice(pw *p, ex e, const ex_node *n) {
  emodule *m = p->m;
  double by = 0;
  ex x = e;
  for (const ex_node *v = n; v->kind == EX_OP && (v->op == OP_ADD || v->op == OP_SUB); v = exn(m, x)) {
    const ex_node *c = exn(m, v->args[1]);
    if (c->kind != EX_CONST || c->k.f != trunc(c->k.f)) break;
    by += v->op == OP_ADD ? c->k.f : -c->k.f, x = v->args[0];
  }
  const interval w = x == e || x == n->args[0] ? (interval){0} : interval_of(p, x);
  if (!w.known || !w.whole || fmax(fabs(w.lo), fabs(w.hi)) + fabs(by) > EXACT) return 0;
  return by ? expr_op2(m, OP_ADD, x, expr_f(m, (etype)n->type, by)) : x;
}
/* What is never below (above) a constant need not be held there. */
static ex held_anyway(pw *p, const ex_node *n) {
  const ex_node *c = exn(p->m, n->args[1]);
  if (c->kind != EX_CONST) return 0;
  const interval v = interval_of(p, n->args[0]);
  return v.known && (n->op == OP_MAX ? v.lo >= c->k.f : v.hi <= c->k.f) ? n->args[0] : 0;
}
static ex between_sums(void *env, emodule *m, ex e) {
  const ex_node n = *exn(m, e);
  ex r = 0;
  if (n.kind != EX_OP || n.type != ET_F32) return e;
  if (n.op == OP_ROUND_EVEN) r = scaled_and_back(env, &n);
  if (n.op == OP_CAST) r = clamped(env, &n);
  if (n.op == OP_MAX || n.op == OP_MIN) r = held_anyway(env, &n);
  if (n.op == OP_ADD || n.op == OP_SUB) r = moved_twice(env, e, &n);
  return r ? r : e;
}
void whole_values(pw *p, const u32vec *order) {
  emodule *m = p->m;
  for (uint32_t i = 0; i < order->n; i++) {
    const stage *s = xs(m, order->v[i]);
    if (!s->value || s->dead) continue;
    const ex v = expr_rewrite(m, s->value, &(ex_map){.node = between_sums, .env = p});
    if (v != s->value) pass_set(p, order->v[i], simplify(p, v));
  }
}
