/* What can be computed now?
 *
 * A stage all of whose inputs are constants becomes a constant tensor; inside other stages a maximal constant
 * sub-expression does, over exactly its free variables. Bounded: what would take long to evaluate or makes more bytes
 * than it reads by far stays. Pure movement of large constants is left to the views (weights are packed later anyway),
 * until the last round. Values come from the evaluator, one stage at a time.
 */
#include "eval/eval.h"
#include "passes/pass.h"
#include "passes/pass_const.h"
#include <string.h>

enum { MAX_WORK = 1 << 26, MAX_LARGE = 1 << 30, MAX_ELEMS = 1 << 26, MIN_COOL = 1 << 15 /* bytes */ };

bool const_value(pw *p, ex e) {
  u32vec l = {0}, at = {0};
  if (!e) return true;
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++)
    if (xt(p->m, exn(p->m, l.v[i])->tensor)->kind != TK_CONST || xt(p->m, exn(p->m, l.v[i])->tensor)->type == ET_STR)
      return false;
  expr_symbols(p, e, &at);
  return !at.n;
}
/* scalar operations of one evaluation with the reductions' trips; saturates */
static int64_t work_of(pw *p, ex e, map *seen) {
  uint64_t x;
  int64_t w = 0, k, r;
  if (!e || map_getu(seen, e, &x)) return 0;
  map_putu(seen, e, 1);
  ex_node n = *exn(p->m, e);
  if (n.kind == EX_LOAD) return 1 + work_of(p, n.otherwise, seen);
  if (n.kind == EX_OP) {
    w = op_cost(n.op);
    for (uint32_t i = 0; i < n.nargs; i++) w += work_of(p, n.args[i], seen);
  }
  if (n.kind == EX_REDUCE) {
    w = 1 + work_of(p, n.where, seen) + work_of(p, n.body, seen) + work_of(p, n.payload, seen);
    for (uint32_t i = 0; i < n.nargs; i++) {
      if (!sym_is_int(p->c, sym_extent(p->c, n.args[i]), &k) || !mul64(w, max64(k, 1), &r)) return INT64_MAX / 4;
      w = r;
    }
  }
  return min64(w, INT64_MAX / 4);
}
static bool fits(pw *p, ex e, int64_t points, int64_t most) {
  int64_t w;
  return points >= 0 && points <= MAX_ELEMS && mul64(points, max64(work_of(p, e, map_new(p->a)), 1), &w) && w <= most;
}
static bool points_of(pw *p, const digit *d, uint32_t n, int64_t *out) {
  int64_t k;
  *out = 1;
  for (uint32_t i = 0; i < n; i++)
    if (!sym_is_int(p->c, d[i].extent, &k) || !mul64(*out, k, out)) return false;
  return true;
}
/* Gives back the memory of large constants of the model's files that e reads. */
static void cool(pw *p, ex e) {
  u32vec l = {0};
  if (!e) return;
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++) {
    const ndarray *d = &xt(p->m, exn(p->m, l.v[i])->tensor)->data;
    if (d->bytes >= MIN_COOL) file_done(p->c, d->data, d->bytes);
  }
}
/* Does it read codes that are to stay in few bits? */
static bool reads_codes(pw *p, ex e) {
  u32vec l = {0};
  uint64_t is;
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++)
    if (map_getu(p->codes, exn(p->m, l.v[i])->tensor, &is)) return true;
  return false;
}
/* const_values, where it takes at most so much work. */
static tid values_within(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value, int64_t most, ndarray *out) {
  emodule *m = p->m;
  digit *d = NEWN(p->a, digit, n + 1);
  sz *by = NEWN(p->a, sz, n + 1);
  int64_t points;
  if (n > MAX_RANK || reads_codes(p, value)) return 0;
  for (uint32_t i = 0; i < n; i++) {
    d[i].extent = sym_extent(p->c, vars[i]);
    by[i] = sym_var(p->c, sym_name(p->c, vars[i]), d[i].extent);
    sym_is_atom(p->c, by[i], &d[i].var);
  }
  if (!points_of(p, d, n, &points) || !fits(p, value, points, most)) return 0;
  value = expr_subst_vars(m, expr_fresh(m, value), vars, by, n);
  uint32_t s = pass_stage(p, near, d, n, value, "c");
  p->pend.n--; /* the stage is computed now, and stands in no block */
  bool ok = const_product(p, near, value, d, n, out) || expr_eval_stage(m, s, m->a, out);
  cool(p, value);
  pass_kill(p, s);
  return ok ? xs(m, s)->tensor : 0;
}
tid const_values(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value, ndarray *out) {
  return values_within(p, near, vars, n, value, MAX_WORK, out);
}
static ex make_within(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value, int64_t most) {
  ndarray out;
  sz *idx = NEWN(p->a, sz, n + 1);
  const tid t = values_within(p, near, vars, n, value, most, &out);
  if (!t) return 0;
  for (uint32_t i = 0; i < n; i++) idx[i] = sym_of_atom(p->c, vars[i]);
  xt(p->m, t)->kind = TK_CONST, xt(p->m, t)->data = out;
  expr_narrow(p->m, t);
  return expr_load(p->m, t, idx, n, 0);
}
ex const_make(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value) {
  return make_within(p, near, vars, n, value, MAX_WORK);
}
ex const_make_large(pw *p, uint32_t near, const atom *vars, uint32_t n, ex value) {
  return make_within(p, near, vars, n, value, MAX_LARGE);
}

