/* What is fetched ahead while the tiles of a nest run? What can be, and pays, is listed for finish.c, which decides;
 * what the nest's list says is then fetched.
 *
 * Panels. The weights of a model do not fit into the caches; those of the next panel are fetched while the rows pass
 * over this one, a part for each block of rows, so that memory works while the multipliers do. What a run-time operand
 * will have copied into the next panel lies a line or some at each point of the sum: a block of rows fetches one line
 * of each point. Not where these lie in one set of the nearest cache: they would drive one another out. The constants
 * of a window that slides are a few lines, and what is written out step by step should not be interrupted. Where a few
 * rows are all there is they wait for memory anyway, and it is faster to read one panel after the other (MiniLM of 1 to
 * 4 words on Zen 4: 20 to 30 %).
 *
 * Rows. What a tile stores, what its epilogue reads, and the next tile's rows, are some lines in each of several rows:
 * the cache foresees none of them. So each strip of the sum fetches some: a line of each of the next rows, which lie
 * along the sum; of the others all lines of some rows, the first ones first. What fits the second cache, or is handed
 * over in scratch, is there; rows in one set of the nearest cache would drive one another out.
 *
 * Places. Where many places are read together, each far from the others, no cache foresees them: those of the next
 * value of the variable around the lanes are fetched.
 *
 * Blocks. What comes from the L3 cache or memory while a tile of a block runs: blocking.c.
 */
#include "schedule/kernel_in.h"

const prefetch *nest_prefetches(const nest *n, prefetch_kind kind, tid t) {
  for (uint32_t i = 0; i < n->prefetches.n; i++)
    if (n->prefetches.v[i].kind == kind && n->prefetches.v[i].t == t) return &n->prefetches.v[i];
  return NULL;
}
/* Adds what can be fetched, or what was said of it before. */
static void can_fetch(arena *a, prefetches *out, prefetch x) {
  for (uint32_t i = 0; i < out->n; i++)
    if (out->v[i].kind == x.kind && out->v[i].t == x.t) {
      out->v[i].pays |= x.pays, out->v[i].least = max64(out->v[i].least, x.least);
      return;
    }
  vec_push(a, *out, x);
}
static int64_t line_of(const splan *p, int64_t bytes) { return (int64_t)p->t->line / bytes; } /* its elements */

/* ---- panels ------------------------------------------------------------------------------------ */
/* The blocks of rows that pass while a panel stays. */
typedef struct row_blocks {
  int64_t rows;     /* blocks of the rows alone; 1: their number is open */
  uint32_t counted; /* so many variables around the rows, from the innermost one on, count blocks, too */
  int64_t n;        /* blocks of these variables and the rows */
  bool open;        /* the number of all blocks is open */
  bool any;         /* the rows are an open number, and nothing stands around them */
  int64_t most;     /* rows, at most */
} row_blocks;
static row_blocks blocks_of(ctx *c, const nest *n) {
  int64_t ext = view_extent(c, n->row.extent, -1), least;
  row_blocks b = {.any = ext < 0 && (!n->row2.var || n->collapsed.var) && !n->inner.n, .open = n->row.lo || ext < 0};
  if (n->row2.var && !n->collapsed.var)
    ext = view_extent(c, n->row2.extent, -1), b.open = n->begins || n->row2.lo || ext < 0, ext *= nest_row_fold(c, n);
  b.n = b.rows = ext < 0 ? 1 : (ext + n->mr - 1) / n->mr;
  for (uint32_t i = n->inner.n; i-- > 0 && !b.open;) {
    const nvar *v = &n->inner.v[i];
    ext = view_extent(c, v->extent, -1);
    b.open = v->lo || ext < 0 || ext > INT32_MAX || b.n > INT32_MAX;
    if (!b.open) b.counted++, b.n *= ext;
  }
  sym_range(c, n->collapsed.var ? n->collapsed.extent : n->row2.var ? n->row2.extent : n->row.extent, &least, &b.most);
  return b;
}
/* May a tile of mr rows have all rows there are? */
static bool may_be_alone(ctx *c, const nest *n, const row_blocks *b, uint32_t mr) {
  return b->open ? (mr < n->mr || b->most <= mr / nest_row_fold(c, n)) && !n->inner.n : b->n == 1;
}
/* Which block of rows is this while a panel stays, of how many? Of divided ones: of two that follow one another. One
 * of an open number fetches all, for it may be the only one. */
