/* parse: tokens to definitions, by recursive descent. The grammar stands in docs/notation.md.
 *
 * A statement ends where no continuation is possible: an operand is missing, or the next token is a binary operator,
 * `else`, `for` or `where` (no statement begins with one of these), wherever line breaks stand. Only `if` after an
 * update must stand on the update's own line, since it also begins a statement. `;` separates statements inside braces.
 * The first syntax error of a definition is recorded; parsing goes on at the next definition. Nesting is bounded
 * (MAX_DEPTH), so that hostile text cannot exhaust the stack.
 */
#include "notation/ast.h"
#include <string.h>

enum { MAX_DEPTH = 200 };

typedef struct parser {
  ctx *c;               /* context */
  arena *a;             /* memory */
  tokens t;             /* the tokens */
  uint32_t i;           /* index of the next token */
  uint32_t depth;       /* nesting of expressions and blocks */
  const char *file;     /* name for messages */
  const char *n_dims;   /* the interned word `dims` */
  const char *n_const;  /* the interned word `const` */
  const char *n_fold;   /* the interned word `fold` */
  const char *n_grad;   /* the interned word `grad` */
  const char *n_cost;   /* the interned word `cost` */
  const char *n_assume; /* the interned word `assume` */
} parser;

static const char *const binop_texts[] = {
#define X(id, text, prec, cmp) text,
    BINOPS(X)
#undef X
};
static const uint8_t binop_precs[] = {
#define X(id, text, prec, cmp) prec,
    BINOPS(X)
#undef X
};
static const bool binop_cmps[] = {
#define X(id, text, prec, cmp) cmp,
    BINOPS(X)
#undef X
};
const char *binop_text(binop o) { return binop_texts[o]; }
int binop_prec(binop o) { return binop_precs[o]; }
bool binop_compares(binop o) { return binop_cmps[o]; }

/* ---- tokens ---------------------------------------------------------------------------------- */
static const token *at(parser *p) { return &p->t.v[p->i]; }
static const token *ahead(parser *p, uint32_t k) { return &p->t.v[p->i + k < p->t.n ? p->i + k : p->t.n - 1]; }
static bool is(parser *p, punct k) { return at(p)->kind == T_PUNCT && at(p)->p == k; }
static bool is_name(parser *p, const char *s) { return at(p)->kind == T_NAME && at(p)->s == s; }

_Noreturn static void fail(parser *p, const char *what) {
  const token *t = at(p);
  srcpos pos = {p->file, t->line, t->col};
  if (t->kind == T_EOF)
    diag_add(p->c, D_ERROR, E_MODEL, pos, NULL, "%s expected, but the file ends here", what);
  else if (t->kind == T_STR)
    diag_add(p->c, D_ERROR, E_MODEL, pos, NULL, "%s expected, found the string \"%.60s\"", what, t->s);
  else
    diag_add(p->c, D_ERROR, E_MODEL, pos, NULL, "%s expected, found `%.60s`", what, t->kind == T_DOC ? "\"\"\"" : t->s);
  ctx_unwind(p->c);
}
static bool opt(parser *p, punct k) {
  if (!is(p, k)) return false;
  p->i++;
  return true;
}
static void need(parser *p, punct k, const char *what) {
  if (!opt(p, k)) fail(p, what);
}
static const char *need_name(parser *p, const char *what) {
  if (at(p)->kind != T_NAME) fail(p, what);
  return p->t.v[p->i++].s;
}
static void enter(parser *p) {
  if (++p->depth > MAX_DEPTH) {
    srcpos pos = {p->file, at(p)->line, at(p)->col};
    diag_add(p->c, D_ERROR, E_MODEL, pos, NULL, "more than %d levels of nesting", MAX_DEPTH);
    ctx_unwind(p->c);
  }
}
static void leave(parser *p) { p->depth--; }

static ast *node(parser *p, akind k, const token *t) {
  ast *e = NEW(p->a, ast);
  e->kind = (uint8_t)k;
  e->line = t->line;
  e->col = t->col;
  return e;
}
static ast *node_at(parser *p, akind k, const ast *at_) {
  ast *e = NEW(p->a, ast);
  e->kind = (uint8_t)k;
  e->line = at_->line;
  e->col = at_->col;
  return e;
}

