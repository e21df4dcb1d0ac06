/* Between the files of the room (private). */
#ifndef EK_LLVM_EMIT_H
#define EK_LLVM_EMIT_H
#include "codegen/llvm/llvm.h"
#include "codegen/llvm/lib.h"

/* One function being emitted. */
typedef struct em {
  ctx *c;
  arena *a;
  const lmodule *m;
  const lfunc *f; /* after loop_expand */
  const target *t;
  LLVMContextRef lc;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  LLVMValueRef fn;
  LLVMValueRef *val;       /* per instruction */
  LLVMTypeRef *slot;       /* REG: the type held */
  LLVMBasicBlockRef entry; /* allocas and parameters; ends in a branch that stays last */
  LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, vd;
  LLVMValueRef arg[4];    /* kernel: args, lo, hi, worker; main: call */
  LLVMValueRef scratch;   /* this worker's part of the scratch area */
  LLVMValueRef call_args; /* room for the arguments of the calls made */
  /* per pointer value: 1 + parameter it comes from, 0 unknown, LOCAL for this function's own memory */
  uint32_t *base;
  map *near;               /* (index, pointer) that accesses share -> near_base (mem.c) */
  u32vec *nears;           /* per index: the pointers with many */
  LLVMMetadataRef *scope;  /* per parameter: its alias scope, NULL */
  LLVMMetadataRef *others; /* per parameter (and one for the rest): the scopes it does not touch */
  unsigned md_scope, md_noalias, md_invariant;
  const char *(*symbol)(void *env, const char *func);
  void *env;
} em;
enum { BASE_LOCAL = UINT32_MAX };

/* emit.c: adds the function to the module. */
LLVMValueRef em_function(ctx *c, arena *a, LLVMContextRef lc, LLVMModuleRef mod, const code_function *f);
void em_block(em *e, uint32_t block);
LLVMValueRef em_alloca(em *e, LLVMTypeRef t, LLVMValueRef count, unsigned align);
LLVMBasicBlockRef em_bb(em *e, const char *name);
/* type.c */
void em_types(em *e);
LLVMTypeRef em_elem(em *e, etype t); /* as held in registers, one lane */
LLVMTypeRef em_mem(em *e, etype t);  /* as held in memory */
LLVMTypeRef em_vec(LLVMTypeRef t, unsigned lanes);
LLVMTypeRef em_type(em *e, ltype t);
LLVMValueRef em_const(em *e, ltype t, scalar k);
LLVMValueRef em_splat(em *e, LLVMValueRef v, unsigned lanes);
LLVMValueRef em_iconst(em *e, LLVMTypeRef like, int64_t v); /* integer constant of a scalar or vector type */
LLVMValueRef em_intrin(em *e, const char *name, LLVMTypeRef *over, unsigned nover, LLVMValueRef *args, unsigned nargs);
/* op.c */
LLVMValueRef em_op(em *e, const linst *i);
LLVMValueRef em_lookup(em *e, const linst *i);
LLVMValueRef em_combine(em *e, rop op, etype t, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef em_hreduce(em *e, const linst *i);
/* mem.c */
void em_alias(em *e); /* makes the scopes */
uint32_t em_base_of(em *e, lv p);
void em_near(em *e, lv index); /* after the value of an index has been emitted */
LLVMValueRef em_load(em *e, const linst *i);
void em_store(em *e, const linst *i);
void em_prefetch(em *e, const linst *i);
/* object.c */
LLVMTargetMachineRef em_machine(ctx *c, const target *t, int level); /* t: as llvm_ready gives it */
void em_module_target(LLVMModuleRef mod, LLVMTargetMachineRef tm);
/* verify (debug builds) and, at level 1 and above, passes; what: for messages */
void em_finish(ctx *c, LLVMModuleRef mod, LLVMTargetMachineRef tm, int level, const char *what);
void em_diagnose(LLVMContextRef lc, ctx *c);
bytes em_copy(arena *a, LLVMMemoryBufferRef buf);
#endif
