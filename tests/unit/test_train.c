/* Training: steps against updates by hand, what may change and what may not, and what is refused. That losses follow
 * torch's is seen elsewhere (tests/tools). */
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

#define OUT EK_BINARY_DIR "/test_train.onnx"
enum { ROWS = 8, BATCH = 4, WIDTH = 3 };
static const char linear[] = "graph \"linear\" ir 8 opset 17 {\n"
                             "  input x: f64[N, 3]\n"
                             "  const w: f64[3, 1] = [0.5, -1, 0.25]\n"
                             "  const b: f64[1] = [0.125]\n"
                             "  const scale: f64[] = [1]\n"
                             "  h: f64[N, 1] = MatMul(x, w) \"product\"\n"
                             "  s: f64[N, 1] = Mul(h, scale) \"scaled\"\n"
                             "  y: f64[N, 1] = Add(s, b) \"sum\"\n"
                             "  output y\n}\n";
static const char normed[] = "graph \"normed\" ir 8 opset 17 {\n"
                             "  input x: f64[N, 3]\n"
                             "  const w: f64[3, 1] = [0.5, -1, 0.25]\n"
                             "  const g: f64[3] = [1, 2, 3]\n"
                             "  const o: f64[3] = [0, 0, 1]\n"
                             "  const mean: f64[3] = [0, 0, 0]\n"
                             "  const var: f64[3] = [1, 1, 1]\n"
                             "  n: f64[N, 3] = BatchNormalization(x, g, o, mean, var) \"norm\"\n"
                             "  d: f64[N, 3] = Dropout(n) \"drop\"\n"
                             "  y: f64[N, 1] = MatMul(d, w) \"product\"\n"
                             "  output y\n}\n";
typedef struct fixture {
  ek_session *s;
  ek_model *m;
  ek_train_options o;
  ek_array batch[2];
  double x[ROWS][WIDTH], target[ROWS][1];
} fixture;
static void load(fixture *f, const char *text) {
  if (ek_load_memory(f->s, text, strlen(text), "net", &f->m)) fail_msg("%s", ek_message(f->s));
}
static void use(fixture *f, int first, int rows) {
  f->batch[0].data = f->x[first], f->batch[0].dims[0] = rows, f->batch[0].bytes = sizeof *f->x * (size_t)rows;
  f->batch[1].data = f->target[first], f->batch[1].dims[0] = rows;
  f->batch[1].bytes = sizeof *f->target * (size_t)rows;
}
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->s = ek_session_create();
  for (int i = 0; i < ROWS; i++) {
    for (int k = 0; k < WIDTH; k++) f->x[i][k] = ((i * 5 + k * 3) % 7 - 3) / 4.0;
    f->target[i][0] = ((i * 3) % 5 - 2) / 2.0;
  }
  f->batch[0] = (ek_array){.name = "x", .type = EK_DOUBLE, .rank = 2, .dims = {BATCH, WIDTH}};
  f->batch[1] = (ek_array){.name = "target", .type = EK_DOUBLE, .rank = 2, .dims = {BATCH, 1}};
  use(f, 0, BATCH);
  ek_train_options_init(&f->o);
  f->o.loss = "mse", f->o.batch = f->batch, f->o.batch_count = 2;
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  ek_session_destroy(f->s);
  free(f);
  return 0;
}
static ek_trainer *trainer(fixture *f) {
  ek_trainer *t = NULL;
  if (ek_trainer_create(f->m, &f->o, &t)) fail_msg("%s", ek_message(f->s));
  return t;
}
static double step(fixture *f, ek_trainer *t, double lr) {
  double loss = NAN;
  if (ek_trainer_step(t, f->batch, 2, lr, &loss)) fail_msg("%s", ek_message(f->s));
  return loss;
}
static const double *tensor(ek_trainer *t, const char *name) {
  for (size_t i = 0; i < ek_trainer_tensors(t); i++) {
    ek_array x;
    assert_int_equal(ek_trainer_tensor(t, i, &x), EK_OK);
    if (!strcmp(x.name, name)) return x.data;
  }
  fail_msg("no tensor %s", name);
  return NULL;
}
static void near(double got, double want) {
  if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want)))) fail_msg("%.17g instead of %.17g", got, want);
}

