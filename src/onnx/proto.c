/* How is an ONNX file taken apart? A protobuf message is a sequence of (field number, wire type, payload). One walker
 * reads any message by its table: for each known field the kind of its value, where it goes in the structure, and for
 * messages the table of that. Every length is checked against the end of the enclosing message; nesting is at most
 * MAX_DEPTH deep; a known field with another wire type than its kind allows is an error, an unknown field is skipped. A
 * message field that occurs twice is the later one (protobuf would merge; no writer of models does that).
 */
#include "onnx/proto.h"
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef enum { INT, FLOAT, TEXT, PACKED, MSG, INTS, FLOATS, TEXTS, MSGS } kind;
typedef struct message message;
typedef struct field {
  uint32_t no;        /* number of the field */
  kind k;             /* kind of its value */
  size_t off;         /* offset in the structure */
  const message *sub; /* MSG: what the value is; else NULL */
} field;
struct message {
  const char *name;    /* for messages */
  size_t size;         /* bytes of the structure */
  const field *fields; /* the fields that are read */
  uint32_t n;          /* number of fields */
  size_t self;         /* offset of a slice that gets the message itself, or NONE */
};
#define NONE SIZE_MAX
#define TABLE(m, T, self_) const message m = {#m, sizeof(T), m##_fields, sizeof m##_fields / sizeof *m##_fields, self_}
#define AT(T, f) offsetof(T, f)

static const message graph_proto, type_proto, attribute;

static const field pair_fields[] = {{1, TEXT, AT(pb_pair, key), NULL}, {2, TEXT, AT(pb_pair, value), NULL}};
static TABLE(pair, pb_pair, NONE);
static const field dim_fields[] = {{1, INT, AT(pb_dim, value), NULL}, {2, TEXT, AT(pb_dim, param), NULL}};
static TABLE(dim, pb_dim, NONE);
static const field shape_fields[] = {{1, MSGS, AT(pb_shape, dim), &dim}};
static TABLE(shape, pb_shape, NONE);
static const field tensor_type_fields[] = {{1, INT, AT(pb_tensor_type, elem), NULL},
                                           {2, MSG, AT(pb_tensor_type, shape), &shape}};
static TABLE(tensor_type, pb_tensor_type, NONE);
static const field elem_fields[] = {{1, MSG, AT(pb_elem, elem), &type_proto}};
static TABLE(elem, pb_elem, NONE);
static const field map_type_fields[] = {{1, INT, AT(pb_elem, key), NULL}, {2, MSG, AT(pb_elem, elem), &type_proto}};
static TABLE(map_type, pb_elem, NONE);
static const field type_proto_fields[] = {
    {1, MSG, AT(pb_type, tensor), &tensor_type}, {8, MSG, AT(pb_type, sparse), &tensor_type},
    {4, MSG, AT(pb_type, sequence), &elem},      {9, MSG, AT(pb_type, optional), &elem},
    {5, MSG, AT(pb_type, map), &map_type},
};
static TABLE(type_proto, pb_type, NONE);
static const field tensor_fields[] = {
    {1, INTS, AT(pb_tensor, dims), NULL},
    {2, INT, AT(pb_tensor, data_type), NULL},
    {3, TEXT, AT(pb_tensor, segment), NULL},
    {PB_FLOAT_DATA, PACKED, AT(pb_tensor, float_data), NULL},
    {PB_INT32_DATA, PACKED, AT(pb_tensor, int32_data), NULL},
    {6, TEXTS, AT(pb_tensor, string_data), NULL},
    {PB_INT64_DATA, PACKED, AT(pb_tensor, int64_data), NULL},
    {8, TEXT, AT(pb_tensor, name), NULL},
    {9, TEXT, AT(pb_tensor, raw), NULL},
    {PB_DOUBLE_DATA, PACKED, AT(pb_tensor, double_data), NULL},
    {PB_UINT64_DATA, PACKED, AT(pb_tensor, uint64_data), NULL},
    {13, MSGS, AT(pb_tensor, external), &pair},
    {14, INT, AT(pb_tensor, location), NULL},
};
static TABLE(tensor, pb_tensor, AT(pb_tensor, self));
static const field sparse_fields[] = {{1, MSG, AT(pb_sparse, values), &tensor},
                                      {2, MSG, AT(pb_sparse, indices), &tensor},
                                      {3, INTS, AT(pb_sparse, dims), NULL}};
