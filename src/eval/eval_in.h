/* Private to the evaluator. How a stage is evaluated:
 *
 *   eval.c        the module: tensors, sizes, blocks, stages in order
 *   eval_plan.c   a stage's values -> a plan: the same DAG with sizes taken apart into scalar arithmetic and
 *                 symbols replaced by their numbers
 *   eval_strip.c  the plan -> values, for 256 points of the stage at a time (a strip: one lane a point)
 *   eval_once.c   reductions that many points share, each computed once
 *   eval_ops.c    one scalar operation over the lanes of a strip
 *
 * Output variables differ from lane to lane; variables of reductions (and a recurrence's step) have one value for the
 * whole strip and run in loops around it. Every node remembers its last strip and when it was
 * computed; it is computed again only if a loop variable it depends on has changed since. A mask says which lanes
 * are alive: in a dead lane (the branch not taken, an excluded point) a node may hold anything and
 * must not fail.
 *
 * Lanes hold f32 and narrower floats as float (rounded to the node's type after every operation), f64 as double,
 * integers and bools as int64 (wrapped to the node's type).
 */
#ifndef EK_EVAL_IN_H
#define EK_EVAL_IN_H
#include "eval/eval.h"

enum { LANES = 256 };
typedef enum { LC_F32, LC_F64, LC_INT } lane_class;
typedef union strip {
  float f[LANES];   /* LC_F32 */
  double d[LANES];  /* LC_F64 */
  int64_t i[LANES]; /* LC_INT */
} strip;
static inline lane_class lanes_of(etype t) { return et_kind(t) != K_FLOAT ? LC_INT : t == ET_F64 ? LC_F64 : LC_F32; }

typedef struct mask {        /* NULL means all lanes */
  uint32_t count;            /* lanes alive */
  uint64_t bits[LANES / 64]; /* bit per lane: alive */
  uint8_t on[LANES];         /* the lanes of `bits`, a byte a lane */
} mask;

/* ---- the plan -------------------------------------------------------------------------------- */
typedef enum {
  PN_CONST = 1,
  PN_LANE,
  PN_LOOP,
  PN_POLY,
  PN_DIV,
  PN_MINMAX,
  PN_SELECT,
  PN_LOAD,
  PN_OP,
  PN_REDUCE
} plan_kind;
typedef struct term {
  int64_t coef;      /* factor */
  uint32_t n;        /* number of nodes multiplied */
  const uint32_t *f; /* nodes multiplied */
} term;
typedef struct pnode {
  uint8_t kind;   /* plan_kind */
  uint8_t op;     /* sop or rop */
  uint8_t acc;    /* REDUCE: etype of the accumulator */
  etype type;     /* element type of the value */
  bool lanes;     /* differs between lanes */
  bool total;     /* cannot fail: may be evaluated in dead lanes */
  uint32_t slot;  /* LANE, LOOP: index of the variable */
  scalar k;       /* CONST; POLY: constant term */
  uint32_t nargs; /* number of args; LOAD: rank; REDUCE: number of variables */
  /* OP, DIV, MINMAX, SELECT: nodes. REDUCE: extents. LOAD, per axis: a node differing between lanes or 0, and one
   * that does not or 0; the index is their sum */
  const uint32_t *args;
  const uint32_t *vars;      /* REDUCE: loop slots */
  uint32_t nterms;           /* POLY: number of terms */
  const term *terms;         /* POLY: the terms */
  tid tensor;                /* LOAD: what it reads */
  uint32_t flat;             /* LOAD: node of the lanes' part of the flat offset, or 0 */
  uint32_t otherwise;        /* LOAD: node of the value out of range; 0: none */
  uint32_t where;            /* REDUCE: node of the condition; 0: none */
  uint32_t body;             /* REDUCE: node of what is combined */
  uint32_t payload;          /* REDUCE: node of an arg-reduction's result; 0: its first variable */
  uint32_t ndeps;            /* number of deps */
  uint32_t nlane_deps;       /* number of lane_deps */
  const uint32_t *deps;      /* loop slots it depends on */
  const uint32_t *lane_deps; /* lane variables it depends on */
  uint32_t keys;             /* REDUCE: how many values it has, if they are remembered (eval_once.c), or 0 */
} pnode;

typedef struct plan {
  VEC(pnode) nodes;             /* [0] unused; operands before users */
  const char *stage;            /* name of the stage, for messages */
  const char *origin;           /* node of the model, for messages */
  VEC(const char *) lane_names; /* name of each lane variable */
  VEC(const char *) loop_names; /* name of each loop variable */
  VEC(int64_t) lane_extents;    /* number of values of each lane variable */
  VEC(int64_t) loop_extents;    /* 0: not known; 1 for a recurrence's step: with each all is computed anew */
} plan;

