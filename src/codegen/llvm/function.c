/* How does one function become an object? An LLVM context, module and target machine of its own, so that functions can
 * be compiled on several threads: IR, passes, code. */
#include "codegen/llvm/emit.h"

typedef struct compiling {
  LLVMContextRef lc;       /* LLVM's context */
  LLVMModuleRef mod;       /* the module */
  LLVMTargetMachineRef tm; /* the target machine */
  LLVMMemoryBufferRef buf; /* the object; NULL: not there yet */
} compiling;
static void drop(compiling *k) {
  if (k->buf) LLVMDisposeMemoryBuffer(k->buf);
  if (k->mod) LLVMDisposeModule(k->mod);
  if (k->lc) LLVMContextDispose(k->lc);
  if (k->tm) LLVMDisposeTargetMachine(k->tm);
}
static void compile(ctx *c, arena *a, const code_function *f, compiling *k, emitted *out) {
  double t0 = now_ms();
  k->tm = em_machine(c, f->t, f->level);
  k->lc = LLVMContextCreate();
  LLVMContextSetDiscardValueNames(k->lc, 1);
  em_diagnose(k->lc, c);
  k->mod = LLVMModuleCreateWithNameInContext(f->symbol, k->lc);
  em_module_target(k->mod, k->tm);
  LLVMValueRef fn = em_function(c, a, k->lc, k->mod, f);
  if (f->hidden) LLVMSetVisibility(fn, LLVMHiddenVisibility);
  double t1 = now_ms();
  em_finish(c, k->mod, k->tm, f->level, f->f->name);
  double t2 = now_ms();
  char *why = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(k->tm, k->mod, LLVMObjectFile, &why, &k->buf)) {
    const char *copy = arena_strdup(ctx_arena(c), why ? why : "");
    LLVMDisposeMessage(why);
    ctx_fail(c, E_TARGET, "code generation for target %s, function %s: %s", f->t->name, f->f->name, copy);
  }
  out->obj = em_copy(a, k->buf);
  out->emit_ms = t1 - t0, out->pass_ms = t2 - t1, out->code_ms = now_ms() - t2;
}
bool llvm_object(ctx *c, arena *a, const code_function *f, emitted *out) {
  compiling *k = NEW(a, compiling);
  CTX_TRY(c) { compile(c, a, f, k, out); }
  CTX_CATCH {
    drop(k);
    ctx_unwind(c);
  }
  drop(k);
  return true;
}
