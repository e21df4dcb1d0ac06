/* value: the arithmetic of the elaborator's values (elab.h names the kinds).
 *
 * Static arithmetic runs here and now, over sizes that may be symbolic; as soon as an element value takes part the
 * result is an expression of the module. Nothing converts by itself, except that a literal or a size takes the type of
 * the other side. Comparisons of sizes are decided where the prover can, and stay conditions otherwise.
 */
#include "notation/elab.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void el_fail(el *x, ecode code, uint32_t line, uint32_t col, const char *fmt, ...) {
  va_list ap;
  char buf[1024];
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  srcpos pos = {x->file, line, col};
  diag_add(x->c, D_ERROR, code, pos, x->node, "%s: %s", x->d ? x->d->name : "?", buf);
  ctx_unwind(x->c);
}
#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)

val v_int(el *x, int64_t i) { return v_size(sym_int(x->c, i)); }
val v_list(el *x, uint32_t n) {
  vlist *l = NEW(x->a, vlist);
  l->n = n;
  l->v = NEWN(x->a, val, n ? n : 1);
  return (val){.kind = V_LIST, .p.l = l};
}
bool v_is_int(el *x, val v, int64_t *i) { return v.kind == V_SIZE && sym_is_int(x->c, v.s, i); }
val v_ratio(el *x, sz num, sz den) {
  sz q;
  if (sym_exact_div(x->c, num, den, &q)) return v_size(q);
  return (val){.kind = V_RAT, .s = num, .den = den};
}

const char *v_describe(el *x, val v) {
  switch (v.kind) {
  case V_NONE:
    return "none";
  case V_BOOL:
    return v.b ? "true" : "false";
  case V_SIZE:
    return arena_fmt(x->a, "%s %s", v.idx ? "index" : "size", sym_str(x->c, v.s));
  case V_RAT:
    return arena_fmt(x->a, "ratio (%s)/(%s)", sym_str(x->c, v.s), sym_str(x->c, v.den));
  case V_FLOAT:
    return arena_fmt(x->a, "number %g", v.f);
  case V_STR:
    return arena_fmt(x->a, "string \"%.40s\"", v.p.str);
  case V_TYPE:
    return arena_fmt(x->a, "element type %s", et_name((etype)v.type));
  case V_LIST:
    return arena_fmt(x->a, "pack of %u", v.p.l->n);
  case V_TEN:
    return arena_fmt(x->a, "tensor %s", v.p.t->name);
  case V_EX:
    return v.str ? "a string element" : arena_fmt(x->a, "%s element", et_name((etype)exn(x->m, v.e)->type));
  }
  return "?";
}

static bool is_float(etype t) { return et_kind(t) == K_FLOAT; }
static bool is_integer(etype t) { return et_kind(t) == K_INT || et_kind(t) == K_UINT; }
/* A number that a narrow float does not have is the conversion of the number: who computes in a wider type takes it
 * as it is. */
static ex const_of(el *x, etype t, double f) {
  scalar k = {.f = f};
  if (et_bits(t) == 16 && isfinite(f) && et_round(t, k).f != f) return expr_cast(x->m, t, expr_f(x->m, ET_F64, f));
  return expr_const(x->m, t, et_round(t, k));
}
static ex const_int(el *x, etype t, int64_t i) {
  if (is_float(t)) return const_of(x, t, (double)i);
  scalar k = {.i = i};
  return expr_const(x->m, t, et_round(t, k));
}

etype v_etype(el *x, val v) {
  if (v.str) return ET_STR;
  if (v.kind == V_EX && !v.weak) return (etype)exn(x->m, v.e)->type;
  if (v.kind == V_SIZE && v.idx) return ET_I64;
  if (v.kind == V_BOOL || (v.kind == V_EX && exn(x->m, v.e)->type == ET_BOOL)) return ET_BOOL;
  return ET_NONE;
}

/* A weak value in type t: its literals are converted, not its result. */
static ex retype(el *x, ex e, etype t) {
  const ex_node *n = exn(x->m, e);
  etype from = (etype)n->type;
  if (from == t) return e;
  if (n->kind == EX_CONST) return is_float(from) ? const_of(x, t, n->k.f) : const_int(x, t, n->k.i);
  if (n->kind == EX_OP && n->op == OP_SEL) {
    ex c = n->args[0], a = n->args[1], b = n->args[2];
    a = retype(x, a, t);
    b = retype(x, b, t);
    return expr_sel(x->m, c, a, b);
  }
  return expr_cast(x->m, t, e);
}

