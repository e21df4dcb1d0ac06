/* Which tensors are kept in bf16 or f16, if the user allows it?
 *
 * Factors of products: where a sum over f32 products reads a factor from a tensor, and the other one from a constant or
 * from a tensor too, both are stored in that type and the products are those of their values; sums stay in f32, and so
 * does everything else. Halves what is read, and machines that multiply pairs of bf16 do twice as much an instruction
 * (schedule/instruction.c). The error is that of rounding each factor to 8 bits (f16: 11). Not the products of a
 * Winograd transform, whose sums would magnify that: where it beats a product of bf16 it is one of f32.
 *
 * Whoever reads a tensor that is kept so gets rounded values (keep.h). Only where an even number of points of the sum
 * lie side by side; two factors that the run makes also only where each element is used many times. Where the sum goes
 * along the innermost axis of neither, as for a gradient of weights, both are copied in pairs (keep_groups.c).
 */
#include "cost/cost.h"
#include "fusion/fusion.h"
#include "passes/keep.h"
#include "passes/pass_const.h"
#include <string.h>

/* ---- which sums ------------------------------------------------------------------------------ */
enum { PAIR = 2 /* elements of the sum that a machine multiplies at once */ };
typedef struct narrow_factor {
  ex load;       /* what is read of the factor */
  bool constant; /* it is a constant */
  bool last;     /* the sum goes along the last axis of what is read */
  tid copy;      /* copy of its tensor in bf16; 0: the tensor itself is kept so */
} narrow_factor;
typedef struct product {
  uint32_t s;         /* stage of the product */
  narrow_factor f[2]; /* factors */
  atom pairs;         /* both are read from copies in which pairs of its values lie side by side; 0: as they lie */
} product;
/* Does the target multiply pairs faster than floats? If not, half the bytes may still be worth it, of a large constant
 * that few rows use. */
static bool pairs_pay(pw *p, const roles *r) {
  if (p->narrow != ET_BF16 || p->pairs_faster) return true;
  const int64_t elements = sat_mul64(typical_points(p->m, &r->col), typical_points(p->m, &r->red_both));
  return r->b_const && cost_memory_bound(p->t, typical_points(p->m, &r->row), sat_mul64(elements, et_bytes(ET_F32)));
}
/* Do enough columns use a row again, and rows a column, where both are values of the run that are rounded first? */
static bool reused(pw *p, const roles *r) {
  return cost_rounding_pays(typical_points(p->m, &r->row), typical_points(p->m, &r->col));
}
/* Do pairs of terms lie side by side where a machine wants them, or in copies of both factors? */
static bool lies_in_pairs(pw *p, const roles *r, product *q) {
  const ex load[2] = {q->f[0].load, q->f[1].load};
  if (p->narrow != ET_BF16 || q->f[1].constant || keep_sum_innermost(p, r, load[0]) ||
      keep_sum_innermost(p, r, load[1]))
    return true;
  q->pairs = keep_groups_along(p, r, load, PAIR);
  return q->pairs != 0;
}
/* The product that stage s is, of factors that may be kept in that type as far as the sum goes. */
static bool match_product(pw *p, uint32_t s, product *q, roles *out) {
  emodule *m = p->m;
  roles r;
  if (!stage_is_reduce(p, s) || xs(m, s)->recurrence || map_getu(p->exact, s, &(uint64_t){0}) ||
      !expr_roles(m, s, p->a, &r))
    return false;
  const ex_node *red = exn(m, r.red);
  if ((r.cls != KC_CONTRACTION && (r.cls != KC_MATVEC || !r.b_const)) || !r.two || red->op != RED_SUM || red->where ||
      red->type != ET_F32 || red->acc != ET_F32 || r.a.n != 1 || r.b.n != 1)
    return false;
  if (whole_sum(p, r.red)) return false; /* whole numbers: exact as they are */
  if ((!r.b_const && !reused(p, &r)) || !pairs_pay(p, &r)) return false;
  *q = (product){.s = s, .f = {{.load = r.a.v[0]}, {.load = r.b.v[0], .constant = r.b_const}}};
  for (int i = 0; i < 2; i++) {
    narrow_factor *f = &q->f[i];
    const ex_node *l = exn(m, f->load);
    if (l->kind != EX_LOAD || l->type != ET_F32 || (l->otherwise && exn(m, l->otherwise)->kind != EX_CONST) ||
        (f->constant && (l->otherwise || xt(m, l->tensor)->kind != TK_CONST)))
      return false;
    if (!f->constant && !keep_groups(p, &r, f->load, PAIR, true, &f->last)) return false;
  }
  *out = r;
  return true;
}
/* Does another product read windows of the tensor in a way in which it cannot be kept in that type? */
static bool wanted_as_it_is(pw *p, uint32_t s, tid t) {
  const u32vec *readers = &p->readers.v[t];
  for (uint32_t i = 0; i < readers->n; i++) {
    product q;
    roles r;
    if (readers->v[i] != s && expr_roles(p->m, readers->v[i], p->a, &r) && r.cls == KC_CONTRACTION && r.window &&
        !match_product(p, readers->v[i], &q, &r))
      return true;
  }
  return false;
}
static bool match(pw *p, uint32_t s, product *q) {
  roles r;
  return match_product(p, s, q, &r) && lies_in_pairs(p, &r, q);
}

