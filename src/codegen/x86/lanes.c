/* What goes across lanes: reductions (halves are combined until one lane is left), one lane, other orders of lanes,
 * one value in all. */
#include "codegen/x86/build.h"
#include <string.h>

static vr combine(sel *e, rop op, etype t, vr x, vr y, const shp *s) {
  bool fl = et_kind(t) == K_FLOAT, u = et_kind(t) == K_UINT, d64 = t == ET_F64;
  vr d = xg_new(e, RV, s->vl);
  unsigned o = 0;
  switch (op) {
  case RED_SUM:
    o = fl ? (d64 ? V_ADDPD : V_ADDPS) : xg_by_size(s->bytes, V_PADDB, V_PADDW, V_PADDD, V_PADDQ);
    break;
  case RED_PROD:
    o = fl ? (d64 ? V_MULPD : V_MULPS) : xg_by_size(s->bytes, 0, V_PMULW, V_PMULD, V_PMULQ);
    break;
  case RED_MAX:
  case RED_MIN:
    if (fl) {
      xg_minmax_to(e, s, op == RED_MAX, d, x, y, 0, 0);
      return d;
    }
    o = xg_minmax_of(s->bytes, op == RED_MAX, u);
    break;
  default:
    break;
  }
  if (!o)
    xg_refuse(e, "this reduction across lanes");
  else
    xg_emit(e, (mi){.op = (uint16_t)o, .vl = s->vl, .d = d, .a = x, .b = y});
  return d;
}
static vr whole(sel *e, etype t, vr x) { /* The first lane of a vector as a whole number in a register. */
  vr g = xg_new(e, RG, 0);
  xg_emit(e, (mi){.op = et_bytes(t) == 8 ? V_MOVQG : V_MOVDG, .d = g, .a = x});
  return xg_wrapped(e, t, g);
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
    if (i->op == RED_ALL) g = xg_g1(e, G_NOT, g);
    if (s.lanes < 64) g = xg_gop(e, G_AND, g, xg_imm(e, (int64_t)((1ull << s.lanes) - 1)));
    vr r = i->op == RED_ALL ? xg_choose(e, g, 0, CC_E, one, z) : xg_choose(e, g, 0, CC_NE, one, z);
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
  if (ty.lanes == 1 || (s.cls == RV && (t == ET_BOOL || s.bytes < 4)))
    xg_refuse(e, "extract");
  else if (s.cls == RK) {
    vr k = xg_new(e, RK, 0), g = xg_new(e, RG, 0);
    xg_emit(e, (mi){.op = V_KSHR, .d = k, .b = xg_part(e, i->a, 0), .imm = i->k.i});
    xg_emit(e, (mi){.op = V_KMOVQG, .d = g, .b = k});
    vr r = xg_gopi(e, G_AND, g, 1);
    xg_result(e, v, 1, &r);
  } else
    put_scalar(
        e, v, t,
        xg_sub(e, xg_part(e, i->a, (unsigned)i->k.i / s.per), s.vl, (unsigned)i->k.i % s.per * s.bytes, s.bytes));
  e->at = e->cur;
}
/* ---- other orders of lanes ----
 * Those that one instruction has, with its formula in the bytes of a register: pieces of x and y in turns
 * (unpack), four places alike in each 16 bytes (shuffle), whole 16 bytes. Others by a table of places. */
typedef struct order {
  const int32_t *lane; /* per lane of the result: lane of x, or per + lane of y; -1: any */
  unsigned per;        /* lanes of a register */
  unsigned bytes;      /* bytes of a lane */
  unsigned vl;         /* VL* of a register */
  bool two;            /* y is read, too */
} order;
static bool fits(const order *o, unsigned l, unsigned y, unsigned at) {
  return o->lane[l] < 0 || (unsigned)o->lane[l] == at + (y ? o->per : 0) || (!o->two && (unsigned)o->lane[l] == at);
}
static bool in_turns(const order *o, unsigned piece, bool high) {
  for (unsigned l = 0; l < o->per; l++) {
    unsigned in = l * o->bytes % 16, n = in / piece,
             from = l * o->bytes / 16 * 16 + (n / 2) * piece + (high ? 8 : 0) + in % piece;
    if (!fits(o, l, n % 2, from / o->bytes)) return false;
  }
  return true;
}
enum { ANY = -1, BROKEN = -2 };
static int32_t four(const order *o, unsigned q) { /* The place that the q-th 4 bytes of the result come from. */
  unsigned r = o->bytes < 4 ? 4 / o->bytes : 1;
  int32_t first = o->bytes == 8 ? o->lane[q / 2] : ANY;
  if (o->bytes == 8) return first < 0 ? ANY : 2 * first + (int32_t)(q % 2);
  for (unsigned l = 0; l < r; l++) {
    int32_t at = o->lane[q * r + l] - (int32_t)l;
    if (o->lane[q * r + l] < 0) continue;
    if (at < 0 || at % (int32_t)r || (first >= 0 && at != first)) return BROKEN;
    first = at;
  }
  return first < 0 ? ANY : first / (int32_t)r;
}
static bool in_fours(const order *o, int64_t *imm) {
  int32_t to[4] = {-1, -1, -1, -1}, n = (int32_t)(o->per * o->bytes / 4);
  for (int32_t q = 0; q < n; q++) {
    int32_t at = four(o, (unsigned)q);
    if (at == ANY) continue;
    if (at < 0) return false;
    if (o->two && at >= n ? q % 4 < 2 : o->two && q % 4 >= 2) return false;
    at %= n;
    if (at / 4 != q / 4 || (to[q % 4] >= 0 && to[q % 4] != at % 4)) return false;
    to[q % 4] = at % 4;
  }
  for (int k = 0; k < 4; k++) *imm |= (int64_t)(to[k] < 0 ? k : to[k]) << 2 * k;
  return true;
}
/* of 16 bytes; any_register: by the instruction that reaches all registers, whose first half comes from x, the
 * second from y */
