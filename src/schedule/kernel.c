/* How is a kernel's work divided: which loops are chunks for the threads, which run inside, what is kept in scratch?
 *
 * A kernel's stages fall into groups: a leader and the element-wise stages after it over the same index space (its epilogue), which read the group's values at the very point being computed.
 *   one group     the chunk loop is inside the group's nest: chunks are ranges of a flattened outer variable, or of rows, or of lane panels
 *   more groups   the chunks are points of the shared outer variables (or blocks of `block` consecutive values of one of them, so that contractions inside have rows); the groups' nests follow one another
 *                 in each; what they hand over lies in registers (a scalar), in scratch (a row, a block of rows), or in the arena
 *   recurrence    one chunk; the step loop outside, the groups' nests inside
 */
#include "schedule/kernel.h"
#include "schedule/layout.h"
#include "schedule/tile.h"
#include <string.h>

typedef struct kctx { ectx e; kernel_class cls; splan *p; emodule *m; ctx *c; arena *a; launch l; map *stored; sz scratch; lv scratch_ptr; const map *canon; u32vec outer; uint32_t scratch_arg; } kctx;

/* digits of a chunk number; an index space with an empty axis has no chunks, so that anything serves */
static sz quot(ctx *c, sz a, sz b) { return sym_int_or(c, b, 1) == 0 ? sym_int(c, 0) : sym_div(c, a, b); }
static sz rest_of(ctx *c, sz a, sz b) { return sym_int_or(c, b, 1) == 0 ? sym_int(c, 0) : sym_mod(c, a, b); }
static atom canon_of(kctx *k, atom v) {
  uint64_t got;
  return k->canon && map_getu(k->canon, v, &got) ? (atom)got : v;
}
static void stage_domain(kctx *k, uint32_t si, u32vec *out) {
  stage *s = xs(k->m, si);
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) vec_push(k->a, *out, canon_of(k, s->axes[i].d[j].var));
}
static bool has(const u32vec *s, uint32_t x) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->v[i] == x) return true;
  return false;
}
static bool same_set(const u32vec *a, const u32vec *b) {
  if (a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!has(b, a->v[i])) return false;
  return true;
}
static bool contains_reduce(kctx *k, ex x) {
  const ex_node *n = exn(k->m, x);
  if (n->kind == EX_REDUCE) return true;
  if (n->kind == EX_LOAD && n->otherwise) return contains_reduce(k, n->otherwise);
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++)
    if (contains_reduce(k, n->args[i])) return true;
  return false;
}
/* every read of a tensor of the group is at the point being computed */
static bool reads_at_point(kctx *k, uint32_t si, const u32vec *group) {
  stage *s = xs(k->m, si);
  u32vec loads = {0};
  expr_loads(k->m, s->value, k->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(k->m, loads.v[i]);
    for (uint32_t g = 0; g < group->n; g++) {
      stage *q = xs(k->m, group->v[g]);
      if (q->tensor != n->tensor) continue;
      for (uint32_t j = 0; j < n->nargs; j++)
        if (emit_resolve(&k->e, n->args[j]) != emit_resolve(&k->e, expr_axis_index(k->m, &q->axes[j]))) return false;
      if (n->otherwise) return false;
    }
  }
  return true;
}

/* ---- scratch ---- */
static lv scratch_base(kctx *k) {
  if (k->scratch_ptr) return k->scratch_ptr;
  lv p = lb_param(&k->e.b, "scratch", lptr(ET_U8), LP_READ | LP_WRITE | LP_NOALIAS, 64);
  vec_push(k->a, k->l.args, ((kargs){.is_buffer = true, .buffer = 0, .write = true}));
  lv per = lb_param(&k->e.b, "scratch_bytes", lt(ET_I64, 1), 0, 0);
  vec_push(k->a, k->l.args, ((kargs){.size = 0}));
  k->scratch_arg = k->l.args.n - 1;
  k->scratch_ptr = lb_offset(&k->e.b, p, lb_mul(&k->e.b, lb_worker(&k->e.b), per));
  return k->scratch_ptr;
}
static lv scratch_take(kctx *k, etype t, sz elems) {
  lv base = scratch_base(k);
  lv p = lb_ptrcast(&k->e.b, t, lb_offset(&k->e.b, base, emit_size(&k->e, k->scratch)));
  sz bytes = sym_muli(k->c, sym_ceildiv(k->c, sym_muli(k->c, elems, et_bytes(t)), sym_int(k->c, 64)), 64);
  k->scratch = sym_add(k->c, k->scratch, bytes);
  return p;
}

