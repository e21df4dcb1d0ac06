/* min, max, ?: and how atoms with parts come to be. */
#include "sym/sym_in.h"

/* An atom over parts. Nested deeper than SYM_MAX_DEPTH it hides behind a fresh symbol that knows its definition;
 * over variables or data, which a symbol cannot stand for, the limit is four times that. */
sz sym_compound(symtab *s, atom_kind kind, sz a, sz b, sz d) {
  satom x = {.kind = (uint8_t)kind, .arg = {a, b, d}};
  uint8_t depth = 0, kinds = 0;
  for (uint32_t i = 0; i < sym_nargs(x.kind); i++) {
    const spoly *p = sp(s, x.arg[i]);
    depth = p->depth > depth ? p->depth : depth;
    kinds |= p->kinds;
  }
  bool fixed = kinds & (1u << AT_VAR | 1u << AT_DATA);
  if (depth >= SYM_MAX_DEPTH * (fixed ? 4 : 1) + (fixed ? 0 : 1))
    ctx_fail(s->c, E_UNSUPPORTED,
             "an index expression nests more than %d divisions, min, max and ?:", SYM_MAX_DEPTH * 4);
  x.depth = (uint8_t)(depth + 1);
  sz e = sa(s, sym_atom(s, &x))->self;
  if (x.depth <= SYM_MAX_DEPTH || fixed) return e;
  uint64_t known;
  if (map_getu(s->hidden, e, &known)) return (sz)known;
  uint32_t n;
  int64_t lo, hi;
  fact *facts = facts_suspend(s, &n); /* the symbol outlives them */
  sym_interval(s, e, &lo, &hi);
  facts_resume(s, facts, n);
  const char *name = "t";
  while (map_gets(s->symbols, name, &known)) name = arena_fmt(s->a, "t_%u", ++s->fresh);
  name = intern(s->c, name);
  atom t = sym_atom(s, &(satom){.kind = AT_SYMBOL, .name = name, .lo = lo, .hi = hi, .def = e});
  map_puts(s->symbols, name, t);
  map_putu(s->hidden, e, sa(s, t)->self);
  return sa(s, t)->self;
}

/* ---- min, max -------------------------------------------------------------------------------- */
enum { ARMS = 64 };
static bool arms(symtab *s, sz e, atom_kind k, sz *out, uint32_t *n) {
  atom a;
  if (sym_single(s, e, &a) && sa(s, a)->kind == k)
    return arms(s, sa(s, a)->arg[0], k, out, n) && arms(s, sa(s, a)->arg[1], k, out, n);
  for (uint32_t i = 0; i < *n; i++)
    if (out[i] == e) return true;
  if (*n == ARMS) return false;
  out[(*n)++] = e;
  return true;
}
static sz extremum(ctx *c, sz a, sz b, bool max) {
  symtab *s = sym_tab(c);
  if (a == b) return a;
  int64_t al, ah, bl, bh;
  sym_interval(s, a, &al, &ah);
  sym_interval(s, b, &bl, &bh);
  if (ah <= bl && ah != SYM_INF) return max ? b : a;
  if (bh <= al && bh != SYM_INF) return max ? a : b;
  sz v[ARMS], r;
  uint32_t op = max ? M_MAX : M_MIN;
  if (a > b) r = a, a = b, b = r;
  if (built_get(s, op, a, b, 0, &r)) return r;
  atom_kind kind = max ? AT_MAX : AT_MIN;
  uint32_t n = 0, m = 0;
  if (!arms(s, a, kind, v, &n) || !arms(s, b, kind, v, &n))
    return built_put(s, op, a, b, 0, sym_compound(s, kind, a, b, 0));
  bool drop[ARMS] = {false};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n && !drop[i]; j++)
      if (i != j && !drop[j]) drop[i] = max ? sym_le(c, v[i], v[j]) : sym_le(c, v[j], v[i]);
  for (uint32_t i = 0; i < n; i++)
    if (!drop[i]) v[m++] = v[i];
  for (uint32_t i = 1; i < m; i++)
    for (uint32_t j = i; j > 0 && sym_order(s, v[j - 1], v[j]) > 0; j--) {
      sz t = v[j];
      v[j] = v[j - 1], v[j - 1] = t;
    }
  r = v[0];
  for (uint32_t i = 1; i < m; i++) r = sym_compound(s, kind, r, v[i], 0);
  return built_put(s, op, a, b, 0, r);
}
sz sym_min(ctx *c, sz a, sz b) { return extremum(c, a, b, false); }
sz sym_max(ctx *c, sz a, sz b) { return extremum(c, a, b, true); }

/* ---- cond >= 0 ? a : b ----------------------------------------------------------------------- */
/* 1: the ?: is max(a, b); -1: min(a, b). Both sides of a == b agree, so >= and > are alike. */
static int is_extremum(symtab *s, sz cond, sz a, sz b) {
  bool outer = s->soft, before = s->overflowed;
  s->soft = true, s->overflowed = false;
  sz d = sym_sub(s->c, a, b), e = sym_neg(s->c, d);
  int r = cond == sym_primitive(s, d) || cond == sym_primitive(s, sym_addi(s->c, d, -1))   ? 1
          : cond == sym_primitive(s, e) || cond == sym_primitive(s, sym_addi(s->c, e, -1)) ? -1
                                                                                           : 0;
  if (s->overflowed) r = 0;
  s->soft = outer, s->overflowed = before;
  return r;
}
static bool same_where(symtab *s, sz cond, sz a, sz b) { /* n == 1 ? 0 : i, for i < n */
  uint32_t mark = sym_push(s->c, cond);
  bool same = sym_eq(s->c, a, b);
  sym_pop(s->c, mark);
  return same;
}
sz sym_sel(ctx *c, sz cond, sz a, sz b) {
  symtab *s = sym_tab(c);
  if (a == b) return a;
  cond = sym_primitive(s, cond);
  int64_t lo, hi;
  sym_interval(s, cond, &lo, &hi);
  if (lo >= -(int64_t)EK_PLANTED("sym-pick")) return a;
  if (hi < 0) return b;
  sz r;
  if (built_get(s, M_SEL, cond, a, b, &r)) return r;
  if (sym_ge0(c, cond))
    r = a;
  else if (sym_lt(c, cond, sym_num(s, 0)))
    r = b;
  else {
    int x = is_extremum(s, cond, a, b);
    r = x > 0                       ? sym_max(c, a, b)
        : x < 0                     ? sym_min(c, a, b)
        : same_where(s, cond, a, b) ? b
                                    : sym_compound(s, AT_SEL, cond, a, b);
  }
  return built_put(s, M_SEL, cond, a, b, r);
}
