/* Which instructions does each operation become? What is not here was replaced by loop_expand, or is refused. Semantics as in codegen/llvm/op.c: NaN wins in min and max, division by zero gives 0, shift counts outside of the
 * width give 0 or the sign. */
#include "codegen/x86/build.h"
#include <math.h>
#include <string.h>

enum { LT = 1, LE = 2, UNORD = 3, NEQ = 4, LT_Q = 0x11, LE_Q = 0x12, GE_Q = 0x1D, GT_Q = 0x1E, EQ = 0 };

/* ---- masks: a bit per lane, or a vector of ones and zeros ---- */
static vr compare_f(sel *e, const shp *s, unsigned pred, vr a, vr b) {
  bool d = s->bytes == 8;
  vr k = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s->vl);
  if (!e->avx512 && d && s->lanes > 1) xg_refuse(e, "a comparison of f64");
  xg_emit(e, (mi){.op = e->avx512 ? (d ? V_CMPPDK : V_CMPPSK) : d ? V_CMPPDV : V_CMPPSV, .vl = s->vl, .d = k, .a = a, .b = b, .imm = pred});
  return k;
}
static void blend_to(sel *e, const shp *s, vr d, vr mask, vr yes, vr no) {
  static const uint16_t op[] = {[1] = V_BLENDMB, [2] = V_BLENDMW, [4] = V_BLENDMD, [8] = V_BLENDMQ};
  if (e->avx512) xg_emit(e, (mi){.op = op[s->bytes], .vl = s->vl, .d = d, .k = mask, .a = no, .b = yes});
  else {
    if (s->bytes != 4 && s->lanes > 1) xg_refuse(e, "a choice between elements that are not of 32 bits");
    xg_emit(e, (mi){.op = V_BLENDVPS, .vl = s->vl, .d = d, .a = no, .b = yes, .c = mask});
  }
}
static vr blend(sel *e, const shp *s, vr mask, vr yes, vr no) {
  vr d = xg_new(e, RV, s->vl);
  blend_to(e, s, d, mask, yes, no);
  return d;
}
static void minmax_to(sel *e, const shp *s, bool max, vr d, vr x, vr y, lv from, unsigned q) { /* NaN wins. y 0: part q of that value, which may be in memory */
  vr m = xg_new(e, RV, s->vl);
  mi i = {.op = s->bytes == 8 ? (max ? V_MAXPD : V_MINPD) : max ? V_MAXPS : V_MINPS, .vl = s->vl, .d = m, .a = x, .b = y};
  if (!y) xg_operand(e, &i, from, q);
  if (EK_PLANTED("x86-op")) i.d = d;
  xg_emit(e, i);
  if (!e->avx512 && s->bytes == 8) { /* blends by 32 bits do */
    vr k = xg_new(e, RV, s->vl);
    xg_emit(e, (mi){.op = V_CMPPDV, .vl = s->vl, .d = k, .a = x, .b = x, .imm = UNORD});
    xg_emit(e, (mi){.op = V_BLENDVPS, .vl = s->vl, .d = d, .a = m, .b = x, .c = k});
    return;
  }
  blend_to(e, s, d, compare_f(e, s, UNORD, x, x), x, m);
}

