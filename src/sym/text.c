/* Printing and reading size expressions. Precedence: ?: lowest, then + -, then * // %, then atoms.
 *
 * The text depends on the content alone: terms by degree, then by size of the coefficient, then by name, never by
 * the order in which atoms came to be; so it reads back, in any context, as an expression of the same text
 * (variables of one name apart). Names that are no identifiers stand between backticks.
 */
#include "sym/sym_in.h"
#include <stdlib.h>
#include <string.h>

enum { SORTED = 64 };

/* ---- order by content ------------------------------------------------------------------------ */
static uint32_t sorted_factors(symtab *s, uint32_t mono, atom a[MAX_FACTORS], uint8_t e[MAX_FACTORS]) {
  const smono *m = sm(s, mono);
  for (uint32_t i = 0; i < m->n; i++) {
    uint32_t j = i;
    for (; j > 0 && sym_order_atom(s, a[j - 1], m->a[i]) > 0; j--) a[j] = a[j - 1], e[j] = e[j - 1];
    a[j] = m->a[i], e[j] = m->e[i];
  }
  return m->n;
}
static int order_terms(symtab *s, const sterm *x, const sterm *y) {
  const smono *p = sm(s, x->mono), *q = sm(s, y->mono);
  if (p->deg != q->deg) return p->deg > q->deg ? -1 : 1;
  uint64_t mx = sym_mag(x->k), my = sym_mag(y->k);
  if (mx != my) return mx > my ? -1 : 1;
  if (x->mono == y->mono) return x->k == y->k ? 0 : x->k > y->k ? -1 : 1;
  atom a[MAX_FACTORS], b[MAX_FACTORS];
  uint8_t e[MAX_FACTORS], f[MAX_FACTORS];
  uint32_t n = sorted_factors(s, x->mono, a, e), m = sorted_factors(s, y->mono, b, f);
  for (uint32_t i = 0; i < n && i < m; i++) {
    int o = sym_order_atom(s, a[i], b[i]);
    if (o) return o;
    if (e[i] != f[i]) return e[i] > f[i] ? -1 : 1;
  }
  return n != m ? (n < m ? -1 : 1) : x->k == y->k ? 0 : x->k > y->k ? -1 : 1;
}
/* The first SORTED terms by content; a longer polynomial keeps the table's order. */
static const sterm *sorted_terms(symtab *s, sz e, sterm buf[SORTED]) {
  const spoly *p = sp(s, e);
  if (p->n > SORTED) return p->t;
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t j = i;
    for (; j > 0 && order_terms(s, &buf[j - 1], &p->t[i]) > 0; j--) buf[j] = buf[j - 1];
    buf[j] = p->t[i];
  }
  return buf;
}
/* Leaves by name, parts by their content's hash: readable where it matters, and never a walk. */
int sym_order_atom(symtab *s, atom a, atom b) {
  if (a == b) return 0;
  const satom *x = sa(s, a), *y = sa(s, b);
  if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
  int o = x->depth == 0 ? strcmp(x->name, y->name) : 0;
  if (o) return o;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->data != y->data) return x->data < y->data ? -1 : 1;
  if (x->content != y->content) return x->content < y->content ? -1 : 1;
  return a < b ? -1 : 1;
}
int sym_order(symtab *s, sz a, sz b) {
  if (a == b) return 0;
  const spoly *p = sp(s, a), *q = sp(s, b);
  atom x, y;
  int64_t k, l;
  if (p->depth != q->depth) return p->depth < q->depth ? -1 : 1;
  if (p->deg != q->deg) return p->deg < q->deg ? -1 : 1;
  if (p->deg == 0 && sym_const(s, a, &k) && sym_const(s, b, &l)) return k < l ? -1 : 1;
  if (p->n != q->n) return p->n < q->n ? -1 : 1;
  bool ax = sym_single(s, a, &x), by = sym_single(s, b, &y);
  if (ax != by) return ax ? -1 : 1;
  if (ax) return sym_order_atom(s, x, y);
  return p->content != q->content ? (p->content < q->content ? -1 : 1) : a < b ? -1 : 1;
}

