/* What is done before a register tile's sum runs? Constants are fetched, and operands computed.
 *
 * What the rows of a register tile read may be more than a load: a scaled channel, an activation, a narrow number
 * to convert. Inside the innermost loop that would be done one value at a time, again for every panel. So
 * a tile first computes its rows, vectors along the innermost variable of the sum, into scratch [row][point of
 * the reduction], and then multiplies from there. Only for sums of known length whose rows stay in the cache.
 */
#include "schedule/kernel_in.h"

static void buffer_rows(kctx *k, nest *n) {
  ectx *e = &k->e;
  uint32_t L = n->lanes;
  if (!n->row.var || !n->lane_outer || L <= 1) return;
  for (uint32_t i = 0; i < n->stages.n; i++) {
    const ex_node *red = exn(k->m, xs(k->m, n->stages.v[i])->value),
                  *body = red->kind == EX_REDUCE ? exn(k->m, red->body) : NULL;
    const u32vec *vars = &n->reds[i];
    int64_t depth = 1, ext = 0;
    sz at = sym_int(k->c, 0);
    if (instruction_of(n, i, 0) || !body || red->where || body->kind != EX_OP || body->op != OP_MUL || !vars->n)
      continue;
    for (uint32_t j = 0; j < vars->n && depth; j++) {
      sz size = sym_extent(k->c, vars->v[j]);
      if (!sym_is_int(k->c, size, &ext) || ext > INT32_MAX) depth = ext = 0;
      depth = sat_mul64(depth, ext);
      at = sym_add(k->c, sym_mul(k->c, at, size), sym_of_atom(k->c, vars->v[j]));
    }
    for (uint32_t q = 0; q < 2 && depth && ext >= (int64_t)L; q++) {
      ex x = body->args[q];
      uint32_t size = et_bytes((etype)exn(k->m, x)->type);
      if (exn(k->m, x)->kind != EX_OP || value_reduces(&e->view, x) || value_uses(&e->view, x, n->lane.var) ||
          !value_uses(&e->view, x, n->row.var) || !value_uses(&e->view, x, vars->v[vars->n - 1]) ||
          !cost_fits_quarter_l2(e->p->t, depth * n->mr * size))
        continue;
      prepared r = {.value = x, .stage = i, .depth = depth, .at = at};
      r.ptr = kernel_scratch(k, (etype)exn(k->m, x)->type, sym_int(k->c, depth * n->mr));
      vec_push(k->a, n->rows, r);
      break;
    }
  }
}
void kernel_prepare(kctx *k, nest *n) {
  if (stated_either(k, &n->stages, P_BUFFER, "none", "rows") && !EK_PLANTED("follow-buffer")) return;
  buffer_rows(k, n);
  const directive *d = stated(k, &n->stages, P_BUFFER);
  if (d && !n->rows.n) kernel_refuse(k, d, "the rows of this sum are not computed values of a known number of steps");
}
/* All places of the innermost variable: vectors, then what is left, masked or one by one. */
static void fill(ectx *e, const prepared *r, atom along, uint32_t mr, uint32_t lanes) {
  int64_t ext = sym_int_or(e->c, sym_extent(e->c, along), 0) - EK_PLANTED("schedule-rows-before"),
          full = ext / lanes * lanes;
  bool masks = e->p->t->masks;
  for (uint32_t part = 0; part < 2; part++) {
    uint32_t step = part && !masks ? 1 : lanes, nb = e->view.binds.n;
    lv i;
    if (part ? full == ext : !full) continue;
    lb_for(&e->b, sym_name(e->c, along), lb_int(&e->b, part ? full : 0), lb_int(&e->b, part ? ext : full),
           lb_int(&e->b, step), 0, &i);
    emit_scope(e);
    e->lane = along, e->lanes = step, e->v = 0, e->count = part && masks ? lb_int(&e->b, ext - full) : 0;
    view_bind(&e->view, (binding){.var = along, .base = i, .vec_step = step, .lane = true});
    emit_epoch(e);
    for (e->r = 0; e->r < mr; e->r++) {
      lv v = emit_vec(e, emit_value(e, r->value), (etype)exn(e->m, r->value)->type);
      lv to = lb_addi(&e->b, emit_size(e, r->at), (int64_t)e->r * r->depth);
      lb_store_ex(&e->b, r->ptr, to, v, 0, e->count, 0, 0);
    }
    e->r = 0, e->count = 0;
    view_unbind(&e->view, nb);
    emit_unscope(e);
    lb_end(&e->b);
  }
}
void prepare_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr) {
  for (uint32_t k = 0; k < n->rows.n; k++) {
    const prepared *r = &n->rows.v[k];
    const u32vec *vars = &n->reds[stage];
    uint32_t nb = e->view.binds.n, lanes = e->lanes;
    atom lane = e->lane;
    if (r->stage != stage) continue;
    for (uint32_t j = 0; j + 1 < vars->n; j++) {
      lv i;
      lb_for(&e->b, sym_name(e->c, vars->v[j]), lb_int(&e->b, 0), emit_size(e, sym_extent(e->c, vars->v[j])),
             lb_int(&e->b, 1), 0, &i);
      emit_scope(e);
      emit_bind(e, vars->v[j], i);
    }
    fill(e, r, vars->v[vars->n - 1], mr, n->lanes);
    for (uint32_t j = 0; j + 1 < vars->n; j++) {
      emit_unscope(e);
      lb_end(&e->b);
    }
    view_unbind(&e->view, nb);
    e->lane = lane, e->lanes = lanes;
    emit_epoch(e);
    e->rows = r;
  }
}

