/* What does a constant hold that is a linear map of another one? It is computed where it will lie, in any order of
 * pieces: the form of a constant with fewer multiplications (pass_winograd.c) is several times as large as the
 * constant, and is wanted once, in the order of a pack.
 *
 * A row's columns are computed side by side, in f64: r0 x r1 lines of inputs become n0 x r1, and then n0 x n1. */
#include "expr/expr.h"
#include <stddef.h>
#include <string.h>

enum { LANES = 8 };
typedef double line __attribute__((vector_size(LANES * 8)));
typedef float line32 __attribute__((vector_size(LANES * 4)));

typedef struct place {
  int64_t at;                 /* offset in the source, in elements */
  int64_t first[LINMAP_AXES]; /* per axis: first element that is there */
  int64_t r[LINMAP_AXES];     /* per axis: elements that are there */
} place;
static place begins(const linmap *l, int64_t row) {
  place p = {l->base, {0}, {l->r[0], l->r[1]}};
  for (int64_t v = l->nx - 1; v-- > 0; row /= l->ext[v]) {
    p.at += row % l->ext[v] * l->step[v];
    for (int i = 0; i < LINMAP_AXES; i++)
      if (l->all[i] && l->part[i] == v) {
        int64_t from = row % l->ext[v] * l->begin[i] - l->lead[i];
        p.first[i] = from < 0 ? (l->spacing[i] - 1 - from) / l->spacing[i] : 0;
        p.r[i] = min64(l->r[i], (l->all[i] - from + l->spacing[i] - 1) / l->spacing[i]);
        p.at -= l->lead[i] * l->tap[i] / l->spacing[i];
      }
  }
  return p;
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
/* x: r0 x r1 lines; what is not there is 0 */
static inline __attribute__((always_inline)) void read_lines(const linmap *l, place at, int64_t size, int64_t n,
                                                             line *x) {
  const int64_t step = l->step[l->nx - 1] * size;
  if (at.r[0] - at.first[0] < l->r[0] || at.r[1] - at.first[1] < l->r[1])
    memset(x, 0, (size_t)(l->r[0] * l->r[1]) * sizeof *x);
  for (int64_t j = at.first[0]; j < at.r[0]; j++)
    for (int64_t k = at.first[1]; k < at.r[1]; k++) {
      const uint8_t *p = l->from.p + (at.at + j * l->tap[0] + k * l->tap[1]) * size;
      line *to = &x[j * l->r[1] + k];
      if (size == 4 && n == LANES) {
        *to = (line){f32_at(p),
                     f32_at(p + step),
                     f32_at(p + 2 * step),
                     f32_at(p + 3 * step),
                     f32_at(p + 4 * step),
                     f32_at(p + 5 * step),
                     f32_at(p + 6 * step),
                     f32_at(p + 7 * step)};
        continue;
      }
      double d[LANES] = {0};
      for (int64_t e = 0; e < n; e++) d[e] = size == 4 ? f32_at(p + e * step) : f64_at(p + e * step);
      memcpy(to, d, sizeof d);
    }
}
#define PUT(u) /* size and n are constants where it matters */                                                         \
  do {                                                                                                                 \
    line32 f_ = __builtin_convertvector(u, line32);                                                                    \
    if (size == 4 && n == LANES)                                                                                       \
      memcpy(out, &f_, sizeof f_);                                                                                     \
    else                                                                                                               \
      memcpy(out, size == 4 ? (const void *)&f_ : (const void *)&(u), (size_t)(n * size));                             \
  } while (0)
static inline __attribute__((always_inline)) void map_lines(const linmap *l, const line *x, line *half, int64_t size,
                                                            int64_t n, uint8_t *to, const int64_t *step) {
  const int64_t r0 = l->r[0], r1 = l->r[1];
  for (int64_t a = 0; a < l->n[0]; a++) {
    const double *g = l->g[0] + a * r0;
    for (int64_t k = 0; k < r1; k++) {
      line h = g[0] * x[k];
      for (int64_t j = 1; j < r0; j++) h += g[j] * x[j * r1 + k];
      half[k] = h;
    }
    uint8_t *out = to + a * step[0];
    for (int64_t b = 0; b < l->n[1]; b++, out += step[1]) {
      const double *f = l->g[1] + b * r1;
      line u = f[0] * half[0];
      for (int64_t k = 1; k < r1; k++) u += f[k] * half[k];
      PUT(u);
    }
  }
}
/* The same where r0, r1 <= 3, as they mostly are: everything stays in registers. Taps that are not there count as 0. */
enum { THREE_PLACES = 16 };
typedef double three_taps[LINMAP_AXES][THREE_PLACES][3];
static bool three(const linmap *l, three_taps g) {
  for (int i = 0; i < LINMAP_AXES; i++) {
    if (l->r[i] > 3 || l->n[i] > THREE_PLACES) return false;
    for (int64_t a = 0; a < l->n[i]; a++)
      for (int64_t j = 0; j < 3; j++) g[i][a][j] = j < l->r[i] ? l->g[i][a * l->r[i] + j] : 0;
  }
  return true;
}
static inline __attribute__((always_inline)) void map_three(const linmap *l, three_taps taps, const line *x,
                                                            int64_t size, int64_t n, uint8_t *to, const int64_t *step) {
  const int64_t r0 = l->r[0], r1 = l->r[1];
  line zero = {0}, y[3][3];
  for (int j = 0; j < 3; j++)
    for (int k = 0; k < 3; k++) y[j][k] = j < r0 && k < r1 ? x[j * r1 + k] : zero;
  for (int64_t a = 0; a < l->n[0]; a++) {
    const double *g = taps[0][a];
    line h0 = g[0] * y[0][0] + g[1] * y[1][0] + g[2] * y[2][0], h1 = g[0] * y[0][1] + g[1] * y[1][1] + g[2] * y[2][1],
         h2 = g[0] * y[0][2] + g[1] * y[1][2] + g[2] * y[2][2];
    uint8_t *out = to + a * step[0];
    for (int64_t b = 0; b < l->n[1]; b++, out += step[1]) {
      const double *k = taps[1][b];
      line u = k[0] * h0 + k[1] * h1 + k[2] * h2;
      PUT(u);
    }
  }
}
static inline __attribute__((always_inline)) void write_rows(const linmap *l, linmap_piece w, uint8_t *to,
                                                             const int64_t *step, int64_t row_step) {
  three_taps g;
  const bool small = three(l, g);
  line x[LINMAP_TAPS], half[LINMAP_TAPS];
  for (int64_t col = w.col; col < w.col_end; col += LANES)
    for (int64_t row = w.row; row < w.row_end; row++) {
      int64_t n = min64(LANES, w.col_end - col), next[LINMAP_AXES] = {step[0] * l->size, step[1] * l->size};
      place at = begins(l, row);
      at.at += col * l->step[l->nx - 1];
      uint8_t *out = to + ((row - w.row) * row_step + col - w.col) * l->size;
      if (n == LANES && l->size == 4 && small) {
        read_lines(l, at, 4, LANES, x);
        map_three(l, g, x, 4, LANES, out, next);
        continue;
      }
      read_lines(l, at, l->size, n, x);
      if (small)
        map_three(l, g, x, l->size, n, out, next);
      else if (n == LANES && l->size == 4)
        map_lines(l, x, half, 4, LANES, out, next);
      else
        map_lines(l, x, half, l->size, n, out, next);
    }
}
static void write_plain(const linmap *l, linmap_piece w, uint8_t *to, const int64_t *step, int64_t row_step) {
  write_rows(l, w, to, step, row_step);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void write_avx2(const linmap *l, linmap_piece w, uint8_t *to,
                                                       const int64_t *step, int64_t row_step) {
  write_rows(l, w, to, step, row_step);
}
__attribute__((target("avx512f"))) static void write_avx512(const linmap *l, linmap_piece w, uint8_t *to,
                                                            const int64_t *step, int64_t row_step) {
  write_rows(l, w, to, step, row_step);
}
#endif
/* The bits are the same on every machine: no sum is contracted. */
void linmap_write(const linmap *l, linmap_piece w, uint8_t *to, const int64_t *step, int64_t row_step) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    write_avx512(l, w, to, step, row_step);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    write_avx2(l, w, to, step, row_step);
    return;
  }
#endif
  write_plain(l, w, to, step, row_step);
}
static void reach(int64_t *lo, int64_t *hi, int64_t count, int64_t step) {
  *(step < 0 ? lo : hi) += (count - 1) * step;
}
static bool counts_parts(const linmap *l, int64_t v) {
  return (l->all[0] && l->part[0] == v) || (l->all[1] && l->part[1] == v);
}
bytes linmap_reads(const linmap *l, linmap_piece w) {
  int64_t lo = l->base, hi = l->base, last = l->nx - 1;
  lo += w.col * l->step[last], hi += w.col * l->step[last], reach(&lo, &hi, w.col_end - w.col, l->step[last]);
  if (last == 1 && !counts_parts(l, 0))
    lo += w.row * l->step[0], hi += w.row * l->step[0], reach(&lo, &hi, w.row_end - w.row, l->step[0]);
  else
    for (int64_t v = 0; v < last; v++)
      if (!counts_parts(l, v)) reach(&lo, &hi, l->ext[v], l->step[v]);
  for (int i = 0; i < LINMAP_AXES; i++)
    l->all[i] ? reach(&lo, &hi, l->all[i], l->tap[i] / l->spacing[i]) : reach(&lo, &hi, l->r[i], l->tap[i]);
  return (bytes){l->from.p + lo * l->size, (size_t)((hi - lo + 1) * l->size)};
}
int64_t linmap_places(const linmap *l) { return l->n[0] * l->n[1]; }
int64_t linmap_cols(const linmap *l) { return l->ext[l->nx - 1]; }
int64_t linmap_rows(const linmap *l) {
  int64_t n = 1;
  for (int64_t v = 0; v < l->nx - 1; v++) n *= l->ext[v];
  return n;
}
bool linmap_equal(const linmap *a, const linmap *b) {
  if (a == b || !a || !b || memcmp(a, b, offsetof(linmap, g))) return a == b;
  for (int i = 0; i < LINMAP_AXES; i++)
    if (memcmp(a->g[i], b->g[i], (size_t)(a->n[i] * a->r[i]) * sizeof *a->g[i])) return false;
  return true;
}

