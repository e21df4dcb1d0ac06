/* Weights of a few bits: which options go together, which layers take them, and their codes. With GPTQ the model runs
 * once on each sample, with kernels that add up which inputs of a layer occur together (quantize/gram.c). */
#include "driver/quantize.h"
#include <string.h>

bool quantize_weights_only(const quantiser *q) { return q->want.scheme == EK_QUANTIZE_INT4; }
bool quantize_needs_data(const quantiser *q) {
  return q->want.scheme == EK_QUANTIZE_INT8 || quantize_caches_alone(q) || q->want.method == EK_QUANTIZE_GPTQ ||
         quantize_has_budget(q) || q->want.only_faster;
}
static quant_form form_of(const quantiser *q) {
  return (quant_form){.bits = q->want.bits,
                      .block = q->want.block_size,
                      .zero_points = q->want.zero_points != 0,
                      .least_error = q->want.method != EK_QUANTIZE_MINMAX,
                      .accuracy_level = q->want.accuracy_level};
}
ek_code quantize_check_blocks(quantiser *q) {
  const ek_quantize_options *w = &q->want;
  ek_session *s = q->m->s;
  if ((unsigned)w->scheme > EK_QUANTIZE_CACHES)
    return session_fail(s, EK_USAGE, "ek_quantize: there is no scheme %d", (int)w->scheme);
  if (w->scheme == EK_QUANTIZE_BF16 && (w->method != EK_QUANTIZE_MINMAX || w->per_channel || w->smooth >= 0))
    return session_fail(s, EK_USAGE, "ek_quantize: bf16 has no ranges: no method, scales or smoothing belong to it");
  if (!quantize_weights_only(q))
    return w->method != EK_QUANTIZE_GPTQ
               ? EK_OK
               : session_fail(s, EK_USAGE, "ek_quantize: GPTQ chooses codes of weights; it needs the scheme int4");
  if (w->method == EK_QUANTIZE_PERCENTILE || w->method == EK_QUANTIZE_ENTROPY)
    return session_fail(
        s, EK_USAGE,
        "ek_quantize: of weights alone scales follow by minmax, mse or gptq; percentile and entropy are "
        "about the values of computed tensors");
  if (w->per_channel)
    return session_fail(s, EK_USAGE,
                        "ek_quantize: with the scheme int4 each block of weights has a scale; scales for "
                        "each channel belong to int8");
  if (w->smooth >= 0)
    return session_fail(s, EK_USAGE, "ek_quantize: smoothing moves magnitudes into weights; it is for int8 alone");
  if (w->bits != 2 && w->bits != 3 && w->bits != 4 && w->bits != 8)
    return session_fail(s, EK_USAGE, "ek_quantize: weights have 2, 3, 4 or 8 bits, not %d", w->bits);
  if (w->block_size < 16 || w->block_size > 256 || (w->block_size & (w->block_size - 1)))
    return session_fail(s, EK_USAGE, "ek_quantize: a block has 16, 32, 64, 128 or 256 weights, not %d", w->block_size);
  if (w->accuracy_level < 0 || w->accuracy_level > 4)
    return session_fail(s, EK_USAGE, "ek_quantize: accuracy levels are 0 to 4, not %d", w->accuracy_level);
  return EK_OK;
}
void quantize_keep_other_forms(quantiser *q) {
  for (uint32_t i = 0; i < q->layers.n && quantize_weights_only(q); i++) {
    quant_layer *x = &q->layers.v[i];
    if (!x->kept && !x->f[1].v->data) x->kept = "it multiplies two tensors that are computed";
    if (!x->kept && x->summed < 0) x->kept = "it is no product with rows of a constant matrix";
  }
}

/* ---- codes ----------------------------------------------------------------------------------- */
static void add_grams(graph *g, void *env) {
  const quantiser *q = env;
  quant_gram *what = NEWN(ctx_arena(g->c), quant_gram, q->seen.n + 1);
  for (uint32_t i = 0; i < q->seen.n; i++) {
    what[i].name = q->seen.v[i].v->source;
    for (uint32_t k = 0; k < q->layers.n; k++) {
      const quant_layer *x = &q->layers.v[k];
      if (!x->kept && x->f[0].v == q->seen.v[i].v) what[i].k = x->f[1].v->data->dims[x->summed];
    }
  }
  quantize_observe_gram(g, what, q->seen.n);
}
static ek_code gram_of(quantiser *q, ek_run *run, const quant_layer *x, ek_array *gram) {
  uint32_t i = 0;
  while (q->seen.v[i].v != x->f[0].v) i++;
  const ek_code e = ek_run_snapshot(run, quantize_gram_state(q->a, i), gram);
  return e ? session_fail(q->m->s, e, "%s", ek_run_message(run)) : EK_OK;
}
/* run: NULL, or what has the sums of products. */
static ek_code make_codes(quantiser *q, ek_run *run, quant_codes *codes, uint32_t layer) {
  const quant_layer *x = &q->layers.v[layer];
  const quant_form form = form_of(q);
  arena *a = arena_new(q->c);
  int64_t n, k;
  ek_code e = EK_OK;
  ek_array gram;
  const float *w = quantize_matrix(x, &n, &k, a);
  codes[layer] = quantize_blocks(&form, w, n, k, q->a);
  if (run) e = gram_of(q, run, x, &gram);
  if (run && !e && !quantize_gptq(&codes[layer], w, gram.data, a))
    e = session_fail(
        q->m->s, EK_FAILED,
        "tensor %s has values that are infinite or no numbers; GPTQ needs finite values: look at the data, "
        "or exclude the layers that read it",
        x->f[0].v->source);
  arena_free(a);
  if (!e && run) e = quantize_progress(q, "choosing codes", (double)(layer + 1) / q->layers.n);
  return e;
}
static ek_code all_codes(quantiser *q, ek_run *run) {
  volatile ek_code e = EK_OK;
  CTX_TRY(q->c) {
    quant_codes *codes = NEWN(q->a, quant_codes, q->layers.n + 1);
    for (uint32_t i = 0; !e && i < q->layers.n; i++)
      if (!q->layers.v[i].kept) e = make_codes(q, run, codes, i);
    q->codes = codes;
  }
  CTX_CATCH { e = session_done(q->m->s, q->c, EK_FAILED); }
  return e;
}
ek_code quantize_choose_codes(quantiser *q) {
  const observation adding = {.add = add_grams, .env = q, .operators = quantize_gram_operators, .phase = "calibrating"};
  ek_module *code = NULL;
  ek_run *run = NULL;
  if (q->want.method != EK_QUANTIZE_GPTQ) return all_codes(q, NULL);
  ek_code e = quantize_observe_samples(q, &adding, &code, &run);
  if (!e) e = all_codes(q, run);
  ek_module_close(code);
  return e;
}
