/* How is one group of stages computed over its index space? See nest.h. The decisions (which variable is the lane,
 * the row, how large a tile) are made in tile.c; here they are carried out. */
#include "schedule/nest.h"
#include "schedule/tile.h"

uint32_t nest_lanes(index_view *iv, const u32vec *stages) {
  uint32_t l = target_lanes(iv->p->t, ET_F32);
  for (uint32_t i = 0; i < stages->n; i++) {
    stage *s = xs(iv->m, stages->v[i]);
    etype t = xt(iv->m, s->tensor)->type;
    uint32_t k = t == ET_BOOL ? l : target_lanes(iv->p->t, t);
    if (k < l) l = k;
    const ex_node *root = s->value ? exn(iv->m, s->value) : NULL;
    if (root && root->kind == EX_REDUCE && !red_is_arg((rop)root->op)) {
      k = root->acc == ET_BOOL ? l : target_lanes(iv->p->t, (etype)root->acc);
      if (k < l) l = k;
    }
  }
  return l;
}
static uint32_t lanes_of(const nest *n) { return n->lane.var ? n->lanes : 1; }

uint32_t nest_row_fold(ctx *c, const nest *n) {
  return n->row2.var && !n->collapsed.var ? (uint32_t)sym_int_or(c, n->row.extent, 1) : 1;
}
/* What a tile takes of the lanes, the same for all of its rows. */
typedef struct tile_lanes {
  lv lane;        /* first lane */
  lv count;       /* number of lanes of the last vector; 0: all */
  uint32_t nv;    /* vectors of the tile */
  uint32_t lanes; /* lanes of a vector */
  bool looped;    /* it stands in a loop over lanes */
} tile_lanes;
static void block_micro_kernels(ectx *e, nest *n, const register_tile *t);
/* mr rows from `row` on. The values of the group in registers are valid only inside their micro-kernel, unless that
 * stands in no loop at all. */
static void tile_micro_kernel(ectx *e, nest *n, const tile_lanes *a, lv row, uint32_t mr) {
  register_tile t = {.row = row, .lane = a->lane, .mr = mr, .nv = a->nv, .count = a->count, .lanes = a->lanes};
  uint32_t nl = e->view.locals.n;
  if (n->blocking.on)
    block_micro_kernels(e, n, &t);
  else
    micro_kernel(e, n, &t);
  if (a->looped || n->row.var) e->view.locals.n = nl;
}

/* The extent of a variable, if it is known and its range is made of whole tiles but for the end; else -1. */
static int64_t in_units(ectx *e, const nvar *v, int64_t tile) {
  return v->lo && (!v->unit || v->unit % tile) ? -1 : sym_int_or(e->c, v->extent, -1);
}
static lv until(ectx *e, const nvar *v, int64_t full) {
  return v->lo ? lb_op(&e->b, OP_MIN, lt(ET_I64, 1), v->hi, lb_int(&e->b, full), 0) : lb_int(&e->b, full);
}
/* Opens a condition, where the range may end before what is left behind `full`. */
static bool open_last(ectx *e, const nvar *v, int64_t full) {
  if (v->lo) lb_if(&e->b, lb_cmp(&e->b, OP_GT, v->hi, lb_int(&e->b, full)));
  return v->lo != 0;
}
/* Where tiles of mr rows end that begin at `at`, of `most` rows at most; see tile_fewer, and open_tiles of tile.c,
 * the same in numbers. rest: what is behind the highest ones, in two parts, set with the highest. */
static lv tiles_end(ectx *e, lv at, lv end, uint32_t mr, uint32_t most, lv *rest) {
  lbuild *b = &e->b;
  ltype i64 = lt(ET_I64, 1);
  lv zero = lb_int(b, 0), high = lb_int(b, mr);
  /* all but the parts that are lower: in few terms, for each loop's addresses begin there */
  if (mr < most && most <= TILE_EACH) {
    for (int k = 0; k < 2; k++)
      end = lb_sub(b, end, lb_op(b, OP_SEL, i64, lb_cmp(b, OP_LT, rest[k], high), rest[k], zero));
    return end;
  }
  lv left = lb_sub(b, end, at), full = lb_op(b, OP_IDIV, i64, left, high, 0);
  if (most > TILE_EACH) return lb_add(b, at, lb_muli(b, full, mr));
  lv over = lb_sub(b, left, lb_muli(b, full, mr));
  lv whole =
      lb_op(b, OP_OR, lt(ET_BOOL, 1),
            lb_op(b, OP_OR, lt(ET_BOOL, 1), lb_cmp(b, OP_EQ, over, zero), lb_cmp(b, OP_EQ, over, lb_int(b, mr - 1)), 0),
            lb_cmp(b, OP_LT, left, high), 0);
  lv two = lb_add(b, over, high), more = lb_op(b, OP_SEL, i64, whole, over, two);
  rest[0] = lb_op(b, OP_SEL, i64, whole, over, lb_op(b, OP_SHR, i64, lb_addi(b, two, 1), lb_int(b, 1), 0)),
  rest[1] = lb_sub(b, more, rest[0]);
  return lb_sub(b, end, more);
}
static lv values_of(ectx *e, const nvar *v) {
  return v->lo ? lb_sub(&e->b, v->hi, v->lo) : emit_size(e, v->extent);
} /* number of values in the range of v */
/* Opens a loop over parts of the rows lo..hi-1 of two variables, each with one value of row2 where its rows are
 * enough for a tile; lo and hi are then the part's. */
