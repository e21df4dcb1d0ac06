/* Which divisions are products?
 *
 * Division takes about ten times as long as multiplication. Where the divisor is the same for many values (a
 * constant, the sum of a row) x / d becomes x * (1 / d), and 1 / d is computed once for all of them, since what
 * does not depend on a loop leaves it. A divisor that runs along the lanes, such as the deviation of each channel,
 * leaves no loop: 1 / d becomes a stage. That errs by one rounding more, and so must not decide anything: what is
 * rounded to a whole number afterwards, or becomes an index, here or in a later stage, keeps its division.
 * The other way round x * (1 / d), as x * sigmoid(x) is written, needs no product.
 * Needs inline; keeps everything.
 */
#include "cost/cost.h"
#include "fusion/fusion.h"
#include "passes/pass.h"

enum { MIN_VALUES = 8 }; /* values per divisor */

typedef struct quotients {
  pw *p;               /* the run of passes */
  const atom *lanes;   /* per stage: its variable that runs along the lanes (expr_lanes) */
  uint32_t stage;      /* the stage being looked at */
  arena *a;            /* memory for one stage */
  uint8_t *exact;      /* per tensor: hands values on to a rounding */
  map *seen[2], *kept; /* nodes looked at, outside and below a rounding; nodes below one */
  map *uses;           /* how many nodes use a node */
  map *made;           /* 1 / d -> load of the stage that computes it */
} quotients;

static void look(quotients *q, ex e, bool exact);
static void look_index(quotients *q, sz x) {
  u32vec data = {0};
  if (!sym_uses_kind(q->p->c, x, AT_DATA)) return;
  sym_atoms(q->p->c, x, AT_DATA, q->a, &data);
  for (uint32_t i = 0; i < data.n; i++) look(q, sym_data_id(q->p->c, data.v[i]), true);
}
static void look(quotients *q, ex e, bool exact) {
  uint64_t had;
  if (!e || map_getu(q->seen[exact], e, &had)) return;
  map_putu(q->seen[exact], e, 1);
  if (exact) map_putu(q->kept, e, 1);
  const ex_node n = *exn(q->p->m, e);
  if (n.kind == EX_INDEX) look_index(q, n.index);
  if (n.kind == EX_LOAD) {
    if (exact) q->exact[n.tensor] = 1;
    for (uint32_t i = 0; i < n.nargs; i++) look_index(q, n.args[i]);
    look(q, n.otherwise, exact);
  }
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) {
      had = 0;
      map_getu(q->uses, n.args[i], &had), map_putu(q->uses, n.args[i], had + 1);
      look(q, n.args[i], exact || ex_rounds(&n));
    }
  if (n.kind == EX_REDUCE) look(q, n.where, exact), look(q, n.body, exact), look(q, n.payload, exact);
}
/* Values of x for each of `by`. */
static int64_t values_for(quotients *q, ex x, ex by) {
  u32vec over = {0}, under = {0}, rest = {0};
  expr_vars(q->p->m, x, q->a, &over);
  expr_vars(q->p->m, by, q->a, &under);
  for (uint32_t i = 0; i < over.n; i++)
    if (!vec_has(&under, over.v[i])) vec_push(q->a, rest, over.v[i]);
  return typical_points(q->p->m, &rest);
}
static bool shared(quotients *q, ex x, ex by) { return values_for(q, x, by) >= MIN_VALUES; }
/* 1 / d, which x is multiplied by: a load of a stage that computes it, where what is divided leaves the nearest cache,
 * or as it is. */
