/* How does a graph become an ONNX file?
 *
 * Messages are put together from the inside out as lists of pieces: small fields are text of their own, the bytes
 * of large constants are pieces that point to where they lie (the mapped file, mostly), so that nothing large is
 * copied. What does not fit into one message (2 GiB) goes beside the file as external data. Every constant
 * becomes an initialiser of the root graph: names are unique in the whole model.
 *
 * Nodes are in the newest form of their operators, so the opset is the least in which all these forms are valid,
 * but not older than the model's own.
 */
#include "onnx/onnx.h"
#include <string.h>

typedef struct msg {
  arena *a;     /* memory */
  VEC(bytes) v; /* finished pieces */
  size_t n;     /* bytes of all pieces */
  sbuf open;    /* the piece that is being written */
} msg;
typedef struct writer {
  ctx *c;                       /* context */
  arena *a;                     /* memory */
  const graph *g;               /* the graph */
  map *seen;                    /* constants written: value -> 1 */
  VEC(const value *) constants; /* constants to be written */
  map *domains;                 /* name -> version */
  int64_t opset;                /* version of the standard's operators */
  const char *data_name;        /* name of the file of external data; NULL: everything in one file */
  VEC(bytes) external;          /* bytes of the external file */
  uint64_t external_bytes;      /* number of bytes in `external` */
} writer;
enum {
  VARINT = 0,
  LENGTH = 2,
  FIXED32 = 5,
  COPY = 4096 /* bytes up to which a piece is copied */,
  ALIGN = 4096,
  INLINE_BYTES = 1024 /* bytes of a tensor that never go elsewhere */
};

/* ---- pieces ---------------------------------------------------------------------------------- */
static msg msg_new(arena *a) { return (msg){.a = a, .open = sbuf_new(a)}; }
static void close_piece(msg *m) {
  if (!m->open.n) return;
  vec_push(m->a, m->v, ((bytes){(const uint8_t *)m->open.s, m->open.n}));
  m->open = sbuf_new(m->a);
}
static void put(msg *m, const void *p, size_t n) {
  if (!n) return;
  m->n += n;
  if (n <= COPY) {
    sb_putn(&m->open, p, n);
    return;
  }
  close_piece(m);
  vec_push(m->a, m->v, ((bytes){p, n}));
}
static void varint(msg *m, uint64_t x) {
  uint8_t b[10];
  size_t n = 0;
  do b[n++] = (uint8_t)((x & 0x7f) | (x > 0x7f ? 0x80 : 0));
  while (x >>= 7);
  put(m, b, n);
}
static void field(msg *m, uint32_t no, uint32_t wire) { varint(m, no << 3 | wire); }
static void put_int(msg *m, uint32_t no, int64_t v) { field(m, no, VARINT), varint(m, (uint64_t)v); }
static void put_bytes(msg *m, uint32_t no, const void *p, size_t n) {
  field(m, no, LENGTH), varint(m, n), put(m, p, n);
}
static void put_text(msg *m, uint32_t no, const char *s) { put_bytes(m, no, s, strlen(s)); }
static void put_float(msg *m, uint32_t no, double f) {
  float x = (float)f;
  field(m, no, FIXED32), put(m, &x, 4);
}
static void put_msg(msg *m, uint32_t no, msg *in) {
  close_piece(in);
  field(m, no, LENGTH), varint(m, in->n);
  for (uint32_t i = 0; i < in->v.n; i++) put(m, in->v.v[i].p, in->v.v[i].n);
}

