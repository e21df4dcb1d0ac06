/* When does a sliding window need fewer multiplications than it has taps?
 *
 * A sum of products over a window, Y[o] = sum[k<r] X[o + k] * W[k] per axis, computes m neighbouring outputs from n = m + r - 1 inputs as A' ((G W) . (B' X)): n products per axis instead of m*r
 * (Toom-Cook interpolation at n - 1 points and infinity; Winograd, "Arithmetic complexity of computations", 1980; Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016).
 * With a stride, Y[o] = sum[k<r] X[s*o + k] * W[k] is a sum of s such windows, one for each k mod s, of r/s taps: n is the sum of theirs.
 * Several axes nest. Where W is constant the stage becomes
 *     U[a.., batch, channels, columns]        constant: G W on every axis, in f64; made where it is wanted (linmap.c)
 *     V[a.., batch, rows, tiles, channels]    placement of pieces V[a..]: B' X, sums of few inputs; a tile for every m outputs of an axis
 *     M[a.., batch, rows, tiles, columns]     = sum[channels] V * U, ordinary products
 *     Y                                       placement of m pieces per axis: A' M
 * Uses the licence that sums of floats may be regrouped, further than reassociation does: F(4,3) on two axes errs by 2.4 times as much as the plain sum over 256 channels in f32, and n <= 6 keeps it there. By cost: products
 * against the sums, and the constants, which grow by (n/r) per axis and have to be read. Where m does not divide an axis the last tile reads on (what lies outside counts as 0) and its surplus outputs are left out.
 */
#include "expr/pass_const.h"
#include <math.h>
#include <string.h>

enum { MAX_AXES = LINMAP_AXES, MAX_N = 6, MAX_TILE = LINMAP_MOST }; /* MAX_N: of a window without a stride; MAX_TILE: the registers hold no wider tile */
/* Where polynomials of n coefficients are interpolated, infinity besides. Exact in binary; with sizes around 1 the error is less than half of that of 0, +-1, +-2 (measured on sums over 256 channels; the reasons stand in
 * Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution for deep neural networks", 2020). */
static const double interpolate[MAX_N + 1][MAX_N - 1] = {{0}, {0}, {0}, {0, 1}, {0, 1, -1}, {0, 0.5, -1, 1.5}, {0, 0.75, -0.75, 1.5, -1.5}};

/* One axis of the window. B' is n x n, G n x r, A' m x n. */
typedef struct window {
  atom o, k;
  uint32_t arg;          /* of X: index = stride*o + sign*k + rest */
  int64_t sign, stride;
  int64_t m, r, n;       /* m == 1: left alone */
  double terms;          /* in a row of B', or a column of A': that are not 0, the mean of both */
  int64_t at[MAX_TILE];  /* of a tile's inputs, behind its first one */
  double b[MAX_TILE][MAX_TILE], g[MAX_TILE][MAX_TILE], a[MAX_TILE][MAX_TILE];
} window;
typedef struct sliding {
  uint32_t s;
  ex x, w;                        /* the two loads */
  u32vec batch, row, col, reduce; /* without the window's own; reduce: variables that stay */
  uint32_t nw;
  window win[MAX_AXES];
} sliding;

