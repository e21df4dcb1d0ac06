/* Private to onnx: nodes that stand for several. */
#ifndef EK_ONNX_EXPAND_H
#define EK_ONNX_EXPAND_H
#include "graph/graph.h"

/* n is the last node of g, complete, written for `version` of its domain. Nodes may be put before it, and it may become another. Errors are recorded with its name. */
void expand_node(graph *g, node *n, int64_t version);
#endif