/* ---- tensors --------------------------------------------------------------------------------- */
/* narrow elements share bytes, the first one in the low bits */
static bytes packed(arena *a, const ndarray *d, int64_t n) {
  uint32_t bits = et_bits(d->type), per = 8 / bits;
  uint8_t *out = arena_alloc(a, (size_t)((n + per - 1) / per) + 1);
  for (int64_t i = 0; i < n; i++)
    out[i / per] |= (uint8_t)((((const uint8_t *)d->data)[i] & ((1u << bits) - 1)) << (uint32_t)(i % per) * bits);
  return (bytes){out, (size_t)((n + per - 1) / per)};
}
static msg tensor(writer *w, const ndarray *d, const char *name) {
  msg t = msg_new(w->a);
  int64_t n = 0;
  nd_count(d, &n);
  for (uint32_t i = 0; i < d->rank; i++) put_int(&t, 1, d->dims[i]);
  put_int(&t, 2, et_to_onnx(d->type));
  if (name) put_text(&t, 8, name);
  if (d->type == ET_STR) {
    for (int64_t i = 0; i < n; i++) put_bytes(&t, 6, ((const bytes *)d->data)[i].p, ((const bytes *)d->data)[i].n);
    return t;
  }
  bytes raw = et_bits(d->type) < 8 ? packed(w->a, d, n) : (bytes){d->data, (size_t)n * et_bytes(d->type)};
  if (!w->data_name || !name || raw.n < INLINE_BYTES) {
    put_bytes(&t, 9, raw.p, raw.n);
    return t;
  }
  uint64_t at = (w->external_bytes + ALIGN - 1) / ALIGN * ALIGN;
  if (at > w->external_bytes)
    vec_push(w->a, w->external, ((bytes){arena_alloc(w->a, at - w->external_bytes), (size_t)(at - w->external_bytes)}));
  vec_push(w->a, w->external, raw);
  w->external_bytes = at + raw.n;
  const char *keys[] = {"location", "offset", "length"},
             *values[] = {w->data_name, arena_fmt(w->a, "%llu", (unsigned long long)at), arena_fmt(w->a, "%zu", raw.n)};
  for (int i = 0; i < 3; i++) {
    msg e = msg_new(w->a);
    put_text(&e, 1, keys[i]), put_text(&e, 2, values[i]);
    put_msg(&t, 13, &e);
  }
  put_int(&t, 14, 1);
  return t;
}

/* ---- types ----------------------------------------------------------------------------------- */
static msg tensor_type(writer *w, etype t, bool ranked, uint32_t rank, const sz *dims) {
  msg in = msg_new(w->a), out = msg_new(w->a);
  put_int(&in, 1, et_to_onnx(t));
  if (ranked) {
    msg shape = msg_new(w->a);
    for (uint32_t i = 0; i < rank; i++) {
      msg d = msg_new(w->a);
      int64_t n;
      if (dims[i] && sym_is_int(w->c, dims[i], &n))
        put_int(&d, 1, n);
      else if (dims[i])
        put_text(&d, 2, sym_str(w->c, dims[i]));
      put_msg(&shape, 1, &d);
    }
    put_msg(&in, 2, &shape);
  }
  put_msg(&out, 1, &in);
  return out;
}
static msg wrapped(writer *w, uint32_t no, msg elem) { /* The type of a sequence or an optional of `elem`. */
  msg in = msg_new(w->a), out = msg_new(w->a);
  put_msg(&in, 1, &elem);
  put_msg(&out, no, &in);
  return out;
}
static msg value_info(writer *w, const value *v) {
  msg m = msg_new(w->a);
  put_text(&m, 1, v->name);
  if (!v->type) return m;
  msg t = tensor_type(w, v->type, v->ranked, v->rank, v->dims);
  if (v->kind == VALUE_LIST || v->kind == VALUE_OPTIONAL_LIST) t = wrapped(w, 4, t);
  if (v->kind == VALUE_OPTIONAL || v->kind == VALUE_OPTIONAL_LIST) t = wrapped(w, 9, t);
  put_msg(&m, 2, &t);
  return m;
}

