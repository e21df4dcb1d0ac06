/* What is there to compute for a value, once sizes are numbers?
 *
 * The plan is the value's DAG with three things settled: symbols are replaced by their numbers, index polynomials are
 * nodes of scalar arithmetic over the variables, and each node knows whether it differs between lanes, which loop
 * variables it depends on, and whether it can fail. The index of an access is kept as a part that differs between lanes
 * and one that does not, so that only the latter is computed again inside a reduction. Equal nodes are made once. Runs
 * in one thread, before the strips: it uses the sym room, the strips do not.
 */
#include "eval/eval_in.h"
#include <string.h>

void plan_begin(planner *pl, evaluation *v, arena *a, plan *p, const char *stage, const char *origin) {
  *p = (plan){.stage = stage, .origin = origin};
  *pl = (planner){v, a, p, map_new(a), map_new(a), map_new(a)};
  vec_push(a, p->nodes, ((pnode){0}));
}

static const pnode *at(planner *pl, uint32_t n) { return &pl->p->nodes.v[n]; }
static uint32_t add(planner *pl, pnode n) {
  vec_push(pl->a, pl->p->nodes, n);
  return pl->p->nodes.n - 1;
}
/* Appends what is new to the n numbers at *to; returns how many there are then. */
static uint32_t join(planner *pl, const uint32_t **to, uint32_t n, const uint32_t *more, uint32_t nmore) {
  u32vec all = {(uint32_t *)(uintptr_t)*to, n, n};
  for (uint32_t i = 0; i < nmore; i++)
    if (!vec_has(&all, more[i])) vec_push(pl->a, all, more[i]);
  *to = all.v;
  return all.n;
}
/* What an operand depends on, its user depends on, too. */
static void from(planner *pl, pnode *n, uint32_t op) {
  if (!op) return;
  const pnode *o = at(pl, op);
  n->lanes |= o->lanes;
  n->total &= o->total;
  n->ndeps = join(pl, &n->deps, n->ndeps, o->deps, o->ndeps);
  n->nlane_deps = join(pl, &n->lane_deps, n->nlane_deps, o->lane_deps, o->nlane_deps);
}
static uint32_t constant(planner *pl, etype t, scalar k) {
  return add(pl, (pnode){.kind = PN_CONST, .type = t, .k = k, .total = true});
}
static uint32_t constant_i(planner *pl, int64_t x) { return constant(pl, ET_I64, (scalar){.i = x}); }
static bool is_const(planner *pl, uint32_t n, int64_t *x) {
  if (at(pl, n)->kind != PN_CONST) return false;
  *x = at(pl, n)->k.i;
  return true;
}
static uint32_t *copy(planner *pl, const uint32_t *v, uint32_t n) {
  return n ? arena_dup(pl->a, v, n * sizeof *v) : NULL;
}

