/* What names a file's content, quickly? BLAKE3: a tree of compressions over chunks of 1 KiB, as strong as SHA-256,
 * and since the chunks are independent of each other, as many of them at a time as the processor
 * has lanes: a gigabyte takes a quarter of a second or less where SHA-256 without special instructions takes three.
 *
 *   a tree over n chunks: the largest power of two below n to the left, the rest to the right. Large halves go to
 *   a thread of their own; subtrees of up to BATCH whole chunks are computed level by level, lanes side by side.
 */
#include "base/base.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in memory");
enum {
  CHUNK = 1024,
  BATCH = 1024,
  PARALLEL = 8 << 20 /* bytes that are worth a thread */,
  CHUNK_START = 1,
  CHUNK_END = 2,
  PARENT = 4,
  ROOT = 8
};
static const uint32_t start[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                  0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
static const uint8_t order[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};
typedef uint32_t v1;
typedef uint32_t v8 __attribute__((vector_size(32)));
typedef uint32_t v16 __attribute__((vector_size(64)));

#define LANES 1
#include "base/digest_lanes.h"
#define LANES 8
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "base/digest_lanes.h"
#define LANES 16
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "base/digest_lanes.h"

/* ---- one at a time --------------------------------------------------------------------------- */
static void compress(uint32_t h[8], const uint8_t block[64], uint64_t counter, uint32_t len, uint32_t flags) {
  uint32_t m[16], v[16];
  memcpy(m, block, 64);
  memcpy(v, h, 32);
  memcpy(v + 8, start, 16);
  v[12] = (uint32_t)counter, v[13] = (uint32_t)(counter >> 32), v[14] = len, v[15] = flags;
  rounds_1(v, m);
  for (int i = 0; i < 8; i++) h[i] = v[i] ^ v[i + 8];
}
static void one_chunk(const uint8_t *p, size_t n, uint64_t counter, uint32_t root, uint8_t out[32]) {
  uint32_t h[8], flags = CHUNK_START;
  memcpy(h, start, 32);
  for (; n > 64; p += 64, n -= 64, flags = 0) compress(h, p, counter, 64, flags);
  uint8_t last[64] = {0};
  if (n) memcpy(last, p, n);
  compress(h, last, counter, (uint32_t)n, flags | CHUNK_END | root);
  memcpy(out, h, 32);
}
static void parent(const uint8_t children[64], uint32_t root, uint8_t out[32]) {
  uint32_t h[8];
  memcpy(h, start, 32);
  compress(h, children, 0, 64, PARENT | root);
  memcpy(out, h, 32);
}

/* ---- many at a time -------------------------------------------------------------------------- */
typedef void (*many_fn)(const uint8_t *p, size_t stride, int blocks, uint64_t counter, bool chunk, uint8_t *out);
typedef struct machine {
  many_fn many;   /* hashes `lanes` pieces at once */
  uint32_t lanes; /* pieces at once */
} machine;
static void many_8(const uint8_t *p, size_t stride, int blocks, uint64_t counter, bool chunk, uint8_t *out) {
  lanes_8(p, stride, blocks, counter, chunk, out);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void many_avx2(const uint8_t *p, size_t stride, int blocks, uint64_t counter,
                                                      bool chunk, uint8_t *out) {
  lanes_8(p, stride, blocks, counter, chunk, out);
}
__attribute__((target("avx512f"))) static void many_avx512(const uint8_t *p, size_t stride, int blocks,
                                                           uint64_t counter, bool chunk, uint8_t *out) {
  lanes_16(p, stride, blocks, counter, chunk, out);
}
#endif
static machine this_machine(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return (machine){many_avx512, 16};
  if (__builtin_cpu_supports("avx2")) return (machine){many_avx2, 8};
#else
  (void)lanes_16;
#endif
  return (machine){many_8, 8};
}
/* n pieces, a power of two, to n digests. */
static void level(const machine *k, const uint8_t *p, uint32_t n, uint64_t counter, bool chunk, uint8_t *out) {
  size_t piece = chunk ? CHUNK : 64;
  uint32_t i = 0;
  for (; i + k->lanes <= n; i += k->lanes)
    k->many(p + i * piece, piece, chunk ? CHUNK / 64 : 1, counter + i, chunk, out + 32 * (size_t)i);
  for (; i < n; i++) {
    if (chunk)
      one_chunk(p + i * piece, CHUNK, counter + i, 0, out + 32 * (size_t)i);
    else
      parent(p + i * piece, 0, out + 32 * (size_t)i);
  }
}
typedef struct part {
  const machine *k; /* how this processor hashes */
  const uint8_t *p; /* first byte */
  size_t n;         /* number of bytes */
  uint64_t counter; /* number of the first chunk */
  uint32_t threads; /* threads to use */
  uint8_t *out;     /* gets the digests */
} part;
static void *on_thread(void *arg);
static void subtree(const machine *k, const uint8_t *p, size_t n, uint64_t counter, uint32_t root, uint32_t threads,
                    uint8_t out[32]) {
  if (n <= CHUNK) {
    one_chunk(p, n, counter, root, out);
    return;
  }
  size_t chunks = (n + CHUNK - 1) / CHUNK;
  if (!root && chunks <= BATCH && n == chunks * CHUNK && !(chunks & (chunks - 1))) {
    uint8_t a[32 * BATCH], b[16 * BATCH], *from = a, *to = b;
    level(k, p, (uint32_t)chunks, counter, true, from);
    for (uint32_t c = (uint32_t)chunks / 2; c; c /= 2) {
      level(k, from, c, 0, false, to);
      uint8_t *t = from;
      from = to, to = t;
    }
    memcpy(out, from, 32);
    return;
  }
  size_t left = 1;
  while (left * 2 < chunks) left *= 2;
  uint8_t both[64];
  part first = {k, p, left * CHUNK, counter, threads / 2, both};
  pthread_t t;
  bool aside = threads > 1 && n >= PARALLEL && !pthread_create(&t, NULL, on_thread, &first);
  if (!aside) on_thread(&first);
  subtree(k, p + left * CHUNK, n - left * CHUNK, counter + left, 0, threads - threads / 2, both + 32);
  if (aside) pthread_join(t, NULL);
  parent(both, root, out);
}
static void *on_thread(void *arg) {
  const part *q = arg;
  subtree(q->k, q->p, q->n, q->counter, 0, q->threads, q->out);
  return NULL;
}
void content_digest(const void *p, size_t n, uint8_t out[32]) {
  machine k = this_machine();
  if (n < PARALLEL) {
    subtree(&k, p, n, 0, ROOT, 1, out);
    return;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* helpers take no signals of the program */
  subtree(&k, p, n, 0, ROOT, 2 * cpu_count(), out);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
