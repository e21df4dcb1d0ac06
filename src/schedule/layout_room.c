/* How much room is left around the axes of a tensor, and between their places?
 *
 * Around: guarded reads with a constant outside value become a halo of that constant when it is narrow; then the reads
 * need no guard. Between: what is wanted together must not fall on too few sets of the nearest cache.
 */
#include "schedule/layout_in.h"
#include <string.h>

enum {
  MAX_PAD_LINES = 8,
  MAX_HALO = 8,
  HALO_GROWTH = 2,
  /* most places of a halo where a sum would need a guard at every step, or as many as make the tensor so many times as
   * large */
  SUM_GROWTH = 8
};
/* So many places of an axis, `steps` of it apart, are wanted together: a set of the nearest cache shall not be asked
 * for more of them than it holds. count 0: none. */
typedef struct padding {
  uint32_t axis; /* the axis */
  int64_t steps; /* places between two that are read together */
  int64_t count; /* places that are read together; 0: none */
} padding;
sz layout_padded_stride(splan *p, sz stride, int64_t size, int64_t steps, int64_t count) {
  const target *t = p->t;
  int64_t way = t->l1_ways ? (int64_t)(t->l1 / t->l1_ways) : 0, line = max64(1, (int64_t)t->line / size), n;
  if (!way || !t->line || !sym_is_int(p->m->c, stride, &n) || n >= INT32_MAX || n < line) return stride;
  count = min64(count, (int64_t)(t->l1 / t->line));
  for (int64_t more = 0; more < MAX_PAD_LINES; more++) {
    /* sets of the cache that the places fall on */
    int64_t sets = way / gcd64((n + more * line) * size * steps, way);
    if (sets * t->l1_ways >= count)
      return sym_addi(p->m->c, stride, (EK_PLANTED("schedule-padding") ? -1 : 1) * more * line);
  }
  return stride;
}
/* ---- halos ----------------------------------------------------------------------------------- */
/* bound of an index over its variables: affine with constant coefficients, or else between numbers; 0: not known */
static sz extreme(lay *L, sz idx, bool high) {
  STACK_U32VEC(vs);
  sym_atoms(L->c, idx, AT_VAR, L->a, &vs);
  for (uint32_t i = 0; i < vs.n; i++) {
    sz coef, rest;
    int64_t k;
    if (!sym_linear(L->c, idx, vs.v[i], &coef, &rest) || !sym_is_int(L->c, coef, &k)) {
      int64_t lo, hi;
      sym_range(L->c, idx, &lo, &hi);
      return sym_uses_kind(L->c, idx, AT_DATA) || lo == -SYM_INF || hi == SYM_INF ? 0 : sym_int(L->c, high ? hi : lo);
    }
    idx =
        (k > 0) == high ? sym_add(L->c, rest, sym_muli(L->c, sym_addi(L->c, sym_extent(L->c, vs.v[i]), -1), k)) : rest;
  }
  return sym_uses_kind(L->c, idx, AT_DATA) ? 0 : idx;
}
static bool grows_little(const tensor *t, ctx *c, const int64_t *lo, const int64_t *hi, double most) {
  double by = 1;
  for (uint32_t j = 0; j < t->rank; j++) {
    int64_t n = sym_int_or(c, t->shape[j], 0);
    if (lo[j] <= MAX_HALO && hi[j] <= MAX_HALO) continue;
    if (n <= 0) return false;
    by *= (double)(n + lo[j] + hi[j]) / (double)n;
  }
  return by <= most;
}
bool room_outside(lay *L, const ex_node *n, int64_t *lo, int64_t *hi) {
  const tensor *t = xt(L->m, n->tensor);
  for (uint32_t j = 0; j < n->nargs; j++) {
    int64_t x, y;
    lo[j] = hi[j] = 0;
    if (view_in_range(L->c, NULL, j, n->args[j], t->shape[j])) continue;
    const sz a = extreme(L, n->args[j], false), b = extreme(L, n->args[j], true);
    if (!a || !b) return false;
    if (!sym_ge0(L->c, a)) {
      if (!sym_is_int(L->c, a, &x) || -x > INT32_MAX) return false;
      lo[j] = -x;
    }
    const sz over = sym_sub(L->c, b, sym_addi(L->c, t->shape[j], -1));
    if (sym_ge0(L->c, sym_neg(L->c, over))) continue;
    /* (o - 1)*st + ... - (s - 1) with o = (s + ..)//st: bounded by the interval of the difference */
    if (sym_is_int(L->c, over, &y)) {
      if (y > INT32_MAX) return false;
    } else {
      int64_t l, u;
      sym_range(L->c, over, &l, &u);
      y = u;
      bool ok = u <= MAX_HALO;
      for (int64_t q = 0; !ok && q <= MAX_HALO; q++)
        if (sym_ge0(L->c, sym_addi(L->c, sym_neg(L->c, over), q))) y = q, ok = true;
      if (!ok) return false;
    }
    hi[j] = max64(y, 0);
  }
  return true;
}
bool room_fits(lay *L, tid t, const int64_t *lo, const int64_t *hi) {
  return grows_little(xt(L->m, t), L->c, lo, hi, SUM_GROWTH);
}
void room_halo_of(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  (void)kernel, (void)recurrence;
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(L->m, loads.v[i]);
    if (!n->otherwise) continue;
    halo_room *h = &L->halo[n->tensor];
    const ex_node *o = exn(L->m, n->otherwise);
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    if (o->kind != EX_CONST || (h->any && memcmp(&h->fill, &o->k, sizeof o->k))) continue;
    if (!room_outside(L, n, lo, hi) ||
        !grows_little(xt(L->m, n->tensor), L->c, lo, hi, exn(L->m, e)->kind == EX_REDUCE ? SUM_GROWTH : HALO_GROWTH))
      continue;
    h->any = true;
    h->fill = o->k;
    for (uint32_t j = 0; j < n->nargs; j++) h->lo[j] = max64(h->lo[j], lo[j]), h->hi[j] = max64(h->hi[j], hi[j]);
  }
}

