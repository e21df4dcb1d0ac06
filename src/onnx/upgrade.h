/* Private to onnx: one node to the newest form of its operator. */
#ifndef EK_ONNX_UPGRADE_H
#define EK_ONNX_UPGRADE_H
#include "graph/graph.h"

/* n is the last node of g, complete, written for `version` of the standard's operators. Nodes may be put before and
 * after it. Errors are recorded with its name. */
void upgrade_node(graph *g, node *n, int64_t version);
#endif
