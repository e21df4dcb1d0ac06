/* onnx: the front end for ONNX files. One door: a file or bytes become a graph (graph.h).
 *
 * What the graph holds then:
 * - Every node is in the newest form of its operator, whatever opset the file was written for (upgrade.c has the
 *   table of changes). Functions of the model are inlined. Constant nodes are constants.
 * - Nodes are in dependence order; names of values are unique in the whole model.
 * - Inputs are the graph's inputs without those that have an initialiser. A dimension of an input is a constant,
 *   or a symbol: the model's own name for it (made an identifier), or `input.axis` where
 * the model says nothing. Equal names are equal symbols.
 * - Declared types of other values (`declared`) are what the file claims: dims may be 0 (nothing claimed); a
 *   symbol there is one of the inputs'.
 * - Constants lie in the mapped file where they can (raw data): large ones may be misaligned there, so read them
 *   by et_load or memcpy. Typed data and sub-byte types are decoded, one element in
 *   et_bytes bytes. Tensors of at most 64 KiB are always aligned. External data is mapped from the model's folder
 *   and nowhere else.
 *
 * All loaders record diagnostics that name the node and return NULL (false) when there was an error; they do not
 * unwind. Several problems are reported at once.
 */
#ifndef EK_ONNX_H
#define EK_ONNX_H
#include "graph/graph.h"

#define ONNX_NEWEST_IR 14
#define ONNX_NEWEST_OPSET 28

graph *onnx_load_file(ctx *c, const char *path);
/* The bytes must live as long as the context. name: for messages. folder: where external data lies, NULL when there
 * is none. */
graph *onnx_load_bytes(ctx *c, bytes model, const char *name, const char *folder);
/* One of the two for a graph that is to be written again: no node becomes an operator of our own. path NULL: from
 * memory. */
graph *onnx_load_standard(ctx *c, const char *path, bytes model, const char *name);
/* Writes a graph, and its constants into PATH.data where one file cannot hold them. *size: of both. False: a
 * diagnostic was recorded. */
bool onnx_write(const graph *g, const char *path, uint64_t *size);
/* A TensorProto file (.pb), as in the standard's test data. name may be NULL; it gets the tensor's name. */
bool onnx_tensor_file(ctx *c, const char *path, ndarray *out, const char **name);
/* The same for a value of any kind: *n tensors, -1 for an optional without contents. */
bool onnx_value_file(ctx *c, const char *path, value_kind kind, const ndarray **out, int64_t *n);
/* The opsets in which the standard changed what a node of this operator says, as far as it has to be rewritten here;
 * ascending. */
uint32_t onnx_changes(const char *op, int *versions, uint32_t room);
/* The i-th operator that has no definition because nodes of others take its place on import: which these are. NULL:
 * there are no more. */
const char *onnx_replaced(uint32_t i, const char **domain, const char **op);
#endif
