/* Where does a stage read straight on?
 *
 * Borders that repeat, mirror or wind, and every other index formula with a minimum, a remainder or a choice in it, are
 * straight between a few places: there the stage falls apart into pieces with affine accesses. The places are found by
 * evaluating the formula, whatever it is made of: it must depend on one digit of known extent alone, and be straight
 * over half of it. Runs of one step each are taken greedily. Where nothing is split, a formula that is straight becomes
 * affine, too. Of open sizes: a minimum or maximum whose arms cross at one place, so that either of them makes the
 * formula affine, is split there. Needs simplified values and inlined readers; keeps everything.
 */
#include "passes/pass.h"

enum {
  MAX_RUNS = 5,
  MAX_PIECES = 32,
  MAX_EXTENT = 1 << 14,
  MIN_POINTS = 192 /* points of a piece in the mean: below, more kernels cost more than they win */
};
typedef struct run {
  int64_t first; /* first place of the digit */
  int64_t n;     /* number of places */
  int64_t at;    /* value of the formula at the first place */
  int64_t step;  /* difference of the values at two neighbouring places */
} run;           /* at, at + step, .. for the digit's places first, .. */
typedef struct breaks {
  sz index;        /* the formula */
  uint32_t digit;  /* number of the digit that it depends on */
  uint32_t n;      /* number of runs */
  run r[MAX_RUNS]; /* the runs, in order */
} breaks;

