/* From inference to training: which nodes compute something else in training? Those whose running statistics become
 * states, and those that cover elements at random. Both are told by the standard's operators, which are all that a
 * model says of it. */
#include "train/train.h"
#include <string.h>

static bool is(const node *n, const char *op) { return !n->domain[0] && !strcmp(n->op, op); }

/* ---- running statistics ---------------------------------------------------------------------- */
/* What in is from now on: a state, whose value after the run is the node's output at place `k`. */
static void run_statistic(graph *g, node *n, uint32_t in, uint32_t k, train_made *made) {
  arena *a = ctx_arena(g->c);
  value *v = n->in.v[in];
  while (n->out.n <= k) vec_push(a, n->out, NULL);
  if (!n->out.v[k]) {
    n->out.v[k] = graph_value(g, arena_fmt(a, "%s.new", v->source));
    n->out.v[k]->def = n;
  }
  vec_push(a, g->outputs, n->out.v[k]);
  vec_push(a, made->statistics, v->source);
  graph_tie(g, n->out.v[k]->source, v->source);
}
static void batch_statistics(graph *g, node *n, const train_plan *p, train_made *made) {
  value *const mean = n->in.n > 4 ? n->in.v[3] : NULL, *const var = n->in.n > 4 ? n->in.v[4] : NULL;
  if (!mean || !var || !mean->data || !var->data || train_matches(p->freeze, mean->source)) return;
  node_set_int(g, n, "training_mode", 1);
  run_statistic(g, n, 3, 1, made);
  run_statistic(g, n, 4, 2, made);
}

/* ---- random masks ---------------------------------------------------------------------------- */
static void random_mask(graph *g, node *n, value *key_in, int64_t layer) {
  arena *a = ctx_arena(g->c);
  n->op = intern(g->c, "dropout"), n->domain = intern(g->c, "einkorn.train");
  while (n->in.n < 3) vec_push(a, n->in, NULL);
  n->in.v[2] = key_in;
  n->attrs.n = 0;
  node_set_int(g, n, "layer", layer);
}
void train_forms(graph *g, const train_plan *p, train_made *made) {
  value *key_in = NULL;
  int64_t layer = 0;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    if (is(n, "BatchNormalization")) batch_statistics(g, n, p, made);
    if (!is(n, "Dropout")) continue;
    if (!key_in) {
      key_in = graph_value(g, TRAIN_KEY);
      key_in->type = ET_I64, key_in->ranked = true, key_in->rank = 1;
      const sz samples = sym_int(g->c, p->samples);
      key_in->dims = arena_dup(ctx_arena(g->c), &samples, sizeof samples);
      vec_push(ctx_arena(g->c), g->inputs, key_in);
    }
    random_mask(g, n, key_in, layer++);
  }
}
