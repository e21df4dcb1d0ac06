/* Between the builder's files (private). */
#ifndef EK_LOOP_BUILD_H
#define EK_LOOP_BUILD_H
#include "loop/ops.h"
lv lb_pure(lbuild *b, linst i);   /* shared with an equal value that is visible here */
lv lb_effect(lbuild *b, linst i); /* always a new instruction */
#endif
