/* How do the functions of a model become the objects of a library, or text for people? Both go by the table of emitters
 * (emit.c). */
#include "codegen/emit/batch.h"
#include "codegen/llvm/llvm.h"
#include "codegen/x86/x86.h"
#include <string.h>

static const char *main_symbol(batch *b, const char *name) {
  const unit *u = batch_unit(b, name);
  if (!u || u->f->kind != LF_MAIN) ctx_bug(b->c, "code generation: the module has no main function %s", name);
  return u->symbol;
}
/* CPU flags that the code needs: those of the instructions in it where codegen/x86 made it all; LLVM may use all that
 * the target has. NULL: none. */
static const char *flags_needed(const batch *b) {
  arena *a = ctx_arena(b->c);
  uint32_t needs = 0;
  strvec also = {0};
  for (uint32_t i = 0; i < b->units.n; i++) {
    const unit *u = &b->units.v[i];
    if (u->by != &emit_table[EMIT_X86]) return b->t.required && *b->t.required ? b->t.required : NULL;
    needs |= u->out.needs;
    for (uint32_t j = 0; j < u->out.also.n; j++) vec_push(a, also, u->out.also.v[j]);
  }
  const char *flags = x86_flags(a, needs);
  for (uint32_t i = 0; i < also.n; i++) flags = cpu_flags_joined(a, flags, also.v[i]);
  return *flags ? flags : NULL;
}
/* By codegen/x86 where it has compiled everything and its descriptor is enough, so that LLVM is not needed. */
static bytes descriptor(batch *b, const code_model *given) {
  code_model x = *given;
  bool own = x.pool && !x.embed;
  x.plan = main_symbol(b, "plan"), x.run = main_symbol(b, "run");
  for (uint32_t i = 0; i < b->units.n; i++) own = own && b->units.v[i].by == &emit_table[EMIT_X86];
  if (own) return x86_descriptor(ctx_arena(b->c), &x);
  target t = llvm_ready(b->c, &b->t);
  return llvm_descriptor(b->c, &t, b->o.level, &x);
}
uint32_t emit_objects(ctx *c, const lmodule *m, const target *t, const code_opts *o, const code_model *x,
                      const bytes **objs) {
  batch *b = batch_new(c, m, t, o, arena_fmt(ctx_arena(c), "ek_%s", x->name));
  b->hidden = true;
  for (uint32_t i = 0; i < b->units.n; i++) vec_push(ctx_arena(c), b->todo, i);
  emit_units(b);
  bytes *all = NEWN(ctx_arena(c), bytes, b->units.n + 1);
  x->model->cpu = flags_needed(b);
  all[0] = descriptor(b, x);
  for (uint32_t i = 0; i < b->units.n; i++) all[i + 1] = b->units.v[i].out.obj;
  *objs = all;
  return b->units.n + 1;
}

/* ---- for reading ----------------------------------------------------------------------------- */
static const char *own_name(void *env, const char *func) { return (void)env, func; }
void emit_asm(ctx *c, const lmodule *m, const target *t, const code_opts *o, const char *only, sbuf *b) {
  const emitter *own = &emit_table[EMIT_X86];
  if (!emit_tries(own, t, o->codegen)) {
    llvm_asm(c, m, t, o->level, only, b);
    return;
  }
  target rt = llvm_ready(c, t);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    if (only && strcmp(only, f->name)) continue;
    arena *a = arena_new(c);
    emitted out = {.refused = NULL};
    if (own->object(c, a, &(code_function){.m = m, .f = f, .t = t, .symbol = f->name, .callee = own_name}, &out))
      llvm_disassemble(c, &rt, out.obj, b);
    else {
      sb_fmt(b, "# %s is left to LLVM: there is %s in it\n", f->name, out.refused);
      llvm_asm(c, m, t, o->level, f->name, b);
    }
    arena_free(a);
  }
}
