/* point: the elements of small tensors, found by running a stage over symbolic sizes.
 *
 * This is shape inference on values: the same stages that will be compiled, evaluated place by place with every
 * index a number and every element an exact size, a ratio of sizes, a double or a bool.
 * What is not known is unknown, and so is everything computed from it. Work is bounded: reductions of at most
 * POINT_PLACES terms, at most MAX_STEPS nodes for one tensor. What a stage reads was found before (contents.c).
 */
#include "notation/elab.h"
#include <math.h>
#include <string.h>

enum { MAX_STEPS = 200000 };

typedef struct env { /* values of the variables */
  const atom *var;   /* variables */
  const int64_t *v;  /* their values */
  uint32_t n;        /* number of variables */
  struct env *up;    /* variables around them; NULL: none */
} env;
typedef struct pt {
  el *x;          /* the elaboration */
  uint32_t steps; /* values looked at so far; at most MAX_STEPS */
  uint32_t depth; /* nesting of values */
} pt;

static pval unknown(void) { return (pval){.kind = PV_UNKNOWN}; }
static pval of_int(sz s) { return (pval){.kind = PV_INT, .s = s}; }
static pval of_num(double f) { return (pval){.kind = PV_NUM, .f = f}; }
static pval of_bool(bool b) { return (pval){.kind = PV_BOOL, .b = b}; }
/* c >= 0, decided if possible */
static pval of_cond(pt *p, sz c) {
  if (sym_ge0(p->x->c, c)) return of_bool(true);
  if (sym_ge0(p->x->c, sym_addi(p->x->c, sym_neg(p->x->c, c), -1))) return of_bool(false);
  return (pval){.kind = PV_COND, .s = c};
}
static bool as_cond(pt *p, pval q, sz *c) {
  if (q.kind == PV_BOOL) return *c = sym_int(p->x->c, q.b ? 0 : -1), true;
  if (q.kind == PV_COND) return *c = q.s, true;
  return false;
}
static sz cond_as_int(pt *p, sz c) { return sym_sel(p->x->c, c, sym_int(p->x->c, 1), sym_int(p->x->c, 0)); }
static pval eval(pt *p, ex e, env *v);

typedef struct subst {
  pt *p;       /* the evaluation */
  env *v;      /* values of the variables */
  bool failed; /* a variable or data atom has no value */
} subst;
static sz replace(ctx *c, void *env_, atom a) {
  subst *s = env_;
  atom_kind k = sym_kind(c, a);
  if (k == AT_VAR) {
    for (env *v = s->v; v; v = v->up)
      for (uint32_t i = 0; i < v->n; i++)
        if (v->var[i] == a) return sym_int(c, v->v[i]);
    s->failed = true;
  } else if (k == AT_DATA) {
    pval q = eval(s->p, sym_data_id(c, a), s->v);
    if (q.kind == PV_INT) return q.s;
    s->failed = true;
  }
  return 0;
}
static bool size_at(pt *p, sz e, env *v, sz *out) {
  subst s = {p, v, false};
  ctx *c = p->x->c;
  if (!sym_uses_kind(c, e, AT_VAR) && !sym_uses_kind(c, e, AT_DATA)) return *out = sym_canon(c, e), true;
  *out = sym_subst(c, e, replace, &s);
  return !s.failed;
}

