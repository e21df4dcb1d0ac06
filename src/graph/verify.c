/* Is it a graph? Values are defined once and before use, nodes see only values of their own graph and the enclosing
 * ones, regions belong to control flow. */
#include "graph/graph.h"
#include <string.h>

static bool fail(graph *g, const char *when, const node *n, const char *what, const char *which) {
  diag_add(g->c, D_ERROR, when ? E_INTERNAL : E_MODEL, (srcpos){0}, n ? n->name : NULL, "%s%s%s%s%s",
           when ? "after " : "", when ? when : "", when ? ": " : "", what, which ? which : "");
  return false;
}
static bool visible(map *seen, const value *v) {
  uint64_t is;
  return map_getu(seen, (uint64_t)(uintptr_t)v, &is) && is;
}
static void leave(const graph *g, map *seen) { /* Forgets what a region defines, which is not seen outside. */
  for (uint32_t i = 0; i < g->inputs.n; i++) map_putu(seen, (uint64_t)(uintptr_t)g->inputs.v[i], 0);
  for (uint32_t i = 0; i < g->values.n; i++) map_putu(seen, (uint64_t)(uintptr_t)g->values.v[i], 0);
}
static bool check(graph *g, const char *when, map *seen) {
  bool ok = true;
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const value *v = g->inputs.v[i];
    map_putu(seen, (uint64_t)(uintptr_t)v, 1);
    for (uint32_t j = 0; v->ranked && j < v->rank; j++)
      if (sym_int_or(g->c, v->dims[j], 0) < 0) ok = fail(g, when, NULL, "a dimension is negative: input ", v->source);
  }
  for (uint32_t i = 0; i < g->values.n; i++)
    if (g->values.v[i]->data) map_putu(seen, (uint64_t)(uintptr_t)g->values.v[i], 1);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    for (uint32_t j = 0; j < n->in.n; j++)
      if (n->in.v[j] && !visible(seen, n->in.v[j]))
        ok = fail(g, when, n, "uses a value that is not defined before it: ", n->in.v[j]->source);
    for (uint32_t j = 0; j < n->attrs.n; j++)
      if (n->attrs.v[j].g) {
        if (n->attrs.v[j].g->parent != g) ok = fail(g, when, n, "a region of another graph: ", n->attrs.v[j].name);
        ok &= check(n->attrs.v[j].g, when, seen);
        leave(n->attrs.v[j].g, seen);
      }
    for (uint32_t j = 0; j < n->out.n; j++) {
      value *v = n->out.v[j];
      if (!v) continue;
      if (v->def != n) ok = fail(g, when, n, "an output that another node defines: ", v->source);
      if (visible(seen, v)) ok = fail(g, when, n, "defines a value a second time: ", v->source);
      map_putu(seen, (uint64_t)(uintptr_t)v, 1);
    }
  }
  for (uint32_t i = 0; i < g->outputs.n; i++)
    if (!visible(seen, g->outputs.v[i]))
      ok = fail(g, when, NULL, "an output is not defined: ", g->outputs.v[i]->source);
  return ok;
}
static bool check_states(graph *g, const char *when) {
  bool ok = true;
  for (uint32_t i = 0; i < g->states.n; i++) {
    const graph_state *s = &g->states.v[i];
    const uint32_t from_end = g->states.n - i;
    const char *why = graph_untied(g, s->in, s->out);
    if (from_end > g->inputs.n || g->inputs.v[g->inputs.n - from_end] != s->in || from_end > g->outputs.n ||
        g->outputs.v[g->outputs.n - from_end] != s->out)
      ok = fail(g, when, NULL, "the inputs and outputs of states are not the last ones, in one order: state ",
                s->in->source);
    else if (why)
      ok = fail(g, when, NULL, why, NULL);
    bool fits = !s->first || (s->first->type == s->in->type && s->in->ranked && s->first->rank == s->in->rank);
    for (uint32_t k = 0; s->first && fits && k < s->first->rank; k++)
      fits = s->in->dims[k] && sym_int_or(g->c, s->in->dims[k], -1) == s->first->dims[k];
    if (!fits)
      ok = fail(g, when, NULL, "the first value has another type, or other sizes, than the state ", s->in->source);
  }
  return ok;
}
bool graph_verify(graph *g, const char *when) {
  return check(g, when, map_new(ctx_arena(g->c))) && check_states(g, when);
}
