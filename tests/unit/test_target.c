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
  assert_true(c17 && !strcmp(c17->emitter, "c") && c17->vector_bits == 0 && !c17->fma && !c17->masks);
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
      {"triple = x86_64-linux-gnu\nvector_register = 8\n", "did you mean vector_registers", 2},
      {"triple = x86_64-linux-gnu\nl2 = 1048576\n# twice\nl2 = 2097152\n", "`l2` is set twice", 4},
      {"triple = x86_64-linux-gnu\nemitter = cobol\n", "expected llvm or c", 2},
      {"triple = x86_64-linux-gnu\nfma_per_cycle = 4294967297\n", "expected 1 to 64", 2},
      {"triple = x86_64-linux-gnu\nl1 = 99999999999999999999\n", "no value for l1", 2},
      {"triple = x86_64-linux-gnu\nl1 = -4\n", "no value for l1", 2},
      {"triple = x86_64-linux-gnu\nl1 = 4 K\n", "no value for l1", 2},
      {"triple = x86_64-linux-gnu\nl1 =\n", "no value for l1", 2},
      {"triple = x86_64-linux-gnu\nloads_per_cycle = 0\n", "expected 0.01 to 64", 2},
      {"triple = x86_64-linux-gnu\nloads_per_cycle = nan\n", "no value for loads_per_cycle", 2},
      {"triple = x86_64-linux-gnu\nloads_per_cycle = 2 or so\n", "no value for loads_per_cycle", 2},
      {"triple = x86_64-linux-gnu\nextends = c\n", "must be the first line", 2},
      {"# a copy\nextends = vax\n", "extends `vax`, which is not built in", 2},
      {"extends = c\nextends = c\n", "must be the first line", 2},
      {"extends = c\nprocessors = AuthenticAMD\n", "no value for processors", 2},
      {"extends = c\nprocessors = AuthenticAMD 25 0x20-0x10\n", "no value for processors", 2},
      {"extends = c\nprocessors = AuthenticAMD 25 0x20-\n", "no value for processors", 2},
      {"extends = c\nprocessors = AuthenticAMD 25 sixteen\n", "no value for processors", 2},
      {"extends = c\nprocessors = AuthenticAMD 25x\n", "no value for processors", 2},
      {"extends = c\nprocessors = AuthenticAMD 99999999999999999999\n", "no value for processors", 2},
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
/* What is printed of a target reads back as a target that prints the same, whatever the field. */
static void test_printed(void **s) {
  (void)s;
  const char *path = EK_BINARY_DIR "/printed.target";
  ctx *c = ctx_new();
  const char **names;
  uint32_t n = target_names(c, &names);
  for (uint32_t i = 0; i < n; i++) {
    const target *t = target_get(c, names[i]), *again;
    sbuf b = sbuf_new(ctx_arena(c)), b2 = sbuf_new(ctx_arena(c));
    target_print(t, &b);
    assert_true(file_write(c, path, b.s, b.n));
    again = target_get(c, path);
    assert_true(again && again->vector_bits == t->vector_bits && again->l1 == t->l1 && again->masks == t->masks);
    assert_string_equal(again->required, t->required);
    target_print(again, &b2);
    assert_string_equal(b.s, b2.s);
  }
  ctx_free(c);
  remove(path);
}
/* What a file does not say has the default that docs/targets.md tells. */
static void test_defaults(void **s) {
  (void)s;
  const char *path = EK_BINARY_DIR "/short.target";
  ctx *c = ctx_new();
  assert_true(file_write(c, path, "triple = a\n", 11));
  const target *t = target_get(c, path);
  assert_non_null(t);
  sbuf b = sbuf_new(ctx_arena(c));
  target_print(t, &b);
  bytes page;
  assert_true(file_map(c, EK_SOURCE_DIR "/docs/targets.md", &page));
  const char *doc = arena_strndup(ctx_arena(c), (const char *)page.p, page.n);
  uint32_t rows = 0;
  for (char *line = b.s, *end; (end = strchr(line, '\n')); line = end + 1) {
    char *eq = strstr(line, " = ");
    if (*line == '#' || !eq || eq > end || !strncmp(line, "triple ", 7)) continue;
    const char *row = strstr(doc, arena_fmt(ctx_arena(c), "| `%.*s` |", (int)(eq - line), line));
    assert_non_null(row);
    row = arena_strndup(ctx_arena(c), row, strcspn(row, "\n"));
    const char *value = arena_fmt(ctx_arena(c), "| %.*s |", (int)(end - eq - 3), eq + 3);
    assert_non_null(strstr(row, value));
    rows++;
  }
  assert_true(rows >= 14);
  ctx_free(c);
  remove(path);
}
/* Numbers keep their digits, and a cache's way is its bytes by its ways. */
static void test_numbers(void **s) {
  (void)s;
  static const char text[] = "triple = a\nloads_per_cycle = 1.7\nfma_latency = 5\nl1 = 65536\nl1_ways = 4\n";
  const char *path = EK_BINARY_DIR "/numbers.target";
  ctx *c = ctx_new();
  assert_true(file_write(c, path, text, strlen(text)));
  const target *t = target_get(c, path);
  assert_true(t && t->loads_per_cycle == 1.7 && t->fma_latency == 5 && target_l1_way(t) == 16384);
  target none = *t;
  none.l1_ways = 0;
  assert_int_equal(target_l1_way(&none), 4096);
  sbuf b = sbuf_new(ctx_arena(c));
  target_print(t, &b);
  assert_non_null(strstr(b.s, "\nloads_per_cycle = 1.7\n"));
  ctx_free(c);
  remove(path);
}
/* A file that extends another one says only what differs. */
static void test_extends(void **s) {
  (void)s;
  static const char text[] = "# half of it\n\nextends = x86-64-v4\nl2 = 524288\n";
  const char *path = EK_BINARY_DIR "/extends.target";
  ctx *c = ctx_new();
  assert_true(file_write(c, path, text, strlen(text)));
  const target *t = target_get(c, path);
  assert_non_null(t);
  target of = *target_get(c, "x86-64-v4");
  of.l2 = 524288;
  sbuf a = sbuf_new(ctx_arena(c)), b = sbuf_new(ctx_arena(c));
  target_print(t, &a), target_print(&of, &b);
  assert_string_equal(a.s, b.s);
  const target *zen4 = target_get(c, "zen4"), *zen5 = target_get(c, "zen5");
  assert_true(zen4->fma_per_cycle == 1 && zen5->fma_per_cycle == 2 && zen4->l1 < zen5->l1);
  assert_true(zen5->vector_bits == 512 && target_products(zen5, ET_F32, ET_BF16, ET_BF16) &&
              !strcmp(zen5->cpu, "znver5"));
  ctx_free(c);
  remove(path);
}
/* A processor is told by vendor, family and models; `host` is made of the file that names this one. */
static void test_processors(void **s) {
  (void)s;
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  bool good;
  char vendor[16];
  unsigned id;
  const target *t = target_get(c, "host");
  assert_true(!cpu_is("", &good) && good);
  if (sscanf(cpu_identity(a), "x86-64 %15s %x:", vendor, &id) != 2) {
    ctx_free(c);
    skip();
  }
  unsigned family = id >> 8 & 15, model = id >> 4 & 15;
  if (family == 6 || family == 15) model += (id >> 16 & 15) * 16;
  if (family == 15) family += id >> 20 & 255;
  assert_true(cpu_is(arena_fmt(a, "%s %u", vendor, family), &good) && good);
  assert_true(cpu_is(arena_fmt(a, "%s %u 0x%x", vendor, family, model), &good) && good);
  assert_true(cpu_is(arena_fmt(a, "%s %u 1000 0x%x-%u", vendor, family, model, model + 1), &good) && good);
  assert_true(!cpu_is(arena_fmt(a, "%s %u %u-300", vendor, family, model + 1), &good) && good);
  assert_true(!cpu_is(arena_fmt(a, "%s %u", vendor, family + 1), &good) && good);
  assert_true(!cpu_is(arena_fmt(a, "%.3s %u", vendor, family), &good) && good);
  const char **names;
  for (uint32_t i = 0, n = target_names(c, &names); i < n; i++) {
    const target *q = target_get(c, names[i]);
    if (q->here && cpu_is(q->processors, &good)) assert_string_equal(t->like, names[i]);
  }
  assert_true(t->like && target_get(c, t->like)->here);
  ctx_free(c);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_builtin),   cmocka_unit_test(test_files),
                                     cmocka_unit_test(test_printed),   cmocka_unit_test(test_defaults),
                                     cmocka_unit_test(test_numbers),   cmocka_unit_test(test_extends),
                                     cmocka_unit_test(test_processors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
