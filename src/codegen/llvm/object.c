/* How does a module become assembly or readable IR, and a saved model its descriptor? Target machine, passes,
 * output. */
#include "codegen/llvm/emit.h"
#include <stddef.h>
#include <string.h>

static const char *take(ctx *c, char *s) {
  const char *volatile r = NULL;
  CTX_TRY(c) { r = arena_strdup(ctx_arena(c), s ? s : ""); }
  CTX_CATCH {
    LLVMDisposeMessage(s);
    ctx_unwind(c);
  }
  LLVMDisposeMessage(s);
  return r;
}
const char *llvm_host(ctx *c) {
  llvm_need(c);
  return arena_fmt(ctx_arena(c), "%s %s", take(c, LLVMGetHostCPUName()), take(c, LLVMGetHostCPUFeatures()));
}
/* LLVM must know that the machine has what an instruction needs; its names are those of the CPU flags. */
static const char *with_features(ctx *c, const char *features, const instruction *k) {
  const char *needs = k->usable && k->llvm && k->text[IK_NEEDS] ? k->text[IK_NEEDS] : "";
  for (size_t n; *(needs += strspn(needs, " ")); needs += n) {
    n = strcspn(needs, " ");
    features = arena_fmt(ctx_arena(c), "%s%s+%.*s", features, *features ? "," : "", (int)n, needs);
  }
  return features;
}
target llvm_ready(ctx *c, const target *t) {
  llvm_need(c);
  target r = *t;
  if (t->host && (!*t->triple || !strcmp(t->cpu, "host"))) {
    r.triple = take(c, LLVMGetDefaultTargetTriple());
    r.cpu = take(c, LLVMGetHostCPUName());
    r.features = take(c, LLVMGetHostCPUFeatures());
  }
  r.triple = take(c, LLVMNormalizeTargetTriple(r.triple));
  for (uint32_t i = 0; i < t->instructions.n; i++) r.features = with_features(c, r.features, &t->instructions.v[i]);
  return r;
}
LLVMTargetMachineRef em_machine(ctx *c, const target *t, int level) {
  LLVMTargetRef ref;
  char *why = NULL;
  if (LLVMGetTargetFromTriple(t->triple, &ref, &why))
    ctx_fail(c, E_TARGET, "target %s: LLVM does not know the triple %s (%s)", t->name, t->triple, take(c, why));
  LLVMTargetMachineRef tm = LLVMCreateTargetMachine(ref, t->triple, t->cpu, t->features,
                                                    level > 0 ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelNone,
                                                    LLVMRelocPIC, LLVMCodeModelDefault);
  if (!tm) ctx_fail(c, E_TARGET, "target %s: LLVM cannot generate code for %s, CPU %s", t->name, t->triple, t->cpu);
  return tm;
}
void em_module_target(LLVMModuleRef mod, LLVMTargetMachineRef tm) {
  char *triple = LLVMGetTargetMachineTriple(tm);
  LLVMSetTarget(mod, triple);
  LLVMDisposeMessage(triple);
  LLVMTargetDataRef td = LLVMCreateTargetDataLayout(tm);
  LLVMSetModuleDataLayout(mod, td);
  LLVMDisposeTargetData(td);
}
static void on_diag(LLVMDiagnosticInfoRef d, void *env) {
  if (LLVMGetDiagInfoSeverity(d) != LLVMDSError) return;
  char *s = LLVMGetDiagInfoDescription(d);
  diag_error(env, E_TARGET, NULL, "LLVM: %s", s);
  LLVMDisposeMessage(s);
}
void em_diagnose(LLVMContextRef lc, ctx *c) { LLVMContextSetDiagnosticHandler(lc, on_diag, c); }
void em_finish(ctx *c, LLVMModuleRef mod, LLVMTargetMachineRef tm, int level, const char *what) {
#ifndef NDEBUG
  char *why = NULL;
  bool bad = LLVMVerifyModule(mod, LLVMReturnStatusAction, &why);
  const char *text = take(c, why);
  if (bad) ctx_bug(c, "llvm: %s: invalid IR: %s", what, text);
#endif
  if (level == 0) return;
  LLVMPassBuilderOptionsRef po = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(
      mod, "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm))", tm, po);
  LLVMDisposePassBuilderOptions(po);
  if (e) {
    char *m = LLVMGetErrorMessage(e);
    const char *copy = arena_strdup(ctx_arena(c), m);
    LLVMDisposeErrorMessage(m);
    ctx_bug(c, "llvm: %s: %s", what, copy);
  }
}

