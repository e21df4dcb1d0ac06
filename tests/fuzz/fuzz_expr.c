/* Expr texts: parsed, verified, printed and read again, optimised, planned. Not run: a text may read outside of its
 * tensors, which only the evaluator would say. */
#include "fuzz.h"
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  emodule *m = expr_parse(c, arena_strndup(ctx_arena(c), (const char *)in->p, in->n), "fuzz.expr");
  if (!m || !expr_verify(m, NULL) || !expr_verify_whole(m, NULL)) return false;
  sbuf b = sbuf_new(ctx_arena(c));
  expr_print(m, &b, (print_opts){.weights_inline = true, .kernels = true});
  if (!expr_parse(c, b.n ? b.s : "", "again.expr")) ctx_bug(c, "the printed text is not accepted: %s", b.s);
  expr_verify_ranges(m, NULL);
  return m->kernels.n || fuzz_schedule(c, m, fuzz_target(in->p, in->n), NULL);
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
