/* How is one register tile of a group computed? It has mr rows by nv vectors of every stage of the group, in registers.
 * Where a stage is a reduction: its accumulators, the loops over its variables, and the results made of the
 * accumulators; else its value, once per row and vector. Then what goes to memory is stored. nest.c puts loops around
 * tiles.
 *
 * A reduction runs along the lanes (a vector holds parts of one sum, which are combined at the end) or not (each lane
 * is a sum of its own). The file begins with the innermost parts; micro_kernel is its last function. */
#include "schedule/nest.h"
#include "schedule/tile.h"
#include <math.h>

/* The reduction of a stage while its loops are emitted. Registers are numbered r * TILE_V + v. */
typedef struct tile_reduction {
  /* index into nest.stages */
  uint32_t stage;
  /* its reduction variables in loop order, without a reduced lane */
  const u32vec *vars;
  /* the reduction */
  const ex_node *red;
  /* type of the accumulators */
  etype type;
  /* the accumulators are vectors of tile.lanes lanes */
  bool vec;
  /* the tile of accumulators; along a reduced lane, nv and count are those of the step */
  register_tile tile;
  /* the accumulators, for an argmax or argmin the best values so far; 0: nobody reads this result */
  lv *acc;
  /* places of the best values; NULL: it is no argmax or argmin */
  lv *pay;
  /* whether there was a value yet, for an argmax or argmin; else one register: was there a NaN (see notes_nan)?
   * NULL: neither is needed */
  lv *found;
} tile_reduction;

/* what follows is emitted for this row and vector of the tile */
static void at_copy(ectx *e, const register_tile *t, uint32_t r, uint32_t v) {
  e->r = r;
  e->v = v;
  e->count = v + 1 == t->nv ? t->count : 0;
}

/* ---- what stages have computed --------------------------------------------------------------- */
typedef VEC(result) results;
static void group_axis_index(ectx *e, const stage *s, sz *idx) {
  for (uint32_t i = 0; i < s->naxes; i++) idx[i] = expr_axis_index(e->m, &s->axes[i]);
}
/* The values of a stage stay in registers for those after it; where they go is noted in `out`. */
static void keep(ectx *e, nest *n, uint32_t si, lv *regs, bool vec, results *out) {
  stage *s = xs(e->m, si);
  uint64_t dummy;
  if (map_getu(n->stored, s->tensor, &dummy)) {
    sz *idx = NEWN(e->a, sz, s->naxes + 1u), at[MAX_RANK] = {0};
    group_axis_index(e, s, idx);
    const layout *lay = view_layout(&e->view, s->tensor);
    lv to = emit_target(e, s->tensor);
    bool some = true; /* does the reduction have a place? */
    for (uint32_t i = 0; i < s->naxes; i++)
      at[i] = view_resolve(&e->view, idx[i]), some &= sym_int_or(e->c, xt(e->m, s->tensor)->shape[i], 1) != 0;
    if (some)
      vec_push(e->a, *out,
               ((result){s->tensor, to, view_address(e->c, lay, at), idx, regs, NEWN(e->a, uint64_t, TILE_V)}));
  }
  vec_push(e->a, e->view.locals,
           ((local){.t = s->tensor, .regs = regs, .regs_vec = vec, .single = !vec && !n->row.var}));
  emit_epoch(e);
}
static void store_results(ectx *e, const register_tile *t, results *out, bool vec) {
  for (uint32_t v = 0; v < t->nv && vec; v++) {
    at_copy(e, t, 0, v);
    lanes_store_runs(e, out->v, out->n);
  }
  for (uint32_t i = 0; i < out->n; i++)
    for (uint32_t r = 0; r < t->mr; r++)
      for (uint32_t v = 0; v < t->nv; v++) {
        const result *x = &out->v[i];
        at_copy(e, t, r, v);
        if (EK_PLANTED("schedule-elementwise")) e->count = 0;
        if (!(x->done[v] >> r & 1)) emit_store(e, x->t, x->idx, (evalue){x->regs[r * TILE_V + v], vec}, OP_NONE);
      }
  e->r = e->v = 0;
  out->n = 0;
}

/* ---- the loops of a reduction ---------------------------------------------------------------- */
/* The order of a sum of loads over a strided variable. Results that hinge on its rounding (a variance as E[x^2] -
 * E[x]^2 of nearly constant rows) should be those that the model's author saw, and ONNX models are tried in
 * onnxruntime: with several blocks outside the reduced axis it adds four neighbours first, then these to the sum,
 * and with one block one by one. Both orders cost the same here, and neither is the more exact by rule. */