static void open_parts(ectx *e, const nest *n, lv *lo, lv *hi) {
  enum { ENOUGH = 4 };
  lbuild *b = &e->b;
  ltype i64 = lt(ET_I64, 1);
  lv each = values_of(e, &n->row),
     size = lb_op(b, OP_SEL, i64, lb_cmp(b, OP_GE, each, lb_int(b, ENOUGH)), each,
                  lb_op(b, OP_MAX, i64, lb_sub(b, *hi, *lo), lb_int(b, 1), 0)),
     g;
  lb_for(b, "part", lb_int(b, 0), lb_op(b, OP_IDIV, i64, lb_addi(b, lb_add(b, lb_sub(b, *hi, *lo), size), -1), size, 0),
         lb_int(b, 1), 0, &g);
  emit_scope(e);
  *lo = lb_add(b, *lo, lb_mul(b, g, size)), *hi = lb_op(b, OP_MIN, i64, lb_add(b, *lo, size), *hi, 0);
}
/* Tiles over an open number of values lo.. of the rows' variable: as many as there are of `most` values, then of
 * fewer. */
static void open_rows(ectx *e, nest *n, const tile_lanes *a, const nvar *v, lv lo, uint32_t most) {
  const uint32_t fold = nest_row_fold(e->c, n);
  lv hi = v->hi ? v->hi : emit_size(e, v->extent), rest[2], i;
  if (n->partitioned) open_parts(e, n, &lo, &hi);
  for (uint32_t mr = most; mr > EK_PLANTED("schedule-open-rows"); mr = tile_fewer(mr)) {
    lv stop = tiles_end(e, lo, hi, mr, most, rest);
    lb_for(&e->b, sym_name(e->c, v->var), lo, stop, lb_int(&e->b, mr), 0, &i);
    tile_micro_kernel(e, n, a, i, mr * fold);
    lb_end(&e->b);
    lo = stop;
  }
  if (!n->partitioned) return;
  emit_unscope(e);
  lb_end(&e->b);
}
/* The tiles of all rows, for these lanes. */
static void row_tiles(ectx *e, nest *n, const tile_lanes *a) {
  if (!n->row.var) {
    tile_micro_kernel(e, n, a, 0, 1);
    return;
  }
  nvar v = n->collapsed.var ? n->collapsed : n->row2.var ? n->row2 : n->row;
  uint32_t fold = nest_row_fold(e->c, n), most = n->mr / fold; /* folded rows of a tile */
  if (n->row2.var && n->begins) {
    v.lo = emit_size(e, n->begins);
    v.hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, v.lo, v.unit), emit_size(e, v.extent), 0);
  }
  if (n->collapsed.var && !v.lo && (n->row.lo || n->row2.lo))
    v.lo = lb_int(&e->b, 0), v.hi = lb_mul(&e->b, values_of(e, &n->row), values_of(e, &n->row2));
  lv lo = v.lo ? v.lo : lb_int(&e->b, 0), i;
  int64_t ext = in_units(e, &v, most);
  n->idle = ext >= 0 && n->row2.var && !n->collapsed.var ? idle_rows(&e->view, n, most) : 0;
  if (ext < 0) {
    open_rows(e, n, a, &v, lo, most);
    return;
  }
  int64_t full = ext / most * most;
  if (full) {
    lb_for(&e->b, sym_name(e->c, v.var), lo, until(e, &v, full), lb_int(&e->b, most), 0, &i);
    tile_micro_kernel(e, n, a, i, most * fold);
    lb_end(&e->b);
  }
  if (ext == full || EK_PLANTED("schedule-rows")) return;
  bool last = open_last(e, &v, full);
  tile_micro_kernel(e, n, a, lb_int(&e->b, full), (uint32_t)(ext - full) * fold);
  if (last) lb_end(&e->b);
}
/* i of lo, lo + step, .., hi - step: from behind where the nest sweeps so (finish.c) and the step is an odd one. */
static lv there_and_back(ectx *e, const nest *n, lv i, lv lo, lv hi, int64_t step) {
  if (!n->first[P_SWEEP]) return i;
  return lb_op(&e->b, OP_SEL, lt(ET_I64, 1), e->back, lb_sub(&e->b, lb_add(&e->b, lo, lb_addi(&e->b, hi, -step)), i),
               i);
}
typedef void nest_body(ectx *e, nest *n, void *arg); /* what stands inside loops */
static nest_body all_vars;
static void vars_then(ectx *e, nest *n, const nvar *vs, uint32_t k, nest_body *then, void *arg);
/* Calls `then` at value i of the first of vs. */
static void at_value(ectx *e, nest *n, const nvar *vs, lv i, uint32_t k, nest_body *then, void *arg) {
  uint32_t nb = e->view.binds.n;
  emit_scope(e);
  emit_bind(e, vs->var, i);
  vars_then(e, n, vs + 1, k - 1, then, arg);
  view_unbind(&e->view, nb);
  emit_unscope(e);
}
static void vars_then(ectx *e, nest *n, const nvar *vs, uint32_t k, nest_body *then, void *arg) {
  if (k == 0) {
    then(e, n, arg);
    return;
  }
  if (k == 1 && then != all_vars && n->written_out) {
    for (int64_t at = 0; at < sym_int_or(e->c, vs->extent, 0) - EK_PLANTED("schedule-written"); at++)
      at_value(e, n, vs, lb_int(&e->b, at), k, then, arg);
    return;
  }
  lv i;
  lv lo = vs->lo ? vs->lo : lb_int(&e->b, 0), hi = vs->hi ? vs->hi : emit_size(e, vs->extent);
  lb_for(&e->b, sym_name(e->c, vs->var), lo, hi, lb_int(&e->b, 1), 0, &i);
  at_value(e, n, vs, there_and_back(e, n, i, lo, hi, 1), k, then, arg);
  lb_end(&e->b);
}

