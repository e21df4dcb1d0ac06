/* How does a saved model tell what it is, and where does it begin? The object of NAME_info and NAME_run (codegen/llvm's
 * descriptor says the same for other machines): the record ek_rt_model with what it points to, and a few instructions
 * that are the same for every model but for the addresses in them. */
#include "codegen/x86/elf.h"
#include "codegen/x86/x86.h"
#include <elf.h>
#include <stddef.h>
#include <string.h>

typedef struct desc {
  arena *a;      /* memory */
  elf_object o;  /* the object */
  uint32_t self; /* the data's beginning */
} desc;
static void word(desc *d, int64_t v) { sb_putn(&d->o.part[ELF_DATA], (const char *)&v, 8); }
static void pointer(desc *d, uint32_t symbol, int64_t addend) {
  vec_push(d->a, d->o.fixes[ELF_DATA], ((elf_fix){d->o.part[ELF_DATA].n, symbol, R_X86_64_64, addend}));
  word(d, 0);
}
static void to_place(desc *d, int64_t at) { /* A pointer to a place in the data; at -1: NULL. */
  if (at < 0)
    word(d, 0);
  else
    pointer(d, d->self, at);
}
static int64_t text(desc *d, const char *s) { /* Puts a string into the data; returns its place. */
  sbuf *b = &d->o.part[ELF_DATA];
  int64_t at = (int64_t)b->n;
  if (!s) return -1;
  sb_putn(b, s, strlen(s) + 1);
  while (b->n % 8) sb_putc(b, 0);
  return at;
}
static int64_t tensors(desc *d, const ek_rt_tensor *t, int64_t n) {
  sbuf *b = &d->o.part[ELF_DATA];
  int64_t *name = NEWN(d->a, int64_t, n + 1), *dims = NEWN(d->a, int64_t, n + 1), *names = NEWN(d->a, int64_t, n + 1),
          at;
  for (int64_t i = 0; i < n; i++) {
    int64_t *dim = NEWN(d->a, int64_t, t[i].rank + 1);
    name[i] = text(d, t[i].name), dims[i] = names[i] = -1;
    for (int32_t k = 0; k < t[i].rank; k++) dim[k] = text(d, t[i].dim_names ? t[i].dim_names[k] : NULL);
    if (!t[i].rank) continue;
    dims[i] = (int64_t)b->n;
    for (int32_t k = 0; k < t[i].rank; k++) word(d, t[i].dims[k]);
    names[i] = (int64_t)b->n;
    for (int32_t k = 0; k < t[i].rank; k++) to_place(d, dim[k]);
  }
  at = (int64_t)b->n;
  for (int64_t i = 0; i < n; i++) {
    int32_t two[2] = {t[i].type, t[i].rank};
    _Static_assert(offsetof(ek_rt_tensor, type) == 8 && offsetof(ek_rt_tensor, dims) == 16 &&
                       sizeof(ek_rt_tensor) == 32,
                   "ek_rt_tensor has other fields");
    to_place(d, name[i]);
    sb_putn(b, (const char *)two, 8);
    to_place(d, dims[i]), to_place(d, names[i]);
  }
  return n ? at : -1;
}
static int64_t between(desc *d, const ek_rt_model *m) { /* Puts what becomes of the states; returns its place. */
  const int64_t at = (int64_t)d->o.part[ELF_DATA].n;
  _Static_assert(sizeof(ek_rt_state) == 16, "ek_rt_state has other fields");
  for (int64_t i = 0; i < m->states; i++) word(d, m->between[i].first), word(d, m->between[i].places);
  return m->states ? at : -1;
}
/* Puts the axes of the states as they lie; returns their place. */
static int64_t orders(desc *d, const ek_rt_model *m) {
  const int64_t at = (int64_t)d->o.part[ELF_DATA].n;
  for (int64_t i = 0, k = 0; i < m->states && m->orders; i++)
    for (int32_t r = 0; r < m->state[i].rank; r++) word(d, m->orders[k++]);
  return m->orders ? at : -1;
}
/* Code: bytes, where %d stands for the distance to a symbol (+ addend). */
static void code(desc *d, const char *s, size_t n) { sb_putn(&d->o.part[ELF_TEXT], s, n); }
static void distance(desc *d, uint32_t symbol, int64_t addend) {
  vec_push(d->a, d->o.fixes[ELF_TEXT], ((elf_fix){d->o.part[ELF_TEXT].n, symbol, R_X86_64_PLT32, addend - 4}));
  code(d, "\0\0\0\0", 4);
}
static void displacement(desc *d, uint32_t n) { code(d, (const char *)&n, 4); }
#define CODE(s) code(d, s, sizeof s - 1)

