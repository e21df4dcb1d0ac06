/* When does a contraction run just ahead of a window over what it makes?
 *
 * A pointwise convolution that widens the channels, and the depthwise one behind it, hand over the largest tensor
 * there is around them; where that is larger than the caches near a core, it goes out to memory and comes back.
 * The window needs a few rows of it only: rows of the window's result follow one another, and each needs the few
 * rows of the operand that the one before has not asked for. So both become one kernel whose points are rows of
 * the window's result, and the schedule keeps the rows between them in a scratch that slides down (kernel_rolling.c).
 *
 * It pays for much that is handed over, where the contraction's constants, which are read again for every few
 * rows, are small against these.
 */
#include "fusion/fuse.h"

enum {
  MOST = 8 /* places that a window reads outside */
};

static bool windows_along(emodule *m, const ex_node *load, const ex_node *red, uint32_t axis, sliding_window *out) {
  ctx *c = m->c;
  sz rest = load->args[axis], coef;
  int64_t k, n, span = 1, first, shape;
  STACK_U32VEC(vs);
  if (sym_uses_kind(c, rest, AT_DATA)) return false;
  sym_atoms(c, rest, AT_VAR, m->a, &vs);
  *out = (sliding_window){.axis = axis};
  for (uint32_t i = 0; i < vs.n; i++) {
    bool mine = false;
    for (uint32_t j = 0; j < red->nargs; j++) mine |= red->args[j] == vs.v[i];
    if (!sym_linear(c, rest, vs.v[i], &coef, &rest) || !sym_is_int(c, coef, &k) || k < 1 || k > INT16_MAX ||
        !sym_is_int(c, sym_extent(c, vs.v[i]), &n) || n < 1 || n > INT32_MAX)
      return false;
    if (mine)
      span += k * (n - 1);
    else if (out->along)
      return false;
    else
      out->along = vs.v[i], out->step = k, out->values = n;
  }
  for (uint32_t j = 0; j < load->nargs && out->along; j++)
    if (j != axis && sym_uses(c, load->args[j], out->along)) return false;
  out->span = span;
  if (!out->along || span <= out->step || !sym_is_int(c, rest, &first) ||
      !sym_is_int(c, xt(m, load->tensor)->shape[axis], &shape))
    return false;
  out->first = first + EK_PLANTED("kernels-rolling");
  /* each window reads a place inside the tensor */
  return first >= -MOST && first + out->step * (out->values - 1) + span <= shape + MOST && first + span > 0 &&
         first + out->step * (out->values - 1) < shape;
}
bool expr_sliding(emodule *m, ex load, ex reduction, sliding_window *out) {
  const ex_node *n = exn(m, load), *red = exn(m, reduction);
  if (n->kind != EX_LOAD || red->kind != EX_REDUCE || (n->otherwise && exn(m, n->otherwise)->kind != EX_CONST))
    return false;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (windows_along(m, n, red, i, out)) return true;
  return false;
}

/* The only tensor that the window of stage s reads: its load, 0: there are others. */
static ex window_load(fuser *f, uint32_t s) {
  const u32vec *l = stage_loads(f->p, s);
  ex load = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    if (xt(f->m, exn(f->m, l->v[i])->tensor)->kind == TK_CONST) continue;
    if (load) return 0;
    load = l->v[i];
  }
  return load;
}
static void try_rolling(fuser *f, uint32_t k2, uint32_t reader) {
  emodule *m = f->m;
  ex load = window_load(f, reader);
  uint32_t q = load ? producer_of(m, exn(m, load)->tensor) : 0, nd, made;
  sliding_window sl;
  sz *by;
  digit *d;
  roles r;
  if (!q || xs(m, q - 1)->block != f->block || !f->where[q - 1] || f->where[q - 1] - 1 == k2) return;
  made = q - 1;
  uint32_t k1 = f->where[made] - 1, lead;
  const fnode *n1 = &f->k.v[k1];
  if (n1->virt || n1->opaque || n1->cls != KC_CONTRACTION || n1->st.n + f->k.v[k2].st.n > FUSE_MEMBERS ||
      f->p->readers.v[xs(m, made)->tensor].n != 1)
    return;
  lead = n1->st.v[0]; /* the kernel computes nothing before it */
  if (fuse_class(f, lead) != KC_CONTRACTION || !expr_roles(m, lead, f->a, &r) || !fuse_only_for(f, k1, made, false))
    return;
  /* it only collects: better one axis after the other (pass_windows.c) */
  if (exn(m, xs(m, reader)->value)->body == load) return;
  if (!expr_sliding(m, load, xs(m, reader)->value, &sl) || xs(m, made)->axes[sl.axis].n != 1 ||
      !fuse_digits(f, made, exn(m, load)->args, &by, &d, &nd))
    return;
  /* outside: rows of the contraction that both kernels count alike, up to the axis that slides */
  u32vec outer = {0}, from = {0}, rows = {0}, all = {0}, plane = {0};
  bool before = true, slides = false;
  for (uint32_t i = 0; i < nd; i++) {
    atom v = fuse_canon(f, d[i].var), a;
    bool row = false;
    for (uint32_t j = 0; j < r.row.n; j++) row |= fuse_canon(f, r.row.v[j]) == v;
    vec_push(f->a, all, d[i].var);
    if (d[i].var == xs(m, made)->axes[sl.axis].d[0].var) {
      slides = row && vec_has(&n1->outer, v);
      before = false;
    } else if (before && row && vec_has(&n1->outer, v) && sym_is_atom(f->c, by[i], &a) &&
               sym_eq(f->c, sym_extent(f->c, a), d[i].extent) && vec_has(&f->k.v[k2].outer, fuse_canon(f, a))) {
      vec_push(f->a, outer, fuse_canon(f, a));
      vec_push(f->a, from, v);
    } else {
      vec_push(f->a, plane, d[i].var);
      if (row) vec_push(f->a, rows, d[i].var);
    }
  }
  vec_push(f->a, outer, fuse_canon(f, sl.along));
  if (!slides || !vec_has(&f->k.v[k2].outer, fuse_canon(f, sl.along)) || !rows.n ||
      !cost_rows_for_tile(fuse_extent(f, &rows)))
    return;
  const int64_t kept = sat_mul64(fuse_bytes(f, made, &plane), sl.span + sl.step);
  if (!cost_rolling_pays(f->p->t, fuse_bytes(f, made, &all), fuse_constants(f, lead), kept) || !pass_spend(f->p))
    return;
  for (uint32_t i = 0; i < from.n; i++) fuse_rename(f, k1, from.v[i], outer.v[i]);
  f->k.v[k2].outer = outer;
  f->k.v[k2].cls = KC_BLOCKS;
  f->k.v[k2].note = NULL;
  fuse_merge(f, k2, k1);
}
void fuse_rolling_buffers(fuser *f) {
  for (uint32_t k = 0; k < f->k.n; k++)
    if (f->k.v[k].alive && !f->k.v[k].virt && !f->k.v[k].opaque && f->k.v[k].cls == KC_STENCIL &&
        fuse_class(f, f->k.v[k].st.v[0]) == KC_STENCIL)
      try_rolling(f, k, f->k.v[k].st.v[0]);
}
