/* How does a recurrence run backwards? (R8)
 *
 * The members of a recurrence over t < T have their adjoints in a recurrence over u = T-1-t, in reverse order.
 * With a[M] the adjoint of member M, by u:
 *     a[M][u] = (what readers outside contribute to M[T-1-u])  +  sum over readers R inside, at M[t - c]: (their
 *     contribution, computed at R's own step) read at u - c, else 0
 * A contribution is made in R's frame, where all that it reads of the forward pass is in range; it is a member stage of
 * its own, unless it is element-wise and c = 0. What members contribute to tensors outside (weights, the terms that do
 * not wait for the past) leaves the recurrence: an ordinary contribution over t too, that reads a[R] at T-1-t: one
 * contraction after the loop.
 */
#include "grad/grad_in.h"

typedef struct member {
  uint32_t s;          /* the stage */
  tid t;               /* its tensor */
  tid a;               /* its adjoint by the reverse step */
  uint32_t axis;       /* which axis carries the step */
  contribs inner;      /* what it contributes to members */
  contribs outer;      /* what it contributes to other tensors */
  bool reached;        /* it has an adjoint */
  axis axes[MAX_RANK]; /* axes of its adjoint */
  sz idx[MAX_RANK];    /* index on each axis of its adjoint */
  ex sum;              /* contributions of inside readers */
  VEC(piece) pending;  /* stages that stand behind it */
} member;
typedef struct backward {
  gr *g;               /* differentiation */
  VEC(member) ms;      /* the members of the recurrence */
  map *of;             /* tensor -> member + 1 */
  uint32_t recurrence; /* index of the reverse recurrence */
  atom t;              /* variable of the step */
  sz extent;           /* number of steps */
} backward;

