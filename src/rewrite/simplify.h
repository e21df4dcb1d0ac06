/* Private to the simplifier: its state, shared by simplify.c (values) and simplify_reduce.c (reductions). */
#ifndef EK_REWRITE_SIMPLIFY_H
#define EK_REWRITE_SIMPLIFY_H
#include "rewrite/rewrite.h"

typedef struct sm {
  pw *p;            /* the run of passes */
  emodule *m;       /* the module */
  ctx *c;           /* the context */
  const atom *vars; /* substituted variables */
  const sz *by;     /* what stands for each of them */
  uint32_t n;       /* number of substituted variables */
  uint32_t facts;   /* scopes with facts */
} sm;
typedef struct scope {
  uint32_t mark;  /* sym_mark before the facts */
  uint32_t epoch; /* environment before the facts */
  bool any;       /* it has facts */
} scope;

ex simp(sm *z, ex e); /* normal form under the current facts and substitution */
ex simp_reduce(sm *z, ex e);
bool is_k(emodule *m, ex e, int64_t *v);      /* an integer or bool constant */
bool is_f(emodule *m, ex e, double *v);       /* a float constant */
scope open_scope(sm *z, ex cond, bool truth); /* what follows from cond being `truth` is a fact until close_scope */
void close_scope(sm *z, scope s);
#endif
