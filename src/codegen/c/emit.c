/* How does a loop function become a C function? Values are const variables v1, v2, ... in the block that defines
 * them; small constants stand where they are used; vectors are arrays filled by loops over l.
 * Values that nothing uses are left out (-Wall is to stay silent), found from the effects backwards. */
#include "codegen/c/emit.h"
#include <stdlib.h>
#include <string.h>

static void indent(cem *e) {
  for (int i = 0; i < e->depth; i++) sb_put(e->b, "  ");
}
/* ---- what is used ---------------------------------------------------------------------------- */
static bool effect(const linst *i) {
  switch ((lkind)i->kind) {
  case L_STORE:
  case L_SCATTER:
  case L_FOR:
  case L_IF:
  case L_CALL:
  case L_PARALLEL:
  case L_FAIL:
    return true;
  default:
    return false;
  }
}
static bool mark(cem *e, lv v) {
  if (!v || e->need[v]) return false;
  e->need[v] = true;
  return true;
}
static bool mark_operands(cem *e, const linst *i) {
  bool any = false;
  const lv o[] = {i->a, i->b, i->c, i->mask, i->count, i->stride};
  for (size_t k = 0; k < sizeof o / sizeof *o; k++) any |= mark(e, o[k]);
  for (uint32_t k = 0; k < i->nargs && li_lists_values(i); k++) any |= mark(e, i->args[k]);
  return any;
}
static bool reg_read(cem *e, lv reg) {
  for (uint32_t v = 1; v < e->f->insts.n; v++)
    if ((li(e->f, v)->kind == L_GET && li(e->f, v)->a == reg && e->need[v]) ||
        (li(e->f, v)->kind == L_FOR && li(e->f, v)->mask == reg))
      return true;
  return false;
}
static void find_needed(cem *e) {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t v = e->f->insts.n; v-- > 1;) {
      const linst *i = li(e->f, v);
      if (i->kind == L_SET && !e->need[v] && e->need[i->a] && reg_read(e, i->a)) e->need[v] = again = true;
      if (effect(i) || e->need[v]) again |= mark_operands(e, i);
    }
  }
}

