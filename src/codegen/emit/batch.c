/* Which functions of a loop module are compiled, and under which symbols? One unit per different function: equal ones
 * are compiled once (emit.c compiles them).
 *
 * A symbol is a prefix and the 16 hexadecimal digits of the function's hash. The hash covers the instructions; a callee
 * is a name there, so a caller's hash also takes in the hashes of its callees.
 */
#include "codegen/emit/batch.h"
#include <string.h>

unit *batch_unit(batch *b, const char *func) {
  uint64_t i;
  return map_gets(b->by_name, func, &i) ? &b->units.v[i] : NULL;
}
/* Hash of a function's instructions and of the hashes of the functions that it calls. */
static uint64_t deep_hash(ctx *c, const lmodule *m, const lfunc *f, map *by_name, map *done, int depth) {
  uint64_t h, g;
  if (map_gets(done, f->name, &h)) return h;
  if (depth > 50) ctx_bug(c, "code generation: function %s calls itself", f->name);
  h = loop_hash(f);
  for (uint32_t i = 1; i < f->insts.n; i++) {
    const linst *k = &f->insts.v[i];
    if ((k->kind != L_CALL && k->kind != L_PARALLEL) || !map_gets(by_name, k->name, &g)) continue;
    uint64_t s[2] = {h, deep_hash(c, m, m->funcs.v[g], by_name, done, depth + 1)};
    h = EK_PLANTED("emit-same") ? h : hash_bytes(s, sizeof s, 0);
  }
  map_puts(done, f->name, h);
  return h;
}
batch *batch_new(ctx *c, const lmodule *m, const target *t, const code_opts *o, const char *prefix) {
  arena *a = ctx_arena(c);
  batch *b = NEW(a, batch);
  *b = (batch){.c = c, .t = *t, .o = *o, .m = m, .by_name = map_new(a)};
  map *done = map_new(a), *first = map_new(a), *index = map_new(a);
  for (uint32_t i = 0; i < m->funcs.n; i++) map_puts(index, m->funcs.v[i]->name, i);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    uint64_t h = deep_hash(c, m, f, index, done, 0), k;
    if (!map_getu(first, h, &k)) {
      k = b->units.n;
      vec_push(a, b->units, ((unit){.f = f, .symbol = arena_fmt(a, "%s_%016llx", prefix, (unsigned long long)h)}));
      map_putu(first, h, k);
    }
    map_puts(b->by_name, f->name, k);
  }
  return b;
}
