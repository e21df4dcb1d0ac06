/* schedule: strategies that turn the kernels of an expr module into loop programs, and the layouts of the tensors
 * between them.
 *
 * LAYOUT. Where an element of a tensor lies is separate from its index: a layout gives each axis a list of digits
 * (extent, stride), outer to inner; element [i0, i1, ...] lies at
 *   base + sum over axes, over digits: digit value * stride        (in elements, within a buffer)
 * so that row-major, channels-last, padded, blocked and packed storage, and placement inside another tensor's
 * buffer (concat written in place), are one concept. A halo is extra room around an axis holding a
 * constant (`fill`): reads there replace guards.
 *
 * A BUFFER is a piece of memory: an input, an output, constants (weights, packed at compile time), or in the arena.
 */
#ifndef EK_SCHEDULE_H
#define EK_SCHEDULE_H
#include "cost/loop_cost.h"
#include "expr/expr.h"
#include "loop/loop.h"
#include "schedule/candidates.h"
#include "target/target.h"

typedef struct ldigit {
  sz extent; /* number of its values */
  sz stride; /* elements between two values */
} ldigit;
typedef struct laxis {
  uint32_t n;      /* number of digits */
  const ldigit *d; /* digits, outer to inner */
  sz lo, hi;       /* halo in elements before and after */
} laxis;
typedef struct layout {
  bool known;         /* it has been chosen */
  uint32_t buffer;    /* index into plan.buffers */
  sz base;            /* offset of element [0, 0, ...] in the buffer, in elements */
  uint32_t rank;      /* number of axes */
  laxis *axes;        /* digits and halo of each axis */
  const scalar *fill; /* what the halo holds; NULL: there is none */
  uint32_t pieces;    /* axis that `together` is about */
  int64_t together;   /* how many places of axis `pieces` are wanted together; 0: none are known to be */
} layout;

/* Weights in the order in which a kernel reads them, as a recipe: nothing is moved before somebody asks
 * (packing_write). The pack is [items][depth][nr]: an item is one panel of nr lanes at one choice of the selecting
 * variables, in it comes one point of the reduction after the other; lanes beyond the last are 0. In groups of g points
 * a lane's values of these stand side by side: [items][depth/g][nr][g]; the last group of each run of the innermost
 * variable is filled up with zeros, which `depth` counts. Steps are elements of the source. Two recipes are the same if
 * their bytes are. */
typedef struct packing {
  /* bytes of an element */
  int64_t size;
  /* offset of the first element in the source, in elements */
  int64_t base;
  /* elements of the source from one lane to the next */
  int64_t lane_step;
  /* lanes of all panels */
  int64_t lanes;
  /* lanes of a panel */
  int64_t nr;
  /* number of panels */
  int64_t panels;
  /* points of the reduction: the product of its counts; in groups the last one filled up to whole groups */
  int64_t depth;
  /* number of selecting variables */
  int64_t nsel;
  /* number of the reduction's variables */
  int64_t nred;
  /* so many points of a lane stand side by side; 0: they do not */
  int64_t group;
  /* number of panels of constants of one factor that lie side by side at a point, the last of the counts; 0: one */
  int64_t interleaved;
  /* lanes of a vector in fixed point (fixed_point.c); 0: the pack is not in fixed point */
  int64_t fixed_point;
  /* bits of an element, less than 8: points of a lane share a word (bit_pack.c); 0: elements are whole bytes */
  int64_t bits;
  /* `bits`: the number that code 0 stands for */
  int64_t low;
  /* number of values of each selecting variable, then of each of the reduction's, outer to inner */
  int64_t count[3 * MAX_RANK];
  /* elements of the source from one value to the next, in the order of count */
  int64_t step[3 * MAX_RANK];
} packing;
int64_t packing_items(const packing *k);
int64_t packing_bytes(const packing *k); /* bytes of the whole pack */
/* elements of a panel at a point, with all that lie beside it */
int64_t packing_row(const packing *k);
int64_t packing_item(const packing *k); /* bytes of an item */
/* of an item as packing_write has it for the same recipe without `fixed` */
void fixed_point_write(const packing *k, const float *item, uint8_t *to);
/* where in the source an item begins, and how far from there a point is, in elements */
int64_t packing_item_at(const packing *k, int64_t item);
int64_t packing_point_at(const packing *k, int64_t point);
/* Points from..to-1 of the items first..last-1, from and to multiples of a group, as floats if they are to be in fixed
 * point. Pieces may be written in any order and by several threads. */
