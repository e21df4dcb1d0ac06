/* What loop nests are estimated to take: small kernels whose cycles and lines are known by hand. */
#include "cost/loop_cost.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A machine with round figures: 512 bits, one multiply-add, two loads and one store a cycle. */
static target machine(void) {
  target t = target_defaults();
  t.vector_bits = 512, t.fma_per_cycle = 1, t.fma_latency = 4, t.loads_per_cycle = 2, t.stores_per_cycle = 1;
  t.issue_width = 100, t.step_overhead = 0, t.reorder_window = 100, t.line = 64, t.prefetch_stride = 1 << 20;
  t.l1 = 32 << 10, t.l1_ways = 8, t.l2 = 256 << 10, t.l3 = 4 << 20;
  t.l2_bandwidth = 32, t.l3_bandwidth = 16, t.dram_bandwidth = 8;
  return t;
}
static loop_cost cost_on(const target *t, const char *body, int64_t chunks) {
  ctx *c = ctx_new();
  char text[4000];
  snprintf(text, sizeof text,
           "kernel k \"test\" (ptr f32 x read, ptr f32 y read write) {\n%%1 = lo\n%%2 = hi\n%%3 = const f32x16 0\n"
           "%%4 = param x\n%%5 = param y\n%s}\n",
           body);
  const lmodule *m = loop_parse(c, text, "test");
  assert_non_null(m);
  const loop_cost r = cost_of_loops(m->funcs.v[0], (int64_t[]){0, 0}, chunks, t, ctx_arena(c));
  ctx_free(c);
  return r;
}
static loop_cost cost(const char *body, int64_t chunks) {
  const target t = machine();
  return cost_on(&t, body, chunks);
}
static void near(double a, double b) {
  if (fabs(a - b) > 1e-6 * fabs(b)) print_error("%g, not %g\n", a, b);
  assert_true(fabs(a - b) <= 1e-6 * fabs(b));
}

/* y = x + x, a vector at a time */
static const char copied[] = "for %6 = %1 to %2 step 1 \"i\" {\n%7 = mul i64 %6 16\n%8 = load f32x16 %4 %7\n"
                             "%9 = add f32x16 %8 %8\nstore %5 %7 %9\n}\n";
