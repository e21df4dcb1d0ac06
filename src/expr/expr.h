/* expr: tensor expressions. What the nodes' definitions expand to: stages over index spaces. No operator names exist
 * here.
 *
 * A module holds tensors, stages that compute them, and a tree of blocks that says in which control-flow region a
 * stage stands.
 *
 * TENSORS are immutable arrays with an element type and a shape of symbolic sizes. Kinds: input (the caller's),
 * const (bytes known), stage (computed here).
 *   Constants print as a reference (file, offset, bytes, SHA-256), or inline up to 1 KB or on request.
 *
 * STAGES. A stage computes one tensor, in one of two forms.
 *   compute:   Y[axes] = value               every point of the index space is assigned once
 *   update:    Y[axes] = value (or undefined when the updates provably tile Y: `tiled`), then a list of updates,
 *              in order; each update is a sequential loop over its own vars in row-major order:
 *                 Y[idx...] (:=|+=|*=|max=|min=) value if cond     (:= last writer wins)
 *   Axes: an axis is a list of digits (variable, extent), outer to inner (mixed radix): the axis' index is the
 *   number with these digits and its size is the product of the extents. An axis of
 *   one digit is the usual case, of no digit a size-1 axis. Each variable belongs to exactly one stage (its
 *   output digits and its reductions' variables); variables of extent 1 do not exist (they are the constant 0).
 *   The element type of the stage is its rounding point: the value has exactly that type; fusion keeps the rounding.
 *   recurrence: stages with the same recurrence id form a recurrence over one shared variable t (an output digit of
 *   each).
 *   They run together step by step in module order; a stage may read any stage of the group at t' < t
 *   (or, of a stage standing earlier, t' <= t); reads at negative t' have an `else` value.
 *
 * VALUES are nodes of a hash-consed DAG, typed. `ex` ids; equal structure has equal ids within a module.
 *   const      a scalar of the node's type
 *   index      an sz as a value of type i64
 *   load       tensor, one sz per axis; `otherwise` (0 = none): the value where any index is out of range;
 *              without it every index must be in range wherever evaluated
 *   op         scalar operation of ops.h
 *   reduce     reduction over variables (row-major order), `where` (0 = none) a bool, `body`; arg-reductions give
 *              an i64: `payload`, or the first variable if 0. The accumulator has the type `acc` (by default: the
 *              body's type, f32 for 8/16-bit floats in sum/prod), the result the node's type. Empty: sum 0, prod
 *              1, max lowest/-inf, min highest/inf, any false, all true, arg: 0.
 *              NaN wins in max/min/arg. `sum`/`prod` of floats may be reassociated.
 *   A variable of a stage's axes or of a reduction may have a range (range.c): nothing comes of its other values.
 *   An sz inside a load or index may contain data atoms: sym_data(id) with id = the ex of an i64 value in this
 *   module. Its variables are free in the sz.
 *
 * BLOCKS. The module has a root block; a block is an ordered list of items: a stage, an `if` (condition: a bool
 * scalar tensor; then and else blocks; per result: tensor result = then-tensor or else-tensor), or a
 *   `loop` (trip count sz or 0 with a condition; carried tensors: init, inner argument, next value, final result;
 *   collected tensors: one slice per trip). Stages may read tensors of enclosing blocks. Within a block stages
 *   are in dependence order.
 *
 * STATES. A tensor that stays from run to run is an input and an output of equal type and shape: what the output was in
 * one run, the input is in the next; in the first run a constant, or zeros. The last inputs and the last outputs are
 * those of the states, in one order.
 *
 * LATE SIZES. A symbol whose value is computed: `late symbol = tensor` (an i64 scalar tensor), with an upper
 * bound sz. Stages whose shapes or extents use it run after that tensor is known. The tensor may be the
 *   result of an `if`, or a loop's final value, or its inner value: then the size is another one in every trip,
 *   and tensors that have it change their size from trip to trip.
 * GUARDS. Conditions on size symbols, checked at entry: contract (the model is wrong) or assumption (this
 * artefact does not serve that size), with the text for the message.
 * CHECKS. Conditions on values: an index that data bring lies in a range. Two i64 scalars are computed for one: `at`,
 * the first place where a value is not allowed, counted row-major over `dims` (EXPR_NOWHERE: there is none), and
 *   `value`, what stands there. Where there is such a place the run fails, each time the check's block runs. What
 *   reads memory at such an index meanwhile gives some value (an index without `else` is clamped).
 *
 * KERNELS. After the fusion pass every stage belongs to exactly one kernel (or is virtual: a placement its
 * producers store into). A kernel lists its stages in order; `outer` are the canonical loop variables all
 *   stages share: canon maps each stage's variable to the canonical one. Before fusion the list is empty.
 */
