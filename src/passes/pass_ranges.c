/* Which terms of a reduction count?
 *
 * Those inside the range that counted.c finds for the reduction's variable; range.c of expr says what a range is.
 * exp(x - m) is 0 where x is -inf, unless m is -inf, too: where no place of a row counts, all of them do (`or all`).
 * Then, in kernels of several stages, from the last one to the first: what all readers of a stage read of it in
 * their ranges is the range of the stage's own variable.
 * Runs behind the grouping into kernels, for it changes no value and nothing that kernels are chosen by.
 */
#include "passes/counted.h"

enum {
  SHORTEST = 32, /* values of a variable that are worth a range */
  SAMPLES = 8,   /* places of each variable that are tried for the part that counts */
  MOST_LEFT = 7  /* eighths: where no more is left, leaving the rest out is worth it */
};

/* ---- is it worth it? ------------------------------------------------------------------------- */
typedef struct sample {
  emodule *m;         /* the module */
  const u32vec *vars; /* variables that get values */
  uint32_t number;    /* number of the sample */
} sample;
static bool sampled(void *env, atom a, int64_t *v) {
  const sample *s = env;
  ctx *c = s->m->c;
  uint32_t digit = s->number;
  if (sym_kind(c, a) == AT_SYMBOL) return *v = expr_typical(s->m, sym_of_atom(c, a)), true;
  for (uint32_t i = 0; i < s->vars->n; i++, digit /= SAMPLES)
    if (s->vars->v[i] == a)
      return *v = (2 * (digit % SAMPLES) + 1) * expr_typical(s->m, sym_extent(c, a)) / (2 * SAMPLES), true;
  return false;
}
/* The part of the variable's values that a range has, on average; -1: data say. */
static double part_left(pw *p, atom var, const xrange *r) {
  u32vec vars = {0};
  double sum = 0;
  uint32_t n = 1;
  int64_t lo, hi, ext = max64(1, expr_typical(p->m, sym_extent(p->c, var)));
  sym_atoms(p->c, r->lo, AT_VAR, p->a, &vars), sym_atoms(p->c, r->hi, AT_VAR, p->a, &vars);
  if (vars.n > 3) return -1;
  for (uint32_t i = 0; i < vars.n; i++) n *= SAMPLES;
  for (uint32_t i = 0; i < n; i++) {
    sample s = {p->m, &vars, i};
    if (!sym_eval(p->c, r->lo, sampled, &s, &lo) || !sym_eval(p->c, r->hi, sampled, &s, &hi)) return -1;
    lo = max64(lo, 0), hi = min64(hi, ext);
    sum += hi > lo ? (double)(hi - lo) : r->all ? (double)ext : 0;
  }
  return sum / n / (double)ext;
}
/* Is there a place inside for every place of the stage? */
static bool never_empty(emodule *m, uint32_t s, const xrange *r, sz extent) {
  ctx *c = m->c;
  uint32_t mark = sym_mark(c);
  bool all = true;
  sz lo[RANGE_PARTS + 1], hi[RANGE_PARTS + 1];
  uint32_t n = expr_range_parts(c, r->lo, true, lo), k = expr_range_parts(c, r->hi, false, hi);
  lo[n++] = sym_int(c, 0), hi[k++] = extent;
  for (uint32_t i = 0; i < xs(m, s)->naxes; i++) /* every axis has places */
    for (uint32_t j = 0; j < xs(m, s)->axes[i].n; j++) sym_push(c, sym_addi(c, xs(m, s)->axes[i].d[j].extent, -1));
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < k; j++) all = all && sym_lt(c, lo[i], hi[j]);
  sym_pop(c, mark);
  return all;
}
static bool set_range(pw *p, uint32_t s, atom var, span x) {
  ctx *c = p->c;
  sz ext = sym_extent(c, var);
  xrange r = {.lo = x.lo ? x.lo : sym_int(c, 0), .hi = x.hi ? x.hi : ext, .all = x.all};
  if (r.all && (EK_PLANTED("ranges-empty") || never_empty(p->m, s, &r, ext))) r.all = false;
  double left = part_left(p, var, &r);
  if (left * 8 > MOST_LEFT || !pass_spend(p)) return false;
  if (left >= 0) xs(p->m, s)->idle = 1 - left;
  expr_set_range(p->m, var, r);
  return true;
}

