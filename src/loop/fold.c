/* What does the builder simplify? Operations on constants, and the neutral and absorbing elements of integers
 * (floats only where it is exact for every value, NaN and -0 included).
 *
 * Sums of an index are kept as (rest + constant), so that unrolled copies share the rest and the constant becomes
 * a displacement.
 */
#include "loop/build.h"
#include <math.h>

static bool is_unsigned(etype t) { return et_kind(t) == K_UINT || et_kind(t) == K_BOOL; }
static int icmp(etype t, int64_t x, int64_t y) {
  if (is_unsigned(t)) return (uint64_t)x<(uint64_t)y ? -1 : (uint64_t)x>(uint64_t) y;
  return x < y ? -1 : x > y;
}
static int64_t int_div(etype t, int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (is_unsigned(t)) return (int64_t)((uint64_t)x / (uint64_t)y);
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  return floordiv64(x, y);
}
static int64_t int_mod(etype t, int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (is_unsigned(t)) return (int64_t)((uint64_t)x % (uint64_t)y);
  if (y == -1) return 0;
  return floormod64(x, y);
}
bool loop_eval_int(sop op, etype t, int64_t x, int64_t y, int64_t *r) {
  uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
  switch (op) {
  case OP_ADD:
    *r = (int64_t)(ux + uy);
    return true;
  case OP_SUB:
    *r = (int64_t)(ux - uy);
    return true;
  case OP_MUL:
    *r = (int64_t)(ux * uy);
    return true;
  case OP_IDIV:
    *r = int_div(t, x, y);
    return true;
  case OP_MOD:
    *r = int_mod(t, x, y);
    return true;
  case OP_NEG:
    *r = (int64_t)(0 - ux);
    return true;
  case OP_ABS:
    *r = !is_unsigned(t) && x < 0 ? (int64_t)(0 - ux) : x;
    return true;
  case OP_MIN:
    *r = icmp(t, x, y) < 0 ? x : y;
    return true;
  case OP_MAX:
    *r = icmp(t, x, y) > 0 ? x : y;
    return true;
  case OP_AND:
  case OP_BAND:
    *r = x & y;
    return true;
  case OP_OR:
  case OP_BOR:
    *r = x | y;
    return true;
  case OP_BXOR:
    *r = x ^ y;
    return true;
  case OP_NOT:
    *r = !x;
    return true;
  case OP_BNOT:
    *r = t == ET_BOOL ? !x : ~x;
    return true;
  case OP_SHL:
    *r = y < 0 || y >= (int64_t)et_bits(t) ? 0 : (int64_t)(ux << y);
    return true;
  case OP_EQ:
    *r = x == y;
    return true;
  case OP_NE:
    *r = x != y;
    return true;
  case OP_LT:
    *r = icmp(t, x, y) < 0;
    return true;
  case OP_LE:
    *r = icmp(t, x, y) <= 0;
    return true;
  case OP_GT:
    *r = icmp(t, x, y) > 0;
    return true;
  case OP_GE:
    *r = icmp(t, x, y) >= 0;
    return true;
  default:
    return false;
  }
}
/* Operands have one type; the caller rounds: f64 is exact for every narrower type. */
static bool eval_float(sop op, double x, double y, scalar *r) {
  switch (op) {
  case OP_ADD:
    r->f = x + y;
    return true;
  case OP_SUB:
    r->f = x - y;
    return true;
  case OP_MUL:
    r->f = x * y;
    return true;
  case OP_DIV:
    r->f = x / y;
    return true;
  case OP_NEG:
    r->f = -x;
    return true;
  case OP_ABS:
    r->f = fabs(x);
    return true;
  case OP_SQRT:
    r->f = sqrt(x);
    return true;
  case OP_MIN:
    r->f = x < y || isnan(x) ? x : y;
    return true;
  case OP_MAX:
    r->f = x > y || isnan(x) ? x : y;
    return true;
  case OP_EQ:
    r->i = x == y;
    return true;
  case OP_NE:
    r->i = x != y;
    return true;
  case OP_LT:
    r->i = x < y;
    return true;
  case OP_LE:
    r->i = x <= y;
    return true;
  case OP_GT:
    r->i = x > y;
    return true;
  case OP_GE:
    r->i = x >= y;
    return true;
  default:
    return false;
  }
}
static bool eval(sop op, ltype t, etype from, scalar x, scalar y, scalar *r) {
  ekind k = et_kind(from);
  if (op == OP_CAST) {
    *r = et_convert((etype)t.elem, from, x);
    return true;
  }
  if (k == K_FLOAT) return et_bits(from) >= 16 && eval_float(op, x.f, y.f, r);
  return k != K_STR && loop_eval_int(op, from, x.i, y.i, &r->i);
}

