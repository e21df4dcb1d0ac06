/* nest (private to schedule): the loops that compute a group of stages over one index space, as register tiles.
 *
 *   for outer variables                         (those that select the lane operand: batch)
 *     for lane tiles of nv*L                    lane_outer: a panel of the lane operand stays in cache while the
 *     rows pass
 *       [pack the panel of a run-time operand]
 *       for inner variables
 *         for row tiles of mr
 *           micro-kernel: mr x nv registers; reduction loops; followers (epilogue); stores
 * or, when nothing is gained by keeping a panel, the row tiles and their panels are innermost (long rows in strips, so
 * that lines are read whole while they are near). Edges get micro-kernels of their own with exactly the rows and
 * vectors that remain (the last vector masked, or scalar where the target has no masks).
 */
#ifndef EK_SCHEDULE_NEST_H
#define EK_SCHEDULE_NEST_H
#include "cost/cost.h"
#include "schedule/emit.h"
enum { SUM_GROUP = 4 }; /* neighbours that a sum of loads adds first (micro_kernel.c) */

/* A variable of a nest: its loop, and the range that the loop runs over. */
typedef struct nvar {
  /* the variable; 0: there is none */
  atom var;
  /* how many values it has; the loop runs over all of them where lo and hi are 0 */
  sz extent;
  /* first value of the loop, as a loop value; 0: the first of the extent */
  lv lo;
  /* end of the loop (not included), as a loop value; 0: the end of the extent */
  lv hi;
  /* lo and hi are multiples of it, in values, unless hi is the end of the extent; 0: no such number is known */
  int64_t unit;
  /* lo..hi is a block with a size of its own, the same whichever chunks a thread gets */
  bool one_block;
} nvar;
typedef VEC(nvar) nvars;
/* An operand of a group that lies packed in panels, and where the panel at work begins. */
typedef struct packload {
  /* the load that reads the operand, or the value that is computed */
  ex load;
  /* index into nest.stages: the stage whose reduction reads it */
  uint32_t stage;
  /* a constant, packed at compile time into `buffer`; else a run-time operand, packed into scratch at `ptr` */
  bool constant;
  /* index into plan.buffers of a constant's pack; 0 for a run-time operand */
  uint32_t buffer;
  /* elements of a run-time operand's scratch; 0 for a constant */
  sz elems;
  /* offset in the pack of the panel's elements at the current point, in elements, over the variables of the nest */
  sz off;
  /* pointer to the pack; 0: of a constant, before its nest begins */
  lv ptr;
  /* constant: offset of the panel after this one, in elements; 0 for a run-time operand */
  sz next;
  /* constant: number of the current point of the reduction, 0..depth-1 */
  sz step;
  /* constant: points of the reduction in a panel; 0 for a run-time operand */
  int64_t depth;
  /* elements at one point, interleaved panels included; in fixed point 32-bit words */
  int64_t nr;
  /* vectors of a panel in fixed point, interleaved panels included; 0: floats */
  uint32_t fixed_point;
  /* lanes of interleaved panels that come before this one's at a point; 0: it is the first */
  int64_t first;
  /* constant: offset of the panel's item, in elements; in fixed point the lanes' steps lie there */
  sz steps;
  /* points of the sum that lie side by side for each lane, for an instruction; 0: each point has its own lanes */
  uint32_t group;
  /* constant of few bits (bit_pack.c): how each is kept; bits 0: it lies in its own type */
  few_bits few;
  /* `load` is nest.shared, which is computed into the panel (panel_value.c) */
  bool computed;
  /* constant: computed panels read it, and tiles do not */
  bool source;
} packload;
/* How a nest is divided into blocks that stay in a cache (blocking.c). */
typedef struct cache_blocking {
  /* outermost variable of the sum, which is divided */
  atom var;
  /* values of var in one part of the sum */
  int64_t step;
  /* panels of a block; 0: the nest is not divided */
  int64_t panels;
  /* lanes of a block */
  int64_t lanes;
  /* rows of a block; 0: all (row-streaming) */
  int64_t rows;
  /* the operand that the rows read */
  ex row;
  /* variable bound to the first panel of the block, where panels are packed of a run-time operand, a part at a time;
   * 0: they are constants */
  atom first;
  /* variable bound to the part's first value of var, for panels of a run-time operand; 0: they are constants */
  atom at;
  /* scratch that holds what the tiles of a block have summed so far; 0: the sum is one part */
  lv ptr;
  /* a part is a few rows of the matrix operand, and a block all of their panels (row-streaming) */
  bool row_streaming;
  /* the fields below are set: a block is being emitted */
  bool on;
  /* first panel of the block at work */
  lv from;
  /* end of the block's panels (not included) */
  lv to;
  /* first value of var in the part at work */
  lv begins;
  /* bool: the part at work is the last one */
  lv last;
} cache_blocking;
typedef enum prefetch_kind {
  PREFETCH_PANEL,  /* the next panel of an operand that lies packed */
  PREFETCH_ROWS,   /* rows that a tile stores, that its epilogue reads, or that the sum of the next tile reads */
  PREFETCH_PLACES, /* places that the next value of the variable around the lanes reads */
  PREFETCH_BLOCK   /* the next rows of a block, and what their tile has summed so far */
} prefetch_kind;
/* Something that is fetched ahead while the tiles of a nest run (prefetch.c). */
typedef struct prefetch {
  prefetch_kind kind;
  /* the tensor; 0: of a block */
  tid t;
  /* of a panel: rows of a tile that may be the only one; of rows: sums of a tile. A tile of fewer does not fetch */
  int64_t least;
  /* it is worth while (while it is only known that it can be fetched) */
  bool pays;
} prefetch;
typedef VEC(prefetch) prefetches;
typedef struct nest {
  /* the leader, then its followers */
  u32vec stages;
  /* variables outside the loops over the tile */
  nvars outer;
  /* variables between the loop over panels and the loop over rows */
  nvars inner;
  /* the point of a chunk, bound outside the nest; var 0: none */
  nvar point;
  /* the variable on the rows; var 0: none */
  nvar row;
  /* the variable on the lanes; var 0: none */
  nvar lane;
  /* second variable on the rows: a tile has all values of row, for several values of row2; var 0: none */
  nvar row2;
  /* rows are the points of row and this variable, one after the other; var 0: they are not */
  nvar collapsed;
  /* all full panels pass over a tile of rows (from..to of `blocking`), instead of the rows over a panel */
  bool rows_outer;
  /* a tile has points of one value of row2, where these are enough for a tile: row2 decides which places the sum
   * omits */
  bool partitioned;
  /* rows of a tile that nobody reads (idle.c), as bits */
  uint64_t idle;
  /* the rows run over `unit` values from here on; 0: over their range */
  sz begins;
  /* rows of the tile */
  uint32_t mr;
  /* vectors of the tile along the lanes */
  uint32_t nv;
  /* lanes of a vector */
  uint32_t lanes;
  /* the lane variable is a variable of the reduction */
  bool lane_reduced;
  /* the loop over panels of lanes is outside the loop over rows */
  bool lane_outer;
  /* where lane_outer is not set: rows, whole tiles of them, over which all panels pass before the next rows; 0: all
   * rows */
  int64_t strip_mine;
  /* per stage: its reduction variables in loop order, without a reduced lane */
  u32vec *reds;
  /* per stage: its last reduction variable, if neighbouring rows read equal vectors at other values of it: its steps
   * are written out, so that they share these vectors; 0: they are not */
  atom *windows;
  /* the variable that numbers lane tiles (lane_outer); 0: none */
  atom panel;
  /* number of lane tiles (lane_outer) */
  sz npanels;
  /* operands that lie packed in panels */
  VEC(packload) packs;
  /* operands that a tile computes before its sum */
  VEC(prepared) rows;
  /* the factor of the leader's sum that is computed a panel at a time (panel_value.c); 0: none is */
  ex shared;
  /* sums whose innermost part an instruction of the target computes */
  VEC(tensorised) tensorised;
  /* per stage: is there an instruction that computes its sum, used or not? NULL: nobody has asked */
  bool *computable;
  /* blocks of panels and rows that stay in a cache; panels 0: the loops are not blocked */
  cache_blocking blocking;
  /* tensors of the group that go to memory */
  map *stored;
  /* tiles of so many sums at most have two accumulators for each, of every second point; 0: none have (finish.c) */
  uint32_t paired_sums;
  /* of each primitive that takes one of two words (record_either): it has the first one (finish.c) */
  bool first[P_COUNT];
  /* the innermost loop outside the tiles is written out (finish.c) */
  bool written_out;
  /* variables of sums whose loops leave out places outside of a tensor that a halo holds (finish.c) */
  u32vec bounds;
  /* there is a copy of the nest for sizes for which all of these are at least 0 (finish.c); none: there is no copy */
  u32vec versions;
  /* what is fetched ahead (finish.c) */
  prefetches prefetches;
} nest;
/* A register tile of a nest: where it stands, and how large it is. */
typedef struct register_tile {
  /* first value of the variable on the rows, of row2, or number of the first point of collapsed points; 0: no rows */
  lv row;
  /* first value of the variable on the lanes; 0: none, or a reduced one */
  lv lane;
  /* number of its panel, where a block of panels is at work (nest.blocking); 0: none is */
  lv panel;
  /* rows */
  uint32_t mr;
  /* vectors of a row */
  uint32_t nv;
  /* lanes of the last vector; 0: all */
  lv count;
  /* lanes of a vector */
  uint32_t lanes;
} register_tile;
/* lanes of a vector in which every stage of the group fits one register */
uint32_t nest_lanes(index_view *iv, const u32vec *stages);
static inline nvar *nest_rows(nest *n) {
  return n->collapsed.var ? &n->collapsed : &n->row;
} /* what chunks may be blocks of */
/* rows of a tile for each value of n->row2; 1: there is none */
uint32_t nest_row_fold(ctx *c, const nest *n);
/* no: values of one point, which stay in registers for the nests that follow */
bool nest_loops(const nest *n);
void nest_emit(ectx *e, nest *n);
/* micro_kernel.c: computes the tile, and stores what goes to memory */
void micro_kernel(ectx *e, nest *n, const register_tile *t);
/* condition.c */
/* opens an `if` when it returns true; bounds of variables go to e->ranges */
bool open_condition(ectx *e, const ex_node *red);
/* bounds that leave out places outside of a tensor, where these count nothing, go to e->ranges; the steps of
 * `unrolled` are written out */
