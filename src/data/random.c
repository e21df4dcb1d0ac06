/* Where does randomness come from, without a state? Philox makes words of a counter and a key. A permutation of n
 * numbers is a Feistel network over the bits of n - 1, whose round function is Philox; what falls beyond n goes through
 * the network again until it does not (cycle walking, Black and Rogaway 2002), less than twice on average. */
#include "data/data_in.h"

enum { PHILOX_ROUNDS = 10, FEISTEL_ROUNDS = 12 };

void philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]) {
  uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    const uint64_t p0 = (uint64_t)x[0] * 0xd2511f53u, p1 = (uint64_t)x[2] * 0xcd9e8d57u;
    x[0] = (uint32_t)(p1 >> 32) ^ x[1] ^ k0, x[1] = (uint32_t)p1;
    x[2] = (uint32_t)(p0 >> 32) ^ x[3] ^ k1, x[3] = (uint32_t)p0;
    k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
  }
  for (int i = 0; i < 4; i++) out[i] = x[i];
}

/* The two halves of a number, of `bits[0]` and `bits[1]` bits, change each other in rounds by turns: each round can be
 * undone, so that all together are a permutation. */
static uint64_t feistel(uint64_t x, const uint32_t bits[2], uint64_t seed, random_use use, uint64_t number) {
  uint32_t half[2] = {(uint32_t)(x & ((UINT64_C(1) << bits[0]) - 1)), (uint32_t)(x >> bits[0])}, word[4];
  for (uint32_t i = 0; i < FEISTEL_ROUNDS; i++) {
    const uint32_t to = i & 1, counter[4] = {half[!to], (uint32_t)number, (uint32_t)(number >> 32), use << 8 | i};
    philox(counter, seed, word);
    half[to] ^= word[0] & (uint32_t)((UINT64_C(1) << bits[to]) - 1);
  }
  return (uint64_t)half[1] << bits[0] | half[0];
}

int64_t permuted(uint64_t seed, random_use use, uint64_t number, int64_t n, int64_t position) {
  if (n < 2) return 0;
  const uint32_t all = 64 - (uint32_t)__builtin_clzll((uint64_t)n - 1), bits[2] = {all / 2, all - all / 2};
  uint64_t x = (uint64_t)position;
  do x = feistel(x, bits, seed, use, number);
  while (x >= (uint64_t)n && !EK_PLANTED("data-order"));
  return (int64_t)x;
}

int64_t dataset_shuffled(uint64_t seed, uint64_t epoch, int64_t n, int64_t position) {
  return permuted(seed, RANDOM_ORDER, epoch, n, position);
}
