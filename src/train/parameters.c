/* What is trained? The initialisers of floats that the loss depends on. Not among them: constants that the model writes
 * as nodes; numbers without an axis (an epsilon, an exponent); what an operator takes as sizes, such as Resize's
 * scales; masks, which have infinite elements; and what a pattern of the user keeps. */
#include "train/train.h"
#include <fnmatch.h>
#include <math.h>
#include <string.h>

bool train_matches(const char *const *patterns, const char *name) {
  for (; patterns && *patterns; patterns++)
    if (!fnmatch(*patterns, name, 0)) return true;
  return false;
}
/* Is the value something whose contents an operator must know when it is compiled? */
static bool is_static(const graph *g, const value *v, const oplib *lib) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    for (uint32_t k = 0; k < n->in.n; k++) {
      const opdef *d = n->in.v[k] == v ? notation_find(lib, n->domain, n->op) : NULL;
      if (d && opdef_input_is_static(d, k)) return true;
    }
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g && is_static(n->attrs.v[k].g, v, lib)) return true;
  }
  return false;
}
/* No update leads back from an infinite element. But NaN is the fault of the model, which is trained so that its first
 * step fails with the name. */
static bool is_mask(const ndarray *x) {
  const uint32_t bytes = et_bytes(x->type);
  bool infinite = false;
  for (size_t i = 0; i < x->bytes / bytes; i++) {
    const double v = et_load(x->type, (const uint8_t *)x->data + i * bytes).f;
    if (isnan(v)) return false;
    infinite |= isinf(v) != 0;
  }
  return infinite;
}
enum { SHOWN = 10 }; /* names in a message */
/* A pattern that fits nothing is a mistake of the user. */
static void check_patterns(graph *g, const train_plan *p) {
  for (uint32_t k = 0; p->freeze && p->freeze[k]; k++) {
    strvec names = {0};
    bool hit = false;
    for (uint32_t i = 0; i < g->values.n; i++) {
      const value *v = g->values.v[i];
      if (!v->data || v->def || v->literal || et_kind(v->type) != K_FLOAT) continue;
      vec_push(ctx_arena(g->c), names, v->source);
      hit |= !fnmatch(p->freeze[k], v->source, 0);
    }
    sbuf list = sbuf_new(ctx_arena(g->c));
    for (uint32_t i = 0; i < names.n && i < SHOWN; i++) sb_fmt(&list, "%s%s", i ? ", " : "", names.v[i]);
    if (!hit)
      ctx_fail(g->c, E_USAGE, "freeze %s: the model has no initialiser of that name%s; there are %s%s", p->freeze[k],
               did_you_mean(ctx_arena(g->c), p->freeze[k], names.v, names.n), names.n ? list.s : "none",
               names.n > SHOWN ? ", .." : "");
  }
}
train_values train_parameters(graph *g, const train_plan *p, train_made *made) {
  arena *a = ctx_arena(g->c);
  train_values found = {0};
  const map *needed = graph_needed(g);
  check_patterns(g, p);
  for (uint32_t i = 0; i < g->values.n; i++) {
    value *v = g->values.v[i];
    if (!v->data || v->def || v->literal || et_kind(v->type) != K_FLOAT || !v->rank || !graph_needs(needed, v) ||
        is_static(g, v, p->lib) || is_mask(v->data))
      continue;
    const bool keep = train_matches(p->freeze, v->source);
    if (keep)
      vec_push(a, made->frozen, v->source);
    else
      vec_push(a, made->parameters, v->source);
    if (!keep) vec_push(a, found, v);
  }
  return found;
}
