/* When does a tile's sum run in parts, and in which order do the tiles come?
 *
 * Where all rows pass over one panel after another, they come from the L3 cache or memory for each panel anew, unless
 * they stay in the second cache. Where they do not, and a panel does not stay in the nearest cache anyway, it is a
 * block that stays: some panels, and of the sum so much that the block fills half of the second cache ("Anatomy of
 * high-performance matrix multiplication", Goto and van de Geijn, 2008, with the sides changed: rows are read as they
 * are, constants lie packed anyway):
 *
 *   for blocks of rows, and of lanes          (the chunks: the same rows follow one another, since they come from
 *   memory for each block of lanes)
 *     for parts of the sum
 *       for row tiles                         read from memory once for a block, while the tile before runs
 *         for panels of the block
 *           micro-kernel                      adds to what the tile has so far, in scratch [tile][row][lane]; the
 *                                             last part has the followers and the stores
 *
 * The panels of a run-time operand are made for a block's part, and then lie as constants do.
 *
 * Where there are few rows, or none, and the lines of a run-time operand lie far apart, a panel would take a little
 * from each of many pages. Then a part is a few neighbouring lines, and a block all of their panels: memory gives whole
 * lines, one behind the other, and what waits is a line of sums for each row.
 *
 * With a part of d points and l lanes a multiply-add asks 1/l elements of a row and 2/d of a sum from the L3 cache;
 * with d*l given that is least for d = sqrt(2*d*l). Rows that take a small part of the last cache come from there
 * fast enough as they are.
 */
#include "schedule/kernel_in.h"

static const access *access_of(const accesses *acc, ex load) {
  for (uint32_t i = 0; i < acc->n; i++)
    if (acc->v[i].load == load && !acc->v[i].store) return &acc->v[i];
  return NULL;
}
/* Do the rows lie apart, and their neighbours follow each other in the sum? Or do the rows lie side by side? */
static bool rows_follow(kctx *k, const nest *n, const access *row, const choice *ch, bool *contiguous) {
  const u32vec *vars = &n->reds[0];
  const int64_t step = address_coef(&k->e.view, row->address, ch->row);
  *contiguous = step == 1;
  return *contiguous || (step > 0 && address_coef(&k->e.view, row->address, vars->v[vars->n - 1]) == 1);
}
/* A sum of products of two loads, one that runs along the lanes, one of rows whose neighbours follow each other in
 * the sum, or lie side by side; or of such rows and of what is computed into panels. */
