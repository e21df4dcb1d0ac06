/* How do branches and loops run backwards?
 *
 * Both are differentiated block by block: the block is cloned into a new one, the clone is differentiated like any
 * module (grad_block) with respect to the tensors it reads from outside, and what comes out leaves the clone as
 * results. The clone computes forward values again where the backward stages need
 * them: nothing but carried values is kept from the forward pass. if      the adjoints of
 * the results go into an `if` on the same condition; each branch gives the adjoints of what either branch reads
 * loop    of a known number of trips. The forward loop collects its carried values at the
 * beginning of every trip (a result more each). The backward loop runs u = 0 .., trip T-1-u of the forward one: the
 * clone of the body starts from the collected values; carried are the adjoints of the carried values, and one sum per
 * tensor that the body reads from outside What a loop carries may not change its shape, and the number of trips may not
 * depend on a condition: the collected values would have no shape.
 */
#include "grad/grad_in.h"
#include <string.h>

/* ---- cloning a block ------------------------------------------------------------------------- */
typedef struct cloning {
  gr *g;            /* differentiation */
  emodule *m;       /* the module */
  map *tids;        /* old tensor -> new */
  map *atoms;       /* old variable or counter -> sz */
  map *recurrences; /* old recurrence -> new */
} cloning;

static tid twin(cloning *k, tid t) {
  uint64_t n;
  return t && map_getu(k->tids, t, &n) ? (tid)n : t;
}
static sz size_of_atom(ctx *c, void *env, atom a) {
  uint64_t n;
  (void)c;
  return map_getu(((cloning *)env)->atoms, a, &n) ? (sz)n : 0;
}
static sz value_atom(void *env, emodule *m, atom a) { return size_of_atom(m->c, env, a); }
static ex value_node(void *env, emodule *m, ex e) {
  cloning *k = env;
  const ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || twin(k, n.tensor) == n.tensor) return e;
  return expr_load(m, twin(k, n.tensor), n.args, n.nargs, n.otherwise);
}
static sz clone_size(cloning *k, sz s) {
  if (!s) return 0;
  if (!sym_uses_kind(k->g->c, s, AT_DATA)) return sym_subst(k->g->c, s, size_of_atom, k);
  return expr_as_size(
      k->m, expr_rewrite(k->m, expr_index(k->m, s), &(ex_map){.node = value_node, .atom = value_atom, .env = k}));
}
static ex clone_value(cloning *k, ex e) {
  return e ? expr_rewrite(k->m, expr_fresh(k->m, e), &(ex_map){.node = value_node, .atom = value_atom, .env = k}) : 0;
}
static tid new_tensor(cloning *k, tid t) {
  emodule *m = k->m;
  const tensor x = *xt(m, t);
  sz shape[MAX_RANK];
  for (uint32_t i = 0; i < x.rank; i++) shape[i] = clone_size(k, x.shape[i]);
  tid n = expr_tensor(m, x.kind, x.type, shape, x.rank, x.name, x.origin);
  map_putu(k->tids, t, n);
  return n;
}
static atom new_var(cloning *k, atom v) {
  sz s = sym_var(k->g->c, sym_name(k->g->c, v), clone_size(k, sym_extent(k->g->c, v)));
  atom a = 0;
  map_putu(k->atoms, v, s);
  sym_is_atom(k->g->c, s, &a);
  return a;
}
static axis *clone_axes(cloning *k, const stage *x, uint32_t recurrence) {
  emodule *m = k->m;
  atom t = x->recurrence ? m->recurrences.v[x->recurrence].var : 0;
  axis *axes = NEWN(m->a, axis, x->naxes + 1);
  for (uint32_t i = 0; i < x->naxes; i++) {
    digit *d = NEWN(m->a, digit, x->axes[i].n + 1);
    uint32_t n = 0;
    for (uint32_t q = 0; q < x->axes[i].n; q++) {
      digit from = x->axes[i].d[q];
      d[n].extent = clone_size(k, from.extent);
      if (t && from.var == t) {
        d[n++].var = m->recurrences.v[recurrence].var;
        map_putu(k->atoms, t, sym_of_atom(k->g->c, m->recurrences.v[recurrence].var));
      } else if ((d[n].var = new_var(k, from.var)))
        n++;
    }
    axes[i] = (axis){n, d};
  }
  return axes;
}
static uint32_t clone_recurrence(cloning *k, uint32_t recurrence) {
  uint64_t n;
  if (!recurrence) return 0;
  if (map_getu(k->recurrences, recurrence, &n)) return (uint32_t)n;
  const struct recurrence from = k->m->recurrences.v[recurrence];
  struct recurrence to = {.extent = clone_size(k, from.extent)};
  sym_is_atom(k->g->c, sym_var(k->g->c, from.var ? sym_name(k->g->c, from.var) : "t", to.extent), &to.var);
  if (!from.var) to.var = 0;
  vec_push(k->m->a, k->m->recurrences, to);
  map_putu(k->recurrences, recurrence, k->m->recurrences.n - 1);
  return k->m->recurrences.n - 1;
}
static void clone_stage(cloning *k, uint32_t s, uint32_t block) {
  emodule *m = k->m;
  const stage x = *xs(m, s);
  uint32_t sc = clone_recurrence(k, x.recurrence);
  axis *axes = clone_axes(k, &x, sc);
  uint32_t n = expr_stage(m, block, twin(k, x.tensor), axes, x.naxes, clone_value(k, x.value));
  for (uint32_t i = 0; i < x.updates.n; i++) {
    update u = x.updates.v[i];
    atom *vars = NEWN(m->a, atom, u.nvars + 1);
    sz *idx = NEWN(m->a, sz, u.nidx + 1);
    uint32_t nv = 0;
    for (uint32_t q = 0; q < u.nvars; q++)
      if ((vars[nv] = new_var(k, u.vars[q]))) nv++;
    for (uint32_t q = 0; q < u.nidx; q++) idx[q] = clone_size(k, u.idx[q]);
    u.vars = vars, u.nvars = nv, u.idx = idx, u.value = clone_value(k, u.value), u.cond = clone_value(k, u.cond);
    vec_push(m->a, xs(m, n)->updates, u);
  }
  xs(m, n)->tiled = x.tiled, xs(m, n)->recurrence = sc, xs(m, n)->stop = x.stop, xs(m, n)->region = x.region;
}
static uint32_t new_block(gr *g, uint32_t parent) {
  vec_push(g->m->a, g->m->blocks, ((block){.parent = parent}));
  return g->m->blocks.n - 1;
}
static tid *twins(cloning *k, const tid *t, uint32_t n) {
  tid *r = NEWN(k->m->a, tid, n + 1);
  for (uint32_t i = 0; i < n; i++) r[i] = twin(k, t[i]);
  return r;
}
static tid *results(cloning *k, const tid *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (t[i]) new_tensor(k, t[i]);
  return twins(k, t, n);
}
static void clone_items(cloning *k, uint32_t from, uint32_t to);
static uint32_t clone_block(cloning *k, uint32_t from, uint32_t parent) {
  uint32_t b = new_block(k->g, parent);
  clone_items(k, from, b);
  return b;
}
static void clone_items(cloning *k, uint32_t from, uint32_t to) {
  emodule *m = k->m;
  uint32_t n = m->blocks.v[from].items.n;
  for (uint32_t i = 0; i < n; i++) {
    item it = m->blocks.v[from].items.v[i];
    if (it.kind == IT_STAGE && !xs(m, it.index)->dead) new_tensor(k, xs(m, it.index)->tensor);
  }
  for (uint32_t i = 0; i < n; i++) {
    item it = m->blocks.v[from].items.v[i];
    if (it.kind == IT_STAGE && !xs(m, it.index)->dead) clone_stage(k, it.index, to);
    if (it.kind == IT_IF) {
      xif f = m->ifs.v[it.index];
      f.cond = twin(k, f.cond), f.block = to;
      f.then_block = clone_block(k, f.then_block, to), f.else_block = clone_block(k, f.else_block, to);
      f.then_vals = twins(k, f.then_vals, f.n), f.else_vals = twins(k, f.else_vals, f.n),
      f.results = results(k, f.results, f.n);
      vec_push(m->a, m->ifs, f);
      vec_push(m->a, m->blocks.v[to].items, ((item){IT_IF, m->ifs.n - 1}));
    }
    if (it.kind == IT_LOOP) {
      xloop l = m->loops.v[it.index];
      l.trips = clone_size(k, l.trips), l.trip_tensor = twin(k, l.trip_tensor), l.cond0 = twin(k, l.cond0),
      l.block = to;
      if (l.counter) {
        int64_t lo, hi;
        sz c = sym_of_atom(k->g->c, l.counter);
        sym_range(k->g->c, c, &lo, &hi);
        c = sym_fresh(k->g->c, sym_name(k->g->c, l.counter), lo, hi);
        map_putu(k->atoms, l.counter, c);
        sym_is_atom(k->g->c, c, &l.counter);
      }
      l.init = twins(k, l.init, l.ncarried), l.inner = results(k, l.inner, l.ncarried);
      l.body = clone_block(k, l.body, to);
      l.next = twins(k, l.next, l.ncarried), l.cond = twin(k, l.cond), l.slice = twins(k, l.slice, l.ncollected);
      l.final = results(k, l.final, l.ncarried), l.collected = results(k, l.collected, l.ncollected);
      vec_push(m->a, m->loops, l);
      vec_push(m->a, m->blocks.v[to].items, ((item){IT_LOOP, m->loops.n - 1}));
    }
  }
}
/* Calls with stated gradients inside come along. */
static void clone_stated(cloning *k) {
  emodule *m = k->m;
  uint32_t n = m->stated.n;
  for (uint32_t i = 0; i < n; i++) {
    stated_call s = m->stated.v[i];
    bool mine = false;
    for (uint32_t q = 0; q < s.nouts; q++) mine |= twin(k, s.outs[q]) != s.outs[q];
    if (!mine) continue;
    s.args = twins(k, s.args, s.nargs), s.outs = twins(k, s.outs, s.nouts);
    vec_push(m->a, m->stated, s);
  }
}
static cloning cloner(gr *g) { return (cloning){g, g->m, map_new(g->a), map_new(g->a), map_new(g->a)}; }

