/* What is the simplest form of a reduction?
 *
 * Conditions: a decided one goes, `c ? x : 0` under a sum becomes one, an equality that fixes a variable of the
 * reduction removes that variable (a sum over a Kronecker delta is a read), and bounds on an index of a factor become
 * that access' guard, so that products are seen as products. A variable runs over the values only for which a guarded
 * factor can be inside (a window that is wider than what it looks at). Idempotent reductions lose variables nothing
 * depends on.
 */
#include "rewrite/simplify.h"

enum { MOST_PLACES = 1 << 30 };
/* ---- reductions ------------------------------------------------------------------------------ */
static ex identity_of(sm *z, const ex_node *n) {
  emodule *m = z->m;
  bool f = et_kind(n->type) == K_FLOAT;
  switch ((rop)n->op) {
  case RED_SUM:
    return n->type == ET_BOOL ? 0 : f ? expr_f(m, n->type, 0) : expr_i(m, n->type, 0);
  case RED_PROD:
    return n->type == ET_BOOL ? 0 : f ? expr_f(m, n->type, 1) : expr_i(m, n->type, 1);
  case RED_ANY:
    return expr_bool(m, false);
  case RED_ALL:
    return expr_bool(m, true);
  case RED_MIN:
    return n->type == ET_I64 ? expr_i(m, ET_I64, INT64_MAX) : 0;
  case RED_MAX:
    return n->type == ET_I64 ? expr_i(m, ET_I64, INT64_MIN) : 0;
  default:
    return 0; /* infinities depend on the type: left to the evaluator */
  }
}
static ex both(sm *z, ex a, ex b) {
  int64_t k;
  if (!a) return b;
  if (!b) return a;
  if (is_k(z->m, a, &k)) return k ? b : a;
  if (is_k(z->m, b, &k)) return k ? a : b;
  return a == b ? a : expr_op2(z->m, OP_AND, a, b);
}
static bool is_zero(sm *z, ex e) {
  double f;
  int64_t k;
  return (is_f(z->m, e, &f) && f == 0) || (is_k(z->m, e, &k) && k == 0);
}
static bool uses_var(sm *z, ex e, atom v) {
  u32vec fv = {0};
  if (!e) return false;
  expr_vars(z->m, e, z->p->a, &fv);
  for (uint32_t i = 0; i < fv.n; i++)
    if (fv.v[i] == v) return true;
  return false;
}
/* A conjunct `f == 0` that fixes reduction variable v: v's place, its value and the condition that it is one of v's
 * values. Best: the largest range, so that the longest loop goes. */
static bool solve_equal(sm *z, ex cond, const ex_node *n, uint32_t *which, sz *value, ex *valid) {
  ctx *c = z->c;
  ex_node q = *exn(z->m, cond);
  if (q.kind != EX_OP || q.op != OP_EQ || exn(z->m, q.args[0])->type != ET_I64) return false;
  sz s = sym_sub(c, expr_as_size(z->m, q.args[0]), expr_as_size(z->m, q.args[1]));
  int64_t best = 0;
  bool found = false;
  for (uint32_t i = 0; i < n->nargs; i++) {
    sz coef, rest;
    int64_t k;
    if (!sym_uses(c, s, n->args[i]) || !sym_linear(c, s, n->args[i], &coef, &rest) || !sym_is_int(c, coef, &k) || !k)
      continue;
    if (sym_uses_kind(c, s, AT_DATA)) { /* the data must not depend on the variable */
      u32vec d = {0};
      bool dep = false;
      sym_atoms(c, s, AT_DATA, z->p->a, &d);
      for (uint32_t j = 0; j < d.n; j++) dep |= uses_var(z, sym_data_id(c, d.v[j]), n->args[i]);
      if (dep) continue;
    }
    int64_t ext = expr_typical(z->m, sym_extent(c, n->args[i]));
    if (found && ext <= best) continue;
    sz num = k > 0 ? sym_neg(c, rest) : rest, v = num; /* |k| * v = num */
    int64_t a = k > 0 ? k : -k;
    ex ok = 0;
    if (a > 1) {
      v = sym_div(c, num, sym_int(c, a));
      ok =
          simp(z, expr_op2(z->m, OP_EQ, expr_index(z->m, sym_sub(c, num, sym_muli(c, v, a))), expr_i(z->m, ET_I64, 0)));
    }
    ex lo = simp(z, expr_op2(z->m, OP_GE, expr_index(z->m, v), expr_i(z->m, ET_I64, 0)));
    ex hi = simp(z, expr_op2(z->m, OP_LT, expr_index(z->m, v), expr_index(z->m, sym_extent(c, n->args[i]))));
    *which = i, *value = v, *valid = both(z, ok, both(z, EK_PLANTED("simplify-delta") ? 0 : lo, hi));
    best = ext, found = true;
  }
  return found;
}
static ex reduce_again(sm *z, const ex_node *n, const atom *vars, uint32_t nv, ex where, ex body) {
  return expr_reduce(z->m, n->op, vars, nv, where, body, n->payload, n->acc, n->type);
}
/* sum over points with conditions `0 <= f < size` of a product with a factor that reads at f: the condition becomes
 * that access' guard, so that the product is seen again */
