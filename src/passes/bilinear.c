/* Two ways to need fewer products than a window has taps. Both evaluate the polynomials of inputs and taps at
 * points, multiply there, and interpolate.
 *
 * On a line: n - 1 small numbers and infinity, n = m + r - 1 products (Toom-Cook; Winograd, "Arithmetic
 * complexity of computations", 1980; Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016).
 * The sums have few terms, but the error grows by up to twice with every point (`growths`): n <= 9, and how far
 * it may go on all axes together says pass_winograd.c.
 *
 * On a circle: the N-th roots of unity, N >= m + r - 1: a discrete Fourier transform of N real inputs, N/2 complex
 * products of three real ones each, and the transform back. Each step of the transforms adds and turns pairs, which
 * does not magnify: with u = 2^-24 an output errs by at most about (6 log2 N + 8) u times the length of the tile's
 * inputs times that of the taps (as vectors; Higham, "Accuracy and stability of numerical algorithms",
 * 24.1), whatever N.
 * A long row of taps falls into parts that share the transforms: part p of tile t reads what part 0 of tile t + p does.
 *
 * Constants may stay the taps themselves, scaled, r of them instead of n: a product's factor is then a sum of
 * these, which few additions make where it is multiplied (`bilinear_keep_taps`, `bilinear_factor`).
 *
 * With a stride, Y[o] = sum[k<r] X[s*o + k] * W[k] is a sum of s such windows, one for each k mod s, of r/s taps.
 * Either each has products of its own, and n is the sum of theirs; or all have as many taps (those that lack one
 * have a 0 there) and add their inputs' products up where channels are added up (`phases`): a few more
 * multiplications, but s times fewer values to transform back. */
#include "passes/bilinear.h"
#include <math.h>
#include <string.h>

enum { LINE = 9, PRODUCTS = 16 }; /* points of a window without a stride, with infinity; products of all its windows */
typedef struct on_line {
  double b[PRODUCTS][PRODUCTS], a[PRODUCTS][PRODUCTS]; /* B' n x len, A' m x n */
  /* the product whose row of B' and column of A' are the same but for signs; -1: none */
  int64_t twin[PRODUCTS];
} on_line;
/* Where polynomials of n coefficients are interpolated, infinity besides. Exact in binary; with sizes around 1 the
 * error is less than half of that of 0, +-1, +-2 (measured on sums over 256 channels; the reasons stand in
 * Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution for deep neural networks",
 * 2020). */
static const double interpolate[LINE + 1][LINE - 1] = {{0},
                                                       {0},
                                                       {0},
                                                       {0, 1},
                                                       {0, 1, -1},
                                                       {0.375, -0.375, 1.25, -1.25},
                                                       {0, 0.75, -0.75, 1.5, -1.5},
                                                       {0.25, -0.25, 0.875, -0.875, 1.75, -1.75},
                                                       {0, 0.5, -0.5, 1, -1, 2, -2},
                                                       {0.25, -0.25, 0.75, -0.75, 1.125, -1.125, 2, -2}};
/* By how much the error of n products on one axis exceeds that of plain sums; those of several axes multiply
 * (measured on sums over 128 channels in f32). */
static const double growths[LINE + 1] = {1, 1, 1, 1, 1, 1, 1.35, 1.95, 2.8, 4.6};

/* Distance of two taps of a window. */
static int64_t step_of(const window *w) { return w->phases > 1 ? 1 : w->stride; }
static int64_t taps_of(const window *w, int64_t first) { return (w->r - first + step_of(w) - 1) / step_of(w); }
static int64_t windows(const window *w) { return w->r < step_of(w) ? w->r : step_of(w); }
static void one_tap(window *w, int64_t first, int64_t m) { /* its products are the inputs themselves */
  for (int64_t i = 0; i < m; i++, w->n++, w->len++) {
    w->at[w->len] = first + i * w->stride;
    w->g[w->n * w->r + first] = 1;
  }
}

