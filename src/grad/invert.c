/* Where does an element of X get its adjoint from? Inverting index maps (R3).
 *
 * A contribution says: for all points v, adjoint of X[f(v)] += d(v) * g(v). Here the equations x = f(v), one per axis,
 * are solved for variables of v, so that the contribution becomes a gather: a value over x, in which the variables that
 * stay unknown are summed over. An affine index c1*v1 + c2*v2 + .. + r
 * is solved, in this order of preference, by digits    the terms are digits of a mixed
 * radix number: the axis of the adjoint gets these digits, or v_i = (x - r) // c_i % extent shift     a
 * coefficient of 1 or -1: v = x - rest; of several the variable with the longest range residues s*v + d*w + r with s >
 * 1 (strided windows): with g = gcd(s, d), s = g*s', d = g*d', d' = 1 mod s': x - r = g*(s'*u + q), w = s'*j + q, v = u
 * - d'*j - q*(d' - 1)/s'. The adjoint is computed densely
 * over the digits (u, q), j summed over, and read at (x - r) / g: no test of divisibility remains division  v =
 * (x - rest) // s where that divides Several axes whose // and % cancel in the flat index (reshape) are solved as one;
 * else a variable under // is split in two. An index that fixes x keeps the equation as a condition.
 *
 * The range of a solved variable is proved, or becomes the `else 0` of a factor that reads at the variable
 * itself, if nothing else needs it; otherwise a condition. Conditions that no summed variable
 * occurs in stand outside the sum. A gather that takes many times as many points as the contribution has (an
 * index from data: x == J[v] for all v) is not made: it is better scattered.
 */
#include "grad/grad_in.h"
#include "expr/expr.h"
#include <math.h>
#include <string.h>

enum { MAX_UNKNOWNS = 128, MAX_SPLITS = 8, GATHER_COST = 16 };

/* ---- sizes with data inside ------------------------------------------------------------------ */
void size_free(gr *g, sz s, u32vec *vars) {
  u32vec fv = {0};
  if (sym_uses_kind(g->c, s, AT_DATA))
    expr_vars(g->m, expr_index(g->m, s), g->a, &fv);
  else
    sym_atoms(g->c, s, AT_VAR, g->a, &fv);
  for (uint32_t i = 0; i < fv.n; i++)
    if (!vec_has(vars, fv.v[i])) vec_push(g->a, *vars, fv.v[i]);
}
sz size_subst(gr *g, sz s, const atom *vars, const sz *by, uint32_t n) {
  if (!n || sym_is_int(g->c, s, NULL)) return s;
  if (!sym_uses_kind(g->c, s, AT_DATA)) return sym_subst_atoms(g->c, s, vars, by, n);
  return expr_as_size(g->m, expr_subst_vars(g->m, expr_index(g->m, s), vars, by, n));
}

/* ---- the system of equations ----------------------------------------------------------------- */
/* An unknown: a variable of the contribution. */
typedef struct unk {
  atom v;     /* the variable */
  sz ext;     /* number of its values */
  sz to;      /* its value over x's variables; 0: not known yet */
  bool guard; /* 0 <= to < ext must be checked */
  bool ours;  /* a variable that the inversion made */
} unk;
/* An equation e(unknowns) = rhs. */
typedef struct eq {
  sz e;         /* left side, over unknowns */
  sz rhs;       /* right side, over x's variables */
  sz size;      /* size of the axis */
  sz was;       /* e before anything was solved */
  int32_t axis; /* axis of x; -1: of several axes */
  bool done;    /* solved */
} eq;
typedef struct inv {
  gr *g;                /* differentiation */
  emodule *m;           /* the module */
  ctx *c;               /* context */
  const contrib *k;     /* the contribution */
  const frame_u *f;     /* recurrence that it stays inside of; NULL: none */
  gathered *out;        /* the result */
  unk u[MAX_UNKNOWNS];  /* the unknowns */
  uint32_t nu;          /* number of unknowns */
  eq q[MAX_RANK + 1];   /* the equations */
  uint32_t nq;          /* number of equations */
  VEC(ex) conds;        /* conditions under which a point counts */
  bool compact;         /* index spaces of their own are wanted */
  bool could;           /* an index space of its own would have helped */
  bool fixed[MAX_RANK]; /* per axis of x: the equation leaves no freedom */
} inv;

