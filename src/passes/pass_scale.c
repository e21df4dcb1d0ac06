/* Which constant factors belong into the weights?
 *
 * R = sum of products, one factor W constant; its only reader computes a*R + b somewhere with a constant and indexed by
 * W's variables: then W' = W*a is evaluated now and a*R + b becomes R + b. The sub-expression is the largest one that
 * is linear in R, so that it is found under activations too. Normalisation by stored statistics, per-channel scales and
 * constant factors of products all have this form. Also: several constant factors of one sum become one where the
 * largest has all variables. Uses the licence that sums of f32/f64 may be reassociated; sums of small floats stay as
 * they are. A sum of whole numbers keeps its scale outside (see pass_factor.c), as one constant. Needs hoisted, inlined
 * stages.
 */
#include "passes/pass_const.h"
#include <string.h>

typedef struct lin {
  bool ok; /* the value is a*l + b */
  ex a;    /* factor; 0: l does not occur */
  ex b;    /* the rest; 0: none */
} lin;

static bool uses(emodule *m, ex e, ex load, map *memo) {
  uint64_t x;
  if (!e) return false;
  if (e == load) return true;
  if (map_getu(memo, e, &x)) return x;
  ex_node n = *exn(m, e);
  bool r = false;
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) r |= uses(m, n.args[i], load, memo);
  if (n.kind == EX_LOAD) r = uses(m, n.otherwise, load, memo);
  map_putu(memo, e, r);
  return r;
}
static ex zero_or(emodule *m, sop op, ex a, ex b) { /* a op b where 0 stands for the number 0 */
  if (!b) return a;
  if (!a) return op == OP_SUB ? expr_op1(m, OP_NEG, b) : b;
  return expr_op2(m, op, a, b);
}
typedef struct linears {
  emodule *m;     /* the module */
  arena *a;       /* memory */
  ex l;           /* load that values are linear in */
  map *uses;      /* ex -> bool: l occurs in it */
  map *known;     /* ex -> index into found */
  VEC(lin) found; /* the forms */
} linears;
static lin linear(linears *k, ex e);
static lin linear_op(linears *k, ex e) {
  emodule *m = k->m;
  lin no = {0};
  ex_node n = *exn(m, e);
  if (n.kind != EX_OP) return no;
  if (n.op == OP_NEG) {
    lin x = linear(k, n.args[0]);
    return x.ok ? (lin){true, expr_op1(m, OP_NEG, x.a), x.b ? expr_op1(m, OP_NEG, x.b) : 0} : no;
  }
  if (n.op == OP_ADD || n.op == OP_SUB) {
    lin x = linear(k, n.args[0]), y = linear(k, n.args[1]);
    return x.ok && y.ok ? (lin){true, zero_or(m, n.op, x.a, y.a), zero_or(m, n.op, x.b, y.b)} : no;
  }
  if (n.op == OP_MUL)
    for (int i = 0; i < 2; i++)
      if (!uses(m, n.args[1 - i], k->l, k->uses)) {
        lin x = linear(k, n.args[i]);
        return x.ok ? (lin){true, expr_op2(m, OP_MUL, x.a, n.args[1 - i]),
                            x.b ? expr_op2(m, OP_MUL, x.b, n.args[1 - i]) : 0}
                    : no;
      }
  if (n.op == OP_DIV && !uses(m, n.args[1], k->l, k->uses)) {
    lin x = linear(k, n.args[0]);
    return x.ok ? (lin){true, expr_op2(m, OP_DIV, x.a, n.args[1]), x.b ? expr_op2(m, OP_DIV, x.b, n.args[1]) : 0} : no;
  }
  return no;
}
static lin linear(linears *k, ex e) { /* e = a*l + b; b == 0 is the number 0 */
  uint64_t at;
  if (e == k->l) return (lin){true, expr_f(k->m, (etype)exn(k->m, e)->type, 1), 0};
  if (!uses(k->m, e, k->l, k->uses)) return (lin){true, 0, e};
  if (map_getu(k->known, e, &at)) return k->found.v[at];
  lin r = linear_op(k, e);
  vec_push(k->a, k->found, r);
  map_putu(k->known, e, k->found.n - 1);
  return r;
}
/* Is e l*x + y, l*x, l + y or l? */
static bool is_scaled(linears *k, ex e) {
  static const sop steps[] = {OP_ADD, OP_MUL};
  for (int i = 0; i < 2; i++) {
    ex_node n = *exn(k->m, e);
    if (n.kind == EX_OP && n.op == steps[i]) e = n.args[uses(k->m, n.args[0], k->l, k->uses) ? 0 : 1];
  }
  return e == k->l;
}
/* l + w in e with a whole constant w, if it is there; else l */
static ex with_whole(linears *k, pw *p, ex e) {
  ex_node n = *exn(k->m, e);
  if (e == k->l || n.kind != EX_OP || !uses(k->m, e, k->l, k->uses)) return k->l;
  for (uint32_t i = 0; i < n.nargs; i++) {
    if (n.op == OP_ADD && n.args[i] == k->l && const_value(p, n.args[1 - i]) && whole_value(p, n.args[1 - i])) return e;
    ex r = with_whole(k, p, n.args[i]);
    if (r != k->l) return r;
  }
  return k->l;
}
static ex product(emodule *m, const u32vec *f) {
  ex r = 0;
  for (uint32_t i = 0; i < f->n; i++) r = expr_times(m, r, f->v[i]);
  return r;
}
static bool subset(const u32vec *a, const u32vec *b) {
  for (uint32_t i = 0; i < a->n; i++) {
    bool in = false;
    for (uint32_t k = 0; k < b->n; k++) in |= a->v[i] == b->v[k];
    if (!in) return false;
  }
  return true;
}
static void set_body(pw *p, uint32_t s, ex body) {
  ex_node n = *exn(p->m, xs(p->m, s)->value);
  pass_set(p, s, expr_reduce(p->m, n.op, n.args, n.nargs, n.where, body, n.payload, n.acc, n.type));
}
static bool float_sum(pw *p, uint32_t s) {
  if (!stage_is_reduce(p, s)) return false;
  const ex_node *n = exn(p->m, xs(p->m, s)->value);
  return n->op == RED_SUM && (n->type == ET_F32 || n->type == ET_F64) && exn(p->m, n->body)->type == n->type;
}
/* A constant that is kept in bytes stays so: its products would not be whole numbers. */
static bool kept_small(const emodule *m, ex e) {
  return exn(m, e)->kind == EX_LOAD && xt(m, exn(m, e)->tensor)->narrow.type != ET_NONE;
}
/* constant factors of one sum into the one that has all their variables */
static bool merge_factors(pw *p, uint32_t s) {
  emodule *m = p->m;
  u32vec f = {0};
  bool any = false;
  expr_operands(p->m, exn(m, xs(m, s)->value)->body, OP_MUL, p->a, &f);
  if (f.n < 3) return false;
  for (uint32_t i = 0; i < f.n; i++)
    for (uint32_t k = 0; k < f.n; k++) {
      u32vec vi = {0}, vk = {0};
      if (i == k || !f.v[i] || !f.v[k] || !const_value(p, f.v[i]) || !const_value(p, f.v[k]) || kept_small(m, f.v[k]))
        continue;
      expr_vars(m, f.v[i], p->a, &vi), expr_vars(m, f.v[k], p->a, &vk);
      if (!vk.n || !subset(&vi, &vk) || !pass_spend(p)) continue;
      ex c = const_make(p, s, vk.v, vk.n, expr_op2(m, EK_PLANTED("scale-merge") ? OP_ADD : OP_MUL, f.v[k], f.v[i]));
      if (!c) continue;
      f.v[k] = c, f.v[i] = 0, any = true;
    }
  if (any) set_body(p, s, product(m, &f));
  return any;
}
static ex swap_node(void *env, emodule *m, ex e) {
  const ex *w = env;
  (void)m;
  return e == w[0] ? w[1] : e;
}
static bool fold_into(pw *p, uint32_t s) {
  emodule *m = p->m;
  tid t = xs(m, s)->tensor;
  if (p->pinned.v[t] || p->readers.v[t].n != 1) return false;
  uint32_t y = p->readers.v[t].v[0];
  if (!stage_plain(p, y) || xs(m, y)->recurrence) return false;
  ex l = 0;
  const u32vec *ls = stage_loads(p, y);
  for (uint32_t i = 0; i < ls->n; i++)
    if (exn(m, ls->v[i])->tensor == t) {
      if (l) return false;
      l = ls->v[i];
    }
  if (!l || exn(m, l)->otherwise) return false;
  /* the largest part of the reader that is a*R + b with constant a */
  linears ks = {.m = m, .a = p->a, .l = l, .uses = map_new(p->a), .known = map_new(p->a)};
  ex top = xs(m, y)->value;
  lin k = {0};
  bool whole = whole_sum(p, xs(m, s)->value);
  if (!uses(m, top, l, ks.uses)) return false; /* it only says where to read */
  if (whole) ks.l = with_whole(&ks, p, top), ks.uses = map_new(p->a);
  for (;;) {
    k = linear(&ks, top);
    if (k.ok && const_value(p, k.a)) break;
    ex_node n = *exn(m, top);
    ex next = 0;
    uint32_t with = 0;
    if (top == ks.l || n.kind != EX_OP) return false;
    for (uint32_t i = 0; i < n.nargs; i++)
      if (uses(m, n.args[i], ks.l, ks.uses)) next = n.args[i], with++;
    if (with != 1) return false;
    top = next;
  }
  ex a = simplify(p, k.a);
  ex_node an = *exn(m, a);
  if (top == ks.l || (an.kind == EX_CONST && an.k.f == 1)) return false;
  if (whole) { /* stays exact: the scale, and what is added, become one constant each */
    if (is_scaled(&ks, top) || (k.b && !const_value(p, k.b)) || !pass_spend(p)) return false;
    ex swap[2] = {top, k.b ? expr_op2(m, OP_ADD, expr_op2(m, OP_MUL, ks.l, a), k.b) : expr_op2(m, OP_MUL, ks.l, a)};
    ex v = expr_rewrite(m, xs(m, y)->value, &(ex_map){.node = swap_node, .env = swap});
    pass_set(p, y, simplify(p, v));
    return true;
  }
  /* the reader's variables as the sum's own */
  const stage *x = xs(m, s);
  uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(p->a, digit, nd + 1);
  sz *by = NEWN(p->a, sz, nd + 1);
  u32vec av = {0}, mapped = {0};
  expr_digits(x, d);
  if (!expr_comps(m, s, exn(m, l)->args, by, NULL, NULL)) return false;
  expr_vars(m, a, p->a, &av);
  sz *to = NEWN(p->a, sz, av.n + 1);
  for (uint32_t i = 0; i < av.n; i++)
    for (uint32_t j = 0; j < nd; j++)
      if (by[j] == sym_of_atom(p->c, av.v[i]) && sym_eq(p->c, d[j].extent, sym_extent(p->c, av.v[i])))
        to[i] = sym_of_atom(p->c, d[j].var), vec_push(p->a, mapped, d[j].var);
  for (uint32_t i = 0; i < av.n; i++)
    if (!to[i]) return false;
  u32vec f = {0};
  expr_operands(p->m, exn(m, x->value)->body, OP_MUL, p->a, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    u32vec fv = {0};
    if (!const_value(p, f.v[i]) || exn(m, f.v[i])->kind == EX_CONST || kept_small(m, f.v[i])) continue;
    expr_vars(m, f.v[i], p->a, &fv);
    if (!subset(&mapped, &fv) || !pass_spend(p)) continue;
    ex c = const_make(p, s, fv.v, fv.n, expr_op2(m, OP_MUL, f.v[i], expr_subst_vars(m, a, av.v, to, av.n)));
    if (!c) continue;
    f.v[i] = c;
    set_body(p, s, product(m, &f));
    ex swap[2] = {top, k.b && !EK_PLANTED("scale") ? expr_op2(m, OP_ADD, l, k.b) : l};
    ex v = expr_rewrite(m, xs(m, y)->value, &(ex_map){.node = swap_node, .env = swap});
    pass_set(p, y, simplify(p, v));
    return true;
  }
  pass_remark(p, "scale", s, y + 1, "no constant factor over the scale's variables");
  return false;
}
bool pass_scale(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    if (xs(p->m, s)->recurrence || !float_sum(p, s)) continue;
    any |= merge_factors(p, s);
    any |= fold_into(p, s);
  }
  return any;
}
