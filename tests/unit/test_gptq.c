/* Weights of a few bits: the codes of blocks and of GPTQ against a plain transcript of the paper's algorithm in numpy
 * (inverse, Cholesky factor, column by column), what is written, and what is refused. */
#include "base/base.h"
#include "einkorn/einkorn.h"
#include "quantize/quantize.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

#include "quantizekit.h"

#define OUT EK_BINARY_DIR "/test_gptq.onnx"
enum { ROWS = 10, WIDTH = 20 };
static const char net[] =
    "graph \"net\" ir 8 opset 17 {\n"
    "  input x: f32[N, 20]\n"
    "  const w: f32[20, 2] = [1, -8, 2, 7, 3, 6, 4, 5, 5, 4, 6, 3, 7, 2, -8, 1, 1, 0, 2, 0, 3, 0, "
    "4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 7.2, 4, 6, 3, 5, 2, 4, 1]\n"
    "  const b: f32[2] = [1, 2]\n"
    "  y: f32[N, 2] = Gemm(x, w, b) \"first\"\n"
    "  t: f32[2, N] = Transpose(y) {perm = [1, 0]} \"flip\"\n"
    "  z: f32[N, N] = MatMul(y, t) \"second\"\n"
    "  output z\n}\n";
typedef struct fixture {
  ek_session *s;
  ek_model *m;
  ek_quantize_options o;
  ek_quantized r;
  float data[ROWS][WIDTH];
} fixture;
static int sample(void *user, size_t i, ek_array *inputs, size_t n) {
  fixture *f = user;
  if (n != 1 || i >= ROWS) return 1;
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
  ek_quantize_options_init(&f->o);
  f->o.scheme = EK_QUANTIZE_INT4, f->o.block_size = 16;
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  ek_session_destroy(f->s);
  free(f);
  return 0;
}

/* ---- codes ----------------------------------------------------------------------------------- */
typedef struct problem {
  float *w;     /* weights, [n, k] */
  double *gram; /* [k, k] */
} problem;
static problem problem_of(int n, int k, int rows, arena *a) {
  problem p = {NEWN(a, float, n *k), NEWN(a, double, k *k)};
  for (int i = 0; i < n; i++)
    for (int c = 0; c < k; c++)
      p.w[i * k + c] = (float)((i * 5 + c * 7) % 13 - 6) / 8 + (float)((i * 3 + c * c) % 7) / 64 + (float)c / 4096;
  for (int r = 0; r < rows; r++) {
    double x[256];
    for (int c = 0; c < k; c++) x[c] = ((r * 7 + c * 3 + r * c) % 11 - 5) / 4.0 + c % 4 * ((r * r + c) % 5) / 8.0;
    for (int i = 0; i < k; i++)
      for (int j = 0; j < k; j++) p.gram[i * k + j] += x[i] * x[j];
  }
  return p;
}
static void reference(void **state) {
  (void)state;
  static const uint8_t want[2][20] = {{15, 7, 14, 5, 13, 4, 12, 3, 11, 1, 9, 0, 7, 15, 7, 14, 14, 1, 15, 3},
                                      {9, 1, 8, 15, 7, 14, 5, 13, 2, 11, 3, 10, 1, 8, 0, 7, 0, 10, 3, 10}};
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  problem p = problem_of(2, 20, 40, a);
  const quant_form four = {.bits = 4, .block = 16}, three = {.bits = 3, .block = 32};
  quant_codes q = quantize_blocks(&four, p.w, 2, 20, a);
  assert_true(quantize_gptq(&q, p.w, p.gram, a));
  for (int i = 0; i < 2; i++) assert_memory_equal(q.codes + i * 32, want[i], 20);
  p = problem_of(5, 150, 200, a); /* several panels */
  q = quantize_blocks(&three, p.w, 5, 150, a);
  assert_true(quantize_gptq(&q, p.w, p.gram, a));
  int64_t sum = 0;
  for (int i = 0; i < 5 * 150; i++) sum += q.codes[i / 150 * 160 + i % 150] * (i % 97 + 1);
  assert_int_equal(sum, 275751);
  p.gram[7] = p.gram[7 * 150] = NAN;
  assert_false(quantize_gptq(&q, p.w, p.gram, a));
  ctx_free(c);
}
/* Inputs that were always 0, and rows of zeros: the codes are those of rounding. */
static void nothing_seen(void **state) {
  (void)state;
  ctx *c = ctx_new();
  arena *a = ctx_arena(c);
  const problem p = problem_of(2, 20, 0, a);
  for (int b = 0; b < 2; b++) {
    const quant_form form = {.bits = b ? 8 : 2, .block = 16, .zero_points = b};
    quant_codes q = quantize_blocks(&form, p.w, 2, 20, a);
    const uint8_t *rounded = arena_dup(a, q.codes, 64);
    assert_true(quantize_gptq(&q, p.w, p.gram, a));
    assert_memory_equal(q.codes, rounded, 64);
    for (int i = 0; i < 40; i++) {
      const int at = i / 20 * 32 + i % 20;
      const float is = q.scales[at / 16] * (float)(q.codes[at] - q.zeros[at / 16]);
      assert_true(fabsf(is - p.w[i]) <= fabsf(q.scales[at / 16]) * (b ? 0.51f : 1.01f));
    }
  }
  ctx_free(c);
}

