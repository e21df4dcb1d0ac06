/* What does a node of trees compute, as tables for a walk?
 *
 * Three operators write trees as columns of attributes: two name nodes by tree and number and give each leaf any number
 * of votes, the newest counts nodes and leaves. All become the same: nodes, first the inner ones, with a feature, a
 * split, a comparison and two children, a leaf being its own, so that a walk that has come to its end needs no test; a
 * weight for every leaf and target; and the number of steps from a root to the deepest leaf (ops/ml.ek, TreeScores). A
 * test for membership becomes a chain of tests for equality. The tables are f64 where the model says numbers as f64,
 * else f32. Afterwards: every child exists, no tree runs in a circle. Where the least or the greatest vote counts, NaN
 * stands for no vote.
 */
#include "onnx/expand.h"
#include <math.h>
#include <string.h>

typedef struct forest {
  graph *g;         /* the graph */
  node *n;          /* the node */
  uint32_t inner;   /* number of inner nodes */
  uint32_t leaves;  /* number of leaves */
  uint32_t roots;   /* number of trees */
  uint32_t depth;   /* steps from a root to the deepest leaf */
  int64_t targets;  /* number of targets */
  int64_t *root;    /* root of each tree */
  int64_t *feature; /* per node: feature that it tests */
  int64_t *mode;    /* per node: comparison */
  int64_t *yes;     /* per node: next node where the test holds; a leaf is its own */
  int64_t *no;      /* per node: next node where it does not */
  int64_t *missing; /* per node: NaN follows `yes` */
  double *split;    /* per node: number that it compares with */
  double *weight;   /* leaves x targets */
  double *base;     /* added to each target */
  etype numbers;    /* element type of the tables */
  bool own_type;    /* the scores have the type of the features, not f32 */
} forest;

static bool bad_tree(const graph *g, const node *n, const char *why) {
  diag_error(g->c, E_MODEL, n->name, "%s: %s", n->op, why);
  return false;
}
static const char *text_attr(const node *n, const char *name, const char *otherwise) {
  const attr *a = node_attr(n, name);
  return a && a->kind == AK_STRING ? a->s : otherwise;
}
/* Attributes of floats that stand for whole numbers: far ones and NaN are far away from every table. */
static int64_t whole_of(double v) { return v > -0x1p62 && v < 0x1p62 ? (int64_t)v : INT64_MIN / 2; }
/* A column of numbers, as a list or as a tensor: count entries, or NULL. */
static const double *column(graph *g, const node *n, const char *prefix, const char *name, uint32_t *count,
                            bool *wide) {
  arena *a = ctx_arena(g->c);
  const attr *at = node_attr(n, arena_fmt(a, "%s%s", prefix, name)),
             *te = node_attr(n, arena_fmt(a, "%s%s_as_tensor", prefix, name));
  if (!te) te = at;
  double *v;
  int64_t m;
  if (te && te->kind == AK_TENSOR && te->tensor->data && nd_count(te->tensor, &m) && et_bytes(te->tensor->type) &&
      m < INT32_MAX) {
    etype t = te->tensor->type;
    v = NEWN(a, double, m + 1);
    for (int64_t i = 0; i < m; i++) {
      scalar x = et_load(t, (const uint8_t *)te->tensor->data + i * et_bytes(t));
      v[i] = et_kind(t) == K_FLOAT ? x.f : (double)x.i;
    }
    *wide |= t == ET_F64;
    return *count = (uint32_t)m, v;
  }
  *count = at ? at->n : 0;
  if (!at || (at->kind != AK_INTS && at->kind != AK_FLOATS)) return NULL;
  v = NEWN(a, double, at->n + 1);
  for (uint32_t i = 0; i < at->n; i++) v[i] = at->kind == AK_INTS ? (double)at->ints[i] : at->floats[i];
  return v;
}