static sz blocks_outside(ectx *e, const stage *s, const ex_node *red, atom var) {
  const ex_node *load = exn(e->m, red->body);
  const layout *lay = view_layout(&e->view, load->tensor);
  sz n = sym_int(e->c, 1), address = view_address(e->c, lay, load->args);
  int64_t step = address_coef(&e->view, address, var);
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      int64_t q = address_coef(&e->view, address, s->axes[i].d[j].var);
      /* a symbolic stride is over a whole axis or more */
      if (q == INT64_MIN + 1 || q > step) n = sym_mul(e->c, n, sym_extent(e->c, s->axes[i].d[j].var));
    }
  return n;
}
static void group_step(ectx *e, const tile_reduction *x, atom var, lv base) {
  const register_tile *t = &x->tile;
  ltype T = lt((etype)x->red->acc, x->vec ? t->lanes : 1);
  uint32_t nb = e->view.binds.n;
  for (uint32_t r = 0; r < t->mr; r++)
    for (uint32_t v = 0; v < t->nv; v++) {
      at_copy(e, t, r, v);
      lv part = 0, *a = &x->acc[r * TILE_V + v];
      for (uint32_t g = 0; g < SUM_GROUP; g++) {
        emit_scope(e);
        emit_bind(e, var, lb_addi(&e->b, base, EK_PLANTED("schedule-sum-order") ? 0 : g));
        part = schedule_step(e, x->red, part, x->vec, t->lanes);
        view_unbind(&e->view, nb);
        emit_unscope(e);
      }
      lb_set(&e->b, *a, lb_op(&e->b, OP_ADD, T, lb_get(&e->b, *a), part, 0));
    }
}
/* Emits the loop over whole groups, if there are any; returns where to go on one by one. */
static lv group_loop(ectx *e, const nest *n, const tile_reduction *x, atom v) {
  lv none = lb_int(&e->b, 0), end = emit_size(e, sym_extent(e->c, v)), i;
  if (e->sum_block == v || expr_range(e->m, v)) bounded(e, v, &none, &end);
  sz ext = sym_extent(e->c, v), blocks = blocks_outside(e, xs(e->m, n->stages.v[x->stage]), x->red, v);
  if (sym_int_or(e->c, ext, SUM_GROUP) < SUM_GROUP || sym_int_or(e->c, blocks, 2) == 1) return none;
  lv stop =
      lb_add(&e->b, none,
             lb_muli(&e->b, lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), lb_sub(&e->b, end, none), lb_int(&e->b, SUM_GROUP), 0),
                     SUM_GROUP));
  if (!sym_is_int(e->c, blocks, NULL))
    stop =
        lb_op(&e->b, OP_SEL, lt(ET_I64, 1), lb_cmp(&e->b, OP_GT, emit_size(e, blocks), lb_int(&e->b, 1)), stop, none);
  lb_for(&e->b, sym_name(e->c, v), none, stop, lb_int(&e->b, SUM_GROUP), 0, &i);
  emit_scope(e);
  group_step(e, x, v, i);
  emit_unscope(e);
  lb_end(&e->b);
  return stop;
}

/* The largest (least) of floats along the lanes, where NaN wins: asked of every sum so far, that takes three
 * instructions a vector, one after the other. So a register notes whether there was any NaN, two vectors at a
 * comparison, and the largest is that of the others. */
static bool notes_nan(const nest *n, const ex_node *red) {
  return n->lane_reduced && (red->op == RED_MAX || red->op == RED_MIN) && (red->acc == ET_F32 || red->acc == ET_F64);
}
static lv beyond(ectx *e, const ex_node *red, lv x, lv y) { /* the one of two that are no NaN */
  ltype t = li(e->f, x)->type;
  return lb_op(&e->b, OP_SEL, t, lb_op(&e->b, red->op == RED_MAX ? OP_GT : OP_LT, lt(ET_BOOL, t.lanes), x, y, 0), x, y);
}
static void noting_step(ectx *e, const tile_reduction *x) {
  const register_tile *t = &x->tile;
  ltype B = lt(ET_BOOL, t->lanes);
  lv all = lb_get(&e->b, *x->found), first = 0;
  for (uint32_t v = 0; v < t->nv; v++) {
    at_copy(e, t, 0, v);
    lv y = schedule_step(e, x->red, 0, true, t->lanes), nan = lb_op(&e->b, OP_ISNAN, B, y, 0, 0);
    lb_set(&e->b, x->acc[v], beyond(e, x->red, y, lb_get(&e->b, x->acc[v])));
    if (first || v + 1 == t->nv)
      all = lb_op(&e->b, OP_OR, B, all, first ? lb_op(&e->b, OP_OR, B, first, nan, 0) : nan, 0), first = 0;
    else
      first = nan;
  }
  lb_set(&e->b, *x->found, all);
}
/* The body at the point bound to the variables, added to all accumulators. */
static void red_step(ectx *e, const tile_reduction *x) {
  const register_tile *t = &x->tile;
  fetch_step(e);
  if (e->tensorised) {
    instruction_step(e, e->tensorised, x->acc, t, 0);
    return;
  }
  if (x->found && !x->pay) {
    noting_step(e, x);
    return;
  }
  for (uint32_t r = 0; r < t->mr; r++)
    for (uint32_t v = 0; v < t->nv; v++) {
      at_copy(e, t, r, v);
      uint32_t k = r * TILE_V + v;
      if (!x->acc[k]) continue; /* nobody reads this result */
      if (x->pay)
        schedule_arg_step(e, x->red, x->acc[k], x->pay[k], x->found[k], x->vec, t->lanes);
      else
        lb_set(&e->b, x->acc[k], schedule_step(e, x->red, lb_get(&e->b, x->acc[k]), x->vec, t->lanes));
    }
}
/* The loop over the last variable, two points a step, each with sums of its own. */
static void two_points(ectx *e, const tile_reduction *x, atom v) {
  lv i, *sums[2] = {x->acc, e->second};
  uint32_t nb = e->view.binds.n;
  e->second = NULL;
  lb_for(&e->b, sym_name(e->c, v), lb_int(&e->b, 0), emit_size(e, sym_extent(e->c, v)), lb_int(&e->b, 2), 0, &i);
  for (int k = 0; k < 2; k++) {
    tile_reduction point = *x;
    point.acc = sums[k];
    emit_scope(e);
    emit_bind(e, v, lb_addi(&e->b, i, EK_PLANTED("schedule-second") ? 0 : k));
    red_step(e, &point);
    view_unbind(&e->view, nb);
    emit_unscope(e);
  }
  lb_end(&e->b);
  e->second = sums[1];
}
/* The steps of the last variable one after the other: they share the vectors that they load. */
static void window_steps(ectx *e, const tile_reduction *x, atom v) {
  uint32_t nb = e->view.binds.n;
  e->shared = map_new(e->a);
  for (int64_t k = 0, steps = sym_int_or(e->c, sym_extent(e->c, v), 0); k < steps; k++) {
    emit_scope(e);
    view_bind(&e->view, (binding){.var = v, .subst = sym_int(e->c, k)});
    red_step(e, x);
    view_unbind(&e->view, nb);
    emit_unscope(e);
  }
  e->shared = NULL;
}
static void red_loops(ectx *e, const nest *n, const tile_reduction *x, uint32_t from);
/* What is left of the innermost variable of a sum that an instruction computes, less than a group. */
static void last_group(ectx *e, const tile_reduction *x, lv from, lv end) {
  const register_tile *t = &x->tile;
  const lv rest = lb_sub(&e->b, end, from);
  const uint32_t nb = e->view.binds.n;
  scalar n;
  const bool known = loop_const(e->f, rest, &n);
  if ((known && !n.i) || EK_PLANTED("schedule-last-group")) return;
  if (!known) lb_if(&e->b, lb_cmp(&e->b, OP_GT, rest, lb_int(&e->b, 0)));
  emit_scope(e);
  emit_bind(e, e->tensorised->var, from);
  instruction_step(e, e->tensorised, x->acc, t, rest);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  if (!known) lb_end(&e->b);
}
/* The loop over the innermost variable, in steps of whole words, for the factors that hang on it; then what it has
 * added up times the others. */
