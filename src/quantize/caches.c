/* How is a state kept in eight bits?
 *
 * A cache of keys or values is an output that is an input with new elements in some places. What is between the two
 * only moves elements, by the formulas of its nodes (Concat, ScatterND, Transpose, ..): so it may as well move codes.
 * From the output back to the input all tensors become i8. QuantizeLinear stands where an f32 tensor comes in, and
 * whoever else reads one of these reads DequantizeLinear of it; codes have no zero point, so that 0 stays 0.
 * com.microsoft's GroupQueryAttention quantises its caches itself: it gets the scales as inputs. */
#include "quantize/quantize.h"
#include <string.h>

typedef struct placed {
  node *n;           /* a new node */
  const node *after; /* the one that it stands behind; NULL: it reads only inputs and constants */
} placed;
typedef struct rewriting {
  graph *g;            /* the graph */
  arena *a;            /* memory of what is added to it */
  const map *formulas; /* node -> its quant_formula */
  VEC(placed) added;   /* new nodes */
} rewriting;
static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }

/* ---- what only moves ------------------------------------------------------------------------- */
/* Is a value of floats an element of a tensor, or 0, whatever decides which? last: the element must stand at this place
 * of its last axis; 0: anywhere */
static bool is_moved(emodule *m, ex e, sz last) {
  const ex_node n = *exn(m, e);
  if (et_kind(n.type) != K_FLOAT) return true;
  if (n.kind == EX_LOAD)
    return (!last || (n.nargs && sym_eq(m->c, n.args[n.nargs - 1], last))) &&
           (!n.otherwise || is_moved(m, n.otherwise, last));
  if (n.kind == EX_CONST) return n.k.f == 0;
  if (EK_PLANTED("quantize-caches")) return true;
  return n.kind == EX_OP && n.op == OP_SEL && is_moved(m, n.args[1], last) && is_moved(m, n.args[2], last);
}
static bool moves_here(emodule *m, const stage *s, bool channels) {
  const bool named = channels && s->naxes;
  if (s->recurrence) return false;
  if (s->value && !is_moved(m, s->value, named ? expr_axis_index(m, &s->axes[s->naxes - 1]) : 0)) return false;
  for (uint32_t k = 0; k < s->updates.n; k++) {
    const update *u = &s->updates.v[k];
    if (!is_moved(m, u->value, named ? u->idx[u->nidx - 1] : 0) ||
        (u->op && et_kind(xt(m, s->tensor)->type) == K_FLOAT))
      return false;
  }
  return true;
}
/* channels: elements stay at their places of the last axis */
static bool moves(const map *formulas, const node *n, bool channels) {
  uint64_t at;
  if (!map_getu(formulas, key(n), &at)) return false;
  emodule *m = ((const quant_formula *)(uintptr_t)at)->m;
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (!moves_here(m, xs(m, i), channels)) return false;
  return true;
}
/* Marks the values of x from v back to the old one. False: v is not made of that by nodes that only move. */
static bool mark(const map *formulas, const quant_cache *x, value *v, map *marked) {
  bool any = v == x->in;
  if (map_getu(marked, key(v), NULL)) return true;
  if (!any && (!v->def || !moves(formulas, v->def, x->channels))) return false;
  for (uint32_t i = 0; v != x->in && i < v->def->in.n; i++) {
    value *y = v->def->in.v[i];
    any |= y && y->type == ET_F32 && mark(formulas, x, y, marked);
  }
  if (any) map_putu(marked, key(v), 1);
  return any;
}

/* ---- com.microsoft's GroupQueryAttention ------------------------------------------------------ */
enum { PAST_KEY = 3, PRESENT_KEY = 1, K_SCALE = 12 /* inputs and outputs; those of the values are the next ones */ };
static bool attends(const node *n) {
  return n && !strcmp(n->op, "GroupQueryAttention") && !strcmp(n->domain, "com.microsoft") && n->in.n > PAST_KEY + 1 &&
         n->out.n > PRESENT_KEY + 1 && !node_attr(n, "k_quant_type");
}
static const quant_cache *cache_of(const quant_cache *x, uint32_t n, const value *in, const value *out) {
  for (uint32_t i = 0; i < n; i++)
    if (x[i].in == in && x[i].out == out) return &x[i];
  return NULL;
}
static bool attends_to(const quant_cache *x, uint32_t n, const node *by) {
  for (uint32_t k = 0; k < 2; k++)
    if (!cache_of(x, n, by->in.v[PAST_KEY + k], by->out.v[PRESENT_KEY + k])) return false;
  return true;
}
/* Does anything but the output itself read it? */
static bool is_read(const graph *g, const value *v) {
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->in.n; k++)
      if (g->nodes.v[i]->in.v[k] == v) return true;
  return false;
}
const char *quantize_cache_unfit(const graph *g, const map *formulas, const quant_cache *all, uint32_t n,
                                 const quant_cache *x) {
  if (x->in->type != ET_F32 || x->out->type != ET_F32) return "it is no tensor of f32";
  if (!x->in->ranked || !x->in->rank) return "its rank is not known";
  if (attends(x->out->def))
    return !attends_to(all, n, x->out->def) ? "of GroupQueryAttention both caches must be states"
           : is_read(g, x->out)             ? "another node reads what GroupQueryAttention gives for it"
                                            : NULL;
  if (mark(formulas, x, x->out, map_new(ctx_arena(g->c)))) return NULL;
  return x->channels
             ? "what it becomes is not made of what it was by nodes that only move elements, and leave the last "
               "axis as it is, whose places have a scale each"
             : "what it becomes is not made of what it was by nodes that only move elements";
}