/* ---- what a block reads from outside --------------------------------------------------------- */
static void take_read(gr *g, tid t, u32vec *out) {
  if (t && t < g->ntensors && g->active[t] && !vec_has(out, t)) vec_push(g->a, *out, t);
}
/* Active tensors of this block that the blocks inside read. */
static void captured(gr *g, uint32_t blk, u32vec *out) {
  emodule *m = g->m;
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_STAGE && !xs(m, it.index)->dead) {
      u32vec l = {0};
      grad_stage_reads(g, it.index, &l);
      for (uint32_t k = 0; k < l.n; k++) take_read(g, exn(m, l.v[k])->tensor, out);
    } else if (it.kind == IT_IF)
      grad_captured(g, it, out);
    else if (it.kind == IT_LOOP)
      grad_captured(g, it, out);
  }
}
void grad_captured(gr *g, item it, u32vec *out) {
  emodule *m = g->m;
  if (it.kind == IT_IF) {
    const xif f = m->ifs.v[it.index];
    captured(g, f.then_block, out), captured(g, f.else_block, out);
    for (uint32_t i = 0; i < f.n; i++) take_read(g, f.then_vals[i], out), take_read(g, f.else_vals[i], out);
  } else {
    const xloop l = m->loops.v[it.index];
    captured(g, l.body, out);
    for (uint32_t i = 0; i < l.ncarried; i++) take_read(g, l.init[i], out), take_read(g, l.next[i], out);
    for (uint32_t i = 0; i < l.ncollected; i++) take_read(g, l.slice[i], out);
  }
}

