/* How are values looked through and rebuilt?
 *
 * Idea. A value is a DAG with two kinds of edges: operands, and the data atoms inside the indices of loads and index
 * nodes (an i64 value used as part of a size). Every walk here follows both, visits each node once (a mark per node
 * remembers; a map, where walks nest), and is bounded by the DAG, not by the tree it unfolds to.
 *
 * Rewriting replaces atoms and nodes at once: `atom` is asked for every variable and symbol, `node` for every rebuilt
 * node, operands first. Bound variables are handled here: one that `atom` maps to a size is replaced in the reduction's
 * list by the variables of that size, largest coefficient first (so that v -> 4*a + b splits the loop and keeps its
 * order), by nothing if it is a constant; one whose extent changes is replaced by a fresh variable of the new extent.
 * Sizes are rebuilt by sym_subst, whose callback comes back here for data atoms: nested calls.
 *
 * Not done here: a stage's axes are the caller's (stage_rewrite leaves them), and substitutions must not bring a free
 * variable under a reduction that binds the same one (variables belong to one stage each, so it takes an effort;
 * expr_fresh gives a value new bound variables).
 */
#include "expr/expr.h"
#include "expr/build.h"
#include <string.h>

/* Room for an entry per node, those beyond the last one 0. */
static void reach_nodes(emodule *m, u32vec *v, ex e) {
  uint32_t n = v->n;
  if (n > e) return;
  vec_reserve(m->values, *v, m->nodes.cap);
  v->n = v->cap;
  memset(v->v + n, 0, (v->n - n) * sizeof *v->v);
}

/* ---- visiting: every distinct node below e, operands first ----------------------------------- */
typedef struct visit {
  emodule *m; /* the module */
  arena *a;   /* memory */
  map *seen;  /* NULL: a node that this walk saw has its number; no other walk begins before it ends */
  void (*node)(struct visit *v, ex e); /* called on each node */
  void *env;                           /* for the caller */
  uint32_t walk;                       /* number of this walk */
} visit;
static visit walk_marked(emodule *m, arena *a, void (*node)(visit *v, ex e), void *env) {
  return (visit){m, a, NULL, node, env, ++m->walks};
}
static bool first_time(visit *v, ex e) {
  uint64_t x;
  if (v->seen) {
    if (map_getu(v->seen, e, &x)) return false;
    map_putu(v->seen, e, 1);
    return true;
  }
  u32vec *marks = &v->m->marks;
  reach_nodes(v->m, marks, e);
  if (marks->v[e] == v->walk) return false;
  marks->v[e] = v->walk;
  return true;
}

static void visit_value(visit *v, ex e);
static void visit_size(visit *v, sz s) {
  if (!s || !sym_uses_kind(v->m->c, s, AT_DATA)) return;
  u32vec d = {0};
  sym_atoms(v->m->c, s, AT_DATA, v->a, &d);
  for (uint32_t i = 0; i < d.n; i++) visit_value(v, sym_data_id(v->m->c, d.v[i]));
}
static void visit_value(visit *v, ex e) {
  if (!e || !first_time(v, e)) return;
  ex_node n = *exn(v->m, e);
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    break;
  case EX_INDEX:
    visit_size(v, n.index);
    break;
  case EX_LOAD:
    for (uint32_t i = 0; i < n.nargs; i++) visit_size(v, n.args[i]);
    visit_value(v, n.otherwise);
    break;
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) visit_value(v, n.args[i]);
    break;
  case EX_REDUCE:
    visit_value(v, n.where), visit_value(v, n.body), visit_value(v, n.payload);
    break;
  }
  v->node(v, e);
}

/* ---- free variables -------------------------------------------------------------------------- */
typedef struct freevars {
  emodule *m;       /* the module */
  arena *a;         /* memory */
  map *memo;        /* ex -> index into sets + 1 */
  VEC(u32vec) sets; /* free variables of a value */
} freevars;

