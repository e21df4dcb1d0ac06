/* Which nodes may stand in a random model, and what do they compute?
 *
 * A node's definition is evaluated for the contents of its inputs, and again for each variant of them, with every
 * intermediate result of floats moved by a few roundings, or, in the last variant, with every float in f64 and no
 * rounding on the way. Rounding decides nothing then if
 *
 *   - shapes, integers, bools and floats of 8 bits or less come out the same in all variants,
 *   - nothing is computed in floats of 8 bits or less, but chosen, moved and converted,
 *   - floats are finite and of a sane magnitude, and move by a small part of their largest value only.
 *
 * Other nodes are refused: at the border of two integers, or where errors grow without bound, no two right
 * implementations agree. What is left moves by `spread`, and the comparison allows a few times that. */
#include "random_models.h"
#include <math.h>
#include <string.h>

/* How far a rounding or two move a value, and by which part of the largest value a result may move. */
static double step_of(etype t) {
  return t == ET_F64 ? 1e-14 : t == ET_F32 ? 1e-6 : t == ET_F16 ? 0x1p-10 : t == ET_BF16 ? 0x1p-7 : 0;
}
static double most_of(etype t) { return t == ET_F64 ? 1e-7 : t == ET_F32 ? 1e-3 : t == ET_F16 ? 0.02 : 0.1; }
static double least_of(etype t) { return t == ET_F16 ? 0x1p-24 : t == ET_BF16 ? 0x1p-133 : 0x1p-149; } /* above 0 */
static double highest_of(etype t) { return t == ET_F16 ? 1e3 : 1e5; }

static scalar element(const ndarray *d, int64_t i) {
  return et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type));
}
/* Every element by about a rounding, in variant 1 up, in 2 down, in others either; zeros in their sign; f16 also by
 * what it loses near 0. An element that is nothing beside the largest one may be what is left of larger terms: it
 * moves by a part of a rounding of that. */
static void move(ndarray *d, double step, int variant, uint64_t *state) {
  int64_t n;
  const double least = d->type == ET_F16 ? least_of(ET_F16) : 0;
  double largest = 0;
  if (et_kind(d->type) != K_FLOAT || step == 0 || !nd_count(d, &n)) return;
  for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(element(d, i).f));
  const double noise = isfinite(largest) ? step * largest / 128 : 0;
  for (int64_t i = 0; i < n; i++) {
    const bool up = variant == 1 || (variant > 2 && draw(state, 2));
    const double part = (double)(64 + draw(state, 192)) / 128 * (up ? 1 : -1), lost = up ? least : -least;
    double x = element(d, i).f, zero = up ? 0.0 : -0.0; /* the sign of a zero is left open */
    if (x != 0 && fabs(x) < noise) x += up ? noise : -noise;
    et_store(d->type, (uint8_t *)(uintptr_t)d->data + i * et_bytes(d->type),
             (scalar){.f = x == 0 ? zero + lost : x * (1 + step * part) + lost});
  }
}
static ndarray copy(arena *a, const ndarray *d) {
  ndarray r = *d;
  uint8_t *to = arena_alloc(a, d->bytes + 16); /* readable a little beyond */
  if (d->bytes) memcpy(to, d->data, d->bytes);
  r.data = to;
  return r;
}
const sz *numbers_of(ctx *c, const ndarray *d) {
  sz *s = NEWN(ctx_arena(c), sz, d->rank + 1);
  for (uint32_t i = 0; i < d->rank; i++) s[i] = sym_int(c, d->dims[i]);
  return s;
}
void value_becomes(model *m, uint32_t which, etype type, const ndarray *data) {
  arena *a = ctx_arena(m->c);
  mvalue *v = &m->values.v[which - 1];
  v->type = type, v->rank = data->rank - (type == ET_STR), v->shape = numbers_of(m->c, data);
  v->step = step_of(type), v->spread = v->largest = 0;
  for (int k = 0; k <= VARIANTS; k++) {
    v->at[k] = copy(a, data);
    if (k && k != EXACT) move(&v->at[k], v->step, k, &m->state);
  }
}
uint32_t value_given(model *m, making made, etype type, const ndarray *data) {
  vec_push(ctx_arena(m->c), m->values, ((mvalue){.made = made}));
  value_becomes(m, m->values.n, type, data);
  return m->values.n;
}
/* Does a value of floats of 8 bits or less occur? */
static bool has_steps(const emodule *e) {
  for (ex i = 1; i < e->nodes.n; i++)
    if (et_kind(exn(e, i)->type) == K_FLOAT && step_of(exn(e, i)->type) == 0) return true;
  return false;
}
static bool rounds(const ex_node *n) {
  if (et_kind(n->type) != K_FLOAT) return false;
  if (n->kind == EX_REDUCE) return n->op != RED_MAX && n->op != RED_MIN;
  return n->kind == EX_OP && op_rounds((sop)n->op);
}
/* Does the definition compute in floats whose steps are so large that the order of a sum decides? In types of 16 bits,
 * which compiled code replaces by f32, neither, where such floats are made of the results. */