/* ---- expressions ----------------------------------------------------------------------------- */
static ast *expr(parser *p);
static ast *mul_level(parser *p);
static ast *add_level(parser *p);
static ast *cmp_level(parser *p);
static ast *unary(parser *p);
static ast *prim(parser *p);

static void binders(parser *p, binder **out, uint32_t *n) {
  VEC(binder) v = {0};
  do {
    binder b = {.line = at(p)->line, .col = at(p)->col};
    b.name = need_name(p, "the name of an index");
    b.splat = opt(p, P_ELLIPSIS);
    if (opt(p, P_LT))
      b.hi = add_level(p);
    else if (opt(p, K_IN)) {
      b.lo = add_level(p);
      need(p, P_DOTDOT, "`..`");
      b.hi = add_level(p);
    }
    vec_push(p->a, v, b);
  } while (opt(p, P_COMMA));
  *out = v.v;
  *n = v.n;
}

/* Elements up to and including `close`. types: the markers of dims are allowed. */
static void elems(parser *p, punct close, bool types, elem **out, uint32_t *n) {
  VEC(elem) v = {0};
  if (!opt(p, close)) do {
      elem x = {0};
      if (types && opt(p, P_AT)) x.at = prim(p);
      if (!(x.at && (is(p, P_COMMA) || is(p, close)))) {
        if (types && opt(p, P_TILDE)) x.tilde = true;
        if (types && is_name(p, p->n_const) && ahead(p, 1)->kind == T_NAME) x.fixed = true, p->i++;
        x.e = expr(p);
        x.splat = opt(p, P_ELLIPSIS);
        if (opt(p, P_LT)) x.bound = add_level(p);
      }
      vec_push(p->a, v, x);
      if (opt(p, close)) break;
      need(p, P_COMMA, close == P_RBRACKET ? "`,` or `]`" : "`,` or `)`");
    } while (true);
  *out = v.v;
  *n = v.n;
}

static int reduction(const token *t) {
  static const char *const names[] = {
#define X(id, name) name,
      REDUCTIONS(X)
#undef X
  };
  if (t->kind == T_NAME)
    for (int i = 0; i < RED_COUNT - 1; i++)
      if (!strcmp(names[i], t->s)) return i + 1;
  return RED_NONE;
}

static ast *paren(parser *p) {
  const token *t = at(p);
  need(p, P_LPAREN, "`(`");
  enter(p);
  ast *first = expr(p), *e;
  if (opt(p, K_FOR)) {
    e = node(p, A_COMP, t);
    e->kid[0] = first;
    binders(p, &e->b, &e->nb);
    if (opt(p, K_WHERE)) e->kid[1] = expr(p);
    need(p, P_RPAREN, "`)`");
  } else if (opt(p, P_RPAREN)) {
    e = first;
    e->paren = true;
  } else {
    e = node(p, A_TUPLE, t);
    VEC(elem) v = {0};
    elem x = {.e = first, .splat = opt(p, P_ELLIPSIS)};
    vec_push(p->a, v, x);
    while (opt(p, P_COMMA)) {
      if (is(p, P_RPAREN)) break;
      elem y = {.e = expr(p)};
      y.splat = opt(p, P_ELLIPSIS);
      vec_push(p->a, v, y);
    }
    need(p, P_RPAREN, "`,` or `)`");
    e->el = v.v;
    e->nel = v.n;
  }
  leave(p);
  return e;
}

static ast *call(parser *p, const token *t) {
  ast *e = node(p, A_CALL, t);
  e->name = t->s;
  need(p, P_LPAREN, "`(`");
  enter(p);
  VEC(elem) v = {0};
  VEC(kwarg) kw = {0};
  bool keys = false;
  while (!opt(p, P_RPAREN)) {
    if (!keys && opt(p, P_SEMI)) {
      keys = true;
      continue;
    }
    if (keys) {
      kwarg k = {.line = at(p)->line, .col = at(p)->col};
      k.name = need_name(p, "the name of an attribute");
      need(p, P_EQ, "`=`");
      k.e = expr(p);
      vec_push(p->a, kw, k);
    } else {
      elem x = {.e = expr(p)};
      x.splat = opt(p, P_ELLIPSIS);
      vec_push(p->a, v, x);
    }
    if (!is(p, P_RPAREN) && !is(p, P_SEMI)) need(p, P_COMMA, "`,` or `)`");
  }
  leave(p);
  e->el = v.v, e->nel = v.n;
  e->kw = kw.v, e->nkw = kw.n;
  return e;
}