typedef struct folder {
  pw *p;      /* the run of passes */
  uint32_t s; /* the stage */
  map *by;    /* value -> what stands for it */
  bool any;   /* something changed */
} folder;
static int64_t largest_read(pw *p, ex e) {
  u32vec l = {0};
  int64_t best = 1, n;
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++)
    if (nd_count(&xt(p->m, exn(p->m, l.v[i])->tensor)->data, &n)) best = max64(best, n);
  return best;
}
/* top-down: the largest constant parts are taken first */
static void find_parts(folder *f, ex e, map *seen) {
  pw *p = f->p;
  uint64_t x;
  if (!e || map_getu(seen, e, &x)) return;
  map_putu(seen, e, 1);
  ex_node n = *exn(p->m, e);
  uint32_t fl = ex_flags(p, e);
  if (!(fl & EXF_LOAD) || n.kind == EX_LOAD || n.kind == EX_INDEX) {
    if (n.kind == EX_LOAD) find_parts(f, n.otherwise, seen);
    return;
  }
  if (n.kind == EX_OP && !(fl & EXF_REDUCE) && !map_getu(p->exact, f->s, &x) &&
      !(n.op == OP_CAST && exn(p->m, n.args[0])->kind == EX_LOAD) && const_value(p, e)) {
    u32vec vars = {0};
    int64_t points;
    expr_vars(p->m, e, p->a, &vars);
    digit *d = NEWN(p->a, digit, vars.n + 1);
    for (uint32_t i = 0; i < vars.n; i++) d[i] = (digit){vars.v[i], sym_extent(p->c, vars.v[i])};
    if (points_of(p, d, vars.n, &points) && (points <= 4096 || points <= 4 * largest_read(p, e)) &&
        loads_in_range(p, e) && pass_spend(p)) {
      ex r = const_make(p, f->s, vars.v, vars.n, e);
      if (r) {
        map_putu(f->by, e, r);
        f->any = true;
        return;
      }
    }
  }
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) find_parts(f, n.args[i], seen);
  if (n.kind == EX_REDUCE) find_parts(f, n.where, seen), find_parts(f, n.body, seen), find_parts(f, n.payload, seen);
}
static ex part_node(void *env, emodule *m, ex e) {
  uint64_t to;
  (void)m;
  return map_getu(env, e, &to) ? (ex)to : e;
}
static bool const_stage(pw *p, uint32_t s) {
  emodule *m = p->m;
  const stage *x = xs(m, s);
  const tensor *t = xt(m, x->tensor);
  if (x->recurrence || t->type == ET_STR) return false;
  for (uint32_t i = 0; i < t->rank; i++)
    if (!sym_is_int(p->c, t->shape[i], NULL)) return false;
  const u32vec *l = stage_loads(p, s);
  for (uint32_t i = 0; i < l->n; i++)
    if (xt(m, exn(m, l->v[i])->tensor)->kind != TK_CONST) return false;
  if (!const_value(p, x->value)) return false;
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    if (!const_value(p, u->value) || !const_value(p, u->cond)) return false;
    for (uint32_t k = 0; k < u->nidx; k++)
      if (sym_uses_kind(p->c, u->idx[k], AT_SYMBOL)) return false;
    for (uint32_t k = 0; k < u->nvars; k++)
      if (!sym_is_int(p->c, sym_extent(p->c, u->vars[k]), NULL)) return false;
  }
  return true;
}
static bool small_enough(pw *p, uint32_t s) {
  int64_t n, total, k, w;
  const stage *x = xs(p->m, s);
  if (!sym_is_int(p->c, stage_points(p->m, s), &n) || n > MAX_ELEMS) return false;
  const int64_t most = et_bytes(xt(p->m, x->tensor)->type) == 1 ? MAX_LARGE : MAX_WORK;
  total = n;
  if (x->value && !fits(p, x->value, n, most)) return false;
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    w = work_of(p, u->value, map_new(p->a)) + 1;
    for (uint32_t j = 0; j < u->nvars; j++)
      if (!sym_is_int(p->c, sym_extent(p->c, u->vars[j]), &k) || !mul64(w, k, &w)) return false;
    total += w;
  }
  return total <= MAX_WORK;
}
static bool from_floats(pw *p, ex e) { /* Is it a whole number that floats compute? */
  const ex_node *n = exn(p->m, e);
  if (n->kind != EX_OP) return false;
  if (n->op == OP_CAST && et_kind(n->type) == K_INT && et_kind(exn(p->m, n->args[0])->type) == K_FLOAT) return true;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (from_floats(p, n->args[i])) return true;
  return false;
}
bool cheap_formula(pw *p, ex e) {
  if (ex_flags(p, e) & (EXF_LOAD | EXF_REDUCE)) return false;
  return exn(p->m, e)->kind <= EX_INDEX || (expr_cost(p->m, e) <= 8 && !from_floats(p, e));
}
/* large movement of a constant: a view's business. A formula: too. */
static bool left_to_views(pw *p, uint32_t s) {
  const stage *x = xs(p->m, s);
  int64_t n;
  if (!x->value || x->updates.n || p->last_round || p->pinned.v[x->tensor]) return false;
  ex_node v = *exn(p->m, x->value);
  if (!(ex_flags(p, x->value) & (EXF_LOAD | EXF_REDUCE))) return cheap_formula(p, x->value);
  return v.kind == EX_LOAD && !v.otherwise && !(ex_flags(p, x->value) & EXF_DATA) &&
         sym_is_int(p->c, stage_points(p->m, s), &n) && n > 4096;
}
static bool fold_stage(pw *p, uint32_t s) {
  emodule *m = p->m;
  ndarray out;
  if (!const_stage(p, s) || left_to_views(p, s) || !small_enough(p, s) || !pass_spend(p)) return false;
  if (!expr_eval_stage(m, s, m->a, &out)) return false;
  /* planted fault: the first element is lost */
  if (EK_PLANTED("fold")) memset((void *)out.data, 0, (size_t)et_bytes(out.type));
  cool(p, xs(m, s)->value);
  tid t = xs(m, s)->tensor;
  pass_kill(p, s);
  xt(m, t)->kind = TK_CONST, xt(m, t)->data = out;
  expr_narrow(m, t);
  p->const_epoch++;
  return true;
}
bool pass_fold(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  uint8_t *stale = NEWN(p->a, uint8_t, m->stages.n + 1);
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    if (stale[s]) simplify_stage(p, s); /* an input became a constant */
    u32vec *r = &p->readers.v[xs(m, s)->tensor];
    if (fold_stage(p, s)) {
      any = true;
      for (uint32_t k = 0; k < r->n; k++)
        if (r->v[k] <= m->stages.n) stale[r->v[k]] = 1;
      continue;
    }
    bool has_const = false;
    const u32vec *l = stage_loads(p, s);
    for (uint32_t k = 0; k < l->n; k++) has_const |= xt(m, exn(m, l->v[k])->tensor)->kind == TK_CONST;
    if (!has_const || xs(m, s)->updates.n || !xs(m, s)->value) continue;
    folder f = {.p = p, .s = s, .by = map_new(p->a)};
    find_parts(&f, xs(m, s)->value, map_new(p->a));
    if (!f.any) continue;
    ex v = expr_rewrite(m, xs(m, s)->value, &(ex_map){.node = part_node, .env = f.by});
    xs(m, s)->value = simplify(p, v);
    pass_changed(p, s);
    any = true;
  }
  if (any) pass_flush(p);
  return any;
}
