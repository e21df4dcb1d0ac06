/* Can the pieces of a placement be stored in place by their producers?
 *
 * A piece whose update is a one-to-one renaming of all the digits of a stage of the same block is stored inside the
 * placement by that stage's kernel, if the stage is not stored elsewhere and its value leaves no other way. For any
 * other piece a copy stage is made, which is fused like every element-wise stage: it may become a second store of the
 * producer's kernel, or join nothing and be moved by a kernel of its own (which some copies of one placement share). So
 * a placement itself never costs a kernel: it is virtual.
 *
 * Pieces over equal loops that read the same tensor are computed together: what they have in common is then
 * computed once. Those whose loops are the outer ones of others become one kernel with these.
 */
#include "fusion/fuse.h"

/* Does the update read all of stage q, each digit by one of its variables? Splits variables of the update where that
 * helps. */
static bool whole(fuser *f, uint32_t s, uint32_t at, uint32_t *producer) {
  emodule *m = f->m;
  enum { MOST_SPLITS = 24 };
  for (int round = 0; round < MOST_SPLITS; round++) {
    update u = xs(m, s)->updates.v[at];
    ex_node l = *exn(m, u.value);
    if (l.kind != EX_LOAD || l.otherwise) return false;
    uint32_t q = producer_of(m, l.tensor);
    if (!q--) return false;
    const stage *x = xs(m, q);
    uint32_t nd = expr_ndigits(x);
    sz *by = NEWN(f->a, sz, nd + 1), si;
    digit *d = NEWN(f->a, digit, nd + 1);
    atom sv;
    if (x->block != f->block || x->recurrence) return false;
    expr_digits(x, d);
    if (!expr_comps(m, q, l.args, by, &sv, &si)) {
      if (!sv || !can_split(f->p, s, sv, si)) return false;
      stage_split(f->p, s, sv, si);
      if (!is_placement(f->p, s)) return false;
      continue;
    }
    if (nd != u.nvars) return false;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < nd; i++) {
      atom v;
      if (!sym_is_atom(f->c, by[i], &v) || sym_kind(f->c, v) != AT_VAR ||
          (!sym_eq(f->c, sym_extent(f->c, v), d[i].extent) && !EK_PLANTED("kernels-place")))
        return false;
      for (uint32_t k = 0; k < u.nvars; k++)
        if (u.vars[k] == v) seen |= 1u << k;
    }
    *producer = q;
    return seen == (1u << u.nvars) - 1;
  }
  return false;
}
static bool free_to_place(fuser *f, uint32_t q) {
  const stage *x = xs(f->m, q);
  if (!f->where[q] || f->placed[q] || f->p->pinned.v[x->tensor]) return false;
  if (x->updates.n && !f->k.v[f->where[q] - 1].virt) return false;
  return true;
}
/* Where a piece lies in the placement hangs on the placement's sizes: those that are found in the run come before
 * q's kernel then, unless they need it. */
