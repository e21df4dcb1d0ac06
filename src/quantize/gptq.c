/* Which codes make the error of a product least? Rounding each weight to the nearest code makes the error of the
 * weights least. GPTQ (Frantar et al. 2022, https://arxiv.org/abs/2210.17323) makes that of the products least, for
 * rows x that were seen: with H = sum of x x^T the error of a row w of weights is (w - q) H (w - q)^T. Weights are
 * rounded one after the other; what each one loses is made good by those that are not rounded yet. With U upper
 * triangular and U^T U the inverse of H, rounding weight i by e changes each later weight j by -e U[i, j] / U[i, i].
 *
 * The weights with the largest H[i, i] come first, while there are many others to make good for them. So the scales
 * are those of the weights as they were. Columns go in panels; what a panel changes behind it is one matrix product.
 */
#include "quantize/quantize.h"
#include <math.h>
#include <string.h>

enum { PANEL = 64 /* columns, or rows, between two matrix products */, TILE = 4 };
static const double damping = 0.01; /* times the mean of the diagonal: added to it, so that H has an inverse */

/* ---- a matrix product ------------------------------------------------------------------------ */
typedef struct matrix {
  double *at; /* first element */
  int64_t ld; /* elements from one row to the next */
} matrix;
static void tile_product(const double *const a[TILE], const double *b, int64_t depth, double sum[TILE][TILE]) {
  memset(sum, 0, sizeof(double) * TILE * TILE);
  for (int64_t p = 0; p < depth; p++, b += TILE)
    for (int r = 0; r < TILE; r++)
      for (int j = 0; j < TILE; j++) sum[r][j] += a[r][p] * b[j];
}
/* c[m, n] -= a[m, depth] * b[depth, n]; packed: room for depth * (n + TILE) elements. */
static void subtract_product(matrix c, matrix a, matrix b, const int64_t size[3], double *packed) {
  const int64_t m = size[0], n = size[1], depth = size[2];
  for (int64_t j = 0; j < n; j += TILE)
    for (int64_t p = 0; p < depth; p++)
      for (int64_t l = 0; l < TILE; l++) packed[j * depth + p * TILE + l] = j + l < n ? b.at[p * b.ld + j + l] : 0;
  for (int64_t i = 0; i < m; i += TILE) {
    const int64_t rows = min64(TILE, m - i);
    const double *row[TILE];
    for (int64_t r = 0; r < TILE; r++) row[r] = a.at + min64(i + r, m - 1) * a.ld;
    for (int64_t j = 0; j < n; j += TILE) {
      double sum[TILE][TILE];
      tile_product(row, packed + j * depth, depth, sum);
      for (int64_t r = 0; r < rows; r++)
        for (int64_t l = 0; l < TILE && j + l < n; l++) c.at[(i + r) * c.ld + j + l] -= sum[r][l];
    }
  }
}

