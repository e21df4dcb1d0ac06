/* builtin: the functions that need no definition. Three families: questions about static things (len, shape, kind,
 * onnx_type, ..), the algebra of packs (take, weave, cat, prefix, ..), and scalar functions, which run at once on sizes
 * and numbers and become operations on element values. One table (builtins.def) names them all with their arity, for
 * the checker too. */
#include "notation/elab.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)

typedef enum {
#define X(name, lo, hi) F_##name,
#define SPECIAL(name, lo, hi)
#include "notation/builtins.def"
#undef X
#undef SPECIAL
  F_COUNT
} fun;
typedef struct {
  const char *name; /* name of the function */
  int8_t lo;        /* least number of arguments */
  int8_t hi;        /* greatest number of arguments; -1: no limit */
} arity;
static const arity table[] = {
#define X(name, lo, hi) {#name, lo, hi},
#define SPECIAL(name, lo, hi)
#include "notation/builtins.def"
#undef X
#undef SPECIAL
};
static const arity special[] = {
#define X(name, lo, hi)
#define SPECIAL(name, lo, hi) {#name, lo, hi},
#include "notation/builtins.def"
#undef X
#undef SPECIAL
};

bool builtin_arity(const char *name, int *min, int *max) {
  for (int i = 0; i < F_COUNT; i++)
    if (!strcmp(table[i].name, name)) return *min = table[i].lo, *max = table[i].hi, true;
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (!strcmp(special[i].name, name)) return *min = special[i].lo, *max = special[i].hi, true;
  return false;
}

bool elem_set(const char *name, uint32_t *mask) {
  etype t = et_parse(name);
  if (t != ET_NONE) return *mask = 1u << t, true;
  *mask = 0;
  for (int i = 1; i < ET_COUNT; i++) {
    ekind k = et_kind((etype)i);
    bool f = k == K_FLOAT, s = k == K_INT, u = k == K_UINT, in;
    if (!strcmp(name, "float"))
      in = f;
    else if (!strcmp(name, "int"))
      in = s || u;
    else if (!strcmp(name, "sint"))
      in = s;
    else if (!strcmp(name, "uint"))
      in = u;
    else if (!strcmp(name, "num"))
      in = f || s || u;
    else if (!strcmp(name, "any"))
      in = f || s || u || k == K_BOOL;
    else if (!strcmp(name, "ieee"))
      in = i == ET_F64 || i == ET_F32 || i == ET_F16 || i == ET_BF16;
    else if (!strcmp(name, "idx"))
      in = i == ET_I64 || i == ET_I32;
    else
      return false;
    if (in) *mask |= 1u << i;
  }
  return true;
}

/* ---- helpers --------------------------------------------------------------------------------- */
static vlist *need_list(el *x, val v, const ast *at, const char *f) {
  if (v.kind != V_LIST) FAIL(at, "%s: a pack is needed, not %s", f, v_describe(x, v));
  return v.p.l;
}
static etype need_type(el *x, val v, const ast *at, const char *f) {
  if (v.kind != V_TYPE) FAIL(at, "%s: an element type is needed, not %s", f, v_describe(x, v));
  return (etype)v.type;
}
static nten *need_tensor(el *x, val v, const ast *at, const char *f) {
  if (v.kind != V_TEN) FAIL(at, "%s: a tensor is needed, not %s", f, v_describe(x, v));
  return v.p.t;
}
static val list_of(el *x, const val *v, uint32_t n) {
  val r = v_list(x, n);
  if (n) memcpy(r.p.l->v, v, n * sizeof *v);
  return r;
}
static bool same_val(el *x, val a, val b, const ast *at) {
  if (a.kind != b.kind) return false;
  if (a.kind == V_LIST) {
    if (a.p.l->n != b.p.l->n) return false;
    for (uint32_t i = 0; i < a.p.l->n; i++)
      if (!same_val(x, a.p.l->v[i], b.p.l->v[i], at)) return false;
    return true;
  }
  return decide(x, v_binary(x, BO_EQ, a, b, at), at, "the equality of packs");
}
static int by_int(const void *a, const void *b) {
  int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
  return (p > q) - (p < q);
}
static int64_t *ints(el *x, vlist *l, const ast *at, const char *what) {
  int64_t *r = NEWN(x->a, int64_t, l->n ? l->n : 1);
  for (uint32_t i = 0; i < l->n; i++) r[i] = v_need_int(x, l->v[i], at, what);
  return r;
}

/* equation "bij,bjk->bik" and the operands' ranks -> (letters of each operand as numbers, how many are output letters,
 * how many in all). Output letters come first; `...` stands for as many letters as the widest needs. */