static ast *prim(parser *p) {
  const token *t = at(p);
  ast *e;
  switch (t->kind) {
  case T_INT:
    p->i++;
    e = node(p, A_INT, t);
    e->k.i = t->k.i;
    return e;
  case T_FLOAT:
    p->i++;
    e = node(p, A_FLOAT, t);
    e->k.f = t->k.f;
    return e;
  case T_STR:
    p->i++;
    if (is(p, P_LPAREN)) return call(p, t); /* "domain::NAME"(..) */
    e = node(p, A_STR, t);
    e->name = t->s;
    return e;
  case T_NAME:
    p->i++;
    if (is(p, P_LPAREN)) return call(p, t);
    e = node(p, A_NAME, t);
    e->name = t->s;
    return e;
  default:
    if (is(p, P_LPAREN)) return paren(p);
    fail(p, "an expression");
  }
}

static ast *postfix(parser *p) {
  ast *e = prim(p);
  for (;;) {
    bool tilde = is(p, P_TILDE) && ahead(p, 1)->kind == T_PUNCT && ahead(p, 1)->p == P_LBRACKET;
    if (!tilde && !is(p, P_LBRACKET)) return e;
    if (tilde) p->i++;
    p->i++;
    enter(p);
    if (!tilde) { /* p[a:b]: a slice of a pack */
      uint32_t save = p->i;
      ast *lo = NULL;
      bool slice = is(p, P_COLON);
      if (!slice && !is(p, P_RBRACKET)) {
        lo = expr(p);
        slice = is(p, P_COLON);
      }
      if (slice) {
        ast *s = node_at(p, A_SLICE, e);
        p->i++;
        s->kid[0] = e;
        s->kid[1] = lo;
        if (!is(p, P_RBRACKET)) s->kid[2] = expr(p);
        need(p, P_RBRACKET, "`]`");
        leave(p);
        e = s;
        continue;
      }
      p->i = save;
    }
    ast *x = node_at(p, A_ACCESS, e);
    x->kid[0] = e;
    x->tilde = tilde;
    elems(p, P_RBRACKET, false, &x->el, &x->nel);
    if (opt(p, K_ELSE)) x->kid[1] = unary(p);
    leave(p);
    e = x;
  }
}

static ast *power(parser *p) {
  ast *a = postfix(p);
  if (!opt(p, P_STAR2)) return a;
  ast *e = node_at(p, A_BIN, a);
  e->op = BO_POW;
  e->kid[0] = a;
  enter(p);
  e->kid[1] = unary(p);
  leave(p);
  return e;
}

static ast *unary(parser *p) {
  const token *t = at(p);
  if (opt(p, P_MINUS)) {
    ast *e = node(p, A_NEG, t);
    enter(p);
    e->kid[0] = unary(p);
    leave(p);
    return e;
  }
  int r = reduction(t);
  if (r && ahead(p, 1)->kind == T_PUNCT && ahead(p, 1)->p == P_LBRACKET) {
    ast *e = node(p, A_RED, t);
    e->op = (uint8_t)r;
    p->i += 2;
    enter(p);
    binders(p, &e->b, &e->nb);
    if (opt(p, K_WHERE)) e->kid[1] = expr(p);
    need(p, P_RBRACKET, "`]`");
    if (is(p, P_COLON) && !at(p)->nl && ahead(p, 1)->kind == T_NAME && et_parse(ahead(p, 1)->s) != ET_NONE) {
      e->acc = ahead(p, 1)->s;
      p->i += 2;
    }
    e->kid[0] = r == RED_ANY || r == RED_ALL ? cmp_level(p) : mul_level(p);
    if (opt(p, P_ARROW)) e->kid[2] = mul_level(p);
    leave(p);
    return e;
  }
  return power(p);
}

