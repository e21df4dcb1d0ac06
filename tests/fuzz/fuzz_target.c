/* Target files: read, and when one is accepted, a small module is scheduled for it. What is a word is a target's
 * name: of one that is built in, of this machine, or of none. */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static const char module[] = "size N in 1..1000\n"
                             "tensor X: f32[N, 20] input \"X\"\ntensor W: f32[20, 30] input \"W\"\n"
                             "stage P: f32 [i<N, j<30] = sum[k<20] X[i, k] * W[k, j]\n"
                             "stage M: f32 [i1<N] = max[j1<30] P[i1, j1]\n"
                             "stage Y: f32 [i2<N, j2<30] out = exp(P[i2, j2] - M[i2])\n"
                             "output Y \"Y\"\n";
static bool try_one(ctx *c, void *env) {
  input *in = env;
  const char *text = arena_strndup(ctx_arena(c), (const char *)in->p, in->n), *path = fuzz_file(in->p, in->n);
  /* not planned for: which target `host` is depends on the machine */
  if (in->n < 40 && !text[strcspn(text, "=./")] && strlen(text) == in->n) return target_get(c, text) != NULL;
  if (!target_get(c, path)) return false;
  emodule *m = expr_parse(c, module, "module");
  if (!m) abort();
  return fuzz_schedule(c, m, path, NULL);
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
