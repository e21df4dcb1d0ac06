/* Between which sizes does a size lie, when some of its symbols are only known by intervals?
 *
 * Interval arithmetic on the structure, with sizes as ends: parts without such symbols stand for themselves, so
 * `N + L` with L in 0..M lies in N..N + M. A product whose factors may be negative is bounded by the
 * magnitudes. The ends are sound, not tight: `max(N - L, 0)` with L in 0..N gives 0..N. Everything at run time
 * that depends on a late size for its memory asks here.
 */
#include "sym/sym.h"

enum { MAX_DEPTH = 48 };
typedef struct range {
  sz lo; /* lower bound; 0: none */
  sz hi; /* upper bound; 0: none */
} range;
typedef struct bounder {
  ctx *c;          /* context */
  sym_betweenfn f; /* gives the interval of a symbol */
  void *env;       /* handed to f */
  map *atoms;      /* atom -> 1 + index in done */
  VEC(range) done; /* intervals of atoms */
  arena *a;        /* memory */
} bounder;

static range poly(bounder *b, sz e, int depth);
static range exact(sz e) { return (range){e, e}; }
static sz magnitude(bounder *b, range r) {
  if (sym_ge0(b->c, r.lo)) return r.hi;
  return sym_max(b->c, sym_max(b->c, r.hi, sym_neg(b->c, r.lo)), sym_int(b->c, 0));
}
static range quotient(bounder *b, range n, range d) {
  ctx *c = b->c;
  sz zero = sym_int(c, 0);
  if (d.lo == d.hi && sym_ge0(c, sym_addi(c, d.lo, -1))) return (range){sym_div(c, n.lo, d.lo), sym_div(c, n.hi, d.lo)};
  if (sym_ge0(c, sym_addi(c, d.lo, -1)))
    return (range){sym_ge0(c, n.lo) ? zero : sym_div(c, sym_min(c, n.lo, zero), d.lo),
                   sym_div(c, sym_max(c, n.hi, zero), d.lo)};
  sz m = magnitude(b, n); /* magnitude of a divisor that is not 0 */
  if (sym_ge0(c, n.lo) && sym_ge0(c, d.lo)) return (range){zero, m};
  m = sym_addi(c, m, 1);
  return (range){sym_neg(c, m), m};
}
static range of_atom(bounder *b, atom a, int depth) {
  ctx *c = b->c;
  sz g[3], self = sym_of_atom(c, a);
  uint64_t at;
  range r = exact(self);
  if (depth > MAX_DEPTH)
    ctx_fail(c, E_UNSUPPORTED, "the bounds of late sizes depend on each other, or are nested too deep (%s)",
             sym_str(c, self));
  if (map_getu(b->atoms, a, &at)) return b->done.v[at - 1];
  if (sym_kind(c, a) == AT_SYMBOL) {
    sz def, lo, hi;
    if (b->f(b->env, a, &lo, &hi)) {
      r.lo = poly(b, lo, depth + 1).lo, r.hi = poly(b, hi, depth + 1).hi;
    } else if (sym_definition(c, a, &def)) {
      range d = poly(b, def, depth + 1);
      if (d.lo != def || d.hi != def) r = d;
    }
  } else {
    uint32_t n = sym_args(c, a, g);
    range x[3];
    bool moved = false;
    for (uint32_t i = 0; i < n; i++) x[i] = poly(b, g[i], depth + 1), moved |= x[i].lo != g[i] || x[i].hi != g[i];
    if (moved) switch (sym_kind(c, a)) {
      case AT_DIV:
        r = quotient(b, x[0], x[1]);
        break;
      case AT_MIN:
        r = (range){sym_min(c, x[0].lo, x[1].lo), sym_min(c, x[0].hi, x[1].hi)};
        break;
      case AT_MAX:
        r = (range){sym_max(c, x[0].lo, x[1].lo), sym_max(c, x[0].hi, x[1].hi)};
        break;
      case AT_SEL:
        if (sym_ge0(c, x[0].lo))
          r = x[1];
        else if (sym_ge0(c, sym_addi(c, sym_neg(c, x[0].hi), -1)))
          r = x[2];
        else if (x[0].lo == x[0].hi)
          r = (range){sym_sel(c, x[0].lo, x[1].lo, x[2].lo), sym_sel(c, x[0].lo, x[1].hi, x[2].hi)};
        else
          r = (range){sym_min(c, x[1].lo, x[2].lo), sym_max(c, x[1].hi, x[2].hi)};
        break;
      default:
        break;
      }
  }
  vec_push(b->a, b->done, r);
  map_putu(b->atoms, a, b->done.n);
  return r;
}
static range poly(bounder *b, sz e, int depth) {
  ctx *c = b->c;
  if (!sym_uses_kind(c, e, AT_SYMBOL)) return exact(e);
  sz zero = sym_int(c, 0);
  range sum = exact(zero);
  for (uint32_t i = 0; i < sym_nterms(c, e); i++) {
    uint32_t n;
    const atom *as;
    const uint8_t *ex;
    int64_t k = sym_term(c, e, i, &n, &as, &ex);
    range p = exact(sym_int(c, 1));
    for (uint32_t j = 0; j < n; j++) {
      range x = of_atom(b, as[j], depth);
      for (uint8_t q = 0; q < ex[j]; q++) {
        if (p.lo == p.hi && x.lo == x.hi)
          p = exact(sym_mul(c, p.lo, x.lo));
        else if (sym_ge0(c, p.lo) && sym_ge0(c, x.lo))
          p = (range){sym_mul(c, p.lo, x.lo), sym_mul(c, p.hi, x.hi)};
        else if (p.lo == p.hi && sym_ge0(c, p.lo))
          p = (range){sym_mul(c, p.lo, x.lo), sym_mul(c, p.lo, x.hi)};
        else if (x.lo == x.hi && sym_ge0(c, x.lo))
          p = (range){sym_mul(c, x.lo, p.lo), sym_mul(c, x.lo, p.hi)};
        else if (sym_ge0(c, p.lo))
          p = (range){sym_mul(c, p.hi, sym_min(c, x.lo, zero)), sym_mul(c, p.hi, sym_max(c, x.hi, zero))};
        else if (sym_ge0(c, x.lo))
          p = (range){sym_mul(c, x.hi, sym_min(c, p.lo, zero)), sym_mul(c, x.hi, sym_max(c, p.hi, zero))};
        else {
          sz m = sym_mul(c, magnitude(b, p), magnitude(b, x));
          p = (range){sym_neg(c, m), m};
        }
      }
    }
    sz lo = sym_muli(c, k > 0 ? p.lo : p.hi, k), hi = sym_muli(c, k > 0 || EK_PLANTED("sym-bound") ? p.hi : p.lo, k);
    sum = (range){sym_add(c, sum.lo, lo), sym_add(c, sum.hi, hi)};
  }
  return sum;
}
void sym_between(ctx *c, sz e, sym_betweenfn f, void *env, sz *lo, sz *hi) {
  arena *a = arena_new(c);
  bounder b = {.c = c, .f = f, .env = env, .atoms = map_new(a), .a = a};
  range r = poly(&b, e, 0);
  arena_free(a);
  *lo = r.lo, *hi = r.hi;
}