/* ---- on a line ------------------------------------------------------------------------------- */
/* Taps first, first + stride, ..: `taps` of them. Their inputs and products are the next ones of w. */
static void toom_cook(window *w, int64_t first, int64_t taps) {
  int64_t n = w->m + taps - 1, fin = n - 1, z = w->n;
  const double *points = interpolate[n];
  for (int64_t i = 0; i < n; i++) w->at[z + i] = first + i * w->stride;
  w->n += n, w->len += n;
  for (int64_t i = 0; i < n; i++) {
    double f = 1, p = 1, *b = &w->line->b[z + i][z];
    b[0] = 1; /* coefficients of prod (x - points[j]), j != i */
    for (int64_t j = 0, deg = 0; j < fin; j++) {
      if (j == i) continue;
      if (i < fin) f *= points[i] - points[j];
      for (int64_t d = ++deg; d >= 0; d--) b[d] = (d ? b[d - 1] : 0) - points[j] * (d < deg ? b[d] : 0);
    }
    if (i == fin) {
      w->g[(z + i) * w->r + first + (taps - 1) * step_of(w)] = w->line->a[w->m - 1][z + i] = 1;
      break;
    }
    for (int64_t k = 0; k < (taps > w->m ? taps : w->m); k++, p *= points[i]) {
      if (k < taps) w->g[(z + i) * w->r + first + k * step_of(w)] = EK_PLANTED("winograd") && i == 2 && k ? p : p / f;
      if (k < w->m) w->line->a[k][z + i] = p;
    }
  }
}
/* Points x and -x have rows of B', and columns of A', that differ in signs only: what both need is summed once.
 * Counts the operations that are left. */
static void find_twins(window *w) {
  on_line *l = w->line;
  double in = 0, out = 0;
  for (int64_t i = 0; i < w->n; i++) {
    l->twin[i] = -1;
    for (int64_t k = 0; k < w->n; k++) {
      bool same = true, minus = false;
      for (int64_t j = 0; j < w->len && same; j++)
        same = fabs(l->b[i][j]) == fabs(l->b[k][j]), minus |= l->b[i][j] != l->b[k][j];
      for (int64_t o = 0; o < w->m && same; o++) same = fabs(l->a[o][i]) == fabs(l->a[o][k]);
      if (same && minus) l->twin[i] = k;
    }
    double share = 1;
    if (l->twin[i] >= 0) share /= 2;
    in += share < 1, out += share < 1;
    for (int64_t j = 0; j < w->len; j++) in += l->b[i][j] != 0 ? share : 0;
    for (int64_t o = 0; o < w->m; o++) out += l->a[o][i] != 0 ? share : 0;
  }
  w->in = in / (double)w->n, w->out = out / (double)w->n;
}
static double magnitudes(const double *row, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += fabs(row[i]);
  return sum;
}
static bool ones_only(const double *row, int64_t n) {
  bool ones = true;
  for (int64_t i = 0; i < n; i++) ones &= row[i] == 0 || fabs(row[i]) == 1;
  return ones;
}
/* Is it a form of whole numbers? */
static void find_whole(window *w) {
  const on_line *l = w->line;
  bool halves = false, whole = true;
  w->most_in = w->most_g = 0;
  for (int64_t o = 0; o < w->m; o++) whole &= ones_only(l->a[o], w->n);
  for (int64_t i = 0; i < w->n; i++) {
    whole &= ones_only(l->b[i], w->len);
    w->most_in = fmax(w->most_in, magnitudes(l->b[i], w->len));
    w->most_g = fmax(w->most_g, magnitudes(w->g + i * w->r, w->r));
    for (int64_t k = 0; k < w->r; k++) {
      const double g = w->g[i * w->r + k];
      halves |= trunc(g) != g, whole &= trunc(2 * g) == 2 * g;
    }
  }
  w->whole = !whole ? 0 : halves ? 2 : 1;
  w->most_g *= (double)w->whole;
}
bool bilinear_line(window *w, int64_t m, arena *a) {
  int64_t n = 0;
  for (int64_t f = 0; f < windows(w); f++) n += m + taps_of(w, f) - 1;
  if (m + taps_of(w, 0) - 1 > LINE || n > PRODUCTS) return false;
  w->m = m, w->n = w->len = 0;
  w->growth = growths[m + taps_of(w, 0) - 1];
  w->g = NEWN(a, double, (n + 1) * w->r);
  w->line = NEW(a, on_line);
  for (int64_t f = 0; f < windows(w); f++) {
    if (taps_of(w, f) > 1) {
      toom_cook(w, f, taps_of(w, f));
      continue;
    }
    for (int64_t i = 0; i < m; i++) w->line->b[w->n + i][w->n + i] = w->line->a[i][w->n + i] = 1;
    one_tap(w, f, m);
  }
  find_twins(w);
  find_whole(w);
  return true;
}
/* With b the first point that is not 0, U = G W are sums of b^k W[k] with factors (point/b)^k, if B' takes what all
 * factors of a row have in common. */
