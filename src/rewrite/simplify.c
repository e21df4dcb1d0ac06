/* What is the simplest form of a value?
 *
 * One bottom-up rewrite that substitutes variables, simplifies sizes by their normal form, and applies the rules below.
 * Conditions on indices are decided by proofs over sizes (sym): guards that cannot fail vanish, reads that are always
 * outside become their `else` value. Under a branch, or inside a reduction with a condition, the condition is a fact.
 *
 * Rules. Integers and conditions: exact. Floats: exact up to the sign of zero, except pow(x, 1/2) = sqrt(x) and its kin
 * (they differ at -inf and in the last place), and "0 times a factor" in sums whose condition becomes a guard (it
 * differs when the factor is not finite). Nothing here reassociates.
 *
 * Facts make results valid only at that place, so results are remembered per scope of facts; without facts and
 * substitution a normal form is remembered for good (until a tensor becomes a constant).
 */
#include "rewrite/simplify.h"
#include <math.h>
#include <string.h>

/* ---- sizes ----------------------------------------------------------------------------------- */
static sz size_atom(ctx *c, void *env, atom a) {
  sm *z = env;
  switch (sym_kind(c, a)) {
  case AT_VAR:
    for (uint32_t i = 0; i < z->n; i++)
      if (z->vars[i] == a) return z->by[i];
    return 0;
  case AT_DATA: {
    ex e = sym_data_id(c, a), n = simp(z, e);
    int64_t lo, hi;
    sz same = sym_of_atom(c, a), now;
    sym_range(c, same, &lo, &hi);
    if (n == e && (lo != -SYM_INF || hi != SYM_INF)) return 0;
    now = expr_as_size(z->m, n); /* its range may be known by now */
    return now == same ? 0 : now;
  }
  default:
    return 0;
  }
}
static bool has_parts(ctx *c, sz s) {
  return sym_uses_kind(c, s, AT_SEL) || sym_uses_kind(c, s, AT_MIN) || sym_uses_kind(c, s, AT_MAX) ||
         sym_uses_kind(c, s, AT_DIV);
}
static sz simp_size(sm *z, sz s) {
  if (sym_is_int(z->c, s, NULL)) return s;
  if (z->n || sym_uses_kind(z->c, s, AT_DATA) || (z->facts && has_parts(z->c, s))) s = sym_subst(z->c, s, size_atom, z);
  return sym_canon(z->c, s);
}

/* ---- conditions as facts --------------------------------------------------------------------- */
bool is_k(emodule *m, ex e, int64_t *v) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_CONST || et_kind(n->type) == K_FLOAT) return false;
  *v = n->k.i;
  return true;
}
bool is_f(emodule *m, ex e, double *v) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_CONST || et_kind(n->type) != K_FLOAT) return false;
  *v = n->k.f;
  return true;
}
static bool is_cmp(sop op) { return op >= OP_EQ && op <= OP_GE; }
/* a op b as "s >= 0" (or s == 0 / s != 0 for eq, ne) */
static sz cmp_size(ctx *c, sop op, sz a, sz b) {
  switch (op) {
  case OP_LT:
    return sym_addi(c, sym_sub(c, b, a), -1);
  case OP_LE:
    return sym_sub(c, b, a);
  case OP_GT:
    return sym_addi(c, sym_sub(c, a, b), -1);
  default:
    return sym_sub(c, a, b);
  }
}
static bool assume(sm *z, ex cond, bool truth) { /* pushes facts; true if any */
  ex_node n = *exn(z->m, cond);
  if (n.kind != EX_OP) return false;
  if (n.op == OP_NOT) return assume(z, n.args[0], !truth);
  if (n.op == (truth ? OP_AND : OP_OR)) {
    bool a = assume(z, n.args[0], truth), b = assume(z, n.args[1], truth);
    return a || b;
  }
  if (!is_cmp(n.op) || exn(z->m, n.args[0])->type != ET_I64) return false;
  sz a = expr_as_size(z->m, n.args[0]), b = expr_as_size(z->m, n.args[1]);
  sop op = n.op;
  if (!truth)
    op = op == OP_EQ   ? OP_NE
         : op == OP_NE ? OP_EQ
         : op == OP_LT ? OP_GE
         : op == OP_LE ? OP_GT
         : op == OP_GT ? OP_LE
                       : OP_LT;
  if (op == OP_NE) return false;
  sz s = cmp_size(z->c, op, a, b);
  sym_push(z->c, s);
  if (op == OP_EQ) sym_push(z->c, sym_neg(z->c, s));
  return true;
}
scope open_scope(sm *z, ex cond, bool truth) {
  scope s = {sym_mark(z->c), z->p->epoch, false};
  s.any = assume(z, cond, truth);
  if (s.any) z->facts++, z->p->epoch = ++z->p->epochs;
  return s;
}
void close_scope(sm *z, scope s) {
  sym_pop(z->c, s.mark);
  if (s.any) z->facts--, z->p->epoch = s.epoch;
}