static bool number(pt *p, pval q, double *f) {
  int64_t i;
  if (q.kind == PV_NUM) return *f = q.f, true;
  if (q.kind == PV_BOOL) return *f = q.b, true;
  if (q.kind == PV_INT && sym_is_int(p->x->c, q.s, &i)) return *f = (double)i, true;
  int64_t n, d;
  if (q.kind == PV_RATIO && sym_is_int(p->x->c, q.s, &n) && sym_is_int(p->x->c, q.den, &d))
    return *f = (double)n / (double)d, true;
  return false;
}
static bool ratio(pt *p, pval q, sz *n, sz *d) {
  int64_t a, b;
  *d = sym_int(p->x->c, 1);
  if (q.kind == PV_INT) return *n = q.s, true;
  if (q.kind == PV_RATIO) return *n = q.s, *d = q.den, true;
  if (q.kind == PV_NUM && fraction(q.f, &a, &b)) return *n = sym_int(p->x->c, a), *d = sym_int(p->x->c, b), true;
  return false;
}
static pval of_ratio(pt *p, sz n, sz d) {
  sz q;
  if (sym_exact_div(p->x->c, n, d, &q)) return of_int(q);
  return (pval){.kind = PV_RATIO, .s = n, .den = d};
}
static pval compare(pt *p, sop op, pval a, pval b) {
  ctx *c = p->x->c;
  double f, g;
  if (number(p, a, &f) && number(p, b, &g))
    return of_bool(op == OP_EQ   ? f == g
                   : op == OP_NE ? f != g
                   : op == OP_LT ? f < g
                   : op == OP_LE ? f <= g
                   : op == OP_GT ? f > g
                                 : f >= g);
  sz n, d, q, r;
  if (!ratio(p, a, &n, &d) || !ratio(p, b, &q, &r)) return unknown();
  sz l = sym_mul(c, n, r), m = sym_mul(c, q, d);
  sz up = sym_sub(c, m, l), down = sym_sub(c, l, m);
  switch (op) {
  case OP_EQ:
  case OP_NE:
    if (sym_eq(c, l, m)) return of_bool(op == OP_EQ);
    if (sym_ne(c, l, m)) return of_bool(op == OP_NE);
    return of_cond(p, op == OP_EQ ? sym_min(c, up, down) : sym_addi(c, sym_max(c, up, down), -1));
  case OP_LT:
    return of_cond(p, EK_PLANTED("notation-contents") ? up : sym_addi(c, up, -1));
  case OP_LE:
    return of_cond(p, up);
  case OP_GT:
    return of_cond(p, sym_addi(c, down, -1));
  default:
    return of_cond(p, down);
  }
}
static pval arith(pt *p, sop op, etype t, pval a, pval b) {
  ctx *c = p->x->c;
  double f, g;
  bool fl = et_kind(t) == K_FLOAT;
  if (fl && a.kind != PV_RATIO && b.kind != PV_RATIO && number(p, a, &f) && number(p, b, &g)) {
    scalar r = {0};
    switch (op) {
    case OP_ADD:
      r.f = f + g;
      break;
    case OP_SUB:
      r.f = f - g;
      break;
    case OP_MUL:
      r.f = f * g;
      break;
    case OP_DIV:
      r.f = f / g;
      break;
    case OP_MIN:
      r.f = isnan(f) || isnan(g) ? NAN : fmin(f, g);
      break;
    case OP_MAX:
      r.f = isnan(f) || isnan(g) ? NAN : fmax(f, g);
      break;
    case OP_POW:
      r.f = pow(f, g);
      break;
    case OP_FMOD:
      r.f = fmod(f, g);
      break;
    case OP_MOD:
      r.f = f - floor(f / g) * g;
      break;
    default:
      return unknown();
    }
    return of_num(et_round(t, r).f);
  }
  sz n, d, q, r;
  if (!ratio(p, a, &n, &d) || !ratio(p, b, &q, &r)) return unknown();
  int64_t k;
  if (!fl) {
    if (a.kind != PV_INT || b.kind != PV_INT) return unknown();
    switch (op) {
    case OP_ADD:
      return of_int(sym_add(c, n, q));
    case OP_SUB:
      return of_int(sym_sub(c, n, q));
    case OP_MUL:
      return of_int(sym_mul(c, n, q));
    case OP_MIN:
      return of_int(sym_min(c, n, q));
    case OP_MAX:
      return of_int(sym_max(c, n, q));
    case OP_IDIV:
    case OP_MOD:
      if (sym_is_int(c, q, &k) && k == 0) return unknown();
      return of_int(op == OP_IDIV ? sym_div(c, n, q) : sym_mod(c, n, q));
    case OP_FMOD: {
      int64_t m;
      if (sym_is_int(c, q, &m) && m == 0) return unknown();
      if (sym_is_int(c, q, &m) && sym_is_int(c, n, &k)) return of_int(sym_int(c, m == -1 ? 0 : k % m));
      /* the remainder of division towards 0; as with OP_MOD nothing is said about division by 0 */
      if (!sym_ge0(c, q)) return unknown();
      if (sym_ge0(c, n)) return of_int(sym_mod(c, n, q));
      /* n > -q: the quotient is none below 0 */
      if (sym_ge0(c, sym_add(c, n, sym_addi(c, q, -1))))
        return of_int(sym_sub(c, n, sym_mul(c, q, sym_max(c, sym_div(c, n, q), sym_int(c, 0)))));
      return of_int(sym_sel(c, n, sym_mod(c, n, q), sym_neg(c, sym_mod(c, sym_neg(c, n), q))));
    }
    default:
      return unknown();
    }
  }
  switch (op) {
  case OP_ADD:
    return of_ratio(p, sym_add(c, sym_mul(c, n, r), sym_mul(c, q, d)), sym_mul(c, d, r));
  case OP_SUB:
    return of_ratio(p, sym_sub(c, sym_mul(c, n, r), sym_mul(c, q, d)), sym_mul(c, d, r));
  case OP_MUL:
    return of_ratio(p, sym_mul(c, n, q), sym_mul(c, d, r));
  case OP_DIV:
    if (sym_is_int(c, q, &k) && k == 0) return unknown();
    return of_ratio(p, sym_mul(c, n, r), sym_mul(c, d, q));
  default:
    return unknown();
  }
}
static pval unary(pt *p, const ex_node *n, pval a) {
  ctx *c = p->x->c;
  etype t = (etype)n->type;
  double f;
  if (a.kind == PV_UNKNOWN || (a.kind == PV_COND && n->op != OP_NOT && n->op != OP_CAST)) return unknown();
  switch (n->op) {
  case OP_NOT:
    if (a.kind == PV_COND) return of_cond(p, sym_addi(c, sym_neg(c, a.s), -1));
    return a.kind == PV_BOOL ? of_bool(!a.b) : unknown();
  case OP_NEG:
    if (a.kind == PV_NUM) return of_num(-a.f);
    if (a.kind == PV_BOOL) return unknown();
    a.s = sym_neg(c, a.s);
    return a;
  case OP_ABS:
    if (a.kind == PV_NUM) return of_num(fabs(a.f));
    return a.kind == PV_INT ? of_int(sym_max(c, a.s, sym_neg(c, a.s))) : unknown();
  case OP_CAST: {
    etype from = (etype)exn(p->x->m, n->args[0])->type;
    if (t == ET_BOOL) {
      if (a.kind == PV_COND) return a;
      if (number(p, a, &f)) return of_bool(f != 0);
      return a.kind == PV_INT ? compare(p, OP_NE, a, of_int(sym_int(c, 0))) : unknown();
    }
    if (a.kind == PV_COND) a = of_int(cond_as_int(p, a.s));
    if (a.kind == PV_BOOL) return et_kind(t) == K_FLOAT ? of_num(a.b) : of_int(sym_int(c, a.b));
    if (et_kind(t) == K_FLOAT) {
      scalar k;
      if (a.kind == PV_NUM) return k.f = a.f, of_num(et_round(t, k).f);
      if (a.kind == PV_INT && sym_is_int(c, a.s, &k.i)) return k.f = (double)k.i, of_num(et_round(t, k).f);
      return a;
    }
    if (a.kind == PV_INT) return a; /* sizes fit every integer type they meet */
    if (a.kind == PV_NUM) {
      scalar k = {.f = a.f};
      return of_int(sym_int(c, et_convert(t, from, k).i));
    }
    if (a.kind == PV_RATIO && sym_ge0(c, a.s)) return of_int(sym_div(c, a.s, a.den));
    return unknown();
  }
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
  case OP_ROUND_EVEN:
    if (a.kind == PV_INT) return a;
    if (a.kind == PV_NUM)
      return of_num(n->op == OP_FLOOR   ? floor(a.f)
                    : n->op == OP_CEIL  ? ceil(a.f)
                    : n->op == OP_TRUNC ? trunc(a.f)
                                        : nearbyint(a.f));
    if (a.kind != PV_RATIO) return unknown();
    if (n->op == OP_FLOOR || (n->op == OP_TRUNC && sym_ge0(c, a.s))) return of_int(sym_div(c, a.s, a.den));
    if (n->op == OP_CEIL) return of_int(sym_ceildiv(c, a.s, a.den));
    return unknown();
  default:
    break;
  }
  if (!number(p, a, &f)) return unknown();
  switch (n->op) {
  case OP_SQRT:
    return of_num(sqrt(f));
  case OP_EXP:
    return of_num(exp(f));
  case OP_LOG:
    return of_num(log(f));
  case OP_ISNAN:
    return of_bool(isnan(f));
  case OP_ISINF:
    return of_bool(isinf(f));
  default:
    return unknown();
  }
}

