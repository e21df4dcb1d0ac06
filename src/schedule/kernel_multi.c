/* How does a kernel of several groups run? Chunks are points of the variables all share, or blocks of one of them;
 * in each the groups' nests follow one another, and hand over through scratch what is not stored anyway. */
#include "schedule/halo.h"
#include "schedule/kernel_rolling.h"
#include "schedule/layout.h"
#include <string.h>

static bool needs_memory(kctx *k, tid t) {
  uint64_t d;
  return map_getu(k->stored, t, &d);
}
static const shared_block *shared_block_of(const kctx *k, atom v) {
  for (uint32_t i = 0; i < k->nshared_blocks; i++)
    if (k->shared_blocks[i].var == v) return &k->shared_blocks[i];
  return k->rolling.stage && k->rolling.rows.var == v ? &k->rolling.rows : NULL;
}
/* Does axis x lie within axis y? An open stride is over a whole axis or more. */
static bool lies_within(ctx *c, const laxis *x, const laxis *y) {
  if (!x->n || !y->n) return false;
  sz a = x->d[x->n - 1].stride, b = y->d[y->n - 1].stride;
  bool known = sym_is_int(c, a, NULL), other = sym_is_int(c, b, NULL);
  return known != other ? known : a != b && sym_le(c, a, b);
}
/* Is it another part of the tensor in each point? Then it has no border that could be filled before. */
static bool moves(kctx *k, const stage *s) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      const shared_block *b = shared_block_of(k, kernel_canon(k, s->axes[i].d[j].var));
      if (b && !sym_is_int(k->c, b->start, NULL)) return true;
    }
  return false;
}
static void local_layout(kctx *k, uint32_t si) {
  stage *s = xs(k->m, si);
  tensor *t = xt(k->m, s->tensor);
  ctx *c = k->c;
  layout *l = NEW(k->a, layout);
  const layout *g = &k->p->layouts[s->tensor];
  *l = (layout){
      .known = true, .rank = s->naxes, .axes = NEWN(k->a, laxis, s->naxes ? s->naxes : 1), .base = sym_int(c, 0)};
  /* axes in the order of the global layout, outer variables take no room */
  uint32_t order[MAX_RANK];
  for (uint32_t i = 0; i < s->naxes; i++) order[i] = i;
  for (uint32_t i = 1; i < s->naxes; i++)
    for (uint32_t j = i; j > 0 && g->known && lies_within(c, &g->axes[order[j - 1]], &g->axes[order[j]]); j--) {
      uint32_t x = order[j];
      order[j] = order[j - 1], order[j - 1] = x;
    }
  sz stride = sym_int(c, 1);
  bool slides = k->rolling.stage == si + 1, border = g->fill && (slides || !moves(k, s));
  for (uint32_t i = s->naxes - 1; i > 0 && slides; i--) /* rows outermost */
    if (order[i] == k->rolling.window.axis) order[i] = order[i - 1], order[i - 1] = k->rolling.window.axis;
  for (uint32_t q = s->naxes; q-- > 0;) {
    axis *x = &s->axes[order[q]];
    if (g->together && g->pieces == order[q])
      stride = layout_padded_stride(k->p, stride, et_bytes(t->type), 1, g->together);
    ldigit *d = NEWN(k->a, ldigit, x->n ? x->n : 1);
    for (uint32_t j = x->n; j-- > 0;) {
      atom v = kernel_canon(k, x->d[j].var);
      sz ext = x->d[j].extent;
      d[j] = (ldigit){ext, sym_int(c, 0)};
      const shared_block *b = shared_block_of(k, v);
      if (b) {
        d[j].stride = stride;
        l->base = sym_sub(c, l->base, sym_mul(c, EK_PLANTED("schedule-groups") ? sym_int(c, 0) : b->start, stride));
        stride = sym_muli(c, stride, b->size);
      } else if (!vec_has(&k->outer, v)) {
        d[j].stride = stride;
        stride = sym_mul(c, stride, ext);
      }
    }
    if (!x->n) d[0] = (ldigit){t->shape[order[q]], sym_int(c, 0)};
    laxis *y = &l->axes[order[q]];
    *y = (laxis){.n = x->n ? x->n : 1, .d = d};
    if (!border || x->n != 1 || sym_int_or(c, d[0].stride, 1) == 0) continue;
    l->fill = g->fill;
    if (slides && order[q] == k->rolling.window.axis) {
      rolling_border(k, y);
      continue;
    }
    y->lo = g->axes[order[q]].lo, y->hi = g->axes[order[q]].hi;
    /* rows begin with a line */
    sz line = sym_int(c, d[0].stride == sym_int(c, 1) ? max64(1, (int64_t)k->p->t->line / et_bytes(t->type)) : 1);
    sz before = sym_mul(c, sym_ceildiv(c, y->lo, line), line),
       room = sym_add(c, before, sym_add(c, d[0].extent, y->hi));
    l->base = sym_add(c, l->base, sym_mul(c, before, d[0].stride));
    stride = sym_mul(c, sym_mul(c, sym_ceildiv(c, room, line), line), d[0].stride);
  }
  lv ptr = kernel_scratch(k, t->type, stride);
  if (slides)
    rolling_placed(k, l, ptr);
  else if (l->fill)
    halo_fill(&k->e, s->tensor, l, ptr);
  vec_push(k->a, k->e.view.locals, ((local){.t = s->tensor, .lay = l, .ptr = ptr}));
  map_putu(k->stored, s->tensor, 1);
}

