/* How are stages grouped into kernels?
 *
 * Block by block, stages in order. Reductions of two operands, windows, recurrences and updates open kernels;
 * element-wise stages and row reductions join a kernel they read from if the indices allow it (fuse_join.c); updates at
 * the places of a ranking join it; placements become virtual when their producers can store in place (fuse_place.c).
 * Then leftovers in front of a kernel move into it (fuse_prologue.c), and contraction - row chain - contraction becomes
 * one kernel (fuse_composite.c), and where much would be handed over, a contraction joins the window over what it makes
 * (fuse_rolling.c), and what stands around a contraction joins it (fuse_blocks.c). At the end kernels are ordered by
 * dependence and written to the module, and the block's items are put in that order.
 */
#include "fusion/fuse.h"
#include <string.h>

uint32_t fuse_node(fuser *f, kernel_class cls) {
  fnode n = {.cls = cls, .alive = true};
  if (f->k.n >= f->words * BITSET_WORD) { /* copies made for placements may exceed the first guess */
    uint32_t w = f->words + f->words / 4 + 1;
    for (uint32_t i = 0; i < f->k.n; i++) {
      uint64_t *b = NEWN(f->a, uint64_t, w);
      memcpy(b, f->k.v[i].anc, f->words * sizeof *b);
      f->k.v[i].anc = b;
    }
    f->words = w;
  }
  n.anc = NEWN(f->a, uint64_t, f->words);
  vec_push(f->a, f->k, n);
  return f->k.n - 1;
}
static void fit_where(fuser *f) {
  uint32_t n = f->m->stages.n;
  if (f->nwhere >= n) return;
  const uint32_t cap = n + n / 2 + 8;
  f->where = arena_grow(f->a, f->where, f->nwhere * sizeof *f->where, cap * sizeof *f->where);
  f->pos = arena_grow(f->a, f->pos, f->nwhere * sizeof *f->pos, cap * sizeof *f->pos);
  f->placed = arena_grow(f->a, f->placed, f->nwhere * sizeof *f->placed, cap * sizeof *f->placed);
  f->cls = arena_grow(f->a, f->cls, f->nwhere * sizeof *f->cls, cap * sizeof *f->cls);
  f->nwhere = cap;
}
static bool made_here(fuser *f, const u32vec *factors) {
  const ex_node *n = factors->n == 1 ? exn(f->m, factors->v[0]) : NULL;
  const uint32_t s = n && n->kind == EX_LOAD ? producer_of(f->m, n->tensor) : 0;
  return s && xs(f->m, s - 1)->block == f->block;
}
/* Are these sums of rows that the block makes, weighted by numbers that it does not make? Such a sum goes with what
 * else reads the rows. */
static bool weighs_rows(fuser *f, uint32_t s) {
  roles r;
  if (!expr_roles(f->m, s, f->a, &r) || !r.two || r.window) return false;
  const u32vec *rows = r.row.n ? &r.a : &r.b, *weights = r.row.n ? &r.b : &r.a;
  return made_here(f, rows) && !made_here(f, weights) && f->p->readers.v[exn(f->m, rows->v[0])->tensor].n > 1;
}
kernel_class fuse_class(fuser *f, uint32_t s) {
  fit_where(f);
  if (f->cls[s]) return f->cls[s];
  const kernel_class c = expr_class(f->m, s);
  return f->cls[s] = c == KC_MATVEC && weighs_rows(f, s) && !EK_PLANTED("kernels-weighted") ? KC_ROW : c;
}
atom fuse_canon(fuser *f, atom v) {
  uint64_t x;
  return map_getu(f->canon, v, &x) ? (atom)x : v;
}
void fuse_note(fuser *f, uint32_t k, const char *note) {
  fnode *n = &f->k.v[k];
  if (!n->note)
    n->note = note;
  else if (!strstr(n->note, note))
    n->note = arena_fmt(f->m->a, "%s, %s", n->note, note);
}
int64_t fuse_extent(fuser *f, const u32vec *vars) {
  int64_t r = 1;
  for (uint32_t i = 0; i < vars->n; i++) r = sat_mul64(r, max64(expr_typical(f->m, sym_extent(f->c, vars->v[i])), 1));
  return r;
}
int64_t fuse_bytes(fuser *f, uint32_t s, const u32vec *vars) {
  return sat_mul64(fuse_extent(f, vars), et_bytes(xt(f->m, xs(f->m, s)->tensor)->type));
}