static void factored_loop(ectx *e, const tile_reduction *x, atom v) {
  const factored *f = e->factored;
  const register_tile *t = &x->tile;
  const ltype T = lt(x->type, t->lanes), P = lt((etype)f->inner.acc, t->lanes);
  const uint32_t nb = e->view.binds.n, group = e->tensorised ? e->tensorised->by->group : 1;
  tile_reduction part = *x;
  lv i, lo = lb_int(&e->b, 0), hi = emit_size(e, sym_extent(e->c, v));
  part.red = &f->inner, part.type = (etype)P.elem;
  bounded(e, v, &lo, &hi);
  if (f->outer) {
    part.acc = NEWN(e->a, lv, (size_t)t->mr * TILE_V);
    for (uint32_t k = 0; k < t->mr * TILE_V; k++)
      if (x->acc[k]) part.acc[k] = lb_reg(&e->b, lb_const(&e->b, P, schedule_identity(RED_SUM, part.type)));
  }
  lb_for(&e->b, sym_name(e->c, v), lo, hi, lb_int(&e->b, f->points), 0, &i);
  emit_scope(e);
  e->words = map_new(e->a);
  for (e->point = 0; e->point < f->points / group; e->point++) {
    emit_scope(e);
    emit_bind(e, v, lb_addi(&e->b, i, (int64_t)e->point * group));
    red_step(e, &part);
    view_unbind(&e->view, nb);
    emit_unscope(e);
  }
  e->words = NULL, e->point = 0;
  emit_unscope(e);
  lb_end(&e->b);
  for (uint32_t r = 0; r < t->mr && f->outer; r++)
    for (uint32_t q = 0; q < t->nv; q++) {
      const uint32_t k = r * TILE_V + q;
      at_copy(e, t, r, q);
      if (!x->acc[k]) continue;
      const lv y = emit_vec(e, emit_value(e, f->outer), x->type), in = lb_get(&e->b, part.acc[k]),
               sum = part.type == x->type ? in : lb_op(&e->b, OP_CAST, T, in, 0, 0);
      lb_set(&e->b, x->acc[k], lb_op(&e->b, OP_FMA, T, sum, y, lb_get(&e->b, x->acc[k])));
    }
}
/* The loop over one variable of the reduction, around those over the next ones; where streams are fetched, in strips
 * of a cache line. */
