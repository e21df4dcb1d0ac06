/* Private to onnx: TensorProto and SparseTensorProto to arrays. */
#ifndef EK_ONNX_TENSOR_H
#define EK_ONNX_TENSOR_H
#include "onnx/proto.h"

typedef struct tensor_source {
  ctx *c;             /* context */
  bytes file;         /* the whole model file, to know which bytes are mapped */
  const char *path;   /* path of the model's file; NULL when it came from memory */
  const char *name;   /* name of the model, for messages */
  const char *folder; /* folder of external data; NULL: none is allowed */
} tensor_source;

/* `who` names the tensor in messages (constant c of node n). False: an error was recorded. */
bool tensor_read(const tensor_source *s, const pb_tensor *t, const char *who, ndarray *out);
bool tensor_read_sparse(const tensor_source *s, const pb_sparse *t, const char *who, ndarray *out);
#endif