bool fuse_digits(fuser *f, uint32_t s, const sz *idx, sz **by, digit **d, uint32_t *nd) {
  *nd = expr_ndigits(xs(f->m, s));
  *by = NEWN(f->a, sz, *nd + 1);
  *d = NEWN(f->a, digit, *nd + 1);
  expr_digits(xs(f->m, s), *d);
  return expr_comps(f->m, s, idx, *by, NULL, NULL);
}

/* ---- dependences ----------------------------------------------------------------------------- */
static void dep_tensor(fuser *f, tid t, u32vec *out) {
  uint64_t k;
  uint32_t s = producer_of(f->m, t);
  if (s && s - 1 < f->nwhere && f->where[s - 1] && xs(f->m, s - 1)->block == f->block)
    k = f->where[s - 1] - 1;
  else if (!map_getu(f->result, t, &k))
    return;
  if (!vec_has(out, (uint32_t)k)) vec_push(f->a, *out, (uint32_t)k);
}
static void dep_size(fuser *f, sz s, u32vec *out) {
  u32vec at = {0};
  uint64_t t;
  if (!s || !map_count(f->p->lates)) return;
  sym_atoms(f->c, s, AT_SYMBOL, f->a, &at);
  for (uint32_t i = 0; i < at.n; i++)
    if (map_getu(f->p->lates, at.v[i], &t)) dep_tensor(f, (tid)t, out);
}
void fuse_symbols(fuser *f, uint32_t s, u32vec *out) {
  const stage *x = xs(f->m, s);
  if (x->value) expr_symbols(f->p, x->value, out);
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    expr_symbols(f->p, u->value, out);
    if (u->cond) expr_symbols(f->p, u->cond, out);
    for (uint32_t k = 0; k < u->nidx; k++) sym_atoms(f->c, u->idx[k], AT_SYMBOL, f->a, out);
  }
}
void fuse_late(fuser *f, uint32_t s, u32vec *out) {
  const stage *x = xs(f->m, s);
  if (!map_count(f->p->lates)) return;
  for (uint32_t i = 0; i < x->naxes; i++) dep_size(f, xt(f->m, x->tensor)->shape[i], out);
  const u32vec *l = stage_loads(f->p, s);
  for (uint32_t i = 0; i < l->n; i++) {
    ex_node n = *exn(f->m, l->v[i]);
    for (uint32_t k = 0; k < n.nargs; k++) dep_size(f, n.args[k], out), dep_size(f, xt(f->m, n.tensor)->shape[k], out);
  }
  if (x->value && exn(f->m, x->value)->kind == EX_REDUCE) {
    ex_node n = *exn(f->m, x->value);
    for (uint32_t k = 0; k < n.nargs; k++) dep_size(f, sym_extent(f->c, n.args[k]), out);
  }
  for (uint32_t i = 0; i < x->updates.n; i++)
    for (uint32_t k = 0; k < x->updates.v[i].nvars; k++) dep_size(f, sym_extent(f->c, x->updates.v[i].vars[k]), out);
  u32vec at = {0}; /* sizes that are numbers inside the values */
  uint64_t t;
  fuse_symbols(f, s, &at);
  for (uint32_t i = 0; i < at.n; i++)
    if (map_getu(f->p->lates, at.v[i], &t)) dep_tensor(f, (tid)t, out);
  /* s is stored inside a placement, whose sizes count, too */
  if (s < f->nwhere && f->placed[s]) fuse_late(f, f->placed[s] - 1, out);
}
void fuse_deps(fuser *f, uint32_t s, u32vec *out) {
  const u32vec *l = stage_loads(f->p, s);
  for (uint32_t i = 0; i < l->n; i++) dep_tensor(f, exn(f->m, l->v[i])->tensor, out);
  fuse_late(f, s, out);
}
void fuse_depend(fuser *f, uint32_t k, uint32_t d) {
  if (k == d) return;
  uint64_t *a = f->k.v[k].anc, *b = f->k.v[d].anc, before = 0, after = 0;
  for (uint32_t w = 0; w < f->words; w++) before |= b[w] & ~a[w];
  after = bitset_has(a, d);
  if (!before && after) return;
  for (uint32_t w = 0; w < f->words; w++) a[w] |= b[w];
  bitset_add(a, d);
  f->k.v[d].needed = true;
  for (uint32_t i = 0; i < f->k.n && f->k.v[k].needed; i++) /* whoever depends on k depends on all this too */
    if (i != k && f->k.v[i].alive && depends(f, i, k))
      for (uint32_t w = 0; w < f->words; w++) f->k.v[i].anc[w] |= a[w];
}
void fuse_add(fuser *f, uint32_t k, uint32_t s) {
  u32vec d = {0};
  fit_where(f);
  fuse_deps(f, s, &d);
  for (uint32_t i = 0; i < d.n; i++) fuse_depend(f, k, d.v[i]);
  u32vec *st = &f->k.v[k].st;
  vec_push(f->a, *st, s);
  for (uint32_t i = st->n - 1; i > 0 && f->pos[st->v[i - 1]] > f->pos[st->v[i]]; i--) {
    uint32_t t = st->v[i];
    st->v[i] = st->v[i - 1], st->v[i - 1] = t;
  }
  f->where[s] = k + 1;
}
uint32_t fuse_open(fuser *f, uint32_t s, kernel_class cls) {
  uint32_t k = fuse_node(f, cls);
  fuse_add(f, k, s);
  stage_vars(f->m, s, f->a, &f->k.v[k].outer);
  return k;
}
void fuse_merge(fuser *f, uint32_t k, uint32_t q) {
  u32vec st = f->k.v[q].st;
  f->k.v[q].alive = false;
  for (uint32_t i = 0; i < st.n; i++) fuse_add(f, k, st.v[i]);
  for (uint32_t w = 0; w < f->words; w++) f->k.v[k].anc[w] |= f->k.v[q].anc[w];
  bitset_remove(f->k.v[k].anc, k);
  bitset_remove(f->k.v[k].anc, q);
  f->k.v[k].needed |= f->k.v[q].needed;
  for (uint32_t i = 0; i < f->k.n && f->k.v[k].needed;
       i++) { /* what depends on one of them does on both; q is no more */
    if (i == k || !f->k.v[i].alive) continue;
    uint64_t *anc = f->k.v[i].anc;
    bool on_q = depends(f, i, q), on_k = depends(f, i, k);
    if (on_q) bitset_remove(anc, q), bitset_add(anc, k);
    for (uint32_t w = 0; w < f->words && on_q != on_k; w++) anc[w] |= f->k.v[k].anc[w];
  }
}
void fuse_users(fuser *f, uint32_t k, u32vec *out) {
  const fnode *n = &f->k.v[k];
  for (uint32_t i = 0; i < n->st.n; i++) {
    const u32vec *r = &f->p->readers.v[xs(f->m, n->st.v[i])->tensor];
    for (uint32_t j = 0; j < r->n; j++) {
      if (xs(f->m, r->v[j])->block != f->block) {
        /* the tensor is read inside a branch or loop */
        if (!vec_has(out, UINT32_MAX)) vec_push(f->a, *out, UINT32_MAX);
        continue;
      }
      uint32_t w = f->where[r->v[j]];
      if (w && w - 1 != k && !vec_has(out, w - 1)) vec_push(f->a, *out, w - 1);
    }
  }
}