/* ---- operands packed for a nest ---- */
static int64_t ext_of(kctx *k, atom v, int64_t otherwise) { return sym_int_or(k->c, sym_extent(k->c, v), otherwise); }
static void add_packs(kctx *k, nest *n, const accesses *acc, const choice *ch) {
  ectx *e = &k->e;
  if (!ch->lane || ch->lane_reduced || exn(k->m, xs(k->m, n->stages.v[0])->value)->kind != EX_REDUCE) return;
  bool tiled = ch->row && ch->lane_outer;
  for (uint32_t i = 0; i < acc->n; i++) {
    access *a = &acc->v[i];
    if (!a->leader || a->store || !a->load) continue;
    int64_t q = address_coef(e, a->address, ch->lane);
    if (q == 0 || (ch->row && address_coef(e, a->address, ch->row) != 0)) continue;
    packload pl = {0};
    if (a->constant && n->reds[a->stage].n && pack_constant(e, n, a->load, a->stage, &pl)) {
      vec_push(k->a, n->packs, pl);
      continue;
    }
    /* A run-time operand is copied, one panel at a time, when it is not contiguous, or when enough rows reuse the copy: a panel read in place strides over the whole operand, on few cache sets. */
    if (!tiled || a->constant || (q == 1 && (n->row.lo || ext_of(k, ch->row, 0) < 128))) continue;
    /* run-time operand: one panel at a time in scratch */
    uint32_t L = nest_lanes(e, &n->stages);
    sz red = sym_int(k->c, 1), off = sym_int(k->c, 0);
    const u32vec *rv = &n->reds[a->stage];
    for (uint32_t r = 0; r < rv->n; r++) {
      sz ext = sym_extent(k->c, rv->v[r]);
      off = sym_add(k->c, sym_mul(k->c, off, ext), sym_of_atom(k->c, rv->v[r]));
      red = sym_mul(k->c, red, ext);
    }
    int64_t nr = (int64_t)n->nv * L;
    pl = (packload){.load = a->load, .stage = a->stage, .off = sym_muli(k->c, off, nr), .elems = sym_muli(k->c, red, nr)};
    pl.ptr = scratch_take(k, (etype)exn(k->m, a->load)->type, pl.elems);
    vec_push(k->a, n->packs, pl);
  }
}
static u32vec red_order(kctx *k, uint32_t stage, const accesses *acc, atom lane) {
  /* the variable with the smallest stride in the operands innermost */
  u32vec out = {0};
  const ex_node *root = exn(k->m, xs(k->m, stage)->value);
  if (root->kind != EX_REDUCE) return out;
  for (uint32_t i = 0; i < root->nargs; i++)
    if (root->args[i] != lane) vec_push(k->a, out, root->args[i]);
  int64_t *st = NEWN(k->a, int64_t, out.n + 1);
  for (uint32_t i = 0; i < out.n; i++) {
    st[i] = INT64_MAX;
    for (uint32_t j = 0; j < acc->n; j++) {
      access *a = &acc->v[j];
      if (!a->leader || a->store || a->constant) continue;
      int64_t q = address_coef(&k->e, a->address, out.v[i]);
      if (q > 0 && q < st[i]) st[i] = q;
    }
  }
  for (uint32_t i = 1; i < out.n; i++)
    for (uint32_t j = i; j > 0 && st[j - 1] < st[j]; j--) {
      int64_t s = st[j];
      st[j] = st[j - 1], st[j - 1] = s;
      atom v = out.v[j];
      out.v[j] = out.v[j - 1], out.v[j - 1] = v;
    }
  return out;
}
static void leader_red(kctx *k, uint32_t si, u32vec *red) {
  const ex_node *root = exn(k->m, xs(k->m, si)->value);
  if (root->kind == EX_REDUCE)
    for (uint32_t i = 0; i < root->nargs; i++) vec_push(k->a, *red, root->args[i]);
}
/* the nest of a group over `domain`; ranged (may be NULL) replaces the range of one of its variables */
static nest make_nest(kctx *k, const u32vec *group, const u32vec *domain, choice ch, const accesses *acc) {
  nest n = {.mr = ch.mr, .nv = ch.nv, .lane_reduced = ch.lane_reduced, .lane_outer = ch.lane_outer, .stored = k->stored};
  n.stages = *group;
  if (ch.lane) n.lane = (nvar){.var = ch.lane, .extent = sym_extent(k->c, ch.lane)};
  if (ch.row) n.row = (nvar){.var = ch.row, .extent = sym_extent(k->c, ch.row)};
  const access *op = NULL;
  for (uint32_t i = 0; i < acc->n; i++)
    if (acc->v[i].load == ch.lane_load && ch.lane_load) op = &acc->v[i];
  for (uint32_t i = 0; i < domain->n; i++) {
    atom v = domain->v[i];
    if (v == ch.lane || v == ch.row) continue;
    nvar x = {.var = v, .extent = sym_extent(k->c, v)};
    if (ch.lane_outer && op && sym_uses(k->c, op->address, v)) vec_push(k->a, n.outer, x);
    else vec_push(k->a, n.inner, x);
  }
  n.reds = NEWN(k->a, u32vec, group->n);
  for (uint32_t i = 0; i < group->n; i++) n.reds[i] = red_order(k, group->v[i], acc, ch.lane_reduced ? ch.lane : 0);
  if (ch.lane && !ch.lane_reduced) {
    uint32_t L = nest_lanes(&k->e, group);
    n.npanels = sym_ceildiv(k->c, n.lane.extent, sym_int(k->c, (int64_t)n.nv * L));
    sz pv = sym_var(k->c, "panel", n.npanels);
    if (!sym_is_atom(k->c, pv, &n.panel)) n.panel = 0;
  }
  return n;
}