#ifndef EK_EXPR_H
#define EK_EXPR_H
#include "base/base.h"
#include "expr/ops.h"
#include "sym/sym.h"

typedef uint32_t ex;  /* value node; 0 = none */
typedef uint32_t tid; /* tensor; 0 = none */
typedef struct emodule emodule;

typedef enum { EX_CONST = 1, EX_INDEX, EX_LOAD, EX_OP, EX_REDUCE } ex_kind;
typedef struct ex_node {
  uint8_t kind;         /* ex_kind */
  uint8_t type;         /* etype of the value */
  uint8_t op;           /* op: sop; reduce: rop */
  uint8_t acc;          /* reduce: accumulator type */
  uint8_t nargs;        /* op: arity; load: rank; reduce: number of variables */
  tid tensor;           /* load: what it reads */
  ex otherwise;         /* load: the value where an index is out of range; 0: it never is */
  ex where;             /* reduce: only points where this bool holds count; 0: all */
  ex body;              /* reduce: what is combined */
  ex payload;           /* reduce: i64 result of an arg-reduction; 0: its first variable */
  scalar k;             /* const */
  sz index;             /* index */
  const uint32_t *args; /* op: ex[nargs]; load: sz[nargs]; reduce: atom[nargs] (variables) */
} ex_node;

/* One variable of an axis. */
typedef struct digit {
  atom var;  /* the variable, not 0 */
  sz extent; /* number of its values */
} digit;
/* An axis as a mixed-radix number (see Axes above). */
typedef struct axis {
  uint32_t n;     /* number of digits; 0: the axis has size 1 */
  const digit *d; /* digits, outer to inner */
} axis;

/* A constant that is made of another one's bytes where and when somebody wants it (linmap.c): at each place x of its
 * inner axes r0 x r1 elements become n0 x n1, its outermost axes,
 *   Y[a0, a1, x..] = sum over j0 < r0, j1 < r1 of g0[a0][j0] * g1[a1][j1] * from[base + j0*tap0 + j1*tap1 + sum
 *   over i of x_i * step_i]        (in f64, then rounded)
 * The last of x counts columns, those before it together count rows. One of these may count parts of an axis:
 * part i has the elements i*begin - lead + j*spacing, those of them that are among `all`. */
enum { LINMAP_AXES = 2, LINMAP_TAPS = 1024 /* r0 * r1 at most */ };
typedef struct linmap {
  /* bytes of an element: 4 or 8 */
  int64_t size;
  /* n0, n1: elements along each inner axis of Y; 1: there is no such axis */
  int64_t n[LINMAP_AXES];
  /* r0, r1: elements along each inner axis of `from`; 1: there is no such axis */
  int64_t r[LINMAP_AXES];
  /* elements of `from` between two neighbours on an inner axis */
  int64_t tap[LINMAP_AXES];
  /* elements of all parts together; 0: the axis is not in parts */
  int64_t all[LINMAP_AXES];
  /* which of x counts the parts, where `all` is not 0 */
  int64_t part[LINMAP_AXES];
  /* elements from the beginning of a part to that of the next one */
  int64_t begin[LINMAP_AXES];
  /* elements of the first part that come before the first of `all` */
  int64_t lead[LINMAP_AXES];
  /* elements between two neighbours of a part, where tap counts them */
  int64_t spacing[LINMAP_AXES];
  /* number of x, at least 1 */
  int64_t nx;
  /* values of each x, outer to inner */
  int64_t ext[2 * MAX_RANK];
  /* elements of `from` between two values of each x */
  int64_t step[2 * MAX_RANK];
  /* offset of the first element in `from`, in elements */
  int64_t base;
  /* g0, g1: n x r factors each, row by row */
  const double *g[LINMAP_AXES];
  /* the constant that it is made of */
  bytes from;
} linmap;