static void confine(const kctx *k, nvar *v) {
  const shared_block *b = v->var ? shared_block_of(k, v->var) : NULL;
  if (b && b->lo) v->lo = b->lo, v->hi = b->hi, v->unit = b->unit ? b->unit : b->size, v->one_block = !b->unit;
}
static void whole_tiles(ectx *e, nvar *v, int64_t tile) {
  ltype i64 = lt(ET_I64, 1);
  lv t = lb_int(&e->b, tile), up = lb_addi(&e->b, v->hi, tile - 1);
  v->lo = lb_muli(&e->b, lb_op(&e->b, OP_IDIV, i64, v->lo, t, 0), tile);
  v->hi = lb_muli(&e->b, lb_op(&e->b, OP_IDIV, i64, up, t, 0), tile);
  v->hi = lb_op(&e->b, OP_MIN, i64, v->hi, emit_size(e, v->extent), 0), v->unit = tile;
}
/* Variables whose range the block at work leaves less of: only that is computed. The leader's range holds what its
 * followers have. */
static void confine_ranges(kctx *k, nest *n) {
  const stage *s = xs(k->m, n->stages.v[0]);
  var_spans of = {0};
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      atom own = s->axes[i].d[j].var, v = kernel_canon(k, own);
      nvar *x = n->lane.var == v && !n->lane_reduced ? &n->lane : NULL;
      for (uint32_t q = 0; q < n->inner.n; q++)
        if (n->inner.v[q].var == v) x = &n->inner.v[q];
      if (!x || x->lo || !expr_range(k->m, own)) continue;
      if (!of.n) nest_spans(&k->e, n, &of);
      if (!range_of(&k->e, own, &of, RANGE_IN_PANEL, &x->lo, &x->hi)) continue;
      x->unit = RANGE_IN_PANEL;
      if (x == &n->lane) whole_tiles(&k->e, x, (int64_t)n->nv * n->lanes);
    }
}
/* What is stated of one of several nests, and of the blocks around it, fits together. */
static void check_group(kctx *k, const nest *n) {
  const directive *block = stated(k, &n->stages, P_BLOCK), *strip = stated(k, &n->stages, P_STRIP);
  if (block && !directive_is(block, 0, "none"))
    kernel_refuse(k, block, "only a kernel of one nest has blocks for a cache");
  if (strip) kernel_refuse(k, strip, "only a kernel of one nest has strips");
}
/* Panels are counted from the first lane: blocks of lanes hold whole ones. */
static void check_panels(kctx *k, const nest *n) {
  const shared_block *b = n->packs.n ? shared_block_of(k, n->lane.var) : NULL;
  const int64_t width = (int64_t)n->nv * n->lanes;
  const directive *split;
  for (uint32_t at = 0; b && (split = stated_next(k, NULL, P_SPLIT, &at));)
    if (directive_is(split, 0, kernel_var_text(k, b->var)) && b->size % width &&
        b->size < kernel_extent(k, b->var, INT64_MAX))
      kernel_refuse(k, split, "%s: expected a multiple of the %lld lanes of a tile of nest %s", split->words.v[1],
                    (long long)width, kernel_nest_name(k, &n->stages));
}
static void group_values(kctx *k, grp *g, bool whole) { /* whole: the kernel's outer variables, too */
  ectx *e = &k->e;
  u32vec dom = {0};
  for (uint32_t i = 0; i < g->domain.n; i++)
    if (whole || shared_block_of(k, g->domain.v[i]) || !vec_has(&k->outer, g->domain.v[i]))
      vec_push(k->a, dom, g->domain.v[i]);
  accesses acc = {0};
  group_accesses(&e->view, &g->stages, k->stored, &acc);
  kernel_permute(k, &g->stages, &dom);
  choice ch = kernel_choice(k, &g->stages, &acc, &dom, &g->red);
  if (!stated(k, &g->stages, P_TILE)) kernel_narrow(k, &ch);
  if (!k->block || stated(k, &g->stages, P_ROWS))
    kernel_collapse_rows(&ch);
  else
    ch.collapsed_mr = 0;
  nest n = kernel_nest(k, &g->stages, &dom, ch, &acc);
  check_group(k, &n);
  confine(k, &n.row), confine(k, &n.lane);
  for (uint32_t i = 0; i < n.inner.n; i++) confine(k, &n.inner.v[i]);
  for (uint32_t i = 0; i < n.outer.n; i++) confine(k, &n.outer.v[i]);
  confine_ranges(k, &n);
  kernel_fold_rows(k, &n, &ch);
  kernel_collapsed_rows(k, &n, &ch);
  for (uint32_t i = 0; i < acc.n && k->point.var; i++) /* it chooses among constants */
    if (acc.v[i].constant && address_uses(&e->view, acc.v[i].address, k->point.var)) n.point = k->point;
  if (k->p->level > 0) kernel_packs(k, &n, &acc, &ch), kernel_prepare(k, &n);
  check_panels(k, &n);
  kernel_emit(k, &n);
}
void kernel_group_nest(kctx *k, grp *g) {
  const stage *s = xs(k->m, g->stages.v[0]);
  bool updates = s->updates.n != 0;
  const bool begun = k->p->begun && k->p->begun[s->tensor];
  if (s->value && !begun) group_values(k, g, updates);
  if (updates) nest_update(&k->e, g->stages.v[0], k->stored);
}
/* a placement inside the kernel, and its pieces */
static void hand_placement(kctx *k, uint32_t si) {
  const stage *s = xs(k->m, si);
  local_layout(k, si);
  local whole = k->e.view.locals.v[k->e.view.locals.n - 1];
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    tid t = exn(k->m, u->value)->tensor;
    layout *l = NEW(k->a, layout);
    if (!layout_piece(k->p, u->idx, u->value, whole.lay, l))
      ctx_bug(k->c, "schedule: tensor %s cannot be stored inside %s", xt(k->m, t)->name, xt(k->m, s->tensor)->name);
    vec_push(k->a, k->e.view.locals, ((local){.t = t, .lay = l, .ptr = whole.ptr}));
    map_putu(k->stored, t, 1);
  }
}
/* tensors handed from one group to a later one get a scratch layout, unless they lie in memory anyway or are scalars
 * of this point */
