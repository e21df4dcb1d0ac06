/* Do producers and readers name the same digits?
 *
 * Fusion asks whether a digit read is one variable of the reader. Forward: a reader's variable is split until the
 * digits of what it reads can be separated. Backward: a producer's digit that is read as a number with several digits
 * (q1*u + q0*v, or a chunk of it) is split likewise. Readers are element-wise stages, and reductions beside which what
 * they read can be computed: all but products. Only names change, no work. Keeps everything.
 */
#include "fusion/fusion.h"
#include "passes/pass.h"

/* May the variable be split? What a reduction runs over stays one, along which it is computed in vectors. */
static bool counts_results(pw *p, uint32_t s, atom v) { return !stage_is_reduce(p, s) || stage_has_var(p->m, s, v); }
static bool forward(pw *p, uint32_t s) {
  bool any = false;
  for (int round = 0; round < 24; round++) {
    const u32vec *l = stage_loads(p, s);
    atom sv = 0;
    sz si = 0;
    for (uint32_t i = 0; i < l->n && !sv; i++) {
      ex_node n = *exn(p->m, l->v[i]);
      uint32_t q = producer_of(p->m, n.tensor);
      if (!q || xs(p->m, q - 1)->recurrence || !xs(p->m, q - 1)->value) continue;
      sz *by = NEWN(p->a, sz, expr_ndigits(xs(p->m, q - 1)) + 1);
      if (!expr_comps(p->m, q - 1, n.args, by, &sv, &si) && sv &&
          !(counts_results(p, s, sv) && can_split(p, s, sv, si)))
        sv = 0;
    }
    if (!sv || !pass_spend(p)) break;
    stage_split(p, s, sv, si);
    any = true;
  }
  return any;
}
/* x = multiple of size + mixed radix number of variables of stage s that count its results, with product of extents
 * size: where to split the digit it is read into; 0 if there is nothing to gain */
static sz radix_split(pw *p, uint32_t s, sz x, sz extent) {
  ctx *c = p->c;
  u32vec vs = {0};
  sz one = sym_int(c, 1), size = one, rest = x, second = 0, q;
  if (sym_is_int(c, x, NULL) || one_atom(c, x) || sym_uses_kind(c, x, AT_DATA) || sym_uses_kind(c, x, AT_DIV) ||
      sym_uses_kind(c, x, AT_SEL))
    return 0;
  sym_atoms(c, x, AT_VAR, p->a, &vs);
  for (uint32_t i = 0; i < vs.n; i++)
    if (!counts_results(p, s, vs.v[i])) return 0;
  for (uint32_t done = 0; done < vs.n; done++) {
    bool found = false;
    for (uint32_t i = 0; i < vs.n && !found; i++) {
      sz coef, r;
      if (!vs.v[i] || !sym_linear(c, rest, vs.v[i], &coef, &r) || !sym_eq(c, coef, size)) continue;
      if (done == 1) second = size;
      size = sym_mul(c, size, sym_extent(c, vs.v[i]));
      rest = r, vs.v[i] = 0, found = true;
    }
    if (!found) return 0;
  }
  if (!vs.n || !sym_exact_div(c, rest, size, &q) || !sym_exact_div(c, extent, size, &q)) return 0;
  sz inner = second ? second : size;
  return sym_lt(c, one, inner) && sym_lt(c, inner, extent) && !EK_PLANTED("align") ? inner : 0;
}
/* Is a digit picked by a constant? Then the reader needs more than one place of the producer's loops and won't run
 * inside them. */
static bool chosen(pw *p, const sz *by, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (sym_is_int(p->c, by[i], NULL)) return true;
  return false;
}
static bool backward(pw *p, uint32_t s) {
  emodule *m = p->m;
  bool any = false;
  for (int round = 0; round < 24; round++) {
    const u32vec *l = stage_loads(p, s);
    uint32_t who = 0;
    atom v = 0;
    sz inner = 0;
    for (uint32_t i = 0; i < l->n && !inner; i++) {
      ex_node n = *exn(m, l->v[i]);
      uint32_t q = producer_of(m, n.tensor);
      if (!q || xs(m, q - 1)->recurrence || !xs(m, q - 1)->value || xs(m, q - 1)->updates.n) continue;
      uint32_t nd = expr_ndigits(xs(m, q - 1));
      sz *by = NEWN(p->a, sz, nd + 1);
      digit *d = NEWN(p->a, digit, nd + 1);
      if (!expr_comps(m, q - 1, n.args, by, NULL, NULL) || chosen(p, by, nd)) continue;
      expr_digits(xs(m, q - 1), d);
      for (uint32_t k = 0; k < nd && !inner; k++) {
        inner = radix_split(p, s, by[k], d[k].extent);
        if (inner && !can_split(p, q - 1, d[k].var, inner)) inner = 0;
        if (inner) who = q - 1, v = d[k].var;
      }
    }
    if (!inner || !pass_spend(p)) break;
    stage_split(p, who, v, inner);
    any = true;
  }
  return any;
}
/* Is it a reduction, but no product? */
static bool is_row(pw *p, uint32_t s) {
  roles r;
  return stage_is_reduce(p, s) && expr_roles(p->m, s, p->a, &r) && r.cls == KC_ROW;
}
static bool wanted(pw *p, uint32_t s) {
  return !xs(p->m, s)->recurrence && (stage_plain(p, s) || is_placement(p, s) || is_row(p, s));
}
bool pass_align(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++)
    if (wanted(p, order.v[i])) any |= forward(p, order.v[i]);
  for (uint32_t i = order.n; i-- > 0;)
    if (wanted(p, order.v[i])) any |= backward(p, order.v[i]);
  return any;
}
