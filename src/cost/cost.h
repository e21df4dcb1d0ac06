/* cost: what does a choice take on this machine?
 *
 * One unit: cycles of a core of the target. What arithmetic takes, what each level of memory takes, and what comes on
 * top of each tile, barrier or fork and join, are terms of one sum, or the longer one of two that run side by side.
 * What depends on the machine is a field of the target (target/fields.def). A constant of this room is a property of
 * the code that the compiler makes: how many operations a form needs, up to how many rows a tile pays, how large a gain
 * is worth more code. Each has its unit.
 *
 * Not every choice has a model of cycles. For the others this room says where the turning point lies: from how many
 * rows on a copy in panels is faster, how many bytes stay in which cache. Such an answer is a bool or a size.
 *
 * The room sees numbers and a target: no formula, kernel, record or emitter. So expr passes, fusion and schedules ask
 * the same room, and a term is added in one place:
 *   tile.c      the size of a register tile            lane.c      the variable along the vector lanes
 *   block.c     blocks for caches, packing, prefetch   threads.c   work, chunks, blocks for threads
 *   fusion.c    what a kernel has in common            window.c    window reductions, ranking
 *   bilinear.c  forms with fewer multiplications       code.c      code that is written out
 * What a kernel's loops take once they are made says loop_cost.h.
 */
#ifndef EK_COST_H
#define EK_COST_H
#include "base/base.h"
#include "target/target.h"

/* ---- sizes that are not known ------------------------------------------------------------------ */
enum {
  TYPICAL_EXTENT = 64,      /* what an open size counts as, where nothing better is known */
  TYPICAL_ROWS = 1000,      /* the same for rows of a product, of which large numbers take most time */
  TYPICAL_POINTS = 1024,    /* the same for rows or points that are divided into blocks */
  TYPICAL_LANES = 4096,     /* the same for lanes that are divided into blocks */
  TYPICAL_LONG_ROW = 65536, /* the same for lanes of one row: they are worth dividing */
  LARGE_EXTENT = 1048576,   /* the same where an open size is to be large: no cache holds so much */
  MAX_SUM_STEPS = 4096      /* a longer sum counts as this: it is cut into parts before a panel is longer (block.c) */
};
typedef struct size_range {
  int64_t lo; /* least value */
  int64_t hi; /* greatest value */
} size_range;

/* ---- register tiles (tile.c) ------------------------------------------------------------------- */
/* Where the number of rows is open there are micro-kernels of each height up to this; so many rows also have registers
 * for their places. */
enum { TILE_EACH = 9 };
/* The height of the next smaller micro-kernel for rows of an open number; 0: there is none. Full tiles, then halves of
 * them, then each height from TILE_EACH down: of few rows the first micro-kernel waits for the panel, and each further
 * one comes on top of that. */
