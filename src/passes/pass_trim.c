/* Which part of a stage does anybody read?
 *
 * For every digit of a stage, the accesses of all its readers give an interval (of the index ranges) and a common step
 * (the greatest common divisor of all coefficients and of the distances of the constants). Points outside are never
 * read, so the digit is renumbered to the ones that are: slices and strided reads shrink what they read from, and
 * readers come first, so that the saving runs up the chain. Guarded reads need the whole axis. Recurrences, updates and
 * tensors that leave the module stay whole. Needs views; keeps everything.
 */
#include "passes/pass.h"

typedef struct want {
  int64_t lo;   /* least place that is read */
  int64_t hi;   /* greatest place that is read */
  int64_t step; /* divides the distances of all places that are read; 0: one place */
  int64_t base; /* constant of the first access */
  bool any;     /* something is read */
  bool all;     /* every place may be read */
} want;

static void add_access(ctx *c, want *w, sz x) {
  int64_t lo, hi;
  sym_range(c, x, &lo, &hi);
  if (lo < 0 || hi == SYM_INF || lo == -SYM_INF) {
    w->all = true;
    return;
  }
  int64_t k0 = 0;
  for (uint32_t i = 0; i < sym_nterms(c, x); i++) {
    uint32_t n;
    const atom *at;
    const uint8_t *ex;
    int64_t k = sym_term(c, x, i, &n, &at, &ex);
    if (n)
      w->step = gcd64(w->step, k);
    else
      k0 = k;
  }
  if (!w->any) w->lo = lo, w->hi = hi, w->base = k0;
  w->step = gcd64(w->step, k0 - w->base);
  w->lo = min64(w->lo, lo), w->hi = max64(w->hi, hi), w->any = true;
}
typedef struct renumbering {
  const stage *x;   /* the stage */
  const want *w;    /* per digit: what is read */
  const sz *extent; /* per digit: its new extent */
} renumbering;
/* load of the renumbered stage for one of the old accesses */
static ex renumbered(pw *p, const ex_node *l, const void *env) {
  const renumbering *r = env;
  const stage *x = r->x;
  const want *w = r->w;
  const sz *extent = r->extent;
  uint32_t nd = expr_ndigits(x);
  ctx *c = p->c;
  sz *by = NEWN(p->a, sz, nd + 1), idx[MAX_RANK];
  if (!expr_comps(p->m, xt(p->m, l->tensor)->stage, l->args, by, NULL, NULL)) return 0;
  for (uint32_t i = 0; i < nd; i++)
    if (extent[i]) {
      sz q;
      if (!sym_exact_div(c, sym_addi(c, by[i], -w[i].lo), sym_int(c, w[i].step), &q)) return 0;
      by[i] = q;
    }
  for (uint32_t a = 0, i = 0; a < x->naxes; a++) {
    idx[a] = sym_int(c, 0);
    for (uint32_t k = 0; k < x->axes[a].n; k++, i++)
      idx[a] = sym_add(c, sym_mul(c, idx[a], extent[i] ? extent[i] : x->axes[a].d[k].extent), by[i]);
  }
  return expr_load(p->m, l->tensor, idx, l->nargs, 0);
}
static bool trim(pw *p, uint32_t s) {
  emodule *m = p->m;
  ctx *c = p->c;
  const stage *x = xs(m, s);
  tid t = x->tensor;
  uint32_t nd = expr_ndigits(x);
  const u32vec *readers = &p->readers.v[t];
  reload r;
  if (!x->value || x->updates.n || x->recurrence || p->pinned.v[t] || !readers->n || !nd) return false;
  want *w = NEWN(p->a, want, nd);
  digit *d = NEWN(p->a, digit, nd);
  sz *by = NEWN(p->a, sz, nd);
  expr_digits(x, d);
  for (uint32_t i = 0; i < readers->n; i++) {
    const u32vec *l = stage_loads(p, readers->v[i]);
    for (uint32_t k = 0; k < l->n; k++) {
      ex_node n = *exn(m, l->v[k]);
      if (n.tensor != t) continue;
      if (n.otherwise || !expr_comps(m, s, n.args, by, NULL, NULL)) return false;
      for (uint32_t a = 0; a < nd; a++) add_access(c, &w[a], by[a]);
    }
  }
  sz *extent = NEWN(p->a, sz, nd);
  bool any = false;
  for (uint32_t a = 0; a < nd; a++) {
    int64_t n;
    if (w[a].all || !w[a].any || !sym_is_int(c, d[a].extent, &n) || w[a].hi >= n) continue;
    if (!w[a].step) w[a].step = 1;
    w[a].hi -= (w[a].hi - w[a].lo) % w[a].step;
    int64_t left = (w[a].hi - w[a].lo) / w[a].step + 1;
    if (left < n) extent[a] = sym_int(c, left), any = true;
  }
  if (!any || !pass_spend(p) || !reload_make(p, t, renumbered, &(renumbering){x, w, extent}, &r)) return false;
  /* the stage itself: v = lo + step * v' */
  u32vec old = {0};
  sz *to = NEWN(p->a, sz, nd), shape[MAX_RANK];
  axis *ax = NEWN(m->a, axis, x->naxes + 1);
  for (uint32_t a = 0, i = 0; a < x->naxes; a++) {
    digit *nd2 = NEWN(m->a, digit, x->axes[a].n + 1);
    uint32_t q = 0;
    shape[a] = sym_int(c, 1);
    for (uint32_t k = 0; k < x->axes[a].n; k++, i++) {
      digit g = x->axes[a].d[k];
      if (extent[i]) {
        sz v = sym_var(c, sym_name(c, g.var), extent[i]);
        to[old.n] = sym_addi(c, sym_muli(c, v, w[i].step), EK_PLANTED("trim") ? 0 : w[i].lo);
        vec_push(p->a, old, g.var);
        g.extent = extent[i];
        if (!sym_is_atom(c, v, &g.var)) continue; /* a digit with one place left has no variable */
      }
      nd2[q++] = g;
      shape[a] = sym_mul(c, shape[a], g.extent);
    }
    ax[a] = (axis){q, nd2};
  }
  ex v = simplify_subst(p, x->value, old.v, to, old.n);
  xs(m, s)->axes = ax;
  xt(m, t)->shape = arena_dup(m->a, shape, xs(m, s)->naxes * sizeof *shape);
  pass_set(p, s, v);
  reload_put(p, &r);
  return true;
}
bool pass_trim(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = order.n; i-- > 0;)
    if (stage_plain(p, order.v[i]) || stage_is_reduce(p, order.v[i])) any |= trim(p, order.v[i]);
  return any;
}
