/* How is a quantised layer written in the graph? As the ONNX standard says it: a tensor x that is computed becomes
 * QuantizeLinear(x, scale, zero point), and all its readers read DequantizeLinear of that; a constant is kept in i8,
 * and its readers read DequantizeLinear; an added constant is kept in i32, with the product of both scales. In bf16 the
 * same nodes are conversions to bf16 and back, and added constants stay f32. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

typedef struct inserter {
  graph *g;            /* the graph */
  arena *a;            /* its memory */
  const quant_plan *p; /* what is quantised */
  map *by;             /* value -> what its readers read instead */
  map *scales;         /* DequantizeLinear's result -> its scales: a constant */
  map *was;            /* DequantizeLinear's result -> the tensor that it stands for */
  map *behind;         /* value -> number of its tensor in p, plus one: what quantises it stands behind its node */
  map *after;          /* node -> the one that corrects its result */
  VEC(node *) first;   /* nodes that read only constants and inputs */
} inserter;
enum { CAST_F32 = 1, CAST_BF16 = 16 /* element types of the ONNX standard */ };
static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }

/* ---- pieces of a graph ----------------------------------------------------------------------- */
static value *constant(inserter *s, const char *name, etype t, int64_t n, bool vector, const void *data) {
  const ndarray d = {.type = t, .rank = vector, .dims = {n}, .data = data, .bytes = (size_t)n * et_bytes(t)};
  return graph_const(s->g, name, &d);
}
static value *result(inserter *s, const value *like, const char *what, etype t) {
  value *v = graph_value(s->g, arena_fmt(s->a, "%s_%s", like->name, what));
  v->type = t, v->ranked = like->ranked, v->rank = like->rank, v->dims = like->dims;
  return v;
}
/* A node that is listed in no graph yet. What made the result's name unique makes the node's so: layers may share a
 * constant, and each has a node of its own for it. */
static node *new_node(inserter *s, const char *op, const value *about, value *const in[3], value *out) {
  const char *number = out->name + strlen(out->source);
  node *n = graph_node(s->g, op, "", arena_fmt(s->a, "%s_%s%s", about->name, op, number));
  s->g->nodes.n--;
  for (int i = 0; i < 3; i++) vec_push(s->a, n->in, in[i]);
  vec_push(s->a, n->out, out);
  out->def = n;
  return n;
}
static value *dequantized(inserter *s, const value *about, value *codes, value *scale, value *zero, int32_t axis) {
  value *out = result(s, about, "dequantized", ET_F32);
  node *n = new_node(s, "DequantizeLinear", about, (value *const[]){codes, scale, zero}, out);
  if (axis >= 0) node_set_int(s->g, n, "axis", axis);
  map_putu(s->scales, key(out), key(scale)), map_putu(s->was, key(out), key(about));
  return out;
}

/* A conversion of v, which is about a tensor. */
static value *cast(inserter *s, const value *about, value *v, etype to) {
  value *out = result(s, about, to == ET_BF16 ? "bf16" : "rounded", to);
  node *n = new_node(s, "Cast", about, (value *const[]){v, NULL, NULL}, out);
  n->in.n = 1, n->name = arena_fmt(s->a, "%s_Cast", out->name);
  node_set_int(s->g, n, "to", to == ET_BF16 ? CAST_BF16 : CAST_F32);
  return out;
}

/* ---- tensors that are computed --------------------------------------------------------------- */
static void tensor_codes(inserter *s, const quant_tensor *x, value **q, value **dq) {
  if (s->p->bf16) {
    *q = cast(s, x->v, x->v, ET_BF16), *dq = cast(s, x->v, *q, ET_F32);
    map_putu(s->was, key(*dq), key(x->v));
    return;
  }
  const double width = x->range.hi - x->range.lo;
  float *scale = NEW(s->a, float);
  uint8_t *zero = NEW(s->a, uint8_t);
  *scale = width > 0 ? (float)(width / 255) : 1;
  if (!(*scale > 0)) *scale = 1;
  *zero = (uint8_t)fmin(fmax(nearbyint(-x->range.lo / (double)*scale), 0), 255);
  value *sv = constant(s, arena_fmt(s->a, "%s_scale", x->v->name), ET_F32, 1, false, scale);
  value *zv = constant(s, arena_fmt(s->a, "%s_zero_point", x->v->name), ET_U8, 1, false, zero);
  *q = result(s, x->v, "quantized", ET_U8);
  new_node(s, "QuantizeLinear", x->v, (value *const[]){x->v, sv, zv}, *q);
  *dq = dequantized(s, x->v, *q, sv, zv, -1);
}

