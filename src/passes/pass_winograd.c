/* When does a sliding window need fewer multiplications than it has taps?
 *
 * A sum of products over a window, Y[o] = sum[k<r] X[o + k] * W[k] per axis, computes m neighbouring outputs as
 * A' ((G W) . (B' X)) with fewer products than m*r; by which ones says bilinear.c. Several axes nest.
 * The stage becomes
 *     U[a.., parts.., batch, channels, columns]     G W on every axis. Of constants a constant, in f64; made where it
 *     is wanted (linmap.c)
 *     V[a.., batch, rows, tiles, channels]          placement of pieces V[a..]: B' X, sums of few inputs; a tile
 *     for every m outputs of an axis
 *     M[a.., batch, rows, tiles, columns]           = sum[parts, channels] V * U, ordinary products
 *     Y                                             placement of m pieces per axis: A' M
 * Where only a run knows W, as in a step of training, U is a placement of pieces like V, of which each is a sum over
 * the taps, and only forms of few taps on a line are taken. Of the gradient of W the taps are the places of a picture.
 * Sums of products of i16 in i32 take the forms of whole numbers (bilinear.c): V and U are i16, M and Y i32. U is a
 * power of two times too large, and Y is shifted; sums that wrap on the way are right at the end, since Y fits.
 * With `phases` (bilinear.c) X[.., stride*place + phase, .., channel] is made first, as X'[.., place, .., phase and
 * channel], which has no stride and more channels. The constants of one axis may stay taps, r instead of n of them, and
 * each factor be made of these where it is multiplied: `a` of that axis then chooses among formulas, and a tile has all
 * of its products for several places. Half of the constants need not come from far; places are counted by one variable,
 * so that tiles hold enough of them. Small forms transform all axes at once. Large ones go axis by axis, with a
 * placement after each: T[a0, .., tiles0, places1, ..], V; M; S[a0, .., tiles0, outputs1, ..], Y. Uses the licence that
 * sums of floats may be regrouped, further than reassociation does: by how much each form magnifies the error says
 * bilinear.c, by how much it may in a module growth.c. By cost: products against the sums, and the constants, which
 * grow by (n/r) per axis and have to be read. Where m does not divide an axis the last tile reads on (what lies outside
 * counts as 0) and its surplus outputs are left out; so are, of few tiles, the products that only serve the last
 * output: of the first axis they are a stage of their own, of kept taps see schedule/idle.c.
 */
#include "cost/cost.h"
#include "passes/bilinear.h"
#include "passes/growth.h"
#include "passes/interval.h"
#include "passes/passes.h"
#include "fusion/fusion.h"
#include "passes/pass_const.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_AXES = LINMAP_AXES,
  MAX_SPACING = 1 << 16,
  MOST_COMPUTED_TAPS = 7 /* of an axis whose factors are computed in each run: each is a sum over all taps */
};
typedef struct sliding {
  uint32_t s;    /* the stage */
  ex x;          /* load of the tensor */
  ex w;          /* load of the factors */
  bool constant; /* they are constants; else G W is computed in each run */
  bool whole;    /* products of i16, added up in i32 */
  double most_x; /* whole: the largest magnitude in the tensor */
  double most_w; /* whole: the same in the constant */
  double most;   /* whole: the largest magnitude of the sum */
  u32vec batch;  /* output variables of both loads, without the window's own */
  u32vec row;    /* output variables of x alone, without the window's own */
  u32vec col;    /* output variables of w alone */
  u32vec reduce; /* variables of the sum that stay */
  /* with phases: these, and what reduce was. The sum is over all of them as one variable */
  u32vec channels;
  /* windows; those that are transformed, first. The products sum over the taps of the others in V as the sum did in
   * X */
  uint32_t nw, nt;
  window win[MAX_AXES];    /* the windows */
  window *form[MAX_AXES];  /* forms that choose took, by the number that each axis had before */
  bool by_axis;            /* axis by axis */
  bool flat;               /* taps of the last axis are kept: tiles of all axes are counted by one variable */
  bool alone[MAX_AXES];    /* an axis that is one tile */
  int64_t begin[MAX_AXES]; /* by axis: the index of X that output 0 reads first */
} sliding;

/* ---- which sums ------------------------------------------------------------------------------ */
static bool only_here(pw *p, const ex_node *l, uint32_t arg, atom v) {
  for (uint32_t i = 0; i < l->nargs; i++)
    if (i != arg && sym_uses(p->c, l->args[i], v)) return false;
  return true;
}
/* Taps with a spacing, X[spacing*(stride*o + k) + others], are a window of neighbours for each value of the others.
 * *split: there are none, but o = spacing*o1 + o0 would make them; 0: it would not. */
