/* In which order do the axes of a tensor lie?
 *
 * The axis whose variable runs over the lanes of the stage that computes the tensor is innermost (so a contraction's
 * columns: channels last); the other axes keep the order in which the stage's largest operand has them, but what
 * readers sum over is innermost. A copy of an input has the order that its readers' lanes want most.
 */
#include "schedule/kernel.h"
#include "schedule/layout_in.h"
#include "schedule/tile.h"
#include <stdlib.h>
#include <string.h>

static void to_end(uint32_t *order, uint32_t rank, uint32_t axis) {
  uint32_t at = 0;
  while (order[at] != axis) at++;
  for (; at + 1 < rank; at++) order[at] = order[at + 1];
  order[rank - 1] = axis;
}
/* whatever of the index' variables goes on, it goes on by a vector or more, or anywhere */
static bool leaps(ctx *c, sz index) {
  enum { LEAP = 8 };
  if (sym_uses_kind(c, index, AT_DATA)) return true; /* the place is found by data */
  STACK_U32VEC(vs);
  int64_t least = INT64_MAX, k;
  sz coef, rest;
  sym_atoms(c, index, AT_VAR, ctx_arena(c), &vs);
  for (uint32_t v = 0; v < vs.n; v++)
    least = min64(least, sym_linear(c, index, vs.v[v], &coef, &rest) && sym_is_int(c, coef, &k) ? llabs(k) : 1);
  return vs.n && least >= LEAP;
}
/* Axes of tensors in which their readers go on by whole vectors or more; also those in which a reader goes on in
 * steps of one, but stores what the next one will read so. */
void order_leaps_of(lay *L, uint32_t si) {
  emodule *m = L->m;
  const stage *s = xs(m, si);
  u32vec loads = {0};
  place in = L->in[s->tensor];
  const update *u =
      in.stage && in.update < xs(m, in.stage - 1)->updates.n ? &xs(m, in.stage - 1)->updates.v[in.update] : NULL;
  if (!s->value || exn(m, s->value)->kind == EX_REDUCE) return;
  expr_loads(m, s->value, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(m, loads.v[i]);
    for (uint32_t j = 0; j < n->nargs; j++) {
      atom v;
      if (!sym_is_atom(L->c, n->args[j], &v) || sym_kind(L->c, v) != AT_VAR) {
        if (leaps(L->c, n->args[j])) L->leaps[n->tensor] |= 1u << j;
        continue;
      }
      for (uint32_t x = 0; u && x < s->naxes; x++)
        for (uint32_t z = 0; z < u->nidx && s->axes[x].n == 1 && s->axes[x].d[0].var == v; z++)
          if (u->idx[z] == exn(m, u->value)->args[x] && L->leaps[xs(m, in.stage - 1)->tensor] >> z & 1)
            L->leaps[n->tensor] |= 1u << j;
    }
  }
}
/* A placement whose readers would gather along its innermost axis gets another one: the last that they read in steps
 * of one. */
