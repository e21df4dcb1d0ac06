/* Where do handles, weights and working memory come from? From the caller's allocator, or the C library. A piece
 * remembers its size in front of it, so that whoever gives it back need not know; all pieces are 64-aligned. */
#include "driver/driver.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEAD = 64, HUGE_PAGE = 2 << 20 };
/* Large pieces (constants, working memory) ask for huge pages: fewer misses when they are streamed through. */
static void *take(const memory *m, size_t n) {
  if (m && m->alloc) return m->alloc(m->user, n, HEAD);
  if (n < 2 * HUGE_PAGE) return aligned_alloc(HEAD, n);
  void *p = aligned_alloc(HUGE_PAGE, (n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
#ifdef MADV_HUGEPAGE
  if (p) madvise(p, n, MADV_HUGEPAGE);
#endif
  return p;
}
static void give(const memory *m, void *p, size_t n) {
  if (m && m->alloc)
    m->free(m->user, p, n);
  else
    free(p);
}
void *mem_get(const memory *m, size_t bytes) {
  if (bytes > PTRDIFF_MAX - 2 * HEAD) return NULL;
  size_t n = (HEAD + bytes + HEAD - 1) / HEAD * HEAD;
  uint8_t *p = take(m, n);
  if (!p) return NULL;
  memcpy(p, &n, sizeof n);
  return p + HEAD;
}
void *mem_zero(const memory *m, size_t bytes) {
  void *p = mem_get(m, bytes);
  if (p) memset(p, 0, bytes);
  return p;
}
void mem_put(const memory *m, void *p) {
  if (!p) return;
  uint8_t *head = (uint8_t *)p - HEAD;
  size_t n;
  memcpy(&n, head, sizeof n);
  give(m, head, n);
}
char *mem_str(const memory *m, const char *s) {
  size_t n = strlen(s) + 1;
  char *p = mem_get(m, n);
  if (p) memcpy(p, s, n);
  return p;
}

/* ---- room that the system clears while the compiler works ------------------------------------ */
/* A page is cleared when it is first touched, and in a virtual machine fetched from the host: for constants of
 * hundreds of megabytes that takes longer than packing them into it. A thread of its own touches what will be needed
 * at least, meanwhile. */
enum { MIN_AHEAD = 8 << 20, SMALL_PAGE = 4096 };
#define AHEAD_END SIZE_MAX
struct ahead {
  const memory *m;       /* where the piece comes from */
  uint8_t *p;            /* the piece */
  size_t room;           /* its bytes */
  size_t touched;        /* bytes touched so far */
  atomic_size_t likely;  /* so many bytes shall be touched; AHEAD_END: no more */
  pthread_mutex_t lock;  /* `likely` changes */
  pthread_cond_t change; /* `likely` has changed */
  pthread_t thread;      /* touches the bytes */
};
static void *touch(void *arg) {
  ahead *h = arg;
  for (size_t at = 0, likely; (likely = atomic_load(&h->likely)) != AHEAD_END;)
    if (at < likely) {
      h->p[h->touched = at] = 0;
      at += SMALL_PAGE;
    } else {
      pthread_mutex_lock(&h->lock);
      while (atomic_load(&h->likely) == likely) pthread_cond_wait(&h->change, &h->lock);
      pthread_mutex_unlock(&h->lock);
    }
  return NULL;
}
static void set_likely(ahead *h, size_t likely) {
  pthread_mutex_lock(&h->lock);
  atomic_store(&h->likely, likely);
  pthread_cond_signal(&h->change);
  pthread_mutex_unlock(&h->lock);
}
ahead *mem_ahead(const memory *m, size_t likely, size_t room) {
  if ((m && m->alloc) || likely < MIN_AHEAD || room < likely) return NULL;
  ahead *h = mem_zero(m, sizeof *h);
  if (!h) return NULL;
  *h = (ahead){.m = m,
               .p = mem_get(m, room),
               .room = room,
               .likely = likely,
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .change = PTHREAD_COND_INITIALIZER};
  if (h->p && !pthread_create(&h->thread, NULL, touch, h)) return h;
  mem_put(m, h->p);
  mem_put(m, h);
  return NULL;
}
void mem_ahead_more(ahead *h, size_t likely) {
  if (h && likely > atomic_load(&h->likely) && likely <= h->room) set_likely(h, likely);
}
void *mem_ahead_end(ahead *h, size_t bytes) {
  if (!h) return NULL;
  set_likely(h, AHEAD_END);
  pthread_join(h->thread, NULL);
  size_t spare = ((uintptr_t)h->p + bytes + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE - (uintptr_t)h->p;
  uint8_t *p = bytes && bytes <= h->room ? h->p : NULL;
  if (!p) mem_put(h->m, h->p);
  if (p && h->touched > spare) madvise(p + spare, h->touched - spare, MADV_DONTNEED);
  mem_put(h->m, h);
  return p;
}

/* ---- texts that outlive contexts ------------------------------------------------------------- */
bool text_put(text *t, const char *s, size_t n) {
  if (t->n + n + 1 > t->cap) {
    size_t cap = t->cap ? t->cap * 2 : 256;
    while (cap < t->n + n + 1) cap *= 2;
    char *p = mem_get(t->mem, cap);
    if (!p) return false;
    if (t->n) memcpy(p, t->s, t->n);
    mem_put(t->mem, t->s);
    t->s = p, t->cap = cap;
  }
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
  return true;
}
bool text_set(text *t, const char *s) {
  t->n = 0;
  return text_put(t, s, strlen(s));
}
void text_free(text *t) {
  mem_put(t->mem, t->s);
  *t = (text){.mem = t->mem};
}

/* ---- the compiler's own data ----------------------------------------------------------------- */
static void *arena_take(void *user, size_t bytes) {
  const memory *m = user;
  return m->alloc(m->user, bytes, 16);
}
static void arena_give(void *user, void *p, size_t bytes) {
  const memory *m = user;
  m->free(m->user, p, bytes);
}
ctx *session_ctx(ek_session *s) {
  ctx_memory m = {.user = &s->mem, .limit = s->mem.compile_limit};
  if (s->mem.alloc) m.alloc = arena_take, m.free = arena_give;
  return ctx_new_with(&m);
}
