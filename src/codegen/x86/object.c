/* How does a function become an object? Its code and constants as one section, its name, and relocations for the kernels that it calls, in ELF. */
#include "codegen/x86/in.h"
#include <elf.h>
#include <string.h>

bool x86_target(const target *t) {
  return !strncmp(t->triple ? t->triple : "", "x86_64", 6) && t->fma && t->requires &&
         (t->vector_bits == 256 ? strstr(t->requires, "avx2") != NULL : t->vector_bits == 512 && strstr(t->requires, "avx512vl") && strstr(t->requires, "avx512dq") && strstr(t->requires, "avx512bw"));
}
static bytes elf(arena *a, const x86_code *x, const x86_text *t, const char *name) {
  enum { NONE, TEXT, RELA, SYMS, NAMES, SECTIONS, STACK, COUNT };
  static const char *const section[COUNT] = {"", ".text", ".rela.text", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack"};
  sbuf b = sbuf_new(a), names = sbuf_new(a), snames = sbuf_new(a);
  Elf64_Shdr sh[COUNT] = {0};
  Elf64_Ehdr h = {.e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_ehsize = sizeof h, .e_shentsize = sizeof *sh, .e_shnum = COUNT, .e_shstrndx = SECTIONS};
  memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64, h.e_ident[EI_DATA] = ELFDATA2LSB, h.e_ident[EI_VERSION] = EV_CURRENT;
  for (int i = 0; i < COUNT; i++) {
    sh[i].sh_name = (Elf64_Word)snames.n;
    sb_putn(&snames, section[i], strlen(section[i]) + 1);
  }
  uint32_t n = x->symbols.n + 2;
  Elf64_Sym *sym = NEWN(a, Elf64_Sym, n);
  sb_putc(&names, 0);
  for (uint32_t i = 1; i < n; i++) {
    const char *s = i == 1 ? name : x->symbols.v[i - 2];
    sym[i] =
        (Elf64_Sym){.st_name = (Elf64_Word)names.n, .st_info = ELF64_ST_INFO(STB_GLOBAL, i == 1 ? STT_FUNC : STT_NOTYPE), .st_shndx = i == 1 ? TEXT : SHN_UNDEF, .st_size = i == 1 ? t->code : 0};
    sb_putn(&names, s, strlen(s) + 1);
  }
  Elf64_Rela *rela = NEWN(a, Elf64_Rela, t->relocs.n + 1);
  for (uint32_t i = 0; i < t->relocs.n; i++)
    rela[i] = (Elf64_Rela){.r_offset = t->relocs.v[i].at, .r_info = ELF64_R_INFO((uint64_t)t->relocs.v[i].symbol + 2, t->relocs.v[i].call ? R_X86_64_PLT32 : R_X86_64_PC32), .r_addend = -4};
  const struct {
    const void *p;
    size_t n;
    uint32_t type;
    uint64_t flags, align, entry;
  } part[COUNT] = {[TEXT] = {t->text.s, t->text.n, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 64, 0},
                   [RELA] = {rela, t->relocs.n * sizeof *rela, SHT_RELA, SHF_INFO_LINK, 8, sizeof *rela},
                   [SYMS] = {sym, n * sizeof *sym, SHT_SYMTAB, 0, 8, sizeof *sym},
                   [NAMES] = {names.s, names.n, SHT_STRTAB, 0, 1, 0},
                   [SECTIONS] = {snames.s, snames.n, SHT_STRTAB, 0, 1, 0},
                   [STACK] = {"", 0, SHT_PROGBITS, 0, 1, 0}};
  sb_putn(&b, (const char *)&h, sizeof h);
  for (int i = 1; i < COUNT; i++) {
    while (b.n % part[i].align) sb_putc(&b, 0);
    sh[i].sh_type = part[i].type, sh[i].sh_flags = part[i].flags, sh[i].sh_offset = b.n, sh[i].sh_size = part[i].n, sh[i].sh_addralign = part[i].align, sh[i].sh_entsize = part[i].entry;
    if (part[i].n) sb_putn(&b, part[i].p, part[i].n);
  }
  sh[RELA].sh_link = SYMS, sh[RELA].sh_info = TEXT;
  sh[SYMS].sh_link = NAMES, sh[SYMS].sh_info = 1;
  while (b.n % 8) sb_putc(&b, 0);
  h.e_shoff = b.n;
  sb_putn(&b, (const char *)sh, sizeof sh);
  memcpy(b.s, &h, sizeof h);
  return (bytes){(const uint8_t *)b.s, b.n};
}
bool x86_object(ctx *c, arena *a, const lfunc *f, const target *t, const char *name, const char *(*symbol)(void *env, const char *func), void *env, bytes *obj, const char **why) {
  x86_code x = {.c = c, .a = a, .pool = sbuf_new(a)};
  x86_text text = {0};
  if (!x86_select(c, a, f, t, symbol, env, &x, why)) return false;
  if (!x86_allocate(&x)) {
    *why = "too few registers";
    return false;
  }
  x86_encode(&x, &text);
  *obj = elf(a, &x, &text, name);
  return true;
}
