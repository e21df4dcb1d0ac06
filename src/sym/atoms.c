/* Leaves (numbers, sizes, variables, data) and questions about the structure of an expression. */
#include "sym/sym_in.h"
#include <string.h>

sz sym_int(ctx *c, int64_t v) { return sym_num(sym_tab(c), v); }
sz sym_of_atom(ctx *c, atom a) { return sa(sym_tab(c), a)->self; }
sz sym_symbol(ctx *c, const char *name, int64_t lo, int64_t hi) {
  symtab *s = sym_tab(c);
  uint64_t id;
  if (map_gets(s->symbols, name, &id)) {
    satom *a = sa(s, (atom)id);
    if (lo <= a->lo && hi >= a->hi) return a->self;
    if (lo > a->hi || hi < a->lo)
      ctx_fail(c, E_SHAPE, "size %s is declared as %lld .. %lld and as %lld .. %lld: no value fits both", name,
               (long long)a->lo, (long long)a->hi, (long long)lo, (long long)hi);
    a->lo = max64(a->lo, lo), a->hi = min64(a->hi, hi);
    sym_learned(s);
    return a->self;
  }
  name = intern(c, name);
  id = sym_atom(s, &(satom){.kind = AT_SYMBOL, .name = name, .lo = lo, .hi = hi});
  map_puts(s->symbols, name, id);
  return sa(s, (atom)id)->self;
}
sz sym_fresh(ctx *c, const char *hint, int64_t lo, int64_t hi) {
  symtab *s = sym_tab(c);
  uint64_t id;
  const char *name = hint;
  while (map_gets(s->symbols, name, &id)) name = arena_fmt(s->a, "%s_%u", hint, ++s->fresh);
  sz e = sym_symbol(c, name, lo, hi);
  atom a;
  if (sym_is_atom(c, e, &a)) sa(s, a)->hint = intern(c, hint);
  return e;
}
void sym_renew(ctx *c) {
  symtab *s = sym_tab(c);
  map *kept = map_new(s->a);
  for (uint32_t i = 0; i < map_count(s->symbols); i++) {
    size_t n;
    uint64_t id;
    const char *name = map_key(s->symbols, i, &n, &id);
    if (!sa(s, (atom)id)->hint) map_puts(kept, name, id);
  }
  s->symbols = kept;
}
sz sym_var(ctx *c, const char *name, sz extent) {
  symtab *s = sym_tab(c);
  int64_t v, lo, hi;
  if (sym_const(s, extent, &v) && v == 1) return sym_num(s, 0);
  sym_interval(s, extent, &lo, &hi);
  if (lo < 1) s->loose_vars++;
  return sa(s, sym_atom(s, &(satom){.kind = AT_VAR, .name = intern(c, name), .arg = {extent}}))->self;
}
sz sym_data(ctx *c, uint32_t id, int64_t lo, int64_t hi) {
  if (lo > hi) lo = -SYM_INF, hi = SYM_INF;
  symtab *s = sym_tab(c);
  return sa(s, sym_atom(s, &(satom){.kind = AT_DATA, .name = "", .data = id, .lo = lo, .hi = hi}))->self;
}

/* ---- inspection ------------------------------------------------------------------------------ */
bool sym_is_int(ctx *c, sz e, int64_t *v) {
  int64_t x;
  return sym_const(sym_tab(c), e, v ? v : &x);
}
int64_t sym_int_or(ctx *c, sz e, int64_t otherwise) {
  int64_t v;
  return e && sym_const(sym_tab(c), e, &v) ? v : otherwise;
}
bool sym_is_atom(ctx *c, sz e, atom *a) { return sym_single(sym_tab(c), e, a); }
atom_kind sym_kind(ctx *c, atom a) { return sa(sym_tab(c), a)->kind; }
const char *sym_name(ctx *c, atom a) {
  const char *n = sa(sym_tab(c), a)->name;
  return n ? n : "";
}
bool sym_named(ctx *c, atom a, const char *name) {
  const satom *x = sa(sym_tab(c), a);
  return !strcmp(sym_name(c, a), name) || (x->hint && !strcmp(x->hint, name));
}
sz sym_extent(ctx *c, atom v) { return sa(sym_tab(c), v)->arg[0]; }
uint32_t sym_data_id(ctx *c, atom a) { return sa(sym_tab(c), a)->data; }
uint32_t sym_args(ctx *c, atom a, sz out[3]) {
  const satom *x = sa(sym_tab(c), a);
  uint32_t n = sym_nargs(x->kind);
  memcpy(out, x->arg, n * sizeof(sz));
  return n;
}
bool sym_definition(ctx *c, atom a, sz *def) {
  const satom *x = sa(sym_tab(c), a);
  if (x->kind != AT_SYMBOL || !x->def) return false;
  *def = x->def;
  return true;
}
uint32_t sym_nterms(ctx *c, sz e) { return sp(sym_tab(c), e)->n; }
int64_t sym_term(ctx *c, sz e, uint32_t i, uint32_t *natoms, const atom **atoms, const uint8_t **exps) {
  symtab *s = sym_tab(c);
  const sterm *t = &sp(s, e)->t[i];
  const smono *m = sm(s, t->mono);
  *natoms = m->n, *atoms = m->a, *exps = m->e;
  return t->k;
}