ex v_lift(el *x, val v, etype t, const ast *at) {
  int64_t i;
  if (t == ET_STR && v.str) return v.e;
  if (t == ET_STR && v.kind == V_STR) return text_literal(x, v.p.str, at);
  if (t == ET_STR || v.str)
    FAIL(at, "%s where %s is expected", v_describe(x, v), t == ET_STR ? "a string" : et_name(t));
  switch (v.kind) {
  case V_BOOL:
    if (t != ET_BOOL) FAIL(at, "a bool where %s is expected; write %s(..)", et_name(t), et_name(t));
    return expr_bool(x->m, v.b);
  case V_SIZE:
    if (t == ET_BOOL) FAIL(at, "%s where a bool is expected", v_describe(x, v));
    if (v.idx && t != ET_I64)
      FAIL(at, "an index is an i64, but %s is expected here; write %s(..)", et_name(t), et_name(t));
    if (sym_is_int(x->c, v.s, &i)) return const_int(x, t, i);
    return expr_cast(x->m, t, expr_from_size(x->m, v.s));
  case V_RAT:
    if (!is_float(t)) FAIL(at, "%s where %s is expected; write floor(..) or ceil(..)", v_describe(x, v), et_name(t));
    return expr_cast(x->m, t,
                     expr_op2(x->m, OP_DIV, v_lift(x, v_size(v.s), ET_F64, at), v_lift(x, v_size(v.den), ET_F64, at)));
  case V_FLOAT:
    if (!is_float(t)) FAIL(at, "the number %g has a fraction or is a float, but %s is expected here", v.f, et_name(t));
    return const_of(x, t, v.f);
  case V_EX: {
    etype from = (etype)exn(x->m, v.e)->type;
    if (from == t) return v.e;
    if (v.weak && from != ET_BOOL && t != ET_BOOL) {
      if (is_float(from) && !is_float(t)) FAIL(at, "a number with a fraction where %s is expected", et_name(t));
      return retype(x, v.e, t);
    }
    FAIL(at, "element types differ: %s and %s; write %s(..) to convert", et_name(from), et_name(t), et_name(t));
  }
  default:
    FAIL(at, "%s where an element of type %s is expected", v_describe(x, v), et_name(t));
  }
}

val v_cast(el *x, val v, etype t, const ast *at) {
  if (v.kind == V_LIST) {
    val r = v_list(x, v.p.l->n);
    for (uint32_t i = 0; i < v.p.l->n; i++) r.p.l->v[i] = v_cast(x, v.p.l->v[i], t, at);
    return r;
  }
  scalar k = {0};
  if (v.str && t == ET_STR) return v;
  if (v.str || t == ET_STR) FAIL(at, "%s cannot be converted to %s", v_describe(x, v), et_name(t));
  switch (v.kind) {
  case V_BOOL:
    if (t == ET_BOOL) return v;
    return v_ex(const_int(x, t, v.b));
  case V_SIZE:
    if (t == ET_I64) return v_index(v.s);
    if (sym_is_int(x->c, v.s, &k.i)) {
      if (is_float(t)) return v_ex(const_of(x, t, (double)k.i));
      scalar r = et_convert(t, ET_I64, k);
      return t == ET_BOOL ? v_bool(r.i != 0) : v_ex(expr_const(x->m, t, et_round(t, r)));
    }
    return v_ex(expr_cast(x->m, t, expr_from_size(x->m, v.s)));
  case V_RAT:
    if (is_float(t)) return v_ex(v_lift(x, v, t, at));
    if (sym_ge0(x->c, v.s)) return v_cast(x, v_size(sym_div(x->c, v.s, v.den)), t, at);
    return v_ex(expr_cast(x->m, t, v_lift(x, v, ET_F64, at)));
  case V_FLOAT:
    if (is_float(t)) return v_ex(const_of(x, t, v.f));
    k.f = v.f;
    if (t == ET_I64 && isfinite(v.f) && fabs(v.f) < 9e18) return v_index(sym_int(x->c, (int64_t)v.f));
    k = et_convert(t, ET_F64, k);
    return t == ET_BOOL ? v_bool(k.i != 0) : v_ex(expr_const(x->m, t, et_round(t, k)));
  case V_EX: {
    etype from = (etype)exn(x->m, v.e)->type;
    if (v.weak && from != ET_BOOL && is_float(from) <= is_float(t) && t != ET_BOOL) return v_ex(retype(x, v.e, t));
    return v_ex(expr_cast(x->m, t, v.e));
  }
  default:
    FAIL(at, "%s cannot be converted to %s", v_describe(x, v), et_name(t));
  }
}

sz v_need_size(el *x, val v, const ast *at, const char *what) {
  if (v.kind == V_SIZE) return sym_canon(x->c, v.s);
  if (v.kind == V_FLOAT && v.f == floor(v.f) && fabs(v.f) < 9e15) return sym_int(x->c, (int64_t)v.f);
  if (v.kind == V_EX && !v.weak)
    FAIL(at, "%s depends on the values of a tensor, which are not known before the run", what);
  FAIL(at, "%s must be a size, not %s", what, v_describe(x, v));
}
int64_t v_need_int(el *x, val v, const ast *at, const char *what) {
  sz s = v_need_size(x, v, at, what);
  int64_t i;
  if (sym_is_int(x->c, s, &i)) return i;
  el_fail(x, E_UNSUPPORTED, at->line, at->col,
          "%s would depend on a size or value that is only known at run time (%s); give it a fixed value", what,
          sym_str(x->c, s));
}

/* ---- guards ----
 * A guard of the root block holds from now on and is learnt for good. One of a branch or body is a fact until the
 * lowering of that block ends (notation_elaborate leaves it on the stack of facts). */