static bool rows_by_panels(kctx *k, nest *n, const accesses *acc, const choice *ch, bool *made, bool *contiguous) {
  const ex_node *red = exn(k->m, xs(k->m, n->stages.v[0])->value),
                *body = red->kind == EX_REDUCE ? exn(k->m, red->body) : NULL;
  const u32vec *vars = &n->reds[0];
  if (!body || red->op != RED_SUM || red->where || body->kind != EX_OP || body->op != OP_MUL || !vars->n) return false;
  for (uint32_t i = 1; i < n->stages.n; i++)
    if (value_reduces(&k->e.view, xs(k->m, n->stages.v[i])->value)) return false;
  if (n->shared) {
    const ex rest = panel_value_rest(&k->e.view, red, n->shared);
    const access *row = access_of(acc, rest);
    if (!row || row->guarded || exn(k->m, rest)->type != ET_F32) return false;
    n->blocking.row = rest, *made = true;
    return rows_follow(k, n, row, ch, contiguous);
  }
  for (uint32_t q = 0; q < 2; q++) {
    const ex_node *x = exn(k->m, body->args[q]), *y = exn(k->m, body->args[!q]);
    if (x->kind != EX_LOAD || y->kind != EX_LOAD || x->type != red->acc || y->type != red->acc || x->otherwise ||
        y->otherwise)
      return false;
    const access *lane = access_of(acc, body->args[q]), *row = access_of(acc, body->args[!q]);
    if (body->args[q] != ch->lane_load || !lane || !row || address_coef(&k->e.view, lane->address, ch->row) ||
        address_coef(&k->e.view, row->address, ch->lane))
      continue;
    n->blocking.row = body->args[!q];
    *made = !lane->constant;
    return rows_follow(k, n, row, ch, contiguous);
  }
  return false;
}
/* The number behind a word of a directive; 0: the word is not there. */
static int64_t after(kctx *k, const directive *d, const char *word, int64_t most) {
  for (uint32_t i = 0; i + 1 < d->words.n; i++)
    if (directive_is(d, i, word)) return kernel_number(k, d, d->words.v[i + 1], 1, most);
  return 0;
}
/* The variable and the panels that are stated. */
static void follow_block(kctx *k, const directive *d, const u32vec *vars, int64_t steps, int64_t panels,
                         cache_blocking *p) {
  if (d->words.n < 4) kernel_refuse(k, d, "expected %s", primitive_forms[P_BLOCK].words);
  p->var = kernel_var(k, d, d->words.v[0], vars);
  if (p->var != vars->v[0]) kernel_refuse(k, d, "%s is not the outermost variable of the sum", d->words.v[0]);
  p->step = kernel_number(k, d, d->words.v[1], 1, steps);
  p->panels = after(k, d, "panels", panels);
  if (!p->panels) kernel_refuse(k, d, "expected %s", primitive_forms[P_BLOCK].words);
}
static int64_t stated_rows(kctx *k, const directive *d, const nest *n) {
  const int64_t rows = after(k, d, "rows", INT32_MAX);
  if (!rows || rows % n->mr) kernel_refuse(k, d, "expected rows, and a multiple of the tile's %u", n->mr);
  return rows + EK_PLANTED("follow-block") * (int64_t)n->mr;
}
bool kernel_blocking(kctx *k, nest *n, const accesses *acc, const choice *ch, int64_t whole) {
  const target *t = k->p->t;
  const directive *d = stated(k, &n->stages, P_BLOCK);
  cache_blocking *p = &n->blocking;
  int64_t rows, lanes, first = 0, depth = 1, e;
  bool made, contiguous;
  if (k->p->level == 0 || !ch->lane || !ch->row || !ch->lane_outer || ch->lane_reduced || n->inner.n || n->outer.n ||
      !n->panel || !t->l2 || !rows_by_panels(k, n, acc, ch, &made, &contiguous))
    return false;
  if (!sym_is_int(k->c, n->row.extent, &rows) || !sym_is_int(k->c, n->lane.extent, &lanes)) return false;
  const u32vec *vars = &n->reds[0];
  for (uint32_t i = 0; i < vars->n; i++) {
    if (!sym_is_int(k->c, sym_extent(k->c, vars->v[i]), &e) || e < 1) return false;
    if (!i) first = e;
    depth = sat_mul64(depth, e);
  }
  const etype type = (etype)exn(k->m, xs(k->m, n->stages.v[0])->value)->acc;
  const int64_t L = n->lanes, width = (int64_t)n->nv * L, full = lanes / width;
  const block_product product = {.rows = rows,
                                 .lanes = lanes,
                                 .depth = depth,
                                 .inner = depth / first,
                                 .size = et_bytes(type),
                                 .width = width,
                                 .whole = whole,
                                 .tile_rows = n->mr,
                                 .made = made,
                                 .contiguous = contiguous,
                                 .unit = made && vars->n == 1 ? L : 1, /* whole squares (nest.c) */
                                 .vector = L};
  nest_facts *facts = kernel_nest_facts(k, &n->stages);
  if (facts) facts->block_steps = first, facts->packs_blocks = made;
  if (directive_is(d, 0, "none") || (d && directive_is(d, d->words.n - 1, "streamed"))) return false;
  if (!cost_blocks_possible(t, &product) || (!d && !cost_blocks_pay(t, &product))) return false;
  const block_shape shape = cost_block(t, &product);
  p->var = vars->v[0], p->step = shape.step, p->panels = shape.panels;
  if (d) follow_block(k, d, vars, first, full, p);
  if (p->step != first && p->step % product.unit)
    kernel_refuse(k, d, "%s: expected a multiple of %lld steps", d->words.v[1], (long long)product.unit);
  p->lanes = p->panels * width;
  p->rows = d ? stated_rows(k, d, n) : shape.rows;
  if (made && !(sym_is_atom(k->c, sym_var(k->c, "at", sym_int(k->c, first)), &p->at) &&
                sym_is_atom(k->c, sym_var(k->c, "block", n->npanels), &p->first)))
    ctx_bug(k->c, "schedule: blocks of one panel");
  if (p->step < first) p->ptr = kernel_scratch(k, type, sym_int(k->c, p->rows * p->lanes));
  return true;
}
bool kernel_row_streaming(kctx *k, nest *n, const accesses *acc, const choice *ch) {
  const target *t = k->p->t;
  const ex_node *red = exn(k->m, xs(k->m, n->stages.v[0])->value);
  const directive *d = stated(k, &n->stages, P_BLOCK);
  int64_t lanes, width = (int64_t)n->nv * n->lanes;
  bool far = d != NULL, made, contiguous;
  if (k->p->level == 0 || !ch->lane || ch->lane_reduced || n->inner.n || n->outer.n || !n->panel || !t->l2 ||
      red->kind != EX_REDUCE || red->where || red->acc == ET_BOOL || red_is_arg((rop)red->op) || n->reds[0].n != 1)
    return false;
  int64_t rows = ch->row ? kernel_extent(k, ch->row, MAX_STREAMED + 1) : 1;
  if (rows > MAX_STREAMED ||
      (ch->row && (ch->row2 || !rows_by_panels(k, n, acc, ch, &made, &contiguous) || !made || contiguous)))
    return false;
  if (!sym_is_int(k->c, n->lane.extent, &lanes) || lanes / width < 2 ||
      !cost_streamed_sums_fit(t, rows, lanes, et_bytes((etype)red->acc)))
    return false;
  for (uint32_t i = 1; i < n->stages.n; i++)
    if (value_reduces(&k->e.view, xs(k->m, n->stages.v[i])->value)) return false;
  bool lines = false; /* an operand lies along the lanes */
  for (uint32_t i = 0; i < acc->n; i++)
    lines |= acc->v[i].leader && !acc->v[i].store && !acc->v[i].constant &&
             address_coef(&k->e.view, acc->v[i].address, ch->lane) == 1;
  if (!lines) return false;
  nest_facts *facts = kernel_nest_facts(k, &n->stages);
  if (facts) facts->streams = true;
  if (d && !directive_is(d, d->words.n - 1, "streamed")) return false;
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    const int64_t q = a->leader && !a->store && !a->constant && address_coef(&k->e.view, a->address, ch->lane) == 1
                          ? address_coef(&k->e.view, a->address, n->reds[0].v[0])
                          : 0;
    if (q > 0)
      far |= cost_streams_pay(t, &(line_stream){.spacing = sat_mul64(q, a->bytes),
                                                .lines = kernel_extent(k, n->reds[0].v[0], LARGE_EXTENT),
                                                .width = width * a->bytes,
                                                .rows = rows});
  }
  if (!far) return false;
  int64_t panels = lanes / width;
  n->blocking = (cache_blocking){.var = n->reds[0].v[0],
                                 .step = schedule_adds_loads(k->m, red) ? SUM_GROUP : STREAMED_ROWS,
                                 .panels = panels,
                                 .lanes = panels * width,
                                 .row_streaming = true};
  if (d) {
    follow_block(k, d, &n->reds[0], INT32_MAX, panels, &n->blocking);
    if (n->blocking.panels != panels) kernel_refuse(k, d, "expected all %lld panels", (long long)panels);
    if (n->blocking.step % SUM_GROUP) kernel_refuse(k, d, "%s: expected a multiple of %d", d->words.v[1], SUM_GROUP);
  }
  n->blocking.ptr = kernel_scratch(k, (etype)red->acc, sym_int(k->c, panels * width * rows));
  return true;
}
void blocking_chunks(kctx *k, nest *n) {
  lbuild *b = &k->e.b;
  ltype i64 = lt(ET_I64, 1);
  cache_blocking *p = &n->blocking;
  int64_t rows = kernel_extent(k, n->row.var, 0), lanes = kernel_extent(k, n->lane.var, 0),
          blocks = (lanes + p->lanes - 1) / p->lanes;
  lv i, by = lb_int(b, blocks);
  k->l.chunks = sym_int(k->c, (rows + p->rows - 1) / p->rows * blocks);
  lb_for(b, "block", lb_lo(b), lb_hi(b), lb_int(b, 1), 0, &i);
  emit_scope(&k->e);
  n->row.lo = lb_muli(b, lb_op(b, OP_IDIV, i64, i, by, 0), p->rows),
  n->row.hi = lb_op(b, OP_MIN, i64, lb_addi(b, n->row.lo, p->rows), lb_int(b, rows), 0), n->row.unit = p->rows;
  n->lane.lo = lb_muli(b, lb_op(b, OP_MOD, i64, i, by, 0), p->lanes),
  n->lane.hi = lb_op(b, OP_MIN, i64, lb_addi(b, n->lane.lo, p->lanes), lb_int(b, lanes), 0), n->lane.unit = p->lanes;
}

