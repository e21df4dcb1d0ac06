/* How are values held? Numbers of 64 bits and pointers as sums (build.c); other whole numbers and bools in a register,
 * extended to 64 bits; floats in the first lane of a vector register; vectors in one register or in parts of one
 * register's size each; bool vectors in a mask register (a bit per lane) or, without those, as vectors of 32-bit lanes
 * of all ones or zeros. A load with one use is left to the instruction that uses it. */
#include "codegen/x86/build.h"
#include <string.h>

shp xg_shape(sel *e, ltype t) {
  etype et = (etype)t.elem;
  shp s = {.n = 1,
           .lanes = t.lanes,
           .per = t.lanes,
           .bytes = (uint8_t)et_bytes(et),
           .fp = !t.ptr && (et == ET_F32 || et == ET_F64)};
  if (t.ptr || t.lanes == 1) {
    s.cls = s.fp ? RV : RG;
    return s;
  }
  if (t.lanes & (t.lanes - 1)) xg_refuse(e, "a number of lanes that is no power of two");
  if (et == ET_BOOL && e->avx512) {
    s.cls = RK;
    if (t.lanes > 64) xg_refuse(e, "bool vectors of more than 64 lanes");
    return s;
  }
  s.cls = RV;
  if (et == ET_BOOL) s.bytes = 4;
  unsigned all = s.bytes * t.lanes;
  if (all > e->vb) {
    s.n = (uint8_t)(all / e->vb > PARTS ? PARTS + 1 : all / e->vb), s.per = (uint16_t)(e->vb / s.bytes);
    if (s.n > PARTS) xg_refuse(e, "vectors of more than eight registers"), s.n = 1;
    all = e->vb;
  }
  s.vl = all <= 16 ? VL128 : all <= 32 ? VL256 : VL512;
  return s;
}
static uint64_t const_bits(etype t, scalar k) {
  uint64_t b = 0;
  et_store(t, &b, k);
  return b;
}
vr xg_scalar_mask(sel *e, vr g) { /* A mask whose lanes all have the value of a bool. */
  vr n = xg_new(e, RG, 0), k;
  xg_emit(e, (mi){.op = G_NEG, .d = n, .b = g});
  k = xg_new(e, RK, 0);
  xg_emit(e, (mi){.op = V_KMOVGQ, .d = k, .b = n});
  return k;
}
bool xg_lazy(const sel *e, lv v) { return e->val[v].kind == VAL_LOAD || e->val[v].kind == VAL_SPLAT; }
static amem part_address(sel *e, const val *x, unsigned q, unsigned bytes) {
  form f = x->f;
  f.k += (int64_t)q * bytes;
  return xg_address(e, &f);
}
static void settle(sel *e, lv v) { /* A load that was left for later is emitted now. */
  val *x = &e->val[v];
  shp s = xg_shape(e, li(e->f, v)->type);
  bool splat = x->kind == VAL_SPLAT;
  uint32_t at = e->at;
  e->at = e->cur;
  for (unsigned q = 0; q < (splat ? 1 : s.n); q++) {
    vr d = xg_new(e, RV, s.vl);
    unsigned op = splat          ? (s.bytes == 4 ? V_BCSS
                                    : s.vl       ? V_BCSD
                                                 : V_MOVDDUP)
                  : s.lanes == 1 ? (s.bytes == 4 ? V_LDSS : V_LDSD)
                                 : V_LD;
    xg_emit(e, (mi){.op = (uint16_t)op, .vl = s.vl, .d = d, .m = part_address(e, x, q, 16u << s.vl)});
    x->p[q] = d;
  }
  for (unsigned q = 1; splat && q < s.n; q++) x->p[q] = x->p[0];
  x->kind = VAL_REGS, x->n = s.n, x->depth = (uint16_t)e->at, x->stamp = e->r[e->at]->stamp;
  e->at = at;
}
vr xg_part(sel *e, lv v, unsigned q) {
  val *x = &e->val[v];
  const linst *i = li(e->f, v);
  if (xg_lazy(e, v)) settle(e, v);
  if (x->kind == VAL_REGS) return x->p[q < x->n ? q : 0];
  if (x->kind == VAL_CONST) {
    shp s = xg_shape(e, i->type);
    if (s.cls == RG) return xg_gpr(e, v);
    if (i->type.elem == ET_BOOL) {
      if (!e->avx512) return xg_splat_bits(e, i->k.i ? UINT64_MAX : 0, 4, s.vl);
      vr k = xg_new(e, RK, 0);
      xg_emit(e, (mi){.op = V_KMOVGQ, .d = k, .b = xg_imm(e, i->k.i ? -1 : 0)});
      return k;
    }
    return xg_splat_bits(e, const_bits((etype)i->type.elem, i->k), s.bytes, s.vl);
  }
  xg_refuse(e, "a whole number in a vector's place");
  return xg_new(e, RV, 0);
}
form xg_form(sel *e, lv v) {
  val *x = &e->val[v];
  if (x->kind == VAL_FORM) return x->f;
  if (x->kind == VAL_CONST) return xg_const(li(e->f, v)->k.i);
  return xg_var(xg_part(e, v, 0));
}
vr xg_gpr(sel *e, lv v) {
  val *x = &e->val[v];
  if (x->kind == VAL_FORM) return xg_reg(e, &x->f);
  if (x->kind == VAL_CONST) {
    const linst *i = li(e->f, v);
    etype t = (etype)i->type.elem;
    int64_t k = et_kind(t) == K_FLOAT ? (int64_t)const_bits(t, i->k) : i->k.i;
    if (et_kind(t) == K_UINT && et_bits(t) < 64) k &= ((int64_t)1 << (8 * et_bytes(t))) - 1;
    return xg_imm(e, k);
  }
  return xg_part(e, v, 0);
}
static bool reads_one(unsigned op) {
  return op < V_COUNT && (x86_vops[op].tuple == T_N4 || x86_vops[op].tuple == T_N8);
} /* the load reads no more than one element */
void xg_operand(sel *e, mi *i, lv v, unsigned q) {
  val *x = &e->val[v];
  shp s = xg_shape(e, li(e->f, v)->type);
  if (x->kind == VAL_LOAD && i->m.kind == AM_NONE && e->at == e->cur &&
      (s.lanes == 1 ? reads_one(i->op) : (16u << s.vl) / s.bytes <= s.lanes)) {
    i->m = part_address(e, x, q, 16u << s.vl);
    return;
  }
  if (x->kind == VAL_SPLAT && i->m.kind == AM_NONE && e->at == e->cur && e->avx512 &&
      xg_can_broadcast(e->x, i->op, s.bytes)) {
    i->m = xg_address(e, &x->f), i->flags |= F_BCAST;
    return;
  }
  i->b = xg_part(e, v, q);
}
void xg_begin(sel *e, lv v, const lv *x, unsigned n) {
  uint32_t d = 0;
  for (unsigned k = 0; k < n; k++) {
    if (!x[k]) continue;
    const val *o = &e->val[x[k]];
    uint32_t at = o->kind == VAL_FORM ? xg_depth(e, &o->f) : o->kind == VAL_CONST ? 0 : o->depth;
    if (at > d) d = at;
  }
  e->at = xg_place(e, d);
  if (e->at != e->cur) e->into[v] = 0;
}
vr xg_out(sel *e, lv v, unsigned q) {
  if (e->into[v]) return e->val[e->into[v]].p[q];
  shp s = xg_shape(e, li(e->f, v)->type);
  return xg_new(e, s.cls, s.vl);
}
void xg_result(sel *e, lv v, unsigned n, const vr *p) {
  val *x = &e->val[v];
  *x = (val){.kind = VAL_REGS, .n = (uint8_t)n, .depth = (uint16_t)e->at, .stamp = e->r[e->at]->stamp};
  memcpy(x->p, p, n * sizeof *p);
  e->at = e->cur;
}

