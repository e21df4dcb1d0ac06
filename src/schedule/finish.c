/* What is left to decide of a nest when its loops, its tile and what it packs are there?
 *
 * Whether few sums have two accumulators each; whether the last lanes run as a panel like the others; which loop is
 * written out; which loops of sums leave out places outside of a tensor; from which end steps of a recurrence begin;
 * for which sizes there is a copy of the nest (versions.c); what is fetched ahead. Emission follows.
 */
#include "schedule/kernel_in.h"
#include "cost/cost.h"

enum { WAITING_SUMS = 6 }; /* so few sums of a tile wait for one another's additions */
bool nest_adds_pairs(emodule *m, const nest *n, uint32_t i) {
  const ex_node *red = exn(m, xs(m, n->stages.v[i])->value);
  const u32vec *vars = &n->reds[i];
  if (red->kind != EX_REDUCE || red->op != RED_SUM || red->where || et_kind((etype)red->acc) != K_FLOAT || !vars->n ||
      instruction_of(n, i, 0) || schedule_adds_loads(m, red))
    return false;
  const int64_t ext = sym_int_or(m->c, sym_extent(m->c, vars->v[vars->n - 1]), 1);
  return ext > 2 && (ext % 2 == 0 || EK_PLANTED("schedule-finish"));
}
/* Do the rows begin where a thread's part does, and not at whole tiles? Then the number of threads decides how many
 * rows are in the tile of a row. */
static bool rows_begin_anywhere(nest *n) {
  const nvar *rows = nest_rows(n);
  return rows->lo && !rows->one_block && (!rows->unit || rows->unit % n->mr);
}
/* A tile of few sums waits for each of them from step to step: of an open number of rows, which has tiles of every
 * height, the few have two accumulators each, of every second point. The order of a sum then follows from the height
 * of its tile. */
static void decide_accumulators(kctx *k, nest *n) {
  const bool one_only = k->p->reproducible && rows_begin_anywhere(n) && !EK_PLANTED("schedule-reproducible");
  bool any = false;
  for (uint32_t i = 0; i < n->stages.n; i++) any |= n->row.var && !n->lane_reduced && nest_adds_pairs(k->m, n, i);
  if (!any) return;
  const directive *d = stated(k, &n->stages, P_ACCUMULATORS);
  const bool two = d && kernel_number(k, d, d->words.v[0], 1, 2) == 2;
  if (d && two != (d->words.n == 2)) kernel_refuse(k, d, "expected 1, or 2 and the most sums of such a tile");
  if (two && one_only)
    kernel_refuse(k, d, "the number of threads decides where tiles of rows begin, and reproducible bits are asked for");
  if (d && !EK_PLANTED("follow-accumulators"))
    n->paired_sums = two ? (uint32_t)kernel_number(k, d, d->words.v[1], 1, MAX_TILE) : 0;
  else if (!one_only && !sym_is_int(k->c, n->row.extent, NULL))
    n->paired_sums = WAITING_SUMS;
  directive *made = kernel_record_new(k, &n->stages, P_ACCUMULATORS);
  kernel_record_number(k, made, n->paired_sums ? 2 : 1);
  if (n->paired_sums) kernel_record_number(k, made, n->paired_sums);
}
/* Of the primitive's two words the one that is stated (and followed), or else the first one if that pays. */
static void decide_either(kctx *k, nest *n, primitive is, bool follow, bool pays) {
  const char *words[2];
  if (!record_either(k->a, is, words)) ctx_bug(k->c, "schedule: %s has not two words", primitive_forms[is].name);
  n->first[is] = stated(k, &n->stages, is) && follow ? stated_either(k, &n->stages, is, words[0], words[1]) : pays;
  kernel_record_word(k, kernel_record_new(k, &n->stages, is), words[!n->first[is]]);
}
/* Do the last lanes, fewer than a vector, run as a panel like those before, of which less is read and stored? Where a
 * tile has many values, code of their own would be as long as that of all others. */
