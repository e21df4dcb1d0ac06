/* kernel (private to schedule): one kernel of the expr module as a loop function with its arguments. */
#ifndef EK_SCHEDULE_KERNEL_H
#define EK_SCHEDULE_KERNEL_H
#include "schedule/equal.h"
#include "schedule/nest.h"
/* appends the launches of a kernel, which is an item of its block */
void kernel_schedule(splan *p, const kernel_ref *k, uint32_t item);
/* a recurrence of which one step is kept at a time: the axis that counts the steps; the variable along which
 * neighbours are computed (0: none). Either may be NULL */
bool kernel_is_point_recurrence(const splan *p, uint32_t stage, uint32_t *step, atom *row);
#endif
