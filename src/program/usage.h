/* Which launches of the root block use which memory? For who changes their order (order.c), or repeats
 * some (recompute.c). */
#ifndef EK_PROGRAM_USAGE_H
#define EK_PROGRAM_USAGE_H
#include "schedule/schedule.h"

typedef struct use {
  uint32_t memory; /* number of the buffer; a state's new value that is in the memory of the old one: the old one's */
  bool write;      /* contents are written; they may be read as well */
} use;
typedef VEC(use) uses;
/* A launch, or neighbours that are repeated together. */
typedef struct unit {
  uint32_t first;   /* number of the first launch */
  uint32_t n;       /* number of launches */
  uint32_t segment; /* units of one segment may change places: no branch, loop, check or late size is between them */
  uses uses;        /* memory that it uses, each once */
} unit;
typedef struct usage {
  splan *s;         /* the schedule */
  arena *a;         /* memory of what is here */
  VEC(unit) units;  /* the launches of the root block, in their order */
  uint32_t *memory; /* per buffer: as use.memory */
  int64_t *bytes;   /* per buffer: bytes in the arena, where sizes are what they typically are; 0: it is elsewhere */
  bool *pinned;     /* per buffer: something that is no launch of the root block uses it, too */
} usage;
void usage_find(splan *s, arena *a, usage *out);
void usage_add(const usage *u, const launch *l, uses *all); /* what the launch uses, to these */
int64_t usage_bytes(const splan *s, uint32_t buffer);       /* what it takes in the arena, or would take there */
uint32_t usage_of(const uses *u, uint32_t memory);          /* which of them is of this memory; u->n: none is */
#endif
