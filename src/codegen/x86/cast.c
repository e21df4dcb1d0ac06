/* Which instructions do conversions become? Vectors change the number of their parts with the width of their
 * elements. */
#include "codegen/x86/build.h"
#include <math.h>
#include <string.h>

static vr v1(sel *e, unsigned op, unsigned vl, vr b) {
  vr d = xg_new(e, RV, vl);
  xg_emit(e, (mi){.op = (uint16_t)op, .vl = (uint8_t)vl, .d = d, .b = b});
  return d;
}
/* An instruction that narrows; it is encoded as a store of a. */
static vr st1(sel *e, unsigned op, unsigned vl, vr a, int64_t imm) {
  vr d = xg_new(e, RV, 0);
  xg_emit(e, (mi){.op = (uint16_t)op, .vl = (uint8_t)vl, .d = d, .a = a, .imm = imm});
  return d;
}
static unsigned parts_of(sel *e, unsigned lanes, unsigned bytes, unsigned *per, unsigned *vl) {
  unsigned all = lanes * bytes, n = all > e->vb ? all / e->vb : 1;
  if (n > PARTS) {
    xg_refuse(e, "vectors of more than eight registers");
    n = 1;
  }
  *per = lanes / n;
  all = *per * bytes;
  *vl = all <= 16 ? VL128 : all <= 32 ? VL256 : VL512;
  return n;
}
/* Elements of fb bytes made wider, in their parts. op: what does it for a part. */
static unsigned wider(sel *e, vr *p, unsigned lanes, unsigned fb, unsigned tb, unsigned op) {
  unsigned ps, pd, vs, vd;
  vr r[PARTS];
  parts_of(e, lanes, fb, &ps, &vs);
  unsigned n = parts_of(e, lanes, tb, &pd, &vd);
  for (unsigned q = 0; q < n; q++) {
    unsigned at = q * pd;
    r[q] = v1(e, op, vd, xg_sub(e, p[at / ps], vs, at % ps * fb, pd * fb));
  }
  memcpy(p, r, n * sizeof *p);
  return n;
}
static unsigned narrower(sel *e, vr *p, unsigned lanes, unsigned fb, unsigned tb, unsigned op, bool rm, int64_t imm) {
  unsigned ps, pd, vs, vd;
  unsigned ns = parts_of(e, lanes, fb, &ps, &vs), nd = parts_of(e, lanes, tb, &pd, &vd);
  for (unsigned q = 0; q < ns; q++) {
    p[q] = rm ? st1(e, op, vs, p[q], imm) : v1(e, op, vs, p[q]);
    e->x->v.v[p[q]].vl = (uint8_t)(ps * tb <= 16 ? VL128 : VL256);
  }
  for (unsigned q = 0; q < nd; q++) p[q] = xg_join(e, p + q * (ns / nd), ns / nd, ps * tb);
  return nd;
}
/* The same without AVX-512, of integers of fb bytes, 2 or 4. cut: their upper bits go; else they are in the range of
 * the result, unsigned if u. */
