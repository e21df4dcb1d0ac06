/* passes: the door for transformations of expr modules. Every pass looks at index formulas only; what an operator
 * was called is not known here. The table is in passes.c.
 */
#ifndef EK_PASSES_H
#define EK_PASSES_H
#include "expr/expr.h"
#include "target/target.h"

/* ---- the pipeline ---------------------------------------------------------------------------- */
typedef struct pw pw; /* a run of the pipeline: private */
typedef struct expr_pass {
  const char *name;  /* name of the pass; NULL: end of the table */
  bool (*fn)(pw *p); /* returns whether it changed anything */
  int level;         /* runs at this optimisation level and above */
  bool loose;        /* regroups sums of floats beyond reassociation */
  const char *doc;   /* what it does; needs, keeps */
} expr_pass;
/* the passes in the order of running (a pass may stand several times); ends with a NULL name */
extern const expr_pass expr_passes[];

enum { EXPR_VARIANT_ROWS = 4 /* least open number of rows that may be worth a variant */ };
typedef struct expr_observer {
  /* Called after every pass; may print or verify. Returning false stops the pipeline there. NULL: nobody looks. */
  bool (*after)(void *env, emodule *m, const char *pass, bool changed, double ms);
  void *env;   /* handed to after */
  bool strict; /* loose passes are left out */
  /* passes that are left out, by name, with spaces between; NULL: none. Not dce, kernels and results, which every
   * module needs */
  const char *skip;
  bool convert;    /* constants of narrow floats are converted now: the target has no instruction for it */
  etype narrow;    /* factors of products may be kept in it: bf16 or f16; ET_NONE: as they are */
  uint64_t fuel;   /* stop rewriting after that many rewrites; 0: no limit */
  uint64_t *spent; /* if not NULL: how many rewrites were made */
  /* gets the open sizes for which other forms would be chosen if they were known to be EXPR_VARIANT_ROWS or more, where
   * that is worth the model's code twice; where there are any, the passes end there. NULL: nobody asks */
  u32vec *variant_sizes;
  const target *t; /* the machine that code is made for. NULL: one with wide vectors, but few registers */
} expr_observer;
/* Level 0: dead code and order only (every stage is on its own); 1 and above: everything. Returns whether anything
 * changed. */
bool expr_optimise(emodule *m, int level, const expr_observer *o);

#endif