static TABLE(sparse, pb_sparse, NONE);
static const field sequence_fields[] = {{3, MSGS, AT(pb_list, tensors), &tensor}};
static TABLE(sequence, pb_list, NONE);
static const field optional_fields[] = {{3, MSGS, AT(pb_list, tensors), &tensor},
                                        {5, MSG, AT(pb_list, inner), &sequence}};
static TABLE(optional, pb_list, NONE);
static const field attribute_fields[] = {
    {1, TEXT, AT(pb_attr, name), NULL},
    {2, FLOAT, AT(pb_attr, f), NULL},
    {3, INT, AT(pb_attr, i), NULL},
    {4, TEXT, AT(pb_attr, s), NULL},
    {5, MSG, AT(pb_attr, t), &tensor},
    {6, MSG, AT(pb_attr, g), &graph_proto},
    {7, FLOATS, AT(pb_attr, floats), NULL},
    {8, INTS, AT(pb_attr, ints), NULL},
    {9, TEXTS, AT(pb_attr, strings), NULL},
    {10, MSGS, AT(pb_attr, tensors), &tensor},
    {11, MSGS, AT(pb_attr, graphs), &graph_proto},
    {14, MSG, AT(pb_attr, tp), &type_proto},
    {20, INT, AT(pb_attr, type), NULL},
    {21, TEXT, AT(pb_attr, ref), NULL},
    {22, MSG, AT(pb_attr, sparse), &sparse},
};
static TABLE(attribute, pb_attr, NONE);
static const field node_fields[] = {
    {1, TEXTS, AT(pb_node, input), NULL},   {2, TEXTS, AT(pb_node, output), NULL},
    {3, TEXT, AT(pb_node, name), NULL},     {4, TEXT, AT(pb_node, op), NULL},
    {7, TEXT, AT(pb_node, domain), NULL},   {5, MSGS, AT(pb_node, attr), &attribute},
    {8, TEXT, AT(pb_node, overload), NULL},
};
static TABLE(node, pb_node, NONE);
static const field value_fields[] = {{1, TEXT, AT(pb_value, name), NULL}, {2, MSG, AT(pb_value, type), &type_proto}};
static TABLE(value, pb_value, NONE);
static const field graph_proto_fields[] = {
    {1, MSGS, AT(pb_graph, node), &node},    {2, TEXT, AT(pb_graph, name), NULL},
    {5, MSGS, AT(pb_graph, init), &tensor},  {15, MSGS, AT(pb_graph, sparse_init), &sparse},
    {11, MSGS, AT(pb_graph, input), &value}, {12, MSGS, AT(pb_graph, output), &value},
    {13, MSGS, AT(pb_graph, info), &value},
};
static TABLE(graph_proto, pb_graph, NONE);
static const field opset_fields[] = {{1, TEXT, AT(pb_opset, domain), NULL}, {2, INT, AT(pb_opset, version), NULL}};
static TABLE(opset, pb_opset, NONE);
static const field function_fields[] = {
    {1, TEXT, AT(pb_function, name), NULL},      {4, TEXTS, AT(pb_function, input), NULL},
    {5, TEXTS, AT(pb_function, output), NULL},   {6, TEXTS, AT(pb_function, attr), NULL},
    {7, MSGS, AT(pb_function, node), &node},     {9, MSGS, AT(pb_function, opset), &opset},
    {10, TEXT, AT(pb_function, domain), NULL},   {11, MSGS, AT(pb_function, attr_default), &attribute},
    {13, TEXT, AT(pb_function, overload), NULL},
};
static TABLE(function, pb_function, NONE);
static const field model_fields[] = {
    {1, INT, AT(pb_model, ir_version), NULL},        {2, TEXT, AT(pb_model, producer), NULL},
    {3, TEXT, AT(pb_model, producer_version), NULL}, {7, MSG, AT(pb_model, graph), &graph_proto},
    {8, MSGS, AT(pb_model, opset), &opset},          {14, MSGS, AT(pb_model, metadata), &pair},
    {25, MSGS, AT(pb_model, function), &function},
};
static TABLE(model, pb_model, NONE);

/* ---- the wire -------------------------------------------------------------------------------- */
typedef struct reader {
  arena *a;             /* memory of the structures */
  const uint8_t *begin; /* first byte of the file */
  const char *what;     /* name of the file */
} reader;

