/* Private to the expr room: what build.c and walk.c share with the printer, the parser and the verifier. */
#ifndef EK_EXPR_BUILD_H
#define EK_EXPR_BUILD_H
#include "expr/expr.h"

const char *name_clean(arena *a, const char *s); /* an identifier made of any text */
sz expr_data_size(emodule *m, ex e);             /* the i64 value as a data atom, without simplification */
/* walk.c */
/* distinct variables bound by reductions in e (0: none), in order of the walk */
void expr_bound(emodule *m, ex e, arena *a, u32vec *vars);
/* variables free in a size, also through data atoms */
void size_vars(emodule *m, sz s, arena *a, u32vec *vars);
/* every distinct node of the stage, operands first */
void stage_nodes(emodule *m, uint32_t s, arena *a, u32vec *nodes);
#endif