/* A constant of f32 whose values are whole numbers or finite floats of one byte, kept as these (narrow.c). */
typedef struct narrow_bytes {
  etype type; /* type of the bytes: i8, u8, f8e4m3fn, f8e5m2; 0: there are none */
  bytes from; /* one byte for each element */
} narrow_bytes;

typedef enum {
  TK_INPUT = 1,
  TK_CONST,
  TK_STAGE,
  TK_RESULT /* result of an if or loop, or a loop's inner argument */
} tkind;
typedef struct tensor {
  tkind kind;              /* what gives it its value */
  etype type;              /* element type */
  uint32_t rank;           /* number of axes */
  const sz *shape;         /* size of each axis */
  const char *name;        /* unique in the module; printing name */
  const char *origin;      /* node of the model it came from, for messages and reports only; never read by a pass */
  ndarray data;            /* const; data.data is NULL as long as it is only `transform` or `narrow`: expr_data */
  const linmap *transform; /* const: what its bytes are computed from, when it has none yet; NULL */
  narrow_bytes narrow;     /* const: its values in fewer bytes, when it has none of its own */
  uint32_t stage;          /* index into module.stages, when kind == TK_STAGE */
  bool output;             /* value leaves the module or its block's region: must be materialised */
} tensor;

typedef struct update {
  atom *vars;     /* variables that it runs over, row-major */
  uint32_t nvars; /* number of variables */
  uint32_t nidx;  /* number of indices */
  sz *idx;        /* where it writes: an index for each axis */
  sop op;         /* OP_NONE is :=, else OP_ADD, OP_MUL, OP_MAX, OP_MIN */
  ex value;       /* what is combined with what stands there */
  ex cond;        /* bool: where it writes at all; 0: everywhere */
} update;
typedef struct stage {
  tid tensor;          /* the tensor that it computes */
  uint32_t naxes;      /* number of axes */
  axis *axes;          /* digits of each axis */
  ex value;            /* 0 only for a tiled update */
  VEC(update) updates; /* done after the value, in order */
  bool tiled;          /* updates write every place exactly once */
  uint32_t recurrence; /* 0 = none, else index into module.recurrences */
  bool dead;           /* removed; skip */
  bool stop;           /* a constant to gradients: no adjoint flows back through this stage */
  uint32_t block;      /* the block it stands in */
  const char *region;  /* definition it was elaborated from, for reports only */
  uint32_t kernel;     /* after fusion: index into module.kernels + 1; 0: virtual */
  double idle;         /* the part of its work that is left out, as far as known: results that nobody reads, ranges */
} stage;
/* The values lo..hi-1 of a variable, those of them that it has; nothing comes of the others. The bounds are over
 * variables of the same stage, sizes and data. all: where that is no value, each one counts. */
typedef struct xrange {
  sz lo;    /* first value */
  sz hi;    /* end of the values (not included) */
  bool all; /* where lo..hi-1 has no value, each value of the variable counts */
} xrange;
typedef struct recurrence {
  atom var;  /* variable of the step */
  sz extent; /* number of steps */
} recurrence;

