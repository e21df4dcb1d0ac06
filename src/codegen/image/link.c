/* How are objects joined? Sections that are loaded are placed one after the other, code before data; symbols get
 * places; relocations are computed, as far as they stand between places of the memory image. What needs an address
 * gets a pointer slot in the data, or, when a call wants to go to an extern, a jump through one. Tables for unwinding
 * are left out: nothing unwinds through compiled code. image_link writes the result as a block, image_library
 * (library.c) as a shared library. */
#include "codegen/image/block.h"
#include <elf.h>
#include <string.h>

typedef struct object {
  bytes b;              /* the object file */
  const Elf64_Shdr *sh; /* its section headers */
  uint32_t sections;    /* number of sections */
  int64_t *place;       /* place of each section in the memory image; -1: it is not loaded */
  const Elf64_Sym *sym; /* its symbols */
  uint32_t symbols;     /* number of symbols */
  const char *names;    /* names of the symbols */
  size_t names_bytes;   /* bytes of names */
  bytes section_names;  /* n 0: none */
} object;
typedef struct linker {
  ctx *c;                  /* context */
  arena *a;                /* memory */
  object *o;               /* the objects */
  uint32_t n;              /* number of objects */
  bool any_extern;         /* every name that no object defines may be an extern; else image_externs only */
  map *defined;            /* symbol -> its object << 32 | its number there */
  map *slots, *jumps;      /* symbol -> place of its slot in the data, of its jump in the code */
  uint64_t code;           /* where the next code goes */
  uint64_t data;           /* where the next data go */
  uint64_t code_bytes;     /* where data begin */
  uint8_t *mem;            /* the memory image */
  VEC(image_fixup) fixups; /* pointers that loading fills in */
  sbuf names;              /* names of the externs */
  map *name_at;            /* name of an extern -> its offset in names */
  const char *why;         /* why there is no result; NULL: nothing is wrong so far */
} linker;

static bool no(linker *k, const char *why) {
  k->why = why;
  return false;
}

