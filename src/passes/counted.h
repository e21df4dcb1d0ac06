/* Private to the passes: where a value counts (counted.c). */
#ifndef EK_PASSES_COUNTED_H
#define EK_PASSES_COUNTED_H
#include "passes/pass.h"

typedef enum { ZERO = 1, LOWEST } nothing; /* what counts nothing: 0, or -inf */
/* A range in the making: outside of lo..hi-1 the value counts nothing. 0: unbounded. */
typedef struct span {
  sz lo;      /* first place; 0: no bound */
  sz hi;      /* end of the places (not included); 0: no bound */
  bool none;  /* it counts nowhere */
  bool exact; /* it counts at each place inside, as far as conditions say */
  bool some;  /* where there are places, it counts at one of them */
  bool all;   /* where there is no place, nothing is said */
} span;
typedef struct finder {
  pw *p;           /* the run of passes */
  emodule *m;      /* the module */
  ctx *c;          /* the context */
  atom var;        /* variable whose values are asked about */
  uint32_t stage;  /* bounds are over the variables of its axes */
  uint32_t kernel; /* data that it does not read anyway are not asked for; 0: of no kernel */
  uint32_t depth;  /* values being looked through, one inside the other */
  uint32_t looked; /* values looked through for the question that is asked */
  bool finite;     /* a finite number below all scores counts nothing */
  bool any_data;   /* bounds may be any data */
} finder;
span counted(finder *f, ex e, nothing what);          /* where does it count? */
span counted_where(finder *f, ex where);              /* where a reduction's own condition lets values count */
span counted_both(finder *f, span a, span b);         /* only where both do */
sz counted_shared(finder *f, sz a, sz b, bool lower); /* the parts of two bounds that hold for both; 0: none */
#endif