static void inner_rows(ectx *e, nest *n, void *arg) { row_tiles(e, n, arg); }
u32vec nest_pack_vars(index_view *iv, const nest *n, uint32_t stage, ex load) {
  u32vec vars = n->reds[stage];
  if (vars.n && !value_uses(iv, load, vars.v[vars.n - 1])) vars.n--;
  return vars;
}
/* The lanes of a panel that is not full, one by one: vectors along the innermost variable of the sum, if the
 * operand's neighbours lie there, stored lanes apart. */
static bool pack_lanes(ectx *e, nest *n, const packload *k, const tile_lanes *a) {
  const u32vec vars = nest_pack_vars(&e->view, n, k->stage, k->load), *red = &vars;
  atom along = red->n ? red->v[red->n - 1] : 0;
  const ex_node *load = exn(e->m, k->load);
  const layout *lay = view_layout(&e->view, load->tensor);
  sz idx[MAX_RANK];
  lv x, lane;
  uint32_t nb = e->view.binds.n;
  if (!a->count || a->lanes < 2 || load->otherwise || !lay->known ||
      sym_int_or(e->c, sym_extent(e->c, along), 1) % a->lanes)
    return false;
  for (uint32_t i = 0; i < load->nargs; i++) idx[i] = view_resolve(&e->view, load->args[i]);
  sz at = view_address(e->c, lay, idx);
  if (address_coef(&e->view, at, along) != 1 || address_coef(&e->view, at, n->lane.var) == INT64_MIN) return false;
  lb_for(&e->b, "lane", lb_int(&e->b, 0), a->count, lb_int(&e->b, 1), 0, &lane);
  emit_scope(e);
  emit_bind(e, n->lane.var, lb_add(&e->b, a->lane, lane));
  for (uint32_t j = 0; j < red->n; j++) {
    lb_for(&e->b, sym_name(e->c, red->v[j]), lb_int(&e->b, 0), emit_size(e, sym_extent(e->c, red->v[j])),
           lb_int(&e->b, red->v[j] == along ? a->lanes : 1), 0, &x);
    emit_scope(e);
    view_bind(&e->view, (binding){.var = red->v[j],
                                  .base = x,
                                  .vec_step = red->v[j] == along ? a->lanes : 0,
                                  .lane = red->v[j] == along});
  }
  e->lane = along, e->lanes = a->lanes, e->count = 0;
  emit_epoch(e);
  evalue v = emit_value(e, k->load);
  lv to = lb_add(&e->b, emit_size(e, k->off), EK_PLANTED("schedule-panel-lanes") ? lb_int(&e->b, 0) : lane);
  lb_store_ex(&e->b, k->ptr, to, emit_vec(e, v, (etype)load->type), 0, 0, lb_int(&e->b, k->nr), 0);
  e->lane = n->lane.var, e->lanes = 1;
  for (uint32_t j = 0; j < red->n + 1; j++) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  view_unbind(&e->view, nb);
  emit_epoch(e);
  return true;
}
/* The whole panel in squares of lanes and neighbours of the sum's innermost variable, where the operand's neighbours
 * lie there. Returns from which value of that variable on the panel is left to do. */
static int64_t pack_exchanged(ectx *e, nest *n, const packload *k, const tile_lanes *a) {
  const u32vec vars = nest_pack_vars(&e->view, n, k->stage, k->load), *red = &vars;
  atom along = red->n ? red->v[red->n - 1] : 0;
  const ex_node *load = exn(e->m, k->load);
  int64_t ext = along ? sym_int_or(e->c, sym_extent(e->c, along), 0) : 0, whole = ext / a->lanes * a->lanes;
  uint32_t nb = e->view.binds.n, mr = e->mr;
  atom row = e->row;
  etype t = (etype)load->type;
  sz idx[MAX_RANK];
  lv x, rows[MAX_LANES];
  if (a->lanes < 2 || !whole || load->otherwise || !view_plain(&e->view, k->load, idx)) return 0;
  sz at = view_address(e->c, view_layout(&e->view, load->tensor), idx);
  e->lane = n->lane.var, e->lanes = a->lanes;
  e->row = along, e->mr = a->lanes;
  view_bind(&e->view, (binding){.var = n->lane.var, .base = a->lane, .vec_step = a->lanes, .lane = true});
  view_bind(&e->view, (binding){.var = along, .base = lb_int(&e->b, 0), .row_step = 1});
  emit_epoch(e);
  if (!lanes_exchange(e, t, at)) whole = 0;
  view_unbind(&e->view, nb + 1);
  for (uint32_t j = 0; j < red->n && whole; j++) {
    bool rowed = red->v[j] == along;
    lv lo = lb_int(&e->b, 0), hi = rowed ? lb_int(&e->b, whole) : emit_size(e, sym_extent(e->c, red->v[j]));
    bounded(e, red->v[j], &lo, &hi);
    lb_for(&e->b, sym_name(e->c, red->v[j]), lo, hi, lb_int(&e->b, rowed ? a->lanes : 1), 0, &x);
    emit_scope(e);
    view_bind(&e->view, (binding){.var = red->v[j], .base = x, .row_step = rowed});
  }
  emit_epoch(e);
  lv from = whole ? emit_source(e, load->tensor) : 0;
  for (uint32_t v = 0; v < a->nv && whole; v++) {
    e->v = v;
    e->count = v + 1 == a->nv ? a->count : 0;
    lanes_load_rows(e, t, from, at, 0, rows);
    for (e->r = 0; e->r < a->lanes; e->r++)
      lb_store(&e->b, k->ptr, lb_addi(&e->b, emit_size(e, k->off), (int64_t)v * a->lanes),
               rows[EK_PLANTED("schedule-panel-squares") ? 0 : e->r]);
    e->r = 0;
  }
  for (uint32_t j = 0; j < red->n && whole; j++) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  e->v = 0, e->count = 0, e->lanes = 1, e->row = row, e->mr = mr;
  view_unbind(&e->view, nb);
  emit_epoch(e);
  return whole;
}
/* The number of the operand that is a load. */
static uint32_t operand_at(const tensorised *by, ex load) {
  uint32_t o = 1;
  while (by->operand[o] != load) o++;
  return o;
}
/* The words of a panel's groups from this one on, in squares of lanes and neighbouring words, or of fewer words where
 * there are no more, where the points of a group lie side by side in memory, and its lanes do not. Returns how many
 * words are done. */
