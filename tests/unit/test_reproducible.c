/* The same bits with any number of threads: of a model whose schedule lets the number of threads decide which rows are
 * in a tile, and of steps of training. */
#include "einkorn/einkorn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { THREADS = 4, CHANNELS = 8, WIDE = 136, HEIGHT = 45, WIDTH = 44, TEXT = 1 << 16 };

/* ---- a window that rolls over the rows of a product ---- */
static float mixed(int i) { return (float)((i * 7919 + 13) % 2003) / 1001.5F - 1; }
static void add_weights(char *text, const char *name, const char *shape, int n) {
  size_t at = strlen(text);
  at += (size_t)snprintf(text + at, TEXT - at, "  const %s: f32[%s] = [", name, shape);
  for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, TEXT - at, "%s%.4f", i ? ", " : "", mixed(i));
  snprintf(text + at, TEXT - at, "]\n");
}
static ek_model *window_model(ek_session *s, char *text) {
  ek_model *m;
  snprintf(text, TEXT, "graph \"rolls\" ir 8 opset 17 {\n  input x: f32[1, %d, %d, %d]\n", CHANNELS, HEIGHT, WIDTH);
  add_weights(text, "w1", "136, 8, 1, 1", WIDE * CHANNELS);
  add_weights(text, "w2", "136, 1, 3, 2", WIDE * 6);
  const size_t at = strlen(text);
  snprintf(text + at, TEXT - at,
           "  a: f32[1, 136, 45, 44] = Conv(x, w1) \"wide\"\n  b: f32[1, 136, 45, 44] = HardSwish(a) \"act\"\n"
           "  y: f32[1, 136, 45, 43] = Conv(b, w2) {dilations = [2, 1], group = 136, pads = [4, 0, 0, 0]} \"window\"\n"
           "  output y\n}\n");
  assert_int_equal(ek_load_memory(s, text, strlen(text), "rolls", &m), EK_OK);
  return m;
}
/* How many numbers of threads, of 2 to THREADS, give other bits than one thread; -1: the module is refused. */
static int other_bits(ek_model *m, const char *schedule, int reproducible) {
  static float x[CHANNELS * HEIGHT * WIDTH];
  static uint8_t first[WIDE * HEIGHT * WIDTH * sizeof(float)];
  const int64_t dims[] = {1, CHANNELS, HEIGHT, WIDTH};
  ek_options o;
  ek_module *code;
  int n = 0;
  for (int i = 0; i < CHANNELS * HEIGHT * WIDTH; i++) x[i] = mixed(3 * i);
  ek_options_init(&o);
  o.schedule = schedule, o.reproducible = reproducible, o.target = "x86-64-v3";
  if (ek_compile(m, &o, &code)) return -1;
  for (int threads = 1; threads <= THREADS; threads++) {
    ek_run *r;
    ek_array y;
    assert_int_equal(ek_run_create(code, threads, &r), EK_OK);
    assert_int_equal(ek_run_set_input(r, "x", x, sizeof x, dims, 4), EK_OK);
    assert_int_equal(ek_run_execute(r), EK_OK);
    assert_int_equal(ek_run_get_output(r, "y", &y), EK_OK);
    assert_true(y.bytes <= sizeof first);
    if (threads == 1) memcpy(first, y.data, y.bytes);
    n += memcmp(first, y.data, y.bytes) != 0;
    ek_run_destroy(r);
  }
  ek_module_close(code);
  return n;
}
static void test_rows_that_begin_anywhere(void **state) {
  static char text[TEXT];
  static const char stated[] =
      "schedules 1\nkernel k0 {\n  nest wide.Y {\n    rows o0\n    tile 4 3\n    accumulators 2 6\n"
      "  }\n}\n";
  ek_session *s = ek_session_create();
  ek_model *m = window_model(s, text);
  (void)state;
  assert_true(other_bits(m, stated, 0) > 0); /* else this test shows nothing */
  assert_int_equal(other_bits(m, stated, 1), -1);
  assert_non_null(strstr(ek_message(s), "reproducible bits are asked for"));
  assert_int_equal(other_bits(m, NULL, 1), 0);
  ek_session_destroy(s);
}