static bool have_guard(el *x, sz a, bool is_eq) {
  for (uint32_t i = 0; i < x->m->guards.n; i++) {
    const guard *g = &x->m->guards.v[i];
    if ((g->block == 0 || g->block == x->blk) && g->is_eq == is_eq && g->ge0 == a) return true;
  }
  return false;
}
void guard_ge0(el *x, sz a, bool assumption, const char *text) {
  a = sym_canon(x->c, a);
  if (sym_ge0(x->c, a)) return;
  atom k;
  sz arm[3];
  /* both arms of the minimum are bounds */
  if (sym_is_atom(x->c, a, &k) && sym_kind(x->c, k) == AT_MIN && sym_args(x->c, k, arm) == 2) {
    guard_ge0(x, arm[0], assumption, text);
    guard_ge0(x, arm[1], assumption, text);
    return;
  }
  if (have_guard(x, a, false)) return;
  guard g = {.assumption = assumption, .ge0 = a, .text = text, .node = x->node, .block = x->blk};
  vec_push(x->m->a, x->m->guards, g);
}
/* A permanent upper bound: kept as the range of a symbol where it is one, else as a fact of this elaboration. */
static void learn_le(el *x, sz a, sz b) {
  atom s;
  int64_t hi;
  if (!x->blk && sym_is_atom(x->c, a, &s) && sym_kind(x->c, s) == AT_SYMBOL && sym_is_int(x->c, b, &hi))
    sym_symbol(x->c, sym_name(x->c, s), -SYM_INF, hi);
  else
    sym_push(x->c, sym_sub(x->c, b, a));
}
/* a == min(a, b) says a <= b, a == max(a, b) says b <= a */
static bool as_order(el *x, sz a, sz m, bool assumption, const char *text) {
  sz arg[3];
  atom k;
  if (!sym_is_atom(x->c, m, &k)) return false;
  atom_kind kind = sym_kind(x->c, k);
  if ((kind != AT_MIN && kind != AT_MAX) || sym_args(x->c, k, arg) != 2 || (arg[0] != a && arg[1] != a)) return false;
  sz b = arg[0] == a ? arg[1] : arg[0];
  if (kind == AT_MIN)
    guard_ge0(x, sym_sub(x->c, b, a), assumption, text), learn_le(x, a, b);
  else
    guard_ge0(x, sym_sub(x->c, a, b), assumption, text), learn_le(x, b, a);
  return true;
}
void guard_eq(el *x, sz a, sz b, bool assumption, const char *text) {
  if (a == b || as_order(x, a, b, assumption, text) || as_order(x, b, a, assumption, text)) return;
  sz d = sym_sub(x->c, a, b), n = sym_neg(x->c, d);
  if (have_guard(x, d, true) || have_guard(x, n, true)) return;
  guard g = {.assumption = assumption, .ge0 = d, .is_eq = true, .text = text, .node = x->node, .block = x->blk};
  vec_push(x->m->a, x->m->guards, g);
  if (!x->blk)
    sym_assume_eq(x->c, a, b);
  else
    sym_push(x->c, d), sym_push(x->c, n); /* these facts hold in this block only */
}
void need_equal(el *x, sz a, sz b, bool assumption, uint32_t line, uint32_t col, const char *what) {
  sz p = sym_canon(x->c, a), q = sym_canon(x->c, b);
  if (p == q || sym_eq(x->c, p, q)) return;
  if (sym_ne(x->c, p, q))
    el_fail(x, E_SHAPE, line, col, "%s: %s and %s differ", what, sym_str(x->c, p), sym_str(x->c, q));
  guard_eq(x, p, q, assumption,
           arena_fmt(x->m->a, "%s %s: %s must equal %s", x->d->name, what, sym_str(x->c, p), sym_str(x->c, q)));
}

/* ---- conditions ------------------------------------------------------------------------------ */
static bool pure(el *x, ex e) { /* Is it an i64 built of sizes and indices? */
  const ex_node *n = exn(x->m, e);
  if (n->type != ET_I64) return false;
  if (n->kind == EX_CONST) return true;
  if (n->kind == EX_INDEX) return !sym_uses_kind(x->c, n->index, AT_DATA);
  if (n->kind != EX_OP) return false;
  switch (n->op) {
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_IDIV:
  case OP_MOD:
  case OP_MIN:
  case OP_MAX:
  case OP_NEG:
    break;
  default:
    return false;
  }
  for (uint32_t i = 0; i < n->nargs; i++)
    if (!pure(x, n->args[i])) return false;
  return true;
}
bool cond_sz(el *x, ex cond, sz *out) {
  ctx *c = x->c;
  const ex_node *n = exn(x->m, cond);
  if (n->kind == EX_CONST && n->type == ET_BOOL) return *out = sym_int(c, n->k.i ? 0 : -1), true;
  if (n->kind != EX_OP) return false;
  sz a, b;
  uint8_t op = n->op;
  uint32_t l = n->args[0], r = n->nargs > 1 ? n->args[1] : 0;
  switch (op) {
  case OP_NOT:
    if (!cond_sz(x, l, &a)) return false;
    return *out = sym_addi(c, sym_neg(c, a), -1), true;
  case OP_AND:
  case OP_OR:
    if (!cond_sz(x, l, &a) || !cond_sz(x, r, &b)) return false;
    return *out = op == OP_AND ? sym_min(c, a, b) : sym_max(c, a, b), true;
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
    break;
  default:
    return false;
  }
  if (!pure(x, l) || !pure(x, r)) return false;
  a = expr_as_size(x->m, l), b = expr_as_size(x->m, r);
  sz d = sym_sub(c, a, b), e = sym_sub(c, b, a);
  switch (op) {
  case OP_LT:
    *out = sym_addi(c, e, -1);
    break;
  case OP_LE:
    *out = e;
    break;
  case OP_GT:
    *out = sym_addi(c, d, -1);
    break;
  case OP_GE:
    *out = d;
    break;
  case OP_EQ:
    *out = sym_min(c, d, e);
    break;
  default:
    *out = sym_addi(c, sym_max(c, d, e), -1);
    break;
  }
  return true;
}

