/* In which order is a module differentiated?
 *
 * 1. Forward: which tensors depend on `wrt` through floats (active). Backward: which of these `outs` depend on
 *   (useful). 2. Reductions inside useful values become stages (hoist.c). 3. The block's
 * items are walked backwards; when a stage is reached all its readers have contributed, so its adjoint is finished
 * (adjoint.c) and the stage contributes to what it reads (value.c). A recurrence is one step of this walk
 * (recurrence.c). 4. The adjoints asked for are finished. New stages are appended to the block in this order, which is
 * one of dependence.
 */
#include "grad/grad_in.h"
#include <stdio.h>
#include <string.h>

void grad_refuse(gr *g, const char *origin, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *text = arena_alloc(g->a, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(ap), va_end(again);
  diag_error(g->c, E_UNSUPPORTED, origin, "no gradient through %s", text);
  ctx_unwind(g->c);
}
uint32_t grad_append(gr *g, tid t, const axis *axes, uint32_t naxes, ex value) {
  return expr_stage(g->m, g->block, t, axes, naxes, value);
}
void grad_contribute(gr *g, contrib k) {
  if (k.x < g->ntensors && g->active[k.x]) vec_push(g->a, g->into[k.x], k);
}

/* ---- what depends on what -------------------------------------------------------------------- */
static bool stage_live(gr *g, map *memo, uint32_t s) {
  const stage *x = xs(g->m, s);
  if (x->stop || x->dead || et_kind(xt(g->m, x->tensor)->type) != K_FLOAT) return false;
  bool live = grad_live(g, memo, x->value);
  for (uint32_t i = 0; i < x->updates.n; i++) live |= grad_live(g, memo, x->updates.v[i].value);
  return live;
}
void grad_stage_reads(gr *g, uint32_t s, u32vec *loads) {
  const stage *x = xs(g->m, s);
  if (x->value) expr_loads(g->m, x->value, g->a, loads);
  for (uint32_t i = 0; i < x->updates.n; i++) expr_loads(g->m, x->updates.v[i].value, g->a, loads);
}
static bool is_active(gr *g, tid t) { return t && t < g->ntensors && g->active[t]; }
static bool block_active(gr *g, uint32_t blk);
static bool if_active(gr *g, const xif *f) {
  bool any = block_active(g, f->then_block) || block_active(g, f->else_block);
  for (uint32_t i = 0; i < f->n; i++) any |= is_active(g, f->then_vals[i]) || is_active(g, f->else_vals[i]);
  return any;
}
static bool loop_active(gr *g, const xloop *l) {
  bool any = block_active(g, l->body);
  for (uint32_t i = 0; i < l->ncarried; i++) any |= is_active(g, l->init[i]) || is_active(g, l->next[i]);
  for (uint32_t i = 0; i < l->ncollected; i++) any |= is_active(g, l->slice[i]);
  return any;
}
static bool block_active(gr *g, uint32_t blk) { /* does anything in it read an active tensor? */
  emodule *m = g->m;
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_IF && if_active(g, &m->ifs.v[it.index])) return true;
    if (it.kind == IT_LOOP && loop_active(g, &m->loops.v[it.index])) return true;
    if (it.kind != IT_STAGE || xs(m, it.index)->dead || xs(m, it.index)->stop) continue;
    u32vec l = {0};
    grad_stage_reads(g, it.index, &l);
    for (uint32_t k = 0; k < l.n; k++)
      if (et_kind(exn(m, l.v[k])->type) == K_FLOAT && is_active(g, exn(m, l.v[k])->tensor)) return true;
  }
  return false;
}
static bool set_active(gr *g, tid t) {
  if (!t || g->active[t] || et_kind(xt(g->m, t)->type) != K_FLOAT) return false;
  g->active[t] = 1;
  return true;
}
static void find_active(gr *g, const tid *wrt, uint32_t nwrt) {
  emodule *m = g->m;
  g->ntensors = m->tensors.n;
  g->active = arena_alloc(g->a, g->ntensors);
  grad_stated_begin(g);
  for (uint32_t i = 0; i < nwrt; i++) g->active[wrt[i]] = 1;
  for (bool again = true; again;) { /* more than one round only for recurrences */
    map *memo = map_new(g->a);
    bool recurrences = false, changed = false;
    for (uint32_t i = 0; i < m->blocks.v[g->block].items.n; i++) {
      item it = m->blocks.v[g->block].items.v[i];
      bool now = false;
      if (it.kind == IT_STAGE) {
        tid t = xs(m, it.index)->tensor;
        if (t < g->ntensors && g->call_in[t]) {
          now = stage_live(g, memo, it.index) && !g->given[t];
          g->given[t] |= now;
        } else
          now =
              (stage_live(g, memo, it.index) || (!xs(m, it.index)->stop && grad_stated_live(g, t))) && set_active(g, t);
      } else if (it.kind == IT_IF && if_active(g, &m->ifs.v[it.index]))
        for (uint32_t k = 0; k < m->ifs.v[it.index].n; k++) now |= set_active(g, m->ifs.v[it.index].results[k]);
      else if (it.kind == IT_LOOP && loop_active(g, &m->loops.v[it.index])) {
        const xloop *l = &m->loops.v[it.index];
        for (uint32_t k = 0; k < l->ncarried; k++) now |= set_active(g, l->final[k]);
        for (uint32_t k = 0; k < l->ncollected; k++) now |= set_active(g, l->collected[k]);
      }
      changed |= now;
      recurrences |= it.kind == IT_STAGE && xs(m, it.index)->recurrence;
    }
    again = recurrences && changed;
  }
}
/* A branch or a loop one of whose results is useful: so is all it reads. */
static void mark_captured(gr *g, item it, uint8_t *useful) {
  emodule *m = g->m;
  bool any = false;
  if (it.kind == IT_IF)
    for (uint32_t i = 0; i < m->ifs.v[it.index].n; i++) any |= useful[m->ifs.v[it.index].results[i]];
  else {
    const xloop *l = &m->loops.v[it.index];
    for (uint32_t i = 0; i < l->ncarried; i++) any |= l->final[i] && useful[l->final[i]];
    for (uint32_t i = 0; i < l->ncollected; i++) any |= useful[l->collected[i]];
  }
  u32vec reads = {0};
  if (any) grad_captured(g, it, &reads);
  for (uint32_t i = 0; i < reads.n; i++) useful[reads.v[i]] = 1;
}
/* Stages between: active, and an active out depends on them. */
static void find_useful(gr *g, const tid *outs, uint32_t nout, u32vec *stages) {
  emodule *m = g->m;
  uint8_t *useful = arena_alloc(g->a, g->ntensors), *listed = arena_alloc(g->a, m->stages.n + 1);
  for (uint32_t i = 0; i < nout; i++) useful[outs[i]] = 1;
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = m->blocks.v[g->block].items.n; i-- > 0;) {
      item it = m->blocks.v[g->block].items.v[i];
      if (it.kind != IT_STAGE) {
        mark_captured(g, it, useful);
        continue;
      }
      if (listed[it.index] || xs(m, it.index)->dead) continue;
      tid t = xs(m, it.index)->tensor;
      bool given = t < g->ntensors && g->given[t];
      if (!useful[t] || !(g->active[t] || given) || xs(m, it.index)->stop) continue;
      listed[it.index] = 1;
      if (!given) vec_push(g->a, *stages, it.index);
      if (grad_stated_live(g, t)) {
        const stated_call *s = &m->stated.v[g->call_out[t] - 1];
        for (uint32_t k = 0; k < s->nargs; k++)
          if (s->given[k]) useful[s->args[k]] = 1;
      }
      u32vec l = {0};
      grad_stage_reads(g, it.index, &l);
      for (uint32_t k = 0; k < l.n; k++)
        if (exn(m, l.v[k])->tensor < g->ntensors) useful[exn(m, l.v[k])->tensor] = 1;
      again |= xs(m, it.index)->recurrence != 0;
    }
  }
}