/* ---- training ---- */
enum { BATCH = 32, CLASSES = 10, SIDE = 16, STEPS = 20 };
static ek_model *network(ek_session *s, char *text) {
  ek_model *m;
  snprintf(text, TEXT, "graph \"net\" ir 8 opset 17 {\n  input x: f32[%d, 3, %d, %d]\n", BATCH, SIDE, SIDE);
  add_weights(text, "w1", "16, 3, 3, 3", 16 * 27), add_weights(text, "w2", "10, 16", CLASSES * 16);
  size_t at = strlen(text);
  at += (size_t)snprintf(text + at, TEXT - at, "  const one: f32[16] = [1");
  for (int i = 1; i < 16; i++) at += (size_t)snprintf(text + at, TEXT - at, ", 1");
  at += (size_t)snprintf(text + at, TEXT - at, "]\n");
  static const char *const zeros[] = {"b", "mean"};
  for (int k = 0; k < 2; k++) {
    at += (size_t)snprintf(text + at, TEXT - at, "  const %s: f32[16] = [0", zeros[k]);
    for (int i = 1; i < 16; i++) at += (size_t)snprintf(text + at, TEXT - at, ", 0");
    at += (size_t)snprintf(text + at, TEXT - at, "]\n");
  }
  snprintf(text + at, TEXT - at,
           "  const var: f32[16] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
           "  c: f32[32, 16, 16, 16] = Conv(x, w1) {pads = [1, 1, 1, 1]} \"conv\"\n"
           "  n: f32[32, 16, 16, 16] = BatchNormalization(c, one, b, mean, var) \"norm\"\n"
           "  r: f32[32, 16, 16, 16] = Relu(n) \"relu\"\n  g: f32[32, 16, 1, 1] = GlobalAveragePool(r) \"pool\"\n"
           "  f: f32[32, 16] = Flatten(g) \"flat\"\n  d: f32[32, 16] = Dropout(f) \"dropout\"\n"
           "  y: f32[32, 10] = Gemm(d, w2) {transB = 1} \"scores\"\n  output y\n}\n");
  if (ek_load_memory(s, text, strlen(text), "net", &m)) fail_msg("%s", ek_message(s));
  return m;
}
/* The first weights after STEPS steps. */
static void train(ek_session *s, ek_model *m, int threads, float *to, size_t bytes) {
  static float x[BATCH * 3 * SIDE * SIDE];
  int64_t target[BATCH];
  ek_array batch[] = {{.name = "x", .type = EK_FLOAT, .rank = 4, .dims = {BATCH, 3, SIDE, SIDE}, .data = x},
                      {.name = "target", .type = EK_INT64, .rank = 1, .dims = {BATCH}, .data = target}};
  batch[0].bytes = sizeof x, batch[1].bytes = sizeof target;
  for (int i = 0; i < BATCH * 3 * SIDE * SIDE; i++) x[i] = mixed(i);
  for (int i = 0; i < BATCH; i++) target[i] = i * 7 % CLASSES;
  ek_options compile;
  ek_options_init(&compile);
  compile.threads = threads, compile.reproducible = 1;
  ek_train_options o;
  ek_train_options_init(&o);
  o.options = &compile, o.loss = "cross_entropy", o.optimizer = "adamw", o.clip_norm = 1;
  o.batch = batch, o.batch_count = 2;
  ek_trainer *t;
  ek_array w;
  if (ek_trainer_create(m, &o, &t)) fail_msg("%s", ek_message(s));
  for (int i = 0; i < STEPS; i++)
    if (ek_trainer_step(t, batch, 2, 0.01, NULL)) fail_msg("%s", ek_message(s));
  assert_int_equal(ek_trainer_tensor(t, 0, &w), EK_OK);
  assert_int_equal(w.bytes, bytes);
  memcpy(to, w.data, bytes);
  ek_trainer_close(t);
}
static void test_steps(void **state) {
  static char text[TEXT];
  float one[16 * 27], more[16 * 27];
  ek_session *s = ek_session_create();
  ek_model *m = network(s, text);
  (void)state;
  train(s, m, 1, one, sizeof one);
  for (int threads = 2; threads <= THREADS; threads++) {
    train(s, m, threads, more, sizeof more);
    assert_memory_equal(one, more, sizeof one);
  }
  ek_session_destroy(s);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_that_begin_anywhere), cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
