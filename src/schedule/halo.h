/* halo (private to schedule): fills the constant margin around a tensor in its buffer. */
#ifndef EK_SCHEDULE_HALO_H
#define EK_SCHEDULE_HALO_H
#include "schedule/emit.h"

/* points from..to-1 of a variable */
typedef struct halo_range {
  atom var; /* the variable */
  lv from;  /* first point */
  lv to;    /* end of the points (not included) */
} halo_range;
/* a launch that fills the whole halo of a buffer */
void halo_launch(splan *p, uint32_t buffer, uint32_t block, uint32_t item);
/* fills the whole halo here and now; digits that take no room are left out */
void halo_fill(ectx *e, tid t, const layout *l, lv ptr);
/* the places from[i]..to[i]-1 of each axis, in or out of the tensor */
void halo_slab(ectx *e, tid t, const layout *l, lv ptr, const lv *from, const lv *to);
/* In the kernel that computes stage si: the halo beside the points in `ranges` and all values of the other
 * variables. Only where halo_fits: the ranges are axes of the stage, and nobody else writes there. */
bool halo_fits(ectx *e, uint32_t si, const halo_range *ranges, uint32_t n);
/* does no other tensor than t lie in the buffer? */
bool halo_only_writer(const splan *p, uint32_t buffer, tid t);
void halo_part(ectx *e, uint32_t si, const halo_range *ranges, uint32_t n);
#endif
