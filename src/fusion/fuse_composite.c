/* When do a contraction, a chain over its rows and a second contraction become one kernel?
 *
 * C2 reduces variables s of an operand P; P comes from a row kernel read by nobody else whose outer variables are all
 * of P's but s; and that kernel reads exactly one contraction that nobody else reads. Then for one point of the outer
 * variables the whole chain needs one row of the first product only. It pays when the chain can be computed online (its
 * row reductions are a maximum m and the sum of exp(x - m): the row never exists), or when the second operand varies
 * with the batch (else weights would be streamed once per row).
 */
#include "fusion/fuse.h"

/* exp(x - M), M a max over the row, somewhere in e */
static bool exp_of_difference(fuser *f, ex e, uint32_t k, map *seen) {
  emodule *m = f->m;
  uint64_t x;
  if (!e || map_getu(seen, e, &x)) return false;
  map_putu(seen, e, 1);
  ex_node n = *exn(m, e);
  if (n.kind == EX_OP && n.op == OP_EXP) {
    ex_node d = *exn(m, n.args[0]);
    if (d.kind == EX_OP && d.op == OP_SUB) {
      u32vec l = {0};
      expr_loads(m, d.args[1], f->a, &l);
      for (uint32_t i = 0; i < l.n; i++) {
        uint32_t q = producer_of(m, exn(m, l.v[i])->tensor);
        if (q && f->where[q - 1] == k + 1 && stage_is_reduce(f->p, q - 1) && exn(m, xs(m, q - 1)->value)->op == RED_MAX)
          return true;
      }
    }
  }
  for (uint32_t i = 0; n.kind == EX_OP && i < n.nargs; i++)
    if (exp_of_difference(f, n.args[i], k, seen)) return true;
  if (n.kind == EX_LOAD) {
    uint32_t q = producer_of(m, n.tensor);
    if (q && f->where[q - 1] == k + 1 && stage_plain(f->p, q - 1))
      return exp_of_difference(f, xs(m, q - 1)->value, k, seen);
  }
  return false;
}
static bool online(fuser *f, uint32_t k) {
  const fnode *n = &f->k.v[k];
  bool found = false;
  for (uint32_t i = 0; i < n->st.n; i++) {
    uint32_t s = n->st.v[i];
    if (!stage_is_reduce(f->p, s)) continue;
    ex_node r = *exn(f->m, xs(f->m, s)->value);
    if (r.op == RED_SUM) {
      if (!exp_of_difference(f, r.body, k, map_new(f->a))) return false; /* another sum needs the row again */
      found = true;
    } else if (r.op != RED_MAX)
      return false;
  }
  return found;
}
static bool leaves(fuser *f, uint32_t k) { /* is some member's value needed outside? */
  const fnode *n = &f->k.v[k];
  for (uint32_t i = 0; i < n->st.n; i++)
    if (f->p->pinned.v[xs(f->m, n->st.v[i])->tensor] || f->placed[n->st.v[i]]) return true;
  return false;
}
/* the only other node that reads k, or UINT32_MAX */
static uint32_t only_user(fuser *f, uint32_t k) {
  u32vec u = {0};
  fuse_users(f, k, &u);
  return u.n == 1 ? u.v[0] : UINT32_MAX;
}
static bool digits_at(fuser *f, ex load, uint32_t q, sz **by, digit **d, uint32_t *nd) {
  return !exn(f->m, load)->otherwise && fuse_digits(f, q, exn(f->m, load)->args, by, d, nd);
}
static bool try_composite(fuser *f, uint32_t k3, uint32_t c2, ex load) {
  emodule *m = f->m;
  roles r;
  uint32_t q = producer_of(m, exn(m, load)->tensor);
  if (!q-- || xs(m, q)->block != f->block || !f->where[q]) return false;
  uint32_t k2 = f->where[q] - 1, nd;
  if (k2 == k3 || f->k.v[k2].cls != KC_ROW || leaves(f, k2) || only_user(f, k2) != k3 || !expr_roles(m, c2, f->a, &r))
    return false;
  sz *by;
  digit *d;
  if (!digits_at(f, load, q, &by, &d, &nd)) return false;
  /* P's variables: reduced by C2, or outer */
  u32vec s = {0};
  map *to3 = map_new(f->a); /* C2's variable -> canonical of k2 */
  for (uint32_t i = 0; i < nd; i++) {
    atom v;
    if (!sym_is_atom(f->c, by[i], &v)) return false;
    map_putu(to3, v, fuse_canon(f, d[i].var));
    if (vec_has(&r.red_both, v))
      vec_push(f->a, s, d[i].var);
    else if (!vec_has(&f->k.v[k2].outer, fuse_canon(f, d[i].var)))
      return false;
  }
  if (!s.n || nd - s.n != f->k.v[k2].outer.n) return false;
  for (uint32_t i = 0; i < s.n; i++)
    if (vec_has(&f->k.v[k2].outer, fuse_canon(f, s.v[i]))) return false;
  /* the one contraction the chain reads */
  uint32_t k1 = UINT32_MAX;
  for (uint32_t i = 0; i < f->k.v[k2].st.n; i++) {
    u32vec deps = {0};
    fuse_deps(f, f->k.v[k2].st.v[i], &deps);
    for (uint32_t k = 0; k < deps.n; k++) {
      uint32_t x = deps.v[k];
      if (x == k2 || (f->k.v[x].cls != KC_CONTRACTION && f->k.v[x].cls != KC_MATVEC) || x == k1 ||
          only_user(f, x) != k2 || leaves(f, x))
        continue;
      if (k1 != UINT32_MAX) return false;
      k1 = x;
    }
  }
  if (k1 == UINT32_MAX) return false;
  /* no other kernel may stand between the two */
  for (uint32_t x = 0; x < f->k.n; x++)
    if (x != k1 && x != k2 && x != k3 && f->k.v[x].alive && (depends(f, k2, x) || depends(f, k3, x)) &&
        (depends(f, x, k1) || depends(f, x, k2)))
      return false;
  /* the chain reads the first product at its own variables */
  map *to1 = map_new(f->a); /* canonical variable of kernel k1 -> the one of k2 */
  uint64_t old;
  for (uint32_t i = 0; i < f->k.v[k2].st.n; i++) {
    const u32vec *l = stage_loads(f->p, f->k.v[k2].st.v[i]);
    for (uint32_t k = 0; k < l->n; k++) {
      uint32_t p1 = producer_of(m, exn(m, l->v[k])->tensor);
      if (!p1-- || xs(m, p1)->block != f->block || f->where[p1] != k1 + 1) continue;
      if (!digits_at(f, l->v[k], p1, &by, &d, &nd)) return false;
      for (uint32_t a = 0; a < nd; a++) {
        atom v, c1 = fuse_canon(f, d[a].var);
        if (!sym_is_atom(f->c, by[a], &v)) return false;
        bool outer2 = vec_has(&f->k.v[k2].outer, fuse_canon(f, v));
        if (outer2 && !vec_has(&f->k.v[k1].outer, c1)) return false;
        /* a reduction's variable of the chain names no loop; the stage's own do */
        if (!stage_has_var(m, f->k.v[k2].st.v[i], v)) continue;
        if (map_getu(to1, c1, &old) && (atom)old != fuse_canon(f, v)) return false;
        map_putu(to1, c1, fuse_canon(f, v));
      }
    }
  }
  uint32_t hits = 0;
  for (uint32_t i = 0; i < f->k.v[k3].outer.n; i++) {
    uint64_t x;
    hits += map_getu(to3, f->k.v[k3].outer.v[i], &x) && vec_has(&f->k.v[k2].outer, (uint32_t)x);
  }
  if (hits != f->k.v[k2].outer.n) return false;
  /* whatever else the last kernel reads of the chain, it reads at its own outer point */
  for (uint32_t i = 0; i < f->k.v[k3].st.n; i++) {
    const u32vec *l = stage_loads(f->p, f->k.v[k3].st.v[i]);
    for (uint32_t k = 0; k < l->n; k++) {
      uint32_t p2 = producer_of(m, exn(m, l->v[k])->tensor);
      if (!p2-- || xs(m, p2)->block != f->block || f->where[p2] != k2 + 1) continue;
      if (!digits_at(f, l->v[k], p2, &by, &d, &nd)) return false;
      for (uint32_t a = 0; a < nd; a++) {
        atom v;
        uint64_t x;
        if (!vec_has(&f->k.v[k2].outer, fuse_canon(f, d[a].var))) continue;
        if (!EK_PLANTED("kernels-composite") &&
            (!sym_is_atom(f->c, by[a], &v) || !map_getu(to3, fuse_canon(f, v), &x) ||
             (atom)x != fuse_canon(f, d[a].var)))
          return false;
      }
    }
  }
  bool on = online(f, k2);
  if (!on && r.b_const) {
    pass_remark(f->p, "kernels", c2, f->k.v[k2].st.v[0] + 1, "weights would be streamed once per row panel");
    return false;
  }
  if (!pass_spend(f->p)) return false;
  /* gives both kernels one set of names: k2's */
  for (int which = 0; which < 2; which++) {
    uint32_t kk = which ? k3 : k1;
    map *to = which ? to3 : to1;
    for (uint32_t i = 0; i < f->k.v[kk].st.n; i++) {
      u32vec vars = {0};
      stage_vars(m, f->k.v[kk].st.v[i], f->a, &vars);
      for (uint32_t a = 0; a < vars.n; a++)
        if (map_getu(to, fuse_canon(f, vars.v[a]), &old)) map_putu(f->canon, vars.v[a], old);
    }
  }
  f->k.v[k3].outer = f->k.v[k2].outer;
  f->k.v[k3].cls = KC_COMPOSITE;
  fuse_merge(f, k3, k2);
  fuse_merge(f, k3, k1);
  f->k.v[k3].note = NULL;
  fuse_note(f, k3, on ? "online" : "row panel");
  return true;
}
void fuse_composites(fuser *f) {
  for (uint32_t k = 0; k < f->k.n; k++) {
    if (!f->k.v[k].alive || f->k.v[k].virt || f->k.v[k].opaque ||
        (f->k.v[k].cls != KC_CONTRACTION && f->k.v[k].cls != KC_MATVEC))
      continue;
    uint32_t c2 = UINT32_MAX;
    for (uint32_t i = 0; i < f->k.v[k].st.n && c2 == UINT32_MAX; i++)
      if (heavy(fuse_class(f, f->k.v[k].st.v[i]))) c2 = f->k.v[k].st.v[i];
    if (c2 == UINT32_MAX) continue;
    const u32vec *l = stage_loads(f->p, c2);
    for (uint32_t i = 0; i < l->n; i++)
      if (try_composite(f, k, c2, l->v[i])) break;
  }
}
