/* Private to pass_winograd.c: by which products does a window compute several neighbouring outputs of one axis?
 *
 * m outputs Y[o] = sum[k<r] X[stride*o + k] * W[k] are A' ((G W) . (B' X)) with n products. G is a matrix (it is
 * applied to constants, linmap.c), B' and A' are formulas. */
#ifndef EK_PASSES_BILINEAR_H
#define EK_PASSES_BILINEAR_H
#include "expr/expr.h"

/* of a tile: most inputs, and most products: three real ones for each pair of them on a circle */
enum { BILINEAR_INPUTS = 64, BILINEAR_PRODUCTS = BILINEAR_INPUTS / 2 * 3 };
typedef struct window {
  atom o;          /* variable of the outputs */
  atom k;          /* variable of the taps */
  uint32_t arg;    /* axis of X that it slides along: index = spacing*(stride*o + sign*k) + rest */
  int64_t sign;    /* 1 or -1: direction of the taps */
  int64_t stride;  /* steps of `spacing` between two outputs */
  int64_t spacing; /* places of X between two taps */
  int64_t taps;    /* number of values of k, r of them in a part */
  /* stride: phase f has the taps k = stride*i + f - lead, i < r, a sum of their own that shares its products with
   * those of other phases; 1: not so */
  int64_t phases, lead;
  /* k = r*part + .., where a part's taps are a tile's outputs, m == r: tile t and part p read the inputs of t + p;
   * 1: not divided */
  int64_t parts;
  int64_t r;                   /* taps of a part */
  int64_t m;                   /* outputs of a tile; 1: no such form */
  int64_t n;                   /* products of a tile */
  int64_t len;                 /* inputs of a tile */
  int64_t circle;              /* its length; 0: interpolation on a line */
  double growth;               /* growth of the error: that of plain sums counts 1 */
  double in, out;              /* operations for a product's B', and for its part in A' */
  int64_t at[BILINEAR_INPUTS]; /* place of each input of a tile, behind its first one */
  double *g;                   /* n x r */
  /* r; the taps are kept, so scaled, and g makes factors of them (bilinear_keep_taps); NULL: they are not */
  double *scale;
  struct on_line *line; /* B' and A' of interpolation on a line */
  int64_t whole;        /* G times this number, 1 or 2, is whole, and B' and A' add and subtract only; 0: not so */
  double most_in;       /* whole: by how much B' may enlarge an input */
  double most_g;        /* whole: by how much G times that number may enlarge a tap */
} window;
/* Fills the form of m outputs (of a window with r taps in each part; with the phases that are set) in; false: there
 * is none. circle: 0, or the length to use for each of the stride's windows. */
bool bilinear_line(window *w, int64_t m, arena *a);
bool bilinear_circle(window *w, int64_t m, int64_t parts, int64_t circle, arena *a);
/* The constants shall be taps, and each product's factor be made of them where it is multiplied: by few sums, which
 * neighbours share. False: not of this form. */
bool bilinear_keep_taps(window *w, arena *a);
typedef ex (*bilinear_read)(void *env, int64_t i);
/* row i of B' X, X[j] = x(env, j) */
ex bilinear_in(const window *w, emodule *m, int64_t i, bilinear_read x, void *env);
/* Products of which one formula computes all: product first + step*p, and twin + step*p, for p < n. Their rows of B'
 * have the same terms, with coefficients of their own, and the two of a pair differ in signs only. */
typedef struct bilinear_pairs {
  int64_t n;     /* number of pairs; 0: there are none */
  int64_t first; /* first product of pair 0 */
  int64_t twin;  /* second product of pair 0 */
  int64_t step;  /* distance of the same product of two neighbouring pairs */
} bilinear_pairs;
bilinear_pairs bilinear_find_pairs(const window *w);
/* the coefficient of input j in the first product of pair p */
double bilinear_coefficient(const window *w, const bilinear_pairs *pairs, int64_t p, int64_t j);
/* the row of B' X that is the first product of a pair, or the second one; coefficient: gives that of input j in the
 * first */
ex bilinear_in_pair(const window *w, emodule *m, const bilinear_pairs *pairs, bool second, bilinear_read coefficient,
                    bilinear_read x, void *env);
/* the factor of product i, computed from kept taps */
ex bilinear_factor(const window *w, emodule *m, int64_t i, bilinear_read tap, void *env);
ex bilinear_out(const window *w, emodule *m, int64_t o, bilinear_read p, void *env); /* row o of A' P */
/* the first row that shares sums with row i */
int64_t bilinear_mate(const window *w, bool out, int64_t i);
#endif