static ex guard_instead(sm *z, const ex_node *n) {
  emodule *m = z->m;
  ctx *c = z->c;
  u32vec cs = {0}, fs = {0};
  if (n->op != RED_SUM || n->type == ET_BOOL) return 0;
  expr_operands(z->m, n->where, OP_AND, z->p->a, &cs);
  vec_push(z->p->a, fs, n->body);
  for (uint32_t i = 0; i < fs.n; i++) {
    ex_node f = *exn(m, fs.v[i]);
    if (f.kind == EX_OP && f.op == OP_MUL && fs.n < MAX_OPERANDS)
      fs.v[i--] = f.args[0], vec_push(z->p->a, fs, f.args[1]);
  }
  uint32_t left = cs.n, host = 0;
  for (uint32_t i = 0; i < fs.n; i++) {
    ex_node f = *exn(m, fs.v[i]);
    if (f.kind != EX_LOAD || (f.otherwise && !is_zero(z, f.otherwise))) continue;
    uint32_t covered = 0;
    for (uint32_t j = 0; j < cs.n; j++) { /* is every condition a bound of one of the factor's indices? */
      ex_node q = *exn(m, cs.v[j]);
      if (q.kind != EX_OP || q.op != OP_GE || exn(m, q.args[0])->type != ET_I64 || !is_zero(z, q.args[1])) break;
      sz s = expr_as_size(m, q.args[0]);
      bool hit = false;
      for (uint32_t k = 0; k < f.nargs && !hit; k++)
        hit = s == f.args[k] || s == sym_addi(c, sym_sub(c, xt(m, f.tensor)->shape[k], f.args[k]), -1);
      covered += hit;
    }
    if (covered == cs.n) {
      left = 0, host = i;
      break;
    }
  }
  if (left) return 0;
  ex_node f = *exn(m, fs.v[host]);
  for (uint32_t i = 0; i < fs.n; i++) { /* the others must be readable where the condition fails */
    u32vec ls = {0};
    if (i == host) continue;
    expr_loads(m, fs.v[i], z->p->a, &ls);
    for (uint32_t k = 0; k < ls.n; k++) {
      ex_node l = *exn(m, ls.v[k]);
      for (uint32_t d = 0; d < l.nargs && !l.otherwise; d++)
        if (!in_range(c, l.args[d], xt(m, l.tensor)->shape[d]) && !EK_PLANTED("simplify-guard")) return 0;
    }
  }
  fs.v[host] =
      expr_load(m, f.tensor, f.args, f.nargs, et_kind(f.type) == K_FLOAT ? expr_f(m, f.type, 0) : expr_i(m, f.type, 0));
  ex body = fs.v[0];
  for (uint32_t i = 1; i < fs.n; i++) body = expr_op2(m, OP_MUL, body, fs.v[i]);
  return reduce_again(z, n, n->args, n->nargs, 0, body);
}
/* sum of products with a factor that is 0 outside of a tensor: a variable of the sum keeps the values for which that
 * factor is inside for some point. 0: it keeps all. */
