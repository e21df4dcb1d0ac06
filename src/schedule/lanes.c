/* How are lanes read and written whose neighbours do not lie side by side in memory? By whole vectors of neighbours,
 * put in order in registers.
 *
 * pattern   The lanes' places differ by constants and span a few vectors (every second place, each place twice,
 *           backwards): these vectors are loaded, and shuffled.
 * square    The lanes lie far apart, but the rows of the tile side by side: a vector along the rows is loaded for
 *           each lane, and the square of lanes and rows is turned over; stores likewise, the other way round.
 *           What is
 *           stored side by side may also be different results of the tile (the classes of a stride, the pieces of
 *           a placement), in turn with its rows.
 *
 * pairs     Two rows of 16 bits whose lanes alternate are stored as words of 32 bits, one of each lane.
 *
 * Which of these an access is follows from its address and the tile. Nothing is chosen here: what it takes was part of
 * the choice of the lanes (tile.c).
 */
#include "schedule/emit.h"
#include "cost/cost.h"
#include <stdlib.h>

/* Can the first n elements of a vector, n a constant, be read and written in one access? Elements of 32 bits can on
 * every machine with vectors, others where the n elements are a smaller vector. */
static bool in_part(ectx *e, etype t, uint32_t n) {
  return e->p->t->masks || et_bytes(t) == 4 || !(n * et_bytes(t) & (n * et_bytes(t) - 1));
}

/* ---- patterns -------------------------------------------------------------------------------- */
/* Where the places of `few` neighbours of var lie, from the first one's on, if that is the same for all tiles: their
 * first value is a multiple of unit (0: not known). */
static bool pattern(ctx *c, sz addr, atom var, uint32_t unit, uint32_t few, int64_t *at) {
  sz coef, q, first = 0;
  int64_t k;
  if (sym_uses_kind(c, addr, AT_DATA)) return false;
  if (sym_linear(c, addr, var, &coef, NULL)) {
    if (!sym_is_int(c, coef, &k) || k < -MAX_LANE_STEP || k > MAX_LANE_STEP) return false;
    for (uint32_t l = 0; l < few; l++) at[l] = k * l;
    return true;
  }
  if (!unit || unit % few) return false;
  q = sym_var(c, "q", sym_ceildiv(c, sym_extent(c, var), sym_int(c, unit)));
  for (uint32_t l = 0; l < few; l++) {
    sz a = sym_replace(c, addr, var, sym_addi(c, sym_muli(c, q, unit), l));
    if (!l) first = a;
    if (!sym_is_int(c, sym_sub(c, a, first), &at[l])) return false;
  }
  return true;
}
/* How many vectors they span; *lo: the lowest place. */
static int64_t spanned(const int64_t *at, uint32_t few, uint32_t lanes, int64_t *lo, int64_t *span) {
  int64_t hi = *lo = 0;
  for (uint32_t l = 0; l < few; l++) *lo = min64(*lo, at[l]), hi = max64(hi, at[l]);
  *span = hi - *lo + 1;
  return (*span + lanes - 1) / lanes;
}
bool lanes_strided(ctx *c, sz addr, atom lane, uint32_t lanes) {
  int64_t at[MAX_LANES], lo, span;
  return lanes > 1 && lanes <= MAX_LANES && pattern(c, addr, lane, lanes, lanes, at) &&
         spanned(at, lanes, lanes, &lo, &span) <= MAX_LANE_STEP;
}
static lv load_once(ectx *e, ltype t, lv ptr, lv at, lv part) {
  uint64_t key = key_join(key_join(ptr, at), part), had;
  if (e->shared && map_getu(e->shared, key, &had)) return (lv)had;
  lv v = lb_load_ex(&e->b, t, ptr, at, 0, part, 0, 0);
  if (e->shared) map_putu(e->shared, key, v);
  return v;
}
lv lanes_load_strided(ectx *e, etype t, lv ptr, strided_steps s) {
  uint32_t n = e->lanes, few = n, wide = n;
  int64_t at[MAX_LANES], lo, span, start[MAX_LANE_STEP];
  lv x[MAX_LANE_STEP], v = 0;
  scalar k = {.i = n};
  if (n < 2 || n > MAX_LANES || t == ET_BOOL || !e->lane || (e->count && !loop_const(e->f, e->count, &k))) return 0;
  few = (uint32_t)max64(1, min64(k.i, n));
  if (!pattern(e->c, s.addr, e->lane, e->unit, n, at)) return 0;
  int64_t vecs = spanned(at, few, n, &lo, &span);
  for (uint32_t l = 0; l < n; l++) at[l] += EK_PLANTED("schedule-joined") ? 0 : s.by;
  lo += min64(0, s.last), span += llabs(s.last), vecs = (span + n - 1) / n;
  if (vecs > MAX_LANE_STEP) return 0;
  while (wide / 2 >= span) wide /= 2;
  if (wide > span && vecs == 1 && !in_part(e, t, (uint32_t)span)) return 0;
  lv first = emit_size(e, s.addr);
  if (wide == 1) return lb_splat(&e->b, (uint16_t)n, lb_load(&e->b, lt(t, 1), ptr, first));
  for (int64_t j = 0; j < vecs; j++) { /* the last one ends with the last place */
    start[j] = lo + (j && j + 1 == vecs ? span - n : j * n);
    x[j] = load_once(e, lt(t, wide), ptr, lb_addi(&e->b, first, start[j]), wide > span ? lb_int(&e->b, span) : 0);
  }
  for (int64_t j = vecs > 1; j < vecs; j++) { /* lanes from the vectors before, and from this one */
    int32_t from[MAX_LANES];
    for (uint32_t l = 0; l < n; l++) {
      int64_t in = 0;
      while (l < few && at[l] - start[in] >= wide) in++;
      from[l] = l >= few || in > j ? -1
                : j && in == j     ? (int32_t)(wide + at[l] - start[j] - EK_PLANTED("schedule-strided"))
                : v                ? (int32_t)l
                                   : (int32_t)(at[l] - start[0]);
    }
    v = lb_shuffle(&e->b, v ? v : x[0], x[j], from, (uint16_t)n);
  }
  return v;
}
/* Lanes `mr` places apart, and the rows of the tile are the places between: all of the vectors that they span
 * together, each of them loaded once. */
