/* Which reductions look at all pairs of places, and need not?
 *
 * Two formulas come up wherever something is sorted, selected or accumulated, and cost n*n as they stand:
 *   running    Y[p] = red[k where k <= p] f(k)                    each value follows from the one before: n
 *   ranking    Y[p] = sum[k] (f(k) > f(p) or (f(k) == f(p) and k < p))     how many come before p in a total
 *              order: its place after sorting: n
 *              Where a place only says which updates happen, `if Y[p] < few`, and where they go, the first few
 *              are enough.
 *   placing    Z[.., Y[.., p, ..], ..] := f(p) if Y[.., p, ..] < few       what stands at the places of a
 *              ranking: it is written where the ranking is made, whose places nobody else needs
 * Both are recognised by their form alone, after simplification; the stage keeps its formula, and the schedule
 * (kernel_pairs.c) computes it the short way.
 *
 * k and p may be several variables each, which number places in row-major order (the same extents); `<=` may be
 * `<`, `>=`, `>`. The body and what else the condition says may not use p.
 */
#include "cost/cost.h"
#include "fusion/fusion.h"
#include "rewrite/rewrite.h"

static bool uses_any(emodule *m, ex e, const atom *vars, uint32_t n, arena *a) {
  u32vec at = {0};
  if (!e) return false;
  expr_vars(m, e, a, &at);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < at.n; j++)
      if (at.v[j] == vars[i]) return true;
  return false;
}
/* number >= 0 */
static bool is_ge0(emodule *m, ex e, sz *number) {
  const ex_node *n = exn(m, e);
  if (n->kind != EX_OP || n->op != OP_GE) return false;
  const ex_node *l = exn(m, n->args[0]), *r = exn(m, n->args[1]);
  if (l->kind != EX_INDEX || r->kind != EX_CONST || r->k.i != 0) return false;
  *number = l->index;
  return true;
}

/* ---- running --------------------------------------------------------------------------------- */
/* d = sign*(flat(p) - flat(k)) - (strict ? 1 : 0) with places numbered by all variables of the reduction, the first
 * one slowest */
static bool row_major(emodule *m, const ex_node *n, const u32vec *own, sz d, prefix_scan *out) {
  ctx *c = m->c;
  sz rest = d, coef[MAX_RANK];
  if (!n->nargs || n->nargs > MAX_RANK) return false;
  out->n = n->nargs;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (!sym_linear(c, rest, n->args[i], &coef[i], &rest)) return false;
  out->backward = sym_ge0(c, coef[0]);
  for (uint32_t i = 0; i < n->nargs; i++) { /* the digits have the same weight and extent */
    sz q = 0, left = 0;
    out->k[i] = n->args[i], out->p[i] = 0;
    for (uint32_t j = 0; j < own->n && !out->p[i]; j++) {
      if (!sym_linear(c, rest, own->v[j], &q, &left)) return false;
      if (q == sym_neg(c, coef[i]) && sym_extent(c, own->v[j]) == sym_extent(c, n->args[i]))
        out->p[i] = own->v[j], rest = left;
    }
    if (!out->p[i]) return false;
  }
  int64_t k;
  if (!sym_is_int(c, rest, &k) || (k != 0 && k != -1)) return false;
  out->strict = k == -1;
  sz weight = sym_int(c, out->backward ? 1 : -1);
  for (uint32_t at = out->n; at-- > 0;) { /* digits of least weight come last */
    uint32_t i = 0;
    while (i <= at && coef[i] != weight) i++;
    if (i > at) return false;
    sz q = coef[i];
    atom vk = out->k[i], vp = out->p[i];
    coef[i] = coef[at], out->k[i] = out->k[at], out->p[i] = out->p[at];
    coef[at] = q, out->k[at] = vk, out->p[at] = vp;
    weight = sym_mul(c, weight, sym_extent(c, vk));
  }
  return true;
}
bool expr_prefix_scan(emodule *m, uint32_t s, arena *a, prefix_scan *out) {
  const stage *x = xs(m, s);
  *out = (prefix_scan){0};
  if (!x->value || x->updates.n || x->recurrence) return false;
  ex_node n = *exn(m, x->value);
  if (n.kind != EX_REDUCE || !n.where || red_is_arg((rop)n.op)) return false;
  u32vec own = {0}, parts = {0};
  stage_vars(m, s, a, &own);
  expr_operands(m, n.where, OP_AND, a, &parts);
  uint32_t which = 0;
  sz d;
  while (which < parts.n && !(is_ge0(m, parts.v[which], &d) && row_major(m, &n, &own, d, out))) which++;
  if (which == parts.n) return false;
  for (uint32_t i = 0; i < parts.n; i++)
    if (i != which) out->keep = out->keep ? expr_op2(m, OP_AND, out->keep, parts.v[i]) : parts.v[i];
  if ((uses_any(m, n.body, out->p, out->n, a) && !EK_PLANTED("pairs-body")) ||
      (uses_any(m, out->keep, out->p, out->n, a) && !EK_PLANTED("pairs-where")))
    return false;
  sz places = sym_int(m->c, 1);
  for (uint32_t i = 0; i < out->n; i++) places = sym_mul(m->c, places, sym_extent(m->c, out->k[i]));
  return cost_prefix_scan_pays(sym_int_or(m->c, places, INT64_MAX));
}

