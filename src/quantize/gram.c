/* Which inputs of a product occur together? The sum of x x^T over all rows x of a tensor, of all runs, is a state that
 * a kernel of the program itself adds to: products of a run are summed in f32, the sums of runs in f64. */
#include "quantize/quantize.h"
#include <string.h>

const char *const quantize_gram_operators =
    "op \"einkorn.quantize::Gram\"(X: f32[a..., k], H: f64[k, l]) -> G: f64[k, l] {\n"
    "  P[k, l] = sum[a...] X[a..., k]*X[a..., l]\n"
    "  G[k, l] = H[k, l] + f64(P[k, l])\n"
    "}\n";
const char *quantize_gram_state(arena *a, uint32_t i) { return arena_fmt(a, "quantize.gram.%u", i); }
void quantize_observe_gram(graph *g, const quant_gram *what, uint32_t n) {
  arena *a = ctx_arena(g->c);
  for (uint32_t i = 0; i < n; i++) {
    value *v = quantize_find(g, what[i].name), *sum = graph_value(g, quantize_gram_state(a, i));
    sz *dims = NEWN(a, sz, 2);
    dims[0] = dims[1] = sym_int(g->c, what[i].k);
    sum->type = ET_F64, sum->ranked = true, sum->rank = 2, sum->dims = dims;
    vec_push(a, g->inputs, sum);
    const char *out = arena_fmt(a, "%s.next", quantize_gram_state(a, i));
    node *h = quantize_add_node(g, "Gram", "einkorn.quantize", v, out);
    vec_push(a, h->in, sum);
    if (!EK_PLANTED("quantize-gram")) graph_tie(g, out, sum->source);
  }
  graph_states_last(g);
}
