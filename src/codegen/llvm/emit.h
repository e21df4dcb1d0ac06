/* Between the files of the room (private). */
#ifndef EK_LLVM_EMIT_H
#define EK_LLVM_EMIT_H
#include "codegen/llvm/llvm.h"
#include "codegen/llvm/lib.h"

/* One function being emitted. */
typedef struct em {
  ctx *c;                  /* context */
  arena *a;                /* memory */
  const lfunc *f;          /* the function, after loop_expand */
  const target *t;         /* the machine */
  LLVMContextRef lc;       /* LLVM's context */
  LLVMModuleRef mod;       /* LLVM's module, which gets the function */
  LLVMBuilderRef b;        /* where instructions are added */
  LLVMValueRef fn;         /* the function that is made */
  LLVMValueRef *val;       /* per instruction: its value */
  LLVMTypeRef *slot;       /* REG: the type held */
  LLVMBasicBlockRef entry; /* allocas and parameters; ends in a branch that stays last */
  LLVMTypeRef i1;          /* type of one bit */
  LLVMTypeRef i8;          /* type of 8 bits */
  LLVMTypeRef i16;         /* type of 16 bits */
  LLVMTypeRef i32;         /* type of 32 bits */
  LLVMTypeRef i64;         /* type of 64 bits */
  LLVMTypeRef f16;         /* type half */
  LLVMTypeRef f32;         /* type float */
  LLVMTypeRef f64;         /* type double */
  LLVMTypeRef ptr;         /* type of a pointer */
  LLVMTypeRef vd;          /* type void */
  LLVMValueRef arg[4];     /* kernel: args, lo, hi, worker; main: call */
  LLVMValueRef scratch;    /* this worker's part of the scratch area */
  LLVMValueRef call_args;  /* memory for the arguments of the calls made */
  /* per pointer value: 1 + parameter it comes from, 0 unknown, LOCAL for this function's own memory */
  uint32_t *base;
  map *near;               /* (index, pointer) that accesses share -> near_base (mem.c) */
  u32vec *nears;           /* per index: the pointers with many */
  LLVMMetadataRef *scope;  /* per parameter: its alias scope, NULL */
  LLVMMetadataRef *others; /* per parameter (and one for the rest): the scopes it does not touch */
  unsigned md_scope;       /* kind of the metadata alias.scope */
  unsigned md_noalias;     /* kind of the metadata noalias */
  unsigned md_invariant;   /* kind of the metadata invariant.load */
  const char *(*symbol)(void *env, const char *func); /* name of the symbol for a function that is called */
  void *env;                                          /* handed to symbol */
} em;
enum { BASE_LOCAL = UINT32_MAX };

/* emit.c: adds the function to the module. */
LLVMValueRef em_function(ctx *c, arena *a, LLVMContextRef lc, LLVMModuleRef mod, const code_function *f);
void em_block(em *e, uint32_t block);
LLVMValueRef em_alloca(em *e, LLVMTypeRef t, LLVMValueRef count, unsigned align);
LLVMBasicBlockRef em_bb(em *e, const char *name);
/* type.c */
void em_types(em *e);
LLVMTypeRef em_elem(em *e, etype t); /* type of one lane in a register */
LLVMTypeRef em_mem(em *e, etype t);  /* type of an element in memory */
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
void em_alias(em *e); /* makes the alias scopes of the parameters */
uint32_t em_base_of(em *e, lv p);
void em_near(em *e, lv index); /* to be called after the value of an index has been emitted */
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
