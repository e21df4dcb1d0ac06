/* What a training begins with. First values (ek_train_options.init): one layer each, whose parameter p must get the
 * values that follow from its use. And the tensor that a loss is of, where the model ends in what the loss computes. */
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

enum { TEXT = 1 << 20, KEPT = -1, ZERO = -2, ONE = -3, LOOKED_UP = -4 };
typedef struct layer {
  const char *x;          /* the input's type */
  const char *y;          /* the result's type */
  const char *shape;      /* p's sizes */
  bool equal;             /* all elements of p are equal */
  double fan_in, fan_out; /* of a weight; fan_in: or what else it is, looked up with fan_out elements at a time */
  const char *lines;      /* nodes, and other constants */
} layer;
#define V16 "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]"
static const layer layers[] = {
    {"f32[N, 48]", "f32[N, 64]", "64, 48", false, 48, 64, "y: f32[N, 64] = Gemm(x, p) {transB = 1} \"n\""},
    {"f32[N, 48]", "f32[N, 64]", "48, 64", false, 48, 64, "y: f32[N, 64] = MatMul(x, p) \"n\""},
    {"f32[N, 1]", "f32[N, 1024]", "1, 1024", false, 1, 1024, "y: f32[N, 1024] = MatMul(x, p) \"n\""},
    {"f32[N, 48]", "f32[N, 64]", "64, 48", false, 48, 64,
     "t: f32[48, 64] = Transpose(p) {perm = [1, 0]} \"t\"\n  y: f32[N, 64] = MatMul(x, t) \"n\""},
    {"f32[N, 48]", "f32[N, 64]", "64, 48", false, 48, 64,
     "y: f32[N, 64] = Einsum(x, p) {equation = \"ni,oi->no\"} \"n\""},
    {"f32[N, 16, 6, 6]", "f32[N, 32, 4, 4]", "32, 8, 3, 3", false, 72, 144,
     "y: f32[N, 32, 4, 4] = Conv(x, p) {group = 2} \"n\""},
    {"f32[N, 128, 6, 6]", "f32[N, 128, 4, 4]", "128, 1, 3, 3", false, 9, 9,
     "y: f32[N, 128, 4, 4] = Conv(x, p) {group = 128} \"n\""},
    {"f32[N, 16, 4, 4]", "f32[N, 8, 6, 6]", "16, 8, 3, 3", false, 144, 72,
     "y: f32[N, 8, 6, 6] = ConvTranspose(x, p) \"n\""},
    {"i64[N, 3]", "f32[N, 3, 32]", "64, 32", false, LOOKED_UP, 32, "y: f32[N, 3, 32] = Gather(p, x) \"n\""},
    {"i64[N, 3]", "f32[N, 3, 64]", "64, 32", false, 32, 64,
     "e: f32[N, 3, 32] = Gather(p, x) \"e\"\n  t: f32[32, 64] = Transpose(p) {perm = [1, 0]} \"t\"\n"
     "  y: f32[N, 3, 64] = MatMul(e, t) \"n\""},
    {"f32[5, 2, 24]", "f32[5, 1, 2, 16]", "1, 64, 24", false, 24, 64,
     "const r: f32[1, 64, 16] = zeros\n  y: f32[5, 1, 2, 16], h: f32[1, 2, 16], c: f32[1, 2, 16] = LSTM(x, p, r) "
     "{hidden_size = 16} \"n\""},
    {"f32[5, 2, 8]", "f32[5, 1, 2, 4]", "1, 32", false, ZERO, 0,
     "const w: f32[1, 16, 8] = zeros\n  const r: f32[1, 16, 4] = zeros\n"
     "  y: f32[5, 1, 2, 4], h: f32[1, 2, 4], c: f32[1, 2, 4] = LSTM(x, w, r, p) {hidden_size = 4} \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", false, ZERO, 0, "y: f32[N, 16] = Add(x, p) \"n\""},
    {"f32[N, 4, 6, 6]", "f32[N, 16, 6, 6]", "16", false, ZERO, 0,
     "const w: f32[16, 4, 1, 1] = zeros\n  y: f32[N, 16, 6, 6] = Conv(x, w, p) \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", false, ONE, 0, "y: f32[N, 16] = LayerNormalization(x, p) \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", true, KEPT, 0, "y: f32[N, 16] = LayerNormalization(x, p) \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", false, ZERO, 0,
     "const s: f32[16] = " V16 "\n  y: f32[N, 16] = LayerNormalization(x, s, p) \"n\""},
    {"f32[N, 16, 3]", "f32[N, 16, 3]", "16", false, ONE, 0,
     "const b: f32[16] = " V16 "\n  const m: f32[16] = " V16 "\n  const v: f32[16] = " V16
     "\n  y: f32[N, 16, 3] = BatchNormalization(x, p, b, m, v) \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", false, KEPT, 0, "y: f32[N, 16] = PRelu(x, p) \"n\""},
    {"f32[N, 16]", "f32[N, 16]", "16", false, KEPT, 0, "t: f32[16] = Tanh(p) \"t\"\n  y: f32[N, 16] = Mul(x, t) \"n\""},
};

