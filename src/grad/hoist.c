/* Where do reductions stand before a value is differentiated?
 *
 * Every reduction below the root of a value becomes a stage of its own over exactly its free variables, in front of the
 * stage that has it: then a value is one reduction of an element-wise body, or element-wise, and the backward stages
 * can read what the reduction gave instead of computing it once per point. In a recurrence it becomes a member (its
 * step first). Where it stood under a condition it is computed also where the condition fails: reads that are not
 * provably in range get an `else` of 0, which nobody uses.
 */
#include "grad/grad_in.h"

typedef struct hoist {
  gr *g;      /* differentiation */
  uint32_t s; /* the stage */
  ex root;    /* stays where it is */
  bool lazy;  /* something around it is evaluated conditionally */
  map *made;  /* reduction -> read of its stage */
} hoist;

static ex guard_load(void *env, emodule *m, ex e) {
  gr *g = env;
  ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || n.otherwise || !in_range_cond(g, e) || EK_PLANTED("grad-hoist")) return e;
  return expr_load(m, n.tensor, n.args, n.nargs,
                   et_kind(n.type) == K_FLOAT ? expr_f(m, n.type, 0)
                   : n.type == ET_BOOL        ? expr_bool(m, false)
                                              : expr_i(m, n.type, 0));
}
void grad_stand_before(gr *g, uint32_t s) { /* Moves the stage appended last in front of s. */
  block *b = &g->m->blocks.v[g->block];
  item last = b->items.v[b->items.n - 1];
  uint32_t i = b->items.n - 1;
  for (; i > 0; i--) {
    b->items.v[i] = b->items.v[i - 1];
    if (b->items.v[i].kind == IT_STAGE && b->items.v[i].index == s) break;
  }
  b->items.v[i - (i > 0)] = last;
}
static ex hoist_node(void *env, emodule *m, ex e) {
  hoist *h = env;
  gr *g = h->g;
  ctx *c = g->c;
  uint64_t made;
  ex_node n = *exn(m, e);
  if (n.kind != EX_REDUCE || e == h->root) return e;
  if (map_getu(h->made, e, &made)) return (ex)made;
  ex value = expr_fresh(m, h->lazy ? expr_rewrite(m, e, &(ex_map){.node = guard_load, .env = g}) : e);
  uint32_t sc = xs(m, h->s)->recurrence;
  atom t = sc ? m->recurrences.v[sc].var : 0;
  const char *origin = xt(m, xs(m, h->s)->tensor)->origin;
  u32vec fv = {0}, vars = {0};
  expr_vars(m, value, g->a, &fv);
  if (t) vec_push(g->a, vars, t); /* the step stands first and is shared */
  for (uint32_t i = 0; i < fv.n; i++)
    if (fv.v[i] != t) vec_push(g->a, vars, fv.v[i]);
  if (vars.n > MAX_RANK)
    grad_refuse(g, origin, "a reduction over values of %u variables (at most %d)", vars.n, MAX_RANK);
  axis axes[MAX_RANK];
  sz by[MAX_RANK], idx[MAX_RANK], shape[MAX_RANK];
  for (uint32_t i = 0; i < vars.n; i++) {
    atom v = vars.v[i];
    idx[i] = sym_of_atom(c, v), shape[i] = sym_extent(c, v);
    digit *d = NEW(m->a, digit);
    by[i] = v == t ? idx[i] : sym_var(c, sym_name(c, v), shape[i]);
    sym_is_atom(c, by[i], &d->var);
    d->extent = shape[i];
    axes[i] = (axis){1, d};
  }
  value = expr_subst_vars(m, value, vars.v, by, vars.n);
  tid r = expr_tensor(m, TK_STAGE, n.type, shape, vars.n, arena_fmt(g->a, "%s.r", xt(m, xs(m, h->s)->tensor)->name),
                      origin);
  uint32_t ns = expr_stage(m, g->block, r, axes, vars.n, value);
  xs(m, ns)->recurrence = sc;
  grad_stand_before(g, h->s);
  ex ld = expr_load(m, r, idx, vars.n, 0);
  map_putu(h->made, e, ld);
  return ld;
}
static bool has_reduce(gr *g, ex e, bool *lazy) {
  u32vec todo = {0};
  map *seen = map_new(g->a);
  bool any = false;
  vec_push(g->a, todo, e);
  for (uint32_t i = 0; i < todo.n; i++) {
    uint64_t x;
    if (!todo.v[i] || map_getu(seen, todo.v[i], &x)) continue;
    map_putu(seen, todo.v[i], 1);
    ex_node n = *exn(g->m, todo.v[i]);
    any |= n.kind == EX_REDUCE;
    *lazy |= n.kind == EX_OP && (n.op == OP_SEL || n.op == OP_AND || n.op == OP_OR);
    for (uint32_t k = 0; n.kind == EX_OP && k < n.nargs; k++) vec_push(g->a, todo, n.args[k]);
    if (n.kind == EX_REDUCE)
      vec_push(g->a, todo, n.body), vec_push(g->a, todo, n.where), vec_push(g->a, todo, n.payload),
          *lazy |= n.where != 0;
    if (n.kind == EX_LOAD) vec_push(g->a, todo, n.otherwise), *lazy |= n.otherwise != 0;
    u32vec data = {0};
    for (uint32_t k = 0; n.kind == EX_LOAD && k < n.nargs; k++) sym_atoms(g->c, n.args[k], AT_DATA, g->a, &data);
    if (n.kind == EX_INDEX) sym_atoms(g->c, n.index, AT_DATA, g->a, &data);
    for (uint32_t k = 0; k < data.n; k++) vec_push(g->a, todo, sym_data_id(g->c, data.v[k]));
  }
  return any;
}
static ex hoist_value(hoist *h, ex e, bool is_root) {
  emodule *m = h->g->m;
  if (!e) return 0;
  ex_node n = *exn(m, e);
  ex_map f = {.node = hoist_node, .env = h};
  h->lazy = false;
  if (!is_root || n.kind != EX_REDUCE) {
    h->root = 0;
    return has_reduce(h->g, e, &h->lazy) ? expr_rewrite(m, e, &f) : e;
  }
  ex part[3] = {n.where, n.body, n.payload};
  bool any = false;
  h->lazy = n.where != 0;
  for (int i = 0; i < 3; i++) any |= part[i] && has_reduce(h->g, part[i], &h->lazy);
  if (!any) return e;
  for (int i = 0; i < 3; i++)
    if (part[i]) part[i] = expr_rewrite(m, part[i], &f);
  return expr_reduce(m, n.op, n.args, n.nargs, part[0], part[1], part[2], n.acc, n.type);
}
void grad_hoist(gr *g, uint32_t s) {
  hoist h = {.g = g, .s = s, .made = map_new(g->a)};
  ex v = hoist_value(&h, xs(g->m, s)->value, true);
  xs(g->m, s)->value = v;
  for (uint32_t i = 0; i < xs(g->m, s)->updates.n; i++) {
    update u = xs(g->m, s)->updates.v[i];
    u.value = hoist_value(&h, u.value, false);
    u.cond = hoist_value(&h, u.cond, false);
    xs(g->m, s)->updates.v[i] = u;
  }
}
