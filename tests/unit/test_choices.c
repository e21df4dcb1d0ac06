/* What choices take (cost/cost.h): shapes, forms and turning points that follow from a machine's figures. */
#include "cost/cost.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* 16 registers of 8 floats, two multiply-adds and two loads a cycle, each of four cycles. */
static target machine(void) {
  target t = target_defaults();
  t.vector_bits = 256, t.vector_registers = 16, t.fma_per_cycle = 2, t.fma_latency = 4, t.loads_per_cycle = 2;
  t.l1 = 32 << 10, t.l1_ways = 8, t.l2 = 512 << 10, t.l3 = 8 << 20;
  return t;
}
static tile_shape shape_packed(const target *t, int64_t rows, int64_t vectors, bool codes) {
  const tile_costs k = cost_tiles(t, &(tile_operands){.registers = t->vector_registers,
                                                      .lanes = 8,
                                                      .steps = 64,
                                                      .panel_bytes = 4,
                                                      .row_bytes = 4,
                                                      .row_stride = 260,
                                                      .rows = rows,
                                                      .codes = codes});
  return cost_tile_shape(&k, (size_range){rows, rows}, (size_range){vectors, vectors});
}
static tile_shape shape_of(const target *t, int64_t rows, int64_t vectors) {
  return shape_packed(t, rows, vectors, false);
}
/* Of rows that lie side by side. */
static tile_shape shape_of_lines(const target *t) {
  const tile_costs k = cost_tiles(t, &(tile_operands){.registers = t->vector_registers,
                                                      .lanes = 16,
                                                      .steps = 512,
                                                      .panel_bytes = 4,
                                                      .row_bytes = 4,
                                                      .row_stride = 4,
                                                      .rows = 240});
  return cost_tile_shape(&k, (size_range){240, 240}, (size_range){24, 24});
}
static void test_tiles(void **s) {
  (void)s;
  target t = machine();
  /* accumulators, a vector of each panel and a value of a row fill the registers; 12 sums hide eight in flight */
  const tile_shape large = shape_of(&t, 480, 48);
  assert_true(large.rows * large.vectors + large.vectors + 1 <= 16 && large.rows * large.vectors >= 12);
  assert_int_equal(shape_of(&t, 480, 1).vectors, 1); /* no wider than the product */
  assert_int_equal(shape_of(&t, 1, 48).rows, 1);
  assert_true(shape_packed(&t, 480, 48, true).rows > large.rows); /* vectors that are unpacked serve more rows */
  t.vector_registers = 32;
  const tile_shape larger = shape_of(&t, 480, 48);
  assert_true(larger.rows * larger.vectors > large.rows * large.vectors);
  t.vector_bits = 512, t.loads_per_cycle = 1.4;
  const tile_shape once = shape_of_lines(&t);
  t.late_loads = 2; /* each value of a row is loaded twice, so that more vectors share it */
  assert_true(shape_of_lines(&t).vectors > once.vectors && shape_of_lines(&t).rows < once.rows);
}
static void test_lanes(void **s) {
  (void)s;
  const target t = machine();
  const lane_access contiguous = {.pattern = LANE_CONTIGUOUS}, gathered = {.pattern = LANE_GATHERED},
                    strided = {.pattern = LANE_STRIDED}, copied = {.pattern = LANE_STRIDED, .reuse = 64};
  const double best = cost_lane_access(&t, &contiguous);
  assert_true(best > cost_lane_access(&t, &copied));
  assert_true(cost_lane_access(&t, &copied) > 0 && cost_lane_access(&t, &strided) < 0);
  assert_true(cost_lane_access(&t, &gathered) < cost_lane_access(&t, &strided));
  assert_true(cost_lane(best, 64, 8, false, 0) > cost_lane(best, 9, 8, false, 0)); /* 7 of 16 lanes idle */
}
/* 3x3 taps: tiles of 4 x 4 outputs by 6 x 6 products, or the plain sum. */
static double product_of(const target *t, double channels, bool plain) {
  const bilinear_axis form = {56, 4, 6, 3, 3, 1, 1, 1, 3, 2.5, 4, false, false},
                      sum = {56, 1, 3, 3, 3, 1, 1, 1, 0, 0, 0, false, false};
  const bilinear_axis two[] = {plain ? sum : form, plain ? sum : form};
  return cost_bilinear_compared(t,
                                &(bilinear_product){.rows = 1,
                                                    .batch = 1,
                                                    .columns = channels,
                                                    .channels = channels,
                                                    .has_columns = true,
                                                    .lanes = 8,
                                                    .fma = 2,
                                                    .registers = 16,
                                                    .axes = 2,
                                                    .axis = two},
                                plain);
}
static void test_bilinear(void **s) {
  (void)s;
  const target t = machine();
  assert_true(product_of(&t, 128, false) < product_of(&t, 128, true)); /* a quarter of the products */
  assert_true(product_of(&t, 2, false) > product_of(&t, 2, true));     /* more sums than products */
}
static void test_blocks(void **s) {
  (void)s;
  target t = machine();
  block_product b = {.rows = 2048,
                     .lanes = 2048,
                     .depth = 2048,
                     .inner = 1,
                     .size = 4,
                     .width = 16,
                     .whole = 16,
                     .tile_rows = 6,
                     .unit = 1,
                     .vector = 16};
  const block_shape shape = cost_block(&t, &b);
  assert_true(cost_blocks_possible(&t, &b) && cost_blocks_pay(&t, &b));
  assert_true(shape.step * shape.panels * b.width * b.size <= (int64_t)t.l2 / 2);
  b.contiguous = true; /* two lines of each step stay in the nearest cache, beside a panel */
  const int64_t steps = cost_block(&t, &b).step, bytes = b.width * b.size + 2 * (int64_t)t.line;
  assert_true(steps * bytes <= (int64_t)t.l1 && (steps + 1) * bytes > (int64_t)t.l1);
  b.contiguous = false;
  t.near_cache = 1 << 18; /* sums of so many bytes wait, at most, but for the rows of a tile */
  const block_shape near = cost_block(&t, &b);
  assert_true(near.rows * near.panels * b.width * b.size <=
              (int64_t)t.near_cache + b.tile_rows * near.panels * b.width * b.size);
  /* few rows and columns: chunks for the threads all the same; fewer cuts of the rows where each copies panels again */
  b.rows = 512, b.lanes = 128, t.near_cache = 1 << 20;
  const block_shape read = cost_block(&t, &b);
  b.made = true;
  const block_shape copied = cost_block(&t, &b);
  assert_true((512 + read.rows - 1) / read.rows * ((8 + read.panels - 1) / read.panels) >= t.chunks / 4);
  assert_true((512 + copied.rows - 1) / copied.rows * ((8 + copied.panels - 1) / copied.panels) >= t.chunks / 4);
  assert_true(read.rows < copied.rows && copied.panels < read.panels);
  b.made = false, b.rows = 2048, b.lanes = 2048, t.near_cache = 1 << 18;
  b.depth = 64;
  assert_false(cost_blocks_pay(&t, &b));
  /* panels made in the run, of a megabyte: where enough rows read them, and there are blocks for all threads */
  t.l3 = 64 << 20;
  block_product run = {96, 4096, 4096, 1, 4, 64, 64, 6, true, false, 8, 8};
  assert_true(cost_blocks_pay(&t, &run));
  run.rows = 32;
  assert_false(cost_blocks_pay(&t, &run));
  run.rows = 96, run.lanes = 256;
  assert_false(cost_blocks_pay(&t, &run));
  run.lanes = 4096, run.made = false;
  assert_false(cost_blocks_pay(&t, &run));
  /* rows of a megabyte, a small part of the last cache: blocked where that is slow; rows that lie side by side also
   * where loads that come late are issued again */
  block_product rows = {512, 512, 512, 1, 4, 16, 16, 6, false, false, 1, 8};
  t.l3_bandwidth = 28;
  assert_false(cost_blocks_pay(&t, &rows));
  t.l3_bandwidth = 4;
  assert_true(cost_blocks_pay(&t, &rows));
  t.l3_bandwidth = 28, rows.contiguous = true;
  assert_false(cost_blocks_pay(&t, &rows));
  t.late_loads = 2;
  assert_true(cost_blocks_pay(&t, &rows));
}
static void test_sum_parts(void **s) {
  (void)s;
  target t = machine();
  const double mb = 1 << 20;
  /* of 64 channels each, 3 x 3 places: over 32 images of 32 x 32 places, then over one */
  summed_parts sum = {.terms = 32, .steps = 32 * 1024, .results = 64 * 64 * 9, .bytes = {8 * mb, 8 * mb}, .size = 4};
  const int64_t n = cost_sum_parts(&t, &sum);
  assert_true(n > 1 && n <= 32 && (sum.bytes[0] + sum.bytes[1]) / (double)n <= (double)t.l2);
  sum.results *= 64; /* the parts themselves would take more than they save */
  sum.steps /= 64;
  assert_int_equal(cost_sum_parts(&t, &sum), 1);
  sum.bytes[0] = sum.bytes[1] = (double)t.l2 / 2; /* both stay */
  assert_int_equal(cost_sum_parts(&t, &sum), 1);
  /* 64 x 128 weights of 3 x 3 places stay, whose columns two panels have; the other operand passes twice */
  sum = (summed_parts){
      .terms = 128, .steps = 128 * 9, .results = 32 * 32 * 32 * 64, .bytes = {4 * mb, mb / 4}, .size = 4};
  t.l2 = 2 << 20, t.l3 = 256 << 20;
  assert_true(cost_sum_parts(&t, &sum) > 1);
  sum.panels = 2, sum.in_panels = 1;
  assert_int_equal(cost_sum_parts(&t, &sum), 1);
}
/* Few bits: where few uses share what comes from far, or a panel that is computed is less than floats from memory. */
static void test_few_bits(void **s) {
  (void)s;
  target t = machine();
  t.l3 = 32 << 20, t.l3_bandwidth = 64, t.memory_bandwidth = 6;
  const int64_t near = (int64_t)t.l2 / 2, more = near + 4, far = (int64_t)t.l3 + 4;
  assert_true(cost_keeps_few_bits(&t, t.memory_balance, more, more) && !cost_keeps_few_bits(&t, 1, near, far));
  assert_true(cost_computes_panels(&t, 64) && !cost_computes_panels(&t, 63));
  assert_true(cost_keeps_few_bits(&t, 64, more, far) && !cost_keeps_few_bits(&t, 64, more, (int64_t)t.l3));
  assert_false(cost_keeps_few_bits(&t, 63, more, far));
  t.memory_bandwidth = 8.1; /* 32 bytes, of which three quarters are saved, are less than a vector of a panel */
  assert_false(cost_keeps_few_bits(&t, 64, more, far));
}
static void test_turning_points(void **s) {
  (void)s;
  target t = machine();
  const window_reduction large = {false, 112, 106, 7, 7}, small = {false, 57, 56, 2, 2};
  assert_true(cost_separate_window(&large) && !cost_separate_window(&small));
  assert_true(cost_table_pays(&t, 14) && !cost_table_pays(&t, 13)); /* 1.5 for each of eight, and for the index */
  assert_false(cost_table_in_bytes(&t));
  t.table_cost = 9;
  assert_true(cost_table_pays(&t, 10) && !cost_table_pays(&t, 9) && cost_table_in_bytes(&t));
  assert_true(cost_written_out(4, 8) && !cost_written_out(4, 9) && !cost_written_out(5, 1));
  /* of four arms one is taken; code twice as long is too much for half of the operations, or less than half */
  assert_true(cost_decided_pays(4, 40, 44) && cost_decided_pays(4, 40, 80) && !cost_decided_pays(4, 40, 81));
  assert_true(cost_decided_pays(2, 40, 40) && !cost_decided_pays(2, 40, 41));
  assert_true(cost_transposes_once(8, 2) && !cost_transposes_once(7, 2) && !cost_transposes_once(8, 1));
  assert_true(cost_repeats(&t, false, 64, 4, 5) && !cost_repeats(&t, false, 64, 4, 6));
  assert_true(cost_repeats(&t, true, 64, 4, 12) && !cost_repeats(&t, true, 64, 4, 13));
  assert_true(cost_chunk_rows(480, 6) == 42 && cost_chunk_rows(5, 6) == 6);
  /* what one thread does serially takes 16 times as long as on vectors */
  assert_true(cost_work(&t, WORK_SERIAL, 1000, 0) == 16 * cost_work(&t, WORK_VECTORS, 1000, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles),          cmocka_unit_test(test_lanes),     cmocka_unit_test(test_bilinear),
      cmocka_unit_test(test_blocks),         cmocka_unit_test(test_sum_parts), cmocka_unit_test(test_few_bits),
      cmocka_unit_test(test_turning_points),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
