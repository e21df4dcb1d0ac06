/* Floor division and the digits of mixed radix.
 *
 * a // b, in this order: terms divisible by b leave (so does the multiple of b in the constant); the interval or
 * a proof puts the rest between two multiples; common factors cancel, also with what is provably smaller
 * than the factor dropped: (g*y + r) // (g*b) = y // b for 0 <= r < g; nested floors join: (x//a + k) // b = (x +
 * k*a) // (a*b); a mostly negative dividend turns its sign: a // b = -((b - 1 - a) // b), so that both
 * ways to write a ceiling meet. What is left is an atom.
 */
#include "sym/sym_in.h"
#include <string.h>

enum { STACK_TERMS = 64 };

/* e = d*q + r. For a constant d the constant of r is in 0 .. d-1. */
static void split_terms(symtab *s, sz e, sz d, sz *q, sz *r) {
  int64_t k;
  if (!sym_const(s, d, &k)) {
    poly_divide(s, e, d, q, r);
    return;
  }
  const spoly *p = sp(s, e);
  sterm bq[STACK_TERMS], br[STACK_TERMS], *tq = p->n <= STACK_TERMS ? bq : sym_scratch(s, p->n),
                                          *tr = p->n <= STACK_TERMS ? br : sym_scratch(s, p->n);
  uint32_t nq = 0, nr = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    sterm t = p->t[i];
    int64_t f = t.mono == 0    ? floordiv64(t.k, k)
                : t.k % k == 0 ? t.k / k
                               : 0,
            left = t.mono == 0 ? floormod64(t.k, k)
                   : f         ? 0
                               : t.k;
    if (f) tq[nq++] = (sterm){t.mono, f};
    if (left) tr[nr++] = (sterm){t.mono, left};
  }
  *q = sym_poly_sorted(s, tq, nq);
  *r = nq ? sym_poly_sorted(s, tr, nr) : e;
}
/* All of e's terms over the constant k and the monomial m; the constant rounds down. */
static sz over(symtab *s, sz e, int64_t k, uint32_t m) {
  const spoly *p = sp(s, e);
  sterm buf[STACK_TERMS], *t = p->n <= STACK_TERMS ? buf : sym_scratch(s, p->n);
  uint32_t n = 0, q;
  for (uint32_t i = 0; i < p->n; i++) {
    int64_t f = floordiv64(p->t[i].k, k);
    if (f && mono_div(s, p->t[i].mono, m, &q)) t[n++] = (sterm){q, f};
  }
  return sym_poly(s, t, n);
}
/* Is a // b one number for all values? */
static bool one_quotient(symtab *s, sz a, sz b, bool constant, int64_t *q) {
  int64_t lo, hi, bl, bh;
  sym_interval(s, a, &lo, &hi);
  sym_interval(s, b, &bl, &bh);
  if (bl >= 1) {
    if (constant && lo != -SYM_INF && hi != SYM_INF && floordiv64(lo, bl) == floordiv64(hi, bl))
      return *q = floordiv64(lo, bl), true;
    if (lo >= 0 && hi < bl) return *q = 0, true;
    if (lo >= -bl && hi < 0) return *q = -1, true;
  }
  if (bh < 1 || lo >= bh || (hi < 0 && hi < -bh)) return false;
  if (constant && sym_hopeless(s, a)) return false;
  if (hi >= 0 && sym_within(s, a, b)) return *q = 0, true;
  /* 0 > a >= -b */
  if (lo < 0 && sym_lt(s->c, a, sym_num(s, 0)) && sym_ge0(s->c, sym_add(s->c, a, b))) return *q = -1, true;
  return false;
}
/* The greatest constant and monomial that divide every term of e (its constant too when with_constant). */
static void content(symtab *s, sz e, bool with_constant, uint64_t *k, uint32_t *m, bool *any) {
  const spoly *p = sp(s, e);
  for (uint32_t i = 0; i < p->n; i++) {
    if (!p->t[i].mono && !with_constant) continue;
    *k = sym_gcd(sym_mag(p->t[i].k), *k);
    *m = *any ? mono_gcd(s, *m, p->t[i].mono) : p->t[i].mono;
    *any = true;
  }
}
static bool cancel_common(symtab *s, sz a, sz b, bool constant, sz *out) {
  uint64_t k = 0;
  uint32_t m = 0;
  bool any = false;
  content(s, b, true, &k, &m, &any);
  content(s, a, !constant, &k, &m, &any);
  if ((k <= 1 && !m) || k > INT64_MAX) return false;
  *out = sym_div(s->c, over(s, a, (int64_t)k, m), over(s, b, (int64_t)k, m));
  return true;
}
/* a = g*y + r with 0 <= r < g and b = g*d: y // d. Candidates for g: what a term of a shares with b. */
static bool cancel_part(symtab *s, sz a, sz b, bool constant, sz *out) {
  const spoly *p = sp(s, a);
  if (p->n < 2 || sp(s, b)->n != 1 || p->n > STACK_TERMS) return false;
  sterm d = sp(s, b)->t[0];
  if (!sym_positive(s, b, a)) return false;
  int tries = 4;
  for (uint32_t i = 0; i < p->n && tries; i++) {
    if (!p->t[i].mono) continue;
    uint64_t g64 = sym_gcd(sym_mag(p->t[i].k), sym_mag(d.k));
    int64_t g = (int64_t)g64;
    uint32_t m = constant ? 0 : mono_gcd(s, p->t[i].mono, d.mono), q;
    if (g64 > INT64_MAX || (g == 1 && !m) || (g == d.k && m == d.mono)) continue;
    tries--;
    sterm ty[STACK_TERMS], tr[STACK_TERMS];
    uint32_t ny = 0, nr = 0;
    for (uint32_t j = 0; j < p->n; j++) {
      sterm t = p->t[j];
      if (!mono_div(s, t.mono, m, &q) || (t.k % g && t.mono))
        tr[nr++] = t;
      else {
        int64_t f = floordiv64(t.k, g);
        if (f) ty[ny++] = (sterm){q, f};
        if (t.k - f * g) tr[nr++] = (sterm){t.mono, t.k - f * g};
      }
    }
    sterm tg = {m, g};
    sz r = sym_poly(s, tr, nr), gz = sym_poly_sorted(s, &tg, 1);
    int64_t lo, hi;
    sym_interval(s, r, &lo, &hi);
    if (constant ? lo < 0 || hi >= g : lo < 0 || !sym_within(s, r, gz)) continue;
    sterm td = {0, d.k / g};
    mono_div(s, d.mono, m, &td.mono);
    sz y = sym_poly(s, ty, ny);
    *out = sym_div(s->c, y, sym_poly_sorted(s, &td, 1));
    return true;
  }
  return false;
}
/* (x//d + k) // b */
static bool nested(symtab *s, sz a, sz b, sz *out) {
  const spoly *p = sp(s, a);
  int64_t k = 0;
  if (p->n == 2 && p->t[0].mono == 0)
    k = p->t[0].k;
  else if (p->n != 1)
    return false;
  const sterm *t = &p->t[p->n - 1];
  const smono *m = sm(s, t->mono);
  if (t->k != 1 || m->deg != 1) return false;
  const satom *x = sa(s, m->a[0]);
  if (x->kind != AT_DIV || !sym_positive(s, x->arg[1], a) || !sym_positive(s, b, a)) return false;
  ctx *c = s->c;
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  sz top = sym_add(c, x->arg[0], sym_muli(c, x->arg[1], k)), bottom = sym_mul(c, x->arg[1], b);
  bool fits = !s->overflowed;
  s->soft = outer, s->overflowed = before;
  if (fits) *out = sym_div(c, top, bottom);
  return fits;
}
static bool mostly_negative(symtab *s, sz a) {
  const spoly *p = sp(s, a);
  int balance = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->t[i].mono) balance += p->t[i].k < 0 ? 1 : -1;
  return balance > 0;
}
static sz divide(symtab *s, sz a, sz b, bool constant) {
  ctx *c = s->c;
  sz q, r, out;
  int64_t k;
  split_terms(s, a, b, &q, &r);
  if (sp(s, r)->n == 0) return q;
  if (r != a) return sym_add(c, q, sym_div(c, r, b));
  if (one_quotient(s, a, b, constant, &k)) return sym_num(s, k);
  if (cancel_common(s, a, b, constant, &out) || cancel_part(s, a, b, constant, &out) || nested(s, a, b, &out))
    return out;
  if (mostly_negative(s, a) && sym_positive(s, b, a))
    return sym_neg(c, sym_div(c, sym_sub(c, sym_addi(c, b, -1), a), b));
  return sym_compound(s, AT_DIV, a, b, 0);
}
sz sym_div(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  int64_t x, y;
  bool constant = sym_const(s, b, &y);
  if (constant && y == 0) ctx_fail(c, E_SHAPE, "division by zero in a size: (%s) // 0", sym_str(c, a));
  if (constant && y == 1) return a;
  if (constant && y < 0) {
    if (y != INT64_MIN) return sym_div(c, sym_neg(c, a), sym_num(s, -y));
    sym_overflow(s);
  }
  if (constant && sym_const(s, a, &x)) return sym_num(s, EK_PLANTED("sym-div") ? x / y : floordiv64(x, y));
  if (sp(s, a)->n == 0) return a;
  if (a == b) return sym_num(s, 1);
  sz r;
  if (built_get(s, M_DIV, a, b, 0, &r)) return r;
  return built_put(s, M_DIV, a, b, 0, divide(s, a, b, constant));
}
sz sym_mod(ctx *c, sz a, sz b) { return sym_sub(c, a, sym_mul(c, b, sym_div(c, a, b))); }
sz sym_ceildiv(ctx *c, sz a, sz b) { return sym_neg(c, sym_div(c, sym_neg(c, a), b)); }

