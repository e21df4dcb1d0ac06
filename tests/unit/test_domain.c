/* Which values may data have? Indices out of range, by operator, in every way to run a model; what is allowed; what is
 * known without a look. */
#define run lower_and_run
#include "lowerkit.h"
#undef run
#include "einkorn/einkorn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { MOST = 12 };
typedef struct one {
  /* nodes of a graph with inputs x: f32[3, 2], z: f32[2, 2] and `index`, and the output y */
  const char *index, *nodes;
  int64_t dims[2], rank, i[MOST];
  const char *says; /* NULL: it runs */
} one;
#define FAR INT64_MAX
#define LOW INT64_MIN
// clang-format off
#define GATHER "y: f32[4, 2] = Gather(x, i) \"g\""
#define OPEN "y: f32[N, 2] = Gather(x, i) \"g\""
#define ELEMENTS "y: f32[3, 2] = GatherElements(x, i) \"e\""
#define ND "y: f32[2] = GatherND(x, i) \"n\""
#define LOSS "y: f32[] = NegativeLogLikelihoodLoss(x, i) {ignore_index = 7} \"l\""
#define BRANCH \
  "m: i64[] = ReduceMax(i) {keepdims = 0} \"m\"\n  c: bool[] = Greater(m, k) \"c\"\n" \
  "  y: f32[3, 2] = If(c) {else_branch = graph \"no\" {\n    a: f32[3, 2] = Identity(x) \"n\"\n    output a\n  }," \
  " then_branch = graph \"yes\" {\n    b: f32[3, 2] = Gather(x, i) \"g\"\n    output b\n  }} \"if\""
#define LOOP \
  "y: f32[3, 2] = Loop(k, _, x) {body = graph \"body\" {\n    input step: i64[]\n    input going: bool[]\n" \
  "    input state: f32[3, 2]\n    on: bool[] = Identity(going) \"on\"\n    j: i64[3] = Add(i, step) \"j\"\n" \
  "    next: f32[3, 2] = Gather(state, j) \"g\"\n    output on\n    output next\n  }} \"loop\""
#define CONSTANT(name, type, value) "const " name ": i64[" type "] = " value "\n  "
#define MROPE \
  CONSTANT("a", "3", "[1, 1, 4]") CONSTANT("b", "3", "[3, 1, 1]") \
  "r: f32[1, 1, 4] = Reshape(z, a) \"r\"\n  j: i64[3, 1, 1] = Reshape(i, b) \"j\"\n" \
  "  y: f32[1, 1, 4] = \"com.microsoft\"::MRotaryEmbedding(r, j, x, x) {mrope_section = [1, 1, 0]} \"m\""
#define RAGGED \
  CONSTANT("a", "3", "[2, 1, 2]") CONSTANT("b", "3", "[2, 2, 1]") \
  "w: f32[2, 1, 2] = Reshape(z, a) \"w\"\n  p: f32[2, 2, 1] = Reshape(z, b) \"p\"\n" \
  "  j: i32[3] = Cast(i) {to = 6} \"j\"\n" \
  "  y: f32[3, 2], s: f32[2, 2, 1] = \"com.microsoft\"::VarlenCausalConvWithState(x, w, j, _, p) \"v\""
#define BYTES \
  "const g: u8[2] = [1, 2]\n  const s: f32[] = [0.5]\n  const q: u8[] = [3]\n  t: u8[3, 2] = Cast(x) {to = 2} \"t\"\n" \
  "  j: i32[1, 2] = Cast(i) {to = 6} \"j\"\n  y: f32[1, 2, 2], k: i32[1] = \"com.microsoft\"::" \
  "QEmbedLayerNormalization(j, _, t, t, _, g, g, _, s, s, _, s, s, q, q, _, q, q) \"q\""
