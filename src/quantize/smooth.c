/* How are layers quantised whose input has a few channels of large magnitude? These leave the codes of all other
 * channels few steps. A product does not change if a channel of its input is divided by a factor that the weights of
 * this channel are multiplied with (SmoothQuant: Xiao et al. 2022). The factor is max|x|^alpha / max|w|^(1-alpha): with
 * alpha 1 all channels of the input get the same magnitude, with less a part of it moves into the weights.
 *
 * Which alpha is best is found by the expected square of the error of the layers' results, rounding errors being
 * independent: of a product's input those of its step, times the weights; of the weights those of their codes, times
 * the input. The division costs nothing where what computes the tensor ends in constants that can be divided (fold.c);
 * elsewhere a Mul is written, if the error becomes enough smaller. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

/* Alphas that are tried, in tenths. With larger ones all channels reach the ends of the range, and in each of them data
 * that were not seen go beyond. */
enum { FIRST_TENTH = 2, LAST_TENTH = 8 };
static const double fold_gain = 1.26;     /* 1 dB: channels are divided if the error is by so much */
static const double multiply_gain = 1.58; /* 2 dB: the same where a Mul is written */
static const double widest = 1e5;         /* a factor is at most this, and at least its reciprocal */

typedef struct weights { /* of one layer, as the sum reads them */
  const ndarray *d;      /* the constant */
  int64_t channels;      /* places of the sum's axis */
  int64_t inner;         /* elements behind it */
  int64_t scales;        /* scales that its codes will have */
  int64_t scale_inner;   /* elements behind their axis; 0: there is one scale */
} weights;

/* ---- weights --------------------------------------------------------------------------------- */
static int64_t behind(const ndarray *d, int32_t axis) {
  int64_t n = 1;
  for (uint32_t i = (uint32_t)axis + 1; i < d->rank; i++) n *= d->dims[i];
  return n;
}
static weights weights_of(const quant_layer *l, bool per_channel) {
  const quant_factor *f = &l->f[1];
  const ndarray *d = f->v->data;
  weights w = {.d = d, .channels = d->dims[f->channel], .inner = behind(d, f->channel), .scales = 1};
  if (per_channel && f->axis >= 0) w.scales = d->dims[f->axis], w.scale_inner = behind(d, f->axis);
  return w;
}
static int64_t count_of(const weights *w) { return (int64_t)(w->d->bytes / sizeof(float)); }
static float element(const weights *w, int64_t i) { /* constants of a file may lie anywhere */
  float x;
  memcpy(&x, (const uint8_t *)w->d->data + (size_t)i * sizeof x, sizeof x);
  return x;
}
static int64_t channel_at(const weights *w, int64_t i) { return i / w->inner % w->channels; }
static int64_t scale_at(const weights *w, int64_t i) { return w->scale_inner ? i / w->scale_inner % w->scales : 0; }

/* ---- the error ------------------------------------------------------------------------------- */
/* Expected squares of the errors of a result over those of its values; by[c]: the channel's factor. */
static double layer_error(const weights *w, const quant_channels *x, const float *by, double step, arena *a) {
  float *most = NEWN(a, float, w->scales + 1);
  double error = 0, signal = 0;
  const int64_t n = count_of(w);
  for (int64_t i = 0; i < n; i++) {
    float *m = &most[scale_at(w, i)];
    *m = fmaxf(*m, fabsf(element(w, i) * by[channel_at(w, i)]));
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t c = channel_at(w, i);
    const double value = (double)(element(w, i) * by[c]), scale = (double)most[scale_at(w, i)] / 127;
    const double square = x->square[c] / ((double)by[c] * (double)by[c]);
    const double rounding = scale > 0 ? nearbyint(value / scale) * scale - value : 0;
    error += fmin(step * step / 12, square) * value * value + square * rounding * rounding;
    signal += square * value * value;
  }
  return signal > 0 ? error / signal : 0;
}
static double error_of(const quant_smoothing *s, const quant_channels *x, const float *by) {
  double lo = 0, hi = 0, all = 0;
  for (int64_t c = 0; c < x->n; c++)
    lo = fmin(lo, (double)(x->lo[c] / by[c])), hi = fmax(hi, (double)(x->hi[c] / by[c]));
  arena *a = arena_new(s->g->c);
  for (uint32_t i = 0; i < s->nlayers; i++) {
    if (!quantize_reads_channels(&s->layers[i], x)) continue;
    const weights w = weights_of(&s->layers[i], s->per_channel);
    all += layer_error(&w, x, by, (hi - lo) / 255, a);
  }
  arena_free(a);
  return all;
}

