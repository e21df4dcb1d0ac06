/* What has codegen/x86 made, for people? The instructions of its object, read back by LLVM: targets of jumps become
 * labels, relocations names. Constants are not shown. */
#include "codegen/llvm/emit.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

typedef struct listing {
  const uint8_t *text;     /* the instructions */
  const uint8_t *names;    /* names of the symbols */
  const Elf64_Sym *syms;   /* symbols of the object */
  const Elf64_Rela *relas; /* relocations of the instructions */
  uint64_t n;              /* bytes of instructions */
  uint64_t nrelas;         /* number of relocations */
  bool *target;            /* per byte: a jump leads there */
  char label[24];          /* text of the label last asked for */
} listing;

/* the name that the bytes from .. to - 1 refer to; NULL */
static const char *relocated(const listing *l, uint64_t from, uint64_t to) {
  for (uint64_t i = 0; i < l->nrelas; i++)
    if (l->relas[i].r_offset >= from && l->relas[i].r_offset < to)
      return (const char *)l->names + l->syms[ELF64_R_SYM(l->relas[i].r_info)].st_name;
  return NULL;
}
static const char *name_of(void *env, uint64_t value, uint64_t *type, uint64_t pc, const char **name) {
  listing *l = env;
  bool jump = *type == LLVMDisassembler_ReferenceType_In_Branch;
  *type = LLVMDisassembler_ReferenceType_InOut_None, *name = NULL;
  if (!jump) return NULL;
  const char *callee = relocated(l, pc, pc + 5);
  if (callee || value >= l->n) return callee;
  l->target[value] = true;
  snprintf(l->label, sizeof l->label, ".L%llx", (unsigned long long)value);
  return l->label;
}
static void list(LLVMDisasmContextRef d, listing *l, sbuf *b) { /* b NULL: only finds the targets */
  char line[256];
  for (uint64_t at = 0, n; at < l->n; at += n ? n : 1) {
    n = LLVMDisasmInstruction(d, (uint8_t *)(uintptr_t)l->text + at, l->n - at, at, line, sizeof line);
    if (!b) continue;
    if (l->target[at]) sb_fmt(b, ".L%llx:\n", (unsigned long long)at);
    const char *name = n ? relocated(l, at, at + n) : NULL;
    if (!n) snprintf(line, sizeof line, "\t.byte\t0x%02x", l->text[at]);
    sb_put(b, line);
    if (name && !strstr(line, name)) sb_fmt(b, "\t# %s", name);
    sb_putc(b, '\n');
  }
}
void llvm_disassemble(ctx *c, const target *t, bytes obj, sbuf *b) {
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)obj.p;
  const Elf64_Shdr *sh = (const Elf64_Shdr *)(obj.p + h->e_shoff);
  listing l = {0};
  for (int i = 1; i < h->e_shnum; i++) {
    const uint8_t *p = obj.p + sh[i].sh_offset;
    if (sh[i].sh_type == SHT_PROGBITS && (sh[i].sh_flags & SHF_EXECINSTR)) l.text = p;
    if (sh[i].sh_type == SHT_RELA) l.relas = (const Elf64_Rela *)p, l.nrelas = sh[i].sh_size / sizeof *l.relas;
    if (sh[i].sh_type == SHT_SYMTAB) l.syms = (const Elf64_Sym *)p, l.names = obj.p + sh[sh[i].sh_link].sh_offset;
  }
  l.n = l.syms[1].st_size, l.target = NEWN(ctx_arena(c), bool, l.n + 1);
  LLVMDisasmContextRef d = LLVMCreateDisasmCPUFeatures(t->triple, t->cpu, t->features, &l, 0, NULL, name_of);
  if (!d) ctx_fail(c, E_TARGET, "target %s: this LLVM cannot show its instructions", t->name);
  CTX_TRY(c) {
    sb_fmt(b, "%s:\n", (const char *)l.names + l.syms[1].st_name);
    list(d, &l, NULL);
    list(d, &l, b);
  }
  CTX_CATCH {
    LLVMDisasmDispose(d);
    ctx_unwind(c);
  }
  LLVMDisasmDispose(d);
}
