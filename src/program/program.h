/* program: the order of kernels, control flow, the memory plan. The last level before code: from it two main functions are made (plan and run), so that emitters see loop programs only.
 *
 * A program is a tree of steps over buffers:
 *   launch K (args) chunks n          a kernel; buffers are pointers to their first element, sizes are integers
 *   late S = T                        the size S is read from tensor T
 *   if T { ... } else { ... }         T: bool scalar
 *   loop n [while T] { ... }          with the copies of carried tensors as launches
 *   fail when a size condition does not hold
 * MEMORY. All arena buffers lie in one arena; buffers that are live at the same time do not overlap. Offsets and the arena's size are formulas in the size symbols: numbers when there are none. Late sizes count with
 *   their bounds. The arena ends with one scratch area per worker. Nothing is allocated while the program runs.
 */
#ifndef EK_PROGRAM_H
#define EK_PROGRAM_H
#include "schedule/schedule.h"

typedef struct membuf { sz bytes, offset; uint32_t first, last; bool used; uint64_t weight_offset; } membuf; /* per buffer of the plan */
typedef struct program {
  splan *plan;
  membuf *mem;           /* as plan->buffers */
  sz arena_bytes;        /* without scratch */
  sz scratch_bytes;      /* per worker */
  sz live_bound;         /* most bytes live at one step: no plan can be below it */
  uint64_t weight_bytes;
  lfunc *plan_fn, *run_fn;
  const char *name;
} program;

program *program_build(splan *p, const char *name);
void program_weights(const program *p, uint8_t *to);   /* weight_bytes bytes, 64-aligned pieces */
const char *program_memory(const program *p);          /* "arena + threads * scratch" as text: a number or a formula */
void program_print(const program *p, sbuf *b);
/* memory.c */
void program_memory_plan(program *p);
#endif
