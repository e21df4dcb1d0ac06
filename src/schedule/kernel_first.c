/* How are the first few of a ranking found without ranking the others?
 *
 * A row is looked at twice. First, which value is it that the few certainly beat? Each lane of some vectors (slots)
 * keeps the best of every so many places; where the few best slots are taken away, all that were taken beat what is
 * left, and each is a place of its own. Then whole vectors are compared with the last of the few so far, that value at
 * first: hardly more than the few themselves pass, one by one, and move those behind them up. A place beats another one
 * strictly, so equal values stay in order. NaN beats nothing, and ranks first all the same: the last one is written
 * first (expr_placing).
 */
#include "fusion/fusion.h"
#include "schedule/kernel_in.h"
#include "schedule/tile.h"

enum {
  GROUP = 4 /* vectors that are asked together, slots that are filled together */,
  SLOTS_PER_PLACE = 5 /* slots for each place that is asked for, in halves */
};
typedef struct first {
  kctx *k;          /* the kernel */
  const ranking *r; /* the ranking */
  etype w;          /* element type of the values that are compared */
  etype it;         /* element type of places */
  uint16_t lanes;   /* lanes of a vector */
  int64_t vectors;  /* number of vectors of slots */
  lv row;           /* pointer to the values */
  lv at;            /* index of the row's first value */
  lv n;             /* number of values of a row */
  lv best;          /* pointer to the best values, 1..; best[0] is beaten by nothing */
  lv from;          /* pointer to their places */
  lv worst;         /* register: the last of the few */
  lv last;          /* register: place of the last NaN */
} first;

static ltype i64(void) { return lt(ET_I64, 1); }
static ltype yes(uint32_t lanes) { return lt(ET_BOOL, lanes); }
static etype wide(etype t) {
  bool large = et_bytes(t) > 4;
  if (et_kind(t) == K_FLOAT) return large ? ET_F64 : ET_F32;
  if (et_kind(t) == K_INT) return large ? ET_I64 : ET_I32;
  return large ? ET_U64 : ET_U32;
}
static lv spread(first *f, lv v) { return lb_splat(&f->k->e.b, f->lanes, v); }
static lv loses(first *f, lv x, lv y) { /* x does not beat y: false for NaN */
  lbuild *b = &f->k->e.b;
  return lb_op(b, f->r->falling ? (EK_PLANTED("schedule-first") ? OP_LT : OP_LE) : OP_GE, yes(li(b->f, x)->type.lanes),
               x, y, 0);
}
static lv beats(first *f, lv x, lv y) {
  lbuild *b = &f->k->e.b;
  return lb_op(b, f->r->falling ? OP_GT : OP_LT, yes(li(b->f, x)->type.lanes), x, y, 0);
}
static lv either(first *f, lv c, lv x, lv y) {
  lbuild *b = &f->k->e.b;
  return lb_op(b, OP_SEL, li(b->f, x)->type, c, x, y);
}
static lv nothing(first *f, bool best) { /* what all others beat, or nothing does */
  return lb_const(&f->k->e.b, lt(f->w, 1), schedule_identity(f->r->falling != best ? RED_MAX : RED_MIN, f->w));
}
static lv load_row(first *f, lv i, uint32_t lanes) {
  return lb_load(&f->k->e.b, lt(f->w, lanes), f->row, lb_add(&f->k->e.b, f->at, i));
}

/* ---- the row's values side by side: where they lie, or copied -------------------------------- */
static bool lies_ready(first *f, sz *begin) {
  ectx *e = &f->k->e;
  const ex_node *n = exn(f->k->m, f->r->key);
  sz idx[MAX_RANK] = {0}, coef;
  if (n->kind != EX_LOAD || (etype)n->type != f->w || !view_plain(&e->view, f->r->key, idx)) return false;
  return sym_linear(f->k->c, view_address(e->c, view_layout(&e->view, n->tensor), idx), f->r->p, &coef, begin) &&
         coef == sym_int(f->k->c, 1) && !address_uses(&e->view, *begin, f->r->p);
}
static void copy_row(first *f, lv from, lv to, uint32_t lanes) {
  ectx *e = &f->k->e;
  lbuild *b = &e->b;
  uint32_t nb = e->view.binds.n;
  lv i;
  if (lanes > 1) e->lane = f->r->p, e->lanes = lanes;
  lb_for(b, "place", from, to, lb_int(b, lanes), 0, &i);
  emit_scope(e);
  view_bind(&e->view, (binding){.var = f->r->p, .base = i, .vec_step = lanes > 1 ? lanes : 0, .lane = lanes > 1});
  emit_epoch(e);
  etype t = (etype)exn(f->k->m, f->r->key)->type;
  evalue x = emit_value(e, f->r->key);
  lv v = lanes > 1 ? emit_vec(e, x, t) : x.v;
  lb_store(b, f->row, i, t == f->w ? v : lb_op(b, OP_CAST, lt(f->w, lanes), v, 0, 0));
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(b);
  e->lane = 0, e->lanes = 1;
  emit_epoch(e);
}

