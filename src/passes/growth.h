/* Private to pass_winograd.c: how much larger than that of a plain sum may the error of a window sum be? (growth.c) */
#ifndef EK_PASSES_GROWTH_H
#define EK_PASSES_GROWTH_H
#include "passes/pass.h"

/* windows: one entry a stage, 1 where the stage is a window sum of floats that may take a form with fewer
 * multiplications. The answer holds for each of them; a plain sum counts 1, and below 1 no form on a line is exact
 * enough. */
double most_growth(pw *p, const uint8_t *windows);
#endif
