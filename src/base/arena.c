/* Where does memory come from?
 *
 * An arena is a list of zeroed blocks from the context's allocator, filled from the front; the newest block is
 * first. Blocks grow from 4 KiB to 1 MiB, so that a small compilation stays small, and in a large arena each is a
 * huge page (ctx_take); a request larger than a quarter of the next block gets a block of its own, put behind the
 * newest so that its free room is not lost. The zeros are kept: nothing is handed out twice. What a list leaves when it
 * grows out of a block of its own goes back. A few of the largest ordinary blocks wait, when their arena ends, for the
 * next one: most arenas live for one step of many, such as a kernel.
 * Every function locks its own arena and unlocks before it unwinds. Under AddressSanitizer 16 poisoned bytes
 * follow every piece.
 */
#include "base/ctx.h"
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
enum { REDZONE = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { REDZONE = 0 };
#endif

typedef struct block {
  struct block *next;          /* block allocated before it; NULL: the first */
  size_t cap;                  /* bytes of `data` */
  size_t used;                 /* bytes of `data` that are handed out */
  _Alignas(16) uint8_t data[]; /* the memory */
} block;

struct arena {
  arena *link[2];    /* next, previous: the context's list, guarded by the context's lock */
  ctx *c;            /* context that it belongs to */
  atomic_flag lock;  /* guards the blocks */
  block *blocks;     /* the latest first */
  size_t next_block; /* size of the next ordinary block */
  size_t total;      /* bytes handed out */
};

enum {
  FIRST_BLOCK = 4 << 10, /* many arenas live for one question */
  LAST_BLOCK = 1 << 20,
  LARGE_ARENA = 8 << 20 /* bytes of which the rest of a huge page is a small part */
};

/* Held for some instructions, a million times in a compilation, and hardly ever wanted by two threads. */
static void lock(arena *a) {
  while (atomic_flag_test_and_set_explicit(&a->lock, memory_order_acquire)) sched_yield();
}
static void unlock(arena *a) { atomic_flag_clear_explicit(&a->lock, memory_order_release); }

/* ---- blocks that wait for the next arena ----------------------------------------------------- */
/* Not of another allocator's memory, nor under a limit, which counts what is in use. AddressSanitizer is to see who
 * reads a piece that went back. */
static bool keeps_spare(const ctx *c, size_t bytes) {
#ifdef HAVE_ASAN
  (void)c, (void)bytes;
  return false;
#else
  return bytes == LAST_BLOCK && !c->memory.alloc && !c->memory.limit;
#endif
}
static bool put_spare(ctx *c, block *b) {
  enum { MOST_SPARE = 2 };
  const size_t bytes = sizeof *b + b->cap;
  if (!keeps_spare(c, bytes)) return false;
  pthread_mutex_lock(&c->lock);
  const bool room = c->n_spare_blocks < MOST_SPARE;
  if (room) b->next = c->spare_blocks, c->spare_blocks = b, c->n_spare_blocks++;
  pthread_mutex_unlock(&c->lock);
  if (room) atomic_fetch_sub(&c->used, bytes);
  return room;
}
/* cleared as far as it was used; NULL: there is none */
static block *take_spare(ctx *c, size_t bytes) {
  if (!keeps_spare(c, bytes)) return NULL;
  pthread_mutex_lock(&c->lock);
  block *b = c->spare_blocks;
  if (b) c->spare_blocks = b->next, c->n_spare_blocks--;
  pthread_mutex_unlock(&c->lock);
  if (!b) return NULL;
  atomic_fetch_add(&c->used, bytes);
  memset(b->data, 0, b->used);
  b->used = 0, b->next = NULL;
  return b;
}
void arena_free_spare(ctx *c) {
  for (block *b = c->spare_blocks, *next; b; b = next) {
    next = b->next;
    atomic_fetch_add(&c->used, sizeof *b + b->cap);
    ctx_give(c, b, sizeof *b + b->cap);
  }
}

arena *arena_make(ctx *c) {
  arena *a = ctx_take(c, sizeof *a);
  if (!a) return NULL;
  atomic_flag_clear(&a->lock);
  a->c = c;
  a->next_block = FIRST_BLOCK;
  return a;
}

void arena_destroy(arena *a) {
  for (block *b = a->blocks, *next; b; b = next) {
    next = b->next;
    ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
    if (!put_spare(a->c, b)) ctx_give(a->c, b, sizeof *b + b->cap);
  }
  ctx_give(a->c, a, sizeof *a);
}

arena **arena_links(arena *a) { return a->link; }

arena *arena_new(ctx *c) {
  arena *a = arena_make(c);
  if (!a) ctx_out_of_memory(c, sizeof *a);
  pthread_mutex_lock(&c->lock);
  a->link[0] = c->arenas;
  if (c->arenas) c->arenas->link[1] = a;
  c->arenas = a;
  pthread_mutex_unlock(&c->lock);
  return a;
}

void arena_free(arena *a) {
  if (!a) return;
  ctx *c = a->c;
  pthread_mutex_lock(&c->lock);
  if (a->link[0]) a->link[0]->link[1] = a->link[1];
  if (a->link[1])
    a->link[1]->link[0] = a->link[0];
  else
    c->arenas = a->link[0];
  pthread_mutex_unlock(&c->lock);
  arena_destroy(a);
}

/* The arena is locked. n is a multiple of 16. NULL when there is no memory. */
static void *take(arena *a, size_t n) {
  block *b = a->blocks;
  if (!b || b->cap - b->used < n) {
    bool own = n > a->next_block / 4 || a->c->memory.separate;
    size_t cap = own ? n : a->next_block - sizeof *b;
    if (cap > PTRDIFF_MAX - sizeof *b) return NULL;
    b = own ? NULL : take_spare(a->c, sizeof *b + cap);
    if (!b && !(b = ctx_take(a->c, sizeof *b + cap))) return NULL;
    b->cap = cap;
    ASAN_POISON_MEMORY_REGION(b->data, cap);
    if (own && a->blocks) {
      b->next = a->blocks->next;
      a->blocks->next = b;
    } else {
      b->next = a->blocks;
      a->blocks = b;
    }
    if (a->total > LARGE_ARENA)
      a->next_block = CTX_HUGE_PAGE;
    else if (!own && a->next_block < LAST_BLOCK)
      a->next_block *= 2;
  }
  void *p = b->data + b->used;
  b->used += n;
  a->total += n;
  return p;
}

/* Rounded up to 16 with the red zone; 0 on overflow. */
static size_t rounded(size_t n) { return n > PTRDIFF_MAX - 64 ? 0 : ((n ? n : 1) + 15 + REDZONE) & ~(size_t)15; }

void *arena_alloc(arena *a, size_t n) {
  size_t r = rounded(n);
  lock(a);
  void *p = r ? take(a, r) : NULL;
  if (p) ASAN_UNPOISON_MEMORY_REGION(p, n);
  unlock(a);
  if (!p) ctx_out_of_memory(a->c, n);
  return p;
}

void *arena_array(arena *a, size_t n, size_t elem) {
  size_t total;
  if (__builtin_mul_overflow(n, elem, &total)) ctx_out_of_memory(a->c, SIZE_MAX);
  return arena_alloc(a, total);
}

/* In place when `old` is the last piece of its block and the block has room. Only the newest block is looked at, and
 * the newest own block behind it. */
static bool extend(arena *a, void *old, size_t old_r, size_t new_r) {
  for (block *b = a->blocks, *end = b && b->next ? b->next->next : NULL; b != end; b = b->next)
    if (b->used >= old_r && (uint8_t *)old == b->data + b->used - old_r) {
      if (b->cap - b->used < new_r - old_r) return false;
      b->used += new_r - old_r;
      a->total += new_r - old_r;
      return true;
    }
  return false;
}

/* Nobody reads the piece any more: it goes back if its block holds nothing else. The arena is locked. */
static void drop(arena *a, void *piece, size_t r) {
  enum { MIN_BYTES = 8 << 10 }; /* bytes for which the block is looked for */
  ASAN_POISON_MEMORY_REGION(piece, r);
  if (r < MIN_BYTES) return;
  for (block **at = &a->blocks; *at; at = &(*at)->next) {
    block *b = *at;
    if (b->data != piece) continue;
    if (b->used != r || b->cap != r) return;
    *at = b->next;
    a->total -= r;
    ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
    ctx_give(a->c, b, sizeof *b + b->cap);
    return;
  }
}
void arena_drop(arena *a, void *p, size_t n) {
  if (!p) return;
  lock(a);
  drop(a, p, rounded(n));
  unlock(a);
}

void *arena_grow(arena *a, void *old, size_t old_bytes, size_t new_bytes) {
  if (!old) return arena_alloc(a, new_bytes);
  if (new_bytes <= old_bytes) return old;
  size_t old_r = rounded(old_bytes), new_r = rounded(new_bytes);
  lock(a);
  void *p = NULL;
  if (new_r) {
    if (new_r == old_r || extend(a, old, old_r, new_r)) {
      p = old;
      ASAN_UNPOISON_MEMORY_REGION(p, new_bytes);
    } else if ((p = take(a, new_r)) != NULL) {
      ASAN_UNPOISON_MEMORY_REGION(p, new_bytes);
      memcpy(p, old, old_bytes);
      drop(a, old, old_r);
    }
  }
  unlock(a);
  if (!p) ctx_out_of_memory(a->c, new_bytes);
  return p;
}

void *arena_dup(arena *a, const void *p, size_t n) {
  void *q = arena_alloc(a, n);
  if (n) memcpy(q, p, n);
  return q;
}

char *arena_strndup(arena *a, const char *s, size_t n) {
  if (n == SIZE_MAX) ctx_out_of_memory(a->c, n);
  char *q = arena_alloc(a, n + 1);
  if (n) memcpy(q, s, n);
  return q;
}

char *arena_strdup(arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

size_t arena_bytes(const arena *a) {
  lock((arena *)a);
  size_t n = a->total;
  unlock((arena *)a);
  return n;
}

ctx *arena_ctx(const arena *a) { return a->c; }
arena *ctx_arena(ctx *c) { return c->main; }

void vec_reserve_(arena *a, void *v, uint32_t *cap, size_t need, size_t elem) {
  if (need <= *cap) return;
  if (need > UINT32_MAX) ctx_fail(a->c, E_MEMORY, "a list of more than 2^32 elements");
  size_t n = *cap ? (size_t)*cap * 2 : 8, bytes;
  if (n < need) n = need;
  if (n > UINT32_MAX) n = UINT32_MAX;
  if (__builtin_mul_overflow(n, elem, &bytes)) ctx_out_of_memory(a->c, SIZE_MAX);
  void *old;
  memcpy(&old, v, sizeof old);
  old = arena_grow(a, old, (size_t)*cap * elem, bytes);
  memcpy(v, &old, sizeof old);
  *cap = (uint32_t)n;
}

static bool owns(arena *a, const uint8_t *p, size_t n) {
  for (const block *b = a->blocks; b; b = b->next)
    if (p >= b->data && n <= b->used && (size_t)(p - b->data) <= b->used - n) return true;
  return false;
}
void ctx_release(ctx *c, const void *p, size_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = ((uintptr_t)p + page - 1) / page * page, to = ((uintptr_t)p + n) / page * page;
  if (to <= from || c->memory.alloc) return; /* what pages of another allocator are, we do not know */
  pthread_mutex_lock(&c->lock);
  bool mine = false;
  for (arena *a = c->arenas; a && !mine; a = a->link[0]) mine = owns(a, p, n);
  pthread_mutex_unlock(&c->lock);
  if (mine) madvise((void *)from, to - from, MADV_DONTNEED);
}
