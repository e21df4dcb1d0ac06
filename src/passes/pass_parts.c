/* Which long sums are computed in parts?
 *
 * A sum of products of two tensors that are computed at run time, neither of which stays in a cache, reads each of them
 * again for every few results. The gradient of a convolution's weights is such a sum: over all places of all images,
 * for each pair of channels and each place of the window,
 *   G[m, c, k] = sum[n, o] X[n, c, o + k] * D[n, m, o]
 * Of a part of the outermost variable both stay in the second cache, and serve all results before the next part comes.
 * What the parts have is added up at the end:
 *   P[p, m, c, k] = sum[n in part p, o] X[n, c, o + k] * D[n, m, o]        G[m, c, k] = sum[p] P[p, m, c, k]
 * Products of matrices, in which nothing counts windows, are blocked where they are computed (schedule/blocking.c).
 *
 * And a long sum with a value for each of a few columns, which lie side by side, such as the mean of a channel over
 * all places of all images: threads have a block or two of columns to divide. They divide the parts.
 * Needs inlined values.
 */
#include "cost/cost.h"
#include "fusion/fusion.h"
#include "passes/pass.h"

enum {
  OPERANDS = 2,
  LEAST_FREE = 3, /* variables of the results that not both read: fewer are a product of matrices */
  WRITTEN_OUT = 8 /* parts that are added up in one expression, beside what reads them in another order */
};

static int64_t values(pw *p, atom v) { return sym_int_or(p->c, sym_extent(p->c, v), 0); }
/* Does an index of the load count windows: by a variable of the sum and another one? */
static bool in_windows(pw *p, const ex_node *load, const ex_node *red) {
  for (uint32_t i = 0; i < load->nargs; i++) {
    u32vec vars = {0};
    uint32_t summed = 0;
    sym_atoms(p->c, load->args[i], AT_VAR, p->a, &vars);
    for (uint32_t k = 0; k < red->nargs; k++) summed += vec_has(&vars, red->args[k]);
    if (summed && summed < vars.n) return true;
  }
  return false;
}
/* The load that a factor is, or the conversion of. */
static const ex_node *load_of(const emodule *m, ex factor) {
  const ex_node *n = exn(m, factor);
  return n->kind == EX_OP && n->op == OP_CAST ? exn(m, n->args[0]) : n;
}
/* Does a variable of the sum other than the first one count an axis of both alone, as groups of terms that an
 * instruction takes? Conversions then cost nothing. */
static bool in_groups(pw *p, const ex_node *red, const ex_node *body) {
  bool found = false;
  for (uint32_t k = 1; k < red->nargs && !found; k++) {
    found = true;
    for (uint32_t q = 0; q < OPERANDS; q++) {
      const ex_node *load = load_of(p->m, body->args[q]);
      bool alone = false;
      for (uint32_t i = 0; load->kind == EX_LOAD && i < load->nargs; i++)
        alone |= load->args[i] == sym_of_atom(p->c, red->args[k]);
      found &= alone;
    }
  }
  return found;
}
/* How many panels of columns does one operand alone have? The other one is read again for each. */
static void describe_panels(pw *p, const ex_node *body, atom lane, summed_parts *x) {
  const int64_t width = expr_lane_points(p, lane);
  const bool second = expr_uses(p->m, body->args[1], lane, p->a);
  if (!lane || expr_uses(p->m, body->args[0], lane, p->a) == second) return;
  x->panels = (values(p, lane) + width - 1) / width;
  x->in_panels = second;
}
/* What is known of the sum; false: it is no such sum, or of open size. */
static bool describe(pw *p, uint32_t s, const ex_node *red, atom lane, summed_parts *x) {
  emodule *m = p->m;
  const ex_node body = *exn(m, red->body);
  u32vec vars = {0};
  uint32_t nfree = 0;
  bool windows = false;
  if (body.kind != EX_OP || body.op != OP_MUL) return false;
  expr_vars(m, xs(m, s)->value, p->a, &vars);
  *x = (summed_parts){.terms = values(p, red->args[0]), .results = 1, .steps = 1};
  for (uint32_t i = 0; i < red->nargs; i++) x->steps *= (double)values(p, red->args[i]);
  for (uint32_t i = 0; i < vars.n; i++) {
    x->results *= (double)values(p, vars.v[i]);
    nfree += !expr_uses(m, body.args[0], vars.v[i], p->a) || !expr_uses(m, body.args[1], vars.v[i], p->a);
  }
  x->size = et_bytes((etype)red->acc);
  describe_panels(p, &body, lane, x);
  for (uint32_t q = 0; q < OPERANDS; q++) {
    const ex_node *load = load_of(m, body.args[q]);
    if (load != exn(m, body.args[q]) && !in_groups(p, red, &body)) return false;
    if (load->kind != EX_LOAD || xt(m, load->tensor)->kind == TK_CONST) return false;
    windows |= in_windows(p, load, red);
    x->bytes[q] = (double)et_bytes((etype)load->type);
    for (uint32_t i = 0; i < xt(m, load->tensor)->rank; i++)
      x->bytes[q] *= (double)sym_int_or(p->c, xt(m, load->tensor)->shape[i], 0);
    if (!expr_uses(m, body.args[q], red->args[0], p->a)) return false;
  }
  return windows && nfree >= LEAST_FREE && x->steps * x->results > 0;
}
/* Parts of a sum that is no product and has a value for each of a few columns; 1 where it has not. */
static int64_t parts_of_columns(pw *p, uint32_t s, const ex_node *red, atom lane) {
  roles r;
  int64_t steps = 1;
  const int64_t results = sym_int_or(p->c, stage_points(p->m, s), 0);
  if (!lane || !results || !stage_has_var(p->m, s, lane) || !expr_roles(p->m, s, p->a, &r) || r.cls != KC_ROW) return 1;
  for (uint32_t i = 0; i < red->nargs; i++) steps = sat_mul64(steps, values(p, red->args[i]));
  return cost_row_sum_parts(p->t, results / expr_lane_points(p, lane), steps, results);
}
/* How many parts of equal length: so many at least. */
static int64_t equal_parts(int64_t terms, int64_t least) {
  while (least < terms && terms % least) least++;
  return min64(least, terms);
}
/* The stage of values of the sum over `length` of n values of var from part * length on: [part, variables of the
 * results..]; what reads it there. */