/* ---- the factors ----------------------------------------------------------------------------- */
static float *greatest_weights(const quant_smoothing *s, const quant_channels *x) {
  float *most = NEWN(s->a, float, x->n + 1);
  for (uint32_t i = 0; i < s->nlayers; i++) {
    if (!quantize_reads_channels(&s->layers[i], x)) continue;
    const weights w = weights_of(&s->layers[i], s->per_channel);
    const int64_t n = count_of(&w);
    for (int64_t k = 0; k < n; k++) {
      float *m = &most[channel_at(&w, k)];
      *m = fmaxf(*m, fabsf(element(&w, k)));
    }
  }
  return most;
}
static float *factors(const quant_smoothing *s, const quant_channels *x, const float *w, double alpha) {
  float *by = NEWN(s->a, float, x->n + 1);
  for (int64_t c = 0; c < x->n; c++) {
    const double most = fmax(fabs((double)x->lo[c]), fabs((double)x->hi[c]));
    by[c] = 1;
    if (most > 0 && w[c] > 0)
      by[c] = (float)fmin(fmax(pow(most, alpha) / pow((double)w[c], 1 - alpha), 1 / widest), widest);
  }
  return by;
}
/* NULL: the error becomes not enough smaller. */
static float *best_factors(const quant_smoothing *s, const quant_channels *x, bool folds, double *alpha) {
  const float *w = greatest_weights(s, x);
  float *by = factors(s, x, w, s->alpha), *found = NULL;
  *alpha = s->alpha;
  if (s->alpha > 0) return by;
  for (int64_t c = 0; c < x->n; c++) by[c] = 1;
  double best = error_of(s, x, by) / (folds ? fold_gain : multiply_gain);
  for (int i = FIRST_TENTH; i <= LAST_TENTH; i++) {
    by = factors(s, x, w, i / 10.0);
    const double e = error_of(s, x, by);
    if (EK_PLANTED("quantize-smooth") ? e > best : e < best) best = e, found = by, *alpha = i / 10.0;
  }
  return found;
}

