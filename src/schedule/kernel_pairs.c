/* How is a stage computed whose formula looks at all pairs of places (expr_prefix_scan, expr_ranking)?
 *
 * running   one walk over the places with the value so far in a register.
 * ranking   sorted by digits of 8 bits, least first (a stable sort, so equal keys keep their order): keys become
 *           unsigned integers in ascending order; a digit in which all keys agree costs nothing. Each place then
 *           gets the position at which it came out. NaN comes before nothing and nothing before it: it ranks 0,
 *           as in the formula, and stands after all others.
 *           What is written at their places (expr_placing) is written then, and the ranks themselves are stored
 *           only if somebody else reads them. If only the first few count see kernel_first.c.
 *
 * The other variables of the stage, flattened, are the chunks.
 */
#include "fusion/fusion.h"
#include "schedule/kernel_in.h"

static ltype i64(void) { return lt(ET_I64, 1); }
static lv loop_to(lbuild *b, const char *name, lv n) {
  lv i;
  lb_for(b, name, lb_int(b, 0), n, lb_int(b, 1), 0, &i);
  return i;
}
void pairs_points(kctx *k, uint32_t si, const atom *own, uint32_t n) {
  u32vec domain = {0};
  nvars rest = {0};
  kernel_domain(k, si, &domain);
  for (uint32_t i = 0; i < domain.n; i++) {
    bool mine = false;
    for (uint32_t j = 0; j < n; j++) mine |= own[j] == domain.v[i];
    if (!mine) vec_push(k->a, rest, ((nvar){.var = domain.v[i], .extent = sym_extent(k->c, domain.v[i])}));
  }
  k->l.chunks = rest.n ? kernel_flatten(k, &rest, rest.n) : sym_int(k->c, 1);
  lv w;
  lb_for(&k->e.b, "point", lb_lo(&k->e.b), lb_hi(&k->e.b), lb_int(&k->e.b, 1), 0, &w);
  emit_scope(&k->e);
  if (rest.n) emit_bind(&k->e, rest.v[0].var, w);
}
void pairs_points_end(kctx *k) {
  emit_unscope(&k->e);
  lb_end(&k->e.b);
}
static void store_at(kctx *k, uint32_t si, lv value) {
  const stage *s = xs(k->m, si);
  sz idx[MAX_RANK] = {0};
  for (uint32_t i = 0; i < s->naxes; i++) idx[i] = expr_axis_index(k->m, &s->axes[i]);
  emit_store(&k->e, s->tensor, idx, (evalue){value, li(k->e.b.f, value)->type.lanes > 1}, OP_NONE);
}

void kernel_prefix_scan(kctx *k, uint32_t si) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  prefix_scan r;
  expr_prefix_scan(k->m, si, k->a, &r);
  ex_node n = *exn(k->m, xs(k->m, si)->value);
  n.where = r.keep;
  etype at = (etype)n.acc;
  pairs_points(k, si, r.p, r.n);
  lv so_far = lb_reg(b, lb_const(b, lt(at, 1), schedule_identity((rop)n.op, at)));
  u32vec vars = {0};
  long_sum blocks = {0};
  lv *first = NEWN(k->a, lv, r.n), *last = NEWN(k->a, lv, r.n);
  for (uint32_t i = 0; i < r.n; i++) vec_push(k->a, vars, r.k[i]);
  long_sum_begin(e, &blocks, &n, &vars, 1, &so_far, 1);
  for (uint32_t i = 0; i < r.n; i++) {
    lv size = emit_size(e, sym_extent(k->c, r.k[i])), lo = lb_int(b, 0), hi = size, at_k;
    if (long_sum_block(e, r.k[i], &first[i], &last[i])) lo = first[i], hi = last[i];
    lb_for(b, sym_name(k->c, r.k[i]), lo, hi, lb_int(b, 1), 0, &at_k);
    if (r.backward) at_k = lb_sub(b, lb_addi(b, size, -1), at_k);
    emit_scope(e);
    emit_bind(e, r.k[i], at_k), emit_bind(e, r.p[i], at_k);
  }
  emit_epoch(e);
  lv before = lb_get(b, so_far), after = schedule_step(e, &n, before, false, 1),
     v = r.strict && !EK_PLANTED("schedule-prefix-scan") ? before : after;
  lb_set(b, so_far, after);
  if (blocks.var) v = lb_op(b, OP_ADD, lt(at, 1), lb_get(b, blocks.sums[0]), v, 0);
  if ((etype)n.type != at) v = lb_op(b, OP_CAST, lt((etype)n.type, 1), v, 0, 0);
  store_at(k, si, v);
  for (uint32_t i = r.n; i-- > 0;) {
    emit_unscope(e);
    lb_end(b);
    if (first[i]) long_sum_close(e, first[i], last[i]);
  }
  long_sum_end(e, &blocks);
  pairs_points_end(k);
}

