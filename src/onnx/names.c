/* What are things called, and what does the file claim about their types? Names of the file become interned strings;
 * names of dimensions become symbols. */
#include "onnx/import.h"
#include <inttypes.h>
#include <ctype.h>
#include <string.h>

enum { MAX_SIZE_SHOWN = 120 };
#define MAX_DIM ((int64_t)1000000000)

const char *name_text(importer *im, bytes b) {
  if (b.n && memchr(b.p, 0, b.n))
    ctx_fail(im->c, E_MODEL, "'%s': the name '%s' contains a NUL byte", im->src.name, name_shown(im, b));
  return intern_n(im->c, b.n ? (const char *)b.p : "", b.n);
}

const char *name_shown(importer *im, bytes b) {
  sbuf s = sbuf_new(im->a);
  size_t n = b.n < MAX_SIZE_SHOWN ? b.n : MAX_SIZE_SHOWN;
  for (size_t i = 0; i < n;) {
    size_t len = utf8_len(b.p + i, b.n - i);
    if (len == 0 || b.p[i] < 0x20 || b.p[i] == 0x7f)
      sb_fmt(&s, "\\x%02x", b.p[i]);
    else
      sb_putn(&s, (const char *)b.p + i, len);
    i += len ? len : 1;
  }
  if (n < b.n) sb_put(&s, "...");
  return s.s ? s.s : "";
}

const char *node_shown(importer *im, const pb_node *n) {
  if (n->name.n) return name_shown(im, n->name);
  if (n->output.n && n->output.v[0].n)
    return arena_fmt(im->a, "%s of '%s'", name_shown(im, n->op), name_shown(im, n->output.v[0]));
  return name_shown(im, n->op);
}

const char *domain_text(importer *im, bytes b) {
  const char *d = name_text(im, b);
  return strcmp(d, "ai.onnx") == 0 ? "" : d;
}

static bool same_domain(bytes b, const char *domain) {
  if (b.n == 7 && memcmp(b.p, "ai.onnx", 7) == 0) b.n = 0;
  return b.n == strlen(domain) && (b.n == 0 || memcmp(b.p, domain, b.n) == 0);
}

