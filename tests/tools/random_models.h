/* random_models: random models of many nodes. What the parts of the tool share.
 *
 * A model is a list of values and nodes. Every value has contents: what the definitions say for the model's inputs,
 * and VARIANTS more, of inputs and intermediate results that are moved by a few roundings or not rounded at all. So it
 * is known of each value how far rounding moves it, and a model is kept only where that is little
 * (random_models_value.c).
 *
 *   random_models.c         options, processes, the table of what was covered
 *   random_models_make.c    draws models
 *   random_models_flow.c    If, Loop and Scan with their bodies
 *   random_models_value.c   contents, and which nodes are allowed
 *   random_models_write.c   the .onnx file and its arrays
 *   random_models_check.c   compiled code against the evaluator
 *   random_models_shrink.c  the smallest part of a model that still fails */
#ifndef EK_TESTS_RANDOM_MODELS_H
#define EK_TESTS_RANDOM_MODELS_H
#include "eval/eval.h"
#include "notation/instance.h"

enum { VARIANTS = 5, EXACT = VARIANTS /* the variant of f64 */, MOST_ELEMENTS = 4096, FAMILIES = 32 };
typedef enum { MADE_INPUT, MADE_CONST, MADE_NODE, MADE_BODY /* an input of the body of a Loop or Scan */ } making;
typedef struct mvalue {
  etype type;               /* element type */
  uint32_t rank;            /* number of axes; strings: without that of their bytes */
  const sz *shape;          /* numbers; a symbol where only a run finds the size; strings: with that of their bytes */
  making made;              /* what makes it */
  uint32_t node;            /* MADE_NODE: which node */
  uint32_t scope;           /* where it can be read: there, and in the bodies in it */
  ndarray at[1 + VARIANTS]; /* contents, and how they are when everything moves by a few roundings */
  double spread;            /* how far an element moves at most; 0 where the type is not of floats */
  double largest;           /* largest magnitude */
  double step;              /* a rounding or two, relative, of the coarsest type that it is computed in */
  uint32_t uses;            /* nodes and results of bodies that read it */
  bool open;                /* MADE_INPUT: its sizes above 1 are symbols, one for each number */
} mvalue;
typedef enum { NODE_CALL, NODE_IF, NODE_LOOP, NODE_SCAN } node_kind;
typedef struct mnode {
  node_kind kind;
  const char *name;
  uint32_t scope;   /* the body that it stands in; 0: the model */
  bool dead;        /* taken out: what others read of it is an input of the model */
  bool gone;        /* it, or a node around it, is dead */
  uint32_t op;      /* NODE_CALL: which definition */
  opinst *i;        /* NODE_CALL: the call */
  uint32_t body[2]; /* scopes of the branches; of the body */
  uint32_t scanned; /* NODE_SCAN: how many of the inputs, the last ones, are scanned */
  uint32_t back;    /* NODE_SCAN: bits: scanned inputs, and from bit 8 on results, that go from the last slice on */
  uint32_t nin, nout;
  uint32_t in[OPINST_MAX];  /* values, from 1; 0: left out, or a constant of the call */
  uint32_t out[OPINST_MAX]; /* values, from 1; 0: left out */
} mnode;
typedef struct mscope {
  uint32_t parent; /* the scope around it */
  uint32_t node;   /* the node that it is a body of; stands behind the nodes in it */
  u32vec in, out;  /* values, from 1 */
} mscope;
/* What models are drawn from. */
typedef struct drawing {
  u32vec ops;          /* definitions */
  u32vec of[FAMILIES]; /* those of each family */
  uint32_t sizes;      /* the largest size of an axis that is drawn; 0: a small one */
  uint32_t types;      /* bits 1 << etype: element types; 0: any */
  uint32_t asked;      /* the definition that every model has, from 1; 0: they take turns */
} drawing;
typedef struct model {
  ctx *c;
  const oplib *lib;
  uint64_t seed, state; /* state: of the random numbers */
  const drawing *from;
  VEC(mvalue) values;
  VEC(mnode) nodes;
  VEC(mscope) scopes; /* 0: the model itself */
  uint32_t scope;     /* where the next node goes */
} model;
/* What is counted over all models: shared by the processes. */
typedef struct coverage {
  uint32_t models, nodes, open;
  uint32_t flow[4];                   /* models that have nodes of this kind */
  uint32_t ops[1024];                 /* per definition: nodes */
  uint32_t pairs[FAMILIES][FAMILIES]; /* a node of this family reads a result of that one */
} coverage;

static inline uint32_t draw(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(*state >> 33) % n : 0;
}

static inline uint32_t axes(const mvalue *v) { return v->rank + (v->type == ET_STR); } /* of its contents */

/* random_models_make.c: fills in the model of m->seed. False: none came of it. */
bool model_make(model *m);
/* The family of a definition is the file of the library that has it; d NULL: control flow. */
uint32_t model_family(const opdef *d, const char **name);
uint32_t node_family(const model *m, const mnode *n);
/* A node of one of the library's definitions on these values: its first result; 0: it is none for a model. */
uint32_t add_call(model *m, const char *op, const uint32_t *in, uint32_t nin);
/* So many nodes at most at the end of the scope; false: not one came of it. */
bool add_nodes(model *m, uint32_t n);
void model_count(const model *m, coverage *c);

/* random_models_value.c */
/* a new input or constant with these contents */
uint32_t value_given(model *m, making made, etype type, const ndarray *data);
bool call_allowed(const opinst *call); /* whatever its contents are */
/* The node's results: new values, or the old ones anew; false: it is none for a model (see there). */
bool node_values(model *m, mnode *n, bool fresh);
/* The call elaborated anew, for what its inputs are by now: its results become other values. */
bool node_anew(model *m, mnode *n);
void value_becomes(model *m, uint32_t v, etype type, const ndarray *data); /* an input or constant: other contents */
bool nodes_values(model *m, uint32_t scope);                               /* all nodes of a scope, anew */
const sz *numbers_of(ctx *c, const ndarray *d);
/* Do all contents of a value fit: small spread, the same integers in all variants (see there)? Grows spread and
 * largest. */
bool value_allowed(mvalue *v);

/* random_models_flow.c */
bool add_flow(model *m); /* an If, Loop or Scan, with its body */
bool flow_values(model *m, mnode *n, bool fresh);
void model_recount(model *m); /* works out anew which nodes are gone, and how often each value is used */

/* random_models_write.c */
bool model_write(model *m, const char *path); /* .onnx; false: diagnostics of m->c say why */
/* .npz: inputs, and the results of the definitions; all: also those that are no outputs, and how far each float may be
 * off, as tol_NAME */
bool model_arrays(model *m, const char *path, bool all);
bool model_input(const model *m, uint32_t v); /* is value v, from 1, an input that some node reads? */
bool model_output(const model *m,
                  uint32_t v); /* is value v, from 1, an output? Those that nobody reads, and a few more */
const char *value_name(const model *m, uint32_t v);

/* random_models_check.c: writes the model into folder and holds compiled code against the evaluator, in ways that the
 * seed draws. DIFFERS: why says how. REFUSED: the memory for sizes that only a run finds has no bound in 64 bits, which
 * compiling says. */
typedef enum { ALIKE, DIFFERS, REFUSED } verdict;
double value_limit(const mvalue *v); /* how far an element of an output may be off, beside a relative error */
verdict model_check(model *m, const char *folder, char *why, size_t room);

/* random_models_shrink.c: m becomes the smallest part found for which fails() is true. */
void model_shrink(model *m, bool (*fails)(void *env, model *m), void *env);
#endif