/* Elements of so many bytes that lie a multiple of this apart fall on one set of the nearest cache. */
static int64_t same_set(ectx *e, uint32_t bytes) { return max64(1, target_l1_way(e->p->t) / bytes); }

/* ---- panels come from far ----
 * The weights of a model do not fit into the caches; those of the next panel are fetched while the rows pass over this
 * one, a part for each block of rows, so that memory works while the multipliers do. What a run-time operand will have
 * copied into the next panel lies a line or some at each point of the sum: a block of rows fetches one line of each
 * point. Not where these lie in one set of the nearest cache: they would drive one another out. The constants of a
 * window that slides are a few lines, and what is written out step by step should not be interrupted. Where a few rows
 * are all there is they wait for memory anyway, and it is faster to read one panel after the other (MiniLM of 1 to 4
 * words on Zen 4: 20 to 30 %). */
static bool fetch_source(ectx *e, const nest *n, const packload *k, lv row) {
  sz idx[MAX_RANK];
  if (k->constant || !n->panel || !view_plain(&e->view, k->load, idx)) return false;
  tid t = exn(e->m, k->load)->tensor;
  sz at = view_address(e->c, view_layout(&e->view, t), idx);
  int64_t wide = (int64_t)n->nv * n->lanes, line = (int64_t)e->p->t->line / et_bytes(xt(e->m, t)->type),
          lines = line ? (wide + line - 1) / line : 0;
  for (uint32_t i = 0; i < n->reds[k->stage].n; i++)
    if (address_coef(&e->view, at, n->reds[k->stage].v[i]) % same_set(e, et_bytes(xt(e->m, t)->type)) == 0)
      return false;
  if (!lines || address_coef(&e->view, at, n->lane.var) != 1 || view_extent(e->c, n->row.extent, 0) < 2 * lines * n->mr)
    return false;
  lv block = lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), row, lb_int(&e->b, n->mr), 0);
  e->ahead.ptr = emit_source(e, t),
  e->ahead.at = lb_muli(&e->b, lb_op(&e->b, OP_MOD, lt(ET_I64, 1), block, lb_int(&e->b, lines), 0), line);
  e->ahead.step =
      sym_replace(e->c, at, n->lane.var, sym_muli(e->c, sym_addi(e->c, sym_of_atom(e->c, n->panel), 1), wide));
  e->ahead.by = 1, e->ahead.line = line;
  return true;
}
/* Which block of rows is this while a panel stays, of how many? Of divided ones: of two that follow one another. One
 * of an open number fetches all, for it may be the only one; *alone: it may have all rows there are. */
