/* How is loop text read back? One line an instruction (print.c shows the form); types of values are those written,
 * or follow from the operands. Errors name line and column; the module is then to be verified. */
#include "loop/ops.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200 };
typedef struct reader {
  ctx *c;                 /* context */
  arena *a;               /* memory */
  const char *file;       /* name for messages */
  const char *s;          /* next character */
  const char *line_start; /* first character of the line */
  uint32_t line;          /* number of the line, from 1 */
  lmodule *m;             /* module that is made */
  lfunc *f;               /* function that is read */
  VEC(lv) num;            /* number in the text -> value */
  map *ints;              /* i64 constants that stood in place of a value */
} reader;

static _Noreturn void error(reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void error(reader *r, const char *fmt, ...) {
  sbuf b = sbuf_new(r->a);
  va_list ap, aq;
  va_start(ap, fmt);
  va_copy(aq, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *text = arena_alloc(r->a, (size_t)(n > 0 ? n : 0) + 1);
  vsnprintf(text, (size_t)n + 1, fmt, aq);
  va_end(ap);
  va_end(aq);
  sb_put(&b, text);
  diag_add(r->c, D_ERROR, E_MODEL, (srcpos){r->file, r->line, (uint32_t)(r->s - r->line_start) + 1}, NULL,
           "loop text: %s", b.s);
  ctx_unwind(r->c);
}
static void blanks(reader *r) {
  for (;; r->s++) {
    if (*r->s == '\n') {
      r->line++;
      r->line_start = r->s + 1;
    } else if (*r->s != ' ' && *r->s != '\t' && *r->s != '\r') {
      return;
    }
  }
}
static bool name_char(char ch) {
  return isalnum((unsigned char)ch) || ch == '_' || ch == '.' || ch == '/' || ch == '-' || ch == ':';
}
static const char *word(reader *r) {
  blanks(r);
  const char *s = r->s;
  while (name_char(*r->s)) r->s++;
  if (r->s == s) error(r, "expected a word, found `%.1s`", s);
  return arena_strndup(r->a, s, (size_t)(r->s - s));
}
static bool accept(reader *r, const char *t) {
  blanks(r);
  size_t n = strlen(t);
  if (strncmp(r->s, t, n) || (name_char(t[n - 1]) && name_char(r->s[n]))) return false;
  r->s += n;
  return true;
}
static void expect(reader *r, const char *t) {
  if (!accept(r, t)) error(r, "expected `%s`", t);
}
static const char *quoted(reader *r) {
  expect(r, "\"");
  sbuf b = sbuf_new(r->a);
  sb_put(&b, "");
  for (; *r->s && *r->s != '"'; r->s++) {
    if (*r->s != '\\') {
      sb_putc(&b, *r->s);
      continue;
    }
    r->s++;
    if (*r->s == 'n')
      sb_putc(&b, '\n');
    else if (*r->s == 't')
      sb_putc(&b, '\t');
    else if (*r->s == 'x' && isxdigit((unsigned char)r->s[1]) && isxdigit((unsigned char)r->s[2])) {
      char hex[3] = {r->s[1], r->s[2], 0};
      sb_putc(&b, (char)strtoul(hex, NULL, 16));
      r->s += 2;
    } else if (*r->s)
      sb_putc(&b, *r->s);
    else
      break;
  }
  expect(r, "\"");
  return b.s;
}
static int64_t integer(reader *r) {
  blanks(r);
  char *end;
  int64_t v = *r->s == '-' ? strtoll(r->s, &end, 10) : (int64_t)strtoull(r->s, &end, 10);
  if (end == r->s) error(r, "expected an integer");
  r->s = end;
  return v;
}
static bool type_opt(reader *r, ltype *t) {
  const char *at = r->s;
  uint32_t line = r->line;
  const char *start = r->line_start;
  *t = (ltype){0, 0, 1};
  if (accept(r, "ptr")) t->ptr = 1;
  blanks(r);
  const char *s = r->s;
  size_t n = 0;
  while (name_char(s[n])) n++;
  char *name = arena_strndup(r->a, s, n), *x = strrchr(name, 'x');
  unsigned long lanes = 1;
  if (x && isdigit((unsigned char)x[1])) {
    char *end;
    lanes = strtoul(x + 1, &end, 10);
    if (!*end)
      *x = 0;
    else
      lanes = 1;
  }
  etype e = et_parse(name);
  if (e == ET_NONE || e == ET_STR || !lanes || lanes > 4096) {
    r->s = at, r->line = line, r->line_start = start;
    return false;
  }
  r->s += n;
  t->elem = (uint8_t)e;
  t->lanes = (uint16_t)lanes;
  return true;
}
static ltype type(reader *r) {
  ltype t;
  if (!type_opt(r, &t)) error(r, "expected a type");
  return t;
}
/* An integer in place of a value: a constant at the head of the body. */
static lv int_const(reader *r) {
  int64_t k = integer(r);
  uint64_t v;
  if (map_getu(r->ints, (uint64_t)k, &v)) return (lv)v;
  lfunc *f = r->f;
  vec_push(f->a, f->insts, ((linst){.kind = L_CONST, .type = lt(ET_I64, 1), .k = {.i = k}}));
  v = f->insts.n - 1;
  lblock *body = &f->blocks.v[1];
  vec_push(f->a, body->insts, (lv)v);
  memmove(body->insts.v + 1, body->insts.v, (body->insts.n - 1) * sizeof *body->insts.v);
  body->insts.v[0] = (lv)v;
  map_putu(r->ints, (uint64_t)k, v);
  return (lv)v;
}
static lv value(reader *r) {
  blanks(r);
  if (*r->s == '-' || isdigit((unsigned char)*r->s)) return int_const(r);
  expect(r, "%");
  int64_t n = integer(r);
  if (n <= 0 || n >= r->num.n || !r->num.v[n]) error(r, "%%%lld is not defined above", (long long)n);
  return r->num.v[n];
}
static lv value_opt(reader *r, const char *w) { return accept(r, w) ? value(r) : 0; }
static scalar konst(reader *r, etype t) {
  scalar k;
  if (et_kind(t) != K_FLOAT) {
    k.i = integer(r);
    return k;
  }
  blanks(r);
  char *end;
  k.f = t == ET_F64 ? strtod(r->s, &end) : (double)strtof(r->s, &end);
  if (end == r->s) error(r, "expected a number");
  r->s = end;
  return k;
}
static void list(reader *r, linst *i, bool lanes) {
  u32vec v = {0};
  expect(r, "[");
  while (!accept(r, "]")) vec_push(r->a, v, lanes ? (uint32_t)(int32_t)integer(r) : value(r));
  i->nargs = v.n;
  i->args = v.v;
}
static void access(reader *r, linst *i) {
  i->mask = value_opt(r, "mask");
  i->count = value_opt(r, "count");
  i->stride = value_opt(r, "stride");
  if (accept(r, "align")) i->align = (uint16_t)integer(r);
}
static ltype type_of(reader *r, lv v) { return li(r->f, v)->type; }
static lv push(reader *r, uint32_t block, linst i) {
  vec_push(r->f->a, r->f->insts, i);
  lv v = r->f->insts.n - 1;
  vec_push(r->f->a, r->f->blocks.v[block].insts, v);
  return v;
}
static uint32_t new_block(reader *r) {
  vec_push(r->f->a, r->f->blocks, (lblock){0});
  return r->f->blocks.n - 1;
}
static void define(reader *r, int64_t n, lv v) {
  if (n <= 0 || n > 1 << 24) error(r, "%%%lld is no value number", (long long)n);
  while (r->num.n <= n) vec_push(r->a, r->num, 0);
  if (r->num.v[n]) error(r, "%%%lld is defined twice", (long long)n);
  r->num.v[n] = v;
}
static void block(reader *r, uint32_t n, int depth);

/* After `%n =`. */
static linst definition(reader *r) {
  linst i = {0};
  const char *w = word(r);
#define IS(x) (!strcmp(w, x))
  if (IS("const")) {
    i.kind = L_CONST;
    i.type = type(r);
    i.k = konst(r, (etype)i.type.elem);
  } else if (IS("lo") || IS("hi") || IS("worker")) {
    i.kind = IS("lo") ? L_LO : IS("hi") ? L_HI : L_WORKER;
    i.type = lt(ET_I64, 1);
  } else if (IS("param")) {
    const char *name = word(r);
    i.kind = L_PARAM;
    for (uint32_t p = 0; p < r->f->params.n && !i.name; p++)
      if (!strcmp(r->f->params.v[p].name, name)) {
        if (r->f->params.v[p].value) error(r, "parameter %s is read twice", name);
        i.name = r->f->params.v[p].name;
        i.type = r->f->params.v[p].type;
        i.k.i = p;
        r->f->params.v[p].value = r->f->insts.n; /* the number that the value gets next */
      }
    if (!i.name) error(r, "function %s has no parameter %s", r->f->name, name);
  } else if (IS("splat")) {
    i.kind = L_SPLAT;
    i.type = type(r);
    i.a = value(r);
  } else if (IS("iota")) {
    i.kind = L_IOTA;
    i.type = type(r);
  } else if (IS("load") || IS("gather")) {
    i.kind = IS("load") ? L_LOAD : L_GATHER;
    i.type = type(r);
    i.a = value(r);
    i.b = value(r);
    access(r, &i);
  } else if (IS("hreduce")) {
    i.kind = L_HREDUCE;
    const char *op = word(r);
    i.op = (uint8_t)loop_rop_parse(op, strlen(op));
    if (!i.op) error(r, "no reduction `%s`", op);
    i.a = value(r);
    i.type = type_of(r, i.a);
    i.type.lanes = 1;
  } else if (IS("extract")) {
    i.kind = L_EXTRACT;
    i.a = value(r);
    i.k.i = integer(r);
    i.type = type_of(r, i.a);
    i.type.lanes = 1;
  } else if (IS("shuffle")) {
    i.kind = L_SHUFFLE;
    i.a = value(r);
    i.b = value(r);
    list(r, &i, true);
    i.type = type_of(r, i.a);
    i.type.lanes = (uint16_t)i.nargs;
  } else if (IS("lookup")) {
    i.kind = L_LOOKUP;
    i.type = type(r);
    i.a = value(r);
    list(r, &i, true);
  } else if (IS("offset")) {
    i.kind = L_OFFSET;
    i.type = type(r);
    i.a = value(r);
    i.b = value(r);
  } else if (IS("alloc") || IS("scratch")) {
    i.kind = IS("alloc") ? L_ALLOC : L_SCRATCH;
    i.type = type(r);
    i.type.ptr = 1;
    i.k.i = integer(r);
  } else if (IS("reg") || IS("get")) {
    i.kind = IS("reg") ? L_REG : L_GET;
    i.a = value(r);
    i.type = type_of(r, i.a);
  } else if (IS("intrin")) {
    i.kind = L_INTRIN;
    i.name = word(r);
    i.type = type(r);
    list(r, &i, false);
  } else {
    i.kind = L_OP;
    i.op = (uint8_t)loop_sop_parse(w, strlen(w));
    if (!i.op) error(r, "no instruction `%s`", w);
    i.type = type(r);
    unsigned n = loop_sop_arity((sop)i.op);
    i.a = value(r);
    if (n > 1) i.b = value(r);
    if (n > 2) i.c = value(r);
  }
  return i;
}
static void effect(reader *r, uint32_t in, int depth) {
  linst i = {0};
  const char *w = word(r);
  if (IS("store") || IS("scatter")) {
    i.kind = IS("store") ? L_STORE : L_SCATTER;
    i.a = value(r);
    i.b = value(r);
    i.c = value(r);
    i.type = type_of(r, i.c);
    access(r, &i);
  } else if (IS("prefetch")) {
    i.kind = L_PREFETCH;
    i.a = value(r);
    i.b = value(r);
  } else if (IS("set")) {
    i.kind = L_SET;
    i.a = value(r);
    i.b = value(r);
    i.type = type_of(r, i.b);
  } else if (IS("for")) {
    i.kind = L_FOR;
    i.type = lt(ET_I64, 1);
    expect(r, "%");
    int64_t n = integer(r);
    expect(r, "=");
    i.a = value(r);
    expect(r, "to");
    i.b = value(r);
    expect(r, "step");
    i.c = value(r);
    if (accept(r, "while")) i.mask = value(r);
    if (accept(r, "unroll")) i.k.i = integer(r);
    blanks(r);
    if (*r->s == '"') i.name = quoted(r);
    i.body = new_block(r);
    lv v = push(r, in, i);
    define(r, n, v);
    expect(r, "{");
    block(r, i.body, depth + 1);
    return;
  } else if (IS("if")) {
    i.kind = L_IF;
    i.a = value(r);
    i.body = new_block(r);
    lv v = push(r, in, i);
    expect(r, "{");
    block(r, i.body, depth + 1);
    if (accept(r, "else")) {
      uint32_t other = new_block(r);
      li(r->f, v)->other = other;
      expect(r, "{");
      block(r, other, depth + 1);
    }
    return;
  } else if (IS("call") || IS("parallel")) {
    i.kind = IS("call") ? L_CALL : L_PARALLEL;
    i.name = word(r);
    i.a = value(r);
    list(r, &i, false);
  } else if (IS("fail")) {
    i.kind = L_FAIL;
    i.a = value(r);
    i.k.i = integer(r);
    i.name = "";
    if (accept(r, "at"))
      i.b = value(r);
    else
      i.name = quoted(r);
  } else if (IS("comment")) {
    i.kind = L_COMMENT;
    i.name = quoted(r);
  } else {
    error(r, "no instruction `%s`", w);
  }
  push(r, in, i);
}
#undef IS
static void block(reader *r, uint32_t n, int depth) {
  if (depth > MAX_DEPTH) error(r, "blocks are nested more than %d deep", MAX_DEPTH);
  while (!accept(r, "}")) {
    if (!*r->s) error(r, "the text ends inside function %s", r->f->name);
    if (accept(r, "%")) {
      int64_t k = integer(r);
      expect(r, "=");
      linst i = definition(r);
      define(r, k, push(r, n, i));
    } else {
      effect(r, n, depth);
    }
  }
}
static void function(reader *r) {
  lfunc_kind k = accept(r, "kernel") ? LF_KERNEL : accept(r, "main") ? LF_MAIN : 0;
  if (!k) error(r, "expected `kernel` or `main`");
  const char *name = word(r), *note = NULL;
  blanks(r);
  if (*r->s == '"') note = quoted(r);
  r->f = loop_func(r->m, k, name, note);
  r->num.n = 0;
  r->ints = map_new(r->a);
  if (accept(r, "scratch")) r->f->scratch_bytes = (uint64_t)integer(r);
  expect(r, "(");
  while (!accept(r, ")")) {
    if (r->f->params.n) expect(r, ",");
    lparam p = {.type = type(r)};
    p.name = word(r);
    if (accept(r, "read")) p.flags |= LP_READ;
    if (accept(r, "write")) p.flags |= LP_WRITE;
    if (accept(r, "noalias")) p.flags |= LP_NOALIAS;
    if (accept(r, "align")) p.align = (uint16_t)integer(r);
    vec_push(r->f->a, r->f->params, p);
  }
  expect(r, "{");
  block(r, 1, 1);
  for (uint32_t i = 0; i < r->f->params.n; i++)
    if (!r->f->params.v[i].value) error(r, "function %s does not read its parameter %s", name, r->f->params.v[i].name);
}
lmodule *loop_parse(ctx *c, const char *text, const char *file) {
  reader r = {.c = c, .a = ctx_arena(c), .file = file, .s = text, .line_start = text, .line = 1};
  r.m = loop_module(c, ctx_arena(c));
  r.m->fast = accept(&r, "fast");
  r.m->flush = accept(&r, "flush");
  for (blanks(&r); *r.s; blanks(&r)) function(&r);
  return r.m;
}
