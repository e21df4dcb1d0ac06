/* lex: .ek text to tokens.
 *
 * Line breaks are not tokens: each token remembers whether one stands before it, and the parser decides where a
 * statement ends. `0...` is `0` `...`: a digit string takes a point only if no second point follows. `max=` and `min=`
 * are one token only when written without a space (and not `max==`). Comments run from # to the end of the line; a
 * documentation string is """...""".
 */
#include "notation/ast.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text; /* the sign or word */
  uint8_t n;        /* number of its characters */
  uint8_t p;        /* punct */
} puncts[] = {
#define X(id, text) {text, sizeof text - 1, P_##id},
    PUNCTS(X)
#undef X
};
static const struct {
  const char *text; /* the sign or word */
  uint8_t p;        /* punct */
} keywords[] = {
#define X(id, text) {text, K_##id},
    KEYWORDS(X)
#undef X
};

typedef struct lexer {
  ctx *c;                 /* context */
  arena *a;               /* memory */
  const char *s;          /* next character */
  const char *end;        /* end of the text */
  const char *line_start; /* first character of the line */
  const char *file;       /* name for messages */
  uint32_t line;          /* number of the line, from 1 */
  bool nl;                /* a line break stands before the next token */
  bool ok;                /* no error so far */
  tokens out;             /* the tokens */
} lexer;

static void bad(lexer *l, const char *at, const char *what) {
  srcpos pos = {l->file, l->line, (uint32_t)(at - l->line_start) + 1};
  diag_add(l->c, D_ERROR, E_MODEL, pos, NULL, "%s", what);
  l->ok = false;
}

static token *push(lexer *l, tokkind k, const char *at) {
  token t = {.kind = (uint8_t)k, .nl = l->nl, .line = l->line, .col = (uint32_t)(at - l->line_start) + 1};
  l->nl = false;
  vec_push(l->a, l->out, t);
  return &l->out.v[l->out.n - 1];
}

static void newline(lexer *l, const char *at) {
  l->line++;
  l->line_start = at + 1;
  l->nl = true;
}

static void number(lexer *l) {
  const char *s = l->s, *p = s;
  bool real = false;
  while (p < l->end && isdigit((unsigned char)*p)) p++;
  if (p < l->end && *p == '.' && !(p + 1 < l->end && p[1] == '.')) {
    real = true;
    for (p++; p < l->end && isdigit((unsigned char)*p);) p++;
  }
  if (p < l->end && (*p == 'e' || *p == 'E')) {
    const char *q = p + 1;
    if (q < l->end && (*q == '+' || *q == '-')) q++;
    if (q < l->end && isdigit((unsigned char)*q)) {
      real = true;
      for (p = q; p < l->end && isdigit((unsigned char)*p);) p++;
    }
  }
  char buf[128];
  size_t n = (size_t)(p - s);
  token *t = push(l, real ? T_FLOAT : T_INT, s);
  t->s = intern_n(l->c, s, n);
  l->s = p;
  if (n >= sizeof buf) {
    bad(l, s, "this number is too long");
    return;
  }
  memcpy(buf, s, n);
  buf[n] = 0;
  errno = 0;
  if (real)
    t->k.f = strtod(buf, NULL);
  else
    t->k.i = strtoll(buf, NULL, 10);
  if (errno == ERANGE && !real) bad(l, s, "this integer does not fit into 64 bits");
}

static void string(lexer *l) {
  const char *s = l->s;
  sbuf b = sbuf_new(l->a);
  const char *p = s + 1;
  for (; p < l->end && *p != '"' && *p != '\n'; p++) {
    if (*p == '\\' && p + 1 < l->end) {
      p++;
      sb_putc(&b, *p == 'n' ? '\n' : *p);
    } else
      sb_putc(&b, *p);
  }
  token *t = push(l, T_STR, s);
  t->s = intern_n(l->c, b.n ? b.s : "", b.n);
  if (p >= l->end || *p != '"')
    bad(l, s, "this string has no closing quote on its line");
  else
    p++;
  l->s = p;
}

static void doc(lexer *l) {
  const char *s = l->s, *p = s + 3;
  token *t = push(l, T_DOC, s);
  while (p + 2 < l->end && !(p[0] == '"' && p[1] == '"' && p[2] == '"')) {
    if (*p == '\n') newline(l, p);
    p++;
  }
  if (p + 2 >= l->end) {
    bad(l, s, "this documentation string has no closing \"\"\"");
    l->s = l->end;
    return;
  }
  const char *from = s + 3, *to = p;
  while (from < to && isspace((unsigned char)*from)) from++;
  while (to > from && isspace((unsigned char)to[-1])) to--;
  t->s = intern_n(l->c, from, (size_t)(to - from));
  l->s = p + 3;
}

static void name(lexer *l) {
  const char *s = l->s, *p = s;
  while (p < l->end && (isalnum((unsigned char)*p) || *p == '_')) p++;
  size_t n = (size_t)(p - s);
  bool eq = p < l->end && *p == '=' && !(p + 1 < l->end && p[1] == '=');
  if (n == 3 && eq && (!memcmp(s, "max", 3) || !memcmp(s, "min", 3))) {
    token *t = push(l, T_PUNCT, s);
    t->p = s[1] == 'a' ? P_MAXEQ : P_MINEQ;
    t->s = s[1] == 'a' ? "max=" : "min=";
    l->s = p + 1;
    return;
  }
  token *t = push(l, T_NAME, s);
  t->s = intern_n(l->c, s, n);
  l->s = p;
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (strlen(keywords[i].text) == n && !memcmp(keywords[i].text, s, n)) t->p = keywords[i].p, t->kind = T_PUNCT;
}

tokens lex(ctx *c, arena *a, const char *text, size_t n, const char *file, uint32_t line, bool *ok) {
  lexer l = {.c = c,
             .a = a,
             .s = text,
             .end = text + n,
             .line_start = text,
             .file = file,
             .line = line,
             .nl = true,
             .ok = true};
  while (l.s < l.end) {
    unsigned char ch = (unsigned char)*l.s;
    if (ch == '\n')
      newline(&l, l.s++);
    else if (ch == ' ' || ch == '\t' || ch == '\r')
      l.s++;
    else if (ch == '#')
      while (l.s < l.end && *l.s != '\n') l.s++;
    else if (isdigit(ch))
      number(&l);
    else if (isalpha(ch) || ch == '_')
      name(&l);
    else if (ch == '"' && l.s + 2 < l.end && l.s[1] == '"' && l.s[2] == '"')
      doc(&l);
    else if (ch == '"')
      string(&l);
    else {
      size_t i, m = sizeof puncts / sizeof *puncts;
      for (i = 0; i < m; i++)
        if ((size_t)(l.end - l.s) >= puncts[i].n && !memcmp(l.s, puncts[i].text, puncts[i].n)) break;
      if (i == m) {
        bad(&l, l.s, arena_fmt(a, "character `%c` (0x%02x) has no meaning here", isprint(ch) ? ch : '?', ch));
        l.s++;
        if (diag_errors(c) > 20) break;
        continue;
      }
      token *t = push(&l, T_PUNCT, l.s);
      t->p = puncts[i].p;
      t->s = puncts[i].text;
      l.s += puncts[i].n;
    }
  }
  token *t = push(&l, T_EOF, l.s > l.end ? l.end : l.s);
  t->s = "the end of the file";
  t->nl = true;
  *ok = l.ok;
  return l.out;
}
