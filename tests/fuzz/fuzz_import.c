/* ONNX files, changed by their fields, read and nothing more: many inputs in the time that fuzz_onnx takes to plan
 * one. External data lies in tests/models. Two ways, by what the bytes are: from a file of their own, as a model
 * that is to be written again; or from memory. */
#include "onnx/onnx.h"
#include "proto.h"
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static bool try_one(ctx *c, void *env) {
  input *in = env;
  bool file = hash_bytes(in->p, in->n, 0) % 4 == 0;
  graph *g = file ? onnx_load_standard(c, fuzz_file(in->p, in->n), (bytes){0}, "fuzz.onnx")
                  : onnx_load_bytes(c, (bytes){in->p, in->n}, "fuzz.onnx", EK_FUZZ_MODELS);
  return g && graph_verify(g, NULL);
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { return proto_change(p, n, cap, seed); }
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap,
                                 unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t cap,
                                 unsigned seed) {
  return proto_join(a, na, b, nb, out, cap, seed);
}
