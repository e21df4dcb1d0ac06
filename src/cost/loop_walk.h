/* Between the files of the estimate of loops (private): what the walk over a kernel finds. */
#ifndef EK_COST_LOOP_WALK_H
#define EK_COST_LOOP_WALK_H
#include "cost/loop_cost.h"

enum { LOOPS_DEEP = 24 }; /* loops in each other; deeper ones count as one iteration */

/* A loop at one moment of the walk, or the whole kernel. */
typedef struct walked_loop {
  struct walked_loop *outer; /* NULL: the kernel */
  uint32_t depth;            /* number of loops around it; the kernel: 0, a loop in it: 1 */
  int64_t trips;             /* iterations */
  bool prefetches;           /* it fetches lines ahead */
} walked_loop;
/* An access to memory in the iteration that stands for the others. */
typedef struct access {
  walked_loop *in;          /* innermost loop around it */
  lv base;                  /* the parameter, allocation or scratch area that is accessed; 0: not known */
  int64_t at;               /* byte where it begins */
  int64_t bytes;            /* bytes of a piece: of all lanes, where they are neighbours, else of one */
  int64_t lanes;            /* pieces */
  int64_t lane_step;        /* bytes from one piece to the next */
  int64_t step[LOOPS_DEEP]; /* bytes from one iteration of a loop to the next, by depth - 1 */
  bool write;               /* it stores */
} access;
typedef struct accesses {
  VEC(access) all;
  VEC(walked_loop *) loops; /* each loop before those in it */
} accesses;
/* Appends what the kernel accesses, and returns the cycles of its instructions. */
double walk_loops(const lfunc *f, const int64_t *args, int64_t chunks, const target *t, arena *a, accesses *found);
#endif