static bool find_window(pw *p, const sliding *q, atom k, window *out, atom *split) {
  ctx *c = p->c;
  ex_node l = *exn(p->m, q->x);
  int64_t s, r, by;
  *split = 0;
  for (uint32_t i = 0; i < l.nargs; i++) {
    sz coef, rest, rest2;
    u32vec vs = {0};
    if (!sym_uses(c, l.args[i], k)) continue;
    if (!sym_linear(c, l.args[i], k, &coef, &rest) || !sym_is_int(c, coef, &s) || !s || s < -MAX_SPACING ||
        s > MAX_SPACING || !only_here(p, &l, i, k))
      return false;
    if (!sym_is_int(c, sym_extent(c, k), &r) || r < 2 || sym_uses_kind(c, rest, AT_DATA)) return false;
    *out = (window){.k = k,
                    .arg = i,
                    .sign = s < 0 ? -1 : 1,
                    .spacing = llabs(s),
                    .taps = r,
                    .phases = 1,
                    .parts = 1,
                    .r = r,
                    .m = 1,
                    .n = r,
                    .growth = 1};
    sym_atoms(c, rest, AT_VAR, p->a, &vs);
    for (uint32_t j = 0; j < vs.n; j++) {
      bool row = false;
      for (uint32_t z = 0; z < q->row.n; z++) row |= q->row.v[z] == vs.v[j];
      if (!row || !sym_linear(c, rest, vs.v[j], &coef, &rest2) || !sym_is_int(c, coef, &by) || by < 1 ||
          !only_here(p, &l, i, vs.v[j]) || (out->o && by % out->spacing == 0))
        return false;
      if (by % out->spacing == 0) out->o = vs.v[j], out->stride = by / out->spacing;
    }
    if (!out->o && vs.n == 1 && can_split(p, q->s, vs.v[0], sym_int(c, out->spacing))) *split = vs.v[0];
    return out->o && (vs.n == 1 || out->spacing > 1);
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
/* The greatest magnitude of a load of i16, behind conversions; false: it is none. */
static bool whole_load(pw *p, ex *load, double *most) {
  const ex_node *n = exn(p->m, *load);
  for (; n->kind == EX_OP && n->op == OP_CAST; n = exn(p->m, *load)) *load = n->args[0];
  if (n->kind != EX_LOAD || n->type != ET_I16) return false;
  const interval v = interval_of(p, *load);
  *most = fmax(fabs(v.lo), fabs(v.hi));
  return v.known && v.whole;
}
/* Is it a sum of products of i16 in i32, which an instruction of the target computes? */
static bool match_whole(pw *p, const ex_node *red, sliding *q) {
  double points = 1;
  if (red->type != ET_I32 || !target_products(p->t, ET_I32, ET_I16, ET_I16) || !whole_load(p, &q->x, &q->most_x) ||
      !whole_load(p, &q->w, &q->most_w))
    return false;
  for (uint32_t i = 0; i < red->nargs; i++)
    points *= (double)sym_int_or(p->c, sym_extent(p->c, red->args[i]), INT64_MAX);
  q->most = points * q->most_x * q->most_w;
  return q->whole = true;
}
/* Does an index of operand A combine variables of rows and of the sum? */
static bool slides(pw *p, const roles *r) {
  const ex_node *x = exn(p->m, r->a.v[0]);
  bool any = false;
  for (uint32_t i = 0; i < x->nargs && x->kind == EX_LOAD; i++)
    for (uint32_t k = 0; k < r->red_both.n; k++)
      for (uint32_t j = 0; j < r->row.n; j++)
        any |= sym_uses(p->c, x->args[i], r->red_both.v[k]) && sym_uses(p->c, x->args[i], r->row.v[j]);
  return any;
}
static void swap_operands(roles *r) {
  const u32vec a = r->a, row = r->row;
  r->a = r->b, r->row = r->col;
  r->b = a, r->col = row;
}
static bool match(pw *p, uint32_t s, sliding *q, atom *split, int64_t *by) {
  emodule *m = p->m;
  roles r;
  *split = 0;
  *q = (sliding){.s = s};
  if (!stage_is_reduce(p, s) || xs(m, s)->recurrence || !expr_roles(m, s, p->a, &r)) return false;
  const ex_node *red = exn(m, r.red);
  if (!r.window || !r.two || red->op != RED_SUM || red->where || r.a.n != 1 || r.b.n != 1 || r.none.n || r.red_one.n ||
      !(r.col.n + r.batch.n))
    return false;
  if (red->acc != red->type || exn(m, red->body)->type != red->type) return false;
  if (!r.b_const && !slides(p, &r)) swap_operands(&r);
  q->x = r.a.v[0], q->w = r.b.v[0], q->constant = r.b_const;
  if (red->type != ET_F32 && red->type != ET_F64 ? !match_whole(p, red, q) : p->strict) return false;
  const ex_node *x = exn(m, q->x), *w = exn(m, q->w);
  if (!q->whole && whole_sum(p, r.red)) return false; /* a sum of whole numbers is exact as it is */
  if (x->kind != EX_LOAD || w->kind != EX_LOAD || w->otherwise || (q->whole && !q->constant) ||
      (x->otherwise && exn(m, x->otherwise)->kind != EX_CONST))
    return false;
  if (expr_by_data(m, x) || expr_by_data(m, w)) return false;
  q->batch = r.batch, q->row = r.row, q->col = r.col;
  for (uint32_t i = 0; i < r.red_both.n; i++) {
    atom o = 0;
    if (q->nw < MAX_AXES && find_window(p, q, r.red_both.v[i], &q->win[q->nw], &o) &&
        (q->constant || q->win[q->nw].taps <= MOST_COMPUTED_TAPS)) {
      take(&q->row, q->win[q->nw].o);
      q->nw++;
    } else
      vec_push(p->a, q->reduce, r.red_both.v[i]);
    if (o) *split = o, *by = q->win[q->nw].spacing;
  }
  return q->nw > 0;
}

/* ---- is it worth it? An open size counts as twice the least it may be, and 1 if that is 1, so that the constants are
 * not hidden by a batch that may be 1; or, to see whether that would be otherwise, as many ---- */
static double extent(pw *p, const u32vec *vs) {
  double r = 1;
  for (uint32_t i = 0; i < vs->n; i++) {
    int64_t lo, hi;
    sym_range(p->c, sym_extent(p->c, vs->v[i]), &lo, &hi);
    if (lo < hi && p->assume_variant_rows) lo = max64(lo, EXPR_VARIANT_ROWS);
    r *= (double)(lo < hi && lo > 1 ? min64(2 * lo, hi) : max64(lo, 1));
  }
  return r;
}
enum {
  LENGTHS =
      2 /* lengths of an open axis that are tried, the typical one and the next: no form may be bad for one of them */
};
static int64_t outputs(pw *p, const window *w, int64_t longer) {
  sz n = sym_extent(p->c, w->o);
  return expr_typical(p->m, n) + (sym_is_int(p->c, n, NULL) ? 0 : longer);
}
/* Operations for a product's part in A'. Of an open axis each output is a stage of its own, over as many tiles as have
 * it: what several of them share is computed for each. */
static double terms_out(pw *p, const window *w) {
  return sym_is_int(p->c, sym_extent(p->c, w->o), NULL) ? w->out : fmax(w->out, (double)w->m);
}
/* Vectors of f32 lanes whose multiply-adds start in a cycle. */
static uint32_t multiply_adds(pw *p, const sliding *q) {
  if (!q->whole) return p->fma;
  return (uint32_t)fmax(1, instruction_speed(target_products(p->t, ET_I32, ET_I16, ET_I16)) / p->lanes);
}
/* The product of a form as cost/bilinear.c sees it, where open axes are so many times longer than typical. */
static bilinear_product product_of(pw *p, const sliding *q, bool steps, window *const *win, int64_t longer,
                                   bilinear_axis *axes) {
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = win[i];
    axes[i] = (bilinear_axis){.outputs = (double)outputs(p, w, longer),
                              .m = (double)w->m,
                              .n = (double)w->n,
                              .r = (double)w->r,
                              .taps = (double)w->taps,
                              .stride = (double)w->stride,
                              .phases = (double)w->phases,
                              .parts = (double)w->parts,
                              .in = w->in,
                              .out = w->out,
                              .out_each = terms_out(p, w),
                              .circle = w->circle > 0,
                              .keeps = w->scale != NULL};
  }
  return (bilinear_product){.rows = extent(p, &q->row),
                            .batch = extent(p, &q->batch),
                            .columns = extent(p, &q->col),
                            .channels = extent(p, &q->reduce),
                            .has_columns = q->col.n > 0,
                            .by_axis = steps,
                            .narrow = p->narrow == ET_BF16 && p->pairs_faster,
                            .computed = !q->constant,
                            .lanes = p->lanes,
                            .fma = multiply_adds(p, q),
                            .registers = p->registers,
                            .axes = q->nw,
                            .axis = axes};
}
static double cost(pw *p, const sliding *q, bool steps, window *const *win) {
  bilinear_axis axes[MAX_AXES];
  const bilinear_product product = product_of(p, q, steps, win, 0, axes);
  return cost_bilinear(p->t, &product);
}
enum {
  FORMS = 64,
  MOST_OUTPUTS = 7 /* on a line */,
  MAX_PARTS = 16 /* parts of a long row of taps */
};
/* The form of m outputs on a line, its taps kept or not: tables that few numbers decide are made once. */
static bool line_form(pw *p, window *w, int64_t m, bool kept) {
  const int64_t key[] = {w->taps, w->stride, w->phases, w->lead, w->r, m, kept};
  uint64_t at;
  if (!map_get(p->line_forms, key, sizeof key, &at)) {
    window *own = NEW(p->a, window);
    *own = *w;
    if (!bilinear_line(own, m, p->a) || (kept && !bilinear_keep_taps(own, p->a))) own = NULL;
    map_put(p->line_forms, key, sizeof key, at = (uint64_t)(uintptr_t)own);
  }
  if (!at) return false;
  const window plain = *w;
  *w = *(const window *)(uintptr_t)at;
  w->o = plain.o, w->k = plain.k, w->arg = plain.arg, w->sign = plain.sign, w->spacing = plain.spacing;
  return true;
}
/* Keeps its taps, where a tile's rows are places of one picture, enough of them. */
static bool may_keep(pw *p, const sliding *q, window *w, int64_t m) {
  return q->constant && p->lanes > 1 && !q->row.n &&
         cost_places_together(p->registers, (double)w->n) >= MIN_SHARED_PLACES && line_form(p, w, m, true);
}
/* The forms of one axis, the plain sum first. */
static uint32_t forms(pw *p, const sliding *q, const window *plain, bool steps, window *out) {
  static const int64_t circles[] = {8, 12, 16, 20, 24, 32, 40, 48, 64};
  uint32_t n = 1;
  int64_t e;
  out[0] = *plain;
  e = outputs(p, plain, LENGTHS - 1);
  if (e < 2) return n;
  for (int64_t m = 2; m <= MOST_OUTPUTS && q->reduce.n && q->col.n; m++) {
    for (int shared = 0; shared < (steps && plain->stride > 1 ? 2 : 1); shared++) {
      window form = *plain;
      if (shared) form.phases = plain->stride, form.r = (plain->taps + plain->lead + plain->stride - 1) / plain->stride;
      for (int kept = 0; kept < 2 && e >= m; kept++) {
        out[n] = form;
        if (line_form(p, &out[n], m, false) && (!q->whole || (out[n].whole && !kept)) &&
            (!kept || may_keep(p, q, &out[n], m)))
          n++;
      }
    }
  }
  for (uint32_t i = 0; i < sizeof circles / sizeof *circles && steps; i++)
    for (int64_t parts = 1; parts <= MAX_PARTS && n < FORMS; parts++) {
      int64_t each = parts > 1 ? (plain->taps + parts - 1) / parts : plain->taps,
              m = parts > 1 ? each : circles[i] - (each + plain->stride - 1) / plain->stride + 1;
      if (m < 2 || (parts > 1 && i && 2 * m - 1 <= circles[i - 1])) continue; /* a smaller circle would do */
      if (parts == 1) m = (e + (e + m - 1) / m - 1) / ((e + m - 1) / m);      /* tiles of equal size */
      out[n] = *plain;
      if (e > m && bilinear_circle(&out[n], m, parts, circles[i], p->a)) n++;
    }
  return n;
}
/* Can the window's axes be transformed one after the other? Places outside X must count as 0. */
static bool by_axis(pw *p, sliding *q) {
  ctx *c = p->c;
  const ex_node *x = exn(p->m, q->x);
  double v;
  if (q->whole || !q->constant) return false;
  if (x->otherwise && !(exn(p->m, x->otherwise)->kind == EX_CONST && (v = exn(p->m, x->otherwise)->k.f, v == 0)))
    return false;
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = &q->win[i];
    sz at = sym_replace(c, sym_replace(c, x->args[w->arg], w->k, sym_int(c, w->sign < 0 ? w->taps - 1 : 0)), w->o,
                        sym_int(c, 0));
    for (uint32_t j = 0; j < i; j++)
      if (q->win[j].arg == w->arg) return false;
    if (w->spacing > 1 || !sym_is_int(c, at, &q->begin[i])) return false;
  }
  return true;
}
/* Products of which none are added up are not worth their way through memory. */
static bool sums_left(const sliding *q, window *const *win) {
  bool left = q->reduce.n > 0;
  for (uint32_t i = 0; i < q->nw; i++) left |= win[i]->m == 1 || win[i]->parts > 1;
  return left;
}
/* Do whole numbers fit their types in these forms? Products and their sums may wrap in i32, results may not. */
static bool whole_fits(const sliding *q, window *const *win) {
  double x = q->most_x, w = q->most_w, y = q->most;
  for (uint32_t i = 0; i < q->nw; i++)
    if (win[i]->m > 1) x *= win[i]->most_in, w *= win[i]->most_g, y *= (double)win[i]->whole;
  return x <= INT16_MAX && w <= INT16_MAX && y < 0x1p31;
}
static void push_all(pw *p, u32vec *to, const u32vec *from) {
  for (uint32_t i = 0; i < from->n; i++) vec_push(p->a, *to, from->v[i]);
}
/* A form for each axis: the cheapest ones; of those for open axes the ones that cost least more than what would be
 * the cheapest for some length. */
