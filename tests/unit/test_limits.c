/* Stated limits (docs/limits.md): each is met by an input made for it, and answered by a clean error that says so;
 * what is just below it works. Sizes that overflow, one by one and over a chain of nodes. */
#include "einkorn/einkorn.h"
#include "expr/expr.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "notation/notation.h"
#include "program/program.h"
#include "target/target.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

/* ---- texts made of repeated pieces ----------------------------------------------------------- */
typedef struct text {
  char *s;
  size_t n, cap;
} text;
static void put(text *t, const char *s, size_t n) {
  if (t->n + n + 1 > t->cap) t->s = realloc(t->s, t->cap = (t->n + n + 1) * 2);
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}
static void puts_times(text *t, const char *s, int times) {
  while (times-- > 0) put(t, s, strlen(s));
}
static text nested(const char *head, const char *open, const char *middle, const char *close, const char *tail,
                   int depth) {
  text t = {0};
  puts_times(&t, head, 1), puts_times(&t, open, depth), puts_times(&t, middle, 1), puts_times(&t, close, depth),
      puts_times(&t, tail, 1);
  return t;
}

/* ---- models ---------------------------------------------------------------------------------- */
static ek_code check_bytes(const void *p, size_t n, uint64_t memory, char *message, size_t room) {
  ek_session_options so;
  ek_session_options_init(&so);
  so.compile_memory = memory;
  ek_session *s = ek_session_create_with(&so);
  ek_model *m;
  ek_options o;
  ek_options_init(&o);
  ek_code e = ek_load_memory(s, p, n, "limit", &m);
  if (!e) e = ek_check(m, &o);
  snprintf(message, room, "%s", ek_message(s));
  ek_session_destroy(s);
  return e;
}
static void refused(const text *t, const char *words) {
  char message[600];
  ek_code e = check_bytes(t->s, t->n, 0, message, sizeof message);
  if (!e || e == EK_INTERNAL || !strstr(message, words))
    fail_msg("code %d, '%s', expected '%s'", (int)e, message, words);
  free(t->s);
}
static void accepted(const text *t) {
  char message[600];
  ek_code e = check_bytes(t->s, t->n, 0, message, sizeof message);
  if (e) fail_msg("code %d, '%s'", (int)e, message);
  free(t->s);
}
/* Refused somewhere: when it is compiled, or at the latest when a run wants its memory. */
static void never_runs(const text *t) {
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r = NULL;
  ek_code e = ek_load_memory(s, t->s, t->n, "limit", &m);
  float x[4] = {0};
  if (!e) e = ek_compile(m, NULL, &code);
  if (!e) e = ek_run_create(code, 1, &r);
  if (!e) e = ek_run_bind_input(r, 0, x);
  if (!e) e = ek_run_execute(r);
  if (!e || e == EK_INTERNAL || !*(r ? ek_run_message(r) : ek_message(s)))
    fail_msg("code %d, '%s'", (int)e, r ? ek_run_message(r) : ek_message(s));
  ek_session_destroy(s);
  free(t->s);
}
static text graph_of(const char *body) {
  text t = {0};
  puts_times(&t, "graph \"g\" ir 8 opset 17 {\n", 1), puts_times(&t, body, 1), puts_times(&t, "}\n", 1);
  return t;
}
static void sizes_that_overflow(void **state) {
  (void)state;
  text t = graph_of("input x: f32[4611686018427387904, 4]\ny: f32[4611686018427387904, 4] = Relu(x) \"r\"\noutput y\n");
  refused(&t, "64 bits");
  t = graph_of("input x: f32[2]\nconst r: i64[1] = [4611686018427387904]\ny: f32[n] = Tile(x, r) \"t\"\noutput y\n");
  never_runs(&t);
  /* none of the steps overflows, but the product does */
  text chain = {0};
  puts_times(&chain,
             "graph \"g\" ir 8 opset 17 {\ninput x: f32[2, 2]\nconst r: i64[2] = [1024, 1024]\nv0: f32[a, b] = Tile(x, "
             "r) \"t0\"\n",
             1);
  for (int i = 1; i < 8; i++) {
    char line[120];
    snprintf(line, sizeof line, "v%d: f32[a%d, b%d] = Tile(v%d, r) \"t%d\"\n", i, i, i, i - 1, i);
    puts_times(&chain, line, 1);
  }
  puts_times(&chain, "output v7\n}\n", 1);
  never_runs(&chain);
  /* open sizes: only a run can say */
  t = graph_of(
      "input x: f32[N, M, K]\ny: f32[N, M, K] = Relu(x) \"r\"\nz: f32[N, M, K] = Softmax(y) \"s\"\noutput z\n");
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r;
  assert_int_equal(ek_load_memory(s, t.s, t.n, "open", &m), EK_OK);
  assert_int_equal(ek_compile(m, NULL, &code), EK_OK);
  assert_int_equal(ek_run_create(code, 1, &r), EK_OK);
  static const int64_t huge[][3] = {{INT64_MAX, 1, 1},
                                    {1ll << 31, 1ll << 31, 2},
                                    {1000000000, 1000000000, 1000000000},
                                    {1ll << 40, 1 << 20, 1},
                                    {INT64_MAX, INT64_MAX, INT64_MAX}};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
    ek_code e = ek_run_shape(r, 0, huge[i], 3);
    if (!e) e = ek_run_prepare(r);
    if (!e) e = ek_run_execute(r);
    if (e != EK_MEMORY && e != EK_SHAPE && e != EK_USAGE)
      fail_msg("sizes %zu: code %d, %s", i, (int)e, ek_run_message(r));
    assert_true(*ek_run_message(r));
  }
  const int64_t small[] = {1, 2, 3};
  float x[6] = {1, 2, 3, 4, 5, 6};
  assert_int_equal(ek_run_shape(r, 0, small, 3), EK_OK); /* the run is as good as before */
  assert_int_equal(ek_run_bind_input(r, 0, x), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  ek_session_destroy(s);
  free(t.s);
}
static void ranks(void **state) {
  (void)state;
  text t = graph_of("input x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]\ny: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] = Relu(x) "
                    "\"r\"\noutput y\n");
  accepted(&t);
  t = graph_of("input x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]\ny: f32[2] = Relu(x) \"r\"\noutput y\n");
  refused(&t, "16 dimensions");
}
/* Code and words of the first call that fails; EK_OK when a run gets through with zeros for its input. */
static ek_code used(const text *t, const ek_options *o, const ek_run_options *ro, const int64_t *dims, int32_t rank,
                    char *message, size_t room) {
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r = NULL;
  static float zeros[64];
  ek_code e = ek_load_memory(s, t->s, t->n, "limit", &m);
  if (!e) e = ek_compile(m, o, &code);
  if (!e) e = ek_run_create_with(code, ro, &r);
  if (!e && dims) e = ek_run_shape(r, 0, dims, rank);
  if (!e) e = ek_run_prepare(r);
  if (!e && (!dims || dims[0] < 64)) e = ek_run_bind_input(r, 0, zeros);
  if (!e && (!dims || dims[0] < 64)) e = ek_run_execute(r);
  snprintf(message, room, "%s", r && *ek_run_message(r) ? ek_run_message(r) : ek_message(s));
  ek_session_destroy(s);
  return e;
}
static void open_dimension(void **state) {
  (void)state;
  text t = graph_of("input x: f32[N]\ny: f32[N] = Relu(x) \"r\"\noutput y\n");
  char message[600];
  assert_int_equal(used(&t, NULL, NULL, (int64_t[]){1000000001}, 1, message, sizeof message), EK_SHAPE);
  assert_non_null(strstr(message, "0..1000000000"));
  assert_int_equal(used(&t, NULL, NULL, (int64_t[]){1000000000}, 1, message, sizeof message), EK_OK);
  free(t.s);
}
static void threads(void **state) {
  (void)state;
  text t = graph_of("input x: f32[8]\ny: f32[8] = Relu(x) \"r\"\noutput y\n");
  char message[600];
  ek_options o;
  ek_options_init(&o);
  o.threads = 1025;
  assert_int_equal(used(&t, &o, NULL, NULL, 0, message, sizeof message), EK_USAGE);
  assert_non_null(strstr(message, "1024"));
  o.threads = 1024, o.compile_threads = 1025;
  assert_int_equal(used(&t, &o, NULL, NULL, 0, message, sizeof message), EK_USAGE);
  o.compile_threads = 1000;
  ek_run_options ro;
  ek_run_options_init(&ro);
  ro.threads = 1025;
  assert_int_equal(used(&t, &o, &ro, NULL, 0, message, sizeof message), EK_USAGE);
  ro.threads = 0;
  assert_int_equal(used(&t, &o, &ro, NULL, 0, message, sizeof message), EK_OK);
  free(t.s);
}
static void working_memory(void **state) {
  (void)state;
  text t =
      graph_of("input x: f32[N, 64]\ny: f32[N, 64] = Softmax(x) \"s\"\nz: f32[64, N] = Transpose(y) {perm = [1, 0]} "
               "\"t\"\nw: f32[N, N] = MatMul(y, z) \"m\"\nv: f32[N, N] = Softmax(w) {axis = 0} \"u\"\noutput v\n");
  char message[600];
  ek_options o;
  ek_options_init(&o);
  o.memory_limit = 1 << 20, o.threads = 1;
  assert_int_equal(used(&t, &o, NULL, (int64_t[]){4000, 64}, 2, message, sizeof message), EK_MEMORY);
  assert_non_null(strstr(message, "1048576"));
  assert_int_equal(used(&t, &o, NULL, (int64_t[]){1, 64}, 2, message, sizeof message), EK_OK);
  free(t.s);
}
/* A constant of few operations is folded and becomes a weight; one of many is computed in each run. */
static void folding(void **state) {
  (void)state;
  for (int big = 0; big < 2; big++) {
    text t = {0};
    char body[500];
    long n = big ? 1 << 27 : 1 << 10;
    snprintf(body, sizeof body,
             "input x: f32[4]\nconst a: f32[] = [0]\nconst b: f32[] = [%ld]\nconst d: f32[] = [1]\nconst four: i64[2] "
             "= [4, -1]\nr: f32[%ld] = Range(a, b, d) \"r\"\ns: f32[%ld] = Sin(r) \"s\"\nt: f32[4, %ld] = Reshape(s, "
             "four) \"t\"\nconst one: i64[1] = [1]\n"
             "q: f32[4] = ReduceSum(t, one) {keepdims = 0} \"q\"\ny: f32[4] = Mul(x, q) \"m\"\noutput y\n",
             n, n, n, n / 4);
    t = graph_of(body);
    ek_report report = {0};
    ek_session *s = ek_session_create();
    ek_model *m;
    ek_module *code;
    if (ek_load_memory(s, t.s, t.n, "fold", &m) || ek_compile(m, NULL, &code)) fail_msg("%s", ek_message(s));
    ek_module_report(code, &report);
    assert_int_equal(report.weight_bytes > 0, !big);
    ek_session_destroy(s);
    free(t.s);
  }
}
static void sequences(void **state) {
  (void)state;
  /* more than are resolved while compiling: the run keeps them */
  text t = graph_of("input x: f32[70000]\ns = SplitToSequence(x) {axis = 0, keepdims = 0} \"s\"\nn = SequenceLength(s) "
                    "\"n\"\noutput n\n");
  accepted(&t);
  static const char loop[] =
      "input x: f32[4]\nconst times: i64[] = [%d]\nconst yes: bool[] = [1]\ne = SequenceConstruct(x) \"e\"\ns = "
      "Loop(times, yes, e) {body = graph \"b\" {\n  input k: i64[]\n  input go: bool[]\n  input l\n"
      "  more = Identity(go) \"i\"\n  output more\n  output l\n}} \"loop\"\nn = SequenceLength(s) \"n\"\noutput n\n";
  char body[600];
  snprintf(body, sizeof body, loop, 4097);
  t = graph_of(body);
  accepted(&t);
  snprintf(body, sizeof body, loop, 100);
  t = graph_of(body);
  accepted(&t);
}
static void memory_cap(void **state) {
  (void)state;
  text t = graph_of("input x: f32[8, 8]\ny: f32[8, 8] = Softmax(x) \"s\"\noutput y\n");
  char message[600];
  assert_int_equal(check_bytes(t.s, t.n, 1 << 19, message, sizeof message), EK_MEMORY);
  assert_non_null(strstr(message, "limit"));
  assert_int_equal(check_bytes(t.s, t.n, 256 << 20, message, sizeof message), EK_OK);
  free(t.s);
}

