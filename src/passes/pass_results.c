/* Is each result a tensor of its own, computed where it is wanted?
 *
 * An output, a branch's result, a loop's next value: each needs a tensor computed in its own block and used for this
 * purpose only. Where that is not so (an input or a constant passed on, one tensor under two names), a copy makes it
 * so. Loop values that are themselves inner values (swaps) go through the copy, too: it runs before any inner value is
 * overwritten. A new state that is but a copy needs none: it is the result that is copied.
 */
#include "passes/pass.h"

/* A placement without a kernel counts, too: its pieces store into it. */
static bool in_block(emodule *m, tid t, uint32_t block) {
  return xt(m, t)->kind == TK_STAGE && xs(m, xt(m, t)->stage)->block == block;
}
static void claim(map *taken, tid t) { map_putu(taken, t, 1); }
static bool claimed(map *taken, tid t) {
  uint64_t d;
  return map_getu(taken, t, &d);
}
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
static bool leave_copies_out(pw *p) {
  emodule *m = p->m;
  const uint32_t plain = m->outputs.n - m->states.n;
  bool any = false;
  for (uint32_t i = plain; i < m->outputs.n; i++) {
    const tid t = m->outputs.v[i].t, result = copied_result(m, t, expr_state_in(m, i - plain));
    bool twice = false;
    for (uint32_t k = 0; k < m->outputs.n; k++) twice |= k != i && m->outputs.v[k].t == t;
    if (!result || twice || !pass_spend(p)) continue;
    xs(m, xt(m, t)->stage)->dead = true;
    m->outputs.v[i].t = result;
    any = true;
  }
  return any;
}
static tid copy(emodule *m, uint32_t block, tid from, const char *what) {
  return xs(m, expr_copy_stage(m, block, from, what))->tensor;
}
static bool separate_outputs(pw *p, map *taken) {
  emodule *m = p->m;
  bool any = false;
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    const tid t = m->outputs.v[i].t;
    const uint32_t plain = m->outputs.n - m->states.n;
    if (i >= plain && t == expr_state_in(m, i - plain)) continue; /* a state that never changes */
    const bool needed = (!in_block(m, t, 0) && !result_of_root(m, t)) || (claimed(taken, t) && !EK_PLANTED("results"));
    if (needed || (woven(m, t) && pass_spend(p))) m->outputs.v[i].t = copy(m, 0, t, "out"), any = true;
    claim(taken, m->outputs.v[i].t);
  }
  return any;
}
static bool separate_branches(emodule *m, map *taken) {
  bool any = false;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t j = 0; j < m->ifs.v[i].n; j++)
      for (int side = 0; side < 2; side++) {
        tid *t = side ? &m->ifs.v[i].else_vals[j] : &m->ifs.v[i].then_vals[j];
        const uint32_t b = side ? m->ifs.v[i].else_block : m->ifs.v[i].then_block;
        if (!in_block(m, *t, b) || claimed(taken, *t)) *t = copy(m, b, *t, "result"), any = true;
        claim(taken, *t);
      }
  return any;
}
static void separate_loop(emodule *m, uint32_t loop) {
  xloop *x = &m->loops.v[loop];
  for (uint32_t j = 0; j < x->ncarried; j++) {
    x->init[j] = copy(m, x->block, x->init[j], "init");
    const block *b = &m->blocks.v[x->block];
    uint32_t at = 0;
    while (b->items.v[at].kind != IT_LOOP || b->items.v[at].index != loop) at++;
    expr_move_item(m, x->block, b->items.n - 1, at);
    if (!in_block(m, x->next[j], x->body)) x->next[j] = copy(m, x->body, x->next[j], "next");
  }
  /* stored straight into the collection */
  for (uint32_t j = 0; j < x->ncollected; j++) x->slice[j] = copy(m, x->body, x->slice[j], "slice");
  /* stored into the inner value, last of all */
  for (uint32_t j = 0; j < x->ncarried; j++) x->next[j] = copy(m, x->body, x->next[j], "carry");
}
bool pass_results(pw *p) {
  emodule *m = p->m;
  map *taken = map_new(p->a);
  bool any = leave_copies_out(p);
  any |= separate_outputs(p, taken);
  any |= separate_branches(m, taken);
  for (uint32_t i = 0; i < m->loops.n; i++) separate_loop(m, i);
  return any || m->loops.n;
}
