/* Working memory: the order of kernels needs little of it, and kernels run again to keep within a limit. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
enum { TENSORS = 8 };
typedef struct outcome {
  float w[TENSORS][WIDTH * WIDTH];
  double loss[STEPS];
  long long bytes;
  ek_memory_use use;
} outcome;
static ek_code create(fixture *f, ek_model *m, const ek_options *options, uint64_t memory, ek_trainer **t) {
  ek_array batch[2];
  ek_train_options o;
  use(f, batch);
  ek_train_options_init(&o);
  o.loss = "mse", o.optimizer = "sgd", o.batch = batch, o.batch_count = 2, o.options = options, o.memory = memory;
  return ek_trainer_create(m, &o, t);
}
static uint64_t whole(const ek_memory_use *u) { return u->work_bytes + u->state_bytes + u->constant_bytes; }
static void train(fixture *f, ek_model *m, const ek_options *options, uint64_t memory, outcome *out) {
  ek_array batch[2], x;
  ek_trainer *t = NULL;
  ek_report report;
  use(f, batch);
  memset(out, 0, sizeof *out);
  if (create(f, m, options, memory, &t)) fail_msg("%s", ek_message(f->s));
  for (int i = 0; i < STEPS; i++)
    if (ek_trainer_step(t, batch, 2, 2, &out->loss[i])) fail_msg("%s", ek_message(f->s));
  assert_true(ek_trainer_tensors(t) <= TENSORS);
  for (size_t i = 0; i < ek_trainer_tensors(t); i++) {
    if (ek_trainer_tensor(t, i, &x)) fail_msg("%s", ek_message(f->s));
    assert_true(x.bytes <= sizeof out->w[i]);
    memcpy(out->w[i], x.data, x.bytes);
  }
  ek_trainer_report(t, &report);
  out->use.size = sizeof out->use;
  ek_trainer_memory(t, &out->use);
  out->bytes = number(report.memory);
  ek_trainer_close(t);
}
static ek_options in_one_thread(void) {
  ek_options o;
  ek_options_init(&o);
  o.threads = 1, o.verify = 1;
  return o;
}
/* Derivatives of parameters are computed, and used, before those of the layers below: no more than a few layers'
 * derivatives are there at one time, beside what the layers computed. */