/* ---- operations ------------------------------------------------------------------------------ */
static bool loadless_i64(sm *z, ex e) {
  return exn(z->m, e)->type == ET_I64 && !(ex_flags(z->p, e) & (EXF_LOAD | EXF_REDUCE));
}

static ex decide_compare(sm *z, ex_node n, ex e) {
  emodule *m = z->m;
  ctx *c = z->c;
  sz a = expr_as_size(m, n.args[0]), b = expr_as_size(m, n.args[1]), s = cmp_size(c, n.op, a, b);
  int64_t k;
  if (n.op == OP_EQ || n.op == OP_NE) {
    if (sym_is_int(c, s, &k)) return expr_bool(m, (k == 0) == (n.op == OP_EQ));
    if (sym_ne(c, a, b)) return expr_bool(m, n.op == OP_NE);
    if (sym_eq(c, a, b)) return expr_bool(m, (n.op == OP_EQ) != EK_PLANTED("simplify"));
    if (loadless_i64(z, n.args[0]) && loadless_i64(z, n.args[1]))
      return expr_op2(m, n.op, expr_index(m, s), expr_i(m, ET_I64, 0));
    return e;
  }
  if (sym_ge0(c, s)) return expr_bool(m, true);
  if (sym_ge0(c, sym_addi(c, sym_neg(c, s), -1))) return expr_bool(m, false);
  /* a comparison without loads is spelled size >= 0 */
  if (loadless_i64(z, n.args[0]) && loadless_i64(z, n.args[1]))
    return expr_op2(m, OP_GE, expr_index(m, s), expr_i(m, ET_I64, 0));
  return e;
}
/* does every value of `from` have an exact counterpart in `to`? */
static bool widens(etype from, etype to) {
  ekind a = et_kind(from), b = et_kind(to);
  uint32_t x = et_bits(from), y = et_bits(to);
  if (from == to) return true;
  if (from == ET_BOOL) return b != K_BOOL && (b != K_FLOAT || y >= 8);
  if (to == ET_BOOL) return false;
  if (a == K_INT)
    return (b == K_INT && y > x) ||
           (b == K_FLOAT && ((to == ET_F64 && x <= 32) || (to == ET_F32 && x <= 16) || (to == ET_F16 && x <= 8)));
  if (a == K_UINT)
    return ((b == K_UINT || b == K_INT) && y > x) ||
           (b == K_FLOAT && ((to == ET_F64 && x <= 32) || (to == ET_F32 && x <= 16) || (to == ET_F16 && x <= 8)));
  return a == K_FLOAT && ((to == ET_F64) || (to == ET_F32 && from != ET_F64));
}
static bool pow2(double v) {
  int k;
  double f = frexp(fabs(v), &k);
  return f == 0.5 && k > -100 && k < 100;
}
static ex rule_mul(sm *z, ex a, ex b, etype t, ex e) {
  double f;
  int64_t k;
  for (int i = 0; i < 2; i++) {
    ex x = i ? a : b, y = i ? b : a; /* x: the candidate constant */
    if (is_f(z->m, x, &f) && f == 1) return y;
    if (is_k(z->m, x, &k) && t != ET_BOOL) {
      if (k == 1) return y;
      if (k == 0) return EK_PLANTED("simplify-mul") ? y : x;
    }
  }
  return e;
}
static ex rule_addsub(sm *z, sop op, ex a, ex b, etype t, ex e) {
  double f;
  int64_t k;
  if ((is_f(z->m, b, &f) && f == 0) || (is_k(z->m, b, &k) && k == 0 && t != ET_BOOL)) return a;
  if (op == OP_ADD && ((is_f(z->m, a, &f) && f == 0) || (is_k(z->m, a, &k) && k == 0 && t != ET_BOOL))) return b;
  const ex_node *nb = exn(z->m, b);
  /* x - -y is x + y exactly */
  if (nb->kind == EX_OP && nb->op == OP_NEG) return expr_op2(z->m, op == OP_ADD ? OP_SUB : OP_ADD, a, nb->args[0]);
  return e;
}
static ex rule_pow(sm *z, ex a, double k, etype t, ex e) {
  emodule *m = z->m;
  ex sq;
  if (k == 0) return expr_f(m, t, 1);
  if (k == 1) return a;
  if (k == 0.5) return expr_op1(m, OP_SQRT, a);
  if (k == -0.5) return expr_op2(m, OP_DIV, expr_f(m, t, 1), expr_op1(m, OP_SQRT, a));
  if (k == -1) return expr_op2(m, OP_DIV, expr_f(m, t, 1), a);
  if (k != 2 && k != 3 && k != 4) return e;
  sq = expr_op2(m, OP_MUL, a, a);
  return k == 2 ? sq : k == 3 ? expr_op2(m, OP_MUL, sq, a) : expr_op2(m, OP_MUL, sq, sq);
}
static ex rule_minmax(sm *z, sop op, ex a, ex b, ex e) {
  double f;
  if (a == b) return a;
  for (int i = 0; i < 2; i++) {
    ex x = i ? a : b, y = i ? b : a;
    if (is_f(z->m, x, &f) && isinf(f) && (f < 0) == (op == OP_MAX)) return y; /* NaN wins on both sides */
    const ex_node *n = exn(z->m, y);
    if (n->kind == EX_OP && n->op == op && (n->args[0] == x || n->args[1] == x)) return y;
  }
  return e;
}
static ex rule_cast(sm *z, etype t, ex a, ex e) {
  ex_node n = *exn(z->m, a);
  if (n.type == t) return a;
  if (n.kind == EX_OP && n.op == OP_CAST) {
    etype from = exn(z->m, n.args[0])->type;
    if (widens(from, n.type)) return from == t ? n.args[0] : expr_cast(z->m, t, n.args[0]);
  }
  return e;
}
static ex rule_not(sm *z, ex a, ex e) {
  ex_node n = *exn(z->m, a);
  if (n.kind != EX_OP) return e;
  if (n.op == OP_NOT) return n.args[0];
  if (!is_cmp(n.op)) return e;
  if (n.op == OP_EQ || n.op == OP_NE) return expr_op(z->m, n.op == OP_EQ ? OP_NE : OP_EQ, ET_BOOL, n.args, 2);
  /* the negated comparison of floats differs for NaN */
  if (et_kind(exn(z->m, n.args[0])->type) == K_FLOAT) return e;
  sop op = n.op == OP_LT ? OP_GE : n.op == OP_LE ? OP_GT : n.op == OP_GT ? OP_LE : OP_LT;
  return simp(z, expr_op(z->m, op, ET_BOOL, n.args, 2));
}
static ex rules(sm *z, ex e) {
  emodule *m = z->m;
  ex_node n = *exn(m, e);
  if (n.kind != EX_OP) return e;
  etype at = exn(m, n.args[0])->type;
  double f;
  int64_t k;
  bool all = true;
  scalar x[3] = {{.i = 0}};
  for (uint32_t i = 0; i < n.nargs; i++) {
    const ex_node *a = exn(m, n.args[i]);
    all &= a->kind == EX_CONST;
    x[i] = a->k;
  }
  if (all) {
    bool ok;
    scalar r = scalar_apply(n.op, n.type, at, x, &ok);
    return ok ? expr_const(m, n.type, r) : e;
  }
  if (is_cmp(n.op) && at == ET_I64) return decide_compare(z, n, e);
  if (n.type == ET_I64 && (n.op == OP_ADD || n.op == OP_SUB || n.op == OP_MUL || n.op == OP_IDIV || n.op == OP_MOD ||
                           n.op == OP_MIN || n.op == OP_MAX || n.op == OP_NEG || n.op == OP_SEL)) {
    bool pure = true;
    for (uint32_t i = n.op == OP_SEL; i < n.nargs; i++) pure &= loadless_i64(z, n.args[i]);
    if (pure && !(ex_flags(z->p, e) & EXF_LOAD)) {
      ex r = expr_index(m, expr_as_size(m, e));
      if (exn(m, r)->kind != EX_OP) return r;
    }
  }
  switch ((sop)n.op) {
  case OP_MUL:
    return rule_mul(z, n.args[0], n.args[1], n.type, e);
  case OP_ADD:
  case OP_SUB:
    return rule_addsub(z, n.op, n.args[0], n.args[1], n.type, e);
  case OP_DIV:
    if (!is_f(m, n.args[1], &f)) return e;
    if (f == 1) return n.args[0];
    /* exact: the reciprocal is a power of two too */
    return pow2(f) ? expr_op2(m, OP_MUL, n.args[0], expr_f(m, n.type, 1 / f)) : e;
  case OP_IDIV:
    return is_k(m, n.args[1], &k) && k == 1 ? n.args[0] : e;
  case OP_POW:
    return is_f(m, n.args[1], &f) ? rule_pow(z, n.args[0], f, n.type, e) : e;
  case OP_MIN:
  case OP_MAX:
    return rule_minmax(z, n.op, n.args[0], n.args[1], e);
  case OP_NEG: {
    const ex_node *a = exn(m, n.args[0]);
    return a->kind == EX_OP && a->op == OP_NEG ? a->args[0] : e;
  }
  case OP_CAST:
    return rule_cast(z, n.type, n.args[0], e);
  case OP_AND:
  case OP_OR:
    for (int i = 0; i < 2; i++)
      if (is_k(m, n.args[i], &k)) return (k != 0) == (n.op == OP_AND) ? n.args[1 - i] : n.args[i];
    return n.args[0] == n.args[1] ? n.args[0] : e;
  case OP_NOT:
    return rule_not(z, n.args[0], e);
  case OP_SEL: {
    if (is_k(m, n.args[0], &k)) return n.args[k ? 1 : 2];
    if (n.args[1] == n.args[2]) return n.args[1];
    int64_t ka, kb;
    if (n.type == ET_BOOL && is_k(m, n.args[1], &ka) && is_k(m, n.args[2], &kb))
      return ka ? n.args[0] : rules(z, expr_op1(m, OP_NOT, n.args[0]));
    const ex_node *cn = exn(m, n.args[0]);
    if (cn->kind == EX_OP && cn->op == OP_NOT) return expr_sel(m, cn->args[0], n.args[2], n.args[1]);
    return e;
  }
  default:
    return e;
  }
}
/* lazily evaluated operands are simplified under what is known there */
static ex simp_op(sm *z, ex e) {
  emodule *m = z->m;
  ex_node n = *exn(m, e);
  ex a[3];
  int64_t k;
  a[0] = simp(z, n.args[0]);
  if (n.op == OP_SEL && is_k(m, a[0], &k)) return simp(z, n.args[k ? 1 : 2]);
  if ((n.op == OP_AND || n.op == OP_OR) && is_k(m, a[0], &k))
    return (k != 0) == (n.op == OP_AND) ? simp(z, n.args[1]) : a[0];
  for (uint32_t i = 1; i < n.nargs; i++) {
    bool lazy = n.op == OP_SEL || n.op == OP_AND || n.op == OP_OR;
    scope s = {0};
    if (lazy) s = open_scope(z, a[0], n.op == OP_SEL ? i == 1 : n.op == OP_AND);
    a[i] = simp(z, n.args[i]);
    if (lazy) close_scope(z, s);
  }
  bool same = true;
  for (uint32_t i = 0; i < n.nargs; i++) same &= a[i] == n.args[i];
  if (!same) e = expr_op(m, n.op, n.type, a, n.nargs);
  for (int i = 0; i < 4; i++) { /* a rule's result may enable another */
    ex r = rules(z, e);
    if (r == e) break;
    e = r;
  }
  return e;
}