/* ---- one group ---- */

/* Joins neighbouring variables of an element-wise group into one wherever all addresses allow it: u (outer), v (inner, extent e) become w = u*e + v. */
static bool merge_pair(kctx *k, const u32vec *group, u32vec *domain, uint32_t at) {
  atom u = domain->v[at], v = domain->v[at + 1];
  sz eu = sym_extent(k->c, u), ev = sym_extent(k->c, v), w = sym_var(k->c, "f", sym_mul(k->c, eu, ev));
  atom wa;
  if (!sym_is_atom(k->c, w, &wa)) return false;
  uint32_t nb = k->e.binds.n;
  emit_bind_ex(&k->e, (binding){.var = u, .subst = quot(k->c, w, ev)});
  emit_bind_ex(&k->e, (binding){.var = v, .subst = rest_of(k->c, w, ev)});
  accesses acc = {0};
  group_accesses(&k->e, group, k->stored, &acc);
  bool ok = true;
  for (uint32_t i = 0; i < acc.n && ok; i++) {
    int64_t q = address_coef(&k->e, acc.v[i].address, wa);
    ok = q != INT64_MIN && !acc.v[i].guarded;
  }
  if (!ok) {
    emit_unbind(&k->e, nb);
    return false;
  }
  domain->v[at] = wa;
  for (uint32_t i = at + 1; i + 1 < domain->n; i++) domain->v[i] = domain->v[i + 1];
  domain->n--;
  return true;
}
static void order_by_store(kctx *k, const u32vec *group, u32vec *domain) {
  accesses acc = {0};
  group_accesses(&k->e, group, k->stored, &acc);
  for (uint32_t i = 1; i < domain->n; i++)
    for (uint32_t j = i; j > 0; j--) {
      int64_t a = 0, b = 0;
      for (uint32_t q = 0; q < acc.n; q++)
        if (acc.v[q].store) a = address_coef(&k->e, acc.v[q].address, domain->v[j - 1]), b = address_coef(&k->e, acc.v[q].address, domain->v[j]);
      if (a < 0 || b < 0 || a >= b) break; /* symbolic strides keep their order */
      atom t = domain->v[j];
      domain->v[j] = domain->v[j - 1], domain->v[j - 1] = t;
    }
}

