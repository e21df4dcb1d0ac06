/* Which stages only move data?
 *
 * A stage that is one unguarded affine access (or a cheap formula that reads nothing) need not exist: its readers read
 * the source at the composed index. Composition needs the digits of the view's axes at the reader's index; if a digit
 * cannot be separated, splitting a variable of the reader may help. A read of a placement that falls into one piece
 * reads the piece. A guarded read of a view keeps its guard when every guarded axis is a whole axis of the source, else
 * it becomes a condition; but not where a reduction, or others together, read each place several times: there the view
 * stays, since a tensor of its own has room for a margin, and one copy costs less than a condition at every read. So it
 * does where the place would wind (mirrored borders, digits of sizes not known). Producers come first, so that every
 * access needs one step. Needs simplified values; keeps everything. Views that are outputs stay, but nobody reads them.
 */
#include "passes/pass.h"

static bool is_view(pw *p, const stage *x) {
  if (!x->value || x->updates.n) return false;
  ex_node n = *exn(p->m, x->value);
  if (n.kind != EX_LOAD || n.otherwise) return false;
  /* in a recurrence: of what the same recurrence computes */
  const uint32_t q = producer_of(p->m, n.tensor);
  if (x->recurrence && (!q || xs(p->m, q - 1)->recurrence != x->recurrence)) return false;
  return !expr_by_data(p->m, &n);
}
static bool is_formula(pw *p, const stage *x) {
  if (!x->value || x->updates.n || x->recurrence) return false;
  return cheap_formula(p, x->value);
}
static ex range_condition(pw *p, sz i, sz n, ex and) {
  emodule *m = p->m;
  if (!sym_ge0(p->c, i)) {
    ex q = expr_op2(m, OP_GE, expr_index(m, i), expr_i(m, ET_I64, 0));
    and = and ? expr_op2(m, OP_AND, and, q) : q;
  }
  if (!sym_lt(p->c, i, n) && !EK_PLANTED("views")) {
    ex q = expr_op2(m, OP_LT, expr_index(m, i), expr_index(m, n));
    and = and ? expr_op2(m, OP_AND, and, q) : q;
  }
  return and;
}
/* Does the source's own range check say exactly the same as axis `ax` of the view being in range? Its outermost
 * digit must be a whole axis of the source, and occur nowhere else. */