_Noreturn static void damaged(const reader *r, const uint8_t *at, const char *where, const char *why) {
  ctx_fail(arena_ctx(r->a), E_MODEL,
           "'%s' is not a well-formed ONNX file: %s at byte %zu (in %s). The file may be truncated or not ONNX at all",
           r->what, why, (size_t)(at - r->begin), where);
}

enum { W_VARINT = 0, W_64 = 1, W_LEN = 2, W_32 = 5 };
typedef struct item {
  uint32_t no;   /* number of the field */
  uint32_t wire; /* wire type */
  uint64_t v;    /* varint */
  bytes b;       /* payload otherwise */
} item;

static uint64_t varint(const reader *r, const uint8_t **p, const uint8_t *end, const char *where) {
  uint64_t v = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (*p >= end) damaged(r, *p, where, "a number is cut off");
    uint8_t b = *(*p)++;
    if (shift < 64) v |= (uint64_t)(b & 127) << shift;
    if (!(b & 128)) return v;
  }
  damaged(r, *p, where, "a number is too long");
}

static item next(const reader *r, const uint8_t **p, const uint8_t *end, const char *where) {
  const uint8_t *start = *p;
  uint64_t key = varint(r, p, end, where);
  item it = {.no = (uint32_t)(key >> 3), .wire = key & 7};
  if (key >> 3 == 0 || key >> 3 > 0x1fffffff) damaged(r, start, where, "an impossible field number");
  uint64_t n = 0;
  switch (it.wire) {
  case W_VARINT:
    it.v = varint(r, p, end, where);
    return it;
  case W_64:
    n = 8;
    break;
  case W_32:
    n = 4;
    break;
  case W_LEN:
    n = varint(r, p, end, where);
    break;
  default:
    damaged(r, start, where, "an impossible field type");
  }
  if (n > (uint64_t)(end - *p)) damaged(r, start, where, "a field reaches beyond its end");
  it.b = (bytes){*p, (size_t)n};
  *p += n;
  return it;
}

static const char *const kind_names[] = {"a number", "a float", "bytes", "numbers",  "a message",
                                         "numbers",  "floats",  "bytes", "a message"};

static bool wire_fits(kind k, uint32_t wire) {
  switch (k) {
  case INT:
    return wire == W_VARINT;
  case FLOAT:
    return wire == W_32;
  case INTS:
    return wire == W_VARINT || wire == W_LEN;
  case FLOATS:
    return wire == W_32 || wire == W_LEN;
  case PACKED:
    return true;
  default:
    return wire == W_LEN;
  }
}

static const field *find(const message *m, uint32_t no) {
  for (uint32_t i = 0; i < m->n; i++)
    if (m->fields[i].no == no) return &m->fields[i];
  return NULL;
}

static void walk(const reader *r, bytes b, const message *m, void *out, uint32_t depth);

/* A list's element goes into room made for it first: the list may move while the element is read. */
static void push_message(const reader *r, item it, const field *f, void *at, uint32_t depth) {
  typedef VEC(char) any;
  void *tmp = arena_alloc(r->a, f->sub->size);
  walk(r, it.b, f->sub, tmp, depth + 1);
  any v;
  memcpy(&v, at, sizeof v);
  vec_reserve_(r->a, &v.v, &v.cap, (size_t)v.n + 1, f->sub->size);
  memcpy(v.v + (size_t)v.n++ * f->sub->size, tmp, f->sub->size);
  memcpy(at, &v, sizeof v);
}

static void put_ints(const reader *r, item it, i64vec *v, const char *where) {
  if (it.wire == W_VARINT) {
    vec_push(r->a, *v, (int64_t)it.v);
    return;
  }
  for (const uint8_t *p = it.b.p, *end = p + it.b.n; p < end;) vec_push(r->a, *v, (int64_t)varint(r, &p, end, where));
}

static void put_floats(const reader *r, item it, void *at, const char *where) {
  VEC(float) v;
  memcpy(&v, at, sizeof v);
  if (it.b.n % 4) damaged(r, it.b.p, where, "floats of a broken length");
  if (it.b.n == 0) return;
  vec_reserve(r->a, v, v.n + it.b.n / 4);
  memcpy(v.v + v.n, it.b.p, it.b.n);
  v.n += (uint32_t)(it.b.n / 4);
  memcpy(at, &v, sizeof v);
}