/* x = base + *k with a constant; base itself and 0 if it is no such sum. */
static lv split_sum(const lfunc *f, lv x, int64_t *k) {
  const linst *i = li(f, x);
  scalar c;
  *k = 0;
  if (i->kind == L_OP && i->op == OP_ADD && loop_const(f, i->b, &c)) {
    *k = c.i;
    return i->a;
  }
  return x;
}
static lv int_const(lbuild *b, ltype t, int64_t v) { return lb_const(b, t, (scalar){.i = v}); }
static bool power_of_2(int64_t v, int *log) {
  if (v <= 0 || (v & (v - 1))) return false;
  *log = __builtin_ctzll((uint64_t)v);
  return true;
}
/* Identities of integers: x is any value, k the constant on the right (kr), or both unknown. 0: none. */
static lv fold_int(lbuild *b, sop op, ltype t, lv x, lv y, bool kr, int64_t k) {
  etype e = (etype)t.elem;
  scalar c;
  if (kr) switch (op) {
    case OP_ADD: {
      if (k == 0) return x;
      int64_t have;
      lv base = split_sum(b->f, x, &have);
      if (base != x) return lb_op(b, OP_ADD, t, base, int_const(b, t, (int64_t)((uint64_t)have + (uint64_t)k)), 0);
      break;
    }
    case OP_SUB:
      return lb_op(b, OP_ADD, t, x, int_const(b, t, (int64_t)(0 - (uint64_t)k)), 0);
    case OP_MUL: {
      const linst *i = li(b->f, x);
      lv first = i->a;
      if (k == 0) return y;
      if (k == 1) return x;
      if (i->kind == L_OP && i->op == OP_MUL && loop_const(b->f, i->b, &c))
        return lb_op(b, OP_MUL, t, first, int_const(b, t, (int64_t)((uint64_t)c.i * (uint64_t)k)), 0);
      break;
    }
    case OP_IDIV: {
      int s;
      if (k == 1) return x;
      if (k == 0) return y;
      if (et_bits(e) >= 8 && power_of_2(k, &s)) return lb_op(b, OP_SHR, t, x, int_const(b, t, s), 0);
      break;
    }
    case OP_MOD: {
      int s;
      if (k == 1) return int_const(b, t, 0);
      if (et_bits(e) >= 8 && power_of_2(k, &s))
        return lb_op(b, OP_BAND, t, x, int_const(b, t, k - 1 - EK_PLANTED("loop-fold")), 0);
      break;
    }
    case OP_SHL:
    case OP_SHR:
    case OP_BOR:
    case OP_BXOR:
      if (k == 0) return x;
      break;
    case OP_BAND:
      if (k == 0) return y;
      if (k == -1) return x;
      break;
    default:
      break;
    }
  if (x == y) switch (op) {
    case OP_SUB:
    case OP_BXOR:
      return int_const(b, t, 0);
    case OP_MIN:
    case OP_MAX:
    case OP_BAND:
    case OP_BOR:
      return x;
    case OP_EQ:
    case OP_LE:
    case OP_GE:
      return int_const(b, t, 1);
    case OP_NE:
    case OP_LT:
    case OP_GT:
      return int_const(b, t, 0);
    default:
      break;
    }
  if (op == OP_ADD || op == OP_SUB) { /* (p + c) + q = (p + q) + c */
    int64_t kx, ky;
    lv px = split_sum(b->f, x, &kx), py = split_sum(b->f, y, &ky);
    if ((px != x || py != y) && !kr) {
      lv s = lb_op(b, op, t, px, py, 0);
      return lb_op(
          b, OP_ADD, t, s,
          int_const(b, t,
                    op == OP_ADD ? (int64_t)((uint64_t)kx + (uint64_t)ky) : (int64_t)((uint64_t)kx - (uint64_t)ky)),
          0);
    }
  }
  return 0;
}
static lv fold_bool(lbuild *b, sop op, ltype t, lv x, lv y, bool kr, int64_t k) {
  switch (op) {
  case OP_AND:
  case OP_BAND:
    return kr ? (k ? x : y) : x == y ? x : 0;
  case OP_OR:
  case OP_BOR:
    return kr ? (k ? y : x) : x == y ? x : 0;
  case OP_NOT: {
    const linst *i = li(b->f, x);
    return i->kind == L_OP && i->op == OP_NOT ? i->a : 0;
  }
  case OP_EQ:
    if (kr) return k ? x : lb_op(b, OP_NOT, t, x, 0, 0);
    return 0;
  case OP_NE:
    if (kr) return k ? lb_op(b, OP_NOT, t, x, 0, 0) : x;
    return 0;
  default:
    return 0;
  }
}
static bool commutes(sop op) {
  switch (op) {
  case OP_ADD:
  case OP_MUL:
  case OP_MIN:
  case OP_MAX:
  case OP_BAND:
  case OP_BOR:
  case OP_BXOR:
  case OP_AND:
  case OP_OR:
  case OP_EQ:
  case OP_NE:
    return true;
  default:
    return false;
  }
}
static lv fold(lbuild *b, sop op, ltype t, lv x, lv y, lv z) {
  const lfunc *f = b->f;
  etype from = (etype)li(f, x)->type.elem;
  scalar kx, ky, r;
  bool cx = loop_const(f, x, &kx), cy = y && loop_const(f, y, &ky);
  unsigned n = loop_sop_arity(op);
  if (op == OP_SEL) {
    if (cx) return kx.i ? y : z;
    return y == z ? y : 0;
  }
  if (op == OP_CAST) {
    if (from == t.elem) return x;
    if (cx && et_kind(from) != K_STR) return eval(op, t, from, kx, kx, &r) ? lb_const(b, t, r) : 0;
    const linst *i = li(f, x);
    if (i->kind == L_SPLAT) return lb_splat(b, t.lanes, lb_op(b, OP_CAST, lt((etype)t.elem, 1), i->a, 0, 0));
    return 0;
  }
  if (op == OP_BITCAST) return from == t.elem ? x : 0;
  if (n > 2) return 0;
  if (cx && (n == 1 || cy) && eval(op, t, from, kx, n == 1 ? kx : ky, &r)) return lb_const(b, t, r);
  if (n == 2 && et_kind(from) != K_FLOAT) {
    lv v = et_kind(from) == K_BOOL ? fold_bool(b, op, t, x, y, cy, cy ? ky.i : 0)
                                   : fold_int(b, op, t, x, y, cy, cy ? ky.i : 0);
    if (v) return v;
  }
  if (op == OP_NOT) return fold_bool(b, op, t, x, 0, false, 0);
  if (et_kind(from) == K_FLOAT && cy && (op == OP_MUL || op == OP_DIV) && ky.f == 1) return x;
  return 0;
}

