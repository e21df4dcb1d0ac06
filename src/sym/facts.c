/* What is assumed at the moment?
 *
 * A stack of facts p >= 0, and permanent knowledge below it. A fact that bounds one atom alone becomes that
 * atom's range and leaves the search; any other is kept for the prover. What follows from a fact by taking
 * apart a min, max or // in it is pushed with it (so `min(512, S) - S >= 0` gives S <= 512, and S//3 == 2 gives 6
 * <= S <= 8). Permanent equalities with a size alone on one side are substitutions (sym_canon).
 */
#include "sym/sym_in.h"

/* Terms of a fact that is taken apart: each min and max in it gives two facts of nearly the same length, and so on,
 * and what is true of one term among so many decides little. */
enum { LONG = 32 };

static uint32_t state_after(symtab *s, uint32_t state, sz p) {
  uint64_t key = (uint64_t)state << 32 | p, id;
  if (map_getu(s->states, key, &id)) return (uint32_t)id;
  map_putu(s->states, key, ++s->nstates);
  return s->nstates;
}
/* Permanent knowledge changed: every state gets a new number. */
void sym_learned(symtab *s) {
  s->root = s->state = ++s->nstates;
  for (uint32_t i = 0; i < s->facts.n; i++) {
    s->facts.v[i].before = s->state;
    s->state = state_after(s, s->state, s->facts.v[i].p);
  }
}
/* p = k*x + r for one atom x: x >= ceil(-r/k) or x <= floor(r/-k); p is primitive, so k is 1 or -1. */
static bool bounds_atom(symtab *s, sz e, atom *a, bool *from_below, int64_t *at) {
  const spoly *p = sp(s, e);
  if (p->n == 0 || p->n > 2 || p->deg != 1) return false;
  int64_t r = 0;
  if (p->n == 2) {
    if (p->t[0].mono != 0) return false;
    r = p->t[0].k;
  }
  const sterm *t = &p->t[p->n - 1];
  if ((t->k != 1 && t->k != -1) || r == INT64_MIN) return false;
  *a = sm(s, t->mono)->a[0];
  *from_below = t->k == 1;
  *at = t->k == 1 ? -r : r;
  return true;
}
static void narrow(satom *x, bool from_below, int64_t at, bool permanent) {
  int64_t *lo = permanent ? &x->lo : &x->flo, *hi = permanent ? &x->hi : &x->fhi;
  if (from_below)
    *lo = max64(*lo, at);
  else
    *hi = min64(*hi, at);
}
static void assume(symtab *s, sz p, int depth, bool permanent);
/* Consequences of p >= 0 for what is inside its min, max and //. */
static void consequences(symtab *s, sz p, int depth, bool permanent) {
  ctx *c = s->c;
  const spoly *q = sp(s, p);
  bool outer = s->soft;
  s->soft = true;
  for (uint32_t i = 0; i < q->n; i++) {
    const smono *m = sm(s, q->t[i].mono);
    if (m->deg != 1) continue;
    const satom *x = sa(s, m->a[0]);
    int64_t k = q->t[i].k, lo, hi;
    sz out[2] = {0, 0};
    s->overflowed = false;
    if ((x->kind == AT_MIN && k > 0) || (x->kind == AT_MAX && k < 0)) {
      sz rest = sym_sub(c, p, sym_muli(c, x->self, k));
      for (int j = 0; j < 2; j++) out[j] = sym_add(c, rest, sym_muli(c, x->arg[j], k));
    } else if (x->kind == AT_MIN || x->kind == AT_MAX) { /* one of the arms does it: the other one, if one cannot */
      sz rest = sym_sub(c, p, sym_muli(c, x->self, k)), arm[2];
      for (int j = 0; j < 2; j++) arm[j] = sym_add(c, rest, sym_muli(c, x->arg[j], k));
      for (int j = 0; j < 2 && !s->overflowed; j++)
        if (sym_interval(s, arm[j], &lo, &hi), hi < 0) out[0] = arm[1 - j];
    } else if (x->kind == AT_DIV && (k == 1 || k == -1)) {
      sym_interval(s, x->arg[1], &lo, &hi);
      if (lo < 1) continue;
      sz br = sym_mul(c, x->arg[1], sym_sub(c, p, sym_muli(c, x->self, k)));
      out[0] = k == 1 ? sym_add(c, x->arg[0], br) : sym_sub(c, sym_addi(c, sym_add(c, br, x->arg[1]), -1), x->arg[0]);
    }
    for (int j = 0; j < 2 && !s->overflowed; j++)
      if (out[j]) assume(s, out[j], depth + 1, permanent);
  }
  s->overflowed = false;
  s->soft = outer;
}
static void push(symtab *s, sz p, uint32_t number) {
  fact f = {.p = p, .number = number, .before = s->state};
  bool below;
  int64_t at;
  if (bounds_atom(s, p, &f.bound, &below, &at)) {
    satom *x = sa(s, f.bound);
    f.flo = x->flo, f.fhi = x->fhi;
    narrow(x, below, at, false);
  }
  vec_push(s->a, s->facts, f);
  s->state = state_after(s, s->state, p);
}
static void assume(symtab *s, sz p, int depth, bool permanent) {
  int64_t lo, hi, at;
  p = sym_primitive(s, p);
  sym_interval(s, p, &lo, &hi);
  if (lo >= 0) return;              /* the fact is known already */
  if (sym_const(s, p, &lo)) return; /* false: what it guards is never evaluated */
  if (!permanent)
    push(s, p, ++s->nfacts);
  else {
    bool below;
    atom x;
    if (bounds_atom(s, p, &x, &below, &at))
      narrow(sa(s, x), below, at, true);
    else
      vec_push(s->a, s->perm, p);
    sym_learned(s);
  }
  if (depth < 4 && sp(s, p)->n <= (depth ? LONG / 4 : LONG)) consequences(s, p, depth, permanent);
}
/* Takes the facts off the stack for a moment, for what must hold without them. Nothing in between may unwind and
 * hope to find them again. */
