/* How do emitters get away with few operations? loop_expand rebuilds a function with everything that the emitter
 * does not have natively written in what it has.
 *
 *   narrow floats (f16, bf16, f8*, f4): arithmetic in f32 with rounding after each operation; casts by integer
 *   operations (small.c)
 *   integers under 8 bits: in bytes, wrapped after each operation
 *   functions of floats: polynomials (math.c);  sat, sign, mod, nextafter, pow of integers, rand: sequences here
 *
 * The old instructions are left as they were (the caller may hold a copy of the lfunc); the function gets new
 * arrays. What comes out is for emitters only: bitcasts may change between a byte and a narrower integer.
 */
#include "loop/expand.h"
#include <string.h>

static bool sub_byte(etype t) { return et_kind(t) != K_FLOAT && et_bits(t) < 8; }
static etype byte_of(etype t) { return et_kind(t) == K_UINT ? ET_U8 : ET_I8; }

/* Is the operation as it stands something the emitter has? */
static bool direct(const xp *p, sop op, etype to, etype from) {
  if (op == OP_SEL) return true;
  if (op == OP_BITCAST) return !sub_byte(to) && !sub_byte(from);
  if (op == OP_CAST) return x_cast_direct(p, to, from);
  if (x_narrow(to) || sub_byte(to) || (op == OP_SAT && to == ET_BOOL)) return false;
  return p->native(p->env, op, from);
}

