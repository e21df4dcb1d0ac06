/* Values on the way: which tensors does a model compute, and how does one look at them? A value that is asked for
 * becomes one more output of the graph, before anything is lowered: so every level, every emitter and the evaluator
 * gives it, with nothing said about it anywhere else. */
#include "driver/driver.h"
#include <string.h>

/* Outputs of states, the last ones, do not count: nobody sees them. */
static int32_t output_number(const graph *g, const value *v) {
  for (uint32_t i = 0; i < g->outputs.n - g->states.n; i++)
    if (g->outputs.v[i] == v) return (int32_t)i;
  return -1;
}

/* ---- asked for by name ---- */
static bool asked(const char *const *names, const node *n, const value *v, bool *hit) {
  bool any = false;
  for (uint32_t i = 0; names[i]; i++)
    if (!strcmp(names[i], "*") || !strcmp(names[i], v->source) || (n->name && !strcmp(names[i], n->name)))
      hit[i] = any = true;
  return any;
}
static void unknown(const graph *g, const char *name) {
  strvec known = {0};
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    vec_push(ctx_arena(g->c), known, g->nodes.v[i]->name);
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++)
      if (g->nodes.v[i]->out.v[k]) vec_push(ctx_arena(g->c), known, g->nodes.v[i]->out.v[k]->source);
  }
  ctx_fail(g->c, E_USAGE,
           "the model has no node, and computes no tensor, of the name %s (of branches' and loops' bodies none can be "
           "looked at)%s",
           name, did_you_mean(ctx_arena(g->c), name, known.v, known.n));
}
static void add_output(graph *g, value *v) { /* before those of states */
  vec_push(ctx_arena(g->c), g->outputs, v);
  uint32_t at = g->outputs.n - 1;
  for (; at > g->outputs.n - 1 - g->states.n; at--) g->outputs.v[at] = g->outputs.v[at - 1];
  g->outputs.v[at] = v;
}
void watch_values(graph *g, const char *const *names) {
  arena *a = ctx_arena(g->c);
  uint32_t n = 0;
  while (names[n]) n++;
  bool *hit = NEWN(a, bool, n + 1);
  const map *needed = graph_needed(g);
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++) {
      value *v = g->nodes.v[i]->out.v[k];
      if (graph_needs(needed, v) && asked(names, g->nodes.v[i], v, hit) && output_number(g, v) < 0 &&
          !EK_PLANTED("watch"))
        add_output(g, v);
    }
  for (uint32_t i = 0; i < n; i++)
    if (!hit[i] && strcmp(names[i], "*") != 0) unknown(g, names[i]);
}

/* ---- all of them, for ek_model_values ---- */
typedef struct values {
  ek_value_info *v; /* the values */
  size_t n;         /* number of values */
} values;
static void list(ek_model *m, values *l) {
  CTX_TRY(m->c) {
    const graph *g = m->p->g;
    VEC(ek_value_info) all = {0};
    const map *needed = graph_needed(g);
    for (uint32_t i = 0; i < g->nodes.n; i++)
      for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++) {
        const value *v = g->nodes.v[i]->out.v[k];
        if (!graph_needs(needed, v)) continue;
        const node *n = g->nodes.v[i];
        ek_value_info one = {v->source, n->name ? n->name : "", n->op, output_number(g, v)};
        vec_push(ctx_arena(m->c), all, one);
      }
    l->v = all.v, l->n = all.n;
  }
  CTX_CATCH { l->n = SIZE_MAX; }
}
ek_code ek_model_metadata(ek_model *m, const ek_metadata **out, size_t *n) {
  if (!m || !out || !n) return session_null(m ? m->s : NULL);
  volatile ek_code e = EK_OK;
  *out = NULL, *n = 0;
  CTX_TRY(m->c) {
    const graph *g = m->p->g;
    ek_metadata *all = NEWN(ctx_arena(m->c), ek_metadata, g->metadata.n + 1);
    for (uint32_t i = 0; i < g->metadata.n; i++) all[i] = (ek_metadata){g->metadata.v[i].name, g->metadata.v[i].s};
    *out = all, *n = g->metadata.n;
  }
  CTX_CATCH { e = session_done(m->s, m->c, EK_FAILED); }
  return e;
}
ek_code ek_model_values(ek_model *m, const ek_value_info **out, size_t *n) {
  if (!m || !out || !n) return session_null(m ? m->s : NULL);
  values l = {0};
  *out = NULL, *n = 0;
  list(m, &l);
  if (l.n == SIZE_MAX) return session_done(m->s, m->c, EK_FAILED);
  *out = l.v, *n = l.n;
  return EK_OK;
}
