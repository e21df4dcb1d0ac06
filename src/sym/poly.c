/* Arithmetic in normal form, and the rules of //, min, max and ?: (sym.h lists them). */
#include "sym/sym_in.h"
#include <string.h>

enum { M_ADD = 1, M_MUL, M_DIV, M_MIN, M_MAX };
static bool remembered(symtab *s, unsigned op, sz a, sz b, sz *out) {
  uint64_t k[2] = {(uint64_t)op << 32 | a, b}, v;
  if (!map_get(s->memo, k, sizeof k, &v)) return false;
  *out = (sz)v;
  return true;
}
static sz remember(symtab *s, unsigned op, sz a, sz b, sz r) {
  uint64_t k[2] = {(uint64_t)op << 32 | a, b};
  if (s->overflowed) return r;
  map_put(s->memo, k, sizeof k, r);
  return r;
}
static int64_t ckmul(symtab *s, int64_t a, int64_t b) {
  int64_t r;
  if (!mul64(a, b, &r)) sym_overflow(s);
  return r;
}
sz sym_add(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  if (sp(s, a)->n == 0) return b;
  if (sp(s, b)->n == 0) return a;
  if (a > b) {
    sz t = a;
    a = b, b = t;
  }
  sz r;
  if (remembered(s, M_ADD, a, b, &r)) return r;
  spoly p = *sp(s, a), q = *sp(s, b);
  sterm buf[64], *t = p.n + q.n <= 64 ? buf : NEWN(s->a, sterm, p.n + q.n);
  uint32_t n = 0, i = 0, j = 0;
  while (i < p.n || j < q.n) {
    if (j == q.n || (i < p.n && p.t[i].mono < q.t[j].mono)) t[n++] = p.t[i++];
    else if (i == p.n || q.t[j].mono < p.t[i].mono) t[n++] = q.t[j++];
    else {
      int64_t k;
      if (!add64(p.t[i].k, q.t[j].k, &k)) sym_overflow(s);
      if (k) t[n++] = (sterm){p.t[i].mono, k};
      i++, j++;
    }
  }
  return remember(s, M_ADD, a, b, sym_poly(s, t, n));
}
sz sym_muli(ctx *c, sz a, int64_t k) {
  symtab *s = sym_tab(c);
  if (k == 1) return a;
  if (k == 0) return sym_int(c, 0);
  spoly p = *sp(s, a);
  sterm buf[64], *t = p.n <= 64 ? buf : NEWN(s->a, sterm, p.n);
  for (uint32_t i = 0; i < p.n; i++) t[i] = (sterm){p.t[i].mono, ckmul(s, p.t[i].k, k)};
  return sym_poly(s, t, p.n);
}
sz sym_addi(ctx *c, sz a, int64_t k) { return k ? sym_add(c, a, sym_int(c, k)) : a; }
sz sym_neg(ctx *c, sz a) { return sym_muli(c, a, -1); }
sz sym_sub(ctx *c, sz a, sz b) { return a == b ? sym_int(c, 0) : sym_add(c, a, sym_neg(c, b)); }
sz sym_mul(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  int64_t k;
  if (sym_const(s, a, &k)) return sym_muli(c, b, k);
  if (sym_const(s, b, &k)) return sym_muli(c, a, k);
  if (a > b) {
    sz t = a;
    a = b, b = t;
  }
  sz r;
  if (remembered(s, M_MUL, a, b, &r)) return r;
  spoly p = *sp(s, a), q = *sp(s, b);
  if ((uint64_t)p.n * q.n > 4096) ctx_fail(c, E_SHAPE, "a size expression has more than 4096 terms");
  sterm *t = NEWN(s->a, sterm, (size_t)p.n * q.n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p.n; i++)
    for (uint32_t j = 0; j < q.n; j++) t[n++] = (sterm){mono_mul(s, p.t[i].mono, q.t[j].mono), ckmul(s, p.t[i].k, q.t[j].k)};
  return remember(s, M_MUL, a, b, sym_poly(s, t, n));
}