static lv block_at(ectx *e, const nest *n, const row_blocks *b, bool alone, lv row, int64_t *blocks) {
  enum { DIVIDED = 2 };
  const ltype i64 = lt(ET_I64, 1);
  lv at = lb_op(&e->b, OP_IDIV, i64, row, lb_int(&e->b, n->mr / nest_row_fold(e->c, n)), 0);
  *blocks = b->rows;
  for (uint32_t i = 0; i < b->counted; i++) {
    const nvar *v = &n->inner.v[n->inner.n - 1 - i];
    at = lb_add(&e->b, lb_muli(&e->b, emit_size(e, sym_of_atom(e->c, v->var)), *blocks), at);
    *blocks *= view_extent(e->c, v->extent, 1);
  }
  if (!b->open) return at;
  *blocks = b->any || alone ? 1 : DIVIDED;
  if (*blocks == 1) return lb_int(&e->b, 0);
  for (uint32_t i = 0; i < n->inner.n; i++) at = lb_add(&e->b, at, emit_size(e, sym_of_atom(e->c, n->inner.v[i].var)));
  return lb_op(&e->b, OP_MOD, i64, at, lb_int(&e->b, DIVIDED), 0);
}
/* Where a run-time operand lies that is packed, and how many lines a panel has at a point of the sum; 0: its lanes are
 * no neighbours. */
static int64_t lines_of_source(index_view *iv, const nest *n, const packload *k, sz *at) {
  const ex_node *load = exn(iv->m, k->load);
  const int64_t line = line_of(iv->p, et_bytes(xt(iv->m, load->tensor)->type)), wide = (int64_t)n->nv * n->lanes;
  sz idx[MAX_RANK];
  for (uint32_t i = 0; i < load->nargs; i++) idx[i] = view_resolve(iv, load->args[i]);
  *at = view_address(iv->c, view_layout(iv, load->tensor), idx);
  return line && address_coef(iv, *at, n->lane.var) == 1 ? (wide + line - 1) / line : 0;
}
static void panels_to_fetch(index_view *iv, const nest *n, prefetches *out) {
  const row_blocks blocks = n->row.var ? blocks_of(iv->c, n) : (row_blocks){0};
  for (uint32_t i = 0; i < n->packs.n && n->lane_outer && n->row.var; i++) {
    const packload *k = &n->packs.v[i];
    if (n->windows[k->stage] || k->computed) continue;
    const ex_node *load = exn(iv->m, k->load);
    const int64_t size = et_bytes((etype)load->type);
    prefetch x = {PREFETCH_PANEL, load->tensor, 1, true};
    if (k->constant) {
      const bool alone = may_be_alone(iv->c, n, &blocks, n->mr);
      if (k->first || !line_of(iv->p, size) || !(blocks.open || blocks.n)) continue; /* no block: an axis of size 0 */
      if (blocks.open && !n->inner.n) x.least = cost_alone_rows();
      x.pays = cost_fits_half_l2(iv->p->t, (double)(k->depth * k->nr * size)) && !(alone && n->mr < cost_alone_rows());
      can_fetch(iv->a, out, x);
      continue;
    }
    sz at, idx[MAX_RANK];
    const int64_t lines = n->panel && view_plain(iv, k->load, idx) ? lines_of_source(iv, n, k, &at) : 0;
    if (!lines) continue;
    for (uint32_t j = 0; j < n->reds[k->stage].n; j++)
      x.pays &= !cost_one_set(iv->p->t, address_coef(iv, at, n->reds[k->stage].v[j]), size);
    x.pays &= cost_prefetch_source(view_extent(iv->c, n->row.extent, 0), n->mr, lines);
    can_fetch(iv->a, out, x);
  }
}
static void fetch_constants(ectx *e, const nest *n, const packload *k, const prefetch *x, lv row, uint32_t mr) {
  const row_blocks b = blocks_of(e->c, n);
  const bool alone = may_be_alone(e->c, n, &b, mr);
  int64_t blocks;
  const lv block = block_at(e, n, &b, alone, row, &blocks);
  if (alone && mr < x->least) return;
  const int64_t by = (k->nr + blocks - 1) / blocks;
  vec_push(e->a, e->ahead,
           ((panel_ahead){.ptr = k->ptr,
                          .at = lb_add(&e->b, emit_size(e, k->next), lb_muli(&e->b, block, k->depth * by)),
                          .step = k->step,
                          .by = by,
                          .line = line_of(e->p, et_bytes((etype)exn(e->m, k->load)->type))}));
}
static void fetch_source(ectx *e, const nest *n, const packload *k, lv row) {
  const tid t = exn(e->m, k->load)->tensor;
  const int64_t wide = (int64_t)n->nv * n->lanes, line = line_of(e->p, et_bytes(xt(e->m, t)->type));
  const ltype i64 = lt(ET_I64, 1);
  sz at;
  const int64_t lines = lines_of_source(&e->view, n, k, &at);
  if (!lines) return;
  const lv block = lb_op(&e->b, OP_IDIV, i64, row, lb_int(&e->b, n->mr), 0);
  const sz next = sym_muli(e->c, sym_addi(e->c, sym_of_atom(e->c, n->panel), 1), wide);
  vec_push(e->a, e->ahead,
           ((panel_ahead){.ptr = emit_source(e, t),
                          .at = lb_muli(&e->b, lb_op(&e->b, OP_MOD, i64, block, lb_int(&e->b, lines), 0), line),
                          .step = sym_replace(e->c, at, n->lane.var, next),
                          .by = 1,
                          .line = line}));
}
void fetch_panels(ectx *e, const nest *n, uint32_t stage, lv row, uint32_t mr) {
  for (uint32_t i = 0; i < n->packs.n && !n->windows[stage]; i++) {
    const packload *k = &n->packs.v[i];
    const prefetch *x = k->computed ? NULL : nest_prefetches(n, PREFETCH_PANEL, exn(e->m, k->load)->tensor);
    if (!x || k->stage != stage || k->first) continue;
    if (k->constant)
      fetch_constants(e, n, k, x, row, mr);
    else
      fetch_source(e, n, k, row);
  }
}
void fetch_step(ectx *e) {
  for (uint32_t k = 0; k < e->ahead.n; k++) {
    const panel_ahead *x = &e->ahead.v[k];
    lv at = lb_add(&e->b, x->at, lb_muli(&e->b, emit_size(e, x->step), x->by));
    for (int64_t i = 0; i < x->by * (e->tensorised ? e->tensorised->by->group : 1); i += x->line)
      lb_prefetch(&e->b, x->ptr, lb_addi(&e->b, at, i));
  }
}

