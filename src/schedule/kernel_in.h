/* Between the files of a kernel's schedule: its state, and what they share. */
#ifndef EK_SCHEDULE_KERNEL_IN_H
#define EK_SCHEDULE_KERNEL_IN_H
#include "schedule/kernel.h"
#include "fusion/fusion.h"
#include "schedule/layout.h"
#include "schedule/tile.h"

/* A variable that all groups of a kernel share, run over in blocks: the nests compute one block at a time. */
typedef struct shared_block {
  atom var;
  /* first value of the block at work; the scratch that groups hand over in begins with it */
  sz start;
  /* values of a block, and of that scratch */
  int64_t size;
  /* lo and hi are multiples of it; 0: not known (see nvar) */
  int64_t unit;
  /* first value of the nests at work; 0: all values of the variable */
  lv lo;
  /* end of the values of the nests at work (not included); 0: all values of the variable */
  lv hi;
} shared_block;
/* what a window reads of a tensor made in the same kernel, row by row just ahead of it (kernel_rolling.c) */
typedef struct rolling {
  uint32_t stage; /* that makes it + 1; 0: none */
  sliding_window window;
  int64_t places; /* of the axis that slides */
  shared_block rows;
  const layout *lay;
  lv ptr;
} rolling;
typedef struct kctx {
  ectx e;
  kernel_class cls;
  splan *p;
  emodule *m;
  ctx *c;
  arena *a;
  launch l;
  map *stored; /* tensors with memory (or scratch) of their own */
  sz scratch;  /* bytes taken so far */
  lv scratch_ptr;
  uint32_t scratch_arg;
  const map *canon;              /* variable -> the name by which the stages share it */
  u32vec outer;                  /* variables that all stages share */
  shared_block shared_blocks[3]; /* of them, those that run inside the nests, a part at a time */
  uint32_t nshared_blocks;
  rolling rolling;
  nvar point;          /* the number of a point, of several groups; var 0: it is not counted */
  bool parallel;       /* is its work worth a fork and join of threads? */
  atom block;          /* chunks are blocks of it: tiles are narrow enough for several; 0: none */
  int64_t block_lanes; /* of so many lanes; 0: as many as kernel_narrow leaves the tiles */
} kctx;
/* stages computed in one nest: a leader and its epilogue */
typedef struct grp {
  u32vec stages, domain, red;
} grp;
typedef VEC(grp) grps;
/* stages of a recurrence that run a step in one launch */
typedef struct recurrence_launch {
  uint32_t recurrence;
  u32vec stages;
  map *canon;
  atom shared;  /* its blocks are the chunks; 0: one chunk */
  atom counter; /* symbol: the step's number */
} recurrence_launch;
typedef VEC(recurrence_launch) recurrence_launches;

/* kernel.c */
/* digits of a chunk number; an index space with an empty axis has no chunks, so that anything serves */
sz kernel_quot(ctx *c, sz a, sz b);
sz kernel_rem(ctx *c, sz a, sz b);
atom kernel_canon(kctx *k, atom v);
void kernel_domain(kctx *k, uint32_t si, u32vec *out);  /* the variables of a stage's axes */
void kernel_reduced(kctx *k, uint32_t si, u32vec *red); /* those of its reduction */
int64_t kernel_extent(kctx *k, atom v, int64_t otherwise);
/* room of this worker */
lv kernel_scratch(kctx *k, etype t, sz elems);
/* of a group over `domain` */
nest kernel_nest(kctx *k, const u32vec *group, const u32vec *domain, choice ch, const accesses *acc);
/* so many values of ch->row2 are worth a chunk */
int64_t kernel_row2_block(kctx *k, const choice *ch);
/* may the tiles of the nest have several of its values? */
bool kernel_may_fold_rows(const nest *n, const choice *ch);
/* they have, if it stands alone inside the panels */
void kernel_fold_rows(kctx *k, nest *n, const choice *ch);
/* rows are points of two variables from here on, if they may be; then */
void kernel_collapse_rows(choice *ch);
/* in the nest, ranges included */
void kernel_collapsed_rows(kctx *k, nest *n, const choice *ch);
/* operands packed for a nest */
void kernel_packs(kctx *k, nest *n, const accesses *acc, const choice *ch);
/* prepare.c: operands that a tile computes before its sum */
void kernel_prepare(kctx *k, nest *n);
/* blocking.c: shall tiles come in blocks? */
bool kernel_blocking(kctx *k, nest *n, const accesses *acc, const choice *ch);
/* blocking.c: shall they go line by line? */
bool kernel_row_streaming(kctx *k, nest *n, const accesses *acc, const choice *ch);
/* opens the loop over them */
void blocking_chunks(kctx *k, nest *n);
/* from here to the end of the kernel it is known that it has points: no range of these is empty */
void kernel_runs(kctx *k, const u32vec *vars);
/* versions.c: the nest, in two versions where that pays */
void kernel_emit(kctx *k, nest *n);
void kernel_groups(kctx *k, const u32vec *stages, grps *out);
typedef struct amount {
  double number;
  sz open;
  double opened;
} amount; /* sizes not known count as 64; their product, 0: there are none; and what that counts as */
/* scalar operations, and elements read and written (those of a reduction not: they are reused); the points of the
 * stage that does most */
typedef struct work {
  double ops, moved;
  amount points;
} work;
work kernel_work(emodule *m, const u32vec *stages, atom step); /* step: of one value of it, 0: of all */
/* the first `take` variables become one; returns the number of its points (kernel_one.c) */
sz kernel_flatten(kctx *k, nvars *vars, uint32_t take);
/* kernel_one.c, kernel_multi.c, kernel_recurrence.c, kernel_point_recurrence.c, kernel_pairs.c, kernel_first.c: the
 * loops of a kernel
 * of one group, of several, of a recurrence, of one whose points walk on their own, of a stage that need not look at
 * all
 * pairs of places */
void kernel_one(kctx *k, const u32vec *group);
void kernel_multi(kctx *k, grps *gs);
void kernel_group_nest(kctx *k, grp *g);
void kernel_recurrence(kctx *k, grps *gs, uint32_t recurrence); /* all steps in one launch */
/* false: better all steps in one launch */
bool kernel_recurrence_launches(splan *p, const u32vec *stages, uint32_t recurrence, recurrence_launches *out);
/* the tile of a nest whose lanes are k->block */
void kernel_narrow(const kctx *k, choice *ch);
void kernel_recurrence_step(kctx *k, grps *gs, const recurrence_launch *part);
bool kernel_point_recurrence(kctx *k, uint32_t stage); /* false: it is no such recurrence, and nothing was emitted */
void kernel_prefix_scan(kctx *k, uint32_t stage);
/* a ranking, and what is written at its places */
void kernel_ranking(kctx *k, const u32vec *stages);
/* opens the loop over the chunks: points of the variables that are none of own[0..n-1] */
void pairs_points(kctx *k, uint32_t stage, const atom *own, uint32_t n);
void pairs_points_end(kctx *k);
/* what the stages behind a ranking hold where nothing is written */
void pairs_values(kctx *k, const u32vec *stages);
/* what the stages behind a ranking write for the place that has this rank */
void pairs_put(kctx *k, const u32vec *stages, lv place, lv rank);
/* kernel_first.c: only the first few are asked for; false: better rank all, and nothing was emitted */
bool kernel_first(kctx *k, const u32vec *stages);
#endif