/* "const NAME: f32[SIZES] = zeros" has its zeros written out, and p its values; their number. */
static int constant(char **to, const char *name, const char *shape, bool zero, bool equal) {
  int n = 1;
  for (const char *s = shape; s; s = strchr(s, ','), s = s ? s + 1 : s) n *= atoi(s);
  *to += sprintf(*to, "  const %s: f32[%s] = [", name, shape);
  for (int i = 0; i < n; i++)
    *to += sprintf(*to, "%s%s", i ? ", " : "", zero ? "0" : equal ? "0.5" : i % 2 ? "2" : "3");
  *to += sprintf(*to, "]\n");
  return n;
}
static char *text_of(const layer *l, int *n) {
  char *text = malloc(TEXT), *to = text + sprintf(text, "graph \"g\" ir 8 opset 17 {\n  input x: %s\n", l->x);
  const char *lines = l->lines;
  *n = constant(&to, "p", l->shape, false, l->equal);
  for (const char *zeros; (zeros = strstr(lines, "] = zeros"));) {
    char name[8], shape[32];
    sscanf(lines, " const %7[a-z]: f32[%31[0-9, ]", name, shape);
    constant(&to, name, shape, true, false);
    lines = zeros + strlen("] = zeros\n");
  }
  sprintf(to, "  %s\n  output y\n}\n", lines);
  return text;
}
static ek_array array_of(const char *name, const char *type) {
  ek_array x = {.name = name, .type = type[0] == 'i' ? EK_INT64 : EK_FLOAT};
  for (const char *p = strchr(type, '['); p && *p != ']'; p = strpbrk(p + 1, ",]"))
    x.dims[x.rank++] = p[1] == 'N' ? 2 : atoi(p + 1 + (p[1] == ' ' && p[2] == 'N')) ? atoi(p + 1) : 2;
  return x;
}
static void values(const layer *l, const char *init, uint64_t seed, float *out, int *n) {
  ek_session *s = ek_session_create();
  char *text = text_of(l, n);
  ek_model *m;
  ek_trainer *t = NULL;
  ek_train_options o;
  ek_array batch[] = {array_of("x", l->x), array_of("target", l->y)}, p;
  ek_train_options_init(&o);
  o.loss = "mse", o.batch = batch, o.batch_count = 2, o.init = init, o.seed = seed;
  if (ek_load_memory(s, text, strlen(text), "net", &m) || ek_trainer_create(m, &o, &t))
    fail_msg("%s: %s", l->lines, ek_message(s));
  size_t i = 0;
  while (!ek_trainer_tensor(t, i, &p) && strcmp(p.name, "p") != 0) i++;
  assert_int_equal(p.bytes, (size_t)*n * sizeof *out);
  memcpy(out, p.data, p.bytes);
  ek_trainer_close(t);
  ek_session_destroy(s);
  free(text);
}
static void check(const layer *l, bool he, const float *p, int n) {
  double square = 0, most = 0;
  for (int i = 0; i < n; i++) square += p[i] * p[i] / n, most = fmax(most, fabs(p[i]));
  for (int i = 0; i < n && (l->fan_in == ZERO || l->fan_in == ONE); i++) assert_true(p[i] == (l->fan_in == ONE));
  for (int i = 0; i < n && l->fan_in == KEPT; i++) assert_true(p[i] == (l->equal ? 0.5F : i % 2 ? 2 : 3));
  const double limit = sqrt(6 / (l->fan_in + l->fan_out));
  const double variance = l->fan_in == LOOKED_UP ? 1 / l->fan_out : 2 / l->fan_in;
  if ((he && l->fan_in > 0) || l->fan_in == LOOKED_UP) {
    if (fabs(square / variance - 1) > 0.15) fail_msg("%s: variance %g, not %g", l->lines, square, variance);
  } else if (l->fan_in > 0 && (most > limit || most < 0.99 * limit))
    fail_msg("%s: within %g, not %g", l->lines, most, limit);
}
static void uses(void **state) {
  static float p[1 << 14];
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int he = 0; he < 2; he++) {
      int n;
      values(&layers[i], he ? "he" : "xavier", 3, p, &n);
      check(&layers[i], he, p, n);
    }
}
static void seeds(void **state) {
  static float p[1 << 14], q[1 << 14];
  int n;
  (void)state;
  values(&layers[0], "he", 3, p, &n), values(&layers[0], "he", 3, q, &n);
  assert_memory_equal(p, q, (size_t)n * sizeof *p);
  values(&layers[0], "he", 4, q, &n);
  assert_memory_not_equal(p, q, (size_t)n * sizeof *p);
  values(&layers[0], "keep", 4, q, &n);
  for (int i = 0; i < n; i++) assert_true(q[i] == (i % 2 ? 2 : 3));
}
static void refused(void **state) {
  ek_session *s = ek_session_create();
  int n;
  char *text = text_of(&layers[1], &n);
  ek_model *m;
  ek_trainer *t = NULL;
  ek_train_options o;
  ek_array batch[] = {array_of("x", layers[1].x), array_of("target", layers[1].y)};
  (void)state;
  ek_train_options_init(&o);
  o.loss = "mse", o.batch = batch, o.batch_count = 2, o.init = "uniform";
  assert_int_equal(ek_load_memory(s, text, strlen(text), "net", &m), EK_OK);
  assert_int_equal(ek_trainer_create(m, &o, &t), EK_USAGE);
  if (!strstr(ek_message(s), "init uniform: he, xavier or keep is expected")) fail_msg("%s", ek_message(s));
  ek_session_destroy(s);
  free(text);
}