/* Taps first, first + stride, ..: `taps` of them. Their inputs and products are the next ones of w. */
static void toom_cook(window *w, int64_t first, int64_t taps) {
  int64_t n = w->m + taps - 1, fin = n - 1, z = w->n;
  const double *points = interpolate[n];
  for (int64_t i = 0; i < n; i++) w->at[z + i] = first + i * w->stride;
  w->n += n;
  for (int64_t i = 0; i < n; i++) {
    double f = 1, p = 1, *b = &w->b[z + i][z];
    b[0] = 1; /* coefficients of prod (x - points[j]), j != i */
    for (int64_t j = 0, deg = 0; j < fin; j++) {
      if (j == i) continue;
      if (i < fin) f *= points[i] - points[j];
      for (int64_t d = ++deg; d >= 0; d--) b[d] = (d ? b[d - 1] : 0) - points[j] * (d < deg ? b[d] : 0);
    }
    if (i == fin) {
      w->g[z + i][first + (taps - 1) * w->stride] = w->a[w->m - 1][z + i] = 1;
      break;
    }
    for (int64_t k = 0; k < (taps > w->m ? taps : w->m); k++, p *= points[i]) {
      if (k < taps) w->g[z + i][first + k * w->stride] = EK_PLANTED("winograd") && i == 2 && k ? p : p / f;
      if (k < w->m) w->a[k][z + i] = p;
    }
  }
}
static int64_t taps_of(const window *w, int64_t first) { return (w->r - first + w->stride - 1) / w->stride; }
static int64_t products(const window *w, int64_t m) { /* of m outputs */
  int64_t n = 0;
  for (int64_t f = 0; f < w->stride && f < w->r; f++) n += m + taps_of(w, f) - 1;
  return n;
}
static void interpolation(window *w) {
  w->n = 0, w->terms = 0;
  memset(w->b, 0, sizeof w->b), memset(w->g, 0, sizeof w->g), memset(w->a, 0, sizeof w->a);
  for (int64_t f = 0; f < w->stride && f < w->r; f++) {
    if (taps_of(w, f) > 1) {
      toom_cook(w, f, taps_of(w, f));
      continue;
    }
    for (int64_t i = 0; i < w->m; i++, w->n++) w->at[w->n] = f + i * w->stride, w->b[w->n][w->n] = w->g[w->n][f] = w->a[i][w->n] = 1;
  }
  for (int64_t i = 0; i < w->n; i++)
    for (int64_t j = 0; j < w->n; j++) w->terms += ((w->b[i][j] != 0) + (w->a[i][j] != 0)) / (2.0 * (double)w->n);
}

/* ---- which sums ---- */
static bool only_here(pw *p, const ex_node *l, uint32_t arg, atom v) {
  for (uint32_t i = 0; i < l->nargs; i++)
    if (i != arg && sym_uses(p->c, l->args[i], v)) return false;
  return true;
}
static bool find_window(pw *p, const sliding *q, atom k, window *out) {
  ctx *c = p->c;
  ex_node l = *exn(p->m, q->x);
  int64_t s, r, stride;
  for (uint32_t i = 0; i < l.nargs; i++) {
    sz coef, rest, rest2;
    u32vec vs = {0};
    if (!sym_uses(c, l.args[i], k)) continue;
    if (!sym_linear(c, l.args[i], k, &coef, &rest) || !sym_is_int(c, coef, &s) || (s != 1 && s != -1) || !only_here(p, &l, i, k)) return false;
    if (!sym_is_int(c, sym_extent(c, k), &r) || r < 2) return false;
    sym_atoms(c, rest, AT_VAR, p->a, &vs);
    if (vs.n != 1 || sym_uses_kind(c, rest, AT_DATA) || !sym_linear(c, rest, vs.v[0], &coef, &rest2) || !sym_is_int(c, coef, &stride) || stride < 1 || !only_here(p, &l, i, vs.v[0])) return false;
    bool row = false;
    for (uint32_t j = 0; j < q->row.n; j++) row |= q->row.v[j] == vs.v[0];
    *out = (window){.o = vs.v[0], .k = k, .arg = i, .sign = s, .stride = stride, .m = 1, .r = r, .n = r};
    return row;
  }
  return false;
}
static bool take(u32vec *v, atom a) {
  for (uint32_t i = 0; i < v->n; i++)
    if (v->v[i] == a) {
      for (; i + 1 < v->n; i++) v->v[i] = v->v[i + 1];
      v->n--;
      return true;
    }
  return false;
}
static bool match(pw *p, uint32_t s, sliding *q) {
  emodule *m = p->m;
  roles r;
  *q = (sliding){.s = s};
  if (!stage_is_reduce(p, s) || xs(m, s)->scan || !expr_roles(m, s, p->a, &r)) return false;
  const ex_node *red = exn(m, r.red);
  if (!r.window || !r.two || !r.b_const || red->op != RED_SUM || red->where || r.a.n != 1 || r.b.n != 1 || r.none.n || r.red_one.n || !r.col.n) return false;
  if ((red->type != ET_F32 && red->type != ET_F64) || red->acc != red->type || exn(m, red->body)->type != red->type) return false;
  q->x = r.a.v[0], q->w = r.b.v[0];
  const ex_node *x = exn(m, q->x), *w = exn(m, q->w);
  if (whole_sum(p, r.red)) return false; /* exact as it is */
  if (x->kind != EX_LOAD || w->kind != EX_LOAD || w->otherwise || (x->otherwise && exn(m, x->otherwise)->kind != EX_CONST)) return false;
  for (uint32_t i = 0; i < x->nargs; i++)
    if (sym_uses_kind(p->c, x->args[i], AT_DATA)) return false;
  q->batch = r.batch, q->row = r.row, q->col = r.col;
  for (uint32_t i = 0; i < r.red_both.n; i++) {
    if (q->nw < MAX_AXES && find_window(p, q, r.red_both.v[i], &q->win[q->nw])) {
      take(&q->row, q->win[q->nw].o);
      q->nw++;
    } else
      vec_push(p->a, q->reduce, r.red_both.v[i]);
  }
  return q->nw && q->reduce.n;
}