static bool choose(pw *p, sliding *q) {
  window *all[MAX_AXES], *best[MAX_AXES] = {0}, *win[MAX_AXES] = {0};
  uint32_t n[MAX_AXES], ways = 1, nw = 0, lengths = 1;
  double least[LENGTHS], worst = INFINITY;
  bool steps = by_axis(p, q);
  int64_t begin[MAX_AXES];
  const double most = most_growth(p, q->s, q->constant);
  memcpy(begin, q->begin, sizeof begin);
  for (uint32_t i = 0; i < q->nw; i++) {
    all[i] = NEWN(p->a, window, FORMS + 4);
    if (steps) q->win[i].lead = floormod64(begin[i], q->win[i].stride);
    ways *= n[i] = forms(p, q, &q->win[i], steps, all[i]);
    if (!sym_is_int(p->c, sym_extent(p->c, q->win[i].o), NULL)) lengths = LENGTHS;
  }
  double *costs = NEWN(p->a, double, ways *lengths);
  for (uint32_t t = 0; t < ways; t++) {
    bool line = false, circle = false, phases = false, none = false;
    uint32_t kept = 0, plain = 0;
    int64_t taps = 1;
    double growth = 1;
    for (uint32_t i = 0, z = t; i < q->nw; z /= n[i++]) {
      win[i] = &all[i][z % n[i]];
      line |= win[i]->m > 1 && !win[i]->circle, circle |= win[i]->circle > 0;
      phases |= win[i]->phases > 1, none |= win[i]->phases == 1;
      if (win[i]->m > 1) taps *= win[i]->r;
      kept += win[i]->scale != NULL, plain += win[i]->m == 1;
      growth *= win[i]->growth;
    }
    if ((line && !q->whole && growth > most) || (line && circle) || (phases && none) || kept > 1 || (kept && plain) ||
        taps > LINMAP_TAPS || (t && !sums_left(q, win)) || (t && q->whole && !whole_fits(q, win)))
      continue;
    for (uint32_t s = 0; s < lengths; s++) {
      double *k = &costs[t * lengths + s]; /* the plain sum comes first */
      bilinear_axis axes[MAX_AXES];
      const bilinear_product product = product_of(p, q, steps, win, s, axes);
      *k = cost_bilinear_compared(p->t, &product, t == 0);
      if (!t || *k < least[s]) least[s] = *k;
    }
  }
  for (uint32_t t = 0; t < ways; t++) {
    double more = 0;
    for (uint32_t s = 0; s < lengths; s++)
      more = fmax(more, costs[t * lengths + s] > 0 ? costs[t * lengths + s] / least[s] : INFINITY);
    if (more >= worst) continue;
    worst = more;
    for (uint32_t i = 0, z = t; i < q->nw; z /= n[i++]) best[i] = &all[i][z % n[i]];
  }
  memcpy(q->form, best, sizeof q->form);
  q->by_axis = false;
  for (int kept = 0; kept < 2; kept++) /* the axis whose taps are kept comes last */
    for (uint32_t i = 0; i < q->nw; i++)
      if (best[i]->m > 1 && (best[i]->scale != NULL) == kept) {
        q->by_axis |= best[i]->circle > 0;
        q->begin[q->nt] = begin[i];
        q->win[q->nt++] = *best[i];
      }
  if (q->nt && q->win[0].phases > 1) {
    for (uint32_t i = 0; i < q->nt; i++) {
      atom x;
      if (sym_is_atom(p->c, sym_var(p->c, "phase", sym_int(p->c, q->win[i].phases)), &x))
        vec_push(p->a, q->channels, x);
    }
    push_all(p, &q->channels, &q->reduce);
  }
  nw = q->nt;
  for (uint32_t i = 0; i < q->nw; i++) {
    if (best[i]->m > 1) continue;
    if (steps) {
      q->begin[nw] = begin[i];
      q->win[nw++] = *best[i];
      continue;
    }
    vec_push(p->a, q->row, best[i]->o); /* this axis stays an ordinary sum */
    vec_push(p->a, q->reduce, best[i]->k);
  }
  q->nw = nw;
  q->flat = q->nt && q->win[q->nt - 1].scale;
  return q->nt > 0;
}

/* ---- U: the constants ------------------------------------------------------------------------ */
static atom phase_of(const sliding *q, uint32_t axis) { return q->channels.v[axis]; }
static const double *diagonal(pw *p, const double *x, int64_t n) {
  double *d = NEWN(p->a, double, n *n);
  for (int64_t i = 0; i < n; i++) d[i * n + i] = x[i];
  return d;
}
/* A map of whole numbers is computed now: as one of f32, which holds them, some rows at a time. */
static tid whole_constants(pw *p, const ndarray *u, const ndarray *w, linmap *t, const char *name) {
  enum { ROWS = 64 };
  arena *a = arena_new(p->c);
  int64_t n = 1, taps;
  ndarray d = *u, from = *w;
  (void)nd_count(&from, &taps);
  for (uint32_t i = 0; i < u->rank; i++) n *= u->dims[i];
  float *source = NEWN(a, float, taps + 1);
  for (int64_t i = 0; i < taps; i++) source[i] = (float)((const int16_t *)w->data)[i];
  t->size = sizeof(float), t->from = (bytes){(const uint8_t *)source, (size_t)taps * sizeof(float)};
  const int64_t rows = linmap_rows(t), cols = linmap_cols(t), places = linmap_places(t);
  int16_t *to = arena_alloc(p->m->a, (size_t)n * sizeof *to + 1);
  float *some = NEWN(a, float, places *cols *min64(rows, ROWS) + 1);
  for (int64_t r = 0; r < rows; r += ROWS) {
    const int64_t last = min64(rows, r + ROWS), each = (last - r) * cols;
    const int64_t step[LINMAP_AXES] = {t->n[1] * each, each};
    linmap_write(t, (linmap_piece){r, last, 0, cols}, (uint8_t *)some, step, cols);
    for (int64_t i = 0; i < places; i++)
      for (int64_t k = 0; k < each; k++) to[(i * rows + r) * cols + k] = (int16_t)some[i * each + k];
  }
  arena_free(a);
  d.type = ET_I16, d.data = to, d.bytes = (size_t)n * sizeof *to;
  return expr_const_tensor(p->m, &d, name);
}
static const double *times(pw *p, const double *g, int64_t n, double by) {
  double *r = NEWN(p->a, double, n + 1);
  for (int64_t i = 0; i < n; i++) r[i] = g[i] * by;
  return r;
}
/* The tensor U[a.., parts.., batch, reduce, col]; 0 if the load of W is not affine with known strides. */
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
  if (vars->n + 2 * q->nt > MAX_RANK) return 0;
  for (uint32_t i = 0; i < l.nargs; i++) {
    if (!in_range(c, l.args[i], shape[i])) return 0;
    at = sym_add(c, sym_mul(c, at, shape[i]), l.args[i]);
  }
  static const double one = 1;
  for (uint32_t i = 0; i < LINMAP_AXES; i++) t.n[i] = t.r[i] = 1, t.g[i] = &one;
  for (uint32_t i = 0; i < q->nt; i++) {
    const window *w = &q->win[i];
    if (!sym_linear(c, at, w->k, &coef, &at) || !sym_is_int(c, coef, &t.tap[i])) return 0;
    if (w->sign < 0) at = sym_addi(c, at, (w->taps - 1) * t.tap[i]), t.tap[i] = -t.tap[i];
    if (w->phases > 1)
      at = sym_add(c, at, sym_muli(c, sym_of_atom(c, phase_of(q, i)), t.tap[i])), t.tap[i] *= w->phases;
    u.dims[u.rank++] = t.n[i] = w->scale ? w->r : w->n, t.r[i] = w->r, t.g[i] = w->g;
    if (w->scale) t.g[i] = diagonal(p, w->scale, w->r);
    if (q->whole) t.g[i] = times(p, w->g, w->n * w->r, (double)w->whole);
  }
  for (uint32_t i = 0; i < q->nt; i++) {
    const window *w = &q->win[i];
    if (w->parts == 1) continue;
    t.all[i] = w->taps, t.part[i] = t.nx, t.begin[i] = w->r, t.spacing[i] = 1;
    u.dims[u.rank++] = t.ext[t.nx] = w->parts, t.step[t.nx++] = w->r * t.tap[i];
  }
  for (uint32_t i = 0; i < vars->n; i++) {
    uint32_t v = (uint32_t)t.nx++;
    if (!sym_is_int(c, sym_extent(c, vars->v[i]), &t.ext[v]) || !sym_linear(c, at, vars->v[i], &coef, &at) ||
        !sym_is_int(c, coef, &t.step[v]))
      return 0;
    if (i > q->batch.n && i < q->batch.n + q->channels.n)
      u.dims[u.rank - 1] *= t.ext[v];
    else
      u.dims[u.rank++] = t.ext[v];
    for (uint32_t j = 0; j < q->nt; j++)
      if (q->channels.n && phase_of(q, j) == vars->v[i])
        t.all[j] = q->win[j].taps, t.part[j] = v, t.begin[j] = 1, t.lead[j] = q->win[j].lead,
        t.spacing[j] = q->win[j].phases;
  }
  if (!sym_is_int(c, at, &t.base)) return 0;
  for (uint32_t i = 0; i < u.rank; i++)
    if (!mul64(elems, u.dims[i], &elems)) return 0;
  const char *name = arena_fmt(m->a, "%s.transformed", xt(m, l.tensor)->name);
  return q->whole ? whole_constants(p, &u, wt, &t, name) : expr_const_linmap(m, &u, &t, name);
}

