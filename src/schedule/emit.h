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
#include "schedule/index_view.h"

/* A value of the current copy of a formula. */
typedef struct evalue {
  /* the loop value */
  lv v;
  /* a vector of ectx.lanes lanes (also where lanes is 1: it depends on the lane variable); else a scalar */
  bool vec;
} evalue;

/* How a constant of few bits is kept (bit_pack.c). */
typedef struct few_bits {
  /* 2 or 4: codes in words; 8: bytes of `type`; 0: the values take more */
  uint32_t bits;
  /* 2 or 4: the number that code 0 stands for */
  int64_t low;
  /* 8: type of what the bytes hold */
  etype type;
} few_bits;
/* An operand with a storage of its own, constant or packed: address = off (scalar) + lane. */
typedef struct packed {
  /* the load that reads the operand, or the value that was computed */
  ex load;
  /* pointer to the pack */
  lv ptr;
  /* offset of the point's elements, in elements, over the tile's variables without the lane variable */
  sz off;
  /* where the pack begins on the lane variable; 0: at the tile itself */
  sz lane_base;
  /* vectors of a panel in fixed point, interleaved panels included; 0: floats */
  uint32_t fixed_point;
  /* lanes of interleaved panels that come before this one's at a point; 0: it is the first */
  int64_t first;
  /* constant of few bits: how each element is kept; bits 0: it lies in its own type */
  few_bits few;
} packed;

/* The places lo..hi-1 of a reduction's variable, where its condition holds for no others. Where these are >= 0 (0:
 * none) is then known in its loop. */
typedef struct var_range {
  /* the reduction's variable */
  atom var;
  /* first place */
  lv lo;
  /* end of the places (not included) */
  lv hi;
  /* sizes that are >= 0 at these places; 0: none */
  sz facts[2];
} var_range;

/* A row operand that lies computed in scratch [row of the tile][point of the reduction]: the value, and which point. */
typedef struct prepared {
  /* the operand */
  ex value;
  /* index into the group's stages */
  uint32_t stage;
  /* pointer to the computed values */
  lv ptr;
  /* points of the reduction, which is the distance of two rows in elements */
  int64_t depth;
  /* number of the current point */
  sz at;
} prepared;

/* A sum whose innermost part an instruction of the target computes (instruction.c). */
typedef struct tensorised {
  /* the instruction */
  const instruction *by;
  /* index into the group's stages */
  uint32_t stage;
  /* it adds to what the innermost loop adds up (sum_factors.c), not to the sum itself */
  bool factored;
  /* the reduction's innermost variable, of which a group of values is taken at once */
  atom var;
  /* the load that each operand of the instruction is; 0: the accumulator */
  ex operand[INSTRUCTION_OPERANDS];
  /* the operand follows the lanes, and lies packed in groups; else it is equal for all lanes */
  bool lane[INSTRUCTION_OPERANDS];
  /* the words of neighbouring lanes lie side by side in its tensor: it need not be packed */
  bool words[INSTRUCTION_OPERANDS];
} tensorised;

/* A panel that is fetched while a reduction runs on the one before: step s of it fetches from at + by * s on. */
typedef struct panel_ahead {
  /* pointer to the operand */
  lv ptr;
  /* offset of the first element, in elements */
  lv at;
  /* number of the reduction's step; of a run-time operand where that step's elements lie */
  sz step;
  /* elements that a step fetches */
  int64_t by;
  /* elements of a cache line */
  int64_t line;
} panel_ahead;
/* What is fetched while a reduction runs, once for `line` values of its last variable, as many as lie in a cache
 * line: from at + step on, `lines` neighbouring lines at each of n places. */
typedef struct stream {
  /* pointer to the operand */
  lv ptr;
  /* offset of the current place, in elements */
  lv at;
  /* distance from there to what is fetched, in elements */
  sz step;
  /* elements in a cache line */
  int64_t line;
  /* neighbouring lines fetched at each place */
  int64_t lines;
  /* number of places */
  int64_t n;
  /* elements from one place to the next */
  int64_t spacing;
} stream;