/* ---- is it worth it? In multiply-adds of the products' kernel; a symbol counts as 1, so that the constants are not hidden by a batch that may be 1 ---- */
enum { VALUE_COST = 4, BYTE_COST = 5 };
static const double TERM_COST = 1.2, GAIN = 0.9; /* GAIN: what is not worth more code */
static double extent(pw *p, const u32vec *vs) {
  double r = 1;
  for (uint32_t i = 0; i < vs->n; i++) r *= (double)sym_int_or(p->c, sym_extent(p->c, vs->v[i]), 1);
  return r;
}
static double cost(pw *p, const sliding *q, window *const *win) {
  double rows = extent(p, &q->row), batch = extent(p, &q->batch), col = extent(p, &q->col), chan = extent(p, &q->reduce), taps = 1, outputs = 1, value = VALUE_COST;
  bool any = false;
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = win[i];
    any |= w->m > 1;
    rows *= (double)((sym_int_or(p->c, sym_extent(p->c, w->o), 1) + w->m - 1) / w->m), taps *= (double)w->n; /* a tap that stays is one more place of V */
    if (w->m > 1) outputs *= (double)w->n, value += TERM_COST * w->terms;
  }
  double narrow = !any && p->narrow && fmod(chan, 2) == 0 ? 0.5 : 1; /* left alone it may become one of bf16 */
  double macs = narrow * batch * rows * taps * col * chan, bytes = narrow * 4 * batch * taps * col * chan, sums = any ? batch * rows * (taps * chan + outputs * col) : 0;
  double compute = macs + value * sums, memory = BYTE_COST * bytes;
  return compute > memory ? compute + memory / 4 : memory + compute / 4; /* most of the shorter hides behind the longer */
}
static bool choose(pw *p, sliding *q) {
  enum { SIZES = 4 }; /* 1..4 outputs */
  window *all = NEWN(p->a, window, MAX_AXES * SIZES), *best[MAX_AXES] = {0}, *win[MAX_AXES] = {0};
  double least = 0;
  uint32_t ways = 1, nw = 0;
  for (uint32_t i = 0; i < q->nw; i++, ways *= SIZES)
    for (int64_t m = 1; m <= SIZES; m++) {
      window *w = &all[i * SIZES + m - 1];
      int64_t e;
      *w = q->win[i];
      if (m > 1 && (m + taps_of(w, 0) - 1 > MAX_N || products(w, m) > MAX_TILE || !sym_is_int(p->c, sym_extent(p->c, w->o), &e) || e <= m)) continue; /* its m stays 1 */
      w->m = m;
      if (m > 1) interpolation(w);
    }
  for (uint32_t t = 0; t < ways; t++) {
    for (uint32_t i = 0, z = t; i < q->nw; i++, z /= SIZES) win[i] = &all[i * SIZES + z % SIZES];
    double k = cost(p, q, win);
    if (t && k >= least) continue;
    least = t ? k : k * GAIN; /* the plain sum comes first */
    memcpy(best, win, sizeof best);
  }
  for (uint32_t i = 0; i < q->nw; i++) {
    if (best[i]->m > 1) {
      q->win[nw++] = *best[i];
      continue;
    }
    vec_push(p->a, q->row, best[i]->o); /* stays an ordinary sum */
    vec_push(p->a, q->reduce, best[i]->k);
  }
  return (q->nw = nw) > 0;
}