typedef enum { IT_STAGE = 1, IT_IF, IT_LOOP } item_kind;
/* One thing that a block runs. */
typedef struct item {
  item_kind kind; /* stage, if or loop */
  uint32_t index; /* index into stages, ifs or loops */
} item;
typedef struct block {
  VEC(item) items; /* what runs in it, in order */
  uint32_t parent; /* the block around it; 0 of the root, too */
} block;
typedef struct xif {
  /* bool scalar: true runs then_block, false else_block */
  tid cond;
  /* the block that runs where cond is true */
  uint32_t then_block;
  /* the block that runs where cond is false */
  uint32_t else_block;
  /* number of results */
  uint32_t n;
  /* the results */
  tid *results;
  /* the value of each result where cond is true */
  tid *then_vals;
  /* the value of each result where cond is false */
  tid *else_vals;
  /* the block that the branch stands in */
  uint32_t block;
  /* name of the node that it comes from; NULL: not known */
  const char *origin;
} xif;
typedef struct xloop {
  /* number of trips, evaluated before the loop; 0: not known, cond decides */
  sz trips;
  /* i64 scalar tensor with the number of trips where it is a run-time value; 0: none */
  tid trip_tensor;
  /* symbol that stands for the number of the current trip, 0.., inside the body */
  atom counter;
  /* bool scalar: whether the first trip runs; 0: always */
  tid cond0;
  /* bool scalar, computed by a trip: whether another one follows; 0: always */
  tid cond;
  /* the block of the body */
  uint32_t body;
  /* number of values carried from trip to trip */
  uint32_t ncarried;
  /* number of values collected over all trips */
  uint32_t ncollected;
  /* carried: values before the first trip */
  tid *init;
  /* carried: values at the beginning of a trip */
  tid *inner;
  /* carried: values at the end of a trip */
  tid *next;
  /* carried: values after the last trip */
  tid *final;
  /* collected: value of one trip */
  tid *slice;
  /* collected: slice[i] of all trips, one after the other on axis 0 */
  tid *collected;
  /* the block that the loop stands in */
  uint32_t block;
  /* name of the node that it comes from; NULL: not known */
  const char *origin;
} xloop;
#define EXPR_NO_BOUND INT64_C(1000000000) /* a late size's bound that says nothing */
typedef struct late {
  atom symbol; /* the size */
  tid tensor;  /* i64 scalar that has its value */
  sz bound;    /* upper bound; EXPR_NO_BOUND: none is known */
} late;
typedef struct guard {
  bool assumption;  /* artefacts do not serve other sizes; else the model is wrong with them */
  sz ge0;           /* must be at least 0 */
  bool is_eq;       /* ge0 == 0 must hold */
  const char *text; /* the message */
  const char *node; /* node of the model that needs it; NULL: not known */
  uint32_t block;   /* 0: checked at entry; else it only counts where this block runs (a branch, a body) */
} guard;

#define EXPR_NOWHERE INT64_MAX
typedef struct value_check {
  tid at;           /* i64 scalar: the first position where a value is not allowed; EXPR_NOWHERE: there is none */
  tid value;        /* i64 scalar: the value there */
  sz lo;            /* least allowed value */
  sz hi;            /* exclusive upper bound of allowed values */
  uint32_t ndims;   /* number of dims */
  const sz *dims;   /* sizes that the position counts over, row-major */
  const char *text; /* what the value is, for the message */
  const char *node; /* node of the model; NULL: not known */
  uint32_t block;   /* each time it runs, the check is done */
  /* all elements of this tensor are in the range where the check holds; 0: the check is not about all elements of a
   * tensor */
  tid of;
} value_check;