/* ---- in the module --------------------------------------------------------------------------- */
typedef struct making {
  const linmap *l; /* the map */
  uint8_t *to;     /* gets the bytes */
} making;
enum { ROWS = 16 };
static void make_rows(ctx *c, void *arg, uint32_t i) {
  const making *k = arg;
  int64_t rows = linmap_rows(k->l), cols = linmap_cols(k->l);
  linmap_piece w = {(int64_t)i * ROWS, min64(rows, (int64_t)(i + 1) * ROWS), 0, cols};
  const int64_t step[LINMAP_AXES] = {k->l->n[1] * rows * cols, rows * cols};
  (void)c;
  linmap_write(k->l, w, k->to + w.row * cols * k->l->size, step, cols);
}
const ndarray *expr_data(emodule *m, tid t) {
  tensor *x = xt(m, t);
  if (x->kind != TK_CONST || (!x->transform && !x->narrow.type)) return &x->data;
  if (x->narrow.type) {
    uint8_t *to = arena_alloc(m->a, x->data.bytes + 1);
    narrow_write(x->narrow.type, x->narrow.from.p, x->narrow.from.n, to);
    x->data.data = to, x->narrow = (narrow_bytes){0};
    return &x->data;
  }
  making k = {x->transform, arena_alloc(m->a, x->data.bytes)};
  par_for(m->c, ctx_cpus(m->c), (uint32_t)((linmap_rows(k.l) + ROWS - 1) / ROWS), make_rows, &k);
  x->data.data = k.to, x->transform = NULL;
  return &x->data;
}
tid expr_const_linmap(emodule *m, const ndarray *shape, const linmap *l, const char *name) {
  ndarray d = *shape;
  d.data = NULL;
  tid t = expr_const_tensor(m, &d, name);
  linmap *own = arena_dup(m->a, l, sizeof *l);
  for (int i = 0; i < LINMAP_AXES; i++)
    own->g[i] = arena_dup(m->a, l->g[i], (size_t)(l->n[i] * l->r[i]) * sizeof *l->g[i]);
  xt(m, t)->transform = own;
  return t;
}
