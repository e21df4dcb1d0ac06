/* Is there an equal kernel that was scheduled already? Then its function is launched, with this kernel's buffers.
 *
 * Networks repeat: the blocks of a residual or dense network, the layers of a transformer differ in nothing but their
 * weights. Scheduling one of their kernels takes far longer than to see that it is equal to another one (equal_key.c).
 * What a schedule does to the plan besides making a function is done again for the other kernel: its constants are
 * packed in the same order, its halos count as filled, and its stages have the same idle part. A buffer in which the
 * kernel's tensors begin later than in the other's gets a pointer moved by the difference, as program/share.c has it
 * for kernels that turn out to be equal.
 */
#include "schedule/equal.h"
#include "schedule/tile.h"
#include <string.h>

static uint64_t hash(const equal_key *k) { return hash_bytes(k->words.v, k->words.n * sizeof *k->words.v, 0); }
static bool same_words(const equal_key *a, const equal_key *b) {
  return a->words.n == b->words.n && !memcmp(a->words.v, b->words.v, a->words.n * sizeof *a->words.v);
}
/* Which of these is it? Their number: none of them. */
static uint32_t number_of(const u32vec *these, uint32_t x) {
  uint32_t i = 0;
  while (i < these->n && these->v[i] != x) i++;
  return i;
}
/* May the pointers of the kernel's function be moved to where this one's tensors begin? No farther back, and only by
 * whole lines where the function takes them for aligned. */
static bool fits(splan *p, const scheduled *of, const equal_key *key) {
  const launch *l = &of->l;
  for (uint32_t i = 0; i < l->args.n; i++) {
    const kargs *x = &l->args.v[i];
    const uint32_t b = x->is_buffer ? number_of(&of->key.buffers, x->buffer) : key->buffers.n;
    if (b == key->buffers.n) continue;
    const int64_t by = key->begins.v[b] - of->key.begins.v[b];
    const uint32_t align = l->func->params.v[i].align;
    if (by < 0 || (align && by * et_bytes(p->buffers.v[key->buffers.v[b]].type) % align != 0)) return false;
  }
  for (uint32_t i = 0; i < key->tensors.n; i++)
    if (!fixed_point_alike(p, of->key.tensors.v[i], key->tensors.v[i]) ||
        !bit_pack_alike(p, of->key.tensors.v[i], key->tensors.v[i]))
      return false;
  return true;
}
static const scheduled *find(splan *p, const equal_key *key) {
  uint64_t at;
  if (!map_getu(p->equal->of, hash(key), &at)) return NULL;
  for (const scheduled *s; at; at = s->next) {
    s = &p->equal->all.v[at - 1];
    if (same_words(&s->key, key) && fits(p, s, key)) return s;
  }
  return NULL;
}
/* The packs of the kernel's constants, of this one's. */
static void pack(splan *p, const scheduled *of, const equal_key *key) {
  for (uint32_t i = of->packs; i < of->end; i++) {
    buffer b = p->buffers.v[i];
    if (!EK_PLANTED("schedule-equal")) b.tensor = key->tensors.v[number_of(&of->key.tensors, b.tensor)];
    b.name = arena_fmt(p->l->a, "%s.packed", xt(p->m, b.tensor)->name);
    b.from = pack_contents(p->m, b.tensor, b.from.pack);
    vec_push(p->l->a, p->buffers, b);
  }
}
bool equal_launch(splan *p, const equal_key *key, launch *l) {
  const scheduled *of = find(p, key);
  if (!of) return false;
  const launch *from = &of->l;
  const uint32_t packs = p->buffers.n;
  int64_t *moved = NEWN(p->l->a, int64_t, from->args.n + 1);
  pack(p, of, key);
  l->func = from->func, l->moved = moved;
  l->chunks = from->chunks, l->scratch = from->scratch, l->parallel = from->parallel, l->where = from->where;
  for (uint32_t i = 0; i < from->args.n; i++) {
    kargs a = from->args.v[i];
    const uint32_t b = a.is_buffer ? number_of(&of->key.buffers, a.buffer) : key->buffers.n;
    if (b < key->buffers.n)
      a.buffer = key->buffers.v[b], moved[i] = key->begins.v[b] - of->key.begins.v[b];
    else if (a.is_buffer && a.buffer)
      a.buffer += packs - of->packs;
    vec_push(p->l->a, l->args, a);
  }
  for (uint32_t i = 0; i < key->buffers.n; i++) p->buffers.v[key->buffers.v[i]].filled = of->filled[i];
  for (uint32_t i = 0; i < l->stages.n; i++) xs(p->m, l->stages.v[i])->idle = xs(p->m, from->stages.v[i])->idle;
  return true;
}
void equal_keep(splan *p, const equal_key *key, const launch *l, uint32_t packs) {
  arena *a = p->equal->a;
  scheduled s = {.key = *key, .l = *l, .packs = packs, .end = p->buffers.n};
  uint64_t last = 0;
  for (uint32_t i = packs; i < p->buffers.n; i++) /* what the key doesn't tell of */
    if (!p->buffers.v[i].from.pack || number_of(&key->tensors, p->buffers.v[i].tensor) == key->tensors.n) return;
  for (uint32_t i = 0; i < l->args.n; i++) {
    const kargs *x = &l->args.v[i];
    if (x->is_buffer && x->buffer && x->buffer < packs && number_of(&key->buffers, x->buffer) == key->buffers.n) return;
  }
  s.key.words.v = arena_dup(a, key->words.v, key->words.n * sizeof *key->words.v);
  s.key.tensors.v = arena_dup(a, key->tensors.v, key->tensors.n * sizeof *key->tensors.v);
  s.key.buffers.v = arena_dup(a, key->buffers.v, key->buffers.n * sizeof *key->buffers.v);
  s.key.begins.v = arena_dup(a, key->begins.v, key->begins.n * sizeof *key->begins.v);
  s.filled = NEWN(a, bool, key->buffers.n + 1);
  for (uint32_t i = 0; i < key->buffers.n; i++) s.filled[i] = p->buffers.v[key->buffers.v[i]].filled;
  if (map_getu(p->equal->of, hash(key), &last)) s.next = (uint32_t)last;
  vec_push(a, p->equal->all, s);
  map_putu(p->equal->of, hash(key), p->equal->all.n);
}
void equal_begin(splan *p) {
  p->equal = NEW(p->l->a, struct equal_kernels);
  p->equal->a = arena_new(p->m->c);
  p->equal->of = map_new(p->equal->a);
}
void equal_end(splan *p) {
  if (p->equal) arena_free(p->equal->a);
  p->equal = NULL;
}