/* ---- ranking --------------------------------------------------------------------------------- */
/* e is `x OP y` (or its mirror) with x = f(k), y = f(p): OP as seen from k */
static sop compared(emodule *m, ex e, atom k, atom p, ex *key, arena *a) {
  ex_node n = *exn(m, e);
  if (n.kind != EX_OP || (n.op != OP_GT && n.op != OP_LT && n.op != OP_EQ)) return OP_NONE;
  for (int mirror = 0; mirror < 2; mirror++) {
    ex x = n.args[mirror], y = n.args[!mirror];
    if (!uses_any(m, x, &k, 1, a) || uses_any(m, x, &p, 1, a)) continue;
    sz by = sym_of_atom(m->c, p);
    if (expr_subst_vars(m, x, &k, &by, 1) != y) continue;
    *key = y;
    return n.op == OP_EQ || !mirror ? (sop)n.op : n.op == OP_GT ? OP_LT : OP_GT;
  }
  return OP_NONE;
}
static bool before(emodule *m, ex e, atom k, atom p) { /* k < p */
  sz d;
  return is_ge0(m, e, &d) && d == sym_addi(m->c, sym_sub(m->c, sym_of_atom(m->c, p), sym_of_atom(m->c, k)), -1);
}
/* what a constant, or a number of sizes, is at most; INT64_MAX: not known */
static int64_t bound_of(emodule *m, const ex_node *n) {
  int64_t lo, hi = INT64_MAX;
  if (n->kind == EX_CONST) return n->k.i;
  if (n->kind == EX_INDEX && !sym_uses_kind(m->c, n->index, AT_VAR) && !sym_uses_kind(m->c, n->index, AT_DATA))
    sym_range(m->c, n->index, &lo, &hi);
  return hi < SYM_INF ? hi : INT64_MAX;
}
/* the number below which every reader of the tensor asks its element to be; 0: there is a reader that does not ask */
static int64_t asked_below(emodule *m, tid t, arena *a) {
  int64_t few = 0;
  bool whole = xt(m, t)->output;
  for (uint32_t i = 0; i < m->lates.n; i++) whole |= m->lates.v[i].tensor == t;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t k = 0; k < m->ifs.v[i].n; k++)
      whole |= m->ifs.v[i].then_vals[k] == t || m->ifs.v[i].else_vals[k] == t;
  for (uint32_t i = 0; i < m->loops.n; i++) {
    for (uint32_t k = 0; k < m->loops.v[i].ncarried; k++)
      whole |= m->loops.v[i].init[k] == t || m->loops.v[i].next[k] == t;
    for (uint32_t k = 0; k < m->loops.v[i].ncollected; k++) whole |= m->loops.v[i].slice[k] == t;
  }
  if (whole) return 0;
  for (uint32_t s = 0; s < m->stages.n; s++) {
    const stage *x = xs(m, s);
    u32vec loads = {0};
    if (x->dead) continue;
    if (x->value) expr_loads(m, x->value, a, &loads);
    for (uint32_t l = 0; l < loads.n; l++)
      if (exn(m, loads.v[l])->tensor == t) return 0;
    for (uint32_t u = 0; u < x->updates.n; u++) {
      const update *up = &x->updates.v[u];
      ex cond = up->cond, asked = 0;
      while (cond && exn(m, cond)->kind == EX_OP && exn(m, cond)->op == OP_AND) cond = exn(m, cond)->args[0];
      const ex_node *n = cond ? exn(m, cond) : NULL,
                    *bound = n && n->kind == EX_OP && n->op == OP_LT ? exn(m, n->args[1]) : NULL;
      int64_t below = bound ? bound_of(m, bound) : INT64_MAX;
      if (below < INT64_MAX && exn(m, n->args[0])->kind == EX_LOAD && exn(m, n->args[0])->tensor == t)
        asked = n->args[0], few = below > few ? below : few;
      loads.n = 0;
      expr_loads(m, up->value, a, &loads);
      if (up->cond) expr_loads(m, up->cond, a, &loads);
      for (uint32_t k = 0; k < up->nidx; k++) expr_loads(m, expr_index(m, up->idx[k]), a, &loads);
      for (uint32_t l = 0; l < loads.n; l++)
        if (exn(m, loads.v[l])->tensor == t && loads.v[l] != asked) return 0;
    }
  }
  return few;
}
bool expr_ranking(emodule *m, uint32_t s, arena *a, ranking *out) {
  const stage *x = xs(m, s);
  *out = (ranking){0};
  if (!x->value || x->updates.n || x->recurrence) return false;
  ex_node n = *exn(m, x->value);
  if (n.kind != EX_REDUCE || n.op != RED_SUM || n.where || n.nargs != 1 || et_kind((etype)n.type) == K_FLOAT)
    return false;
  ex_node b = *exn(m, n.body);
  if (b.kind != EX_OP || b.op != OP_CAST || exn(m, b.args[0])->type != ET_BOOL) return false;
  ex_node either = *exn(m, b.args[0]);
  if (either.kind != EX_OP || either.op != OP_OR) return false;
  u32vec own = {0};
  stage_vars(m, s, a, &own);
  atom k = n.args[0];
  for (uint32_t v = 0; v < own.n; v++) {
    atom p = own.v[v];
    if (sym_extent(m->c, p) != sym_extent(m->c, k)) continue;
    for (int mirror = 0; mirror < 2; mirror++) {
      ex key, same;
      sop op = compared(m, either.args[mirror], k, p, &key, a);
      if (op != OP_GT && op != OP_LT) continue;
      ex_node tie = *exn(m, either.args[!mirror]);
      if (tie.kind != EX_OP || tie.op != OP_AND) continue;
      for (int t = 0; t < 2; t++)
        if (compared(m, tie.args[t], k, p, &same, a) == OP_EQ && same == key && before(m, tie.args[!t], k, p)) {
          *out = (ranking){.k = k, .p = p, .key = key, .falling = op == OP_GT, .first = asked_below(m, x->tensor, a)};
          int64_t lo, hi;
          sym_range(m->c, sym_extent(m->c, p), &lo, &hi);
          return cost_sort_pays(hi);
        }
    }
  }
  return false;
}