/* Steps from a root to the deepest leaf; false if a tree runs in a circle. */
static bool deepest(forest *f) {
  arena *a = ctx_arena(f->g->c);
  uint32_t *below = NEWN(a, uint32_t, f->inner + 1), *stack = NEWN(a, uint32_t, f->inner + 3);
  uint8_t *state = NEWN(a, uint8_t, f->inner + 1); /* 0 not met, 1 on the way down, 2 done */
  for (uint32_t r = 0; r < f->roots; r++) {
    if (f->root[r] >= f->inner) continue;
    uint32_t top = 0;
    stack[top++] = (uint32_t)f->root[r];
    while (top) {
      uint32_t k = stack[top - 1];
      int64_t child[2] = {f->yes[k], f->no[k]};
      if (state[k] == 2) {
        top--;
      } else if (state[k] == 0) {
        state[k] = 1;
        for (int i = 0; i < 2; i++) {
          if (child[i] >= f->inner || state[child[i]] == 2) continue;
          if (state[child[i]] == 1 || top > f->inner) return bad_tree(f->g, f->n, "a tree that runs in a circle");
          stack[top++] = (uint32_t)child[i];
        }
      } else {
        for (int i = 0; i < 2; i++)
          if (child[i] < f->inner && below[child[i]] > below[k]) below[k] = below[child[i]];
        below[k] += !EK_PLANTED("onnx-trees");
        state[k] = 2, top--;
      }
    }
    if (below[f->root[r]] > f->depth) f->depth = below[f->root[r]];
  }
  return true;
}

/* ---- the tables as constants ----------------------------------------------------------------- */
static void put(forest *f, node *n, const char *name, etype t, const void *data, int64_t d0, int64_t d1) {
  ndarray d = {.type = t,
               .rank = d1 < 0 ? 1 : 2,
               .dims = {d0, d1},
               .data = data,
               .bytes = (size_t)(d0 * (d1 < 0 ? 1 : d1)) * et_bytes(t)};
  expand_give(f->g, n, graph_const(f->g, arena_fmt(ctx_arena(f->g->c), "%s.%s", n->name, name), &d));
}
static void put_numbers(forest *f, node *n, const char *name, const double *v, int64_t d0, int64_t d1) {
  size_t count = (size_t)(d0 * (d1 < 0 ? 1 : d1)), each = et_bytes(f->numbers);
  uint8_t *data = arena_array(ctx_arena(f->g->c), count + 1, each);
  for (size_t i = 0; i < count; i++) et_store(f->numbers, data + i * each, (scalar){.f = v[i]});
  put(f, n, name, f->numbers, data, d0, d1);
}
/* Trees of one leaf vote the same whatever comes: where votes are added, all of them are one. */
static void join_leaves(forest *f, const char *aggregate) {
  uint32_t kept = 0;
  int64_t one = -1;
  bool *child = NEWN(ctx_arena(f->g->c), bool, f->inner + f->leaves + 1);
  for (uint32_t i = 0; i < f->inner; i++) child[f->yes[i]] = child[f->no[i]] = true;
  for (uint32_t i = 0; i < f->roots; i++) {
    int64_t r = f->root[i];
    bool leaf = r >= f->inner && !child[r] && !strcmp(aggregate, "SUM");
    if (leaf && one >= 0 && one != r)
      for (int64_t t = 0; t < f->targets; t++)
        f->weight[(one - f->inner) * f->targets + t] += f->weight[(r - f->inner) * f->targets + t];
    if (leaf && one >= 0 && one != r) continue;
    if (leaf) one = r;
    f->root[kept++] = r;
  }
  f->roots = kept;
}
/* The scores in front of the node; the node itself becomes what follows them. */
static bool scores(forest *f, const char *aggregate, const char *follows) {
  graph *g = f->g;
  node *n = f->n;
  if (!deepest(f)) return false;
  join_leaves(f, aggregate);
  node *s = expand_before(g, n, "TreeScores", "einkorn", "scores");
  expand_give(g, s, n->in.n ? n->in.v[0] : NULL);
  node_set_int(g, s, "depth", f->depth);
  node_set_int(g, s, "own_type", f->own_type);
  node_set_string(g, s, "aggregate", aggregate);
  uint32_t m = f->inner + f->leaves;
  for (uint32_t i = f->inner; i < m; i++) {
    f->yes[i] = f->no[i] = i;
    /* where all do alike, a formula need not look */
    if (f->inner) f->mode[i] = f->mode[0], f->missing[i] = f->missing[0];
  }
  put(f, s, "roots", ET_I64, f->root, f->roots, -1), put(f, s, "features", ET_I64, f->feature, m, -1),
      put_numbers(f, s, "splits", f->split, m, -1);
  put(f, s, "modes", ET_I64, f->mode, m, -1), put(f, s, "yes", ET_I64, f->yes, m, -1),
      put(f, s, "no", ET_I64, f->no, m, -1), put(f, s, "missing", ET_I64, f->missing, m, -1);
  put_numbers(f, s, "weights", f->weight, f->leaves, f->targets), put_numbers(f, s, "base", f->base, f->targets, -1);
  n->op = follows, n->domain = "einkorn";
  memset(&n->attrs, 0, sizeof n->attrs);
  n->in.n = 0;
  expand_give(g, n, graph_result(g, s, s->name));
  return true;
}
static void tables(forest *f, size_t inner, size_t leaves, int64_t targets, const char *aggregate) {
  arena *a = ctx_arena(f->g->c);
  size_t all = inner + leaves + 1;
  f->feature = NEWN(a, int64_t, all), f->mode = NEWN(a, int64_t, all), f->missing = NEWN(a, int64_t, all),
  f->yes = NEWN(a, int64_t, all), f->no = NEWN(a, int64_t, all);
  f->split = NEWN(a, double, all), f->weight = arena_array(a, leaves * (size_t)targets + 1, sizeof(double)),
  f->base = NEWN(a, double, targets + 1);
  f->inner = (uint32_t)inner, f->leaves = (uint32_t)leaves, f->targets = targets;
  bool least = !strcmp(aggregate, "MIN") || !strcmp(aggregate, "MAX");
  for (size_t i = 0; i < leaves * (size_t)targets; i++) f->weight[i] = least ? NAN : 0;
}
static void vote(forest *f, int64_t leaf, int64_t target, double weight) {
  double *w = &f->weight[leaf * f->targets + target];
  *w = isnan(*w) ? weight : *w + weight;
}