/* ---- rows -------------------------------------------------------------------------------------- */
/* Does the tensor lie in memory of its own, and not in scratch? */
static bool in_memory(const index_view *iv, tid t) { return view_layout(iv, t) == &iv->p->layouts[t]; }
/* Does each lane read where data of its own say? */
static bool lanes_by_data(index_view *iv, const nest *n, sz address) {
  const atom lane = n->lane.var;
  return lane && sym_uses_kind(iv->c, address, AT_DATA) &&
         address_uses(iv, sym_replace(iv->c, address, lane, sym_int(iv->c, 0)), lane);
}
/* Does it not lie in the second cache? */
static bool comes_from_far(index_view *iv, const access *x) {
  const tensor *t = xt(iv->m, x->t);
  double size = x->bytes;
  for (uint32_t d = 0; d < t->rank; d++) size *= (double)sym_int_or(iv->c, t->shape[d], 1);
  return !cost_fits_half_l2(iv->p->t, size);
}
/* May rows of the nest's tensors be fetched while the sum of that stage runs? */
static bool sum_fetches_rows(const nest *n, uint32_t stage) {
  return n->reds[stage].n && !n->windows[stage] && n->lane_outer && n->row.var && !n->row2.var;
}
/* Elements from row to row of an access whose rows can be fetched while the sum of that stage runs: of the next tile
 * where the sum reads it, of this one where the last sum of the tile is followed by what reads or stores it. 0: they
 * cannot. */
