/* Substitution and evaluation. Both go over atoms, and over each atom once: what it became is kept in a small table
 * of the call (the callback may start another). */
#include "sym/sym_in.h"
#include <string.h>

enum { TERMS = 16 };
typedef struct row {
  atom a; /* the atom */
  sz by;  /* what stands for it */
} row;
typedef struct subst {
  symtab *s;    /* the table */
  ctx *c;       /* context */
  sym_fn f;     /* gives what stands for an atom */
  void *env;    /* handed to f */
  row *rows;    /* atoms done, by hash */
  row few[64];  /* the first rows */
  uint32_t cap; /* number of rows, a power of two */
  uint32_t n;   /* rows in use */
} subst;
static sz rebuild(subst *k, sz e);

static row *find(row *rows, uint32_t cap, atom a) {
  uint32_t at = (a * 2654435769u >> 7) & (cap - 1);
  while (rows[at].a && rows[at].a != a) at = (at + 1) & (cap - 1);
  return &rows[at];
}
static void keep(subst *k, atom a, sz by) {
  if (k->n * 4 >= k->cap * 3) {
    row *more = NEWN(k->s->a, row, k->cap * 4);
    for (uint32_t i = 0; i < k->cap; i++)
      if (k->rows[i].a) *find(more, k->cap * 4, k->rows[i].a) = k->rows[i];
    k->rows = more, k->cap *= 4;
  }
  row *r = find(k->rows, k->cap, a);
  k->n += !r->a;
  *r = (row){a, by};
}
/* What stands for an atom from now on. */
static sz permanent(ctx *c, void *env, atom a) {
  (void)env;
  return sa(sym_tab(c), a)->subst;
}
/* The quotient. A divisor that is known to be 0 by now stays as it was written: what is computed only where it is not 0
 * may stand beside a condition that does not hold. */
static sz quotient(subst *k, sz self, sz a, sz by) {
  int64_t d;
  return k->f == permanent && sym_const(k->s, by, &d) && !d ? self : sym_div(k->c, a, by);
}
static sz rebuild_atom(subst *k, atom a) {
  row *known = find(k->rows, k->cap, a);
  if (known->a) return known->by;
  sz r = k->f(k->c, k->env, a);
  if (!r) {
    const satom *x = sa(k->s, a);
    uint32_t n = sym_nargs(x->kind);
    sz p[3] = {0};
    r = x->self;
    for (uint32_t i = 0; i < n; i++) p[i] = rebuild(k, x->arg[i]);
    if (n && memcmp(p, x->arg, n * sizeof *p)) {
      if (x->kind == AT_DIV)
        r = quotient(k, x->self, p[0], p[1]);
      else if (x->kind == AT_SEL)
        r = sym_sel(k->c, p[0], p[1], p[2]);
      else
        r = x->kind == AT_MIN ? sym_min(k->c, p[0], p[1]) : sym_max(k->c, p[0], p[1]);
    } else if (x->def) {
      sz d = rebuild(k, x->def);
      if (d != x->def) r = d;
    }
  }
  keep(k, a, r);
  return r;
}
static sz rebuild(subst *k, sz e) {
  symtab *s = k->s;
  const spoly *p = sp(s, e);
  bool same = true;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(s, p->t[i].mono);
    for (uint32_t j = 0; j < m->n; j++) same &= rebuild_atom(k, m->a[j]) == sa(s, m->a[j])->self;
  }
  if (same) return e;
  sz sum = sym_num(s, 0), x[TERMS], by[TERMS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) { /* sums of some of the terms are not kept */
    const smono *m = sm(s, p->t[i].mono);
    sz t = 0;
    for (uint32_t j = 0; j < m->n; j++) {
      sz r = rebuild_atom(k, m->a[j]);
      for (uint8_t z = 0; z < m->e[j]; z++) t = t ? sym_mul(k->c, t, r) : r;
    }
    x[n] = t ? t : sym_num(s, 1), by[n++] = sym_num(s, p->t[i].k);
    if (n == TERMS) sum = sym_dot(k->c, sum, x, by, n), n = 0;
  }
  return sym_dot(k->c, sum, x, by, n);
}
sz sym_subst(ctx *c, sz e, sym_fn f, void *env) {
  symtab *s = sym_tab(c);
  if (!sp(s, e)->kinds) return e;
  subst k = {.s = s, .c = c, .f = f, .env = env, .cap = 64};
  k.rows = k.few;
  return rebuild(&k, e);
}
typedef struct pairs {
  const atom *atoms; /* atoms */
  const sz *by;      /* what stands for each */
  uint32_t n;        /* how many */
} pairs;
static sz pair_of(ctx *c, void *env, atom a) {
  const pairs *p = env;
  (void)c;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->atoms[i] == a) return p->by[i];
  return 0;
}
sz sym_subst_atoms(ctx *c, sz e, const atom *atoms, const sz *by, uint32_t n) {
  return sym_subst(c, e, pair_of, &(pairs){atoms, by, n});
}
sz sym_replace(ctx *c, sz e, atom a, sz by) {
  if (!sym_uses(c, e, a)) return e;
  return sym_subst_atoms(c, e, &a, &by, 1);
}
sz sym_canon(ctx *c, sz e) {
  symtab *s = sym_tab(c);
  if (!s->substituted || !(sp(s, e)->kinds >> AT_SYMBOL & 1)) return e;
  if (sp(s, e)->cstate == s->state) return sp(s, e)->canon;
  sz f = e;
  /* a definition may mention a size that got its own later */
  for (int i = EK_PLANTED("sym-canon") ? 15 : 0; i < 16; i++) {
    sz g = sym_subst(c, f, permanent, NULL);
    if (g == f) break;
    f = g;
  }
  if (!s->trial) sp(s, e)->canon = f, sp(s, e)->cstate = s->state;
  return f;
}