static bool same_guard(pw *p, const axis *ax, const ex_node *src) {
  ctx *c = p->c;
  if (!ax->n) return false;
  atom v = ax->d[0].var;
  uint32_t hits = 0;
  for (uint32_t i = 0; i < src->nargs; i++) {
    if (!sym_uses(c, src->args[i], v)) continue;
    if (src->args[i] != sym_of_atom(c, v) || !sym_eq(c, xt(p->m, src->tensor)->shape[i], ax->d[0].extent)) return false;
    hits++;
  }
  return hits == 1;
}
/* Does a reduction read the places of stage `producer` several times each, or do other stages together? */
static bool rereads(pw *p, uint32_t reader, uint32_t producer) {
  emodule *m = p->m;
  const double many = 4 * (double)expr_typical(m, stage_points(m, producer));
  const u32vec *readers = &p->readers.v[xs(m, producer)->tensor];
  double reads = 0;
  if (stage_is_reduce(p, reader)) {
    const ex_node *n = exn(m, xs(m, reader)->value);
    reads = (double)expr_typical(m, stage_points(m, reader));
    for (uint32_t i = 0; i < n->nargs; i++) reads *= (double)expr_typical(m, sym_extent(p->c, n->args[i]));
    return reads >= many;
  }
  for (uint32_t i = 0; i < readers->n && reads < many; i++) {
    uint32_t loads = 0, s = readers->v[i];
    if (!xs(m, s)->value || stage_is_reduce(p, s)) continue;
    for (uint32_t k = 0; k < stage_loads(p, s)->n; k++)
      loads += exn(m, stage_loads(p, s)->v[k])->tensor == xs(m, producer)->tensor;
    reads += loads * (double)expr_typical(m, stage_points(m, s));
  }
  return reads >= many;
}
/* Does the view stay for others, with a margin? */
static bool has_margin(pw *p, uint32_t reader, uint32_t producer) {
  const tid t = xs(p->m, producer)->tensor;
  const u32vec *readers = &p->readers.v[t];
  bool guarded = false;
  if (stage_is_reduce(p, reader) || exn(p->m, xs(p->m, producer)->value)->kind != EX_LOAD) return false;
  for (uint32_t i = 0; i < readers->n && !guarded; i++) {
    const u32vec *l = stage_loads(p, readers->v[i]);
    for (uint32_t k = 0; k < l->n; k++) {
      const ex_node *n = exn(p->m, l->v[k]);
      guarded |= n->tensor == t && n->otherwise && exn(p->m, n->otherwise)->kind == EX_CONST;
    }
  }
  return guarded && rereads(p, reader, producer);
}
/* Is the place of a view's value no sum of multiples of a reduction's variable? */
static bool winds(pw *p, uint32_t reader, ex v) {
  static const atom_kind kinds[] = {AT_DIV, AT_MIN, AT_MAX, AT_SEL};
  const ex_node *red = stage_is_reduce(p, reader) ? exn(p->m, xs(p->m, reader)->value) : NULL, *n = exn(p->m, v);
  for (uint32_t i = 0; red && n->kind == EX_LOAD && i < n->nargs; i++)
    for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      u32vec at = {0};
      sym_atoms(p->c, n->args[i], kinds[k], p->a, &at);
      for (uint32_t j = 0; j < at.n; j++)
        for (uint32_t r = 0; r < red->nargs; r++)
          if (sym_uses(p->c, sym_of_atom(p->c, at.v[j]), red->args[r])) return true;
    }
  return false;
}
static ex read_view(pw *p, uint32_t reader, uint32_t producer, const ex_node *l, atom *sv, sz *si) {
  emodule *m = p->m;
  const stage *x = xs(m, producer);
  ex v = stage_value_at(p, producer, l->args, sv, si);
  if (!v) return 0;
  if (winds(p, reader, v) && rereads(p, reader, producer)) return 0;
  if (!l->otherwise || v == l->otherwise) return has_margin(p, reader, producer) ? 0 : v;
  ex_node src = *exn(m, x->value);
  bool same = src.kind == EX_LOAD, guarded = false;
  for (uint32_t i = 0; i < x->naxes; i++) {
    if (in_range(p->c, l->args[i], xt(m, x->tensor)->shape[i])) continue;
    guarded = true;
    same = same && same_guard(p, &x->axes[i], &src);
  }
  if (!guarded) return v;
  if (same) {
    ex_node n = *exn(m, v);
    if (n.kind == EX_LOAD && n.tensor == src.tensor) return expr_load(m, n.tensor, n.args, n.nargs, l->otherwise);
  }
  if (src.kind == EX_LOAD && exn(m, l->otherwise)->kind == EX_CONST && rereads(p, reader, producer)) return 0;
  ex cond = 0;
  for (uint32_t i = 0; i < x->naxes; i++) cond = range_condition(p, l->args[i], xt(m, x->tensor)->shape[i], cond);
  return cond ? expr_sel(m, cond, v, l->otherwise) : v;
}
/* q = offset + number with u's variables as digits: solves for them. False if q is not proved to be inside. */
static bool piece_axis(pw *p, const update *u, sz idx, sz q, sz *by) {
  ctx *c = p->c;
  u32vec vs = {0};
  sz off = idx, unit = sym_int(c, 1), total = unit;
  sym_atoms(c, idx, AT_VAR, p->a, &vs);
  for (uint32_t i = 0; i < vs.n; i++) {
    off = sym_replace(c, off, vs.v[i], sym_int(c, 0));
    total = sym_mul(c, total, sym_extent(c, vs.v[i]));
  }
  sz rem = sym_sub(c, q, off);
  if (!in_range(c, rem, total)) return false;
  for (uint32_t done = 0; done < vs.n; done++)
    for (uint32_t i = 0; i < vs.n; i++) {
      sz coef, r, hi, lo;
      if (!vs.v[i] || !sym_linear(c, idx, vs.v[i], &coef, &r) || !sym_eq(c, coef, unit)) continue;
      uint32_t k = 0;
      while (k < u->nvars && u->vars[k] != vs.v[i]) k++;
      if (k == u->nvars) return false;
      sz ext = sym_extent(c, vs.v[i]);
      if (done + 1 == vs.n)
        by[k] = rem;
      else {
        if (!sym_divmod(c, rem, ext, &hi, &lo, NULL, NULL)) return false;
        by[k] = lo, rem = hi;
      }
      unit = sym_mul(c, unit, ext);
      vs.v[i] = 0;
      break;
    }
  return true;
}
static ex read_piece(pw *p, uint32_t producer, const ex_node *l) {
  const stage *x = xs(p->m, producer);
  for (uint32_t i = 0; i < x->updates.n; i++) {
    update u = x->updates.v[i];
    sz *by = NEWN(p->a, sz, u.nvars + 1);
    bool ok = true;
    for (uint32_t k = 0; k < u.nidx && ok; k++) ok = piece_axis(p, &u, u.idx[k], l->args[k], by);
    for (uint32_t k = 0; k < u.nvars; k++) ok &= by[k] != 0;
    if (ok && exn(p->m, u.value)->kind == EX_LOAD) return simplify_subst(p, u.value, u.vars, by, u.nvars);
  }
  return 0;
}
static ex resolve(pw *p, uint32_t s, ex load, atom *sv, sz *si) {
  ex_node l = *exn(p->m, load);
  uint32_t q = producer_of(p->m, l.tensor);
  *sv = 0;
  if (!q--) return 0;
  const stage *x = xs(p->m, q);
  if (!x->value) return !l.otherwise && is_solid_placement(p, q) ? read_piece(p, q, &l) : 0;
  if (!is_view(p, x) && !is_formula(p, x)) return 0;
  return read_view(p, s, q, &l, sv, si);
}
bool pass_views(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    for (int round = 0; round < 64; round++) {
      const u32vec *l = stage_loads(p, s);
      map *by = NULL;
      atom split = 0, sv;
      sz inner = 0, si = 0;
      for (uint32_t k = 0; k < l->n; k++) {
        ex load = l->v[k], r = resolve(p, s, load, &sv, &si);
        if (r && r != load) {
          if (!by) by = map_new(p->a);
          map_putu(by, load, r);
        } else if (!r && sv && !split && can_split(p, s, sv, si))
          split = sv, inner = si;
      }
      if ((!by && !split) || !pass_spend(p)) break;
      any = true;
      if (by)
        stage_replace(p, s, by);
      else
        stage_split(p, s, split, inner);
    }
  }
  return any;
}