void outside_bounds(ectx *e, const nest *n, const ex_node *red, atom unrolled);
/* the variables of a sum whose loops can leave out places outside of a tensor though these count nothing; of them those
 * that leave out enough of all places */
void outside_variables(index_view *iv, const ex_node *red, u32vec *all, u32vec *worth);
bool bounded(ectx *e, atom var, lv *lo, lv *hi); /* tightens lo..hi by the ranges in e->ranges */
/* The values that a variable takes while something runs. */
typedef struct var_span {
  /* the variable */
  atom var;
  /* its first value */
  lv first;
  /* its last value (included) */
  lv last;
} var_span;
typedef VEC(var_span) var_spans;
/* Where the variable's range (expr/range.c) lies for all of these, in whole `unit`s; false: it has none, or it is not
 * known there */
bool range_of(ectx *e, atom var, const var_spans *of, int64_t unit, lv *lo, lv *hi);
/* does the reduction have a variable with a range? */
bool has_ranges(const ectx *e, const ex_node *red);
/* ranges of the reduction's variables, added to e->ranges */
void range_bounds(ectx *e, const ex_node *red, const var_spans *of, int64_t unit, atom unrolled);
/* finish.c: has the sum of stage i two points at a time that can be added up apart? */
bool nest_adds_pairs(emodule *m, const nest *n, uint32_t i);
void nest_spans(ectx *e, const nest *n, var_spans *of); /* ranges of the variables of a nest */
void range_span(ectx *e, var_spans *of, const nvar *v); /* all values of a loop that is not open yet */
/* instruction.c */
/* the usable instruction of so many lanes whose formula the sum has, the fastest one; name: of that name only, NULL:
 * any; NULL: there is none */