static unsigned packed(sel *e, vr *p, unsigned lanes, unsigned fb, unsigned tb, bool cut, bool u) {
  unsigned ps, pd, vs, vd;
  const unsigned ns = parts_of(e, lanes, fb, &ps, &vs), nd = parts_of(e, lanes, tb, &pd, &vd);
  for (unsigned q = 0; q < ns; q++) {
    vr x = p[q];
    if (cut) {
      x = xg_new(e, RV, vs);
      xg_emit(e, (mi){.op = V_PANDD,
                      .vl = (uint8_t)vs,
                      .d = x,
                      .a = p[q],
                      .b = xg_splat_bits(e, tb == 1 ? UINT8_MAX : UINT16_MAX, fb, vs)});
    }
    vr high = vs == VL256 ? xg_sub(e, x, vs, 16, 16) : x, low = vs == VL256 ? xg_sub(e, x, vs, 0, 16) : x;
    for (unsigned b = fb; b > tb; b /= 2, low = high = x) {
      const bool positive = cut || (u && b / 2 == tb); /* between them all values fit i16 */
      x = xg_new(e, RV, VL128);
      xg_emit(e, (mi){.op = b == 4     ? (positive ? V_PACKUSDW : V_PACKSSDW)
                            : positive ? V_PACKUSWB
                                       : V_PACKSSWB,
                      .d = x,
                      .a = low,
                      .b = high});
    }
    p[q] = x;
  }
  for (unsigned q = 0; q < nd; q++) p[q] = xg_join(e, p + q * (ns / nd), ns / nd, ps * tb);
  return nd;
}
static unsigned ints(sel *e, vr *p, unsigned lanes, unsigned n, unsigned fb, unsigned tb, bool u) {
  static const uint16_t zx[9][9] = {
      [1] = {[2] = V_ZXBW, [4] = V_ZXBD, [8] = V_ZXBQ}, [2] = {[4] = V_ZXWD, [8] = V_ZXWQ}, [4] = {[8] = V_ZXDQ}};
  static const uint16_t sx[9][9] = {
      [1] = {[2] = V_SXBW, [4] = V_SXBD, [8] = V_SXBQ}, [2] = {[4] = V_SXWD, [8] = V_SXWQ}, [4] = {[8] = V_SXDQ}};
  static const uint16_t cut[9][9] = {
      [8] = {[4] = V_MOVQD, [2] = V_MOVQW, [1] = V_MOVQB}, [4] = {[2] = V_MOVDW, [1] = V_MOVDB}, [2] = {[1] = V_MOVWB}};
  if (fb < tb) return wider(e, p, lanes, fb, tb, (u ? zx : sx)[fb][tb]);
  if (!e->avx512 && fb > tb && fb <= 4) return packed(e, p, lanes, fb, tb, true, true);
  if (fb > tb && fb == 8 && tb < 4) n = narrower(e, p, lanes, 8, 4, V_MOVQD, true, 0), fb = 4;
  if (fb > tb) return narrower(e, p, lanes, fb, tb, cut[fb][tb], true, 0);
  return n;
}
static vr mask_of(sel *e, unsigned bytes, unsigned vl, unsigned pred, vr a, vr b) {
  vr k = xg_new(e, RK, 0);
  xg_emit(e, (mi){.op = bytes == 8 ? V_CMPPDK : V_CMPPSK, .vl = (uint8_t)vl, .d = k, .a = a, .b = b, .imm = pred});
  return k;
}
static uint64_t bits_of(unsigned bytes, double x) {
  uint64_t b = 0;
  et_store(bytes == 8 ? ET_F64 : ET_F32, &b, (scalar){.f = x});
  return b;
}
/* x where its magnitude is less than `below`, else 0. */
static vr within(sel *e, unsigned bytes, unsigned vl, vr x, double below) {
  vr m = xg_new(e, RV, vl), d = xg_new(e, RV, vl);
  uint64_t sign = bytes == 8 ? 1ull << 63 : 1u << 31;
  xg_emit(e, (mi){.op = V_ANDPS, .vl = (uint8_t)vl, .d = m, .a = x, .b = xg_splat_bits(e, sign - 1, bytes, vl)});
  if (!e->avx512) { /* a mask without AVX-512 has all bits set in active lanes, so AND applies it */
    vr k = xg_new(e, RV, vl);
    xg_emit(e, (mi){.op = bytes == 8 ? V_CMPPDV : V_CMPPSV,
                    .vl = (uint8_t)vl,
                    .d = k,
                    .a = m,
                    .b = xg_splat_bits(e, bits_of(bytes, below), bytes, vl),
                    .imm = 0x11});
    xg_emit(e, (mi){.op = V_ANDPS, .vl = (uint8_t)vl, .d = d, .a = x, .b = k});
    return d;
  }
  vr k = mask_of(e, bytes, vl, 0x11, m, xg_splat_bits(e, bits_of(bytes, below), bytes, vl));
  xg_emit(e,
          (mi){.op = bytes == 8 ? V_BLENDMQ : V_BLENDMD, .vl = (uint8_t)vl, .d = d, .k = k, .a = xg_zero(e), .b = x});
  return d;
}
/* Is it NaN, or between -2^31 and 2^31 as it is the least of a constant and the greatest of another one? */
static bool clamped(const lfunc *f, lv v) {
  bool bound[2] = {false};
  for (unsigned n = 0; n < 2; n++) {
    const linst *i = li(f, v);
    scalar k;
    if (i->kind != L_OP || (i->op != OP_MIN && i->op != OP_MAX)) return false;
    const bool second = loop_const(f, i->b, &k);
    if ((!second && !loop_const(f, i->a, &k)) || !(k.f >= -0x1p31 && k.f < 0x1p31)) return false;
    bound[i->op == OP_MAX] = true;
    v = second ? i->a : i->b;
  }
  return bound[0] && bound[1];
}
/* The lower 32 bits of x as a whole number. Without `clamped`, a multiple of 2^32 is taken off first, which leaves at
 * most 2^31 of either sign and is exact; 2^31 becomes -2^31, which has the same bits. NaN, and what does not fit into
 * 64 bits, gives 0. */