uint32_t tile_fewer(uint32_t rows);
typedef struct tile_shape {
  uint32_t rows;    /* rows of a tile */
  uint32_t vectors; /* vectors of a tile along the lanes */
} tile_shape;
/* What a product's tiles are of. */
typedef struct tile_operands {
  uint32_t registers;    /* vector registers that tiles may use */
  uint32_t lanes;        /* lanes of a vector */
  int64_t steps;         /* terms of the sum, MAX_SUM_STEPS at most */
  uint32_t panel_bytes;  /* of the operands along the lanes, an element of each */
  uint32_t row_bytes;    /* of the operands of rows, an element of each */
  int64_t row_stride;    /* bytes from row to row */
  int64_t rows;          /* number of rows, as far as is known */
  const instruction *by; /* computes the steps of the sum, a group at a time; NULL: multiply-adds do */
  int64_t window; /* each row loads vectors of its own, of which so many wait for another row; 0: rows share them */
  bool shared;    /* with a window: another vector is the same for all rows */
  bool codes;     /* the panel has codes of few bits */
  bool computed;  /* the panel is computed in the run, so that it comes from the second-level cache, if it fits */
  uint32_t fixed_vectors; /* the panel is in fixed point, so many vectors together, two registers less; 0: it is not */
} tile_operands;
/* The costs of a product's tiles. */
typedef struct tile_costs {
  const target *t;      /* the machine */
  uint32_t registers;   /* vector registers that tiles may use */
  uint32_t max_rows;    /* most rows of a tile */
  uint32_t max_vectors; /* most vectors of a tile */
  uint32_t row_fold;    /* rows, of the product and of a tile, count so many each */
  uint32_t vectors_by;  /* vectors are a multiple of it, where there are so many */
  int64_t l1_vectors;   /* most vectors of a panel that stays in the first-level cache */
  int64_t rows_l2;      /* rows below which they stay in the second-level cache while a panel passes */
  int64_t rows_l3;      /* rows below which they stay in half of the third-level cache */
  double l2_vector;     /* cycles: a vector of a panel that comes from the second-level cache */
  double multipliers;   /* vector multiply-adds, or instructions of the target, that start in a cycle */
  double latency;       /* cycles until the next one can add to the same register */
  double unpacking;     /* instructions for each vector of a panel, beside the multiply-adds */
  double row_loads;     /* times that a value of a row is loaded */
  double tile_overhead; /* cycles of a tile, for each step of its sum: what does not belong to the sum */
} tile_costs;
tile_costs cost_tiles(const target *t, const tile_operands *o);
/* rows that are points of two variables: tiles of at most TILE_EACH rows, with more overhead */
tile_costs cost_collapsed_tiles(const tile_costs *k, int64_t steps);
/* The shape whose tiles take least for so many rows and vectors. For open numbers, what it takes over the best one for
 * each number, in the mean over numbers of every magnitude. */
tile_shape cost_tile_shape(const tile_costs *k, size_range rows, size_range vectors);
/* do registers of half the width do as much as those of so many floats? */
bool tile_halves(const target *t, uint32_t lanes);
/* Where they do: is a tile of them faster than one of whole registers, `full` of k? Sets *half and *best to it. */
bool cost_half_width(const tile_costs *k, size_range rows, size_range vectors, int64_t half_vectors, tile_shape full,
                     tile_costs *half, tile_shape *best);
/* Vectors of a sum without rows that are added to in turns: enough to hide that each step waits for the one before.
 * single: one multiplier does it; far: each step is in pages of its own, which nothing fetches ahead. */
uint32_t cost_sums_in_flight(const target *t, bool single, bool far);
/* Rows of a tile up to which it should have twice as many. */
enum { SMALL_TILE_ROWS = 4 };
/* Tiles whose lanes run along the sum, each row added up across the lanes at the end: rows of a tile; results that
 * share a gathered vector from which it is better; terms for each lane from which it pays. */
enum { HORIZONTAL_ROWS = 8, HORIZONTAL_REUSE = 8, HORIZONTAL_STEPS = 4 };

/* ---- the variable along the lanes (lane.c) ----------------------------------------------------- */
enum { MAX_LANE_STEP = 4 }; /* elements from lane to lane of an access that vectors are loaded and shuffled for */
typedef enum {
  LANE_CONTIGUOUS, /* neighbouring lanes read or write neighbouring elements */
  LANE_INVARIANT,  /* all lanes use one element */
  LANE_UNGROUPED,  /* the same, but an instruction that could compute the sum wants a group of terms side by side */
  LANE_PACKED,     /* a constant operand of a sum: its panels are made when the model is compiled */
  LANE_PACKED_ONE, /* the same, and no other row uses the panel */
  LANE_SHUFFLED,   /* a few vectors are loaded, and their lanes picked */
  LANE_EXCHANGED,  /* squares of rows and lanes are transposed in registers */
  LANE_STRIDED,    /* lane by lane, or by a copy into panels where rows use it again */
  LANE_GATHERED,   /* each lane where data say */
  LANE_UNKNOWN     /* any other place for each lane */
} lane_pattern;
/* An access of a kernel, for one variable along the lanes. */
typedef struct lane_access {
  lane_pattern pattern; /* how the elements of neighbouring lanes lie */
  bool store;           /* a store */
  bool after_sum;       /* of a contraction's result, once after all its steps */
  bool in_sum;          /* a store, with a variable of the results along the lanes */
  int64_t reuse;        /* LANE_STRIDED: how many rows use it again */
  int64_t steps;        /* terms of the sum, MAX_SUM_STEPS at most */
} lane_access;
/* cycles that a vector saves against one lane at a time; negative: it loses */
double cost_lane_access(const target *t, const lane_access *a);
/* Is the sum so long that how its result is stored counts little? */
bool cost_hides_store(int64_t steps);
/* Do the readers of a copy save so much more by another order of its axes that it need not move whole rows? */
bool cost_copy_by_elements(double saved, double by_rows);
/* An order of a state's axes saves so many cycles of a run, of kernels that take so many vectors: is it worth it? */
bool cost_state_order_pays(double saved, double vectors);
/* A variable along the lanes whose accesses save `saved` in all: extent values (-1: not known), of which a vector takes
 * `lanes`; reduced: of the sum, which is then added up across the lanes; aligned: number of operands whose vectors lie
 * packed and aligned. */