static lv block_of(ectx *e, const nest *n, lv row, uint32_t mr, int64_t *blocks, bool *alone) {
  enum { DIVIDED = 2 };
  ltype i64 = lt(ET_I64, 1);
  int64_t ext = view_extent(e->c, n->row.extent, -1), most;
  bool any = ext < 0 && (!n->row2.var || n->collapsed.var) && !n->inner.n, open = n->row.lo || ext < 0;
  if (n->row2.var && !n->collapsed.var)
    ext = view_extent(e->c, n->row2.extent, -1), open = n->begins || n->row2.lo || ext < 0,
    ext *= nest_row_fold(e->c, n);
  lv at = lb_op(&e->b, OP_IDIV, i64, row, lb_int(&e->b, n->mr / nest_row_fold(e->c, n)), 0);
  *blocks = ext < 0 ? 1 : (ext + n->mr - 1) / n->mr;
  for (uint32_t i = n->inner.n; i-- > 0;) {
    const nvar *v = &n->inner.v[i];
    ext = view_extent(e->c, v->extent, -1);
    open |= v->lo || ext < 0 || ext > INT32_MAX || *blocks > INT32_MAX;
    if (open) continue;
    at = lb_add(&e->b, lb_muli(&e->b, emit_size(e, sym_of_atom(e->c, v->var)), *blocks), at);
    *blocks *= ext;
  }
  sym_range(e->c, n->collapsed.var ? n->collapsed.extent : n->row2.var ? n->row2.extent : n->row.extent, &ext, &most);
  *alone = open ? (mr < n->mr || most <= mr / nest_row_fold(e->c, n)) && !n->inner.n : *blocks == 1;
  if (!open) return at;
  *blocks = 1;
  if (any || *alone) return lb_int(&e->b, 0);
  for (uint32_t i = 0; i < n->inner.n; i++) at = lb_add(&e->b, at, emit_size(e, sym_of_atom(e->c, n->inner.v[i].var)));
  *blocks = DIVIDED;
  return lb_op(&e->b, OP_MOD, i64, at, lb_int(&e->b, DIVIDED), 0);
}
void fetch_ahead(ectx *e, const nest *n, uint32_t stage, lv row, uint32_t mr) {
  enum { MAX_ALONE_ROWS = 4 };
  for (uint32_t i = 0; i < n->packs.n && !n->windows[stage] && !n->no_prefetch; i++) {
    const packload *k = &n->packs.v[i];
    if (k->stage == stage && n->lane_outer && row && fetch_source(e, n, k, row)) continue;
    int64_t size = et_bytes((etype)exn(e->m, k->load)->type), line = (int64_t)e->p->t->line / size, blocks;
    if (!k->constant || k->first || k->stage != stage || !n->lane_outer || !row || !line ||
        (uint64_t)(k->depth * k->nr * size) > e->p->t->l2 / 2)
      continue;
    bool alone;
    lv block = block_of(e, n, row, mr, &blocks, &alone);
    if (!blocks || (alone && mr <= MAX_ALONE_ROWS)) continue; /* no block: an axis of size 0 */
    int64_t by = (k->nr + blocks - 1) / blocks;
    e->ahead.ptr = k->ptr;
    e->ahead.at = lb_add(&e->b, emit_size(e, k->next), lb_muli(&e->b, block, k->depth * by));
    e->ahead.step = k->step, e->ahead.by = by, e->ahead.line = line;
  }
}
/* Does it not lie in the second cache, and is not handed over in scratch? */
static bool comes_from_far(ectx *e, const access *x) {
  const tensor *t = xt(e->m, x->t);
  double size = x->bytes;
  for (uint32_t d = 0; d < t->rank; d++) size *= (double)sym_int_or(e->c, t->shape[d], 1);
  return view_layout(&e->view, x->t) == &e->p->layouts[x->t] && !cost_fits_half_l2(e->p->t, size);
}
/* What a tile stores, what its epilogue reads, and the next tile's rows, are some lines in each of several rows: the
 * cache foresees none of them. So each strip of the sum fetches some: a line of each of the next rows, which
 * lie along the sum; of the others all lines of some rows, the first ones first. What fits the second cache, or
 * is handed over in scratch, is there; rows in one set of the nearest cache would drive one another out. */