typedef enum {
  KC_ELEMENTWISE = 1,
  KC_ROW,
  KC_CONTRACTION,
  KC_STENCIL,
  KC_MATVEC,
  KC_RECURRENCE,
  KC_COPY,
  KC_GATHER,
  KC_UPDATE,
  KC_PREFIX_SCAN,
  KC_RANKING,
  KC_COMPOSITE /* contraction - row chain - contraction */,
  /* a contraction with what makes its operand and what reads its result, a point of `outer` at a time; placements
   * handed over are members */
  KC_BLOCKS
} kernel_class;
typedef struct kernel {
  kernel_class cls;     /* class, which decides the strategy */
  VEC(uint32_t) stages; /* indices of its stages, in order */
  u32vec outer;         /* canonical atoms: loop variables that all stages share */
  map *canon;           /* stage variable atom -> canonical atom */
  uint32_t block;       /* block that its stages stand in */
  const char *note;     /* for reports: how it is computed; NULL: nothing to say */
  bool dead;            /* joined with another kernel; skip */
} kernel;
const char *kernel_class_name(kernel_class k); /* print.c */
typedef struct io {
  tid t;            /* the tensor */
  const char *name; /* name in the model */
} io;
/* `cost flops = ..` of the definition that a node calls. */
typedef struct cost_note {
  const char *origin; /* node of the model */
  const char *what;   /* what is counted: flops or bytes */
  sz value;           /* how many */
} cost_note;
/* A call whose definition states gradients. The tensors that it was called with are copies that nobody else reads
 * where they are marked `given`: their adjoints come from `give` instead of the stages between. Not in the text; the
 * passes forget it. */
typedef struct stated_call {
  uint32_t nargs;    /* number of arguments */
  uint32_t nouts;    /* number of results */
  const tid *args;   /* tensors that it was called with */
  const tid *outs;   /* results; 0: not wanted */
  const bool *given; /* per argument: its adjoint comes from `give` */
  /* appends stages that compute the adjoints of the given arguments, from args and outs or what stands for them */
  void (*give)(void *env, emodule *m, uint32_t block, const tid *args, const tid *outs, const tid *adjoints, tid *out);
  void *env; /* handed to give */
} stated_call;

struct emodule {
  ctx *c;                      /* context */
  arena *a;                    /* memory of the module */
  arena *values;               /* memory of the nodes and what is remembered of each; NULL: given back */
  VEC(ex_node) nodes;          /* values by number; [0] unused */
  VEC(tensor) tensors;         /* [0] unused */
  VEC(stage) stages;           /* stages by number */
  VEC(recurrence) recurrences; /* [0] unused */
  VEC(block) blocks;           /* [0] root */
  VEC(xif) ifs;                /* branches by number */
  VEC(xloop) loops;            /* loops by number */
  VEC(late) lates;             /* late sizes, in the order of their definition */
  VEC(guard) guards;           /* conditions on sizes */
  VEC(value_check) checks;     /* conditions on values */
  VEC(io) inputs;              /* in the model's order */
  VEC(io) outputs;             /* in the model's order */
  /* per state the constant that it begins with; 0: zeros. The last so many inputs and outputs are those of states */
  u32vec states;
  VEC(kernel) kernels;      /* made by the fusion pass */
  VEC(xrange) ranges;       /* ranges of variables, which range_of finds */
  map *range_of;            /* variable -> index into ranges; NULL: there are none */
  bool derived;             /* there are derivatives, which read what was computed long before */
  VEC(stated_call) stated;  /* calls whose definitions state gradients */
  VEC(cost_note) costs;     /* costs that definitions state */
  struct ex_table *table;   /* hash-consing of nodes */
  u32vec marks;             /* per ex: the last walk that saw it (walk.c) */
  uint32_t walks;           /* walks so far (walk.c) */
  u32vec loads_of;          /* per ex: 1 + which of known_loads is its (walk.c); 0: not looked at yet */
  VEC(u32vec) known_loads;  /* the loads of these values */
  map *contents;            /* contents of small tensors, as far as they were looked at (notation); NULL: of none */
  struct expr_notes *notes; /* what the last run of passes refused (passes.h); may be NULL */
};

/* ---- construction (build.c): structural only, no simplification; but an index of a constant is the i64 constant
 * and an index of a lone data atom the value behind it ---- */
