/* Which sums are sums of whole numbers?
 *
 * A quantised tensor is whole numbers times a constant scale. A sum of products of such tensors is the scales times a
 * sum of whole numbers, which is exact as long as it stays below 2^24, in whatever order it is computed: what is
 * rounded to a quantum afterwards does not hang on the order. So a stage P = A*k (A whole, k constant) becomes P' = A
 * and P = P'*k, sums read P', and k stands in front of the sum when it does not depend on what is summed. Stages that
 * only move P are looked through. Only where all factors become whole, else nothing is won. Uses the licence of sums
 * like the pass scale, which leaves such sums alone.
 *
 * Whole is a property of the formula: conversions of integers, roundings, whole constants, and what + - * min max
 * make of them. Needs simplified values; runs before constants are folded.
 */
#include "passes/pass_const.h"
#include <math.h>
#include <string.h>

enum { DEPTH = 12 };

static bool whole_data(const tensor *t) {
  int64_t n;
  uint32_t w = et_bytes(t->type);
  if (t->narrow.type) return et_kind(t->narrow.type) != K_FLOAT;
  if (!t->data.data || !nd_count(&t->data, &n)) return false;
  for (int64_t i = 0; i < n; i++) {
    double v = et_load(t->type, (const uint8_t *)t->data.data + i * w).f;
    if (v != trunc(v)) return false;
  }
  return true;
}
/* elements: those of constants are looked at, too */
static bool whole_at(pw *p, ex e, int depth, bool elements) {
  emodule *m = p->m;
  ex_node n = *exn(m, e);
  if (et_kind(n.type) != K_FLOAT) return n.type != ET_STR;
  if (depth == 0) return false;
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    return n.k.f == trunc(n.k.f);
  case EX_LOAD: {
    if (!elements) return false;
    if (n.otherwise && !whole_at(p, n.otherwise, depth - 1, elements)) return false;
    const tensor *t = xt(m, n.tensor);
    if (t->kind == TK_CONST) return whole_data(t);
    uint32_t s = producer_of(m, n.tensor);
    return s && !xs(m, s - 1)->recurrence && !xs(m, s - 1)->updates.n &&
           whole_at(p, xs(m, s - 1)->value, depth - 1, elements);
  }
  case EX_OP:
    break;
  default:
    return false;
  }
  switch ((sop)n.op) {
  case OP_ROUND_EVEN:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_TRUNC:
    return true;
  case OP_CAST:
  case OP_NEG:
  case OP_ABS:
    return whole_at(p, n.args[0], depth - 1, elements);
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_MIN:
  case OP_MAX:
    return whole_at(p, n.args[0], depth - 1, elements) && whole_at(p, n.args[1], depth - 1, elements);
  case OP_SEL:
    return whole_at(p, n.args[1], depth - 1, elements) && whole_at(p, n.args[2], depth - 1, elements);
  default:
    return false;
  }
}
bool whole_value(pw *p, ex e) { return whole_at(p, e, DEPTH, true); }
bool whole_form(pw *p, ex e) { return whole_at(p, e, DEPTH, false); }

bool whole_sum(pw *p, ex e) {
  ex_node n = *exn(p->m, e);
  u32vec f = {0};
  if (n.kind != EX_REDUCE || n.op != RED_SUM || et_kind(n.type) != K_FLOAT) return false;
  expr_operands(p->m, n.body, OP_MUL, p->a, &f);
  for (uint32_t i = 0; i < f.n; i++)
    if (!whole_value(p, f.v[i])) return false;
  return true;
}

typedef struct factored {
  tid whole; /* 0: it has no such form */
  ex scale;  /* the factor, over the digits of the stage; 0: 1 */
} factored;
typedef struct factorer {
  pw *p;               /* the run of passes */
  emodule *m;          /* the module */
  map *known;          /* tensor -> index into found */
  map *sums;           /* whole sum times scale -> scale */
  VEC(factored) found; /* what is known of a tensor */
  uint32_t s;          /* the stage whose value is looked at */
  bool any;            /* something changed */
} factorer;

