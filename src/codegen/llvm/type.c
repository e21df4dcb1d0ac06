/* How do loop types and constants look in LLVM? Floats of 32 and 64 bits are themselves; narrower floats are
 * integers of their width (loop_expand left only moves and casts of them); bool is i1 in registers and a byte in
 * memory; integers under 8 bits are bytes. */
#include "codegen/llvm/emit.h"
#include <string.h>

void em_types(em *e) {
  LLVMContextRef c = e->lc;
  e->i1 = LLVMInt1TypeInContext(c);
  e->i8 = LLVMInt8TypeInContext(c);
  e->i16 = LLVMInt16TypeInContext(c);
  e->i32 = LLVMInt32TypeInContext(c);
  e->i64 = LLVMInt64TypeInContext(c);
  e->f16 = LLVMHalfTypeInContext(c);
  e->f32 = LLVMFloatTypeInContext(c);
  e->f64 = LLVMDoubleTypeInContext(c);
  e->ptr = LLVMPointerTypeInContext(c, 0);
  e->vd = LLVMVoidTypeInContext(c);
}
LLVMTypeRef em_mem(em *e, etype t) {
  switch (t) {
  case ET_F64:
    return e->f64;
  case ET_F32:
    return e->f32;
  default:
    break;
  }
  switch (et_bytes(t)) {
  case 8:
    return e->i64;
  case 4:
    return e->i32;
  case 2:
    return e->i16;
  default:
    return e->i8;
  }
}
LLVMTypeRef em_elem(em *e, etype t) { return t == ET_BOOL ? e->i1 : em_mem(e, t); }
LLVMTypeRef em_vec(LLVMTypeRef t, unsigned lanes) { return lanes > 1 ? LLVMVectorType(t, lanes) : t; }
LLVMTypeRef em_type(em *e, ltype t) { return t.ptr ? e->ptr : em_vec(em_elem(e, (etype)t.elem), t.lanes); }
static LLVMValueRef repeat(em *e, LLVMValueRef v, unsigned lanes) {
  if (lanes <= 1) return v;
  LLVMValueRef *all = NEWN(e->a, LLVMValueRef, lanes);
  for (unsigned i = 0; i < lanes; i++) all[i] = v;
  return LLVMConstVector(all, lanes);
}
LLVMValueRef em_iconst(em *e, LLVMTypeRef like, int64_t v) {
  bool vec = LLVMGetTypeKind(like) == LLVMVectorTypeKind;
  return repeat(e, LLVMConstInt(vec ? LLVMGetElementType(like) : like, (unsigned long long)v, 1),
                vec ? LLVMGetVectorSize(like) : 1);
}
LLVMValueRef em_const(em *e, ltype t, scalar k) {
  etype x = (etype)t.elem;
  LLVMTypeRef et = em_elem(e, x);
  LLVMValueRef v;
  if (x == ET_F64) {
    v = LLVMConstReal(et, k.f);
  } else if (x == ET_F32) {
    v = LLVMConstReal(et, k.f);
  } else if (et_kind(x) == K_FLOAT) {
    uint64_t code = 0;
    et_store(x, &code, k);
    v = LLVMConstInt(et, code, 0);
  } else {
    v = LLVMConstInt(et, (unsigned long long)k.i, 1);
  }
  return repeat(e, v, t.lanes);
}
LLVMValueRef em_splat(em *e, LLVMValueRef v, unsigned lanes) {
  if (lanes <= 1) return v;
  if (LLVMIsConstant(v)) return repeat(e, v, lanes);
  LLVMTypeRef vt = em_vec(LLVMTypeOf(v), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(vt), v, LLVMConstInt(e->i32, 0, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(vt), LLVMConstNull(em_vec(e->i32, lanes)), "");
}
LLVMValueRef em_intrin(em *e, const char *name, LLVMTypeRef *over, unsigned nover, LLVMValueRef *args, unsigned nargs) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) ctx_fail(e->c, E_TARGET, "code generation: LLVM has no intrinsic %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, id, over, nover);
  return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->lc, id, over, nover), fn, args, nargs, "");
}