/* ---- V and Y: sums of few -------------------------------------------------------------------- */
typedef struct variables { /* variables of one new stage, and what the old ones are in them */
  VEC(digit) d;            /* digits of the new stage */
  VEC(atom) from;          /* old variables */
  VEC(sz) to;              /* what stands for each in the new stage */
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
static sz extents(pw *p, const u32vec *vs) {
  sz n = sym_int(p->c, 1);
  for (uint32_t i = 0; i < vs->n; i++) n = sym_mul(p->c, n, sym_extent(p->c, vs->v[i]));
  return n;
}
static sz tiles(pw *p, const window *w, int64_t j) {
  return (EK_PLANTED("winograd-edge") ? sym_div : sym_ceildiv)(p->c, sym_addi(p->c, sym_extent(p->c, w->o), -j),
                                                               sym_int(p->c, w->m));
} /* tiles that have a j-th output */
/* tiles that V has */
static sz all_tiles(pw *p, const window *w) { return sym_addi(p->c, tiles(p, w, 0), w->parts - 1); }
static sz whole_tiles(pw *p, const window *w) {
  return sym_div(p->c, sym_extent(p->c, w->o), sym_int(p->c, w->m));
} /* tiles of which no output is missing */
/* How places are said in the tensors between X and Y: products a.. of the axes before `done`, batch, rows, then per
 * axis a tile, or (from `done` on) a place of X or an output; then channels or columns. An axis of one tile is none.
 * The batch comes last where there are no columns, since neighbours are computed side by side. */
static uint32_t index_of(pw *p, const sliding *q, const variables *v, const sz *a, uint32_t done, const sz *place,
                         const u32vec *last, sz *idx) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < done; i++) idx[n++] = a[i];
  for (uint32_t i = 0; i < q->batch.n && q->col.n; i++) idx[n++] = said(v, q->batch.v[i]);
  for (uint32_t i = 0; i < q->row.n; i++) idx[n++] = said(v, q->row.v[i]);
  sz tile = sym_int(p->c, 0);
  bool flat = q->flat && done, any = false;
  for (uint32_t i = 0; i < q->nw; i++) {
    if (flat)
      tile = sym_add(p->c, sym_mul(p->c, tile, all_tiles(p, &q->win[i])), place[i]), any |= !q->alone[i];
    else if (i >= done || !q->alone[i])
      idx[n++] = place[i];
  }
  if (any) idx[n++] = tile;
  for (uint32_t i = 0; i < last->n; i++) idx[n++] = said(v, last->v[i]);
  for (uint32_t i = 0; i < q->batch.n && !q->col.n; i++) idx[n++] = said(v, q->batch.v[i]);
  return n;
}
/* fresh variables for such a place, in that order; ext: of the axes of the window */
static void fresh_index(pw *p, const sliding *q, variables *v, sz *a, uint32_t done, sz *place, const sz *ext,
                        const u32vec *last) {
  for (uint32_t i = 0; i < done; i++) a[i] = fresh(p, v, "a", sym_int(p->c, q->win[i].n));
  if (q->col.n) rename(p, v, &q->batch);
  rename(p, v, &q->row);
  sz all = sym_int(p->c, 1);
  for (uint32_t i = 0; i < q->nw; i++) {
    all = sym_mul(p->c, all, ext[i]);
    if (q->flat && done)
      place[i] = i + 1 < q->nw ? sym_int(p->c, 0) : fresh(p, v, "tile", all);
    else
      place[i] = fresh(p, v, i < done ? "tile" : "place", ext[i]);
  }
  rename(p, v, last);
  if (!q->col.n) rename(p, v, &q->batch);
}
static ex zero_of(emodule *m, etype t) { return et_kind(t) == K_FLOAT ? expr_f(m, t, 0) : expr_i(m, t, 0); }
/* One step: the axes from..to-1 of the window are transformed, all others of a tensor stay. */
typedef struct step {
  pw *p;                      /* the run of passes */
  const sliding *q;           /* the sum */
  variables *v;               /* variables of the stage */
  bool back;                  /* the step goes from products to outputs; else from inputs to pieces */
  uint32_t from, to;          /* the axes from..to-1 of the window are transformed */
  uint32_t order[MAX_AXES];   /* from..to-1: these axes, the one of the innermost sums first */
  const sz *a;                /* products of the stage's place */
  const sz *place;            /* per axis: place of the stage; from..to-1: tiles */
  tid t;                      /* tensor that is read; 0: X */
  tid last;                   /* tensor of the first axis' last product, where it has one of its own; 0: it has none */
  const sliding *last_form;   /* the sum by which `last` is indexed */
  bool beyond;                /* the last tile may read outside */
  int64_t piece[MAX_AXES];    /* per axis: piece that is computed */
  int64_t j[MAX_AXES];        /* per axis: input of the tile that is read */
  uint32_t nth;               /* the axis order[nth] is transformed now */
  ex memo[BILINEAR_PRODUCTS]; /* values of products already read */
  const sz *ext;              /* extents of the axes of the window, for stages of its own */
  /* which axes are transformed so far, and the piece or input of each -> tensor of the partial sums */
  map *inner;
  /* products of the first axis in order that are computed in a loop, as pieces with one variable more; n 0: none */
  bilinear_pairs pairs;
  tid coefficients; /* the pairs' coefficients: a row for each pair */
  sz pair;          /* the variable in the stage, where a piece of pairs is computed; 0: another one is */
} step;
static ex read_x(const step *r) {
  ctx *c = r->p->c;
  ex_node l = *exn(r->p->m, r->q->x);
  sz *idx = NEWN(r->p->a, sz, l.nargs + 1);
  for (uint32_t a = 0; a < l.nargs; a++) {
    idx[a] = l.args[a];
    for (uint32_t w = 0; w < r->q->nw; w++) {
      const window *x = &r->q->win[w];
      if (x->arg != a) continue;
      if (w >= r->to) {
        idx[a] = r->place[w];
        continue;
      }
      idx[a] = sym_replace(c, idx[a], x->k, sym_int(c, x->sign < 0 ? x->taps - 1 : 0));
      idx[a] = sym_addi(c, sym_replace(c, idx[a], x->o, sym_muli(c, r->place[w], x->m)),
                        x->at[r->j[w]] * (EK_PLANTED("winograd-last") ? 1 : x->spacing));
    }
    for (uint32_t k = 0; k < r->v->from.n; k++) idx[a] = sym_replace(c, idx[a], r->v->from.v[k], r->v->to.v[k]);
  }
  if (!l.otherwise && r->beyond) l.otherwise = zero_of(r->p->m, (etype)l.type);
  return expr_load(r->p->m, l.tensor, idx, l.nargs, l.otherwise);
}
static ex read_step(const step *r) {
  ctx *c = r->p->c;
  emodule *m = r->p->m;
  const sliding *q = r->q;
  sz a[MAX_AXES], place[MAX_AXES], idx[2 * MAX_RANK];
  if (!r->back && !r->t) return read_x(r);
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = &q->win[i];
    bool now = i >= r->from && i < r->to;
    if (i < r->to) a[i] = now ? sym_int(c, r->j[i]) : r->a[i];
    place[i] = r->place[i];
    if (now && !r->back)
      place[i] = sym_addi(c, sym_muli(c, r->place[i], w->m * w->stride), q->begin[i] + w->at[r->j[i]]);
  }
  const bool last = r->last && r->j[0] == q->win[0].n - 1;
  uint32_t n = index_of(r->p, last ? r->last_form : q, r->v, a, r->back ? r->to : r->from, place,
                        r->back ? &q->col : &q->reduce, idx);
  return expr_load(m, last ? r->last : r->t, idx + last, n - last, r->back ? 0 : zero_of(m, xt(m, r->t)->type));
}
static ex read_nested(void *env, int64_t j);
static ex read_coefficient(void *env, int64_t j) {
  const step *r = env;
  const sz at[] = {r->pair, sym_int(r->p->c, j)};
  return expr_load(r->p->m, r->coefficients, at, 2, 0);
}
static ex of_axis(step *r, uint32_t nth) {
  const uint32_t axis = r->order[nth];
  const window *w = &r->q->win[axis];
  r->nth = nth;
  if (nth == r->from && r->pair)
    return bilinear_in_pair(w, r->p->m, &r->pairs, r->piece[axis] == r->pairs.twin, read_coefficient, read_nested, r);
  return (r->back ? bilinear_out : bilinear_in)(w, r->p->m, r->piece[axis], read_nested, r);
}
static uint32_t stage_over(pw *p, const sliding *q, const variables *v, ex value, const char *hint) {
  return pass_stage(p, q->s, v->d.v, v->d.n, value, hint);
}
static uint32_t window_of(const sliding *q, atom o) { /* The window of an output variable; nw: it is of none. */
  uint32_t w = 0;
  while (w < q->nw && q->win[w].o != o) w++;
  return w;
}
/* Is product i of the first axis in order one of the first pair of those computed in a loop? */
static bool in_loop(const step *r, int64_t i) { return r->pairs.n && (i == r->pairs.first || i == r->pairs.twin); }
/* The variables of a stage of step r; in the order of Y's digits, if it is the last step. A piece of pairs has theirs
 * before the channels, so that what it reads is still near for the next pair. */
