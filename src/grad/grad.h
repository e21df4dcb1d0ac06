/* grad: reverse-mode differentiation of stages.
 *
 * What it does. Given tensors `outs` with adjoints `seeds` (same shape and type; 0 stands for ones), it appends
 * to `block` stages that compute, for every tensor in `wrt`, the adjoint
 *     adjoints[i] = sum over outs o, points p of  seeds[o][p] * d outs[o][p] / d wrt[i]      (same shape and type
 *     as wrt[i])
 * It sees index formulas only; what an operator was called is not known here. The rules are those of calculus: R1
 * scalar chain rule (chain.c), R2 the adjoint of a read X[f(v)] is a contribution to X at f(v) for all points v, R3 f
 * is inverted where it can be, so that a contribution is a gather: again a stage, often a contraction (invert.c), R4
 * the reduced variables of a sum become free, R5 broadcasts sum by R2, R6 conditions travel with the term, indices and
 * integers have no gradient, R7 max and min go through their stored winner (the first of equals), R8 a recurrence runs
 * backwards (recurrence.c), R9 contributions add, R10 a branch or a loop is differentiated in a clone of its block
 * (control.c), R11 what a definition states replaces what would be derived (stated.c).
 *
 * What is not differentiable. Integers, comparisons, floor and round, indices: no gradient (zero). Stages marked
 * `stop`: none. Refused with E_UNSUPPORTED, naming the origin: loops whose number of trips depends on data or
 * which carry tensors of changing size, updates with *=, max=, min= of a tensor without a value before them,
 * recurrences that read each other at other steps than t - constant.
 *
 * What it changes. Forward stages on the way keep their values; a loop on the way also collects what it carries;
 * reductions inside their expressions become stages of their own (hoist.c), so that the backward stages can read them.
 * Nothing is simplified: that is the passes' work, after this.
 */
#ifndef EK_GRAD_H
#define EK_GRAD_H
#include "expr/expr.h"

/* False, with diagnostics, if something on the way is not supported; stages appended until then stay (nobody reads
 * them). adjoints[i] may be a seed itself. Unreached tensors get zeros. */
bool grad_reverse(emodule *m, uint32_t block, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt,
                  uint32_t nwrt, tid *adjoints);
#endif