/* ---- evaluation ------------------------------------------------------------------------------ */
typedef struct value {
  atom a;    /* the atom; 0: empty */
  bool ok;   /* it has a value */
  int64_t v; /* the value */
} value;
typedef struct eval {
  symtab *s;     /* the table */
  sym_valuefn f; /* gives the value of an atom */
  void *env;     /* handed to f */
  /* values of atoms with parts, so that shared parts are computed once; a full table stays as it is */
  value seen[64];
  uint32_t n;     /* entries of seen in use */
  bool ready;     /* seen is initialised: most expressions never need it */
  uint64_t steps; /* atoms looked at so far */
} eval;
static bool evaluate(eval *k, sz e, int64_t *v);
static bool eval_parts(eval *k, const satom *x, int64_t *v) {
  int64_t p, q;
  if (!evaluate(k, x->arg[0], &p)) return false;
  if (x->kind == AT_SEL) return evaluate(k, x->arg[p >= 0 ? 1 : 2], v);
  if (!evaluate(k, x->arg[1], &q)) return false;
  if (x->kind != AT_DIV) return *v = x->kind == AT_MIN ? min64(p, q) : max64(p, q), true;
  if (q == 0 || (q == -1 && p == INT64_MIN)) return false;
  return *v = EK_PLANTED("sym-eval") ? p / q : floordiv64(p, q), true;
}
static bool eval_atom(eval *k, atom a, int64_t *v) {
  const satom *x = sa(k->s, a);
  if (!sym_nargs(x->kind)) {
    if (k->f(k->env, a, v)) return true;
    return x->kind == AT_SYMBOL && ((x->def && evaluate(k, x->def, v)) || (x->subst && evaluate(k, x->subst, v)));
  }
  if (++k->steps > 1000000) return false;
  if (x->depth < 3) return eval_parts(k, x, v);
  if (!k->ready) memset(k->seen, 0, sizeof k->seen), k->ready = true;
  uint32_t at = (a * 2654435769u >> 7) % 64;
  while (k->seen[at].a && k->seen[at].a != a) at = (at + 1) % 64;
  if (k->seen[at].a) return *v = k->seen[at].v, k->seen[at].ok;
  bool ok = eval_parts(k, x, v);
  if (k->n >= 48) return ok;
  at = (a * 2654435769u >> 7) % 64;
  while (k->seen[at].a) at = (at + 1) % 64;
  k->seen[at] = (value){a, ok, ok ? *v : 0};
  k->n++;
  return ok;
}
static bool evaluate(eval *k, sz e, int64_t *v) {
  const spoly *p = sp(k->s, e);
  __int128 sum = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const smono *m = sm(k->s, p->t[i].mono);
    __int128 t = p->t[i].k;
    int64_t x;
    for (uint32_t j = 0; j < m->n; j++) {
      if (!eval_atom(k, m->a[j], &x)) return false;
      for (uint8_t z = 0; z < m->e[j]; z++)
        if (__builtin_mul_overflow(t, (__int128)x, &t)) return false;
    }
    if (__builtin_add_overflow(sum, t, &sum)) return false;
  }
  *v = (int64_t)sum;
  return *v == sum;
}
bool sym_eval(ctx *c, sz e, sym_valuefn f, void *env, int64_t *v) {
  symtab *s = sym_tab(c);
  if (sym_const(s, e, v)) return true;
  eval k;
  k.s = s, k.f = f, k.env = env, k.n = 0, k.ready = false, k.steps = 0;
  return evaluate(&k, e, v);
}