/* ---- floats ---- */
static vr splat_f(sel *e, const shp *s, double k) {
  uint64_t b = 0;
  et_store(s->bytes == 8 ? ET_F64 : ET_F32, &b, (scalar){.f = k});
  return xg_splat_bits(e, b, s->bytes, s->vl);
}
static void binary(sel *e, lv v, const shp *s, unsigned op, lv x, lv y, bool swaps) {
  vr p[PARTS];
  if (swaps && xg_lazy(e, x) && !xg_lazy(e, y)) {
    lv z = x;
    x = y, y = z;
  }
  for (unsigned q = 0; q < s->n; q++) {
    mi i = {.op = (uint16_t)op, .vl = s->vl, .a = xg_part(e, x, q)};
    xg_operand(e, &i, y, q);
    i.d = p[q] = xg_out(e, v, q);
    xg_emit(e, i);
  }
  xg_result(e, v, s->n, p);
}
static void unary(sel *e, lv v, const shp *s, unsigned op, lv x, int64_t imm) {
  vr p[PARTS];
  for (unsigned q = 0; q < s->n; q++) {
    mi i = {.op = (uint16_t)op, .vl = s->vl, .imm = imm};
    xg_operand(e, &i, x, q);
    i.d = p[q] = xg_out(e, v, q);
    xg_emit(e, i);
  }
  xg_result(e, v, s->n, p);
}
static void with_const(sel *e, lv v, const shp *s, unsigned op, lv x, uint64_t bits) {
  vr p[PARTS];
  for (unsigned q = 0; q < s->n; q++) {
    vr a = xg_part(e, x, q), k = xg_splat_bits(e, bits, s->bytes, s->vl);
    p[q] = xg_out(e, v, q);
    xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = p[q], .a = a, .b = k});
  }
  xg_result(e, v, s->n, p);
}
static bool negative(const sel *e, lv v, scalar *k) { return loop_const(e->f, v, k) && k->f < 0; }
static void fma3(sel *e, lv v, const linst *i, const shp *s) {
  bool one = s->lanes == 1, d = s->bytes == 8;
  lv x = i->a, y = i->b;
  if (xg_lazy(e, x) && !xg_lazy(e, y)) x = i->b, y = i->a;
  vr p[PARTS];
  scalar f;
  bool other = !negative(e, x, &f) && negative(e, y, &f), minus = other || negative(e, x, &f); /* a factor and its opposite share a register */
  if (other && !xg_lazy(e, x)) {
    lv z = x;
    x = y, y = z, other = false;
  }
  minus &= !other;
  for (unsigned q = 0; q < s->n; q++) {
    mi k = {.op = one ? (d ? V_FMASD : V_FMASS) : d ? V_FMAPD : V_FMAPS, .vl = s->vl};
    if (minus) k.op = one ? (d ? V_FNMASD : V_FNMASS) : d ? V_FNMAPD : V_FNMAPS, k.a = splat_f(e, s, -f.f);
    else k.a = xg_part(e, x, q);
    xg_operand(e, &k, y, q);
    if (k.m.kind == AM_NONE) {
      mi z = {.op = k.op, .vl = s->vl};
      xg_operand(e, &z, i->c, q);
      k.c = z.b, k.m = z.m, k.flags |= z.flags;
    } else
      k.c = xg_part(e, i->c, q);
    k.d = p[q] = xg_out(e, v, q);
    xg_emit(e, k);
  }
  xg_result(e, v, s->n, p);
}
/* Bools of the lanes of n parts become one value. */
static void bools(sel *e, lv v, const shp *s, vr *k) {
  if (s->lanes == 1) {
    vr g = xg_new(e, RG, 0), b = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = e->avx512 ? V_KMOVQG : V_MOVDG, .d = g, .a = e->avx512 ? 0 : k[0], .b = e->avx512 ? k[0] : 0});
    xg_emit(e, (mi){.op = G_AND, .d = b, .a = g, .imm = 1});
    xg_result(e, v, 1, &b);
    return;
  }
  if (!e->avx512) {
    xg_result(e, v, s->n, k);
    return;
  }
  vr all = k[0];
  for (unsigned q = 1; q < s->n; q++) {
    vr up = xg_new(e, RK, 0), both = xg_new(e, RK, 0);
    xg_emit(e, (mi){.op = V_KSHL, .d = up, .b = k[q], .imm = q * s->per});
    xg_emit(e, (mi){.op = V_KOR, .d = both, .a = all, .b = up});
    all = both;
  }
  /* parts that are not full leave bits above: only with one part, whose readers do not look there */
  xg_result(e, v, 1, &all);
}
static void compare_floats(sel *e, lv v, const linst *i, const shp *s, unsigned pred) {
  vr k[PARTS];
  for (unsigned q = 0; q < s->n; q++) {
    vr a = xg_part(e, i->a, q);
    k[q] = compare_f(e, s, pred, a, pred == UNORD ? a : xg_part(e, i->b, q));
  }
  bools(e, v, s, k);
}
static bool not_nan(sel *e, lv v) {
  scalar k;
  return loop_const(e->f, v, &k) && !isnan(k.f);
}
static bool float_op(sel *e, lv v, const linst *i, etype t) {
  shp s = xg_shape(e, lt(t, li(e->f, i->a)->type.lanes));
  bool one = s.lanes == 1, d = t == ET_F64;
  uint64_t sign = d ? 1ull << 63 : 1u << 31;
  vr p[PARTS];
#define OF(name) (one ? (d ? V_##name##SD : V_##name##SS) : d ? V_##name##PD : V_##name##PS)
  switch ((sop)i->op) {
  case OP_ADD: binary(e, v, &s, OF(ADD), i->a, i->b, true); return true;
  case OP_SUB: binary(e, v, &s, OF(SUB), i->a, i->b, false); return true;
  case OP_MUL: binary(e, v, &s, OF(MUL), i->a, i->b, true); return true;
  case OP_DIV: binary(e, v, &s, OF(DIV), i->a, i->b, false); return true;
  case OP_SQRT:
    if (!one) unary(e, v, &s, d ? V_SQRTPD : V_SQRTPS, i->a, 0);
    else binary(e, v, &s, d ? V_SQRTSD : V_SQRTSS, i->a, i->a, false);
    return true;
  case OP_NEG: with_const(e, v, &s, V_XORPS, i->a, sign); return true;
  case OP_ABS: with_const(e, v, &s, V_ANDPS, i->a, sign - 1); return true;
  case OP_FLOOR: unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 9); return true;
  case OP_CEIL: unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 10); return true;
  case OP_TRUNC: unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 11); return true;
  case OP_ROUND_EVEN: unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 8); return true;
  case OP_LDEXP: binary(e, v, &s, d ? V_SCALEFPD : V_SCALEFPS, i->a, i->b, false); return true;
  case OP_FMA: fma3(e, v, i, &s); return true;
  case OP_SIGN:
    for (unsigned q = 0; q < s.n; q++) {
      vr x = xg_part(e, i->a, q), zero = xg_zero(e), r = blend(e, &s, compare_f(e, &s, EQ, x, zero), zero, x);
      r = blend(e, &s, compare_f(e, &s, GT_Q, x, zero), splat_f(e, &s, 1), r);
      p[q] = blend(e, &s, compare_f(e, &s, LT_Q, x, zero), splat_f(e, &s, -1), r);
    }
    xg_result(e, v, s.n, p);
    return true;
  case OP_MIN:
  case OP_MAX: {
    bool max = i->op == OP_MAX;
    if (not_nan(e, i->b)) binary(e, v, &s, max ? OF(MAX) : OF(MIN), i->b, i->a, false);
    else if (not_nan(e, i->a)) binary(e, v, &s, max ? OF(MAX) : OF(MIN), i->a, i->b, false);
    else {
      for (unsigned q = 0; q < s.n; q++) {
        vr x = xg_part(e, i->a, q);
        minmax_to(e, &s, max, p[q] = xg_out(e, v, q), x, 0, i->b, q);
      }
      xg_result(e, v, s.n, p);
    }
    return true;
  }
  case OP_SAT: xg_saturate(e, v, i); return true;
  case OP_ISNAN: compare_floats(e, v, i, &s, UNORD); return true;
  case OP_EQ: compare_floats(e, v, i, &s, EQ); return true;
  case OP_NE: compare_floats(e, v, i, &s, NEQ); return true;
  case OP_LT: compare_floats(e, v, i, &s, LT_Q); return true;
  case OP_LE: compare_floats(e, v, i, &s, LE_Q); return true;
  case OP_GT: compare_floats(e, v, i, &s, GT_Q); return true;
  case OP_GE: compare_floats(e, v, i, &s, GE_Q); return true;
  case OP_ISINF:
    for (unsigned q = 0; q < s.n; q++) {
      vr m = xg_new(e, RV, s.vl);
      xg_emit(e, (mi){.op = V_ANDPS, .vl = s.vl, .d = m, .a = xg_part(e, i->a, q), .b = xg_splat_bits(e, sign - 1, s.bytes, s.vl)});
      p[q] = compare_f(e, &s, EQ, m, splat_f(e, &s, INFINITY));
    }
    bools(e, v, &s, p);
    return true;
  case OP_SIGNBIT:
    if (!e->avx512 && (d || one)) return false;
    for (unsigned q = 0; q < s.n; q++) {
      p[q] = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s.vl);
      vr x = xg_part(e, i->a, q), z = xg_zero(e);
      if (e->avx512) xg_emit(e, (mi){.op = d ? V_CMPQK : V_CMPDK, .vl = s.vl, .d = p[q], .a = x, .b = z, .imm = LT});
      else xg_emit(e, (mi){.op = V_CMPGTD, .vl = s.vl, .d = p[q], .a = z, .b = x});
    }
    bools(e, v, &s, p);
    return true;
  default: return false;
  }
}

