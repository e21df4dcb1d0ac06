/* inputs (private to schedule): what is made of inputs before a window reads them. */
#ifndef EK_SCHEDULE_INPUTS_H
#define EK_SCHEDULE_INPUTS_H
#include "schedule/schedule.h"

void schedule_inputs(splan *p); /* before the layouts */
#endif