static void red_loop(ectx *e, const nest *n, const tile_reduction *x, uint32_t from) {
  const atom v = x->vars->v[from];
  const bool innermost = from + 1 == x->vars->n;
  lv i, at = lb_int(&e->b, 0);
  uint32_t nb = e->view.binds.n;
  if (innermost && v == e->window) {
    window_steps(e, x, v);
    return;
  }
  if (innermost && !x->pay && schedule_adds_loads(e->m, x->red)) at = group_loop(e, n, x, v);
  lv end = emit_size(e, sym_extent(e->c, v));
  if (innermost && e->factored) {
    factored_loop(e, x, v);
    return;
  }
  bounded(e, v, &at, &end);
  const uint32_t group = e->tensorised && innermost ? e->tensorised->by->group : 1;
  const bool whole = group == 1 || sym_int_or(e->c, sym_extent(e->c, v), 1) % group == 0;
  const lv last = end;
  if (!whole) {
    const lv groups = lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), lb_sub(&e->b, end, at), lb_int(&e->b, group), 0);
    end = lb_add(&e->b, at, lb_muli(&e->b, groups, group));
  }
  const lv rest = end;
  int64_t strip = innermost ? prefetch_interval(e) : 0;
  if (strip && sym_int_or(e->c, sym_extent(e->c, v), strip + 1) <= strip) { /* the strip is the whole loop */
    emit_bind(e, v, at);
    fetch_streams(e);
    view_unbind(&e->view, nb);
    strip = 0;
  }
  if (strip) {
    lb_for(&e->b, sym_name(e->c, v), at, end, lb_int(&e->b, strip), 0, &at);
    emit_scope(e);
    emit_bind(e, v, at);
    fetch_streams(e);
    view_unbind(&e->view, nb);
    end = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, at, strip - EK_PLANTED("schedule-streams")), end, 0);
  }
  lb_for(&e->b, sym_name(e->c, v), at, end, lb_int(&e->b, group), 0, &i);
  emit_scope(e);
  emit_bind(e, v, i);
  red_loops(e, n, x, from + 1);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(&e->b);
  if (strip) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  if (!whole) last_group(e, x, rest, last);
}
/* The loops over the variables from this one on, and the step inside them. */
static void red_loops(ectx *e, const nest *n, const tile_reduction *x, uint32_t from) {
  lv first, last;
  if (from == x->vars->n)
    red_step(e, x);
  else if (from + 1 == x->vars->n && e->second)
    two_points(e, x, x->vars->v[from]);
  else if (long_sum_block(e, x->vars->v[from], &first, &last)) {
    red_loops(e, n, x, from);
    long_sum_close(e, first, last);
  } else
    red_loop(e, n, x, from);
}

/* ---- a reduction along the lanes ------------------------------------------------------------- */
/* One step of a reduced lane: nv vectors from lane `at` on, `count` lanes of the last one (0: all). */
static void lane_step(ectx *e, const nest *n, const tile_reduction *x, lv at, uint32_t nv, lv count) {
  uint32_t nb = e->view.binds.n;
  tile_reduction step = *x;
  step.tile.nv = nv, step.tile.count = count;
  emit_scope(e);
  view_bind(&e->view, (binding){.var = n->lane.var, .base = at, .vec_step = x->tile.lanes, .lane = true});
  emit_epoch(e);
  red_step(e, &step);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(&e->b);
}
/* lane loop of a reduced lane: full tiles, full vectors, tail */
static void reduced_lane(ectx *e, const nest *n, const tile_reduction *x) {
  const uint32_t lanes = x->tile.lanes;
  lv first, last;
  if (long_sum_block(e, n->lane.var, &first, &last)) {
    reduced_lane(e, n, x);
    long_sum_close(e, first, last);
    return;
  }
  lv end = emit_size(e, n->lane.extent), i, at = lb_int(&e->b, 0);
  int64_t ext = bounded(e, n->lane.var, &at, &end) ? -1 : sym_int_or(e->c, n->lane.extent, -1);
  uint32_t widths[2] = {n->nv, 1};
  e->lane_reduced = true;
  for (int pass = 0; pass < 2; pass++) {
    uint32_t nv = widths[pass], w = nv * lanes;
    if (pass == 1 && n->nv == 1) break;
    if (ext >= 0 && (pass == 0 ? ext < (int64_t)w : ext % ((int64_t)n->nv * lanes) < (int64_t)lanes)) continue;
    lv from = at;
    lv trips = lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), lb_sub(&e->b, end, from), lb_int(&e->b, w), 0);
    lv stop = lb_add(&e->b, from, lb_muli(&e->b, trips, w));
    lb_for(&e->b, sym_name(e->c, n->lane.var), from, stop, lb_int(&e->b, w), 0, &i);
    lane_step(e, n, x, i, nv, 0);
    at = stop;
  }
  if ((ext < 0 || ext % lanes) && !EK_PLANTED("schedule-reduce")) {
    lv from = at, cnt = lb_sub(&e->b, end, from);
    lb_if(&e->b, lb_cmp(&e->b, OP_GT, cnt, lb_int(&e->b, 0)));
    lane_step(e, n, x, from, 1, cnt);
  }
  e->lane_reduced = false;
  e->count = 0;
  emit_epoch(e);
}
/* the loops over the other variables of the reduction, from this one on, around the reduced lane */
static void reduced_outer(ectx *e, const nest *n, const tile_reduction *x, uint32_t from) {
  if (from == x->vars->n) {
    reduced_lane(e, n, x);
    return;
  }
  const atom v = x->vars->v[from];
  lv i, first, last;
  if (long_sum_block(e, v, &first, &last)) {
    reduced_outer(e, n, x, from);
    long_sum_close(e, first, last);
    return;
  }
  uint32_t nb = e->view.binds.n;
  lv at = lb_int(&e->b, 0), end = emit_size(e, sym_extent(e->c, v));
  bounded(e, v, &at, &end);
  lb_for(&e->b, sym_name(e->c, v), at, end, lb_int(&e->b, 1), 0, &i);
  emit_scope(e);
  emit_bind(e, v, i);
  reduced_outer(e, n, x, from + 1);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(&e->b);
}

