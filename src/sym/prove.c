/* The prover: is e >= 0 under the current facts? Goal-directed Fourier-Motzkin: take the highest atom x of the goal, p = c*x + r with c of known sign, and replace x by a bound: an index by its range, a size by its lower
 * bound, a floor by the inequalities that define it (exactly when c is 1 or -1), min and max by their arms, ?: by cases, anything by a fact that is linear in it. What is left, a polynomial in sizes, holds if all
 * coefficients are non-negative after shifting every size by its lower bound. Every rule is sound; the search is bounded by depth and steps. */
#include "sym/sym_in.h"

enum { DEPTH = 14, STEPS = 400 };
typedef struct pr { symtab *s; ctx *c; VEC(sz) facts; int steps; } pr;

static bool goal(pr *k, sz p, int depth);
static bool with_fact(pr *k, sz fact, sz p, int depth) {
  uint32_t n = k->facts.n;
  vec_push(k->s->a, k->facts, fact);
  bool ok = goal(k, p, depth);
  k->facts.n = n;
  return ok;
}
static bool shifted(pr *k, sz p) { /* sizes only, all coefficients >= 0 once each is lower bound + something */
  spoly q = *sp(k->s, p);
  u32vec at = {0};
  for (uint32_t i = 0; i < q.n; i++) {
    const smono *m = sm(k->s, q.t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      bool have = false;
      for (uint32_t z = 0; z < at.n; z++) have |= at.v[z] == m->a[j];
      if (!have) vec_push(k->s->a, at, m->a[j]);
      const satom *x = sa(k->s, m->a[j]);
      if (x->lo == -SYM_INF || (x->kind != AT_SYMBOL && x->kind != AT_DATA && x->kind != AT_VAR)) return false;
    }
  }
  for (uint32_t z = 0; z < at.n; z++) {
    int64_t lo = sa(k->s, at.v[z])->lo;
    if (!lo) continue;
    /* x := x + lo, term by term through powers */
    sz x = sym_addi(k->c, sym_of_atom(k->c, at.v[z]), lo), sum = sym_int(k->c, 0);
    spoly cur = *sp(k->s, p);
    for (uint32_t i = 0; i < cur.n; i++) {
      smono m = *sm(k->s, cur.t[i].mono);
      sz t = sym_int(k->c, cur.t[i].k);
      for (uint32_t j = 0; j < m.n; j++)
        for (uint8_t e = 0; e < m.e[j]; e++) t = sym_mul(k->c, t, m.a[j] == at.v[z] ? x : sym_of_atom(k->c, m.a[j]));
      sum = sym_add(k->c, sum, t);
    }
    p = sum;
  }
  q = *sp(k->s, p);
  for (uint32_t i = 0; i < q.n; i++)
    if (q.t[i].k < 0) return false;
  return true;
}
static int sign_of(pr *k, sz c, int depth) {
  int64_t v;
  if (sym_const(k->s, c, &v)) return v >= 0 ? 1 : -1;
  if (goal(k, c, depth + 1)) return 1;
  if (goal(k, sym_neg(k->c, c), depth + 1)) return -1;
  return 0;
}
static bool positive(pr *k, sz c, int depth) {
  int64_t v;
  if (sym_const(k->s, c, &v)) return v > 0;
  return goal(k, sym_addi(k->c, c, -1), depth + 1);
}
/* goal with b*x replaced by `bound` (b > 0): c*x + r >= 0 follows from c*bound + b*r >= 0 */
static bool by_bound(pr *k, sz c, sz r, sz b, sz bound, int depth) {
  int64_t v;
  ctx *x = k->c;
  sz q;
  if (sym_const(k->s, b, &v) && v == 1) return goal(k, sym_add(x, sym_mul(x, c, bound), r), depth + 1);
  if (sym_exact_div(x, c, b, &q)) return goal(k, sym_add(x, sym_mul(x, q, bound), r), depth + 1);
  return goal(k, sym_add(x, sym_mul(x, c, bound), sym_mul(x, b, r)), depth + 1);
}
static bool goal(pr *k, sz p, int depth) {
  symtab *s = k->s;
  ctx *c = k->c;
  int64_t lo, hi;
  if (sym_const(s, p, &lo)) return lo >= 0;
  sym_range(c, p, &lo, &hi);
  if (lo >= 0) return true;
  if (hi < 0) return false;
  if (--k->steps < 0 || depth > DEPTH || s->overflowed) return false;
  if (shifted(k, p)) return true;
  for (uint32_t i = 0; i < k->facts.n; i++) {
    int64_t d;
    if (sym_const(s, sym_sub(c, p, k->facts.v[i]), &d) && d >= 0) return true;
  }
  u32vec at = {0}; /* atoms of the goal itself, highest first */
  spoly q = *sp(s, p);
  for (uint32_t i = 0; i < q.n; i++) {
    smono m = *sm(s, q.t[i].mono);
    for (uint32_t j = 0; j < m.n; j++) {
      uint32_t z = 0;
      while (z < at.n && at.v[z] > m.a[j]) z++;
      if (z < at.n && at.v[z] == m.a[j]) continue;
      vec_push(s->a, at, 0);
      for (uint32_t w = at.n - 1; w > z; w--) at.v[w] = at.v[w - 1];
      at.v[z] = m.a[j];
    }
  }
  for (uint32_t i = 0; i < at.n; i++) {
    atom a = at.v[i];
    satom x = *sa(s, a);
    sz cf, r;
    /* linear in a as a factor; inside other atoms it may occur again (those come first, being higher) */
    {
      bool square = false;
      sterm tc[64], tr[64];
      uint32_t nc = 0, nr = 0, ma = mono_atom(s, a);
      q = *sp(s, p);
      if (q.n > 64) return false;
      for (uint32_t t = 0; t < q.n; t++) {
        smono m = *sm(s, q.t[t].mono);
        uint8_t e = 0;
        for (uint32_t j = 0; j < m.n; j++)
          if (m.a[j] == a) e = m.e[j];
        if (e > 1) square = true;
        if (e == 0) tr[nr++] = q.t[t];
        else {
          uint32_t mm;
          mono_div(s, q.t[t].mono, ma, &mm);
          tc[nc++] = (sterm){mm, q.t[t].k};
        }
      }
      if (square) continue;
      cf = sym_poly(s, tc, nc);
      r = sym_poly(s, tr, nr);
    }
    if (x.kind == AT_SEL) {
      if (with_fact(k, x.arg[0], sym_add(c, sym_mul(c, cf, x.arg[1]), r), depth + 1) &&
          with_fact(k, sym_addi(c, sym_neg(c, x.arg[0]), -1), sym_add(c, sym_mul(c, cf, x.arg[2]), r), depth + 1))
        return true;
      continue;
    }
    int sg = sign_of(k, cf, depth);
    if (!sg) continue;
    sz one = sym_int(c, 1);
    if (x.kind == (sg > 0 ? AT_MIN : AT_MAX)) { /* must hold for each arm, under "this arm wins" */
      sz d = sym_sub(c, x.arg[0], x.arg[1]), nd = sym_neg(c, d);
      bool mx = x.kind == AT_MAX;
      if (with_fact(k, mx ? d : nd, sym_add(c, sym_mul(c, cf, x.arg[0]), r), depth + 1) && with_fact(k, mx ? nd : d, sym_add(c, sym_mul(c, cf, x.arg[1]), r), depth + 1)) return true;
      continue;
    }
    if (x.kind == AT_MIN || x.kind == AT_MAX) { /* any arm is a bound; so is their mean */
      if (by_bound(k, cf, r, one, x.arg[0], depth) || by_bound(k, cf, r, one, x.arg[1], depth)) return true;
      if (by_bound(k, cf, r, sym_int(c, 2), sym_add(c, x.arg[0], x.arg[1]), depth)) return true;
    }
    if (x.kind == AT_DIV && positive(k, x.arg[1], depth)) {
      int64_t cv;
      if (sym_const(s, cf, &cv) && (cv == 1 || cv == -1)) { /* exact: a//b + r >= 0 iff a + b*r >= 0; r - a//b >= 0 iff b*r + b-1 - a >= 0 */
        sz br = sym_mul(c, x.arg[1], r);
        sz g = cv == 1 ? sym_add(c, x.arg[0], br) : sym_sub(c, sym_addi(c, sym_add(c, br, x.arg[1]), -1), x.arg[0]);
        if (goal(k, g, depth + 1)) return true;
      }
      sz bound = sg > 0 ? sym_addi(c, sym_sub(c, x.arg[0], x.arg[1]), 1) : x.arg[0];
      if (by_bound(k, cf, r, x.arg[1], bound, depth)) return true;
      if (sg > 0 && goal(k, x.arg[0], depth + 1) && by_bound(k, cf, r, one, sym_int(c, 0), depth)) return true;
    }
    if (x.kind == AT_VAR) {
      if (by_bound(k, cf, r, one, sg > 0 ? sym_int(c, 0) : sym_addi(c, x.arg[0], -1), depth)) return true;
    } else if (x.kind == AT_SYMBOL || x.kind == AT_DATA) {
      int64_t b = sg > 0 ? x.lo : x.hi;
      if (b != SYM_INF && b != -SYM_INF && by_bound(k, cf, r, one, sym_int(c, b), depth)) return true;
    }
    for (uint32_t f = 0; f < k->facts.n; f++) {
      sz fc, fr;
      int64_t fv;
      sz fact = k->facts.v[f];
      if (!sym_linear(c, fact, a, &fc, &fr) || !sym_const(s, fc, &fv) || fv == 0 || (fv > 0) != (sg > 0)) continue;
      /* fv*x + fr >= 0: |fv|*x >= -fr, or |fv|*x <= fr. Each fact once on a path */
      for (uint32_t z = f; z + 1 < k->facts.n; z++) k->facts.v[z] = k->facts.v[z + 1];
      k->facts.n--;
      bool ok = by_bound(k, cf, r, sym_int(c, fv > 0 ? fv : -fv), fv > 0 ? sym_neg(c, fr) : fr, depth);
      k->facts.n++;
      for (uint32_t z = k->facts.n - 1; z > f; z--) k->facts.v[z] = k->facts.v[z - 1];
      k->facts.v[f] = fact;
      if (ok) return true;
    }
    if (x.kind == AT_VAR) break; /* an index goes first */
  }
  return false;
}
bool sym_ge0(ctx *c, sz e) {
  symtab *s = sym_tab(c);
  int64_t lo, hi;
  if (s->substituted) e = sym_canon(c, e);
  if (sym_const(s, e, &lo)) return lo >= 0;
  sym_range(c, e, &lo, &hi);
  if (lo >= 0) return true;
  if (hi < 0) return false;
  uint64_t key[2] = {e, s->facts_id}, known;
  if (map_get(s->proofs, key, sizeof key, &known)) return known != 0;
  pr k = {.s = s, .c = c, .steps = STEPS};
  for (uint32_t i = 0; i < s->facts.n; i++) vec_push(s->a, k.facts, s->facts.v[i]);
  /* ranges that are in use are not empty: extent - 1 >= 0 */
  u32vec vars = {0};
  sym_atoms(c, e, AT_VAR, s->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++) {
    sz ext = sa(s, vars.v[i])->arg[0];
    if (!sym_is_int(c, ext, NULL)) vec_push(s->a, k.facts, sym_addi(c, ext, -1));
  }
  bool outer = s->soft, before = s->overflowed;
  s->soft = true;
  bool ok = goal(&k, e, 0);
  s->soft = outer;
  if (s->overflowed) ok = false;
  s->overflowed = outer ? s->overflowed : before;
  map_put(s->proofs, key, sizeof key, ok);
  return ok;
}
/* b - a - less, or 0 when that overflows (bounds like INT64_MAX): then the ranges alone must decide */
static sz difference(ctx *c, sz a, sz b, int64_t less) {
  symtab *s = sym_tab(c);
  bool soft = s->soft, over = s->overflowed;
  s->soft = true;
  s->overflowed = false;
  sz d = sym_addi(c, sym_sub(c, b, a), -less);
  if (s->overflowed) d = 0;
  s->soft = soft;
  s->overflowed = over;
  return d;
}
bool sym_lt(ctx *c, sz a, sz b) {
  sz d = difference(c, a, b, 1);
  if (d) return sym_ge0(c, d);
  int64_t al, ah, bl, bh;
  sym_range(c, a, &al, &ah);
  sym_range(c, b, &bl, &bh);
  return ah < bl;
}
bool sym_le(ctx *c, sz a, sz b) {
  if (a == b) return true;
  sz d = difference(c, a, b, 0);
  if (d) return sym_ge0(c, d);
  int64_t al, ah, bl, bh;
  sym_range(c, a, &al, &ah);
  sym_range(c, b, &bl, &bh);
  return ah <= bl;
}
bool sym_eq(ctx *c, sz a, sz b) {
  if (a == b) return true;
  sz d = difference(c, sym_canon(c, b), sym_canon(c, a), 0);
  int64_t v;
  if (!d) return false;
  if (sym_is_int(c, d, &v)) return v == 0;
  return sym_ge0(c, d) && sym_ge0(c, sym_neg(c, d));
}
bool sym_ne(ctx *c, sz a, sz b) { return sym_lt(c, a, b) || sym_lt(c, b, a); }