/* ---- stages ---------------------------------------------------------------------------------- */
static bool reduce_ranges(pw *p, uint32_t s) {
  const ex_node n = *exn(p->m, xs(p->m, s)->value);
  bool any = false;
  if (n.op != RED_SUM && n.op != RED_MAX) return false;
  nothing what = n.op == RED_SUM ? ZERO : LOWEST;
  for (uint32_t i = 0; i < n.nargs; i++) {
    finder f = {.p = p, .m = p->m, .c = p->c, .var = n.args[i], .stage = s, .kernel = xs(p->m, s)->kernel};
    if (sym_int_or(p->c, sym_extent(p->c, f.var), SHORTEST) < SHORTEST) continue;
    span x = counted(&f, n.body, what);
    f.finite = !p->strict;
    if (f.finite) {
      span y = counted(&f, n.body, what);
      y.all = true;
      if (!x.lo && !x.hi && (y.lo || y.hi) && y.some) x = y;
    }
    if (n.where) x = counted_both(&f, x, counted_where(&f, n.where));
    if (!x.none && (x.lo || x.hi)) any |= set_range(p, s, f.var, x);
  }
  return any;
}
/* The range of a digit by what one reader reads of it there: the reader's, in the stage's own variables. */
static bool read_range(pw *p, uint32_t s, ex load, uint32_t which, xrange *out) {
  emodule *m = p->m;
  uint32_t nd = expr_ndigits(xs(m, s)), n = 0;
  digit *d = NEWN(p->a, digit, nd + 1);
  sz *by = NEWN(p->a, sz, nd + 1), *to = NEWN(p->a, sz, nd + 1);
  atom *from = NEWN(p->a, atom, nd + 1), a;
  u32vec used = {0};
  if (exn(m, load)->otherwise || !expr_comps(m, s, exn(m, load)->args, by, NULL, NULL) ||
      !sym_is_atom(p->c, by[which], &a))
    return false;
  const xrange *r = expr_range(m, a);
  if (!r) return false;
  expr_digits(xs(m, s), d);
  for (uint32_t i = 0; i < nd; i++)
    if (i != which && sym_is_atom(p->c, by[i], &a) && sym_kind(p->c, a) == AT_VAR)
      from[n] = a, to[n++] = sym_of_atom(p->c, d[i].var);
  sz bound[2] = {r->lo, r->hi};
  for (int q = 0; q < 2; q++) {
    expr_vars(m, expr_index(m, bound[q]), p->a, &used);
    bound[q] = expr_as_size(m, expr_subst_vars(m, expr_index(m, bound[q]), from, to, n));
  }
  for (uint32_t i = 0; i < used.n; i++) {
    bool mapped = false;
    for (uint32_t k = 0; k < n; k++) mapped |= from[k] == used.v[i];
    if (!mapped) return false;
  }
  *out = (xrange){bound[0], bound[1], r->all};
  return true;
}
static bool axis_range(pw *p, uint32_t s, uint32_t which, atom var) {
  emodule *m = p->m;
  tid t = xs(m, s)->tensor;
  const u32vec *readers = &p->readers.v[t];
  finder f = {.p = p, .m = m, .c = p->c, .var = var, .stage = s};
  xrange all = {0};
  for (uint32_t i = 0; i < readers->n; i++) {
    const u32vec *loads = stage_loads(p, readers->v[i]);
    if (xs(m, readers->v[i])->kernel != xs(m, s)->kernel) return false;
    for (uint32_t k = 0; k < loads->n; k++) {
      xrange r;
      if (exn(m, loads->v[k])->tensor != t) continue;
      if (!read_range(p, s, loads->v[k], which, &r)) return false;
      if (!all.lo) {
        all = r;
        continue;
      }
      all.all |= r.all;
      if (r.lo == all.lo && r.hi == all.hi) continue;
      if (all.all) return false; /* where one is empty the other one need not be */
      all.lo = counted_shared(&f, all.lo, r.lo, true), all.hi = counted_shared(&f, all.hi, r.hi, false);
      if (!all.lo) all.lo = sym_int(p->c, 0);
      if (!all.hi) all.hi = sym_extent(p->c, var);
    }
  }
  return all.lo && set_range(p, s, var, (span){.lo = all.lo, .hi = all.hi, .all = all.all});
}
static bool skips(kernel_class k) {
  return k == KC_ROW || k == KC_CONTRACTION || k == KC_MATVEC || k == KC_COMPOSITE || k == KC_BLOCKS;
}
/* What of the kernel's work is skipped, for reports. */
static void note(pw *p, kernel *k) {
  double most = 0;
  bool any = false;
  for (uint32_t i = 0; i < k->stages.n; i++) {
    const stage *s = xs(p->m, k->stages.v[i]);
    const ex_node *n = s->value ? exn(p->m, s->value) : NULL;
    for (uint32_t j = 0; n && n->kind == EX_REDUCE && j < n->nargs; j++) any |= expr_range(p->m, n->args[j]) != NULL;
    if (s->idle > most) most = s->idle;
  }
  const char *text = most > 0 ? arena_fmt(p->m->a, "skips %.0f%%", 100 * most) : "skips what data say";
  if (any) k->note = k->note ? arena_fmt(p->m->a, "%s, %s", k->note, text) : text;
}
bool pass_ranges(pw *p) {
  emodule *m = p->m;
  bool any = false;
  for (uint32_t i = 0; i < m->kernels.n; i++) {
    kernel *k = &m->kernels.v[i];
    if (k->dead || !skips(k->cls)) continue;
    pass_enter(p, k->block);
    for (uint32_t j = 0; j < k->stages.n; j++)
      if (stage_is_reduce(p, k->stages.v[j])) any |= reduce_ranges(p, k->stages.v[j]);
    for (uint32_t j = k->stages.n; j-- > 0 && k->stages.n > 1;) {
      uint32_t s = k->stages.v[j];
      digit *d = NEWN(p->a, digit, expr_ndigits(xs(m, s)) + 1);
      if (!xs(m, s)->value || xs(m, s)->updates.n || xs(m, s)->recurrence || p->pinned.v[xs(m, s)->tensor]) continue;
      expr_digits(xs(m, s), d);
      for (uint32_t q = 0; q < expr_ndigits(xs(m, s)); q++) {
        uint64_t canon = d[q].var;
        map_getu(k->canon, d[q].var, &canon);
        if (!vec_has(&k->outer, (atom)canon)) any |= axis_range(p, s, q, d[q].var);
      }
    }
    note(p, k);
  }
  return any;
}