static ex invert_once(quotients *q, ex x, ex inverse) {
  pw *p = q->p;
  const ex by = exn(p->m, inverse)->args[1];
  u32vec vars = {0};
  uint64_t made;
  ex load;
  if (map_getu(q->made, inverse, &made)) return (ex)made;
  expr_vars(p->m, by, q->a, &vars);
  const int64_t points = sat_mul64(values_for(q, x, by), typical_points(p->m, &vars));
  if (xs(p->m, q->stage)->recurrence || !vec_has(&vars, q->lanes[q->stage]) || vars.n > MAX_RANK ||
      cost_fits_l1(p->t, sat_mul64(points, et_bytes((etype)exn(p->m, inverse)->type))) || !loads_in_range(p, by) ||
      !pass_spend(p))
    return inverse;
  pass_stage_over(p, q->stage, vars.v, vars.n, inverse, "inverse", &load);
  map_putu(q->made, inverse, load);
  return load;
}
/* x * (1 / d), nothing else wanting 1 / d, is x / d. */
static ex quotient(quotients *q, emodule *m, ex e, const ex_node *n) {
  for (int i = 0; i < 2; i++) {
    const ex_node *r = exn(m, n->args[i]);
    uint64_t uses = 2;
    if (r->kind != EX_OP || r->op != OP_DIV || exn(m, r->args[0])->kind != EX_CONST || exn(m, r->args[0])->k.f != 1 ||
        !map_getu(q->uses, n->args[i], &uses) || uses > 1)
      continue;
    const ex x = n->args[1 - i], by = r->args[1];
    if (shared(q, x, by)) {
      const ex inverse = invert_once(q, x, n->args[i]);
      return inverse == n->args[i] ? e : expr_op2(m, OP_MUL, x, inverse);
    }
    return pass_spend(q->p) ? expr_op2(m, OP_DIV, x, by) : e;
  }
  return e;
}
static ex product(void *env, emodule *m, ex e) {
  quotients *q = env;
  const ex_node n = *exn(m, e);
  uint64_t had;
  if (n.kind != EX_OP || (n.type != ET_F32 && n.type != ET_F64) || map_getu(q->kept, e, &had)) return e;
  if (n.op == OP_MUL) return quotient(q, m, e, &n);
  if (n.op != OP_DIV || !shared(q, n.args[0], n.args[1]) || !pass_spend(q->p)) return e;
  const ex one = expr_f(m, (etype)n.type, EK_PLANTED("quotient") ? 1.01 : 1);
  return expr_op2(m, OP_MUL, n.args[0], invert_once(q, n.args[0], expr_op2(m, OP_DIV, one, n.args[1])));
}
/* Looks at all that stage i computes: where its updates go, and whether, is decided by values. */
static void look_at_stage(quotients *q, uint32_t i) {
  const stage *s = xs(q->p->m, i);
  look(q, s->value, false);
  for (uint32_t k = 0; k < s->updates.n; k++) {
    const update *u = &s->updates.v[k];
    look(q, u->value, false);
    look(q, u->cond, true);
    for (uint32_t j = 0; j < u->nidx; j++) look_index(q, u->idx[j]);
  }
}
static bool one_stage(quotients *q, uint32_t i) {
  pw *p = q->p;
  const stage *s = xs(p->m, i);
  if (q->exact[s->tensor]) { /* all divisions stay, and those in what it reads */
    for (uint32_t k = 0; k < p->loads.v[i].n; k++) q->exact[exn(p->m, p->loads.v[i].v[k])->tensor] = 1;
    return false;
  }
  if (!s->updates.n && !(ex_flags(p, s->value) & (EXF_QUOTIENT | EXF_DATA))) return false;
  q->a = arena_new(p->c);
  q->seen[0] = map_new(q->a), q->seen[1] = map_new(q->a), q->kept = map_new(q->a), q->uses = map_new(q->a);
  q->made = map_new(q->a);
  q->stage = i;
  look_at_stage(q, i);
  const uint64_t spent = p->spent;
  stage_rewrite(p->m, i, &(ex_map){.node = product, .env = q});
  arena_free(q->a);
  if (p->spent == spent) return false;
  pass_changed(p, i);
  return true;
}
bool pass_quotient(pw *p) {
  u32vec order = {0};
  bool any = false;
  quotients q = {.p = p, .lanes = expr_lanes(p), .exact = NEWN(p->a, uint8_t, p->m->tensors.n + 1)};
  pass_order(p, &order);
  /* sizes, conditions, what blocks hand on; */
  for (tid t = 1; t < p->m->tensors.n; t++) q.exact[t] = p->pinned.v[t];
  /* outputs hand no values on to a rounding */
  for (uint32_t i = 0; i < p->m->outputs.n; i++) q.exact[p->m->outputs.v[i].t] = 0;
  for (uint32_t i = order.n; i-- > 0;) any |= one_stage(&q, order.v[i]);
  if (any) pass_flush(p);
  return any;
}