static int64_t row_spacing(index_view *iv, const nest *n, uint32_t stage, const access *x) {
  const u32vec *vars = &n->reds[stage];
  const int64_t line = line_of(iv->p, x->bytes);
  if (x->constant || x->guarded || !line || !in_memory(iv, x->t)) return 0;
  if (x->leader && (x->stage != stage || vars->n > 1)) return 0;
  for (uint32_t i = stage + 1; i < n->stages.n && !x->leader; i++)
    if (exn(iv->m, xs(iv->m, n->stages.v[i])->value)->kind == EX_REDUCE) return 0;
  if (address_coef(iv, x->address, x->leader ? vars->v[vars->n - 1] : n->lane.var) != 1) return 0;
  const int64_t step = address_coef(iv, x->address, n->row.var);
  return step >= line && step <= INT32_MAX && !lanes_by_data(iv, n, x->address) ? step : 0;
}
/* How the rows of a tile are numbered along a sum, until there is a number for each: values of its last variable in a
 * line have one. */
typedef struct row_numbers {
  sz at;         /* the number, over the sum's variables */
  int64_t n;     /* how many there are */
  int64_t steps; /* steps of the sum for all of them */
} row_numbers;
static row_numbers number_rows(ctx *c, const u32vec *vars, int64_t line, uint32_t mr) {
  row_numbers r = {sym_int(c, 0), 1, 1};
  int64_t ext;
  for (uint32_t j = vars->n; j-- > 0 && (ext = view_extent(c, sym_extent(c, vars->v[j]), 0)) > 0 && r.n < mr;) {
    const bool innermost = j + 1 == vars->n;
    const sz at = sym_of_atom(c, vars->v[j]);
    r.at = sym_add(c, r.at, sym_muli(c, innermost ? sym_div(c, at, sym_int(c, line)) : at, r.n));
    r.n *= innermost ? (ext + line - 1) / line : ext, r.steps *= ext;
  }
  return r;
}
static int64_t lines_of_row(const splan *p, const access *x, int64_t lanes) {
  const int64_t line = line_of(p, x->bytes);
  return (lanes + line - 1) / line;
}
static void rows_to_fetch(index_view *iv, const nest *n, uint32_t stage, const accesses *all, prefetches *out) {
  if (!sum_fetches_rows(n, stage)) return;
  for (uint32_t i = 0; i < all->n; i++) {
    const access *x = &all->v[i];
    const int64_t step = row_spacing(iv, n, stage, x);
    if (!step) continue;
    const row_numbers r = number_rows(iv->c, &n->reds[stage], line_of(iv->p, x->bytes), n->mr);
    const int64_t lines = x->leader ? 0 : lines_of_row(iv->p, x, (int64_t)n->nv * n->lanes) * n->mr;
    const uint32_t sums = (uint32_t)cost_prefetch_sums(iv->p->t);
    can_fetch(iv->a, out,
              (prefetch){PREFETCH_ROWS, x->t, sums,
                         n->mr > 1 && n->mr * n->nv >= sums && comes_from_far(iv, x) &&
                             !cost_one_set(iv->p->t, step, x->bytes) && cost_prefetch_lines(lines, r.steps)});
  }
}
void fetch_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr, uint32_t nv) {
  const u32vec *vars = &n->reds[stage];
  accesses all = {0};
  if (!n->prefetches.n || !sum_fetches_rows(n, stage) || mr < 2) return;
  group_accesses(&e->view, &n->stages, n->stored, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const access *x = &all.v[i];
    const prefetch *p = nest_prefetches(n, PREFETCH_ROWS, x->t);
    const int64_t step =
        p && (mr * nv >= p->least || EK_PLANTED("schedule-prefetch")) ? row_spacing(&e->view, n, stage, x) : 0;
    const int64_t line = line_of(e->p, x->bytes);
    if (!step) continue;
    stream s = {.ptr = x->store ? emit_target(e, x->t) : emit_source(e, x->t), .line = line, .spacing = step};
    if (x->leader) {
      const atom along = vars->v[vars->n - 1];
      s.at = emit_size(e, sym_addi(e->c, sym_replace(e->c, x->address, along, sym_int(e->c, 0)), step * n->mr)),
      s.step = sym_of_atom(e->c, along), s.n = mr, s.lines = 1;
    } else {
      const row_numbers r = number_rows(e->c, vars, line, mr);
      s.n = (mr + r.n - 1) / r.n, s.lines = lines_of_row(e->p, x, (int64_t)nv * e->lanes);
      s.at = emit_size(e, x->address),
      s.step = sym_muli(e->c, sym_min(e->c, sym_muli(e->c, r.at, s.n), sym_int(e->c, mr - s.n)), step);
    }
    vec_push(e->a, e->streams, s);
  }
}
int64_t prefetch_interval(ectx *e) {
  int64_t least = 0;
  for (uint32_t i = 0; i < e->streams.n; i++) least = least ? min64(least, e->streams.v[i].line) : e->streams.v[i].line;
  return least;
}
void fetch_streams(ectx *e) {
  for (uint32_t i = 0; i < e->streams.n; i++) {
    const stream *s = &e->streams.v[i];
    lv at = lb_add(&e->b, s->at, emit_size(e, s->step));
    for (int64_t k = 0; k < s->n; k++)
      for (int64_t l = 0; l < s->lines; l++)
        lb_prefetch(&e->b, s->ptr, lb_addi(&e->b, at, k * s->spacing + l * s->line));
  }
}

