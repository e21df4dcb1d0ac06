/* Which LLVM instruction does each scalar operation become? What is not here was replaced by loop_expand
 * (llvm_native says which is which).
 *
 * Semantics kept by hand: min/max with NaN winning, integer division by zero and overflow, shift counts outside
 * the width, float to integer out of range; LLVM leaves these undefined.
 */
#include "codegen/llvm/emit.h"
#include <math.h>
#include <string.h>

static bool has_rounding(const target *t) {
  return t->host || t->vector_bits >= 256 || strncmp(t->triple, "x86_64", 6) != 0;
}
static bool wide(const target *t) { return t->vector_bits == 512 && strstr(t->required, "avx512vl") != NULL; }
bool llvm_native(void *env, sop op, etype t) {
  const target *m = env;
  if (t == ET_BF16) return op == OP_CAST && wide(m) && strstr(m->required, "avx512bf16") != NULL;
  if (et_kind(t) == K_FLOAT && t != ET_F32 && t != ET_F64) return op == OP_CAST && t == ET_F16 && m->f16c;
  if (et_kind(t) == K_FLOAT) switch (op) {
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND_EVEN:
    case OP_TRUNC:
      return has_rounding(m);
    case OP_LDEXP:
      return wide(m);
    case OP_NONE:
      return t == ET_F32 && wide(m);
    case OP_IDIV:
    case OP_MOD:
    case OP_NEXTAFTER:
    case OP_SATF:
      return false;
    case OP_POW:
      return false;
    default:
      return op < OP_EXP || op > OP_ERF || op == OP_SQRT;
    }
  return et_bits(t) >= 8 && op != OP_POW && op != OP_RAND && op != OP_SAT && op != OP_SATF &&
         (et_kind(t) != K_BOOL || (op != OP_ADD && op != OP_MUL));
}

static LLVMValueRef call1(em *e, const char *name, LLVMTypeRef t, LLVMValueRef x) {
  return em_intrin(e, name, &t, 1, &x, 1);
}
static LLVMValueRef real(em *e, LLVMValueRef like, double x) {
  LLVMTypeRef t = LLVMTypeOf(like);
  bool vec = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
  return vec ? em_splat(e, LLVMConstReal(LLVMGetElementType(t), x), LLVMGetVectorSize(t)) : LLVMConstReal(t, x);
}
static LLVMTypeRef with_elem(LLVMTypeRef like, LLVMTypeRef elem) {
  return LLVMGetTypeKind(like) == LLVMVectorTypeKind ? LLVMVectorType(elem, LLVMGetVectorSize(like)) : elem;
}
static LLVMValueRef sel(em *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
  return LLVMBuildSelect(e->b, c, x, y, "");
}

