/* How does a loop function become an LLVM function? One walk over its blocks; every value is SSA at once, registers
 * are allocas that sroa promotes.
 *
 * Shape of the result:   entry: allocas, parameters from args -> body -> loops as  guard, loop (phi index),
 *                        latch, exit.
 * An `unroll n` loop gets n copies of its body per round and a loop of single rounds for the rest.
 */
#include "codegen/llvm/emit.h"
#include <stdlib.h>
#include <string.h>

LLVMBasicBlockRef em_bb(em *e, const char *name) { return LLVMAppendBasicBlockInContext(e->lc, e->fn, name); }
/* In the entry block, whatever is being emitted. */
LLVMValueRef em_alloca(em *e, LLVMTypeRef t, LLVMValueRef count, unsigned align) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(e->entry));
  LLVMValueRef v = count ? LLVMBuildArrayAlloca(e->b, t, count, "") : LLVMBuildAlloca(e->b, t, "");
  if (align) LLVMSetAlignment(v, align);
  LLVMPositionBuilderAtEnd(e->b, here);
  return v;
}
static LLVMValueRef field(em *e, LLVMValueRef p, LLVMTypeRef t, int64_t slot) {
  LLVMValueRef k = LLVMConstInt(e->i64, (unsigned long long)slot, 0);
  LLVMValueRef v = LLVMBuildLoad2(e->b, t, LLVMBuildGEP2(e->b, e->i64, p, &k, 1, ""), "");
  LLVMSetAlignment(v, 8);
  return v;
}
static void note(em *e, LLVMValueRef v, const char *kind, LLVMValueRef *ops, unsigned n) {
  LLVMSetMetadata(v, LLVMGetMDKindIDInContext(e->lc, kind, (unsigned)strlen(kind)), LLVMMDNodeInContext(e->lc, ops, n));
}
/* Slots of the call record (runtime.h) that have a name. */
static const struct {
  const char *name; /* name of the field */
  int slot;         /* number of its slot in the record */
} call_fields[] = {{"in_dims", 2}, {"out_dims", 3}, {"arena", 4},       {"weights", 5},
                   {"threads", 8}, {"scratch", 9},  {"arena_bytes", 10}};
