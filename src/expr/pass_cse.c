/* Which stages compute the same?
 *
 * Two stages are equal up to the names of their variables. Every stage's value is rewritten over canonical variables (position, extent); values are hash-consed, so equal stages get the same ex. A
 * stage may be replaced by an equal one that stands earlier in its own or an enclosing block. Stages of recurrences, updates and needed-by-name tensors stay (the latter may stand for others).
 */
#include "expr/pass.h"
#include <string.h>

static void bound_vars(pw *p, ex e, map *seen, u32vec *out) { /* reduction variables in order of a fixed walk */
  uint64_t x;
  if (!e || !(ex_flags(p, e) & EXF_REDUCE) || map_getu(seen, e, &x)) return;
  map_putu(seen, e, 1);
  ex_node n = *exn(p->m, e);
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) bound_vars(p, n.args[i], seen, out);
  if (n.kind == EX_LOAD) bound_vars(p, n.otherwise, seen, out);
  if (n.kind == EX_REDUCE) {
    for (uint32_t i = 0; i < n.nargs; i++) vec_push(p->a, *out, n.args[i]);
    bound_vars(p, n.where, seen, out), bound_vars(p, n.body, seen, out), bound_vars(p, n.payload, seen, out);
  }
}
static sz canonical(pw *p, uint32_t at, sz extent) {
  uint64_t key = (uint64_t)at << 32 | extent, v;
  if (map_getu(p->canon_vars, key, &v)) return (sz)v;
  sz s = sym_var(p->c, "v", extent);
  map_putu(p->canon_vars, key, s);
  return s;
}
typedef struct pairs {
  const uint32_t *from;
  const sz *to;
  uint32_t n;
} pairs;
static sz pair_of(void *env, emodule *m, atom a) {
  (void)m;
  const pairs *q = env;
  for (uint32_t i = 0; i < q->n; i++)
    if (q->from[i] == a) return q->to[i];
  return 0;
}
static sz rename_size(ctx *c, void *env, atom a) {
  (void)c;
  return sym_kind(c, a) == AT_VAR ? pair_of(env, NULL, a) : 0;
}
bool pass_cse(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  map *seen = map_new(p->a), *ren = map_new(p->a); /* key -> stage + 1; tensor -> tensor */
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    stage *x = xs(m, s);
    if (map_count(ren)) { /* read the survivors */
      map *by = NULL;
      const u32vec *l = stage_loads(p, s);
      for (uint32_t k = 0; k < l->n; k++) {
        ex_node n = *exn(m, l->v[k]);
        uint64_t t;
        if (!map_getu(ren, n.tensor, &t)) continue;
        if (!by) by = map_new(p->a);
        map_putu(by, l->v[k], expr_load(m, (tid)t, n.args, n.nargs, n.otherwise));
      }
      if (by) stage_replace(p, s, by), x = xs(m, s);
    }
    if (x->updates.n || x->scan || !x->value) continue;
    u32vec vars = {0};
    stage_vars(m, s, p->a, &vars);
    bound_vars(p, x->value, map_new(p->a), &vars);
    sz *to = NEWN(p->a, sz, vars.n + 1);
    pairs q = {vars.v, to, 0};
    for (uint32_t k = 0; k < vars.n; k++) {
      sz ext = sym_extent(p->c, vars.v[k]);
      to[k] = canonical(p, k, sym_subst(p->c, ext, rename_size, &q));
      q.n = k + 1;
    }
    uint32_t key[3 + 2 * MAX_RANK], nk = 0;
    key[nk++] = EK_PLANTED("cse") ? 0 : expr_rewrite(m, x->value, &(ex_map){.atom = pair_of, .env = &q});
    key[nk++] = xt(m, x->tensor)->type;
    for (uint32_t k = 0; k < x->naxes; k++) key[nk++] = x->axes[k].n, key[nk++] = sym_canon(p->c, xt(m, x->tensor)->shape[k]);
    uint64_t first;
    if (map_get(seen, key, nk * sizeof *key, &first) && block_inside(m, x->block, xs(m, (uint32_t)first - 1)->block)) {
      if (p->pinned.v[x->tensor] || !pass_spend(p)) continue;
      map_putu(ren, x->tensor, xs(m, (uint32_t)first - 1)->tensor);
      pass_kill(p, s);
      any = true;
      continue;
    }
    map_put(seen, key, nk * sizeof *key, s + 1);
  }
  if (any) pass_flush(p);
  return any;
}
