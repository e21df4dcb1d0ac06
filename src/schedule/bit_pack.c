/* How are constants of few bits read?
 *
 * A product of few rows takes as long as its constants take to come from memory. A constant of whole numbers of which
 * there are at most 256 lies packed in bytes, one of at most 16 or 4 in codes of 4 or 2 bits: a word of 32 bits has 8
 * or 16 points of the sum for its lane, the first one lowest. A shift brings a point's code to the low end of all
 * lanes, and a lookup among the 16 or 4 numbers, which are registers' contents, gives the vector: two instructions for
 * each vector, none for the zero point. Codes are exact.
 *
 * Floats of one byte, none of which is infinite or NaN (expr/narrow.c), become f32 by way of f16: a shift and a mask
 * put sign, exponent and mantissa where f16 has them, the target's instruction converts (subnormal codes, too), and a
 * product makes up for another bias of the exponent.
 *
 * An instruction that takes groups of g points of bytes gets them by a shift and a mask: point p of a word has its code
 * in byte p % g, codes of the first g points in the lowest bits of the bytes. */
#include "schedule/tile.h"
#include <string.h>

enum { WORD = 8 * sizeof(uint32_t) /* bits */, LOOKUP_BITS = 4 /* of a code that is looked up, at most */ };

etype bit_pack_carrier(few_bits few) { return et_kind(few.type) == K_FLOAT ? ET_I8 : few.type; }
uint32_t bit_pack_points(uint32_t bits) { return bits && bits < 8 ? WORD / bits : 1; }

/* ---- the pack -------------------------------------------------------------------------------- */
/* Where the code of a word's point begins. */
static uint32_t code_shift(uint32_t bits, uint32_t group, uint32_t point) {
  return 8 * (point % group) + bits * (point / group);
}
void bit_pack_write(const packing *k, const void *source, pack_piece piece, uint8_t *to) {
  const uint32_t bits = (uint32_t)k->bits, each = bit_pack_points(bits), mask = (1u << bits) - 1,
                 group = (uint32_t)max64(1, k->group);
  for (int64_t item = piece.first; item < piece.last; item++, to += packing_item(k)) {
    const uint8_t *from = (const uint8_t *)source + packing_item_at(k, item);
    const int64_t n = min64(k->nr, k->lanes - item % k->panels * k->nr);
    uint8_t *dst = to + piece.from / each * k->nr * 4;
    memset(dst, 0, (size_t)((piece.to - piece.from) / each * k->nr * 4));
    for (int64_t p = piece.from; p < piece.to; p += each, dst += k->nr * 4) {
      int64_t at[WORD];
      uint32_t shift[WORD];
      for (uint32_t j = 0; j < each; j++) at[j] = packing_point_at(k, p + j), shift[j] = code_shift(bits, group, j);
      for (int64_t l = 0; l < n; l++) {
        uint32_t word = 0;
        for (uint32_t j = 0; j < each; j++)
          word |= ((uint32_t)(from[at[j] + l * k->lane_step] - k->low) & mask) << shift[j];
        memcpy(dst + 4 * l, &word, sizeof word);
      }
    }
  }
}

/* ---- which constants ------------------------------------------------------------------------- */
/* The constant's numbers in bytes, and their type; n 0: they take more. */
static bytes in_bytes(const splan *p, tid t, etype *type) {
  const tensor *x = xt(p->m, t);
  *type = x->narrow.type ? x->narrow.type : x->type;
  if (x->narrow.type) return x->narrow.from;
  const bool is = (x->type == ET_U8 || x->type == ET_I8) && x->data.data;
  return is ? (bytes){x->data.data, x->data.bytes} : (bytes){0};
}
/* Bits of what the constant's bytes hold. */
static few_bits bits_of(splan *p, tid t) {
  uint64_t had;
  int32_t lo = INT32_MAX, hi = INT32_MIN;
  etype type;
  const bytes x = in_bytes(p, t, &type);
  if (!x.n) return (few_bits){0};
  if (et_kind(type) == K_FLOAT) return (few_bits){8, 0, type};
  if (!p->few) p->few = map_new(p->l->a);
  if (!map_getu(p->few, t, &had)) {
    for (size_t i = 0; i < x.n; i++) {
      const int32_t v = type == ET_I8 ? (int8_t)x.p[i] : x.p[i];
      lo = v < lo ? v : lo, hi = v > hi ? v : hi;
    }
    had = key_pair((uint32_t)(lo - INT8_MIN), (uint32_t)(hi - lo));
    map_putu(p->few, t, had);
  }
  const int32_t spread = (int32_t)key_low(had);
  const uint32_t bits = spread < 4 ? 2 : spread < 1 << LOOKUP_BITS ? LOOKUP_BITS : 8;
  const int32_t numbers = 1 << bits;
  lo = (int32_t)key_high(had) + INT8_MIN;
  /* the usual ranges, so that equal kernels stay equal */
  if (lo >= 0 && lo + spread < numbers)
    lo = 0;
  else if (lo >= -numbers / 2 && lo + spread < numbers / 2)
    lo = -numbers / 2;
  return (few_bits){bits, lo, type};
}
bool bit_pack_alike(splan *p, tid a, tid b) {
  if (a == b || !p->few || !map_getu(p->few, a, &(uint64_t){0})) return true;
  const few_bits x = bits_of(p, a), y = bits_of(p, b);
  return x.bits == y.bits && x.low == y.low && x.type == y.type;
}
few_bits bit_pack_of(index_view *iv, const nest *n, uint32_t stage, ex load, int64_t nr, int64_t uses) {
  const few_bits none = {0};
  const tid t = exn(iv->m, load)->tensor;
  const ex_node red = *exn(iv->m, xs(iv->m, n->stages.v[stage])->value); /* nodes move as factors are made */
  const u32vec *vars = &n->reds[stage];
  const tensorised *by = instruction_of(n, stage, load);
  const bool words = xt(iv->m, t)->narrow.type == ET_NONE; /* an instruction takes words of bytes */
  const bool shared = n->shared && !stage && panel_value_reads(iv, n->shared, load);
  factored f = {0};
  etype type;
  int64_t elems;
  if (!in_bytes(iv->p, t, &type).n || (et_kind(type) == K_FLOAT && !iv->p->t->f16c) ||
      !nd_count(&xt(iv->m, t)->data, &elems) || n->lane_reduced || n->lanes < 2)
    return none;
  if (!shared && (n->blocking.panels || !nest_factors(iv, n, stage, &f) ||
                  (words ? !by : by || factor_of(iv, &red, load) != load)))
    return none;
  /* the scale of a block stands apart because few bits are worth it */
  if (shared || (f.outer && !words)) uses = 0;
  if (!cost_keeps_few_bits(iv->p->t, uses, elems * et_bytes(ET_F32), expr_constant_floats(iv->m))) return none;
  few_bits b = bits_of(iv->p, t);
  const uint32_t each = bit_pack_points(b.bits);
  const atom last = vars->v[vars->n - 1];
  const int64_t part = n->blocking.panels && n->blocking.var == last ? n->blocking.step : 0;
  const bool whole = !(sym_int_or(iv->c, sym_extent(iv->c, last), 1) % each || nr % each || part % each);
  if (words) return b.bits < 8 && whole && !b.low && by->by->group == sizeof(uint32_t) ? b : none;
  if (!whole) b.bits = 8;
  return b;
}

