/* What is needed?
 *
 * Marks from the outputs (and from the late sizes that anything alive depends on) through stages, branches and
 * loops, and from what living blocks check; the rest dies, checks that can't fail too. A branch or loop none of
 * whose results is used dies with everything inside, a result of a living branch that nobody uses is dropped from it.
 * Stages of a living recurrence die one by one like others: what a living stage reads lives. Needs nothing, keeps
 * everything.
 */
#include "passes/pass.h"

typedef struct dce {
  pw *p;         /* the run of passes */
  uint8_t *live; /* per tensor */
  u32vec work;   /* tensors whose stages are still to be looked at */
  map *late;     /* symbol -> tensor */
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
static void need_value_sizes(dce *d, ex e, map *seen) { /* Symbols of late sizes that stand inside values. */
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
/* what is checked where this block runs; whether anything new was needed */
static bool need_checks(dce *d, uint32_t block) {
  bool any = false;
  for (uint32_t i = 0; i < d->p->m->checks.n; i++) {
    const value_check *k = &d->p->m->checks.v[i];
    if (k->block != block) continue;
    any |= !d->live[k->at] || !d->live[k->value];
    need(d, k->at), need(d, k->value), need_size(d, k->lo), need_size(d, k->hi);
    for (uint32_t j = 0; j < k->ndims; j++) need_size(d, k->dims[j]);
  }
  return any;
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
      any |= need_checks(d, x->then_block), any |= need_checks(d, x->else_block);
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
      any |= need_checks(d, x->body);
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
      } else
        x->n = 0;
    } else {
      xloop *x = &m->loops.v[it.index];
      bool used = false;
      for (uint32_t j = 0; j < x->ncarried; j++) used |= d->live[x->final[j]];
      for (uint32_t j = 0; j < x->ncollected; j++) used |= d->live[x->collected[j]];
      keep &= used;
      any |= sweep(d, x->body, !keep);
      if (!keep) x->ncarried = x->ncollected = 0;
    }
    if (keep)
      k->items.v[out++] = it;
    else
      any = true;
  }
  k->items.n = out;
  return any;
}
static const char *what_fails(pw *p, const value_check *k) {
  emodule *m = p->m;
  int64_t at = et_load(ET_I64, expr_data(m, k->at)->data).i, place[MAX_RANK] = {0};
  for (uint32_t i = k->ndims; i-- > 0;) {
    int64_t n = max64(sym_int_or(p->c, k->dims[i], 1), 1);
    place[i] = at % n, at /= n;
  }
  sbuf b = sbuf_new(m->a);
  sb_fmt(&b, "%s %lld", k->text, (long long)et_load(ET_I64, expr_data(m, k->value)->data).i);
  for (uint32_t i = 0; i < k->ndims; i++) sb_fmt(&b, "%s%lld", i ? ", " : " at [", (long long)place[i]);
  sb_fmt(&b, "%s is out of range %s..%s", k->ndims ? "]" : "", sym_str(p->c, k->lo),
         sym_str(p->c, sym_addi(p->c, k->hi, -1)));
  return b.s;
}
/* Decides checks whose `at` has become a constant: where it says that no value is wrong the check is dropped, else
 * the model is wrong, or the branch that the check stands in. */
static bool decide_checks(pw *p) {
  emodule *m = p->m;
  uint32_t n = 0, had = m->checks.n;
  for (uint32_t i = 0; i < had; i++) {
    const value_check k = m->checks.v[i];
    const tensor *at = xt(m, k.at), *v = xt(m, k.value);
    if (at->kind == TK_CONST && et_load(ET_I64, expr_data(m, k.at)->data).i == EXPR_NOWHERE) continue;
    if (at->kind != TK_CONST || v->kind != TK_CONST) {
      m->checks.v[n++] = k;
      continue;
    }
    const char *text = what_fails(p, &k);
    if (!k.block) diag_error(p->c, E_SHAPE, k.node, "%s", text);
    vec_push(m->a, m->guards, ((guard){.ge0 = sym_int(p->c, -1), .text = text, .node = k.node, .block = k.block}));
  }
  m->checks.n = n;
  return n != had;
}
/* Drops checks that nothing needs, and those of dead blocks. */
static bool drop_checks(dce *d) {
  emodule *m = d->p->m;
  uint32_t n = 0, had = m->checks.n;
  for (uint32_t i = 0; i < had; i++)
    if (d->live[m->checks.v[i].value]) m->checks.v[n++] = m->checks.v[i];
  m->checks.n = n;
  return n != had;
}
bool pass_dce(pw *p) {
  emodule *m = p->m;
  bool decided = decide_checks(p);
  dce d = {.p = p, .live = NEWN(p->a, uint8_t, m->tensors.n + 1), .late = p->lates};
  pass_flush(p);
  for (uint32_t i = 0; i < m->outputs.n; i++) need(&d, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->inputs.n; i++) need(&d, m->inputs.v[i].t);
  for (uint32_t i = 0; i < m->guards.n; i++) need_size(&d, m->guards.v[i].ge0);
  need_checks(&d, 0);
  drain(&d);
  while (visit_items(&d, 0)) {}
  bool any = sweep(&d, 0, false) | decided;
  any |= drop_checks(&d);
  uint32_t n = 0; /* drops late sizes that nobody uses */
  for (uint32_t i = 0; i < m->lates.n; i++)
    if (d.live[m->lates.v[i].tensor]) m->lates.v[n++] = m->lates.v[i];
  any |= n != m->lates.n;
  m->lates.n = n;
  if (any) pass_index(p);
  return any;
}
