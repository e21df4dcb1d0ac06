/* How does memory access look? Plain, masked (mask, count) and strided loads and stores. */
#include "codegen/x86/build.h"
#include <string.h>

static form address(sel *e, etype t, lv p, lv index) {
  form a = xg_form(e, p), i = xg_form(e, index);
  return xg_add(e, &a, &i, et_bytes(t));
}
/* A parameter of its own memory is a root, all others together are one. */
static uint8_t root_of(const sel *e, lv p) {
  const linst *i = xg_origin(e, p);
  if (i->kind != L_PARAM) return 0;
  return i->k.i < ROOTS - 2 && (e->f->params.v[i->k.i].flags & LP_NOALIAS) ? (uint8_t)(i->k.i + 1) : ROOTS - 1;
}
/* The active lanes as a mask register (AVX-512) or, in parts, as vectors; false: all. */
static bool active(sel *e, const linst *i, const shp *s, vr *out) {
  bool have = false;
  scalar k;
  unsigned lanes = i->type.lanes;
  if (i->mask) {
    if (e->avx512)
      out[0] = xg_part(e, i->mask, 0);
    else
      for (unsigned q = 0; q < s->n; q++) out[q] = xg_part(e, i->mask, q);
    have = true;
  }
  if (!i->count || EK_PLANTED("x86-memory") || (loop_const(e->f, i->count, &k) && k.i >= lanes)) return have;
  if (e->avx512) {
    vr m = xg_count_mask(e, i->count, lanes);
    if (have) {
      vr both = xg_new(e, RK, 0);
      xg_emit(e, (mi){.op = V_KAND, .d = both, .a = m, .b = out[0]});
      m = both;
    }
    out[0] = m;
    return true;
  }
  vr n = xg_gpr(e, i->count);
  uint32_t at = e->at;
  e->at = xg_place(e, e->x->v.v[n].depth);
  if (s->bytes != 4 || lanes == 1) {
    xg_refuse(e, "a count of elements that are not of 32 bits");
    return true;
  }
  /* lane < n: compared as 32 bits, after n was cut to 0..lanes */
  vr top = xg_imm(e, lanes), a = xg_new(e, RG, 0), zero = xg_imm(e, 0), b = xg_new(e, RG, 0), one = xg_new(e, RV, 0),
     all = xg_new(e, RV, VL256);
  xg_emit(e, (mi){.op = G_CMP, .a = n, .imm = lanes});
  xg_emit(e, (mi){.op = G_CMOV, .cc = CC_L, .d = a, .a = top, .b = n});
  xg_emit(e, (mi){.op = G_TEST, .a = a, .b = a});
  xg_emit(e, (mi){.op = G_CMOV, .cc = CC_L, .d = b, .a = a, .b = zero});
  xg_emit(e, (mi){.op = V_MOVD, .d = one, .b = b});
  xg_emit(e, (mi){.op = V_BCD, .vl = VL256, .d = all, .b = one});
  e->at = at;
  for (unsigned q = 0; q < s->n; q++) {
    int32_t lane[8];
    for (int l = 0; l < 8; l++) lane[l] = (int32_t)q * 8 + l;
    vr m = xg_new(e, RV, s->vl), both = m;
    xg_emit(e, (mi){.op = V_CMPGTD, .vl = s->vl, .d = m, .a = all, .b = xg_pool_vector(e, lane, VL256)});
    if (have) {
      both = xg_new(e, RV, s->vl);
      xg_emit(e, (mi){.op = V_PANDD, .vl = s->vl, .d = both, .a = m, .b = out[q]});
    }
    out[q] = both;
  }
  return true;
}
static vr part_mask(sel *e, const shp *s, const vr *m, unsigned q) {
  if (!e->avx512) return m[q];
  vr k = m[0];
  if (q) {
    k = xg_new(e, RK, 0);
    xg_emit(e, (mi){.op = V_KSHR, .d = k, .b = m[0], .imm = q * s->per});
  }
  return k;
}
static amem place(sel *e, const form *f, unsigned k) {
  form g = *f;
  g.k += k;
  return xg_address(e, &g);
}
/* Only those lanes of a part that is not full. */
static vr cut(sel *e, const shp *s, vr k) {
  if (s->per * s->bytes >= (16u << s->vl)) return k;
  vr m = xg_new(e, RK, 0), d = xg_new(e, RK, 0);
  xg_emit(e, (mi){.op = V_KMOVGQ, .d = m, .b = xg_imm(e, (1 << s->per) - 1)});
  if (!k) return m;
  xg_emit(e, (mi){.op = V_KAND, .d = d, .a = m, .b = k});
  return d;
}
/* The first n lanes, n a constant, of one register: 0, or the bytes. What is loaded narrower has zeros above. */
static unsigned known_bytes(sel *e, const linst *i, shp *s) {
  scalar k;
  if (!i->count || i->mask || s->cls != RV || s->n != 1 || s->lanes == 1 || i->type.elem == ET_BOOL ||
      !loop_const(e->f, i->count, &k) || k.i < 1 || k.i >= s->lanes)
    return 0;
  unsigned n = (unsigned)k.i * s->bytes;
  if (n > 4 && n != 8) s->vl = n <= 16 ? VL128 : n <= 32 ? VL256 : VL512;
  return n == 4 || n == 8 || n == 16 || n == 32 ? n : 0;
}
static unsigned scalar_load(etype t) {
  bool u = et_kind(t) != K_INT;
  switch (et_bytes(t)) {
  case 8:
    return G_LOAD64;
  case 4:
    return u ? G_LOAD32U : G_LOAD32S;
  case 2:
    return u ? G_LOAD16U : G_LOAD16S;
  default:
    return u ? G_LOAD8U : G_LOAD8S;
  }
}
/* ---- lanes anywhere: by vectors of indices in elements (of 64 bits), or of distances in bytes (of 32) that are the
 * same for each part ---- */
