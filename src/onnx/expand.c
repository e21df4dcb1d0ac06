/* Which nodes stand for several, and for which?
 *
 * Four kinds, one table. An operator on any number of groups of tensors (an optimiser that updates many parameters at once) becomes a node per group. An operator with regions that are formulas, not control
 * flow (attention with its own score function) becomes nodes with the regions between them, so that the definitions of the parts and the model's own formula are fused like any others. A recurrence over a
 * batch becomes a recurrence of recurrences. Trees written as columns of attributes become tables for a walk (their depth, children and leaves are found here). The last node is always the given one, changed.
 */
#include "onnx/expand.h"
#include <string.h>

static value *input(const node *n, uint32_t i) { return i < n->in.n ? n->in.v[i] : NULL; }

/* A node in front of n, which is and stays the last. */
static node *before(graph *g, node *n, const char *op, const char *domain, const char *what) {
  node *made = graph_node(g, op, domain, arena_fmt(ctx_arena(g->c), "%s.%s", n->name, what));
  g->nodes.v[g->nodes.n - 2] = made;
  g->nodes.v[g->nodes.n - 1] = n;
  return made;
}
static value *result(graph *g, node *n) {
  value *v = graph_value(g, n->name);
  v->def = n;
  vec_push(ctx_arena(g->c), n->out, v);
  return v;
}
static void give(graph *g, node *n, value *v) { vec_push(ctx_arena(g->c), n->in, v); }
static void copy_attr(graph *g, node *to, const node *from, const char *name) {
  const attr *a = node_attr(from, name);
  if (a) vec_push(ctx_arena(g->c), to->attrs, *a);
}

/* ---- groups: inputs are `lead` common ones, then `kinds` runs of one tensor per group; outputs are `results` runs --------------------------------------- */
static void groups(graph *g, node *n, uint32_t lead, uint32_t kinds, uint32_t results) {
  arena *a = ctx_arena(g->c);
  uint32_t per = n->in.n > lead ? (n->in.n - lead) / kinds : 0;
  if (per == 0 || per * kinds + lead != n->in.n || n->out.n > per * results) {
    diag_error(g->c, E_MODEL, n->name, "%s has %u inputs and %u outputs; %u inputs, then %u for each tensor, and at most %u outputs for each tensor are expected", n->op, n->in.n, n->out.n, lead, kinds, results);
    return;
  }
  node all = *n;
  for (uint32_t k = 0; k < per; k++) {
    node *one = k + 1 < per ? before(g, n, n->op, n->domain, arena_fmt(a, "%u", k)) : n;
    if (one != n)
      for (uint32_t i = 0; i < n->attrs.n; i++) vec_push(a, one->attrs, n->attrs.v[i]);
    memset(&one->in, 0, sizeof one->in), memset(&one->out, 0, sizeof one->out);
    for (uint32_t i = 0; i < lead; i++) give(g, one, all.in.v[i]);
    for (uint32_t i = 0; i < kinds; i++) give(g, one, all.in.v[lead + i * per + k]);
    for (uint32_t i = 0; i < results && i * per + k < all.out.n; i++) {
      value *v = all.out.v[i * per + k];
      vec_push(a, one->out, v);
      if (v) v->def = one;
    }
  }
}
static void gradient_step(graph *g, node *n) { groups(g, n, 2, 3, 2); }
static void adam_step(graph *g, node *n) { groups(g, n, 2, 4, 3); }

/* ---- regions that are formulas -------------------------------------------------------------------------------------------------------------------------- */
/* The region's nodes go in front of n; its only input is v. Returns its only output. */
static value *formula(graph *g, node *n, const char *attr_name, value *v) {
  arena *a = ctx_arena(g->c);
  const attr *at = node_attr(n, attr_name);
  if (!at) return v;
  graph *r = at->kind == AK_GRAPH ? at->g : NULL;
  if (!r || r->inputs.n != 1 || r->outputs.n != 1) {
    diag_error(g->c, E_MODEL, n->name, "attribute '%s' of %s must be a graph with one input and one output", attr_name, n->op);
    return v;
  }
  node *pass = before(g, n, "Identity", "", r->name[0] ? r->name : attr_name);
  give(g, pass, v);
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
  node *scores = before(g, n, "AttentionScores", "einkorn", "scores");
  give(g, scores, q), give(g, scores, k);
  copy_attr(g, scores, n, "scale"), copy_attr(g, scores, n, "softmax_precision");
  value *s = formula(g, n, "score_mod", result(g, scores));
  node *soft = before(g, n, "Softmax", "", "probabilities");
  give(g, soft, s);
  value *p = formula(g, n, "prob_mod", result(g, soft));
  n->op = "AttentionValues", n->domain = "einkorn";
  n->in.n = 0, n->attrs.n = 0;
  give(g, n, p), give(g, n, v);
}

