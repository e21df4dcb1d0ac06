/* What is a state in the module?
 *
 * An output and an input of one type and of equal sizes. What is not certain of the sizes becomes a condition, as soon
 * as the nodes are lowered: so it is known when they are lowered anew (lower.c), and where a cache is as long as the
 * longer one of two sizes, its own is left.
 *
 * An output that is longer than the input along one axis, the input with something behind it, is a state that grows: a
 * cache of keys or values that Concat makes longer. Such a state is a tensor with room for the most that --dim says of
 * the input's size. The part in front of that is the state's value; what lies behind it is not looked at:
 *
 *     output[h, r, d] = input[h, r, d] for r < P              S[h, r, d] = input[h, r, d]       (room for 1024 rows)
 *     output[h, P + i, d] = new[h, i, d] for i < n            S[h, P + i, d] := new[h, i, d] for i < n
 *
 * So in place it costs the new rows. Readers of input and output find at each place what they found there before.
 * Nobody hands P over any more: it follows from a size of another input, which is known to be P plus something (the
 * length of a mask). The nodes are lowered once to know that, and anew with that size in the place of P. Other sizes of
 * states that nothing gives a value are as large as --dim allows.
 */
#include "driver/lower_in.h"

/* ---- states that grow ------------------------------------------------------------------------ */
const low_growth *low_grows(const low *L, const value *in) {
  for (uint32_t i = 0; i < L->growing.n; i++)
    if (L->growing.v[i].in == in) return &L->growing.v[i];
  return NULL;
}
/* The axis along which the output is longer than the input by something that does not hang on its length; the input's
 * rank: there is none. */
