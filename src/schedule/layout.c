/* Where does every tensor lie?
 *
 * Inputs and outputs are row-major, by contract, but for those of states (layout_state.c). Of the others, in execution
 * order, it is decided how they are stored: the order of the axes (layout_order.c), a halo and padding (layout_room.c),
 * or what a text states instead (storage.c). That decision (storage) is recorded, and makes the layout. A tensor that
 * is only a piece of another one (a placement without a kernel) gets its place inside that one's buffer.
 */
#include "schedule/kernel.h"
#include "schedule/layout_in.h"
#include <string.h>

/* The layout of axes in this order, outermost first (NULL: as they are numbered); s: with what room (NULL: none). */
static layout in_order(splan *p, const sz *shape, uint32_t rank, const uint32_t *order, const storage *s, sz *elems) {
  ctx *c = p->m->c;
  layout l = {.known = true, .rank = rank, .axes = NEWN(p->l->a, laxis, rank ? rank : 1), .base = sym_int(c, 0)};
  sz stride = sym_int(c, 1);
  for (uint32_t k = rank; k-- > 0;) {
    const uint32_t ax = order ? order[k] : k;
    sz full = shape[ax], lo = 0, hi = 0;
    if (s && s->pad[ax]) stride = sym_addi(c, stride, s->pad[ax]);
    if (s && s->halo.any) {
      lo = sym_int(c, s->halo.lo[ax]), hi = sym_int(c, s->halo.hi[ax]);
      l.base = sym_add(c, l.base, sym_mul(c, lo, stride));
      full = sym_add(c, sym_add(c, full, lo), hi);
    }
    ldigit *d = NEW(p->l->a, ldigit);
    *d = (ldigit){shape[ax], stride};
    l.axes[ax] = (laxis){.n = 1, .d = d, .lo = lo, .hi = hi};
    stride = sym_mul(c, stride, full);
  }
  *elems = stride;
  return l;
}
layout layout_dense(splan *p, const sz *shape, uint32_t rank, const uint32_t *order, sz *elems) {
  return in_order(p, shape, rank, order, NULL, elems);
}
bool layout_materialised(const splan *p, tid t) { return p->layouts[t].buffer != 0; }
bool layout_inside(const emodule *m, const stage *s) {
  return s->kernel && s->updates.n && m->kernels.v[s->kernel - 1].cls == KC_BLOCKS;
}

layout layout_permuted(splan *p, const tensor *t, const uint32_t *order, uint32_t buffer) {
  sz elems;
  layout l = layout_dense(p, t->shape, t->rank, order, &elems);
  l.buffer = buffer;
  return l;
}

/* ---- which tensors need memory --------------------------------------------------------------- */
static void reads(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    tensor *t = xt(L->m, exn(L->m, loads.v[i])->tensor);
    if (t->kind != TK_STAGE) continue;
    stage *s = xs(L->m, t->stage);
    if (s->kernel == 0 || s->kernel != kernel || (s->recurrence && s->recurrence == recurrence))
      L->mat[exn(L->m, loads.v[i])->tensor] = true;
  }
}
static void each_value(lay *L, stage *s, void (*f)(lay *, ex, uint32_t, uint32_t)) {
  if (s->value) f(L, s->value, s->kernel, s->recurrence);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    update *u = &s->updates.v[i];
    f(L, u->value, s->kernel, s->recurrence);
    if (u->cond) f(L, u->cond, s->kernel, s->recurrence);
    for (uint32_t j = 0; j < u->nidx; j++)
      if (sym_uses_kind(L->c, u->idx[j], AT_DATA)) f(L, expr_index(L->m, u->idx[j]), s->kernel, s->recurrence);
  }
}
static void mark(lay *L, tid t) {
  if (t) L->mat[t] = L->p->named[t] = true;
}
static void materialise(lay *L) {
  emodule *m = L->m;
  for (uint32_t i = 0; i < m->stages.n; i++) {
    stage *s = xs(m, i);
    if (s->dead) continue;
    each_value(L, s, reads);
    if (xt(m, s->tensor)->output || (s->updates.n && !layout_inside(m, s)) || s->recurrence ||
        (s->kernel == 0 && L->p->level == 0))
      L->mat[s->tensor] = true;
  }
  for (uint32_t i = 0; i < m->outputs.n; i++) mark(L, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->lates.n; i++) mark(L, m->lates.v[i].tensor);
  for (uint32_t i = 0; i < m->checks.n; i++) mark(L, m->checks.v[i].at), mark(L, m->checks.v[i].value);
  for (uint32_t i = 0; i < m->ifs.n; i++) {
    xif *x = &m->ifs.v[i];
    mark(L, x->cond);
    for (uint32_t j = 0; j < x->n; j++) mark(L, x->results[j]), mark(L, x->then_vals[j]), mark(L, x->else_vals[j]);
  }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    xloop *x = &m->loops.v[i];
    mark(L, x->trip_tensor), mark(L, x->cond0), mark(L, x->cond);
    for (uint32_t j = 0; j < x->ncarried; j++)
      mark(L, x->init[j]), mark(L, x->inner[j]), mark(L, x->next[j]), mark(L, x->final[j]);
    for (uint32_t j = 0; j < x->ncollected; j++) mark(L, x->slice[j]), mark(L, x->collected[j]);
  }
}

