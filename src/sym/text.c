/* Printing and reading size expressions. Precedence: ?: lowest, then + -, then * //, then atoms. */
#include "sym/sym_in.h"
#include <stdlib.h>
#include <string.h>

static void print_factor(symtab *s, sz e, sbuf *b) { /* with parentheses where needed */
  spoly p = *sp(s, e);
  int64_t k;
  atom a;
  bool plain = (sym_const(s, e, &k) && k >= 0) || (sym_is_atom(s->c, e, &a) && sa(s, a)->kind != AT_DIV && sa(s, a)->kind != AT_SEL);
  (void)p;
  if (!plain) sb_putc(b, '(');
  sym_print(s->c, e, b);
  if (!plain) sb_putc(b, ')');
}
static void print_atom(symtab *s, atom a, sbuf *b) {
  satom x = *sa(s, a);
  switch (x.kind) {
  case AT_SYMBOL:
  case AT_VAR: sb_put(b, x.name); return;
  case AT_DATA: sb_fmt(b, "data(%u)", x.data); return;
  case AT_DIV:
    print_factor(s, x.arg[0], b);
    sb_put(b, "//");
    print_factor(s, x.arg[1], b);
    return;
  case AT_MIN:
  case AT_MAX:
    sb_put(b, x.kind == AT_MIN ? "min(" : "max(");
    sym_print(s->c, x.arg[0], b);
    sb_put(b, ", ");
    sym_print(s->c, x.arg[1], b);
    sb_putc(b, ')');
    return;
  default:
    sb_putc(b, '(');
    sym_print(s->c, x.arg[0], b);
    sb_put(b, " >= 0 ? ");
    sym_print(s->c, x.arg[1], b);
    sb_put(b, " : ");
    sym_print(s->c, x.arg[2], b);
    sb_putc(b, ')');
  }
}
void sym_print(ctx *c, sz e, sbuf *b) {
  symtab *s = sym_tab(c);
  if (!e) {
    sb_putc(b, '?');
    return;
  }
  spoly p = *sp(s, e);
  if (p.n == 0) {
    sb_putc(b, '0');
    return;
  }
  bool first = true;
  for (uint32_t q = 0; q < p.n; q++) {
    sterm t = p.t[(q + 1) % p.n == 0 && p.t[0].mono == 0 ? 0 : p.t[0].mono == 0 ? q + 1 : q]; /* the constant last */
    smono m = *sm(s, t.mono);
    int64_t k = t.k;
    if (first) {
      if (k < 0) sb_putc(b, '-');
    } else sb_put(b, k < 0 ? " - " : " + ");
    uint64_t mag = k < 0 ? 0 - (uint64_t)k : (uint64_t)k;
    if (m.n == 0) sb_fmt(b, "%llu", (unsigned long long)mag);
    else {
      if (mag != 1) sb_fmt(b, "%llu*", (unsigned long long)mag);
      for (uint32_t j = 0; j < m.n; j++)
        for (uint8_t z = 0; z < m.e[j]; z++) {
          if (j || z) sb_putc(b, '*');
          bool par = sa(s, m.a[j])->kind == AT_DIV && (mag != 1 || m.n > 1 || m.e[j] > 1 || (first && k < 0));
          if (par) sb_putc(b, '(');
          print_atom(s, m.a[j], b);
          if (par) sb_putc(b, ')');
        }
    }
    first = false;
  }
}
const char *sym_str(ctx *c, sz e) {
  sbuf b = sbuf_new(ctx_arena(c));
  sym_print(c, e, &b);
  return b.s;
}