void order_no_leaps(lay *L, tid t, uint32_t *order) {
  const tensor *x = xt(L->m, t);
  uint32_t n = x->rank;
  kernel_class k =
      x->kind == TK_STAGE && xs(L->m, x->stage)->kernel ? L->m->kernels.v[xs(L->m, x->stage)->kernel - 1].cls : 0;
  if (x->kind != TK_STAGE || !(xs(L->m, x->stage)->tiled || k == KC_ELEMENTWISE || k == KC_GATHER) || !n ||
      !(L->leaps[t] >> order[n - 1] & 1))
    return;
  for (uint32_t ax = n; ax-- > 0;)
    if (!(L->leaps[t] >> ax & 1) && sym_int_or(L->c, x->shape[ax], 0) > 1) {
      to_end(order, n, ax);
      return;
    }
}
/* Makes the axis that v counts the innermost one. */
static void innermost(const stage *s, atom v, uint32_t *order) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++)
      if (s->axes[i].d[j].var == v) {
        to_end(order, s->naxes, i);
        return;
      }
}
/* The variables of the stage's loops within a step: that of a recurrence's step counts launches or an outer loop. */
static void domain_of(const emodule *m, const stage *s, arena *a, u32vec *out) {
  const atom step = s->recurrence ? m->recurrences.v[s->recurrence].var : 0;
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++)
      if (s->axes[i].d[j].var != step) vec_push(a, *out, s->axes[i].d[j].var);
}
/* The tile of a stage alone; a: for the answer's accesses, and all that is needed on the way. */
static choice choose(lay *L, index_view *iv, uint32_t si, const map *stored, accesses *acc, arena *a) {
  const stage *s = xs(L->m, si);
  u32vec one = {0}, dom = {0}, red = {0};
  view_begin(iv, L->p, a);
  vec_push(a, one, si);
  domain_of(L->m, s, a, &dom);
  const ex_node *root = exn(L->m, s->value);
  if (root->kind == EX_REDUCE)
    for (uint32_t i = 0; i < root->nargs; i++) vec_push(a, red, root->args[i]);
  group_accesses(iv, &one, stored, acc);
  return tile_choose(iv, &one, acc, &dom, &red, &(tile_given){0});
}
double order_saves(lay *L, uint32_t si, bool stored) {
  arena *a = arena_new(L->c);
  map *stores = map_new(a);
  index_view iv;
  accesses acc = {0};
  if (stored) map_putu(stores, xs(L->m, si)->tensor, 1);
  const sym_draft draft = sym_draft_begin(L->c);
  const double saved = choose(L, &iv, si, stores, &acc, a).saved;
  sym_draft_end(L->c, &draft);
  arena_free(a);
  return saved;
}
/* How well its lanes run, where it lies as it will if that is known: an output does in rows. */
static double reader_saves(lay *L, uint32_t si) {
  stage *s = xs(L->m, si);
  layout had = L->p->layouts[s->tensor];
  bool output = false;
  sz elems;
  for (uint32_t i = 0; i < L->m->outputs.n; i++) output |= L->m->outputs.v[i].t == s->tensor;
  if (output) L->p->layouts[s->tensor] = layout_dense(L->p, xt(L->m, s->tensor)->shape, s->naxes, NULL, &elems);
  const double saved = order_saves(L, si, output);
  L->p->layouts[s->tensor] = had;
  return saved;
}
u32vec order_readers(lay *L, tid t) {
  if (L->readers) return L->readers[t];
  L->readers = NEWN(L->a, u32vec, L->m->tensors.n);
  for (uint32_t r = 0; r < L->m->stages.n; r++) {
    if (xs(L->m, r)->dead || !xs(L->m, r)->value) continue;
    u32vec l = schedule_loads(L->p, r);
    for (uint32_t k = 0; k < l.n; k++) {
      u32vec *of = &L->readers[exn(L->m, l.v[k])->tensor];
      if (!of->n || of->v[of->n - 1] != r) vec_push(L->a, *of, r);
    }
  }
  return L->readers[t];
}
/* A copy of an input has the order that its readers' lanes want most; the input's own one, if they don't mind. */
static void wanted(lay *L, uint32_t si, uint32_t *order) {
  const stage *s = xs(L->m, si);
  const uint32_t rank = s->naxes;
  layout had = L->p->layouts[s->tensor];
  double best = 0;
  uint32_t in = 0;
  if (!rank) return;
  const u32vec readers = order_readers(L, s->tensor);
  /* which axis innermost? As it stands first. One of open size may be too short for lanes. */
  for (uint32_t i = rank; i-- > 0;) {
    uint32_t o[MAX_RANK];
    double saved = 0;
    sz elems;
    if (i < rank - 1 && !sym_is_int(L->c, xt(L->m, s->tensor)->shape[i], NULL)) continue;
    memcpy(o, order, rank * sizeof *o);
    to_end(o, rank, i);
    L->p->layouts[s->tensor] = layout_dense(L->p, xt(L->m, s->tensor)->shape, rank, o, &elems);
    for (uint32_t r = 0; r < readers.n; r++) saved += reader_saves(L, readers.v[r]);
    if (i == rank - 1 || cost_copy_by_elements(saved, best)) best = saved, in = i;
  }
  L->p->layouts[s->tensor] = had;
  to_end(order, rank, in);
}
/* So has a part of one that stands in a placement. */
static void wanted_piece(lay *L, uint32_t si, uint32_t *order) {
  const place in = L->in[xs(L->m, si)->tensor];
  const stage *s = xs(L->m, si), *whole = xs(L->m, in.stage - 1);
  const update *u = in.update < whole->updates.n ? &whole->updates.v[in.update] : NULL;
  uint32_t all[MAX_RANK], o[MAX_RANK], rank = whole->naxes, n = 0;
  if (!u || !rank || L->in[whole->tensor].stage) return;
  for (uint32_t i = 0; i < rank; i++) all[i] = i;
  wanted(L, in.stage - 1, all);
  for (int last = 0; last < 2; last++)
    for (uint32_t i = 0; i < s->naxes; i++) {
      u32vec vars = {0};
      bool inner = false;
      sym_atoms(L->c, exn(L->m, u->value)->args[order[i]], AT_VAR, L->a, &vars);
      for (uint32_t v = 0; v < vars.n; v++) inner |= sym_uses(L->c, u->idx[all[rank - 1]], vars.v[v]);
      if (inner == last) o[n++] = order[i];
    }
  memcpy(order, o, n * sizeof *o);
}
/* Does the sum read tensors of the run only? Constants are packed in groups as it is. */
static bool reads_no_constant(lay *L, const ex_node *red) {
  u32vec loads = {0};
  bool none = true;
  expr_loads(L->m, red->body, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) none &= xt(L->m, exn(L->m, loads.v[i])->tensor)->kind != TK_CONST;
  return none;
}
/* The axis that is a group of terms of an instruction that computes a reader's sum; none: rank. */
static uint32_t group_axis(lay *L, tid t, uint32_t rank) {
  const readings *rs = &L->p->readers[t];
  for (uint32_t i = 0; i < rs->n; i++) {
    const ex_node *red = rs->v[i].sum ? exn(L->m, rs->v[i].sum) : NULL, *load = exn(L->m, rs->v[i].load);
    const instruction *by = red ? instruction_of_sum(L->p, red, target_lanes(L->p->t, (etype)red->acc), NULL) : NULL;
    for (uint32_t d = 0; by && by->group > 1 && reads_no_constant(L, red) && d < rank; d++)
      for (uint32_t r = 0; r < red->nargs; r++)
        if (load->args[d] == sym_of_atom(L->c, red->args[r]) &&
            sym_eq(L->c, xt(L->m, t)->shape[d], sym_int(L->c, by->group)))
          return d;
  }
  return rank;
}
/* The axis of groups lies innermost. Otherwise axes over which all readers sum do, if the innermost is one: then the
 * others, which count rows, follow one another as one. */
