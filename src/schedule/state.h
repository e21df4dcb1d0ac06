/* states (private to schedule): which of them are changed in place. */
#ifndef EK_SCHEDULE_STATE_H
#define EK_SCHEDULE_STATE_H
#include "schedule/schedule.h"
void schedule_states(splan *p); /* sets plan.states and plan.begun; the module's kernels must be final */
#endif
