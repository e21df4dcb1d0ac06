/* The ring: sums, products, exact division of polynomials. Constants and few terms are the common case and take no
 * memory beyond the result. */
#include "sym/sym_in.h"
#include <string.h>

enum { STACK_TERMS = 64 };

/* a + b or a - b */
static sz combine(symtab *s, sz a, sz b, bool minus) {
  const spoly *p = sp(s, a), *q = sp(s, b);
  sterm buf[STACK_TERMS], *t = p->n + q->n <= STACK_TERMS ? buf : sym_scratch(s, p->n + q->n);
  uint32_t n = 0, i = 0, j = 0;
  while (i < p->n || j < q->n) {
    int64_t x = 0, y = 0;
    uint32_t m;
    if (j == q->n || (i < p->n && p->t[i].mono < q->t[j].mono))
      m = p->t[i].mono, x = p->t[i++].k;
    else if (i == p->n || q->t[j].mono < p->t[i].mono)
      m = q->t[j].mono, y = q->t[j++].k;
    else
      m = p->t[i].mono, x = p->t[i++].k, y = q->t[j++].k;
    if (minus ? __builtin_sub_overflow(x, y, &x) : __builtin_add_overflow(x, y, &x)) sym_overflow(s);
    if (x) t[n++] = (sterm){m, x};
  }
  return sym_poly_sorted(s, t, n);
}
sz sym_add(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  const spoly *p = sp(s, a), *q = sp(s, b);
  if (p->n == 0) return b;
  if (q->n == 0) return a;
  int64_t x, y, r;
  if (sym_const(s, a, &x) && sym_const(s, b, &y)) {
    if (!add64(x, y, &r)) sym_overflow(s);
    return sym_num(s, r);
  }
  return combine(s, a, b, false);
}
sz sym_sub(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  if (a == b) return sym_num(s, 0);
  if (sp(s, b)->n == 0) return a;
  return combine(s, a, b, true);
}
sz sym_addi(ctx *c, sz a, int64_t k) { return k ? sym_add(c, a, sym_num(sym_tab(c), k)) : a; }
sz sym_muli(ctx *c, sz a, int64_t k) {
  symtab *s = sym_tab(c);
  if (k == 1) return a;
  if (k == 0) return sym_num(s, 0);
  const spoly *p = sp(s, a);
  sterm buf[STACK_TERMS], *t = p->n <= STACK_TERMS ? buf : sym_scratch(s, p->n);
  for (uint32_t i = 0; i < p->n; i++) {
    t[i].mono = p->t[i].mono;
    if (!mul64(p->t[i].k, k, &t[i].k)) {
      sym_overflow(s);
      t[i].k = 1;
    }
  }
  return sym_poly_sorted(s, t, p->n);
}
sz sym_neg(ctx *c, sz a) { return sym_muli(c, a, -1); }
sz sym_mul(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  int64_t k;
  if (sym_const(s, a, &k)) return sym_muli(c, b, k);
  if (sym_const(s, b, &k)) return sym_muli(c, a, k);
  if (a > b) {
    sz t = a;
    a = b, b = t;
  }
  uint32_t known;
  if (!s->soft && memo_get(&s->built, M_MUL, a, b, 0, &known)) return known;
  const spoly *p = sp(s, a), *q = sp(s, b);
  if ((uint64_t)p->n * q->n > MAX_TERMS) {
    sym_limit(s, "terms");
    return sym_num(s, 0);
  }
  sterm buf[STACK_TERMS], *t = p->n * q->n <= STACK_TERMS ? buf : sym_scratch(s, p->n * q->n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < q->n; j++, n++) {
      t[n].mono = mono_mul(s, p->t[i].mono, q->t[j].mono);
      if (!mul64(p->t[i].k, q->t[j].k, &t[n].k)) sym_overflow(s);
    }
  sz r = sym_poly(s, t, n);
  if (!s->soft) memo_put(s, &s->built, M_MUL, a, b, 0, r);
  return r;
}
sz sym_dot(ctx *c, sz base, const sz *x, const sz *k, uint32_t n) {
  symtab *s = sym_tab(c);
  sterm buf[STACK_TERMS];
  const spoly *p = sp(s, base);
  uint32_t m = 0;
  if (p->n > STACK_TERMS) {
    for (uint32_t i = 0; i < n; i++) base = sym_add(c, base, sym_mul(c, x[i], k[i]));
    return base;
  }
  memcpy(buf, p->t, p->n * sizeof *buf), m = p->n;
  for (uint32_t i = 0; i < n; i++) {
    int64_t by;
    sz y = x[i];
    if (!sym_const(s, k[i], &by)) y = sym_mul(c, x[i], k[i]), by = 1;
    const spoly *q = sp(s, y);
    if (m + q->n > STACK_TERMS)
      return sym_dot(c, sym_add(c, sym_poly(s, buf, m), sym_mul(c, x[i], k[i])), x + i + 1, k + i + 1, n - i - 1);
    for (uint32_t j = 0; j < q->n && by; j++, m++) {
      buf[m] = q->t[j];
      if (!mul64(q->t[j].k, by, &buf[m].k)) sym_overflow(s), buf[m].k = 1;
    }
  }
  return sym_poly(s, buf, m);
}
uint64_t sym_gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t t = a % b;
    a = b, b = t;
  }
  return a;
}
sz sym_primitive(symtab *s, sz e) {
  const spoly *p = sp(s, e);
  uint64_t g = 0;
  for (uint32_t i = 0; i < p->n && g != 1; i++)
    if (p->t[i].mono) g = sym_gcd(sym_mag(p->t[i].k), g);
  if (g <= 1 || g > INT64_MAX) return e;
  sterm buf[STACK_TERMS], *t = p->n <= STACK_TERMS ? buf : sym_scratch(s, p->n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    /* exact but for the constant, which rounds down: the value is an integer */
    int64_t k = floordiv64(p->t[i].k, (int64_t)g);
    if (k) t[n++] = (sterm){p->t[i].mono, k};
  }
  return sym_poly_sorted(s, t, n);
}

