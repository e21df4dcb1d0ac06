/* What is made ready for a window that reads the same places again and again, also outside of a tensor?
 *
 * Inputs are row-major, by contract, and have no halo. A window over one reads each place several times, along rows
 * with every step of its lanes at another place of two vectors, and asks at the edges whether there is one. So what it
 * reads is made first, in a tensor of our own, which can have a halo:
 *
 *   rows     A reduction whose steps may come in any order (max; a sum of loads) falls into two: over all axes of
 *            the window but the last, whole rows with whole rows, and then along these:
 *              R[n, c, o0, p] = max[k0] X[n, c, a(o0, k0), p]          Y[n, c, o0, o1] = max[k1] R[n, c, o0, b(o1, k1)]
 *            That takes k0 + k1 steps instead of k0 * k1, and needs no copy. Where that saves enough, so does a
 *            window over any other tensor, however it lies: a row with all its channels at a time.
 *   plane    Else it is a copy, of what is read at one point of the variables that X and Y share (a channel).
 *   all      Where others read it so, too, or rows are short of lanes, all of an input is copied once, in the
 *            order that the readers' lanes want (layout.c).
 *
 * Rows and planes are a group of stages of their reader's kernel, in scratch that stays in the caches: the kernel
 * runs for one point of what is shared after the other.
 */
#include "cost/cost.h"
#include "passes/pass.h"
#include <string.h>

/* ---- windows --------------------------------------------------------------------------------- */
typedef enum { AX_SHARED = 1, AX_FOLDED /* reduced with the rows */, AX_WHOLE } ax_kind;
typedef struct windowed {
  uint32_t s;            /* stage + 1; 0: none */
  ex load;               /* the load */
  ax_kind ax[MAX_RANK];  /* what becomes of each axis */
  atom out[MAX_RANK];    /* the one variable of Y in this axis; 0: none */
  u32vec folded;         /* variables of the reduction on folded axes */
  u32vec left;           /* the other variables of the reduction */
  bool by_row;           /* folded axes are shared, too: a point is a row */
  bool within[MAX_RANK]; /* an axis that is shared, but whole in each point */
  int64_t phases;        /* the last axis is put down by every so many places: [.., p % phases, p // phases] */
} windowed;

static int64_t count(emodule *m, const u32vec *vars) {
  int64_t n = 1;
  for (uint32_t i = 0; i < vars->n; i++) n = sat_mul64(n, max64(1, sym_int_or(m->c, sym_extent(m->c, vars->v[i]), 1)));
  return n;
}
/* The name by which the stages of the kernel share the variable. */
static atom shared_name(const map *canon, atom v) {
  uint64_t to;
  return map_getu(canon, v, &to) ? (atom)to : v;
}
static int64_t known(emodule *m, sz x) { return min64(sym_int_or(m->c, x, 0), SAT64); }
static bool any_order(emodule *m, const ex_node *red, ex load) {
  const ex_node *l = exn(m, load), *o = l->otherwise ? exn(m, l->otherwise) : NULL;
  if (red->body != load || red->where || red->acc != l->type || red->type != l->type) return false;
  if (red->op == RED_MAX || red->op == RED_MIN) return true;
  return red->op == RED_SUM &&
         (!o || (et_kind((etype)l->type) == K_FLOAT ? o->k.f == 0 : o->k.i == 0) || EK_PLANTED("windows"));
}
/* Each axis has one variable of the result, which occurs in no other one: as it is, or with variables of the
 * reduction. */
