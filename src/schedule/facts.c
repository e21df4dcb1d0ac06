/* Which facts about a kernel do candidates need? Collected while its schedule is recorded: the loops of its nests, and
 * along which of them the tile's lanes and rows may run, as the choice of the tile itself answers. */
#include "schedule/kernel_in.h"
#include <string.h>

enum { MOST_LOOPS = 8 * sizeof(uint64_t) }; /* bits of loop_facts.rows */

const nest_facts *facts_of_nest(const kernel_facts *f, const char *name) {
  for (uint32_t i = 0; i < f->nests.n; i++)
    if (!strcmp(f->nests.v[i].name, name)) return &f->nests.v[i];
  return NULL;
}
nest_facts *kernel_nest_facts(const kctx *k, const u32vec *group) {
  return k->facts ? (nest_facts *)facts_of_nest(k->facts, kernel_nest_name(k, group)) : NULL;
}
static loop_facts loop_of(kctx *k, atom v, bool reduced) {
  return (loop_facts){.name = arena_strdup(k->p->l->a, kernel_var_text(k, v)),
                      .extent = view_extent(k->c, sym_extent(k->c, v), -1),
                      .reduced = reduced,
                      .unrolls = kernel_extent(k, v, INT64_MAX) <= WINDOW_STEPS};
}
static void add_operands(kctx *k, const accesses *acc, nest_facts *n) {
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    const char *name = xt(k->m, a->t)->name;
    bool had = !a->leader || a->store;
    for (uint32_t j = 0; j < n->operands.n && !had; j++) had = !strcmp(n->operands.v[j].name, name);
    if (!had) vec_push(k->p->l->a, n->operands, ((operand_facts){name, a->constant}));
  }
}
void kernel_note_nest(kctx *k, const u32vec *group, const accesses *acc, const u32vec *domain, const u32vec *red) {
  if (!k->facts || kernel_nest_facts(k, group)) return;
  const ex_node *root = exn(k->m, xs(k->m, group->v[0])->value);
  const uint32_t L = nest_lanes(&k->e.view, group);
  nest_facts n = {.name = kernel_nest_name(k, group),
                  .lanes = L << EK_PLANTED("schedule-facts"),
                  .half_lanes = tile_halves(k->p->t, L),
                  .sum = root->kind == EX_REDUCE,
                  .in_order = root->kind == EX_REDUCE && red_is_arg((rop)root->op)};
  u32vec all = {0};
  for (uint32_t i = 0; i < domain->n; i++) vec_push(k->a, all, domain->v[i]);
  for (uint32_t i = 0; i < red->n; i++) vec_push(k->a, all, red->v[i]);
  for (uint32_t i = 0; i < all.n && i < MOST_LOOPS; i++)
    vec_push(k->p->l->a, n.loops, loop_of(k, all.v[i], i >= domain->n));
  for (uint32_t i = 0; i < n.loops.n; i++) {
    tile_given g = {.lane_given = true, .lane = all.v[i]};
    loop_facts *lane = &n.loops.v[i];
    lane->lanes = tile_choose(&k->e.view, group, acc, domain, red, &g).lane == all.v[i];
    g.row_given = true;
    for (uint32_t r = 0; r < n.loops.n && r < domain->n && lane->lanes; r++) {
      g.row = all.v[r];
      const choice ch = tile_choose(&k->e.view, group, acc, domain, red, &g);
      if (r != i && ch.row == all.v[r] && ch.lane == all.v[i]) n.loops.v[r].rows |= UINT64_C(1) << i;
    }
  }
  add_operands(k, acc, &n);
  vec_push(k->p->l->a, k->facts->nests, n);
}
void kernel_note_shared(kctx *k, atom v) {
  if (k->facts) vec_push(k->p->l->a, k->facts->shared, loop_of(k, v, false));
}
