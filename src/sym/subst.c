/* Substitution and evaluation. */
#include "sym/sym_in.h"

typedef struct sub { symtab *s; ctx *c; sym_fn f; void *env; map *done; } sub;
static sz rebuild(sub *k, sz e);
static sz rebuild_atom(sub *k, atom a) {
  uint64_t got;
  if (map_getu(k->done, (uint64_t)a << 1 | 1, &got)) return (sz)got;
  sz r = k->f(k->c, k->env, a);
  if (!r) {
    satom x = *sa(k->s, a);
    switch (x.kind) {
    case AT_DIV: r = sym_div(k->c, rebuild(k, x.arg[0]), rebuild(k, x.arg[1])); break;
    case AT_MIN: r = sym_min(k->c, rebuild(k, x.arg[0]), rebuild(k, x.arg[1])); break;
    case AT_MAX: r = sym_max(k->c, rebuild(k, x.arg[0]), rebuild(k, x.arg[1])); break;
    case AT_SEL: r = sym_sel(k->c, rebuild(k, x.arg[0]), rebuild(k, x.arg[1]), rebuild(k, x.arg[2])); break;
    default: r = sym_of_atom(k->c, a);
    }
  }
  map_putu(k->done, (uint64_t)a << 1 | 1, r);
  return r;
}
static sz rebuild(sub *k, sz e) {
  spoly p = *sp(k->s, e);
  if (p.n == 0 || (p.n == 1 && p.t[0].mono == 0)) return e;
  uint64_t got;
  if (map_getu(k->done, (uint64_t)e << 1, &got)) return (sz)got;
  bool same = true;
  for (uint32_t i = 0; i < p.n && same; i++) {
    smono m = *sm(k->s, p.t[i].mono);
    for (uint32_t j = 0; j < m.n && same; j++) same = rebuild_atom(k, m.a[j]) == sym_of_atom(k->c, m.a[j]);
  }
  sz sum = e;
  if (!same) {
    sum = sym_int(k->c, 0);
    for (uint32_t i = 0; i < p.n; i++) {
      smono m = *sm(k->s, p.t[i].mono);
      sz t = sym_int(k->c, p.t[i].k);
      for (uint32_t j = 0; j < m.n; j++) {
        sz x = rebuild_atom(k, m.a[j]);
        for (uint8_t z = 0; z < m.e[j]; z++) t = sym_mul(k->c, t, x);
      }
      sum = sym_add(k->c, sum, t);
    }
  }
  map_putu(k->done, (uint64_t)e << 1, sum);
  return sum;
}
sz sym_subst(ctx *c, sz e, sym_fn f, void *env) {
  symtab *s = sym_tab(c);
  spoly p = *sp(s, e);
  if (p.n == 0 || (p.n == 1 && p.t[0].mono == 0)) return e;
  sub k = {s, c, f, env, map_new(s->a)};
  return rebuild(&k, e);
}
typedef struct one { atom a; sz by; } one;
static sz replace_one(ctx *c, void *env, atom a) {
  (void)c;
  one *o = env;
  return a == o->a ? o->by : 0;
}
sz sym_replace(ctx *c, sz e, atom a, sz by) {
  if (!sym_uses(c, e, a)) return e;
  one o = {a, by};
  return sym_subst(c, e, replace_one, &o);
}
static sz permanent(ctx *c, void *env, atom a) {
  (void)env;
  return sa(sym_tab(c), a)->subst;
}
sz sym_canon(ctx *c, sz e) {
  if (!sym_tab(c)->substituted) return e;
  for (int i = 0; i < 16; i++) {
    sz f = sym_subst(c, e, permanent, NULL);
    if (f == e) break;
    e = f;
  }
  return e;
}

static bool eval_atom(symtab *s, atom a, sym_valuefn f, void *env, int64_t *v) {
  satom x = *sa(s, a);
  if (x.kind == AT_SYMBOL || x.kind == AT_VAR || x.kind == AT_DATA) {
    if (f(env, a, v)) return true;
    if (x.kind == AT_SYMBOL && x.def) return sym_eval(s->c, x.def, f, env, v);
    if (x.kind == AT_SYMBOL && x.subst) return sym_eval(s->c, x.subst, f, env, v);
    return false;
  }
  int64_t p, q;
  if (!sym_eval(s->c, x.arg[0], f, env, &p)) return false;
  if (x.kind == AT_SEL) return sym_eval(s->c, x.arg[p >= 0 ? 1 : 2], f, env, v);
  if (!sym_eval(s->c, x.arg[1], f, env, &q)) return false;
  if (x.kind == AT_DIV) {
    if (q == 0 || (q == -1 && p == INT64_MIN)) return false;
    *v = floordiv64(p, q);
  } else *v = x.kind == AT_MIN ? min64(p, q) : max64(p, q);
  return true;
}
bool sym_eval(ctx *c, sz e, sym_valuefn f, void *env, int64_t *v) {
  symtab *s = sym_tab(c);
  spoly p = *sp(s, e);
  int64_t sum = 0;
  for (uint32_t i = 0; i < p.n; i++) {
    smono m = *sm(s, p.t[i].mono);
    int64_t t = p.t[i].k, x;
    for (uint32_t j = 0; j < m.n; j++) {
      if (!eval_atom(s, m.a[j], f, env, &x)) return false;
      for (uint8_t z = 0; z < m.e[j]; z++)
        if (!mul64(t, x, &t)) return false;
    }
    if (!add64(sum, t, &sum)) return false;
  }
  *v = sum;
  return true;
}