/* ---- the inverse ----------------------------------------------------------------------------- */
/* h becomes L, lower triangular, with h = L^T L; rows from the last one. False: h is not positive. */
static bool factor(double *h, int64_t k, double *packed, double *column) {
  for (int64_t to = k; to > 0; to -= PANEL) {
    const int64_t from = to > PANEL ? to - PANEL : 0;
    for (int64_t j = to - 1; j >= from; j--) {
      double *row = h + j * k;
      const double d = sqrt(row[j]);
      if (!(d > 0) || !isfinite(d)) return false;
      for (int64_t i = 0; i <= j; i++) row[i] /= d;
      for (int64_t l = from; l < j; l++) {
        double *x = h + l * k;
        const double by = row[l];
        for (int64_t i = 0; i <= l; i++) x[i] -= by * row[i];
      }
    }
    for (int64_t top = 0; top < from; top += PANEL) { /* the rows above, up to the diagonal */
      const int64_t end = min64(top + PANEL, from);
      for (int64_t l = top; l < end; l++)
        for (int64_t p = from; p < to; p++) column[(l - top) * PANEL + p - from] = h[p * k + l];
      subtract_product((matrix){h + top * k, k}, (matrix){column, PANEL}, (matrix){h + from * k, k},
                       (const int64_t[]){end - top, end, to - from}, packed);
    }
  }
  return true;
}
/* u, all 0, becomes the inverse of L^T. */
static void invert(const double *l, double *u, int64_t k, double *packed, double *column) {
  for (int64_t to = k; to > 0; to -= PANEL) {
    const int64_t from = to > PANEL ? to - PANEL : 0;
    for (int64_t i = from; i < to; i++) u[i * k + i] = 1;
    for (int64_t p = to; p < k; p += PANEL) {
      const int64_t end = min64(p + PANEL, k);
      for (int64_t i = from; i < to; i++)
        for (int64_t x = p; x < end; x++) column[(i - from) * PANEL + x - p] = l[x * k + i];
      subtract_product((matrix){u + from * k + p, k}, (matrix){column, PANEL}, (matrix){u + p * k + p, k},
                       (const int64_t[]){to - from, k - p, end - p}, packed);
    }
    for (int64_t i = to - 1; i >= from; i--) {
      double *row = u + i * k;
      for (int64_t p = i + 1; p < to; p++)
        for (int64_t j = p; j < k; j++) row[j] -= l[p * k + i] * u[p * k + j];
      for (int64_t j = i; j < k; j++) row[j] /= l[i * k + i];
    }
  }
}
/* The order of the columns: the largest of the diagonal first. */
static int64_t *order_of(const double *gram, int64_t k, arena *a) {
  int64_t *order = NEWN(a, int64_t, 2 * k + 1), *other = order + k;
  for (int64_t i = 0; i < k; i++) order[i] = i;
  for (int64_t width = 1; width < k; width *= 2) { /* merge sort: equal ones keep their order */
    for (int64_t at = 0; at < k; at += 2 * width) {
      int64_t x = at, y = min64(at + width, k);
      const int64_t ends[] = {y, min64(at + 2 * width, k)};
      for (int64_t i = at; i < ends[1]; i++) {
        const bool first = x < ends[0] && (y == ends[1] || gram[order[x] * (k + 1)] >= gram[order[y] * (k + 1)]);
        other[i] = first ? order[x++] : order[y++];
      }
    }
    memcpy(order, other, (size_t)k * sizeof *order);
  }
  return order;
}
/* The Hessian in that order, with damping. Inputs that were always 0 say nothing: their weights are only rounded. */
static double *hessian(const double *gram, int64_t k, const int64_t *order, arena *a) {
  double *h = NEWN(a, double, k *k + 1), mean = 0;
  for (int64_t i = 0; i < k; i++) mean += gram[i * (k + 1)] / (double)k;
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < k; j++) h[i * k + j] = gram[order[i] * k + order[j]];
  for (int64_t i = 0; i < k; i++) h[i * (k + 1)] += mean > 0 ? damping * mean : 1;
  return h;
}

/* ---- codes ----------------------------------------------------------------------------------- */
/* Rounds one panel of a row of weights; error[i] becomes what weight `from + i` lost, over U[i, i]. */
static void round_panel(quant_codes *c, int64_t row, double *w, const double *u, int64_t from, int64_t to,
                        const int64_t *order, double *error) {
  for (int64_t i = from; i < to; i++) {
    const int64_t at = order[i], block = row * c->blocks + at / c->form.block;
    const int code = quantize_code(&c->form, w[i], c->scales[block], c->zeros[block]);
    const double is = (double)c->scales[block] * (code - c->zeros[block]);
    const double e = (w[i] - is) / u[i * (c->k + 1)];
    c->codes[row * c->blocks * c->form.block + at] = (uint8_t)code;
    error[i - from] = EK_PLANTED("quantize-gptq") ? 0 : e;
    for (int64_t j = i + 1; j < to; j++) w[j] -= error[i - from] * u[i * c->k + j];
  }
}
bool quantize_gptq(quant_codes *c, const float *weights, const double *gram, arena *a) {
  const int64_t k = c->k, n = c->n, *order = order_of(gram, k, a);
  double *l = hessian(gram, k, order, a), *u = NEWN(a, double, k *k + 1);
  double *packed = NEWN(a, double, PANEL *(k + TILE)), *column = NEWN(a, double, PANEL *PANEL);
  double *w = NEWN(a, double, n *k + 1), *error = NEWN(a, double, n *PANEL + 1);
  if (!factor(l, k, packed, column)) return false;
  invert(l, u, k, packed, column);
  for (int64_t row = 0; row < n; row++)
    for (int64_t i = 0; i < k; i++) w[row * k + i] = (double)weights[row * k + order[i]];
  for (int64_t from = 0; from < k; from += PANEL) {
    const int64_t to = min64(from + PANEL, k);
    for (int64_t row = 0; row < n; row++) round_panel(c, row, w + row * k, u, from, to, order, error + row * PANEL);
    subtract_product((matrix){w + to, k}, (matrix){error, PANEL}, (matrix){u + from * k + to, k},
                     (const int64_t[]){n, k - to, to - from}, packed);
  }
  return true;
}