/* Each lane has the best of its places: the least (greatest) payload among the lanes with the best value. NaN is
 * better than any. */
static lv best_lane(ectx *e, const tile_reduction *x) {
  const ex_node *red = x->red;
  const uint32_t nv = x->tile.nv, lanes = x->tile.lanes;
  const lv *acc = x->acc, *pay = x->pay, *found = x->found;
  lbuild *b = &e->b;
  etype t = exn(e->m, red->body)->type;
  ltype B = lt(ET_BOOL, lanes), T = lt(t, lanes), I = lt(ET_I64, lanes);
  bool last = red->op == RED_ARGMAX_LAST || red->op == RED_ARGMIN_LAST,
       most = red->op == RED_ARGMAX || red->op == RED_ARGMAX_LAST;
  rop value = most ? RED_MAX : RED_MIN, place = last ? RED_MAX : RED_MIN;
  scalar none = {.i = last ? INT64_MIN : INT64_MAX};
  lv nan[TILE_V], odd = 0, best = 0, at = 0;
  for (uint32_t v = 0; v < nv; v++) {
    lv have = lb_get(b, found[v]), y = lb_get(b, acc[v]);
    nan[v] = et_kind(t) == K_FLOAT ? lb_op(b, OP_AND, B, have, lb_op(b, OP_ISNAN, B, y, 0, 0), 0)
                                   : lb_const(b, B, (scalar){.i = 0});
    odd = odd ? lb_op(b, OP_OR, B, odd, nan[v], 0) : nan[v];
    y = lb_op(b, OP_SEL, T, lb_op(b, OP_AND, B, have, lb_op(b, OP_NOT, B, nan[v], 0, 0), 0), y,
              lb_const(b, T, schedule_identity(value, t)));
    best = best ? lb_op(b, schedule_combine(value), T, best, y, 0) : y;
  }
  odd = lb_hreduce(b, RED_ANY, odd);
  lv is_odd = lb_splat(b, (uint16_t)lanes, odd), to_beat = lb_splat(b, (uint16_t)lanes, lb_hreduce(b, value, best));
  for (uint32_t v = 0; v < nv; v++) {
    lv equal = lb_op(b, OP_AND, B, lb_get(b, found[v]), lb_op(b, OP_EQ, B, lb_get(b, acc[v]), to_beat, 0), 0);
    lv it = lb_op(b, OP_OR, B, nan[v], lb_op(b, OP_AND, B, equal, lb_op(b, OP_NOT, B, is_odd, 0, 0), 0), 0);
    lv p = lb_op(b, OP_SEL, I, it, lb_get(b, pay[v]), lb_const(b, I, none));
    at = at ? lb_op(b, schedule_combine(place), I, at, p, 0) : p;
  }
  at = lb_hreduce(b, place, at);
  return lb_op(b, OP_SEL, lt(ET_I64, 1), lb_op(b, OP_EQ, lt(ET_BOOL, 1), at, lb_const(b, lt(ET_I64, 1), none), 0),
               lb_int(b, 0), at);
}

/* The result of each row, a scalar, of the vectors that a reduction along the lanes has left. */
static void combine_lanes(ectx *e, const tile_reduction *x, etype to, lv *regs) {
  const rop op = (rop)x->red->op;
  const bool notes = x->found && !x->pay;
  const etype t = x->type;
  const uint32_t lanes = x->tile.lanes;
  if (x->pay) {
    regs[0] = best_lane(e, x);
    return;
  }
  for (uint32_t r = 0; r < x->tile.mr; r++) {
    lv y = lb_get(&e->b, x->acc[r * TILE_V]);
    for (uint32_t v = 1; v < x->tile.nv - EK_PLANTED("schedule-sums"); v++)
      y = notes ? beyond(e, x->red, y, lb_get(&e->b, x->acc[v]))
                : lb_op(&e->b, schedule_combine(op), lt(t, lanes), y, lb_get(&e->b, x->acc[r * TILE_V + v]), 0);
    y = lanes > 1 ? lb_hreduce(&e->b, op, y) : y;
    if (notes)
      y = lb_op(&e->b, OP_SEL, lt(t, 1),
                lanes > 1 ? lb_hreduce(&e->b, RED_ANY, lb_get(&e->b, *x->found)) : lb_get(&e->b, *x->found),
                lb_const(&e->b, lt(t, 1), (scalar){.f = NAN}), y);
    regs[r * TILE_V] = t != to ? lb_op(&e->b, OP_CAST, lt(to, 1), y, 0, 0) : y;
  }
}

