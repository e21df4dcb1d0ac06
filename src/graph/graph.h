/* graph: the model as operators on typed tensors.
 *
 * A graph is a list of nodes in SSA form over values. A value is defined once: as a graph input, as a constant, or as
 * an output of one node. Names are unique within the whole model (subgraph values that shadow are renamed at import;
 * `source` keeps the model's spelling). Nodes are in dependence order. A node may hold regions (If: then, else; Loop,
 * Scan: body): graphs whose nodes may also use values of the enclosing graphs. Every node is in the newest form of its
 * operator that the operator library defines: opset drift ends at import. Dimensions are symbolic sizes (sym.h). A
 * value's type is known after inference: element type, rank and dims; small integer values (at most 64 elements) may
 * also be known symbolically (`values`). Constants refer to bytes (mapped file, never copied). Where a node came from
 * (`name`, domain, source version) is kept for messages.
 * A state ties an output to an input of the same type and sizes: what the output is in one run, the input is in the
 * next. The last inputs and the last outputs are those of the states, in one order; who runs the graph does not see
 * them.
 */
#ifndef EK_GRAPH_H
#define EK_GRAPH_H
#include "base/base.h"
#include "sym/sym.h"

typedef struct graph graph;
typedef struct node node;

/* A sequence is a list of tensors; an optional may be missing. What the model does not declare counts as a tensor. */
typedef enum { VALUE_TENSOR, VALUE_LIST, VALUE_OPTIONAL, VALUE_OPTIONAL_LIST } value_kind;

typedef struct value {
  const char *name;    /* unique, printing name */
  const char *source;  /* the model's own name */
  etype type;          /* ET_NONE: not known yet */
  bool ranked;         /* rank and dims known */
  uint32_t rank;       /* number of axes, where ranked */
  const sz *dims;      /* size of each axis, where ranked */
  const sz *values;    /* contents as sizes, row-major, or NULL; count = product of dims (all constant) */
  const ndarray *data; /* constant bytes or NULL */
  node *def;           /* NULL: input or constant */
  value_kind kind;     /* what the model declares it to be; an input's type and dims are those of its elements */
  bool text;           /* a port of strings that has been lowered: type and dims are those of their bytes */
  bool literal;        /* a constant that the model writes as a node (Constant), not as an initialiser */
  bool declared;       /* type and dims were declared by the model (value_info); inference checks against it */
} value;

typedef enum {
  AK_INT = 1,
  AK_FLOAT,
  AK_STRING,
  AK_INTS,
  AK_FLOATS,
  AK_STRINGS,
  AK_TENSOR,
  AK_TENSORS,
  AK_GRAPH,
  AK_TYPE
} attr_kind;
typedef struct attr {
  const char *name;           /* name of the attribute */
  attr_kind kind;             /* which of the fields have a meaning */
  uint32_t n;                 /* lists: number of elements */
  int64_t i;                  /* AK_INT; AK_TYPE: etype */
  double f;                   /* AK_FLOAT */
  const char *s;              /* AK_STRING */
  const int64_t *ints;        /* AK_INTS */
  const double *floats;       /* AK_FLOATS */
  const char *const *strings; /* AK_STRINGS */
  const ndarray *tensor;      /* AK_TENSOR, AK_TENSORS */
  graph *g;                   /* AK_GRAPH */
} attr;

struct node {
  const char *op;     /* name of the operator */
  const char *domain; /* "" is the standard's */
  const char *name;   /* the model's name of the node, or OP_NUMBER */
  VEC(attr) attrs;    /* attributes */
  VEC(value *) in;    /* NULL: an omitted optional input */
  VEC(value *) out;   /* NULL: an omitted optional output */
  uint32_t id;        /* number of nodes that its graph had before it */
};

/* A tensor that stays from run to run. */
typedef struct graph_state {
  value *in;            /* input: the value before the run */
  value *out;           /* output: the value after it */
  const ndarray *first; /* what `in` is in the first run; NULL: zeros */
} graph_state;
struct graph {
  ctx *c;               /* context */
  graph *parent;        /* graph that it is a region of; NULL: the root */
  const char *name;     /* name of the graph */
  VEC(value *) inputs;  /* inputs, in the model's order */
  VEC(value *) outputs; /* outputs, in the model's order */
  VEC(value *) values;  /* all values that are defined in it */
  VEC(node *) nodes;    /* in dependence order */
  /* root: the last so many inputs and outputs are those of the states, in this order */
  VEC(graph_state) states;
  const char *producer; /* root: program that wrote the file */
  const char *file;     /* root: the file, for messages */
  int64_t ir_version;   /* root: version of the format, as in the file */
  int64_t opset;        /* root: version of the operators, as in the file */
  VEC(attr) metadata;   /* root: AK_STRING each */
  VEC(attr) domains;    /* root: AK_INT each: the versions of operator sets other than the standard's */
  map *names;           /* root: taken names */
  map *sizes;           /* root: the names of sizes that are open as the file has it; NULL before the first lowering */
};