static void fact(el *x, sz ge0) {
  sym_push(x->c, ge0);
  vec_push(x->a, x->facts, ge0);
}
static void facts(el *x, ex cond, bool truth, bool *lost) {
  ctx *c = x->c;
  const ex_node *n = exn(x->m, cond);
  if (n->kind != EX_OP) {
    *lost |= n->kind != EX_CONST;
    return;
  }
  ex l = n->args[0], r = n->nargs > 1 ? n->args[1] : 0;
  uint8_t op = n->op;
  if (op == OP_NOT) {
    facts(x, l, !truth, lost);
    return;
  }
  if (op == (truth ? OP_AND : OP_OR)) {
    facts(x, l, truth, lost);
    facts(x, r, truth, lost);
    return;
  }
  if (!r || exn(x->m, l)->type != ET_I64 || exn(x->m, r)->type != ET_I64) {
    *lost = true;
    return;
  }
  sz d = sym_sub(c, expr_as_size(x->m, l), expr_as_size(x->m, r)), e = sym_neg(c, d);
  if (!truth)
    op = op == OP_LT   ? OP_GE
         : op == OP_LE ? OP_GT
         : op == OP_GT ? OP_LE
         : op == OP_GE ? OP_LT
         : op == OP_EQ ? OP_NE
         : op == OP_NE ? OP_EQ
                       : OP_NONE;
  switch (op) {
  case OP_LT:
    fact(x, sym_addi(c, e, -1));
    break;
  case OP_LE:
    fact(x, e);
    break;
  case OP_GT:
    fact(x, sym_addi(c, d, -1));
    break;
  case OP_GE:
    fact(x, d);
    break;
  case OP_EQ:
    fact(x, d), fact(x, e);
    break;
  case OP_NE: /* n != k and n >= k gives n >= k + 1 */
    if (sym_ge0(c, d))
      fact(x, sym_addi(c, d, -1));
    else if (sym_ge0(c, e))
      fact(x, sym_addi(c, e, -1));
    else
      *lost = true;
    break;
  default:
    *lost = true;
  }
  if (sym_uses_kind(c, d, AT_DATA)) *lost = true;
}
condmark cond_push(el *x, ex cond, bool truth) {
  condmark k = {sym_mark(x->c), x->facts.n, false};
  facts(x, cond, truth, &k.lost);
  x->soft += k.lost;
  x->frame->conditions++;
  return k;
}
void cond_pop(el *x, condmark k) {
  x->soft -= k.lost;
  x->frame->conditions--;
  x->facts.n = k.facts;
  sym_pop(x->c, k.sym);
}

static val decided(el *x, sz c, bool *known) { /* Is c >= 0? */
  *known = true;
  if (sym_ge0(x->c, c)) return v_bool(true);
  if (sym_ge0(x->c, sym_addi(x->c, sym_neg(x->c, c), -1))) return v_bool(false);
  *known = false;
  return v_none();
}

/* Is `c >= 0`, undecided, the likelier case? Equations of sizes with numbers are taken as false, everything else as
 * true. */
static void assume(el *x, ex cond, bool truth) {
  const ex_node *n = exn(x->m, cond);
  ex l = n->args[0], r = n->nargs > 1 ? n->args[1] : 0;
  uint8_t op = n->op;
  if (n->kind == EX_OP && op == OP_NOT) {
    assume(x, l, !truth);
    return;
  }
  if (n->kind == EX_OP && op == (truth ? OP_AND : OP_OR)) {
    assume(x, l, truth);
    assume(x, r, truth);
    return;
  }
  sz c;
  if (!cond_sz(x, cond, &c)) return;
  if (!truth) c = sym_addi(x->c, sym_neg(x->c, c), -1);
  const char *text = arena_fmt(x->m->a, "%s was compiled for %s >= 0", x->d->name, sym_str(x->c, c));
  if (n->kind == EX_OP && (op == OP_EQ) == truth && (op == OP_EQ || op == OP_NE))
    guard_eq(x, expr_as_size(x->m, l), expr_as_size(x->m, r), true, text);
  else {
    if (op == OP_EQ || op == OP_NE) { /* l != r: if one side can be shown to be the larger, that is the guard */
      sz d = sym_sub(x->c, expr_as_size(x->m, l), expr_as_size(x->m, r)), e = sym_neg(x->c, d);
      if (sym_ge0(x->c, d))
        c = sym_addi(x->c, d, -1);
      else if (sym_ge0(x->c, e))
        c = sym_addi(x->c, e, -1);
    }
    guard_ge0(x, c, true, text);
    sym_push(x->c, c);
  }
}
bool decide(el *x, val v, const ast *at, const char *what) {
  if (v.kind == V_BOOL) return v.b;
  int64_t i;
  if (v_is_int(x, v, &i)) return i != 0;
  if (v.kind != V_EX || exn(x->m, v.e)->type != ET_BOOL)
    FAIL(at, "%s must be a condition, not %s", what, v_describe(x, v));
  sz c;
  if (!cond_sz(x, v.e, &c) || sym_uses_kind(x->c, c, AT_VAR)) {
    pval p = point_ex(x, v.e);
    if (p.kind == PV_BOOL) return p.b;
    el_fail(x, E_UNSUPPORTED, at->line, at->col, "%s would depend on the values of a tensor", what);
  }
  bool known;
  val r = decided(x, c, &known);
  if (known) return r.b;
  const ex_node *n = exn(x->m, v.e);
  bool truth = true;
  if (n->kind == EX_OP && (n->op == OP_EQ || n->op == OP_NE)) {
    bool number = sym_is_int(x->c, expr_as_size(x->m, n->args[0]), NULL) ||
                  sym_is_int(x->c, expr_as_size(x->m, n->args[1]), NULL);
    truth = (n->op == OP_EQ) != number;
  }
  assume(x, v.e, truth);
  return truth;
}