/* ---- a value that at least as many beat as are wanted; what all others beat where there are too few slots ---- */
static lv threshold(first *f, lv slots, int64_t nslots) {
  lbuild *b = &f->k->e.b;
  uint16_t L = f->lanes;
  int64_t few = f->r->first;
  lv none = spread(f, nothing(f, false)), zero = lb_int(b, 0), acc[GROUP], best = lb_reg(b, none), s, i;
  lb_for(b, "slot", zero, lb_int(b, nslots * L), lb_int(b, GROUP * L), 0, &s);
  for (uint32_t g = 0; g < GROUP; g++) acc[g] = lb_reg(b, none);
  lb_for(b, "places", s, lb_addi(b, f->n, 1 - GROUP * L), lb_int(b, nslots * L), 0, &i);
  for (uint32_t g = 0; g < GROUP; g++) {
    lv x = load_row(f, lb_addi(b, i, g * L), L), y = lb_get(b, acc[g]);
    lb_set(b, acc[g], either(f, beats(f, x, y), x, y));
  }
  lb_end(b);
  for (uint32_t g = 0; g < GROUP; g++) {
    lv x = lb_get(b, acc[g]), y = lb_get(b, best);
    lb_store(b, slots, lb_addi(b, s, g * L), x);
    lb_set(b, best, either(f, beats(f, x, y), x, y));
  }
  lb_end(b);
  lb_for(b, "taken", zero, lb_int(b, few), lb_int(b, 1), 0, &i);
  rop most = f->r->falling ? RED_MAX : RED_MIN;
  lv top = spread(f, lb_hreduce(b, most, lb_get(b, best)));
  lb_set(b, best, none);
  lb_for(b, "slot", zero, lb_int(b, nslots * L), lb_int(b, L), nslots <= GROUP ? GROUP : 0, &s);
  lv x = lb_load(b, lt(f->w, L), slots, s), y = lb_get(b, best),
     left = either(f, lb_op(b, OP_EQ, yes(L), x, top, 0), none, x);
  lb_store(b, slots, s, left);
  lb_set(b, best, either(f, beats(f, left, y), left, y));
  lb_end(b);
  lb_end(b);
  return lb_hreduce(b, most, lb_get(b, best));
}