graph *graph_new(ctx *c, graph *parent, const char *name);
value *graph_value(graph *g, const char *name); /* new value; the name is made unique */
value *graph_const(graph *g, const char *name, const ndarray *data);
node *graph_node(graph *g, const char *op, const char *domain, const char *name);
node *graph_node_first(graph *g, const char *op, const char *domain, const char *name); /* in front of the others */
value *graph_result(graph *g, node *n, const char *name); /* a new value: the node's next output */
const attr *node_attr(const node *n, const char *name);   /* NULL if absent */
attr *node_set_int(graph *g, node *n, const char *name, int64_t v);
attr *node_set_float(graph *g, node *n, const char *name, double v);
attr *node_set_string(graph *g, node *n, const char *name, const char *v);
attr *node_set_ints(graph *g, node *n, const char *name, const int64_t *v, uint32_t count);
attr *node_set_floats(graph *g, node *n, const char *name, const double *v, uint32_t count);
attr *node_set_strings(graph *g, node *n, const char *name, const char *const *v, uint32_t count);
void node_remove_attr(node *n, const char *name);
graph *graph_root(graph *g);
/* Input v, of another kind than a tensor, holds n tensors (-1: nothing at all). They become inputs NAME.0, NAME.1,
 * .. in its place, with v's type and dims (those that are not numbers are symbols of their own), and v the
 * result of a node that makes it of them. */
void graph_settle(graph *g, value *v, int64_t n);

/* state.c: ties the output of this name to the input, or to the initialiser, of that name. An initialiser becomes an
 * input, and its contents the state's first value. Both move to the end of their lists. Unwinds (E_USAGE, E_SHAPE)
 * where there is no such output or input, where one is tied already, or where types or sizes differ. */
void graph_tie(graph *g, const char *output, const char *input);
void graph_states_last(graph *g); /* the states' inputs and outputs move to the end of their lists, in one order */
/* Can `in` hold what `out` is, as far as types and sizes are known? If not, the reason, which names both. */
const char *graph_untied(const graph *g, const value *in, const value *out);

/* cut.c: parts of a graph.
 * The values that the outputs of g need, those of enclosing graphs and of regions included: a set for graph_needs. */
map *graph_needed(const graph *g);
bool graph_needs(const map *needed, const value *v);   /* v may be NULL */
void graph_drop_unneeded(graph *g, const map *needed); /* nodes whose outputs nobody needs */
void graph_replace_uses(graph *g, const map *by);      /* by: address of a value -> that of what takes its place */
typedef struct graph_given {                           /* a value that is given instead of computed */
  const char *name;                                    /* the model's name of the value */
  ndarray data;                                        /* its type, rank and dims; constant: its contents, too */
  const char *const *names; /* of axes that may stay open, the symbols, NULL for the others; NULL: there are none */
  bool constant;            /* it becomes a constant, otherwise an input */
} graph_given;
typedef struct graph_part {
  const graph_given *given;   /* values that are given; those that the graph does not have are passed over */
  uint32_t n;                 /* number of entries in `given` */
  const char *const *outputs; /* names of the tensors that are wanted, NULL-terminated */
  bool open; /* axes with a symbol stay open, and inputs are as in g; otherwise all sizes are the data's */
} graph_part;
void graph_cut(graph *g, const graph_part *part); /* leaves a part of g; unwinds where there is no such output */

/* text.c: what is printed parses back to the same graph */
typedef struct graph_print_opts {
  bool weights_inline; /* constants in full instead of by reference */
  const char *node;    /* only this node; NULL: all */
} graph_print_opts;
void graph_print(const graph *g, sbuf *b, graph_print_opts o);
graph *graph_parse(ctx *c, const char *text, const char *file);
/* verify.c: SSA, order, scoping, arity of regions; user errors with node names, or class 3 when `when` is a pass
 * name */
bool graph_verify(graph *g, const char *when);
#endif
