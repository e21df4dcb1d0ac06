/* May a stage join a kernel it reads from, and does it pay?
 *
 * Legality: for every access of the stage to a member, the digits of the member at the access are computed; a digit
 * that is exactly one variable of the stage names the same loop, any other digit's loop is no longer shared (it leaves
 * `outer`). Refused: guarded reads, digits that cannot be separated, one variable named twice, nothing shared, a
 * dependence that goes out of the kernel and comes back. Benefit, with sizes in front of it: behind a heavy kernel only
 * element-wise work over its own index space (a few interleaved digits may be lost); behind a light one anything whose
 * private part stays in cache.
 */
#include "fusion/fuse.h"

enum { INTERLEAVED = 8 };

joint fuse_try(fuser *f, uint32_t s, uint32_t k) {
  emodule *m = f->m;
  ctx *c = f->c;
  joint j = {.identity = true};
  const fnode *n = &f->k.v[k];
  u32vec vars = {0}, bad = {0};
  stage_vars(m, s, f->a, &vars);
  j.n = vars.n;
  j.var = vars.v;
  j.to = NEWN(f->a, atom, vars.n + 1);
  const u32vec *l = stage_loads(f->p, s);
  for (uint32_t i = 0; i < l->n; i++) {
    ex_node ld = *exn(m, l->v[i]);
    uint32_t q = producer_of(m, ld.tensor);
    if (!q || xs(m, q - 1)->block != f->block || f->where[q - 1] != k + 1) continue;
    if (ld.otherwise) {
      j.why = "guarded read";
      return j;
    }
    const stage *x = xs(m, q - 1);
    uint32_t nd = expr_ndigits(x);
    digit *d = NEWN(f->a, digit, nd + 1);
    sz *by = NEWN(f->a, sz, nd + 1);
    expr_digits(x, d);
    if (!expr_comps(m, q - 1, ld.args, by, NULL, NULL)) {
      j.why = "digits";
      return j;
    }
    for (uint32_t a = 0; a < nd; a++) {
      atom v = 0, cv = fuse_canon(f, d[a].var);
      uint32_t at = vars.n;
      if (sym_is_atom(c, by[a], &v))
        for (at = 0; at < vars.n && vars.v[at] != v; at++) {}
      if (at < vars.n && (!j.to[at] || j.to[at] == cv) && sym_eq(c, sym_extent(c, v), d[a].extent))
        j.to[at] = cv;
      else {
        vec_push(f->a, bad, cv);
        j.identity = false;
      }
    }
  }
  u32vec used = {0};
  for (uint32_t i = 0; i < vars.n; i++)
    if (j.to[i]) {
      j.mapped++;
      if (vec_has(&used, j.to[i]) && !EK_PLANTED("kernels-join")) {
        j.why = "one loop named by two variables";
        return j;
      }
      vec_push(f->a, used, j.to[i]);
    }
  if (!j.mapped && n->outer.n) {
    j.why = "no common index";
    return j;
  }
  for (uint32_t i = 0; i < vars.n; i++)
    if (!j.to[i]) j.to[i] = vars.v[i];
  for (uint32_t i = 0; i < n->outer.n; i++)
    if (!vec_has(&bad, n->outer.v[i]) && vec_has(&used, n->outer.v[i])) vec_push(f->a, j.outer, n->outer.v[i]);
  j.ok = true;
  return j;
}

