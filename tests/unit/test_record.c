/* Schedules as data: is what the compiler decides a text that it follows to the same program, and does one changed line
 * change just that? What cannot be followed names its line and the reason. */
#include "driver/pipeline.h"
#include "schedule/record.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS EK_SOURCE_DIR "/tests/models/"
typedef struct compiled {
  ctx *c;              /* to be freed */
  const char *text;    /* the recorded schedules; NULL: it failed */
  const char *program; /* the program and its loops */
  const char *error;   /* FILE:LINE:COLUMN: message of the first error; NULL: there is none */
} compiled;
static compiled compile(const char *model, const char *target, const char *schedules) {
  compiled out = {.c = ctx_new()};
  const char *volatile text = NULL, *volatile program = NULL;
  CTX_TRY(out.c) {
    const char *path = arena_fmt(ctx_arena(out.c), MODELS "%s.onnx", model);
    pipeline *p = pipe_new(out.c, &(pipe_opts){.level = 3,
                                               .compile_threads = 1,
                                               .target = target,
                                               .record = true,
                                               .schedules = schedules,
                                               .schedules_name = "given"});
    sbuf b = sbuf_new(p->a), s = sbuf_new(p->a);
    if (pipe_load(p, &(source){.path = path, .name = path}) && pipe_lower(p, NULL) && pipe_optimise(p) &&
        pipe_program(p)) {
      program_print(p->p, &b);
      loop_print(p->s->l, &b, NULL);
      schedule_print(p->s, NULL, NULL, &s);
      text = s.s, program = b.s;
    }
  }
  CTX_CATCH {}
  out.text = text, out.program = program;
  for (const diag *d = diag_first(out.c); d && !out.error; d = d->next)
    if (d->level == D_ERROR)
      out.error =
          arena_fmt(ctx_arena(out.c), "%s:%u:%u: %s", d->pos.file ? d->pos.file : "", d->pos.line, d->pos.col, d->text);
  return out;
}
/* The text with the first `from` behind `after` replaced. */
static const char *with(ctx *c, const char *text, const char *after, const char *from, const char *to) {
  const char *at = text ? strstr(text, after) : NULL;
  at = at ? strstr(at, from) : NULL;
  if (!at) fail_msg("`%s` is not behind `%s` in\n%s", from, after, text ? text : "nothing");
  return arena_fmt(ctx_arena(c), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* What is printed reads back to the same text. */
static void check_text(const char *text) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    sbuf b = sbuf_new(ctx_arena(c));
    schedules_print(schedules_parse(c, "text", (bytes){(const uint8_t *)text, strlen(text)}), &b);
    assert_string_equal(b.s, text);
  }
  CTX_CATCH fail();
  ctx_free(c);
}
static void test_round_trip(void **state) {
  (void)state;
  static const char *const models[] = {"mlp_opset12",       "cnn_opset11",  "attention_causal", "lstm_forward",
                                       "dynamic_batch_cnn", "unet",         "detector_nms",     "loop_fixed",
                                       "scan_axes",         "quantize_pair"};
  static const char *const targets[] = {"x86-64", "x86-64-v3", "x86-64-v4", "c"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
      compiled plain = compile(models[i], targets[t], NULL), again;
      assert_non_null(plain.text);
      again = compile(models[i], targets[t], plain.text);
      if (again.error) fail_msg("%s, %s: %s", models[i], targets[t], again.error);
      assert_string_equal(plain.text, again.text);
      assert_string_equal(plain.program, again.program);
      check_text(plain.text);
      ctx_free(plain.c), ctx_free(again.c);
    }
}
/* One line is changed; what the record then has, and what it still has. */
static void test_changes(void **state) {
  (void)state;
  static const struct {
    const char *model, *after, *from, *to, *target; /* target: NULL: x86-64-v3 */
  } changes[] = {
      {"cnn_opset11", "rows o0", "prefetch panel weight_2", "prefetch none", NULL},
      {"unet", "rows ", "panels outside", "panels inside", NULL},
      {"dynamic_batch_cnn", "nest", "accumulators 2 6", "accumulators 1", NULL},
      {"conv_dynamic_weights", "nest", "bound k0 k1", "bound none", NULL},
      {"conv_dynamic_weights", "nest", "bound k0 k1", "bound k1", NULL},
      {"contrib_experts", "nest", "version \"l - m\"", "version none", NULL},
      {"contrib_experts", "nest", "unroll i1", "unroll none", NULL},
      {"contrib_attention", "nest Attention_5.present", "unroll two", "unroll none", "x86-64-v4"},
      {"depthwise_separable", "nest", "edge own", "edge masked", "x86-64-v4"},
      {"gru_wide", "nest r.2", "sweep forward", "sweep zigzag", NULL},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *target = changes[i].target ? changes[i].target : "x86-64-v3";
    compiled plain = compile(changes[i].model, target, NULL);
    const char *text = with(plain.c, plain.text, changes[i].after, changes[i].from, changes[i].to);
    compiled other = compile(changes[i].model, target, text);
    if (other.error) fail_msg("%s", other.error);
    assert_string_equal(other.text, text);
    ctx_free(plain.c), ctx_free(other.c);
  }
}
/* A primitive that takes one of two words says so in the table. */
static void test_words(void **state) {
  (void)state;
  ctx *c = ctx_new();
  const char *words[2] = {NULL, NULL};
  assert_true(record_either(ctx_arena(c), P_EDGE, words));
  assert_string_equal(words[0], "masked");
  assert_string_equal(words[1], "own");
  static const primitive others[] = {P_THREADS, P_TILE, P_UNROLL, P_INSTRUCTION, P_PREFETCH, P_PAD};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (record_either(ctx_arena(c), others[i], words)) fail_msg("%s", primitive_forms[others[i]].name);
  ctx_free(c);
}
/* How tensors are stored: what is stated is what comes out, and that is followed to the same program. */
static void test_storage(void **state) {
  (void)state;
  static const struct {
    const char *model, *tensor, *line;
  } changes[] = {
      {"float64_net", "Tanh_0.Y", "layout (i1 i1) i0"},
      {"float64_net", "Tanh_0.Y", "pad i0 16"},
      {"float64_net", "Reshape_0.Y", "halo none"},
      {"float64_net", "Reshape_0.Y", "halo r.2 1 0 r.3 0 1 fill 0"},
      {"float64_net", "Reshape_0.Y", "layout r r.3 axis1 r.2"},
      {"unet", "Concat_1.Y", "layout axis0 i2 i1 i3"},
      {"unet", "Relu_0.Y", "in none"},
      {"unet", "Relu_0.Y", "in Concat_1.Y at i1 8"},
      {"unet", "piece.1", "in none"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    char text[200], head[100];
    snprintf(head, sizeof head, "\ntensor %s {\n", changes[i].tensor);
    snprintf(text, sizeof text, "schedules 1\n%s  %s\n}\n", head, changes[i].line);
    compiled other = compile(changes[i].model, "x86-64-v3", text), plain = compile(changes[i].model, "x86-64-v3", NULL);
    if (other.error) fail_msg("%s: %s", text, other.error);
    const char *at = strstr(other.text, head), *end = at ? strchr(at, '}') : NULL, *line;
    line = at ? strstr(at, changes[i].line) : NULL;
    if (!line || line > end) fail_msg("%s is not in\n%s", text, other.text);
    const bool same = strstr(plain.text, changes[i].line) && !strcmp(plain.text, other.text);
    if (!same) assert_string_not_equal(plain.program, other.program);
    compiled again = compile(changes[i].model, "x86-64-v3", other.text);
    if (again.error) fail_msg("%s: %s", text, again.error);
    assert_string_equal(again.text, other.text);
    assert_string_equal(again.program, other.program);
    check_text(other.text);
    ctx_free(other.c), ctx_free(plain.c), ctx_free(again.c);
  }
}
/* A part that lies in another tensor has no layout of its own; that of the whole must suit its parts. */
static void test_parts(void **state) {
  (void)state;
  static const struct {
    const char *line, *error;
  } bad[] = {
      {"layout axis0 c i i.2", "given:3:3: tensor Relu_0.Y: layout: it does not apply to this tensor"},
      {"in Concat_0.Y", "given:3:3: tensor Relu_0.Y: in: Concat_0.Y: the tensor is a part of Concat_1.Y"},
      {"in Concat_1.Y at i1 4", "given:3:3: tensor Relu_0.Y: in: the formula puts it in Concat_1.Y at i1 8"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[200];
    snprintf(text, sizeof text, "schedules 1\ntensor Relu_0.Y {\n  %s\n}\n", bad[i].line);
    compiled x = compile("unet", "x86-64-v3", text);
    assert_non_null(x.error);
    if (strncmp(x.error, bad[i].error, strlen(bad[i].error)) != 0) fail_msg("%s\n  got: %s", bad[i].error, x.error);
    ctx_free(x.c);
  }
}
/* A kernel by its hash: of all kernels with this hash, or one of them. */
static void test_hashes(void **state) {
  (void)state;
  compiled plain = compile("attention_causal", "x86-64-v3", NULL);
  char text[64], all[200];
  const char *at = strstr(plain.text, "@");
  assert_non_null(at);
  snprintf(text, sizeof text, "%.17s", at);
  snprintf(all, sizeof all, "schedules 1\nkernel %s {\n  threads never\n}\n", text);
  compiled never = compile("attention_causal", "x86-64-v3", all);
  if (never.error) fail_msg("%s", never.error);
  const char *k = strstr(never.text, text);
  assert_non_null(k);
  assert_int_equal(strncmp(strchr(k, '\n'), "\n  threads never", 15), 0);
  ctx_free(plain.c), ctx_free(never.c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_changes),
                                     cmocka_unit_test(test_words),      cmocka_unit_test(test_storage),
                                     cmocka_unit_test(test_parts),      cmocka_unit_test(test_hashes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
