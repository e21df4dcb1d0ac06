/* Which instructions does each operation become? What is not here was replaced by loop_expand, or is refused. Semantics
 * as in codegen/llvm/op.c: NaN wins in min and max, division by zero gives 0, shift counts outside of the width give 0
 * or the sign. */
#include "codegen/x86/build.h"
#include <math.h>
#include <string.h>

enum { LT = 1, LE = 2, UNORD = 3, NEQ = 4, LT_Q = 0x11, LE_Q = 0x12, GE_Q = 0x1D, GT_Q = 0x1E, EQ = 0 };

/* ---- masks: a bit per lane, or a vector of ones and zeros ------------------------------------ */
static vr compare_f(sel *e, const shp *s, unsigned pred, vr a, vr b) {
  bool d = s->bytes == 8;
  vr k = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s->vl);
  xg_emit(e, (mi){.op = e->avx512 ? (d ? V_CMPPDK : V_CMPPSK)
                        : d       ? V_CMPPDV
                                  : V_CMPPSV,
                  .vl = s->vl,
                  .d = k,
                  .a = a,
                  .b = b,
                  .imm = pred});
  return k;
}
static void blend_to(sel *e, const shp *s, vr d, vr mask, vr yes, vr no) {
  static const uint16_t op[] = {[1] = V_BLENDMB, [2] = V_BLENDMW, [4] = V_BLENDMD, [8] = V_BLENDMQ};
  if (e->avx512)
    xg_emit(e, (mi){.op = op[s->bytes], .vl = s->vl, .d = d, .k = mask, .a = no, .b = yes});
  else {
    if (s->bytes < 4 && s->lanes > 1) xg_refuse(e, "a choice between elements under 32 bits");
    xg_emit(e, (mi){.op = V_BLENDVPS, .vl = s->vl, .d = d, .a = no, .b = yes, .c = mask});
  }
}
static vr blend(sel *e, const shp *s, vr mask, vr yes, vr no) {
  vr d = xg_new(e, RV, s->vl);
  blend_to(e, s, d, mask, yes, no);
  return d;
}
/* NaN wins. y 0: part q of that value, which may be in memory */
void xg_minmax_to(sel *e, const shp *s, bool max, vr d, vr x, vr y, lv from, unsigned q) {
  vr m = xg_new(e, RV, s->vl);
  mi i = {.op = s->bytes == 8 ? (max ? V_MAXPD : V_MINPD)
                : max         ? V_MAXPS
                              : V_MINPS,
          .vl = s->vl,
          .d = m,
          .a = x,
          .b = y};
  if (!y) xg_operand(e, &i, from, q);
  if (EK_PLANTED("x86-op")) i.d = d;
  xg_emit(e, i);
  if (!e->avx512 && s->bytes == 8) { /* without AVX-512 blends of 32 bits do for 64 bits */
    vr k = xg_new(e, RV, s->vl);
    xg_emit(e, (mi){.op = V_CMPPDV, .vl = s->vl, .d = k, .a = x, .b = x, .imm = UNORD});
    xg_emit(e, (mi){.op = V_BLENDVPS, .vl = s->vl, .d = d, .a = m, .b = x, .c = k});
    return;
  }
  blend_to(e, s, d, compare_f(e, s, UNORD, x, x), x, m);
}