static int64_t pack_words(ectx *e, nest *n, const packload *k, const tile_lanes *a, int64_t first) {
  const tensorised *by = instruction_of(n, k->stage, k->load);
  const ex_node load = *exn(e->m, k->load);
  const int64_t g = k->group, words = sym_int_or(e->c, sym_extent(e->c, by->var), 0) / g,
                size = min64(words - first, a->lanes), end = size ? words - (words - first) % size : first;
  const etype t = instruction_word_type(by->by, operand_at(by, k->load), 1).elem;
  const uint32_t nb = e->view.binds.n, mr = e->mr;
  const atom row = e->row;
  lbuild *b = &e->b;
  sz idx[MAX_RANK], coef, at, to, group = sym_int(e->c, g);
  atom word;
  lv x, rows[MAX_LANES];
  if (a->lanes < 2 || end == first || load.otherwise || !view_plain(&e->view, k->load, idx)) return first;
  const sz count = sym_var(e->c, "word", sym_int(e->c, words)), point = sym_muli(e->c, count, g);
  at = view_address(e->c, view_layout(&e->view, load.tensor), idx);
  if (!sym_linear(e->c, at, by->var, &coef, &at) || !sym_eq(e->c, coef, sym_int(e->c, 1)) ||
      !sym_is_atom(e->c, count, &word) || !sym_exact_div(e->c, sym_add(e->c, at, point), group, &at) ||
      !sym_exact_div(e->c, sym_replace(e->c, k->off, by->var, point), group, &to))
    return first;
  e->row = word, e->mr = (uint32_t)size;
  view_bind(&e->view, (binding){.var = word, .base = lb_int(b, 0), .row_step = 1});
  emit_epoch(e);
  const bool can = lanes_exchange(e, t, at);
  view_unbind(&e->view, nb);
  if (can) {
    lb_for(b, "word", lb_int(b, first), lb_int(b, end), lb_int(b, size), 0, &x);
    emit_scope(e);
    view_bind(&e->view, (binding){.var = word, .base = x, .row_step = 1});
    emit_epoch(e);
    const lv from = lb_ptrcast(b, t, emit_source(e, load.tensor)), panel = lb_ptrcast(b, t, k->ptr);
    for (e->v = 0; e->v < a->nv; e->v++) {
      e->count = e->v + 1 == a->nv ? a->count : 0;
      lanes_load_rows(e, t, from, at, et_bytes((etype)load.type), rows);
      for (e->r = 0; e->r < size; e->r++)
        lb_store(b, panel, lb_addi(b, emit_size(e, to), (int64_t)e->v * a->lanes),
                 rows[EK_PLANTED("schedule-panel-words") ? 0 : e->r]);
      e->r = 0;
    }
    e->v = 0, e->count = 0;
    view_unbind(&e->view, nb);
    emit_unscope(e);
    lb_end(b);
  }
  e->row = row, e->mr = mr;
  emit_epoch(e);
  return can ? end : first;
}
/* A group of points of the panel's lanes, `rest` of them (0: all): words in which a lane's points are side by side. */
static void pack_group(ectx *e, nest *n, const packload *k, const tile_lanes *a, lv rest) {
  const tensorised *by = instruction_of(n, k->stage, k->load);
  const atom along = by->var;
  lbuild *b = &e->b;
  const ltype w = instruction_word_type(by->by, operand_at(by, k->load), a->lanes);
  const lv first = emit_size(e, sym_of_atom(e->c, along)), to = lb_ptrcast(b, (etype)w.elem, k->ptr);
  sz off;
  if (!sym_exact_div(e->c, k->off, sym_int(e->c, k->group), &off)) ctx_bug(e->c, "schedule: groups of a panel");
  const lv at = emit_size(e, off);
  for (e->v = 0; e->v < a->nv; e->v++) {
    e->count = e->v + 1 == a->nv ? a->count : 0;
    lv word = 0, reg = rest ? lb_reg(b, lb_const(b, w, (scalar){.i = 0})) : 0;
    for (uint32_t j = 0; j < k->group - (rest != 0); j++) {
      const uint32_t nb = e->view.binds.n;
      if (rest) lb_if(b, lb_cmp(b, OP_GT, rest, lb_int(b, j)));
      emit_scope(e);
      emit_bind(e, along, lb_addi(b, first, j));
      const lv x = emit_vec(e, emit_value(e, k->load), (etype)exn(e->m, k->load)->type);
      word = instruction_put(e, rest ? lb_get(b, reg) : word, w, x, EK_PLANTED("schedule-panel-groups") ? 0 : j);
      if (rest) lb_set(b, reg, word);
      view_unbind(&e->view, nb);
      emit_unscope(e);
      if (rest) lb_end(b);
    }
    lb_store(b, to, lb_addi(b, at, (int64_t)e->v * a->lanes), rest ? lb_get(b, reg) : word);
  }
  e->v = 0, e->count = 0;
}
/* The loops over the variables of the sum from this one on, around the groups. */
static void pack_groups_from(ectx *e, nest *n, const packload *k, const tile_lanes *a, uint32_t from) {
  const u32vec *red = &n->reds[k->stage];
  const bool along = from + 1 == red->n;
  const int64_t g = along ? k->group : 1;
  const uint32_t nb = e->view.binds.n;
  lbuild *b = &e->b;
  lv x, lo = lb_int(b, 0), end = emit_size(e, sym_extent(e->c, red->v[from])), whole = end;
  if (along) {
    whole = lb_muli(b, lb_op(b, OP_IDIV, lt(ET_I64, 1), end, lb_int(b, g), 0), g);
    const int64_t done = pack_words(e, n, k, a, pack_words(e, n, k, a, 0)) * g; /* whole squares, then what is left */
    if (done == sym_int_or(e->c, sym_extent(e->c, red->v[from]), -1)) return;
    lo = lb_int(b, done);
  } else
    bounded(e, red->v[from], &lo, &whole);
  lb_for(b, sym_name(e->c, red->v[from]), lo, whole, lb_int(b, g), 0, &x);
  emit_scope(e);
  emit_bind(e, red->v[from], x);
  if (along)
    pack_group(e, n, k, a, 0);
  else
    pack_groups_from(e, n, k, a, from + 1);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(b);
  if (!along || sym_int_or(e->c, sym_extent(e->c, red->v[from]), 1) % g == 0) return;
  const lv rest = lb_sub(b, end, whole);
  lb_if(b, lb_cmp(b, OP_GT, rest, lb_int(b, 0)));
  emit_scope(e);
  emit_bind(e, red->v[from], whole);
  pack_group(e, n, k, a, rest);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(b);
}
/* This panel of a run-time operand in groups of points. */
static void pack_groups(ectx *e, nest *n, const packload *k, const tile_lanes *a) {
  const uint32_t nb = e->view.binds.n;
  emit_scope(e);
  e->lane = n->lane.var, e->lanes = a->lanes;
  view_bind(&e->view, (binding){.var = n->lane.var, .base = a->lane, .vec_step = a->lanes, .lane = true});
  emit_epoch(e);
  pack_groups_from(e, n, k, a, 0);
  e->lanes = 1;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  emit_epoch(e);
}
/* the operands packed for a nest, of the panel bound, that tiles read; or those that computed panels are made of */
static void take_packs(ectx *e, nest *n, bool sources) {
  for (uint32_t i = 0; i < n->packs.n; i++) {
    packload *k = &n->packs.v[i];
    if (k->source != sources) continue;
    vec_push(e->a, e->packs,
             ((packed){.load = k->load,
                       .ptr = k->ptr,
                       .off = k->off,
                       .fixed_point = k->fixed_point,
                       .first = k->first,
                       .few = k->few,
                       .lane_base = !k->constant ? 0
                                    : n->panel ? sym_muli(e->c, sym_of_atom(e->c, n->panel), (int64_t)n->nv * n->lanes)
                                               : sym_int(e->c, 0)}));
  }
  emit_epoch(e);
}
/* copies this panel of a run-time operand into scratch, lanes innermost, or computes it */
static void pack_panel(ectx *e, nest *n, tile_lanes *a) {
  for (uint32_t i = 0; i < n->packs.n; i++) {
    packload *k = &n->packs.v[i];
    if (k->constant) continue;
    uint32_t nb = e->view.binds.n, depth = 0, np = e->packs.n;
    e->packs.n = 0;
    if (k->computed) {
      take_packs(e, n, true);
      panel_value_emit(e, n, k, &(register_tile){.lane = a->lane, .count = a->count, .nv = a->nv, .lanes = a->lanes});
      e->packs.n = np;
      continue;
    }
    if (k->group) {
      pack_groups(e, n, k, a);
      e->packs.n = np;
      continue;
    }
    if (a->nv == 1 && pack_lanes(e, n, k, a)) {
      e->packs.n = np;
      continue;
    }
    const u32vec vars = nest_pack_vars(&e->view, n, k->stage, k->load), *red = &vars;
    int64_t done = pack_exchanged(e, n, k, a);
    if (done && done == sym_int_or(e->c, sym_extent(e->c, red->v[red->n - 1]), 0)) {
      e->packs.n = np;
      continue;
    }
    for (uint32_t j = 0; j < red->n; j++, depth++) {
      lv x, lo = lb_int(&e->b, j + 1 == red->n ? done : 0), hi = emit_size(e, sym_extent(e->c, red->v[j]));
      bounded(e, red->v[j], &lo, &hi);
      lb_for(&e->b, sym_name(e->c, red->v[j]), lo, hi, lb_int(&e->b, 1), 0, &x);
      emit_scope(e);
      emit_bind(e, red->v[j], x);
    }
    emit_scope(e);
    e->lane = n->lane.var;
    e->lanes = a->lanes;
    view_bind(&e->view, (binding){.var = n->lane.var, .base = a->lane, .vec_step = a->lanes, .lane = true});
    emit_epoch(e);
    for (uint32_t v = 0; v < a->nv; v++) {
      e->v = v;
      e->count = v + 1 == a->nv ? a->count : 0;
      evalue x = emit_value(e, k->load);
      lv at = lb_addi(&e->b, emit_size(e, k->off), EK_PLANTED("schedule-panels") ? 0 : (int64_t)v * a->lanes);
      lb_store(&e->b, k->ptr, at, emit_vec(e, x, (etype)exn(e->m, k->load)->type));
    }
    e->v = 0;
    e->count = 0;
    e->lanes = 1;
    emit_unscope(e);
    while (depth--) {
      emit_unscope(e);
      lb_end(&e->b);
    }
    view_unbind(&e->view, nb);
    e->packs.n = np;
    emit_epoch(e);
  }
}
/* The tiles of these lanes, which are those of a panel or a part of it. */
static void lane_tile(ectx *e, nest *n, lv panel, tile_lanes a) {
  uint32_t nb = e->view.binds.n, np = e->packs.n;
  emit_scope(e);
  if (n->panel) emit_bind(e, n->panel, panel);
  if (n->blocking.first) emit_bind(e, n->blocking.first, panel), emit_bind(e, n->blocking.at, lb_int(&e->b, 0));
  if (n->lane_outer) pack_panel(e, n, &a);
  take_packs(e, n, false);
  if (n->lane_outer)
    vars_then(e, n, n->inner.v, n->inner.n, inner_rows, &a);
  else
    row_tiles(e, n, &a);
  e->packs.n = np;
  view_unbind(&e->view, nb);
  emit_unscope(e);
}
/* The tiles of a block's panels, for the same rows. */
static void block_micro_kernels(ectx *e, nest *n, const register_tile *t) {
  register_tile panel = *t;
  uint32_t nb = e->view.binds.n, np = e->packs.n;
  lv i;
  lb_for(&e->b, "panel", n->blocking.from, n->blocking.to, lb_int(&e->b, 1), 0, &i);
  emit_scope(e);
  emit_bind(e, n->panel, i);
  take_packs(e, n, false);
  panel.lane = lb_muli(&e->b, i, (int64_t)t->nv * t->lanes), panel.panel = i;
  micro_kernel(e, n, &panel);
  e->packs.n = np;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(&e->b);
}
static void block_rows(ectx *e, nest *n) {
  uint32_t L = lanes_of(n), nb = e->view.binds.n;
  lv i;
  if (n->blocking.first) {
    lb_for(&e->b, "panel", lb_addi(&e->b, n->blocking.from, EK_PLANTED("schedule-blocking-packed")), n->blocking.to,
           lb_int(&e->b, 1), 0, &i);
    emit_scope(e);
    emit_bind(e, n->panel, i);
    pack_panel(e, n, &(tile_lanes){lb_muli(&e->b, i, (int64_t)n->nv * L), 0, n->nv, L, true});
    view_unbind(&e->view, nb);
    emit_unscope(e);
    lb_end(&e->b);
  }
  row_tiles(e, n, &(tile_lanes){.nv = n->nv, .lanes = L, .looped = true});
}
/* All full panels of a known number of lanes, of which there is one at least. */
static void full_panels(ectx *e, nest *n, int64_t full) {
  const uint32_t L = lanes_of(n), W = n->nv * L;
  tile_lanes a = {.nv = n->nv, .lanes = L, .looped = true};
  lv i;
  if (full == 1 && !n->lane.lo) {
    a.lane = lb_int(&e->b, 0);
    lane_tile(e, n, a.lane, a);
    return;
  }
  lv w = lb_int(&e->b, W),
     from = n->lane.lo ? lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), n->lane.lo, w, 0) : lb_int(&e->b, 0),
     to = n->lane.lo ? lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), n->lane.hi, w, 0) : lb_int(&e->b, full);
  if (n->blocking.panels)
    blocking_each(e, n, from, to, block_rows);
  else if (n->rows_outer) {
    n->blocking.from = lb_addi(&e->b, from, EK_PLANTED("schedule-rows-outer")), n->blocking.to = to,
    n->blocking.on = true;
    row_tiles(e, n, &a);
    n->blocking.on = false;
  } else {
    lb_for(&e->b, "panel", from, to, lb_int(&e->b, 1), 0, &i);
    i = there_and_back(e, n, i, from, to, 1);
    a.lane = lb_muli(&e->b, i, W);
    lane_tile(e, n, i, a);
    lb_end(&e->b);
  }
}
/* Full panels, and the last one with its last lanes masked, in one loop. */
static void masked_panels(ectx *e, nest *n, int64_t ext, int64_t full) {
  const uint32_t L = lanes_of(n), W = n->nv * L;
  lv i;
  lb_for(&e->b, "panel", lb_int(&e->b, 0), lb_int(&e->b, full + 1), lb_int(&e->b, 1), 0, &i);
  const lv lane = lb_muli(&e->b, i, W), left = lb_sub(&e->b, lb_int(&e->b, ext), lane);
  const lv count = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), left, lb_int(&e->b, W), 0);
  lane_tile(e, n, i, (tile_lanes){lane, lb_addi(&e->b, count, -EK_PLANTED("schedule-last-panel")), 1, L, true});
  lb_end(&e->b);
}
/* Are some of a vector's lanes left out at the edge? Where the target has no cheap masks, only for an instruction,
 * which has no form for one lane. */