/* ---- nodes named by tree and number ---------------------------------------------------------- */
static uint64_t node_key(double tree, double id) { return (uint64_t)whole_of(tree) << 32 ^ (uint64_t)whole_of(id); }
static void named(graph *g, node *n, const char *votes, bool classes) {
  arena *a = ctx_arena(g->c);
  forest f = {.g = g, .n = n};
  map *at = map_new(a);
  uint32_t m, ni, nf, nv, ny, nn, nm, vt, vn, vi, vw, nb, i, inner = 0, leaves = 0;
  bool wide = false;
  const attr *modes = node_attr(n, "nodes_modes");
  const double *tree = column(g, n, "nodes_", "treeids", &m, &wide),
               *id = column(g, n, "nodes_", "nodeids", &ni, &wide),
               *feature = column(g, n, "nodes_", "featureids", &nf, &wide);
  const double *split = column(g, n, "nodes_", "values", &nv, &wide),
               *missing = column(g, n, "nodes_", "missing_value_tracks_true", &nm, &wide);
  const double *yes = column(g, n, "nodes_", "truenodeids", &ny, &wide),
               *no = column(g, n, "nodes_", "falsenodeids", &nn, &wide);
  const double *v_tree = column(g, n, votes, "treeids", &vt, &wide),
               *v_node = column(g, n, votes, "nodeids", &vn, &wide), *v_id = column(g, n, votes, "ids", &vi, &wide);
  const double *v_weight = column(g, n, votes, "weights", &vw, &wide),
               *base = column(g, n, "", "base_values", &nb, &wide);
  f.numbers = wide ? ET_F64 : ET_F32;
  if (!m || ni != m || nf != m || nv != m || ny != m || nn != m || (missing && nm != m) || !modes ||
      modes->kind != AK_STRINGS || modes->n != m || vn != vt || vi != vt || vw != vt || !vt || !tree || !id ||
      !feature || !split || !yes || !no || !v_tree || !v_node || !v_id || !v_weight) {
    bad_tree(g, n, "the columns of attributes are missing or of different lengths");
    return;
  }
  const attr *labels = node_attr(n, "classlabels_strings"), *count = node_attr(n, "n_targets");
  if (!labels || !labels->n) labels = node_attr(n, "classlabels_int64s");
  int64_t targets = classes ? (labels ? labels->n : 0) : count && count->kind == AK_INT ? count->i : 1;
  bool one = classes && targets == 2, positive = true;
  for (i = 0; i < vt; i++) one &= v_id[i] == v_id[0], positive &= v_weight[i] >= 0;
  if (one) targets = 1;
  if (targets < 1 || targets > 1 << 20) {
    bad_tree(g, n, "a number of targets or class labels is expected");
    return;
  }
  static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                      "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
  uint8_t *mode = NEWN(a, uint8_t, m);
  for (i = 0; i < m; i++) {
    while (mode[i] < 7 && strcmp(modes->strings[i], names[mode[i]])) mode[i]++;
    if (mode[i] == 7) {
      bad_tree(g, n, arena_fmt(a, "the node mode '%.40s' is not known", modes->strings[i]));
      return;
    }
    if (mode[i] == 6) leaves++;
    map_putu(at, node_key(tree[i], id[i]), i);
  }
  const char *aggregate = text_attr(n, "aggregate_function", "SUM");
  tables(&f, m - leaves, leaves, targets, aggregate);
  f.root = NEWN(a, int64_t, m);
  int64_t *place = NEWN(a, int64_t, m); /* row of each node, as children name it */
  leaves = f.inner;
  for (i = 0; i < m; i++) {
    place[i] = mode[i] == 6 ? leaves++ : inner++;
    if (i == 0 || tree[i] != tree[i - 1]) f.root[f.roots++] = place[i]; /* a tree's first node is its root */
  }
  for (i = 0; i < m; i++) {
    uint64_t c[2];
    if (mode[i] == 6) continue;
    if (!map_getu(at, node_key(tree[i], yes[i]), &c[0]) || !map_getu(at, node_key(tree[i], no[i]), &c[1])) {
      bad_tree(g, n, "a child that is no node");
      return;
    }
    int64_t k = place[i];
    f.feature[k] = whole_of(feature[i]), f.split[k] = split[i], f.mode[k] = mode[i],
    f.missing[k] = missing ? whole_of(missing[i]) : 0, f.yes[k] = place[c[0]], f.no[k] = place[c[1]];
  }
  for (i = 0; i < vt; i++) {
    uint64_t r;
    int64_t t = one ? 0 : whole_of(v_id[i]);
    if (!map_getu(at, node_key(v_tree[i], v_node[i]), &r) || mode[r] != 6 || t < 0 || t >= targets) {
      bad_tree(g, n, "a vote of what is no leaf, or for what is no target");
      return;
    }
    vote(&f, place[r] - f.inner, t, v_weight[i]);
  }
  for (int64_t t = 0; t < targets && base; t++)
    f.base[t] = nb == (uint32_t)targets ? base[t] : nb == 2 && one ? base[1] : 0;
  const char *post = text_attr(n, "post_transform", "NONE");
  if (!scores(&f, aggregate, classes ? "TreeClasses" : "TreeTargets")) return;
  node_set_string(g, n, "post_transform", post);
  if (classes) {
    vec_push(a, n->attrs, *labels);
    node_set_int(g, n, "binary", one ? (positive ? 1 : 2) : 0);
  }
}
void trees_targets(graph *g, node *n) { named(g, n, "target_", false); }
void trees_classes(graph *g, node *n) { named(g, n, "class_", true); }

