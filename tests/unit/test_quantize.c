/* Quantisation: which nodes are layers, the ranges of each method, the codes that are written, and what is refused. */
#include "base/base.h"
#include "einkorn/einkorn.h"
#include "quantize/quantize.h"
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

#include "quantizekit.h"

#define OUT EK_BINARY_DIR "/test_quantize.onnx"
enum { ROWS = 10, WIDTH = 4 };
static const char net[] = "graph \"net\" ir 8 opset 17 {\n"
                          "  input x: f32[N, 4]\n"
                          "  const w: f32[4, 3] = [1.27, 0.2, 1, -0.5, -2.54, 2, 0.1, 0.3, 12.7, 0, 1, -5]\n"
                          "  const b: f32[3] = [1, 2, -3]\n"
                          "  const v: f32[3, 2] = [1, 2, 3, 4, 5, 6]\n"
                          "  h: f32[N, 3] = Gemm(x, w, b) \"first\"\n"
                          "  r: f32[N, 3] = Relu(h) \"relu\"\n"
                          "  y: f32[N, 2] = MatMul(r, v) \"second\"\n"
                          "  output y\n}\n";

typedef struct fixture {
  ek_session *s;
  ek_model *m;
  ek_quantize_options o;
  ek_quantized r;
  float data[ROWS][WIDTH];
} fixture;
static int sample(void *user, size_t i, ek_array *inputs, size_t n) {
  fixture *f = user;
  if (n != 1 || strcmp(inputs[0].name, "x") != 0 || i >= ROWS) return 1;
  inputs[0].type = EK_FLOAT, inputs[0].rank = 2, inputs[0].dims[0] = 1, inputs[0].dims[1] = WIDTH;
  inputs[0].data = f->data[i], inputs[0].bytes = sizeof f->data[i];
  return 0;
}
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->s = ek_session_create();
  assert_int_equal(ek_load_memory(f->s, net, sizeof net - 1, "net", &f->m), EK_OK);
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < WIDTH; k++) f->data[i][k] = 0.1f * (float)((i * 7 + k * 3) % 11);
  f->data[3][1] = 2.55f;
  ek_quantize_options_init(&f->o);
  assert_int_equal(f->o.correct_bias, 1);
  f->o.samples = ROWS, f->o.sample = sample, f->o.sample_user = f, f->o.correct_bias = 0;
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  ek_session_destroy(f->s);
  free(f);
  return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */
