/* Building graphs: values with unique names, nodes, attributes. */
#include "graph/graph.h"
#include <string.h>

graph *graph_root(graph *g) {
  while (g->parent) g = g->parent;
  return g;
}
static map *taken(graph *g) { /* names of the whole model, kept with the root */
  graph *r = graph_root(g);
  if (!r->names) r->names = map_new(ctx_arena(r->c));
  return r->names;
}
graph *graph_new(ctx *c, graph *parent, const char *name) {
  graph *g = NEW(ctx_arena(c), graph);
  g->c = c;
  g->parent = parent;
  g->name = name ? intern(c, name) : "";
  return g;
}
value *graph_value(graph *g, const char *name) {
  arena *a = ctx_arena(g->c);
  value *v = NEW(a, value);
  v->source = intern(g->c, name ? name : "");
  const char *base = v->source[0] ? v->source : "v", *n = base;
  uint64_t k = 0, have;
  map *t = taken(g);
  if (map_gets(t, n, &have)) {
    for (k = have; map_gets(t, n, &(uint64_t){0}); k++) n = arena_fmt(a, "%s.%llu", base, (unsigned long long)k);
    map_puts(t, base, k);
  }
  map_puts(t, n, 1);
  v->name = intern(g->c, n);
  vec_push(a, g->values, v);
  return v;
}
value *graph_const(graph *g, const char *name, const ndarray *data) {
  arena *a = ctx_arena(g->c);
  value *v = graph_value(g, name);
  ndarray *d = NEW(a, ndarray);
  *d = *data;
  v->data = d;
  v->type = data->type;
  v->ranked = true;
  v->rank = data->rank;
  sz *dims = NEWN(a, sz, data->rank ? data->rank : 1);
  for (uint32_t i = 0; i < data->rank; i++) dims[i] = sym_int(g->c, data->dims[i]);
  v->dims = dims;
  return v;
}
node *graph_node(graph *g, const char *op, const char *domain, const char *name) {
  arena *a = ctx_arena(g->c);
  node *n = NEW(a, node);
  n->op = intern(g->c, op);
  n->domain = intern(g->c, domain ? domain : "");
  n->id = g->nodes.n;
  n->name = name && name[0] ? intern(g->c, name) : intern(g->c, arena_fmt(a, "%s_%u", op, n->id));
  vec_push(a, g->nodes, n);
  return n;
}
value *graph_result(graph *g, node *n, const char *name) {
  value *v = graph_value(g, name);
  v->def = n;
  vec_push(ctx_arena(g->c), n->out, v);
  return v;
}
const attr *node_attr(const node *n, const char *name) {
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (!strcmp(n->attrs.v[i].name, name)) return &n->attrs.v[i];
  return NULL;
}
static attr *put(graph *g, node *n, const char *name, attr_kind k) {
  attr *a = (attr *)node_attr(n, name);
  if (!a) {
    vec_push(ctx_arena(g->c), n->attrs, ((attr){0}));
    a = &n->attrs.v[n->attrs.n - 1];
  }
  *a = (attr){.name = intern(g->c, name), .kind = k};
  return a;
}
attr *node_set_int(graph *g, node *n, const char *name, int64_t v) {
  attr *a = put(g, n, name, AK_INT);
  a->i = v;
  return a;
}
attr *node_set_float(graph *g, node *n, const char *name, double v) {
  attr *a = put(g, n, name, AK_FLOAT);
  a->f = v;
  return a;
}
attr *node_set_string(graph *g, node *n, const char *name, const char *v) {
  attr *a = put(g, n, name, AK_STRING);
  a->s = intern(g->c, v);
  return a;
}
attr *node_set_ints(graph *g, node *n, const char *name, const int64_t *v, uint32_t count) {
  attr *a = put(g, n, name, AK_INTS);
  a->n = count;
  a->ints = arena_dup(ctx_arena(g->c), v, count * sizeof *v);
  return a;
}
attr *node_set_floats(graph *g, node *n, const char *name, const double *v, uint32_t count) {
  attr *a = put(g, n, name, AK_FLOATS);
  a->n = count;
  a->floats = arena_dup(ctx_arena(g->c), v, count * sizeof *v);
  return a;
}
attr *node_set_strings(graph *g, node *n, const char *name, const char *const *v, uint32_t count) {
  attr *a = put(g, n, name, AK_STRINGS);
  a->n = count;
  a->strings = arena_dup(ctx_arena(g->c), v, count * sizeof *v);
  return a;
}
void node_remove_attr(node *n, const char *name) {
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (!strcmp(n->attrs.v[i].name, name)) {
      for (; i + 1 < n->attrs.n; i++) n->attrs.v[i] = n->attrs.v[i + 1];
      n->attrs.n--;
      return;
    }
}

node *graph_node_first(graph *g, const char *op, const char *domain, const char *name) {
  node *n = graph_node(g, op, domain, name);
  for (uint32_t i = g->nodes.n - 1; i > 0; i--) g->nodes.v[i] = g->nodes.v[i - 1];
  g->nodes.v[0] = n;
  return n;
}
static node *first_node(graph *g, const char *op, value *out) {
  node *n = graph_node_first(g, op, "", out->name);
  vec_push(ctx_arena(g->c), n->out, out);
  out->def = n;
  return n;
}
void graph_settle(graph *g, value *v, int64_t n) {
  arena *a = ctx_arena(g->c);
  VEC(value *) inputs = {0}, made = {0};
  for (int64_t k = 0; k < n; k++) {
    value *e = graph_value(g, arena_fmt(a, "%s.%lld", v->source, (long long)k));
    e->type = v->type, e->ranked = v->ranked, e->rank = v->rank, e->declared = v->declared;
    sz *dims = NEWN(a, sz, v->rank + 1);
    for (uint32_t i = 0; i < v->rank; i++) {
      sbuf b = sbuf_new(a);
      for (const char *s = e->name; *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_', digit = *s >= '0' && *s <= '9';
        if (s == e->name && !letter) sb_putc(&b, '_');
        sb_putc(&b, letter || digit || *s == '.' ? *s : '_');
      }
      sb_fmt(&b, ".%u", i);
      dims[i] = v->dims[i] && sym_is_int(g->c, v->dims[i], NULL) ? v->dims[i] : sym_symbol(g->c, b.s, 0, 1000000000);
    }
    e->dims = dims;
    vec_push(a, made, e);
  }
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    if (g->inputs.v[i] != v) vec_push(a, inputs, g->inputs.v[i]);
    for (uint32_t k = 0; g->inputs.v[i] == v && k < made.n; k++) vec_push(a, inputs, made.v[k]);
  }
  g->inputs.v = (void *)inputs.v, g->inputs.n = inputs.n, g->inputs.cap = inputs.cap;
  bool list = n >= 0 && v->kind != VALUE_OPTIONAL;
  node *maker = first_node(g, list ? "SequenceConstruct" : "Optional", v);
  for (uint32_t k = 0; k < made.n; k++) vec_push(a, maker->in, made.v[k]);
  v->kind = VALUE_TENSOR, v->type = ET_NONE, v->ranked = v->declared = false;
}
