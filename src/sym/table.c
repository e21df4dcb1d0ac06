/* The table of atoms, monomials and polynomials: how equal forms get equal numbers. (Leaves and inspection: atoms.c;
 * the picture: sym_in.h.)
 * Invariant of the hash sets: linear probing, never a deletion but of the youngest entries in reverse order
 * (table_undo), which needs no tombstones. */
#include "sym/sym_in.h"
#include <stdlib.h>
#include <string.h>

static inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}
static void *chunk_for(symtab *s, void ***chunks, uint32_t *cap, uint32_t i, size_t elem) {
  uint32_t k = i / CHUNK;
  if (k >= *cap) {
    uint32_t want = *cap ? *cap * 2 : 16;
    void **more = NEWN(s->a, void *, want);
    if (*cap) memcpy(more, *chunks, *cap * sizeof *more);
    *chunks = more, *cap = want;
  }
  if (!(*chunks)[k]) (*chunks)[k] = arena_array(s->a, CHUNK, elem);
  return (uint8_t *)(*chunks)[k] + (i % CHUNK) * elem;
}
static satom *atom_at(symtab *s, uint32_t i) {
  return chunk_for(s, (void ***)&s->atom_chunks, &s->atom_cap, i, sizeof(satom));
}
static spoly *poly_at(symtab *s, uint32_t i) {
  return chunk_for(s, (void ***)&s->poly_chunks, &s->poly_cap, i, sizeof(spoly));
}
static smono *mono_at(symtab *s, uint32_t i) {
  return chunk_for(s, (void ***)&s->mono_chunks, &s->mono_cap, i, sizeof(smono));
}

symtab *sym_tab_new(ctx *c) {
  arena *a = arena_new(c);
  symtab *s = NEW(a, symtab);
  s->c = c;
  s->a = a;
  s->symbols = map_new(a), s->states = map_new(a), s->hidden = map_new(a);
  atom_at(s, 0), poly_at(s, 0), mono_at(s, 0); /* atom 0 and sz 0 mean none, monomial 0 is the empty one */
  s->natoms = s->npolys = s->nmonos = 1;
  s->state = s->root = s->nstates = 1;
  *ctx_slot(c, SLOT_SYM) = s;
  return s;
}
static void memo_drop(symtab *s, memo *m) {
  arena_drop(s->a, m->row, m->cap * sizeof *m->row);
  *m = (memo){0};
}
void sym_forget_memos(ctx *c) {
  symtab *s = *ctx_slot(c, SLOT_SYM);
  if (s) memo_drop(s, &s->proofs), memo_drop(s, &s->built);
}
void sym_forget(ctx *c) {
  symtab *s = *ctx_slot(c, SLOT_SYM);
  *ctx_slot(c, SLOT_SYM) = NULL;
  if (s) arena_free(s->a);
}
void sym_overflow(symtab *s) {
  if (!s->soft)
    ctx_fail(s->c, E_SHAPE,
             "a size does not fit into 64 bits: check the dimensions here, or bound open ones by --dim NAME=MOST "
             "(sizes found at run time have names, too: einkorn show --stage expr)");
  s->overflowed = true;
}
void sym_limit(symtab *s, const char *what) {
  if (!s->soft) ctx_fail(s->c, E_SHAPE, "a size expression has too many %s", what);
  s->overflowed = true;
}

/* ---- hash sets ------------------------------------------------------------------------------- */
/* PROBE visits the candidates for a hash; set_put after a miss. Rehashing goes in ascending order of numbers, so
 * that the youngest are last in every probe sequence. */