/* ---- ranking --------------------------------------------------------------------------------- */
enum { DIGIT = 8, BUCKETS = 1 << DIGIT };
static etype key_type(etype t) { return et_bytes(t) > 4 ? ET_U64 : ET_U32; }
/* v as an unsigned integer whose order is that of v (falling: the reverse); NaN is the last one */
static lv key_of(lbuild *b, etype t, lv v, bool falling) {
  uint16_t n = li(b->f, v)->type.lanes;
  etype u = key_type(t), wide = u == ET_U64 ? ET_F64 : ET_F32;
  const uint32_t bits = et_bits(u);
  ltype U = lt(u, n), S = lt(u == ET_U64 ? ET_I64 : ET_I32, n);
  lv top = lb_const(b, U, (scalar){.i = (int64_t)(UINT64_C(1) << (bits - 1))}),
     ones = lb_op(b, OP_BNOT, U, lb_const(b, U, (scalar){.i = 0}), 0, 0), nan = 0, key;
  if (et_kind(t) == K_FLOAT) {
    ltype W = lt(wide, n);
    v = t == wide ? v : lb_op(b, OP_CAST, W, v, 0, 0);
    nan = lb_op(b, OP_ISNAN, lt(ET_BOOL, n), v, 0, 0);
    lv zero = lb_const(b, W, (scalar){.f = 0});
    v = lb_op(b, OP_SEL, W, lb_op(b, OP_EQ, lt(ET_BOOL, n), v, zero, 0), zero, v); /* -0 is 0 */
    lv sign = lb_op(b, OP_SHR, S, lb_op(b, OP_BITCAST, S, v, 0, 0), lb_const(b, S, (scalar){.i = bits - 1}), 0);
    key = lb_op(b, OP_BXOR, U, lb_op(b, OP_BITCAST, U, v, 0, 0),
                lb_op(b, OP_BOR, U, lb_op(b, OP_BITCAST, U, sign, 0, 0), top, 0), 0);
  } else if (et_kind(t) == K_INT) {
    if (t != (etype)S.elem) v = lb_op(b, OP_CAST, S, v, 0, 0);
    key = lb_op(b, OP_BXOR, U, lb_op(b, OP_BITCAST, U, v, 0, 0), top, 0);
  } else
    key = t == u ? v : lb_op(b, OP_CAST, U, v, 0, 0);
  if (falling) key = lb_op(b, OP_BXOR, U, key, ones, 0);
  return nan ? lb_op(b, OP_SEL, U, nan, ones, key) : key;
}
static lv digit_of(lbuild *b, lv key, lv shift) { /* The digit of a key, as an index. */
  ltype U = li(b->f, key)->type;
  lv d = lb_op(b, OP_BAND, U, lb_op(b, OP_SHR, U, key, lb_op(b, OP_CAST, U, shift, 0, 0), 0),
               lb_const(b, U, (scalar){.i = BUCKETS - 1}), 0);
  return lb_op(b, OP_CAST, i64(), d, 0, 0);
}
static lv is_nan(lbuild *b, lv key) {
  ltype U = li(b->f, key)->type;
  return lb_op(b, OP_EQ, lt(ET_BOOL, U.lanes), key, lb_op(b, OP_BNOT, U, lb_const(b, U, (scalar){.i = 0}), 0, 0), 0);
}
/* The rank of the place with this key: NaN has none before it. */
static lv rank_of(lbuild *b, etype t, lv key, lv rank) {
  ltype U = li(b->f, key)->type, I = lt(ET_I64, U.lanes);
  if (et_kind(t) != K_FLOAT) return rank;
  return lb_op(b, OP_SEL, I, is_nan(b, key), lb_const(b, I, (scalar){.i = EK_PLANTED("schedule-ranking")}), rank);
}
static void store_rank(kctx *k, uint32_t si, lv rank) {
  lbuild *b = &k->e.b;
  etype result = (etype)exn(k->m, xs(k->m, si)->value)->type;
  store_at(k, si, result == ET_I64 ? rank : lb_op(b, OP_CAST, lt(result, li(b->f, rank)->type.lanes), rank, 0, 0));
}
/* What the stages behind a ranking hold where nothing is written. */
void pairs_values(kctx *k, const u32vec *stages) {
  ectx *e = &k->e;
  for (uint32_t j = 1; j < stages->n; j++) {
    u32vec domain = {0}, row = {0};
    uint32_t opened = 0;
    const stage *s = xs(k->m, stages->v[j]);
    if (!s->value) continue;
    kernel_domain(k, stages->v[j], &domain), kernel_domain(k, stages->v[0], &row);
    for (uint32_t i = 0; i < domain.n; i++) {
      if (vec_has(&row, domain.v[i])) continue;
      lv at = loop_to(&e->b, sym_name(k->c, domain.v[i]), emit_size(e, sym_extent(k->c, domain.v[i])));
      emit_scope(e);
      emit_bind(e, domain.v[i], at);
      opened++;
    }
    emit_epoch(e);
    store_at(k, stages->v[j], emit_value(e, s->value).v);
    while (opened--) {
      emit_unscope(e);
      lb_end(&e->b);
    }
  }
}
void pairs_put(kctx *k, const u32vec *stages, lv place, lv rank) {
  ectx *e = &k->e;
  tid t = xs(k->m, stages->v[0])->tensor;
  etype result = xt(k->m, t)->type;
  uint32_t nb = e->view.binds.n;
  ranking r;
  expr_ranking(k->m, stages->v[0], k->a, &r);
  if (result != ET_I64) rank = lb_op(&e->b, OP_CAST, lt(result, 1), rank, 0, 0);
  emit_scope(e);
  emit_bind(e, r.p, EK_PLANTED("schedule-places") ? rank : place);
  vec_push(k->a, e->view.locals, ((local){.t = t, .regs = arena_dup(k->a, &rank, sizeof rank), .single = true}));
  for (uint32_t j = 1; j < stages->n; j++) {
    placing at;
    expr_placing(k->m, stages->v[j], stages->v[0], k->a, &at);
    for (uint32_t i = 0; i < at.var.n; i++)
      view_bind(&e->view, (binding){.var = at.var.v[i], .subst = sym_of_atom(k->c, kernel_canon(k, at.with.v[i]))});
    for (uint32_t u = 0; u < xs(k->m, stages->v[j])->updates.n; u++) nest_update_step(e, stages->v[j], u);
  }
  e->view.locals.n--;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  emit_epoch(e);
}
/* A radix sort of the places of a ranking, from the lowest digit on, while it is emitted. Keys and their places lie in
 * one half of their scratch; each digit moves them to the other one. */