/* ---- the whole module in one LLVM module ----------------------------------------------------- */
typedef struct whole {
  ctx *c;                  /* context */
  const target *t;         /* the machine */
  int level;               /* optimisation level */
  const lmodule *m;        /* the module */
  const char *only;        /* name of the one function that is wanted; NULL: all */
  LLVMContextRef lc;       /* LLVM's context */
  LLVMModuleRef mod;       /* LLVM's module */
  LLVMTargetMachineRef tm; /* the target machine */
  LLVMBuilderRef b;        /* builder */
  LLVMMemoryBufferRef out; /* the result */
  char *text;              /* text that LLVM allocated */
} whole;
static const char *own_name(void *env, const char *func) {
  const lmodule *m = env;
  for (uint32_t i = 0; i < m->funcs.n; i++)
    if (!strcmp(m->funcs.v[i]->name, func)) return m->funcs.v[i]->name;
  return NULL;
}
static void open_module(whole *w, const char *name) {
  w->tm = em_machine(w->c, w->t, w->level);
  w->lc = LLVMContextCreate();
  em_diagnose(w->lc, w->c);
  w->mod = LLVMModuleCreateWithNameInContext(name, w->lc);
  em_module_target(w->mod, w->tm);
}
static void build(whole *w) {
  open_module(w, "model");
  arena *a = arena_new(w->c);
  for (uint32_t i = 0; i < w->m->funcs.n; i++) {
    const lfunc *f = w->m->funcs.v[i];
    if (!w->only || !strcmp(w->only, f->name))
      em_function(
          w->c, a, w->lc, w->mod,
          &(code_function){.m = w->m, .f = f, .t = w->t, .symbol = f->name, .callee = own_name, .env = (void *)w->m});
  }
  arena_free(a);
}
static void drop(whole *w) {
  if (w->out) LLVMDisposeMemoryBuffer(w->out);
  LLVMDisposeMessage(w->text);
  if (w->b) LLVMDisposeBuilder(w->b);
  if (w->mod) LLVMDisposeModule(w->mod);
  if (w->lc) LLVMContextDispose(w->lc);
  if (w->tm) LLVMDisposeTargetMachine(w->tm);
  w->mod = NULL, w->lc = NULL, w->tm = NULL, w->b = NULL, w->out = NULL, w->text = NULL;
}
static void emit(whole *w, LLVMCodeGenFileType kind) {
  char *why = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(w->tm, w->mod, kind, &why, &w->out))
    ctx_fail(w->c, E_TARGET, "code generation for target %s: %s", w->t->name, take(w->c, why));
}