static void fresh_stage(step *r, variables *v, sz *a, sz *place) {
  const stage *y = xs(r->p->m, r->q->s);
  r->pair = 0;
  if (!r->back || r->from) {
    const u32vec *last = r->back ? &r->q->col : &r->q->reduce;
    fresh_index(r->p, r->q, v, a, r->from, place, r->ext, last);
    if (!in_loop(r, r->piece[r->order[r->from]])) return;
    r->pair = fresh(r->p, v, "pair", sym_int(r->p->c, r->pairs.n));
    const digit d = v->d.v[v->d.n - 1];
    for (uint32_t i = 1; i <= last->n; i++) v->d.v[v->d.n - i] = v->d.v[v->d.n - i - 1];
    v->d.v[v->d.n - 1 - last->n] = d;
    return;
  }
  for (uint32_t x = 0; x < y->naxes; x++)
    for (uint32_t j = 0; j < y->axes[x].n; j++) {
      digit d = y->axes[x].d[j];
      uint32_t w = window_of(r->q, d.var);
      vec_push(r->p->a, v->from, d.var);
      sz at = fresh(r->p, v, sym_name(r->p->c, d.var), w < r->q->nw ? r->ext[w] : d.extent);
      if (w < r->q->nw) place[w] = at;
      vec_push(r->p->a, v->to, at);
    }
}
/* How many rows of an axis have as many tiles as this one, or, where the number is open, at most one more? *first:
 * the first of them. */
static int64_t alike(const step *r, uint32_t axis, int64_t *first) {
  const window *w = &r->q->win[axis];
  int64_t n = 0, outputs, rows;
  if (!r->back || !sym_is_int(r->p->c, sym_extent(r->p->c, w->o), &outputs)) return *first = 0, r->back ? w->m : w->n;
  if (!sym_is_int(r->p->c, r->ext[axis], &rows)) return 0;
  for (int64_t k = w->m; k-- > 0;)
    if ((outputs - k + w->m - 1) / w->m == rows) *first = k, n++;
  return n;
}
/* What is transformed up to an axis is a stage of its own where several rows of the next one read it. */
static ex read_inner(const step *r, uint32_t nth) {
  pw *p = r->p;
  uint64_t key = nth, t;
  int64_t kind[MAX_AXES] = {0};
  step s = *r;
  if (alike(r, r->order[nth + 1], kind) < 2) return of_axis(&s, nth);
  for (uint32_t i = r->from; i < r->to; i++) {
    const uint32_t axis = r->order[i];
    alike(r, axis, &kind[axis]);
    key = (key * BILINEAR_PRODUCTS + (uint64_t)(i <= nth ? r->piece[axis] : r->j[axis])) * BILINEAR_PRODUCTS +
          (uint64_t)kind[axis];
  }
  if (!map_getu(r->inner, key, &t)) {
    variables v = {0};
    sz a[MAX_AXES], place[MAX_AXES], ext[MAX_AXES];
    memcpy(ext, r->ext, sizeof ext);
    for (uint32_t i = nth + 1; i < r->to && r->back; i++)
      ext[r->order[i]] = tiles(p, &r->q->win[r->order[i]], kind[r->order[i]]);
    s.ext = ext;
    fresh_stage(&s, &v, a, place);
    s.v = &v, s.a = a, s.place = place;
    t = xs(p->m, stage_over(p, r->q, &v, simplify(p, of_axis(&s, nth)), r->back ? "gather" : "spread"))->tensor;
    map_putu(r->inner, key, t);
  }
  sz *at = NEWN(p->a, sz, r->v->d.n + 1);
  for (uint32_t i = 0; i < r->v->d.n; i++) at[i] = sym_of_atom(p->c, r->v->d.v[i].var);
  return expr_load(p->m, (tid)t, at, r->v->d.n, 0);
}
static ex read_nested(void *env, int64_t j) { /* inner sums of the first axis, the same ones for every outer row */
  step *r = env;
  uint32_t nth = r->nth;
  ex e = r->to - r->from == 1 ? r->memo[j] : 0;
  r->j[r->order[nth]] = j;
  if (!e) e = nth == r->from ? read_step(r) : read_inner(r, nth - 1);
  if (r->to - r->from == 1) r->memo[j] = e;
  r->nth = nth;
  return e;
}
typedef VEC(update) updates;
/* A variable of an update, for digit k: that of an earlier update of the placement, where it has as many values. */
static sz update_variable(pw *p, const updates *before, const digit *d, uint32_t k) {
  for (uint32_t i = before->n; i-- > 0;)
    if (k < before->v[i].nvars && before->v[i].vars[k] &&
        sym_eq(p->c, sym_extent(p->c, before->v[i].vars[k]), d->extent))
      return sym_of_atom(p->c, before->v[i].vars[k]);
  return sym_var(p->c, sym_name(p->c, d->var), d->extent);
}
/* Adds a placement's update by piece ns, whose digits are v's; idx over v's variables. */
static void piece_update(pw *p, updates *to, uint32_t ns, const variables *v, const sz *idx, uint32_t n) {
  emodule *m = p->m;
  update u = {.nvars = v->d.n, .nidx = n, .vars = NEWN(m->a, atom, v->d.n + 1), .idx = NEWN(m->a, sz, n + 1)};
  sz *at = NEWN(p->a, sz, v->d.n + 1);
  for (uint32_t i = 0; i < n; i++) u.idx[i] = idx[i];
  for (uint32_t k = 0; k < v->d.n; k++) {
    at[k] = update_variable(p, to, &v->d.v[k], k);
    sym_is_atom(p->c, at[k], &u.vars[k]);
    for (uint32_t i = 0; i < n; i++) u.idx[i] = sym_replace(p->c, u.idx[i], v->d.v[k].var, at[k]);
  }
  u.value = expr_load(m, xs(m, ns)->tensor, at, v->d.n, 0);
  vec_push(m->a, *to, u);
}
static void put_updates(pw *p, uint32_t s, const updates *u) {
  stage *y = xs(p->m, s);
  y->value = 0, y->tiled = true;
  for (uint32_t i = 0; i < u->n; i++) vec_push(p->m->a, y->updates, u->v[i]);
  pass_changed(p, s);
}
/* Factors that only a run knows: G W is stages, one axis after another. */
typedef struct computed {
  pw *p;                   /* the run of passes */
  const sliding *q;        /* the sum */
  const u32vec *vars;      /* variables of W besides the taps, in the order of U's axes */
  const variables *v;      /* variables of the stage, the same ones */
  int64_t piece[MAX_AXES]; /* per axis: product whose factor is computed */
  int64_t tap[MAX_AXES];   /* per axis: tap that is read */
  uint32_t axis;           /* the axis whose taps are added up now */
  map *inner;              /* products and taps -> tensor of the sums over the taps of the axes before */
} computed;
static ex load_tap(const computed *f) {
  ctx *c = f->p->c;
  const ex_node l = *exn(f->p->m, f->q->w);
  sz *idx = NEWN(f->p->a, sz, l.nargs + 1);
  for (uint32_t a = 0; a < l.nargs; a++) {
    idx[a] = l.args[a];
    for (uint32_t i = 0; i < f->q->nt; i++) {
      const window *w = &f->q->win[i];
      const int64_t tap = w->sign < 0 && !EK_PLANTED("winograd-computed") ? w->taps - 1 - f->tap[i] : f->tap[i];
      idx[a] = sym_replace(c, idx[a], w->k, sym_int(c, tap));
    }
    for (uint32_t i = 0; i < f->vars->n; i++) idx[a] = sym_replace(c, idx[a], f->v->from.v[i], f->v->to.v[i]);
  }
  return expr_load(f->p->m, l.tensor, idx, l.nargs, 0);
}
static ex read_tap(void *env, int64_t tap);
static ex sum_of_taps(computed *f, uint32_t axis) {
  f->axis = axis;
  return bilinear_factor(&f->q->win[axis], f->p->m, f->piece[axis], read_tap, f);
}
/* What is summed up to an axis is a stage of its own: all products of the next one read it. */
static ex load_sum(const computed *f, uint32_t axis) {
  pw *p = f->p;
  uint64_t key = axis, t;
  for (uint32_t i = 0; i < f->q->nt; i++)
    key = key * BILINEAR_PRODUCTS + (uint64_t)(i <= axis ? f->piece[i] : f->tap[i]);
  if (!map_getu(f->inner, key, &t)) {
    computed sum = *f;
    variables v = {0};
    rename(p, &v, f->vars);
    sum.v = &v;
    t = xs(p->m, pass_stage(p, f->q->s, v.d.v, v.d.n, simplify(p, sum_of_taps(&sum, axis)), "factors"))->tensor;
    map_putu(f->inner, key, t);
  }
  return expr_load(p->m, (tid)t, f->v->to.v, f->v->to.n, 0);
}
static ex read_tap(void *env, int64_t tap) {
  computed *f = env;
  const uint32_t axis = f->axis;
  f->tap[axis] = tap;
  const ex e = axis ? load_sum(f, axis - 1) : load_tap(f);
  f->axis = axis;
  return e;
}
/* The tensor U[a.., batch, reduce, col], of the first axis with the products from `first` on, as many as `part` has. An
 * axis of one product is none. */