typedef struct spread {
  vr base;             /* register of the address */
  int32_t disp;        /* bytes added to it */
  unsigned n;          /* index registers */
  unsigned per;        /* lanes of an index register */
  unsigned vl;         /* VL* of an index register */
  vr index[2 * PARTS]; /* the index registers */
  bool wide;           /* indices of 64 bits, in elements; else of 32 bits, in bytes */
  uint8_t scale;       /* what an index is multiplied by */
  int64_t step;        /* bytes from one index register's lanes to the next's, where they share one */
} spread;
/* A mask of lanes for a gather, which clears it. */
static vr lanes_mask(sel *e, bool masked, vr m, unsigned at) {
  vr k = xg_new(e, RK, 0);
  if (!masked)
    xg_emit(e, (mi){.op = V_KXNOR, .d = k});
  else if (!at)
    xg_emit(e, (mi){.op = V_KMOVQ, .d = k, .b = m});
  else
    xg_emit(e, (mi){.op = V_KSHR, .d = k, .b = m, .imm = at});
  return k;
}
static bool spread_of(sel *e, const linst *i, const shp *s, spread *o) {
  etype t = (etype)i->type.elem;
  unsigned lanes = i->type.lanes;
  if (!e->avx512 || (s->bytes != 4 && s->bytes != 8) || t == ET_BOOL || lanes == 1 || lanes * s->bytes < 16)
    return false;
  if (!i->stride) {
    const linst *iv = li(e->f, i->b);
    shp x = xg_shape(e, iv->type);
    if (iv->type.elem != ET_I64) return false;
    form p = xg_form(e, i->a);
    *o = (spread){.n = x.n, .per = x.per, .vl = x.vl, .wide = true, .scale = s->bytes};
    for (unsigned q = 0; q < x.n; q++) o->index[q] = xg_part(e, i->b, q);
    o->base = xg_reg(e, &p);
    return lanes >= 4;
  }
  form a = address(e, t, i->a, i->b), st = xg_form(e, i->stride);
  if (!st.n && st.k >= 0 && st.k <= INT32_MAX && st.k * s->bytes * s->per <= INT32_MAX) {
    int32_t lane[16];
    for (int l = 0; l < 16; l++) lane[l] = (int32_t)(st.k * s->bytes * l);
    *o = (spread){.n = s->n,
                  .per = s->per,
                  .vl = s->bytes == 8 && s->vl ? s->vl - 1u : s->vl,
                  .scale = 1,
                  .step = st.k * s->bytes * s->per};
    for (unsigned q = 0; q < s->n; q++) o->index[q] = xg_pool_vector(e, lane, o->vl);
  } else { /* indices are products of lane and stride */
    shp x = xg_shape(e, lt(ET_I64, lanes));
    *o = (spread){.n = x.n, .per = x.per, .vl = x.vl, .wide = true, .scale = s->bytes};
    vr all = xg_new(e, RV, x.vl), g = xg_reg(e, &st);
    xg_emit(e, (mi){.op = V_BCGQ, .vl = x.vl, .d = all, .b = g});
    for (unsigned q = 0; q < x.n; q++) {
      int64_t lane[8];
      for (unsigned l = 0; l < 8; l++) lane[l] = q * x.per + l;
      vr d = xg_new(e, RV, x.vl);
      xg_emit(e, (mi){.op = V_PMULQ, .vl = x.vl, .d = d, .a = all, .b = xg_pool_vector(e, lane, x.vl)});
      o->index[q] = d;
    }
    if (lanes < 4) return false;
  }
  if (a.n && a.k == (int32_t)a.k && a.k + (int64_t)s->n * o->step <= INT32_MAX) o->disp = (int32_t)a.k, a.k = 0;
  o->base = xg_reg(e, &a);
  if (o->disp + o->step * s->n > INT32_MAX) return false;
  return true;
}
static amem spread_at(const spread *o, unsigned q) {
  return (amem){.kind = AM_ADDR,
                .scale = o->scale,
                .base = o->base,
                .index = o->index[q],
                .disp = o->disp + (int32_t)(o->step * q)};
}
/* Does i read bytes of a table of 256, at places that bytes say, by permutations of the table? */
static bool permutes(const sel *e, const linst *i) {
  return e->avx512 && i->kind == L_GATHER && !i->mask && i->type.lanes > 1 && i->type.lanes <= 64 &&
         et_bytes((etype)i->type.elem) == 1 && i->type.elem != ET_BOOL && li(e->f, i->b)->type.elem == ET_U8;
}
lv xg_places(const sel *e, const linst *i) {
  if (e->vbmi || !permutes(e, i)) return 0;
  const linst *x = li(e->f, i->b);
  return x->kind == L_OP && x->op == OP_CAST && li(e->f, x->a)->type.elem == ET_I32 ? x->a : 0;
}
/* Bytes of a table of 256 at places that bytes say: a permutation of two halves of 64 bytes for each value of the
 * index' highest bit. */