/* ---- vectors of whole numbers ---- */
static unsigned by_size(unsigned bytes, unsigned b, unsigned w, unsigned d, unsigned q) { return bytes == 1 ? b : bytes == 2 ? w : bytes == 4 ? d : q; }
static unsigned minmax_of(unsigned bytes, bool max, bool u) {
  if (u) return max ? by_size(bytes, V_PMAXUB, V_PMAXUW, V_PMAXUD, V_PMAXUQ) : by_size(bytes, V_PMINUB, V_PMINUW, V_PMINUD, V_PMINUQ);
  return max ? by_size(bytes, V_PMAXSB, V_PMAXSW, V_PMAXSD, V_PMAXSQ) : by_size(bytes, V_PMINSB, V_PMINSW, V_PMINSD, V_PMINSQ);
}
static void compare_ints(sel *e, lv v, const linst *i, const shp *s, bool u) {
  vr k[PARTS];
  for (unsigned q = 0; q < s->n; q++) {
    vr x = xg_part(e, i->a, q), y = xg_part(e, i->b, q);
    unsigned pred = i->op == OP_EQ ? 0 : i->op == OP_NE ? 4 : i->op == OP_LT ? 1 : i->op == OP_LE ? 2 : i->op == OP_GT ? 6 : 5;
    k[q] = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s->vl);
    if (e->avx512) {
      unsigned op = u ? by_size(s->bytes, V_CMPUBK, V_CMPUWK, V_CMPUDK, V_CMPUQK) : by_size(s->bytes, V_CMPBK, V_CMPWK, V_CMPDK, V_CMPQK);
      xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = k[q], .a = x, .b = y, .imm = pred});
      continue;
    }
    if (s->bytes != 4 || (u && pred % 4)) xg_refuse(e, "a comparison of whole numbers");
    bool eq = pred % 4 == 0, swap = pred == 1 || pred == 5, flip = pred == 4 || pred == 2 || pred == 5;
    vr m = flip ? xg_new(e, RV, s->vl) : k[q];
    xg_emit(e, (mi){.op = eq ? V_CMPEQD : V_CMPGTD, .vl = s->vl, .d = m, .a = swap ? y : x, .b = swap ? x : y});
    if (flip) xg_emit(e, (mi){.op = V_PXORD, .vl = s->vl, .d = k[q], .a = m, .b = xg_splat_bits(e, UINT32_MAX, 4, s->vl)});
  }
  bools(e, v, s, k);
}
static bool vector_shift(sel *e, lv v, const linst *i, const shp *s, etype t) {
  bool left = i->op == OP_SHL, arith = !left && et_kind(t) == K_INT;
  scalar k;
  vr p[PARTS];
  int64_t bits = et_bits(t);
  if (s->bytes == 1) return false;
  if (loop_const(e->f, i->b, &k)) {
    if (k.i < 0 || k.i >= bits) {
      if (!arith) {
        p[0] = xg_zero(e);
        xg_result(e, v, 1, p);
        return true;
      }
      k.i = bits - 1;
    }
    unsigned op = left ? by_size(s->bytes, 0, V_SLLW, V_SLLD, V_SLLQ) : arith ? by_size(s->bytes, 0, V_SRAW, V_SRAD, V_SRAQ) : by_size(s->bytes, 0, V_SRLW, V_SRLD, V_SRLQ);
    for (unsigned q = 0; q < s->n; q++) {
      vr x = xg_part(e, i->a, q);
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = p[q], .b = x, .imm = k.i});
    }
    xg_result(e, v, s->n, p);
    return true;
  }
  binary(e, v, s, left ? by_size(s->bytes, 0, V_SLLVW, V_SLLVD, V_SLLVQ) : arith ? by_size(s->bytes, 0, V_SRAVW, V_SRAVD, V_SRAVQ) : by_size(s->bytes, 0, V_SRLVW, V_SRLVD, V_SRLVQ), i->a, i->b, false); /* counts beyond give 0 or the sign */
  return true;
}
static bool vector_int(sel *e, lv v, const linst *i, etype t) {
  shp s = xg_shape(e, lt(t, li(e->f, i->a)->type.lanes));
  bool u = et_kind(t) != K_INT;
  vr p[PARTS];
  switch ((sop)i->op) {
  case OP_ADD: binary(e, v, &s, by_size(s.bytes, V_PADDB, V_PADDW, V_PADDD, V_PADDQ), i->a, i->b, true); return true;
  case OP_SUB: binary(e, v, &s, by_size(s.bytes, V_PSUBB, V_PSUBW, V_PSUBD, V_PSUBQ), i->a, i->b, false); return true;
  case OP_MUL:
    if (s.bytes == 1) return false;
    binary(e, v, &s, by_size(s.bytes, 0, V_PMULW, V_PMULD, V_PMULQ), i->a, i->b, true);
    return true;
  case OP_FMA:
    if (s.bytes == 1) return false;
    for (unsigned q = 0; q < s.n; q++) {
      vr m = xg_new(e, RV, s.vl), x = xg_part(e, i->a, q), y = xg_part(e, i->b, q), z = xg_part(e, i->c, q);
      xg_emit(e, (mi){.op = (uint16_t)by_size(s.bytes, 0, V_PMULW, V_PMULD, V_PMULQ), .vl = s.vl, .d = m, .a = x, .b = y});
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)by_size(s.bytes, 0, V_PADDW, V_PADDD, V_PADDQ), .vl = s.vl, .d = p[q], .a = m, .b = z});
    }
    xg_result(e, v, s.n, p);
    return true;
  case OP_AND:
  case OP_BAND: binary(e, v, &s, V_PANDD, i->a, i->b, s.bytes == 4); return true;
  case OP_OR:
  case OP_BOR: binary(e, v, &s, V_PORD, i->a, i->b, s.bytes == 4); return true;
  case OP_BXOR: binary(e, v, &s, V_PXORD, i->a, i->b, s.bytes == 4); return true;
  case OP_NOT:
  case OP_BNOT: with_const(e, v, &s, V_PXORD, i->a, UINT64_MAX); return true;
  case OP_NEG:
    for (unsigned q = 0; q < s.n; q++) {
      vr x = xg_part(e, i->a, q), z = xg_zero(e);
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)by_size(s.bytes, V_PSUBB, V_PSUBW, V_PSUBD, V_PSUBQ), .vl = s.vl, .d = p[q], .a = z, .b = x});
    }
    xg_result(e, v, s.n, p);
    return true;
  case OP_ABS:
    if (u) {
      for (unsigned q = 0; q < s.n; q++) p[q] = xg_part(e, i->a, q);
      e->into[v] = 0;
      xg_result(e, v, s.n, p);
    } else
      unary(e, v, &s, by_size(s.bytes, V_PABSB, V_PABSW, V_PABSD, V_PABSQ), i->a, 0);
    return true;
  case OP_SIGN: {
    if (u) return false;
    unsigned min = minmax_of(s.bytes, false, false), max = minmax_of(s.bytes, true, false);
    for (unsigned q = 0; q < s.n; q++) { /* cut to -1..1 */
      vr x = xg_part(e, i->a, q), m = xg_new(e, RV, s.vl), one = xg_splat_bits(e, 1, s.bytes, s.vl), neg = xg_splat_bits(e, UINT64_MAX, s.bytes, s.vl);
      xg_emit(e, (mi){.op = (uint16_t)min, .vl = s.vl, .d = m, .a = x, .b = one});
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)max, .vl = s.vl, .d = p[q], .a = m, .b = neg});
    }
    xg_result(e, v, s.n, p);
    return true;
  }
  case OP_MIN:
  case OP_MAX: binary(e, v, &s, minmax_of(s.bytes, i->op == OP_MAX, u), i->a, i->b, true); return true;
  case OP_SHL:
  case OP_SHR: return vector_shift(e, v, i, &s, t);
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE: compare_ints(e, v, i, &s, u); return true;
  default: return false;
  }
}
static bool vector_bool(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, lt(ET_BOOL, li(e->f, i->a)->type.lanes));
  vr p[PARTS];
  bool k = e->avx512;
  unsigned op;
  switch ((sop)i->op) {
  case OP_AND: case OP_BAND: case OP_MIN: case OP_MUL: op = k ? V_KAND : V_PANDD; break;
  case OP_OR: case OP_BOR: case OP_MAX: op = k ? V_KOR : V_PORD; break;
  case OP_BXOR: case OP_NE: op = k ? V_KXOR : V_PXORD; break;
  case OP_EQ:
    if (!k) return false;
    op = V_KXNOR;
    break;
  case OP_NOT:
  case OP_BNOT:
    if (!k) with_const(e, v, &s, V_PXORD, i->a, UINT64_MAX);
    else {
      vr x = xg_part(e, i->a, 0);
      p[0] = xg_out(e, v, 0);
      xg_emit(e, (mi){.op = V_KNOT, .d = p[0], .b = x});
      xg_result(e, v, 1, p);
    }
    return true;
  default: return false;
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr x = xg_part(e, i->a, q), y = xg_part(e, i->b, q);
    p[q] = xg_out(e, v, q);
    xg_emit(e, (mi){.op = (uint16_t)op, .vl = s.vl, .d = p[q], .a = x, .b = y});
  }
  xg_result(e, v, s.n, p);
  return true;
}

