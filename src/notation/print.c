/* print: definitions as canonical text that parses back to the same definition. One statement a line, two spaces of
 * indent, the fewest parentheses. */
#include "notation/ast.h"
#include <math.h>
#include <string.h>

static void pexpr(const ast *e, int prec, sbuf *b);

static void pelems(const elem *el, uint32_t n, sbuf *b) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) sb_put(b, ", ");
    if (el[i].at) {
      bool simple = el[i].at->kind == A_NAME || el[i].at->kind == A_INT || el[i].at->kind == A_CALL;
      sb_putc(b, '@');
      if (!simple) sb_putc(b, '(');
      pexpr(el[i].at, 0, b);
      if (!simple) sb_putc(b, ')');
      if (!el[i].e) continue;
      sb_putc(b, ' ');
    }
    if (el[i].tilde) sb_putc(b, '~');
    if (el[i].fixed) sb_put(b, "const ");
    pexpr(el[i].e, el[i].bound ? 5 : 0, b);
    if (el[i].splat) sb_put(b, "...");
    if (el[i].bound) {
      sb_put(b, " < ");
      pexpr(el[i].bound, 5, b);
    }
  }
}
static void pbinders(const binder *v, uint32_t n, sbuf *b) {
  for (uint32_t i = 0; i < n; i++) {
    sb_fmt(b, "%s%s%s", i ? ", " : "", v[i].name, v[i].splat ? "..." : "");
    if (v[i].lo) {
      sb_put(b, " in ");
      pexpr(v[i].lo, 5, b);
      sb_put(b, " .. ");
      pexpr(v[i].hi, 5, b);
    } else if (v[i].hi) {
      sb_put(b, " < ");
      pexpr(v[i].hi, 5, b);
    }
  }
}
static void pstring(const char *s, sbuf *b) {
  sb_putc(b, '"');
  for (; *s; s++)
    if (*s == '\n')
      sb_put(b, "\\n");
    else {
      if (*s == '"' || *s == '\\') sb_putc(b, '\\');
      sb_putc(b, *s);
    }
  sb_putc(b, '"');
}
static void pfloat(double f, sbuf *b) {
  size_t from = b->n;
  sb_double(b, f);
  for (size_t i = from; i < b->n; i++)
    if (b->s[i] == '.' || b->s[i] == 'e' || b->s[i] == 'n') return;
  sb_put(b, ".0");
}