static bool sort_axes(emodule *m, const ex_node *red, windowed *w) {
  const ex_node *l = exn(m, w->load);
  uint32_t last = MAX_RANK;
  for (uint32_t j = 0; j < l->nargs; j++) {
    u32vec vars = {0};
    uint32_t reds = 0;
    sym_atoms(m->c, l->args[j], AT_VAR, m->a, &vars);
    if (sym_uses_kind(m->c, l->args[j], AT_DATA)) return false;
    for (uint32_t i = 0; i < vars.n; i++) {
      bool mine = false;
      for (uint32_t k = 0; k < red->nargs; k++) mine |= red->args[k] == vars.v[i];
      for (uint32_t k = 0; k < l->nargs; k++)
        if (k != j && sym_uses(m->c, l->args[k], vars.v[i])) return false;
      reds += mine;
      if (!mine && w->out[j]) return false;
      if (!mine) w->out[j] = vars.v[i];
    }
    const tensor *t = xt(m, l->tensor);
    if (!reds && (vars.n ? sym_eq(m->c, l->args[j], sym_of_atom(m->c, w->out[j])) &&
                               sym_eq(m->c, sym_extent(m->c, w->out[j]), t->shape[j])
                         : known(m, t->shape[j]) == 1))
      w->ax[j] = AX_SHARED;
    else if (w->out[j] && known(m, t->shape[j]) > 0 && known(m, sym_extent(m->c, w->out[j])) > 0)
      w->ax[j] = AX_WHOLE, last = reds ? j : last;
    else
      return false;
  }
  return last + 1 == l->nargs;
}
/* The variables of the axes before the last: those are folded away. */
static void fold_axes(emodule *m, const ex_node *red, windowed *w) {
  const ex_node *l = exn(m, w->load);
  for (uint32_t k = 0; k < red->nargs; k++) {
    bool last = sym_uses(m->c, l->args[l->nargs - 1], red->args[k]);
    vec_push(m->a, *(last ? &w->left : &w->folded), red->args[k]);
  }
  for (uint32_t j = 0; j + 1 < l->nargs; j++)
    for (uint32_t k = 0; k < w->folded.n; k++)
      if (sym_uses(m->c, l->args[j], w->folded.v[k])) w->ax[j] = AX_FOLDED;
}
static window_reduction reduction_of(emodule *m, const windowed *w) {
  const ex_node *l = exn(m, w->load);
  const uint32_t last = l->nargs - 1u;
  return (window_reduction){.places = (double)known(m, xt(m, l->tensor)->shape[last]),
                            .lanes = (double)known(m, sym_extent(m->c, w->out[last])),
                            .outer = (double)count(m, &w->folded),
                            .inner = (double)count(m, &w->left)};
}
/* A window that asks no questions is read as it stands, where that takes fewer steps. */
static bool pays(emodule *m, const ex_node *red, const windowed *w) {
  window_reduction r = reduction_of(m, w);
  r.ordered = et_kind((etype)exn(m, w->load)->type) == K_FLOAT && red->op != RED_SUM;
  return w->folded.n && w->left.n && cost_separate_window(&r);
}
static bool in_place(const target *t, emodule *m, windowed *w, const u32vec *outer, const map *canon) {
  const ex_node *l = exn(m, w->load);
  uint32_t last = l->nargs - 1u;
  int64_t lanes = target_lanes(t, (etype)l->type), ext = sym_int_or(m->c, sym_extent(m->c, w->out[last]), 0),
          plane = et_bytes((etype)l->type), points = 1;
  if (lanes < 2 || !cost_window_lanes(ext, lanes, w->folded.n > 0)) return false;
  for (uint32_t j = 0; j < l->nargs; j++) {
    bool shared = w->ax[j] == AX_SHARED;
    if (w->ax[j] != AX_WHOLE && w->out[j] && !vec_has(outer, shared_name(canon, w->out[j]))) return false;
    sz n = w->ax[j] == AX_FOLDED ? sym_extent(m->c, w->out[j]) : xt(m, l->tensor)->shape[j];
    if (shared)
      points = sat_mul64(points, max64(1, sym_int_or(m->c, n, WINDOW_POINTS)));
    else
      plane = sat_mul64(plane, max64(1, sym_int_or(m->c, n, SAT64)));
  }
  sz coef, rest;
  if (!w->folded.n && sym_linear(m->c, l->args[last], w->out[last], &coef, &rest)) {
    int64_t st = sym_int_or(m->c, coef, 1);
    if (st > 1 && st <= MAX_LANE_STEP && known(m, xt(m, l->tensor)->shape[last]) % st == 0) w->phases = st;
  }
  if (points >= WINDOW_POINTS && cost_fits_half_l2(t, (double)plane)) return true;
  return w->by_row = w->folded.n > 0;
}

