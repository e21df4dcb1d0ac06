/* The order of the work: what windows read of inputs (windows.c), lay out the tensors, then one launch after another
 * in the module's execution order (a kernel runs where its first stage stands). */
#include "schedule/schedule.h"
#include "schedule/windows.h"
#include "schedule/kernel.h"
#include "schedule/layout_in.h"
#include "schedule/state.h"

/* ---- copies: what must arrive in a certain place but is not computed there ------------------- */
/* A placement without a kernel counts, too: its pieces store into it. */
static bool in_block(emodule *m, tid t, uint32_t block) {
  return xt(m, t)->kind == TK_STAGE && xs(m, xt(m, t)->stage)->block == block;
}
static void claim(map *taken, tid t) { map_putu(taken, t, 1); }
static bool claimed(map *taken, tid t) {
  uint64_t d;
  return map_getu(taken, t, &d);
}
/* An output, a branch's result, a loop's next value: each needs a tensor computed in its own block and used for this
 * purpose only. Where that is not so (an input or a constant passed on, one tensor under two names), a
 * copy makes it so. Loop values that are themselves inner values (swaps) go through the copy, too: it runs before
 * any inner value is overwritten. */
/* a branch's result or what a loop collected, of the root block: it can be computed in the output's own memory */
static bool result_of_root(emodule *m, tid t) {
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t k = 0; k < m->ifs.v[i].n && !m->ifs.v[i].block; k++)
      if (m->ifs.v[i].results[k] == t) return true;
  for (uint32_t i = 0; i < m->loops.n; i++)
    for (uint32_t k = 0; k < m->loops.v[i].ncollected && !m->loops.v[i].block; k++)
      if (m->loops.v[i].collected[k] == t) return true;
  return false;
}
/* Neighbours in the last axis are results of different parts of a product (its last digit counts a few): no vector
 * of them is ever computed together, so they are stored as they come, and copied into order. */
static bool woven(emodule *m, tid t) {
  enum { MIN_INNER = 8 };
  if (xt(m, t)->kind != TK_STAGE) return false;
  const stage *s = xs(m, xt(m, t)->stage), *lead = s->kernel ? xs(m, m->kernels.v[s->kernel - 1].stages.v[0]) : NULL;
  if (!lead || s->naxes < 2 || !lead->value || exn(m, lead->value)->kind != EX_REDUCE ||
      m->kernels.v[s->kernel - 1].cls != KC_CONTRACTION)
    return false;
  const axis *last = &s->axes[s->naxes - 1];
  return last->n > 1 && sym_int_or(m->c, sym_extent(m->c, last->d[last->n - 1].var), MIN_INNER) < MIN_INNER;
}
/* The branch's result, or the state's old value, that its new value is a copy of, if nothing else wants the copy: then
 * the branches can write to the state's memory themselves, and what never changes need not be written. 0: there is
 * none. */
