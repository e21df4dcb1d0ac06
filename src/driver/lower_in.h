/* Private to lowering: what is known about the graph's values on the way to expr.
 *
 * A value is a tensor, or a list of tensors (ONNX: a sequence), or absent (an optional without contents). Lists
 * exist in the compiler only: what is inside are tensors like any others, or, where the run decides how many there
 * are or how large, parts of one tensor (lower_open.c). An optional that has contents is its contents.
 */
#ifndef EK_DRIVER_LOWER_IN_H
#define EK_DRIVER_LOWER_IN_H
#include "driver/lower.h"

/* What lowering knows of one value of the graph. */
typedef struct known {
  bool done;        /* it has been lowered */
  bool list;        /* a list of tensors */
  bool absent;      /* an optional without contents */
  arg a;            /* a tensor, where it is neither list nor absent */
  uint32_t n;       /* list: number of items */
  const arg *items; /* list: its tensors */
  bool open;        /* a list whose tensors lie one behind the other in `data` */
  arg data;         /* open list: the elements of all its tensors */
  arg sizes;        /* open list: i64[length, rank]: the shape of each tensor */
  uint32_t rank;    /* open list: number of axes of each tensor */
  const sz *dims;   /* open list: sizes that all its tensors have; 0: they differ, or that is not known */
} known;
/* What the model declares of a value, before lowering put there what it found. */
typedef struct declaration {
  value *v;       /* the value */
  etype type;     /* its declared element type */
  bool ranked;    /* rank and dims are declared */
  uint32_t rank;  /* declared number of axes */
  const sz *dims; /* declared size of each axis */
} declaration;
typedef struct asked {
  guard what;    /* a guard of a block */
  uint32_t next; /* the next one of the same graph, + 1; 0: the last */
} asked;
/* A list that the trips of a loop hand on: in the body, before and behind it, and the sizes that its
 * tensors have all the time, 0: not so. */
typedef struct list_carried {
  value *in;     /* in the body: the list at the beginning of a trip */
  value *out;    /* the list behind the loop */
  sz *dims;      /* sizes that its tensors have all the time; 0: not so */
  uint32_t rank; /* number of entries in `dims` */
} list_carried;
/* A state whose output is the input with something behind it. */
typedef struct low_growth {
  const value *in; /* its input */
  uint32_t axis;   /* along this axis */
  int64_t most;    /* so many places at most */
} low_growth;
/* A size of inputs that another one stands for. */
typedef struct low_replacement {
  atom size;  /* the size */
  sz by;      /* what stands for it */
  bool least; /* it is a condition that it is not negative */
} low_replacement;
typedef struct low {
  ctx *c;             /* context */
  arena *a;           /* memory of lowering */
  emodule *m;         /* module that gets the stages */
  const oplib *lib;   /* definitions of the operators */
  map *vals;          /* value * -> index into known + 1 */
  VEC(known) known;   /* what is known of each value */
  const dimfix *dims; /* sizes from --dim */
  uint32_t ndims;     /* number of entries in `dims` */
  bool *used;         /* per entry of dims: something has that name */
  map *needed;        /* value *: some node or output reads it */
  /* per block: the graph whose nodes it has, where these are lowered once: the model and the branches in it */
  VEC(const graph *) branch;
  VEC(asked) asked;              /* guards of the blocks, as they were lowered last (lower.c) */
  uint32_t variants[2];          /* the blocks of the two lowerings of the model (lower_variant.c); 0: there is one */
  VEC(list_carried) carried;     /* lists that loops hand on */
  VEC(declaration) declared;     /* in the order in which they were replaced; they hold again for the next variant */
  map *asked_of;                 /* block -> its first entry of asked, + 1 */
  VEC(low_growth) growing;       /* states that grow; known when the nodes were lowered once (lower_state.c) */
  VEC(low_replacement) replaced; /* sizes of inputs by which others are said */
  const char *suffix;            /* what follows the names of nodes in a body that is lowered more than once; "" else */
} low;

/* lower.c */
known *low_slot(low *L, const value *v); /* what is known of v; the pointer is good until the next call */
/* a tensor; NULL: not known (an earlier failure), or no tensor */
arg *low_value(low *L, const value *v);
/* a tensor, as low_value gives it; an error where the value is no tensor */
bool low_tensor(low *L, const node *n, const value *v, arg *out);
/* as low_tensor, with an error also where it is not one element of type t */
bool low_single(low *L, const node *n, const value *v, etype t, const char *what, arg *out);
void low_set(low *L, value *v, arg a);
void low_copy(low *L, value *to, const value *from); /* to gets all that is known of from */
bool low_needed(low *L, const value *v);
bool low_nodes(low *L, graph *g, uint32_t block);
void low_asked(low *L, uint32_t block); /* what the nodes of a block asked the last time holds there */
/* One operator of the library on these arguments; every output is wanted. False: an error was recorded. */
bool low_call(low *L, uint32_t block, const char *node, const char *op, const arg *in, uint32_t nin, const sattr *attrs,
              uint32_t nattrs, arg *out, uint32_t nout);
/* a constant of whole numbers */
arg low_ints(low *L, etype t, const int64_t *v, uint32_t n, bool vector, const char *name);

