/* Loop texts: parsed, verified; what is well-formed prints as text that reads back the same, and becomes C. */
#include "codegen/c/c.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  lmodule *m = loop_parse(c, arena_strndup(ctx_arena(c), (const char *)in->p, in->n), "fuzz.loop");
  if (!m || !loop_verify(m, "fuzz")) return false;
  sbuf b = sbuf_new(ctx_arena(c)), d = sbuf_new(ctx_arena(c)), code = sbuf_new(ctx_arena(c));
  loop_print(m, &b, NULL);
  lmodule *again = loop_parse(c, b.n ? b.s : "", "again.loop");
  if (!again) abort();
  loop_print(again, &d, NULL);
  if (b.n != d.n || (b.n && memcmp(b.s, d.s, b.n))) abort();
  const target *t = target_get(c, "c");
  if (t) c_source(c, m, t, NULL, &code);
  return true;
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, ""); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