/* ---- rows and pieces that lie apart ----
 * What lies a multiple of a way of the nearest cache apart falls on the same of its sets: of a tile's rows only as many
 * stay as it has ways, and what streams through pushes them out. So do the pieces that are written together, or read at
 * one place, and the rows of a matrix whose panels each step of a recurrence reads again. Where a product's rows, a
 * placement's pieces or such a matrix's rows would lie so, lines are left free between them. What counts rows and
 * places inside of them by one variable would then see a leap, so that both must have variables of their own wherever
 * the tensor is read or written. */
static bool uses(lay *L, const ex_node *load, atom v) {
  for (uint32_t i = 0; i < load->nargs; i++)
    if (sym_uses(L->c, load->args[i], v)) return true;
  return false;
}
/* A variable of the results counts that axis, and another factor does not have it: in steps of so many; 0: none
 * does. */
static int64_t row_steps(lay *L, const reading *r, uint32_t axis) {
  STACK_U32VEC(vs);
  u32vec loads = {0};
  if (!r->sum) return 0;
  const ex_node *red = exn(L->m, r->sum);
  sym_atoms(L->c, exn(L->m, r->load)->args[axis], AT_VAR, L->a, &vs);
  expr_loads(L->m, r->sum, L->a, &loads);
  for (uint32_t k = 0; k < vs.n; k++) {
    bool own = true;
    for (uint32_t i = 0; i < red->nargs; i++) own &= red->args[i] != vs.v[k];
    sz coef;
    int64_t by = 1;
    if (own && (!sym_linear(L->c, exn(L->m, r->load)->args[axis], vs.v[k], &coef, NULL) ||
                !sym_is_int(L->c, coef, &by) || by < 1 || by > INT16_MAX))
      by = 1;
    for (uint32_t i = 0; i < loads.n && own; i++)
      if (!uses(L, exn(L->m, loads.v[i]), vs.v[k])) return by;
  }
  return 0;
}
/* axes order[0..at], and those behind */
static bool share_variables(lay *L, const sz *idx, const uint32_t *order, uint32_t n, uint32_t at) {
  for (uint32_t i = 0; i <= at; i++) {
    STACK_U32VEC(vs);
    sym_atoms(L->c, idx[order[i]], AT_VAR, L->a, &vs);
    for (uint32_t k = 0; k < vs.n; k++)
      for (uint32_t j = at + 1; j < n; j++)
        if (sym_uses(L->c, idx[order[j]], vs.v[k])) return true;
  }
  return false;
}
bool room_may_grow(lay *L, tid t, const uint32_t *order, uint32_t at) {
  const tensor *x = xt(L->m, t);
  const stage *s = xs(L->m, x->stage);
  if (at + 1 >= x->rank) return false;
  for (uint32_t i = 0; i < L->p->readers[t].n; i++)
    if (share_variables(L, exn(L->m, L->p->readers[t].v[i].load)->args, order, x->rank, at)) return false;
  for (uint32_t i = 0; i < s->updates.n; i++)
    if (share_variables(L, s->updates.v[i].idx, order, x->rank, at)) return false;
  return true;
}
/* The innermost axis that counts rows. */
static padding row_padding(lay *L, tid t, const uint32_t *order) {
  padding far = {.count = L->p->t->l1_ways + 1};
  uint32_t at = xt(L->m, t)->rank;
  while (!far.steps && at-- > 0)
    for (uint32_t i = 0; i < L->p->readers[t].n; i++)
      far.steps = max64(far.steps, row_steps(L, &L->p->readers[t].v[i], order[at]));
  if (!far.steps || !room_may_grow(L, t, order, at)) return (padding){0};
  far.axis = order[at];
  return far;
}
/* Does a step of a recurrence compute the sum? */
static bool sums_each_step(lay *L, const reading *r) {
  u32vec loads = {0};
  if (!r->sum) return false;
  expr_loads(L->m, r->sum, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const tensor *x = xt(L->m, exn(L->m, loads.v[i])->tensor);
    if (x->kind == TK_STAGE && xs(L->m, x->stage)->recurrence) return true;
  }
  return false;
}
/* The axis along which the sum of each step of a recurrence runs through a matrix, whose columns lie side by side. */
static padding step_padding(lay *L, tid t, const uint32_t *order) {
  const tensor *x = xt(L->m, t);
  if (x->rank < 2 || x->kind != TK_STAGE || xs(L->m, x->stage)->recurrence) return (padding){0};
  for (uint32_t i = 0; i < L->p->readers[t].n; i++) {
    const reading *r = &L->p->readers[t].v[i];
    if (!sums_each_step(L, r) || !row_steps(L, r, order[x->rank - 1])) continue;
    const ex_node *load = exn(L->m, r->load), *red = exn(L->m, r->sum);
    for (uint32_t at = x->rank - 1; at-- > 0;)
      for (uint32_t k = 0; k < red->nargs; k++)
        if (load->args[order[at]] == sym_of_atom(L->c, red->args[k]) && room_may_grow(L, t, order, at))
          return (padding){order[at], 1, sym_int_or(L->c, x->shape[order[at]], 0)};
  }
  return (padding){0};
}
/* Axes of which nothing but constants is asked, by all that is put there or by one reader: places of that are wanted
 * together. The innermost of them, where these are the outer ones. */
