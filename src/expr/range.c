/* Which values of a variable count?
 *
 * A range lo..hi-1 of a variable says that nothing comes of the others: terms of a reduction are its identity there,
 * and what a stage has there no term that counts reads. So it may be left out, and need not be: a
 * schedule leaves out what fills whole tiles. The bounds are sizes over other variables of the same stage, also read
 * from data; a bound may be the greatest of several, or the least.
 */
#include "expr/expr.h"

void expr_set_range(emodule *m, atom var, xrange r) {
  uint64_t at;
  if (!m->range_of) m->range_of = map_new(m->a);
  if (map_getu(m->range_of, var, &at)) {
    m->ranges.v[at] = r;
    return;
  }
  map_putu(m->range_of, var, m->ranges.n);
  vec_push(m->a, m->ranges, r);
}
const xrange *expr_range(const emodule *m, atom var) {
  uint64_t at;
  return m->range_of && map_getu(m->range_of, var, &at) ? &m->ranges.v[at] : NULL;
}
static void parts(ctx *c, sz bound, atom_kind kind, sz *out, uint32_t *n) {
  atom a;
  sz of[3];
  if (*n + 2 <= RANGE_PARTS && sym_is_atom(c, bound, &a) && sym_kind(c, a) == kind) {
    sym_args(c, a, of);
    parts(c, of[0], kind, out, n), parts(c, of[1], kind, out, n);
  } else if (*n < RANGE_PARTS)
    out[(*n)++] = bound;
}
uint32_t expr_range_parts(ctx *c, sz bound, bool lower, sz out[RANGE_PARTS]) {
  uint32_t n = 0;
  parts(c, bound, lower ? AT_MAX : AT_MIN, out, &n);
  return n;
}
static ex not_below(emodule *m, sz a) { /* a >= 0 */
  return expr_op2(m, OP_GE, expr_index(m, a), expr_i(m, ET_I64, 0));
}
ex expr_in_range(emodule *m, atom var) {
  const xrange *r = expr_range(m, var);
  ctx *c = m->c;
  if (!r) return 0;
  sz v = sym_of_atom(c, var), last = sym_addi(c, r->hi, -1);
  ex in = expr_op2(m, OP_AND, not_below(m, sym_sub(c, v, r->lo)), not_below(m, sym_sub(c, last, v)));
  sz end = sym_addi(c, sym_extent(c, var), -1), zero = sym_int(c, 0);
  return r->all ? expr_op2(m, OP_OR, in, not_below(m, sym_sub(c, sym_max(c, r->lo, zero), sym_min(c, last, end)))) : in;
}