static void note_reads(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  (void)kernel, (void)recurrence;
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    vec_push(L->a, L->p->readers[exn(L->m, loads.v[i])->tensor],
             ((reading){loads.v[i], exn(L->m, e)->kind == EX_REDUCE ? e : 0}));
}

static uint32_t new_buffer(lay *L, buffer b) {
  vec_push(L->p->l->a, L->p->buffers, b);
  return L->p->buffers.n - 1;
}
/* Number + 1 of the output that t is; 0: it is none, or what it is made of has another place. */
static uint32_t output_of(lay *L, tid t) {
  const tensor *x = xt(L->m, t);
  for (uint32_t i = 0; i < L->m->outputs.n && x->kind != TK_INPUT && x->kind != TK_CONST; i++)
    if (L->m->outputs.v[i].t == t) return i + 1;
  return 0;
}
/* What a tensor may have of its own: its place is chosen here; no other tensor shares its memory. */
typedef struct freedom {
  bool order; /* the order of its axes, and what a text states */
  bool state; /* what a text states of a state, whose order is decided already (layout_state.c) */
  bool halo;  /* a halo */
  bool pads;  /* places that lie farther apart */
  bool steps; /* it has memory for one step of a recurrence only */
} freedom;
/* order: as it is wanted, outermost first; shape: what has memory */
static storage decide(lay *L, tid t, const uint32_t *order, const sz *shape, freedom may) {
  storage s = {0};
  memcpy(s.order, order, xt(L->m, t)->rank * sizeof *order);
  if (!may.state) order_no_leaps(L, t, s.order);
  if (may.order || may.state) storage_follow_place(L, t);
  if (may.state) storage_follow_state(L, t);
  if (may.order) storage_follow_order(L, t, &s);
  if (may.halo) s.halo = L->halo[t];
  if (may.order) storage_follow_halo(L, t, &s);
  if (may.pads) room_pads(L, t, shape, &s);
  if (may.order) storage_follow_pads(L, t, &s, may.steps);
  if (may.order || may.state) storage_record(L, t, &s, may.order, may.order && !may.steps);
  return s;
}
/* The axis that counts the steps of a recurrence, where nothing reads another step of the tensor than that at work. */
static bool read_in_its_step(lay *L, tid t, uint32_t *axis) {
  const tensor *x = xt(L->m, t);
  const stage *s = xs(L->m, x->stage);
  const atom step = s->recurrence && L->p->level > 0 ? L->m->recurrences.v[s->recurrence].var : 0;
  uint32_t n = 0;
  for (uint32_t i = 0; step && i < s->naxes; i++)
    if (s->axes[i].n == 1 && s->axes[i].d[0].var == step) *axis = i, n++;
  if (n != 1 || L->p->named[t] || s->updates.n) return false;
  for (uint32_t i = 0; i < L->p->readers[t].n; i++)
    if (exn(L->m, L->p->readers[t].v[i].load)->args[*axis] != sym_of_atom(L->c, step))
      return EK_PLANTED("schedule-one-step");
  return true;
}
static void own_buffer(lay *L, tid t, const uint32_t *order,
                       bool alone) { /* alone: no other tensor shares its memory */
  const tensor *x = xt(L->m, t);
  const uint32_t output = output_of(L, t), *state = alone ? state_order(L, t) : NULL;
  const bool computed = x->kind == TK_STAGE && !output;
  sz *shape = NEWN(L->a, sz, x->rank + 1u), elems;
  uint32_t step = 0;
  const bool walks = x->kind == TK_STAGE && (kernel_is_point_recurrence(L->p, x->stage, &step, NULL) ||
                                             (computed && read_in_its_step(L, t, &step)));
  for (uint32_t i = 0; i < x->rank; i++) shape[i] = walks && i == step ? sym_int(L->c, 1) : x->shape[i];
  if (state) order = state;
  const storage s = decide(L, t, order, shape,
                           (freedom){.order = computed && alone && L->mat[t] && L->p->level > 0,
                                     .state = state != NULL,
                                     .halo = computed && L->p->level > 0,
                                     .pads = computed && alone && !walks,
                                     .steps = walks});
  layout *l = &L->p->layouts[t];
  *l = in_order(L->p, shape, x->rank, output && !state ? NULL : s.order, &s, &elems);
  l->together = s.together, l->pieces = s.pieces;
  if (s.halo.any) l->fill = arena_dup(L->a, &s.halo.fill, sizeof s.halo.fill);
  if (walks) {
    ldigit *d = NEW(L->a, ldigit);
    *d = (ldigit){x->shape[step], sym_int(L->c, 0)};
    l->axes[step] = (laxis){.n = 1, .d = d};
  }
  if (!L->mat[t]) return;
  l->buffer = new_buffer(L, (buffer){.kind = output ? BUF_OUTPUT : BUF_ARENA,
                                     .type = x->type,
                                     .name = x->name,
                                     .elems = elems,
                                     .index = output ? output - 1 : 0,
                                     .tensor = t,
                                     .block = x->kind == TK_STAGE ? xs(L->m, x->stage)->block : 0,
                                     .halo = s.halo.any,
                                     .fill = s.halo.fill});
}
bool layout_piece(splan *p, const sz *idx, ex value, const layout *whole, layout *out) {
  emodule *m = p->m;
  ctx *c = m->c;
  arena *a = p->l->a;
  const ex_node *n = exn(m, value);
  if (n->kind != EX_LOAD || n->otherwise) return false;
  sz at = view_address(c, whole, idx);
  tensor *pt = xt(m, n->tensor);
  *out = (layout){
      .known = true, .buffer = whole->buffer, .rank = n->nargs, .axes = NEWN(a, laxis, n->nargs ? n->nargs : 1)};
  for (uint32_t i = 0; i < n->nargs; i++) {
    sz rem = n->args[i];
    ldigit ds[MAX_RANK];
    uint32_t nd = 0;
    int64_t k;
    if (!sym_is_int(c, rem, &k)) {
      /* the index is a number of digits: one variable each, strides nest */
      u32vec vs = {0};
      sym_atoms(c, rem, AT_VAR, a, &vs);
      sz inner = sym_int(c, 1);
      while (vs.n) {
        uint32_t hit = vs.n;
        for (uint32_t q = 0; q < vs.n; q++) {
          sz coef, rest;
          if (sym_linear(c, rem, vs.v[q], &coef, &rest) && sym_eq(c, coef, inner)) hit = q;
        }
        if (hit == vs.n || nd == MAX_RANK) return false;
        sz coef, rest, st, r2;
        sym_linear(c, rem, vs.v[hit], &coef, &rest);
        rem = rest;
        if (!sym_linear(c, at, vs.v[hit], &st, &r2)) return false;
        at = r2;
        ds[nd++] = (ldigit){sym_extent(c, vs.v[hit]), st};
        inner = sym_mul(c, inner, sym_extent(c, vs.v[hit]));
        vs.v[hit] = vs.v[--vs.n];
      }
      if (!sym_is_int(c, rem, &k) || k != 0 || !sym_eq(c, inner, pt->shape[i])) return false;
    } else if (k != 0 || !sym_is_int(c, pt->shape[i], &k) || k != 1)
      return false;
    if (!nd) ds[nd++] = (ldigit){pt->shape[i], sym_int(c, 0)};
    ldigit *d = NEWN(a, ldigit, nd);
    for (uint32_t q = 0; q < nd; q++) d[q] = ds[nd - 1 - q]; /* outer to inner */
    out->axes[i] = (laxis){.n = nd, .d = d};
  }
  if (sym_uses_kind(c, sym_sub(c, at, whole->base), AT_VAR)) return false;
  out->base = EK_PLANTED("schedule-layout") ? whole->base : at;
  return true;
}
const sz *layout_placement(lay *L, const stage *s, uint32_t u, uint32_t *n, ex *value) {
  if (u < s->updates.n) {
    *n = s->updates.v[u].nidx;
    *value = s->updates.v[u].value;
    return s->updates.v[u].idx;
  }
  sz *idx = NEWN(L->a, sz, s->naxes ? s->naxes : 1);
  for (uint32_t i = 0; i < s->naxes; i++) idx[i] = expr_axis_index(L->m, &s->axes[i]);
  *n = s->naxes;
  *value = s->value;
  return idx;
}
/* order: of its axes, outer to inner; NULL: it lies inside a placement that has its place already */
static void place_tensor(lay *L, tid t, const uint32_t *order) {
  if (L->p->layouts[t].known) return;
  place in = L->in[t];
  if (!in.stage) {
    own_buffer(L, t, order, true);
    return;
  }
  stage *v = xs(L->m, in.stage - 1);
  uint32_t n, vo[MAX_RANK], k = 0;
  ex value;
  const sz *idx = layout_placement(L, v, in.update, &n, &value);
  const ex_node *ld = exn(L->m, value);
  bool used[MAX_RANK] = {0};
  /* the whole's axes in the order the piece wants */
  uint32_t want[MAX_RANK], nw = 0;
  for (uint32_t q = 0; order && q < ld->nargs; q++) {
    u32vec vs = {0};
    sym_atoms(L->c, ld->args[order[q]], AT_VAR, L->a, &vs);
    for (uint32_t ax = 0; ax < n; ax++)
      for (uint32_t z = 0; z < vs.n; z++)
        if (!used[ax] && sym_uses(L->c, idx[ax], vs.v[z])) used[ax] = true, want[nw++] = ax;
  }
  for (uint32_t ax = 0; ax < n; ax++)
    if (!used[ax]) vo[k++] = ax;
  for (uint32_t q = 0; q < nw; q++) vo[k++] = want[q];
  L->mat[v->tensor] = !layout_inside(L->m, v);
  place_tensor(L, v->tensor, vo);
  layout l;
  if (!layout_piece(L->p, idx, value, &L->p->layouts[v->tensor], &l))
    ctx_bug(L->c, "schedule: tensor %s cannot be stored inside %s", xt(L->m, t)->name, xt(L->m, v->tensor)->name);
  L->p->layouts[t] = l;
  storage_record_piece(L, t, in.stage - 1, in.update);
}