/* An atom made from parts; too deep a nesting becomes a fresh symbol that knows its definition. */
static sz compound(symtab *s, satom a, uint32_t nargs) {
  uint8_t d = 0;
  for (uint32_t i = 0; i < nargs; i++)
    if (sp(s, a.arg[i])->depth > d) d = sp(s, a.arg[i])->depth;
  a.depth = (uint8_t)(d + 1);
  sz e = sym_of_atom(s->c, sym_atom(s, a));
  if (a.depth <= SYM_MAX_DEPTH || sym_uses_kind(s->c, e, AT_VAR) || sym_uses_kind(s->c, e, AT_DATA)) return e;
  uint64_t known;
  uint64_t key[2] = {(uint64_t)99 << 32 | e, 0};
  if (map_get(s->memo, key, sizeof key, &known)) return (sz)known;
  int64_t lo, hi;
  sym_range(s->c, e, &lo, &hi);
  sz f = sym_fresh(s->c, "t", lo, hi);
  atom fa;
  sym_is_atom(s->c, f, &fa);
  sa(s, fa)->def = e;
  map_put(s->memo, key, sizeof key, f);
  return f;
}

/* ---- division ---- */
static int64_t gcd64(int64_t a, int64_t b) {
  a = a < 0 ? -a : a, b = b < 0 ? -b : b;
  while (b) {
    int64_t t = a % b;
    a = b, b = t;
  }
  return a;
}
/* polynomial long division by the leading (highest) term of b; exact integer coefficients only */
static void long_division(symtab *s, sz a, sz b, sz *q, sz *r) {
  spoly d = *sp(s, b);
  sterm lead = d.t[d.n - 1];
  sz quot = sym_int(s->c, 0), rem = a, done = sym_int(s->c, 0);
  for (int guard = 0; guard < 256; guard++) {
    spoly p = *sp(s, rem);
    if (p.n == 0) break;
    sterm t = p.t[p.n - 1];
    uint32_t m;
    if (t.k % lead.k == 0 && mono_div(s, t.mono, lead.mono, &m)) {
      sterm one = {m, t.k / lead.k};
      sz f = sym_poly(s, &one, 1);
      quot = sym_add(s->c, quot, f);
      rem = sym_sub(s->c, rem, sym_mul(s->c, f, b));
    } else { /* the leading term stays in the remainder */
      sz keep = sym_poly(s, &t, 1);
      done = sym_add(s->c, done, keep);
      rem = sym_sub(s->c, rem, keep);
    }
  }
  *q = quot;
  *r = sym_add(s->c, rem, done);
}
bool sym_exact_div(ctx *c, sz e, sz d, sz *q) {
  symtab *s = sym_tab(c);
  int64_t k;
  if (sym_const(s, d, &k)) {
    if (k == 0) return false;
    spoly p = *sp(s, e);
    sterm *t = NEWN(s->a, sterm, p.n + 1);
    for (uint32_t i = 0; i < p.n; i++) {
      if (p.t[i].k % k) return false;
      t[i] = (sterm){p.t[i].mono, p.t[i].k / k};
    }
    *q = sym_poly(s, t, p.n);
    return true;
  }
  sz r;
  long_division(s, e, d, q, &r);
  return sp(s, r)->n == 0;
}
/* e = d*q + r, terms divisible by d in q; for a constant d the constant of r is reduced to 0..d-1 */
static void split_terms(symtab *s, sz e, sz d, sz *q, sz *r) {
  int64_t k;
  if (!sym_const(s, d, &k)) {
    long_division(s, e, d, q, r);
    return;
  }
  spoly p = *sp(s, e);
  sterm *tq = NEWN(s->a, sterm, p.n + 1), *tr = NEWN(s->a, sterm, p.n + 1);
  uint32_t nq = 0, nr = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    sterm t = p.t[i];
    if (t.k % k == 0) tq[nq++] = (sterm){t.mono, t.k / k};
    else if (t.mono == 0) {
      int64_t f = floordiv64(t.k, k);
      if (f) tq[nq++] = (sterm){0, f};
      tr[nr++] = (sterm){0, t.k - f * k};
    } else tr[nr++] = t;
  }
  *q = sym_poly(s, tq, nq);
  *r = sym_poly(s, tr, nr);
}
static bool within(ctx *c, sz r, sz d) { /* 0 <= r < d */
  int64_t lo, hi, k;
  sym_range(c, r, &lo, &hi);
  if (sym_is_int(c, d, &k)) {
    if (lo >= 0 && hi < k) return true;
    if (!sym_uses_kind(c, r, AT_DIV) && !sym_uses_kind(c, r, AT_MIN) && !sym_uses_kind(c, r, AT_MAX) && sym_nterms(c, r) <= 1 && sym_mark(c) == 0) return false;
    if (lo < -(1 << 20) * 1024ll && sym_mark(c) == 0) return false;
  }
  return sym_ge0(c, r) && sym_lt(c, r, d);
}
sz sym_div(ctx *c, sz a, sz b) {
  symtab *s = sym_tab(c);
  int64_t x, y;
  bool bc = sym_const(s, b, &y);
  if (bc && y == 0) ctx_fail(c, E_SHAPE, "division by zero in a size");
  if (bc && y == 1) return a;
  if (bc && y < 0) return sym_div(c, sym_neg(c, a), sym_int(c, -y));
  if (bc && sym_const(s, a, &x)) return sym_int(c, floordiv64(x, y));
  if (a == b) return sym_int(c, 1);
  sz q, r, mem;
  if (remembered(s, M_DIV, a, b, &mem)) return mem;
  split_terms(s, a, b, &q, &r);
  if (sp(s, r)->n == 0) return remember(s, M_DIV, a, b, q);
  if (within(c, r, b)) return s->facts.n ? q : remember(s, M_DIV, a, b, q);
  if (bc) {
    int64_t lo, hi;
    sym_range(c, r, &lo, &hi);
    if (lo > -SYM_INF && hi < SYM_INF && floordiv64(lo, y) == floordiv64(hi, y)) return remember(s, M_DIV, a, b, sym_addi(c, q, floordiv64(lo, y)));
    int64_t g = y; /* common factor; the constant floors with it */
    spoly p = *sp(s, r);
    for (uint32_t i = 0; i < p.n; i++)
      if (p.t[i].mono) g = gcd64(g, p.t[i].k);
    if (g > 1) {
      sterm *t = NEWN(s->a, sterm, p.n);
      uint32_t n = 0;
      for (uint32_t i = 0; i < p.n; i++) {
        int64_t k = floordiv64(p.t[i].k, g);
        if (k) t[n++] = (sterm){p.t[i].mono, k};
      }
      sz d = sym_div(c, sym_poly(s, t, n), sym_int(c, y / g));
      return remember(s, M_DIV, a, b, sym_add(c, q, d));
    }
  } else if (sp(s, r)->n == 1 && sp(s, b)->n == 1) { /* monomials: the common part cancels */
    sterm tr = sp(s, r)->t[0], tb = sp(s, b)->t[0];
    smono mr = *sm(s, tr.mono);
    int64_t g = gcd64(tr.k, tb.k);
    uint32_t cm = 0;
    for (uint32_t i = 0; i < mr.n; i++) {
      uint32_t one = mono_atom(s, mr.a[i]), z;
      int64_t lo, hi;
      sym_range(c, sym_of_atom(c, mr.a[i]), &lo, &hi);
      if (lo >= 1 && mono_div(s, tb.mono, mono_mul(s, cm, one), &z)) cm = mono_mul(s, cm, one);
    }
    if (g > 1 || cm) {
      uint32_t m1, m2;
      mono_div(s, tr.mono, cm, &m1);
      mono_div(s, tb.mono, cm, &m2);
      sterm n1 = {m1, tr.k / g}, n2 = {m2, tb.k / g};
      return remember(s, M_DIV, a, b, sym_add(c, q, sym_div(c, sym_poly(s, &n1, 1), sym_poly(s, &n2, 1))));
    }
  }
  atom in;
  if (sym_is_atom(c, r, &in) && sa(s, in)->kind == AT_DIV) { /* (x // a) // b */
    satom d = *sa(s, in);
    int64_t lo1, hi1, lo2, hi2;
    sym_range(c, d.arg[1], &lo1, &hi1);
    sym_range(c, b, &lo2, &hi2);
    if (lo1 > 0 && lo2 > 0) return remember(s, M_DIV, a, b, sym_add(c, q, sym_div(c, d.arg[0], sym_mul(c, d.arg[1], b))));
  }
  sz e = sym_add(c, q, compound(s, (satom){.kind = AT_DIV, .arg = {r, b}}, 2));
  return s->facts.n ? e : remember(s, M_DIV, a, b, e);
}
sz sym_mod(ctx *c, sz a, sz b) { return sym_sub(c, a, sym_mul(c, b, sym_div(c, a, b))); }
sz sym_ceildiv(ctx *c, sz a, sz b) { return sym_neg(c, sym_div(c, sym_neg(c, a), b)); }