static bool load_between(ectx *e, etype t, lv ptr, lv first, uint32_t align, lv *rows) {
  uint32_t n = e->lanes, mr = e->mr;
  scalar few = {.i = n};
  lv x[MAX_LANE_STEP];
  if (n < 2 || n > MAX_LANES || mr < 2 || mr > MAX_LANE_STEP || t == ET_BOOL ||
      (e->count && !loop_const(e->f, e->count, &few)))
    return false;
  uint32_t places = (uint32_t)max64(1, min64(few.i, n)) * mr, vecs = (places + n - 1) / n;
  if (places % n && !in_part(e, t, places % n)) return false;
  for (uint32_t j = 0; j < vecs; j++)
    x[j] = lb_load_ex(&e->b, lt(t, n), ptr, lb_addi(&e->b, first, j * n), 0,
                      places - j * n < n ? lb_int(&e->b, places - j * n) : 0, 0, align);
  for (uint32_t r = 0; r < mr; r++) {
    rows[r] = 0;
    for (uint32_t j = vecs > 1; j < vecs; j++) {
      int32_t from[MAX_LANES];
      for (uint32_t l = 0; l < n; l++) {
        uint32_t at = l * mr + r - EK_PLANTED("schedule-between");
        from[l] = at >= places || at / n > j ? -1
                  : at / n == j              ? (int32_t)((j ? n : 0) + at % n)
                  : j > 1                    ? (int32_t)l
                                             : (int32_t)(at % n);
      }
      rows[r] = lb_shuffle(&e->b, rows[r] ? rows[r] : x[0], x[j], from, (uint16_t)n);
    }
  }
  return true;
}

/* ---- squares --------------------------------------------------------------------------------- */
/* A step of turning a square: the halves of each two neighbours, interleaved by pieces of `g` lanes within parts of
 * `part` lanes. x or y may be 0: lanes of any value. */
