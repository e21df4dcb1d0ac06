/* Between the files of a kernel's schedule: its state, and what they share. */
#ifndef EK_SCHEDULE_KERNEL_IN_H
#define EK_SCHEDULE_KERNEL_IN_H
#include "schedule/kernel.h"
#include "fusion/fusion.h"
#include "schedule/candidates.h"
#include "schedule/layout.h"
#include "schedule/record.h"
#include "schedule/tile.h"

/* A variable that all groups of a kernel share, run over in blocks: the nests compute one block at a time. */
typedef struct shared_block {
  atom var; /* the variable */
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
  /* 1 + the stage that makes the tensor; 0: there is none */
  uint32_t stage;
  /* how the window moves over the tensor */
  sliding_window window;
  /* size of the axis that slides, in elements */
  int64_t places;
  /* the rows that are in memory */
  shared_block rows;
  /* layout of these rows in scratch */
  const layout *lay;
  /* pointer to these rows; 0: before they have memory */
  lv ptr;
} rolling;
/* A variable of a kernel in the text of a schedule: its name, which no other one has; (a b): a and b collapsed. */
typedef struct var_name {
  /* the variable */
  atom var;
  /* its text */
  const char *text;
} var_name;
typedef struct kctx {
  /* the function being emitted, at the current tile */
  ectx e;
  /* the class of the kernel */
  kernel_class cls;
  /* the plan that the launch goes to */
  splan *p;
  /* the module of the stages */
  emodule *m;
  /* the context */
  ctx *c;
  /* the arena of the plan */
  arena *a;
  /* the launch being made */
  launch l;
  /* tensors with memory (or scratch) of their own */
  map *stored;
  /* bytes of scratch per thread that are in use so far */
  sz scratch;
  /* pointer to the thread's scratch; 0: none was needed so far */
  lv scratch_ptr;
  /* index of the scratch among the launch's arguments, where scratch_ptr is set */
  uint32_t scratch_arg;
  /* variable -> the name by which the stages share it */
  const map *canon;
  /* variables that all stages share */
  u32vec outer;
  /* variables of `outer` that run inside the nests, a block at a time */
  shared_block shared_blocks[3];
  /* number of shared_blocks in use */
  uint32_t nshared_blocks;
  /* the tensor that is computed row by row just ahead of its reader */
  rolling rolling;
  /* the number of a point, where the kernel has several groups; var 0: points are not counted */
  nvar point;
  /* the work is worth a fork and join of threads */
  bool parallel;
  /* chunks are blocks of this variable, and tiles are narrow enough for several; 0: chunks are not blocks of lanes */
  atom block;
  /* lanes of such a block; 0: as many as kernel_narrow leaves the tiles */
  int64_t block_lanes;
  /* what a text states of the kernel's schedule; NULL: nothing */
  const kernel_record *stated;
  /* gets the schedule; NULL: nobody asks for it */
  kernel_record *made;
  /* gets the facts that candidates need; NULL: nobody asks for them */
  kernel_facts *facts;
  /* names of the variables, where there is one of the two */
  VEC(var_name) names;
} kctx;
/* stages computed in one nest: a leader and its epilogue */
typedef struct grp {
  /* the stages: a leader and its epilogue */
  u32vec stages;
  /* variables of the index space */
  u32vec domain;
  /* variables of the leader's reduction; none: it is no reduction */
  u32vec red;
} grp;
typedef VEC(grp) grps;
/* stages of a recurrence that run a step in one launch */
typedef struct recurrence_launch {
  /* index of the recurrence in the module */
  uint32_t recurrence;
  /* stages of a step, in order */
  u32vec stages;
  /* variable -> the name by which the stages share it */
  map *canon;
  /* the variable whose blocks are the chunks; 0: one chunk */
  atom shared;
  /* the symbol that stands for the number of the step */
  atom counter;
} recurrence_launch;
typedef VEC(recurrence_launch) recurrence_launches;

/* How a nest's work is divided into chunks for the threads. Nothing set: there is one chunk. Points together with rows
 * or lanes: chunk = point * blocks + block. Rows and lanes: chunk = block of lanes * blocks of rows + block of rows. */
