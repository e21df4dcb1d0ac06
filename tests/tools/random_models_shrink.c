/* What is the smallest part of a model that still fails?
 *
 * Nodes are taken out, first many at a time, then one by one: what others read of such a node becomes an input with the
 * contents that the node gave, so that everything behind it computes what it did before. Then open sizes become
 * numbers. */
#include "random_models.h"

static void recount(model *m) {
  for (uint32_t i = 0; i < m->values.n; i++) m->values.v[i].uses = 0;
  for (uint32_t i = 0; i < m->nodes.n; i++)
    for (uint32_t k = 0; !m->nodes.v[i].dead && k < m->nodes.v[i].i->nin; k++)
      if (m->nodes.v[i].in[k]) m->values.v[m->nodes.v[i].in[k] - 1].uses++;
}
/* Takes out n of the living nodes from the one at place `from` on; true: the rest still fails. */
static bool without(model *m, uint32_t from, uint32_t n, bool (*fails)(void *env, model *m), void *env) {
  u32vec gone = {0};
  uint32_t at = 0, left = 0;
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    if (m->nodes.v[i].dead) continue;
    if (at >= from && at < from + n)
      vec_push(ctx_arena(m->c), gone, i);
    else
      left++;
    at++;
  }
  for (uint32_t i = 0; i < gone.n; i++) m->nodes.v[gone.v[i]].dead = true;
  recount(m);
  if (left && gone.n && fails(env, m)) return true;
  for (uint32_t i = 0; i < gone.n; i++) m->nodes.v[gone.v[i]].dead = false;
  recount(m);
  return false;
}
static uint32_t living(const model *m) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->nodes.n; i++) n += !m->nodes.v[i].dead;
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