/* ---- a reduction of each lane on its own ----------------------------------------------------- */
/* Has this tile two accumulators for each sum? Not where something else is done at each point. */
static bool sums_twice(ectx *e, const nest *n, const tile_reduction *x) {
  if (e->factored || x->tile.mr * x->tile.nv > n->paired_sums || (n->blocking.on && n->blocking.panels) || e->window ||
      e->streams.n || !nest_adds_pairs(e->m, n, x->stage))
    return false;
  for (uint32_t i = 0; i < e->ranges.n; i++)
    if (e->ranges.v[i].var == x->vars->v[x->vars->n - 1]) return false;
  return true;
}
/* Are the factors of the stage's sum told apart? Where a constant lies in words of several points, or the innermost
 * loop adds up integers. */
static bool tell_factors(ectx *e, const nest *n, uint32_t stage, factored *out) {
  uint32_t points = e->tensorised ? e->tensorised->by->group : 1;
  bool packed = false;
  if (!nest_factors(&e->view, n, stage, out) || (e->tensorised && !e->tensorised->factored)) return false;
  for (uint32_t i = 0; i < n->packs.n; i++)
    if (n->packs.v[i].stage == stage && n->packs.v[i].few.bits && !n->packs.v[i].source) {
      const uint32_t each = bit_pack_points(n->packs.v[i].few.bits);
      points = each > points ? each : points, packed = true;
    }
  out->points = points;
  return packed || out->inner.acc == ET_I32;
}
/* Fetches ahead, computes the operands that come before the sum, and emits the reduction's loops. */
static void sum_tile(ectx *e, const nest *n, const tile_reduction *x, bool is_long) {
  const register_tile *t = &x->tile;
  const ltype T = lt(x->type, t->lanes);
  const uint32_t i = x->stage;
  prepare_rows(e, n, i, t->mr);
  if (n->blocking.on && n->blocking.panels)
    blocking_streams(e, n, t);
  else
    fetch_panels(e, n, i, t->row, t->mr), fetch_rows(e, n, i, t->mr, t->nv);
  e->tensorised = instruction_of(n, i, 0);
  factored factors;
  e->factored = tell_factors(e, n, i, &factors) ? &factors : NULL;
  e->window = x->red->where || e->tensorised || t->mr * t->nv < 2 ? 0 : n->windows[i];
  if (!x->pay && !is_long && sums_twice(e, n, x)) {
    e->second = NEWN(e->a, lv, (size_t)t->mr * TILE_V);
    for (uint32_t k = 0; k < t->mr * TILE_V; k++)
      if (x->acc[k]) e->second[k] = lb_reg(&e->b, lb_const(&e->b, T, schedule_identity(RED_SUM, x->type)));
  }
  red_loops(e, n, x, 0);
  for (uint32_t k = 0; k < t->mr * TILE_V && e->second; k++)
    if (x->acc[k])
      lb_set(&e->b, x->acc[k], lb_op(&e->b, OP_ADD, T, lb_get(&e->b, x->acc[k]), lb_get(&e->b, e->second[k]), 0));
  e->second = NULL;
  e->ahead.n = e->streams.n = 0, e->rows = NULL, e->tensorised = NULL, e->window = 0;
  e->factored = NULL;
}
/* The results of the tile, in the type of its stage: what the accumulators hold; of a constant in fixed point, times
 * the steps of its lanes. */
static void read_accumulators(ectx *e, const nest *n, const tile_reduction *x, etype to, lv *regs) {
  const register_tile *t = &x->tile;
  const ltype T = lt(x->type, t->lanes);
  const packload *fixed = NULL;
  for (uint32_t k = 0; k < n->packs.n; k++)
    if (n->packs.v[k].stage == x->stage && n->packs.v[k].fixed_point) fixed = &n->packs.v[k];
  lv step[TILE_V] = {0};
  for (uint32_t v = 0; fixed && v < t->nv; v++) step[v] = fixed_point_step(e, fixed, v);
  for (uint32_t r = 0; r < t->mr; r++)
    for (uint32_t v = 0; v < t->nv; v++) {
      const lv in = x->pay ? x->pay[r * TILE_V + v] : x->acc[r * TILE_V + v];
      lv y = in ? lb_get(&e->b, in) : lb_const(&e->b, T, schedule_identity((rop)x->red->op, x->type));
      if (fixed) y = lb_op(&e->b, OP_MUL, T, y, step[v], 0);
      if (!x->pay && x->type != to) y = lb_op(&e->b, OP_CAST, lt(to, t->lanes), y, 0, 0);
      regs[r * TILE_V + v] = y;
    }
}

/* ---- a stage of a tile ----------------------------------------------------------------------- */
/* Two sums in one group are two products that are added, and read nowhere else (two_products of fusion/fuse_join.c):
 * the second goes on where the first ended. */
