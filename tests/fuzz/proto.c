/* How is an ONNX file changed by its fields? It is read into a tree; one field is chosen at random and changed as
 * befits its kind: numbers become odd numbers or those of another field, texts become texts from elsewhere in
 * the model (so that names meet) or operators' names, messages are dropped, doubled, exchanged, moved, or
 * emptied; lists of numbers change length and contents. Then the tree is written. */
#include "proto.h"
#include <stdlib.h>
#include <string.h>

static const struct {
  message in;
  uint32_t no;
  field_kind kind;
  message sub;
} schema[] = {
    {M_MODEL, 1, F_INT, 0},
    {M_MODEL, 2, F_TEXT, 0},
    {M_MODEL, 3, F_TEXT, 0},
    {M_MODEL, 7, F_MSG, M_GRAPH},
    {M_MODEL, 8, F_MSG, M_OPSET},
    {M_MODEL, 14, F_MSG, M_PAIR},
    {M_MODEL, 25, F_MSG, M_FUNCTION},
    {M_GRAPH, 1, F_MSG, M_NODE},
    {M_GRAPH, 2, F_TEXT, 0},
    {M_GRAPH, 5, F_MSG, M_TENSOR},
    {M_GRAPH, 11, F_MSG, M_VALUE},
    {M_GRAPH, 12, F_MSG, M_VALUE},
    {M_GRAPH, 13, F_MSG, M_VALUE},
    {M_GRAPH, 15, F_MSG, M_SPARSE},
    {M_NODE, 1, F_TEXT, 0},
    {M_NODE, 2, F_TEXT, 0},
    {M_NODE, 3, F_TEXT, 0},
    {M_NODE, 4, F_TEXT, 0},
    {M_NODE, 5, F_MSG, M_ATTR},
    {M_NODE, 7, F_TEXT, 0},
    {M_NODE, 8, F_TEXT, 0},
    {M_ATTR, 1, F_TEXT, 0},
    {M_ATTR, 2, F_FLOAT, 0},
    {M_ATTR, 3, F_INT, 0},
    {M_ATTR, 4, F_TEXT, 0},
    {M_ATTR, 5, F_MSG, M_TENSOR},
    {M_ATTR, 6, F_MSG, M_GRAPH},
    {M_ATTR, 7, F_FLOATS, 0},
    {M_ATTR, 8, F_INTS, 0},
    {M_ATTR, 9, F_TEXT, 0},
    {M_ATTR, 10, F_MSG, M_TENSOR},
    {M_ATTR, 11, F_MSG, M_GRAPH},
    {M_ATTR, 14, F_MSG, M_TYPE},
    {M_ATTR, 20, F_INT, 0},
    {M_ATTR, 21, F_TEXT, 0},
    {M_ATTR, 22, F_MSG, M_SPARSE},
    {M_TENSOR, 1, F_INTS, 0},
    {M_TENSOR, 2, F_INT, 0},
    {M_TENSOR, 4, F_FLOATS, 0},
    {M_TENSOR, 5, F_INTS, 0},
    {M_TENSOR, 6, F_TEXT, 0},
    {M_TENSOR, 7, F_INTS, 0},
    {M_TENSOR, 8, F_TEXT, 0},
    {M_TENSOR, 9, F_RAW, 0},
    {M_TENSOR, 10, F_DOUBLES, 0},
    {M_TENSOR, 11, F_INTS, 0},
    {M_TENSOR, 13, F_MSG, M_PAIR},
    {M_TENSOR, 14, F_INT, 0},
    {M_SPARSE, 1, F_MSG, M_TENSOR},
    {M_SPARSE, 2, F_MSG, M_TENSOR},
    {M_SPARSE, 3, F_INTS, 0},
    {M_VALUE, 1, F_TEXT, 0},
    {M_VALUE, 2, F_MSG, M_TYPE},
    {M_TYPE, 1, F_MSG, M_TENSOR_TYPE},
    {M_TYPE, 4, F_MSG, M_ELEM},
    {M_TYPE, 5, F_MSG, M_MAP},
    {M_TYPE, 8, F_MSG, M_TENSOR_TYPE},
    {M_TYPE, 9, F_MSG, M_ELEM},
    {M_TENSOR_TYPE, 1, F_INT, 0},
    {M_TENSOR_TYPE, 2, F_MSG, M_SHAPE},
    {M_SHAPE, 1, F_MSG, M_DIM},
    {M_DIM, 1, F_INT, 0},
    {M_DIM, 2, F_TEXT, 0},
    {M_ELEM, 1, F_MSG, M_TYPE},
    {M_MAP, 1, F_INT, 0},
    {M_MAP, 2, F_MSG, M_TYPE},
    {M_OPSET, 1, F_TEXT, 0},
    {M_OPSET, 2, F_INT, 0},
    {M_FUNCTION, 1, F_TEXT, 0},
    {M_FUNCTION, 4, F_TEXT, 0},
    {M_FUNCTION, 5, F_TEXT, 0},
    {M_FUNCTION, 6, F_TEXT, 0},
    {M_FUNCTION, 7, F_MSG, M_NODE},
    {M_FUNCTION, 9, F_MSG, M_OPSET},
    {M_FUNCTION, 10, F_TEXT, 0},
    {M_FUNCTION, 11, F_MSG, M_ATTR},
    {M_FUNCTION, 13, F_TEXT, 0},
    {M_PAIR, 1, F_TEXT, 0},
    {M_PAIR, 2, F_TEXT, 0},
};
enum { FIELDS = sizeof schema / sizeof *schema, DEPTH = 100 };