/* ---- floats ---------------------------------------------------------------------------------- */
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
  /* a factor and its opposite share a register */
  bool other = !negative(e, x, &f) && negative(e, y, &f), minus = other || negative(e, x, &f);
  if (other && !xg_lazy(e, x)) {
    lv z = x;
    x = y, y = z, other = false;
  }
  minus &= !other;
  for (unsigned q = 0; q < s->n; q++) {
    mi k = {.op = one ? (d ? V_FMASD : V_FMASS) : d ? V_FMAPD : V_FMAPS, .vl = s->vl};
    if (minus)
      k.op = one ? (d ? V_FNMASD : V_FNMASS) : d ? V_FNMAPD : V_FNMAPS, k.a = splat_f(e, s, -f.f);
    else
      k.a = xg_part(e, x, q);
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
/* Ones and zeros in elements of any size: in 32 bits. The number of parts. */
static unsigned words(sel *e, const shp *s, vr *k) {
  shp o = xg_shape(e, lt(ET_BOOL, s->lanes));
  vr p[2 * PARTS];
  if (s->bytes == 4) return s->n;
  if (s->bytes == 8) {
    for (unsigned q = 0; q < s->n; q++) {
      p[q] = xg_new(e, RV, 0);
      xg_emit(
          e,
          (mi){.op = V_SHUFPS, .d = p[q], .a = k[q], .b = s->vl ? xg_sub(e, k[q], s->vl, 16, 16) : k[q], .imm = 0x88});
    }
    for (unsigned q = 0; q < o.n; q++) k[q] = xg_join(e, p + q * (s->n / o.n), s->n / o.n, 16);
    return o.n;
  }
  for (unsigned q = 0; q < o.n; q++) {
    unsigned at = q * o.per;
    p[q] = xg_new(e, RV, o.vl);
    xg_emit(e, (mi){.op = s->bytes == 1 ? V_SXBD : V_SXWD,
                    .vl = o.vl,
                    .d = p[q],
                    .b = xg_sub(e, k[at / s->per], s->vl, at % s->per * s->bytes, o.per * s->bytes)});
  }
  memcpy(k, p, o.n * sizeof *k);
  return o.n;
}
/* Bools of the lanes of n parts become one value. */
static void bools(sel *e, lv v, const shp *s, vr *k) {
  if (s->lanes == 1) {
    vr g = xg_new(e, RG, 0), b = xg_new(e, RG, 0);
    xg_emit(e,
            (mi){.op = e->avx512 ? V_KMOVQG : V_MOVDG, .d = g, .a = e->avx512 ? 0 : k[0], .b = e->avx512 ? k[0] : 0});
    xg_emit(e, (mi){.op = G_AND, .d = b, .a = g, .imm = 1});
    xg_result(e, v, 1, &b);
    return;
  }
  if (!e->avx512) {
    xg_result(e, v, words(e, s, k), k);
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
/* < and > of scalars, by flags: false where one is NaN */
static unsigned compare_one(sel *e, const linst *i, bool f64) {
  bool swap = i->op == OP_LT || i->op == OP_LE;
  mi k = {.op = f64 ? V_UCOMISD : V_UCOMISS, .a = xg_part(e, swap ? i->b : i->a, 0)};
  xg_operand(e, &k, swap ? i->a : i->b, 0);
  xg_emit(e, k);
  return i->op == OP_LT || i->op == OP_GT ? CC_A : CC_AE;
}
unsigned xg_condition(sel *e, lv c) {
  /* conditions of unsigned numbers, of signed numbers */
  static const uint8_t cc[2][6] = {{CC_E, CC_NE, CC_B, CC_BE, CC_A, CC_AE}, {CC_E, CC_NE, CC_L, CC_LE, CC_G, CC_GE}};
  const linst *i = li(e->f, c);
  if (e->val[c].kind != VAL_COND) {
    vr g = xg_gpr(e, c);
    xg_emit(e, (mi){.op = G_TEST, .a = g, .b = g});
    return CC_NE;
  }
  etype t = (etype)li(e->f, i->a)->type.elem;
  if (et_kind(t) == K_FLOAT) return compare_one(e, i, t == ET_F64);
  vr a = xg_gpr(e, i->a), b = xg_gpr(e, i->b);
  const vinfo *k = &e->x->v.v[b];
  if (k->is_imm && k->imm == (int32_t)k->imm)
    xg_emit(e, (mi){.op = G_CMP, .a = a, .imm = k->imm});
  else
    xg_emit(e, (mi){.op = G_CMP, .a = a, .b = b});
  return cc[et_kind(t) == K_INT][i->op - OP_EQ];
}
static void compare_floats(sel *e, lv v, const linst *i, const shp *s, unsigned pred) {
  vr k[PARTS];
  if (s->lanes == 1 && i->op >= OP_LT && i->op <= OP_GE) {
    unsigned cc = compare_one(e, i, s->bytes == 8);
    xg_emit(e, (mi){.op = G_SETCC, .cc = (uint8_t)cc, .d = k[0] = xg_new(e, RG, 0)});
    xg_result(e, v, 1, k);
    return;
  }
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
  case OP_ADD:
    binary(e, v, &s, OF(ADD), i->a, i->b, true);
    return true;
  case OP_SUB:
    binary(e, v, &s, OF(SUB), i->a, i->b, false);
    return true;
  case OP_MUL:
    binary(e, v, &s, OF(MUL), i->a, i->b, true);
    return true;
  case OP_DIV:
    binary(e, v, &s, OF(DIV), i->a, i->b, false);
    return true;
  case OP_SQRT:
    if (!one)
      unary(e, v, &s, d ? V_SQRTPD : V_SQRTPS, i->a, 0);
    else
      binary(e, v, &s, d ? V_SQRTSD : V_SQRTSS, i->a, i->a, false);
    return true;
  case OP_NEG:
    with_const(e, v, &s, V_XORPS, i->a, sign);
    return true;
  case OP_ABS:
    with_const(e, v, &s, V_ANDPS, i->a, sign - 1);
    return true;
  case OP_FLOOR:
    unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 9);
    return true;
  case OP_CEIL:
    unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 10);
    return true;
  case OP_TRUNC:
    unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 11);
    return true;
  case OP_ROUND_EVEN:
    unary(e, v, &s, d ? V_RNDPD : V_RNDPS, i->a, 8);
    return true;
  case OP_LDEXP:
    binary(e, v, &s, d ? V_SCALEFPD : V_SCALEFPS, i->a, i->b, false);
    return true;
  case OP_FMA:
    fma3(e, v, i, &s);
    return true;
  case OP_FMOD:
    if (!one) return false; /* the caller does it lane by lane */
    vec_push(e->a, e->x->slots, 16);
    p[0] = xg_new(e, RV, 0);
    xg_emit(e, (mi){.op = G_FMOD,
                    .d = p[0],
                    .a = xg_part(e, i->a, 0),
                    .b = xg_part(e, i->b, 0),
                    .m = {.kind = AM_SLOT, .disp = (int32_t)e->x->slots.n - 1},
                    .imm = s.bytes});
    xg_result(e, v, 1, p);
    return true;
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
    if (not_nan(e, i->b))
      binary(e, v, &s, max ? OF(MAX) : OF(MIN), i->b, i->a, false);
    else if (not_nan(e, i->a))
      binary(e, v, &s, max ? OF(MAX) : OF(MIN), i->a, i->b, false);
    else {
      for (unsigned q = 0; q < s.n; q++) {
        vr x = xg_part(e, i->a, q);
        xg_minmax_to(e, &s, max, p[q] = xg_out(e, v, q), x, 0, i->b, q);
      }
      xg_result(e, v, s.n, p);
    }
    return true;
  }
  case OP_SAT:
    xg_saturate(e, v, i);
    return true;
  case OP_ISNAN:
    compare_floats(e, v, i, &s, UNORD);
    return true;
  case OP_EQ:
    compare_floats(e, v, i, &s, EQ);
    return true;
  case OP_NE:
    compare_floats(e, v, i, &s, NEQ);
    return true;
  case OP_LT:
    compare_floats(e, v, i, &s, LT_Q);
    return true;
  case OP_LE:
    compare_floats(e, v, i, &s, LE_Q);
    return true;
  case OP_GT:
    compare_floats(e, v, i, &s, GT_Q);
    return true;
  case OP_GE:
    compare_floats(e, v, i, &s, GE_Q);
    return true;
  case OP_ISINF:
    for (unsigned q = 0; q < s.n; q++) {
      vr m = xg_new(e, RV, s.vl);
      xg_emit(e, (mi){.op = V_ANDPS,
                      .vl = s.vl,
                      .d = m,
                      .a = xg_part(e, i->a, q),
                      .b = xg_splat_bits(e, sign - 1, s.bytes, s.vl)});
      p[q] = compare_f(e, &s, EQ, m, splat_f(e, &s, INFINITY));
    }
    bools(e, v, &s, p);
    return true;
  case OP_SIGNBIT:
    if (!e->avx512 && one) {
      vr g = xg_new(e, RG, 0);
      xg_emit(e, (mi){.op = d ? V_MOVQG : V_MOVDG, .d = g, .a = xg_part(e, i->a, 0)});
      p[0] = xg_gopi(e, G_SHR, g, d ? 63 : 31);
      xg_result(e, v, 1, p);
      return true;
    }
    for (unsigned q = 0; q < s.n; q++) {
      p[q] = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s.vl);
      vr x = xg_part(e, i->a, q), z = xg_zero(e);
      if (e->avx512)
        xg_emit(e, (mi){.op = d ? V_CMPQK : V_CMPDK, .vl = s.vl, .d = p[q], .a = x, .b = z, .imm = LT});
      else
        xg_emit(e, (mi){.op = d ? V_CMPGTQ : V_CMPGTD, .vl = s.vl, .d = p[q], .a = z, .b = x});
    }
    bools(e, v, &s, p);
    return true;
  default:
    return false;
  }
}

