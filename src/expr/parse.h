/* Private to the expr room: the reader's state, shared by parse.c (modules) and parse_value.c (tokens, sizes,
 * values). */
#ifndef EK_EXPR_PARSE_H
#define EK_EXPR_PARSE_H
#include "expr/build.h"

typedef enum { T_END, T_NAME, T_QUOTED /* `name` */, T_NUMBER, T_STRING, T_PUNCT } tok_kind;
typedef struct token {
  tok_kind kind;      /* tok_kind */
  const char *s;      /* NAME, QUOTED, STRING: its text, interned. PUNCT: the sign */
  const char *at;     /* where it begins */
  uint32_t line;      /* line of its first character, from 1 */
  uint32_t col;       /* column of its first character, from 1 */
  bool real;          /* NUMBER: has a point or an exponent */
  const char *suffix; /* NUMBER: type written behind it, or NULL */
  const char *digits; /* NUMBER: its digits, without the suffix of its type */
} token;
typedef struct reader {
  ctx *c;                 /* context */
  emodule *m;             /* module that is read */
  arena *a;               /* memory of the reader */
  const char *file;       /* name for messages */
  const char *p;          /* next character */
  const char *line_start; /* first character of the current line */
  uint32_t line;          /* current line, from 1 */
  uint32_t depth;         /* nesting of what is being read */
  token t;                /* the current token */
  map *sizes;             /* name -> sz: symbols and variables */
  map *tensors;           /* name -> tid */
  map *recurrences;       /* name -> index */
  map *lets;              /* k of `$k` -> ex, for this stage */
  uint32_t first_state;   /* index of the first state's input, where there are states */
} reader;

void rd_next(reader *r);
_Noreturn void rd_fail(reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool rd_is(reader *r, const char *s);   /* the current token is this sign or word */
bool rd_take(reader *r, const char *s); /* where the current token is this sign or word, goes to the next one */
void rd_expect(reader *r, const char *s);
const char *rd_name(reader *r, const char *what);
const char *rd_string(reader *r);
int64_t rd_int(reader *r); /* reads an integer, with its sign */
etype rd_type(reader *r);
tid rd_tensor(reader *r);
void rd_enter(reader *r); /* bounds recursion */
sz rd_size(reader *r);
ex rd_value(reader *r);
sz rd_declare_var(reader *r, atom *var); /* `name<extent`; *var is 0 when the extent is 1 */
void rd_range(reader *r, atom var);      /* `in lo .. hi [or all]`, if it follows; var 0: it is forgotten */
double rd_number(const token *t);
scalar rd_scalar(reader *r, etype t); /* a number of that type, with sign, inf, nan */
#endif
