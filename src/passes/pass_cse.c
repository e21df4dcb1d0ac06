/* Which stages compute the same?
 *
 * Two stages are equal up to the names of their variables. A stage's value is rewritten over canonical variables
 * (position, extent); values are hash-consed, so equal stages get the same ex. Only where a signature that
 * sees no variables says that two may be equal: what is rewritten stays in the module. A stage may be replaced by
 * an equal one that stands earlier in its own or an enclosing block. Stages of recurrences, updates and
 * needed-by-name tensors stay (the latter may stand for others).
 */
#include "passes/pass.h"
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
  const uint32_t *from; /* variables */
  const sz *to;         /* what stands for each */
  uint32_t n;           /* number of variables */
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

/* ---- signatures ------------------------------------------------------------------------------ */
typedef VEC(uint64_t) signatures; /* per ex; 0: not asked yet */
static uint64_t mix(uint64_t h, uint64_t x) { return hash_bytes(&(uint64_t[2]){h, x}, 16, 0); }
static uint64_t sign_size(ctx *c, sz e) { /* terms stand in the order of their variables' numbers: a sum forgets it */
  uint64_t h = 0;
  for (uint32_t i = 0, n = sym_nterms(c, e); i < n; i++) {
    uint32_t atoms;
    const atom *a;
    const uint8_t *x;
    int64_t k = sym_term(c, e, i, &atoms, &a, &x);
    h += mix((uint64_t)k, atoms);
  }
  return h;
}
static uint64_t sign(pw *p, signatures *of, ex e) {
  if (!e) return 1;
  if (e >= of->n) {
    uint32_t n = of->n;
    vec_reserve(p->a, *of, p->m->nodes.n);
    memset(of->v + n, 0, (of->cap - n) * sizeof *of->v);
    of->n = of->cap;
  }
  if (of->v[e]) return of->v[e];
  ex_node n = *exn(p->m, e);
  uint64_t h = mix((uint64_t)n.kind | (uint64_t)n.type << 8 | (uint64_t)n.op << 16 | (uint64_t)n.acc << 24 |
                       (uint64_t)n.nargs << 32,
                   n.tensor);
  if (n.kind == EX_CONST) h = mix(h, (uint64_t)n.k.i);
  if (n.kind == EX_INDEX) h = mix(h, sign_size(p->c, n.index));
  if (n.kind == EX_LOAD)
    for (uint32_t i = 0; i < n.nargs; i++) h = mix(h, sign_size(p->c, n.args[i]));
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) h = mix(h, sign(p, of, n.args[i]));
  h = mix(h, sign(p, of, n.otherwise));
  if (n.kind == EX_REDUCE) h = mix(mix(mix(h, sign(p, of, n.where)), sign(p, of, n.body)), sign(p, of, n.payload));
  return of->v[e] = h | 1;
}
static uint64_t sign_stage(pw *p, signatures *of, const stage *x) {
  const tensor *t = xt(p->m, x->tensor);
  uint64_t h = mix(sign(p, of, x->value), t->type);
  for (uint32_t k = 0; k < x->naxes; k++) h = mix(h, sign_size(p->c, t->shape[k]));
  return h;
}

/* ---- keys ------------------------------------------------------------------------------------ */
typedef struct key {
  uint32_t n;                   /* words in use */
  uint32_t v[2 + 2 * MAX_RANK]; /* the words */
} key;
static key key_of(pw *p, uint32_t s) {
  emodule *m = p->m;
  u32vec vars = {0};
  key r = {0};
  stage_vars(m, s, p->a, &vars);
  bound_vars(p, xs(m, s)->value, map_new(p->a), &vars);
  sz *to = NEWN(p->a, sz, vars.n + 1);
  pairs q = {vars.v, to, 0};
  for (uint32_t k = 0; k < vars.n; k++) {
    sz ext = sym_extent(p->c, vars.v[k]);
    to[k] = canonical(p, k, sym_subst(p->c, ext, rename_size, &q));
    q.n = k + 1;
  }
  r.v[r.n++] = EK_PLANTED("cse") ? 0 : expr_rewrite(m, xs(m, s)->value, &(ex_map){.atom = pair_of, .env = &q});
  const stage *x = xs(m, s);
  r.v[r.n++] = xt(m, x->tensor)->type;
  for (uint32_t k = 0; k < x->naxes; k++)
    r.v[r.n++] = x->axes[k].n, r.v[r.n++] = sym_canon(p->c, xt(m, x->tensor)->shape[k]);
  return r;
}
static ex survivor(pw *p, const ex_node *l, const void *env) {
  return expr_load(p->m, *(const tid *)env, l->args, l->nargs, l->otherwise);
}
bool pass_cse(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  /* key -> stage + 1; signature -> the only stage with it + 1, 0: there are several */
  map *seen = map_new(p->a), *signs = map_new(p->a);
  signatures of = {0};
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    const stage *x = xs(m, s);
    if (x->updates.n || x->recurrence || !x->value) continue;
    uint64_t h = EK_PLANTED("cse") ? 0 : sign_stage(p, &of, x), first;
    if (!map_getu(signs, h, &first)) {
      map_putu(signs, h, s + 1);
      continue;
    }
    if (first) {
      key k = key_of(p, (uint32_t)first - 1);
      map_put(seen, k.v, k.n * sizeof *k.v, first);
      map_putu(signs, h, 0);
    }
    key k = key_of(p, s);
    x = xs(m, s);
    if (map_get(seen, k.v, k.n * sizeof *k.v, &first) && block_inside(m, x->block, xs(m, (uint32_t)first - 1)->block)) {
      reload r;
      if (p->pinned.v[x->tensor] || !reload_make(p, x->tensor, survivor, &xs(m, (uint32_t)first - 1)->tensor, &r) ||
          !pass_spend(p))
        continue;
      reload_put(p, &r);
      pass_kill(p, s);
      any = true;
      continue;
    }
    map_put(seen, k.v, k.n * sizeof *k.v, s + 1);
  }
  if (any) pass_flush(p);
  return any;
}