lv lb_op(lbuild *b, sop op, ltype t, lv x, lv y, lv z) {
  const lfunc *f = b->f;
  unsigned n = loop_sop_arity(op);
  CTX_ASSERT(arena_ctx(f->a), x && (n < 2 || y) && (n < 3 || z) && !li(f, x)->type.ptr);
  t.ptr = 0;
  lv v[3] = {x, n > 1 ? y : 0, n > 2 ? z : 0};
  for (unsigned i = 0; i < n; i++) /* a scalar operand stands for all lanes */
    if (li(f, v[i])->type.lanes > t.lanes) t.lanes = li(f, v[i])->type.lanes;
  if (n == 2 && commutes(op)) { /* a constant goes to the right */
    scalar k;
    if (loop_const(f, v[0], &k) && !loop_const(f, v[1], &k)) x = v[0], v[0] = v[1], v[1] = x;
  }
  if (t.lanes > 1) { /* the same work in every lane is done once */
    bool same = true;
    for (unsigned i = 0; i < n && same; i++) {
      const linst *o = li(f, v[i]);
      same = o->type.lanes == 1 || o->kind == L_SPLAT || o->kind == L_CONST;
    }
    if (same) {
      uint16_t lanes = t.lanes;
      for (unsigned i = 0; i < n; i++) v[i] = lb_extract(b, v[i], 0);
      t.lanes = 1;
      return lb_splat(b, lanes, lb_op(b, op, t, v[0], v[1], v[2]));
    }
    for (unsigned i = 0; i < n; i++) v[i] = lb_splat(b, t.lanes, v[i]);
  }
  lv r = fold(b, op, t, v[0], v[1], v[2]);
  if (r) return r;
  return lb_pure(b, (linst){.kind = L_OP, .op = (uint8_t)op, .type = t, .a = v[0], .b = v[1], .c = v[2]});
}
static ltype type_of(lbuild *b, lv x) { return li(b->f, x)->type; }
lv lb_add(lbuild *b, lv x, lv y) { return lb_op(b, OP_ADD, type_of(b, x), x, y, 0); }
lv lb_sub(lbuild *b, lv x, lv y) { return lb_op(b, OP_SUB, type_of(b, x), x, y, 0); }
lv lb_mul(lbuild *b, lv x, lv y) { return lb_op(b, OP_MUL, type_of(b, x), x, y, 0); }
lv lb_muli(lbuild *b, lv x, int64_t k) { return lb_op(b, OP_MUL, type_of(b, x), x, int_const(b, type_of(b, x), k), 0); }
lv lb_addi(lbuild *b, lv x, int64_t k) { return lb_op(b, OP_ADD, type_of(b, x), x, int_const(b, type_of(b, x), k), 0); }
lv lb_cmp(lbuild *b, sop op, lv x, lv y) { return lb_op(b, op, lt(ET_BOOL, type_of(b, x).lanes), x, y, 0); }
