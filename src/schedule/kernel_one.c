/* How is a kernel of one group divided among the threads? Chunks are points of outer variables, blocks of rows, or
 * blocks of lanes. */
#include "schedule/halo.h"
#include "schedule/kernel_in.h"

sz kernel_flatten(kctx *k, nvars *vars, uint32_t take) {
  ctx *c = k->c;
  if (take == 1) return vars->v[0].extent;
  sz points = sym_int(c, 1);
  for (uint32_t i = 0; i < take; i++) points = sym_mul(c, points, vars->v[i].extent);
  sz w = sym_var(c, "chunk", points), rem = w;
  atom wa;
  if (!sym_is_atom(c, w, &wa)) ctx_bug(c, "schedule: chunk variable");
  for (uint32_t i = take; i-- > 0;) {
    view_bind(&k->e.view, (binding){.var = vars->v[i].var, .subst = i ? kernel_rem(c, rem, vars->v[i].extent) : rem});
    rem = kernel_quot(c, rem, EK_PLANTED("schedule-flatten") && i > 1 ? vars->v[i - 1].extent : vars->v[i].extent);
  }
  vars->v[0] = (nvar){.var = wa, .extent = points};
  for (uint32_t i = take; i < vars->n; i++) vars->v[i - take + 1] = vars->v[i];
  vars->n -= take - 1;
  return points;
}
/* the range of a variable for the blocks lo..hi-1 */
static void block_range(kctx *k, nvar *v, lv lo, lv hi, int64_t block) {
  lbuild *b = &k->e.b;
  lv end = emit_size(&k->e, v->extent);
  v->lo = lb_muli(b, lo, block + EK_PLANTED("schedule-chunks"));
  v->hi = lb_op(b, OP_MIN, lt(ET_I64, 1), lb_muli(b, hi, block), end, 0);
  v->unit = block;
}
/* Opens the loop over the points w of the chunks lo..hi-1, with the blocks of each (block 0: none) as the range of
 * the rows or lanes. */
static void chunk_loop(kctx *k, nest *n, nvar w, int64_t block, bool rows) {
  lbuild *b = &k->e.b;
  ltype i64 = lt(ET_I64, 1);
  lv lo = lb_lo(b), hi = lb_hi(b), i;
  nvar *v = rows ? nest_rows(n) : &n->lane;
  lv per = block ? emit_size(&k->e, sym_ceildiv(k->c, v->extent, sym_int(k->c, block))) : 0;
  if (per) {
    lv one = lb_int(b, 1);
    lb_for(b, "point", lb_op(b, OP_IDIV, i64, lo, per, 0),
           lb_add(b, lb_op(b, OP_IDIV, i64, lb_sub(b, hi, one), per, 0), one), one, 0, &i);
  } else
    lb_for(b, "point", lo, hi, lb_int(b, 1), 0, &i);
  emit_scope(&k->e);
  emit_bind(&k->e, w.var, i);
  if (!per) return;
  lv first = lb_mul(b, i, per);
  block_range(k, v, lb_sub(b, lb_op(b, OP_MAX, i64, lo, first, 0), first),
              lb_sub(b, lb_op(b, OP_MIN, i64, hi, lb_add(b, first, per), 0), first), block);
}
/* Opens the loop over what the chunks lo..hi-1 of blocks of lanes, and in each of these blocks of rows, are
 * together: what is left of the first lanes' rows, all rows of the lanes that follow, the first rows of the last
 * ones. */
