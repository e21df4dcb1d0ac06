/* Private to the expr room: what build.c shares with the printer, the parser, the verifier and the evaluator. */
#ifndef EK_EXPR_BUILD_H
#define EK_EXPR_BUILD_H
#include "expr/expr.h"

const char *name_clean(arena *a, const char *s); /* an identifier made of any text */
sz expr_data_size(emodule *m, ex e);             /* the data atom of an i64 value, as it is */
/* walk.c */
/* distinct variables bound by reductions in e (0: none), in order of the walk */
void expr_bound(emodule *m, ex e, arena *a, u32vec *vars);
/* distinct load nodes of value, updates, conditions, indices */
void stage_loads(emodule *m, uint32_t s, arena *a, u32vec *loads);
/* variables free in a size, also through data atoms */
void size_vars(emodule *m, sz s, arena *a, u32vec *vars);
/* every distinct node of the stage, operands first */
void stage_nodes(emodule *m, uint32_t s, arena *a, u32vec *nodes);
/* does any size in its values or extents contain a symbol? */
bool stage_uses_symbols(emodule *m, uint32_t s, arena *a);
#endif