static int32_t unknown(const inv *z, atom a) {
  for (uint32_t i = 0; i < z->nu; i++)
    if (z->u[i].v == a && !z->u[i].to) return (int32_t)i;
  return -1;
}
static void set(inv *z, uint32_t i, sz to, bool guard) {
  atom v = z->u[i].v;
  for (uint32_t k = 0; k < z->nu; k++)
    if (z->u[k].to) z->u[k].to = size_subst(z->g, z->u[k].to, &v, &to, 1);
  for (uint32_t k = 0; k < z->nq; k++) z->q[k].e = size_subst(z->g, z->q[k].e, &v, &to, 1);
  z->u[i].to = to, z->u[i].guard = guard;
}
static sz add_unknown(inv *z, const char *name, sz ext) {
  sz s = sym_var(z->c, name, ext);
  atom a;
  if (!sym_is_atom(z->c, s, &a)) return s;
  if (z->nu == MAX_UNKNOWNS) grad_refuse(z->g, z->k->origin, "an index over more than %d variables", MAX_UNKNOWNS);
  z->u[z->nu++] = (unk){.v = a, .ext = ext, .ours = true};
  return s;
}
static bool unknown_below(inv *z, sz s) {
  u32vec fv = {0};
  size_free(z->g, s, &fv);
  for (uint32_t i = 0; i < fv.n; i++)
    if (unknown(z, fv.v[i]) >= 0) return true;
  return false;
}
static bool any_var(inv *z, sz s) {
  u32vec fv = {0};
  size_free(z->g, s, &fv);
  return fv.n > 0;
}
static uint32_t divs(inv *z, sz e) { /* floor divisions of unknowns */
  u32vec d = {0};
  uint32_t n = 0;
  sym_atoms(z->c, e, AT_DIV, z->g->a, &d);
  for (uint32_t i = 0; i < d.n; i++) n += unknown_below(z, sym_of_atom(z->c, d.v[i]));
  return n;
}
static ex compare(inv *z, sop op, sz a, sz b) { return expr_op2(z->m, op, expr_index(z->m, a), expr_index(z->m, b)); }
static sz zero(inv *z) { return sym_int(z->c, 0); }

/* ---- removing // ----------------------------------------------------------------------------- */
static void flatten(inv *z) {
  sz e = zero(z), rhs = zero(z), size = sym_int(z->c, 1);
  bool in[MAX_RANK + 1] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < z->nq; i++)
    if (divs(z, z->q[i].e)) in[i] = true, n++;
  if (!n) return;
  for (uint32_t i = 0; i < z->nq; i++) {
    eq *q = &z->q[i];
    if (!in[i]) continue;
    if (z->k->guarded && !(sym_ge0(z->c, q->e) && sym_lt(z->c, q->e, q->size))) return;
    e = sym_add(z->c, sym_mul(z->c, e, q->size), q->e), rhs = sym_add(z->c, sym_mul(z->c, rhs, q->size), q->rhs),
    size = sym_mul(z->c, size, q->size);
  }
  if (divs(z, e)) return;
  for (uint32_t i = 0; i < z->nq; i++) z->q[i].done |= in[i];
  z->q[z->nq++] = (eq){.e = e, .rhs = rhs, .size = size, .was = e, .axis = -1};
}
static bool split_one(inv *z) {
  for (uint32_t i = 0; i < z->nq; i++) {
    u32vec d = {0};
    uint32_t before = z->q[i].done ? 0 : divs(z, z->q[i].e);
    if (!before) continue;
    sym_atoms(z->c, z->q[i].e, AT_DIV, z->g->a, &d);
    for (uint32_t k = 0; k < d.n; k++) {
      sz arg[3], coef, rest, inner;
      u32vec fv = {0};
      sym_args(z->c, d.v[k], arg);
      size_free(z->g, arg[0], &fv);
      for (uint32_t j = 0; j < fv.n; j++) {
        int32_t at = unknown(z, fv.v[j]);
        if (at < 0 || !sym_linear(z->c, arg[0], fv.v[j], &coef, &rest) || !sym_ge0(z->c, sym_addi(z->c, coef, -1)))
          continue;
        if (!sym_exact_div(z->c, arg[1], coef, &inner) || sym_int_or(z->c, inner, 0) == 1 ||
            sym_le(z->c, z->u[at].ext, inner))
          continue;
        sz outer = add_unknown(z, sym_name(z->c, fv.v[j]), sym_ceildiv(z->c, z->u[at].ext, inner)),
           low = add_unknown(z, sym_name(z->c, fv.v[j]), inner);
        sz to = sym_add(z->c, sym_mul(z->c, outer, inner), low), now = size_subst(z->g, z->q[i].e, &fv.v[j], &to, 1),
           whole;
        if (divs(z, now) >= before) {
          z->nu -= sym_is_int(z->c, low, NULL) ? 1 : 2;
          continue;
        }
        set(z, (uint32_t)at, to, !sym_exact_div(z->c, z->u[at].ext, inner, &whole));
        return true;
      }
    }
  }
  return false;
}