/* Results of control flow have buffers of the enclosing block; what the blocks compute for them is stored there
 * directly. A loop's inner and final values are one buffer (the body's last stages overwrite it), a collected
 * tensor is the buffer into which each trip stores its slice. */
static void own_in(lay *L, tid t, uint32_t block) {
  uint32_t order[MAX_RANK];
  for (uint32_t i = 0; i < MAX_RANK; i++) order[i] = i;
  own_buffer(L, t, order, false);
  if (L->p->layouts[t].buffer) L->p->buffers.v[L->p->layouts[t].buffer].block = block;
}
/* Tensors that share memory, one after the other: where their sizes differ (a late size takes other values), each
 * lies densely in the same buffer. */
static void share(lay *L, tid t, tid as) {
  const tensor *x = xt(L->m, t), *y = xt(L->m, as);
  bool same = true;
  sz elems;
  for (uint32_t i = 0; i < x->rank; i++) same &= x->shape[i] == y->shape[i];
  layout l = L->p->layouts[as];
  if (!same) {
    uint32_t buffer = l.buffer;
    l = layout_dense(L->p, x->shape, x->rank, NULL, &elems);
    l.buffer = buffer;
  }
  L->p->layouts[t] = l;
}
static void control_flow(lay *L) {
  emodule *m = L->m;
  splan *p = L->p;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t j = 0; j < m->ifs.v[i].n; j++) {
      xif *x = &m->ifs.v[i];
      own_in(L, x->results[j], x->block);
      share(L, x->then_vals[j], x->results[j]), share(L, x->else_vals[j], x->results[j]);
    }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    xloop *x = &m->loops.v[i];
    for (uint32_t j = 0; j < x->ncarried; j++) {
      own_in(L, x->inner[j], x->block);
      share(L, x->init[j], x->inner[j]), share(L, x->next[j], x->inner[j]);
      if (x->final[j]) share(L, x->final[j], x->inner[j]);
    }
    for (uint32_t j = 0; j < x->ncollected; j++) {
      own_in(L, x->collected[j], x->block);
      layout l = p->layouts[x->collected[j]];
      if (!EK_PLANTED("schedule-collect"))
        l.base = sym_add(L->c, l.base, sym_mul(L->c, l.axes[0].d[0].stride, sym_of_atom(L->c, x->counter)));
      l.axes++;
      l.rank--;
      p->layouts[x->slice[j]] = l;
    }
  }
}