typedef struct pack_piece {
  int64_t first; /* first item */
  int64_t last;  /* end of the items (not included) */
  int64_t from;  /* first point */
  int64_t to;    /* end of the points (not included) */
} pack_piece;
/* packing_write where elements have few bits; those of the source are bytes, numbers low.. */
void bit_pack_write(const packing *k, const void *source, pack_piece piece, uint8_t *to);
/* to: where the piece's first item begins */
void packing_write(const packing *k, const void *source, pack_piece piece, uint8_t *to);
/* the source's bytes that the piece is made of lie in here */
bytes packing_reads(const packing *k, const void *source, pack_piece piece);

/* What a buffer of weights holds: the source's bytes; or what is made of them; and that as it lies, or packed. What
 * is made and packed is packed in panels of whole places (pack_places). */
typedef struct contents {
  bytes source;            /* bytes that it is computed from */
  const linmap *transform; /* what is computed from the source; NULL: the source as it is */
  const packing *pack;     /* order of the elements; NULL: as they lie */
  etype narrow;            /* type of the source's elements, where they are kept in fewer bytes; 0: they are not */
} contents;
contents contents_of(const tensor *t); /* contents of a constant, unpacked */
/* items are panels of columns at each place of l, points are its rows */
bool pack_places(const packing *k, const linmap *l);

typedef enum { BUF_INPUT = 1, BUF_OUTPUT, BUF_WEIGHTS, BUF_ARENA } buf_kind;
typedef struct buffer {
  buf_kind kind;    /* where it lies */
  etype type;       /* element type */
  const char *name; /* for readers */
  sz elems;         /* number of elements */
  uint32_t index;   /* input or output number */
  tid tensor;       /* the tensor it is for (the outermost one when several live in it) */
  contents from;    /* weights: what they are computed from */
  uint32_t block;   /* arena: the block it lives in (loops keep buffers of outer blocks alive) */
  bool halo;        /* a tensor in it has a halo */
  scalar fill;      /* the halo must be filled before it is read: by its only writer, or before the first one */
  bool filled;      /* a kernel fills the halo */
} buffer;

/* One launch of a kernel function. Arguments: pointers to buffers, sizes as integers. */
typedef struct kargs {
  bool is_buffer;  /* a pointer to a buffer; else a size */
  uint32_t buffer; /* number of the buffer */
  bool write;      /* the kernel writes to it */
  int64_t moved;   /* the pointer is to this element */
  sz size;         /* value of a size */
} kargs;
typedef struct launch {
  lfunc *func;          /* the kernel's function, or that of an equal kernel (equal.c) */
  const char *name;     /* name of the kernel's own function, for readers */
  const char *note;     /* what it computes, one line, for readers */
  lfunc *code;          /* what is launched: func, or one that is equal but for where its pointers begin (program) */
  const int64_t *moved; /* per parameter: elements that its pointer is further on; NULL: none is */
  uint32_t kernel;      /* kernel of the emodule */
  VEC(kargs) args;      /* arguments, in the order of the parameters */
  sz chunks;            /* parallel chunks; serial when 1 */
  uint32_t block;       /* block that it runs in */
  /* item of the block that it is part of; several launches of one item run in the order of the list */
  uint32_t item;
  sz scratch;    /* bytes of scratch per worker */
  bool parallel; /* may be run by several threads */
  sz where;      /* it is run by several threads where this is at least 0; 0: everywhere */
  u32vec stages; /* what it computes; none: it fills a halo */
  /* the kernel's schedule, the same one for equal kernels; NULL: nobody asks for it, or it fills a halo */
  kernel_record *record;
  kernel_facts *facts; /* what candidates around that schedule are made of (candidates.h); NULL: there are none */
  /* symbol: runs for each of its values 0..steps-1, together with the launches after it that have the same one;
   * 0: once */
  atom step;
  sz steps; /* number of values of `step` */
} launch;

