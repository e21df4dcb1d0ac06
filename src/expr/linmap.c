/* What does a constant hold that is a linear map of another one? It is computed where it will lie, in any order of pieces: the form of a constant with fewer multiplications (pass_winograd.c) is
 * several times as large as the constant, and is wanted once, in the order of a pack.
 *
 * A row's columns are computed side by side, in f64: r0 x r1 lines of inputs become n0 x r1, and then n0 x n1. */
#include "expr/expr.h"
#include <stddef.h>
#include <string.h>

enum { LANES = 8 };
typedef double line __attribute__((vector_size(LANES * 8)));
typedef float line32 __attribute__((vector_size(LANES * 4)));

static int64_t begins(const linmap *l, int64_t row) { /* where in the source */
  int64_t at = l->base;
  for (int64_t v = l->nx - 1; v-- > 0; row /= l->ext[v]) at += row % l->ext[v] * l->step[v];
  return at;
}
static inline double f32_at(const uint8_t *p) { /* mapped constants may be misaligned */
  float f;
  memcpy(&f, p, 4);
  return f;
}
static inline double f64_at(const uint8_t *p) {
  double d;
  memcpy(&d, p, 8);
  return d;
}
static inline __attribute__((always_inline)) void read_lines(const linmap *l, int64_t at, int64_t size, int64_t n, line x[LINMAP_MOST][LINMAP_MOST]) {
  const int64_t step = l->step[l->nx - 1] * size;
  for (int64_t j = 0; j < l->r[0]; j++)
    for (int64_t k = 0; k < l->r[1]; k++) {
      const uint8_t *p = l->from.p + (at + j * l->tap[0] + k * l->tap[1]) * size;
      if (size == 4 && n == LANES) {
        x[j][k] = (line){f32_at(p), f32_at(p + step), f32_at(p + 2 * step), f32_at(p + 3 * step), f32_at(p + 4 * step), f32_at(p + 5 * step), f32_at(p + 6 * step), f32_at(p + 7 * step)};
        continue;
      }
      double d[LANES] = {0};
      for (int64_t e = 0; e < n; e++) d[e] = size == 4 ? f32_at(p + e * step) : f64_at(p + e * step);
      memcpy(&x[j][k], d, sizeof d);
    }
}
#define PUT(u) /* size and n are constants where it matters */                                                                                                                                         \
  do {                                                                                                                                                                                                 \
    line32 f_ = __builtin_convertvector(u, line32);                                                                                                                                                    \
    if (size == 4 && n == LANES)                                                                                                                                                                       \
      memcpy(out, &f_, sizeof f_);                                                                                                                                                                     \
    else                                                                                                                                                                                               \
      memcpy(out, size == 4 ? (const void *)&f_ : (const void *)&(u), (size_t)(n * size));                                                                                                             \
  } while (0)
static inline __attribute__((always_inline)) void map_lines(const linmap *l, line x[LINMAP_MOST][LINMAP_MOST], int64_t size, int64_t n, uint8_t *out, int64_t place) {
  for (int64_t a = 0; a < l->n[0]; a++) {
    line half[LINMAP_MOST];
    for (int64_t k = 0; k < l->r[1]; k++) {
      half[k] = l->g[0][a][0] * x[0][k];
      for (int64_t j = 1; j < l->r[0]; j++) half[k] += l->g[0][a][j] * x[j][k];
    }
    for (int64_t b = 0; b < l->n[1]; b++, out += place) {
      line u = l->g[1][b][0] * half[0];
      for (int64_t k = 1; k < l->r[1]; k++) u += l->g[1][b][k] * half[k];
      PUT(u);
    }
  }
}
/* The same where r0, r1 <= 3, as they mostly are: everything stays in registers. Taps that are not there count as 0. */
static inline __attribute__((always_inline)) void map_three(const linmap *l, line x[LINMAP_MOST][LINMAP_MOST], int64_t size, int64_t n, uint8_t *out, int64_t place) {
  line zero = {0}, y[3][3];
  for (int j = 0; j < 3; j++)
    for (int k = 0; k < 3; k++) y[j][k] = j < l->r[0] && k < l->r[1] ? x[j][k] : zero;
  for (int64_t a = 0; a < l->n[0]; a++) {
    const double *g = l->g[0][a];
    line h0 = g[0] * y[0][0] + g[1] * y[1][0] + g[2] * y[2][0], h1 = g[0] * y[0][1] + g[1] * y[1][1] + g[2] * y[2][1], h2 = g[0] * y[0][2] + g[1] * y[1][2] + g[2] * y[2][2];
    for (int64_t b = 0; b < l->n[1]; b++, out += place) {
      const double *k = l->g[1][b];
      line u = k[0] * h0 + k[1] * h1 + k[2] * h2;
      PUT(u);
    }
  }
}
static inline __attribute__((always_inline)) void write_rows(const linmap *l, linmap_piece w, uint8_t *to, int64_t place_step, int64_t row_step) {
  const bool three = l->r[0] <= 3 && l->r[1] <= 3;
  for (int64_t col = w.col; col < w.col_end; col += LANES)
    for (int64_t row = w.row; row < w.row_end; row++) {
      int64_t n = min64(LANES, w.col_end - col), at = begins(l, row) + col * l->step[l->nx - 1], place = place_step * l->size;
      uint8_t *out = to + ((row - w.row) * row_step + col - w.col) * l->size;
      line x[LINMAP_MOST][LINMAP_MOST];
      if (n == LANES && l->size == 4 && three) {
        read_lines(l, at, 4, LANES, x);
        map_three(l, x, 4, LANES, out, place);
        continue;
      }
      read_lines(l, at, l->size, n, x);
      if (three)
        map_three(l, x, l->size, n, out, place);
      else
        map_lines(l, x, l->size, n, out, place);
    }
}
static void write_plain(const linmap *l, linmap_piece w, uint8_t *to, int64_t place_step, int64_t row_step) { write_rows(l, w, to, place_step, row_step); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void write_avx2(const linmap *l, linmap_piece w, uint8_t *to, int64_t place_step, int64_t row_step) { write_rows(l, w, to, place_step, row_step); }
__attribute__((target("avx512f"))) static void write_avx512(const linmap *l, linmap_piece w, uint8_t *to, int64_t place_step, int64_t row_step) { write_rows(l, w, to, place_step, row_step); }
#endif
/* The bits are the same on every machine: no sum is contracted. */
void linmap_write(const linmap *l, linmap_piece w, uint8_t *to, int64_t place_step, int64_t row_step) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    write_avx512(l, w, to, place_step, row_step);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    write_avx2(l, w, to, place_step, row_step);
    return;
  }
