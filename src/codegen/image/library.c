/* How do joined objects become a shared library without a linker? A file for x86-64 as the System V ABI and its
 * supplement for this processor describe it, whose addresses are the offsets in the file:
 *
 *   read only      ELF header, program headers, symbols, their hash table, their names, relocations
 *   code           the joined code
 *   relro          the joined data and the table of the loader, written only while it fills in addresses
 *   (not loaded)   section names and headers, for other linkers and for tools
 *   weights        read only; the caller writes them
 *
 * Externs are bound when the library is loaded. They ask for no version of a symbol: the loader then takes the
 * function's first or its default version, which have been the same to callers of those that are used here. */
#include "codegen/image/block.h"
#include <elf.h>
#include <string.h>

enum { SEGMENTS = 7, SECTIONS = 10, DYNAMIC = 16 };
enum { S_NONE, S_SYMBOLS, S_HASH, S_STRINGS, S_RELOCATIONS, S_CODE, S_DATA, S_DYNAMIC, S_WEIGHTS, S_NAMES };

typedef struct library {
  ctx *c;                      /* context */
  arena *a;                    /* memory */
  image_parts p;               /* what is joined */
  image_library_spec s;        /* what the library is called, and its weights */
  image_joined j;              /* the joined objects */
  VEC(Elf64_Sym) symbols;      /* the null symbol, externs, entries */
  uint32_t imports;            /* externs among them */
  map *number;                 /* name of an extern -> its symbol */
  sbuf strings;                /* names of symbols and libraries, for the loader */
  VEC(Elf64_Rela) relocations; /* what the loader fills in */
  uint32_t relative;           /* relocations that add the library's address, which come first */
  bool libc, libm;             /* externs are looked for there */
  Elf64_Dyn dynamic[DYNAMIC];  /* entries of the loader's table */
  uint32_t n_dynamic;          /* number of entries in `dynamic` */
  Elf64_Shdr sh[SECTIONS];     /* section headers */
  uint64_t code;               /* place of the code */
  uint64_t data;               /* place of the data */
  uint64_t table;              /* place of the loader's table */
  uint64_t end;                /* place of what is not loaded */
  uint64_t weights;            /* place of the weights; 0: there are none */
} library;

