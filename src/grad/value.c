/* What does a stage hand back to the tensors it reads?
 *
 * A stage Y[v] = value, whose adjoint is d = dY[v], gives for every read X[f] in it the contribution: adjoint of
 * X[f] += d * (d value / d read), for all v. By the form of the value:
 *   element-wise   the chain rule
 *   sum            the body's reads, the reduced variables joining v (R4)
 *   max, min       the same under the condition that this point won: an argmax stage stores the winner, the first
 *                  of equals (R7)
 *   prod           d value / d body is the product of the others. Safe at zeros and linear in time: with Z = the
 *                  number of zeros and P = the product of the rest: Z == 0: P / body, Z == 1: P at the
 * zero, else 0 Updates run backwards: += passes the adjoint on and hands dY[place] to its value; := hands it to the
 * last writer of each place (stored, unless places are unique) and leaves zeros there for what stood before; max=, min=
 * to the winner of each place (the first of equals, what stood before first of all), *= times the product of the other
 * factors, zeros counted as above.
 */
#include "grad/grad_in.h"
#include <string.h>

static void take(gr *g, const locals *l, ex factor, ex d, const atom *vars, uint32_t nvars, const char *origin,
                 contribs *out) {
  for (uint32_t i = 0; i < l->n; i++) {
    const ex_node n = *exn(g->m, l->v[i].load);
    ex f = factor ? k_mul(g->m, factor, l->v[i].g) : l->v[i].g;
    vec_push(g->a, *out,
             ((contrib){.x = n.tensor,
                        .idx = n.args,
                        .guarded = n.otherwise != 0,
                        .d = d,
                        .g = f,
                        .when = l->v[i].when,
                        .vars = vars,
                        .nvars = nvars,
                        .origin = origin}));
  }
}
/* A helper stage over the variables `vars` (those of the point at which a reduction is looked at); returns its read
 * there. */