typedef struct chunking {
  /* chunks are blocks of rows and lanes that stay in a cache (nest.blocking) */
  bool cache_blocks;
  /* the nest's first so many loop variables (kernel_loop_vars) are a chunk's point; 0: none */
  uint32_t points;
  /* rows of a block; 0: all */
  int64_t rows;
  /* lanes of a block; 0: all */
  int64_t lanes;
} chunking;
/* stated.c. group: the nest of these stages; NULL: the kernel */
const char *kernel_nest_name(const kctx *k, const u32vec *group);
/* what is stated; NULL: nothing, so that the default holds */
const directive *stated(kctx *k, const u32vec *group, primitive is);
/* the next one from index *at on, of a primitive that may be stated several times; NULL: there is none */
const directive *stated_next(kctx *k, const u32vec *group, primitive is, uint32_t *at);
void kernel_check_used(kctx *k); /* refuses what is stated and was not asked for: it does not apply */
/* of two words that a directive may have: is it the first? False, too, where nothing is stated */
bool stated_either(kctx *k, const u32vec *group, primitive is, const char *word, const char *other);
bool directive_is(const directive *d, uint32_t word, const char *text); /* d may be NULL */
/* an error at the directive: why it cannot be followed; unwinds */
_Noreturn void kernel_refuse(kctx *k, const directive *d, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* the number that a word is, from least to most; else refuses */
int64_t kernel_number(kctx *k, const directive *d, const char *word, int64_t least, int64_t most);
/* the variable among these that a word names; 0: none of them */
atom kernel_var_named(kctx *k, const char *word, const u32vec *among);
/* the same; where there is none it refuses */
atom kernel_var(kctx *k, const directive *d, const char *word, const u32vec *among);
const char *kernel_var_text(kctx *k, atom v);
const char *kernel_inside(kctx *k, const char *list); /* a list without its parentheses */
const char *kernel_size_text(kctx *k, sz size);
void kernel_name_vars(kctx *k, const u32vec *stages); /* names the variables of the formulas, in their order */
void kernel_name_joined(kctx *k, atom w, atom u, atom v);
/* u = uv[0] became quotient (0: it has one value) and w, of u's rest by n and uv[1] */
void kernel_name_split(kctx *k, const atom uv[2], int64_t n, atom quotient, atom w);
/* a new directive of the record; NULL: nobody asks for one, which the two below ignore */
directive *kernel_record_new(kctx *k, const u32vec *group, primitive is);
void kernel_record_word(kctx *k, directive *d, const char *word);
void kernel_record_number(kctx *k, directive *d, int64_t n);
void kernel_record_vars(kctx *k, const u32vec *group, primitive is, const u32vec *vars);
void kernel_record_nest(kctx *k, const nest *n); /* what is decided of a nest, but for the order of its loops */
/* facts.c: facts about the nest of a group, and about a shared variable that can be split, where somebody asks */
void kernel_note_nest(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red);
void kernel_note_shared(kctx *k, atom v);
nest_facts *kernel_nest_facts(const kctx *k, const u32vec *group); /* NULL: nobody asks for them */
/* loop_order.c: the loops of a group of its own, collapsed where addresses allow it; sum: it has a reduction */
void kernel_loop_order(kctx *k, const u32vec *group, u32vec *domain, bool sum);
/* the loops of one of several groups: in the order that is stated */
void kernel_permute(kctx *k, const u32vec *group, u32vec *domain);
/* choice.c: the tile of a group */
choice kernel_choice(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red);
/* what it would be over a domain that may lack variables of the group's nest */
choice kernel_choice_among(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red);
/* chunks.c. lane_load: the load whose address follows the lanes; 0: none */
chunking kernel_chunking(kctx *k, nest *n, const accesses *acc, ex lane_load);
/* the variables of the nest's loops outside the tile, outermost first */
nvars kernel_loop_vars(kctx *k, const nest *n);

/* kernel.c */
/* digits of a chunk number; an index space with an empty axis has no chunks, so that anything serves */
sz kernel_quot(ctx *c, sz a, sz b);
sz kernel_rem(ctx *c, sz a, sz b);
atom kernel_canon(kctx *k, atom v);
void kernel_domain(kctx *k, uint32_t si, u32vec *out);  /* the variables of a stage's axes */
void kernel_reduced(kctx *k, uint32_t si, u32vec *red); /* the variables of a stage's reduction */
int64_t kernel_extent(kctx *k, atom v, int64_t otherwise);
/* scratch of this worker */
lv kernel_scratch(kctx *k, etype t, sz elems);
/* the nest of a group over `domain` */
nest kernel_nest(kctx *k, const u32vec *group, const u32vec *domain, choice ch, const accesses *acc);
/* how many values of ch->row2 are worth a chunk */
int64_t kernel_row2_block(kctx *k, const choice *ch);
/* may the tiles of the nest have several of its values? */
bool kernel_may_fold_rows(const nest *n, const choice *ch);
/* gives the tiles of the nest several values of row2, if it stands alone inside the panels */
void kernel_fold_rows(kctx *k, nest *n, const choice *ch);
/* rows are points of two variables from here on, if they may be; then */
void kernel_collapse_rows(choice *ch);
/* collapses rows in the nest, ranges included */
void kernel_collapsed_rows(kctx *k, nest *n, const choice *ch);
/* operands packed for a nest */
void kernel_packs(kctx *k, nest *n, const accesses *acc, const choice *ch);
/* the words behind an operand's name in the text of a schedule: how it lies besides in panels; gives their number */
enum { PACK_FORMAT = 3 };
uint32_t kernel_pack_format(kctx *k, const packload *p, const char *words[PACK_FORMAT]);
/* instruction.c: finds the sums that instructions compute, as far as their operands will be packed (n->tensorised) */
void kernel_instructions(kctx *k, nest *n);
/* forgets those of which an operand was not packed */
void kernel_instructions_packed(kctx *k, nest *n);
/* prepare.c: what the directive says of what is computed before it is read, "panel" or "rows" */
bool buffer_has(kctx *k, const directive *d, const char *word);
/* prepare.c: operands that a tile computes before its sum */
void kernel_prepare(kctx *k, nest *n);
/* blocking.c: shall tiles come in blocks? whole: columns of a panel else */
bool kernel_blocking(kctx *k, nest *n, const accesses *acc, const choice *ch, int64_t whole);
/* blocking.c: shall they go line by line? */
bool kernel_row_streaming(kctx *k, nest *n, const accesses *acc, const choice *ch);
/* opens the loop over the blocks of rows */
void blocking_chunks(kctx *k, nest *n);
/* from here to the end of the kernel it is known that these variables have values: no range is empty */
void kernel_runs(kctx *k, const u32vec *vars);
/* decided.c: does a variable of so many values decide choices of stages' formulas alone? whole: operations of one value
 * with all arms; taken: of all values together, each with the arms that it takes */
bool decides_choices(index_view *iv, const u32vec *stages, atom var, int64_t extent, uint64_t *whole, uint64_t *taken);
/* finish.c: decides what is left to decide of a nest, and records it */
void kernel_finish(kctx *k, nest *n);
/* Where a quotient of a nest is 0. */
typedef struct condition {
  sz if_ge0;  /* where this is at least 0 */
  bool usual; /* it is so for large sizes */
} condition;
typedef VEC(condition) conditions;
enum { MAX_CONDITIONS = 4 }; /* of a version of a nest, unless they are stated */
void kernel_quotients(kctx *k, const u32vec *group, conditions *out); /* versions.c */
/* versions.c: the nest, in two versions where there are conditions */
void kernel_emit(kctx *k, nest *n);
void kernel_groups(kctx *k, const u32vec *stages, grps *out);
/* A product of sizes. */
typedef struct amount {
  double number; /* the product; a size that is not known counts as 64 */
  sz open;       /* product of the sizes not known; 0: there are none */
  double opened; /* what that product counts as in `number` */
} amount;
/* scalar operations, and elements read and written (those of a reduction not: they are reused); the points of the
 * stage that does most */
typedef struct work {
  double ops;    /* scalar operations */
  double moved;  /* elements read and written (those of a reduction not: they are reused) */
  amount points; /* points of the stage that does most */
} work;
work kernel_work(emodule *m, const u32vec *stages, atom step); /* step: of one value of it, 0: of all */
/* the first `take` variables become one; returns the number of its points (kernel_one.c) */
sz kernel_flatten(kctx *k, nvars *vars, uint32_t take);
/* kernel_one.c, kernel_multi.c, kernel_recurrence.c, kernel_point_recurrence.c, kernel_pairs.c, kernel_first.c: the
 * loops of a kernel of one group, of several, of a recurrence, of one whose points walk on their own, of a stage that
 * need not look at all pairs of places */
void kernel_one(kctx *k, const u32vec *group);
void kernel_multi(kctx *k, grps *gs);
void kernel_group_nest(kctx *k, grp *g);
/* emits all steps of a recurrence in one launch */
void kernel_recurrence(kctx *k, grps *gs, uint32_t recurrence);
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
