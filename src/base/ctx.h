/* Private to base: what a context holds. */
#ifndef EK_BASE_CTX_H
#define EK_BASE_CTX_H
#include "base/base.h"
#include <locale.h>
#include <pthread.h>

/* One per thread that ever opened a frame of this context. Identifiers of ended threads are taken over by new ones: the slot is empty by then. */
typedef struct slot {
  struct slot *next;
  pthread_t thread;
  frame *top;
} slot;

typedef struct mapping {
  struct mapping *next;
  uint64_t dev, ino;
  int64_t mtime_s, mtime_ns;
  bytes b;
  bool mapped; /* else read into the arena (pipes, empty files) */
} mapping;

struct ctx {
  void *room_slots[SLOT_COUNT];
  pthread_mutex_t lock; /* guards slots, arenas, diagnostics, mappings; never held while something may unwind */
  slot *slots;
  arena *arenas; /* doubly linked, all of them, the main one included */
  arena *main;
  arena *names; /* of the interned strings */
  map *interned;
  pthread_mutex_t intern_lock; /* guards `interned`; taken before any other lock */
  diag *first, *last;
  uint32_t n_diags, n_errors;
  diag no_memory; /* used when there is no memory to record that there is none */
  bool no_memory_used;
  mapping *mappings;
  locale_t c_locale; /* numbers are printed and read with a decimal point everywhere */
};

/* arena.c */
arena *arena_make(ctx *c); /* not registered; NULL when out of memory */
void arena_destroy(arena *a);
arena **arena_links(arena *a); /* [0] next, [1] previous of the context's list */
_Noreturn void ctx_out_of_memory(ctx *c, size_t wanted);
#endif