static void one_group(kctx *k, const u32vec *group) {
  ectx *e = &k->e;
  ctx *c = k->c;
  u32vec domain = {0}, red = {0};
  stage_domain(k, group->v[0], &domain);
  leader_red(k, group->v[0], &red);
  bool reduces = exn(k->m, xs(k->m, group->v[0])->value)->kind == EX_REDUCE;
  if (k->p->level > 0) order_by_store(k, group, &domain);
  if (k->p->level > 0 && !reduces)
    for (uint32_t i = domain.n; i-- > 1;) merge_pair(k, group, &domain, i - 1);
  accesses acc = {0};
  group_accesses(e, group, k->stored, &acc);
  choice ch = {.mr = 1, .nv = 1};
  if (k->p->level > 0) ch = tile_choose(e, group, &acc, &domain, &red);
  nest n = make_nest(k, group, &domain, ch, &acc);
  /* chunks: the shortest prefix of the remaining variables with enough points, flattened; else rows, else lanes */
  nvar *rest = n.inner.v;
  uint32_t nrest = n.inner.n, take = 0;
  sz points = sym_int(c, 1);
  const int64_t enough = 16;
  while (take < nrest && sym_int_or(c, points, enough) < enough) points = sym_mul(c, points, rest[take++].extent);
  lv lo = lb_lo(&e->b), hi = lb_hi(&e->b);
  int64_t np = sym_int_or(c, points, enough);
  int64_t rext = ch.row ? ext_of(k, ch.row, 1024) : 0, lext = ch.lane && !ch.lane_reduced ? ext_of(k, ch.lane, 1 << 16) : 0;
  uint32_t L = nest_lanes(e, group);
  int64_t rb = ch.row ? (rext / 12 + ch.mr - 1) / ch.mr * ch.mr : 0;
  if (rb < ch.mr) rb = ch.mr;
  int64_t rchunks = ch.row ? (rext + rb - 1) / rb : 0;
  int64_t W = (int64_t)n.nv * L, lb = W;
  if (!reduces && lext) lb = (4096 + W - 1) / W * W;
  int64_t lchunks = lext ? (lext + lb - 1) / lb : 0;
  /* panels of a run-time operand are packed where they are used: a thread should own whole panels */
  bool by_panels = false;
  for (uint32_t i = 0; i < acc.n && ch.row && ch.lane_outer; i++) by_panels |= acc.v[i].load == ch.lane_load && !acc.v[i].constant && lchunks >= 8;
  if (!by_panels && take && (np >= rchunks && np >= lchunks)) {
    if (take == 1) {
      rest[0].lo = lo, rest[0].hi = hi;
    } else {
      sz w = sym_var(c, "chunk", points), rem = w;
      atom wa;
      if (!sym_is_atom(c, w, &wa)) ctx_bug(c, "schedule: chunk variable");
      for (uint32_t i = take; i-- > 0;) {
        emit_bind_ex(e, (binding){.var = rest[i].var, .subst = i ? rest_of(c, rem, rest[i].extent) : rem});
        rem = quot(c, rem, rest[i].extent);
      }
      rest[take - 1] = (nvar){.var = wa, .extent = points, .lo = lo, .hi = hi};
      for (uint32_t i = take - 1; i < nrest; i++) rest[i - (take - 1)] = rest[i];
      n.inner.n -= take - 1;
    }
    k->l.chunks = points;
  } else if (!by_panels && ch.row && rchunks > 1 && rchunks >= lchunks) {
    lv end = emit_size(e, n.row.extent);
    n.row.lo = lb_muli(&e->b, lo, rb);
    n.row.hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_muli(&e->b, hi, rb), end, 0);
    k->l.chunks = sym_ceildiv(c, n.row.extent, sym_int(c, rb));
  } else if (lchunks > 1) {
    lv end = emit_size(e, n.lane.extent);
    n.lane.lo = lb_muli(&e->b, lo, lb);
    n.lane.hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_muli(&e->b, hi, lb), end, 0);
    k->l.chunks = sym_ceildiv(c, n.lane.extent, sym_int(c, lb));
  } else {
    k->l.chunks = sym_int(c, 1);
  }
  if (k->p->level > 0) {
    accesses again = {0}; /* addresses with the flattened variable in them */
    group_accesses(e, group, k->stored, &again);
    add_packs(k, &n, &again, &ch);
  }
  nest_emit(e, &n);
}

