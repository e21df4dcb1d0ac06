/* ast: what the parser makes of a .ek source; read by the checker, the printer and the elaborator. Private to notation.
 *
 * Names are interned (intern of base.h): equal names are equal pointers. Every node carries the line and column
 * of its first token, so that errors of elaboration can point at it. Nothing is resolved
 * here: a NAME may turn out to be an index, a size, a pack, an element type, an attribute or a tensor; that is
 * the checker's and the elaborator's business.
 */
#ifndef EK_NOTATION_AST_H
#define EK_NOTATION_AST_H
#include "notation/notation.h"

typedef struct ast ast;
typedef struct fndef fndef;
typedef struct blk blk;

/* Binary operators: id, text, precedence (higher binds tighter), comparison? */
// clang-format off
#define BINOPS(X) \
  X(OR, "or", 1, 0) X(AND, "and", 2, 0) X(EQ, "==", 4, 1) X(NE, "!=", 4, 1) X(LT, "<", 4, 1) \
  X(GT, ">", 4, 1) X(LE, "<=", 4, 1) X(GE, ">=", 4, 1) X(ADD, "+", 5, 0) X(SUB, "-", 5, 0) \
  X(MUL, "*", 6, 0) X(DIV, "/", 6, 0) X(IDIV, "//", 6, 0) X(MOD, "%", 6, 0) X(POW, "**", 8, 0)
// clang-format on
typedef enum binop {
#define X(id, text, prec, cmp) BO_##id,
  BINOPS(X)
#undef X
      BO_COUNT
} binop;
enum { PREC_COND = 0, PREC_NOT = 3, PREC_UNARY = 7, PREC_POSTFIX = 9 };
const char *binop_text(binop o);
int binop_prec(binop o);
bool binop_compares(binop o);

typedef enum akind {
  A_INT = 1, /* i */
  A_FLOAT,   /* f */
  A_STR,     /* name = text */
  A_NAME,    /* name */
  A_BIN,     /* op, kid[0], kid[1] */
  A_NEG,     /* kid[0] */
  A_NOT,     /* kid[0] */
  A_COND,    /* kid[0] ? kid[1] : kid[2] */
  A_TUPLE,   /* el: a pack written out; in an index of plain names: mixed radix */
  A_COMP,    /* ( kid[0] for b where kid[1] ) */
  A_SLICE,   /* kid[0] [ kid[1] : kid[2] ], both bounds optional */
  A_ACCESS,  /* kid[0] [ el ] else kid[1]; tilde: ~[ ] */
  A_RED,     /* red [ b where kid[1] ]:acc kid[0] -> kid[2] */
  A_CALL     /* name ( el ; kw ) */
} akind;

/* One element of a list: an expression, spliced when followed by `...`. In types: `@at e`, `~e...`, `const e`. On
 * left sides: `NAME < bound`. */
typedef struct elem {
  ast *e; /* NULL: a bare `@at` */
  bool splat, tilde, fixed;
  ast *at, *bound;
} elem;
typedef struct binder {
  const char *name;
  bool splat;
  ast *lo, *hi; /* NULL: not written */
  uint32_t line, col;
} binder;
typedef struct kwarg {
  const char *name;
  ast *e;
  uint32_t line, col;
} kwarg;

struct ast {
  uint8_t kind, op;  /* op: binop or rop */
  bool tilde, paren; /* paren: written in parentheses (a tuple of one) */
  uint32_t line, col;
  const char *name;
  union {
    int64_t i;
    double f;
  } k;
  ast *kid[3];
  elem *el;
  uint32_t nel;
  binder *b;
  uint32_t nb;
  kwarg *kw;
  uint32_t nkw;
  const char *acc; /* reduction: accumulator's element type, or NULL */
};

/* ---- statements ------------------------------------------------------------------------------ */
typedef enum skind_ {
  ST_LET = 1,    /* names = e */
  ST_REQUIRE,    /* e, text; assume */
  ST_FN,         /* fn */
  ST_IF,         /* e, body, other */
  ST_EACH,       /* names, list (one per name), body */
  ST_FOLD,       /* names[0] = e, then as EACH with names + 1 */
  ST_RECURRENCE, /* names[0] < e, body */
  ST_STAGE,      /* names[0] : type [ lhs ] = e for b */
  ST_UPDATE,     /* names[0] [ lhs ] op e for b if cond */
  ST_CALL,       /* names = e: a call of an operator, reshape(...), or a tensor-valued expression */
  ST_GRAD,       /* grad(names[0]) followed by its block of statements in body */
  ST_COST        /* cost names[0] = e */
} stkind;
typedef struct stname {
  const char *name;
  bool splat;
} stname;
typedef struct stmt {
  uint8_t kind;
  uint8_t op; /* update: sop (OP_NONE is :=) */
  bool assume;
  uint32_t line, col;
  stname *names;
  uint32_t nnames;
  const char *type, *text;
  elem *lhs;
  uint32_t nlhs;
  ast *e, *cond;
  ast **list;
  uint32_t nlist;
  binder *b;
  uint32_t nb;
  bool has_for;
  fndef *fn;
  blk *body, *other;
} stmt;
struct blk {
  stmt **s;
  uint32_t n;
  uint32_t line;
};