/* ---- reading --------------------------------------------------------------------------------- */
static bool loaded(const Elf64_Shdr *s) {
  return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type != SHT_X86_64_UNWIND && s->sh_type != SHT_NOTE;
}
/* Data that are written only while the loader fills in addresses. */
static bool relro(const object *o, const Elf64_Shdr *s) {
  static const char name[] = ".data.rel.ro";
  return s->sh_name < o->section_names.n && o->section_names.n - s->sh_name >= sizeof name &&
         !memcmp(o->section_names.p + s->sh_name, name, sizeof name - 1);
}
static bool read_object(linker *k, object *o) {
  Elf64_Ehdr h;
  if (o->b.n < sizeof h || memcmp(o->b.p, ELFMAG, SELFMAG) || o->b.p[EI_CLASS] != ELFCLASS64 ||
      o->b.p[EI_DATA] != ELFDATA2LSB)
    return no(k, "its code is not 64-bit ELF");
  memcpy(&h, o->b.p, sizeof h);
  if (h.e_machine != EM_X86_64 || h.e_type != ET_REL)
    return no(k, "there is no linker for this kind of processor in Einkorn");
  if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff > o->b.n ||
      (uint64_t)h.e_shnum * sizeof(Elf64_Shdr) > o->b.n - h.e_shoff)
    return no(k, "an object file is damaged");
  o->sh = arena_dup(k->a, o->b.p + h.e_shoff, (size_t)h.e_shnum * sizeof(Elf64_Shdr));
  o->sections = h.e_shnum;
  if (h.e_shstrndx < h.e_shnum) {
    const Elf64_Shdr *s = &o->sh[h.e_shstrndx];
    if (s->sh_offset > o->b.n || s->sh_size > o->b.n - s->sh_offset) return no(k, "an object file is damaged");
    o->section_names = (bytes){o->b.p + s->sh_offset, s->sh_size};
  }
  o->place = NEWN(k->a, int64_t, h.e_shnum + 1u);
  for (uint32_t i = 0; i < o->sections; i++) {
    const Elf64_Shdr *s = &o->sh[i];
    o->place[i] = -1;
    if (s->sh_type != SHT_NOBITS && (s->sh_offset > o->b.n || s->sh_size > o->b.n - s->sh_offset))
      return no(k, "an object file is damaged");
    if (s->sh_type == SHT_SYMTAB && s->sh_link < o->sections) {
      o->symbols = (uint32_t)(s->sh_size / sizeof(Elf64_Sym));
      o->sym = arena_dup(k->a, o->b.p + s->sh_offset, s->sh_size);
      const Elf64_Shdr *t = &o->sh[s->sh_link];
      if (t->sh_offset > o->b.n || t->sh_size > o->b.n - t->sh_offset) return no(k, "an object file is damaged");
      o->names = (const char *)o->b.p + t->sh_offset, o->names_bytes = t->sh_size;
      if (!t->sh_size || o->names[t->sh_size - 1]) return no(k, "an object file is damaged");
    }
    if (!loaded(s)) continue;
    if (s->sh_type == SHT_NOBITS || (s->sh_flags & SHF_TLS) || ((s->sh_flags & SHF_WRITE) && !relro(o, s)))
      return no(k, "its code has variables");
    if (s->sh_addralign > 4096 || s->sh_size > (1u << 30)) return no(k, "its code is too large");
  }
  return true;
}
static void place_sections(linker *k, bool code) {
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t j = 0; j < k->o[i].sections; j++) {
      const Elf64_Shdr *s = &k->o[i].sh[j];
      if (!loaded(s) || code != !!(s->sh_flags & SHF_EXECINSTR)) continue;
      uint64_t *at = code ? &k->code : &k->data;
      *at = image_align(*at, s->sh_addralign ? s->sh_addralign : 1);
      k->o[i].place[j] = (int64_t)*at;
      *at += s->sh_size;
    }
}
static const char *name_of(const object *o, const Elf64_Sym *s) {
  return s->st_name < o->names_bytes ? o->names + s->st_name : "";
}
static bool defines(const object *o, const Elf64_Sym *s) {
  return ELF64_ST_BIND(s->st_info) != STB_LOCAL && s->st_shndx != SHN_UNDEF && s->st_shndx < o->sections &&
         loaded(&o->sh[s->st_shndx]);
}
static void define(linker *k) {
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t j = 1; j < k->o[i].symbols; j++)
      if (defines(&k->o[i], &k->o[i].sym[j]))
        map_puts(k->defined, name_of(&k->o[i], &k->o[i].sym[j]), (uint64_t)i << 32 | j);
}
/* Names that no object defines: how many jumps there can be. */
static uint32_t count_externs(linker *k) {
  map *seen = map_new(k->a);
  uint64_t v;
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t j = 1; j < k->o[i].symbols; j++) {
      const char *name = name_of(&k->o[i], &k->o[i].sym[j]);
      if (k->o[i].sym[j].st_shndx == SHN_UNDEF && *name && !map_gets(k->defined, name, &v)) map_puts(seen, name, 0);
    }
  return map_count(seen);
}

