/* Private to the expr room: the printer's state, shared by print.c (modules) and print_value.c (names, sizes,
 * values). */
#ifndef EK_EXPR_PRINT_H
#define EK_EXPR_PRINT_H
#include "expr/build.h"

typedef struct printer {
  emodule *m;         /* module that is printed */
  arena *a;           /* scratch */
  sbuf *b;            /* gets the text */
  map *names;         /* atom -> const char *: what this atom is called in the text */
  map *taken;         /* every name in use, and the reserved words */
  u32vec sizes;       /* symbols in order of first use: to be declared above */
  u32vec recurrences; /* recurrences in order of first use */
  map *uses;          /* ex -> how often the current stage refers to it; NULL: nothing is named */
  map *weight;        /* ex -> nodes of the tree it unfolds to, saturating */
  map *lets;          /* ex -> k of `$k` */
  map *keys;          /* ex -> order-preserving hash */
  map *atom_keys;     /* atom -> order-preserving hash */
  map *texts;         /* atom -> its text */
  map *shown;         /* stages' tensors the text has named so far */
  uint32_t nlets;     /* number of `$k` in this stage */
} printer;

void pr_begin(printer *p, emodule *m, arena *a, sbuf *b);
void pr_stage_begin(printer *p);           /* forget the `$k` of the last stage */
void pr_count(printer *p, ex e);           /* one more use of e from outside: call for every root before printing any */
void pr_count_size(printer *p, sz s);      /* counts the data atoms of a size as used, as pr_count does */
void pr_count_range(printer *p, atom var); /* ... and of the range that the variable may have */
void pr_range(printer *p, atom var);       /* prints `in lo .. hi` behind the extent, if var has a range */
const char *pr_atom(printer *p, atom a);   /* its name; made up at the first call */
const char *pr_quoted(printer *p, const char *s); /* an identifier as it is; what is none, or a word of the language, in
                                                     backquotes */
void pr_name(printer *p, const char *s);
void pr_size(printer *p, sz s);
void pr_value(printer *p, ex e);
void pr_string(printer *p, const char *s);
#endif