val v_select(el *x, val c, val a, val b, const ast *at) {
  if (c.kind == V_BOOL) return c.b ? a : b;
  if (a.kind == V_LIST || b.kind == V_LIST) {
    if (a.kind == V_LIST && b.kind == V_LIST && a.p.l->n != b.p.l->n)
      return decide(x, c, at, "the length of a pack") ? a : b;
    uint32_t n = a.kind == V_LIST ? a.p.l->n : b.p.l->n;
    val r = v_list(x, n);
    for (uint32_t i = 0; i < n; i++)
      r.p.l->v[i] = v_select(x, c, a.kind == V_LIST ? a.p.l->v[i] : a, b.kind == V_LIST ? b.p.l->v[i] : b, at);
    return r;
  }
  sz q;
  if (a.kind == V_SIZE && b.kind == V_SIZE) {
    bool known;
    if (a.s == b.s) return a;
    if (cond_sz(x, c.e, &q)) {
      val d = decided(x, q, &known);
      if (known) return d.b ? a : b;
      bool idx = a.idx || b.idx || sym_uses_kind(x->c, q, AT_VAR);
      return (val){.kind = V_SIZE, .s = sym_sel(x->c, q, a.s, b.s), .idx = idx};
    }
  }
  if (a.str || b.str) {
    ex p = v_lift(x, a, ET_STR, at), q = v_lift(x, b, ET_STR, at);
    return (val){.kind = V_EX, .e = expr_sel(x->m, c.e, p, q), .str = true};
  }
  if (a.kind == V_NONE || a.kind == V_STR || a.kind == V_TYPE || a.kind == V_TEN || b.kind == V_NONE ||
      b.kind == V_STR || b.kind == V_TYPE || b.kind == V_TEN)
    return decide(x, c, at, "the choice between two things known only at compile time") ? a : b;
  etype ta = v_etype(x, a), tb = v_etype(x, b), t = ta ? ta : tb;
  bool weak = false;
  if (!t) { /* two literals */
    weak = true;
    bool ints = (a.kind == V_SIZE || (a.kind == V_EX && is_integer((etype)exn(x->m, a.e)->type))) &&
                (b.kind == V_SIZE || (b.kind == V_EX && is_integer((etype)exn(x->m, b.e)->type)));
    t = ints ? ET_I64 : ET_F64;
  }
  ex ea = v_lift(x, a, t, at), eb = v_lift(x, b, t, at);
  if (ea == eb) return (val){.kind = V_EX, .e = ea, .weak = weak};
  return (val){.kind = V_EX, .e = expr_sel(x->m, c.e, ea, eb), .weak = weak};
}

/* ---- operators ------------------------------------------------------------------------------- */
static val zip(el *x, binop o, val a, val b, const ast *at) {
  if (a.kind == V_LIST && b.kind == V_LIST && a.p.l->n != b.p.l->n)
    FAIL(at, "packs of different length, %u and %u, on the sides of `%s`", a.p.l->n, b.p.l->n, binop_text(o));
  uint32_t n = a.kind == V_LIST ? a.p.l->n : b.p.l->n;
  val r = v_list(x, n);
  for (uint32_t i = 0; i < n; i++)
    r.p.l->v[i] = v_binary(x, o, a.kind == V_LIST ? a.p.l->v[i] : a, b.kind == V_LIST ? b.p.l->v[i] : b, at);
  return r;
}
/* A number as an exact ratio. Scales of models are f32 values meant as small fractions (0.6 is 3/5): the nearest
 * fraction with a small denominator, if it rounds to the same f32; else the exact binary fraction of an f32; anything
 * finer (2*pi) is no ratio. */