static void grid_loop(kctx *k, nest *n, int64_t rows, int64_t lanes) {
  enum { HEAD, WHOLE, TAIL };
  lbuild *b = &k->e.b;
  const ltype i64 = lt(ET_I64, 1), truth = lt(ET_BOOL, 1);
  nvar *v = nest_rows(n);
  lv zero = lb_int(b, 0), one = lb_int(b, 1), lo = lb_lo(b), hi = lb_hi(b), piece;
  lv each = emit_size(&k->e, sym_ceildiv(k->c, v->extent, sym_int(k->c, rows)));
  lv first = lb_op(b, OP_IDIV, i64, lo, each, 0), from = lb_sub(b, lo, lb_mul(b, first, each)),
     last = lb_op(b, OP_IDIV, i64, hi, each, 0), to = lb_sub(b, hi, lb_mul(b, last, each));
  lv head = lb_cmp(b, OP_GT, from, zero), whole = lb_add(b, first, lb_op(b, OP_SEL, i64, head, one, zero));
  lv tail = lb_op(b, OP_AND, truth, lb_cmp(b, OP_GT, to, zero), lb_cmp(b, OP_GE, last, whole), 0);
  lb_for(b, "piece", lb_op(b, OP_SEL, i64, head, lb_int(b, HEAD), lb_int(b, WHOLE)),
         lb_op(b, OP_SEL, i64, tail, lb_int(b, TAIL + 1 - EK_PLANTED("schedule-grid")), lb_int(b, TAIL)), one, 0,
         &piece);
  lv is_head = lb_cmp(b, OP_EQ, piece, lb_int(b, HEAD)), is_whole = lb_cmp(b, OP_EQ, piece, lb_int(b, WHOLE));
  lv begin = lb_op(b, OP_SEL, i64, is_head, first, lb_op(b, OP_SEL, i64, is_whole, whole, last)),
     end = lb_op(b, OP_SEL, i64, is_whole, last, lb_addi(b, begin, 1));
  lv top =
      lb_op(b, OP_SEL, i64,
            lb_op(b, OP_OR, truth, is_whole, lb_op(b, OP_AND, truth, is_head, lb_cmp(b, OP_LT, first, last), 0), 0),
            each, to);
  lb_if(b, lb_cmp(b, OP_LT, begin, end));
  emit_scope(&k->e);
  block_range(k, v, lb_op(b, OP_SEL, i64, is_head, from, zero), top, rows);
  block_range(k, &n->lane, begin, end, lanes);
}

/* The halo beside the chunks' points; the chunk loop is open when they are points and blocks together. */
static void fill_halos(kctx *k, const u32vec *group, const nest *n, const u32vec *point, bool together) {
  ectx *e = &k->e;
  bool flat = point->n > 1 && !together; /* the points are not one range: they run one after the other */
  for (uint32_t g = 0; g < group->n; g++) {
    buffer *b = &k->p->buffers.v[k->p->layouts[xs(k->m, group->v[g])->tensor].buffer];
    halo_range r[MAX_RANK + 1] = {0};
    uint32_t nr = 0;
    if (!b->halo || b->filled) continue;
    for (uint32_t i = 0; i < point->n; i++) r[nr++].var = point->v[i];
    if (n->row.lo) r[nr++] = (halo_range){n->row.var, n->row.lo, n->row.hi};
    if (n->lane.lo) r[nr++] = (halo_range){n->lane.var, n->lane.lo, n->lane.hi};
    if (!halo_fits(e, group->v[g], r, nr)) continue;
    lv w;
    if (flat) {
      lb_for(&e->b, "point", lb_lo(&e->b), lb_hi(&e->b), lb_int(&e->b, 1), 0, &w);
      emit_scope(e);
      emit_bind(e, n->inner.v[0].var, w);
    }
    for (uint32_t i = 0; i < point->n; i++) {
      r[i].from = point->n == 1 && !together ? lb_lo(&e->b) : emit_size(e, sym_of_atom(k->c, point->v[i]));
      r[i].to = point->n == 1 && !together ? lb_hi(&e->b) : lb_addi(&e->b, r[i].from, 1);
    }
    halo_part(e, group->v[g], r, nr);
    b->filled = true;
    if (!flat) continue;
    emit_unscope(e);
    lb_end(&e->b);
  }
}

/* Where rows are points of two variables: the chunk with the first one fills what is around all of them, of its
 * lanes. */