static ex side_stage(gr *g, uint32_t s, const atom *vars, uint32_t nvars, ex value, const char *suffix) {
  emodule *m = g->m;
  const tensor *y = xt(m, xs(m, s)->tensor);
  if (nvars > MAX_RANK)
    grad_refuse(g, y->origin, "a reduction over values of %u variables (at most %d)", nvars, MAX_RANK);
  axis axes[MAX_RANK];
  sz by[MAX_RANK], idx[MAX_RANK], shape[MAX_RANK];
  for (uint32_t i = 0; i < nvars; i++) {
    idx[i] = sym_of_atom(g->c, vars[i]), shape[i] = sym_extent(g->c, vars[i]);
    axes[i] = expr_axis1(m, sym_name(g->c, vars[i]), shape[i], &by[i]);
  }
  value = expr_subst_vars(m, expr_fresh(m, value), vars, by, nvars);
  tid t =
      expr_tensor(m, TK_STAGE, exn(m, value)->type, shape, nvars, arena_fmt(g->a, "%s.%s", y->name, suffix), y->origin);
  grad_append(g, t, axes, nvars, value);
  return expr_load(m, t, idx, nvars, 0);
}
static sz row_major(gr *g, const atom *vars, uint32_t n) {
  sz flat = sym_int(g->c, 0);
  for (uint32_t i = 0; i < n; i++)
    flat = sym_add(g->c, sym_mul(g->c, flat, sym_extent(g->c, vars[i])), sym_of_atom(g->c, vars[i]));
  return flat;
}
/* Only the variables that the reduction's value depends on: helper stages need no others. */
static uint32_t needed(gr *g, ex e, const atom *vars, uint32_t nvars, atom *out) {
  u32vec fv = {0};
  uint32_t n = 0;
  expr_vars(g->m, e, g->a, &fv);
  for (uint32_t i = 0; i < nvars; i++)
    if (vec_has(&fv, vars[i])) out[n++] = vars[i];
  return n;
}
void grad_value(gr *g, uint32_t s, ex value, ex own, ex d, const atom *vars, uint32_t nvars, mask when, contribs *out) {
  emodule *m = g->m;
  const ex_node n = *exn(m, value);
  const char *origin = xt(m, xs(m, s)->tensor)->origin;
  locals l = {0};
  ex factor = 0;
  if (n.kind != EX_REDUCE)
    grad_chain(g, value, own, when, &l);
  else {
    if (n.op != RED_SUM && n.op != RED_PROD && n.op != RED_MAX && n.op != RED_MIN) return;
    map *memo = map_new(g->a);
    if (!grad_live(g, memo, n.body)) return;
    atom *all = NEWN(g->a, atom, nvars + n.nargs + 1), *at = NEWN(g->a, atom, nvars + 1);
    if (nvars) memcpy(all, vars, nvars * sizeof *all);
    if (n.nargs) memcpy(all + nvars, n.args, n.nargs * sizeof *all);
    uint32_t nat = needed(g, value, vars, nvars, at);
    if (n.where) when = mask_with(g, when, n.where, false);
    if ((n.op == RED_MAX || n.op == RED_MIN) && n.nargs) {
      sz flat = row_major(g, n.args, n.nargs);
      ex win = side_stage(g, s, at, nat,
                          expr_reduce(m, n.op == RED_MAX ? RED_ARGMAX : RED_ARGMIN, n.args, n.nargs, n.where, n.body,
                                      expr_index(m, flat), ET_NONE, ET_NONE),
                          "winner");
      if (!EK_PLANTED("grad-reduce")) when = mask_with(g, when, expr_op2(m, OP_EQ, expr_index(m, flat), win), false);
    } else if (n.op == RED_PROD && n.nargs) {
      etype bt = exn(m, n.body)->type;
      ex is0 = expr_op2(m, OP_EQ, n.body, expr_f(m, bt, 0)), not0 = expr_op2(m, OP_NE, n.body, expr_f(m, bt, 0));
      ex zeros = side_stage(
          g, s, at, nat,
          expr_reduce(m, RED_SUM, n.args, n.nargs, n.where, expr_cast(m, ET_I64, is0), 0, ET_NONE, ET_NONE), "zeros");
      ex rest = side_stage(g, s, at, nat,
                           expr_reduce(m, RED_PROD, n.args, n.nargs, k_and(m, n.where, not0), n.body, 0, n.acc, n.type),
                           "rest");
      ex r = expr_cast(m, bt, rest), none = expr_f(m, bt, 0);
      ex one = expr_op2(m, OP_AND, expr_op2(m, OP_EQ, zeros, expr_i(m, ET_I64, 1)), is0);
      factor = expr_sel(m, expr_op2(m, OP_EQ, zeros, expr_i(m, ET_I64, 0)), expr_op2(m, OP_DIV, r, n.body),
                        expr_sel(m, one, r, none));
    }
    grad_chain(g, n.body, 0, when, &l);
    vars = all, nvars += n.nargs;
  }
  take(g, &l, factor, d, vars, nvars, origin, out);
}

