/* ast: what the parser makes of a .ek source; read by the checker, the printer and the elaborator. Private to notation.
 *
 * Names are interned (intern of base.h): equal names are equal pointers. Every node carries the line and column of its
 * first token, so that errors of elaboration can point at it. Nothing is resolved here: a NAME may turn out to be an
 * index, a size, a pack, an element type, an attribute or a tensor; that is the checker's and the elaborator's
 * business.
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
  ast *e;     /* the expression; NULL: a bare `@at` */
  bool splat; /* followed by `...`: its values take the places of one */
  bool tilde; /* marked `~` */
  bool fixed; /* marked `const`: this dim decides a rank */
  ast *at;    /* the expression after `@`; NULL: not written */
  ast *bound; /* exclusive upper bound on a left side, `NAME < bound`; NULL: not written */
} elem;
typedef struct binder {
  const char *name;   /* the index */
  bool splat;         /* followed by `...`: a pack of indices */
  ast *lo;            /* first value; NULL: not written (0) */
  ast *hi;            /* exclusive upper bound; NULL: not written (follows from what is indexed) */
  uint32_t line, col; /* position of the name, from 1 */
} binder;
typedef struct kwarg {
  const char *name;   /* the attribute */
  ast *e;             /* its value */
  uint32_t line, col; /* position of the name, from 1 */
} kwarg;

struct ast {
  uint8_t kind;       /* akind */
  uint8_t op;         /* binop (A_BIN) or reduction (A_RED) */
  bool tilde;         /* A_ACCESS: written `~[ ]` */
  bool paren;         /* written in parentheses (a tuple of one) */
  uint32_t line, col; /* position of the first token, from 1 */
  const char *name;   /* A_NAME, A_CALL: the name; A_STR: the text */
  union {
    int64_t i; /* A_INT */
    double f;  /* A_FLOAT */
  } k;
  ast *kid[3];     /* operands, by kind as at akind; NULL: not written */
  elem *el;        /* elements of a tuple, an access or a call */
  uint32_t nel;    /* number of elements */
  binder *b;       /* indices of a comprehension or a reduction */
  uint32_t nb;     /* number of indices */
  kwarg *kw;       /* attributes of a call */
  uint32_t nkw;    /* number of attributes */
  const char *acc; /* A_RED: element type of the accumulator; NULL: not written */
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
  const char *name; /* what is bound */
  bool splat;       /* followed by `...`: a pack */
} stname;
typedef struct stmt {
  uint8_t kind;       /* stkind */
  uint8_t op;         /* ST_UPDATE: sop (OP_NONE is :=) */
  bool assume;        /* ST_REQUIRE: written `assume` */
  uint32_t line, col; /* position of the first token, from 1 */
  stname *names;      /* names on the left side, by kind as at stkind */
  uint32_t nnames;    /* number of names */
  const char *type;   /* element type after `:`; NULL: not written */
  const char *text;   /* ST_REQUIRE: the message; NULL: not written */
  elem *lhs;          /* indices on the left side of a stage or an update */
  uint32_t nlhs;      /* number of entries in `lhs` */
  ast *e;             /* the value or condition, by kind as at stkind */
  ast *cond;          /* condition of an update or of a range of data; NULL: none */
  ast **list;         /* ST_EACH, ST_FOLD: a pack for each name; ST_REQUIRE with `in`: lower and upper bound */
  uint32_t nlist;     /* number of entries of list */
  binder *b;          /* indices after `for` */
  uint32_t nb;        /* number of entries in `b` */
  bool has_for;       /* `for` was written */
  fndef *fn;          /* ST_FN: the function */
  blk *body;          /* the block; NULL: the kind has none */
  blk *other;         /* ST_IF: the block after `else`; NULL: none */
} stmt;
struct blk {
  stmt **s;      /* the statements, in order */
  uint32_t n;    /* number of statements */
  uint32_t line; /* line of the first token, from 1 */
};

struct fndef {
  const char *name;   /* name of the function */
  const char *file;   /* the source that defines it */
  stname *params;     /* parameters */
  uint32_t nparams;   /* number of parameters */
  ast *body;          /* what it returns */
  uint32_t line, col; /* position of `fn`, from 1 */
};

/* ---- definitions ----------------------------------------------------------------------------- */
typedef struct tvar {
  const char *name;  /* the type variable */
  const char **sets; /* element types and sets of them that it may be */
  uint32_t nsets;    /* number of sets */
  uint32_t line;     /* line of the name, from 1 */
  uint32_t col;      /* column of the name, from 1 */
} tvar;
typedef struct etypex { /* type of a parameter */
  const char *elem;     /* element type, set or type variable */
  bool ranked;          /* brackets were written */
  elem *dims;           /* the dims between the brackets */
  uint32_t n;           /* number of dims */
} etypex;
typedef struct param {
  const char *name;   /* name of the input, attribute or output */
  bool variadic;      /* followed by `...`: any number of tensors */
  bool isdims;        /* marked `dims`: its elements are sizes */
  bool optional;      /* marked `?` */
  etypex type;        /* its type */
  ast *def;           /* default value; NULL: none */
  const char **per;   /* packs that it has one value for each place of; NULL: none */
  uint32_t nper;      /* number of entries in `per` */
  ast *lo;            /* lower bound of the data, from `in lo..hi`; NULL: no contract */
  ast *hi;            /* exclusive upper bound of the data; NULL: no contract */
  uint32_t line, col; /* position of the name, from 1 */
} param;
struct opdef {
  const char *name;   /* name of the operator, without its domain */
  const char *domain; /* its domain; "": ONNX's own */
  const char *doc;    /* the text before the definition; "": none */
  const char *file;   /* the source that defines it */
  uint32_t line;      /* line of the name, from 1 */
  uint32_t col;       /* column of the name, from 1 */
  uint32_t endline;   /* last line of the definition */
  tvar *tv;           /* type variables */
  uint32_t ntv;       /* number of type variables */
  param *in;          /* inputs */
  param *attr;        /* attributes */
  param *out;         /* outputs */
  uint32_t nin;       /* number of inputs */
  uint32_t nattr;     /* number of attributes */
  uint32_t nout;      /* number of outputs */
  blk *body;          /* the statements */
  map *indexnames;    /* names that stand for an index inside stages (check.c): value 1 */
};

struct oplib {
  ctx *c;   /* context that owns the library */
  arena *a; /* arena of the definitions */
  map *ops; /* "domain::name" -> opdef * */
  map *fns; /* name -> fndef * */
  /* "domain::name" -> unread *, of sources that are read when one of their operators is looked up (lib.c) */
  map *unread;
  VEC(const opdef *) sorted; /* all operators by name, where is_sorted */
  bool is_sorted;            /* `sorted` is complete */
  bool unchecked;            /* what definitions require of data is not checked */
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
  uint8_t kind;       /* tokkind */
  uint8_t p;          /* punct (a keyword is a T_PUNCT, too) */
  bool nl;            /* a line break stands before it */
  uint32_t line, col; /* position of its first character, from 1 */
  const char *s;      /* interned name, string or doc text; text of punctuation */
  union {
    int64_t i; /* T_INT */
    double f;  /* T_FLOAT */
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
