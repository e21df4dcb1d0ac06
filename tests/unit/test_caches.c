/* Quantisation of states: where codes begin and end, their scales, and what cannot be kept in codes. */
#include "base/base.h"
#include "einkorn/einkorn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

#include "quantizekit.h"

#define OUT EK_BINARY_DIR "/test_caches.onnx"
/* a past of rows, new ones behind it, and what reads all of them; CACHE makes `all` of `past` and `x` */
#define STEP(cache)                                                                                                    \
  "graph \"step\" ir 8 opset 17 {\n input x: f32[S, 2]\n input m: f32[T]\n input past: f32[P, 2]\n" cache              \
  " turned = Transpose(all) {perm = [1, 0]}\n z = MatMul(x, turned)\n y = Add(z, m)\n output all\n output y\n}\n"
#define TURNED                                                                                                         \
  STEP(" p = Transpose(past) {perm = [1, 0]}\n n = Transpose(x) {perm = [1, 0]}\n c = Concat(p, n) {axis = 1}\n"       \
       " all = Transpose(c) {perm = [1, 0]}\n")
static const char grows[] = STEP(" new = Neg(x)\n all = Concat(past, new) {axis = 0}\n");
static const char *const states[] = {"all=past", NULL}, *const bound[] = {"P=0::8", NULL};
enum { ROWS = 3, SAMPLES = 6 };

static int sample(void *user, size_t i, ek_array *inputs, size_t n) {
  static float x[ROWS][2], m[ROWS];
  (void)user;
  for (int k = 0; k < ROWS; k++) x[k][0] = 0.093f * (float)(k + (int)i) - 0.3f, x[k][1] = 0.057f * (float)k;
  if (i == 1) x[2][0] = 2.54f, x[0][1] = -1.27f; /* the greatest values that ranges are taken from */
  for (size_t k = 0; k < n; k++) {
    const bool mask = inputs[k].name[0] == 'm';
    inputs[k].type = EK_FLOAT, inputs[k].rank = mask ? 1 : 2, inputs[k].dims[0] = ROWS, inputs[k].dims[1] = 2;
    inputs[k].data = mask ? (const void *)m : x, inputs[k].bytes = mask ? sizeof m : sizeof x;
  }
  return 0;
}
typedef struct subject {
  ek_session *s;
  ek_options compile;
  ek_quantize_options o;
  ek_quantized r;
} subject;
static subject begun(void) {
  subject x = {.s = ek_session_create()};
  ek_options_init(&x.compile), ek_quantize_options_init(&x.o);
  x.compile.states = states, x.compile.dims = bound;
  x.o.samples = SAMPLES, x.o.sample = sample, x.o.scheme = EK_QUANTIZE_CACHES;
  return x;
}
static ek_code quantised(subject *x, const char *text) {
  ek_model *m;
  x->o.options = &x->compile;
  if (ek_load_memory(x->s, text, strlen(text), "step", &m)) fail_msg("%s", ek_message(x->s));
  return ek_quantize(m, &x->o, OUT, &x->r);
}
static void codes_between(void **state) {
  (void)state;
  for (int channels = 0; channels < 2; channels++) {
    subject x = begun();
    x.o.per_channel = channels;
    if (quantised(&x, grows)) fail_msg("%s", ek_message(x.s));
    assert_int_equal(x.r.quantized, 1);
    assert_string_equal(x.r.layers[0].name, "past");
    assert_int_equal(x.r.output_count, 1);
    if (!(x.r.outputs[0].sqnr > 30 && x.r.outputs[0].sqnr < 100)) fail_msg("%g dB", x.r.outputs[0].sqnr);
    const char *text = written(x.s, OUT);
    has(text, "input past: i8[P, 2]");
    has(text, channels ? "[0.019999999552965164, 0.009999" : "[0.019999999552965164]");
    has(text, "= QuantizeLinear(new, past_scale, past_zero_point)");
    has(text, "= Concat(past, new_quantized)");
    has(text, "= DequantizeLinear(all, past_scale, past_zero_point)");
    has(text, "output all");
    ek_session_destroy(x.s);
  }
}
static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
    double least_sqnr; /* of the options */
    int per_channel;   /* too */
  } row[] = {
      {STEP(" half = Mul(past, past)\n all = Concat(half, x) {axis = 0}\n"), "by nodes that only move elements", 0, 0},
      {STEP(" new = Neg(x)\n all = Concat(new, new) {axis = 0}\n"), "by nodes that only move elements", 0, 0},
      {STEP(" all = Concat(past, x) {axis = 0}\n"), "caches are quantised all together", 30, 0},
      {TURNED, "leave the last axis as it is", 0, 1},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    subject x = begun();
    x.o.least_sqnr = row[i].least_sqnr, x.o.per_channel = row[i].per_channel;
    assert_int_equal(quantised(&x, row[i].text), EK_USAGE);
    has(ek_message(x.s), row[i].says);
    ek_session_destroy(x.s);
  }
  subject x = begun();
  x.compile.states = NULL;
  assert_int_equal(quantised(&x, grows), EK_USAGE);
  has(ek_message(x.s), "which outputs are caches?");
  ek_session_destroy(x.s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_between),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
