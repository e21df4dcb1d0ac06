/* Private to the passes: evaluating constants. */
#ifndef EK_PASSES_CONST_H
#define EK_PASSES_CONST_H
#include "passes/pass.h"
bool const_value(pw *p, ex e); /* reads constants only, uses no symbol (variables may be free) */
/* value's values over vars, in the order of these; the tensor that may hold them; 0 if that is too much work. near: a
 * stage of the block (for names). */
tid const_values(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value, ndarray *out);
/* A constant tensor with these, read at those variables. */
ex const_make(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value);
/* the same where much work is worth while, since much memory is saved */
ex const_make_large(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value);
/* The product of two constants, each over some of these digits, or a number: by plain loops; false: it is none
 * (const_product.c). near: as above. */
bool const_product(pw *p, uint32_t near, ex value, const digit *d, uint32_t n, ndarray *out);
bool whole_value(pw *p, ex e); /* a float whose value is a whole number, by its formula (pass_factor.c) */
bool whole_form(pw *p, ex e);  /* is it one whatever the elements of the tensors that it reads are? */
bool whole_sum(pw *p, ex e);   /* a sum of products of whole values */
#endif
