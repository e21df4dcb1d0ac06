/* Stated limits (docs/limits.md): each is met by an input made for it, and answered by a clean error that says so; what is just below it works. Sizes that overflow, one by one and over a chain of nodes. */
#include "einkorn/einkorn.h"
#include "expr/expr.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "notation/notation.h"
#include "program/program.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

/* ---- texts made of repeated pieces ---- */
typedef struct text { char *s; size_t n, cap; } text;
static void put(text *t, const char *s, size_t n) {
  if (t->n + n + 1 > t->cap) t->s = realloc(t->s, t->cap = (t->n + n + 1) * 2);
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}
static void puts_times(text *t, const char *s, int times) {
  while (times-- > 0) put(t, s, strlen(s));
}
static text nested(const char *head, const char *open, const char *middle, const char *close, const char *tail, int depth) {
  text t = {0};
  puts_times(&t, head, 1), puts_times(&t, open, depth), puts_times(&t, middle, 1), puts_times(&t, close, depth), puts_times(&t, tail, 1);
  return t;
}

/* ---- models ---- */
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
  if (!e || e == EK_INTERNAL || !strstr(message, words)) fail_msg("code %d, '%s', expected '%s'", (int)e, message, words);
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
  if (!e || e == EK_INTERNAL || !*(r ? ek_run_message(r) : ek_message(s))) fail_msg("code %d, '%s'", (int)e, r ? ek_run_message(r) : ek_message(s));
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
  puts_times(&chain, "graph \"g\" ir 8 opset 17 {\ninput x: f32[2, 2]\nconst r: i64[2] = [1024, 1024]\nv0: f32[a, b] = Tile(x, r) \"t0\"\n", 1);
  for (int i = 1; i < 8; i++) {
    char line[120];
    snprintf(line, sizeof line, "v%d: f32[a%d, b%d] = Tile(v%d, r) \"t%d\"\n", i, i, i, i - 1, i);
    puts_times(&chain, line, 1);
  }
  puts_times(&chain, "output v7\n}\n", 1);
  never_runs(&chain);
  /* open sizes: only a run can say */
  t = graph_of("input x: f32[N, M, K]\ny: f32[N, M, K] = Relu(x) \"r\"\nz: f32[N, M, K] = Softmax(y) \"s\"\noutput z\n");
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *r;
  assert_int_equal(ek_load_memory(s, t.s, t.n, "open", &m), EK_OK);
  assert_int_equal(ek_compile(m, NULL, &code), EK_OK);
  assert_int_equal(ek_run_create(code, 1, &r), EK_OK);
  static const int64_t huge[][3] = {{INT64_MAX, 1, 1}, {1ll << 31, 1ll << 31, 2}, {1000000000, 1000000000, 1000000000}, {1ll << 40, 1 << 20, 1}, {INT64_MAX, INT64_MAX, INT64_MAX}};
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
    ek_code e = ek_run_shape(r, 0, huge[i], 3);
    if (!e) e = ek_run_prepare(r);
    if (!e) e = ek_run_execute(r);
    if (e != EK_MEMORY && e != EK_SHAPE && e != EK_USAGE) fail_msg("sizes %zu: code %d, %s", i, (int)e, ek_run_message(r));
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
  text t = graph_of("input x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]\ny: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] = Relu(x) \"r\"\noutput y\n");
  accepted(&t);
  t = graph_of("input x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]\ny: f32[2] = Relu(x) \"r\"\noutput y\n");
  refused(&t, "16 dimensions");
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

/* ---- ONNX: bytes by hand ---- */
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
  static const char f32x2[] = {0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02}; /* tensor type: elem 1, shape {dim {2}} */
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
    if (depth * 3 > 64) refused(&m, "nested deeper than 64");
    else refused(&m, "");
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
    text n = node_of(callee, "a", "b", *callee == 'f' ? "d" : NULL), n2 = node_of(callee, "b", "c", *callee == 'f' ? "d" : NULL);
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

/* ---- nesting of the texts ---- */
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
  if (ok || !d || d->code == E_INTERNAL || !strstr(d->text, words)) fail_msg("%s: %s, '%s'", what, ok ? "accepted" : "refused", d ? d->text : "");
  ctx_free(c);
  free(t.s);
}
static void deep_texts(void **state) {
  (void)state;
  too_deep("expr", nested("stage x: f32 [] = ", "(", "1.0", ")", "\n", 100000), "nested");
  too_deep("expr", nested("stage x: f32 [] = ", "-", "1.0", "", "\n", 100000), "");
  too_deep("expr", nested("tensor t: bool[] input \"t\"\n", "if t {\n", "", "}\n", "", 100000), "");
  too_deep("expr", nested("size N = ", "(", "1", ")", "\n", 100000), "nested");
  too_deep("loop", nested("kernel k \"\" () {\n", "if true {\n", "", "}\n", "}\n", 100000), "");
  too_deep("program", nested("program \"p\"\n", "if %1 {\n", "", "}\n", "kernels\n", 100000), "");
  too_deep("graph", nested("graph \"g\" ir 8 opset 17 {\ninput x: bool[]\n", "y: f32[] = If(x) {then_branch = graph {\n", "", "}}\n", "output y\n}\n", 100000), "");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = ", "(", "X[i]", ")", " }\n", 100000), "nesting");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = ", "-", "X[i]", "", " }\n", 100000), "");
  too_deep("notation", nested("op A(X: f32[n]) -> Y: f32[n] { Y[i] = X[i] ", "? 1.0 : X[i] ", "", "", " }\n", 100000), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_that_overflow), cmocka_unit_test(ranks),          cmocka_unit_test(memory_cap),
      cmocka_unit_test(onnx_nesting),        cmocka_unit_test(function_calls), cmocka_unit_test(deep_texts),
  };
  return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