static void walk(const reader *r, bytes b, const message *m, void *out, uint32_t depth) {
  if (depth > MAX_DEPTH) damaged(r, b.p, m->name, "messages nested deeper than 64");
  if (m->self != NONE) memcpy((char *)out + m->self, &b, sizeof b);
  const uint8_t *p = b.p, *end = b.p + b.n;
  while (p < end) {
    const uint8_t *start = p;
    item it = next(r, &p, end, m->name);
    const field *f = find(m, it.no);
    if (!f) continue;
    if (!wire_fits(f->k, it.wire))
      damaged(r, start, m->name, arena_fmt(r->a, "field %u is not %s", it.no, kind_names[f->k]));
    void *at = (char *)out + f->off;
    switch (f->k) {
    case INT:
      *(pb_int *)at = (pb_int){(int64_t)it.v, true};
      break;
    case FLOAT: {
      pb_float x = {.set = true};
      memcpy(&x.v, it.b.p, 4);
      *(pb_float *)at = x;
      break;
    }
    case TEXT:
      *(bytes *)at = it.b;
      break;
    case TEXTS: {
      typedef VEC(bytes) list;
      vec_push(r->a, *(list *)at, it.b);
      break;
    }
    case PACKED: {
      pb_packed *k = at;
      if (k->times == 0) *k = (pb_packed){it.wire == W_VARINT ? (bytes){start, (size_t)(p - start)} : it.b, it.wire, 0};
      if (k->times < UINT32_MAX) k->times++;
      break;
    }
    case INTS:
      put_ints(r, it, at, m->name);
      break;
    case FLOATS:
      put_floats(r, it, at, m->name);
      break;
    case MSG: {
      void *sub = arena_alloc(r->a, f->sub->size);
      walk(r, it.b, f->sub, sub, depth + 1);
      *(void **)at = sub;
      break;
    }
    case MSGS:
      push_message(r, it, f, at, depth);
      break;
    }
  }
}

/* ---- the numbers of a tensor ----------------------------------------------------------------- */
typedef struct sink {
  void *out;      /* gets the numbers */
  size_t cap;     /* places at out */
  size_t n;       /* numbers so far */
  uint32_t width; /* 0: varints */
} sink;

static void decode(const reader *r, sink *s, item it) {
  if (s->width == 0) {
    const uint8_t *p = it.b.p, *end = p ? p + it.b.n : NULL;
    uint64_t v = it.v;
    if (it.wire != W_VARINT && it.wire != W_LEN) damaged(r, it.b.p, "tensor", "integers written as fixed bytes");
    do {
      if (it.wire == W_LEN) {
        if (p >= end) return;
        v = varint(r, &p, end, "tensor");
      }
      if (s->n < s->cap) ((int64_t *)s->out)[s->n] = (int64_t)v;
      s->n++;
    } while (it.wire == W_LEN);
    return;
  }
  if (it.wire == W_VARINT || it.b.n % s->width)
    damaged(r, it.b.p ? it.b.p : r->begin, "tensor", "floats of a broken length");
  size_t k = it.b.n / s->width, room = s->n < s->cap ? s->cap - s->n : 0, take = k < room ? k : room;
  if (take) memcpy((char *)s->out + s->n * s->width, it.b.p, take * s->width);
  s->n += k;
}

size_t pb_numbers(arena *a, const pb_tensor *t, const pb_packed *packed, uint32_t field_no, uint32_t width, void *out,
                  size_t cap, const char *what) {
  reader r = {a, t->self.p, what};
  sink s = {out, cap, 0, width};
  if (packed->times == 1 && packed->wire != W_VARINT) {
    decode(&r, &s, (item){.wire = packed->wire, .b = packed->first});
    return s.n;
  }
  for (const uint8_t *p = t->self.p, *end = p + t->self.n; packed->times && p < end;) {
    item it = next(&r, &p, end, "tensor");
    if (it.no == field_no) decode(&r, &s, it);
  }
  return s.n;
}

pb_model *pb_read_model(arena *a, bytes file, const char *what) {
  reader r = {a, file.p, what};
  pb_model *m = NEW(a, pb_model);
  walk(&r, file, &model, m, 0);
  return m;
}

pb_tensor *pb_read_tensor(arena *a, bytes file, const char *what) {
  reader r = {a, file.p, what};
  pb_tensor *t = NEW(a, pb_tensor);
  walk(&r, file, &tensor, t, 0);
  return t;
}

pb_list *pb_read_list(arena *a, bytes file, bool is_optional, const char *what) {
  reader r = {a, file.p, what};
  pb_list *l = NEW(a, pb_list);
  walk(&r, file, is_optional ? &optional : &sequence, l, 0);
  return l;
}
