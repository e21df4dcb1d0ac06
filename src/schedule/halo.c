/* How does the halo of a buffer get its constant?
 *
 * As slabs before and after each axis that has one. A kernel that computes a tensor alone fills the part of the
 * halo beside the points of its own chunks (halo_part): then the memory is touched by one thread only, and no
 * step of its own is needed. Where chunks do not correspond to axes, or several kernels write into the buffer, a
 * launch before the first of them fills all of it (halo_launch).
 */
#include "schedule/halo.h"

static bool some(ctx *c, sz width) { return width && sym_int_or(c, width, 1) != 0; }
void halo_slab(ectx *e, tid t, const layout *l, lv ptr, const lv *from, const lv *to) {
  ctx *c = e->c;
  lbuild *b = &e->b;
  const tensor *x = xt(e->p->m, t);
  uint32_t by[MAX_RANK], n_by = 0, depth = 0; /* axes that take room, by stride, outer to inner */
  for (uint32_t i = 0; i < l->rank; i++)
    if (sym_int_or(c, l->axes[i].d[0].stride, 1) != 0) by[n_by++] = i;
  for (uint32_t i = 1; i < n_by; i++)
    for (uint32_t j = i; j > 0 && sym_le(c, l->axes[by[j - 1]].d[0].stride, l->axes[by[j]].d[0].stride) &&
                         l->axes[by[j - 1]].d[0].stride != l->axes[by[j]].d[0].stride;
         j--) {
      uint32_t q = by[j];
      by[j] = by[j - 1], by[j - 1] = q;
    }
  lv at = emit_size(e, l->base), run = 0;
  for (uint32_t q = 0; q < n_by; q++) {
    uint32_t i = by[q];
    lv v, st = emit_size(e, l->axes[i].d[0].stride);
    /* the innermost run is filled by vectors */
    if (q + 1 == n_by && sym_int_or(c, l->axes[i].d[0].stride, 0) == 1) {
      at = lb_add(b, at, from[i]);
      run = lb_sub(b, to[i], from[i]);
      break;
    }
    lb_for(b, "i", from[i], to[i], lb_int(b, 1), 0, &v);
    depth++;
    at = lb_add(b, at, lb_mul(b, v, st));
  }
  uint32_t L = target_lanes(e->p->t, x->type);
  scalar k = *l->fill;
  if (run && e->p->t->masks && L > 1) {
    lv v;
    lb_for(b, "v", lb_int(b, 0), run, lb_int(b, L), 0, &v);
    lv left = lb_op(b, OP_MIN, lt(ET_I64, 1), lb_sub(b, run, v), lb_int(b, L), 0);
    lb_store_ex(b, ptr, lb_add(b, at, v), lb_const(b, lt(x->type, L), k), 0, left, 0, 0);
    lb_end(b);
  } else if (run) {
    lv v;
    lb_for(b, "v", lb_int(b, 0), run, lb_int(b, 1), 0, &v);
    lb_store(b, ptr, lb_add(b, at, v), lb_const(b, lt(x->type, 1), k));
    lb_end(b);
  } else
    lb_store(b, ptr, at, lb_const(b, lt(x->type, 1), k));
  while (depth--) lb_end(b);
}
/* Fills the slabs of all axes; mine[axis]: the range of interior points whose part is filled, from = 0: all. */
static void fill(ectx *e, tid t, const layout *l, lv ptr, const halo_range *mine) {
  ctx *c = e->c;
  lbuild *b = &e->b;
  const ltype i64 = lt(ET_I64, 1);
  const tensor *x = xt(e->p->m, t);
  lv zero = lb_int(b, 0);
  lv from[MAX_RANK], to[MAX_RANK]; /* range of each axis, with the halo where the range touches it */
  for (uint32_t i = 0; i < l->rank; i++) {
    const laxis *y = &l->axes[i];
    lv n = emit_size(e, x->shape[i]), first = some(c, y->lo) ? emit_size(e, sym_neg(c, y->lo)) : zero,
       last = some(c, y->hi) ? emit_size(e, sym_add(c, x->shape[i], y->hi)) : n;
    from[i] = first, to[i] = last;
    if (!mine || !mine[i].from) continue;
    from[i] = some(c, y->lo) ? lb_op(b, OP_SEL, i64, lb_cmp(b, OP_EQ, mine[i].from, zero), first, mine[i].from)
                             : mine[i].from;
    to[i] = some(c, y->hi) ? lb_op(b, OP_SEL, i64, lb_cmp(b, OP_EQ, mine[i].to, n), last, mine[i].to) : mine[i].to;
  }
  for (uint32_t ax = 0; ax < l->rank; ax++)
    for (int side = 0; side < 2; side++) {
      bool part = mine && mine[ax].from;
      if (!some(c, side ? l->axes[ax].hi : l->axes[ax].lo) || (side && EK_PLANTED("schedule-halo"))) continue;
      lv lo = from[ax], hi = to[ax], n = emit_size(e, x->shape[ax]);
      if (side)
        from[ax] = part ? lb_op(b, OP_MAX, i64, lo, n, 0) : n;
      else
        to[ax] = part ? lb_op(b, OP_MIN, i64, hi, zero, 0) : zero;
      halo_slab(e, t, l, ptr, from, to);
      from[ax] = lo, to[ax] = hi;
    }
}
void halo_fill(ectx *e, tid t, const layout *l, lv ptr) { fill(e, t, l, ptr, NULL); }

