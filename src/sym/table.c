/* The table of atoms, monomials and polynomials; ranges. */
#include "sym/sym_in.h"
#include <stdlib.h>
#include <string.h>

symtab *sym_tab(ctx *c) {
  void **slot = ctx_slot(c, SLOT_SYM);
  if (*slot) return *slot;
  arena *a = arena_new(c);
  symtab *s = NEW(a, symtab);
  s->c = c;
  s->a = a;
  s->atom_ids = map_new(a), s->mono_ids = map_new(a), s->poly_ids = map_new(a), s->symbols = map_new(a), s->memo = map_new(a), s->proofs = map_new(a);
  vec_push(a, s->atoms, ((satom){0}));
  vec_push(a, s->monos, ((smono){0}));
  map_put(s->mono_ids, "", 0, 0);
  vec_push(a, s->polys, ((spoly){0})); /* sz 0 means none */
  vec_push(a, s->facts_ids, 0);
  *slot = s;
  return s;
}
void sym_overflow(symtab *s) {
  if (!s->soft) ctx_fail(s->c, E_SHAPE, "a size overflows 64 bits");
  s->overflowed = true;
}
static uint32_t mono_intern(symtab *s, const atom *a, const uint8_t *e, uint32_t n) {
  uint8_t key[64 * 5];
  if (n > 64) ctx_fail(s->c, E_SHAPE, "a size expression has more than 64 factors");
  for (uint32_t i = 0; i < n; i++) {
    memcpy(key + i * 5, &a[i], 4);
    key[i * 5 + 4] = e[i];
  }
  uint64_t id;
  if (map_get(s->mono_ids, key, n * 5, &id)) return (uint32_t)id;
  smono m = {n, arena_dup(s->a, a, n * sizeof *a), arena_dup(s->a, e, n)};
  id = s->monos.n;
  vec_push(s->a, s->monos, m);
  map_put(s->mono_ids, key, n * 5, id);
  return (uint32_t)id;
}
uint32_t mono_atom(symtab *s, atom a) { return mono_intern(s, &a, &(uint8_t){1}, 1); }
uint32_t mono_mul(symtab *s, uint32_t x, uint32_t y) {
  if (!x) return y;
  if (!y) return x;
  smono p = *sm(s, x), q = *sm(s, y);
  atom a[64];
  uint8_t e[64];
  uint32_t n = 0, i = 0, j = 0;
  while (i < p.n || j < q.n) {
    if (n == 64) ctx_fail(s->c, E_SHAPE, "a size expression has more than 64 factors");
    if (j == q.n || (i < p.n && p.a[i] < q.a[j])) a[n] = p.a[i], e[n++] = p.e[i++];
    else if (i == p.n || q.a[j] < p.a[i]) a[n] = q.a[j], e[n++] = q.e[j++];
    else {
      if (p.e[i] + q.e[j] > 255) ctx_fail(s->c, E_SHAPE, "a size expression has too large an exponent");
      a[n] = p.a[i], e[n++] = (uint8_t)(p.e[i++] + q.e[j++]);
    }
  }
  return mono_intern(s, a, e, n);
}
bool mono_div(symtab *s, uint32_t x, uint32_t y, uint32_t *out) {
  if (!y) return *out = x, true;
  smono p = *sm(s, x), q = *sm(s, y);
  atom a[64];
  uint8_t e[64];
  uint32_t n = 0, j = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    uint8_t k = p.e[i];
    if (j < q.n && q.a[j] == p.a[i]) {
      if (q.e[j] > k) return false;
      k = (uint8_t)(k - q.e[j++]);
    }
    if (k) a[n] = p.a[i], e[n++] = k;
  }
  if (j < q.n) return false;
  *out = mono_intern(s, a, e, n);
  return true;
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
    else qsort(t, n, sizeof *t, by_mono);
  }
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (m && t[m - 1].mono == t[i].mono) {
      if (!add64(t[m - 1].k, t[i].k, &t[m - 1].k)) sym_overflow(s);
    } else t[m++] = t[i];
    if (!t[m - 1].k) m--;
  }
  uint64_t id;
  /* keys without padding */
  uint8_t small[12 * 16], *key = m <= 16 ? small : arena_alloc(s->a, (size_t)m * 12);
  for (uint32_t i = 0; i < m; i++) {
    memcpy(key + i * 12, &t[i].mono, 4);
    memcpy(key + i * 12 + 4, &t[i].k, 8);
  }
  if (map_get(s->poly_ids, key, (size_t)m * 12, &id)) return (sz)id;
  spoly p = {m, arena_dup(s->a, t, m * sizeof *t), 0};
  for (uint32_t i = 0; i < m; i++)
    for (uint32_t j = 0; j < sm(s, t[i].mono)->n; j++) {
      uint8_t d = sa(s, sm(s, t[i].mono)->a[j])->depth;
      if (d > p.depth) p.depth = d;
    }
  id = s->polys.n;
  vec_push(s->a, s->polys, p);
  map_put(s->poly_ids, key, (size_t)m * 12, id);
  return (sz)id;
}
bool sym_const(symtab *s, sz e, int64_t *v) {
  const spoly *p = sp(s, e);
  if (p->n == 0) return *v = 0, true;
  if (p->n == 1 && p->t[0].mono == 0) return *v = p->t[0].k, true;
  return false;
}
atom sym_atom(symtab *s, satom a) {
  struct { uint8_t kind; uint8_t pad[3]; sz arg[3]; uint32_t data; int64_t lo, hi; } key;
  memset(&key, 0, sizeof key);
  key.kind = a.kind;
  memcpy(key.arg, a.arg, sizeof key.arg);
  key.data = a.data;
  if (a.kind == AT_DATA) key.lo = a.lo, key.hi = a.hi; /* the same number may mean different values in different modules: only equal ranges share */
  uint64_t id;
  bool shared = a.kind != AT_VAR && a.kind != AT_SYMBOL;
  if (shared && map_get(s->atom_ids, &key, sizeof key, &id)) return (atom)id;
  id = s->atoms.n;
  vec_push(s->a, s->atoms, a);
  if (shared) map_put(s->atom_ids, &key, sizeof key, id);
  return (atom)id;
}

