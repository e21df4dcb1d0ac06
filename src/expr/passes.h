/* passes: the door for transformations of expr modules. Every pass looks at index formulas only; what an operator
 * was called is not known here. The table is in passes.c.
 *
 * After the last pass every live stage of a block belongs to one kernel, or is a placement:
 *
 * PLACEMENT. A live stage with kernel 0 is tiled, and every update of it is `Y[box of vars] := P[digits of vars]`
 * where P is a stage of the same block whose digits are exactly the update's variables.
 * P's values are to be stored inside Y's memory by the kernel that computes P; the stage itself costs nothing. P
 * may be a placement again. Each P stands in at most one placement.
 *
 * KERNELS. The stages of a kernel are listed in dependence order. `outer` are the canonical variables that all
 * members share: for one value of them, every member reads of the other members only
 * elements with the same value of them (the tile-local property), so that a kernel may run its outer points in
 * any order and in parallel. Members may have further variables of their own ("inner").
 * canon maps every output variable of a member to its canonical variable (itself, when it is shared with nobody).
 * Classes:
 * - contraction, stencil, matvec: leader (the reduction; two of them when two products share one accumulator),
 *   then element-wise followers over the leader's own index space. A follower may lack a few
 *   interleaved digits of the leader (note `digits interleaved`): then these are not outer. A factor of the
 *   leader's product may be an expression (note `prologue`).
 * - row, elementwise, gather: reductions and element-wise stages over common outer variables.
 * - copy: movement that could not be avoided; several stages when they are copies for one placement, independent
 *   of each other.
 * - recurrence: all stages of one recurrence. A stage that copies or maps every step's result belongs to it too.
 * - update: one stage with sequential updates.
 * - running, ranking: one stage whose reduction looks at all pairs of places and is computed without
 *   (expr_prefix_scan, expr_ranking); with a ranking, what is written at its places (expr_placing).
 * - composite: contraction, row chain over its column variable, contraction that reduces that variable; note is
 *   `online` when the chain is max, exp, sum, else `row panel`.
 * - blocks: what makes a contraction's operand, a placement of it if it has one, the contraction, what reads its
 *   result; they follow one another at each point of `outer`, and hand over what belongs to that point. Or a
 *   contraction
 *   and a window over what it makes: each point of `outer` needs the rows of that which the window reads there
 *   (expr_sliding).
 *
 * The order of a block's items after the last pass is the execution order: the stages of one kernel stand together.
 *
 * BENEFIT. Legality is exact; what pays is decided with sizes where they are numbers, and with a typical value
 * for symbols (expr_typical) where they are not.
 */
#ifndef EK_EXPR_PASSES_H
#define EK_EXPR_PASSES_H
#include "expr/expr.h"

/* ---- the pipeline ---------------------------------------------------------------------------- */
typedef struct pw pw; /* a run of the pipeline: private */
typedef struct expr_pass {
  const char *name;
  bool (*fn)(pw *p); /* returns whether it changed anything */
  int level;         /* runs at this optimisation level and above */
  bool loose;        /* regroups sums of floats beyond reassociation */
  const char *doc;   /* what it does; needs, keeps */
} expr_pass;
/* in the order of running (a pass may stand several times); ends with a NULL name */
extern const expr_pass expr_passes[];

enum { EXPR_VARIANT_ROWS = 4 /* rows from which on an open number of them may be worth a variant */ };
typedef struct expr_observer {
  /* Called after every pass; may print or verify. Returning false stops the pipeline there. NULL: nobody looks. */
  bool (*after)(void *env, emodule *m, const char *pass, bool changed, double ms);
  void *env;
  bool strict; /* loose passes are left out */
  /* passes that are left out, by name, with spaces between; NULL: none. Not dce and kernels: every module needs them */
  const char *skip;
  bool convert;         /* constants of narrow floats are converted now: the target has no instruction for it */
  bool narrow;          /* factors of products with constants may be kept in bf16 */
  uint64_t fuel;        /* stop rewriting after that many rewrites; 0: no limit */
  uint64_t *spent;      /* if not NULL: how many rewrites were made */
  uint64_t cache_bytes; /* what a worker may keep between the stages of a row kernel; 0: 256 KiB */
  uint32_t registers;   /* vector registers of the target; 0: taken for few */
  /* gets the open sizes for which another form would be chosen if they were known to be EXPR_VARIANT_ROWS or more; where
   * there are any, the passes end there. NULL: nobody asks */
  u32vec *variant_sizes;
  /* of the target: f32 values of a register, and how many registers a core multiplies and adds in a cycle; no more
   * than one lane: taken for 16 and 2, which keeps constants small */
  uint32_t lanes, fma;
} expr_observer;
/* Level 0: dead code and order only (every stage is on its own); 1 and above: everything. Returns whether anything
 * changed. */