/* ---- printing -------------------------------------------------------------------------------- */
static bool first_char(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_'; }
static bool name_char(char ch) {
  return first_char(ch) || (ch >= '0' && ch <= '9') || ch == '.' || ch == '\'' || ch == '$';
}
static void print_name(const char *s, sbuf *b) {
  static const char *const words[] = {"min", "max", "data", "inf"};
  bool plain = first_char(*s);
  for (const char *p = s; *p && plain; p++) plain = name_char(*p);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) plain = plain && strcmp(s, words[i]);
  if (plain) {
    sb_put(b, s);
    return;
  }
  sb_putc(b, '`');
  for (; *s; s++)
    if (*s == '`' || *s == '\\' || (unsigned char)*s < 32 || *s == 127)
      sb_fmt(b, "\\x%02X", (unsigned char)*s);
    else
      sb_putc(b, *s);
  sb_putc(b, '`');
}
static void print(symtab *s, sz e, sbuf *b);
static void print_factor(symtab *s, sz e, sbuf *b) { /* with parentheses where needed */
  int64_t k;
  atom a;
  bool plain =
      (sym_const(s, e, &k) && k >= 0) || (sym_single(s, e, &a) && sa(s, a)->kind != AT_DIV && sa(s, a)->kind != AT_SEL);
  if (!plain) sb_putc(b, '(');
  print(s, e, b);
  if (!plain) sb_putc(b, ')');
}
static void print_end(int64_t v, sbuf *b) {
  if (v == SYM_INF || v == -SYM_INF)
    sb_put(b, v > 0 ? "inf" : "-inf");
  else
    sb_fmt(b, "%lld", (long long)v);
}
static bool is_sel(symtab *s, sz e) {
  atom a;
  return sym_single(s, e, &a) && sa(s, a)->kind == AT_SEL;
}
static void print_sel(symtab *s, const satom *x, sbuf *b) {
  static const char *const after[] = {" >= 0 ? ", " : ", ""};
  for (int i = 0; i < 3; i++) {
    if (i < 2 && is_sel(s, x->arg[i]))
      print_factor(s, x->arg[i], b);
    else
      print(s, x->arg[i], b);
    sb_put(b, after[i]);
  }
}
static void print_atom(symtab *s, atom a, sbuf *b) {
  const satom *x = sa(s, a);
  switch (x->kind) {
  case AT_SYMBOL:
  case AT_VAR:
    print_name(x->name, b);
    return;
  case AT_DATA:
    sb_fmt(b, "data(%u", x->data);
    if (x->lo != -SYM_INF || x->hi != SYM_INF) {
      sb_put(b, ", ");
      print_end(x->lo, b);
      sb_put(b, ", ");
      print_end(x->hi, b);
    }
    sb_putc(b, ')');
    return;
  case AT_DIV:
    print_factor(s, x->arg[0], b);
    sb_put(b, "//");
    print_factor(s, x->arg[1], b);
    return;
  case AT_SEL:
    sb_putc(b, '(');
    print_sel(s, x, b);
    sb_putc(b, ')');
    return;
  default:
    sb_put(b, x->kind == AT_MIN ? "min(" : "max(");
    print(s, x->arg[0], b);
    sb_put(b, ", ");
    print(s, x->arg[1], b);
    sb_putc(b, ')');
  }
}
static void print_term(symtab *s, const sterm *t, bool first, sbuf *b) {
  atom a[MAX_FACTORS];
  uint8_t e[MAX_FACTORS];
  uint32_t n = sorted_factors(s, t->mono, a, e);
  uint64_t mag = sym_mag(t->k);
  bool negative = t->k < 0, alone = mag == 1 && n == 1 && e[0] == 1 && !(first && negative);
  if (first)
    sb_put(b, negative ? "-" : "");
  else
    sb_put(b, negative ? " - " : " + ");
  if (n == 0 || mag != 1) sb_fmt(b, "%llu%s", (unsigned long long)mag, n ? "*" : "");
  for (uint32_t j = 0; j < n; j++)
    for (uint8_t z = 0; z < e[j]; z++) {
      if (j || z) sb_putc(b, '*');
      if (sa(s, a[j])->kind == AT_DIV && !alone)
        print_factor(s, sa(s, a[j])->self, b);
      else
        print_atom(s, a[j], b);
    }
}
static void print(symtab *s, sz e, sbuf *b) {
  const spoly *p = sp(s, e);
  atom a;
  if (b->n > s->text_limit) return;
  if (p->n == 0)
    sb_putc(b, '0');
  else if (sym_single(s, e, &a) && sa(s, a)->kind == AT_SEL)
    print_sel(s, sa(s, a), b);
  else {
    sterm buf[SORTED];
    const sterm *t = sorted_terms(s, e, buf);
    for (uint32_t i = 0; i < p->n && b->n <= s->text_limit; i++) print_term(s, &t[i], i == 0, b);
  }
}
/* False: cut off at about `most` characters. */
static bool print_some(symtab *s, sz e, sbuf *b, size_t most) {
  s->text_limit = b->n + most;
  if (e)
    print(s, e, b);
  else
    sb_putc(b, '?');
  return b->n <= s->text_limit;
}
void sym_print(ctx *c, sz e, sbuf *b) {
  if (!print_some(sym_tab(c), e, b, 16 << 20))
    ctx_fail(c, E_UNSUPPORTED, "a size expression is longer than 16 MB as text");
}
const char *sym_str(ctx *c, sz e) {
  sbuf b = sbuf_new(ctx_arena(c));
  if (!print_some(sym_tab(c), e, &b, 16 << 10)) sb_put(&b, " ...");
  return b.s;
}