/* ---- vectors of whole numbers ---------------------------------------------------------------- */
unsigned xg_minmax_of(unsigned bytes, bool max, bool u) {
  if (u)
    return max ? xg_by_size(bytes, V_PMAXUB, V_PMAXUW, V_PMAXUD, V_PMAXUQ)
               : xg_by_size(bytes, V_PMINUB, V_PMINUW, V_PMINUD, V_PMINUQ);
  return max ? xg_by_size(bytes, V_PMAXSB, V_PMAXSW, V_PMAXSD, V_PMAXSQ)
             : xg_by_size(bytes, V_PMINSB, V_PMINSW, V_PMINSD, V_PMINSQ);
}
static void compare_ints(sel *e, lv v, const linst *i, const shp *s, bool u) {
  vr k[PARTS];
  for (unsigned q = 0; q < s->n; q++) {
    vr x = xg_part(e, i->a, q), y = xg_part(e, i->b, q);
    unsigned pred = i->op == OP_EQ   ? 0
                    : i->op == OP_NE ? 4
                    : i->op == OP_LT ? 1
                    : i->op == OP_LE ? 2
                    : i->op == OP_GT ? 6
                                     : 5;
    k[q] = xg_new(e, e->avx512 ? RK : RV, e->avx512 ? 0 : s->vl);
    if (e->avx512) {
      unsigned op = u ? xg_by_size(s->bytes, V_CMPUBK, V_CMPUWK, V_CMPUDK, V_CMPUQK)
                      : xg_by_size(s->bytes, V_CMPBK, V_CMPWK, V_CMPDK, V_CMPQK);
      xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = k[q], .a = x, .b = y, .imm = pred});
      continue;
    }
    bool eq = pred % 4 == 0, swap = pred == 1 || pred == 5, flip = pred == 4 || pred == 2 || pred == 5;
    if (u && !eq) { /* instructions compare signed numbers: top bits are inverted */
      vr top = xg_splat_bits(e, 1ull << (8 * s->bytes - 1), s->bytes, s->vl), a = xg_new(e, RV, s->vl),
         b = xg_new(e, RV, s->vl);
      xg_emit(e, (mi){.op = V_PXORD, .vl = s->vl, .d = a, .a = x, .b = top});
      xg_emit(e, (mi){.op = V_PXORD, .vl = s->vl, .d = b, .a = y, .b = top});
      x = a, y = b;
    }
    unsigned op = eq ? xg_by_size(s->bytes, V_CMPEQB, V_CMPEQW, V_CMPEQD, V_CMPEQQ)
                     : xg_by_size(s->bytes, V_CMPGTB, V_CMPGTW, V_CMPGTD, V_CMPGTQ);
    vr m = flip ? xg_new(e, RV, s->vl) : k[q];
    xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = m, .a = swap ? y : x, .b = swap ? x : y});
    if (flip)
      xg_emit(e, (mi){.op = V_PXORD, .vl = s->vl, .d = k[q], .a = m, .b = xg_splat_bits(e, UINT32_MAX, 4, s->vl)});
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
    unsigned op = left    ? xg_by_size(s->bytes, 0, V_SLLW, V_SLLD, V_SLLQ)
                  : arith ? xg_by_size(s->bytes, 0, V_SRAW, V_SRAD, V_SRAQ)
                          : xg_by_size(s->bytes, 0, V_SRLW, V_SRLD, V_SRLQ);
    for (unsigned q = 0; q < s->n; q++) {
      vr x = xg_part(e, i->a, q);
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = p[q], .b = x, .imm = k.i});
    }
    xg_result(e, v, s->n, p);
    return true;
  }
  binary(e, v, s,
         left    ? xg_by_size(s->bytes, 0, V_SLLVW, V_SLLVD, V_SLLVQ)
         : arith ? xg_by_size(s->bytes, 0, V_SRAVW, V_SRAVD, V_SRAVQ)
                 : xg_by_size(s->bytes, 0, V_SRLVW, V_SRLVD, V_SRLVQ),
         i->a, i->b, false); /* counts beyond the width give 0, or the sign */
  return true;
}
static vr v2(sel *e, const shp *s, unsigned op, vr a, vr b) {
  vr d = xg_new(e, RV, s->vl);
  xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = d, .a = a, .b = b});
  return d;
}
static vr shifted32(sel *e, const shp *s, unsigned op, vr x) {
  vr d = xg_new(e, RV, s->vl);
  xg_emit(e, (mi){.op = (uint16_t)op, .vl = s->vl, .d = d, .b = x, .imm = 32});
  return d;
}
/* What AVX2 lacks for 64 bits: products from those of 32 bits, the larger or smaller one by comparison. */
static vr product64(sel *e, const shp *s, vr x, vr y) {
  vr cross = v2(e, s, V_PADDQ, v2(e, s, V_PMULUDQ, shifted32(e, s, V_SRLQ, x), y),
                v2(e, s, V_PMULUDQ, shifted32(e, s, V_SRLQ, y), x));
  return v2(e, s, V_PADDQ, v2(e, s, V_PMULUDQ, x, y), shifted32(e, s, V_SLLQ, cross));
}
static vr extreme64(sel *e, const shp *s, bool max, bool u, vr x, vr y) {
  vr top = u ? xg_splat_bits(e, 1ull << 63, 8, s->vl) : 0,
     more = v2(e, s, V_CMPGTQ, u ? v2(e, s, V_PXORD, x, top) : x, u ? v2(e, s, V_PXORD, y, top) : y);
  return blend(e, s, more, max ? x : y, max ? y : x);
}
static bool vector_int(sel *e, lv v, const linst *i, etype t) {
  shp s = xg_shape(e, lt(t, li(e->f, i->a)->type.lanes));
  bool u = et_kind(t) != K_INT;
  vr p[PARTS];
  switch ((sop)i->op) {
  case OP_ADD:
    binary(e, v, &s, xg_by_size(s.bytes, V_PADDB, V_PADDW, V_PADDD, V_PADDQ), i->a, i->b, true);
    return true;
  case OP_SUB:
    binary(e, v, &s, xg_by_size(s.bytes, V_PSUBB, V_PSUBW, V_PSUBD, V_PSUBQ), i->a, i->b, false);
    return true;
  case OP_MUL:
    if (s.bytes == 1) return false;
    if (s.bytes == 8 && !e->avx512) {
      for (unsigned q = 0; q < s.n; q++) p[q] = product64(e, &s, xg_part(e, i->a, q), xg_part(e, i->b, q));
      xg_result(e, v, s.n, p);
      return true;
    }
    binary(e, v, &s, xg_by_size(s.bytes, 0, V_PMULW, V_PMULD, V_PMULQ), i->a, i->b, true);
    return true;
  case OP_FMA:
    if (s.bytes == 1) return false;
    for (unsigned q = 0; q < s.n; q++) {
      vr m = xg_new(e, RV, s.vl), x = xg_part(e, i->a, q), y = xg_part(e, i->b, q), z = xg_part(e, i->c, q);
      xg_emit(
          e,
          (mi){.op = (uint16_t)xg_by_size(s.bytes, 0, V_PMULW, V_PMULD, V_PMULQ), .vl = s.vl, .d = m, .a = x, .b = y});
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)xg_by_size(s.bytes, 0, V_PADDW, V_PADDD, V_PADDQ),
                      .vl = s.vl,
                      .d = p[q],
                      .a = m,
                      .b = z});
    }
    xg_result(e, v, s.n, p);
    return true;
  case OP_AND:
  case OP_BAND:
    binary(e, v, &s, V_PANDD, i->a, i->b, s.bytes == 4);
    return true;
  case OP_OR:
  case OP_BOR:
    binary(e, v, &s, V_PORD, i->a, i->b, s.bytes == 4);
    return true;
  case OP_BXOR:
    binary(e, v, &s, V_PXORD, i->a, i->b, s.bytes == 4);
    return true;
  case OP_NOT:
  case OP_BNOT:
    with_const(e, v, &s, V_PXORD, i->a, UINT64_MAX);
    return true;
  case OP_NEG:
    for (unsigned q = 0; q < s.n; q++) {
      vr x = xg_part(e, i->a, q), z = xg_zero(e);
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)xg_by_size(s.bytes, V_PSUBB, V_PSUBW, V_PSUBD, V_PSUBQ),
                      .vl = s.vl,
                      .d = p[q],
                      .a = z,
                      .b = x});
    }
    xg_result(e, v, s.n, p);
    return true;
  case OP_ABS:
    if (u) {
      for (unsigned q = 0; q < s.n; q++) p[q] = xg_part(e, i->a, q);
      e->into[v] = 0;
      xg_result(e, v, s.n, p);
    } else
      unary(e, v, &s, xg_by_size(s.bytes, V_PABSB, V_PABSW, V_PABSD, V_PABSQ), i->a, 0);
    return true;
  case OP_SIGN: {
    if (u) return false;
    unsigned min = xg_minmax_of(s.bytes, false, false), max = xg_minmax_of(s.bytes, true, false);
    for (unsigned q = 0; q < s.n; q++) { /* clamps the result to -1..1 */
      vr x = xg_part(e, i->a, q), m = xg_new(e, RV, s.vl), one = xg_splat_bits(e, 1, s.bytes, s.vl),
         neg = xg_splat_bits(e, UINT64_MAX, s.bytes, s.vl);
      xg_emit(e, (mi){.op = (uint16_t)min, .vl = s.vl, .d = m, .a = x, .b = one});
      p[q] = xg_out(e, v, q);
      xg_emit(e, (mi){.op = (uint16_t)max, .vl = s.vl, .d = p[q], .a = m, .b = neg});
    }
    xg_result(e, v, s.n, p);
    return true;
  }
  case OP_MIN:
  case OP_MAX:
    if (!e->avx512 && s.bytes == 8) {
      for (unsigned q = 0; q < s.n; q++)
        p[q] = extreme64(e, &s, i->op == OP_MAX, u, xg_part(e, i->a, q), xg_part(e, i->b, q));
      xg_result(e, v, s.n, p);
      return true;
    }
    binary(e, v, &s, xg_minmax_of(s.bytes, i->op == OP_MAX, u), i->a, i->b, true);
    return true;
  case OP_SHL:
  case OP_SHR:
    return vector_shift(e, v, i, &s, t);
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
    compare_ints(e, v, i, &s, u);
    return true;
  default:
    return false;
  }
}
static bool vector_bool(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, lt(ET_BOOL, li(e->f, i->a)->type.lanes));
  vr p[PARTS];
  bool k = e->avx512;
  unsigned op;
  switch ((sop)i->op) {
  case OP_AND:
  case OP_BAND:
  case OP_MIN:
  case OP_MUL:
    op = k ? V_KAND : V_PANDD;
    break;
  case OP_OR:
  case OP_BOR:
  case OP_MAX:
    op = k ? V_KOR : V_PORD;
    break;
  case OP_BXOR:
  case OP_NE:
    op = k ? V_KXOR : V_PXORD;
    break;
  case OP_EQ:
    if (!k) return false;
    op = V_KXNOR;
    break;
  case OP_NOT:
  case OP_BNOT:
    if (!k)
      with_const(e, v, &s, V_PXORD, i->a, UINT64_MAX);
    else {
      vr x = xg_part(e, i->a, 0);
      p[0] = xg_out(e, v, 0);
      xg_emit(e, (mi){.op = V_KNOT, .d = p[0], .b = x});
      xg_result(e, v, 1, p);
    }
    return true;
  default:
    return false;
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr x = xg_part(e, i->a, q), y = xg_part(e, i->b, q);
    p[q] = xg_out(e, v, q);
    xg_emit(e, (mi){.op = (uint16_t)op, .vl = s.vl, .d = p[q], .a = x, .b = y});
  }
  xg_result(e, v, s.n, p);
  return true;
}