static bool value_at(void *env, atom a, int64_t *v) {
  const run *at = env; /* first: the variable; at: its value */
  if (a != (atom)at->first) return false;
  *v = at->at;
  return true;
}
/* The digit that the index formula depends on alone, bent; -1: none. */
static int64_t bent_digit(pw *p, const digit *d, uint32_t nd, sz index) {
  ctx *c = p->c;
  u32vec vs = {0}, symbols = {0};
  sz coef, rest;
  sym_atoms(c, index, AT_VAR, p->a, &vs);
  sym_atoms(c, index, AT_SYMBOL, p->a, &symbols);
  if (vs.n != 1 || symbols.n || sym_uses_kind(c, index, AT_DATA) || sym_linear(c, index, vs.v[0], &coef, &rest))
    return -1;
  for (uint32_t i = 0; i < nd; i++)
    if (d[i].var == vs.v[0]) return i;
  return -1;
}
static bool find_runs(pw *p, const digit *d, breaks *b) {
  int64_t ext, x;
  run *r = NULL;
  if (!sym_is_int(p->c, d->extent, &ext) || ext < 2 || ext > MAX_EXTENT) return false;
  for (int64_t i = 0; i < ext; i++) {
    run at = {.first = (int64_t)d->var, .at = i};
    if (!sym_eval(p->c, b->index, value_at, &at, &x)) return false;
    if (r && r->n == 1) r->step = x - r->at;
    if (r && x == r->at + r->n * r->step) {
      r->n++;
      continue;
    }
    if (b->n == MAX_RUNS) return false;
    r = &b->r[b->n++];
    *r = (run){i, 1, x, 0};
  }
  int64_t longest = 0;
  for (uint32_t i = 0; i < b->n; i++) longest = max64(longest, b->r[i].n);
  return 2 * longest >= ext;
}
/* ---- the pieces ------------------------------------------------------------------------------ */
typedef struct straight {
  const breaks *b;      /* the formulas */
  uint32_t n;           /* number of formulas */
  const digit *d;       /* digits of the stage */
  const int64_t *first; /* where the piece begins, per digit */
} straight;             /* first: where the piece begins, per digit */
static ex straightened(void *env, emodule *m, ex e) {
  const straight *q = env;
  ctx *c = m->c;
  ex_node n = *exn(m, e);
  sz idx[MAX_RANK];
  if (n.kind != EX_LOAD) return e;
  for (uint32_t i = 0; i < n.nargs; i++) {
    idx[i] = n.args[i];
    for (uint32_t k = 0; k < q->n; k++) {
      const breaks *b = &q->b[k];
      if (b->index != n.args[i]) continue;
      for (uint32_t r = 0; r < b->n; r++) {
        const run *u = &b->r[r];
        if (q->first[b->digit] < u->first || q->first[b->digit] >= u->first + u->n) continue;
        idx[i] = sym_addi(c, sym_muli(c, sym_of_atom(c, q->d[b->digit].var), u->step),
                          u->at - u->step * u->first + EK_PLANTED("piecewise"));
      }
    }
  }
  return expr_load(m, n.tensor, idx, n.nargs, n.otherwise);
}
/* Where the digit's pieces begin: at every run of every formula in it. The number of them; 0: too many. */
typedef int64_t places[MAX_PIECES];
static uint32_t cuts(const breaks *b, uint32_t n, uint32_t digit, int64_t *at) {
  uint32_t k = 1;
  at[0] = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t r = 1; r < b[i].n && b[i].digit == digit; r++) {
      uint32_t j = k;
      while (j > 0 && at[j - 1] > b[i].r[r].first) j--;
      if (at[j - 1] == b[i].r[r].first) continue;
      if (k == MAX_PIECES) return 0;
      for (uint32_t q = k++; q > j; q--) at[q] = at[q - 1];
      at[j] = b[i].r[r].first;
    }
  return k;
}
/* ---- open sizes ------------------------------------------------------------------------------ */
typedef struct crossing {
  atom pick;      /* atom of the minimum or maximum */
  uint32_t digit; /* number of the digit */
  sz at;          /* place of the digit where the arms cross */
  sz arm[2];      /* value of pick below `at`, and from there on */
} crossing;       /* pick is arm[0] below the digit's place `at`, arm[1] from there on */
static bool find_crossing(pw *p, const digit *d, uint32_t nd, sz index, crossing *x) {
  enum { MAX_PICKS = 4 }; /* each is tried with what is left of the others */
  ctx *c = p->c;
  u32vec picks = {0};
  if (!sym_uses_kind(c, index, AT_SYMBOL) || sym_uses_kind(c, index, AT_DATA)) return false;
  sym_atoms(c, index, AT_MIN, p->a, &picks);
  sym_atoms(c, index, AT_MAX, p->a, &picks);
  for (uint32_t i = 0; i < picks.n && picks.n <= MAX_PICKS; i++)
    for (uint32_t j = 0; j < nd; j++) {
      sz arm[3], coef, rest, ahead;
      int64_t k;
      if (sym_args(c, picks.v[i], arm) != 2 || !sym_linear(c, sym_sub(c, arm[0], arm[1]), d[j].var, &coef, &ahead) ||
          !sym_is_int(c, coef, &k) || !k || sym_uses_kind(c, ahead, AT_VAR))
        continue;
      bool ends = true; /* either arm makes the formula straight, or is another such */
      for (int a = 0; a < 2 && ends; a++) {
        sz left = sym_replace(c, index, picks.v[i], arm[a]);
        ends = (sym_linear(c, left, d[j].var, &coef, &rest) && sym_is_int(c, coef, NULL)) ||
               find_crossing(p, d, nd, left, x);
      }
      if (!ends) continue;
      /* the arm that is taken from the crossing on */
      int rising = k > 0 ? 0 : 1, taken = sym_kind(c, picks.v[i]) == AT_MAX ? rising : 1 - rising;
      sz at = k > 0 ? sym_ceildiv(c, sym_neg(c, ahead), sym_int(c, k)) : sym_ceildiv(c, ahead, sym_int(c, -k));
      *x = (crossing){
          picks.v[i], j, sym_max(c, sym_int(c, 0), sym_min(c, at, d[j].extent)), {arm[1 - taken], arm[taken]}};
      return true;
    }
  return false;
}
static ex replaced(void *env, emodule *m, ex e) {
  const crossing *x = env;
  ex_node n = *exn(m, e);
  sz idx[MAX_RANK];
  if (n.kind != EX_LOAD) return e;
  for (uint32_t i = 0; i < n.nargs; i++) idx[i] = sym_replace(m->c, n.args[i], x->pick, x->arm[0]);
  return expr_load(m, n.tensor, idx, n.nargs, n.otherwise);
}
static bool split_crossing(pw *p, uint32_t s, const digit *d, uint32_t nd, const crossing *x) {
  ctx *c = p->c;
  piece ps[2];
  slice *of = NEWN(p->a, slice, nd + 1);
  atom *from = NEWN(p->a, atom, nd + 1);
  sz *to = NEWN(p->a, sz, nd + 1);
  if (expr_typical(p->m, stage_points(p->m, s)) < MIN_POINTS * 2 || nd > MAX_RANK || !pass_spend(p)) return false;
  for (int k = 0; k < 2; k++) {
    crossing one = {.pick = x->pick, .arm = {x->arm[k]}};
    for (uint32_t i = 0; i < nd; i++) of[i] = (slice){sym_int(c, 0), 1, d[i].extent};
    of[x->digit] = k ? (slice){x->at, 1, sym_sub(c, d[x->digit].extent, x->at)} : (slice){sym_int(c, 0), 1, x->at};
    ex value = expr_rewrite(p->m, xs(p->m, s)->value, &(ex_map){.node = replaced, .env = &one});
    split_begin(p, s, of, from, to, &ps[k]);
    split_end(p, s, &ps[k], simplify(p, expr_subst_vars(p->m, value, from, to, nd)), "straight");
  }
  return split_stage(p, s, ps, 2);
}
static bool split_piecewise(pw *p, uint32_t s) {
  enum { MAX_BREAKS = 8 };
  emodule *m = p->m;
  ctx *c = p->c;
  uint32_t nd = expr_ndigits(xs(m, s)), n = 0, count = 1, np = 0;
  digit *d = NEWN(p->a, digit, nd + 1);
  breaks b[MAX_BREAKS];
  const u32vec *l = stage_loads(p, s);
  places *at = NEWN(p->a, places, nd + 1);
  int64_t *first = NEWN(p->a, int64_t, nd + 1);
  uint32_t *cut = NEWN(p->a, uint32_t, nd + 1), *at_run = NEWN(p->a, uint32_t, nd + 1);
  expr_digits(xs(m, s), d);
  for (uint32_t i = 0; i < l->n; i++) {
    const ex_node *x = exn(m, l->v[i]);
    for (uint32_t k = 0; k < x->nargs; k++) {
      int64_t digit = bent_digit(p, d, nd, x->args[k]);
      bool known = digit < 0;
      for (uint32_t j = 0; j < n; j++) known |= b[j].index == x->args[k];
      if (known || n == MAX_BREAKS) continue;
      b[n] = (breaks){.index = x->args[k], .digit = (uint32_t)digit};
      n += find_runs(p, &d[digit], &b[n]);
    }
  }
  for (uint32_t i = 0; i < l->n && !n; i++) {
    const ex_node *x = exn(m, l->v[i]);
    crossing at;
    for (uint32_t k = 0; k < x->nargs; k++)
      if (find_crossing(p, d, nd, x->args[k], &at)) return split_crossing(p, s, d, nd, &at);
  }
  if (!n) return false;
  for (uint32_t i = 0; i < nd; i++) {
    cut[i] = cuts(b, n, i, at[i]);
    if (!cut[i] || (count *= cut[i]) > MAX_PIECES) return false;
  }
  if ((count > 1 && expr_typical(m, stage_points(m, s)) < MIN_POINTS * (int64_t)count) || nd > MAX_RANK ||
      !pass_spend(p))
    return false;
  straight q = {b, n, d, first};
  piece *ps = NEWN(p->a, piece, count);
  do {
    slice *of = NEWN(p->a, slice, nd + 1);
    atom *from = NEWN(p->a, atom, nd + 1);
    sz *to = NEWN(p->a, sz, nd + 1);
    for (uint32_t i = 0; i < nd; i++) {
      first[i] = at[i][at_run[i]];
      of[i] = (slice){sym_int(c, first[i]), 1,
                      at_run[i] + 1 < cut[i] ? sym_int(c, at[i][at_run[i] + 1] - first[i])
                                             : sym_addi(c, d[i].extent, -first[i])};
    }
    ex value = expr_rewrite(m, xs(m, s)->value, &(ex_map){.node = straightened, .env = &q});
    if (count == 1) {
      pass_set(p, s, simplify(p, value));
      return true;
    }
    split_begin(p, s, of, from, to, &ps[np]);
    split_end(p, s, &ps[np], simplify(p, expr_subst_vars(m, value, from, to, nd)), "straight");
    np++;
    for (uint32_t i = nd; i-- > 0; at_run[i] = 0)
      if (++at_run[i] < cut[i]) break;
  } while (np < count);
  return split_stage(p, s, ps, np);
}
bool pass_piecewise(pw *p) {
  enum { ROUNDS = 4 }; /* a piece of open size may need to be split again */
  bool any = false, more = true;
  for (int round = 0; round < ROUNDS && more; round++) {
    u32vec order = {0};
    more = false;
    pass_order(p, &order);
    for (uint32_t i = 0; i < order.n; i++) {
      pass_enter(p, xs(p->m, order.v[i])->block);
      if (stage_plain(p, order.v[i]) && !xs(p->m, order.v[i])->recurrence) more |= split_piecewise(p, order.v[i]);
    }
    if (more) pass_flush(p);
    any |= more;
  }
  return any;
}
