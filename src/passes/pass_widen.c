/* In which type is narrow arithmetic done?
 *
 * A narrow element type (f16, bf16; pw.widen is the set) says how a tensor is stored, not how exact its values may be:
 * they are computed and kept in f32. Every narrow value has a twin in f32. A *soft* value is the rounding of its twin,
 * and whoever reads it takes the twin instead; a *hard* one is exactly representable (loaded from a narrow tensor, a
 * constant, picked from hard ones by min, max, select, ..) and its twin is its conversion. A stage with a soft value
 * gets an f32 tensor. So precision only grows, and what is only moved stays as narrow as it was: constants and inputs
 * are converted where they are read (constants at once for a target that has no instruction for it).
 *
 * What stays a rounding: inputs, constants, outputs, results of branches, carried values; what a stage of another type
 * than a float reads (a comparison, an index, a conversion to integers), for what it says has steps; and a conversion
 * there and back, in one value or as two stages, which has no other meaning. Who reads one of these reads what is
 * stored: an output shows the very values that the others go on with. Only what is written step by step is the copy
 * of a wide tensor, which the steps read.
 *
 * Runs first, on stages as they were written: a conversion then stands where its author put it. Needs nothing.
 */
#include "passes/pass.h"

static const etype WIDE = ET_F32;

typedef struct widener {
  pw *p;          /* the run of passes */
  emodule *m;     /* the module */
  map *soft;      /* narrow value -> its twin, where it is not exact */
  map *asked;     /* narrow value -> the stage + 1 in which it is an explicit conversion */
  map *wide;      /* narrow tensor -> the one that is kept instead */
  map *bare;      /* narrow tensors that are the conversion of another, and nothing else */
  uint32_t stage; /* the stage that is looked at */
  bool back;      /* the stage is a conversion and nothing else */
} widener;