/* ---- values ---------------------------------------------------------------------------------- */
/* constants that may stand where they are used; unsigned ones would be compared with 0 under a warning */
static bool in_place(const cem *e, lv v) {
  const linst *i = li(e->f, v);
  return i->kind == L_CONST && et_kind((etype)i->type.elem) != K_UINT;
}
void c_expr(cem *e, lv v, const char *lane) {
  const linst *i = li(e->f, v);
  if (in_place(e, v))
    c_const(e, e->b, (etype)i->type.elem, i->k);
  else if (i->type.lanes > 1 && i->kind != L_CONST)
    sb_fmt(e->b, "v%u[%s]", e->num[v], lane ? lane : "0");
  else
    sb_fmt(e->b, "v%u", e->num[v]);
}
static const char *text_of(cem *e, lv v, const char *lane) {
  sbuf keep = *e->b, t = sbuf_new(e->a);
  *e->b = t;
  c_expr(e, v, lane);
  t = *e->b;
  *e->b = keep;
  return t.s;
}
/* Opens `const T vN = ` or, for vectors, `T vN[lanes]; for (...) vN[l] = `. */
static void define(cem *e, lv v, const linst *i) {
  indent(e);
  const char *t = c_type((etype)i->type.elem);
  if (i->type.ptr)
    sb_fmt(e->b, "m_%s *const v%u = ", t, e->num[v]);
  else if (i->type.lanes > 1)
    sb_fmt(e->b, "%s v%u[%u];\n", t, e->num[v], i->type.lanes), indent(e),
        sb_fmt(e->b, "for (int l = 0; l < %u; l++) v%u[l] = ", i->type.lanes, e->num[v]);
  else
    sb_fmt(e->b, "const %s v%u = ", t, e->num[v]);
}
/* Condition under which lane l is touched, or NULL. */
static const char *active(cem *e, const linst *i, const char *lane) {
  const char *m = i->mask ? text_of(e, i->mask, lane) : NULL;
  if (!i->count) return m;
  const char *c = arena_fmt(e->a, "%s < %s", lane ? lane : "0", text_of(e, i->count, NULL));
  return m ? arena_fmt(e->a, "(%s && %s)", m, c) : c;
}
static const char *element(cem *e, const linst *i, const char *lane) {
  const char *p = text_of(e, i->a, NULL);
  if (i->kind == L_GATHER || i->kind == L_SCATTER) return arena_fmt(e->a, "%s[%s]", p, text_of(e, i->b, lane));
  const char *at = text_of(e, i->b, NULL);
  if (!lane) return arena_fmt(e->a, "%s[%s]", p, at);
  return i->stride && !EK_PLANTED("emit-c-stride")
             ? arena_fmt(e->a, "%s[%s + %s * %s]", p, at, lane, text_of(e, i->stride, NULL))
             : arena_fmt(e->a, "%s[%s + %s]", p, at, lane);
}
static void load(cem *e, lv v, const linst *i) {
  const char *lane = i->type.lanes > 1 ? "l" : NULL, *on = active(e, i, lane);
  define(e, v, i);
  bool b = i->type.elem == ET_BOOL;
  const char *x = element(e, i, lane);
  if (b) x = arena_fmt(e->a, "(u8)(%s != 0)", x);
  if (on)
    sb_fmt(e->b, "%s ? %s : (%s)0;\n", on, x, c_type((etype)i->type.elem));
  else
    sb_fmt(e->b, "%s;\n", x);
}
static void store(cem *e, const linst *i) {
  const char *lane = i->type.lanes > 1 ? "l" : NULL, *on = active(e, i, lane);
  indent(e);
  if (lane) sb_fmt(e->b, "for (int l = 0; l < %u; l++) ", i->type.lanes);
  if (on) sb_fmt(e->b, "if (%s) ", on);
  sb_fmt(e->b, "%s = %s;\n", element(e, i, lane), text_of(e, i->c, lane));
}
static void hreduce(cem *e, lv v, const linst *i) {
  etype t = (etype)i->type.elem;
  unsigned n = li(e->f, i->a)->type.lanes;
  indent(e);
  sb_fmt(e->b, "%s t%u[%u];\n", c_type(t), e->num[v], n);
  indent(e);
  sb_fmt(e->b, "for (int l = 0; l < %u; l++) t%u[l] = %s;\n", n, e->num[v], text_of(e, i->a, "l"));
  while (n > 1) {
    unsigned h = n / 2;
    indent(e);
    sb_fmt(e->b, "for (int l = 0; l < %u; l++) t%u[l] = ", h, e->num[v]);
    c_combine(e, (rop)i->op, t, arena_fmt(e->a, "t%u[l]", e->num[v]), arena_fmt(e->a, "t%u[l + %u]", e->num[v], h));
    sb_put(e->b, ";\n");
    if (n & 1 && !EK_PLANTED("emit-c-across")) {
      indent(e);
      sb_fmt(e->b, "t%u[0] = ", e->num[v]);
      c_combine(e, (rop)i->op, t, arena_fmt(e->a, "t%u[0]", e->num[v]), arena_fmt(e->a, "t%u[%u]", e->num[v], n - 1));
      sb_put(e->b, ";\n");
    }
    n = h;
  }
  indent(e);
  sb_fmt(e->b, "const %s v%u = t%u[0];\n", c_type(t), e->num[v], e->num[v]);
}
static const char *call_field(cem *e, const lparam *p) {
  if (!strncmp(p->name, "in.", 3)) return arena_fmt(e->a, "call->in[%s]", p->name + 3);
  if (!strncmp(p->name, "out.", 4)) return arena_fmt(e->a, "call->out[%s]", p->name + 4);
  if (!strcmp(p->name, "call")) return "call";
  return arena_fmt(e->a, "call->%s", p->name);
}
static void param(cem *e, lv v, const linst *i) {
  const lparam *p = &e->f->params.v[i->k.i];
  const char *from = e->f->kind == LF_MAIN ? call_field(e, p) : arena_fmt(e->a, "args[%u]", (unsigned)i->k.i);
  define(e, v, i);
  if (i->type.ptr)
    sb_fmt(e->b, "(m_%s *)(uintptr_t)%s;", c_type((etype)i->type.elem), from);
  else
    sb_fmt(e->b, "%s;", from);
  if (e->f->kind == LF_KERNEL) sb_fmt(e->b, " /* %s */", p->name);
  sb_putc(e->b, '\n');
}
static void call(cem *e, const linst *i) {
  uint64_t k;
  if (!map_gets(e->names, i->name, &k))
    ctx_bug(e->c, "codegen/c: function %s calls %s, which is not in the module", e->f->name, i->name);
  indent(e);
  sb_put(e->b, "{\n");
  e->depth++;
  indent(e);
  sb_put(e->b, "const int64_t a[] = {");
  for (uint32_t n = 0; n < i->nargs; n++)
    sb_fmt(e->b, li(e->f, i->args[n])->type.ptr ? "%s(int64_t)(uintptr_t)%s" : "%s%s", n ? ", " : "",
           text_of(e, i->args[n], NULL));
  if (!i->nargs) sb_put(e->b, "0");
  sb_put(e->b, "};\n");
  indent(e);
  if (i->kind == L_PARALLEL) {
    sb_fmt(e->b, "if (call->parallel) call->parallel(call, %s, a, %s);\n", e->idents[k], text_of(e, i->a, NULL));
    indent(e);
    sb_put(e->b, "else ");
  }
  sb_fmt(e->b, "%s(a, 0, %s, %s);\n", e->idents[k], text_of(e, i->a, NULL), e->f->kind == LF_MAIN ? "0" : "worker");
  e->depth--;
  indent(e);
  sb_put(e->b, "}\n");
}
static void block(cem *e, uint32_t n);
static const char *comment_text(cem *e, const char *s) { /* The text without what would end a comment. */
  char *t = arena_strdup(e->a, s);
  for (char *p = t; *p; p++)
    if ((p[0] == '*' && p[1] == '/') || (p[0] == '/' && p[1] == '*'))
      p[0] = ' ';
    else if (*p == '\n' || *p == '\\' || *p == '?')
      *p = ' ';
  return t;
}
static void inst(cem *e, lv v) {
  const linst *i = li(e->f, v);
  const char *lane = i->type.lanes > 1 ? "l" : NULL;
  if (!effect(i) && i->kind != L_COMMENT && !e->need[v]) return;
  switch ((lkind)i->kind) {
  case L_CONST:
    if (in_place(e, v)) return;
    indent(e);
    sb_fmt(e->b, "const %s v%u = ", c_type((etype)i->type.elem), e->num[v]);
    c_const(e, e->b, (etype)i->type.elem, i->k);
    break;
  case L_LO:
  case L_HI:
  case L_WORKER:
    define(e, v, i);
    sb_put(e->b, i->kind == L_LO ? "lo" : i->kind == L_HI ? "hi" : "worker");
    break;
  case L_PARAM:
    param(e, v, i);
    return;
  case L_OP:
    define(e, v, i);
    c_op(e, i, lane);
    break;
  case L_SPLAT:
    define(e, v, i);
    c_expr(e, i->a, NULL);
    break;
  case L_IOTA:
    define(e, v, i);
    sb_fmt(e->b, "(%s)%s", c_type((etype)i->type.elem), lane ? "l" : "0");
    break;
  case L_LOAD:
  case L_GATHER:
    load(e, v, i);
    return;
  case L_STORE:
  case L_SCATTER:
    store(e, i);
    return;
  case L_PREFETCH:
    return; /* C has no prefetch */
  case L_HREDUCE:
    hreduce(e, v, i);
    return;
  case L_EXTRACT:
    define(e, v, i);
    c_expr(e, i->a, arena_fmt(e->a, "%u", (unsigned)i->k.i));
    break;
  case L_SHUFFLE: {
    unsigned n = li(e->f, i->a)->type.lanes;
    indent(e);
    sb_fmt(e->b, i->nargs > 1 ? "const %s v%u[] = {" : "const %s v%u = ", c_type((etype)i->type.elem), e->num[v]);
    for (uint32_t k = 0; k < i->nargs; k++) {
      int32_t q = (int32_t)i->args[k] < 0 ? 0 : (int32_t)i->args[k];
      if (k) sb_put(e->b, ", ");
      c_expr(e, (uint32_t)q < n ? i->a : i->b, arena_fmt(e->a, "%u", (uint32_t)q < n ? (uint32_t)q : (uint32_t)q - n));
    }
    if (i->nargs > 1) sb_put(e->b, "}");
    break;
  }
  case L_LOOKUP:
    indent(e);
    sb_fmt(e->b, "static const %s t%u[] = {", c_type((etype)i->type.elem), e->num[v]);
    for (uint32_t k = 0; k < i->nargs; k++) {
      if (k) sb_put(e->b, ", ");
      c_const(e, e->b, (etype)i->type.elem, et_load((etype)i->type.elem, &i->args[k]));
    }
    sb_put(e->b, "};\n");
    define(e, v, i);
    sb_fmt(e->b, "t%u[", e->num[v]);
    c_expr(e, i->a, lane);
    sb_fmt(e->b, " & %u]", i->nargs - 1);
    break;
  case L_OFFSET: {
    define(e, v, i);
    const char *t = c_type((etype)i->type.elem), *p = text_of(e, i->a, NULL);
    if (i->type.elem != li(e->f, i->a)->type.elem) p = arena_fmt(e->a, "(m_%s *)(void *)%s", t, p);
    sb_fmt(e->b, "%s + %s", p, text_of(e, i->b, NULL));
    break;
  }
  case L_ALLOC:
    indent(e);
    sb_fmt(e->b, "_Alignas(64) m_%s v%u[%lld]", c_type((etype)i->type.elem), e->num[v], (long long)i->k.i);
    break;
  case L_SCRATCH:
    define(e, v, i);
    sb_fmt(e->b, "(m_%s *)(void *)((m_u8 *)(uintptr_t)args[%u] + worker * args[%u] + %lld)",
           c_type((etype)i->type.elem), e->f->params.n, e->f->params.n + 1, (long long)i->k.i);
    break;
  case L_REG:
    indent(e);
    if (lane)
      sb_fmt(e->b, "%s v%u[%u];\n", c_type((etype)i->type.elem), e->num[v], i->type.lanes), indent(e),
          sb_fmt(e->b, "for (int l = 0; l < %u; l++) v%u[l] = ", i->type.lanes, e->num[v]);
    else if (i->type.ptr)
      sb_fmt(e->b, "m_%s *v%u = ", c_type((etype)i->type.elem), e->num[v]);
    else
      sb_fmt(e->b, "%s v%u = ", c_type((etype)i->type.elem), e->num[v]);
    c_expr(e, i->a, lane);
    break;
  case L_GET:
    define(e, v, i);
    c_expr(e, i->a, lane);
    break;
  case L_SET:
    indent(e);
    if (lane) sb_fmt(e->b, "for (int l = 0; l < %u; l++) ", i->type.lanes);
    c_expr(e, i->a, lane);
    sb_put(e->b, " = ");
    c_expr(e, i->b, lane);
    break;
  case L_FOR:
    indent(e);
    sb_fmt(e->b, "for (i64 v%u = %s; v%u < %s%s%s; v%u += %s) {", e->num[v], text_of(e, i->a, NULL), e->num[v],
           text_of(e, i->b, NULL), i->mask ? " && " : "", i->mask ? text_of(e, i->mask, NULL) : "", e->num[v],
           text_of(e, i->c, NULL));
    if (i->name) sb_fmt(e->b, " /* %s */", comment_text(e, i->name));
    sb_putc(e->b, '\n');
    block(e, i->body);
    indent(e);
    sb_put(e->b, "}\n");
    return;
  case L_IF:
    indent(e);
    sb_fmt(e->b, "if (%s) {\n", text_of(e, i->a, NULL));
    block(e, i->body);
    indent(e);
    if (i->other) {
      sb_put(e->b, "} else {\n");
      block(e, i->other);
      indent(e);
    }
    sb_put(e->b, "}\n");
    return;
  case L_CALL:
  case L_PARALLEL:
    call(e, i);
    return;
  case L_FAIL:
    indent(e);
    sb_fmt(e->b, "if (%s) {\n", text_of(e, i->a, NULL));
    indent(e);
    sb_put(e->b, "  call->message = ");
    if (i->b)
      sb_fmt(e->b, "(const char *)%s", text_of(e, i->b, NULL));
    else
      c_string(e->b, i->name);
    sb_put(e->b, ";\n");
    indent(e);
    sb_fmt(e->b, "  return %lld;\n", (long long)i->k.i);
    indent(e);
    sb_put(e->b, "}\n");
    return;
  case L_COMMENT:
    indent(e);
    sb_fmt(e->b, "/* %s */\n", comment_text(e, i->name));
    return;
  case L_INTRIN:
    ctx_bug(e->c, "codegen/c: function %s: the instruction %s is not spelled", e->f->name, i->name);
  }
  sb_put(e->b, ";\n");
}
static void block(cem *e, uint32_t n) {
  const lblock *k = &e->f->blocks.v[n];
  e->depth++;
  for (uint32_t j = 0; j < k->insts.n; j++) inst(e, k->insts.v[j]);
  e->depth--;
}
static void number(cem *e, uint32_t n, uint32_t *next) {
  const lblock *k = &e->f->blocks.v[n];
  for (uint32_t j = 0; j < k->insts.n; j++) {
    const linst *i = li(e->f, k->insts.v[j]);
    e->num[k->insts.v[j]] = ++*next;
    if (i->body) number(e, i->body, next);
    if (i->other) number(e, i->other, next);
  }
}
void c_function(cem *e, const lfunc *f, const char *ident, bool is_static) {
  lfunc g = *f;
  g.a = e->a;
  code_spell(e->c, &g, e->t, NULL);
  loop_expand((lmodule *)e->m, &g, c_native, NULL);
  e->f = &g;
  e->need = NEWN(e->a, bool, g.insts.n);
  e->num = NEWN(e->a, uint32_t, g.insts.n);
  uint32_t next = 0;
  number(e, 1, &next);
  find_needed(e);
  if (g.note) sb_fmt(e->b, "/* %s */\n", comment_text(e, g.note));
  const char *st = is_static ? "static " : "";
  if (g.kind == LF_KERNEL)
    sb_fmt(e->b,
           "%svoid %s(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) {\n  (void)args, (void)lo, "
           "(void)hi, (void)worker;\n",
           st, ident);
  else
    sb_fmt(e->b, "%sint64_t %s(ek_rt_call *call) {\n  (void)call;\n", st, ident);
  block(e, 1);
  sb_put(e->b, g.kind == LF_KERNEL ? "}\n\n" : "  return 0;\n}\n\n");
  e->f = NULL;
}