/* A sum of very many terms, which goes in blocks (long_sum.c). */
typedef struct long_sum {
  /* the variable that runs in blocks; 0: the sum is not long, and nothing below is set */
  atom var;
  /* values of the variable in a block */
  int64_t block;
  /* an outer variable of the reduction repeats var's loop, so that terms are counted over several of them */
  bool repeats;
  /* a block is being emitted */
  bool inside;
  /* registers with the sums of the block; NULL: none */
  lv *acc;
  /* registers with the sums of the blocks before; NULL: none */
  lv *sums;
  /* number of registers in each of the two */
  uint32_t n;
  /* values of var that are in acc (where repeats is set) */
  lv terms;
  /* end of var's loop */
  lv end;
  /* ectx.sum_block around the block */
  atom part;
  /* ectx.long_sum around the sum */
  struct long_sum *before;
} long_sum;

typedef struct memo_scope {
  /* values emitted in this scope */
  map *m;
  /* the scope around it; NULL: it is the outermost */
  struct memo_scope *up;
} memo_scope;
typedef struct ectx {
  /* what the variables and tensors are at the current place */
  index_view view;
  /* the plan that the kernel belongs to; so are the module, the context and the arena those of the view */
  splan *p;
  /* the module of the stages */
  emodule *m;
  /* the context */
  ctx *c;
  /* the arena of the plan */
  arena *a;
  /* the loop function being emitted */
  lfunc *f;
  /* where in the function it continues */
  lbuild b;
  /* lanes of a vector */
  uint32_t lanes;
  /* active lanes of a tail; 0: all lanes are active */
  lv count;
  /* the lane variable's first value in each tile is a multiple of it; 0: not known */
  uint32_t unit;
  /* the lane variable is a reduction's: inactive lanes contribute the identity */
  bool lane_reduced;
  /* row of the copy being emitted */
  uint32_t r;
  /* vector of the copy being emitted */
  uint32_t v;
  /* rows of the tile */
  uint32_t mr;
  /* rows count two variables: number of values of `row` for each value of `row2`; 0: rows count `row` alone */
  uint32_t row_fold;
  /* the variable on the rows; 0: none */
  atom row;
  /* the variable on the lanes; 0: none */
  atom lane;
  /* the second variable on the rows; 0: none */
  atom row2;
  /* loads that read packed operands */
  VEC(packed) packs;
  /* reductions that run over a part of their range */
  VEC(var_range) ranges;
  /* panels to fetch while a reduction runs */
  VEC(panel_ahead) ahead;
  /* rows to fetch while a reduction runs */
  VEC(stream) streams;
  /* operands that were computed before the tile's sum; NULL: none */
  const prepared *rows;
  /* the reduction's variable whose steps are written out (nest.windows); 0: none */
  atom window;
  /* vectors that these steps have loaded: (pointer, index, count) -> value; NULL: no steps are written out */
  map *shared;
  /* the factors of the sum, where they are told apart; NULL: they are not */
  const struct factored *factored;
  /* words of few bits that points share: vector -> value; NULL: no point is at work */
  map *words;
  /* number of the current point, or group of points, in its word */
  uint32_t point;
  /* the instruction that adds a group of terms to the sum at a time; NULL: term by term */
  const tensorised *tensorised;
  /* the long sum that is being emitted; NULL: none */
  long_sum *long_sum;
  /* registers for the sums of every second point, numbered as the tile's; NULL: there are none */
  lv *second;
  /* the variable of a sum of loads of which whole groups are being added (micro_kernel.c); 0: none */
  atom sum_block;
  /* bool: the current step of a recurrence goes through its constants from behind; 0: in no recurrence */
  lv back;
  /* values emitted so far that may be used again */
  memo_scope *memo;
  /* arguments are added to this launch as they are needed */
  launch *l;
  /* buffer -> param value, size symbol -> param value */
  map *arg_of;
  /* what splan.depends says of this epoch holds with the current bindings */
  uint32_t epoch;
} ectx;