static lv zipped(ectx *e, lv x, lv y, uint32_t g, uint32_t part, bool high) {
  uint32_t n = e->lanes;
  int32_t at[MAX_LANES];
  if (!x && !y) return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t piece = i % part / g, from = i / part * part + (piece / 2 + (high ? part / g / 2 : 0)) * g + i % g;
    at[i] = piece % 2 ? (y ? (int32_t)(n + from) : -1) : (x ? (int32_t)from : -1);
  }
  return lb_shuffle(&e->b, x ? x : y, y ? y : x, at, (uint16_t)n);
}
/* The even or the odd parts of x, then those of y. */
static lv sorted(ectx *e, lv x, lv y, uint32_t part, bool odd) {
  uint32_t n = e->lanes;
  int32_t at[MAX_LANES];
  if (!x && !y) return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t p = i / part, from = (2 * (p % (n / part / 2)) + odd) * part + i % part;
    at[i] = p >= n / part / 2 ? (y ? (int32_t)(n + from) : -1) : (x ? (int32_t)from : -1);
  }
  return lb_shuffle(&e->b, x ? x : y, y ? y : x, at, (uint16_t)n);
}
static uint32_t reversed(uint32_t x, uint32_t n) { /* the bits of x < n */
  uint32_t r = 0;
  for (; n > 1; n /= 2, x /= 2) r = 2 * r + x % 2;
  return r;
}
/* bytes of a part of a register within which lanes are moved */
static uint32_t shuffle_bytes(const ectx *e) { return e->p->t->shuffle_bits / 8; }
/* Lane r of out[c] is lane c of in[r], as many of both as there are lanes. An in[r] of 0 is of any value. Two
 * neighbours at a step: first within the parts that the machine has instructions for, then these parts. */