/* ---- places of symbols ----------------------------------------------------------------------- */
static void fix(linker *k, uint64_t at, const char *ext, int64_t add) {
  image_fixup f = {.at = (uint32_t)at, .add = add};
  if (ext) {
    uint64_t where;
    if (!map_gets(k->name_at, ext, &where)) {
      where = k->names.n;
      sb_putn(&k->names, ext, strlen(ext) + 1);
      map_puts(k->name_at, ext, where);
    }
    f.from = 1 + (uint32_t)where;
  }
  vec_push(k->a, k->fixups, f);
}
static bool place_of(const linker *k, const char *name, int64_t *place) {
  uint64_t v;
  if (!map_gets(k->defined, name, &v)) return false;
  const object *o = &k->o[v >> 32];
  const Elf64_Sym *s = &o->sym[(uint32_t)v];
  *place = o->place[s->st_shndx] + (int64_t)s->st_value;
  return true;
}
/* Where a symbol lies in the memory image; -1 with *ext: it is an extern. */
static bool find(linker *k, const object *o, uint32_t sym, int64_t *place, const char **ext) {
  if (sym >= o->symbols) return no(k, "an object file is damaged");
  const Elf64_Sym *s = &o->sym[sym];
  *place = -1, *ext = NULL;
  if (s->st_shndx != SHN_UNDEF) {
    if (s->st_shndx >= o->sections || o->place[s->st_shndx] < 0)
      return no(k, "its code refers to something that is not loaded");
    *place = o->place[s->st_shndx] + (int64_t)s->st_value;
    return true;
  }
  if (place_of(k, name_of(o, s), place)) return true;
  *ext = name_of(o, s);
  return k->any_extern || image_extern_of(*ext) || no(k, arena_fmt(k->a, "its code calls %s", *ext));
}
/* Both give the place; the writing pass finds what the first one made. */
static uint64_t slot_of(linker *k, const char *key, int64_t place, const char *ext) {
  uint64_t at;
  if (map_gets(k->slots, key, &at)) return at;
  at = k->data = image_align(k->data, 8);
  k->data += 8;
  map_puts(k->slots, key, at);
  fix(k, at, ext, ext ? 0 : place);
  return at;
}
static uint64_t jump_of(linker *k, const char *ext) {
  uint64_t at;
  if (map_gets(k->jumps, ext, &at)) return at;
  at = k->code = image_align(k->code, 16);
  k->code += 16;
  map_puts(k->jumps, ext, at);
  return at;
}