bytes x86_descriptor(arena *a, const code_model *x) {
  const ek_rt_model *m = x->model;
  desc d_ = {.a = a}, *d = &d_;
  elf_object *o = &d->o;
  o->part[ELF_TEXT] = sbuf_new(a), o->part[ELF_DATA] = sbuf_new(a);
#define ELSEWHERE(s) elf_name(a, o, (elf_symbol){.name = s, .hidden = true})
  d->self =
      elf_name(a, o, (elf_symbol){.name = arena_fmt(a, "ek_%s_data", x->name), .where = ELF_DATA, .hidden = true});
  uint32_t plan = ELSEWHERE(x->plan), run = ELSEWHERE(x->run), parallel = ELSEWHERE("ek_rt_parallel"),
           create = ELSEWHERE("ek_rt_pool_create"), destroy = ELSEWHERE("ek_rt_pool_destroy"), weights = 0;
  if (x->weights.n) weights = ELSEWHERE(arena_fmt(a, "%s_weights", x->name));
  /* The weights may lie further away than an instruction reaches: the code reads where they are. */
  if (weights)
    pointer(d, weights, 0);
  else
    word(d, 0);
  int64_t cpu = text(d, m->cpu), name = text(d, x->name), memory = text(d, m->memory), why = text(d, EK_RT_NO_ARENA),
          in = tensors(d, m->in, m->inputs), out = tensors(d, m->out, m->outputs),
          state = tensors(d, m->state, m->states), rules = between(d, m), lie = orders(d, m),
          model = (int64_t)o->part[ELF_DATA].n;

  /* plan, but on a processor that lacks something it ends with a message before any code of the model runs */
  if (m->cpu) {
    uint32_t lacks = ELSEWHERE("ek_rt_cpu_lacks"), there = plan;
    plan = elf_name(a, o,
                    (elf_symbol){.name = arena_fmt(a, "ek_%s_plan_here", x->name),
                                 .where = ELF_TEXT,
                                 .hidden = true,
                                 .function = true,
                                 .at = o->part[ELF_TEXT].n});
    CODE("\x57\x48\x8d\x3d"), distance(d, d->self, cpu); /* push rdi; lea rdi, [cpu] */
    CODE("\xe8"), distance(d, lacks, 0);                 /* call ek_rt_cpu_lacks */
    /* pop rdi; test rax, rax; jnz 1; jmp plan */
    CODE("\x5f\x48\x85\xc0\x75\x05\xe9"), distance(d, there, 0);
    CODE("\x48\x89\x87"), displacement(d, (uint32_t)offsetof(ek_rt_call, message)); /* 1: mov [rdi + message], rax */
    CODE("\xb8"), displacement(d, E_TARGET), CODE("\xc3");                          /* mov eax, E_TARGET; ret */
  }
  _Static_assert(offsetof(ek_rt_call, weights) == 0x28 && offsetof(ek_rt_call, parallel) == 0x30,
                 "ek_rt_call has other fields");
  uint32_t entry = elf_name(
      a, o,
      (elf_symbol){
          .name = arena_fmt(a, "%s_run", x->name), .where = ELF_TEXT, .function = true, .at = o->part[ELF_TEXT].n});
  if (strcmp(m->memory, "0") != 0) {
    _Static_assert(offsetof(ek_rt_call, arena) == 0x20, "ek_rt_call has other fields");
    /* cmp qword [rdi + arena], 0; jnz 1; lea rax, [why]; mov [rdi + message], rax; mov eax, E_USAGE; ret; 1: */
    CODE("\x48\x83\x7f\x20\x00\x75\x14\x48\x8d\x05"), distance(d, d->self, why);
    CODE("\x48\x89\x87"), displacement(d, (uint32_t)offsetof(ek_rt_call, message));
    CODE("\xb8"), displacement(d, E_USAGE), CODE("\xc3");
  }
  /* cmp qword [rdi + weights], 0; jnz 1; mov rax, [data] */
  CODE("\x48\x83\x7f\x28\x00\x75\x0b\x48\x8b\x05"), distance(d, d->self, 0);
  /* mov [rdi + weights], rax; 1: cmp qword [rdi + parallel], 0; jnz 2; lea rax, [ek_rt_parallel] */
  CODE("\x48\x89\x47\x28\x48\x83\x7f\x30\x00\x75\x0b\x48\x8d\x05"), distance(d, parallel, 0);
  /* mov [rdi + parallel], rax; 2: jmp run */
  CODE("\x48\x89\x47\x30\xe9"), distance(d, run, 0);
  elf_name(
      a, o,
      (elf_symbol){
          .name = arena_fmt(a, "%s_info", x->name), .where = ELF_TEXT, .function = true, .at = o->part[ELF_TEXT].n});
  CODE("\x48\x8d\x05"), distance(d, d->self, model), CODE("\xc3"); /* lea rax, [model]; ret */

  word(d, model_version(m)), to_place(d, name), word(d, m->inputs), word(d, m->outputs), to_place(d, in),
      to_place(d, out), pointer(d, plan, 0), pointer(d, entry, 0);
  if (weights)
    pointer(d, weights, 0);
  else
    word(d, 0);
  word(d, (int64_t)x->weights.n), to_place(d, memory), pointer(d, create, 0), pointer(d, destroy, 0), to_place(d, cpu);
  word(d, m->states), to_place(d, state), to_place(d, rules), to_place(d, lie);
  if (o->part[ELF_DATA].n - (size_t)model != sizeof(ek_rt_model))
    ctx_bug(arena_ctx(a), "x86: ek_rt_model has other fields");
  return elf_bytes(a, o);
}