/* ---- stages ---------------------------------------------------------------------------------- */
static ex read_adjoint(gr *g, tid dy, etype t, const sz *idx, uint32_t n) {
  return dy ? expr_load(g->m, dy, idx, n, 0) : expr_f(g->m, t, 1);
}
static bool distinct_places(gr *g, const update *u) { /* Is every variable an index of its own? */
  uint32_t found = 0;
  for (uint32_t i = 0; i < u->nvars; i++)
    for (uint32_t k = 0; k < u->nidx; k++)
      if (u->idx[k] == sym_of_atom(g->c, u->vars[i])) {
        found++;
        break;
      }
  return found == u->nvars;
}
typedef struct fresh_update {
  atom *vars; /* new variables */
  sz *by;     /* what stands for the old ones */
  sz *idx;    /* indices over the new variables */
  ex cond;    /* condition over the new variables; 0: none */
} fresh_update;
static fresh_update copy_update(gr *g, const update *u) {
  fresh_update f = {NEWN(g->m->a, atom, u->nvars + 1), NEWN(g->a, sz, u->nvars + 1), NEWN(g->m->a, sz, u->nidx + 1), 0};
  for (uint32_t i = 0; i < u->nvars; i++) {
    f.by[i] = sym_var(g->c, sym_name(g->c, u->vars[i]), sym_extent(g->c, u->vars[i]));
    sym_is_atom(g->c, f.by[i], &f.vars[i]);
  }
  for (uint32_t i = 0; i < u->nidx; i++) f.idx[i] = size_subst(g, u->idx[i], u->vars, f.by, u->nvars);
  f.cond = u->cond ? expr_subst_vars(g->m, expr_fresh(g->m, u->cond), u->vars, f.by, u->nvars) : 0;
  return f;
}
/* A stage of y's shape that starts from `base` and has `value` written to every place of update u. */
static tid write_places(gr *g, tid y, etype t, ex base, const axis *axes, const update *u, sz value, ex zero,
                        const char *suffix) {
  emodule *m = g->m;
  fresh_update f = copy_update(g, u);
  tid r = expr_tensor(m, TK_STAGE, t, xt(m, y)->shape, xt(m, y)->rank, arena_fmt(g->a, "%s.%s", xt(m, y)->name, suffix),
                      xt(m, y)->origin);
  uint32_t ns = grad_append(g, r, axes, xt(m, y)->rank, base);
  ex v = value ? expr_index(m, size_subst(g, value, u->vars, f.by, u->nvars)) : zero;
  vec_push(m->a, xs(m, ns)->updates,
           ((update){.vars = f.vars,
                     .nvars = u->nvars,
                     .nidx = u->nidx,
                     .idx = f.idx,
                     .op = OP_NONE,
                     .value = v,
                     .cond = f.cond}));
  return r;
}
/* A stage over the same space as s: `e` is a value over the variables of s. */
static uint32_t same_space(gr *g, uint32_t s, ex e, const char *suffix) {
  emodule *m = g->m;
  const stage x = *xs(m, s);
  const tensor y = *xt(m, x.tensor);
  axis axes[MAX_RANK];
  u32vec from = {0};
  VEC(sz) to = {0};
  for (uint32_t i = 0; i < x.naxes; i++) {
    digit *d = NEWN(m->a, digit, x.axes[i].n + 1);
    for (uint32_t k = 0; k < x.axes[i].n; k++) {
      sz v = sym_var(g->c, sym_name(g->c, x.axes[i].d[k].var), x.axes[i].d[k].extent);
      d[k].extent = x.axes[i].d[k].extent;
      sym_is_atom(g->c, v, &d[k].var);
      vec_push(g->a, from, x.axes[i].d[k].var);
      vec_push(g->a, to, v);
    }
    axes[i] = (axis){x.axes[i].n, d};
  }
  tid t =
      expr_tensor(m, TK_STAGE, exn(m, e)->type, y.shape, y.rank, arena_fmt(g->a, "%s.%s", y.name, suffix), y.origin);
  return grad_append(g, t, axes, x.naxes, expr_subst_vars(m, expr_fresh(m, e), from.v, to.v, from.n));
}
/* Adds update u to stage s, with another operation, value and further condition (both over the variables of u). */
static void add_update(gr *g, uint32_t s, const update *u, sop op, ex value, ex cond) {
  emodule *m = g->m;
  fresh_update f = copy_update(g, u);
  ex c = cond ? expr_subst_vars(m, expr_fresh(m, cond), u->vars, f.by, u->nvars) : 0;
  update n = {.vars = f.vars,
              .nvars = u->nvars,
              .nidx = u->nidx,
              .idx = f.idx,
              .op = op,
              .value = expr_subst_vars(m, expr_fresh(m, value), u->vars, f.by, u->nvars),
              .cond = k_and(m, f.cond, c)};
  vec_push(m->a, xs(m, s)->updates, n);
}
/* Y max= v, Y *= v: who won, or what the other factors are, is stored per place. `here` are the places over the
 * variables of s. */
