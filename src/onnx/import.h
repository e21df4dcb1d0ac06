/* Private to onnx: what the import of one model carries around. */
#ifndef EK_ONNX_IMPORT_H
#define EK_ONNX_IMPORT_H
#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "onnx/tensor.h"

/* A call of one of the model's functions that is being inlined; NULL: the model's own nodes. */
typedef struct frame_fn {
  const pb_function *fn; /* the function */
  map *attrs;            /* name to const pb_attr *: what the call gives, else the function's default */
  const char *prefix;    /* what precedes the names of its nodes and values */
  uint32_t depth;        /* nested calls, from 1 */
} frame_fn;

/* The names visible in one graph or function body. */
typedef struct scope {
  const struct scope *outer; /* scope of the enclosing graph; NULL at the top and for a function's body */
  graph *g;                  /* where its values and nodes go */
  map *values;               /* name to value *; 0: an omitted input of a function */
  map *tensors;              /* name to const pb_tensor *: initialisers, made constants when first used */
  map *sparse;               /* name to const pb_sparse * */
  map *types;                /* name to const pb_type *: value_info */
  map *makers;               /* name to const pb_node *: who produces it, for messages */
  const frame_fn *fn;        /* call of the function whose body it is; NULL: the model's own nodes */
} scope;

typedef struct importer {
  ctx *c;            /* context */
  arena *a;          /* lives as long as the context */
  arena *scratch;    /* memory that is freed when the import is done */
  const pb_model *m; /* the file's messages */
  tensor_source src; /* where tensors come from */
  map *functions;    /* domain, name, overload to const pb_function * */
  map *symbols;      /* the model's name of a dimension to its sz */
  map *symbol_names; /* identifiers given out */
  uint32_t nodes;    /* built so far */
  bool standard;     /* nothing becomes an operator of our own */
} importer;

/* names.c */
/* an interned C string; unwinds on a NUL in it */
const char *name_text(importer *im, bytes b);
/* the name for messages: shortened, without control characters */
const char *name_shown(importer *im, bytes b);
/* its name, or the operator and first output */
const char *node_shown(importer *im, const pb_node *n);
int64_t opset_of(const importer *im, const frame_fn *fn, const char *domain); /* 0: not imported */
const char *domain_text(importer *im, bytes b);                               /* "" for the standard's */
typedef enum { TYPE_INPUT, TYPE_REGION_INPUT, TYPE_OTHER } type_role;
bool declare_map(importer *im, graph *g, value *v, const pb_type *t);
bool other_kind(const pb_type *t); /* a sequence, map, optional or sparse tensor */
void declare_type(importer *im, value *v, const pb_type *t, type_role role);

/* attrs.c */
/* follows references to a function's attributes; NULL: not given */
const pb_attr *attr_resolve(const frame_fn *fn, const pb_attr *a);
void import_attrs(importer *im, const scope *s, const pb_node *p, node *n);
bool constant_node(importer *im, const scope *s, const pb_node *p, ndarray *out);

/* import.c */
graph *import_region(importer *im, const scope *outer, const pb_graph *p);
#endif