static pval reduce(pt *p, const ex_node *n, env *up) {
  ctx *c = p->x->c;
  int64_t ext[MAX_RANK * 2], at[MAX_RANK * 2], total = 1;
  if (n->nargs > MAX_RANK * 2 || n->op >= RED_ARGMAX) return unknown();
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (!sym_is_int(c, sym_canon(c, sym_extent(c, n->args[i])), &ext[i]) || ext[i] > POINT_PLACES) return unknown();
    total *= ext[i];
    at[i] = 0;
    if (total > POINT_PLACES) return unknown();
  }
  env v = {n->args, at, n->nargs, up};
  bool have = false, flag = n->op == RED_ALL;
  pval r = unknown();
  for (int64_t k = 0; k < total; k++) {
    pval w = n->where ? eval(p, n->where, &v) : of_bool(true);
    if (w.kind != PV_BOOL) return unknown();
    if (w.b) {
      pval q = eval(p, n->body, &v);
      if (q.kind == PV_UNKNOWN) return q;
      if (n->op == RED_ANY || n->op == RED_ALL) {
        if (q.kind != PV_BOOL) return unknown();
        flag = n->op == RED_ANY ? flag || q.b : flag && q.b;
      } else if (!have)
        r = q;
      else
        r = arith(p,
                  n->op == RED_SUM    ? OP_ADD
                  : n->op == RED_PROD ? OP_MUL
                  : n->op == RED_MAX  ? OP_MAX
                                      : OP_MIN,
                  (etype)n->type, r, q);
      have = true;
    }
    for (uint32_t i = n->nargs; i-- > 0;) {
      if (++at[i] < ext[i]) break;
      at[i] = 0;
    }
  }
  if (n->op == RED_ANY || n->op == RED_ALL) return of_bool(flag);
  if (have) return r;
  if (n->op == RED_SUM || n->op == RED_PROD)
    return et_kind((etype)n->type) == K_FLOAT ? of_num(n->op == RED_PROD) : of_int(sym_int(c, n->op == RED_PROD));
  return unknown();
}