static void hand_over(kctx *k, grps *gs) {
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
      for (uint32_t d = 0; d < gs->v[g].domain.n; d++)
        scalar &= vec_has(&k->outer, gs->v[g].domain.v[d]) && !shared_block_of(k, gs->v[g].domain.v[d]);
      if (!scalar && !EK_PLANTED("schedule-hand-over")) local_layout(k, si);
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
      lv in = lb_op(&e->b, OP_LT, lt(ET_BOOL, 1), emit_size(e, sym_of_atom(k->c, v)),
                    emit_size(e, s->axes[i].d[j].extent), 0);
      all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, in, 0) : in;
    }
  if (all && !EK_PLANTED("schedule-blocks")) lb_if(&e->b, all);
  return all && !EK_PLANTED("schedule-blocks");
}
/* The nest that has fewer values of a shared variable than there are, and runs under a condition on it; NULL: none. */
static const grp *group_of_fewer(kctx *k, const grps *gs, atom v) {
  for (uint32_t g = 0; g < gs->n; g++) {
    const stage *s = xs(k->m, gs->v[g].stages.v[0]);
    for (uint32_t i = 0; i < s->naxes; i++)
      for (uint32_t j = 0; j < s->axes[i].n; j++)
        if (kernel_canon(k, s->axes[i].d[j].var) == v && !sym_eq(k->c, sym_extent(k->c, v), s->axes[i].d[j].extent))
          return &gs->v[g];
  }
  return NULL;
}
/* Is it a variable that all nests share, and have as many values of, so that these can be blocks? */
static bool may_be_blocks(kctx *k, const grps *gs, atom v) {
  return vec_has(&k->outer, v) && !group_of_fewer(k, gs, v);
}
/* Sums along rows end in a chain of dependent steps, as long as the work of a short row: several such rows go
 * through the groups together. Their variable; 0: rows are long, or there is only one. */
