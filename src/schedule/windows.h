/* windows (private to schedule): what is made ready for windows that read the same places again and again. */
#ifndef EK_SCHEDULE_WINDOWS_H
#define EK_SCHEDULE_WINDOWS_H
#include "schedule/schedule.h"

void schedule_windows(splan *p); /* to be called before layouts are chosen */
#endif