static void through_combining(gr *g, uint32_t s, const update *u, mask when, tid *dy, contribs *out) {
  emodule *m = g->m;
  const stage x = *xs(m, s);
  tid y = x.tensor;
  uint32_t rank = xt(m, y)->rank;
  etype t = xt(m, y)->type;
  sz here[MAX_RANK], flat = row_major(g, u->vars, u->nvars);
  for (uint32_t i = 0; i < rank; i++) here[i] = expr_axis_index(m, &x.axes[i]);
  ex d = read_adjoint(g, *dy, t, u->idx, rank), before = read_adjoint(g, *dy, t, here, rank), own = 0,
     zero = expr_f(m, t, 0);
  if (u->op == OP_MUL) {
    ex base0 = expr_op2(m, OP_EQ, x.value, zero), v0 = expr_op2(m, OP_EQ, u->value, zero), one = expr_f(m, t, 1),
       k0 = expr_i(m, ET_I64, 0), k1 = expr_i(m, ET_I64, 1);
    uint32_t zs = same_space(g, s, expr_cast(m, ET_I64, base0), "zeros"),
             rest = same_space(g, s, expr_sel(m, base0, one, x.value), "rest");
    add_update(g, zs, u, OP_ADD, expr_cast(m, ET_I64, v0), 0);
    add_update(g, rest, u, OP_MUL, expr_sel(m, v0, one, u->value), 0);
    for (int base = 0; base < 2; base++) {
      const sz *at = base ? here : u->idx;
      ex v = base ? x.value : u->value, is0 = base ? base0 : v0, z = expr_load(m, xs(m, zs)->tensor, at, rank, 0),
         p = expr_load(m, xs(m, rest)->tensor, at, rank, 0);
      ex f = expr_sel(m, expr_op2(m, OP_EQ, z, k0), expr_op2(m, OP_DIV, p, v),
                      expr_sel(m, expr_op2(m, OP_AND, expr_op2(m, OP_EQ, z, k1), is0), p, zero));
      if (base)
        own = k_mul(m, before, f);
      else
        d = k_mul(m, d, f);
    }
  } else {
    ex none = expr_i(m, ET_I64, INT64_MAX), first = expr_i(m, ET_I64, -1);
    uint32_t w = same_space(g, s, expr_sel(m, expr_op2(m, OP_EQ, x.value, expr_load(m, y, here, rank, 0)), first, none),
                            "winner");
    add_update(g, w, u, OP_MIN, expr_index(m, flat), expr_op2(m, OP_EQ, u->value, expr_load(m, y, u->idx, rank, 0)));
    when = mask_with(g, when, expr_op2(m, OP_EQ, expr_index(m, flat), expr_load(m, xs(m, w)->tensor, u->idx, rank, 0)),
                     false);
    own = expr_sel(m, expr_op2(m, OP_EQ, expr_load(m, xs(m, w)->tensor, here, rank, 0), first), before, zero);
  }
  grad_value(g, s, u->value, 0, d, u->vars, u->nvars, when, out);
  *dy = xs(m, same_space(g, s, own, "kept"))->tensor;
}
static bool combines(const update *u) { return u->op != OP_NONE && u->op != OP_ADD; }
/* Of several updates one of which combines each needs what stood before it: a chain of stages with one update each;
 * s is the last of them. */
