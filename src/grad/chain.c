/* How does a value depend on each read in it? The scalar chain rule.
 *
 * Idea. A value is a DAG of scalar operations over reads. The adjoint of the root is 1; nodes are visited in descending
 * order (an ex refers to smaller ids only), and every node hands its adjoint, times the local partial derivative, to
 * its operands. What arrives at a read is d value / d read. The partials are one line per operation below.
 *
 * Conditions. `c ? a : b`, min and max hand the adjoint on under a condition. It stays apart from the factor (a
 * `mask`), because behind it operands may be unreadable or infinite: a node holds a list of (mask, factor). Two entries
 * that differ in the sense of their last condition become one `c ? x : y`; equal masks add.
 *
 * Types. A factor has its node's type or a wider one: through a conversion from a wider type it widens, to a
 * narrower one it stays. Rounding points have derivative 1.
 */
#include "grad/grad_in.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TERMS = 8 };

/* ---- small algebra: only what keeps derivatives readable ------------------------------------- */
etype wider(etype a, etype b) {
  if (a == b) return a;
  uint32_t x = et_bits(a), y = et_bits(b);
  return x == y ? ET_F32 : x > y ? a : b;
}
static bool is_const(emodule *m, ex e, double *v) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_CONST || et_kind(n->type) != K_FLOAT) return false;
  *v = n->k.f;
  return true;
}
static void same_type(emodule *m, ex *a, ex *b) {
  etype t = wider(exn(m, *a)->type, exn(m, *b)->type);
  double v;
  *a = is_const(m, *a, &v) ? expr_f(m, t, v) : expr_cast(m, t, *a);
  *b = is_const(m, *b, &v) ? expr_f(m, t, v) : expr_cast(m, t, *b);
}
static ex k_neg(emodule *m, ex a) {
  double v;
  const ex_node *n = exn(m, a);
  if (is_const(m, a, &v)) return expr_f(m, n->type, -v);
  return n->kind == EX_OP && n->op == OP_NEG ? n->args[0] : expr_op1(m, OP_NEG, a);
}
ex k_mul(emodule *m, ex a, ex b) {
  double x, y;
  same_type(m, &a, &b);
  bool ka = is_const(m, a, &x), kb = is_const(m, b, &y);
  if (ka && kb) return expr_f(m, exn(m, a)->type, x * y);
  if (ka && x == 1) return b;
  if (kb && y == 1) return a;
  if (ka && x == -1) return k_neg(m, b);
  if (kb && y == -1) return k_neg(m, a);
  return expr_op2(m, OP_MUL, a, b);
}
ex k_add(emodule *m, ex a, ex b) {
  double x, y;
  same_type(m, &a, &b);
  bool ka = is_const(m, a, &x), kb = is_const(m, b, &y);
  if (ka && kb) return expr_f(m, exn(m, a)->type, x + y);
  if (ka && x == 0) return b;
  if (kb && y == 0) return a;
  const ex_node *n = exn(m, b);
  if (n->kind == EX_OP && n->op == OP_NEG) return expr_op2(m, OP_SUB, a, n->args[0]);
  return expr_op2(m, OP_ADD, a, b);
}
ex k_and(emodule *m, ex a, ex b) { return !a ? b : !b ? a : expr_op2(m, OP_AND, a, b); }

/* ---- masks ----------------------------------------------------------------------------------- */
mask mask_with(gr *g, mask m, ex e, bool neg) {
  for (uint32_t i = 0; i < m.n; i++)
    if (m.v[i].e == e && m.v[i].neg == neg) return m;
  lit *v = NEWN(g->a, lit, m.n + 1);
  if (m.n) memcpy(v, m.v, m.n * sizeof *v);
  v[m.n] = (lit){e, neg};
  return (mask){m.n + 1, v};
}
ex mask_ex(gr *g, mask m) {
  ex r = 0;
  for (uint32_t i = 0; i < m.n; i++) r = k_and(g->m, r, m.v[i].neg ? expr_op1(g->m, OP_NOT, m.v[i].e) : m.v[i].e);
  return r;
}
static bool mask_same(mask a, mask b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (a.v[i].e != b.v[i].e || a.v[i].neg != b.v[i].neg) return false;
  return true;
}
ex in_range_cond(gr *g, ex load) {
  emodule *m = g->m;
  ex_node n = *exn(m, load);
  ex r = 0;
  for (uint32_t i = 0; i < n.nargs; i++) {
    sz size = xt(m, n.tensor)->shape[i];
    if (!sym_ge0(g->c, n.args[i])) r = k_and(m, r, expr_op2(m, OP_GE, expr_index(m, n.args[i]), expr_i(m, ET_I64, 0)));
    if (!sym_lt(g->c, n.args[i], size))
      r = k_and(m, r, expr_op2(m, OP_LT, expr_index(m, n.args[i]), expr_index(m, size)));
  }
  return r;
}