typedef struct radix_sort {
  etype type;     /* type of the keys */
  etype place;    /* type of the places */
  int64_t digits; /* digits of a key */
  lv n;           /* number of places */
  lv one;         /* 1, of the type of the places */
  lv keys;        /* pointer to the keys: n, twice */
  lv from;        /* pointer to the place that each key is of */
  lv count;       /* pointer to a number for each value of each digit: keys with it, then where the next one goes */
  lv half;        /* register: first element of the half that holds the keys */
} radix_sort;
/* Writes the keys and places in order of the places, and counts the values of all digits. */
static void radix_begin(kctx *k, const ranking *r, radix_sort *s) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  const ltype P = lt(s->place, 1);
  const etype t = (etype)exn(k->m, r->key)->type;
  lv i = loop_to(b, "bucket", lb_int(b, s->digits * BUCKETS));
  lb_store(b, s->count, i, lb_const(b, P, (scalar){.i = 0}));
  lb_end(b);
  i = loop_to(b, "place", s->n);
  emit_scope(e);
  emit_bind(e, r->p, i);
  emit_epoch(e);
  lv key = key_of(b, t, emit_value(e, r->key).v, r->falling);
  lb_store(b, s->keys, i, key);
  lb_store(b, s->from, i, lb_op(b, OP_CAST, P, i, 0, 0));
  for (int64_t d = 0; d < s->digits; d++) {
    lv at = lb_addi(b, digit_of(b, key, lb_int(b, d * DIGIT)), d * BUCKETS);
    lb_store(b, s->count, at, lb_op(b, OP_ADD, P, lb_load(b, P, s->count, at), s->one, 0));
  }
  emit_unscope(e);
  lb_end(b);
  s->half = lb_reg(b, lb_int(b, 0));
}
/* Turns the counts of the digit from `first` on into where its values begin; returns whether keys differ in it. */
static lv radix_offsets(lbuild *b, const radix_sort *s, lv first) {
  const ltype P = lt(s->place, 1), B = lt(ET_BOOL, 1);
  lv sum = lb_reg(b, lb_const(b, P, (scalar){.i = 0})), differ = lb_reg(b, lb_const(b, B, (scalar){.i = 1}));
  lv i = loop_to(b, "bucket", lb_int(b, BUCKETS));
  lv at = lb_add(b, first, i), have = lb_load(b, P, s->count, at), before = lb_get(b, sum);
  lb_store(b, s->count, at, before);
  lb_set(b, sum, lb_op(b, OP_ADD, P, before, have, 0));
  lv all = lb_op(b, OP_EQ, B, lb_op(b, OP_CAST, i64(), have, 0, 0), s->n, 0);
  lb_set(b, differ, lb_op(b, OP_AND, B, lb_get(b, differ), lb_op(b, OP_NOT, B, all, 0, 0), 0));
  lb_end(b);
  return lb_get(b, differ);
}
/* Moves keys and places to the other half, in order of each digit. */
static void radix_digits(lbuild *b, const radix_sort *s) {
  const ltype P = lt(s->place, 1), K = lt(s->type, 1);
  lv d = loop_to(b, "digit", lb_int(b, s->digits)), first = lb_muli(b, d, BUCKETS), shift = lb_muli(b, d, DIGIT);
  lb_if(b, radix_offsets(b, s, first));
  lv here = lb_get(b, s->half), there = lb_sub(b, s->n, here);
  lv i = loop_to(b, "place", s->n);
  lv src = lb_add(b, here, i), key = lb_load(b, K, s->keys, src);
  lv at = lb_add(b, first, digit_of(b, key, shift));
  lv pos = lb_load(b, P, s->count, at), to = lb_add(b, there, lb_op(b, OP_CAST, i64(), pos, 0, 0));
  lb_store(b, s->count, at, lb_op(b, OP_ADD, P, pos, s->one, 0));
  lb_store(b, s->keys, to, key);
  lb_store(b, s->from, to, lb_load(b, P, s->from, src));
  lb_end(b);
  lb_set(b, s->half, there);
  lb_end(b);
  lb_end(b);
}
/* What the stages are of the sorted places: the first's ranks, where they are `stored`, and what the others write by
 * rank. */