static bool computes_in_steps(const emodule *e) {
  const bool steps = has_steps(e);
  for (ex i = 1; i < e->nodes.n; i++)
    if (rounds(exn(e, i)) && (step_of(exn(e, i)->type) == 0 || (steps && step_of(exn(e, i)->type) > 1e-4))) return true;
  for (uint32_t i = 0; i < e->stages.n; i++) {
    const etype t = xt(e, xs(e, i)->tensor)->type;
    if (xs(e, i)->updates.n && et_kind(t) == K_FLOAT && step_of(t) == 0) return true;
  }
  return false;
}
bool call_allowed(const opinst *call) { return !computes_in_steps(call->m); }
/* The step of the coarsest type that values of floats are computed in: what is written as f64 may have been f32. */
static double coarsest(const emodule *e, etype t) {
  double step = step_of(t);
  if (step == 0) return 0;
  for (ex i = 1; i < e->nodes.n; i++)
    if (exn(e, i)->kind == EX_OP && et_kind(exn(e, i)->type) == K_FLOAT) step = fmax(step, step_of(exn(e, i)->type));
  return step;
}
/* The results for one variant. */
static bool evaluate(model *m, const mnode *n, int variant, ndarray *out) {
  emodule *e = n->i->m;
  arena *a = ctx_arena(m->c);
  evaluation *v = expr_eval_new(e, a, 1);
  int64_t count;
  if (variant && variant != EXACT) expr_eval_noise(v, (uint32_t)variant, 0x1p-24, 0x1p-53);
  for (uint32_t i = 0; i < n->i->nin; i++)
    if (n->in[i]) expr_eval_input(v, n->i->in[i].t, &m->values.v[n->in[i] - 1].at[variant]);
  for (uint32_t i = 0; variant && i < e->stages.n; i++) {
    if (xs(e, i)->dead || xs(e, i)->block) continue;
    const ndarray *r = expr_eval_get(v, xs(e, i)->tensor);
    move((ndarray *)(uintptr_t)r, coarsest(e, r->type), variant, &m->state);
  }
  expr_eval_checks(v);
  for (uint32_t i = 0; i < n->i->nout; i++) {
    if (!n->out[i]) continue;
    const ndarray *r = expr_eval_get(v, n->i->out[i].t);
    if (!nd_count(r, &count) || count > MOST_ELEMENTS) return false;
    out[i] = copy(a, r);
  }
  return true;
}
static bool same_shape(const ndarray *a, const ndarray *b) {
  bool same = a->rank == b->rank;
  for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}
