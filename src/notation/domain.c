/* domain: which values may data have? `J: I[q...] in -n .. n` in a signature says it of a whole input, the
 * statement `require J[q..., j] in lo .. hi for q...` of some places.
 *
 * What is said is proved from what computes the value (expr_bounds), or becomes a check of the module: the first
 * place that is not allowed, a minimum over all places, and the value there.
 * Afterwards whoever reads with such an index may rely on the range. */
#include "notation/elab.h"
#include <string.h>

/* A condition on data: lo <= value < hi at all points of vars where cond holds (0: always). */
typedef struct domain {
  ex value;         /* the value, i64 */
  ex cond;          /* where it counts; 0: everywhere */
  sz lo;            /* least allowed value */
  sz hi;            /* exclusive upper bound */
  const atom *vars; /* variables of the points */
  uint32_t nvars;   /* number of variables */
  const char *text; /* what the value is */
} domain;

/* There are points: no extent is 0, and a late size is at most its bound. */
static void assume_points(el *x, const domain *d) {
  for (uint32_t i = 0; i < d->nvars; i++) {
    sz n = sym_extent(x->c, d->vars[i]);
    sym_push(x->c, sym_addi(x->c, n, -1));
    for (uint32_t j = 0; j < x->m->lates.n; j++) {
      const late *l = &x->m->lates.v[j];
      if (sym_uses(x->c, n, l->symbol)) sym_push(x->c, sym_sub(x->c, l->bound, sym_of_atom(x->c, l->symbol)));
    }
  }
}
/* e < limit, or e > limit, where each arm of a maximum (minimum) is */
static bool beyond(el *x, sz e, sz limit, bool less) {
  atom a;
  sz arm[3];
  if (less ? sym_lt(x->c, e, limit) : sym_lt(x->c, limit, e)) return true;
  return sym_is_atom(x->c, e, &a) && sym_kind(x->c, a) == (less ? AT_MAX : AT_MIN) && sym_args(x->c, a, arm) == 2 &&
         beyond(x, arm[0], limit, less) && beyond(x, arm[1], limit, less);
}
static bool proved(el *x, const domain *d) {
  sz lo, hi;
  for (uint32_t i = 0; i < d->nvars; i++) /* no point: nothing is to be checked */
    if (sym_ge0(x->c, sym_neg(x->c, sym_extent(x->c, d->vars[i])))) return true;
  uint32_t mark = sym_mark(x->c);
  assume_points(x, d);
  expr_bounds(x->m, d->value, x->blk, &lo, &hi);
  bool yes = lo && hi && beyond(x, lo, sym_addi(x->c, d->lo, -1), false) && beyond(x, hi, d->hi, true);
  sym_pop(x->c, mark);
  return yes;
}
/* Where a value stands: in the tensor that it is read from, or else among the points. */
typedef struct places {
  tid of;          /* the tensor; 0: the points */
  uint32_t n;      /* number of axes */
  const sz *dims;  /* size of each axis */
  const sz *index; /* place on each axis */
} places;
/* Do the indices of a load name all variables, each alone? */
static bool names_all(el *x, const domain *d, const ex_node *load) {
  uint32_t named = 0;
  for (uint32_t i = 0; i < load->nargs; i++) {
    atom v;
    if (!sym_uses_kind(x->c, load->args[i], AT_VAR)) continue;
    if (!sym_is_atom(x->c, load->args[i], &v)) return false;
    for (uint32_t j = 0; j < d->nvars; j++) named += d->vars[j] == v;
  }
  return named == d->nvars;
}
static places where(el *x, const domain *d) {
  const ex_node *n = exn(x->m, d->value);
  while (n->kind == EX_OP && n->op == OP_CAST) n = exn(x->m, n->args[0]);
  if (n->kind == EX_LOAD && !n->otherwise && names_all(x, d, n))
    return (places){n->tensor, n->nargs, xt(x->m, n->tensor)->shape, n->args};
  sz *dims = NEWN(x->m->a, sz, d->nvars + 1), *index = NEWN(x->m->a, sz, d->nvars + 1);
  for (uint32_t i = 0; i < d->nvars; i++)
    dims[i] = sym_extent(x->c, d->vars[i]), index[i] = sym_of_atom(x->c, d->vars[i]);
  return (places){0, d->nvars, dims, index};
}
/* every element of the tensor, each at a point of its own */
static bool whole(el *x, const domain *d, const places *p) {
  bool all = p->of && !d->cond;
  for (uint32_t i = 0; all && i < p->n; i++) {
    atom v;
    all = sym_int_or(x->c, p->dims[i], 0) == 1 ||
          (sym_is_atom(x->c, p->index[i], &v) && sym_kind(x->c, v) == AT_VAR && sym_extent(x->c, v) == p->dims[i]);
    for (uint32_t j = 0; all && j < i; j++) all = p->index[j] != p->index[i] || p->index[i] == sym_int(x->c, 0);
  }
  return all;
}
static ex in_range(el *x, const domain *d) {
  emodule *m = x->m;
  return expr_op2(m, OP_AND, expr_op2(m, OP_GE, d->value, expr_index(m, d->lo)),
                  expr_op2(m, OP_LT, d->value, expr_index(m, d->hi)));
}
static tid scalar_stage(el *x, const char *name, ex value) {
  nten *t = new_tensor(x, name, ET_I64, NULL, 0);
  add_stage(x, t, NULL, 0, value);
  return t->t;
}
/* the first place whose value is not allowed */
static tid first_place(el *x, const domain *d, const places *p) {
  emodule *m = x->m;
  sz flat = sym_int(x->c, 0);
  for (uint32_t i = 0; i < p->n; i++) flat = sym_add(x->c, sym_mul(x->c, flat, p->dims[i]), p->index[i]);
  ex good = in_range(x, d), none = expr_i(m, ET_I64, EXPR_NOWHERE);
  if (d->cond) good = expr_op2(m, OP_OR, expr_op1(m, OP_NOT, d->cond), good);
  ex at = expr_sel(m, good, none, expr_index(m, flat));
  if (d->nvars) at = expr_reduce(m, RED_MIN, d->vars, d->nvars, 0, at, 0, ET_I64, ET_I64);
  return scalar_stage(x, "at", at);
}
typedef struct digits {
  const sz *index; /* indices of the places: variables, or what is not one */
  const sz *by;    /* what stands for each */
  uint32_t n;      /* number of places */
} digits;
static sz digit_of_place(void *env, emodule *m, atom a) {
  const digits *k = env;
  atom v;
  for (uint32_t i = 0; i < k->n; i++)
    if (sym_is_atom(m->c, k->index[i], &v) && v == a) return k->by[i];
  return 0;
}
static tid value_there(el *x, const domain *d, const places *p, tid at) {
  ex place = expr_load(x->m, at, NULL, 0, 0);
  sz by[MAX_RANK], rest = expr_as_size(x->m, place);
  for (uint32_t i = p->n; i-- > 0;) {
    /* EXPR_NOWHERE, which is not read there, must not overflow in an index that is known when compiling */
    by[i] = i ? sym_mod(x->c, rest, p->dims[i]) : sym_min(x->c, rest, sym_addi(x->c, p->dims[i], -1));
    if (i) rest = sym_div(x->c, rest, p->dims[i]);
  }
  digits k = {p->index, by, p->n};
  ex_map f = {NULL, digit_of_place, &k};
  ex there = expr_fresh(x->m, expr_rewrite(x->m, d->value, &f)),
     none = expr_op2(x->m, OP_EQ, place, expr_i(x->m, ET_I64, EXPR_NOWHERE));
  return scalar_stage(x, "value", expr_sel(x->m, none, expr_i(x->m, ET_I64, 0), there));
}
static void check_domain(el *x, const domain *d) {
  emodule *m = x->m;
  if (x->unchecked || proved(x, d) || EK_PLANTED("domain")) return;
  places p = where(x, d);
  value_check k = {.ndims = p.n, .dims = p.dims, .lo = d->lo, .hi = d->hi, .node = x->node, .block = x->blk};
  k.text = d->text, k.of = whole(x, d, &p) ? p.of : 0;
  k.at = first_place(x, d, &p);
  k.value = value_there(x, d, &p, k.at);
  vec_push(m->a, m->checks, k);
}