/* ---- solving one equation -------------------------------------------------------------------- */
/* A left side, split by how the unknowns occur in it. */
typedef struct lin {
  uint32_t n;               /* number of unknowns that occur linearly */
  uint32_t u[MAX_UNKNOWNS]; /* their indices */
  sz coef[MAX_UNKNOWNS];    /* their coefficients */
  bool data;                /* other unknowns occur, but only inside data */
  bool stuck;               /* other unknowns occur elsewhere */
  sz rest;                  /* what is left without them */
} lin;

static lin study(inv *z, sz e) {
  lin l = {.rest = e};
  u32vec fv = {0}, data = {0}, hidden = {0};
  size_free(z->g, e, &fv);
  sym_atoms(z->c, e, AT_DATA, z->g->a, &data);
  for (uint32_t i = 0; i < data.n; i++) expr_vars(z->m, sym_data_id(z->c, data.v[i]), z->g->a, &hidden);
  for (uint32_t i = 0; i < fv.n; i++) {
    int32_t at = unknown(z, fv.v[i]);
    sz coef, rest;
    if (at < 0) continue;
    if (vec_has(&hidden, fv.v[i]))
      l.data = true;
    else if (sym_linear(z->c, l.rest, fv.v[i], &coef, &rest) && !any_var(z, coef))
      l.u[l.n] = (uint32_t)at, l.coef[l.n++] = coef, l.rest = rest;
    else
      l.stuck = true;
  }
  return l;
}
/* coefficients 1, e0, e0*e1, ..: order[] from the innermost */
static bool is_chain(inv *z, const lin *l, uint32_t *order, sz *span) {
  bool used[MAX_UNKNOWNS] = {0};
  *span = sym_int(z->c, 1);
  if (l->data || l->stuck) return false;
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t k = 0;
    while (k < l->n && (used[k] || !sym_eq(z->c, l->coef[k], *span))) k++;
    if (k == l->n) return false;
    used[k] = true, order[i] = k;
    *span = sym_mul(z->c, *span, z->u[l->u[k]].ext);
  }
  return true;
}
static void own_axis(inv *z, const eq *q, const digit *d, uint32_t n, sz size, sz back) {
  z->out->axes[q->axis] = (axis){n, n ? arena_dup(z->m->a, d, n * sizeof *d) : NULL};
  z->out->shape[q->axis] = size;
  z->out->plain = false;
  if (back) z->out->back[q->axis] = back, z->out->compact = true;
}
static void solve_chain(inv *z, const eq *q, const lin *l, const uint32_t *order, sz span) {
  bool perfect = q->axis >= 0 && sym_int_or(z->c, l->rest, 1) == 0 && sym_eq(z->c, span, q->size);
  sz y = sym_sub(z->c, q->rhs, l->rest);
  if (q->axis >= 0 && !perfect) z->could = true;
  if (perfect || (z->compact && q->axis >= 0 && !any_var(z, l->rest))) {
    digit d[MAX_UNKNOWNS];
    for (uint32_t i = 0; i < l->n; i++) { /* outermost first */
      uint32_t at = l->u[order[l->n - 1 - i]];
      sz v = sym_var(z->c, sym_name(z->c, z->u[at].v), z->u[at].ext);
      d[i].extent = z->u[at].ext;
      sym_is_atom(z->c, v, &d[i].var);
      set(z, at, v, false);
    }
    own_axis(z, q, d, l->n, span, perfect ? 0 : y);
    return;
  }
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t at = l->u[order[i]];
    sz v = sym_div(z->c, y, l->coef[order[i]]);
    bool last = i + 1 == l->n;
    set(z, at, last ? v : sym_mod(z->c, v, z->u[at].ext), last);
  }
}
/* Is it s*v + d*w + r, or s*v + r alone, with an index space of its own? *sp = s / gcd, *dp = d / gcd */
static bool has_residues(inv *z, const eq *q, const lin *l, uint32_t iv, int64_t *sp, int64_t *dp) {
  int64_t s, d = 0, g;
  if (q->axis < 0 || l->n > 2 || l->data || l->stuck || !sym_is_int(z->c, l->coef[iv], &s) || s < 2 ||
      any_var(z, l->rest))
    return false;
  if (l->n == 2 && (!sym_is_int(z->c, l->coef[1 - iv], &d) || d < 1)) return false;
  g = gcd64(s, d), *sp = s / g, *dp = d / g;
  return l->n == 1 || (*dp - 1) % *sp == 0;
}
/* May the digits (u, q) be those of x itself, x = s'*u + q? With t = -r, s'*v + d'*w = s'*u + q + t. Where s' divides
 * t, w = s'*j + q; where s' = 2 and t is odd, w = 2*j + 1 - q. Then no place of the index space is without an x. */