const instruction *instruction_of_sum(const splan *p, const ex_node *red, uint32_t lanes, const char *name);
/* lane: a load along the lanes that is to be one of its operands, 0: any; NULL: the stage's sum goes term by term */
const tensorised *instruction_of(const nest *n, uint32_t stage, ex lane);
/* does this operand of the sum's instruction lie in words, as it takes them? */
bool instruction_reads_words(const nest *n, uint32_t stage, ex lane);
/* Adds the group of terms that the value bound to the variable begins. rest: number of terms of a group that is not
 * whole, at least 1 (i64); 0: it is whole */
void instruction_step(ectx *e, const tensorised *k, lv acc[], const register_tile *t, lv rest);
/* type of an operand's words, of so many lanes */
ltype instruction_word_type(const instruction *by, uint32_t operand, uint32_t lanes);
/* element x, scalar or vector, put into words of type w at its place in the group; word 0: the others are 0 */
lv instruction_put(ectx *e, lv word, ltype w, lv x, uint32_t place);
/* prefetch.c: adds all that can be fetched ahead in a nest, each tensor once of each kind */
void nest_prefetchable(index_view *iv, const nest *n, prefetches *out);
/* what the nest's list says of that; NULL: it is not fetched */
const prefetch *nest_prefetches(const nest *n, prefetch_kind kind, tid t);
/* from here to the end of e->ahead every step of the reduction (fetch_step) fetches a part of the next panels, every
 * strip of steps (fetch_streams) some lines of rows that come from far; row, mr, nv: of the tile */