/* ---- ONNX: bytes by hand --------------------------------------------------------------------- */
static size_t put_varint(uint8_t *p, uint64_t v) {
  size_t n = 0;
  for (; v >= 128; v >>= 7) p[n++] = (uint8_t)(v | 128);
  p[n++] = (uint8_t)v;
  return n;
}
/* A message field: its head, then what is there already. */
static void wrap(text *t, uint32_t no) {
  uint8_t head[20];
  size_t n = put_varint(head, (uint64_t)no << 3 | 2);
  n += put_varint(head + n, t->n);
  text out = {0};
  put(&out, (const char *)head, n);
  put(&out, t->n ? t->s : "", t->n);
  free(t->s);
  *t = out;
}
static void field_text(text *t, uint32_t no, const char *s) {
  text v = {0};
  put(&v, s, strlen(s));
  wrap(&v, no);
  put(t, v.s, v.n);
  free(v.s);
}
static void append(text *t, text v) {
  put(t, v.s, v.n);
  free(v.s);
}
static text node_of(const char *op, const char *in, const char *out, const char *domain) {
  text n = {0};
  field_text(&n, 1, in), field_text(&n, 2, out), field_text(&n, 4, op);
  if (domain) field_text(&n, 7, domain);
  wrap(&n, 1);
  return n;
}
static text value_of(const char *name, uint32_t no) {
  text v = {0}, type = {0};
  /* tensor type: elem 1, shape {dim {2}} */
  static const char f32x2[] = {0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02};
  put(&type, f32x2, sizeof f32x2);
  wrap(&type, 1), wrap(&type, 2);
  field_text(&v, 1, name);
  append(&v, type);
  wrap(&v, no);
  return v;
}
static text model_of(text graph) {
  text m = {0};
  static const char head[] = {0x08, 0x08, 0x42, 0x02, 0x10, 0x11}; /* ir 8, opset 17 */
  put(&m, head, sizeof head);
  wrap(&graph, 7);
  append(&m, graph);
  return m;
}
static void onnx_nesting(void **state) {
  (void)state;
  for (int depth = 5; depth < 2000; depth *= 8) { /* an If in an If in an If .. */
    text g = {0};
    append(&g, node_of("Relu", "x", "y", NULL));
    for (int i = 0; i < depth; i++) {
      text attr = {0}, n = {0};
      field_text(&attr, 1, "then_branch");
      wrap(&g, 6);
      append(&attr, g);
      wrap(&attr, 5);
      field_text(&n, 4, "If");
      append(&n, attr);
      wrap(&n, 1);
      g = n;
    }
    append(&g, value_of("x", 11)), append(&g, value_of("y", 12));
    text m = model_of(g);
    if (depth * 3 > 64)
      refused(&m, "nested deeper than 64");
    else
      refused(&m, "");
  }
}
/* f0 calls f1 twice, f1 calls f2 twice ..: 2^30 nodes when inlined. last: the name that the last one calls. */
static text calls(int levels, const char *last) {
  text g = {0};
  append(&g, node_of("f0", "x", "y", "d"));
  append(&g, value_of("x", 11)), append(&g, value_of("y", 12));
  text m = model_of(g);
  static const char opset[] = {0x0a, 0x01, 'd', 0x10, 0x01};
  text d = {0};
  put(&d, opset, sizeof opset);
  wrap(&d, 8);
  append(&m, d);
  for (int i = 0; i < levels; i++) {
    char name[16], next[16];
    text f = {0};
    snprintf(name, sizeof name, "f%d", i);
    snprintf(next, sizeof next, "f%d", i + 1);
    const char *callee = i + 1 < levels ? next : last;
    field_text(&f, 1, name), field_text(&f, 4, "a"), field_text(&f, 5, "c"), field_text(&f, 10, "d");
    text n = node_of(callee, "a", "b", *callee == 'f' ? "d" : NULL),
         n2 = node_of(callee, "b", "c", *callee == 'f' ? "d" : NULL);
    n.s[0] = n2.s[0] = 7 << 3 | 2;
    append(&f, n), append(&f, n2);
    text os = {0}, od = {0};
    static const char op17[] = {0x10, 0x11};
    put(&os, op17, sizeof op17), put(&od, opset, sizeof opset);
    wrap(&os, 9), wrap(&od, 9);
    append(&f, os), append(&f, od);
    wrap(&f, 25);
    append(&m, f);
  }
  return m;
}
static void function_calls(void **state) {
  (void)state;
  text m = calls(3, "Relu");
  accepted(&m);
  m = calls(40, "Relu");
  refused(&m, "nested deeper than 32");
  m = calls(2, "f0");
  refused(&m, "calls itself");
  m = calls(28, "Relu"); /* each is small, all together are not: memory is limited, too */
  char message[600];
  assert_int_equal(check_bytes(m.s, m.n, 64 << 20, message, sizeof message), EK_MEMORY);
  assert_true(*message);
  free(m.s);
}