static pval load(pt *p, const ex_node *n, env *v) {
  ctx *c = p->x->c;
  const tensor *t = xt(p->x->m, n->tensor);
  int64_t pos = 0, count;
  const pval *all = contents_found(p->x, n->tensor, &count);
  if (!all && !n->otherwise) return unknown();
  bool inside = true;
  for (uint32_t i = 0; i < n->nargs; i++) {
    sz s;
    int64_t k, d;
    if (!size_at(p, n->args[i], v, &s) || !sym_is_int(c, s, &k) || !sym_is_int(c, sym_canon(c, t->shape[i]), &d))
      return unknown();
    if (k < 0 || k >= d) inside = false;
    pos = pos * d + k;
  }
  if (!inside) return n->otherwise ? eval(p, n->otherwise, v) : unknown();
  return all && pos < count ? all[pos] : unknown();
}

static pval eval(pt *p, ex e, env *v) {
  ctx *c = p->x->c;
  const ex_node *n = exn(p->x->m, e);
  sz s;
  if (++p->steps > MAX_STEPS || p->depth > 400) return unknown();
  pval r = unknown();
  p->depth++;
  switch (n->kind) {
  case EX_CONST:
    if (n->type == ET_BOOL)
      r = of_bool(n->k.i != 0);
    else
      r = et_kind((etype)n->type) == K_FLOAT ? of_num(n->k.f) : of_int(sym_int(c, n->k.i));
    break;
  case EX_INDEX:
    if (size_at(p, n->index, v, &s)) r = of_int(s);
    break;
  case EX_LOAD:
    r = load(p, n, v);
    break;
  case EX_REDUCE:
    r = reduce(p, n, v);
    break;
  case EX_OP: {
    sop op = (sop)n->op;
    if (op == OP_SEL || op == OP_AND || op == OP_OR) {
      pval k = eval(p, n->args[0], v);
      if (op == OP_SEL) {
        sz q;
        if (k.kind == PV_BOOL)
          r = eval(p, n->args[k.b ? 1 : 2], v);
        else { /* not decided: a size that depends on it, if the condition compares sizes */
          pval a = eval(p, n->args[1], v), b = eval(p, n->args[2], v);
          if (a.kind == PV_INT && b.kind == PV_INT) {
            if (a.s == b.s)
              r = a;
            else if (as_cond(p, k, &q))
              r = of_int(sym_sel(c, q, a.s, b.s));
          }
        }
      } else if (k.kind == PV_BOOL)
        r = k.b == (op == OP_AND) ? eval(p, n->args[1], v) : k;
      else {
        pval q = eval(p, n->args[1], v);
        sz i, j;
        if (q.kind == PV_BOOL && q.b != (op == OP_AND))
          r = q;
        else if (as_cond(p, k, &i) && as_cond(p, q, &j))
          r = of_cond(p, op == OP_AND ? sym_min(c, i, j) : sym_max(c, i, j));
      }
      break;
    }
    pval a = eval(p, n->args[0], v);
    if (a.kind == PV_UNKNOWN) break;
    pval b = n->nargs > 1 ? eval(p, n->args[1], v) : unknown();
    if (n->nargs == 1)
      r = unary(p, n, a);
    else if (n->nargs == 2) {
      if (op >= OP_EQ && op <= OP_GE) {
        if (a.kind == PV_BOOL && b.kind == PV_BOOL)
          r = of_bool((a.b == b.b) == (op == OP_EQ));
        else if (a.kind == PV_COND || b.kind == PV_COND)
          r = unknown();
        else
          r = compare(p, op, a, b);
      } else if (a.kind != PV_COND && b.kind != PV_COND)
        r = arith(p, op, (etype)n->type, a, b);
    }
    break;
  }
  default:
    break;
  }
  p->depth--;
  return r;
}