/* ---- small stages ---------------------------------------------------------------------------- */
/* A stage in `block` over the space of x: a copy of `from` (at index `at` of a first axis more, if that is given),
 * plus `plus`; from 0: zeros. */
static tid copy_in(gr *g, uint32_t block, tid x, tid from, sz at, tid plus, const char *name) {
  emodule *m = g->m;
  const tensor t = *xt(m, x);
  axis axes[MAX_RANK];
  sz idx[MAX_RANK + 1];
  idx[0] = at;
  for (uint32_t i = 0; i < t.rank; i++) axes[i] = expr_axis1(m, arena_fmt(m->a, "i%u", i), t.shape[i], &idx[i + 1]);
  tid r = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, name, t.origin);
  ex v = !from ? expr_f(m, t.type, 0)
         : at  ? expr_load(m, from, idx, t.rank + 1, 0)
               : expr_load(m, from, idx + 1, t.rank, 0);
  if (plus) v = expr_op2(m, OP_ADD, v, expr_load(m, plus, idx + 1, t.rank, 0));
  expr_stage(m, block, r, axes, t.rank, v);
  return r;
}
static tid result(gr *g, tid like, const char *name) {
  const tensor t = *xt(g->m, like);
  return expr_tensor(g->m, TK_RESULT, t.type, t.shape, t.rank, name, t.origin);
}
/* The clone's adjoints with respect to wrt. */
static void differentiate(gr *g, uint32_t block, const tid *outs, const tid *seeds, uint32_t n, const u32vec *wrt,
                          tid *adjoints) {
  grad_block(g, block, outs, seeds, n, wrt->v, wrt->n, adjoints);
}
static tid adjoint_of(gr *g, tid t) {
  if (!t || t >= g->ntensors || !g->active[t]) return 0;
  grad_finish_tensor(g, t);
  return g->adj[t];
}