double cost_lane(double saved, int64_t extent, uint32_t lanes, bool reduced, uint32_t aligned);
#define LANE_TIE 1e-9          /* cycles: candidates that differ by less are equal */
#define LANE_MIN_SAVED (-1e-6) /* cycles that a variable must save; else lanes are not used */
/* are so few lanes of a vector used that a variable of the sum had better run along them? */
bool cost_few_lanes(int64_t extent, uint32_t lanes);
bool cost_half_idle(int64_t extent, uint32_t lanes); /* the same, where no operand is a constant, packed for them */
/* Is a matrix that so many rows of each step of a recurrence share transposed before the first step? With fewer rows
 * the sum runs along the lanes. */
bool cost_transposes_once(int64_t rows, int64_t steps);
/* is a row whose first variable has so many values short, so that it is joined with others even where places are
 * counted? */
bool cost_short_row(int64_t extent);

/* ---- blocks for caches, packing, prefetch (block.c) -------------------------------------------- */
/* A product whose sum runs in parts, so that a block of panels stays in the second-level cache. */
typedef struct block_product {
  int64_t rows;      /* rows of the product */
  int64_t lanes;     /* its columns */
  int64_t depth;     /* steps of the sum */
  int64_t inner;     /* steps of the sum for one value of its outermost variable */
  int64_t size;      /* bytes of an element */
  int64_t width;     /* columns of a panel */
  int64_t whole;     /* columns of a panel where the sum is not divided */
  int64_t tile_rows; /* rows of a tile */
  bool made;         /* panels are made in the run, of a run-time operand */
  bool contiguous;   /* rows lie side by side: a step of the sum has a line of its own, or two */
  int64_t unit;      /* a part has a multiple of so many values of the sum's outermost variable */
  int64_t vector;    /* lanes of a vector */
} block_product;
typedef struct block_shape {
  int64_t step;   /* values of the outermost variable in a part */
  int64_t panels; /* panels of a block */
  int64_t rows;   /* rows of a chunk */
} block_shape;
bool cost_blocks_possible(const target *t, const block_product *b); /* two panels, and sizes that can be counted */
bool cost_blocks_pay(const target *t, const block_product *b);
block_shape cost_block(const target *t, const block_product *b);
/* Few rows, or none, and the lines of a run-time operand far apart: a few whole lines at a time instead of a panel. */
enum { STREAMED_ROWS = 8 }; /* lines of a part */
enum { MAX_STREAMED = 64 }; /* most rows */
typedef struct line_stream {
  int64_t spacing; /* bytes from line to line */
  int64_t lines;   /* number of lines */
  int64_t width;   /* bytes of a panel */
  int64_t rows;    /* rows of the product */
} line_stream;
bool cost_streams_pay(const target *t, const line_stream *s);
/* do the sums that wait stay near the core? lanes columns of `size` bytes for each row */
bool cost_streamed_sums_fit(const target *t, int64_t rows, int64_t lanes, int64_t size);
/* are rows so many that a run-time panel is copied even where its vectors are contiguous? */
/* A sum of products of two tensors, whose outermost variable may be divided into parts. */
typedef struct summed_parts {
  int64_t terms;   /* values of the outermost variable */
  double steps;    /* terms of the whole sum */
  double results;  /* sums */
  double bytes[2]; /* of the two tensors */
  int64_t size;    /* bytes of a sum */
  int64_t panels;  /* of columns, which one of the two alone has; 0: both or neither */
  int in_panels;   /* which one: 0 or 1 */
} summed_parts;
/* parts of the sum, at least, so that what one reads stays in the second-level cache; 1 where that does not pay */
int64_t cost_sum_parts(const target *t, const summed_parts *s);
/* Parts of a sum over `steps` terms for each of `points` results, which threads can divide into so many blocks: 1 where
 * these are enough, or the work is short. */
