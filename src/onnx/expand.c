/* Which nodes stand for several, and for which?
 *
 * Five kinds, one table. An operator on any number of groups of tensors (an optimiser that updates many
 * parameters at once) becomes a node per group. An operator with regions that are formulas, not control
 * flow (attention with its own score function) becomes nodes with the regions between them, so that the
 * definitions of the parts and the model's own formula are fused like any others. A recurrence over a
 * batch becomes a recurrence of recurrences. Trees written as columns of attributes become tables for a walk
 * (trees.c). A quantised operator that is another one between conversions becomes these. The last node is always the
 * given one, changed.
 */
#include "onnx/expand.h"
#include "onnx/onnx.h"
#include <string.h>

static value *input(const node *n, uint32_t i) { return i < n->in.n ? n->in.v[i] : NULL; }

/* A node in front of n, which is and stays the last. */
node *expand_before(graph *g, node *n, const char *op, const char *domain, const char *what) {
  node *made = graph_node(g, op, domain, arena_fmt(ctx_arena(g->c), "%s.%s", n->name, what));
  g->nodes.v[g->nodes.n - 2] = made;
  g->nodes.v[g->nodes.n - 1] = n;
  return made;
}
void expand_give(graph *g, node *n, value *v) { vec_push(ctx_arena(g->c), n->in, v); }
static void copy_attr(graph *g, node *to, const node *from, const char *name) {
  const attr *a = node_attr(from, name);
  if (a) vec_push(ctx_arena(g->c), to->attrs, *a);
}

/* ---- groups: inputs are `lead` common ones, then `kinds` runs of one tensor per group; outputs are `results` runs
 * ---- */
static void groups(graph *g, node *n, uint32_t lead, uint32_t kinds, uint32_t results) {
  arena *a = ctx_arena(g->c);
  uint32_t per = n->in.n > lead ? (n->in.n - lead) / kinds : 0;
  if (per == 0 || per * kinds + lead != n->in.n || n->out.n > per * results) {
    diag_error(g->c, E_MODEL, n->name,
               "%s has %u inputs and %u outputs; %u inputs, then %u for each tensor, and at most %u outputs for each "
               "tensor are expected",
               n->op, n->in.n, n->out.n, lead, kinds, results);
    return;
  }
  node all = *n;
  for (uint32_t k = 0; k < per; k++) {
    node *one = k + 1 < per ? expand_before(g, n, n->op, n->domain, arena_fmt(a, "%u", k)) : n;
    if (one != n)
      for (uint32_t i = 0; i < n->attrs.n; i++) vec_push(a, one->attrs, n->attrs.v[i]);
    memset(&one->in, 0, sizeof one->in), memset(&one->out, 0, sizeof one->out);
    for (uint32_t i = 0; i < lead; i++) expand_give(g, one, all.in.v[i]);
    for (uint32_t i = 0; i < kinds; i++)
      expand_give(g, one, all.in.v[lead + (EK_PLANTED("onnx-groups") ? k * kinds + i : i * per + k)]);
    for (uint32_t i = 0; i < results && i * per + k < all.out.n; i++) {
      value *v = all.out.v[i * per + k];
      vec_push(a, one->out, v);
      if (v) v->def = one;
    }
  }
}
static void gradient_step(graph *g, node *n) { groups(g, n, 2, 3, 2); }
static void adam_step(graph *g, node *n) { groups(g, n, 2, 4, 3); }