/* ---- which nodes a gradient flows through ---------------------------------------------------- */
// clang-format off
#define SMOOTH(X) \
  X(ADD) X(SUB) X(MUL) X(DIV) X(MOD) X(FMOD) X(NEG) X(ABS) X(MIN) X(MAX) X(POW) X(FMA) X(EXP) X(LOG) \
  X(SQRT) X(SIN) X(COS) X(TAN) X(ASIN) X(ACOS) X(ATAN) X(SINH) X(COSH) X(TANH) X(ASINH) X(ACOSH) \
  X(ATANH) X(ERF) X(CAST) X(SAT) X(SATF) X(BITCAST)
// clang-format on
static bool flows(sop op, uint32_t i) {
  static const bool smooth[OP_COUNT] = {
#define X(o) [OP_##o] = true,
      SMOOTH(X)
#undef X
  };
  return smooth[op] || (op == OP_SEL && i > 0) || ((op == OP_NEXTAFTER || op == OP_LDEXP) && i == 0);
}
bool grad_live(gr *g, map *memo, ex e) {
  uint64_t known;
  if (!e) return false;
  ex_node n = *exn(g->m, e);
  if (et_kind(n.type) != K_FLOAT || n.kind == EX_CONST || n.kind == EX_INDEX) return false;
  if (map_getu(memo, e, &known)) return known != 0;
  bool live = false;
  if (n.kind == EX_LOAD)
    live = (n.tensor < g->ntensors && g->active[n.tensor]) || grad_live(g, memo, n.otherwise);
  else if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++)
      live |= flows(n.op, i) && (n.op != OP_BITCAST || exn(g->m, n.args[i])->type == n.type) &&
              grad_live(g, memo, n.args[i]);
  else
    live = !red_is_arg(n.op) && grad_live(g, memo, n.body);
  map_putu(memo, e, live);
  return live;
}

/* ---- partial derivatives --------------------------------------------------------------------- */
/* d op(x) / d x[i], of the operands' type t; y: the operation's value. 0: none. Conditions (min, max, ?:) are not
 * here. */
