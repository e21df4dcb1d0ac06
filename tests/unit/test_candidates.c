/* Candidates: schedules around the one that a kernel has, other ways to store a tensor. Are they the same each time, no
 * two alike and none the one that is there; does the text of each read back; is each followed, so that the schedule
 * of what is compiled has what it states, or refused with a reason; and are most legal? */
#include "driver/pipeline.h"
#include "pass_check.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS EK_SOURCE_DIR "/tests/models/"
static const char *const models[] = {"mlp_opset12",   "cnn_opset11",       "attention_causal",
                                     "computed_rows", "dynamic_batch_cnn", "depthwise_separable",
                                     "lstm_forward",  "larger_than_blocks"};
static const char *const targets[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
enum { MODELS_N = sizeof models / sizeof *models, TARGETS_N = sizeof targets / sizeof *targets };

static pipeline *scheduled(ctx *c, const char *model, const char *target, const char *schedules) {
  const char *path = arena_fmt(ctx_arena(c), MODELS "%s.onnx", model);
  pipeline *p = pipe_new(c, &(pipe_opts){.level = 3,
                                         .compile_threads = 1,
                                         .target = target,
                                         .record = true,
                                         .schedules = schedules,
                                         .schedules_name = "candidate"});
  return pipe_load(p, &(source){.path = path, .name = path}) && pipe_lower(p, NULL) && pipe_optimise(p) &&
                 pipe_program(p)
             ? p
             : NULL;
}
static storages tensors_of(const pipeline *p) {
  storages all = {0};
  for (uint32_t i = 0; i < p->s->launches.n; i++) schedule_storages(p->s, &p->s->launches.v[i], &all);
  return all;
}
static const char *all_texts(pipeline *p) {
  sbuf b = sbuf_new(p->a);
  const storages tensors = tensors_of(p);
  for (uint32_t i = 0; i < tensors.n; i++) candidates_print_tensor(p->a, tensors.v[i], &b);
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const launch *l = &p->s->launches.v[i];
    if (!l->record) continue;
    const candidates all = candidates_of(p->a, l->record, l->facts, p->t);
    candidates_print(p->a, &all, &b);
  }
  return b.s;
}
/* The same texts each time; each reads back to itself, and no two of a kernel are alike. */
static void check_kernel(ctx *c, const char *model, const launch *l, const target *t) {
  arena *a = ctx_arena(c);
  map *had = map_new(a);
  sbuf own = sbuf_new(a);
  record_print(l->record, &own);
  map_puts(had, own.s, 1);
  const candidates all = candidates_of(a, l->record, l->facts, t);
  for (uint32_t n = 0; n < all.all.n; n++) {
    const kernel_record r = candidates_nth(a, &all, n);
    sbuf text = sbuf_new(a), back = sbuf_new(a), whole = sbuf_new(a);
    uint64_t seen;
    record_print(&r, &text);
    schedules_print_head(&whole), sb_put(&whole, text.s);
    schedules_print(schedules_parse(c, "candidate", (bytes){(const uint8_t *)whole.s, whole.n}), &back);
    assert_string_equal(back.s, whole.s);
    if (map_gets(had, text.s, &seen)) fail_msg("%s: twice, or unchanged:\n%s", model, text.s);
    map_puts(had, text.s, 1);
  }
}
/* The same of how a tensor is stored. */
static void check_tensor(ctx *c, const char *model, const tensor_record *r) {
  arena *a = ctx_arena(c);
  map *had = map_new(a);
  sbuf own = sbuf_new(a);
  changes all = {0};
  record_print_tensor(r, &own);
  map_puts(had, own.s, 1);
  tensor_changes(a, r, &all);
  for (uint32_t n = 0; n < all.n; n++) {
    const tensor_record x = tensor_changed(a, r, &all.v[n]);
    sbuf text = sbuf_new(a), back = sbuf_new(a), whole = sbuf_new(a);
    uint64_t seen;
    record_print_tensor(&x, &text);
    schedules_print_head(&whole), sb_put(&whole, text.s);
    schedules_print(schedules_parse(c, "candidate", (bytes){(const uint8_t *)whole.s, whole.n}), &back);
    assert_string_equal(back.s, whole.s);
    if (map_gets(had, text.s, &seen)) fail_msg("%s: twice, or unchanged:\n%s", model, text.s);
    map_puts(had, text.s, 1);
  }
}
static void check_model(const char *model) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    pipeline *p = scheduled(c, model, "x86-64-v3", NULL), *again = scheduled(c, model, "x86-64-v3", NULL);
    assert_string_equal(all_texts(p), all_texts(again));
    for (uint32_t k = 0; k < p->s->launches.n; k++)
      if (p->s->launches.v[k].record) check_kernel(c, model, &p->s->launches.v[k], p->t);
    const storages tensors = tensors_of(p);
    for (uint32_t i = 0; i < tensors.n; i++) check_tensor(c, model, tensors.v[i]);
  }
  CTX_CATCH fail();
  ctx_free(c);
}
static void test_texts(void **state) {
  (void)state;
  for (int i = 0; i < MODELS_N; i++) check_model(models[i]);
}
static const kernel_record *same_kernel(const pipeline *p, const kernel_record *k) {
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const kernel_record *r = p->s->launches.v[i].record;
    if (r && r->hash == k->hash && r->nth == k->nth) return r;
  }
  return NULL;
}
static bool same_words(const directive *x, const directive *y) {
  bool same = x->is == y->is && x->words.n == y->words.n;
  for (uint32_t i = 0; same && i < x->words.n; i++) same = !strcmp(x->words.v[i], y->words.v[i]);
  return same;
}
/* What is stated and not recorded; NULL: all is. */
static const char *lost(const directives *stated, const directives *made) {
  for (uint32_t i = 0; i < stated->n; i++) {
    bool there = false;
    for (uint32_t k = 0; k < made->n && !there; k++) there = same_words(&stated->v[i], &made->v[k]);
    if (!there) return primitive_forms[stated->v[i].is].name;
  }
  return NULL;
}
/* What is stated of a kernel, or of how a tensor is stored, and not recorded; NULL: all is. */
static const char *lost_of(const pipeline *p, const kernel_record *k, const tensor_record *x) {
  const storages tensors = tensors_of(p);
  for (uint32_t i = 0; i < tensors.n && x; i++)
    if (!strcmp(tensors.v[i]->name, x->name)) return lost(&x->directives, &tensors.v[i]->directives);
  if (x) return "tensor";
  const kernel_record *made = same_kernel(p, k);
  if (!made) return "kernel";
  const char *what = lost(&k->directives, &made->directives);
  for (uint32_t i = 0; i < k->nests.n && !what; i++)
    what = lost(&k->nests.v[i].directives, &record_nest_named(made, k->nests.v[i].name)->directives);
  return what;
}
/* Is it followed? Else it is refused. One of k and x is NULL. */
static bool is_followed(const char *model, const char *target, const kernel_record *k, const tensor_record *x) {
  ctx *c = ctx_new();
  volatile bool followed = false;
  sbuf text = sbuf_new(ctx_arena(c));
  schedules_print_head(&text);
  if (k) record_print(k, &text);
  if (x) record_print_tensor(x, &text);
  CTX_TRY(c) {
    pipeline *p = scheduled(c, model, target, text.s);
    const char *what = p ? lost_of(p, k, x) : "everything";
    if (what) {
      sbuf b = sbuf_new(ctx_arena(c));
      if (p) schedule_print(p->s, NULL, NULL, &b);
      fail_msg("%s, %s: %s is not what is stated:\n%s\n%s", model, target, what, text.s, b.s ? b.s : "");
    }
    followed = true;
  }
  CTX_CATCH {
    const diag *d = diag_first(c);
    if (!d || d->code != E_USAGE || !d->pos.file || strncmp(d->text, k ? "kernel " : "tensor ", 7) != 0)
      fail_msg("%s, %s: %s\n%s", model, target, d ? d->text : "failed", text.s);
  }
  ctx_free(c);
  return followed;
}
static struct {
  uint32_t tried, followed;
} counts[P_COUNT];
/* Of every kernel and primitive one candidate out of so many; 0: out of 23. */
static const uint32_t one_of[P_COUNT] = {
    [P_BLOCK] = 2, [P_BUFFER] = 2, [P_SPLIT] = 2, [P_ACCUMULATORS] = 7, [P_BOUND] = 3, [P_PREFETCH] = 7};