static uint32_t string(library *k, const char *s) {
  uint32_t at = (uint32_t)k->strings.n;
  sb_putn(&k->strings, s, strlen(s) + 1);
  return at;
}
static const char *extern_name(const library *k, const image_fixup *f) { return k->j.names.s + f->from - 1; }
static bool is_weights(const library *k, const char *name) { return k->s.weights && !strcmp(name, k->s.weights); }
static void import(library *k, const char *name) {
  uint64_t v;
  if (is_weights(k, name) || map_gets(k->number, name, &v)) return;
  map_puts(k->number, name, k->symbols.n);
  Elf64_Sym y = {.st_name = string(k, name), .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
  vec_push(k->a, k->symbols, y);
  k->imports++;
  const image_extern *e = image_extern_of(name);
  bool in_libm = e && e->libm;
  k->libm |= in_libm, k->libc |= !in_libm;
}
static void list_symbols(library *k) {
  vec_push(k->a, k->symbols, (Elf64_Sym){0});
  for (uint32_t i = 0; i < k->j.n_fixups; i++)
    if (k->j.fixups[i].from) import(k, extern_name(k, &k->j.fixups[i]));
  for (uint32_t i = 0; i < k->p.n_entries; i++) {
    Elf64_Sym y = {.st_name = string(k, k->p.entries[i]),
                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                   .st_shndx = S_CODE,
                   .st_value = k->j.entries[i]};
    vec_push(k->a, k->symbols, y);
  }
}

/* ---- places ---------------------------------------------------------------------------------- */
/* A section of n bytes at or after `at`; where it ends. */
static uint64_t section(library *k, uint32_t i, Elf64_Shdr s, uint64_t at, uint64_t n) {
  s.sh_offset = image_align(at, s.sh_addralign), s.sh_size = n;
  if (s.sh_flags & SHF_ALLOC) s.sh_addr = s.sh_offset;
  k->sh[i] = s;
  return s.sh_offset + n;
}
static void place(library *k) {
  uint64_t at = sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr);
  at = section(k, S_SYMBOLS,
               (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                            .sh_flags = SHF_ALLOC,
                            .sh_link = S_STRINGS,
                            .sh_info = 1,
                            .sh_addralign = 8,
                            .sh_entsize = sizeof(Elf64_Sym)},
               at, k->symbols.n * sizeof(Elf64_Sym));
  at =
      section(k, S_HASH,
              (Elf64_Shdr){
                  .sh_type = SHT_HASH, .sh_flags = SHF_ALLOC, .sh_link = S_SYMBOLS, .sh_addralign = 8, .sh_entsize = 4},
              at, (3 + k->symbols.n) * 4);
  at = section(k, S_STRINGS, (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_flags = SHF_ALLOC, .sh_addralign = 1}, at,
               k->strings.n);
  at = section(k, S_RELOCATIONS,
               (Elf64_Shdr){.sh_type = SHT_RELA,
                            .sh_flags = SHF_ALLOC,
                            .sh_link = S_SYMBOLS,
                            .sh_addralign = 8,
                            .sh_entsize = sizeof(Elf64_Rela)},
               at, k->j.n_fixups * sizeof(Elf64_Rela));
  at = section(k, S_CODE,
               (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addralign = IMAGE_PAGE},
               at, k->j.code);
  at = section(k, S_DATA,
               (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE, .sh_addralign = IMAGE_PAGE}, at,
               k->j.data);
  at = section(k, S_DYNAMIC,
               (Elf64_Shdr){.sh_type = SHT_DYNAMIC,
                            .sh_flags = SHF_ALLOC | SHF_WRITE,
                            .sh_link = S_STRINGS,
                            .sh_addralign = 16,
                            .sh_entsize = sizeof(Elf64_Dyn)},
               at, sizeof k->dynamic);
  k->code = k->sh[S_CODE].sh_addr, k->data = k->sh[S_DATA].sh_addr, k->table = k->sh[S_DYNAMIC].sh_addr, k->end = at;
}
/* Section names and headers, then the weights. */
static uint64_t place_rest(library *k, sbuf *names) {
  static const char *const name[SECTIONS] = {"",      ".dynsym",      ".hash",    ".dynstr", ".rela.dyn",
                                             ".text", ".data.rel.ro", ".dynamic", "weights", ".shstrtab"};
  for (uint32_t i = 0; i < SECTIONS; i++) {
    k->sh[i].sh_name = (uint32_t)names->n;
    sb_putn(names, name[i], strlen(name[i]) + 1);
  }
  uint32_t n = k->sh[S_NAMES].sh_name;
  uint64_t headers = image_align(
      section(k, S_NAMES, (Elf64_Shdr){.sh_name = n, .sh_type = SHT_STRTAB, .sh_addralign = 1}, k->end, names->n), 8);
  k->weights = image_align(headers + sizeof k->sh, IMAGE_PAGE);
  n = k->sh[S_WEIGHTS].sh_name;
  if (k->s.n_weights)
    section(k, S_WEIGHTS,
            (Elf64_Shdr){.sh_name = n, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = IMAGE_PAGE},
            k->weights, k->s.n_weights);
  return headers;
}