static ex inside_only(sm *z, const ex_node *n) {
  emodule *m = z->m;
  ctx *c = z->c;
  u32vec fs = {0};
  if (n->op != RED_SUM || n->type == ET_BOOL) return 0;
  expr_operands(m, n->body, OP_MUL, z->p->a, &fs);
  for (uint32_t i = 0; i < fs.n; i++) {
    ex_node f = *exn(m, fs.v[i]);
    if (f.kind != EX_LOAD || !f.otherwise || !is_zero(z, f.otherwise)) continue;
    for (uint32_t d = 0; d < f.nargs; d++)
      for (uint32_t r = 0; r < n->nargs; r++) {
        sz coef, rest;
        int64_t k, lo, hi, least, size, ext, first, last;
        if (!sym_uses(c, f.args[d], n->args[r]) || !sym_linear(c, f.args[d], n->args[r], &coef, &rest) ||
            !sym_is_int(c, coef, &k) || k <= 0 || !sym_is_int(c, sym_extent(c, n->args[r]), &ext))
          continue;
        sym_range(c, xt(m, f.tensor)->shape[d], &least, &size);
        sym_range(c, rest, &lo, &hi);
        /* 0 <= k*v + rest < size for some rest of lo..hi and some size */
        first = hi >= 0 || hi < -MOST_PLACES ? 0 : (-hi + k - 1) / k;
        last = lo < -MOST_PLACES || lo > MOST_PLACES || size > MOST_PLACES ? ext - 1
               : lo > size - 1                                             ? -1
                                                                           : (size - 1 - lo) / k;
        last = min64(last, ext - 1) + EK_PLANTED("simplify-inside") * -1;
        if (first == 0 && last == ext - 1) continue;
        if (first > last) return identity_of(z, n);
        sz by = sym_addi(c, sym_var(c, sym_name(c, n->args[r]), sym_int(c, last - first + 1)), first);
        atom vars[256], v;
        uint32_t nv = 0;
        for (uint32_t j = 0; j < n->nargs; j++)
          if (j != r)
            vars[nv++] = n->args[j];
          else if (last > first && sym_is_atom(c, sym_addi(c, by, -first), &v))
            vars[nv++] = v;
        ex w = n->where ? expr_subst_vars(m, n->where, &n->args[r], &by, 1) : 0;
        return expr_reduce(m, n->op, vars, nv, w, expr_subst_vars(m, n->body, &n->args[r], &by, 1), n->payload, n->acc,
                           n->type);
      }
  }
  return 0;
}
static ex reduce_rules(sm *z, ex e) {
  emodule *m = z->m;
  ex_node n = *exn(m, e);
  int64_t k;
  if (n.where && is_k(m, n.where, &k)) {
    if (k) return expr_reduce(m, n.op, n.args, n.nargs, 0, n.body, n.payload, n.acc, n.type);
    ex id = identity_of(z, &n);
    return id ? id : e;
  }
  if (red_is_arg(n.op)) return e;
  if (!n.nargs && !n.where) return expr_cast(m, n.type, n.body);
  /* however many identities are combined, the result is the identity */
  if (n.body == identity_of(z, &n)) return n.body;
  /* sum of c ? x : 0 is a condition of the sum */
  ex_node b = *exn(m, n.body);
  if (n.op == RED_SUM && b.kind == EX_OP && b.op == OP_SEL && is_zero(z, b.args[2]))
    return reduce_again(z, &n, n.args, n.nargs, both(z, n.where, b.args[0]), b.args[1]);
  if (n.op == RED_SUM && b.kind == EX_OP && b.op == OP_MUL)
    for (int i = 0; i < 2; i++) { /* Kronecker delta as a factor: f(c) * x */
      ex_node d = *exn(m, b.args[i]);
      double f;
      if (d.kind == EX_OP && d.op == OP_CAST && exn(m, d.args[0])->type == ET_BOOL &&
          !(ex_flags(z->p, d.args[0]) & EXF_REDUCE)) {
        ex_node q = *exn(m, d.args[0]);
        if (q.kind == EX_OP && q.op == OP_EQ && exn(m, q.args[0])->type == ET_I64)
          return reduce_again(z, &n, n.args, n.nargs, both(z, n.where, d.args[0]), b.args[1 - i]);
      }
      if (d.kind == EX_OP && d.op == OP_SEL && is_zero(z, d.args[2]) && is_f(m, d.args[1], &f) && f == 1) {
        ex_node q = *exn(m, d.args[0]);
        if (q.kind == EX_OP && q.op == OP_EQ && exn(m, q.args[0])->type == ET_I64)
          return reduce_again(z, &n, n.args, n.nargs, both(z, n.where, d.args[0]), b.args[1 - i]);
      }
    }
  if (n.where) {
    u32vec cs = {0};
    expr_operands(z->m, n.where, OP_AND, z->p->a, &cs);
    for (uint32_t i = 0; i < cs.n; i++) {
      uint32_t which;
      sz value;
      ex valid;
      if (!solve_equal(z, cs.v[i], &n, &which, &value, &valid)) continue;
      ex rest = 0;
      for (uint32_t j = 0; j < cs.n; j++)
        if (j != i) rest = both(z, rest, cs.v[j]);
      atom v = n.args[which], vars[256];
      uint32_t nv = 0;
      for (uint32_t j = 0; j < n.nargs; j++)
        if (j != which) vars[nv++] = n.args[j];
      ex w = both(z, valid, rest ? expr_subst_vars(m, rest, &v, &value, 1) : 0);
      return reduce_again(z, &n, vars, nv, w, expr_subst_vars(m, n.body, &v, &value, 1));
    }
    ex g = guard_instead(z, &n);
    if (g) return g;
  }
  ex inside = inside_only(z, &n);
  if (inside) return inside;
  /* idempotent: variables nothing depends on go */
  if (n.op == RED_MAX || n.op == RED_MIN || n.op == RED_ANY || n.op == RED_ALL) {
    atom vars[256];
    uint32_t nv = 0;
    for (uint32_t i = 0; i < n.nargs; i++)
      if (uses_var(z, n.body, n.args[i]) || uses_var(z, n.where, n.args[i]) ||
          !sym_ge0(z->c, sym_addi(z->c, sym_extent(z->c, n.args[i]), -1)))
        vars[nv++] = n.args[i];
    if (nv < n.nargs) return reduce_again(z, &n, vars, nv, n.where, n.body);
  }
  if (!n.nargs && n.where) {
    ex id = identity_of(z, &n);
    return id ? expr_sel(m, n.where, expr_cast(m, n.type, n.body), id) : e;
  }
  return e;
}
ex simp_reduce(sm *z, ex e) {
  emodule *m = z->m;
  ex_node n = *exn(m, e);
  ex where = n.where ? simp(z, n.where) : 0;
  scope s = {0};
  int64_t k;
  if (where && is_k(m, where, &k)) {
    if (!k) {
      ex id = identity_of(z, &n);
      if (id) return id;
    } else
      where = 0;
  }
  if (where) s = open_scope(z, where, true);
  ex body = simp(z, n.body), payload = n.payload ? simp(z, n.payload) : 0;
  if (where) close_scope(z, s);
  if (where != n.where || body != n.body || payload != n.payload)
    e = expr_reduce(m, n.op, n.args, n.nargs, where, body, payload, n.acc, n.type);
  for (int i = 0; i < 6; i++) {
    ex r = reduce_rules(z, e);
    if (r == e) break;
    ex_node q = *exn(m, r);
    if (q.kind != EX_REDUCE) return simp(z, r);
    /* the parts may simplify again under the new condition */
    e = r;
    scope t = {0};
    where = q.where ? simp(z, q.where) : 0;
    if (where) t = open_scope(z, where, true);
    body = simp(z, q.body);
    if (where) close_scope(z, t);
    if (where != q.where || body != q.body)
      e = expr_reduce(m, q.op, q.args, q.nargs, where, body, q.payload, q.acc, q.type);
  }
  return e;
}
