/* Graph texts: parsed, verified, lowered, optimised, planned; what is small is compiled and run every 50th time. */
#include "fuzz.h"
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  graph *g = graph_parse(c, arena_strndup(ctx_arena(c), (const char *)in->p, in->n), "fuzz.graph");
  if (!g || !graph_verify(g, NULL)) return false;
  sbuf b = sbuf_new(ctx_arena(c));
  graph_print(g, &b, (graph_print_opts){.weights_inline = true});
  graph *again = graph_parse(c, b.n ? b.s : "", "again.graph"); /* what was accepted prints as text that is accepted */
  if (!again) ctx_bug(c, "the printed text is not accepted: %s", b.s);
  pipe_opts o = {.level = 3, .compile_threads = 1, .verify = true, .target = fuzz_target(in->p, in->n)};
  pipeline *p = pipe_new(c, &o);
  p->g = g;
  return fuzz_plan(c, p);
}
void fuzz_one(const uint8_t *p, size_t n) {
  if (fuzz_case(try_one, &(input){p, n}, NULL) && n < 20000 && hash_bytes(p, n, 0) % 50 == 0) fuzz_run(p, n);
}
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