typedef struct rd { ctx *c; const char *p; sz (*names)(void *, const char *, size_t); void *env; srcpos pos; bool bad; int depth; } rd;
static sz rexpr(rd *r);
static void skip(rd *r) {
  while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n') r->p++;
}
static sz fail(rd *r, const char *what) {
  if (!r->bad) diag_add(r->c, D_ERROR, E_MODEL, r->pos, NULL, "size expression: expected %s at '%.20s'", what, r->p);
  r->bad = true;
  return sym_int(r->c, 0);
}
static bool eat(rd *r, const char *t) {
  skip(r);
  size_t n = strlen(t);
  if (strncmp(r->p, t, n)) return false;
  r->p += n;
  return true;
}
static bool namech(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || (ch >= '0' && ch <= '9') || ch == '.' || ch == '\'' || ch == '$'; }
static sz rprim(rd *r) {
  skip(r);
  if (r->bad || ++r->depth > 200) return fail(r, "less nesting");
  sz e;
  if (*r->p >= '0' && *r->p <= '9') {
    uint64_t v = 0;
    while (*r->p >= '0' && *r->p <= '9') {
      if (v > (uint64_t)INT64_MAX / 10) return fail(r, "a smaller number");
      v = v * 10 + (uint64_t)(*r->p++ - '0');
    }
    e = sym_int(r->c, (int64_t)v);
  } else if (eat(r, "(")) {
    e = rexpr(r);
    if (!eat(r, ")")) return fail(r, "')'");
  } else if (namech(*r->p)) {
    const char *s = r->p;
    while (namech(*r->p)) r->p++;
    size_t n = (size_t)(r->p - s);
    bool mn = n == 3 && !strncmp(s, "min", 3), mx = n == 3 && !strncmp(s, "max", 3);
    skip(r);
    if ((mn || mx) && *r->p == '(') {
      r->p++;
      sz a = rexpr(r);
      if (!eat(r, ",")) return fail(r, "','");
      sz b = rexpr(r);
      if (!eat(r, ")")) return fail(r, "')'");
      e = mn ? sym_min(r->c, a, b) : sym_max(r->c, a, b);
    } else {
      e = r->names(r->env, s, n);
      if (!e) {
        r->p = s;
        return fail(r, "a known name");
      }
    }
  } else return fail(r, "a number, a name or '('");
  r->depth--;
  return e;
}
static sz rmul(rd *r) {
  sz a = rprim(r);
  while (!r->bad) {
    if (eat(r, "//")) {
      sz b = rprim(r);
      if (sym_int_or(r->c, b, 1) == 0) return fail(r, "a divisor that is not 0");
      a = sym_div(r->c, a, b);
    } else if (eat(r, "*")) a = sym_mul(r->c, a, rprim(r));
    else if (eat(r, "%")) {
      sz b = rprim(r);
      if (sym_int_or(r->c, b, 1) == 0) return fail(r, "a divisor that is not 0");
      a = sym_mod(r->c, a, b);
    } else break;
  }
  return a;
}
static sz radd(rd *r) {
  bool neg = eat(r, "-");
  sz a = rmul(r);
  if (neg) a = sym_neg(r->c, a);
  while (!r->bad) {
    if (eat(r, "+")) a = sym_add(r->c, a, rmul(r));
    else if (eat(r, "-")) a = sym_sub(r->c, a, rmul(r));
    else break;
  }
  return a;
}
static sz rexpr(rd *r) {
  sz a = radd(r);
  skip(r);
  if (!strncmp(r->p, ">=", 2)) {
    r->p += 2;
    sz b = radd(r);
    if (!eat(r, "?")) return fail(r, "'?'");
    sz x = rexpr(r);
    if (!eat(r, ":")) return fail(r, "':'");
    sz y = rexpr(r);
    return sym_sel(r->c, sym_sub(r->c, a, b), x, y);
  }
  return a;
}
sz sym_parse(ctx *c, const char **s, sz (*names)(void *env, const char *name, size_t n), void *env, srcpos pos) {
  rd r = {.c = c, .p = *s, .names = names, .env = env, .pos = pos};
  sz e = rexpr(&r);
  *s = r.p;
  return r.bad ? 0 : e;
}