static void run_stage_points(pt *p, const stage *s, pval *out, int64_t n) {
  ctx *c = p->x->c;
  uint32_t nv = 0;
  for (uint32_t i = 0; i < s->naxes; i++) nv += s->axes[i].n;
  atom *var = NEWN(p->x->a, atom, nv ? nv : 1);
  int64_t *ext = NEWN(p->x->a, int64_t, nv ? nv : 1), *at = NEWN(p->x->a, int64_t, nv ? nv : 1);
  nv = 0;
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      var[nv] = s->axes[i].d[j].var;
      ext[nv++] = sym_int_or(c, sym_canon(c, s->axes[i].d[j].extent), 0);
    }
  env v = {var, at, nv, NULL};
  for (int64_t k = 0; k < n && s->value; k++) {
    out[k] = eval(p, s->value, &v);
    for (uint32_t i = nv; i-- > 0;) {
      if (++at[i] < ext[i]) break;
      at[i] = 0;
    }
  }
  for (uint32_t q = 0; q < s->updates.n; q++) {
    const update *u = &s->updates.v[q];
    int64_t total = 1, d;
    int64_t *ue = NEWN(p->x->a, int64_t, u->nvars + 1), *ua = NEWN(p->x->a, int64_t, u->nvars + 1);
    for (uint32_t i = 0; i < u->nvars; i++)
      if (sym_is_int(c, sym_canon(c, sym_extent(c, u->vars[i])), &ue[i]) && ue[i] <= POINT_PLACES &&
          total <= POINT_PLACES)
        total *= ue[i];
      else
        total = POINT_PLACES + 1;
    bool ok = total <= POINT_PLACES;
    env uv = {u->vars, ua, u->nvars, NULL};
    for (int64_t k = 0; ok && k < total; k++) {
      pval w = u->cond ? eval(p, u->cond, &uv) : of_bool(true);
      int64_t pos = 0;
      if (w.kind != PV_BOOL)
        ok = false;
      else if (w.b) {
        for (uint32_t i = 0; ok && i < u->nidx; i++) {
          sz z;
          int64_t m;
          ok = size_at(p, u->idx[i], &uv, &z) && sym_is_int(c, z, &m) &&
               sym_is_int(c, sym_canon(c, xt(p->x->m, s->tensor)->shape[i]), &d) && m >= 0 && m < d;
          if (ok) pos = pos * d + m;
        }
        if (ok) {
          pval nv_ = eval(p, u->value, &uv);
          if (u->op == OP_NONE)
            out[pos] = nv_;
          else
            out[pos] =
                out[pos].kind && nv_.kind ? arith(p, u->op, xt(p->x->m, s->tensor)->type, out[pos], nv_) : unknown();
        }
      }
      for (uint32_t i = u->nvars; i-- > 0;) {
        if (++ua[i] < ue[i]) break;
        ua[i] = 0;
      }
    }
    if (!ok)
      for (int64_t k = 0; k < n; k++) out[k] = unknown();
  }
}