fact *facts_suspend(symtab *s, uint32_t *n) {
  *n = s->facts.n;
  if (!*n) return NULL;
  fact *saved = arena_dup(s->a, s->facts.v, *n * sizeof *saved);
  sym_pop(s->c, 0);
  return saved;
}
void facts_resume(symtab *s, const fact *saved, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) push(s, saved[i].p, saved[i].number);
}
uint32_t sym_state(ctx *c) { return sym_tab(c)->state; }
uint32_t sym_mark(ctx *c) { return sym_tab(c)->facts.n; }
uint32_t sym_newest(ctx *c) {
  symtab *s = sym_tab(c);
  return s->facts.n ? s->facts.v[s->facts.n - 1].number : 0;
}
bool sym_still(ctx *c, uint32_t mark, uint32_t newest) {
  symtab *s = sym_tab(c);
  return !mark || (mark <= s->facts.n && s->facts.v[mark - 1].number == newest);
}
uint32_t sym_push(ctx *c, sz ge0) {
  symtab *s = sym_tab(c);
  uint32_t mark = s->facts.n;
  assume(s, sym_canon(c, ge0), 0, false);
  return mark;
}
uint32_t sym_push_ne(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  uint32_t mark = s->facts.n;
  if (sym_le(c, b, a))
    sym_push(c, sym_addi(c, sym_sub(c, a, b), -1));
  else if (sym_le(c, a, b))
    sym_push(c, sym_addi(c, sym_sub(c, b, a), -1));
  return mark;
}
void sym_pop(ctx *c, uint32_t mark) {
  symtab *s = sym_tab(c);
  s->soft = s->overflowed = false, s->trial = 0; /* left over when memory ran out inside a proof */
  while (s->facts.n > mark) {
    const fact *f = &s->facts.v[--s->facts.n];
    s->state = f->before;
    if (f->bound && !EK_PLANTED("sym-facts")) sa(s, f->bound)->flo = f->flo, sa(s, f->bound)->fhi = f->fhi;
  }
}

/* ---- permanent knowledge --------------------------------------------------------------------- */
static bool size_alone(symtab *s, sz e, sz other, atom *x) {
  return sym_single(s, e, x) && sa(s, *x)->kind == AT_SYMBOL && !sa(s, *x)->def && !sym_uses(s->c, other, *x);
}
static void meet(symtab *s, atom x, sz e) { /* the range of e holds for x */
  int64_t lo, hi;
  sym_interval(s, e, &lo, &hi);
  lo = max64(lo, sa(s, x)->lo), hi = min64(hi, sa(s, x)->hi);
  if (lo <= hi) sa(s, x)->lo = lo, sa(s, x)->hi = hi;
}
static void learn_eq(symtab *s, sz a, sz b) {
  ctx *c = s->c;
  a = sym_canon(c, a), b = sym_canon(c, b);
  if (a == b) return;
  atom x, y;
  bool ax = size_alone(s, a, b, &x), by = size_alone(s, b, a, &y);
  if (ax) meet(s, x, b);
  if (by) meet(s, y, a);
  if (ax && by && y > x) ax = false; /* the younger of two sizes is replaced */
  if (ax)
    sa(s, x)->subst = b;
  else if (by)
    sa(s, y)->subst = a;
  s->substituted |= ax || by;
  sym_learned(s);
  if (ax || by) {
    for (uint32_t i = 0; i < s->perm.n; i++) s->perm.v[i] = sym_primitive(s, sym_canon(c, s->perm.v[i]));
    return;
  }
  assume(s, sym_sub(c, a, b), 0, true);
  assume(s, sym_sub(c, b, a), 0, true);
}
void sym_assume_eq(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  uint32_t n;
  fact *facts = facts_suspend(s, &n);
  learn_eq(s, a, b);
  for (uint32_t i = 0; i < n; i++) push(s, sym_primitive(s, sym_canon(c, facts[i].p)), facts[i].number);
}
