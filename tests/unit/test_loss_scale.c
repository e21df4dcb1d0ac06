/* Training in f16: the scale of the loss falls after gradients that are not finite, which change nothing, grows after
 * enough finite ones, and is a tensor of the trainer, so that a training goes on as it was. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { ROWS = 64, IN = 64, HIDDEN = 128, CLASSES = 8, TEXT = 1 << 18 };
static float x[ROWS * IN];
static int64_t target[ROWS];
static ek_array batch[] = {
    {.name = "x", .type = EK_FLOAT, .rank = 2, .dims = {ROWS, IN}, .data = x, .bytes = sizeof x},
    {.name = "target", .type = EK_INT64, .rank = 1, .dims = {ROWS}, .data = target, .bytes = sizeof target}};

static float mixed(int i) { return (float)((i * 7919 + 13) % 2003) / 1001.5F - 1; }
static void add_weights(char *text, const char *name, const char *shape, int n) {
  size_t at = strlen(text);
  at += (size_t)snprintf(text + at, TEXT - at, "  const %s: f32[%s] = [", name, shape);
  for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, TEXT - at, "%s%.4f", i ? ", " : "", mixed(i) / 8);
  snprintf(text + at, TEXT - at, "]\n");
}
typedef struct training {
  ek_session *s;
  ek_trainer *t;
} training;
static training begin(double scale, int interval, int accumulate) {
  static char text[TEXT];
  training k = {.s = ek_session_create()};
  ek_model *m;
  ek_options compile;
  ek_train_options o;
  snprintf(text, TEXT, "graph \"net\" ir 8 opset 17 {\n  input x: f32[64, 64]\n");
  add_weights(text, "w1", "64, 128", IN * HIDDEN), add_weights(text, "w2", "128, 8", HIDDEN * CLASSES);
  const size_t at = strlen(text);
  snprintf(text + at, TEXT - at,
           "  a: f32[64, 128] = MatMul(x, w1) \"a\"\n  r: f32[64, 128] = Relu(a) \"r\"\n"
           "  y: f32[64, 8] = MatMul(r, w2) \"y\"\n  output y\n}\n");
  for (int i = 0; i < ROWS * IN; i++) x[i] = mixed(3 * i);
  for (int i = 0; i < ROWS; i++) target[i] = i * 5 % CLASSES;
  ek_options_init(&compile);
  ek_train_options_init(&o);
  compile.precision = EK_PRECISION_F16, compile.threads = 1;
  o.options = &compile, o.loss = "cross_entropy", o.optimizer = "adamw", o.accumulate = accumulate;
  o.batch = batch, o.batch_count = 2, o.loss_scale = scale, o.loss_scale_interval = interval;
  if (ek_load_memory(k.s, text, strlen(text), "net", &m) || ek_trainer_create(m, &o, &k.t))
    fail_msg("%s", ek_message(k.s));
  return k;
}
static void end(training *k) {
  ek_trainer_close(k->t);
  ek_session_destroy(k->s);
}
static double step(const training *k) {
  double loss = NAN;
  if (ek_trainer_step(k->t, batch, 2, 0.01, &loss)) fail_msg("%s", ek_message(k->s));
  return loss;
}
/* The tensor of this name. */
static ek_array tensor(const training *k, const char *name) {
  ek_array a = {0};
  for (size_t i = 0; i < ek_trainer_tensors(k->t); i++) {
    assert_int_equal(ek_trainer_tensor(k->t, i, &a), EK_OK);
    if (!strcmp(a.name, name)) return a;
  }
  fail_msg("no tensor %s", name);
  return a;
}
static double scale(const training *k) { return (double)*(const float *)tensor(k, "train.loss_scale").data; }
static int64_t finite_steps(const training *k) { return *(const int64_t *)tensor(k, "train.finite_steps").data; }

static void test_overflow(void **state) {
  static float before[IN * HIDDEN];
  training k = begin(0x1p40, 2000, 1);
  (void)state;
  memcpy(before, tensor(&k, "w1").data, sizeof before);
  const double first = step(&k);
  assert_true(isfinite(first));
  assert_true(scale(&k) == 0x1p39 && finite_steps(&k) == 0 && ek_trainer_steps(k.t) == 0);
  assert_memory_equal(before, tensor(&k, "w1").data, sizeof before);
  double last = first;
  for (int i = 0; i < 60; i++) last = step(&k);
  assert_true(scale(&k) < 0x1p39 && scale(&k) >= 1);
  assert_true(ek_trainer_steps(k.t) > 20 && finite_steps(&k) > 0);
  assert_true(last < first / 4);
  /* once more in the middle: nothing changes but the scale, and then it goes on */
  float large = 0x1p80F;
  const int64_t steps = ek_trainer_steps(k.t);
  const ek_array planted = {
      .name = "train.loss_scale", .type = EK_FLOAT, .rank = 0, .data = &large, .bytes = sizeof large};
  assert_int_equal(ek_trainer_set_tensor(k.t, &planted), EK_OK);
  memcpy(before, tensor(&k, "w1").data, sizeof before);
  step(&k);
  assert_true(scale(&k) == 0x1p79 && finite_steps(&k) == 0 && ek_trainer_steps(k.t) == steps);
  assert_memory_equal(before, tensor(&k, "w1").data, sizeof before);
  for (int i = 0; i < 80; i++) last = step(&k);
  assert_true(last < first / 4 && ek_trainer_steps(k.t) > steps && finite_steps(&k) > 0);
  end(&k);
}
static void test_growth(void **state) {
  training k = begin(8, 3, 1);
  (void)state;
  for (int i = 0; i < 3; i++) {
    assert_true(scale(&k) == 8 && finite_steps(&k) == i);
    step(&k);
  }
  assert_true(scale(&k) == 16 && finite_steps(&k) == 0);
  end(&k);
}
/* Gradients of two batches: the scale follows after the second one. */
static void test_accumulated(void **state) {
  training k = begin(0x1p40, 2000, 2);
  (void)state;
  step(&k);
  assert_true(scale(&k) == 0x1p40);
  step(&k);
  assert_true(scale(&k) == 0x1p39 && ek_trainer_steps(k.t) == 0);
  for (int i = 0; i < 120; i++) step(&k);
  assert_true(ek_trainer_steps(k.t) > 20);
  end(&k);
}
/* Another trainer with these tensors goes on with the same bits. */
static void test_resumed(void **state) {
  training k = begin(0x1p24, 4, 1), other = begin(1, 4, 1);
  (void)state;
  for (int i = 0; i < 30; i++) step(&k);
  for (size_t i = 0; i < ek_trainer_tensors(k.t); i++) {
    ek_array a;
    assert_int_equal(ek_trainer_tensor(k.t, i, &a), EK_OK);
    assert_int_equal(ek_trainer_set_tensor(other.t, &a), EK_OK);
  }
  assert_int_equal(ek_trainer_set_steps(other.t, ek_trainer_steps(k.t)), EK_OK);
  for (int i = 0; i < 30; i++) assert_true(step(&k) == step(&other));
  assert_true(scale(&k) == scale(&other));
  const ek_array w = tensor(&other, "w1");
  static float had[IN * HIDDEN];
  memcpy(had, w.data, sizeof had);
  assert_memory_equal(had, tensor(&k, "w1").data, sizeof had);
  end(&other);
  end(&k);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_overflow), cmocka_unit_test(test_growth),
                                     cmocka_unit_test(test_accumulated), cmocka_unit_test(test_resumed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