bool expr_optimise(emodule *m, int level, const expr_observer *o);

/* ---- why something was not done: one line per refused step, for reports ---------------------- */
typedef struct expr_remark {
  const char *pass;
  uint32_t stage;
  uint32_t with; /* the other stage (or kernel leader) + 1, or 0 */
  const char *why;
} expr_remark;
uint32_t expr_remarks(const emodule *m, const expr_remark **out); /* of the last expr_optimise */

/* ---- index analysis -------------------------------------------------------------------------- */
/* Values of the digits of a stage (flattened over its axes, outer to inner) when it is read at idx[naxes]. False if
 * a digit cannot be separated; then *split_var, *split_inner (may be NULL) say which
 * variable to split (v = inner*v1 + v0) to make it succeed, or *split_var is 0. `out` must hold expr_ndigits values. */
bool expr_comps(emodule *m, uint32_t producer, const sz *idx, sz *out, atom *split_var, sz *split_inner);
uint32_t expr_ndigits(const stage *s);
void expr_digits(const stage *s, digit *out); /* flattened */

/* ---- roles of the variables of a reduction --------------------------------------------------- */
typedef struct roles {
  ex red;           /* the reduction node (the stage's value) */
  bool two;         /* the body is a product of two operands (a sum) */
  u32vec a, b;      /* factors (ex) of operand A and B; two == false: the whole body is in a. A constant operand is B */
  u32vec row, col;  /* output variables of A only / of B only */
  u32vec batch;     /* output variables of both */
  u32vec none;      /* output variables of neither (free in the output, or only in `where`) */
  u32vec red_both;  /* reduction variables in both operands */
  u32vec red_one;   /* reduction variables in one operand only (or in `where` only) */
  bool window;      /* some index slides: output and reduction variables overlap in it, or it carries an offset */
  bool triangle;    /* `where` compares output with reduction variables (prefix forms) */
  bool b_const;     /* B is made of constants */
  kernel_class cls; /* KC_CONTRACTION, KC_STENCIL, KC_MATVEC or KC_ROW */
} roles;
/* False if the stage is no reduction. Vectors are allocated in a. */
bool expr_roles(emodule *m, uint32_t stage, arena *a, roles *out);
/* ---- windows that slide ---------------------------------------------------------------------- */
/* at p of `along`, which has so many values, a window reads places of the axis from step*p + first on, `span` of
 * them, more than `step` */
typedef struct sliding_window {
  uint32_t axis;
  atom along;
  int64_t step, first, span, values;
} sliding_window;
/* does the window that reads `load` slide along an axis of known size? The first such axis */
bool expr_sliding(emodule *m, ex load, ex reduction, sliding_window *out);
/* ---- reductions over pairs of places that need not look at all pairs (pairs.c) --------------- */
/* the places k of the reduction up to p, in row-major order of k[0..n-1]; strict: without p itself; backward: from p
 * on */
typedef struct prefix_scan {
  uint32_t n;
  atom k[MAX_RANK], p[MAX_RANK];
  bool strict, backward;
  ex keep; /* what else `where` asks for, over k; 0: nothing */
} prefix_scan;
bool expr_prefix_scan(emodule *m, uint32_t stage, arena *a, prefix_scan *out);
typedef struct ranking { /* the place of p among all by key, equal keys in order */
  atom k, p;
  ex key; /* over p */
  bool falling;
  /* all who read a place ask whether it is below this first: others need not be told apart; 0: no such number */
  int64_t first;
} ranking;
bool expr_ranking(emodule *m, uint32_t stage, arena *a, ranking *out);
/* variables of the stage's axes and updates, and those of the ranking that run with them; the axes' others count its
 * places */
typedef struct placing {
  u32vec var, with;
} placing;
/* does a stage only write what stands at the places of the ranking `rank`, each row of it into a row of its own? */
bool expr_placing(emodule *m, uint32_t stage, uint32_t rank, arena *a, placing *out);

/* Class of any stage alone. */
kernel_class expr_class(emodule *m, uint32_t stage);

/* A number to decide with where a size is a symbol: its value when constant, else with every symbol at min(512, its
 * upper bound). At most 2^62. */
int64_t expr_typical(emodule *m, sz e);
#endif