emodule *expr_module(ctx *c);
ex expr_const(emodule *m, etype t, scalar k);
ex expr_f(emodule *m, etype t, double v);
ex expr_i(emodule *m, etype t, int64_t v);
ex expr_bool(emodule *m, bool v);
ex expr_index(emodule *m, sz e);
ex expr_load(emodule *m, tid t, const sz *idx, uint32_t n, ex otherwise);
/* type of the result; checks arity and operand types (ctx_bug on mismatch) */
ex expr_op(emodule *m, sop op, etype t, const ex *args, uint32_t n);
ex expr_op1(emodule *m, sop op, ex a); /* the result's type is the table's */
ex expr_op2(emodule *m, sop op, ex a, ex b);
ex expr_sel(emodule *m, ex c, ex a, ex b);
ex expr_cast(emodule *m, etype to, ex a); /* a itself when the type is equal */
ex expr_reduce(emodule *m, rop op, const atom *vars, uint32_t n, ex where, ex body, ex payload, etype acc,
               etype result);
/* an i64 value as an sz: index nodes, + - * // % min max sel over them, anything else a data atom. Range of loads
 * known from where possible */
sz expr_as_size(emodule *m, ex e);
/* Is it a load of one of a constant's 256 elements of at most 32 bits, at a place that a u8 says? That u8; 0: no. */
ex expr_in_table(const emodule *m, ex load);
ex expr_from_size(emodule *m, sz e); /* inverse: an index node, or the data atom's value itself */
/* Gives the memory of all nodes back. Tensors, stages, blocks and kernels stay, but no value may be looked at any more
 * and none be made. */
void expr_drop_values(emodule *m);
static inline const ex_node *exn(const emodule *m, ex e) { return &m->nodes.v[e]; }
tid expr_tensor(emodule *m, tkind k, etype t, const sz *shape, uint32_t rank, const char *name, const char *origin);
tid expr_const_tensor(emodule *m, const ndarray *data, const char *name);
/* shape: type and dims; l and its g are copied, what it is made from must stay */
tid expr_const_linmap(emodule *m, const ndarray *shape, const linmap *l, const char *name);
/* the bytes of a constant; they are computed now, where they were not yet. Not by two threads at once */
const ndarray *expr_data(emodule *m, tid t);
/* appends to the block; the tensor becomes TK_STAGE */
uint32_t expr_stage(emodule *m, uint32_t block, tid t, const axis *axes, uint32_t naxes, ex value);
/* t is what a check looks at: no part of what the model computes */
bool expr_of_check(const emodule *m, tid t);
/* b is outer or nested in it */
bool block_inside(const emodule *m, uint32_t b, uint32_t outer);
/* assumes what the guards of a block and of those around it say, as far as it is checked before they begin (the
 * root's holds anyway); the mark to pop to */
uint32_t expr_enter(emodule *m, uint32_t block);
/* a fresh one-digit axis; *index is its value (0 when extent is 1) */
axis expr_axis1(emodule *m, const char *name, sz extent, sz *index);
/* the old and the new value of a state */
static inline tid expr_state_in(const emodule *m, uint32_t k) { return m->inputs.v[m->inputs.n - m->states.n + k].t; }
static inline tid expr_state_out(const emodule *m, uint32_t k) {
  return m->outputs.v[m->outputs.n - m->states.n + k].t;
}
static inline tensor *xt(const emodule *m, tid t) { return &m->tensors.v[t]; }
static inline stage *xs(const emodule *m, uint32_t s) { return &m->stages.v[s]; }
sz expr_axis_index(emodule *m, const axis *x); /* the axis' index as a polynomial of its digits */
/* A stage that copies a tensor, at the end of the block, and a kernel of it alone: once there are kernels. `what` goes
 * behind the tensor's name. */
uint32_t expr_copy_stage(emodule *m, uint32_t block, tid from, const char *what);
void expr_move_item(emodule *m, uint32_t block, uint32_t from, uint32_t to); /* to <= from */

