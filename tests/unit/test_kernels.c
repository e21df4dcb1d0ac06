/* How many kernels models end in. The numbers may only go down: a pass that loses a fusion shows here first. */
#include "driver/lower.h"
#include "passes/passes.h"
#include "onnx/onnx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct limit {
  const char *model;
  uint32_t kernels;
} limit;
static const limit own[] = {
    {"residual_cnn", 7},    {"depthwise_separable", 13},  {"detector_head", 10},         {"lstm_forward", 4},
    {"gru_forward", 3},     {"transformer_encoder", 22},  {"transformer_where_mask", 5}, {"attention_causal", 10},
    {"attention_cross", 6}, {"vision_transformer", 13},   {"layernorm_gelu", 4},         {"handmade_norms", 4},
    {"norms_both_ways", 4}, {"channel_shuffle", 9},       {"pixel_shuffle", 2},          {"split_concat_tree", 12},
    {"squeeze_excite", 5},  {"group_norm_decomposed", 2}, {"conv_transpose", 17},        {"unet", 10},
    {"fully_conv", 5},
};
/* limits of models in the folders of EK_TEST_MODELS */
static const limit foreign[] = {
    {"fastestdet/fastestdet.onnx", 87},
    {"ultraface_rfb320/ultraface_rfb320_simplified.onnx", 50},
    {"ultraface_rfb320/ultraface_rfb320.onnx", 51},
    {"micro_kws/micro_kws_fp32.onnx", 11},
    {"magika_v3/magika_v3_3.onnx", 6},
    {"mixed_ops/mixed_ops_dynamic_batch.onnx", 9},
    {"dtln/dtln_1.onnx", 3},
    {"dtln/dtln_2.onnx", 6},
    {"dnsmos/sig_bak_ovr.onnx", 13},
    {"super_resolution/super_resolution.onnx", 4},
    {"silero_vad/silero_vad_16k_op15.onnx", 8},
    {"minilm/minilm_int8_dynamic.onnx", 109}, /* two of them check indices */
};
static bool until_kernels(void *env, emodule *m, const char *pass, bool changed, double ms) {
  (void)env, (void)m, (void)changed, (void)ms;
  return strcmp(pass, "kernels") != 0;
}
static uint32_t kernels_of(const char *path) { /* UINT32_MAX: it could not be lowered */
  ctx *c = ctx_new();
  volatile uint32_t n = UINT32_MAX;
  CTX_TRY(c) {
    oplib *lib = notation_lib(c);
    notation_add_builtin(lib);
    graph *g = onnx_load_file(c, path);
    emodule *m = g ? lower_graph(g, lib, NULL, 0) : NULL;
    if (m) {
      /* what fusion makes of the model as it stands: no transforms of windows */
      expr_optimise(m, 3, &(expr_observer){.strict = true, .after = until_kernels});
      n = m->kernels.n;
    }
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) printf("%s: %s\n", path, d->text);
  ctx_free(c);
  return n;
}
static uint32_t check(const char *path, const limit *l) {
  uint32_t n = kernels_of(path);
  if (n < l->kernels) printf("%s: %u kernels, fewer than the %u of the list: lower it\n", l->model, n, l->kernels);
  if (n > l->kernels) printf("%s: %u kernels, at most %u expected\n", l->model, n, l->kernels);
  return n > l->kernels;
}
static void test_own(void **state) {
  (void)state;
  uint32_t bad = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/models/%s.onnx", EK_SOURCE_DIR, own[i].model);
    bad += check(path, &own[i]);
  }
  assert_int_equal(bad, 0);
}
static void test_foreign(void **state) {
  (void)state;
  const char *dirs = getenv("EK_TEST_MODELS");
  uint32_t bad = 0;
  if (!dirs || !*dirs) skip();
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
    for (const char *d = dirs; *d;) {
      size_t n = strcspn(d, ":");
      char path[1024];
      snprintf(path, sizeof path, "%.*s/%s", (int)n, d, foreign[i].model);
      if (file_exists(path)) bad += check(path, &foreign[i]);
      d += n + (d[n] == ':');
    }
  assert_int_equal(bad, 0);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own), cmocka_unit_test(test_foreign)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