static ast *bin(parser *p, binop o, ast *a, ast *b) {
  ast *e = node_at(p, A_BIN, a);
  e->op = (uint8_t)o;
  e->kid[0] = a;
  e->kid[1] = b;
  return e;
}
static ast *mul_level(parser *p) {
  ast *a = unary(p);
  for (;;) {
    binop o = is(p, P_STAR)      ? BO_MUL
              : is(p, P_SLASH)   ? BO_DIV
              : is(p, P_SLASH2)  ? BO_IDIV
              : is(p, P_PERCENT) ? BO_MOD
                                 : BO_COUNT;
    if (o == BO_COUNT) return a;
    p->i++;
    a = bin(p, o, a, unary(p));
  }
}
static ast *add_level(parser *p) {
  ast *a = mul_level(p);
  for (;;) {
    binop o = is(p, P_PLUS) ? BO_ADD : is(p, P_MINUS) ? BO_SUB : BO_COUNT;
    if (o == BO_COUNT) return a;
    p->i++;
    a = bin(p, o, a, mul_level(p));
  }
}
static ast *cmp_level(parser *p) {
  ast *a = add_level(p);
  for (;;) {
    binop o = is(p, P_LT)     ? BO_LT
              : is(p, P_GT)   ? BO_GT
              : is(p, P_LE)   ? BO_LE
              : is(p, P_GE)   ? BO_GE
              : is(p, P_EQEQ) ? BO_EQ
              : is(p, P_NE)   ? BO_NE
                              : BO_COUNT;
    if (o == BO_COUNT) return a;
    p->i++;
    a = bin(p, o, a, add_level(p));
  }
}
static ast *not_level(parser *p) {
  const token *t = at(p);
  if (!opt(p, K_NOT)) return cmp_level(p);
  ast *e = node(p, A_NOT, t);
  enter(p);
  e->kid[0] = not_level(p);
  leave(p);
  return e;
}
static ast *and_level(parser *p) {
  ast *a = not_level(p);
  while (opt(p, K_AND)) a = bin(p, BO_AND, a, not_level(p));
  return a;
}
static ast *expr(parser *p) {
  enter(p);
  ast *a = and_level(p);
  while (opt(p, K_OR)) a = bin(p, BO_OR, a, and_level(p));
  if (opt(p, P_QUESTION)) {
    ast *e = node_at(p, A_COND, a);
    e->kid[0] = a;
    e->kid[1] = expr(p);
    need(p, P_COLON, "`:` of `? :`");
    e->kid[2] = expr(p);
    a = e;
  }
  leave(p);
  return a;
}

/* ---- statements ------------------------------------------------------------------------------ */
static stmt *statement(parser *p);

static blk *braces(parser *p) {
  blk *b = NEW(p->a, blk);
  VEC(stmt *) v = {0};
  b->line = at(p)->line;
  need(p, P_LBRACE, "`{`");
  enter(p);
  while (!opt(p, P_RBRACE)) {
    if (opt(p, P_SEMI)) continue;
    if (at(p)->kind == T_EOF) fail(p, "`}`");
    vec_push(p->a, v, statement(p));
    if (!is(p, P_RBRACE) && !is(p, P_SEMI) && !at(p)->nl && v.v[v.n - 1]->kind != ST_IF)
      fail(p, "a line break, `;` or `}`");
  }
  leave(p);
  b->s = v.v;
  b->n = v.n;
  return b;
}
static blk *one_statement(parser *p, stmt *s) {
  blk *b = NEW(p->a, blk);
  b->s = NEWN(p->a, stmt *, 1);
  b->s[0] = s;
  b->n = 1;
  b->line = s->line;
  return b;
}

static fndef *function(parser *p) {
  fndef *f = NEW(p->a, fndef);
  f->file = p->file;
  f->line = at(p)->line, f->col = at(p)->col;
  need(p, K_FN, "`fn`");
  f->name = need_name(p, "the name of a function");
  need(p, P_LPAREN, "`(`");
  VEC(stname) v = {0};
  while (!opt(p, P_RPAREN)) {
    stname x = {need_name(p, "the name of a parameter"), false};
    x.splat = opt(p, P_ELLIPSIS);
    vec_push(p->a, v, x);
    if (!is(p, P_RPAREN)) need(p, P_COMMA, "`,` or `)`");
  }
  need(p, P_EQ, "`=`");
  f->params = v.v, f->nparams = v.n;
  f->body = expr(p);
  return f;
}

