/* When does a sum look at every a-th place only?
 *
 * A condition `(co*o + ck*k + c0) is divisible by a`, o an output variable and k one of the reduction, comes from
 * solving `o + lo == st*s + d*k` for s (strided scatters of inputs, and gradients of strided windows). For each residue
 * r of o there is exactly one residue of k for which it holds, so the stage falls apart into a pieces, o = a*o1 + r
 * with k = a*k1 + r', in which nothing is tested and the quotient is affine: ordinary windows and products. The stage
 * becomes their placement. Several such conditions (one per spatial axis) are taken together. Needs simplify; keeps
 * everything.
 */
#include "passes/pass.h"

enum { MAX_PIECES = 16, MAX_CONDS = 4, MAX_STEP = 64 };
typedef struct cond {
  atom o;     /* output variable */
  atom k;     /* reduction variable */
  int64_t a;  /* divisor */
  int64_t co; /* factor of o */
  int64_t ck; /* factor of k */
  int64_t c0; /* constant */
} cond;

/* x - a*(x//a) == 0 with one output and one reduction variable that matter? */
static bool match(pw *p, uint32_t s, const ex_node *red, ex e, cond *out) {
  ctx *c = p->c;
  ex_node q = *exn(p->m, e);
  if (q.kind != EX_OP || q.op != OP_EQ || exn(p->m, q.args[0])->kind != EX_INDEX) return false;
  sz d = exn(p->m, q.args[0])->index, arg[3];
  const ex_node *zero = exn(p->m, q.args[1]);
  u32vec divs = {0};
  if (zero->kind != EX_CONST || zero->k.i || sym_uses_kind(c, d, AT_DATA)) return false;
  sym_atoms(c, d, AT_DIV, p->a, &divs);
  if (divs.n != 1 || sym_args(c, divs.v[0], arg) < 2 || !sym_is_int(c, arg[1], &out->a) || out->a < 2 ||
      out->a > MAX_STEP)
    return false;
  sz rest = sym_sub(c, arg[0], sym_mul(c, sym_of_atom(c, divs.v[0]), arg[1]));
  if (rest != d && rest != sym_neg(c, d)) return false;
  out->o = out->k = 0, out->c0 = 0;
  for (uint32_t i = 0; i < sym_nterms(c, arg[0]); i++) {
    uint32_t n;
    const atom *at;
    const uint8_t *ex;
    int64_t k = sym_term(c, arg[0], i, &n, &at, &ex);
    if (!n) {
      out->c0 = k;
      continue;
    }
    if (k % out->a == 0) continue;
    if (n != 1 || ex[0] != 1 || sym_kind(c, at[0]) != AT_VAR || gcd64(k, out->a) != 1) return false;
    bool bound = false;
    for (uint32_t j = 0; j < red->nargs; j++) bound |= red->args[j] == at[0];
    if (bound && !out->k)
      out->k = at[0], out->ck = k;
    else if (!bound && !out->o && stage_has_var(p->m, s, at[0]))
      out->o = at[0], out->co = k;
    else
      return false;
  }
  return out->o && out->k;
}
/* As many taps as the step is long, or so many times t, none shared: with o = a*o1 + o0 the condition says k = a*t +
 * o0. One product with o0 as a further column, instead of a pieces. */
static bool whole_taps(pw *p, uint32_t s) {
  emodule *m = p->m;
  ctx *c = p->c;
  ex_node red = *exn(m, xs(m, s)->value);
  u32vec cs = {0};
  if (red.kind != EX_REDUCE || red.op != RED_SUM || !red.where) return false;
  expr_operands(p->m, red.where, OP_AND, p->a, &cs);
  for (uint32_t i = 0; i < cs.n; i++) {
    cond q;
    sz a, taps;
    if (!match(p, s, &red, cs.v[i], &q) || q.c0 % q.a || q.co + q.ck) continue;
    a = sym_int(c, q.a);
    if (!sym_exact_div(c, sym_extent(c, q.k), a, &taps) || !sym_is_int(c, taps, NULL) || !can_split(p, s, q.o, a) ||
        !pass_spend(p))
      continue;
    atom o0 = stage_split(p, s, q.o, a);
    red = *exn(m, xs(m, s)->value);
    if (!o0 || red.kind != EX_REDUCE) return true;
    atom vars[256];
    uint32_t n = 0;
    for (uint32_t k = 0; k < red.nargs; k++)
      if (red.args[k] != q.k) vars[n++] = red.args[k];
    sz t = sym_var(c, sym_name(c, q.k), taps),
       by = EK_PLANTED("strided-tap") ? sym_int(c, 0) : sym_add(c, sym_of_atom(c, o0), sym_mul(c, t, a));
    if (sym_is_atom(c, t, &vars[n])) n++;
    ex where = red.where ? expr_subst_vars(m, red.where, &q.k, &by, 1) : 0,
       body = expr_subst_vars(m, red.body, &q.k, &by, 1);
    pass_set(p, s, simplify(p, expr_reduce(m, red.op, vars, n, where, body, 0, red.acc, red.type)));
    return true;
  }
  return false;
}
static sz ceil_part(ctx *c, sz n, int64_t r, int64_t a) { return sym_ceildiv(c, sym_addi(c, n, -r), sym_int(c, a)); }

