/* The scalar operations: one table for the notation, the evaluator, gradients, loops and every emitter.
 *   X(id, "name", arity, result, cost)
 * result: S same type as the operands (all of one type), B bool from operands of one type, T the node's own type
 * (conversions, select: see notes). cost: rough scalar operations. Notes. Floats follow IEEE; integers wrap at their
 * width. `/` (div) is for floats only; idiv and mod floor (sign of the divisor); division by zero of integers gives 0.
 * fmod and tdiv-like truncation: fmod has the sign of the dividend. min/max of floats: NaN wins. sel(c, a, b), and, or
 * evaluate lazily: an access in the branch not taken may be out of range. cast: see et_convert. sat: clamp to the node
 * type's range, then convert (the caller rounds). satf: the same for the small floats. bitcast: same width. round_even:
 * to integer, ties to even. ldexp(x, n): x * 2^floor(n), rounded once, for n (in the type of x) of at most 2*126 (f64:
 * 2*1022) either way. shl/shr: logical for unsigned, arithmetic shr for signed; shift counts outside the width give 0
 * (or the sign). rand(seed, position): f32 in [0,1) by Philox 4x32-10, both operands i64: key = (low, high word of
 * seed), counter = (low, high word of position, 0, 0), 10 rounds; of the first output word x0 the value is (x0 >> 8) *
 * 2^-24. */
#ifndef EK_EXPR_OPS_H
#define EK_EXPR_OPS_H
// clang-format off
#define SCALAR_OPS(X) \
  X(ADD, "add", 2, S, 1) \
  X(SUB, "sub", 2, S, 1) \
  X(MUL, "mul", 2, S, 1) \
  X(DIV, "div", 2, S, 3) \
  X(IDIV, "idiv", 2, S, 8) \
  X(MOD, "mod", 2, S, 8) \
  X(FMOD, "fmod", 2, S, 12) \
  X(NEG, "neg", 1, S, 1) \
  X(ABS, "abs", 1, S, 1) \
  X(SIGN, "sign", 1, S, 2) \
  X(MIN, "min", 2, S, 1) \
  X(MAX, "max", 2, S, 1) \
  X(POW, "pow", 2, S, 15) \
  X(FMA, "fma", 3, S, 1) \
  X(EXP, "exp", 1, S, 8) \
  X(LOG, "log", 1, S, 8) \
  X(SQRT, "sqrt", 1, S, 3) \
  X(SIN, "sin", 1, S, 10) \
  X(COS, "cos", 1, S, 10) \
  X(TAN, "tan", 1, S, 14) \
  X(ASIN, "asin", 1, S, 14) \
  X(ACOS, "acos", 1, S, 14) \
  X(ATAN, "atan", 1, S, 12) \
  X(SINH, "sinh", 1, S, 12) \
  X(COSH, "cosh", 1, S, 12) \
  X(ASINH, "asinh", 1, S, 16) \
  X(ACOSH, "acosh", 1, S, 16) \
  X(ATANH, "atanh", 1, S, 14) \
  X(TANH, "tanh", 1, S, 12) \
  X(ERF, "erf", 1, S, 12) \
  X(FLOOR, "floor", 1, S, 1) \
  X(CEIL, "ceil", 1, S, 1) \
  X(ROUND_EVEN, "round_even", 1, S, 1) \
  X(TRUNC, "trunc", 1, S, 1) \
  X(LDEXP, "ldexp", 2, S, 2) \
  X(NEXTAFTER, "nextafter", 2, S, 4) \
  X(ISNAN, "isnan", 1, B, 1) \
  X(ISINF, "isinf", 1, B, 1) \
  X(SIGNBIT, "signbit", 1, B, 1) \
  X(BAND, "band", 2, S, 1) \
  X(BOR, "bor", 2, S, 1) \
  X(BXOR, "bxor", 2, S, 1) \
  X(BNOT, "bnot", 1, S, 1) \
  X(SHL, "shl", 2, S, 1) \
  X(SHR, "shr", 2, S, 1) \
  X(EQ, "eq", 2, B, 1) \
  X(NE, "ne", 2, B, 1) \
  X(LT, "lt", 2, B, 1) \
  X(LE, "le", 2, B, 1) \
  X(GT, "gt", 2, B, 1) \
  X(GE, "ge", 2, B, 1) \
  X(AND, "and", 2, S, 1) \
  X(OR, "or", 2, S, 1) \
  X(NOT, "not", 1, S, 1) \
  X(SEL, "sel", 3, T, 1) \
  X(CAST, "cast", 1, T, 1) \
  X(SAT, "sat", 1, T, 2) \
  X(SATF, "satf", 1, T, 2) \
  X(BITCAST, "bitcast", 1, T, 0) \
  X(RAND, "rand", 2, T, 40)
// clang-format on
typedef enum sop {
  OP_NONE = 0,
#define X(id, name, arity, res, cost) OP_##id,
  SCALAR_OPS(X)
#undef X
      OP_COUNT
} sop;
/* X(id, "name", identity described) */
// clang-format off
#define REDUCTIONS(X) \
  X(SUM, "sum") \
  X(PROD, "prod") \
  X(MAX, "max") \
  X(MIN, "min") \
  X(ANY, "any") \
  X(ALL, "all") \
  X(ARGMAX, "argmax") \
  X(ARGMIN, "argmin") \
  X(ARGMAX_LAST, "argmax_last") \
  X(ARGMIN_LAST, "argmin_last")
// clang-format on
typedef enum rop {
  RED_NONE = 0,
#define X(id, name) RED_##id,
  REDUCTIONS(X)
#undef X
      RED_COUNT
} rop;

/* ---- the tables as functions (build.c) ------------------------------------------------------- */
#include "base/base.h"
const char *op_name(sop op);
uint32_t op_arity(sop op);
uint32_t op_cost(sop op);
sop op_find(const char *name, size_t n); /* OP_NONE if unknown */
bool op_rounds(sop op);                  /* may its result, in floats, be another number than the exact one? */
const char *red_name(rop op);
rop red_find(const char *name, size_t n); /* RED_NONE if unknown */
bool red_is_arg(rop op);
etype red_default_acc(rop op, etype body);
etype red_default_result(rop op, etype body);
/* NULL if operands of these types fit, else why not; fills in *t when it is ET_NONE and follows from them. */
const char *op_type_error(sop op, const etype *at, uint32_t n, etype *t);
#endif
