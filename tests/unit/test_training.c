/* Losses, optimisers, metrics, averages and schedules against references, tests/training/references.dat, most of them
 * from PyTorch. tests/tools/training_references.py writes the file, says what its lines mean, and makes the same
 * inputs. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { LINE = 1 << 14, INPUTS = 4, MOST = 256, WORDS = 8, STEPS = 100, WIDTH = 6 };
#define TOLERANCE 1e-9
#define SAVED EK_BINARY_DIR "/test_training.onnx"

/* ---- lines ---- */
typedef struct line {
  char text[LINE];
  char *word[WORDS];   /* what stands before = */
  int words;           /* how many */
  double number[MOST]; /* what stands behind it */
  int numbers;         /* how many */
} line;
/* The next line of this kind; false: there is none. */
static bool next(FILE *f, const char *kind, line *l) {
  while (fgets(l->text, sizeof l->text, f)) {
    char *rest = NULL, *w = strtok_r(l->text, " \n", &rest);
    if (!w || strcmp(w, kind) != 0) continue;
    l->words = l->numbers = 0;
    while ((w = strtok_r(NULL, " \n", &rest)) && strcmp(w, "=") != 0) {
      assert_true(l->words < WORDS);
      l->word[l->words++] = w;
    }
    while ((w = strtok_r(NULL, " \n", &rest))) {
      assert_true(l->numbers < MOST);
      l->number[l->numbers++] = strtod(w, NULL);
    }
    assert_true(l->words && l->numbers);
    return true;
  }
  return false;
}
static void near(const line *l, int i, double got) {
  const double want = l->number[i];
  if (!(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
    fail_msg("%s %s: number %d is %.15g instead of %.15g", l->word[0], l->words > 1 ? l->word[1] : "", i, got, want);
}

/* ---- inputs ---- */
typedef struct input {
  ek_array x;          /* the array */
  char kind[16];       /* what it holds */
  int parameter;       /* of the kind */
  int64_t whole[MOST]; /* contents, where they are integers */
  double real[MOST];   /* contents, where they are not */
  size_t n;            /* elements */
} input;
static void fill(input *in, int salt) {
  const char *k = in->kind;
  for (int64_t i = 0; i < (int64_t)in->n; i++) {
    const double mixed = (double)((i * 7919 + salt * 10473) % 1009);
    const int64_t label = i * 7 + salt * 3;
    in->real[i] = !strcmp(k, "real")          ? mixed / 1009 * 4 - 2
                  : !strcmp(k, "probability") ? mixed / 1009 * 0.9 + 0.05
                  : !strcmp(k, "bits")        ? (i + salt) % 3 == 0
                                              : 0;
    in->whole[i] = !strcmp(k, "lengths")                ? in->parameter - i % 2
                   : !strcmp(k, "symbols")              ? 1 + label % (in->parameter - 1)
                   : !strcmp(k, "masked") && i % 4 == 1 ? -100
                   : in->parameter                      ? label % in->parameter
                                                        : 0;
  }
}
/* NAME:KIND:PARAMETER:SIZES */
static void read_input(char *text, int salt, input *in) {
  char *rest = NULL, *name = strtok_r(text, ":", &rest), *kind = strtok_r(NULL, ":", &rest);
  memset(in, 0, sizeof *in);
  snprintf(in->kind, sizeof in->kind, "%s", kind);
  in->parameter = atoi(strtok_r(NULL, ":", &rest));
  in->x = (ek_array){.name = name, .type = in->parameter ? EK_INT64 : EK_DOUBLE}, in->n = 1;
  for (char *size; (size = strtok_r(NULL, "x", &rest));) {
    in->x.dims[in->x.rank++] = atoi(size);
    in->n *= (size_t)atoi(size);
  }
  assert_true(in->n <= MOST);
  in->x.data = in->parameter ? (void *)in->whole : in->real, in->x.bytes = in->n * 8;
  fill(in, salt);
}
static void sizes(char *out, const input *in) {
  char *p = out + sprintf(out, "f64[");
  for (int i = 0; i < in->x.rank; i++) p += sprintf(p, "%s%d", i ? ", " : "", (int)in->x.dims[i]);
  strcpy(p, "]");
}

/* ---- trainers ---- */
typedef struct trained {
  ek_session *s;
  ek_model *m;
  ek_train_options o;
  ek_trainer *t;
  input in[INPUTS];
  ek_array batch[INPUTS];
  size_t n; /* arrays of the batch */
} trained;
static void start(trained *k, const char *text) {
  k->s = ek_session_create();
  if (ek_load_memory(k->s, text, strlen(text), "net", &k->m)) fail_msg("%s", ek_message(k->s));
  k->o.batch = k->batch, k->o.batch_count = k->n;
  if (ek_trainer_create(k->m, &k->o, &k->t)) fail_msg("%s: %s", k->o.loss, ek_message(k->s));
}
static void end(trained *k) {
  ek_trainer_close(k->t);
  ek_session_destroy(k->s);
}
static double step(trained *k, double lr) {
  double loss = NAN;
  if (ek_trainer_step(k->t, k->batch, k->n, lr, &loss)) fail_msg("%s: %s", k->o.loss, ek_message(k->s));
  return loss;
}
static double evaluated(trained *k) {
  double loss = NAN;
  if (ek_trainer_evaluate(k->t, k->batch, k->n, &loss)) fail_msg("%s", ek_message(k->s));
  return loss;
}
static const double *parameter(trained *k) {
  ek_array x;
  assert_int_equal(ek_trainer_tensor(k->t, 0, &x), EK_OK);
  return x.data;
}
/* A model whose result is its only parameter, with these values. */
static char *of_parameter(const input *in) {
  static char text[LINE];
  char type[64], *p = text;
  sizes(type, in);
  p += sprintf(p, "graph \"net\" ir 8 opset 17 {\n  const p: %s = [", type);
  for (size_t i = 0; i < in->n; i++) p += sprintf(p, "%s%.17g", i ? ", " : "", in->real[i]);
  sprintf(p, "]\n  y: %s = Identity(p) \"same\"\n  output y\n}\n", type);
  return text;
}

/* ---- losses ---- */
/* Value and gradient: what a step of SGD with learning rate 1 takes away from X. */
static void check_loss(line *l) {
  trained *k = calloc(1, sizeof *k);
  for (int i = 1; i < l->words; i++) read_input(l->word[i], i - 1, &k->in[i - 1]);
  for (int i = 2; i < l->words; i++) k->batch[k->n++] = k->in[i - 1].x;
  ek_train_options_init(&k->o);
  k->o.loss = l->word[0], k->o.optimizer = "sgd";
  start(k, of_parameter(&k->in[0]));
  near(l, 0, step(k, 1));
  assert_int_equal(l->numbers, (int)k->in[0].n + 1);
  for (size_t i = 0; i < k->in[0].n; i++) near(l, 1 + (int)i, k->in[0].real[i] - parameter(k)[i]);
  end(k);
  free(k);
}
/* ---- optimisers ---- */
static void check_optimizer(line *l) {
  trained *k = calloc(1, sizeof *k);
  char x[] = "X:real:0:6", target[] = "target:real:0:6";
  read_input(x, 1000, &k->in[0]), read_input(target, 0, &k->in[1]);
  k->batch[0] = k->in[1].x, k->n = 1;
  ek_train_options_init(&k->o);
  k->o.loss = "mse", k->o.optimizer = l->word[0];
  start(k, of_parameter(&k->in[0]));
  assert_int_equal(l->numbers, STEPS + WIDTH);
  for (int i = 0; i < STEPS; i++) {
    fill(&k->in[1], i);
    near(l, i, step(k, strtod(l->word[1], NULL)));
  }
  for (int i = 0; i < WIDTH; i++) near(l, STEPS + i, parameter(k)[i]);
  end(k);
  free(k);
}
/* ---- metrics ---- */
/* The sums of two batches, added up. */
static void check_metric(line *l) {
  trained *k = calloc(1, sizeof *k);
  char text[512], type[64];
  for (int i = 0; i < 2; i++) read_input(l->word[2 + i], i, &k->in[i]), k->batch[i] = k->in[i].x;
  k->n = 2;
  ek_train_options_init(&k->o);
  k->o.loss = l->word[1], k->o.optimizer = "sgd", k->o.metrics = (const char *const[]){l->word[0], NULL};
  sizes(type, &k->in[0]);
  sprintf(text,
          "graph \"net\" ir 8 opset 17 {\n  input X: %s\n  const p: f64[1] = [0]\n"
          "  y: %s = Add(X, p) \"sum\"\n  output y\n}\n",
          type, type);
  start(k, text);
  double *all = NULL, value;
  const double *sums;
  size_t n;
  for (int batch = 0; batch < 2; batch++) {
    for (int i = 0; i < 2; i++) fill(&k->in[i], 10 * batch + i);
    step(k, 0);
    assert_int_equal(ek_trainer_metric(k->t, 0, &sums, &n), EK_OK);
    if (!all) all = calloc(n, sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] += sums[i];
  }
  if (ek_trainer_metric_value(k->t, 0, all, n, &value)) fail_msg("%s: %s", l->word[0], ek_message(k->s));
  near(l, 0, value);
  assert_int_equal(ek_trainer_metric_value(k->t, 1, all, n, &value), EK_USAGE);
  assert_int_not_equal(ek_trainer_metric_value(k->t, 0, all, 1, &value), EK_OK);
  free(all);
  end(k);
  free(k);
}

/* ---- averages of parameters ---- */
static void check_average(line *l) {
  trained *k = calloc(1, sizeof *k);
  char x[] = "X:real:0:6", target[] = "target:real:0:6";
  double loss;
  read_input(x, 1000, &k->in[0]), read_input(target, 0, &k->in[1]);
  k->batch[0] = k->in[1].x, k->n = 1;
  ek_train_options_init(&k->o);
  k->o.loss = "mse", k->o.optimizer = l->word[0], k->o.ema = strtod(l->word[2], NULL);
  start(k, of_parameter(&k->in[0]));
  near(l, 0, evaluated(k));
  for (int i = 0; i < STEPS; i++) {
    fill(&k->in[1], i);
    loss = step(k, strtod(l->word[1], NULL));
  }
  near(l, 1, loss);
  near(l, 2, evaluated(k));
  if (ek_trainer_save(k->t, SAVED)) fail_msg("%s", ek_message(k->s));
  ek_trainer_close(k->t);
  k->o.ema = 0;
  if (ek_load(k->s, SAVED, &k->m) || ek_trainer_create(k->m, &k->o, &k->t)) fail_msg("%s", ek_message(k->s));
  near(l, 2, evaluated(k)); /* what was saved are the averages */
  end(k);
  free(k);
}
/* ---- schedules ---- */
static void check_schedule(line *l) {
  ek_session *s = ek_session_create();
  double losses[MOST], rate;
  ek_schedule_point at = {.base = strtod(l->word[1], NULL), .total = atoi(l->word[2]), .losses = losses};
  int n = 0;
  char *rest = NULL;
  for (char *w = strtok_r(l->word[3], "/", &rest); w && *w != '-'; w = strtok_r(NULL, "/", &rest))
    losses[n++] = strtod(w, NULL);
  for (; at.step < at.total; at.step++) {
    at.loss_count = (size_t)(at.step < n ? at.step : n); /* one before each step, as long as there are any */
    if (ek_schedule_rate(s, l->word[0], &at, &rate)) fail_msg("%s", ek_message(s));
    near(l, (int)at.step, rate);
  }
  ek_session_destroy(s);
}
static void schedules_refused(void **state) {
  (void)state;
  const char *const cases[][2] = {
      {"cosin", "there is no schedule of the name 'cosin'; did you mean cosine"},
      {"step", "schedule step: the attribute step_size is needed"},
      {"step:size=3", "schedule step has no attribute 'size'"},
      {"step:step_size=0", "step_size=0: a number from 1 on is expected"},
      {"cosine:warmup", "schedule cosine:warmup: ATTRIBUTE=NUMBER is expected"},
      {"plateau:factor=2", "factor=2: a number from 0 on is expected, of at most 1"},
      {"constant:warmup=-1", "warmup=-1: a number from 0 on is expected"},
  };
  ek_session *s = ek_session_create();
  ek_schedule_point at = {.base = 1, .total = 10};
  double rate;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(ek_schedule_rate(s, cases[i][0], &at, &rate), EK_USAGE);
    if (!strstr(ek_message(s), cases[i][1])) fail_msg("%s: %s", cases[i][1], ek_message(s));
  }
  at.step = 20; /* behind the end: as at it */
  assert_int_equal(ek_schedule_rate(s, "cosine:eta_min=0.25", &at, &rate), EK_OK);
  assert_true(rate == 0.25);
  ek_session_destroy(s);
}

/* ---- what is refused ---- */
static void refused(void **state) {
  (void)state;
  const struct {
    const char *loss, *x, *target, *says;
  } cases[] = {
      {"cross_entropy", "X:real:0:2x5x5", "target:labels:5:2x5", "the axis of classes is not clear: say axis"},
      {"nll", "X:real:0:2x5x5", "target:labels:5:2x5", "without the last one: say axis"},
      {"cross_entropy", "X:real:0:4x5", "target:labels:5:6", "target is labels, integers with the sizes"},
      {"cross_entropy", "X:real:0:4x5", "target:probability:0:6x5", "or probabilities, floats with the"},
      {"cross_entropy", "X:real:0:2x3x5", "target:probability:0:2x3x5", "say axis"},
      {"cross_entropy:weight=1/2", "X:real:0:4x5", "target:labels:5:4", "weight has a number for each class"},
      {"cross_entropy:weight=1/x", "X:real:0:4x5", "target:labels:5:4", "weight=1/x: a number is expected"},
      {"mse:reduction=none", "X:real:0:4x5", "target:real:0:4x5", "reduction is mean or sum"},
      {"bce_with_logits:pos_weight=1/2", "X:real:0:4x5", "target:bits:0:4x5", "pos_weight is a number, or one for"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trained *k = calloc(1, sizeof *k);
    char x[64], target[64];
    read_input(strcpy(x, cases[i].x), 0, &k->in[0]), read_input(strcpy(target, cases[i].target), 1, &k->in[1]);
    k->batch[0] = k->in[1].x, k->n = 1;
    ek_train_options_init(&k->o);
    k->o.loss = cases[i].loss, k->o.batch = k->batch, k->o.batch_count = 1;
    k->s = ek_session_create();
    const char *text = of_parameter(&k->in[0]);
    assert_int_equal(ek_load_memory(k->s, text, strlen(text), "net", &k->m), EK_OK);
    assert_int_not_equal(ek_trainer_create(k->m, &k->o, &k->t), EK_OK);
    if (!strstr(ek_message(k->s), cases[i].says)) fail_msg("%s: %s", cases[i].says, ek_message(k->s));
    end(k);
    free(k);
  }
}

static void all(const char *kind, int least, void (*check)(line *l)) {
  line *l = malloc(sizeof *l);
  FILE *f = fopen(EK_SOURCE_DIR "/tests/training/references.dat", "r");
  int n = 0;
  assert_non_null(f);
  for (; next(f, kind, l); n++) check(l);
  assert_true(n >= least);
  fclose(f);
  free(l);
}
static void losses(void **state) { (void)state, all("loss", 40, check_loss); }
static void optimizers(void **state) { (void)state, all("optimizer", 15, check_optimizer); }
static void metrics(void **state) { (void)state, all("metric", 12, check_metric); }
static void averages(void **state) { (void)state, all("average", 2, check_average); }
static void schedules(void **state) { (void)state, all("schedule", 13, check_schedule); }
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(losses),    cmocka_unit_test(optimizers),
                                     cmocka_unit_test(metrics),   cmocka_unit_test(averages),
                                     cmocka_unit_test(schedules), cmocka_unit_test(schedules_refused),
                                     cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