/* ---- nodes ----------------------------------------------------------------------------------- */
static msg graph_msg(writer *w, const graph *g);
static msg attribute(writer *w, const attr *a) {
  enum { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, TYPE = 13 };
  msg m = msg_new(w->a);
  put_text(&m, 1, a->name);
  int kind = 0;
  switch (a->kind) {
  case AK_INT:
    kind = INT, put_int(&m, 3, a->i);
    break;
  case AK_FLOAT:
    kind = FLOAT, put_float(&m, 2, a->f);
    break;
  case AK_STRING:
    kind = STRING, put_text(&m, 4, a->s);
    break;
  case AK_INTS:
    kind = INTS;
    for (uint32_t i = 0; i < a->n; i++) put_int(&m, 8, a->ints[i]);
    break;
  case AK_FLOATS:
    kind = FLOATS;
    for (uint32_t i = 0; i < a->n; i++) put_float(&m, 7, a->floats[i]);
    break;
  case AK_STRINGS:
    kind = STRINGS;
    for (uint32_t i = 0; i < a->n; i++) put_text(&m, 9, a->strings[i]);
    break;
  case AK_TENSOR:
  case AK_TENSORS:
    kind = a->kind == AK_TENSOR ? TENSOR : TENSORS;
    for (uint32_t i = 0; i < (a->kind == AK_TENSOR ? 1 : a->n); i++) {
      msg t = tensor(w, &a->tensor[i], NULL);
      put_msg(&m, a->kind == AK_TENSOR ? 5 : 10, &t);
    }
    break;
  case AK_GRAPH: {
    msg g = graph_msg(w, a->g);
    kind = GRAPH, put_msg(&m, 6, &g);
    break;
  }
  case AK_TYPE: {
    msg t = tensor_type(w, (etype)a->i, false, 0, NULL);
    kind = TYPE, put_msg(&m, 14, &t);
    break;
  }
  }
  put_int(&m, 20, kind);
  return m;
}
static void use(writer *w, const value *v) {
  if (!v || !v->data || map_getu(w->seen, (uint64_t)(uintptr_t)v, NULL)) return;
  map_putu(w->seen, (uint64_t)(uintptr_t)v, 1);
  vec_push(w->a, w->constants, v);
}
static msg node_msg(writer *w, const node *n) {
  msg m = msg_new(w->a);
  uint64_t have;
  int versions[16];
  for (uint32_t i = 0; i < n->in.n; i++) {
    put_text(&m, 1, n->in.v[i] ? n->in.v[i]->name : ""), use(w, n->in.v[i]);
    /* Resize may leave out its regions since then, the others since earlier */
    if (!n->in.v[i] && !n->domain[0]) w->opset = max64(w->opset, 13);
  }
  for (uint32_t i = 0; i < n->out.n; i++) put_text(&m, 2, n->out.v[i] ? n->out.v[i]->name : "");
  put_text(&m, 3, n->name), put_text(&m, 4, n->op);
  for (uint32_t i = 0; i < n->attrs.n; i++) {
    msg a = attribute(w, &n->attrs.v[i]);
    put_msg(&m, 5, &a);
  }
  if (n->domain[0]) {
    put_text(&m, 7, n->domain);
    if (!map_gets(w->domains, n->domain, &have)) map_puts(w->domains, n->domain, 1);
  } else
    for (uint32_t i = EK_PLANTED("onnx-write") ? 0 : onnx_changes(n->op, versions, 16); i-- > 0;)
      w->opset = max64(w->opset, versions[i]);
  return m;
}
/* What the model had as a node stays one, so that it doesn't become a parameter; but for large ones in another file. */
static bool is_node(const writer *w, const value *v) { return v->literal && !w->data_name; }
static void put_constant_nodes(writer *w, msg *m) {
  for (uint32_t i = 0; i < w->constants.n; i++) {
    const value *v = w->constants.v[i];
    if (!is_node(w, v)) continue;
    const attr a = {.name = "value", .kind = AK_TENSOR, .tensor = v->data};
    msg n = msg_new(w->a), value = attribute(w, &a);
    put_text(&n, 2, v->name), put_text(&n, 3, v->name), put_text(&n, 4, "Constant");
    put_msg(&n, 5, &value);
    put_msg(m, 1, &n);
  }
}
static msg graph_msg(writer *w, const graph *g) {
  msg m = msg_new(w->a), *nodes = NEWN(w->a, msg, g->nodes.n + 1);
  bool root = !g->parent;
  for (uint32_t i = 0; i < g->nodes.n; i++) nodes[i] = node_msg(w, g->nodes.v[i]);
  for (uint32_t i = 0; root && i < g->outputs.n; i++) use(w, g->outputs.v[i]);
  if (root) put_constant_nodes(w, &m);
  for (uint32_t i = 0; i < g->nodes.n; i++) put_msg(&m, 1, &nodes[i]);
  put_text(&m, 2, g->name[0] ? g->name : "graph");
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    msg v = value_info(w, g->inputs.v[i]);
    put_msg(&m, 11, &v);
  }
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    msg v = value_info(w, g->outputs.v[i]);
    use(w, g->outputs.v[i]);
    put_msg(&m, 12, &v);
  }
  for (uint32_t i = 0; root && i < w->constants.n; i++) {
    if (is_node(w, w->constants.v[i])) continue;
    msg t = tensor(w, w->constants.v[i]->data, w->constants.v[i]->name);
    put_msg(&m, 5, &t);
  }
  return m;
}

