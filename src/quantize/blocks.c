/* How does a matrix of constants become one of a few bits? Each row (the weights of one element of the result) is cut
 * into blocks with a scale each, and a zero point where that is asked for; a weight is scale * (code - zero point). In
 * the graph the product becomes com.microsoft's MatMulNBits, which unpacks the codes as it multiplies. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

/* ---- codes ----------------------------------------------------------------------------------- */
int quantize_stored_bits(const quant_form *f) { return f->bits == 3 ? 4 : f->bits; }
static int middle(const quant_form *f) { return 1 << (quantize_stored_bits(f) - 1); }
static int least_code(const quant_form *f) { return f->zero_points ? 0 : middle(f) - (1 << (f->bits - 1)); }
int quantize_code(const quant_form *f, double x, float scale, int zero) {
  const int least = least_code(f), most = least + (1 << f->bits) - 1;
  return (int)fmin(fmax(nearbyint(x / (double)scale) + zero, least), most);
}
typedef struct block_code {
  float scale; /* of a block */
  int zero;    /* its zero point */
} block_code;
/* With a zero point the codes reach from the least to the greatest value; else the greatest absolute value, with its
 * sign, becomes the least code, of which there is one more. The ends are `part` of that. */
static block_code reach(const quant_form *f, const float *x, int64_t n, double part) {
  double lo = 0, hi = 0, far = 0;
  for (int64_t i = 0; i < n; i++) {
    const double v = (double)x[i];
    lo = fmin(lo, v), hi = fmax(hi, v), far = fabs(v) > fabs(far) ? v : far;
  }
  const double step = f->zero_points ? (hi - lo) / ((1 << f->bits) - 1) : -far / (1 << (f->bits - 1));
  block_code b = {(float)(step * part), middle(f)};
  if (b.scale == 0 || !isfinite(1 / b.scale)) b.scale = 1;
  if (f->zero_points) b.zero = (int)fmin(fmax(nearbyint(-lo * part / (double)b.scale), 0), (1 << f->bits) - 1);
  return b;
}
static double error_of(const quant_form *f, const float *x, int64_t n, block_code b) {
  double all = 0;
  for (int64_t i = 0; i < n; i++) {
    const double v = (double)x[i], e = (double)b.scale * (quantize_code(f, v, b.scale, b.zero) - b.zero) - v;
    all += e * e;
  }
  return all;
}
static block_code best_block(const quant_form *f, const float *x, int64_t n) {
  enum { STEPS = 32 };
  block_code found = reach(f, x, n, 1);
  double best = error_of(f, x, n, found);
  for (int i = 1; f->least_error && i <= STEPS; i++) {
    const block_code b = reach(f, x, n, 1 - 0.5 * i / STEPS);
    const double e = error_of(f, x, n, b);
    if (e < best) best = e, found = b;
  }
  return found;
}
quant_codes quantize_blocks(const quant_form *f, const float *weights, int64_t n, int64_t k, arena *a) {
  quant_codes c = {.form = *f, .n = n, .k = k, .blocks = (k + f->block - 1) / f->block};
  const int64_t width = c.blocks * f->block;
  c.codes = NEWN(a, uint8_t, n *width + 1);
  c.scales = NEWN(a, float, n *c.blocks + 1), c.zeros = NEWN(a, uint8_t, n *c.blocks + 1);
  for (int64_t i = 0; i < n * c.blocks; i++) {
    const int64_t row = i / c.blocks, from = i % c.blocks * f->block, to = min64(from + f->block, k);
    const float *x = weights + row * k + from;
    const block_code b = best_block(f, x, to - from);
    c.scales[i] = b.scale, c.zeros[i] = (uint8_t)b.zero;
    uint8_t *code = c.codes + i * f->block;
    memset(code, b.zero, (size_t)f->block); /* what is behind the end counts as 0 */
    for (int64_t j = 0; j < to - from; j++) code[j] = (uint8_t)quantize_code(f, (double)x[j], b.scale, b.zero);
  }
  return c;
}
float *quantize_matrix(const quant_layer *x, int64_t *n, int64_t *k, arena *a) {
  const ndarray *d = x->f[1].v->data;
  const bool across = x->summed == 0; /* the weights of an element of the result lie in a column */
  *k = d->dims[across ? 0 : 1], *n = d->dims[across ? 1 : 0];
  float *w = NEWN(a, float, *n **k + 1);
  for (int64_t i = 0; i < *n; i++)
    for (int64_t j = 0; j < *k; j++)
      memcpy(&w[i * *k + j], (const uint8_t *)d->data + (across ? j * *n + i : i * *k + j) * 4, 4);
  return w;
}