static void first_fills_halos(kctx *k, const u32vec *group, const nest *n) {
  ectx *e = &k->e;
  if (!n->collapsed.lo) return;
  for (uint32_t g = 0; g < group->n; g++) {
    buffer *b = &k->p->buffers.v[k->p->layouts[xs(k->m, group->v[g])->tensor].buffer];
    halo_range r[] = {{n->lane.var, n->lane.lo, n->lane.hi}, {.var = n->row.var}, {.var = n->row2.var}};
    uint32_t q = !n->lane.lo; /* 1: the range of lanes is left out, since the chunk has them all */
    if (!b->halo || b->filled || !halo_fits(e, group->v[g], r + q, 3 - q)) continue;
    lb_if(&e->b, lb_cmp(&e->b, OP_EQ, n->collapsed.lo, lb_int(&e->b, 0)));
    halo_part(e, group->v[g], r, 1 - q);
    lb_end(&e->b);
    b->filled = true;
  }
}
/* The variable beside the rows leaves the loops for the number of its parts. */
static void row2_in_blocks(kctx *k, nest *n, int64_t size) {
  ctx *c = k->c;
  sz parts = sym_ceildiv(c, n->inner.v[0].extent, sym_int(c, size)), w = sym_var(c, "part", parts);
  n->row2 = n->inner.v[0];
  n->inner.n = 0;
  n->row2.unit = size;
  nvar part = {.extent = parts};
  if (!sym_is_atom(c, w, &part.var)) return; /* there is one part */
  n->begins = sym_muli(c, w, size);
  vec_push(k->a, n->inner, part);
}

/* Rows over which all panels pass before the next rows: whole tiles of them, whose results fill a quarter of the
 * nearest cache. 0: all rows, which fit there. */
static int64_t strip_rows(kctx *k, nest *n, bool reduces) {
  const directive *d = stated(k, &n->stages, P_STRIP);
  if (d) {
    const int64_t strip = kernel_number(k, d, d->words.v[0], 1, INT32_MAX);
    if (!reduces || !n->row.var || n->lane_outer) kernel_refuse(k, d, "the nest has no panels inside its rows");
    if (strip % n->mr) kernel_refuse(k, d, "%s rows: expected a multiple of the tile's %u", d->words.v[0], n->mr);
    return strip + EK_PLANTED("follow-strip") * (int64_t)n->mr;
  }
  if (!reduces || !n->row.var || n->lane_outer || stated(k, &n->stages, P_PANELS)) return 0;
  const int64_t rows = view_extent(k->c, nest_rows(n)->extent, TYPICAL_POINTS),
                lanes = n->lane.var && !n->lane_reduced ? kernel_extent(k, n->lane.var, TYPICAL_LONG_ROW) : 0,
                bytes = lanes * et_bytes(xt(k->m, xs(k->m, n->stages.v[0])->tensor)->type);
  return cost_strip_rows(k->p->t, rows, bytes, n->mr);
}
/* How many blocks of `size` values a variable has; size 0: one. */
static sz blocks_of(kctx *k, const nvar *v, int64_t size) {
  return size ? sym_ceildiv(k->c, v->extent, sym_int(k->c, size)) : sym_int(k->c, 1);
}
/* Makes the launch's chunks, and opens the loops over those that a thread gets; returns how many loops and conditions
 * are open. point: gets the variables of a chunk's point. */