#define PARTS "s = SequenceConstruct(x, x) \"s\"\n  "
#define AT PARTS "y: f32[3, 2] = SequenceAt(s, i) \"at\""
#define ERASE PARTS "t = SequenceErase(s, i) \"out\"\n  y: f32[M, 2] = ConcatFromSequence(t) {axis = 0} \"y\""
#define INSERT PARTS "t = SequenceInsert(s, z, i) \"in\"\n  y: f32[M, 2] = ConcatFromSequence(t) {axis = 0} \"y\""
static const one cases[] = {
    {"i: i64[4]", GATHER, {4}, 1, {0, 2, -1, -3}, NULL},
    {"i: i64[4]", GATHER, {4}, 1, {0, 3}, "g: Gather: index 3 at [1] is out of range -3..2"},
    {"i: i64[4]", GATHER, {4}, 1, {0, 1, 2, -4}, "index -4 at [3] is out of range -3..2"},
    {"i: i64[4]", GATHER, {4}, 1, {LOW, FAR}, "index -9223372036854775808 at [0] is out of range -3..2"},
    {"i: i64[4]", GATHER, {4}, 1, {0, 1, FAR}, "index 9223372036854775807 at [2] is out of range -3..2"},
    {"i: i64[2, 2]", "y: f32[3, 2, 2] = Gather(x, i) {axis = 1} \"g\"", {2, 2}, 2, {0, 1, -2, 2}, "2 at [1, 1] is"},
    {"i: i64[]", "y: f32[2] = Gather(x, i) \"g\"", {0}, 0, {1 << 20}, "Gather: index 1048576 is out of range -3..2"},
    {"i: i64[N]", OPEN, {5}, 1, {0, 0, 0, 0, 9}, "index 9 at [4] is out of range -3..2"},
    {"i: i64[N]", OPEN, {0}, 1, {0}, NULL},
    {"i: i64[N, M]", "y: f32[N, M, 2] = Gather(x, i) \"g\"", {2, 3}, 2, {0, 0, 0, 0, 9, 7}, "index 9 at [1, 1] is"},
    {"i: i64[4]",
     CONSTANT("t", "2", "[4, 1]") "r: i64[4, 1] = Reshape(i, t) \"r\"\n  y: f32[4, 2] = GatherND(x, r) \"n\"",
     {4}, 1, {0, 1, -4}, "n: GatherND: index -4 at [2, 0] is out of range -3..2"},
    {"i: i64[2, 2]", ND, {2, 2}, 2, {2, 1, -3, -2}, NULL},
    {"i: i64[2, 2]", ND, {2, 2}, 2, {2, 1, 1, 2}, "index 2 at [1, 1] is out of range -2..1"},
    {"i: i64[3, 2]", ELEMENTS, {3, 2}, 2, {0, 1, 2, -3, -1, 1}, NULL},
    {"i: i64[3, 2]", ELEMENTS, {3, 2}, 2, {0, 1, 2, -3, -1, 5}, "e: GatherElements: index 5 at [2, 1]"},
    {"i: i64[3, 2]", "y: f32[3, 2] = ScatterElements(x, i, x) \"s\"", {3, 2}, 2, {0, 1, 2, 0, 1, -4},
     "s: ScatterElements: index -4 at [2, 1] is out of range -3..2"},
    {"i: i64[2, 2]", "c: f32[2] = GatherND(x, i) \"n\"\n  y: f32[3, 2] = ScatterND(x, i, c) \"s\"",
     {2, 2}, 2, {0, 1, 2, -3}, "n: GatherND: index -3 at [1, 1] is out of range -2..1"},
    {"i: i64[2, 1]", "y: f32[3, 2] = ScatterND(x, i, z) \"s\"", {2, 1}, 2, {0, 3}, "s: ScatterND: index 3 at [1, 0]"},
    {"i: i64[2]", "y: f32[3, 2] = ReverseSequence(x, i) {batch_axis = 1, time_axis = 0} \"r\"", {2}, 1, {3, 4},
     "r: ReverseSequence: length 4 at [1] is out of range 0..3"},
    {"i: i64[3]", LOSS, {3}, 1, {0, 7, 1}, NULL},
    {"i: i64[3]", LOSS, {3}, 1, {0, 7, 2}, "l: NegativeLogLikelihoodLoss: label 2 at [2] is out of range 0..1"},
    {"i: i64[3]", MROPE, {3}, 1, {0, 2, 1}, NULL},
    {"i: i64[3]", MROPE, {3}, 1, {0, 3, 1}, "m: MRotaryEmbedding: index 3 at [1, 0, 0] is out of range 0..2"},
    {"i: i64[3]", RAGGED, {3}, 1, {0, 1, 3}, NULL},
    {"i: i64[3]", RAGGED, {3}, 1, {0, 9, 3},
     "v: VarlenCausalConvWithState: start of a request 9 at [1] is out of range"},
    {"i: i64[3]", RAGGED, {3}, 1, {0, 1, 2}, "end of the last request 2 at [2] is out of range 3..3"},
    {"i: i64[1, 2]", BYTES, {1, 2}, 2, {0, 2}, NULL},
    {"i: i64[1, 2]", BYTES, {1, 2}, 2, {0, -1}, "q: QEmbedLayerNormalization: index -1 at [0, 1] is out of range 0..2"},
    /* a position in a sequence */
    {"i: i64[]", AT, {0}, 0, {-2}, NULL},
    {"i: i64[]", AT, {0}, 0, {2}, "at: SequenceAt: position 2 is out of range -2..1"},
    {"i: i64[]", AT, {0}, 0, {-(1 << 20)}, "at: SequenceAt: position -1048576 is out of range -2..1"},
    {"i: i64[]", ERASE, {0}, 0, {1}, NULL},
    {"i: i64[]", ERASE, {0}, 0, {-3}, "out: SequenceErase: position -3 is out of range -2..1"},
    {"i: i64[]", INSERT, {0}, 0, {2}, NULL},
    {"i: i64[]", INSERT, {0}, 0, {3}, "in: SequenceInsert: position 3 is out of range -2..2"},
    /* what computes the index is looked through */
    {"i: i64[4]", CONSTANT("k", "", "[2]") "j: i64[4] = Add(i, k) \"a\"\n  y: f32[4, 2] = Gather(x, j) \"g\"",
     {4}, 1, {0, -4, -5, 1}, "index 3 at [3] is out of range -3..2"},
    /* a branch that is not taken asks nothing, a trip that is not made neither */
    {"i: i64[3]", CONSTANT("k", "", "[0]") BRANCH, {3}, 1, {-9, -9, -9}, NULL},
    {"i: i64[3]", CONSTANT("k", "", "[0]") BRANCH, {3}, 1, {1, 5, 0}, "g: Gather: index 5 at [1] is out of range"},
    {"i: i64[3]", CONSTANT("k", "", "[2]") LOOP, {3}, 1, {1, -4, 0}, "g: Gather: index -4 at [1] is out of range"},
    {"i: i64[3]", CONSTANT("k", "", "[2]") LOOP, {3}, 1, {1, -3, 0}, NULL},
    {"i: i64[3]", CONSTANT("k", "", "[3]") LOOP, {3}, 1, {1, -3, 0}, "g: Gather: index 3 at [0] is out of range -3..2"},
    {"i: i64[3]", CONSTANT("k", "", "[0]") LOOP, {3}, 1, {9, 9, 9}, NULL},
    /* With constants the failure is known before the run, which fails nevertheless where nothing is compiled. */
    {"i: i64[2]", CONSTANT("k", "2", "[0, 5]") "y: f32[2, 2] = Gather(x, k) \"g\"", {2}, 1, {0},
     "g: Gather: index 5 at [1] is out of range -3..2"},
};
// clang-format on
typedef struct way {
  const char *name;
  int evaluate, level, threads, llvm;
} way;
static const way ways[] = {{"eval", 1, 3, 1, 0}, {"passes", 2, 3, 1, 0}, {"O0", 0, 0, 1, 0},
                           {"O3", 0, 3, 1, 0},   {"O3 t2", 0, 3, 2, 0},  {"llvm", 0, 3, 1, 1}};

