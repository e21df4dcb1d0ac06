/* Private to base: what a context holds. */
#ifndef EK_BASE_CTX_H
#define EK_BASE_CTX_H
#include "base/base.h"
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>

/* One per thread that ever opened a frame of this context. Identifiers of ended threads are taken over by new ones:
 * the slot is empty by then. */
typedef struct slot {
  struct slot *next;
  size_t taken; /* bytes, when it was allocated; else it is one of the context's own */
  pthread_t thread;
  frame *top;
} slot;

typedef struct mapping {
  struct mapping *next;
  uint64_t dev, ino;
  int64_t mtime_s, mtime_ns;
  bytes b;
  bool mapped;     /* else read into the arena (pipes) */
  uint32_t number; /* from 1, in the order of the first asking */
} mapping;

enum { OWN_SLOTS = 8 };

struct ctx {
  void *room_slots[SLOT_COUNT]; /* the first: ctx_slot */
  ctx_memory memory;
  atomic_size_t used;
  atomic_bool over_limit; /* the last refusal was the limit's */
  pthread_mutex_t lock;   /* guards slots, arenas, diagnostics, mappings; never held while something may unwind */
  slot *slots, *spare;    /* in use; free */
  slot own[OWN_SLOTS];
  arena *arenas; /* doubly linked, all of them, the main one included */
  arena *main;
  arena *names; /* of the interned strings */
  map *interned;
  pthread_mutex_t intern_lock; /* guards `interned`; taken before any other lock */
  diag *first, *last;
  uint32_t n_diags, n_errors;
  const char *about; /* ctx_about */
  diag no_memory;    /* used when there is no memory to record that there is none */
  char no_memory_text[96];
  bool no_memory_used;
  mapping *mappings;
  uint64_t asked;    /* hash of the numbers of the mappings, call by call */
  locale_t c_locale; /* numbers are printed and read with a decimal point everywhere */
};

/* ctx.c */
void *ctx_take(ctx *c, size_t bytes); /* zeroed; NULL when there is no memory or the limit is reached */
void ctx_give(ctx *c, void *p, size_t bytes);
uint32_t ctx_slots_ready(ctx *c, uint32_t n); /* so many threads (at most n) can open a frame without a failure */
void ctx_slot_done(ctx *c);                   /* this thread ends: its slot serves another one */
/* par.c */
/* whole cores granted by the quotas of this process's control groups, 0: no quota; root: "" but in tests */
uint32_t cgroup_cores(const char *root);
/* arena.c */
arena *arena_make(ctx *c); /* not registered; NULL when out of memory */
void arena_destroy(arena *a);
arena **arena_links(arena *a); /* [0] next, [1] previous of the context's list */
_Noreturn void ctx_out_of_memory(ctx *c, size_t wanted);
#endif