static ex partial(emodule *m, sop op, uint32_t i, const ex *x, ex y, etype t) {
#define F(v) expr_f(m, t, v)
#define ADD(a, b) k_add(m, a, b)
#define SUB(a, b) k_add(m, a, k_neg(m, b))
#define MUL(a, b) k_mul(m, a, b)
#define DIV(a, b) expr_op2(m, OP_DIV, a, b)
#define NEG(a) k_neg(m, a)
#define FN(o, a) expr_op1(m, OP_##o, a)
  double k;
  // clang-format off
  switch (op) { /* one derivative rule a line */
  case OP_ADD: case OP_NEXTAFTER: return F(1);
  case OP_SUB:   return F(i ? -1 : 1);
  case OP_LDEXP: return expr_op2(m, OP_LDEXP, F(1), x[1]);
  case OP_MUL:   return x[1 - i];
  case OP_DIV:   return i ? NEG(DIV(y, x[1])) : DIV(F(1), x[1]);
  case OP_MOD:   return i ? NEG(FN(FLOOR, DIV(x[0], x[1]))) : F(1);
  case OP_FMOD:  return i ? NEG(FN(TRUNC, DIV(x[0], x[1]))) : F(1);
  case OP_NEG:   return F(-1);
  case OP_ABS:   return FN(SIGN, x[0]);
  case OP_FMA:   return i == 2 ? F(1) : x[1 - i];
  case OP_POW:
    if (i) /* not real for a negative base */
      return expr_sel(m, expr_op2(m, OP_GT, x[0], F(0)), MUL(y, FN(LOG, x[0])), F(0));
    if (!is_const(m, x[1], &k)) /* 0 * inf where both are 0; elsewhere the product has the right slope, too */
      return expr_sel(m, k_and(m, expr_op2(m, OP_EQ, x[0], F(0)), expr_op2(m, OP_EQ, x[1], F(0))), F(0),
                      MUL(x[1], expr_op2(m, OP_POW, x[0], SUB(x[1], F(1)))));
    return k == 0 ? 0 : k == 1 ? F(1) : k == 2 ? MUL(F(2), x[0]) : MUL(F(k), expr_op2(m, OP_POW, x[0], F(k - 1)));
  case OP_EXP:   return y;
  case OP_LOG:   return DIV(F(1), x[0]);
  case OP_SQRT:  return DIV(F(0.5), y);
  case OP_SIN:   return FN(COS, x[0]);
  case OP_COS:   return NEG(FN(SIN, x[0]));
  case OP_TAN:   return ADD(F(1), MUL(y, y));
  case OP_ASIN:  return DIV(F(1), FN(SQRT, SUB(F(1), MUL(x[0], x[0]))));
  case OP_ACOS:  return DIV(F(-1), FN(SQRT, SUB(F(1), MUL(x[0], x[0]))));
  case OP_ATAN:  return DIV(F(1), ADD(F(1), MUL(x[0], x[0])));
  case OP_SINH:  return FN(COSH, x[0]);
  case OP_COSH:  return FN(SINH, x[0]);
  case OP_TANH:  return SUB(F(1), EK_PLANTED("grad-chain") ? y : MUL(y, y));
  case OP_ASINH: return DIV(F(1), FN(SQRT, ADD(MUL(x[0], x[0]), F(1))));
  case OP_ACOSH: return DIV(F(1), FN(SQRT, SUB(MUL(x[0], x[0]), F(1))));
  case OP_ATANH: return DIV(F(1), SUB(F(1), MUL(x[0], x[0])));
  case OP_ERF:   return MUL(F(1.1283791670955126), FN(EXP, NEG(MUL(x[0], x[0])))); /* 2/sqrt(pi) */
  default:       return 0;
  }
  // clang-format on
#undef F
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef NEG
#undef FN
}

/* ---- the walk -------------------------------------------------------------------------------- */
typedef struct term {
  mask when; /* where it counts */
  ex g;      /* derivative */
} term;
typedef VEC(term) terms;
typedef struct chain {
  gr *g;         /* differentiation */
  emodule *m;    /* the module */
  map *live;     /* ex -> does a gradient flow through it */
  map *slot;     /* ex -> index into at */
  map *stored;   /* ex -> a read of what is stored, which has its value where a gradient flows through it */
  VEC(ex) order; /* nodes in the order of the walk */
  VEC(terms) at; /* per node of order: its derivatives */
} chain;

static void collect(chain *z, ex e) {
  uint64_t known;
  if (!e || map_getu(z->slot, e, &known) || !grad_live(z->g, z->live, e)) return;
  map_putu(z->slot, e, z->order.n);
  vec_push(z->g->a, z->order, e);
  vec_push(z->g->a, z->at, ((terms){0}));
  ex_node n = *exn(z->m, e);
  if (n.kind == EX_LOAD) collect(z, n.otherwise);
  for (uint32_t i = 0; n.kind == EX_OP && i < n.nargs; i++)
    if (flows(n.op, i)) collect(z, n.args[i]);
}
/* A sum of many cases is one case: where any of them holds. */
static void join_terms(chain *z, terms *l) {
  emodule *m = z->m;
  ex any = 0, sum = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    ex c = mask_ex(z->g, l->v[i].when),
       x = c ? expr_sel(m, c, l->v[i].g, expr_f(m, exn(m, l->v[i].g)->type, 0)) : l->v[i].g;
    sum = sum ? k_add(m, sum, x) : x;
    any = !i ? c : any && c ? expr_op2(m, OP_OR, any, c) : 0;
  }
  l->n = 1;
  l->v[0] = (term){any ? mask_with(z->g, (mask){0}, any, false) : (mask){0}, sum};
}
static void add_term(chain *z, terms *l, mask when, ex f) {
  emodule *m = z->m;
  for (uint32_t i = 0; i < l->n; i++) {
    term *t = &l->v[i];
    if (t->when.n != when.n || (when.n && !mask_same(t->when, when, when.n - 1))) continue;
    lit a = when.n ? t->when.v[when.n - 1] : (lit){0}, b = when.n ? when.v[when.n - 1] : (lit){0};
    if (a.e != b.e) continue;
    if (a.neg == b.neg) {
      t->g = k_add(m, t->g, f);
      return;
    }
    ex p = a.neg ? f : t->g, q = a.neg ? t->g : f;
    if (exn(m, p)->type != exn(m, q)->type) continue;
    term last = l->v[--l->n];
    if (i < l->n) l->v[i] = last;
    when.n--;
    add_term(z, l, when, p == q ? p : expr_sel(m, a.e, p, q));
    return;
  }
  vec_push(z->g->a, *l, ((term){when, f}));
  if (l->n > MAX_TERMS) join_terms(z, l);
}
static void give(chain *z, ex to, mask when, ex f) {
  uint64_t at;
  if (to && map_getu(z->slot, to, &at)) add_term(z, &z->at.v[at], when, f);
}
/* Where is x what max(x, b) or min(x, b) is? Where b has no gradient, y tells it, a read of what is stored of the
 * result; and that is x there, so that x need not be kept. */
