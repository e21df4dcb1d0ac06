/* The prover: is e >= 0 under the current facts?
 *
 * First the cheap answers: the interval says yes, or says no where it is exact; a sample point that satisfies the
 * facts says no. Then a goal-directed Fourier-Motzkin elimination: take the highest atom x of the goal,
 * p = k*x + r with k of known sign, and replace x by a bound: an index by its range, a size by its lower bound, a
 * floor by the inequalities that define it (exactly when k is 1 or -1), min and max by their arms (or by
 * cases), ?: by cases, anything by a fact that is linear in it. A polynomial in leaves holds if all coefficients
 * are non-negative once every leaf is written as its lower bound and the rest.
 * Every rule is sound, each fact serves once on a path, an index goes before the sizes of its range, and the
 * search is bounded by depth and steps. Answers are remembered by state. Polynomials of the search are dropped
 * afterwards (table_trial); no atom is made here.
 */
#include "sym/sym_in.h"

enum { DEPTH = 14, STEPS = 400, FACTS = 64, STACK_TERMS = 64 };
typedef struct search {
  symtab *s;             /* the table */
  ctx *c;                /* context */
  sz fact[FACTS];        /* facts that may help */
  uint64_t bloom[FACTS]; /* atoms of each fact, as in spoly */
  uint32_t n;            /* number of facts */
  int steps;             /* steps so far */
} search;
typedef struct path {
  uint64_t live; /* facts not used yet, as bits */
  uint8_t mask;  /* sample points that satisfy all facts, as bits */
  int depth;     /* steps from the root */
} path;

static bool goal(search *k, sz p, path at);

