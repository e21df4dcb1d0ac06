/* Private to onnx: the messages of an ONNX file as plain structures in an arena, and the walker that fills them.
 *
 * Strings and tensor bytes are slices of the file, never copied (`bytes`; p is NULL when the field is absent).
 * Numbers say whether they were there. Fields we have no use for are skipped.
 * The numeric fields of a tensor stay encoded (`pb_packed`): pb_numbers decodes them into an array of the caller's.
 */
#ifndef EK_ONNX_PROTO_H
#define EK_ONNX_PROTO_H
#include "base/base.h"

typedef struct pb_int {
  int64_t v;
  bool set;
} pb_int;
typedef struct pb_float {
  float v;
  bool set;
} pb_float;
/* A repeated number: its first occurrence, and how often the field occurs (writers may split it; then the whole
 * message is walked again). */
typedef struct pb_packed {
  bytes first;
  uint32_t wire, times;
} pb_packed;

typedef struct pb_pair {
  bytes key, value;
} pb_pair;
typedef struct pb_dim {
  pb_int value;
  bytes param;
} pb_dim;
typedef struct pb_shape {
  VEC(pb_dim) dim;
} pb_shape;
typedef struct pb_type pb_type;
typedef struct pb_tensor_type {
  pb_int elem;
  pb_shape *shape;
} pb_tensor_type;
typedef struct pb_elem {
  pb_int key; /* of a map: the type of its keys */
  pb_type *elem;
} pb_elem;
struct pb_type {
  pb_tensor_type *tensor, *sparse;
  pb_elem *sequence, *optional, *map;
};

typedef struct pb_tensor {
  bytes self; /* the whole message */
  i64vec dims;
  pb_int data_type, location;
  bytes name, raw;
  pb_packed float_data, int32_data, int64_data, double_data, uint64_data;
  VEC(bytes) string_data;
  VEC(pb_pair) external;
  bytes segment;
} pb_tensor;
typedef struct pb_sparse {
  pb_tensor *values, *indices;
  i64vec dims;
} pb_sparse;

/* SequenceProto and OptionalProto, as far as tensors go: `inner` is the sequence of an optional. */
typedef struct pb_list {
  VEC(pb_tensor) tensors;
  struct pb_list *inner;
} pb_list;

typedef struct pb_graph pb_graph;
typedef struct pb_attr {
  bytes name, ref;
  pb_int type, i;
  pb_float f;
  bytes s;
  pb_tensor *t;
  pb_graph *g;
  pb_sparse *sparse;
  pb_type *tp;
  VEC(float) floats;
  i64vec ints;
  VEC(bytes) strings;
  VEC(pb_tensor) tensors;
  VEC(pb_graph) graphs;
} pb_attr;

typedef struct pb_node {
  bytes name, op, domain, overload;
  VEC(bytes) input, output;
  VEC(pb_attr) attr;
} pb_node;
typedef VEC(pb_node) pb_nodes;
typedef struct pb_value {
  bytes name;
  pb_type *type;
} pb_value;
struct pb_graph {
  bytes name;
  pb_nodes node;
  VEC(pb_tensor) init;
  VEC(pb_sparse) sparse_init;
  VEC(pb_value) input, output, info;
};
typedef struct pb_opset {
  bytes domain;
  pb_int version;
} pb_opset;
typedef VEC(pb_opset) pb_opsets;
typedef struct pb_function {
  bytes name, domain, overload;
  VEC(bytes) input, output, attr;
  VEC(pb_attr) attr_default;
  pb_nodes node;
  pb_opsets opset;
} pb_function;
typedef struct pb_model {
  pb_int ir_version;
  bytes producer, producer_version;
  pb_graph *graph;
  pb_opsets opset;
  VEC(pb_pair) metadata;
  VEC(pb_function) function;
} pb_model;

/* All unwind with E_MODEL and the byte where the file stops making sense. `what` names the file. Everything lives in
 * a. */
pb_model *pb_read_model(arena *a, bytes file, const char *what);
pb_tensor *pb_read_tensor(arena *a, bytes file, const char *what);
pb_list *pb_read_list(arena *a, bytes file, bool optional, const char *what);

/* Decodes a number field of a tensor, field_no being its number in TensorProto, into out[0..cap-1]; returns how many
 * there are (it stops writing, not counting, at cap).
 * kind: 0 varint as int64, 4 and 8 bytes: the bits as they are. Unwinds when the bytes do not divide. */
enum { PB_FLOAT_DATA = 4, PB_INT32_DATA = 5, PB_INT64_DATA = 7, PB_DOUBLE_DATA = 10, PB_UINT64_DATA = 11 };
size_t pb_numbers(arena *a, const pb_tensor *t, const pb_packed *p, uint32_t field_no, uint32_t width, void *out,
                  size_t cap, const char *what);
#endif