/* ---- by hand: y = x w + b, mean of the squares of y - target ---- */
typedef struct plain {
  double w[WIDTH + 1];    /* weights, then the bias */
  double grad[WIDTH + 1]; /* their gradient */
  double loss;            /* the loss */
} plain;
static void gradient(const fixture *f, plain *p, int first, int rows) {
  memset(p->grad, 0, sizeof p->grad), p->loss = 0;
  for (int i = first; i < first + rows; i++) {
    double y = p->w[WIDTH];
    for (int k = 0; k < WIDTH; k++) y += f->x[i][k] * p->w[k];
    const double d = y - f->target[i][0];
    p->loss += d * d / rows;
    for (int k = 0; k < WIDTH; k++) p->grad[k] += 2 * d * f->x[i][k] / rows;
    p->grad[WIDTH] += 2 * d / rows;
  }
}
static void same(ek_trainer *t, const plain *p) {
  for (int k = 0; k < WIDTH; k++) near(tensor(t, "w")[k], p->w[k]);
  near(tensor(t, "b")[0], p->w[WIDTH]);
}
static const plain begin = {.w = {0.5, -1, 0.25, 0.125}};
static void plain_steps(void **state) {
  fixture *f = *state;
  plain p = begin;
  load(f, linear);
  f->o.optimizer = "sgd";
  ek_trainer *t = trainer(f);
  assert_int_equal(ek_trainer_tensors(t), 2); /* a number without an axis is not trained */
  for (int i = 0; i < 5; i++) {
    gradient(f, &p, 0, BATCH);
    near(step(f, t, 0.1 / (i + 1)), p.loss);
    for (int k = 0; k <= WIDTH; k++) p.w[k] -= 0.1 / (i + 1) * p.grad[k];
    same(t, &p);
  }
  assert_int_equal(ek_trainer_steps(t), 5);
  double loss;
  assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &loss), EK_OK);
  gradient(f, &p, 0, BATCH);
  near(loss, p.loss);
  same(t, &p); /* evaluation changes nothing */
  ek_trainer_close(t);
}
/* Batches of other sizes are evaluated, too: more sizes than are kept, and one of them again. */
static void sizes_of_evaluation(void **state) {
  fixture *f = *state;
  plain p = begin;
  const double *sums;
  size_t n;
  load(f, linear);
  ek_trainer *t = trainer(f);
  for (int i = 0; i < 2 * ROWS; i++) {
    double loss = NAN;
    const int rows = i % ROWS + 1;
    use(f, ROWS - rows, rows);
    if (ek_trainer_evaluate(t, f->batch, 2, &loss)) fail_msg("%s", ek_message(f->s));
    gradient(f, &p, ROWS - rows, rows);
    near(loss, p.loss);
  }
  f->batch[0].dims[1] = 2, f->batch[0].bytes = sizeof(double) * 2 * ROWS;
  assert_int_not_equal(ek_trainer_evaluate(t, f->batch, 2, NULL), EK_OK); /* a size of the model */
  f->batch[0].dims[1] = WIDTH;
  use(f, 0, BATCH);
  gradient(f, &p, 0, BATCH);
  near(step(f, t, 0), p.loss);
  assert_int_equal(ek_trainer_metric(t, 0, &sums, &n), EK_USAGE); /* there is none */
  ek_trainer_close(t);
}
static void groups_and_momentum(void **state) {
  fixture *f = *state;
  plain p = begin;
  double v[WIDTH + 1] = {0};
  load(f, linear);
  f->o.optimizer = "momentum:momentum=0.5,weight_decay=0.25";
  f->o.groups = (const char *const[]){"b*:weight_decay=0", NULL};
  ek_trainer *t = trainer(f);
  assert_int_equal(ek_trainer_tensor_kind(t, 2), EK_TRAINED_MOMENT);
  for (int i = 0; i < 4; i++) {
    gradient(f, &p, 0, BATCH);
    step(f, t, 0.1);
    for (int k = 0; k <= WIDTH; k++) {
      v[k] = 0.5 * v[k] + p.grad[k] + (k < WIDTH ? 0.25 * p.w[k] : 0);
      p.w[k] -= 0.1 * v[k];
    }
    same(t, &p);
    near(tensor(t, "w.V")[1], v[1]);
  }
  ek_trainer_close(t);
}
static void clipped(void **state) {
  fixture *f = *state;
  plain p = begin;
  load(f, linear);
  f->o.optimizer = "sgd", f->o.clip_norm = 0.5;
  ek_trainer *t = trainer(f);
  gradient(f, &p, 0, BATCH);
  double norm = 0;
  for (int k = 0; k <= WIDTH; k++) norm += p.grad[k] * p.grad[k];
  assert_true(norm > 0.25);
  step(f, t, 0.1);
  for (int k = 0; k <= WIDTH; k++) p.w[k] -= 0.1 * p.grad[k] * 0.5 / (sqrt(norm) + 1e-6);
  same(t, &p);
  ek_trainer_close(t);
  f->o.clip_norm = 0, f->o.clip_value = 0.25;
  t = trainer(f), p = begin;
  gradient(f, &p, 0, BATCH);
  step(f, t, 0.1);
  for (int k = 0; k <= WIDTH; k++) p.w[k] -= 0.1 * fmax(-0.25, fmin(p.grad[k], 0.25));
  same(t, &p);
  ek_trainer_close(t);
}
/* Two batches of 4 whose gradients are added up are one of 8. */
static void accumulated(void **state) {
  fixture *f = *state;
  plain p = begin;
  load(f, linear);
  f->o.optimizer = "sgd", f->o.accumulate = 2;
  ek_trainer *t = trainer(f);
  for (int i = 0; i < 3; i++) {
    gradient(f, &p, 0, ROWS);
    use(f, 0, BATCH);
    step(f, t, 0.1);
    assert_int_equal(ek_trainer_steps(t), i);
    use(f, BATCH, BATCH);
    step(f, t, 0.1);
    for (int k = 0; k <= WIDTH; k++) p.w[k] -= 0.1 * p.grad[k];
    same(t, &p);
  }
  assert_int_equal(ek_trainer_steps(t), 3);
  ek_trainer_close(t);
}
static void frozen(void **state) {
  fixture *f = *state;
  load(f, linear);
  f->o.freeze = (const char *const[]){"w", NULL};
  ek_trainer *t = trainer(f);
  step(f, t, 0.1);
  ek_array first;
  assert_int_equal(ek_trainer_tensor(t, 0, &first), EK_OK);
  assert_string_equal(first.name, "b");
  assert_true(*(const double *)first.data != 0.125);
  ek_trainer_close(t);
  f->o.freeze = (const char *const[]){"*", NULL};
  assert_int_equal(ek_trainer_create(f->m, &f->o, &t), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "nothing to train"));
}
static void masks(void **state) { /* a mask is no parameter, and neither the loss nor its gradient becomes NaN by it */
  static const char masked[] = "graph \"masked\" ir 8 opset 17 {\n"
                               "  input x: f64[N, 3]\n"
                               "  const w: f64[3] = [0.5, -1, 0.25]\n"
                               "  const mask: f64[3] = [0, -inf, 0]\n"
                               "  const axis: i64[1] = [1]\n"
                               "  h: f64[N, 3] = Mul(x, w) \"scale\"\n"
                               "  m: f64[N, 3] = Add(h, mask) \"mask\"\n"
                               "  p: f64[N, 3] = Softmax(m) \"share\"\n"
                               "  y: f64[N, 1] = ReduceMax(p, axis) \"most\"\n"
                               "  output y\n}\n";
  fixture *f = *state;
  load(f, masked);
  f->o.optimizer = "sgd";
  ek_trainer *t = trainer(f);
  assert_int_equal(ek_trainer_tensors(t), 1); /* w */
  const double first = step(f, t, 0.1);
  assert_true(step(f, t, 0.1) < first && tensor(t, "w")[1] == -1);
  ek_trainer_close(t);
}