/* Points of `outer` that are computed at once where s, whose variables var[0..n-1] are called `to`, belongs to it. */
static int64_t points_at_once(fuser *f, uint32_t s, const u32vec *outer, const atom *var, const atom *to, uint32_t n) {
  const atom v = s < f->nlane ? f->lane[s] : 0;
  atom shared = fuse_canon(f, v);
  for (uint32_t i = 0; i < n; i++)
    if (var[i] == v) shared = to[i];
  return v && vec_has(outer, shared) ? expr_lane_points(f->p, v) : 1;
}
/* bytes of a stage's values that belong to these points */
static int64_t private_bytes(fuser *f, uint32_t s, const u32vec *outer, const atom *var, const atom *to, uint32_t n) {
  u32vec vars = {0}, mine = {0};
  stage_vars(f->m, s, f->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++) {
    atom cv = fuse_canon(f, vars.v[i]);
    for (uint32_t k = 0; k < n; k++)
      if (var[k] == vars.v[i]) cv = to[k];
    if (!vec_has(outer, cv)) vec_push(f->a, mine, vars.v[i]);
  }
  return sat_mul64(fuse_bytes(f, s, &mine), points_at_once(f, s, outer, var, to, n));
}
static bool cyclic(fuser *f, const u32vec *deps, uint32_t k) { /* would k come to depend on itself? */
  for (uint32_t i = 0; i < deps->n; i++)
    if (deps->v[i] != k && depends(f, deps->v[i], k)) return !EK_PLANTED("kernels");
  return false;
}
/* Would k wait for something that it does not wait for by itself? */
static bool waits_for_more(fuser *f, const u32vec *deps, uint32_t k) {
  for (uint32_t i = 0; i < deps->n; i++)
    if (deps->v[i] != k && !depends(f, k, deps->v[i])) return !EK_PLANTED("kernels-waiting");
  return false;
}
static bool reads_member(fuser *f, uint32_t s, uint32_t k) {
  const u32vec *l = stage_loads(f->p, s);
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t q = producer_of(f->m, exn(f->m, l->v[i])->tensor);
    if (q && xs(f->m, q - 1)->block == f->block && f->where[q - 1] == k + 1) return true;
  }
  return false;
}
static bool late_reads(fuser *f, uint32_t s, uint32_t k) { /* k computes a size of s, or of what it is stored in */
  if (s < f->nwhere && f->placed[s] && late_reads(f, f->placed[s] - 1, k)) return true;
  uint64_t t;
  const stage *x = xs(f->m, s);
  u32vec at = {0};
  if (!map_count(f->p->lates)) return false;
  for (uint32_t i = 0; i < x->naxes; i++) sym_atoms(f->c, xt(f->m, x->tensor)->shape[i], AT_SYMBOL, f->a, &at);
  const u32vec *l = stage_loads(f->p, s);
  for (uint32_t i = 0; i < l->n; i++) {
    ex_node n = *exn(f->m, l->v[i]);
    for (uint32_t d = 0; d < n.nargs; d++)
      sym_atoms(f->c, n.args[d], AT_SYMBOL, f->a, &at),
          sym_atoms(f->c, xt(f->m, n.tensor)->shape[d], AT_SYMBOL, f->a, &at);
  }
  if (x->value && exn(f->m, x->value)->kind == EX_REDUCE) {
    ex_node n = *exn(f->m, x->value);
    for (uint32_t i = 0; i < n.nargs; i++) sym_atoms(f->c, sym_extent(f->c, n.args[i]), AT_SYMBOL, f->a, &at);
  }
  fuse_symbols(f, s, &at);
  for (uint32_t i = 0; i < at.n; i++)
    if (map_getu(f->p->lates, at.v[i], &t)) {
      uint32_t q = producer_of(f->m, (tid)t);
      if (q && f->where[q - 1] == k + 1) return !EK_PLANTED("kernels-late");
    }
  return false;
}

/* operations of a reduction, or stores, all points together */
static int64_t stage_work(fuser *f, uint32_t s) {
  const int64_t points = expr_typical(f->m, stage_points(f->m, s));
  if (!stage_is_reduce(f->p, s)) return points;
  const ex_node r = *exn(f->m, xs(f->m, s)->value);
  u32vec vs = {(uint32_t *)(uintptr_t)r.args, r.nargs, r.nargs};
  return sat_mul64(points, fuse_extent(f, &vs));
}
static int64_t kernel_work(fuser *f, const fnode *n) {
  int64_t work = 0;
  for (uint32_t i = 0; i < n->st.n; i++)
    if (!add64(work, stage_work(f, n->st.v[i]), &work)) return INT64_MAX;
  return work;
}
static bool loses_parallelism(fuser *f, const fnode *n, const u32vec *outer) {
  return fuse_extent(f, outer) == 1 && n->outer.n &&
         cost_serial_too_long(f->p->t, fuse_extent(f, &n->outer), kernel_work(f, n));
}
/* Would so much work at so many points be left with a few blocks of `outer`, so many points of which are computed at
 * once? */
