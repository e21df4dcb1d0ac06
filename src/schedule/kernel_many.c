/* How does a kernel of several groups run? Chunks are points of the variables all share, or blocks of one of them; in each the groups' nests follow one another, and hand over through scratch what is not stored anyway. */
#include "schedule/kernel_in.h"

enum { ROWS = 8, SHORT_ROW = 512 /* points */ };

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
      atom v = kernel_canon(k, x->d[j].var);
      sz ext = x->d[j].extent;
      d[j] = (ldigit){ext, sym_int(c, 0)};
      if (v == block) {
        d[j].stride = stride;
        l->base = sym_sub(c, l->base, sym_mul(c, EK_PLANTED("schedule-groups") ? sym_int(c, 0) : block_start, stride));
        stride = sym_mul(c, stride, block_size);
      } else if (!vec_has(&k->outer, v)) {
        d[j].stride = stride;
        stride = sym_mul(c, stride, ext);
      }
    }
    if (!x->n) d[0] = (ldigit){t->shape[order[q]], sym_int(c, 0)};
    l->axes[order[q]] = (laxis){.n = x->n ? x->n : 1, .d = d};
  }
  lv ptr = kernel_scratch(k, t->type, stride);
  vec_push(k->a, k->e.locals, ((local){.t = s->tensor, .lay = l, .ptr = ptr}));
  map_putu(k->stored, s->tensor, 1);
}

