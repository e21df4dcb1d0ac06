/* Working memory: the order of kernels needs little of it. */
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

enum { ROWS = 64, WIDTH = 32, LAYERS = 6, STEPS = 4 };
typedef struct fixture {
  ek_session *s;
  float x[ROWS][WIDTH], target[ROWS][WIDTH];
} fixture;
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->s = ek_session_create();
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < WIDTH; k++)
      f->x[i][k] = (float)((i * 5 + k * 3) % 17 - 8) / 8, f->target[i][k] = (float)((i * 3 + k * 7) % 13 - 6) / 8;
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  ek_session_destroy(f->s);
  free(f);
  return 0;
}
static ek_model *load(fixture *f, const char *text) {
  ek_model *m = NULL;
  if (ek_load_memory(f->s, text, strlen(text), "net", &m)) fail_msg("%s", ek_message(f->s));
  return m;
}
static long long number(const char *memory) { return strtoll(memory, NULL, 10); }

/* ---- a step of layers, each a product and a tangent -------------------------------------------- */
static ek_model *layers(fixture *f) {
  enum { ROOM = 1 << 17 };
  static char text[ROOM];
  size_t n = (size_t)snprintf(text, ROOM, "graph \"layers\" ir 8 opset 17 {\n  input x0: f32[%d, %d]\n", ROWS, WIDTH);
  for (int i = 0; i < LAYERS; i++) {
    n += (size_t)snprintf(text + n, ROOM - n, "  const w%d: f32[%d, %d] = [", i, WIDTH, WIDTH);
    for (int k = 0; k < WIDTH * WIDTH; k++)
      n += (size_t)snprintf(text + n, ROOM - n, "%s%g", k ? ", " : "", ((k * 11 + i * 5) % 23 - 11) / 64.0);
    n += (size_t)snprintf(text + n, ROOM - n, "]\n");
  }
  for (int i = 0; i < LAYERS; i++)
    n += (size_t)snprintf(text + n, ROOM - n, "  h%d = MatMul(x%d, w%d)\n  x%d = Tanh(h%d)\n", i, i, i, i + 1, i);
  snprintf(text + n, ROOM - n, "  output x%d\n}\n", LAYERS);
  return load(f, text);
}
static void use(fixture *f, ek_array batch[2]) {
  batch[0] = (ek_array){.name = "x0", .type = EK_FLOAT, .rank = 2, .dims = {ROWS, WIDTH}};
  batch[1] = (ek_array){.name = "target", .type = EK_FLOAT, .rank = 2, .dims = {ROWS, WIDTH}};
  batch[0].data = f->x, batch[1].data = f->target, batch[0].bytes = batch[1].bytes = sizeof f->x;
}
/* Steps; what the parameters are then, and the bytes of working memory. */
typedef struct outcome {
  float w[LAYERS][WIDTH * WIDTH];
  double loss[STEPS];
  long long bytes;
} outcome;
static void train(fixture *f, ek_model *m, const ek_options *options, outcome *out) {
  ek_array batch[2], x;
  ek_train_options o;
  ek_trainer *t = NULL;
  ek_report report;
  use(f, batch);
  ek_train_options_init(&o);
  o.loss = "mse", o.optimizer = "sgd", o.batch = batch, o.batch_count = 2, o.options = options;
  if (ek_trainer_create(m, &o, &t)) fail_msg("%s", ek_message(f->s));
  for (int i = 0; i < STEPS; i++)
    if (ek_trainer_step(t, batch, 2, 2, &out->loss[i])) fail_msg("%s", ek_message(f->s));
  assert_int_equal(ek_trainer_tensors(t), LAYERS);
  for (size_t i = 0; i < LAYERS; i++) {
    if (ek_trainer_tensor(t, i, &x)) fail_msg("%s", ek_message(f->s));
    memcpy(out->w[i], x.data, sizeof out->w[i]);
  }
  ek_trainer_report(t, &report);
  out->bytes = number(report.memory);
  ek_trainer_close(t);
}
static ek_options in_one_thread(void) {
  ek_options o;
  ek_options_init(&o);
  o.threads = 1;
  return o;
}
/* Derivatives of parameters are computed, and used, before those of the layers below: no more than a few layers'
 * derivatives are there at one time, beside what the layers computed. */