static void put_number(text *t, uint32_t no, uint64_t v) {
  uint8_t b[24];
  size_t n = put_varint(b, (uint64_t)no << 3);
  n += put_varint(b + n, v);
  put(t, (const char *)b, n);
}
static text tensor_of(const char *name, uint32_t type, const void *data, size_t n) {
  text t = {0}, raw = {0};
  put_number(&t, 1, 1), put_number(&t, 2, type);
  field_text(&t, 8, name);
  put(&raw, data, n);
  wrap(&raw, 9);
  append(&t, raw);
  return t;
}
static void sparse(void **state) {
  (void)state;
  for (int over = 0; over < 2; over++) {
    static const float one = 1;
    static const int64_t at = 1;
    text g = {0}, sp = {0}, v = tensor_of("w", 1, &one, 4), i = tensor_of("", 7, &at, 8);
    append(&g, node_of("Shape", "w", "y", NULL));
    wrap(&v, 1), wrap(&i, 2);
    append(&sp, v), append(&sp, i);
    put_number(&sp, 3, over ? ((uint64_t)1 << 29) + 1 : 2);
    wrap(&sp, 15);
    append(&g, sp);
    append(&g, value_of("x", 11)), append(&g, value_of("y", 12));
    text m = model_of(g);
    if (over)
      refused(&m, "2 GiB");
    else {
      char message[600];
      check_bytes(m.s, m.n, 0, message, sizeof message);
      assert_null(strstr(message, "2 GiB"));
      free(m.s);
    }
  }
}
/* External data: of a model in memory, in a file that is not there, beyond a file's end. And no model at all. */
static void missing_bytes(void **state) {
  (void)state;
  static const char model[] = EK_BINARY_DIR "/limit.onnx", data[] = EK_BINARY_DIR "/limit.data",
                    *const keys[][2] = {{"location", "limit.data"}, {"offset", "2"}, {"length", "8"}};
  text g = {0}, t = {0};
  append(&g, node_of("Relu", "w", "y", NULL));
  put_number(&t, 1, 2), put_number(&t, 2, 1);
  field_text(&t, 8, "w");
  for (int i = 0; i < 3; i++) {
    text pair = {0};
    field_text(&pair, 1, keys[i][0]), field_text(&pair, 2, keys[i][1]);
    wrap(&pair, 13);
    append(&t, pair);
  }
  put_number(&t, 14, 1);
  wrap(&t, 5);
  append(&g, t);
  append(&g, value_of("x", 11)), append(&g, value_of("y", 12));
  text m = model_of(g);
  char message[600];
  assert_int_equal(check_bytes(m.s, m.n, 0, message, sizeof message), EK_IO);
  ctx *c = ctx_new();
  assert_true(file_write(c, model, m.s, m.n));
  remove(data);
  ek_session *s = ek_session_create();
  ek_model *out;
  assert_int_equal(ek_load(s, model, &out), EK_IO);
  assert_true(file_write(c, data, "123456789", 9));
  assert_int_equal(ek_load(s, model, &out), EK_IO);
  assert_non_null(strstr(ek_message(s), "too short"));
  remove(model), remove(data);
  assert_int_equal(ek_load(s, model, &out), EK_IO);
  ek_session_destroy(s);
  ctx_free(c);
  free(m.s);
}

