/* The scheme that keeps states in eight bits: the caches of keys and values of a decoder, whose products stay as they
 * are. Their values are observed where they become states, while the model runs with these inside: each sample begins
 * with their first values. Codes have no zero point, and one scale, or one for each channel (the last axis). */
#include "driver/quantize.h"
#include <math.h>
#include <string.h>

bool quantize_caches_alone(const quantiser *q) { return q->want.scheme == EK_QUANTIZE_CACHES; }
ek_code quantize_check_caches(quantiser *q) {
  const ek_quantize_options *w = &q->want;
  ek_session *s = q->m->s;
  if (!quantize_caches_alone(q)) return EK_OK;
  if (!q->o.states || !q->o.states[0])
    return session_fail(s, EK_USAGE,
                        "ek_quantize: which outputs are caches? Tie them to inputs (ek_options.states; "
                        "--state 'present.*=past_key_values.*')");
  if (quantize_has_budget(q) || w->only_faster || w->smooth >= 0 || (w->exclude && w->exclude[0]))
    return session_fail(s, EK_USAGE,
                        "ek_quantize: budgets, smoothing and what is left out are about layers; caches "
                        "are quantised all together");
  if (w->per_channel && w->method != EK_QUANTIZE_MINMAX)
    return session_fail(s, EK_USAGE, "ek_quantize: scales for each channel of a cache follow by minmax");
  return EK_OK;
}
void quantize_find_caches(quantiser *q) {
  graph *g = q->g;
  const graph as_in_file = *g; /* there, states are inputs and outputs like others, in their places */
  value **in = arena_dup(q->a, g->inputs.v, g->inputs.n * sizeof *in);
  value **out = arena_dup(q->a, g->outputs.v, g->outputs.n * sizeof *out);
  tie_states(g, q->o.states);
  for (uint32_t i = 0; i < g->states.n; i++) {
    const graph_state *x = &g->states.v[i];
    if (x->first)
      ctx_fail(q->c, E_USAGE, "state %s cannot be kept in int8: it does not begin with zeros", x->in->source);
    vec_push(q->a, q->caches, ((quant_cache){x->in, x->out, q->want.per_channel != 0, 1, NULL}));
  }
  g->inputs = as_in_file.inputs, g->outputs = as_in_file.outputs, g->states = as_in_file.states;
  memcpy(g->inputs.v, in, g->inputs.n * sizeof *in), memcpy(g->outputs.v, out, g->outputs.n * sizeof *out);
  for (uint32_t i = 0; i < q->caches.n; i++) {
    const quant_cache *x = &q->caches.v[i];
    const char *why = quantize_cache_unfit(g, q->formulas, q->caches.v, q->caches.n, x);
    if (why) ctx_fail(q->c, E_USAGE, "state %s cannot be kept in int8: %s", x->in->source, why);
    vec_push(q->a, q->seen, ((observed){x->out, quantize_nothing()}));
  }
}

/* ---- ranges ---------------------------------------------------------------------------------- */
static quant_channels *channels_of(quantiser *q) {
  quant_channels *c = NEWN(q->a, quant_channels, q->caches.n + 1);
  for (uint32_t i = 0; i < q->caches.n; i++) {
    value *v = q->caches.v[i].out;
    const int64_t n = v->ranked && v->rank ? sym_int_or(q->c, v->dims[v->rank - 1], 0) : 0;
    if (n < 1) ctx_fail(q->c, E_USAGE, "state %s: scales for each channel need a last axis of a known size", v->source);
    c[i] = (quant_channels){.v = v, .axis = (int32_t)v->rank - 1, .n = n};
    c[i].lo = NEWN(q->a, float, n + 1), c[i].hi = NEWN(q->a, float, n + 1), c[i].square = NEWN(q->a, double, n + 1);
  }
  return c;
}
static float scale_of(double lo, double hi) {
  const float s = (float)((EK_PLANTED("quantize-scales") ? hi : fmax(-lo, hi)) / 127);
  return s > 0 ? s : 1;
}
ek_code quantize_choose_scales(quantiser *q) {
  volatile ek_code code = EK_OK;
  CTX_TRY(q->c) {
    quant_channels *c = q->want.per_channel ? channels_of(q) : NULL;
    code = quantize_calibrate(q); /* finds values that are no numbers, too */
    if (!code && c) code = quantize_calibrate_channels(q, c, q->caches.n);
    for (uint32_t i = 0; !code && i < q->caches.n; i++) {
      quant_cache *x = &q->caches.v[i];
      const quant_range r = c ? (quant_range){0}
                              : quantize_range(&q->seen.v[i].s, (quant_method)q->want.method, q->want.percentile, q->a);
      if (c) x->n = c[i].n;
      float *s = NEWN(q->a, float, x->n + 1);
      for (int64_t k = 0; k < x->n; k++)
        s[k] = c ? scale_of((double)c[i].lo[k], (double)c[i].hi[k]) : scale_of(r.lo, r.hi);
      x->scale = s;
    }
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}