/* ---- reading --------------------------------------------------------------------------------- */
typedef struct rd {
  ctx *c;                                    /* context */
  const char *p;                             /* next character */
  sz (*names)(void *, const char *, size_t); /* gives the size of a name */
  void *env;                                 /* handed to names */
  srcpos pos;                                /* position, for messages */
  bool bad;                                  /* an error was found */
  int depth;                                 /* nesting */
} rd;
static sz rexpr(rd *r);
static void skip(rd *r) {
  while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r') r->p++;
}
static sz fail(rd *r, const char *what) {
  if (!r->bad)
    diag_add(r->c, D_ERROR, E_MODEL, r->pos, NULL, "size expression: expected %s, found '%.20s'", what, r->p);
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
static bool number(rd *r, uint64_t most, uint64_t *v) {
  skip(r);
  const char *start = r->p;
  for (*v = 0; *r->p >= '0' && *r->p <= '9'; r->p++) {
    uint64_t digit = (uint64_t)(*r->p - '0');
    if (*v > (most - digit) / 10) {
      r->p = start;
      fail(r, "a smaller number");
      return false;
    }
    *v = *v * 10 + digit;
  }
  if (r->p == start) fail(r, "a number");
  return r->p != start;
}
static bool range_end(rd *r, int64_t *v) {
  bool negative = eat(r, "-");
  uint64_t n = SYM_INF;
  if (!eat(r, "inf") && !number(r, SYM_INF, &n)) return false;
  *v = negative ? -(int64_t)n : (int64_t)n;
  return true;
}
static sz rdata(rd *r) { /* Reads what follows `data(`. */
  uint64_t id;
  int64_t lo = -SYM_INF, hi = SYM_INF;
  if (!number(r, UINT32_MAX, &id)) return 0;
  if (eat(r, ",") && (!range_end(r, &lo) || !eat(r, ",") || !range_end(r, &hi))) return fail(r, "a range lo, hi");
  if (!eat(r, ")")) return fail(r, "')'");
  return sym_data(r->c, (uint32_t)id, lo, hi);
}
static sz quoted(rd *r) {
  const char *start = r->p++;
  sbuf b = sbuf_new(ctx_arena(r->c));
  sb_put(&b, "");
  for (; *r->p && *r->p != '`'; r->p++) {
    if (*r->p != '\\')
      sb_putc(&b, *r->p);
    else if (r->p[1] == 'x' && hex_digit(r->p[2]) >= 0 && hex_digit(r->p[3]) >= 0)
      sb_putc(&b, (char)(hex_digit(r->p[2]) * 16 + hex_digit(r->p[3]))), r->p += 3;
    else
      return fail(r, "\\xHH");
  }
  if (*r->p != '`') return r->p = start, fail(r, "a closing backtick");
  r->p++;
  sz e = r->names(r->env, b.s, b.n);
  return e ? e : (r->p = start, fail(r, "a known name"));
}
static sz named(rd *r) {
  const char *s = r->p;
  while (name_char(*r->p)) r->p++;
  size_t n = (size_t)(r->p - s);
  bool mn = n == 3 && !strncmp(s, "min", 3), mx = n == 3 && !strncmp(s, "max", 3);
  skip(r);
  if (*r->p == '(' && n == 4 && !strncmp(s, "data", 4)) return r->p++, rdata(r);
  if (*r->p == '(' && (mn || mx)) {
    r->p++;
    sz a = rexpr(r);
    do { /* any number of arms */
      if (r->bad || !eat(r, ",")) return fail(r, "','");
      sz b = rexpr(r);
      a = mn ? sym_min(r->c, a, b) : sym_max(r->c, a, b);
      skip(r);
    } while (!r->bad && *r->p == ',');
    return eat(r, ")") ? a : fail(r, "')'");
  }
  r->p = s + n;
  sz e = r->names(r->env, s, n);
  return e ? e : (r->p = s, fail(r, "a known name"));
}
static sz rprim(rd *r) {
  skip(r);
  if (r->bad || r->depth >= 200) return fail(r, "less nesting");
  r->depth++;
  sz e;
  uint64_t v;
  if (*r->p >= '0' && *r->p <= '9')
    e = number(r, INT64_MAX, &v) ? sym_int(r->c, (int64_t)v) : 0;
  else if (*r->p == '(') {
    r->p++;
    e = rexpr(r);
    if (!r->bad && !eat(r, ")")) fail(r, "')'");
  } else if (*r->p == '-' && r->p[1] != '>')
    r->p++, e = sym_neg(r->c, rprim(r));
  else if (*r->p == '`')
    e = quoted(r);
  else if (first_char(*r->p))
    e = named(r);
  else
    e = fail(r, "a number, a name or '('");
  r->depth--;
  return r->bad ? sym_int(r->c, 0) : e;
}
static sz rmul_from(rd *r, sz a) {
  while (!r->bad) {
    bool div = eat(r, "//"), mod = !div && eat(r, "%");
    if (div || mod) {
      const char *at = r->p;
      sz b = rprim(r);
      if (!r->bad && sym_int_or(r->c, b, 1) == 0) return r->p = at, fail(r, "a divisor that is not 0");
      if (!r->bad) a = div ? sym_div(r->c, a, b) : sym_mod(r->c, a, b);
    } else if (eat(r, "*"))
      a = sym_mul(r->c, a, rprim(r));
    else
      break;
  }
  return a;
}
/* After a minus: the number 2^63, which only fits with its sign. */
static bool lowest(rd *r) {
  skip(r);
  static const char text[] = "9223372036854775808";
  size_t n = sizeof text - 1;
  if (strncmp(r->p, text, n) || (r->p[n] >= '0' && r->p[n] <= '9')) return false;
  r->p += n;
  return true;
}
static bool minus(rd *r) {
  skip(r);
  return *r->p == '-' && r->p[1] != '>' ? r->p++, true : false; /* `->` is not ours */
}
static sz radd(rd *r) {
  sz a = sym_int(r->c, 0);
  bool first = true;
  while (!r->bad) {
    if (minus(r))
      a = lowest(r) ? sym_add(r->c, a, rmul_from(r, sym_int(r->c, INT64_MIN)))
                    : sym_sub(r->c, a, rmul_from(r, rprim(r)));
    else if (first || eat(r, "+"))
      a = sym_add(r->c, a, rmul_from(r, rprim(r)));
    else
      break;
    first = false;
  }
  return a;
}
/* Is what follows `>=` the condition of a ?: or does the expression end here? Looks for the '?' before anything that
 * cannot be part of a size. */
static bool question_ahead(const char *p) {
  int depth = 0;
  for (; *p; p++) {
    if (*p == '`') {
      for (p++; *p && *p != '`';) p++;
      if (!*p) return false;
    } else if (*p == '(')
      depth++;
    else if (*p == ')' && depth-- == 0)
      return false;
    else if (*p == '?' && depth == 0)
      return true;
    else if (!name_char(*p) && !strchr(" \t\n\r+-*/%,?:>=)", *p))
      return false;
    else if ((*p == ',' || *p == ':') && depth == 0)
      return false;
  }
  return false;
}
static sz rexpr(rd *r) {
  if (r->depth >= 200) return fail(r, "less nesting");
  r->depth++;
  sz a = radd(r);
  skip(r);
  if (!r->bad && !strncmp(r->p, ">=", 2) && question_ahead(r->p + 2)) {
    r->p += 2;
    sz cond = sym_sub(r->c, a, radd(r)), x, y;
    if (r->bad || !eat(r, "?")) return fail(r, "'?'");
    x = rexpr(r);
    if (r->bad || !eat(r, ":")) return fail(r, "':'");
    y = rexpr(r);
    if (!r->bad) a = sym_sel(r->c, cond, x, y);
  }
  r->depth--;
  return a;
}
sz sym_parse(ctx *c, const char **s, sz (*names)(void *env, const char *name, size_t n), void *env, srcpos pos) {
  rd r = {.c = c, .p = *s, .names = names, .env = env, .pos = pos};
  sz e = rexpr(&r);
  *s = r.p;
  return r.bad ? 0 : e;
}
