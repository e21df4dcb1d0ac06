/* rewrite: what passes and kernel formation stand on: the state of one run, the index of who reads whom, fuel,
 * remarks, the simplifier, and the small questions that every pass asks.
 *
 * Invariants between passes: blocks list their live stages in dependence order; readers and loads are current for live
 * stages (pass_changed after every change); pinned tensors have a use that is no stage.
 */
#ifndef EK_REWRITE_H
#define EK_REWRITE_H
#include "expr/expr.h"
#include "target/target.h"

typedef struct pw pw; /* one run of the passes */

typedef struct cinfo {    /* what is known about a constant's bytes */
  bool known;             /* its bytes are known */
  bool uniform;           /* all elements have the value `value` */
  bool affine;            /* value = c0 + sum coef[d] * index d (integers only) */
  scalar value;           /* uniform: the value */
  int64_t c0;             /* affine: value of element [0, 0, ...] */
  int64_t coef[MAX_RANK]; /* affine: factor of each index */
} cinfo;

typedef struct pending {
  uint32_t before; /* stage that it is put in front of */
  uint32_t stage;  /* the new stage */
} pending;

struct pw {
  emodule *m;           /* module that is rewritten */
  ctx *c;               /* context */
  arena *a;             /* lives for one pass */
  arena *keep;          /* lives for one run: tables and maps below, but line_forms */
  uint64_t fuel;        /* rewrites allowed; 0: no limit */
  uint64_t spent;       /* rewrites done so far */
  const target *t;      /* machine that code is made for */
  uint64_t cache_bytes; /* what a worker may keep between the stages of a row kernel */
  uint32_t lanes;       /* f32 values of a vector register of the target */
  uint32_t fma;         /* vector registers that a core of the target multiplies and adds in a cycle */
  uint32_t registers;   /* vector registers of the target */
  bool convert;         /* constants of narrow floats are converted now */
  etype narrow;         /* factors of products may be kept in it: bf16 or f16; ET_NONE: as they are */
  bool pairs_faster;    /* the target multiplies pairs of that type faster than floats */
  bool strict;          /* sums of floats are not regrouped */
  /* most that the error of a window sum may grow, relative to a plain sum's (pass_winograd) */
  double most_growth;
  const uint8_t *deciding; /* per stage: an error in it may change a decision (pass_winograd) */
  /* windows' forms on a line: key in pass_winograd.c -> address of the form, 0: there is none */
  map *line_forms;
  u32vec *variant_sizes;    /* see expr_observer; NULL: nobody asks */
  bool assume_variant_rows; /* open sizes are taken for EXPR_VARIANT_ROWS at least */
  /* stages whose factors stay as they are: those of a transform, which would magnify an error, or are made on
   * purpose of fewer constants */
  map *exact;
  map *parts; /* stages that compute part of a sum */
  /* constants of few bits that panels are computed of (blocks): they stay apart */
  map *codes;
  uint64_t widen;      /* element types (bit 1 << etype) whose arithmetic is done in f32 */
  VEC(u32vec) readers; /* per tensor: live stages that read it, each once */
  VEC(u32vec) loads;   /* per stage: its distinct load nodes */
  VEC(uint8_t) pinned; /* per tensor: it has a use that is no stage */
  /* per stage, as long as it does not change: 0 not asked yet, 1 no placement, 2.. one, 4 is_solid_placement, 3 not */
  VEC(uint8_t) placed;
  VEC(cinfo *) consts;              /* per tensor: what is known of its bytes; NULL: not asked for yet */
  VEC(pending) pend;                /* stages to be put in front of others */
  map *lates;                       /* symbol -> tensor */
  uint32_t block;                   /* the block whose guards are assumed */
  uint32_t outside;                 /* sym_mark before these guards were assumed */
  bool facts;                       /* the block has guards */
  VEC(ex) memo;                     /* simplifier, per ex: its normal form in the environment memo_epoch */
  VEC(uint32_t) memo_epoch;         /* per ex: environment that memo is of; 0: none */
  uint32_t epoch;                   /* number of the current environment: facts and substitutions */
  uint32_t epochs;                  /* numbers given so far */
  VEC(uint32_t) simple;             /* per ex: epoch of constants in which it was found to be in normal form */
  uint32_t const_epoch;             /* changes when a constant gets another value */
  VEC(uint8_t) flags;               /* per ex, see exf_* */
  struct interval_table *intervals; /* what a pass found of values (passes/interval.c) */
  bool last_round;                  /* folding takes what it left to the views */
  map *canon_vars;                  /* (position, extent) -> atom, to compare stages */
  VEC(expr_remark) remarks;         /* steps that were refused */
};