/* ---- before 9 Scan went over the examples of a batch too: input 0 is their lengths, every other input and output has the batch in front -------------------- */
static void batched_scan(graph *g, node *n) {
  arena *a = ctx_arena(g->c);
  const attr *body = node_attr(n, "body"), *count = node_attr(n, "num_scan_inputs"), *ways = node_attr(n, "directions");
  if (!body || body->kind != AK_GRAPH || !count || count->kind != AK_INT || n->in.n < 2) {
    diag_error(g->c, E_MODEL, n->name, "Scan needs a body, num_scan_inputs and inputs");
    return;
  }
  if (n->in.v[0]) {
    diag_error(g->c, E_UNSUPPORTED, n->name, "Scan as of opset 8: sequences of different lengths in one batch are not supported; save the model with opset 9 or newer");
    return;
  }
  graph *each = graph_new(g->c, g, arena_fmt(a, "%s.example", n->name));
  node *inner = graph_node(each, "Scan", "", arena_fmt(a, "%s.one", n->name));
  for (uint32_t i = 1; i < n->in.n; i++) {
    value *v = graph_value(each, arena_fmt(a, "%s.in%u", n->name, i));
    vec_push(a, each->inputs, v);
    give(each, inner, v);
  }
  for (uint32_t i = 0; i < n->out.n; i++) vec_push(a, each->outputs, result(each, inner));
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

/* ---- the older operators on trees: nodes and votes in columns of attributes; new form: ops/ml.ek, TreeScores ------------------------------------------------ */
static void put_tensor(graph *g, node *n, const char *name, etype t, const void *data, int64_t d0, int64_t d1) {
  ndarray d = {.type = t, .rank = d1 < 0 ? 1 : 2, .dims = {d0, d1}, .data = data, .bytes = (size_t)(d0 * (d1 < 0 ? 1 : d1)) * et_bytes(t)};
  give(g, n, graph_const(g, arena_fmt(ctx_arena(g->c), "%s.%s", n->name, name), &d));
}
/* A column of numbers, as a list or as a tensor: count entries, or NULL. */
static const double *column(graph *g, const node *n, const char *prefix, const char *name, uint32_t *count) {
  arena *a = ctx_arena(g->c);
  const attr *at = node_attr(n, arena_fmt(a, "%s%s", prefix, name)), *te = node_attr(n, arena_fmt(a, "%s%s_as_tensor", prefix, name));
  double *v;
  int64_t m;
  if (te && te->kind == AK_TENSOR && nd_count(te->tensor, &m) && et_kind(te->tensor->type) == K_FLOAT && m < INT32_MAX) {
    v = NEWN(a, double, m + 1);
    for (int64_t i = 0; i < m; i++) v[i] = et_load(te->tensor->type, (const uint8_t *)te->tensor->data + i * et_bytes(te->tensor->type)).f;
    return *count = (uint32_t)m, v;
  }
  *count = at ? at->n : 0;
  if (!at || (at->kind != AK_INTS && at->kind != AK_FLOATS)) return NULL;
  v = NEWN(a, double, at->n + 1);
  for (uint32_t i = 0; i < at->n; i++) v[i] = at->kind == AK_INTS ? (double)at->ints[i] : at->floats[i];
  return v;
}
static const char *text_attr(const node *n, const char *name, const char *otherwise) {
  const attr *a = node_attr(n, name);
  return a && a->kind == AK_STRING ? a->s : otherwise;
}
typedef struct forest {
  graph *g;
  node *n;
  uint32_t nodes, inner, leaves, depth;
  const double *tree, *id, *yes, *no;
  const attr *modes;
  map *at;      /* tree, id -> row */
  int64_t *place; /* of a row: inner number, or -1 - leaf number */
} forest;
static bool row_of(const forest *f, double tree, double id, uint64_t *row) { return map_getu(f->at, (uint64_t)(int64_t)tree << 32 ^ (uint64_t)(int64_t)id, row); }
static bool bad_tree(const forest *f, const char *why) {
  diag_error(f->g->c, E_MODEL, f->n->name, "%s: %s", f->n->op, why);
  return false;
}
/* Depth below a row; false if it runs in a circle or names what is not there. */
static bool depth_of(const forest *f, uint64_t row, uint32_t *below, uint8_t *state) {
  uint32_t top = 0, *stack = NEWN(ctx_arena(f->g->c), uint32_t, f->nodes + 2);
  stack[top++] = (uint32_t)row;
  while (top) {
    uint32_t k = stack[top - 1];
    uint64_t c[2];
    if (f->place[k] < 0 || state[k] == 2) {
      state[k] = 2, top--;
      continue;
    }
    if (!row_of(f, f->tree[k], f->yes[k], &c[0]) || !row_of(f, f->tree[k], f->no[k], &c[1])) return bad_tree(f, "a child that is no node");
    if (state[k] == 0) {
      state[k] = 1;
      for (int i = 0; i < 2; i++) {
        if (state[c[i]] == 1) return bad_tree(f, "a tree that runs in a circle");
        if (state[c[i]] == 0) stack[top++] = (uint32_t)c[i];
        if (top > f->nodes) return bad_tree(f, "a tree that runs in a circle");
      }
      continue;
    }
    below[k] = 1 + (below[c[0]] > below[c[1]] ? below[c[0]] : below[c[1]]);
    state[k] = 2, top--;
  }
  return true;
}
static void trees(graph *g, node *n, const char *votes, bool classes) {
  arena *a = ctx_arena(g->c);
  forest f = {.g = g, .n = n, .modes = node_attr(n, "nodes_modes"), .at = map_new(a)};
  uint32_t nf, nv, ny, nn, nm, vt, vn, vi, vw, nb, i;
  f.tree = column(g, n, "nodes_", "treeids", &f.nodes), f.id = column(g, n, "nodes_", "nodeids", &i);
  const double *feature = column(g, n, "nodes_", "featureids", &nf), *split = column(g, n, "nodes_", "values", &nv), *missing = column(g, n, "nodes_", "missing_value_tracks_true", &nm);
  f.yes = column(g, n, "nodes_", "truenodeids", &ny), f.no = column(g, n, "nodes_", "falsenodeids", &nn);
  const double *v_tree = column(g, n, votes, "treeids", &vt), *v_node = column(g, n, votes, "nodeids", &vn), *v_id = column(g, n, votes, "ids", &vi), *v_weight = column(g, n, votes, "weights", &vw);
  const double *base = column(g, n, "", "base_values", &nb);
  uint32_t m = f.nodes;
  if (!m || i != m || nf != m || nv != m || ny != m || nn != m || (missing && nm != m) || !f.modes || f.modes->kind != AK_STRINGS || f.modes->n != m || vn != vt || vi != vt || vw != vt || !vt) {
    bad_tree(&f, "the columns of attributes are missing or of different lengths");
    return;
  }
  const attr *labels = node_attr(n, "classlabels_strings"), *count = node_attr(n, "n_targets");
  if (!labels || !labels->n) labels = node_attr(n, "classlabels_int64s");
  int64_t targets = classes ? (labels ? labels->n : 0) : count && count->kind == AK_INT ? count->i : 1;
  bool one = classes && targets == 2, positive = true;
  for (i = 0; i < vt; i++) one &= v_id[i] == v_id[0], positive &= v_weight[i] >= 0;
  if (one) targets = 1;
  if (targets < 1 || targets > 1 << 20) {
    bad_tree(&f, "a number of targets or class labels is expected");
    return;
  }
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "LEAF"};
  int64_t *mode = NEWN(a, int64_t, m), *roots = NEWN(a, int64_t, m);
  uint32_t *row_at = NEWN(a, uint32_t, m), nroots = 0;
  f.place = NEWN(a, int64_t, m);
  for (i = 0; i < m; i++) {
    int k = 0;
    while (k < 7 && strcmp(f.modes->strings[i], names[k])) k++;
    if (k == 7) {
      bad_tree(&f, arena_fmt(a, "the node mode '%.40s' is not known", f.modes->strings[i]));
      return;
    }
    f.place[i] = k == 6 ? -1 - (int64_t)f.leaves++ : (int64_t)f.inner++;
    if (k < 6) mode[f.inner - 1] = k, row_at[f.inner - 1] = i;
    map_putu(f.at, (uint64_t)(int64_t)f.tree[i] << 32 ^ (uint64_t)(int64_t)f.id[i], i);
  }
#define CHILD(row) (f.place[row] < 0 ? (int64_t)f.inner - 1 - f.place[row] : f.place[row])
  uint8_t *state = NEWN(a, uint8_t, m);
  uint32_t *below = NEWN(a, uint32_t, m);
  for (i = 0; i < m; i++)
    if (i == 0 || f.tree[i] != f.tree[i - 1]) { /* a tree's first node is its root */
      if (!depth_of(&f, i, below, state)) return;
      if (below[i] > f.depth) f.depth = below[i];
      roots[nroots++] = CHILD(i);
    }
  int64_t *features = NEWN(a, int64_t, f.inner + 1), *yes = NEWN(a, int64_t, f.inner + 1), *no = NEWN(a, int64_t, f.inner + 1), *miss = NEWN(a, int64_t, f.inner + 1);
  float *splits = NEWN(a, float, f.inner + 1), *weights = arena_array(a, (size_t)f.leaves * (size_t)targets + 1, sizeof(float)), *start = NEWN(a, float, targets);
  for (uint32_t k = 0; k < f.inner; k++) {
    uint64_t c[2];
    uint32_t r = row_at[k];
    if (!row_of(&f, f.tree[r], f.yes[r], &c[0]) || !row_of(&f, f.tree[r], f.no[r], &c[1])) {
      bad_tree(&f, "a child that is no node");
      return;
    }
    features[k] = (int64_t)feature[r], splits[k] = (float)split[r], miss[k] = missing ? (int64_t)missing[r] : 0;
    yes[k] = CHILD(c[0]), no[k] = CHILD(c[1]);
  }
  for (i = 0; i < vt; i++) {
    uint64_t r;
    int64_t t = one ? 0 : (int64_t)v_id[i];
    if (!row_of(&f, v_tree[i], v_node[i], &r) || f.place[r] >= 0 || t < 0 || t >= targets) {
      bad_tree(&f, "a vote of what is no leaf, or for what is no target");
      return;
    }
    weights[(-1 - f.place[r]) * targets + t] += (float)v_weight[i];
  }
  for (int64_t t = 0; t < targets && base; t++) start[t] = (float)(nb == (uint32_t)targets ? base[t] : nb == 2 && one ? base[1] : 0);
  node *scores = before(g, n, "TreeScores", "einkorn", "scores");
  give(g, scores, input(n, 0));
  node_set_int(g, scores, "depth", f.depth);
  node_set_string(g, scores, "aggregate", text_attr(n, "aggregate_function", "SUM"));
  put_tensor(g, scores, "roots", ET_I64, roots, nroots, -1), put_tensor(g, scores, "features", ET_I64, features, f.inner, -1), put_tensor(g, scores, "splits", ET_F32, splits, f.inner, -1);
  put_tensor(g, scores, "modes", ET_I64, mode, f.inner, -1), put_tensor(g, scores, "yes", ET_I64, yes, f.inner, -1), put_tensor(g, scores, "no", ET_I64, no, f.inner, -1);
  put_tensor(g, scores, "missing", ET_I64, miss, f.inner, -1), put_tensor(g, scores, "weights", ET_F32, weights, f.leaves, targets), put_tensor(g, scores, "base", ET_F32, start, targets, -1);
  node old = *n;
  n->op = classes ? "TreeClasses" : "TreeTargets", n->domain = "einkorn";
  memset(&n->attrs, 0, sizeof n->attrs);
  node_set_string(g, n, "post_transform", text_attr(&old, "post_transform", "NONE"));
  if (classes) {
    vec_push(a, n->attrs, *labels);
    node_set_int(g, n, "binary", one ? (positive ? 1 : 2) : 0);
  }
  n->in.n = 0;
  give(g, n, result(g, scores));
#undef CHILD
}
/* A map from label to score for each row: the scores stay a tensor, the labels are what the model's other output already says. */
static void zip_map(graph *g, node *n) {
  diag_add(g->c, D_NOTE, E_OK, (srcpos){0}, n->name, "ZipMap: the scores are given as a tensor, without the labels as keys");
  n->op = "Identity", n->domain = "";
  n->attrs.n = 0;
}
static void tree_targets(graph *g, node *n) { trees(g, n, "target_", false); }
static void tree_classes(graph *g, node *n) { trees(g, n, "class_", true); }

static const struct {
  const char *domain, *op;
  int64_t before; /* versions this holds for */
  void (*apply)(graph *g, node *n);
} table[] = {
    {"ai.onnx.preview.training", "Adagrad", INT64_MAX, gradient_step},
    {"ai.onnx.preview.training", "Momentum", INT64_MAX, gradient_step},
    {"ai.onnx.preview.training", "Adam", INT64_MAX, adam_step},
    {"ai.onnx.preview", "FlexAttention", INT64_MAX, flex_attention},
    {"", "Scan", 9, batched_scan},
    {"ai.onnx.ml", "TreeEnsembleRegressor", INT64_MAX, tree_targets},
    {"ai.onnx.ml", "ZipMap", INT64_MAX, zip_map},
    {"ai.onnx.ml", "TreeEnsembleClassifier", INT64_MAX, tree_classes},
};

void expand_node(graph *g, node *n, int64_t version) {
  const char *op = n->op, *domain = n->domain;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (version < table[i].before && !strcmp(op, table[i].op) && !strcmp(domain, table[i].domain)) table[i].apply(g, n);
}
