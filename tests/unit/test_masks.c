/* Random masks of training are a function of the seed, the epoch, the number of the sample, the layer and the place:
 * the same in batches of any size and order. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { WIDTH = 12, MOST = 8 };
/* Samples are the first axis of a tensor, groups of it, and the second axis. */
static const char text[] =
    "graph \"masks\" ir 8 opset 17 {\n  input x: f64[N, 12]\n"
    "  const w: f64[12, 1] = [0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1, 1.1, -1.2]\n"
    "  const rows: i64[2] = [-1, 4]\n  const planes: i64[3] = [-1, 3, 4]\n  const flat: i64[2] = [-1, 12]\n"
    "  a: f64[3*N, 4] = Reshape(x, rows) \"a\"\n  b: f64[3*N, 4] = Dropout(a) \"b\"\n"
    "  c: f64[N, 3, 4] = Reshape(b, planes) \"c\"\n  d: f64[3, N, 4] = Transpose(c) {perm = [1, 0, 2]} \"d\"\n"
    "  e: f64[3, N, 4] = Dropout(d) \"e\"\n  f: f64[N, 3, 4] = Transpose(e) {perm = [1, 0, 2]} \"f\"\n"
    "  g: f64[N, 12] = Reshape(f, flat) \"g\"\n  h: f64[N, 12] = Dropout(g) \"h\"\n"
    "  y: f64[N, 1] = MatMul(h, w) \"y\"\n  output y\n}\n";
static double x[MOST * WIDTH], target[MOST];
static ek_trainer *begin(ek_session *s, int rows, uint64_t seed, ek_array batch[2]) {
  ek_model *m;
  ek_trainer *t;
  ek_train_options o;
  ek_train_options_init(&o);
  batch[0] = (ek_array){.name = "x", .type = EK_DOUBLE, .rank = 2, .dims = {rows, WIDTH}, .data = x};
  batch[1] = (ek_array){.name = "target", .type = EK_DOUBLE, .rank = 2, .dims = {rows, 1}, .data = target};
  batch[0].bytes = (size_t)rows * WIDTH * sizeof *x, batch[1].bytes = (size_t)rows * sizeof *target;
  o.loss = "mse", o.optimizer = "sgd", o.batch = batch, o.batch_count = 2, o.seed = seed;
  if (ek_load_memory(s, text, sizeof text - 1, "masks", &m) || ek_trainer_create(m, &o, &t))
    fail_msg("%s", ek_message(s));
  return t;
}
/* The loss of these samples, whose contents follow from their numbers. */
static double loss_of(ek_session *s, int rows, uint64_t seed, int64_t epoch, const int64_t *samples) {
  ek_array batch[2];
  double loss = NAN;
  for (int r = 0; r < rows; r++) {
    target[r] = (double)samples[r] / 4;
    for (int i = 0; i < WIDTH; i++) x[r * WIDTH + i] = (double)((samples[r] * 37 + i * 11) % 23) / 8 - 1;
  }
  ek_trainer *t = begin(s, rows, seed, batch);
  if (ek_trainer_set_samples(t, epoch, samples, (size_t)rows) || ek_trainer_step(t, batch, 2, 0, &loss))
    fail_msg("%s", ek_message(s));
  ek_trainer_close(t);
  return loss;
}
static void test_samples(void **state) {
  static const int64_t samples[] = {7, 3, 11, 2, 40}, order[] = {2, 40, 7, 11, 3};
  ek_session *s = ek_session_create();
  double sum = 0;
  (void)state;
  for (int i = 0; i < 5; i++) sum += loss_of(s, 1, 9, 4, samples + i);
  const double all = loss_of(s, 5, 9, 4, samples);
  assert_true(fabs(all - sum / 5) < 1e-12 * all);
  assert_true(fabs(all - loss_of(s, 5, 9, 4, order)) < 1e-12 * all);
  assert_true(fabs(all - loss_of(s, 5, 9, 5, samples)) > 1e-3 * all); /* another epoch */
  assert_true(fabs(all - loss_of(s, 5, 8, 4, samples)) > 1e-3 * all); /* another seed */
  ek_session_destroy(s);
}
static void test_wrong_number(void **state) {
  ek_session *s = ek_session_create();
  ek_array batch[2];
  ek_trainer *t = begin(s, 5, 0, batch);
  const int64_t samples[4] = {0};
  (void)state;
  assert_int_equal(ek_trainer_set_samples(t, 0, samples, 4), EK_USAGE);
  assert_non_null(strstr(ek_message(s), "4 numbers of samples; a batch has 5"));
  assert_int_equal(ek_trainer_set_samples(t, 0, NULL, 0), EK_OK);
  ek_trainer_close(t);
  ek_session_destroy(s);
}
/* The operator itself, where the numbers of samples and rows are open: in each case what it is for known ones. */
static void masks_of(ek_session *s, const int64_t n[3], const char *const *dims, double *out) {
  static const char open[] = "graph \"open\" ir 8 opset 17 {\n  input x: f64[A, B]\n  input key: i64[K]\n"
                             "  y = \"einkorn.train\"::dropout(x, _, key) \"y\"\n  output y\n}\n";
  const int64_t keys[WIDTH] = {5, 17, 3, 99, 2, 8, 1, 40, 6, 11, 7, 9}, at[2] = {n[0], n[1]};
  double in[WIDTH * WIDTH];
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_array y;
  ek_options o;
  ek_options_init(&o);
  o.dims = dims;
  for (int i = 0; i < WIDTH * WIDTH; i++) in[i] = i + 1;
  if (ek_load_memory(s, open, sizeof open - 1, "open", &m) || ek_compile(m, &o, &code) || ek_run_create(code, 1, &r))
    fail_msg("%s", ek_message(s));
  if (ek_run_set_input(r, "x", in, (size_t)(n[0] * n[1]) * sizeof *in, at, 2) ||
      ek_run_set_input(r, "key", keys, (size_t)n[2] * sizeof *keys, n + 2, 1) || ek_run_execute(r) ||
      ek_run_get_output(r, "y", &y))
    fail_msg("%s", ek_run_message(r));
  memcpy(out, y.data, y.bytes);
  ek_module_close(code);
}
static void test_open_counts(void **state) {
  /* rows, columns, samples: groups of rows, rows, columns, and where nothing fits */
  static const int64_t cases[][3] = {{6, 4, 3}, {3, 4, 3}, {4, 3, 3}, {5, 6, 4}, {2, 3, 12}};
  ek_session *s = ek_session_create();
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t *n = cases[i];
    double known[WIDTH * WIDTH] = {0}, open[WIDTH * WIDTH] = {0}, sum = 0;
    char text[3][16];
    for (int k = 0; k < 3; k++) snprintf(text[k], sizeof text[k], "%c=%d", "ABK"[k], (int)n[k]);
    masks_of(s, n, (const char *const[]){text[0], text[1], text[2], NULL}, known);
    masks_of(s, n, NULL, open);
    assert_memory_equal(known, open, sizeof open);
    for (int k = 0; k < n[0] * n[1]; k++) sum += open[k] != 0;
    assert_true(sum > 0 && sum < (double)(n[0] * n[1]));
  }
  ek_session_destroy(s);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_wrong_number),
                                     cmocka_unit_test(test_open_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