bool fraction(double f, int64_t *num, int64_t *den) {
  if (!isfinite(f) || fabs(f) > 1e12) return false;
  double x = f;
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  for (int i = 0; i < 40; i++) { /* continued fraction */
    double fl = floor(x);
    if (!(fabs(fl) < 0x1p62)) break;
    int64_t a = (int64_t)fl, p2, q2;
    if (!mul64(a, p1, &p2) || !add64(p2, p0, &p2) || !mul64(a, q1, &q2) || !add64(q2, q0, &q2) || q2 > 1024) break;
    p0 = p1, q0 = q1, p1 = p2, q1 = q2;
    if ((float)((double)p1 / (double)q1) == (float)f) return *num = p1, *den = q1, true;
    if (x == fl) break;
    x = 1 / (x - fl);
  }
  if ((double)(float)f != f) return false;
  int e;
  double m = frexp(f, &e); /* f = m * 2^e, m of 24 bits */
  int64_t k = (int64_t)ldexp(m, 24);
  e -= 24;
  while (e < 0 && k && k % 2 == 0) k /= 2, e++;
  if (e > 16 || e < -40) return false;
  *num = e > 0 ? k << e : k;
  *den = e > 0 ? 1 : (int64_t)1 << -e;
  return true;
}
static bool as_ratio(el *x, val v, sz *num, sz *den) {
  int64_t n, d;
  *den = sym_int(x->c, 1);
  if (v.kind == V_SIZE) return *num = v.s, true;
  if (v.kind == V_RAT) return *num = v.s, *den = v.den, true;
  if (v.kind != V_FLOAT || !fraction(v.f, &n, &d)) return false;
  *num = sym_int(x->c, n), *den = sym_int(x->c, d);
  return true;
}
static bool compare_double(binop o, double a, double b) {
  switch (o) {
  case BO_EQ:
    return a == b;
  case BO_NE:
    return a != b;
  case BO_LT:
    return a < b;
  case BO_GT:
    return a > b;
  case BO_LE:
    return a <= b;
  default:
    return a >= b;
  }
}
static sop compare_op(binop o) {
  static const uint8_t ops[] = {
      [BO_EQ] = OP_EQ, [BO_NE] = OP_NE, [BO_LT] = OP_LT, [BO_GT] = OP_GT, [BO_LE] = OP_LE, [BO_GE] = OP_GE};
  return (sop)ops[o];
}
/* sizes, indices: decided, or a condition */
static val compare_sizes(el *x, binop o, val a, val b) {
  ctx *c = x->c;
  sz p = sym_canon(c, a.s), q = sym_canon(c, b.s);
  /* bounds as large as INT64_MAX are common: decide without subtracting where that is possible */
  if (o == BO_LT || o == BO_GE)
    if (sym_lt(c, p, q) || sym_le(c, q, p)) return v_bool(sym_lt(c, p, q) == (o == BO_LT));
  if (o == BO_LE || o == BO_GT)
    if (sym_le(c, p, q) || sym_lt(c, q, p)) return v_bool(sym_le(c, p, q) == (o == BO_LE));
  if ((o == BO_EQ || o == BO_NE) && (sym_lt(c, p, q) || sym_lt(c, q, p))) return v_bool(o == BO_NE);
  sz d = sym_sub(c, p, q);
  int64_t lo, hi;
  sym_range(c, d, &lo, &hi);
  if (o == BO_EQ || o == BO_NE) {
    if (lo > 0 || hi < 0 || (lo == 0 && hi == 0)) return v_bool((lo == 0 && hi == 0) == (o == BO_EQ));
    if (sym_eq(c, p, q)) return v_bool(o == BO_EQ);
    if (sym_ne(c, p, q)) return v_bool(o == BO_NE);
  } else {
    sz t = o == BO_LT   ? sym_addi(c, sym_neg(c, d), -1)
           : o == BO_LE ? sym_neg(c, d)
           : o == BO_GT ? sym_addi(c, d, -1)
                        : d;
    bool known;
    val r = decided(x, t, &known);
    if (known) return r;
  }
  return v_ex(expr_op2(x->m, compare_op(o), expr_from_size(x->m, p), expr_from_size(x->m, q)));
}
static val static_numbers(el *x, binop o, val a, val b, const ast *at) {
  ctx *c = x->c;
  bool idx = (a.kind == V_SIZE && a.idx) || (b.kind == V_SIZE && b.idx);
  if (a.kind == V_SIZE && b.kind == V_SIZE) {
    int64_t i, j;
    if (binop_compares(o)) return compare_sizes(x, o, a, b);
    val r = {.kind = V_SIZE, .idx = idx};
    switch (o) {
    case BO_ADD:
      r.s = sym_add(c, a.s, b.s);
      return r;
    case BO_SUB:
      r.s = sym_sub(c, a.s, b.s);
      return r;
    case BO_MUL:
      r.s = sym_mul(c, a.s, b.s);
      return r;
    case BO_IDIV:
    case BO_MOD:
      if (v_is_int(x, b, &j) && j == 0) {
        if (!idx) FAIL(at, "division by zero");
        r.s = sym_int(c, 0); /* an index into something empty: nothing is computed with it */
        return r;
      }
      r.s = o == BO_IDIV ? sym_div(c, a.s, b.s) : sym_mod(c, a.s, b.s);
      return r;
    case BO_POW:
      if (!v_is_int(x, b, &j) || j < 0 || j > 16) FAIL(at, "a size can only be raised to a small number known here");
      for (r.s = sym_int(c, 1); j > 0; j--) r.s = sym_mul(c, r.s, a.s);
      return r;
    case BO_DIV:
      if (idx) FAIL(at, "`/` is for floats; integers divide with `//`, or convert first");
      if (v_is_int(x, a, &i) && v_is_int(x, b, &j)) return v_float((double)i / (double)j);
      return v_ratio(x, a.s, b.s);
    default:
      break;
    }
  }
  if (idx)
    FAIL(at, "`%s` between an index (an i64) and %s; convert the index", binop_text(o),
         v_describe(x, a.kind == V_SIZE && a.idx ? b : a));
  double f = a.f, g = b.f;
  int64_t i;
  bool fa = a.kind == V_FLOAT, fb = b.kind == V_FLOAT;
  if (v_is_int(x, a, &i)) f = (double)i, fa = true;
  if (v_is_int(x, b, &i)) g = (double)i, fb = true;
  if (fa && fb) {
    if (binop_compares(o)) return v_bool(compare_double(o, f, g));
    switch (o) {
    case BO_ADD:
      return v_float(f + g);
    case BO_SUB:
      return v_float(f - g);
    case BO_MUL:
      return v_float(f * g);
    case BO_DIV:
      return v_float(f / g);
    case BO_IDIV:
      return v_float(floor(f / g));
    case BO_MOD:
      return v_float(f - floor(f / g) * g);
    case BO_POW:
      return v_float(pow(f, g));
    default:
      break;
    }
  }
  sz p, q, r, s;
  if (as_ratio(x, a, &p, &q) && as_ratio(x, b, &r, &s)) {
    sz ps = sym_mul(c, p, s), rq = sym_mul(c, r, q), qs = sym_mul(c, q, s);
    if (binop_compares(o)) return compare_sizes(x, o, v_size(ps), v_size(rq));
    switch (o) {
    case BO_ADD:
      return v_ratio(x, sym_add(c, ps, rq), qs);
    case BO_SUB:
      return v_ratio(x, sym_sub(c, ps, rq), qs);
    case BO_MUL:
      return v_ratio(x, sym_mul(c, p, r), qs);
    case BO_DIV:
      return v_ratio(x, ps, rq);
    case BO_IDIV:
      return v_size(sym_div(c, ps, rq));
    default:
      break;
    }
  }
  /* a symbolic size and a number that is no fraction: leave it to the run */
  ex ea = v_lift(x, a, ET_F64, at), eb = v_lift(x, b, ET_F64, at);
  if (binop_compares(o)) return v_ex(expr_op2(x->m, compare_op(o), ea, eb));
  static const uint8_t ops[] = {
      [BO_ADD] = OP_ADD, [BO_SUB] = OP_SUB, [BO_MUL] = OP_MUL, [BO_DIV] = OP_DIV, [BO_MOD] = OP_MOD, [BO_POW] = OP_POW};
  if (o >= sizeof ops || !ops[o]) FAIL(at, "`%s` of %s and %s", binop_text(o), v_describe(x, a), v_describe(x, b));
  return v_weak(expr_op2(x->m, (sop)ops[o], ea, eb));
}