/* ---- loads ----------------------------------------------------------------------------------- */
static ex simp_load(sm *z, ex e) {
  emodule *m = z->m;
  ctx *c = z->c;
  ex_node n = *exn(m, e);
  sz idx[MAX_RANK];
  bool same = true, inside = true, ints = true;
  const sz *shape = xt(m, n.tensor)->shape;
  for (uint32_t i = 0; i < n.nargs; i++) {
    idx[i] = simp_size(z, n.args[i]);
    same &= idx[i] == n.args[i];
    ints &= sym_is_int(c, idx[i], NULL);
  }
  ex other = n.otherwise;
  if (other) {
    for (uint32_t i = 0; i < n.nargs; i++) {
      bool lo = sym_ge0(c, idx[i]), hi = sym_lt(c, idx[i], shape[i]);
      if (!lo && sym_lt(c, idx[i], sym_int(c, 0))) return simp(z, other);
      if (!hi && sym_le(c, shape[i], idx[i])) return simp(z, other);
      inside &= lo && hi;
    }
    other = inside ? 0 : simp(z, other);
  }
  const cinfo *k = tensor_const(z->p, n.tensor);
  if (k && k->known) {
    const tensor *x = xt(m, n.tensor);
    if (k->uniform) {
      ex v = expr_const(m, x->type, k->value);
      if (!other || other == v) return v;
    } else if (ints && !other) {
      int64_t at = 0, d;
      bool ok = true;
      for (uint32_t i = 0; i < n.nargs; i++) {
        sym_is_int(c, idx[i], &d);
        ok &= d >= 0 && d < x->data.dims[i];
        at = at * x->data.dims[i] + d;
      }
      if (ok)
        return expr_const(m, x->type,
                          et_load(x->type, (const uint8_t *)x->data.data + (uint64_t)at * et_bytes(x->type)));
    } else if (k->affine && !other) {
      sz v = sym_int(c, k->c0);
      for (uint32_t i = 0; i < n.nargs; i++)
        if (k->coef[i]) v = sym_add(c, v, sym_muli(c, idx[i], k->coef[i]));
      return expr_cast(m, x->type, expr_index(m, v));
    }
  }
  return same && other == n.otherwise ? e : expr_load(m, n.tensor, idx, n.nargs, other);
}