static void names(parser *p, stmt *s) {
  VEC(stname) v = {0};
  do {
    stname x = {need_name(p, "a name"), false};
    x.splat = opt(p, P_ELLIPSIS);
    vec_push(p->a, v, x);
  } while (opt(p, P_COMMA));
  s->names = v.v, s->nnames = v.n;
}

/* `names in expr, expr {`: the rest of each and fold; the names read so far are kept */
static void each_tail(parser *p, stmt *s, uint32_t skip) {
  VEC(stname) nv = {0};
  for (uint32_t i = 0; i < skip; i++) vec_push(p->a, nv, s->names[i]);
  do {
    stname x = {need_name(p, "a name"), false};
    vec_push(p->a, nv, x);
  } while (opt(p, P_COMMA));
  need(p, K_IN, "`in`");
  VEC(ast *) v = {0};
  do vec_push(p->a, v, expr(p));
  while (opt(p, P_COMMA));
  s->names = nv.v, s->nnames = nv.n;
  s->list = v.v, s->nlist = v.n;
  if (s->nlist != s->nnames - skip) fail(p, "as many packs as names before `in`");
  s->body = braces(p);
}

static stmt *assignment(parser *p, stmt *s) {
  names(p, s);
  if (opt(p, P_COLON)) s->type = need_name(p, "an element type");
  if (s->nnames == 1 && !s->names[0].splat && opt(p, P_LBRACKET)) {
    elems(p, P_RBRACKET, false, &s->lhs, &s->nlhs);
    s->kind = ST_UPDATE;
    if (opt(p, P_EQ))
      s->kind = ST_STAGE;
    else if (opt(p, P_COLONEQ))
      s->op = OP_NONE;
    else if (opt(p, P_PLUSEQ))
      s->op = OP_ADD;
    else if (opt(p, P_STAREQ))
      s->op = OP_MUL;
    else if (opt(p, P_MAXEQ))
      s->op = OP_MAX;
    else if (opt(p, P_MINEQ))
      s->op = OP_MIN;
    else
      fail(p, "`=`, `:=`, `+=`, `*=`, `max=` or `min=`");
    s->e = expr(p);
    if (opt(p, K_FOR)) {
      s->has_for = true;
      binders(p, &s->b, &s->nb);
    }
    if (s->kind == ST_UPDATE && is(p, K_IF) && !at(p)->nl) {
      p->i++;
      s->cond = expr(p);
    }
    if (s->kind == ST_STAGE)
      for (uint32_t i = 0; i < s->nlhs; i++) { /* `q < 4` on a left side is a bound, not a comparison */
        elem *x = &s->lhs[i];
        if (x->e->kind == A_BIN && x->e->op == BO_LT && !x->e->paren && !x->bound) {
          x->bound = x->e->kid[1];
          x->e = x->e->kid[0];
        }
      }
    return s;
  }
  if (s->type) fail(p, "`[`");
  s->kind = ST_CALL;
  need(p, P_EQ, "`=` or `[`");
  s->e = expr(p);
  return s;
}

/* After a word that is a keyword only at the start of a statement: does the next token make it an ordinary name? */
static bool continues_name(parser *p) {
  const token *t = ahead(p, 1);
  return t->kind == T_PUNCT &&
         (t->p == P_EQ || t->p == P_LBRACKET || t->p == P_COMMA || t->p == P_COLON || t->p == P_ELLIPSIS);
}

/* .. in lo .. hi for q if c: behind `require` and a value */
static void data_range(parser *p, stmt *s) {
  s->list = NEWN(p->a, ast *, 2), s->nlist = 2;
  s->list[0] = add_level(p);
  need(p, P_DOTDOT, "`..`");
  s->list[1] = add_level(p);
  if (opt(p, K_FOR)) {
    s->has_for = true;
    binders(p, &s->b, &s->nb);
  }
  if (is(p, K_IF) && !at(p)->nl) {
    p->i++;
    s->cond = expr(p);
  }
}

