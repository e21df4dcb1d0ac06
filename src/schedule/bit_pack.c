/* How are constants of few bits read?
 *
 * A product of few rows takes as long as its constants take to come from memory. A constant of whole numbers of which
 * there are at most 256 lies packed in bytes, one of at most 16 or 4 in codes of 4 or 2 bits: a word of 32 bits has 8
 * or 16 points of the sum for its lane, the first one lowest. A shift brings a point's code to the low end of all
 * lanes, and a lookup among the 16 or 4 numbers, which are registers' contents, gives the vector: two instructions for
 * each vector, none for the zero point. Codes are exact.
 *
 * What is constant in a block of terms (a scale) is another factor, which does not hang on the innermost variable of
 * the sum. It is multiplied with what the innermost loop has added up, once: factors that hang on the variable are the
 * sum's, the others wait (the distributive law; sums of floats may be reassociated). */
#include "schedule/tile.h"
#include <string.h>

enum { WORD = 8 * sizeof(uint32_t) /* bits */, LOOKUP_BITS = 4 /* of a code that is looked up, at most */ };

uint32_t bit_pack_points(uint32_t bits) { return bits && bits < 8 ? WORD / bits : 1; }

/* ---- the pack -------------------------------------------------------------------------------- */
void bit_pack_write(const packing *k, const void *source, pack_piece piece, uint8_t *to) {
  const uint32_t bits = (uint32_t)k->bits, each = bit_pack_points(bits), mask = (1u << bits) - 1;
  for (int64_t item = piece.first; item < piece.last; item++, to += packing_item(k)) {
    const uint8_t *from = (const uint8_t *)source + packing_item_at(k, item);
    const int64_t n = min64(k->nr, k->lanes - item % k->panels * k->nr);
    uint8_t *dst = to + piece.from / each * k->nr * 4;
    memset(dst, 0, (size_t)((piece.to - piece.from) / each * k->nr * 4));
    for (int64_t p = piece.from; p < piece.to; p += each, dst += k->nr * 4) {
      int64_t at[WORD];
      for (uint32_t j = 0; j < each; j++) at[j] = packing_point_at(k, p + j);
      for (int64_t l = 0; l < n; l++) {
        uint32_t word = 0;
        for (uint32_t j = 0; j < each; j++)
          word |= ((uint32_t)(from[at[j] + l * k->lane_step] - k->low) & mask) << (bits * j);
        memcpy(dst + 4 * l, &word, sizeof word);
      }
    }
  }
}

