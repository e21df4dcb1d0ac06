/* fusion: the door for kernel formation, and for what the schedule must know of a kernel's index formulas.
 *
 * After the last pass every live stage of a block belongs to one kernel, or is a placement:
 *
 * PLACEMENT. A live stage with kernel 0 is tiled, and every update of it is `Y[box of vars] := P[digits of vars]`
 * where P is a stage of the same block whose digits are exactly the update's variables.
 * P's values are to be stored inside Y's memory by the kernel that computes P; the stage itself costs nothing. P
 * may be a placement again. Each P stands in at most one placement.
 *
 * KERNELS. The stages of a kernel are listed in dependence order. `outer` are the canonical variables that all members
 * share: for one value of them, every member reads of the other members only elements with the same value of them (the
 * tile-local property), so that a kernel may run its outer points in any order and in parallel. Members may have
 * further variables of their own ("inner"). canon maps every output variable of a member to its canonical variable
 * (itself, when it is shared with nobody).
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
#ifndef EK_FUSION_H
#define EK_FUSION_H
#include "expr/expr.h"

struct pw;
bool pass_kernels(struct pw *p); /* the last pass: stages are grouped into kernels */

/* ---- variables that run along the lanes (lanes.c) -------------------------------------------- */
/* per stage: the variable of it or of its reduction that does, as far as columns of contractions tell; 0: none */
atom *expr_lanes(struct pw *p);
int64_t expr_lane_points(struct pw *p, atom lane); /* values of it that a kernel computes at once; 1 where it is 0 */

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
/* A window that slides: for value p of `along` it reads `span` places of the axis from step*p + first on, which is
 * more than `step` of them. */
typedef struct sliding_window {
  uint32_t axis;  /* axis that the window slides along */
  atom along;     /* variable that moves the window */
  int64_t step;   /* places that it moves for each value of `along` */
  int64_t first;  /* first place at value 0 */
  int64_t span;   /* places that it reads */
  int64_t values; /* number of values of `along` */
} sliding_window;
/* does the window that reads `load` slide along an axis of known size? The first such axis */
bool expr_sliding(emodule *m, ex load, ex reduction, sliding_window *out);
/* ---- reductions over pairs of places that need not look at all pairs (pairs.c) --------------- */
/* the places k of the reduction up to p, in row-major order of k[0..n-1]; strict: without p itself; backward: from p
 * on */
typedef struct prefix_scan {
  uint32_t n;       /* number of pairs k, p */
  atom k[MAX_RANK]; /* variables of the reduction */
  atom p[MAX_RANK]; /* variables of the stage that they are compared with */
  bool strict;      /* without p itself */
  bool backward;    /* from p on */
  ex keep;          /* what else `where` asks for, over k; 0: nothing */
} prefix_scan;
bool expr_prefix_scan(emodule *m, uint32_t stage, arena *a, prefix_scan *out);
typedef struct ranking { /* the place of p among all by key, equal keys in order */
  atom k;                /* variable of the reduction */
  atom p;                /* variable of the stage */
  ex key;                /* what places are compared by, over p */
  bool falling;          /* greatest key first */
  /* all who read a place ask whether it is below this first: others need not be told apart; 0: no such number */
  int64_t first;
} ranking;
bool expr_ranking(emodule *m, uint32_t stage, arena *a, ranking *out);
/* variables of the stage's axes and updates, and those of the ranking that run with them; the axes' others count its
 * places */
typedef struct placing {
  u32vec var;  /* variables of the stage's axes and updates that run with one of the ranking */
  u32vec with; /* the variable of the ranking, for each of var */
} placing;
/* does a stage only write what stands at the places of the ranking `rank`, each row of it into a row of its own? */
bool expr_placing(emodule *m, uint32_t stage, uint32_t rank, arena *a, placing *out);

/* the class of a stage alone, whatever it is */
kernel_class expr_class(emodule *m, uint32_t stage);
#endif