void fuse_rename(fuser *f, uint32_t k, atom from, atom to) {
  for (uint32_t i = 0; i < f->k.v[k].st.n; i++) {
    u32vec vars = {0};
    stage_vars(f->m, f->k.v[k].st.v[i], f->a, &vars);
    for (uint32_t a = 0; a < vars.n; a++)
      if (fuse_canon(f, vars.v[a]) == from) map_putu(f->canon, vars.v[a], to);
  }
}

/* ---- branches and loops ---------------------------------------------------------------------- */
static void reads_of_block(fuser *f, uint32_t b, u32vec *out) {
  emodule *m = f->m;
  for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind == IT_STAGE) {
      const u32vec *l = stage_loads(f->p, it.index);
      for (uint32_t k = 0; k < l->n; k++) dep_tensor(f, exn(m, l->v[k])->tensor, out);
      fuse_late(f, it.index, out);
    } else if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      dep_tensor(f, x->cond, out);
      for (uint32_t k = 0; k < x->n; k++) dep_tensor(f, x->then_vals[k], out), dep_tensor(f, x->else_vals[k], out);
      reads_of_block(f, x->then_block, out), reads_of_block(f, x->else_block, out);
    } else {
      const xloop *x = &m->loops.v[it.index];
      dep_tensor(f, x->trip_tensor, out), dep_tensor(f, x->cond0, out), dep_tensor(f, x->cond, out);
      dep_size(f, x->trips, out);
      for (uint32_t k = 0; k < x->ncarried; k++) dep_tensor(f, x->init[k], out), dep_tensor(f, x->next[k], out);
      for (uint32_t k = 0; k < x->ncollected; k++) dep_tensor(f, x->slice[k], out);
      reads_of_block(f, x->body, out);
    }
  }
}
static void add_item(fuser *f, item it) {
  emodule *m = f->m;
  uint32_t k = fuse_node(f, 0);
  u32vec d = {0};
  f->k.v[k].opaque = true;
  if (it.kind == IT_IF) {
    const xif *x = &m->ifs.v[it.index];
    dep_tensor(f, x->cond, &d);
    for (uint32_t i = 0; i < x->n; i++) dep_tensor(f, x->then_vals[i], &d), dep_tensor(f, x->else_vals[i], &d);
    reads_of_block(f, x->then_block, &d), reads_of_block(f, x->else_block, &d);
    for (uint32_t i = 0; i < x->n; i++) map_putu(f->result, x->results[i], k);
  } else {
    const xloop *x = &m->loops.v[it.index];
    dep_tensor(f, x->trip_tensor, &d), dep_tensor(f, x->cond0, &d);
    dep_size(f, x->trips, &d);
    for (uint32_t i = 0; i < x->ncarried; i++) dep_tensor(f, x->init[i], &d);
    reads_of_block(f, x->body, &d);
    for (uint32_t i = 0; i < x->ncarried; i++) map_putu(f->result, x->final[i], k);
    for (uint32_t i = 0; i < x->ncollected; i++) map_putu(f->result, x->collected[i], k);
  }
  for (uint32_t i = 0; i < d.n; i++) fuse_depend(f, k, d.v[i]);
}

