/* Tables of the operations, for the builder, printer, parser and verifier. */
#include "loop/ops.h"
#include <string.h>

#define S RES_S
#define B RES_B
#define T RES_T
static const struct {
  const char *name; /* name in the text */
  uint8_t arity;    /* number of operands */
  uint8_t res;      /* rclass */
} sops[OP_COUNT] = {
#define X(id, name, arity, res, cost) [OP_##id] = {name, arity, res},
    SCALAR_OPS(X)
#undef X
};
#undef S
#undef B
#undef T
static const char *const rops[RED_COUNT] = {
#define X(id, name) [RED_##id] = name,
    REDUCTIONS(X)
#undef X
};

const char *loop_sop_name(sop op) { return op > OP_NONE && op < OP_COUNT ? sops[op].name : "?"; }
sop loop_sop_parse(const char *s, size_t n) {
  for (int i = 1; i < OP_COUNT; i++)
    if (strlen(sops[i].name) == n && !memcmp(sops[i].name, s, n)) return (sop)i;
  return OP_NONE;
}
unsigned loop_sop_arity(sop op) { return op < OP_COUNT ? sops[op].arity : 0; }
rclass loop_sop_result(sop op) { return (rclass)sops[op].res; }
const char *loop_rop_name(rop op) { return op > RED_NONE && op < RED_COUNT ? rops[op] : "?"; }
rop loop_rop_parse(const char *s, size_t n) {
  for (int i = 1; i < RED_COUNT; i++)
    if (strlen(rops[i]) == n && !memcmp(rops[i], s, n)) return (rop)i;
  return RED_NONE;
}
unsigned loop_sop_kinds(sop op) {
  switch (op) {
  case OP_DIV:
  case OP_EXP:
  case OP_LOG:
  case OP_SQRT:
  case OP_SIN:
  case OP_COS:
  case OP_TAN:
  case OP_ASIN:
  case OP_ACOS:
  case OP_ATAN:
  case OP_SINH:
  case OP_COSH:
  case OP_ASINH:
  case OP_ACOSH:
  case OP_ATANH:
  case OP_TANH:
  case OP_ERF:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_ROUND_EVEN:
  case OP_TRUNC:
  case OP_LDEXP:
  case OP_NEXTAFTER:
  case OP_ISNAN:
  case OP_ISINF:
  case OP_SIGNBIT:
    return KF;
  case OP_SHL:
  case OP_SHR:
    return KI;
  case OP_BAND:
  case OP_BOR:
  case OP_BXOR:
  case OP_BNOT:
    return KI | KB;
  case OP_AND:
  case OP_OR:
  case OP_NOT:
    return KB;
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
  case OP_SEL:
  case OP_CAST:
  case OP_BITCAST:
    return KA;
  case OP_MIN:
  case OP_MAX:
    return KA;
  default:
    return KN;
  }
}
bool loop_has_value(lkind k) {
  switch (k) {
  case L_STORE:
  case L_SCATTER:
  case L_PREFETCH:
  case L_SET:
  case L_IF:
  case L_CALL:
  case L_PARALLEL:
  case L_FAIL:
  case L_COMMENT:
    return false;
  default:
    return true;
  }
}
bool loop_const(const lfunc *f, lv v, scalar *k) {
  if (!v || li(f, v)->kind != L_CONST) return false;
  *k = li(f, v)->k;
  return true;
}