static bool in_few_blocks(fuser *f, const u32vec *outer, int64_t at_once, int64_t points, int64_t work) {
  const int64_t blocks = fuse_extent(f, outer) / at_once;
  return at_once > 1 && points / at_once > blocks && !cost_enough_blocks(blocks) &&
         cost_serial_too_long(f->p->t, points, work);
}
/* Does the stage, or the kernel that it joins, lose points that threads divide, since columns run along the lanes? */
static bool loses_blocks(fuser *f, uint32_t s, const fnode *n, const joint *j) {
  const int64_t points = expr_typical(f->m, stage_points(f->m, s));
  int64_t at_once = points_at_once(f, s, &j->outer, j->var, j->to, j->n);
  if (in_few_blocks(f, &j->outer, at_once, points, stage_work(f, s))) return true;
  for (uint32_t i = 0; i < n->st.n; i++)
    at_once = max64(at_once, points_at_once(f, n->st.v[i], &j->outer, NULL, NULL, 0));
  return in_few_blocks(f, &j->outer, at_once, fuse_extent(f, &n->outer), kernel_work(f, n));
}
/* Is one of these variables a batch of the leading product? Neither operand's elements would serve more than one of
 * the tiles that stay in registers together. */
static bool several_products(fuser *f, const fnode *n, const u32vec *gone) {
  roles r;
  bool any = false;
  if (!gone->n || n->cls != KC_CONTRACTION || !expr_roles(f->m, n->st.v[0], f->a, &r)) return false;
  for (uint32_t i = 0; i < r.batch.n; i++) any |= vec_has(gone, fuse_canon(f, r.batch.v[i]));
  return any;
}
/* ---- benefit: NULL if joining pays, else why not --------------------------------------------- */
static const char *remark_heavy(fuser *f, kernel_class c, const fnode *n, const joint *j) {
  u32vec gone = {0};
  if (!(c == KC_ELEMENTWISE || c == KC_GATHER || c == KC_COPY)) return "reduction after a heavy kernel";
  for (uint32_t i = 0; i < n->outer.n; i++)
    if (!vec_has(&j->outer, n->outer.v[i])) vec_push(f->a, gone, n->outer.v[i]);
  if (fuse_extent(f, &gone) > INTERLEAVED || (!j->outer.n && n->outer.n) || several_products(f, n, &gone))
    return "needs more than one tile of a heavy kernel";
  if (j->n > j->mapped) return "expands the tile";
  return NULL;
}
/* Does s look places up along the last axis of what k computes element by element, over many points of what they
 * share? Apart, what is shared runs along the lanes, in an order that suits it. */
static bool looks_along(fuser *f, uint32_t s, uint32_t k, const joint *j) {
  const u32vec *l = stage_loads(f->p, s);
  if (f->k.v[k].cls == KC_ROW || !cost_looks_up_alone(fuse_extent(f, &j->outer))) return false;
  for (uint32_t i = 0; i < l->n; i++) {
    const ex_node *n = exn(f->m, l->v[i]);
    uint32_t q = producer_of(f->m, n->tensor);
    if (q && xs(f->m, q - 1)->block == f->block && f->where[q - 1] == k + 1 && n->nargs &&
        sym_uses_kind(f->c, n->args[n->nargs - 1], AT_DATA))
      return true;
  }
  return false;
}
static const char *remark_light(fuser *f, uint32_t s, kernel_class c, const fnode *n, const joint *j) {
  if (n->cls != KC_ROW && c != KC_ROW && j->identity && j->outer.n == n->outer.n) return NULL;
  if (looks_along(f, s, (uint32_t)(n - f->k.v), j)) return "looks values up along its lanes";
  int64_t loc = private_bytes(f, s, &j->outer, j->var, j->to, j->n);
  for (uint32_t i = 0; i < n->st.n; i++) loc = max64(loc, private_bytes(f, n->st.v[i], &j->outer, NULL, NULL, 0));
  if (loc > (int64_t)f->p->cache_bytes) return "row larger than cache";
  if (loses_parallelism(f, n, &j->outer)) return "loses all parallelism";
  if (loses_blocks(f, s, n, j)) return "few blocks of columns";
  return NULL;
}