static tid copied_result(emodule *m, tid t, tid old) {
  if (xt(m, t)->kind != TK_STAGE) return 0;
  const uint32_t s = xt(m, t)->stage;
  const stage *x = xs(m, s);
  const ex_node *n = x->value && !x->updates.n ? exn(m, x->value) : NULL;
  bool same = n && n->kind == EX_LOAD && !n->otherwise && x->block == 0 &&
              (n->tensor == old || result_of_root(m, n->tensor)) &&
              (!x->kernel || m->kernels.v[x->kernel - 1].stages.n == 1);
  for (uint32_t i = 0; same && i < x->naxes; i++)
    same = sym_eq(m->c, n->args[i], expr_axis_index(m, &x->axes[i])) &&
           sym_eq(m->c, xt(m, t)->shape[i], xt(m, n->tensor)->shape[i]);
  for (uint32_t i = 0; same && i < m->stages.n; i++) {
    u32vec loads = {0};
    if (i == s || xs(m, i)->dead) continue;
    expr_stage_loads(m, i, m->a, &loads);
    for (uint32_t k = 0; k < loads.n; k++) same &= exn(m, loads.v[k])->tensor != t;
  }
  for (uint32_t i = 0; same && i < m->outputs.n; i++) same = m->outputs.v[i].t != n->tensor;
  return same ? n->tensor : 0;
}
static void leave_copies_out(emodule *m) {
  const uint32_t plain = m->outputs.n - m->states.n;
  for (uint32_t i = plain; i < m->outputs.n; i++) {
    const tid t = m->outputs.v[i].t, result = copied_result(m, t, expr_state_in(m, i - plain));
    bool twice = false;
    for (uint32_t k = 0; k < m->outputs.n; k++) twice |= k != i && m->outputs.v[k].t == t;
    if (!result || twice) continue;
    xs(m, xt(m, t)->stage)->dead = true;
    m->outputs.v[i].t = result;
  }
}
static void separate_results(emodule *m, int level) {
  leave_copies_out(m);
  map *taken = map_new(m->a);
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    tid t = m->outputs.v[i].t;
    const uint32_t plain = m->outputs.n - m->states.n;
    if (i >= plain && t == expr_state_in(m, i - plain)) continue; /* a state that never changes */
    if ((!in_block(m, t, 0) && !result_of_root(m, t)) || (claimed(taken, t) && !EK_PLANTED("schedule-copies")) ||
        (level > 0 && woven(m, t)))
      m->outputs.v[i].t = t = xs(m, expr_copy_stage(m, 0, t, "out"))->tensor;
    claim(taken, t);
  }
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t j = 0; j < m->ifs.v[i].n; j++)
      for (int side = 0; side < 2; side++) {
        tid *t = side ? &m->ifs.v[i].else_vals[j] : &m->ifs.v[i].then_vals[j];
        uint32_t b = side ? m->ifs.v[i].else_block : m->ifs.v[i].then_block;
        if (!in_block(m, *t, b) || claimed(taken, *t)) *t = xs(m, expr_copy_stage(m, b, *t, "result"))->tensor;
        claim(taken, *t);
      }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    xloop *x = &m->loops.v[i];
    for (uint32_t j = 0; j < x->ncarried; j++) {
      uint32_t s = expr_copy_stage(m, x->block, x->init[j], "init");
      x->init[j] = xs(m, s)->tensor;
      block *b = &m->blocks.v[x->block];
      uint32_t at = 0;
      while (b->items.v[at].kind != IT_LOOP || b->items.v[at].index != i) at++;
      expr_move_item(m, x->block, b->items.n - 1, at);
      if (!in_block(m, x->next[j], x->body))
        x->next[j] = xs(m, expr_copy_stage(m, x->body, x->next[j], "next"))->tensor;
    }
    for (uint32_t j = 0; j < x->ncollected; j++) /* stored straight into the collection */
      x->slice[j] = xs(m, expr_copy_stage(m, x->body, x->slice[j], "slice"))->tensor;
    /* stored into the inner value, last of all */
    for (uint32_t j = 0; j < x->ncarried; j++)
      x->next[j] = xs(m, expr_copy_stage(m, x->body, x->next[j], "carry"))->tensor;
  }
}

