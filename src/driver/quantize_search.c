/* Which layers stay f32, so that the outputs keep a budget? How much each layer costs is measured: the outputs' error
 * where it alone is quantised. Layers that cost most for a multiplication come first; as few of them as needed are
 * kept, which bisection finds: at each step the model with the first k kept is written, run on the samples that ranges
 * were not taken from, and held against the budget. It has to hold on other data, too: what counts is not the error of
 * these samples, but a bound of that of others, by how much samples vary (quantize/bound.c). */
#include "driver/quantize.h"
#include "onnx/onnx.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char over_budget[] = "the accuracy budget";
enum { LEAST_SAMPLES = 8 /* that a layer alone is measured on, if there are so many */ };
typedef struct searching {
  quantiser *q;     /* the quantiser */
  side f32;         /* the model as it was */
  noise *x;         /* of each output */
  uint32_t n;       /* number of outputs */
  uint32_t *order;  /* layers that may be quantised, the most expensive first */
  uint32_t layers;  /* how many */
  bool enough;      /* the last trial is within the budget */
  double sqnr;      /* the least SQNR of an output in the last trial */
  uint32_t trials;  /* how many there were */
  uint32_t planned; /* about how many there will be */
} searching;

/* ---- one model ------------------------------------------------------------------------------- */
quant_plan quantize_plan(const quantiser *q, arena *a) {
  return (quant_plan){.a = a,
                      .layers = q->layers.v,
                      .nlayers = q->layers.n,
                      .tensors = q->ranges,
                      .ntensors = q->seen.n,
                      .codes = q->codes,
                      .shifts = q->shifts,
                      .bf16 = q->want.scheme == EK_QUANTIZE_BF16,
                      .per_channel = q->want.per_channel != 0,
                      .least_error = q->want.method == EK_QUANTIZE_MSE};
}
ek_code quantize_write(quantiser *q, const char *path) {
  volatile ek_code code = EK_OK;
  CTX_TRY(q->c) {
    const quant_plan plan = quantize_plan(q, path == q->path ? q->a : arena_new(q->c));
    quant_undo undo = {0};
    if (q->caches.n)
      quantize_insert_caches(q->g, q->formulas, q->caches.v, q->caches.n);
    else
      undo = quantize_insert(q->g, &plan);
    if (!graph_verify(q->g, "quantising") || !onnx_write(q->g, path, &q->bytes)) ctx_unwind(q->c);
    if (!q->caches.n) quantize_remove(q->g, &plan, &undo); /* caches are written once */
    if (plan.a != q->a) arena_free(plan.a);
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}
void quantize_remove_trial(const quantiser *q) {
  unlink(q->trial);
  unlink(arena_fmt(q->a, "%s.data", q->trial));
}
static void judge(searching *s) {
  const ek_quantize_options *w = &s->q->want;
  double rows = 0, changed = 0, bound = INFINITY;
  arena *a = arena_new(s->q->c);
  s->sqnr = INFINITY;
  for (uint32_t i = 0; i < s->n; i++) {
    const noise *x = &s->x[i];
    if (!x->known) continue;
    s->sqnr = fmin(s->sqnr, quantize_decibels(x));
    bound = fmin(bound, quantize_least_decibels(x, a));
    rows += x->rows, changed += quantize_at_most(x->changes, x->samples) * (double)x->samples;
  }
  arena_free(a);
  s->enough = bound >= w->least_sqnr && (w->most_changed < 0 || changed * 100 <= w->most_changed * rows);
}
/* Writes, compiles and runs the model as the layers stand. */
static ek_code trial(searching *s, size_t samples) {
  quantiser *q = s->q;
  side b = {.bf16 = q->want.scheme == EK_QUANTIZE_BF16};
  for (uint32_t i = 0; i < s->n; i++) {
    noise *x = &s->x[i];
    *x = (noise){.name = x->name, .signals = x->signals, .errors = x->errors, .changes = x->changes};
  }
  ek_code e = quantize_progress(q, "measuring layers", fmin(0.99, (double)s->trials++ / s->planned));
  if (!e) e = quantize_write(q, q->trial);
  if (!e) e = ek_load(q->m->s, q->trial, &b.m);
  if (!e) e = quantize_open(q, &b, NULL);
  if (!e) e = quantize_compare(q, &s->f32, &b, q->first_compared, samples, s->x, s->n);
  quantize_close(&b);
  ek_model_close(b.m);
  if (!e) judge(s);
  return e;
}

/* ---- which layers ---------------------------------------------------------------------------- */
static void keep_first(searching *s, uint32_t k) {
  for (uint32_t i = 0; i < s->layers; i++) s->q->layers.v[s->order[i]].kept = i < k ? over_budget : NULL;
}
/* Only the layer itself is quantised. */
static ek_code measure_alone(searching *s, size_t samples) {
  quantiser *q = s->q;
  ek_code e = EK_OK;
  for (uint32_t i = 0; !e && i < s->layers; i++) {
    keep_first(s, s->layers);
    q->layers.v[s->order[i]].kept = NULL;
    e = trial(s, samples);
    if (!e) q->alone[s->order[i]] = s->sqnr;
  }
  return e;
}
/* What quantising the layer costs, for each of its multiplications. */
static double cost(const quantiser *q, uint32_t layer) {
  return pow(10, -q->alone[layer] / 10) / q->layers.v[layer].macs;
}
static double alone(const quantiser *q, uint32_t layer) { return q->alone[layer]; }
/* The largest first; by insertion: layers are few. */
static void sort(const quantiser *q, uint32_t *layers, uint32_t n, double (*by)(const quantiser *q, uint32_t layer)) {
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = i; k && by(q, layers[k - 1]) < by(q, layers[k]); k--) {
      const uint32_t x = layers[k];
      layers[k] = layers[k - 1], layers[k - 1] = x;
    }
}
static ek_code bisect(searching *s, size_t samples) {
  uint32_t few = 0, enough = s->layers; /* keeping `few` is not enough, keeping `enough` is */
  ek_code e = EK_OK;
  while (!e && enough - few > 1) {
    const uint32_t k = few + (enough - few) / 2;
    keep_first(s, k);
    e = trial(s, samples);
    *(s->enough ? &enough : &few) = k;
  }
  keep_first(s, enough);
  return e;
}
/* Which of those that are kept need not be? The order above is by the cost of a multiplication, and the last layer that
 * was kept may be a dear one: what it left of the budget may be enough for layers that cost less altogether. */
