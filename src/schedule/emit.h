/* emit (private to schedule): turns expr values into loop values inside a tile.
 *
 * A tile is a set of copies (r, v) of the same formula: r counts unrolled rows, v vectors along the lane
 * variable. Every variable of the formula is bound in one of three ways:
 *   value     variable = base (a scalar loop value) + constant offset; the row variable gets a different offset
 *             per r, the lane variable per v (and its lanes count up by one)
 *   subst     variable = an sz over other variables (merged and flattened loops, canonical names)
 *   fixed     variable = constant
 * Values that do not depend on r (or v) are emitted once for all copies: that is where register reuse of a
 * contraction comes from.
 */
#ifndef EK_SCHEDULE_EMIT_H
#define EK_SCHEDULE_EMIT_H
#include "schedule/schedule.h"

/* A value of the current copy of a formula. */
typedef struct evalue {
  /* the loop value */
  lv v;
  /* a vector of ectx.lanes lanes (also where lanes is 1: it depends on the lane variable); else a scalar */
  bool vec;
} evalue;

/* What a variable of a formula is while a tile is emitted: see the three ways above. */
typedef struct binding {
  atom var;
  /* value of the variable at copy (0, 0); 0: it is the constant 0 */
  lv base;
  /* added to base for each row of the tile */
  int64_t row_step;
  /* added to base for each vector of the tile */
  int64_t vec_step;
  /* row_step counts the row's number modulo this; 0: the number itself */
  uint32_t row_mod;
  /* row_step counts the row's number divided by this, where row_mod is 0; 0: the number itself */
  uint32_t row_div;
  /* the value for each row of the tile, instead of base and row_step; NULL: these hold */
  const lv *rows;
  /* it is the lane variable: lane l has l added */
  bool lane;
  /* it is this size over other variables; 0: it is no substitution */
  sz subst;
  /* index + 1 of the binding of the same variable that this one hides; 0: none */
  uint32_t hides;
  /* ectx.resolving before this binding */
  uint32_t resolving;
} binding;

/* Where a tensor lives while its kernel runs, instead of its global layout: in registers or in scratch. */
typedef struct local {
  tid t;
  /* values in registers, regs[r * TILE_V + v], read only at the point that is being computed; NULL: it is in scratch */
  lv *regs;
  /* the values in registers are vectors */
  bool regs_vec;
  /* regs[0] is the value of all copies */
  bool single;
  /* pointer to the tensor's scratch; 0: it is in registers */
  lv ptr;
  /* its layout in scratch; NULL: it is in registers */
  const layout *lay;
} local;
/* A load whose constant (or packed) operand has a storage of its own: address = off (scalar) + lane. */
typedef struct packed {
  ex load;
  lv ptr;
  sz off;               /* over the tile's variables; the lane variable must not occur */
  sz lane_base;         /* where the pack begins on the lane variable; 0: at the tile itself */
  uint32_t fixed_point; /* vectors of a panel in fixed point, with what lies beside it; 0: it is not */
  int64_t first;        /* lanes beside it that come before its own */
} packed;

/* The places lo..hi-1 of a reduction's variable, where its condition holds for no others. Where these are >= 0 (0:
 * none) is then known in its loop. */
typedef struct var_range {
  atom var;
  lv lo, hi;
  sz facts[2];
} var_range;

/* A row operand that lies computed in scratch [row of the tile][point of the reduction]: the value, and which point. */
typedef struct prepared {
  ex value;
  uint32_t stage; /* index into the group */
  lv ptr;
  int64_t depth;
  sz at;
} prepared;

/* A sum of products f32(x) * f32(w) of bf16, w a packed constant: the two loads, the stage (index into the group),
 * the variable of which two neighbours are taken at once. */
typedef struct dotted {
  ex row, lane;
  uint32_t stage;
  atom var;
} dotted;

/* What is fetched while a reduction runs, once for `line` values of its last variable, as many as lie in a cache
 * line: from at + step on, `lines` neighbouring lines at each of n places. */
typedef struct stream {
  lv ptr, at;
  sz step;
  int64_t line, lines, n, spacing;
} stream;