/* Is the piece the value of a stage that could do more at its end? */
static bool computed(pw *p, const update *u, uint32_t block) {
  ex_node n = *exn(p->m, u->value);
  uint32_t q = n.kind == EX_LOAD && !n.otherwise ? producer_of(p->m, n.tensor) : 0;
  return q && xs(p->m, q - 1)->block == block && !xs(p->m, q - 1)->recurrence && xs(p->m, q - 1)->value &&
         !xs(p->m, q - 1)->updates.n;
}
static ex swap_load(void *env, emodule *m, ex e) {
  const ex *w = env;
  (void)m;
  return e == w[0] ? w[1] : e;
}
/* An element-wise stage, or a mere renaming of axes, that is the only reader of a placement and reads every place of it
 * once becomes the placement itself: its work moves to the pieces, which are stored where they are wanted. */
static bool through(pw *p, uint32_t s) {
  emodule *m = p->m;
  ctx *c = p->c;
  const stage *y = xs(m, s);
  if (!y->value || y->updates.n || y->recurrence || !stage_plain(p, s)) return false;
  ex load = 0;
  uint32_t q = 0;
  const u32vec *ls = stage_loads(p, s);
  for (uint32_t i = 0; i < ls->n; i++) {
    uint32_t v = producer_of(m, exn(m, ls->v[i])->tensor);
    if (!v || xs(m, v - 1)->value || xs(m, v - 1)->block != y->block) continue;
    if (exn(m, ls->v[i])->otherwise || p->pinned.v[xs(m, v - 1)->tensor] || p->readers.v[xs(m, v - 1)->tensor].n != 1 ||
        !is_placement(p, v - 1))
      continue;
    if (load) return false;
    load = ls->v[i], q = v - 1;
  }
  if (!load) return false;
  ex_node l = *exn(m, load);
  if (load != y->value) { /* work moves: every piece but one must have somebody to do it */
    uint32_t others = 0;
    for (uint32_t i = 0; i < xs(m, q)->updates.n; i++) others += !computed(p, &xs(m, q)->updates.v[i], y->block);
    if (others > 1) return false;
  }
  uint32_t nd = expr_ndigits(y), used = 0;
  digit *d = NEWN(p->a, digit, nd + 1);
  uint32_t *at = NEWN(p->a, uint32_t, nd + 1); /* digit -> axis of the placement + 1 */
  expr_digits(y, d);
  for (uint32_t k = 0; k < l.nargs; k++) {
    atom v;
    uint32_t i = 0;
    if (sym_is_int(c, l.args[k], NULL) && sym_eq(c, xt(m, l.tensor)->shape[k], sym_int(c, 1))) continue;
    if (!sym_is_atom(c, l.args[k], &v)) return false;
    while (i < nd && d[i].var != v) i++;
    if (i == nd || at[i] || !sym_eq(c, d[i].extent, xt(m, l.tensor)->shape[k])) return false;
    at[i] = k + 1, used++;
  }
  if (used != nd || !pass_spend(p)) return false;
  stage old = *y;
  uint32_t n = xs(m, q)->updates.n;
  atom *vars = NEWN(p->a, atom, nd + 1);
  sz *place = NEWN(p->a, sz, nd + 1);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  for (uint32_t i = 0; i < n; i++) {
    update u = xs(m, q)->updates.v[i], w = {.nvars = u.nvars, .nidx = y->naxes};
    sz *by = NEWN(p->a, sz, u.nvars + 1), *idx = NEWN(p->a, sz, l.nargs + 1);
    w.vars = NEWN(m->a, atom, u.nvars + 1), w.idx = NEWN(m->a, sz, y->naxes + 1);
    for (uint32_t k = 0; k < u.nvars; k++) {
      by[k] = sym_var(c, sym_name(c, u.vars[k]), sym_extent(c, u.vars[k]));
      sym_is_atom(c, by[k], &w.vars[k]);
    }
    for (uint32_t k = 0; k < l.nargs; k++) {
      idx[k] = u.idx[k];
      for (uint32_t z = 0; z < u.nvars; z++) idx[k] = sym_replace(c, idx[k], u.vars[z], by[z]);
    }
    for (uint32_t a = 0, g = 0; a < y->naxes; a++) {
      w.idx[a] = sym_int(c, 0);
      for (uint32_t k = 0; k < y->axes[a].n; k++, g++) {
        place[g] = idx[at[g] - 1];
        w.idx[a] = sym_add(c, sym_mul(c, w.idx[a], y->axes[a].d[k].extent), place[g]);
      }
    }
    ex v = expr_subst_vars(m, old.value, vars, place, nd);
    ex swap[2] = {expr_load(m, l.tensor, idx, l.nargs, 0), expr_subst_vars(m, u.value, u.vars, by, u.nvars)};
    w.value = simplify(p, expr_rewrite(m, v, &(ex_map){.node = swap_load, .env = swap}));
    vec_push(m->a, xs(m, s)->updates, w);
    y = xs(m, s);
  }
  xs(m, s)->value = 0, xs(m, s)->tiled = true;
  pass_changed(p, s);
  bool left = false; /* the old placement must be gone from the value */
  for (uint32_t i = 0; i < stage_loads(p, s)->n; i++) left |= exn(m, stage_loads(p, s)->v[i])->tensor == l.tensor;
  if (!left && is_placement(p, s)) return true;
  *xs(m, s) = old;
  pass_changed(p, s);
  return false;
}

