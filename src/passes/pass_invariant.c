/* Which factors of a sum stay the same while it runs?
 *
 *   sum[i] a * x[i]  is  a * sum[i] x[i]
 * The factor is applied once, and sums that differ in nothing else become one (pass cse). Signs and divisors are
 * factors, too. The gradient of a normalization is such sums: by its scale, bias, average and variance, of which two
 * are left. And deviations from an average add up to 0, which is the average's part in the gradient of a variance:
 *   m = 1/N * sum[i] x[i]    sum[i] (x[i] - m)  is  0
 * Sums of whole numbers are left alone (pass_factor.c), and constants beside a constant that varies, which they become
 * part of (pass_scale.c). Uses the licence of sums like the pass scale. Needs inline.
 */
#include "passes/pass.h"
#include "passes/pass_const.h"
#include <math.h>

typedef struct split {
  pw *p;              /* the run of passes */
  const ex_node *sum; /* the reduction */
  ex varies;          /* product of the factors that depend on its variables; 0: 1 */
  ex stays;           /* product of the others; 0: 1 */
  bool negative;      /* and this is negated */
  bool constant;      /* a constant is among those that vary */
  uint32_t looked;    /* values that were looked at: a DAG may unfold to far more than MAX_OPERANDS */
} split;
static bool depends(const split *k, ex e) {
  u32vec free = {0};
  expr_vars(k->p->m, e, k->p->a, &free);
  for (uint32_t i = 0; i < k->sum->nargs; i++)
    if (vec_has(&free, k->sum->args[i])) return true;
  return false;
}
/* Multiplies what e is a product of into the factors that stay, or those that vary. */
static void sort_factors(split *k, ex e) {
  emodule *m = k->p->m;
  const ex_node n = *exn(m, e);
  const bool whole = n.kind != EX_OP || k->looked++ >= MAX_OPERANDS;
  if (!depends(k, e))
    k->stays = expr_times(m, k->stays, e);
  else if (!whole && n.op == OP_MUL)
    sort_factors(k, n.args[0]), sort_factors(k, n.args[1]);
  else if (!whole && n.op == OP_NEG)
    sort_factors(k, n.args[0]), k->negative = !k->negative;
  else if (!whole && n.op == OP_ADD && n.args[0] == n.args[1])
    sort_factors(k, n.args[0]), k->stays = expr_times(m, k->stays, expr_f(m, (etype)n.type, 2));
  else if (!whole && n.op == OP_DIV && !depends(k, n.args[1])) {
    sort_factors(k, n.args[0]);
    k->stays = expr_op2(m, OP_DIV, k->stays ? k->stays : expr_f(m, (etype)n.type, 1), n.args[1]);
  } else
    k->varies = expr_times(m, k->varies, e), k->constant |= const_value(k->p, e);
}

/* ---- deviations from an average -------------------------------------------------------------- */
/* The value of the stage that e loads, over the variables of e; 0: it is no such load. */
static ex value_behind(pw *p, ex e) {
  emodule *m = p->m;
  const ex_node n = *exn(m, e);
  const uint32_t s = n.kind == EX_LOAD && !n.otherwise ? producer_of(m, n.tensor) : 0;
  if (!s || xs(m, s - 1)->recurrence || xs(m, s - 1)->updates.n || !xs(m, s - 1)->value) return 0;
  return stage_at_load(p, &n, xs(m, s - 1)->value);
}
/* Is e the average of x over the variables of the sum? */
static bool is_average(pw *p, const ex_node *sum, ex e, ex x) {
  emodule *m = p->m;
  double scale = 1;
  sz to[MAX_RANK];
  while (e) {
    const ex_node n = *exn(m, e);
    const bool scaled = n.kind == EX_OP && (n.op == OP_MUL || n.op == OP_DIV) && exn(m, n.args[1])->kind == EX_CONST;
    if (scaled) {
      const double by = exn(m, n.args[1])->k.f;
      scale *= n.op == OP_MUL ? by : 1 / by, e = n.args[0];
    } else if (n.kind == EX_REDUCE) {
      if (n.op != RED_SUM || n.where || n.type != n.acc || n.nargs != sum->nargs || n.nargs > MAX_RANK) return false;
      for (uint32_t i = 0; i < n.nargs; i++) {
        const sz extent = sym_extent(p->c, n.args[i]);
        if (!sym_eq(p->c, extent, sym_extent(p->c, sum->args[i]))) return false;
        to[i] = sym_of_atom(p->c, sum->args[i]), scale *= (double)sym_int_or(p->c, extent, 0);
      }
      return fabs(scale - 1) < 1e-6 && expr_subst_vars(m, n.body, n.args, to, n.nargs) == x;
    } else
      e = value_behind(p, e);
  }
  return false;
}
static bool adds_up_to_nothing(const split *k) {
  const ex_node n = *exn(k->p->m, k->varies);
  return n.kind == EX_OP && n.op == OP_SUB && !depends(k, n.args[1]) && is_average(k->p, k->sum, n.args[1], n.args[0]);
}

/* Has the sum a term, whatever the sizes? A sum of nothing is 0 for infinite factors, too. */
static bool has_terms(pw *p, const ex_node *sum) {
  for (uint32_t i = 0; i < sum->nargs; i++)
    if (!sym_ge0(p->c, sym_addi(p->c, sym_extent(p->c, sum->args[i]), -1))) return false;
  return true;
}
static bool split_sum(pw *p, uint32_t s) {
  emodule *m = p->m;
  const ex_node sum = *exn(m, xs(m, s)->value);
  split k = {.p = p, .sum = &sum};
  if (sum.op != RED_SUM || sum.where || (sum.type != ET_F32 && sum.type != ET_F64) || sum.acc != sum.type ||
      exn(m, sum.body)->type != sum.type || whole_sum(p, xs(m, s)->value) || !has_terms(p, &sum))
    return false;
  sort_factors(&k, sum.body);
  if (!k.varies) return false;
  if (adds_up_to_nothing(&k) && pass_spend(p)) return pass_set(p, s, expr_f(m, (etype)sum.type, 0)), true;
  if (k.stays && k.constant && const_value(p, k.stays)) return false;
  if ((!k.stays && !k.negative) || !pass_spend(p)) return false;
  const ex left = expr_reduce(m, RED_SUM, sum.args, sum.nargs, 0, k.varies, 0, (etype)sum.acc, (etype)sum.type);
  u32vec vars = {0};
  ex load;
  expr_vars(m, left, p->a, &vars);
  pass_stage_over(p, s, vars.v, vars.n, left, "sum", &load);
  load = EK_PLANTED("invariant") ? load : expr_times(m, load, k.stays);
  pass_set(p, s, k.negative ? expr_op1(m, OP_NEG, load) : load);
  return true;
}
bool pass_invariant(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++)
    if (!xs(p->m, order.v[i])->recurrence && !map_getu(p->exact, order.v[i], &(uint64_t){0}) &&
        stage_is_reduce(p, order.v[i]))
      any |= split_sum(p, order.v[i]);
  if (any) pass_flush(p);
  return any;
}
