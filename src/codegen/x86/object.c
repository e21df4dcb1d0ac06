/* How does a function become an object? Its code and constants as one section, its name, and relocations for the
 * kernels that it calls, in ELF. */
#include "codegen/x86/elf.h"
#include "codegen/x86/in.h"
#include <elf.h>
#include <string.h>

bool x86_target(const target *t) {
  return !strncmp(t->triple ? t->triple : "", "x86_64", 6) && t->fma && t->required &&
         (t->vector_bits == 256 ? strstr(t->required, "avx2") != NULL
                                : t->vector_bits == 512 && strstr(t->required, "avx512vl") &&
                                      strstr(t->required, "avx512dq") && strstr(t->required, "avx512bw"));
}
const char *x86_flags(arena *a, uint32_t needs) {
  static const char *const names[] = {"avx",      "avx2",     "fma",      "f16c",       "bmi2",      "avx512f",
                                      "avx512vl", "avx512bw", "avx512dq", "avx512vbmi", "avx512bf16"};
  sbuf b = sbuf_new(a);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (needs >> i & 1) sb_fmt(&b, "%s%s", b.n ? " " : "", names[i]);
  return b.n ? b.s : "";
}
static bytes object(arena *a, const x86_code *x, const x86_text *t, const char *name, bool hidden) {
  elf_object o = {.part[ELF_TEXT] = t->text};
  elf_name(a, &o, (elf_symbol){.name = name, .where = ELF_TEXT, .hidden = hidden, .function = true, .size = t->code});
  for (uint32_t i = 0; i < x->symbols.n; i++) elf_name(a, &o, (elf_symbol){.name = x->symbols.v[i]});
  for (uint32_t i = 0; i < t->relocs.n; i++)
    vec_push(a, o.fixes[ELF_TEXT],
             ((elf_fix){t->relocs.v[i].at, t->relocs.v[i].symbol + 1,
                        t->relocs.v[i].call ? R_X86_64_PLT32 : R_X86_64_PC32, -4}));
  return elf_bytes(a, &o);
}
bool x86_object(ctx *c, arena *a, const code_function *f, emitted *out) {
  x86_code x = {.c = c, .a = a, .pool = sbuf_new(a)};
  x86_text text = {0};
  if (!x86_select(c, a, f->f, f->t, f->callee, f->env, &x, &out->refused)) return false;
  if (!x86_allocate(&x)) {
    out->refused = "too few registers";
    return false;
  }
  x86_encode(&x, &text);
  out->obj = object(a, &x, &text, f->symbol, f->hidden), out->needs = text.needs;
  for (uint32_t i = 0; i < x.declared.n; i++)
    if (x.declared.v[i].by->text[IK_NEEDS]) vec_push(a, out->also, x.declared.v[i].by->text[IK_NEEDS]);
  return true;
}