val v_and(el *x, val a, val b, const ast *at) { return v_binary(x, BO_AND, a, b, at); }

static val logic(el *x, binop o, val a, val b, const ast *at) {
  if (a.kind == V_BOOL) return (o == BO_AND) == a.b ? b : a;
  if (b.kind == V_BOOL) return (o == BO_AND) == b.b ? a : b;
  return v_ex(expr_op2(x->m, o == BO_AND ? OP_AND : OP_OR, v_lift(x, a, ET_BOOL, at), v_lift(x, b, ET_BOOL, at)));
}

static bool omitted(el *x, val v, double k) {
  if (v.kind != V_EX || !v.b) return false;
  const ex_node *n = exn(x->m, v.e);
  return n->kind == EX_CONST && (is_float((etype)n->type) ? n->k.f == k : n->k.i == (int64_t)k);
}
val v_binary(el *x, binop o, val a, val b, const ast *at) {
  if ((a.kind == V_NONE || b.kind == V_NONE) && (o == BO_EQ || o == BO_NE))
    return v_bool((a.kind == b.kind) == (o == BO_EQ));
  if (a.kind == V_LIST || b.kind == V_LIST) return zip(x, o, a, b, at);
  if (o == BO_AND || o == BO_OR) {
    int64_t i;
    if (v_is_int(x, a, &i)) a = v_bool(i != 0);
    if (v_is_int(x, b, &i)) b = v_bool(i != 0);
    return logic(x, o, a, b, at);
  }
  if ((a.str && (b.str || b.kind == V_STR)) || (b.str && a.kind == V_STR)) return text_equal(x, a, b, o, at);
  if (a.str || b.str) FAIL(at, "`%s` between %s and %s", binop_text(o), v_describe(x, a), v_describe(x, b));
  if (a.kind == V_STR || b.kind == V_STR || a.kind == V_TYPE || b.kind == V_TYPE) {
    if (a.kind != b.kind || (o != BO_EQ && o != BO_NE))
      FAIL(at, "`%s` between %s and %s", binop_text(o), v_describe(x, a), v_describe(x, b));
    bool same = a.kind == V_STR ? !strcmp(a.p.str, b.p.str) : a.type == b.type;
    return v_bool(same == (o == BO_EQ));
  }
  if (a.kind == V_NONE || b.kind == V_NONE || a.kind == V_TEN || b.kind == V_TEN)
    FAIL(at, "`%s` between %s and %s%s", binop_text(o), v_describe(x, a), v_describe(x, b),
         a.kind == V_TEN || b.kind == V_TEN ? "; read elements of a tensor with [..]" : "");
  if (a.kind == V_BOOL && b.kind == V_BOOL) {
    if (o != BO_EQ && o != BO_NE) FAIL(at, "`%s` of two bools", binop_text(o));
    return v_bool((a.b == b.b) == (o == BO_EQ));
  }
  if (a.kind != V_EX && b.kind != V_EX && a.kind != V_BOOL && b.kind != V_BOOL) return static_numbers(x, o, a, b, at);
  /* one of the operands is an element value */
  etype ta = v_etype(x, a), tb = v_etype(x, b), t = ta ? ta : tb;
  bool weak = !t;
  if (weak) {
    bool fl = a.kind == V_FLOAT || b.kind == V_FLOAT || a.kind == V_RAT || b.kind == V_RAT || o == BO_DIV;
    if (a.kind == V_EX) fl |= is_float((etype)exn(x->m, a.e)->type);
    if (b.kind == V_EX) fl |= is_float((etype)exn(x->m, b.e)->type);
    t = fl ? ET_F64 : ET_I64;
  }
  if (o == BO_POW) {
    int64_t k;
    if (v_is_int(x, b, &k) && !b.idx && (k == 2 || k == 3)) { /* e**2 means e*e */
      ex e = v_lift(x, a, t, at), r = expr_op2(x->m, OP_MUL, e, e);
      if (k == 3) r = expr_op2(x->m, OP_MUL, r, e);
      return (val){.kind = V_EX, .e = r, .weak = weak};
    }
  }
  ex ea = v_lift(x, a, t, at), eb = v_lift(x, b, t, at);
  /* the default of an omitted input is no term, no factor */
  if ((o == BO_ADD || o == BO_SUB) && omitted(x, b, 0)) return v_ex(ea);
  if ((o == BO_ADD && omitted(x, a, 0)) || (o == BO_MUL && omitted(x, a, 1))) return v_ex(eb);
  if (o == BO_MUL && omitted(x, b, 1)) return v_ex(ea);
  if (o == BO_MUL && (omitted(x, a, 0) || omitted(x, b, 0))) return omitted(x, a, 0) ? a : b;
  if (binop_compares(o)) {
    if (t == ET_BOOL && o != BO_EQ && o != BO_NE) FAIL(at, "`%s` of two bools", binop_text(o));
    return v_ex(expr_op2(x->m, compare_op(o), ea, eb));
  }
  sop op = OP_NONE;
  switch (o) {
  case BO_ADD:
    op = OP_ADD;
    break;
  case BO_SUB:
    op = OP_SUB;
    break;
  case BO_MUL:
    op = OP_MUL;
    break;
  case BO_DIV:
    if (!is_float(t)) FAIL(at, "`/` is for floats, these are %s; integers divide with `//`", et_name(t));
    op = OP_DIV;
    break;
  case BO_IDIV:
    if (!is_integer(t)) FAIL(at, "`//` is for integers, these are %s", et_name(t));
    op = OP_IDIV;
    break;
  case BO_MOD:
    op = OP_MOD;
    break;
  case BO_POW:
    op = OP_POW;
    break;
  default:
    break;
  }
  if (t == ET_BOOL) FAIL(at, "`%s` of two bools", binop_text(o));
  return (val){.kind = V_EX, .e = expr_op2(x->m, op, ea, eb), .weak = weak};
}