/* ---- min, max, select ---- */
static void arms(symtab *s, sz e, atom_kind k, sz *out, uint32_t *n) {
  atom a;
  if (*n >= 16) return;
  if (sym_is_atom(s->c, e, &a) && sa(s, a)->kind == k) {
    satom x = *sa(s, a);
    arms(s, x.arg[0], k, out, n);
    arms(s, x.arg[1], k, out, n);
    return;
  }
  for (uint32_t i = 0; i < *n; i++)
    if (out[i] == e) return;
  out[(*n)++] = e;
}
static sz extremum(ctx *c, sz a, sz b, bool mx) {
  symtab *s = sym_tab(c);
  if (a == b) return a;
  int64_t x, y;
  if (sym_const(s, a, &x) && sym_const(s, b, &y)) return sym_int(c, mx ? max64(x, y) : min64(x, y));
  sz v[18], r;
  if (!s->facts.n && remembered(s, mx ? M_MAX : M_MIN, a < b ? a : b, a < b ? b : a, &r)) return r;
  uint32_t n = 0;
  arms(s, a, mx ? AT_MAX : AT_MIN, v, &n);
  arms(s, b, mx ? AT_MAX : AT_MIN, v, &n);
  bool drop[18] = {false};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++) {
      if (i == j || drop[i] || drop[j]) continue;
      if (mx ? sym_le(c, v[i], v[j]) : sym_le(c, v[j], v[i])) drop[i] = true;
    }
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!drop[i]) v[m++] = v[i];
  for (uint32_t i = 1; i < m; i++)
    for (uint32_t j = i; j > 0 && v[j - 1] > v[j]; j--) {
      sz t = v[j];
      v[j] = v[j - 1], v[j - 1] = t;
    }
  r = v[0];
  for (uint32_t i = 1; i < m; i++) r = compound(s, (satom){.kind = mx ? AT_MAX : AT_MIN, .arg = {r, v[i]}}, 2);
  return s->facts.n ? r : remember(s, mx ? M_MAX : M_MIN, a < b ? a : b, a < b ? b : a, r);
}
sz sym_min(ctx *c, sz a, sz b) { return extremum(c, a, b, false); }
sz sym_max(ctx *c, sz a, sz b) { return extremum(c, a, b, true); }
sz sym_sel(ctx *c, sz cond, sz a, sz b) {
  symtab *s = sym_tab(c);
  if (a == b) return a;
  if (sym_ge0(c, cond)) return a;
  if (sym_ge0(c, sym_addi(c, sym_neg(c, cond), -1))) return b;
  bool soft = s->soft, over = s->overflowed;
  s->soft = true;
  s->overflowed = false;
  sz ab = sym_sub(c, a, b), ba = sym_sub(c, b, a);
  bool lost = s->overflowed;
  s->soft = soft;
  s->overflowed = over;
  if (!lost && cond == ab) return sym_max(c, a, b);
  if (!lost && cond == ba) return sym_min(c, a, b);
  return compound(s, (satom){.kind = AT_SEL, .arg = {cond, a, b}}, 3);
}