static uint32_t open_chunks(kctx *k, nest *n, const chunking *d, u32vec *point) {
  lv lo = lb_lo(&k->e.b), hi = lb_hi(&k->e.b);
  if (d->cache_blocks) {
    blocking_chunks(k, n);
    return 1;
  }
  if (!d->points) {
    nvar *rows = nest_rows(n);
    k->l.chunks = sym_mul(k->c, blocks_of(k, rows, d->rows), blocks_of(k, &n->lane, d->lanes));
    if (d->rows && d->lanes) {
      grid_loop(k, n, d->rows, d->lanes);
      return 2;
    }
    if (d->rows) block_range(k, rows, lo, hi, d->rows);
    if (d->lanes) block_range(k, &n->lane, lo, hi, d->lanes);
    return 0;
  }
  const bool joined = n->outer.n || d->rows || d->lanes;
  n->inner = kernel_loop_vars(k, n), n->outer.n = 0;
  for (uint32_t i = 0; i < d->points; i++) vec_push(k->a, *point, n->inner.v[i].var);
  k->l.chunks = kernel_flatten(k, &n->inner, d->points);
  if (!joined) {
    n->inner.v[0].lo = lo, n->inner.v[0].hi = hi;
    return 0;
  }
  n->point = n->inner.v[0];
  for (uint32_t i = 1; i < n->inner.n; i++) n->inner.v[i - 1] = n->inner.v[i];
  n->inner.n--;
  nvar *blocked = d->rows ? nest_rows(n) : &n->lane;
  k->l.chunks = sym_mul(k->c, k->l.chunks, blocks_of(k, blocked, d->rows + d->lanes));
  chunk_loop(k, n, n->point, d->rows + d->lanes, d->rows > 0);
  return 1;
}

void kernel_one(kctx *k, const u32vec *group) {
  ectx *e = &k->e;
  ctx *c = k->c;
  u32vec domain = {0}, red = {0};
  kernel_domain(k, group->v[0], &domain);
  kernel_reduced(k, group->v[0], &red);
  kernel_runs(k, &domain);
  bool reduces = exn(k->m, xs(k->m, group->v[0])->value)->kind == EX_REDUCE;
  kernel_loop_order(k, group, &domain, reduces && red.n);
  accesses acc = {0};
  group_accesses(&e->view, group, k->stored, &acc);
  choice ch = kernel_choice(k, group, &acc, &domain, &red);
  /* as a part of the chunk's number it would cost a division at each point */
  if (k->p->level > 0 && !ch.lane && !ch.row && domain.n > 1 && !stated(k, group, P_ROWS) &&
      !sym_is_int(c, sym_extent(c, domain.v[domain.n - 1]), NULL))
    ch.row = domain.v[domain.n - 1];
  nest n;
  bool parts = false;
  if (ch.l2_mr) { /* with blocks, rows come from a near cache */
    choice near = ch;
    near.mr = ch.l2_mr, near.nv = ch.l2_nv;
    n = kernel_nest(k, group, &domain, near, &acc);
    const int64_t whole = (int64_t)(ch.shared ? ch.nv : near.nv) * ch.lanes;
    if ((parts = kernel_blocking(k, &n, &acc, &near, whole))) ch = near;
  }
  if (!parts) {
    kernel_collapse_rows(&ch);
    n = kernel_nest(k, group, &domain, ch, &acc);
    kernel_collapsed_rows(k, &n, &ch);
  }
  if (!n.collapsed.var && kernel_may_fold_rows(&n, &ch)) row2_in_blocks(k, &n, kernel_row2_block(k, &ch));
  if (!parts) kernel_row_streaming(k, &n, &acc, &ch);
  const directive *block = stated(k, group, P_BLOCK);
  if (block && !n.blocking.panels && !directive_is(block, 0, "none"))
    kernel_refuse(k, block, "the nest is no product whose panels and parts of the sum can be blocks");
  n.strip_mine = strip_rows(k, &n, reduces);
  const chunking chunks = kernel_chunking(k, &n, &acc, ch.lane_load);
  u32vec point = {0}; /* the variables of a chunk's point */
  const uint32_t open = open_chunks(k, &n, &chunks, &point);
  if (k->p->level > 0) {
    accesses again = {0}; /* addresses with the flattened variable in them */
    group_accesses(&e->view, group, k->stored, &again);
    kernel_packs(k, &n, &again, &ch);
    kernel_prepare(k, &n);
  }
  if (n.collapsed.var)
    first_fills_halos(k, group, &n);
  else
    fill_halos(k, group, &n, &point, open > 0);
  kernel_emit(k, &n);
  if (open) emit_unscope(e);
  for (uint32_t i = 0; i < open; i++) lb_end(&e->b);
}