/* ---- one run (pass.c) ------------------------------------------------------------------------ */
/* uses one unit of fuel; false: none is left, do not rewrite */
bool pass_spend(pw *p);
/* with: other stage + 1 or 0 */
void pass_remark(pw *p, const char *pass, uint32_t stage, uint32_t with, const char *why);
void pass_keep_remarks(pw *p); /* hands the remarks to the module at the end of a run (expr_remarks) */
/* builds readers, loads, pinned */
void pass_index(pw *p);
/* stage s has a new value or updates */
void pass_changed(pw *p, uint32_t s);
void pass_set(pw *p, uint32_t s, ex v); /* s gets the value v */
/* stage is dead; leaves its block at the next pass_order_flush */
void pass_kill(pw *p, uint32_t s);
/* a new stage with one axis per digit, standing before stage `before`, in its block */
uint32_t pass_stage(pw *p, uint32_t before, const digit *d, uint32_t n, ex value, const char *hint);
/* Does the expression read what a stage of that recurrence computes? */
bool pass_reads_recurrence(pw *p, ex e, uint32_t recurrence);
/* the same over copies of these variables, which occur in the value; *load reads it at the variables themselves. A
 * value that stays where it is, too, is to be fresh (expr_fresh). Where the value reads the recurrence of stage
 * `before`, the new stage belongs to it and has its step, which must be one of the variables, in common with it */
uint32_t pass_stage_over(pw *p, uint32_t before, const atom *vars, uint32_t n, ex value, const char *hint, ex *load);
/* the same over the variables of stage s, in front of it; the value may stay where it is. What reads it at these */
ex pass_stage_own(pw *p, uint32_t s, ex value, const char *hint);
/* puts pending stages into their blocks, removes dead ones */
void pass_flush(pw *p);
/* live stages, all blocks, in execution order (nested blocks at their item) */
void pass_order(pw *p, u32vec *out);
/* what is simplified from now on stands in this block; the root block again after the pass */
void pass_enter(pw *p, uint32_t block);

/* ---- questions ------------------------------------------------------------------------------- */
enum {
  EXF_KNOWN = 1,
  EXF_LOAD = 2,
  EXF_REDUCE = 4,
  EXF_DATA = 8,
  EXF_LAZY = 16,
  EXF_INDEX = 32,
  EXF_QUOTIENT = 64 /* a division, or an operation for which ex_rounds is true */
};
uint32_t ex_flags(pw *p, ex e); /* what occurs anywhere below (data: a data atom inside an index) */
/* an operation that tells neighbouring floats apart: a rounding, a remainder, a conversion to whole numbers */
bool ex_rounds(const ex_node *n);
static inline bool one_atom(ctx *c, sz e) {
  atom a;
  return sym_is_atom(c, e, &a);
}
static inline const u32vec *stage_loads(pw *p, uint32_t s) { return &p->loads.v[s]; }
bool stage_is_reduce(pw *p, uint32_t s); /* is the stage's value a reduction and nothing else? */
bool stage_plain(pw *p, uint32_t s);     /* has the stage compute form, without a reduction anywhere? */
void stage_vars(const emodule *m, uint32_t s, arena *a, u32vec *out); /* output digits' variables */
/* e over the digits of the stage that is loaded, at the place that is read; 0: its digits cannot be told apart */
ex stage_at_load(pw *p, const ex_node *load, ex e);
/* reads nothing, and is computed where it is wanted as fast as looked up; a place found by floats is not
 * (pass_fold.c) */
