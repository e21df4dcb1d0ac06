/* ek_quantize with smoothing: the model runs on the samples once more, with outputs that tell the limits and the mean
 * square of each channel of what the layers read. Then magnitudes move into weights (quantize/smooth.c), and the model
 * is written: it computes what the first one does, and is what ranges are taken of, and what is quantised. */
#include "driver/quantize.h"
#include "onnx/onnx.h"
#include <math.h>
#include <unistd.h>

typedef struct smoothing {
  quantiser *q;                /* the quantiser */
  VEC(quant_channels) tensors; /* tensors whose channels can be scaled, in the order of the layers */
} smoothing;
typedef struct channels {
  quantiser *q;      /* the quantiser */
  quant_channels *x; /* what is observed */
  uint32_t n;        /* how many tensors */
} channels;

/* ---- tensors --------------------------------------------------------------------------------- */
static bool had(const smoothing *s, const value *v) {
  for (uint32_t i = 0; i < s->tensors.n; i++)
    if (s->tensors.v[i].v == v) return true;
  return false;
}
static void find(smoothing *s) {
  quantiser *q = s->q;
  for (uint32_t i = 0; i < q->layers.n; i++) {
    const quant_layer *l = &q->layers.v[i];
    if (l->kept || !l->f[1].v->data || l->f[0].channel < 0 || had(s, l->f[0].v)) continue;
    quant_channels x = {.v = l->f[0].v, .axis = l->f[0].channel, .n = l->f[1].v->data->dims[l->f[1].channel]};
    x.lo = NEWN(q->a, float, x.n + 1), x.hi = NEWN(q->a, float, x.n + 1), x.square = NEWN(q->a, double, x.n + 1);
    vec_push(q->a, s->tensors, x);
  }
}

/* ---- runs ------------------------------------------------------------------------------------ */
static void add_channels(graph *g, void *env) {
  const channels *s = env;
  quantize_observe_channels(g, s->x, s->n);
}
static ek_code take(void *env, ek_run *run) {
  const channels *s = env;
  quantiser *q = s->q;
  for (uint32_t i = 0; i < s->n; i++) {
    quant_channels *x = &s->x[i];
    ek_array got[3];
    static const quant_statistic what[] = {QUANT_LEAST, QUANT_GREATEST, QUANT_SQUARE};
    for (int k = 0; k < 3; k++) {
      const ek_code e = ek_run_get_output(run, quantize_observed(q->a, i, what[k]), &got[k]);
      if (e) return session_fail(q->m->s, e, "%s", ek_run_message(run));
    }
    for (int64_t c = 0; c < x->n; c++) {
      const double square = (double)((const float *)got[2].data)[c];
      if (!isfinite(square)) continue; /* that values are no numbers is found where ranges are taken */
      x->lo[c] = fminf(x->lo[c], ((const float *)got[0].data)[c]);
      x->hi[c] = fmaxf(x->hi[c], ((const float *)got[1].data)[c]);
      x->square[c] += square / (double)q->end_observed;
    }
  }
  return EK_OK;
}
ek_code quantize_calibrate_channels(quantiser *q, quant_channels *x, uint32_t n) {
  channels s = {q, x, n};
  const observation observing = {
      .add = add_channels, .take = take, .env = &s, .operators = quantize_operators, .phase = "observing channels"};
  ek_module *code = NULL;
  ek_run *run = NULL;
  const ek_code e = quantize_observe_samples(q, &observing, &code, &run);
  ek_module_close(code);
  return e;
}

/* ---- the model ------------------------------------------------------------------------------- */
static ek_code rewrite(smoothing *s) {
  quantiser *q = s->q;
  volatile ek_code code = EK_OK;
  CTX_TRY(q->c) {
    uint64_t bytes;
    quant_smoothing x = {.g = q->g,
                         .a = q->a,
                         .layers = q->layers.v,
                         .nlayers = q->layers.n,
                         .formulas = q->formulas,
                         .alpha = q->want.smooth,
                         .per_channel = q->want.per_channel != 0};
    quant_smoothed *got = NEWN(q->a, quant_smoothed, s->tensors.n + 1);
    for (uint32_t i = s->tensors.n; i-- > 0;) got[i] = quantize_smooth(&x, &s->tensors.v[i]);
    for (uint32_t i = 0; i < s->tensors.n; i++)
      if (got[i].alpha > 0)
        vec_push(q->a, q->moved, ((ek_smoothed){s->tensors.v[i].v->source, got[i].alpha, got[i].multiplied}));
    if (!graph_verify(q->g, "smoothing") || !onnx_write(q->g, q->smooth, &bytes)) ctx_unwind(q->c);
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}
ek_code quantize_smooth_channels(quantiser *q) {
  smoothing s = {.q = q};
  if (q->want.smooth < 0) return EK_OK;
  find(&s);
  if (!s.tensors.n) return EK_OK;
  ek_code e = quantize_calibrate_channels(q, s.tensors.v, s.tensors.n);
  if (!e) e = rewrite(&s);
  if (!e) e = ek_load(q->m->s, q->smooth, &q->base);
  return e ? e : quantize_find_tensors(q);
}
void quantize_close_smooth(quantiser *q) {
  if (q->base != q->m) ek_model_close(q->base);
  q->base = q->m;
  if (!q->c || !q->smooth) return; /* the model could not be read */
  unlink(q->smooth);
  unlink(arena_fmt(q->a, "%s.data", q->smooth));
}
