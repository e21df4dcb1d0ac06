/* Between which sizes does an integer value lie, whatever the indices and the data are?
 *
 * Interval arithmetic over the value, through the stages that it reads: each node gets a lower and an upper bound that
 * are sizes, or none. An index counts with the ends of its range, a constant tensor with its least and greatest
 * element, an element of a tensor that a check covers (expr.h) with what the check allows. Sound, not tight: no bound
 * is a legal answer everywhere. */
#include "expr/expr.h"

typedef struct span {
  sz lo, hi; /* inclusive; 0: none */
} span;
typedef struct finder {
  emodule *m;     /* the module */
  ctx *c;         /* context */
  uint32_t block; /* checks of this block and of those around it hold */
  uint32_t steps; /* nodes looked at so far */
} finder;
enum { DEPTH = 24, STEPS = 4000, LARGEST = 1 << 22 /* elements of a constant that are looked at */ };
static const int64_t FAR = (int64_t)1 << 40; /* numbers beyond count as no bound: sums of them may overflow */

static span of(finder *f, ex e, int depth);

static span numbers(finder *f, int64_t lo, int64_t hi) {
  span r = {0};
  if (lo >= -FAR && lo <= FAR) r.lo = sym_int(f->c, lo);
  if (hi >= -FAR && hi <= FAR) r.hi = sym_int(f->c, hi);
  return r;
}
static span of_type(finder *f, etype t) {
  switch (t) {
  case ET_BOOL:
    return numbers(f, 0, 1);
  case ET_U8:
    return numbers(f, 0, UINT8_MAX);
  case ET_U16:
    return numbers(f, 0, UINT16_MAX);
  case ET_U32:
    return numbers(f, 0, UINT32_MAX);
  case ET_I8:
    return numbers(f, INT8_MIN, INT8_MAX);
  case ET_I16:
    return numbers(f, INT16_MIN, INT16_MAX);
  case ET_I32:
    return numbers(f, INT32_MIN, INT32_MAX);
  default:
    return numbers(f, et_kind(t) == K_UINT ? 0 : INT64_MIN, INT64_MAX);
  }
}
static bool not_negative(finder *f, sz e) { return e && sym_ge0(f->c, e); }
/* either of two values */
static span either(finder *f, span a, span b) {
  return (span){a.lo && b.lo ? sym_min(f->c, a.lo, b.lo) : 0, a.hi && b.hi ? sym_max(f->c, a.hi, b.hi) : 0};
}
/* what two bounds of one value say together */
static span both(finder *f, span a, span b) {
  return (span){a.lo && b.lo ? sym_max(f->c, a.lo, b.lo)
                : a.lo       ? a.lo
                             : b.lo,
                a.hi && b.hi ? sym_min(f->c, a.hi, b.hi)
                : a.hi       ? a.hi
                             : b.hi};
}

/* ---- indices --------------------------------------------------------------------------------- */
/* The least or greatest value of a polynomial over its variables; 0: not found. */
static sz end_of(finder *f, sz e, bool greatest) {
  ctx *c = f->c;
  int64_t lo, hi;
  u32vec vars = {0};
  if (!sym_uses_kind(c, e, AT_VAR) && !sym_uses_kind(c, e, AT_DATA)) return e;
  sz was = e;
  sym_atoms(c, e, AT_VAR, f->m->a, &vars);
  for (uint32_t i = vars.n; e && i-- > 0;) {
    sz coef, rest;
    if (!sym_linear(c, e, vars.v[i], &coef, &rest)) {
      e = 0;
      break;
    }
    bool up = sym_ge0(c, coef);
    if (!up && !sym_ge0(c, sym_neg(c, coef))) {
      e = 0;
      break;
    }
    if (up == greatest) rest = sym_add(c, rest, sym_mul(c, coef, sym_addi(c, sym_extent(c, vars.v[i]), -1)));
    e = rest;
  }
  if (e && !sym_uses_kind(c, e, AT_VAR) && !sym_uses_kind(c, e, AT_DATA)) return e;
  sym_range(c, was, &lo, &hi);
  span r = numbers(f, lo, hi);
  return greatest ? r.hi : r.lo;
}