enum { TILE_V = BITSET_WORD }; /* registers of a tile: regs[r * TILE_V + v]; its rows are the bits of a word */
scalar schedule_identity(rop op, etype t);
sop schedule_combine(rop op);
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
bool schedule_adds_loads(const emodule *m, const ex_node *n);
void schedule_arg_start(ectx *e, const ex_node *n, bool lane_reduced, uint32_t lanes, lv *best, lv *pay, lv *found);
void schedule_arg_step(ectx *e, const ex_node *n, lv best, lv pay, lv found, bool vec, uint32_t lanes);
/* a: memory that is needed while f is made */
void emit_begin(ectx *e, splan *p, lfunc *f, launch *l, arena *a);
lv emit_buffer(ectx *e, uint32_t buffer, bool write); /* pointer to its element 0 */
lv emit_symbol(ectx *e, sz size);                     /* a size of the module as an i64 argument */
/* the bindings of row and lane, or the locals, have changed */
void emit_epoch(ectx *e);
void emit_scope(ectx *e);
void emit_unscope(ectx *e);                 /* ends what emit_scope began, around a nested loop body */
void emit_bind(ectx *e, atom var, lv base); /* the variable is that value of the code */
lv emit_size(ectx *e, sz x);                /* scalar i64; x must not depend on the lane variable */
evalue emit_value(ectx *e, ex x);
/* is it one value for all rows and lanes of the tile? */
bool emit_scalar(ectx *e, ex x);
lv emit_vec(ectx *e, evalue x, etype t); /* broadcast to `lanes` */
/* pointer to where a tensor that is read lies */
lv emit_source(ectx *e, tid t);
/* fixed_point.c: this copy's vector, in its lanes' steps */
lv fixed_point_load(ectx *e, const packed *k);
/* bit_pack.c: this copy's vector; the bytes of the current points of its lanes, as words */
lv bit_pack_load(ectx *e, const packed *k, etype t);
lv bit_pack_word(ectx *e, const packed *k);
/* index of this copy's first lane, where the tile's begin at off */
lv emit_packed(ectx *e, const packed *k, sz off);
/* op: OP_NONE stores; else read-modify-write */
void emit_store(ectx *e, tid t, const sz *idx, evalue v, sop op);
/* coefficient of the lane variable; 0 when not linear */
sz emit_lane_coef(ectx *e, sz address, sz *rest);
bool emit_varies(ectx *e, sz x); /* does the size differ from lane to lane? */
/* lanes.c: a load of lanes that lie near each other, though not side by side; 0: not so, and nothing was emitted. */
enum { MAX_LANES = 64 }; /* lanes of a vector whose places are looked at one by one */
/* would an access be a strided one, in whole tiles? */
bool lanes_strided(ctx *c, sz addr, atom lane, uint32_t lanes);
/* of steps that stand one after the other: the address at the first one, how far this one and the last one are from
 * it */
typedef struct strided_steps {
  /* offset at the first step, in elements */
  sz addr;
  /* elements from the first step to the current one */
  int64_t by;
  /* elements from the first step to the last one */
  int64_t last;
} strided_steps;
lv lanes_load_strided(ectx *e, etype t, lv ptr, strided_steps s); /* what the steps read together is loaded once */
/* Accesses whose lanes do not lie side by side, but the tile's rows do: all its rows at once. False: not so, and
 * nothing was emitted. */
enum { EXCHANGE_ROWS = 4 }; /* least number of rows of an exchange between lanes that is worth it */
enum { PAIR_ROWS = 2 };     /* rows of 16 bits that alternate along the lanes and are stored as words */
bool lanes_exchange(ectx *e, etype t, sz addr); /* would an access be an exchange between lanes? */
/* align: bytes that addresses are multiples of; 0: of an element */
bool lanes_load_rows(ectx *e, etype t, lv ptr, sz addr, uint32_t align, lv *rows);
/* What a tile has computed, and where it goes: regs[r * TILE_V + v]; done[v]: bits of the rows that are stored. Of
 * this vector (e->v) those that can be in squares are, from lanes apart to places side by side. */
typedef struct result {
  /* the tensor */
  tid t;
  /* pointer to its memory */
  lv ptr;
  /* offset of the tile, in elements */
  sz addr;
  /* indices of the tile, one per axis */
  const sz *idx;
  /* the computed values, regs[r * TILE_V + v] */
  const lv *regs;
  /* per vector v: the rows that are stored already, as bits */
  uint64_t *done;
} result;
void lanes_store_runs(ectx *e, result *all, uint32_t n);
lv emit_target(ectx *e, tid t); /* pointer to where a tensor that is written lies */
#endif