static val einsum_plan(el *x, const char *eq, vlist *ranks, const ast *at) {
  enum { MAX_TERMS = 64, MAX_LETTERS = 128, ELL = 1000 };
  int term[MAX_TERMS + 1][MAX_LETTERS], len[MAX_TERMS + 1] = {0}, n = 0, ell = 0, ell_at[MAX_TERMS + 1];
  bool arrow = false;
  for (int i = 0; i <= MAX_TERMS; i++) ell_at[i] = -1;
  for (const char *s = eq; *s; s++) {
    if (*s == ' ') continue;
    if (*s == ',' || (*s == '-' && s[1] == '>')) {
      if (arrow || n + 1 > MAX_TERMS - 1) FAIL(at, "the equation \"%s\" is malformed", eq);
      arrow |= *s == '-';
      s += *s == '-';
      n++;
    } else if (*s == '.') {
      if (s[1] != '.' || s[2] != '.' || ell_at[n] >= 0) FAIL(at, "the equation \"%s\" is malformed", eq);
      s += 2;
      ell_at[n] = len[n];
    } else if ((*s | 32) >= 'a' && (*s | 32) <= 'z') {
      if (len[n] >= MAX_LETTERS) FAIL(at, "the equation \"%s\" has too many letters", eq);
      term[n][len[n]++] = *s;
    } else
      FAIL(at, "the equation \"%s\" holds `%c`", eq, *s);
  }
  int inputs = arrow ? n : n + 1;
  if ((uint32_t)inputs != ranks->n) FAIL(at, "the equation \"%s\" is for %d inputs, %u given", eq, inputs, ranks->n);
  for (int i = 0; i < inputs; i++) {
    int64_t r = v_need_int(x, ranks->v[i], at, "the rank");
    if (ell_at[i] < 0 ? r != len[i] : r < len[i]) FAIL(at, "input %d of \"%s\" has rank %lld", i, eq, (long long)r);
    if (ell_at[i] >= 0 && r - len[i] > ell) ell = (int)(r - len[i]);
  }
  int names[MAX_LETTERS * 4], nnames = 0, nout;
  for (int i = 0; i < inputs; i++) { /* write the ellipses out, aligned on the right */
    if (ell_at[i] < 0) continue;
    int m = (int)(v_need_int(x, ranks->v[i], at, "the rank") - len[i]);
    if (len[i] + m > MAX_LETTERS) FAIL(at, "the equation \"%s\" has too many letters", eq);
    memmove(&term[i][ell_at[i] + m], &term[i][ell_at[i]], sizeof(int) * (size_t)(len[i] - ell_at[i]));
    for (int j = 0; j < m; j++) term[i][ell_at[i] + j] = ELL + ell - m + j;
    len[i] += m;
  }
  if (arrow) {
    for (int j = 0; j <= len[n]; j++) {
      if (ell_at[n] == j)
        for (int k = 0; k < ell; k++) names[nnames++] = ELL + k;
      if (j < len[n]) names[nnames++] = term[n][j];
    }
  } else {
    for (int k = 0; k < ell; k++) names[nnames++] = ELL + k;
    for (int ch = 'A'; ch <= 'z'; ch++) {
      int count = 0;
      for (int i = 0; i < inputs; i++)
        for (int j = 0; j < len[i]; j++) count += term[i][j] == ch;
      if (count == 1) names[nnames++] = ch;
    }
  }
  nout = nnames;
  for (int i = 0; i < inputs; i++)
    for (int j = 0; j < len[i]; j++) {
      bool have = false;
      for (int k = 0; k < nnames; k++) have |= names[k] == term[i][j];
      if (!have && nnames < MAX_LETTERS * 4) names[nnames++] = term[i][j];
    }
  val r = v_list(x, 3), ix = v_list(x, (uint32_t)inputs);
  for (int i = 0; i < inputs; i++) {
    val t = v_list(x, (uint32_t)len[i]);
    for (int j = 0; j < len[i]; j++)
      for (int k = 0; k < nnames; k++)
        if (names[k] == term[i][j]) t.p.l->v[j] = v_int(x, k);
    ix.p.l->v[i] = t;
  }
  r.p.l->v[0] = ix;
  r.p.l->v[1] = v_int(x, nout);
  r.p.l->v[2] = v_int(x, nnames);
  return r;
}

