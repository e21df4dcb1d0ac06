/* Private to growth.c: in which stages may a small error change a decision? (decisions.c) */
#ifndef EK_PASSES_DECISIONS_H
#define EK_PASSES_DECISIONS_H
#include "passes/pass.h"

/* One entry a stage: whether a comparison, or the place of a maximum, depends on what it computes. order: all live
 * stages, as they run */
uint8_t *deciding_stages(pw *p, const u32vec *order);
#endif