/* ---- nodes and leaves counted ---------------------------------------------------------------- */
static int64_t whole(const node *n, const char *name, int64_t otherwise) {
  const attr *a = node_attr(n, name);
  return a && a->kind == AK_INT ? a->i : otherwise;
}
void trees_ensemble(graph *g, node *n) {
  arena *a = ctx_arena(g->c);
  forest f = {.g = g, .n = n, .own_type = true};
  enum { MEMBER = 6 };
  bool wide = false;
  uint32_t m, nf, nm, ny, nn, nt, nl, nq, nr, lw, lt, nset, set = 0, more = 0;
  const double *split = column(g, n, "", "nodes_splits", &m, &wide),
               *feature = column(g, n, "", "nodes_featureids", &nf, &wide),
               *mode = column(g, n, "", "nodes_modes", &nm, &wide);
  const double *yes = column(g, n, "", "nodes_truenodeids", &ny, &wide),
               *no = column(g, n, "", "nodes_falsenodeids", &nn, &wide),
               *yes_leaf = column(g, n, "", "nodes_trueleafs", &nt, &wide);
  const double *no_leaf = column(g, n, "", "nodes_falseleafs", &nl, &wide),
               *missing = column(g, n, "", "nodes_missing_value_tracks_true", &nq, &wide),
               *root = column(g, n, "", "tree_roots", &nr, &wide);
  const double *weight = column(g, n, "", "leaf_weights", &lw, &wide),
               *target = column(g, n, "", "leaf_targetids", &lt, &wide),
               *members = column(g, n, "", "membership_values", &nset, &wide);
  static const char *const how[] = {"AVERAGE", "SUM", "MIN", "MAX"}, *const then[] = {"NONE", "SOFTMAX", "LOGISTIC",
                                                                                      "SOFTMAX_ZERO", "PROBIT"};
  int64_t aggregate = whole(n, "aggregate_function", 1), post = whole(n, "post_transform", 0),
          targets = whole(n, "n_targets", 1);
  f.numbers = wide ? ET_F64 : ET_F32;
  if (!m || nf != m || nm != m || ny != m || nn != m || nt != m || nl != m || (missing && nq != m) || !root || !lw ||
      lt != lw || !split || !feature || !mode || !yes || !no || !yes_leaf || !no_leaf || !weight || !target) {
    bad_tree(g, n, "the columns of attributes are missing or of different lengths");
    return;
  }
  if (aggregate < 0 || aggregate > 3 || post < 0 || post > 4 || targets < 1 || targets > 1 << 20) {
    bad_tree(g, n, "aggregate_function is 0 to 3, post_transform 0 to 4, n_targets at least 1");
    return;
  }
  for (uint32_t i = 0; i < nset; i++) more += !isnan(members[i]);
  tables(&f, (size_t)m + more, lw, targets, how[aggregate]); /* chains of tests stand behind the model's own nodes */
  uint32_t next = m;
  for (uint32_t i = 0; i < m; i++) {
    if (!(mode[i] >= 0 && mode[i] <= MEMBER && yes[i] >= 0 && no[i] >= 0 && yes[i] < (yes_leaf[i] != 0 ? lw : m) &&
          no[i] < (no_leaf[i] != 0 ? lw : m))) {
      bad_tree(g, n, "a mode that is not known, or a child that is no node");
      return;
    }
    int64_t to_yes = (int64_t)yes[i] + (yes_leaf[i] != 0 ? f.inner : 0),
            to_no = (int64_t)no[i] + (no_leaf[i] != 0 ? f.inner : 0);
    f.feature[i] = whole_of(feature[i]), f.missing[i] = missing ? whole_of(missing[i]) : 0, f.yes[i] = to_yes,
    f.no[i] = to_no, f.mode[i] = (int64_t)mode[i], f.split[i] = split[i];
    if (mode[i] != MEMBER) continue;
    f.mode[i] = 4, f.split[i] = NAN; /* membership in an empty set: equal to nothing */
    uint32_t last = i;
    for (bool first = true; set < nset && !isnan(members[set]); set++, first = false) {
      if (!first)
        f.no[last] = next, last = next++, f.feature[last] = f.feature[i], f.yes[last] = to_yes, f.no[last] = to_no,
        f.mode[last] = 4;
      f.split[last] = members[set];
    }
    set++;
  }
  for (uint32_t i = next; i < f.inner; i++) f.yes[i] = f.no[i] = f.inner; /* no node leads to these */
  for (uint32_t i = 0; i < lw; i++) {
    if (!(target[i] >= 0 && target[i] < (double)targets)) {
      bad_tree(g, n, "a leaf for what is no target");
      return;
    }
    vote(&f, i, (int64_t)target[i], weight[i]);
  }
  f.root = NEWN(a, int64_t, nr + 1), f.roots = nr;
  for (uint32_t i = 0; i < nr; i++) {
    if (!(root[i] >= 0 && root[i] < m)) {
      bad_tree(g, n, "a root that is no node");
      return;
    }
    f.root[i] = (int64_t)root[i];
  }
  if (scores(&f, how[aggregate], "TreeTargets")) node_set_string(g, n, "post_transform", then[post]);
}