/* ---- several groups ---- */
static bool needs_memory(kctx *k, tid t) {
  uint64_t d;
  return map_getu(k->stored, t, &d);
}
static void local_layout(kctx *k, uint32_t si, atom block, sz block_start, sz block_size) {
  stage *s = xs(k->m, si);
  tensor *t = xt(k->m, s->tensor);
  ctx *c = k->c;
  layout *l = NEW(k->a, layout);
  const layout *g = &k->p->layouts[s->tensor];
  *l = (layout){.known = true, .rank = s->naxes, .axes = NEWN(k->a, laxis, s->naxes ? s->naxes : 1), .base = sym_int(c, 0)};
  /* axes in the order of the global layout, outer variables take no room */
  uint32_t order[MAX_RANK];
  for (uint32_t i = 0; i < s->naxes; i++) order[i] = i;
  for (uint32_t i = 1; i < s->naxes; i++)
    for (uint32_t j = i; j > 0; j--) {
      int64_t a = 0, b = 0;
      if (g->known && g->axes[order[j - 1]].n && g->axes[order[j]].n) {
        a = sym_int_or(c, g->axes[order[j - 1]].d[g->axes[order[j - 1]].n - 1].stride, -1);
        b = sym_int_or(c, g->axes[order[j]].d[g->axes[order[j]].n - 1].stride, -1);
      }
      if (a < 0 || b < 0 || a >= b) break;
      uint32_t x = order[j];
      order[j] = order[j - 1], order[j - 1] = x;
    }
  sz stride = sym_int(c, 1);
  for (uint32_t q = s->naxes; q-- > 0;) {
    axis *x = &s->axes[order[q]];
    ldigit *d = NEWN(k->a, ldigit, x->n ? x->n : 1);
    for (uint32_t j = x->n; j-- > 0;) {
      atom v = canon_of(k, x->d[j].var);
      sz ext = x->d[j].extent;
      d[j] = (ldigit){ext, sym_int(c, 0)};
      if (v == block) {
        d[j].stride = stride;
        l->base = sym_sub(c, l->base, sym_mul(c, block_start, stride));
        stride = sym_mul(c, stride, block_size);
      } else if (!has(&k->outer, v)) {
        d[j].stride = stride;
        stride = sym_mul(c, stride, ext);
      }
    }
    if (!x->n) d[0] = (ldigit){t->shape[order[q]], sym_int(c, 0)};
    l->axes[order[q]] = (laxis){.n = x->n ? x->n : 1, .d = d};
  }
  lv ptr = scratch_take(k, t->type, stride);
  vec_push(k->a, k->e.locals, ((local){.t = s->tensor, .lay = l, .ptr = ptr}));
  map_putu(k->stored, s->tensor, 1);
}

typedef struct grp { u32vec stages, domain, red; choice ch; } grp;
typedef VEC(grp) grps;