val v_neg(el *x, val a, const ast *at) {
  if (a.str) FAIL(at, "`-` of a string");
  switch (a.kind) {
  case V_LIST: {
    val r = v_list(x, a.p.l->n);
    for (uint32_t i = 0; i < a.p.l->n; i++) r.p.l->v[i] = v_neg(x, a.p.l->v[i], at);
    return r;
  }
  case V_SIZE:
    a.s = sym_neg(x->c, a.s);
    return a;
  case V_RAT:
    a.s = sym_neg(x->c, a.s);
    return a;
  case V_FLOAT:
    a.f = -a.f;
    return a;
  case V_EX:
    if (exn(x->m, a.e)->type != ET_BOOL) return (val){.kind = V_EX, .e = expr_op1(x->m, OP_NEG, a.e), .weak = a.weak};
    break;
  default:
    break;
  }
  FAIL(at, "`-` of %s", v_describe(x, a));
}
val v_not(el *x, val a, const ast *at) {
  switch (a.kind) {
  case V_LIST: {
    val r = v_list(x, a.p.l->n);
    for (uint32_t i = 0; i < a.p.l->n; i++) r.p.l->v[i] = v_not(x, a.p.l->v[i], at);
    return r;
  }
  case V_BOOL:
    return v_bool(!a.b);
  case V_EX:
    if (exn(x->m, a.e)->type == ET_BOOL) return v_ex(expr_op1(x->m, OP_NOT, a.e));
    break;
  default:
    break;
  }
  FAIL(at, "`not` of %s", v_describe(x, a));
}
