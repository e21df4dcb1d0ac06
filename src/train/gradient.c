/* The derivatives of a tensor of the model, as further outputs: by the standard's operator Gradient. */
#include "train/train.h"
#include <string.h>

static void by(graph *g, node *n, value *x, strvec *names) {
  arena *a = ctx_arena(g->c);
  vec_push(a, n->in, x);
  vec_push(a, *names, x->source);
  vec_push(a, g->outputs, graph_result(g, n, arena_fmt(a, TRAIN_SLOPE "%s", x->source)));
}
void train_gradients(graph *g, const oplib *lib, const char *of) {
  value *y = train_tensor(g, of);
  train_made made = {0};
  const train_plan all = {.lib = lib};
  const train_values parameters = train_parameters(g, &all, &made);
  strvec names = {0};
  node *n = graph_node(g, "Gradient", "ai.onnx.preview.training", TRAIN_GRADIENT);
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    value *x = g->inputs.v[i];
    if (x->kind == VALUE_TENSOR && et_kind(x->type) == K_FLOAT) by(g, n, x, &names);
  }
  for (uint32_t i = 0; i < parameters.n; i++) by(g, n, parameters.v[i], &names);
  if (!names.n) ctx_fail(g->c, E_USAGE, "the model has no input of floats and no parameter to differentiate by");
  vec_push(ctx_arena(g->c), n->in, y);
  node_set_strings(g, n, "xs", names.v, names.n);
  node_set_string(g, n, "y", y->source);
}