/* ---- the graph ------------------------------------------------------------------------------- */
static value *scales(rewriting *w, const quant_cache *x, int64_t heads) {
  float *s = NEWN(w->a, float, heads * x->n + 1);
  for (int64_t i = 0; i < heads * x->n; i++) s[i] = x->scale[i % x->n];
  const ndarray d = {.type = ET_F32,
                     .rank = x->n > 1,
                     .dims = {heads * x->n},
                     .data = (const uint8_t *)s,
                     .bytes = (size_t)(heads * x->n) * sizeof *s};
  return graph_const(w->g, arena_fmt(w->a, "%s_scale", x->in->name), &d);
}
static value *zeros(rewriting *w, const quant_cache *x) {
  const ndarray d = {
      .type = ET_I8, .rank = x->n > 1, .dims = {x->n}, .data = NEWN(w->a, uint8_t, x->n + 1), .bytes = (size_t)x->n};
  return graph_const(w->g, arena_fmt(w->a, "%s_zero_point", x->in->name), &d);
}
/* QuantizeLinear or DequantizeLinear of v, behind the node that makes it. */
static value *converted(rewriting *w, const quant_cache *x, value *const by[2], value *v, bool to_codes) {
  value *out = graph_value(w->g, arena_fmt(w->a, "%s_%s", v->name, to_codes ? "quantized" : "dequantized"));
  out->type = to_codes ? ET_I8 : ET_F32, out->ranked = v->ranked, out->rank = v->rank, out->dims = v->dims;
  node *n = graph_node(w->g, to_codes ? "QuantizeLinear" : "DequantizeLinear", "", out->name);
  w->g->nodes.n--;
  vec_push(w->a, n->in, v);
  for (int k = 0; k < 2; k++) vec_push(w->a, n->in, by[k]);
  vec_push(w->a, n->out, out);
  if (x->n > 1) node_set_int(w->g, n, "axis", v->rank - 1);
  out->def = n;
  vec_push(w->a, w->added, ((placed){n, v->def}));
  return out;
}
static bool is_marked(const map *m, const value *v) { return map_getu(m, key(v), NULL); }
static void rewrite(rewriting *w, const quant_cache *x) {
  map *marked = map_new(w->a), *codes = map_new(w->a), *floats = map_new(w->a);
  value *const by[2] = {scales(w, x, 1), zeros(w, x)};
  mark(w->formulas, x, x->out, marked);
  for (uint32_t i = 0; i < w->g->nodes.n; i++) {
    node *n = w->g->nodes.v[i];
    const bool inside = n->out.n && n->out.v[0] && is_marked(marked, n->out.v[0]);
    for (uint32_t k = 0; k < n->in.n; k++) {
      value *v = n->in.v[k];
      uint64_t had;
      if (!v || v->type != ET_F32 || inside == is_marked(marked, v)) continue;
      map *made = inside ? codes : floats;
      if (!map_getu(made, key(v), &had)) map_putu(made, key(v), had = key(converted(w, x, by, v, inside)));
      n->in.v[k] = (value *)(uintptr_t)had;
    }
  }
  for (uint32_t i = 0; i < w->g->values.n; i++)
    if (is_marked(marked, w->g->values.v[i])) w->g->values.v[i]->type = ET_I8;
}
/* Its two caches get codes; by: those of the keys and of the values. */
static void attend_to_codes(rewriting *w, node *n, const quant_cache *const by[2]) {
  const value *past = by[0]->in;
  const bool many = by[0]->n > 1;
  const int64_t heads = many ? sym_int_or(w->g->c, past->dims[1], 1) : 1;
  while (n->in.n < K_SCALE) vec_push(ctx_arena(w->g->c), n->in, NULL);
  n->in.n = K_SCALE;
  for (int k = 0; k < 2; k++) {
    vec_push(ctx_arena(w->g->c), n->in, scales(w, by[k], heads));
    by[k]->in->type = by[k]->out->type = ET_I8;
    node_set_string(w->g, n, k ? "v_quant_type" : "k_quant_type", many ? "PER_CHANNEL" : "PER_TENSOR");
  }
  node_set_int(w->g, n, "kv_cache_bit_width", 8);
}
static void put_in_order(rewriting *w) {
  VEC(node *) all = {0};
  for (uint32_t i = 0; i <= w->g->nodes.n; i++) {
    const node *after = i ? w->g->nodes.v[i - 1] : NULL;
    if (i) vec_push(w->a, all, w->g->nodes.v[i - 1]);
    for (uint32_t k = 0; k < w->added.n; k++)
      if (w->added.v[k].after == after) vec_push(w->a, all, w->added.v[k].n);
  }
  w->g->nodes.v = (void *)all.v, w->g->nodes.n = all.n, w->g->nodes.cap = all.cap;
}
void quantize_insert_caches(graph *g, const map *formulas, const quant_cache *x, uint32_t n) {
  rewriting w = {.g = g, .a = ctx_arena(g->c), .formulas = formulas};
  for (uint32_t i = 0; i < n; i++) {
    node *by = x[i].out->def;
    if (!attends(by)) {
      if (x[i].in->type == ET_F32) rewrite(&w, &x[i]); /* else the other cache of its node came first */
      continue;
    }
    const quant_cache *both[2];
    for (uint32_t k = 0; k < 2; k++) both[k] = cache_of(x, n, by->in.v[PAST_KEY + k], by->out.v[PRESENT_KEY + k]);
    attend_to_codes(&w, by, both);
  }
  put_in_order(&w);
  g->opset = max64(g->opset, 13); /* the first in which scales may stand along an axis */
}