void fetch_panels(ectx *e, const nest *n, uint32_t stage, lv row, uint32_t mr);
void fetch_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr, uint32_t nv);
void fetch_step(ectx *e);
/* how many values of the reduction's last variable lie in one line of each stream; 0: there is no stream */
int64_t prefetch_interval(ectx *e);
void fetch_streams(ectx *e); /* once for each of these strips */
/* fetches the places of the next value of the variable around the lanes */
void fetch_places(ectx *e, const nest *n, lv lane);
/* prepare.c */
/* computes what the sum of that stage reads in mr rows, and has it read there until e->rows is reset */
void prepare_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr);
/* panel_value.c */
/* The product of those factors of a sum that follow the lanes, if all rows share it and it may be computed into
 * panels; 0: it may not. *pays: it had better be, since there are enough rows, or a factor is more than a load. red: a
 * copy, for nodes move as factors are made */
ex panel_value(index_view *iv, const ex_node *red, atom lane, atom row, const u32vec *domain, bool *pays);
/* the product of the other factors */
ex panel_value_rest(index_view *iv, const ex_node *red, ex shared);
/* Is the load a factor of it? */
bool panel_value_reads(index_view *iv, ex shared, ex load);
/* computes the panel of these lanes into scratch */
void panel_value_emit(ectx *e, const nest *n, const packload *k, const register_tile *lanes);
/* blocking.c */
/* all parts of the sum for the panels from..to-1 */
void blocking_each(ectx *e, nest *n, lv from, lv to, void (*rows)(ectx *e, nest *n));
/* adds what the tile has so far to its accumulators; true: what follows, up to blocking_summed, is for the last part
 * only */
bool blocking_sum(ectx *e, const nest *n, const register_tile *tile, rop op, ltype t, const lv acc[]);
void blocking_summed(ectx *e);
/* what is to be fetched while a tile runs */
void blocking_streams(ectx *e, const nest *n, const register_tile *tile);
void nest_update(ectx *e, uint32_t stage, const map *stored); /* an update stage: init, then its updates */
/* one iteration of its update u, whose variables are bound */
void nest_update_step(ectx *e, uint32_t stage, uint32_t u);
/* idle.c: bit k*fold + r: in tiles that begin at multiples of `most`, nobody reads what the value r of the row
 * variable gives for the k-th value of row2 */