/* ---- forms for training ---- */
static void statistics(void **state) {
  fixture *f = *state;
  load(f, normed);
  f->o.seed = 5;
  ek_trainer *t = trainer(f), *again = trainer(f);
  double mean = 0, loss, other;
  for (int i = 0; i < BATCH; i++) mean += f->x[i][1] / BATCH;
  const double first = step(f, t, 0);
  near(tensor(t, "mean")[1], 0.1 * mean);
  assert_int_equal(ek_trainer_tensor_kind(t, 3), EK_TRAINED_STATISTIC);
  assert_true(step(f, t, 0) != first); /* another mask */
  assert_true(step(f, again, 0) == first);
  assert_int_equal(ek_trainer_set_steps(again, 2), EK_OK);
  assert_true(step(f, again, 0) == step(f, t, 0)); /* the mask of the third step */
  assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &loss), EK_OK);
  assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &other), EK_OK);
  near(loss, other);
  ek_trainer_close(again);
  ek_trainer_close(t);
}

/* Statistics and parameters whose equal initialisers were merged: each is what it would be alone. */
static void shared_statistics(void **state) {
  static const char *const texts[] = {
      "  const one: f64[3] = [1, 1, 1]\n  const zero: f64[3] = [0, 0, 0]\n  const gain: f64[3] = [1, 1, 1]\n"
      "  n = BatchNormalization(x, one, zero, zero, one) \"first\"\n"
      "  m = BatchNormalization(n, gain, shift, zero, one) \"second\"\n",
      "  const one: f64[3] = [1, 1, 1]\n  const zero: f64[3] = [0, 0, 0]\n  const gain: f64[3] = [1, 1, 1]\n"
      "  const a: f64[3] = [0, 0, 0]\n  const b: f64[3] = [1, 1, 1]\n  const c: f64[3] = [0, 0, 0]\n"
      "  const d: f64[3] = [1, 1, 1]\n"
      "  n = BatchNormalization(x, one, zero, a, b) \"first\"\n"
      "  m = BatchNormalization(n, gain, shift, c, d) \"second\"\n"};
  static const char *const statistics[2][4] = {{"zero.1", "one.1", "zero.2", "one.2"}, {"a", "b", "c", "d"}};
  fixture *f = *state;
  double loss[2][4], values[2][4];
  for (int k = 0; k < 2; k++) {
    char text[1500];
    snprintf(text, sizeof text,
             "graph \"two\" ir 8 opset 17 {\n  input x: f64[N, 3]\n  const w: f64[3, 1] = [0.5, -1, 0.25]\n"
             "  const shift: f64[3] = [0, 0.5, 1]\n%s  y: f64[N, 1] = MatMul(m, w) \"product\"\n  output y\n}\n",
             texts[k]);
    load(f, text);
    ek_trainer *t = trainer(f);
    for (int i = 0; i < 3; i++) loss[k][i] = step(f, t, 0.1);
    for (int i = 0; i < 4; i++) values[k][i] = tensor(t, statistics[k][i])[1];
    assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &loss[k][3]), EK_OK);
    if (ek_trainer_save(t, OUT) || ek_load(f->s, OUT, &f->m)) fail_msg("%s", ek_message(f->s));
    ek_trainer *u = trainer(f); /* the file says the same */
    double again;
    assert_int_equal(ek_trainer_evaluate(u, f->batch, 2, &again), EK_OK);
    near(again, loss[k][3]);
    near(tensor(u, statistics[k][2])[1], values[k][2]);
    ek_trainer_close(u);
    ek_trainer_close(t);
  }
  assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
  assert_memory_equal(values[0], values[1], sizeof values[0]);
  assert_true(values[0][0] != values[0][2] && values[0][1] != values[0][3]);
}