/* NaN wins. One comparison and select (what the machine's max does) when an operand is known not to be NaN. */
static LLVMValueRef fminmax(em *e, bool max, LLVMValueRef x, LLVMValueRef y, bool x_plain, bool y_plain) {
  LLVMRealPredicate p = max ? LLVMRealOGT : LLVMRealOLT;
  /* written as comparisons, these come out as five instructions instead of three */
  if (!x_plain && !y_plain && !EK_PLANTED("llvm-op")) {
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef a[2] = {x, y}, r = em_intrin(e, max ? "llvm.maximum" : "llvm.minimum", &t, 1, a, 2);
    LLVMSetFastMathFlags(r, LLVMFastMathNoSignedZeros);
    return r;
  }
  if (y_plain) return sel(e, LLVMBuildFCmp(e->b, p, y, x, ""), y, x);
  return sel(e, LLVMBuildFCmp(e->b, p, x, y, ""), x, y);
}
static LLVMValueRef iminmax(em *e, bool max, etype t, LLVMValueRef x, LLVMValueRef y) {
  if (t == ET_BOOL) return max ? LLVMBuildOr(e->b, x, y, "") : LLVMBuildAnd(e->b, x, y, "");
  LLVMTypeRef ty = LLVMTypeOf(x);
  LLVMValueRef a[2] = {x, y};
  bool u = et_kind(t) == K_UINT;
  return em_intrin(e, max ? (u ? "llvm.umax" : "llvm.smax") : (u ? "llvm.umin" : "llvm.smin"), &ty, 1, a, 2);
}
/* ---- instructions of a fixed number of lanes: others are filled up, or taken in halves ------- */
static unsigned lanes_of(LLVMValueRef x) {
  /* number of lanes; 0: a scalar */
  return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind ? LLVMGetVectorSize(LLVMTypeOf(x)) : 0;
}
/* lanes from.. of x and y; those beyond `have` may be anything */
static LLVMValueRef pick_lanes(em *e, LLVMValueRef x, LLVMValueRef y, unsigned from, unsigned n, unsigned have) {
  LLVMValueRef *at = NEWN(e->a, LLVMValueRef, n);
  for (unsigned l = 0; l < n; l++) at[l] = from + l < have ? LLVMConstInt(e->i32, from + l, 0) : LLVMGetPoison(e->i32);
  return LLVMBuildShuffleVector(e->b, x, y, LLVMConstVector(at, n), "");
}
static LLVMValueRef fill_up(em *e, LLVMValueRef x, unsigned size) {
  unsigned lanes = lanes_of(x);
  if (!lanes)
    return LLVMBuildInsertElement(e->b, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), size)), x,
                                  LLVMConstInt(e->i32, 0, 0), "");
  return lanes < size ? pick_lanes(e, x, x, 0, size, lanes) : x;
}
static LLVMValueRef cut_down(em *e, LLVMValueRef x, unsigned lanes) {
  if (!lanes) return LLVMBuildExtractElement(e->b, x, LLVMConstInt(e->i32, 0, 0), "");
  return lanes < lanes_of(x) ? pick_lanes(e, x, x, 0, lanes, lanes) : x;
}
/* x * 2^floor(y) by one instruction, of 512, 256 or 128 bits */
static LLVMValueRef scalef(em *e, etype t, LLVMValueRef x, LLVMValueRef y) {
  static const char *const name[2][3] = {{"llvm.x86.avx512.mask.scalef.ps.128", "llvm.x86.avx512.mask.scalef.ps.256",
                                          "llvm.x86.avx512.mask.scalef.ps.512"},
                                         {"llvm.x86.avx512.mask.scalef.pd.128", "llvm.x86.avx512.mask.scalef.pd.256",
                                          "llvm.x86.avx512.mask.scalef.pd.512"}};
  unsigned lanes = lanes_of(x), size = t == ET_F64 ? 2 : 4, k = 0, h = lanes / 2;
  while (size < lanes && k < 2) size *= 2, k++;
  if (lanes > size)
    return pick_lanes(e, scalef(e, t, pick_lanes(e, x, x, 0, h, lanes), pick_lanes(e, y, y, 0, h, lanes)),
                      scalef(e, t, pick_lanes(e, x, x, h, h, lanes), pick_lanes(e, y, y, h, h, lanes)), 0, lanes,
                      lanes);
  x = fill_up(e, x, size);
  /* all lanes; rounding as set */
  LLVMValueRef a[5] = {x, fill_up(e, y, size), x, LLVMConstAllOnes(size == 16 ? e->i16 : e->i8),
                       LLVMConstInt(e->i32, 4, 0)};
  return cut_down(e, em_intrin(e, name[t == ET_F64][k], NULL, 0, a, k == 2 ? 5 : 4), lanes);
}
static LLVMValueRef looked_up(em *e, bool fl, LLVMValueRef table, LLVMValueRef at) {
  unsigned lanes = lanes_of(at), h = lanes / 2, size = lanes_of(table);
  if (lanes > size)
    return pick_lanes(e, looked_up(e, fl, table, pick_lanes(e, at, at, 0, h, lanes)),
                      looked_up(e, fl, table, pick_lanes(e, at, at, h, h, lanes)), 0, lanes, lanes);
  LLVMValueRef a[2] = {table, fill_up(e, at, size)};
  return cut_down(
      e, em_intrin(e, fl ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx512.permvar.si.512", NULL, 0, a, 2), lanes);
}
LLVMValueRef em_lookup(em *e, const linst *i) {
  enum { SIZE = 16 };
  LLVMValueRef k[SIZE], at = e->val[i->a];
  unsigned lanes = i->type.lanes;
  LLVMTypeRef t = em_elem(e, (etype)i->type.elem);
  for (unsigned j = 0; j < SIZE; j++)
    k[j] = em_const(e, lt(i->type.elem, 1), et_load((etype)i->type.elem, &i->args[j % i->nargs]));
  LLVMValueRef table = LLVMConstVector(k, SIZE);
  if (!wide(e->t)) { /* targets without vectors do not ask for it */
    LLVMValueRef r = LLVMGetPoison(LLVMVectorType(t, lanes)), one = fill_up(e, at, lanes);
    for (unsigned l = 0; l < lanes; l++) {
      LLVMValueRef q = LLVMConstInt(e->i32, l, 0), x = LLVMBuildAnd(e->b, LLVMBuildExtractElement(e->b, one, q, ""),
                                                                    LLVMConstInt(e->i32, SIZE - 1, 0), "");
      r = LLVMBuildInsertElement(e->b, r, LLVMBuildExtractElement(e->b, table, x, ""), q, "");
    }
    return lanes > 1 ? r : cut_down(e, r, 0);
  }
  return looked_up(e, i->type.elem == ET_F32, table, at);
}
/* Floor division and remainder; 0 for a zero divisor. */
static LLVMValueRef idivmod(em *e, sop op, etype t, LLVMValueRef x, LLVMValueRef y, const scalar *k) {
  LLVMTypeRef ty = LLVMTypeOf(x);
  LLVMValueRef zero = em_iconst(e, ty, 0), one = em_iconst(e, ty, 1);
  bool u = et_kind(t) == K_UINT;
  if (k && k->i == 0) return zero;
  if (k && k->i == -1 && !u) return op == OP_IDIV ? LLVMBuildNeg(e->b, x, "") : zero;
  LLVMValueRef bad = NULL, d = y;
  if (!k) {
    bad = LLVMBuildICmp(e->b, LLVMIntEQ, y, zero, "");
    if (!u) bad = LLVMBuildOr(e->b, bad, LLVMBuildICmp(e->b, LLVMIntEQ, y, em_iconst(e, ty, -1), ""), "");
    d = sel(e, bad, one, y);
  }
  LLVMValueRef q = u ? LLVMBuildUDiv(e->b, x, d, "") : LLVMBuildSDiv(e->b, x, d, "");
  LLVMValueRef r = LLVMBuildSub(e->b, x, LLVMBuildMul(e->b, q, d, ""), "");
  if (!u && op != OP_FMOD) {
    LLVMValueRef off = LLVMBuildAnd(e->b, LLVMBuildICmp(e->b, LLVMIntNE, r, zero, ""),
                                    LLVMBuildICmp(e->b, LLVMIntSLT, LLVMBuildXor(e->b, r, d, ""), zero, ""), "");
    if (op == OP_IDIV)
      q = sel(e, off, LLVMBuildSub(e->b, q, one, ""), q);
    else
      r = sel(e, off, LLVMBuildAdd(e->b, r, d, ""), r);
  }
  LLVMValueRef res = op == OP_IDIV ? q : r;
  if (!bad) return res;
  LLVMValueRef other = zero; /* the result where the divisor is 0, or -1 */
  if (op == OP_IDIV && !u) other = sel(e, LLVMBuildICmp(e->b, LLVMIntEQ, y, zero, ""), zero, LLVMBuildNeg(e->b, x, ""));
  return sel(e, bad, other, res);
}
static LLVMValueRef shift(em *e, sop op, etype t, LLVMValueRef x, LLVMValueRef y, const scalar *k) {
  LLVMTypeRef ty = LLVMTypeOf(x);
  int64_t bits = et_bits(t);
  bool arith = op == OP_SHR && et_kind(t) == K_INT, ok = k && k->i >= 0 && k->i < bits;
  LLVMValueRef n = y, in = NULL;
  if (!ok) {
    in = LLVMBuildICmp(e->b, LLVMIntULT, y, em_iconst(e, ty, bits), "");
    n = sel(e, in, y, em_iconst(e, ty, arith ? bits - 1 : 0));
  }
  LLVMValueRef r = op == OP_SHL ? LLVMBuildShl(e->b, x, n, "")
                   : arith      ? LLVMBuildAShr(e->b, x, n, "")
                                : LLVMBuildLShr(e->b, x, n, "");
  return ok || arith ? r : sel(e, in, r, em_iconst(e, ty, 0));
}
/* Truncates; NaN and infinity give 0; finite values out of the range of i64 wrap to its lowest, then narrow. */
static LLVMValueRef float_to_int(em *e, etype to, etype from, LLVMValueRef x, LLVMTypeRef rt) {
  (void)from;
  LLVMTypeRef wide = with_elem(rt, e->i64);
  LLVMValueRef mag = call1(e, "llvm.fabs", LLVMTypeOf(x), x), big = real(e, x, 0x1p63);
  LLVMValueRef in = LLVMBuildFCmp(e->b, LLVMRealOLT, mag, big, "");
  if (et_bits(to) < 64)
    return LLVMBuildTrunc(e->b, LLVMBuildFPToSI(e->b, sel(e, in, x, real(e, x, 0)), wide, ""), rt, "");
  LLVMValueRef finite = LLVMBuildFCmp(e->b, LLVMRealOLT, mag, real(e, x, INFINITY), "");
  LLVMValueRef r = LLVMBuildFPToSI(e->b, sel(e, in, x, sel(e, finite, real(e, x, -0x1p63), real(e, x, 0))), wide, "");
  if (to == ET_U64) { /* 2^63 .. 2^64: less 2^63, which as an integer is the sign bit */
    LLVMValueRef up = LLVMBuildAnd(e->b, LLVMBuildFCmp(e->b, LLVMRealOGE, x, big, ""),
                                   LLVMBuildFCmp(e->b, LLVMRealOLT, x, real(e, x, 0x1p64), ""), "");
    LLVMValueRef lo = LLVMBuildFPToSI(e->b, LLVMBuildFSub(e->b, sel(e, up, x, big), big, ""), wide, "");
    r = sel(e, up, LLVMBuildXor(e->b, lo, em_iconst(e, wide, INT64_MIN), ""), r);
  }
  return r;
}
/* Clamps to the range of `to`; NaN gives 0. (LLVM's own saturating conversions go lane by lane.) */
static LLVMValueRef saturate(em *e, etype to, etype from, LLVMValueRef x, LLVMTypeRef rt) {
  unsigned bits = et_bits(to), mant = from == ET_F64 ? 53 : 24;
  bool u = et_kind(to) != K_INT;
  double above = ldexp(1, (int)bits - !u), lo = u ? 0 : -above; /* above: the least value that is too large */
  bool exact = bits - !u <= mant;                               /* above - 1 has a float of its own */
  double hi = exact ? above - 1 : above - ldexp(1, (int)(bits - !u) - (int)mant);
  LLVMValueRef vlo = real(e, x, lo), vhi = real(e, x, hi);
  LLVMValueRef c = sel(e, LLVMBuildFCmp(e->b, LLVMRealOGT, x, vlo, ""), x, vlo);
  c = sel(e, LLVMBuildFCmp(e->b, LLVMRealOLT, c, vhi, ""), c, vhi);
  if (!u) c = sel(e, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), real(e, x, 0), c);
  LLVMTypeRef wide = bits < 32 ? with_elem(rt, e->i32) : rt;
  LLVMValueRef r = u && bits >= 32 ? LLVMBuildFPToUI(e->b, c, wide, "") : LLVMBuildFPToSI(e->b, c, wide, "");
  if (wide != rt) r = LLVMBuildTrunc(e->b, r, rt, "");
  if (exact) return r;
  int64_t max = u ? -1 : bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  return sel(e, LLVMBuildFCmp(e->b, LLVMRealOGE, x, real(e, x, above), ""), em_iconst(e, rt, max), r);
}
/* f32 to bf16, subnormal numbers to 0, by one instruction, of 512 or 256 bits */
static LLVMValueRef to_bf16(em *e, LLVMValueRef x) {
  const unsigned lanes = lanes_of(x), h = lanes / 2, size = lanes > 8 ? 16 : 8;
  if (lanes > size)
    return pick_lanes(e, to_bf16(e, pick_lanes(e, x, x, 0, h, lanes)), to_bf16(e, pick_lanes(e, x, x, h, h, lanes)), 0,
                      lanes, lanes);
  LLVMValueRef a = fill_up(e, x, size), r = em_intrin(e,
                                                      size == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
                                                                 : "llvm.x86.avx512bf16.cvtneps2bf16.256",
                                                      NULL, 0, &a, 1);
  return cut_down(e, LLVMBuildBitCast(e->b, r, LLVMVectorType(e->i16, size), ""), lanes);
}
static LLVMValueRef cast(em *e, etype to, etype from, LLVMValueRef x, LLVMTypeRef rt) {
  LLVMTypeRef xt = LLVMTypeOf(x);
  bool ff = et_kind(from) == K_FLOAT, tf = et_kind(to) == K_FLOAT;
  if (to == from) return x;
  if (from == ET_F16) return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, x, with_elem(xt, e->f16), ""), rt, "");
  if (to == ET_F16) return LLVMBuildBitCast(e->b, LLVMBuildFPTrunc(e->b, x, with_elem(xt, e->f16), ""), rt, "");
  if (to == ET_BF16) return to_bf16(e, x);
  if (to == ET_BOOL)
    return ff ? LLVMBuildFCmp(e->b, LLVMRealUNE, x, real(e, x, 0), "")
              : LLVMBuildICmp(e->b, LLVMIntNE, x, em_iconst(e, xt, 0), "");
  if (ff && tf)
    return et_bits(to) > et_bits(from) ? LLVMBuildFPExt(e->b, x, rt, "") : LLVMBuildFPTrunc(e->b, x, rt, "");
  if (ff) return float_to_int(e, to, from, x, rt);
  bool u = et_kind(from) != K_INT;
  if (tf) return u ? LLVMBuildUIToFP(e->b, x, rt, "") : LLVMBuildSIToFP(e->b, x, rt, "");
  uint32_t fb = from == ET_BOOL ? 1 : et_bits(from), tb = et_bits(to);
  if (fb == tb) return x;
  if (fb > tb) return LLVMBuildTrunc(e->b, x, rt, "");
  return u ? LLVMBuildZExt(e->b, x, rt, "") : LLVMBuildSExt(e->b, x, rt, "");
}
static LLVMValueRef bitcast(em *e, etype to, etype from, LLVMValueRef x, LLVMTypeRef rt) {
  if (from == ET_BOOL) return LLVMBuildZExt(e->b, x, rt, "");
  if (to == ET_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, x, em_iconst(e, LLVMTypeOf(x), 0), "");
  return LLVMTypeOf(x) == rt ? x : LLVMBuildBitCast(e->b, x, rt, "");
}
static LLVMValueRef float_op(em *e, const linst *i, etype t, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef ty = LLVMTypeOf(x);
  scalar k;
  switch ((sop)i->op) {
  case OP_ADD:
    return LLVMBuildFAdd(b, x, y, "");
  case OP_SUB:
    return LLVMBuildFSub(b, x, y, "");
  case OP_MUL:
    return LLVMBuildFMul(b, x, y, "");
  case OP_DIV:
    return LLVMBuildFDiv(b, x, y, "");
  case OP_FMOD:
    return LLVMBuildFRem(b, x, y, "");
  case OP_NEG:
    return LLVMBuildFNeg(b, x, "");
  case OP_ABS:
    return call1(e, "llvm.fabs", ty, x);
  case OP_SQRT:
    return call1(e, "llvm.sqrt", ty, x);
  case OP_FLOOR:
    return call1(e, "llvm.floor", ty, x);
  case OP_CEIL:
    return call1(e, "llvm.ceil", ty, x);
  case OP_TRUNC:
    return call1(e, "llvm.trunc", ty, x);
  case OP_ROUND_EVEN:
    return call1(e, "llvm.roundeven", ty, x);
  case OP_SIGN: {
    LLVMValueRef one = real(e, x, 1), zero = real(e, x, 0);
    LLVMValueRef r = sel(e, LLVMBuildFCmp(b, LLVMRealOEQ, x, zero, ""), zero, x); /* NaN stays */
    r = sel(e, LLVMBuildFCmp(b, LLVMRealOGT, x, zero, ""), one, r);
    return sel(e, LLVMBuildFCmp(b, LLVMRealOLT, x, zero, ""), real(e, x, -1), r);
  }
  case OP_MIN:
  case OP_MAX: {
    bool px = loop_const(e->f, i->a, &k) && !isnan(k.f), py = loop_const(e->f, i->b, &k) && !isnan(k.f);
    return fminmax(e, i->op == OP_MAX, x, y, px, py);
  }
  case OP_FMA:
    if (e->t->fma) {
      LLVMValueRef a[3] = {x, y, z};
      return em_intrin(e, "llvm.fma", &ty, 1, a, 3);
    }
    return LLVMBuildFAdd(b, LLVMBuildFMul(b, x, y, ""), z, "");
  case OP_LDEXP:
    return scalef(e, t, x, y);
  case OP_ISNAN:
    return LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
  case OP_ISINF:
    return LLVMBuildFCmp(b, LLVMRealOEQ, call1(e, "llvm.fabs", ty, x), real(e, x, INFINITY), "");
  case OP_SIGNBIT: {
    LLVMTypeRef it = with_elem(ty, t == ET_F64 ? e->i64 : e->i32);
    return LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildBitCast(b, x, it, ""), em_iconst(e, it, 0), "");
  }
  case OP_EQ:
    return LLVMBuildFCmp(b, LLVMRealOEQ, x, y, "");
  case OP_NE:
    return LLVMBuildFCmp(b, LLVMRealUNE, x, y, "");
  case OP_LT:
    return LLVMBuildFCmp(b, LLVMRealOLT, x, y, "");
  case OP_LE:
    return LLVMBuildFCmp(b, LLVMRealOLE, x, y, "");
  case OP_GT:
    return LLVMBuildFCmp(b, LLVMRealOGT, x, y, "");
  case OP_GE:
    return LLVMBuildFCmp(b, LLVMRealOGE, x, y, "");
  case OP_SAT:
    return saturate(e, (etype)i->type.elem, t, x, em_type(e, i->type));
  default:
    ctx_bug(e->c, "llvm: operation %s of %s was not expanded", op_name((sop)i->op), et_name(t));
  }
}
static LLVMValueRef int_op(em *e, const linst *i, etype t, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef ty = LLVMTypeOf(x);
  bool u = et_kind(t) != K_INT;
  scalar kk;
  const scalar *k = i->b && loop_const(e->f, i->b, &kk) ? &kk : NULL;
  switch ((sop)i->op) {
  case OP_ADD:
    return LLVMBuildAdd(b, x, y, "");
  case OP_SUB:
    return LLVMBuildSub(b, x, y, "");
  case OP_MUL:
    return LLVMBuildMul(b, x, y, "");
  case OP_FMA:
    return LLVMBuildAdd(b, LLVMBuildMul(b, x, y, ""), z, "");
  case OP_IDIV:
  case OP_MOD:
  case OP_FMOD:
    return idivmod(e, (sop)i->op, t, x, y, k);
  case OP_NEG:
    return LLVMBuildNeg(b, x, "");
  case OP_ABS: {
    if (u) return x;
    LLVMValueRef a[2] = {x, LLVMConstInt(e->i1, 0, 0)};
    return em_intrin(e, "llvm.abs", &ty, 1, a, 2);
  }
  case OP_SIGN: {
    LLVMValueRef zero = em_iconst(e, ty, 0),
                 r = sel(e, LLVMBuildICmp(b, LLVMIntEQ, x, zero, ""), zero, em_iconst(e, ty, 1));
    return u ? r : sel(e, LLVMBuildICmp(b, LLVMIntSLT, x, zero, ""), em_iconst(e, ty, -1), r);
  }
  case OP_MIN:
  case OP_MAX:
    return iminmax(e, i->op == OP_MAX, t, x, y);
  case OP_AND:
  case OP_BAND:
    return LLVMBuildAnd(b, x, y, "");
  case OP_OR:
  case OP_BOR:
    return LLVMBuildOr(b, x, y, "");
  case OP_BXOR:
    return LLVMBuildXor(b, x, y, "");
  case OP_NOT:
  case OP_BNOT:
    return LLVMBuildNot(b, x, "");
  case OP_SHL:
  case OP_SHR:
    return shift(e, (sop)i->op, t, x, y, k);
  case OP_EQ:
    return LLVMBuildICmp(b, LLVMIntEQ, x, y, "");
  case OP_NE:
    return LLVMBuildICmp(b, LLVMIntNE, x, y, "");
  case OP_LT:
    return LLVMBuildICmp(b, u ? LLVMIntULT : LLVMIntSLT, x, y, "");
  case OP_LE:
    return LLVMBuildICmp(b, u ? LLVMIntULE : LLVMIntSLE, x, y, "");
  case OP_GT:
    return LLVMBuildICmp(b, u ? LLVMIntUGT : LLVMIntSGT, x, y, "");
  case OP_GE:
    return LLVMBuildICmp(b, u ? LLVMIntUGE : LLVMIntSGE, x, y, "");
  default:
    return NULL;
  }
}
LLVMValueRef em_op(em *e, const linst *i) {
  LLVMValueRef x = e->val[i->a], y = i->b ? e->val[i->b] : NULL, z = i->c ? e->val[i->c] : NULL, r;
  etype from = (etype)li(e->f, i->a)->type.elem, to = (etype)i->type.elem;
  switch ((sop)i->op) {
  case OP_SEL:
    return sel(e, x, y, z);
  case OP_CAST:
    return cast(e, to, from, x, em_type(e, i->type));
  case OP_BITCAST:
    return bitcast(e, to, from, x, em_type(e, i->type));
  default:
    break;
  }
  bool narrow = et_kind(from) == K_FLOAT && from != ET_F32 && from != ET_F64;
  r = narrow ? NULL : et_kind(from) == K_FLOAT ? float_op(e, i, from, x, y, z) : int_op(e, i, from, x, y, z);
  if (!r) ctx_bug(e->c, "llvm: operation %u of %s in function %s was not expanded", i->op, et_name(from), e->f->name);
  return r;
}
LLVMValueRef em_combine(em *e, rop op, etype t, LLVMValueRef x, LLVMValueRef y) {
  bool fl = et_kind(t) == K_FLOAT;
  switch (op) {
  case RED_SUM:
    return fl ? LLVMBuildFAdd(e->b, x, y, "") : LLVMBuildAdd(e->b, x, y, "");
  case RED_PROD:
    return fl ? LLVMBuildFMul(e->b, x, y, "") : LLVMBuildMul(e->b, x, y, "");
  case RED_MAX:
  case RED_MIN:
    return fl ? fminmax(e, op == RED_MAX, x, y, false, false) : iminmax(e, op == RED_MAX, t, x, y);
  case RED_ANY:
    return LLVMBuildOr(e->b, x, y, "");
  case RED_ALL:
    return LLVMBuildAnd(e->b, x, y, "");
  default:
    ctx_bug(e->c, "llvm: no horizontal reduction %u", op);
  }
}
/* Halves are combined until one lane is left; the odd lane of an odd count joins the first. */
LLVMValueRef em_hreduce(em *e, const linst *i) {
  LLVMValueRef v = e->val[i->a];
  etype t = (etype)i->type.elem;
  LLVMTypeRef vt = LLVMTypeOf(v);
  unsigned n = li(e->f, i->a)->type.lanes;
  if (t == ET_BOOL && (i->op == RED_ANY || i->op == RED_ALL))
    return call1(e, i->op == RED_ANY ? "llvm.vector.reduce.or" : "llvm.vector.reduce.and", vt, v);
  while (n > 1) {
    unsigned h = n / 2;
    LLVMValueRef *lo = NEWN(e->a, LLVMValueRef, h), *hi = NEWN(e->a, LLVMValueRef, h), last = NULL;
    if (n & 1 && !EK_PLANTED("llvm-across"))
      last = LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, n - 1, 0), "");
    for (unsigned l = 0; l < h; l++) lo[l] = LLVMConstInt(e->i32, l, 0), hi[l] = LLVMConstInt(e->i32, l + h, 0);
    LLVMValueRef x, y;
    if (h == 1) {
      x = LLVMBuildExtractElement(e->b, v, lo[0], "");
      y = LLVMBuildExtractElement(e->b, v, hi[0], "");
    } else {
      LLVMValueRef p = LLVMGetPoison(LLVMTypeOf(v));
      x = LLVMBuildShuffleVector(e->b, v, p, LLVMConstVector(lo, h), "");
      y = LLVMBuildShuffleVector(e->b, v, p, LLVMConstVector(hi, h), "");
    }
    v = em_combine(e, (rop)i->op, t, x, y);
    n = h;
    if (last) {
      LLVMValueRef first = n == 1 ? v : LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, 0, 0), "");
      first = em_combine(e, (rop)i->op, t, first, last);
      v = n == 1 ? first : LLVMBuildInsertElement(e->b, v, first, LLVMConstInt(e->i32, 0, 0), "");
    }
  }
  return v;
}
