/* How does a loop module become callable code in this process?
 *
 *   functions -> unique by hash -> (per function, on any thread: own context, module, passes, object) -> ORC links all objects -> addresses
 *
 * A symbol is "ek_" and the 16 hexadecimal digits of the function's hash; the hash covers the text, and with it the names of what it calls, so callers' texts are hashed with their callees' hashes in place of names.
 */
#include "codegen/llvm/emit.h"
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <math.h>
#include <string.h>

struct jit {
  ctx *c;
  arena *a;
  target t;
  llvm_opts o;
  const char *key; /* of the target, for cache keys */
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
/* The only functions that compiled code may call outside itself. */
static const struct {
  const char *name;
  void *address;
} externs[] = {
#define D1(f) {#f, (void *)(double (*)(double))f}
    D1(exp), D1(log), D1(sin), D1(cos), D1(tan), D1(asin), D1(acos), D1(atan), D1(sinh), D1(cosh), D1(asinh), D1(acosh), D1(atanh), D1(tanh), D1(erf),
#undef D1
    {"pow", (void *)(double (*)(double, double))pow}, {"fmod", (void *)(double (*)(double, double))fmod}, {"fmodf", (void *)(float (*)(float, float))fmodf}, {"memset", (void *)memset}, {"memcpy", (void *)memcpy}, {"memmove", (void *)memmove},
};
jit *jit_new(ctx *c, const target *t, const llvm_opts *o) {
  jit *j = NEW(ctx_arena(c), jit);
  *j = (jit){.c = c, .a = ctx_arena(c), .t = em_target(c, t), .o = *o};
  j->symbols = map_new(j->a);
  j->defined = map_new(j->a);
  LLVMTargetMachineRef tm = em_machine(c, &j->t, o);
  j->key = arena_fmt(j->a, "1 %s %s %s %u %d", j->t.triple, j->t.cpu, j->t.features, t->vector_bits, o->level > 0);
  LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm)); /* takes tm */
  check(c, LLVMOrcCreateLLJIT(&j->orc, b), "start");
  LLVMOrcCSymbolMapPair *s = NEWN(j->a, LLVMOrcCSymbolMapPair, sizeof externs / sizeof *externs);
  size_t n = sizeof externs / sizeof *externs;
  for (size_t i = 0; i < n; i++) {
    s[i].Name = LLVMOrcLLJITMangleAndIntern(j->orc, externs[i].name);
    s[i].Sym = (LLVMJITEvaluatedSymbol){(LLVMOrcExecutorAddress)(uintptr_t)externs[i].address, {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}};
  }
  check(c, LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(j->orc), LLVMOrcAbsoluteSymbols(s, n)), "library functions");
  return j;
}
void jit_free(jit *j) {
  if (!j || !j->orc) return;
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->orc);
  if (e) LLVMConsumeError(e);
  j->orc = NULL;
}
jit_stats jit_get_stats(const jit *j) { return j->stats; }

