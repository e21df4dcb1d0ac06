/* How do groups of terms of a sum come to lie side by side, where its operands are not stored along the sum?
 *
 * An instruction that multiplies groups reads those of a row as one word (schedule/instruction.c). The gradient of
 * weights, G[i, j] = sum[n] X[n, i] * D[n, j], sums over an axis that is the innermost one of neither operand: X and D
 * were computed with i and j along the lanes. Of both a copy is made in which the groups are an axis of their own, the
 * innermost one,
 *   X'[a, i, b] = X[g*a + b, i]                G[i, j] = sum[a, b] X'[a, i, b] * D'[a, j, b],  b < g
 * so that a word has a group of one i, and a vector of words those of neighbouring ones. A window does not hinder it,
 * as long as the variable of the groups counts an axis alone: the copy serves all places of the window.
 */
#include "passes/keep.h"
#include <string.h>

enum { MOST_PRODUCERS = 16 /* stages between a tensor and the sum whose lanes it has */ };

/* ---- which axis is the innermost one ----------------------------------------------------------- */
/* The axis of a stage that one of these variables counts; none: rank. */
static uint32_t axis_of(const stage *s, const u32vec *vars) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++)
      if (vec_has(vars, s->axes[i].d[j].var)) return i;
  return s->naxes;
}
static uint32_t innermost(pw *p, tid t, uint32_t depth, map *known);
/* That of a placement: the one into which its first part's innermost axis goes. */
static uint32_t innermost_of_parts(pw *p, const stage *s, uint32_t depth, map *known) {
  const update *u = &s->updates.v[0];
  const ex_node *part = exn(p->m, u->value);
  u32vec vars = {0};
  if (part->kind != EX_LOAD) return s->naxes;
  const uint32_t axis = innermost(p, part->tensor, depth, known);
  if (axis < part->nargs) sym_atoms(p->c, part->args[axis], AT_VAR, p->a, &vars);
  for (uint32_t i = 0; i < u->nidx; i++)
    for (uint32_t j = 0; j < vars.n; j++)
      if (sym_uses(p->c, u->idx[i], vars.v[j])) return i;
  return s->naxes;
}
/* That of values computed from others of their kind: as the largest of these has it. Integers among floats tell where
 * these are read, or are compared. */
static uint32_t innermost_of_values(pw *p, uint32_t s, uint32_t depth, map *known) {
  const stage *x = xs(p->m, s);
  const u32vec *loads = stage_loads(p, s);
  const ekind kind = et_kind(xt(p->m, x->tensor)->type);
  uint32_t most = 0, best = x->naxes;
  for (uint32_t i = 0; i < loads->n; i++) {
    const ex_node *l = exn(p->m, loads->v[i]);
    u32vec vars = {0};
    if (l->nargs <= most || et_kind((etype)l->type) != kind) continue;
    const uint32_t axis = innermost(p, l->tensor, depth, known);
    if (axis < l->nargs) sym_atoms(p->c, l->args[axis], AT_VAR, p->a, &vars);
    const uint32_t mine = axis_of(x, &vars);
    if (mine < x->naxes) best = mine, most = l->nargs;
  }
  return best;
}
static uint32_t innermost_of_stage(pw *p, uint32_t i, uint32_t depth, map *known) {
  const stage *s = xs(p->m, i);
  roles r;
  if (s->updates.n) return innermost_of_parts(p, s, depth, known);
  if (expr_roles(p->m, i, p->a, &r) && r.cls == KC_CONTRACTION) return axis_of(s, &r.col);
  return innermost_of_values(p, i, depth, known);
}
/* The axis that will be the innermost one in memory, rank where that is not known: of a sum of products that of its
 * columns, which run along the lanes; else that of what it is computed from. known: those that were found. */
static uint32_t innermost(pw *p, tid t, uint32_t depth, map *known) {
  const tensor *x = xt(p->m, t);
  uint64_t axis;
  if (x->kind != TK_STAGE || !depth) return x->rank - (x->rank > 0);
  if (!map_getu(known, t, &axis)) map_putu(known, t, axis = innermost_of_stage(p, x->stage, depth - 1, known));
  return (uint32_t)axis;
}
static uint32_t innermost_axis(pw *p, tid t) { return innermost(p, t, MOST_PRODUCERS, map_new(p->a)); }
bool keep_sum_innermost(pw *p, const roles *r, ex load) {
  const ex_node *l = exn(p->m, load);
  const uint32_t axis = innermost_axis(p, l->tensor);
  sz step;
  for (uint32_t i = 0; i < r->red_both.n && axis < l->nargs; i++)
    if (sym_linear(p->c, l->args[axis], r->red_both.v[i], &step, NULL) && sym_eq(p->c, step, sym_int(p->c, 1)))
      return true;
  return false;
}