bool bilinear_keep_taps(window *w, arena *a) {
  const int64_t fin = w->n - 1;
  if (w->m == 1 || w->circle || step_of(w) > 1 || w->r < 2) return false;
  const double *points = interpolate[w->n], base = points[0] != 0 ? points[0] : points[1];
  double *g = NEWN(a, double, w->n * w->r), power = 1;
  w->scale = NEWN(a, double, w->r);
  for (int64_t k = 0; k < w->r; k++, power *= base) w->scale[k] = power;
  for (int64_t i = 0; i < w->n; i++) {
    double common = i < fin || EK_PLANTED("winograd-scaled-taps") ? w->g[i * w->r] : 1 / w->scale[w->r - 1];
    for (int64_t j = 0; j < w->len; j++) w->line->b[i][j] *= common;
    g[i * w->r + (i < fin ? 0 : w->r - 1)] = 1;
    for (int64_t k = 1; k < w->r && i < fin; k++) g[i * w->r + k] = g[i * w->r + k - 1] * (points[i] / base);
  }
  w->g = g;
  return true;
}
static ex term(emodule *m, ex sum, double k, ex x) {
  if (k == 0 || !x) return sum;
  etype t = (etype)exn(m, x)->type;
  if (exn(m, x)->kind == EX_OP && exn(m, x)->op == OP_NEG) x = exn(m, x)->args[0], k = -k;
  if (!sum) return k == 1 ? x : k == -1 ? expr_op1(m, OP_NEG, x) : expr_op2(m, OP_MUL, expr_f(m, t, k), x);
  if (k == 1) return expr_op2(m, OP_ADD, sum, x);
  if (k == -1) return expr_op2(m, OP_SUB, sum, x);
  ex f[3] = {expr_f(m, t, k), x, sum};
  return expr_op(m, OP_FMA, t, f, 3);
}