/* ---- U: the constants ---- */
static void push_all(pw *p, u32vec *to, const u32vec *from) {
  for (uint32_t i = 0; i < from->n; i++) vec_push(p->a, *to, from->v[i]);
}
/* The tensor U[a.., batch, reduce, col]; 0 if the load of W is not affine with known strides. */
static tid constants(pw *p, const sliding *q, const u32vec *vars) {
  emodule *m = p->m;
  ctx *c = p->c;
  ex_node l = *exn(m, q->w);
  const ndarray *wt = expr_data(m, l.tensor);
  const sz *shape = xt(m, l.tensor)->shape;
  linmap t = {.size = et_bytes(wt->type), .from = {wt->data, wt->bytes}};
  ndarray u = {.type = wt->type};
  sz at = sym_int(c, 0), coef;
  int64_t elems = 1;
  if (vars->n + q->nw > MAX_RANK) return 0;
  for (uint32_t i = 0; i < l.nargs; i++) {
    if (!in_range(c, l.args[i], shape[i])) return 0;
    at = sym_add(c, sym_mul(c, at, shape[i]), l.args[i]);
  }
  for (uint32_t i = 0; i < LINMAP_AXES; i++) t.n[i] = t.r[i] = 1, t.g[i][0][0] = 1;
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = &q->win[i];
    if (!sym_linear(c, at, w->k, &coef, &at) || !sym_is_int(c, coef, &t.tap[i])) return 0;
    if (w->sign < 0) at = sym_addi(c, at, (w->r - 1) * t.tap[i]), t.tap[i] = -t.tap[i];
    u.dims[u.rank++] = t.n[i] = w->n, t.r[i] = w->r;
    memcpy(t.g[i], w->g, sizeof w->g);
  }
  for (uint32_t i = 0; i < vars->n; i++) {
    uint32_t v = (uint32_t)t.nx++;
    if (!sym_is_int(c, sym_extent(c, vars->v[i]), &t.ext[v]) || !sym_linear(c, at, vars->v[i], &coef, &at) || !sym_is_int(c, coef, &t.step[v])) return 0;
    u.dims[u.rank++] = t.ext[v];
  }
  if (!sym_is_int(c, at, &t.base)) return 0;
  for (uint32_t i = 0; i < u.rank; i++)
    if (!mul64(elems, u.dims[i], &elems)) return 0;
  return expr_const_linmap(m, &u, &t, arena_fmt(m->a, "%s.transformed", xt(m, l.tensor)->name));
}