/* ---- constants ------------------------------------------------------------------------------- */
typedef struct channels {
  int64_t outer; /* elements before the axis */
  int64_t n;     /* places on the axis; 1: all elements have one scale */
  int64_t inner; /* elements behind it */
} channels;
static channels channels_of(const ndarray *d, int32_t axis) {
  channels c = {1, 1, 1};
  for (uint32_t i = 0; i < d->rank; i++)
    *((int32_t)i < axis ? &c.outer : (int32_t)i == axis ? &c.n : &c.inner) *= d->dims[i];
  return c;
}
static float element(const ndarray *d, int64_t i) { /* constants of a file may lie anywhere */
  float x;
  memcpy(&x, (const uint8_t *)d->data + i * 4, sizeof x);
  return x;
}
/* The sum of the squares of the errors of one channel's codes. */
static double weight_error(const ndarray *d, channels c, int64_t k, float scale) {
  double all = 0;
  for (int64_t o = 0; o < c.outer; o++)
    for (int64_t i = 0; i < c.inner; i++) {
      const float x = element(d, (o * c.n + k) * c.inner + i);
      const double e = (double)(fminf(fmaxf(nearbyintf(x / scale), -127), 127) * scale) - (double)x;
      all += e * e;
    }
  return all;
}
/* The scale, at most `most`, that makes the square of the error least. */
static float best_scale(const ndarray *d, channels c, int64_t k, float most) {
  enum { STEPS = 32 };
  double best = INFINITY;
  float found = most;
  for (int i = 0; i <= STEPS; i++) {
    const float s = most * (1 - 0.5f * (float)i / STEPS);
    const double e = weight_error(d, c, k, s);
    if (e < best) best = e, found = s;
  }
  return found;
}
/* One scale for each channel: the greatest absolute value becomes 127. */
static float *weight_scales(inserter *s, const ndarray *d, channels c) {
  float *scale = NEWN(s->a, float, c.n + 1);
  for (int64_t o = 0, at = 0; o < c.outer; o++)
    for (int64_t k = 0; k < c.n; k++)
      for (int64_t i = 0; i < c.inner; i++, at++) scale[k] = fmaxf(scale[k], fabsf(element(d, at)));
  for (int64_t k = 0; k < c.n; k++) {
    scale[k] = scale[k] / 127 > 0 ? scale[k] / 127 : 1;
    if (s->p->least_error) scale[k] = best_scale(d, c, k, scale[k]);
  }
  return scale;
}
/* The codes of an added constant must fit 32 bits: where weights are tiny beside it, their scale grows. */
static void widen_scales(float *scale, channels c, const ndarray *bias, float by) {
  const double most = 0x7fffff00;
  for (int64_t k = 0; bias && k < bias->dims[0]; k++) {
    const double need = fabs((double)element(bias, k)) / (most * (double)by);
    float *x = &scale[c.n > 1 ? k : 0];
    if ((double)*x < need) *x = (float)need;
  }
}
/* A constant kept in bf16, rounded to nearest, ties to even; its readers read it as f32. */
static value *weight_rounded(inserter *s, value *v) {
  const ndarray *d = v->data;
  uint64_t had;
  if (map_getu(s->by, key(v), &had)) return (value *)(uintptr_t)had;
  uint16_t *codes = arena_alloc(s->a, d->bytes / 2 + 2);
  for (size_t i = 0; i < d->bytes / 4; i++) {
    uint32_t u;
    memcpy(&u, (const uint8_t *)d->data + i * 4, 4);
    codes[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  ndarray q = *d;
  q.type = ET_BF16, q.data = codes, q.bytes = d->bytes / 2, q.file = NULL, q.offset = 0;
  value *out = cast(s, v, graph_const(s->g, arena_fmt(s->a, "%s_bf16", v->name), &q), ET_F32);
  map_putu(s->by, key(v), key(out));
  vec_push(s->a, s->first, out->def);
  return out;
}
static value *weight_codes(inserter *s, const quant_factor *f, const value *bias, float by) {
  const ndarray *d = f->v->data;
  uint64_t had;
  if (map_getu(s->by, key(f->v), &had)) return (value *)(uintptr_t)had;
  const int32_t axis = s->p->per_channel ? f->axis : -1;
  const channels c = channels_of(d, axis);
  float *scale = weight_scales(s, d, axis >= 0 ? c : (channels){1, 1, c.outer * c.n * c.inner});
  widen_scales(scale, c, bias ? bias->data : NULL, by);
  int8_t *codes = arena_alloc(s->a, d->bytes / 4 + 1);
  for (int64_t o = 0, at = 0; o < c.outer; o++)
    for (int64_t k = 0; k < c.n; k++)
      for (int64_t i = 0; i < c.inner; i++, at++)
        codes[at] = (int8_t)fminf(fmaxf(nearbyintf(element(d, at) / scale[axis >= 0 ? k : 0]), -127), 127);
  ndarray q = *d;
  q.type = ET_I8, q.data = codes, q.bytes = d->bytes / 4, q.file = NULL, q.offset = 0;
  const int64_t n = axis >= 0 ? c.n : 1;
  value *cv = graph_const(s->g, arena_fmt(s->a, "%s_quantized", f->v->name), &q);
  value *sv = constant(s, arena_fmt(s->a, "%s_scale", f->v->name), ET_F32, n, axis >= 0, scale);
  value *zv = constant(s, arena_fmt(s->a, "%s_zero_point", f->v->name), ET_I8, n, axis >= 0, NEWN(s->a, int8_t, n + 1));
  value *out = dequantized(s, f->v, cv, sv, zv, axis);
  map_putu(s->by, key(f->v), key(out));
  vec_push(s->a, s->first, out->def);
  return out;
}
static float *scales_of(const inserter *s, const value *dq, int64_t *n) {
  uint64_t v = 0;
  map_getu(s->scales, key(dq), &v);
  const ndarray *d = ((const value *)(uintptr_t)v)->data;
  *n = d->rank ? d->dims[0] : 1;
  return (float *)(uintptr_t)d->data;
}
static value *bias_codes(inserter *s, const value *bias, const value *x, const value *w) {
  int64_t nx, nw;
  const float *sx = scales_of(s, x, &nx), *sw = scales_of(s, w, &nw);
  const int64_t n = bias->data->dims[0];
  float *scale = NEWN(s->a, float, nw + 1);
  int32_t *codes = NEWN(s->a, int32_t, n + 1);
  for (int64_t k = 0; k < nw; k++) scale[k] = EK_PLANTED("quantize-bias") ? sw[k] : sx[0] * sw[k];
  for (int64_t k = 0; k < n; k++)
    codes[k] = (int32_t)nearbyint((double)element(bias->data, k) / (double)scale[nw > 1 ? k : 0]);
  const bool vector = nw > 1 || s->p->per_channel;
  value *cv = constant(s, arena_fmt(s->a, "%s_quantized", bias->name), ET_I32, n, true, codes);
  value *sv = constant(s, arena_fmt(s->a, "%s_scale", bias->name), ET_F32, nw, vector, scale);
  value *zv =
      constant(s, arena_fmt(s->a, "%s_zero_point", bias->name), ET_I32, nw, vector, NEWN(s->a, int32_t, nw + 1));
  value *out = dequantized(s, bias, cv, sv, zv, vector ? 0 : -1);
  vec_push(s->a, s->first, out->def);
  return out;
}

/* ---- the graph ------------------------------------------------------------------------------- */
static void replace(node *n, const value *old, value *with) {
  for (uint32_t i = 0; i < n->in.n; i++)
    if (n->in.v[i] == old) n->in.v[i] = with;
}
/* The layer reads this one as its bias, which it may have had none of. */
static void set_bias(const inserter *s, const quant_layer *q, value *with) {
  if (q->bias) {
    replace(q->n, q->bias, with);
    return;
  }
  while (q->n->in.n <= (uint32_t)q->bias_input) vec_push(s->a, q->n->in, NULL);
  q->n->in.v[q->bias_input] = with;
}
static value *stand_in(const inserter *s, value *v) {
  uint64_t to;
  return map_getu(s->by, key(v), &to) ? (value *)(uintptr_t)to : v;
}
static void quantize_constants(inserter *s) {
  for (uint32_t i = 0; i < s->p->nlayers; i++) {
    const quant_layer *q = &s->p->layers[i];
    if (q->kept || !q->f[1].v->data) continue;
    if (s->p->bf16) {
      replace(q->n, q->f[1].v, weight_rounded(s, q->f[1].v));
      continue;
    }
    int64_t n;
    const float *by = s->p->shifts ? s->p->shifts[i] : NULL;
    value *x = stand_in(s, q->f[0].v), *bias = q->bias;
    if (by && (bias || q->bias_input >= 0)) bias = quantize_shifted(s->g, q, by, 1, s->a);
    value *w = weight_codes(s, &q->f[1], bias, scales_of(s, x, &n)[0]);
    replace(q->n, q->f[1].v, w);
    if (bias) set_bias(s, q, bias_codes(s, bias, x, w));
    if (by && !bias) map_putu(s->after, key(q->n), key(quantize_shift_result(s->g, q, by, s->a)));
  }
}
/* Layers that stay as they are go on reading what they read. */
static void leave_kept(const inserter *s) {
  for (uint32_t i = 0; i < s->p->nlayers; i++) {
    const quant_layer *q = &s->p->layers[i];
    for (int k = 0; k < 2 && q->kept; k++)
      if (q->f[k].v) replace(q->n, stand_in(s, q->f[k].v), q->f[k].v);
  }
}
static map *copy_of(const map *m, arena *a) {
  map *r = map_new(a);
  for (uint32_t i = 0; i < map_count(m); i++) {
    size_t n;
    uint64_t v;
    const void *k = map_key(m, i, &n, &v);
    map_put(r, k, n, v);
  }
  return r;
}
typedef VEC(node *) node_list;
/* The node, and behind it what quantises its results. */
static void append(const inserter *s, node_list *all, node *n, value *const *codes) {
  vec_push(s->a, *all, n);
  for (uint32_t k = 0; k < n->out.n; k++) {
    uint64_t t, dq;
    if (!n->out.v[k] || !map_getu(s->behind, key(n->out.v[k]), &t) || !map_getu(s->by, key(n->out.v[k]), &dq)) continue;
    vec_push(s->a, *all, codes[t - 1]->def);
    vec_push(s->a, *all, ((value *)(uintptr_t)dq)->def);
  }
}
/* The layers' nodes, with lists of inputs and results of their own. */
static node *copies_of(graph *g, const quant_plan *p) {
  arena *a = ctx_arena(g->c);
  node *all = NEWN(a, node, p->nlayers + 1);
  for (uint32_t i = 0; i < p->nlayers; i++) {
    node *n = p->layers[i].n, *x = &all[i];
    *x = *n;
    memset(&x->in, 0, sizeof x->in), memset(&x->out, 0, sizeof x->out);
    for (uint32_t k = 0; k < n->in.n; k++) vec_push(a, x->in, n->in.v[k]);
    for (uint32_t k = 0; k < n->out.n; k++) vec_push(a, x->out, n->out.v[k]);
  }
  return all;
}
quant_undo quantize_insert(graph *g, const quant_plan *p) {
  arena *a = p->a;
  inserter s = {.g = g,
                .a = a,
                .p = p,
                .by = map_new(a),
                .scales = map_new(a),
                .was = map_new(a),
                .behind = map_new(a),
                .after = map_new(a)};
  const quant_undo undo = {.nodes = arena_dup(ctx_arena(g->c), g->nodes.v, g->nodes.n * sizeof *g->nodes.v),
                           .n = g->nodes.n,
                           .values = g->values.n,
                           .names = g->names,
                           .layers = copies_of(g, p),
                           .outputs = g->outputs.n,
                           .opset = g->opset,
                           .was = s.was};
  g->names = copy_of(g->names, a);
  if (p->codes) {
    quantize_insert_blocks(g, p);
    return undo;
  }
  value **codes = NEWN(a, value *, p->ntensors + 1);
  map *activations = map_new(a);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const quant_tensor *x = &p->tensors[i];
    value *dq;
    tensor_codes(&s, x, &codes[i], &dq);
    map_putu(s.by, key(x->v), key(dq)), map_putu(activations, key(x->v), key(dq));
    if (x->v->def)
      map_putu(s.behind, key(x->v), i + 1);
    else {
      vec_push(a, s.first, codes[i]->def);
      vec_push(a, s.first, dq->def);
    }
  }
  quantize_constants(&s);
  graph_replace_uses(g, activations);
  leave_kept(&s);
  node_list all = {0};
  for (uint32_t i = 0; i < s.first.n; i++) vec_push(a, all, s.first.v[i]);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    uint64_t after;
    append(&s, &all, g->nodes.v[i], codes);
    if (map_getu(s.after, key(g->nodes.v[i]), &after)) append(&s, &all, (node *)(uintptr_t)after, codes);
  }
  g->nodes.v = (void *)all.v, g->nodes.n = all.n, g->nodes.cap = all.cap;
  g->opset = max64(g->opset, 13); /* the first in which scales may stand along an axis */
  return undo;
}
void quantize_remove(graph *g, const quant_plan *p, const quant_undo *u) {
  g->nodes.v = u->nodes, g->nodes.n = g->nodes.cap = u->n, g->outputs.n = u->outputs;
  for (uint32_t i = 0; i < p->nlayers; i++) *p->layers[i].n = u->layers[i];
  for (uint32_t i = 0; i < u->n; i++)
    for (uint32_t k = 0; k < u->nodes[i]->out.n; k++)
      if (u->nodes[i]->out.v[k]) u->nodes[i]->out.v[k]->def = u->nodes[i];
  graph_replace_uses(g, u->was);
  g->values.n = u->values, g->names = u->names, g->opset = u->opset;
}