/* ---- parts of registers ---------------------------------------------------------------------- */
vr xg_sub(sel *e, vr v, unsigned vl, unsigned at, unsigned bytes) {
  if (!at) return v;
  if (bytes == 32) {
    vr d = xg_new(e, RV, VL256);
    xg_emit(e, (mi){.op = V_EXTF64X4, .vl = VL512, .d = d, .a = v, .imm = at / 32});
    return d;
  }
  if (at >= 16) {
    vr d = xg_new(e, RV, VL128);
    xg_emit(e, (mi){.op = V_EXTF128, .vl = (uint8_t)vl, .d = d, .a = v, .imm = at / 16});
    v = d, at %= 16;
    if (!at) return v;
  }
  static const uint8_t to[16] = {[4] = 0x55, [8] = 0xEE, [12] = 0xFF};
  vr d = xg_new(e, RV, VL128);
  if (to[at])
    xg_emit(e, (mi){.op = V_PERMILPS, .d = d, .b = v, .imm = to[at]});
  else
    xg_refuse(e, "pieces of registers under 32 bits");
  return d;
}
vr xg_join(sel *e, vr *p, unsigned n, unsigned bytes) {
  vr r[2 * PARTS];
  memcpy(r, p, n * sizeof *p);
  for (; n > 1; n /= 2, bytes *= 2)
    for (unsigned k = EK_PLANTED("x86-value"); k < n / 2; k++) {
      unsigned vl = bytes == 32 ? VL512 : bytes == 16 ? VL256 : VL128;
      vr d = xg_new(e, RV, vl);
      if (bytes < 4) xg_refuse(e, "pieces of registers under 32 bits");
      xg_emit(e, (mi){.op = bytes == 32   ? V_INSF64X4
                            : bytes == 16 ? V_INSF128
                            : bytes == 8  ? V_UNPCKLQ
                                          : V_UNPCKLD,
                      .vl = (uint8_t)vl,
                      .d = d,
                      .a = r[2 * k],
                      .b = r[2 * k + 1],
                      .imm = 1});
      r[k] = d;
    }
  return r[0];
}
vr xg_mask(sel *e, lv v, unsigned q, unsigned per) {
  if (!e->avx512) return xg_part(e, v, q);
  vr k = xg_part(e, v, 0);
  if (!q) return k;
  vr d = xg_new(e, RK, 0);
  xg_emit(e, (mi){.op = V_KSHR, .d = d, .b = k, .imm = q * per});
  return d;
}
