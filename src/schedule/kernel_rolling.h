/* kernel_rolling (private to schedule): rows that a contraction makes just ahead of a window over them, see
 * kernel_rolling.c. */
#ifndef EK_SCHEDULE_KERNEL_ROLLING_H
#define EK_SCHEDULE_KERNEL_ROLLING_H
#include "schedule/kernel_in.h"

/* is the kernel of that kind? Then k->slide is set; along: blocks of the window's rows */
bool rolling_find(kctx *k, shared_block *along);
void rolling_begins(kctx *k, const shared_block *along); /* when along->start is known */
void rolling_border(kctx *k, laxis *y);                  /* halo of the axis that slides */
/* when the rows have their place: fills the border of the other axes */
void rolling_placed(kctx *k, const layout *l, lv ptr);
/* the number of chunks; from..to-1: the points of a call */
sz rolling_points(kctx *k, sz points, lv *from, lv *to);
/* at the beginning of each point, of which the call's first one is `first`: moves rows, sets the range of those to
 * be computed, fills those outside */
void rolling_point(kctx *k, lv point, lv first, const shared_block *along);
#endif