int64_t opset_of(const importer *im, const frame_fn *fn, const char *domain) {
  const pb_opsets *o = fn && fn->fn->opset.n ? &fn->fn->opset : &im->m->opset;
  for (uint32_t i = 0; i < o->n; i++)
    if (same_domain(o->v[i].domain, domain)) return o->v[i].version.v;
  return 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
/* A name of the model as an identifier nobody else has: other characters become '_', a number is added where that
 * makes two alike. */
static const char *identifier(importer *im, const char *name, size_t n) {
  sbuf b = sbuf_new(im->a);
  if (n > MAX_SIZE_SHOWN) n = MAX_SIZE_SHOWN;
  for (size_t i = 0; i < n; i++) {
    char ch = name[i];
    bool digit = ch >= '0' && ch <= '9', alpha = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
    if (i == 0 && !alpha) sb_putc(&b, '_');
    sb_putc(&b, digit || alpha || (ch == '.' && i > 0) ? ch : '_');
  }
  if (b.n == 0 || strcmp(b.s, "min") == 0 || strcmp(b.s, "max") == 0) sb_putc(&b, '_');
  const char *s = b.s;
  for (unsigned k = 2; map_gets(im->symbol_names, s, NULL); k++) s = arena_fmt(im->a, "%s_%u", b.s, k);
  map_puts(im->symbol_names, s, 1);
  return s;
}

static sz symbol(importer *im, bytes param) {
  uint64_t have;
  if (map_get(im->symbols, param.p, param.n, &have)) return (sz)have;
  sz s = sym_symbol(im->c, identifier(im, (const char *)param.p, param.n), 0, MAX_DIM);
  map_put(im->symbols, param.p, param.n, s);
  return s;
}

/* Does dim_param name a size? For one that they do not know, exporters write "?" or "None": two of these need not be
 * equal. */
static bool names_size(bytes param) {
  if (param.n == 4 && !memcmp(param.p, "None", 4)) return false;
  for (size_t i = 0; i < param.n; i++)
    if (isalnum(param.p[i]) || param.p[i] >= 0x80) return true;
  return false;
}
static sz dim_of(importer *im, value *v, const pb_dim *d, uint32_t axis, type_role role) {
  if (d->value.set && d->value.v >= 0) return sym_int(im->c, d->value.v);
  if (role == TYPE_INPUT) {
    if (d->value.set && d->value.v < -1)
      diag_error(im->c, E_MODEL, v->source, "input '%s' has the negative dimension %" PRId64 " at axis %u", v->source,
                 d->value.v, axis);
    if (names_size(d->param)) return symbol(im, d->param);
    const char *name = arena_fmt(im->scratch, "%s.%u", v->source, axis);
    return sym_symbol(im->c, identifier(im, name, strlen(name)), 0, MAX_DIM);
  }
  /* elsewhere only the inputs' symbols mean something: other names are whatever the exporter thought of */
  uint64_t have;
  return role == TYPE_OTHER && names_size(d->param) && map_get(im->symbols, d->param.p, d->param.n, &have) ? (sz)have
                                                                                                           : 0;
}

bool other_kind(const pb_type *t) { return t && !t->tensor && (t->sequence || t->optional || t->map || t->sparse); }

/* A list of tensors, an optional one, or an optional tensor: its kind, and the type of the tensors. */
static const pb_tensor_type *elements(const pb_type *t, value_kind *kind) {
  bool optional = t && t->optional && t->optional->elem, list;
  if (optional) t = t->optional->elem;
  list = t && t->sequence && t->sequence->elem;
  if (list) t = t->sequence->elem;
  *kind = list ? (optional ? VALUE_OPTIONAL_LIST : VALUE_LIST) : optional ? VALUE_OPTIONAL : VALUE_TENSOR;
  return t ? t->tensor : NULL;
}

/* An input that is a map becomes two: its values, under its name, and NAME.keys. False: it is no map, or one of other
 * things than numbers and texts. */
bool declare_map(importer *im, graph *g, value *v, const pb_type *t) {
  const pb_elem *m = t ? t->map : NULL;
  etype key = m ? et_from_onnx((int)m->key.v) : ET_NONE, type = ET_NONE;
  if (m && m->elem && m->elem->tensor) type = et_from_onnx((int)m->elem->tensor->elem.v);
  if (key == ET_NONE || type == ET_NONE) return false;
  const char *entries = arena_fmt(im->scratch, "%s.entries", v->source);
  sz n = sym_symbol(im->c, identifier(im, entries, strlen(entries)), 0, MAX_DIM);
  value *both[] = {v, graph_value(g, arena_fmt(im->a, "%s.keys", v->source))};
  for (uint32_t i = 0; i < 2; i++) {
    both[i]->type = i ? key : type;
    both[i]->declared = both[i]->ranked = true;
    both[i]->rank = 1;
    both[i]->dims = arena_dup(im->a, &n, sizeof n);
    vec_push(im->a, g->inputs, both[i]);
  }
  return true;
}

/* An input's type must be usable; of other values what cannot be used is ignored. The symbols in the shape of a
 * list's elements say nothing: each has a size of its own. */
void declare_type(importer *im, value *v, const pb_type *t, type_role role) {
  bool must = role == TYPE_INPUT;
  value_kind kind;
  const pb_tensor_type *x = elements(t, &kind);
  if (x) v->kind = kind;
  if (kind != VALUE_TENSOR && !must) return;
  if (kind != VALUE_TENSOR) role = TYPE_REGION_INPUT;
  if (!x) {
    if (must)
      diag_error(im->c, other_kind(t) ? E_UNSUPPORTED : E_MODEL, v->source, "input '%s' %s", v->source,
                 other_kind(t)
                     ? "is neither a tensor nor a sequence of tensors nor a map (sparse tensors and sequences of "
                       "sequences or maps as inputs are not supported)"
                     : "has no type");
    return;
  }
  v->type = et_from_onnx((int)x->elem.v);
  if (v->type == ET_NONE && must) {
    diag_error(im->c, E_UNSUPPORTED, v->source, "input '%s' has element type %" PRId64 ", which is not supported",
               v->source, x->elem.v);
    return;
  }
  v->declared = v->type != ET_NONE;
  if (!x->shape) {
    if (must && kind == VALUE_TENSOR)
      diag_error(im->c, E_UNSUPPORTED, v->source,
                 "input '%s' has no shape: the number of its dimensions must be known. Save the model with a shape for "
                 "it (its sizes may be symbolic)",
                 v->source);
    return;
  }
  uint32_t rank = x->shape->dim.n;
  if (rank > MAX_RANK) {
    diag_error(im->c, E_UNSUPPORTED, v->source, "'%s' has %u dimensions, at most %d are supported", v->source, rank,
               MAX_RANK);
    return;
  }
  sz *dims = NEWN(im->a, sz, rank);
  for (uint32_t i = 0; i < rank; i++) dims[i] = dim_of(im, v, &x->shape->dim.v[i], i, role);
  v->rank = rank;
  v->dims = dims;
  v->ranked = true;
}