/* ---- the walk -------------------------------------------------------------------------------- */
static void seed(gr *g, tid out, tid s) {
  emodule *m = g->m;
  axis axes[MAX_RANK];
  sz idx[MAX_RANK];
  u32vec vars = {0};
  uint32_t rank = xt(m, out)->rank;
  grad_axes(g, out, axes, idx);
  for (uint32_t i = 0; i < rank; i++)
    for (uint32_t k = 0; k < axes[i].n; k++) vec_push(g->a, vars, axes[i].d[k].var);
  etype t = xt(m, out)->type;
  ex d = s ? expr_load(m, s, idx, rank, 0) : expr_f(m, t, 1);
  grad_contribute(g, (contrib){.x = out,
                               .idx = arena_dup(g->a, idx, (rank + 1) * sizeof *idx),
                               .d = d,
                               .g = expr_f(m, t, 1),
                               .vars = vars.v,
                               .nvars = vars.n,
                               .origin = xt(m, out)->origin});
}
void grad_add(gr *g, tid t, tid adjoint) { /* an adjoint of t, computed elsewhere, as a contribution */
  if (t < g->ntensors && g->active[t]) seed(g, t, adjoint);
}
void grad_finish_tensor(gr *g, tid t) {
  if (!g->adj[t] && g->into[t].n) g->adj[t] = grad_finish(g, t, &g->into[t]);
}
static void contribute_all(gr *g, uint32_t s) {
  contribs all = {0};
  grad_stage_loads(g, s, g->adj[xs(g->m, s)->tensor], 0, &all);
  for (uint32_t i = 0; i < all.n; i++) grad_contribute(g, all.v[i]);
}
static void back_through(gr *g, uint32_t s, uint8_t *recurrence_done) {
  emodule *m = g->m;
  tid t = xs(m, s)->tensor;
  uint32_t sc = xs(m, s)->recurrence;
  if (xs(m, s)->dead || t >= g->ntensors || !(g->active[t] || g->given[t])) return;
  if (g->given[t]) {
    g->adj[t] = grad_stated(g, t);
    if (g->adj[t]) contribute_all(g, s);
    return;
  }
  if (sc && m->recurrences.v[sc].var) {
    if (!recurrence_done[sc]) recurrence_done[sc] = 1, grad_recurrence(g, sc);
    return;
  }
  grad_finish_tensor(g, t);
  if (!g->adj[t] || xs(m, s)->stop) return;
  contribute_all(g, s);
}
tid grad_zeros(gr *g, tid t) {
  emodule *m = g->m;
  axis axes[MAX_RANK];
  sz idx[MAX_RANK];
  const tensor x = *xt(m, t);
  grad_axes(g, t, axes, idx);
  tid r = expr_tensor(m, TK_STAGE, x.type, x.shape, x.rank, grad_name(g, t), x.origin);
  grad_append(g, r, axes, x.rank, expr_f(m, x.type, 0));
  return r;
}
static void check_arguments(gr *g, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt, uint32_t nwrt) {
  emodule *m = g->m;
  for (uint32_t i = 0; i < nout + nwrt; i++) {
    tid t = i < nout ? outs[i] : wrt[i - nout];
    if (!t || t >= m->tensors.n) ctx_bug(g->c, "grad: no tensor %u", t);
    if (et_kind(xt(m, t)->type) != K_FLOAT)
      ctx_fail(g->c, E_USAGE, "gradient of %s: it is %s; only floats have gradients", xt(m, t)->name,
               et_name(xt(m, t)->type));
    if (i >= nout || !seeds || !seeds[i]) continue;
    const tensor *s = xt(m, seeds[i]), *o = xt(m, t);
    bool fits = s->type == o->type && s->rank == o->rank;
    for (uint32_t k = 0; fits && k < s->rank; k++) fits = !sym_ne(g->c, s->shape[k], o->shape[k]);
    if (!fits) ctx_fail(g->c, E_SHAPE, "gradient: the adjoint %s has not the type and shape of %s", s->name, o->name);
  }
}
static void reverse(gr *g, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt, uint32_t nwrt,
                    tid *adjoints) {
  emodule *m = g->m;
  u32vec between = {0};
  check_arguments(g, outs, seeds, nout, wrt, nwrt);
  find_active(g, wrt, nwrt);
  find_useful(g, outs, nout, &between);
  for (uint32_t i = 0; i < between.n; i++) {
    uint32_t made = m->stages.n;
    grad_split_updates(g, between.v[i]);
    for (uint32_t k = made; k < m->stages.n; k++) grad_hoist(g, k);
    grad_hoist(g, between.v[i]);
  }
  find_active(g, wrt, nwrt); /* once more, with the new stages */
  g->into = NEWN(g->a, contribs, g->ntensors);
  g->adj = NEWN(g->a, tid, g->ntensors);
  g->wanted = arena_alloc(g->a, g->ntensors);
  for (uint32_t i = 0; i < nwrt; i++) g->wanted[wrt[i]] = 1;
  for (tid t = 1; t < g->ntensors; t++) g->wanted[t] |= grad_stated_live(g, t);
  for (uint32_t i = 0; i < nout; i++) seed(g, outs[i], seeds ? seeds[i] : 0);
  uint32_t n = m->blocks.v[g->block].items.n;
  uint8_t *recurrence_done = arena_alloc(g->a, m->recurrences.n + 1);
  for (uint32_t i = n; i-- > 0;) {
    item it = m->blocks.v[g->block].items.v[i];
    if (it.kind == IT_STAGE)
      back_through(g, it.index, recurrence_done);
    else if (it.kind == IT_IF)
      grad_if(g, it.index);
    else
      grad_loop(g, it.index);
  }
  for (uint32_t i = 0; i < nwrt; i++) {
    grad_finish_tensor(g, wrt[i]);
    if (!g->adj[wrt[i]]) g->adj[wrt[i]] = grad_zeros(g, wrt[i]);
    adjoints[i] = g->adj[wrt[i]];
  }
}
void grad_block(gr *outer, uint32_t block, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt,
                uint32_t nwrt, tid *adjoints) {
  gr *g = NEW(outer->a, gr);
  *g = (gr){.m = outer->m, .c = outer->c, .a = outer->a, .block = block};
  reverse(g, outs, seeds, nout, wrt, nwrt, adjoints);
}
bool grad_reverse(emodule *m, uint32_t block, const tid *outs, const tid *seeds, uint32_t nout, const tid *wrt,
                  uint32_t nwrt, tid *adjoints) {
  gr *g = NEW(m->a, gr);
  *g = (gr){.m = m, .c = m->c, .a = arena_new(m->c), .block = block};
  volatile bool ok = false;
  CTX_TRY(m->c) {
    reverse(g, outs, seeds, nout, wrt, nwrt, adjoints);
    ok = m->derived = true;
  }
  CTX_CATCH { ok = false; }
  arena_free(g->a);
  return ok;
}