static void pexpr(const ast *e, int prec, sbuf *b) {
  int own = e->kind == A_COND || e->kind == A_RED ? PREC_COND
            : e->kind == A_NOT                    ? PREC_NOT
            : e->kind == A_NEG                    ? PREC_UNARY
            : e->kind == A_BIN                    ? binop_prec((binop)e->op)
                                                  : PREC_POSTFIX;
  if (e->kind == A_ACCESS && e->kid[1]) own = PREC_POSTFIX - 1;
  bool par = own < prec;
  static const char *const reds[] = {"",
#define X(id, name) name,
                                     REDUCTIONS(X)
#undef X
  };
  if (par) sb_putc(b, '(');
  switch (e->kind) {
  case A_INT:
    sb_fmt(b, "%lld", (long long)e->k.i);
    break;
  case A_FLOAT:
    pfloat(e->k.f, b);
    break;
  case A_STR:
    pstring(e->name, b);
    break;
  case A_NAME:
    sb_put(b, e->name);
    break;
  case A_NEG:
    sb_putc(b, '-');
    pexpr(e->kid[0], PREC_UNARY, b);
    break;
  case A_NOT:
    sb_put(b, "not ");
    pexpr(e->kid[0], PREC_NOT, b);
    break;
  case A_COND:
    pexpr(e->kid[0], 1, b);
    sb_put(b, " ? ");
    pexpr(e->kid[1], 0, b);
    sb_put(b, " : ");
    pexpr(e->kid[2], 0, b);
    break;
  case A_BIN: {
    bool tight = e->op == BO_MUL || e->op == BO_DIV || e->op == BO_POW;
    pexpr(e->kid[0], e->op == BO_POW ? PREC_POSTFIX : own, b);
    sb_fmt(b, tight ? "%s" : " %s ", binop_text((binop)e->op));
    pexpr(e->kid[1], e->op == BO_POW ? PREC_UNARY : own + 1, b);
    break;
  }
  case A_TUPLE:
    sb_putc(b, '(');
    pelems(e->el, e->nel, b);
    if (e->nel == 1) sb_putc(b, ',');
    sb_putc(b, ')');
    break;
  case A_COMP:
    sb_putc(b, '(');
    pexpr(e->kid[0], 0, b);
    sb_put(b, " for ");
    pbinders(e->b, e->nb, b);
    if (e->kid[1]) sb_put(b, " where "), pexpr(e->kid[1], 0, b);
    sb_putc(b, ')');
    break;
  case A_SLICE:
    pexpr(e->kid[0], PREC_POSTFIX, b);
    sb_putc(b, '[');
    if (e->kid[1]) pexpr(e->kid[1], 1, b), sb_putc(b, ' ');
    sb_putc(b, ':');
    if (e->kid[2]) sb_putc(b, ' '), pexpr(e->kid[2], 0, b);
    sb_putc(b, ']');
    break;
  case A_ACCESS:
    pexpr(e->kid[0], PREC_POSTFIX, b);
    sb_put(b, e->tilde ? "~[" : "[");
    pelems(e->el, e->nel, b);
    sb_putc(b, ']');
    if (e->kid[1]) sb_put(b, " else "), pexpr(e->kid[1], PREC_UNARY, b);
    break;
  case A_RED: {
    bool logical = e->op == RED_ANY || e->op == RED_ALL;
    sb_fmt(b, "%s[", reds[e->op]);
    pbinders(e->b, e->nb, b);
    if (e->kid[1]) sb_put(b, " where "), pexpr(e->kid[1], 0, b);
    sb_putc(b, ']');
    if (e->acc) sb_fmt(b, ":%s", e->acc);
    sb_putc(b, ' ');
    pexpr(e->kid[0], logical ? 4 : 6, b);
    if (e->kid[2]) sb_put(b, " -> "), pexpr(e->kid[2], 6, b);
    break;
  }
  case A_CALL:
    sb_fmt(b, strstr(e->name, "::") ? "\"%s\"(" : "%s(", e->name);
    pelems(e->el, e->nel, b);
    for (uint32_t i = 0; i < e->nkw; i++) {
      sb_fmt(b, "%s%s = ", i ? ", " : "; ", e->kw[i].name);
      pexpr(e->kw[i].e, 0, b);
    }
    sb_putc(b, ')');
    break;
  }
  if (par) sb_putc(b, ')');
}
void print_expr(const ast *e, sbuf *b) { pexpr(e, 0, b); }

