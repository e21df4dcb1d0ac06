/* Which operands lie transposed, once for all steps of a recurrence?
 *
 * A step of a recurrence multiplies some rows by a matrix that no step changes, the weights of an LSTM that is trained:
 *   G[t, n, h] = sum[k] H[t - 1, n, k] * R[h, k]
 * Lanes run along h, and R's neighbours along k, so that each step would exchange rows and lanes of the whole matrix
 * again. A copy in front of the recurrence lies as all steps read it:
 *   T[k, h] = R[h, k]        G[t, n, h] = sum[k] H[t - 1, n, k] * T[k, h]
 * Constants are packed when the model is compiled. Needs views, which would read through the copy; keeps everything.
 */
#include "cost/cost.h"
#include "passes/pass.h"

/* Do neighbours of the load lie along a variable of the sum, and no other variable of the stage? */
static bool along_sum(pw *p, const ex_node *load, const ex_node *red) {
  const sz last = load->args[load->nargs - 1];
  u32vec vars = {0};
  sz coef, rest;
  sym_atoms(p->c, last, AT_VAR, p->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++)
    if (!vec_has(&(u32vec){.v = (uint32_t *)red->args, .n = red->nargs}, vars.v[i])) return false;
  return vars.n && sym_linear(p->c, last, vars.v[vars.n - 1], &coef, &rest) && sym_eq(p->c, coef, sym_int(p->c, 1));
}
/* May the factor be copied in front of the recurrence? */
static bool steady(pw *p, ex x, uint32_t recurrence) {
  emodule *m = p->m;
  const ex_node *load = exn(m, x);
  return load->kind == EX_LOAD && !load->otherwise && load->nargs && xt(m, load->tensor)->kind != TK_CONST &&
         !pass_reads_recurrence(p, x, recurrence) && !expr_uses(m, x, m->recurrences.v[recurrence].var, p->a) &&
         !expr_by_data(m, load);
}
/* The factor's variables, those of the sum first, that of the most columns last; *rows: results that share it. */
static bool columns_last(pw *p, uint32_t s, ex x, const ex_node *red, u32vec *vars, int64_t *rows) {
  emodule *m = p->m;
  const atom step = m->recurrences.v[xs(m, s)->recurrence].var;
  u32vec own = {0};
  uint32_t most = 0;
  int64_t extent = 0;
  stage_vars(m, s, p->a, &own);
  for (uint32_t i = 0; i < red->nargs; i++)
    if (expr_uses(m, x, red->args[i], p->a)) vec_push(p->a, *vars, red->args[i]);
  *rows = 1;
  for (uint32_t i = 0; i < own.n; i++) {
    const int64_t n = expr_typical(m, sym_extent(p->c, own.v[i]));
    if (own.v[i] == step) continue;
    if (!expr_uses(m, x, own.v[i], p->a)) {
      *rows = sat_mul64(*rows, n);
      continue;
    }
    if (n > extent) extent = n, most = vars->n;
    vec_push(p->a, *vars, own.v[i]);
  }
  if (!extent) return false;
  const atom column = vars->v[most];
  for (uint32_t i = most; i + 1 < vars->n; i++) vars->v[i] = vars->v[i + 1];
  vars->v[vars->n - 1] = column;
  return vars->n <= MAX_RANK && extent >= (int64_t)p->lanes;
}
static bool copy_columns(pw *p, uint32_t s) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  if (!x->recurrence || !x->value || x->updates.n) return false;
  const ex_node red = *exn(m, x->value);
  const ex_node body = red.kind == EX_REDUCE && red.op == RED_SUM && !red.where ? *exn(m, red.body) : red;
  const sz steps = m->recurrences.v[x->recurrence].extent;
  if (body.kind != EX_OP || body.op != OP_MUL || !m->recurrences.v[x->recurrence].var) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const ex factor = body.args[i];
    const ex_node load = *exn(m, factor);
    map *by = map_new(p->a);
    u32vec vars = {0};
    int64_t rows;
    ex copy;
    if (!steady(p, factor, x->recurrence) || !along_sum(p, &load, &red) ||
        !columns_last(p, s, factor, &red, &vars, &rows) || !cost_transposes_once(rows, expr_typical(m, steps)) ||
        !pass_spend(p))
      continue;
    pass_stage_over(p, s, vars.v, vars.n, factor, "columns", &copy);
    map_putu(by, factor, EK_PLANTED("columns") ? factor : copy);
    stage_replace(p, s, by);
    return true;
  }
  return false;
}
bool pass_columns(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) any |= copy_columns(p, order.v[i]);
  if (any) pass_flush(p);
  return any;
}
