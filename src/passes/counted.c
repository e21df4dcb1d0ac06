/* Where does a value count?
 *
 * A condition on places (k <= i, i - k < 32, k < length[b]) that chooses between a value and what counts nothing says
 * so: 0 counts nothing in a sum, -inf in a maximum, and in a sum of exp(x - m) an x of -inf. What of the condition is
 * linear in the variable asked for becomes bounds of a range; the rest is forgotten, so that a range may be wider than
 * what counts. A factor that is 0 by a condition makes its term 0, whatever the other factor is, as padding does.
 * Masks are followed through stages. Constants are looked at, too: a mask that is a table tells which places of its
 * rows it leaves out. So is a finite number that no score comes near (-1e9 and below; not with strict accuracy), if
 * it is known that each row has a place where it does not stand.
 */
#include "passes/counted.h"
#include <math.h>

enum {
  DEPTH = 64,     /* most values that are looked through, one inside the other */
  MOST = 1 << 14, /* most in all, for one question: values that are used again are looked through again */
  TABLE = 1 << 24 /* elements of a constant that is looked at */
};
static const double BELOW_SCORES = -1e9;

static const span everywhere = {.exact = true, .some = true}, unknown = {0}, nowhere = {.none = true, .exact = true};

span counted_both(finder *f, span a, span b) { /* it counts only where both do */
  if (a.none) return a;
  if (b.none) return b;
  span r = {.exact = a.exact && b.exact, .all = a.all || b.all};
  bool whole = (!a.lo && !a.hi && a.exact) || (!b.lo && !b.hi && b.exact);
  r.some = r.exact || (whole && a.some && b.some);
  r.lo = !a.lo ? b.lo : !b.lo ? a.lo : sym_max(f->c, a.lo, b.lo);
  r.hi = !a.hi ? b.hi : !b.hi ? a.hi : sym_min(f->c, a.hi, b.hi);
  return r;
}
/* Of the parts of two bounds those that hold for both. */
sz counted_shared(finder *f, sz a, sz b, bool lower) {
  sz x[2][RANGE_PARTS], r = 0;
  uint32_t n[2];
  if (!a || !b) return 0;
  n[0] = expr_range_parts(f->c, a, lower, x[0]), n[1] = expr_range_parts(f->c, b, lower, x[1]);
  for (uint32_t q = 0; q < 2; q++)
    for (uint32_t i = 0; i < n[q]; i++) {
      bool holds = false;
      for (uint32_t j = 0; j < n[!q] && !holds; j++)
        holds = lower ? sym_le(f->c, x[q][i], x[!q][j]) : sym_le(f->c, x[!q][j], x[q][i]);
      if (holds) r = !r ? x[q][i] : lower ? sym_max(f->c, r, x[q][i]) : sym_min(f->c, r, x[q][i]);
    }
  return r;
}
static span either(finder *f, span a, span b) {
  if (a.none) return b;
  if (b.none) return a;
  return (span){.lo = counted_shared(f, a.lo, b.lo, true),
                .hi = counted_shared(f, a.hi, b.hi, false),
                .exact = !a.lo && !a.hi && !b.lo && !b.hi && a.exact && b.exact,
                .some = a.some && b.some,
                .all = a.all || b.all};
}

static span holds(finder *f, ex e, bool want);
/* Is another value looked through? If so, f->depth is to be taken back behind it. */
static bool look_through(finder *f) {
  if (!f->depth) f->looked = 0;
  if (f->depth >= DEPTH || f->looked >= MOST) return false;
  f->depth++, f->looked++;
  return true;
}
static bool is_one(const finder *f, ex e) {
  const ex_node *n = exn(f->m, e);
  return n->kind == EX_CONST && (et_kind((etype)n->type) == K_FLOAT ? n->k.f == 1 : n->k.i == 1);
}
static bool is_true(etype t, scalar k) { return et_kind(t) == K_FLOAT ? k.f != 0 : k.i != 0; }