typedef struct reading {
  ex load; /* the load */
  ex sum;  /* the sum in which it stands, or 0 */
} reading;
typedef VEC(reading) readings;
/* What is decided of a state. */
typedef struct state_plan {
  bool in_place;         /* its old and its new value are one memory (state.c) */
  const uint32_t *order; /* its axes as they lie, outermost first (layout_state.c); NULL: row-major */
  uint32_t first;        /* buffer of weights with its first value, in that order; 0: zeros */
} state_plan;
/* What a run may take. */
typedef struct memory_bound {
  uint64_t bytes; /* 0: there is no bound */
  bool whole;     /* weights count, too; else the working memory, states and outputs */
  int threads;    /* of the run */
} memory_bound;
/* What the program computes more than once, so that it need not be kept. */
typedef struct recomputation {
  uint32_t launches; /* launches that run again */
  double cost;       /* estimated cycles of these, as a part of those of all others */
} recomputation;
typedef struct splan {
  emodule *m;          /* module that is scheduled */
  lmodule *l;          /* gets the functions */
  const target *t;     /* the machine */
  bool no_sharing;     /* buffers share no memory (to find a fault) */
  memory_bound bound;  /* launches are repeated until the program keeps within it, if it can */
  recomputation again; /* what is repeated */
  bool timed;          /* the program tells the runtime where each launch begins and ends */
  /* nobody will ask for the weights' contents, so that they need not be compared, nor looked at */
  bool unread;
  bool strict;         /* constants keep all their bits */
  bool no_reuse;       /* every kernel is scheduled, equal ones too */
  bool record;         /* launches get the record of their kernel */
  bool reproducible;   /* no order of a sum follows from where a thread's part begins */
  map *hashes;         /* kernel_hash -> how many kernels had it so far; NULL: nobody asks */
  schedules *stated;   /* schedules that are given; NULL: none */
  int level;           /* optimisation level; 0: no vectors, no tiles: plain loops in index order */
  VEC(buffer) buffers; /* [0] unused */
  layout *layouts;     /* per tensor */
  /* per tensor: how it is stored, where that is chosen; NULL: nobody asks */
  tensor_record **storages;
  state_plan *states; /* one for each of the module's; NULL: there are none */
  /* per tensor: when its kernel begins, what its stage has before its updates lies there already; NULL: of none */
  bool *begun;
  readings *readers;    /* per tensor: the loads that read it */
  bool *named;          /* per tensor: outputs, late sizes, branches or loops name it, besides those loads */
  VEC(launch) launches; /* by block, and in a block in the order of execution */
  VEC(struct known_loads {
    u32vec all;        /* the loads */
    const bool *place; /* of each: the value does not come from it, it only says a place; NULL: not asked for yet */
  }) loads;            /* per stage: its loads, once they were asked for (tile.c) */
  u32vec depends;      /* per ex: epoch << 2 | what it depends on then (emit.c) */
  uint32_t epochs;     /* epochs so far */
  /* what sizes, and values, became by substitutions, and under what is assumed: the last ones (emit.c) */
  struct resolved {
    uint32_t from;  /* size or value before */
    uint32_t to;    /* what it became; 0: the slot is empty */
    uint32_t state; /* what was assumed then (sym_state) */
    uint32_t by;    /* number of the set of substitutions */
  } *resolved[2];
  uint32_t resolvings; /* sets of substitutions so far */
  /* a symbol: how many there are in a run, where a number of chunks hangs on it; 0: nothing does */
  sz threads;
  map *few;                    /* constant -> the bits that its values take (bit_pack.c) */
  map *even;                   /* constant -> can it be in fixed point? (fixed_point.c) */
  struct equal_kernels *equal; /* kernels that were scheduled (equal.c); NULL: none are kept */
} splan;

/* See splan. */
typedef struct schedule_opts {
  int level;         /* optimisation level, 0..3 */
  bool strict;       /* constants keep all their bits */
  bool unread;       /* nobody will ask for the weights' contents */
  bool no_reuse;     /* every kernel is scheduled, equal ones too: the program is the same, but takes longer to make */
  bool record;       /* launches get the record of their kernel */
  bool reproducible; /* no order of a sum follows from where a thread's part begins */
  schedules *stated; /* schedules that are given; each must be of some kernel. NULL: none */
} schedule_opts;
/* Chooses layouts, makes buffers, and schedules every kernel (a stage that belongs to no kernel, as at level 0, is a
 * kernel of its own). */
splan *schedule_module(emodule *m, const target *t, schedule_opts o);
typedef VEC(tensor_record *) storages;
/* Adds how the tensors are stored that a launch computes, as it was recorded, those that are not there yet: the whole
 * of a part comes before the part. */
void schedule_storages(const splan *p, const launch *l, storages *all);
/* The text of what was recorded, of the launches that are wanted (NULL: all): how the tensors that they compute are
 * stored, then the schedules of their kernels. */
void schedule_print(const splan *p, bool (*wanted)(void *env, const launch *l), void *env, sbuf *out);
int64_t schedule_state_bytes(const splan *p);  /* bytes of all states, those that are exchanged twice */
int64_t schedule_output_bytes(const splan *p); /* bytes of all outputs that are not those of states */
/* Are launches repeated where that lowers the memory? To keep within a limit, or where there are derivatives. */
static inline bool schedule_repeats(const splan *p) { return p->bound.bytes || (p->m->derived && p->level > 0); }
/* Appends a launch that computes the tensor again from what is stored, where it comes from element-wise stages of a
 * kernel that computes more (part.c); false: there is none. */
bool schedule_part(splan *p, tid t);
/* What one start of a launch is estimated to take on one core, where sizes are what they typically are. */
loop_cost launch_cost(const splan *p, const launch *l);
#endif
