/* Where can the value of an expression lie? Two cheap answers that come before any proof, both stored with the
 * object and the state they hold in.
 *
 * Intervals: from the ranges of the leaves inwards, terms taken as independent. An upper end SYM_INF and a lower
 * end -SYM_INF mean unbounded; ends that leave 64 bits are rounded outwards.
 * Sample points: eight assignments of values to all leaves, inside the leaves' ranges (corners first, then
 * pseudo-random by the leaf's number). They refute: what is negative at a point where the facts hold is not
 * provable, and most hopeless goals end here.
 */
#include "sym/sym_in.h"

typedef __int128 wide;
#define HUGE_ ((wide)1 << 100) /* stands for every value beyond; products of two still fit */

static inline wide widen(int64_t v) { return v == SYM_INF ? HUGE_ : v == -SYM_INF ? -HUGE_ : v; }
static inline wide product(wide a, wide b) {
  if (a > INT64_MAX || a < INT64_MIN || b > INT64_MAX || b < INT64_MIN) {
    if (a == 0 || b == 0) return 0;
    if (a >= HUGE_ || a <= -HUGE_ || b >= HUGE_ || b <= -HUGE_) return (a < 0) == (b < 0) ? HUGE_ : -HUGE_;
    wide r;
    if (__builtin_mul_overflow(a, b, &r) || r > HUGE_ || r < -HUGE_) return (a < 0) == (b < 0) ? HUGE_ : -HUGE_;
    return r;
  }
  wide r = a * b;
  return r > HUGE_ ? HUGE_ : r < -HUGE_ ? -HUGE_ : r;
}
static inline int64_t low_end(wide v) { return v <= -SYM_INF ? -SYM_INF : v >= SYM_INF ? SYM_INF - 1 : (int64_t)v; }
static inline int64_t high_end(wide v) { return v >= SYM_INF ? SYM_INF : v <= -SYM_INF ? -SYM_INF + 1 : (int64_t)v; }

