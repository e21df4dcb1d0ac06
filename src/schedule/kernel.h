/* kernel (private to schedule): one kernel of the expr module as a loop function with its arguments. */
#ifndef EK_SCHEDULE_KERNEL_H
#define EK_SCHEDULE_KERNEL_H
#include "schedule/nest.h"
/* stages in order; outer: canonical variables they share (NULL: none known: every stage on its own loops); canon as
 * in kernel */
void kernel_schedule(splan *p, const u32vec *stages, const u32vec *outer, const map *canon, uint32_t kernel,
                     uint32_t block, uint32_t item);
/* a recurrence of which one step is kept at a time: the axis that counts the steps; the variable along which
 * neighbours are computed (0: none). Either may be NULL */
bool kernel_is_point_recurrence(const splan *p, uint32_t stage, uint32_t *step, atom *row);
#endif