/* How a tensor is stored; the whole of a part comes before the part. */
static void print_storage(tensor_record *r, map *printed, sbuf *out) {
  uint64_t had;
  if (!r || map_gets(printed, r->name, &had)) return;
  map_puts(printed, r->name, 1);
  print_storage(r->whole, printed, out);
  record_print_tensor(r, out);
}
void schedule_print(const splan *p, bool (*wanted)(void *env, const launch *l), void *env, sbuf *out) {
  map *printed = map_new(p->m->a);
  schedules_print_head(out);
  for (uint32_t i = 0; i < p->launches.n; i++) {
    const launch *l = &p->launches.v[i];
    const bool print = l->record && (!wanted || wanted(env, l));
    for (uint32_t k = 0; k < l->stages.n && print; k++)
      print_storage(p->storages[xs(p->m, l->stages.v[k])->tensor], printed, out);
  }
  for (uint32_t i = 0; i < p->launches.n; i++) {
    const launch *l = &p->launches.v[i];
    if (l->record && (!wanted || wanted(env, l))) record_print(l->record, out);
  }
}
/* Every schedule that is given is of some kernel. */
static void check_used(splan *p) {
  for (uint32_t i = 0; p->stated && i < p->stated->kernels.n; i++) {
    const kernel_record *k = &p->stated->kernels.v[i];
    if (k->used) continue;
    diag_add(
        p->m->c, D_ERROR, E_USAGE, k->pos, NULL,
        "no kernel of the model has this %s; `einkorn show MODEL --stage schedule` prints them with the same options",
        k->hashed ? "hash" : "number");
  }
}
/* A kernel whose hash no other one has needs no number among those with the hash. */
static void name_unique(splan *p) {
  for (uint32_t i = 0; i < p->launches.n; i++) {
    kernel_record *k = p->launches.v[i].record;
    uint64_t alike;
    if (k && map_getu(p->hashes, k->hash, &alike) && alike == 1) k->nth = 0;
  }
}
splan *schedule_module(emodule *m, const target *t, schedule_opts o) {
  const int level = o.level;
  splan *p = NEW(m->a, splan);
  p->m = m;
  p->l = loop_module(m->c, ctx_arena(m->c));
  p->t = t;
  p->level = level, p->strict = o.strict, p->unread = o.unread, p->no_reuse = o.no_reuse;
  p->record = o.record, p->stated = o.stated;
  vec_push(p->l->a, p->buffers, ((buffer){0}));
  separate_results(m, level);
  if (level > 0) schedule_windows(p);
  storage_separate(p);
  schedule_states(p);
  layout_all(p);
  bool *done = NEWN(m->a, bool, m->kernels.n + 1), *in_recurrences = NEWN(m->a, bool, m->recurrences.n + 1);
  for (uint32_t b = 0; b < m->blocks.n; b++)
    for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
      item it = m->blocks.v[b].items.v[i];
      if (it.kind != IT_STAGE) continue;
      stage *s = xs(m, it.index);
      if (s->dead) continue;
      u32vec stages = {0};
      const u32vec *outer = NULL;
      const map *canon = NULL;
      uint32_t kid = UINT32_MAX;
      if (s->kernel) {
        if (done[s->kernel]) continue;
        done[s->kernel] = true;
        kernel *k = &m->kernels.v[s->kernel - 1];
        for (uint32_t j = 0; j < k->stages.n; j++)
          if (!xs(m, k->stages.v[j])->dead) vec_push(m->a, stages, k->stages.v[j]);
        outer = &k->outer;
        canon = k->canon;
        kid = s->kernel - 1;
      } else if (level > 0)
        continue; /* virtual: its sources store it */
      else if (s->recurrence) {
        if (in_recurrences[s->recurrence]) continue;
        in_recurrences[s->recurrence] = true;
        for (uint32_t j = 0; j < m->stages.n; j++)
          if (!xs(m, j)->dead && xs(m, j)->recurrence == s->recurrence) vec_push(m->a, stages, j);
      } else
        vec_push(m->a, stages, it.index);
      kernel_schedule(p, &(kernel_ref){&stages, outer, canon, kid, b, NULL}, i);
    }
  equal_end(p);
  check_used(p);
  name_unique(p);
  return p;
}
loop_cost launch_cost(const splan *p, const launch *l) {
  arena *a = arena_new(p->m->c);
  int64_t *args = NEWN(a, int64_t, l->args.n + 1);
  for (uint32_t i = 0; i < l->args.n; i++) args[i] = l->args.v[i].is_buffer ? 0 : expr_typical(p->m, l->args.v[i].size);
  const loop_cost r = cost_of_loops(l->func, args, expr_typical(p->m, l->chunks), p->t, a);
  arena_free(a);
  return r;
}
