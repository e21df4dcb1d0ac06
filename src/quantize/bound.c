/* What will the error be on other samples, by that of those that were seen? The bounds hold with probability 0.99 for
 * as many others as were seen, which vary as much: both means do, so that their difference has twice the variance of
 * one. They are bounds of Student's t, which is larger where samples are few. */
#include "quantize/quantize.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double student(double freedom) { /* one side, 0.99 */
  static const double t[] = {31.82, 6.96, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76};
  const double z = 2.326; /* behind ten degrees its approximation by the normal distribution */
  return freedom <= 10 ? t[(int)freedom - 1] : z + (z * z * z + z) / (4 * freedom);
}
typedef struct moments { /* of pairs of numbers */
  double mx;             /* mean of the first ones */
  double my;             /* mean of the second ones */
  double vx;             /* variance of the first ones */
  double vy;             /* variance of the second ones */
  double xy;             /* covariance */
} moments;
static moments moments_of(const double *x, const double *y, size_t n) {
  moments m = {0};
  for (size_t i = 0; i < n; i++) m.mx += x[i] / (double)n, m.my += y[i] / (double)n;
  for (size_t i = 0; i < n; i++) {
    const double a = x[i] - m.mx, b = y[i] - m.my;
    m.vx += a * a, m.vy += b * b, m.xy += a * b;
  }
  m.vx /= (double)(n - 1), m.vy /= (double)(n - 1), m.xy /= (double)(n - 1);
  return m;
}
double quantize_at_most(const double *x, size_t n) {
  double all = 0;
  if (EK_PLANTED("quantize-margin") || n < 2) {
    for (size_t i = 0; i < n; i++) all += x[i] / (double)n;
    return all;
  }
  const moments m = moments_of(x, x, n);
  return m.mx + student((double)n - 1) * sqrt(2 * m.vx / (double)n);
}

/* ---- a ratio ---------------------------------------------------------------------------------- */
/* The least r for which the mean of signal - r * error may be 0 (Fieller's bound): by the normal distribution, for
 * means of many. The bound is where (mean of it)^2 = t^2 times its variance, a quadratic equation in r. */
static double normal_bound(const double *signal, const double *error, size_t n, double t) {
  const moments m = moments_of(signal, error, n);
  const double k = 2 * t * t / (double)n;
  const double a = m.my * m.my - k * m.vy, b = m.mx * m.my - k * m.xy, c = m.mx * m.mx - k * m.vx;
  const double root = b + sqrt(fmax(b * b - a * c, 0));
  return c <= 0 ? 0 : root > 0 ? c / root : m.mx / m.my;
}
/* The logarithms; what is below a hundredth of the mean counts as that: the sum does not depend on it, but the variance
 * of the logarithms would. */
static const double *logarithms(const double *x, size_t n, double mean, arena *a) {
  double *y = NEWN(a, double, n + 1);
  for (size_t i = 0; i < n; i++) y[i] = log(fmax(x[i], mean / 100));
  return y;
}
/* The same by the log-normal distribution. Errors of samples often spread over decades: then a sum is that of the
 * largest ones, which are not among those seen, and the variance of these says too little. The mean of a log-normal
 * value is exp(mean + variance/2) of its logarithm; the variance of that estimate follows from both. */
static double log_normal_bound(const double *signal, const double *error, size_t n, double t, arena *a) {
  const moments of = moments_of(signal, error, n);
  const moments m = moments_of(logarithms(signal, n, of.mx, a), logarithms(error, n, of.my, a), n);
  const double of_means = m.vx + m.vy - 2 * m.xy, of_variances = m.vx * m.vx + m.vy * m.vy - 2 * m.xy * m.xy;
  const double variance = of_means / (double)n + of_variances / (2 * ((double)n - 1));
  return exp(m.mx - m.my + (m.vx - m.vy) / 2 - t * sqrt(2 * fmax(variance, 0)));
}
double quantize_ratio_at_least(const double *signal, const double *error, size_t n, arena *a) {
  double s = 0, e = 0;
  for (size_t i = 0; i < n; i++) s += signal[i], e += error[i];
  if (e == 0) return INFINITY;
  if (EK_PLANTED("quantize-margin") || n < 2 || s == 0) return s / e;
  const double t = student((double)n - 1);
  return fmin(normal_bound(signal, error, n, t), log_normal_bound(signal, error, n, t, a));
}
static int falling(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a < b) - (a > b);
}
size_t quantize_half(const double *x, size_t n, arena *a) {
  double *sorted = NEWN(a, double, n + 1), sum = 0, part = 0;
  size_t k = 0;
  memcpy(sorted, x, n * sizeof *x);
  qsort(sorted, n, sizeof *sorted, falling);
  for (size_t i = 0; i < n; i++) sum += sorted[i];
  while (k < n && part < sum / 2) part += sorted[k++];
  return k;
}
