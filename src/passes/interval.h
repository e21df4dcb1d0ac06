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
#endif