/* ---- order and output ------------------------------------------------------------------------ */
typedef struct sorter {
  fuser *f;       /* the grouping */
  uint8_t *state; /* per node: 0: not met, 1: on the way down, 2: done */
  u32vec out;     /* nodes in order */
} sorter;
static void visit(sorter *o, uint32_t k) { /* explicit stack: kernels may depend on each other in long chains */
  fuser *f = o->f;
  u32vec stack = {0};
  vec_push(f->a, stack, k);
  while (stack.n) {
    uint32_t q = stack.v[stack.n - 1], next = UINT32_MAX;
    if (o->state[q] == 2) {
      stack.n--;
      continue;
    }
    o->state[q] = 1;
    for (uint32_t w = 0; w < f->words && next == UINT32_MAX; w++)
      for (uint64_t b = f->k.v[q].anc[w]; b; b &= b - 1) {
        uint32_t d = bitset_first(b, w);
        if (!f->k.v[d].alive || o->state[d] == 2 || EK_PLANTED("kernels-order")) continue;
        if (o->state[d] == 1) ctx_bug(f->c, "expr: kernels %u and %u depend on each other", q, d);
        next = d;
        break;
      }
    if (next != UINT32_MAX)
      vec_push(f->a, stack, next);
    else
      o->state[q] = 2, stack.n--, vec_push(f->a, o->out, q);
  }
}
/* Is all that the node computes the new values of states, or pieces of them? waits: nodes of which that is known. */
static bool only_states(const fuser *f, uint32_t k, const bool *waits) {
  const fnode *n = &f->k.v[k];
  for (uint32_t i = 0; i < n->st.n; i++) {
    const tid t = xs(f->m, n->st.v[i])->tensor;
    const u32vec *readers = &f->p->readers.v[t];
    bool state = false;
    for (uint32_t j = 0; j < f->m->states.n; j++) state |= expr_state_out(f->m, j) == t;
    if (f->p->pinned.v[t] ? !state : !readers->n) return false;
    for (uint32_t j = 0; j < readers->n; j++) {
      const uint32_t at = readers->v[j] < f->nwhere ? f->where[readers->v[j]] : 0;
      if (!at || (at - 1 != k && !waits[at - 1])) return false;
    }
  }
  return !n->opaque && n->st.n;
}
/* Nodes whose results are states, and wait until all others have run, which may read the old values. */
static bool *find_waiting(const fuser *f) {
  bool *waits = NEWN(f->a, bool, f->k.n + 1);
  for (bool more = f->m->states.n > 0 && !EK_PLANTED("kernels-states"); more;) {
    more = false;
    for (uint32_t k = f->k.n; k-- > 0;)
      if (f->k.v[k].alive && !waits[k] && only_states(f, k, waits)) waits[k] = more = true;
  }
  return waits;
}
static void emit(fuser *f) {
  emodule *m = f->m;
  sorter o = {f, NEWN(f->a, uint8_t, f->k.n + 1), {0}};
  const bool *waits = find_waiting(f);
  for (uint32_t i = 0; i < 2 * f->k.n; i++) {
    const uint32_t k = i % f->k.n;
    if (f->k.v[k].alive && !o.state[k] && waits[k] == (i >= f->k.n)) visit(&o, k);
  }
  block *b = &m->blocks.v[f->block];
  block old = *b;
  memset(&b->items, 0, sizeof b->items);
  vec_reserve(m->a, b->items, old.items.n);
  for (uint32_t i = 0; i < o.out.n; i++) {
    fnode *n = &f->k.v[o.out.v[i]];
    if (n->opaque) {
      vec_push(m->a, b->items, old.items.v[n->item]);
      continue;
    }
    uint32_t id = 0;
    if (!n->virt) {
      kernel k = {.cls = n->cls, .block = f->block, .note = n->note, .canon = map_new(m->a)};
      for (uint32_t j = 0; j < n->st.n; j++) {
        u32vec vs = {0};
        vec_push(m->a, k.stages, n->st.v[j]);
        stage_vars(m, n->st.v[j], f->a, &vs);
        for (uint32_t q = 0; q < vs.n; q++) map_putu(k.canon, vs.v[q], fuse_canon(f, vs.v[q]));
      }
      for (uint32_t j = 0; j < n->outer.n; j++) vec_push(m->a, k.outer, n->outer.v[j]);
      vec_push(m->a, m->kernels, k);
      id = m->kernels.n;
    }
    for (uint32_t j = 0; j < n->st.n; j++) {
      xs(m, n->st.v[j])->kernel = id;
      vec_push(m->a, b->items, ((item){IT_STAGE, n->st.v[j]}));
    }
  }
}