/* A large window over what another kernel computes, however that lies: by rows of all channels. */
static bool by_rows(const target *t, emodule *m, windowed *w, const u32vec *outer, const map *canon) {
  enum { POINTS = 8 };
  const ex_node *l = exn(m, w->load);
  const window_reduction r = reduction_of(m, w);
  int64_t row = et_bytes((etype)l->type), points = 1;
  w->by_row = true;
  if (!cost_separate_by_rows(&r)) return false;
  for (uint32_t j = l->nargs; j-- > 0;) {
    int64_t n = w->ax[j] == AX_FOLDED ? known(m, sym_extent(m->c, w->out[j])) : known(m, xt(m, l->tensor)->shape[j]);
    if (w->ax[j] != AX_WHOLE && w->out[j] && !vec_has(outer, shared_name(canon, w->out[j]))) return false;
    w->within[j] = w->ax[j] == AX_SHARED && n && cost_fits_half_l2(t, (double)sat_mul64(row, n));
    if (w->ax[j] == AX_FOLDED) points = sat_mul64(points, n);
    if (w->ax[j] == AX_WHOLE || w->within[j]) row = sat_mul64(row, n);
  }
  return points >= POINTS && cost_fits_half_l2(t, (double)row);
}

static ex take_load(void *env, emodule *m, ex e) {
  const ex *r = env;
  (void)m;
  return e == r[0] ? r[1] : e;
}
/* The stage in front of the window, in its kernel. */
static uint32_t put_rows(emodule *m, windowed *w) {
  stage *s = xs(m, w->s - 1);
  kernel *k = &m->kernels.v[s->kernel - 1];
  ex_node l = *exn(m, w->load), red = *exn(m, s->value);
  tensor in = *xt(m, l.tensor);
  axis ax[MAX_RANK + 1];
  atom vars[4 * MAX_RANK], own;
  sz idx[MAX_RANK + 1], at[MAX_RANK + 1], shape[MAX_RANK + 1], by[4 * MAX_RANK];
  uint32_t n = 0, rank = in.rank, last = rank - 1;
  u32vec outer = {0}, fresh = {0};
  for (uint32_t j = 0; j < l.nargs; j++) {
    shape[j] = w->ax[j] == AX_FOLDED ? sym_extent(m->c, w->out[j]) : in.shape[j];
    ax[j] = expr_axis1(m, arena_fmt(m->a, "p%u", j), shape[j], &idx[j]);
    at[j] = w->ax[j] == AX_WHOLE ? l.args[j] : w->out[j] ? sym_of_atom(m->c, w->out[j]) : sym_int(m->c, 0);
    if (w->ax[j] == AX_WHOLE || !w->out[j]) continue;
    vars[n] = w->out[j], by[n++] = idx[j];
    atom c = shared_name(k->canon, w->out[j]);
    if (!sym_is_atom(m->c, idx[j], &own) || (w->ax[j] != AX_SHARED && !w->by_row)) continue;
    map_putu(k->canon, own, c);
    if (!w->within[j]) vec_push(m->a, outer, c);
  }
  for (uint32_t i = 0; i < w->folded.n; i++) {
    sz v = sym_var(m->c, sym_name(m->c, w->folded.v[i]), sym_extent(m->c, w->folded.v[i]));
    vars[n] = w->folded.v[i], by[n++] = v;
    if (sym_is_atom(m->c, v, &own)) vec_push(m->a, fresh, own);
  }
  if (w->phases > 1) {
    sz st = sym_int(m->c, w->phases);
    rank++;
    shape[rank - 1] = sym_div(m->c, in.shape[last], st), shape[last] = st;
    at[rank - 1] = sym_div(m->c, at[last], st), at[last] = sym_mod(m->c, at[last], st);
    ax[last] = expr_axis1(m, arena_fmt(m->a, "p%u", last), st, &idx[last]),
    ax[rank - 1] = expr_axis1(m, arena_fmt(m->a, "q%u", last), shape[rank - 1], &idx[rank - 1]);
    idx[last] = sym_add(m->c, sym_mul(m->c, idx[rank - 1], st), idx[last]);
  }
  tid t = expr_tensor(m, TK_STAGE, in.type, shape, rank,
                      arena_fmt(m->a, "%s.%s", xt(m, s->tensor)->name, w->folded.n ? "rows" : "padded"), in.origin);
  for (uint32_t j = 0; j < l.nargs; j++) {
    shape[j] = w->ax[j] == AX_WHOLE ? idx[j] : l.args[j];
    for (uint32_t i = 0; i < n && w->ax[j] != AX_WHOLE; i++) shape[j] = sym_replace(m->c, shape[j], vars[i], by[i]);
  }
  ex value = expr_load(m, l.tensor, shape, l.nargs, w->folded.n ? l.otherwise : 0),
     rest = expr_load(m, t, at, rank, l.otherwise);
  if (w->folded.n) {
    value = expr_reduce(m, (rop)red.op, fresh.v, fresh.n, 0, value, 0, (etype)red.acc, (etype)red.type);
    s->value = expr_reduce(m, (rop)red.op, w->left.v, w->left.n, 0, rest, 0, (etype)red.acc, (etype)red.type);
  } else
    stage_rewrite(m, w->s - 1, &(ex_map){.node = take_load, .env = (ex[]){w->load, rest}});
  uint32_t r = expr_stage(m, 0, t, ax, rank, value);
  block *b = &m->blocks.v[0];
  uint32_t i = b->items.n - 1;
  item it = b->items.v[i];
  for (; i && !(b->items.v[i].kind == IT_STAGE && b->items.v[i].index == w->s - 1); i--)
    b->items.v[i] = b->items.v[i - 1];
  b->items.v[i + 1] = b->items.v[i];
  b->items.v[i] = it;
  vec_push(m->a, k->stages, r);
  for (uint32_t j = k->stages.n - 1; j; j--) k->stages.v[j] = k->stages.v[j - 1];
  k->stages.v[0] = r;
  k->outer = outer;
  xs(m, r)->kernel = xs(m, w->s - 1)->kernel;
  return r;
}
/* A kernel whose leader is a window, and what follows is element by element. */
static void ready(pw *p, kernel *k, u32vec *made, bool *any) {
  emodule *m = p->m;
  windowed w = {.s = k->stages.n ? k->stages.v[0] + 1 : 0};
  if (!w.s || k->dead || k->block || (k->cls != KC_STENCIL && k->cls != KC_ROW)) return;
  for (uint32_t i = 0; i < k->stages.n; i++) {
    const stage *s = xs(m, k->stages.v[i]);
    if (s->dead || s->recurrence || s->updates.n || (exn(m, s->value)->kind == EX_REDUCE) != (i == 0)) return;
  }
  const stage *s = xs(m, w.s - 1);
  const ex_node *red = exn(m, s->value);
  u32vec loads = {0};
  if (red_is_arg((rop)red->op)) return;
  expr_loads(m, s->value, m->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *l = exn(m, loads.v[i]);
    if (xt(m, l->tensor)->kind == TK_CONST) continue;
    if (w.load || (l->otherwise && exn(m, l->otherwise)->kind != EX_CONST)) return;
    w.load = loads.v[i];
  }
  if (!w.load || !sort_axes(m, red, &w)) return;
  bool divisible = any_order(m, red, w.load), guarded = exn(m, w.load)->otherwise != 0;
  if (divisible) fold_axes(m, red, &w);
  if (xt(m, exn(m, w.load)->tensor)->kind != TK_INPUT) {
    if (divisible && by_rows(p->t, m, &w, &k->outer, k->canon) && pass_spend(p)) put_rows(m, &w), *any = true;
    return;
  }
  if (!guarded && (!divisible || !pays(m, red, &w))) return;
  if (!in_place(p->t, m, &w, &k->outer, k->canon) || !pass_spend(p)) return;
  vec_push(m->a, *made, put_rows(m, &w));
  *any = true;
}