/* ---- the walk -------------------------------------------------------------------------------- */
static void fit(pw *p) {
  uint32_t n = p->m->nodes.n;
  if (p->memo.n < n) {
    vec_reserve(p->keep, p->memo, n);
    vec_reserve(p->keep, p->memo_epoch, n);
    memset(p->memo_epoch.v + p->memo_epoch.n, 0, (n - p->memo_epoch.n) * sizeof *p->memo_epoch.v);
    p->memo.n = p->memo_epoch.n = n;
  }
  if (p->simple.n < n) {
    vec_reserve(p->keep, p->simple, n);
    memset(p->simple.v + p->simple.n, 0, (n - p->simple.n) * sizeof *p->simple.v);
    p->simple.n = n;
  }
}
ex simp(sm *z, ex e) {
  pw *p = z->p;
  if (exn(z->m, e)->kind == EX_CONST) return e;
  fit(p);
  bool bare = !z->n && !z->facts && !p->facts;
  if (bare && p->simple.v[e] == p->const_epoch) return e;
  if (p->memo_epoch.v[e] == p->epoch) return p->memo.v[e];
  ex r = e;
  switch ((ex_kind)exn(z->m, e)->kind) {
  case EX_CONST:
    break;
  case EX_INDEX: {
    sz s = exn(z->m, e)->index, t = simp_size(z, s);
    r = s == t ? e : expr_index(z->m, t);
    break;
  }
  case EX_LOAD:
    r = simp_load(z, e);
    break;
  case EX_OP:
    r = simp_op(z, e);
    break;
  case EX_REDUCE:
    r = simp_reduce(z, e);
    break;
  }
  fit(p);
  p->memo.v[e] = r, p->memo_epoch.v[e] = p->epoch;
  if (bare) p->simple.v[r] = p->const_epoch;
  return r;
}
static ex run(pw *p, ex e, const atom *vars, const sz *by, uint32_t n) {
  sm z = {p, p->m, p->c, vars, by, n, 0};
  if (!e) return 0;
  uint32_t outer = p->epoch;
  p->epoch = ++p->epochs;
  e = simp(&z, e);
  p->epoch = outer;
  return e;
}
ex simplify(pw *p, ex e) { return run(p, e, NULL, NULL, 0); }
ex simplify_subst(pw *p, ex e, const atom *vars, const sz *by, uint32_t n) { return run(p, e, vars, by, n); }

