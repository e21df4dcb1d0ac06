/* What is fetched ahead is what a schedule's text says: none of it, one tensor more or less, or the default, which asks
 * what it takes (src/cost). Counted in the loops. */
#include "pass_check.h"
#include "schedule/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `@`: numbers for the shape before it. */
#define PRODUCT                                                                                                        \
  "tensor x: f32[64, 32] input \"x\"\ntensor w: f32[32, 96] const @\n"                                                 \
  "stage y: f32[a<64, c<96] out = sum[k<32] x[a, k] * w[k, c]\noutput y \"y\"\n"
#define OPEN                                                                                                           \
  "size N\ntensor x: f32[N, 32] input \"x\"\ntensor w: f32[32, 96] const @\n"                                          \
  "stage y: f32[a<N, c<96] out = sum[k<32] x[a, k] * w[k, c]\noutput y \"y\"\n"
#define TWO                                                                                                            \
  "tensor x: f32[64, 32] input \"x\"\ntensor w: f32[32, 96] const @\ntensor v: f32[32, 96] const @\n"                  \
  "stage y: f32[a<64, c<96] out = sum[k<32] max(x[a, k] * w[k, c], v[k, c])\noutput y \"y\"\n"
#define LARGE                                                                                                          \
  "tensor x: f32[9000, 256] input \"x\"\ntensor w: f32[256, 100] const @\ntensor b: f32[9000, 100] input \"b\"\n"      \
  "stage p: f32[a<9000, c<100] = sum[k<256] x[a, k] * w[k, c]\n"                                                       \
  "stage y: f32[a1<9000, c1<100] out = p[a1, c1] + b[a1, c1]\noutput y \"y\"\n"
#define MAP                                                                                                            \
  "tensor x: f32[64, 96] input \"x\"\ntensor z: f32[64, 96] input \"z\"\n"                                             \
  "stage y: f32[a<64, c<96] out = x[a, c] + z[a, c]\noutput y \"y\"\n"
typedef struct row {
  const char *formulas, *nest, *lines; /* the lines of that nest that are stated; NULL: nothing */
  const char *recorded;                /* what the record says then */
  int fetched;                         /* prefetches in the loops; 0: none, -1: some */
} row;
static const row rows[] = {
    {PRODUCT, "y", "prefetch none", "prefetch none", 0},
    {PRODUCT, "y", "prefetch panel w", "prefetch panel w\n", -1},
    {PRODUCT, "y", "tile 4 2\n prefetch rows x", "prefetch rows x\n", -1},
    {PRODUCT, "y", "tile 4 2\n prefetch rows x sums 9", "prefetch rows x sums 9\n", 0},
    {PRODUCT, "y", "tile 4 2\n prefetch rows x sums 8", "prefetch rows x sums 8\n", -1},
    {PRODUCT, "y", "tile 4 2\n block k 16 panels 2 rows 8\n prefetch none", "prefetch none", 0},
    {PRODUCT, "y", "tile 4 2\n block k 16 panels 2 rows 8", "prefetch block", -1},
    {OPEN, "y", "tile 4 2\n prefetch panel w rows 5", "prefetch panel w rows 5", -1},
    {TWO, "y", NULL, "prefetch panel w rows 5\n    prefetch panel v rows 5\n", -1},
    {LARGE, "p", NULL, "prefetch rows b sums 20\n    prefetch rows y sums 20", -1},
    {MAP, "y", "order a c\n rows none\n prefetch none", "prefetch none", 0},
    {MAP, "y", "order a c\n rows none\n prefetch places z", "prefetch places z\n", -1},
};
static int count(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text += strlen(what)) n++;
  return n;
}
/* The record and the loops of the formulas' first kernel; error: what it is refused for. */
static void scheduled(ctx *c, const row *r, sbuf *record, sbuf *loops) {
  arena *a = ctx_arena(c);
  emodule *m = expr_parse(c, pc_constants(a, r->formulas), "formulas");
  if (!m) ctx_unwind(c);
  expr_optimise(m, 3, &(expr_observer){.skip = "widen"});
  const char *text =
      r->lines ? arena_fmt(a, "schedules 1\nkernel k0 {\n nest %s {\n %s\n}\n}\n", r->nest, r->lines) : "schedules 1\n";
  schedules *given = schedules_parse(c, "given", (bytes){(const uint8_t *)text, strlen(text)});
  const splan *s =
      schedule_module(m, target_get(c, "zen4"), (schedule_opts){.level = 3, .record = true, .stated = given});
  record_print(s->launches.v[0].record, record);
  loop_print(s->l, loops, NULL);
}
/* The number of prefetches of what is scheduled for r; its record must have `recorded`. */
static int fetched(const row *r, const char *recorded) {
  ctx *c = ctx_new();
  sbuf record = sbuf_new(ctx_arena(c)), loops = record;
  CTX_TRY(c) { scheduled(c, r, &record, &loops); }
  CTX_CATCH fail_msg("%s: %s", r->lines, diag_first(c) ? diag_first(c)->text : "failed");
  if (!strstr(record.s, recorded)) fail_msg("`%s` is not in the schedule with %s:\n%s", recorded, r->lines, record.s);
  const int n = count(loops.s, " prefetch ");
  ctx_free(c);
  return n;
}
static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int n = fetched(&rows[i], rows[i].recorded);
    if (rows[i].fetched ? !n : n) fail_msg("%d prefetches with %s", n, rows[i].lines);
  }
}
/* What is listed besides is fetched besides, of each tensor by its own pointer. */
static void test_more(void **state) {
  (void)state;
  static const char *const lists[] = {"prefetch none", "prefetch rows x", "prefetch rows x\n prefetch rows y",
                                      "prefetch rows x\n prefetch rows y\n prefetch panel w"};
  int before = -1;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    const int n = fetched(&(row){.formulas = PRODUCT, .nest = "y", .lines = lists[i]}, "prefetch");
    if (n <= before) fail_msg("%d prefetches with %s, %d before", n, lists[i], before);
    before = n;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_more)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