/* ---- scalar functions ------------------------------------------------------------------------ */
static sop scalar_op(fun f) {
  // clang-format off
  switch (f) {
#define ONE(name, id) case F_##name: return OP_##id;
    ONE(exp, EXP) ONE(log, LOG) ONE(sqrt, SQRT) ONE(sin, SIN) ONE(cos, COS) ONE(tan, TAN)
    ONE(asin, ASIN) ONE(acos, ACOS) ONE(atan, ATAN) ONE(sinh, SINH) ONE(cosh, COSH) ONE(tanh, TANH)
    ONE(asinh, ASINH) ONE(acosh, ACOSH) ONE(atanh, ATANH) ONE(erf, ERF) ONE(floor, FLOOR)
    ONE(ceil, CEIL) ONE(round_even, ROUND_EVEN) ONE(trunc, TRUNC) ONE(isnan, ISNAN)
    ONE(isinf, ISINF) ONE(signbit, SIGNBIT) ONE(abs, ABS) ONE(sign, SIGN) ONE(bnot, BNOT)
    ONE(pow, POW) ONE(fmod, FMOD) ONE(nextafter, NEXTAFTER) ONE(band, BAND) ONE(bor, BOR)
    ONE(bxor, BXOR) ONE(shl, SHL) ONE(shr, SHR) ONE(min, MIN) ONE(max, MAX)
#undef ONE
    default: return OP_NONE;
  }
  // clang-format on
}
static double on_double(fun f, double a) {
  // clang-format off
  switch (f) {
#define ONE(name, fn) case F_##name: return fn(a);
    ONE(exp, exp) ONE(log, log) ONE(sqrt, sqrt) ONE(sin, sin) ONE(cos, cos) ONE(tan, tan)
    ONE(asin, asin) ONE(acos, acos) ONE(atan, atan) ONE(sinh, sinh) ONE(cosh, cosh) ONE(tanh, tanh)
    ONE(asinh, asinh) ONE(acosh, acosh) ONE(atanh, atanh) ONE(erf, erf) ONE(abs, fabs)
#undef ONE
    case F_sign: return (a > 0) - (a < 0);
    default: return NAN;
  }
  // clang-format on
}
static val rounding(el *x, fun f, val v, const ast *at) { /* floor, ceil and the like of a ratio, as a size. */
  ctx *c = x->c;
  if (v.kind == V_SIZE) return v;
  if (v.kind == V_FLOAT) {
    double r = f == F_floor ? floor(v.f) : f == F_ceil ? ceil(v.f) : f == F_trunc ? trunc(v.f) : nearbyint(v.f);
    if (!(fabs(r) < 9e18)) FAIL(at, "%s of %g is no size", table[f].name, v.f);
    return v_int(x, (int64_t)r);
  }
  if (f == F_ceil) return v_size(sym_ceildiv(c, v.s, v.den));
  if (f == F_floor || (f == F_trunc && sym_ge0(c, v.s))) return v_size(sym_div(c, v.s, v.den));
  if (f == F_round_even) return v_size(sym_div(c, sym_add(c, sym_muli(c, v.s, 2), v.den), sym_muli(c, v.den, 2)));
  FAIL(at, "%s of %s", table[f].name, v_describe(x, v));
}
static val unary_fn(el *x, fun f, val v, const ast *at) {
  bool rnd = f == F_floor || f == F_ceil || f == F_round_even || f == F_trunc,
       test = f == F_isnan || f == F_isinf || f == F_signbit;
  int64_t i;
  if (v.kind == V_BOOL || v.kind == V_NONE || v.kind == V_STR || v.kind == V_TEN || v.kind == V_TYPE)
    FAIL(at, "%s of %s", table[f].name, v_describe(x, v));
  if (v.kind == V_SIZE || v.kind == V_FLOAT || v.kind == V_RAT) {
    if (rnd) return rounding(x, f, v, at);
    if (v.kind == V_SIZE && f == F_abs) return v.s = sym_max(x->c, v.s, sym_neg(x->c, v.s)), v;
    if (v.kind == V_SIZE && f == F_sign)
      return v.s = sym_min(x->c, sym_max(x->c, v.s, sym_int(x->c, -1)), sym_int(x->c, 1)), v;
    if (f == F_bnot && v_is_int(x, v, &i)) return v_int(x, ~i);
    double d = v.f;
    bool known = v.kind == V_FLOAT;
    if (v_is_int(x, v, &i)) d = (double)i, known = true;
    if (v.kind == V_SIZE && v.idx) FAIL(at, "%s of an index (an i64); convert it first", table[f].name);
    if (known && test) return v_bool(f == F_isnan ? isnan(d) : f == F_isinf ? isinf(d) : signbit(d));
    if (known) return v_float(on_double(f, d));
    v = v_weak(v_lift(x, v, ET_F64, at)); /* a function of a symbolic size: computed when it is known */
  }
  etype t = (etype)exn(x->m, v.e)->type;
  ekind k = et_kind(t);
  bool ok = k == K_FLOAT || ((f == F_abs || f == F_sign) && (k == K_INT || k == K_UINT));
  if (f == F_bnot) ok = k == K_INT || k == K_UINT;
  if (!ok) FAIL(at, "%s of %s elements", table[f].name, et_name(t));
  return (val){.kind = V_EX, .e = expr_op1(x->m, scalar_op(f), v.e), .weak = v.weak && !test};
}
static val binary_fn(el *x, fun f, val a, val b, const ast *at) {
  ctx *c = x->c;
  if (f == F_pow) {
    int64_t k;
    if (a.kind != V_EX && b.kind != V_EX) return v_binary(x, BO_POW, a, b, at);
    if (v_is_int(x, b, &k) && (k == 2 || k == 3)) return v_binary(x, BO_POW, a, b, at);
  }
  bool minmax = f == F_min || f == F_max;
  if (a.kind == V_SIZE && b.kind == V_SIZE) {
    val r = {.kind = V_SIZE, .idx = a.idx || b.idx};
    int64_t i, j;
    if (minmax) return r.s = f == F_min ? sym_min(c, a.s, b.s) : sym_max(c, a.s, b.s), r;
    bool ki = v_is_int(x, a, &i), kj = v_is_int(x, b, &j);
    if (f == F_fmod) {
      if (ki && kj && j) return v_int(x, i % j);
      if (sym_ge0(c, a.s) && sym_ge0(c, sym_addi(c, b.s, -1))) return r.s = sym_mod(c, a.s, b.s), r;
    }
    if (ki && kj && f != F_nextafter && f != F_fmod) {
      int64_t q = f == F_band       ? (i & j)
                  : f == F_bor      ? (i | j)
                  : f == F_bxor     ? (i ^ j)
                  : j < 0 || j > 63 ? 0
                  : f == F_shl      ? (int64_t)((uint64_t)i << j)
                                    : (i >> j);
      return v_int(x, q);
    }
    a = v_ex(v_lift(x, a, ET_I64, at));
  }
  if (minmax && (a.kind == V_FLOAT || a.kind == V_SIZE || a.kind == V_RAT) &&
      (b.kind == V_FLOAT || b.kind == V_SIZE || b.kind == V_RAT)) {
    val le = v_binary(x, BO_LE, a, b, at);
    return v_select(x, le, f == F_min ? a : b, f == F_min ? b : a, at);
  }
  if (a.kind == V_FLOAT && b.kind == V_FLOAT && f == F_fmod) return v_float(fmod(a.f, b.f));
  etype ta = v_etype(x, a), tb = v_etype(x, b), t = ta ? ta : tb ? tb : ET_F64;
  ekind k = et_kind(t);
  bool bits = f == F_band || f == F_bor || f == F_bxor || f == F_shl || f == F_shr;
  if (bits ? !(k == K_INT || k == K_UINT) : k == K_BOOL && !minmax)
    FAIL(at, "%s of %s elements", table[f].name, et_name(t));
  ex p = v_lift(x, a, t, at), q = v_lift(x, b, t, at);
  if (t == ET_BOOL) return v_ex(expr_op2(x->m, f == F_min ? OP_AND : OP_OR, p, q));
  return (val){.kind = V_EX, .e = expr_op2(x->m, scalar_op(f), p, q), .weak = !ta && !tb};
}
static val fold(el *x, fun f, val *a, uint32_t n, const ast *at) {
  if (!n) {
    if (f == F_every) return v_bool(true);
    if (f == F_some) return v_bool(false);
    if (f == F_add) return v_int(x, 0);
    if (f == F_mul) return v_int(x, 1);
    FAIL(at, "%s of nothing", table[f].name);
  }
  val r = a[0];
  for (uint32_t i = 1; i < n; i++) switch (f) {
    case F_every:
      r = v_binary(x, BO_AND, r, a[i], at);
      break;
    case F_some:
      r = v_binary(x, BO_OR, r, a[i], at);
      break;
    case F_add:
      r = v_binary(x, BO_ADD, r, a[i], at);
      break;
    case F_mul:
      r = v_binary(x, BO_MUL, r, a[i], at);
      break;
    default:
      r = binary_fn(x, f, r, a[i], at);
    }
  return r;
}