/* k reads q: would merging them put something between them that needs q and is needed by k? */
static bool between(fuser *f, uint32_t k, uint32_t q) {
  if (depends(f, q, k)) return true;
  for (uint32_t w = 0; w < f->words; w++)
    for (uint64_t left = f->k.v[k].anc[w]; left; left &= left - 1) {
      uint32_t d = bitset_first(left, w);
      if (d != q && d != k && f->k.v[d].alive && depends(f, d, q)) return true;
    }
  return false;
}
/* ---- two products into one accumulator: another contraction over the same tile, read by s only, added to the first
 * ---- */
typedef struct seeker {
  emodule *m; /* the module */
  ex l;       /* load that is looked for */
  map *memo;  /* ex -> whether l occurs in it */
} seeker;
static bool occurs(seeker *k, ex e) {
  uint64_t x;
  if (e == k->l) return true;
  if (map_getu(k->memo, e, &x)) return x;
  ex_node n = *exn(k->m, e);
  bool r = false;
  for (uint32_t i = 0; n.kind == EX_OP && i < n.nargs; i++) r |= occurs(k, n.args[i]);
  map_putu(k->memo, e, r);
  return r;
}
static bool is_term(seeker *k, ex e) { /* e = l + something without l */
  ex_node n = *exn(k->m, e);
  if (e == k->l) return true;
  if (n.kind != EX_OP || (n.op != OP_ADD && n.op != OP_SUB)) return false;
  bool a = occurs(k, n.args[0]), b = occurs(k, n.args[1]);
  if (a && b) return false;
  return a ? is_term(k, n.args[0]) : b && n.op == OP_ADD && is_term(k, n.args[1]);
}
static bool added(seeker *k1, seeker *k2, ex e) { /* somewhere in e: l1 + l2 + ..., and nowhere else */
  ex_node n = *exn(k1->m, e);
  if (n.kind != EX_OP) return false;
  uint32_t both = 0;
  ex next = 0;
  for (uint32_t i = 0; i < n.nargs; i++) {
    bool a = occurs(k1, n.args[i]), b = occurs(k2, n.args[i]);
    if (a && b)
      next = n.args[i], both++;
    else if ((a || b) && n.op != OP_ADD && n.op != OP_SUB)
      return false;
  }
  if (both == 1) {
    for (uint32_t i = 0; i < n.nargs; i++)
      if (n.args[i] != next && (occurs(k1, n.args[i]) || occurs(k2, n.args[i]))) return false;
    return added(k1, k2, next);
  }
  return !both && is_term(k1, e) && is_term(k2, e);
}
static ex single_load(fuser *f, uint32_t s, tid t) {
  const u32vec *l = stage_loads(f->p, s);
  ex one = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (exn(f->m, l->v[i])->tensor == t) {
      if (one) return 0;
      one = l->v[i];
    }
  return one;
}
static void two_products(fuser *f, uint32_t s, uint32_t k, const u32vec *deps) {
  emodule *m = f->m;
  uint32_t lead = f->k.v[k].st.v[0];
  ex l1 = single_load(f, s, xs(m, lead)->tensor);
  /* the kernel holds the first product and s alone */
  if ((f->k.v[k].cls != KC_CONTRACTION && f->k.v[k].cls != KC_MATVEC) || !l1 || f->k.v[k].st.n != 2) return;
  for (uint32_t i = 0; i < deps->n; i++) {
    uint32_t q = deps->v[i];
    const fnode *n = &f->k.v[q];
    if (q == k || !n->alive || n->cls != f->k.v[k].cls || n->st.n != 1) continue;
    uint32_t o = n->st.v[0];
    tid t = xs(m, o)->tensor;
    if (f->p->readers.v[t].n != 1 || f->p->pinned.v[t] || f->placed[o] ||
        xt(m, t)->type != xt(m, xs(m, lead)->tensor)->type)
      continue;
    ex l2 = single_load(f, s, t);
    seeker k1 = {m, l1, map_new(f->a)}, k2 = {m, l2, map_new(f->a)};
    if (!l2 || !added(&k1, &k2, xs(m, s)->value)) continue;
    joint j = fuse_try(f, s, q);
    if (!j.ok || !j.identity || j.mapped != j.n) continue;
    if (between(f, k, q)) {
      pass_remark(f->p, "kernels", o, lead + 1, "cycle");
      continue;
    }
    if (!pass_spend(f->p)) return;
    u32vec ov = {0};
    stage_vars(m, o, f->a, &ov);
    for (uint32_t a = 0; a < ov.n; a++) /* q's variable is the canonical one of s's variable that reads it */
      for (uint32_t b = 0; b < j.n; b++)
        if (j.to[b] == fuse_canon(f, ov.v[a])) {
          map_putu(f->canon, ov.v[a], fuse_canon(f, j.var[b]));
          break;
        }
    fuse_merge(f, k, q);
    fuse_note(f, k, "two products");
    return;
  }
}
/* Do the members of k (but s) read q's only at equal values of the variables that will be shared? tr: q's canonical
 * variable -> k's */