/* A sum of very many terms, which goes in blocks (long_sum.c). */
typedef struct long_sum {
  atom var;                /* in blocks of this one; 0: the sum is not long, and nothing below is set */
  int64_t block;           /* of so many values */
  bool repeats;            /* it has turns, so that terms are counted over several */
  bool inside;             /* while a block is emitted */
  lv *acc, *sums;          /* registers of the block, and of the blocks before; 0 in both: none */
  uint32_t n;              /* of these */
  lv terms, end;           /* values of var in acc (repeats); where its loop ends */
  atom part;               /* ectx.sum_block around the block */
  struct long_sum *before; /* ectx.long_sum around the sum */
} long_sum;

typedef struct memo_scope {
  map *m;
  struct memo_scope *up;
} memo_scope;
typedef struct ectx {
  splan *p;
  emodule *m;
  ctx *c;
  arena *a;
  lfunc *f;
  lbuild b;
  uint32_t lanes;
  lv count;          /* active lanes of a tail, or 0 */
  uint32_t unit;     /* the lane variable's first value in each tile is a multiple of it; 0: not known */
  bool lane_reduced; /* the lane variable is a reduction's: inactive lanes contribute the identity */
  uint32_t r, v;     /* the copy being emitted */
  uint32_t mr;       /* rows of the tile */
  uint32_t row_fold; /* they count two variables: so many values of the row variable for each of `row2`; 0: no */
  atom row, lane, row2;
  VEC(binding) binds;
  map *bind_of;       /* variable -> its last binding + 1, or 0 */
  uint32_t substs;    /* bindings that substitute */
  uint32_t resolving; /* names which these are, see splan.resolved */
  VEC(local) locals;
  VEC(packed) packs;
  VEC(var_range) ranges;
  /* constants to fetch while a reduction runs: `by` elements a step, from at + by * step; those of a cache line */
  struct {
    lv ptr, at;
    sz step;
    int64_t by, line;
  } ahead;
  VEC(stream) streams;
  const prepared *rows; /* NULL: none */
  atom window;          /* of the reduction: its steps are written out (nest.windows); 0: none */
  map *shared;          /* the vectors that these steps have loaded: (pointer, index, count) -> value; NULL */
  const dotted *dot;    /* NULL: the sum goes point by point */
  long_sum *long_sum;   /* the sum that is being emitted, if it is long; or NULL */
  lv *second;           /* sums of every second point, as the tile's others; NULL: there are none */
  /* of the reduction: a part of its values is being added, whole groups of a sum of loads (nest.c); 0: none */
  atom sum_block;
  bool assumed; /* sizes are simplified anew, under facts that hold in this branch only */
  /* bool: this step of a recurrence goes through its constants from behind; 0: in no recurrence */
  lv back;
  memo_scope *memo;
  launch *l;      /* arguments are added to it as they are needed */
  map *arg_of;    /* buffer -> param value, size symbol -> param value */
  uint32_t epoch; /* what splan.depends says of this epoch holds with the bindings as they are */
} ectx;

/* What an extent is, if it is known: at most 2^40, so that what is computed of it does not overflow. */
static inline int64_t emit_extent(ctx *c, sz extent, int64_t otherwise) {
  return min64(sym_int_or(c, extent, otherwise), INT64_C(1) << 40);
}
enum { TILE_V = 64 }; /* registers of a tile: regs[r * TILE_V + v] */
scalar schedule_identity(rop op, etype t);
sop schedule_combine(rop op);
bool schedule_is_arg(rop op);
/* acc combined with the body at the current copy; acc 0: the body */
lv schedule_step(ectx *e, const ex_node *n, lv acc, bool vec, uint32_t lanes);
/* long_sum.c: does the sum over vars, the last one in steps of `last_step`, go in blocks? Its registers are acc (0:
 * none). Between long_sum_begin and long_sum_end the loop over each variable asks long_sum_block: where that is true
 * the loop is to run from lo to hi, as bounded() says, too, and is followed by long_sum_close. */
bool long_sum_begin(ectx *e, long_sum *s, const ex_node *red, const u32vec *vars, int64_t last_step, lv *acc,
                    uint32_t n);