int64_t cost_row_sum_parts(const target *t, int64_t blocks, int64_t steps, int64_t points);
bool cost_copy_panel(int64_t rows);
/* the same, where an instruction of the target wants the panel in groups */
bool cost_copy_groups(int64_t rows);
/* Does it pay to round both factors of a product of so many rows and columns in the run, for an instruction that
 * multiplies pairs? Each element of a row is used for all columns, and the other way round. */
bool cost_rounding_pays(int64_t rows, int64_t columns);
/* Are constants of so many bytes, which each step of a loop reads, too many for the second-level cache, so that a step
 * had better begin with those that the one before ended with? */
bool cost_zigzag_pays(const target *t, double bytes);
/* Cycles that it takes to write `runs` pieces of `run` bytes, each at a place of its own, into a tensor of `bytes` that
 * others read as a whole in between, so that its lines come from the cache that holds it. */
double cost_written_runs(const target *t, double runs, double run, double bytes);
/* does so much stay in a share of a cache, beside all that passes through? */
bool cost_fits_l1(const target *t, int64_t bytes);
bool cost_fits_half_l1(const target *t, int64_t bytes);
bool cost_fits_half_l2(const target *t, double bytes);
bool cost_fits_quarter_l2(const target *t, int64_t bytes);
/* Rows of a strip over which all panels pass: 0: all of them. bytes: of a row's results */
int64_t cost_strip_rows(const target *t, int64_t rows, int64_t bytes, int64_t tile_rows);
/* sums of a tile, at least, for a step of it to take long enough for lines to be fetched beside it */
int64_t cost_prefetch_sums(const target *t);
/* can the steps of a sum fetch so many lines of rows? */
bool cost_prefetch_lines(int64_t lines, int64_t steps);
/* Is it worth while to fetch a run-time operand's next panel, of which a block of rows fetches one of the `lines` lines
 * at each step? */
bool cost_prefetch_source(int64_t rows, int64_t tile_rows, int64_t lines);
/* rows of a tile that is alone with its panel, at least, to fetch the next one: fewer wait for memory anyway */
int64_t cost_alone_rows(void);
/* do elements of so many bytes that lie so far apart (in elements) fall on one set of the nearest cache? */
bool cost_one_set(const target *t, int64_t step, int64_t bytes);
/* are so many stages, which read so many places, too many for what the processor foresees? */
bool cost_prefetch_places(uint32_t places);
/* does memory take the time of a product with a constant of so many bytes of f32, of which each element is used so
 * often? Fewer bits are worth more arithmetic then */
bool cost_memory_bound(const target *t, int64_t uses, int64_t bytes);
/* Is a constant of whole numbers better kept in few bits? `bytes` as floats, of `all` that the model's constants have
 * as such; each is used so often. */
bool cost_keeps_few_bits(const target *t, int64_t uses, int64_t bytes, int64_t all);
/* Are constants of few bits better computed into a panel of floats once, than in registers by each tile of the rows?
 * rows: that share the panel, at least */
bool cost_computes_panels(const target *t, int64_t rows);

