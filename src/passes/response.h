/* Private to growth.c: how large are the values of a stage, and how do they change with what it reads? (response.c) */
#ifndef EK_PASSES_RESPONSE_H
#define EK_PASSES_RESPONSE_H
#include "passes/pass.h"

/* What the values of a tensor are like */
typedef struct spread {
  double centre;    /* mean of the values */
  double deviation; /* standard deviation of the values */
  double least;     /* no value is taken to be below; -INFINITY: any value may be */
} spread;
typedef struct response {
  spread values; /* values of the stage's tensor */
  /* change for a change of 1 of one tensor that it reads, the largest such; both relative to the size of values (the
   * root of the mean of their squares) */
  double gain; /* at least 1 */
  double peak; /* the same of the value that changes most, relative to the largest value; at least 1 */
} response;
/* spreads: by tensor; constants are looked at themselves. Where the stage cannot be computed for single values, it is
 * as the largest of what it reads, and gain and peak are 1. */
response stage_response(pw *p, uint32_t s, const spread *spreads);
#endif
