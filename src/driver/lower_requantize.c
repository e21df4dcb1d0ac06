/* Which part of a state's new value are the codes that were there?
 *
 * A model may keep codes (keys and values in i8) and compute with floats: the new value is a function of each element
 * of a tensor that begins as floats of the old codes, or has these as one of its parts.
 *
 *     all[r, d] = (f32(old[r, d]) - z) * s    for r < P            S[r, d] = old[r, d]      for r < P
 *     all[P + i, d] = new[i, d]               for i < n            S[P + i, d] = f(new[i, d])   for i < n
 *     S[r, d] = f(all[r, d]),  f(x) = sat(i8, round_even(x / s) + z)
 *
 * f moves to the parts, or to what a condition chooses from, and is left out of the old one if it gives each code back.
 * With k = code - z that is so where k * s does not overflow and s is no subnormal: both roundings together, relative
 * ones of 2^-24, move k by less than 1/2, and sat changes no code of its own type. It is so for other formulas, too:
 * scales along an axis, scales of f16, bounds that clamp no code. Therefore nothing is derived from the form: the
 * evaluator computes the function of every code, at every place of the constants that it reads, and each must come back
 * to the bit. A scale or zero point that only the run knows proves nothing.
 *
 * Each element keeps its value, and the state begins as its old value: so others see that few places of it change
 * (lower_state.c, schedule/state.c). Comes before states grow. */
#include "driver/lower_in.h"
#include "eval/eval.h"
#include <string.h>

enum {
  MOST_BITS = 8,        /* of a code */
  MOST_READ = 64,       /* stages between codes and codes */
  MOST_POINTS = 1 << 22 /* values that are computed for a proof */
};
typedef struct requantizing {
  low *L;         /* the lowering */
  emodule *m;     /* the module */
  tid old;        /* the old value of the state */
  uint32_t spent; /* stages that were read through */
  bool *hangs;    /* per tensor: it hangs on the old value; NULL: all stages are read through */
} requantizing;

/* ---- values ----------------------------------------------------------------------------------- */
static ex read_old(void *env, emodule *m, ex e);
/* What a stage computes of one place at a time is read through, down to inputs, constants and updates. */
static ex read_through(void *env, emodule *m, ex e) {
  requantizing *q = env;
  const ex v = exn(m, e)->kind == EX_LOAD && q->spent < MOST_READ ? expr_written_in(m, e) : 0;
  if (!v) return e;
  q->spent++;
  return expr_rewrite(m, v, &(ex_map){.node = q->hangs ? read_old : read_through, .env = q});
}
static ex written_out(requantizing *q, ex e) {
  q->spent = 0;
  return expr_rewrite(q->m, e, &(ex_map){.node = read_through, .env = q});
}
/* The same of those stages alone that hang on the old value. */
static ex read_old(void *env, emodule *m, ex e) {
  requantizing *q = env;
  const ex_node *n = exn(m, e);
  const bool old = n->kind == EX_LOAD && n->tensor != q->old && q->hangs[n->tensor];
  return old ? read_through(env, m, e) : e;
}
/* Marks the tensors that hang on the old value, element by element or by sums. */
static void mark_hanging(requantizing *q) {
  emodule *m = q->m;
  q->hangs = NEWN(q->L->a, bool, m->tensors.n);
  q->hangs[q->old] = true;
  for (uint32_t s = 0; s < m->stages.n; s++) { /* each behind those that it reads */
    u32vec loads = {0};
    expr_stage_loads(m, s, q->L->a, &loads);
    for (uint32_t i = 0; i < loads.n && !xs(m, s)->dead; i++)
      q->hangs[xs(m, s)->tensor] |= q->hangs[exn(m, loads.v[i])->tensor];
  }
}
/* The only load of e that reads no constant; 0: there is none, or several. */
static ex only_load(const requantizing *q, ex e) {
  u32vec all = {0};
  ex one = 0;
  expr_loads(q->m, e, q->L->a, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (xt(q->m, exn(q->m, all.v[i])->tensor)->kind == TK_CONST) continue;
    if (one) return 0;
    one = all.v[i];
  }
  return one && !exn(q->m, one)->otherwise ? one : 0;
}
typedef struct instead {
  ex of; /* a value */
  ex by; /* what stands for it */
} instead;
static ex replaced(void *env, emodule *m, ex e) {
  (void)m;
  const instead *x = env;
  return e == x->of ? x->by : e;
}
static ex with_value(emodule *m, ex e, ex of, ex by) {
  return expr_rewrite(m, e, &(ex_map){.node = replaced, .env = &(instead){of, by}});
}

