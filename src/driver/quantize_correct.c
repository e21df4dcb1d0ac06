/* ek_quantize with bias correction: the quantised model, with an exact copy of each layer, runs once on each sample
 * that ranges were taken from, and tells the mean error of each channel (quantize/correct.c). */
#include "driver/quantize.h"
#include "onnx/onnx.h"

typedef struct errors { /* of a layer */
  double *sum;          /* of each channel: over the samples, of the mean errors */
  double *square;       /* and of their squares */
} errors;

static ek_code write_trial(quantiser *q) {
  volatile ek_code code = EK_OK;
  CTX_TRY(q->c) {
    uint64_t bytes;
    const quant_plan plan = quantize_plan(q, q->a);
    const quant_undo undo = quantize_insert(q->g, &plan);
    quantize_observe_errors(q->g, &plan, &undo);
    if (!graph_verify(q->g, "observing errors") || !onnx_write(q->g, q->trial, &bytes)) ctx_unwind(q->c);
    quantize_remove(q->g, &plan, &undo);
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}
static ek_code add_errors(quantiser *q, ek_run *run, errors *x) {
  for (uint32_t i = 0; i < q->layers.n; i++) {
    ek_array got;
    if (!quantize_correctable(&q->layers.v[i])) continue;
    const ek_code e = ek_run_get_output(run, quantize_error_name(q->a, i), &got);
    if (e) return session_fail(q->m->s, e, "%s", ek_run_message(run));
    for (int64_t c = 0; c < quantize_channels_of(&q->layers.v[i]); c++) {
      const double by = (double)((const float *)got.data)[c];
      x[i].sum[c] += by, x[i].square[c] += by * by;
    }
  }
  return EK_OK;
}
static ek_code run_trial(quantiser *q, errors *x) {
  side s = {.bf16 = false};
  ek_code e = ek_load(q->m->s, q->trial, &s.m);
  if (!e) e = quantize_open(q, &s, NULL);
  for (size_t i = 0; !e && i < q->end_observed; i++) {
    e = quantize_take(q, i);
    if (!e) e = quantize_run(q, s.run);
    if (!e) e = add_errors(q, s.run, x);
    if (!e) e = quantize_progress(q, "correcting", (double)(i + 1) / (double)q->end_observed);
  }
  quantize_close(&s);
  ek_model_close(s.m);
  return e;
}
/* ---- is it better? ---------------------------------------------------------------------------- */
/* The errors of the outputs over their signals, as the layers and q->shifts stand. */
static ek_code outputs_error(quantiser *q, const side *exact, double *all) {
  enum { ENOUGH = 32 /* samples */ };
  side b = {.bf16 = false};
  const uint32_t n = q->g->outputs.n;
  noise *x = NEWN(q->a, noise, n + 1);
  for (uint32_t i = 0; i < n; i++) x[i] = quantize_noise(q, q->g->outputs.v[i]->source, false);
  ek_code e = quantize_write(q, q->trial);
  if (!e) e = ek_load(q->m->s, q->trial, &b.m);
  if (!e) e = quantize_open(q, &b, NULL);
  if (!e) e = quantize_compare(q, exact, &b, 0, q->end_observed < ENOUGH ? q->end_observed : ENOUGH, x, n);
  quantize_close(&b);
  ek_model_close(b.m);
  *all = 0;
  for (uint32_t i = 0; i < n; i++)
    if (x[i].known && x[i].signal > 0) *all += x[i].error / x[i].signal;
  return e;
}
/* A few places with large errors may make up a mean that is none of the others', and later layers may not mind these:
 * the mean error is subtracted only if the outputs come nearer to those of the model as it was. */
static ek_code keep_better(quantiser *q) {
  const float **shifts = q->shifts;
  side exact = {.m = q->base};
  double with = 0, without = 0;
  ek_code e = quantize_open(q, &exact, NULL);
  if (!e) e = outputs_error(q, &exact, &with);
  q->shifts = NULL;
  if (!e) e = outputs_error(q, &exact, &without);
  quantize_close(&exact);
  if (EK_PLANTED("quantize-better") || with < without) q->shifts = shifts;
  return e;
}
bool quantize_corrects(const quantiser *q) { return q->want.correct_bias && q->want.scheme == EK_QUANTIZE_INT8; }
ek_code quantize_correct(quantiser *q) {
  if (!quantize_corrects(q)) return EK_OK;
  errors *x = NEWN(q->a, errors, q->layers.n + 1);
  const float **shifts = NEWN(q->a, const float *, q->layers.n + 1);
  for (uint32_t i = 0; i < q->layers.n; i++) {
    if (!quantize_correctable(&q->layers.v[i])) continue;
    const int64_t n = quantize_channels_of(&q->layers.v[i]);
    x[i] = (errors){NEWN(q->a, double, n + 1), NEWN(q->a, double, n + 1)};
  }
  ek_code e = write_trial(q);
  if (!e) e = run_trial(q, x);
  for (uint32_t i = 0; i < q->layers.n; i++)
    if (!e && x[i].sum)
      shifts[i] = quantize_shift(x[i].sum, x[i].square, quantize_channels_of(&q->layers.v[i]), q->end_observed, q->a);
  q->shifts = shifts;
  if (!e) e = keep_better(q);
  quantize_remove_trial(q);
  return e;
}
