/* What is the smallest part of a model that still fails?
 *
 * Nodes are taken out, first many at a time, then one by one: what others read of such a node becomes an input with the
 * contents that the node gave, so that everything behind it computes what it did before. Then open sizes become
 * numbers. */
#include "random_models.h"

/* Takes out n of the living nodes from the one at place `from` on; true: the rest still fails. */
static bool without(model *m, uint32_t from, uint32_t n, bool (*fails)(void *env, model *m), void *env) {
  u32vec out = {0};
  uint32_t at = 0, left = 0;
  bool inside = false; /* a body changes */
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    if (m->nodes.v[i].gone) continue;
    if (at >= from && at < from + n)
      vec_push(ctx_arena(m->c), out, i), inside |= m->nodes.v[i].scope != 0;
    else
      left++;
    at++;
  }
  for (uint32_t i = 0; i < out.n; i++) m->nodes.v[out.v[i]].dead = true;
  model_recount(m);
  if (left && out.n && (!inside || nodes_values(m, 0)) && fails(env, m)) return true;
  for (uint32_t i = 0; i < out.n; i++) m->nodes.v[out.v[i]].dead = false;
  model_recount(m);
  if (inside) nodes_values(m, 0);
  return false;
}
static uint32_t living(const model *m) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->nodes.n; i++) n += !m->nodes.v[i].gone;
  return n;
}
void model_shrink(model *m, bool (*fails)(void *env, model *m), void *env) {
  for (uint32_t n = (living(m) + 1) / 2; n; n /= 2) {
    bool any = false;
    for (uint32_t from = 0; from < living(m);) {
      if (without(m, from, n, fails, env))
        any = true;
      else
        from += n;
    }
    if (any && n == 1) n = 2; /* one by one, until nothing goes */
  }
  for (uint32_t i = 0; i < m->values.n; i++) {
    if (!m->values.v[i].open) continue;
    m->values.v[i].open = false;
    if (!fails(env, m)) m->values.v[i].open = true;
  }
}
