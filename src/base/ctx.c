/* How do failures travel, and who remembers them?
 *
 * A context keeps one stack of frames for each thread that works in it (a list searched by thread id: no
 * thread-local or global state, and several contexts in one thread do not meet).
 * Diagnostics are recorded in order of arrival under the context's lock; the text is formatted before the lock is
 * taken, because formatting allocates and allocation may unwind.
 * Invariant: the lock is never held across anything that can unwind.
 */
#include "base/ctx.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ERRORS = 100 };
/* Pieces of so many bytes are mapped: what one step of a compilation gives back is then the system's, and does not wait
 * between pieces that stay. Not with AddressSanitizer, whose leak checker sees no pointers there. */
#ifdef HAVE_ASAN
#define MIN_MAPPED SIZE_MAX
#else
#define MIN_MAPPED ((size_t)1 << 20)
#endif

/* The parts whose making may unwind. */
static bool make_names(ctx *c) {
  volatile bool ok = true;
  CTX_TRY(c) { c->interned = map_new(c->names); }
  CTX_CATCH { ok = false; }
  return ok;
}

static bool make_arenas(ctx *c) {
  c->main = c->arenas = arena_make(c);
  if (!c->main || !(c->names = arena_make(c))) return false;
  arena_links(c->main)[0] = c->names;
  arena_links(c->names)[1] = c->main;
  return true;
}

static void drop_ctx(ctx *c) {
  ctx_memory m = c->memory;
  if (m.alloc)
    m.free(m.user, c, sizeof *c);
  else
    free(c);
}

ctx *ctx_new_with(const ctx_memory *m) {
  ctx *c = m && m->alloc ? m->alloc(m->user, sizeof *c) : malloc(sizeof *c);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  if (m) c->memory = *m;
  atomic_store(&c->used, sizeof *c);
  for (uint32_t i = 0; i < OWN_SLOTS; i++) {
    c->own[i].next = c->spare;
    c->spare = &c->own[i];
  }
  if (pthread_mutex_init(&c->lock, NULL) != 0) {
    drop_ctx(c);
    return NULL;
  }
  if (pthread_mutex_init(&c->intern_lock, NULL) != 0) {
    pthread_mutex_destroy(&c->lock);
    drop_ctx(c);
    return NULL;
  }
  c->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c->c_locale == (locale_t)0 || !make_arenas(c) || !make_names(c)) {
    ctx_free(c);
    return NULL;
  }
  return c;
}

ctx *ctx_new(void) { return ctx_new_with(NULL); }

static void free_slots(ctx *c, slot *s) {
  for (slot *next; s; s = next) {
    next = s->next;
    if (s->taken) ctx_give(c, s, s->taken);
  }
}

void ctx_free(ctx *c) {
  if (!c) return;
  for (mapping *m = c->mappings; m; m = m->next)
    if (m->mapped) munmap((void *)m->b.p, m->b.n);
  for (arena *a = c->arenas, *next; a; a = next) {
    next = arena_links(a)[0];
    arena_destroy(a);
  }
  arena_free_spare(c);
  free_slots(c, c->slots);
  free_slots(c, c->spare);
  if (c->c_locale != (locale_t)0) freelocale(c->c_locale);
  pthread_mutex_destroy(&c->intern_lock);
  pthread_mutex_destroy(&c->lock);
  drop_ctx(c);
}

/* ---- memory ---------------------------------------------------------------------------------- */
/* Zeroed pages. Those of a huge page or more begin at a multiple of one, so that whole ones become huge: for a
 * compilation of 150 MB the system clears 40,000 pages of 4 KiB one by one else, which takes a tenth of its time.
 * NULL: there is no memory. */
static void *take_pages(size_t n) {
  if (n > PTRDIFF_MAX - CTX_HUGE_PAGE) return NULL;
  if (n < CTX_HUGE_PAGE) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
  }
  const size_t room = n + CTX_HUGE_PAGE, page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *all = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  const size_t from = -(uintptr_t)all & (CTX_HUGE_PAGE - 1), to = from + (n + page - 1) / page * page;
  if (from) munmap(all, from);
  if (to < room) munmap(all + to, room - to);
#ifdef MADV_HUGEPAGE
  madvise(all + from, n / CTX_HUGE_PAGE * CTX_HUGE_PAGE, MADV_HUGEPAGE);
