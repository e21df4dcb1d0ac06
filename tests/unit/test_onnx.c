/* onnx: what models become, and what is said of broken ones. Small models are written here byte by byte (protobuf
 * fields), others come from tests/models. */
#include "onnx/onnx.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the standard headers */
#include <cmocka.h>

static int setup(void **state) {
  *state = ctx_new();
  return *state ? 0 : -1;
}
static int teardown(void **state) {
  ctx_free(*state);
  return 0;
}

/* ---- a writer of messages -------------------------------------------------------------------- */
static void varint(sbuf *b, uint64_t v) {
  for (; v >= 128; v >>= 7) sb_putc(b, (char)(v | 128));
  sb_putc(b, (char)v);
}
static void f_int(sbuf *b, unsigned field, int64_t v) {
  varint(b, field << 3);
  varint(b, (uint64_t)v);
}
static void f_bytes(sbuf *b, unsigned field, const void *p, size_t n) {
  varint(b, field << 3 | 2);
  varint(b, n);
  sb_putn(b, p, n);
}
static void f_text(sbuf *b, unsigned field, const char *s) { f_bytes(b, field, s, strlen(s)); }
static void f_msg(sbuf *b, unsigned field, const sbuf *m) { f_bytes(b, field, m->n ? m->s : "", m->n); }
static void f_float(sbuf *b, unsigned field, float x) {
  varint(b, field << 3 | 5);
  sb_putn(b, (const char *)&x, 4);
}

/* "x:1:2,N,?" name, element type, dims (a number, a name, or ? for unknown); no second part: no type */
static sbuf value_info(arena *a, const char *text) {
  sbuf v = sbuf_new(a), t = sbuf_new(a), tt = sbuf_new(a), sh = sbuf_new(a);
  char *s = arena_strdup(a, text), *colon = strchr(s, ':');
  if (colon) *colon = 0;
  f_text(&v, 1, s);
  if (!colon) return v;
  char *dims = strchr(colon + 1, ':');
  f_int(&tt, 1, atoi(colon + 1));
  if (dims) {
    for (char *d = strtok(dims + 1, ","); d; d = strtok(NULL, ",")) {
      sbuf dim = sbuf_new(a);
      if (strchr("-0123456789", d[0]))
        f_int(&dim, 1, atoll(d));
      else if (d[0] != '?')
        f_text(&dim, 2, d);
      f_msg(&sh, 1, &dim);
    }
    f_msg(&tt, 2, &sh);
  }
  f_msg(&t, 1, &tt);
  f_msg(&v, 2, &t);
  return v;
}

/* "Op name: a b -> c d"; attributes are put in by the caller before node_end */
static sbuf node_of(arena *a, const char *text) {
  sbuf n = sbuf_new(a);
  char *s = arena_strdup(a, text), *colon = strchr(s, ':');
  *colon = 0;
  char *op = strtok(s, " "), *name = strtok(NULL, " ");
  f_text(&n, 4, op);
  if (name) f_text(&n, 3, name);
  unsigned field = 1;
  for (char *w = strtok(colon + 1, " "); w; w = strtok(NULL, " ")) {
    if (strcmp(w, "->") == 0)
      field = 2;
    else
      f_text(&n, field, strcmp(w, "_") == 0 ? "" : w);
  }
  return n;
}
static void attr_int(sbuf *n, const char *name, int64_t v) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_int(&x, 3, v), f_int(&x, 20, 2);
  f_msg(n, 5, &x);
}
static void attr_float(sbuf *n, const char *name, float v) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_float(&x, 2, v), f_int(&x, 20, 1);
  f_msg(n, 5, &x);
}
static void attr_ints(sbuf *n, const char *name, const int64_t *v, int count) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_int(&x, 20, 7);
  for (int i = 0; i < count; i++) f_int(&x, 8, v[i]);
  f_msg(n, 5, &x);
}
static void attr_floats(sbuf *n, const char *name, const float *v, int count) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_int(&x, 20, 6);
  for (int i = 0; i < count; i++) f_float(&x, 7, v[i]);
  f_msg(n, 5, &x);
}
static void attr_words(sbuf *n, const char *name, const char *words) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_int(&x, 20, 8);
  char *s = arena_strdup(n->a, words), *save = NULL;
  for (char *w = strtok_r(s, " ", &save); w; w = strtok_r(NULL, " ", &save)) f_text(&x, 9, w);
  f_msg(n, 5, &x);
}
static void attr_graph(sbuf *n, const char *name, const sbuf *g) {
  sbuf x = sbuf_new(n->a);
  f_text(&x, 1, name), f_msg(&x, 6, g), f_int(&x, 20, 5);
  f_msg(n, 5, &x);
}