/* ---- integers -------------------------------------------------------------------------------- */
static lv int_pow(xp *p, lv x, lv y) { /* x^y by squaring; negative exponents give 0, but for x of 1 and -1 */
  lbuild *b = p->b;
  ltype t = x_type(p, x);
  bool is_signed = et_kind((etype)t.elem) == K_INT;
  lv one = xi(p, x, 1), zero = xi(p, x, 0), k;
  lv acc = lb_reg(b, one), sq = lb_reg(b, x), e = lb_reg(b, y);
  lb_for(b, "pow", lb_int(b, 0), lb_int(b, et_bits((etype)t.elem)), lb_int(b, 1), 0, &k);
  lv q = lb_get(b, sq), n = lb_get(b, e), a = lb_get(b, acc);
  lv odd = xcmp(p, OP_NE, x2(p, OP_BAND, n, one), zero);
  lb_set(b, acc, xsel(p, odd, x2(p, OP_MUL, a, q), a));
  lb_set(b, sq, x2(p, OP_MUL, q, q));
  lb_set(b, e, x2(p, OP_SHR, n, one));
  lb_end(b);
  lv r = lb_get(b, acc);
  if (!is_signed) return r;
  lv sign = xsel(p, xcmp(p, OP_EQ, x2(p, OP_BAND, y, one), zero), one, xi(p, x, -1));
  lv inv = xsel(p, xcmp(p, OP_EQ, x, one), one, xsel(p, xcmp(p, OP_EQ, x, xi(p, x, -1)), sign, zero));
  return xsel(p, xcmp(p, OP_LT, y, zero), inv, r);
}
/* Philox 4x32-10 in 64-bit words: key and counter as in expr/ops.h. */
static lv philox(xp *p, lv seed, lv position) {
  unsigned lanes = x_type(p, seed).lanes;
  lv s = xbits(p, ET_U64, seed), n = xbits(p, ET_U64, position), low = xi(p, s, 0xffffffff), w = xi(p, s, 32);
  lv k0 = x2(p, OP_BAND, s, low), k1 = x2(p, OP_SHR, s, w);
  lv c[4] = {x2(p, OP_BAND, n, low), x2(p, OP_SHR, n, w), xi(p, s, 0), xi(p, s, 0)};
  for (int r = 0; r < 10; r++) {
    if (r) {
      k0 = x2(p, OP_BAND, x2(p, OP_ADD, k0, xi(p, s, 0x9E3779B9)), low);
      k1 = x2(p, OP_BAND, x2(p, OP_ADD, k1, xi(p, s, 0xBB67AE85)), low);
    }
    lv a = x2(p, OP_MUL, c[0], xi(p, s, 0xD2511F53)), b = x2(p, OP_MUL, c[2], xi(p, s, 0xCD9E8D57));
    lv n0 = x2(p, OP_BXOR, x2(p, OP_BXOR, x2(p, OP_SHR, b, w), c[1]), k0),
       n2 = x2(p, OP_BXOR, x2(p, OP_BXOR, x2(p, OP_SHR, a, w), c[3]), k1);
    c[1] = x2(p, OP_BAND, b, low);
    c[3] = x2(p, OP_BAND, a, low);
    c[0] = n0;
    c[2] = n2;
  }
  lv top = x_op(p, OP_CAST, lt(ET_I32, lanes), x2(p, OP_SHR, c[0], xi(p, s, 8)), 0, 0);
  lv f = x_op(p, OP_CAST, lt(ET_F32, lanes), top, 0, 0);
  return x2(p, OP_MUL, f, xf(p, f, 0x1p-24));
}
/* Clamps to the range of integer type `to` (bool: 0 and 1), then converts. NaN gives 0. */
static lv sat_int(xp *p, etype to, lv x) {
  ltype t = x_type(p, x);
  etype from = (etype)t.elem;
  unsigned bits = et_bits(to);
  bool u = et_kind(to) != K_INT;
  if (to == ET_BOOL) return et_kind(from) == K_FLOAT ? xcmp(p, OP_GE, x, xf(p, x, 1)) : xcmp(p, OP_GT, x, xi(p, x, 0));
  if (et_kind(from) == K_FLOAT) {
    /* above: the least value that is too large */
    double lo = u ? 0 : -(double)((uint64_t)1 << (bits - 1)),
           top = u ? (bits == 64 ? 0x1p64 : (double)((uint64_t)1 << bits)) : (double)((uint64_t)1 << (bits - 1));
    uint64_t hi = u ? (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1) : ((uint64_t)1 << (bits - 1)) - 1;
    lv c = x2(p, OP_MAX, x, xf(p, x, lo)), over = xcmp(p, OP_GE, c, xf(p, x, top));
    lv in = x_cast(p, to, xsel(p, over, xf(p, x, 0), c));
    return xsel(p, over, xi(p, in, (int64_t)hi), in);
  }
  if (from == ET_BOOL) return x_cast(p, to, x);
  unsigned fb = et_bits(from);
  bool fu = et_kind(from) == K_UINT;
  int64_t hi = u ? (bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1) : (int64_t)(((uint64_t)1 << (bits - 1)) - 1),
          lo = u ? 0 : -hi - 1;
  bool cut_hi = fu ? fb > bits - !u : fb - 1 > bits - !u, cut_lo = !fu && (u || fb > bits);
  if (cut_hi) x = x2(p, OP_MIN, x, xi(p, x, hi));
  if (cut_lo) x = x2(p, OP_MAX, x, xi(p, x, lo));
  return x_cast(p, to, x);
}