void halo_launch(splan *p, uint32_t buffer, uint32_t block, uint32_t item) {
  ectx e = {0};
  lfunc *f = loop_func(p->l, LF_KERNEL, arena_fmt(p->l->a, "halo%u", buffer),
                       arena_fmt(p->l->a, "halo of %s", p->buffers.v[buffer].name));
  launch l = {.func = f,
              .name = f->name,
              .note = f->note,
              .kernel = UINT32_MAX,
              .block = block,
              .item = item,
              .chunks = sym_int(p->m->c, 1)};
  emit_begin(&e, p, f, &l, p->l->a);
  tid t = p->buffers.v[buffer].tensor;
  halo_fill(&e, t, &p->layouts[t], emit_buffer(&e, buffer, true));
  vec_push(p->l->a, p->launches, l);
}

bool halo_only_writer(const splan *p, uint32_t buffer, tid t) {
  for (uint32_t i = 0; i < p->m->stages.n; i++) {
    const stage *s = xs(p->m, i);
    if (!s->dead && s->tensor != t && p->layouts[s->tensor].buffer == buffer) return false;
  }
  return p->buffers.v[buffer].tensor == t;
}
static int32_t axis_of(ectx *e, const stage *s, atom var) {
  for (uint32_t i = 0; i < s->naxes; i++)
    if (s->axes[i].n == 1 &&
        view_resolve(&e->view, expr_axis_index(e->m, &s->axes[i])) == view_resolve(&e->view, sym_of_atom(e->c, var)))
      return (int32_t)i;
  return -1;
}
bool halo_fits(ectx *e, uint32_t si, const halo_range *ranges, uint32_t n) {
  const stage *s = xs(e->m, si);
  const layout *l = &e->p->layouts[s->tensor];
  if (!halo_only_writer(e->p, l->buffer, s->tensor)) return false;
  for (uint32_t i = 0; i < s->naxes; i++) /* an empty axis: the kernel has no chunks */
    if (sym_int_or(e->c, xt(e->m, s->tensor)->shape[i], 1) == 0 && !EK_PLANTED("schedule-halo-empty")) return false;
  for (uint32_t r = 0; r < n; r++) {
    int32_t i = axis_of(e, s, ranges[r].var);
    if (i < 0) return false;
    const laxis *y = &l->axes[i]; /* an axis without points has no chunks, but may have a halo that is read */
    if ((some(e->c, y->lo) || some(e->c, y->hi)) && !sym_ge0(e->c, sym_addi(e->c, xt(e->m, s->tensor)->shape[i], -1)))
      return false;
  }
  return true;
}
void halo_part(ectx *e, uint32_t si, const halo_range *ranges, uint32_t n) {
  const stage *s = xs(e->m, si);
  halo_range mine[MAX_RANK] = {0};
  for (uint32_t r = 0; r < n; r++) mine[axis_of(e, s, ranges[r].var)] = ranges[r];
  const layout *l = &e->p->layouts[s->tensor];
  fill(e, s->tensor, l, emit_buffer(e, l->buffer, true), mine);
}
