/* Which emitter compiles a function? The own emitter first, LLVM for what it refuses: emitters that make objects are
 * tried in the order of the table, and each gets the functions that no earlier one has compiled. An emitter is made
 * ready only when functions are left for it, so that LLVM is loaded when it is needed and not before. */
#include "codegen/c/c.h"
#include "codegen/emit/batch.h"
#include "codegen/llvm/llvm.h"
#include "codegen/x86/x86.h"
#include <string.h>

/* One that LLVM writes, too, is left to it: it is refused. */
static bool x86_writes(const instruction *k) { return k->x86.bits || k->llvm; }
/* Operations are expanded as for LLVM, so that both emitters give equal results. */
static bool x86_expanded(ctx *c, arena *a, const code_function *f, emitted *out) {
  lfunc g = *f->f;
  code_function k = *f;
  double t0 = now_ms();
  g.a = a, k.f = &g;
  code_spell(c, &g, f->t, x86_writes);
  loop_expand((lmodule *)f->m, &g, llvm_native, (void *)f->t);
  double t1 = now_ms();
  bool done = x86_object(c, a, &k, out);
  out->emit_ms = t1 - t0, out->code_ms = now_ms() - t1;
  return done;
}
const emitter emit_table[EMITTERS] = {
    [EMIT_X86] = {"x86", "objects for x86-64", .has = x86_target, .object = x86_expanded},
    [EMIT_LLVM] = {"llvm", "objects", .ready = llvm_ready, .object = llvm_object},
    [EMIT_C] = {"c", "C source", .source = c_source},
};
const emitter *emit_of(ctx *c, const target *t) {
  if (!t->emitter) return &emit_table[EMIT_LLVM];
  for (const emitter *e = emit_table; e < emit_table + EMITTERS; e++)
    if (!strcmp(e->name, t->emitter)) return e;
  ctx_fail(c, E_TARGET, "target %s: there is no emitter named %s; write emitter = llvm or emitter = c", t->name,
           t->emitter);
}
bool emit_tries(const emitter *e, const target *t, int codegen) {
  bool asked = codegen == EK_CODE_AUTO || (codegen == EK_CODE_OWN) == (e == &emit_table[EMIT_X86]);
  return asked && e->object && (!e->has || e->has(t));
}

typedef struct turn { /* what one emitter has to do */
  batch *b;           /* the functions */
  const emitter *e;   /* the emitter */
  target t;           /* resolved by the emitter's `ready` */
} turn;
static const char *symbol_of(void *env, const char *func) {
  const unit *u = batch_unit(env, func);
  return u ? u->symbol : NULL;
}
static void compile(ctx *c, void *arg, uint32_t n) {
  turn *k = arg;
  batch *b = k->b;
  unit *u = &b->units.v[b->todo.v[n]];
  arena *a = arena_new(c); /* where this unwinds, the context frees it */
  code_function f = {b->m, u->f, &k->t, b->o.level, u->symbol, b->hidden, symbol_of, b};
  emitted out = {.refused = u->out.refused};
  if (k->e->object(c, a, &f, &out)) {
    u->by = k->e;
    out.obj.p = arena_dup(ctx_arena(c), out.obj.p, out.obj.n);
    out.also.v = arena_dup(ctx_arena(c), out.also.v, out.also.n * sizeof *out.also.v), out.also.cap = out.also.n;
    if (b->o.keep) b->o.keep(b->o.keep_env, out.obj);
  }
  u->out = out;
  arena_free(a);
}
static void take_turn(batch *b, const emitter *e) {
  turn k = {b, e, e->ready ? e->ready(b->c, &b->t) : b->t};
  par_for(b->c, b->o.threads ? b->o.threads : 1, b->todo.n, compile, &k);
  u32vec rest = {0};
  for (uint32_t i = 0; i < b->todo.n; i++)
    if (!b->units.v[b->todo.v[i]].by) vec_push(ctx_arena(b->c), rest, b->todo.v[i]);
  b->todo = rest;
}
void emit_units(batch *b) {
  for (const emitter *e = emit_table; e < emit_table + EMITTERS && b->todo.n; e++)
    if (emit_tries(e, &b->t, b->o.codegen)) take_turn(b, e);
  if (!b->todo.n) return;
  const unit *u = &b->units.v[b->todo.v[0]];
  ctx_fail(b->c, E_TARGET, "code generation: there is %s in function %s",
           u->out.refused ? u->out.refused : "another processor's code", u->f->name);
}
