/* Which element-wise leftovers go into the kernel behind them?
 *
 * An element-wise stage that joined nobody and is read by one unguarded access of one reduction is computed where it is
 * read. That repeats its work for every tap of a window and every tile of columns, so it must be cheap; what it saves
 * is one store and one load of each element and a kernel: little where the tensor stays in a cache near the core. What
 * is gathered for each row of a product stays outside: its rows would be taken one at a time.
 */
#include "fusion/fuse.h"

static uint32_t only_reader(fuser *f, uint32_t s, ex *load) {
  tid t = xs(f->m, s)->tensor;
  const u32vec *r = &f->p->readers.v[t];
  if (r->n != 1 || f->p->pinned.v[t] || f->placed[s] || xs(f->m, r->v[0])->block != f->block || !f->where[r->v[0]])
    return UINT32_MAX;
  const u32vec *l = stage_loads(f->p, r->v[0]);
  *load = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (exn(f->m, l->v[i])->tensor == t) {
      if (*load) return UINT32_MAX;
      *load = l->v[i];
    }
  return *load && (!exn(f->m, *load)->otherwise || EK_PLANTED("kernels-prologue")) ? r->v[0] : UINT32_MAX;
}
/* how often an element is computed if it is computed where it is read */
static int64_t repeats(fuser *f, ex load, const roles *r, int64_t tile) {
  ex_node l = *exn(f->m, load);
  int64_t taps = 1, n;
  for (uint32_t i = 0; i < l.nargs; i++) {
    u32vec vs = {0};
    if (sym_is_int(f->c, l.args[i], NULL) || one_atom(f->c, l.args[i])) continue;
    sym_atoms(f->c, l.args[i], AT_VAR, f->a, &vs);
    for (uint32_t k = 0; r->window && k < vs.n; k++)
      if (vec_has(&r->red_both, vs.v[k]) || vec_has(&r->red_one, vs.v[k]))
        taps = sat_mul64(taps, max64(expr_typical(f->m, sym_extent(f->c, vs.v[k])), 1));
  }
  if (r->two) {
    bool in_a = false;
    for (uint32_t i = 0; i < r->a.n; i++) {
      u32vec ls = {0};
      expr_loads(f->m, r->a.v[i], f->a, &ls);
      in_a |= vec_has(&ls, load);
    }
    n = fuse_extent(f, in_a ? &r->col : &r->row);
    taps = sat_mul64(taps, (n + tile - 1) / tile);
  }
  return taps;
}
/* Do data say for each row (or column) of a product where the moved value is read? Then places next to each other
 * follow no stride, so that tiles of them share nothing. A place that both operands share is no matter. */
static bool scatters(fuser *f, ex value, const roles *r) {
  u32vec loads = {0};
  expr_loads(f->m, value, f->a, &loads);
  if (!r->two || !r->row.n || !r->col.n) return false;
  for (uint32_t i = 0; i < loads.n; i++)
    for (uint32_t k = 0; k < exn(f->m, loads.v[i])->nargs; k++) {
      sz at = exn(f->m, loads.v[i])->args[k];
      u32vec vars = {0};
      if (!sym_uses_kind(f->c, at, AT_DATA)) continue;
      expr_vars(f->m, expr_index(f->m, at), f->a, &vars);
      for (uint32_t v = 0; v < vars.n; v++)
        if (vec_has(&r->row, vars.v[v]) || vec_has(&r->col, vars.v[v])) return !EK_PLANTED("kernels-scatters");
    }
  return false;
}
/* Does an instruction of the target add products of what is loaded, of that type? A formula in its place would be none
 * of its operands. */
static bool multiplied_as_loaded(fuser *f, const roles *r, etype type) {
  const ex_node *red = exn(f->m, r->red);
  u32vec loads = {0};
  expr_loads(f->m, red->body, f->a, &loads);
  for (uint32_t i = 0; i < loads.n && r->two; i++)
    if (target_products(f->p->t, (etype)red->acc, type, xt(f->m, exn(f->m, loads.v[i])->tensor)->type)) return true;
  return false;
}
static bool move_in(fuser *f, uint32_t k) {
  emodule *m = f->m;
  uint32_t s = f->k.v[k].st.v[0];
  ex load;
  roles before, after;
  uint32_t r = only_reader(f, s, &load);
  if (r == UINT32_MAX || !stage_is_reduce(f->p, r) || xs(m, r)->recurrence || !expr_roles(m, r, f->a, &before))
    return false;
  const stage *x = xs(m, s);
  u32vec all = {0};
  if (multiplied_as_loaded(f, &before, xt(m, x->tensor)->type)) {
    pass_remark(f->p, "kernels", s, r + 1, "an instruction multiplies what is stored");
    return false;
  }
  stage_vars(m, s, f->a, &all);
  const int64_t elements = fuse_extent(f, &all), size = et_bytes(xt(m, x->tensor)->type);
  const int64_t columns = cost_repeated_columns(f->p->t, before.window, elements, size),
                again = sat_mul64(repeats(f, load, &before, columns), (int64_t)expr_cost(m, x->value));
  if (!cost_repeats(f->p->t, before.window, elements, size, again)) {
    pass_remark(f->p, "kernels", s, r + 1, "would be computed again too often");
    return false;
  }
  uint32_t nd = expr_ndigits(x), d = f->where[r] - 1;
  sz *by = NEWN(f->a, sz, nd + 1);
  digit *dg = NEWN(f->a, digit, nd + 1);
  atom *vars = NEWN(f->a, atom, nd + 1);
  if (!expr_comps(m, s, exn(m, load)->args, by, NULL, NULL)) return false;
  expr_digits(x, dg);
  for (uint32_t i = 0; i < nd; i++) vars[i] = dg[i].var;
  ex old = xs(m, r)->value;
  map *rep = map_new(f->a);
  ex moved = simplify_subst(f->p, x->value, vars, by, nd);
  if (scatters(f, moved, &before)) {
    pass_remark(f->p, "kernels", s, r + 1, "rows at places that data say make no tiles");
    return false;
  }
  map_putu(rep, load, moved);
  if (!pass_spend(f->p)) return false;
  stage_replace(f->p, r, rep);
  /* the factor hid what the kernel was: it is undone */
  if (!expr_roles(m, r, f->a, &after) || after.cls != before.cls) {
    pass_set(f->p, r, old);
    pass_remark(f->p, "kernels", s, r + 1, "hides the reader's structure");
    return false;
  }
  fuse_merge(f, d, k); /* dependences of s are the reader's now; s itself is no more */
  u32vec *st = &f->k.v[d].st, out = {0};
  for (uint32_t i = 0; i < st->n; i++)
    if (st->v[i] != s) vec_push(f->a, out, st->v[i]);
  *st = out;
  f->where[s] = 0;
  pass_kill(f->p, s);
  fuse_note(f, d, "prologue");
  return true;
}
void fuse_prologues(fuser *f) {
  for (uint32_t k = f->k.n; k-- > 0;) { /* last first: a chain of leftovers follows its reader */
    const fnode *n = &f->k.v[k];
    if (n->alive && !n->virt && !n->opaque && n->st.n == 1 && (n->cls == KC_ELEMENTWISE || n->cls == KC_GATHER))
      move_in(f, k);
  }
}
