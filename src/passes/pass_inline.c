/* Which element-wise stages can be part of their reader?
 *
 * A stage without reductions that is read by one access of one element-wise stage of the same block, over no more
 * points than it has itself, is substituted there: nothing is computed twice. So is one that converts a state to a
 * wider type, into a sum, however often the sum reads an element: a cache of keys in bytes is long, a run changes
 * little of it, and a copy of all of it in floats would be written and read in each run.
 *
 * A stage that several element-wise stages read is substituted in all of them where that is one tensor less to store:
 * they read anyway what it is computed from, or something else does, and it is a sum or product with a number; and the
 * operations cost no more than the way through memory. So x/2 is not kept for a gradient beside x. Where much is
 * computed between two readers that way is long, and erf(x) is not kept, either.
 *
 * Producers come first, so a chain collapses in one walk. Stages that grow beyond MAX_SIZE nodes stop taking more
 * (walks stay linear and recursion bounded). Needs simplified values; keeps everything.
 */
#include "cost/cost.h"
#include "passes/pass.h"
#include <string.h>

enum { MAX_SIZE = 400 };

static uint32_t count_nodes(pw *p, ex e, map *seen, uint32_t limit) {
  uint64_t x;
  if (!e || map_count(seen) > limit || map_getu(seen, e, &x)) return map_count(seen);
  map_putu(seen, e, 1);
  ex_node n = *exn(p->m, e);
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) count_nodes(p, n.args[i], seen, limit);
  if (n.kind == EX_LOAD) count_nodes(p, n.otherwise, seen, limit);
  return map_count(seen);
}
/* the one access of stage s to tensor t, 0 if there are several */
static ex only_access(pw *p, uint32_t s, tid t) {
  ex one = 0;
  const u32vec *l = stage_loads(p, s);
  for (uint32_t i = 0; i < l->n; i++)
    if (exn(p->m, l->v[i])->tensor == t) {
      if (one) return 0;
      one = l->v[i];
    }
  return one;
}
static bool no_more_points(pw *p, uint32_t reader, uint32_t producer) {
  sz a = stage_points(p->m, reader), b = stage_points(p->m, producer);
  return sym_le(p->c, a, b) || expr_typical(p->m, a) <= expr_typical(p->m, b);
}
/* Or is a state this tensor with other axes? */
static bool is_state(const emodule *m, tid t) {
  for (uint32_t i = 0; i < m->states.n; i++) {
    const tid out = expr_state_out(m, i);
    const ex_node *v = xt(m, out)->kind == TK_STAGE ? exn(m, xs(m, xt(m, out)->stage)->value) : NULL;
    if (expr_state_in(m, i) == t || out == t || (v && v->kind == EX_LOAD && v->tensor == t)) return true;
  }
  return false;
}
/* Is the stage a state's elements in a wider type, and constants, and does a sum read it? */
static bool widens_state(pw *p, uint32_t s, uint32_t reader) {
  emodule *m = p->m;
  const u32vec *l = stage_loads(p, s);
  uint32_t states = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const tensor *t = xt(m, exn(m, l->v[i])->tensor);
    if (t->kind == TK_CONST) continue;
    if (!is_state(m, exn(m, l->v[i])->tensor) || et_bytes(t->type) >= et_bytes(xt(m, xs(m, s)->tensor)->type))
      return false;
    states++;
  }
  return states == 1 && stage_is_reduce(p, reader) && exn(m, xs(m, reader)->value)->op == RED_SUM;
}
/* c ? 1 : 0, or a number made of c, where c is an equality of integers */
static bool is_delta(emodule *m, ex e) {
  ex_node n = *exn(m, e);
  if (n.kind != EX_OP || (n.op != OP_CAST && n.op != OP_SEL)) return false;
  ex_node q = *exn(m, n.args[0]);
  return q.kind == EX_OP && q.op == OP_EQ && exn(m, q.args[0])->type == ET_I64;
}
/* A Kronecker delta that a reduction reads: substituted if that removes a variable of the reduction (the simplifier
 * solves the equality). */