/* ---- V and Y: sums of few ---- */
typedef struct variables { /* of one new stage, and how the old ones are said in them */
  VEC(digit) d;
  VEC(atom) from;
  VEC(sz) to;
} variables;
static sz fresh(pw *p, variables *v, const char *name, sz ext) {
  sz x = sym_var(p->c, name, ext);
  digit d = {0, ext};
  if (sym_is_atom(p->c, x, &d.var)) vec_push(p->a, v->d, d);
  return x;
}
static void rename(pw *p, variables *v, const u32vec *old) {
  for (uint32_t i = 0; i < old->n; i++) {
    vec_push(p->a, v->from, old->v[i]);
    sz x = fresh(p, v, sym_name(p->c, old->v[i]), sym_extent(p->c, old->v[i]));
    vec_push(p->a, v->to, x);
  }
}
static sz said(const variables *v, atom old) {
  for (uint32_t i = 0; i < v->from.n; i++)
    if (v->from.v[i] == old) return v->to.v[i];
  return 0;
}
static sz tiles(pw *p, const window *w, int64_t j) { return (EK_PLANTED("winograd-edge") ? sym_div : sym_ceildiv)(p->c, sym_addi(p->c, sym_extent(p->c, w->o), -j), sym_int(p->c, w->m)); } /* that have a j-th output */
/* appends the index of a tile to the n values of idx: rows, then a number per axis of the window */
static uint32_t tile_index(const sliding *q, const variables *v, const sz *tile, sz *idx, uint32_t n) {
  for (uint32_t i = 0; i < q->row.n; i++) idx[n++] = said(v, q->row.v[i]);
  for (uint32_t i = 0; i < q->nw; i++) idx[n++] = tile[i];
  return n;
}
static void fresh_tiles(pw *p, const sliding *q, variables *v, sz *tile) {
  for (uint32_t i = 0; i < q->nw; i++) tile[i] = fresh(p, v, "tile", tiles(p, &q->win[i], 0));
}
static ex term(emodule *m, ex sum, double k, ex x) {
  etype t = (etype)exn(m, x)->type;
  if (k == 0) return sum;
  if (!sum) return k == 1 ? x : k == -1 ? expr_op1(m, OP_NEG, x) : expr_op2(m, OP_MUL, expr_f(m, t, k), x);
  if (k == 1) return expr_op2(m, OP_ADD, sum, x);
  if (k == -1) return expr_op2(m, OP_SUB, sum, x);
  ex f[3] = {expr_f(m, t, k), x, sum};
  return expr_op(m, OP_FMA, t, f, 3);
}
/* sum over the grid of c0[i] * c1[j] * value(i, j), inner sums first, the same ones for every outer row */
static ex weighted(emodule *m, const sliding *q, const double *c0, const double *c1, ex (*value)(void *, int64_t, int64_t), void *env) {
  ex sum = 0;
  for (int64_t j = 0; j < (q->nw > 1 ? q->win[1].n : 1); j++) {
    ex part = 0;
    if (q->nw > 1 && c1[j] == 0) continue;
    for (int64_t i = 0; i < q->win[0].n; i++)
      if (c0[i] != 0) part = term(m, part, c0[i], value(env, i, j));
    sum = term(m, sum, q->nw > 1 ? c1[j] : 1, part);
  }
  return sum;
}
typedef struct reading {
  pw *p;
  const sliding *q;
  const variables *v;
  sz tile[MAX_AXES];
  tid t;       /* M */
  bool beyond; /* the last tile may read outside */
} reading;
static ex read_x(void *env, int64_t i, int64_t j) {
  reading *r = env;
  ctx *c = r->p->c;
  ex_node l = *exn(r->p->m, r->q->x);
  sz *idx = NEWN(r->p->a, sz, l.nargs + 1);
  for (uint32_t a = 0; a < l.nargs; a++) {
    idx[a] = l.args[a];
    for (uint32_t w = 0; w < r->q->nw; w++) {
      const window *x = &r->q->win[w];
      if (x->arg != a) continue;
      idx[a] = sym_replace(c, idx[a], x->k, sym_int(c, x->sign < 0 ? x->r - 1 : 0));
      idx[a] = sym_addi(c, sym_replace(c, idx[a], x->o, sym_muli(c, r->tile[w], x->m)), x->at[w ? j : i]);
    }
    for (uint32_t k = 0; k < r->v->from.n; k++) idx[a] = sym_replace(c, idx[a], r->v->from.v[k], r->v->to.v[k]);
  }
  if (!l.otherwise && r->beyond) l.otherwise = expr_f(r->p->m, (etype)l.type, 0);
  return expr_load(r->p->m, l.tensor, idx, l.nargs, l.otherwise);
}
static ex read_m(void *env, int64_t i, int64_t j) {
  reading *r = env;
  ctx *c = r->p->c;
  const sliding *q = r->q;
  sz idx[2 * MAX_RANK];
  uint32_t n = 0;
  idx[n++] = sym_int(c, i);
  if (q->nw > 1) idx[n++] = sym_int(c, j);
  for (uint32_t k = 0; k < q->batch.n; k++) idx[n++] = said(r->v, q->batch.v[k]);
  n = tile_index(q, r->v, r->tile, idx, n);
  for (uint32_t k = 0; k < q->col.n; k++) idx[n++] = said(r->v, q->col.v[k]);
  return expr_load(r->p->m, r->t, idx, n, 0);
}
/* a placement's update by piece ns, whose digits are v's; idx over v's variables */
static update piece_update(pw *p, uint32_t ns, const variables *v, const sz *idx, uint32_t n) {
  emodule *m = p->m;
  update u = {.nvars = v->d.n, .nidx = n, .vars = NEWN(m->a, atom, v->d.n + 1), .idx = NEWN(m->a, sz, n + 1)};
  sz *at = NEWN(p->a, sz, v->d.n + 1);
  for (uint32_t i = 0; i < n; i++) u.idx[i] = idx[i];
  for (uint32_t k = 0; k < v->d.n; k++) {
    at[k] = sym_var(p->c, sym_name(p->c, v->d.v[k].var), v->d.v[k].extent);
    sym_is_atom(p->c, at[k], &u.vars[k]);
    for (uint32_t i = 0; i < n; i++) u.idx[i] = sym_replace(p->c, u.idx[i], v->d.v[k].var, at[k]);
  }
  u.value = expr_load(m, xs(m, ns)->tensor, at, v->d.n, 0);
  return u;
}
static uint32_t stage_over(pw *p, const sliding *q, const variables *v, ex value, const char *hint) { return pass_stage(p, q->s, v->d.v, v->d.n, value, hint); }