pval point_ex(el *x, ex e) {
  pt p = {.x = x};
  contents_settle(x, e);
  return eval(&p, e, NULL);
}
pval point_size(el *x, etype t, sz s) {
  pt p = {.x = x};
  return t == ET_BOOL ? of_cond(&p, sym_addi(x->c, s, -1)) : of_int(s);
}
void point_stage(el *x, const stage *s, pval *out, int64_t n) {
  pt p = {.x = x};
  run_stage_points(&p, s, out, n);
}
bool point_values(el *x, tid t, const sz **ints, const double **floats) {
  pt p = {.x = x};
  int64_t n;
  const tensor *q = xt(x->m, t);
  if (et_kind(q->type) == K_STR) return false;
  contents_settle_tensor(x, t);
  const pval *v = contents_found(x, t, &n);
  if (!v) return false;
  if (et_kind(q->type) == K_FLOAT) {
    double *f = NEWN(x->m->a, double, n ? (size_t)n : 1);
    for (int64_t i = 0; i < n; i++)
      if (!number(&p, v[i], &f[i])) return false;
    return *floats = f, true;
  }
  sz *s = NEWN(x->m->a, sz, n ? (size_t)n : 1);
  for (int64_t i = 0; i < n; i++) {
    if (v[i].kind == PV_INT)
      s[i] = v[i].s;
    else if (v[i].kind == PV_BOOL)
      s[i] = sym_int(x->c, v[i].b);
    else if (v[i].kind == PV_COND)
      s[i] = cond_as_int(&p, v[i].s);
    else
      return false;
  }
  return *ints = s, true;
}