static bool masks_edge(const ectx *e, const nest *n) { return e->p->t->masks || n->tensorised.n; }
/* The lanes behind the full panels, of a known number of lanes. */
static void rest_lanes(ectx *e, nest *n, int64_t ext, int64_t full) {
  const uint32_t L = lanes_of(n), W = n->nv * L;
  const int64_t rest = ext - full * W;
  const bool last = open_last(e, &n->lane, full * W);
  const lv panel = lb_int(&e->b, full), lane = lb_int(&e->b, full * W);
  if (rest % L == 0 || masks_edge(e, n)) {
    lv count = rest % L ? lb_int(&e->b, rest % L - EK_PLANTED("schedule-lanes")) : 0;
    lane_tile(e, n, panel, (tile_lanes){lane, count, (uint32_t)((rest + L - 1) / L), L, true});
  } else {
    lv i;
    if (rest >= L) lane_tile(e, n, panel, (tile_lanes){lane, 0, (uint32_t)(rest / L), L, true});
    lb_for(&e->b, "tail", lb_int(&e->b, full * W + rest / L * L), lb_int(&e->b, ext - EK_PLANTED("schedule-tail")),
           lb_int(&e->b, 1), 0, &i);
    lane_tile(e, n, panel, (tile_lanes){i, 0, 1, 1, true});
    lb_end(&e->b);
  }
  if (last) lb_end(&e->b);
}
/* Lanes of a run-time extent or range: full tiles, single vectors, tail. A range starts at a multiple of a panel's
 * lanes. */
