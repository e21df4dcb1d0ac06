/* What makes up for the mean error of a quantised layer? The rounding of its weights, and the clamping of its input,
 * move the mean of its results, channel by channel, and later layers add that up. The mean error is a constant: it is
 * subtracted from what the layer adds (bias correction: Nagel et al. 2019, section 4.2, by data). It is measured in the
 * quantised model itself, in one run of each sample: an exact copy of each layer, with the weights as they were, reads
 * the layer's own input before that is rounded, so that each layer makes up for its own error alone. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

bool quantize_correctable(const quant_layer *x) { return !x->kept && x->f[1].v->data && x->result >= 0; }
int64_t quantize_channels_of(const quant_layer *x) { return x->f[1].v->data->dims[x->f[1].axis]; }

/* ---- the error -------------------------------------------------------------------------------- */
const char *quantize_error_name(arena *a, uint32_t layer) { return arena_fmt(a, "quantize.error.%u", layer); }
static value *result_of(graph *g, node *n, const value *like) {
  value *v = graph_result(g, n, n->name);
  v->type = ET_F32, v->ranked = like->ranked, v->rank = like->rank, v->dims = like->dims;
  return v;
}
static void observe_layer(graph *g, uint32_t i, const quant_layer *x, const node *was) {
  arena *a = ctx_arena(g->c);
  const value *like = was->out.v[0];
  node *exact = graph_node(g, was->op, was->domain, arena_fmt(a, "quantize.exact.%u", i));
  exact->attrs = was->attrs;
  for (uint32_t k = 0; k < was->in.n; k++) vec_push(a, exact->in, was->in.v[k]);
  value *want = result_of(g, exact, like);
  node *sub = graph_node(g, "Sub", "", arena_fmt(a, "quantize.difference.%u", i));
  vec_push(a, sub->in, x->n->out.v[0]);
  vec_push(a, sub->in, want);
  node *mean = quantize_add_node(g, "ReduceMean", "", result_of(g, sub, like), quantize_error_name(a, i));
  value *told = mean->out.v[0];
  sz *dims = NEWN(a, sz, 1);
  dims[0] = sym_int(g->c, quantize_channels_of(x));
  told->type = ET_F32, told->ranked = true, told->rank = 1, told->dims = dims;
  vec_push(a, mean->in, quantize_other_axes(g, like->rank, x->result));
  node_set_int(g, mean, "keepdims", 0);
  node_set_int(g, mean, "noop_with_empty_axes", 1);
}
void quantize_observe_errors(graph *g, const quant_plan *p, const quant_undo *u) {
  for (uint32_t i = 0; i < p->nlayers; i++)
    if (quantize_correctable(&p->layers[i])) observe_layer(g, i, &p->layers[i], &u->layers[i]);
}
float *quantize_shift(const double *sum, const double *square, int64_t channels, size_t samples, arena *a) {
  const double n = (double)samples;
  float *by = NEWN(a, float, channels + 1);
  for (int64_t c = 0; c < channels; c++) {
    const double mean = sum[c] / n, variance = samples > 1 ? fmax(square[c] - sum[c] * mean, 0) / (n - 1) : 0;
    const double part = mean == 0 ? 0 : 1 - variance / (n * mean * mean);
    by[c] = (float)(EK_PLANTED("quantize-shift") ? -mean : mean * fmax(part, 0));
  }
  return by;
}

/* ---- the graph -------------------------------------------------------------------------------- */
value *quantize_shifted(graph *g, const quant_layer *x, const float *by, uint32_t rank, arena *a) {
  const int64_t n = quantize_channels_of(x);
  float *data = NEWN(a, float, n + 1);
  for (int64_t i = 0; i < n; i++) {
    float b = 0; /* constants of a file may lie anywhere */
    if (x->bias) memcpy(&b, (const uint8_t *)x->bias->data->data + (size_t)i * sizeof b, sizeof b);
    data[i] = b - by[i];
  }
  ndarray d = {.type = ET_F32, .rank = rank, .data = (const uint8_t *)data, .bytes = (size_t)n * sizeof *data};
  for (uint32_t i = 0; i < rank; i++) d.dims[i] = i ? 1 : n;
  return graph_const(g, arena_fmt(a, "%s_corrected", x->bias ? x->bias->name : x->n->out.v[0]->name), &d);
}
node *quantize_shift_result(graph *g, const quant_layer *x, const float *by, arena *a) {
  value *v = x->n->out.v[0], *c = quantize_shifted(g, x, by, v->rank - (uint32_t)x->result, a);
  value *raw = graph_value(g, arena_fmt(a, "%s_uncorrected", v->name));
  raw->type = ET_F32, raw->ranked = v->ranked, raw->rank = v->rank, raw->dims = v->dims;
  node *n = graph_node(g, "Add", "", arena_fmt(a, "%s_Add", c->name));
  g->nodes.n--;
  vec_push(a, n->in, raw);
  vec_push(a, n->in, c);
  vec_push(a, n->out, v);
  x->n->out.v[0] = raw;
  raw->def = x->n, v->def = n;
  return n;
}