static vr low_bits(sel *e, unsigned vl, vr x, bool in_range) {
  if (!in_range) {
    const vr in = within(e, 4, vl, x, 0x1p63), part = xg_new(e, RV, vl), times = xg_new(e, RV, vl);
    xg_emit(
        e,
        (mi){.op = V_MULPS, .vl = (uint8_t)vl, .d = part, .a = in, .b = xg_splat_bits(e, bits_of(4, 0x1p-32), 4, vl)});
    xg_emit(e, (mi){.op = V_RNDPS, .vl = (uint8_t)vl, .d = times, .b = part, .imm = 8});
    x = xg_new(e, RV, vl);
    xg_emit(e, (mi){.op = V_FNMAPS,
                    .vl = (uint8_t)vl,
                    .d = x,
                    .a = times,
                    .b = xg_splat_bits(e, bits_of(4, 0x1p32), 4, vl),
                    .c = in});
    return v1(e, V_TPS2DQ, vl, x);
  }
  if (e->avx512) {
    const vr k = mask_of(e, 4, vl, 7, x, x), d = xg_new(e, RV, vl);
    xg_emit(e, (mi){.op = V_TPS2DQ, .vl = (uint8_t)vl, .d = d, .b = x, .k = k, .flags = F_ZERO});
    return d;
  }
  const vr k = xg_new(e, RV, vl), d = xg_new(e, RV, vl);
  xg_emit(e, (mi){.op = V_CMPPSV, .vl = (uint8_t)vl, .d = k, .a = x, .b = x, .imm = 7});
  xg_emit(e, (mi){.op = V_ANDPS, .vl = (uint8_t)vl, .d = d, .a = x, .b = k});
  return v1(e, V_TPS2DQ, vl, d);
}
static void scalar_cast(sel *e, lv v, etype to, etype from, lv a) {
  bool ff = et_kind(from) == K_FLOAT, tf = et_kind(to) == K_FLOAT, f64 = from == ET_F64, t64 = to == ET_F64;
  vr r = xg_new(e, tf ? RV : RG, 0), x;
  if (from == ET_F16 && to == ET_F32) {
    vr m = xg_new(e, RV, 0);
    xg_emit(e, (mi){.op = V_MOVD, .d = m, .b = xg_gpr(e, a)});
    xg_emit(e, (mi){.op = V_PH2PS, .d = r, .b = m});
  } else if (from == ET_F32 && (to == ET_F16 || to == ET_BF16)) {
    r = xg_new(e, RG, 0);
    x = xg_part(e, a, 0);
    vr g = xg_new(e, RG, 0), h = to == ET_F16 ? st1(e, V_PS2PH, 0, x, 4) : v1(e, V_PS2BF, 0, x);
    xg_emit(e, (mi){.op = V_MOVDG, .d = g, .a = h});
    xg_emit(e, (mi){.op = G_ZX16, .d = r, .b = g});
  } else if ((ff && from != ET_F32 && from != ET_F64) || (tf && to != ET_F32 && to != ET_F64)) {
    xg_refuse(e, "a conversion of narrow floats");
    return;
  } else if (ff && tf) {
    x = xg_part(e, a, 0);
    xg_emit(e, (mi){.op = t64 ? V_SS2SD : V_SD2SS, .d = r, .a = x, .b = x});
  } else if (tf) {
    x = xg_gpr(e, a);
    vr z = xg_zero(e);
    if (from == ET_U64) { /* where the top bit is set: half of it, the lost bit kept for rounding, twice */
      vr half = xg_gop(e, G_OR, xg_gopi(e, G_SHR, x, 1), xg_gopi(e, G_AND, x, 1)), f = xg_new(e, RV, 0),
         twice = xg_new(e, RV, 0);
      vr times = xg_gopi(e, G_ADD, xg_gopi(e, G_SHR, x, 63), 1);
      xg_emit(e, (mi){.op = t64 ? V_SI2SD : V_SI2SS, .d = f, .a = z, .b = xg_choose(e, x, 0, CC_L, half, x)});
      xg_emit(e, (mi){.op = t64 ? V_SI2SD : V_SI2SS, .d = twice, .a = z, .b = times});
      xg_emit(e, (mi){.op = t64 ? V_MULSD : V_MULSS, .d = r, .a = f, .b = twice});
    } else
      xg_emit(e, (mi){.op = t64 ? V_SI2SD : V_SI2SS, .d = r, .a = z, .b = x});
  } else if (ff && to == ET_BOOL) {
    vr g = xg_new(e, RG, 0), z = xg_zero(e);
    x = xg_part(e, a, 0);
    if (e->avx512)
      xg_emit(e, (mi){.op = V_KMOVQG, .d = g, .b = mask_of(e, f64 ? 8 : 4, 0, 4, x, z)});
    else {
      vr k = xg_new(e, RV, 0);
      xg_emit(e, (mi){.op = f64 ? V_CMPPDV : V_CMPPSV, .d = k, .a = x, .b = z, .imm = 4});
      xg_emit(e, (mi){.op = V_MOVDG, .d = g, .a = k});
    }
    xg_emit(e, (mi){.op = G_AND, .d = r, .a = g, .imm = 1});
  } else if (ff) {
    x = xg_part(e, a, 0);
    vr in = within(e, f64 ? 8 : 4, 0, x, to == ET_I64 || to == ET_U64 ? INFINITY : 0x1p63);
    xg_emit(e, (mi){.op = f64 ? V_TSD2SI : V_TSS2SI, .d = r, .b = in});
    if (to == ET_U64) { /* 2^63 .. 2^64: less 2^63, which is negative for all others */
      vr rest = xg_new(e, RV, 0), up = xg_new(e, RG, 0);
      xg_emit(e, (mi){.op = f64 ? V_SUBSD : V_SUBSS,
                      .d = rest,
                      .a = x,
                      .b = xg_splat_bits(e, bits_of(f64 ? 8 : 4, 0x1p63), f64 ? 8 : 4, 0)});
      xg_emit(e, (mi){.op = f64 ? V_TSD2SI : V_TSS2SI, .d = up, .b = rest});
      r = xg_choose(e, up, 0, CC_GE, xg_gop(e, G_EOR, up, xg_imm(e, INT64_MIN)), r);
    }
  } else if (to == ET_BOOL) {
    x = xg_gpr(e, a);
    xg_emit(e, (mi){.op = G_TEST, .a = x, .b = x});
    xg_emit(e, (mi){.op = G_SETCC, .cc = CC_NE, .d = r});
  } else {
    xg_emit(e, (mi){.op = G_MOV, .d = r, .b = xg_gpr(e, a)});
  }
  if (!tf && to != ET_BOOL && et_bits(to) < 64) {
    vr w = xg_new(e, RG, 0);
    bool u = et_kind(to) != K_INT;
    xg_emit(e, (mi){.op = et_bits(to) == 32   ? (u ? G_ZX32 : G_SX32)
                          : et_bits(to) == 16 ? (u ? G_ZX16 : G_SX16)
                          : u                 ? G_ZX8
                                              : G_SX8,
                    .d = w,
                    .b = r});
    r = w;
  }
  xg_result(e, v, 1, &r);
  if (to == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
}
static void bit_cast(sel *e, lv v, const linst *i, etype to, etype from) {
  shp s = xg_shape(e, li(e->f, i->a)->type), d = xg_shape(e, i->type);
  vr p[PARTS], r;
  if (s.cls == RV && d.cls == RV && s.bytes == d.bytes && from != ET_BOOL && to != ET_BOOL) {
    for (unsigned q = 0; q < s.n; q++) p[q] = xg_part(e, i->a, q);
    xg_result(e, v, s.n, p);
    return;
  }
  if (s.lanes > 1 || (s.bytes != d.bytes)) {
    xg_refuse(e, "a bitcast of bools");
    return;
  }
  r = xg_new(e, d.cls, 0);
  if (s.cls == RV)
    xg_emit(e, (mi){.op = s.bytes == 8 ? V_MOVQG : V_MOVDG, .d = r, .a = xg_part(e, i->a, 0)});
  else if (d.cls == RV)
    xg_emit(e, (mi){.op = s.bytes == 8 ? V_MOVQ : V_MOVD, .d = r, .b = xg_gpr(e, i->a)});
  else
    xg_emit(e, (mi){.op = G_MOV, .d = r, .b = xg_gpr(e, i->a)});
  if (to == ET_BOOL) {
    xg_refuse(e, "a bitcast of bools");
    return;
  }
  if (d.cls == RG && et_bits(to) < 64) {
    vr w = xg_new(e, RG, 0);
    bool u = et_kind(to) != K_INT;
    unsigned bits = 8 * d.bytes;
    xg_emit(e, (mi){.op = bits == 32   ? (u ? G_ZX32 : G_SX32)
                          : bits == 16 ? (u ? G_ZX16 : G_SX16)
                          : u          ? G_ZX8
                                       : G_SX8,
                    .d = w,
                    .b = r});
    r = w;
  }
  xg_result(e, v, 1, &r);
  if (to == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(r);
}
static void from_bools(sel *e, lv v, const linst *i, const shp *d) {
  vr p[PARTS];
  uint64_t one = d->fp ? bits_of(d->bytes, 1) : 1;
  static const uint16_t op[] = {[1] = V_BLENDMB, [2] = V_BLENDMW, [4] = V_BLENDMD, [8] = V_BLENDMQ};
  for (unsigned q = 0; q < d->n; q++) {
    vr k = xg_splat_bits(e, one, d->bytes, d->vl), m = xg_mask(e, i->a, q, d->per);
    p[q] = xg_new(e, RV, d->vl);
    if (e->avx512)
      xg_emit(e, (mi){.op = op[d->bytes], .vl = d->vl, .d = p[q], .k = m, .a = xg_zero(e), .b = k});
    else if (d->bytes == 4)
      xg_emit(e, (mi){.op = V_PANDD, .vl = d->vl, .d = p[q], .a = m, .b = k});
    else
      xg_refuse(e, "a conversion of bools");
  }
  xg_result(e, v, d->n, p);
}
static void to_bools(sel *e, lv v, const linst *i, const shp *s) {
  vr all = 0;
  static const uint16_t op[] = {[1] = V_CMPBK, [2] = V_CMPWK, [4] = V_CMPDK, [8] = V_CMPQK};
  if (!e->avx512) {
    xg_refuse(e, "a conversion to bools");
    return;
  }
  for (unsigned q = 0; q < s->n; q++) {
    vr x = xg_part(e, i->a, q), z = xg_zero(e), k = s->fp ? mask_of(e, s->bytes, s->vl, 4, x, z) : xg_new(e, RK, 0);
    if (!s->fp) xg_emit(e, (mi){.op = op[s->bytes], .vl = s->vl, .d = k, .a = x, .b = z, .imm = 4});
    if (all) {
      vr up = xg_new(e, RK, 0), both = xg_new(e, RK, 0);
      xg_emit(e, (mi){.op = V_KSHL, .d = up, .b = k, .imm = q * s->per});
      xg_emit(e, (mi){.op = V_KOR, .d = both, .a = all, .b = up});
      k = both;
    }
    all = k;
  }
  xg_result(e, v, 1, &all);
}
/* Is it a saturating conversion of a vector of f32 to 8 or 16 bits, by instructions that saturate? */
static bool packs(const sel *e, const linst *i) {
  const ltype from = li(e->f, i->a)->type;
  const unsigned bits = et_bits((etype)i->type.elem);
  return i->kind == L_OP && i->op == OP_SAT && from.elem == ET_F32 && from.lanes > 1 && (bits == 8 || bits == 16) &&
         et_kind((etype)i->type.elem) != K_FLOAT && i->type.elem != ET_BOOL;
}
lv xg_rounded(const sel *e, const linst *i) {
  if (i->kind != L_OP || i->op != OP_SAT || !packs(e, i)) return 0;
  const linst *x = li(e->f, i->a);
  return x->kind == L_OP && x->op == OP_ROUND_EVEN ? x->a : 0;
}
/* What is too large for 32 bits becomes 2^31: the largest unsigned number that there is, so that the conversion to
 * fewer bits clamps it, and the least signed one. NaN gives 0. */
static void pack_saturated(sel *e, lv v, const linst *i) {
  const etype to = (etype)i->type.elem;
  const lv rounded = xg_rounded(e, i);
  const bool u = et_kind(to) == K_UINT, byte = et_bits(to) == 8;
  const shp s = xg_shape(e, li(e->f, i->a)->type);
  vr p[PARTS];
  for (unsigned q = 0; q < s.n; q++) {
    vr x = xg_part(e, rounded ? rounded : i->a, q), a = xg_new(e, RV, s.vl), c = a;
    const vr limit = xg_splat_bits(e, bits_of(4, u ? 0 : byte ? INT8_MAX : INT16_MAX), 4, s.vl);
    xg_emit(e, (mi){.op = u ? V_MAXPS : V_MINPS, .vl = s.vl, .d = a, .a = x, .b = limit});
    if (!u) {
      c = xg_new(e, RV, s.vl);
      xg_emit(e, (mi){.op = V_LD, .vl = s.vl, .d = c, .b = a, .k = mask_of(e, 4, s.vl, 7, x, x), .flags = F_ZERO});
    }
    p[q] = v1(e, rounded ? V_PS2DQ : V_TPS2DQ, s.vl, c);
  }
  const unsigned op = u ? (byte ? V_MOVUSDB : V_MOVUSDW) : byte ? V_MOVSDB : V_MOVSDW;
  xg_result(e, v, narrower(e, p, i->type.lanes, 4, et_bytes(to), op, true, 0), p);
}
/* The same without AVX-512. */
static void pack_clamped(sel *e, lv v, const linst *i) {
  const etype to = (etype)i->type.elem;
  const lv rounded = xg_rounded(e, i);
  const bool u = et_kind(to) == K_UINT;
  const shp s = xg_shape(e, li(e->f, i->a)->type);
  const double above = ldexp(1, (int)et_bits(to) - !u);
  const vr least = xg_splat_bits(e, bits_of(4, u ? 0 : -above), 4, s.vl),
           most = xg_splat_bits(e, bits_of(4, above - 1), 4, s.vl);
  vr p[PARTS];
  for (unsigned q = 0; q < s.n; q++) {
    const vr x = xg_part(e, rounded ? rounded : i->a, q), a = xg_new(e, RV, s.vl), b = xg_new(e, RV, s.vl);
    vr c = b;
    xg_emit(e, (mi){.op = V_MAXPS, .vl = s.vl, .d = a, .a = x, .b = least});
    xg_emit(e, (mi){.op = V_MINPS, .vl = s.vl, .d = b, .a = a, .b = most});
    if (!u) { /* all ones where x is a number */
      const vr k = xg_new(e, RV, s.vl);
      xg_emit(e, (mi){.op = V_CMPPSV, .vl = s.vl, .d = k, .a = x, .b = x, .imm = 7});
      xg_emit(e, (mi){.op = V_ANDPS, .vl = s.vl, .d = c = xg_new(e, RV, s.vl), .a = b, .b = k});
    }
    p[q] = v1(e, rounded ? V_PS2DQ : V_TPS2DQ, s.vl, c);
  }
  xg_result(e, v, packed(e, p, i->type.lanes, 4, et_bytes(to), false, u), p);
}
/* Clamps to the range of `to`, then converts; NaN gives 0. As codegen/llvm/op.c does it. */
void xg_saturate(sel *e, lv v, const linst *i) {
  ltype ty = li(e->f, i->a)->type;
  etype to = (etype)i->type.elem;
  shp s = xg_shape(e, ty);
  bool u = et_kind(to) != K_INT, one = ty.lanes == 1;
  unsigned bits = et_bits(to), mant = s.bytes == 8 ? 53 : 24, lanes = ty.lanes, n = s.n;
  double above = ldexp(1, (int)bits - !u), lo = u ? 0 : -above;
  bool exact = bits - !u <= mant, d = s.bytes == 8;
  double hi = exact ? above - 1 : above - ldexp(1, (int)(bits - !u) - (int)mant);
  vr p[PARTS], over[PARTS];
  e->into[v] = 0;
  if (packs(e, i)) {
    (e->avx512 ? pack_saturated : pack_clamped)(e, v, i);
    return;
  }
  if ((!exact && !e->avx512) || (one && bits == 64 && !e->avx512)) {
    xg_refuse(e, "a saturating conversion");
    return;
  }
  for (unsigned q = 0; q < n; q++) {
    vr x = xg_part(e, i->a, q), a = xg_new(e, RV, s.vl), b = xg_new(e, RV, s.vl), c = b;
    xg_emit(e, (mi){.op = d ? V_MAXPD : V_MAXPS,
                    .vl = s.vl,
                    .d = a,
                    .a = x,
                    .b = xg_splat_bits(e, bits_of(s.bytes, lo), s.bytes, s.vl)});
    xg_emit(e, (mi){.op = d ? V_MINPD : V_MINPS,
                    .vl = s.vl,
                    .d = b,
                    .a = a,
                    .b = xg_splat_bits(e, bits_of(s.bytes, hi), s.bytes, s.vl)});
    if (!u) { /* all ones where x is a number */
      c = xg_new(e, RV, s.vl);
      if (e->avx512)
        xg_emit(e,
                (mi){.op = V_LD, .vl = s.vl, .d = c, .b = b, .k = mask_of(e, s.bytes, s.vl, 7, x, x), .flags = F_ZERO});
      else {
        vr k = xg_new(e, RV, s.vl);
        xg_emit(e, (mi){.op = d ? V_CMPPDV : V_CMPPSV, .vl = s.vl, .d = k, .a = x, .b = x, .imm = 7});
        xg_emit(e, (mi){.op = V_ANDPS, .vl = s.vl, .d = c, .a = b, .b = k});
      }
      if (e->avx512 && d) e->r[e->at]->code.v[e->r[e->at]->code.n - 1].op = V_LDD;
    }
    if (!exact) over[q] = mask_of(e, s.bytes, s.vl, 0x1D, x, xg_splat_bits(e, bits_of(s.bytes, above), s.bytes, s.vl));
    p[q] = c;
  }
  unsigned wide = bits < 32 ? 4 : bits / 8;
  bool uw = u && bits >= 32;
  unsigned op = wide == 4 ? (d    ? (uw ? V_TPD2UDQ : V_TPD2DQ)
                             : uw ? V_TPS2UDQ
                                  : V_TPS2DQ)
                : d       ? (uw ? V_TPD2UQQ : V_TPD2QQ)
                : uw      ? V_TPS2UQQ
                          : V_TPS2QQ;
  if (s.bytes == wide)
    for (unsigned q = 0; q < n; q++) p[q] = v1(e, op, s.vl, p[q]);
  else
    n = s.bytes < wide ? wider(e, p, lanes, s.bytes, wide, op) : narrower(e, p, lanes, s.bytes, wide, op, false, 0);
  if (wide * 8 > bits && !one) n = ints(e, p, lanes, n, wide, bits / 8, false);
  if (!exact) { /* the largest where x is too large: masks of the lanes of the result's parts */
    if (s.bytes != wide && !one) {
      xg_refuse(e, "a saturating conversion to wider whole numbers");
      return;
    }
    unsigned vl = s.bytes < wide && one ? VL128 : s.vl;
    for (unsigned q = 0; q < n; q++) {
      vr r = xg_new(e, RV, vl);
      xg_emit(e, (mi){.op = wide == 8 ? V_BLENDMQ : V_BLENDMD,
                      .vl = (uint8_t)vl,
                      .d = r,
                      .k = over[q],
                      .a = p[q],
                      .b = xg_splat_bits(e, u ? UINT64_MAX : UINT64_MAX >> (65 - bits), wide, vl)});
      p[q] = r;
    }
  }
  if (one) {
    vr g = xg_new(e, RG, 0), w = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = wide == 8 ? V_MOVQG : V_MOVDG, .d = g, .a = p[0]});
    xg_emit(e, (mi){.op = bits == 64   ? G_MOV
                          : bits == 32 ? (u ? G_ZX32 : G_SX32)
                          : bits == 16 ? (u ? G_ZX16 : G_SX16)
                          : u          ? G_ZX8
                                       : G_SX8,
                    .d = w,
                    .b = g});
    p[0] = w, n = 1;
  }
  xg_result(e, v, n, p);
  if (one && to == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(p[0]);
}
void xg_cast(sel *e, lv v, const linst *i) {
  ltype ty = li(e->f, i->a)->type;
  etype to = (etype)i->type.elem, from = (etype)ty.elem;
  shp s = xg_shape(e, ty), d = xg_shape(e, i->type);
  e->into[v] = 0;
  if (i->op == OP_BITCAST) {
    bit_cast(e, v, i, to, from);
    return;
  }
  if (to == from && s.cls == RV) {
    bit_cast(e, v, i, to, from);
    return;
  }
  if (ty.lanes == 1) {
    scalar_cast(e, v, to, from, i->a);
    return;
  }
  if (from == ET_BOOL || to == ET_BOOL) {
    if (from == ET_BOOL)
      from_bools(e, v, i, &d);
    else
      to_bools(e, v, i, &s);
    return;
  }
  vr p[PARTS];
  unsigned n = s.n, lanes = ty.lanes;
  bool ff = et_kind(from) == K_FLOAT, tf = et_kind(to) == K_FLOAT, u = et_kind(from) == K_UINT,
       half = from == ET_F16 || to == ET_F16 || to == ET_BF16;
  if ((half && from != ET_F32 && to != ET_F32) || (!half && ((ff && !s.fp) || (tf && !d.fp))) || to == ET_U64) {
    xg_refuse(e, "this conversion");
    return;
  }
  for (unsigned q = 0; q < n; q++) p[q] = xg_part(e, i->a, q);
  if (from == ET_F16)
    n = wider(e, p, lanes, 2, 4, V_PH2PS);
  else if (to == ET_F16)
    n = narrower(e, p, lanes, 4, 2, V_PS2PH, true, 4);
  else if (to == ET_BF16)
    n = narrower(e, p, lanes, 4, 2, V_PS2BF, false, 0);
  else if (ff && tf)
    n = to == ET_F64 ? wider(e, p, lanes, 4, 8, V_PS2PD) : narrower(e, p, lanes, 8, 4, V_PD2PS, false, 0);
  else if (tf) {
    if (s.bytes < 4) n = ints(e, p, lanes, n, s.bytes, 4, u), u = false, s.bytes = 4;
    if (s.bytes == d.bytes) {
      unsigned op = d.bytes == 4 ? (u ? V_UDQ2PS : V_DQ2PS) : u ? V_UQQ2PD : V_QQ2PD;
      for (unsigned q = 0; q < n; q++) p[q] = v1(e, op, d.vl, p[q]);
    } else if (s.bytes == 4)
      n = wider(e, p, lanes, 4, 8, u ? V_UDQ2PD : V_DQ2PD);
    else
      n = narrower(e, p, lanes, 8, 4, u ? V_UQQ2PS : V_QQ2PS, false, 0);
  } else if (ff && s.bytes == 4 && d.bytes <= 4) {
    const bool in_range = clamped(e->f, i->a);
    for (unsigned q = 0; q < n; q++) p[q] = low_bits(e, s.vl, p[q], in_range);
    n = ints(e, p, lanes, n, 4, d.bytes, false);
  } else if (ff) {
    for (unsigned q = 0; q < n; q++) p[q] = within(e, s.bytes, s.vl, p[q], to == ET_I64 ? INFINITY : 0x1p63);
    if (s.bytes == 4)
      n = wider(e, p, lanes, 4, 8, V_TPS2QQ);
    else
      for (unsigned q = 0; q < n; q++) p[q] = v1(e, V_TPD2QQ, s.vl, p[q]);
    n = ints(e, p, lanes, n, 8, d.bytes, false);
  } else
    n = ints(e, p, lanes, n, s.bytes, d.bytes, u);
  if (EK_PLANTED("x86-cast")) p[0] = xg_zero(e);
  xg_result(e, v, n, p);
}
