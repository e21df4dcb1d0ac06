/* Between which numbers does a value lie, and is it a whole one? (private to the passes; interval.c) */
#ifndef EK_PASSES_INTERVAL_H
#define EK_PASSES_INTERVAL_H
#include "passes/pass.h"
/* Of every element, whatever the data are. */
typedef struct interval {
  bool known; /* it is a number from lo to hi, and never NaN; else nothing is known */
  bool whole; /* and a whole one */
  double lo;  /* least value */
  double hi;  /* greatest value */
} interval;
interval interval_of(pw *p, ex e);
/* Begins to remember what is found, until the pass ends: a pass that asks does so first, and keeps what values are. */
void interval_begin(pw *p);
#endif