static bool residues_of_x(inv *z, const eq *q, const lin *l, int64_t sp) {
  int64_t r;
  atom x;
  return sym_is_atom(z->c, q->rhs, &x) && sym_is_int(z->c, l->rest, &r) && (r % sp == 0 || sp == 2);
}
static void set_residues_of_x(inv *z, const lin *l, uint32_t iv, sz u, sz r) {
  ctx *c = z->c;
  const uint32_t v = l->u[iv], w = l->u[1 - iv];
  const int64_t sp = sym_int_or(c, l->coef[iv], 1), dp = sym_int_or(c, l->coef[1 - iv], 1),
                t = -sym_int_or(c, l->rest, 0);
  const bool mirrored = t % sp != 0;
  const sz steps = sym_ceildiv(c, z->u[w].ext, sym_int(c, sp)), j = add_unknown(z, sym_name(c, z->u[w].v), steps),
           first = mirrored ? sym_sub(c, sym_int(c, 1), r) : r;
  const bool fits = sym_eq(c, sym_muli(c, steps, sp), z->u[w].ext);
  /* v = (s'*u + q + t - d'*w) / s' */
  const sz rest = mirrored ? sym_addi(c, sym_muli(c, r, (1 + dp) / 2), (t - dp) / 2)
                           : sym_addi(c, sym_muli(c, r, (1 - dp) / sp), t / sp);
  set(z, w, sym_add(c, sym_muli(c, j, sp), first), !fits);
  set(z, v, sym_add(c, sym_sub(c, u, sym_muli(c, j, dp)), rest), true);
}
static bool solve_residues(inv *z, const eq *q, const lin *l, uint32_t iv) {
  int64_t sp, dp;
  uint32_t iw = l->n == 2 ? 1 - iv : iv;
  if (!has_residues(z, q, l, iv, &sp, &dp)) return false;
  int64_t s = sym_int_or(z->c, l->coef[iv], 1), g = s / sp;
  sz y = sym_sub(z->c, q->rhs, l->rest), top = sym_sub(z->c, sym_addi(z->c, q->size, -1), l->rest);
  if (!sym_ge0(z->c, top)) return false;
  if (!z->compact) {
    z->could = true;
    return false;
  }
  uint32_t v = l->u[iv], w = l->u[iw], n = 0;
  digit dg[2];
  const bool own = l->n == 2 && g == 1 && residues_of_x(z, q, l, sp);
  sz ue = l->n == 1 ? z->u[v].ext
          : own     ? sym_ceildiv(z->c, q->size, sym_int(z->c, sp))
                    : sym_addi(z->c, sym_div(z->c, top, sym_int(z->c, g * sp)), 1),
     re = sym_int(z->c, l->n == 1 ? 1 : sp);
  sz u = sym_var(z->c, sym_name(z->c, z->u[v].v), ue), r = sym_var(z->c, "q", re);
  if (sym_is_atom(z->c, u, &dg[n].var)) dg[n++].extent = ue;
  if (sym_is_atom(z->c, r, &dg[n].var)) dg[n++].extent = re;
  if (own) {
    set_residues_of_x(z, l, iv, u, r);
    const sz all = sym_mul(z->c, ue, re);
    own_axis(z, q, dg, n, all, sym_eq(z->c, all, q->size) ? 0 : q->rhs);
    return true;
  }
  if (l->n == 2) {
    sz steps = sym_ceildiv(z->c, z->u[w].ext, re), j = add_unknown(z, sym_name(z->c, z->u[w].v), steps);
    set(z, w, sym_add(z->c, sym_muli(z->c, j, sp), r), !sym_eq(z->c, sym_muli(z->c, steps, sp), z->u[w].ext));
    set(z, v, sym_sub(z->c, sym_sub(z->c, u, sym_muli(z->c, j, dp)), sym_muli(z->c, r, (dp - 1) / sp)), true);
  } else {
    set(z, v, u, false);
    g = s;
  }
  sz back = sym_div(z->c, y, sym_int(z->c, g));
  own_axis(z, q, dg, n, sym_mul(z->c, ue, re), back);
  if (g > 1 && !EK_PLANTED("grad-residue"))
    z->out->back_cond =
        k_and(z->m, z->out->back_cond, compare(z, OP_EQ, sym_sub(z->c, y, sym_muli(z->c, back, g)), zero(z)));
  return true;
}
static bool solve(inv *z, uint32_t iq) {
  eq *q = &z->q[iq];
  lin l = study(z, q->e);
  uint32_t order[MAX_UNKNOWNS], best = 0;
  sz span;
  int64_t k = 0;
  q->done = true;
  if (l.stuck) return false;
  if (!l.n) { /* x is fixed, or compared with data */
    if (sym_ne(z->c, q->rhs, q->e))
      z->out->empty = true;
    else if (!sym_eq(z->c, q->rhs, q->e)) {
      vec_push(z->g->a, z->conds, compare(z, OP_EQ, q->rhs, q->was));
      if (q->axis >= 0 && !l.data) z->fixed[q->axis] = true;
    }
    return true;
  }
  if (l.n > 1 && is_chain(z, &l, order, &span)) {
    solve_chain(z, q, &l, order, span);
    return true;
  }
  double most = -1;
  for (uint32_t i = 0; i < l.n; i++) { /* which variable's loop is worth most? */
    int64_t c = 0;
    if (!sym_is_int(z->c, l.coef[i], &c) && !sym_ge0(z->c, sym_addi(z->c, l.coef[i], -1))) continue;
    /* solved by residues, one in s' steps of the other variable is left; by division, all are */
    int64_t sp, dp;
    const bool residues = has_residues(z, q, &l, i, &sp, &dp);
    double gain = (double)expr_typical(z->m, z->u[l.u[i]].ext) * (residues ? (double)sp : c ? 1 / fabs((double)c) : 1);
    if (gain > most) most = gain, best = i, k = c;
  }
  if (most < 0) return false;
  uint32_t at = l.u[best];
  sz rest = size_subst(z->g, q->e, &z->u[at].v, &(sz){zero(z)}, 1),
     num = k < 0 ? sym_sub(z->c, rest, q->rhs) : sym_sub(z->c, q->rhs, rest);
  if (k == 1 || k == -1) {
    bool same = k == 1 && num == q->rhs && sym_eq(z->c, q->size, z->u[at].ext);
    set(z, at, num, !same);
    return true;
  }
  if (solve_residues(z, q, &l, best)) return true;
  sz s = k ? sym_int(z->c, k < 0 ? -k : k) : l.coef[best], v = sym_div(z->c, num, s);
  vec_push(z->g->a, z->conds, compare(z, OP_EQ, q->rhs, q->was)); /* the divisor leaves no remainder */
  set(z, at, v, true);
  return true;
}

