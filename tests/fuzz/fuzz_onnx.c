/* ONNX files, changed by their fields (proto.c): read, verified, lowered, optimised, planned; what is small is
 * compiled and run every 50th time. */
#include "onnx/onnx.h"
#include "proto.h"
#include <stdlib.h>
#include <string.h>

typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  pipe_opts o = {.level = 3, .compile_threads = 1, .verify = true, .target = fuzz_target(in->p, in->n)};
  pipeline *p = pipe_new(c, &o);
  if (!(p->g = onnx_load_bytes(c, (bytes){in->p, in->n}, "fuzz.onnx", NULL)) || !graph_verify(p->g, NULL)) return false;
  return fuzz_plan(c, p);
}
void fuzz_one(const uint8_t *p, size_t n) {
  if (fuzz_case(try_one, &(input){p, n}, NULL) && n < 20000 && hash_bytes(p, n, 0) % 50 == 0) fuzz_run(p, n);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return proto_change(p, n, cap, seed); }
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap,
                                 unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap,
                                 unsigned seed) {
  return proto_join(a, na, b, nb, out, cap, seed);
}