/* ---- conditions ------------------------------------------------------------------------------ */
static ex behind(finder *f, const ex_node *n);
/* An integer, or a float that holds one exactly, as a size; 0: it is none. */
static sz as_place(finder *f, ex e) {
  const ex_node n = *exn(f->m, e);
  const ex from = n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_STAGE ? behind(f, &n) : 0;
  if (from && exn(f->m, from)->kind == EX_INDEX) return as_place(f, from);
  int64_t lo, hi, most = n.type == ET_F32 ? 1 << 24 : n.type == ET_I32 ? INT32_MAX : 0;
  if (n.type == ET_I64) return expr_as_size(f->m, e);
  if (n.kind == EX_CONST && et_kind((etype)n.type) != K_FLOAT && n.type != ET_U64) return sym_int(f->c, n.k.i);
  if (n.kind == EX_CONST && n.type == ET_F32 && n.k.f == floor(n.k.f) && fabs(n.k.f) <= 1 << 24)
    return sym_int(f->c, (int64_t)n.k.f);
  if (n.kind == EX_OP && n.op == OP_CAST && most) {
    sz s = as_place(f, n.args[0]);
    if (!s) return 0;
    sym_range(f->c, s, &lo, &hi);
    if (lo >= -most && hi <= most) return s;
  }
  return n.type == ET_I32 ? expr_as_size(f->m, expr_cast(f->m, ET_I64, e)) : 0;
}
/* Are its variables those of the stage's axes, and its data there when the kernel runs? */
static bool usable(finder *f, sz s) {
  u32vec vars = {0}, loads = {0};
  ex e = expr_index(f->m, s);
  expr_vars(f->m, e, f->p->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++)
    if (!stage_has_var(f->m, f->stage, vars.v[i])) return false;
  expr_loads(f->m, e, f->p->a, &loads);
  for (uint32_t i = 0; i < loads.n && !f->any_data; i++) {
    tid t = exn(f->m, loads.v[i])->tensor;
    bool there = xt(f->m, t)->kind == TK_INPUT || xt(f->m, t)->kind == TK_CONST;
    const u32vec *readers = &f->p->readers.v[t];
    for (uint32_t k = 0; k < readers->n && !there; k++)
      there = f->kernel && xs(f->m, readers->v[k])->kernel == f->kernel && producer_of(f->m, t) &&
              xs(f->m, producer_of(f->m, t) - 1)->kernel != f->kernel;
    if (!there) return false;
  }
  return true;
}
static span where_not_below(finder *f, sz d) { /* d >= 0 */
  sz coef, rest;
  int64_t k;
  if (sym_is_int(f->c, d, &k)) return k >= 0 ? everywhere : nowhere;
  if (!sym_linear(f->c, d, f->var, &coef, &rest) || !sym_is_int(f->c, coef, &k) || (k != 1 && k != -1) ||
      !usable(f, rest))
    return unknown;
  return k == 1 ? (span){.lo = sym_neg(f->c, rest), .exact = true, .some = true}
                : (span){.hi = sym_addi(f->c, rest, 1 - EK_PLANTED("ranges")), .exact = true, .some = true};
}
static span compared(finder *f, const ex_node *n, bool want) {
  for (uint32_t i = 0; i < 2 && (n->op == OP_EQ || n->op == OP_NE); i++) {
    const ex_node *k = exn(f->m, n->args[i]);
    if (k->kind == EX_CONST && !is_true((etype)k->type, k->k) && exn(f->m, n->args[!i])->kind != EX_INDEX)
      return holds(f, n->args[!i], want == (n->op == OP_NE));
  }
  sz a = as_place(f, n->args[0]), b = as_place(f, n->args[1]);
  if (!a || !b) return unknown;
  sz ab = sym_sub(f->c, a, b), ba = sym_sub(f->c, b, a);
  switch ((sop)n->op) {
  case OP_GE:
    return where_not_below(f, want ? ab : sym_addi(f->c, ba, -1));
  case OP_LE:
    return where_not_below(f, want ? ba : sym_addi(f->c, ab, -1));
  case OP_GT:
    return where_not_below(f, want ? sym_addi(f->c, ab, -1) : ba);
  case OP_LT:
    return where_not_below(f, want ? sym_addi(f->c, ba, -1) : ab);
  case OP_EQ:
  case OP_NE:
    return want == (n->op == OP_EQ) ? counted_both(f, where_not_below(f, ab), where_not_below(f, ba)) : unknown;
  default:
    return unknown;
  }
}
static bool absent(const finder *f, etype t, scalar k, nothing what) {
  if (what == ZERO) return et_kind(t) == K_FLOAT ? k.f == 0 : k.i == 0;
  return et_kind(t) == K_FLOAT && (k.f == -INFINITY || (f->finite && k.f <= BELOW_SCORES));
}