void kernel_group_nest(kctx *k, grp *g, atom block, lv blo, lv bhi) {
  ectx *e = &k->e;
  uint32_t si = g->stages.v[0];
  if (xs(k->m, si)->updates.n) {
    if (xs(k->m, si)->value) {
      u32vec dom = {0};
      accesses acc = {0};
      kernel_domain(k, si, &dom);
      nest n = kernel_nest(k, &g->stages, &dom, (choice){.mr = 1, .nv = 1}, &acc);
      nest_emit(e, &n);
    }
    nest_update(e, si, k->stored);
    return;
  }
  u32vec dom = {0};
  for (uint32_t i = 0; i < g->domain.n; i++)
    if (g->domain.v[i] == block || !vec_has(&k->outer, g->domain.v[i])) vec_push(k->a, dom, g->domain.v[i]);
  accesses acc = {0};
  group_accesses(e, &g->stages, k->stored, &acc);
  choice ch = {.mr = 1, .nv = 1};
  if (k->p->level > 0) ch = tile_choose(e, &g->stages, &acc, &dom, &g->red);
  kernel_narrow(k, &ch, nest_lanes(e, &g->stages));
  nest n = kernel_nest(k, &g->stages, &dom, ch, &acc);
  if (block && blo) {
    if (n.row.var == block) n.row.lo = blo, n.row.hi = bhi;
    if (n.lane.var == block) n.lane.lo = blo, n.lane.hi = bhi;
    for (uint32_t i = 0; i < n.inner.n; i++)
      if (n.inner.v[i].var == block) n.inner.v[i].lo = blo, n.inner.v[i].hi = bhi;
    for (uint32_t i = 0; i < n.outer.n; i++)
      if (n.outer.v[i].var == block) n.outer.v[i].lo = blo, n.outer.v[i].hi = bhi;
  }
  if (k->p->level > 0) kernel_packs(k, &n, &acc, &ch), kernel_prepare(k, &n);
  kernel_emit(k, &n);
}
/* a placement inside the kernel, and its pieces */
static void hand_placement(kctx *k, uint32_t si) {
  const stage *s = xs(k->m, si);
  local_layout(k, si, 0, 0, 0);
  local whole = k->e.locals.v[k->e.locals.n - 1];
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    tid t = exn(k->m, u->value)->tensor;
    layout *l = NEW(k->a, layout);
    if (!layout_piece(k->p, u->idx, u->value, whole.lay, l)) ctx_bug(k->c, "schedule: tensor %s cannot be stored inside %s", xt(k->m, t)->name, xt(k->m, s->tensor)->name);
    vec_push(k->a, k->e.locals, ((local){.t = t, .lay = l, .ptr = whole.ptr}));
    map_putu(k->stored, t, 1);
  }
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
      for (uint32_t d = 0; d < gs->v[g].domain.n; d++) scalar &= vec_has(&k->outer, gs->v[g].domain.v[d]) && gs->v[g].domain.v[d] != block;
      if (!scalar && !EK_PLANTED("schedule-hand-over")) local_layout(k, si, block, bstart, bsize);
    }
}
/* Opens a condition where a group has fewer points of a shared variable than there are. */
static bool open_guard(kctx *k, const grp *g) {
  ectx *e = &k->e;
  const stage *s = xs(k->m, g->stages.v[0]);
  lv all = 0;
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      atom v = kernel_canon(k, s->axes[i].d[j].var);
      if (!vec_has(&k->outer, v) || sym_eq(k->c, sym_extent(k->c, v), s->axes[i].d[j].extent)) continue;
      lv in = lb_op(&e->b, OP_LT, lt(ET_BOOL, 1), emit_size(e, sym_of_atom(k->c, v)), emit_size(e, s->axes[i].d[j].extent), 0);
      all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, in, 0) : in;
    }
  if (all && !EK_PLANTED("schedule-blocks")) lb_if(&e->b, all);
  return all && !EK_PLANTED("schedule-blocks");
}
/* Sums along rows end in a chain of dependent steps, as long as the work of a short row: several such rows go through the groups together. Their variable; 0: rows are long, or there is only one. */
static atom short_rows(kctx *k, const grps *gs) {
  atom v = k->outer.n ? k->outer.v[k->outer.n - 1] : 0;
  bool sums = false;
  if (!v || k->p->level == 0 || k->cls != KC_ROW || kernel_extent(k, v, 2 * ROWS) < 2 * ROWS) return 0;
  for (uint32_t g = 0; g < gs->n; g++) {
    const grp *q = &gs->v[g];
    int64_t points = 1;
    if (xs(k->m, q->stages.v[0])->updates.n || !vec_has(&q->domain, v)) return 0;
    for (uint32_t i = 0; i < q->domain.n + q->red.n; i++) {
      atom x = i < q->domain.n ? q->domain.v[i] : q->red.v[i - q->domain.n];
      if (!vec_has(&k->outer, x) && !mul64(points, kernel_extent(k, x, SHORT_ROW), &points)) return 0;
    }
    if (points > SHORT_ROW) return 0;
    sums |= q->red.n > 0;
  }
  return sums ? v : 0;
}
void kernel_many(kctx *k, grps *gs) {
  ectx *e = &k->e;
  ctx *c = k->c;
  kernel_runs(k, &k->outer);
  /* One of the shared variables goes inside the nests, a block of its values at a time: the row variable of a contraction in here, else the variable over which the groups would run their lanes. */
  atom block = 0, strip = 0;
  for (uint32_t g = 0; g < gs->n && !block && k->p->level > 0 && k->cls != KC_BLOCKS; g++) {
    grp *q = &gs->v[g];
    accesses acc = {0};
    if (xs(k->m, q->stages.v[0])->updates.n) continue;
    group_accesses(e, &q->stages, k->stored, &acc);
    choice ch = tile_choose(e, &q->stages, &acc, &q->domain, &q->red);
    if (!ch.lane || ch.lane_reduced) continue;
    if (vec_has(&k->outer, ch.lane)) {
      if (!strip) strip = ch.lane;
    } else if (q->red.n && ch.row && vec_has(&k->outer, ch.row)) block = ch.row;
  }
  int64_t bs = block ? min64(64, kernel_extent(k, block, 64)) : 1;
  if (!block && strip) {
    block = strip;
    bs = kernel_extent(k, strip, 256);
    if (bs > 512) bs = 256;
  }
  if (!block && (block = short_rows(k, gs))) bs = ROWS;
  if (bs < 1) bs = 1; /* of nothing */
  sz nblocks = block ? sym_ceildiv(c, sym_extent(c, block), sym_int(c, bs)) : sym_int(c, 1), points = nblocks;
  for (uint32_t i = 0; i < k->outer.n; i++)
    if (k->outer.v[i] != block) points = sym_mul(c, points, sym_extent(c, k->outer.v[i]));
  k->l.chunks = points;
  sz w = sym_var(c, "point", points), rem = w, bstart = 0;
  atom wa = 0;
  sym_is_atom(c, w, &wa);
  if (block) {
    bstart = sym_muli(c, kernel_rem(c, rem, nblocks), bs);
    rem = kernel_quot(c, rem, nblocks);
  }
  for (uint32_t i = k->outer.n; i-- > 0;) {
    atom v = k->outer.v[i];
    if (v == block) continue;
    emit_bind_ex(e, (binding){.var = v, .subst = kernel_rem(c, rem, sym_extent(c, v))});
    rem = kernel_quot(c, rem, sym_extent(c, v));
  }
  for (uint32_t i = 0; i < k->l.stages.n; i++)
    if (layout_inside(k->m, xs(k->m, k->l.stages.v[i]))) hand_placement(k, k->l.stages.v[i]);
  hand_over(k, gs, block, bstart, sym_int(c, bs));
  lv i;
  lb_for(&e->b, "point", lb_lo(&e->b), lb_hi(&e->b), lb_int(&e->b, 1), 0, &i);
  emit_scope(e);
  if (wa) emit_bind(e, wa, i);
  lv blo = 0, bhi = 0;
  if (block && sym_int_or(c, nblocks, 2) > 1) {
    blo = emit_size(e, bstart);
    bhi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, blo, bs - EK_PLANTED("schedule-strips")), emit_size(e, sym_extent(c, block)), 0);
  }
  for (uint32_t g = 0; g < gs->n; g++) {
    bool guarded = open_guard(k, &gs->v[g]);
    kernel_group_nest(k, &gs->v[g], block, blo, bhi);
    if (guarded) lb_end(&e->b);
  }
  emit_unscope(e);
  lb_end(&e->b);
}
