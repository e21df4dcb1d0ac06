/* How do objects become one block? Sections that are loaded are placed one after the other, code before data;
 * symbols get places; relocations are computed, as far as they stand between places of the block. What needs
 * an address gets a pointer slot in the data, or, when a call wants to go to an extern, a jump through one.
 * Tables for unwinding are left out: nothing unwinds through compiled code. */
#include "codegen/image/block.h"
#include <elf.h>
#include <string.h>

typedef struct object {
  bytes b;
  const Elf64_Shdr *sh;
  uint32_t sections;
  int64_t *place; /* of each section in the memory image; -1: not loaded */
  const Elf64_Sym *sym;
  uint32_t symbols;
  const char *names;
  size_t names_bytes;
} object;
typedef struct linker {
  ctx *c;
  arena *a;
  object *o;
  uint32_t n;
  map *defined;                    /* symbol -> place */
  map *slots, *jumps;              /* symbol -> place of its slot in the data, of its jump in the code */
  uint64_t code, data, code_bytes; /* where the next code and data go; where data begins */
  uint8_t *mem;
  VEC(image_fixup) fixups;
  sbuf names;
  map *name_at;
  const char *why;
} linker;

static bool no(linker *k, const char *why) {
  k->why = why;
  return false;
}
static uint64_t align(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }

/* ---- reading --------------------------------------------------------------------------------- */
static bool loaded(const Elf64_Shdr *s) {
  return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type != SHT_X86_64_UNWIND && s->sh_type != SHT_NOTE;
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
    if (s->sh_type == SHT_NOBITS || (s->sh_flags & (SHF_WRITE | SHF_TLS))) return no(k, "its code has variables");
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
      *at = align(*at, s->sh_addralign ? s->sh_addralign : 1);
      k->o[i].place[j] = (int64_t)*at;
      *at += s->sh_size;
    }
}
static const char *name_of(const object *o, const Elf64_Sym *s) {
  return s->st_name < o->names_bytes ? o->names + s->st_name : "";
}
static void define(linker *k) {
  for (uint32_t i = 0; i < k->n; i++) {
    const object *o = &k->o[i];
    for (uint32_t j = 1; j < o->symbols; j++) {
      const Elf64_Sym *s = &o->sym[j];
      if (ELF64_ST_BIND(s->st_info) == STB_LOCAL || s->st_shndx == SHN_UNDEF || s->st_shndx >= o->sections ||
          o->place[s->st_shndx] < 0)
        continue;
      map_puts(k->defined, name_of(o, s), (uint64_t)o->place[s->st_shndx] + s->st_value);
    }
  }
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
static bool is_extern(const char *name) {
  for (const image_extern *e = image_externs; e->name; e++)
    if (!strcmp(e->name, name)) return true;
  return false;
}
/* Where a symbol lies in the block; -1 with *ext: it is an extern. */
static bool find(linker *k, const object *o, uint32_t sym, int64_t *place, const char **ext) {
  if (sym >= o->symbols) return no(k, "an object file is damaged");
  const Elf64_Sym *s = &o->sym[sym];
  uint64_t at;
  *place = -1, *ext = NULL;
  if (s->st_shndx != SHN_UNDEF) {
    if (s->st_shndx >= o->sections || o->place[s->st_shndx] < 0)
      return no(k, "its code refers to something that is not loaded");
    *place = o->place[s->st_shndx] + (int64_t)s->st_value;
    return true;
  }
  if (map_gets(k->defined, name_of(o, s), &at)) {
    *place = (int64_t)at;
    return true;
  }
  *ext = name_of(o, s);
  return is_extern(*ext) || no(k, arena_fmt(k->a, "its code calls %s", *ext));
}
/* Both give the place; the writing pass finds what the first one made. */
static uint64_t slot_of(linker *k, const char *key, int64_t place, const char *ext) {
  uint64_t at;
  if (map_gets(k->slots, key, &at)) return at;
  at = k->data = align(k->data, 8);
  k->data += 8;
  map_puts(k->slots, key, at);
  fix(k, at, ext, ext ? 0 : place);
  return at;
}
static uint64_t jump_of(linker *k, const char *ext) {
  uint64_t at;
  if (map_gets(k->jumps, ext, &at)) return at;
  at = k->code = align(k->code, 16);
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
static bool link(linker *k, const char *const *entries, uint32_t n_entries, bytes *out) {
  uint32_t externs = 0;
  while (image_externs[externs].name) externs++;
  for (uint32_t i = 0; i < k->n; i++)
    if (!read_object(k, &k->o[i])) return false;
  place_sections(k, true);
  k->data = k->code_bytes = align(k->code + 16 * (externs + 1ull), IMAGE_PAGE); /* there is room for a jump to each */
  place_sections(k, false);
  if (k->data > 1u << 30) return no(k, "its code is too large");
  define(k);
  if (!relocations(k, false)) return false;
  uint64_t all = align(k->data, IMAGE_PAGE);
  k->mem = arena_alloc(k->a, all);
  for (uint32_t i = 0; i < k->n; i++)
    for (uint32_t j = 0; j < k->o[i].sections; j++)
      if (k->o[i].place[j] >= 0)
        memcpy(k->mem + k->o[i].place[j], k->o[i].b.p + k->o[i].sh[j].sh_offset, k->o[i].sh[j].sh_size);
  if (!relocations(k, true)) return false;
  write_jumps(k);
  sbuf b = sbuf_new(k->a);
  image_head h = {.magic = IMAGE_MAGIC,
                  .code = (uint32_t)k->code_bytes,
                  .data = (uint32_t)(all - k->code_bytes),
                  .fixups = k->fixups.n,
                  .entries = n_entries,
                  .names = (uint32_t)k->names.n};
  sb_putn(&b, (const char *)&h, sizeof h);
  sb_putn(&b, (const char *)k->mem, all);
  if (k->fixups.n) sb_putn(&b, (const char *)k->fixups.v, k->fixups.n * sizeof *k->fixups.v);
  for (uint32_t i = 0; i < n_entries; i++) {
    uint64_t at;
    if (!map_gets(k->defined, entries[i], &at) || at >= k->code_bytes)
      return no(k, arena_fmt(k->a, "its code lacks %s", entries[i]));
    uint32_t e = (uint32_t)at;
    sb_putn(&b, (const char *)&e, sizeof e);
  }
  if (k->names.n) sb_putn(&b, k->names.s, k->names.n);
  *out = (bytes){(const uint8_t *)b.s, b.n};
  return true;
}
bool image_link(ctx *c, const bytes *objs, uint32_t n, const char *const *entries, uint32_t n_entries, bytes *out,
                const char **why) {
  arena *a = ctx_arena(c);
  linker *k = NEW(a, linker);
  *k = (linker){.c = c, .a = a, .n = n, .o = NEWN(a, object, n + 1)};
  k->defined = map_new(a), k->slots = map_new(a), k->jumps = map_new(a), k->name_at = map_new(a),
  k->names = sbuf_new(a);
  for (uint32_t i = 0; i < n; i++) k->o[i].b = objs[i];
  bool good = link(k, entries, n_entries, out);
  *why = k->why;
  return good;
}