bool nest_goes_on(const emodule *m, const nest *n, uint32_t i) {
  uint64_t dummy;
  if (!i || n->lane_reduced) return false;
  for (uint32_t k = i - 1; k <= i; k++) {
    const stage *s = xs(m, n->stages.v[k]);
    const ex_node *red = exn(m, s->value);
    if (red->kind != EX_REDUCE || red->op != RED_SUM || et_kind((etype)red->acc) != K_FLOAT ||
        red->acc != xt(m, s->tensor)->type || map_getu(n->stored, s->tensor, &dummy))
      return false;
  }
  return true;
}
/* The accumulators before the first step. */
static void start_accumulators(ectx *e, const nest *n, tile_reduction *x) {
  const register_tile *t = &x->tile;
  const ltype T = lt(x->type, t->lanes);
  const size_t registers = (size_t)t->mr * TILE_V;
  const bool arg = red_is_arg((rop)x->red->op);
  x->acc = NEWN(e->a, lv, registers);
  if (arg) x->pay = NEWN(e->a, lv, registers), x->found = NEWN(e->a, lv, registers);
  lv *before = nest_goes_on(e->m, n, x->stage) ? e->view.locals.v[e->view.locals.n - 1].regs : NULL;
  for (uint32_t r = 0; r < t->mr; r++)
    for (uint32_t v = 0; v < t->nv; v++) {
      uint32_t k = r * TILE_V + v;
      if (n->idle >> r & 1) continue;
      if (arg) {
        schedule_arg_start(e, x->red, n->lane_reduced, t->lanes, &x->acc[k], &x->pay[k], &x->found[k]);
        continue;
      }
      x->acc[k] = lb_reg(&e->b, before ? before[k] : lb_const(&e->b, T, schedule_identity((rop)x->red->op, x->type)));
      /* x + -0 is x */
      if (before)
        before[k] = lb_const(&e->b, T, (scalar){.f = EK_PLANTED("schedule-two-products") ? 1 : copysign(0, -1)});
    }
  if (!notes_nan(n, x->red)) return;
  x->found = NEW(e->a, lv);
  *x->found = lb_reg(&e->b, lb_const(&e->b, lt(ET_BOOL, t->lanes), (scalar){.i = 0}));
}
/* A tile's values of the variables that its ranges may hang on. */
static void tile_ranges(ectx *e, const nest *n, uint32_t stage, const register_tile *t) {
  const ex_node *red = exn(e->m, xs(e->m, n->stages.v[stage])->value);
  var_spans of = {0};
  if (!has_ranges(e, red)) return;
  if (n->row2.var) { /* points of two variables: of all of them */
    range_span(e, &of, &n->row);
    if (n->collapsed.var)
      range_span(e, &of, &n->row2);
    else
      vec_push(e->a, of, ((var_span){n->row2.var, t->row, lb_addi(&e->b, t->row, t->mr / e->row_fold - 1)}));
  } else if (n->row.var)
    vec_push(e->a, of, ((var_span){n->row.var, t->row, lb_addi(&e->b, t->row, t->mr - 1)}));
  if (n->lane.var && !n->lane_reduced) {
    lv lanes =
        t->count ? lb_addi(&e->b, t->count, (int64_t)(t->nv - 1) * e->lanes) : lb_int(&e->b, (int64_t)t->nv * e->lanes);
    vec_push(e->a, of, ((var_span){n->lane.var, t->lane, lb_addi(&e->b, lb_add(&e->b, t->lane, lanes), -1)}));
  }
  range_bounds(e, red, &of, RANGE_IN_TILE, n->windows[stage]);
}
static bool tile_is_long(ectx *e, const nest *n, const tile_reduction *x, long_sum *s) {
  const register_tile *t = &x->tile;
  u32vec vars = {0};
  for (uint32_t i = 0; i < x->vars->n; i++) vec_push(e->a, vars, x->vars->v[i]);
  if (n->lane_reduced) vec_push(e->a, vars, n->lane.var);
  return long_sum_begin(e, s, x->red, &vars, n->lane_reduced ? (int64_t)t->lanes * t->nv : 1, x->acc, t->mr * TILE_V);
}
/* Emits the reduction of stage i, and sets its results, regs[r * TILE_V + v]. True: blocking_sum has opened what is
 * for the last part of the sum only. */
static bool reduce_tile(ectx *e, const nest *n, const register_tile *t, uint32_t i, lv *regs) {
  const stage *s = xs(e->m, n->stages.v[i]);
  ex_node red = *exn(e->m, s->value);
  const etype to = xt(e->m, s->tensor)->type;
  if (n->shared && !i) red.body = expr_times(e->m, panel_value_rest(&e->view, &red, n->shared), n->shared);
  tile_reduction x = {.stage = i,
                      .vars = &n->reds[i],
                      .red = &red,
                      .type = red_is_arg((rop)red.op) ? exn(e->m, red.body)->type : (etype)red.acc,
                      .vec = n->lane.var != 0,
                      .tile = *t};
  if (n->lane_reduced) x.tile.nv = n->nv;
  start_accumulators(e, n, &x);
  uint32_t nr = e->ranges.n;
  bool conditional = open_condition(e, &red);
  outside_bounds(e, n, &red, n->windows[i]);
  tile_ranges(e, n, i, t);
  uint32_t mark = sym_mark(e->c);
  for (uint32_t k = nr; k < e->ranges.n; k++)
    for (uint32_t q = 0; q < 2; q++)
      if (e->ranges.v[k].facts[q]) sym_push(e->c, e->ranges.v[k].facts[q]);
  long_sum blocks = {0};
  bool is_long = !x.pay && tile_is_long(e, n, &x, &blocks);
  if (n->lane_reduced)
    reduced_outer(e, n, &x, 0);
  else
    sum_tile(e, n, &x, is_long);
  long_sum_end(e, &blocks);
  if (conditional) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  e->ranges.n = nr;
  sym_pop(e->c, mark);
  if (n->lane_reduced) {
    combine_lanes(e, &x, to, regs);
    e->lanes = 1;
    return false;
  }
  bool waits = blocking_sum(e, n, t, (rop)red.op, lt(x.type, t->lanes), x.acc);
  read_accumulators(e, n, &x, to, regs);
  return waits;
}
/* The values of a stage that is no reduction. */
static void map_tile(ectx *e, const nest *n, const register_tile *t, const stage *s, bool vec, lv *regs) {
  /* what stages have in common is emitted once */
  ex value = n->stages.n > 1 ? view_canonical(&e->view, s->value) : s->value;
  for (uint32_t r = 0; r < t->mr; r++)
    for (uint32_t v = 0; v < t->nv; v++) {
      at_copy(e, t, r, v);
      evalue x = emit_value(e, value);
      regs[r * TILE_V + v] = vec ? emit_vec(e, x, xt(e->m, s->tensor)->type) : x.v;
    }
}

