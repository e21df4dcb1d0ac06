/* libFuzzer's doors, the same for every target: cases go to fuzz_one, changes to fuzz_change (fuzz.h).
 *
 * With EK_FUZZ_CHANGED=FOLDER nothing is tried. Instead each input is written to FOLDER together with EK_FUZZ_TIMES
 * others made of it by one to four changes. These depend on the input alone: neither on libFuzzer's choices, which
 * follow what earlier inputs reached in the code, nor on the machine. So a change of the compiler does not change what
 * a fixed pass tries (tests/fuzz.sh -f).
 */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder(void) { return getenv("EK_FUZZ_CHANGED"); }
static void keep(uint64_t name, uint32_t k, const uint8_t *p, size_t n) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%016llx.%u", folder(), (unsigned long long)name, k);
  FILE *f = fopen(path, "wbe");
  if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
    perror(path);
    exit(1);
  }
}
static void keep_changed(const uint8_t *p, size_t n) {
  static uint8_t out[1 << 17];
  const char *s = getenv("EK_FUZZ_TIMES");
  uint32_t times = s ? (uint32_t)strtoul(s, NULL, 10) : 0;
  uint64_t name = hash_bytes(p, n, 0);
  if (n > sizeof out / 2) return;
  keep(name, 0, p, n);
  for (uint32_t k = 1; k <= times; k++) {
    dice d = {name + k};
    size_t m = n;
    if (n) memcpy(out, p, n);
    for (uint32_t i = 0; i <= k % 4; i++) m = fuzz_change(out, m, sizeof out / 2, (unsigned)roll(&d, 1u << 31));
    keep(name, k, out, m);
  }
}
size_t mutate_bytes(uint8_t *p, size_t n, size_t cap, dice *d) {
  if (!folder()) return LLVMFuzzerMutate(p, n, cap);
  size_t at = (size_t)roll(d, n), k = 1 + (size_t)roll(d, 8);
  switch (roll(d, 4)) {
  case 0:
    if (n + k > cap) break;
    memmove(p + at + k, p + at, n - at);
    for (size_t i = 0; i < k; i++) p[at + i] = (uint8_t)roll(d, 256);
    return n + k;
  case 1:
    if (k >= n - at) break;
    memmove(p + at, p + at + k, n - at - k);
    return n - k;
  default:
    break;
  }
  if (n) p[at] = (uint8_t)(roll(d, 2) ? p[at] ^ 1u << roll(d, 8) : roll(d, 256));
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
  if (folder())
    keep_changed(p, n);
  else
    fuzz_one(p, n);
  return 0;
}
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t cap, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *p, size_t n, size_t cap, unsigned seed) { return fuzz_change(p, n, cap, seed); }
