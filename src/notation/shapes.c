/* shapes: broadcasting and reshape over symbolic sizes.
 *
 * Broadcast: axes align on the right; 1 gives way; equal normal forms are equal; a number against a symbol is the
 * number, under the assumption that they agree, or that the symbol is 1 where it is always less; two symbols are
 * assumed equal. An axis is taken to be repeated at run time only where a declared size is the number 1, or known to be
 * at most 1 (then the product of both is the size: it is empty, or 1): never a stride that may or may not be 0.
 *
 * Reshape: both shapes are read as digits of one row-major position. Groups of axes with equal products stand for
 * themselves; inside a group the common refinement of the two lists of extents gives every axis its digits, by exact
 * symbolic division. Where the prefix products do not nest (6 x 4 as 8 x 3), the position is taken apart with // and %
 * instead.
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)

bool at_most_one(el *x, sz d) {
  return !sym_is_int(x->c, d, NULL) && sym_ge0(x->c, d) && sym_le(x->c, d, sym_int(x->c, 1));
}
/* Of two sizes, one of which is 0 or 1, or the other one times such a size: the size of their broadcast. 0: neither
 * is. */
static sz with_at_most_one(el *x, sz a, sz b) {
  ctx *c = x->c;
  sz one = sym_int(c, 1), few, d;
  if (sym_exact_div(c, a, b, &few) && at_most_one(x, few))
    d = b;
  else if (sym_exact_div(c, b, a, &few) && at_most_one(x, few))
    d = a;
  else if (at_most_one(x, a) || at_most_one(x, b))
    few = at_most_one(x, a) ? a : b, d = few == a ? b : a;
  else
    return 0;
  /* where it is empty the other one is 0 or 1 */
  guard_ge0(
      x, sym_mul(c, sym_sub(c, one, few), sym_sub(c, one, d)), false,
      arena_fmt(x->m->a, "%s broadcast: %s and %s differ, and neither is 1", x->d->name, sym_str(c, a), sym_str(c, b)));
  return sym_mul(c, few, d);
}

/* Of two sizes that cannot be equal, since one is always less than the other, which is more than 1: the first must be
 * 1, and the second one is that of their broadcast. 0: they may be equal. */
static sz with_less(el *x, sz a, sz b, const ast *at) {
  ctx *c = x->c;
  const sz one = sym_int(c, 1), less = sym_lt(c, a, b) ? a : b, more = less == a ? b : a;
  if (sym_is_int(c, less, NULL) || !sym_lt(c, less, more) || !sym_lt(c, one, more)) return 0;
  need_equal(x, less, one, true, at->line, at->col, "broadcast");
  return more;
}
val broadcast_dims(el *x, val *packs, uint32_t n, const ast *at) {
  ctx *c = x->c;
  uint32_t rank = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (packs[i].kind != V_LIST) FAIL(at, "broadcast takes packs of sizes, not %s", v_describe(x, packs[i]));
    if (packs[i].p.l->n > rank) rank = packs[i].p.l->n;
  }
  val r = v_list(x, rank);
  sz one = sym_int(c, 1);
  for (uint32_t j = 0; j < rank; j++) {
    sz best = one;
    for (uint32_t i = 0; i < n; i++) {
      vlist *l = packs[i].p.l;
      if (l->n + j < rank) continue;
      sz d = v_need_size(x, l->v[l->n + j - rank], at, "a broadcast size");
      best = sym_canon(c, best);
      if (d == one || d == best) continue;
      if (best == one) {
        if (!EK_PLANTED("notation-broadcast") || l->n == rank) best = d;
        continue;
      }
      int64_t p;
      bool dc = sym_is_int(c, d, &p);
      sz both = sym_eq(c, best, d) || EK_PLANTED("notation-at-most-one") ? 0 : with_at_most_one(x, best, d);
      if (!both && !sym_eq(c, best, d)) both = with_less(x, best, d, at);
      if (both) {
        best = both;
        continue;
      }
      need_equal(x, best, d, true, at->line, at->col, "broadcast");
      if (dc) best = d;
    }
    r.p.l->v[j] = v_size(sym_canon(c, best));
  }
  return r;
}

sz product_of(el *x, val list, const ast *at) {
  sz p = sym_int(x->c, 1);
  for (uint32_t i = 0; i < list.p.l->n; i++) p = sym_mul(x->c, p, v_need_size(x, list.p.l->v[i], at, "a factor"));
  return p;
}

typedef struct side { /* digits found so far of each axis of one shape, innermost first */
  const sz *ext;      /* size of each axis */
  VEC(digit) *dg;     /* per axis: its digits */
} side;

static digit fresh(el *x, sz ext) {
  digit d = {0, ext};
  atom a;
  if (sym_is_atom(x->c, sym_var(x->c, intern(x->c, "r"), ext), &a)) d.var = a;
  return d;
}
/* Splits axes [s0, s1) of the source and [d0, d1) of the destination, of equal product, into common digits. False if
 * the products do not nest. */