/* ---- leaves ---- */
sz sym_int(ctx *c, int64_t v) {
  symtab *s = sym_tab(c);
  sterm t = {0, v};
  return sym_poly(s, &t, v ? 1 : 0);
}
sz sym_of_atom(ctx *c, atom a) {
  symtab *s = sym_tab(c);
  sterm t = {mono_atom(s, a), 1};
  return sym_poly(s, &t, 1);
}
sz sym_symbol(ctx *c, const char *name, int64_t lo, int64_t hi) {
  symtab *s = sym_tab(c);
  uint64_t id;
  name = intern(c, name);
  if (map_gets(s->symbols, name, &id)) {
    satom *a = sa(s, (atom)id);
    if (lo > a->lo) a->lo = lo;
    if (hi < a->hi) a->hi = hi;
    return sym_of_atom(c, (atom)id);
  }
  id = sym_atom(s, (satom){.kind = AT_SYMBOL, .name = name, .lo = lo, .hi = hi});
  map_puts(s->symbols, name, id);
  return sym_of_atom(c, (atom)id);
}
sz sym_fresh(ctx *c, const char *hint, int64_t lo, int64_t hi) {
  symtab *s = sym_tab(c);
  uint64_t id;
  const char *name = intern(c, hint);
  while (map_gets(s->symbols, name, &id)) name = arena_fmt(s->a, "%s_%u", hint, ++s->fresh);
  return sym_symbol(c, name, lo, hi);
}
sz sym_var(ctx *c, const char *name, sz extent) {
  symtab *s = sym_tab(c);
  int64_t v, lo, hi;
  if (sym_const(s, extent, &v) && v == 1) return sym_int(c, 0);
  sym_range(c, extent, &lo, &hi);
  return sym_of_atom(c, sym_atom(s, (satom){.kind = AT_VAR, .name = intern(c, name), .arg = {extent}, .lo = 0, .hi = hi == SYM_INF ? SYM_INF : max64(hi - 1, 0)}));
}
sz sym_data(ctx *c, uint32_t id, int64_t lo, int64_t hi) {
  if (lo > hi) lo = -SYM_INF, hi = SYM_INF;
  return sym_of_atom(c, sym_atom(sym_tab(c), (satom){.kind = AT_DATA, .name = "data", .data = id, .lo = lo, .hi = hi}));
}

