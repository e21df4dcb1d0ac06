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
  int64_t v; /* the number; 0 where the field is absent */
  bool set;  /* the field is there */
} pb_int;
typedef struct pb_float {
  float v;  /* the number; 0 where the field is absent */
  bool set; /* the field is there */
} pb_float;
/* A repeated number: its first occurrence, and how often the field occurs (writers may split it; then the whole
 * message is walked again). */
typedef struct pb_packed {
  bytes first;    /* contents of the field's first occurrence */
  uint32_t wire;  /* wire type of the first occurrence */
  uint32_t times; /* how often the field occurs; 0: absent */
} pb_packed;

typedef struct pb_pair {
  bytes key;   /* the key */
  bytes value; /* its text */
} pb_pair;
typedef struct pb_dim {
  pb_int value; /* the size, if it is a number */
  bytes param;  /* name of an open size */
} pb_dim;
typedef struct pb_shape {
  VEC(pb_dim) dim; /* a size for each axis */
} pb_shape;
typedef struct pb_type pb_type;
typedef struct pb_tensor_type {
  pb_int elem;     /* code of the element type (TensorProto.DataType) */
  pb_shape *shape; /* NULL: rank not known */
} pb_tensor_type;
typedef struct pb_elem {
  pb_int key;    /* of a map: code of the type of its keys */
  pb_type *elem; /* type of the elements; NULL: absent */
} pb_elem;
struct pb_type {
  pb_tensor_type *tensor; /* a tensor; NULL: another kind */
  pb_tensor_type *sparse; /* a sparse tensor; NULL: another kind */
  pb_elem *sequence;      /* a sequence; NULL: another kind */
  pb_elem *optional;      /* an optional; NULL: another kind */
  pb_elem *map;           /* a map; NULL: another kind */
};

typedef struct pb_tensor {
  bytes self;             /* the whole message */
  i64vec dims;            /* its sizes */
  pb_int data_type;       /* code of the element type (TensorProto.DataType) */
  pb_int location;        /* 1: the bytes are in another file (`external`) */
  bytes name;             /* name of the tensor */
  bytes raw;              /* elements as in memory, little-endian; p NULL: they are in one of the lists */
  pb_packed float_data;   /* elements of f32 and its complex type */
  pb_packed int32_data;   /* elements of up to 32 bits, f16 and bool among them */
  pb_packed int64_data;   /* elements of i64 */
  pb_packed double_data;  /* elements of f64 and its complex type */
  pb_packed uint64_data;  /* elements of u32 and u64 */
  VEC(bytes) string_data; /* elements of a tensor of strings */
  VEC(pb_pair) external;  /* where the bytes are: location, offset, length */
  bytes segment;          /* there: the tensor is stored in segments, which is refused */
} pb_tensor;
typedef struct pb_sparse {
  pb_tensor *values;  /* the elements that are not 0 */
  pb_tensor *indices; /* where they are: positions in the flat tensor, or an index for each axis */
  i64vec dims;        /* sizes of the dense tensor */
} pb_sparse;

/* SequenceProto and OptionalProto, as far as tensors go: `inner` is the sequence of an optional. */
typedef struct pb_list {
  VEC(pb_tensor) tensors; /* the elements */
  struct pb_list *inner;  /* the sequence of an optional; NULL: none */
} pb_list;

typedef struct pb_graph pb_graph;
typedef struct pb_attr {
  bytes name;             /* name of the attribute */
  bytes ref;              /* in a function: the function's attribute that it takes its value from */
  pb_int type;            /* code of the kind of value (AttributeProto.AttributeType) */
  pb_int i;               /* value of kind INT */
  pb_float f;             /* value of kind FLOAT */
  bytes s;                /* value of kind STRING */
  pb_tensor *t;           /* value of kind TENSOR; NULL: absent */
  pb_graph *g;            /* value of kind GRAPH; NULL: absent */
  pb_sparse *sparse;      /* value of kind SPARSE_TENSOR; NULL: absent */
  pb_type *tp;            /* value of kind TYPE_PROTO; NULL: absent */
  VEC(float) floats;      /* value of kind FLOATS */
  i64vec ints;            /* value of kind INTS */
  VEC(bytes) strings;     /* value of kind STRINGS */
  VEC(pb_tensor) tensors; /* value of kind TENSORS */
  VEC(pb_graph) graphs;   /* value of kind GRAPHS */
} pb_attr;

typedef struct pb_node {
  bytes name;        /* name of the node */
  bytes op;          /* operator or function that it calls */
  bytes domain;      /* domain of the operator; empty: ONNX's own */
  bytes overload;    /* which of several functions of this name */
  VEC(bytes) input;  /* names of its inputs; empty: omitted */
  VEC(bytes) output; /* names of its outputs; empty: not wanted */
  VEC(pb_attr) attr; /* its attributes */
} pb_node;
typedef VEC(pb_node) pb_nodes;
typedef struct pb_value {
  bytes name;    /* name of the value */
  pb_type *type; /* NULL: not stated */
} pb_value;
struct pb_graph {
  bytes name;                 /* name of the graph */
  pb_nodes node;              /* nodes in topological order */
  VEC(pb_tensor) init;        /* constants */
  VEC(pb_sparse) sparse_init; /* sparse constants */
  VEC(pb_value) input;        /* inputs; constants may be among them */
  VEC(pb_value) output;       /* outputs */
  VEC(pb_value) info;         /* types of values between */
};
typedef struct pb_opset {
  bytes domain;   /* the domain; empty: ONNX's own */
  pb_int version; /* version of its operators */
} pb_opset;
typedef VEC(pb_opset) pb_opsets;
typedef struct pb_function {
  bytes name;                /* name of the function */
  bytes domain;              /* its domain */
  bytes overload;            /* which of several functions of this name */
  VEC(bytes) input;          /* names of its inputs */
  VEC(bytes) output;         /* names of its outputs */
  VEC(bytes) attr;           /* names of attributes without a default */
  VEC(pb_attr) attr_default; /* attributes with a default value */
  pb_nodes node;             /* body, in topological order */
  pb_opsets opset;           /* operator sets that the body uses */
} pb_function;
typedef struct pb_model {
  pb_int ir_version;         /* version of the file format */
  bytes producer;            /* program that wrote the file */
  bytes producer_version;    /* version of this program */
  pb_graph *graph;           /* NULL: absent */
  pb_opsets opset;           /* operator sets that the model uses */
  VEC(pb_pair) metadata;     /* entries of metadata_props */
  VEC(pb_function) function; /* functions of the model */
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