static uint32_t free_of(freevars *f, ex e);
static void free_add(freevars *f, u32vec *to, ex e) {
  if (!e) return;
  uint32_t at = free_of(f, e);
  u32vec s = f->sets.v[at];
  for (uint32_t i = 0; i < s.n; i++) vec_once(f->a, to, s.v[i]);
}
static void free_size(freevars *f, u32vec *to, sz s) {
  u32vec d = {0};
  sym_atoms(f->m->c, s, AT_VAR, f->a, &d);
  for (uint32_t i = 0; i < d.n; i++) vec_once(f->a, to, d.v[i]);
  d.n = 0;
  if (!sym_uses_kind(f->m->c, s, AT_DATA)) return;
  sym_atoms(f->m->c, s, AT_DATA, f->a, &d);
  for (uint32_t i = 0; i < d.n; i++) free_add(f, to, sym_data_id(f->m->c, d.v[i]));
}
static uint32_t free_of(freevars *f, ex e) {
  uint64_t at;
  if (map_getu(f->memo, e, &at)) return (uint32_t)at;
  ex_node n = *exn(f->m, e);
  u32vec s = {0};
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    break;
  case EX_INDEX:
    free_size(f, &s, n.index);
    break;
  case EX_LOAD:
    for (uint32_t i = 0; i < n.nargs; i++) free_size(f, &s, n.args[i]);
    free_add(f, &s, n.otherwise);
    break;
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) free_add(f, &s, n.args[i]);
    break;
  case EX_REDUCE: {
    u32vec in = {0};
    free_add(f, &in, n.where), free_add(f, &in, n.body), free_add(f, &in, n.payload);
    for (uint32_t i = 0; i < in.n; i++) {
      bool bound = false;
      for (uint32_t k = 0; k < n.nargs; k++) bound |= n.args[k] == in.v[i];
      if (!bound) vec_push(f->a, s, in.v[i]);
    }
    break;
  }
  }
  vec_push(f->a, f->sets, s);
  map_putu(f->memo, e, f->sets.n - 1);
  return f->sets.n - 1;
}
void expr_vars(emodule *m, ex e, arena *a, u32vec *free_vars) {
  freevars f = {.m = m, .a = a, .memo = map_new(a)};
  free_add(&f, free_vars, e);
}

void size_vars(emodule *m, sz s, arena *a, u32vec *vars) {
  freevars f = {.m = m, .a = a, .memo = map_new(a)};
  free_size(&f, vars, s);
}

void expr_operands(emodule *m, ex e, sop op, arena *a, u32vec *out) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_OP || n->op != op || out->n >= MAX_OPERANDS) {
    vec_push(a, *out, e);
    return;
  }
  expr_operands(m, n->args[0], op, a, out);
  expr_operands(m, n->args[1], op, a, out);
}