/* ---- the walk -------------------------------------------------------------------------------- */
/* x, of place i, takes its room; those that it beats move up */
static void take_in(first *f, lv x, lv i) {
  lbuild *b = &f->k->e.b;
  uint16_t L = f->lanes;
  lv X = spread(f, x), I = spread(f, lb_op(b, OP_CAST, lt(f->it, 1), i, 0, 0)), v, going = 0;
  if (f->vectors > GROUP) going = lb_reg(b, lb_const(b, yes(1), (scalar){.i = 1}));
  lb_for(b, "rooms", lb_int(b, 0), lb_int(b, f->vectors), lb_int(b, 1), f->vectors <= GROUP ? GROUP : 0, &v);
  if (going) lb_while(b, v, going);
  lv q = lb_sub(b, lb_int(b, (f->vectors - 1) * L), lb_muli(b, v, L)), next = lb_addi(b, q, 1);
  lv here = lb_load(b, lt(f->w, L), f->best, next), before = lb_load(b, lt(f->w, L), f->best, q);
  lv here_from = lb_load(b, lt(f->it, L), f->from, next), before_from = lb_load(b, lt(f->it, L), f->from, q);
  lv stays = loses(f, X, here), comes = loses(f, X, before);
  lb_store(b, f->best, next, either(f, stays, here, either(f, comes, X, before)));
  lb_store(b, f->from, next, either(f, stays, here_from, either(f, comes, I, before_from)));
  if (going) lb_set(b, going, lb_op(b, OP_NOT, yes(1), loses(f, x, lb_load(b, lt(f->w, 1), f->best, q)), 0, 0));
  lb_end(b);
  lb_set(b, f->worst, lb_load(b, lt(f->w, 1), f->best, lb_int(b, f->r->first)));
}
static void walk_places(first *f, lv from, lv to) {
  lbuild *b = &f->k->e.b;
  lv i, one = lb_int(b, 1);
  lb_for(b, "place", from, to, one, 0, &i);
  lv x = load_row(f, i, 1);
  lb_if(b, lb_op(b, OP_NOT, yes(1), loses(f, x, lb_get(b, f->worst)), 0, 0));
  if (f->last) {
    lb_if(b, lb_op(b, OP_ISNAN, yes(1), x, 0, 0));
    lb_set(b, f->last, i);
    lb_else(b);
  }
  take_in(f, x, i);
  if (f->last) lb_end(b);
  lb_end(b);
  lb_end(b);
}
/* Does some of the `count` places from i on pass? Where they are not all there, yes. */
static lv some_pass(first *f, lv i, lv end, uint32_t vectors) {
  lbuild *b = &f->k->e.b;
  uint16_t L = f->lanes;
  lv some = lb_reg(b, lb_const(b, yes(1), (scalar){.i = 1})), all = 0;
  lb_if(b, lb_cmp(b, OP_LE, lb_addi(b, i, vectors * L), end));
  lv worst = spread(f, lb_get(b, f->worst));
  for (uint32_t g = 0; g < vectors; g++) {
    lv l = loses(f, load_row(f, lb_addi(b, i, g * L), L), worst);
    all = all ? lb_op(b, OP_AND, yes(L), all, l, 0) : l;
  }
  lb_set(b, some, lb_op(b, OP_NOT, yes(1), lb_hreduce(b, RED_ALL, all), 0, 0));
  lb_end(b);
  return lb_get(b, some);
}
static void walk(first *f) {
  lbuild *b = &f->k->e.b;
  uint16_t L = f->lanes;
  lv g, v;
  if (L < 2) {
    walk_places(f, lb_int(b, 0), f->n);
    return;
  }
  lb_for(b, "group", lb_int(b, 0), f->n, lb_int(b, GROUP * L), 0, &g);
  lv end = lb_op(b, OP_MIN, i64(), lb_addi(b, g, GROUP * L), f->n, 0);
  lb_if(b, some_pass(f, g, f->n, GROUP));
  lb_for(b, "vector", g, end, lb_int(b, L), 0, &v);
  lb_if(b, some_pass(f, v, end, 1));
  walk_places(f, v, lb_op(b, OP_MIN, i64(), lb_addi(b, v, L), end, 0));
  lb_end(b);
  lb_end(b);
  lb_end(b);
  lb_end(b);
}
/* Rooms are left: all places that beat anything are in, and those follow that beat nothing. */
static void fill_up(first *f, lv room) {
  lbuild *b = &f->k->e.b;
  ltype I = lt(f->it, 1);
  lv zero = lb_const(b, I, (scalar){.i = 0}), one = lb_int(b, 1), have = lb_reg(b, lb_int(b, 0)), i;
  lb_if(b, lb_op(b, OP_LT, yes(1), lb_load(b, I, f->from, room), zero, 0));
  lb_for(b, "room", one, lb_addi(b, room, 1), one, 0, &i);
  lb_set(b, have,
         lb_add(b, lb_get(b, have),
                lb_op(b, OP_CAST, i64(), lb_op(b, OP_GE, yes(1), lb_load(b, I, f->from, i), zero, 0), 0, 0)));
  lb_end(b);
  lb_for(b, "place", lb_int(b, 0), f->n, one, 0, &i);
  lv least = lb_op(b, OP_EQ, yes(1), load_row(f, i, 1), nothing(f, false), 0);
  lb_if(b, lb_op(b, OP_AND, yes(1), least, lb_cmp(b, OP_LT, lb_get(b, have), room), 0));
  lb_set(b, have, lb_addi(b, lb_get(b, have), 1));
  lb_store(b, f->from, lb_get(b, have), lb_op(b, OP_CAST, I, i, 0, 0));
  lb_end(b);
  lb_end(b);
  lb_end(b);
}