static bool narrow(const widener *w, etype t) { return w->p->widen >> t & 1; }
static bool is_soft(const widener *w, ex e) { return map_getu(w->soft, e, &(uint64_t){0}); }
static ex twin(widener *w, ex e) {
  uint64_t x;
  if (map_getu(w->soft, e, &x)) return (ex)x;
  ex_node n = *exn(w->m, e);
  return n.kind == EX_CONST ? expr_const(w->m, WIDE, n.k) : expr_cast(w->m, WIDE, e);
}
static ex soften(widener *w, etype t, ex wide) {
  ex r = expr_cast(w->m, t, wide);
  map_putu(w->soft, r, wide);
  return r;
}
static ex widen_cast(widener *w, ex e) {
  emodule *m = w->m;
  ex_node n = *exn(m, e);
  uint64_t s;
  bool from = narrow(w, exn(m, n.args[0])->type);
  if (narrow(w, n.type)) {
    ex r = soften(w, n.type, from ? twin(w, n.args[0]) : expr_cast(m, WIDE, n.args[0]));
    map_putu(w->asked, r, w->stage + 1);
    return r;
  }
  if (!is_soft(w, n.args[0]) ||
      (et_kind(n.type) == K_FLOAT && !EK_PLANTED("widen") && map_getu(w->asked, n.args[0], &s) && s == w->stage + 1))
    return e;
  return expr_cast(m, n.type, twin(w, n.args[0]));
}
static ex widen_op(widener *w, ex e) {
  emodule *m = w->m;
  ex_node n = *exn(m, e);
  ex a[3];
  bool to = narrow(w, n.type), from = false, any_soft = false;
  for (uint32_t i = 0; i < n.nargs; i++) {
    from |= narrow(w, exn(m, n.args[i])->type);
    any_soft |= is_soft(w, n.args[i]);
  }
  switch ((sop)n.op) {
  case OP_BITCAST: /* the operation is about the bits of the narrow type */
  case OP_NEXTAFTER:
    return e;
  case OP_CAST:
    return widen_cast(w, e);
  case OP_SAT: /* the operation is about the range of the type converted to */
  case OP_SATF:
    if (to || !any_soft) return e;
    break;
  case OP_NEG: /* the operation is exact on exact values */
  case OP_ABS:
  case OP_SIGN:
  case OP_MIN:
  case OP_MAX:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_ROUND_EVEN:
  case OP_TRUNC:
  case OP_SEL:
    if (!any_soft) return e;
    break;
  default:
    if (!from || (!to && !any_soft)) return e;
    break;
  }
  for (uint32_t i = 0; i < n.nargs; i++) a[i] = narrow(w, exn(m, n.args[i])->type) ? twin(w, n.args[i]) : n.args[i];
  ex r = expr_op(m, n.op, to ? WIDE : n.type, a, n.nargs);
  return to ? soften(w, n.type, r) : r;
}
static ex widen_reduce(widener *w, ex e) {
  emodule *m = w->m;
  ex_node n = *exn(m, e);
  etype bt = exn(m, n.body)->type;
  /* the reduction is exact on exact values */
  bool picks = red_is_arg(n.op) || n.op == RED_MAX || n.op == RED_MIN;
  if (!narrow(w, bt) && !narrow(w, n.type) && !narrow(w, n.acc)) return e;
  if (picks && !is_soft(w, n.body) && (red_is_arg(n.op) || n.type == bt)) return e;
  ex r = expr_reduce(m, n.op, n.args, n.nargs, n.where, narrow(w, bt) ? twin(w, n.body) : n.body, n.payload,
                     narrow(w, n.acc) ? WIDE : n.acc, narrow(w, n.type) ? WIDE : n.type);
  return narrow(w, n.type) ? soften(w, n.type, r) : r;
}
/* A constant in f32, where the target would take many operations for each value. */
static tid converted(widener *w, tid t) {
  emodule *m = w->m;
  tensor x = *xt(m, t);
  int64_t n;
  if (!w->p->convert || x.kind != TK_CONST || x.type != ET_F16 || !narrow(w, x.type) || !x.data.data ||
      !nd_count(&x.data, &n))
    return 0;
  float *to = arena_alloc(m->a, (size_t)n * sizeof *to + 1);
  for (int64_t i = 0; i < n; i++) to[i] = (float)et_load(x.type, (const uint8_t *)x.data.data + i * et_bytes(x.type)).f;
  x.data.type = WIDE, x.data.data = to, x.data.bytes = (size_t)n * sizeof *to, x.data.file = NULL;
  tid r = expr_const_tensor(m, &x.data, x.name);
  map_putu(w->wide, t, r);
  return r;
}
/* Is it stored as its type says, for whoever reads it? */
static bool is_stored(const widener *w, tid t) {
  const pw *p = w->p;
  if (p->pinned.v[t]) return true;
  for (uint32_t i = 0; i < p->readers.v[t].n; i++)
    if (et_kind(xt(w->m, xs(w->m, p->readers.v[t].v[i])->tensor)->type) != K_FLOAT) return !EK_PLANTED("widen-stored");
  return false;
}
/* Does this stage read what is stored, not the wide tensor beside it? Steps of the same recurrence do not. */
static bool reads_stored(const widener *w, tid t, tid wide) {
  const tensor *x = xt(w->m, wide);
  return x->kind == TK_STAGE && is_stored(w, t) &&
         (!xs(w->m, x->stage)->recurrence || xs(w->m, x->stage)->recurrence != xs(w->m, w->stage)->recurrence);
}
static ex widen_node(void *env, emodule *m, ex e) {
  widener *w = env;
  ex_node n = *exn(m, e);
  uint64_t t = 0;
  if (n.kind == EX_OP) return widen_op(w, e);
  if (n.kind == EX_REDUCE) return widen_reduce(w, e);
  if (n.kind != EX_LOAD) return e;
  if (!map_getu(w->wide, n.tensor, &t) && !(t = converted(w, n.tensor))) return e;
  if (reads_stored(w, n.tensor, (tid)t)) return e;
  ex otherwise = n.otherwise ? twin(w, n.otherwise) : 0;
  ex r = soften(w, n.type, expr_load(m, (tid)t, n.args, n.nargs, otherwise));
  if (w->back && map_getu(w->bare, n.tensor, &(uint64_t){0})) map_putu(w->asked, r, w->stage + 1);
  return r;
}

