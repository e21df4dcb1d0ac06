/* The order of the work: lay out the tensors, then one launch after another in the module's execution order (a kernel
 * runs where its first stage stands). */
#include "schedule/schedule.h"
#include "schedule/kernel.h"
#include "schedule/layout_in.h"
#include "schedule/state.h"

static void add_storage(arena *a, tensor_record *r, storages *all) {
  for (uint32_t i = 0; i < all->n; i++)
    if (all->v[i] == r) return;
  if (!r) return;
  add_storage(a, r->whole, all);
  vec_push(a, *all, r);
}
void schedule_storages(const splan *p, const launch *l, storages *all) {
  for (uint32_t k = 0; k < l->stages.n && l->record; k++)
    add_storage(p->m->a, p->storages[xs(p->m, l->stages.v[k])->tensor], all);
}
void schedule_print(const splan *p, bool (*wanted)(void *env, const launch *l), void *env, sbuf *out) {
  storages all = {0};
  schedules_print_head(out);
  for (uint32_t i = 0; i < p->launches.n; i++)
    if (!wanted || wanted(env, &p->launches.v[i])) schedule_storages(p, &p->launches.v[i], &all);
  for (uint32_t i = 0; i < all.n; i++) record_print_tensor(all.v[i], out);
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
    if (k && map_getu(p->hashes, k->hash, &alike) && alike == 1 && !EK_PLANTED("schedule-named")) k->nth = 0;
  }
}
splan *schedule_module(emodule *m, const target *t, schedule_opts o) {
  const int level = o.level;
  splan *p = NEW(m->a, splan);
  p->m = m;
  p->l = loop_module(m->c, ctx_arena(m->c));
  p->t = t;
  p->level = level, p->strict = o.strict, p->unread = o.unread, p->no_reuse = o.no_reuse;
  p->record = o.record, p->stated = o.stated, p->reproducible = o.reproducible;
  vec_push(p->l->a, p->buffers, ((buffer){0}));
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