/* ---- tensors --------------------------------------------------------------------------------- */
typedef struct rounding {
  const float *from; /* floats */
  uint16_t *to;      /* gets them in the type */
  size_t n;          /* number of floats */
  etype type;        /* bf16 or f16 */
} rounding;
enum { STRETCH = 1 << 16 };
static void round_stretch(ctx *c, void *arg, uint32_t i) { /* rounds to nearest, ties to even; NaN stays NaN */
  const rounding *r = arg;
  (void)c;
  for (size_t k = (size_t)i * STRETCH, end = k + STRETCH < r->n ? k + STRETCH : r->n; k < end; k++) {
    uint32_t u;
    if (r->type == ET_F16) {
      et_store(ET_F16, r->to + k, et_load(ET_F32, r->from + k));
      continue;
    }
    memcpy(&u, r->from + k, 4); /* mapped constants may be misaligned */
    r->to[EK_PLANTED("narrow") && k ? k - 1 : k] =
        (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
}
static coding rounded(const keeper *k) { return (coding){k->p->narrow, 0}; }
static tid narrow_constant(keeper *k, tid t) {
  tid r = kept(k, t);
  if (r) return r;
  ndarray d = *expr_data(k->m, t);
  int64_t n;
  if (!nd_count(&d, &n)) return 0;
  rounding w = {(const float *)(const void *)d.data, arena_array(k->m->a, (size_t)n, 2), (size_t)n, k->p->narrow};
  par_for(k->p->c, ctx_cpus(k->p->c), (uint32_t)((w.n + STRETCH - 1) / STRETCH), round_stretch, &w);
  d.type = k->p->narrow, d.data = (uint8_t *)w.to, d.bytes = (size_t)n * 2;
  r = expr_const_tensor(k->m, &d, xt(k->m, t)->name);
  keep_constant(k, t, r, rounded(k));
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
typedef struct factors {
  keeper *k;        /* what is kept so */
  const product *q; /* the product */
} factors;
static ex read_factor(void *env, emodule *m, ex e) {
  const factors *f = env;
  for (int i = 0; i < 2; i++) {
    const narrow_factor *of = &f->q->f[i];
    if (e != of->load) continue;
    if (of->constant) return keep_read(f->k, e, narrow_constant(f->k, exn(m, e)->tensor));
    if (of->copy) return keep_read(f->k, e, of->copy);
  }
  return e;
}
/* Can the factor be had in that type? A copy of the rows' factor lies as what it is of; the other one is packed
 * anyway. */
static bool can_narrow(const keeper *k, const narrow_factor *f, bool rows) {
  const tid t = exn(k->m, f->load)->tensor;
  return f->constant || kept(k, t) || keep_can(k, t, rounded(k)) || f->last || !rows;
}
/* Of two values of the run: would one be copied of which another product reads windows as it is? That has a copy of its
 * own, with a border (pass_windows.c), which serves both; of two, each would have an order for one reader alone. */
static bool copies_own(const keeper *k, const product *q) {
  for (int j = 0; j < 2 && !q->f[1].constant; j++) {
    const tid t = exn(k->m, q->f[j].load)->tensor;
    if (!kept(k, t) && !keep_can(k, t, rounded(k)) && wanted_as_it_is(k->p, q->s, t)) return true;
  }
  return false;
}
static void narrow_it(keeper *k, const product *q, narrow_factor *f) {
  const tid t = exn(k->m, f->load)->tensor;
  if (f->constant) return;
  if (keep_can(k, t, rounded(k))) keep_stage(k, t, rounded(k));
  if (!kept(k, t) && !q->pairs) f->copy = keep_copy(k, q->s, t, rounded(k));
}
bool pass_narrow(pw *p) {
  emodule *m = p->m;
  VEC(product) all = {0};
  u32vec order = {0};
  if (!p->narrow) return false;
  keeper k = keep_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    product q;
    if (!match(p, order.v[i], &q) || copies_own(&k, &q) ||
        (!q.pairs && (!can_narrow(&k, &q.f[0], true) || !can_narrow(&k, &q.f[1], false))) || !pass_spend(p))
      continue;
    for (int j = 0; j < 2; j++) narrow_it(&k, &q, &q.f[j]);
    vec_push(p->a, all, q);
  }
  for (uint32_t i = 0; i < all.n; i++) {
    const product *q = &all.v[i];
    if (q->pairs) {
      keep_sum_in_groups(&k, q->s, (const ex[]){q->f[0].load, q->f[1].load}, q->pairs, PAIR);
      continue;
    }
    ex v = expr_rewrite(m, xs(m, all.v[i].s)->value, &(ex_map){.node = read_factor, .env = &(factors){&k, &all.v[i]}});
    xs(m, all.v[i].s)->value = v;
  }
  keep_end(&k, &order);
  return all.n > 0;
}