static bool moves_little(const mvalue *v) {
  const double most = fmin(fmax(most_of(v->type), 1e3 * v->step), 0.1);
  return v->spread <= most * fmax(v->largest, 1e-3);
}
bool value_allowed(mvalue *v) {
  int64_t n;
  const ndarray *x = &v->at[0];
  nd_count(x, &n);
  for (int k = 1; k <= VARIANTS; k++) {
    if (!same_shape(x, &v->at[k])) return false;
    if (step_of(v->type) == 0 && memcmp(x->data, v->at[k].data, x->bytes) != 0) return false;
  }
  for (int64_t i = 0; et_kind(v->type) == K_FLOAT && i < n; i++) {
    double f = element(x, i).f;
    if (!(fabs(f) <= highest_of(v->type))) return false;
    v->largest = fmax(v->largest, fabs(f));
    for (int k = 1; k <= VARIANTS; k++) {
      const double moved = fabs(element(&v->at[k], i).f - f);
      if (!isfinite(moved)) return false;
      v->spread = fmax(v->spread, moved);
    }
  }
  return moves_little(v);
}
/* The sizes that the definition gives; symbols for those that only a run finds. */
static const sz *known_shape(model *m, const arg *a) {
  int64_t n;
  const uint32_t rank = a->rank + (a->type == ET_STR);
  sz *s = NEWN(ctx_arena(m->c), sz, rank + 1);
  for (uint32_t i = 0; i < rank; i++)
    s[i] = sym_is_int(m->c, a->shape[i], &n) ? a->shape[i] : sym_fresh(m->c, "late", 0, 1000000);
  return s;
}
/* The call once more, in a module of its own, with numbers for all sizes, as a model may have them that knows more; in,
 * out: its tensors there. */