static void open_lanes(ectx *e, nest *n) {
  const uint32_t L = lanes_of(n);
  lv at = n->lane.lo ? n->lane.lo : lb_int(&e->b, 0), hi = n->lane.hi ? n->lane.hi : emit_size(e, n->lane.extent),
     w = lb_int(&e->b, n->nv * L), i;
  ltype I = lt(ET_I64, 1);
  for (int pass = 0; pass < (n->nv > 1 ? 2 : 1); pass++) {
    uint32_t nv = pass ? 1 : n->nv, step = nv * L;
    lv trips = lb_op(&e->b, OP_IDIV, I, lb_sub(&e->b, hi, at), lb_int(&e->b, step), 0);
    lv stop = lb_add(&e->b, at, lb_muli(&e->b, trips, step));
    lb_for(&e->b, sym_name(e->c, n->lane.var), at, stop, lb_int(&e->b, step), 0, &i);
    i = there_and_back(e, n, i, at, stop, step);
    lane_tile(e, n, lb_op(&e->b, OP_IDIV, I, i, w, 0), (tile_lanes){i, 0, nv, L, true});
    lb_end(&e->b);
    at = stop;
  }
  if (masks_edge(e, n)) {
    lv count = lb_addi(&e->b, lb_sub(&e->b, hi, at), -EK_PLANTED("schedule-open-lanes"));
    lb_if(&e->b, lb_cmp(&e->b, OP_GT, count, lb_int(&e->b, 0)));
    lane_tile(e, n, lb_op(&e->b, OP_IDIV, I, at, w, 0), (tile_lanes){at, count, 1, L, true});
  } else {
    lb_for(&e->b, "tail", at, EK_PLANTED("schedule-open-tail") ? lb_addi(&e->b, hi, -1) : hi, lb_int(&e->b, 1), 0, &i);
    lane_tile(e, n, lb_op(&e->b, OP_IDIV, I, i, w, 0), (tile_lanes){i, 0, 1, 1, true});
  }
  lb_end(&e->b);
}
/* The tiles of all lanes. arg: not NULL where they stand in a loop */
static void lane_tiles(ectx *e, nest *n, void *arg) {
  const uint32_t L = lanes_of(n);
  if (!n->lane.var || n->lane_reduced) {
    lane_tile(e, n, 0, (tile_lanes){.nv = 1, .lanes = L, .looped = arg != NULL});
    return;
  }
  const int64_t W = (int64_t)n->nv * L, ext = in_units(e, &n->lane, W), full = ext / W, rest = ext % W;
  if (ext < 0)
    open_lanes(e, n);
  else if (n->first[P_EDGE])
    masked_panels(e, n, ext, full);
  else {
    if (full) full_panels(e, n, full);
    if (rest) rest_lanes(e, n, ext, full);
  }
}