static atom short_rows(kctx *k, const grps *gs) {
  atom v = k->outer.n ? k->outer.v[k->outer.n - 1] : 0;
  bool sums = false;
  if (!v || k->p->level == 0 || k->cls != KC_ROW || !may_be_blocks(k, gs, v) ||
      kernel_extent(k, v, 2 * SHORT_ROWS) < 2 * SHORT_ROWS)
    return 0;
  for (uint32_t g = 0; g < gs->n; g++) {
    const grp *q = &gs->v[g];
    int64_t points = 1;
    if (xs(k->m, q->stages.v[0])->updates.n || !vec_has(&q->domain, v)) return 0;
    for (uint32_t i = 0; i < q->domain.n + q->red.n; i++) {
      atom x = i < q->domain.n ? q->domain.v[i] : q->red.v[i - q->domain.n];
      if (!vec_has(&k->outer, x) && !mul64(points, kernel_extent(k, x, SHORT_POINTS), &points)) return 0;
    }
    if (points > SHORT_POINTS) return 0;
    sums |= q->red.n > 0;
  }
  return sums ? v : 0;
}
/* What a block hands over at one value of its variables: what the product reads, and what it makes. */
static int64_t handed_over(kctx *k, const grps *gs) {
  int64_t all = 0;
  for (uint32_t i = 0; i < k->l.stages.n; i++) {
    uint32_t si = k->l.stages.v[i];
    const stage *s = xs(k->m, si);
    int64_t bytes = et_bytes(xt(k->m, s->tensor)->type);
    bool makes = layout_inside(k->m, s);
    for (uint32_t g = 0; g < gs->n && !makes; g++)
      makes = gs->v[g].red.n && vec_has(&gs->v[g].stages, si) && !needs_memory(k, s->tensor);
    for (uint32_t d = 0; d < s->naxes && makes; d++)
      for (uint32_t j = 0; j < s->axes[d].n; j++)
        if (!vec_has(&k->outer, kernel_canon(k, s->axes[d].d[j].var)) &&
            !mul64(bytes, kernel_extent(k, s->axes[d].d[j].var, 1), &bytes))
          return INT64_MAX;
    if (makes) all = min64(all + min64(bytes, SAT64), SAT64);
  }
  return all;
}
/* A block whose product has no rows left inside goes through the values of its last variable some at a time: whole
 * tiles, and of them as many as a quarter of the second cache holds. */