#endif
  return all + from;
}
void *ctx_take(ctx *c, size_t n) {
  size_t before = atomic_fetch_add(&c->used, n);
  bool fits = !c->memory.limit || (before <= c->memory.limit && n <= c->memory.limit - before);
  void *p = !fits             ? NULL
            : c->memory.alloc ? c->memory.alloc(c->memory.user, n)
            : n >= MIN_MAPPED ? take_pages(n)
                              : calloc(1, n);
  if (!p) {
    atomic_fetch_sub(&c->used, n);
    atomic_store(&c->over_limit, !fits);
  } else if (c->memory.alloc) {
    memset(p, 0, n);
  }
  return p;
}

void ctx_give(ctx *c, void *p, size_t n) {
  atomic_fetch_sub(&c->used, n);
  if (c->memory.alloc)
    c->memory.free(c->memory.user, p, n);
  else if (n >= MIN_MAPPED)
    munmap(p, n);
  else
    free(p);
}

size_t ctx_used(const ctx *c) { return atomic_load(&c->used); }

/* ---- frames ---------------------------------------------------------------------------------- */
frame **ctx_frame_slot(ctx *c) {
  pthread_t me = pthread_self();
  pthread_mutex_lock(&c->lock);
  slot *s = c->slots;
  while (s && !pthread_equal(s->thread, me)) s = s->next;
  if (!s) {
    if ((s = c->spare) != NULL)
      c->spare = s->next;
    else if ((s = ctx_take(c, sizeof *s)) != NULL)
      s->taken = sizeof *s;
    if (s) {
      s->thread = me;
      s->top = NULL;
      s->next = c->slots;
      c->slots = s;
    }
  }
  pthread_mutex_unlock(&c->lock);
  if (!s) abort(); /* not even 32 bytes left for the ninth thread, and no frame yet to unwind to */
  return &s->top;
}

uint32_t ctx_slots_ready(ctx *c, uint32_t n) {
  uint32_t have = 0;
  pthread_mutex_lock(&c->lock);
  for (const slot *s = c->spare; s; s = s->next) have++;
  for (slot *s; have < n && (s = ctx_take(c, sizeof *s)) != NULL; have++) {
    s->taken = sizeof *s;
    s->next = c->spare;
    c->spare = s;
  }
  pthread_mutex_unlock(&c->lock);
  return have < n ? have : n;
}

void ctx_slot_done(ctx *c) {
  pthread_t me = pthread_self();
  pthread_mutex_lock(&c->lock);
  slot **p = &c->slots, *s;
  while (*p && !pthread_equal((*p)->thread, me)) p = &(*p)->next;
  if ((s = *p) != NULL && !s->top) {
    *p = s->next;
    s->next = c->spare;
    c->spare = s;
  }
  pthread_mutex_unlock(&c->lock);
}

/* Innermost frame of this thread, without making a slot. */
static slot *own_slot(ctx *c) {
  pthread_t me = pthread_self();
  pthread_mutex_lock(&c->lock);
  slot *s = c->slots;
  while (s && !pthread_equal(s->thread, me)) s = s->next;
  pthread_mutex_unlock(&c->lock);
  return s;
}

void ctx_about(ctx *c, const char *node) { c->about = node; }
_Noreturn void ctx_unwind(ctx *c) {
  slot *s = own_slot(c);
  c->about = NULL;
  if (!s || !s->top) {
    const diag *d = c->last;
    fprintf(stderr, "einkorn: failure outside any frame: %s\n", d ? d->text : "no diagnostic");
    abort();
  }
  frame *f = s->top;
  s->top = f->prev; /* a failure in the catch block must not come back here */
  longjmp(f->jb, 1);
}

/* ---- diagnostics ----------------------------------------------------------------------------- */
static void record(ctx *c, diag *d) {
  pthread_mutex_lock(&c->lock);
  if (c->last)
    c->last->next = d;
  else
    c->first = d;
  c->last = d;
  c->n_diags++;
  if (d->level == D_ERROR) c->n_errors++;
  pthread_mutex_unlock(&c->lock);
}