void layout_all(splan *p) {
  emodule *m = p->m;
  lay L = {.p = p, .m = m, .c = m->c, .a = p->l->a};
  uint32_t nt = m->tensors.n;
  L.mat = NEWN(L.a, bool, nt);
  L.halo = NEWN(L.a, halo_room, nt);
  L.in = NEWN(L.a, place, nt);
  L.leaps = NEWN(L.a, uint32_t, nt);
  p->readers = NEWN(L.a, readings, nt);
  p->named = NEWN(L.a, bool, nt);
  p->layouts = NEWN(L.a, layout, nt);
  p->storages = p->record ? NEWN(L.a, tensor_record *, nt) : NULL;
  materialise(&L);
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (!xs(m, i)->dead && (xs(m, i)->kernel || p->level == 0)) each_value(&L, xs(m, i), room_halo_of);
  for (uint32_t i = 0; i < m->stages.n && p->level > 0; i++)
    if (!xs(m, i)->dead) each_value(&L, xs(m, i), note_reads);
  for (uint32_t t = 1; t < nt; t++) {
    tensor *x = xt(m, t);
    sz elems;
    if (x->kind != TK_INPUT && x->kind != TK_CONST) continue;
    ctx_about(L.c, x->name);
    p->layouts[t] = layout_dense(p, x->shape, x->rank, NULL, &elems);
    buffer b = {.kind = x->kind == TK_INPUT ? BUF_INPUT : BUF_WEIGHTS,
                .type = x->type,
                .name = x->name,
                .elems = elems,
                .tensor = t};
    if (x->kind == TK_CONST) b.from = contents_of(x);
    if (x->kind == TK_INPUT) {
      uint32_t i = 0;
      while (i < m->inputs.n && m->inputs.v[i].t != t) i++;
      if (i == m->inputs.n)
        ctx_fail(m->c, E_MODEL, "%s is neither an input nor a constant: nothing gives it a value", x->name);
      b.index = i;
    }
    p->layouts[t].buffer = new_buffer(&L, b);
  }
  control_flow(&L);
  state_layouts(&L);
  if (p->level > 0)
    for (uint32_t i = 0; i < m->stages.n; i++) { /* pieces of placements that have no kernel */
      stage *s = xs(m, i);
      if (s->dead || (s->kernel && !layout_inside(m, s))) continue;
      for (uint32_t u = 0; u < (s->updates.n ? s->updates.n : 1); u++) {
        uint32_t n;
        ex value;
        layout_placement(&L, s, u, &n, &value);
        const ex_node *ld = exn(m, value);
        if (ld->kind == EX_LOAD && xt(m, ld->tensor)->kind == TK_STAGE) L.in[ld->tensor] = (place){i + 1, u};
      }
    }
  for (uint32_t i = m->stages.n; i-- > 0 && p->level > 0;)
    if (!xs(m, i)->dead) order_leaps_of(&L, i);
  for (uint32_t b = 0; b < m->blocks.n; b++)
    for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
      item it = m->blocks.v[b].items.v[i];
      if (it.kind != IT_STAGE || xs(m, it.index)->dead) continue;
      tid t = xs(m, it.index)->tensor;
      if (p->layouts[t].known) continue;
      uint32_t order[MAX_RANK];
      ctx_about(L.c, xt(m, t)->name);
      const bool placed = L.in[t].stage && p->layouts[xs(m, L.in[t].stage - 1)->tensor].known;
      if (!placed) order_preferred(&L, it.index, order);
      if (!placed && p->level > 0) order_sums_last(&L, t, xt(m, t)->rank, order);
      place_tensor(&L, t, placed ? NULL : order);
    }
  ctx_about(L.c, NULL);
  storage_check_used(p);
}
