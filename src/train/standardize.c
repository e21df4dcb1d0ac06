/* Inputs that the model standardizes itself: in front of all that reads such an input, its mean is subtracted and the
 * difference divided by its deviation. Training, evaluation and the written model so take the same raw values. The
 * numbers are constants, not parameters. */
#include "train/train.h"
#include <math.h>
#include <string.h>

/* A constant of the input's type over the first axes of a sample, of which there are `n` places. */
static value *constant(graph *g, const value *in, const ndarray *sample, const double *x, int64_t n, const char *what) {
  arena *a = ctx_arena(g->c);
  ndarray d = {.type = in->type, .rank = sample->rank - 1, .bytes = (size_t)n * et_bytes(in->type)};
  uint8_t *data = arena_alloc(a, d.bytes);
  int64_t places = 1;
  for (int64_t i = 0; i < n; i++) et_store(in->type, data + (size_t)i * et_bytes(in->type), (scalar){.f = x[i]});
  for (uint32_t i = 0; i < d.rank; places *= sample->dims[++i]) d.dims[i] = places < n ? sample->dims[i + 1] : 1;
  d.data = data;
  value *v = graph_const(g, arena_fmt(a, "%s.%s", in->source, what), &d);
  v->literal = true;
  return v;
}
static void check_places(const graph *g, const train_standard *s, const ndarray *sample) {
  sbuf fit = sbuf_new(ctx_arena(g->c));
  int64_t places = 1;
  sb_put(&fit, "1");
  for (uint32_t i = 1; i < sample->rank && places != s->n; i++) {
    places *= sample->dims[i];
    sb_fmt(&fit, ", %lld", (long long)places);
  }
  if (places != s->n)
    ctx_fail(g->c, E_SHAPE, "standardize %s: %lld numbers; one for each place of a sample's first axes is expected: %s",
             s->input, (long long)s->n, fit.s);
  for (int64_t i = 0; i < s->n; i++)
    if (!isfinite(s->mean[i]) || !(s->deviation[i] > 0 && isfinite(s->deviation[i])))
      ctx_fail(g->c, E_USAGE, "standardize %s: number %lld: a finite mean, and a deviation above 0, are expected",
               s->input, (long long)i);
}
static value *input_of(const graph *g, const char *name) {
  strvec known = {0};
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    value *v = g->inputs.v[i];
    if (strcmp(v->source, name) != 0) {
      vec_push(ctx_arena(g->c), known, v->source);
      continue;
    }
    if (et_kind(v->type) != K_FLOAT) ctx_fail(g->c, E_USAGE, "standardize %s: the input has no floats", name);
    return v;
  }
  ctx_fail(g->c, E_USAGE, "standardize %s: the model has no input of that name%s", name,
           did_you_mean(ctx_arena(g->c), name, known.v, known.n));
}
static void standardize(graph *g, const train_standard *s, value *in, const ndarray *sample) {
  arena *a = ctx_arena(g->c);
  double *factor = NEWN(a, double, s->n + 1);
  check_places(g, s, sample);
  for (int64_t i = 0; i < s->n; i++) factor[i] = 1 / s->deviation[i];
  value *const mean = constant(g, in, sample, s->mean, s->n, "mean"), *const by = constant(g, in, sample, factor, s->n,
                                                                                           "factor");
  node *scale = graph_node_first(g, "Mul", "", arena_fmt(a, "%s.standardize", in->source)),
       *centre = graph_node_first(g, "Sub", "", arena_fmt(a, "%s.centre", in->source));
  value *const centred = graph_result(g, centre, arena_fmt(a, "%s.centred", in->source)),
               *const out = graph_result(g, scale, arena_fmt(a, "%s.standardized", in->source));
  map *instead = map_new(a);
  map_putu(instead, (uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out);
  graph_replace_uses(g, instead);
  vec_push(a, centre->in, in), vec_push(a, centre->in, mean);
  vec_push(a, scale->in, centred), vec_push(a, scale->in, by);
}
void train_standardize(graph *g, const train_plan *p) {
  for (uint32_t i = 0; i < p->nstandards; i++) {
    const ndarray *sample = NULL;
    value *const in = input_of(g, p->standards[i].input);
    for (uint32_t k = 0; k < p->nbatch; k++)
      if (!strcmp(p->batch[k].name, p->standards[i].input)) sample = &p->batch[k].data;
    if (!sample || !sample->rank)
      ctx_fail(g->c, E_USAGE, "standardize %s: the batch has no samples of that name", p->standards[i].input);
    standardize(g, &p->standards[i], in, sample);
  }
}
