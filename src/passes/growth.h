/* Private to pass_winograd.c: how much larger than that of a plain sum may the error of a window sum be? (growth.c) */
#ifndef EK_PASSES_GROWTH_H
#define EK_PASSES_GROWTH_H
#include "passes/pass.h"

/* Finds what most_growth answers. order: the live stages, as they run; windows: one entry a stage, 1 where the stage is
 * a window sum of floats that may take a form with fewer multiplications. */
void find_growth(pw *p, const u32vec *order, const uint8_t *windows);
/* The answer for the window sum of stage s, whose factors are constants or not; a plain sum counts 1, and below 1 no
 * form on a line is exact enough. */
double most_growth(const pw *p, uint32_t s, bool constant);
#endif