static void decide_edge(kctx *k, nest *n) {
  const int64_t ext = view_extent(k->c, n->lane.extent, 0), each = (int64_t)n->nv * n->lanes;
  const bool may = n->lane.var && !n->lane_reduced && k->p->t->masks && n->nv == 1 && !n->lane.lo && ext > each &&
                   ext % each && !n->blocking.panels && !n->rows_outer;
  if (!may) return;
  decide_either(k, n, P_EDGE, !EK_PLANTED("follow-edge"), cost_shares_edge_code(n->stages.n));
}
/* A loop of few steps is written out where each does little and for one place only, or where its variable decides
 * choices of the formulas. */
static void decide_unrolling(kctx *k, nest *n) {
  const nvar *v = n->inner.n ? &n->inner.v[n->inner.n - 1] : NULL;
  const int64_t ext = v ? view_extent(k->c, v->extent, INT64_MAX) : 0;
  uint64_t ops = 0, taken = 0;
  bool may = true;
  if (!v || v->lo || ext > WINDOW_STEPS) return;
  for (uint32_t i = 0; i < n->stages.n; i++) may &= xs(k->m, n->stages.v[i])->value && !n->reds[i].n;
  if (!may) return;
  const bool decides = decides_choices(&k->e.view, &n->stages, v->var, ext, &ops, &taken);
  may = decides || (!n->lane.var && ext <= MAX_WRITTEN_OUT);
  if (!may) return;
  const directive *d = stated(k, &n->stages, P_UNROLL);
  const u32vec only = {.v = (uint32_t[]){v->var}, .n = 1};
  const bool none = directive_is(d, 0, "none");
  if (d && !none) kernel_var(k, d, d->words.v[0], &only);
  n->written_out =
      d ? !none
        : (decides && cost_decided_pays(ext, ops, taken)) || (!n->lane.var && cost_written_out(ext, ops + n->stages.n));
  kernel_record_word(k, kernel_record_new(k, &n->stages, P_UNROLL),
                     n->written_out ? kernel_var_text(k, v->var) : "none");
}
static void note_word(kctx *k, strvec *to, const char *word) {
  vec_push(k->p->l->a, *to, arena_strdup(k->p->l->a, word));
}
/* Loops of sums that leave out places outside of a tensor, which a halo holds: where these are enough of all. */
static void decide_bounds(kctx *k, nest *n) {
  u32vec all = {0};
  for (uint32_t i = 0; i < n->stages.n; i++)
    outside_variables(&k->e.view, exn(k->m, xs(k->m, n->stages.v[i])->value), &all, &n->bounds);
  if (!all.n) return;
  nest_facts *facts = kernel_nest_facts(k, &n->stages);
  for (uint32_t i = 0; i < all.n && facts; i++) note_word(k, &facts->bounds, kernel_var_text(k, all.v[i]));
  const directive *d = stated(k, &n->stages, P_BOUND);
  if (EK_PLANTED("follow-bound")) d = NULL;
  if (d) n->bounds.n = 0;
  for (uint32_t i = 0; d && i < d->words.n && !directive_is(d, 0, "none"); i++)
    vec_push(k->a, n->bounds, kernel_var(k, d, d->words.v[i], &all));
  if (n->bounds.n)
    kernel_record_vars(k, &n->stages, P_BOUND, &n->bounds);
  else
    kernel_record_word(k, kernel_record_new(k, &n->stages, P_BOUND), "none");
}
/* Bytes of the constants that a step of the nest's recurrence reads. */
static double step_bytes(kctx *k, const nest *n) {
  const uint32_t r = xs(k->m, n->stages.v[0])->recurrence;
  map *had = map_new(k->a);
  double bytes = 0;
  for (uint32_t i = 0; i < k->m->stages.n; i++) {
    if (xs(k->m, i)->dead || xs(k->m, i)->recurrence != r) continue;
    const u32vec loads = schedule_loads(k->p, i);
    for (uint32_t j = 0; j < loads.n; j++) {
      const tid t = exn(k->m, loads.v[j])->tensor;
      const tensor *x = xt(k->m, t);
      double size = et_bytes(x->type);
      if (x->kind != TK_CONST || map_getu(had, t, &(uint64_t){0})) continue;
      for (uint32_t d = 0; d < x->rank; d++) size *= (double)sym_int_or(k->c, x->shape[d], 1);
      map_putu(had, t, 1);
      bytes += size;
    }
  }
  return bytes;
}
/* Every second step of a recurrence may go through its constants from behind: what a cache too small for all of them
 * has kept is then used first. */