static bool reads_locally(fuser *f, uint32_t k, uint32_t q, uint32_t s, const map *tr, const u32vec *shared) {
  if (!shared->n) return true; /* one point: everything is local */
  for (uint32_t i = 0; i < f->k.v[k].st.n; i++) {
    uint32_t z = f->k.v[k].st.v[i];
    if (z == s || !reads_member(f, z, q)) continue;
    joint j = fuse_try(f, z, q);
    if (!j.ok) return false;
    uint32_t hits = 0;
    for (uint32_t a = 0; a < j.n; a++) {
      uint64_t x;
      if (vec_has(&j.outer, j.to[a]) && map_getu(tr, j.to[a], &x) && vec_has(shared, (uint32_t)x)) {
        if (fuse_canon(f, j.var[a]) != (atom)x) return false;
        hits++;
      }
    }
    if (hits != shared->n) return false;
  }
  return true;
}
/* Does a stage of kernel k need a size that kernel q computes? It is known only when q has ended. */
static bool needs_sizes(fuser *f, uint32_t k, uint32_t q) {
  for (uint32_t i = 0; i < f->k.v[k].st.n; i++)
    if (late_reads(f, f->k.v[k].st.v[i], q)) return true;
  return false;
}
/* ---- sibling kernels read by s over the same outer variables --------------------------------- */
static void siblings(fuser *f, uint32_t s, uint32_t k, const u32vec *deps) {
  for (uint32_t i = 0; i < deps->n; i++) {
    uint32_t q = deps->v[i];
    if (q == k || !f->k.v[q].alive || f->k.v[q].virt || f->k.v[q].opaque || !light(f->k.v[q].cls) ||
        f->k.v[q].cls == KC_COPY || !reads_member(f, s, q))
      continue;
    joint j = fuse_try(f, s, q);
    if (!j.ok) continue;
    /* q's canonical variables in the names of k */
    map *tr = map_new(f->a);
    u32vec no = {0};
    for (uint32_t a = 0; a < j.n; a++)
      if (j.to[a] != j.var[a]) map_putu(tr, j.to[a], fuse_canon(f, j.var[a]));
    uint64_t x;
    for (uint32_t a = 0; a < j.outer.n; a++)
      if (map_getu(tr, j.outer.v[a], &x) && vec_has(&f->k.v[k].outer, (uint32_t)x)) vec_push(f->a, no, (uint32_t)x);
    if (no.n != f->k.v[k].outer.n || f->k.v[q].st.n + f->k.v[k].st.n > FUSE_MEMBERS) continue;
    if (between(f, k, q) || needs_sizes(f, k, q) || !reads_locally(f, k, q, s, tr, &no)) continue;
    int64_t loc = 0;
    for (uint32_t a = 0; a < f->k.v[q].st.n; a++) {
      u32vec vars = {0};
      uint32_t nv = 0;
      stage_vars(f->m, f->k.v[q].st.v[a], f->a, &vars);
      atom *to = NEWN(f->a, atom, vars.n + 1);
      for (; nv < vars.n; nv++)
        to[nv] = map_getu(tr, fuse_canon(f, vars.v[nv]), &x) ? (atom)x : fuse_canon(f, vars.v[nv]);
      loc = max64(loc, private_bytes(f, f->k.v[q].st.v[a], &no, vars.v, to, nv));
    }
    if (loc > (int64_t)f->p->cache_bytes || loses_parallelism(f, &f->k.v[q], &no) || !pass_spend(f->p)) continue;
    for (uint32_t a = 0; a < f->k.v[q].st.n; a++) {
      u32vec vars = {0};
      stage_vars(f->m, f->k.v[q].st.v[a], f->a, &vars);
      for (uint32_t b = 0; b < vars.n; b++)
        if (map_getu(tr, fuse_canon(f, vars.v[b]), &x)) map_putu(f->canon, vars.v[b], x);
    }
    if (f->k.v[q].cls == KC_ROW) f->k.v[k].cls = KC_ROW;
    fuse_merge(f, k, q);
    fuse_note(f, k, "siblings");
  }
}