static void test_stream(void **s) {
  (void)s;
  /* 64 vectors fit the first cache; 1,000 of both need the second, 10,000 the third, 100,000 memory */
  const loop_cost few = cost(copied, 64), more = cost(copied, 1000), many = cost(copied, 10000),
                  all = cost(copied, 100000);
  near(few.core, 64), near(few.cycles, 64), near(few.l2 + few.l3 + few.memory + 1, 1);
  /* a line that is written comes and goes: three lines a vector */
  near(more.core, 1000), near(more.l2, 3 * 64 * 1000 / 32.0), near(more.cycles, more.l2), near(more.l3 + 1, 1);
  near(many.l3, 3 * 64 * 10000 / 16.0), near(many.memory + 1, 1);
  near(all.memory, 3 * 64 * 100000 / 8.0), near(all.cycles, all.memory);
}
static void test_unaligned(void **s) {
  (void)s;
  /* vectors that begin in the middle of a line are two loads, and two stores */
  near(cost("for %6 = %1 to %2 step 1 \"i\" {\n%7 = mul i64 %6 16\n%8 = add i64 %7 8\n%9 = load f32x16 %4 %8\n"
            "store %5 %8 %9\n}\n",
            64)
           .core,
       128);
}
static void test_chain(void **s) {
  (void)s;
  /* one sum waits for each multiply-add before: 4 cycles each. Four sums side by side take 1 cycle each. */
  const char *one = "%6 = reg %3\nfor %7 = %1 to %2 step 1 \"i\" {\n%8 = get %6\n%9 = fma f32x16 %3 %3 %8\nset %6 "
                    "%9\n}\n%10 = get %6\nstore %5 0 %10\n";
  near(cost(one, 10000).core, 40000 / (1 + 100 / 20000.0) + 1); /* and the store */
  const char *four = "%6 = reg %3\n%7 = reg %3\n%8 = reg %3\n%9 = reg %3\nfor %10 = %1 to %2 step 1 \"i\" {\n"
                     "%11 = get %6\n%12 = fma f32x16 %3 %3 %11\nset %6 %12\n%13 = get %7\n%14 = fma f32x16 %3 %3 "
                     "%13\nset %7 %14\n%15 = get %8\n%16 = fma f32x16 %3 %3 %15\nset %8 %16\n%17 = get %9\n%18 = fma "
                     "f32x16 %3 %3 %17\nset %9 %18\n}\n";
  near(cost(four, 10000).core, 4 * 10000);
  /* sums of 4 products are begun while those before are not done: the processor looks ahead */
  const char *inner = "for %6 = %1 to %2 step 1 \"i\" {\n%7 = reg %3\nfor %8 = 0 to 4 step 1 \"k\" {\n%9 = get %7\n%10 "
                      "= fma f32x16 %3 %3 %9\nset %7 %10\n}\n%11 = get %7\nstore %5 0 %11\n}\n";
  assert_true(cost(inner, 1000).core < 1000 * 8);
}
/* 1,024 times over 1 MB at steps of 1 KB: which loop is outside decides whether a line stays until it is used up */
static void test_reuse(void **s) {
  (void)s;
  const char *rows =
                 "for %6 = %1 to %2 step 1 \"i\" {\nfor %7 = 0 to 256 step 1 \"j\" {\n%8 = mul i64 %6 256\n%9 = add "
                 "i64 %8 %7\n%10 = load f32 %4 %9\n}\n}\n",
             *columns = "for %6 = 0 to 256 step 1 \"j\" {\nfor %7 = %1 to %2 step 1 \"i\" {\n%8 = mul i64 %7 256\n%9 = "
                        "add i64 %8 %6\n%10 = load f32 %4 %9\n}\n}\n";
  near(cost(rows, 1024).l2, 1024 * 1024 / 32.0);
  near(cost(columns, 1024).l2, 16 * 1024 * 1024 / 32.0);
  near(cost(columns, 1024).l3, 1024 * 1024 / 16.0); /* 64 KB of lines stay in the second cache */
}
/* 64 lines fit the first cache many times over, but not where they fall on the same set. */
static void test_conflicts(void **s) {
  (void)s;
  const char *text = "for %%6 = %%1 to %%2 step 1 \"i\" {\nfor %%7 = 0 to 64 step 1 \"j\" {\n%%8 = mul i64 %%7 %d\n"
                     "%%9 = load f32x16 %%4 %%8\n}\n}\n";
  char apart[500], same[500];
  snprintf(apart, sizeof apart, text, 1040), snprintf(same, sizeof same, text, 1024);
  near(cost(apart, 100).l2 + 1, 1);
  near(cost(same, 100).l2, 100 * 64 * 64 / 32.0);
}
static void test_waits(void **s) {
  (void)s;
  /* steps that the processor does not foresee: each line is waited for, unless the program fetches it ahead */
  const char *plain = "for %6 = %1 to %2 step 1 \"i\" {\n%7 = mul i64 %6 2064\n%8 = load f32x16 %4 %7\n}\n",
             *ahead = "for %6 = %1 to %2 step 1 \"i\" {\n%7 = mul i64 %6 2064\nprefetch %4 %7\n%8 = load f32x16 %4 "
                      "%7\n}\n";
  target t = machine();
  t.prefetch_stride = 8192, t.load_wait = 6;
  near(cost_on(&t, plain, 1000).l2, 1000 * (2 + 6));
  near(cost_on(&t, ahead, 1000).l2, 1000 * 2);
}
static void test_branches(void **s) {
  (void)s;
  /* the last iteration takes the other branch: 3 stores in place of 1; a branch that data decide: the longer one */
  near(
      cost("for %6 = %1 to %2 step 1 \"i\" {\n%7 = add i64 %2 -1\n%8 = eq bool %6 %7\nif %8 {\nstore %5 0 %3\nstore %5 "
           "16 %3\nstore %5 32 %3\n} else {\nstore %5 0 %3\n}\n}\n",
           10)
          .core,
      9 + 3);
  near(cost("%6 = load f32 %4 0\n%7 = const f32 0\n%8 = lt bool %6 %7\nif %8 {\nstore %5 0 %3\n} else {\nstore %5 0 "
            "%3\nstore %5 16 %3\n}\n",
            1)
           .core,
       1 + 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stream),   cmocka_unit_test(test_unaligned), cmocka_unit_test(test_chain),
      cmocka_unit_test(test_reuse),    cmocka_unit_test(test_conflicts), cmocka_unit_test(test_waits),
      cmocka_unit_test(test_branches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
