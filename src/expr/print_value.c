/* What does a value or a size look like as text?
 *
 * Idea. The text must read back to the same module and print to the same text again, although atom and node numbers
 * differ in the copy. So nothing here depends on numbers: variables get names that are unique in the module (in order
 * of appearance), the terms of a polynomial and the arms of min and max are ordered by their own text (data atoms by a
 * structural hash), and a shared sub-value is written out where it first appears, `($1 := ...)`, and as `$1`
 * afterwards. The grammar is at the head of parse.c.
 */
#include "expr/print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const reserved[] = {
    "tensor", "stage",   "size",    "recurrence", "update",  "if",     "else",      "loop",   "load",  "where",
    "acc",    "to",      "payload", "and",        "or",      "not",    "true",      "false",  "inf",   "nan",
    "min",    "max",     "as",      "out",        "tiled",   "origin", "region",    "result", "carry", "next",
    "while",  "collect", "output",  "late",       "require", "assume", "kernel",    "outer",  "note",  "node",
    "input",  "const",   "trips",   "counter",    "times",   "in",     "undefined", "declare"};

void pr_begin(printer *p, emodule *m, arena *a, sbuf *b) {
  *p = (printer){.m = m,
                 .a = a,
                 .b = b,
                 .names = map_new(a),
                 .taken = map_new(a),
                 .keys = map_new(a),
                 .shown = map_new(a),
                 .texts = map_new(a),
                 .atom_keys = map_new(a)};
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) map_puts(p->taken, reserved[i], 0);
  pr_stage_begin(p);
}
void pr_stage_begin(printer *p) {
  p->uses = map_new(p->a), p->weight = map_new(p->a), p->lets = map_new(p->a);
  p->nlets = 0;
}

/* ---- names ----------------------------------------------------------------------------------- */
static bool plain(const char *s) {
  if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_')) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' || *s == '.'))
      return false;
  return true;
}
/* Would the reader take it for something else than a name? */
static bool is_word(const char *s) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    if (!strcmp(reserved[i], s)) return true;
  return !strncmp(s, "inf_", 4) || !strncmp(s, "nan_", 4) || et_parse(s) || red_find(s, strlen(s)) != RED_NONE;
}
const char *pr_quoted(printer *p, const char *s) {
  if (plain(s) && !is_word(s)) return s;
  sbuf b = sbuf_new(p->a);
  sb_putc(&b, '`');
  for (; *s; s++) sb_putc(&b, *s == '`' || *s == '\n' ? '\'' : *s);
  sb_putc(&b, '`');
  return b.s;
}
void pr_name(printer *p, const char *s) { sb_put(p->b, pr_quoted(p, s)); }
const char *pr_atom(printer *p, atom a) {
  uint64_t v;
  ctx *c = p->m->c;
  if (map_getu(p->names, a, &v)) return (const char *)(uintptr_t)v;
  const char *name = sym_name(c, a), *base;
  sz def;
  if (sym_kind(c, a) == AT_SYMBOL && !sym_definition(c, a, &def)) { /* a symbol is its name */
    vec_push(p->a, p->sizes, a);
    map_puts(p->taken, name, 0);
  } else {
    if (sym_kind(c, a) == AT_SYMBOL)
      base = "def", vec_push(p->a, p->sizes, a);
    else
      base = name_clean(p->a, *name ? name : "v");
    name = base;
    for (uint64_t k = 0; map_gets(p->taken, name, &v);) {
      if (name == base) k = v;
      name = arena_fmt(p->a, "%s.%llu", base, (unsigned long long)++k);
      map_puts(p->taken, base, k);
    }
    map_puts(p->taken, name, 0);
    name = arena_strdup(p->a, name);
  }
  map_putu(p->names, a, (uint64_t)(uintptr_t)name);
  return name;
}
void pr_string(printer *p, const char *s) { sb_quoted(p->b, s, strlen(s)); }