static tid computed_factors(pw *p, const sliding *q, const sliding *part, int64_t first, const u32vec *vars) {
  emodule *m = p->m;
  updates u = {0};
  variables whole = {0};
  computed f = {.p = p, .q = q, .vars = vars, .piece = {first}, .inner = map_new(p->a)};
  uint32_t i, n;
  do {
    variables v = {0};
    sz *idx = NEWN(p->a, sz, q->nt + vars->n + 1);
    rename(p, &v, vars);
    f.v = &v;
    const uint32_t ns = pass_stage(p, q->s, v.d.v, v.d.n, simplify(p, sum_of_taps(&f, q->nt - 1)), "factors");
    for (n = 0, i = 0; i < q->nt; i++)
      if (part->win[i].n > 1) idx[n++] = sym_int(p->c, f.piece[i] - (i ? 0 : first));
    memcpy(idx + n, v.to.v, v.to.n * sizeof *idx);
    piece_update(p, &u, ns, &v, idx, n + v.to.n);
    for (i = q->nt; i-- > 0; f.piece[i] = 0)
      if (++f.piece[i] < (i ? q->win[i].n : first + part->win[i].n)) break;
  } while (i < q->nt);
  for (i = 0; i < q->nt; i++) (void)fresh(p, &whole, "a", sym_int(p->c, part->win[i].n));
  rename(p, &whole, vars);
  const uint32_t s = pass_stage(p, q->s, whole.d.v, whole.d.n, zero_of(m, (etype)exn(m, q->w)->type), "factors");
  put_updates(p, s, &u);
  return xs(m, s)->tensor;
}
/* X by phases, all of them as channels: a placement of what each takes. From here on the windows are without a
 * stride, over that. */
static tid make_phases(pw *p, sliding *q) {
  emodule *m = p->m;
  ctx *c = p->c;
  const ex_node l = *exn(m, q->x);
  const u32vec old = q->reduce;
  int64_t phase[MAX_AXES] = {0};
  sz all = extents(p, &q->channels), ext[MAX_AXES], place[MAX_AXES];
  atom channel = 0;
  updates u = {0};
  variables whole = {0};
  (void)sym_is_atom(c, sym_var(c, "channel", all), &channel);
  q->reduce = (u32vec){0};
  vec_push(p->a, q->reduce, channel);
  for (uint32_t i = 0; i < q->nw; i++)
    ext[i] = sym_ceildiv(c, xt(m, l.tensor)->shape[q->win[i].arg], sym_int(c, q->win[i].phases));
  for (uint32_t i = 0; i < q->nw;) {
    variables v = {0};
    sz at[MAX_RANK], idx[2 * MAX_RANK], of = sym_int(c, 0);
    memcpy(at, l.args, l.nargs * sizeof *at);
    rename(p, &v, &q->batch), rename(p, &v, &q->row), rename(p, &v, &old);
    for (i = 0; i < q->nw; i++) {
      const window *w = &q->win[i];
      of = sym_addi(c, sym_muli(c, of, w->phases), phase[i]);
      place[i] = fresh(p, &v, "place", ext[i]);
      at[w->arg] = sym_addi(c, sym_muli(c, place[i], w->phases), EK_PLANTED("winograd-phases") ? 0 : phase[i]);
    }
    for (i = 0; i < old.n; i++) of = sym_add(c, sym_mul(c, of, sym_extent(c, old.v[i])), said(&v, old.v[i]));
    vec_push(p->a, v.from, channel);
    vec_push(p->a, v.to, of);
    for (uint32_t a = 0; a < l.nargs; a++)
      for (uint32_t k = 0; k < v.from.n; k++) at[a] = sym_replace(c, at[a], v.from.v[k], v.to.v[k]);
    ex value = expr_load(m, l.tensor, at, l.nargs, l.otherwise ? l.otherwise : expr_f(m, (etype)l.type, 0));
    uint32_t n = index_of(p, q, &v, NULL, 0, place, &q->reduce, idx);
    piece_update(p, &u, stage_over(p, q, &v, simplify(p, value), "phase"), &v, idx, n);
    for (i = 0; i < q->nw && ++phase[i] == q->win[i].phases; i++) phase[i] = 0;
  }
  fresh_index(p, q, &whole, NULL, 0, place, ext, &q->reduce);
  uint32_t s = stage_over(p, q, &whole, expr_f(m, (etype)l.type, 0), "phases");
  put_updates(p, s, &u);
  for (uint32_t i = 0; i < q->nw; i++) {
    window *w = &q->win[i];
    q->begin[i] = floordiv64(q->begin[i], w->stride);
    for (int64_t j = 0; j < w->len; j++) w->at[j] /= w->stride;
    w->stride = 1;
  }
  return xs(m, s)->tensor;
}
/* The product after i among those that share sums with mate. */
static bool next_mate(const window *w, bool back, int64_t mate, int64_t *i) {
  for (int64_t k = *i + 1; k < (back ? w->m : w->n); k++)
    if (bilinear_mate(w, back, k) == mate) return *i = k, true;
  return false;
}
/* Is product i of the first axis computed in the loop over pairs, as one of another pair than the first? */
static bool in_later_pair(const step *r, int64_t i) {
  for (int64_t p = 1; p < r->pairs.n; p++)
    if (i == r->pairs.first + p * r->pairs.step || i == r->pairs.twin + p * r->pairs.step) return true;
  return false;
}
/* Rows of the first axis that share sums come together, so that these need not be kept: one of each for every row of
 * the other axes, the last of which counts fastest. */
static bool next_piece(step *r) {
  const window *w = &r->q->win[r->order[r->from]];
  int64_t *first = &r->piece[r->order[r->from]], mate = bilinear_mate(w, r->back, *first);
  if (next_mate(w, r->back, mate, first)) return true;
  *first = mate;
  for (uint32_t i = r->to; i-- > r->from + 1; r->piece[r->order[i]] = 0) {
    const window *other = &r->q->win[r->order[i]];
    if (++r->piece[r->order[i]] < (r->back ? other->m : other->n)) return true;
  }
  while (++*first < (r->back ? w->m : w->n))
    if (bilinear_mate(w, r->back, *first) == *first && !in_later_pair(r, *first)) return true;
  return false;
}
/* The table of the pairs' coefficients, of the type of X. */
static tid pair_coefficients(pw *p, const sliding *q, const window *w, const bilinear_pairs *pairs) {
  const etype t = (etype)exn(p->m, q->x)->type;
  ndarray d = {.type = t, .rank = 2, .dims = {pairs->n, w->len}};
  d.bytes = (size_t)(pairs->n * w->len) * et_bytes(t), d.data = arena_alloc(p->m->a, d.bytes);
  for (int64_t i = 0; i < pairs->n * w->len; i++) {
    const double k = bilinear_coefficient(w, pairs, i / w->len, i % w->len);
    if (t == ET_F64)
      ((double *)d.data)[i] = k;
    else
      ((float *)d.data)[i] = (float)k;
  }
  return expr_const_tensor(p->m, &d, "pairs");
}
/* Which part of an axis' products is written out, if it is the first one? */
static double written_out(const step *r, uint32_t axis) {
  const window *w = &r->q->win[axis];
  const bilinear_pairs pairs = bilinear_find_pairs(w);
  return (double)(w->n - (pairs.n ? 2 * (pairs.n - 1) : 0)) / (double)w->n;
}
/* Operations of A' for two axes, a before b. */
static double operations_out(const step *r, uint32_t a, uint32_t b) {
  const window *x = &r->q->win[a], *y = &r->q->win[b];
  return (double)y->n * x->out * (double)x->n + (double)x->m * y->out * (double)y->n;
}
/* The axes that are transformed at once: first the one of which most is computed in a loop, or back in the order that
 * takes least operations. */
