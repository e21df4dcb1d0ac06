/* Which sizes of a program have a value where, and in which form are they written? One answer for who builds the
 * steps, who reads them, and who verifies them. */
#include "program/build.h"

const psize *program_size(const program *p, atom symbol) {
  for (uint32_t i = 0; i < p->sizes.n; i++)
    if (p->sizes.v[i].symbol == symbol) return &p->sizes.v[i];
  return NULL;
}
static bool known_in(const program *p, const u32vec *known, sz e, int depth) {
  u32vec atoms = {0};
  if (depth > 64) return false;
  sym_atoms(p->c, e, AT_SYMBOL, p->a, &atoms);
  for (uint32_t i = 0; i < atoms.n; i++) {
    bool have = false;
    for (uint32_t j = 0; j < known->n && !have; j++) have = known->v[j] == atoms.v[i];
    if (have) continue;
    const psize *s = program_size(p, atoms.v[i]);
    if (!s || !s->def || !known_in(p, known, s->def, depth + 1)) return false;
  }
  return true;
}
bool program_known(const program *p, const u32vec *known, sz e) {
  return sym_is_int(p->c, e, NULL) || known_in(p, known, e, 0);
}
void program_entry_sizes(const program *p, u32vec *known, arena *a) {
  for (uint32_t i = 0; i < p->inputs.n - p->states.n; i++)
    for (uint32_t d = 0; d < p->inputs.v[i].rank; d++) {
      atom s;
      if (sym_is_atom(p->c, p->inputs.v[i].dims[d], &s) && sym_kind(p->c, s) == AT_SYMBOL) vec_push(a, *known, s);
    }
  if (p->threads) vec_push(a, *known, p->threads);
}
/* A late size without a bound. */
static bool is_open(const program *p, const psize *s) {
  if (s->bound || s->def || s->symbol == p->threads) return false;
  for (uint32_t i = 0; i < p->inputs.n - p->states.n; i++)
    for (uint32_t d = 0; d < p->inputs.v[i].rank; d++) {
      atom a;
      if (sym_is_atom(p->c, p->inputs.v[i].dims[d], &a) && a == s->symbol) return false;
    }
  return true;
}
typedef struct bounds {
  const program *p; /* the program */
  sz as;            /* what has no bound is at most this; 0: stays in the formula */
} bounds;
static bool late_between(void *env, atom a, sz *lo, sz *hi) {
  const bounds *k = env;
  const program *p = k->p;
  const psize *s = program_size(p, a);
  if (!s || (!s->bound && !(k->as && is_open(p, s)))) return false;
  *lo = sym_int(p->c, s->lo), *hi = EK_PLANTED("program-bound") ? *lo : s->bound ? s->bound : k->as;
  return true;
}
sz program_bounded(const program *p, sz e) {
  bounds k = {p, 0};
  sz lo, hi;
  atom any;
  for (uint32_t i = 0; i < p->sizes.n && !k.as; i++)
    if (is_open(p, &p->sizes.v[i])) k.as = sym_fresh(p->c, "unbounded", EXPR_NO_BOUND, 2 * EXPR_NO_BOUND);
  sym_between(p->c, e, late_between, &k, &lo, &hi);
  if (!k.as || !sym_is_atom(p->c, k.as, &any) || !sym_uses(p->c, hi, any)) return hi;
  k.as = 0; /* the formula keeps the late size, as its bound would depend on it */
  sym_between(p->c, e, late_between, &k, &lo, &hi);
  return hi;
}
static bool open_in(const program *p, sz e, int depth) {
  u32vec atoms = {0};
  if (depth > 64) return false;
  sym_atoms(p->c, e, AT_SYMBOL, p->a, &atoms);
  for (uint32_t i = 0; i < atoms.n; i++) {
    const psize *s = program_size(p, atoms.v[i]);
    if (s && (s->def ? open_in(p, s->def, depth + 1) : is_open(p, s))) return true;
  }
  return false;
}
bool program_open(const program *p, sz e) { return open_in(p, program_bounded(p, e), 0); }
/* The levels above make sizes at different times, and learn more about ranges in between. Here every part is made
 * again with all that is known in the end, as a reader of the text will make it. */
typedef struct simple {
  map *done; /* atoms that were rebuilt -> what they became */
} simple;
static sz again(ctx *c, void *env, atom a) {
  simple *k = env;
  uint64_t have;
  sz g[3];
  if (sym_kind(c, a) == AT_SYMBOL) return sym_of_atom(c, a);
  if (map_getu(k->done, a, &have)) return (sz)have;
  uint32_t n = sym_args(c, a, g);
  if (!n) return 0;
  for (uint32_t i = 0; i < n; i++) g[i] = sym_subst(c, g[i], again, env);
  sz r = sym_kind(c, a) == AT_DIV   ? sym_div(c, g[0], g[1])
         : sym_kind(c, a) == AT_MIN ? sym_min(c, g[0], g[1])
         : sym_kind(c, a) == AT_MAX ? sym_max(c, g[0], g[1])
                                    : sym_sel(c, g[0], g[1], g[2]);
  map_putu(k->done, a, r);
  return r;
}
sz program_simplest(const program *p, map *done, sz e) {
  simple k = {done};
  return e ? sym_subst(p->c, e, again, &k) : 0;
}