static bool refine(el *x, side *s, uint32_t s0, uint32_t s1, side *d, uint32_t d0, uint32_t d1) {
  ctx *c = x->c;
  sz one = sym_int(c, 1), a = one, b = one, q;
  uint32_t i = s1, j = d1;
  for (;;) {
    while (a == one && i > s0) a = sym_canon(c, s->ext[--i]);
    while (b == one && j > d0) b = sym_canon(c, d->ext[--j]);
    if (a == one && b == one && i == s0 && j == d0) return true;
    if (a == one || b == one) return false;
    digit g;
    if (a == b)
      g = fresh(x, a), q = one, a = b = one;
    else if (sym_exact_div(c, a, b, &q))
      g = fresh(x, b), a = q, b = one;
    else if (sym_exact_div(c, b, a, &q))
      g = fresh(x, a), b = q, a = one;
    else
      return false;
    vec_push(x->a, s->dg[i], g);
    vec_push(x->a, d->dg[j], g);
  }
}
static sz index_of(el *x, const side *s, uint32_t i) {
  sz e = sym_int(x->c, 0);
  for (uint32_t k = s->dg[i].n; k-- > 0;) {
    digit g = s->dg[i].v[k];
    e = sym_add(x->c, sym_mul(x->c, e, g.extent), g.var ? sym_of_atom(x->c, g.var) : sym_int(x->c, 0));
  }
  return e;
}

/* Is one of the sizes the number 0? */
static bool surely_empty(ctx *c, const sz *dims, uint32_t rank) {
  for (uint32_t i = 0; i < rank; i++)
    if (sym_int_or(c, sym_canon(c, dims[i]), 1) == 0) return true;
  return false;
}
/* A tensor of these sizes, one of which is 0 or proves to be once the others are known: its elements are never
 * computed. */
static nten *empty_tensor(el *x, etype type, const char *name, const sz *dims, uint32_t rank, const ast *at) {
  nten *r = new_tensor(x, name, type, dims, rank);
  axis *axes = NEWN(x->m->a, axis, rank ? rank : 1);
  for (uint32_t k = 0; k < rank; k++) axes[k] = expr_axis1(x->m, "r", dims[k], NULL);
  ex none =
      type == ET_STR ? expr_i(x->m, ET_U8, 0) : v_lift(x, type == ET_BOOL ? v_bool(false) : v_int(x, 0), type, at);
  add_stage(x, r, axes, rank, none);
  return r;
}

nten *reshape_tensor(el *x, nten *t, const sz *dims, uint32_t rank, const char *name, const ast *at) {
  ctx *c = x->c;
  sz one = sym_int(c, 1), ps = one, pd = one;
  for (uint32_t i = 0; i < t->rank; i++) ps = sym_mul(c, ps, sym_canon(c, t->shape[i]));
  for (uint32_t i = 0; i < rank; i++) pd = sym_mul(c, pd, sym_canon(c, dims[i]));
  need_equal(x, ps, pd, false, at->line, at->col, "the number of elements of a reshape");
  side s = {t->shape, NULL}, d = {dims, NULL};
  s.dg = arena_array(x->a, t->rank + 1, sizeof *s.dg);
  d.dg = arena_array(x->a, rank + 1, sizeof *d.dg);
  sz *idx = NEWN(x->a, sz, t->rank ? t->rank : 1);
  if (surely_empty(c, t->shape, t->rank) || surely_empty(c, dims, rank))
    return empty_tensor(x, t->type, name, dims, rank, at);
  /* groups from the right: shortest runs of axes with equal products */
  uint32_t i = t->rank, j = rank;
  while (i > 0 || j > 0) {
    uint32_t i1 = i, j1 = j;
    sz a = one, b = one;
    if (i)
      a = sym_canon(c, t->shape[--i]);
    else
      b = sym_canon(c, dims[--j]);
    if (i1 != i && a == one) { /* an axis of size 1 stands alone */
      idx[i] = sym_int(c, 0);
      continue;
    }
    if (i1 == i && b == one) continue;
    while (a != b && (i > 0 || j > 0)) { /* extend the side that is not a multiple of the other */
      sz q;
      bool grow_d = j > 0 && (i == 0 || b == one || (a != one && sym_exact_div(c, a, b, &q)));
      int64_t p, r;
      if (!grow_d && j > 0 && sym_is_int(c, a, &p) && sym_is_int(c, b, &r)) grow_d = r < p;
      if (grow_d)
        b = sym_mul(c, b, sym_canon(c, dims[--j]));
      else
        a = sym_mul(c, a, sym_canon(c, t->shape[--i]));
    }
    if (a != b) i = j = 0; /* equal only under a guard: the rest is one group */
    if (refine(x, &s, i, i1, &d, j, j1)) {
      for (uint32_t k = i; k < i1; k++) idx[k] = index_of(x, &s, k);
      continue;
    }
    for (uint32_t k = i; k < i1; k++) s.dg[k].n = 0;
    sz pos = sym_int(c, 0);
    for (uint32_t k = j; k < j1; k++) {
      d.dg[k].n = 0;
      digit g = fresh(x, sym_canon(c, dims[k]));
      vec_push(x->a, d.dg[k], g);
      pos = sym_add(c, sym_mul(c, pos, g.extent), g.var ? sym_of_atom(c, g.var) : sym_int(c, 0));
    }
    for (uint32_t k = i1; k-- > i;) {
      sz e = sym_canon(c, t->shape[k]);
      idx[k] = k == i || EK_PLANTED("notation-reshape") ? pos : sym_mod(c, pos, e);
      pos = sym_div(c, pos, e);
    }
  }
  axis *axes = NEWN(x->a, axis, rank ? rank : 1);
  for (uint32_t k = 0; k < rank; k++) {
    digit *v = NEWN(x->m->a, digit, d.dg[k].n ? d.dg[k].n : 1);
    for (uint32_t q = d.dg[k].n; q-- > 0;)
      if (d.dg[k].v[q].var) v[axes[k].n++] = d.dg[k].v[q];
    axes[k].d = v;
  }
  nten *r = new_tensor(x, name, t->type, dims, rank);
  ex v = load_at(x, t, idx, 0).e;
  add_stage(x, r, axes, rank, v);
  return r;
}
