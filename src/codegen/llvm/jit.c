/* How does a loop module become callable code in this process? What codegen/x86 can compile it does, LLVM the rest
 * (unit.c). When that is nothing the objects are linked by codegen/image, and LLVM is
 * not even loaded; else by ORC. Names lead to symbols, symbols to addresses. */
#include "codegen/image/image.h"
#include "codegen/llvm/unit.h"
#include "codegen/x86/x86.h"
#include <string.h>

typedef struct object {
  const char *symbol;
  bytes obj;
} object;
struct jit {
  ctx *c;
  arena *a;
  target t;
  llvm_opts o;
  bool resolved;       /* t is as em_target says */
  LLVMOrcLLJITRef orc; /* NULL: not needed so far */
  VEC(image *) images;
  VEC(object) objects; /* all */
  map *symbols;        /* function name -> index into names */
  strvec names;
  map *defined; /* symbol -> 1 + index into objects */
  map *placed;  /* symbol -> address, of those in images */
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
  *j = (jit){.c = c, .a = ctx_arena(c), .t = *t, .o = *o};
  j->symbols = map_new(j->a), j->defined = map_new(j->a), j->placed = map_new(j->a);
  return j;
}
static void resolve(jit *j) {
  if (!j->resolved) j->t = em_target(j->c, &j->t);
  j->resolved = true;
}
static void close_orc(jit *j) {
  LLVMErrorRef e = j->orc ? LLVMOrcDisposeLLJIT(j->orc) : NULL;
  if (e) LLVMConsumeError(e);
  j->orc = NULL;
}
static void add_object(jit *j, const object *k, LLVMMemoryBufferRef buf) {
  if (!buf) buf = LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)k->obj.p, k->obj.n, k->symbol);
  check(j->c, LLVMOrcLLJITAddObjectFile(j->orc, LLVMOrcLLJITGetMainJITDylib(j->orc), buf), k->symbol);
}
/* ORC, with all objects that there are. */
static void open_orc(jit *j) {
  size_t n = 0;
  resolve(j);
  while (image_externs[n].name) n++;
  LLVMOrcCSymbolMapPair *s = NEWN(j->a, LLVMOrcCSymbolMapPair, n);
  /* from here on nothing unwinds that would leave something behind */
  LLVMTargetMachineRef tm = em_machine(j->c, &j->t, &j->o);
  LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
  /* takes tm */
  LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
  check(j->c, LLVMOrcCreateLLJIT(&j->orc, b), "start");
  for (size_t i = 0; i < n; i++) {
    s[i].Name = LLVMOrcLLJITMangleAndIntern(j->orc, image_externs[i].name);
    s[i].Sym = (LLVMJITEvaluatedSymbol){(LLVMOrcExecutorAddress)(uintptr_t)image_externs[i].address,
                                        {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}};
  }
  LLVMErrorRef e = LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(j->orc), LLVMOrcAbsoluteSymbols(s, n));
  if (e) close_orc(j);
  check(j->c, e, "library functions");
}
void jit_free(jit *j) {
  if (!j) return;
  close_orc(j);
  for (uint32_t i = 0; i < j->images.n; i++) image_free(j->images.v[i]);
  j->images.n = 0;
}
jit_stats jit_get_stats(const jit *j) { return j->stats; }

/* The objects from number `first` on, and those that they call, as an image. False: it cannot be one. */
static bool in_image(jit *j, uint32_t first) {
  uint32_t n = j->objects.n - first;
  const char **entry = NEWN(j->a, const char *, n + 1), *why;
  bytes *obj = NEWN(j->a, bytes, j->objects.n + 1), block;
  for (uint32_t i = 0; i < j->objects.n; i++) obj[i] = j->objects.v[i].obj;
  for (uint32_t i = 0; i < n; i++) entry[i] = j->objects.v[first + i].symbol;
  if (!n) return true;
  if (!image_link(j->c, obj, j->objects.n, entry, n, &block, &why)) return false;
  vec_reserve(j->a, j->images, j->images.n + 1); /* memory may end; not between the image and its place */
  image *k = image_load(block, &why);
  if (!k) return false;
  vec_push(j->a, j->images, k);
  for (uint32_t i = 0; i < n; i++) map_puts(j->placed, entry[i], (uint64_t)(uintptr_t)image_entry(k, i));
  return true;
}
static void account(jit *j, const unit *u) {
  j->stats.code_bytes += u->obj.n;
  j->stats.emit_ms += u->emit_ms, j->stats.pass_ms += u->pass_ms, j->stats.code_ms += u->code_ms;
  *(u->cached ? &j->stats.cached : &j->stats.compiled) += 1;
  j->stats.own += u->own;
}
static void add_objects(jit *j, batch *b, const u32vec *all) {
  uint32_t first = j->objects.n;
  for (uint32_t i = 0; i < all->n; i++) {
    unit *u = &b->units.v[all->v[i]];
    account(j, u);
    vec_push(j->a, j->objects, ((object){u->symbol, u->obj}));
    map_puts(j->defined, u->symbol, j->objects.n);
  }
  if (!j->orc && !b->todo.n && in_image(j, first)) return;
  if (!j->orc) {
    open_orc(j);
    for (uint32_t i = 0; i < first; i++) add_object(j, &j->objects.v[i], NULL);
  }
  for (uint32_t i = 0; i < all->n; i++) {
    unit *u = &b->units.v[all->v[i]];
    LLVMMemoryBufferRef buf = u->buf;
    object *o = &j->objects.v[first + i];
    if (buf) o->obj = (bytes){arena_dup(j->a, u->obj.p, u->obj.n), u->obj.n};
    u->buf = NULL; /* the next takes it */
    add_object(j, o, buf);
  }
}
void jit_add(jit *j, const lmodule *m) {
  ctx *c = j->c;
  bool own = j->o.codegen != EK_CODE_LLVM && x86_target(&j->t);
  if (!own) resolve(j);
  batch *b = unit_batch(c, m, &j->t, &j->o, "ek");
  u32vec all = {0};
  uint64_t one;
  for (uint32_t i = 0; i < b->units.n; i++) /* symbols that an earlier module brought are there already */
    if (!map_gets(j->defined, b->units.v[i].symbol, &one)) vec_push(j->a, b->todo, i), vec_push(j->a, all, i);
  if (own) unit_own(b);
  if (b->todo.n && j->o.codegen == EK_CODE_OWN)
    ctx_fail(c, E_TARGET, "code generation: there is %s in function %s",
             own ? b->units.v[b->todo.v[0]].refused : "another processor's code", b->units.v[b->todo.v[0]].f->name);
  for (uint32_t i = 0; own && i < b->todo.n; i++) {
    const unit *u = &b->units.v[b->todo.v[i]];
    diag_add(c, D_INFO, E_OK, (srcpos){0}, NULL, "code: function %s is left to LLVM: there is %s in it", u->f->name,
             u->refused);
  }
  if (b->todo.n) {
    resolve(j);
    b->t = j->t;
    unit_compile(b);
  }
  double t0 = now_ms();
  CTX_TRY(c) { add_objects(j, b, &all); }
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
  uint64_t i, p;
  if (!map_gets(j->symbols, function, &i)) return NULL;
  if (map_gets(j->placed, j->names.v[i], &p)) return (void *)(uintptr_t)p;
  LLVMOrcExecutorAddress at = 0;
  check(j->c, LLVMOrcLLJITLookup(j->orc, &at, j->names.v[i]), function);
  return (void *)(uintptr_t)at;
}