/* Walks over shared parts remember where they were: a list while they were in few places, then a set of all atoms. */
typedef struct seen {
  symtab *s;      /* the table */
  uint64_t *bits; /* a bit per atom; NULL: the list is in use */
  uint32_t n;     /* atoms in the list */
  atom few[24];   /* the list */
} seen;
static bool first_time(seen *w, atom a) {
  uint64_t bit = 1ull << a % 64;
  if (!w->bits) {
    for (uint32_t i = 0; i < w->n; i++)
      if (w->few[i] == a) return false;
    if (w->n < sizeof w->few / sizeof *w->few) return w->few[w->n++] = a, true;
    w->bits = NEWN(w->s->a, uint64_t, w->s->natoms / 64 + 1);
    for (uint32_t i = 0; i < w->n; i++) w->bits[w->few[i] / 64] |= 1ull << w->few[i] % 64;
  }
  if (w->bits[a / 64] & bit) return false;
  w->bits[a / 64] |= bit;
  return true;
}
static bool inside(seen *w, sz e, atom a) {
  symtab *s = w->s;
  const spoly *p = sp(s, e);
  if (!(p->bloom >> a % 64 & 1)) return false;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      if (m->a[j] == a) return true;
      const satom *x = sa(s, m->a[j]);
      if ((!x->depth && !x->def) || !(x->bloom >> a % 64 & 1) || !first_time(w, m->a[j])) continue;
      for (uint32_t k = 0; k < sym_nargs(x->kind); k++)
        if (inside(w, x->arg[k], a)) return true;
      if (x->def && inside(w, x->def, a)) return true;
    }
  }
  return false;
}
bool sym_uses(ctx *c, sz e, atom a) {
  seen w = {.s = sym_tab(c)};
  return inside(&w, e, a);
}
bool sym_uses_kind(ctx *c, sz e, atom_kind k) { return sp(sym_tab(c), e)->kinds >> k & 1; }
static void collect(seen *w, sz e, atom_kind k, arena *a, u32vec *out) {
  symtab *s = w->s;
  const spoly *p = sp(s, e);
  if (!(p->kinds >> k & 1)) return;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      const satom *x = sa(s, m->a[j]);
      if (!(x->kinds >> k & 1)) continue;
      if (x->kind == k) {
        uint32_t at = out->n;
        while (at > 0 && out->v[at - 1] > m->a[j]) at--;
        if (at == 0 || out->v[at - 1] != m->a[j]) {
          vec_push(a, *out, 0);
          memmove(out->v + at + 1, out->v + at, (out->n - 1 - at) * sizeof *out->v);
          out->v[at] = m->a[j];
        }
      }
      if (!x->depth || !first_time(w, m->a[j])) continue;
      for (uint32_t z = 0; z < sym_nargs(x->kind); z++) collect(w, x->arg[z], k, a, out);
    }
  }
}
void sym_atoms(ctx *c, sz e, atom_kind k, arena *a, u32vec *out) {
  seen w = {.s = sym_tab(c)};
  collect(&w, e, k, a, out);
}
bool sym_plain_coef(ctx *c, sz e, atom a, int64_t *k) {
  symtab *s = sym_tab(c);
  const spoly *p = sp(s, e);
  *k = 0;
  if (p->kinds & ~(1u << AT_VAR | 1u << AT_SYMBOL)) return false;
  for (uint32_t i = 0; i < p->n && p->bloom >> a % 64 & 1; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      if (m->a[j] != a && !sa(s, m->a[j])->def) continue;
      if (m->a[j] != a || m->n > 1 || m->e[0] > 1) return false;
      *k = p->t[i].k;
    }
  }
  return true;
}
bool sym_linear(ctx *c, sz e, atom a, sz *coef, sz *rest) {
  symtab *s = sym_tab(c);
  const spoly *p = sp(s, e);
  if (!(p->bloom >> a % 64 & 1)) {
    if (rest) *rest = e;
    return *coef = sym_num(s, 0), true;
  }
  sterm sc[32], sr[32], *tc = p->n <= 32 ? sc : sym_scratch(s, p->n), *tr = p->n <= 32 ? sr : sym_scratch(s, p->n);
  uint32_t nc = 0, nr = 0, ma = sa(s, a)->mono, q;
  seen w = {.s = s};
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    bool hit = false;
    for (uint32_t j = 0; j < m->n; j++) {
      const satom *x = sa(s, m->a[j]);
      if (m->a[j] == a) {
        if (m->e[j] > 1) return false;
        hit = true;
      } else if ((x->depth || x->def) && inside(&w, x->self, a))
        return false;
    }
    if (hit) {
      mono_div(s, p->t[i].mono, ma, &q);
      tc[nc++] = (sterm){q, p->t[i].k};
    } else
      tr[nr++] = p->t[i];
  }
  *coef = sym_poly(s, tc, nc);
  if (rest) *rest = sym_poly_sorted(s, tr, nr);
  return true;
}
