/* What values does a tensor have? Nodes are added to the graph that tell: the least and the greatest value are two more
 * outputs; how often each upper half of an f32 occurred (its sign, exponent and 7 bits) is a state, in which all runs
 * count. So the statistics are computed by kernels of the same program, where the tensors lie in the caches. The bins
 * are narrow where values are small and need no range that is known before: one pass over the data is enough for every
 * method of range.c. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

const char *const quantize_operators = "op \"einkorn.quantize::Count\"(X: f32[d...], N: i64[b]) -> H: i64[b] {\n"
                                       "  H[b] = N[b]\n"
                                       "  H[i64(shr(bitcast(u32, X[d...]), u32(16)))] += 1 for d...\n"
                                       "}\n";
value *quantize_find(const graph *g, const char *name) {
  for (uint32_t i = 0; i < g->inputs.n; i++)
    if (!strcmp(g->inputs.v[i]->source, name)) return g->inputs.v[i];
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++) {
      value *v = g->nodes.v[i]->out.v[k];
      if (v && !strcmp(v->source, name)) return v;
    }
  ctx_fail(g->c, E_USAGE, "the model computes no tensor of the name %s", name);
}
node *quantize_add_node(graph *g, const char *op, const char *domain, value *in, const char *out) {
  arena *a = ctx_arena(g->c);
  node *n = graph_node(g, op, domain, out);
  vec_push(a, n->in, in);
  vec_push(a, g->outputs, graph_result(g, n, out));
  return n;
}
const char *quantize_observed(arena *a, uint32_t i, quant_statistic what) {
  static const char *const words[] = {"least", "greatest", "counted", "counts", "square"};
  return arena_fmt(a, "quantize.%s.%u", words[what], i);
}
void quantize_observe(graph *g, const char *const *names, uint32_t n, bool bins) {
  arena *a = ctx_arena(g->c);
  for (uint32_t i = 0; i < n; i++) {
    value *v = quantize_find(g, names[i]);
    for (int k = 0; k < 2; k++) {
      node *r = quantize_add_node(g, k ? "ReduceMax" : "ReduceMin", "", v,
                                  quantize_observed(a, i, k ? QUANT_GREATEST : QUANT_LEAST));
      node_set_int(g, r, "keepdims", 0);
    }
    if (!bins) continue;
    value *counts = graph_value(g, quantize_observed(a, i, QUANT_COUNTS));
    sz *dims = NEWN(a, sz, 1);
    dims[0] = sym_int(g->c, QUANT_BINS);
    counts->type = ET_I64, counts->ranked = true, counts->rank = 1, counts->dims = dims;
    vec_push(a, g->inputs, counts);
    const char *out = quantize_observed(a, i, QUANT_COUNTED);
    node *h = quantize_add_node(g, "Count", "einkorn.quantize", v, out);
    vec_push(a, h->in, counts);
    graph_tie(g, out, counts->source);
  }
  graph_states_last(g);
}
value *quantize_other_axes(graph *g, uint32_t rank, int32_t axis) {
  int64_t *axes = NEWN(ctx_arena(g->c), int64_t, rank + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < rank; i++)
    if ((int32_t)i != axis) axes[n++] = i;
  const ndarray d = {.type = ET_I64, .rank = 1, .dims = {n}, .data = (const uint8_t *)axes, .bytes = n * sizeof *axes};
  return graph_const(g, "quantize.axes", &d);
}
void quantize_observe_channels(graph *g, const quant_channels *x, uint32_t n) {
  static const char *const ops[] = {"ReduceMin", "ReduceMax", "ReduceMean"};
  static const quant_statistic what[] = {QUANT_LEAST, QUANT_GREATEST, QUANT_SQUARE};
  arena *a = ctx_arena(g->c);
  for (uint32_t i = 0; i < n; i++) {
    value *v = quantize_find(g, x[i].v->source), *squares = graph_value(g, arena_fmt(a, "quantize.squares.%u", i));
    node *mul = graph_node(g, "Mul", "", squares->name);
    vec_push(a, mul->in, v);
    vec_push(a, mul->in, v);
    vec_push(a, mul->out, squares);
    squares->def = mul;
    for (int k = 0; k < 3; k++) {
      node *r =
          quantize_add_node(g, ops[k], "", what[k] == QUANT_SQUARE ? squares : v, quantize_observed(a, i, what[k]));
      vec_push(a, r->in, quantize_other_axes(g, x[i].v->rank, x[i].axis));
      node_set_int(g, r, "keepdims", 0);
      node_set_int(g, r, "noop_with_empty_axes", 1);
    }
  }
  graph_states_last(g);
}
quant_stats quantize_nothing(void) { return (quant_stats){.lo = INFINITY, .hi = -INFINITY}; }
bool quantize_add(quant_stats *s, float lo, float hi) {
  if (EK_PLANTED("quantize-observe")) lo = -hi;
  if (hi < lo) return true; /* no elements */
  s->lo = fminf(s->lo, lo), s->hi = fmaxf(s->hi, hi);
  return isfinite(lo) && isfinite(hi);
}