/* ---- loads, cost ----------------------------------------------------------------------------- */
static void take_load(visit *v, ex e) {
  if (exn(v->m, e)->kind == EX_LOAD) vec_push(v->a, *(u32vec *)v->env, e);
}
bool expr_by_data(const emodule *m, const ex_node *load) {
  for (uint32_t i = 0; i < load->nargs; i++)
    if (sym_uses_kind(m->c, load->args[i], AT_DATA)) return true;
  return false;
}
/* A load that needs no other one. */
static bool loads_nothing_else(const emodule *m, const ex_node *n) {
  return n->kind == EX_LOAD && !n->otherwise && !expr_by_data(m, n);
}
/* Nodes never change: what a value loads is found once. */
void expr_loads(emodule *m, ex e, arena *a, u32vec *loads) {
  const uint32_t had = loads->n;
  if (!e) return;
  if (!had && loads_nothing_else(m, exn(m, e))) {
    vec_push(a, *loads, e);
    return;
  }
  reach_nodes(m, &m->loads_of, e);
  const uint32_t known = m->loads_of.v[e];
  const u32vec *all = known ? &m->known_loads.v[known - 1] : NULL;
  if (known && !had) {
    vec_reserve(a, *loads, all->n);
    if (all->n) memcpy(loads->v, all->v, all->n * sizeof *all->v);
    loads->n = all->n;
    return;
  }
  visit v = walk_marked(m, a, take_load, loads);
  for (uint32_t i = 0; i < had; i++) first_time(&v, loads->v[i]);
  for (uint32_t i = 0; known && i < all->n; i++)
    if (first_time(&v, all->v[i])) vec_push(a, *loads, all->v[i]);
  if (known) return;
  visit_value(&v, e);
  if (had) return;
  u32vec own = {0};
  vec_reserve(m->values, own, loads->n);
  if (loads->n) memcpy(own.v, loads->v, loads->n * sizeof *own.v);
  own.n = loads->n;
  vec_push(m->values, m->known_loads, own);
  m->loads_of.v[e] = m->known_loads.n;
}
bool expr_uses(emodule *m, ex e, atom var, arena *a) {
  u32vec vars = {0};
  expr_vars(m, e, a, &vars);
  return vec_has(&vars, var);
}
bool expr_reads(emodule *m, ex e, tid t, arena *a) {
  u32vec loads = {0};
  expr_loads(m, e, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(m, loads.v[i])->tensor == t) return true;
  return false;
}
void expr_stage_loads(emodule *m, uint32_t id, arena *a, u32vec *loads) {
  const stage *s = xs(m, id);
  visit v = walk_marked(m, a, take_load, loads);
  for (uint32_t i = 0; i < loads->n; i++) first_time(&v, loads->v[i]);
  visit_value(&v, s->value);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    visit_value(&v, s->updates.v[i].value), visit_value(&v, s->updates.v[i].cond);
    for (uint32_t k = 0; k < s->updates.v[i].nidx; k++) visit_size(&v, s->updates.v[i].idx[k]);
  }
}
static void take_node(visit *v, ex e) { vec_push(v->a, *(u32vec *)v->env, e); }
void stage_nodes(emodule *m, uint32_t id, arena *a, u32vec *nodes) {
  const stage *s = xs(m, id);
  visit v = walk_marked(m, a, take_node, nodes);
  visit_value(&v, s->value);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    visit_value(&v, s->updates.v[i].value), visit_value(&v, s->updates.v[i].cond);
    for (uint32_t k = 0; k < s->updates.v[i].nidx; k++) visit_size(&v, s->updates.v[i].idx[k]);
  }
}
static void take_symbol(visit *v, ex e) {
  const ex_node *n = exn(v->m, e);
  bool *any = v->env;
  if (n->kind == EX_INDEX) *any |= sym_uses_kind(v->m->c, n->index, AT_SYMBOL);
  for (uint32_t i = 0; n->kind == EX_LOAD && i < n->nargs; i++) *any |= sym_uses_kind(v->m->c, n->args[i], AT_SYMBOL);
  for (uint32_t i = 0; n->kind == EX_REDUCE && i < n->nargs; i++)
    *any |= sym_uses_kind(v->m->c, sym_extent(v->m->c, n->args[i]), AT_SYMBOL);
}
bool expr_stage_uses_symbols(emodule *m, uint32_t id, arena *a) {
  const stage *s = xs(m, id);
  bool any = false;
  visit v = walk_marked(m, a, take_symbol, &any);
  visit_value(&v, s->value);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    visit_value(&v, u->value), visit_value(&v, u->cond);
    for (uint32_t k = 0; k < u->nidx; k++) visit_size(&v, u->idx[k]), any |= sym_uses_kind(m->c, u->idx[k], AT_SYMBOL);
    for (uint32_t k = 0; k < u->nvars; k++) any |= sym_uses_kind(m->c, sym_extent(m->c, u->vars[k]), AT_SYMBOL);
  }
  return any;
}
static void take_bound_var(visit *v, ex e) {
  const ex_node *n = exn(v->m, e);
  for (uint32_t i = 0; n->kind == EX_REDUCE && i < n->nargs; i++) vec_once(v->a, v->env, n->args[i]);
}
void expr_bound(emodule *m, ex e, arena *a, u32vec *vars) {
  visit v = walk_marked(m, a, take_bound_var, vars);
  visit_value(&v, e);
}
static void take_cost(visit *v, ex e) {
  const ex_node *n = exn(v->m, e);
  *(uint64_t *)v->env += n->kind == EX_OP       ? op_cost(n->op)
                         : n->kind == EX_LOAD   ? 1
                         : n->kind == EX_REDUCE ? red_is_arg(n->op) ? 2 : 1
                                                : 0;
}
uint64_t expr_cost(emodule *m, ex e) {
  arena *a = arena_new(m->c);
  uint64_t sum = 0;
  visit v = walk_marked(m, a, take_cost, &sum);
  visit_value(&v, e);
  arena_free(a);
  return sum;
}

/* ---- rewriting ------------------------------------------------------------------------------- */
typedef struct rewriter {
  emodule *m;      /* the module */
  arena *a;        /* scratch */
  const ex_map *f; /* what nodes and atoms become */
  map *memo;       /* ex -> ex */
  map *renamed;    /* bound atom -> sz, made when the reduction is met (parents first: prepare) */
} rewriter;

static ex rw_value(rewriter *r, ex e);
static sz rw_atom(ctx *c, void *env, atom a) {
  rewriter *r = env;
  uint64_t to;
  switch (sym_kind(c, a)) {
  case AT_VAR:
    if (map_getu(r->renamed, a, &to)) return (sz)to;
    return r->f->atom ? r->f->atom(r->f->env, r->m, a) : 0;
  case AT_SYMBOL:
    return r->f->atom ? r->f->atom(r->f->env, r->m, a) : 0;
  case AT_DATA: {
    ex e = sym_data_id(c, a), n = rw_value(r, e);
    return n == e ? 0 : expr_as_size(r->m, n);
  }
  default:
    return 0;
  }
}
static sz rw_size(rewriter *r, sz s) {
  if (!s || (!r->f->atom && !map_count(r->renamed) && !sym_uses_kind(r->m->c, s, AT_DATA))) return s;
  return sym_subst(r->m->c, s, rw_atom, r);
}