/* ---- on a circle: complex values of which a part that is 0 is not there ---------------------- */
typedef struct complex_ex {
  ex re; /* real part; 0: it is 0 */
  ex im; /* imaginary part; 0: it is 0 */
} complex_ex;
typedef struct rotation {
  double re; /* real part */
  double im; /* imaginary part */
} rotation;
static rotation root(int64_t f, int64_t n) { /* e^(2 pi i f/n), exact where it can be: from the first eighth */
  rotation t;
  f = (f % n + n) % n;
  if (2 * f > n) return t = root(n - f, n), (rotation){t.re, -t.im};
  if (4 * f > n) return t = root(n - 2 * f, 2 * n), (rotation){-t.re, t.im};
  if (8 * f > n) return t = root(n - 4 * f, 4 * n), (rotation){t.im, t.re};
  if (8 * f == n) return (rotation){M_SQRT1_2, M_SQRT1_2};
  double x = 2 * acos(-1) * (double)f / (double)n;
  return (rotation){cos(x), sin(x)};
}
static complex_ex conjugate(emodule *m, complex_ex x) {
  return (complex_ex){x.re, x.im ? expr_op1(m, OP_NEG, x.im) : 0};
}
static complex_ex plus(emodule *m, complex_ex x, double k, complex_ex y) {
  return (complex_ex){term(m, x.re, k, y.re), term(m, x.im, k, y.im)};
}
/* x + k*t*y: one multiply-add for each part after t's larger part is taken out */
static complex_ex plus_rotated(emodule *m, complex_ex x, double k, rotation t, complex_ex y) {
  if (fabs(t.re) >= fabs(t.im))
    return plus(m, x, k * t.re, (complex_ex){term(m, y.re, -t.im / t.re, y.im), term(m, y.im, t.im / t.re, y.re)});
  complex_ex u = {term(m, y.im, -t.re / t.im, y.re), term(m, y.re, t.re / t.im, y.im)}; /* t*y = (-im u.re, im u.im) */
  return (complex_ex){term(m, x.re, -k * t.im, u.re), term(m, x.im, k * t.im, u.im)};
}
typedef struct inputs {
  bilinear_read x; /* gives an input */
  void *env;       /* handed to x */
  int64_t first;   /* number of the first input */
  int64_t count;   /* number of inputs */
} inputs;
/* sum over j < n of x(first + step*j) * e^(-2 pi i f j/n), 0 <= f <= n/2 */
static complex_ex spectrum(emodule *m, const inputs *in, int64_t first, int64_t step, int64_t n, int64_t f) {
  complex_ex sum = {0, 0};
  if (first >= in->count) return sum;
  if (n % 2 || n == 1) {
    for (int64_t j = 0; j < n && first + j * step < in->count; j++) {
      ex x = in->x(in->env, in->first + first + j * step);
      rotation t = root(f * j, n);
      sum.re = term(m, sum.re, t.re, x), sum.im = term(m, sum.im, -t.im, x);
    }
    return sum;
  }
  int64_t g = 4 * f > n ? n / 2 - f : f; /* n/2 - g is conjugate to g */
  complex_ex even = spectrum(m, in, first, 2 * step, n / 2, g), odd = spectrum(m, in, first + step, 2 * step, n / 2, g);
  rotation t = root(-g, n);
  sum = plus_rotated(m, even, g == f ? 1 : -1, t, odd);
  return g == f ? sum : conjugate(m, sum);
}
/* real y(o) = sum over f < n of z[f] * e^(2 pi i f o/n), z[n - f] being conjugate to z[f]; z[0..n/2] */
static ex series(emodule *m, const complex_ex *z, int64_t n, int64_t o) {
  complex_ex half[BILINEAR_INPUTS];
  if (n % 2) {
    ex sum = z[0].re;
    for (int64_t f = 1; f <= n / 2; f++) {
      rotation t = root(f * o, n);
      sum = term(m, term(m, sum, 2 * t.re, z[f].re), -2 * t.im, z[f].im);
    }
    return sum;
  }
  for (int64_t f = 0; 4 * f <= n; f++) {
    complex_ex other = conjugate(m, z[n / 2 - f]), zero = {0, 0};
    half[f] = plus(m, z[f], o % 2 ? -1 : 1, other);
    if (o % 2) half[f] = plus_rotated(m, zero, 1, root(f, n), half[f]);
  }
  return series(m, half, n / 2, o / 2);
}
/* Which of the windows does product i (or input i) belong to? */
typedef struct share {
  int64_t first_input; /* number of its first input */
  int64_t inputs;      /* number of its inputs */
  int64_t first;       /* number of its first product */
  int64_t products;    /* number of its products */
  int64_t taps;        /* number of its taps */
} share;
static int64_t circle_products(int64_t n) { return n % 2 ? 1 + 3 * (n / 2) : 2 + 3 * (n / 2 - 1); }
static share share_of(const window *w, int64_t f) {
  share s = {0};
  for (int64_t k = 0;; k++) {
    s.taps = taps_of(w, k);
    s.inputs = w->m + s.taps - 1, s.products = s.taps > 1 ? circle_products(w->circle) : w->m;
    if (k == f) return s;
    s.first_input += s.inputs, s.first += s.products;
  }
}
static double operations(int64_t n) {
  return n % 2 ? (double)(n * (n - 1)) : 2 * operations(n / 2) + (double)(5 * n) / 4;
}
bool bilinear_circle(window *w, int64_t m, int64_t parts, int64_t circle, arena *a) {
  const int64_t last = circle / 2, s = w->stride;
  w->parts = parts, w->circle = circle, w->m = m;
  w->r = parts > 1 ? m : w->taps;
  if (m < 2 || w->taps < 4 * s || m + taps_of(w, 0) - 1 > circle ||
      (parts > 1 && (s > 1 || (parts - 1) * m >= w->taps || parts * m < w->taps)))
    return false;
  share end = share_of(w, windows(w) - 1);
  if (end.first_input + end.inputs > BILINEAR_INPUTS || end.first + end.products > BILINEAR_PRODUCTS) return false;
  w->n = w->len = 0;
  w->g = NEWN(a, double, (end.first + end.products) * w->r);
  for (int64_t f = 0; f < windows(w); f++) {
    share x = share_of(w, f);
    if (x.taps == 1) {
      one_tap(w, f, m);
      continue;
    }
    for (int64_t i = 0; i < x.inputs; i++) w->at[w->len++] = f + i * s;
    for (int64_t h = 0; h <= last; h++) {
      bool real = h == 0 || 2 * h == circle;
      for (int64_t k = 0; k < x.taps; k++) {
        rotation t = root(h * k, circle);
        double *g = &w->g[w->n * w->r + f + k * s], c = t.re / (double)circle, d = t.im / (double)circle;
        g[0] = c; /* (a + bi)(c + di): c(a + b), a(d - c), b(c + d) */
        if (!real) g[w->r] = EK_PLANTED("winograd-circle") && h == 1 ? d : d - c, g[2 * w->r] = c + d;
      }
      w->n += real ? 1 : 3;
    }
  }
  w->in = w->out = operations(circle) * (double)windows(w) / (double)w->n;
  return true;
}
/* The products of a frequency are (re + im) c, re (d - c), im (c + d): frequency 0 has product 0, frequency 1
 * products 1 to 3, .. */
