/* What values does a tensor have? The least and the greatest one, and how often each upper half of an f32 occurred: its
 * sign, exponent and 7 bits. These bins are narrow where values are small and need no range that is known before, so
 * that one pass over the data is enough for every method of range.c. */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

quant_stats quantize_stats(arena *a, bool bins) {
  return (quant_stats){.lo = INFINITY, .hi = -INFINITY, .bins = bins ? NEWN(a, uint64_t, QUANT_BINS) : NULL};
}
/* Lanes do not wait for each other, and become vectors. */
static void limits(quant_stats *s, const float *x, int64_t n) {
  enum { LANES = 32 };
  float lo[LANES], hi[LANES], zero[LANES] = {0};
  for (int j = 0; j < LANES; j++) lo[j] = INFINITY, hi[j] = -INFINITY;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int j = 0; j < LANES; j++) {
      const float v = x[i + j];
      lo[j] = v < lo[j] ? v : lo[j];
      hi[j] = v > hi[j] ? v : hi[j];
      zero[j] += v * 0.0f; /* NaN from the first value on that is no number */
    }
  for (int j = 0; i < n && !EK_PLANTED("quantize-observe"); i++, j++) {
    lo[j] = x[i] < lo[j] ? x[i] : lo[j];
    hi[j] = x[i] > hi[j] ? x[i] : hi[j];
    zero[j] += x[i] * 0.0f;
  }
  for (int j = 0; j < LANES; j++) {
    s->lo = fminf(s->lo, lo[j]), s->hi = fmaxf(s->hi, hi[j]);
    s->bad |= zero[j] != 0 || isnan(zero[j]);
  }
}
static uint32_t bin_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 16;
}
void quantize_observe(quant_stats *s, const float *x, int64_t n) {
  limits(s, x, n);
  if (!s->bins) return;
  for (int64_t i = 0; i < n; i++) s->bins[bin_of(x[i])]++;
}