static bool sizes_first(fuser *f, uint32_t s, uint32_t q) {
  u32vec late = {0}, has = {0};
  uint32_t k = f->where[q] - 1;
  fuse_late(f, s, &late);
  fuse_late(f, q, &has);
  for (uint32_t i = 0; i < late.n; i++)
    if (late.v[i] == k || depends(f, late.v[i], k) || (f->k.v[k].virt && !vec_has(&has, late.v[i]))) return false;
  for (uint32_t i = 0; i < late.n; i++) fuse_depend(f, k, late.v[i]);
  return true;
}
static uint32_t copy_stage(fuser *f, uint32_t s, uint32_t at) {
  const update u = xs(f->m, s)->updates.v[at];
  ex load;
  const uint32_t made = pass_stage_over(f->p, s, u.vars, u.nvars, u.value, "piece", &load);
  xs(f->m, s)->updates.v[at].value = load;
  return made;
}
static bool reads(fuser *f, uint32_t k, tid t) {
  for (uint32_t i = 0; i < f->k.v[k].st.n; i++) {
    const u32vec *l = stage_loads(f->p, f->k.v[k].st.v[i]);
    for (uint32_t j = 0; j < l->n; j++)
      if (exn(f->m, l->v[j])->tensor == t) return true;
  }
  return false;
}
static uint32_t kernel_of_piece(fuser *f, const update *u) {
  return f->where[producer_of(f->m, exn(f->m, u->value)->tensor) - 1] - 1;
}
static bool pieces_of_one_kind(fuser *f, uint32_t k, uint32_t q) {
  const fnode *a = &f->k.v[k], *b = &f->k.v[q];
  return k != q && a->alive && b->alive && a->cls == b->cls &&
         (a->cls == KC_ELEMENTWISE || a->cls == KC_GATHER || a->cls == KC_COPY) && a->st.n + b->st.n <= FUSE_MEMBERS;
}
/* Has kernel q no variable but those that all its stages share? */
static bool all_in_loops(fuser *f, uint32_t q) {
  for (uint32_t i = 0; i < f->k.v[q].st.n; i++) {
    u32vec vars = {0};
    stage_vars(f->m, f->k.v[q].st.v[i], f->a, &vars);
    for (uint32_t j = 0; j < vars.n; j++)
      if (!vec_has(&f->k.v[q].outer, fuse_canon(f, vars.v[j]))) return false;
  }
  return true;
}
/* Does q read a tensor that k reads, and neither what the other makes? */
static bool reads_the_same(fuser *f, uint32_t k, uint32_t q) {
  bool common = false;
  for (uint32_t i = 0; i < f->k.v[q].st.n; i++) {
    const u32vec *l = stage_loads(f->p, f->k.v[q].st.v[i]);
    for (uint32_t j = 0; j < l->n && !common; j++)
      common = xt(f->m, exn(f->m, l->v[j])->tensor)->kind != TK_CONST && reads(f, k, exn(f->m, l->v[j])->tensor);
  }
  return common && !depends(f, k, q) && !depends(f, q, k);
}
/* May q's stages run in the loops of k, loop by loop? */
static bool same_loops(fuser *f, uint32_t k, uint32_t q) {
  const fnode *a = &f->k.v[k], *b = &f->k.v[q];
  if (!pieces_of_one_kind(f, k, q) || a->outer.n != b->outer.n) return false;
  for (uint32_t i = 0; i < a->outer.n; i++)
    if (!sym_eq(f->c, sym_extent(f->c, a->outer.v[i]), sym_extent(f->c, b->outer.v[i])) &&
        !EK_PLANTED("kernels-pieces"))
      return false;
  return all_in_loops(f, q) && reads_the_same(f, k, q);
}
static void together(fuser *f, uint32_t k, uint32_t q) {
  const fnode *a = &f->k.v[k], *b = &f->k.v[q];
  for (uint32_t i = 0; i < b->st.n; i++) {
    u32vec vars = {0};
    stage_vars(f->m, b->st.v[i], f->a, &vars);
    for (uint32_t j = 0; j < vars.n; j++)
      for (uint32_t z = 0; z < b->outer.n; z++)
        if (fuse_canon(f, vars.v[j]) == b->outer.v[z]) {
          map_putu(f->canon, vars.v[j], a->outer.v[z]);
          break;
        }
  }
  fuse_merge(f, k, q);
}
/* The variable of the piece, in its kernel's names, that counts axis x of the placement alone; 0: there is none. */
static atom counts_axis(fuser *f, const update *u, uint32_t x) {
  const ex_node l = *exn(f->m, u->value);
  const uint32_t q = producer_of(f->m, l.tensor) - 1;
  sz *by;
  digit *d;
  uint32_t nd;
  atom v;
  if (!sym_is_atom(f->c, u->idx[x], &v) || !fuse_digits(f, q, l.args, &by, &d, &nd)) return 0;
  for (uint32_t i = 0; i < nd; i++)
    if (by[i] == u->idx[x]) return fuse_canon(f, d[i].var);
  return 0;
}
/* Two kernels of pieces that read the same tensor, one of which has all loops of the other, and more inside: they have
 * these in common, and what is inside runs one after the other. That are few points, so that threads have enough. */