/* ---- work and threads (threads.c) -------------------------------------------------------------- */
typedef enum {
  WORK_VECTORS, /* element by element on vectors */
  WORK_PRODUCT, /* multiply-adds of a product, which keep up with wide vectors */
  WORK_SERIAL   /* one place at a time */
} work_kind;
/* cycles of one thread: operations of elements, and elements that are loaded and stored besides */
double cost_work(const target *t, work_kind kind, double operations, double moved);
/* Is so much work lost to other threads by a fusion that leaves one point of `points`? operations: of elements */
bool cost_serial_too_long(const target *t, int64_t points, int64_t operations);
bool cost_barrier_pays(const target *t, double operations); /* threads that meet after each step of a recurrence */
/* is one variable of a step's stages long enough to be divided? */
bool cost_divides_step(int64_t extent);
int64_t cost_chunk_rows(int64_t rows, int64_t tile_rows);             /* rows of a chunk */
int64_t cost_chunk_lanes(int64_t tile_lanes);                         /* lanes of a chunk where each is one value */
int64_t cost_streamed_chunk_lanes(int64_t lanes, int64_t tile_lanes); /* the same where rows are streamed */
int64_t cost_step_vectors(int64_t lanes, uint32_t vector, bool rows); /* vectors of a tile of a recurrence's step */
int64_t cost_shared_rows(int64_t rows, int64_t tile_rows);            /* rows of a block that nests share */
int64_t cost_shared_points(int64_t rows);                             /* the same of two variables that one tile has */
int64_t cost_shared_lanes(int64_t lanes, int64_t tile_lanes);         /* lanes of such a block */
int64_t cost_shared_values(int64_t extent);                           /* values where nothing has rows or lanes */
/* A product's lanes are divided for the threads where `blocks` of all its points are few: lanes of a part; `whole`:
 * they are not */
int64_t cost_lane_part(int64_t lanes, uint32_t vector, int64_t blocks, int64_t whole);
bool cost_enough_blocks(int64_t blocks);   /* as many as are wanted there */
int64_t cost_blocks_of_rows(int64_t rows); /* how many of these blocks so many rows are */
/* values of a block of short rows; points of a row that is short: such rows run some at a time */
enum { SHORT_ROWS = 8, SHORT_POINTS = 512 };
/* rows of a block that fill a quarter of the second-level cache: whole tiles; bytes: that each hands over */
int64_t cost_handed_rows(const target *t, int64_t bytes, int64_t tile_rows);

/* ---- fusion (fusion.c) ------------------------------------------------------------------------- */
/* Is an element-wise stage computed where it is read? operations: of one value; elements, bytes of each: what it would
 * store; window: the reader is one. Its work is repeated for each tile of columns: cost_repeated_tile */
int64_t cost_repeated_columns(const target *t, bool window, int64_t elements, int64_t size);
bool cost_repeats(const target *t, bool window, int64_t elements, int64_t size, int64_t repeated_operations);
/* The same of a value that is read again when so many bytes more were computed, so that it comes from a far cache.
 * cycles: of its repeated operations */
bool cost_repeats_far(const target *t, int64_t between, int64_t size, double cycles);
/* cheap enough to be done in each step of a recurrence? operations: of one value */
bool cost_joins_recurrence(int64_t operations);
/* rows of an element-wise stage from which a look-up along its lanes stays apart */
bool cost_looks_up_alone(int64_t rows);
/* A contraction in blocks, with what makes its operand and what reads its result. all: bytes that they hand over;
 * constants: bytes that are read again at each point */
bool cost_blocks_fuse(const target *t, int64_t all, int64_t constants);
int64_t cost_point_bytes(const target *t); /* most bytes that are handed over at a point */
bool cost_rows_for_tile(int64_t rows);     /* do so many rows of a contraction fill tiles? */
bool cost_rereads_constants(int64_t constants,
                            int64_t point); /* may they be read again for a point of so many bytes? */
/* A contraction just ahead of a window over what it makes. all: bytes handed over; constants: of the contraction;
 * kept: bytes of the rows that wait */
bool cost_rolling_pays(const target *t, int64_t all, int64_t constants, int64_t kept);
/* copies into one tensor: so many in a kernel at most, and so many elements from which threads share one alone */
enum { COPIES_TOGETHER = 16 };
bool cost_copy_alone(int64_t elements);

