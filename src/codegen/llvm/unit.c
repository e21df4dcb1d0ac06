/* How do the functions of a loop module become objects? One unit per different function: equal texts are compiled
 * once, units on several threads, each with an LLVM context, module and target machine
 * of its own.
 *
 *   functions -> unique by hash -> (on any thread: cached object, or emit, passes, code) -> objects
 *
 * A symbol is a prefix and the 16 hexadecimal digits of the function's hash. The hash covers the text; in it
 * callees have names, so a caller's hash also takes in the hashes of its callees.
 */
#include "codegen/llvm/unit.h"
#include "codegen/x86/x86.h"
#include <string.h>

static const char *symbol_of(void *env, const char *func) {
  const unit *u = unit_of(env, func);
  return u ? u->symbol : NULL;
}
unit *unit_of(batch *b, const char *func) {
  uint64_t i;
  return map_gets(b->by_name, func, &i) ? &b->units.v[i] : NULL;
}
static const char *cache_key(batch *b, const unit *u, arena *a) {
  sbuf s = sbuf_new(a);
  sb_fmt(&s, "%s\n%s\n", b->key, u->symbol);
  loop_print_func(u->f, &s);
  return sha256_hex(a, s.s, s.n);
}
static void drop(unit *u) {
  if (u->mod) LLVMDisposeModule(u->mod);
  if (u->lc) LLVMContextDispose(u->lc);
  if (u->tm) LLVMDisposeTargetMachine(u->tm);
  u->mod = NULL, u->lc = NULL, u->tm = NULL;
}
static void compile_unit(ctx *c, batch *b, unit *u, arena *a) {
  const char *key = NULL;
  if (b->o.cache_get) {
    key = cache_key(b, u, a);
    u->cached = b->o.cache_get(b->o.cache, key, &u->obj);
    if (u->cached) return;
  }
  double t0 = now_ms();
  u->tm = em_machine(c, &b->t, &b->o);
  u->lc = LLVMContextCreate();
  LLVMContextSetDiscardValueNames(u->lc, 1);
  em_diagnose(u->lc, c);
  u->mod = LLVMModuleCreateWithNameInContext(u->symbol, u->lc);
  em_module_target(u->mod, u->tm);
  LLVMValueRef fn = em_function(c, a, u->lc, u->mod, b->m, u->f, &b->t, u->symbol, symbol_of, b);
  if (b->hidden) LLVMSetVisibility(fn, LLVMHiddenVisibility);
  double t1 = now_ms();
  em_finish(c, u->mod, u->tm, &b->o, u->f->name);
  double t2 = now_ms();
  char *why = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(u->tm, u->mod, LLVMObjectFile, &why, &u->buf)) {
    const char *copy = arena_strdup(ctx_arena(c), why ? why : "");
    LLVMDisposeMessage(why);
    ctx_fail(c, E_TARGET, "code generation for target %s, function %s: %s", b->t.name, u->f->name, copy);
  }
  u->obj = (bytes){(const uint8_t *)LLVMGetBufferStart(u->buf), LLVMGetBufferSize(u->buf)};
  if (b->o.cache_put) b->o.cache_put(b->o.cache, key, u->obj);
  u->emit_ms = t1 - t0, u->pass_ms = t2 - t1, u->code_ms = now_ms() - t2;
}
static void compile(ctx *c, void *arg, uint32_t n) {
  batch *b = arg;
  unit *u = &b->units.v[b->todo.v[n]];
  arena *a = arena_new(c);
  CTX_TRY(c) { compile_unit(c, b, u, a); }
  CTX_CATCH {
    drop(u);
    ctx_unwind(c); /* the arena goes with the context */
  }
  drop(u);
  arena_free(a);
}
static void own(ctx *c, void *arg, uint32_t n) {
  batch *b = arg;
  unit *u = &b->units.v[b->todo.v[n]];
  arena *a = arena_new(c);
  lfunc g = *u->f; /* the module keeps the function as it is shown */
  bytes obj;
  double t0 = now_ms();
  g.a = a;
  loop_expand((lmodule *)b->m, &g, llvm_native, &b->t);
  double t1 = now_ms();
  u->own = x86_object(c, a, &g, &b->t, u->symbol, b->hidden, symbol_of, b, &obj, &u->refused);
  if (u->own) {
    u->obj = (bytes){arena_dup(ctx_arena(c), obj.p, obj.n), obj.n};
    if (b->o.cache_put) b->o.cache_put(b->o.cache, NULL, u->obj);
  }
  u->emit_ms = t1 - t0, u->code_ms = now_ms() - t1;
  arena_free(a);
}
void unit_own(batch *b) {
  par_for(b->c, b->o.threads ? b->o.threads : 1, b->todo.n, own, b);
  u32vec rest = {0};
  for (uint32_t i = 0; i < b->todo.n; i++)
    if (!b->units.v[b->todo.v[i]].own) vec_push(ctx_arena(b->c), rest, b->todo.v[i]);
  b->todo = rest;
}
/* Hash of a function with its callees'. */
static uint64_t deep_hash(ctx *c, const lmodule *m, const lfunc *f, map *by_name, map *done, int depth) {
  uint64_t h, g;
  if (map_gets(done, f->name, &h)) return h;
  if (depth > 50) ctx_bug(c, "llvm: function %s calls itself", f->name);
  h = loop_hash(f);
  for (uint32_t i = 1; i < f->insts.n; i++) {
    const linst *k = &f->insts.v[i];
    if ((k->kind != L_CALL && k->kind != L_PARALLEL) || !map_gets(by_name, k->name, &g)) continue;
    uint64_t s[2] = {h, deep_hash(c, m, m->funcs.v[g], by_name, done, depth + 1)};
    h = EK_PLANTED("llvm-same") ? h : hash_bytes(s, sizeof s, 0);
  }
  map_puts(done, f->name, h);
  return h;
}
batch *unit_batch(ctx *c, const lmodule *m, const target *t, const llvm_opts *o, const char *prefix) {
  arena *a = ctx_arena(c);
  batch *b = NEW(a, batch);
  *b = (batch){.c = c, .t = *t, .o = *o, .m = m, .by_name = map_new(a)};
  b->key = arena_fmt(a, "1 %s %s %s %u %d", t->triple, t->cpu, t->features, t->vector_bits, o->level > 0);
  map *done = map_new(a), *first = map_new(a), *index = map_new(a);
  for (uint32_t i = 0; i < m->funcs.n; i++) map_puts(index, m->funcs.v[i]->name, i);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    uint64_t h = deep_hash(c, m, f, index, done, 0), k;
    if (!map_getu(first, h, &k)) {
      k = b->units.n;
      vec_push(a, b->units, ((unit){.f = f, .symbol = arena_fmt(a, "%s_%016llx", prefix, (unsigned long long)h)}));
      map_putu(first, h, k);
    }
    map_puts(b->by_name, f->name, k);
  }
  return b;
}
void unit_drop(batch *b) {
  for (uint32_t i = 0; i < b->units.n; i++) {
    if (b->units.v[i].buf) LLVMDisposeMemoryBuffer(b->units.v[i].buf);
    b->units.v[i].buf = NULL;
  }
}
void unit_compile(batch *b) {
  CTX_TRY(b->c) { par_for(b->c, b->o.threads ? b->o.threads : 1, b->todo.n, compile, b); }
  CTX_CATCH {
    unit_drop(b); /* those that are done */
    ctx_unwind(b->c);
  }
}