/* ---- what definitions say -------------------------------------------------------------------- */
void require_contract(el *x, nten *t) {
  emodule *m = x->m;
  etype kind = t->type;
  sz idx[MAX_RANK];
  u32vec vars = {0};
  if (!t->t || (et_kind(kind) != K_INT && et_kind(kind) != K_UINT)) return;
  for (uint32_t i = 0; i < t->rank; i++) {
    atom v;
    idx[i] = sym_var(x->c, arena_fmt(x->a, "q%u", i), sym_canon(x->c, t->shape[i]));
    if (sym_is_atom(x->c, idx[i], &v) && sym_kind(x->c, v) == AT_VAR) vec_push(m->a, vars, v);
  }
  check_domain(x, &(domain){.value = expr_cast(m, ET_I64, expr_load(m, t->t, idx, t->rank, 0)),
                            .lo = t->lo,
                            .hi = t->hi,
                            .vars = vars.v,
                            .nvars = vars.n,
                            .text = arena_fmt(m->a, "%s: index", x->op)});
}
/* A size that the run finds is data, too; 0: it is none. */
static ex found_value(el *x, sz s) {
  atom a;
  if (!sym_is_atom(x->c, s, &a)) return 0;
  for (uint32_t i = 0; i < x->m->lates.n; i++)
    if (x->m->lates.v[i].symbol == a) return expr_load(x->m, x->m->lates.v[i].tensor, NULL, 0, 0);
  return 0;
}
static void require_range(el *x, const stmt *s, val v, const bound *bd, ex cond, sz lo, sz hi) {
  emodule *m = x->m;
  if (v.kind == V_LIST) {
    for (uint32_t i = 0; i < v.p.l->n; i++) require_range(x, s, v.p.l->v[i], bd, cond, lo, hi);
    return;
  }
  const char *what = s->text ? s->text : "index",
             *text = strchr(what, ':') ? what : arena_fmt(m->a, "%s: %s", x->op, what);
  ex found = v.kind == V_SIZE ? found_value(x, sym_canon(x->c, v.s)) : 0;
  if (found) v = v_ex(found);
  if (v.kind == V_SIZE && !sym_uses_kind(x->c, v.s, AT_VAR) && !sym_uses_kind(x->c, v.s, AT_DATA) && !cond) {
    text = arena_fmt(m->a, "%s %s is out of range %s..%s", text, sym_str(x->c, v.s), sym_str(x->c, lo),
                     sym_str(x->c, sym_addi(x->c, hi, -1)));
    guard_ge0(x, sym_sub(x->c, v.s, lo), false, text);
    guard_ge0(x, sym_addi(x->c, sym_sub(x->c, hi, v.s), -1), false, text);
    return;
  }
  etype t = v_etype(x, v);
  if (v.kind == V_SIZE) v = v_ex(expr_index(m, v.s)), t = ET_I64;
  if (v.kind != V_EX || v.str || (et_kind(t) != K_INT && et_kind(t) != K_UINT))
    el_fail(x, E_SHAPE, s->line, s->col, "what lies in a range is an integer, not %s", v_describe(x, v));
  if (bd->vars.n > MAX_RANK) el_fail(x, E_UNSUPPORTED, s->line, s->col, "at most %d indices are checked", MAX_RANK);
  check_domain(x, &(domain){.value = expr_cast(m, ET_I64, v.e),
                            .cond = cond,
                            .lo = lo,
                            .hi = hi,
                            .vars = bd->vars.v,
                            .nvars = bd->vars.n,
                            .text = text});
}
void require_values(el *x, const stmt *s) {
  bound bd;
  VEC(const ast *) exprs = {0};
  sz lo = v_need_size(x, ev_static(x, s->list[0]), s->list[0], "the lower bound of the data"),
     hi = v_need_size(x, ev_static(x, s->list[1]), s->list[1], "the upper bound of the data");
  vec_push(x->a, exprs, s->e);
  if (s->cond) vec_push(x->a, exprs, s->cond);
  bind_all(x, s->b, s->nb, exprs.v, exprs.n, &bd);
  val cond = s->cond ? ev(x, s->cond) : v_bool(true);
  if (cond.kind != V_BOOL && !(cond.kind == V_EX && exn(x->m, cond.e)->type == ET_BOOL))
    el_fail(x, E_SHAPE, s->line, s->col, "`if` needs a condition, not %s", v_describe(x, cond));
  condmark mark = {0};
  if (cond.kind == V_EX) mark = cond_push(x, cond.e, true);
  val v = ev(x, s->e);
  if (cond.kind == V_EX) cond_pop(x, mark);
  unbind(x, &bd);
  if (cond.kind == V_BOOL && !cond.b) return;
  require_range(x, s, v, &bd, cond.kind == V_EX ? cond.e : 0, lo, hi);
}