static void strip_mined_rows(ectx *e, nest *n, void *arg) {
  lbuild *b = &e->b;
  nvar all = n->row;
  lv end = all.lo ? all.hi : emit_size(e, all.extent), i;
  if (!n->strip_mine) {
    lane_tiles(e, n, arg);
    return;
  }
  lb_for(b, "strip", all.lo ? all.lo : lb_int(b, 0), end, lb_int(b, n->strip_mine), 0, &i);
  emit_scope(e);
  n->row.lo = i, n->row.hi = lb_op(b, OP_MIN, lt(ET_I64, 1),
                                   lb_addi(b, i, n->strip_mine - EK_PLANTED("schedule-strip-mining")), end, 0);
  n->row.unit = !all.lo || all.unit % n->mr == 0 ? n->mr : 0;
  lane_tiles(e, n, e);
  n->row = all;
  emit_unscope(e);
  lb_end(b);
}
static void all_vars(ectx *e, nest *n, void *arg) {
  if (n->lane_outer)
    lane_tiles(e, n, n->outer.n ? e : arg);
  else
    vars_then(e, n, n->inner.v, n->inner.n, strip_mined_rows, n->outer.n || n->inner.n ? e : arg);
}
bool nest_loops(const nest *n) { return n->outer.n || n->inner.n || n->row.var || (n->lane.var && !n->lane_reduced); }
/* What no point of the nest reads need not be packed. */
static void pack_ranges(ectx *e, const nest *n) {
  var_spans of = {0};
  for (uint32_t i = 0; i < n->packs.n; i++) {
    const packload *k = &n->packs.v[i];
    const ex_node *red = exn(e->m, xs(e->m, n->stages.v[k->stage])->value);
    if (k->constant || !has_ranges(e, red)) continue;
    if (!of.n) nest_spans(e, n, &of);
    range_bounds(e, red, &of, RANGE_IN_PANEL, 0);
  }
}
void nest_spans(ectx *e, const nest *n, var_spans *of) {
  const nvar *alone[] = {&n->row, &n->lane, &n->row2};
  for (uint32_t i = 0; i < 3; i++)
    if (!(alone[i] == &n->lane && n->lane_reduced)) range_span(e, of, alone[i]);
  for (uint32_t i = 0; i < n->inner.n; i++) range_span(e, of, &n->inner.v[i]);
  for (uint32_t i = 0; i < n->outer.n; i++) range_span(e, of, &n->outer.v[i]);
}
void nest_emit(ectx *e, nest *n) {
  uint32_t nl = e->view.locals.n;
  bool loops = nest_loops(n);
  for (uint32_t i = 0; i < n->packs.n; i++)
    if (n->packs.v[i].constant) n->packs.v[i].ptr = emit_buffer(e, n->packs.v[i].buffer, false);
  uint32_t nr = e->ranges.n;
  pack_ranges(e, n);
  vars_then(e, n, n->outer.v, n->outer.n, all_vars, NULL);
  e->ranges.n = nr;
  if (loops) e->view.locals.n = nl;
  emit_epoch(e);
}