static void derivatives_go_at_once(void **state) {
  fixture *f = *state;
  static outcome plain, ordered;
  ek_model *m = layers(f);
  ek_options o = in_one_thread();
  train(f, m, &o, &ordered);
  o.optimize = 0;
  train(f, m, &o, &plain);
  assert_true(ordered.bytes <= (LAYERS + 4) * (long long)sizeof f->x);
  for (int i = 0; i < STEPS; i++) assert_float_equal(ordered.loss[i], plain.loss[i], 1e-5);
  for (int i = 0; i < LAYERS; i++)
    for (int k = 0; k < WIDTH * WIDTH; k++) assert_float_equal(ordered.w[i][k], plain.w[i][k], 1e-5);
  ek_model_close(m);
}
/* A product of a state waits until its result is needed, or the state is to change. */
static const char held[] = "graph \"held\" ir 8 opset 17 {\n"
                           "  input s: f32[32, 32]\n"
                           "  input x: f32[64, 32]\n"
                           "  input v: f32[32, 64]\n"
                           "  a = MatMul(x, s)\n"
                           "  p = MatMul(x, v)\n"
                           "  q = Sin(p)\n"
                           "  r = MatMul(q, x)\n"
                           "  s2 = MatMul(v, r)\n"
                           "  b = Transpose(a)\n"
                           "  y = MatMul(b, a)\n"
                           "  output s2\n  output y\n}\n";
static void states_are_read_before_they_change(void **state) {
  enum { RUNS = 3, SIDE = 32 };
  fixture *f = *state;
  const char *const states[] = {"s2=s", NULL};
  float first[SIDE][SIDE], y[2][RUNS][SIDE][SIDE];
  const int64_t of_x[] = {ROWS, WIDTH}, of_v[] = {WIDTH, ROWS};
  long long bytes[2];
  ek_model *m = load(f, held);
  for (int i = 0; i < SIDE; i++)
    for (int k = 0; k < SIDE; k++) first[i][k] = (float)((i * 3 + k) % 7 - 3) / 16;
  for (int level = 0; level < 2; level++) {
    ek_module *code = NULL;
    ek_run *r = NULL;
    ek_report report;
    ek_options o = in_one_thread();
    o.optimize = level ? 3 : 0, o.states = states;
    if (ek_compile(m, &o, &code) || ek_run_create(code, 1, &r)) fail_msg("%s", ek_message(f->s));
    const ek_code given = ek_run_set_input(r, "x", f->x, sizeof f->x, of_x, 2) ||
                          ek_run_set_input(r, "v", f->target, sizeof f->target, of_v, 2) ||
                          ek_run_restore(r, "s", first, sizeof first, (const int64_t[]){SIDE, SIDE}, 2);
    assert_int_equal(given, 0);
    for (int i = 0; i < RUNS; i++) {
      ek_array out;
      if (ek_run_execute(r) || ek_run_get_output(r, "y", &out)) fail_msg("%s", ek_run_message(r));
      memcpy(y[level][i], out.data, sizeof y[level][i]);
    }
    ek_module_report(code, &report);
    bytes[level] = number(report.memory);
    ek_module_close(code);
  }
  assert_true(bytes[1] <= 24576);
  for (int i = 0; i < RUNS; i++)
    for (int k = 0; k < SIDE * SIDE; k++) {
      const float want = y[0][i][k / SIDE][k % SIDE];
      assert_float_equal(y[1][i][k / SIDE][k % SIDE], want, 1e-3F * (1 + fabsf(want)));
    }
  ek_model_close(m);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {T(derivatives_go_at_once), T(states_are_read_before_they_change)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
