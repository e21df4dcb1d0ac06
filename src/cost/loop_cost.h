/* loop_cost: what does a loop nest take on a target?
 *
 * The estimate reads a kernel's loop program, so that it is one for all schedules, whatever they split, pack or block.
 * It walks the program with numbers in place of symbols: of each loop one iteration that stands for all but the last
 * one, and the last one, where tiles are cut. Every size, address and condition is known there, with its change from
 * one iteration to the next of each open loop. All is in cycles of one core:
 *
 * core     what the instructions of each iteration take: arithmetic, loads and stores at their rate, all together at
 *          the machine's width; or the latency of the chain from an iteration's sums to the next one's, if it is longer
 * l2 l3 memory
 *          what the lines take that come from beyond the first, second and third cache. A line that is read again in
 *          the next iteration of a loop comes from the smallest cache that holds all that an iteration touches (the
 *          reuse distance of a loop, as in Beyls and D'Hollander, Reuse distance as a metric for cache behavior, 2001).
 *          Kernels are taken to run again and again: what fits a cache as a whole stays there.
 * cycles   the largest of these: caches and arithmetic work at the same time
 */
#ifndef EK_COST_LOOP_COST_H
#define EK_COST_LOOP_COST_H
#include "loop/loop.h"
#include "target/target.h"

typedef struct loop_cost {
  double cycles; /* all of it */
  double core;   /* instructions, with all data in the first cache */
  double l2;     /* lines from the second cache */
  double l3;     /* lines from the third cache */
  double memory; /* lines from memory */
} loop_cost;
/* The chunks 0..chunks-1 of a kernel, done one after another. args: per parameter the value of an integer, pointers are
 * not looked at. The arena holds what the estimate needs meanwhile. */
loop_cost cost_of_loops(const lfunc *f, const int64_t *args, int64_t chunks, const target *t, arena *a);
#endif
