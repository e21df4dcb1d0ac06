/* The program level: what is printed reads back as the same program, of which the same functions are made; bad text
 * is refused; the verifier takes what the compiler makes and finds what is planted.
 */
#include "driver/lower.h"
#include "passes/passes.h"
#include "onnx/onnx.h"
#include "program/program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static program *built(ctx *c, const char *model, int level) {
  oplib *lib = notation_lib(c);
  notation_add_builtin(lib);
  graph *g = onnx_load_file(c, arena_fmt(ctx_arena(c), "%s/tests/models/%s.onnx", EK_SOURCE_DIR, model));
  if (!g) ctx_unwind(c);
  emodule *m = lower_graph(g, lib, NULL, 0);
  if (!m) ctx_unwind(c);
  expr_optimise(m, level, NULL);
  return program_build(schedule_module(m, target_get(c, "x86-64-v3"), (schedule_opts){.level = level}), g->name);
}
static const char *text_of(const program *p) {
  sbuf b = sbuf_new(p->a);
  program_print(p, &b);
  return b.s;
}
static const char *function_text(const program *p, const lfunc *f) {
  sbuf b = sbuf_new(p->a);
  loop_print_func(f, &b);
  return b.s;
}
static void tell(ctx *c) {
  uint32_t n = 0;
  for (const diag *d = diag_first(c); d && n < 10; d = d->next)
    if (d->level == D_ERROR)
      n++, printf("%s:%u:%u: %s\n", d->pos.file ? d->pos.file : "", d->pos.line, d->pos.col, d->text);
}
static void difference(const char *what, const char *x, const char *y) {
  uint32_t line = 1;
  const char *a = x, *b = y;
  for (; *x && *x == *y; x++, y++)
    if (*x == '\n') line++, a = x + 1, b = y + 1;
  printf("%s differs in line %u:\n  %.*s\n  %.*s\n", what, line, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}
static bool same(const char *what, const char *x, const char *y) {
  if (strcmp(x, y)) difference(what, x, y);
  return !strcmp(x, y);
}

/* ---- print, parse, print --------------------------------------------------------------------- */
static bool has_kinds(const char *model, const char *text, uint32_t kinds) {
  static const char *const words[] = {"\nsize ", "late ", "if %", "loop ", "fail when", ": weights ", ".x + "};
  bool all = true;
  for (uint32_t i = 0; i < 7; i++)
    if (kinds >> i & 1 && !strstr(text, words[i])) printf("%s: no `%s`\n", model, words[i]), all = false;
  return all;
}
static bool reads_back(const char *model, int level, uint32_t kinds, uint32_t *unproved) {
  ctx *c = ctx_new(), *other = ctx_new();
  volatile bool good = false;
  CTX_TRY(c) {
    program *p = built(c, model, level);
    const char *text = text_of(p);
    bool rich = has_kinds(model, text, kinds);
    bool verified = program_verify(p, "test") && loop_verify(p->l, "test");
    program *q = program_parse(c, text, model); /* the same sizes: the functions are the same to the letter */
    bool equal = q && same(model, text, text_of(q)) && program_verify(q, "read");
    if (equal) {
      program_functions(q);
      equal = loop_verify(q->l, "read") && same("plan", function_text(p, p->plan_fn), function_text(q, q->plan_fn)) &&
              same("run", function_text(p, p->run_fn), function_text(q, q->run_fn));
    }
    program *r = program_parse(other, text, model); /* sizes of its own */
    bool alone = r && same(model, text, text_of(r)) && program_verify(r, "read elsewhere");
    if (alone) {
      program_functions(r);
      alone = loop_verify(r->l, "read elsewhere");
    }
    if (unproved) *unproved = program_verify_memory(p, NULL);
    good = rich && verified && equal && alone && !diag_errors(c) && !diag_errors(other);
  }
  CTX_CATCH {}
  tell(c), tell(other);
  if (!good) printf("FAILED: %s at level %d\n", model, level);
  ctx_free(other), ctx_free(c);
  return good;
}
static void test_reads_back(void **state) {
  enum { SIZE = 1, LATE = 2, IF = 4, LOOP = 8, FAIL = 16, WEIGHTS = 32, MOVED = 64 };
  static const struct {
    const char *model;
    uint32_t kinds;
  } list[] = {
      {"residual_cnn", WEIGHTS},
      {"dynamic_batch_cnn", SIZE | WEIGHTS},
      {"if_data", IF},
      {"if_nested", IF},
      {"loop_fixed", LOOP},
      {"loop_while", LOOP},
      {"loop_nested", LOOP},
      {"detector_nms", LATE},
      {"detector_scaled", LATE | SIZE | WEIGHTS},
      {"shape_arithmetic", SIZE},
      {"attention_causal", SIZE},
      {"strange_names", 0},
      {"lstm_forward", WEIGHTS},
      {"steps_written_out", SIZE | WEIGHTS | MOVED},
      {"transformer_encoder", SIZE | WEIGHTS},
      {"zero_size", 0},
      {"scalar_inputs", 0},
  };
  bool good = true;
  (void)state;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    uint32_t unproved = 0;
    good &= reads_back(list[i].model, 3, list[i].kinds, &unproved);
    if (unproved) printf("%s: %u conditions on memory not proved\n", list[i].model, unproved);
  }
  good = reads_back("dynamic_batch_cnn", 0, 0, NULL) && reads_back("loop_while", 0, LOOP, NULL) &&
         reads_back("detector_nms", 0, LATE, NULL) && good;
  assert_true(good);
}