bool cheap_formula(pw *p, ex e);
bool stage_has_var(const emodule *m, uint32_t s, atom v);
sz stage_points(emodule *m, uint32_t s);
int64_t typical_points(emodule *m, const u32vec *vars); /* that these variables count, at typical sizes */
const cinfo *tensor_const(pw *p, tid t);                /* NULL if not a constant */
bool size_uses_only_ints(pw *p, sz e);
void expr_symbols(pw *p, ex e, u32vec *out);   /* symbols of sizes anywhere inside a value */
uint32_t producer_of(const emodule *m, tid t); /* live stage + 1, or 0 */
bool load_same(const emodule *m, ex a, ex b);
bool in_range(ctx *c, sz i, sz n); /* 0 <= i < n is proved */
bool loads_in_range(pw *p, ex e);  /* that of all places that e reads without `else`: it may be evaluated anywhere */
/* Replaces load nodes: map from load ex to ex, in value and updates; then simplifies. A load at whose place another
 * one reads (x[y[i]]) is looked up with what stands for that one. */
void stage_replace(pw *p, uint32_t s, map *by);
/* The value of a stage at the place idx[naxes], simplified. 0: a digit cannot be separated; split_var and split_inner
 * as in expr_comps. */
ex stage_value_at(pw *p, uint32_t s, const sz *idx, atom *split_var, sz *split_inner);
/* All accesses of a tensor that is about to lie otherwise. They are made first: `to` gives the load that stands for
 * one; if it gives 0, reload_make is false and nothing has changed. */
typedef struct reload {
  u32vec readers; /* stages that read the tensor */
  map **by;       /* per reader: load -> what stands for it */
} reload;
typedef ex (*reload_to)(pw *p, const ex_node *load, const void *env);
bool reload_make(pw *p, tid t, reload_to to, const void *env, reload *r);
void reload_put(pw *p, const reload *r);
atom stage_split(pw *p, uint32_t s, atom v, sz inner); /* v = inner*a + b, in axes, reductions, accesses; returns b */
bool can_split(pw *p, uint32_t s, atom v, sz inner);
/* A stage of one value becomes a placement of pieces (split.c). For each piece: split_begin gives what each digit's
 * variable is in it (from[i] -> to[i]), split_end takes the value. split_stage puts them in place; false: as it was. */
/* Places of a digit. */
typedef struct slice {
  sz first;     /* first place */
  int64_t step; /* distance of two places */
  sz extent;    /* number of places */
} slice;
typedef struct piece {
  update u;   /* the update that puts it in place */
  digit *d;   /* its digits */
  sz *read;   /* indices at which the update reads the piece's own stage */
  uint32_t n; /* number of digits */
} piece;
void split_begin(pw *p, uint32_t s, const slice *of, atom *from, sz *to, piece *out);
void split_end(pw *p, uint32_t s, piece *k, ex value, const char *hint);
bool split_stage(pw *p, uint32_t s, const piece *k, uint32_t n);
bool is_placement(pw *p, uint32_t s);       /* is the stage tiled, and every update a box without condition? */
bool is_solid_placement(pw *p, uint32_t s); /* and some piece of it has no gaps: reads may go to that piece */

/* ---- simplifier (simplify.c) ------------------------------------------------------------ */
ex simplify(pw *p, ex e); /* normal form under the current facts */
/* substitution of free variables, then normal form */
ex simplify_subst(pw *p, ex e, const atom *vars, const sz *by, uint32_t n);
/* value, updates; returns whether anything changed */
bool simplify_stage(pw *p, uint32_t s);
bool pass_simplify(pw *p); /* the pass `simplify`: every stage gets its normal form */
/* constant folding of one operation (scalar.c) */
scalar scalar_apply(sop op, etype t, etype at, const scalar *x, bool *ok);

#endif