/* ---- one whole number ---- */
static vr gop(sel *e, unsigned op, vr a, vr b) {
  vr d = xg_new(e, RG, 0);
  const vinfo *k = &e->x->v.v[b];
  if (op >= G_ADD && op <= G_IMUL && k->is_imm && k->imm == (int32_t)k->imm && k->imm != INT32_MIN) {
    xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .a = a, .imm = k->imm});
    return d;
  }
  xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .a = a, .b = b, .flags = op == G_SUB || op == G_DIV || op == G_IDIV || op == G_MULH ? F_EARLY : 0});
  return d;
}
static vr gopi(sel *e, unsigned op, vr a, int64_t k) {
  if (k != (int32_t)k) return gop(e, op, a, xg_imm(e, k));
  vr d = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .a = a, .imm = k});
  return d;
}
static vr g1(sel *e, unsigned op, vr b) {
  vr d = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .b = b});
  return d;
}
static void compare_g(sel *e, vr a, vr b) { /* constants in the instruction */
  const vinfo *k = &e->x->v.v[b];
  if (k->is_imm && k->imm == (int32_t)k->imm) xg_emit(e, (mi){.op = G_CMP, .a = a, .imm = k->imm});
  else xg_emit(e, (mi){.op = G_CMP, .a = a, .b = b});
}
static vr set_cc(sel *e, vr a, vr b, unsigned cc) {
  vr d = xg_new(e, RG, 0);
  compare_g(e, a, b);
  xg_emit(e, (mi){.op = G_SETCC, .d = d, .cc = (uint8_t)cc});
  return d;
}
static vr choose(sel *e, vr a, vr b, unsigned cc, vr yes, vr no) { /* a cc b ? yes : no; b 0: a compared with 0 */
  vr d = xg_new(e, RG, 0);
  if (b) compare_g(e, a, b);
  else xg_emit(e, (mi){.op = G_TEST, .a = a, .b = a});
  xg_emit(e, (mi){.op = G_CMOV, .cc = (uint8_t)cc, .d = d, .a = no, .b = yes});
  return d;
}
static vr wrapped(sel *e, etype t, vr v) {
  if (t == ET_BOOL || et_bits(t) == 64) return v;
  bool u = et_kind(t) != K_INT;
  return g1(e, et_bits(t) == 32 ? (u ? G_ZX32 : G_SX32) : et_bits(t) == 16 ? (u ? G_ZX16 : G_SX16) : u ? G_ZX8 : G_SX8, v);
}
/* For d >= 2, the number m (as signed 64 bits; 2^64 more where that is negative) and shift with which floor(x * m / 2^(64 + shift)) + (x < 0) is x / d towards 0, for all x of 64 bits. */
static void inverse_of(uint64_t d, uint64_t *m, unsigned *shift) {
  const uint64_t two63 = 1ull << 63;
  uint64_t anc = two63 - 1 - two63 % d, q1 = two63 / anc, r1 = two63 % anc, q2 = two63 / d, r2 = two63 % d, delta;
  unsigned p = 63;
  do {
    p++;
    q1 *= 2, r1 *= 2;
    if (r1 >= anc) q1++, r1 -= anc;
    q2 *= 2, r2 *= 2;
    if (r2 >= d) q2++, r2 -= d;
    delta = d - r2;
  } while (q1 < delta || (q1 == delta && !r1));
  *m = q2 + 1, *shift = p - 64;
}
static vr divide(sel *e, sop op, etype t, vr x, vr y, const scalar *k) { /* floor division and remainder; 0 for a zero divisor */
  bool u = et_kind(t) == K_UINT;
  if (k && k->i == 0) return xg_imm(e, 0);
  if (k && k->i == -1 && !u) return op == OP_IDIV ? g1(e, G_NEG, x) : xg_imm(e, 0);
  if (k && k->i > 0 && !(k->i & (k->i - 1)) && (u || op != OP_FMOD)) {
    if (op == OP_IDIV) return gopi(e, u ? G_SHR : G_SAR, x, __builtin_ctzll((uint64_t)k->i));
    return gopi(e, G_AND, x, k->i - 1);
  }
  if (k && k->i > 1 && !u) { /* by a product with 2^n / k, whose upper half is the quotient, rounded down */
    uint64_t m;
    unsigned sh;
    inverse_of((uint64_t)k->i, &m, &sh);
    vr q = gop(e, G_MULH, x, xg_imm(e, (int64_t)m));
    if ((int64_t)m < 0) q = gop(e, G_ADD, q, x);
    if (sh) q = gopi(e, G_SAR, q, sh);
    q = gop(e, G_ADD, q, gopi(e, G_SHR, x, 63)); /* towards 0 */
    vr r = gop(e, G_SUB, x, gopi(e, G_IMUL, q, k->i));
    if (op == OP_FMOD) return r;
    vr off = gopi(e, G_SAR, r, 63);
    return op == OP_IDIV ? gop(e, G_ADD, q, off) : gop(e, G_ADD, r, gopi(e, G_AND, off, k->i));
  }
  vr d = y, zero = 0, one = 0, minus = 0;
  if (!k) {
    zero = xg_imm(e, 0), one = xg_imm(e, 1), minus = xg_imm(e, -1);
    d = choose(e, y, 0, CC_E, one, y);
    if (!u) d = choose(e, y, minus, CC_E, one, d);
  }
  vr q = gop(e, u ? G_DIV : G_IDIV, x, d), r = gop(e, G_SUB, x, gop(e, G_IMUL, q, d));
  if (!u && op != OP_FMOD) {
    vr other = gop(e, G_EOR, r, d), signs = gopi(e, G_SHR, other, 63), z = zero ? zero : xg_imm(e, 0), off = choose(e, r, 0, CC_NE, signs, z);
    if (op == OP_IDIV) q = gop(e, G_SUB, q, off);
    else r = gop(e, G_ADD, r, gop(e, G_IMUL, off, d));
  }
  vr res = op == OP_IDIV ? q : r;
  if (k) return res;
  res = choose(e, y, 0, CC_E, zero, res);
  if (u) return res;
  return choose(e, y, minus, CC_E, op == OP_IDIV ? g1(e, G_NEG, x) : zero, res);
}
static vr scalar_shift(sel *e, sop op, etype t, vr x, vr y, const scalar *k) {
  int64_t bits = et_bits(t);
  bool left = op == OP_SHL, arith = !left && et_kind(t) == K_INT;
  if (k && k->i >= 0 && k->i < bits) return gopi(e, left ? G_SHL : arith ? G_SAR : G_SHR, x, k->i);
  vr top = xg_imm(e, bits), n = choose(e, y, top, CC_B, y, xg_imm(e, arith ? bits - 1 : 0)), r = gop(e, left ? G_SHLX : arith ? G_SARX : G_SHRX, x, n);
  return arith ? r : choose(e, y, top, CC_B, r, xg_imm(e, 0));
}
static bool scalar_int(sel *e, lv v, const linst *i, etype t) {
  bool u = et_kind(t) != K_INT;
  scalar kk;
  const scalar *k = i->b && loop_const(e->f, i->b, &kk) ? &kk : NULL;
  etype to = (etype)i->type.elem;
  if (t == ET_I64 && (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL || i->op == OP_NEG || i->op == OP_FMA)) { /* sums */
    form x = xg_form(e, i->a), y = i->b ? xg_form(e, i->b) : xg_const(0), zero = xg_const(0), r;
    e->at = e->cur;
    if (i->op == OP_ADD || i->op == OP_SUB) r = xg_add(e, &x, &y, i->op == OP_ADD ? 1 : -1);
    else if (i->op == OP_NEG) r = xg_add(e, &zero, &x, -1);
    else {
      r = xg_mul(e, &x, &y);
      if (i->op == OP_FMA) {
        form z = xg_form(e, i->c);
        r = xg_add(e, &r, &z, 1);
      }
    }
    e->val[v] = (val){.kind = VAL_FORM, .f = r};
    return true;
  }
  vr x = xg_gpr(e, i->a), y = i->b ? xg_gpr(e, i->b) : 0, r;
  static const uint8_t cs[] = {CC_E, CC_NE, CC_L, CC_LE, CC_G, CC_GE}, cu[] = {CC_E, CC_NE, CC_B, CC_BE, CC_A, CC_AE};
  switch ((sop)i->op) {
  case OP_ADD: r = gop(e, G_ADD, x, y); break;
  case OP_SUB: r = gop(e, G_SUB, x, y); break;
  case OP_MUL: r = gop(e, G_IMUL, x, y); break;
  case OP_FMA: r = gop(e, G_ADD, gop(e, G_IMUL, x, y), xg_gpr(e, i->c)); break;
  case OP_NEG: r = g1(e, G_NEG, x); break;
  case OP_IDIV:
  case OP_MOD:
  case OP_FMOD: r = divide(e, (sop)i->op, t, x, y, k); break;
  case OP_AND:
  case OP_BAND: r = gop(e, G_AND, x, y); break;
  case OP_OR:
  case OP_BOR: r = gop(e, G_OR, x, y); break;
  case OP_BXOR: r = gop(e, G_EOR, x, y); break;
  case OP_NOT:
  case OP_BNOT: r = t == ET_BOOL ? gopi(e, G_EOR, x, 1) : g1(e, G_NOT, x); break;
  case OP_ABS: r = u ? x : choose(e, x, 0, CC_L, g1(e, G_NEG, x), x); break;
  case OP_SIGN: {
    vr one = xg_imm(e, 1), zero = xg_imm(e, 0);
    r = choose(e, x, 0, CC_E, zero, one);
    if (!u) r = choose(e, x, 0, CC_L, xg_imm(e, -1), r);
    break;
  }
  case OP_MIN: r = choose(e, x, y, u ? CC_B : CC_L, x, y); break;
  case OP_MAX: r = choose(e, x, y, u ? CC_A : CC_G, x, y); break;
  case OP_SHL:
  case OP_SHR: r = scalar_shift(e, (sop)i->op, t, x, y, k); break;
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE: r = set_cc(e, x, y, (u ? cu : cs)[i->op - OP_EQ]); break;
  default: return false;
  }
  if (to != ET_BOOL) r = wrapped(e, to, r);
  xg_result(e, v, 1, &r);
  if (to == ET_I64) {
    val *o = &e->val[v];
    o->f = xg_var(r), o->kind = VAL_FORM;
  }
  return true;
}
static bool select_op(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, i->type);
  vr p[PARTS];
  if (s.cls == RG) {
    vr c = xg_gpr(e, i->a), r = choose(e, c, 0, CC_NE, xg_gpr(e, i->b), xg_gpr(e, i->c));
    xg_result(e, v, 1, &r);
    if (i->type.elem == ET_I64 || i->type.ptr) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
    return true;
  }
  if (s.cls == RK) {
    vr c = xg_part(e, i->a, 0), x = xg_part(e, i->b, 0), y = xg_part(e, i->c, 0), t = xg_new(e, RK, 0), f = xg_new(e, RK, 0);
    xg_emit(e, (mi){.op = V_KAND, .d = t, .a = c, .b = x});
    xg_emit(e, (mi){.op = V_KANDN, .d = f, .a = c, .b = y});
    p[0] = xg_out(e, v, 0);
    xg_emit(e, (mi){.op = V_KOR, .d = p[0], .a = t, .b = f});
    xg_result(e, v, 1, p);
    return true;
  }
  if (!e->avx512 && s.bytes != 4 && s.lanes > 1) return false;
  vr mask = 0;
  if (s.lanes == 1) {
    if (e->avx512) mask = xg_scalar_mask(e, xg_gpr(e, i->a));
    else {
      mask = xg_new(e, RV, 0);
      if (s.bytes == 8) return false;
      xg_emit(e, (mi){.op = V_MOVD, .d = mask, .b = g1(e, G_NEG, xg_gpr(e, i->a))});
    }
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr m = mask ? mask : xg_mask(e, i->a, q, s.per), yes = xg_part(e, i->b, q), no = xg_part(e, i->c, q);
    blend_to(e, &s, p[q] = xg_out(e, v, q), m, yes, no);
  }
  xg_result(e, v, s.n, p);
  return true;
}
void xg_op(sel *e, lv v, const linst *i) {
  lv x[3] = {i->a, i->b, i->c};
  etype from = (etype)li(e->f, i->a)->type.elem;
  bool known, scalar1 = li(e->f, i->a)->type.lanes == 1;
  xg_begin(e, v, x, 3);
  if (i->op == OP_CAST || i->op == OP_BITCAST) {
    xg_cast(e, v, i);
    return;
  }
  if (i->op == OP_SEL) known = select_op(e, v, i);
  else if (et_kind(from) == K_FLOAT) known = (from == ET_F32 || from == ET_F64) && float_op(e, v, i, from);
  else if (scalar1) known = scalar_int(e, v, i, from);
  else known = from == ET_BOOL ? vector_bool(e, v, i) : vector_int(e, v, i, from);
  if (!known) xg_refuse(e, op_name((sop)i->op));
  e->at = e->cur;
}