/* ---- relocations: first the slots and jumps that they need, then, when all places are known, their values ---- */
static bool relocate(linker *k, const object *o, const Elf64_Rela *r, uint64_t at, bool write) {
  int64_t place, value;
  const char *ext;
  uint32_t type = ELF64_R_TYPE(r->r_info), sym = ELF64_R_SYM(r->r_info);
  if (type == R_X86_64_NONE) return true;
  if (!find(k, o, sym, &place, &ext)) return false;
  const char *key = ext ? ext : arena_fmt(k->a, "@%lld", (long long)place);
  switch (type) {
  case R_X86_64_64:
    if (write) fix(k, at, ext, ext ? r->r_addend : place + r->r_addend);
    return true;
  case R_X86_64_PLT32:
  case R_X86_64_PC32:
    if (ext) slot_of(k, ext, 0, ext), place = (int64_t)jump_of(k, ext);
    break;
  case R_X86_64_GOTPCREL:
  case R_X86_64_GOTPCRELX:
  case R_X86_64_REX_GOTPCRELX:
    place = (int64_t)slot_of(k, key, place, ext);
    break;
  default:
    return no(k, arena_fmt(k->a, "its code has a relocation of type %u", type));
  }
  if (!write) return true;
  value = place + r->r_addend - (int64_t)at;
  if (value != (int32_t)value) return no(k, "its code is too large");
  int32_t v = (int32_t)value;
  memcpy(k->mem + at, &v, 4);
  return true;
}
static bool relocations(linker *k, bool write) {
  for (uint32_t i = 0; i < k->n; i++) {
    object *o = &k->o[i];
    for (uint32_t j = 0; j < o->sections; j++) {
      const Elf64_Shdr *s = &o->sh[j];
      if (s->sh_type == SHT_REL) return no(k, "an object file is damaged");
      if (s->sh_type != SHT_RELA || s->sh_info >= o->sections || o->place[s->sh_info] < 0) continue;
      uint64_t room = o->sh[s->sh_info].sh_size;
      for (uint64_t n = 0; n + sizeof(Elf64_Rela) <= s->sh_size; n += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, o->b.p + s->sh_offset + n, sizeof r);
        if (r.r_offset > room || room - r.r_offset < (ELF64_R_TYPE(r.r_info) == R_X86_64_64 ? 8 : 4))
          return no(k, "an object file is damaged");
        if (!relocate(k, o, &r, (uint64_t)o->place[s->sh_info] + r.r_offset, write)) return false;
      }
    }
  }
  return true;
}
static void write_jumps(linker *k) {
  for (uint32_t i = 0; i < map_count(k->jumps); i++) {
    size_t n;
    uint64_t at, slot;
    const char *name = map_key(k->jumps, i, &n, &at);
    if (!map_gets(k->slots, name, &slot)) ctx_bug(k->c, "image: no slot for %s", name);
    static const uint8_t jump[16] = {0xff, 0x25, 0,    0,    0,    0,    0xcc, 0xcc,
                                     0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
    int32_t d = (int32_t)((int64_t)slot - (int64_t)at - 6) + 8 * EK_PLANTED("cache-image");
    memcpy(k->mem + at, jump, 16);
    memcpy(k->mem + at + 2, &d, 4);
  }
}
static bool join(linker *k, image_joined *out) {
  for (uint32_t i = 0; i < k->n; i++)
    if (!read_object(k, &k->o[i])) return false;
  define(k);
  place_sections(k, true);
  k->data = k->code_bytes = image_align(k->code + 16 * (count_externs(k) + 1ull), IMAGE_PAGE);
  place_sections(k, false);
  if (k->data > 1u << 30) return no(k, "its code is too large");
  if (!relocations(k, false)) return false;
  uint64_t all = image_align(k->data, IMAGE_PAGE);
  k->mem = arena_alloc(k->a, all);
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t j = 0; j < k->o[i].sections; j++)
      if (k->o[i].place[j] >= 0)
        memcpy(k->mem + k->o[i].place[j], k->o[i].b.p + k->o[i].sh[j].sh_offset, k->o[i].sh[j].sh_size);
  if (!relocations(k, true)) return false;
  write_jumps(k);
  *out = (image_joined){.mem = k->mem, .code = k->code_bytes, .data = all - k->code_bytes};
  out->fixups = k->fixups.v, out->n_fixups = k->fixups.n, out->names = k->names;
  return true;
}
bool image_join(ctx *c, image_parts p, bool any_extern, image_joined *out, const char **why) {
  arena *a = ctx_arena(c);
  linker *k = NEW(a, linker);
  *k = (linker){.c = c, .a = a, .n = p.n_objs, .o = NEWN(a, object, p.n_objs + 1), .any_extern = any_extern};
  k->defined = map_new(a), k->slots = map_new(a), k->jumps = map_new(a), k->name_at = map_new(a),
  k->names = sbuf_new(a);
  for (uint32_t i = 0; i < p.n_objs; i++) k->o[i].b = p.objs[i];
  bool good = join(k, out);
  out->entries = NEWN(a, uint32_t, p.n_entries + 1);
  for (uint32_t i = 0; good && i < p.n_entries; i++) {
    int64_t at;
    good = place_of(k, p.entries[i], &at) && at < (int64_t)k->code_bytes;
    if (good)
      out->entries[i] = (uint32_t)at;
    else
      no(k, arena_fmt(a, "its code lacks %s", p.entries[i]));
  }
  *why = k->why;
  return good;
}
bool image_link(ctx *c, image_parts p, bytes *out, const char **why) {
  image_joined j;
  if (!image_join(c, p, false, &j, why)) return false;
  sbuf b = sbuf_new(ctx_arena(c));
  image_head h = {.magic = IMAGE_MAGIC,
                  .code = (uint32_t)j.code,
                  .data = (uint32_t)j.data,
                  .fixups = j.n_fixups,
                  .entries = p.n_entries,
                  .names = (uint32_t)j.names.n};
  sb_putn(&b, (const char *)&h, sizeof h);
  sb_putn(&b, (const char *)j.mem, j.code + j.data);
  if (j.n_fixups) sb_putn(&b, (const char *)j.fixups, j.n_fixups * sizeof *j.fixups);
  if (p.n_entries) sb_putn(&b, (const char *)j.entries, p.n_entries * sizeof *j.entries);
  if (j.names.n) sb_putn(&b, j.names.s, j.names.n);
  *out = (bytes){(const uint8_t *)b.s, b.n};
  return true;
}