uint64_t idle_rows(index_view *iv, const nest *n, uint32_t most);
/* fixed_point.c */
/* may the constant be in fixed point, and is it better so? uses: of each of its elements */
bool fixed_point_pays(index_view *iv, ex load, const ex_node *red, int64_t uses);
/* uses of a constant that is used again for each of `extent` values: at least so many */
int64_t fixed_point_uses(splan *p, int64_t uses, sz extent);
enum {
  FIXED_POINT_LANES = 1024 /* most lanes of a panel in fixed point */,
  FIXED_POINT_VECTORS = 3 /* vectors of fixed-point values that lie together */
};
int64_t fixed_point_row(int64_t nr, int64_t lanes);          /* words of a panel of nr lanes at a point */
lv fixed_point_step(ectx *e, const packload *k, uint32_t v); /* the steps of vector v's lanes */
/* may constant b be in fixed point, if it was asked whether a may? As a may then; without looking at the values of b
 * where nobody asked for those of a */
bool fixed_point_alike(splan *p, tid a, tid b);
bool nest_goes_on(const emodule *m, const nest *n,
                  uint32_t i); /* the sum of stage i begins with that of the one before */
/* ---- bit_pack.c ---- */
/* element type of a pack of bytes */
etype bit_pack_carrier(few_bits few);
/* points of a lane that share a word; 8 bits: 1 */
uint32_t bit_pack_points(uint32_t bits);
/* How the constant that `load` reads is packed for the sum of a stage whose tile has nr lanes, each element used so
 * often; bits 0: in its own type. */
few_bits bit_pack_of(index_view *iv, const nest *n, uint32_t stage, ex load, int64_t nr, int64_t uses);
/* may the two be packed alike? */
bool bit_pack_alike(splan *p, tid a, tid b);
/* ---- sum_factors.c ---- */
/* The factors of a sum, by whether they hang on its innermost variable: the others wait for the end of its loop. */
typedef struct factored {
  /* the sum, of the inner factors only; of i32 where these are whole numbers */
  ex_node inner;
  /* product of the other factors; 0: there are none */
  ex outer;
  /* values of the innermost variable that a step of its loop takes */
  uint32_t points;
} factored;
/* of a sum, with respect to that variable; false: it is no sum of floats whose factors may be told apart */
bool sum_factors(index_view *iv, const ex_node *red, atom var, factored *out);
/* of the sum of a stage, with respect to its innermost variable */
bool nest_factors(index_view *iv, const nest *n, uint32_t stage, factored *out);
/* the sum of integers that the loop over var (0: over any variable) adds up; else red itself, which is a copy of the
 * node: all move as others are made */
const ex_node *sum_of_integers(index_view *iv, const ex_node *red, atom var, factored *room);
/* nest.c: the variables of the stage's sum by which an operand is packed: without the innermost one where that is one
 * value for all of its steps */
u32vec nest_pack_vars(index_view *iv, const nest *n, uint32_t stage, ex load);
/* which factor of a sum of products reads it; 0: none, or several */
ex factor_of(index_view *iv, const ex_node *red, ex load);
/* pack.c: packs the constant read by `load` into [outer vars..., panel, red..., nr]; false if the load is not of
 * that kind */
enum { MAX_INTERLEAVED = 8 };
/* Loads of one constant that are packed next to each other, since one factor reads them all at a point. */
typedef struct interleaved {
  /* how many there are, the first one included */
  int64_t n;
  /* distance from one to the next in the constant, in elements */
  int64_t step;
  /* the loads are the whole factor: it reads nothing else */
  bool all;
  /* the loads without the first one: n - 1 of them */
  ex loads[MAX_INTERLEAVED];
} interleaved;
/* The constant t packed so. What is made of others and does not become panels of whole places is made now. */
contents pack_contents(emodule *m, tid t, const packing *k);
bool pack_constant(index_view *iv, nest *n, ex load, uint32_t stage, const interleaved *lanes_of, packload *out);
#endif