static ex circle_in(const window *w, emodule *m, int64_t i, bilinear_read x, void *env) {
  int64_t f = 0;
  share s = share_of(w, f);
  while (i >= s.first + s.products) s = share_of(w, ++f);
  if (s.taps == 1) return x(env, s.first_input + i - s.first);
  inputs in = {x, env, s.first_input, s.inputs};
  int64_t p = i - s.first + 2;
  complex_ex v = spectrum(m, &in, 0, 1, w->circle, p / 3);
  return !v.im || p % 3 == 1 ? v.re : p % 3 == 2 ? v.im : term(m, v.re, 1, v.im);
}
static ex circle_out(const window *w, emodule *m, int64_t o, bilinear_read p, void *env) {
  const int64_t n = w->circle;
  complex_ex z[BILINEAR_INPUTS] = {{0, 0}};
  ex sum = 0;
  for (int64_t f = 0; f < windows(w); f++) {
    share s = share_of(w, f);
    if (s.taps == 1) {
      sum = term(m, sum, 1, p(env, s.first + o));
      continue;
    }
    for (int64_t h = 0; h <= n / 2; h++) {
      int64_t at = s.first + (h ? 3 * h - 2 : 0);
      ex c = p(env, at);
      z[h].re = term(m, z[h].re, 1, c);
      if (h == 0 || 2 * h == n) continue;
      z[h].im = term(m, term(m, z[h].im, 1, c), 1, p(env, at + 1));
      z[h].re = term(m, z[h].re, -1, p(env, at + 2));
    }
  }
  return term(m, sum, 1, series(m, z, n, o));
}
/* sum of row[j] x(j), by sums that its twin (NULL: it has none) has too, but for their signs; second: the twin comes
 * first, and they are made as there */