static member *of(backward *r, tid t) {
  uint64_t i;
  return map_getu(r->of, t, &i) ? &r->ms.v[i] : NULL;
}
static void collect(backward *r) {
  gr *g = r->g;
  emodule *m = g->m;
  const block *b = &m->blocks.v[g->block];
  sz back = sym_sub(g->c, sym_addi(g->c, r->extent, -1), sym_of_atom(g->c, r->t));
  for (uint32_t i = 0; i < b->items.n; i++) {
    if (b->items.v[i].kind != IT_STAGE) continue;
    const stage *s = xs(m, b->items.v[i].index);
    if (s->dead || s->recurrence != r->recurrence || s->tensor >= g->ntensors || !g->active[s->tensor]) continue;
    member q = {.s = b->items.v[i].index, .t = s->tensor, .axis = MAX_RANK, .reached = g->into[s->tensor].n > 0};
    for (uint32_t k = 0; k < s->naxes; k++)
      if (s->axes[k].n == 1 && s->axes[k].d[0].var == r->t) q.axis = k;
    if (q.axis == MAX_RANK)
      grad_refuse(g, xt(m, s->tensor)->origin, "a recurrence whose step is no axis of %s", xt(m, s->tensor)->name);
    map_putu(r->of, q.t, r->ms.n);
    vec_push(g->a, r->ms, q);
  }
  for (uint32_t i = 0; i < r->ms.n; i++) {
    member *q = &r->ms.v[i];
    const tensor t = *xt(m, q->t);
    contribs all = {0};
    q->a = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, arena_fmt(g->a, "%s.u", grad_name(g, q->t)), t.origin);
    if (!xs(m, q->s)->stop) grad_stage_loads(g, q->s, q->a, back, &all);
    for (uint32_t k = 0; k < all.n; k++) vec_push(g->a, *(of(r, all.v[k].x) ? &q->inner : &q->outer), all.v[k]);
  }
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 0; i < r->ms.n; i++)
      for (uint32_t k = 0; r->ms.v[i].reached && k < r->ms.v[i].inner.n; k++) {
        member *to = of(r, r->ms.v[i].inner.v[k].x);
        again |= !to->reached;
        to->reached = true;
      }
  }
}
/* A contribution of q to another member, or to itself at an earlier step. */
static void inside(backward *r, member *q, const contrib *k, sz u) {
  gr *g = r->g;
  member *to = of(r, k->x);
  int64_t later;
  sz last = sym_addi(g->c, r->extent, -1);
  const char *name = xt(g->m, k->x)->name;
  if (!sym_is_int(g->c, sym_sub(g->c, sym_of_atom(g->c, r->t), k->idx[to->axis]), &later) || later < 0)
    grad_refuse(g, k->origin, "a recurrence that reads %s at step %s; expected t - constant", name,
                sym_str(g->c, k->idx[to->axis]));
  frame_u f = {
      .t = r->t, .t_of_u = EK_PLANTED("grad-recurrence") ? u : sym_sub(g->c, last, u), .u = u, .axis = to->axis};
  contribs todo = {0};
  vec_push(g->a, todo, *k);
  for (uint32_t i = 0; i < todo.n; i++) {
    gathered p;
    contrib now = todo.v[i];
    if (!grad_gather(g, &now, to->axes, to->idx, &f, &p)) {
      if (!grad_split_cases(g, &now, &todo))
        grad_refuse(g, k->origin, "a recurrence that reads %s at indices that cannot be inverted", name);
      continue;
    }
    if (p.empty) continue;
    piece x = grad_piece(g, k->x, &p, to->axes, &f, later);
    to->sum = to->sum ? k_add(g->m, to->sum, x.ref) : x.ref;
    vec_push(g->a, q->pending, x);
  }
}
static void emit(backward *r, member *q, tid outside, uint32_t recurrence, sz u) {
  gr *g = r->g;
  emodule *m = g->m;
  const tensor t = *xt(m, q->t);
  ex value = q->sum;
  if (outside) {
    sz at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
      at[i] = i == q->axis ? sym_sub(g->c, sym_addi(g->c, r->extent, -1), u) : q->idx[i];
    ex o = expr_load(m, outside, at, t.rank, 0);
    value = value ? k_add(m, o, value) : o;
  }
  uint32_t s = grad_append(g, q->a, q->axes, t.rank, value ? value : expr_f(m, t.type, 0));
  xs(m, s)->recurrence = recurrence;
  for (uint32_t i = 0; i < q->pending.n; i++) grad_piece_emit(g, &q->pending.v[i], recurrence);
}
static tid forward_order(gr *g, const member *q, sz extent) { /* The adjoint by forward steps: a[M] by t. */
  emodule *m = g->m;
  const tensor t = *xt(m, q->t);
  axis axes[MAX_RANK];
  sz idx[MAX_RANK];
  grad_axes(g, q->t, axes, idx);
  tid r = expr_tensor(m, TK_STAGE, t.type, t.shape, t.rank, grad_name(g, q->t), t.origin);
  idx[q->axis] = sym_sub(g->c, sym_addi(g->c, extent, -1), idx[q->axis]);
  grad_append(g, r, axes, t.rank, expr_load(m, q->a, idx, t.rank, 0));
  return r;
}
void grad_recurrence(gr *g, uint32_t recurrence_id) {
  emodule *m = g->m;
  backward r = {.g = g,
                .of = map_new(g->a),
                .recurrence = recurrence_id,
                .t = m->recurrences.v[recurrence_id].var,
                .extent = m->recurrences.v[recurrence_id].extent};
  collect(&r);
  bool any = false;
  for (uint32_t i = 0; i < r.ms.n; i++) any |= r.ms.v[i].reached;
  if (!any) return;
  /* 1. the adjoint that readers outside the recurrence contribute: ordinary stages, in front of it */
  tid *outside = NEWN(g->a, tid, r.ms.n);
  for (uint32_t i = 0; i < r.ms.n; i++)
    outside[i] = r.ms.v[i].reached ? grad_finish(g, r.ms.v[i].t, &g->into[r.ms.v[i].t]) : 0;
  /* 2. the adjoints that its own stages contribute, each with the variables of the stage that reads */
  atom ua = 0;
  sz u = sym_var(g->c, "u", r.extent);
  sym_is_atom(g->c, u, &ua);
  vec_push(m->a, m->recurrences, ((recurrence){ua, r.extent}));
  uint32_t back = m->recurrences.n - 1;
  for (uint32_t i = 0; i < r.ms.n; i++) {
    member *q = &r.ms.v[i];
    grad_axes(g, q->t, q->axes, q->idx);
    digit *d = NEW(m->a, digit);
    *d = (digit){ua, r.extent};
    q->axes[q->axis] = (axis){1, d}, q->idx[q->axis] = u;
  }
  for (uint32_t i = 0; i < r.ms.n; i++)
    for (uint32_t k = 0; r.ms.v[i].reached && k < r.ms.v[i].inner.n; k++)
      inside(&r, &r.ms.v[i], &r.ms.v[i].inner.v[k], u);
  /* 3. the recurrence that runs backwards */
  for (uint32_t i = r.ms.n; i-- > 0;)
    if (r.ms.v[i].reached) emit(&r, &r.ms.v[i], outside[i], back, u);
  /* 4. adjoints that leave the recurrence, for what it reads from outside */
  for (uint32_t i = 0; i < r.ms.n; i++) {
    member *q = &r.ms.v[i];
    if (!q->reached) continue;
    if (g->wanted[q->t]) g->adj[q->t] = forward_order(g, q, r.extent);
    for (uint32_t k = 0; k < q->outer.n; k++) grad_contribute(g, q->outer.v[k]);
  }
}
