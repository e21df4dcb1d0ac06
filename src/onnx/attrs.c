/* What do a node's attributes say? They are checked against their declared kind, references to a function's
 * attributes are followed, graphs become regions. Constant nodes are attributes with a name.
 */
#include "onnx/import.h"
#include <string.h>

enum {
  A_UNDEFINED,
  A_FLOAT,
  A_INT,
  A_STRING,
  A_TENSOR,
  A_GRAPH,
  A_FLOATS,
  A_INTS,
  A_STRINGS,
  A_TENSORS,
  A_GRAPHS,
  A_SPARSE,
  A_SPARSES,
  A_TYPE,
  A_TYPES
};
static const char *const words[] = {"undefined",      "FLOAT",      "INT",        "STRING",  "TENSOR", "GRAPH",
                                    "FLOATS",         "INTS",       "STRINGS",    "TENSORS", "GRAPHS", "SPARSE_TENSOR",
                                    "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

const pb_attr *attr_resolve(const frame_fn *fn, const pb_attr *a) {
  if (a->ref.n == 0) return a;
  uint64_t p;
  if (!fn || !map_get(fn->attrs, a->ref.p, a->ref.n, &p)) return NULL;
  return (const pb_attr *)(uintptr_t)p;
}

/* What the attribute holds, by its fields: old files do not say. */
static int held(const pb_attr *a) {
  return a->t           ? A_TENSOR
         : a->g         ? A_GRAPH
         : a->sparse    ? A_SPARSE
         : a->tp        ? A_TYPE
         : a->f.set     ? A_FLOAT
         : a->i.set     ? A_INT
         : a->s.p       ? A_STRING
         : a->floats.n  ? A_FLOATS
         : a->ints.n    ? A_INTS
         : a->strings.n ? A_STRINGS
         : a->tensors.n ? A_TENSORS
         : a->graphs.n  ? A_GRAPHS
                        : A_UNDEFINED;
}

static int kind_of(const pb_attr *a) { return a->type.v > 0 && a->type.v <= A_TYPES ? (int)a->type.v : held(a); }

static const char *text_of(importer *im, bytes b, const char *what, const char *who) {
  if (b.n && memchr(b.p, 0, b.n))
    diag_error(im->c, E_UNSUPPORTED, who, "attribute '%s' contains a NUL byte, which is not supported", what);
  return intern_n(im->c, b.n ? (const char *)b.p : "", b.n);
}

static ndarray *tensor_of(importer *im, const pb_attr *a, const char *name, const char *who) {
  ndarray *t = NEW(im->a, ndarray);
  const char *label = arena_fmt(im->a, "attribute '%s' of node '%s'", name, who);
  bool ok = a->sparse ? tensor_read_sparse(&im->src, a->sparse, label, t) : tensor_read(&im->src, a->t, label, t);
  return ok ? t : NULL;
}

static const double *doubles(importer *im, const pb_attr *a) {
  double *d = NEWN(im->a, double, a->floats.n);
  for (uint32_t i = 0; i < a->floats.n; i++) d[i] = a->floats.v[i];
  return d;
}

static const char *const *texts(importer *im, const pb_attr *a, const char *name, const char *who) {
  const char **s = NEWN(im->a, const char *, a->strings.n);
  for (uint32_t i = 0; i < a->strings.n; i++) s[i] = text_of(im, a->strings.v[i], name, who);
  return s;
}

static etype type_of(const pb_type *t) {
  for (int depth = 0; t && depth < 64; depth++) {
    if (t->tensor) return et_from_onnx((int)t->tensor->elem.v);
    const pb_elem *e = t->sequence ? t->sequence : t->optional ? t->optional : t->map;
    t = e ? e->elem : NULL;
  }
  return ET_NONE;
}

/* False: nothing to add (an error was recorded). */
static bool fill(importer *im, const scope *s, const pb_attr *p, const char *who, attr *a) {
  int kind = kind_of(p), other = held(p);
  /* zero and empty lists need not be written */
  bool empty = other == A_UNDEFINED && kind != A_TENSOR && kind != A_GRAPH && kind != A_SPARSE && kind != A_TYPE;
  if (kind != other && !empty) {
    diag_error(im->c, E_MODEL, who, "attribute '%s' is declared %s but holds %s", a->name, words[kind], words[other]);
    return false;
  }
  switch (kind) {
  case A_FLOAT:
    a->kind = AK_FLOAT, a->f = p->f.v;
    return true;
  case A_INT:
    a->kind = AK_INT, a->i = p->i.v;
    return true;
  case A_STRING:
    a->kind = AK_STRING, a->s = text_of(im, p->s, a->name, who);
    return true;
  case A_FLOATS:
    a->kind = AK_FLOATS, a->n = p->floats.n, a->floats = doubles(im, p);
    return true;
  case A_INTS:
    a->kind = AK_INTS, a->n = p->ints.n, a->ints = arena_dup(im->a, p->ints.v, p->ints.n * sizeof(int64_t));
    return true;
  case A_STRINGS:
    a->kind = AK_STRINGS, a->n = p->strings.n, a->strings = texts(im, p, a->name, who);
    return true;
  case A_TENSOR:
  case A_SPARSE:
    a->kind = AK_TENSOR;
    return (a->tensor = tensor_of(im, p, a->name, who)) != NULL;
  case A_TENSORS: {
    ndarray *t = NEWN(im->a, ndarray, p->tensors.n);
    for (uint32_t i = 0; i < p->tensors.n; i++)
      if (!tensor_read(&im->src, &p->tensors.v[i], arena_fmt(im->a, "attribute '%s' of node '%s'", a->name, who),
                       &t[i]))
        return false;
    a->kind = AK_TENSORS, a->n = p->tensors.n, a->tensor = t;
    return true;
  }
  case A_GRAPH:
    a->kind = AK_GRAPH;
    return (a->g = import_region(im, s, p->g)) != NULL;
  case A_TYPE:
    a->kind = AK_TYPE, a->i = type_of(p->tp);
    return true;
  default:
    diag_error(im->c, kind == A_UNDEFINED ? E_MODEL : E_UNSUPPORTED, who,
               "attribute '%s' is %s, which is not supported", a->name, words[kind]);
    return false;
  }
}

void import_attrs(importer *im, const scope *s, const pb_node *p, node *n) {
  for (uint32_t i = 0; i < p->attr.n; i++) {
    const pb_attr *a = &p->attr.v[i], *r = attr_resolve(s->fn, a);
    if (!r) continue; /* a reference to an attribute that the call does not give and that has no default: absent */
    attr out = {.name = name_text(im, a->name)};
    if (!out.name[0])
      diag_error(im->c, E_MODEL, n->name, "attribute %u has no name", i);
    else if (node_attr(n, out.name))
      diag_error(im->c, E_MODEL, n->name, "attribute '%s' is given twice", out.name);
    else if (fill(im, s, r, n->name, &out))
      vec_push(im->a, n->attrs, out);
  }
}

/* ---- Constant -------------------------------------------------------------------------------- */
static bool whole(ndarray *out, etype t, bool vector, uint32_t n, const void *data) {
  *out = (ndarray){
      .type = t, .rank = vector, .dims = {n}, .data = data, .bytes = n * (t == ET_STR ? sizeof(bytes) : et_bytes(t))};
  return true;
}

static bytes string_of(importer *im, bytes b) {
  return (bytes){(const uint8_t *)arena_strndup(im->a, (const char *)b.p, b.n), b.n};
}

bool constant_node(importer *im, const scope *s, const pb_node *p, ndarray *out) {
  const char *who = node_shown(im, p);
  for (uint32_t i = 0; i < p->attr.n; i++) {
    const pb_attr *a = attr_resolve(s->fn, &p->attr.v[i]);
    bytes name = p->attr.v[i].name;
    if (!a) continue;
#define IS(w) (name.n == sizeof w - 1 && memcmp(name.p, w, name.n) == 0)
    if ((IS("value") && a->t) || (IS("sparse_value") && a->sparse)) {
      const ndarray *t = tensor_of(im, a, name_shown(im, name), who);
      if (t) *out = *t;
      return t != NULL;
    }
    if (IS("value_float")) return whole(out, ET_F32, false, 1, arena_dup(im->a, &a->f.v, 4));
    if (IS("value_int")) return whole(out, ET_I64, false, 1, arena_dup(im->a, &a->i.v, 8));
    if (IS("value_floats"))
      return whole(out, ET_F32, true, a->floats.n, arena_dup(im->a, a->floats.v, a->floats.n * 4));
    if (IS("value_ints")) return whole(out, ET_I64, true, a->ints.n, arena_dup(im->a, a->ints.v, a->ints.n * 8));
    if (IS("value_string") || IS("value_strings")) {
      bool many = IS("value_strings");
      uint32_t n = many ? a->strings.n : 1;
      bytes *b = NEWN(im->a, bytes, n);
      for (uint32_t k = 0; k < n; k++) b[k] = string_of(im, many ? a->strings.v[k] : a->s);
      return whole(out, ET_STR, many, n, b);
    }
#undef IS
  }
  diag_error(im->c, E_MODEL, who, "Constant has no value");
  return false;
}
