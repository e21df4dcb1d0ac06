/* How do objects that LLVM made become callable in this process? LLVM's ORC links them, among themselves and with the
 * library functions of image_externs. */
#include "codegen/image/image.h"
#include "codegen/llvm/emit.h"

struct orc {
  ctx *c;              /* context */
  LLVMOrcLLJITRef jit; /* NULL: not open */
};
static void check(ctx *c, LLVMErrorRef e, const char *what) {
  if (!e) return;
  char *m = LLVMGetErrorMessage(e);
  const char *copy = arena_strdup(ctx_arena(c), m);
  LLVMDisposeErrorMessage(m);
  ctx_fail(c, E_TARGET, "JIT: %s: %s", what, copy);
}
void orc_close(orc *o) {
  LLVMErrorRef e = o && o->jit ? LLVMOrcDisposeLLJIT(o->jit) : NULL;
  if (e) LLVMConsumeError(e);
  if (o) o->jit = NULL;
}
orc *orc_open(ctx *c, const target *t, int level) {
  size_t n = 0;
  target rt = llvm_ready(c, t);
  while (image_externs[n].name) n++;
  orc *o = NEW(ctx_arena(c), orc);
  LLVMOrcCSymbolMapPair *s = NEWN(ctx_arena(c), LLVMOrcCSymbolMapPair, n);
  o->c = c;
  /* from here on nothing unwinds that would leave something behind */
  LLVMTargetMachineRef tm = em_machine(c, &rt, level);
  LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
  /* ORC owns tm from here on */
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
  check(c, LLVMOrcCreateLLJIT(&o->jit, b), "start");
  for (size_t i = 0; i < n; i++) {
    s[i].Name = LLVMOrcLLJITMangleAndIntern(o->jit, image_externs[i].name);
    s[i].Sym = (LLVMJITEvaluatedSymbol){(LLVMOrcExecutorAddress)(uintptr_t)image_externs[i].address,
                                        {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}};
  }
  LLVMErrorRef e = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(o->jit), LLVMOrcAbsoluteSymbols(s, n));
  if (e) orc_close(o);
  check(c, e, "library functions");
  return o;
}
void orc_add(orc *o, const char *symbol, bytes obj) {
  LLVMMemoryBufferRef buf = LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)obj.p, obj.n, symbol);
  check(o->c, LLVMOrcLLJITAddObjectFile(o->jit, LLVMOrcLLJITGetMainJITDylib(o->jit), buf), symbol);
}
void *orc_find(orc *o, const char *symbol) {
  LLVMOrcExecutorAddress at = 0;
  check(o->c, LLVMOrcLLJITLookup(o->jit, &at, symbol), symbol);
  return (void *)(uintptr_t)at;
}