#endif
  write_plain(l, w, to, place_step, row_step);
}
static void reach(int64_t *lo, int64_t *hi, int64_t count, int64_t step) { *(step < 0 ? lo : hi) += (count - 1) * step; }
bytes linmap_reads(const linmap *l, linmap_piece w) {
  int64_t lo = l->base, hi = l->base, last = l->nx - 1;
  lo += w.col * l->step[last], hi += w.col * l->step[last], reach(&lo, &hi, w.col_end - w.col, l->step[last]);
  if (last == 1)
    lo += w.row * l->step[0], hi += w.row * l->step[0], reach(&lo, &hi, w.row_end - w.row, l->step[0]);
  else
    for (int64_t v = 0; v < last; v++) reach(&lo, &hi, l->ext[v], l->step[v]);
  for (int i = 0; i < LINMAP_AXES; i++) reach(&lo, &hi, l->r[i], l->tap[i]);
  return (bytes){l->from.p + lo * l->size, (size_t)((hi - lo + 1) * l->size)};
}
int64_t linmap_places(const linmap *l) { return l->n[0] * l->n[1]; }
int64_t linmap_cols(const linmap *l) { return l->ext[l->nx - 1]; }
int64_t linmap_rows(const linmap *l) {
  int64_t n = 1;
  for (int64_t v = 0; v < l->nx - 1; v++) n *= l->ext[v];
  return n;
}
bool linmap_equal(const linmap *a, const linmap *b) { return a == b || (a && b && !memcmp(a, b, offsetof(linmap, from))); }

/* ---- in the module ---- */
typedef struct making {
  const linmap *l;
  uint8_t *to;
} making;
enum { ROWS = 16 };
static void make_rows(ctx *c, void *arg, uint32_t i) {
  const making *k = arg;
  int64_t rows = linmap_rows(k->l), cols = linmap_cols(k->l);
  linmap_piece w = {(int64_t)i * ROWS, min64(rows, (int64_t)(i + 1) * ROWS), 0, cols};
  (void)c;
  linmap_write(k->l, w, k->to + w.row * cols * k->l->size, rows * cols, cols);
}
const ndarray *expr_data(emodule *m, tid t) {
  tensor *x = xt(m, t);
  if (x->kind != TK_CONST || !x->made) return &x->data;
  making k = {x->made, arena_alloc(m->a, x->data.bytes)};
  par_for(m->c, cpu_count(), (uint32_t)((linmap_rows(k.l) + ROWS - 1) / ROWS), make_rows, &k);
  x->data.data = k.to, x->made = NULL;
  return &x->data;
}
tid expr_const_linmap(emodule *m, const ndarray *shape, const linmap *l, const char *name) {
  ndarray d = *shape;
  d.data = NULL;
  tid t = expr_const_tensor(m, &d, name);
  xt(m, t)->made = arena_dup(m->a, l, sizeof *l);
  return t;
}