static void derivatives_go_at_once(void **state) {
  fixture *f = *state;
  static outcome plain, ordered;
  ek_model *m = layers(f);
  ek_options o = in_one_thread();
  train(f, m, &o, 0, &ordered);
  o.optimize = 0;
  train(f, m, &o, 0, &plain);
  assert_int_equal(ordered.use.state_bytes, sizeof(float) * LAYERS * WIDTH * WIDTH); /* changed in place */
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

/* ---- a limit --------------------------------------------------------------------------------- */
static void same_in_less(fixture *f, ek_model *m, uint64_t less) {
  static outcome all, some;
  ek_options o = in_one_thread();
  train(f, m, &o, 0, &all);
  assert_int_equal(all.use.repeated, 0);
  assert_true(all.use.work_bytes > 2 * less);
  const uint64_t limit = whole(&all.use) - less;
  train(f, m, &o, limit, &some);
  assert_true(whole(&some.use) <= limit);
  assert_true(some.use.repeated > 0 && some.use.repeated_cost > 0 && some.use.repeated_cost < 1);
  assert_memory_equal(some.loss, all.loss, sizeof all.loss);
  assert_memory_equal(some.w, all.w, sizeof all.w);
}
/* A limit of working memory counts the states of a run, too: what is compiled keeps within it when it runs. */
static void states_in_less(void **state) {
  fixture *f = *state;
  static outcome all, some;
  ek_model *m = layers(f);
  ek_options o = in_one_thread();
  train(f, m, &o, 0, &all);
  o.memory_limit = all.use.work_bytes + all.use.state_bytes - 2 * sizeof f->x;
  train(f, m, &o, 0, &some);
  assert_true(some.use.repeated > 0);
  assert_true(some.use.work_bytes + some.use.state_bytes <= o.memory_limit);
  assert_memory_equal(some.w, all.w, sizeof all.w);
  ek_trainer *t = NULL;
  o.memory_limit = all.use.state_bytes;
  assert_int_equal(create(f, m, &o, 0, &t), EK_MEMORY);
  assert_non_null(strstr(ek_message(f->s), " of states; the limit is "));
  ek_model_close(m);
}
static void layers_in_less(void **state) {
  fixture *f = *state;
  ek_model *m = layers(f);
  same_in_less(f, m, 2 * sizeof f->x);
  ek_model_close(m);
}
/* Running statistics change once in a step, and a random mask that is made again is the same. */
static void statistics_and_masks_in_less(void **state) {
  enum { ROOM = 1 << 15 };
  static char text[ROOM];
  static const char *const names[] = {"g", "o", "mean", "var", "w0", "w1"};
  fixture *f = *state;
  size_t n = (size_t)snprintf(text, ROOM, "graph \"normed\" ir 8 opset 17 {\n  input x0: f32[%d, %d]\n", ROWS, WIDTH);
  for (int i = 0; i < 6; i++) {
    const char *square = i < 4 ? "" : ", 32";
    n += (size_t)snprintf(text + n, ROOM - n, "  const %s: f32[32%s] = [", names[i], square);
    for (int k = 0; k < (i < 4 ? WIDTH : WIDTH * WIDTH); k++)
      n += (size_t)snprintf(text + n, ROOM - n, "%s%g", k ? ", " : "", i < 4 ? 1.0 : ((k * 11 + i) % 23 - 11) / 32.0);
    n += (size_t)snprintf(text + n, ROOM - n, "]\n");
  }
  snprintf(text + n, ROOM - n,
           "  h = MatMul(x0, w0)\n  n = BatchNormalization(h, g, o, mean, var)\n  d = Dropout(n)\n"
           "  t = Tanh(d)\n  y = MatMul(t, w1)\n  output y\n}\n");
  ek_model *m = load(f, text);
  same_in_less(f, m, 64);
  ek_model_close(m);
}
/* Layers that read what all layers before them computed: what cannot be computed again is not tried by each way that
 * leads to it, whose number doubles with each layer. */
static void dense_layers_in_less(void **state) {
  enum { ROOM = 1 << 19, DENSE = 20, GROWTH = 4, SECONDS = 20 };
  static char text[ROOM];
  static const char *const names[] = {"g", "o", "m", "v", "w"};
  fixture *f = *state;
  size_t n = (size_t)snprintf(text, ROOM,
                              "graph \"dense\" ir 8 opset 17 {\n  input x0: f32[%d, %d]\n"
                              "  const image: i64[4] = [8, 4, 8, 8]\n  const rows: i64[2] = [%d, %d]\n",
                              ROWS, WIDTH, ROWS, WIDTH);
  for (int i = 0; i < DENSE; i++)
    for (int k = 0; k < 5; k++) {
      const int channels = 4 + GROWTH * i, elements = k < 4 ? channels : 4 * channels * 9;
      n += (size_t)snprintf(text + n, ROOM - n,
                            k < 4 ? "  const %s%d: f32[%d] = [" : "  const %s%d: f32[4, %d, 3, 3] = [", names[k], i,
                            channels);
      for (int j = 0; j < elements; j++)
        n += (size_t)snprintf(text + n, ROOM - n, "%s%g", j ? ", " : "", k < 4 ? 1.0 : ((j * 11 + i) % 23 - 11) / 32.0);
      n += (size_t)snprintf(text + n, ROOM - n, "]\n");
    }
  n += (size_t)snprintf(text + n, ROOM - n, "  y0 = Reshape(x0, image)\n");
  for (int i = 0; i < DENSE; i++) {
    n += (size_t)snprintf(text + n, ROOM - n, "  c%d = Concat(y0", i);
    for (int k = 1; k <= i; k++) n += (size_t)snprintf(text + n, ROOM - n, ", y%d", k);
    n += (size_t)snprintf(text + n, ROOM - n,
                          ") {axis = 1}\n  n%d = BatchNormalization(c%d, g%d, o%d, m%d, v%d)\n  r%d = Relu(n%d)\n"
                          "  y%d = Conv(r%d, w%d) {pads = [1, 1, 1, 1]}\n",
                          i, i, i, i, i, i, i, i, i + 1, i, i);
  }
  snprintf(text + n, ROOM - n, "  out = Reshape(y%d, rows)\n  output out\n}\n", DENSE);
  ek_model *m = load(f, text);
  ek_trainer *t = NULL;
  ek_options o = in_one_thread();
  ek_memory_use use = {.size = sizeof use};
  if (create(f, m, &o, 0, &t)) fail_msg("%s", ek_message(f->s));
  ek_trainer_memory(t, &use);
  ek_trainer_close(t);
  for (int percent = 95; percent > 30; percent -= 30) {
    const uint64_t limit = whole(&use) - use.work_bytes * (uint64_t)(100 - percent) / 100;
    const clock_t begun = clock();
    const ek_code e = create(f, m, &o, limit, &t);
    assert_true(clock() - begun < SECONDS * CLOCKS_PER_SEC);
    assert_true(e == EK_OK || (percent < 60 && e == EK_MEMORY));
    if (!e) ek_trainer_close(t);
  }
  ek_model_close(m);
}
static void too_little(void **state) {
  fixture *f = *state;
  ek_trainer *t = NULL;
  ek_options o = in_one_thread();
  ek_memory_use use = {.size = sizeof use};
  ek_model *m = layers(f);
  assert_int_equal(create(f, m, &o, 1000, &t), EK_MEMORY);
  assert_non_null(strstr(ek_message(f->s), "a step keeps "));
  assert_non_null(strstr(ek_message(f->s), "needs working memory; the limit is 1000 bytes"));
  if (create(f, m, &o, 0, &t)) fail_msg("%s", ek_message(f->s));
  ek_trainer_memory(t, &use);
  ek_trainer_close(t);
  assert_int_equal(create(f, m, &o, whole(&use) - use.work_bytes + 1000, &t), EK_MEMORY);
  assert_non_null(strstr(ek_message(f->s), "of working memory, although"));
  assert_non_null(strstr(ek_message(f->s), " bytes. Most is live in "));
  ek_model_close(m);
}
/* What comes from the old value of a state is not computed again once the state has its new one. */
static void states_are_not_read_again(void **state) {
  static const char text[] = "graph \"held\" ir 8 opset 17 {\n"
                             "  input s: f32[32, 32]\n"
                             "  input x: f32[64, 32]\n"
                             "  input v: f32[32, 64]\n"
                             "  a = MatMul(x, s)\n"
                             "  b = Transpose(a)\n"
                             "  s2 = MatMul(b, x)\n"
                             "  u = MatMul(s2, v)\n"
                             "  p = MatMul(x, u)\n"
                             "  q = Sin(p)\n"
                             "  r = MatMul(q, x)\n"
                             "  t = Transpose(r)\n"
                             "  y = MatMul(t, a)\n"
                             "  output s2\n  output y\n}\n";
  const char *const states[] = {"s2=s", NULL};
  fixture *f = *state;
  ek_module *code = NULL;
  ek_report report;
  ek_options o = in_one_thread();
  ek_model *m = load(f, text);
  o.states = states;
  if (ek_compile(m, &o, &code)) fail_msg("%s", ek_message(f->s));
  ek_module_report(code, &report);
  const long long bytes = number(report.memory);
  ek_module_close(code);
  o.memory_limit = (uint64_t)bytes + sizeof(float) * 32 * 32; /* and s */
  if (ek_compile(m, &o, &code)) fail_msg("%s", ek_message(f->s));
  ek_module_close(code);
  o.memory_limit -= 64;
  assert_int_equal(ek_compile(m, &o, &code), EK_MEMORY);
  ek_model_close(m);
}
/* Without a gradient: what a branch left behind is computed again when the other one is done. */
static void branches_in_less(void **state) {
  static const char text[] = "graph \"branches\" ir 8 opset 17 {\n"
                             "  input x: f32[64, 32]\n"
                             "  input v: f32[32, 64]\n"
                             "  a = MatMul(x, v)\n"
                             "  b = MatMul(a, x)\n"
                             "  p = MatMul(b, v)\n"
                             "  q = Sin(p)\n"
                             "  r = MatMul(q, x)\n"
                             "  t = Transpose(r)\n"
                             "  y = MatMul(t, a)\n"
                             "  output y\n}\n";
  fixture *f = *state;
  static float y[2][32][64];
  long long bytes[2];
  const int64_t of_x[] = {ROWS, WIDTH}, of_v[] = {WIDTH, ROWS};
  ek_model *m = load(f, text);
  for (int k = 0; k < 2; k++) {
    ek_module *code = NULL;
    ek_run *r = NULL;
    ek_report report;
    ek_array out;
    ek_memory_use use = {.size = sizeof use};
    ek_options o = in_one_thread();
    if (k) o.memory_limit = (uint64_t)bytes[0] - 64;
    if (ek_compile(m, &o, &code) || ek_run_create(code, 1, &r)) fail_msg("%s", ek_message(f->s));
    ek_module_report(code, &report);
    ek_module_memory(code, &use);
    bytes[k] = number(report.memory);
    assert_int_equal(use.repeated > 0, k);
    const ek_code given = ek_run_set_input(r, "x", f->x, sizeof f->x, of_x, 2) ||
                          ek_run_set_input(r, "v", f->target, sizeof f->target, of_v, 2);
    assert_int_equal(given, 0);
    if (ek_run_execute(r) || ek_run_get_output(r, "y", &out)) fail_msg("%s", ek_run_message(r));
    memcpy(y[k], out.data, sizeof y[k]);
    ek_module_close(code);
  }
  assert_true(bytes[1] < bytes[0]);
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  ek_model_close(m);
}

/* ---- without a limit ----------------------------------------------------------------------------- */
/* Layers of a product and an activation, which the product behind it reads, and the gradient of that one's weights: the
 * activation is computed again for it, from what the product gave, so that one tensor of a layer is kept instead of
 * two. All layers have the same weights, so that the text is short. Not without optimisations, and not where a limit
 * leaves room for everything. */
enum { TALL = 512, WIDE = 384, DEEP = 5, TWICE = 2, WAYS = 3, LOWERED = 0, PLAIN = 1, ROOMY = 2 };
static ek_model *activations(fixture *f) {
  enum { ROOM = 1 << 21 };
  static char text[ROOM];
  size_t n =
      (size_t)snprintf(text, ROOM, "graph \"activations\" ir 8 opset 17 {\n  input x0: f32[%d, %d]\n", TALL, WIDE);
  n += (size_t)snprintf(text + n, ROOM - n, "  const w: f32[%d, %d] = [", WIDE, WIDE);
  for (int k = 0; k < WIDE * WIDE; k++)
    n += (size_t)snprintf(text + n, ROOM - n, "%s%g", k ? ", " : "", (double)(k * 7 % 11 - 5) / 20);
  n += (size_t)snprintf(text + n, ROOM - n, "]\n");
  for (int i = 0; i < DEEP; i++)
    n += (size_t)snprintf(text + n, ROOM - n, "  h%d = MatMul(x%d, w)\n  x%d = Softsign(h%d)\n", i, i, i + 1, i);
  snprintf(text + n, ROOM - n, "  output x%d\n}\n", DEEP);
  return load(f, text);
}
static void activations_again(void **state) {
  fixture *f = *state;
  static float x[TALL][WIDE];
  ek_array batch[2] = {{.name = "x0", .type = EK_FLOAT, .rank = 2, .dims = {TALL, WIDE}, .data = x, .bytes = sizeof x}};
  ek_model *m = activations(f);
  ek_options options = in_one_thread();
  double loss[WAYS][TWICE];
  batch[1] = batch[0], batch[1].name = "target";
  for (int i = 0; i < TALL; i++)
    for (int k = 0; k < WIDE; k++) x[i][k] = (float)((i * 5 + k * 3) % 17 - 8) / 8;
  for (int way = 0; way < WAYS; way++) {
    ek_train_options o;
    ek_trainer *t = NULL;
    ek_report report;
    ek_memory_use use = {.size = sizeof use};
    options.optimize = way == PLAIN ? 0 : 3;
    ek_train_options_init(&o);
    o.loss = "mse", o.optimizer = "sgd", o.batch = batch, o.batch_count = 2, o.options = &options;
    if (way == ROOMY) o.memory = 1 << 30;
    if (ek_trainer_create(m, &o, &t)) fail_msg("%s", ek_message(f->s));
    for (int i = 0; i < TWICE; i++)
      if (ek_trainer_step(t, batch, 2, 2, &loss[way][i])) fail_msg("%s", ek_message(f->s));
    ek_trainer_report(t, &report);
    ek_trainer_memory(t, &use);
    assert_int_equal(use.repeated > 0, way == LOWERED);
    if (way == LOWERED) {
      assert_true(use.repeated_cost < 0.02); /* no product */
      assert_true(number(report.memory) < (DEEP + 4) * (long long)sizeof x);
    }
    ek_trainer_close(t);
  }
  for (int i = 0; i < TWICE; i++) {
    assert_float_equal(loss[LOWERED][i], loss[PLAIN][i], 1e-5);
    assert_true(loss[LOWERED][i] == loss[ROOMY][i]); /* the same values, bit for bit */
  }
  ek_model_close(m);
}

/* A size that is found at run time is read behind other launches than the one that computes it: its memory is not
 * theirs. */
static const char found[] = "graph \"found\" ir 13 opset 28 {\n"
                            "  input x: f32[2]\n  input y: f32[1, 1, 1]\n  input w: f32[1, 1, 2]\n"
                            "  input b: f32[1]\n"
                            "  u, order, count = \"com.microsoft\"::Unique(x)\n"
                            "  z, state = CausalConvWithState(y, w, b)\n"
                            "  output u\n  output order\n  output count\n  output z\n  output state\n}\n";
static void sizes_found_late(void **state) {
  fixture *f = *state;
  static const int64_t two[] = {2}, one[] = {1, 1, 1}, taps[] = {1, 1, 2};
  const float x[] = {3, 4}, y[] = {5};
  ek_module *code = NULL;
  ek_run *r = NULL;
  ek_array u;
  ek_model *m = load(f, found);
  const ek_options o = in_one_thread();
  if (ek_compile(m, &o, &code) || ek_run_create(code, 1, &r)) fail_msg("%s", ek_message(f->s));
  const ek_code given = ek_run_set_input(r, "x", x, sizeof x, two, 1) ||
                        ek_run_set_input(r, "y", y, sizeof y, one, 3) ||
                        ek_run_set_input(r, "w", x, sizeof x, taps, 3) || ek_run_set_input(r, "b", y, sizeof y, one, 1);
  assert_int_equal(given, 0);
  if (ek_run_execute(r) || ek_run_get_output(r, "u", &u)) fail_msg("%s", ek_run_message(r));
  assert_int_equal(u.rank, 1);
  assert_int_equal(u.dims[0], 2);
  assert_memory_equal(u.data, x, sizeof x);
  ek_module_close(code);
  ek_model_close(m);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {T(derivatives_go_at_once),
                                     T(states_are_read_before_they_change),
                                     T(layers_in_less),
                                     T(states_in_less),
                                     T(statistics_and_masks_in_less),
                                     T(dense_layers_in_less),
                                     T(too_little),
                                     T(states_are_not_read_again),
                                     T(branches_in_less),
                                     T(activations_again),
                                     T(sizes_found_late)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