/* ---- how much memory ------------------------------------------------------------------------- */
static program *planned(ctx *c, const char *text) { /* every stage a launch */
  emodule *m = expr_parse(c, text, "example");
  if (!m) ctx_unwind(c);
  expr_optimise(m, 0, NULL);
  return program_build(schedule_module(m, target_get(c, "x86-64-v3"), (schedule_opts){.level = 0}), "example");
}
static void test_memory(void **state) {
  (void)state;
  static const char *const text[] = {/* largest first leaves a gap that is too small: 14 of 1600 floats */
                                     "tensor x: f32[1600] input \"x\"\n"
                                     "stage a: f32[i<6400] = x[min(i, 1599)]\n"
                                     "stage b: f32[i1<6400] = a[i1] + 1.0\n"
                                     "stage d: f32[i2<8000] = a[min(i2, 6399)] + b[min(i2, 6399)]\n"
                                     "stage e: f32[i3<1600] = d[i3]\n"
                                     "stage f: f32[i4<9600] = a[min(i4, 6399)] + e[min(i4, 1599)]\n"
                                     "stage g: f32[i5<6400] = f[i5]\n"
                                     "stage y: f32[i6<1600] out = g[i6]\n"
                                     "output y \"y\"\n",
                                     /* two forms of size, one of which rounding would make 16 times as large */
                                     "size N\nsize M\n"
                                     "tensor x: f32[N, 512] input \"x\"\n"
                                     "tensor z: f32[M] input \"z\"\n"
                                     "stage a: f32[i<N, j<M] = x[i, min(j, 511)] + z[j]\n"
                                     "stage b: f32[i1<N, j1<512] = x[i1, j1] * 2.0\n"
                                     "stage d: f32[i2<N, j2<512] = b[i2, j2] + 1.0\n"
                                     "stage e: f32[i3<N, j3<256] = d[i3, j3] + 1.0\n"
                                     "stage y: f32[i4<N, j4<M] out = e[i4, min(j4, 255)] + a[i4, j4]\n"
                                     "output y \"y\"\n"};
  static const char *const arena[] = {"83200", "4096*N + 64*((M*N + 15)//16)"};
  for (int i = 0; i < 2; i++) {
    ctx *c = ctx_new();
    volatile bool good = false;
    CTX_TRY(c) {
      program *p = planned(c, text[i]);
      const char *bytes = sym_str(c, p->arena_bytes);
      good = program_verify(p, "test") && !strcmp(bytes, arena[i]) && (i || p->live_bound == p->arena_bytes);
      if (!good) printf("%s bytes, not %s\n", bytes, arena[i]);
    }
    CTX_CATCH {}
    tell(c);
    assert_true(good);
    ctx_free(c);
  }
}

