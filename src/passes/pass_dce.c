/* What is needed?
 *
 * Marks from the outputs (and from the late sizes that anything alive depends on) through stages, branches and
 * loops; the rest dies. A branch or loop none of whose results is used dies with
 * everything inside, a result of a living branch that nobody uses is dropped from it. Stages of a living
 * recurrence die one by one like others: what a living stage reads lives. Needs nothing, keeps
 * everything.
 */
#include "passes/pass.h"

typedef struct dce {
  pw *p;
  uint8_t *live; /* per tensor */
  u32vec work;
  map *late;
} dce;

static void need(dce *d, tid t) {
  if (!t || d->live[t]) return;
  d->live[t] = 1;
  vec_push(d->p->a, d->work, t);
}
static void need_value_sizes(dce *d, ex e, map *seen);
static void need_size(dce *d, sz s) {
  uint64_t t;
  if (!s || !map_count(d->late)) return;
  u32vec a = {0}, data = {0};
  if (sym_uses_kind(d->p->c, s, AT_SYMBOL)) sym_atoms(d->p->c, s, AT_SYMBOL, d->p->a, &a);
  for (uint32_t i = 0; i < a.n; i++)
    if (map_getu(d->late, a.v[i], &t)) need(d, (tid)t);
  if (!sym_uses_kind(d->p->c, s, AT_DATA)) return;
  map *seen = map_new(d->p->a);
  sym_atoms(d->p->c, s, AT_DATA, d->p->a, &data);
  for (uint32_t i = 0; i < data.n; i++) need_value_sizes(d, sym_data_id(d->p->c, data.v[i]), seen);
}
static void need_value_sizes(dce *d, ex e, map *seen) { /* late symbols inside values */
  uint64_t x;
  if (!e || map_getu(seen, e, &x)) return;
  map_putu(seen, e, 1);
  ex_node n = *exn(d->p->m, e);
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    break;
  case EX_INDEX:
    need_size(d, n.index);
    break;
  case EX_LOAD:
    for (uint32_t i = 0; i < n.nargs; i++) need_size(d, n.args[i]);
    need_value_sizes(d, n.otherwise, seen);
    break;
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) need_value_sizes(d, n.args[i], seen);
    break;
  case EX_REDUCE:
    for (uint32_t i = 0; i < n.nargs; i++) need_size(d, sym_extent(d->p->c, n.args[i]));
    need_value_sizes(d, n.where, seen), need_value_sizes(d, n.body, seen), need_value_sizes(d, n.payload, seen);
    break;
  }
}
static void visit_tensor(dce *d, tid t) {
  emodule *m = d->p->m;
  const tensor *x = xt(m, t);
  for (uint32_t i = 0; i < x->rank; i++) need_size(d, x->shape[i]);
  uint32_t s = producer_of(m, t);
  if (!s) return;
  const u32vec *l = stage_loads(d->p, s - 1);
  for (uint32_t i = 0; i < l->n; i++)
    if (!EK_PLANTED("dce") || i != 1) need(d, exn(m, l->v[i])->tensor);
  const stage *st = xs(m, s - 1);
  for (uint32_t i = 0; i < st->updates.n; i++)
    for (uint32_t k = 0; k < st->updates.v[i].nvars; k++) need_size(d, sym_extent(d->p->c, st->updates.v[i].vars[k]));
  if (map_count(d->late)) {
    map *seen = map_new(d->p->a);
    need_value_sizes(d, st->value, seen);
    for (uint32_t i = 0; i < st->updates.n; i++)
      need_value_sizes(d, st->updates.v[i].value, seen), need_value_sizes(d, st->updates.v[i].cond, seen);
  }
}
static void drain(dce *d) {
  while (d->work.n) visit_tensor(d, d->work.v[--d->work.n]);
}
/* Branches and loops whose results live: what they need. Returns whether anything new was needed. Walks to a fixed
 * point, since what one needs may keep another alive. */
