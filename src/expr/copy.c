/* A stage that brings a value into a place of its own: after the last pass, a kernel that copies a tensor. */
#include "expr/expr.h"

uint32_t expr_copy_stage(emodule *m, uint32_t block, tid from, const char *what) {
  tensor in = *xt(m, from);
  axis ax[MAX_RANK];
  sz idx[MAX_RANK];
  for (uint32_t j = 0; j < in.rank; j++) ax[j] = expr_axis1(m, arena_fmt(m->a, "c%u", j), in.shape[j], &idx[j]);
  tid c = expr_tensor(m, TK_STAGE, in.type, in.shape, in.rank, arena_fmt(m->a, "%s.%s", in.name, what), in.origin);
  uint32_t s = expr_stage(m, block, c, ax, in.rank, expr_load(m, from, idx, in.rank, 0));
  xt(m, c)->output = true;
  kernel k = {.cls = KC_COPY, .block = block};
  vec_push(m->a, k.stages, s);
  vec_push(m->a, m->kernels, k);
  xs(m, s)->kernel = m->kernels.n;
  return s;
}
void expr_move_item(emodule *m, uint32_t b, uint32_t from, uint32_t to) {
  block *k = &m->blocks.v[b];
  item it = k->items.v[from];
  for (; from > to; from--) k->items.v[from] = k->items.v[from - 1];
  k->items.v[to] = it;
}
