/* How are names and numbers looked up?
 *
 * Entries stand in an array in order of insertion; a table of 32-bit places (0: empty, else entry + 1), twice as long
 * as needed at least, is searched linearly from the key's hash. Nothing is ever removed. Strings are copied into the
 * arena with a NUL behind them, so that a string's key serves as the string itself: interning is a map whose value
 * nobody reads. A number needs no copy: it stands in its entry.
 */
#include "base/ctx.h"
#include <string.h>

typedef struct entry {
  const char *key; /* NULL: a number */
  size_t n;        /* bytes of the key */
  uint64_t hash;   /* hash of the key; a number is its own hash */
  uint64_t val;    /* the value */
} entry;

struct map {
  arena *a;         /* arena of the map */
  VEC(entry) e;     /* entries in the order of insertion */
  uint32_t *table;  /* open addressing: 1 + index into e; 0: empty */
  uint32_t mask;    /* number of places - 1 */
  uint32_t few[16]; /* the table of a small map */
};

map *map_new(arena *a) {
  map *m = NEW(a, map);
  m->a = a;
  m->mask = 15;
  m->table = m->few;
  return m;
}

/* 64x64 -> 128 bit products folded together, 16 bytes a step. */
static uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 u128;
  u128 p = (u128)a * b;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t random_word(uint64_t stream, uint64_t i) {
  uint64_t z = stream + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed) {
  const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd1b54a32d192ed03u;
  const uint8_t *s = p;
  uint64_t h = fold(seed ^ k0, n ^ k1);
  while (n >= 16) {
    uint64_t x[2];
    memcpy(x, s, 16);
    h = fold(h ^ x[0] ^ k0, x[1] ^ k1) + k0;
    s += 16;
    n -= 16;
  }
  uint64_t x[2] = {0, 0};
  if (n) memcpy(x, s, n);
  return fold(fold(h ^ x[0] ^ k0, x[1] ^ k1) ^ k1, h ^ k0);
}

/* The place of the key in the table, or of the empty place where it would go. */
static uint32_t place(const map *m, const void *key, size_t n, uint64_t h) {
  for (uint32_t i = (uint32_t)h & m->mask;; i = (i + 1) & m->mask) {
    uint32_t at = m->table[i];
    if (!at) return i;
    const entry *e = &m->e.v[at - 1];
    if (e->hash == h && e->key && e->n == n && (n == 0 || memcmp(e->key, key, n) == 0)) return i;
  }
}

static uint32_t spread(uint64_t number) { return (uint32_t)(number * 0x9e3779b97f4a7c15u >> 32); }
static uint32_t place_number(const map *m, uint64_t number) {
  for (uint32_t i = spread(number) & m->mask;; i = (i + 1) & m->mask) {
    uint32_t at = m->table[i];
    if (!at || (m->e.v[at - 1].hash == number && !m->e.v[at - 1].key)) return i;
  }
}

bool map_get(const map *m, const void *key, size_t n, uint64_t *val) {
  uint32_t at = m->table[place(m, key, n, hash_bytes(key, n, 0))];
  if (at && val) *val = m->e.v[at - 1].val;
  return at != 0;
}

static void rehash(map *m) {
  if (m->mask >= UINT32_MAX / 2) ctx_fail(arena_ctx(m->a), E_MEMORY, "a table of more than 2^31 names");
  uint32_t mask = m->mask * 2 + 1;
  uint32_t *table = NEWN(m->a, uint32_t, (size_t)mask + 1);
  for (uint32_t k = 0; k < m->e.n; k++) {
    uint32_t i = (m->e.v[k].key ? (uint32_t)m->e.v[k].hash : spread(m->e.v[k].hash)) & mask;
    while (table[i]) i = (i + 1) & mask;
    table[i] = k + 1;
  }
  if (m->table != m->few) arena_drop(m->a, m->table, ((size_t)m->mask + 1) * sizeof *table);
  m->table = table;
  m->mask = mask;
}

void map_put(map *m, const void *key, size_t n, uint64_t val) {
  uint64_t h = hash_bytes(key, n, 0);
  uint32_t i = place(m, key, n, h);
  if (m->table[i]) {
    m->e.v[m->table[i] - 1].val = val;
    return;
  }
  if (m->e.n >= m->mask / 2) {
    rehash(m);
    i = place(m, key, n, h);
  }
  entry e = {arena_strndup(m->a, key, n), n, h, val};
  vec_push(m->a, m->e, e);
  m->table[i] = m->e.n;
}

bool map_gets(const map *m, const char *key, uint64_t *val) { return map_get(m, key, strlen(key), val); }
void map_puts(map *m, const char *key, uint64_t val) { map_put(m, key, strlen(key), val); }
bool map_getu(const map *m, uint64_t key, uint64_t *val) {
  uint32_t at = m->table[place_number(m, key)];
  if (at && val) *val = m->e.v[at - 1].val;
  return at != 0;
}
void map_putu(map *m, uint64_t key, uint64_t val) {
  uint32_t i = place_number(m, key);
  if (m->table[i]) {
    m->e.v[m->table[i] - 1].val = val;
    return;
  }
  if (m->e.n >= m->mask / 2) {
    rehash(m);
    i = place_number(m, key);
  }
  vec_push(m->a, m->e, ((entry){NULL, sizeof key, key, val}));
  m->table[i] = m->e.n;
}
uint32_t map_count(const map *m) { return m->e.n; }

const void *map_key(const map *m, uint32_t i, size_t *n, uint64_t *val) {
  if (i >= m->e.n) return NULL;
  const entry *e = &m->e.v[i];
  if (n) *n = e->n;
  if (val) *val = e->val;
  return e->key ? (const void *)e->key : &e->hash;
}

/* ---- interning: the one map that several threads share --------------------------------------- */
const char *intern_n(ctx *c, const char *s, size_t n) {
  const char *volatile found = NULL;
  map *m = c->interned;
  pthread_mutex_lock(&c->intern_lock);
  uint64_t h = hash_bytes(s, n, 0);
  uint32_t at = m->table[place(m, s, n, h)];
  if (at) {
    found = m->e.v[at - 1].key;
  } else {
    CTX_TRY(c) { /* the lock must be given back when there is no memory */
      map_put(m, s, n, 0);
      found = m->e.v[m->e.n - 1].key;
    }
    CTX_CATCH {}
  }
  pthread_mutex_unlock(&c->intern_lock);
  if (!found) ctx_unwind(c);
  return found;
}

const char *intern(ctx *c, const char *s) { return intern_n(c, s, strlen(s)); }