/* ---- what is kept ---- */
static void saved(void **state) {
  fixture *f = *state;
  double loss, of_saved;
  load(f, linear);
  ek_trainer *t = trainer(f);
  for (int i = 0; i < 3; i++) step(f, t, 0.1);
  assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &loss), EK_OK);
  if (ek_trainer_save(t, OUT)) fail_msg("%s", ek_message(f->s));
  assert_int_equal(ek_trainer_save(t, "x.txt"), EK_USAGE);
  ek_model *m = f->m;
  if (ek_load(f->s, OUT, &f->m)) fail_msg("%s", ek_message(f->s));
  ek_trainer *u = trainer(f);
  assert_int_equal(ek_trainer_evaluate(u, f->batch, 2, &of_saved), EK_OK);
  near(of_saved, loss);
  for (size_t i = 0; i < ek_trainer_tensors(t); i++) { /* all that changes, and the number of steps: it goes on */
    ek_array x;
    assert_int_equal(ek_trainer_tensor(t, i, &x), EK_OK);
    assert_int_equal(ek_trainer_set_tensor(u, &x), EK_OK);
  }
  assert_int_equal(ek_trainer_set_steps(u, ek_trainer_steps(t)), EK_OK);
  for (int i = 0; i < 3; i++) assert_true(step(f, t, 0.1) == step(f, u, 0.1));
  assert_memory_equal(tensor(t, "w"), tensor(u, "w"), sizeof f->x[0]);
  const ek_array wrong = {.name = "w", .type = EK_DOUBLE, .rank = 1, .dims = {3}, .data = f->x, .bytes = 24};
  assert_int_equal(ek_trainer_set_tensor(u, &wrong), EK_SHAPE);
  ek_trainer_close(u);
  ek_trainer_close(t);
  f->m = m;
}
static void no_number(void **state) {
  fixture *f = *state;
  load(f, linear);
  ek_trainer *t = trainer(f);
  step(f, t, 0.1);
  const double before = tensor(t, "w")[0], moment = tensor(t, "w.M")[0];
  double loss;
  use(f, 0, ROWS); /* an evaluation of other sizes is compiled between */
  assert_int_equal(ek_trainer_evaluate(t, f->batch, 2, &loss), EK_OK);
  use(f, 0, BATCH);
  f->x[0][0] = NAN;
  assert_int_equal(ek_trainer_step(t, f->batch, 2, 0.1, &loss), EK_FAILED);
  assert_non_null(strstr(ek_message(f->s), "step 2: the loss is no number"));
  assert_true(tensor(t, "w")[0] == before && tensor(t, "w.M")[0] == moment);
  f->x[0][0] = 1e200; /* its square is infinite */
  assert_int_equal(ek_trainer_step(t, f->batch, 2, 0.1, &loss), EK_FAILED);
  assert_non_null(strstr(ek_message(f->s), "the first tensor that is not finite is"));
  f->x[0][0] = 0.5;
  step(f, t, 0.1);
  assert_true(tensor(t, "w")[0] != before);
  ek_trainer_close(t);
}

