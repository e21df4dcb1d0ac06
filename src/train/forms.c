/* From inference to training: which nodes compute something else in training? Those whose running statistics become
 * states, and those that cover elements at random. Both are told by the standard's operators, which are all that a
 * model says of it. */
#include "train/train.h"
#include <string.h>

static bool is(const node *n, const char *op) { return !n->domain[0] && !strcmp(n->op, op); }

/* ---- running statistics ---------------------------------------------------------------------- */
enum { MEAN = 3, VARIANCE = 4 }; /* inputs of a normalisation by the batch */
static bool has_statistics(const node *n) {
  return is(n, "BatchNormalization") && n->in.n > VARIANCE && n->in.v[MEAN] && n->in.v[VARIANCE] &&
         n->in.v[MEAN]->data && n->in.v[VARIANCE]->data;
}
/* How often nodes read the value, those of regions included. */
static uint32_t uses_of(const graph *g, const value *v) {
  uint32_t uses = 0;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    for (uint32_t k = 0; k < n->in.n; k++) uses += n->in.v[k] == v;
    for (uint32_t k = 0; k < n->attrs.n; k++) uses += n->attrs.v[k].g ? uses_of(n->attrs.v[k].g, v) : 0;
  }
  return uses;
}
void train_separate_statistics(graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    for (uint32_t k = MEAN; has_statistics(n) && k <= VARIANCE; k++) {
      const value *v = n->in.v[k];
      if (uses_of(g, v) < 2) continue;
      n->in.v[k] = graph_const(g, v->source, v->data);
      n->in.v[k]->source = n->in.v[k]->name;
    }
  }
}
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
  if (!has_statistics(n) || train_matches(p->freeze, n->in.v[MEAN]->source)) return;
  node_set_int(g, n, "training_mode", 1);
  run_statistic(g, n, MEAN, 1, made);
  run_statistic(g, n, VARIANCE, 2, made);
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