/* ---- across lanes ---- */
static vr combine(sel *e, rop op, etype t, vr x, vr y, const shp *s) {
  bool fl = et_kind(t) == K_FLOAT, u = et_kind(t) == K_UINT, d64 = t == ET_F64;
  vr d = xg_new(e, RV, s->vl);
  unsigned o = 0;
  switch (op) {
  case RED_SUM: o = fl ? (d64 ? V_ADDPD : V_ADDPS) : by_size(s->bytes, V_PADDB, V_PADDW, V_PADDD, V_PADDQ); break;
  case RED_PROD: o = fl ? (d64 ? V_MULPD : V_MULPS) : by_size(s->bytes, 0, V_PMULW, V_PMULD, V_PMULQ); break;
  case RED_MAX:
  case RED_MIN:
    if (fl) {
      minmax_to(e, s, op == RED_MAX, d, x, y, 0, 0);
      return d;
    }
    o = minmax_of(s->bytes, op == RED_MAX, u);
    break;
  default: break;
  }
  if (!o) xg_refuse(e, "this reduction across lanes");
  else xg_emit(e, (mi){.op = (uint16_t)o, .vl = s->vl, .d = d, .a = x, .b = y});
  return d;
}
static vr whole(sel *e, etype t, vr x) { /* the first lane of whole numbers */
  vr g = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = et_bytes(t) == 8 ? V_MOVQG : V_MOVDG, .d = g, .a = x});
  return wrapped(e, t, g);
}
static void put_scalar(sel *e, lv v, etype t, vr r) {
  bool fl = t == ET_F32 || t == ET_F64;
  if (!fl && t != ET_BOOL) r = whole(e, et_kind(t) == K_FLOAT ? ET_U16 : t, r);
  xg_result(e, v, 1, &r);
  if (t == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
}
void xg_hreduce(sel *e, lv v, const linst *i) {
  ltype ty = li(e->f, i->a)->type;
  etype t = (etype)ty.elem;
  shp s = xg_shape(e, ty);
  vr p[PARTS];
  xg_begin(e, v, &i->a, 1);
  if (ty.lanes == 1) {
    xg_refuse(e, "a reduction of one lane");
    return;
  }
  if (s.cls == RK) {
    vr g = xg_new(e, RG, 0), z = xg_imm(e, 0), one = xg_imm(e, 1);
    if (i->op != RED_ANY && i->op != RED_ALL) xg_refuse(e, "this reduction of bools");
    xg_emit(e, (mi){.op = V_KMOVQG, .d = g, .b = xg_part(e, i->a, 0)});
    if (i->op == RED_ALL) g = g1(e, G_NOT, g);
    if (s.lanes < 64) g = gop(e, G_AND, g, xg_imm(e, (int64_t)((1ull << s.lanes) - 1)));
    vr r = i->op == RED_ALL ? choose(e, g, 0, CC_E, one, z) : choose(e, g, 0, CC_NE, one, z);
    xg_result(e, v, 1, &r);
    return;
  }
  if (t == ET_BOOL || (et_kind(t) == K_FLOAT && !s.fp)) {
    xg_refuse(e, "this reduction across lanes");
    return;
  }
  for (unsigned q = 0; q < s.n; q++) p[q] = xg_part(e, i->a, q);
  for (unsigned n = s.n; n > 1; n /= 2)
    for (unsigned q = 0; q < n / 2; q++) p[q] = combine(e, (rop)i->op, t, p[q], p[q + n / 2], &s);
  unsigned bytes = s.per * s.bytes;
  vr x = p[0];
  while (bytes > s.bytes) {
    vr hi;
    if (bytes > 16) {
      hi = xg_sub(e, x, s.vl, bytes / 2, bytes / 2);
      s.vl--;
    } else if (bytes > 4) {
      hi = xg_sub(e, x, 0, bytes / 2, bytes / 2);
    } else {
      hi = xg_new(e, RV, 0);
      xg_emit(e, (mi){.op = bytes == 4 ? V_SRLD : V_SRLW, .d = hi, .b = x, .imm = bytes * 4});
    }
    bytes /= 2;
    x = combine(e, (rop)i->op, t, x, hi, &s);
  }
  put_scalar(e, v, t, x);
  e->at = e->cur;
}
void xg_extract(sel *e, lv v, const linst *i) {
  ltype ty = li(e->f, i->a)->type;
  etype t = (etype)ty.elem;
  shp s = xg_shape(e, ty);
  xg_begin(e, v, &i->a, 1);
  e->into[v] = 0;
  if (ty.lanes == 1 || (s.cls == RV && (t == ET_BOOL || s.bytes < 4))) xg_refuse(e, "extract");
  else if (s.cls == RK) {
    vr k = xg_new(e, RK, 0), g = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = V_KSHR, .d = k, .b = xg_part(e, i->a, 0), .imm = i->k.i});
    xg_emit(e, (mi){.op = V_KMOVQG, .d = g, .b = k});
    vr r = gopi(e, G_AND, g, 1);
    xg_result(e, v, 1, &r);
  } else
    put_scalar(e, v, t, xg_sub(e, xg_part(e, i->a, (unsigned)i->k.i / s.per), s.vl, (unsigned)i->k.i % s.per * s.bytes, s.bytes));
  e->at = e->cur;
}
/* Lanes of one or two registers, by a table of places. */
static vr permuted(sel *e, const shp *s, const shp *o, const int32_t *lane, vr x, vr y) {
  uint8_t idx[64] = {0};
  unsigned vl = s->vl > o->vl ? s->vl : o->vl;
  if (!y && vl == VL128 && s->bytes > 2) vl = VL256;
  unsigned per = (16u << vl) / s->bytes;
  for (unsigned l = 0; l < o->per; l++) {
    uint64_t k = lane[l] < 0 ? 0 : (unsigned)lane[l] < s->per ? (unsigned)lane[l] : (unsigned)lane[l] - s->per + per;
    memcpy(idx + l * s->bytes, &k, s->bytes);
  }
  vr table = xg_pool_vector(e, idx, vl), d = xg_new(e, RV, vl);
  if (!y) {
    xg_emit(e, (mi){.op = (uint16_t)by_size(s->bytes, 0, V_PERMW, V_PERMD, V_PERMQ), .vl = (uint8_t)vl, .d = d, .a = table, .b = x});
    return d;
  }
  xg_emit(e, (mi){.op = V_MOVV, .vl = (uint8_t)vl, .d = d, .b = table});
  xg_emit(e, (mi){.op = (uint16_t)by_size(s->bytes, 0, V_PERMI2W, V_PERMI2D, V_PERMI2Q), .vl = (uint8_t)vl, .d = d, .a = x, .b = y, .flags = F_RMW});
  return d;
}
void xg_shuffle(sel *e, lv v, const linst *i) {
  ltype ty = li(e->f, i->a)->type;
  etype t = (etype)ty.elem;
  lv both[2] = {i->a, i->b};
  shp s = xg_shape(e, ty), o = xg_shape(e, i->type);
  vr p[PARTS];
  xg_begin(e, v, both, 2);
  e->into[v] = 0;
  if (s.cls != RV || t == ET_BOOL || s.bytes < 2 || ty.lanes == 1) {
    xg_refuse(e, "shuffle");
    return;
  }
  for (unsigned q = 0; q < o.n; q++) {
    int used[2] = {-1, -1};
    int32_t lane[64];
    bool row = true;
    int32_t first = -1;
    for (unsigned l = 0; l < o.per; l++) {
      int32_t at = i->nargs ? (int32_t)i->args[q * o.per + l] : -1;
      lane[l] = at;
      if (at < 0) continue;
      int src = at / (int)s.per; /* sources: the parts of a, then those of b */
      if (first < 0) first = at - (int32_t)l;
      row &= at - (int32_t)l == first;
      int w = used[0] < 0 || used[0] == src ? 0 : used[1] < 0 || used[1] == src ? 1 : 2;
      if (w == 2) {
        xg_refuse(e, "shuffle of many registers");
        return;
      }
      used[w] = src;
      lane[l] = at % (int)s.per + w * s.per;
    }
    vr x = used[0] < 0 ? xg_part(e, i->a, 0) : used[0] < s.n ? xg_part(e, i->a, (unsigned)used[0]) : xg_part(e, i->b, (unsigned)used[0] - s.n), y = 0;
    if (used[1] >= 0) y = used[1] < s.n ? xg_part(e, i->a, (unsigned)used[1]) : xg_part(e, i->b, (unsigned)used[1] - s.n);
    unsigned at = first < 0 ? 0 : (unsigned)first % s.per * s.bytes, n = o.per * s.bytes;
    if (row && first >= 0 && !y && at % n == 0 && (at == 0 || n >= 4)) p[q] = xg_sub(e, x, s.vl, at, n);
    else p[q] = permuted(e, &s, &o, lane, x, y);
  }
  if (o.lanes == 1) put_scalar(e, v, t, p[0]);
  else xg_result(e, v, o.n, p);
  e->at = e->cur;
}
void xg_splat(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, i->type), o = xg_shape(e, li(e->f, i->a)->type);
  val *x = &e->val[i->a];
  scalar k;
  vr d;
  if (i->type.lanes == 1) {
    e->val[v] = *x;
    return;
  }
  xg_begin(e, v, &i->a, 1);
  e->into[v] = 0;
  if (loop_const(e->f, i->a, &k)) {
    if (s.cls == RK || i->type.elem == ET_BOOL) {
      if (e->avx512) {
        d = xg_new(e, RK, 0);
        xg_emit(e, (mi){.op = V_KMOVGQ, .d = d, .b = xg_imm(e, k.i ? -1 : 0)});
      } else
        d = xg_splat_bits(e, k.i ? UINT64_MAX : 0, 4, s.vl);
    } else {
      uint64_t b = 0;
      et_store((etype)i->type.elem, &b, k);
      d = xg_splat_bits(e, b, s.bytes, s.vl);
    }
    xg_result(e, v, 1, &d);
    return;
  }
  if (x->kind == VAL_LOAD) {
    e->val[v] = (val){.kind = VAL_SPLAT, .f = x->f, .depth = (uint16_t)e->cur};
    e->at = e->cur;
    if (!e->later[v]) xg_part(e, v, 0);
    return;
  }
  if (s.cls == RK) d = xg_scalar_mask(e, xg_gpr(e, i->a));
  else if (i->type.elem == ET_BOOL) {
    vr one = xg_new(e, RV, 0);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = V_MOVD, .d = one, .b = g1(e, G_NEG, xg_gpr(e, i->a))});
    xg_emit(e, (mi){.op = V_BCD, .vl = s.vl, .d = d, .b = one});
  } else if (o.cls == RV) {
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = s.bytes == 4 ? V_BCSS : s.vl ? V_BCSD : V_MOVDDUP, .vl = s.vl, .d = d, .b = xg_part(e, i->a, 0)});
  } else if (e->avx512) {
    vr g = xg_gpr(e, i->a);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = (uint16_t)by_size(s.bytes, V_BCGB, V_BCGW, V_BCGD, V_BCGQ), .vl = s.vl, .d = d, .b = g});
  } else {
    vr g = xg_gpr(e, i->a), one = xg_new(e, RV, 0);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = V_MOVQ, .d = one, .b = g});
    xg_emit(e, (mi){.op = (uint16_t)by_size(s.bytes, V_BCB, V_BCW, V_BCD, V_BCQ), .vl = s.vl, .d = d, .b = one});
  }
  xg_result(e, v, 1, &d);
}
void xg_iota(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, i->type);
  vr p[PARTS];
  if (i->type.lanes == 1) {
    e->val[v] = (val){.kind = VAL_FORM, .f = xg_const(0)};
    return;
  }
  xg_begin(e, v, NULL, 0);
  e->into[v] = 0;
  for (unsigned q = 0; q < s.n; q++) {
    uint8_t b[64] = {0};
    for (unsigned l = 0; l < (16u << s.vl) / s.bytes; l++) {
      uint64_t k = q * s.per + l;
      memcpy(b + l * s.bytes, &k, s.bytes);
    }
    p[q] = xg_pool_vector(e, b, s.vl);
  }
  xg_result(e, v, s.n, p);
}
