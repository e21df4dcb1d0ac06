/* How does a random model become an ONNX file, and an .npz file with its inputs and results? */
#include "random_models.h"
#include "graph/graph.h"
#include "onnx/onnx.h"

const char *value_name(const model *m, uint32_t v) {
  const mvalue *x = &m->values.v[v - 1];
  return arena_fmt(ctx_arena(m->c), "%c%u", model_input(m, v) ? 'x' : x->made == MADE_CONST ? 'w' : 't', v);
}
bool model_input(const model *m, uint32_t v) {
  const mvalue *x = &m->values.v[v - 1];
  return x->uses && (x->made == MADE_INPUT || (x->made == MADE_NODE && m->nodes.v[x->node].dead));
}
bool model_output(const model *m, uint32_t v) {
  const mvalue *x = &m->values.v[v - 1];
  return x->made == MADE_NODE && !m->nodes.v[x->node].dead &&
         (!x->uses || (m->seed * 0x9e3779b97f4a7c15u >> 32) % 7 == v % 7);
}
static void put_attr(graph *g, node *n, const sattr *s) {
  attr *a = node_set_int(g, n, s->name, s->i);
  static const attr_kind kinds[] = {
      [SK_INT] = AK_INT,       [SK_FLOAT] = AK_FLOAT,     [SK_STRING] = AK_STRING, [SK_INTS] = AK_INTS,
      [SK_FLOATS] = AK_FLOATS, [SK_STRINGS] = AK_STRINGS, [SK_TENSOR] = AK_TENSOR};
  a->kind = kinds[s->kind], a->n = s->n, a->f = s->f, a->s = s->s, a->ints = s->ints, a->floats = s->floats;
  a->strings = s->strings, a->tensor = s->tensor;
}
static value *place(model *m, graph *g, uint32_t v) {
  mvalue *x = &m->values.v[v - 1];
  if (x->made == MADE_CONST) return graph_const(g, value_name(m, v), &x->at[0]);
  value *r = graph_value(g, value_name(m, v));
  sz *dims = NEWN(ctx_arena(m->c), sz, x->rank + 1);
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t n = x->at[0].dims[i];
    dims[i] = x->open && n > 1 ? sym_symbol(m->c, arena_fmt(ctx_arena(m->c), "s%lld", (long long)n), 1, 1000000)
                               : sym_int(m->c, n);
  }
  r->type = x->type, r->ranked = true, r->rank = x->rank, r->dims = dims;
  return r;
}
static graph *graph_of(model *m) {
  arena *a = ctx_arena(m->c);
  graph *g = graph_new(m->c, NULL, "random");
  value **all = NEWN(a, value *, m->values.n + 1);
  g->opset = ONNX_NEWEST_OPSET;
  for (uint32_t v = 1; v <= m->values.n; v++) {
    all[v - 1] = place(m, g, v);
    if (model_input(m, v)) vec_push(a, g->inputs, all[v - 1]);
    if (model_output(m, v)) vec_push(a, g->outputs, all[v - 1]);
  }
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    if (n->dead) continue;
    const opdef *d = notation_nth(m->lib, n->op);
    node *to = graph_node(g, opdef_name(d), opdef_domain(d), arena_fmt(a, "n%u", i));
    for (uint32_t k = 0; k < n->i->nin; k++) {
      const arg *in = &n->i->in[k];
      value *v = !in->present ? NULL : n->in[k] ? all[n->in[k] - 1] : graph_const(g, "k", &n->i->data[k]);
      vec_push(a, to->in, v);
    }
    while (to->in.n && !to->in.v[to->in.n - 1]) to->in.n--;
    for (uint32_t k = 0; k < n->i->nout; k++) vec_push(a, to->out, n->out[k] ? all[n->out[k] - 1] : NULL);
    for (uint32_t k = 0; k < n->i->nattr; k++) put_attr(g, to, &n->i->attr[k]);
  }
  return g;
}
bool model_write(model *m, const char *path) {
  uint64_t size;
  graph *g = graph_of(m);
  return onnx_write(g, path, &size);
}
bool model_arrays(model *m, const char *path) {
  arena *a = ctx_arena(m->c);
  npz z = {.names = NEWN(a, const char *, m->values.n + 1), .arrays = NEWN(a, ndarray, m->values.n + 1)};
  for (uint32_t v = 1; v <= m->values.n; v++) {
    const mvalue *x = &m->values.v[v - 1];
    if (!model_input(m, v) && !model_output(m, v)) continue;
    z.names[z.n] = arena_fmt(a, "%s%s", model_input(m, v) ? "in_" : "out_", value_name(m, v));
    z.arrays[z.n++] = x->at[0];
  }
  return npz_write(m->c, path, &z);
}