/* lower_flow.c */
enum { LOW_MOST = 1000000000 }; /* a size about which nothing is known is at most this */
void low_if(low *L, node *n, uint32_t block);
uint32_t low_block(low *L, uint32_t parent);
/* nothing of it, and of the blocks in it, stays */
void low_drop(low *L, uint32_t block);
/* axes of a new stage, with a variable for each; at: their indices */
const axis *low_axes(low *L, const sz *shape, uint32_t rank, sz *at);
/* a condition of a block has become one of the root block */
void low_learn(low *L, const guard *g);
tid low_result(low *L, etype t, const sz *shape, uint32_t rank, const char *name, const char *origin);
/* a scalar tensor that holds the size v */
tid low_scalar(low *L, uint32_t block, sz v, const char *name, const char *origin);
sz low_size_symbol(low *L, const char *of, uint32_t dim);
void low_late(low *L, sz symbol, tid t, sz bound);
/* the bound of a size, or what --dim says of its name, if that is less */
sz low_given(low *L, const char *name, sz bound);
sz low_given_size(low *L, sz symbol, sz bound); /* a symbol, or what --dim says of it, if that is less */
/* What has a value only inside a block: the late sizes found there, and these symbols, which lie in 0..his[i] (0:
 * not known). */
typedef struct low_local {
  low *L;              /* the lowering */
  uint32_t block;      /* the block */
  uint32_t n;          /* number of symbols */
  const atom *symbols; /* symbols that have a value only in the block */
  const sz *his;       /* most that each symbol is; 0: not known */
} low_local;
sz low_upper(low_local *k, sz e);      /* an upper bound without them, as far as they have bounds */
bool low_is_local(low_local *k, sz e); /* does any occur? */

/* lower_variant.c */
bool low_variants(low *L, graph *g); /* low_nodes of the whole graph, twice where --dim says a likely size */

/* lower_state.c */
/* The nodes have been lowered: which states grow, and which sizes have states alone? False: an error. Where there are
 * any, the nodes are to be lowered anew. */
bool low_find_growing(low *L, const graph *g);
const low_growth *low_grows(const low *L, const value *in); /* NULL: it is no input of such a state */
sz low_replaced(const low *L, atom size);                   /* what stands for a size of inputs; 0: itself */
void low_growing_guards(low *L);                            /* what must be so of such sizes */
/* What the sizes of states must be becomes conditions, as far as it is not certain. The nodes have been lowered. */
void low_state_sizes(low *L, const graph *g);
void low_states(low *L, const graph *g); /* the module's states; its inputs and outputs are there */

/* lower_requantize.c: a state's new value is the codes of its old one, as far as it computes these again */
void low_requantize(low *L, const arg *in, const arg *out);

/* lower_open.c: lists that only the run knows */
bool low_pack(low *L, const node *n, uint32_t block, known *l); /* makes l an open list; false: an error */
void low_open_at(low *L, node *n, uint32_t block, known *l);
void low_open_insert(low *L, node *n, uint32_t block, known *l);
void low_open_erase(low *L, node *n, uint32_t block, known *l);
void low_open_length(low *L, node *n, uint32_t block, const known *l);
void low_open_concat(low *L, node *n, uint32_t block, const known *l, int64_t axis, bool fresh);
/* parts NULL: each part has size 1 */
void low_open_split(low *L, node *n, uint32_t block, const arg *x, const arg *parts, int64_t axis, bool keep);
void low_open_of(low *L, node *n);           /* ListOf(data, sizes), which this file puts into bodies */
bool low_open_holds(low *L, const graph *b); /* is what was taken to hold for the lists of this body what it gives? */
void low_open_parts(low *L, node *n, uint32_t block); /* lowers ListParts(list) */
void low_open_map(low *L, node *n, uint32_t block, const known *first);
void low_open_loop(low *L, node *n, uint32_t block); /* a Loop on lists whose trips only the run counts */

/* lower_squeeze.c */
bool low_squeeze(low *L, node *n, uint32_t block); /* false: which axes it drops is known, or not declared either */

/* lower_gradient.c */
void low_gradient(low *L, const graph *g, node *n, uint32_t block);

/* lower_loop.c */
/* FAILED: no result has a value; an error was reported, here or where what it reads is made. */
typedef enum { LOOP_FAILED, LOOP_LOWERED /* it is the module's last one */, LOOP_UNROLLED } loop_end;
loop_end low_loop(low *L, node *n, uint32_t block); /* Loop and Scan */

/* lower_list.c */
bool low_list_node(low *L, node *n, uint32_t block); /* false: not an operator on lists or optionals */
bool low_wants_unrolling(low *L, const node *n);     /* does this Loop carry or handle lists? */
/* is the number of trips of this Loop known and small enough to unroll it? */
bool low_trips_known(low *L, const node *n);
/* a Loop, trip by trip; the number of trips and the condition must be known; false as LOOP_FAILED */
bool low_unrolled(low *L, node *n, uint32_t block);
void low_list_outputs(low *L, graph *g); /* lists among the graph's outputs become their elements */
/* lists and optionals among the inputs get their lengths from --dim */
bool low_settle(low *L, graph *g);
#endif