/* ---- if -------------------------------------------------------------------------------------- */
void grad_if(gr *g, uint32_t index) {
  emodule *m = g->m;
  const xif f = m->ifs.v[index];
  tid *adj = NEWN(g->a, tid, f.n + 1);
  bool any = false;
  for (uint32_t i = 0; i < f.n; i++) any |= (adj[i] = adjoint_of(g, f.results[i])) != 0;
  u32vec wrt = {0};
  grad_captured(g, (item){IT_IF, index}, &wrt);
  if (!any || !wrt.n) return;
  xif b = {.cond = f.cond, .block = g->block, .origin = f.origin, .n = wrt.n};
  b.results = NEWN(m->a, tid, wrt.n), b.then_vals = NEWN(m->a, tid, wrt.n), b.else_vals = NEWN(m->a, tid, wrt.n);
  for (int side = 0; side < 2; side++) {
    cloning k = cloner(g);
    uint32_t blk = clone_block(&k, side || EK_PLANTED("grad-if") ? f.else_block : f.then_block, g->block), n = 0;
    const tid *vals = side ? f.else_vals : f.then_vals;
    clone_stated(&k);
    tid *outs = NEWN(g->a, tid, f.n + 1), *seeds = NEWN(g->a, tid, f.n + 1), *got = side ? b.else_vals : b.then_vals;
    for (uint32_t i = 0; i < f.n; i++)
      if (adj[i]) outs[n] = twin(&k, vals[i]), seeds[n++] = adj[i];
    differentiate(g, blk, outs, seeds, n, &wrt, got);
    for (uint32_t i = 0; i < wrt.n; i++) got[i] = copy_in(g, blk, wrt.v[i], got[i], 0, 0, grad_name(g, wrt.v[i]));
    if (side)
      b.else_block = blk;
    else
      b.then_block = blk;
  }
  for (uint32_t i = 0; i < wrt.n; i++)
    b.results[i] = result(g, wrt.v[i], arena_fmt(g->a, "%s.if", grad_name(g, wrt.v[i])));
  vec_push(m->a, m->ifs, b);
  vec_push(m->a, m->blocks.v[g->block].items, ((item){IT_IF, m->ifs.n - 1}));
  for (uint32_t i = 0; i < wrt.n; i++) grad_add(g, wrt.v[i], b.results[i]);
}