/* Overflow on the way to a subgoal: that way is closed, no more. */
static bool failed(search *k) {
  bool was = k->s->overflowed;
  k->s->overflowed = false;
  return was;
}
static bool sub(search *k, sz p, path at) {
  if (failed(k)) return false;
  at.depth++;
  return goal(k, p, at);
}
static bool refuted(symtab *s, sz p, uint8_t mask) {
  if (!mask) return false;
  const int64_t *v;
  mask &= sym_samples(s, p, &v);
  for (int i = 0; i < SAMPLES; i++)
    if ((mask >> i & 1) && v[i] < 0) return true;
  return false;
}
static void add_fact(search *k, sz f, path *at) {
  if (k->n == FACTS || failed(k)) return;
  const int64_t *v;
  f = sym_primitive(k->s, f);
  at->mask &= sym_samples(k->s, f, &v);
  for (int i = 0; i < SAMPLES; i++)
    if ((at->mask >> i & 1) && v[i] < 0) at->mask &= (uint8_t)~(1u << i);
  k->fact[k->n] = f, k->bloom[k->n] = sp(k->s, f)->bloom;
  at->live |= 1ull << k->n++;
}
static bool with_fact(search *k, sz fact, sz p, path at) {
  if (failed(k)) return false; /* one of the two did not fit */
  uint32_t n = k->n;
  add_fact(k, fact, &at);
  bool ok = sub(k, p, at);
  k->n = n;
  return ok;
}
/* p as a polynomial in (x - lower bound of x): are all coefficients >= 0? Only of interest where there are products. */
static bool shifted(search *k, sz p) {
  symtab *s = k->s;
  ctx *c = k->c;
  const spoly *q = sp(s, p);
  if (q->deg < 2 || q->deg > 8 || q->n > 32) return false;
  sz sum = sym_num(s, 0);
  for (uint32_t i = 0; i < q->n; i++) {
    const smono *m = sm(s, q->t[i].mono);
    sz t = sym_num(s, q->t[i].k);
    for (uint32_t j = 0; j < m->n; j++) {
      int64_t lo, hi;
      sz x = sa(s, m->a[j])->self;
      sym_interval(s, x, &lo, &hi);
      if (lo == -SYM_INF) return false;
      x = sym_addi(c, x, lo);
      for (uint8_t e = 0; e < m->e[j]; e++) t = sym_mul(c, t, x);
    }
    sum = sym_add(c, sum, t);
    if (sp(s, sum)->n > 256) return false;
  }
  if (failed(k)) return false;
  q = sp(s, sum);
  for (uint32_t i = 0; i < q->n; i++)
    if (q->t[i].k < 0 && !(EK_PLANTED("sym-prove") && !q->t[i].mono)) return false;
  return true;
}
static int sign_of(search *k, sz c, path at) {
  int64_t v;
  if (sym_const(k->s, c, &v)) return v >= 0 ? 1 : -1;
  if (sub(k, c, at)) return 1;
  return sub(k, sym_neg(k->c, c), at) ? -1 : 0;
}
static bool positive(search *k, sz c, path at) {
  int64_t v;
  return sym_const(k->s, c, &v) ? v > 0 : sub(k, sym_addi(k->c, c, -1), at);
}
/* b*x is bounded by `bound` on the side that hurts, b > 0: c*x + r >= 0 follows from c*bound + b*r >= 0 */
static bool by_bound(search *k, sz c, sz r, sz b, sz bound, path at) {
  int64_t v;
  ctx *x = k->c;
  sz q;
  if (sym_const(k->s, b, &v) && v == 1) return sub(k, sym_add(x, sym_mul(x, c, bound), r), at);
  if (sym_exact_div(x, c, b, &q)) return sub(k, sym_add(x, sym_mul(x, q, bound), r), at);
  return sub(k, sym_add(x, sym_mul(x, c, bound), sym_mul(x, b, r)), at);
}
/* p = cf*a + r as a polynomial; a may occur again inside other atoms (those come first, being higher) */
static bool factor_out(symtab *s, sz p, atom a, sz *cf, sz *r) {
  const spoly *q = sp(s, p);
  sterm tc[STACK_TERMS], tr[STACK_TERMS];
  uint32_t nc = 0, nr = 0, ma = sa(s, a)->mono;
  for (uint32_t t = 0; t < q->n; t++) {
    const smono *m = sm(s, q->t[t].mono);
    uint8_t e = 0;
    for (uint32_t j = 0; j < m->n; j++)
      if (m->a[j] == a) e = m->e[j];
    if (e > 1) return false;
    if (e == 0)
      tr[nr++] = q->t[t];
    else
      mono_div(s, q->t[t].mono, ma, &tc[nc].mono), tc[nc++].k = q->t[t].k;
  }
  *cf = sym_poly(s, tc, nc);
  *r = sym_poly_sorted(s, tr, nr);
  return true;
}
static bool by_floor(search *k, const satom *x, sz cf, sz r, int sg, path at) {
  ctx *c = k->c;
  int64_t cv;
  if (!positive(k, x->arg[1], at)) return false;
  /* exact: a//b + r >= 0 iff a + b*r >= 0; r - a//b >= 0 iff b*r + b-1 - a >= 0 */
  if (sym_const(k->s, cf, &cv) && (cv == 1 || cv == -1)) {
    sz br = sym_mul(c, x->arg[1], r);
    if (sub(k, cv == 1 ? sym_add(c, x->arg[0], br) : sym_sub(c, sym_addi(c, sym_add(c, br, x->arg[1]), -1), x->arg[0]),
            at))
      return true;
  }
  if (by_bound(k, cf, r, x->arg[1], sg > 0 ? sym_addi(c, sym_sub(c, x->arg[0], x->arg[1]), 1) : x->arg[0], at))
    return true;
  return sg > 0 && sub(k, x->arg[0], at) && sub(k, r, at); /* a >= 0 gives a//b >= 0 */
}
static bool by_facts(search *k, atom a, sz cf, sz r, int sg, path at) {
  symtab *s = k->s;
  for (uint32_t f = 0; f < k->n; f++) {
    if (!(at.live >> f & 1) || !(k->bloom[f] >> a % 64 & 1)) continue;
    sz fc, fr;
    int64_t fv;
    if (sp(s, k->fact[f])->n > STACK_TERMS || !factor_out(s, k->fact[f], a, &fc, &fr) || !sym_const(s, fc, &fv) ||
        fv == 0 || (fv > 0) != (sg > 0))
      continue;
    /* fv*a + fr >= 0: |fv|*a >= -fr, or |fv|*a <= fr */
    path next = at;
    next.live &= ~(1ull << f);
    if (by_bound(k, cf, r, sym_num(s, fv > 0 ? fv : -fv), fv > 0 ? sym_neg(k->c, fr) : fr, next)) return true;
  }
  return false;
}
/* One atom's turn. */
static bool eliminate(search *k, sz p, atom a, path at) {
  symtab *s = k->s;
  ctx *c = k->c;
  const satom *x = sa(s, a);
  sz cf, r;
  if (!factor_out(s, p, a, &cf, &r)) return false;
  if (x->kind == AT_SEL)
    return with_fact(k, x->arg[0], sym_add(c, sym_mul(c, cf, x->arg[1]), r), at) &&
           with_fact(k, sym_addi(c, sym_neg(c, x->arg[0]), -1), sym_add(c, sym_mul(c, cf, x->arg[2]), r), at);
  int sg = sign_of(k, cf, at);
  if (!sg) return false;
  sz one = sym_num(s, 1);
  if (x->kind == AT_MIN || x->kind == AT_MAX) {
    bool mx = x->kind == AT_MAX;
    if (mx == (sg > 0)) /* any arm is a bound; so is their mean */
      if (by_bound(k, cf, r, one, x->arg[0], at) || by_bound(k, cf, r, one, x->arg[1], at) ||
          by_bound(k, cf, r, sym_num(s, 2), sym_add(c, x->arg[0], x->arg[1]), at))
        return true;
    sz d = sym_sub(c, x->arg[0], x->arg[1]), nd = sym_neg(c, d); /* each arm counts where it wins */
    if (failed(k)) return false;
    if (with_fact(k, mx ? d : nd, sym_add(c, sym_mul(c, cf, x->arg[0]), r), at) &&
        with_fact(k, mx ? nd : d, sym_add(c, sym_mul(c, cf, x->arg[1]), r), at))
      return true;
  } else if (x->kind == AT_DIV && by_floor(k, x, cf, r, sg, at))
    return true;
  else if (x->kind == AT_VAR && by_bound(k, cf, r, one, sg > 0 ? sym_num(s, 0) : sym_addi(c, x->arg[0], -1), at))
    return true;
  int64_t lo, hi;
  sym_interval(s, x->self, &lo, &hi);
  if (sg > 0 ? lo != -SYM_INF : hi != SYM_INF)
    if (by_bound(k, cf, r, one, sym_num(s, sg > 0 ? lo : hi), at)) return true;
  return by_facts(k, a, cf, r, sg, at);
}
static bool no_fact_on(search *k, uint64_t bloom, path at) {
  for (uint32_t f = 0; f < k->n; f++)
    if ((at.live >> f & 1) && (k->bloom[f] & bloom)) return false;
  return true;
}
static bool goal(search *k, sz p, path at) {
  symtab *s = k->s;
  int64_t lo, hi, d;
  if (sym_const(s, p, &lo)) return lo >= 0;
  p = sym_primitive(s, p);
  sym_interval(s, p, &lo, &hi);
  if (lo >= 0) return true;
  const spoly *q = sp(s, p);
  if (hi < 0 || at.depth > DEPTH || q->n > STACK_TERMS || (q->box && no_fact_on(k, q->bloom, at)) ||
      refuted(s, p, at.mask))
    return false;
  if (--k->steps < 0) return false;
  if (shifted(k, p)) return true;
  for (uint32_t i = 0; i < k->n; i++)
    if ((at.live >> i & 1) && sym_const(s, sym_sub(k->c, p, k->fact[i]), &d) && d >= 0 && !failed(k)) return true;
  failed(k);
  atom done = UINT32_MAX; /* the goal's atoms, highest first */
  for (;;) {
    atom a = 0;
    for (uint32_t i = 0; i < q->n; i++) {
      const smono *m = sm(s, q->t[i].mono);
      for (uint32_t j = 0; j < m->n; j++)
        if (m->a[j] < done && m->a[j] > a) a = m->a[j];
    }
    if (!a) return false;
    if (eliminate(k, p, a, at)) return true;
    failed(k);
    /* variables are eliminated first; where that fails nothing else is tried */
    if (sa(s, a)->kind == AT_VAR || k->steps < 0) return false;
    done = a;
  }
}