static bool visit_items(dce *d, uint32_t b) {
  emodule *m = d->p->m;
  bool any = false;
  for (uint32_t i = m->blocks.v[b].items.n; i-- > 0;) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      bool used = false;
      for (uint32_t k = 0; k < x->n; k++)
        if (d->live[x->results[k]]) {
          any |= !d->live[x->then_vals[k]] || !d->live[x->else_vals[k]];
          need(d, x->then_vals[k]), need(d, x->else_vals[k]), used = true;
        }
      if (!used) continue;
      any |= x->cond && !d->live[x->cond];
      need(d, x->cond);
      drain(d);
      any |= visit_items(d, x->then_block), any |= visit_items(d, x->else_block);
    } else if (it.kind == IT_LOOP) {
      const xloop *x = &m->loops.v[it.index];
      bool used = false;
      for (uint32_t k = 0; k < x->ncarried; k++) used |= d->live[x->final[k]];
      for (uint32_t k = 0; k < x->ncollected; k++) used |= d->live[x->collected[k]];
      if (!used) continue;
      tid more[3] = {x->trip_tensor, x->cond0, x->cond};
      for (int k = 0; k < 3; k++) any |= more[k] && !d->live[more[k]], need(d, more[k]);
      for (uint32_t k = 0; k < x->ncarried; k++)
        any |= !d->live[x->init[k]] || !d->live[x->next[k]], need(d, x->init[k]), need(d, x->next[k]),
            need(d, x->inner[k]), need(d, x->final[k]);
      for (uint32_t k = 0; k < x->ncollected; k++)
        any |= !d->live[x->slice[k]], need(d, x->slice[k]), need(d, x->collected[k]);
      if (x->trips) need_size(d, x->trips);
      drain(d);
      any |= visit_items(d, x->body);
    }
  }
  drain(d);
  return any;
}
static bool sweep(dce *d, uint32_t b, bool all) {
  pw *p = d->p;
  emodule *m = p->m;
  bool any = false;
  uint32_t out = 0;
  block *k = &m->blocks.v[b];
  for (uint32_t i = 0; i < k->items.n; i++) {
    item it = k->items.v[i];
    bool keep = !all;
    if (it.kind == IT_STAGE) {
      keep &= !xs(m, it.index)->dead && d->live[xs(m, it.index)->tensor];
      if (!keep && !xs(m, it.index)->dead) pass_kill(p, it.index), any = true;
    } else if (it.kind == IT_IF) {
      xif *x = &m->ifs.v[it.index];
      bool used = false;
      for (uint32_t j = 0; j < x->n; j++) used |= d->live[x->results[j]];
      keep &= used;
      any |= sweep(d, x->then_block, !keep), any |= sweep(d, x->else_block, !keep);
      if (keep) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < x->n; j++)
          if (d->live[x->results[j]])
            x->results[n] = x->results[j], x->then_vals[n] = x->then_vals[j], x->else_vals[n] = x->else_vals[j], n++;
        any |= n != x->n;
        x->n = n;
      }
    } else {
      xloop *x = &m->loops.v[it.index];
      bool used = false;
      for (uint32_t j = 0; j < x->ncarried; j++) used |= d->live[x->final[j]];
      for (uint32_t j = 0; j < x->ncollected; j++) used |= d->live[x->collected[j]];
      keep &= used;
      any |= sweep(d, x->body, !keep);
    }
    if (keep)
      k->items.v[out++] = it;
    else
      any = true;
  }
  k->items.n = out;
  return any;
}
bool pass_dce(pw *p) {
  emodule *m = p->m;
  dce d = {.p = p, .live = NEWN(p->a, uint8_t, m->tensors.n + 1), .late = p->lates};
  pass_flush(p);
  for (uint32_t i = 0; i < m->outputs.n; i++) need(&d, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->inputs.n; i++) need(&d, m->inputs.v[i].t);
  for (uint32_t i = 0; i < m->guards.n; i++) need_size(&d, m->guards.v[i].ge0);
  drain(&d);
  while (visit_items(&d, 0)) {}
  bool any = sweep(&d, 0, false);
  uint32_t n = 0; /* late sizes nobody uses */
  for (uint32_t i = 0; i < m->lates.n; i++)
    if (d.live[m->lates.v[i].tensor]) m->lates.v[n++] = m->lates.v[i];
  any |= n != m->lates.n;
  m->lates.n = n;
  if (any) pass_index(p);
  return any;
}