static void form_groups(kctx *k, const u32vec *stages, grps *out) {
  for (uint32_t i = 0; i < stages->n; i++) {
    uint32_t si = stages->v[i];
    stage *s = xs(k->m, si);
    u32vec dom = {0};
    stage_domain(k, si, &dom);
    bool tile = k->cls == KC_CONTRACTION || k->cls == KC_STENCIL || k->cls == KC_MATVEC; /* two products into one accumulator: both are leaders */
    const ex_node *root = s->value ? exn(k->m, s->value) : NULL;
    if (out->n && k->p->level > 0 && !s->updates.n && (!contains_reduce(k, s->value) || (tile && root->kind == EX_REDUCE && !schedule_is_arg((rop)root->op)))) {
      grp *g = &out->v[out->n - 1];
      if (!xs(k->m, g->stages.v[0])->updates.n && same_set(&g->domain, &dom) && reads_at_point(k, si, &g->stages)) {
        vec_push(k->a, g->stages, si);
        continue;
      }
    }
    grp g = {0};
    vec_push(k->a, g.stages, si);
    g.domain = dom;
    leader_red(k, si, &g.red);
    vec_push(k->a, *out, g);
  }
}
static void group_nest(kctx *k, grp *g, atom block, lv blo, lv bhi) {
  ectx *e = &k->e;
  uint32_t si = g->stages.v[0];
  if (xs(k->m, si)->updates.n) {
    if (xs(k->m, si)->value) {
      u32vec dom = {0};
      accesses acc = {0};
      stage_domain(k, si, &dom);
      nest n = make_nest(k, &g->stages, &dom, (choice){.mr = 1, .nv = 1}, &acc);
      nest_emit(e, &n);
    }
    nest_update(e, si, k->stored);
    return;
  }
  u32vec dom = {0};
  for (uint32_t i = 0; i < g->domain.n; i++)
    if (g->domain.v[i] == block || !has(&k->outer, g->domain.v[i])) vec_push(k->a, dom, g->domain.v[i]);
  accesses acc = {0};
  group_accesses(e, &g->stages, k->stored, &acc);
  choice ch = {.mr = 1, .nv = 1};
  if (k->p->level > 0) ch = tile_choose(e, &g->stages, &acc, &dom, &g->red);
  nest n = make_nest(k, &g->stages, &dom, ch, &acc);
  if (block && blo) {
    if (n.row.var == block) n.row.lo = blo, n.row.hi = bhi;
    if (n.lane.var == block) n.lane.lo = blo, n.lane.hi = bhi;
    for (uint32_t i = 0; i < n.inner.n; i++)
      if (n.inner.v[i].var == block) n.inner.v[i].lo = blo, n.inner.v[i].hi = bhi;
    for (uint32_t i = 0; i < n.outer.n; i++)
      if (n.outer.v[i].var == block) n.outer.v[i].lo = blo, n.outer.v[i].hi = bhi;
  }
  if (k->p->level > 0) add_packs(k, &n, &acc, &ch);
  nest_emit(e, &n);
}
/* tensors handed from one group to a later one get a scratch layout, unless they lie in memory anyway or are scalars of this point */
static void hand_over(kctx *k, grps *gs, atom block, sz bstart, sz bsize) {
  for (uint32_t g = 0; g < gs->n; g++)
    for (uint32_t i = 0; i < gs->v[g].stages.n; i++) {
      uint32_t si = gs->v[g].stages.v[i];
      tid t = xs(k->m, si)->tensor;
      if (needs_memory(k, t)) continue;
      bool used = false;
      for (uint32_t h = g + 1; h < gs->n && !used; h++)
        for (uint32_t j = 0; j < gs->v[h].stages.n && !used; j++) {
          u32vec loads = {0};
          expr_loads(k->m, xs(k->m, gs->v[h].stages.v[j])->value, k->a, &loads);
          for (uint32_t q = 0; q < loads.n; q++) used |= exn(k->m, loads.v[q])->tensor == t;
        }
      if (!used) continue;
      bool scalar = true;
      for (uint32_t d = 0; d < gs->v[g].domain.n; d++) scalar &= has(&k->outer, gs->v[g].domain.v[d]) && gs->v[g].domain.v[d] != block;
      if (!scalar) local_layout(k, si, block, bstart, bsize);
    }
}
static void many_groups(kctx *k, grps *gs) {
  ectx *e = &k->e;
  ctx *c = k->c;
  /* One of the shared variables goes inside the nests, a block of its values at a time: the row variable of a contraction in here, else the variable over which the groups would run their lanes. */
  atom block = 0, strip = 0;
  for (uint32_t g = 0; g < gs->n && !block && k->p->level > 0; g++) {
    grp *q = &gs->v[g];
    accesses acc = {0};
    if (xs(k->m, q->stages.v[0])->updates.n) continue;
    group_accesses(e, &q->stages, k->stored, &acc);
    choice ch = tile_choose(e, &q->stages, &acc, &q->domain, &q->red);
    if (!ch.lane || ch.lane_reduced) continue;
    if (has(&k->outer, ch.lane)) {
      if (!strip) strip = ch.lane;
    } else if (q->red.n && ch.row && has(&k->outer, ch.row)) block = ch.row;
  }
  int64_t bs = block ? min64(64, ext_of(k, block, 64)) : 1;
  if (!block && strip) {
    block = strip;
    bs = ext_of(k, strip, 256);
    if (bs > 512) bs = 256;
  }
  sz nblocks = block ? sym_ceildiv(c, sym_extent(c, block), sym_int(c, bs)) : sym_int(c, 1), points = nblocks;
  for (uint32_t i = 0; i < k->outer.n; i++)
    if (k->outer.v[i] != block) points = sym_mul(c, points, sym_extent(c, k->outer.v[i]));
  k->l.chunks = points;
  sz w = sym_var(c, "point", points), rem = w, bstart = 0;
  atom wa = 0;
  sym_is_atom(c, w, &wa);
  if (block) {
    bstart = sym_muli(c, rest_of(c, rem, nblocks), bs);
    rem = quot(c, rem, nblocks);
  }
  for (uint32_t i = k->outer.n; i-- > 0;) {
    atom v = k->outer.v[i];
    if (v == block) continue;
    emit_bind_ex(e, (binding){.var = v, .subst = rest_of(c, rem, sym_extent(c, v))});
    rem = quot(c, rem, sym_extent(c, v));
  }
  hand_over(k, gs, block, bstart, sym_int(c, bs));
  lv i;
  lb_for(&e->b, "point", lb_lo(&e->b), lb_hi(&e->b), lb_int(&e->b, 1), 0, &i);
  emit_scope(e);
  if (wa) emit_bind(e, wa, i);
  lv blo = 0, bhi = 0;
  if (block && sym_int_or(c, nblocks, 2) > 1) {
    blo = emit_size(e, bstart);
    bhi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, blo, bs), emit_size(e, sym_extent(c, block)), 0);
  }
  for (uint32_t g = 0; g < gs->n; g++) group_nest(k, &gs->v[g], block, blo, bhi);
  emit_unscope(e);
  lb_end(&e->b);
}
static void recurrence(kctx *k, grps *gs, uint32_t scan) {
  ectx *e = &k->e;
  k->l.chunks = sym_int(k->c, 1);
  atom t = k->m->scans.v[scan].var;
  k->outer.n = 0;
  if (t) vec_push(k->a, k->outer, t);
  hand_over(k, gs, 0, 0, 0);
  lv i;
  if (t) {
    lb_for(&e->b, "step", lb_int(&e->b, 0), emit_size(e, k->m->scans.v[scan].extent), lb_int(&e->b, 1), 0, &i);
    emit_scope(e);
    emit_bind(e, t, i);
  }
  for (uint32_t g = 0; g < gs->n; g++) group_nest(k, &gs->v[g], 0, 0, 0);
  if (t) {
    emit_unscope(e);
    lb_end(&e->b);
  }
}

