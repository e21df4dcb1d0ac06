/* check: what the tools that run whole models share. A header of static functions, since every tool is one file.
 *
 * 1. Counted and guarded memory. The tool's own malloc, calloc, realloc, aligned_alloc and mmap stand before
 *   libc's, for the library, for compiled code and for what it loads. While `counting` is set every call is
 *    counted, so that a run that should allocate nothing can be told from one that does. Memory from guarded()
 *    ends at a page that nobody may touch, and so does aligned_alloc's while `guarding` is set: kernels that
 *    read or write past their arena, inputs or outputs crash at the spot. Under sanitizers, which bring a malloc
 *    of their own, both are off.
 * 2. Arrays of .npz files by the names of a model's inputs and outputs; comparison with a tolerance.
 * 3. formula(): the value of a printed formula in the symbolic dimensions, worked out apart from the compiler's
 *   own algebra.
 */
#ifndef EK_TESTS_CHECK_H
#define EK_TESTS_CHECK_H
#include "base/base.h"
#include "einkorn/einkorn.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define CHECK_OWN_MALLOC 0
#else
#define CHECK_OWN_MALLOC 1
#endif

/* ---- 1. memory ------------------------------------------------------------------------------- */
enum { PAGE = 4096, GUARDS = 512 };
#define MAYBE __attribute__((unused))
MAYBE static atomic_bool counting, guarding;
MAYBE static atomic_int calls, guards_live;
static atomic_flag guard_lock = ATOMIC_FLAG_INIT;
static struct {
  uint8_t *at, *base;
  size_t mapped;
} guards[GUARDS];