static ex twin_sum(emodule *m, const double *row, const double *twin, bool second, int64_t n, bilinear_read x,
                   void *env) {
  const double *one = second ? twin : row;
  ex alike = 0, other = 0; /* terms that both have, and those whose sign is the other one */
  for (int64_t j = 0; j < n; j++) {
    if (row[j] == 0) continue;
    bool minus = twin && row[j] != twin[j];
    *(minus ? &other : &alike) = term(m, minus ? other : alike, one[j], x(env, j));
  }
  return !other ? alike : !alike || !second ? term(m, alike, 1, other) : term(m, alike, -1, other);
}
static ex line_in(const window *w, emodule *m, int64_t i, bilinear_read x, void *env) {
  int64_t k = w->line->twin[i];
  return twin_sum(m, w->line->b[i], k >= 0 ? w->line->b[k] : NULL, k >= 0 && k < i, w->len, x, env);
}
/* Have the rows of B' of two products the same terms, each with the same sign or each with the other one? */
static bool same_terms(const window *w, int64_t i, int64_t k) {
  const on_line *l = w->line;
  for (int64_t j = 0; j < w->len; j++)
    if ((l->b[i][j] == 0) != (l->b[k][j] == 0) ||
        (l->b[i][j] == l->b[l->twin[i]][j]) != (l->b[k][j] == l->b[l->twin[k]][j]))
      return false;
  return true;
}
bilinear_pairs bilinear_find_pairs(const window *w) {
  bilinear_pairs r = {0};
  for (int64_t i = 0; i < w->n && !w->circle; i++) {
    const int64_t k = w->line->twin[i];
    if (k < i) continue; /* it has none, or comes second */
    if (!r.n) {
      r = (bilinear_pairs){1, i, k, 0};
      continue;
    }
    if (r.n == 1) r.step = i - r.first;
    if (i != r.first + r.n * r.step || k != r.twin + r.n * r.step || !same_terms(w, r.first, i)) break;
    r.n++;
  }
  return r.n > 1 ? r : (bilinear_pairs){0};
}
double bilinear_coefficient(const window *w, const bilinear_pairs *pairs, int64_t p, int64_t j) {
  return w->line->b[pairs->first + (EK_PLANTED("winograd-pairs") ? 0 : p) * pairs->step][j];
}
ex bilinear_in_pair(const window *w, emodule *m, const bilinear_pairs *pairs, bool second, bilinear_read coefficient,
                    bilinear_read x, void *env) {
  const double *row = w->line->b[pairs->first], *twin = w->line->b[pairs->twin];
  ex sums[2] = {0, 0}; /* of terms that both have, and of those whose sign is the other one */
  for (int64_t j = 0; j < w->len; j++) {
    bool same = true; /* all pairs have the same coefficient */
    ex *sum = &sums[row[j] != twin[j]], v;
    if (row[j] == 0) continue;
    for (int64_t p = 1; p < pairs->n; p++) same &= bilinear_coefficient(w, pairs, p, j) == row[j];
    v = x(env, j);
    if (same) {
      *sum = term(m, *sum, row[j], v);
      continue;
    }
    ex f[3] = {coefficient(env, j), v, *sum};
    *sum = *sum ? expr_op(m, OP_FMA, (etype)exn(m, v)->type, f, 3) : expr_op2(m, OP_MUL, f[0], v);
  }
  return term(m, sums[0], second ? -1 : 1, sums[1]);
}
static ex line_out(const window *w, emodule *m, int64_t o, bilinear_read p, void *env) {
  ex sum = 0;
  for (int64_t i = 0; i < w->n; i++) {
    int64_t k = w->line->twin[i];
    double by = w->line->a[o][i];
    if (by == 0 || (k >= 0 && k < i)) continue;
    ex x = p(env, i);
    if (k >= 0) x = term(m, x, w->line->a[o][k] == by ? 1 : -1, p(env, k));
    sum = term(m, sum, by, x);
  }
  return sum;
}
int64_t bilinear_mate(const window *w, bool out, int64_t i) {
  if (w->circle) return i;
  if (!out) return w->line->twin[i] >= 0 && w->line->twin[i] < i ? w->line->twin[i] : i;
  for (int64_t o = 0; o < i; o++) {
    bool same = true, any = false;
    for (int64_t k = 0; k < w->n && same; k++)
      if (w->line->twin[k] >= 0)
        any = true, same = (w->line->a[o][k] == w->line->a[o][w->line->twin[k]]) ==
                           (w->line->a[i][k] == w->line->a[i][w->line->twin[k]]);
    if (same && any) return o;
  }
  return i;
}
ex bilinear_factor(const window *w, emodule *m, int64_t i, bilinear_read tap, void *env) {
  int64_t k = w->line->twin[i];
  return twin_sum(m, w->g + i * w->r, k >= 0 ? w->g + k * w->r : NULL, k >= 0 && k < i, w->r, tap, env);
}
ex bilinear_in(const window *w, emodule *m, int64_t i, bilinear_read x, void *env) {
  return (w->circle ? circle_in : line_in)(w, m, i, x, env);
}
ex bilinear_out(const window *w, emodule *m, int64_t o, bilinear_read p, void *env) {
  return (w->circle ? circle_out : line_out)(w, m, o, p, env);
}