/* ---- descriptor: ek_rt_model and what it points to, as constants ----------------------------- */
static LLVMValueRef global(em *e, LLVMValueRef init, const char *name, unsigned align, bool relro) {
  LLVMValueRef g = LLVMAddGlobal(e->mod, LLVMTypeOf(init), name);
  LLVMSetInitializer(g, init);
  LLVMSetGlobalConstant(g, 1);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  if (!relro) LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
  if (align) LLVMSetAlignment(g, align);
  return g;
}
static LLVMValueRef text(em *e, const char *s) {
  return s ? global(e, LLVMConstStringInContext(e->lc, s, (unsigned)strlen(s), 0), "text", 1, false)
           : LLVMConstNull(e->ptr);
}
static LLVMValueRef tensors(em *e, const ek_rt_tensor *t, int64_t n) {
  if (!n) return LLVMConstNull(e->ptr);
  LLVMValueRef *all = NEWN(e->a, LLVMValueRef, n);
  for (int64_t i = 0; i < n; i++) {
    uint32_t rank = (uint32_t)t[i].rank;
    LLVMValueRef *dim = NEWN(e->a, LLVMValueRef, rank + 1), *name = NEWN(e->a, LLVMValueRef, rank + 1);
    for (uint32_t d = 0; d < rank; d++) {
      dim[d] = LLVMConstInt(e->i64, (unsigned long long)t[i].dims[d], 1);
      name[d] = text(e, t[i].dim_names ? t[i].dim_names[d] : NULL);
    }
    LLVMValueRef none = LLVMConstNull(e->ptr);
    LLVMValueRef fields[5] = {text(e, t[i].name), LLVMConstInt(e->i32, (unsigned long long)t[i].type, 1),
                              LLVMConstInt(e->i32, rank, 0),
                              rank ? global(e, LLVMConstArray2(e->i64, dim, rank), "dims", 8, false) : none,
                              rank ? global(e, LLVMConstArray2(e->ptr, name, rank), "dim_names", 8, true) : none};
    all[i] = LLVMConstStructInContext(e->lc, fields, 5, 0);
  }
  return global(e, LLVMConstArray2(LLVMTypeOf(all[0]), all, (uint64_t)n), "tensors", 8, true);
}
static void serial_parallel(em *e, LLVMValueRef fn) { /* Runs all chunks in the calling thread. */
  LLVMTypeRef kt[4] = {e->ptr, e->i64, e->i64, e->i64}, ft = LLVMFunctionType(e->vd, kt, 4, 0);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->lc, fn, "entry"));
  LLVMValueRef zero = LLVMConstInt(e->i64, 0, 0), a[4] = {LLVMGetParam(fn, 2), zero, LLVMGetParam(fn, 3), zero};
  LLVMBuildCall2(e->b, ft, LLVMGetParam(fn, 1), a, 4, "");
  LLVMBuildRetVoid(e->b);
}
/* if (!call->slot) call->slot = value */
static void fill(em *e, LLVMValueRef fn, LLVMValueRef call, int slot, LLVMValueRef value) {
  LLVMValueRef k = LLVMConstInt(e->i64, (unsigned long long)slot, 0), p = LLVMBuildGEP2(e->b, e->i64, call, &k, 1, ""),
               have = LLVMBuildLoad2(e->b, e->ptr, p, "");
  LLVMBasicBlockRef set = LLVMAppendBasicBlockInContext(e->lc, fn, "set"),
                    on = LLVMAppendBasicBlockInContext(e->lc, fn, "on");
  LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, have, ""), set, on);
  LLVMPositionBuilderAtEnd(e->b, set);
  LLVMBuildStore(e->b, value, p);
  LLVMBuildBr(e->b, on);
  LLVMPositionBuilderAtEnd(e->b, on);
}
/* Ends the function where the record has no arena. */
static void need_arena(em *e, LLVMValueRef fn, LLVMValueRef call) {
  LLVMValueRef k = LLVMConstInt(e->i64, offsetof(ek_rt_call, arena) / 8, 0),
               at = LLVMConstInt(e->i64, offsetof(ek_rt_call, message) / 8, 0),
               have = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->i64, call, &k, 1, ""), "");
  LLVMBasicBlockRef none = LLVMAppendBasicBlockInContext(e->lc, fn, "none"),
                    on = LLVMAppendBasicBlockInContext(e->lc, fn, "on");
  LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, have, ""), none, on);
  LLVMPositionBuilderAtEnd(e->b, none);
  LLVMBuildStore(e->b, text(e, EK_RT_NO_ARENA), LLVMBuildGEP2(e->b, e->i64, call, &at, 1, ""));
  LLVMBuildRet(e->b, LLVMConstInt(e->i64, E_USAGE, 0));
  LLVMPositionBuilderAtEnd(e->b, on);
}
/* The pool's function is in the runtime's object; only its address is used here. */
static LLVMValueRef pool_function(em *e, bool pool, const char *name) {
  if (!pool) return LLVMConstNull(e->ptr);
  LLVMValueRef f = LLVMAddFunction(e->mod, name, LLVMFunctionType(e->vd, NULL, 0, 0));
  LLVMSetVisibility(f, LLVMHiddenVisibility);
  return f;
}
static LLVMValueRef main_function(em *e, const char *symbol) {
  LLVMValueRef fn = LLVMAddFunction(e->mod, symbol, LLVMFunctionType(e->i64, &e->ptr, 1, 0));
  LLVMSetVisibility(fn, LLVMHiddenVisibility);
  return fn;
}
/* plan, but on a processor that lacks something it ends with a message before any code of the model runs. */
static LLVMValueRef checked_plan(em *e, LLVMValueRef plan, LLVMTypeRef mt, LLVMValueRef needs) {
  LLVMTypeRef lt = LLVMFunctionType(e->ptr, &e->ptr, 1, 0);
  LLVMValueRef lacks = LLVMAddFunction(e->mod, "ek_rt_cpu_lacks", lt), fn = LLVMAddFunction(e->mod, "plan_here", mt),
               call = LLVMGetParam(fn, 0);
  LLVMSetVisibility(lacks, LLVMHiddenVisibility);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->lc, fn, "entry"),
                    bad = LLVMAppendBasicBlockInContext(e->lc, fn, "lacks"),
                    good = LLVMAppendBasicBlockInContext(e->lc, fn, "meets");
  LLVMPositionBuilderAtEnd(e->b, entry);
  LLVMValueRef why = LLVMBuildCall2(e->b, lt, lacks, &needs, 1, ""),
               at = LLVMConstInt(e->i64, offsetof(ek_rt_call, message) / 8, 0);
  LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, why, ""), good, bad);
  LLVMPositionBuilderAtEnd(e->b, bad);
  LLVMBuildStore(e->b, why, LLVMBuildGEP2(e->b, e->i64, call, &at, 1, ""));
  LLVMBuildRet(e->b, LLVMConstInt(e->i64, E_TARGET, 0));
  LLVMPositionBuilderAtEnd(e->b, good);
  LLVMBuildRet(e->b, LLVMBuildCall2(e->b, mt, plan, &call, 1, ""));
  return fn;
}
/* Code finds the weights by a pointer in memory: they may lie further away than an instruction reaches. */
static LLVMValueRef through_pointer(em *e, LLVMValueRef weights) {
  LLVMValueRef at = global(e, weights, "weights_at", 8, true);
  LLVMSetGlobalConstant(at, 0); /* a constant's value would be known to LLVM */
  return LLVMBuildLoad2(e->b, e->ptr, at, "");
}
static void add_descriptor(whole *w, const code_model *x) {
  arena *a = arena_new(w->c);
  em e_ = {.c = w->c, .a = a, .lc = w->lc, .mod = w->mod, .b = w->b = LLVMCreateBuilderInContext(w->lc)}, *e = &e_;
  em_types(e);
  const ek_rt_model *d = x->model;
  LLVMValueRef weights = LLVMConstNull(e->ptr), plan = main_function(e, x->plan), run = main_function(e, x->run);
  if (x->weights.n && x->embed) {
    LLVMValueRef data = LLVMConstStringInContext2(w->lc, (const char *)x->weights.p, x->weights.n, 1);
    weights = global(e, data, "weights", 64, false);
  } else if (x->weights.n) {
    weights = LLVMAddGlobal(w->mod, e->i8, arena_fmt(a, "%s_weights", x->name));
    LLVMSetGlobalConstant(weights, 1);
    LLVMSetVisibility(weights, LLVMHiddenVisibility);
  }
  LLVMTypeRef pt[4] = {e->ptr, e->ptr, e->ptr, e->i64};
  LLVMValueRef par = LLVMAddFunction(w->mod, x->pool ? "ek_rt_parallel" : "serial", LLVMFunctionType(e->vd, pt, 4, 0));
  LLVMSetVisibility(par, LLVMHiddenVisibility);
  if (!x->pool) {
    LLVMSetVisibility(par, LLVMDefaultVisibility);
    LLVMSetLinkage(par, LLVMInternalLinkage);
    serial_parallel(e, par);
  }
  LLVMTypeRef mt = LLVMFunctionType(e->i64, &e->ptr, 1, 0);
  if (x->pool && d->cpu) plan = checked_plan(e, plan, mt, text(e, d->cpu));
  LLVMValueRef entry = LLVMAddFunction(w->mod, arena_fmt(a, "%s_run", x->name), mt), call = LLVMGetParam(entry, 0);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(w->lc, entry, "entry"));
  if (strcmp(d->memory, "0") != 0) need_arena(e, entry, call);
  fill(e, entry, call, 5, x->weights.n && !x->embed ? through_pointer(e, weights) : weights);
  fill(e, entry, call, 6, par);
  LLVMBuildRet(e->b, LLVMBuildCall2(e->b, mt, run, &call, 1, ""));
