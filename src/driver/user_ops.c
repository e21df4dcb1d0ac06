/* Which operator definitions did the user add to a session? Those of a file are kept as its path, and read by each
 * compilation, so that the file may be edited meanwhile; those from memory are copied. Both are checked when they are
 * added. A model has a copy of the list, of the time when it was loaded. */
#include "driver/driver.h"
#include "notation/notation.h"
#include <string.h>

bool own_ops_add(const memory *m, own_ops **list, uint32_t *n, const own_ops *o) {
  own_ops *grown = mem_get(m, (*n + 1) * sizeof *grown), copy = {mem_str(m, o->name), NULL, o->bytes};
  if (o->text) copy.text = mem_get(m, o->bytes + 1);
  if (!grown || !copy.name || (o->text && !copy.text)) {
    mem_put(m, grown);
    mem_put(m, copy.name);
    mem_put(m, copy.text);
    return false;
  }
  if (o->text) memcpy(copy.text, o->text, o->bytes);
  if (*n) memcpy(grown, *list, *n * sizeof *grown);
  grown[*n] = copy;
  mem_put(m, *list);
  *list = grown, (*n)++;
  return true;
}
void own_ops_free(const memory *m, own_ops *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    mem_put(m, list[i].name);
    mem_put(m, list[i].text);
  }
  mem_put(m, list);
}
ops_source own_ops_source(const own_ops *o) { return (ops_source){o->name, {(const uint8_t *)o->text, o->bytes}}; }
ops_sources own_ops_sources(ctx *c, const own_ops *list, uint32_t n) {
  ops_sources v = {0};
  for (uint32_t i = 0; i < n; i++) vec_push(ctx_arena(c), v, own_ops_source(&list[i]));
  return v;
}
static void check(ctx *c, const own_ops *o) {
  CTX_TRY(c) {
    bytes b;
    const ops_source s = own_ops_source(o);
    oplib *lib = pipe_library(c, NULL); /* definitions may call built-in ones */
    if (ops_text(c, &s, &b)) notation_add(lib, (const char *)b.p, b.n, o->name);
  }
  CTX_CATCH {}
}
static ek_code add(ek_session *s, const own_ops *o) {
  ctx *c = session_ctx(s);
  if (c) check(c, o);
  ek_code code = session_done(s, c, EK_OK);
  ctx_free(c);
  if (!code && !own_ops_add(&s->mem, &s->ops, &s->nops, o)) code = session_fail(s, EK_MEMORY, "out of memory");
  return code;
}
ek_code ek_load_ops(ek_session *s, const char *path) {
  if (!s || !path) return session_null(s);
  return add(s, &(own_ops){(char *)path, NULL, 0});
}
ek_code ek_load_ops_memory(ek_session *s, const void *text, size_t bytes, const char *name) {
  if (!s || (!text && bytes)) return session_null(s);
  return add(s, &(own_ops){(char *)(name ? name : "operators"), (char *)(text ? text : ""), bytes});
}
