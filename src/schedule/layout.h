/* layout (private to schedule): where every tensor lies. */
#ifndef EK_SCHEDULE_LAYOUT_H
#define EK_SCHEDULE_LAYOUT_H
#include "schedule/index_view.h"
void layout_all(splan *p);
/* order: axes outer to inner, NULL: 0..rank-1 */
layout layout_dense(splan *p, const sz *shape, uint32_t rank, const uint32_t *order, sz *elems);
/* the layout of a tensor in this order, in that buffer */
layout layout_permuted(splan *p, const tensor *t, const uint32_t *order, uint32_t buffer);
/* an axis' stride, longer by some lines if so many of its places, `steps` apart, would fall on too few sets of the
 * nearest cache; size: of an element, in bytes */
sz layout_padded_stride(splan *p, sz stride, int64_t size, int64_t steps, int64_t count);
/* a placement whose values only its own kernel reads, point by point: it lies in scratch */
bool layout_inside(const emodule *m, const stage *s);
/* where the tensor that `value` loads lies inside a placement, stored there at idx; false: not expressible */
bool layout_piece(splan *p, const sz *idx, ex value, const layout *whole, layout *out);
/* lies in a buffer of its own or inside another tensor's */
bool layout_materialised(const splan *p, tid t);
#endif