#define K(v) LLVMConstInt(e->i64, (unsigned long long)(v), 1)
  LLVMValueRef rules = LLVMConstNull(e->ptr), *rule = NEWN(a, LLVMValueRef, 2 * (size_t)d->states + 1);
  for (int64_t i = 0; i < d->states; i++)
    rule[2 * i] = K(d->between[i].first), rule[2 * i + 1] = K(d->between[i].places);
  if (d->states) rules = global(e, LLVMConstArray2(e->i64, rule, 2 * (uint64_t)d->states), "between", 8, true);
  VEC(LLVMValueRef) axes = {0};
  for (int64_t i = 0, at = 0; i < d->states && d->orders; i++)
    for (int32_t k = 0; k < d->state[i].rank; k++, at++) vec_push(a, axes, K(d->orders[at]));
  LLVMValueRef orders =
      d->orders ? global(e, LLVMConstArray2(e->i64, axes.v, axes.n), "orders", 8, true) : LLVMConstNull(e->ptr);
  LLVMValueRef fields[] = {K(model_version(d)),
                           text(e, x->name),
                           K(d->inputs),
                           K(d->outputs),
                           tensors(e, d->in, d->inputs),
                           tensors(e, d->out, d->outputs),
                           plan,
                           entry,
                           weights,
                           K(x->weights.n),
                           text(e, d->memory),
                           pool_function(e, x->pool, "ek_rt_pool_create"),
                           pool_function(e, x->pool, "ek_rt_pool_destroy"),
                           text(e, d->cpu),
                           K(d->states),
                           tensors(e, d->state, d->states),
                           rules,
                           orders};
  _Static_assert(sizeof fields / sizeof *fields * 8 == sizeof(ek_rt_model), "ek_rt_model has other fields");
  LLVMValueRef model =
      global(e, LLVMConstStructInContext(e->lc, fields, sizeof fields / sizeof *fields, 0), "model", 8, true);
  LLVMValueRef info = LLVMAddFunction(w->mod, arena_fmt(a, "%s_info", x->name), LLVMFunctionType(e->ptr, NULL, 0, 0));
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(w->lc, info, "entry"));
  LLVMBuildRet(e->b, model);
  arena_free(a);
}