static void put_new(hashslot *slot, uint32_t cap, hashslot new) {
  uint32_t at = new.tag &(cap - 1);
  while (slot[at].id) at = (at + 1) & (cap - 1);
  slot[at] = new;
}
static void set_put(symtab *s, hashset *h, uint32_t hash, uint32_t id) {
  if ((h->n + 1) * 2 > h->cap) {
    uint32_t cap = h->cap ? h->cap * 2 : 1024, top = 0;
    hashslot *slot = NEWN(s->a, hashslot, cap);
    for (uint32_t i = 0; i < h->cap; i++) top = h->slot[i].id > top ? h->slot[i].id : top;
    hashslot *in = NEWN(s->a, hashslot, top + 1); /* entries by number */
    for (uint32_t i = 0; i < h->cap; i++) in[h->slot[i].id] = h->slot[i];
    for (uint32_t i = 1; i <= top; i++)
      if (in[i].id) put_new(slot, cap, in[i]);
    arena_drop(s->a, in, (top + 1) * sizeof *in);
    arena_drop(s->a, h->slot, h->cap * sizeof *h->slot);
    h->slot = slot, h->cap = cap;
  }
  put_new(h->slot, h->cap, (hashslot){id, hash});
  h->n++;
}
#define PROBE(set, hash, slot_)                                                                                        \
  for (uint32_t at_ = (hash); (set).cap && (set).slot[at_ & ((set).cap - 1)].id; at_++)                                \
    for (const hashslot *slot_ = &(set).slot[at_ & ((set).cap - 1)]; slot_ && slot_->tag == (hash); slot_ = NULL)

/* ---- memory of polynomials ------------------------------------------------------------------- */
void *table_bytes(symtab *s, size_t n) {
  bump *b = &s->terms;
  n = (n + 15) & ~(size_t)15;
  while (b->at < b->n && b->used + n > b->size[b->at]) b->at++, b->used = 0;
  if (b->at == b->n) {
    if (b->n == b->cap) {
      uint32_t cap = b->cap ? b->cap * 2 : 16;
      b->block = arena_grow(s->a, b->block, b->cap * sizeof *b->block, cap * sizeof *b->block);
      b->size = arena_grow(s->a, b->size, b->cap * sizeof *b->size, cap * sizeof *b->size);
      b->cap = cap;
    }
    size_t size = n > 65536 ? n : 65536;
    b->block[b->n] = arena_alloc(s->a, size);
    b->size[b->n++] = size;
    b->used = 0;
  }
  void *p = b->block[b->at] + b->used;
  b->used += n;
  return p;
}
sterm *sym_scratch(symtab *s, uint32_t n) { return table_bytes(s, (n + 1) * sizeof(sterm)); }
trial table_trial(symtab *s) {
  s->trial = s->npolys;
  return (trial){s->npolys, s->terms.at, s->terms.used};
}
void table_undo(symtab *s, trial t) {
  while (s->npolys > t.polys) {
    spoly *p = sp(s, --s->npolys);
    uint32_t at = p->hash & (s->polys.cap - 1);
    while (s->polys.slot[at].id != s->npolys) at = (at + 1) & (s->polys.cap - 1);
    s->polys.slot[at] = (hashslot){0};
    s->polys.n--;
  }
  s->terms.at = t.at, s->terms.used = t.used;
  s->trial = 0;
}

sym_draft sym_draft_begin(ctx *c) {
  symtab *s = sym_tab(c);
  const trial t = table_trial(s);
  sym_draft d = {t.polys, s->natoms, t.at, t.used, s->soft, s->overflowed};
  s->soft = true;
  return d;
}
void sym_draft_end(ctx *c, const sym_draft *d) {
  symtab *s = sym_tab(c);
  s->soft = d->soft, s->overflowed = d->overflowed;
  if (s->natoms == d->atoms)
    table_undo(s, (trial){d->polys, d->block, d->used});
  else
    s->trial = 0;
}