static stmt *statement(parser *p) {
  stmt *s = NEW(p->a, stmt);
  const token *t = at(p);
  s->line = t->line, s->col = t->col;
  enter(p);
  if (opt(p, K_LET)) {
    s->kind = ST_LET;
    names(p, s);
    need(p, P_EQ, "`=`");
    s->e = expr(p);
  } else if (is(p, K_REQUIRE) || (is_name(p, p->n_assume) && !continues_name(p))) {
    s->kind = ST_REQUIRE;
    s->assume = !is(p, K_REQUIRE);
    p->i++;
    s->e = expr(p);
    if (!s->assume && opt(p, K_IN)) data_range(p, s);
    if (at(p)->kind == T_STR) s->text = p->t.v[p->i++].s;
  } else if (is(p, K_FN)) {
    s->kind = ST_FN;
    s->fn = function(p);
  } else if (opt(p, K_IF)) {
    s->kind = ST_IF;
    s->e = expr(p);
    s->body = braces(p);
    if (opt(p, K_ELSE)) s->other = is(p, K_IF) ? one_statement(p, statement(p)) : braces(p);
  } else if (opt(p, K_EACH)) {
    s->kind = ST_EACH;
    each_tail(p, s, 0);
  } else if (is_name(p, p->n_fold) && ahead(p, 1)->kind == T_NAME) {
    p->i++;
    s->kind = ST_FOLD;
    names(p, s);
    if (s->nnames != 1) fail(p, "one name to fold");
    need(p, P_EQ, "`=`");
    s->e = expr(p);
    need(p, K_EACH, "`each`");
    each_tail(p, s, 1);
  } else if (opt(p, K_RECURRENCE)) {
    s->kind = ST_RECURRENCE;
    s->names = NEWN(p->a, stname, 1);
    s->nnames = 1;
    s->names[0].name = need_name(p, "the name of the step's index");
    need(p, P_LT, "`<`");
    s->e = add_level(p);
    s->body = braces(p);
  } else if (is_name(p, p->n_grad) && ahead(p, 1)->kind == T_PUNCT && ahead(p, 1)->p == P_LPAREN) {
    p->i += 2;
    s->kind = ST_GRAD;
    s->names = NEWN(p->a, stname, 1);
    s->nnames = 1;
    s->names[0].name = need_name(p, "the name of an input");
    need(p, P_RPAREN, "`)`");
    s->body = is(p, P_LBRACE) ? braces(p) : one_statement(p, statement(p));
  } else if (is_name(p, p->n_cost) && ahead(p, 1)->kind == T_NAME) {
    p->i++;
    s->kind = ST_COST;
    s->names = NEWN(p->a, stname, 1);
    s->nnames = 1;
    s->names[0].name = need_name(p, "what is counted (flops, bytes)");
    need(p, P_EQ, "`=`");
    s->e = expr(p);
  } else if (t->kind == T_NAME)
    assignment(p, s);
  else
    fail(p, "a statement");
  leave(p);
  return s;
}

/* ---- definitions ----------------------------------------------------------------------------- */
static etypex type(parser *p, param *q) {
  etypex y = {0};
  if (is_name(p, p->n_dims) && ahead(p, 1)->kind == T_NAME) q->isdims = true, p->i++;
  y.elem = need_name(p, "an element type");
  if (opt(p, P_LBRACKET)) {
    y.ranked = true;
    elems(p, P_RBRACKET, true, &y.dims, &y.n);
  }
  return y;
}

static param parameter(parser *p, bool attribute) {
  param q = {.line = at(p)->line, .col = at(p)->col};
  q.name = need_name(p, attribute ? "the name of an attribute" : "the name of an input");
  q.variadic = opt(p, P_ELLIPSIS);
  need(p, P_COLON, "`:` and a type");
  q.type = type(p, &q);
  if (opt(p, K_IN)) {
    q.lo = add_level(p);
    need(p, P_DOTDOT, "`..`");
    q.hi = add_level(p);
  }
  if (opt(p, K_PER)) {
    VEC(const char *) v = {0};
    do vec_push(p->a, v, need_name(p, "the name of a pack"));
    while (opt(p, P_AMP));
    q.per = v.v, q.nper = v.n;
  }
  q.optional = opt(p, P_QUESTION);
  if (opt(p, P_EQ)) q.def = expr(p);
  return q;
}

