/* Which range of values gets the codes of a tensor? 0 always is in it, so that it has a code of its own.
 *
 *   minmax      all values that were seen
 *   percentile  all but the largest absolute values: so many of a hundred are within
 *   entropy     what loses least information: the divergence (Kullback, Leibler) between the distribution with all
 *               beyond the range put to its ends, and that after quantisation, is least. 128 bins and 128 levels, as
 *               onnxruntime's calibrator has
 *   mse         what makes the expected square of the error least: of rounding within, of clamping beyond. All values
 *               keep their codes unless it becomes a tenth less: the errors of clamped values have one sign, and add up
 *               in sums
 */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

static const double clamping_gain = 0.9; /* so much of the square of the error may be left where values are clamped */
enum { HALF = QUANT_BINS / 2 /* bins of values that are not negative */ };

/* ---- bins ------------------------------------------------------------------------------------ */
static double edge(uint32_t bin) { /* the least absolute value of a bin */
  const uint32_t bits = bin << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/* Numbers of values in 2k bins of equal width, from -most to most. */
static double *equal_bins(const quant_stats *s, double most, uint32_t k, arena *a) {
  const uint32_t n = 2 * k;
  double *out = NEWN(a, double, n), width = 2 * most / n;
  for (uint32_t b = 0; b < QUANT_BINS; b++) {
    if (!s->bins[b]) continue;
    const bool negative = b >= HALF;
    const double from = edge(b % HALF), to = fmin(edge(b % HALF + 1), most);
    const double lo = (negative ? -to : from) + most, hi = (negative ? -from : to) + most;
    const double all = (double)s->bins[b];
    const int64_t first = min64((int64_t)(lo / width), n - 1), last = min64((int64_t)(hi / width), n - 1);
    for (int64_t i = first; i <= last; i++) {
      const double part = fmin(hi, (double)(i + 1) * width) - fmax(lo, (double)i * width);
      out[i] += first == last || hi <= lo ? (i == first ? all : 0) : all * fmax(part, 0) / (hi - lo);
    }
  }
  return out;
}

/* ---- methods --------------------------------------------------------------------------------- */
static quant_range within(const quant_stats *s, double most) {
  const double zero = EK_PLANTED("quantize-range") ? s->lo : 0;
  return (quant_range){fmax(fmin(s->lo, zero), -most), fmin(fmax(s->hi, 0), most)};
}
static double percentile_of(const quant_stats *s, double percentile) {
  double all = 0, sum = 0;
  for (uint32_t b = 0; b < QUANT_BINS; b++) all += (double)s->bins[b];
  for (uint32_t b = 0; b < HALF; b++) {
    const double here = (double)(s->bins[b] + s->bins[b + HALF]), want = all * percentile / 100;
    if (sum + here >= want && here > 0) return edge(b) + (edge(b + 1) - edge(b)) * fmax(want - sum, 0) / here;
    sum += here;
  }
  return INFINITY;
}
/* The divergence of q from p, both smoothed: where p has nothing, a little is taken from the others. */
static double divergence(const double *p, const double *q, uint32_t n) {
  const double little = 1e-4;
  double sp = 0, sq = 0, all = 0;
  uint32_t zp = 0, zq = 0;
  for (uint32_t i = 0; i < n; i++) zp += p[i] == 0, zq += q[i] == 0;
  if (zp == n || zq == n) return INFINITY;
  const double ep = little * zp / (n - zp), eq = little * zq / (n - zq);
  for (uint32_t i = 0; i < n; i++) sp += p[i] == 0 ? little : p[i] - ep, sq += q[i] == 0 ? little : q[i] - eq;
  for (uint32_t i = 0; i < n; i++) {
    const double x = (p[i] == 0 ? little : p[i] - ep) / sp, y = (q[i] == 0 ? little : q[i] - eq) / sq;
    if (x <= 0 || y <= 0) return INFINITY;
    all += x * log(x / y);
  }
  return all;
}
static double entropy_of(const quant_stats *s, double most, arena *a) {
  enum { SIDE = 64, BINS = 2 * SIDE, LEVELS = 128 };
  double *h = equal_bins(s, most, SIDE, a), p[BINS], q[BINS], best = INFINITY, found = most;
  for (uint32_t i = 0; i < BINS; i++) h[i] = floor(h[i] + 0.5);
  for (uint32_t i = LEVELS / 2; i <= SIDE; i++) {
    const uint32_t from = SIDE - i, to = SIDE + i + 1 < BINS ? SIDE + i + 1 : BINS, n = to - from;
    const uint32_t merged = n / LEVELS;
    memcpy(p, h + from, n * sizeof *p), memset(q, 0, sizeof q);
    for (uint32_t b = 0; b < from; b++) p[0] += h[b];
    for (uint32_t b = to; b < BINS; b++) p[n - 1] += h[b];
    for (uint32_t l = 0; l < LEVELS; l++) {
      const uint32_t end = l + 1 == LEVELS ? n : (l + 1) * merged;
      double sum = 0, some = 0;
      for (uint32_t b = l * merged; b < end; b++) sum += h[from + b], some += p[b] != 0;
      for (uint32_t b = l * merged; b < (l + 1) * merged && some > 0; b++) q[b] = floor(sum / some);
    }
    const double d = divergence(p, q, n);
    if (d < best) best = d, found = most * i / SIDE;
  }
  return found;
}
/* The expected square of the error, times the number of values. */
static double error_of(const quant_stats *s, quant_range r) {
  const double step = (r.hi - r.lo) / 255;
  double all = 0;
  for (uint32_t b = 0; b < QUANT_BINS; b++) {
    if (!s->bins[b]) continue;
    const bool negative = b >= HALF;
    const double from = edge(b % HALF), to = edge(b % HALF + 1), middle = (from + to) / 2, width = to - from;
    const double most = negative ? -r.lo : r.hi;
    double e = step * step / 12;
    if (middle > most)
      e = (middle - most) * (middle - most) + width * width / 12;
    else if (to <= step / 2)
      e = middle * middle;
    all += e * (double)s->bins[b];
  }
  return all;
}
static double least_error(const quant_stats *s, double most) {
  enum { STEPS = 256 };
  double best = clamping_gain * error_of(s, within(s, most)), found = most;
  for (int i = STEPS - 1; i > STEPS / 16; i--) {
    const double e = error_of(s, within(s, most * i / STEPS));
    if (e < best) best = e, found = most * i / STEPS;
  }
  return found;
}
quant_range quantize_range(const quant_stats *s, quant_method how, double percentile, arena *a) {
  const double most = fmax(fabs((double)s->lo), fabs((double)s->hi));
  if (s->hi < s->lo || most == 0) return (quant_range){0, 0};
  switch (how) {
  case QUANT_PERCENTILE:
    return within(s, percentile_of(s, percentile));
  case QUANT_ENTROPY:
    return within(s, entropy_of(s, most, a));
  case QUANT_MSE:
    return within(s, least_error(s, most));
  case QUANT_MINMAX:
    break;
  }
  return within(s, most);
}