/* ---- division without remainder -------------------------------------------------------------- */
static bool leads(symtab *s, sz e, sterm *out) { /* the term of the highest monomial */
  const spoly *p = sp(s, e);
  if (!p->n) return false;
  *out = p->t[0];
  for (uint32_t i = 1; i < p->n; i++)
    if (mono_cmp(s, p->t[i].mono, out->mono) > 0) *out = p->t[i];
  return true;
}
static bool divides(int64_t d, int64_t k) { return d == -1 ? k != INT64_MIN : k % d == 0; }
/* a = b*q + r by the leading term of b, integer coefficients only. A quotient that leaves no fewer terms than there
 * were (a by a sum that is not in it) is no gain and is not taken. */
void poly_divide(symtab *s, sz a, sz b, sz *q, sz *r) {
  ctx *c = s->c;
  sterm lead, t;
  *q = sym_num(s, 0), *r = a;
  if (!leads(s, b, &lead)) return;
  const spoly *p = sp(s, a), *d = sp(s, b);
  if (d->n == 1) {
    sterm bq[STACK_TERMS], br[STACK_TERMS], *tq = p->n <= STACK_TERMS ? bq : sym_scratch(s, p->n),
                                            *tr = p->n <= STACK_TERMS ? br : sym_scratch(s, p->n);
    uint32_t nq = 0, nr = 0, m;
    for (uint32_t i = 0; i < p->n; i++) {
      t = p->t[i];
      if (divides(lead.k, t.k) && mono_div(s, t.mono, lead.mono, &m))
        tq[nq++] = (sterm){m, t.k / lead.k};
      else
        tr[nr++] = t;
    }
    if (!nq) return;
    *q = sym_poly(s, tq, nq);
    *r = sym_poly_sorted(s, tr, nr);
    return;
  }
  if (p->n < d->n || d->deg > p->deg) return;
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  sz quot = *q, rem = a, done = *q;
  for (int steps = 0; steps < 256 && leads(s, rem, &t) && !s->overflowed; steps++) {
    uint32_t m;
    if (divides(lead.k, t.k) && mono_div(s, t.mono, lead.mono, &m)) {
      sterm one = {m, t.k / lead.k};
      sz f = sym_poly_sorted(s, &one, 1);
      quot = sym_add(c, quot, f);
      rem = sym_sub(c, rem, sym_mul(c, f, b));
    } else { /* the leading term stays in the remainder */
      sz keep = sym_poly_sorted(s, &t, 1);
      done = sym_add(c, done, keep);
      rem = sym_sub(c, rem, keep);
    }
  }
  rem = sym_add(c, rem, done);
  if (!s->overflowed && sp(s, rem)->n < p->n) *q = quot, *r = rem;
  s->soft = outer, s->overflowed = before;
}
bool sym_exact_div(ctx *c, sz e, sz d, sz *q) {
  symtab *s = sym_tab(c);
  if (sp(s, d)->n == 0) return false;
  sz r;
  poly_divide(s, e, d, q, &r);
  return sp(s, r)->n == 0;
}
