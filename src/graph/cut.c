/* Parts of a graph: which values do its outputs need, and what is left of it when some values are given instead of
 * computed? */
#include "graph/graph.h"
#include <string.h>

static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }

/* ---- what the outputs need ---- */
static void mark(map *needed, const graph *g) {
  for (uint32_t i = 0; i < g->outputs.n; i++) map_putu(needed, key(g->outputs.v[i]), 1);
  for (uint32_t i = g->nodes.n; i-- > 0;) {
    const node *n = g->nodes.v[i];
    bool any = false;
    for (uint32_t k = 0; k < n->out.n; k++) any |= graph_needs(needed, n->out.v[k]);
    for (uint32_t k = 0; any && k < n->in.n; k++)
      if (n->in.v[k]) map_putu(needed, key(n->in.v[k]), 1);
    for (uint32_t k = 0; any && k < n->attrs.n; k++)
      if (n->attrs.v[k].g) mark(needed, n->attrs.v[k].g);
  }
}
map *graph_needed(const graph *g) {
  map *needed = map_new(ctx_arena(g->c));
  mark(needed, g);
  return needed;
}
bool graph_needs(const map *needed, const value *v) { return v && map_getu(needed, key(v), NULL); }
void graph_drop_unneeded(graph *g, const map *needed) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    bool any = false;
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++)
      any |= g->nodes.v[i]->out.v[k] && !g->nodes.v[i]->out.v[k]->data && graph_needs(needed, g->nodes.v[i]->out.v[k]);
    if (any) g->nodes.v[n++] = g->nodes.v[i];
  }
  g->nodes.n = n;
}

/* ---- replacing values ---- */
static value *stands_for(const map *by, value *v) {
  uint64_t to;
  while (v && map_getu(by, key(v), &to)) v = (value *)(uintptr_t)to;
  return v;
}
void graph_replace_uses(graph *g, const map *by) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    for (uint32_t k = 0; k < n->in.n; k++) n->in.v[k] = stands_for(by, n->in.v[k]);
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g) graph_replace_uses(n->attrs.v[k].g, by);
  }
  if (g->parent)
    for (uint32_t i = 0; i < g->outputs.n; i++) g->outputs.v[i] = stands_for(by, g->outputs.v[i]);
}

/* ---- cutting ---- */
static map *by_source(const graph *g) { /* the model's name of a value -> the value; of equal names the first */
  map *m = map_new(ctx_arena(g->c));
  for (uint32_t i = 0; i < g->inputs.n; i++) map_puts(m, g->inputs.v[i]->source, key(g->inputs.v[i]));
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++) {
      const value *v = g->nodes.v[i]->out.v[k];
      if (v && !map_gets(m, v->source, NULL)) map_puts(m, v->source, key(v));
    }
  return m;
}
static value *find(const map *values, const char *name) {
  uint64_t v;
  return map_gets(values, name, &v) ? (value *)(uintptr_t)v : NULL;
}
static void settle(graph *g, value *v, const graph_given *x, bool open) {
  sz *dims = NEWN(ctx_arena(g->c), sz, x->data.rank + 1);
  for (uint32_t i = 0; i < x->data.rank; i++)
    dims[i] =
        open && x->names && x->names[i] ? sym_symbol(g->c, x->names[i], 0, INT64_MAX) : sym_int(g->c, x->data.dims[i]);
  v->type = x->data.type, v->ranked = true, v->rank = x->data.rank, v->dims = dims, v->declared = true;
}
/* The value that takes v's place where nodes use it: a constant or an input, under v's name. */
static value *given_value(graph *g, value *v, const graph_given *x, bool open) {
  value *w = x->constant ? graph_const(g, v->source, &x->data) : graph_value(g, v->source);
  const char *name = w->name;
  w->name = v->name, v->name = name; /* what v was called is what the part's input is called */
  if (x->constant) return w;
  settle(g, w, x, open);
  vec_push(ctx_arena(g->c), g->inputs, w);
  return w;
}
void graph_cut(graph *g, const graph_part *part) {
  arena *a = ctx_arena(g->c);
  const map *values = by_source(g);
  g->states.n = 0; /* of a part, inputs are given and outputs looked at */
  map *by = map_new(a);
  VEC(value *) out = {0}, in = {0};
  for (const char *const *o = part->outputs; *o; o++) {
    value *v = find(values, *o);
    if (!v) ctx_fail(g->c, E_USAGE, "the model has no tensor of the name %s", *o);
    vec_push(a, out, v);
  }
  for (uint32_t i = 0; i < part->n; i++) {
    value *v = find(values, part->given[i].name);
    if (v && v->def)
      map_putu(by, key(v), key(given_value(g, v, &part->given[i], part->open)));
    else if (v && v->type != ET_STR && !part->open) /* of strings only the sizes of their bytes are known here */
      settle(g, v, &part->given[i], false);
  }
  graph_replace_uses(g, by);
  g->outputs.v = (void *)out.v, g->outputs.n = out.n, g->outputs.cap = out.cap;
  const map *needed = graph_needed(g);
  graph_drop_unneeded(g, needed);
  for (uint32_t i = 0; i < g->inputs.n; i++)
    if (graph_needs(needed, g->inputs.v[i])) vec_push(a, in, g->inputs.v[i]);
  g->inputs.v = (void *)in.v, g->inputs.n = in.n, g->inputs.cap = in.cap;
}