/* ---- monomials ------------------------------------------------------------------------------- */
static uint32_t mono_intern(symtab *s, const atom *a, const uint8_t *e, uint32_t n) {
  if (!n) return 0;
  if (n == 1 && e[0] == 1 && sa(s, a[0])->mono) return sa(s, a[0])->mono;
  uint64_t h = n;
  uint32_t deg = 0;
  for (uint32_t i = 0; i < n; i++) h = mix(h, (uint64_t)a[i] << 8 | e[i]), deg += e[i];
  uint32_t hash = (uint32_t)h;
  PROBE(s->monos, hash, old) {
    const smono *m = sm(s, old->id);
    if (m->n == n && !memcmp(m->a, a, n * sizeof *a) && !memcmp(m->e, e, n)) return old->id;
  }
  uint32_t id = s->nmonos;
  smono *m = mono_at(s, id);
  *m = (smono){n, deg, arena_dup(s->a, a, n * sizeof *a), arena_dup(s->a, e, n)};
  s->nmonos++;
  set_put(s, &s->monos, hash, id);
  return id;
}
uint32_t mono_mul(symtab *s, uint32_t x, uint32_t y) {
  if (!x) return y;
  if (!y) return x;
  const smono *p = sm(s, x), *q = sm(s, y);
  atom a[2 * MAX_FACTORS];
  uint8_t e[2 * MAX_FACTORS];
  uint32_t n = 0, i = 0, j = 0;
  while (i < p->n || j < q->n) {
    if (j == q->n || (i < p->n && p->a[i] < q->a[j]))
      a[n] = p->a[i], e[n++] = p->e[i++];
    else if (i == p->n || q->a[j] < p->a[i])
      a[n] = q->a[j], e[n++] = q->e[j++];
    else {
      uint32_t sum = (uint32_t)p->e[i++] + q->e[j];
      if (sum > 255) return sym_limit(s, "equal factors"), 0;
      a[n] = q->a[j++], e[n++] = (uint8_t)sum;
    }
  }
  if (n > MAX_FACTORS) return sym_limit(s, "factors"), 0;
  return mono_intern(s, a, e, n);
}
bool mono_div(symtab *s, uint32_t x, uint32_t y, uint32_t *out) {
  if (!y) return *out = x, true;
  if (x == y) return *out = 0, true;
  const smono *p = sm(s, x), *q = sm(s, y);
  if (q->deg > p->deg) return false;
  atom a[MAX_FACTORS];
  uint8_t e[MAX_FACTORS];
  uint32_t n = 0, j = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    uint8_t k = p->e[i];
    if (j < q->n && q->a[j] == p->a[i]) {
      if (q->e[j] > k) return false;
      k = (uint8_t)(k - q->e[j++]);
    }
    if (k) a[n] = p->a[i], e[n++] = k;
  }
  if (j < q->n) return false;
  *out = mono_intern(s, a, e, n);
  return true;
}
uint32_t mono_gcd(symtab *s, uint32_t x, uint32_t y) {
  if (x == y) return x;
  const smono *p = sm(s, x), *q = sm(s, y);
  atom a[MAX_FACTORS];
  uint8_t e[MAX_FACTORS];
  uint32_t n = 0;
  for (uint32_t i = 0, j = 0; i < p->n && j < q->n;) {
    if (p->a[i] < q->a[j])
      i++;
    else if (p->a[i] > q->a[j])
      j++;
    else
      a[n] = p->a[i], e[n++] = p->e[i] < q->e[j] ? p->e[i] : q->e[j], i++, j++;
  }
  return mono_intern(s, a, e, n);
}
int mono_cmp(symtab *s, uint32_t x, uint32_t y) {
  if (x == y) return 0;
  const smono *p = sm(s, x), *q = sm(s, y);
  if (p->deg != q->deg) return p->deg < q->deg ? -1 : 1;
  for (uint32_t i = 0; i < p->n && i < q->n; i++) {
    if (p->a[i] != q->a[i]) return p->a[i] < q->a[i] ? 1 : -1;
    if (p->e[i] != q->e[i]) return p->e[i] < q->e[i] ? -1 : 1;
  }
  return 0;
}