bytes em_copy(arena *a, LLVMMemoryBufferRef buf) {
  return (bytes){arena_dup(a, LLVMGetBufferStart(buf), LLVMGetBufferSize(buf)), LLVMGetBufferSize(buf)};
}
bytes llvm_descriptor(ctx *c, const target *t, int level, const code_model *x) {
  whole *w = NEW(ctx_arena(c), whole);
  *w = (whole){.c = c, .t = t, .level = level};
  bytes *obj = NEW(ctx_arena(c), bytes);
  CTX_TRY(c) {
    open_module(w, x->name);
    add_descriptor(w, x);
    em_finish(c, w->mod, w->tm, level, "descriptor");
    emit(w, LLVMObjectFile);
    *obj = em_copy(ctx_arena(c), w->out);
  }
  CTX_CATCH {
    drop(w);
    ctx_unwind(c);
  }
  drop(w);
  return *obj;
}
static void show(ctx *c, const lmodule *m, const target *t, int level, const char *only, bool assembly, sbuf *b) {
  whole *w = NEW(ctx_arena(c), whole);
  target rt = llvm_ready(c, t);
  *w = (whole){.c = c, .t = &rt, .level = level, .m = m, .only = only};
  CTX_TRY(c) {
    build(w);
    em_finish(c, w->mod, w->tm, level, "text");
    if (assembly) {
      emit(w, LLVMAssemblyFile);
      sb_putn(b, LLVMGetBufferStart(w->out), LLVMGetBufferSize(w->out));
    } else {
      w->text = LLVMPrintModuleToString(w->mod);
      sb_put(b, w->text);
    }
  }
  CTX_CATCH {
    drop(w);
    ctx_unwind(c);
  }
  drop(w);
}
void llvm_text(ctx *c, const lmodule *m, const target *t, int level, const char *only, sbuf *b) {
  show(c, m, t, level, only, false, b);
}
void llvm_asm(ctx *c, const lmodule *m, const target *t, int level, const char *only, sbuf *b) {
  show(c, m, t, level, only, true, b);
}