/* ---- how often a sub-value is used ----------------------------------------------------------- */
static uint64_t count_size(printer *p, sz s) {
  uint64_t w = 1;
  if (!s || !sym_uses_kind(p->m->c, s, AT_DATA)) return w;
  u32vec d = {0};
  sym_atoms(p->m->c, s, AT_DATA, p->a, &d);
  for (uint32_t i = 0; i < d.n; i++) {
    uint64_t x = 0;
    pr_count(p, sym_data_id(p->m->c, d.v[i]));
    map_getu(p->weight, sym_data_id(p->m->c, d.v[i]), &x);
    w += x;
  }
  return w;
}
void pr_count_size(printer *p, sz s) { count_size(p, s); }
void pr_count_range(printer *p, atom var) {
  const xrange *r = expr_range(p->m, var);
  if (r) count_size(p, r->lo), count_size(p, r->hi);
}
static uint64_t count_child(printer *p, ex e) {
  uint64_t w = 0;
  if (!e) return 0;
  pr_count(p, e);
  map_getu(p->weight, e, &w);
  return w;
}
void pr_count(printer *p, ex e) {
  uint64_t u = 0, w = 1;
  map_getu(p->uses, e, &u);
  map_putu(p->uses, e, u + 1);
  if (u) return;
  ex_node n = *exn(p->m, e);
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    break;
  case EX_INDEX:
    w += count_size(p, n.index);
    break;
  case EX_LOAD:
    for (uint32_t i = 0; i < n.nargs; i++) w += count_size(p, n.args[i]) - 1;
    w += count_child(p, n.otherwise);
    break;
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) w += count_child(p, n.args[i]);
    break;
  case EX_REDUCE:
    for (uint32_t i = 0; i < n.nargs; i++) pr_count_range(p, n.args[i]);
    w += 4 + count_child(p, n.where) + count_child(p, n.body) + count_child(p, n.payload);
    break;
  }
  map_putu(p->weight, e, w > 1000 ? 1000 : w);
}