/* ---- cheap work on every step's result becomes part of the recurrence: s reads its stages at s's own step only
 * ---- */
static bool join_recurrence(fuser *f, uint32_t s, uint32_t k, const u32vec *deps) {
  emodule *m = f->m;
  uint32_t sc = xs(m, f->k.v[k].st.v[0])->recurrence;
  atom t = m->recurrences.v[sc].var, v = 0;
  const u32vec *l = stage_loads(f->p, s);
  if (!t || !xs(m, s)->value || !cost_joins_recurrence((int64_t)expr_cost(m, xs(m, s)->value)) || cyclic(f, deps, k))
    return false;
  for (uint32_t i = 0; i < l->n; i++) {
    ex_node ld = *exn(m, l->v[i]);
    uint32_t q = producer_of(m, ld.tensor);
    if (!q || xs(m, q - 1)->block != f->block || f->where[q - 1] != k + 1) continue;
    uint32_t nd = expr_ndigits(xs(m, q - 1));
    sz *by = NEWN(f->a, sz, nd + 1);
    digit *d = NEWN(f->a, digit, nd + 1);
    atom at = 0;
    if (ld.otherwise || !expr_comps(m, q - 1, ld.args, by, NULL, NULL)) return false;
    expr_digits(xs(m, q - 1), d);
    for (uint32_t a = 0; a < nd; a++)
      if (d[a].var == t && (!sym_is_atom(f->c, by[a], &at) || sym_kind(f->c, at) != AT_VAR)) return false;
    if (!at || (v && v != at)) return false;
    v = at;
  }
  if (!v || !stage_has_var(m, s, v) || !sym_eq(f->c, sym_extent(f->c, v), m->recurrences.v[sc].extent) ||
      !pass_spend(f->p))
    return false;
  stage *x = xs(m, s);
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t j = 0; j < x->axes[i].n; j++)
      if (x->axes[i].d[j].var == v) {
        digit *d = arena_dup(m->a, x->axes[i].d, x->axes[i].n * sizeof *d);
        d[j].var = t;
        x->axes[i].d = d;
      }
  sz by = sym_of_atom(f->c, t);
  x->recurrence = sc;
  pass_set(f->p, s, expr_subst_vars(m, x->value, &v, &by, 1));
  fuse_add(f, k, s);
  return true;
}

static bool is_piece(fuser *f, uint32_t s) {
  const u32vec *r = &f->p->readers.v[xs(f->m, s)->tensor];
  return r->n == 1 && is_placement(f->p, r->v[0]) && xs(f->m, r->v[0])->updates.n >= 4;
}
/* One of several pieces of a placement, or what only these read: they are better computed together, each over all
 * its loops. */
