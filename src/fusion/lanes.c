/* Which variable of a stage runs along the lanes?
 *
 * Columns of a contraction lie side by side in what it computes, and in all that is computed of that at the same
 * columns. Where stages share these, a kernel of them computes as many points at once as its tile has columns, needs
 * room for what belongs to all of these, and leaves threads so many points fewer to divide.
 */
#include "fusion/fusion.h"
#include "rewrite/rewrite.h"

enum { TILE_VECTORS = 2 /* of columns, whose sums are computed side by side */ };

static atom columns(pw *p, uint32_t s) {
  roles r;
  if (!stage_is_reduce(p, s) || !expr_roles(p->m, s, p->a, &r) || r.cls != KC_CONTRACTION || !r.col.n) return 0;
  return r.col.v[r.col.n - 1];
}
/* The variable that stands where the tensor that is read has its own, which is an axis. */
static atom as_read(pw *p, const ex_node *load, const atom *lanes) {
  const uint32_t q = producer_of(p->m, load->tensor);
  const stage *x = q && lanes[q - 1] ? xs(p->m, q - 1) : NULL;
  for (uint32_t i = 0; x && i < x->naxes; i++) {
    atom v;
    if (x->axes[i].n == 1 && x->axes[i].d[0].var == lanes[q - 1])
      return sym_is_atom(p->c, load->args[i], &v) && sym_kind(p->c, v) == AT_VAR ? v : 0;
  }
  return 0;
}
/* A placement has the variable at the axis at which its pieces have it. */
static atom of_pieces(pw *p, uint32_t s, atom piece) {
  const stage *x = xs(p->m, s);
  for (uint32_t i = 0; piece && x->updates.n && i < x->naxes; i++)
    if (x->updates.v[0].idx[i] == sym_of_atom(p->c, piece) && x->axes[i].n == 1) return x->axes[i].d[0].var;
  return x->updates.n ? 0 : piece;
}
atom *expr_lanes(pw *p) {
  u32vec order = {0};
  atom *lanes = NEWN(p->a, atom, p->m->stages.n + 1);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const uint32_t s = order.v[i];
    const u32vec *l = stage_loads(p, s);
    lanes[s] = EK_PLANTED("lanes") ? 0 : columns(p, s);
    for (uint32_t k = 0; k < l->n && !lanes[s]; k++) lanes[s] = of_pieces(p, s, as_read(p, exn(p->m, l->v[k]), lanes));
  }
  return lanes;
}
int64_t expr_lane_points(pw *p, atom lane) {
  return lane ? min64(TILE_VECTORS * p->lanes, max64(expr_typical(p->m, sym_extent(p->c, lane)), 1)) : 1;
}