/* ---- the graph ------------------------------------------------------------------------------- */
/* A constant multiplied along an axis by `by`, or divided. */
static value *multiplied(const quant_smoothing *s, const value *v, int32_t axis, const float *by, bool divide) {
  const weights w = {.d = v->data, .channels = v->data->dims[axis], .inner = behind(v->data, axis)};
  const int64_t n = count_of(&w);
  float *x = NEWN(s->a, float, n + 1);
  for (int64_t i = 0; i < n; i++) {
    const float f = by[channel_at(&w, i)];
    x[i] = divide ? element(&w, i) / f : element(&w, i) * f;
  }
  ndarray d = *v->data;
  d.data = x, d.file = NULL, d.offset = 0;
  return graph_const(s->g, arena_fmt(s->a, "%s_smoothed", v->name), &d);
}
static void replace(node *n, const value *old, value *with) {
  for (uint32_t i = 0; i < n->in.n; i++)
    if (n->in.v[i] == old) n->in.v[i] = with;
}
static void multiply_weights(const quant_smoothing *s, const quant_channels *x, const float *by) {
  for (uint32_t i = 0; i < s->nlayers; i++) {
    quant_layer *l = &s->layers[i];
    if (!quantize_reads_channels(l, x)) continue;
    value *w = multiplied(s, l->f[1].v, l->f[1].channel, by, false);
    replace(l->n, l->f[1].v, w);
    l->f[1].v = w;
  }
}
static void divide_gains(const quant_smoothing *s, const quant_scalable *found, const float *by) {
  for (uint32_t i = 0; i < found->gains.n; i++) {
    const quant_gain *x = &found->gains.v[i];
    value *v = multiplied(s, x->v, x->axis, by, true);
    replace(x->n, x->v, v);
    for (uint32_t k = 0; k < s->nlayers; k++) {
      quant_layer *l = &s->layers[k];
      if (l->n == x->n && l->f[1].v == x->v) l->f[1].v = v;
      if (l->n == x->n && l->bias == x->v) l->bias = v;
    }
  }
}
static void insert_behind(graph *g, arena *a, node *n, const node *after) {
  uint32_t at = 0;
  for (uint32_t i = 0; after && i < g->nodes.n; i++)
    if (g->nodes.v[i] == after) at = i + 1;
  vec_push(a, g->nodes, NULL);
  memmove(&g->nodes.v[at + 1], &g->nodes.v[at], (g->nodes.n - 1 - at) * sizeof *g->nodes.v);
  g->nodes.v[at] = n;
}
static void insert_multiplication(const quant_smoothing *s, const quant_channels *x, const float *by) {
  ndarray d = {.type = ET_F32, .rank = x->v->rank - (uint32_t)x->axis, .bytes = (size_t)x->n * sizeof(float)};
  float *k = NEWN(s->a, float, x->n + 1);
  for (uint32_t i = 0; i < d.rank; i++) d.dims[i] = i ? 1 : x->n;
  for (int64_t c = 0; c < x->n; c++) k[c] = 1 / by[c];
  d.data = k;
  value *out = graph_value(s->g, arena_fmt(s->a, "%s_smoothed", x->v->name));
  out->type = ET_F32, out->ranked = true, out->rank = x->v->rank, out->dims = x->v->dims;
  node *n = graph_node(s->g, "Mul", "", arena_fmt(s->a, "%s_Mul", x->v->name));
  s->g->nodes.n--;
  vec_push(s->a, n->in, x->v);
  vec_push(s->a, n->in, graph_const(s->g, arena_fmt(s->a, "%s_factors", x->v->name), &d));
  vec_push(s->a, n->out, out);
  out->def = n;
  insert_behind(s->g, s->a, n, x->v->def);
  for (uint32_t i = 0; i < s->nlayers; i++) {
    quant_layer *l = &s->layers[i];
    if (!quantize_reads_channels(l, x)) continue;
    replace(l->n, x->v, out);
    l->f[0].v = out;
  }
}

/* ---- all of it ------------------------------------------------------------------------------- */
bool quantize_reads_channels(const quant_layer *l, const quant_channels *x) {
  return !l->kept && l->f[0].v == x->v && l->f[1].v->data && l->f[0].channel == x->axis;
}
/* Weights that have one scale for all may not be multiplied channel by channel of their results: it would grow. */
static map *fixed_constants(const quant_smoothing *s) {
  map *m = map_new(s->a);
  for (uint32_t i = 0; i < s->nlayers; i++)
    if (!s->per_channel && s->layers[i].f[1].v) map_putu(m, (uint64_t)(uintptr_t)s->layers[i].f[1].v, 1);
  return m;
}
quant_smoothed quantize_smooth(const quant_smoothing *s, const quant_channels *x) {
  uint32_t readers = 0;
  double alpha;
  for (uint32_t i = 0; i < s->nlayers; i++) readers += quantize_reads_channels(&s->layers[i], x);
  quant_scalable found = {.g = s->g, .a = s->a, .formulas = s->formulas, .fixed = fixed_constants(s)};
  const bool folds = quantize_scalable(&found, x->v, x->axis, readers);
  const float *by = best_factors(s, x, folds, &alpha);
  if (!by) return (quant_smoothed){0};
  multiply_weights(s, x, by);
  if (folds)
    divide_gains(s, &found, by);
  else
    insert_multiplication(s, x, by);
  return (quant_smoothed){alpha, !folds};
}