static bool has_siblings(fuser *f, uint32_t s) {
  const u32vec *r = &f->p->readers.v[xs(f->m, s)->tensor];
  bool all = r->n > 0;
  for (uint32_t i = 0; i < r->n && all; i++) all = is_piece(f, r->v[i]);
  return all || is_piece(f, s);
}
/* Heavy kernels first, then those that s has a loop in common with, then the latest. */
static void sort_deps(fuser *f, uint32_t s, u32vec *deps) {
  enum { HEAVY = 2, LOOP = 1 };
  uint8_t *rank = NEWN(f->a, uint8_t, deps->n + 1);
  for (uint32_t i = 0; i < deps->n && deps->n > 1; i++) {
    rank[i] = heavy(f->k.v[deps->v[i]].cls) ? HEAVY : fuse_try(f, s, deps->v[i]).outer.n ? LOOP : 0;
    for (uint32_t k = i; k > 0; k--) {
      if (rank[k - 1] > rank[k] || (rank[k - 1] == rank[k] && deps->v[k - 1] > deps->v[k])) break;
      const uint32_t d = deps->v[k];
      const uint8_t r = rank[k];
      deps->v[k] = deps->v[k - 1], deps->v[k - 1] = d, rank[k] = rank[k - 1], rank[k - 1] = r;
    }
  }
}
void fuse_stage(fuser *f, uint32_t s) {
  kernel_class c = fuse_class(f, s);
  u32vec deps = {0};
  if (heavy(c) || c == KC_PREFIX_SCAN || c == KC_RANKING) {
    fuse_open(f, s, c);
    return;
  }
  fuse_deps(f, s, &deps);
  sort_deps(f, s, &deps);
  for (uint32_t i = 0; i < deps.n; i++) {
    uint32_t k = deps.v[i];
    const fnode *n = &f->k.v[k];
    if (n->cls == KC_RECURRENCE && (c == KC_ELEMENTWISE || c == KC_COPY) && !n->virt && !n->opaque &&
        join_recurrence(f, s, k, &deps))
      return;
    if (n->opaque || n->virt || n->cls == KC_RECURRENCE || n->cls == KC_UPDATE || n->cls == KC_PREFIX_SCAN ||
        n->cls == KC_RANKING || n->cls == KC_COMPOSITE || n->cls == KC_BLOCKS || !reads_member(f, s, k))
      continue;
    if (n->cls == KC_COPY && !(c == KC_ELEMENTWISE || c == KC_COPY)) continue;
    uint32_t lead = n->st.v[0];
    joint j = fuse_try(f, s, k);
    const char *why = j.ok ? NULL : j.why;
    if (!why && n->st.n >= FUSE_MEMBERS) why = "too many stages";
    if (!why && late_reads(f, s, k)) why = "needs a size computed there";
    if (!why && cyclic(f, &deps, k)) why = "cycle";
    if (!why && j.n && !j.outer.n && waits_for_more(f, &deps, k)) why = "no common index, and waits for more";
    if (!why) why = heavy(n->cls) ? remark_heavy(f, c, n, &j) : remark_light(f, s, c, n, &j);
    if (!why && !heavy(n->cls) && !j.identity && has_siblings(f, s)) why = "goes with the other pieces";
    if (why) {
      pass_remark(f->p, "kernels", s, lead + 1, why);
      continue;
    }
    if (!pass_spend(f->p)) break;
    for (uint32_t v = 0; v < j.n; v++) map_putu(f->canon, j.var[v], j.to[v]);
    if (heavy(n->cls) && j.outer.n < n->outer.n) fuse_note(f, k, "digits interleaved");
    fuse_add(f, k, s);
    f->k.v[k].outer = j.outer;
    if (heavy(f->k.v[k].cls))
      two_products(f, s, k, &deps);
    else {
      if (c == KC_ROW)
        f->k.v[k].cls = KC_ROW;
      else if (c == KC_GATHER && f->k.v[k].cls != KC_ROW)
        f->k.v[k].cls = KC_GATHER;
      else if (c == KC_ELEMENTWISE && f->k.v[k].cls == KC_COPY)
        f->k.v[k].cls = KC_ELEMENTWISE;
      siblings(f, s, k, &deps);
    }
    return;
  }
  fuse_open(f, s, c);
}
