/* program: the order of kernels, control flow, the memory plan. The last level before code: from it two main
 * functions are made (plan and run), so that emitters see loop programs only.
 *
 * A program is sizes, inputs and outputs, buffers, and a tree of steps over them:
 *   launch K (args) chunks n          a kernel; buffers are pointers to their first element, sizes are integers
 *   late S = T                        the size S is read from the scalar T, a place in a buffer; until then (in
 *                                     `plan`) it counts with its bound, if it has one
 *   room B  |  room output N          the late part of the arena needs B bytes; output N has its sizes now: where
 *           there is less, `run` says how much is needed and returns, to be called again
 *   if T { ... } else { ... }         T: bool scalar
 *   loop i = 0 .. n [if T] [while T] { ... }   `if`: whether it begins at all, `while`: read at the end of every
 *   trip; copies of carried tensors are launches
 *   check T = V in A .. B over [sizes] "text"   fails where T is not EXPR_NOWHERE: the value V, which stands at place T
 *           (row-major), is not in A .. B-1; the message says value, place and range
 *   fail when a size condition does not hold; those of the whole program are checked by `plan`, before anything runs
 * A size has a value where it is the size of an input's dimension, has a definition over sizes with values, or
 * was set by an earlier late or loop step of this block or of one around it.
 * MEMORY. All arena buffers lie in one arena; buffers that are live at the same time do not overlap. Offsets and
 * the arena's size are formulas in the size symbols: numbers when there are none. Late sizes count with
 *   their bounds. The arena ends with one scratch area per worker. After that follows the late part: buffers
 *   (`late`) whose formulas hold late sizes without a bound. How much of it there must be is known when they are
 *   (room steps); `plan` counts none. Nothing is allocated while the program runs.
 *   Steps are numbered in the order of the text: a launch is one; an if and a loop are one where they begin and
 *   one where they end. A buffer is live from its first to its last step; one that a loop uses but that
 *   also lives before or after it is live all through the loop.
 * STATES. The last inputs and outputs are those of the states (pstate). Their memory is the caller's, as that of all
 *   inputs and outputs, and belongs to a run object; no sizes are handed over for them. A state `in place` has one
 *   piece, which is both: no step reads the old value after one wrote to the new one, and a launch that does both
 *   reads each place where it writes it. One that is `exchanged` has two, which change parts from run to run.
 *   Either may lie in another order than row-major, its first value too: who looks into it between runs converts.
 *
 * The object stands on its own: it refers to the loop module with its kernels, but not to the levels above. So
 * its text (print.c) reads back (parse.c) as an equal object, of which program_functions makes the same
 * functions.
 * Only the contents of weights are not in the text: they have their SHA-256 there.
 */
#ifndef EK_PROGRAM_H
#define EK_PROGRAM_H
#include "schedule/schedule.h"

enum { PROGRAM_ROOM = 100 }; /* what `run` returns to be called again with more memory: the runtime's EK_RT_ROOM */
typedef struct psize {
  atom symbol;    /* the size */
  int64_t lo, hi; /* range of its value, inclusive */
  sz def;         /* what it stands for; 0: it stands for itself */
  sz bound;       /* a loop's counter, or a late size that has one: at most this; else 0 */
} psize;
typedef struct pio {
  const char *name; /* name of the input or output */
  etype type;       /* element type */
  uint32_t rank;    /* number of axes */
  const sz *dims;   /* size of each axis */
} pio;
typedef struct pbuffer {
  buf_kind kind;          /* where it lies */
  etype type;             /* element type */
  const char *name;       /* for readers; may be NULL */
  sz elems;               /* number of elements */
  uint32_t number;        /* input, output: index among them */
  sz bytes;               /* arena: bytes that it takes, a multiple of 64 */
  sz offset;              /* arena: bytes from the beginning of the arena, or of its late part */
  bool late;              /* arena: it is in the late part */
  uint32_t first, last;   /* arena: first and last step in which it is live */
  uint64_t weight_offset; /* weights: bytes from the beginning of the weights */
  uint64_t weight_bytes;  /* weights: elems, in bytes */
  uint64_t weight_room;   /* weights: `bytes` as a number */
  contents from;          /* weights: how the contents are computed; its source is NULL when read from text */
  const char *sha256;     /* weights: of the contents; NULL: not computed yet */
  bool halo;              /* a border around it holds `fill` (schedule/halo.h) */
  scalar fill;            /* value of the halo */
} pbuffer;
/* What stays from run to run. */
typedef struct pstate {
  uint32_t first;        /* buffer of weights with its first value; 0: zeros */
  bool in_place;         /* old and new value are one memory */
  const uint32_t *order; /* its axes as they lie in memory, outermost first; NULL: row-major */
} pstate;
/* One element of a buffer. */
typedef struct place {
  uint32_t buffer; /* number of the buffer; 0: none */
  sz at;           /* index of the element */
} place;
/* A condition on sizes. */
typedef struct pcheck {
  sz ge0;           /* must be at least 0 */
  bool is_eq;       /* must be 0 */
  const char *text; /* the message */
  const char *node; /* node of the model; NULL: not known */
} pcheck;

typedef struct pvalue { /* see CHECKS in expr.h */
  place at;             /* where the first wrong position is; EXPR_NOWHERE stands there: all are right */
  place value;          /* where the wrong value is */
  sz lo;                /* least allowed value */
  sz hi;                /* exclusive upper bound of allowed values */
  uint32_t ndims;       /* number of dims */
  const sz *dims;       /* sizes that the position counts over, row-major */
  const char *text;     /* what the value is */
  const char *node;     /* node of the model; NULL: not known */
} pvalue;