/* Pieces of a placement that are more than an access become stages of their own, so that they can be fused like
 * others and stored in place. */
bool pass_pieces(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    any |= through(p, s);
    if (xs(m, s)->value || !is_placement(p, s)) continue;
    for (uint32_t k = 0; k < xs(m, s)->updates.n; k++) {
      update u = xs(m, s)->updates.v[k];
      ex_node n = *exn(m, u.value);
      if ((n.kind == EX_LOAD && !n.otherwise) || n.kind == EX_CONST || u.nvars > MAX_RANK || !pass_spend(p)) continue;
      digit *d = NEWN(p->a, digit, u.nvars + 1);
      sz *by = NEWN(p->a, sz, u.nvars + 1), *at = NEWN(p->a, sz, u.nvars + 1);
      for (uint32_t j = 0; j < u.nvars; j++) {
        d[j].extent = sym_extent(p->c, u.vars[j]);
        by[j] = sym_var(p->c, sym_name(p->c, u.vars[j]), d[j].extent);
        sym_is_atom(p->c, by[j], &d[j].var);
        at[j] = sym_of_atom(p->c, u.vars[EK_PLANTED("pieces") ? u.nvars - 1 - j : j]);
      }
      ex v = expr_subst_vars(m, expr_fresh(m, u.value), u.vars, by, u.nvars);
      uint32_t ns = pass_stage(p, s, d, u.nvars, v, "piece");
      xs(m, s)->updates.v[k].value = expr_load(m, xs(m, ns)->tensor, at, u.nvars, 0);
      any = true;
    }
    if (any) pass_changed(p, s);
  }
  pass_flush(p);
  return any;
}