/* ---- bad text -------------------------------------------------------------------------------- */
static const char small[] =
    "program \"small \\\"one\\\"\"\n"
    "size N 0..1000\n"
    "size L 0..1000 at most 2*N\n"
    "size `odd name` 0..99\n"
    "size t 0..8000 = 8*N\n"
    "input \"x\": f32[N]\n"
    "output \"y\": f32[L]\n"
    "arena 256*N + 192 bytes, at least 0\n"
    "scratch 64 bytes per worker\n"
    "weights 64 bytes\n"
    "buffer %1.x: input f32 x N number 0\n"
    "buffer %2.w: weights f32 x 4 in 64 at 0 sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
    "buffer %3.\"n\\xe9\": arena i64 x 1 in 64 at 0 steps 1..2\n"
    "buffer %4.go: arena bool x 1 in 64 at 64 steps 1..9\n"
    "buffer %5.h: arena f32 x 16*N in 64*N + 64 at 128 steps 2..9 halo -inf\n"
    "buffer %6: output f32 x L number 0\n"
    "fail when not N - 1 >= 0 \"x must not be empty\" node \"first\"\n"
    "launch k0(N, %1.x, out %3.\"n\\xe9\", out %4.go) chunks 1  # numbers\n"
    "launch k1(t, %3.\"n\\xe9\", %2.w, out %5.h) chunks (N + 63)//64 parallel where N - 12 >= 0\n"
    "late L = %3.\"n\\xe9\"\n"
    "if %4.go {\n"
    "  fail when not -L + 100 >= 0 \"too many\"\n"
    "  launch k2(scratch, L, %5.h, out %6) chunks L scratch 64 parallel\n"
    "} else {\n"
    "  loop `odd name` = 0 .. min(L, N) if %4.go while %4.go {\n"
    "    launch k2(scratch, `odd name`, %5.h, out %6) chunks 1 scratch 64\n"
    "  }\n"
    "}\n"
    "kernels\n"
    "\n"
    "kernel k0 \"numbers\" (i64 n, ptr f32 x read, ptr i64 o read write, ptr bool g read write) {\n"
    "  %1 = param n\n  %2 = param x\n  %3 = param o\n  %4 = param g\n"
    "  store %3 0 %1\n"
    "}\n"
    "\n"
    "kernel k1 (i64 n, ptr i64 x read, ptr f32 w read noalias, ptr f32 h read write align 64) {\n"
    "  %1 = param n\n  %2 = param x\n  %3 = param w\n  %4 = param h\n"
    "  %5 = load f32 %3 0\n"
    "  store %4 0 %5\n"
    "}\n"
    "\n"
    "kernel k2 (ptr u8 s read write noalias align 64, i64 n, ptr f32 h read, ptr f32 y read write) {\n"
    "  %1 = param s\n  %2 = param n\n  %3 = param h\n  %4 = param y\n"
    "}\n";
/* Reads it, verifies it; false: refused. The first message is left in `why`. */
static bool accepted(const char *text, char why[300]) {
  ctx *c = ctx_new();
  volatile bool good = false;
  CTX_TRY(c) {
    program *p = program_parse(c, text, "text");
    good = p && program_verify(p, "test") && loop_verify(p->l, "test");
    if (good) program_functions(p);
  }
  CTX_CATCH { good = false; }
  const diag *d = diag_first(c);
  snprintf(why, 300, "%s", d ? d->text : "");
  bool silent = !good && !d;
  ctx_free(c);
  assert_false(silent);
  return good;
}
static void test_small(void **state) {
  char why[300];
  (void)state;
  bool good = accepted(small, why);
  if (!good) printf("%s\n", why);
  assert_true(good);
  ctx *c = ctx_new();
  CTX_TRY(c) {
    program *p = program_parse(c, small, "text");
    assert_non_null(p);
    assert_true(same("small", small, text_of(p)));
    assert_int_equal(program_verify_memory(p, NULL), 0);
    assert_int_equal(p->steps.n, 4);
  }
  CTX_CATCH { fail(); }
  ctx_free(c);
}
static void test_prefixes(void **state) {
  size_t n = strlen(small) - 1; /* without the last newline it is whole */
  (void)state;
  for (size_t i = 0; i < n; i++) {
    ctx *c = ctx_new();
    char *text = malloc(i + 1); /* exactly so long: a reader that runs over the end is seen */
    memcpy(text, small, i);
    text[i] = 0;
    program *p = program_parse(c, text, "text");
    if (p || !diag_errors(c)) printf("the first %zu characters are taken for a program\n", i);
    assert_true(!p && diag_errors(c));
    free(text);
    ctx_free(c);
  }
}