static void codes(void **state) {
  fixture *f = *state;
  f->o.per_channel = 1;
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_int_equal(f->r.layer_count, 2);
  assert_int_equal(f->r.quantized, 2);
  assert_string_equal(f->r.layers[0].name, "first");
  assert_null(f->r.layers[0].kept);
  assert_int_equal(f->r.observed, 8);
  assert_int_equal(f->r.compared, 2);
  assert_int_equal(f->r.output_count, 1);
  assert_true(f->r.outputs[0].sqnr > 40 && f->r.outputs[0].sqnr < 90);
  const char *text = written(f->s, OUT);
  has(text, "x_scale: f32[] = [0.00999999977");
  has(text, "x_zero_point: u8[] = [0]");
  has(text, "w_quantized: i8[4, 3] = [127, 10, 10, -50, -127, 20, 10, 15, 127, 0, 50, -50]");
  has(text, "w_scale: f32[3] = [0.0");
  has(text, "b_quantized: i32[3] = [10000, 10000, -3000]");
  has(text, "{axis = 1} \"w_DequantizeLinear\"");
  has(text, "y: f32[N, 2] = MatMul(r_dequantized, v_dequantized)");
}
/* Layers may share a constant that they add: each has codes of its own for it, by a node with a name of its own. */
static void shared_bias(void **state) {
  fixture *f = *state;
  static const char text[] = "graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 4]\n"
                             "  const u: f32[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n"
                             "  const v: f32[4, 2] = [8, 7, 6, 5, 4, 3, 2, 1]\n  const b: f32[2] = [1, 2]\n"
                             "  y: f32[N, 2] = Gemm(x, u, b) \"first\"\n  z: f32[N, 2] = Gemm(x, v, b) \"second\"\n"
                             "  output y\n  output z\n}\n";
  ek_model *m;
  assert_int_equal(ek_load_memory(f->s, text, sizeof text - 1, "g", &m), EK_OK);
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_OK);
  has(written(f->s, OUT), "\"b_DequantizeLinear\"");
  has(written(f->s, OUT), "\"b_DequantizeLinear.1\"");
}
static void excluded(void **state) {
  fixture *f = *state;
  const char *const some[] = {"fir*", NULL}, *const all[] = {"*", NULL}, *const none[] = {"frist", NULL};
  f->o.exclude = some;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_OK);
  assert_int_equal(f->r.quantized, 1);
  assert_string_equal(f->r.layers[0].kept, "excluded");
  has(written(f->s, OUT), "h: f32[N, 3] = Gemm(x, w, b)");
  f->o.exclude = all;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_USAGE);
  has(ek_message(f->s), "nothing to quantise: every layer stays as it is; first (Gemm): excluded");
  f->o.exclude = none;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_USAGE);
  has(ek_message(f->s), "no node of that name; did you mean first?");
}
static void refused(void **state) {
  fixture *f = *state;
  ek_model *again;
  assert_int_equal(ek_quantize(f->m, &f->o, "net.txt", &f->r), EK_USAGE);
  assert_int_equal(ek_quantize(f->m, NULL, OUT, &f->r), EK_USAGE);
  f->o.percentile = 0;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_USAGE);
  f->o.percentile = 99, f->o.samples = 0;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_USAGE);
  has(ek_message(f->s), "at least one sample");
  f->o.samples = ROWS + 1;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_FAILED);
  has(ek_message(f->s), "sample 10");
  f->o.samples = ROWS, f->data[2][2] = NAN;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_FAILED);
  has(ek_message(f->s), "tensor x has values that are infinite or no numbers");
  f->data[2][2] = 0;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_OK);
  assert_int_equal(ek_load(f->s, OUT, &again), EK_OK);
  assert_int_equal(ek_quantize(again, &f->o, EK_BINARY_DIR "/test_quantize2.onnx", &f->r), EK_USAGE);
  has(ek_message(f->s), "quantised already");
}
/* ---- budgets ----------------------------------------------------------------------------------- */
static int image(void *user, size_t i, ek_array *inputs, size_t n) {
  const ek_array *all = user;
  if (n != 1 || (int64_t)i >= all->dims[0]) return 1;
  const char *name = inputs[0].name;
  inputs[0] = *all;
  inputs[0].name = name, inputs[0].dims[0] = 1, inputs[0].bytes = all->bytes / (size_t)all->dims[0];
  inputs[0].data = (const uint8_t *)all->data + i * inputs[0].bytes;
  return 0;
}
/* The digit classifier and its images. */
static ek_model *classifier(fixture *f, ek_array *images) {
  ek_arrays *all;
  ek_model *m;
  assert_int_equal(ek_arrays_load(f->s, EK_SOURCE_DIR "/examples/digits/all.npz", &all), EK_OK);
  assert_int_equal(ek_arrays_find(all, "in_0", images), EK_OK);
  assert_int_equal(ek_load(f->s, EK_SOURCE_DIR "/examples/digits/digits.onnx", &m), EK_OK);
  f->o.samples = (size_t)images->dims[0], f->o.sample = image, f->o.sample_user = images, f->o.per_channel = 1;
  return m;
}
static void budget(void **state) {
  fixture *f = *state;
  ek_array images;
  ek_model *m = classifier(f, &images);
  f->o.least_sqnr = 33;
  if (ek_quantize(m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_int_equal(f->r.observed, 16);
  assert_int_equal(f->r.compared, 16);
  assert_true(f->r.outputs[0].least >= 33 && f->r.outputs[0].sqnr > f->r.outputs[0].least);
  /* By the cost of a multiplication all but the third have to stay; what that leaves is enough for the first. */
  assert_int_equal(f->r.quantized, 2);
  for (size_t i = 0; i < f->r.layer_count; i++) {
    const ek_quantized_layer *l = &f->r.layers[i];
    assert_true((l->kept == NULL) == (i == 0 || i == 2));
    assert_true(l->alone > 30);
    if (l->kept) has(l->kept, "accuracy budget");
  }
  f->o.least_sqnr = 40; /* with the third alone it is 57.6 dB, but these samples vary: it may be 31.6 on others */
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_FAILED);
  f->o.least_sqnr = 300;
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_FAILED);
  has(ek_message(f->s), "the accuracy budget cannot be kept");
  f->o.least_sqnr = 0, f->o.most_changed = 0;
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_OK);
  assert_true(f->r.outputs[0].changed == 0);
  f->o.most_changed = 101;
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_USAGE);
}
static void faster(void **state) {
  fixture *f = *state;
  f->o.only_faster = 1;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_OK);
  assert_int_equal(f->r.quantized, 2); /* what takes less than the clock can tell is not judged */
  assert_true(f->r.ms_before > 0 && f->r.ms_after > 0);
  assert_true(f->r.layers[0].ms_before > 0 && f->r.layers[1].ms_before > 0);
  assert_true(f->r.layers[0].ms_before + f->r.layers[1].ms_before <= f->r.ms_before * 1.001);
}
/* ---- channels of large magnitude ---------------------------------------------------------------- */
/* A gain of 90 in the first channel of a normalisation, an input whose last channel is the largest. */
static const char outliers[] =
    "graph \"g\" ir 8 opset 17 {\n"
    "  input x: f32[N, 4]\n"
    "  const gain: f32[4] = [90, 1, 1, 1]\n"
    "  const shift: f32[4] = [9, 0.1, 0.2, 0.3]\n"
    "  const w: f32[4, 3] = [0.01, 0.02, -0.01, 0.7, -0.9, 0.3, 0.2, 0.8, -0.6, 0.9, 0.1, 0.5]\n"
    "  const u: f32[4, 2] = [0.02, -0.01, 0.3, 0.4, -0.8, 0.7, 0.6, 0.1]\n"
    "  const v: f32[4, 2] = [0.5, 0.6, 0.7, -0.8, 0.4, 0.3, 0.002, -0.003]\n"
    "  n: f32[N, 4] = LayerNormalization(x, gain, shift) {axis = -1} \"norm\"\n"
    "  a: f32[N, 3] = MatMul(n, w) \"first\"\n"
    "  b: f32[N, 2] = MatMul(n, u) \"second\"\n"
    "  c: f32[N, 2] = MatMul(x, v) \"third\"\n"
    "  output a\n  output b\n  output c\n}\n";