static void try_kernels(const pipeline *p, const char *model, const char *target) {
  for (uint32_t k = 0; k < p->s->launches.n; k++) {
    const launch *l = &p->s->launches.v[k];
    uint32_t of[P_COUNT] = {0};
    if (!l->record) continue;
    const candidates all = candidates_of(p->a, l->record, l->facts, p->t);
    for (uint32_t n = 0; n < all.all.n; n++) {
      const candidate *x = &all.all.v[n];
      const primitive is = x->second ? x->second->is : x->first->is;
      const uint32_t step = one_of[is] ? one_of[is] : 23;
      if ((of[is]++ + k) % step) continue;
      const kernel_record r = candidates_nth(p->a, &all, n);
      counts[is].tried++, counts[is].followed += is_followed(model, target, &r, NULL);
    }
  }
}
/* Of the ways to store tensors one out of 13. */
static void try_tensors(const pipeline *p, const char *model, const char *target) {
  const storages tensors = tensors_of(p);
  uint32_t nth = 0;
  for (uint32_t i = 0; i < tensors.n; i++) {
    changes all = {0};
    tensor_changes(p->a, tensors.v[i], &all);
    for (uint32_t n = 0; n < all.n; n++) {
      const primitive is = all.v[n].is;
      const tensor_record x = tensor_changed(p->a, tensors.v[i], &all.v[n]);
      if (nth++ % 13 == 0) counts[is].tried++, counts[is].followed += is_followed(model, target, NULL, &x);
    }
  }
}
static void try_model(const char *model, const char *target) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    const pipeline *p = scheduled(c, model, target, NULL);
    try_kernels(p, model, target), try_tensors(p, model, target);
  }
  CTX_CATCH fail_msg("%s, %s: %s", model, target, diag_first(c) ? diag_first(c)->text : "failed");
  ctx_free(c);
}
static void test_followed(void **state) {
  (void)state;
  for (int i = 0; i < MODELS_N * TARGETS_N; i++) try_model(models[i / TARGETS_N], targets[i % TARGETS_N]);
  for (uint32_t i = 0; i < P_COUNT; i++) {
    printf("%-9s %5u tried, %5u followed\n", primitive_forms[i].name, counts[i].tried, counts[i].followed);
    if (counts[i].followed * 10 < counts[i].tried * 6)
      fail_msg("%s: less than 60 %% are legal", primitive_forms[i].name);
  }
}