/* ---- tensors at run time --------------------------------------------------------------------- */
typedef struct rt {
  bool done;  /* its elements are there */
  bool busy;  /* being computed: a second request is a cycle */
  ndarray nd; /* type, sizes and elements */
  size_t cap; /* bytes owned at nd.data, 0 when borrowed */
} rt;
struct evaluation {
  emodule *m;       /* module that is evaluated */
  ctx *c;           /* context */
  arena *a;         /* memory of results */
  uint32_t threads; /* threads to use */
  rt **t;           /* elements of each tensor, by tid; NULL: not looked at yet */
  map *from;        /* tid of a result -> 2 * if, or 2 * loop + 1 */
  uint32_t noise;   /* seed of the noise on what operations round; 0: none */
  double noise_f32; /* how large it is, relative to a value in f32 */
  double noise_f64; /* and to one in f64 */
};
rt *rt_new(evaluation *v, tid t);
static inline rt *rt_of(evaluation *v, tid t) { return v->t[t] ? v->t[t] : rt_new(v, t); }
void need_tensor(evaluation *v, tid t);
bool symbol_value(evaluation *v, atom a, int64_t *x); /* demands late tensors; false if unbound */

/* ---- eval_plan.c ----------------------------------------------------------------------------- */
typedef struct planner {
  evaluation *v; /* the evaluation */
  arena *a;      /* memory of the plan */
  plan *p;       /* the plan that is made */
  map *values;   /* ex -> node */
  map *sizes;    /* sz -> node */
  map *atoms;    /* atom -> node */
} planner;
void plan_begin(planner *pl, evaluation *v, arena *a, plan *p, const char *stage, const char *origin);
uint32_t plan_lane(planner *pl, atom var, int64_t extent); /* declares variables; returns the slot */
uint32_t plan_loop(planner *pl, atom var, int64_t extent);
uint32_t plan_value(planner *pl, ex e);
uint32_t plan_size(planner *pl, sz s);

/* ---- eval_strip.c ---------------------------------------------------------------------------- */
typedef struct node_state {
  strip *v;                  /* its value in the last strip */
  uint64_t stamp;            /* when it was computed */
  uint64_t gen;              /* how often it was computed */
  uint64_t range_gen;        /* gen that lo and hi are of (for lane variables: the strip they are of) */
  bool full;                 /* good in all lanes, else in those of `good` */
  uint64_t good[LANES / 64]; /* bit per lane: its value is valid */
  uint32_t filled;           /* lanes that hold a value */
  int64_t lo, hi;            /* least and greatest value over the lanes */
  strip *acc;                /* REDUCE: accumulator */
  strip *aux;                /* REDUCE: position of an arg-reduction so far */
  scalar *values;            /* REDUCE with keys: the values computed so far; NULL: none yet */
  bool *known;               /* REDUCE with keys: which of values there are */
  uint64_t known_floor;      /* REDUCE with keys: worker.floor when they were computed */
} node_state;
typedef struct worker worker;
struct worker {
  evaluation *v;       /* the evaluation */
  const plan *p;       /* plan of the stage */
  arena *a;            /* memory of strips */
  node_state *st;      /* state of each node */
  strip *lane;         /* values of the lane variables */
  int64_t *loop;       /* values of the loop variables */
  uint64_t *loop_tick; /* per loop variable: when its value changed */
  uint64_t tick;       /* clock: counts changes and computations */
  uint64_t strip_tick; /* when the strip began */
  uint64_t floor;      /* nothing computed before it is valid */
  uint32_t n;          /* lanes in use */
  worker *other;       /* computes values that are remembered; NULL: there was none yet */
  uint32_t asked;      /* the node that it computes, whether or not it is remembered; 0: none */
};
void worker_init(worker *w, evaluation *v, const plan *p, arena *a);
void worker_forget(worker *w);            /* tensors it reads have changed */
void worker_strip(worker *w, uint32_t n); /* w->lane has been filled for n lanes */
void worker_loop(worker *w, uint32_t slot, int64_t x);
const strip *worker_value(worker *w, uint32_t node, const mask *mk, uint32_t need);
/* lanes that are in `in` and whose cond is not 0; NULL cond: all of `in` */
void worker_mask(worker *w, mask *out, const mask *in, const int64_t *cond);
_Noreturn void worker_fail(worker *w, uint32_t lane, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- eval_once.c ----------------------------------------------------------------------------- */
uint32_t plan_keys(const plan *p, const pnode *n); /* how many values a reduction has, for pnode.keys */
void reduce_once(worker *w, uint32_t id, strip *r, const mask *mk, uint32_t n);

/* ---- eval_ops.c ------------------------------------------------------------------------------ */
/* r may be one of the operands. at: type of the operands, t: of the result. */
void lanes_op(sop op, etype t, etype at, strip *r, const strip *a, const strip *b, const strip *c, uint32_t n);
void lanes_convert(etype to, etype from, strip *r, const strip *a, uint32_t n);
void lanes_round(etype t, strip *r, uint32_t n); /* rounds the result of an operation to values of type t */
void lanes_fill(etype t, strip *r, scalar k, uint32_t n);
scalar lanes_get(etype t, const strip *r, uint32_t i);
void lanes_put(etype t, strip *r, uint32_t i, scalar k);
/* r[i] = base[at[i] + add]; at NULL: consecutive */
void lanes_read(etype t, strip *r, const void *base, const int64_t *at, int64_t add, uint32_t n);
void lanes_write(etype t, void *base, int64_t at, const strip *r, uint32_t n); /* consecutive */
#endif