/* ---- all of an input ------------------------------------------------------------------------- */
typedef struct renamed {
  tid from; /* the tensor */
  tid to;   /* the tensor that is read instead */
} renamed;
static ex rename_load(void *env, emodule *m, ex e) {
  const renamed *r = env;
  ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || n.tensor != r->from) return e;
  return expr_load(m, r->to, n.args, n.nargs, n.otherwise);
}
static int64_t places_of(emodule *m, tid t) {
  sz n = sym_int(m->c, 1);
  for (uint32_t i = 0; i < xt(m, t)->rank; i++) n = sym_mul(m->c, n, xt(m, t)->shape[i]);
  return expr_typical(m, n);
}
static bool reread_with_guard(emodule *m, tid t, const u32vec *made) {
  int64_t reads = 0, places = places_of(m, t);
  bool guarded = false;
  for (uint32_t i = 0; i < m->stages.n; i++) {
    stage *s = xs(m, i);
    if (s->dead || !s->value || vec_has(made, i)) continue;
    u32vec loads = {0};
    expr_loads(m, s->value, m->a, &loads);
    for (uint32_t j = 0; j < loads.n; j++) {
      const ex_node *n = exn(m, loads.v[j]);
      if (n->tensor != t) continue;
      bool guard = n->otherwise && exn(m, n->otherwise)->kind == EX_CONST;
      if (guard && exn(m, s->value)->kind == EX_REDUCE) return true;
      guarded |= guard;
      reads += places_of(m, s->tensor);
    }
  }
  return guarded && reads / 2 >= places;
}
static void copy_all(emodule *m, tid t, const u32vec *made) {
  tensor in = *xt(m, t);
  axis ax[MAX_RANK];
  sz idx[MAX_RANK];
  for (uint32_t j = 0; j < in.rank; j++) ax[j] = expr_axis1(m, arena_fmt(m->a, "p%u", j), in.shape[j], &idx[j]);
  tid c = expr_tensor(m, TK_STAGE, in.type, in.shape, in.rank, arena_fmt(m->a, "%s.padded", in.name), in.origin);
  for (uint32_t s = 0; s < m->stages.n; s++)
    if (!xs(m, s)->dead && !vec_has(made, s))
      stage_rewrite(m, s, &(ex_map){.node = rename_load, .env = &(renamed){t, c}});
  uint32_t s = expr_stage(m, 0, c, ax, in.rank, expr_load(m, t, idx, in.rank, 0));
  block *b = &m->blocks.v[0];
  item last = b->items.v[b->items.n - 1];
  for (uint32_t j = b->items.n - 1; j > 0; j--) b->items.v[j] = b->items.v[j - 1];
  b->items.v[0] = last;
  kernel k = {.cls = KC_COPY};
  vec_push(m->a, k.stages, s);
  vec_push(m->a, m->kernels, k);
  xs(m, s)->kernel = m->kernels.n;
}
bool pass_windows(pw *p) {
  emodule *m = p->m;
  u32vec made = {0};
  bool any = false;
  uint32_t n = m->kernels.n;
  for (uint32_t k = 0; k < n; k++) ready(p, &m->kernels.v[k], &made, &any);
  for (uint32_t i = 0; i < m->inputs.n; i++)
    if (reread_with_guard(m, m->inputs.v[i].t, &made) && pass_spend(p))
      copy_all(m, m->inputs.v[i].t, &made), any = true;
  return any;
}