/* ---- facts ---- */
uint32_t sym_mark(ctx *c) { return sym_tab(c)->facts.n; }
uint32_t sym_push(ctx *c, sz ge0) {
  symtab *s = sym_tab(c);
  uint32_t mark = s->facts.n;
  vec_push(s->a, s->facts, ge0);
  uint64_t parts[2] = {s->facts_id, ge0};
  s->facts_id = hash_bytes(parts, sizeof parts, 7) | 1;
  vec_push(s->a, s->facts_ids, s->facts_id);
  return mark;
}
void sym_pop(ctx *c, uint32_t mark) {
  symtab *s = sym_tab(c);
  s->facts.n = mark;
  s->facts_ids.n = mark + 1;
  s->facts_id = s->facts_ids.v[mark];
}
void sym_assume_eq(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  a = sym_canon(c, a), b = sym_canon(c, b);
  if (a == b) return;
  atom x;
  for (int side = 0; side < 2; side++) {
    sz one = side ? b : a, other = side ? a : b;
    if (sym_is_atom(c, one, &x) && sa(s, x)->kind == AT_SYMBOL && !sym_uses(c, other, x)) {
      sa(s, x)->subst = other;
      s->substituted = true;
      s->proofs = map_new(s->a);
      return;
    }
  }
  sym_push(c, sym_sub(c, a, b));
  sym_push(c, sym_sub(c, b, a));
}