/* ---- memory: one region ---------------------------------------------------------------------- */
static uint8_t *region;
static size_t used;
enum { REGION = 96 << 20 };
static void *get(size_t n) {
  n = (n + 15) & ~(size_t)15;
  if (used + n > REGION) return NULL;
  void *p = region + used;
  used += n;
  return p;
}

/* ---- reading --------------------------------------------------------------------------------- */
static bool number(const uint8_t **p, const uint8_t *end, uint64_t *v) {
  *v = 0;
  for (unsigned shift = 0; shift < 70 && *p < end; shift += 7) {
    uint8_t b = *(*p)++;
    if (shift < 64) *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}
static bool read_into(pfield *m, const uint8_t *p, size_t n, int depth);
static pfield *read_field(message in, const uint8_t **p, const uint8_t *end, int depth) {
  uint64_t tag, len;
  if (!number(p, end, &tag)) return NULL;
  pfield *f = get(sizeof *f);
  if (!f) return NULL;
  *f = (pfield){.no = (uint32_t)(tag >> 3), .wire = (uint32_t)(tag & 7), .in = in};
  for (int i = 0; i < FIELDS; i++)
    if (schema[i].in == in && schema[i].no == f->no) f->kind = schema[i].kind, f->sub = schema[i].sub;
  size_t fixed = f->wire == 1 ? 8 : 4;
  switch (f->wire) {
  case 0:
    return number(p, end, &f->v) ? f : NULL;
  case 1:
  case 5:
    if ((size_t)(end - *p) < fixed) return NULL;
    memcpy(&f->v, *p, fixed);
    *p += fixed;
    return f;
  case 2:
    if (!number(p, end, &len) || len > (size_t)(end - *p)) return NULL;
    f->n = len;
    if (f->kind != F_MSG || !read_into(f, *p, len, depth + 1)) {
      f->kind = f->kind == F_MSG ? F_UNKNOWN : f->kind;
      f->nkids = 0;
      if (!(f->p = get(len + 1))) return NULL;
      memcpy(f->p, *p, len);
    }
    *p += len;
    return f;
  default:
    return NULL;
  }
}
static bool add_kid(pfield *m, pfield *f, uint32_t at) {
  pfield **k = get((m->nkids + 1) * sizeof *k);
  if (!k) return false;
  if (at) memcpy(k, m->kids, at * sizeof *k);
  k[at] = f;
  if (m->nkids > at) memcpy(k + at + 1, m->kids + at, (m->nkids - at) * sizeof *k);
  m->kids = k, m->nkids++;
  f->up = m;
  return true;
}
static bool read_into(pfield *m, const uint8_t *p, size_t n, int depth) {
  const uint8_t *end = p + n;
  if (depth > DEPTH) return false;
  uint32_t cap = 0;
  while (p < end) {
    pfield *f = read_field(m->sub, &p, end, depth);
    if (!f) return false;
    if (m->nkids == cap) {
      cap = cap ? cap * 2 : 8;
      pfield **k = get(cap * sizeof *k);
      if (!k) return false;
      if (m->nkids) memcpy(k, m->kids, m->nkids * sizeof *k);
      m->kids = k;
    }
    m->kids[m->nkids++] = f;
    f->up = m;
  }
  return true;
}
pfield *proto_read(const uint8_t *p, size_t n, message as, bool fresh) {
  if (!region && !(region = malloc(REGION))) return NULL;
  if (fresh) used = 0;
  pfield *r = get(sizeof *r);
  *r = (pfield){.wire = 2, .kind = F_MSG, .sub = as};
  return read_into(r, p, n, 0) ? r : NULL;
}

/* ---- writing: lengths first, so that everything is written once ------------------------------ */
static size_t number_size(uint64_t v) {
  size_t n = 1;
  while (v >>= 7) n++;
  return n;
}
static size_t payload(const pfield *f);
static size_t size_of(const pfield *f) {
  size_t head = number_size((uint64_t)f->no << 3), n;
  switch (f->wire) {
  case 0:
    return head + number_size(f->v);
  case 1:
    return head + 8;
  case 5:
    return head + 4;
  default:
    n = payload(f);
    return head + number_size(n) + n;
  }
}
static size_t payload(const pfield *f) {
  if (f->kind != F_MSG) return f->n;
  size_t n = 0;
  for (uint32_t i = 0; i < f->nkids; i++) n += size_of(f->kids[i]);
  return n;
}
static uint8_t *put_number(uint8_t *p, uint64_t v) {
  for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
  *p++ = (uint8_t)v;
  return p;
}
static uint8_t *put(uint8_t *p, const pfield *f);
static uint8_t *put_kids(uint8_t *p, const pfield *f) {
  for (uint32_t i = 0; i < f->nkids; i++) p = put(p, f->kids[i]);
  return p;
}
static uint8_t *put(uint8_t *p, const pfield *f) {
  p = put_number(p, (uint64_t)f->no << 3 | f->wire);
  size_t fixed = f->wire == 1 ? 8 : 4;
  switch (f->wire) {
  case 0:
    return put_number(p, f->v);
  case 1:
  case 5:
    memcpy(p, &f->v, fixed);
    return p + fixed;
  default:
    p = put_number(p, payload(f));
    if (f->kind == F_MSG) return put_kids(p, f);
    if (f->n) memcpy(p, f->p, f->n);
    return p + f->n;
  }
}
static int depth_of(const pfield *f) {
  int d = 0;
  for (; f; f = f->up) d++;
  return d;
}
size_t proto_write(const pfield *root, uint8_t *out, size_t cap) {
  size_t n = payload(root);
  if (n > cap) return 0;
  put_kids(out, root);
  return n;
}

/* ---- choosing -------------------------------------------------------------------------------- */
typedef struct pick {
  const pfield *like;
  bool (*is)(const pfield *f, const pfield *like);
  dice *d;
  uint64_t seen;
  pfield *got;
} pick;
static void visit(pick *k, pfield *f) { /* reservoir of one */
  for (uint32_t i = 0; i < f->nkids; i++) {
    if (k->is(f->kids[i], k->like) && roll(k->d, ++k->seen) == 0) k->got = f->kids[i];
    visit(k, f->kids[i]);
  }
}
static pfield *choose(const pfield *root, bool (*is)(const pfield *f, const pfield *like), const pfield *like,
                      dice *d) {
  pick k = {like, is, d, 0, NULL};
  visit(&k, (pfield *)(uintptr_t)root);
  return k.got;
}
static bool any_field(const pfield *f, const pfield *like) { return (void)f, (void)like, true; }
static bool is_leaf(const pfield *f, const pfield *like) { return (void)like, f->kind != F_MSG; }
static bool is_message(const pfield *f, const pfield *like) { return (void)like, f->kind == F_MSG; }
static bool is_node(const pfield *f, const pfield *like) { return (void)like, f->sub == M_NODE; }
static bool same_kind(const pfield *f, const pfield *like) {
  return f != like && f->kind == like->kind && f->kind != F_MSG;
}
static bool same_field(const pfield *f, const pfield *like) {
  return f != like && f->in == like->in && f->no == like->no;
}
static bool same_message(const pfield *f, const pfield *like) {
  return f != like && f->kind == F_MSG && f->sub == like->sub;
}
static bool is_value_name(const pfield *f, const pfield *like) {
  (void)like;
  return f->kind == F_TEXT &&
         ((f->in == M_NODE && f->no <= 2) || (f->in == M_TENSOR && f->no == 8) || (f->in == M_VALUE && f->no == 1));
}

/* ---- changing -------------------------------------------------------------------------------- */
static uint32_t index_of(const pfield *f) {
  for (uint32_t i = 0; i < f->up->nkids; i++)
    if (f->up->kids[i] == f) return i;
  return 0;
}
static void drop(pfield *f) {
  pfield *m = f->up;
  uint32_t at = index_of(f);
  memmove(m->kids + at, m->kids + at + 1, (m->nkids - at - 1) * sizeof *m->kids);
  m->nkids--;
}
static pfield *copy(const pfield *f) {
  pfield *c = get(sizeof *c);
  if (!c) return NULL;
  *c = *f;
  if (f->n && f->kind != F_MSG) {
    if (!(c->p = get(f->n))) return NULL;
    memcpy(c->p, f->p, f->n);
  }
  if (f->nkids && !(c->kids = get(f->nkids * sizeof *c->kids))) return NULL;
  for (uint32_t i = 0; i < f->nkids; i++) {
    if (!(c->kids[i] = copy(f->kids[i]))) return NULL;
    c->kids[i]->up = c;
  }
  return c;
}
static bool set_text(pfield *f, const void *p, size_t n) {
  uint8_t *q = get(n + 1);
  if (!q) return false;
  if (n) memcpy(q, p, n);
  f->p = q, f->n = n, f->wire = 2;
  return true;
}
static bool change_text(pfield *root, pfield *f, dice *d) {
  if (f->in == M_NODE && f->no == 4 && roll(d, 4)) {
    const char *op = fuzz_operator((uint32_t)roll(d, fuzz_operators()));
    return set_text(f, op, strlen(op));
  }
  const pfield *other = NULL;
  if (is_value_name(f, NULL) && roll(d, 8))
    other = choose(root, is_value_name, f, d);
  else if (roll(d, 2))
    other = choose(root, same_field, f, d);
  else if (roll(d, 2))
    other = choose(root, same_kind, f, d);
  if (other && other->n < 65536) return set_text(f, other->p, other->n);
  if (!roll(d, 4)) return set_text(f, "", 0);
  size_t n = f->n;
  uint8_t *q = get(n + 64);
  if (!q) return false;
  if (n) memcpy(q, f->p, n);
  f->n = mutate_bytes(q, n, n + 64, d), f->p = q;
  return true;
}
static bool change_list(pfield *root, pfield *f, dice *d, size_t width) { /* width 0: varints */
  if (f->wire != 2) {
    f->v = (uint64_t)odd_number(d);
    return true;
  }
  if (!roll(d, 4)) {
    const pfield *other = choose(root, same_kind, f, d);
    return other && other->wire == 2 && set_text(f, other->p, other->n);
  }
  uint64_t v[64];
  uint32_t n = 0;
  const uint8_t *p = f->p, *end = f->p + f->n;
  while (n < 60 && p < end)
    if (width) {
      v[n] = 0;
      if ((size_t)(end - p) < width) break;
      memcpy(&v[n++], p, width);
      p += width;
    } else if (!number(&p, end, &v[n++])) {
      break;
    }
  switch (roll(d, 4)) {
  case 0: /* one more */
    v[n] = n && roll(d, 2) ? v[roll(d, n)] : (uint64_t)odd_number(d), n++;
    break;
  case 1: /* one fewer */
    if (n) v[roll(d, n)] = v[n - 1], n--;
    break;
  default:
    if (!n) return false;
    if (roll(d, 2))
      v[roll(d, n)] = (uint64_t)odd_number(d);
    else
      v[roll(d, n)] += roll(d, 2) ? 1 : (uint64_t)-1;
  }
  uint8_t out[64 * 10], *q = out;
  for (uint32_t i = 0; i < n; i++)
    if (width)
      memcpy(q, &v[i], width), q += width;
    else
      q = put_number(q, v[i]);
  size_t rest = (size_t)(end - p);
  uint8_t *all = get((size_t)(q - out) + rest + 1);
  if (!all) return false;
  memcpy(all, out, (size_t)(q - out));
  if (rest) memcpy(all + (q - out), p, rest);
  f->p = all, f->n = (size_t)(q - out) + rest;
  return true;
}
static bool change_leaf(pfield *root, pfield *f, dice *d) {
  const pfield *other;
  switch (f->kind) {
  case F_INT:
    if (f->wire != 0) return false;
    other = roll(d, 3) ? NULL : choose(root, same_field, f, d);
    if (other)
      f->v = other->v;
    else if ((f->in == M_TENSOR_TYPE && f->no == 1) || (f->in == M_TENSOR && f->no == 2) ||
             (f->in == M_ATTR && f->no == 20))
      f->v = roll(d, 28);
    else if (roll(d, 2))
      f->v = (uint64_t)odd_number(d);
    else
      f->v += roll(d, 2) ? 1 : (uint64_t)-1;
    return true;
  case F_FLOAT: {
    static const float odd[] = {0, -1, 1e30f, -1e-30f, 1.0f / 0.0f, 0.5f, 2, 1e10f};
    memcpy(&f->v, &odd[roll(d, 8)], 4);
    return true;
  }
  case F_TEXT:
    return change_text(root, f, d);
  case F_INTS:
    return change_list(root, f, d, 0);
  case F_FLOATS:
    return change_list(root, f, d, 4);
  case F_DOUBLES:
    return change_list(root, f, d, 8);
  case F_RAW:
    if (f->n && roll(d, 2)) { /* one integer in it */
      size_t w = roll(d, 2) && f->n >= 8 ? 8 : f->n >= 4 ? 4 : 1;
      int64_t v = odd_number(d);
      memcpy(f->p + roll(d, f->n / w) * w, &v, w);
      return true;
    }
    if (roll(d, 2))
      f->n -= f->n ? 1 + roll(d, f->n < 8 ? f->n : 8) : 0;
    else
      return set_text(f, f->p, f->n) && (other = choose(root, same_field, f, d)) && set_text(f, other->p, other->n);
    return true;
  default:
    return f->wire == 2 && f->p && set_text(f, f->p, f->n / 2);
  }
}
/* A new attribute, with the name of one that some operator has, and a value of any kind; or one that stands for
 * another. */
static bool add_attribute(pfield *root, dice *d) {
  pfield *n = choose(root, is_node, NULL, d);
  if (!n) return false;
  static const char *const names[] = {"axis",
                                      "axes",
                                      "keepdims",
                                      "perm",
                                      "to",
                                      "mode",
                                      "pads",
                                      "strides",
                                      "dilations",
                                      "group",
                                      "kernel_shape",
                                      "alpha",
                                      "beta",
                                      "transA",
                                      "value",
                                      "direction",
                                      "hidden_size",
                                      "auto_pad",
                                      "ceil_mode",
                                      "equation",
                                      "epsilon",
                                      "blocksize",
                                      "num_outputs",
                                      "noop_with_empty_axes",
                                      "reverse",
                                      "exclusive",
                                      "batch_dims",
                                      "reduction",
                                      "k",
                                      "largest",
                                      "training_mode",
                                      "start",
                                      "end",
                                      "dtype",
                                      "shape",
                                      "broadcast",
                                      "spatial",
                                      "scales",
                                      "split",
                                      "starts",
                                      "ends",
                                      "min",
                                      "max",
                                      "paddings",
                                      "num_groups",
                                      "consumed_inputs",
                                      "is_test",
                                      "p"};
  static const struct {
    uint32_t no, wire, type;
    field_kind kind;
    message sub;
  } values[] = {{3, 0, 2, F_INT, 0},        {8, 2, 7, F_INTS, 0},      {2, 5, 1, F_FLOAT, 0},
                {4, 2, 3, F_TEXT, 0},       {7, 2, 6, F_FLOATS, 0},    {9, 2, 8, F_TEXT, 0},
                {5, 2, 4, F_MSG, M_TENSOR}, {6, 2, 5, F_MSG, M_GRAPH}, {22, 2, 11, F_MSG, M_SPARSE},
                {14, 2, 13, F_MSG, M_TYPE}, {21, 2, 1, F_TEXT, 0}};
  uint64_t which = roll(d, 2) ? roll(d, 3) : roll(d, sizeof values / sizeof *values);
  pfield *a = get(sizeof *a), *name = get(sizeof *name), *type = get(sizeof *type), *v = get(sizeof *v);
  if (!a || !name || !type || !v) return false;
  *a = (pfield){.no = 5, .wire = 2, .kind = F_MSG, .in = M_NODE, .sub = M_ATTR};
  *name = (pfield){.no = 1, .wire = 2, .kind = F_TEXT, .in = M_ATTR};
  *type = (pfield){.no = 20, .kind = F_INT, .in = M_ATTR, .v = values[which].type};
  *v = (pfield){.no = values[which].no,
                .wire = values[which].wire,
                .kind = values[which].kind,
                .in = M_ATTR,
                .sub = values[which].sub};
  const char *s = names[roll(d, sizeof names / sizeof *names)];
  set_text(name, s, strlen(s));
  switch (v->kind) {
  case F_INT:
    v->v = (uint64_t)odd_number(d);
    break;
  case F_INTS: {
    uint8_t b[40], *q = b;
    for (uint64_t k = roll(d, 5); k; k--)
      q = put_number(q, (uint64_t)(int64_t)(roll(d, 4) ? (int64_t)roll(d, 6) - 1 : odd_number(d)));
    set_text(v, b, (size_t)(q - b));
    break;
  }
  case F_FLOATS: {
    static const float some[] = {1, 1, 2, 0.5f};
    set_text(v, some, 4 * (size_t)roll(d, 5));
    break;
  }
  case F_TEXT:
    s = names[roll(d, sizeof names / sizeof *names)];
    set_text(v, s, strlen(s));
    break;
  case F_MSG: { /* like one that is there, else empty */
    const pfield *like = choose(root, same_message, v, d);
    pfield *c = like ? copy(like) : NULL;
    if (c) v->kids = c->kids, v->nkids = c->nkids;
    for (uint32_t i = 0; i < v->nkids; i++) v->kids[i]->up = v;
    break;
  }
  default:
    break;
  }
  if (depth_of(n) + 2 >= DEPTH) return false;
  return add_kid(a, name, 0) && add_kid(a, v, 1) && (!roll(d, 4) || add_kid(a, type, 2)) && add_kid(n, a, n->nkids);
}
bool proto_mutate(pfield *root, dice *d) {
  uint64_t what = roll(d, 16);
  pfield *f, *other;
  if (what < 8) return (f = choose(root, is_leaf, NULL, d)) && change_leaf(root, f, d);
  if (what == 8)
    return (f = choose(root, is_node, NULL, d)) && (other = choose(f, is_leaf, NULL, d)) && change_leaf(root, other, d);
  if (what == 9) return add_attribute(root, d);
  f = choose(root, what & 1 ? any_field : is_message, NULL, d);
  if (!f) return false;
  switch (what) {
  case 10:
  case 11:
    drop(f);
    return true;
  case 12:
  case 13: { /* once more: beside it, or in another message of the same kind */
    pfield *to = f->up, *c = copy(f);
    if (to->up && roll(d, 2) && (other = choose(root, same_message, to, d)) != NULL) to = other;
    return c && depth_of(to) < DEPTH && add_kid(to, c, (uint32_t)roll(d, to->nkids + 1));
  }
  case 14: { /* another's contents */
    if (!(other = choose(root, f->kind == F_MSG ? same_message : same_field, f, d)) || !(other = copy(other)))
      return false;
    f->kids = other->kids, f->nkids = other->nkids, f->p = other->p, f->n = other->n, f->v = other->v;
    for (uint32_t i = 0; i < f->nkids; i++) f->kids[i]->up = f;
    return depth_of(f) < DEPTH;
  }
  default: { /* elsewhere among its siblings */
    pfield *m = f->up;
    uint32_t i = index_of(f), j = (uint32_t)roll(d, m->nkids);
    m->kids[i] = m->kids[j], m->kids[j] = f;
    return true;
  }
  }
}
bool proto_cross(pfield *into, const pfield *from, dice *d) {
  const pfield *f = choose(from, roll(d, 2) ? is_node : is_message, NULL, d);
  if (!f) return false;
  pfield *to = choose(into, same_message, f, d), *c = copy(f);
  if (!to || !c) return false;
  if (roll(d, 2)) return add_kid(to->up, c, index_of(to));
  to->kids = c->kids, to->nkids = c->nkids;
  for (uint32_t i = 0; i < to->nkids; i++) to->kids[i]->up = to;
  return true;
}
size_t proto_change(uint8_t *p, size_t n, size_t cap, unsigned seed) {
  dice d = {seed};
  pfield *root = roll(&d, 40) ? proto_read(p, n, M_MODEL, true) : NULL; /* now and then by bytes */
  if (!root || !root->nkids) return mutate_bytes(p, n, cap, &d);
  bool changed = false;
  for (uint64_t times = 1 + roll(&d, 3); times; times--) changed |= proto_mutate(root, &d);
  size_t m = changed ? proto_write(root, p, cap) : 0;
  return m ? m : mutate_bytes(p, n, cap, &d);
}
size_t proto_join(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap, unsigned seed) {
  dice d = {seed};
  pfield *x = proto_read(a, na, M_MODEL, true), *y = x ? proto_read(b, nb, M_MODEL, false) : NULL;
  return x && y && proto_cross(x, y, &d) ? proto_write(x, out, cap) : 0;
}