static LLVMValueRef main_param(em *e, const lparam *p) {
  LLVMTypeRef t = em_type(e, p->type);
  if (!strcmp(p->name, "call")) return e->arg[0];
  for (size_t i = 0; i < sizeof call_fields / sizeof *call_fields; i++)
    if (!strcmp(p->name, call_fields[i].name)) return field(e, e->arg[0], t, call_fields[i].slot);
  bool in = !strncmp(p->name, "in.", 3), out = !strncmp(p->name, "out.", 4);
  if (!in && !out) ctx_bug(e->c, "llvm: main function %s: no field %s in the call record", e->f->name, p->name);
  return field(e, field(e, e->arg[0], e->ptr, in ? 0 : 1), t, atoi(p->name + (in ? 3 : 4)));
}
static void params(em *e) {
  for (uint32_t i = 0; i < e->f->params.n; i++) {
    const lparam *p = &e->f->params.v[i];
    LLVMValueRef v = e->f->kind == LF_MAIN ? main_param(e, p) : field(e, e->arg[0], em_type(e, p->type), i);
    if (p->type.ptr && LLVMIsALoadInst(v)) {
      if (p->align > 1) {
        LLVMValueRef k = LLVMConstInt(e->i64, p->align, 0);
        note(e, v, "align", &k, 1);
      }
    }
    e->val[p->value] = v;
  }
  bool scratch = false;
  for (uint32_t i = 1; i < e->f->insts.n && !scratch; i++) scratch = e->f->insts.v[i].kind == L_SCRATCH;
  if (!scratch) return;
  LLVMValueRef area = field(e, e->arg[0], e->ptr, e->f->params.n),
               size = field(e, e->arg[0], e->i64, (int64_t)e->f->params.n + 1),
               off = LLVMBuildMul(e->b, e->arg[3], size, "");
  e->scratch = LLVMBuildGEP2(e->b, e->i8, area, &off, 1, "");
}
static void emit_for(em *e, lv v, const linst *i);
static void emit_if(em *e, const linst *i) {
  LLVMBasicBlockRef then = em_bb(e, "then"), other = i->other ? em_bb(e, "else") : NULL, end = em_bb(e, "endif");
  LLVMBuildCondBr(e->b, e->val[i->a], then, other ? other : end);
  LLVMPositionBuilderAtEnd(e->b, then);
  em_block(e, i->body);
  LLVMBuildBr(e->b, end);
  if (other) {
    LLVMPositionBuilderAtEnd(e->b, other);
    em_block(e, i->other);
    LLVMBuildBr(e->b, end);
  }
  LLVMPositionBuilderAtEnd(e->b, end);
}
static void emit_call(em *e, const linst *i) {
  const char *name = e->symbol(e->env, i->name);
  if (!name) ctx_bug(e->c, "llvm: function %s calls %s, which is not in the module", e->f->name, i->name);
  LLVMTypeRef kt[4] = {e->ptr, e->i64, e->i64, e->i64}, ft = LLVMFunctionType(e->vd, kt, 4, 0);
  LLVMValueRef fn = LLVMGetNamedFunction(e->mod, name);
  if (!fn) {
    fn = LLVMAddFunction(e->mod, name, ft);
    LLVMSetVisibility(fn, LLVMHiddenVisibility);
  }
  for (uint32_t k = 0; k < i->nargs; k++) {
    LLVMValueRef at = LLVMConstInt(e->i64, k, 0);
    LLVMSetAlignment(LLVMBuildStore(e->b, e->val[i->args[k]], LLVMBuildGEP2(e->b, e->i64, e->call_args, &at, 1, "")),
                     8);
  }
  LLVMValueRef n = e->val[i->a];
  scalar one;
  if (i->kind == L_PARALLEL && !(loop_const(e->f, i->a, &one) && one.i == 1)) {
    LLVMTypeRef pt[4] = {e->ptr, e->ptr, e->ptr, e->i64};
    LLVMValueRef a[4] = {e->arg[0], fn, e->call_args, n};
    LLVMBuildCall2(e->b, LLVMFunctionType(e->vd, pt, 4, 0), field(e, e->arg[0], e->ptr, 6), a, 4, "");
    return;
  }
  LLVMValueRef zero = LLVMConstInt(e->i64, 0, 0),
               a[4] = {e->call_args, zero, n, e->f->kind == LF_MAIN ? zero : e->arg[3]};
  LLVMBuildCall2(e->b, ft, fn, a, 4, "");
}
static void emit_fail(em *e, const linst *i) {
  LLVMBasicBlockRef bad = em_bb(e, "fail"), on = em_bb(e, "on");
  LLVMBuildCondBr(e->b, e->val[i->a], bad, on);
  LLVMPositionBuilderAtEnd(e->b, bad);
  LLVMValueRef text = i->b ? e->val[i->b] : LLVMBuildGlobalStringPtr(e->b, i->name, "message"),
               at = LLVMConstInt(e->i64, 11, 0);
  LLVMSetAlignment(LLVMBuildStore(e->b, text, LLVMBuildGEP2(e->b, e->i64, e->arg[0], &at, 1, "")), 8);
  LLVMBuildRet(e->b, LLVMConstInt(e->i64, (unsigned long long)i->k.i, 0));
  LLVMPositionBuilderAtEnd(e->b, on);
}
/* Has a vector the same number of bits? */
static bool same_size(em *e, LLVMTypeRef x, LLVMTypeRef y) {
  const LLVMTypeRef all[2] = {x, y};
  unsigned bits[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    const bool vec = LLVMGetTypeKind(all[i]) == LLVMVectorTypeKind;
    const LLVMTypeRef t = vec ? LLVMGetElementType(all[i]) : all[i];
    bits[i] = (t == e->i64 || t == e->f64   ? 64u
               : t == e->i32 || t == e->f32 ? 32u
               : t == e->i8                 ? 8u
                                            : 16u) *
              (vec ? LLVMGetVectorSize(all[i]) : 1);
  }
  return bits[0] == bits[1];
}
/* The function that an intrinsic is: its type is LLVM's own, or where it has several, what the elements are declared
 * as, which its name says, too. */