static bool split_strided(pw *p, uint32_t s) {
  emodule *m = p->m;
  ctx *c = p->c;
  const stage *x = xs(m, s);
  if (!stage_is_reduce(p, s) || x->recurrence) return false;
  ex_node red = *exn(m, x->value);
  u32vec cs = {0};
  cond k[MAX_CONDS];
  uint32_t n = 0;
  int64_t pieces = 1;
  if (!red.where || red.op != RED_SUM || red.type == ET_BOOL) return false;
  expr_operands(p->m, red.where, OP_AND, p->a, &cs);
  for (uint32_t i = 0; i < cs.n; i++) {
    cond q;
    if (!match(p, s, &red, cs.v[i], &q)) continue;
    bool again = false;
    for (uint32_t j = 0; j < n; j++) again |= k[j].o == q.o || k[j].k == q.k;
    if (again || n == MAX_CONDS) return false;
    k[n++] = q, pieces *= q.a;
  }
  if (!n || pieces > MAX_PIECES || !pass_spend(p)) return false;
  uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(p->a, digit, nd + 1);
  expr_digits(x, d);
  piece ps[MAX_PIECES];
  uint32_t np = 0;
  for (int64_t q = 0; q < pieces; q++) {
    /* residues of this piece */
    int64_t ro[MAX_CONDS], rk[MAX_CONDS], rest = q;
    bool none = false, empty = false;
    for (uint32_t i = 0; i < n; i++) {
      ro[i] = rest % k[i].a, rest /= k[i].a;
      for (rk[i] = 0; floormod64(k[i].co * ro[i] + (EK_PLANTED("strided") ? 0 : k[i].c0) + k[i].ck * rk[i], k[i].a);
           rk[i]++) {}
      int64_t e;
      none |= sym_is_int(c, sym_extent(c, k[i].o), &e) && e <= ro[i];
      empty |= sym_is_int(c, sym_extent(c, k[i].k), &e) && e <= rk[i];
    }
    if (none) continue;
    atom *from = NEWN(p->a, atom, nd + red.nargs);
    sz *to = NEWN(p->a, sz, nd + red.nargs);
    slice *of = NEWN(p->a, slice, nd + 1);
    piece *made = &ps[np];
    for (uint32_t i = 0; i < nd; i++) {
      of[i] = (slice){sym_int(c, 0), 1, d[i].extent};
      for (uint32_t j = 0; j < n; j++)
        if (k[j].o == d[i].var) of[i] = (slice){sym_int(c, ro[j]), k[j].a, ceil_part(c, d[i].extent, ro[j], k[j].a)};
    }
    split_begin(p, s, of, from, to, made);
    for (uint32_t i = 0; i < red.nargs; i++) {
      sz ext = sym_extent(c, red.args[i]);
      int64_t a = 1, r = 0;
      for (uint32_t j = 0; j < n; j++)
        if (k[j].k == red.args[i]) a = k[j].a, r = rk[j], ext = ceil_part(c, ext, r, a);
      from[nd + i] = red.args[i];
      to[nd + i] = empty ? sym_int(c, 0) : sym_addi(c, sym_muli(c, sym_var(c, sym_name(c, red.args[i]), ext), a), r);
    }
    ex value;
    if (empty)
      value = et_kind(red.type) == K_FLOAT ? expr_f(m, red.type, 0) : expr_i(m, red.type, 0);
    else
      value = simplify(p, expr_subst_vars(m, xs(m, s)->value, from, to, nd + red.nargs));
    if (made->n > MAX_RANK) return false;
    split_end(p, s, made, value, "strided");
    np++;
  }
  split_stage(p, s, ps, np);
  return true;
}
bool pass_strided(pw *p) {
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    if (xs(p->m, order.v[i])->recurrence || !stage_is_reduce(p, order.v[i])) continue;
    while (stage_is_reduce(p, order.v[i]) && whole_taps(p, order.v[i])) any = true;
    any |= split_strided(p, order.v[i]);
  }
  if (any) pass_flush(p);
  return any;
}