/* ---- digits ---- */
bool sym_divmod(ctx *c, sz e, sz d, sz *q, sz *r, atom *split_var, sz *split_inner) {
  symtab *s = sym_tab(c);
  atom sv = 0;
  sz si = 0;
  if (split_var) *split_var = 0;
  if (split_inner) *split_inner = 0;
  int64_t k;
  if (sym_const(s, d, &k) && k == 1) return *q = e, *r = sym_int(c, 0), true;
  split_terms(s, e, d, q, r);
  if (sp(s, *r)->n == 0 || within(c, *r, d)) return true;
  if (sym_const(s, d, &k)) { /* the remainder may lie in another multiple altogether */
    int64_t lo, hi;
    sym_range(c, *r, &lo, &hi);
    if (lo > -SYM_INF && hi < SYM_INF && floordiv64(lo, k) == floordiv64(hi, k)) {
      int64_t f = floordiv64(lo, k);
      *q = sym_addi(c, *q, f);
      *r = sym_addi(c, *r, -f * k);
      return true;
    }
  }
  /* a variable that straddles the boundary: stride*v with stride | d and extent(v) a multiple of d/stride */
  spoly p = *sp(s, *r);
  for (uint32_t i = 0; i < p.n && !sv; i++) {
    smono m = *sm(s, p.t[i].mono);
    for (uint32_t j = 0; j < m.n && !sv; j++) {
      if (sa(s, m.a[j])->kind != AT_VAR || m.e[j] != 1) continue;
      sz coef, rest, inner, outer, ext = sym_extent(c, m.a[j]);
      if (!sym_linear(c, *r, m.a[j], &coef, &rest)) continue;
      int64_t ci;
      if (sym_const(s, coef, &ci) && ci <= 0) continue;
      if (!sym_exact_div(c, d, coef, &inner) || !sym_exact_div(c, ext, inner, &outer)) continue;
      if (sym_const(s, inner, &k) && k <= 1) continue;
      if (outer == sym_int(c, 1)) continue;
      sv = m.a[j], si = inner;
    }
  }
  if (split_var) *split_var = sv;
  if (split_inner) *split_inner = si;
  return false;
}
