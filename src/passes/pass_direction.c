/* Where are rows that one half reads backwards turned round?
 *
 * The two directions of a recurrence read the same sequence, one from its end: X[c >= 0 ? n-1-t : t]. What is computed
 * from each row alone, the input's product above all, need not be computed in that order: a stage whose value has t
 * only in that place is computed as one of u = (c >= 0 ? n-1-t : t), which is an affine access, and its readers read it
 * at that place instead. Producers come first, so the turn moves down to the first stage that has t elsewhere, the step
 * itself. Only of sums, and of what reads them: else nothing is won. Needs views; keeps everything.
 */
#include "passes/pass.h"

/* c >= 0 ? n-1-v : v, or the other way round, and nothing else of v in it? */
static bool reversals(ctx *c, atom a, atom v, sz *cond) {
  sz arg[3], at = sym_of_atom(c, v), back = sym_sub(c, sym_addi(c, sym_extent(c, v), -1), at);
  if (sym_kind(c, a) != AT_SEL || sym_args(c, a, arg) != 3) return false;
  *cond = arg[0];
  return !sym_uses(c, arg[0], v) && !sym_uses_kind(c, arg[0], AT_DATA) &&
         ((arg[1] == back && arg[2] == at) || (arg[1] == at && arg[2] == back));
}
static atom reversed_place(pw *p, uint32_t s, atom v, sz *cond) {
  const u32vec *l = stage_loads(p, s);
  u32vec sels = {0}, vars = {0}, in = {0};
  for (uint32_t i = 0; i < l->n; i++) {
    const ex_node *n = exn(p->m, l->v[i]);
    for (uint32_t d = 0; d < n->nargs; d++) sym_atoms(p->c, n->args[d], AT_SEL, p->a, &sels);
  }
  stage_vars(p->m, s, p->a, &vars);
  for (uint32_t i = 0; i < sels.n; i++) {
    if (!reversals(p->c, sels.v[i], v, cond)) continue;
    in.n = 0;
    sym_atoms(p->c, *cond, AT_VAR, p->a, &in);
    for (uint32_t k = 0; k < in.n; k++)
      if (!vec_has(&vars, in.v[k])) return 0;
    return sels.v[i];
  }
  return 0;
}
typedef struct reversed {
  uint32_t stage; /* the stage */
  uint32_t digit; /* its digit that runs backwards */
  atom place;     /* atom of the place that is read: forwards in one half, backwards in the other */
} reversed;
/* the load of the turned stage instead of l: its digit at the turned place */
static ex reversed_load(pw *p, const ex_node *l, const void *env) {
  const reversed *q = env;
  ctx *c = p->c;
  const stage *x = xs(p->m, q->stage);
  uint32_t nd = expr_ndigits(x);
  sz *by = NEWN(p->a, sz, nd + 1), idx[MAX_RANK], to = sym_of_atom(c, q->place);
  digit *d = NEWN(p->a, digit, nd + 1);
  if (l->otherwise || !expr_comps(p->m, q->stage, l->args, by, NULL, NULL)) return 0;
  expr_digits(x, d);
  atom *vars = NEWN(p->a, atom, nd + 1);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  to = exn(p->m, expr_subst_vars(p->m, expr_index(p->m, to), vars, by, nd))->index;
  if (!EK_PLANTED("direction")) by[q->digit] = to;
  for (uint32_t a = 0, i = 0; a < x->naxes; a++) {
    idx[a] = sym_int(c, 0);
    for (uint32_t k = 0; k < x->axes[a].n; k++, i++) idx[a] = sym_add(c, sym_mul(c, idx[a], d[i].extent), by[i]);
  }
  return expr_load(p->m, l->tensor, idx, l->nargs, 0);
}
typedef struct swap {
  atom place; /* the atom */
  sz by;      /* what stands for it */
} swap;
static ex read_straight(void *env, emodule *m, ex e) {
  const swap *w = env;
  ex_node n = *exn(m, e);
  sz idx[MAX_RANK];
  if (n.kind != EX_LOAD) return e;
  for (uint32_t i = 0; i < n.nargs; i++) idx[i] = sym_replace(m->c, n.args[i], w->place, w->by);
  return expr_load(m, n.tensor, idx, n.nargs, n.otherwise);
}
static bool normalise(pw *p, uint32_t s, uint32_t at, atom place) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  tid t = x->tensor;
  uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(p->a, digit, nd + 1);
  expr_digits(x, d);
  sz u = sym_var(p->c, sym_name(p->c, d[at].var), d[at].extent);
  ex v = expr_rewrite(m, x->value, &(ex_map){.node = read_straight, .env = &(swap){place, u}});
  u32vec used = {0};
  reload r;
  expr_vars(m, v, p->a, &used);
  if (vec_has(&used, d[at].var) || !reload_make(p, t, reversed_load, &(reversed){s, at, place}, &r) || !pass_spend(p))
    return false;
  axis *ax = arena_dup(m->a, xs(m, s)->axes, xs(m, s)->naxes * sizeof *ax);
  for (uint32_t a = 0, i = 0; a < xs(m, s)->naxes; a++) {
    digit *own = arena_dup(m->a, ax[a].d, ax[a].n * sizeof *own);
    for (uint32_t k = 0; k < ax[a].n; k++, i++)
      if (i == at) sym_is_atom(p->c, u, &own[k].var);
    ax[a].d = own;
  }
  xs(m, s)->axes = ax;
  pass_set(p, s, v);
  reload_put(p, &r);
  return true;
}
bool pass_direction(pw *p) {
  u32vec order = {0};
  map *reversed = map_new(p->a);
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    const stage *x = xs(p->m, s);
    bool of = stage_is_reduce(p, s);
    const u32vec *l = stage_loads(p, s);
    for (uint32_t k = 0; k < l->n; k++) of |= map_getu(reversed, exn(p->m, l->v[k])->tensor, &(uint64_t){0});
    if (!of || !x->value || x->updates.n || x->recurrence || p->pinned.v[x->tensor]) continue;
    uint32_t nd = expr_ndigits(x);
    digit *d = NEWN(p->a, digit, nd + 1);
    expr_digits(x, d);
    for (uint32_t k = 0; k < nd; k++) {
      sz cond;
      atom place = reversed_place(p, s, d[k].var, &cond);
      if (!place || !normalise(p, s, k, place)) continue;
      map_putu(reversed, xs(p->m, s)->tensor, 1);
      any = true;
      break;
    }
  }
  return any;
}
