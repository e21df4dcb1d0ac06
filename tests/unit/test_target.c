/* Are machines read from data, and is a wrong file named with line and reason? */
#include "target/target.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_builtin(void **s) {
  (void)s;
  ctx *c = ctx_new();
  const char **names;
  uint32_t n = target_names(c, &names);
  assert_true(n >= 5);
  for (uint32_t i = 0; i < n; i++) {
    const target *t = target_get(c, names[i]);
    assert_non_null(t);
    assert_string_equal(t->name, names[i]);
    assert_true(t->l1 >= 8192 && t->l2 >= t->l1 && t->l1_ways > 0 && t->line >= 16);
    assert_int_equal(t->host, !strcmp(names[i], "host"));
    assert_int_equal(target_lanes(t, ET_F32), t->vector_bits ? t->vector_bits / 32 : 1);
    assert_int_equal(target_lanes(t, ET_BOOL), t->vector_bits ? t->vector_bits / 8 : 1);
  }
  const target *c17 = target_get(c, "c");
  assert_true(c17 && !strcmp(c17->emitter, "c") && c17->vector_bits == 0);
  assert_int_equal(diag_errors(c), 0);
  assert_null(target_get(c, "pdp11"));
  assert_non_null(strstr(diag_first(c)->text, "x86-64-v3"));
  assert_int_equal(diag_code(c), E_TARGET);
  ctx_free(c);
}
static void test_files(void **s) {
  (void)s;
  static const struct {
    const char *text, *why;
    uint32_t line;
  } bad[] = {
      {"triple = x86_64-linux-gnu\nvector_bits = 100\n", "no value for vector_bits", 2},
      {"triple = x86_64-linux-gnu\nvector_bits = wide\n", "no value for vector_bits", 2},
      {"triple = x86_64-linux-gnu\nfma = maybe\n", "no value for fma", 2},
      {"triple = x86_64-linux-gnu\n\n# note\ncolour = red\n", "unknown key", 4},
      {"triple\n", "expected `key = value`", 1},
      {"cpu = z80\n", "no triple", 1},
  };
  const char *path = EK_BINARY_DIR "/test.target";
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ctx *c = ctx_new();
    assert_true(file_write(c, path, bad[i].text, strlen(bad[i].text)));
    assert_null(target_get(c, path));
    const diag *d = diag_first(c);
    assert_true(d && strstr(d->text, bad[i].why) && d->pos.line == bad[i].line);
    ctx_free(c);
  }
  ctx *c = ctx_new();
  static const char good[] =
      "  triple = riscv64-linux-gnu # a comment\r\n\tcpu=generic-rv64\nvector_bits = 0\nfma = yes";
  assert_true(file_write(c, path, good, strlen(good)));
  const target *t = target_get(c, path);
  assert_non_null(t);
  assert_string_equal(t->triple, "riscv64-linux-gnu");
  assert_string_equal(t->cpu, "generic-rv64");
  assert_true(t->fma && !t->host && target_lanes(t, ET_F32) == 1);
  assert_null(target_get(c, EK_BINARY_DIR "/missing.target"));
  assert_int_equal(diag_code(c), E_IO);
  ctx_free(c);
  remove(path);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_builtin), cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