/* ---- proof ------------------------------------------------------------------------------------ */
/* All codes of a type, in a constant. */
static tid all_codes(low *L, etype t) {
  const uint32_t n = 1u << et_bits(t), w = et_bytes(t);
  const int64_t first = et_kind(t) == K_INT ? -(int64_t)(n / 2) : 0;
  uint8_t *bytes = arena_alloc(L->m->a, (size_t)n * w);
  for (uint32_t i = 0; i < n; i++) et_store(t, bytes + (size_t)i * w, (scalar){.i = first + i});
  return expr_const_tensor(L->m, &(ndarray){.type = t, .rank = 1, .dims = {n}, .data = bytes, .bytes = (size_t)n * w},
                           "codes");
}
/* The values of e over these variables, the last one innermost; false: they are too many, or not constant. */
static bool values_over(low *L, ex e, const atom *vars, uint32_t n, ndarray *out) {
  emodule *m = L->m;
  int64_t points = 1, extent;
  sz *shape = NEWN(L->a, sz, n + 1), at[MAX_RANK];
  for (uint32_t i = 0; i < n; i++) {
    shape[i] = sym_extent(L->c, vars[i]);
    if (!sym_is_int(L->c, shape[i], &extent) || !mul64(points, extent, &points) || points > MOST_POINTS) return false;
  }
  const axis *axes = low_axes(L, shape, n, at);
  const tid t = expr_tensor(m, TK_STAGE, (etype)exn(m, e)->type, shape, n, "values", NULL);
  const uint32_t s = expr_stage(m, 0, t, axes, n, expr_subst_vars(m, expr_fresh(m, e), vars, at, n));
  const bool known = expr_eval_stage(m, s, L->a, out);
  m->blocks.v[0].items.n--; /* it stands in no block */
  xs(m, s)->dead = true;
  return known;
}
/* Is e, a value of the old codes alone, each of these codes? */
static bool gives_back(requantizing *q, ex e, ex load) {
  emodule *m = q->m;
  low *L = q->L;
  const etype t = xt(m, q->old)->type;
  u32vec vars = {0};
  atom code;
  ndarray out;
  if (!load || exn(m, load)->tensor != q->old || exn(m, e)->type != t) return false;
  const uint32_t n = 1u << et_bits(t);
  const tid codes = all_codes(L, t);
  const sz at = sym_var(L->c, "code", sym_int(L->c, n));
  sym_is_atom(L->c, at, &code);
  const ex value = with_value(m, e, load, expr_load(m, codes, &at, 1, 0));
  expr_vars(m, value, L->a, &vars);
  for (uint32_t i = vars.n; i-- > 0;)
    if (vars.v[i] == code) vars.v[i] = vars.v[--vars.n];
  vec_push(L->a, vars, code);
  if (vars.n > MAX_RANK || !values_over(L, value, vars.v, vars.n, &out)) return false;
  const size_t bytes = xt(m, codes)->data.bytes;
  for (size_t i = 0; i + bytes <= out.bytes; i += bytes)
    if (memcmp((const uint8_t *)out.data + i, xt(m, codes)->data.data, bytes) && !EK_PLANTED("lower-requantize"))
      return false;
  return true;
}

/* The old codes that e is, a formula of them: their load; 0: it is something else. */
static ex old_codes(requantizing *q, ex e) {
  const ex all = e ? written_out(q, e) : 0, load = all ? only_load(q, all) : 0;
  return load && gives_back(q, all, load) ? load : 0;
}

