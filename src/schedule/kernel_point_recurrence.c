/* How does a recurrence run whose points do not see each other, and of which only the last step is read?
 *
 * Each point walks on its own: the state of a step says where to look in the next one (the node of a tree, a link
 * of a chain), so nothing lies side by side for vectors. Steps go innermost, the state stays in registers,
 * and only the last one is stored: the tensor has room for one step. What such a walk waits for is memory, so a
 * tile of TILE_POINTS points goes together, one step each in turn. Where all steps do the same, a state that stays
 * once stays forever, and a tile is over when all of its states do. The rows of the tile run over a variable that
 * the first state does not depend on, if there is one: walks that begin at one place end at about the same
 * time, and share what they read first. Points that are left over go in tiles along another variable.
 */
#include "schedule/kernel_in.h"

enum { TILE_POINTS = 8, CHUNK = 4 * TILE_POINTS };

typedef struct walk {
  const stage *s; /* the stage */
  uint32_t axis;  /* axis of the step */
  atom step;      /* variable of the step */
  ex state;       /* the load of the step before */
  ex first;       /* what it is before the first step */
  bool alike;     /* all steps do the same */
} walk;

/* does the state occur in an index that is read from data? */
static bool in_index(emodule *m, ex x, ex state, map *seen) {
  const ex_node *n = exn(m, x);
  uint64_t had;
  if (!x || map_getu(seen, x, &had)) return false;
  map_putu(seen, x, 1);
  if (n->kind == EX_OP)
    for (uint32_t i = 0; i < n->nargs; i++)
      if (in_index(m, n->args[i], state, seen)) return true;
  if (n->kind != EX_LOAD || x == state) return false;
  return expr_by_data(m, n) || in_index(m, n->otherwise, state, seen);
}
/* Is the step before the only one that the stage reads of itself, each point its own state? */
static bool own_state(emodule *m, arena *a, walk *w) {
  u32vec loads = {0};
  expr_loads(m, w->s->value, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(m, loads.v[i]);
    if (n->tensor != w->s->tensor) continue;
    if (w->state || !n->otherwise || expr_uses(m, n->otherwise, w->step, a)) return false;
    w->state = loads.v[i], w->first = n->otherwise;
    for (uint32_t j = 0; j < n->nargs; j++) {
      sz at = expr_axis_index(m, &w->s->axes[j]);
      if (n->args[j] != (j == w->axis ? sym_addi(m->c, at, -1) : at)) return false;
    }
  }
  return w->state != 0;
}
static bool last_alone(emodule *m, arena *a, const walk *w) { /* nobody reads another step than the last */
  sz last = sym_addi(m->c, sym_extent(m->c, w->step), -1);
  for (uint32_t i = 0; i < m->stages.n; i++) {
    const stage *s = xs(m, i);
    if (s->dead || s == w->s) continue;
    u32vec loads = {0};
    if (s->value) expr_loads(m, s->value, a, &loads);
    for (uint32_t u = 0; u < s->updates.n; u++) {
      expr_loads(m, s->updates.v[u].value, a, &loads);
      if (s->updates.v[u].cond) expr_loads(m, s->updates.v[u].cond, a, &loads);
      for (uint32_t j = 0; j < s->updates.v[u].nidx; j++)
        expr_loads(m, expr_index(m, s->updates.v[u].idx[j]), a, &loads);
    }
    for (uint32_t k = 0; k < loads.n; k++) {
      const ex_node *n = exn(m, loads.v[k]);
      if (n->tensor == w->s->tensor && (n->otherwise || n->args[w->axis] != last)) return false;
    }
  }
  return true;
}
static ex without_state(void *env, emodule *m, ex e) {
  const walk *w = env;
  return e == w->state ? expr_i(m, (etype)exn(m, e)->type, 0) : e;
}
static bool is_point_recurrence(emodule *m, arena *a, uint32_t si, walk *w) {
  const stage *s = xs(m, si);
  if (!s->recurrence || !s->value || s->updates.n || xt(m, s->tensor)->output) return false;
  *w = (walk){.s = s, .axis = UINT32_MAX, .step = m->recurrences.v[s->recurrence].var};
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (i != si && !xs(m, i)->dead && xs(m, i)->recurrence == s->recurrence) return false;
  for (uint32_t i = 0; i < m->outputs.n; i++)
    if (m->outputs.v[i].t == s->tensor) return false;
  for (uint32_t j = 0; j < s->naxes; j++)
    if (s->axes[j].n == 1 && s->axes[j].d[0].var == w->step) w->axis = j;
  if (!w->step || w->axis == UINT32_MAX || !own_state(m, a, w) || !in_index(m, s->value, w->state, map_new(a)) ||
      !last_alone(m, a, w))
    return false;
  w->alike = !expr_uses(m, expr_rewrite(m, s->value, &(ex_map){.node = without_state, .env = w}), w->step, a) &&
             et_kind(xt(m, s->tensor)->type) != K_FLOAT;
  return true;
}
static atom row_of(emodule *m, arena *a, const walk *w) {
  atom row = 0;
  for (uint32_t i = 0; i < w->s->naxes; i++)
    for (uint32_t j = 0; j < w->s->axes[i].n; j++) {
      atom v = w->s->axes[i].d[j].var;
      if (v != w->step && (!row || (expr_uses(m, w->first, row, a) && !expr_uses(m, w->first, v, a)))) row = v;
    }
  return row;
}
static bool find_point_recurrence(const splan *p, uint32_t stage, walk *w) {
  return p->level > 0 && xs(p->m, stage)->recurrence && is_point_recurrence(p->m, p->l->a, stage, w);
}
bool kernel_is_point_recurrence(const splan *p, uint32_t stage, uint32_t *step, atom *row) {
  walk w;
  if (!find_point_recurrence(p, stage, &w)) return false;
  if (step) *step = w.axis;
  if (row) *row = row_of(p->m, p->l->a, &w);
  return true;
}