/* ---- windows, ranking (window.c) --------------------------------------------------------------- */
/* A reduction over a window of several axes: one axis after the other, instead of all at each place. */
typedef struct window_reduction {
  bool ordered;  /* max or min of floats, where NaN counts */
  double places; /* places along the last axis */
  double lanes;  /* results along it */
  double outer;  /* steps of the window along the other axes */
  double inner;  /* steps along the last axis */
} window_reduction;
bool cost_separate_window(const window_reduction *w);
bool cost_separate_by_rows(const window_reduction *w);
/* are enough lanes of the vectors used? folded: fewer steps are left, too */
bool cost_window_lanes(int64_t extent, int64_t lanes, bool folded);
enum {
  WINDOW_POINTS = 16
}; /* points that a plane is worth computing apart for, with all its rows in the second cache */
/* The `first` largest of `places`: by slots, instead of sorting all */
bool cost_few_first(int64_t first, int64_t places, uint32_t lanes);
/* places that are compared one with another sooner than they are sorted; of a prefix scan, added one by one */
bool cost_sort_pays(int64_t places);
bool cost_prefix_scan_pays(int64_t places);

/* ---- forms with fewer multiplications (bilinear.c) --------------------------------------------- */
/* One axis of a window and a form for it. */
typedef struct bilinear_axis {
  double outputs;  /* number of outputs */
  double m;        /* outputs of a tile; 1: the axis stays a sum */
  double n;        /* products of a tile */
  double r;        /* taps of a part */
  double taps;     /* taps of the window */
  double stride;   /* places between two outputs */
  double phases;   /* windows that share products, one for each phase of the stride; 1: not so */
  double parts;    /* parts that the taps are divided into */
  double in;       /* operations for a product's part in the transform of inputs */
  double out;      /* the same for the transform of outputs */
  double out_each; /* the same where each output of an open axis is a stage of its own */
  bool circle;     /* a Fourier form */
  bool keeps;      /* the taps are kept, and factors made of them where they are used */
} bilinear_axis;
typedef struct bilinear_product {
  double rows;        /* outputs without the window's axes */
  double batch;       /* products with operands of their own */
  double columns;     /* outputs that share the inputs; none: 1 */
  double channels;    /* terms of the sum, without taps */
  bool has_columns;   /* there are columns */
  bool by_axis;       /* axes can be transformed one after another */
  bool narrow;        /* as a plain sum it may become one of bf16 */
  bool computed;      /* the factors are computed in each run, each as a sum over all taps */
  uint32_t lanes;     /* lanes of a vector */
  uint32_t fma;       /* vector multiply-adds in a cycle */
  uint32_t registers; /* vector registers; 0: not known */
  uint32_t axes;      /* number of axes */
  const bilinear_axis *axis;
} bilinear_product;
double cost_bilinear(const target *t, const bilinear_product *q);
/* The same as it is compared: the plain sum is preferred, and long code costs. */
double cost_bilinear_compared(const target *t, const bilinear_product *q, bool plain);
/* places of which a tile holds all n products in registers, beside their factors; from how many factors are worth it */
double cost_places_together(uint32_t registers, double n);
enum { MIN_SHARED_PLACES = 3 };
/* what is left of a model's window sums, `better` of `before`: is it worth the model's code twice? */
bool cost_variant_pays(double better, double before);

/* ---- code that is written out (code.c) --------------------------------------------------------- */
enum {
  WINDOW_STEPS = 16,  /* steps of a window that are written out one by one, at most */
  RANGE_IN_TILE = 16, /* values of a variable for which a tile works out which are inside a tensor */
  RANGE_IN_PANEL = 64 /* the same for a panel */
};
/* is a loop of so many steps, each of so many operations, written out? */
bool cost_written_out(int64_t steps, uint64_t operations);
enum { MAX_WRITTEN_OUT = 4 };
/* Is it worth writing out a loop whose variable decides choices? whole: operations of a step with all arms; taken: of
 * all steps together, each with the arms that it takes */
bool cost_decided_pays(int64_t steps, uint64_t whole, uint64_t taken);
/* is a table of 256 entries that is read cheaper than so many operations of vectors? */
bool cost_table_pays(const target *t, uint64_t operations);
/* is it cheapest as bytes? Else entries of up to 32 bits cost as much, and they need no conversion */
bool cost_table_in_bytes(const target *t);
/* does a tile have so many values that its edge shares its code, with masks? */
bool cost_shares_edge_code(uint32_t stages);
/* is a bound worth it that leaves out `outside` of `size` places? */
bool cost_bound_pays(int64_t outside, int64_t size);
#endif
