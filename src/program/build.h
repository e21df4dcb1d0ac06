/* Private to the program room. */
#ifndef EK_PROGRAM_BUILD_H
#define EK_PROGRAM_BUILD_H
#include "program/program.h"

/* memory.c */
typedef struct membuf {
  sz bytes;               /* bytes that it takes, a multiple of 64 */
  sz offset;              /* bytes from the beginning of the arena, or of its late part */
  uint32_t first, last;   /* first and last step in which it is live */
  bool used;              /* some step uses it */
  bool late;              /* it is in the late part */
  uint64_t weight_offset; /* weights: bytes from the beginning of the weights */
} membuf;
typedef struct memplan {
  splan *plan; /* the schedule whose buffers get places */
  membuf *mem; /* a place for each of plan->buffers */
  bool *open;  /* per late size: without a bound, and memory for it is in the late part */
  /* bytes of the late part that sizes need which become known at one place, and all before them */
  VEC(sz) rooms;
  atom threads;          /* stands in the sizes of late scratch areas; 0: there are none */
  sz arena_bytes;        /* without scratch and the late part */
  sz scratch_bytes;      /* per worker */
  sz live_bound;         /* most bytes live at one step; 0: not known */
  uint64_t weight_bytes; /* bytes of all weights */
  uint64_t first_bytes;  /* as in program */
} memplan;
void memory_plan(memplan *p);
/* the launches of an item of a block are neighbours in the plan, in order of blocks and items: where they begin, and
 * whether launch i is one of them */
uint32_t memory_launches(const splan *p, uint32_t block, uint32_t item);
bool memory_launched(const splan *p, uint32_t i, uint32_t block, uint32_t item);
sz program_last_trip(emodule *m, const xloop *x); /* an upper bound of the loop's counter */

/* message.c */
typedef struct message_part {
  const char *text; /* NULL: a number */
  lv number;        /* the number, i64 */
} message_part;
/* bytes of memory that it takes to put the parts together */
uint32_t message_bytes(const message_part *parts, uint32_t n);
void message_kernels(lmodule *l); /* which message_fail calls, where they are not there yet */
/* returns code with these parts as the message, put together at `to` (ptr u8, 64-aligned) */
void message_fail(lbuild *b, lv to, int code, const message_part *parts, uint32_t n);

/* main.c */
uint32_t program_message_bytes(const program *p); /* most that a message of a value or size needs; 0: there is none */

/* share.c: kernels that are the same but for where in their buffers they begin become one */
void program_share(splan *plan, arena *a);

/* order.c: launches of the root block change places where less memory is live at one time then */
void program_order(splan *s);

/* recompute.c: launches are repeated so that the arena of the plan becomes as small as plan->bound allows, if it is a
 * number; the plan is made again */
void program_recompute(memplan *p);

/* weights.c */
/* do two buffers of equal element type and size hold the same? */
/* sets weight_bytes and weight_room of a buffer of weights */
void weights_measure(ctx *c, pbuffer *b);
bool weights_equal(ctx *c, const contents *a, const contents *b);
const char *weights_digest(const program *p, const pbuffer *b, arena *a); /* SHA-256 */

/* size.c */
/* the program's entry for a symbol; NULL: there is none */
const psize *program_size(const program *p, atom symbol);
/* every symbol of e is in the list, or its definition is known */
bool program_known(const program *p, const u32vec *known, sz e);
/* appends the symbols that are an input's dimension */
void program_entry_sizes(const program *p, u32vec *known, arena *a);
bool program_open(const program *p, sz e); /* does the bound of e depend on a late size that has no bound? */
/* an upper bound of e before the late sizes are known */
sz program_bounded(const program *p, sz e);
/* made again with what is known now; done: atoms that were, for all calls of one program. 0 stays 0 */
sz program_simplest(const program *p, map *done, sz e);
#endif