/* ---- moving ----------------------------------------------------------------------------------- */
/* A function of each element of a stage with updates. */
typedef struct function {
  uint32_t s;              /* the stage that applies it */
  uint32_t of;             /* the stage that it is applied to, element by element */
  uint32_t axis[MAX_RANK]; /* per axis of s: which one of `of` it is */
  ex value;                /* its formula, over the variables of s */
  ex load;                 /* what stands for the element in it */
} function;
/* Are the elements read at the places of s, but for the order of their axes? */
static bool same_places(requantizing *q, function *f) {
  const stage *x = xs(q->m, f->s);
  const ex_node *n = exn(q->m, f->load);
  uint32_t used = 0;
  if (n->nargs != x->naxes) return false;
  for (uint32_t i = 0; i < x->naxes; i++) {
    uint32_t a = 0;
    while (a < n->nargs && (used >> a & 1 || !sym_eq(q->L->c, n->args[a], expr_axis_index(q->m, &x->axes[i])))) a++;
    if (a == n->nargs) return false;
    f->axis[i] = a, used |= 1u << a;
  }
  return true;
}
static bool find_function(requantizing *q, uint32_t s, function *f) {
  emodule *m = q->m;
  const stage x = *xs(m, s);
  if (!x.value || x.updates.n || x.recurrence) return false;
  f->s = s, f->value = written_out(q, x.value), f->load = only_load(q, f->value);
  const ex_node n = *exn(m, f->load);
  if (!f->load || f->load == f->value || xt(m, n.tensor)->kind != TK_STAGE || !same_places(q, f)) return false;
  f->of = xt(m, n.tensor)->stage;
  const stage *y = xs(m, f->of);
  if (!y->updates.n || y->recurrence || y->block != x.block) return false;
  for (uint32_t i = 0; i < y->updates.n; i++)
    if (y->updates.v[i].op != OP_NONE) return false;
  return true;
}
/* f of `value`, an element at idx; 0: the place cannot be said by the variables of its stage. */
static ex apply(requantizing *q, const function *f, const sz *idx, ex value) {
  emodule *m = q->m;
  const ex load = expr_at(m, f->s, idx, f->load);
  return load ? with_value(m, expr_at(m, f->s, idx, expr_fresh(m, f->value)), load, value) : 0;
}
/* The update of the function's own stage that does what u does; false: it cannot be said. */
static bool moved(requantizing *q, const function *f, const update *u, update *out, bool *old) {
  emodule *m = q->m;
  ctx *c = q->L->c;
  sz *to = NEWN(q->L->a, sz, u->nvars + 1);
  *out = (update){.nvars = u->nvars, .nidx = u->nidx};
  out->vars = NEWN(m->a, atom, u->nvars + 1), out->idx = NEWN(m->a, sz, u->nidx + 1);
  for (uint32_t i = 0; i < u->nvars; i++) {
    to[i] = sym_var(c, sym_name(c, u->vars[i]), sym_extent(c, u->vars[i]));
    sym_is_atom(c, to[i], &out->vars[i]);
  }
  for (uint32_t i = 0; i < u->nidx; i++) {
    const ex at = expr_index(m, u->idx[f->axis[i]]);
    out->idx[i] = expr_as_size(m, expr_subst_vars(m, at, u->vars, to, u->nvars));
  }
  out->cond = u->cond ? expr_subst_vars(m, u->cond, u->vars, to, u->nvars) : 0;
  const ex value = expr_subst_vars(m, expr_fresh(m, u->value), u->vars, to, u->nvars);
  out->value = apply(q, f, out->idx, value);
  const ex codes = *old ? 0 : old_codes(q, out->value);
  if (codes) out->value = codes, *old = true;
  return out->value;
}
static void move(requantizing *q, const function *f) {
  emodule *m = q->m;
  const stage y = *xs(m, f->of);
  sz own[MAX_RANK], at[MAX_RANK];
  stage to = *xs(m, f->s);
  for (uint32_t i = 0; i < to.naxes; i++) own[i] = expr_axis_index(m, &to.axes[i]), at[f->axis[i]] = own[i];
  to.value = 0, to.tiled = y.tiled;
  if (y.value) {
    const ex was = expr_at(m, f->of, at, expr_fresh(m, y.value));
    to.value = was ? old_codes(q, apply(q, f, own, was)) : 0;
    if (!to.value) return;
  }
  bool old = to.value != 0;
  for (uint32_t i = 0; i < y.updates.n; i++) {
    update u;
    if (!moved(q, f, &y.updates.v[i], &u, &old)) return;
    vec_push(m->a, to.updates, u);
  }
  if (old) *xs(m, f->s) = to;
}
/* f of a choice between something and what was there becomes a choice between f of that and the old codes. all: f;
 * e: a part of it. 0: there is no such choice. */
static ex moved_choice(requantizing *q, ex all, ex e, map *seen) {
  emodule *m = q->m;
  const ex_node n = *exn(m, e);
  uint64_t had;
  if (n.kind != EX_OP || map_getu(seen, e, &had)) return 0;
  map_putu(seen, e, 1);
  for (uint32_t k = 1; k < 3 && n.op == OP_SEL && e != all; k++) {
    const ex codes = old_codes(q, with_value(m, all, e, n.args[k])), other = with_value(m, all, e, n.args[3 - k]);
    if (codes) return k == 1 ? expr_sel(m, n.args[0], codes, other) : expr_sel(m, n.args[0], other, codes);
  }
  for (uint32_t i = 0; i < n.nargs; i++) {
    const ex found = moved_choice(q, all, n.args[i], seen);
    if (found) return found;
  }
  return 0;
}
static void choose(requantizing *q, uint32_t s) {
  emodule *m = q->m;
  const stage x = *xs(m, s);
  if (!x.value || x.updates.n || x.recurrence) return;
  mark_hanging(q);
  q->spent = 0;
  const ex all = expr_rewrite(m, x.value, &(ex_map){.node = read_old, .env = q});
  q->hangs = NULL;
  const ex v = expr_reads(m, all, q->old, q->L->a) ? moved_choice(q, all, all, map_new(q->L->a)) : 0;
  if (v) xs(m, s)->value = v;
}
void low_requantize(low *L, const arg *in, const arg *out) {
  emodule *m = L->m;
  requantizing q = {.L = L, .m = m, .old = in->t};
  function f;
  const bool codes = et_kind(in->type) == K_INT || et_kind(in->type) == K_UINT;
  if (!codes || et_bits(in->type) > MOST_BITS || in->type != out->type) return;
  tid t = out->t;
  for (const ex_node *n; xt(m, t)->kind == TK_STAGE; t = n->tensor) { /* what only moves elements */
    const stage *x = xs(m, xt(m, t)->stage);
    n = exn(m, x->value);
    if (!x->value || x->updates.n || n->kind != EX_LOAD || n->otherwise) break;
  }
  if (xt(m, t)->kind != TK_STAGE) return;
  if (find_function(&q, xt(m, t)->stage, &f))
    move(&q, &f);
  else
    choose(&q, xt(m, t)->stage);
}