/* ---- tables ---------------------------------------------------------------------------------- */
/* A constant read at var + `shift` on one axis and perhaps at a place of the stage on another one: over all else, from
 * where to where in its rows do elements count? */
typedef struct table {
  uint32_t along, row;      /* axes; row UINT32_MAX: no other place matters */
  sz at;                    /* place on the axis `row` */
  sz shift;                 /* added to the variable on the axis `along` */
  int64_t first[2], end[2]; /* least first and greatest end: in places, and less the row's number */
  bool empty;               /* a row counts nowhere */
} table;
static bool table_axes(finder *f, const ex_node *n, table *t) {
  sz coef;
  uint32_t found = 0;
  t->row = UINT32_MAX;
  for (uint32_t i = 0; i < n->nargs; i++) {
    u32vec vars = {0};
    int64_t k;
    expr_vars(f->m, expr_index(f->m, n->args[i]), f->p->a, &vars);
    if (!vec_has(&vars, f->var)) continue;
    if (found++ || !sym_linear(f->c, n->args[i], f->var, &coef, &t->shift) || !sym_is_int(f->c, coef, &k) || k != 1 ||
        !sym_is_int(f->c, t->shift, NULL))
      return false;
    t->along = i;
  }
  for (uint32_t i = 0; i < n->nargs && found; i++)
    if (i != t->along && t->row == UINT32_MAX && !sym_is_int(f->c, n->args[i], NULL) && usable(f, n->args[i]))
      t->row = i, t->at = n->args[i];
  return found == 1;
}
static bool table_counts(finder *f, const ndarray *d, int64_t at, nothing what, bool truth, bool want) {
  scalar x = et_load(d->type, d->data + at * et_bytes(d->type));
  return truth ? is_true(d->type, x) == want : !absent(f, d->type, x, what);
}
/* Is there a bound in what was found of the table so far? More rows only take bounds away. */
static bool table_starts(const table *t, const ndarray *d) {
  return t->first[0] > 0 || (t->row != UINT32_MAX && t->first[1] > 1 - d->dims[t->row]);
}
static bool table_ends(const table *t, const ndarray *d) {
  int64_t ext = d->dims[t->along];
  return t->end[0] < ext || (t->row != UINT32_MAX && t->end[1] < ext);
}
/* Looks at each row from its two ends, and at the first and last rows first: of a table of weights, which has no
 * bounds, four elements are read. */