static void join_inside(fuser *f, uint32_t s, uint32_t at_k, uint32_t at_q) {
  enum { MOST_INSIDE = 8 };
  const stage *y = xs(f->m, s);
  const update *pieces[] = {&y->updates.v[at_k], &y->updates.v[at_q]};
  const uint32_t k = kernel_of_piece(f, pieces[0]), q = kernel_of_piece(f, pieces[1]);
  u32vec to = {0}, from = {0};
  if (!pieces_of_one_kind(f, k, q) || f->k.v[k].cls != KC_ELEMENTWISE || !reads_the_same(f, k, q)) return;
  for (uint32_t x = 0; x < pieces[0]->nidx; x++) {
    const atom a = counts_axis(f, pieces[0], x), b = counts_axis(f, pieces[1], x);
    if (!vec_has(&f->k.v[k].outer, a) || !vec_has(&f->k.v[q].outer, b) || vec_has(&to, a) || vec_has(&from, b) ||
        (!sym_eq(f->c, sym_extent(f->c, a), sym_extent(f->c, b)) && !EK_PLANTED("kernels-inside")))
      continue;
    vec_push(f->a, to, a), vec_push(f->a, from, b);
  }
  const int64_t points = fuse_extent(f, &f->k.v[k].outer), others = fuse_extent(f, &f->k.v[q].outer);
  if ((to.n != f->k.v[k].outer.n && to.n != f->k.v[q].outer.n) || !to.n ||
      max64(points, others) / MOST_INSIDE > min64(points, others) || !pass_spend(f->p))
    return;
  for (uint32_t i = 0; i < to.n; i++)
    if (to.v[i] != from.v[i]) fuse_rename(f, q, from.v[i], to.v[i]);
  f->k.v[k].outer = to;
  fuse_merge(f, k, q);
}
/* Piece `at`: its kernel with the first of these pieces' that it shares loops with, or else one more of them. */
static void join_same(fuser *f, uint32_t s, u32vec *heads, uint32_t at) {
  const stage *y = xs(f->m, s);
  const uint32_t k = kernel_of_piece(f, &y->updates.v[at]);
  uint32_t j = 0;
  while (j < heads->n && !same_loops(f, kernel_of_piece(f, &y->updates.v[heads->v[j]]), k)) j++;
  if (j == heads->n || !pass_spend(f->p))
    vec_push(f->a, *heads, at);
  else
    together(f, kernel_of_piece(f, &y->updates.v[heads->v[j]]), k);
}
void fuse_placement(fuser *f, uint32_t s) {
  emodule *m = f->m;
  u32vec heads = {0};
  uint32_t group = UINT32_MAX, n = xs(m, s)->updates.n;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t q;
    if (whole(f, s, i, &q) && free_to_place(f, q) && sizes_first(f, s, q)) {
      f->placed[q] = s + 1;
      join_same(f, s, &heads, i);
      continue;
    }
    uint32_t ns = copy_stage(f, s, i);
    (void)fuse_class(f, ns); /* makes room for the stage in the tables */
    f->pos[ns] = f->pos[s] - 1;
    f->placed[ns] = s + 1;
    fuse_stage(f, ns);
    uint32_t k = f->where[ns] - 1;
    pass_remark(f->p, "kernels", ns, s + 1, "piece is stored elsewhere too");
    if (f->k.v[k].st.n == 1 && f->k.v[k].st.v[0] == ns) { /* joined nothing: copies of one placement go together */
      f->k.v[k].cls = KC_COPY;
      if (cost_copy_alone(sym_int_or(f->c, stage_points(m, ns), 0))) {
        join_same(f, s, &heads, i);
        continue;
      }
      if (group == UINT32_MAX || f->k.v[group].st.n >= COPIES_TOGETHER)
        group = k;
      else {
        fuse_merge(f, group, k);
        f->k.v[group].outer.n = 0;
      }
    }
  }
  for (uint32_t j = 1; j < heads.n; j++) join_inside(f, s, heads.v[0], heads.v[j]);
  pass_changed(f->p, s);
  uint32_t v = fuse_node(f, 0);
  f->k.v[v].virt = true;
  fuse_add(f, v, s);
}