static void choose_order(step *r) {
  for (uint32_t i = r->from; i < r->to; i++) {
    uint32_t k = i;
    for (; k > r->from; k--) {
      const uint32_t a = r->order[k - 1];
      if (r->back ? operations_out(r, a, i) <= operations_out(r, i, a) : written_out(r, a) <= written_out(r, i)) break;
      r->order[k] = a;
    }
    r->order[k] = i;
  }
}
/* Where several axes are transformed at once, pairs of the first one are computed in a loop: a pair alone has more
 * values than there are registers, and what it reads is read again for the next one anyway. */
static void loop_over_pairs(step *r) {
  if (r->to - r->from < 2) return;
  const window *w = &r->q->win[r->order[r->from]];
  r->pairs = bilinear_find_pairs(w);
  if (r->pairs.n) r->coefficients = pair_coefficients(r->p, r->q, w, &r->pairs);
}
/* Transforms the axes from..to-1 of tensor t, or of X: those before are transformed. */
static tid spread(pw *p, const sliding *q, uint32_t from, uint32_t to, tid t) {
  ctx *c = p->c;
  updates u = {0};
  sz ext[MAX_AXES], whole;
  step r = {.p = p, .q = q, .from = from, .to = to, .t = t, .ext = ext, .inner = map_new(p->a)};
  for (uint32_t i = 0; i < q->nw; i++) {
    const window *w = &q->win[i];
    ext[i] = i < to ? all_tiles(p, w) : xt(p->m, exn(p->m, q->x)->tensor)->shape[w->arg];
    r.beyond |= i < to && (w->parts > 1 || !sym_exact_div(c, sym_extent(c, w->o), sym_int(c, w->m), &whole));
  }
  choose_order(&r);
  loop_over_pairs(&r);
  do {
    variables v = {0};
    sz a[MAX_AXES], place[MAX_AXES], idx[2 * MAX_RANK];
    fresh_stage(&r, &v, a, place);
    r.v = &v, r.a = a, r.place = place;
    memset(r.memo, 0, sizeof r.memo);
    uint32_t ns = stage_over(p, q, &v, simplify(p, of_axis(&r, to - 1)), "spread");
    for (uint32_t i = from; i < to; i++) a[i] = sym_int(c, r.piece[i]);
    const uint32_t first = r.order[from];
    if (r.pair) a[first] = sym_addi(c, sym_muli(c, r.pair, r.pairs.step), r.piece[first]);
    uint32_t n = index_of(p, q, &v, a, to, place, &q->reduce, idx);
    piece_update(p, &u, ns, &v, idx, n);
  } while (next_piece(&r));
  variables v = {0};
  sz a[MAX_AXES], place[MAX_AXES];
  fresh_index(p, q, &v, a, to, place, ext, &q->reduce);
  uint32_t s = stage_over(p, q, &v, zero_of(p->m, (etype)exn(p->m, q->x)->type), "spread");
  put_updates(p, s, &u);
  return xs(p->m, s)->tensor;
}
/* The factor of a product: U, or of kept taps (of the axis `at`) the sum that is product a's. */
typedef struct factors {
  pw *p;       /* the run of passes */
  tid u;       /* tensor U */
  sz *idx;     /* index on each axis of U */
  uint32_t n;  /* number of axes of U */
  uint32_t at; /* axis of the kept taps */
} factors;
static ex read_factor(void *env, int64_t tap) {
  const factors *f = env;
  if (tap >= 0) f->idx[f->at] = sym_int(f->p->c, tap);
  return expr_load(f->p->m, f->u, f->idx, f->n, 0);
}
static ex factor(factors *f, const window *kept) {
  emodule *m = f->p->m;
  if (!kept) return read_factor(f, -1);
  sz a = f->idx[f->at];
  ex e = bilinear_factor(kept, m, kept->n - 1, read_factor, f);
  for (int64_t i = kept->n - 1; i-- > 0;)
    e = expr_sel(m, expr_op2(m, OP_EQ, expr_index(m, a), expr_i(m, ET_I64, i)),
                 bilinear_factor(kept, m, i, read_factor, f), e);
  return e;
}
/* M, or of the first axis only the products from `first` on, as many as `part` has: without the last tile, where
 * that needs none of them. */