static void decide_sweep(kctx *k, nest *n) {
  bool constants = false;
  for (uint32_t i = 0; i < n->packs.n; i++) constants |= n->packs.v[i].constant;
  if (constants && k->e.back)
    decide_either(k, n, P_SWEEP, !EK_PLANTED("follow-sweep"), cost_zigzag_pays(k->p->t, step_bytes(k, n)));
}
/* Copies of the nest for sizes for which some quotients are 0. */
static void decide_versions(kctx *k, nest *n) {
  if (!nest_loops(n)) return;
  conditions all = {0};
  uint32_t at = 0;
  kernel_quotients(k, &n->stages, &all);
  nest_facts *facts = kernel_nest_facts(k, &n->stages);
  for (uint32_t i = 0; i < all.n && facts; i++) note_word(k, &facts->versions, kernel_size_text(k, all.v[i].if_ge0));
  const directive *d = stated_next(k, &n->stages, P_VERSION, &at);
  const bool given = d && !EK_PLANTED("follow-version");
  for (uint32_t i = 0; i < all.n && !given && n->versions.n < MAX_CONDITIONS; i++)
    if (all.v[i].usual) vec_push(k->a, n->versions, all.v[i].if_ge0);
  for (; d; d = stated_next(k, &n->stages, P_VERSION, &at)) {
    uint32_t i = 0;
    if (directive_is(d, 0, "none")) continue;
    while (i < all.n && !directive_is(d, 0, kernel_size_text(k, all.v[i].if_ge0))) i++;
    if (i == all.n) kernel_refuse(k, d, "%s: no quotient of the nest is 0 where this is at least 0", d->words.v[0]);
    if (!vec_has(&n->versions, all.v[i].if_ge0)) vec_push(k->a, n->versions, all.v[i].if_ge0);
  }
  for (uint32_t i = 0; i < n->versions.n; i++)
    kernel_record_word(k, kernel_record_new(k, &n->stages, P_VERSION), kernel_size_text(k, n->versions.v[i]));
  if (all.n && !n->versions.n) kernel_record_word(k, kernel_record_new(k, &n->stages, P_VERSION), "none");
}