bool simplify_stage(pw *p, uint32_t s) {
  emodule *m = p->m;
  ex v = simplify(p, xs(m, s)->value);
  bool changed = v != xs(m, s)->value;
  xs(m, s)->value = v;
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) {
    update u = xs(m, s)->updates.v[i];
    ex val = simplify(p, u.value), cond = u.cond ? simplify(p, u.cond) : 0;
    int64_t k;
    if (cond && is_k(m, cond, &k) && k) cond = 0;
    changed |= val != u.value || cond != u.cond;
    sz *idx = NEWN(m->a, sz, u.nidx + 1);
    sm z = {p, m, p->c, NULL, NULL, 0, 0};
    uint32_t outer = p->epoch;
    p->epoch = ++p->epochs;
    for (uint32_t d = 0; d < u.nidx; d++) {
      idx[d] = simp_size(&z, u.idx[d]);
      changed |= idx[d] != u.idx[d];
    }
    p->epoch = outer;
    u.value = val, u.cond = cond, u.idx = idx;
    xs(m, s)->updates.v[i] = u;
  }
  if (changed) pass_changed(p, s);
  return changed;
}
bool pass_simplify(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    if (p->fuel && p->spent >= p->fuel) break;
    pass_enter(p, xs(p->m, order.v[i])->block);
    if (simplify_stage(p, order.v[i])) any = true, p->spent++;
  }
  return any;
}