/* ---- regions that are formulas --------------------------------------------------------------- */
/* The region's nodes go in front of n; its only input is v. Returns its only output. */
static value *formula(graph *g, node *n, const char *attr_name, value *v) {
  arena *a = ctx_arena(g->c);
  const attr *at = node_attr(n, attr_name);
  if (!at) return v;
  graph *r = at->kind == AK_GRAPH ? at->g : NULL;
  if (!r || r->inputs.n != 1 || r->outputs.n != 1) {
    diag_error(g->c, E_MODEL, n->name, "attribute '%s' of %s must be a graph with one input and one output", attr_name,
               n->op);
    return v;
  }
  node *pass = expand_before(g, n, "Identity", "", r->name[0] ? r->name : attr_name);
  expand_give(g, pass, v);
  vec_push(a, pass->out, r->inputs.v[0]);
  r->inputs.v[0]->def = pass;
  for (uint32_t i = 0; i < r->values.n; i++) vec_push(a, g->values, r->values.v[i]);
  for (uint32_t i = 0; i < r->nodes.n; i++) {
    node *m = r->nodes.v[i];
    g->nodes.v[g->nodes.n - 1] = m;
    vec_push(a, g->nodes, n);
    for (uint32_t k = 0; k < m->attrs.n; k++)
      if (m->attrs.v[k].g) m->attrs.v[k].g->parent = g;
  }
  value *out = r->outputs.v[0];
  node_remove_attr(n, attr_name);
  return out;
}
static void flex_attention(graph *g, node *n) {
  value *q = input(n, 0), *k = input(n, 1), *v = input(n, 2);
  if (!q || !k || !v) {
    diag_error(g->c, E_MODEL, n->name, "FlexAttention needs three inputs");
    return;
  }
  node *scores = expand_before(g, n, "AttentionScores", "einkorn", "scores");
  expand_give(g, scores, q), expand_give(g, scores, k);
  copy_attr(g, scores, n, "scale"), copy_attr(g, scores, n, "softmax_precision");
  value *s = formula(g, n, "score_mod", graph_result(g, scores, scores->name));
  node *soft = expand_before(g, n, "Softmax", "", "probabilities");
  expand_give(g, soft, s);
  value *p = formula(g, n, "prob_mod", graph_result(g, soft, soft->name));
  n->op = "AttentionValues", n->domain = "einkorn";
  n->in.n = 0, n->attrs.n = 0;
  expand_give(g, n, p), expand_give(g, n, v);
}

/* ---- before 9 Scan went over the examples of a batch too: input 0 is their lengths, every other input and output
 * has the batch in front ---- */
static void batched_scan(graph *g, node *n) {
  arena *a = ctx_arena(g->c);
  const attr *body = node_attr(n, "body"), *count = node_attr(n, "num_scan_inputs"), *ways = node_attr(n, "directions");
  if (!body || body->kind != AK_GRAPH || !count || count->kind != AK_INT || n->in.n < 2) {
    diag_error(g->c, E_MODEL, n->name, "Scan needs a body, num_scan_inputs and inputs");
    return;
  }
  if (n->in.v[0]) {
    diag_error(g->c, E_UNSUPPORTED, n->name,
               "Scan as of opset 8: sequences of different lengths in one batch are not supported; save the model with "
               "opset 9 or newer");
    return;
  }
  graph *each = graph_new(g->c, g, arena_fmt(a, "%s.example", n->name));
  node *inner = graph_node(each, "Scan", "", arena_fmt(a, "%s.one", n->name));
  for (uint32_t i = 1; i < n->in.n; i++) {
    value *v = graph_value(each, arena_fmt(a, "%s.in%u", n->name, i));
    vec_push(a, each->inputs, v);
    expand_give(each, inner, v);
  }
  for (uint32_t i = 0; i < n->out.n; i++) vec_push(a, each->outputs, graph_result(each, inner, inner->name));
  attr mine = *body;
  body->g->parent = each;
  vec_push(a, inner->attrs, mine);
  node_set_int(each, inner, "num_scan_inputs", count->i);
  if (ways && ways->kind == AK_INTS) node_set_ints(each, inner, "scan_input_directions", ways->ints, ways->n);
  for (uint32_t i = 1; i < n->in.n; i++) n->in.v[i - 1] = n->in.v[i];
  n->in.n--;
  n->attrs.n = 0;
  attr whole = {.name = "body", .kind = AK_GRAPH, .g = each};
  vec_push(a, n->attrs, whole);
  node_set_int(g, n, "num_scan_inputs", n->in.n);
}

/* Tensors of different scales in a row: each becomes numbers and these are quantised anew, by the scale of the result
 * (inputs 0 and 1). Every other three inputs are a tensor, its scale, its zero point. */