void fetch_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr, uint32_t nv) {
  enum { MOST = 2 }; /* lines that a step fetches */
  const u32vec *vars = &n->reds[stage];
  accesses all = {0};
  bool last = true;
  if (n->no_prefetch || !vars->n || n->windows[stage] || !n->lane_outer || !n->row.var || n->row2.var || mr < 2 ||
      !cost_prefetch_rows(e->p->t, mr, nv))
    return;
  for (uint32_t i = stage + 1; i < n->stages.n; i++)
    last &= exn(e->m, xs(e->m, n->stages.v[i])->value)->kind != EX_REDUCE;
  atom along = vars->v[vars->n - 1];
  group_accesses(&e->view, &n->stages, n->stored, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const access *x = &all.v[i];
    int64_t step = address_coef(&e->view, x->address, n->row.var), line = (int64_t)e->p->t->line / x->bytes, steps = 1,
            groups = 1, ext, lines = line ? ((int64_t)nv * e->lanes + line - 1) / line : 0;
    if (x->constant || x->guarded || !line || !comes_from_far(e, x) || step < line || step > INT32_MAX ||
        step % same_set(e, x->bytes) == 0)
      continue;
    if (x->leader ? x->stage != stage || vars->n > 1 : !last) continue;
    if (address_coef(&e->view, x->address, x->leader ? along : n->lane.var) != 1) continue;
    stream s = {
        .ptr = x->store ? emit_target(e, x->t) : emit_source(e, x->t), .line = line, .lines = lines, .spacing = step};
    if (x->leader) {
      s.at = emit_size(e, sym_addi(e->c, sym_replace(e->c, x->address, along, sym_int(e->c, 0)), step * n->mr)),
      s.step = sym_of_atom(e->c, along), s.n = mr, s.lines = 1;
      vec_push(e->a, e->streams, s);
      continue;
    }
    sz group = sym_int(e->c, 0); /* its number, until there is one for each row */
    for (uint32_t j = vars->n;
         j-- > 0 && (ext = view_extent(e->c, sym_extent(e->c, vars->v[j]), 0)) > 0 && groups < mr;) {
      sz at = sym_of_atom(e->c, vars->v[j]);
      group =
          sym_add(e->c, group, sym_muli(e->c, j + 1 == vars->n ? sym_div(e->c, at, sym_int(e->c, line)) : at, groups));
      groups *= j + 1 == vars->n ? (ext + line - 1) / line : ext, steps *= ext;
    }
    if (lines * mr > MOST * steps) continue;
    s.n = (mr + groups - 1) / groups;
    s.at = emit_size(e, x->address),
    s.step = sym_muli(e->c, sym_min(e->c, sym_muli(e->c, group, s.n), sym_int(e->c, mr - s.n)), step);
    vec_push(e->a, e->streams, s);
  }
}
void fetch_places(ectx *e, const nest *n, lv lane) {
  const nvars *around = n->inner.n ? &n->inner : &n->outer;
  accesses all = {0};
  u32vec far = {0};
  if (n->no_prefetch || !around->n || !n->lane.var || n->lane_reduced || n->row.var ||
      !cost_prefetch_places(n->stages.n))
    return;
  atom next = around->v[around->n - 1].var;
  group_accesses(&e->view, &n->stages, n->stored, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const access *x = &all.v[i];
    int64_t step = address_coef(&e->view, x->address, next);
    bool there = x->store || x->constant || step <= 0 || address_coef(&e->view, x->address, n->lane.var) != 1 ||
                 !comes_from_far(e, x);
    sz at = there ? 0 : sym_addi(e->c, x->address, step);
    for (uint32_t k = 0; k < all.n && !there; k++)
      there = all.v[k].t == x->t && (all.v[k].address == at || (k < i && all.v[k].address == x->address));
    if (!there) vec_push(e->a, far, i);
  }
  for (uint32_t i = 0; i < far.n && cost_prefetch_places(far.n); i++) {
    const access *x = &all.v[far.v[i]];
    sz at = sym_addi(e->c, sym_replace(e->c, x->address, n->lane.var, sym_int(e->c, 0)),
                     address_coef(&e->view, x->address, next));
    lb_prefetch(&e->b, emit_source(e, x->t), lb_add(&e->b, emit_size(e, at), lane));
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
void fetch_step(ectx *e) {
  if (!e->ahead.ptr) return;
  lv at = lb_add(&e->b, e->ahead.at, lb_muli(&e->b, emit_size(e, e->ahead.step), e->ahead.by));
  for (int64_t i = 0; i < e->ahead.by * (e->tensorised ? e->tensorised->by->group : 1); i += e->ahead.line)
    lb_prefetch(&e->b, e->ahead.ptr, lb_addi(&e->b, at, i));
}