/* ---- one function ---- */
typedef struct unit {
  const lfunc *f;
  const char *symbol;
  bytes obj;
  bool cached;
  LLVMMemoryBufferRef buf;
  LLVMContextRef lc;
  LLVMModuleRef mod;
  LLVMTargetMachineRef tm;
  double emit_ms, pass_ms, code_ms;
} unit;
typedef struct batch {
  jit *j;
  const lmodule *m;
  map *symbol_of; /* function name -> unit */
  VEC(unit) units;
  u32vec todo;    /* units to compile */
} batch;
static const char *symbol_of(void *env, const char *func) {
  batch *b = env;
  uint64_t i;
  return map_gets(b->symbol_of, func, &i) ? b->units.v[i].symbol : NULL;
}
static const char *cache_key(batch *b, const unit *u, arena *a) {
  sbuf s = sbuf_new(a);
  sb_fmt(&s, "%s\n%s\n", b->j->key, u->symbol);
  loop_print_func(u->f, &s);
  return sha256_hex(a, s.s, s.n);
}
static void compile(ctx *c, void *arg, uint32_t n) {
  batch *b = arg;
  unit *u = &b->units.v[b->todo.v[n]];
  jit *j = b->j;
  arena *volatile a = arena_new(c);
  const char *volatile key = NULL;
  CTX_TRY(c) {
    if (j->o.cache_get) {
      key = cache_key(b, u, a);
      u->cached = j->o.cache_get(j->o.cache, key, &u->obj);
    }
    if (!u->cached) {
      double t0 = now_ms();
      u->tm = em_machine(c, &j->t, &j->o);
      u->lc = LLVMContextCreate();
      LLVMContextSetDiscardValueNames(u->lc, 1);
      em_diagnose(u->lc, c);
      u->mod = LLVMModuleCreateWithNameInContext(u->symbol, u->lc);
      em_module_target(u->mod, u->tm);
      em_function(c, a, u->lc, u->mod, b->m, u->f, &j->t, u->symbol, symbol_of, b);
      double t1 = now_ms();
      em_finish(c, u->mod, u->tm, &j->o, u->f->name);
      double t2 = now_ms();
      char *why = NULL;
      if (LLVMTargetMachineEmitToMemoryBuffer(u->tm, u->mod, LLVMObjectFile, &why, &u->buf)) {
        const char *copy = arena_strdup(ctx_arena(c), why ? why : "");
        LLVMDisposeMessage(why);
        ctx_fail(c, E_TARGET, "code generation for target %s, function %s: %s", j->t.name, u->f->name, copy);
      }
      u->obj = (bytes){(const uint8_t *)LLVMGetBufferStart(u->buf), LLVMGetBufferSize(u->buf)};
      if (j->o.cache_put) j->o.cache_put(j->o.cache, key, u->obj);
      u->emit_ms = t1 - t0, u->pass_ms = t2 - t1, u->code_ms = now_ms() - t2;
    }
  }
  CTX_CATCH {
    if (u->mod) LLVMDisposeModule(u->mod);
    if (u->lc) LLVMContextDispose(u->lc);
    if (u->tm) LLVMDisposeTargetMachine(u->tm);
    arena_free(a);
    ctx_unwind(c);
  }
  if (u->mod) LLVMDisposeModule(u->mod);
  if (u->lc) LLVMContextDispose(u->lc);
  if (u->tm) LLVMDisposeTargetMachine(u->tm);
  arena_free(a);
}
/* Hash of a function with its callees' hashes; calls go to functions listed anywhere, recursion is refused by depth. */
static uint64_t deep_hash(jit *j, const lmodule *m, const lfunc *f, map *done, int depth) {
  uint64_t h;
  if (map_gets(done, f->name, &h)) return h;
  if (depth > 50) ctx_bug(j->c, "llvm: function %s calls itself", f->name);
  h = loop_hash(f);
  for (uint32_t i = 1; i < f->insts.n; i++) {
    const linst *k = &f->insts.v[i];
    if (k->kind != L_CALL && k->kind != L_PARALLEL) continue;
    for (uint32_t g = 0; g < m->funcs.n; g++)
      if (!strcmp(m->funcs.v[g]->name, k->name)) {
        uint64_t s[2] = {h, deep_hash(j, m, m->funcs.v[g], done, depth + 1)};
        h = hash_bytes(s, sizeof s, 0);
      }
  }
  map_puts(done, f->name, h);
  return h;
}
void jit_add(jit *j, const lmodule *m) {
  ctx *c = j->c;
  batch *b = NEW(j->a, batch);
  b->j = j;
  b->m = m;
  b->symbol_of = map_new(j->a);
  map *done = map_new(j->a), *first = map_new(j->a);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    uint64_t h = deep_hash(j, m, f, done, 0), k;
    if (!map_getu(first, h, &k)) {
      k = b->units.n;
      vec_push(j->a, b->units, ((unit){.f = f, .symbol = arena_fmt(j->a, "ek_%016llx", (unsigned long long)h)}));
      map_putu(first, h, k);
    }
    map_puts(b->symbol_of, f->name, k);
  }
  /* symbols that an earlier module brought are there already */
  u32vec todo = {0};
  for (uint32_t i = 0; i < b->units.n; i++) {
    uint64_t one;
    if (!map_gets(j->defined, b->units.v[i].symbol, &one)) vec_push(j->a, todo, i);
  }
  b->todo = todo;
  par_for(c, j->o.threads ? j->o.threads : 1, todo.n, compile, b);
  double t0 = now_ms();
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(j->orc);
  for (uint32_t i = 0; i < todo.n; i++) {
    unit *u = &b->units.v[todo.v[i]];
    j->stats.code_bytes += u->obj.n;
    j->stats.emit_ms += u->emit_ms, j->stats.pass_ms += u->pass_ms, j->stats.code_ms += u->code_ms;
    *(u->cached ? &j->stats.cached : &j->stats.compiled) += 1;
    LLVMMemoryBufferRef buf = u->buf ? u->buf : LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)u->obj.p, u->obj.n, u->symbol);
    check(c, LLVMOrcLLJITAddObjectFile(j->orc, lib, buf), u->f->name); /* takes buf */
    map_puts(j->defined, u->symbol, 1);
  }
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    uint64_t k = 0;
    map_gets(b->symbol_of, m->funcs.v[i]->name, &k);
    map_puts(j->symbols, m->funcs.v[i]->name, j->names.n);
    vec_push(j->a, j->names, b->units.v[k].symbol);
    j->stats.functions++;
  }
  if (m->funcs.n) jit_find(j, m->funcs.v[m->funcs.n - 1]->name); /* links now, so that the time is counted here */
  j->stats.link_ms += now_ms() - t0;
}
void *jit_find(jit *j, const char *function) {
  uint64_t i;
  if (!map_gets(j->symbols, function, &i)) return NULL;
  LLVMOrcExecutorAddress at = 0;
  check(j->c, LLVMOrcLLJITLookup(j->orc, &at, j->names.v[i]), function);
  return (void *)(uintptr_t)at;
}
