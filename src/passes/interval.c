/* Between which numbers does a value lie, and is it a whole one?
 *
 * Interval arithmetic over the formula, through the stages that it reads: constants count with their least and greatest
 * element, integers with what their type holds. An interval that is known has no NaN and no infinity in it: a float
 * that comes from data is not known, but what became an integer is. Sound, not tight. */
#include "passes/interval.h"
#include <float.h>
#include <math.h>

enum {
  DEPTH = 200,             /* values in each other that are looked through */
  MOST_LOOKED_AT = 1 << 16 /* elements of a constant; of more, integers as long as all lie within 256 values, while
                            * floats that are whole bytes are kept as such (narrow.c) */
};
static const interval nothing = {0};
typedef struct interval_table {
  emodule *m;          /* the module */
  pw *p;               /* the run of passes */
  map *data;           /* constant -> index into found */
  map *seen;           /* value -> index into found */
  VEC(interval) found; /* what was found */
} interval_table;
typedef interval_table finder;
static interval at(finder *f, ex e, int depth);

static interval between(bool whole, double lo, double hi) {
  return isfinite(lo) && isfinite(hi) ? (interval){true, whole, lo, hi} : nothing;
}
static interval either(interval a, interval b) {
  if (!a.known || !b.known) return nothing;
  return (interval){true, a.whole && b.whole, fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}
static interval of_type(etype t) {
  const int bits = (int)et_bits(t);
  switch (et_kind(t)) {
  case K_BOOL:
    return between(true, 0, 1);
  case K_UINT:
    return between(true, 0, ldexp(1, bits) - (EK_PLANTED("interval") ? 200 : 1));
  case K_INT:
    return between(true, -ldexp(1, bits - 1), ldexp(1, bits - 1) - 1);
  default:
    return nothing;
  }
}
static interval look_at_data(finder *f, tid t) {
  const tensor *x = xt(f->m, t);
  const uint32_t w = et_bytes(x->type);
  int64_t n;
  if (x->narrow.type) return et_kind(x->narrow.type) == K_FLOAT ? nothing : of_type(x->narrow.type);
  if (!x->data.data || !nd_count(&x->data, &n) || !n || et_kind(x->type) == K_STR) return of_type(x->type);
  const bool large = n > MOST_LOOKED_AT;
  if (large && (et_kind(x->type) == K_FLOAT || et_bits(x->type) <= 8)) return of_type(x->type);
  interval r = {true, true, INFINITY, -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    const scalar s = et_load(x->type, (const uint8_t *)x->data.data + i * w);
    const double v = et_kind(x->type) == K_FLOAT  ? s.f
                     : et_kind(x->type) == K_UINT ? (double)(uint64_t)s.i
                                                  : (double)s.i;
    if (!isfinite(v)) return nothing;
    r.whole &= v == trunc(v), r.lo = fmin(r.lo, v), r.hi = fmax(r.hi, v);
    if (large && r.hi - r.lo > 255) return of_type(x->type);
  }
  return r;
}
static interval note(finder *f, map *in, uint32_t key, interval r) {
  map_putu(in, key, f->found.n);
  vec_push(f->p->a, f->found, r);
  return r;
}
static interval of_data(finder *f, tid t) {
  uint64_t i;
  return map_getu(f->data, t, &i) ? f->found.v[i] : note(f, f->data, t, look_at_data(f, t));
}
static interval of_stage(finder *f, const stage *s, int depth) {
  interval r = nothing;
  if (s->recurrence || (s->updates.n && (!s->tiled || s->value))) return nothing;
  if (s->value) return at(f, s->value, depth);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    if (s->updates.v[i].op != OP_NONE) return nothing;
    r = i ? either(r, at(f, s->updates.v[i].value, depth)) : at(f, s->updates.v[i].value, depth);
  }
  return r;
}
static interval of_load(finder *f, const ex_node *n, int depth) {
  emodule *m = f->m;
  interval r = of_type(xt(m, n->tensor)->type);
  const uint32_t s = producer_of(m, n->tensor);
  if (xt(m, n->tensor)->kind == TK_CONST)
    r = of_data(f, n->tensor);
  else if (s) {
    const interval v = of_stage(f, xs(m, s - 1), depth - 1);
    if (v.known) r = v;
  }
  return n->otherwise ? either(r, at(f, n->otherwise, depth - 1)) : r;
}
static interval product(interval a, interval b) {
  const double v[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  return between(a.whole && b.whole, fmin(fmin(v[0], v[1]), fmin(v[2], v[3])),
                 fmax(fmax(v[0], v[1]), fmax(v[2], v[3])));
}
/* A whole number beside v. The ends of what is not whole are as inexact as the floats that it is computed in. */
static interval rounded(interval v) {
  const double more = v.whole ? 0 : 1;
  return between(true, floor(v.lo) - more, ceil(v.hi) + more);
}
/* What a conversion to an integer keeps of v: all, where it holds it. */
static interval held(etype t, interval v) {
  const interval all = of_type(t);
  return v.known && v.whole && v.lo >= all.lo && v.hi <= all.hi ? v : all;
}
/* Both operands, constants last: what reads data often ends the walk before many constants are looked at. */
static bool operands(finder *f, const ex_node *n, int depth, interval v[2]) {
  const bool constant_first = n->nargs == 2 && exn(f->m, n->args[0])->kind == EX_LOAD &&
                              xt(f->m, exn(f->m, n->args[0])->tensor)->kind == TK_CONST;
  for (uint32_t i = 0; i < n->nargs; i++) {
    const uint32_t k = constant_first ? 1 - i : i;
    v[k] = at(f, n->args[k], depth - 1);
    if (!v[k].known) return false;
  }
  return true;
}
static interval of_op(finder *f, const ex_node *n, int depth) {
  const etype from = (etype)exn(f->m, n->args[0])->type, to = (etype)n->type;
  const bool integer = et_kind(to) != K_FLOAT;
  interval v[2] = {{0}};
  if (n->op == OP_SAT) return of_type(to); /* what it may be before would only seldom say more */
  if (n->op == OP_SEL) return either(at(f, n->args[1], depth - 1), at(f, n->args[2], depth - 1));
  if (n->op == OP_CAST && integer)
    return et_kind(from) == K_FLOAT || from != to ? held(to, at(f, n->args[0], depth - 1)) : of_type(to);
  if (n->nargs > 2 || !operands(f, n, depth, v)) return nothing;
  const interval a = v[0], b = v[1];
  switch ((sop)n->op) {
  case OP_CAST:
    return a; /* f16 and bf16 have fewer whole numbers, but the ends stay ends when they are rounded */
  case OP_NEG:
    return between(a.whole, -a.hi, -a.lo);
  case OP_ABS:
    return between(a.whole, a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(fabs(a.lo), fabs(a.hi)));
  case OP_ADD:
    return between(a.whole && b.whole, a.lo + b.lo, a.hi + b.hi);
  case OP_SUB:
    return between(a.whole && b.whole, a.lo - b.hi, a.hi - b.lo);
  case OP_MUL:
    return product(a, b);
  case OP_DIV:
    return b.lo > 0 || b.hi < 0 ? product((interval){true, false, a.lo, a.hi}, between(false, 1 / b.hi, 1 / b.lo))
                                : nothing;
  case OP_MIN:
    return between(a.whole && b.whole, fmin(a.lo, b.lo), fmin(a.hi, b.hi));
  case OP_MAX:
    return between(a.whole && b.whole, fmax(a.lo, b.lo), fmax(a.hi, b.hi));
  case OP_ROUND_EVEN:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
    return rounded(a);
  default:
    return nothing;
  }
}
/* Sums of known length; the greatest or least of at least one value. */
static interval of_reduction(finder *f, const ex_node *n, int depth) {
  const interval v = at(f, n->body, depth - 1);
  double points = 1;
  int64_t k;
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (!sym_is_int(f->m->c, sym_extent(f->m->c, n->args[i]), &k) || k < 1) return nothing;
    points *= (double)k;
  }
  if (!v.known) return nothing;
  if (n->op == RED_SUM) /* some of the points may not count */
    return between(v.whole, points * fmin(v.lo, 0), points * fmax(v.hi, 0));
  return (n->op == RED_MAX || n->op == RED_MIN) && !n->where ? v : nothing;
}
/* Floats are rounded: beyond `exact` whole numbers stay whole, but the ends may be off. */
static interval of_floats(etype t, interval v) {
  const double most = fmax(fabs(v.lo), fabs(v.hi)),
               exact = ldexp(1, t == ET_F64   ? 53
                                : t == ET_F32 ? 24
                                              : 8),
               off = most > exact ? most * 1e-2 : 0;
  return v.known && most <= FLT_MAX / 2 ? (interval){true, v.whole, v.lo - off, v.hi + off} : nothing;
}
static interval look(finder *f, ex e, int depth) {
  const ex_node n = *exn(f->m, e);
  const etype t = (etype)n.type;
  interval r = nothing;
  if (depth == 0) return of_type(t);
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    r = et_kind(t) == K_FLOAT  ? between(n.k.f == trunc(n.k.f), n.k.f, n.k.f)
        : et_kind(t) == K_UINT ? between(true, (double)(uint64_t)n.k.i, (double)(uint64_t)n.k.i)
                               : between(true, (double)n.k.i, (double)n.k.i);
    break;
  case EX_LOAD:
    r = of_load(f, &n, depth);
    break;
  case EX_OP:
    r = of_op(f, &n, depth);
    break;
  case EX_REDUCE:
    r = of_reduction(f, &n, depth);
    break;
  case EX_INDEX:
    break;
  }
  const interval all = of_type(t); /* integers wrap */
  if (all.known && (!r.known || r.lo < all.lo || r.hi > all.hi)) return all;
  return et_kind(t) == K_FLOAT ? of_floats(t, r) : r;
}
static interval at(finder *f, ex e, int depth) {
  uint64_t i;
  return map_getu(f->seen, e, &i) ? f->found.v[i] : note(f, f->seen, e, look(f, e, depth));
}
void interval_begin(pw *p) {
  p->intervals = NEW(p->a, interval_table);
  *p->intervals = (interval_table){.m = p->m, .p = p, .data = map_new(p->a), .seen = map_new(p->a)};
}
interval interval_of(pw *p, ex e) { return at(p->intervals, e, DEPTH); }