static bool table_search(finder *f, const ex_node *n, const ndarray *d, nothing what, bool truth, bool want, table *t) {
  int64_t count, ext = d->dims[t->along], inner = 1, row_step = 1;
  if (!nd_count(d, &count) || count < 1 || count > TABLE || n->otherwise) return false;
  for (uint32_t i = t->along + 1; i < d->rank; i++) inner *= d->dims[i];
  for (uint32_t i = t->row + 1; t->row != UINT32_MAX && i < d->rank; i++) row_step *= d->dims[i];
  bool any = false;
  for (int64_t i = 0, rows = count / ext; i < rows; i++) {
    int64_t row = i % 2 ? rows - 1 - i / 2 : i / 2, at = row / inner * inner * ext + row % inner, lo = 0, hi = ext;
    int64_t r = t->row == UINT32_MAX ? 0 : at / row_step % d->dims[t->row];
    while (lo < ext && !table_counts(f, d, at + lo * inner, what, truth, want)) lo++;
    while (hi > lo && !table_counts(f, d, at + (hi - 1) * inner, what, truth, want)) hi--;
    if (lo == ext) {
      t->empty = true;
      continue;
    }
    for (int q = 0; q < 2; q++) {
      int64_t l = lo - q * r, h = hi - q * r;
      t->first[q] = any ? min64(t->first[q], l) : l, t->end[q] = any ? max64(t->end[q], h) : h;
    }
    any = true;
    if (!table_starts(t, d) && !table_ends(t, d)) return false;
  }
  return any;
}
static span of_table(finder *f, const ex_node *n, nothing what, bool truth, bool want) {
  table t = {0};
  const tensor *x = xt(f->m, n->tensor);
  if (!x->data.data || x->type == ET_STR || !table_axes(f, n, &t) ||
      !table_search(f, n, &x->data, what, truth, want, &t))
    return unknown;
  bool row = t.row != UINT32_MAX;
  span r = {.some = !t.empty};
  if (table_starts(&t, &x->data)) {
    sz lo = sym_int(f->c, t.first[0]);
    r.lo = sym_sub(f->c, row ? sym_max(f->c, lo, sym_addi(f->c, t.at, t.first[1])) : lo, t.shift);
  }
  if (table_ends(&t, &x->data)) {
    sz hi = sym_int(f->c, t.end[0]);
    r.hi = sym_sub(f->c, row ? sym_min(f->c, hi, sym_addi(f->c, t.at, t.end[1])) : hi, t.shift);
  }
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
/* What a stage has at the place of a load, as a value of the reader; 0: it is no plain stage. */
static ex behind(finder *f, const ex_node *n) {
  uint32_t s = producer_of(f->m, n->tensor), nd;
  if (!s || n->otherwise || !stage_plain(f->p, s - 1) || xs(f->m, s - 1)->recurrence) return 0;
  const stage *x = xs(f->m, s - 1);
  nd = expr_ndigits(x);
  digit *d = NEWN(f->p->a, digit, nd + 1);
  sz *by = NEWN(f->p->a, sz, nd + 1);
  atom *vars = NEWN(f->p->a, atom, nd + 1);
  if (!expr_comps(f->m, s - 1, n->args, by, NULL, NULL)) return 0;
  expr_digits(x, d);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  return simplify_subst(f->p, x->value, vars, by, nd);
}
/* Is it 0 or 1 by its formula? Then it is as good as a condition. */
static bool is_bit(finder *f, ex e) {
  const ex_node n = *exn(f->m, e);
  bool r = false;
  if (!look_through(f)) return false;
  if (n.kind == EX_CONST)
    r = et_kind((etype)n.type) == K_FLOAT ? n.k.f == 0 || n.k.f == 1 : n.k.i == 0 || n.k.i == 1;
  else if (n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_STAGE) {
    ex x = behind(f, &n);
    r = x && is_bit(f, x);
  } else if (n.kind == EX_OP && n.op == OP_CAST)
    r = exn(f->m, n.args[0])->type == ET_BOOL || is_bit(f, n.args[0]);
  else if (n.kind == EX_OP && n.op == OP_SEL)
    r = is_bit(f, n.args[1]) && is_bit(f, n.args[2]);
  else if (n.kind == EX_OP && n.op == OP_SUB)
    r = is_one(f, n.args[0]) && is_bit(f, n.args[1]);
  f->depth--;
  return r;
}
static span chosen(finder *f, const ex_node *n, nothing what) {
  span a = counted(f, n->args[1], what), b = counted(f, n->args[2], what);
  if (!a.none) a = counted_both(f, a, holds(f, n->args[0], true));
  if (!b.none) b = counted_both(f, b, holds(f, n->args[0], false));
  return either(f, a, b);
}
static span of_operation(finder *f, const ex_node *n, nothing what) {
  switch ((sop)n->op) {
  case OP_SEL:
    return chosen(f, n, what);
  case OP_MUL:
    if (what == ZERO) return counted_both(f, counted(f, n->args[0], what), counted(f, n->args[1], what));
    for (uint32_t i = 0; i < 2; i++) {
      const ex_node *k = exn(f->m, n->args[i]);
      if (k->kind == EX_CONST && k->k.f > 0) return counted(f, n->args[!i], what);
      if (k->kind == EX_CONST && absent(f, (etype)k->type, k->k, what) && is_bit(f, n->args[!i]))
        return holds(f, n->args[!i], false);
    }
    return everywhere;
  case OP_DIV:
    return what == ZERO ? counted(f, n->args[0], what) : everywhere;
  case OP_ADD:
  case OP_MAX: {
    span a = counted(f, n->args[0], what), b = counted(f, n->args[1], what);
    return (n->op == OP_ADD) == (what == LOWEST) ? counted_both(f, a, b) : either(f, a, b);
  }
  case OP_MIN: {
    span a = counted(f, n->args[0], what), b = counted(f, n->args[1], what);
    return what == LOWEST ? counted_both(f, a, b) : either(f, a, b);
  }
  case OP_SUB: {
    if (what == ZERO) return either(f, counted(f, n->args[0], what), counted(f, n->args[1], what));
    span a = counted(f, n->args[0], what);
    a.all = true;
    return a;
  }
  case OP_EXP:
    return what == ZERO ? counted(f, n->args[0], LOWEST) : everywhere;
  case OP_CAST:
    if (exn(f->m, n->args[0])->type == ET_BOOL) return what == ZERO ? holds(f, n->args[0], true) : everywhere;
    return counted(f, n->args[0], what);
  case OP_NEG:
  case OP_ABS:
  case OP_SQRT:
  case OP_TANH:
    return what == ZERO ? counted(f, n->args[0], what) : everywhere;
  default:
    return everywhere;
  }
}
/* Where does the value count, as far as conditions and constants say? */
span counted(finder *f, ex e, nothing what) {
  const ex_node n = *exn(f->m, e);
  span r = everywhere;
  if (!look_through(f)) return everywhere;
  if (n.kind == EX_CONST)
    r = absent(f, (etype)n.type, n.k, what) ? nowhere : everywhere;
  else if (n.kind == EX_OP)
    r = of_operation(f, &n, what);
  else if (n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_CONST) {
    r = of_table(f, &n, what, false, false);
    if (!r.lo && !r.hi) r = everywhere; /* a table without a range is data like any other */
  } else if (n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_STAGE) {
    ex x = behind(f, &n);
    if (x) r = counted(f, x, what);
  }
  f->depth--;
  return r;
}
/* Where is the condition true (or false), as far as it asks for places? Of other types than bool: is it not 0? */
static span holds(finder *f, ex e, bool want) {
  const ex_node n = *exn(f->m, e);
  span r = unknown;
  if (!look_through(f)) return unknown;
  if (n.kind == EX_CONST)
    r = is_true((etype)n.type, n.k) == want ? everywhere : nowhere;
  else if (n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_CONST)
    r = of_table(f, &n, ZERO, true, want);
  else if (n.kind == EX_LOAD && xt(f->m, n.tensor)->kind == TK_STAGE) {
    ex x = behind(f, &n);
    if (x) r = holds(f, x, want);
  } else if (n.kind == EX_OP && n.op == OP_NOT)
    r = holds(f, n.args[0], !want);
  else if (n.kind == EX_OP && (n.op == OP_AND || n.op == OP_OR)) {
    span a = holds(f, n.args[0], want), b = holds(f, n.args[1], want);
    r = (n.op == OP_AND) == want ? counted_both(f, a, b) : either(f, a, b);
  } else if (n.kind == EX_OP && n.op == OP_SEL) {
    span a = counted_both(f, holds(f, n.args[0], true), holds(f, n.args[1], want)),
         b = counted_both(f, holds(f, n.args[0], false), holds(f, n.args[2], want));
    r = either(f, a, b);
  } else if (n.kind == EX_OP && n.op == OP_CAST &&
             (n.type == ET_BOOL || exn(f->m, n.args[0])->type == ET_BOOL || is_bit(f, n.args[0])))
    r = holds(f, n.args[0], want);
  else if (n.kind == EX_OP && n.op == OP_SUB && is_bit(f, e)) /* 1 - bit */
    r = holds(f, n.args[1], !want);
  else if (n.kind == EX_OP && n.nargs == 2 && n.op >= OP_EQ && n.op <= OP_GE)
    r = compared(f, &n, want);
  f->depth--;
  return r;
}

/* Of a reduction's own condition, but for bounds that data say and that are asked in front of its loops anyway. */
span counted_where(finder *f, ex where) {
  span r = everywhere;
  u32vec asks = {0};
  expr_operands(f->m, where, OP_AND, f->p->a, &asks);
  for (uint32_t i = 0; i < asks.n; i++) {
    const ex_node n = *exn(f->m, asks.v[i]), *x = n.kind == EX_OP && n.op == OP_GE ? exn(f->m, n.args[0]) : NULL;
    if (!x || x->kind != EX_INDEX || !sym_uses_kind(f->c, x->index, AT_DATA))
      r = counted_both(f, r, holds(f, asks.v[i], true));
  }
  return r;
}