/* ---- stages ---------------------------------------------------------------------------------- */
static tid wide_tensor(widener *w, uint32_t s) {
  emodule *m = w->m;
  tid t = xs(m, s)->tensor;
  tensor x = *xt(m, t);
  tid r = expr_tensor(m, TK_STAGE, WIDE, x.shape, x.rank, x.name, x.origin);
  xt(m, r)->stage = s;
  map_putu(w->wide, t, r);
  return r;
}
/* The stage's own tensor becomes a rounded copy; its work is a new stage's. */
static void round_copy(widener *w, uint32_t s, tid wide) {
  emodule *m = w->m;
  stage x = *xs(m, s);
  sz idx[MAX_RANK];
  axis *axes = NEWN(m->a, axis, x.naxes + 1);
  for (uint32_t i = 0; i < x.naxes; i++) {
    digit *d = NEWN(m->a, digit, x.axes[i].n + 1);
    for (uint32_t k = 0; k < x.axes[i].n; k++) {
      d[k].extent = x.axes[i].d[k].extent;
      sym_is_atom(m->c, sym_var(m->c, sym_name(m->c, x.axes[i].d[k].var), d[k].extent), &d[k].var);
    }
    axes[i] = (axis){x.axes[i].n, d};
    idx[i] = expr_axis_index(m, &axes[i]);
  }
  vec_push(m->a, m->stages, x);
  uint32_t made = m->stages.n - 1;
  xs(m, made)->tensor = wide;
  xt(m, wide)->stage = made;
  xs(m, s)->axes = axes;
  xs(m, s)->value = expr_cast(m, xt(m, x.tensor)->type, expr_load(m, wide, idx, x.naxes, 0));
  xs(m, s)->updates.v = NULL, xs(m, s)->updates.n = xs(m, s)->updates.cap = 0;
  xs(m, s)->tiled = false, xs(m, s)->recurrence = 0;
  vec_push(w->p->keep, w->p->pend, ((pending){s, made}));
}
static void keep_wide(widener *w, uint32_t s, tid wide) {
  emodule *m = w->m;
  stage *x = xs(m, s);
  tid t = x->tensor;
  if (x->value) {
    ex v = twin(w, x->value);
    xs(m, s)->value = v;
  }
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) {
    ex v = twin(w, xs(m, s)->updates.v[i].value);
    xs(m, s)->updates.v[i].value = v;
  }
  if (is_stored(w, t)) {
    round_copy(w, s, wide);
    return;
  }
  const char *name = xt(m, t)->name;
  xt(m, t)->name = xt(m, wide)->name, xt(m, wide)->name = name;
  xs(m, s)->tensor = wide;
}
static bool is_conversion(const emodule *m, ex e) {
  const ex_node *n = exn(m, e);
  return n->kind == EX_OP && n->op == OP_CAST && exn(m, n->args[0])->kind == EX_LOAD;
}
static bool widen_stage(widener *w, uint32_t s) {
  emodule *m = w->m;
  pw *p = w->p;
  uint64_t made;
  bool reads = false;
  const u32vec *l = stage_loads(p, s);
  for (uint32_t i = 0; i < l->n; i++) reads |= map_getu(w->wide, exn(m, l->v[i])->tensor, &made);
  tid t = xs(m, s)->tensor;
  bool declared = map_getu(w->wide, t, &made);
  if (!reads && !declared && p->fuel && p->spent >= p->fuel) return false;
  ex before = xs(m, s)->value;
  w->stage = s, w->back = before && is_conversion(m, before);
  if (w->back && narrow(w, xt(m, t)->type)) map_putu(w->bare, t, 1);
  stage_rewrite(m, s, &(ex_map){.node = widen_node, .env = w});
  const stage *x = xs(m, s);
  if (!narrow(w, xt(m, t)->type)) return before != x->value || x->updates.n;
  bool rounds = x->value && is_soft(w, x->value);
  for (uint32_t i = 0; i < x->updates.n; i++)
    rounds |= is_soft(w, x->updates.v[i].value) || x->updates.v[i].op == OP_ADD || x->updates.v[i].op == OP_MUL;
  if (!declared && (!rounds || (is_stored(w, t) && !x->updates.n) || !pass_spend(p)))
    return before != x->value || x->updates.n;
  keep_wide(w, s, declared ? (tid)made : wide_tensor(w, s));
  return true;
}
bool pass_widen(pw *p) {
  emodule *m = p->m;
  widener w = {p, m, map_new(p->a), map_new(p->a), map_new(p->a), map_new(p->a), 0, false};
  u32vec order = {0};
  bool any = false;
  for (tid t = 1; t < m->tensors.n; t++) any |= narrow(&w, xt(m, t)->type);
  if (!any) return false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) /* stages of a recurrence read what stands behind them */
    if (xs(m, order.v[i])->recurrence && narrow(&w, xt(m, xs(m, order.v[i])->tensor)->type) && pass_spend(p))
      wide_tensor(&w, order.v[i]);
  any = false;
  for (uint32_t i = 0; i < order.n; i++) any |= widen_stage(&w, order.v[i]);
  pass_flush(p);
  pass_index(p);
  return any;
}