/* ---- inspection ---- */
bool sym_is_int(ctx *c, sz e, int64_t *v) {
  int64_t x;
  return sym_const(sym_tab(c), e, v ? v : &x);
}
int64_t sym_int_or(ctx *c, sz e, int64_t otherwise) {
  int64_t v;
  return e && sym_const(sym_tab(c), e, &v) ? v : otherwise;
}
bool sym_is_atom(ctx *c, sz e, atom *a) {
  symtab *s = sym_tab(c);
  const spoly *p = sp(s, e);
  if (p->n != 1 || p->t[0].k != 1) return false;
  const smono *m = sm(s, p->t[0].mono);
  if (m->n != 1 || m->e[0] != 1) return false;
  *a = m->a[0];
  return true;
}
atom_kind sym_kind(ctx *c, atom a) { return sa(sym_tab(c), a)->kind; }
const char *sym_name(ctx *c, atom a) { const char *n = sa(sym_tab(c), a)->name; return n ? n : ""; }
sz sym_extent(ctx *c, atom v) { return sa(sym_tab(c), v)->arg[0]; }
uint32_t sym_data_id(ctx *c, atom a) { return sa(sym_tab(c), a)->data; }
uint32_t sym_args(ctx *c, atom a, sz out[3]) {
  satom *x = sa(sym_tab(c), a);
  uint32_t n = x->kind == AT_SEL ? 3 : x->kind == AT_DIV || x->kind == AT_MIN || x->kind == AT_MAX ? 2 : 0;
  memcpy(out, x->arg, n * sizeof(sz));
  return n;
}
bool sym_definition(ctx *c, atom a, sz *def) {
  satom *x = sa(sym_tab(c), a);
  if (x->kind != AT_SYMBOL || !x->def) return false;
  *def = x->def;
  return true;
}
uint32_t sym_nterms(ctx *c, sz e) { return sp(sym_tab(c), e)->n; }
int64_t sym_term(ctx *c, sz e, uint32_t i, uint32_t *natoms, const atom **atoms, const uint8_t **exps) {
  symtab *s = sym_tab(c);
  sterm t = sp(s, e)->t[i];
  const smono *m = sm(s, t.mono);
  *natoms = m->n, *atoms = m->a, *exps = m->e;
  return t.k;
}
static bool atom_uses(symtab *s, atom x, atom a, int kind) {
  if (a ? x == a : sa(s, x)->kind == kind) return true;
  satom q = *sa(s, x);
  uint32_t n = q.kind == AT_SEL ? 3 : q.kind == AT_DIV || q.kind == AT_MIN || q.kind == AT_MAX ? 2 : 0;
  for (uint32_t i = 0; i < n; i++)
    if (a ? sym_uses(s->c, q.arg[i], a) : sym_uses_kind(s->c, q.arg[i], kind)) return true;
  return false;
}
static bool uses(symtab *s, sz e, atom a, int kind) {
  const spoly *p = sp(s, e);
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++)
      if (atom_uses(s, m->a[j], a, kind)) return true;
  }
  return false;
}
bool sym_uses(ctx *c, sz e, atom a) { return uses(sym_tab(c), e, a, 0); }
bool sym_uses_kind(ctx *c, sz e, atom_kind k) { return uses(sym_tab(c), e, 0, (int)k); }
static void collect(symtab *s, sz e, atom_kind k, arena *a, u32vec *out) {
  const spoly *p = sp(s, e);
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      satom q = *sa(s, m->a[j]);
      if (q.kind == k) {
        uint32_t at = 0;
        while (at < out->n && out->v[at] < m->a[j]) at++;
        if (at == out->n || out->v[at] != m->a[j]) {
          vec_push(a, *out, 0);
          memmove(out->v + at + 1, out->v + at, (out->n - 1 - at) * sizeof *out->v);
          out->v[at] = m->a[j];
        }
      }
      uint32_t n = q.kind == AT_SEL ? 3 : q.kind == AT_DIV || q.kind == AT_MIN || q.kind == AT_MAX ? 2 : 0;
      for (uint32_t z = 0; z < n; z++) collect(s, q.arg[z], k, a, out);
    }
  }
}
void sym_atoms(ctx *c, sz e, atom_kind k, arena *a, u32vec *out) { collect(sym_tab(c), e, k, a, out); }
bool sym_linear(ctx *c, sz e, atom a, sz *coef, sz *rest) {
  symtab *s = sym_tab(c);
  spoly p = *sp(s, e);
  sterm sc[32], sr[32], *tc = p.n <= 32 ? sc : NEWN(s->a, sterm, p.n), *tr = p.n <= 32 ? sr : NEWN(s->a, sterm, p.n);
  uint32_t nc = 0, nr = 0, ma = mono_atom(s, a), q;
  for (uint32_t i = 0; i < p.n; i++) {
    smono m = *sm(s, p.t[i].mono);
    bool hit = false;
    for (uint32_t j = 0; j < m.n; j++) {
      if (m.a[j] == a) {
        if (m.e[j] > 1) return false;
        hit = true;
      } else if (atom_uses(s, m.a[j], a, 0)) return false;
    }
    if (hit) {
      mono_div(s, p.t[i].mono, ma, &q);
      tc[nc++] = (sterm){q, p.t[i].k};
    } else tr[nr++] = p.t[i];
  }
  *coef = sym_poly(s, tc, nc);
  *rest = sym_poly(s, tr, nr);
  return true;
}

