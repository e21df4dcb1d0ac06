/* Arrays: .npy and .npz by their magic bytes, everything else as a TensorProto (.pb). Every byte of what is accepted is read. */
#include "onnx/onnx.h"
#include "proto.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct input { const uint8_t *p; size_t n; } input;
static void read_all(ctx *c, const ndarray *t) {
  int64_t n;
  volatile uint64_t sum = 0;
  if (!nd_count(t, &n)) ctx_bug(c, "an accepted array overflows");
  if (t->type == ET_STR) {
    for (int64_t i = 0; i < n; i++) {
      const bytes *b = &((const bytes *)t->data)[i];
      for (size_t k = 0; k <= b->n; k++) sum += b->p[k];
    }
  } else {
    if (t->bytes != (size_t)n * et_bytes(t->type)) ctx_bug(c, "%zu bytes for %lld elements", t->bytes, (long long)n);
    for (size_t i = 0; i < t->bytes; i++) sum += ((const uint8_t *)t->data)[i];
    if (n) et_load(t->type, t->data);
  }
}
static bool try_one(ctx *c, void *env) {
  input *in = env;
  if (in->n >= 6 && !memcmp(in->p, "\x93NUMPY", 6)) {
    ndarray t;
    uint8_t *copy = arena_dup(ctx_arena(c), in->p, in->n);
    if (!npy_read(c, (bytes){copy, in->n}, "fuzz.npy", &t)) return false;
    read_all(c, &t);
    return true;
  }
  const char *path = fuzz_file(in->p, in->n);
  if (in->n >= 2 && !memcmp(in->p, "PK", 2)) {
    npz z;
    if (!npz_read(c, path, &z)) return false;
    for (uint32_t i = 0; i < z.n; i++) read_all(c, &z.arrays[i]);
    static char out[64];
    npz again;
    if (!out[0]) snprintf(out, sizeof out, "/tmp/fuzz_arrays_%d.npz", (int)getpid());
    for (uint32_t i = 0; i < z.n; i++)
      if (z.arrays[i].type == ET_STR) return true; /* those are not written */
    bool ok = npz_write(c, out, &z) && npz_read(c, out, &again) && again.n == z.n;
    unlink(out);
    for (uint32_t i = 0; ok && i < z.n; i++) ok = again.arrays[i].bytes == z.arrays[i].bytes && !memcmp(again.arrays[i].data, z.arrays[i].data, z.arrays[i].bytes);
    if (!ok && !diag_errors(c)) ctx_bug(c, "what was written reads back otherwise");
    return ok;
  }
  ndarray t;
  const char *name;
  if (!onnx_tensor_file(c, path, &t, &name)) return false;
  read_all(c, &t);
  return true;
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { /* tensors by their fields */
  dice d = {seed};
  bool zip = n >= 2 && !memcmp(p, "PK", 2), npy = n >= 2 && !memcmp(p, "\x93N", 2);
  if (npy && roll(&d, 4)) return mutate_text(p, n, cap, seed);
  pfield *root = !zip && !npy && roll(&d, 8) ? proto_read(p, n, M_TENSOR, true) : NULL;
  size_t m = root && root->nkids && proto_mutate(root, &d) ? proto_write(root, p, cap) : 0;
  return m ? m : mutate_bytes(p, n, cap, &d);
}