static void div_range(symtab *s, const satom *x, int64_t *lo, int64_t *hi) {
  int64_t al, ah, bl, bh;
  sym_interval(s, x->arg[0], &al, &ah);
  sym_interval(s, x->arg[1], &bl, &bh);
  if (bh < 0) { /* the same with both signs turned */
    int64_t t = al;
    al = -ah, ah = -t, t = bl, bl = -bh, bh = -t;
  }
  if (bl < 1) { /* |a // b| <= |a| for every b but 0 */
    int64_t m = max64(al == -SYM_INF ? SYM_INF : al < 0 ? -al : al, ah == SYM_INF ? SYM_INF : ah < 0 ? -ah : ah);
    *lo = -m, *hi = m;
    return;
  }
  *lo = al == -SYM_INF ? -SYM_INF : al >= 0 ? (bh == SYM_INF ? 0 : al / bh) : floordiv64(al, bl);
  *hi = ah == SYM_INF ? SYM_INF : ah >= 0 ? ah / bl : (bh == SYM_INF ? -1 : floordiv64(ah, bh));
}
static void atom_interval(symtab *s, satom *x, int64_t *lo, int64_t *hi) {
  if (x->rstate == s->state) {
    *lo = x->rlo, *hi = x->rhi;
    return;
  }
  int64_t l = x->lo, h = x->hi, al, ah, bl, bh;
  switch (x->kind) {
  case AT_VAR: /* a range in use is not empty */
    sym_interval(s, x->arg[0], &al, &ah);
    l = 0, h = ah == SYM_INF ? SYM_INF : max64(ah - 1, 0);
    break;
  case AT_DIV:
    div_range(s, x, &l, &h);
    break;
  case AT_MIN:
  case AT_MAX:
    sym_interval(s, x->arg[0], &al, &ah);
    sym_interval(s, x->arg[1], &bl, &bh);
    if (x->kind == AT_MIN)
      l = EK_PLANTED("sym-range") ? max64(al, bl) : min64(al, bl), h = min64(ah, bh);
    else
      l = max64(al, bl), h = max64(ah, bh);
    break;
  case AT_SEL:
    sym_interval(s, x->arg[1], &al, &ah);
    sym_interval(s, x->arg[2], &bl, &bh);
    l = min64(al, bl), h = max64(ah, bh);
    break;
  }
  int64_t fl = max64(max64(l, x->lo), x->flo), fh = min64(min64(h, x->hi), x->fhi);
  /* where the facts contradict each other the wider range stays: nobody comes here */
  if (fl <= fh) l = fl, h = fh;
  x->rlo = *lo = l, x->rhi = *hi = h, x->rstate = s->state;
}
void sym_interval(symtab *s, sz e, int64_t *lo, int64_t *hi) {
  spoly *p = sp(s, e);
  if (p->rstate == s->state) {
    *lo = p->lo, *hi = p->hi;
    return;
  }
  wide low = 0, high = 0;
  bool low_inf = false, high_inf = false;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    wide l = 1, h = 1;
    for (uint32_t j = 0; j < m->n; j++) {
      int64_t al, ah;
      atom_interval(s, sa(s, m->a[j]), &al, &ah);
      wide pl = widen(al), ph = widen(ah);
      if (m->e[j] > 1) { /* a power: by parity */
        wide ql = pl, qh = ph;
        for (uint8_t z = 1; z < m->e[j]; z++) ql = product(ql, pl), qh = product(qh, ph);
        if (m->e[j] % 2 == 0) {
          wide top = ql > qh ? ql : qh, bottom = ql > qh ? qh : ql;
          ql = pl <= 0 && ph >= 0 ? 0 : bottom, qh = top;
        }
        pl = ql, ph = qh;
      }
      if (m->n == 1) {
        l = pl, h = ph;
        break;
      }
      wide a = product(l, pl), b = product(l, ph), c = product(h, pl), d = product(h, ph);
      wide ab = a < b ? a : b, cd = c < d ? c : d, AB = a < b ? b : a, CD = c < d ? d : c;
      l = ab < cd ? ab : cd, h = AB > CD ? AB : CD;
    }
    wide k = p->t[i].k, x = product(l, k), y = product(h, k);
    if (x > y) {
      wide t = x;
      x = y, y = t;
    }
    low_inf |= x <= -HUGE_, high_inf |= y >= HUGE_;
    low += x, high += y;
  }
  p->lo = *lo = low_inf ? -SYM_INF : low_end(low);
  p->hi = *hi = high_inf ? SYM_INF : high_end(high);
  p->rstate = s->state;
}
void sym_range(ctx *c, sz e, int64_t *lo, int64_t *hi) { sym_interval(sym_tab(c), e, lo, hi); }