static void radix_results(kctx *k, const u32vec *stages, const ranking *r, const radix_sort *s, bool stored) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  const ltype P = lt(s->place, 1), K = lt(s->type, 1), B = lt(ET_BOOL, 1);
  const etype t = (etype)exn(k->m, r->key)->type;
  bool nans = et_kind(t) == K_FLOAT && stages->n > 1;
  lv stop = stored || !r->first ? s->n : lb_op(b, OP_MIN, i64(), s->n, lb_int(b, r->first), 0),
     begin = lb_get(b, s->half);
  lv end = lb_op(b, OP_MAX, i64(), lb_add(b, begin, lb_addi(b, s->n, -1)), lb_int(b, 0), 0),
     ends_nan = nans ? is_nan(b, lb_load(b, K, s->keys, end)) : 0;
  lv i = loop_to(b, "position", stop);
  emit_scope(e);
  lv sorted = lb_add(b, begin, i), place = lb_op(b, OP_CAST, i64(), lb_load(b, P, s->from, sorted), 0, 0);
  lv key = lb_load(b, K, s->keys, sorted);
  if (stored) {
    uint32_t nb = e->view.binds.n;
    emit_bind(e, r->p, place);
    emit_epoch(e);
    store_rank(k, stages->v[0], rank_of(b, t, key, i));
    view_unbind(&e->view, nb);
  }
  if (nans) { /* each NaN ranks first, too; what is written last counts: a NaN */
    lv first = lb_cmp(b, OP_EQ, i, lb_int(b, 0));
    lb_if(b, lb_op(b, OP_OR, B, first, lb_op(b, OP_NOT, B, is_nan(b, key), 0, 0), 0));
    sorted = lb_op(b, OP_SEL, i64(), lb_op(b, OP_AND, B, first, ends_nan, 0), end, sorted);
    place = lb_op(b, OP_CAST, i64(), lb_load(b, P, s->from, sorted), 0, 0);
  }
  if (stages->n > 1) pairs_put(k, stages, place, i);
  if (nans) lb_end(b);
  emit_unscope(e);
  lb_end(b);
}
void kernel_ranking(kctx *k, const u32vec *stages) {
  ctx *c = k->c;
  ranking r;
  expr_ranking(k->m, stages->v[0], k->a, &r);
  bool stored = layout_materialised(k->p, xs(k->m, stages->v[0])->tensor);
  if (!stored && kernel_first(k, stages)) return;
  sz places = sym_extent(c, r.p);
  int64_t lo, hi;
  sym_range(c, places, &lo, &hi);
  radix_sort s = {.type = key_type((etype)exn(k->m, r.key)->type), .place = hi < INT32_MAX ? ET_I32 : ET_I64};
  s.digits = (int64_t)et_bytes(s.type);
  s.keys = kernel_scratch(k, s.type, sym_muli(c, places, 2));
  s.from = kernel_scratch(k, s.place, sym_muli(c, places, 2));
  s.count = kernel_scratch(k, s.place, sym_int(c, s.digits * BUCKETS));
  s.n = emit_size(&k->e, places);
  s.one = lb_const(&k->e.b, lt(s.place, 1), (scalar){.i = 1});
  pairs_points(k, stages->v[0], &r.p, 1);
  radix_begin(k, &r, &s);
  radix_digits(&k->e.b, &s);
  pairs_values(k, stages);
  radix_results(k, stages, &r, &s, stored);
  pairs_points_end(k);
}