/* ---- digits ---------------------------------------------------------------------------------- */
/* 0 <= r < d, perhaps after moving a multiple of d to q. */
static bool settle(symtab *s, sz d, int64_t k, sz *q, sz *r) {
  ctx *c = s->c;
  int64_t lo, hi;
  if (sp(s, *r)->n == 0) return true;
  sym_interval(s, *r, &lo, &hi);
  if (k && lo != -SYM_INF && hi != SYM_INF && floordiv64(lo, k) == floordiv64(hi, k)) {
    int64_t f = floordiv64(lo, k);
    *q = sym_addi(c, *q, f);
    *r = sym_addi(c, *r, -f * k);
    return true;
  }
  if (hi >= 0 && sym_within(s, *r, d)) return true;
  if (k || lo >= 0 || hi >= 0) return false;
  sz up = sym_add(c, *r, d);
  if (!sym_within(s, up, d)) return false;
  *q = sym_addi(c, *q, -1);
  *r = up;
  return true;
}
/* Would v = inner*v1 + v0 make r a digit? coef*inner == d, so coef*inner*v1 leaves; rest + coef*v0 must lie between
 * two multiples of d. */
static bool splits(symtab *s, sz r, sz d, int64_t k, atom v, sz *inner) {
  ctx *c = s->c;
  sz coef, rest, outer, ext = sa(s, v)->arg[0];
  int64_t one, ci = 0, lo, hi;
  if (!sym_linear(c, r, v, &coef, &rest)) return false;
  bool negative = sym_const(s, coef, &ci) && ci < 0;
  if (!sym_exact_div(c, d, negative ? sym_neg(c, coef) : coef, inner) || !sym_exact_div(c, ext, *inner, &outer))
    return false;
  if ((sym_const(s, *inner, &one) && one <= 1) || (sym_const(s, outer, &one) && one <= 1)) return false;
  /* rest + coef*v0 at the last v0 */
  sz reach = sym_mul(c, coef, sym_addi(c, *inner, -1)), far = sym_add(c, rest, reach);
  if (k) {
    int64_t l2, h2;
    sym_interval(s, rest, &lo, &hi);
    sym_interval(s, far, &l2, &h2);
    lo = min64(lo, l2), hi = max64(hi, h2);
    if (lo != -SYM_INF && hi != SYM_INF) return floordiv64(lo, k) == floordiv64(hi, k);
  }
  return !negative && sym_ge0(c, coef) && sym_ge0(c, rest) && sym_lt(c, far, d);
}
bool sym_divmod(ctx *c, sz e, sz d, sz *q, sz *r, atom *split_var, sz *split_inner) {
  symtab *s = sym_tab(c);
  atom none;
  sz dummy;
  if (!split_var) split_var = &none;
  if (!split_inner) split_inner = &dummy;
  *split_var = 0, *split_inner = 0;
  int64_t k = 0;
  if (sym_const(s, d, &k) && k == 1) return *q = e, *r = sym_num(s, 0), true;
  if (sym_const(s, d, &k) && k <= 0) return *q = *r = 0, false;
  split_terms(s, e, d, q, r);
  if (settle(s, d, k, q, r)) return true;
  const spoly *p = sp(s, *r);
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) {
      sz inner;
      if (sa(s, m->a[j])->kind != AT_VAR || m->e[j] != 1 || !splits(s, *r, d, k, m->a[j], &inner)) continue;
      *split_var = m->a[j], *split_inner = inner;
      return false;
    }
  }
  return false;
}
