/* Private to onnx: in which order the nodes of one graph can be built. */
#ifndef EK_ONNX_ORDER_H
#define EK_ONNX_ORDER_H
#include "onnx/proto.h"

/* A permutation of the nodes in which every value is produced before it is used, inside regions as well; the file's
 * own order where it already is one. NULL: there is a cycle, recorded as an error. */
const uint32_t *order_nodes(arena *a, const pb_nodes *nodes);
#endif