/* ---- places ------------------------------------------------------------------------------------ */
/* The variable around the lanes, whose next value is fetched; 0: there is none. */
static atom around_lanes(index_view *iv, const nest *n) {
  const nvars *around = n->inner.n ? &n->inner : &n->outer;
  const bool map =
      n->lane.var && !n->lane_reduced && !n->row.var && !value_reduces(iv, xs(iv->m, n->stages.v[0])->value);
  return map && around->n ? around->v[around->n - 1].var : 0;
}
/* Can the access's places of the next value of `next` be fetched? Not those that are read now, or by one before. */
static bool has_next_place(index_view *iv, const nest *n, const accesses *all, uint32_t at, atom next) {
  const access *x = &all->v[at];
  if (x->store || x->constant || address_coef(iv, x->address, n->lane.var) != 1 || !in_memory(iv, x->t)) return false;
  const int64_t step = address_coef(iv, x->address, next);
  if (step <= 0 || lanes_by_data(iv, n, x->address)) return false;
  const sz then = sym_addi(iv->c, x->address, step);
  for (uint32_t k = 0; k < all->n; k++)
    if (all->v[k].t == x->t && (all->v[k].address == then || (k < at && all->v[k].address == x->address))) return false;
  return true;
}
static void places_to_fetch(index_view *iv, const nest *n, const accesses *all, prefetches *out) {
  const atom next = around_lanes(iv, n);
  uint32_t far = 0;
  u32vec can = {0};
  for (uint32_t i = 0; i < all->n && next; i++) {
    if (!has_next_place(iv, n, all, i, next)) continue;
    vec_push(iv->a, can, i);
    far += comes_from_far(iv, &all->v[i]);
  }
  const bool many = cost_prefetch_places(n->stages.n) && cost_prefetch_places(far);
  for (uint32_t i = 0; i < can.n; i++) {
    const access *x = &all->v[can.v[i]];
    can_fetch(iv->a, out, (prefetch){PREFETCH_PLACES, x->t, 1, many && comes_from_far(iv, x)});
  }
}
void fetch_places(ectx *e, const nest *n, lv lane) {
  const atom next = around_lanes(&e->view, n);
  accesses all = {0};
  if (!n->prefetches.n || !next) return;
  group_accesses(&e->view, &n->stages, n->stored, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const access *x = &all.v[i];
    if (!nest_prefetches(n, PREFETCH_PLACES, x->t) || !has_next_place(&e->view, n, &all, i, next)) continue;
    sz at = sym_addi(e->c, sym_replace(e->c, x->address, n->lane.var, sym_int(e->c, 0)),
                     address_coef(&e->view, x->address, next));
    lb_prefetch(&e->b, emit_source(e, x->t), lb_add(&e->b, emit_size(e, at), lane));
  }
}

/* ---- the nest ---------------------------------------------------------------------------------- */
void nest_prefetchable(index_view *iv, const nest *n, prefetches *out) {
  accesses all = {0};
  group_accesses(iv, &n->stages, n->stored, &all);
  panels_to_fetch(iv, n, out);
  for (uint32_t i = 0; i < n->stages.n; i++) rows_to_fetch(iv, n, i, &all, out);
  places_to_fetch(iv, n, &all, out);
  if (n->blocking.panels && !n->blocking.row_streaming) can_fetch(iv->a, out, (prefetch){PREFETCH_BLOCK, 0, 1, true});
}