/* What stands outside of a tensor: nothing, 0, or an infinity, which only the greatest and least of values read */
static bool scales_to_itself(emodule *m, ex e) {
  if (EK_PLANTED("factor") || !e) return true;
  const ex_node *n = exn(m, e);
  return n->kind == EX_CONST && (n->k.f == 0 || isinf(n->k.f));
}
static factored factor(factorer *f, tid t);
/* A load of a stage that is whole * scale, as these two. */
static bool factor_load(factorer *f, ex e, ex *whole, ex *scale) {
  emodule *m = f->m;
  pw *p = f->p;
  ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || !scales_to_itself(m, n.otherwise)) return false;
  factored k = factor(f, n.tensor);
  if (!k.whole) return false;
  *whole = expr_load(m, k.whole, n.args, n.nargs, n.otherwise);
  *scale = 0;
  if (!k.scale) return true;
  u32vec used = {0};
  expr_vars(m, k.scale, p->a, &used);
  *scale = used.n ? stage_at_load(p, &n, k.scale) : k.scale;
  return *scale != 0;
}
/* The stage's value becomes a load of a new stage, which is `whole`, times `scale`. */
static tid split(factorer *f, uint32_t s, ex whole, ex scale) {
  emodule *m = f->m;
  pw *p = f->p;
  stage x = *xs(m, s);
  tensor t = *xt(m, x.tensor);
  uint32_t nd = expr_ndigits(&x), at = 0;
  sz idx[MAX_RANK], *by = NEWN(p->a, sz, nd + 1);
  atom *vars = NEWN(p->a, atom, nd + 1);
  axis *axes = NEWN(p->a, axis, x.naxes + 1);
  for (uint32_t i = 0; i < x.naxes; i++) {
    digit *d = NEWN(m->a, digit, x.axes[i].n + 1);
    for (uint32_t k = 0; k < x.axes[i].n; k++, at++) {
      d[k] = x.axes[i].d[k];
      vars[at] = d[k].var;
      by[at] = sym_var(m->c, sym_name(m->c, d[k].var), d[k].extent);
      sym_is_atom(m->c, by[at], &d[k].var);
    }
    axes[i] = (axis){x.axes[i].n, d};
    idx[i] = expr_axis_index(m, &x.axes[i]);
  }
  tid made = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, t.name, t.origin);
  uint32_t ns = expr_stage(m, x.block, made, axes, x.naxes, expr_subst_vars(m, whole, vars, by, nd));
  xs(m, ns)->region = x.region;
  m->blocks.v[x.block].items.n--; /* the new stage stands in front of s */
  vec_push(p->keep, p->pend, ((pending){s, ns}));
  pass_changed(p, ns);
  pass_set(p, s, expr_times(m, expr_load(m, made, idx, x.naxes, 0), scale));
  f->any = true;
  return made;
}
static factored factor_stage(factorer *f, uint32_t s) {
  emodule *m = f->m;
  pw *p = f->p;
  factored no = {0}, r = {0};
  const stage *x = xs(m, s);
  u32vec fs = {0};
  ex whole = 0;
  if (x->recurrence || !stage_plain(p, s)) return no;
  etype t = xt(m, x->tensor)->type;
  if (t != ET_F32 && t != ET_F64) return no;
  expr_operands(p->m, x->value, OP_MUL, p->a, &fs);
  for (uint32_t i = 0; i < fs.n; i++) {
    ex w = 0, k = 0;
    if (factor_load(f, fs.v[i], &w, &k))
      whole = expr_times(m, whole, w), r.scale = expr_times(m, r.scale, k);
    else if (whole_value(p, fs.v[i]))
      whole = expr_times(m, whole, fs.v[i]);
    else if (const_value(p, fs.v[i]) && !(ex_flags(p, fs.v[i]) & EXF_REDUCE))
      r.scale = expr_times(m, r.scale, fs.v[i]);
    else
      return no;
  }
  if (!whole || !(ex_flags(p, whole) & (EXF_LOAD | EXF_INDEX))) return no;
  if (!r.scale) return (factored){xs(m, s)->tensor, 0};
  if (!pass_spend(p)) return no;
  r.whole = split(f, s, whole, r.scale);
  return r;
}
static factored factor(factorer *f, tid t) {
  uint64_t at;
  if (map_getu(f->known, t, &at)) return f->found.v[at];
  uint32_t s = producer_of(f->m, t);
  factored r = s ? factor_stage(f, s - 1) : (factored){0};
  vec_push(f->p->a, f->found, r);
  map_putu(f->known, t, f->found.n - 1);
  return r;
}
/* Are these constants the same numbers? */
static bool same_scale(factorer *f, ex a, ex b) {
  emodule *m = f->m;
  pw *p = f->p;
  u32vec vars = {0};
  if (a == b) return true;
  expr_vars(m, a, p->a, &vars), expr_vars(m, b, p->a, &vars);
  ex x = const_make(p, f->s, vars.v, vars.n, a), y = x ? const_make(p, f->s, vars.v, vars.n, b) : 0;
  if (!y) return false;
  const ndarray *u = expr_data(m, exn(m, x)->tensor), *v = expr_data(m, exn(m, y)->tensor);
  int64_t n, k;
  return u->type == v->type && nd_count(u, &n) && nd_count(v, &k) && n == k &&
         !memcmp(u->data, v->data, (size_t)n * et_bytes(u->type));
}
/* A*k + B*k = (A + B)*k: what is added to a sum in its own scale is a whole number too. */
static ex factor_add(factorer *f, ex e) {
  emodule *m = f->m;
  ex_node n = *exn(m, e);
  uint64_t scale;
  ex w, k;
  for (int i = 0; i < 2; i++) {
    if (!map_getu(f->sums, n.args[i], &scale) || !factor_load(f, n.args[1 - i], &w, &k) || !k ||
        !same_scale(f, (ex)scale, k) || !pass_spend(f->p))
      continue;
    return expr_op2(m, OP_MUL, expr_op2(m, OP_ADD, exn(m, n.args[i])->args[0], w), (ex)scale);
  }
  return e;
}
static ex factor_sum(factorer *f, ex e) {
  emodule *m = f->m;
  pw *p = f->p;
  ex_node n = *exn(m, e);
  u32vec fs = {0};
  ex body = 0, scale = 0;
  if (n.kind != EX_REDUCE || n.op != RED_SUM || (n.type != ET_F32 && n.type != ET_F64) ||
      exn(m, n.body)->type != n.type)
    return e;
  expr_operands(p->m, n.body, OP_MUL, p->a, &fs);
  for (uint32_t i = 0; i < fs.n; i++) {
    ex w = fs.v[i], k = 0;
    if (factor_load(f, fs.v[i], &w, &k)) {
    } else if (!whole_value(p, w)) {
      if (!const_value(p, w)) return e;
      k = w, w = 0;
    }
    u32vec used = {0};
    if (k) expr_vars(m, k, p->a, &used);
    for (uint32_t a = 0; a < used.n; a++)
      for (uint32_t b = 0; b < n.nargs; b++)
        if (used.v[a] == n.args[b] && !EK_PLANTED("factor")) return e;
    body = expr_times(m, body, w), scale = expr_times(m, scale, k);
  }
  if (!body || !scale || !pass_spend(p)) return e;
  f->any = true;
  e = expr_op2(m, OP_MUL, expr_reduce(m, n.op, n.args, n.nargs, n.where, body, n.payload, n.acc, n.type), scale);
  map_putu(f->sums, e, scale);
  return e;
}
/* Are all values of a constant more than 0? */
static bool positive(factorer *f, ex scale) {
  emodule *m = f->m;
  u32vec vars = {0};
  int64_t n;
  if (exn(m, scale)->kind == EX_CONST) return exn(m, scale)->k.f > 0;
  expr_vars(m, scale, f->p->a, &vars);
  const ex made = const_make(f->p, f->s, vars.v, vars.n, scale);
  const ndarray *d = made ? expr_data(m, exn(m, made)->tensor) : NULL;
  if (!d || !nd_count(d, &n)) return false;
  for (int64_t i = 0; i < n; i++)
    if (!(et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).f > 0)) return false;
  return true;
}
/* The greatest (least) of scaled whole numbers is the greatest one scaled: a product rounded keeps their order. */
static ex factor_extreme(factorer *f, ex e) {
  emodule *m = f->m;
  const ex_node n = *exn(m, e);
  u32vec used = {0};
  ex whole, scale;
  if (n.where || !factor_load(f, n.body, &whole, &scale) || !scale || !positive(f, scale)) return e;
  expr_vars(m, scale, f->p->a, &used);
  for (uint32_t i = 0; i < n.nargs; i++)
    if (vec_has(&used, n.args[i])) return e;
  if (!pass_spend(f->p)) return e;
  f->any = true;
  return expr_op2(m, OP_MUL, expr_reduce(m, (rop)n.op, n.args, n.nargs, 0, whole, 0, n.acc, n.type), scale);
}
static ex factor_node(void *env, emodule *m, ex e) {
  const ex_node *n = exn(m, e);
  if (n->kind == EX_REDUCE && (n->op == RED_MAX || n->op == RED_MIN) && et_kind(n->type) == K_FLOAT)
    return factor_extreme(env, e);
  return n->kind == EX_REDUCE                                                 ? factor_sum(env, e)
         : n->kind == EX_OP && n->op == OP_ADD && et_kind(n->type) == K_FLOAT ? factor_add(env, e)
                                                                              : e;
}
bool pass_factor(pw *p) {
  emodule *m = p->m;
  factorer f = {.p = p, .m = m, .known = map_new(p->a), .sums = map_new(p->a)};
  u32vec order = {0};
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    ex v = xs(m, s)->value;
    if (!v || xs(m, s)->updates.n || !(ex_flags(p, v) & EXF_REDUCE)) continue;
    f.s = s;
    ex now = expr_rewrite(m, v, &(ex_map){.node = factor_node, .env = &f});
    if (now == v) continue;
    xs(m, s)->value = simplify(p, now);
    pass_changed(p, s);
  }
  if (f.any) pass_flush(p);
  return f.any;
}
