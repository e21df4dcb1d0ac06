/* How does a recurrence run on several threads?
 *
 * A step needs what the step before computed, all of it, so the threads meet after each step: a launch a step.
 * Within a step a launch needs a variable that all its stages share, over which they read each other's values of
 * this step only at the point being computed (the hidden units of an LSTM, or a batch): its blocks are the
 * chunks. Where a stage reads another one's values of this step elsewhere (the gated state of a GRU in its second
 * product), the stages are cut into parts there, and a step is several launches. Steps with little work run in
 * one launch, as one loop on one thread.
 */
#include "schedule/kernel_in.h"

enum { MAX_LAUNCHES = 4, MAX_VARS = 256 };

/* variables that are one because the stages read each other at the same point, as sets */
typedef struct sets {
  atom var[MAX_VARS];    /* the variables */
  uint32_t up[MAX_VARS]; /* per variable: one of its set; itself: it stands for the set */
  uint32_t n;            /* number of variables */
  bool bad[MAX_VARS];    /* per set: the variables cannot be shared */
} sets;
static uint32_t find(sets *s, uint32_t i) {
  while (s->up[i] != i) i = s->up[i];
  return i;
}
static uint32_t set_of(sets *s, atom v) { /* Number of the set of v; n: it is in none. */
  for (uint32_t i = 0; i < s->n; i++)
    if (s->var[i] == v) return find(s, i);
  return s->n;
}
static atom only_digit(const axis *x) { return x->n == 1 ? x->d[0].var : 0; }
static const stage *stage_of_step(emodule *m, const u32vec *stages, uint32_t n, tid t) {
  for (uint32_t i = 0; i < n; i++)
    if (xs(m, stages->v[i])->tensor == t) return xs(m, stages->v[i]);
  return NULL;
}
static void same_point(emodule *m, sets *s, const stage *q, const ex_node *load, atom step) {
  for (uint32_t j = 0; j < q->naxes; j++) /* it reads an earlier step */
    if (only_digit(&q->axes[j]) == step && load->args[j] != sym_of_atom(m->c, step)) return;
  for (uint32_t j = 0; j < q->naxes; j++)
    for (uint32_t d = 0; d < q->axes[j].n; d++) {
      uint32_t a = set_of(s, q->axes[j].d[d].var), b = s->n;
      atom v;
      if (a == s->n) continue;
      if (q->axes[j].n == 1 && sym_is_atom(m->c, load->args[j], &v)) b = set_of(s, v);
      if (b == s->n || sym_extent(m->c, s->var[a]) != sym_extent(m->c, s->var[b]))
        s->bad[a] = true;
      else if (a != b) {
        s->bad[a] |= s->bad[b];
        s->up[b] = a;
      }
    }
}
/* The variable of the largest extent that the first n stages share, and under which name; 0: there is none. */
static atom shared(emodule *m, arena *a, const u32vec *stages, uint32_t n, atom step, map **canon) {
  sets *s = NEW(a, sets);
  for (uint32_t i = 0; i < n; i++) {
    const stage *x = xs(m, stages->v[i]);
    for (uint32_t j = 0; j < x->naxes; j++) {
      atom v = only_digit(&x->axes[j]);
      if (!v || v == step) continue;
      if (s->n == MAX_VARS) return 0;
      s->var[s->n] = v, s->up[s->n] = s->n, s->n++;
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    u32vec loads = {0};
    expr_loads(m, xs(m, stages->v[i])->value, a, &loads);
    for (uint32_t l = 0; l < loads.n; l++) {
      const ex_node *load = exn(m, loads.v[l]);
      const stage *q = stage_of_step(m, stages, n, load->tensor);
      if (q) same_point(m, s, q, load, step);
    }
  }
  atom best = 0;
  for (uint32_t c = 0; c < s->n; c++) {
    uint32_t with = 0;
    if (find(s, c) != c || s->bad[c]) continue;
    for (uint32_t i = 0; i < n; i++) {
      const stage *x = xs(m, stages->v[i]);
      uint32_t times = 0;
      for (uint32_t j = 0; j < x->naxes; j++)
        if (only_digit(&x->axes[j]) && only_digit(&x->axes[j]) != step)
          times += set_of(s, only_digit(&x->axes[j])) == c;
      with += times == 1;
    }
    if (with == n && (n == 1 || sym_int_or(m->c, sym_extent(m->c, s->var[c]), 1) >= 4) &&
        (!best || sym_int_or(m->c, sym_extent(m->c, s->var[c]), 1) > sym_int_or(m->c, sym_extent(m->c, best), 1)))
      best = s->var[c];
  }
  *canon = map_new(a);
  for (uint32_t i = 0; best && i < s->n; i++)
    if (find(s, i) == set_of(s, best)) map_putu(*canon, s->var[i], best);
  return best;
}

bool kernel_recurrence_launches(splan *p, const u32vec *stages, uint32_t recurrence, recurrence_launches *out) {
  emodule *m = p->m;
  arena *a = p->l->a;
  atom step = m->recurrences.v[recurrence].var;
  if (!step) return false;
  for (uint32_t i = 0; i < stages->n; i++)
    if (xs(m, stages->v[i])->updates.n || !xs(m, stages->v[i])->value) return false;
  if (!cost_barrier_pays(p->t, kernel_work(m, stages, step).ops)) return false;
  uint32_t from = 0;
  bool any = false;
  while (from < stages->n) {
    u32vec rest = {0};
    for (uint32_t i = from; i < stages->n; i++) vec_push(a, rest, stages->v[i]);
    recurrence_launch part = {0};
    uint32_t n = rest.n;
    while (!(part.shared = shared(m, a, &rest, n, step, &part.canon)) && n > 1) n--;
    for (uint32_t i = 0; i < n; i++) vec_push(a, part.stages, rest.v[i]);
    if (part.shared && cost_divides_step(sym_int_or(m->c, sym_extent(m->c, part.shared), TYPICAL_EXTENT))) any = true;
    vec_push(a, *out, part);
    from += n;
  }
  return any && out->n <= MAX_LAUNCHES;
}

void kernel_narrow(const kctx *k, choice *ch) {
  if (!k->block || ch->lane != k->block || ch->lane_reduced) return;
  const int64_t most = k->block_lanes ? k->block_lanes / ch->lanes
                                      : cost_step_vectors(sym_int_or(k->c, sym_extent(k->c, k->block), TYPICAL_LANES),
                                                          ch->lanes, ch->row != 0);
  if (ch->nv > most) ch->nv = (uint32_t)most;
  while (k->block_lanes && most % ch->nv) ch->nv--; /* blocks are whole tiles */
}
static int64_t common_multiple(int64_t a, int64_t b) {
  int64_t all = a;
  while (all % b) all += a;
  return all;
}
static void step_backwards(kctx *k, lv step) {
  lbuild *b = &k->e.b;
  k->e.back = lb_op(b, OP_EQ, lt(ET_BOOL, 1), lb_op(b, OP_BAND, lt(ET_I64, 1), step, lb_int(b, 1), 0), lb_int(b, 1), 0);
}
void kernel_recurrence_step(kctx *k, grps *gs, const recurrence_launch *part) {
  ectx *e = &k->e;
  ctx *c = k->c;
  atom step = k->m->recurrences.v[part->recurrence].var, block = part->shared;
  lv now = emit_symbol(e, sym_of_atom(c, part->counter));
  emit_bind(e, step, now);
  step_backwards(k, now);
  k->l.step = part->counter, k->l.steps = k->m->recurrences.v[part->recurrence].extent;
  k->outer.n = 0;
  vec_push(k->a, k->outer, step);
  if (block) {
    int64_t bs = 1;
    k->block = block;
    for (uint32_t g = 0; g < gs->n; g++) {
      accesses acc = {0};
      u32vec inside = {0}; /* the step's number is fixed */
      for (uint32_t d = 0; d < gs->v[g].domain.n; d++)
        if (gs->v[g].domain.v[d] != step) vec_push(k->a, inside, gs->v[g].domain.v[d]);
      group_accesses(&e->view, &gs->v[g].stages, k->stored, &acc);
      choice ch = kernel_choice(k, &gs->v[g].stages, &acc, &inside, &gs->v[g].red);
      if (!stated(k, &gs->v[g].stages, P_TILE)) kernel_narrow(k, &ch);
      if (ch.lane == block && !ch.lane_reduced) bs = common_multiple(bs, (int64_t)ch.nv * ch.lanes);
    }
    vec_push(k->a, k->outer, block);
    sz all = sym_extent(c, block);
    k->l.chunks = sym_ceildiv(c, all, sym_int(c, bs));
    lv blo = lb_muli(&e->b, lb_lo(&e->b), bs + EK_PLANTED("schedule-recurrence-launches"));
    k->shared_blocks[k->nshared_blocks++] = (shared_block){
        .var = block,
        .unit = bs,
        .lo = blo,
        .hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_muli(&e->b, lb_hi(&e->b), bs), emit_size(e, all), 0)};
  }
  for (uint32_t g = 0; g < gs->n; g++) kernel_group_nest(k, &gs->v[g]);
}

void kernel_recurrence(kctx *k, grps *gs, uint32_t recurrence) {
  ectx *e = &k->e;
  k->l.chunks = sym_int(k->c, 1);
  atom t = k->m->recurrences.v[recurrence].var;
  k->outer.n = 0;
  if (t) vec_push(k->a, k->outer, t);
  lv i;
  if (t) {
    lb_for(&e->b, "step", lb_int(&e->b, EK_PLANTED("schedule-recurrence")),
           emit_size(e, k->m->recurrences.v[recurrence].extent), lb_int(&e->b, 1), 0, &i);
    emit_scope(e);
    emit_bind(e, t, i);
    step_backwards(k, i);
  }
  for (uint32_t g = 0; g < gs->n; g++) kernel_group_nest(k, &gs->v[g]);
  if (t) {
    emit_unscope(e);
    lb_end(&e->b);
  }
}
