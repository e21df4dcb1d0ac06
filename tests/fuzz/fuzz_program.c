/* Program texts: parsed, verified with their memory; what is well-formed prints as text that reads back the same,
 * and becomes plan and run. */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  program *p = program_parse(c, arena_strndup(ctx_arena(c), (const char *)in->p, in->n), "fuzz.program");
  if (!p || !program_verify(p, "fuzz") || !loop_verify(p->l, "fuzz")) return false;
  sbuf b = sbuf_new(ctx_arena(c)), d = sbuf_new(ctx_arena(c));
  program_print(p, &b);
  program *again = program_parse(c, b.s, "again.program");
  if (!again) abort();
  program_print(again, &d);
  if (b.n != d.n || memcmp(b.s, d.s, b.n)) abort();
  program_verify_memory(p, NULL);
  if (!p->run_fn) program_functions(p);
  return loop_verify(p->l, "program");
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, ""); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