static void shared_block_size(kctx *k, const grps *gs, atom last) {
  for (uint32_t g = 0; g < gs->n; g++) {
    const grp *q = &gs->v[g];
    accesses acc = {0};
    u32vec inside = {0}, with = {0};
    if (!q->red.n || xs(k->m, q->stages.v[0])->updates.n || !vec_has(&q->domain, last)) continue;
    for (uint32_t i = 0; i < q->domain.n; i++) {
      if (!vec_has(&k->outer, q->domain.v[i])) vec_push(k->a, inside, q->domain.v[i]);
      if (!vec_has(&k->outer, q->domain.v[i]) || q->domain.v[i] == last) vec_push(k->a, with, q->domain.v[i]);
    }
    group_accesses(&k->e.view, &q->stages, k->stored, &acc);
    if (kernel_choice_among(k, &q->stages, &acc, &inside, &q->red).row) return;
    choice ch = kernel_choice_among(k, &q->stages, &acc, &with, &q->red);
    if (ch.row != last) return;
    const int64_t rows = cost_handed_rows(k->p->t, handed_over(k, gs), ch.mr);
    k->shared_blocks[k->nshared_blocks++] =
        (shared_block){.var = last, .size = min64(rows, kernel_extent(k, last, INT64_MAX))};
    return;
  }
}
/* How many lanes of a product are a block, for the threads? `whole`, but where that makes few blocks of all the
 * points, as far as these are known, an eighth of the lanes: at least four vectors, which are enough sums in flight. */
static int64_t lane_block(kctx *k, const choice *ch, atom row, int64_t whole) {
  const int64_t lanes = kernel_extent(k, ch->lane, INT64_MAX);
  int64_t blocks = (lanes - 1) / max64(whole, 1) + 1;
  for (uint32_t i = 0; i < k->outer.n && !cost_enough_blocks(blocks); i++) {
    int64_t n = sym_int_or(k->c, sym_extent(k->c, k->outer.v[i]), 1);
    if (k->outer.v[i] == row) n = cost_blocks_of_rows(n);
    if (k->outer.v[i] != ch->lane) blocks = sat_mul64(blocks, max64(n, 1));
  }
  const int64_t part = k->parallel ? cost_lane_part(lanes, ch->lanes, blocks, whole) : whole;
  if (part < whole) k->block = ch->lane, k->block_lanes = part;
  return part;
}
/* Shared variables that go inside the nests, a block of values at a time: the row variable of a product in here,
 * with the one over which its lanes run, else the variable over which the groups would run their lanes. */