static void lacks(const char *text, const char *what) {
  if (strstr(text, what)) fail_msg("%s in\n%s", what, text);
}
static void smoothed(void **state) {
  fixture *f = *state;
  ek_model *m;
  double before[3];
  assert_int_equal(ek_load_memory(f->s, outliers, sizeof outliers - 1, "outliers", &m), EK_OK);
  for (int i = 0; i < ROWS; i++) f->data[i][3] *= 100;
  f->o.per_channel = 1;
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_OK);
  assert_int_equal(f->r.output_count, 3);
  assert_int_equal(f->r.smoothed_count, 0);
  for (int i = 0; i < 3; i++) before[i] = f->r.outputs[i].sqnr;
  for (int given = 0; given < 2; given++) {
    f->o.smooth = given ? 0.5 : 0; /* 0: searched */
    if (ek_quantize(m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
    for (int i = 0; i < 3; i++)
      if (!(f->r.outputs[i].sqnr >= before[i] + 10))
        fail_msg("output %d: %g dB, %g without smoothing", i, f->r.outputs[i].sqnr, before[i]);
    assert_int_equal(f->r.smoothed_count, 2);
    assert_string_equal(f->r.smoothed[0].tensor, "n");
    assert_string_equal(f->r.smoothed[1].tensor, "x");
    assert_true(!f->r.smoothed[0].multiplied && f->r.smoothed[1].multiplied);
    for (int i = 0; i < 2; i++) {
      const double alpha = f->r.smoothed[i].alpha;
      assert_true(given ? alpha == 0.5 : alpha >= 0.2 && alpha <= 0.8);
    }
    const char *text = written(f->s, OUT);
    lacks(text, "n_Mul"); /* the gain is divided */
    has(text, "LayerNormalization(x, gain_smoothed, shift_smoothed)");
    has(text, "= Mul(x, x_factors) \"x_Mul\""); /* an input has nothing that could be */
  }
  f->o.smooth = 1.5;
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_USAGE);
  has(ek_message(f->s), "smooth is at most 1");
}
/* What else reads the normalisation must see what it saw: there a Mul is written. */
static void smoothed_reader(void **state) {
  fixture *f = *state;
  char text[sizeof outliers + 100];
  ek_model *m;
  const char *end = strstr(outliers, "  output a");
  snprintf(text, sizeof text, "%.*s  d: f32[N, 4] = Tanh(n) \"other\"\n%s", (int)(end - outliers), outliers, end);
  memcpy(strstr(text, "output b"), "output d", 8);
  assert_int_equal(ek_load_memory(f->s, text, strlen(text), "reader", &m), EK_OK);
  f->o.smooth = 0.5;
  if (ek_quantize(m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_true(f->r.outputs[1].sqnr > 100);
  has(written(f->s, OUT), "LayerNormalization(x, gain, shift)");
  has(written(f->s, OUT), "= Mul(n, n_factors) \"n_Mul\"");
}
/* What computes a layer's input is another layer, with a maximum with 0 between: its weights and bias are divided. */
static void smoothed_layer(void **state) {
  fixture *f = *state;
  f->o.smooth = 0.5, f->o.per_channel = 1;
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_true(f->r.outputs[0].sqnr > 35);
  lacks(written(f->s, OUT), "r_Mul");
  f->o.per_channel = 0; /* one scale for all weights: the codes of small channels would become coarse */
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_true(f->r.outputs[0].sqnr > 35);
  has(written(f->s, OUT), "r_Mul");
}
static bool near(double x, double y, double by) { return fabs(x - y) <= by; }
/* ---- mean errors ------------------------------------------------------------------------------- */
/* Weights of 0.4 become 0 beside 127: every result is too small by 0.4 of a sum of positive inputs. */
#define SMALL "127, 0.4, 0.4, 0.4, 0.4, 127, 0.4, 0.4"
static const char shifted[] = "graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 4]\n  const b: f32[2] = [1, 2]\n"
                              "  const w: f32[2, 4] = [" SMALL "]\n  const k: f32[2, 1, 4] = [" SMALL "]\n"
                              "  const g: f32[4, 1, 2] = [" SMALL "]\n"
                              "  const two: i64[3] = [-1, 1, 4]\n  const four: i64[3] = [-1, 2, 2]\n"
                              "  y: f32[N, 2] = Gemm(x, w, b) {transB = 1} \"linear\"\n"
                              "  t: f32[4, 2] = Transpose(w) {perm = [1, 0]} \"turn\"\n"
                              "  m: f32[N, 2] = MatMul(x, t) \"product\"\n"
                              "  r: f32[M, 1, 4] = Reshape(x, two) \"row\"\n"
                              "  c: f32[M, 2, 1] = Conv(r, k) \"window\"\n"
                              "  s: f32[M, 2, 2] = Reshape(x, four) \"rows\"\n"
                              "  d: f32[M, 4, 1] = Conv(s, g) {group = 2} \"groups\"\n"
                              "  output y\n  output m\n  output c\n  output d\n}\n";
static void corrected(void **state) {
  fixture *f = *state;
  ek_model *m;
  double before[4];
  assert_int_equal(ek_load_memory(f->s, shifted, sizeof shifted - 1, "shifted", &m), EK_OK);
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < WIDTH; k++) f->data[i][k] = 1 + 0.1f * (float)((i * 7 + k * 3) % 11);
  for (int on = 0; on < 2; on++) {
    f->o.correct_bias = on;
    if (ek_quantize(m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
    assert_int_equal(f->r.quantized, 4);
    for (int i = 0; i < 4; i++) {
      if (!on) before[i] = f->r.outputs[i].sqnr;
      if (on && f->r.outputs[i].sqnr < before[i] + 6)
        fail_msg("%s: %g dB, %g before", f->r.outputs[i].name, f->r.outputs[i].sqnr, before[i]);
      assert_true(on ? f->r.layers[i].corrected > 0.1 : f->r.layers[i].corrected == 0);
    }
  }
  const char *text = written(f->s, OUT);
  has(text, "b_corrected_quantized: i32[2]");
  has(text, "= Gemm(x_dequantized, w_dequantized, b_corrected_dequantized)");
  has(text, "m: f32[N, 2] = Add(m_uncorrected, m_corrected)"); /* a product has no input for it */
  has(text, "= Conv(r_dequantized, k_dequantized, c_corrected_dequantized)");
  has(text, "= Conv(s_dequantized, g_dequantized, d_corrected_dequantized)");
  const char *const all_but_one[] = {"product", "window", "groups", NULL};
  f->o.exclude = all_but_one; /* what stays is not corrected */
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_OK);
  lacks(written(f->s, OUT), "m_corrected");
  has(written(f->s, OUT), "= Conv(r, k) ");
}
/* Every second row is clamped by far, which the outputs do not show: its error would move the mean of the others. */
static void uncorrected(void **state) {
  fixture *f = *state;
  static const char text[] = "graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 4]\n  const top: f32[] = [1.5]\n"
                             "  const rows: i64[2] = [-1, 2]\n  const w: f32[2, 2] = [1, 1, 1, 0.9]\n"
                             "  r: f32[M, 2] = Reshape(x, rows) \"rows\"\n  h: f32[M, 2] = MatMul(r, w) \"product\"\n"
                             "  y: f32[M, 2] = Min(h, top) \"least\"\n  output y\n}\n";
  ek_model *m;
  assert_int_equal(ek_load_memory(f->s, text, sizeof text - 1, "g", &m), EK_OK);
  for (int i = 0; i < ROWS; i++)
    for (int k = 0; k < WIDTH; k++) f->data[i][k] = k == 2 ? 100 : k == 3 ? 1 : 0.5f + 0.001f * (float)(i * 7 % 11);
  f->o.correct_bias = 1, f->o.method = EK_QUANTIZE_PERCENTILE, f->o.percentile = 60;
  if (ek_quantize(m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_true(f->r.layers[0].corrected == 0);
  assert_true(f->r.layers[0].sqnr < 3); /* though the layer's own error is large */
}
/* What may be an accident of the samples is not subtracted. */
static void shifts(void **state) {
  (void)state;
  ctx *c = ctx_new();
  /* of four samples: 2, 2, 2, 2; 1, 3, 1, 3; -1, 1, -1, 1; 0 */
  const double sum[] = {8, 8, 0, 0}, square[] = {16, 20, 4, 0};
  const float *by = quantize_shift(sum, square, 4, 4, ctx_arena(c));
  assert_true(by[0] == 2 && by[2] == 0 && by[3] == 0);
  assert_true(near((double)by[1], 2 * (1 - 4.0 / 3 / (4 * 4)), 1e-6));
  by = quantize_shift(sum, square, 1, 1, ctx_arena(c)); /* one sample tells no variance */
  assert_true(by[0] == 8);
  ctx_free(c);
}
static void nothing(void **state) {
  fixture *f = *state;
  static const char text[] = "graph \"g\" ir 8 opset 17 {\n  input x: f32[N, 4]\n  y: f32[N, 4] = Relu(x) \"a\"\n"
                             "  output y\n}\n";
  ek_model *m;
  assert_int_equal(ek_load_memory(f->s, text, sizeof text - 1, "g", &m), EK_OK);
  assert_int_equal(ek_quantize(m, &f->o, OUT, &f->r), EK_USAGE);
  has(ek_message(f->s), "no node is a sum of products of two f32 tensors");
}

/* ---- ranges ---------------------------------------------------------------------------------- */
static quant_stats stats_of(const float *x, int n, arena *a) {
  quant_stats s = quantize_nothing();
  int64_t *bins = NEWN(a, int64_t, QUANT_BINS);
  for (int i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    bins[bits >> 16]++;
    assert_true(quantize_add(&s, x[i], x[i]));
  }
  s.bins = bins;
  return s;
}
static void ranges(void **state) {
  (void)state;
  enum { N = 100000 };
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  float *x = NEWN(a, float, N);
  for (int i = 0; i < N; i++) x[i] = 1 + (float)i / N; /* 1 to 2 */
  x[7] = 50;
  quant_stats s = stats_of(x, N, a);
  quant_range r = quantize_range(&s, QUANT_MINMAX, 0, a);
  assert_true(r.lo == 0 && r.hi == 50); /* 0 always has a code */
  r = quantize_range(&s, QUANT_PERCENTILE, 99, a);
  assert_true(r.lo == 0 && near(r.hi, 1.99, 0.01));
  r = quantize_range(&s, QUANT_PERCENTILE, 100, a);
  assert_true(near(r.hi, 50, 0.3));
  r = quantize_range(&s, QUANT_MSE, 0, a);
  assert_true(r.lo == 0 && r.hi > 5 && r.hi < 50); /* the one far value is clamped, but not to 2: its error counts */
  for (int i = 0; i < N; i++) x[i] = -x[i];
  s = stats_of(x, N, a);
  r = quantize_range(&s, QUANT_MINMAX, 0, a);
  assert_true(r.lo == -50 && r.hi == 0);
  r = quantize_range(&s, QUANT_ENTROPY, 0, a);
  assert_true(r.lo >= -50 && r.lo < -2 && r.hi == 0);
  assert_false(quantize_add(&s, -1, INFINITY));
  assert_false(quantize_add(&s, NAN, NAN));
  for (int i = 0; i < N; i++) x[i] = 2 - sqrtf((float)i / N); /* fewer and fewer up to 2 */
  s = stats_of(x, N, a);
  r = quantize_range(&s, QUANT_MSE, 0, a);
  assert_true(r.hi == 2); /* a few hundredths of the error are no reason to clamp */
  s = stats_of(x, 0, a);
  r = quantize_range(&s, QUANT_MSE, 0, a);
  assert_true(r.lo == 0 && r.hi == 0);
  ctx_free(c);
}
/* The bounds on other samples: Student's t for 19 degrees of freedom is 2.522. */
static void bounds(void **state) {
  (void)state;
  enum { N = 20 };
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  double signal[N], even[N], spread[N], wild[N], one[N] = {[3] = 2}, none[N] = {0};
  for (int i = 0; i < N; i++) {
    signal[i] = 100 + i % 5, even[i] = 1 + 0.1 * (i % 3);
    spread[i] = pow(10, i * 7 % N / 10.0 - 1), wild[i] = pow(10, i * 7 % N / 2.0 - 9);
  }
  assert_true(near(quantize_at_most(even, N), 1.095 + 2.522 * 0.0826 * sqrt(2.0 / N), 0.0001));
  assert_true(quantize_at_most(even, 1) == 1);
  /* computed by an independent program; the ratios of the sums are 93.2, 53.4, 441 and 1020 */
  assert_true(near(quantize_ratio_at_least(signal, even, N, a), 87.648, 0.01));
  assert_true(near(quantize_ratio_at_least(signal, spread, N, a), 9.8324, 0.001)); /* log-normal */
  assert_true(near(quantize_ratio_at_least(signal, wild, N, a), 22.120, 0.01));    /* ten decades, of which two count */
  assert_true(near(quantize_ratio_at_least(signal, one, N, a), 223.74, 0.1));      /* one sample alone has an error */
  assert_true(quantize_ratio_at_least(signal, none, N, a) == INFINITY);
  assert_true(quantize_ratio_at_least(signal, even, 1, a) == 100);
  assert_true(quantize_ratio_at_least(signal, spread, 2, a) < 1);
  assert_int_equal(quantize_half(even, N, a), N / 2);
  assert_int_equal(quantize_half(wild, N, a), 1);
  assert_int_equal(quantize_half(none, N, a), 0);
  ctx_free(c);
}
int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(codes),     T(shared_bias), T(excluded),        T(refused),        T(budget),
      T(faster),    T(smoothed),    T(smoothed_reader), T(smoothed_layer), T(nothing),
      T(corrected), T(uncorrected), T(shifts),          T(ranges),         T(bounds),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