/* ---- what a tile reads ----------------------------------------------------------------------- */
/* The word of this copy's vector, read once for all its points, with the codes of the current one lowest. */
static lv word(ectx *e, const packed *k) {
  const ltype I = lt(ET_I32, e->lanes);
  const uint64_t key = key_pair(k->ptr, e->v);
  uint64_t had;
  if (!map_getu(e->words, key, &had)) {
    had = lb_load(&e->b, I, k->ptr, emit_packed(e, k, k->off));
    map_putu(e->words, key, had);
  }
  const lv places = lb_const(&e->b, I, (scalar){.i = (int64_t)e->point * k->few.bits});
  return e->point ? lb_op(&e->b, OP_SHR, I, (lv)had, places, 0) : (lv)had;
}
lv bit_pack_word(ectx *e, const packed *k) {
  const ltype I = lt(ET_I32, e->lanes);
  int64_t mask = 0;
  for (uint32_t i = 0; i < sizeof(uint32_t); i++) mask |= ((INT64_C(1) << k->few.bits) - 1) << 8 * i;
  const lv x = lb_op(&e->b, OP_BAND, I, word(e, k), lb_const(&e->b, I, (scalar){.i = mask}), 0);
  return lb_op(&e->b, OP_BITCAST, lt(ET_U32, e->lanes), x, 0, 0);
}
/* Codes of a float of one byte as f32, by an instruction that makes f32 of f16. */
static lv small_floats(ectx *e, etype type, lv codes) {
  const ltype W = lt(ET_I16, e->lanes), H = lt(ET_F16, e->lanes), F = lt(ET_F32, e->lanes);
  const bool upper = type == ET_F8E5M2; /* the code is the upper byte of f16 */
  const int32_t place = upper ? 8 : 7;  /* of the mantissa's last bit, in f16 */
  const uint8_t one = upper ? 4 : 8;    /* the least exponent, and no mantissa: in f16 it is 2^-14 */
  const scalar by = {.f = et_load(type, &one).f * 0x1p14 * (1 + EK_PLANTED("schedule-small-floats"))},
               mask = {.i = INT16_MIN | INT8_MAX << place};
  const lv wide = lb_op(&e->b, OP_CAST, W, codes, 0, 0); /* the sign fills the upper bits */
  lv x = lb_op(&e->b, OP_SHL, W, wide, lb_const(&e->b, W, (scalar){.i = place}), 0);
  if (!upper) x = lb_op(&e->b, OP_BAND, W, x, lb_const(&e->b, W, mask), 0);
  x = lb_op(&e->b, OP_CAST, F, lb_op(&e->b, OP_BITCAST, H, x, 0, 0), 0, 0);
  return by.f == 1 ? x : lb_op(&e->b, OP_MUL, F, x, lb_const(&e->b, F, by), 0);
}
lv bit_pack_load(ectx *e, const packed *k, etype t) {
  const ltype T = lt(t, e->lanes);
  if (k->few.bits == 8) {
    const etype code = bit_pack_carrier(k->few);
    const lv x = lb_load(&e->b, lt(code, e->lanes), k->ptr, emit_packed(e, k, k->off));
    return code == k->few.type ? lb_op(&e->b, OP_CAST, T, x, 0, 0) : small_floats(e, k->few.type, x);
  }
  uint32_t numbers[1 << LOOKUP_BITS];
  const uint32_t n = 1u << k->few.bits;
  for (uint32_t i = 0; i < n; i++) {
    const float x = (float)(k->few.low + (int64_t)i + EK_PLANTED("schedule-bits"));
    memcpy(&numbers[i], &x, sizeof x);
  }
  return lb_lookup(&e->b, T, word(e, k), numbers, (uint16_t)n);
}
