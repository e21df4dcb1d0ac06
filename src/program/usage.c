/* Which launches of the root block use which memory? */
#include "program/usage.h"
#include <string.h>

/* ---- what else uses memory, and where nothing moves ---------------------------------------------- */
static void pin(void *env, tid t) {
  const usage *u = env;
  if (t) u->pinned[u->memory[u->s->layouts[t].buffer]] = true;
}
static void pin_blocks(const usage *u) {
  for (uint32_t i = 0; i < u->s->launches.n; i++) {
    const launch *l = &u->s->launches.v[i];
    for (uint32_t j = 0; l->block && j < l->args.n; j++)
      if (l->args.v[j].is_buffer) u->pinned[u->memory[l->args.v[j].buffer]] = true;
  }
}
static bool ends_segment(const emodule *m, item it) {
  const tid t = it.kind == IT_STAGE ? xs(m, it.index)->tensor : 0;
  for (uint32_t i = 0; t && i < m->lates.n; i++)
    if (m->lates.v[i].tensor == t) return true;
  for (uint32_t i = 0; t && i < m->checks.n; i++)
    if (m->checks.v[i].value == t) return true;
  return !t;
}
/* The buffer of an input or output; 0: it has none. */
static uint32_t buffer_of(const splan *s, buf_kind kind, uint32_t index) {
  for (uint32_t b = 1; b < s->buffers.n; b++)
    if (s->buffers.v[b].kind == kind && s->buffers.v[b].index == index) return b;
  return 0;
}
static void find_memory(usage *u) {
  const splan *s = u->s;
  const emodule *m = s->m;
  for (uint32_t b = 1; b < s->buffers.n; b++) u->memory[b] = b;
  for (uint32_t i = 0; i < m->states.n; i++) {
    const uint32_t old = buffer_of(s, BUF_INPUT, m->inputs.n - m->states.n + i),
                   new = buffer_of(s, BUF_OUTPUT, m->outputs.n - m->states.n + i);
    if (s->states[i].in_place && old && new) u->memory[new] = old;
  }
}

/* ---- units ------------------------------------------------------------------------------------- */
void usage_add(const usage *u, const launch *l, uses *all) {
  for (uint32_t j = 0; j < l->args.n; j++) {
    const kargs *x = &l->args.v[j];
    if (!x->is_buffer || !x->buffer) continue;
    const use n = {.memory = u->memory[x->buffer], .write = x->write};
    const uint32_t i = usage_of(all, n.memory);
    if (i < all->n)
      all->v[i].write |= n.write;
    else
      vec_push(u->a, *all, n);
  }
}
static void find_units(usage *u) {
  const splan *s = u->s;
  const emodule *m = s->m;
  uint32_t segment = 0, item = 0;
  for (uint32_t i = 0; i < s->launches.n && !s->launches.v[i].block;) {
    const launch *l = &s->launches.v[i];
    unit x = {.first = i, .n = 1};
    while (l->step && i + x.n < s->launches.n && s->launches.v[i + x.n].step == l->step) x.n++;
    for (; item < l->item; item++) segment += ends_segment(m, m->blocks.v[0].items.v[item]);
    x.segment = segment;
    for (uint32_t k = 0; k < x.n; k++) usage_add(u, &l[k], &x.uses);
    vec_push(u->a, u->units, x);
    i += x.n;
  }
}
uint32_t usage_of(const uses *u, uint32_t memory) {
  uint32_t i = 0;
  while (i < u->n && u->v[i].memory != memory) i++;
  return i;
}
int64_t usage_bytes(const splan *s, uint32_t buffer) {
  const sz bytes = sym_muli(s->m->c, s->buffers.v[buffer].elems, et_bytes(s->buffers.v[buffer].type));
  return (min64(expr_typical(s->m, bytes), INT64_C(1) << 50) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}
void usage_find(splan *s, arena *a, usage *out) {
  const uint32_t n = s->buffers.n;
  *out =
      (usage){.s = s, .a = a, .memory = NEWN(a, uint32_t, n), .bytes = NEWN(a, int64_t, n), .pinned = NEWN(a, bool, n)};
  find_memory(out);
  for (uint32_t b = 1; b < n; b++)
    if (s->buffers.v[b].kind == BUF_ARENA) out->bytes[b] = usage_bytes(s, b);
  expr_each_use(s->m, pin, out);
  pin_blocks(out);
  find_units(out);
}