/* ---- floats ---------------------------------------------------------------------------------- */
static lv sign_float(xp *p, lv x) {
  lv zero = xf(p, x, 0), r = xsel(p, xcmp(p, OP_EQ, x, zero), zero, x);
  r = xsel(p, xcmp(p, OP_GT, x, zero), xf(p, x, 1), r);
  return xsel(p, xcmp(p, OP_LT, x, zero), xf(p, x, -1), r);
}
static lv with_sign(xp *p, lv mag, lv sign) { /* bits of mag with the sign of sign */
  etype f = (etype)x_type(p, mag).elem, i = f == ET_F64 ? ET_I64 : ET_I32;
  lv m = xbits(p, i, mag), s = xbits(p, i, sign), top = xi(p, m, f == ET_F64 ? INT64_MIN : INT32_MIN);
  return xbits(p, f, x2(p, OP_BOR, m, x2(p, OP_BAND, s, top)));
}
/* To an integer by adding and subtracting 2^23 (2^52): needs neither instruction nor library. */
static lv round_float(xp *p, sop op, lv x) {
  double big = x_type(p, x).elem == ET_F64 ? 0x1p52 : 0x1p23;
  lv a = x1(p, OP_ABS, x), k = xf(p, x, big), r = x2(p, OP_SUB, x2(p, OP_ADD, a, k), k);
  lv one = xf(p, x, 1), zero = xf(p, x, 0);
  if (op == OP_TRUNC) r = x2(p, OP_SUB, r, xsel(p, xcmp(p, OP_GT, r, a), one, zero));
  r = with_sign(p, r, x);
  r = xsel(p, xcmp(p, OP_LT, a, k), r, x); /* large, inf, NaN: themselves */
  if (op == OP_FLOOR && !EK_PLANTED("loop-expand")) return xsel(p, xcmp(p, OP_GT, r, x), x2(p, OP_SUB, r, one), r);
  if (op == OP_CEIL) return xsel(p, xcmp(p, OP_LT, r, x), with_sign(p, x2(p, OP_ADD, r, one), x), r);
  return r;
}
static lv mod_float(xp *p, lv x, lv y) {
  lv r = x2(p, OP_FMOD, x, y), zero = xf(p, x, 0);
  lv differ = xcmp(p, OP_NE, xcmp(p, OP_LT, r, zero), xcmp(p, OP_LT, y, zero));
  lv off = x_op(p, OP_AND, x_type(p, differ), differ, xcmp(p, OP_NE, r, zero), 0);
  return xsel(p, off, x2(p, OP_ADD, r, y), r);
}
/* The neighbour of x towards y, by its bits: works for every float whose code is sign and magnitude. */
static lv nextafter_bits(xp *p, lv x, lv y) {
  etype f = (etype)x_type(p, x).elem, i = f == ET_F64        ? ET_I64
                                          : f == ET_F32      ? ET_I32
                                          : et_bits(f) == 16 ? ET_I16
                                                             : ET_I8;
  int64_t top = f == ET_F64 ? INT64_MIN : -((int64_t)1 << (et_bits(f) - 1));
  bool narrow = x_narrow(f);
  lv fx = narrow ? x_cast(p, ET_F32, x) : x, fy = narrow ? x_cast(p, ET_F32, y) : y;
  lv bx = xbits(p, i, x), by = xbits(p, i, y), zero = xf(p, fx, 0), one = xi(p, bx, 1);
  lv away = xcmp(p, OP_EQ, xcmp(p, OP_GT, fy, fx), xcmp(p, OP_GT, fx, zero)); /* does the magnitude grow? */
  lv step = x2(p, OP_ADD, bx, xsel(p, away, one, xi(p, bx, -1)));
  lv tiny = x2(p, OP_BOR, one, x2(p, OP_BAND, by, xi(p, bx, top)));
  lv r = xsel(p, xcmp(p, OP_EQ, fx, zero), tiny, step);
  r = xsel(p, xcmp(p, OP_EQ, fx, fy), by, r);
  r = xbits(p, f, r);
  r = xsel(p, xtest(p, OP_ISNAN, fy), y, r);
  return xsel(p, xtest(p, OP_ISNAN, fx), x, r);
}