/* ---- planted errors: one replacement in the small program, and a piece of the message -------- */
typedef struct planted {
  const char *from, *to, *says;
} planted;
static const planted wrong[] = {
    {"at 64 steps 1..9", "at 0 steps 1..9", "overlap"},       /* two numbers */
    {"at 128 steps 2..9", "at 64 steps 2..9", "overlap"},     /* a number and a formula */
    {"at 128 steps 2..9", "at 192*N + 128 steps 2..9", NULL}, /* just inside */
    {"at 128 steps 2..9", "at 256*N + 192 steps 2..9", "not inside the arena"},
    {"at 128 steps 2..9", "at 127 steps 2..9", "multiple of 64"},
    {"16*N in 64*N + 64", "17*N in 64*N + 64", "in a room of"},
    {"at 64 steps 1..9", "at 64 steps 1..2", "lives in the steps"},
    {"at 64 steps 1..9", "at 64 steps 1..5", "lives in the steps"},
    {"bytes per worker", "bytes per workers", "worker"},
    {"scratch 64 bytes", "scratch 0 bytes", "bytes of scratch"},
    {"weights 64 bytes", "weights 0 bytes", "not inside the weights"},
    {"weights 64 bytes", "weights 64 bytes, 64 of first values", "is among the first values of states"},
    {"weights 64 bytes", "weights 64 bytes, 65 of first values", "more bytes of first values than of weights"},
    {"weights 64 bytes", "weights 64 bytes, 0 of first values", NULL},
    {"launch k0(N, %1.x,", "launch k0(N, %2.w, %1.x,", "takes 4 arguments"},
    {"launch k0(N, %1.x,", "launch k0(%1.x, N,", "the kernel's parameter"},
    {"launch k0(N, %1.x,", "launch k0(L, %1.x,", "no value here"}, /* late, used before it is set */
    {"launch k0(N, %1.x,", "launch k9(N, %1.x,", "not among the kernels"},
    {"%3.\"n\\xe9\", %2.w, out", "%3.\"n\\xe9\", %5.h, out", "before anything is written"},
    {"k1(t, %3.\"n\\xe9\", %2.w", "k1(t, %2.w, %2.w", "of type"},
    {"out %6) chunks L", "%6) chunks L", "not marked out"},
    {"out %5.h) chunks (N", "out %2.w) chunks (N", "constant"},
    {"late L = %3.\"n\\xe9\"\n", "", "no value here"},
    {"late L = %3", "late N = %3", "has a value already"},
    {"late L = %3.\"n\\xe9\"", "late L = %3.\"n\\xe9\" + 1", "element 1"},
    {"if %4.go {", "if %5.h {", "cannot be of type"},
    {"loop `odd name` = 0", "loop N = 0", "has a value already"},
    {"loop `odd name` = 0 .. min(L, N)", "loop `odd name` = 0 .. `odd name`", "no value here"},
    {" at most 2*N", "", "before there is room"}, /* an output without a bound */
    {"input \"x\": f32[N]", "input \"x\": f32[2*N]", "no value here"},
    {"x N number 0", "x N number 1", "too few"},
    {"x N number 0", "x 2*N number 0", "more than the model's"},
    {"input \"x\": f32", "input \"x\": f16", "of type"},
    {"buffer %2.w", "buffer %3.w", "next buffer's number"},
    {"%2.w, out", "%2.v, out", "%2.w"},
    {"size t 0..8000 = 8*N\n", "", "known name"},
    {"size t 0..8000", "size N 0..8000", "not declared above"},
    {"N 0..1000\n", "N 9..0\n", "range"},
    {"halo -inf", "halo x", "value of type f32"},
    {"sha256:0123", "sha256:X123", "64 hexadecimal digits"},
    {"(N + 63)//64", "(N + 63)//0", "divisor"},
    {"where N - 12 >= 0", "where L - 12 >= 0", "no value here"},
    {"where N - 12 >= 0", "where N - 12 >= 1", "0"},
    {"kernel k0 \"numbers\"", "main k0 \"numbers\"", "kernels only"},
    {"store %3 0 %1", "store %3 0 %9", "not defined"},
};
static void test_planted(void **state) {
  bool all = true;
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[sizeof small + 200], why[300];
    const char *at = strstr(small, wrong[i].from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - small), small, wrong[i].to, at + strlen(wrong[i].from));
    bool taken = accepted(text, why);
    bool good = wrong[i].says ? !taken && strstr(why, wrong[i].says) : taken;
    if (!good)
      printf("`%s` for `%s`: %s, but %s\n", wrong[i].to, wrong[i].from, wrong[i].says ? wrong[i].says : "fine",
             taken ? "accepted" : why);
    all &= good;
  }
  assert_true(all);
}
/* Nesting does not reach the stack's end. */
static void test_deep(void **state) {
  (void)state;
  size_t n = 100000;
  char *text = malloc(n * 8 + 100), *t = text, why[300];
  t += sprintf(t, "program \"deep\"\narena 0 bytes\nscratch 0 bytes per worker\nbuffer %%1: input bool x 1 number 0\n");
  for (size_t i = 0; i < n; i++) t += sprintf(t, "if %%1 {");
  assert_false(accepted(text, why));
  assert_non_null(strstr(why, "nested blocks"));
  free(text);
}
/* Whatever the models of a list are: EK_TEST_PROGRAMS="name name ..." in tests/models. */
static void test_more(void **state) {
  const char *list = getenv("EK_TEST_PROGRAMS");
  (void)state;
  if (!list) skip();
  char *copy = strdup(list), *save = NULL;
  uint32_t failed = 0, n = 0;
  for (char *m = strtok_r(copy, " \n", &save); m; m = strtok_r(NULL, " \n", &save)) {
    uint32_t unproved = 0;
    n++, failed += !reads_back(m, 3, 0, &unproved);
    if (unproved) printf("%s: %u conditions on memory not proved\n", m, unproved);
  }
  printf("%u models, %u failed\n", n, failed);
  free(copy);
  assert_int_equal(failed, 0);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),   cmocka_unit_test(test_reads_back), cmocka_unit_test(test_small),
      cmocka_unit_test(test_prefixes), cmocka_unit_test(test_planted),    cmocka_unit_test(test_deep),
      cmocka_unit_test(test_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