/* ---- any ------------------------------------------------------------------------------------- */
static vr wide_mask(sel *e, lv v, unsigned q, const shp *s) { /* lanes of part q, in 64 bits each, without AVX-512 */
  shp m = xg_shape(e, li(e->f, v)->type);
  unsigned at = q * s->per;
  vr d = xg_new(e, RV, s->vl);
  xg_emit(e, (mi){.op = V_SXDQ,
                  .vl = s->vl,
                  .d = d,
                  .b = xg_sub(e, xg_part(e, v, at / m.per), m.vl, at % m.per * 4, s->per * 4)});
  return d;
}
sop xg_extreme(const lfunc *f, const linst *i) {
  const linst *c = i->kind == L_OP && i->op == OP_SEL ? li(f, i->a) : NULL;
  if (!c || c->kind != L_OP || (c->op != OP_GT && c->op != OP_LT) || c->a != i->b || c->b != i->c ||
      (i->type.elem != ET_F32 && i->type.elem != ET_F64))
    return OP_NONE;
  return c->op == OP_GT ? OP_MAX : OP_MIN;
}
static bool select_op(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, i->type);
  vr p[PARTS];
  sop extreme = xg_extreme(e->f, i);
  bool one = s.lanes == 1, d = s.bytes == 8;
  if (extreme) {
    binary(e, v, &s, extreme == OP_MAX ? OF(MAX) : OF(MIN), i->b, i->c, false);
    return true;
  }
  if (s.cls == RG) {
    vr yes = xg_gpr(e, i->b), no = xg_gpr(e, i->c), r = xg_new(e, RG, 0);
    unsigned cc = xg_condition(e, i->a);
    xg_emit(e, (mi){.op = G_CMOV, .cc = (uint8_t)cc, .d = r, .a = no, .b = yes});
    xg_result(e, v, 1, &r);
    if (i->type.elem == ET_I64 || i->type.ptr) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
    return true;
  }
  if (s.cls == RK) {
    vr c = xg_part(e, i->a, 0), x = xg_part(e, i->b, 0), y = xg_part(e, i->c, 0), t = xg_new(e, RK, 0),
       f = xg_new(e, RK, 0);
    xg_emit(e, (mi){.op = V_KAND, .d = t, .a = c, .b = x});
    xg_emit(e, (mi){.op = V_KANDN, .d = f, .a = c, .b = y});
    p[0] = xg_out(e, v, 0);
    xg_emit(e, (mi){.op = V_KOR, .d = p[0], .a = t, .b = f});
    xg_result(e, v, 1, p);
    return true;
  }
  if (!e->avx512 && s.bytes < 4 && s.lanes > 1) return false;
  vr mask = 0;
  if (s.lanes == 1) {
    if (e->avx512)
      mask = xg_scalar_mask(e, xg_gpr(e, i->a));
    else {
      mask = xg_new(e, RV, 0);
      xg_emit(e, (mi){.op = s.bytes == 8 ? V_MOVQ : V_MOVD, .d = mask, .b = xg_g1(e, G_NEG, xg_gpr(e, i->a))});
    }
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr m = mask                         ? mask
           : s.bytes == 8 && !e->avx512 ? wide_mask(e, i->a, q, &s)
                                        : xg_mask(e, i->a, q, s.per),
       yes = xg_part(e, i->b, q), no = xg_part(e, i->c, q);
    blend_to(e, &s, p[q] = xg_out(e, v, q), m, yes, no);
  }
  xg_result(e, v, s.n, p);
  return true;
}
void xg_op(sel *e, lv v, const linst *i) {
  const lv rounded = xg_rounded(e, i); /* read instead of the rounding, which is not made */
  lv x[3] = {rounded ? rounded : i->a, i->b, i->c};
  etype from = (etype)li(e->f, i->a)->type.elem;
  bool known, scalar1 = li(e->f, i->a)->type.lanes == 1;
  xg_begin(e, v, x, 3);
  if (i->op == OP_CAST || i->op == OP_BITCAST) {
    xg_cast(e, v, i);
    return;
  }
  if (i->op == OP_SEL)
    known = select_op(e, v, i);
  else if (et_kind(from) == K_FLOAT)
    known = (from == ET_F32 || from == ET_F64) && float_op(e, v, i, from);
  else if (scalar1)
    known = xg_scalar_int(e, v, i, from);
  else
    known = from == ET_BOOL ? vector_bool(e, v, i) : vector_int(e, v, i, from);
  if (!known) xg_refuse(e, op_name((sop)i->op));
  e->at = e->cur;
}