/* ---- the whole ------------------------------------------------------------------------------- */
static void graph_written(void **state) {
  fixture *f = *state;
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s)); /* no data */
  assert_int_equal(f->r.layer_count, 2);
  assert_int_equal(f->r.quantized, 1);
  has(f->r.layers[1].kept, "two tensors that are computed");
  assert_true(isnan(f->r.layers[0].sqnr) && isnan(f->r.layers[0].ms_after) && f->r.compared == 0);
  const char *text = written(f->s, OUT);
  has(text, "w_scale: f32[2, 2] = [1, -0.8999999761581421, 1, -0.5]");
  has(text,
      "\"com.microsoft\"::MatMulNBits(x, w_quantized, w_scale, _, _, b) {K = 20, N = 2, bits = 4, block_size = 16}");
  has(text, "w_quantized: u8[2, 2, 8] = [169, 203, 237, 15, 169, 203, 237, 255, 16, 66, 136, 136, ");
  f->o.samples = ROWS, f->o.sample = sample, f->o.sample_user = f, f->o.zero_points = 1, f->o.accuracy_level = 4;
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_true(f->r.layers[0].sqnr > 20 && f->r.compared == ROWS && f->r.observed == 0);
  text = written(f->s, OUT);
  has(text, "w_zero_point: u8[2, 1] = [7, 8]");
  has(text, "accuracy_level = 4");
}
static void by_data(void **state) {
  fixture *f = *state;
  double sqnr[2];
  f->o.samples = ROWS, f->o.sample = sample, f->o.sample_user = f, f->o.bits = 2;
  for (int i = 0; i < 2; i++) {
    f->o.method = i ? EK_QUANTIZE_GPTQ : EK_QUANTIZE_MSE;
    if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
    sqnr[i] = f->r.layers[0].sqnr;
  }
  assert_int_equal(f->r.observed, 8);
  assert_true(sqnr[1] > sqnr[0] + 3);
  f->data[2][2] = NAN;
  assert_int_equal(ek_quantize(f->m, &f->o, OUT, &f->r), EK_FAILED);
  has(ek_message(f->s), "tensor x has values that are infinite or no numbers");
}
static void bf16(void **state) {
  fixture *f = *state;
  f->o.scheme = EK_QUANTIZE_BF16;
  if (ek_quantize(f->m, &f->o, OUT, &f->r)) fail_msg("%s", ek_message(f->s));
  assert_int_equal(f->r.quantized, 2);
  const char *text = written(f->s, OUT);
  has(text, "const w_bf16: bf16[20, 2] = [1, -8, 2, ");
  has(text, "7.1875, 4, 6");
  has(text, "y: f32[N, 2] = Gemm(x_rounded, w_rounded, b) \"first\"");
  has(text, "z: f32[N, N] = MatMul(y_rounded, t_rounded) \"second\"");
}
static void refused(void **state) {
  fixture *f = *state;
  struct {
    ek_quantize_options o;
    const char *says;
  } cases[] = {
      {f->o, "there is no scheme"},       {f->o, "percentile and entropy are"}, {f->o, "belong to int8"},
      {f->o, "2, 3, 4 or 8 bits, not 5"}, {f->o, "or 256 weights, not 48"},     {f->o, "levels are 0 to 4, not 9"},
      {f->o, "at least one sample"},      {f->o, "needs the scheme int4"},      {f->o, "it is for int8 alone"}};
  cases[0].o.scheme = (ek_quantize_scheme)7, cases[1].o.method = EK_QUANTIZE_ENTROPY, cases[2].o.per_channel = 1;
  cases[8].o.smooth = 0.5, cases[3].o.bits = 5, cases[4].o.block_size = 48, cases[5].o.accuracy_level = 9;
  cases[6].o.method = cases[7].o.method = EK_QUANTIZE_GPTQ, cases[7].o.scheme = EK_QUANTIZE_INT8;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(ek_quantize(f->m, &cases[i].o, OUT, &f->r), EK_USAGE);
    has(ek_message(f->s), cases[i].says);
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(reference), T(nothing_seen), T(graph_written), T(by_data), T(bf16), T(refused),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