/* ---- order-preserving keys ------------------------------------------------------------------- */
static uint64_t key_value(printer *p, ex e);
static int by_key(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}
static uint64_t mix(uint64_t h, uint64_t x) { return hash_bytes(&x, sizeof x, h); }
static uint64_t key_size(printer *p, sz s);
typedef VEC(uint64_t) keyvec;
static void key_arms(printer *p, atom a, atom_kind k, keyvec *out) {
  sz arg[3];
  uint32_t n = sym_args(p->m->c, a, arg);
  for (uint32_t i = 0; i < n; i++) {
    atom in;
    if (sym_is_atom(p->m->c, arg[i], &in) && sym_kind(p->m->c, in) == k)
      key_arms(p, in, k, out);
    else
      vec_push(p->a, *out, key_size(p, arg[i]));
  }
}
static uint64_t key_atom_of(printer *p, atom a) {
  ctx *c = p->m->c;
  uint64_t v, h = mix(1, sym_kind(c, a));
  switch (sym_kind(c, a)) {
  case AT_VAR:
    if (!map_getu(p->names, a, &v)) return mix(h, key_size(p, sym_extent(c, a))); /* bound inside and not yet named */
    return hash_bytes((const char *)(uintptr_t)v, strlen((const char *)(uintptr_t)v), h);
  case AT_SYMBOL: {
    sz def;
    if (sym_definition(c, a, &def)) return mix(h, key_size(p, def));
    return hash_bytes(sym_name(c, a), strlen(sym_name(c, a)), h);
  }
  case AT_DATA:
    return mix(h, key_value(p, sym_data_id(c, a)));
  case AT_MIN:
  case AT_MAX: {
    keyvec arms = {0};
    key_arms(p, a, sym_kind(c, a), &arms);
    if (arms.n > 1) qsort(arms.v, arms.n, sizeof *arms.v, by_key);
    return hash_bytes(arms.v, arms.n * sizeof *arms.v, h);
  }
  default: {
    sz arg[3];
    uint32_t n = sym_args(c, a, arg);
    for (uint32_t i = 0; i < n; i++) h = mix(h, key_size(p, arg[i]));
    return h;
  }
  }
}
static uint64_t key_atom(printer *p, atom a) {
  uint64_t h;
  /* the key of a variable changes when it gets its name, so it is not kept */
  if (sym_kind(p->m->c, a) == AT_VAR) return key_atom_of(p, a);
  if (map_getu(p->atom_keys, a, &h)) return h;
  h = key_atom_of(p, a);
  map_putu(p->atom_keys, a, h);
  return h;
}
static uint64_t key_size(printer *p, sz s) {
  ctx *c = p->m->c;
  uint64_t sum = 7;
  for (uint32_t i = 0; i < sym_nterms(c, s); i++) { /* terms and factors commute: sums of hashes */
    uint32_t n;
    const atom *at;
    const uint8_t *ex_;
    uint64_t f = 3, coef = (uint64_t)sym_term(c, s, i, &n, &at, &ex_);
    for (uint32_t k = 0; k < n; k++) f += mix(ex_[k], key_atom(p, at[k]));
    sum += mix(coef, f);
  }
  return mix(5, sum);
}
static uint64_t key_value(printer *p, ex e) {
  uint64_t h;
  if (!e) return 0;
  if (map_getu(p->keys, e, &h)) return h;
  ex_node n = *exn(p->m, e);
  h = mix(11, n.kind | (uint64_t)n.type << 8 | (uint64_t)n.op << 16 | (uint64_t)n.acc << 24 | (uint64_t)n.nargs << 32);
  h = mix(h, (uint64_t)n.k.i);
  if (n.index) h = mix(h, key_size(p, n.index));
  if (n.tensor) h = hash_bytes(xt(p->m, n.tensor)->name, strlen(xt(p->m, n.tensor)->name), h);
  for (uint32_t i = 0; i < n.nargs; i++)
    h = mix(h, n.kind == EX_LOAD ? key_size(p, n.args[i])
               : n.kind == EX_OP ? key_value(p, n.args[i])
                                 : key_size(p, sym_extent(p->m->c, n.args[i])));
  h = mix(mix(mix(mix(h, key_value(p, n.otherwise)), key_value(p, n.where)), key_value(p, n.body)),
          key_value(p, n.payload));
  map_putu(p->keys, e, h);
  return h;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static void size_at(printer *p, sz s, int prec); /* prec: where s stands: 0 in a sum, 1 in a product, 2 as a factor */

typedef struct part {
  const char *text; /* sorting text: data atoms by hash */
  uint64_t key;     /* sorting key, before text */
  sz s;             /* an arm of min/max, or 0 */
  uint32_t term;    /* index of the term */
  int64_t coef;     /* its coefficient */
} part;
typedef VEC(part) partvec;
static int part_cmp(const void *a, const void *b) {
  const part *x = a, *y = b;
  if ((x->coef < 0) != (y->coef < 0)) return x->coef < 0 ? 1 : -1;
  int r = strcmp(x->text, y->text);
  return r ? r : x->key < y->key ? -1 : x->key > y->key;
}
static void arms(printer *p, atom a, atom_kind k, partvec *out) {
  sz arg[3];
  uint32_t n = sym_args(p->m->c, a, arg);
  for (uint32_t i = 0; i < n; i++) {
    atom in;
    if (sym_is_atom(p->m->c, arg[i], &in) && sym_kind(p->m->c, in) == k)
      arms(p, in, k, out);
    else
      vec_push(p->a, *out, ((part){.text = "", .key = key_size(p, arg[i]), .s = arg[i], .coef = 1}));
  }
}
static void atom_raw(printer *p, atom a) {
  ctx *c = p->m->c;
  sz arg[3];
  switch (sym_kind(c, a)) {
  case AT_SYMBOL: {
    sz def;
    const char *name = pr_atom(p, a);
    if (sym_definition(c, a, &def))
      sb_put(p->b, name);
    else
      pr_name(p, name);
    break;
  }
  case AT_VAR:
    sb_put(p->b, pr_atom(p, a));
    break;
  case AT_DATA: {
    sb_putc(p->b, '{');
    pr_value(p, sym_data_id(c, a));
    sb_putc(p->b, '}');
    break;
  }
  case AT_DIV:
    sym_args(c, a, arg);
    size_at(p, arg[0], 2), sb_put(p->b, "//"), size_at(p, arg[1], 2);
    break;
  case AT_MIN:
  case AT_MAX: {
    partvec v = {0};
    arms(p, a, sym_kind(c, a), &v);
    for (uint32_t i = 0; i < v.n; i++) { /* arms without data sort by text */
      if (sym_uses_kind(c, v.v[i].s, AT_DATA)) continue;
      sbuf t = sbuf_new(p->a), *old = p->b;
      p->b = &t, size_at(p, v.v[i].s, 0), p->b = old;
      v.v[i].text = t.s ? t.s : "";
    }
    if (v.n > 1) qsort(v.v, v.n, sizeof *v.v, part_cmp);
    sb_put(p->b, sym_kind(c, a) == AT_MIN ? "min(" : "max(");
    for (uint32_t i = 0; i < v.n; i++) {
      if (i) sb_put(p->b, ", ");
      size_at(p, v.v[i].s, 0);
    }
    sb_putc(p->b, ')');
    break;
  }
  case AT_SEL:
    sym_args(c, a, arg);
    sb_putc(p->b, '('), size_at(p, arg[0], 0), sb_put(p->b, " >= 0 ? ");
    size_at(p, arg[1], 0), sb_put(p->b, " : "), size_at(p, arg[2], 0), sb_putc(p->b, ')');
    break;
  }
}
/* Sorting needs a text before it is printed, at every level: texts without data are kept, or the cost would double
 * with each. */
static void atom_at(printer *p, atom a, int prec) {
  uint64_t known;
  bool paren = prec > 0 && sym_kind(p->m->c, a) == AT_DIV;
  if (paren) sb_putc(p->b, '(');
  if (sym_uses_kind(p->m->c, sym_of_atom(p->m->c, a), AT_DATA))
    atom_raw(p, a);
  else {
    if (!map_getu(p->texts, a, &known)) {
      sbuf t = sbuf_new(p->a), *old = p->b;
      p->b = &t, atom_raw(p, a), p->b = old;
      map_putu(p->texts, a, known = (uint64_t)(uintptr_t)(t.s ? t.s : ""));
    }
    sb_put(p->b, (const char *)(uintptr_t)known);
  }
  if (paren) sb_putc(p->b, ')');
}
static void monomial(printer *p, sz s, uint32_t term, uint64_t coef, bool sorting) {
  uint32_t n;
  const atom *at;
  const uint8_t *xp;
  sym_term(p->m->c, s, term, &n, &at, &xp);
  partvec f = {0};
  for (uint32_t i = 0; i < n; i++) {
    part x = {.text = "", .key = key_atom(p, at[i]), .term = i, .coef = 1};
    if (!sym_uses_kind(p->m->c, sym_of_atom(p->m->c, at[i]), AT_DATA)) {
      sbuf t = sbuf_new(p->a), *old = p->b;
      p->b = &t, atom_at(p, at[i], 2), p->b = old;
      x.text = t.s ? t.s : "";
    } else if (sorting)
      x.text = arena_fmt(p->a, "{%016llx}", (unsigned long long)x.key);
    vec_push(p->a, f, x);
  }
  if (f.n > 1) qsort(f.v, f.n, sizeof *f.v, part_cmp);
  bool alone = n == 1 && coef == 1 && xp[0] == 1;
  bool star = false;
  if (coef != 1 || !n) sb_fmt(p->b, "%llu", (unsigned long long)coef), star = true;
  for (uint32_t i = 0; i < f.n; i++)
    for (uint8_t e = 0; e < xp[f.v[i].term]; e++) {
      if (star) sb_putc(p->b, '*');
      star = true;
      if (sorting)
        sb_put(p->b, f.v[i].text);
      else
        atom_at(p, at[f.v[i].term], alone ? 1 : 2);
    }
}
static void size_at(printer *p, sz s, int prec) {
  ctx *c = p->m->c;
  int64_t v;
  if (sym_is_int(c, s, &v)) {
    sb_fmt(p->b, prec > 1 && v < 0 ? "(%lld)" : "%lld", (long long)v);
    return;
  }
  partvec t = {0};
  uint32_t n = sym_nterms(c, s), k;
  const atom *at;
  const uint8_t *xp;
  for (uint32_t i = 0; i < n; i++) {
    int64_t coef = sym_term(c, s, i, &k, &at, &xp);
    part x = {.text = "~", .term = i, .coef = coef}; /* the constant goes last among its sign */
    if (k) {
      sbuf txt = sbuf_new(p->a), *old = p->b;
      p->b = &txt, monomial(p, s, i, 1, true), p->b = old;
      x.text = txt.s;
    }
    vec_push(p->a, t, x);
  }
  if (t.n > 1) qsort(t.v, t.n, sizeof *t.v, part_cmp);
  atom lone;
  if (sym_is_atom(c, s, &lone)) {
    atom_at(p, lone, prec > 1 ? 2 : 0);
    return;
  }
  bool paren = prec > 1 || (prec == 1 && n > 1);
  if (paren) sb_putc(p->b, '(');
  for (uint32_t i = 0; i < n; i++) {
    int64_t coef = t.v[i].coef;
    if (i)
      sb_put(p->b, coef < 0 ? " - " : " + ");
    else if (coef < 0)
      sb_putc(p->b, '-');
    monomial(p, s, t.v[i].term, coef < 0 ? 0 - (uint64_t)coef : (uint64_t)coef, false);
  }
  if (paren) sb_putc(p->b, ')');
}
void pr_size(printer *p, sz s) { size_at(p, s, 0); }

/* ---- values ---------------------------------------------------------------------------------- */
enum { P_LOW, P_OR, P_AND, P_CMP, P_ADD, P_MUL, P_ATOM };
static const struct {
  const char *text; /* the operator in the text */
  int prec;         /* precedence; higher binds tighter */
} infix[OP_COUNT] = {
    [OP_ADD] = {" + ", P_ADD},   [OP_SUB] = {" - ", P_ADD}, [OP_MUL] = {" * ", P_MUL}, [OP_DIV] = {" / ", P_MUL},
    [OP_IDIV] = {" // ", P_MUL}, [OP_MOD] = {" % ", P_MUL}, [OP_EQ] = {" == ", P_CMP}, [OP_NE] = {" != ", P_CMP},
    [OP_LT] = {" < ", P_CMP},    [OP_LE] = {" <= ", P_CMP}, [OP_GT] = {" > ", P_CMP},  [OP_GE] = {" >= ", P_CMP},
    [OP_AND] = {" and ", P_AND}, [OP_OR] = {" or ", P_OR}};

static void value_at(printer *p, ex e, int prec);

static void put_const(printer *p, const ex_node *n) {
  sbuf *b = p->b;
  if (n->type == ET_BOOL) {
    sb_put(b, n->k.i ? "true" : "false");
    return;
  }
  if (et_kind(n->type) != K_FLOAT) {
    if (n->type == ET_U64)
      sb_fmt(b, "%llu", (unsigned long long)n->k.i);
    else
      sb_fmt(b, "%lld", (long long)n->k.i);
    if (n->type != ET_I64) sb_put(b, et_name(n->type));
    return;
  }
  double x = n->k.f;
  if (isnan(x) || isinf(x)) {
    sb_put(b, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    if (n->type != ET_F32) sb_fmt(b, "_%s", et_name(n->type));
    return;
  }
  sbuf t = sbuf_new(p->a);
  if (n->type == ET_F64)
    sb_double(&t, x);
  else
    sb_float(&t, (float)x);
  sb_put(b, t.s);
  if (n->type != ET_F32)
    sb_put(b, et_name(n->type));
  else if (!strpbrk(t.s, ".eE"))
    sb_put(b, ".0");
}
void pr_range(printer *p, atom var) {
  const xrange *r = expr_range(p->m, var);
  if (!r) return;
  sb_put(p->b, " in "), size_at(p, r->lo, 0), sb_put(p->b, " .. "), size_at(p, r->hi, 0);
  if (r->all) sb_put(p->b, " or all");
}
static void put_vars(printer *p, const ex_node *n) {
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (i) sb_put(p->b, ", ");
    sb_put(p->b, pr_atom(p, n->args[i]));
    sb_putc(p->b, '<');
    size_at(p, sym_extent(p->m->c, n->args[i]), 0);
    pr_range(p, n->args[i]);
  }
}
static void put_reduce(printer *p, const ex_node *n) {
  etype bt = exn(p->m, n->body)->type;
  sb_put(p->b, red_name(n->op)), sb_putc(p->b, '[');
  put_vars(p, n);
  if (n->acc != red_default_acc(n->op, bt)) sb_fmt(p->b, " acc %s", et_name(n->acc));
  if (n->type != red_default_result(n->op, bt)) sb_fmt(p->b, " to %s", et_name(n->type));
  if (n->where) sb_put(p->b, " where "), value_at(p, n->where, P_LOW);
  if (n->payload) sb_put(p->b, " payload "), value_at(p, n->payload, P_LOW);
  sb_put(p->b, "] ");
  value_at(p, n->body, P_LOW);
}
static void put_load(printer *p, const ex_node *n) {
  if (n->otherwise) sb_put(p->b, "(load ");
  pr_name(p, xt(p->m, n->tensor)->name), sb_putc(p->b, '[');
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (i) sb_put(p->b, ", ");
    size_at(p, n->args[i], 0);
  }
  sb_putc(p->b, ']');
  if (n->otherwise) sb_put(p->b, " else "), value_at(p, n->otherwise, P_LOW), sb_putc(p->b, ')');
}
static void put_op(printer *p, const ex_node *n, int prec) {
  sbuf *b = p->b;
  if (infix[n->op].text) {
    int own = infix[n->op].prec;
    if (prec > own) sb_putc(b, '(');
    value_at(p, n->args[0], own == P_CMP ? own + 1 : own), sb_put(b, infix[n->op].text),
        value_at(p, n->args[1], own + 1);
    if (prec > own) sb_putc(b, ')');
    return;
  }
  if (n->op == OP_SEL) {
    if (prec > P_LOW) sb_putc(b, '(');
    value_at(p, n->args[0], P_OR), sb_put(b, " ? "), value_at(p, n->args[1], P_OR), sb_put(b, " : "),
        value_at(p, n->args[2], P_LOW);
    if (prec > P_LOW) sb_putc(b, ')');
    return;
  }
  bool typed = n->op == OP_SAT || n->op == OP_SATF || n->op == OP_BITCAST;
  sb_put(b, n->op == OP_CAST ? et_name(n->type) : op_name(n->op)), sb_putc(b, '(');
  if (typed) sb_fmt(b, "%s, ", et_name(n->type));
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (i) sb_put(b, ", ");
    value_at(p, n->args[i], P_LOW);
  }
  sb_putc(b, ')');
}
static void value_at(printer *p, ex e, int prec) {
  ex_node n = *exn(p->m, e);
  uint64_t k, w = 0;
  if (map_getu(p->lets, e, &k)) {
    sb_fmt(p->b, "$%llu", (unsigned long long)k);
    return;
  }
  bool named = (n.kind == EX_OP || n.kind == EX_REDUCE || n.kind == EX_LOAD) && map_getu(p->uses, e, &k) && k > 1 &&
               map_getu(p->weight, e, &w) && w >= (n.kind == EX_LOAD ? 2 : 4);
  if (named) { /* the number is taken on the way in, the name holds from the way out */
    w = ++p->nlets;
    sb_fmt(p->b, "($%llu := ", (unsigned long long)w);
    prec = P_LOW;
  }
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    put_const(p, &n);
    break;
  case EX_INDEX: {
    atom a;
    bool lone =
        sym_is_atom(p->m->c, n.index, &a) && (sym_kind(p->m->c, a) == AT_VAR || sym_kind(p->m->c, a) == AT_SYMBOL);
    sb_put(p->b, lone ? "#" : "#(");
    size_at(p, n.index, 0);
    if (!lone) sb_putc(p->b, ')');
    break;
  }
  case EX_LOAD:
    put_load(p, &n);
    break;
  case EX_OP:
    put_op(p, &n, prec);
    break;
  case EX_REDUCE:
    if (prec > P_LOW) sb_putc(p->b, '(');
    put_reduce(p, &n);
    if (prec > P_LOW) sb_putc(p->b, ')');
    break;
  }
  if (named) sb_putc(p->b, ')'), map_putu(p->lets, e, w);
}
void pr_value(printer *p, ex e) { value_at(p, e, P_LOW); }

void expr_print_value(emodule *m, ex e, sbuf *b) {
  arena *a = arena_new(m->c);
  printer p;
  pr_begin(&p, m, a, b);
  pr_count(&p, e);
  pr_value(&p, e);
  arena_free(a);
}