/* ---- polynomials ----------------------------------------------------------------------------- */
static void describe(symtab *s, spoly *p) { /* what follows from the terms */
  p->box = true;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    uint64_t factors = 1;
    p->deg = m->deg > p->deg ? m->deg : p->deg;
    p->box = p->box && m->deg <= 1;
    for (uint32_t j = 0; j < m->n; j++) {
      const satom *x = sa(s, m->a[j]);
      int64_t k;
      p->depth = x->depth > p->depth ? x->depth : p->depth;
      p->kinds |= x->kinds;
      p->bloom |= x->bloom;
      factors += mix(x->content, m->e[j]); /* factors and terms commute: sums of hashes */
      p->box = p->box && x->depth == 0 && (x->kind != AT_VAR || sym_const(s, x->arg[0], &k));
    }
    p->content += mix(factors, (uint64_t)p->t[i].k);
  }
}
sz sym_poly_sorted(symtab *s, const sterm *t, uint32_t n) {
  uint64_t h = n;
  for (uint32_t i = 0; i < n; i++) h = mix(mix(h, t[i].mono), (uint64_t)t[i].k);
  uint32_t hash = (uint32_t)(h >> 7);
  PROBE(s->polys, hash, old) {
    const spoly *p = sp(s, old->id);
    uint32_t i = 0;
    while (p->n == n && i < n && p->t[i].mono == t[i].mono && p->t[i].k == t[i].k) i++;
    if (p->n == n && i == n) return old->id;
  }
  if (n > MAX_TERMS) {
    sym_limit(s, "terms");
    n = 0;
  }
  sz id = s->npolys;
  spoly *p = poly_at(s, id);
  sterm *own = table_bytes(s, n * sizeof *own);
  if (n) memcpy(own, t, n * sizeof *own);
  *p = (spoly){.n = n, .hash = hash, .t = own};
  describe(s, p);
  s->npolys++;
  set_put(s, &s->polys, hash, id);
  return id;
}
static int by_mono(const void *a, const void *b) {
  uint32_t x = ((const sterm *)a)->mono, y = ((const sterm *)b)->mono;
  return x < y ? -1 : x > y;
}
sz sym_poly(symtab *s, sterm *t, uint32_t n) {
  bool sorted = true;
  for (uint32_t i = 1; i < n && sorted; i++) sorted = t[i - 1].mono < t[i].mono;
  if (!sorted) {
    if (n < 12)
      for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && t[j - 1].mono > t[j].mono; j--) {
          sterm x = t[j];
          t[j] = t[j - 1], t[j - 1] = x;
        }
    else
      qsort(t, n, sizeof *t, by_mono);
  }
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (m && t[m - 1].mono == t[i].mono) {
      if (!add64(t[m - 1].k, t[i].k, &t[m - 1].k)) sym_overflow(s);
    } else
      t[m++] = t[i];
    /* a sum may pass through 0 and back: drop it only when the next monomial comes */
    if (!t[m - 1].k && (i + 1 == n || t[i + 1].mono != t[m - 1].mono)) m--;
  }
  return sym_poly_sorted(s, t, m);
}
sz sym_num(symtab *s, int64_t v) {
  bool small = v >= SMALL_LO && v <= SMALL_HI;
  if (small && s->ints[v - SMALL_LO]) return s->ints[v - SMALL_LO];
  sterm t = {0, v};
  sz e = sym_poly_sorted(s, &t, v ? 1 : 0);
  if (small && !s->trial) s->ints[v - SMALL_LO] = e;
  return e;
}