/* ---- sample points --------------------------------------------------------------------------- */
static uint64_t draw(uint32_t leaf, uint32_t k) {
  uint64_t h = ((uint64_t)leaf << 8 | k) * 0x9E3779B97F4A7C15u;
  h = (h ^ h >> 31) * 0xD6E8FEB86659FD93u;
  return h ^ h >> 32;
}
static int64_t leaf_sample(uint32_t leaf, uint32_t k, int64_t lo, int64_t hi) {
  int64_t l = lo != -SYM_INF         ? lo
              : hi == SYM_INF        ? -16
              : hi > -(SYM_INF - 16) ? hi - 16
                                     : hi,
          h = hi != SYM_INF      ? hi
              : l < SYM_INF - 32 ? l + 32
                                 : l;
  if (h < l) h = l; /* an empty range: nothing is refuted wrongly by a value that does not occur */
  uint64_t span = (uint64_t)h - (uint64_t)l, r = draw(leaf, k), step;
  switch (k) {
  case 0:
    return l;
  case 1:
    return h;
  case 2:
    step = r % (span + 1);
    break;
  case 3:
    step = span < 2 ? span : 1 + r % 2;
    break;
  default: { /* a small step, of growing size */
    static const uint16_t size[] = {4, 16, 64, 1024};
    step = r % ((span < size[k - 4] ? span : size[k - 4]) + 1);
  }
  }
  return (int64_t)((uint64_t)l + step);
}
static uint8_t atom_samples(symtab *s, atom a, const int64_t **val) {
  satom *x = sa(s, a);
  *val = x->val;
  if (x->vstate == s->state) return x->known;
  if (!x->val) *val = x->val = NEWN(s->a, int64_t, SAMPLES);
  int64_t *v = x->val, lo, hi;
  uint8_t known = 0xff;
  const int64_t *p, *q, *r;
  switch (x->kind) {
  case AT_SYMBOL:
  case AT_DATA:
    if (x->def || x->subst) {
      known = sym_samples(s, x->subst ? x->subst : x->def, &p);
      for (int k = 0; k < SAMPLES; k++) v[k] = p[k];
      break;
    }
    atom_interval(s, x, &lo, &hi);
    for (uint32_t k = 0; k < SAMPLES; k++) v[k] = leaf_sample(a, k, lo, hi);
    break;
  case AT_VAR:
    known = sym_samples(s, x->arg[0], &p);
    atom_interval(s, x, &lo, &hi);
    for (uint32_t k = 0; k < SAMPLES; k++) {
      if (!(known >> k & 1)) continue;
      int64_t h = p[k] < 1 ? -1 : min64(hi, p[k] - 1);
      if (h < lo)
        known &= (uint8_t)~(1u << k); /* an empty range: not a point of interest */
      else
        v[k] = k == 0 || k == 5 ? lo : k == 1 || k == 6 ? h : lo + (int64_t)(draw(a, k) % ((uint64_t)(h - lo) + 1));
    }
    break;
  default:
    known = sym_samples(s, x->arg[0], &p) & sym_samples(s, x->arg[1], &q);
    if (x->kind == AT_SEL)
      known &= sym_samples(s, x->arg[2], &r);
    else
      r = q;
    for (int k = 0; k < SAMPLES; k++) {
      if (!(known >> k & 1)) continue;
      if (x->kind == AT_SEL)
        v[k] = p[k] >= 0 ? q[k] : r[k];
      else if (x->kind == AT_MIN)
        v[k] = min64(p[k], q[k]);
      else if (x->kind == AT_MAX)
        v[k] = max64(p[k], q[k]);
      else if (q[k] == 0 || (q[k] == -1 && p[k] == INT64_MIN))
        known &= (uint8_t)~(1u << k);
      else
        v[k] = floordiv64(p[k], q[k]);
    }
  }
  x->known = known, x->vstate = s->state;
  return known;
}
uint8_t sym_samples(symtab *s, sz e, const int64_t **val) {
  spoly *p = sp(s, e);
  *val = p->val;
  if (p->vstate == s->state) return p->known;
  if (!p->val)
    *val = p->val =
        s->trial && e >= s->trial ? table_bytes(s, SAMPLES * sizeof(int64_t)) : NEWN(s->a, int64_t, SAMPLES);
  int64_t sum[SAMPLES] = {0};
  uint8_t known = 0xff;
  for (uint32_t i = 0; i < p->n && known; i++) {
    const smono *m = sm(s, p->t[i].mono);
    int64_t t[SAMPLES];
    for (int k = 0; k < SAMPLES; k++) t[k] = p->t[i].k;
    for (uint32_t j = 0; j < m->n; j++) {
      const int64_t *v;
      known &= atom_samples(s, m->a[j], &v);
      for (uint8_t z = 0; z < m->e[j]; z++)
        for (int k = 0; k < SAMPLES; k++)
          if ((known >> k & 1) && !mul64(t[k], v[k], &t[k])) known &= (uint8_t)~(1u << k);
    }
    for (int k = 0; k < SAMPLES; k++)
      if ((known >> k & 1) && !add64(sum[k], t[k], &sum[k])) known &= (uint8_t)~(1u << k);
  }
  for (int k = 0; k < SAMPLES; k++) p->val[k] = sum[k];
  p->known = known, p->vstate = s->state;
  return known;
}
uint8_t sym_sample_mask(symtab *s) {
  if (s->mask_state == s->state) return s->mask;
  uint8_t mask = 0xff;
  uint32_t n = s->facts.n;
  for (uint32_t i = 0; i < n + s->perm.n && mask; i++) {
    const int64_t *v;
    mask &= sym_samples(s, i < n ? s->facts.v[i].p : s->perm.v[i - n], &v);
    for (int k = 0; k < SAMPLES; k++)
      if ((mask >> k & 1) && v[k] < 0) mask &= (uint8_t)~(1u << k);
  }
  s->mask = mask, s->mask_state = s->state;
  return mask;
}