/* ---- ranges: intervals with saturation ---- */
static int64_t sat_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t r;
  bool inf = a == SYM_INF || a == -SYM_INF || b == SYM_INF || b == -SYM_INF;
  if (!inf && mul64(a, b, &r)) return r > SYM_INF ? SYM_INF : r < -SYM_INF ? -SYM_INF : r;
  return (a < 0) == (b < 0) ? SYM_INF : -SYM_INF;
}
static int64_t sat_add(int64_t a, int64_t b) { /* infinities of opposite sign do not meet: lows add with lows */
  if (a == SYM_INF || b == SYM_INF) return SYM_INF;
  if (a == -SYM_INF || b == -SYM_INF) return -SYM_INF;
  int64_t r;
  if (add64(a, b, &r)) return r == INT64_MIN ? -SYM_INF : r;
  return a > 0 ? SYM_INF : -SYM_INF;
}
static void atom_range(symtab *s, atom x, int64_t *lo, int64_t *hi) {
  satom q = *sa(s, x);
  int64_t al, ah, bl, bh;
  *lo = q.lo, *hi = q.hi;
  switch (q.kind) {
  case AT_DIV:
    sym_range(s->c, q.arg[0], &al, &ah);
    sym_range(s->c, q.arg[1], &bl, &bh);
    if (bl <= 0) {
      *lo = -SYM_INF, *hi = SYM_INF;
      return;
    }
    *lo = al == -SYM_INF ? -SYM_INF : al >= 0 ? (bh == SYM_INF ? 0 : floordiv64(al, bh)) : floordiv64(al, bl);
    *hi = ah == SYM_INF ? SYM_INF : ah >= 0 ? floordiv64(ah, bl) : (bh == SYM_INF ? -1 : floordiv64(ah, bh));
    return;
  case AT_MIN:
  case AT_MAX:
    sym_range(s->c, q.arg[0], &al, &ah);
    sym_range(s->c, q.arg[1], &bl, &bh);
    if (q.kind == AT_MIN) *lo = min64(al, bl), *hi = min64(ah, bh);
    else *lo = max64(al, bl), *hi = max64(ah, bh);
    return;
  case AT_SEL:
    sym_range(s->c, q.arg[1], &al, &ah);
    sym_range(s->c, q.arg[2], &bl, &bh);
    *lo = min64(al, bl), *hi = max64(ah, bh);
    return;
  default: return;
  }
}
void sym_range(ctx *c, sz e, int64_t *lo, int64_t *hi) {
  symtab *s = sym_tab(c);
  spoly p = *sp(s, e);
  int64_t L = 0, H = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    smono m = *sm(s, p.t[i].mono);
    int64_t l = 1, h = 1;
    for (uint32_t j = 0; j < m.n; j++) {
      int64_t al, ah;
      atom_range(s, m.a[j], &al, &ah);
      for (uint8_t z = 0; z < m.e[j]; z++) {
        int64_t q[4] = {sat_mul(l, al), sat_mul(l, ah), sat_mul(h, al), sat_mul(h, ah)};
        l = min64(min64(q[0], q[1]), min64(q[2], q[3]));
        h = max64(max64(q[0], q[1]), max64(q[2], q[3]));
        if (z == 1 && m.e[j] == 2 && l < 0) l = 0; /* a square */
      }
    }
    int64_t x = sat_mul(l, p.t[i].k), y = sat_mul(h, p.t[i].k);
    L = sat_add(L, min64(x, y));
    H = sat_add(H, max64(x, y));
  }
  *lo = L, *hi = H;
}