/* ---- copies in groups -------------------------------------------------------------------------- */
/* The axis of a load that the variable counts alone, where no other one depends on it; none: rank. */
static uint32_t alone_in(pw *p, const ex_node *l, atom v) {
  uint32_t at = l->nargs;
  for (uint32_t i = 0; i < l->nargs; i++) {
    if (!sym_uses(p->c, l->args[i], v)) continue;
    if (at < l->nargs || l->args[i] != sym_of_atom(p->c, v)) return l->nargs;
    at = i;
  }
  return at;
}
atom keep_groups_along(pw *p, const roles *r, const ex load[2], uint32_t group) {
  for (uint32_t i = 0; i < r->red_both.n; i++) {
    const atom v = r->red_both.v[i];
    const int64_t n = sym_int_or(p->c, sym_extent(p->c, v), 0);
    bool alone = n > group && n % group == 0 && max64(exn(p->m, load[0])->nargs, exn(p->m, load[1])->nargs) < MAX_RANK;
    for (int j = 0; j < 2; j++) alone &= alone_in(p, exn(p->m, load[j]), v) < exn(p->m, load[j])->nargs;
    if (alone) return v;
  }
  return 0;
}
/* How an axis of a tensor is divided into groups. */
typedef struct grouping {
  uint32_t axis;  /* the axis */
  uint32_t group; /* elements of a group */
  uint32_t inner; /* the axis that is the innermost one of the tensor */
} grouping;
/* The indices of an element in the copy, from those in the tensor, of which that of the axis is group * at + in. */
static void place_in_copy(const grouping *g, const sz *idx, uint32_t rank, sz at, sz in, sz *out) {
  uint32_t n = 0;
  out[n++] = at;
  for (int last = 0; last < 2; last++)
    for (uint32_t i = 0; i < rank; i++)
      if (i != g->axis && (i == g->inner) == last) out[n++] = idx[i];
  out[n] = in;
}
/* The copy of t, or of what is kept instead, in codes: its first axis counts the groups, its last one what is in a
 * group, and the one before that is the tensor's innermost one. */
static tid copy_in_groups(keeper *k, uint32_t reader, tid t, const grouping *g) {
  emodule *m = k->m;
  const coding as = {k->p->narrow, 0};
  const tid from = kept(k, t) ? kept(k, t) : t;
  const tensor x = *xt(m, from);
  const uint32_t block = xs(m, reader)->block;
  const char *name = arena_fmt(k->p->a, "%u %u groups %u", from, block, g->axis);
  uint64_t had;
  sz idx[MAX_RANK], extent[MAX_RANK], at, in, shape[MAX_RANK];
  axis *ax = NEWN(m->a, axis, x.rank + 1);
  if (map_gets(k->copies, name, &had)) return (tid)had;
  memcpy(extent, x.shape, x.rank * sizeof *extent);
  place_in_copy(g, extent, x.rank, sym_div(m->c, x.shape[g->axis], sym_int(m->c, g->group)), sym_int(m->c, g->group),
                shape);
  sz own[MAX_RANK];
  for (uint32_t i = 0; i <= x.rank; i++) ax[i] = expr_axis1(m, i < x.rank ? "i" : "b", shape[i], &own[i]);
  at = own[0], in = own[x.rank];
  for (uint32_t i = 0, n = 1; i < 2 * x.rank; i++) {
    const uint32_t d = i % x.rank;
    if (d == g->axis)
      idx[d] = sym_add(m->c, sym_muli(m->c, at, g->group), EK_PLANTED("keep-groups") ? sym_int(m->c, 0) : in);
    else if ((d == g->inner) == (i >= x.rank))
      idx[d] = own[n++];
  }
  const tid r =
      expr_tensor(m, TK_STAGE, as.type, shape, x.rank + 1, arena_fmt(m->a, "%s.groups", xt(m, t)->name), x.origin);
  const ex load = expr_load(m, from, idx, x.rank, 0);
  const uint32_t s = expr_stage(m, block, r, ax, x.rank + 1, from == t ? keep_code(k->p, load, as) : load);
  m->blocks.v[block].items.n--; /* appended by expr_stage; it stands in front of the reader instead */
  vec_push(k->p->keep, k->p->pend, ((pending){reader, s}));
  map_puts(k->copies, name, r);
  return r;
}
/* What the operands of a sum become. */
typedef struct operands {
  keeper *k;
  ex load[2]; /* what they were */
  ex in[2];   /* the same in the copies */
} operands;
static ex read_copy(void *env, emodule *m, ex e) {
  const operands *o = env;
  (void)m;
  return e == o->load[0] ? o->in[0] : e == o->load[1] ? o->in[1] : e;
}
void keep_sum_in_groups(keeper *k, uint32_t s, const ex load[2], atom along, uint32_t group) {
  emodule *m = k->m;
  ctx *c = m->c;
  const ex_node red = *exn(m, xs(m, s)->value);
  operands o = {.k = k, .load = {load[0], load[1]}};
  const sz at = sym_var(c, sym_name(c, along), sym_div(c, sym_extent(c, along), sym_int(c, group))),
           in = sym_var(c, "b", sym_int(c, group));
  for (int j = 0; j < 2; j++) {
    const ex_node l = *exn(m, load[j]);
    const uint32_t axis = alone_in(k->p, &l, along);
    const grouping g = {axis, group, innermost_axis(k->p, l.tensor)};
    const tid copy = copy_in_groups(k, s, l.tensor, &g);
    sz idx[MAX_RANK];
    place_in_copy(&g, l.args, l.nargs, at, in, idx);
    const ex other = l.otherwise ? expr_const(m, k->p->narrow, exn(m, l.otherwise)->k) : 0;
    o.in[j] = expr_cast(m, (etype)l.type, expr_load(m, copy, idx, l.nargs + 1, other));
  }
  atom *vars = NEWN(k->p->a, atom, red.nargs + 1);
  for (uint32_t i = 0; i < red.nargs; i++) {
    vars[i] = red.args[i];
    if (vars[i] == along) sym_is_atom(c, at, &vars[i]);
  }
  sym_is_atom(c, in, &vars[red.nargs]);
  const ex body = expr_rewrite(m, red.body, &(ex_map){.node = read_copy, .env = &o});
  xs(m, s)->value = expr_reduce(m, (rop)red.op, vars, red.nargs + 1, 0, body, 0, (etype)red.acc, (etype)red.type);
}