bool kernel_first(kctx *k, const u32vec *stages) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  ranking r;
  expr_ranking(k->m, stages->v[0], k->a, &r);
  etype t = (etype)exn(k->m, r.key)->type;
  first f = {.k = k, .r = &r, .w = wide(t)};
  sz places = sym_extent(k->c, r.p), begin;
  int64_t lo, hi;
  f.lanes = (uint16_t)target_lanes(k->p->t, f.w);
  if (!cost_few_first(r.first, expr_typical(k->m, places), f.lanes)) return false;
  sym_range(k->c, places, &lo, &hi);
  f.it = hi < INT32_MAX && et_bytes(f.w) <= 4 ? ET_I32 : ET_I64;
  f.vectors = (r.first + f.lanes - 1) / f.lanes;
  int64_t nslots = max64(1, (r.first * SLOTS_PER_PLACE / 2 + f.lanes * GROUP - 1) / (f.lanes * GROUP)) * GROUP,
          rooms = f.vectors * f.lanes + 1;
  bool ready = lies_ready(&f, &begin);
  lv slots = f.lanes > 1 ? kernel_scratch(k, f.w, sym_int(k->c, nslots * f.lanes)) : 0, i;
  f.best = kernel_scratch(k, f.w, sym_int(k->c, rooms)), f.from = kernel_scratch(k, f.it, sym_int(k->c, rooms));
  f.row = ready ? emit_source(e, exn(k->m, r.key)->tensor) : kernel_scratch(k, f.w, places);
  f.n = emit_size(e, places);
  lv zero = lb_int(b, 0), one = lb_int(b, 1), room = lb_op(b, OP_MIN, i64(), f.n, lb_int(b, r.first), 0);
  pairs_points(k, stages->v[0], &r.p, 1);
  pairs_values(k, stages);
  emit_epoch(e);
  lb_if(b, lb_cmp(b, OP_GT, room, zero));
  f.at = ready ? emit_size(e, view_resolve(&e->view, begin)) : zero;
  if (!ready) {
    bool vector = f.lanes > 1 && !value_reduces(&e->view, r.key);
    lv whole = vector ? lb_sub(b, f.n, lb_op(b, OP_MOD, i64(), f.n, lb_int(b, f.lanes), 0)) : zero;
    if (vector) copy_row(&f, zero, whole, f.lanes);
    copy_row(&f, whole, f.n, 1);
  }
  lv least = f.lanes > 1 ? threshold(&f, slots, nslots) : nothing(&f, false);
  f.worst = lb_reg(b, least);
  if (et_kind(t) == K_FLOAT) f.last = lb_reg(b, lb_int(b, -1));
  lb_for(b, "room", one, lb_int(b, rooms), one, 0, &i);
  lb_store(b, f.best, i, least);
  lb_store(b, f.from, i, lb_const(b, lt(f.it, 1), (scalar){.i = -1}));
  lb_end(b);
  lb_store(b, f.best, zero, nothing(&f, true));
  lb_store(b, f.from, zero, lb_const(b, lt(f.it, 1), (scalar){.i = -1}));
  walk(&f);
  fill_up(&f, room);
  if (f.last)
    lb_store(b, f.from, one,
             lb_op(b, OP_MAX, lt(f.it, 1), lb_load(b, lt(f.it, 1), f.from, one),
                   lb_op(b, OP_CAST, lt(f.it, 1), lb_get(b, f.last), 0, 0), 0));
  lb_for(b, "position", zero, room, one, 0, &i);
  emit_scope(e);
  lv place = lb_op(b, OP_CAST, i64(), lb_load(b, lt(f.it, 1), f.from, lb_addi(b, i, 1)), 0, 0);
  if (f.last) lb_if(b, lb_cmp(b, OP_GE, place, zero)); /* NaN stands nowhere else */
  pairs_put(k, stages, place, i);
  if (f.last) lb_end(b);
  emit_unscope(e);
  lb_end(b);
  lb_end(b);
  pairs_points_end(k);
  return true;
}