/* Scalar functions applied to packs go element by element. */
static val zip_call(el *x, fun f, val *a, uint32_t n, const ast *at);
static val scalar_fn(el *x, fun f, val *a, uint32_t n, const ast *at) {
  for (uint32_t i = 0; i < n; i++)
    if (a[i].kind == V_LIST) return zip_call(x, f, a, n, at);
  for (uint32_t i = 0; i < n; i++)
    if (a[i].str) FAIL(at, "%s of a string", table[f].name);
  switch (f) {
  case F_add:
  case F_mul:
  case F_every:
  case F_some:
  case F_min:
  case F_max:
    return fold(x, f, a, n, at);
  case F_pow:
  case F_fmod:
  case F_nextafter:
  case F_band:
  case F_bor:
  case F_bxor:
  case F_shl:
  case F_shr:
    return binary_fn(x, f, a[0], a[1], at);
  case F_fma: {
    etype t = v_etype(x, a[0]);
    if (!t) t = v_etype(x, a[1]);
    if (!t) t = v_etype(x, a[2]);
    if (!t || et_kind(t) != K_FLOAT) FAIL(at, "fma needs float elements");
    ex p[3] = {v_lift(x, a[0], t, at), v_lift(x, a[1], t, at), v_lift(x, a[2], t, at)};
    return v_ex(expr_op(x->m, OP_FMA, t, p, 3));
  }
  case F_sat:
  case F_satf: {
    etype t = need_type(x, a[0], at, table[f].name), from = v_etype(x, a[1]);
    if (!from) from = ET_F32;
    ex p = v_lift(x, a[1], from, at);
    return v_ex(expr_op(x->m, f == F_sat ? OP_SAT : OP_SATF, t, &p, 1));
  }
  case F_bitcast: {
    etype t = need_type(x, a[0], at, "bitcast"), from = v_etype(x, a[1]);
    if (!from || et_bits(from) != et_bits(t))
      FAIL(at, "bitcast keeps the width: %s to %s does not", from ? et_name(from) : "a literal", et_name(t));
    ex p = v_lift(x, a[1], from, at);
    return v_ex(expr_op(x->m, OP_BITCAST, t, &p, 1));
  }
  case F_rand: {
    if (a[0].kind == V_NONE) { /* a random seed that belongs to the node */
      const char *who = x->node ? x->node : x->d->name;
      a[0] = v_int(x, (int64_t)(hash_bytes(who, strlen(who), 0x9e37) & 0x7fffffff));
    } else if (a[0].kind == V_FLOAT)
      a[0] = v_int(x, (int64_t)(hash_bytes(&a[0].f, sizeof a[0].f, 0x9e37) & 0x7fffffff));
    ex p[2] = {v_lift(x, a[0], ET_I64, at), v_lift(x, a[1], ET_I64, at)};
    return v_ex(expr_op(x->m, OP_RAND, ET_F32, p, 2));
  }
  default:
    return unary_fn(x, f, a[0], at);
  }
}
static val zip_call(el *x, fun f, val *a, uint32_t n, const ast *at) {
  int64_t len = -1;
  for (uint32_t i = 0; i < n; i++)
    if (a[i].kind == V_LIST) {
      if (len >= 0 && len != a[i].p.l->n)
        FAIL(at, "%s: packs of different length, %lld and %u", table[f].name, (long long)len, a[i].p.l->n);
      len = a[i].p.l->n;
    }
  val r = v_list(x, (uint32_t)len), *one = NEWN(x->a, val, n);
  for (uint32_t j = 0; j < len; j++) {
    for (uint32_t i = 0; i < n; i++) one[i] = a[i].kind == V_LIST ? a[i].p.l->v[j] : a[i];
    r.p.l->v[j] = scalar_fn(x, f, one, n, at);
  }
  return r;
}