static LLVMValueRef intrinsic(em *e, const instruction *k, unsigned id, LLVMTypeRef *ft) {
  LLVMTypeRef p[INSTRUCTION_OPERANDS];
  if (!LLVMIntrinsicIsOverloaded(id)) {
    *ft = LLVMIntrinsicGetType(e->lc, id, NULL, 0);
    return LLVMGetIntrinsicDeclaration(e->mod, id, NULL, 0);
  }
  for (uint32_t j = 0; j < k->nllvm; j++) {
    const uint32_t o = k->llvm_order[j];
    p[j] = em_type(e, lt(k->operands[o].type, k->lanes * (o ? k->group : 1)));
  }
  *ft = LLVMFunctionType(em_type(e, lt(k->operands[0].type, k->lanes)), p, k->nllvm, 0);
  LLVMValueRef had = LLVMGetNamedFunction(e->mod, k->llvm);
  return had ? had : LLVMAddFunction(e->mod, k->llvm, *ft);
}
static LLVMValueRef emit_intrin(em *e, const linst *i) {
  const instruction *k = target_instruction(e->t, i->name);
  const unsigned id = LLVMLookupIntrinsicID(k->llvm, strlen(k->llvm));
  LLVMTypeRef rt = em_type(e, i->type), ft, pt[INSTRUCTION_OPERANDS];
  LLVMValueRef a[INSTRUCTION_OPERANDS];
  if (!id)
    ctx_fail(e->c, E_TARGET, "code generation: target %s declares the instruction %s as %s, which LLVM does not know",
             e->t->name, k->name, k->llvm);
  LLVMValueRef fn = intrinsic(e, k, id, &ft);
  if (LLVMCountParamTypes(ft) != k->nllvm)
    ctx_fail(e->c, E_TARGET, "code generation: %s takes %u operands, not %u", k->llvm, LLVMCountParamTypes(ft),
             k->nllvm);
  LLVMGetParamTypes(ft, pt);
  for (uint32_t j = 0; j < k->nllvm; j++) {
    a[j] = e->val[i->args[k->llvm_order[j]]];
    if (LLVMTypeOf(a[j]) == pt[j]) continue;
    if (!same_size(e, LLVMTypeOf(a[j]), pt[j]))
      ctx_fail(e->c, E_TARGET, "code generation: operand %u of %s has another size", j + 1, k->llvm);
    a[j] = LLVMBuildBitCast(e->b, a[j], pt[j], "");
  }
  LLVMValueRef v = LLVMBuildCall2(e->b, ft, fn, a, k->nllvm, "");
  if (LLVMTypeOf(v) != rt) v = LLVMBuildBitCast(e->b, v, rt, "");
  if (k->nllvm == k->noperands) return v;
  const LLVMValueRef to = e->val[i->args[0]];
  return et_kind((etype)i->type.elem) == K_FLOAT ? LLVMBuildFAdd(e->b, to, v, "") : LLVMBuildAdd(e->b, to, v, "");
}
static LLVMValueRef emit_value(em *e, lv v, const linst *i) {
  LLVMBuilderRef b = e->b;
  switch ((lkind)i->kind) {
  case L_CONST:
    return em_const(e, i->type, i->k);
  case L_LO:
    return e->arg[1];
  case L_HI:
    return e->arg[2];
  case L_WORKER:
    return e->arg[3];
  case L_PARAM:
    return e->val[e->f->params.v[i->k.i].value];
  case L_OP:
    return em_op(e, i);
  case L_SPLAT:
    return em_splat(e, e->val[i->a], i->type.lanes);
  case L_IOTA: {
    LLVMValueRef *lane = NEWN(e->a, LLVMValueRef, i->type.lanes);
    for (unsigned l = 0; l < i->type.lanes; l++) lane[l] = LLVMConstInt(em_elem(e, (etype)i->type.elem), l, 0);
    return i->type.lanes == 1 ? lane[0] : LLVMConstVector(lane, i->type.lanes);
  }
  case L_LOAD:
  case L_GATHER:
    return em_load(e, i);
  case L_HREDUCE:
    return em_hreduce(e, i);
  case L_EXTRACT:
    return LLVMBuildExtractElement(b, e->val[i->a], LLVMConstInt(e->i32, (unsigned long long)i->k.i, 0), "");
  case L_SHUFFLE: {
    LLVMValueRef *lane = NEWN(e->a, LLVMValueRef, i->nargs), x = e->val[i->a], y = e->val[i->b];
    for (uint32_t k = 0; k < i->nargs; k++)
      lane[k] = (int32_t)i->args[k] < 0 ? LLVMGetPoison(e->i32) : LLVMConstInt(e->i32, i->args[k], 0);
    if (li(e->f, i->a)->type.lanes == 1) {
      LLVMTypeRef v1 = LLVMVectorType(LLVMTypeOf(x), 1);
      x = LLVMBuildInsertElement(b, LLVMGetPoison(v1), x, LLVMConstInt(e->i32, 0, 0), "");
      y = LLVMBuildInsertElement(b, LLVMGetPoison(v1), y, LLVMConstInt(e->i32, 0, 0), "");
    }
    LLVMValueRef r = LLVMBuildShuffleVector(b, x, y, LLVMConstVector(lane, i->nargs), "");
    return i->nargs == 1 ? LLVMBuildExtractElement(b, r, LLVMConstInt(e->i32, 0, 0), "") : r;
  }
  case L_LOOKUP:
    return em_lookup(e, i);
  case L_OFFSET:
    return LLVMBuildGEP2(b, em_mem(e, (etype)i->type.elem), e->val[i->a], &e->val[i->b], 1, "");
  case L_ALLOC:
    return em_alloca(e, em_mem(e, (etype)i->type.elem), LLVMConstInt(e->i32, (unsigned long long)i->k.i, 0), 64);
  case L_SCRATCH: {
    LLVMValueRef off = LLVMConstInt(e->i64, (unsigned long long)i->k.i, 0);
    return LLVMBuildGEP2(b, e->i8, e->scratch, &off, 1, "");
  }
  case L_REG: {
    LLVMValueRef p = em_alloca(e, em_type(e, i->type), NULL, 0);
    e->slot[v] = em_type(e, i->type);
    LLVMBuildStore(b, e->val[i->a], p);
    return p;
  }
  case L_GET:
    return LLVMBuildLoad2(b, e->slot[i->a], e->val[i->a], "");
  case L_INTRIN:
    return emit_intrin(e, i);
  default:
    ctx_bug(e->c, "llvm: instruction kind %u yields no value", i->kind);
  }
}
void em_block(em *e, uint32_t block) {
  const lblock *k = &e->f->blocks.v[block];
  for (uint32_t j = 0; j < k->insts.n; j++) {
    lv v = k->insts.v[j];
    const linst *i = li(e->f, v);
    switch ((lkind)i->kind) {
    case L_STORE:
    case L_SCATTER:
      em_store(e, i);
      break;
    case L_PREFETCH:
      em_prefetch(e, i);
      break;
    case L_SET:
      LLVMBuildStore(e->b, e->val[i->b], e->val[i->a]);
      break;
    case L_FOR:
      emit_for(e, v, i);
      break;
    case L_IF:
      emit_if(e, i);
      break;
    case L_CALL:
    case L_PARALLEL:
      emit_call(e, i);
      break;
    case L_FAIL:
      emit_fail(e, i);
      break;
    case L_COMMENT:
      break;
    default:
      e->val[v] = emit_value(e, v, i), em_near(e, v);
    }
  }
}
static uint32_t block_size(const lfunc *f, uint32_t block) {
  uint32_t n = 0;
  const lblock *k = &f->blocks.v[block];
  for (uint32_t j = 0; j < k->insts.n; j++) {
    const linst *i = li(f, k->insts.v[j]);
    n += 1 + (i->body ? block_size(f, i->body) * (i->kind == L_FOR && i->k.i > 1 ? (uint32_t)i->k.i : 1) : 0) +
         (i->other ? block_size(f, i->other) : 0);
  }
  return n;
}
/* Another round? `while` looks at its register. */
static LLVMValueRef goes_on(em *e, const linst *i, LLVMValueRef x, LLVMValueRef end) {
  LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSLT, x, end, "");
  return i->mask ? LLVMBuildAnd(e->b, more, LLVMBuildLoad2(e->b, e->slot[i->mask], e->val[i->mask], ""), "") : more;
}
/* A loop of `copies` bodies a round, while index + (copies-1)*step < to. Returns the index after it. guard: the
 * first round may not happen. */
