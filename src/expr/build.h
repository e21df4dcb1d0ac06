/* Private to the expr room: what build.c shares with the printer, the parser, the verifier and the evaluator. */
#ifndef EK_EXPR_BUILD_H
#define EK_EXPR_BUILD_H
#include "expr/expr.h"

const char *name_clean(arena *a, const char *s); /* an identifier made of any text */
/* walk.c */
void expr_bound(emodule *m, ex e, arena *a, u32vec *vars);                   /* distinct variables bound by reductions in e (0: none), in order of the walk */
void stage_loads(emodule *m, uint32_t s, arena *a, u32vec *loads);           /* distinct load nodes of value, updates, conditions, indices */
#endif
