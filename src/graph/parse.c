/* Reads the text form that print.c writes (its head shows it). One error stops the reading: file, line, column, what
 * was expected. */
#include "graph/graph.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 64 };
typedef struct rd {
  ctx *c;                 /* context */
  arena *a;               /* memory */
  const char *p;          /* next character */
  const char *line_start; /* first character of the line */
  srcpos pos;             /* position, for messages */
  map *names;             /* name -> value */
  int depth;              /* nested regions */
} rd;

static _Noreturn void bad(rd *r, const char *expected) {
  r->pos.col = (uint32_t)(r->p - r->line_start) + 1;
  int n = 0;
  while (n < 20 && r->p[n] && r->p[n] != '\n') n++;
  diag_add(r->c, D_ERROR, E_MODEL, r->pos, NULL, "expected %s, found '%.*s'", expected, n, r->p);
  ctx_unwind(r->c);
}
static void skip(rd *r) {
  for (;; r->p++) {
    if (*r->p == '\n') {
      r->pos.line++;
      r->line_start = r->p + 1;
    } else if (*r->p == '#') {
      while (*r->p && *r->p != '\n') r->p++;
      r->p--;
    } else if (*r->p != ' ' && *r->p != '\t' && *r->p != '\r')
      return;
  }
}
static bool is(rd *r, const char *t) {
  skip(r);
  return !strncmp(r->p, t, strlen(t));
}
static bool eat(rd *r, const char *t) {
  if (!is(r, t)) return false;
  r->p += strlen(t);
  return true;
}
static void want(rd *r, const char *t) {
  if (!eat(r, t)) bad(r, arena_fmt(r->a, "'%s'", t));
}
static bool wordch(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_';
}
static bool eat_word(rd *r, const char *w) {
  size_t n = strlen(w);
  if (!is(r, w) || wordch(r->p[n])) return false;
  r->p += n;
  return true;
}
static const char *quoted(rd *r) {
  want(r, "\"");
  sbuf b = sbuf_new(r->a);
  while (*r->p != '"') {
    if (!*r->p || *r->p == '\n') bad(r, "a closing quote");
    if (*r->p != '\\') {
      sb_putc(&b, *r->p++);
      continue;
    }
    r->p++;
    if (*r->p == 'n')
      sb_putc(&b, '\n');
    else if (*r->p == 't')
      sb_putc(&b, '\t');
    else if (*r->p == 'x') {
      char hex[3] = {0};
      for (int i = 0; i < 2; i++) {
        hex[i] = r->p[1];
        if (!((hex[i] >= '0' && hex[i] <= '9') || (hex[i] >= 'a' && hex[i] <= 'f') || (hex[i] >= 'A' && hex[i] <= 'F')))
          bad(r, "two hexadecimal digits");
        r->p++;
      }
      sb_putc(&b, (char)strtol(hex, NULL, 16));
    } else
      sb_putc(&b, *r->p);
    r->p++;
  }
  r->p++;
  return b.s ? b.s : "";
}
static const char *name(rd *r) {
  skip(r);
  if (*r->p == '"') return quoted(r);
  const char *s = r->p;
  while (wordch(*r->p)) r->p++;
  if (r->p == s) bad(r, "a name");
  return arena_strndup(r->a, s, (size_t)(r->p - s));
}
static int64_t integer(rd *r) {
  skip(r);
  char *end;
  errno = 0;
  long long v = strtoll(r->p, &end, 10);
  if (end == r->p || errno) bad(r, "an integer");
  r->p = end;
  return v;
}
static double number(rd *r) {
  skip(r);
  char *end;
  double v = strtod(r->p, &end);
  if (end == r->p) bad(r, "a number");
  r->p = end;
  return v;
}
static sz dim_name(void *env, const char *s, size_t n) {
  rd *r = env;
  return sym_symbol(r->c, arena_strndup(r->a, s, n), 0, 1000000000);
}
static etype elem(rd *r) {
  const char *before = r->p;
  const char *n = name(r);
  etype t = et_parse(n);
  if (!t) {
    r->p = before;
    bad(r, "an element type");
  }
  return t;
}
static void type(rd *r, value *v) {
  bool optional = eat_word(r, "optional"), list = eat_word(r, "list");
  v->kind = list ? (optional ? VALUE_OPTIONAL_LIST : VALUE_LIST) : optional ? VALUE_OPTIONAL : VALUE_TENSOR;
  v->type = elem(r);
  if (!eat(r, "[")) return;
  sz dims[MAX_RANK];
  uint32_t n = 0;
  while (!eat(r, "]")) {
    if (n && !eat(r, ",")) bad(r, "',' or ']'");
    if (n == MAX_RANK) bad(r, "at most 16 dimensions");
    if (eat(r, "?"))
      dims[n++] = 0;
    else {
      skip(r);
      dims[n] = sym_parse(r->c, &r->p, dim_name, r, r->pos);
      if (!dims[n]) ctx_unwind(r->c);
      n++;
    }
  }
  v->ranked = true;
  v->rank = n;
  v->dims = arena_dup(r->a, dims, n * sizeof *dims);
}
static ndarray array(rd *r) {
  ndarray d = {.type = elem(r)};
  int64_t n;
  want(r, "[");
  while (!eat(r, "]")) {
    if (d.rank && !eat(r, ",")) bad(r, "',' or ']'");
    if (d.rank == MAX_RANK) bad(r, "at most 16 dimensions");
    d.dims[d.rank++] = integer(r);
    if (d.dims[d.rank - 1] < 0) bad(r, "a size that is not negative");
  }
  want(r, "=");
  if (!nd_count(&d, &n)) bad(r, "a smaller array");
  uint32_t size = et_kind(d.type) == K_STR ? (uint32_t)sizeof(bytes) : et_bytes(d.type);
  if (et_kind(d.type) != K_STR && eat(r, "@")) {
    d.file = quoted(r);
    want(r, "+");
    int64_t off = integer(r);
    want(r, ":");
    int64_t bytes_n = integer(r), need;
    bytes f;
    if (off < 0 || bytes_n < 0 || !mul64(n, size, &need) || need != bytes_n) bad(r, "the array's size in bytes");
    want(r, "sha256:");
    const char *h = name(r);
    if (!d.file[0]) bad(r, "contents that lie in a file, or in place (print with --weights inline)");
    if (!file_map(r->c, d.file, &f)) ctx_unwind(r->c);
    if ((uint64_t)off > f.n || (uint64_t)bytes_n > f.n - (uint64_t)off) bad(r, "a part of the file");
    d.data = f.p + off;
    d.offset = (uint64_t)off;
    d.bytes = (size_t)bytes_n;
    if (strcmp(h, sha256_hex(r->a, d.data, d.bytes))) bad(r, "contents with that SHA-256 (the file has changed)");
    return d;
  }
  if (n > (1 << 26)) bad(r, "a smaller array");
  uint8_t *p = NEWN(r->a, uint8_t, (size_t)n *size + 1);
  d.data = p;
  d.bytes = (size_t)n * size;
  want(r, "[");
  for (int64_t i = 0; i < n; i++) {
    if (i) want(r, ",");
    if (et_kind(d.type) == K_STR) {
      const char *s = quoted(r);
      ((bytes *)p)[i] = (bytes){(const uint8_t *)s, strlen(s)};
    } else
      et_store(d.type, p + i * size, et_kind(d.type) == K_FLOAT ? (scalar){.f = number(r)} : (scalar){.i = integer(r)});
  }
  want(r, "]");
  return d;
}
static value *find(rd *r, const char *n) {
  uint64_t v;
  if (!map_gets(r->names, n, &v)) bad(r, arena_fmt(r->a, "a value defined before ('%s' is not)", n));
  return (value *)(uintptr_t)v;
}
static value *define(rd *r, graph *g, const char *n) {
  uint64_t v;
  if (map_gets(r->names, n, &v)) bad(r, arena_fmt(r->a, "a new name ('%s' is defined already)", n));
  value *x = graph_value(g, n);
  map_puts(r->names, n, (uint64_t)(uintptr_t)x);
  return x;
}
static graph *body(rd *r, graph *parent);
static void attribute(rd *r, graph *g, node *n) {
  const char *k = name(r);
  want(r, "=");
  skip(r);
  if (eat_word(r, "float"))
    node_set_float(g, n, k, number(r));
  else if (eat_word(r, "floats")) {
    VEC(double) v = {0};
    want(r, "[");
    while (!eat(r, "]")) {
      if (v.n) want(r, ",");
      vec_push(r->a, v, number(r));
    }
    attr *t = node_set_int(g, n, k, 0);
    t->kind = AK_FLOATS, t->n = v.n, t->floats = v.v;
  } else if (eat_word(r, "strings")) {
    strvec v = {0};
    want(r, "[");
    while (!eat(r, "]")) {
      if (v.n) want(r, ",");
      vec_push(r->a, v, quoted(r));
    }
    attr *t = node_set_int(g, n, k, 0);
    t->kind = AK_STRINGS, t->n = v.n, t->strings = v.v;
  } else if (eat_word(r, "tensor")) {
    ndarray *d = NEW(r->a, ndarray);
    *d = array(r);
    attr *t = node_set_int(g, n, k, 0);
    t->kind = AK_TENSOR, t->tensor = d;
  } else if (eat_word(r, "graph")) {
    graph *b = body(r, g);
    attr *t = node_set_int(g, n, k, 0);
    t->kind = AK_GRAPH, t->g = b;
  } else if (*r->p == '"')
    node_set_string(g, n, k, quoted(r));
  else if (*r->p == '[') {
    i64vec v = {0};
    want(r, "[");
    while (!eat(r, "]")) {
      if (v.n) want(r, ",");
      vec_push(r->a, v, integer(r));
    }
    node_set_ints(g, n, k, v.v, v.n);
  } else
    node_set_int(g, n, k, integer(r));
}
static void one_node(rd *r, graph *g) {
  VEC(value *) outs = {0};
  do {
    skip(r);
    if (*r->p == '_' && !wordch(r->p[1])) {
      r->p++;
      vec_push(r->a, outs, NULL);
      continue;
    }
    value *v = define(r, g, name(r));
    if (eat(r, ":")) type(r, v);
    vec_push(r->a, outs, v);
  } while (eat(r, ","));
  want(r, "=");
  const char *domain = "", *op = name(r);
  while (*r->p == '.' || is(r, "::")) {
    if (is(r, "::")) {
      r->p += 2;
      domain = op;
      op = name(r);
    } else
      bad(r, "'::' (quote a domain with dots)");
  }
  node *n = graph_node(g, op, domain, NULL);
  want(r, "(");
  for (bool first = true; !eat(r, ")"); first = false) {
    if (!first) want(r, ",");
    skip(r);
    value *v = NULL;
    if (*r->p == '_' && !wordch(r->p[1]))
      r->p++;
    else
      v = find(r, name(r));
    vec_push(r->a, n->in, v);
  }
  if (eat(r, "{"))
    for (bool first = true; !eat(r, "}"); first = false) {
      if (!first) want(r, ",");
      attribute(r, g, n);
    }
  skip(r);
  if (*r->p == '"') n->name = intern(r->c, quoted(r));
  for (uint32_t i = 0; i < outs.n; i++) {
    if (outs.v[i]) outs.v[i]->def = n;
    vec_push(r->a, n->out, outs.v[i]);
  }
}
static void state(rd *r, graph *g, value *out) {
  graph_state s = {.in = find(r, name(r)), .out = out};
  if (g->parent) bad(r, "no state in a region");
  if (eat_word(r, "first")) {
    ndarray *d = NEW(r->a, ndarray);
    *d = array(r);
    s.first = d;
  }
  vec_push(r->a, g->states, s);
}
static graph *body(rd *r, graph *parent) {
  if (++r->depth > MAX_NESTING) bad(r, "less nesting");
  graph *g = graph_new(r->c, parent, quoted(r));
  if (eat_word(r, "ir")) {
    g->ir_version = integer(r);
    if (!eat_word(r, "opset")) bad(r, "'opset'");
    g->opset = integer(r);
  }
  if (eat_word(r, "producer")) g->producer = quoted(r);
  want(r, "{");
  while (!eat(r, "}")) {
    if (!*r->p) bad(r, "'}'");
    if (eat_word(r, "input")) {
      value *v = define(r, g, name(r));
      if (eat(r, ":")) type(r, v); /* a region's inputs get theirs from the node */
      if (eat_word(r, "as")) v->source = intern(r->c, quoted(r));
      vec_push(r->a, g->inputs, v);
    } else if (eat_word(r, "const")) {
      value *v = define(r, g, name(r));
      want(r, ":");
      ndarray *d = NEW(r->a, ndarray);
      *d = array(r);
      v->data = d, v->type = d->type, v->ranked = true, v->rank = d->rank;
      sz *dims = NEWN(r->a, sz, d->rank + 1);
      for (uint32_t i = 0; i < d->rank; i++) dims[i] = sym_int(r->c, d->dims[i]);
      v->dims = dims;
    } else if (eat_word(r, "output")) {
      value *v = find(r, name(r));
      if (eat_word(r, "as")) v->source = intern(r->c, quoted(r));
      vec_push(r->a, g->outputs, v);
      if (eat_word(r, "state")) state(r, g, v);
    } else
      one_node(r, g);
  }
  r->depth--;
  return g;
}
/* NULL and diagnostics on bad text */
static graph *parse(ctx *c, const char *text, const char *file) {
  rd r = {.c = c, .a = ctx_arena(c), .p = text, .line_start = text, .pos = {file, 1, 1}};
  r.names = map_new(r.a);
  if (!eat_word(&r, "graph")) bad(&r, "'graph'");
  graph *g = body(&r, NULL);
  skip(&r);
  if (*r.p) bad(&r, "the end");
  g->file = file;
  graph_states_last(g);
  return g;
}
static void guarded(ctx *c, const char *text, const char *file, graph **out) {
  CTX_TRY(c) { *out = parse(c, text, file); }
  CTX_CATCH { *out = NULL; }
}
graph *graph_parse(ctx *c, const char *text, const char *file) {
  graph *g = NULL;
  guarded(c, text, file, &g);
  return g;
}