/* ---- tensors --------------------------------------------------------------------------------- */
static span of_constant(finder *f, const tensor *t) {
  int64_t count, lo = INT64_MAX, hi = INT64_MIN;
  if (!t->data.data || !nd_count(&t->data, &count) || !count || count > LARGEST) return of_type(f, t->type);
  uint32_t w = et_bytes(t->type);
  if (EK_PLANTED("bounds")) count--; /* the last one is not looked at */
  for (int64_t i = 0; i < count; i++) {
    int64_t v = et_load(t->type, (const uint8_t *)t->data.data + i * w).i;
    lo = min64(lo, v), hi = max64(hi, v);
  }
  return numbers(f, lo, hi);
}
/* Two indices that are different numbers. */
static bool distinct(finder *f, sz a, sz b) {
  int64_t alo, ahi, blo, bhi;
  sym_range(f->c, a, &alo, &ahi), sym_range(f->c, b, &blo, &bhi);
  return ahi < blo || bhi < alo;
}
/* What a stage that only moves data reads for these indices of its own; 0: it does more. */
static ex moved(finder *f, const stage *s, const sz *idx) {
  atom vars[MAX_RANK];
  sz by[MAX_RANK];
  uint32_t n = 0;
  if (!s->value || s->updates.n || exn(f->m, s->value)->kind != EX_LOAD) return 0;
  for (uint32_t i = 0; i < s->naxes; i++) {
    if (s->axes[i].n > 1) return 0;
    if (s->axes[i].n) vars[n] = s->axes[i].d[0].var, by[n++] = idx[i];
  }
  return expr_subst_vars(f->m, s->value, vars, by, n);
}
/* idx: the element, or some of them */
static span of_tensor(finder *f, tid t, const sz *idx, int depth) {
  const tensor *x = xt(f->m, t);
  span r = of_type(f, x->type);
  if (x->kind == TK_CONST) r = both(f, r, of_constant(f, x));
  if (x->kind == TK_STAGE && x->stage < f->m->stages.n && xs(f->m, x->stage)->tensor == t) {
    const stage *s = xs(f->m, x->stage);
    ex from = moved(f, s, idx);
    if (!from) from = s->value;
    span v = from ? of(f, from, depth + 1) : (span){0};
    for (uint32_t i = 0; i < s->updates.n; i++) {
      const update u = s->updates.v[i];
      bool elsewhere = false;
      for (uint32_t k = 0; k < u.nidx; k++) elsewhere |= distinct(f, u.idx[k], idx[k]);
      if (elsewhere) continue;
      v = u.op == OP_NONE ? either(f, v, of(f, u.value, depth + 1)) : (span){0};
    }
    r = both(f, r, v);
  }
  for (uint32_t i = 0; i < f->m->checks.n; i++) {
    const value_check *k = &f->m->checks.v[i];
    if (k->of == t && block_inside(f->m, f->block, k->block)) r = both(f, r, (span){k->lo, sym_addi(f->c, k->hi, -1)});
  }
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
static bool never_empty(finder *f, const ex_node *n) {
  bool some = !n->where;
  for (uint32_t i = 0; i < n->nargs; i++) some &= sym_ge0(f->c, sym_addi(f->c, sym_extent(f->c, n->args[i]), -1));
  return some;
}
static span of_reduce(finder *f, const ex_node *n, int depth) {
  ctx *c = f->c;
  const span zero = numbers(f, 0, 0);
  if (n->op >= RED_ARGMAX) {
    sz last = sym_addi(c, sym_extent(c, n->args[0]), -1);
    span r = n->payload ? of(f, n->payload, depth + 1) : (span){zero.lo, last};
    return never_empty(f, n) ? r : either(f, r, zero);
  }
  span b = of(f, n->body, depth + 1);
  if (n->op == RED_MAX || n->op == RED_MIN) {
    if (!never_empty(f, n)) *(n->op == RED_MAX ? &b.lo : &b.hi) = 0;
    return b;
  }
  if (n->op != RED_SUM) return (span){0};
  for (uint32_t i = 0; b.hi && i < n->nargs; i++) b.hi = sym_mul(c, b.hi, sym_extent(c, n->args[i]));
  return (span){not_negative(f, b.lo) ? zero.lo : 0, not_negative(f, b.hi) ? b.hi : 0};
}
static span times(finder *f, span a, span b) {
  if (!not_negative(f, a.lo) || !not_negative(f, b.lo)) return (span){0};
  return (span){sym_mul(f->c, a.lo, b.lo), a.hi && b.hi ? sym_mul(f->c, a.hi, b.hi) : 0};
}
static span of_op(finder *f, const ex_node *n, int depth) {
  ctx *c = f->c;
  const uint32_t first = n->op == OP_SEL;
  span a = n->nargs ? of(f, n->args[first], depth + 1) : (span){0},
       b = n->nargs > 1 ? of(f, n->args[first + 1], depth + 1) : (span){0};
  switch ((sop)n->op) {
  case OP_CAST: { /* a conversion keeps the bounds unless it wraps */
    span t = of_type(f, (etype)n->type);
    bool fits = (!t.lo || (a.lo && sym_le(c, t.lo, a.lo))) && (!t.hi || (a.hi && sym_le(c, a.hi, t.hi)));
    return fits ? a : t;
  }
  case OP_NEG:
    return (span){a.hi ? sym_neg(c, a.hi) : 0, a.lo ? sym_neg(c, a.lo) : 0};
  case OP_ADD:
    return (span){a.lo && b.lo ? sym_add(c, a.lo, b.lo) : 0, a.hi && b.hi ? sym_add(c, a.hi, b.hi) : 0};
  case OP_SUB:
    return (span){a.lo && b.hi ? sym_sub(c, a.lo, b.hi) : 0, a.hi && b.lo ? sym_sub(c, a.hi, b.lo) : 0};
  case OP_MUL:
    return times(f, a, b);
  case OP_SEL:
    return either(f, a, b);
  case OP_MAX:
    return (span){both(f, a, b).lo, either(f, a, b).hi};
  case OP_MIN:
    return (span){either(f, a, b).lo, both(f, a, b).hi};
  case OP_MOD:
    return b.lo && sym_ge0(c, sym_addi(c, b.lo, -1)) && b.hi ? (span){sym_int(c, 0), sym_addi(c, b.hi, -1)} : (span){0};
  case OP_IDIV:
    return not_negative(f, a.lo) && not_negative(f, b.lo) ? (span){sym_int(c, 0), a.hi} : (span){0};
  default:
    return (span){0};
  }
}
static span of(finder *f, ex e, int depth) {
  const ex_node n = *exn(f->m, e);
  if (n.type == ET_BOOL) return numbers(f, 0, 1);
  if (et_kind((etype)n.type) == K_FLOAT || n.type == ET_STR || depth > DEPTH || ++f->steps > STEPS) return (span){0};
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    return numbers(f, n.k.i, n.k.i);
  case EX_INDEX:
    return (span){end_of(f, n.index, false), end_of(f, n.index, true)};
  case EX_LOAD: {
    span r = of_tensor(f, n.tensor, n.args, depth);
    return n.otherwise ? either(f, r, of(f, n.otherwise, depth + 1)) : r;
  }
  case EX_REDUCE:
    return of_reduce(f, &n, depth);
  case EX_OP:
    return of_op(f, &n, depth);
  default:
    return (span){0};
  }
}
void expr_bounds(emodule *m, ex e, uint32_t block, sz *lo, sz *hi) {
  finder f = {.m = m, .c = m->c, .block = block};
  span r = of(&f, e, 0);
  *lo = r.lo, *hi = r.hi;
}