static void indent(int n, sbuf *b) {
  for (int i = 0; i < n; i++) sb_put(b, "  ");
}
static void pblock(const blk *k, int depth, sbuf *b);
static void pnames(const stname *v, uint32_t n, sbuf *b) {
  for (uint32_t i = 0; i < n; i++) sb_fmt(b, "%s%s%s", i ? ", " : "", v[i].name, v[i].splat ? "..." : "");
}
static void pfn(const fndef *f, sbuf *b) {
  sb_fmt(b, "fn %s(", f->name);
  pnames(f->params, f->nparams, b);
  sb_put(b, ") = ");
  pexpr(f->body, 0, b);
}
static void pstmt(const stmt *s, int depth, sbuf *b) {
  static const char *const ops[OP_COUNT] = {
      [OP_NONE] = ":=", [OP_ADD] = "+=", [OP_MUL] = "*=", [OP_MAX] = "max=", [OP_MIN] = "min="};
  switch (s->kind) {
  case ST_LET:
    sb_put(b, "let ");
    pnames(s->names, s->nnames, b);
    sb_put(b, " = ");
    pexpr(s->e, 0, b);
    break;
  case ST_REQUIRE:
    sb_put(b, s->assume ? "assume " : "require ");
    pexpr(s->e, 0, b);
    if (s->nlist) {
      sb_put(b, " in "), pexpr(s->list[0], 5, b);
      sb_put(b, " .. "), pexpr(s->list[1], 5, b);
      if (s->has_for) sb_put(b, " for "), pbinders(s->b, s->nb, b);
      if (s->cond) sb_put(b, " if "), pexpr(s->cond, 0, b);
    }
    if (s->text) sb_putc(b, ' '), pstring(s->text, b);
    break;
  case ST_FN:
    pfn(s->fn, b);
    break;
  case ST_IF:
    sb_put(b, "if ");
    pexpr(s->e, 0, b);
    sb_putc(b, ' ');
    pblock(s->body, depth, b);
    if (s->other) {
      sb_put(b, " else ");
      if (s->other->n == 1 && s->other->s[0]->kind == ST_IF)
        pstmt(s->other->s[0], depth, b);
      else
        pblock(s->other, depth, b);
    }
    break;
  case ST_FOLD:
  case ST_EACH: {
    uint32_t k = s->kind == ST_FOLD;
    if (k) {
      sb_fmt(b, "fold %s = ", s->names[0].name);
      pexpr(s->e, 0, b);
      sb_putc(b, ' ');
    }
    sb_put(b, "each ");
    pnames(s->names + k, s->nnames - k, b);
    sb_put(b, " in ");
    for (uint32_t i = 0; i < s->nlist; i++) {
      if (i) sb_put(b, ", ");
      pexpr(s->list[i], 0, b);
    }
    sb_putc(b, ' ');
    pblock(s->body, depth, b);
    break;
  }
  case ST_RECURRENCE:
    sb_fmt(b, "recurrence %s < ", s->names[0].name);
    pexpr(s->e, 5, b);
    sb_putc(b, ' ');
    pblock(s->body, depth, b);
    break;
  case ST_STAGE:
  case ST_UPDATE:
    sb_put(b, s->names[0].name);
    if (s->type) sb_fmt(b, ": %s", s->type);
    sb_putc(b, '[');
    pelems(s->lhs, s->nlhs, b);
    sb_fmt(b, "] %s ", s->kind == ST_STAGE ? "=" : ops[s->op]);
    pexpr(s->e, 0, b);
    if (s->has_for) sb_put(b, " for "), pbinders(s->b, s->nb, b);
    if (s->cond) sb_put(b, " if "), pexpr(s->cond, 0, b);
    break;
  case ST_CALL:
    pnames(s->names, s->nnames, b);
    sb_put(b, " = ");
    pexpr(s->e, 0, b);
    break;
  case ST_GRAD:
    sb_fmt(b, "grad(%s) ", s->names[0].name);
    pblock(s->body, depth, b);
    break;
  case ST_COST:
    sb_fmt(b, "cost %s = ", s->names[0].name);
    pexpr(s->e, 0, b);
    break;
  }
}
static void pblock(const blk *k, int depth, sbuf *b) {
  sb_put(b, "{\n");
  for (uint32_t i = 0; i < k->n; i++) {
    indent(depth + 1, b);
    pstmt(k->s[i], depth + 1, b);
    sb_putc(b, '\n');
  }
  indent(depth, b);
  sb_putc(b, '}');
}
static void pparam(const param *p, sbuf *b) {
  sb_fmt(b, "%s%s: %s%s", p->name, p->variadic ? "..." : "", p->isdims ? "dims " : "", p->type.elem);
  if (p->type.ranked) {
    sb_putc(b, '[');
    pelems(p->type.dims, p->type.n, b);
    sb_putc(b, ']');
  }
  if (p->hi) {
    sb_put(b, " in ");
    pexpr(p->lo, 5, b);
    sb_put(b, " .. ");
    pexpr(p->hi, 5, b);
  }
  for (uint32_t i = 0; i < p->nper; i++) sb_fmt(b, "%s%s", i ? " & " : " per ", p->per[i]);
  if (p->optional) sb_put(b, " ?");
  if (p->def) sb_put(b, " = "), pexpr(p->def, 0, b);
}
void opdef_attributes(const opdef *d, sbuf *b) {
  for (uint32_t i = 0; i < d->nattr; i++) {
    if (i) sb_put(b, ", ");
    pparam(&d->attr[i], b);
  }
}
void opdef_signature(const opdef *d, sbuf *b) {
  if (*d->domain)
    sb_fmt(b, "\"%s::%s\"", d->domain, d->name);
  else
    sb_put(b, d->name);
  for (uint32_t i = 0; i < d->ntv; i++) {
    sb_fmt(b, "%s%s", i ? ", " : "<", d->tv[i].name);
    for (uint32_t j = 0; j < d->tv[i].nsets; j++) sb_fmt(b, "%s%s", j ? " | " : ": ", d->tv[i].sets[j]);
  }
  sb_put(b, d->ntv ? ">(" : "(");
  for (uint32_t i = 0; i < d->nin; i++) {
    if (i) sb_put(b, ", ");
    pparam(&d->in[i], b);
  }
  if (d->nattr) sb_put(b, "; ");
  opdef_attributes(d, b);
  sb_putc(b, ')');
  for (uint32_t i = 0; i < d->nout; i++) {
    sb_put(b, i ? ", " : " -> ");
    pparam(&d->out[i], b);
  }
}
void opdef_print(const opdef *d, sbuf *b) {
  if (*d->doc) sb_fmt(b, "\"\"\"%s\"\"\"\n", d->doc);
  sb_put(b, "op ");
  opdef_signature(d, b);
  sb_putc(b, ' ');
  pblock(d->body, 0, b);
  sb_putc(b, '\n');
}