/* ---- what is refused ---- */
static void refused(void **state) {
  fixture *f = *state;
  ek_trainer *t = NULL;
  load(f, linear);
  struct {
    const char *loss, *optimizer, *freeze;
    ek_code code;
    const char *says;
  } cases[] = {
      {"mes", "sgd", NULL, EK_USAGE, "did you mean einkorn.loss::mse"},
      {"mse", "sgt", NULL, EK_USAGE, "there is no optimizer of the name 'sgt'"},
      {"mse", "sgd:momentum=0.9", NULL, EK_USAGE, "sgd has no attribute 'momentum'"},
      {"mse", "momentum:momentum=x", NULL, EK_USAGE, "momentum=x: a number is expected"},
      {"mse", "momentum:nesterov", NULL, EK_USAGE, "ATTRIBUTE=VALUE is expected"},
      {"mse", "sgd", "ww", EK_USAGE, "freeze ww: the model has no initialiser of that name"},
      {"nll", "sgd", NULL, EK_SHAPE, "target"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *const freeze[] = {cases[i].freeze, NULL};
    f->o.loss = cases[i].loss, f->o.optimizer = cases[i].optimizer, f->o.freeze = freeze;
    assert_int_equal(ek_trainer_create(f->m, &f->o, &t), cases[i].code);
    assert_null(t);
    if (!strstr(ek_message(f->s), cases[i].says)) fail_msg("%s: %s", cases[i].says, ek_message(f->s));
  }
  f->o.loss = "mse", f->o.optimizer = "sgd", f->o.freeze = NULL, f->o.batch_count = 1;
  assert_int_equal(ek_trainer_create(f->m, &f->o, &t), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "needs the tensor 'target' beside the model's result; the batch has x"));
  f->o.optimizer = NULL, f->o.batch_count = 2; /* it only evaluates: there is no step that could be saved */
  t = trainer(f);
  assert_int_equal(ek_trainer_compile(t, EK_BINARY_DIR "/test_train_step.c", 0, NULL), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "this trainer has no optimizer"));
  const char *text = NULL;
  assert_int_equal(ek_trainer_show(NULL, NULL, &text), EK_USAGE);
  assert_int_equal(ek_trainer_show(t, NULL, &text), EK_OK); /* the evaluation */
  assert_true(strstr(text, "train.loss") && !strstr(text, "Gradient"));
  assert_null(ek_trainer_run(t));
  ek_trainer_close(t);
  f->o.optimizer = "sgd";
  t = trainer(f);
  assert_int_equal(ek_trainer_show(t, NULL, &text), EK_OK);
  assert_non_null(strstr(text, "Gradient"));
  assert_non_null(ek_trainer_run(t));
  ek_trainer_close(t);
}
int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(plain_steps), T(sizes_of_evaluation), T(groups_and_momentum), T(clipped), T(accumulated), T(frozen),
      T(masks),       T(statistics),          T(shared_statistics),   T(saved),   T(no_number),   T(refused)};
#undef T
  return cmocka_run_group_tests(tests, NULL, NULL);
}
