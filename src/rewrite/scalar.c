/* What is the value of one scalar operation on constants?
 *
 * Floats are computed in double and rounded to the type, integers wrap; what is not worth folding (or has no
 * agreed value) says so by ok = false and stays an operation.
 */
#include "rewrite/rewrite.h"
#include <math.h>

static double fmax_nan(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double fmin_nan(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }

static double float_op(sop op, const scalar *x, bool *ok) {
  double a = x[0].f, b = x[1].f;
  switch (op) {
  case OP_ADD:
    return a + b;
  case OP_SUB:
    return a - b;
  case OP_MUL:
    return a * b;
  case OP_DIV:
    return a / b;
  case OP_FMOD:
    return fmod(a, b);
  case OP_NEG:
    return -a;
  case OP_ABS:
    return fabs(a);
  case OP_SIGN:
    return a > 0 ? 1 : a < 0 ? -1 : a;
  case OP_MIN:
    return fmin_nan(a, b);
  case OP_MAX:
    return fmax_nan(a, b);
  case OP_POW:
    return pow(a, b);
  case OP_FMA:
    return fma(a, b, x[2].f);
  case OP_EXP:
    return exp(a);
  case OP_LOG:
    return log(a);
  case OP_SQRT:
    return sqrt(a);
  case OP_SIN:
    return sin(a);
  case OP_COS:
    return cos(a);
  case OP_TAN:
    return tan(a);
  case OP_TANH:
    return tanh(a);
  case OP_ERF:
    return erf(a);
  case OP_FLOOR:
    return floor(a);
  case OP_CEIL:
    return ceil(a);
  case OP_ROUND_EVEN:
    return nearbyint(a);
  case OP_TRUNC:
    return trunc(a);
  default:
    *ok = false;
    return 0;
  }
}
static int64_t int_op(sop op, etype t, const scalar *x, bool *ok) {
  uint64_t a = (uint64_t)x[0].i, b = (uint64_t)x[1].i;
  bool is_u64 = t == ET_U64;
  switch (op) {
  case OP_ADD:
    return (int64_t)(a + b);
  case OP_SUB:
    return (int64_t)(a - b);
  case OP_MUL:
    return (int64_t)(a * b);
  case OP_NEG:
    return (int64_t)(0 - a);
  case OP_BAND:
    return (int64_t)(a & b);
  case OP_BOR:
    return (int64_t)(a | b);
  case OP_BXOR:
    return (int64_t)(a ^ b);
  case OP_IDIV:
  case OP_MOD:
    if (is_u64 || (x[0].i == INT64_MIN && x[1].i == -1)) break;
    if (!x[1].i) return 0;
    return op == OP_IDIV                   ? floordiv64(x[0].i, x[1].i)
           : EK_PLANTED("simplify-scalar") ? x[0].i % x[1].i
                                           : floormod64(x[0].i, x[1].i);
  case OP_MIN:
    if (is_u64) break;
    return min64(x[0].i, x[1].i);
  case OP_MAX:
    if (is_u64) break;
    return max64(x[0].i, x[1].i);
  case OP_ABS:
    if (is_u64 || x[0].i == INT64_MIN) break;
    return x[0].i < 0 ? -x[0].i : x[0].i;
  case OP_SIGN:
    if (is_u64) break;
    return (x[0].i > 0) - (x[0].i < 0);
  default:
    break;
  }
  *ok = false;
  return 0;
}
static bool compare(sop op, etype at, const scalar *x, bool *ok) {
  if (at == ET_U64) {
    *ok = op == OP_EQ || op == OP_NE;
    return (x[0].i == x[1].i) == (op == OP_EQ);
  }
  bool f = et_kind(at) == K_FLOAT;
  bool lt = f ? x[0].f < x[1].f : x[0].i < x[1].i, eq = f ? x[0].f == x[1].f : x[0].i == x[1].i,
       gt = f ? x[0].f > x[1].f : x[0].i > x[1].i;
  switch (op) {
  case OP_EQ:
    return eq;
  case OP_NE:
    return !eq;
  case OP_LT:
    return lt;
  case OP_LE:
    return lt || eq;
  case OP_GT:
    return gt;
  case OP_GE:
    return gt || eq;
  default:
    *ok = false;
    return false;
  }
}
scalar scalar_apply(sop op, etype t, etype at, const scalar *x, bool *ok) {
  *ok = true;
  scalar r = {.i = 0};
  if (op == OP_CAST) return et_convert(t, at, x[0]);
  if (op == OP_SEL) return x[0].i ? x[1] : x[2];
  if (op == OP_AND) return (scalar){.i = x[0].i && x[1].i};
  if (op == OP_OR) return (scalar){.i = x[0].i || x[1].i};
  if (op == OP_NOT) return (scalar){.i = !x[0].i};
  if (op == OP_ISNAN) return (scalar){.i = isnan(x[0].f)};
  if (op == OP_ISINF) return (scalar){.i = isinf(x[0].f)};
  if (op == OP_SIGNBIT) return (scalar){.i = signbit(x[0].f) != 0};
  if (op >= OP_EQ && op <= OP_GE) return (scalar){.i = compare(op, at, x, ok)};
  if (op == OP_SAT || op == OP_SATF || op == OP_BITCAST || op == OP_RAND || op == OP_NEXTAFTER)
    *ok = false;
  else if (et_kind(at) == K_FLOAT)
    r.f = float_op(op, x, ok);
  else if (at == ET_BOOL)
    *ok = false;
  else
    r.i = int_op(op, at, x, ok);
  return *ok ? et_round(t, r) : r;
}