static uint32_t growing_axis(low *L, const arg *in, const arg *out, atom *length) {
  uint32_t axis = in->rank;
  for (uint32_t d = 0; in->rank == out->rank && d < in->rank; d++) {
    const sz more = sym_canon(L->c, sym_sub(L->c, out->shape[d], in->shape[d]));
    if (sym_int_or(L->c, more, 1) == 0) continue;
    if (axis == in->rank && sym_is_atom(L->c, in->shape[d], length) && sym_kind(L->c, *length) == AT_SYMBOL &&
        !sym_uses(L->c, more, *length) && sym_ge0(L->c, more))
      axis = d;
  }
  return axis;
}
static bool is_state(const graph *g, const value *in) {
  for (uint32_t i = 0; i < g->states.n; i++)
    if (g->states.v[i].in == in) return true;
  return false;
}
/* An input's size from which the length follows: `size` is the length and `more`. 0: there is none. */
static atom find_length(low *L, const graph *g, atom length, sz *more) {
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const arg *in = is_state(g, g->inputs.v[i]) ? NULL : low_value(L, g->inputs.v[i]);
    for (uint32_t d = 0; in && d < in->rank; d++) {
      atom a;
      sz coef;
      if (sym_is_atom(L->c, in->shape[d], &a) && sym_kind(L->c, a) == AT_SYMBOL &&
          sym_linear(L->c, sym_canon(L->c, in->shape[d]), length, &coef, more) && sym_int_or(L->c, coef, 0) == 1)
        return a;
    }
  }
  return 0;
}
sz low_replaced(const low *L, atom size) {
  for (uint32_t i = 0; i < L->replaced.n; i++)
    if (L->replaced.v[i].size == size) return L->replaced.v[i].by;
  return 0;
}
/* `length` is no size of an input from now on: it is another one's, less something. */
static bool replace_length(low *L, const graph *g, const char *state, atom length, int64_t most) {
  sz more;
  const atom size = find_length(L, g, length, &more);
  if (!size) {
    diag_error(L->c, E_SHAPE, NULL,
               "state '%s': nothing gives %s a value, the number of places that it holds; some size of another input "
               "must be this number, or this number and something, such as the length of a mask",
               state, sym_name(L->c, length));
    return false;
  }
  if (size == length || low_replaced(L, length)) return true;
  const sz all = sym_fresh(L->c, sym_name(L->c, size), 0, most);
  vec_push(L->a, L->replaced, ((low_replacement){.size = size, .by = all}));
  vec_push(L->a, L->replaced, ((low_replacement){.size = length, .by = sym_sub(L->c, all, more), .least = true}));
  low_learn(L, &(guard){.ge0 = sym_sub(L->c, all, more)});
  return true;
}
/* A size that nothing gives a value is as large as it may be. */
static void bound_sizes(low *L, const graph *g, const value *state) {
  const arg *in = low_value(L, state);
  for (uint32_t d = 0; in && d < in->rank; d++) {
    int64_t least, most;
    atom size;
    sz more;
    if (!sym_is_atom(L->c, in->shape[d], &size) || sym_kind(L->c, size) != AT_SYMBOL || low_replaced(L, size) ||
        find_length(L, g, size, &more))
      continue;
    sym_range(L->c, in->shape[d], &least, &most);
    if (most < LOW_MOST) vec_push(L->a, L->replaced, ((low_replacement){.size = size, .by = sym_int(L->c, most)}));
  }
}
bool low_find_growing(low *L, const graph *g) {
  for (uint32_t i = 0; i < g->states.n; i++) {
    const graph_state *s = &g->states.v[i];
    const arg *in = low_value(L, s->in), *out = low_value(L, s->out);
    atom length = 0;
    const uint32_t axis = in && out ? growing_axis(L, in, out, &length) : 0;
    if (!in || !out || axis == in->rank) continue;
    int64_t most = LOW_MOST, least;
    sym_range(L->c, sym_of_atom(L->c, length), &least, &most);
    if (most >= LOW_MOST) {
      diag_error(
          L->c, E_SHAPE, NULL,
          "state '%s' grows: axis %u of the output '%s' has size %s, that of the input %s; --dim %s=0::N says how "
          "large it may become",
          s->in->source, axis, s->out->source, sym_str(L->c, out->shape[axis]), sym_str(L->c, in->shape[axis]),
          sym_name(L->c, length));
      return false;
    }
    if (!replace_length(L, g, s->in->source, length, most)) return false;
    vec_push(L->a, L->growing, ((low_growth){.in = s->in, .axis = axis, .most = most}));
  }
  for (uint32_t i = 0; i < g->states.n; i++)
    if (!low_grows(L, g->states.v[i].in)) bound_sizes(L, g, g->states.v[i].in);
  return true;
}
void low_growing_guards(low *L) {
  for (uint32_t i = 0; i < L->replaced.n; i++) {
    const guard q = {.ge0 = L->replaced.v[i].by,
                     .text = arena_fmt(L->m->a, "%s is negative", sym_name(L->c, L->replaced.v[i].size))};
    if (L->replaced.v[i].least) vec_push(L->m->a, L->m->guards, q);
  }
}
/* Which update puts the input where it was? The number of updates: none does. */
static uint32_t keeping_update(low *L, const stage *x, const arg *in, uint32_t axis) {
  const emodule *m = L->m;
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    const ex_node *n = exn(m, u->value);
    atom a;
    bool same = n->kind == EX_LOAD && n->tensor == in->t && !n->otherwise && !u->cond && u->op == OP_NONE &&
                u->nidx == in->rank;
    for (uint32_t d = 0; same && d < u->nidx; d++) same = u->idx[d] == n->args[d];
    if (same && sym_is_atom(L->c, u->idx[axis], &a) && sym_kind(L->c, a) == AT_VAR &&
        sym_eq(L->c, sym_extent(L->c, a), in->shape[axis]))
      return i;
  }
  return x->updates.n;
}
/* The stage that puts something behind the input becomes an update of the state, with room for `most` places. */
static void grow(low *L, const graph_state *s, const low_growth *k) {
  emodule *m = L->m;
  const arg *in = low_value(L, s->in), *out = low_value(L, s->out);
  stage *x = xt(m, out->t)->kind == TK_STAGE ? xs(m, xt(m, out->t)->stage) : NULL;
  const uint32_t keeps = x && x->tiled && !x->value && !x->block ? keeping_update(L, x, in, k->axis) : UINT32_MAX;
  if (!x || keeps >= x->updates.n) {
    diag_error(L->c, E_UNSUPPORTED, NULL,
               "state '%s' grows, but the output '%s' is not the input with something behind it (Concat)",
               s->in->source, s->out->source);
    return;
  }
  const guard fits = {.ge0 = sym_sub(L->c, sym_int(L->c, k->most), out->shape[k->axis]),
                      .text = arena_fmt(m->a, "state '%s' has room for %lld places, not for %s", s->in->source,
                                        (long long)k->most, sym_str(L->c, out->shape[k->axis]))};
  if (!sym_ge0(L->c, fits.ge0)) {
    vec_push(m->a, m->guards, fits);
    low_learn(L, &fits);
  }
  sz at[MAX_RANK];
  sz *shape = arena_dup(m->a, out->shape, out->rank * sizeof *shape);
  shape[k->axis] = sym_int(L->c, k->most);
  xt(m, out->t)->shape = shape;
  x->axes = arena_dup(m->a, low_axes(L, shape, out->rank, at), out->rank * sizeof *x->axes);
  for (uint32_t i = keeps + EK_PLANTED("lower-growing"); i + 1 < x->updates.n; i++)
    x->updates.v[i] = x->updates.v[i + 1];
  x->updates.n--;
  x->tiled = false;
  x->value = expr_load(m, in->t, at, in->rank, 0);
}