static sbuf graph_of(arena *a, const char *inputs, const char *outputs) {
  sbuf g = sbuf_new(a);
  f_text(&g, 2, "g");
  for (int k = 0; k < 2; k++) {
    char *s = arena_strdup(a, k ? outputs : inputs), *save = NULL;
    for (char *w = strtok_r(s, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
      sbuf v = value_info(a, w);
      f_msg(&g, k ? 12 : 11, &v);
    }
  }
  return g;
}
static void add(sbuf *g, const char *text) {
  sbuf n = node_of(g->a, text);
  f_msg(g, 1, &n);
}
static sbuf model_of(const sbuf *g, int64_t opset) {
  sbuf m = sbuf_new(g->a), o = sbuf_new(g->a);
  f_int(&m, 1, 8);
  f_int(&o, 2, opset);
  f_msg(&m, 8, &o);
  f_msg(&m, 7, g);
  return m;
}
static graph *load(ctx *c, const sbuf *m) {
  return onnx_load_bytes(c, (bytes){(const uint8_t *)m->s, m->n}, "test", NULL);
}
static graph *load_graph(ctx *c, const sbuf *g, int64_t opset) {
  sbuf m = model_of(g, opset);
  return load(c, &m);
}
static void init_i64(sbuf *g, const char *name, const int64_t *v, int count) {
  sbuf t = sbuf_new(g->a);
  f_int(&t, 1, count), f_int(&t, 2, 7), f_text(&t, 8, name), f_bytes(&t, 9, v, (size_t)count * 8);
  f_msg(g, 5, &t);
}

static const char *said(ctx *c) { return diag_first(c) ? diag_first(c)->text : ""; }
static void expect_error(ctx *c, const graph *g, ecode code, const char *node, const char *part) {
  assert_null(g);
  assert_non_null(diag_first(c));
  if (diag_code(c) != code || !strstr(said(c), part)) print_message("code %d: %s\n", diag_code(c), said(c));
  assert_int_equal(diag_code(c), code);
  assert_non_null(strstr(said(c), part));
  if (node) {
    assert_non_null(diag_first(c)->node);
    assert_string_equal(diag_first(c)->node, node);
  }
}

/* ---- what is read ---------------------------------------------------------------------------- */
static void plain(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf g = graph_of(a, "x:1:N,?,batch_size*2 y:7:3,N", "s");
  add(&g, "Relu late: t -> s"); /* written before what it needs */
  add(&g, "Neg early: x -> t");
  graph *r = load_graph(c, &g, 17);
  assert_non_null(r);
  assert_int_equal(r->inputs.n, 2);
  assert_string_equal(sym_str(c, r->inputs.v[0]->dims[0]), "N");
  assert_string_equal(sym_str(c, r->inputs.v[0]->dims[1]), "x.1");
  assert_string_equal(sym_str(c, r->inputs.v[0]->dims[2]), "batch_size_2");
  assert_true(r->inputs.v[1]->dims[1] == r->inputs.v[0]->dims[0]);
  assert_int_equal(r->inputs.v[1]->type, ET_I64);
  assert_string_equal(r->nodes.v[0]->name, "early");
  assert_string_equal(r->nodes.v[1]->name, "late");
  assert_ptr_equal(r->outputs.v[0], r->nodes.v[1]->out.v[0]);
  assert_ptr_equal(r->nodes.v[1]->in.v[0]->def, r->nodes.v[0]);
  assert_int_equal(r->opset, 17);
}
/* Names of sizes that say that nothing is known: no two are equal. */
static void unknown_sizes(void **state) {
  ctx *c = *state;
  sbuf g = graph_of(ctx_arena(c), "x:1:None,*,*,None", "s");
  add(&g, "Relu r: x -> s");
  graph *r = load_graph(c, &g, 17);
  assert_non_null(r);
  const value *x = r->inputs.v[0];
  static const char *const names[] = {"x.0", "x.1", "x.2", "x.3"};
  for (int i = 0; i < 4; i++) assert_string_equal(sym_str(c, x->dims[i]), names[i]);
}

static void regions_and_names(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf then = graph_of(a, "", "r"), other = graph_of(a, "", "r"), g = graph_of(a, "p:9: x:1:4", "z r");
  add(&then, "Neg n1: x -> t");
  add(&then, "Relu n2: t -> r");
  add(&other, "Identity n3: w -> r"); /* w: of the enclosing graph, produced by a node written after the If */
  sbuf n = node_of(a, "If choose: p -> z");
  attr_graph(&n, "then_branch", &then);
  attr_graph(&n, "else_branch", &other);
  f_msg(&g, 1, &n);
  add(&g, "Abs n4: x -> w");
  add(&g, "Exp n5: x -> r"); /* the outer graph keeps its name */
  graph *m = load_graph(c, &g, 17);
  assert_non_null(m);
  assert_string_equal(m->nodes.v[m->nodes.n - 1]->op, "If");
  assert_string_equal(m->outputs.v[1]->name, "r");
  const attr *t = node_attr(m->nodes.v[m->nodes.n - 1], "then_branch"),
             *e = node_attr(m->nodes.v[m->nodes.n - 1], "else_branch");
  assert_ptr_equal(t->g->parent, m);
  assert_string_not_equal(t->g->outputs.v[0]->name, e->g->outputs.v[0]->name);
  assert_string_equal(t->g->outputs.v[0]->source, "r");
  assert_string_equal(e->g->nodes.v[0]->in.v[0]->def->name, "n4");
}

static void old_forms(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf g = graph_of(a, "x:1:2,3,4", "a b d e"), n;
  const int64_t one[] = {1}, pads[] = {0, 0, 1, 0, 0, 1};
  n = node_of(a, "Squeeze sq: x -> a");
  attr_ints(&n, "axes", one, 1);
  f_msg(&g, 1, &n);
  n = node_of(a, "Clip cl: x -> b");
  attr_float(&n, "max", 6);
  f_msg(&g, 1, &n);
  n = node_of(a, "Softmax so: x -> d");
  f_msg(&g, 1, &n);
  n = node_of(a, "Pad pa: x -> e");
  attr_ints(&n, "pads", pads, 6);
  attr_float(&n, "value", 2);
  f_msg(&g, 1, &n);
  graph *m = load_graph(c, &g, 9);
  assert_non_null(m);
  static const char *const want[] = {"Squeeze", "Clip", "Shape", "Flatten", "Softmax", "Reshape", "Pad"};
  assert_int_equal(m->nodes.n, 7);
  for (uint32_t i = 0; i < 7; i++) {
    assert_string_equal(m->nodes.v[i]->op, want[i]);
    assert_int_equal(m->nodes.v[i]->id, i);
  }
  assert_int_equal(*(const int64_t *)m->nodes.v[0]->in.v[1]->data->data, 1);
  assert_null(node_attr(m->nodes.v[0], "axes"));
  assert_null(m->nodes.v[1]->in.v[1]); /* no minimum */
  assert_true(*(const float *)m->nodes.v[1]->in.v[2]->data->data == 6);
  assert_int_equal(node_attr(m->nodes.v[4], "axis")->i, -1);
  assert_ptr_equal(m->outputs.v[2]->def, m->nodes.v[5]);
  assert_true(*(const float *)m->nodes.v[6]->in.v[2]->data->data == 2);
}

/* Three calls deep: attributes by reference and by default, an omitted input, a result that is an input. */
static void functions(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf f = sbuf_new(a), n, ref = sbuf_new(a), def = sbuf_new(a), o = sbuf_new(a), g = graph_of(a, "x:1:3", "y z");
  f_text(&f, 1, "Twice"), f_text(&f, 10, "mine");
  f_text(&f, 4, "p"), f_text(&f, 4, "q"), f_text(&f, 5, "r"), f_text(&f, 5, "p");
  n = node_of(a, "LeakyRelu inner: p -> r");
  f_text(&ref, 1, "alpha"), f_text(&ref, 21, "slope"), f_int(&ref, 20, 1);
  f_msg(&n, 5, &ref);
  f_msg(&f, 7, &n);
  f_text(&def, 1, "slope"), f_float(&def, 2, 0.5f), f_int(&def, 20, 1);
  f_msg(&f, 11, &def);
  f_int(&o, 2, 17);
  f_msg(&f, 9, &o);
  n = node_of(a, "Twice call: x -> y z");
  f_text(&n, 7, "mine");
  f_msg(&g, 1, &n);
  n = node_of(a, "Twice again: y -> w");
  f_text(&n, 7, "mine");
  attr_float(&n, "slope", 0.25f);
  f_msg(&g, 1, &n);
  sbuf m = model_of(&g, 17);
  f_msg(&m, 25, &f);
  graph *r = load(c, &m);
  assert_non_null(r);
  assert_int_equal(r->nodes.n, 3);
  assert_string_equal(r->nodes.v[0]->op, "LeakyRelu");
  assert_string_equal(r->nodes.v[0]->name, "call/inner");
  assert_true(node_attr(r->nodes.v[0], "alpha")->f == 0.5);
  assert_string_equal(r->outputs.v[0]->name, "y");
  assert_string_equal(r->nodes.v[1]->op, "Identity");
  assert_ptr_equal(r->outputs.v[1]->def, r->nodes.v[1]);
  assert_true(node_attr(r->nodes.v[2], "alpha")->f == 0.25);
}

static void encodings(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  char path[] = "/tmp/ek_pb_XXXXXX";
  close(mkstemp(path));
  struct {
    int type, field;
    const char *payload;
    size_t n;
    int64_t dim;
    const char *want;
  } t[] = {
      {22, 9, "\x8f\x07", 2, 3, "\xff\xf8\x07"}, /* i4 raw: -1 -8 7 */
      {21, 9, "\x8f\x07", 2, 3, "\x0f\x08\x07"}, /* u4 */
      {26, 9, "\x1b", 1, 4, "\xff\xfe\x01\x00"}, /* i2: 3 2 1 0 */
      /* i4 as varints of a byte each: 0x8f 0x07 */
      {22, 5, "\x8f\x01\x07", 3, 3, "\xff\xf8\x07"},
      {10, 5, "\x80\x78", 2, 1, "\x00\x3c"},                                     /* f16 1.0 by its bits */
      {9, 5, "\x00\x01\x01", 3, 3, "\x00\x01\x01"},                              /* bool */
      {3, 5, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05", 11, 2, "\xff\x05"}, /* i8: -1, 5 */
      {12, 11, "\x07", 1, 1, "\x07\x00\x00\x00"},                                /* u32 */
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    sbuf m = sbuf_new(a);
    ndarray d;
    const char *name;
    f_int(&m, 1, t[i].dim), f_int(&m, 2, t[i].type), f_text(&m, 8, "t"), f_bytes(&m, t[i].field, t[i].payload, t[i].n);
    assert_true(file_write(c, path, m.s, m.n));
    if (!onnx_tensor_file(c, path, &d, &name)) print_message("%zu: %s\n", i, said(c));
    assert_int_equal(diag_errors(c), 0);
    assert_string_equal(name, "t");
    assert_memory_equal(d.data, t[i].want, d.bytes);
    assert_int_equal(d.bytes, (size_t)t[i].dim * et_bytes(d.type));
  }
  unlink(path);
}

static void from_repository(void **state) {
  ctx *c = *state;
  graph *g = onnx_load_file(c, EK_SOURCE_DIR "/tests/models/external_data.onnx");
  if (!g) skip();
  bool mapped = false;
  for (uint32_t i = 0; i < g->values.n; i++)
    mapped |= g->values.v[i]->data && g->values.v[i]->data->file && strstr(g->values.v[i]->data->file, ".data");
  assert_true(mapped);
  g = onnx_load_file(c, EK_SOURCE_DIR "/tests/models/initialisers_as_inputs.onnx");
  assert_non_null(g);
  for (uint32_t i = 0; i < g->inputs.n; i++) assert_null(g->inputs.v[i]->data);
}

/* ---- what is refused ------------------------------------------------------------------------- */
static void refuse_structure(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  uint32_t mark = diag_mark(c);
  sbuf g = graph_of(a, "x:1:3", "c");
  add(&g, "Add one: x d -> b");
  add(&g, "Neg two: b -> c");
  add(&g, "Abs three: c -> d");
  expect_error(c, load_graph(c, &g, 17), E_MODEL, NULL, "cycle");
  assert_non_null(strstr(said(c), "'three'"));
  diag_reset(c, mark);
  g = graph_of(a, "x:1:3", "y");
  add(&g, "Add sum: x nobody -> y");
  expect_error(c, load_graph(c, &g, 17), E_MODEL, "sum", "'nobody'");
  diag_reset(c, mark);
  g = graph_of(a, "x:1:3", "y nothing");
  add(&g, "Neg one: x -> y");
  add(&g, "Abs two: x -> y");
  expect_error(c, load_graph(c, &g, 17), E_MODEL, "two", "produced twice");
  assert_int_equal(diag_errors(c), 2); /* and the missing output, in the same run */
  diag_reset(c, mark);
  g = graph_of(a, "x:1:3", "y");
  sbuf n = node_of(a, "Softmax soft: x -> y");
  attr_float(&n, "axis", 1);
  f_msg(&g, 1, &n);
  expect_error(c, load_graph(c, &g, 9), E_MODEL, "soft", "must be an integer");
  diag_reset(c, mark);
  g = graph_of(a, "x:1:3", "y");
  n = node_of(a, "LeakyRelu leaky: x -> y");
  sbuf x = sbuf_new(a);
  f_text(&x, 1, "alpha"), f_float(&x, 2, 1), f_int(&x, 20, 2);
  f_msg(&n, 5, &x);
  f_msg(&g, 1, &n);
  expect_error(c, load_graph(c, &g, 9), E_MODEL, "leaky", "declared INT but holds FLOAT");
  diag_reset(c, mark);
  g = graph_of(a, "x:1 z:14:2 w", "x");
  expect_error(c, load_graph(c, &g, 9), E_UNSUPPORTED, "x", "no shape");
  assert_int_equal(diag_errors(c), 3);
  diag_reset(c, mark);
  g = graph_of(a, "x:1:3", "");
  sbuf v = sbuf_new(a), sequence = sbuf_new(a), nothing = sbuf_new(a);
  f_text(&v, 1, "y"), f_msg(&v, 2, &nothing); /* a type that says nothing is no type */
  f_msg(&g, 12, &v);
  add(&g, "Neg n: x -> y");
  assert_non_null(load_graph(c, &g, 17));
  f_msg(&sequence, 5, &nothing);
  v = sbuf_new(a);
  f_text(&v, 1, "y"), f_msg(&v, 2, &sequence);
  f_msg(&g, 12, &v);
  expect_error(c, load_graph(c, &g, 17), E_UNSUPPORTED, "y", "neither a tensor");
}

/* Nodes that stand for several. */
static sbuf tree_of(arena *a, int64_t last_no) { /* x[1] < 2 ? 10 : (x[0] <= 3 ? 20 : 30) */
  static const int64_t tree[] = {0, 0, 0, 0, 0}, id[] = {0, 1, 2, 3, 4}, feature[] = {1, 0, 0, 0, 0},
                       yes[] = {1, 0, 3, 0, 0}, at[] = {1, 3, 4}, none[] = {0, 0, 0};
  int64_t no[] = {2, 0, last_no, 0, 0};
  static const float value[] = {2, 0, 3, 0, 0}, weight[] = {10, 20, 30};
  sbuf n = node_of(a, "TreeEnsembleRegressor trees: x -> y");
  f_text(&n, 7, "ai.onnx.ml");
  attr_ints(&n, "nodes_treeids", tree, 5), attr_ints(&n, "nodes_nodeids", id, 5),
      attr_ints(&n, "nodes_featureids", feature, 5);
  attr_ints(&n, "nodes_truenodeids", yes, 5), attr_ints(&n, "nodes_falsenodeids", no, 5);
  attr_floats(&n, "nodes_values", value, 5), attr_words(&n, "nodes_modes", "BRANCH_LT LEAF BRANCH_LEQ LEAF LEAF");
  attr_ints(&n, "target_treeids", none, 3), attr_ints(&n, "target_nodeids", at, 3),
      attr_ints(&n, "target_ids", none, 3), attr_floats(&n, "target_weights", weight, 3);
  return n;
}
static void expansions(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  uint32_t mark = diag_mark(c);
  sbuf g = graph_of(a, "x:1:N,2", "y"), n = tree_of(a, 4);
  f_msg(&g, 1, &n);
  graph *r = load_graph(c, &g, 17);
  assert_non_null(r);
  assert_int_equal(r->nodes.n, 2);
  const node *scores = r->nodes.v[0];
  assert_string_equal(scores->op, "TreeScores");
  assert_string_equal(r->nodes.v[1]->op, "TreeTargets");
  assert_int_equal(node_attr(scores, "depth")->i, 2);
  /* leaves follow the two inner nodes, and go nowhere */
  static const int64_t want_yes[] = {2, 3, 2, 3, 4}, want_no[] = {1, 4, 2, 3, 4};
  assert_memory_equal(scores->in.v[5]->data->data, want_yes, sizeof want_yes);
  assert_memory_equal(scores->in.v[6]->data->data, want_no, sizeof want_no);
  g = graph_of(a, "x:1:N,2", "y"), n = tree_of(a, 0);
  f_msg(&g, 1, &n);
  expect_error(c, load_graph(c, &g, 17), E_MODEL, "trees", "circle");
  diag_reset(c, mark);
  g = graph_of(a, "x:1:N,2", "y"), n = tree_of(a, 9);
  f_msg(&g, 1, &n);
  expect_error(c, load_graph(c, &g, 17), E_MODEL, "trees", "no node");
  diag_reset(c, mark);
}
static void groups(void **state) {
  ctx *c = *state;
  sbuf g = graph_of(ctx_arena(c), "r:1:1 t:7:1 x1:1:2 x2:1:3 g1:1:2 g2:1:3 v1:1:2 v2:1:3", "y1 y2 w1 w2"),
       n = node_of(ctx_arena(c), "Momentum m: r t x1 x2 g1 g2 v1 v2 -> y1 y2 w1 w2");
  f_text(&n, 7, "ai.onnx.preview.training");
  f_msg(&g, 1, &n);
  graph *r = load_graph(c, &g, 17);
  assert_non_null(r);
  assert_int_equal(r->nodes.n, 2);
  for (uint32_t i = 0; i < 2; i++) {
    const node *one = r->nodes.v[i];
    static const char *const want[2][7] = {{"r", "t", "x1", "g1", "v1", "y1", "w1"},
                                           {"r", "t", "x2", "g2", "v2", "y2", "w2"}};
    assert_true(one->in.n == 5 && one->out.n == 2);
    for (uint32_t k = 0; k < 7; k++) assert_string_equal((k < 5 ? one->in.v[k] : one->out.v[k - 5])->name, want[i][k]);
  }
}
/* Nodes are in their newest form, whatever the model's opset: what is written says one that has these forms. */
static void written(void **state) {
  ctx *c = *state;
  sbuf g = graph_of(ctx_arena(c), "x:1:1,3", "y:1:3"), n = node_of(ctx_arena(c), "Squeeze s: x -> y");
  static const int64_t axes[] = {0};
  attr_ints(&n, "axes", axes, 1);
  f_msg(&g, 1, &n);
  graph *r = load_graph(c, &g, 11);
  assert_non_null(r);
  const char *path = arena_fmt(ctx_arena(c), "%s/written_%d.onnx", EK_BINARY_DIR, (int)getpid());
  uint64_t size;
  assert_true(onnx_write(r, path, &size));
  r = onnx_load_file(c, path);
  unlink(path);
  assert_non_null(r);
  assert_true(r->opset >= 13);
}
/* A list is so many inputs, once somebody says how many. */
static void lists(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf g = graph_of(a, "x:1:3", "y"), v = sbuf_new(a), t = sbuf_new(a), s = sbuf_new(a), tt = sbuf_new(a),
       e = sbuf_new(a);
  f_int(&tt, 1, 1);
  f_msg(&e, 1, &tt);
  f_msg(&s, 1, &e);
  f_msg(&t, 4, &s);
  f_text(&v, 1, "l"), f_msg(&v, 2, &t);
  f_msg(&g, 11, &v);
  add(&g, "SequenceAt pick: l at -> y");
  static const int64_t one = 1;
  init_i64(&g, "at", &one, 1);
  graph *r = load_graph(c, &g, 17);
  assert_non_null(r);
  assert_int_equal(r->inputs.n, 2);
  value *l = r->inputs.v[1];
  assert_int_equal(l->kind, VALUE_LIST);
  graph_settle(r, l, 3);
  assert_int_equal(r->inputs.n, 4);
  assert_string_equal(r->inputs.v[3]->source, "l.2");
  assert_string_equal(r->nodes.v[0]->op, "SequenceConstruct");
  assert_true(graph_verify(r, "test"));
}

static void refuse_tensors(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  uint32_t mark = diag_mark(c);
  struct {
    const char *location, *offset, *part;
    ecode code;
  } ext[] = {
      {"../../etc/passwd", "0", "outside the model's folder", E_MODEL},
      {"/etc/passwd", "0", "outside", E_MODEL},
      {"a/../../b", "0", "outside", E_MODEL},
      {"no.bin", "x", "not a number", E_MODEL},
      {"no.bin", "99999999999999999999", "not a number", E_MODEL},
      {"no.bin", "0", "loaded from memory", E_IO},
  };
  for (size_t i = 0; i < sizeof ext / sizeof *ext; i++) {
    sbuf g = graph_of(a, "", "w"), t = sbuf_new(a), e = sbuf_new(a);
    f_int(&t, 1, 4), f_int(&t, 2, 1), f_text(&t, 8, "w"), f_int(&t, 14, 1);
    f_text(&e, 1, "location"), f_text(&e, 2, ext[i].location);
    f_msg(&t, 13, &e);
    e = sbuf_new(a);
    f_text(&e, 1, "offset"), f_text(&e, 2, ext[i].offset);
    f_msg(&t, 13, &e);
    f_msg(&g, 5, &t);
    expect_error(c, load_graph(c, &g, 17), ext[i].code, NULL, ext[i].part);
    diag_reset(c, mark);
  }
  struct {
    int64_t d0, d1;
    int type;
    size_t raw;
    const char *part;
    ecode code;
  } bad[] = {
      {1ll << 40, 1ll << 40, 1, 4, "overflows", E_MODEL},
      {-1, 2, 1, 4, "negative", E_MODEL},
      {2, 2, 1, 12, "need 16", E_MODEL},
      {1, 1, 14, 8, "complex", E_UNSUPPORTED},
      {1, 1, 99, 8, "element type 99", E_UNSUPPORTED},
      {3, 1, 8, 4, "strings cannot", E_MODEL},
      {1 << 30, 1, 7, 0, "shape needs", E_MODEL},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    sbuf g = graph_of(a, "", "w"), t = sbuf_new(a);
    f_int(&t, 1, bad[i].d0), f_int(&t, 1, bad[i].d1), f_int(&t, 2, bad[i].type), f_text(&t, 8, "w");
    if (bad[i].raw) f_bytes(&t, 9, "0123456789abcdef", bad[i].raw);
    f_msg(&g, 5, &t);
    expect_error(c, load_graph(c, &g, 17), bad[i].code, NULL, bad[i].part);
    diag_reset(c, mark);
  }
}

static void refuse_bytes(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  uint32_t mark = diag_mark(c);
  expect_error(c, onnx_load_bytes(c, (bytes){(const uint8_t *)"", 0}, "empty", NULL), E_MODEL, NULL,
               "not an ONNX model");
  diag_reset(c, mark);
  expect_error(c, onnx_load_bytes(c, (bytes){(const uint8_t *)"\x93NUMPY\x01\x00", 8}, "x.npy", NULL), E_MODEL, NULL,
               "x.npy");
  diag_reset(c, mark);
  expect_error(c, onnx_load_file(c, "/nonexistent/m.onnx"), E_IO, NULL, "/nonexistent/m.onnx");
  diag_reset(c, mark);
  /* 40 regions inside each other: deeper than the walker goes */
  sbuf g = graph_of(a, "x:1:3 p:9:", "y");
  add(&g, "Neg n: x -> y");
  for (int i = 0; i < 40; i++) {
    sbuf out = graph_of(a, i == 39 ? "x:1:3 p:9:" : "", "y"), n = node_of(a, "If n: p -> y");
    attr_graph(&n, "then_branch", &g);
    f_msg(&out, 1, &n);
    g = out;
  }
  expect_error(c, load_graph(c, &g, 17), E_MODEL, NULL, "nested deeper");
  diag_reset(c, mark);
  /* every prefix and every flipped byte of a small model: an error or another model, nothing else */
  g = graph_of(a, "x:1:N,3", "y");
  const int64_t axes[] = {1, 0};
  init_i64(&g, "k", axes, 2);
  sbuf n = node_of(a, "Transpose tr: x -> t");
  attr_ints(&n, "perm", axes, 2);
  f_msg(&g, 1, &n);
  n = node_of(a, "Pad pad: t k -> y");
  attr_int(&n, "odd", 3);
  f_msg(&g, 1, &n);
  sbuf m = model_of(&g, 13);
  for (size_t i = 0; i < m.n; i++)
    for (unsigned bit = 0; bit < 9; bit++) {
      size_t len = bit == 8 ? i : m.n;
      uint8_t *copy = malloc(len + 1); /* exactly as long as the model, for the sanitizer */
      memcpy(copy, m.s, len);
      if (bit < 8) copy[i] ^= (uint8_t)(1u << bit);
      ctx *d = ctx_new();
      if (!onnx_load_bytes(d, (bytes){copy, len}, "flipped", NULL)) assert_true(diag_errors(d) > 0);
      assert_int_not_equal(diag_code(d), E_INTERNAL);
      ctx_free(d);
      free(copy);
    }
}

static void refuse_recursion(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf f = sbuf_new(a), n = node_of(a, "Again in: p -> r"), g = graph_of(a, "x:1:3", "y");
  f_text(&f, 1, "Again"), f_text(&f, 4, "p"), f_text(&f, 5, "r");
  f_msg(&f, 7, &n);
  add(&g, "Again out: x -> y");
  sbuf m = model_of(&g, 17);
  f_msg(&m, 25, &f);
  expect_error(c, load(c, &m), E_MODEL, NULL, "calls itself");
}

static void versions(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  sbuf g = graph_of(a, "x:1:3", "y");
  add(&g, "Neg n: x -> y");
  assert_non_null(load_graph(c, &g, 999));
  assert_non_null(strstr(said(c), "newer than the newest known"));
  assert_int_equal(diag_errors(c), 0);
  expect_error(c, load_graph(c, &g, -4), E_MODEL, NULL, "newer"); /* the warning above is the first */
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(plain),           T(unknown_sizes),    T(regions_and_names), T(old_forms), T(functions), T(encodings),
      T(from_repository), T(refuse_structure), T(expansions),        T(groups),    T(written),   T(lists),
      T(refuse_tensors),  T(refuse_bytes),     T(refuse_recursion),  T(versions),
  };
  return cmocka_run_group_tests_name("onnx", tests, NULL, NULL);
}