static ex sums_of_parts(pw *p, uint32_t s, ex_node red, int64_t n, const u32vec *results, atom *part) {
  emodule *m = p->m;
  const int64_t length = values(p, red.args[0]) / n;
  const sz at = sym_var(p->c, "part", sym_int(p->c, n));
  sz first = sym_muli(p->c, at, EK_PLANTED("parts") ? 1 : length);
  u32vec vars = {0}, reduced = {0};
  atom inner;
  ex load;
  if (!sym_is_atom(p->c, at, part)) return 0;
  vec_push(p->a, vars, *part);
  for (uint32_t i = 0; i < results->n; i++) vec_push(p->a, vars, results->v[i]);
  if (length > 1) {
    const sz q = sym_var(p->c, sym_name(p->c, red.args[0]), sym_int(p->c, length));
    if (sym_is_atom(p->c, q, &inner)) vec_push(p->a, reduced, inner);
    first = sym_add(p->c, first, q);
  }
  for (uint32_t i = 1; i < red.nargs; i++) vec_push(p->a, reduced, red.args[i]);
  const ex body = expr_subst_vars(m, red.body, &red.args[0], &first, 1);
  const etype t = (etype)red.acc;
  const ex value = reduced.n ? expr_reduce(m, RED_SUM, reduced.v, reduced.n, 0, body, 0, t, t) : body;
  map_putu(p->parts, pass_stage_over(p, s, vars.v, vars.n, value, "parts", &load), 1);
  return load;
}
static bool in_parts(pw *p, uint32_t s, atom lane) {
  emodule *m = p->m;
  const ex_node red = *exn(m, xs(m, s)->value);
  summed_parts x;
  if (xs(m, s)->recurrence || xs(m, s)->updates.n || red.kind != EX_REDUCE || red.op != RED_SUM || red.where ||
      red.type != red.acc || et_kind((etype)red.acc) != K_FLOAT)
    return false;
  const bool products = describe(p, s, &red, lane, &x);
  int64_t n =
      equal_parts(values(p, red.args[0]), products ? cost_sum_parts(p->t, &x) : parts_of_columns(p, s, &red, lane));
  if (n < 2 || !pass_spend(p)) return false;
  u32vec results = {0};
  atom part;
  expr_vars(m, xs(m, s)->value, p->a, &results);
  ex load = sums_of_parts(p, s, red, n, &results, &part);
  const ex all = expr_reduce(m, RED_SUM, &part, 1, 0, load, 0, (etype)red.acc, (etype)red.acc);
  if (!products) return pass_set(p, s, all), true;
  if (n > WRITTEN_OUT) /* groups of parts, of which there are few */
    load = sums_of_parts(p, s, *exn(m, all), n = equal_parts(n, 2), &results, &part);
  ex sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const sz at = sym_int(p->c, i);
    const ex one = expr_subst_vars(m, load, &part, &at, 1);
    sum = sum ? expr_op2(m, OP_ADD, sum, one) : one;
  }
  pass_set(p, s, sum);
  return true;
}
bool pass_parts(pw *p) {
  u32vec order = {0};
  bool any = false;
  const atom *lanes = expr_lanes(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) any |= in_parts(p, order.v[i], lanes[order.v[i]]);
  if (any) pass_flush(p);
  return any;
}