static double ops_of(kctx *k, ex x) { /* scalar operations of one point, loads not counted */
  u32vec loads = {0};
  expr_loads(k->m, x, k->a, &loads);
  return (double)(expr_cost(k->m, x) - loads.n);
}
static uint64_t work_of(kctx *k, const u32vec *stages) { /* scalar operations, sizes not known count as 64 */
  double w = 0;
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(k->m, stages->v[i]);
    double pts = 1;
    for (uint32_t j = 0; j < s->naxes; j++)
      for (uint32_t d = 0; d < s->axes[j].n; d++) pts *= (double)sym_int_or(k->c, s->axes[j].d[d].extent, 64);
    if (s->value) {
      const ex_node *n = exn(k->m, s->value);
      double trips = 1;
      if (n->kind == EX_REDUCE)
        for (uint32_t j = 0; j < n->nargs; j++) trips *= (double)sym_int_or(k->c, sym_extent(k->c, n->args[j]), 64);
      w += pts * trips * (ops_of(k, n->kind == EX_REDUCE ? n->body : s->value) + (n->kind == EX_REDUCE));
    }
    for (uint32_t u = 0; u < s->updates.n; u++) {
      double q = 1;
      for (uint32_t j = 0; j < s->updates.v[u].nvars; j++) q *= (double)sym_int_or(k->c, sym_extent(k->c, s->updates.v[u].vars[j]), 64);
      w += q * 4;
    }
  }
  return w > 1e18 ? (uint64_t)1e18 : (uint64_t)w;
}

void kernel_schedule(splan *p, const u32vec *stages, const u32vec *outer, const map *canon, uint32_t kernel, uint32_t block, uint32_t item) {
  kctx k = {.p = p, .m = p->m, .c = p->m->c, .a = p->l->a, .canon = canon};
  lfunc *f = loop_func(p->l, LF_KERNEL, arena_fmt(k.a, "k%u", p->launches.n), "");
  k.l = (launch){.func = f, .kernel = kernel, .block = block, .item = item, .chunks = sym_int(k.c, 1)};
  k.cls = kernel != UINT32_MAX ? p->m->kernels.v[kernel].cls : 0;
  emit_begin(&k.e, p, f, &k.l);
  k.scratch = sym_int(k.c, 0);
  k.stored = map_new(k.a);
  if (outer)
    for (uint32_t i = 0; i < outer->n; i++) vec_push(k.a, k.outer, outer->v[i]);
  sbuf note = sbuf_new(k.a);
  uint32_t scan = 0;
  bool updates = false;
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(p->m, stages->v[i]);
    if (layout_materialised(p, s->tensor)) map_putu(k.stored, s->tensor, 1);
    if (s->scan) scan = s->scan;
    updates |= s->updates.n > 0;
    sb_fmt(&note, "%s%s", i ? " " : "", xt(p->m, s->tensor)->name);
    for (uint32_t j = 0; canon && j < s->naxes; j++)
      for (uint32_t d = 0; d < s->axes[j].n; d++) {
        atom v = s->axes[j].d[d].var, cv = canon_of(&k, v);
        if (v != cv) emit_bind_ex(&k.e, (binding){.var = v, .subst = sym_of_atom(k.c, cv)});
      }
  }
  f->note = note.s ? note.s : "";
  grps gs = {0};
  form_groups(&k, stages, &gs);
  if (scan) recurrence(&k, &gs, scan);
  else if (gs.n == 1 && !updates) one_group(&k, &gs.v[0].stages);
  else if (updates) {
    k.outer.n = 0;
    many_groups(&k, &gs);
  } else many_groups(&k, &gs);
  if (k.scratch_ptr) k.l.args.v[k.scratch_arg].size = k.scratch;
  k.l.scratch = k.scratch;
  k.l.flops = work_of(&k, stages);
  k.l.parallel = k.l.flops > 60000 && sym_int_or(k.c, k.l.chunks, 2) > 1;
  vec_push(k.a, p->launches, k.l);
}

