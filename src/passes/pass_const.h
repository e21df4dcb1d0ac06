/* Private to the passes: evaluating constants. */
#ifndef EK_PASSES_CONST_H
#define EK_PASSES_CONST_H
#include "passes/pass.h"
bool const_value(pw *p, ex e); /* reads constants only, uses no symbol (variables may be free) */
/* A constant tensor with value's values over vars, read at those variables; 0 if that is too much work. near: a
 * stage of the block (for names). */
ex const_make(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value);
bool whole_value(pw *p, ex e); /* a float whose value is a whole number, by its formula (pass_factor.c) */
bool whole_sum(pw *p, ex e);   /* a sum of products of such */
#endif
