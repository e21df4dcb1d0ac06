/* Private to the simplifier: its state, shared by simplify.c (values) and simplify_reduce.c (reductions). */
#ifndef EK_REWRITE_SIMPLIFY_H
#define EK_REWRITE_SIMPLIFY_H
#include "rewrite/rewrite.h"

typedef struct sm {
  pw *p;
  emodule *m;
  ctx *c;
  const atom *vars;
  const sz *by;
  uint32_t n;     /* substituted variables */
  uint32_t facts; /* scopes with facts */
} sm;
typedef struct scope {
  uint32_t mark, epoch;
  bool any;
} scope;

ex simp(sm *z, ex e); /* normal form under the current facts and substitution */
ex simp_reduce(sm *z, ex e);
bool is_k(emodule *m, ex e, int64_t *v);      /* an integer or bool constant */
bool is_f(emodule *m, ex e, double *v);       /* a float constant */
scope open_scope(sm *z, ex cond, bool truth); /* what follows from cond being `truth` is a fact until close_scope */
void close_scope(sm *z, scope s);
#endif
