/* What would a module give if it did not round? Every float becomes an f64: the reference that the errors of compiled
 * code are measured against (docs/accuracy.md).
 *
 * Inputs and constants stay as they are given: loads of their elements are f64, and the evaluator converts what it
 * reads. Where the whole tensor goes somewhere (through a branch, a loop, to an output), a stage makes one of f64.
 * Then all other tensors, values and accumulators of floats are f64, and conversions between floats do nothing.
 * What looks at a float's bits, or makes random ones, keeps its type and is converted before and behind. */
#include "eval/eval.h"

static bool is_narrow(uint32_t t) { return et_kind((etype)t) == K_FLOAT && t != ET_F64; }

static ex append(emodule *m, ex_node n) { /* not shared with equal values: nodes change */
  vec_push(m->a, m->nodes, n);
  return m->nodes.n - 1;
}
static ex converted(emodule *m, etype to, ex of) {
  uint32_t *args = NEWN(m->a, uint32_t, 1);
  args[0] = of;
  return append(m, (ex_node){.kind = EX_OP, .type = (uint8_t)to, .op = OP_CAST, .nargs = 1, .args = args});
}
/* The stage's tensor that holds t's values as f64 */
static tid widened(emodule *m, tid t) {
  const tensor x = *xt(m, t);
  axis axes[MAX_RANK];
  sz at[MAX_RANK];
  for (uint32_t i = 0; i < x.rank; i++) axes[i] = expr_axis1(m, "w", x.shape[i], &at[i]);
  tid w = expr_tensor(m, TK_STAGE, ET_F64, x.shape, x.rank, arena_fmt(m->a, "%s.f64", x.name), x.origin);
  uint32_t *args = NEWN(m->a, uint32_t, x.rank + 1u);
  for (uint32_t i = 0; i < x.rank; i++) args[i] = at[i];
  const ex_node load = {.kind = EX_LOAD, .type = (uint8_t)x.type, .tensor = t, .nargs = (uint8_t)x.rank, .args = args};
  expr_stage(m, 0, w, axes, x.rank, converted(m, ET_F64, append(m, load)));
  return w;
}
static bool keeps_type(const tensor *x) { return is_narrow(x->type) && (x->kind == TK_INPUT || x->kind == TK_CONST); }
static void read_wide(emodule *m, map *wide, tid *t) {
  uint64_t w;
  if (!*t || !keeps_type(xt(m, *t))) return;
  if (!map_getu(wide, *t, &w)) map_putu(wide, *t, w = widened(m, *t));
  *t = (tid)w;
}
static void read_all_wide(emodule *m, map *wide, tid *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) read_wide(m, wide, &t[i]);
}
/* e, of which the operands are f64 now where they were narrow; types: what they were */
static void promote_value(emodule *m, ex e, const uint8_t *types) {
  ex_node n = *exn(m, e);
  if (n.kind == EX_OP && (n.op == OP_BITCAST || n.op == OP_RAND)) {
    uint32_t *args = NEWN(m->a, uint32_t, n.nargs);
    for (uint32_t i = 0; i < n.nargs; i++)
      args[i] = is_narrow(types[n.args[i]]) ? converted(m, (etype)types[n.args[i]], n.args[i]) : n.args[i];
    n.args = args;
    if (is_narrow(n.type)) {
      const ex as_it_was = append(m, n);
      uint32_t *one = NEWN(m->a, uint32_t, 1);
      one[0] = as_it_was;
      n = (ex_node){.kind = EX_OP, .op = OP_CAST, .nargs = 1, .args = one};
    }
    n.type = is_narrow(types[e]) ? ET_F64 : n.type;
  } else {
    if (is_narrow(n.type)) n.type = ET_F64;
    if (n.kind == EX_REDUCE && is_narrow(n.acc)) n.acc = ET_F64;
  }
  m->nodes.v[e] = n;
}
void expr_promote(emodule *m) {
  map *wide = map_new(m->a);
  const uint32_t old_tensors = m->tensors.n, old_nodes = m->nodes.n;
  for (tid t = 1; t < old_tensors; t++)
    if (is_narrow(xt(m, t)->type) && !keeps_type(xt(m, t))) xt(m, t)->type = ET_F64;
  uint8_t *types = NEWN(m->a, uint8_t, old_nodes);
  for (ex e = 1; e < old_nodes; e++) types[e] = exn(m, e)->type;
  for (ex e = 1; e < old_nodes; e++) promote_value(m, e, types);
  for (uint32_t i = 0; i < m->ifs.n; i++)
    read_all_wide(m, wide, m->ifs.v[i].then_vals, m->ifs.v[i].n),
        read_all_wide(m, wide, m->ifs.v[i].else_vals, m->ifs.v[i].n);
  for (uint32_t i = 0; i < m->loops.n; i++) {
    const xloop *l = &m->loops.v[i];
    read_all_wide(m, wide, l->init, l->ncarried), read_all_wide(m, wide, l->next, l->ncarried);
    read_all_wide(m, wide, l->slice, l->ncollected);
  }
  for (uint32_t i = 0; i < m->outputs.n; i++) read_wide(m, wide, &m->outputs.v[i].t);
}
