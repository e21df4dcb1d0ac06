/* Which axes does a Squeeze drop that names none? Those of size 1: where sizes are open even the rank of the result
 * hangs on them. What the model declares decides: the rank of the result, or of what is computed from it by
 * operators whose definition gives the result the shape of that input, or which broadcast it with scalars. The axes to
 * drop are checked to have size 1 when the model runs, the others not to have it. Where the rank leaves a choice the
 * declared sizes make it. Where nothing is declared, open axes stay, and are checked not to have size 1. */
#include "driver/lower_in.h"
#include <string.h>

enum { FAR = 64 }; /* nodes between the Squeeze and what is declared */

static bool is_scalar(low *L, const value *v) {
  const arg *known = low_value(L, v);
  return known ? known->rank == 0 : v->ranked && v->rank == 0;
}
/* Has output k of n the shape of its input j? */
static bool keeps_shape(low *L, const node *n, uint32_t j, uint32_t k) {
  const opdef *d = notation_find(L->lib, n->domain, n->op);
  if (!d || opdef_keeps_shape(d, j, k)) return d != NULL;
  for (uint32_t i = 0; i < n->in.n; i++)
    if (i != j && (!n->in.v[i] || !is_scalar(L, n->in.v[i]))) return false;
  return n->in.n > 1 && opdef_broadcasts(d, j, k);
}
/* v, or the first declared value behind it that has its shape; NULL: none */
static const value *declared_like(low *L, const graph *g, const value *v, int far) {
  if (v->declared && v->ranked) return v;
  for (uint32_t i = 0; far && i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    for (uint32_t j = 0; j < n->in.n; j++)
      for (uint32_t k = 0; n->in.v[j] == v && k < n->out.n; k++) {
        if (!n->out.v[k] || !keeps_shape(L, n, j, k)) continue;
        const value *found = declared_like(L, g, n->out.v[k], far - 1);
        if (found) return found;
      }
  }
  return NULL;
}
/* The graph that holds n: g, or a region in it. */
static const graph *graph_of(const graph *g, const node *n) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *m = g->nodes.v[i];
    if (m == n) return g;
    for (uint32_t k = 0; k < m->attrs.n; k++) {
      const graph *in = m->attrs.v[k].g ? graph_of(m->attrs.v[k].g, n) : NULL;
      if (in) return in;
    }
  }
  return NULL;
}
/* How many axes of the result have the declared size, if the axes of `drop` go; -1: some size contradicts. */
static int agrees(low *L, const arg *x, uint32_t drop, const value *want) {
  int equal = 0;
  uint32_t at = 0;
  for (uint32_t d = 0; d < x->rank; d++) {
    if (drop >> d & 1) continue;
    const sz declared = want->dims[at++];
    if (!declared) continue;
    if (sym_ne(L->c, x->shape[d], declared)) return -1;
    equal += sym_eq(L->c, x->shape[d], declared);
  }
  return equal;
}
/* The axes to drop, as bits: `ones`, and so many of `open` that the declared rank is left. False: unclear. */
static bool axes_to_drop(low *L, const arg *x, uint32_t ones, uint32_t open, const value *want, uint32_t *drop) {
  int best = -1, ties = 0;
  for (uint32_t pick = open;; pick = (pick - 1) & open) {
    const uint32_t all = ones | pick;
    const int equal = (uint32_t)__builtin_popcount(all) + want->rank == x->rank ? agrees(L, x, all, want) : -1;
    if (equal > best)
      best = equal, ties = 0, *drop = all;
    else
      ties += equal >= 0 && equal == best;
    if (!pick) break;
  }
  return best >= 0 && !ties && !EK_PLANTED("lower-squeeze");
}
/* Axis d stays, so its size is not 1 when the model runs. */
static void assume_kept(low *L, const node *n, uint32_t block, uint32_t d, sz size, const char *why) {
  const sz one = sym_int(L->c, 1), off = sym_addi(L->c, size, -1);
  notation_assume(L->m, block, sym_sel(L->c, sym_min(L->c, off, sym_neg(L->c, off)), one, sym_int(L->c, 0)), false,
                  n->name,
                  arena_fmt(L->m->a, "Squeeze keeps axis %u%s: %s must not be 1", d, why, sym_str(L->c, size)));
}
bool low_squeeze(low *L, node *n, uint32_t block) {
  arg *known = n->in.n == 1 && n->in.v[0] && n->out.n ? low_value(L, n->in.v[0]) : NULL;
  uint32_t ones = 0, open = 0, drop = 0;
  const sz one = sym_int(L->c, 1);
  if (!known) return false;
  const arg x = *known;
  for (uint32_t d = 0; d < x.rank; d++) {
    const sz size = sym_canon(L->c, x.shape[d]);
    if (sym_eq(L->c, size, one))
      ones |= 1u << d;
    else if (!sym_ne(L->c, size, one))
      open |= 1u << d;
  }
  const graph *g = open ? graph_of(L->branch.v[0], n) : NULL;
  const value *want = g ? declared_like(L, g, n->out.v[0], FAR) : NULL;
  if (!want || !axes_to_drop(L, &x, ones, open, want, &drop)) {
    for (uint32_t d = 0; d < x.rank; d++)
      if (open >> d & 1)
        assume_kept(L, n, block, d, sym_canon(L->c, x.shape[d]),
                    ", as the code is compiled for any size (fix it with --dim to have the axis dropped)");
    return false;
  }
  int64_t axes[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t d = 0; d < x.rank; d++) {
    if (drop >> d & 1)
      axes[count++] = d;
    else if (open >> d & 1)
      assume_kept(L, n, block, d, sym_canon(L->c, x.shape[d]),
                  arena_fmt(L->a, ", as the model's declared rank %u says", want->rank));
  }
  arg in[2] = {x, low_ints(L, ET_I64, axes, count, true, arena_fmt(L->a, "%s.axes", n->name))}, out;
  if (low_call(L, block, n->name, "Squeeze", in, 2, NULL, 0, &out, 1)) low_set(L, n->out.v[0], out);
  return true;
}
