/* How does a loop program look? One instruction a line, blocks in braces; parse.c reads it back.
 *
 *   kernel NAME "note" scratch 256 (ptr f32 x read write noalias align 64, i64 n) {
 *     %1 = const f32x16 0.5
 *     for %2 = 0 to %3 step 16 unroll 2 "i" { ... }
 *   }
 *
 * Scalar i64 constants stand where they are used; all other values are numbered in the order of the text, so that
 * printing what was parsed gives the same text.
 */
#include "loop/ops.h"
#include <string.h>

typedef struct printer {
  const lfunc *f; /* the function */
  sbuf *b;        /* gets the text */
  uint32_t *num;  /* number of each value in the text */
} printer;

static void number(const lfunc *f, uint32_t block, uint32_t *num, uint32_t *next) {
  const lblock *k = &f->blocks.v[block];
  for (uint32_t j = 0; j < k->insts.n; j++) {
    const linst *i = li(f, k->insts.v[j]);
    if (loop_has_value((lkind)i->kind) && !loop_in_place(i)) num[k->insts.v[j]] = ++*next;
    if (i->body) number(f, i->body, num, next);
    if (i->other) number(f, i->other, num, next);
  }
}
uint32_t *loop_numbers(const lfunc *f, arena *a) {
  uint32_t *num = NEWN(a, uint32_t, f->insts.n), next = 0;
  number(f, 1, num, &next);
  return num;
}
static void type(sbuf *b, ltype t) {
  if (t.ptr) sb_put(b, "ptr ");
  sb_put(b, et_name((etype)t.elem));
  if (t.lanes > 1) sb_fmt(b, "x%u", t.lanes);
}
static void operand(printer *p, lv v) {
  const linst *i = li(p->f, v);
  if (loop_in_place(i))
    sb_fmt(p->b, "%lld", (long long)i->k.i);
  else
    sb_fmt(p->b, "%%%u", p->num[v]);
}
static void val(printer *p, lv v) {
  sb_putc(p->b, ' ');
  operand(p, v);
}
static void konst(sbuf *b, etype t, scalar k) {
  switch (et_kind(t)) {
  case K_FLOAT:
    if (t == ET_F64)
      sb_double(b, k.f);
    else
      sb_float(b, (float)k.f);
    break;
  case K_UINT:
    sb_fmt(b, "%llu", (unsigned long long)k.i);
    break;
  default:
    sb_fmt(b, "%lld", (long long)k.i);
  }
}
static void opt(printer *p, const char *word, lv v) {
  if (!v) return;
  sb_putc(p->b, ' ');
  sb_put(p->b, word);
  val(p, v);
}
static void list(printer *p, const linst *i) {
  sb_put(p->b, " [");
  for (uint32_t j = 0; j < i->nargs; j++) {
    if (j) sb_putc(p->b, ' ');
    if (!li_lists_values(i))
      sb_fmt(p->b, "%d", (int)i->args[j]);
    else
      operand(p, i->args[j]);
  }
  sb_putc(p->b, ']');
}
static void quoted(sbuf *b, const char *s) {
  sb_putc(b, ' ');
  sb_quoted(b, s, strlen(s));
}
static void block(printer *p, uint32_t n, int depth);
static void access(printer *p, const linst *i) {
  opt(p, "mask", i->mask);
  opt(p, "count", i->count);
  opt(p, "stride", i->stride);
  if (i->align) sb_fmt(p->b, " align %u", i->align);
}
static void typed(printer *p, const char *word, const linst *i) {
  sb_put(p->b, word);
  sb_putc(p->b, ' ');
  type(p->b, i->type);
}
static void inst(printer *p, lv v, int depth) {
  const linst *i = li(p->f, v);
  sbuf *b = p->b;
  if (loop_in_place(i)) return;
  for (int d = 0; d < depth; d++) sb_put(b, "  ");
  if (i->kind != L_FOR && loop_has_value((lkind)i->kind)) sb_fmt(b, "%%%u = ", p->num[v]);
  switch ((lkind)i->kind) {
  case L_CONST:
    typed(p, "const", i);
    sb_putc(b, ' ');
    konst(b, (etype)i->type.elem, i->k);
    break;
  case L_LO:
    sb_put(b, "lo");
    break;
  case L_HI:
    sb_put(b, "hi");
    break;
  case L_WORKER:
    sb_put(b, "worker");
    break;
  case L_PARAM:
    sb_fmt(b, "param %s", i->name);
    break;
  case L_OP:
    typed(p, loop_sop_name((sop)i->op), i);
    val(p, i->a);
    if (i->b) val(p, i->b);
    if (i->c) val(p, i->c);
    break;
  case L_SPLAT:
    typed(p, "splat", i);
    val(p, i->a);
    break;
  case L_IOTA:
    typed(p, "iota", i);
    break;
  case L_LOAD:
  case L_GATHER:
    typed(p, i->kind == L_LOAD ? "load" : "gather", i);
    val(p, i->a);
    val(p, i->b);
    access(p, i);
    break;
  case L_STORE:
  case L_SCATTER:
    sb_put(b, i->kind == L_STORE ? "store" : "scatter");
    val(p, i->a);
    val(p, i->b);
    val(p, i->c);
    access(p, i);
    break;
  case L_PREFETCH:
    sb_put(b, "prefetch");
    val(p, i->a);
    val(p, i->b);
    break;
  case L_HREDUCE:
    sb_fmt(b, "hreduce %s", loop_rop_name((rop)i->op));
    val(p, i->a);
    break;
  case L_EXTRACT:
    sb_put(b, "extract");
    val(p, i->a);
    sb_fmt(b, " %lld", (long long)i->k.i);
    break;
  case L_SHUFFLE:
    sb_put(b, "shuffle");
    val(p, i->a);
    val(p, i->b);
    list(p, i);
    break;
  case L_LOOKUP:
    typed(p, "lookup", i);
    val(p, i->a);
    list(p, i);
    break;
  case L_OFFSET:
    typed(p, "offset", i);
    val(p, i->a);
    val(p, i->b);
    break;
  case L_ALLOC:
  case L_SCRATCH:
    sb_fmt(b, "%s %s %lld", i->kind == L_ALLOC ? "alloc" : "scratch", et_name((etype)i->type.elem), (long long)i->k.i);
    break;
  case L_REG:
  case L_GET:
    sb_put(b, i->kind == L_REG ? "reg" : "get");
    val(p, i->a);
    break;
  case L_SET:
    sb_put(b, "set");
    val(p, i->a);
    val(p, i->b);
    break;
  case L_FOR:
    sb_fmt(b, "for %%%u =", p->num[v]);
    val(p, i->a);
    sb_put(b, " to");
    val(p, i->b);
    sb_put(b, " step");
    val(p, i->c);
    if (i->mask) sb_put(b, " while"), val(p, i->mask);
    if (i->k.i > 1) sb_fmt(b, " unroll %lld", (long long)i->k.i);
    if (i->name) quoted(b, i->name);
    sb_put(b, " {\n");
    block(p, i->body, depth + 1);
    break;
  case L_IF:
    sb_put(b, "if");
    val(p, i->a);
    sb_put(b, " {\n");
    block(p, i->body, depth + 1);
    if (i->other) {
      b->n--; /* the newline after the brace */
      b->s[b->n] = 0;
      sb_put(b, " else {\n");
      block(p, i->other, depth + 1);
    }
    break;
  case L_CALL:
  case L_PARALLEL:
    sb_fmt(b, "%s %s", i->kind == L_CALL ? "call" : "parallel", i->name);
    val(p, i->a);
    list(p, i);
    break;
  case L_FAIL:
    sb_put(b, "fail");
    val(p, i->a);
    sb_fmt(b, " %lld", (long long)i->k.i);
    if (i->b)
      sb_put(b, " at"), val(p, i->b);
    else
      quoted(b, i->name);
    break;
  case L_INTRIN:
    sb_fmt(b, "intrin %s ", i->name);
    type(b, i->type);
    list(p, i);
    break;
  case L_COMMENT:
    sb_put(b, "comment");
    quoted(b, i->name);
    break;
  }
  if (i->kind != L_FOR && i->kind != L_IF) sb_putc(b, '\n');
}
static void block(printer *p, uint32_t n, int depth) {
  const lblock *k = &p->f->blocks.v[n];
  for (uint32_t j = 0; j < k->insts.n; j++) inst(p, k->insts.v[j], depth);
  for (int d = 1; d < depth; d++) sb_put(p->b, "  ");
  sb_put(p->b, "}\n");
}
void loop_print_func(const lfunc *f, sbuf *b) {
  printer p = {f, b, loop_numbers(f, b->a)};
  sb_put(b, f->kind == LF_MAIN ? "main" : "kernel");
  sb_fmt(b, " %s", f->name);
  if (f->note) quoted(b, f->note);
  if (f->scratch_bytes) sb_fmt(b, " scratch %llu", (unsigned long long)f->scratch_bytes);
  sb_put(b, " (");
  for (uint32_t i = 0; i < f->params.n; i++) {
    const lparam *q = &f->params.v[i];
    if (i) sb_put(b, ", ");
    type(b, q->type);
    sb_fmt(b, " %s", q->name);
    if (q->flags & LP_READ) sb_put(b, " read");
    if (q->flags & LP_WRITE) sb_put(b, " write");
    if (q->flags & LP_NOALIAS) sb_put(b, " noalias");
    if (q->align) sb_fmt(b, " align %u", q->align);
  }
  sb_put(b, ") {\n");
  block(&p, 1, 1);
}
void loop_print(const lmodule *m, sbuf *b, const char *only) {
  bool first = true;
  if (m->fast && !only) sb_put(b, "fast\n");
  if (m->flush && !only) sb_put(b, "flush\n");
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    if (only && strcmp(only, m->funcs.v[i]->name)) continue;
    if (!first) sb_putc(b, '\n');
    first = false;
    loop_print_func(m->funcs.v[i], b);
  }
}