/* ---- what is fetched ahead ---------------------------------------------------------------------- */
/* the words of the kinds, and of what the number behind the first two counts */
static const char *const kinds[] = {"panel", "rows", "places", "block"}, *const units[] = {"rows", "sums"};
/* Why it cannot be fetched. */
static _Noreturn void refuse_prefetch(kctx *k, const directive *d, prefetch_kind kind) {
  if (kind == PREFETCH_PANEL)
    kernel_refuse(k, d, "no sum reads %s in panels, of which the next one can be fetched", d->words.v[1]);
  if (kind == PREFETCH_ROWS) kernel_refuse(k, d, "no sum runs during which rows of %s can be fetched", d->words.v[1]);
  if (kind == PREFETCH_PLACES)
    kernel_refuse(k, d, "the loop around the lanes does not read %s at places that it moves on", d->words.v[1]);
  kernel_refuse(k, d, "no blocks of the nest stay in a cache");
}
/* What a directive says is fetched, among what can be. */
static prefetch stated_prefetch(kctx *k, const directive *d, const prefetches *all) {
  uint32_t kind = 0;
  while (kind <= PREFETCH_BLOCK && !directive_is(d, 0, kinds[kind])) kind++;
  const uint32_t words = kind == PREFETCH_BLOCK ? 1 : 2;
  const bool counts = kind <= PREFETCH_ROWS && d->words.n == 4 && directive_is(d, 2, units[kind]);
  if (kind > PREFETCH_BLOCK || (d->words.n != words && !counts))
    kernel_refuse(k, d, "expected %s", primitive_forms[P_PREFETCH].words);
  prefetch x = {.kind = (prefetch_kind)kind, .least = 1};
  bool can = false;
  for (uint32_t i = 0; i < all->n && !can; i++)
    if ((can = all->v[i].kind == x.kind && (words == 1 || directive_is(d, 1, xt(k->m, all->v[i].t)->name))))
      x.t = all->v[i].t;
  if (!can) refuse_prefetch(k, d, x.kind);
  if (counts) x.least = kernel_number(k, d, d->words.v[3], 1, MAX_TILE);
  return x;
}
/* All that can be fetched, in the nest or in its copy. */
static void find_prefetches(kctx *k, const nest *n, prefetches *out) {
  const uint32_t mark = sym_mark(k->c);
  nest_prefetchable(&k->e.view, n, out);
  if (!n->versions.n) return;
  for (uint32_t i = 0; i < n->versions.n; i++) sym_push(k->c, n->versions.v[i]);
  k->e.view.assumed = true;
  nest_prefetchable(&k->e.view, n, out);
  k->e.view.assumed = false;
  sym_pop(k->c, mark);
}
static void put_prefetch(kctx *k, directive *to, const prefetch *x) {
  kernel_record_word(k, to, kinds[x->kind]);
  if (x->t) kernel_record_word(k, to, xt(k->m, x->t)->name);
  if (x->least > 1) kernel_record_word(k, to, units[x->kind]), kernel_record_number(k, to, x->least);
}
static void decide_prefetches(kctx *k, nest *n) {
  prefetches all = {0};
  uint32_t at = 0;
  find_prefetches(k, n, &all);
  const directive *d = stated_next(k, &n->stages, P_PREFETCH, &at);
  const bool given = d && !EK_PLANTED("follow-prefetch");
  for (uint32_t i = 0; i < all.n && !given; i++)
    if (all.v[i].pays) vec_push(k->a, n->prefetches, all.v[i]);
  for (; d; d = stated_next(k, &n->stages, P_PREFETCH, &at)) {
    if (directive_is(d, 0, "none") && d->words.n == 1) continue;
    const prefetch x = stated_prefetch(k, d, &all);
    if (!given) continue;
    if (nest_prefetches(n, x.kind, x.t)) kernel_refuse(k, d, "%s is fetched twice", d->words.v[d->words.n > 1]);
    vec_push(k->a, n->prefetches, x);
  }
  for (uint32_t i = 0; i < n->prefetches.n; i++)
    put_prefetch(k, kernel_record_new(k, &n->stages, P_PREFETCH), &n->prefetches.v[i]);
  if (all.n && !n->prefetches.n) kernel_record_word(k, kernel_record_new(k, &n->stages, P_PREFETCH), "none");
  nest_facts *facts = kernel_nest_facts(k, &n->stages);
  for (uint32_t i = 0; i < all.n && facts; i++) {
    vec_push(k->p->l->a, facts->prefetches, ((directive){.is = P_PREFETCH}));
    put_prefetch(k, &facts->prefetches.v[i], &(prefetch){all.v[i].kind, all.v[i].t, 1, false});
  }
}
void kernel_finish(kctx *k, nest *n) {
  decide_unrolling(k, n);
  if (!k->p->level) return;
  decide_accumulators(k, n);
  decide_edge(k, n);
  decide_bounds(k, n);
  decide_sweep(k, n);
  decide_versions(k, n);
  decide_prefetches(k, n);
}