void order_sums_last(lay *L, tid t, uint32_t rank, uint32_t *order) {
  const uint32_t group = group_axis(L, t, rank);
  if (group < rank) {
    to_end(order, rank, group);
    return;
  }
  const readings *rs = &L->p->readers[t];
  bool summed[MAX_RANK] = {0};
  for (uint32_t i = 0; i < rs->n; i++) {
    const ex_node *red = rs->v[i].sum ? exn(L->m, rs->v[i].sum) : NULL, *load = exn(L->m, rs->v[i].load);
    for (uint32_t d = 0; d < rank; d++) {
      bool one = false;
      for (uint32_t r = 0; red && r < red->nargs; r++) one |= load->args[d] == sym_of_atom(L->c, red->args[r]);
      if (i && one != summed[d]) return;
      summed[d] = one;
    }
  }
  if (!rank || !summed[order[rank - 1]]) return;
  uint32_t o[MAX_RANK], n = 0;
  for (int last = 0; last < 2; last++)
    for (uint32_t k = 0; k < rank; k++)
      if (summed[order[k]] == last) o[n++] = order[k];
  memcpy(order, o, rank * sizeof *o);
}
/* The order of the strides of the largest operand. */
static void as_operand(index_view *iv, const stage *s, const accesses *acc, uint32_t *order) {
  u32vec dom = {0};
  const access *big = NULL;
  uint32_t big_rank = 0;
  int64_t st[MAX_RANK] = {0};
  domain_of(iv->p->m, s, iv->a, &dom);
  for (uint32_t i = 0; i < acc->n; i++) {
    uint32_t used = 0;
    for (uint32_t d = 0; d < dom.n; d++) used += address_coef(iv, acc->v[i].address, dom.v[d]) > 0;
    if (!acc->v[i].constant && (!big || used > big_rank)) big = &acc->v[i], big_rank = used;
  }
  for (uint32_t i = 0; i < s->naxes && big; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) {
      int64_t k = address_coef(iv, big->address, s->axes[i].d[j].var);
      if (k > 0 && (st[i] == 0 || k < st[i])) st[i] = k;
      if (k == INT64_MIN + 1) st[i] = INT64_MAX / 2 - i; /* symbolic stride: outer */
    }
  for (uint32_t i = 1; i < s->naxes; i++)
    /* stable: an axis the operand does not have keeps its place relative to the one before */
    for (uint32_t j = i; j > 0; j--) {
      const uint32_t x = order[j - 1], y = order[j];
      if (!st[x] || !st[y] || st[x] >= st[y]) break;
      order[j - 1] = y, order[j] = x;
    }
}
void order_preferred(lay *L, uint32_t si, uint32_t *order) {
  emodule *m = L->m;
  stage *s = xs(m, si);
  uint32_t rank = s->naxes;
  for (uint32_t i = 0; i < rank; i++) order[i] = i;
  if (!s->value || L->p->level == 0) return;
  atom row;
  if (kernel_is_point_recurrence(L->p, si, NULL, &row)) {
    innermost(s, row, order);
    return;
  }
  const ex_node root = *exn(m, s->value); /* nodes move as the choice makes others */
  if (root.kind == EX_LOAD && (!root.otherwise || L->in[s->tensor].stage) && xt(m, root.tensor)->kind == TK_INPUT &&
      s->kernel) {
    const kernel *k = &m->kernels.v[s->kernel - 1];
    if (L->in[s->tensor].stage)
      wanted_piece(L, si, order);
    else if (k->cls == KC_COPY)
      wanted(L, si, order);
    /* a copy in front of a window: as it was made (pass_windows.c) */
    if (k->cls == KC_COPY || k->stages.v[k->stages.n - 1] != si) return;
  }
  index_view iv;
  accesses acc = {0};
  arena *a = arena_new(L->c);
  const sym_draft draft = sym_draft_begin(L->c); /* its addresses are of no use to kernels, which number points anew */
  const choice ch = choose(L, &iv, si, map_new(a), &acc, a);
  if (root.kind != EX_REDUCE) as_operand(&iv, s, &acc, order);
  sym_draft_end(L->c, &draft);
  arena_free(a);
  if (ch.lane && !ch.lane_reduced && !EK_PLANTED("schedule-axes")) innermost(s, ch.lane, order);
}