static void many_nodes(void **state) {
  (void)state;
  if (!getenv("EK_TEST_LONG")) skip(); /* takes 4 GB */
  text m = calls(23, "Relu");
  refused(&m, "4194304 nodes");
}

/* ---- definitions ----------------------------------------------------------------------------- */
static ek_code with_ops(const char *ops, size_t n, char *message, size_t room) {
  static const char path[] = EK_BINARY_DIR "/limit.ek",
                    graph[] = "graph \"g\" ir 8 opset 17 {\ninput x: f32[4]\ny: f32[4] = Limit(x) \"l\"\noutput y\n}\n";
  ctx *c = ctx_new();
  assert_true(file_write(c, path, ops, n));
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_options o;
  ek_options_init(&o);
  ek_code e = ek_load_ops(s, path);
  if (!e) e = ek_load_memory(s, graph, sizeof graph - 1, "limit", &m);
  if (!e) e = ek_check(m, &o);
  snprintf(message, room, "%s", ek_message(s));
  ek_session_destroy(s);
  ctx_free(c);
  remove(path);
  return e;
}
/* fK calls fK-1 `times` times */
static text functions(int n, int times) {
  text t = {0};
  char line[200];
  puts_times(&t, "fn f0(v) = v\n", 1);
  for (int i = 1; i < n; i++) {
    int at = snprintf(line, sizeof line, "fn f%d(v) = f%d(v)", i, i - 1);
    for (int k = 1; k < times; k++) at += snprintf(line + at, sizeof line - (size_t)at, " + f%d(v + %d.0)", i - 1, k);
    snprintf(line + at, sizeof line - (size_t)at, "\n");
    puts_times(&t, line, 1);
  }
  snprintf(line, sizeof line, "op Limit(X: f32[n]) -> Y: f32[n] { Y[i] = f%d(X[i]) }\n", n - 1);
  puts_times(&t, line, 1);
  return t;
}
static void definitions(void **state) {
  (void)state;
  char message[600];
  text t = functions(60, 1);
  if (with_ops(t.s, t.n, message, sizeof message)) fail_msg("%s", message);
  free(t.s);
  t = functions(70, 1);
  assert_int_equal(with_ops(t.s, t.n, message, sizeof message), EK_SHAPE);
  assert_non_null(strstr(message, "nested more than 64"));
  free(t.s);
  t = functions(40, 2);
  assert_int_equal(with_ops(t.s, t.n, message, sizeof message), EK_UNSUPPORTED);
  assert_non_null(strstr(message, "20000000 steps"));
  free(t.s);
  /* errors: after a hundred it ends */
  text bad = {0};
  for (int i = 0; i < 300; i++) {
    char line[100];
    snprintf(line, sizeof line, "op A%d(X: f32[n]) -> Y: f32[n] { Y[i] = Q[i] }\n", i);
    puts_times(&bad, line, 1);
  }
  ctx *c = ctx_new();
  volatile bool ok = false;
  CTX_TRY(c) { ok = notation_add(notation_lib(c), bad.s, bad.n, "bad"); }
  CTX_CATCH { ok = false; }
  assert_false(ok);
  assert_in_range(diag_errors(c), 100, 102);
  ctx_free(c);
  free(bad.s);
}
static void target_files(void **state) {
  (void)state;
  static const struct {
    const char *line;
    bool good;
  } rows[] = {{"vector_registers = 3", false},    {"vector_registers = 4", true}, {"vector_registers = 1024", true},
              {"vector_registers = 1025", false}, {"vector_bits = 4096", true},   {"vector_bits = 8192", false}};
  static const char path[] = EK_BINARY_DIR "/limit.target";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ctx *c = ctx_new();
    const char *s = arena_fmt(ctx_arena(c), "triple = x86_64-linux-gnu\n%s\n", rows[i].line);
    assert_true(file_write(c, path, s, strlen(s)));
    assert_int_equal(target_get(c, path) != NULL, rows[i].good);
    if (!rows[i].good) assert_int_equal(diag_code(c), E_TARGET);
    ctx_free(c);
  }
  remove(path);
}