/* EK_OK, or the code with a message in why */
static ek_code run(ek_session *s, const one *k, const way *w, int unchecked, char *why, size_t room) {
  char text[2000];
  const float x[6] = {1, 2, 3, 4, 5, 6};
  ek_model *m = NULL;
  ek_module *code = NULL;
  ek_run *r = NULL;
  ek_options o;
  ek_options_init(&o);
  o.evaluate = w->evaluate, o.optimize = w->level, o.threads = w->threads, o.unchecked = unchecked;
  o.codegen = w->llvm ? EK_CODEGEN_LLVM : EK_CODEGEN_AUTO;
  snprintf(text, sizeof text,
           "graph \"g\" {\n  input x: f32[3, 2]\n  input %s\n  input z: f32[2, 2]\n  %s\n  output y\n}\n", k->index,
           k->nodes);
  ek_code e = ek_load_memory(s, text, strlen(text), "case", &m);
  if (!e) e = ek_compile(m, &o, &code);
  if (!e) e = ek_run_create(code, w->threads, &r);
  if (!e) e = ek_run_shape(r, 1, k->dims, (int32_t)k->rank);
  if (!e) {
    ek_run_bind_input(r, 0, x), ek_run_bind_input(r, 1, k->i), ek_run_bind_input(r, 2, x);
    e = ek_run_execute(r);
  }
  snprintf(why, room, "%s", r ? ek_run_message(r) : ek_message(s));
  ek_run_destroy(r);
  ek_module_close(code);
  ek_model_close(m);
  return e;
}
static void test_cases(void **state) {
  (void)state;
  uint32_t bad = 0;
  char why[1000];
  ek_session *s = ek_session_create();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
      const one *k = &cases[i];
      ek_code e = run(s, k, &ways[w], 0, why, sizeof why);
      bool right = k->says ? e == EK_SHAPE && strstr(why, k->says) : e == EK_OK;
      if (!right) printf("case %zu (%s), %s: %d, %s\n", i, k->nodes, ways[w].name, (int)e, why), bad++;
      if (!ways[w].evaluate && (e = run(s, k, &ways[w], 1, why, sizeof why)))
        printf("case %zu (%s), %s unchecked: %d, %s\n", i, k->nodes, ways[w].name, (int)e, why), bad++;
    }
  ek_session_destroy(s);
  assert_int_equal(bad, 0);
}