static emodule *again(model *m, const mnode *n, arg *in, arg *out) {
  emodule *e = expr_module(m->c);
  const opinst *o = n->i;
  for (uint32_t i = 0; i < o->nin; i++) {
    in[i] = o->in[i];
    if (!in[i].present) continue;
    if (n->in[i]) {
      const mvalue *v = &m->values.v[n->in[i] - 1];
      const ndarray *x = &v->at[0];
      in[i].type = v->type, in[i].rank = v->rank, in[i].shape = numbers_of(m->c, x);
      in[i].t = expr_tensor(e, TK_INPUT, x->type, in[i].shape, x->rank, "x", NULL);
      vec_push(e->a, e->inputs, ((io){in[i].t, xt(e, in[i].t)->name}));
    } else
      in[i].t = expr_const_tensor(e, &o->data[i], "k");
  }
  for (uint32_t i = 0; i < o->nout; i++) out[i] = (arg){.want = o->out[i].want};
  const uint32_t facts = sym_mark(m->c);
  const bool ok = notation_elaborate(m->lib, notation_nth(m->lib, n->op), e, 0, n->name, in, o->nin, o->attr, o->nattr,
                                     out, o->nout);
  sym_pop(m->c, facts);
  return ok ? e : NULL;
}
/* The results with every float in f64. */
static bool exactly(model *m, const mnode *n, ndarray *made) {
  arena *a = ctx_arena(m->c);
  arg in[OPINST_MAX], out[OPINST_MAX];
  emodule *e = again(m, n, in, out);
  if (!e) return false;
  for (uint32_t i = 0; i < n->i->nout; i++) {
    if (!n->out[i]) continue;
    xt(e, out[i].t)->output = true;
    vec_push(e->a, e->outputs, ((io){out[i].t, "y"}));
  }
  if (has_steps(e)) return evaluate(m, n, EXACT, made);
  expr_promote(e);
  evaluation *v = expr_eval_new(e, a, 1);
  for (uint32_t i = 0; i < n->i->nin; i++)
    if (n->in[i]) expr_eval_input(v, in[i].t, &m->values.v[n->in[i] - 1].at[EXACT]);
  for (uint32_t i = 0, at = 0; i < n->i->nout; i++) {
    if (!n->out[i]) continue;
    const ndarray *y = expr_eval_get(v, e->outputs.v[at++].t);
    int64_t count;
    if (!nd_count(y, &count) || count > MOST_ELEMENTS) return false;
    made[i] = copy(a, y);
    if (et_kind(y->type) != K_FLOAT) continue;
    const etype t = n->i->out[i].type;
    made[i].type = t, made[i].bytes = (size_t)count * et_bytes(t);
    for (int64_t k = 0; k < count; k++) {
      const scalar x = element(y, k);
      uint8_t *to = (uint8_t *)(uintptr_t)made[i].data + k * et_bytes(t);
      et_store(t, to, x);
      if (x.f != 0 && et_load(t, to).f == 0) et_store(t, to, (scalar){.f = copysign(least_of(t), x.f)});
    }
  }
  return true;
}
/* The results of a call, for all variants, in made[]. */
static bool call_values(model *m, const mnode *n, mvalue *made) {
  ndarray out[1 + VARIANTS][OPINST_MAX];
  bool ok = call_allowed(n->i);
  for (int k = 0; ok && k <= VARIANTS; k++) ok = k == EXACT ? exactly(m, n, out[k]) : evaluate(m, n, k, out[k]);
  for (uint32_t i = 0; ok && i < n->nout; i++) {
    if (!n->out[i]) continue;
    made[i] = (mvalue){.type = n->i->out[i].type, .rank = n->i->out[i].rank, .made = MADE_NODE, .node = m->nodes.n};
    made[i].shape = known_shape(m, &n->i->out[i]);
    made[i].step = coarsest(n->i->m, made[i].type);
    made[i].scope = n->scope;
    for (int k = 0; k <= VARIANTS; k++) made[i].at[k] = out[k][i];
    ok = value_allowed(&made[i]);
  }
  return ok;
}
static bool same_sizes(const mvalue *v, const ndarray *d) {
  bool same = axes(v) == d->rank;
  for (uint32_t i = 0; same && i < d->rank; i++) same = v->at[0].dims[i] == d->dims[i];
  return same;
}
bool node_values(model *m, mnode *n, bool fresh) {
  if (n->kind != NODE_CALL) return flow_values(m, n, fresh);
  mvalue made[OPINST_MAX];
  uint32_t mark = diag_mark(m->c);
  volatile bool ok = true;
  CTX_TRY(m->c) { ok = call_values(m, n, made); }
  CTX_CATCH { ok = false; }
  diag_reset(m->c, mark);
  for (uint32_t i = 0; ok && i < n->nout; i++) {
    if (!n->out[i]) continue;
    if (fresh) {
      vec_push(ctx_arena(m->c), m->values, made[i]);
      n->out[i] = m->values.n;
      continue;
    }
    mvalue *v = &m->values.v[n->out[i] - 1];
    ok = same_sizes(v, &made[i].at[0]);
    memcpy(v->at, made[i].at, sizeof v->at);
    v->spread = fmax(v->spread, made[i].spread), v->largest = fmax(v->largest, made[i].largest);
  }
  return ok;
}
bool node_anew(model *m, mnode *n) {
  opinst *o = NEW(ctx_arena(m->c), opinst);
  mvalue made[OPINST_MAX];
  uint32_t mark = diag_mark(m->c);
  volatile bool ok = false;
  *o = *n->i;
  CTX_TRY(m->c) {
    if ((o->m = again(m, n, o->in, o->out))) {
      n->i = o;
      ok = call_values(m, n, made);
    }
  }
  CTX_CATCH { ok = false; }
  diag_reset(m->c, mark);
  for (uint32_t i = 0; ok && i < n->nout; i++) {
    if (!n->out[i]) continue;
    mvalue *v = &m->values.v[n->out[i] - 1], had = *v;
    *v = made[i];
    v->made = had.made, v->node = had.node, v->scope = had.scope, v->uses = had.uses;
  }
  return ok;
}
bool nodes_values(model *m, uint32_t scope) {
  bool ok = true;
  for (uint32_t i = 0; ok && i < m->nodes.n; i++)
    if (m->nodes.v[i].scope == scope && !m->nodes.v[i].gone) ok = node_values(m, &m->nodes.v[i], false);
  return ok;
}