/* ---- dispatch -------------------------------------------------------------------------------- */
lv x_op(xp *p, sop op, ltype t, lv x, lv y, lv z) {
  lbuild *b = p->b;
  ltype xt = x_type(p, x);
  etype from = (etype)xt.elem, to = (etype)t.elem;
  unsigned lanes = t.lanes;
  if (direct(p, op, to, from)) return lb_op(b, op, t, x, y, z);
  if (op == OP_CAST) return x_cast(p, to, x);
  /* a byte holds the value, so the bits above follow the sign */
  if (op == OP_BITCAST && sub_byte(to) && et_bits(from) < 8) {
    lv u = et_kind(from) == K_FLOAT ? lb_op(b, op, lt(et_bits(to) == 2 ? ET_U2 : ET_U4, lanes), x, 0, 0) : x;
    return x_cast(p, to, u);
  }
  if (op == OP_BITCAST) return lb_op(b, op, t, x, 0, 0);
  if (op == OP_SAT && et_kind(to) != K_FLOAT && !x_narrow(from) && !sub_byte(from)) return sat_int(p, to, x);
  if (op == OP_SAT || op == OP_SATF) {
    if (x_narrow(from)) return x_op(p, op, t, x_cast(p, ET_F32, x), 0, 0);
    if (sub_byte(from)) return x_op(p, op, t, x_cast(p, byte_of(from), x), 0, 0);
    /* the limits are exact in x's type */
    if (et_kind(from) != K_FLOAT || et_bits(to) > et_bits(from)) x = x_cast(p, et_bits(from) > 16 ? ET_F64 : ET_F32, x);
    x = x2(p, OP_MIN, x2(p, OP_MAX, x, xf(p, x, et_lowest(to))), xf(p, x, et_highest(to)));
    return x_cast(p, to, x);
  }
  if (op == OP_NEXTAFTER) return nextafter_bits(p, x, y);
  if (x_narrow(from)) { /* converted in f32, then rounded */
    lv v[3] = {x, y, z};
    for (unsigned i = 0; i < loop_sop_arity(op); i++) v[i] = x_cast(p, ET_F32, v[i]);
    bool same = loop_sop_result(op) == RES_S;
    lv r = x_op(p, op, same ? lt(ET_F32, lanes) : t, v[0], v[1], v[2]);
    return same ? x_cast(p, from, r) : r;
  }
  if (sub_byte(from)) {
    lv v[3] = {x, y, z};
    etype w = byte_of(from);
    for (unsigned i = 0; i < loop_sop_arity(op); i++) v[i] = x_cast(p, w, v[i]);
    bool same = loop_sop_result(op) == RES_S;
    lv r = x_op(p, op, same ? lt(w, lanes) : t, v[0], v[1], v[2]);
    return same ? x_cast(p, from, r) : r;
  }
  bool fl = et_kind(from) == K_FLOAT;
  switch (op) {
  case OP_RAND:
    return philox(p, x, y);
  case OP_POW:
    if (!fl) return int_pow(p, x, y);
    break;
  case OP_SIGN: {
    if (fl) return sign_float(p, x);
    lv zero = xi(p, x, 0), r = xsel(p, xcmp(p, OP_EQ, x, zero), zero, xi(p, x, 1));
    return et_kind(from) == K_INT ? xsel(p, xcmp(p, OP_LT, x, zero), xi(p, x, -1), r) : r;
  }
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
  case OP_ROUND_EVEN:
    return round_float(p, op, x);
  case OP_IDIV:
    if (fl) return x1(p, OP_FLOOR, x2(p, OP_DIV, x, y));
    break;
  case OP_MOD:
    if (fl) return mod_float(p, x, y);
    break;
  case OP_FMA:
    return x2(p, OP_ADD, x2(p, OP_MUL, x, y), z);
  default:
    break;
  }
  if (from == ET_BOOL && (op == OP_ADD || op == OP_MUL)) return lb_op(b, op == OP_ADD ? OP_OR : OP_AND, t, x, y, 0);
  lv r = fl ? x_math(p, op, x, y) : 0;
  if (!r)
    ctx_fail(p->c, E_UNSUPPORTED, "code generation: operation %s of %s is not available", loop_sop_name(op),
             et_name(from));
  return r;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */
typedef struct rebuild {
  xp x;             /* expansion */
  const lfunc *src; /* function that is read */
  lbuild b;         /* builder of the new one */
  lv *to;           /* old value -> new */
  /* only `intrin` is replaced (loop_spell); NULL: operations are */
  lv (*spell)(void *env, lbuild *b, const linst *i, const lv *args);
  void *env; /* handed to spell */
} rebuild;
static void copy_block(rebuild *r, uint32_t block) {
  const lblock *k = &r->src->blocks.v[block];
  lbuild *b = &r->b;
#define M(v) ((v) ? r->to[v] : 0)
  for (uint32_t j = 0; j < k->insts.n; j++) {
    lv v = k->insts.v[j];
    linst i = *li(r->src, v);
    switch ((lkind)i.kind) {
    case L_PARAM:
      continue; /* the emitter has all that this instruction needs */
    case L_OP:
      if (r->spell) break;
      r->to[v] = x_op(&r->x, (sop)i.op, i.type, M(i.a), M(i.b), M(i.c));
      continue;
    case L_SPLAT:
      r->to[v] = lb_splat(b, i.type.lanes, M(i.a));
      continue;
    case L_EXTRACT:
      r->to[v] = lb_extract(b, M(i.a), (uint32_t)i.k.i);
      continue;
    case L_HREDUCE: {
      etype t = (etype)i.type.elem;
      if (r->spell) break;
      if (x_narrow(t) || sub_byte(t)) { /* computed in the wider type, then rounded once */
        lv w = x_cast(&r->x, x_narrow(t) ? ET_F32 : byte_of(t), M(i.a));
        r->to[v] = x_cast(&r->x, t, lb_hreduce(b, (rop)i.op, w));
      } else {
        r->to[v] = lb_hreduce(b, (rop)i.op, M(i.a));
      }
      continue;
    }
    case L_FOR:
      lb_for(b, i.name, M(i.a), M(i.b), M(i.c), (unsigned)i.k.i, &r->to[v]);
      if (i.mask) lb_while(b, r->to[v], M(i.mask));
      copy_block(r, i.body);
      lb_end(b);
      continue;
    case L_IF:
      lb_if(b, M(i.a));
      copy_block(r, i.body);
      if (i.other) {
        lb_else(b);
        copy_block(r, i.other);
      }
      lb_end(b);
      continue;
    default:
      break;
    }
    i.a = M(i.a), i.b = M(i.b), i.c = M(i.c), i.mask = M(i.mask), i.count = M(i.count), i.stride = M(i.stride);
    if (i.nargs && li_lists_values(&i)) {
      uint32_t *args = NEWN(r->b.f->a, uint32_t, i.nargs);
      for (uint32_t n = 0; n < i.nargs; n++) args[n] = M(i.args[n]);
      i.args = args;
    }
    if (i.kind == L_INTRIN && r->spell && (r->to[v] = r->spell(r->env, b, &i, i.args))) continue;
    switch ((lkind)i.kind) {
    case L_CONST:
    case L_OP:
    case L_HREDUCE:
    case L_LO:
    case L_HI:
    case L_WORKER:
    case L_IOTA:
    case L_OFFSET:
    case L_SHUFFLE:
    case L_LOOKUP:
    case L_SCRATCH:
    case L_INTRIN:
      r->to[v] = lb_pure(b, i);
      break;
    default:
      r->to[v] = lb_effect(b, i);
    }
  }
#undef M
}
static void rebuild_function(rebuild *r, lfunc *f) {
  const lfunc old = *f;
  r->src = &old;
  r->to = NEWN(f->a, lv, old.insts.n);
  f->insts.v = NULL, f->insts.n = f->insts.cap = 0;
  f->blocks.v = NULL, f->blocks.n = f->blocks.cap = 0;
  f->params.v = NULL, f->params.n = f->params.cap = 0;
  vec_push(f->a, f->insts, (linst){0});
  vec_push(f->a, f->blocks, (lblock){0});
  vec_push(f->a, f->blocks, (lblock){0});
  r->b = loop_builder(f);
  r->x.b = &r->b;
  for (uint32_t i = 0; i < old.params.n; i++) {
    const lparam *q = &old.params.v[i];
    r->to[q->value] = lb_param(&r->b, q->name, q->type, q->flags, q->align);
  }
  copy_block(r, 1);
}
void loop_expand(lmodule *m, lfunc *f, bool (*native)(void *env, sop op, etype t), void *env) {
  rebuild r = {.x = {.c = m->c, .native = native, .env = env, .fast = m->fast, .flush = m->flush}};
  bool needed = false;
  for (uint32_t i = 1; i < f->insts.n && !needed; i++) {
    const linst *k = &f->insts.v[i];
    etype t = (etype)k->type.elem;
    if (k->kind == L_OP) needed = !direct(&r.x, (sop)k->op, t, (etype)li(f, k->a)->type.elem);
    if (k->kind == L_HREDUCE) needed = x_narrow(t) || sub_byte(t);
  }
  if (needed) rebuild_function(&r, f);
}
void loop_spell(lfunc *f, lv (*spell)(void *env, lbuild *b, const linst *i, const lv *args), void *env) {
  rebuild r = {.spell = spell, .env = env};
  bool needed = false;
  for (uint32_t i = 1; i < f->insts.n && !needed; i++) needed = f->insts.v[i].kind == L_INTRIN;
  if (needed) rebuild_function(&r, f);
}