/* ---- sizes ----------------------------------------------------------------------------------- */
/* The condition that two sizes are equal, which differ by `diff`: where one is the greatest or least of several, and
 * the other one of these, that it is. */
static guard equal_sizes(low *L, sz diff) {
  ctx *c = L->c;
  u32vec atoms = {0};
  for (int kind = 0; kind < 2; kind++) sym_atoms(c, diff, kind ? AT_MIN : AT_MAX, L->a, &atoms);
  for (uint32_t i = 0; i < atoms.n; i++) {
    sz of[3];
    const sz whole = sym_of_atom(c, atoms.v[i]);
    const bool most = sym_kind(c, atoms.v[i]) == AT_MAX;
    sym_args(c, atoms.v[i], of);
    for (int k = 0; k < 2; k++) { /* max(a, b) - a == 0: a >= b */
      const sz d = sym_sub(c, whole, of[k]);
      if (d == diff || d == sym_neg(c, diff)) return (guard){.ge0 = sym_sub(c, of[most ? k : !k], of[most ? !k : k])};
    }
  }
  return (guard){.ge0 = diff, .is_eq = true};
}
void low_state_sizes(low *L, const graph *g) {
  emodule *m = L->m;
  for (uint32_t i = 0; i < g->states.n; i++) {
    const arg *in = low_value(L, g->states.v[i].in), *out = low_value(L, g->states.v[i].out);
    const low_growth *k = in && out ? low_grows(L, g->states.v[i].in) : NULL;
    if (in && out) low_requantize(L, in, out);
    if (k) grow(L, &g->states.v[i], k);
    for (uint32_t d = 0; in && out && in->rank == out->rank && d < in->rank; d++) {
      const sz diff = sym_canon(L->c, sym_sub(L->c, out->shape[d], in->shape[d]));
      if (sym_is_int(L->c, diff, NULL) || (k && k->axis == d)) continue;
      guard q = equal_sizes(L, diff);
      bool known = false;
      for (uint32_t k = 0; k < m->guards.n && !known; k++)
        known = m->guards.v[k].is_eq == q.is_eq && !m->guards.v[k].block && m->guards.v[k].ge0 == q.ge0;
      if (known) continue;
      q.text = arena_fmt(m->a, "state '%s': axis %u of the output '%s' has size %s, that of the input %s",
                         g->states.v[i].in->source, d, g->states.v[i].out->source, sym_str(L->c, out->shape[d]),
                         sym_str(L->c, in->shape[d]));
      vec_push(m->a, m->guards, q);
      low_learn(L, &q);
    }
  }
}
static const char *type_text(low *L, const tensor *x) {
  sbuf b = sbuf_new(L->a);
  sb_fmt(&b, "%s[", et_name(x->type));
  for (uint32_t i = 0; i < x->rank; i++) sb_fmt(&b, "%s%s", i ? ", " : "", sym_str(L->c, x->shape[i]));
  sb_putc(&b, ']');
  return b.s;
}
static bool may_be_one(low *L, const io *in, const io *out) {
  const tensor *x = xt(L->m, in->t), *y = xt(L->m, out->t);
  bool same = x->type == y->type && x->rank == y->rank;
  for (uint32_t d = 0; same && d < x->rank; d++)
    same = sym_int_or(L->c, sym_canon(L->c, sym_sub(L->c, y->shape[d], x->shape[d])), 0) == 0;
  if (!same)
    diag_error(L->c, E_SHAPE, NULL, "state '%s': the output '%s' is %s, the input is %s; they must be equal", in->name,
               out->name, type_text(L, y), type_text(L, x));
  return same;
}
/* Does something else than a state give each size of the states a value? Fixed sizes need none. */
void low_states(low *L, const graph *g) {
  emodule *m = L->m;
  bool ok = true;
  for (uint32_t i = 0; i < g->states.n; i++) {
    const graph_state *s = &g->states.v[i];
    vec_push(m->a, m->states, s->first ? expr_const_tensor(m, s->first, arena_fmt(m->a, "%s.first", s->in->name)) : 0);
  }
  for (uint32_t i = 0; i < g->states.n; i++) {
    const io *in = &m->inputs.v[m->inputs.n - g->states.n + i], *out = &m->outputs.v[m->outputs.n - g->states.n + i];
    if (g->states.v[i].in->text || low_slot(L, g->states.v[i].out)->list)
      diag_error(L->c, E_UNSUPPORTED, NULL, "state '%s': a state holds numbers", in->name), ok = false;
    else
      ok &= may_be_one(L, in, out);
  }
  if (ok && !expr_verify_whole(m, NULL))
    diag_add(L->c, D_NOTE, E_OK, (srcpos){0}, NULL,
             "the sizes of a state come from inputs that are no states, or from --dim NAME=NUMBER or NAME=1::NUMBER");
}