static bool in_parts(const order *o, bool any_register, int64_t *imm) {
  int32_t to[4] = {-1, -1, -1, -1}, n = (int32_t)(o->per * o->bytes / 4), parts = n / 4;
  for (int32_t q = 0; q < n; q++) {
    int32_t at = four(o, (unsigned)q);
    if (at == ANY) continue;
    if (at < 0 || at % 4 != q % 4 || (to[q / 4] >= 0 && to[q / 4] != at / 4)) return false;
    to[q / 4] = at / 4;
  }
  for (int32_t k = 0; k < parts; k++) {
    int32_t at = to[k] < 0 ? k : to[k];
    if (!any_register)
      *imm |= (int64_t)at << 4 * k;
    else if (o->two && to[k] >= 0 && (at >= parts) != (k >= parts / 2))
      return false;
    else
      *imm |= (int64_t)(at % parts) << (parts / 2) * k;
  }
  return n > 4;
}
static bool at_once(sel *e, const order *o, vr x, vr y, vr *d) {
  static const uint16_t turns[4][2] = {
      {V_UNPCKLB, V_UNPCKHB}, {V_UNPCKLW, V_UNPCKHW}, {V_UNPCKLD, V_UNPCKHD}, {V_UNPCKLQ, V_UNPCKHQ}};
  mi i = {.vl = (uint8_t)o->vl, .a = x, .b = y ? y : x};
  for (unsigned k = 0; k < 8 && !i.op; k++)
    if (1u << k / 2 >= o->bytes && in_turns(o, 1u << k / 2, k % 2)) i.op = turns[k / 2][k % 2];
  if (!i.op && in_fours(o, &i.imm)) i.op = V_SHUFPS;
  if (!i.op) i.imm = 0;
  if (!i.op && in_parts(o, e->avx512, &i.imm)) i.op = e->avx512 ? V_SHUFF128 : V_PERM2F128;
  if (!i.op) return false;
  i.d = *d = xg_new(e, RV, o->vl);
  xg_emit(e, i);
  return true;
}
/* where no table reaches over two registers: pieces of 4 bytes of each */
static vr by_places(sel *e, const order *o, unsigned lanes, vr x, vr y) {
  int32_t at[2][8] = {{0}}, from[8] = {0}, n = (int32_t)(o->per * o->bytes / 4);
  vr d[3];
  for (unsigned q = 0; q < lanes * o->bytes / 4; q++) {
    int32_t k = four(o, q);
    if (k == BROKEN) xg_refuse(e, "this order of pieces under 32 bits");
    if (k >= 0) at[k >= n][q] = k % n, from[q] = -(k >= n);
  }
  for (unsigned k = 0; k < (y ? 2 : 1); k++) {
    d[k] = xg_new(e, RV, VL256);
    xg_emit(e, (mi){.op = V_PERMD, .vl = VL256, .d = d[k], .a = xg_pool_vector(e, at[k], VL256), .b = k ? y : x});
  }
  if (!y) return d[0];
  d[2] = xg_new(e, RV, VL256);
  xg_emit(e, (mi){.op = V_BLENDVPS, .vl = VL256, .d = d[2], .a = d[0], .b = d[1], .c = xg_pool_vector(e, from, VL256)});
  return d[2];
}
static vr permuted(sel *e, const shp *s, const shp *o, const int32_t *lane, vr x, vr y) {
  uint8_t idx[64] = {0};
  unsigned vl = s->vl > o->vl ? s->vl : o->vl;
  order way = {lane, s->per, s->bytes, s->vl, y != 0};
  vr d;
  if (s->per == o->per && s->vl == o->vl && s->per * s->bytes == 16u << s->vl && at_once(e, &way, x, y, &d)) return d;
  if (!e->avx512) return by_places(e, &way, o->per, x, y);
  if (!y && vl == VL128 && s->bytes > 2) vl = VL256;
  unsigned per = (16u << vl) / s->bytes;
  for (unsigned l = 0; l < o->per; l++) {
    uint64_t k = lane[l] < 0 ? 0 : (unsigned)lane[l] < s->per ? (unsigned)lane[l] : (unsigned)lane[l] - s->per + per;
    memcpy(idx + l * s->bytes, &k, s->bytes);
  }
  unsigned op =
      y ? xg_by_size(s->bytes, 0, V_PERMI2W, V_PERMI2D, V_PERMI2Q) : xg_by_size(s->bytes, 0, V_PERMW, V_PERMD, V_PERMQ);
  if (!op) xg_refuse(e, "this order of bytes");
  vr table = xg_pool_vector(e, idx, vl);
  d = xg_new(e, RV, vl);
  if (y) xg_emit(e, (mi){.op = V_MOVV, .vl = (uint8_t)vl, .d = d, .b = table});
  xg_emit(e, y ? (mi){.op = (uint16_t)op, .vl = (uint8_t)vl, .d = d, .a = x, .b = y, .flags = F_RMW}
               : (mi){.op = (uint16_t)op, .vl = (uint8_t)vl, .d = d, .a = table, .b = x});
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
  if (s.cls != RV || t == ET_BOOL || ty.lanes == 1) {
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
    vr x = used[0] < 0     ? xg_part(e, i->a, 0)
           : used[0] < s.n ? xg_part(e, i->a, (unsigned)used[0])
                           : xg_part(e, i->b, (unsigned)used[0] - s.n),
       y = 0;
    if (used[1] >= 0)
      y = used[1] < s.n ? xg_part(e, i->a, (unsigned)used[1]) : xg_part(e, i->b, (unsigned)used[1] - s.n);
    unsigned at = first < 0 ? 0 : (unsigned)first % s.per * s.bytes, n = o.per * s.bytes;
    if (row && first >= 0 && !y && at % n == 0 && (at == 0 || n >= 4))
      p[q] = xg_sub(e, x, s.vl, at, n);
    else
      p[q] = permuted(e, &s, &o, lane, x, y);
  }
  if (o.lanes == 1)
    put_scalar(e, v, t, p[0]);
  else
    xg_result(e, v, o.n, p);
  e->at = e->cur;
}
void xg_lookup(sel *e, lv v, const linst *i) {
  shp s = xg_shape(e, li(e->f, i->a)->type);
  uint32_t k[16];
  vr p[PARTS];
  xg_begin(e, v, &i->a, 1);
  if (!e->avx512) xg_refuse(e, "a lookup");
  for (unsigned n = 0; n < 16; n++) k[n] = i->args[n % i->nargs];
  e->into[v] = 0;
  for (unsigned q = 0; q < s.n; q++) {
    vr at = xg_part(e, i->a, q), table = xg_pool_vector(e, k, VL512);
    p[q] = xg_new(e, RV, VL512);
    if (s.cls == RG) {
      vr one = xg_new(e, RV, 0);
      xg_emit(e, (mi){.op = V_MOVD, .d = one, .b = at});
      at = one;
    }
    xg_emit(e, (mi){.op = V_PERMD, .vl = VL512, .d = p[q], .a = at, .b = table});
  }
  if (i->type.lanes == 1)
    put_scalar(e, v, (etype)i->type.elem, p[0]);
  else
    xg_result(e, v, s.n, p);
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
  if (s.cls == RK)
    d = xg_scalar_mask(e, xg_gpr(e, i->a));
  else if (i->type.elem == ET_BOOL) {
    vr one = xg_new(e, RV, 0);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = V_MOVD, .d = one, .b = xg_g1(e, G_NEG, xg_gpr(e, i->a))});
    xg_emit(e, (mi){.op = V_BCD, .vl = s.vl, .d = d, .b = one});
  } else if (o.cls == RV) {
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = s.bytes == 4 ? V_BCSS
                          : s.vl       ? V_BCSD
                                       : V_MOVDDUP,
                    .vl = s.vl,
                    .d = d,
                    .b = xg_part(e, i->a, 0)});
  } else if (e->avx512) {
    vr g = xg_gpr(e, i->a);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = (uint16_t)xg_by_size(s.bytes, V_BCGB, V_BCGW, V_BCGD, V_BCGQ), .vl = s.vl, .d = d, .b = g});
  } else {
    vr g = xg_gpr(e, i->a), one = xg_new(e, RV, 0);
    d = xg_new(e, RV, s.vl);
    xg_emit(e, (mi){.op = V_MOVQ, .d = one, .b = g});
    xg_emit(e, (mi){.op = (uint16_t)xg_by_size(s.bytes, V_BCB, V_BCW, V_BCD, V_BCQ), .vl = s.vl, .d = d, .b = one});
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
