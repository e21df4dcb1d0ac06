/* How does a stage fall apart into stages of some of its places each? It becomes a placement of them: per digit a
 * piece has every step-th place from a first one on.
 *
 * Every piece has variables of its own, twice: those of its stage, and those with which it is put in its place. */
#include "rewrite/rewrite.h"

void split_begin(pw *p, uint32_t s, const slice *of, atom *from, sz *to, piece *out) {
  emodule *m = p->m;
  ctx *c = p->c;
  const stage *x = xs(m, s);
  uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(p->a, digit, nd + 1);
  sz *at = NEWN(p->a, sz, nd + 1);
  expr_digits(x, d);
  *out = (piece){.d = NEWN(p->a, digit, nd + 1),
                 .read = NEWN(p->a, sz, nd + 1),
                 .u = {.nidx = x->naxes, .vars = NEWN(m->a, atom, nd + 1), .idx = NEWN(m->a, sz, x->naxes + 1)}};
  for (uint32_t i = 0; i < nd; i++) {
    sz v = sym_var(c, sym_name(c, d[i].var), of[i].extent), w = sym_var(c, sym_name(c, d[i].var), of[i].extent);
    from[i] = d[i].var, to[i] = sym_add(c, sym_muli(c, v, of[i].step), of[i].first),
    at[i] = sym_add(c, sym_muli(c, w, of[i].step), of[i].first);
    if (!sym_is_atom(c, v, &out->d[out->n].var)) continue; /* a digit of one place has no variable */
    out->d[out->n].extent = of[i].extent, out->read[out->n] = w;
    sym_is_atom(c, w, &out->u.vars[out->n]);
    out->n++;
  }
  out->u.nvars = out->n;
  for (uint32_t a = 0, i = 0; a < x->naxes; a++) {
    out->u.idx[a] = sym_int(c, 0);
    for (uint32_t j = 0; j < x->axes[a].n; j++, i++)
      out->u.idx[a] = sym_add(c, sym_mul(c, out->u.idx[a], x->axes[a].d[j].extent), at[i]);
  }
}
void split_end(pw *p, uint32_t s, piece *k, ex value, const char *hint) {
  uint32_t ns = pass_stage(p, s, k->d, k->n, value, hint);
  k->u.value = expr_load(p->m, xs(p->m, ns)->tensor, k->read, k->n, 0);
}
bool split_stage(pw *p, uint32_t s, const piece *k, uint32_t n) {
  emodule *m = p->m;
  stage old = *xs(m, s);
  for (uint32_t i = 0; i < n; i++) vec_push(m->a, xs(m, s)->updates, k[i].u);
  xs(m, s)->value = 0, xs(m, s)->tiled = true;
  pass_changed(p, s);
  if (is_placement(p, s)) return true;
  *xs(m, s) = old; /* nothing reads the pieces, which are dropped later */
  pass_changed(p, s);
  return false;
}