void blocking_each(ectx *e, nest *n, lv from, lv to, void (*rows)(ectx *e, nest *n)) {
  cache_blocking *p = &n->blocking;
  lbuild *b = &e->b;
  lv end = emit_size(e, sym_extent(e->c, p->var)), at, next;
  p->from = from, p->to = to, p->on = true, p->begins = 0, p->last = 0;
  if (p->ptr) {
    lb_for(b, "part", lb_int(b, 0), end, lb_int(b, p->step), 0, &at);
    emit_scope(e);
    next = lb_addi(b, at, p->step);
    vec_push(e->a, e->ranges, ((var_range){.var = p->var, .lo = at, .hi = next}));
    p->begins = at, p->last = lb_cmp(b, OP_GE, next, end);
  }
  uint32_t nb = e->view.binds.n;
  e->sum_block = p->row_streaming ? p->var : 0;
  if (p->first) emit_bind(e, p->first, from), emit_bind(e, p->at, p->begins ? p->begins : lb_int(b, 0));
  rows(e, n);
  view_unbind(&e->view, nb);
  p->on = false, e->sum_block = 0;
  if (!p->ptr) return;
  e->ranges.n--;
  emit_unscope(e);
  lb_end(b);
}

/* ---- what the tiles have so far -------------------------------------------------------------- */
static lv waits_at(ectx *e, const nest *n, const register_tile *t) { /* a tile's sums lie together */
  const cache_blocking *p = &n->blocking;
  int64_t width = p->lanes / p->panels;
  lv tile = lb_muli(&e->b, lb_sub(&e->b, t->panel, p->from), (int64_t)t->mr * width);
  return n->row.var ? lb_add(&e->b,
                             lb_muli(&e->b, n->row.lo ? lb_sub(&e->b, t->row, n->row.lo) : t->row,
                                     p->lanes * !EK_PLANTED("schedule-row-streaming")),
                             tile)
                    : tile;
}
bool blocking_sum(ectx *e, const nest *n, const register_tile *tile, rop op, ltype t, const lv acc[]) {
  const uint32_t mr = tile->mr, nv = tile->nv;
  const cache_blocking *p = &n->blocking;
  lbuild *b = &e->b;
  if (!p->on || !p->ptr) return false;
  lv at = waits_at(e, n, tile);
  lb_if(b, lb_cmp(b, OP_GT, p->begins, lb_int(b, EK_PLANTED("schedule-blocking") ? p->step : 0)));
  for (uint32_t r = 0; r < mr; r++)
    for (uint32_t v = 0; v < nv; v++) {
      lv a = acc[r * TILE_V + v];
      lb_set(b, a,
             lb_op(b, schedule_combine(op), t, lb_load(b, t, p->ptr, lb_addi(b, at, ((int64_t)r * nv + v) * t.lanes)),
                   lb_get(b, a), 0));
    }
  lb_end(b);
  lb_if(b, lb_op(b, OP_NOT, lt(ET_BOOL, 1), p->last, 0, 0));
  for (uint32_t r = 0; r < mr; r++)
    for (uint32_t v = 0; v < nv; v++)
      lb_store(b, p->ptr, lb_addi(b, at, ((int64_t)r * nv + v) * t.lanes), lb_get(b, acc[r * TILE_V + v]));
  lb_else(b);
  emit_scope(e);
  return true;
}
void blocking_summed(ectx *e) {
  emit_unscope(e);
  lb_end(&e->b);
}