/* ---- the model ------------------------------------------------------------------------------- */
static int64_t ir_of(int64_t opset) { /* the version of the format that came with an opset */
  static const struct {
    int opset; /* version of the operators, and newer */
    int ir;    /* version of the format that it needs */
  } first[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {0, 4}};
  uint32_t i = 0;
  while (opset < first[i].opset) i++;
  return first[i].ir;
}
static msg model(writer *w) {
  const graph *g = w->g;
  uint64_t version;
  w->seen = map_new(w->a), w->domains = map_new(w->a);
  w->constants.n = 0, w->external.n = 0, w->external_bytes = 0;
  for (uint32_t i = 0; i < g->domains.n; i++) map_puts(w->domains, g->domains.v[i].name, (uint64_t)g->domains.v[i].i);
  w->opset = min64(max64(g->opset, 7), ONNX_NEWEST_OPSET);
  msg body = graph_msg(w, g), m = msg_new(w->a);
  put_int(&m, 1, max64(min64(g->ir_version, ONNX_NEWEST_IR), ir_of(w->opset)));
  put_text(&m, 2, "einkorn");
  put_msg(&m, 7, &body);
  msg o = msg_new(w->a);
  put_text(&o, 1, ""), put_int(&o, 2, w->opset);
  put_msg(&m, 8, &o);
  for (uint32_t i = 0; i < map_count(w->domains); i++) {
    size_t n;
    const char *d = map_key(w->domains, i, &n, &version);
    o = msg_new(w->a);
    put_bytes(&o, 1, d, n), put_int(&o, 2, (int64_t)version);
    put_msg(&m, 8, &o);
  }
  for (uint32_t i = 0; i < g->metadata.n; i++) {
    o = msg_new(w->a);
    put_text(&o, 1, g->metadata.v[i].name), put_text(&o, 2, g->metadata.v[i].s);
    put_msg(&m, 14, &o);
  }
  close_piece(&m);
  return m;
}
typedef struct pieces {
  const bytes *v; /* the pieces */
  uint32_t n;     /* number of pieces */
} pieces;
static void fill(void *env, file_out *f) {
  const pieces *p = env;
  for (uint32_t i = 0; i < p->n; i++) file_put(f, p->v[i].p, p->v[i].n);
}
bool onnx_write(const graph *g, const char *path, uint64_t *size) {
  for (uint32_t i = 0; i < g->inputs.n + g->outputs.n; i++) {
    const value *v = i < g->inputs.n ? g->inputs.v[i] : g->outputs.v[i - g->inputs.n];
    if (!v->type)
      return diag_error(g->c, E_UNSUPPORTED, NULL, "'%s' has no type that is known, so the model cannot be written",
                        v->source),
             false;
  }
  const uint64_t most = (uint64_t)2 << 30;
  writer w = {.c = g->c, .a = ctx_arena(g->c), .g = g};
  msg m = model(&w);
  if (m.n >= most) {
    const char *data = arena_fmt(w.a, "%s.data", path), *slash = strrchr(data, '/');
    w.data_name = slash ? slash + 1 : data;
    m = model(&w);
    if (m.n >= most)
      return diag_error(g->c, E_UNSUPPORTED, NULL,
                        "%s: the model takes more than 2 GiB without its constants, which an ONNX file cannot hold",
                        path),
             false;
    if (!file_write_by(g->c, data, fill, &(pieces){w.external.v, w.external.n})) return false;
  }
  *size = m.n + w.external_bytes;
  return file_write_by(g->c, path, fill, &(pieces){m.v.v, m.v.n});
}