bool long_sum_block(ectx *e, atom var, lv *lo, lv *hi);
void long_sum_close(ectx *e, lv lo, lv hi);
void long_sum_end(ectx *e, long_sum *s);
/* a float sum whose step is a load and an addition */
bool schedule_adds_loads(ectx *e, const ex_node *n);
void schedule_arg_start(ectx *e, const ex_node *n, bool lane_reduced, uint32_t lanes, lv *best, lv *pay, lv *found);
void schedule_arg_step(ectx *e, const ex_node *n, lv best, lv pay, lv found, bool vec, uint32_t lanes);
void emit_begin(ectx *e, splan *p, lfunc *f, launch *l, arena *a); /* a: for what is needed while f is made */
lv emit_buffer(ectx *e, uint32_t buffer, bool write);              /* pointer to its element 0 */
lv emit_symbol(ectx *e, sz size);                                  /* a size of the module as an i64 argument */
/* the bindings of row and lane, or the locals, have changed */
void emit_epoch(ectx *e);
void emit_scope(ectx *e);
void emit_unscope(ectx *e); /* around every nested loop body */
void emit_bind(ectx *e, atom var, lv base);
void emit_bind_ex(ectx *e, binding b);
void emit_unbind(ectx *e, uint32_t n); /* back to n bindings */
sz emit_resolve(ectx *e, sz x);        /* applies the substitutions */
/* the same value with the substitutions applied: equal values of different stages become equal nodes */
ex emit_canonical(ectx *e, ex x);
lv emit_size(ectx *e, sz x); /* scalar i64; x must not depend on the lane variable */
evalue emit_value(ectx *e, ex x);
/* the same for all rows and lanes of the tile */
bool emit_scalar(ectx *e, ex x);
lv emit_vec(ectx *e, evalue x, etype t);                    /* broadcast to `lanes` */
sz emit_address(ectx *e, const layout *lay, const sz *idx); /* linear offset within the buffer */
const layout *emit_layout(ectx *e, tid t);                  /* local or global */
/* the load needs no guard; its resolved indices */
bool emit_plain(ectx *e, ex load, sz *idx);
/* pointer to where a tensor that is read lies */
lv emit_source(ectx *e, tid t);
/* fixed_point.c: this copy's vector, in its lanes' steps */
lv fixed_point_load(ectx *e, const packed *k);
/* index of this copy's first lane, where the tile's begin at off */
lv emit_packed(ectx *e, const packed *k, sz off);
/* op: OP_NONE stores; else read-modify-write */
void emit_store(ectx *e, tid t, const sz *idx, evalue v, sop op);
/* coefficient of the lane variable; 0 when not linear */
sz emit_lane_coef(ectx *e, sz address, sz *rest);
bool emit_varies(ectx *e, sz x); /* from lane to lane */
/* where its tensor lies, if the halo there holds what is read outside; NULL */
const layout *emit_halo(ectx *e, ex load);
bool emit_in_range(ectx *e, const layout *lay, uint32_t axis, sz idx, sz size); /* proved, halo included */
/* lanes.c: a load of lanes that lie near each other, though not side by side; 0: not so, and nothing was emitted. */
enum { MAX_LANE_STEP = 4 };                                      /* the farthest from lane to lane */
bool lanes_strided(ectx *e, sz addr, atom lane, uint32_t lanes); /* would it be one, in whole tiles? */
/* of steps that stand one after the other: the address at the first one, how far this one and the last one are from
 * it */
typedef struct strided_steps {
  sz addr;
  int64_t by, last;
} strided_steps;
lv lanes_load_strided(ectx *e, etype t, lv ptr, strided_steps s); /* what the steps read together is loaded once */
/* Accesses whose lanes do not lie side by side, but the tile's rows do: all its rows at once. False: not so, and
 * nothing was emitted. */
enum { EXCHANGE_ROWS = 4 };                     /* as many are worth it */
bool lanes_exchange(ectx *e, etype t, sz addr); /* would it be one? */
bool lanes_load_rows(ectx *e, etype t, lv ptr, sz addr, lv *rows);
/* What a tile has computed, and where it goes: regs[r * TILE_V + v]; done[v]: bits of the rows that are stored. Of
 * this vector (e->v) those that can be in squares are, from lanes apart to places side by side. */
typedef struct result {
  tid t;
  lv ptr;
  sz addr;
  const sz *idx;
  const lv *regs;
  uint64_t *done;
} result;
void lanes_store_runs(ectx *e, result *all, uint32_t n);
lv emit_target(ectx *e, tid t); /* pointer to where a tensor that is written lies */
#endif