static void find_constants(lay *L, const sz *idx, uint32_t n, uint32_t *axes) {
  for (uint32_t i = 0; i < n; i++)
    if (!sym_is_int(L->c, idx[i], NULL)) *axes &= ~(1u << i);
}
static padding piece_padding(lay *L, tid t, const uint32_t *order) {
  const tensor *x = xt(L->m, t);
  const stage *s = xs(L->m, x->stage);
  const uint32_t all = (1u << x->rank) - 1;
  uint32_t axes = s->tiled && s->updates.n ? all : 0, at = 0;
  padding far = {.steps = 1, .count = 1};
  for (uint32_t i = 0; i < s->updates.n; i++) find_constants(L, s->updates.v[i].idx, x->rank, &axes);
  for (uint32_t i = 0; i < L->p->readers[t].n && !axes; i++) {
    axes = all;
    find_constants(L, exn(L->m, L->p->readers[t].v[i].load)->args, x->rank, &axes);
  }
  while (at < x->rank && axes >> order[at] & 1 &&
         mul64(far.count, sym_int_or(L->c, x->shape[order[at]], 1), &far.count))
    far.axis = order[at++];
  return at && far.count > 1 && room_may_grow(L, t, order, at - 1) ? far : (padding){0};
}
void room_pads(lay *L, tid t, const sz *shape, storage *s) {
  const tensor *x = xt(L->m, t);
  const padding far[] = {L->mat[t] ? row_padding(L, t, s->order) : (padding){0}, piece_padding(L, t, s->order),
                         L->mat[t] ? step_padding(L, t, s->order) : (padding){0}};
  sz stride = sym_int(L->c, 1);
  s->together = far[1].count, s->pieces = far[1].axis;
  for (uint32_t k = x->rank; k-- > 0 && (far[0].count || far[1].count || far[2].count);) {
    const uint32_t ax = s->order[k];
    const sz tight = stride;
    for (uint32_t i = 0; i < 3; i++)
      if (far[i].count && ax == far[i].axis)
        stride = layout_padded_stride(L->p, stride, et_bytes(x->type), far[i].steps, far[i].count);
    sym_is_int(L->c, sym_sub(L->c, stride, tight), &s->pad[ax]);
    stride = sym_mul(L->c, stride, sym_addi(L->c, shape[ax], s->halo.any ? s->halo.lo[ax] + s->halo.hi[ax] : 0));
  }
}