static void choose_shared_blocks(kctx *k, const grps *gs) {
  atom along = 0;
  choice sum = {0}; /* the choice of the first product along the variable */
  if (k->p->level > 0 && k->cls == KC_BLOCKS) {
    const atom last = k->outer.n ? k->outer.v[k->outer.n - 1] : 0;
    if (!may_be_blocks(k, gs, last)) return;
    if (rolling_find(k, &k->shared_blocks[0]))
      k->nshared_blocks = 1;
    else
      shared_block_size(k, gs, last);
    return;
  }
  for (uint32_t g = 0; g < gs->n && !k->nshared_blocks && k->p->level > 0; g++) {
    const grp *q = &gs->v[g];
    accesses acc = {0};
    if (xs(k->m, q->stages.v[0])->updates.n) continue;
    group_accesses(&k->e.view, &q->stages, k->stored, &acc);
    choice ch = kernel_choice_among(k, &q->stages, &acc, &q->domain, &q->red);
    if (!ch.lane || ch.lane_reduced) continue;
    bool two = ch.collapsed_mr && may_be_blocks(k, gs, ch.collapsed[0]) && may_be_blocks(k, gs, ch.collapsed[1]);
    if (two) kernel_collapse_rows(&ch);
    bool lane = may_be_blocks(k, gs, ch.lane), row = q->red.n && ch.row && may_be_blocks(k, gs, ch.row);
    if (lane && !along) along = ch.lane;
    if (along && ch.lane == along && q->red.n && !sum.lane) sum = ch;
    if (!row || (lane && k->cls != KC_CONTRACTION)) continue;
    int64_t panel = (int64_t)ch.nv * ch.lanes;
    const int64_t rows = kernel_extent(k, ch.row, TYPICAL_EXTENT);
    shared_block of_lanes = {.var = ch.lane, .size = cost_shared_lanes(kernel_extent(k, ch.lane, INT64_MAX), panel)};
    if (lane && !two) of_lanes.size = lane_block(k, &ch, ch.row, of_lanes.size);
    /* first: a thread's points then have all lanes, of which there may be an odd number of blocks */
    if (two && lane) k->shared_blocks[k->nshared_blocks++] = of_lanes;
    k->shared_blocks[k->nshared_blocks++] =
        (shared_block){.var = ch.row, .size = two ? cost_shared_points(rows) : cost_shared_rows(rows, ch.mr)};
    if (ch.row2 && may_be_blocks(k, gs, ch.row2))
      k->shared_blocks[k->nshared_blocks++] =
          (shared_block){.var = ch.row2, .size = two ? MAX_COLLAPSED : kernel_row2_block(k, &ch)};
    if (!two && lane) k->shared_blocks[k->nshared_blocks++] = of_lanes;
  }
  if (k->nshared_blocks) return;
  int64_t size = along ? cost_shared_values(kernel_extent(k, along, INT64_MAX)) : SHORT_ROWS;
  if (sum.lane) size = lane_block(k, &sum, 0, size);
  if (along || (along = short_rows(k, gs)))
    k->shared_blocks[k->nshared_blocks++] = (shared_block){.var = along, .size = size};
}
static void record_shared_blocks(kctx *k) {
  for (uint32_t i = 0; i < k->nshared_blocks; i++) {
    directive *made = kernel_record_new(k, NULL, k->rolling.stage ? P_ROLL : P_SPLIT);
    kernel_record_word(k, made, kernel_var_text(k, k->shared_blocks[i].var));
    kernel_record_number(k, made, max64(k->shared_blocks[i].size, 1));
  }
  if (!k->nshared_blocks) kernel_record_word(k, kernel_record_new(k, NULL, P_SPLIT), "none");
}
/* Does the block of a directive lie at that place of the shared blocks? */
static bool is_block(kctx *k, const directive *d, uint32_t at) {
  const shared_block *b = &k->shared_blocks[at];
  return at < k->nshared_blocks && d->words.n == 2 && directive_is(d, 0, kernel_var_text(k, b->var)) &&
         kernel_number(k, d, d->words.v[1], 1, INT64_MAX) == max64(b->size, 1);
}
static void follow_split(kctx *k, const grps *gs, const directive *d) {
  if (d->words.n < 2 && directive_is(d, 0, "none")) return;
  if (d->words.n < 2) kernel_refuse(k, d, "expected %s", primitive_forms[P_SPLIT].words);
  const shared_block b = {.var = kernel_var(k, d, d->words.v[0], &k->outer),
                          .size = kernel_number(k, d, d->words.v[1], 1, INT32_MAX) + EK_PLANTED("follow-split")};
  const grp *fewer = group_of_fewer(k, gs, b.var);
  if (fewer)
    kernel_refuse(k, d, "nest %s has fewer values of %s than others", kernel_nest_name(k, &fewer->stages),
                  d->words.v[0]);
  if (shared_block_of(k, b.var)) kernel_refuse(k, d, "%s is split twice", d->words.v[0]);
  if (k->nshared_blocks == sizeof k->shared_blocks / sizeof *k->shared_blocks)
    kernel_refuse(k, d, "at most %u variables are split", k->nshared_blocks);
  k->shared_blocks[k->nshared_blocks++] = b;
}
/* The blocks of the shared variables: the default ones, unless others are stated. */
static void decide_shared_blocks(kctx *k, const grps *gs) {
  const directive *roll = stated(k, NULL, P_ROLL), *d;
  uint32_t n = 0;
  bool same = true;
  choose_shared_blocks(k, gs);
  if (roll && !EK_PLANTED("follow-roll") && (!k->rolling.stage || !is_block(k, roll, 0)))
    kernel_refuse(k, roll, "no window slides along %s by %s rows", roll->words.v[0], roll->words.v[1]);
  for (uint32_t at = 0; (d = stated_next(k, NULL, P_SPLIT, &at)); n++)
    same &= !k->rolling.stage && (is_block(k, d, n) || (directive_is(d, 0, "none") && !k->nshared_blocks));
  if (n && roll) kernel_refuse(k, roll, "a kernel that rolls is not split");
  if (!same || (n && n < k->nshared_blocks)) {
    k->nshared_blocks = 0, k->block = 0, k->block_lanes = 0, k->rolling = (rolling){0};
    for (uint32_t at = 0; (d = stated_next(k, NULL, P_SPLIT, &at));) follow_split(k, gs, d);
  }
  record_shared_blocks(k);
}
void kernel_multi(kctx *k, grps *gs) {
  ectx *e = &k->e;
  ctx *c = k->c;
  sz points = sym_int(c, 1), blocks[3];
  kernel_runs(k, &k->outer);
  for (uint32_t i = 0; i < k->outer.n; i++)
    if (may_be_blocks(k, gs, k->outer.v[i])) kernel_note_shared(k, k->outer.v[i]);
  decide_shared_blocks(k, gs);
  for (uint32_t i = 0; i < k->nshared_blocks; i++) {
    shared_block *b = &k->shared_blocks[i];
    b->size = max64(b->size, 1); /* a block has at least one value, also of an empty variable */
    blocks[i] = sym_ceildiv(c, sym_extent(c, b->var), sym_int(c, b->size));
    points = sym_mul(c, points, blocks[i]);
  }
  for (uint32_t i = 0; i < k->outer.n; i++)
    if (!shared_block_of(k, k->outer.v[i])) points = sym_mul(c, points, sym_extent(c, k->outer.v[i]));
  k->l.chunks = points;
  sz w = sym_var(c, "point", points), rem = w;
  atom wa = 0;
  sym_is_atom(c, w, &wa);
  for (uint32_t i = 0; i < k->nshared_blocks; i++) {
    k->shared_blocks[i].start = sym_muli(c, kernel_rem(c, rem, blocks[i]), k->shared_blocks[i].size);
    rem = kernel_quot(c, rem, blocks[i]);
  }
  if (wa) k->point = (nvar){.var = wa, .extent = points};
  if (k->rolling.stage) rolling_begins(k, &k->shared_blocks[0]);
  for (uint32_t i = k->outer.n; i-- > 0;) {
    atom v = k->outer.v[i];
    if (shared_block_of(k, v)) continue;
    view_bind(&e->view, (binding){.var = v, .subst = kernel_rem(c, rem, sym_extent(c, v))});
    rem = kernel_quot(c, rem, sym_extent(c, v));
  }
  for (uint32_t i = 0; i < k->l.stages.n; i++)
    if (layout_inside(k->m, xs(k->m, k->l.stages.v[i]))) hand_placement(k, k->l.stages.v[i]);
  hand_over(k, gs);
  lv i, to = lb_hi(&e->b), from = lb_lo(&e->b);
  if (k->rolling.stage) k->l.chunks = rolling_points(k, points, &from, &to);
  lb_for(&e->b, "point", from, to, lb_int(&e->b, 1), 0, &i);
  emit_scope(e);
  if (wa) emit_bind(e, wa, i);
  for (uint32_t j = 0; j < k->nshared_blocks; j++) {
    shared_block *b = &k->shared_blocks[j];
    if (sym_int_or(c, blocks[j], 2) <= 1) continue;
    b->lo = emit_size(e, b->start);
    b->hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, b->lo, b->size - EK_PLANTED("schedule-shared-blocks")),
                  emit_size(e, sym_extent(c, b->var)), 0);
  }
  if (k->rolling.stage) rolling_point(k, i, from, &k->shared_blocks[0]);
  for (uint32_t g = 0; g < gs->n; g++) {
    bool guarded = open_guard(k, &gs->v[g]);
    kernel_group_nest(k, &gs->v[g]);
    if (guarded) lb_end(&e->b);
  }
  emit_unscope(e);
  lb_end(&e->b);
}