/* ---- ranges of variables (range.c) ------------------------------------------------------------ */
void expr_set_range(emodule *m, atom var, xrange r);
const xrange *expr_range(const emodule *m, atom var); /* NULL: it has none */
enum { RANGE_PARTS = 4 };
/* takes a bound apart: the greatest of the parts is a lower bound, the least an upper one; returns how many there
 * are */
uint32_t expr_range_parts(ctx *c, sz bound, bool lower, sz out[RANGE_PARTS]);
ex expr_in_range(emodule *m, atom var); /* is the variable's value inside its range? 0: it has no range */

/* ---- constants that are made of others (linmap.c) -------------------------------------------- */
/* Rows and columns of a linmap, at every place of its outermost axes. */
typedef struct linmap_piece {
  int64_t row;     /* first row */
  int64_t row_end; /* end of the rows (not included) */
  int64_t col;     /* first column */
  int64_t col_end; /* end of the columns (not included) */
} linmap_piece;
int64_t linmap_places(const linmap *l);
int64_t linmap_rows(const linmap *l);
int64_t linmap_cols(const linmap *l);
/* but for what they are made from; NULL is equal to NULL only */
bool linmap_equal(const linmap *a, const linmap *b);
/* to: the piece's first element; steps in elements, of the places of each axis and of rows. Any order, any thread */
void linmap_write(const linmap *l, linmap_piece w, uint8_t *to, const int64_t *step, int64_t row_step);
/* what the piece is made of lies in here */
bytes linmap_reads(const linmap *l, linmap_piece w);

/* ---- constants that are kept in fewer bytes (narrow.c) ----------------------------------------- */
/* keeps the constant t in fewer bytes, if that is possible; the memory of its own bytes is given up, nobody else may
 * want it */
void expr_narrow(emodule *m, tid t);
int64_t expr_constant_floats(const emodule *m); /* bytes that all constants would have as f32, of whatever type */
void narrow_write(etype k, const uint8_t *from, size_t n, uint8_t *to); /* n elements of type k as f32 */

/* ---- walking (walk.c) ------------------------------------------------------------------------ */
/* parts of a product or a condition that is taken apart */
enum { MAX_OPERANDS = 64 };
/* free variables (atoms), also through data atoms; reductions bind theirs */
void expr_vars(emodule *m, ex e, arena *a, u32vec *free_vars);
/* appends what a chain of op joins, in its order: the factors of a product, the parts of a condition. MAX_OPERANDS at
 * most, the last ones whole: a DAG may unfold to far more */
void expr_operands(emodule *m, ex e, sop op, arena *a, u32vec *out);
/* calls `use` for each tensor that is named outside of values, once for each time: outputs, late sizes, checks,
 * conditions, results of branches, what loops begin with, carry and collect; with 0 where one of these names none */
void expr_each_use(const emodule *m, void (*use)(void *env, tid t), void *env);
/* distinct load nodes, also inside indices and `otherwise` */
void expr_loads(emodule *m, ex e, arena *a, u32vec *loads);
bool expr_by_data(const emodule *m, const ex_node *load); /* does data tell where it reads? */
bool expr_uses(emodule *m, ex e, atom var, arena *a);     /* does e depend on the free variable var? */
bool expr_reads(emodule *m, ex e, tid t, arena *a);       /* does e, which may be 0, load from tensor t? */
ex expr_times(emodule *m, ex a, ex b);                    /* a * b; 0 stands for 1 */
/* distinct load nodes of a stage: in its value, updates, conditions, indices */
void expr_stage_loads(emodule *m, uint32_t s, arena *a, u32vec *loads);
/* does any size in the values or extents of stage s contain a symbol? */
bool expr_stage_uses_symbols(emodule *m, uint32_t s, arena *a);
typedef struct ex_map {
  /* called bottom-up on each rebuilt node; returns it or a replacement; NULL: identity */
  ex (*node)(void *env, emodule *m, ex e);
  /* substitution of variables and symbols in indices and extents; 0 keeps; NULL: none */
  sz (*atom)(void *env, emodule *m, atom a);
  void *env; /* handed to both */
} ex_map;
/* rebuilds the DAG, memoised; data atoms are rewritten too; bound variables follow `atom` (v -> 4*a + b splits the
 * loop) */