/* ---- updates --------------------------------------------------------------------------------- */
/* What is written at the places of a ranking is written where it is made, if that is all that is asked of it. */
static bool join_ranking(fuser *f, uint32_t s) {
  emodule *m = f->m;
  const u32vec *l = stage_loads(f->p, s);
  u32vec deps = {0};
  placing at;
  for (uint32_t i = 0; i < l->n; i++) {
    tid t = exn(m, l->v[i])->tensor;
    uint32_t q = producer_of(m, t),
             k = q && xs(m, q - 1)->block == f->block && f->where[q - 1] ? f->where[q - 1] - 1 : UINT32_MAX;
    if (k == UINT32_MAX || f->k.v[k].cls != KC_RANKING || f->k.v[k].st.v[0] != q - 1 || f->p->pinned.v[t]) continue;
    const u32vec *readers = &f->p->readers.v[t];
    bool all = true;
    for (uint32_t j = 0; j < readers->n && all; j++) all = expr_placing(m, readers->v[j], q - 1, f->a, &at);
    fuse_deps(f, s, &deps);
    for (uint32_t j = 0; j < deps.n; j++) all &= deps.v[j] == k || !depends(f, deps.v[j], k);
    if (!all || !expr_placing(m, s, q - 1, f->a, &at)) continue;
    u32vec rows = {0};
    for (uint32_t j = 0; j < at.var.n; j++)
      if (stage_has_var(m, s, at.var.v[j])) {
        atom row = fuse_canon(f, at.with.v[j]);
        map_putu(f->canon, at.var.v[j], row);
        vec_push(f->a, rows, row);
      }
    f->k.v[k].outer = rows;
    fuse_add(f, k, s);
    return true;
  }
  return false;
}