/* How many checks does lowering leave? */
static uint32_t checks(const char *nodes) {
  ctx *c = ctx_new();
  const char *text = arena_fmt(ctx_arena(c),
                               "graph \"g\" {\n  input x: f32[3, 2]\n  input w: f32[N, 2]\n"
                               "  input i: i64[4]\n  %s\n  output y\n}\n",
                               nodes);
  emodule *m = lower(c, text, NULL, 0);
  uint32_t n = m ? m->checks.n : UINT32_MAX;
  if (!m) printf("%s\n", message(c));
  ctx_free(c);
  return n;
}
static void test_proved(void **state) {
  (void)state;
  assert_int_equal(checks("y: f32[4, 2] = Gather(x, i) \"g\""), 1);
  /* once for all that follows */
  assert_int_equal(checks("a: f32[4, 2] = Gather(x, i) \"a\"\n  b: f32[4, 2] = Gather(x, i) \"b\"\n"
                          "  y: f32[4, 2] = Add(a, b) \"c\""),
                   1);
  assert_int_equal(checks("const k: i64[3] = [-3, 0, 2]\n  y: f32[3, 2] = Gather(x, k) \"g\""), 0);
  assert_int_equal(checks("const k: i64[3] = [-3, 0, 3]\n  y: f32[3, 2] = Gather(x, k) \"g\""), 1);
  assert_int_equal(checks("m: i64[2] = ArgMax(x) {keepdims = 0} \"m\"\n  y: f32[2, 2] = Gather(x, m) \"g\""), 0);
  /* w may have no rows: then there is nothing that could be chosen */
  assert_int_equal(checks("m: i64[2] = ArgMax(w) {keepdims = 0} \"m\"\n  y: f32[2, 2] = Gather(w, m) \"g\""), 1);
  assert_int_equal(checks("m: i64[2] = ArgMax(w) {keepdims = 0} \"m\"\n  y: f32[2, 2] = Gather(x, m) \"g\""), 1);
  assert_int_equal(checks("const z: i64[] = [0]\n  const one: i64[] = [1]\n  s: i64[1] = Shape(w) {end = 1} \"s\"\n"
                          "  n: i64[] = Squeeze(s) \"n\"\n  r: i64[N] = Range(z, n, one) \"r\"\n"
                          "  y: f32[N, 2] = Gather(w, r) \"g\""),
                   0);
  assert_int_equal(checks("const lo: i64[] = [-3]\n  const hi: i64[] = [2]\n  k: i64[4] = Clip(i, lo, hi) \"k\"\n"
                          "  y: f32[4, 2] = Gather(x, k) \"g\""),
                   0);
  assert_int_equal(checks("const n: i64[] = [3]\n  k: i64[4] = Mod(i, n) \"k\"\n  y: f32[4, 2] = Gather(x, k) \"g\""),
                   0);
  assert_int_equal(checks("k: i64[2, M] = NonZero(x) \"k\"\n  t: i64[M, 2] = Transpose(k) {perm = [1, 0]} \"t\"\n"
                          "  y: f32[M] = GatherND(x, t) \"g\""),
                   0);
}
/* What is checked is known when compiling, and all of it is right: the place of a wrong one, which there is not, is no
 * number that an index could overflow with. */
static void test_constants(void **state) {
  static const char text[] = "graph \"requests\" ir 8 opset 17 {\n  input x: f32[2, 5]\n  input w: f32[5, 1, 2]\n"
                             "  input s: f32[2, 5, 1]\n  const cu: i32[3] = [0, 1, 2]\n"
                             "  y: f32[2, 5], z: f32[2, 5, 1] = "
                             "\"com.microsoft\"::VarlenCausalConvWithState(x, w, cu, _, s) \"conv\"\n  output y\n}\n";
  ek_session *session = ek_session_create();
  ek_model *m;
  ek_module *code;
  (void)state;
  if (ek_load_memory(session, text, sizeof text - 1, "requests", &m) || ek_compile(m, NULL, &code))
    fail_msg("%s", ek_message(session));
  ek_session_destroy(session);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_proved),
                                     cmocka_unit_test(test_constants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