static void signature(parser *p, opdef *d) {
  VEC(param) in = {0}, attr = {0}, out = {0};
  need(p, P_LPAREN, "`(`");
  bool attrs = false;
  while (!opt(p, P_RPAREN)) {
    if (!attrs && opt(p, P_SEMI)) {
      attrs = true;
      continue;
    }
    param q = parameter(p, attrs);
    if (attrs)
      vec_push(p->a, attr, q);
    else
      vec_push(p->a, in, q);
    if (!is(p, P_RPAREN) && !is(p, P_SEMI)) need(p, P_COMMA, "`,`, `;` or `)`");
  }
  need(p, P_ARROW, "`->` and the outputs");
  do {
    param q = {.line = at(p)->line, .col = at(p)->col};
    q.name = need_name(p, "the name of an output");
    q.variadic = opt(p, P_ELLIPSIS);
    need(p, P_COLON, "`:` and a type");
    q.type = type(p, &q);
    q.optional = opt(p, P_QUESTION);
    vec_push(p->a, out, q);
  } while (opt(p, P_COMMA));
  d->in = in.v, d->nin = in.n;
  d->attr = attr.v, d->nattr = attr.n;
  d->out = out.v, d->nout = out.n;
}

static opdef *definition(parser *p, const char *doc) {
  opdef *d = NEW(p->a, opdef);
  d->file = p->file;
  d->doc = doc ? doc : "";
  p->i++;
  d->line = at(p)->line, d->col = at(p)->col;
  d->domain = "";
  if (at(p)->kind == T_STR) { /* "domain::NAME" */
    const char *s = p->t.v[p->i++].s, *sep = NULL;
    for (const char *q = strstr(s, "::"); q; q = strstr(q + 1, "::")) sep = q;
    d->domain = sep ? intern_n(p->c, s, (size_t)(sep - s)) : "";
    d->name = sep ? intern(p->c, sep + 2) : s;
  } else
    d->name = need_name(p, "the name of the operator");
  if (opt(p, P_LT)) {
    VEC(tvar) v = {0};
    do {
      tvar tv = {.line = at(p)->line, .col = at(p)->col};
      tv.name = need_name(p, "the name of a type variable");
      VEC(const char *) sets = {0};
      if (opt(p, P_COLON)) do
          vec_push(p->a, sets, need_name(p, "an element type or a set of them"));
        while (opt(p, P_BAR));
      tv.sets = sets.v, tv.nsets = sets.n;
      vec_push(p->a, v, tv);
    } while (opt(p, P_COMMA));
    need(p, P_GT, "`>`");
    d->tv = v.v, d->ntv = v.n;
  }
  signature(p, d);
  d->body = braces(p);
  d->endline = p->t.v[p->i - 1].line;
  return d;
}

static bool starts_definition(parser *p) { return is(p, K_OP) || is(p, K_FN) || at(p)->kind == T_DOC; }
/* Parses one definition; on a syntax error skips to the next one. */
static bool one(parser *p, opdef **d, fndef **f) {
  volatile bool ok = true;
  *d = NULL, *f = NULL;
  CTX_TRY(p->c) {
    const char *doc = NULL;
    if (at(p)->kind == T_DOC) doc = p->t.v[p->i++].s;
    if (is(p, K_OP))
      *d = definition(p, doc);
    else if (is(p, K_FN))
      *f = function(p);
    else
      fail(p, "`op` or `fn`");
  }
  CTX_CATCH {
    ok = false;
    p->depth = 0;
    if (at(p)->kind != T_EOF) p->i++;
    while (at(p)->kind != T_EOF && !(starts_definition(p) && at(p)->nl && at(p)->col == 1)) p->i++;
  }
  return ok;
}

bool parse_source(oplib *lib, const char *text, size_t n, const char *file, uint32_t line,
                  void (*def)(void *env, opdef *d, fndef *f), void *env) {
  ctx *c = lib->c;
  bool ok;
  parser *p = NEW(lib->a, parser);
  p->c = c, p->a = lib->a, p->file = intern(c, file);
  p->n_dims = intern(c, "dims"), p->n_const = intern(c, "const"), p->n_fold = intern(c, "fold");
  p->n_grad = intern(c, "grad"), p->n_cost = intern(c, "cost");
  p->n_assume = intern(c, "assume");
  p->t = lex(c, lib->a, text, n, p->file, line, &ok);
  if (!ok) return false;
  while (at(p)->kind != T_EOF) {
    opdef *d;
    fndef *f;
    if (!one(p, &d, &f))
      ok = false;
    else
      def(env, d, f);
  }
  return ok;
}