/* ---- which tensor the loss is of ---- */
typedef struct ending {
  const char *loss, *target; /* the loss, and the type of its target */
  const char *y;             /* type of the tensors h and y */
  const char *last;          /* the last node: y of h */
  const char *asked;         /* ek_train_options.output */
  const char *of;            /* the tensor that the loss is of; NULL: y */
} ending;
static const ending endings[] = {
    {"cross_entropy", "i64[2]", "f32[N, 5]", "Softmax(h) {axis = 1}", NULL, "h"},
    {"cross_entropy:label_smoothing=0.1", "i64[2]", "f32[N, 5]", "Softmax(h)", NULL, "h"},
    {"cross_entropy", "i64[2, 5]", "f32[N, 5, 7]", "Softmax(h) {axis = 2}", NULL, "h"},
    {"cross_entropy", "i64[2, 7]", "f32[N, 5, 7]", "Softmax(h) {axis = 1}", NULL, "h"},
    {"cross_entropy:axis=-1", "i64[2, 5]", "f32[N, 5, 7]", "Softmax(h) {axis = 1}", NULL, NULL},
    {"cross_entropy", "i64[2]", "f32[N, 5]", "Softmax(h) {axis = 1}", "y", "y"},
    {"cross_entropy", "i64[2]", "f32[N, 5]", "LogSoftmax(h) {axis = 1}", NULL, NULL},
    {"cross_entropy", "i64[2]", "f32[N, 5]", "Sigmoid(h)", NULL, NULL},
    {"nll", "i64[2]", "f32[N, 5]", "Softmax(h) {axis = 1}", NULL, NULL},
    {"bce_with_logits", "f32[2, 5]", "f32[N, 5]", "Sigmoid(h)", NULL, "h"},
    {"bce_with_logits", "f32[2, 5]", "f32[N, 5]", "HardSigmoid(h)", NULL, NULL},
    {"half_square", "f32[2, 5]", "f32[N, 5]", "Exp(h)", NULL, "h"},
};
static const char own_loss[] = "op \"einkorn.loss::half_square\"<T: float>(X: T[d...], target: T[d...]) -> L: T[] {\n"
                               "  L[] = sum[d...] 0.5 * (exp(X[d...]) - target[d...])**2\n}\n"
                               "op \"einkorn.link::half_square\"<T: float>(X: T[d...]) -> Y: T[d...] { Y = Exp(X) }\n";
static void links(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const ending *x = &endings[i];
    char text[1024];
    ek_session *s = ek_session_create();
    ek_model *m;
    ek_trainer *t = NULL;
    ek_train_options o;
    ek_array batch[] = {array_of("x", x->y), array_of("target", x->target)};
    snprintf(text, sizeof text,
             "graph \"g\" ir 8 opset 17 {\n  input x: %s\n  const p: f32[1] = [0.5]\n  h: %s = Add(x, p) \"n\"\n"
             "  y: %s = %s \"last\"\n  output y\n}\n",
             x->y, x->y, x->y, x->last);
    ek_train_options_init(&o);
    o.loss = x->loss, o.batch = batch, o.batch_count = 2, o.output = x->asked;
    if (ek_load_ops_memory(s, own_loss, sizeof own_loss - 1, "own.ek") ||
        ek_load_memory(s, text, strlen(text), "g", &m) || ek_trainer_create(m, &o, &t))
      fail_msg("%s of %s: %s", x->loss, x->last, ek_message(s));
    const char *of = ek_trainer_output(t);
    if (of && x->of ? strcmp(of, x->of) != 0 : of != x->of)
      fail_msg("%s of %s: of %s", x->loss, x->last, of ? of : "y");
    ek_trainer_close(t);
    ek_session_destroy(s);
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(uses), cmocka_unit_test(seeds), cmocka_unit_test(refused),
                                     cmocka_unit_test(links)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
