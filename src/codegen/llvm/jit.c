/* How does a loop module become callable code in this process? Its units' objects (unit.c) are linked by ORC; names lead to symbols, symbols to addresses. */
#include "codegen/image/image.h"
#include "codegen/llvm/unit.h"
#include <string.h>

struct jit {
  ctx *c;
  arena *a;
  target t;
  llvm_opts o;
  LLVMOrcLLJITRef orc;
  map *symbols;    /* function name -> index into names */
  strvec names;
  map *defined;    /* symbol -> 1 */
  jit_stats stats;
};

static void check(ctx *c, LLVMErrorRef e, const char *what) {
  if (!e) return;
  char *m = LLVMGetErrorMessage(e);
  const char *copy = arena_strdup(ctx_arena(c), m);
  LLVMDisposeErrorMessage(m);
  ctx_fail(c, E_TARGET, "JIT: %s: %s", what, copy);
}
jit *jit_new(ctx *c, const target *t, const llvm_opts *o) {
  jit *j = NEW(ctx_arena(c), jit);
  *j = (jit){.c = c, .a = ctx_arena(c), .t = em_target(c, t), .o = *o};
  j->symbols = map_new(j->a);
  j->defined = map_new(j->a);
  size_t n = 0;
  while (image_externs[n].name) n++;
  LLVMOrcCSymbolMapPair *s = NEWN(j->a, LLVMOrcCSymbolMapPair, n);
  LLVMTargetMachineRef tm = em_machine(c, &j->t, o); /* from here on nothing unwinds that would leave something behind */
  LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm)); /* takes tm */
  check(c, LLVMOrcCreateLLJIT(&j->orc, b), "start");
  for (size_t i = 0; i < n; i++) {
    s[i].Name = LLVMOrcLLJITMangleAndIntern(j->orc, image_externs[i].name);
    s[i].Sym = (LLVMJITEvaluatedSymbol){(LLVMOrcExecutorAddress)(uintptr_t)image_externs[i].address, {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}};
  }
  LLVMErrorRef e = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(j->orc), LLVMOrcAbsoluteSymbols(s, n));
  if (e) jit_free(j);
  check(c, e, "library functions");
  return j;
}
void jit_free(jit *j) {
  if (!j || !j->orc) return;
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->orc);
  if (e) LLVMConsumeError(e);
  j->orc = NULL;
}
jit_stats jit_get_stats(const jit *j) { return j->stats; }

static void add_objects(jit *j, batch *b) {
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(j->orc);
  for (uint32_t i = 0; i < b->todo.n; i++) {
    unit *u = &b->units.v[b->todo.v[i]];
    j->stats.code_bytes += u->obj.n;
    j->stats.emit_ms += u->emit_ms, j->stats.pass_ms += u->pass_ms, j->stats.code_ms += u->code_ms;
    *(u->cached ? &j->stats.cached : &j->stats.compiled) += 1;
    map_puts(j->defined, u->symbol, 1);
    LLVMMemoryBufferRef buf = u->buf ? u->buf : LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)u->obj.p, u->obj.n, u->symbol);
    u->buf = NULL; /* the next takes it */
    check(j->c, LLVMOrcLLJITAddObjectFile(j->orc, lib, buf), u->f->name);
  }
}
void jit_add(jit *j, const lmodule *m) {
  ctx *c = j->c;
  batch *b = unit_batch(c, m, &j->t, &j->o, "ek");
  uint64_t one;
  for (uint32_t i = 0; i < b->units.n; i++) /* symbols that an earlier module brought are there already */
    if (!map_gets(j->defined, b->units.v[i].symbol, &one)) vec_push(j->a, b->todo, i);
  unit_compile(b);
  double t0 = now_ms();
  CTX_TRY(c) { add_objects(j, b); }
  CTX_CATCH {
    unit_drop(b);
    ctx_unwind(c);
  }
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    map_puts(j->symbols, m->funcs.v[i]->name, j->names.n);
    vec_push(j->a, j->names, unit_of(b, m->funcs.v[i]->name)->symbol);
    j->stats.functions++;
  }
  if (m->funcs.n) jit_find(j, m->funcs.v[m->funcs.n - 1]->name); /* links now, so that the time is counted here */
  j->stats.link_ms += now_ms() - t0;
}
const char *jit_symbol(jit *j, const char *function) {
  uint64_t i;
  return map_gets(j->symbols, function, &i) ? j->names.v[i] : NULL;
}
void *jit_find(jit *j, const char *function) {
  uint64_t i;
  if (!map_gets(j->symbols, function, &i)) return NULL;
  LLVMOrcExecutorAddress at = 0;
  check(j->c, LLVMOrcLLJITLookup(j->orc, &at, j->names.v[i]), function);
  return (void *)(uintptr_t)at;
}