/* ---- contents -------------------------------------------------------------------------------- */
static void relocation(library *k, const image_fixup *f, bool relative) {
  const char *name = f->from ? extern_name(k, f) : NULL;
  Elf64_Rela r = {.r_offset = k->code + f->at};
  uint64_t symbol = 0;
  if (!name)
    r.r_addend = (int64_t)k->code + f->add + 8 * EK_PLANTED("library-relocation");
  else if (is_weights(k, name))
    r.r_addend = (int64_t)k->weights + f->add;
  else {
    map_gets(k->number, name, &symbol);
    r.r_addend = f->add;
  }
  if (relative != !symbol) return;
  r.r_info = symbol ? ELF64_R_INFO(symbol, R_X86_64_64) : ELF64_R_INFO(0, R_X86_64_RELATIVE);
  vec_push(k->a, k->relocations, r);
  k->relative += relative;
}
static void entry(library *k, int64_t tag, uint64_t value) {
  k->dynamic[k->n_dynamic++] = (Elf64_Dyn){.d_tag = tag, .d_un.d_val = value};
}
static void fill_dynamic(library *k, uint32_t soname, uint32_t libc, uint32_t libm) {
  entry(k, DT_SONAME, soname);
  if (k->libc) entry(k, DT_NEEDED, libc);
  if (k->libm) entry(k, DT_NEEDED, libm);
  entry(k, DT_HASH, k->sh[S_HASH].sh_addr);
  entry(k, DT_STRTAB, k->sh[S_STRINGS].sh_addr);
  entry(k, DT_SYMTAB, k->sh[S_SYMBOLS].sh_addr);
  entry(k, DT_STRSZ, k->strings.n);
  entry(k, DT_SYMENT, sizeof(Elf64_Sym));
  entry(k, DT_RELA, k->sh[S_RELOCATIONS].sh_addr);
  entry(k, DT_RELASZ, k->sh[S_RELOCATIONS].sh_size);
  entry(k, DT_RELAENT, sizeof(Elf64_Rela));
  entry(k, DT_RELACOUNT, k->relative);
  entry(k, DT_FLAGS, DF_BIND_NOW);
}
static Elf64_Phdr segment(uint32_t type, uint32_t flags, uint64_t at, uint64_t n, uint64_t room, uint64_t alignment) {
  return (Elf64_Phdr){.p_type = type,
                      .p_flags = flags,
                      .p_offset = at,
                      .p_vaddr = at,
                      .p_paddr = at,
                      .p_filesz = n,
                      .p_memsz = room,
                      .p_align = alignment};
}
static void put(uint8_t *file, uint64_t at, const void *p, uint64_t n) {
  if (n) memcpy(file + at, p, n);
}
static void write_headers(library *k, uint8_t *file, uint64_t sections) {
  uint64_t data = k->end - k->data, room = image_align(data, IMAGE_PAGE), w = k->s.n_weights;
  Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                  .e_type = ET_DYN,
                  .e_machine = EM_X86_64,
                  .e_version = EV_CURRENT,
                  .e_phoff = sizeof h,
                  .e_shoff = sections,
                  .e_ehsize = sizeof h,
                  .e_phentsize = sizeof(Elf64_Phdr),
                  .e_phnum = SEGMENTS - !w,
                  .e_shentsize = sizeof(Elf64_Shdr),
                  .e_shnum = SECTIONS,
                  .e_shstrndx = S_NAMES};
  const Elf64_Shdr *rel = &k->sh[S_RELOCATIONS];
  uint64_t head = rel->sh_offset + rel->sh_size;
  Elf64_Phdr ph[SEGMENTS] = {
      segment(PT_LOAD, PF_R, 0, head, head, IMAGE_PAGE),
      segment(PT_LOAD, PF_R | PF_X, k->code, k->j.code, k->j.code, IMAGE_PAGE),
      segment(PT_LOAD, PF_R | PF_W, k->data, data, room, IMAGE_PAGE),
      segment(PT_DYNAMIC, PF_R | PF_W, k->table, sizeof k->dynamic, sizeof k->dynamic, 8),
      segment(PT_GNU_RELRO, PF_R, k->data, data, room, 1),
      segment(PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 16),
      segment(PT_LOAD, PF_R, k->weights, w, w, IMAGE_PAGE),
  };
  put(file, 0, &h, sizeof h);
  put(file, sizeof h, ph, sizeof ph);
  put(file, sections, k->sh, sizeof k->sh);
}
/* One bucket, whose chain has the entries. */
static void write_hash(library *k, uint8_t *file) {
  uint32_t n = k->symbols.n, *w = NEWN(k->a, uint32_t, 3 + n), first = 1 + k->imports;
  w[0] = 1, w[1] = n, w[2] = first < n ? first : 0;
  for (uint32_t i = first; i + 1 < n; i++) w[3 + i] = i + 1;
  put(file, k->sh[S_HASH].sh_offset, w, (3 + n) * 4);
}
bool image_library(ctx *c, image_parts p, image_library_spec s, bytes *head, uint64_t *at, const char **why) {
  arena *a = ctx_arena(c);
  library *k = NEW(a, library);
  *k = (library){.c = c, .a = a, .p = p, .s = s, .number = map_new(a), .strings = sbuf_new(a)};
  if (!image_join(c, p, true, &k->j, why)) return false;
  sb_putc(&k->strings, 0);
  list_symbols(k);
  uint32_t soname = string(k, s.soname), libc = string(k, "libc.so.6"), libm = string(k, "libm.so.6");
  place(k);
  sbuf names = sbuf_new(a);
  uint64_t sections = place_rest(k, &names);
  for (int relative = 1; relative >= 0; relative--)
    for (uint32_t i = 0; i < k->j.n_fixups; i++) relocation(k, &k->j.fixups[i], relative);
  fill_dynamic(k, soname, libc, libm);
  for (uint32_t i = 1 + k->imports; i < k->symbols.n; i++) k->symbols.v[i].st_value += k->code;
  uint64_t n = sections + sizeof k->sh;
  uint8_t *file = memset(arena_alloc(a, n), 0, n);
  write_headers(k, file, sections);
  write_hash(k, file);
  put(file, k->sh[S_SYMBOLS].sh_offset, k->symbols.v, k->symbols.n * sizeof(Elf64_Sym));
  put(file, k->sh[S_STRINGS].sh_offset, k->strings.s, k->strings.n);
  put(file, k->sh[S_RELOCATIONS].sh_offset, k->relocations.v, k->relocations.n * sizeof(Elf64_Rela));
  put(file, k->code, k->j.mem, k->j.code + k->j.data);
  put(file, k->table, k->dynamic, sizeof k->dynamic);
  put(file, k->sh[S_NAMES].sh_offset, names.s, names.n);
  *head = (bytes){file, n}, *at = k->weights;
  return true;
}
