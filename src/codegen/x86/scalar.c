/* Which instructions do operations on one whole number or bool become? Sums stay sums (build.c); the others take and
 * give registers, extended to 64 bits. */
#include "codegen/x86/build.h"

vr xg_gop(sel *e, unsigned op, vr a, vr b) {
  vr d = xg_new(e, RG, 0);
  const vinfo *k = &e->x->v.v[b];
  if (op >= G_ADD && op <= G_IMUL && k->is_imm && k->imm == (int32_t)k->imm && k->imm != INT32_MIN) {
    xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .a = a, .imm = k->imm});
    return d;
  }
  xg_emit(e, (mi){.op = (uint16_t)op,
                  .d = d,
                  .a = a,
                  .b = b,
                  .flags = op == G_SUB || op == G_DIV || op == G_IDIV || op == G_MULH ? F_EARLY : 0});
  return d;
}
vr xg_gopi(sel *e, unsigned op, vr a, int64_t k) {
  if (k != (int32_t)k) return xg_gop(e, op, a, xg_imm(e, k));
  vr d = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .a = a, .imm = k});
  return d;
}
vr xg_g1(sel *e, unsigned op, vr b) {
  vr d = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = (uint16_t)op, .d = d, .b = b});
  return d;
}
/* Compares two registers, or one with a constant in the instruction. */
static void compare_g(sel *e, vr a, vr b) {
  const vinfo *k = &e->x->v.v[b];
  if (k->is_imm && k->imm == (int32_t)k->imm)
    xg_emit(e, (mi){.op = G_CMP, .a = a, .imm = k->imm});
  else
    xg_emit(e, (mi){.op = G_CMP, .a = a, .b = b});
}
static vr set_cc(sel *e, vr a, vr b, unsigned cc) {
  vr d = xg_new(e, RG, 0);
  compare_g(e, a, b);
  xg_emit(e, (mi){.op = G_SETCC, .d = d, .cc = (uint8_t)cc});
  return d;
}
vr xg_choose(sel *e, vr a, vr b, unsigned cc, vr yes, vr no) { /* a cc b ? yes : no; b 0: a compared with 0 */
  vr d = xg_new(e, RG, 0);
  if (b)
    compare_g(e, a, b);
  else
    xg_emit(e, (mi){.op = G_TEST, .a = a, .b = a});
  xg_emit(e, (mi){.op = G_CMOV, .cc = (uint8_t)cc, .d = d, .a = no, .b = yes});
  return d;
}
vr xg_wrapped(sel *e, etype t, vr v) {
  if (t == ET_BOOL || et_bits(t) == 64) return v;
  bool u = et_kind(t) != K_INT;
  return xg_g1(e,
               et_bits(t) == 32   ? (u ? G_ZX32 : G_SX32)
               : et_bits(t) == 16 ? (u ? G_ZX16 : G_SX16)
               : u                ? G_ZX8
                                  : G_SX8,
               v);
}
/* For d >= 2, the number m (as signed 64 bits; 2^64 more where that is negative) and shift with which floor(x * m /
 * 2^(64 + shift)) + (x < 0) is x / d towards 0, for all x of 64 bits. */
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
/* floor division and remainder; 0 for a zero divisor */
static vr divide(sel *e, sop op, etype t, vr x, vr y, const scalar *k) {
  bool u = et_kind(t) == K_UINT;
  if (k && k->i == 0) return xg_imm(e, 0);
  if (k && k->i == -1 && !u) return op == OP_IDIV ? xg_g1(e, G_NEG, x) : xg_imm(e, 0);
  if (k && k->i > 0 && !(k->i & (k->i - 1)) && (u || op != OP_FMOD)) {
    if (op == OP_IDIV) return xg_gopi(e, u ? G_SHR : G_SAR, x, __builtin_ctzll((uint64_t)k->i));
    return xg_gopi(e, G_AND, x, k->i - 1);
  }
  if (k && k->i > 1 && !u) { /* a product with 2^n / k, whose upper half is the quotient, rounded down */
    uint64_t m;
    unsigned sh;
    inverse_of((uint64_t)k->i, &m, &sh);
    vr q = xg_gop(e, G_MULH, x, xg_imm(e, (int64_t)m));
    if ((int64_t)m < 0) q = xg_gop(e, G_ADD, q, x);
    if (sh) q = xg_gopi(e, G_SAR, q, sh);
    q = xg_gop(e, G_ADD, q, xg_gopi(e, G_SHR, x, 63)); /* rounds towards 0 */
    vr r = xg_gop(e, G_SUB, x, xg_gopi(e, G_IMUL, q, k->i));
    if (op == OP_FMOD) return r;
    vr off = xg_gopi(e, G_SAR, r, 63);
    return op == OP_IDIV ? xg_gop(e, G_ADD, q, off) : xg_gop(e, G_ADD, r, xg_gopi(e, G_AND, off, k->i));
  }
  vr d = y, zero = 0, one = 0, minus = 0;
  if (!k) {
    zero = xg_imm(e, 0), one = xg_imm(e, 1), minus = xg_imm(e, -1);
    d = xg_choose(e, y, 0, CC_E, one, y);
    if (!u) d = xg_choose(e, y, minus, CC_E, one, d);
  }
  vr q = xg_gop(e, u ? G_DIV : G_IDIV, x, d), r = xg_gop(e, G_SUB, x, xg_gop(e, G_IMUL, q, d));
  if (!u && op != OP_FMOD) {
    vr other = xg_gop(e, G_EOR, r, d), signs = xg_gopi(e, G_SHR, other, 63), z = zero ? zero : xg_imm(e, 0),
       off = xg_choose(e, r, 0, CC_NE, signs, z);
    if (op == OP_IDIV)
      q = xg_gop(e, G_SUB, q, off);
    else
      r = xg_gop(e, G_ADD, r, xg_gop(e, G_IMUL, off, d));
  }
  vr res = op == OP_IDIV ? q : r;
  if (k) return res;
  res = xg_choose(e, y, 0, CC_E, zero, res);
  if (u) return res;
  return xg_choose(e, y, minus, CC_E, op == OP_IDIV ? xg_g1(e, G_NEG, x) : zero, res);
}
static vr scalar_shift(sel *e, sop op, etype t, vr x, vr y, const scalar *k) {
  int64_t bits = et_bits(t);
  bool left = op == OP_SHL, arith = !left && et_kind(t) == K_INT;
  if (k && k->i >= 0 && k->i < bits) return xg_gopi(e, left ? G_SHL : arith ? G_SAR : G_SHR, x, k->i);
  vr top = xg_imm(e, bits), n = xg_choose(e, y, top, CC_B, y, xg_imm(e, arith ? bits - 1 : 0)),
     r = xg_gop(e,
                left    ? G_SHLX
                : arith ? G_SARX
                        : G_SHRX,
                x, n);
  return arith ? r : xg_choose(e, y, top, CC_B, r, xg_imm(e, 0));
}
bool xg_scalar_int(sel *e, lv v, const linst *i, etype t) {
  bool u = et_kind(t) != K_INT;
  scalar kk;
  const scalar *k = i->b && loop_const(e->f, i->b, &kk) ? &kk : NULL;
  etype to = (etype)i->type.elem;
  /* sums */
  if (t == ET_I64 && (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL || i->op == OP_NEG || i->op == OP_FMA)) {
    form x = xg_form(e, i->a), y = i->b ? xg_form(e, i->b) : xg_const(0), zero = xg_const(0), r;
    e->at = e->cur;
    if (i->op == OP_ADD || i->op == OP_SUB)
      r = xg_add(e, &x, &y, i->op == OP_ADD ? 1 : -1);
    else if (i->op == OP_NEG)
      r = xg_add(e, &zero, &x, -1);
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
  case OP_ADD:
    r = xg_gop(e, G_ADD, x, y);
    break;
  case OP_SUB:
    r = xg_gop(e, G_SUB, x, y);
    break;
  case OP_MUL:
    r = xg_gop(e, G_IMUL, x, y);
    break;
  case OP_FMA:
    r = xg_gop(e, G_ADD, xg_gop(e, G_IMUL, x, y), xg_gpr(e, i->c));
    break;
  case OP_NEG:
    r = xg_g1(e, G_NEG, x);
    break;
  case OP_IDIV:
  case OP_MOD:
  case OP_FMOD:
    r = divide(e, (sop)i->op, t, x, y, k);
    break;
  case OP_AND:
  case OP_BAND:
    r = xg_gop(e, G_AND, x, y);
    break;
  case OP_OR:
  case OP_BOR:
    r = xg_gop(e, G_OR, x, y);
    break;
  case OP_BXOR:
    r = xg_gop(e, G_EOR, x, y);
    break;
  case OP_NOT:
  case OP_BNOT:
    r = t == ET_BOOL ? xg_gopi(e, G_EOR, x, 1) : xg_g1(e, G_NOT, x);
    break;
  case OP_ABS:
    r = u ? x : xg_choose(e, x, 0, CC_L, xg_g1(e, G_NEG, x), x);
    break;
  case OP_SIGN: {
    vr one = xg_imm(e, 1), zero = xg_imm(e, 0);
    r = xg_choose(e, x, 0, CC_E, zero, one);
    if (!u) r = xg_choose(e, x, 0, CC_L, xg_imm(e, -1), r);
    break;
  }
  case OP_MIN:
    r = xg_choose(e, x, y, u ? CC_B : CC_L, x, y);
    break;
  case OP_MAX:
    r = xg_choose(e, x, y, u ? CC_A : CC_G, x, y);
    break;
  case OP_SHL:
  case OP_SHR:
    r = scalar_shift(e, (sop)i->op, t, x, y, k);
    break;
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
    r = set_cc(e, x, y, u ? cu[i->op - OP_EQ] : cs[i->op - OP_EQ]);
    break;
  default:
    return false;
  }
  if (to != ET_BOOL) r = xg_wrapped(e, to, r);
  xg_result(e, v, 1, &r);
  if (to == ET_I64) {
    val *o = &e->val[v];
    o->f = xg_var(r), o->kind = VAL_FORM;
  }
  return true;
}