/* ---- the value over x ------------------------------------------------------------------------ */
typedef struct factors {
  ex v[64];        /* the factors */
  bool zeroed[64]; /* per factor: it is put in with 0 outside of its range (with_zero) */
  uint32_t n;      /* number of factors */
} factors;
static void factor(inv *z, ex e, factors *f) {
  ex_node n = *exn(z->m, e);
  if (n.kind == EX_OP && n.op == OP_MUL && f->n < 60) {
    factor(z, n.args[0], f), factor(z, n.args[1], f);
    return;
  }
  f->v[f->n++] = e;
}
static bool uses(inv *z, ex e, atom v) {
  u32vec fv = {0};
  expr_vars(z->m, e, z->g->a, &fv);
  return vec_has(&fv, v);
}
static ex bare_load(inv *z, ex e) { /* a read, perhaps converted */
  const ex_node *n = exn(z->m, e);
  while (n->kind == EX_OP && n->op == OP_CAST) n = exn(z->m, e = n->args[0]);
  return n->kind == EX_LOAD ? e : 0;
}
/* Can factor e be zero just where v is out of range, by an `else` of its own? */
static bool zeroes(inv *z, ex e, const unk *v) {
  ex ld = bare_load(z, e);
  if (!ld) return false;
  const ex_node *n = exn(z->m, ld);
  if (n->otherwise && !(exn(z->m, n->otherwise)->kind == EX_CONST && exn(z->m, n->otherwise)->k.f == 0)) return false;
  if (et_kind(n->type) != K_FLOAT) return false;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (n->args[i] == sym_of_atom(z->c, v->v) && sym_eq(z->c, xt(z->m, n->tensor)->shape[i], v->ext)) return true;
  return false;
}
static bool reads_at(inv *z, ex e, atom v, ex except) { /* a read without `else` that needs v in range */
  u32vec loads = {0};
  if (!uses(z, e, v)) return false;
  expr_loads(z->m, e, z->g->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (loads.v[i] != except && !exn(z->m, loads.v[i])->otherwise && uses(z, loads.v[i], v)) return true;
  return false;
}
static bool absorb(inv *z, const unk *v, factors *f) {
  bool hit = false, take[64] = {0};
  for (uint32_t i = 0; i < z->k->when.n; i++)
    if (reads_at(z, z->k->when.v[i].e, v->v, 0)) return false;
  for (uint32_t i = 0; i < z->conds.n; i++)
    if (reads_at(z, z->conds.v[i], v->v, 0)) return false;
  for (uint32_t i = 0; i < f->n; i++) {
    if (!uses(z, f->v[i], v->v)) continue;
    ex bare = zeroes(z, f->v[i], v) ? bare_load(z, f->v[i]) : 0;
    take[i] = bare != 0, hit |= take[i];
    if (reads_at(z, f->v[i], v->v, bare)) return false;
  }
  for (uint32_t i = 0; i < f->n && hit; i++) f->zeroed[i] |= take[i];
  return hit;
}
static ex with_zero(inv *z, ex e) {
  ex_node n = *exn(z->m, e);
  if (n.kind == EX_OP) return expr_cast(z->m, n.type, with_zero(z, n.args[0]));
  return expr_load(z->m, n.tensor, n.args, n.nargs, expr_f(z->m, n.type, 0));
}
static bool slides(inv *z, ex e) { /* Does the load read at something else than variables? */
  atom a;
  ex ld = bare_load(z, e);
  if (!ld) return false;
  const ex_node *n = exn(z->m, ld);
  for (uint32_t i = 0; i < n->nargs; i++)
    if (!sym_is_int(z->c, n->args[i], NULL) && !sym_is_atom(z->c, n->args[i], &a)) return true;
  return n->otherwise != 0;
}
static bool reads_data(inv *z, ex e) {
  u32vec loads = {0};
  expr_loads(z->m, e, z->g->a, &loads);
  return loads.n > 0;
}
/* Can it be evaluated before the values that data give to variables are known to be in range? */
static bool before_data(inv *z, ex e) {
  for (uint32_t i = 0; i < z->nu; i++)
    if (z->u[i].guard && sym_uses_kind(z->c, z->u[i].to, AT_DATA) && uses(z, e, z->u[i].v)) return false;
  return true;
}
/* Conditions in the order of evaluation, what makes the next readable first: `conds`, ranges of variables; equations of
 * indices alone; where the contribution counts, for data may be readable only there; `late`, ranges of variables that
 * data give, as soon as something needs them; equations with data. */
static void order_conditions(inv *z, const u32vec *late, u32vec *conds) {
  const mask when = z->k->when;
  uint32_t first = 0;
  while (first < when.n && before_data(z, when.v[first].e)) first++;
  for (uint32_t i = 0; i < z->conds.n; i++)
    if (!reads_data(z, z->conds.v[i])) vec_push(z->g->a, *conds, z->conds.v[i]);
  if (first) vec_push(z->g->a, *conds, mask_ex(z->g, (mask){first, when.v}));
  for (uint32_t i = 0; i < late->n; i++) vec_push(z->g->a, *conds, late->v[i]);
  if (first < when.n) vec_push(z->g->a, *conds, mask_ex(z->g, (mask){when.n - first, when.v + first}));
  for (uint32_t i = 0; i < z->conds.n; i++)
    if (reads_data(z, z->conds.v[i])) vec_push(z->g->a, *conds, z->conds.v[i]);
}
static void assemble(inv *z) {
  emodule *m = z->m;
  factors f = {0};
  const contrib *k = z->k;
  u32vec red = {0}, conds = {0}, late = {0};
  atom from[MAX_UNKNOWNS + 1];
  sz to[MAX_UNKNOWNS + 1];
  uint32_t n = 0;
  factor(z, k->d, &f);
  factor(z, k->g, &f);
  for (uint32_t i = 0; i < z->nu; i++) { /* what is still unknown is summed over */
    unk *u = &z->u[i];
    atom a = u->v;
    if (!u->to && !u->ours) {
      sz fresh = sym_var(z->c, sym_name(z->c, u->v), u->ext);
      sym_is_atom(z->c, fresh, &a);
      set(z, i, fresh, false);
    } else if (u->to)
      continue;
    vec_push(z->g->a, red, a);
  }
  for (uint32_t i = 0; i < z->nu; i++) {
    unk *u = &z->u[i];
    if (!u->to) continue;
    from[n] = u->v, to[n++] = u->to;
    if (!u->guard) continue;
    bool lo = sym_ge0(z->c, u->to), hi = sym_lt(z->c, u->to, u->ext);
    if ((!lo && sym_lt(z->c, u->to, zero(z))) || (!hi && sym_le(z->c, u->ext, u->to))) z->out->empty = true;
    if ((lo && hi) || absorb(z, u, &f) || EK_PLANTED("grad-invert")) continue;
    ex guard = k_and(m, lo ? 0 : compare(z, OP_GE, u->to, zero(z)), hi ? 0 : compare(z, OP_LT, u->to, u->ext));
    if (sym_uses_kind(z->c, u->to, AT_DATA))
      vec_push(z->g->a, late, guard);
    else
      vec_push(z->g->a, conds, guard);
  }
  if (z->f) from[n] = z->f->t, to[n++] = z->f->t_of_u;
  order_conditions(z, &late, &conds);
  ex body = 0, where = 0, outside = 0;
  for (uint32_t i = 0; i < f.n; i++)
    f.v[i] = expr_subst_vars(m, f.zeroed[i] ? with_zero(z, f.v[i]) : f.v[i], from, to, n);
  for (uint32_t i = 0; i < f.n; i++) /* the factor that slides stands first: rows by convention */
    if (slides(z, f.v[i])) {
      ex first = f.v[i];
      memmove(f.v + 1, f.v, i * sizeof *f.v);
      f.v[0] = first;
      break;
    }
  for (uint32_t i = 0; i < f.n; i++) body = body ? k_mul(m, body, f.v[i]) : f.v[i];
  for (uint32_t i = 0; i < conds.n; i++) {
    ex c = expr_subst_vars(m, conds.v[i], from, to, n);
    bool inner = false;
    for (uint32_t j = 0; j < red.n; j++) inner |= uses(z, c, red.v[j]);
    if (inner)
      where = k_and(m, where, c);
    else
      outside = k_and(m, outside, c);
  }
  etype xt_ = xt(m, k->x)->type, bt = exn(m, body)->type;
  if (red.n) {
    etype acc = et_bits(bt) > et_bits(xt_) ? bt : ET_NONE;
    body = expr_reduce(m, RED_SUM, red.v, red.n, where, body, 0, acc, xt_);
    z->out->reduce = true;
  } else
    body = expr_cast(m, xt_, body);
  z->out->value = outside ? expr_sel(m, outside, body, expr_f(m, xt_, 0)) : body;
}
static double cost(inv *z) {
  double p = 1;
  for (uint32_t i = 0; i < xt(z->m, z->k->x)->rank; i++)
    if (!z->fixed[i] && !(z->f && i == z->f->axis)) p *= (double)expr_typical(z->m, z->out->shape[i]);
  for (uint32_t i = 0; i < z->nu; i++)
    if (!z->u[i].to) p *= (double)expr_typical(z->m, z->u[i].ext);
  return p;
}
static bool attempt(inv *z, const axis *axes, const sz *x) {
  const contrib *k = z->k;
  const tensor *t = xt(z->m, k->x);
  *z->out = (gathered){.plain = true};
  for (uint32_t i = 0; i < t->rank; i++) {
    bool step = z->f && i == z->f->axis;
    z->out->axes[i] = axes[i], z->out->shape[i] = t->shape[i], z->out->back[i] = x[i];
    if (!step)
      z->q[z->nq++] = (eq){.e = k->idx[i], .rhs = x[i], .size = t->shape[i], .was = k->idx[i], .axis = (int32_t)i};
  }
  for (uint32_t i = 0; i < k->nvars; i++)
    if (!z->f || k->vars[i] != z->f->t) z->u[z->nu++] = (unk){.v = k->vars[i], .ext = sym_extent(z->c, k->vars[i])};
  flatten(z);
  for (int i = 0; i < MAX_SPLITS && split_one(z); i++) continue;
  for (;;) { /* the equation with the fewest unknowns first; those without any are conditions, at the end */
    uint32_t best = z->nq, fewest = UINT32_MAX;
    for (uint32_t i = 0; i < z->nq; i++) {
      if (z->q[i].done) continue;
      lin l = study(z, z->q[i].e);
      uint32_t n = l.stuck ? UINT32_MAX - 2 : l.n ? l.n + (l.data ? MAX_UNKNOWNS : 0) : UINT32_MAX - 1;
      if (n < fewest) fewest = n, best = i;
    }
    if (best == z->nq) break;
    if (!solve(z, best)) return false;
  }
  return true;
}
bool grad_gather(gr *g, const contrib *k, const axis *axes, const sz *x, const frame_u *f, gathered *out) {
  double scattered = 1;
  for (uint32_t i = 0; i < k->nvars; i++)
    if (!f || k->vars[i] != f->t) scattered *= (double)expr_typical(g->m, sym_extent(g->c, k->vars[i]));
  if (k->nvars + 2 * MAX_SPLITS + MAX_RANK > MAX_UNKNOWNS) return false;
  for (int compact = 0; compact < 2; compact++) {
    inv *z = NEW(g->a, inv);
    *z = (inv){.g = g, .m = g->m, .c = g->c, .k = k, .f = f, .out = out, .compact = compact};
    if (!attempt(z, axes, x)) return false;
    bool sums = false;
    for (uint32_t i = 0; i < z->nu; i++) sums |= !z->u[i].to;
    if (!compact && sums && z->could) continue;
    if (!f && !out->empty && cost(z) > GATHER_COST * scattered) return false;
    if (!out->empty) assemble(z);
    return true;
  }
  return false;
}

/* ---- indices by cases ------------------------------------------------------------------------ */
bool grad_split_cases(gr *g, const contrib *k, contribs *out) {
  static const atom_kind kinds[] = {AT_SEL, AT_MAX, AT_MIN};
  uint32_t rank = xt(g->m, k->x)->rank;
  if (k->when.n > 12) return false;
  for (uint32_t i = 0; i < rank; i++)
    for (int q = 0; q < 3; q++) {
      u32vec at = {0};
      sz arg[3];
      sym_atoms(g->c, k->idx[i], kinds[q], g->a, &at);
      for (uint32_t j = at.n; j-- > 0;) { /* the outermost: atoms are numbered after those inside them */
        u32vec fv = {0};
        size_free(g, sym_of_atom(g->c, at.v[j]), &fv);
        bool mine = false;
        for (uint32_t v = 0; v < k->nvars; v++) mine |= vec_has(&fv, k->vars[v]);
        if (!mine) continue;
        sym_args(g->c, at.v[j], arg);
        sz cond = kinds[q] == AT_SEL   ? arg[0]
                  : kinds[q] == AT_MAX ? sym_sub(g->c, arg[0], arg[1])
                                       : sym_sub(g->c, arg[1], arg[0]);
        ex c = expr_op2(g->m, OP_GE, expr_index(g->m, cond), expr_i(g->m, ET_I64, 0));
        for (int b = 0; b < 2; b++) {
          const sz by = kinds[q] == AT_SEL ? arg[1 + b] : arg[b];
          contrib n = *k;
          sz *idx = NEWN(g->a, sz, rank);
          for (uint32_t r = 0; r < rank; r++) idx[r] = sym_replace(g->c, k->idx[r], at.v[j], by);
          n.idx = idx;
          n.when = mask_with(g, k->when, c, b != 0);
          vec_push(g->a, *out, n);
        }
        return true;
      }
    }
  return false;
}