static void exchange(ectx *e, const lv *in, lv *out, uint32_t bytes) {
  uint32_t n = e->lanes, part = shuffle_bytes(e) / bytes < n ? shuffle_bytes(e) / bytes : n;
  lv two[2][MAX_LANES], *x = two[0], *y = two[1], *t;
  for (uint32_t i = 0; i < n; i++) x[i] = in[i];
  for (uint32_t g = 1; g < part; g *= 2, t = x, x = y, y = t)
    for (uint32_t i = 0; i < n; i += part)
      for (uint32_t k = 0; k < part / 2; k++) {
        y[i + k] = zipped(e, x[i + 2 * k], x[i + 2 * k + 1], g, part, false);
        y[i + part / 2 + k] = zipped(e, x[i + 2 * k], x[i + 2 * k + 1], g, part, true);
      }
  for (uint32_t k = 0; k < part; k++) { /* the vectors of column k in their parts; one of each group of rows */
    lv p[2][MAX_LANES], *a = p[0], *b = p[1];
    uint32_t groups = n / part;
    for (uint32_t i = 0; i < groups; i++) a[i] = x[i * part + (EK_PLANTED("schedule-squares") ? k : reversed(k, part))];
    for (uint32_t s = groups; s > 1; s /= 2, t = a, a = b, b = t)
      for (uint32_t i = 0; i < groups / 2; i++)
        b[i] = sorted(e, a[2 * i], a[2 * i + 1], part, false),
        b[groups / 2 + i] = sorted(e, a[2 * i], a[2 * i + 1], part, true);
    for (uint32_t i = 0; i < groups; i++) out[i * part + k] = a[i];
  }
}
static bool exchangeable(ectx *e, etype t) {
  uint32_t n = e->lanes, bytes = et_bytes(t);
  return n >= 4 && n <= MAX_LANES && !(n & (n - 1)) && t != ET_BOOL && n * bytes >= shuffle_bytes(e) && bytes <= 8;
}
/* Do the lanes of this access lie apart, the rows side by side? *step: from lane to lane. */
static bool rows_side_by_side(ectx *e, sz addr, sz *step) {
  sz rest, row_coef;
  int64_t k;
  if (!e->row || e->row_fold || !sym_linear(e->c, addr, e->row, &row_coef, &rest) || !sym_is_int(e->c, row_coef, &k) ||
      k != 1)
    return false;
  *step = emit_lane_coef(e, addr, &rest);
  return *step && !emit_varies(e, *step) && !emit_varies(e, rest) &&
         !(sym_is_int(e->c, *step, &k) && (k == 0 || k == 1));
}
static bool fills_exchange(ectx *e, etype t) {
  return e->mr >= EXCHANGE_ROWS && e->mr <= e->lanes && exchangeable(e, t) &&
         (e->mr == e->lanes || in_part(e, t, e->mr));
}
bool lanes_exchange(ectx *e, etype t, sz addr) {
  sz step;
  return fills_exchange(e, t) && rows_side_by_side(e, addr, &step);
}
/* lane: l as a value, where it is not simply that */
static lv lane_at(ectx *e, lv first, sz step, lv lane, uint32_t l) {
  int64_t k;
  if (sym_is_int(e->c, step, &k))
    return lane ? lb_add(&e->b, first, lb_muli(&e->b, lane, k)) : lb_addi(&e->b, first, k * l);
  return lb_add(&e->b, first, lane ? lb_mul(&e->b, emit_size(e, step), lane) : lb_muli(&e->b, emit_size(e, step), l));
}
static lv first_row(ectx *e, sz addr) {
  uint32_t r = e->r;
  e->r = 0;
  lv at = emit_size(e, addr);
  e->r = r;
  return at;
}
bool lanes_load_rows(ectx *e, etype t, lv ptr, sz addr, uint32_t align, lv *rows) {
  sz step;
  scalar few = {.i = e->lanes};
  lv in[MAX_LANES] = {0};
  int64_t k;
  if (!rows_side_by_side(e, addr, &step)) return false;
  if (sym_is_int(e->c, step, &k) && k == e->mr && load_between(e, t, ptr, first_row(e, addr), align, rows)) return true;
  if (!fills_exchange(e, t)) return false;
  bool known = !e->count || loop_const(e->f, e->count, &few);
  lv at = first_row(e, addr), last = known ? 0 : lb_addi(&e->b, e->count, -1),
     part = e->mr < e->lanes ? lb_int(&e->b, e->mr) : 0;
  for (uint32_t l = 0; l < e->lanes && l < few.i; l++) {
    lv lane = known ? 0 : lb_op(&e->b, OP_MIN, lt(ET_I64, 1), last, lb_int(&e->b, l), 0);
    in[l] = lb_load_ex(&e->b, lt(t, e->lanes), ptr, lane_at(e, at, step, lane, l), 0, part, 0, align);
  }
  exchange(e, in, rows, et_bytes(t));
  return true;
}
/* One vector among those to be stored: its first lane lies `at` places behind the first row of the first result. */
typedef struct slot {
  int64_t at;     /* lanes between its first lane and the first row of the first result */
  lv v;           /* the vector */
  uint64_t *done; /* bits of the rows that are stored */
  uint32_t row;   /* its row */
} slot;
/* finds the vectors to be stored, in the order of their addresses */
static uint32_t same_place(ectx *e, result *all, uint32_t n, int64_t row, slot *out, uint32_t most) {
  uint32_t ns = 0;
  int64_t d;
  for (uint32_t i = 0; i < n; i++) {
    if (all[i].ptr != all->ptr || all[i].done[e->v] || !sym_is_int(e->c, sym_sub(e->c, all[i].addr, all->addr), &d))
      continue;
    for (uint32_t r = 0; r < e->mr && ns < most; r++) {
      uint32_t k = ns++;
      for (; k && out[k - 1].at > d + row * r; k--) out[k] = out[k - 1];
      out[k] = (slot){d + row * r, all[i].regs[r * TILE_V + e->v], &all[i].done[e->v], r};
    }
  }
  return ns;
}
static void store_exchanged(ectx *e, etype t, lv ptr, lv at, sz step, const slot *slots, uint32_t n) {
  scalar few = {.i = e->lanes};
  lv in[MAX_LANES] = {0}, out[MAX_LANES], all = lb_int(&e->b, n);
  bool known = !e->count || loop_const(e->f, e->count, &few);
  for (uint32_t k = 0; k < n; k++) in[k] = slots[k].v, *slots[k].done |= UINT64_C(1) << slots[k].row;
  exchange(e, in, out, et_bytes(t));
  for (uint32_t l = 0; l < e->lanes && l < few.i; l++) {
    lv part = !known ? lb_op(&e->b, OP_SEL, lt(ET_I64, 1), lb_cmp(&e->b, OP_LT, lb_int(&e->b, l), e->count), all,
                             lb_int(&e->b, 0))
              : n < e->lanes ? all
                             : 0;
    lb_store_ex(&e->b, ptr, lane_at(e, at, step, 0, l), out[l], 0, part, 0, 0);
  }
}
/* Stores a result whose two rows alternate, elements of 16 bits, as words of a lane's two. */
static void store_pairs(ectx *e, result *x) {
  lbuild *b = &e->b;
  const etype t = xt(e->m, x->t)->type;
  const ltype half = lt(ET_U16, e->lanes), word = lt(ET_U32, e->lanes);
  sz coef, rest, at;
  int64_t lane, row;
  if (!e->row || e->row_fold || e->mr != PAIR_ROWS || et_bytes(t) != 2 || e->lanes < 2 || !e->lane ||
      sym_int_or(e->c, sym_extent(e->c, e->row), 0) != PAIR_ROWS || !sym_linear(e->c, x->addr, e->row, &coef, &rest) ||
      !sym_is_int(e->c, coef, &row) || row != 1 || !sym_linear(e->c, rest, e->lane, &coef, &at) ||
      !sym_is_int(e->c, coef, &lane) || lane != PAIR_ROWS || emit_varies(e, at) ||
      !sym_exact_div(e->c, rest, sym_int(e->c, PAIR_ROWS), &at))
    return;
  lv both = 0;
  for (uint32_t r = 0; r < PAIR_ROWS; r++) {
    lv v = lb_op(b, OP_CAST, word, lb_op(b, OP_BITCAST, half, x->regs[r * TILE_V + e->v], 0, 0), 0, 0);
    if (r)
      v = lb_op(b, OP_SHL, word, v, lb_const(b, word, (scalar){.i = EK_PLANTED("schedule-pairs") ? 0 : et_bits(t)}), 0);
    both = r ? lb_op(b, OP_BOR, word, both, v, 0) : v;
  }
  lb_store_ex(b, lb_ptrcast(b, ET_U32, x->ptr), emit_size(e, at), both, 0, e->count, 0, 0);
  x->done[e->v] = (UINT64_C(1) << PAIR_ROWS) - 1;
}
void lanes_store_runs(ectx *e, result *all, uint32_t n) {
  enum { SLOTS = 4 * MAX_LANES }; /* the rows of four squares */
  uint32_t L = e->lanes;
  for (uint32_t i = 0; i < n; i++)
    if (!all[i].done[e->v]) store_pairs(e, &all[i]);
  for (uint32_t i = 0; i < n; i++) {
    etype t = xt(e->m, all[i].t)->type;
    slot slots[SLOTS];
    sz step, rest, coef;
    int64_t row = 0, k;
    if (all[i].done[e->v] || e->row_fold || !exchangeable(e, t)) continue;
    step = emit_lane_coef(e, all[i].addr, &rest);
    if (!step || emit_varies(e, step) || emit_varies(e, rest) || (sym_is_int(e->c, step, &k) && (k == 0 || k == 1)))
      continue;
    if (e->row && (!sym_linear(e->c, all[i].addr, e->row, &coef, NULL) || !sym_is_int(e->c, coef, &row) || row < 0))
      continue;
    uint32_t ns = same_place(e, all + i, n - i, row, slots, SLOTS), from = 0;
    for (uint32_t q = 1; q <= ns; q++) {
      if (q < ns && slots[q].at == slots[q - 1].at + 1 && q - from < L) continue;
      if (q - from >= EXCHANGE_ROWS && (q - from == L || in_part(e, t, q - from)))
        store_exchanged(e, t, all[i].ptr, lb_addi(&e->b, first_row(e, all[i].addr), slots[from].at), step, slots + from,
                        q - from);
      from = q;
    }
  }
}