/* The variables of a replacement for a bound variable, outermost (largest coefficient) first. */
static void loop_vars(rewriter *r, sz s, u32vec *out) {
  ctx *c = r->m->c;
  u32vec vars = {0};
  sym_atoms(c, s, AT_VAR, r->a, &vars);
  for (uint32_t i = 1; i < vars.n; i++) { /* insertion sort: v goes before w if coef(v) - coef(w) > 0 */
    uint32_t v = vars.v[i], j = i;
    sz cv, cw, rest;
    for (; j > 0; j--) {
      if (!sym_linear(c, s, v, &cv, &rest) || !sym_linear(c, s, vars.v[j - 1], &cw, &rest) || !sym_lt(c, cw, cv)) break;
      vars.v[j] = vars.v[j - 1];
    }
    vars.v[j] = v;
  }
  for (uint32_t i = 0; i < vars.n; i++) vec_once(r->a, out, vars.v[i]);
}
/* Decides what becomes of every bound variable below e before anything is rebuilt. */
static void prepare(visit *v, ex e) {
  rewriter *r = v->env;
  const ex_node n = *exn(v->m, e);
  uint64_t x;
  if (n.kind != EX_REDUCE) return;
  for (uint32_t i = 0; i < n.nargs; i++) {
    atom b = n.args[i];
    if (map_getu(r->renamed, b, &x)) continue;
    sz to = r->f->atom ? r->f->atom(r->f->env, r->m, b) : 0;
    if (!to) {
      sz ext = sym_extent(r->m->c, b), now = rw_size(r, ext);
      if (now == ext) continue;
      to = sym_var(r->m->c, sym_name(r->m->c, b), now);
    }
    map_putu(r->renamed, b, to);
  }
}
static ex rw_rebuild(rewriter *r, ex e) {
  emodule *m = r->m;
  ex_node n = *exn(m, e);
  uint32_t buf[256];
  bool same = true;
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    return e;
  case EX_INDEX: {
    sz s = rw_size(r, n.index);
    return s == n.index ? e : expr_index(m, s);
  }
  case EX_LOAD: {
    for (uint32_t i = 0; i < n.nargs; i++) buf[i] = rw_size(r, n.args[i]), same &= buf[i] == n.args[i];
    ex o = n.otherwise ? rw_value(r, n.otherwise) : 0;
    return same && o == n.otherwise ? e : expr_load(m, n.tensor, buf, n.nargs, o);
  }
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) buf[i] = rw_value(r, n.args[i]), same &= buf[i] == n.args[i];
    return same ? e : expr_op(m, n.op, n.type, buf, n.nargs);
  case EX_REDUCE: {
    u32vec vars = {0};
    uint64_t to;
    for (uint32_t i = 0; i < n.nargs; i++) {
      if (map_getu(r->renamed, n.args[i], &to))
        loop_vars(r, (sz)to, &vars), same = false;
      else
        vec_push(r->a, vars, n.args[i]);
    }
    ex where = n.where ? rw_value(r, n.where) : 0, body = rw_value(r, n.body),
       payload = n.payload ? rw_value(r, n.payload) : 0;
    if (same && where == n.where && body == n.body && payload == n.payload) return e;
    /* an arg-reduction gives the first variable unless told otherwise: what that was must be kept when it is no
     * longer first */
    if (red_is_arg(n.op) && !n.payload && n.nargs && map_getu(r->renamed, n.args[0], &to)) {
      atom first;
      if (!sym_is_atom(m->c, (sz)to, &first) || !vars.n || vars.v[0] != first) payload = expr_index(m, (sz)to);
    }
    return expr_reduce(m, n.op, vars.v, vars.n, where, body, payload, n.acc, n.type);
  }
  }
  return e;
}
static ex rw_value(rewriter *r, ex e) {
  uint64_t to;
  if (map_getu(r->memo, e, &to)) return (ex)to;
  ex n = rw_rebuild(r, e);
  if (r->f->node) {
    ex p = r->f->node(r->f->env, r->m, n);
    if (p != n && exn(r->m, p)->type != exn(r->m, n)->type)
      ctx_bug(r->m->c, "expr: rewriting changed a type from %s to %s", et_name(exn(r->m, n)->type),
              et_name(exn(r->m, p)->type));
    n = p;
  }
  map_putu(r->memo, e, n);
  return n;
}
static rewriter rw_new(emodule *m, const ex_map *f) {
  arena *a = arena_new(m->c);
  return (rewriter){m, a, f, map_new(a), map_new(a)};
}
static ex rw_run(rewriter *r, map *seen, ex e) {
  if (!e) return 0;
  visit v = {r->m, r->a, seen, prepare, r, 0};
  visit_value(&v, e);
  return rw_value(r, e);
}
ex expr_rewrite(emodule *m, ex e, const ex_map *f) {
  rewriter r = rw_new(m, f);
  e = rw_run(&r, map_new(r.a), e);
  arena_free(r.a);
  return e;
}
void stage_rewrite(emodule *m, uint32_t s, const ex_map *f) {
  rewriter r = rw_new(m, f);
  map *seen = map_new(r.a);
  ex value = rw_run(&r, seen, xs(m, s)->value);
  xs(m, s)->value = value;
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) {
    update u = xs(m, s)->updates.v[i];
    sz *idx = NEWN(m->a, sz, u.nidx + 1);
    u.value = rw_run(&r, seen, u.value);
    u.cond = rw_run(&r, seen, u.cond);
    for (uint32_t k = 0; k < u.nidx; k++) {
      visit v = {m, r.a, seen, prepare, &r, 0};
      visit_size(&v, u.idx[k]);
      idx[k] = rw_size(&r, u.idx[k]);
    }
    u.idx = idx;
    u32vec vars = {0}; /* the loops of the update follow like a reduction's */
    for (uint32_t k = 0; k < u.nvars; k++) {
      sz to = f->atom ? f->atom(f->env, m, u.vars[k]) : 0;
      if (to)
        loop_vars(&r, to, &vars);
      else
        vec_push(r.a, vars, u.vars[k]);
    }
    u.vars = vars.n ? arena_dup(m->a, vars.v, vars.n * sizeof *vars.v) : NULL, u.nvars = vars.n;
    xs(m, s)->updates.v[i] = u;
  }
  arena_free(r.a);
}