/* ---- the graph ------------------------------------------------------------------------------- */
/* Codes of `bits` in bytes, the first one lowest; each row of codes begins a byte. */
static uint8_t *packed(const uint8_t *codes, int64_t rows, int64_t n, int bits, int64_t *bytes, arena *a) {
  const int64_t share = 8 / bits, width = (n + share - 1) / share;
  uint8_t *to = NEWN(a, uint8_t, rows *width + 1);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++)
      to[r * width + i / share] |=
          (uint8_t)(codes[r * n + i] << (int)((EK_PLANTED("quantize-blocks") ? share - 1 - i % share : i % share) *
                                              bits));
  *bytes = width;
  return to;
}
static value *constant(graph *g, const char *name, ndarray d) {
  int64_t n = 1;
  for (uint32_t i = 0; i < d.rank; i++) n *= d.dims[i];
  d.bytes = (size_t)n * et_bytes(d.type);
  return graph_const(g, name, &d);
}
/* A node that takes x's place, with the same result. */
static node *product(graph *g, const quant_layer *x, const quant_codes *c, arena *a) {
  const int bits = quantize_stored_bits(&c->form);
  const char *name = x->f[1].v->name;
  int64_t width, bytes;
  node *n = graph_node(g, "MatMulNBits", "com.microsoft", x->n->name);
  g->nodes.n--;
  n->name = x->n->name;
  const uint8_t *w = packed(c->codes, c->n * c->blocks, c->form.block, bits, &width, a);
  const uint8_t *z = packed(c->zeros, c->n, c->blocks, bits, &bytes, a);
  vec_push(a, n->in, x->f[0].v);
  vec_push(a, n->in,
           constant(g, arena_fmt(a, "%s_quantized", name),
                    (ndarray){.type = ET_U8, .rank = 3, .dims = {c->n, c->blocks, width}, .data = w}));
  vec_push(a, n->in,
           constant(g, arena_fmt(a, "%s_scale", name),
                    (ndarray){.type = ET_F32, .rank = 2, .dims = {c->n, c->blocks}, .data = c->scales}));
  if (c->form.zero_points || x->bias)
    vec_push(a, n->in,
             !c->form.zero_points ? NULL
                                  : constant(g, arena_fmt(a, "%s_zero_point", name),
                                             (ndarray){.type = ET_U8, .rank = 2, .dims = {c->n, bytes}, .data = z}));
  if (x->bias) {
    vec_push(a, n->in, NULL);
    vec_push(a, n->in, x->bias);
  }
  node_set_int(g, n, "K", c->k), node_set_int(g, n, "N", c->n), node_set_int(g, n, "bits", bits);
  node_set_int(g, n, "block_size", c->form.block);
  if (c->form.accuracy_level) node_set_int(g, n, "accuracy_level", c->form.accuracy_level);
  vec_push(a, n->out, x->n->out.v[0]);
  x->n->out.v[0]->def = n;
  return n;
}
void quantize_insert_blocks(graph *g, const quant_plan *p) {
  map *by = map_new(p->a);
  for (uint32_t i = 0; i < p->nlayers; i++)
    if (!p->layers[i].kept)
      map_putu(by, (uint64_t)(uintptr_t)p->layers[i].n,
               (uint64_t)(uintptr_t)product(g, &p->layers[i], &p->codes[i], p->a));
  node **nodes = NEWN(p->a, node *, g->nodes.n + 1);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    uint64_t is;
    nodes[i] = map_getu(by, (uint64_t)(uintptr_t)g->nodes.v[i], &is) ? (node *)(uintptr_t)is : g->nodes.v[i];
  }
  g->nodes.v = (void *)nodes, g->nodes.cap = g->nodes.n;
}