/* ---- which constants ------------------------------------------------------------------------- */
/* Bits of what the constant's bytes hold. */
static few_bits bits_of(splan *p, tid t) {
  const narrow_bytes *x = &xt(p->m, t)->narrow;
  uint64_t had;
  int32_t lo = INT32_MAX, hi = INT32_MIN;
  if (!x->type || !x->from.n) return (few_bits){0};
  if (!p->few) p->few = map_new(p->l->a);
  if (!map_getu(p->few, t, &had)) {
    for (size_t i = 0; i < x->from.n; i++) {
      const int32_t v = x->type == ET_I8 ? (int8_t)x->from.p[i] : x->from.p[i];
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
  return (few_bits){bits, lo, x->type};
}
bool bit_pack_alike(splan *p, tid a, tid b) {
  if (a == b || (!xt(p->m, a)->narrow.type && !xt(p->m, b)->narrow.type)) return true;
  const few_bits x = bits_of(p, a), y = bits_of(p, b);
  return x.bits == y.bits && x.low == y.low && x.type == y.type;
}
/* Does nothing stand in the way of steps of whole words over the innermost variable? */
static bool plain_steps(index_view *iv, const nest *n, uint32_t stage) {
  const ex_node *red = exn(iv->m, xs(iv->m, n->stages.v[stage])->value);
  const u32vec *vars = &n->reds[stage];
  u32vec loads = {0};
  if (!vars->n || n->windows[stage] || red->kind != EX_REDUCE || red->op != RED_SUM || red->where ||
      red->type != ET_F32 || red->acc != ET_F32 || exn(iv->m, red->body)->type != ET_F32)
    return false;
  for (uint32_t i = 0; i < vars->n; i++)
    if (expr_range(iv->m, vars->v[i])) return false;
  expr_loads(iv->m, red->body, iv->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(iv->m, loads.v[i])->otherwise) return false;
  return true;
}
few_bits bit_pack_of(index_view *iv, const nest *n, uint32_t stage, ex load, int64_t nr, int64_t uses) {
  const few_bits none = {0};
  const tid t = exn(iv->m, load)->tensor;
  const ex_node *red = exn(iv->m, xs(iv->m, n->stages.v[stage])->value);
  int64_t elems;
  if (!xt(iv->m, t)->narrow.type || !nd_count(&xt(iv->m, t)->data, &elems) || n->lane_reduced || n->lanes < 2 ||
      n->blocking.panels || !plain_steps(iv, n, stage) || factor_of(iv, red, load) != load ||
      !cost_keeps_few_bits(iv->p->t, uses, elems * 4))
    return none;
  few_bits b = bits_of(iv->p, t);
  const uint32_t each = bit_pack_points(b.bits);
  const u32vec *vars = &n->reds[stage];
  if (b.bits < 8 && (sym_int_or(iv->c, sym_extent(iv->c, vars->v[vars->n - 1]), 1) % each || nr % each)) b.bits = 8;
  return b;
}

/* ---- factors --------------------------------------------------------------------------------- */
static ex product(emodule *m, ex a, ex b) { return a ? expr_op2(m, OP_MUL, a, b) : b; }
bool bit_pack_factors(ectx *e, const nest *n, uint32_t stage, factored *out) {
  const u32vec *vars = &n->reds[stage];
  u32vec f = {0};
  ex inner = 0;
  *out = (factored){.stage = stage, .points = 1};
  bool any = false;
  for (uint32_t i = 0; i < n->packs.n; i++)
    if (n->packs.v[i].stage == stage && n->packs.v[i].bits)
      out->points = bit_pack_points(n->packs.v[i].bits), any = true;
  if (!any) return false;
  out->inner = *exn(e->m, xs(e->m, n->stages.v[stage])->value);
  expr_operands(e->m, out->inner.body, OP_MUL, e->a, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    ex *to = value_uses(&e->view, f.v[i], vars->v[vars->n - 1]) ? &inner : &out->outer;
    *to = product(e->m, *to, f.v[i]);
  }
  out->inner.body = inner;
  return true;
}

/* ---- what a tile reads ----------------------------------------------------------------------- */
/* The word of this copy's vector, read once for all its points. */
static lv word(ectx *e, const packed *k) {
  const uint64_t key = key_pair(k->ptr, e->v);
  uint64_t had;
  if (map_getu(e->words, key, &had)) return (lv)had;
  const lv x = lb_load(&e->b, lt(ET_I32, e->lanes), k->ptr, emit_packed(e, k, k->off));
  map_putu(e->words, key, x);
  return x;
}
lv bit_pack_load(ectx *e, const packed *k, etype t) {
  lbuild *b = &e->b;
  const ltype I = lt(ET_I32, e->lanes), T = lt(t, e->lanes);
  if (k->bits == 8) {
    const etype code = (etype)li(e->f, k->ptr)->type.elem;
    return lb_op(b, OP_CAST, T, lb_load(b, lt(code, e->lanes), k->ptr, emit_packed(e, k, k->off)), 0, 0);
  }
  uint32_t numbers[1 << LOOKUP_BITS];
  const uint32_t n = 1u << k->bits;
  for (uint32_t i = 0; i < n; i++) {
    const float x = (float)(k->low + (int64_t)i + EK_PLANTED("schedule-bits"));
    memcpy(&numbers[i], &x, sizeof x);
  }
  lv x = word(e, k);
  if (e->point) x = lb_op(b, OP_SHR, I, x, lb_const(b, I, (scalar){.i = (int64_t)e->point * k->bits}), 0);
  return lb_lookup(b, T, x, numbers, (uint16_t)n);
}
