/* Texts of schedules: what can be read is printed as a text that reads back the same; and a small module follows it, or
 * refuses it with a reason. */
#include "fuzz.h"
#include "schedule/record.h"
#include <stdlib.h>
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static const char module[] = "size N in 1..1000\n"
                             "tensor X: f32[N, 20] input \"X\"\ntensor W: f32[20, 30] input \"W\"\n"
                             "tensor V: f32[30, 12] input \"V\"\n"
                             "stage P: f32 [i<N, j<30] = sum[k<20] X[i, k] * W[k, j]\n"
                             "stage M: f32 [i1<N] = max[j1<30] P[i1, j1]\n"
                             "stage E: f32 [i2<N, j2<30] = exp(P[i2, j2] - M[i2])\n"
                             "stage Q: f32 [i3<N, j3<12] out = sum[k3<30] E[i3, k3] * V[k3, j3]\n"
                             "tensor G: f32[4, 6, 20] input \"G\"\ntensor K: f32[5, 4, 3, 3] input \"K\"\n"
                             "stage A: f32 [c<4, h<6, w<30] = sum[k4<20] G[c, h, k4] * W[k4, w]\n"
                             "stage B: f32 [m<5, h1<6, w1<30] out = sum[c1<4, p<3, q<3] "
                             "(load A[c1, h1 + p - 1, w1 + q - 1] else 0.0) * K[m, c1, p, q]\n"
                             "output Q \"Q\"\noutput B \"B\"\n";
static bool try_one(ctx *c, void *env) {
  const input *in = env;
  sbuf text = sbuf_new(ctx_arena(c)), again = sbuf_new(ctx_arena(c));
  schedules_print(schedules_parse(c, "given", (bytes){in->p, in->n}), &text);
  schedules_print(schedules_parse(c, "printed", (bytes){(const uint8_t *)text.s, text.n}), &again);
  if (text.n != again.n || memcmp(text.s, again.s, text.n)) abort();
  emodule *m = expr_parse(c, module, "module");
  if (!m) abort();
  return fuzz_schedule(c, m, "x86-64-v3", text.s);
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return mutate_text(p, n, cap, seed); }