void grad_split_updates(gr *g, uint32_t s) {
  emodule *m = g->m;
  bool any = false;
  const stage x = *xs(m, s);
  for (uint32_t i = 0; i < x.updates.n; i++) any |= combines(&x.updates.v[i]);
  if (!any || x.updates.n < 2 || !x.value) return;
  sz here[MAX_RANK];
  uint32_t rank = xt(m, x.tensor)->rank;
  for (uint32_t i = 0; i < rank; i++) here[i] = expr_axis_index(m, &x.axes[i]);
  for (uint32_t i = 0; i + 1 < x.updates.n; i++) {
    uint32_t n = same_space(g, s, xs(m, s)->value, "before");
    add_update(g, n, &x.updates.v[i], x.updates.v[i].op, x.updates.v[i].value, 0);
    grad_stand_before(g, s);
    xs(m, s)->value = expr_load(m, xs(m, n)->tensor, here, rank, 0);
  }
  update last = x.updates.v[x.updates.n - 1];
  xs(m, s)->updates.v[0] = last;
  xs(m, s)->updates.n = 1;
}
static void through_updates(gr *g, uint32_t s, tid *dy, contribs *out) {
  emodule *m = g->m;
  tid y = xs(m, s)->tensor;
  etype t = xt(m, y)->type;
  bool tiled = xs(m, s)->tiled;
  if (xs(m, s)->recurrence) grad_refuse(g, xt(m, y)->origin, "updates inside a recurrence");
  for (uint32_t i = xs(m, s)->updates.n; i-- > 0;) {
    const update u = xs(m, s)->updates.v[i];
    u32vec l = {0};
    expr_loads(m, u.value, g->a, &l);
    if (u.cond) expr_loads(m, u.cond, g->a, &l);
    for (uint32_t k = 0; k < l.n; k++)
      if (exn(m, l.v[k])->tensor == y) grad_refuse(g, xt(m, y)->origin, "an update that reads what it updates");
    mask when = u.cond ? mask_with(g, (mask){0}, u.cond, false) : (mask){0};
    if (combines(&u)) {
      if (tiled || xs(m, s)->updates.n > 1 || !xs(m, s)->value)
        grad_refuse(g, xt(m, y)->origin, "an update with %s= of a tensor without a value before it", op_name(u.op));
      through_combining(g, s, &u, when, dy, out);
      continue;
    }
    if (u.op == OP_NONE && !tiled && !distinct_places(g, &u)) {
      sz idx[MAX_RANK], flat = row_major(g, u.vars, u.nvars);
      axis axes[MAX_RANK];
      grad_axes(g, y, axes, idx);
      tid win = write_places(g, y, ET_I64, expr_i(m, ET_I64, -1), axes, &u, flat, 0, "writer");
      when = mask_with(g, when, expr_op2(m, OP_EQ, expr_index(m, flat), expr_load(m, win, u.idx, u.nidx, 0)), false);
    }
    grad_value(g, s, u.value, 0, read_adjoint(g, *dy, t, u.idx, u.nidx), u.vars, u.nvars, when, out);
    if (u.op == OP_NONE && !tiled) { /* what stood there before is overwritten */
      sz idx[MAX_RANK];
      axis axes[MAX_RANK];
      grad_axes(g, y, axes, idx);
      if (!EK_PLANTED("grad-update"))
        *dy = write_places(g, y, t, read_adjoint(g, *dy, t, idx, u.nidx), axes, &u, 0, expr_f(m, t, 0), "kept");
    }
  }
}
void grad_stage_loads(gr *g, uint32_t s, tid dy, sz step, contribs *out) {
  emodule *m = g->m;
  if (xs(m, s)->updates.n) through_updates(g, s, &dy, out);
  const stage x = *xs(m, s);
  if (!x.value) return;
  atom t = x.recurrence ? m->recurrences.v[x.recurrence].var : 0;
  u32vec vars = {0};
  sz at[MAX_RANK], here[MAX_RANK];
  for (uint32_t i = 0; i < x.naxes; i++) {
    for (uint32_t k = 0; k < x.axes[i].n; k++) vec_push(g->a, vars, x.axes[i].d[k].var);
    at[i] = here[i] = expr_axis_index(m, &x.axes[i]);
    if (step && t && x.axes[i].n == 1 && x.axes[i].d[0].var == t) at[i] = step;
  }
  ex own = x.updates.n ? 0 : expr_load(m, x.tensor, here, x.naxes, 0);
  grad_value(g, s, x.value, own, read_adjoint(g, dy, xt(m, x.tensor)->type, at, x.naxes), vars.v, vars.n, (mask){0},
             out);
}