/* ---- variables ------------------------------------------------------------------------------- */
uint32_t plan_lane(planner *pl, atom var, int64_t extent) {
  vec_push(pl->a, pl->p->lane_names, sym_name(pl->v->c, var));
  vec_push(pl->a, pl->p->lane_extents, extent);
  uint32_t slot = pl->p->lane_names.n - 1;
  pnode n = {.kind = PN_LANE, .type = ET_I64, .slot = slot, .lanes = true, .total = true};
  n.lane_deps = copy(pl, &slot, 1), n.nlane_deps = 1;
  map_putu(pl->atoms, var, add(pl, n));
  return slot;
}
uint32_t plan_loop(planner *pl, atom var, int64_t extent) {
  uint64_t known;
  if (map_getu(pl->atoms, var, &known) && at(pl, (uint32_t)known)->kind == PN_LOOP)
    return at(pl, (uint32_t)known)->slot;
  vec_push(pl->a, pl->p->loop_names, sym_name(pl->v->c, var));
  vec_push(pl->a, pl->p->loop_extents, extent);
  uint32_t slot = pl->p->loop_names.n - 1;
  pnode n = {.kind = PN_LOOP, .type = ET_I64, .slot = slot, .total = true};
  n.deps = copy(pl, &slot, 1), n.ndeps = 1;
  map_putu(pl->atoms, var, add(pl, n));
  return slot;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static void too_big(planner *pl) {
  diag_error(pl->v->c, E_SHAPE, pl->p->origin, "stage %s: an index expression overflows 64 bits for these sizes",
             pl->p->stage);
  ctx_unwind(pl->v->c);
}
static uint32_t plan_atom(planner *pl, atom a) {
  ctx *c = pl->v->c;
  uint64_t known;
  if (map_getu(pl->atoms, a, &known)) return (uint32_t)known;
  uint32_t r = 0;
  sz arg[3];
  switch (sym_kind(c, a)) {
  case AT_VAR:
    ctx_bug(c, "evaluator: stage %s uses variable %s outside its loop", pl->p->stage, sym_name(c, a));
  case AT_SYMBOL: {
    int64_t x;
    sz def;
    if (symbol_value(pl->v, a, &x))
      r = constant_i(pl, x);
    else if (sym_definition(c, a, &def) || (def = sym_canon(c, sym_of_atom(c, a))) != sym_of_atom(c, a))
      r = plan_size(pl, def);
    else {
      diag_error(c, E_SHAPE, pl->p->origin, "stage %s needs the size %s, which no input determines", pl->p->stage,
                 sym_name(c, a));
      ctx_unwind(c);
    }
    break;
  }
  case AT_DATA:
    r = plan_value(pl, sym_data_id(c, a));
    break;
  case AT_DIV:
  case AT_MIN:
  case AT_MAX: {
    atom_kind k = sym_kind(c, a);
    sym_args(c, a, arg);
    uint32_t x[2] = {plan_size(pl, arg[0]), 0};
    int64_t p, q;
    x[1] = plan_size(pl, arg[1]);
    bool folded = is_const(pl, x[0], &p) && is_const(pl, x[1], &q), safe = is_const(pl, x[1], &q) && q != 0;
    if (folded && (k != AT_DIV || q != 0))
      r = constant_i(pl, k == AT_DIV ? floordiv64(p, q) : k == AT_MIN ? min64(p, q) : max64(p, q));
    else {
      pnode n = {.kind = k == AT_DIV ? PN_DIV : PN_MINMAX,
                 .op = k == AT_MAX ? OP_MAX : OP_MIN,
                 .type = ET_I64,
                 .nargs = 2,
                 .total = k != AT_DIV || safe};
      n.args = copy(pl, x, 2);
      from(pl, &n, x[0]), from(pl, &n, x[1]);
      r = add(pl, n);
    }
    break;
  }
  case AT_SEL: {
    int64_t p;
    sym_args(c, a, arg);
    uint32_t x[3] = {plan_size(pl, arg[0])};
    if (is_const(pl, x[0], &p))
      r = plan_size(pl, p >= 0 ? arg[1] : arg[2]);
    else {
      pnode n = {.kind = PN_SELECT, .type = ET_I64, .nargs = 3, .total = true};
      x[1] = plan_size(pl, arg[1]), x[2] = plan_size(pl, arg[2]);
      n.args = copy(pl, x, 3);
      for (int i = 0; i < 3; i++) from(pl, &n, x[i]);
      r = add(pl, n);
    }
    break;
  }
  }
  map_putu(pl->atoms, a, r);
  return r;
}
static uint32_t poly(planner *pl, int64_t k, const term *t, uint32_t n) {
  if (!n) return constant_i(pl, k);
  if (n == 1 && k == 0 && t[0].coef == 1 && t[0].n == 1) return t[0].f[0];
  pnode p = {.kind = PN_POLY, .type = ET_I64, .k = {.i = k}, .nterms = n, .total = true};
  p.terms = arena_dup(pl->a, t, n * sizeof *t);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < t[i].n; j++) from(pl, &p, t[i].f[j]);
  return add(pl, p);
}
/* s as the sum of a node that differs between lanes and one that does not; either may be 0 for nothing (never both). */
typedef struct split {
  uint32_t lanes; /* node that differs between lanes; 0: none */
  uint32_t same;  /* node that does not; 0: none */
} split;
static split plan_split(planner *pl, sz s) {
  ctx *c = pl->v->c;
  uint64_t known;
  if (map_getu(pl->sizes, s, &known)) return (split){(uint32_t)known, (uint32_t)(known >> 32)};
  VEC(term) lanes = {0}, same = {0};
  int64_t k = 0;
  for (uint32_t i = 0; i < sym_nterms(c, s); i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *xp;
    term t = {.coef = sym_term(c, s, i, &na, &as, &xp)};
    u32vec f = {0};
    bool differs = false;
    for (uint32_t j = 0; j < na; j++) {
      uint32_t n = plan_atom(pl, as[j]);
      int64_t x;
      bool fixed = is_const(pl, n, &x);
      differs |= at(pl, n)->lanes;
      for (uint8_t e = 0; e < xp[j]; e++) {
        if (!fixed)
          vec_push(pl->a, f, n);
        else if (!mul64(t.coef, x, &t.coef))
          too_big(pl);
      }
    }
    t.f = f.v, t.n = f.n;
    if (!t.n && !add64(k, t.coef, &k)) too_big(pl);
    if (!t.n || t.coef == 0) continue;
    if (differs)
      vec_push(pl->a, lanes, t);
    else
      vec_push(pl->a, same, t);
  }
  split r = {lanes.n ? poly(pl, 0, lanes.v, lanes.n) : 0, same.n || k || !lanes.n ? poly(pl, k, same.v, same.n) : 0};
  map_putu(pl->sizes, s, r.lanes | (uint64_t)r.same << 32);
  return r;
}
uint32_t plan_size(planner *pl, sz s) {
  split p = plan_split(pl, s);
  if (!p.same || !p.lanes) return p.lanes ? p.lanes : p.same;
  uint64_t known; /* the sum is remembered under the complement of the size's number */
  if (map_getu(pl->sizes, ~(uint64_t)s, &known)) return (uint32_t)known;
  term t[2] = {{1, 1, copy(pl, &p.lanes, 1)}, {1, 1, copy(pl, &p.same, 1)}};
  int64_t k;
  uint32_t r = is_const(pl, p.same, &k) ? poly(pl, k, t, 1) : poly(pl, 0, t, 2);
  map_putu(pl->sizes, ~(uint64_t)s, r);
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
static uint32_t plan_load(planner *pl, const ex_node *e) {
  const ndarray *nd = &rt_of(pl->v, e->tensor)->nd;
  pnode n = {
      .kind = PN_LOAD, .type = e->type, .tensor = e->tensor, .nargs = e->nargs, .total = e->otherwise || !e->nargs};
  uint32_t *args = NEWN(pl->a, uint32_t, 2 * e->nargs + 1);
  VEC(term) flat = {0};
  int64_t stride = 1;
  for (uint32_t i = e->nargs; i-- > 0; stride *= max64(nd->dims[i], 1)) {
    split s = plan_split(pl, e->args[i]);
    args[2 * i] = s.lanes, args[2 * i + 1] = s.same;
    from(pl, &n, s.lanes), from(pl, &n, s.same);
    if (s.lanes) vec_push(pl->a, flat, ((term){stride, 1, copy(pl, &s.lanes, 1)}));
  }
  n.args = args;
  n.flat = flat.n ? poly(pl, 0, flat.v, flat.n) : 0;
  if (e->otherwise) n.otherwise = plan_value(pl, e->otherwise), from(pl, &n, n.otherwise);
  return add(pl, n);
}
static uint32_t plan_reduce(planner *pl, const ex_node *e) {
  pnode n = {.kind = PN_REDUCE, .type = e->type, .op = e->op, .acc = e->acc, .nargs = e->nargs, .total = true};
  uint32_t *vars = NEWN(pl->a, uint32_t, e->nargs + 1), *ext = NEWN(pl->a, uint32_t, e->nargs + 1);
  for (uint32_t i = 0; i < e->nargs; i++) {
    int64_t extent = 0;
    ext[i] = plan_size(pl, sym_extent(pl->v->c, e->args[i]));
    is_const(pl, ext[i], &extent);
    vars[i] = plan_loop(pl, e->args[i], extent);
    if (at(pl, ext[i])->lanes)
      ctx_fail(pl->v->c, E_UNSUPPORTED, "stage %s: the extent of %s depends on an output index", pl->p->stage,
               sym_name(pl->v->c, e->args[i]));
  }
  pnode in = {.total = true};
  n.body = plan_value(pl, e->body);
  from(pl, &in, n.body);
  ex where = e->where;
  for (uint32_t i = 0; i < e->nargs; i++) {
    ex in_range = expr_in_range(pl->v->m, e->args[i]);
    u32vec loads = {0};
    if (!in_range) continue;
    expr_loads(pl->v->m, in_range, pl->a, &loads);
    for (uint32_t k = 0; k < loads.n; k++) need_tensor(pl->v, exn(pl->v->m, loads.v[k])->tensor);
    where = where ? expr_op2(pl->v->m, OP_AND, in_range, where) : in_range;
  }
  if (where) n.where = plan_value(pl, where), from(pl, &in, n.where);
  if (e->payload) n.payload = plan_value(pl, e->payload), from(pl, &in, n.payload);
  n.lanes = in.lanes, n.total = in.total, n.lane_deps = in.lane_deps, n.nlane_deps = in.nlane_deps;
  u32vec deps = {0};
  for (uint32_t i = 0; i < in.ndeps; i++) {
    bool own = false;
    for (uint32_t k = 0; k < e->nargs; k++) own |= vars[k] == in.deps[i];
    if (!own) vec_push(pl->a, deps, in.deps[i]);
  }
  n.deps = deps.v, n.ndeps = deps.n;
  for (uint32_t i = 0; i < e->nargs; i++) from(pl, &n, ext[i]);
  n.vars = vars, n.args = ext;
  n.keys = plan_keys(pl->p, &n);
  return add(pl, n);
}
uint32_t plan_value(planner *pl, ex e) {
  uint64_t known;
  if (map_getu(pl->values, e, &known)) return (uint32_t)known;
  const ex_node n = *exn(pl->v->m, e);
  uint32_t r = 0;
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    r = constant(pl, n.type, n.k);
    break;
  case EX_INDEX:
    r = plan_size(pl, n.index);
    break;
  case EX_LOAD:
    r = plan_load(pl, &n);
    break;
  case EX_REDUCE:
    r = plan_reduce(pl, &n);
    break;
  case EX_OP: {
    uint32_t x[3] = {0};
    pnode p = {.kind = PN_OP, .type = n.type, .op = n.op, .nargs = n.nargs, .total = true};
    for (uint32_t i = 0; i < n.nargs; i++) x[i] = plan_value(pl, n.args[i]), from(pl, &p, x[i]);
    p.args = copy(pl, x, n.nargs);
    r = add(pl, p);
    break;
  }
  }
  map_putu(pl->values, e, r);
  return r;
}
