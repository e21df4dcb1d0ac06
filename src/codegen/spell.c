/* How is an instruction written by an emitter that has no word for it? By its formula: each lane's words are taken
 * apart, and the term of each place of the group is added to the accumulator. */
#include "codegen/codegen.h"

typedef struct speller {
  ctx *c;                               /* context */
  const target *t;                      /* declares the instructions */
  bool (*writes)(const instruction *k); /* the emitter has it */
} speller;
static lv nth_element(lbuild *b, const instruction *k, uint32_t operand, lv word, uint32_t place) {
  const etype t = k->operands[operand].type;
  const uint32_t bits = et_bytes(t) * 8;
  static const etype same[] = {[1] = ET_U8, [2] = ET_U16, [4] = ET_U32, [8] = ET_U64};
  const ltype w = li(b->f, word)->type;
  const etype part = same[bits / 8];
  lv x = word;
  if (place && !EK_PLANTED("code-spell"))
    x = lb_op(b, OP_SHR, w, x, lb_const(b, w, (scalar){.i = (int64_t)place * bits}), 0);
  if ((etype)w.elem != part) x = lb_op(b, OP_CAST, lt(part, w.lanes), x, 0, 0);
  return part == t ? x : lb_op(b, OP_BITCAST, lt(t, w.lanes), x, 0, 0);
}
static lv spelled(const instruction *k, lbuild *b, const linst *i, const lv *args) {
  lv acc = args[0];
  lv *v = NEWN(b->f->a, lv, k->nnodes);
  for (uint32_t place = 0; place < k->group; place++) {
    for (uint32_t j = 0; j < k->nnodes; j++) {
      const instruction_node *n = &k->nodes[j];
      const ltype t = lt(n->type, i->type.lanes);
      if (n->kind == IN_OPERAND)
        v[j] = nth_element(b, k, n->operand, args[n->operand], place);
      else if (n->kind == IN_CONST)
        v[j] = lb_const(b, t, n->k);
      else {
        const uint32_t m = op_arity(n->op);
        v[j] = lb_op(b, n->op, t, v[n->args[0]], m > 1 ? v[n->args[1]] : 0, m > 2 ? v[n->args[2]] : 0);
      }
    }
    acc = lb_op(b, OP_ADD, i->type, acc, v[k->nnodes - 1], 0);
  }
  return acc;
}
static lv spell(void *env, lbuild *b, const linst *i, const lv *args) {
  const speller *s = env;
  const instruction *k = target_instruction(s->t, i->name);
  if (!k) ctx_fail(s->c, E_TARGET, "code generation: target %s declares no instruction %s", s->t->name, i->name);
  bool fits = i->nargs == k->noperands && i->type.lanes == k->lanes && i->type.elem == k->operands[0].type;
  for (uint32_t j = 1; j < i->nargs && fits; j++) {
    const ltype w = li(b->f, args[j])->type;
    fits = w.lanes == k->lanes && !w.ptr && et_kind((etype)w.elem) == K_UINT &&
           et_bytes((etype)w.elem) == instruction_word(k, j);
  }
  if (!fits) ctx_fail(s->c, E_TARGET, "code generation: %s has other operands than it is given", i->name);
  return s->writes && s->writes(k) ? 0 : spelled(k, b, i, args);
}
void code_spell(ctx *c, lfunc *f, const target *t, bool (*writes)(const instruction *k)) {
  speller s = {c, t, writes};
  loop_spell(f, spell, &s);
}