/* Fills the halo of a buffer with its constant: slabs before and after each axis that has one. */
void kernel_fill_halo(splan *p, uint32_t buffer, tid t, uint32_t block, uint32_t item) {
  kctx k = {.p = p, .m = p->m, .c = p->m->c, .a = p->l->a};
  lfunc *f = loop_func(p->l, LF_KERNEL, arena_fmt(k.a, "k%u", p->launches.n), arena_fmt(k.a, "halo of %s", p->buffers.v[buffer].name));
  k.l = (launch){.func = f, .kernel = UINT32_MAX, .block = block, .item = item, .chunks = sym_int(k.c, 1)};
  emit_begin(&k.e, p, f, &k.l);
  const layout *l = &p->layouts[t];
  tensor *x = xt(p->m, t);
  lbuild *b = &k.e.b;
  lv ptr = emit_buffer(&k.e, buffer, true);
  uint32_t by[MAX_RANK]; /* axes by stride, outer to inner */
  for (uint32_t i = 0; i < l->rank; i++) by[i] = i;
  for (uint32_t i = 1; i < l->rank; i++)
    for (uint32_t j = i; j > 0 && sym_le(k.c, l->axes[by[j - 1]].d[0].stride, l->axes[by[j]].d[0].stride) && l->axes[by[j - 1]].d[0].stride != l->axes[by[j]].d[0].stride; j--) {
      uint32_t q = by[j];
      by[j] = by[j - 1], by[j - 1] = q;
    }
  for (uint32_t ax = 0; ax < l->rank; ax++)
    for (int side = 0; side < 2; side++) {
      sz w = side ? l->axes[ax].hi : l->axes[ax].lo;
      if (!w || sym_int_or(k.c, w, 1) == 0) continue;
      lv at = emit_size(&k.e, l->base);
      uint32_t depth = 0;
      lv inner_n = 0;
      for (uint32_t q = 0; q < l->rank; q++) {
        uint32_t i = by[q];
        const laxis *y = &l->axes[i];
        sz from = y->lo ? sym_neg(k.c, y->lo) : sym_int(k.c, 0), to = y->hi ? sym_add(k.c, x->shape[i], y->hi) : x->shape[i];
        if (i == ax) from = side ? x->shape[i] : from, to = side ? to : sym_int(k.c, 0);
        lv v, st = emit_size(&k.e, y->d[0].stride);
        if (q + 1 == l->rank && sym_int_or(k.c, y->d[0].stride, 0) == 1) { /* a run: vectors */
          at = lb_add(b, at, emit_size(&k.e, from));
          inner_n = emit_size(&k.e, sym_sub(k.c, to, from));
          break;
        }
        lb_for(b, "i", emit_size(&k.e, from), emit_size(&k.e, to), lb_int(b, 1), 0, &v);
        depth++;
        at = lb_add(b, at, lb_mul(b, v, st));
      }
      uint32_t L = target_lanes(p->t, x->type);
      if (inner_n && p->t->masks && L > 1) {
        lv v;
        lb_for(b, "v", lb_int(b, 0), inner_n, lb_int(b, L), 0, &v);
        lv left = lb_op(b, OP_MIN, lt(ET_I64, 1), lb_sub(b, inner_n, v), lb_int(b, L), 0);
        lb_store_ex(b, ptr, lb_add(b, at, v), lb_const(b, lt(x->type, L), p->buffers.v[buffer].fill), 0, left, 0, 0);
        lb_end(b);
      } else if (inner_n) {
        lv v;
        lb_for(b, "v", lb_int(b, 0), inner_n, lb_int(b, 1), 0, &v);
        lb_store(b, ptr, lb_add(b, at, v), lb_const(b, lt(x->type, 1), p->buffers.v[buffer].fill));
        lb_end(b);
      } else lb_store(b, ptr, at, lb_const(b, lt(x->type, 1), p->buffers.v[buffer].fill));
      while (depth--) lb_end(b);
    }
  vec_push(k.a, p->launches, k.l);
}