static ex takes_first(chain *z, const ex_node *n, ex y) {
  uint64_t slot;
  const bool told = exn(z->m, y)->kind == EX_LOAD && !map_getu(z->slot, n->args[1], &slot);
  if (told) map_putu(z->stored, n->args[0], y);
  return expr_op2(z->m, n->op == OP_MAX ? OP_GT : OP_LT, told ? y : n->args[0], n->args[1]);
}
static void through_op(chain *z, const ex_node *n, ex y, term t) {
  emodule *m = z->m;
  etype at = exn(m, n->args[0])->type;
  if (n->op == OP_SEL) {
    give(z, n->args[1], mask_with(z->g, t.when, n->args[0], false), t.g);
    give(z, n->args[2], mask_with(z->g, t.when, n->args[0], true), t.g);
    return;
  }
  if (n->op == OP_MAX || n->op == OP_MIN) { /* equal operands: the second wins, so that max(x, 0) is flat at 0 */
    if (n->args[0] == n->args[1]) {
      give(z, n->args[0], t.when, t.g);
      return;
    }
    ex first = takes_first(z, n, y);
    give(z, n->args[0], mask_with(z->g, t.when, first, false), t.g);
    give(z, n->args[1], mask_with(z->g, t.when, first, true), t.g);
    return;
  }
  if (n->op == OP_CAST || n->op == OP_SAT || n->op == OP_SATF || n->op == OP_BITCAST) {
    give(z, n->args[0], t.when, expr_cast(m, wider(at, exn(m, t.g)->type), t.g));
    return;
  }
  for (uint32_t i = 0; i < n->nargs; i++) {
    uint64_t slot;
    if (!flows(n->op, i) || !map_getu(z->slot, n->args[i], &slot)) continue;
    ex p = partial(m, n->op, i, n->args, y, at);
    if (p) give(z, n->args[i], t.when, k_mul(m, t.g, p));
  }
}
static int descending(const void *a, const void *b) {
  ex x = *(const ex *)a, y = *(const ex *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}
void grad_chain(gr *g, ex root, ex own, mask when, locals *out) {
  chain z = {.g = g, .m = g->m, .live = map_new(g->a), .slot = map_new(g->a), .stored = map_new(g->a)};
  collect(&z, root);
  if (!z.order.n) return;
  qsort(z.order.v, z.order.n, sizeof *z.order.v, descending);
  give(&z, root, when, expr_f(g->m, exn(g->m, root)->type, 1));
  if (own) map_putu(z.stored, root, own);
  for (uint32_t i = 0; i < z.order.n; i++) {
    ex e = z.order.v[i];
    uint64_t at, y = e;
    map_getu(z.slot, e, &at);
    map_getu(z.stored, e, &y);
    const terms l = z.at.v[at];
    const ex_node n = *exn(g->m, e);
    for (uint32_t k = 0; k < l.n; k++) {
      if (n.kind == EX_OP)
        through_op(&z, &n, (ex)y, l.v[k]);
      else if (n.kind == EX_LOAD) {
        if (n.tensor < g->ntensors && g->active[n.tensor]) vec_push(g->a, *out, ((local){e, l.v[k].when, l.v[k].g}));
        ex inside = n.otherwise ? in_range_cond(g, e) : 0;
        if (inside)
          give(&z, n.otherwise, EK_PLANTED("grad-else") ? l.v[k].when : mask_with(g, l.v[k].when, inside, true),
               l.v[k].g);
      } else
        ctx_bug(g->c, "grad: a reduction below the root of a value");
    }
  }
}
