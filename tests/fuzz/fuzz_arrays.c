/* Arrays: .npy and .npz by their magic bytes, everything else as a TensorProto (.pb), or, by what the bytes are, as a
 * list of tensors or an optional one. Every byte of what is accepted is read, and what can be written as .npz reads
 * back the same. */
#include "onnx/onnx.h"
#include "proto.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
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
static bool same(const ndarray *x, const ndarray *y) {
  int64_t n = 0;
  if (x->type == ET_STR) {
    nd_count(x, &n);
    if (y->type != ET_STR || x->bytes != y->bytes) return false;
    for (int64_t i = 0; i < n; i++) {
      const bytes *s = &((const bytes *)x->data)[i], *t = &((const bytes *)y->data)[i];
      size_t last = 0;
      for (size_t k = 0; k < s->n; k++) {
        if (s->p[k] > 127) return true; /* what is no UTF-8 reads back as such */
        if (s->p[k]) last = k + 1;      /* zeros at the end are none */
      }
      if (t->n != last || (last && memcmp(s->p, t->p, last))) return false;
    }
    return true;
  }
  return x->bytes == y->bytes && (!x->bytes || !memcmp(x->data, y->data, x->bytes));
}
static bool written(ctx *c, const npz *z) {
  static char out[64];
  npz again;
  if (!out[0]) snprintf(out, sizeof out, "/tmp/fuzz_arrays_%d.npz", (int)getpid());
  if (!npz_write(c, out, z)) return false;
  for (uint32_t i = 0; i < z->n; i++) /* types that NumPy has no name for do not read back */
    if (z->arrays[i].type != ET_STR && z->arrays[i].type != ET_BOOL && et_bytes(z->arrays[i].type) < 2)
      return unlink(out), true;
  uint32_t before = diag_mark(c);
  bool read = npz_read(c, out, &again), ok = read && again.n == z->n;
  unlink(out);
  for (uint32_t i = 0; ok && i < z->n; i++) ok = z->arrays[i].type == ET_BF16 || same(&z->arrays[i], &again.arrays[i]);
  if (!ok) {
    diag_reset(c, before);
    ctx_bug(c, read ? "what was written reads back otherwise" : "what was written does not read back");
  }
  return true;
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
    return written(c, &z);
  }
  const ndarray *t;
  int64_t n;
  value_kind kind = (value_kind)(hash_bytes(in->p, in->n, 0) % 8 & 3); /* a tensor twice as often as anything else */
  if (!onnx_value_file(c, path, kind, &t, &n)) return false;
  for (int64_t i = 0; i < n; i++) {
    read_all(c, &t[i]);
    if (!written(c, &(npz){.n = 1, .names = (const char *[]){"x"}, .arrays = (ndarray *)(uintptr_t)&t[i]}))
      return false;
  }
  return true;
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
/* One number of a zip file's headers. */
static size_t change_header(uint8_t *p, size_t n, dice *d) {
  uint64_t seen = 0;
  size_t head = 0;
  for (size_t i = 0; i + 4 <= n; i++)
    if (p[i] == 'P' && p[i + 1] == 'K' && p[i + 2] < 8 && roll(d, ++seen) == 0) head = i;
  size_t at = head + 4 + 2 * (size_t)roll(d, 26), w = (size_t)1 << (1 + roll(d, 3));
  int64_t v = roll(d, 3) ? odd_number(d) : -1;
  if (at + w > n) return 0;
  memcpy(p + at, &v, w);
  return n;
}
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) { /* tensors by their fields */
  dice d = {seed};
  bool zip = n >= 2 && !memcmp(p, "PK", 2), npy = n >= 2 && !memcmp(p, "\x93N", 2);
  if (npy && roll(&d, 4)) return mutate_text(p, n, cap, seed);
  pfield *root = !zip && !npy && roll(&d, 8) ? proto_read(p, n, M_TENSOR, true) : NULL;
  if (zip && roll(&d, 3)) {
    size_t k = change_header(p, n, &d);
    if (k) return k;
  }
  size_t m = root && root->nkids && proto_mutate(root, &d) ? proto_write(root, p, cap) : 0;
  return m ? m : mutate_bytes(p, n, cap, &d);
}