typedef enum { ST_LAUNCH = 1, ST_LATE, ST_CHECK, ST_IF, ST_LOOP, ST_ROOM, ST_VALUE } step_kind;
typedef struct steps {
  struct step *v; /* the steps, in order */
  uint32_t n;     /* number of steps */
  uint32_t cap;   /* places at v */
} steps;
typedef struct step {
  step_kind kind;     /* which step; decides which fields have a meaning */
  const char *kernel; /* LAUNCH: name of the kernel */
  lfunc *func;        /* LAUNCH: the kernel */
  uint32_t nargs;     /* LAUNCH: number of arguments */
  const kargs *args;  /* LAUNCH: its arguments; buffer 0 is the scratch area */
  sz chunks;          /* LAUNCH: number of chunks */
  sz scratch;         /* LAUNCH: bytes of scratch per worker; 0: none */
  bool parallel;      /* LAUNCH: may run on several threads */
  sz where;           /* LAUNCH: on several threads where this is at least 0; 0: always */
  uint32_t launch;    /* LAUNCH: its number in the plan + 1; 0: read from text */
  atom symbol;        /* LATE: the size; LOOP: the trip's number */
  const char *node;   /* LATE: of the model, for messages; NULL: it is not known */
  sz room;            /* ROOM: bytes of the late part; 0: the step is about an output */
  uint32_t output;    /* ROOM: number of the output, where room is 0 */
  sz trips;           /* LOOP: number of trips; 0: read from `from` */
  place from;         /* LATE: the value; IF: the condition; LOOP: the number of trips */
  place first;        /* LOOP: whether it begins at all; no place: it does */
  place again;        /* LOOP: whether another trip follows; no place: it does */
  pcheck check;       /* CHECK: the condition */
  pvalue value;       /* VALUE: the condition */
  steps body;         /* IF: where the condition holds; LOOP: a trip */
  steps other;        /* IF: where it does not hold */
} step;

typedef struct program {
  ctx *c;                /* context */
  arena *a;              /* memory of the program */
  lmodule *l;            /* the kernels, and plan_fn and run_fn once they are made */
  const char *name;      /* name of the model's functions */
  VEC(psize) sizes;      /* all that occur, each after those in its definition or bound */
  VEC(pio) inputs;       /* inputs, in the model's order */
  VEC(pio) outputs;      /* outputs, in the model's order */
  VEC(pstate) states;    /* of the last so many inputs and outputs */
  VEC(pbuffer) buffers;  /* [0] unused */
  VEC(pcheck) checks;    /* conditions checked before anything runs */
  steps steps;           /* what `run` does */
  atom threads;          /* the symbol among the sizes that is the number of threads; 0: none is */
  sz arena_bytes;        /* without scratch and the late part */
  sz scratch_bytes;      /* per worker */
  sz live_bound;         /* most bytes live at one step: no plan can be below it; 0: not known */
  uint64_t weight_bytes; /* bytes of all weights */
  /* bytes at their end that no kernel reads: values that states begin with, which are in a mapped file, so that they
   * need not be kept in memory */
  uint64_t first_bytes;
  /* run calls the empty kernel `tick` through call->parallel before and after each launch, with 2*launch and
   * 2*launch + 1 chunks */
  bool timed;
  lfunc *plan_fn; /* function that computes sizes and memory; NULL: not made yet */
  lfunc *run_fn;  /* function that runs the steps; NULL: not made yet */
} program;

program *program_build(splan *p, const char *name); /* the program of a schedule, with its functions */
/* makes plan_fn and run_fn, of a program without them; it must be well-formed */
void program_functions(program *p);
/* Who is told how the weights come about; each may be NULL. One call at a time. */
typedef struct weights_watch {
  /* the bytes `source`, from which weights came, will not be read any more: at most one call for a byte */
  void (*done)(void *env, bytes source);
  void (*wrote)(void *env, size_t n); /* n more bytes are written */
  void *env;                          /* handed to both */
} weights_watch;
/* The contents of the weights, written on several threads; they are made only now. n: weight_bytes, or first_bytes
 * less. Fails (E_USAGE) when the program was read from text. No size is asked about (sym_forget). watch: may be NULL.
 * Pages of mapped files do not stay in memory. */
void program_weights(const program *p, uint64_t n, uint32_t threads, uint8_t *to, const weights_watch *watch);
/* What this state begins with, one of the first_bytes at the end of the weights, as it lies. Any thread. Gives the name
 * of the file, if that was changed since it was mapped, and nothing is written; else NULL */
const char *program_first(const program *p, uint32_t state, uint8_t *to);
/* The same bytes in their order, piece by piece. */
void program_weights_stream(const program *p, void (*put)(void *env, bytes piece), void *env);
/* what stands in the working memory where most is live, as a sentence; "" where sizes are open */
const char *program_peak(const program *p);
const char *program_memory(const program *p); /* "arena + threads * scratch" as text: a number or a formula */
void program_print(const program *p, sbuf *b);
/* NULL and diagnostics on bad text; what is said there may still be nonsense: verify it */
program *program_parse(ctx *c, const char *text, const char *file);
/* Records class 3 errors naming `when`, returns false if any. Arguments fit the kernels' parameters; sizes have
 * values where they are used; buffers are used within the steps they live for, lie in the arena, are large
 * enough, and do not overlap others of the same time (reported where it is certain: always, when these are
 * numbers). The kernels are loop_verify's business. */
bool program_verify(const program *p, const char *when);
/* how many memory conditions over symbolic sizes are neither proved nor disproved; one line each to out (may be
 * NULL) */
uint32_t program_verify_memory(const program *p, sbuf *out);
#endif