static void quantised_concat(graph *g, node *n) {
  arena *a = ctx_arena(g->c);
  if (n->in.n < 5 || n->in.n % 3 != 2) {
    diag_error(g->c, E_MODEL, n->name,
               "QLinearConcat has %u inputs; a scale and a zero point are expected, then a tensor, a scale and a zero "
               "point for each part",
               n->in.n);
    return;
  }
  node all = *n;
  memset(&n->in, 0, sizeof n->in);
  for (uint32_t i = 2; i < all.in.n; i += 3) {
    node *wide = expand_before(g, n, "DequantizeLinear", "", arena_fmt(a, "wide%u", i / 3));
    for (uint32_t k = 0; k < 3; k++) expand_give(g, wide, all.in.v[i + k]);
    node *narrow = expand_before(g, n, "QuantizeLinear", "", arena_fmt(a, "part%u", i / 3));
    expand_give(g, narrow, graph_result(g, wide, wide->name));
    expand_give(g, narrow, all.in.v[0]), expand_give(g, narrow, all.in.v[1]);
    expand_give(g, n, graph_result(g, narrow, narrow->name));
  }
  n->op = "Concat", n->domain = "";
}

/* A map is two inputs of the model: its values, and its keys behind them. */
static void read_map(graph *g, node *n) {
  const value *v = input(n, 0);
  const graph *root = g;
  while (root->parent) root = root->parent;
  for (uint32_t i = 0; v && i + 1 < root->inputs.n; i++)
    if (root->inputs.v[i] == v &&
        !strcmp(root->inputs.v[i + 1]->source, arena_fmt(ctx_arena(g->c), "%s.keys", v->source))) {
      n->in.n = 1, n->domain = "einkorn";
      expand_give(g, n, root->inputs.v[i + 1]);
      return;
    }
  diag_error(g->c, E_UNSUPPORTED, n->name, "the input of %s must be a map, and an input of the model", n->op);
}

/* A map from label to score for each row: the scores stay a tensor, the labels are what the model's other output
 * already says. */
static void zip_map(graph *g, node *n) {
  diag_add(g->c, D_NOTE, E_OK, (srcpos){0}, n->name,
           "ZipMap: the scores are given as a tensor, without the labels as keys");
  n->op = "Identity", n->domain = "";
  n->attrs.n = 0;
}

/* A model that is read to be saved again keeps operators of all versions (INT64_MAX), but not these. */
#define SAVED_TOO (INT64_MAX - 1)
static const struct {
  const char *domain;               /* domain of the operator */
  const char *op;                   /* name of the operator */
  int64_t before;                   /* versions below this one */
  void (*apply)(graph *g, node *n); /* puts other nodes in its place */
  const char *by; /* what stands for it, for the table of operators; NULL: it is in that table itself */
} table[] = {
    {"ai.onnx.preview.training", "Adagrad", INT64_MAX, gradient_step, NULL},
    {"ai.onnx.preview.training", "Momentum", INT64_MAX, gradient_step, NULL},
    {"ai.onnx.preview.training", "Adam", INT64_MAX, adam_step, NULL},
    {"ai.onnx.preview", "FlexAttention", INT64_MAX, flex_attention, "AttentionScores, Softmax, AttentionValues"},
    {"", "Scan", 9, batched_scan, NULL},
    {"ai.onnx.ml", "TreeEnsemble", INT64_MAX, trees_ensemble, "TreeScores"},
    {"ai.onnx.ml", "TreeEnsembleClassifier", INT64_MAX, trees_classes, "TreeScores, TreeClasses"},
    {"ai.onnx.ml", "TreeEnsembleRegressor", INT64_MAX, trees_targets, "TreeScores, TreeTargets"},
    {"ai.onnx.ml", "CastMap", SAVED_TOO, read_map, "CastMap of einkorn, on two tensors"},
    {"ai.onnx.ml", "DictVectorizer", SAVED_TOO, read_map, "DictVectorizer of einkorn, on two tensors"},
    {"ai.onnx.ml", "ZipMap", INT64_MAX, zip_map, "its input: the scores, without labels"},
    {"com.microsoft", "QLinearConcat", INT64_MAX, quantised_concat, "DequantizeLinear, QuantizeLinear, Concat"},
};

const char *onnx_replaced(uint32_t i, const char **domain, const char **op) {
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    if (table[k].by && i-- == 0) {
      *domain = table[k].domain, *op = table[k].op;
      return table[k].by;
    }
  return NULL;
}
void expand_node(graph *g, node *n, int64_t version, bool standard) {
  const char *op = n->op, *domain = n->domain;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (version < table[i].before && !(standard && table[i].before == INT64_MAX) && !strcmp(op, table[i].op) &&
        !strcmp(domain, table[i].domain))
      table[i].apply(g, n);
}
