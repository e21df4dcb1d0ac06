/* eval: the evaluator. Slow and obvious, straight from the semantics that expr.h states; it knows nothing of passes,
 * schedules or code, so that it can contradict them. */
#ifndef EK_EVAL_H
#define EK_EVAL_H
#include "expr/expr.h"

typedef struct evaluation evaluation;
evaluation *expr_eval_new(emodule *m, arena *a, uint32_t threads);
void expr_eval_symbol(evaluation *v, atom symbol, int64_t value);
/* binds size symbols that are alone in a dimension, checks the rest; ctx_fail E_SHAPE on mismatch */
void expr_eval_input(evaluation *v, tid t, const ndarray *data);
/* The result of every operation in f32 or f64 that rounds moves from now on, at random, by at most two times `f32`, or
 * `f64`, of itself: a second result, by which one sees what rounding does. seed: not 0. (Monte Carlo arithmetic:
 * Parker, Monte Carlo Arithmetic, 1997) */
void expr_eval_noise(evaluation *v, uint32_t seed, double f32, double f64);
/* Before anything is computed: tensors that no stage reads any more leave their memory to others, but for the module's
 * outputs, and in modules with branches or loops, where nothing leaves. */
void expr_eval_lean(evaluation *v);
/* fails where a guard or a check of the root block does; all inputs must be given; part of expr_eval_run */
void expr_eval_checks(evaluation *v);
void expr_eval_run(evaluation *v); /* all items of the root block in order */
/* computes the tensor on demand if run was not called */
const ndarray *expr_eval_get(evaluation *v, tid t);
/* promote.c: every float is f64 from here on, but inputs and constants, which keep their types. For the evaluator only:
 * no pass may see the module again. */
void expr_promote(emodule *m);
/* One stage whose inputs are all constant, evaluated to bytes (constant folding). */
bool expr_eval_stage(emodule *m, uint32_t s, arena *a, ndarray *out);
#endif