/* ---- placing --------------------------------------------------------------------------------- */
static bool run_with(placing *out, atom v, atom with, arena *a) { /* false: v runs with another one */
  for (uint32_t i = 0; i < out->var.n; i++)
    if (out->var.v[i] == v) return out->with.v[i] == with;
  vec_push(a, out->var, v), vec_push(a, out->with, with);
  return true;
}
/* which variable of the ranking, whose digits are d, a variable of the update is */
static atom ranked_by(const update *u, const digit *d, const sz *at, uint32_t nd, ctx *c, sz x) {
  atom v, w;
  if (!sym_is_atom(c, x, &v)) return 0;
  for (uint32_t i = 0; i < nd; i++)
    if (sym_is_atom(c, at[i], &w) && v == w)
      for (uint32_t k = 0; k < u->nvars; k++)
        if (u->vars[k] == v) return d[i].var;
  return 0;
}
static bool places_by(emodule *m, const stage *x, uint32_t s, const update *u, uint32_t r, atom p, arena *a,
                      placing *out) {
  ctx *c = m->c;
  tid t = xs(m, r)->tensor;
  u32vec loads = {0};
  expr_loads(m, u->value, a, &loads);
  if (u->cond) expr_loads(m, u->cond, a, &loads);
  for (uint32_t i = 0; i < u->nidx; i++) expr_loads(m, expr_index(m, u->idx[i]), a, &loads);
  ex rank = 0;
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(m, loads.v[i])->tensor == t) {
      if (rank) return false;
      rank = loads.v[i];
    }
  uint32_t nd = expr_ndigits(xs(m, r)), nx = expr_ndigits(x);
  u32vec rows = {0};
  sz *at = NEWN(a, sz, nd + 1), *to = NEWN(a, sz, nx + 1);
  digit *d = NEWN(a, digit, nd + 1), *dx = NEWN(a, digit, nx + 1);
  if (!rank || u->op != OP_NONE || exn(m, rank)->otherwise || !expr_comps(m, r, exn(m, rank)->args, at, NULL, NULL) ||
      !expr_comps(m, s, u->idx, to, NULL, NULL))
    return false;
  expr_digits(xs(m, r), d), expr_digits(x, dx);
  for (uint32_t i = 0; i < u->nvars; i++) {
    atom with = ranked_by(u, d, at, nd, c, sym_of_atom(c, u->vars[i]));
    if (!with || !sym_eq(c, sym_extent(c, with), sym_extent(c, u->vars[i])) || !run_with(out, u->vars[i], with, a))
      return false;
  }
  /* another place for each rank, and nothing else decides: of those that rank first, as NaN does, the last one stays */
  int64_t below = INT64_MAX;
  bool told_by_index = false;
  if (u->cond) {
    const ex_node *n = exn(m, u->cond);
    if (n->kind != EX_OP || n->op != OP_LT || n->args[0] != rank ||
        (below = bound_of(m, exn(m, n->args[1]))) == INT64_MAX)
      return false;
  }
  for (uint32_t i = 0; i < u->nidx; i++) told_by_index |= expr_from_size(m, u->idx[i]) == rank;
  if (!told_by_index && below > 1) return false;
  for (uint32_t i = 0; i < nx; i++) { /* a row of the ranking writes a row of its own */
    atom with = ranked_by(u, d, at, nd, c, to[i]);
    if (!with) continue;
    if (with == p || vec_has(&rows, with) || !sym_eq(c, sym_extent(c, with), dx[i].extent) ||
        !run_with(out, dx[i].var, with, a))
      return false;
    vec_push(a, rows, with);
  }
  return u->nvars == nd && rows.n == nd - 1;
}
bool expr_placing(emodule *m, uint32_t s, uint32_t r, arena *a, placing *out) {
  const stage *x = xs(m, s);
  ranking rank;
  *out = (placing){0};
  if (!x->updates.n || x->recurrence || x->block != xs(m, r)->block || !expr_ranking(m, r, a, &rank)) return false;
  u32vec loads = {0};
  if (x->value) expr_loads(m, x->value, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(m, loads.v[i])->tensor == xs(m, r)->tensor) return false;
  for (uint32_t i = 0; i < x->updates.n; i++)
    if (!places_by(m, x, s, &x->updates.v[i], r, rank.p, a, out)) return false;
  return true;
}