static void table_bytes(sel *e, lv v, const linst *i) {
  uint8_t top[64];
  vr half[2], d = xg_new(e, RV, VL512), high = xg_new(e, RK, 0), at = xg_part(e, i->b, 0);
  memset(top, 0x80, sizeof top);
  for (unsigned k = 0; k < 2; k++) {
    const form base = xg_form(e, i->a), at_low = xg_const(128 * k), at_next = xg_const(128 * k + 64),
               low = xg_add(e, &base, &at_low, 1), next = xg_add(e, &base, &at_next, 1);
    vr first = xg_new(e, RV, VL512);
    half[k] = xg_new(e, RV, VL512);
    xg_emit(e, (mi){.op = V_LD, .vl = VL512, .d = first, .m = xg_address(e, &low)});
    xg_emit(e, (mi){.op = V_MOVV, .vl = VL512, .d = half[k], .b = at});
    xg_emit(e, (mi){.op = V_PERMI2B, .vl = VL512, .d = half[k], .a = first, .m = xg_address(e, &next), .flags = F_RMW});
  }
  xg_emit(e, (mi){.op = V_TESTMB, .vl = VL512, .d = high, .a = at, .b = xg_pool_vector(e, top, VL512)});
  xg_emit(e, (mi){.op = V_BLENDMB, .vl = VL512, .d = d, .k = high, .a = half[0], .b = half[1]});
  xg_result(e, v, 1, &d);
}
/* The same where 32 bits are permuted, not bytes, for 16 places, of which 8 bits count: the word of a place is turned
 * until its byte is the lowest one. word: the table in four parts. */