/* ---- updates --------------------------------------------------------------------------------- */
typedef struct updarg {
  const update *u; /* the update */
  tid t;           /* the tensor */
  atom along;      /* lanes run along this variable; 0: place by place */
  uint32_t lanes;  /* lanes of a vector */
} updarg;
static void upd_lanes(ectx *e, const updarg *a) {
  lv n = emit_size(e, sym_extent(e->c, a->along)), L = lb_int(&e->b, a->lanes),
     full = lb_mul(&e->b, lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), n, L, 0), L), i;
  uint32_t nb = e->view.binds.n;
  int64_t known = sym_int_or(e->c, sym_extent(e->c, a->along), -1);
  e->lane = a->along, e->lanes = a->lanes;
  for (int tail = 0; tail < 2; tail++) {
    if (known >= 0 && (tail ? known % a->lanes == 0 : known < a->lanes)) continue;
    if (tail)
      lb_if(&e->b, lb_cmp(&e->b, OP_GT, n, full)), i = full;
    else
      lb_for(&e->b, sym_name(e->c, a->along), lb_int(&e->b, 0), full, L, 0, &i);
    emit_scope(e);
    view_bind(&e->view, (binding){.var = a->along, .base = i, .vec_step = a->lanes, .lane = true});
    e->count = tail ? lb_sub(&e->b, n, full) : 0;
    emit_epoch(e);
    emit_store(e, a->t, a->u->idx, emit_value(e, a->u->value), a->u->op);
    view_unbind(&e->view, nb);
    emit_unscope(e);
    lb_end(&e->b);
  }
  e->lane = 0, e->lanes = 1, e->count = 0;
  emit_epoch(e);
}
static void upd_body(ectx *e, nest *n, void *arg) {
  (void)n;
  updarg *a = arg;
  const update *u = a->u;
  emit_epoch(e);
  if (u->cond) {
    evalue c = emit_value(e, u->cond);
    if (EK_PLANTED("schedule-update")) c.v = lb_const(&e->b, lt(ET_BOOL, 1), (scalar){.i = 1});
    lb_if(&e->b, c.v);
    emit_scope(e);
  }
  evalue x = {0};
  if (!a->along) x = emit_value(e, u->value);
  lv ok = 0;
  tensor *t = xt(e->m, a->t);
  for (uint32_t i = 0; i < u->nidx; i++) { /* a place read from data must be inside: others are dropped */
    sz at = view_resolve(&e->view, u->idx[i]);
    if (view_in_range(e->c, NULL, i, at, t->shape[i])) continue;
    lv v = emit_size(e, at);
    lv in = lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), lb_cmp(&e->b, OP_GE, v, lb_int(&e->b, 0)),
                  lb_cmp(&e->b, OP_LT, v, emit_size(e, t->shape[i])), 0);
    ok = ok ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), ok, in, 0) : in;
  }
  if (EK_PLANTED("schedule-update-range")) ok = 0;
  if (ok) lb_if(&e->b, ok);
  if (a->along)
    upd_lanes(e, a);
  else
    emit_store(e, a->t, u->idx, x, u->op);
  if (ok) lb_end(&e->b);
  if (u->cond) {
    emit_unscope(e);
    lb_end(&e->b);
  }
}
void nest_update_step(ectx *e, uint32_t si, uint32_t u) {
  updarg a = {.u = &xs(e->m, si)->updates.v[u], .t = xs(e->m, si)->tensor};
  upd_body(e, NULL, &a);
}
/* Whole rows are written: the last variable counts neighbouring places, and which row it is, and whether it is
 * written, does not depend on it. */
static bool writes_rows(ectx *e, uint32_t si, const update *u, atom v) {
  const tensor *t = xt(e->m, xs(e->m, si)->tensor);
  int64_t few = sym_int_or(e->c, sym_extent(e->c, v), INT64_MAX);
  sz coef, rest, idx[MAX_RANK];
  u32vec loads = {0}, bound = {0};
  if (few < 4 || t->type == ET_BOOL) return false;
  for (uint32_t i = 0; i < u->nidx; i++) {
    idx[i] = view_resolve(&e->view, u->idx[i]);
    if (address_uses(&e->view, idx[i], v) && !view_in_range(e->c, NULL, i, idx[i], t->shape[i])) return false;
  }
  if (!sym_linear(e->c, view_address(e->c, view_layout(&e->view, xs(e->m, si)->tensor), idx), v, &coef, &rest) ||
      coef != sym_int(e->c, 1) || address_uses(&e->view, rest, v))
    return false;
  if (u->cond) expr_vars(e->m, u->cond, e->a, &bound);
  for (uint32_t i = 0; i < bound.n; i++)
    if (bound.v[i] == v) return false;
  expr_loads(e->m, u->value, e->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(e->m, loads.v[i])->tensor == xs(e->m, si)->tensor) return false;
  return !value_reduces(&e->view, u->value);
}
void nest_update(ectx *e, uint32_t si, const map *stored) {
  stage *s = xs(e->m, si);
  (void)stored;
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    nest n = {0};
    updarg a = {.u = u, .t = s->tensor};
    VEC(nvar) vs = {0};
    e->lane = e->row = 0;
    e->lanes = 1;
    if (u->nvars && writes_rows(e, si, u, u->vars[u->nvars - 1]))
      a.along = u->vars[u->nvars - 1], a.lanes = nest_lanes(&e->view, &(u32vec){.v = &si, .n = 1});
    for (uint32_t j = 0; j < u->nvars - (a.along != 0); j++)
      vec_push(e->a, vs, ((nvar){.var = u->vars[j], .extent = sym_extent(e->c, u->vars[j])}));
    n.written_out = vs.n && cost_written_out(sym_int_or(e->c, vs.v[vs.n - 1].extent, MAX_WRITTEN_OUT + 1), 0);
    vars_then(e, &n, vs.v, vs.n, upd_body, &a);
  }
}
