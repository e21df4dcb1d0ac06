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
  return x->uses && (x->made == MADE_INPUT || (x->made == MADE_NODE && m->nodes.v[x->node].gone));
}
bool model_output(const model *m, uint32_t v) {
  const mvalue *x = &m->values.v[v - 1];
  return x->made == MADE_NODE && !x->scope && !m->nodes.v[x->node].gone &&
         (!x->uses || (m->seed * 0x9e3779b97f4a7c15u >> 32) % 7 == v % 7);
}
/* Strings from their bytes, behind whose ends are zeros. */
static ndarray strings_of(arena *a, const ndarray *d) {
  ndarray r = *d;
  int64_t n = 0;
  const size_t width = (size_t)d->dims[--r.rank];
  nd_count(&r, &n);
  bytes *b = NEWN(a, bytes, n + 1);
  for (int64_t i = 0; i < n; i++) {
    b[i].p = (const uint8_t *)d->data + (size_t)i * width;
    while (b[i].n < width && b[i].p[b[i].n]) b[i].n++;
  }
  r.type = ET_STR, r.data = b, r.bytes = (size_t)n * sizeof *b;
  return r;
}
static ndarray contents(const model *m, const mvalue *x) {
  return x->type == ET_STR ? strings_of(ctx_arena(m->c), &x->at[0]) : x->at[0];
}
static void put_attr(graph *g, node *n, const sattr *s) {
  attr *a = node_set_int(g, n, s->name, s->i);
  static const attr_kind kinds[] = {
      [SK_INT] = AK_INT,       [SK_FLOAT] = AK_FLOAT,     [SK_STRING] = AK_STRING, [SK_INTS] = AK_INTS,
      [SK_FLOATS] = AK_FLOATS, [SK_STRINGS] = AK_STRINGS, [SK_TENSOR] = AK_TENSOR};
  a->kind = kinds[s->kind], a->n = s->n, a->f = s->f, a->s = s->s, a->ints = s->ints, a->floats = s->floats;
  a->strings = s->strings, a->tensor = s->tensor;
}
/* A model on its way to the graph level. */
typedef struct writing {
  model *m;
  arena *a;
  graph **of;  /* for each scope */
  value **all; /* for each value */
} writing;
static value *place(writing *w, uint32_t v) {
  model *m = w->m;
  const mvalue *x = &m->values.v[v - 1];
  const bool input = model_input(m, v);
  if (x->made == MADE_CONST) {
    const ndarray data = contents(m, x);
    return graph_const(w->of[0], value_name(m, v), &data);
  }
  value *r = graph_value(w->of[input ? 0 : x->scope], value_name(m, v));
  sz *dims = NEWN(w->a, sz, x->rank + 1);
  for (uint32_t i = 0; i < x->rank; i++) {
    const int64_t n = x->at[0].dims[i];
    dims[i] =
        x->open && n > 1 ? sym_symbol(m->c, arena_fmt(w->a, "s%lld", (long long)n), 1, 1000000) : sym_int(m->c, n);
  }
  /* what the others are is for inference to find */
  r->type = x->type, r->ranked = input, r->rank = input ? x->rank : 0, r->dims = dims;
  return r;
}
static void put_call(writing *w, const mnode *n) {
  const opdef *d = notation_nth(w->m->lib, n->op);
  graph *g = w->of[n->scope];
  node *to = graph_node(g, opdef_name(d), opdef_domain(d), n->name);
  for (uint32_t k = 0; k < n->nin; k++) {
    value *v = !n->i->in[k].present ? NULL : n->in[k] ? w->all[n->in[k] - 1] : graph_const(g, "k", &n->i->data[k]);
    vec_push(w->a, to->in, v);
  }
  while (to->in.n && !to->in.v[to->in.n - 1]) to->in.n--;
  for (uint32_t k = 0; k < n->nout; k++) vec_push(w->a, to->out, n->out[k] ? w->all[n->out[k] - 1] : NULL);
  for (uint32_t k = 0; k < n->i->nattr; k++) put_attr(g, to, &n->i->attr[k]);
}
/* Results of a body: those that come from elsewhere, or twice, go through an Identity. */
static void put_results(writing *w, uint32_t scope) {
  const mscope *s = &w->m->scopes.v[scope];
  graph *g = w->of[scope];
  for (uint32_t i = 0; i < s->in.n; i++) vec_push(w->a, g->inputs, w->all[s->in.v[i] - 1]);
  for (uint32_t i = 0; i < s->out.n; i++) {
    const mvalue *x = &w->m->values.v[s->out.v[i] - 1];
    value *v = w->all[s->out.v[i] - 1];
    bool own = x->made == MADE_NODE && x->scope == scope && !w->m->nodes.v[x->node].gone;
    for (uint32_t k = 0; k < i; k++) own &= s->out.v[k] != s->out.v[i];
    if (!own) {
      node *copy = graph_node(g, "Identity", "", NULL);
      value *r = graph_value(g, "r");
      r->type = v->type;
      vec_push(w->a, copy->in, v);
      vec_push(w->a, copy->out, r);
      v = r;
    }
    vec_push(w->a, g->outputs, v);
  }
}
static void put_ints(graph *g, node *n, const char *name, uint32_t bits, uint32_t count) {
  int64_t v[OPINST_MAX];
  for (uint32_t i = 0; i < count; i++) v[i] = bits >> i & 1;
  node_set_ints(g, n, name, v, count);
}
static void put_flow(writing *w, const mnode *n) {
  static const char *const ops[] = {[NODE_IF] = "If", [NODE_LOOP] = "Loop", [NODE_SCAN] = "Scan"};
  static const char *const bodies[] = {"then_branch", "else_branch"};
  graph *g = w->of[n->scope];
  node *to = graph_node(g, ops[n->kind], "", n->name);
  for (uint32_t k = 0; k < n->nin; k++) vec_push(w->a, to->in, n->in[k] ? w->all[n->in[k] - 1] : NULL);
  for (uint32_t k = 0; k < n->nout; k++) vec_push(w->a, to->out, w->all[n->out[k] - 1]);
  for (int k = 0; k < (n->kind == NODE_IF ? 2 : 1); k++) {
    put_results(w, n->body[k]);
    attr *a = node_set_int(g, to, n->kind == NODE_IF ? bodies[k] : "body", 0);
    a->kind = AK_GRAPH, a->g = w->of[n->body[k]];
  }
  if (n->kind != NODE_SCAN) return;
  node_set_int(g, to, "num_scan_inputs", n->scanned);
  if (!n->back) return;
  put_ints(g, to, "scan_input_directions", n->back, n->scanned);
  put_ints(g, to, "scan_output_directions", n->back >> 8, n->nout + n->scanned - n->nin);
}
static graph *graph_of(model *m) {
  writing w = {.m = m, .a = ctx_arena(m->c)};
  w.of = NEWN(w.a, graph *, m->scopes.n), w.all = NEWN(w.a, value *, m->values.n + 1);
  graph *g = w.of[0] = graph_new(m->c, NULL, "random");
  g->opset = ONNX_NEWEST_OPSET;
  for (uint32_t s = 1; s < m->scopes.n; s++)
    w.of[s] = graph_new(m->c, w.of[m->scopes.v[s].parent], arena_fmt(w.a, "body%u", s));
  for (uint32_t v = 1; v <= m->values.n; v++) {
    w.all[v - 1] = place(&w, v);
    if (model_input(m, v)) vec_push(w.a, g->inputs, w.all[v - 1]);
    if (model_output(m, v)) vec_push(w.a, g->outputs, w.all[v - 1]);
  }
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    if (n->gone) continue;
    if (n->kind == NODE_CALL)
      put_call(&w, n);
    else
      put_flow(&w, n);
  }
  return g;
}
bool model_write(model *m, const char *path) {
  uint64_t size;
  graph *g = graph_of(m);
  return onnx_write(g, path, &size);
}
bool model_arrays(model *m, const char *path, bool all) {
  arena *a = ctx_arena(m->c);
  npz z = {.names = NEWN(a, const char *, 2 * m->values.n + 1), .arrays = NEWN(a, ndarray, 2 * m->values.n + 1)};
  for (uint32_t v = 1; v <= m->values.n; v++) {
    const mvalue *x = &m->values.v[v - 1];
    const bool input = model_input(m, v), output = model_output(m, v),
               inner = all && x->made == MADE_NODE && !x->scope && !m->nodes.v[x->node].gone;
    if (!input && !output && !inner) continue;
    z.names[z.n] = arena_fmt(a, "%s%s", input ? "in_" : "out_", value_name(m, v));
    z.arrays[z.n++] = contents(m, x);
    if (!all || input || et_kind(x->type) != K_FLOAT) continue;
    double *most = NEWN(a, double, 1);
    *most = value_limit(x);
    z.names[z.n] = arena_fmt(a, "tol_%s", value_name(m, v));
    z.arrays[z.n++] = (ndarray){.type = ET_F64, .data = most, .bytes = sizeof *most};
  }
  return npz_write(m->c, path, &z);
}