static bool inline_delta(pw *p, uint32_t s, uint32_t r) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  ex l = only_access(p, r, x->tensor), old = xs(m, r)->value;
  if (!l || exn(m, l)->otherwise || !stage_is_reduce(p, r) || xs(m, r)->recurrence || !is_delta(m, x->value))
    return false;
  const uint32_t before = exn(m, old)->nargs;
  const ex value = stage_value_at(p, s, exn(m, l)->args, NULL, NULL);
  if (!value || !pass_spend(p)) return false;
  map *rep = map_new(p->a);
  map_putu(rep, l, value);
  stage_replace(p, r, rep);
  ex_node n = *exn(m, xs(m, r)->value);
  if (n.kind != EX_REDUCE || n.nargs < before) return true;
  pass_set(p, r, old);
  return false;
}
/* Is it x + c, x * c or -x, where c is a number? */
static bool is_linear(const emodule *m, ex e) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_OP || (n->op != OP_ADD && n->op != OP_SUB && n->op != OP_MUL && n->op != OP_NEG)) return false;
  for (uint32_t i = 0, loads = 0; i < n->nargs; i++) {
    const ex_kind kind = exn(m, n->args[i])->kind;
    if (kind != EX_CONST && (kind != EX_LOAD || loads++)) return false;
  }
  return true;
}
/* Does something else than stage s read what it reads? */
static bool reads_kept(pw *p, uint32_t s) {
  const u32vec *l = stage_loads(p, s);
  for (uint32_t i = 0; i < l->n; i++)
    if (p->readers.v[exn(p->m, l->v[i])->tensor].n < 2) return false;
  return l->n > 0;
}
/* Does stage r read all that the value reads, at the same places? */
static bool reads_all(pw *p, uint32_t r, ex value) {
  u32vec l = {0};
  expr_loads(p->m, value, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++)
    if (!vec_has(stage_loads(p, r), l.v[i])) return false;
  return true;
}
/* Per stage: bytes of what is computed before it. */
static int64_t *bytes_before(pw *p, const u32vec *order) {
  int64_t *before = NEWN(p->a, int64_t, p->m->stages.n + 1), sum = 0;
  for (uint32_t i = 0; i < order->n; i++) {
    const uint32_t s = order->v[i];
    before[s] = sum;
    sum = min64(SAT64, sum + sat_mul64(expr_typical(p->m, stage_points(p->m, s)),
                                       et_bytes(xt(p->m, xs(p->m, s)->tensor)->type)));
  }
  return before;
}
/* Bytes that are computed from the first to the last of these stages. */
static int64_t bytes_between(const int64_t *before, const u32vec *stages) {
  int64_t first = INT64_MAX, last = 0;
  for (uint32_t i = 0; i < stages->n; i++)
    first = min64(first, before[stages->v[i]]), last = max64(last, before[stages->v[i]]);
  return last - first;
}
static bool inline_in_all(pw *p, uint32_t s, const int64_t *before) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  u32vec readers = p->readers.v[x->tensor];
  const int64_t cost = (int64_t)expr_cost(m, x->value), size = et_bytes(xt(m, x->tensor)->type),
                again = sat_mul64(cost, readers.n - 1);
  const double cycles = (double)(again * size) / (et_bytes(ET_F32) * p->lanes * p->fma);
  const bool anywhere = is_linear(m, x->value) && reads_kept(p, s);
  ex *loads = NEWN(p->a, ex, readers.n + 1), *values = NEWN(p->a, ex, readers.n + 1);
  if (p->pinned.v[x->tensor] || readers.n < 2 ||
      (!cost_repeats(p->t, false, expr_typical(m, stage_points(m, s)), size, again) &&
       !cost_repeats_far(p->t, bytes_between(before, &readers), size, cycles)))
    return false;
  readers.v = arena_dup(p->a, readers.v, readers.n * sizeof *readers.v); /* the list changes with each substitution */
  for (uint32_t i = 0; i < readers.n; i++) {
    const uint32_t r = readers.v[i];
    const stage *y = xs(m, r);
    loads[i] = only_access(p, r, x->tensor);
    if (!loads[i] || exn(m, loads[i])->otherwise || y->recurrence || y->block != x->block || !stage_plain(p, r) ||
        !no_more_points(p, r, s) || count_nodes(p, y->value, map_new(p->a), MAX_SIZE) + (uint32_t)cost > MAX_SIZE)
      return false;
    values[i] = stage_value_at(p, s, exn(m, loads[i])->args, NULL, NULL);
    if (!values[i] || !(anywhere || reads_all(p, r, values[i]) || EK_PLANTED("inline-shared"))) return false;
  }
  if (!pass_spend(p)) return false;
  for (uint32_t i = 0; i < readers.n; i++) {
    map *rep = map_new(p->a);
    map_putu(rep, loads[i], values[i]);
    stage_replace(p, readers.v[i], rep);
  }
  pass_kill(p, s);
  return true;
}
bool pass_inline(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  uint32_t *size = NEWN(p->a, uint32_t, m->stages.n + 1);
  const int64_t *before = bytes_before(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    const stage *x = xs(m, s);
    if (x->dead || x->recurrence || !stage_plain(p, s)) continue;
    for (uint32_t k = 0; k < p->readers.v[x->tensor].n; k++)
      if (inline_delta(p, s, p->readers.v[x->tensor].v[k])) any = true, k--; /* that reader is gone from the list */
    any |= inline_in_all(p, s, before);
    if (x->dead || p->pinned.v[x->tensor] || p->readers.v[x->tensor].n != 1) continue;
    uint32_t r = p->readers.v[x->tensor].v[0];
    const stage *y = xs(m, r);
    ex l = only_access(p, r, x->tensor);
    if (!l || y->recurrence || y->block != x->block || (exn(m, l)->otherwise && !EK_PLANTED("inline")) ||
        !((stage_plain(p, r) && no_more_points(p, r, s)) || widens_state(p, s, r)))
      continue;
    if (!size[s]) size[s] = count_nodes(p, x->value, map_new(p->a), MAX_SIZE);
    if (!size[r]) size[r] = count_nodes(p, y->value, map_new(p->a), MAX_SIZE);
    if (size[s] + size[r] > MAX_SIZE) {
      pass_remark(p, "inline", s, r + 1, "expression too large");
      continue;
    }
    atom sv;
    sz si;
    const ex value = stage_value_at(p, s, exn(m, l)->args, &sv, &si);
    if (!value) {
      if (!sv || !can_split(p, r, sv, si)) {
        pass_remark(p, "inline", s, r + 1, "digits");
        continue;
      }
      if (!pass_spend(p)) break;
      stage_split(p, r, sv, si), any = true, i--; /* tries the read again, with the split reader */
      continue;
    }
    if (!pass_spend(p)) break;
    map *rep = map_new(p->a);
    map_putu(rep, l, value);
    stage_replace(p, r, rep);
    size[r] += size[s];
    pass_kill(p, s);
    any = true;
  }
  if (any) pass_flush(p);
  return any;
}
