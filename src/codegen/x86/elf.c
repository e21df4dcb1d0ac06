/* How is an object written? Sections that have nothing in them are left out; all names are global. */
#include "codegen/x86/elf.h"
#include <elf.h>
#include <string.h>

uint32_t elf_name(arena *a, elf_object *o, elf_symbol s) {
  vec_push(a, o->symbols, s);
  return o->symbols.n - 1;
}

typedef struct writer {
  sbuf b;            /* the file */
  sbuf names;        /* names of the sections */
  Elf64_Shdr sh[10]; /* headers of the sections */
  uint32_t n;        /* number of sections */
} writer;
static uint32_t section(writer *w, const char *name, Elf64_Shdr h, const void *p, size_t n) {
  while (w->b.n % h.sh_addralign) sb_putc(&w->b, 0);
  h.sh_name = (Elf64_Word)w->names.n, h.sh_offset = w->b.n, h.sh_size = n;
  sb_putn(&w->names, name, strlen(name) + 1);
  if (n) sb_putn(&w->b, p, n);
  w->sh[w->n] = h;
  return w->n++;
}
bytes elf_bytes(arena *a, const elf_object *o) {
  static const char *const name[3] = {"", ".text", ".data.rel.ro"}, *const rela_name[3] = {"", ".rela.text",
                                                                                           ".rela.data.rel.ro"};
  static const Elf64_Shdr like[3] = {
      {0},
      {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addralign = 64},
      {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE, .sh_addralign = 8}};
  writer w_ = {.b = sbuf_new(a), .names = sbuf_new(a), .n = 1}, *w = &w_;
  Elf64_Ehdr h = {.e_type = ET_REL,
                  .e_machine = EM_X86_64,
                  .e_version = EV_CURRENT,
                  .e_ehsize = sizeof h,
                  .e_shentsize = sizeof(Elf64_Shdr)};
  memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = ELFCLASS64, h.e_ident[EI_DATA] = ELFDATA2LSB, h.e_ident[EI_VERSION] = EV_CURRENT;
  uint32_t index[3] = {0}, rela[3] = {0}, n = o->symbols.n + 1;
  sb_putn(&w->b, (const char *)&h, sizeof h);
  sb_putc(&w->names, 0);
  for (int i = ELF_TEXT; i <= ELF_DATA; i++)
    if (o->part[i].n) index[i] = section(w, name[i], like[i], o->part[i].s, o->part[i].n);
  for (int i = ELF_TEXT; i <= ELF_DATA; i++) {
    Elf64_Rela *r = NEWN(a, Elf64_Rela, o->fixes[i].n + 1);
    for (uint32_t k = 0; k < o->fixes[i].n; k++) {
      const elf_fix *f = &o->fixes[i].v[k];
      r[k] = (Elf64_Rela){
          .r_offset = f->at, .r_info = ELF64_R_INFO((uint64_t)f->symbol + 1, f->type), .r_addend = f->addend};
    }
    if (o->fixes[i].n)
      rela[i] = section(w, rela_name[i],
                        (Elf64_Shdr){.sh_type = SHT_RELA,
                                     .sh_flags = SHF_INFO_LINK,
                                     .sh_info = index[i],
                                     .sh_addralign = 8,
                                     .sh_entsize = sizeof *r},
                        r, o->fixes[i].n * sizeof *r);
  }
  Elf64_Sym *sym = NEWN(a, Elf64_Sym, n);
  sbuf names = sbuf_new(a);
  sb_putc(&names, 0);
  for (uint32_t i = 1; i < n; i++) {
    const elf_symbol *s = &o->symbols.v[i - 1];
    sym[i] = (Elf64_Sym){.st_name = (Elf64_Word)names.n,
                         .st_info = ELF64_ST_INFO(STB_GLOBAL, s->function ? STT_FUNC : STT_NOTYPE),
                         .st_other = s->hidden ? STV_HIDDEN : STV_DEFAULT,
                         .st_shndx = (Elf64_Half)index[s->where],
                         .st_value = s->at,
                         .st_size = s->size};
    sb_putn(&names, s->name, strlen(s->name) + 1);
  }
  uint32_t syms = section(
      w, ".symtab", (Elf64_Shdr){.sh_type = SHT_SYMTAB, .sh_info = 1, .sh_addralign = 8, .sh_entsize = sizeof *sym},
      sym, n * sizeof *sym);
  w->sh[syms].sh_link = section(w, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1}, names.s, names.n);
  for (int i = ELF_TEXT; i <= ELF_DATA; i++) w->sh[rela[i]].sh_link = rela[i] ? syms : 0;
  section(w, ".note.GNU-stack", (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addralign = 1}, "", 0);
  const char last[] = ".shstrtab";
  sbuf all = sbuf_new(a);
  sb_putn(&all, w->names.s, w->names.n), sb_putn(&all, last, sizeof last);
  h.e_shstrndx = (Elf64_Half)section(w, last, (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1}, all.s, all.n);
  while (w->b.n % 8) sb_putc(&w->b, 0);
  h.e_shoff = w->b.n, h.e_shnum = (Elf64_Half)w->n;
  sb_putn(&w->b, (const char *)w->sh, w->n * sizeof *w->sh);
  memcpy(w->b.s, &h, sizeof h);
  return (bytes){(const uint8_t *)w->b.s, w->b.n};
}
