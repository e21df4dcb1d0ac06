/* Private to base: what a context holds. */
#ifndef EK_BASE_CTX_H
#define EK_BASE_CTX_H
#include "base/base.h"
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>

/* AddressSanitizer is on */
#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

/* One per thread that ever opened a frame of this context. Identifiers of ended threads are taken over by new ones:
 * the slot is empty by then. */
typedef struct slot {
  struct slot *next; /* next in its list; NULL: the last */
  size_t taken;      /* bytes, when it was allocated; 0: it is one of the context's own */
  pthread_t thread;  /* thread that it serves */
  frame *top;        /* innermost frame of this thread; NULL: none */
} slot;

typedef struct mapping {
  struct mapping *next; /* mapped before it; NULL: the first */
  const char *path;     /* name that it was mapped under */
  uint64_t dev, ino;    /* device and inode of the file */
  int64_t mtime_s;      /* time of the file's last change, seconds */
  int64_t mtime_ns;     /* nanoseconds of that time */
  bytes b;              /* contents of the file */
  bool mapped;          /* else read into the arena (pipes) */
  uint32_t number;      /* number of the file, from 1, in the order in which files were asked for first */
} mapping;

enum { OWN_SLOTS = 8 };

struct ctx {
  void *room_slots[SLOT_COUNT]; /* the first: ctx_slot */
  ctx_memory memory;            /* where memory comes from */
  atomic_size_t used;           /* bytes taken and not given back */
  atomic_bool over_limit;       /* the last refusal was the limit's */
  pthread_mutex_t lock;         /* guards slots, arenas, diagnostics, mappings; never held while something may unwind */
  slot *slots;                  /* slots in use */
  slot *spare;                  /* free slots */
  slot own[OWN_SLOTS];          /* slots that need no allocation */
  arena *arenas;                /* doubly linked, all of them, the main one included */
  struct block *spare_blocks;   /* blocks of arenas that ended, for the next ones (arena.c) */
  uint32_t n_spare_blocks;      /* number of them; both are guarded by `lock` */
  arena *main;                  /* arena that lives as long as the context (ctx_arena) */
  arena *names;                 /* arena of the interned strings */
  map *interned;                /* the interned strings */
  pthread_mutex_t intern_lock;  /* guards `interned`; taken before any other lock */
  diag *first;                  /* diagnostic recorded first; NULL: none */
  diag *last;                   /* diagnostic recorded last; NULL: none */
  uint32_t n_diags;             /* number of diagnostics */
  uint32_t n_errors;            /* number of diagnostics of level D_ERROR */
  const char *about;            /* see ctx_about; NULL: nothing is named */
  diag no_memory;               /* used when there is no memory to record that there is none */
  char no_memory_text[96];      /* text of no_memory */
  bool no_memory_used;          /* no_memory is among the diagnostics */
  mapping *mappings;            /* files mapped so far, the latest first */
  uint64_t asked;               /* hash of the numbers of the mappings, call by call */
  atomic_uint cpus;             /* see ctx_cpus; 0: not asked yet */
  locale_t c_locale;            /* numbers are printed and read with a decimal point everywhere */
};

/* ctx.c */
#define CTX_HUGE_PAGE ((size_t)2 << 20) /* bytes; a piece of so many or more may lie in huge pages */
void *ctx_take(ctx *c, size_t bytes);   /* zeroed; NULL when there is no memory or the limit is reached */
void ctx_give(ctx *c, void *p, size_t bytes);
uint32_t ctx_slots_ready(ctx *c, uint32_t n); /* so many threads (at most n) can open a frame without a failure */
void ctx_slot_done(ctx *c);                   /* this thread ends: its slot serves another one */
/* par.c */
/* whole cores granted by the quotas of this process's control groups, 0: no quota; root: "" but in tests */
uint32_t cgroup_cores(const char *root);
/* arena.c */
arena *arena_make(ctx *c); /* not registered; NULL when out of memory */
void arena_destroy(arena *a);
void arena_free_spare(ctx *c); /* gives the spare blocks back, once all arenas are destroyed */
arena **arena_links(arena *a); /* [0] next, [1] previous of the context's list */
_Noreturn void ctx_out_of_memory(ctx *c, size_t wanted);
#endif