/* All steps of n points: those from `at` on of the variable `row`; the others are bound. */
static void tile(kctx *k, const walk *w, atom row, lv at, uint32_t n) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  uint32_t nb = e->view.binds.n, nl = e->view.locals.n;
  lv state[TILE_POINTS], i, *now = NEWN(k->a, lv, (size_t)TILE_POINTS * TILE_V);
  emit_scope(e);
  e->row = row;
  if (row) view_bind(&e->view, (binding){.var = row, .base = at, .row_step = 1});
  emit_epoch(e);
  for (e->r = 0; e->r < n; e->r++) state[e->r] = lb_reg(b, emit_value(e, w->first).v);
  lv going = w->alike ? lb_reg(b, lb_const(b, lt(ET_BOOL, 1), (scalar){.i = 1})) : 0, any = 0;
  lb_for(b, "step", lb_int(b, EK_PLANTED("schedule-point-recurrence")), emit_size(e, sym_extent(k->c, w->step)),
         lb_int(b, 1), 0, &i);
  if (going) lb_while(b, i, going);
  emit_scope(e);
  emit_bind(e, w->step, i);
  for (uint32_t r = 0; r < n; r++) now[r * TILE_V] = lb_get(b, state[r]);
  vec_push(k->a, e->view.locals, ((local){.t = w->s->tensor, .regs = now}));
  emit_epoch(e);
  for (e->r = 0; e->r < n; e->r++) {
    lv next = emit_value(e, w->s->value).v, moved = lb_op(b, OP_NE, lt(ET_BOOL, 1), next, now[e->r * TILE_V], 0);
    lb_set(b, state[e->r], next);
    any = any ? lb_op(b, OP_OR, lt(ET_BOOL, 1), any, moved, 0) : moved;
  }
  if (going) lb_set(b, going, any);
  emit_unscope(e);
  lb_end(b);
  e->view.locals.n = nl;
  sz idx[MAX_RANK];
  for (uint32_t j = 0; j < w->s->naxes; j++)
    idx[j] = j == w->axis ? sym_int(k->c, 0) : expr_axis_index(k->m, &w->s->axes[j]);
  emit_epoch(e);
  for (e->r = 0; e->r < n; e->r++) emit_store(e, w->s->tensor, idx, (evalue){lb_get(b, state[e->r]), false}, OP_NONE);
  e->r = 0;
  e->row = 0;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  emit_epoch(e);
}
/* tiles of n points along v over lo..hi-1, for all values of the other variables; returns where the last tile ends */
static lv tiles(kctx *k, const walk *w, const u32vec *others, uint32_t from, atom v, lv lo, lv hi, uint32_t n) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  lv i, end = hi;
  uint32_t nb = e->view.binds.n;
  if (n > 1) end = lb_add(b, lo, lb_muli(b, lb_op(b, OP_IDIV, lt(ET_I64, 1), lb_sub(b, hi, lo), lb_int(b, n), 0), n));
  lb_for(b, v ? sym_name(k->c, v) : "one", lo, end, lb_int(b, n), 0, &i);
  emit_scope(e);
  for (uint32_t o = from; o < others->n; o++) {
    lv j;
    lb_for(b, sym_name(k->c, others->v[o]), lb_int(b, 0), emit_size(e, sym_extent(k->c, others->v[o])), lb_int(b, 1), 0,
           &j);
    emit_scope(e);
    emit_bind(e, others->v[o], j);
  }
  tile(k, w, v, i, n);
  for (uint32_t o = from; o < others->n; o++) {
    emit_unscope(e);
    lb_end(b);
  }
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(b);
  return end;
}
bool kernel_point_recurrence(kctx *k, uint32_t stage) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  walk w;
  u32vec all = {0}, others = {0};
  if (!find_point_recurrence(k->p, stage, &w)) return false;
  kernel_domain(k, stage, &all);
  atom row = row_of(k->m, k->a, &w);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i] != w.step && all.v[i] != row) vec_push(k->a, others, all.v[i]);
  if (!row) {
    k->l.chunks = sym_int(k->c, 1);
    tiles(k, &w, &others, 0, 0, lb_int(b, 0), lb_int(b, 1), 1);
    return true;
  }
  sz ext = sym_extent(k->c, row);
  k->l.chunks = sym_ceildiv(k->c, ext, sym_int(k->c, CHUNK));
  lv lo = lb_muli(b, lb_lo(b), CHUNK),
     hi = lb_op(b, OP_MIN, lt(ET_I64, 1), lb_muli(b, lb_hi(b), CHUNK), emit_size(e, ext), 0), i, at;
  if (kernel_extent(k, row, TILE_POINTS) >= TILE_POINTS) lo = tiles(k, &w, &others, 0, row, lo, hi, TILE_POINTS);
  if (kernel_extent(k, row, 1) % TILE_POINTS == 0) return true;
  if (!others.n) {
    tiles(k, &w, &others, 0, row, lo, hi, 1);
    return true;
  }
  /* the last few, one after the other: the tile runs along another variable */
  uint32_t nb = e->view.binds.n;
  lb_for(b, sym_name(k->c, row), lo, hi, lb_int(b, 1), 0, &i);
  emit_scope(e);
  emit_bind(e, row, i);
  lv end = emit_size(e, sym_extent(k->c, others.v[0]));
  at = kernel_extent(k, others.v[0], TILE_POINTS) >= TILE_POINTS
           ? tiles(k, &w, &others, 1, others.v[0], lb_int(b, 0), end, TILE_POINTS)
           : lb_int(b, 0);
  if (kernel_extent(k, others.v[0], 1) % TILE_POINTS) tiles(k, &w, &others, 1, others.v[0], at, end, 1);
  view_unbind(&e->view, nb);
  emit_unscope(e);
  lb_end(b);
  return true;
}