static ek_code fill(searching *s, size_t samples) {
  quantiser *q = s->q;
  uint32_t *kept = NEWN(q->a, uint32_t, s->layers + 1), n = 0, enough = 0;
  for (uint32_t i = 0; i < s->layers; i++)
    if (q->layers.v[s->order[i]].kept) kept[n++] = s->order[i];
  sort(q, kept, n, EK_PLANTED("quantize-order") ? cost : alone);
  ek_code e = EK_OK;
  for (uint32_t over = n; !e && over - enough > 1;) { /* quantising all of them, and `over`, is over the budget */
    const uint32_t k = enough + (over - enough) / 2;
    for (uint32_t i = 0; i < n; i++) q->layers.v[kept[i]].kept = i < k ? NULL : over_budget;
    e = trial(s, samples);
    *(s->enough ? &enough : &over) = k;
  }
  for (uint32_t i = 0; i < n; i++) q->layers.v[kept[i]].kept = i < enough ? NULL : over_budget;
  return e;
}
static ek_code search(searching *s) {
  quantiser *q = s->q;
  const size_t all = q->want.samples - q->first_compared;
  s->planned = s->layers + 14;
  s->f32.m = q->base;
  ek_code e = quantize_open(q, &s->f32, NULL);
  if (!e) e = trial(s, all);
  if (e || s->enough) return e;
  if (!e) e = measure_alone(s, all < LEAST_SAMPLES ? all : LEAST_SAMPLES);
  if (!e) sort(q, s->order, s->layers, cost);
  if (!e) e = bisect(s, all);
  if (!e) e = fill(s, all);
  bool some = false;
  for (uint32_t i = 0; i < s->layers; i++) some |= !q->layers.v[s->order[i]].kept;
  if (!e && !some)
    return session_fail(
        q->m->s, EK_FAILED,
        "the accuracy budget cannot be kept: with any layer quantised the outputs are beyond it; give a "
        "larger budget, more data, scales for each channel, or another method");
  return e;
}
bool quantize_has_budget(const quantiser *q) { return q->want.least_sqnr > 0 || q->want.most_changed >= 0; }
ek_code quantize_search(quantiser *q) {
  searching s = {.q = q, .n = q->g->outputs.n};
  if (!quantize_has_budget(q)) return EK_OK;
  s.x = NEWN(q->a, noise, s.n + 1);
  s.order = NEWN(q->a, uint32_t, q->layers.n + 1);
  for (uint32_t i = 0; i < s.n; i++) s.x[i] = quantize_noise(q, q->g->outputs.v[i]->source, true);
  for (uint32_t i = 0; i < q->layers.n; i++)
    if (!q->layers.v[i].kept) s.order[s.layers++] = i;
  const ek_code e = search(&s);
  quantize_close(&s.f32);
  quantize_remove_trial(q);
  return e;
}
