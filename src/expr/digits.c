/* Which digits of a stage does an access read, and how large is a size that is not known yet?
 *
 * An axis of several digits is a number of mixed radix: an index into it is divided by the extents of its digits, from
 * the innermost one on. That is exact or fails; nothing is guessed. */
#include "expr/expr.h"

uint32_t expr_ndigits(const stage *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->naxes; i++) n += s->axes[i].n;
  return n;
}
void expr_digits(const stage *s, digit *out) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t k = 0; k < s->axes[i].n; k++) *out++ = s->axes[i].d[k];
}
bool expr_comps(emodule *m, uint32_t producer, const sz *idx, sz *out, atom *split_var, sz *split_inner) {
  const stage *x = xs(m, producer);
  uint32_t at = 0;
  if (split_var) *split_var = 0;
  for (uint32_t i = 0; i < x->naxes; at += x->axes[i].n, i++) {
    sz rem = idx[i];
    for (uint32_t k = x->axes[i].n; k-- > 1;) {
      sz q, r, si = 0;
      atom sv = 0;
      if (!sym_divmod(m->c, rem, x->axes[i].d[k].extent, &q, &r, &sv, &si)) {
        if (split_var) *split_var = sv, *split_inner = si;
        return false;
      }
      out[at + k] = r, rem = q;
    }
    if (x->axes[i].n) out[at] = rem;
  }
  return true;
}

ex expr_at(emodule *m, uint32_t s, const sz *idx, ex e) {
  const stage *x = xs(m, s);
  const uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(m->a, digit, nd + 1);
  sz *by = NEWN(m->a, sz, nd + 1);
  atom *vars = NEWN(m->a, atom, nd + 1);
  expr_digits(x, d);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  return expr_comps(m, s, idx, by, NULL, NULL) ? expr_subst_vars(m, e, vars, by, nd) : 0;
}
ex expr_written_in(emodule *m, ex load) {
  const ex_node n = *exn(m, load);
  const tensor *t = xt(m, n.tensor);
  if (t->kind != TK_STAGE || n.otherwise) return 0;
  const stage *s = xs(m, t->stage);
  return s->value && !s->updates.n && !s->recurrence ? expr_at(m, t->stage, n.args, s->value) : 0;
}

typedef struct guess {
  ctx *c; /* context */
} guess;
static bool guess_atom(void *env, atom a, int64_t *v) {
  ctx *c = ((guess *)env)->c;
  int64_t lo, hi, k;
  sym_range(c, sym_of_atom(c, a), &lo, &hi);
  *v = sym_kind(c, a) == AT_SYMBOL ? 512 : 0;
  if (sym_kind(c, a) == AT_VAR && sym_is_int(c, sym_extent(c, a), &k)) *v = k / 2;
  if (hi != SYM_INF && *v > hi) *v = hi;
  if (lo != -SYM_INF && *v < lo) *v = lo;
  return true;
}
int64_t expr_typical(emodule *m, sz e) {
  int64_t v;
  guess g = {m->c};
  if (sym_is_int(m->c, e, &v)) return min64(v, INT64_C(1) << 62);
  if (!sym_eval(m->c, e, guess_atom, &g, &v)) return INT64_C(1) << 30;
  return min64(v, INT64_C(1) << 62);
}