/* ---- what comes from the L3 cache or memory ----
 * While a tile runs, lines of these are fetched, each once: of the next tile's rows, one (or some) for each panel
 * of the block; and of what this tile has so far. */
static void stream_rows(ectx *e, const nest *n, const register_tile *t) {
  const cache_blocking *p = &n->blocking;
  const ex_node *load = exn(e->m, p->row);
  sz idx[MAX_RANK];
  for (uint32_t i = 0; i < load->nargs; i++) idx[i] = view_resolve(&e->view, load->args[i]);
  sz at = view_address(e->c, view_layout(&e->view, load->tensor), idx);
  int64_t step = address_coef(&e->view, at, n->row.var);
  lv next = lb_add(&e->b, lb_addi(&e->b, t->row, t->mr), lb_sub(&e->b, t->panel, p->from));
  vec_push(e->a, e->streams,
           ((stream){.ptr = emit_source(e, load->tensor),
                     .at = lb_muli(&e->b, next, step),
                     .step = sym_replace(e->c, at, n->row.var, sym_int(e->c, 0)),
                     .line = (int64_t)e->p->t->line / et_bytes((etype)load->type),
                     .lines = 1,
                     .n = (t->mr + p->panels - 1) / p->panels,
                     .spacing = p->panels * step}));
}
void blocking_streams(ectx *e, const nest *n, const register_tile *tile) {
  const cache_blocking *p = &n->blocking;
  const u32vec *vars = &n->reds[0];
  int64_t inner = 1, sums = tile->mr * p->lanes / p->panels; /* of the tile */
  if (!nest_prefetches(n, PREFETCH_BLOCK, 0)) return;
  sz point = sym_int(e->c, 0);
  stream_rows(e, n, tile);
  if (!p->ptr) return;
  for (uint32_t j = vars->n; j-- > 0;) {
    point = sym_add(e->c, point, sym_muli(e->c, sym_of_atom(e->c, vars->v[j]), inner));
    if (j) inner *= sym_int_or(e->c, sym_extent(e->c, vars->v[j]), 1);
  }
  lv at = lb_sub(&e->b, waits_at(e, n, tile), lb_muli(&e->b, p->begins, inner));
  vec_push(e->a, e->streams,
           ((stream){.ptr = p->ptr,
                     .at = at,
                     .step = point,
                     .line = (int64_t)e->p->t->line / et_bytes((etype)exn(e->m, xs(e->m, n->stages.v[0])->value)->acc),
                     .lines = 1,
                     .n = (sums + p->step * inner - 1) / (p->step * inner),
                     .spacing = p->step * inner}));
}