static bool rewrite(pw *p, sliding *q) {
  emodule *m = p->m;
  ctx *c = p->c;
  etype t = (etype)exn(m, xs(m, q->s)->value)->type;
  u32vec uv = {0};
  push_all(p, &uv, &q->batch), push_all(p, &uv, &q->reduce), push_all(p, &uv, &q->col);
  if (q->row.n + uv.n + 2 * q->nw > MAX_RANK || !pass_spend(p)) return false;
  tid u = constants(p, q, &uv);
  if (!u) return false;
  int64_t n0 = q->win[0].n, n1 = q->nw > 1 ? q->win[1].n : 1, m0 = q->win[0].m, m1 = q->nw > 1 ? q->win[1].m : 1;
  sz whole;
  bool beyond = false;
  for (uint32_t i = 0; i < q->nw; i++) beyond |= !sym_exact_div(c, sym_extent(c, q->win[i].o), sym_int(c, q->win[i].m), &whole);

  /* V: its axes stand in the order a.., batch, rows, tiles, channels */
  VEC(update) spread = {0};
  for (int64_t a = 0; a < n0; a++)
    for (int64_t b = 0; b < n1; b++) {
      variables v = {0};
      reading r = {.p = p, .q = q, .v = &v, .beyond = beyond};
      sz idx[2 * MAX_RANK];
      uint32_t n = 0;
      rename(p, &v, &q->batch), rename(p, &v, &q->row);
      fresh_tiles(p, q, &v, r.tile);
      rename(p, &v, &q->reduce);
      uint32_t ns = stage_over(p, q, &v, simplify(p, weighted(m, q, q->win[0].b[a], q->win[1].b[b], read_x, &r)), "spread");
      idx[n++] = sym_int(c, a);
      if (q->nw > 1) idx[n++] = sym_int(c, b);
      for (uint32_t k = 0; k < q->batch.n; k++) idx[n++] = said(&v, q->batch.v[k]);
      n = tile_index(q, &v, r.tile, idx, n);
      for (uint32_t k = 0; k < q->reduce.n; k++) idx[n++] = said(&v, q->reduce.v[k]);
      update up = piece_update(p, ns, &v, idx, n);
      vec_push(m->a, spread, up);
    }
  variables vv = {0};
  for (uint32_t i = 0; i < q->nw; i++) fresh(p, &vv, "a", sym_int(c, q->win[i].n));
  sz tile[MAX_AXES];
  rename(p, &vv, &q->batch), rename(p, &vv, &q->row);
  fresh_tiles(p, q, &vv, tile);
  rename(p, &vv, &q->reduce);
  uint32_t V = stage_over(p, q, &vv, expr_f(m, t, 0), "spread");
  xs(m, V)->value = 0, xs(m, V)->tiled = true;
  for (uint32_t i = 0; i < spread.n; i++) vec_push(m->a, xs(m, V)->updates, spread.v[i]);
  pass_changed(p, V);

  /* M */
  variables mv = {0};
  sz vi[2 * MAX_RANK], ui[2 * MAX_RANK];
  uint32_t nv = 0, nu = 0;
  for (uint32_t i = 0; i < q->nw; i++) vi[nv++] = ui[nu++] = fresh(p, &mv, "a", sym_int(c, q->win[i].n));
  for (uint32_t i = 0; i < q->batch.n; i++) vi[nv++] = ui[nu++] = fresh(p, &mv, sym_name(c, q->batch.v[i]), sym_extent(c, q->batch.v[i]));
  rename(p, &mv, &q->row);
  fresh_tiles(p, q, &mv, tile);
  nv = tile_index(q, &mv, tile, vi, nv);
  atom *red = NEWN(p->a, atom, q->reduce.n + 1);
  uint32_t nr = 0;
  for (uint32_t i = 0; i < q->reduce.n; i++) {
    sz x = sym_var(c, sym_name(c, q->reduce.v[i]), sym_extent(c, q->reduce.v[i]));
    if (sym_is_atom(c, x, &red[nr])) nr++;
    vi[nv++] = ui[nu++] = x;
  }
  for (uint32_t i = 0; i < q->col.n; i++) ui[nu++] = fresh(p, &mv, sym_name(c, q->col.v[i]), sym_extent(c, q->col.v[i]));
  ex prod = expr_op2(m, OP_MUL, expr_load(m, xs(m, V)->tensor, vi, nv, 0), expr_load(m, u, ui, nu, 0));
  uint32_t M = stage_over(p, q, &mv, expr_reduce(m, RED_SUM, red, nr, 0, prod, 0, t, t), "products");
  map_putu(p->exact, M, 1);

  /* Y */
  stage *y = xs(m, q->s);
  uint32_t nd = expr_ndigits(y);
  digit *d = NEWN(p->a, digit, nd + 1);
  expr_digits(y, d);
  y->value = 0, y->tiled = true;
  for (int64_t a = 0; a < m0; a++)
    for (int64_t b = 0; b < m1; b++) {
      variables v = {0};
      reading r = {.p = p, .q = q, .v = &v, .t = xs(m, M)->tensor};
      sz idx[2 * MAX_RANK];
      for (uint32_t i = 0; i < nd; i++) { /* in the order of Y's digits */
        uint32_t w = 0;
        while (w < q->nw && q->win[w].o != d[i].var) w++;
        vec_push(p->a, v.from, d[i].var);
        sz x = fresh(p, &v, sym_name(c, d[i].var), w < q->nw ? tiles(p, &q->win[w], w ? b : a) : d[i].extent);
        if (w < q->nw) {
          r.tile[w] = x;
          x = sym_addi(c, sym_muli(c, x, q->win[w].m), w ? b : a);
        }
        vec_push(p->a, v.to, x);
      }
      uint32_t ns = stage_over(p, q, &v, simplify(p, weighted(m, q, q->win[0].a[a], q->win[1].a[b], read_m, &r)), "gather");
      y = xs(m, q->s);
      for (uint32_t x = 0, i = 0; x < y->naxes; x++) {
        idx[x] = sym_int(c, 0);
        for (uint32_t j = 0; j < y->axes[x].n; j++, i++) idx[x] = sym_add(c, sym_mul(c, idx[x], y->axes[x].d[j].extent), v.to.v[i]);
      }
      update up = piece_update(p, ns, &v, idx, y->naxes);
      vec_push(m->a, xs(m, q->s)->updates, up);
    }
  pass_changed(p, q->s);
  return true;
}
bool pass_winograd(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    sliding q;
    if (match(p, order.v[i], &q) && choose(p, &q)) any |= rewrite(p, &q);
  }
  if (any) pass_flush(p);
  return any;
}