/* ---- loop ------------------------------------------------------------------------------------ */
static bool has_tid(const tid *t, uint32_t n, tid x) {
  for (uint32_t i = 0; i < n; i++)
    if (t[i] == x) return true;
  return false;
}
static bool made_in(const emodule *m, uint32_t blk, tid t);
static bool made_by_loop(const emodule *m, const xloop *l, tid t) {
  return has_tid(l->inner, l->ncarried, t) || made_in(m, l->body, t);
}
/* t is computed by the block or by one inside it. */
static bool made_in(const emodule *m, uint32_t blk, tid t) {
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    const item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_STAGE && m->stages.v[it.index].tensor == t) return true;
    if (it.kind == IT_IF) {
      const xif *f = &m->ifs.v[it.index];
      if (has_tid(f->results, f->n, t) || made_in(m, f->then_block, t) || made_in(m, f->else_block, t)) return true;
    }
    if (it.kind == IT_LOOP) {
      const xloop *l = &m->loops.v[it.index];
      if (has_tid(l->final, l->ncarried, t) || has_tid(l->collected, l->ncollected, t) || made_by_loop(m, l, t))
        return true;
    }
  }
  return false;
}
/* The size is another one in each trip: it hangs on the counter, or on what a trip computes. */
static bool changes(gr *g, const xloop *l, sz s) {
  const emodule *m = g->m;
  if (l->counter && sym_uses(g->c, s, l->counter)) return true;
  for (uint32_t i = 0; i < m->lates.n; i++)
    if (sym_uses(g->c, s, m->lates.v[i].symbol) && made_by_loop(m, l, m->lates.v[i].tensor)) return true;
  return false;
}
static bool late_inside(gr *g, const xloop *l) { /* Does a trip compute sizes? */
  for (uint32_t i = 0; i < g->m->lates.n; i++)
    if (made_by_loop(g->m, l, g->m->lates.v[i].tensor)) return true;
  return false;
}
static void refuse_loop(gr *g, const xloop *l) {
  emodule *m = g->m;
  if (!l->trips || l->trip_tensor || l->cond || l->cond0)
    grad_refuse(g, l->origin, "a loop whose number of trips depends on data (give it a fixed number of trips)");
  for (uint32_t i = 0; i < l->ncarried; i++) {
    const tensor t = *xt(m, l->inner[i]);
    for (uint32_t d = 0; d < t.rank; d++)
      if (changes(g, l, t.shape[d]))
        grad_refuse(g, l->origin,
                    "a loop that carries %s, whose size changes from trip to trip (carry it at its largest size, or "
                    "collect what each trip adds)",
                    t.name);
    if (t.rank + 1 >= MAX_RANK)
      grad_refuse(g, l->origin, "a loop that carries %s of rank %u (at most %d)", t.name, t.rank, MAX_RANK - 2);
  }
  if (late_inside(g, l)) grad_refuse(g, l->origin, "a loop in which sizes are computed (compute them before the loop)");
}
/* The forward loop collects what it carries; all[i]: the values at the beginning of each trip. */
static void keep_carried(gr *g, uint32_t index, tid *all) {
  emodule *m = g->m;
  const xloop l = m->loops.v[index];
  uint32_t n = l.ncollected;
  tid *slice = NEWN(m->a, tid, n + l.ncarried + 1), *collected = NEWN(m->a, tid, n + l.ncarried + 1);
  for (uint32_t i = 0; i < n; i++) slice[i] = l.slice[i], collected[i] = l.collected[i];
  for (uint32_t i = 0; i < l.ncarried; i++, n++) {
    const tensor t = *xt(m, l.inner[i]);
    sz shape[MAX_RANK + 1];
    shape[0] = l.trips;
    for (uint32_t d = 0; d < t.rank; d++) shape[d + 1] = t.shape[d];
    slice[n] = copy_in(g, l.body, l.inner[i], l.inner[i], 0, 0, arena_fmt(g->a, "%s.kept", t.name));
    collected[n] = all[i] =
        expr_tensor(m, TK_RESULT, t.type, shape, t.rank + 1, arena_fmt(g->a, "%s.all", t.name), t.origin);
  }
  m->loops.v[index].slice = slice, m->loops.v[index].collected = collected, m->loops.v[index].ncollected = n;
}
void grad_loop(gr *g, uint32_t index) {
  emodule *m = g->m;
  ctx *c = g->c;
  const xloop l = m->loops.v[index];
  uint32_t nk = 0, n = 0;
  tid *fin = NEWN(g->a, tid, l.ncarried + 1), *col = NEWN(g->a, tid, l.ncollected + 1),
      *all = NEWN(g->a, tid, l.ncarried + 1);
  bool any = false;
  for (uint32_t i = 0; i < l.ncarried; i++) any |= (fin[i] = adjoint_of(g, l.final[i])) != 0;
  for (uint32_t i = 0; i < l.ncollected; i++) any |= (col[i] = adjoint_of(g, l.collected[i])) != 0;
  u32vec wrt = {0};
  grad_captured(g, (item){IT_LOOP, index}, &wrt);
  if (!any || !wrt.n) return;
  refuse_loop(g, &l);
  keep_carried(g, index, all);
  /* the carried floats and the sums, in one list: first what the body sees of them, then their adjoints */
  int64_t lo, hi;
  sym_range(c, l.trips, &lo, &hi);
  sz u = sym_fresh(c, "back", 0, hi == SYM_INF ? 1000000000 : max64(hi - 1, 0)),
     t = sym_sub(c, sym_addi(c, l.trips, -1), u);
  uint32_t blk = new_block(g, g->block);
  xloop b = {.trips = l.trips, .body = blk, .block = g->block, .origin = l.origin};
  sym_is_atom(c, u, &b.counter);
  cloning k = cloner(g);
  if (l.counter) map_putu(k.atoms, l.counter, t);
  u32vec at = {0}; /* what is differentiated by: carried floats, then the captured ones */
  uint32_t *carried = NEWN(g->a, uint32_t, l.ncarried + 1);
  for (uint32_t i = 0; i < l.ncarried; i++) {
    tid x = copy_in(g, blk, l.inner[i], all[i], t, 0, xt(m, l.inner[i])->name);
    map_putu(k.tids, l.inner[i], x);
    if (et_kind(xt(m, x)->type) != K_FLOAT) continue;
    carried[nk++] = i;
    vec_push(g->a, at, x);
  }
  for (uint32_t i = 0; i < wrt.n; i++) vec_push(g->a, at, wrt.v[i]);
  clone_items(&k, l.body, blk);
  clone_stated(&k);
  b.ncarried = at.n;
  b.init = NEWN(m->a, tid, at.n + 1), b.inner = NEWN(m->a, tid, at.n + 1), b.next = NEWN(m->a, tid, at.n + 1),
  b.final = NEWN(m->a, tid, at.n + 1);
  tid *outs = NEWN(g->a, tid, nk + l.ncollected + 1), *seeds = NEWN(g->a, tid, nk + l.ncollected + 1),
      *got = NEWN(g->a, tid, at.n + 1);
  for (uint32_t i = 0; i < at.n; i++) {
    tid like = i < nk ? l.inner[carried[i]] : at.v[i];
    const char *name = grad_name(g, like);
    b.init[i] = i < nk && fin[carried[i]] ? fin[carried[i]]
                                          : copy_in(g, g->block, like, 0, 0, 0, arena_fmt(g->a, "%s.none", name));
    b.inner[i] = result(g, like, arena_fmt(g->a, "%s.trip", name)),
    b.final[i] = result(g, like, arena_fmt(g->a, "%s.loop", name));
    if (i < nk) outs[n] = twin(&k, l.next[carried[i]]), seeds[n++] = b.inner[i];
  }
  for (uint32_t i = 0; i < l.ncollected; i++) {
    if (!col[i]) continue;
    tid s = twin(&k, l.slice[i]);
    outs[n] = s, seeds[n++] = copy_in(g, blk, s, col[i], t, 0, grad_name(g, l.slice[i]));
  }
  differentiate(g, blk, outs, seeds, n, &at, got);
  for (uint32_t i = 0; i < at.n; i++)
    b.next[i] = copy_in(g, blk, at.v[i], got[i], 0, i < nk || EK_PLANTED("grad-loop") ? 0 : b.inner[i],
                        arena_fmt(g->a, "%s.next", grad_name(g, at.v[i])));
  vec_push(m->a, m->loops, b);
  vec_push(m->a, m->blocks.v[g->block].items, ((item){IT_LOOP, m->loops.n - 1}));
  for (uint32_t i = 0; i < nk; i++) grad_add(g, l.init[carried[i]], b.final[i]);
  for (uint32_t i = nk; i < at.n; i++) grad_add(g, at.v[i], b.final[i]);
}