static LLVMValueRef round_loop(em *e, lv v, const linst *i, LLVMValueRef from, unsigned copies, bool guard) {
  LLVMBuilderRef b = e->b;
  LLVMValueRef to = e->val[i->b], step = e->val[i->c], reach = NULL;
  if (copies > 1) reach = LLVMBuildMul(b, step, LLVMConstInt(e->i64, copies - 1, 0), "");
  LLVMValueRef end = reach ? LLVMBuildSub(b, to, reach, "") : to; /* index < end */
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), loop = em_bb(e, i->name ? i->name : "loop"), exit = em_bb(e, "end");
  if (guard)
    LLVMBuildCondBr(b, goes_on(e, i, from, end), loop, exit);
  else
    LLVMBuildBr(b, loop);
  LLVMPositionBuilderAtEnd(b, loop);
  LLVMValueRef phi = LLVMBuildPhi(b, e->i64, i->name ? i->name : "i"), x = phi;
  for (unsigned k = 0; k < copies; k++) {
    e->val[v] = x;
    em_block(e, i->body);
    x = LLVMBuildNSWAdd(b, x, step, "");
  }
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  LLVMBuildCondBr(b, goes_on(e, i, x, end), loop, exit);
  LLVMValueRef in[2] = {from, x};
  LLVMBasicBlockRef ib[2] = {before, last};
  LLVMAddIncoming(phi, in, ib, 2);
  LLVMPositionBuilderAtEnd(b, exit);
  if (!guard) return x;
  LLVMValueRef after = LLVMBuildPhi(b, e->i64, "");
  LLVMAddIncoming(after, in, ib, 2);
  return after;
}
static void emit_for(em *e, lv v, const linst *i) {
  scalar lo, hi, st;
  bool known = loop_const(e->f, i->a, &lo) && loop_const(e->f, i->b, &hi) && loop_const(e->f, i->c, &st);
  uint64_t steps = known && hi.i > lo.i ? ((uint64_t)hi.i - (uint64_t)lo.i - 1) / (uint64_t)st.i : 0;
  int64_t trips = !known               ? -1
                  : hi.i <= lo.i       ? 0
                  : steps >= INT64_MAX ? INT64_MAX
                                       : (int64_t)steps + 1,
          copies = i->k.i > 1 ? i->k.i : 1;
  if (trips == 0) return;
  if (i->mask) {
    round_loop(e, v, i, e->val[i->a], 1, true);
    return;
  }
  if (copies > 1) { /* keep bodies small: code generation is what costs */
    int64_t size = block_size(e->f, i->body);
    while (copies > 1 && copies * size > 4000) copies /= 2;
  }
  if (trips > 0 && trips <= copies) {
    for (int64_t k = 0; k < trips; k++) {
      e->val[v] = LLVMConstInt(e->i64, (unsigned long long)(lo.i + k * st.i), 1);
      em_block(e, i->body);
    }
    return;
  }
  LLVMValueRef at = e->val[i->a];
  if (copies > 1) at = round_loop(e, v, i, at, (unsigned)copies, trips < 0);
  if (copies > 1 && trips > 0) { /* the number of trips that are left is known */
    int64_t done = trips / copies * copies + EK_PLANTED("llvm-unroll");
    for (int64_t k = done; k < trips; k++) {
      e->val[v] = LLVMConstInt(e->i64, (unsigned long long)(lo.i + k * st.i), 1);
      em_block(e, i->body);
    }
    return;
  }
  round_loop(e, v, i, at, 1, trips < 0);
}
static uint32_t most_args(const lfunc *f) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->insts.n; i++)
    if ((f->insts.v[i].kind == L_CALL || f->insts.v[i].kind == L_PARALLEL) && f->insts.v[i].nargs + 1 > n)
      n = f->insts.v[i].nargs + 1;
  return n;
}
static void function_body(em *e, const char *name) {
  e->val = NEWN(e->a, LLVMValueRef, e->f->insts.n);
  e->slot = NEWN(e->a, LLVMTypeRef, e->f->insts.n);
  bool kernel = e->f->kind == LF_KERNEL;
  LLVMTypeRef at[4] = {e->ptr, e->i64, e->i64, e->i64};
  LLVMTypeRef ft = kernel ? LLVMFunctionType(e->vd, at, 4, 0) : LLVMFunctionType(e->i64, at, 1, 0);
  e->fn = LLVMGetNamedFunction(e->mod, name);
  if (!e->fn) e->fn = LLVMAddFunction(e->mod, name, ft);
  for (unsigned i = 0; i < (kernel ? 4u : 1u); i++) e->arg[i] = LLVMGetParam(e->fn, i);
  static const char *const attrs[] = {"nounwind"};
  for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++)
    LLVMAddAttributeAtIndex(
        e->fn, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(e->lc, LLVMGetEnumAttributeKindForName(attrs[i], strlen(attrs[i])), 0));
  if (kernel)
    LLVMAddAttributeAtIndex(e->fn, 1, LLVMCreateEnumAttribute(e->lc, LLVMGetEnumAttributeKindForName("noalias", 7), 0));
  if (e->t->vector_bits >= 128)
    LLVMAddTargetDependentFunctionAttr(e->fn, "prefer-vector-width", arena_fmt(e->a, "%u", e->t->vector_bits));
  e->entry = em_bb(e, "entry");
  LLVMBasicBlockRef body = em_bb(e, "body");
  LLVMPositionBuilderAtEnd(e->b, e->entry);
  em_alias(e);
  params(e);
  LLVMBuildBr(e->b, body);
  LLVMPositionBuilderAtEnd(e->b, body);
  uint32_t n = most_args(e->f);
  if (n) e->call_args = em_alloca(e, e->i64, LLVMConstInt(e->i32, n, 0), 16);
  em_block(e, 1);
  if (kernel)
    LLVMBuildRetVoid(e->b);
  else
    LLVMBuildRet(e->b, LLVMConstInt(e->i64, 0, 0));
}
static bool llvm_writes(const instruction *k) { return k->llvm != NULL; }
LLVMValueRef em_function(ctx *c, arena *a, LLVMContextRef lc, LLVMModuleRef mod, const code_function *f) {
  lfunc g = *f->f; /* the module keeps the function as it is shown */
  g.a = a;
  code_spell(c, &g, f->t, llvm_writes);
  loop_expand((lmodule *)f->m, &g, llvm_native, (void *)f->t);
  em e_ = {.c = c, .a = a, .f = &g, .t = f->t, .lc = lc, .mod = mod, .symbol = f->callee, .env = f->env}, *e = &e_;
  em_types(e);
  e->b = LLVMCreateBuilderInContext(lc);
  CTX_TRY(c) { function_body(e, f->symbol); }
  CTX_CATCH {
    LLVMDisposeBuilder(e->b);
    ctx_unwind(c);
  }
  LLVMDisposeBuilder(e->b);
  return e->fn;
}
