/* What does the loop level know about each scalar operation and reduction? Tables made from expr/ops.h (private to
 * the room). */
#ifndef EK_LOOP_OPS_H
#define EK_LOOP_OPS_H
#include "loop/loop.h"

/* Result class of an operation: same type as its operands, bool, or the instruction's own type. */
typedef enum { RES_S, RES_B, RES_T } rclass;
/* Element kinds an operation takes. */
enum { KF = 1, KI = 2, KB = 4, KN = KF | KI, KA = KF | KI | KB };

const char *loop_sop_name(sop op);
sop loop_sop_parse(const char *s, size_t n);
unsigned loop_sop_arity(sop op);
rclass loop_sop_result(sop op);
unsigned loop_sop_kinds(sop op);
const char *loop_rop_name(rop op);
rop loop_rop_parse(const char *s, size_t n);
/* The instruction yields a value (others are only effects). */
bool loop_has_value(lkind k);
/* a scalar i64 constant: it stands where it is used, and has no number */
static inline bool loop_in_place(const linst *i) {
  return i->kind == L_CONST && i->type.elem == ET_I64 && i->type.lanes == 1;
}
/* Numbers of the values in the order of the text, 0 for effects: what the printer shows as %n. Filled to f->insts.n. */
uint32_t *loop_numbers(const lfunc *f, arena *a);

#endif