/* ---- static functions ------------------------------------------------------------------------ */
static val limit(el *x, fun f, etype t) {
  if (t == ET_BOOL) return v_bool(f == F_maxval);
  if (et_kind(t) == K_FLOAT)
    return v_float(f == F_maxval ? et_highest(t) : f == F_minval ? et_lowest(t) : -__builtin_inf());
  if (t == ET_U64 && f == F_maxval) {
    scalar k = {.i = -1};
    return v_ex(expr_const(x->m, t, k));
  }
  if (t == ET_I64) return v_int(x, f == F_maxval ? INT64_MAX : INT64_MIN);
  return v_int(x, (int64_t)(f == F_maxval ? et_highest(t) : et_lowest(t)));
}
static val extreme(el *x, fun f, vlist *l, const ast *at) {
  if (!l->n) {
    if (f == F_maximum) return v_int(x, 1);
    FAIL(at, "%s of an empty pack", table[f].name);
  }
  val r = l->v[0];
  for (uint32_t i = 1; i < l->n; i++) r = binary_fn(x, f == F_least ? F_min : F_max, r, l->v[i], at);
  return r;
}
static val weave(el *x, val *a, const ast *at) {
  vlist *ax = need_list(x, a[0], at, "weave"), *p = need_list(x, a[1], at, "weave"),
        *q = need_list(x, a[2], at, "weave");
  if (ax->n != p->n) FAIL(at, "weave: %u positions for %u values", ax->n, p->n);
  int64_t *pos = ints(x, ax, at, "an axis");
  uint32_t n = ax->n + q->n, next = 0;
  val r = v_list(x, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = 0;
    while (j < ax->n && pos[j] != i) j++;
    if (j < ax->n)
      r.p.l->v[i] = p->v[j];
    else if (next < q->n)
      r.p.l->v[i] = q->v[next++];
    else
      FAIL(at, "weave: the positions do not fit a pack of %u (an axis is out of range or given twice)", n);
  }
  if (next != q->n) FAIL(at, "weave: an axis is out of range for %u or given twice", n);
  return r;
}
static val flat(el *x, val *a, const ast *at) {
  vlist *i = need_list(x, a[0], at, "flat"), *m = need_list(x, a[1], at, "flat");
  if (i->n != m->n) FAIL(at, "flat: %u indices for %u sizes", i->n, m->n);
  val r = v_int(x, 0);
  for (uint32_t j = 0; j < i->n; j++) r = v_binary(x, BO_ADD, v_binary(x, BO_MUL, r, m->v[j], at), i->v[j], at);
  return r;
}
static val unflat(el *x, val *a, const ast *at) {
  vlist *m = need_list(x, a[1], at, "unflat");
  val r = v_list(x, m->n), p = a[0];
  for (uint32_t j = m->n; j-- > 0;) {
    val d = v_size(sym_max(x->c, v_need_size(x, m->v[j], at, "unflat's size"), sym_int(x->c, 1)));
    r.p.l->v[j] = j ? v_binary(x, BO_MOD, p, d, at) : p;
    p = v_binary(x, BO_IDIV, p, d, at);
  }
  return r;
}