/* ---- the tile -------------------------------------------------------------------------------- */
/* The points row, row + 1, .. of the two variables that the rows count; at most one of them begins another value of
 * the outer one after each step. */
static void bind_points(ectx *e, const nest *n, lv row, uint32_t mr) {
  lbuild *b = &e->b;
  ltype i64 = lt(ET_I64, 1);
  lv *in = NEWN(e->a, lv, mr), *out = NEWN(e->a, lv, mr), first = n->row.lo ? n->row.lo : lb_int(b, 0),
     end = n->row.hi ? n->row.hi : emit_size(e, n->row.extent), each = lb_sub(b, end, first),
     q = lb_op(b, OP_IDIV, i64, row, each, 0);
  out[0] = n->row2.lo ? lb_add(b, n->row2.lo, q) : q;
  in[0] = lb_add(b, first, lb_sub(b, row, lb_mul(b, q, each)));
  for (uint32_t r = 1; r < mr; r++) {
    lv next = lb_addi(b, in[r - 1], 1), more = lb_cmp(b, OP_LT, next, end);
    in[r] = lb_op(b, OP_SEL, i64, more, next, first);
    out[r] = lb_op(b, OP_SEL, i64, more, out[r - 1], lb_addi(b, out[r - 1], 1 - EK_PLANTED("schedule-collapsed")));
  }
  view_bind(&e->view, (binding){.var = n->row.var, .rows = in, .row_step = 1});
  view_bind(&e->view, (binding){.var = n->row2.var, .rows = out, .row_step = 1});
}
/* Tells the emitter the tile's size, and what its rows and lanes are. */
static void bind_tile(ectx *e, const nest *n, const register_tile *t) {
  const bool vec = n->lane.var && !n->lane_reduced;
  e->row = n->row.var;
  e->lane = n->lane.var;
  e->lanes = t->lanes;
  e->mr = t->mr;
  e->unit = vec && (!n->lane.lo || (n->lane.unit && n->lane.unit % t->lanes == 0)) ? t->lanes : 0;
  e->row_fold = n->row2.var ? nest_row_fold(e->c, n) : 0, e->row2 = n->row2.var;
  if (n->collapsed.var)
    bind_points(e, n, t->row, t->mr);
  else if (n->row2.var) {
    view_bind(&e->view, (binding){.var = n->row.var, .base = lb_int(&e->b, 0), .row_step = 1, .row_mod = e->row_fold});
    view_bind(&e->view, (binding){.var = n->row2.var,
                                  .base = t->row,
                                  .row_step = 1,
                                  .row_div = e->row_fold + EK_PLANTED("schedule-row2")});
  } else if (n->row.var)
    view_bind(&e->view, (binding){.var = n->row.var, .base = t->row, .row_step = 1});
  if (vec) view_bind(&e->view, (binding){.var = n->lane.var, .base = t->lane, .vec_step = t->lanes, .lane = true});
  emit_epoch(e);
}
void micro_kernel(ectx *e, nest *n, const register_tile *t) {
  const bool vec = n->lane.var && !n->lane_reduced;
  bool waits = false;
  uint32_t nb = e->view.binds.n;
  results out = {0};
  emit_scope(e);
  bind_tile(e, n, t);
  fetch_places(e, n, t->lane);
  for (uint32_t i = 0; i < n->stages.n; i++) {
    const stage *s = xs(e->m, n->stages.v[i]);
    const bool reduces = exn(e->m, s->value)->kind == EX_REDUCE;
    lv *regs = NEWN(e->a, lv, (size_t)t->mr * TILE_V);
    if (reduces)
      waits |= reduce_tile(e, n, t, i, regs);
    else
      map_tile(e, n, t, s, vec, regs);
    keep(e, n, n->stages.v[i], regs, vec, &out);
    if (reduces || !n->row.var || i + 1 == n->stages.n) store_results(e, t, &out, vec);
  }
  if (waits) blocking_summed(e);
  e->r = e->v = e->mr = e->row_fold = e->row2 = e->unit = 0;
  e->count = 0;
  e->lanes = 1;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  emit_epoch(e);
}