static emodule *optimised(ctx *c, const char *formulas) {
  emodule *m = expr_parse(c, formulas, "formulas");
  if (!m) ctx_unwind(c);
  expr_optimise(m, 3, &(expr_observer){.skip = "widen"});
  return m;
}
/* A sum over an axis of no places, in vectors along it: each candidate is followed, or refused with a reason. */
static void test_no_places(void **state) {
  (void)state;
  static const char formulas[] = "tensor x: f32[3, 10] input \"x\"\ntensor w: f32[10, 0] input \"w\"\n"
                                 "stage y: f32[a<3, k<0] out = sum[n<10] x[a, n] * w[n, k]\noutput y \"y\"\n";
  ctx *c = ctx_new();
  volatile uint32_t tried = 0;
  CTX_TRY(c) {
    const target *t = target_get(c, "x86-64-v3");
    const splan *p = schedule_module(optimised(c, formulas), t, (schedule_opts){.level = 3, .record = true});
    assert_int_equal(p->launches.n, 1);
    const launch *l = &p->launches.v[0];
    const candidates all = candidates_of(ctx_arena(c), l->record, l->facts, t);
    for (; tried < all.all.n; tried++) {
      const kernel_record r = candidates_nth(ctx_arena(c), &all, tried);
      sbuf text = sbuf_new(ctx_arena(c));
      schedules_print_head(&text), record_print(&r, &text);
      schedules *given = schedules_parse(c, "candidate", (bytes){(const uint8_t *)text.s, text.n});
      schedule_module(optimised(c, formulas), t, (schedule_opts){.level = 3, .stated = given});
    }
  }
  CTX_CATCH fail_msg("candidate %u: %s", tried, diag_first(c) ? diag_first(c)->text : "failed");
  assert_true(tried > 3);
  ctx_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_followed),
                                     cmocka_unit_test(test_no_places)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