static char *format(arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static char *format(arena *a, const char *fmt, va_list ap) {
  locale_t old = uselocale(arena_ctx(a)->c_locale);
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  uselocale(old);
  char *s = arena_alloc(a, n < 0 ? 1 : (size_t)n + 1);
  old = uselocale(arena_ctx(a)->c_locale);
  if (n > 0) vsnprintf(s, (size_t)n + 1, fmt, ap);
  uselocale(old);
  return s;
}

static void add(ctx *c, dlevel l, ecode code, srcpos pos, const char *node, const char *fmt, va_list ap)
    __attribute__((format(printf, 6, 0)));
static void add(ctx *c, dlevel l, ecode code, srcpos pos, const char *node, const char *fmt, va_list ap) {
  diag *d = NEW(c->main, diag);
  d->level = l;
  d->code = code;
  d->pos = pos;
  if (pos.file) d->pos.file = arena_strdup(c->main, pos.file);
  d->node = node ? arena_strdup(c->main, node) : NULL;
  d->text = format(c->main, fmt, ap);
  record(c, d);
}

/* Too many errors: the room that collects them is not getting anywhere. */
static void stop_when_too_many(ctx *c) {
  if (diag_errors(c) <= MAX_ERRORS) return;
  slot *s = own_slot(c);
  if (s && s->top) ctx_unwind(c);
}

void diag_add(ctx *c, dlevel l, ecode code, srcpos pos, const char *node, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(c, l, code, pos, node, fmt, ap);
  va_end(ap);
  if (l == D_ERROR) stop_when_too_many(c);
}

void diag_error(ctx *c, ecode code, const char *node, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(c, D_ERROR, code, (srcpos){0}, node, fmt, ap);
  va_end(ap);
  stop_when_too_many(c);
}

void diag_warn(ctx *c, const char *node, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(c, D_WARNING, E_OK, (srcpos){0}, node, fmt, ap);
  va_end(ap);
}

_Noreturn void ctx_fail(ctx *c, ecode code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add(c, D_ERROR, code, (srcpos){0}, c->about, fmt, ap);
  va_end(ap);
  ctx_unwind(c);
}

_Noreturn void ctx_bug(ctx *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *what = format(c->main, fmt, ap);
  va_end(ap);
  ctx_fail(c, E_INTERNAL, "internal error (please report it): %s", what);
}

/* The one diagnostic that must not allocate. wanted: SIZE_MAX when it has no value. A second one changes nothing:
 * the first still says it. */
_Noreturn void ctx_out_of_memory(ctx *c, size_t wanted) {
  pthread_mutex_lock(&c->lock);
  bool again = c->no_memory_used;
  c->no_memory_used = true;
  pthread_mutex_unlock(&c->lock);
  if (!again) {
    if (wanted == SIZE_MAX)
      snprintf(c->no_memory_text, sizeof c->no_memory_text, "out of memory: a size overflows");
    else if (atomic_load(&c->over_limit))
      snprintf(c->no_memory_text, sizeof c->no_memory_text, "out of memory: %zu bytes more are over the limit of %zu",
               wanted, c->memory.limit);
    else
      snprintf(c->no_memory_text, sizeof c->no_memory_text, "out of memory: %zu bytes more were asked for", wanted);
    c->no_memory = (diag){.level = D_ERROR, .code = E_MEMORY, .text = c->no_memory_text};
    record(c, &c->no_memory);
  }
  ctx_unwind(c);
}

const diag *diag_first(const ctx *c) { return c->first; }

static uint32_t locked(const ctx *c, const uint32_t *what) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&c->lock; /* reading needs it as well */
  pthread_mutex_lock(lock);
  uint32_t n = *what;
  pthread_mutex_unlock(lock);
  return n;
}
uint32_t diag_errors(const ctx *c) { return locked(c, &c->n_errors); }
uint32_t diag_mark(const ctx *c) { return locked(c, &c->n_diags); }

ecode diag_code(const ctx *c) {
  for (const diag *d = c->first; d; d = d->next)
    if (d->level == D_ERROR) return d->code;
  return E_OK;
}

void diag_reset(ctx *c, uint32_t mark) {
  pthread_mutex_lock(&c->lock);
  diag *last = NULL, *d = c->first;
  uint32_t n = 0, errors = 0;
  for (; d && n < mark; last = d, d = d->next, n++) errors += d->level == D_ERROR;
  for (diag *e = d; e; e = e->next)
    if (e == &c->no_memory) c->no_memory_used = false;
  if (last)
    last->next = NULL;
  else
    c->first = NULL;
  c->last = last;
  c->n_diags = n;
  c->n_errors = errors;
  pthread_mutex_unlock(&c->lock);
}

/* ---- formatted text in an arena (here because it shares `format`) ---------------------------- */
char *arena_vfmt(arena *a, const char *fmt, va_list ap) { return format(a, fmt, ap); }
char *arena_fmt(arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *s = format(a, fmt, ap);
  va_end(ap);
  return s;
}