/* ---- questions ------------------------------------------------------------------------------- */
static sz fact_at(symtab *s, uint32_t i, bool *is_bound) {
  uint32_t np = s->perm.n;
  *is_bound = i >= np && s->facts.v[i - np].bound;
  return i < np ? s->perm.v[i] : s->facts.v[i - np].p;
}
bool sym_hopeless(symtab *s, sz e) {
  const spoly *p = sp(s, e);
  if (!p->box) return false;
  bool bound;
  for (uint32_t i = 0; i < s->perm.n + s->facts.n; i++)
    if ((sp(s, fact_at(s, i, &bound))->bloom & p->bloom) && !bound) return false;
  return true;
}
/* Ranges in use are not empty: extent - 1 >= 0 for the variables of the goal and of the facts. */
static void nonempty(search *k, sz e, path *at) {
  symtab *s = k->s;
  u32vec vars = {0};
  uint32_t n = k->n;
  sym_atoms(k->c, e, AT_VAR, s->a, &vars);
  for (uint32_t i = 0; i < n; i++) sym_atoms(k->c, k->fact[i], AT_VAR, s->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++) {
    sz ext = sa(s, vars.v[i])->arg[0];
    int64_t lo, hi;
    sym_interval(s, ext, &lo, &hi);
    if (lo >= 1) continue;
    add_fact(k, sym_addi(k->c, ext, -1), at);
    if (sp(s, ext)->n != 1) continue;
    const smono *m = sm(s, sp(s, ext)->t[0].mono); /* a product of sizes is not 0: no factor is 0 */
    for (uint32_t j = 0; j < m->n && m->deg > 1; j++) {
      sym_interval(s, sa(s, m->a[j])->self, &lo, &hi);
      if (lo == 0) add_fact(k, sym_addi(k->c, sa(s, m->a[j])->self, -1), at);
    }
  }
}
/* context: an expression whose variables are in use besides those of e; or e itself */
static bool prove(symtab *s, sz e, sz context) {
  search k = {.s = s, .c = s->c, .steps = STEPS};
  path at = {0, sym_sample_mask(s), 0};
  bool bound;
  uint32_t total = s->perm.n + s->facts.n;
  for (uint32_t i = total; i-- > 0 && k.n < FACTS - 16;) { /* the youngest first; a bound is in the ranges already */
    sz f = fact_at(s, i, &bound);
    if (bound) continue;
    k.fact[k.n] = f, k.bloom[k.n] = sp(s, f)->bloom;
    at.live |= 1ull << k.n++;
  }
  if (context == e && refuted(s, e, at.mask)) return false;
  if (s->loose_vars) nonempty(&k, e, &at);
  if (context != e) nonempty(&k, context, &at);
  return goal(&k, e, at);
}
static bool ge0_where(ctx *c, sz e, sz context) {
  symtab *s = sym_tab(c);
  int64_t lo, hi;
  bool same = e == context;
  if (s->substituted) e = sym_canon(c, e);
  if (sym_const(s, e, &lo)) return lo >= 0;
  sym_interval(s, e, &lo, &hi);
  if (lo >= 0) return true;
  if (same || !s->loose_vars || !(sp(s, context)->kinds >> AT_VAR & 1)) context = e;
  if (hi < 0 || (context == e && sym_hopeless(s, e))) return false;
  uint32_t known, other = context == e ? 0 : context;
  if (memo_get(&s->proofs, e, s->state, other, 0, &known)) return known;
  bool outer = s->soft, before = s->overflowed, inner = s->trial != 0;
  s->soft = true, s->overflowed = false;
  trial t = {0};
  if (!inner) t = table_trial(s);
  bool ok = prove(s, e, context);
  if (!inner) table_undo(s, t);
  s->soft = outer, s->overflowed = before;
  if (!inner) memo_put(s, &s->proofs, e, s->state, other, 0, ok);
  return ok;
}
bool sym_ge0(ctx *c, sz e) { return ge0_where(c, e, e); }
bool sym_positive(symtab *s, sz e, sz context) {
  int64_t lo, hi;
  sym_interval(s, e, &lo, &hi);
  if (lo >= 1 || hi < 1) return lo >= 1;
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  sz d = sym_addi(s->c, e, -1);
  bool fits = !s->overflowed;
  s->soft = outer, s->overflowed = before;
  return fits && ge0_where(s->c, d, context);
}
bool sym_within(symtab *s, sz r, sz d) {
  int64_t lo, hi, k;
  sym_interval(s, r, &lo, &hi);
  if (hi < 0) return false;
  if (sym_const(s, d, &k)) {
    if (lo >= 0 && hi < k) return true;
    if (lo >= k || sym_hopeless(s, r)) return false;
  }
  return sym_ge0(s->c, r) && sym_lt(s->c, r, d);
}
/* a - b >= by: a difference that does not fit is not proved */
static bool difference_ge0(symtab *s, sz a, sz b, int64_t by, sz *d) {
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  *d = sym_addi(s->c, sym_sub(s->c, a, b), -by);
  bool fits = !s->overflowed;
  s->soft = outer, s->overflowed = before;
  return fits && sym_ge0(s->c, *d);
}
/* The difference is dropped again: most are asked about once. */
static bool at_least(ctx *c, sz a, sz b, int64_t by) {
  symtab *s = sym_tab(c);
  int64_t x, y, lo, hi, l2, h2;
  if (sym_const(s, a, &x) && sym_const(s, b, &y)) return (__int128)x - y >= by;
  sym_interval(s, a, &lo, &hi);
  sym_interval(s, b, &l2, &h2);
  if (lo != -SYM_INF && h2 != SYM_INF && (__int128)lo - h2 >= by) return true;
  if (hi != SYM_INF && l2 != -SYM_INF && (__int128)hi - l2 < by) return false;
  sz d;
  if (s->substituted || s->trial) return difference_ge0(s, a, b, by, &d); /* canonical forms may need new atoms */
  uint32_t known;
  if (memo_get(&s->proofs, a, s->state, b, (uint32_t)by + 1, &known)) return known;
  trial t = table_trial(s);
  bool ok = difference_ge0(s, a, b, by, &d);
  table_undo(s, t);
  memo_put(s, &s->proofs, a, s->state, b, (uint32_t)by + 1, ok);
  return ok;
}
bool sym_lt(ctx *c, sz a, sz b) { return at_least(c, b, a, 1); }
bool sym_le(ctx *c, sz a, sz b) { return a == b || at_least(c, b, a, 0); }
bool sym_eq(ctx *c, sz a, sz b) { return a == b || (at_least(c, a, b, 0) && at_least(c, b, a, 0)); }
bool sym_ne(ctx *c, sz a, sz b) {
  if (a == b) return false;
  symtab *s = sym_tab(c);
  int64_t lo, hi, l2, h2;
  sym_interval(s, a, &lo, &hi);
  sym_interval(s, b, &l2, &h2);
  if (hi < l2 || h2 < lo) return true;
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  sz d = sym_sub(c, a, b);
  bool fits = !s->overflowed;
  s->soft = outer, s->overflowed = before;
  if (!fits) return false;
  if (s->substituted) d = sym_canon(c, d);
  uint64_t g = 0; /* g*y + k is never 0 when g does not divide k */
  int64_t k = 0;
  const spoly *p = sp(s, d);
  for (uint32_t i = 0; i < p->n; i++)
    if (p->t[i].mono)
      g = sym_gcd(sym_mag(p->t[i].k), g);
    else
      k = p->t[i].k;
  if (p->n == 0) return false;
  if (g == 0 || (g > 1 && sym_mag(k) % g)) return true;
  return at_least(c, d, sym_num(s, 0), 1) || at_least(c, sym_num(s, 0), d, 1);
}