bool builtin_call(el *x, const ast *e, val *a, uint32_t n, val *out) {
  fun f = F_COUNT;
  for (int i = 0; i < F_COUNT && f == F_COUNT; i++)
    if (!strcmp(table[i].name, e->name)) f = (fun)i;
  if (f == F_COUNT) return false;
  if ((int)n < table[f].lo || (table[f].hi >= 0 && (int)n > table[f].hi))
    FAIL(e, "%s takes %d arguments, %u given", e->name, table[f].lo, n);
  ctx *c = x->c;
  vlist *l;
  val r;
  switch (f) {
  case F_len:
    if (a[0].kind == V_TEN)
      *out = v_int(x, a[0].p.t->rank);
    else
      *out = v_int(x, need_list(x, a[0], e, "len")->n);
    return true;
  case F_shape:
  case F_rank:
    if (a[0].kind == V_LIST) {
      r = v_list(x, a[0].p.l->n);
      for (uint32_t i = 0; i < r.p.l->n; i++) builtin_call(x, e, &a[0].p.l->v[i], 1, &r.p.l->v[i]);
      return *out = r, true;
    }
    if (f == F_rank) return *out = v_int(x, need_tensor(x, a[0], e, "rank")->rank), true;
    r = v_list(x, need_tensor(x, a[0], e, "shape")->rank);
    for (uint32_t i = 0; i < r.p.l->n; i++) r.p.l->v[i] = v_size(sym_canon(c, a[0].p.t->shape[i]));
    return *out = r, true;
  case F_values:
    return *out = a[0].kind == V_TEN ? known_list(x, a[0].p.t, e) : a[0], true;
  case F_value: {
    if (a[0].kind != V_TEN) return *out = a[0], true;
    nten *t = a[0].p.t;
    if (t->type == ET_STR) FAIL(e, "value(%s): strings are not known when compiling", t->name);
    sz idx[MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) idx[i] = sym_int(c, 0);
    const sz *iv = NULL;
    const double *fv = NULL;
    if (t->uniform) return *out = t->fill, true;
    if (t->t) point_values(x, t->t, &iv, &fv);
    if (t->values) iv = t->values;
    if (t->type == ET_BOOL) return *out = iv ? v_bool(sym_int_or(c, iv[0], 1) != 0) : load_at(x, t, idx, 0), true;
    if (et_kind(t->type) == K_FLOAT)
      return *out = fv ? v_float(fv[0]) : t->floats ? v_float(t->floats[0]) : load_at(x, t, idx, 0), true;
    if (iv && !sym_uses_kind(c, iv[0], AT_DATA)) return *out = v_size(bounded_size(x, iv[0])), true;
    *out = late_size(x, expr_cast(x->m, ET_I64, load_at(x, t, idx, 0).e), t->name);
    return true;
  }
  case F_elem:
    return *out = v_type(need_tensor(x, a[0], e, "elem")->type), true;
  case F_tensor:
    return *out = v_ten(const_list(x, a[0], e)), true;
  case F_kind: {
    static const char *const kinds[] = {
        [K_FLOAT] = "float", [K_INT] = "int", [K_UINT] = "uint", [K_BOOL] = "bool", [K_STR] = "str"};
    return *out = v_str(kinds[et_kind(need_type(x, a[0], e, "kind"))]), true;
  }
  case F_bits:
    return *out = v_int(x, et_bits(need_type(x, a[0], e, "bits"))), true;
  case F_typename:
    return *out = v_str(et_name(need_type(x, a[0], e, "typename"))), true;
  case F_onnx_type: {
    int64_t k = v_need_int(x, a[0], e, "an element type");
    etype t = k >= 0 && k < 1000 ? et_from_onnx((int)k) : ET_NONE;
    if (t == ET_NONE) el_fail(x, E_UNSUPPORTED, e->line, e->col, "element type number %lld is not known", (long long)k);
    return *out = v_type(t), true;
  }
  case F_onnx_code:
    return *out = v_int(x, et_to_onnx(need_type(x, a[0], e, "onnx_code"))), true;
  case F_lowest:
  case F_minval:
  case F_maxval:
    return *out = limit(x, f, need_type(x, a[0], e, e->name)), true;
  case F_take: {
    vlist *ix = need_list(x, a[1], e, "take");
    l = need_list(x, a[0], e, "take");
    int64_t *p = ints(x, ix, e, "an axis");
    r = v_list(x, ix->n);
    for (uint32_t i = 0; i < ix->n; i++) {
      if (p[i] < 0 || p[i] >= l->n) FAIL(e, "take: axis %lld is out of range for rank %u", (long long)p[i], l->n);
      r.p.l->v[i] = l->v[p[i]];
    }
    return *out = r, true;
  }
  case F_drop: {
    vlist *ix = need_list(x, a[1], e, "drop");
    l = need_list(x, a[0], e, "drop");
    int64_t *p = ints(x, ix, e, "an axis");
    for (uint32_t j = 0; j < ix->n; j++)
      if (p[j] < 0 || p[j] >= l->n) FAIL(e, "drop: axis %lld is out of range for rank %u", (long long)p[j], l->n);
    r = v_list(x, l->n);
    uint32_t m = 0;
    for (uint32_t i = 0; i < l->n; i++) {
      bool gone = false;
      for (uint32_t j = 0; j < ix->n; j++) gone |= p[j] == i;
      if (!gone) r.p.l->v[m++] = l->v[i];
    }
    r.p.l->n = m;
    return *out = r, true;
  }
  case F_weave:
    return *out = weave(x, a, e), true;
  case F_rev:
    l = need_list(x, a[0], e, "rev");
    r = v_list(x, l->n);
    for (uint32_t i = 0; i < l->n; i++) r.p.l->v[i] = l->v[l->n - 1 - i];
    return *out = r, true;
  case F_cat: {
    valvec v = {0};
    for (uint32_t i = 0; i < n; i++)
      if (a[i].kind == V_LIST)
        for (uint32_t j = 0; j < a[i].p.l->n; j++) vec_push(x->a, v, a[i].p.l->v[j]);
      else
        vec_push(x->a, v, a[i]);
    return *out = list_of(x, v.v, v.n), true;
  }
  case F_iota:
  case F_fill: {
    int64_t k = v_need_int(x, a[f == F_fill], e, "the length of a pack");
    if (k < 0 || k > 1 << 20) FAIL(e, "%s: %lld is no length of a pack", e->name, (long long)k);
    r = v_list(x, (uint32_t)k);
    for (int64_t i = 0; i < k; i++) r.p.l->v[i] = f == F_fill ? a[0] : v_int(x, i);
    return *out = r, true;
  }
  case F_prefix: {
    l = need_list(x, a[0], e, "prefix");
    r = v_list(x, l->n);
    val s = v_int(x, 0);
    for (uint32_t i = 0; i < l->n; i++) r.p.l->v[i] = s, s = v_binary(x, BO_ADD, s, l->v[i], e);
    return *out = r, true;
  }
  case F_product:
    need_list(x, a[0], e, "product");
    return *out = v_size(product_of(x, a[0], e)), true;
  case F_total:
    l = need_list(x, a[0], e, "total"); /* a number is a pack of one */
    return *out = fold(x, F_add, l->v, l->n, e), true;
  case F_broadcast:
    return *out = broadcast_dims(x, a, n, e), true;
  case F_nth: {
    l = need_list(x, a[0], e, "nth");
    int64_t i = v_need_int(x, a[1], e, "a position");
    if (i < 0 || i >= l->n) FAIL(e, "nth: position %lld of a pack of %u", (long long)i, l->n);
    return *out = l->v[i], true;
  }
  case F_flatten: {
    valvec v = {0};
    l = need_list(x, a[0], e, "flatten");
    for (uint32_t i = 0; i < l->n; i++)
      if (l->v[i].kind == V_LIST)
        for (uint32_t j = 0; j < l->v[i].p.l->n; j++) vec_push(x->a, v, l->v[i].p.l->v[j]);
      else
        vec_push(x->a, v, l->v[i]);
    return *out = list_of(x, v.v, v.n), true;
  }
  case F_swap: {
    l = need_list(x, a[0], e, "swap");
    int64_t i = v_need_int(x, a[1], e, "a position"), j = v_need_int(x, a[2], e, "a position");
    if (i < 0 || j < 0 || i >= l->n || j >= l->n) FAIL(e, "swap: position out of range");
    r = list_of(x, l->v, l->n);
    r.p.l->v[i] = l->v[j], r.p.l->v[j] = l->v[i];
    return *out = r, true;
  }
  case F_perm: { /* the inverse permutation */
    l = need_list(x, a[0], e, "perm");
    int64_t *p = ints(x, l, e, "an axis");
    r = v_list(x, l->n);
    for (uint32_t i = 0; i < l->n; i++) {
      if (p[i] < 0 || p[i] >= l->n || r.p.l->v[p[i]].kind) FAIL(e, "this is no permutation of %u axes", l->n);
      r.p.l->v[p[i]] = v_int(x, i);
    }
    return *out = r, true;
  }
  case F_sorted:
  case F_unique: {
    l = need_list(x, a[0], e, e->name);
    int64_t *p = ints(x, l, e, "an axis");
    qsort(p, l->n, sizeof *p, by_int);
    r = v_list(x, l->n);
    uint32_t m = 0;
    for (uint32_t i = 0; i < l->n; i++)
      if (f == F_sorted || !i || p[i] != p[i - 1]) r.p.l->v[m++] = v_int(x, p[i]);
    r.p.l->n = m;
    return *out = r, true;
  }
  case F_indexof:
  case F_contains:
    l = need_list(x, a[0], e, e->name);
    for (uint32_t i = 0; i < l->n; i++) {
      val q = v_binary(x, BO_EQ, l->v[i], a[1], e);
      if (decide(x, q, e, "membership in a pack")) return *out = f == F_contains ? v_bool(true) : v_int(x, i), true;
    }
    if (f == F_indexof) FAIL(e, "indexof: %s is not in the pack", v_describe(x, a[1]));
    return *out = v_bool(false), true;
  case F_least:
  case F_most:
  case F_maximum:
    return *out = extreme(x, f, need_list(x, a[0], e, e->name), e), true;
  case F_same:
    return *out = v_bool(same_val(x, a[0], a[1], e)), true;
  case F_einsum_plan:
    if (a[0].kind != V_STR) FAIL(e, "einsum_plan: the equation is a string");
    return *out = einsum_plan(x, a[0].p.str, need_list(x, a[1], e, "einsum_plan"), e), true;
  case F_regex_plan:
    if (a[0].kind != V_STR) FAIL(e, "regex_plan: the pattern is a string");
    return *out = regex_plan(x, a[0].p.str, e), true;
  case F_regex_search:
    if (a[0].kind != V_STR) FAIL(e, "regex_search: the pattern is a string");
    return *out = regex_search(x, a[0].p.str, e), true;
  case F_case_plan:
    if (a[0].kind != V_STR) FAIL(e, "case_plan: \"UPPER\" or \"LOWER\"");
    return *out = case_plan(x, !strcmp(a[0].p.str, "UPPER")), true;
  case F_flat:
    return *out = flat(x, a, e), true;
  case F_unflat:
    return *out = unflat(x, a, e), true;
  case F_known:
    return *out = v_bool(a[0].kind == V_FLOAT || a[0].kind == V_BOOL || a[0].kind == V_STR || a[0].kind == V_TYPE ||
                         v_is_int(x, a[0], NULL)),
           true;
  case F_stop:
    return *out = a[0], true;
  default:
    return *out = scalar_fn(x, f, a, n, e), true;
  }
}