static vr sixteen_bytes(sel *e, vr at, const form word[4]) {
  const vr quarter = xg_new(e, RV, VL512), bits = xg_new(e, RV, VL512), high = xg_new(e, RK, 0),
           both = xg_new(e, RV, VL512), turned = xg_new(e, RV, VL512), d = xg_new(e, RV, VL128);
  vr half[2];
  xg_emit(e, (mi){.op = V_SRLD, .vl = VL512, .d = quarter, .b = at, .imm = 2});
  for (unsigned k = 0; k < 2; k++) {
    const vr first = xg_new(e, RV, VL512);
    half[k] = xg_new(e, RV, VL512);
    xg_emit(e, (mi){.op = V_LD, .vl = VL512, .d = first, .m = xg_address(e, &word[2 * k])});
    xg_emit(e, (mi){.op = V_MOVV, .vl = VL512, .d = half[k], .b = quarter});
    const amem next = xg_address(e, &word[2 * k + 1]);
    xg_emit(e, (mi){.op = V_PERMI2D, .vl = VL512, .d = half[k], .a = first, .m = next, .flags = F_RMW});
  }
  xg_emit(e, (mi){.op = V_TESTMD, .vl = VL512, .d = high, .a = at, .b = xg_splat_bits(e, 0x80, 4, VL512)});
  xg_emit(e, (mi){.op = V_BLENDMD, .vl = VL512, .d = both, .k = high, .a = half[0], .b = half[1]});
  xg_emit(e, (mi){.op = V_SLLD, .vl = VL512, .d = bits, .b = at, .imm = 3}); /* of which 5 bits count */
  xg_emit(e, (mi){.op = V_RORVD, .vl = VL512, .d = turned, .a = both, .b = bits});
  xg_emit(e, (mi){.op = V_MOVDB, .vl = VL512, .d = d, .a = turned});
  return d;
}
static void table_words(sel *e, lv v, const linst *i, const shp *s) {
  const form from = xg_form(e, i->a);
  const unsigned n = (s->lanes + 15u) / 16;
  const lv wide = xg_places(e, i);
  form word[4];
  vr p[4];
  for (unsigned k = 0; k < 4; k++) {
    const form by = xg_const(64 * k);
    word[k] = xg_add(e, &from, &by, 1);
  }
  for (unsigned q = 0; q < n; q++) {
    const vr at = wide ? xg_part(e, wide, q) : xg_new(e, RV, VL512);
    if (!wide)
      xg_emit(e, (mi){.op = V_ZXBD, .vl = VL512, .d = at, .b = xg_sub(e, xg_part(e, i->b, 0), s->vl, q * 16, 16)});
    p[q] = sixteen_bytes(e, at, word);
  }
  const vr all = xg_join(e, p, n, 16);
  xg_result(e, v, 1, &all);
}
/* Elements of at most 32 bits, by indices of 32 bits: each index leaves its vector, and each element enters another. */
static void each_place(sel *e, lv v, const linst *i, const shp *s) {
  static const uint16_t insert[] = {[1] = V_PINSRB, [2] = V_PINSRW, [4] = V_PINSRD};
  const shp x = xg_shape(e, li(e->f, i->b)->type);
  const form from = xg_form(e, i->a);
  const unsigned per = 16u / s->bytes;
  vr p[4 * PARTS], four = 0, two = 0, done = 0;
  unsigned n = 0;
  for (unsigned l = 0; l < s->lanes; l++) {
    if (l % 4 == 0) four = xg_sub(e, xg_part(e, i->b, l / x.per), x.vl, l % x.per * 4, 16);
    if (l % 2 == 0)
      xg_emit(e, (mi){.op = V_MOVQG, .d = two = xg_new(e, RG, 0), .a = xg_sub(e, four, VL128, l % 4 * 4, 8)});
    const form at = xg_var(l % 2 ? xg_gopi(e, G_SHR, two, 32) : xg_g1(e, G_ZX32, two)),
               place = xg_add(e, &from, &at, s->bytes);
    const mi m = {.op = insert[s->bytes],
                  .d = xg_new(e, RV, VL128),
                  .a = l % per ? done : xg_zero(e),
                  .m = xg_address(e, &place),
                  .imm = l % per};
    xg_emit(e, m);
    done = m.d;
    if (l % per == per - 1 || l + 1 == s->lanes) p[n++] = done;
  }
  for (unsigned q = 0; q < s->n; q++) p[q] = xg_join(e, p + q * (n / s->n), n / s->n, 16);
  xg_result(e, v, s->n, p);
}
static void gather(sel *e, lv v, const linst *i, const shp *s) {
  spread o;
  vr p[2 * PARTS], m[PARTS];
  if (s->cls == RV && s->bytes <= 4 && i->type.elem != ET_BOOL && !i->mask && !i->stride &&
      li(e->f, i->b)->type.elem == ET_I32) {
    each_place(e, v, i, s);
    return;
  }
  if (permutes(e, i)) {
    if (e->vbmi)
      table_bytes(e, v, i);
    else
      table_words(e, v, i, s);
    return;
  }
  if (!spread_of(e, i, s, &o)) {
    xg_refuse(e, i->stride ? "a strided load" : "gather");
    return;
  }
  bool masked = active(e, i, s, m);
  unsigned op = o.wide          ? (s->bytes == 8 ? V_GATHERQPD : V_GATHERQPS)
                : s->bytes == 8 ? V_GATHERDPD
                                : V_GATHERDPS,
           vl = o.wide ? o.vl : s->vl;
  for (unsigned q = 0; q < o.n; q++) {
    vr d = xg_new(e, RV, s->vl > vl ? s->vl : vl);
    xg_emit(e, (mi){.op = V_PXORD, .d = d});
    xg_emit(e, (mi){.op = (uint16_t)op,
                    .vl = (uint8_t)vl,
                    .d = d,
                    .k = lanes_mask(e, masked, m[0], q * o.per),
                    .m = spread_at(&o, q),
                    .flags = F_RMW | F_VINDEX | F_EARLY});
    p[q] = d;
  }
  for (unsigned q = 0; q < s->n; q++) p[q] = xg_join(e, p + q * (o.n / s->n), o.n / s->n, o.per * s->bytes);
  xg_result(e, v, s->n, p);
}
static void scatter(sel *e, const linst *i, const shp *s) { /* the processor writes lanes in their order */
  spread o;
  vr m[PARTS];
  if (!spread_of(e, i, s, &o)) {
    xg_refuse(e, i->stride ? "a strided store" : "scatter");
    return;
  }
  bool masked = active(e, i, s, m);
  unsigned op = o.wide          ? (s->bytes == 8 ? V_SCATQPD : V_SCATQPS)
                : s->bytes == 8 ? V_SCATDPD
                                : V_SCATDPS,
           vl = o.wide ? o.vl : s->vl, pieces = o.n / s->n;
  for (unsigned q = 0; q < o.n; q++) {
    vr a = xg_sub(e, xg_part(e, i->c, q / pieces), s->vl, q % pieces * o.per * s->bytes, o.per * s->bytes);
    xg_emit(e, (mi){.op = (uint16_t)op,
                    .vl = (uint8_t)vl,
                    .a = a,
                    .k = lanes_mask(e, masked, m[0], q * o.per),
                    .m = spread_at(&o, q),
                    .flags = F_VINDEX});
  }
}
/* A scalar that is accessed on a condition: 0 where it is not to be, or behind the label that is returned. */
static bool conditional(const linst *i) { return i->type.lanes == 1 && (i->mask || i->count); }
static uint32_t unless(sel *e, const linst *i) {
  vr on = i->mask ? xg_gpr(e, i->mask) : 0;
  if (i->count) {
    vr n = xg_gpr(e, i->count), some = xg_choose(e, n, xg_imm(e, 0), CC_G, xg_imm(e, 1), xg_imm(e, 0));
    on = on ? xg_gop(e, G_AND, on, some) : some;
  }
  xg_emit(e, (mi){.op = G_TEST, .a = on, .b = on});
  xg_emit(e, (mi){.op = G_JCC, .cc = CC_E, .imm = ++e->x->labels});
  return e->x->labels;
}
static void load_if(sel *e, lv v, const linst *i, const shp *s, form f) {
  vr d = xg_new(e, s->cls, 0);
  amem at = xg_address(e, &f);
  xg_emit(e, s->cls == RG ? (mi){.op = G_MOV, .d = d} : (mi){.op = V_PXORD, .d = d});
  uint32_t on = unless(e, i);
  xg_emit(e, (mi){.op = (uint16_t)(s->cls == RG    ? scalar_load((etype)i->type.elem)
                                   : s->bytes == 4 ? V_LDSS
                                                   : V_LDSD),
                  .d = d,
                  .m = at});
  xg_emit(e, (mi){.op = G_LABEL, .imm = on});
  xg_result(e, v, 1, &d);
  if (i->type.elem == ET_I64) e->val[v].kind = VAL_FORM, e->val[v].f = xg_var(d);
}
static void store_if(sel *e, const linst *i, const shp *s, form f) {
  static const uint16_t op[] = {[1] = G_STORE8, [2] = G_STORE16, [4] = G_STORE32, [8] = G_STORE64};
  amem at = xg_address(e, &f);
  vr a = s->cls == RG ? xg_gpr(e, i->c) : xg_part(e, i->c, 0);
  uint32_t on = unless(e, i);
  xg_emit(e, (mi){.op = s->cls == RG ? op[s->bytes] : s->bytes == 4 ? V_STSS : V_STSD, .a = a, .m = at});
  xg_emit(e, (mi){.op = G_LABEL, .imm = on});
}
void xg_load(sel *e, lv v, const linst *i) {
  etype t = (etype)i->type.elem;
  shp s = xg_shape(e, i->type);
  vr p[PARTS], m[PARTS];
  e->at = e->cur;
  if (i->kind == L_GATHER || i->stride) {
    gather(e, v, i, &s);
    return;
  }
  form f = address(e, t, i->a, i->b);
  unsigned few = known_bytes(e, i, &s);
  if (few) {
    p[0] = xg_out(e, v, 0);
    xg_emit(e, (mi){.op = few == 4   ? V_LDSS
                          : few == 8 ? V_LDSD
                                     : V_LD,
                    .vl = few > 16 ? VL256 : VL128,
                    .d = p[0],
                    .m = xg_address(e, &f)});
    xg_result(e, v, 1, p);
    return;
  }
  if (conditional(i)) {
    load_if(e, v, i, &s, f);
    return;
  }
  bool masked = active(e, i, &s, m);
  if (s.cls == RG) {
    vr d = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = (uint16_t)scalar_load(t), .d = d, .m = xg_address(e, &f)});
    if (t == ET_I64 || t == ET_U64) {
      e->val[v] = (val){.kind = VAL_FORM, .f = xg_var(d)};
      if (t == ET_I64) return;
    }
    xg_result(e, v, 1, &d);
    return;
  }
  if (s.cls == RK) {
    shp b = xg_shape(e, lt(ET_U8, i->type.lanes));
    vr d = xg_new(e, RV, b.vl), k = xg_new(e, RK, 0);
    mi ld = {.op = b.lanes >= 16 ? V_LD : b.lanes == 8 ? V_LDSD : V_LDSS, .vl = b.vl, .d = d};
    if (masked || b.lanes < 4) ld.op = V_LDB, ld.k = cut(e, &b, masked ? m[0] : 0), ld.flags = F_ZERO;
    ld.m = xg_address(e, &f);
    xg_emit(e, ld);
    xg_emit(e, (mi){.op = V_TESTMB, .vl = b.vl, .d = k, .a = d, .b = d});
    xg_result(e, v, 1, &k);
    return;
  }
  if (t == ET_BOOL) {
    if (masked || s.lanes < 4) xg_refuse(e, "a load of bools");
    for (unsigned q = 0; q < s.n; q++) {
      vr d = xg_new(e, RV, s.vl);
      xg_emit(e, (mi){.op = V_ZXBD, .vl = s.vl, .d = d, .m = place(e, &f, q * s.per)});
      xg_emit(e, (mi){.op = V_CMPGTD, .vl = s.vl, .d = p[q] = xg_new(e, RV, s.vl), .a = d, .b = xg_zero(e)});
    }
    xg_result(e, v, s.n, p);
    return;
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr d = p[q] = xg_out(e, v, q);
    amem at = place(e, &f, q * (16u << s.vl));
    unsigned bytes = s.per * s.bytes;
    at.root = root_of(e, i->a);
    if (masked && e->avx512) {
      static const uint16_t op[] = {[1] = V_LDB, [2] = V_LDW, [4] = V_LD, [8] = V_LDD};
      vr k = part_mask(e, &s, m, q);
      if (bytes < 16) k = cut(e, &s, k);
      xg_emit(e, (mi){.op = op[s.bytes], .vl = s.vl, .d = d, .k = k, .m = at, .flags = F_ZERO});
    } else if (masked) {
      if (s.bytes != 4 || bytes < 16) xg_refuse(e, "a masked load of elements that are not of 32 bits");
      xg_emit(e, (mi){.op = V_MASKLDD, .vl = s.vl, .d = d, .a = part_mask(e, &s, m, q), .m = at});
    } else if (bytes >= 16) {
      xg_emit(e, (mi){.op = V_LD, .vl = s.vl, .d = d, .m = at});
    } else if (bytes >= 4) {
      xg_emit(e, (mi){.op = bytes == 8 ? V_LDSD : V_LDSS, .d = d, .m = at});
    } else {
      xg_refuse(e, "a load under 32 bits");
    }
  }
  xg_result(e, v, s.n, p);
}
void xg_prefetch(sel *e, const linst *i) {
  form f = address(e, (etype)li(e->f, i->a)->type.elem, i->a, i->b);
  xg_emit(e, (mi){.op = G_PREFETCH, .m = xg_address(e, &f)});
}
void xg_store(sel *e, const linst *i) {
  etype t = (etype)i->type.elem;
  shp s = xg_shape(e, i->type);
  vr m[PARTS];
  e->at = e->cur;
  if (i->kind == L_SCATTER || i->stride) {
    scatter(e, i, &s);
    return;
  }
  form f = address(e, t, i->a, i->b);
  unsigned few = known_bytes(e, i, &s);
  if (few) {
    vr a = xg_part(e, i->c, 0);
    xg_emit(e, (mi){.op = few == 4   ? V_STSS
                          : few == 8 ? V_STSD
                                     : V_ST,
                    .vl = few > 16 ? VL256 : VL128,
                    .a = a,
                    .m = xg_address(e, &f)});
    return;
  }
  if (conditional(i)) {
    store_if(e, i, &s, f);
    return;
  }
  bool masked = active(e, i, &s, m);
  if (s.cls == RG) {
    static const uint16_t op[] = {[1] = G_STORE8, [2] = G_STORE16, [4] = G_STORE32, [8] = G_STORE64};
    vr g = xg_gpr(e, i->c);
    xg_emit(e, (mi){.op = op[s.bytes], .a = g, .m = xg_address(e, &f)});
    return;
  }
  if (s.cls == RK) {
    shp b = xg_shape(e, lt(ET_U8, i->type.lanes));
    vr one = xg_splat_bits(e, 1, 1, b.vl), d = xg_new(e, RV, b.vl);
    xg_emit(e, (mi){.op = V_LDB, .vl = b.vl, .d = d, .b = one, .k = xg_part(e, i->c, 0), .flags = F_ZERO});
    mi st = {.op = b.lanes >= 16 ? V_ST : b.lanes == 8 ? V_STSD : V_STSS, .vl = b.vl, .a = d};
    if (masked || b.lanes < 4) st.op = V_STB, st.k = cut(e, &b, masked ? m[0] : 0);
    st.m = xg_address(e, &f);
    xg_emit(e, st);
    return;
  }
  if (t == ET_BOOL) {
    if (masked || s.lanes < 4) xg_refuse(e, "a store of bools");
    for (unsigned q = 0; q < s.n; q++) {
      vr k = xg_part(e, i->c, q), w = xg_new(e, RV, 0), b = xg_new(e, RV, 0), d = xg_new(e, RV, 0);
      xg_emit(e, (mi){.op = V_PACKSSDW, .d = w, .a = k, .b = s.vl ? xg_sub(e, k, s.vl, 16, 16) : k});
      xg_emit(e, (mi){.op = V_PACKSSWB, .d = b, .a = w, .b = w});
      xg_emit(e, (mi){.op = V_PANDD, .d = d, .a = b, .b = xg_splat_bits(e, 1, 1, 0)});
      xg_emit(e, (mi){.op = s.per == 8 ? V_STSD : V_STSS, .a = d, .m = place(e, &f, q * s.per)});
    }
    return;
  }
  for (unsigned q = 0; q < s.n; q++) {
    vr a = xg_part(e, i->c, q);
    amem at = place(e, &f, q * (16u << s.vl));
    unsigned bytes = s.per * s.bytes;
    at.root = root_of(e, i->a);
    if (masked && e->avx512) {
      static const uint16_t op[] = {[1] = V_STB, [2] = V_STW, [4] = V_ST, [8] = V_STD};
      vr k = part_mask(e, &s, m, q);
      if (bytes < 16) k = cut(e, &s, k);
      xg_emit(e, (mi){.op = op[s.bytes], .vl = s.vl, .a = a, .k = k, .m = at});
    } else if (masked) {
      if (s.bytes != 4 || bytes < 16) xg_refuse(e, "a masked store of elements that are not of 32 bits");
      xg_emit(e, (mi){.op = V_MASKSTD, .vl = s.vl, .a = a, .b = part_mask(e, &s, m, q), .m = at});
    } else if (bytes >= 16) {
      xg_emit(e, (mi){.op = V_ST, .vl = s.vl, .a = a, .m = at});
    } else if (bytes >= 4) {
      xg_emit(e, (mi){.op = bytes == 8 ? V_STSD : V_STSS, .a = a, .m = at});
    } else {
      xg_refuse(e, "a store under 32 bits");
    }
  }
}