static void *map_pages(size_t n) {
  return (void *)syscall(SYS_mmap, NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
/* `bytes` bytes that end where a forbidden page begins. */
MAYBE static uint8_t *guarded(size_t bytes) {
  size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
  uint8_t *base = map_pages(room + PAGE);
  if (base == MAP_FAILED) return NULL;
  mprotect(base + room, PAGE, PROT_NONE);
  while (atomic_flag_test_and_set(&guard_lock)) continue;
  for (int i = 0; i < GUARDS; i++) {
    if (guards[i].at) continue;
    guards[i].at = base + room - bytes, guards[i].base = base, guards[i].mapped = room + PAGE;
    atomic_fetch_add(&guards_live, 1);
    break;
  }
  atomic_flag_clear(&guard_lock);
  return base + room - bytes;
}
MAYBE static bool unguard(void *p) {
  bool found = false;
  if (!atomic_load(&guards_live)) return false;
  while (atomic_flag_test_and_set(&guard_lock)) continue;
  for (int i = 0; i < GUARDS && !found; i++) {
    if (guards[i].at != p) continue;
    munmap(guards[i].base, guards[i].mapped);
    guards[i].at = NULL;
    atomic_fetch_sub(&guards_live, 1);
    found = true;
  }
  atomic_flag_clear(&guard_lock);
  return found;
}
#if CHECK_OWN_MALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);
void __libc_free(void *p);
static void count(void) {
  if (atomic_load_explicit(&counting, memory_order_relaxed)) atomic_fetch_add(&calls, 1);
}
#define OWN __attribute__((visibility("default"), used))
OWN void *malloc(size_t n) {
  count();
  return __libc_malloc(n);
}
OWN void *calloc(size_t n, size_t m) {
  count();
  return __libc_calloc(n, m);
}
OWN void *realloc(void *p, size_t n) {
  count();
  return __libc_realloc(p, n);
}
OWN void *memalign(size_t a, size_t n) {
  count();
  return __libc_memalign(a, n);
}
OWN void *aligned_alloc(size_t a, size_t n) {
  count();
  if (atomic_load(&guarding) && n % 64 == 0) return guarded(n);
  return __libc_memalign(a, n);
}
OWN int posix_memalign(void **p, size_t a, size_t n) {
  count();
  *p = __libc_memalign(a, n);
  return *p || !n ? 0 : ENOMEM;
}
OWN void free(void *p) {
  if (p && unguard(p)) return;
  __libc_free(p);
}
OWN void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  count();
  return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
#endif

/* ---- 2. arrays ------------------------------------------------------------------------------- */
static inline const ndarray *npz_find(const npz *z, const char *prefix, const char *name, int32_t i) {
  char number[32];
  size_t n = strlen(prefix);
  const ndarray *named = NULL, *numbered = NULL;
  snprintf(number, sizeof number, "%s%d", prefix, (int)i);
  for (uint32_t j = 0; j < z->n; j++) {
    if (!strcmp(z->names[j], name)) return &z->arrays[j];
    if (!strncmp(z->names[j], prefix, n) && !strcmp(z->names[j] + n, name)) named = &z->arrays[j];
    if (!strcmp(z->names[j], number)) numbered = &z->arrays[j];
  }
  return named ? named : numbered;
}
/* Strings as a model's ports have them, as bytes with an axis more: for an output as wide as the computed one, where
 * there is room; got: NULL for an input. */
static inline const ndarray *as_bytes(arena *a, const ndarray *d, const ndarray *got) {
  ndarray *b = NEW(a, ndarray);
  if (!d || d->type != ET_STR || !nd_bytes(a, d, b)) return d;
  int64_t width = b->dims[d->rank], wide = got && got->rank == b->rank ? got->dims[d->rank] : width, n = 0;
  if (wide <= width || !nd_count(d, &n)) return b;
  uint8_t *to = arena_alloc(a, (size_t)(n * wide) + 16);
  memset(to, 0, (size_t)(n * wide));
  for (int64_t i = 0; i < n; i++) memcpy(to + i * wide, (const uint8_t *)b->data + i * width, (size_t)width);
  b->dims[d->rank] = wide, b->data = to, b->bytes = (size_t)(n * wide);
  return b;
}
typedef struct tolerance {
  double rtol, atol;
} tolerance;
/* NULL: alike; else what differs, in `why`. Integers must be equal. */
static inline const char *differs(char *why, size_t room, const char *name, const ndarray *got, const ndarray *want,
                                  tolerance t) {
  int64_t n = 0, wrong = 0, first = 0;
  double worst = 0;
  bool same = got->rank == want->rank;
  for (uint32_t i = 0; same && i < got->rank; i++) same = got->dims[i] == want->dims[i];
  if (!same) {
    int k = snprintf(why, room, "%s has shape [", name);
    for (int side = 0; side < 2; side++)
      for (uint32_t i = 0, r = side ? want->rank : got->rank; i <= r && (size_t)k + 40 < room; i++)
        k += i < r
                 ? snprintf(why + k, room - (size_t)k, "%s%lld", i ? ", " : "", (long long)(side ? want : got)->dims[i])
                 : snprintf(why + k, room - (size_t)k, side ? "]" : "], not [");
    return why;
  }
  etype wt = want->type;
  /* the bits of a type numpy has not */
  if (wt != got->type && et_bytes(wt) == et_bytes(got->type) && et_kind(wt) != K_FLOAT) wt = got->type;
  bool floats = et_kind(got->type) == K_FLOAT;
  if (wt != got->type && !(floats && et_kind(wt) == K_FLOAT)) {
    snprintf(why, room, "%s is %s, %s expected", name, et_name(got->type), et_name(want->type));
    return why;
  }
  nd_count(got, &n);
  for (int64_t i = 0; i < n; i++) {
    scalar g = et_load(got->type, (const uint8_t *)got->data + i * et_bytes(got->type)),
           w = et_load(wt, (const uint8_t *)want->data + i * et_bytes(wt));
    if (!floats && g.i == w.i) continue;
    if (floats && (g.f == w.f || (isnan(g.f) && isnan(w.f)))) continue;
    double d = floats ? fabs(g.f - w.f) : fabs((double)g.i - (double)w.i);
    if (floats && d <= t.atol + t.rtol * fabs(w.f) && isfinite(w.f)) continue;
    if (!wrong++) first = i;
    if (isnan(d) || d > worst) worst = isnan(d) ? INFINITY : d;
  }
  if (!wrong) return NULL;
  snprintf(why, room, "%s: %lld of %lld elements differ, first at %lld, by up to %g", name, (long long)wrong,
           (long long)n, (long long)first, worst);
  return why;
}

/* ---- 3. formulas: + - * // % min max, numbers, names (`quoted` when odd) --------------------- */
typedef struct symbols {
  uint32_t n;
  const char *name[64];
  int64_t value[64];
} symbols;
static inline void symbol_set(symbols *s, const char *name, int64_t v) {
  for (uint32_t i = 0; i < s->n; i++)
    if (!strcmp(s->name[i], name)) return;
  if (s->n < 64) s->name[s->n] = name, s->value[s->n++] = v;
}
typedef struct parsing {
  const char *p;
  const symbols *s;
  bool bad;
} parsing;
static inline int64_t formula_sum(parsing *r);
static inline void blanks(parsing *r) {
  while (*r->p == ' ') r->p++;
}
static inline bool eat(parsing *r, const char *t) {
  blanks(r);
  size_t n = strlen(t);
  if (strncmp(r->p, t, n) != 0) return false;
  r->p += n;
  return true;
}
static inline int64_t formula_atom(parsing *r) {
  blanks(r);
  if (eat(r, "(")) {
    int64_t v = formula_sum(r);
    if (!eat(r, ")")) r->bad = true;
    return v;
  }
  if (eat(r, "-")) return -formula_atom(r);
  if (isdigit((unsigned char)*r->p)) {
    char *end;
    int64_t v = strtoll(r->p, &end, 10);
    r->p = end;
    return v;
  }
  bool quoted = *r->p == '`';
  const char *from = r->p += quoted;
  while (*r->p && (quoted ? *r->p != '`' : isalnum((unsigned char)*r->p) || strchr("_.:/", *r->p))) {
    if (*r->p == '/' && r->p[1] == '/') break;
    r->p++;
  }
  size_t n = (size_t)(r->p - from);
  if (quoted && *r->p == '`') r->p++;
  if (!quoted && *r->p == '(') { /* min, max */
    bool min = !strncmp(from, "min", 3) && n == 3, any = false;
    int64_t v = 0;
    if (!min && (n != 3 || strncmp(from, "max", 3) != 0)) r->bad = true;
    r->p++;
    do {
      int64_t x = formula_sum(r);
      v = !any ? x : min ? min64(v, x) : max64(v, x);
      any = true;
    } while (!r->bad && eat(r, ","));
    if (!eat(r, ")")) r->bad = true;
    return v;
  }
  for (uint32_t i = 0; i < r->s->n; i++)
    if (strlen(r->s->name[i]) == n && !memcmp(r->s->name[i], from, n)) return r->s->value[i];
  r->bad = true;
  return 0;
}
static inline int64_t formula_product(parsing *r) {
  int64_t v = formula_atom(r);
  while (!r->bad) {
    bool div = eat(r, "//"), mod = !div && eat(r, "%");
    if (div || mod) {
      int64_t d = formula_atom(r);
      if (!d)
        r->bad = true;
      else
        v = div ? floordiv64(v, d) : floormod64(v, d);
    } else if (eat(r, "*"))
      v *= formula_atom(r);
    else
      break;
  }
  return v;
}
static inline int64_t formula_sum(parsing *r) {
  int64_t v = formula_product(r);
  while (!r->bad)
    if (eat(r, "+"))
      v += formula_product(r);
    else if (eat(r, "-"))
      v -= formula_product(r);
    else
      break;
  return v;
}
/* False: not a formula of these symbols. */
static inline bool formula(const char *text, const symbols *s, int64_t *value) {
  parsing r = {text, s, false};
  *value = formula_sum(&r);
  blanks(&r);
  return !r.bad && !*r.p;
}
#endif