/* ---- two common substitutions ---------------------------------------------------------------- */
typedef struct pairs {
  map *by; /* variable -> what stands for it */
} pairs;
static sz pair_of(void *env, emodule *m, atom a) {
  uint64_t to;
  (void)m;
  return map_getu(((pairs *)env)->by, a, &to) ? (sz)to : 0;
}
ex expr_subst_vars(emodule *m, ex e, const atom *vars, const sz *by, uint32_t n) {
  arena *a = arena_new(m->c);
  pairs p = {map_new(a)};
  for (uint32_t i = 0; i < n; i++) map_putu(p.by, vars[i], by[i]);
  ex r = expr_rewrite(m, e, &(ex_map){.atom = pair_of, .env = &p});
  arena_free(a);
  return r;
}
static void take_bound(visit *v, ex e) {
  const ex_node n = *exn(v->m, e);
  for (uint32_t i = 0; n.kind == EX_REDUCE && i < n.nargs; i++) {
    uint64_t x;
    if (!map_getu(v->env, n.args[i], &x))
      map_putu(v->env, n.args[i], sym_var(v->m->c, sym_name(v->m->c, n.args[i]), sym_extent(v->m->c, n.args[i])));
  }
}
ex expr_fresh(emodule *m, ex e) {
  arena *a = arena_new(m->c);
  pairs p = {map_new(a)};
  visit v = walk_marked(m, a, take_bound, p.by);
  visit_value(&v, e);
  ex r = map_count(p.by) ? expr_rewrite(m, e, &(ex_map){.atom = pair_of, .env = &p}) : e;
  arena_free(a);
  return r;
}

void expr_each_use(const emodule *m, void (*use)(void *env, tid t), void *env) {
  for (uint32_t i = 0; i < m->outputs.n; i++) use(env, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->lates.n; i++) use(env, m->lates.v[i].tensor);
  for (uint32_t i = 0; i < m->checks.n; i++) use(env, m->checks.v[i].at), use(env, m->checks.v[i].value);
  for (uint32_t i = 0; i < m->ifs.n; i++) {
    const xif *x = &m->ifs.v[i];
    use(env, x->cond);
    for (uint32_t k = 0; k < x->n; k++) use(env, x->then_vals[k]), use(env, x->else_vals[k]);
  }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    const xloop *x = &m->loops.v[i];
    use(env, x->trip_tensor), use(env, x->cond0), use(env, x->cond);
    for (uint32_t k = 0; k < x->ncarried; k++) use(env, x->init[k]), use(env, x->next[k]);
    for (uint32_t k = 0; k < x->ncollected; k++) use(env, x->slice[k]);
  }
}
