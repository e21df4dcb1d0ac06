/* Private to onnx: nodes that stand for several. */
#ifndef EK_ONNX_EXPAND_H
#define EK_ONNX_EXPAND_H
#include "graph/graph.h"

/* n is the last node of g, complete, written for `version` of its domain. Nodes may be put before it, and it may
 * become another. Errors are recorded with its name. */
void expand_node(graph *g, node *n, int64_t version, bool standard);

/* For those who do. expand_before: a node in front of n, which is and stays the last. expand_give: one input more. */
node *expand_before(graph *g, node *n, const char *op, const char *domain, const char *what);
void expand_give(graph *g, node *n, value *v);
/* Trees (trees.c): the operators with scores per target, with labels of classes, and the newer one for both. */
void trees_targets(graph *g, node *n);
void trees_classes(graph *g, node *n);
void trees_ensemble(graph *g, node *n);
#endif
