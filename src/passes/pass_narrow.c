/* Which tensors are kept in bf16, if the user allows it?
 *
 * Products with constants: where a sum over f32 products has a constant for one factor and a tensor for the other, both
 * are stored in bf16 and the products are those of their values; sums stay in f32, and so does everything else. Halves
 * what is read, and machines that multiply pairs of bf16 do twice as much an instruction (schedule/instruction.c). The
 * error is that of rounding each factor to 8 bits. Not the products of a Winograd transform, whose sums would magnify
 * that: where it beats a product of bf16 it is one of f32.
 *
 * Whoever reads a tensor that is kept so gets rounded values (keep.h). Only where an even number of points of the sum
 * lie side by side.
 */
#include "fusion/fusion.h"
#include "passes/keep.h"
#include "passes/pass_const.h"
#include <string.h>

/* ---- which sums ------------------------------------------------------------------------------ */
/* Is an axis of x, one from `first` on, gone through by a variable of the sum with an even number of places? */
static bool even_sum(pw *p, ex x, const roles *r, uint32_t first) {
  const ex_node *l = exn(p->m, x);
  for (uint32_t i = first; i < l->nargs; i++)
    for (uint32_t k = 0; k < r->red_both.n; k++) {
      atom v;
      if (sym_is_atom(p->c, l->args[i], &v) && v == r->red_both.v[k] &&
          sym_int_or(p->c, sym_extent(p->c, v), 1) % 2 == 0)
        return true;
    }
  return false;
}
static bool match(pw *p, uint32_t s, ex *x, ex *w, bool *inner) { /* inner: along x's last axis */
  emodule *m = p->m;
  roles r;
  if (!stage_is_reduce(p, s) || xs(m, s)->recurrence || map_getu(p->exact, s, &(uint64_t){0}) ||
      !expr_roles(m, s, p->a, &r))
    return false;
  const ex_node *red = exn(m, r.red);
  if ((r.cls != KC_CONTRACTION && r.cls != KC_MATVEC) || !r.two || !r.b_const || red->op != RED_SUM || red->where ||
      red->type != ET_F32 || red->acc != ET_F32 || r.a.n != 1 || r.b.n != 1)
    return false;
  if (whole_sum(p, r.red)) return false; /* a sum of whole numbers is exact as it is */
  *x = r.a.v[0], *w = r.b.v[0];
  const ex_node *lx = exn(m, *x), *lw = exn(m, *w);
  *inner = lx->kind == EX_LOAD && lx->nargs && even_sum(p, *x, &r, lx->nargs - 1);
  return lx->kind == EX_LOAD && lw->kind == EX_LOAD && lx->type == ET_F32 && lw->type == ET_F32 && !lw->otherwise &&
         xt(m, lw->tensor)->kind == TK_CONST && (!lx->otherwise || exn(m, lx->otherwise)->kind == EX_CONST) &&
         even_sum(p, *x, &r, 0);
}

/* ---- tensors --------------------------------------------------------------------------------- */
typedef struct rounding {
  const float *from; /* floats */
  uint16_t *to;      /* gets them as bf16 */
  size_t n;          /* number of floats */
} rounding;
enum { STRETCH = 1 << 16 };
static void round_stretch(ctx *c, void *arg, uint32_t i) { /* rounds to nearest, ties to even; NaN stays NaN */
  const rounding *r = arg;
  (void)c;
  for (size_t k = (size_t)i * STRETCH, end = k + STRETCH < r->n ? k + STRETCH : r->n; k < end; k++) {
    uint32_t u;
    memcpy(&u, r->from + k, 4); /* mapped constants may be misaligned */
    r->to[EK_PLANTED("narrow") && k ? k - 1 : k] =
        (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
}
static const coding rounded = {ET_BF16, 0};
static tid narrow_constant(keeper *k, tid t) {
  tid r = kept(k, t);
  if (r) return r;
  ndarray d = *expr_data(k->m, t);
  int64_t n;
  if (!nd_count(&d, &n)) return 0;
  rounding w = {(const float *)(const void *)d.data, arena_array(k->m->a, (size_t)n, 2), (size_t)n};
  par_for(k->p->c, ctx_cpus(k->p->c), (uint32_t)((w.n + STRETCH - 1) / STRETCH), round_stretch, &w);
  d.type = ET_BF16, d.data = (uint8_t *)w.to, d.bytes = (size_t)n * 2;
  r = expr_const_tensor(k->m, &d, xt(k->m, t)->name);
  keep_constant(k, t, r, rounded);
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
typedef struct product {
  uint32_t s; /* stage of the product */
  ex x;       /* load of the factor that is no constant */
  ex w;       /* load of the constant */
  tid copy;   /* copy of x's tensor in bf16; 0: the tensor itself is kept so */
} product;
typedef struct factors {
  keeper *k;        /* what is kept in bf16 */
  const product *q; /* the product */
} factors;
static ex read_factor(void *env, emodule *m, ex e) {
  const factors *f = env;
  if (e == f->q->w) return keep_read(f->k, e, narrow_constant(f->k, exn(m, e)->tensor));
  if (e == f->q->x && f->q->copy) return keep_read(f->k, e, f->q->copy);
  return e;
}
bool pass_narrow(pw *p) {
  emodule *m = p->m;
  VEC(product) all = {0};
  u32vec order = {0};
  if (!p->narrow) return false;
  keeper k = keep_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    product q = {.s = order.v[i]};
    bool inner;
    if (!match(p, q.s, &q.x, &q.w, &inner)) continue;
    tid t = exn(m, q.x)->tensor;
    bool round = keep_can(&k, t, rounded);
    if ((!kept(&k, t) && !round && !inner) || !pass_spend(p)) continue; /* a copy lies as what it is of */
    if (round) keep_stage(&k, t, rounded);
    if (!kept(&k, t)) q.copy = keep_copy(&k, q.s, t, rounded);
    vec_push(p->a, all, q);
  }
  for (uint32_t i = 0; i < all.n; i++) {
    ex v = expr_rewrite(m, xs(m, all.v[i].s)->value, &(ex_map){.node = read_factor, .env = &(factors){&k, &all.v[i]}});
    xs(m, all.v[i].s)->value = v;
  }
  keep_end(&k, &order);
  return all.n > 0;
}