struct fndef {
  const char *name, *file;
  stname *params;
  uint32_t nparams;
  ast *body;
  uint32_t line, col;
};

/* ---- definitions ----------------------------------------------------------------------------- */
typedef struct tvar {
  const char *name;
  const char **sets;
  uint32_t nsets, line, col;
} tvar;
typedef struct etypex { /* type of a parameter */
  const char *elem;
  bool ranked; /* brackets written */
  elem *dims;
  uint32_t n;
} etypex;
typedef struct param {
  const char *name;
  bool variadic, isdims, optional;
  etypex type;
  ast *def;
  const char **per;
  uint32_t nper;
  ast *lo, *hi; /* `in lo..hi`: contract on the data */
  uint32_t line, col;
} param;
struct opdef {
  const char *name, *domain, *doc, *file;
  uint32_t line, col, endline;
  tvar *tv;
  uint32_t ntv;
  param *in, *attr, *out;
  uint32_t nin, nattr, nout;
  blk *body;
  map *indexnames; /* names that stand for an index inside stages (checker): value 1 */
};

struct oplib {
  ctx *c;
  arena *a;
  map *ops;    /* "domain::name" -> opdef* */
  map *fns;    /* name -> fndef* */
  map *unread; /* as ops -> unread*, of sources that are read when somebody asks (lib.c) */
  VEC(const opdef *) sorted;
  bool is_sorted;
  bool unchecked; /* what definitions ask of data is not checked */
};

/* ---- tokens ---------------------------------------------------------------------------------- */
typedef enum tkind_ { T_EOF, T_NAME, T_INT, T_FLOAT, T_STR, T_DOC, T_PUNCT } tokkind;
// clang-format off
#define PUNCTS(X) \
  X(ELLIPSIS, "...") X(MAXEQ, "max=") X(MINEQ, "min=") X(DOTDOT, "..") X(ARROW, "->") X(LE, "<=") \
  X(GE, ">=") X(EQEQ, "==") X(NE, "!=") X(SLASH2, "//") X(STAR2, "**") X(PLUSEQ, "+=") \
  X(STAREQ, "*=") X(COLONEQ, ":=") X(PLUS, "+") X(MINUS, "-") X(STAR, "*") X(SLASH, "/") \
  X(PERCENT, "%") X(LT, "<") X(GT, ">") X(EQ, "=") X(QUESTION, "?") X(COLON, ":") X(SEMI, ";") \
  X(COMMA, ",") X(LPAREN, "(") X(RPAREN, ")") X(LBRACKET, "[") X(RBRACKET, "]") X(LBRACE, "{") \
  X(RBRACE, "}") X(AT, "@") X(BAR, "|") X(AMP, "&") X(TILDE, "~")
// clang-format on
// clang-format off
#define KEYWORDS(X) \
  X(OP, "op") X(FN, "fn") X(LET, "let") X(REQUIRE, "require") X(IF, "if") X(ELSE, "else") \
  X(EACH, "each") X(IN, "in") X(RECURRENCE, "recurrence") X(FOR, "for") X(WHERE, "where") X(AND, "and") \
  X(OR, "or") X(NOT, "not") X(PER, "per")
// clang-format on
typedef enum punct {
  P_NONE,
#define X(id, text) P_##id,
  PUNCTS(X)
#undef X
#define X(id, text) K_##id,
      KEYWORDS(X)
#undef X
          P_COUNT
} punct;
typedef struct token {
  uint8_t kind, p; /* tokkind; punct (keywords are names with p set) */
  bool nl;         /* a line break stands before it */
  uint32_t line, col;
  const char *s; /* interned name, string or doc text; text of punctuation */
  union {
    int64_t i;
    double f;
  } k;
} token;
typedef VEC(token) tokens;

/* ---- between the files of this folder -------------------------------------------------------- */
/* lex.c; ends with T_EOF. line: of its first character */
tokens lex(ctx *c, arena *a, const char *text, size_t n, const char *file, uint32_t line, bool *ok);
/* parse.c */
bool parse_source(oplib *lib, const char *text, size_t n, const char *file, uint32_t line,
                  void (*def)(void *env, opdef *d, fndef *f), void *env);
/* lib.c: as seen from that file */
const fndef *lib_fn(const oplib *l, const char *file, const char *name);
/* The operator that a definition calls by this name: the standard's, else one of the caller's own domain. */
const opdef *lib_called(const oplib *lib, const opdef *caller, const char *name);
/* check.c */
bool check_op(oplib *lib, opdef *d);
bool check_fn(oplib *lib, fndef *f);
void print_expr(const ast *e, sbuf *b); /* print.c */
/* Builtin functions (builtin.c), shared with the checker: returns false if there is none; max -1: any number. */
bool builtin_arity(const char *name, int *min, int *max);
/* element types and sets: bit 1 << etype; false if the name is neither */
bool elem_set(const char *name, uint32_t *mask);
#endif
