/* Calls made up from signatures, and what they cost. */
#include "notation/instance.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

static const char source[] =
    "op Product<T: float>(A: T[n, k], B: T[k, m]) -> C: T[n, m] { C[n, m] = sum[k] A[n, k] * B[k, m] }\n"
    "op Window<T: float>(X: T[l], W: T[k]) -> Y: T[o] { let o = l - k + 1\n Y[o] = sum[k] X[o + k] * W[k] }\n"
    "op Clever<T: float>(X: T[n]) -> Y: T[n] {\n  Y[n] = sum[p < size(n) where p <= n] X[p]\n  cost flops = n\n  cost "
    "bytes = 8*n\n}\n"
    "op Caller<T: float>(X: T[n]) -> Y: T[n] { Y = Clever(X) }\n"
    "op Lists<T: float>(X: T[n]; mode: str, a: int, b: int, w: float, words: str) -> Y: T[n] {\n"
    "  let p = tensor(a)\n  Y[n] = mode == \"one\" ? X[n]*T(b[0]) : X[n]*T(p[0] + len(w) + len(words))\n}\n";
static int setup(void **state) { return (*state = ctx_new()) ? 0 : -1; }
static int teardown(void **state) { return ctx_free(*state), 0; }
static bool find(ctx *c, const oplib *l, const char *name, bool symbolic, opinst *i) {
  const opdef *d = notation_find(l, "", name);
  assert_non_null(d);
  for (uint64_t s = 1; s < 2000; s++)
    if (notation_instance(c, l, d, s, (opinst_opts){.types = 1u << ET_F32, .symbolic = symbolic}, i)) return true;
  return false;
}
static void costs(void **state) {
  ctx *c = *state;
  oplib *l = notation_lib(c);
  static const char *const want[][3] = {{"Product", "2*n*k*m", "4*n*k + 4*k*m + 4*n*m"},
                                        {"Window", "2*k*(-k + l + 1)", "4*l + 4*k + 4*(-k + l + 1)"},
                                        {"Clever", "n", "8*n"},
                                        {"Caller", "2*n*n", "8*n"}};
  assert_true(notation_add(l, source, strlen(source), "cost.ek"));
  for (size_t q = 0; q < sizeof want / sizeof *want; q++) {
    opinst i;
    assert_true(find(c, l, want[q][0], true, &i));
    opcost k = opinst_cost(c, &i);
    assert_string_equal(k.bytes_text, want[q][2]);
    if (strcmp(want[q][0], "Caller") != 0)
      assert_string_equal(k.flops_text, want[q][1]); /* a stated cost is of the definition that the model calls */
    else
      assert_string_not_equal(k.flops_text, "n");
  }
}
/* An attribute that the body reads as a list is guessed as one, a word as a word: by chance one call in 32 would be. */
static void lists(void **state) {
  ctx *c = *state;
  oplib *l = notation_lib(c);
  opinst i;
  uint32_t legal = 0;
  assert_true(notation_add(l, source, strlen(source), "cost.ek"));
  for (uint64_t s = 1; s <= 40; s++)
    legal += notation_instance(c, l, notation_find(l, "", "Lists"), s, (opinst_opts){0}, &i);
  assert_true(legal > 15);
}
/* Sizes that follow from others in ways that a signature does not say: drawn one by one they hardly ever fit. */
static void equations(void **state) {
  static const char text[] =
      "op Flat<T: float>(X: T[x..., h], R: T[n, e]) -> Y: T[n, h] { Y = reshape(X, n, h)\n  require e < 9*n \"few\" }\n"
      "op Packed<T: float>(X: T[k], B: u8[w], W: u8[v]) -> Y: T[k] { require 2*w == k and v == 3*w + k \"room\"\n"
      "  require 3*w > 7 \"few\"\n  Y[k] = X[k] + T(B[k // 2]) }\n"
      "op Blob<T: float>(X: T[k], B: u8[w], s: dims i64[2]) -> Y: T[k] {\n"
      "  require values(s)[0] == k and w == values(s)[1]*(4 + (k + 1) // 2) \"blob\"\n  Y[k] = X[k] + T(B[k]) }\n";
  ctx *c = *state;
  oplib *l = notation_lib(c);
  assert_true(notation_add(l, text, strlen(text), "equations.ek"));
  static const char *const names[] = {"Flat", "Packed", "Blob"};
  for (size_t q = 0; q < sizeof names / sizeof *names; q++) {
    const opdef *d = notation_find(l, "", names[q]);
    uint32_t legal = 0;
    for (uint64_t s = 1; s <= 100; s++) {
      opinst i;
      if (!notation_instance(c, l, d, s, (opinst_opts){.types = 1u << ET_F64}, &i)) continue;
      legal++;
      for (uint32_t k = 0; k < i.nin; k++)
        for (uint32_t j = 0; j < i.in[k].rank; j++)
          assert_int_equal(sym_int_or(c, i.in[k].shape[j], -1), i.data[k].dims[j]);
    }
    if (legal < 20) fail_msg("%s: %u legal calls of 100", names[q], legal);
  }
}
static void same_seed(void **state) {
  oplib *l[2];
  ctx *c[2] = {*state, ctx_new()};
  for (int k = 0; k < 2; k++) assert_true((l[k] = notation_lib(c[k])) && notation_add_builtin(l[k]));
  uint32_t legal = 0;
  for (uint32_t d = 0; d < notation_count(l[0]); d += 7)
    for (uint64_t s = 1; s < 20; s++) {
      opinst i[2];
      bool ok[2];
      for (int k = 0; k < 2; k++)
        ok[k] = notation_instance(c[k], l[k], notation_nth(l[k], d), s, (opinst_opts){0}, &i[k]);
      assert_int_equal(ok[0], ok[1]);
      if (!ok[0]) continue;
      legal++;
      sbuf t[2] = {sbuf_new(ctx_arena(c[0])), sbuf_new(ctx_arena(c[1]))};
      for (int k = 0; k < 2; k++) opinst_print(c[k], notation_nth(l[k], d), &i[k], &t[k]);
      assert_string_equal(t[0].s, t[1].s);
      for (uint32_t q = 0; q < i[0].nin; q++) assert_int_equal(i[0].data[q].bytes, i[1].data[q].bytes);
      assert_int_equal(diag_errors(c[0]), 0);
    }
  assert_true(legal > 100);
  ctx_free(c[1]);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(costs, setup, teardown),
                                     cmocka_unit_test_setup_teardown(lists, setup, teardown),
                                     cmocka_unit_test_setup_teardown(equations, setup, teardown),
                                     cmocka_unit_test_setup_teardown(same_seed, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