/* ---- atoms ----------------------------------------------------------------------------------- */
static uint32_t atom_hash(symtab *s, uint32_t id) {
  const satom *a = sa(s, id);
  uint64_t h = a->kind;
  for (int i = 0; i < 3; i++) h = mix(h, a->arg[i]);
  h = mix(h, a->data);
  /* the same number may mean different values in different modules: only equal ranges share */
  if (a->kind == AT_DATA) h = mix(mix(h, (uint64_t)a->lo), (uint64_t)a->hi);
  return (uint32_t)h;
}
atom sym_atom(symtab *s, const satom *new) {
  uint32_t id = s->natoms;
  satom *a = atom_at(s, id);
  *a = *new;
  uint32_t h = atom_hash(s, id);
  bool shared = a->kind != AT_VAR && a->kind != AT_SYMBOL;
  if (shared) PROBE(s->atoms, h, old) {
      const satom *b = sa(s, old->id);
      if (b->kind == a->kind && b->data == a->data && !memcmp(b->arg, a->arg, sizeof a->arg) &&
          (a->kind != AT_DATA || (b->lo == a->lo && b->hi == a->hi)))
        return old->id;
    }
  a->flo = -SYM_INF, a->fhi = SYM_INF;
  if (a->kind != AT_SYMBOL && a->kind != AT_DATA) a->lo = -SYM_INF, a->hi = SYM_INF;
  a->rstate = a->vstate = 0;
  a->val = NULL;
  a->mono = 0;
  a->kinds = (uint8_t)(1u << a->kind);
  a->bloom = 1ull << id % 64;
  for (uint32_t i = 0; i < sym_nargs(a->kind); i++)
    a->kinds |= sp(s, a->arg[i])->kinds, a->bloom |= sp(s, a->arg[i])->bloom;
  a->content = mix(a->kind, a->name && *a->name ? hash_bytes(a->name, strlen(a->name), 1) : a->data);
  if (a->kind == AT_DATA) a->content = mix(mix(a->content, (uint64_t)a->lo), (uint64_t)a->hi);
  for (uint32_t i = 0; i < sym_nargs(a->kind); i++) a->content = mix(a->content, sp(s, a->arg[i])->content);
  if (a->def) a->bloom |= sp(s, a->def)->bloom;
  s->natoms++;
  a->mono = mono_intern(s, &id, &(uint8_t){1}, 1);
  sterm t = {a->mono, 1};
  a->self = sym_poly_sorted(s, &t, 1);
  if (shared) set_put(s, &s->atoms, h, id);
  return id;
}

/* ---- remembered results ---------------------------------------------------------------------- */
static uint64_t memo_hash(const uint32_t k[4]) { return mix(mix(mix(mix(1, k[0]), k[1]), k[2]), k[3]); }
bool memo_get(memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t *v) {
  if (!m->n) return false;
  uint32_t k[4] = {a, b, c, d};
  for (uint64_t at = memo_hash(k);; at++) {
    const memo_row *r = &m->row[at & (m->cap - 1)];
    if (!r->key[0]) return false;
    if (!memcmp(r->key, k, sizeof k)) return *v = r->value, true;
  }
}
static void memo_set(memo_row *row, uint32_t cap, const uint32_t k[4], uint32_t v) {
  uint64_t at = memo_hash(k);
  while (row[at & (cap - 1)].key[0] && memcmp(row[at & (cap - 1)].key, k, 4 * sizeof *k)) at++;
  memcpy(row[at & (cap - 1)].key, k, 4 * sizeof *k);
  row[at & (cap - 1)].value = v;
}
void memo_put(symtab *s, memo *m, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t v) {
  if ((m->n + 1) * 4 > m->cap * 3) {
    uint32_t cap = m->cap ? m->cap * 2 : 1024;
    memo_row *row = NEWN(s->a, memo_row, cap);
    for (uint32_t i = 0; i < m->cap; i++)
      if (m->row[i].key[0]) memo_set(row, cap, m->row[i].key, m->row[i].value);
    arena_drop(s->a, m->row, m->cap * sizeof *row);
    m->row = row, m->cap = cap;
  }
  uint32_t k[4] = {a, b, c, d};
  memo_set(m->row, m->cap, k, v);
  m->n++;
}