/* ---- one block ------------------------------------------------------------------------------- */
static void fuse_block(fuser *f, uint32_t b) {
  emodule *m = f->m;
  f->block = b;
  f->k.n = 0, f->k.v = NULL, f->k.cap = 0;
  f->words = bitset_words(m->blocks.v[b].items.n);
  f->result = map_new(f->a);
  map *recurrences = map_new(f->a);
  uint32_t n = m->blocks.v[b].items.n;
  fit_where(f);
  for (uint32_t i = 0; i < n; i++)
    if (m->blocks.v[b].items.v[i].kind == IT_STAGE) f->pos[m->blocks.v[b].items.v[i].index] = 2 * i + 1;
  for (uint32_t i = 0; i < n; i++) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind != IT_STAGE) {
      add_item(f, it);
      f->k.v[f->k.n - 1].item = i;
      continue;
    }
    uint32_t s = it.index;
    uint64_t k;
    if (xs(m, s)->recurrence) { /* one kernel for a recurrence; its stages run step by step */
      if (map_getu(recurrences, xs(m, s)->recurrence, &k))
        fuse_add(f, (uint32_t)k, s);
      else
        map_putu(recurrences, xs(m, s)->recurrence, k = fuse_open(f, s, KC_RECURRENCE)), f->k.v[k].outer.n = 0;
    } else if (is_placement(f->p, s))
      fuse_placement(f, s);
    else if (xs(m, s)->updates.n) {
      if (!join_ranking(f, s)) fuse_open(f, s, KC_UPDATE);
    } else
      fuse_stage(f, s);
  }
  fuse_prologues(f);
  fuse_composites(f);
  fuse_rolling_buffers(f);
  fuse_blocks(f);
  emit(f);
}
static void fuse_nested(fuser *f, uint32_t b) {
  emodule *m = f->m;
  for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind == IT_IF) {
      uint32_t t = m->ifs.v[it.index].then_block, e = m->ifs.v[it.index].else_block;
      fuse_nested(f, t), fuse_nested(f, e);
    } else if (it.kind == IT_LOOP)
      fuse_nested(f, m->loops.v[it.index].body);
  }
  fuse_block(f, b);
}
bool pass_kernels(pw *p) {
  emodule *m = p->m;
  m->kernels.n = 0;
  fuser f = {.p = p, .m = m, .c = p->c, .a = p->a, .canon = map_new(p->a), .lane = expr_lanes(p), .nlane = m->stages.n};
  fuse_nested(&f, 0);
  p->pend.n = 0; /* copies stand where their kernels do */
  pass_flush(p);
  return true;
}