ex expr_rewrite(emodule *m, ex e, const ex_map *f);
ex expr_subst_vars(emodule *m, ex e, const atom *vars, const sz *by, uint32_t n);
/* the same value with new bound variables: for a copy that goes to another stage */
ex expr_fresh(emodule *m, ex e);
void stage_rewrite(emodule *m, uint32_t s, const ex_map *f); /* value, update values, conditions, indices */
/* scalar operations of one evaluation, without reductions' trips */
uint64_t expr_cost(emodule *m, ex e);

/* ---- index analysis -------------------------------------------------------------------------- */
/* Values of the digits of a stage (flattened over its axes, outer to inner) when it is read at idx[naxes]. False if a
 * digit cannot be separated; then *split_var, *split_inner (may be NULL) say which variable to split (v = inner*v1 +
 * v0) to make it succeed, or *split_var is 0. `out` must hold expr_ndigits values. */
bool expr_comps(emodule *m, uint32_t producer, const sz *idx, sz *out, atom *split_var, sz *split_inner);
uint32_t expr_ndigits(const stage *s);
/* writes the stage's digits one after the other, axes outer to inner */
void expr_digits(const stage *s, digit *out);
/* e, a value over the digits of stage s, at the place idx[naxes]; 0: a digit cannot be separated */
ex expr_at(emodule *m, uint32_t s, const sz *idx, ex e);
/* The value of the stage that a load reads, at the place where it is read. 0: it reads no stage, or one with updates or
 * a recurrence; or the place may be out of range, or its digits cannot be separated. */
ex expr_written_in(emodule *m, ex load);

/* A number to decide with where a size is a symbol: its value when constant, else with every symbol at min(512, its
 * upper bound). At most 2^62. */
int64_t expr_typical(emodule *m, sz e);
/* ---- why something was not done: one line per refused step, for reports ---------------------- */
typedef struct expr_remark {
  const char *pass; /* pass that refused */
  uint32_t stage;   /* stage that it is about */
  uint32_t with;    /* the other stage (or kernel leader) + 1, or 0 */
  const char *why;  /* the reason */
} expr_remark;
/* the refused steps of the last expr_optimise of m; gives how many there are */
uint32_t expr_remarks(const emodule *m, const expr_remark **out);

/* ---- text (print.c, parse.c) ----------------------------------------------------------------- */
typedef struct print_opts {
  bool weights_inline; /* constants in full instead of by reference */
  const char *node;    /* only stages with this origin; NULL: all */
  bool kernels;        /* kernels are listed, too */
} print_opts;
void expr_print(emodule *m, sbuf *b, print_opts o);
void expr_print_value(emodule *m, ex e, sbuf *b);
void expr_print_scalar(etype t, scalar v, sbuf *out);
emodule *expr_parse(ctx *c, const char *text, const char *file); /* NULL and diagnostics on bad text */

/* ---- verifier (verify.c): records class 3 errors naming `when`; returns false if any. Types agree, variables are
 * bound where used and owned by one stage, ranks fit, order respects dependence, loads
 * without `otherwise` are provably in range or covered (level >= 1), kernels cover the stages. ---- */
bool expr_verify(emodule *m, const char *when);
/* whole.c. More, of a module that is to be compiled: all inputs are listed, all sizes have a value where they are
 * used */
bool expr_verify_whole(emodule *m, const char *when);
/* bounds.c: an integer value lies in lo..hi, whatever the indices and the data are; 0: no bound is known. block: where
 * it is computed, so that its checks hold */
void expr_bounds(emodule *m, ex e, uint32_t block, sz *lo, sz *hi);
/* separate, needs the prover: how many indices without `else` are not proved in range under the conditions around
 * them; one line each to out (may be NULL) */
uint32_t expr_verify_ranges(emodule *m, sbuf *out);
#endif