static tid products(pw *p, const sliding *q, const sliding *part, int64_t first, tid vt, tid u, etype t) {
  emodule *m = p->m;
  ctx *c = p->c;
  variables v = {0};
  sz a[MAX_AXES], place[MAX_AXES], ext[MAX_AXES], vi[2 * MAX_RANK], ui[2 * MAX_RANK];
  uint32_t nu = 0, nr = 0;
  atom *red = NEWN(p->a, atom, q->nw + q->reduce.n + 1);
  for (uint32_t i = 0; i < q->nw; i++) ext[i] = i < q->nt ? tiles(p, &q->win[i], 0) : sym_extent(c, q->win[i].o);
  if (first) ext[0] = sym_addi(c, whole_tiles(p, &q->win[0]), -EK_PLANTED("winograd-short"));
  fresh_index(p, part, &v, a, q->nt, place, ext, &q->col);
  for (uint32_t i = 0; i < q->nt; i++)
    if (q->constant || part->win[i].n > 1) ui[nu++] = a[i];
  a[0] = sym_addi(c, a[0], first);
  for (uint32_t i = 0; i < q->nt; i++) {
    if (q->win[i].parts == 1) continue;
    sz x = sym_var(c, "part", sym_int(c, q->win[i].parts));
    if (sym_is_atom(c, x, &red[nr])) nr++;
    ui[nu++] = x, place[i] = sym_add(c, place[i], x);
  }
  for (uint32_t i = 0; i < q->batch.n; i++) ui[nu++] = said(&v, q->batch.v[i]);
  for (uint32_t i = 0; i < q->reduce.n; i++) {
    sz x = sym_var(c, sym_name(c, q->reduce.v[i]), sym_extent(c, q->reduce.v[i]));
    if (sym_is_atom(c, x, &red[nr])) nr++;
    ui[nu++] = x;
    vec_push(p->a, v.from, q->reduce.v[i]);
    vec_push(p->a, v.to, x);
  }
  for (uint32_t i = q->nt; i < q->nw; i++) {
    const window *w = &q->win[i];
    sz k = sym_var(c, sym_name(c, w->k), sym_extent(c, w->k));
    if (sym_is_atom(c, k, &red[nr])) nr++;
    ui[nu++] = k;
    place[i] = sym_addi(c, sym_add(c, sym_muli(c, place[i], w->stride), sym_muli(c, k, w->sign)),
                        q->begin[i] + (w->sign < 0 ? w->taps - 1 : 0));
  }
  for (uint32_t i = 0; i < q->col.n; i++) ui[nu++] = said(&v, q->col.v[i]);
  uint32_t nv = index_of(p, q, &v, a, q->nt, place, &q->reduce, vi);
  const window *kept = &q->win[q->nt - 1];
  factors f = {p, u, ui, nu, q->nt - 1};
  const ex x = expr_load(m, vt, vi, nv, q->nt < q->nw ? zero_of(m, xt(m, vt)->type) : 0),
           w = factor(&f, kept->scale ? kept : NULL);
  ex prod = expr_op2(m, OP_MUL, q->whole ? expr_cast(m, t, x) : x, q->whole ? expr_cast(m, t, w) : w);
  uint32_t s = stage_over(p, q, &v, nr ? expr_reduce(m, RED_SUM, red, nr, 0, prod, 0, t, t) : prod, "products");
  map_putu(p->exact, s, 1);
  return xs(m, s)->tensor;
}
/* An output of whole numbers, whose constants were multiplied by powers of two. */
static ex unscaled(const step *r, ex y) {
  int64_t by = 1, bits = 0;
  for (uint32_t i = r->from; i < r->to && r->q->whole; i++) by *= r->q->win[i].whole;
  while (by >> bits > 1 + EK_PLANTED("winograd-whole")) bits++;
  return bits ? expr_op2(r->p->m, OP_SHR, y, expr_i(r->p->m, ET_I32, bits)) : y;
}
/* Transforms the axes from..to-1 of t back: into Y, if these are the first ones. */
static tid gather(pw *p, const sliding *q, const sliding *last_form, uint32_t from, uint32_t to, tid t, tid last,
                  etype type) {
  emodule *m = p->m;
  ctx *c = p->c;
  updates u = {0};
  stage *y = xs(m, q->s);
  uint32_t nd = expr_ndigits(y), ny = y->naxes;
  digit *d = NEWN(p->a, digit, nd + 1);
  sz ext[MAX_AXES];
  step r = {.p = p,
            .q = q,
            .from = from,
            .to = to,
            .t = t,
            .last = last,
            .last_form = last_form,
            .back = true,
            .ext = ext,
            .inner = map_new(p->a)};
  expr_digits(y, d);
  choose_order(&r);
  do {
    variables v = {0};
    sz a[MAX_AXES], place[MAX_AXES], at[MAX_AXES], idx[2 * MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->nw; i++)
      ext[i] = i < from ? tiles(p, &q->win[i], 0)
               : i < to ? tiles(p, &q->win[i], r.piece[i])
                        : sym_extent(c, q->win[i].o);
    fresh_stage(&r, &v, a, place);
    r.v = &v, r.a = a, r.place = place;
    memset(r.memo, 0, sizeof r.memo);
    uint32_t ns = stage_over(p, q, &v, simplify(p, unscaled(&r, of_axis(&r, to - 1))), "gather");
    for (uint32_t i = 0; i < q->nw; i++)
      at[i] = i >= from && i < to ? sym_addi(c, sym_muli(c, place[i], q->win[i].m), r.piece[i]) : place[i];
    if (from)
      n = index_of(p, q, &v, a, from, at, &q->col, idx);
    else
      for (uint32_t x = 0, i = 0; x < ny; x++, n++) {
        idx[x] = sym_int(c, 0);
        for (uint32_t j = 0; j < xs(m, q->s)->axes[x].n; j++, i++) {
          uint32_t w = window_of(q, d[i].var);
          idx[x] = sym_add(c, sym_mul(c, idx[x], d[i].extent), w < q->nw ? at[w] : v.to.v[i]);
        }
      }
    piece_update(p, &u, ns, &v, idx, n);
  } while (next_piece(&r));
  uint32_t s = q->s;
  if (from) {
    variables v = {0};
    sz a[MAX_AXES], place[MAX_AXES];
    for (uint32_t i = from; i < q->nw; i++) ext[i] = sym_extent(c, q->win[i].o);
    fresh_index(p, q, &v, a, from, place, ext, &q->col);
    s = stage_over(p, q, &v, zero_of(m, type), "gather");
  }
  put_updates(p, s, &u);
  return xs(m, s)->tensor;
}
/* Does the last tile lack outputs, or may it? Where there are so few that it counts. */
static bool is_short(pw *p, const sliding *q) {
  enum { MAX_SHORT_TILES = 4 };
  const window *w = &q->win[0];
  const int64_t out = outputs(p, w, 0);
  const bool known = sym_is_int(p->c, sym_extent(p->c, w->o), NULL), rows = sym_is_int(p->c, extents(p, &q->row), NULL);
  return w->m > 1 && !w->circle && out <= MAX_SHORT_TILES * w->m && (!known || (rows && out > w->m && out % w->m));
}
static tid factors_of(pw *p, const sliding *q, const sliding *part, int64_t first, const u32vec *vars) {
  return q->constant ? constants(p, part, vars) : computed_factors(p, q, part, first, vars);
}
static bool rewrite(pw *p, sliding *q) {
  emodule *m = p->m;
  etype type = (etype)exn(m, xs(m, q->s)->value)->type;
  u32vec uv = {0};
  push_all(p, &uv, &q->batch), push_all(p, &uv, q->channels.n ? &q->channels : &q->reduce);
  for (uint32_t i = q->nt; i < q->nw; i++) vec_push(p->a, uv, q->win[i].k);
  push_all(p, &uv, &q->col);
  if (q->row.n + uv.n + 2 * q->nw > MAX_RANK || !pass_spend(p)) return false;
  for (uint32_t i = 0; i < q->nt; i++) q->alone[i] = sym_eq(p->c, all_tiles(p, &q->win[i]), sym_int(p->c, 1));
  /* products of the first axis: all, or without the last one, which is computed separately where the last tile does
   * not need it */
  const bool split = q->nt > q->flat && is_short(p, q);
  const int64_t first = q->win[0].n - 1;
  sliding most = *q, last_form = *q;
  if (split) {
    most.win[0].n = first, last_form.win[0].n = 1, last_form.win[0].g += first * q->win[0].r;
    last_form.alone[0] = sym_eq(p->c, whole_tiles(p, &q->win[0]), sym_int(p->c, 1));
  }
  const tid u = factors_of(p, q, &most, 0, &uv), u_last = split && u ? factors_of(p, q, &last_form, first, &uv) : 0;
  if (!u) return false;
  uint32_t some = q->by_axis ? 1 : q->nt; /* number of axes that are transformed at once */
  tid t = q->channels.n ? make_phases(p, q) : 0;
  for (uint32_t i = 0; i < q->nt; i += some) t = spread(p, q, i, i + some, t);
  const tid v = t, last = split ? products(p, q, &last_form, first, v, u_last, type) : 0;
  t = products(p, q, &most, 0, v, u, type);
  for (uint32_t i = q->nt; i > 0; i -= some) t = gather(p, q, &last_form, i - some, i, t, last, type);
  return true;
}
/* Open sizes of rows that may be below EXPR_VARIANT_ROWS and above. */
static void open_rows(pw *p, const sliding *q, u32vec *open) {
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t i = 0; i < (k ? q->batch : q->row).n; i++) {
      atom n;
      int64_t lo, hi;
      sz extent = sym_extent(p->c, (k ? q->batch : q->row).v[i]);
      sym_range(p->c, extent, &lo, &hi);
      if (lo < EXPR_VARIANT_ROWS && hi >= EXPR_VARIANT_ROWS && sym_is_atom(p->c, extent, &n) &&
          sym_kind(p->c, n) == AT_SYMBOL && !map_getu(p->lates, n, &(uint64_t){0}))
        vec_once(p->a, open, n);
    }
}
/* Would other forms be chosen for many rows, and would they save so much of all window sums' time that the model is
 * worth its code twice? Notes the sizes of the rows. */
static bool variants_worth(pw *p, const u32vec *order, const uint8_t *windows) {
  VEC(sliding) sums = {0};
  u32vec candidates = {0}, open = {0};
  double as_few = 0, as_many = 0; /* cost of many rows: in the forms of few, and in their own */
  for (uint32_t i = 0; i < order->n; i++) {
    sliding q;
    atom split;
    int64_t by;
    if (!windows[order->v[i]]) continue;
    pass_enter(p, xs(p->m, order->v[i])->block);
    if (!match(p, order->v[i], &q, &split, &by)) continue;
    vec_push(p->a, sums, q);
    open_rows(p, &q, &candidates);
  }
  for (uint32_t i = 0; candidates.n && i < sums.n; i++) {
    sliding q = sums.v[i], few = q, many = q;
    pass_enter(p, xs(p->m, q.s)->block);
    const bool steps = by_axis(p, &q);
    choose(p, &few);
    p->assume_variant_rows = true;
    choose(p, &many);
    const double f = cost(p, &q, steps, few.form), m = cost(p, &q, steps, many.form);
    p->assume_variant_rows = false;
    as_few += f, as_many += m;
    if (m < f) open_rows(p, &q, &open);
  }
  if (!cost_variant_pays(as_many, as_few)) return false;
  for (uint32_t i = 0; i < open.n; i++) vec_once(p->m->a, p->variant_sizes, open.v[i]);
  return open.n > 0;
}
/* Axes that must be split for a form are as they were if there is none. */
static bool transform(pw *p, uint32_t s) {
  sliding q;
  atom split;
  int64_t by;
  pass_enter(p, xs(p->m, s)->block);
  bool sure = match(p, s, &q, &split, &by);
  if (!split) return sure && choose(p, &q) && rewrite(p, &q);
  stage old = *xs(p->m, s);
  old.axes = arena_dup(p->m->a, old.axes, old.naxes * sizeof *old.axes);
  for (; split; sure = match(p, s, &q, &split, &by)) stage_split(p, s, split, sym_int(p->c, by));
  if (sure && choose(p, &q) && rewrite(p, &q)) return true;
  *xs(p->m, s) = old;
  pass_changed(p, s);
  return false;
}
/* Is it a window sum that may take such a form, whatever it costs? 1: of floats, 2: of whole numbers, 0: none. */
static uint8_t may_transform(pw *p, uint32_t s) {
  sliding q;
  atom split;
  int64_t by;
  pass_enter(p, xs(p->m, s)->block);
  return !match(p, s, &q, &split, &by) && !split ? 0 : q.whole ? 2 : 1;
}
bool pass_winograd(pw *p) {
  u32vec order = {0};
  bool any = false;
  uint8_t *windows = NEWN(p->a, uint8_t, p->m->stages.n + 1);
  interval_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) any |= (windows[order.v[i]] = may_transform(p, order.v[i])) != 0;
  if (!any) return false;
  p->line_forms = map_new(p->a);
  find_growth(p, &order, windows);
  if (p->variant_sizes && variants_worth(p, &order, windows)) return false; /* the module will be lowered anew */
  any = false;
  for (uint32_t i = 0; i < order.n; i++)
    if (windows[order.v[i]]) any |= transform(p, order.v[i]);
  if (any) pass_flush(p);
  return any;
}