/* ---- nesting of the texts -------------------------------------------------------------------- */
static bool read_in(ctx *c, const char *what, const char *s) {
  volatile bool ok = false;
  CTX_TRY(c) {
    if (!strcmp(what, "expr")) ok = expr_parse(c, s, "deep") != NULL;
    if (!strcmp(what, "loop")) ok = loop_parse(c, s, "deep") != NULL;
    if (!strcmp(what, "program")) ok = program_parse(c, s, "deep") != NULL;
    if (!strcmp(what, "graph")) ok = graph_parse(c, s, "deep") != NULL;
    if (!strcmp(what, "notation")) ok = notation_add(notation_lib(c), s, strlen(s), "deep");
  }
  CTX_CATCH { ok = false; }
  return ok;
}
static void too_deep(const char *what, text t, const char *words) {
  ctx *c = ctx_new();
  bool ok = read_in(c, what, t.s);
  const diag *d = diag_first(c);
  if (ok || !d || d->code == E_INTERNAL || !strstr(d->text, words))
    fail_msg("%s: %s, '%s'", what, ok ? "accepted" : "refused", d ? d->text : "");
  ctx_free(c);
  free(t.s);
}
static const char *first_words(ctx *c) { return diag_first(c) ? diag_first(c)->text : ""; }
/* Just below the limit nesting is no reason to refuse, just above it is. */
static void depth_is(const char *what, text t, bool over, const char *words) {
  ctx *c = ctx_new();
  bool ok = read_in(c, what, t.s);
  if (over ? ok || !strstr(first_words(c), words) || diag_code(c) != E_MODEL : strstr(first_words(c), words) != NULL)
    fail_msg("%s: %s, '%s'", what, ok ? "accepted" : "refused", first_words(c));
  ctx_free(c);
  free(t.s);
}
static void depth(const char *what, const char *head, const char *open, const char *middle, const char *close,
                  const char *tail, int below, int above, const char *words) {
  for (int over = 0; over < 2; over++)
    depth_is(what, nested(head, open, middle, close, tail, over ? above : below), over, words);
}
static text ifs(int n) { /* each with a name of its own */
  text t = {0};
  char line[100];
  puts_times(&t, "graph \"g\" ir 8 opset 17 {\ninput x: bool[]\n", 1);
  for (int i = 0; i < n; i++) {
    snprintf(line, sizeof line, "y%d: f32[] = If(x) {then_branch = graph \"b%d\" {\n", i, i);
    puts_times(&t, line, 1);
  }
  puts_times(&t, "const k: f32[] = [1]\noutput k\n", 1);
  for (int i = n; i-- > 0;) {
    snprintf(line, sizeof line, "}} \"n%d\"\noutput y%d\n", i, i);
    puts_times(&t, line, 1);
  }
  puts_times(&t, "}\n", 1);
  return t;
}
static void deep_texts(void **state) {
  (void)state;
  depth("expr", "stage x: f32[] = ", "(", "1.0", ")", "\n", 990, 1010, "nested too deeply");
  depth("loop", "kernel k \"\" () {\n%1 = const bool 1\n", "if %1 {\n", "", "}\n", "}\n", 195, 205,
        "nested more than 200");
  depth("program",
        "program \"p\"\ninput \"x\": bool[]\noutput \"y\": bool[]\narena 0 bytes\nscratch 0 bytes per worker\nweights "
        "0 bytes\nbuffer %1.x: input bool x 1 number 0\n",
        "if %1.x {\n", "", "}\n", "kernels\n", 60, 70, "at most 64 nested blocks");
  depth_is("graph", ifs(60), false, "less nesting");
  depth_is("graph", ifs(70), true, "less nesting");
  depth("notation", "op A(X: f32[n]) -> Y: f32[n] { Y[i] = ", "(", "X[i]", ")", " }\n", 60, 210,
        "more than 200 levels");
  too_deep("expr", nested("stage x: f32 [] = ", "(", "1.0", ")", "\n", 100000), "nested");
  too_deep("expr", nested("stage x: f32 [] = ", "-", "1.0", "", "\n", 100000), "");
  too_deep("expr", nested("tensor t: bool[] input \"t\"\n", "if t {\n", "", "}\n", "", 100000), "");
  too_deep("expr", nested("size N = ", "(", "1", ")", "\n", 100000), "nested");
  too_deep("loop", nested("kernel k \"\" () {\n", "if true {\n", "", "}\n", "}\n", 100000), "");
  too_deep("program", nested("program \"p\"\n", "if %1 {\n", "", "}\n", "kernels\n", 100000), "");
  too_deep("graph",
           nested("graph \"g\" ir 8 opset 17 {\ninput x: bool[]\n", "y: f32[] = If(x) {then_branch = graph {\n", "",
                  "}}\n", "output y\n}\n", 100000),
           "");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = ", "(", "X[i]", ")", " }\n", 100000), "nesting");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = ", "-", "X[i]", "", " }\n", 100000), "");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = X[i] ", "? 1.0 : X[i] ", "", "", " }\n", 100000),
           "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_that_overflow),
      cmocka_unit_test(ranks),
      cmocka_unit_test(memory_cap),
      cmocka_unit_test(open_dimension),
      cmocka_unit_test(threads),
      cmocka_unit_test(working_memory),
      cmocka_unit_test(folding),
      cmocka_unit_test(sequences),
      cmocka_unit_test(onnx_nesting),
      cmocka_unit_test(function_calls),
      cmocka_unit_test(many_nodes),
      cmocka_unit_test(sparse),
      cmocka_unit_test(missing_bytes),
      cmocka_unit_test(definitions),
      cmocka_unit_test(target_files),
      cmocka_unit_test(deep_texts),
  };
  return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
