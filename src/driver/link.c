/* How do objects become a library without a compiler on the machine? A shared library of x86-64 is written by
 * codegen/image. For everything else any ELF linker will do: it is looked for on PATH and run in a folder of its own
 * beside the result.
 *
 * The linker does not see the weights, which may be larger than what a relocation reaches and than the memory
 * that it would copy them through: it sees a few bytes in a section of their own. When it is done that section is
 * moved to the end of the file and becomes as large as they are, and they are written into the file's mapping.
 *   a shared library   The section is a note, since linkers make a program header for notes: it becomes that of a
 *                      read-only segment above all others. Only pointers refer to the section, each with a
 *                      relative relocation that has the address in its addend.
 *   a relocatable      The section's header and its symbol say all; who links it on finds weights of more than 1
 *                      GiB in a large section, where the machine has such. */
#include "codegen/image/image.h"
#include "driver/driver.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct linking {
  ctx *c;             /* context */
  arena *a;           /* memory */
  const char *out;    /* path of the result */
  const char *linker; /* NULL: none was needed */
  char *dir;          /* the folder of its own; NULL: it is gone */
  strvec names;       /* names of the objects */
  VEC(bytes) objects; /* the objects, by the numbers of their names */
  strvec files;       /* objects that were written for the linker */
  bool shared;        /* a shared library; false: a relocatable object */
  const char *symbol; /* symbol of the weights; NULL: there are none */
  const char *place;  /* section of the weights in what the linker makes */
  bytes placeholder;  /* object that stands for the weights */
  size_t room;        /* bytes of the weights */
  uint64_t own_place; /* place of the weights in a file that codegen/image wrote; 0: the linker wrote it */
  uint8_t *map;       /* the whole result */
  size_t map_bytes;   /* its size */
  size_t fresh;       /* bytes written since pages left memory */
};

static _Noreturn void io_fail(ctx *c, const char *what, const char *path) {
  char text[256];
  ctx_fail(c, E_IO, "cannot %s '%s': %s", what, path, strerror_r(errno, text, sizeof text));
}
static const char *on_path(arena *a, const char *name) {
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    const char *full = arena_fmt(a, "%.*s/%s", (int)n, n ? p : ".", name);
    if (access(full, X_OK) == 0) return full;
    p += n + (p[n] == ':');
  }
  return NULL;
}
static void find_linker(linking *k) {
  static const char *const linkers[] = {"ld.lld-19", "ld.lld", "ld"};
  for (size_t i = 0; !k->linker && i < sizeof linkers / sizeof *linkers; i++) k->linker = on_path(k->a, linkers[i]);
  if (!k->linker)
    ctx_fail(k->c, E_TARGET,
             "%s: there is no linker on this machine (ld.lld-19, ld.lld or ld on PATH); install the Debian package "
             "lld-19, or save as .c",
             k->out);
}
linking *link_begin(ctx *c, const char *out, bool shared) {
  arena *a = ctx_arena(c);
  linking *k = NEW(a, linking);
  *k = (linking){.c = c, .a = a, .out = out, .shared = shared};
  k->dir = arena_fmt(a, "%s/.einkorn-XXXXXX", path_dir(a, out));
  if (!mkdtemp(k->dir)) {
    const char *dir = path_dir(a, out);
    k->dir = NULL;
    io_fail(c, "write in", dir);
  }
  return k;
}
void link_add(linking *k, const char *name, bytes object) {
  vec_push(k->a, k->names, name);
  vec_push(k->a, k->objects, object);
}
static void write_object(linking *k, const char *name, bytes object) {
  const char *path = arena_fmt(k->a, "%s/%s.o", k->dir, name);
  if (!file_write(k->c, path, object.p, object.n)) ctx_unwind(k->c);
  vec_push(k->a, k->files, path);
}

/* ---- the place of the weights ---------------------------------------------------------------- */
enum {
  NOTE = 12 + 8,
  PLACE = NOTE + 64,
  SEGMENT = 1 << 16 /* alignment of segments that serves all machines */,
  LARGE = 1 << 30
};
#ifndef SHF_X86_64_LARGE
#define SHF_X86_64_LARGE 0x10000000
#endif
/* ELF header | a note | symbols | names | section names | section headers */
typedef struct placeholder {
  Elf64_Ehdr h;                       /* header of the file */
  uint8_t note[PLACE + (-PLACE & 7)]; /* a note section */
  Elf64_Sym sym[2];                   /* the null symbol, and that of the weights */
  char names[512];                    /* names of the symbols */
  char sections[128];                 /* names of the sections */
  Elf64_Shdr sh[6];                   /* headers of the sections */
} placeholder;
static bool is_elf(bytes b, Elf64_Ehdr *h) {
  if (b.n < sizeof *h || memcmp(b.p, ELFMAG, SELFMAG) || b.p[EI_CLASS] != ELFCLASS64 || b.p[EI_DATA] != ELFDATA2LSB)
    return false;
  memcpy(h, b.p, sizeof *h);
  return true;
}
static uint32_t section_name(placeholder *t, uint32_t *n, const char *name) {
  uint32_t at = *n;
  memcpy(t->sections + at, name, strlen(name) + 1);
  *n += (uint32_t)strlen(name) + 1;
  return at;
}
void link_reserve(linking *k, const char *symbol, size_t n, bytes like) {
  static const uint32_t note[3] = {8, PLACE - NOTE, 1};
  placeholder *t = NEW(k->a, placeholder);
  uint32_t names = 1;
  size_t len = strlen(symbol);
  if (!is_elf(like, &t->h))
    ctx_fail(k->c, E_TARGET, "the target's object files are not 64-bit little-endian ELF; save as .c");
  if (len + 2 > sizeof t->names) ctx_fail(k->c, E_USAGE, "the name %s is too long", symbol);
  k->symbol = symbol, k->room = n;
  memcpy(t->note, note, sizeof note);
  memcpy(t->note + sizeof note, "Einkorn", 8);
  memcpy(t->names + 1, symbol, len);
  t->sym[1] = (Elf64_Sym){.st_name = 1,
                          .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                          .st_other = STV_HIDDEN,
                          .st_shndx = 1,
                          .st_value = k->shared ? NOTE : 0,
                          .st_size = PLACE - NOTE};
  uint64_t flags = SHF_ALLOC | (!k->shared && n > LARGE && t->h.e_machine == EM_X86_64 ? SHF_X86_64_LARGE : 0);
  uint32_t type = k->shared ? SHT_NOTE : SHT_PROGBITS;
  k->place = k->shared ? ".note.weights" : flags & SHF_X86_64_LARGE ? ".lrodata.weights" : ".rodata.weights";
  t->sh[1] = (Elf64_Shdr){.sh_name = section_name(t, &names, k->place),
                          .sh_type = type,
                          .sh_flags = flags,
                          .sh_offset = offsetof(placeholder, note),
                          .sh_size = PLACE,
                          .sh_addralign = k->shared ? 4 : 64};
  t->sh[2] = (Elf64_Shdr){.sh_name = section_name(t, &names, ".symtab"),
                          .sh_type = SHT_SYMTAB,
                          .sh_offset = offsetof(placeholder, sym),
                          .sh_size = sizeof t->sym,
                          .sh_link = 3,
                          .sh_info = 1,
                          .sh_addralign = 8,
                          .sh_entsize = sizeof(Elf64_Sym)};
  t->sh[3] = (Elf64_Shdr){.sh_name = section_name(t, &names, ".strtab"),
                          .sh_type = SHT_STRTAB,
                          .sh_offset = offsetof(placeholder, names),
                          .sh_size = len + 2,
                          .sh_addralign = 1};
  t->sh[4] = (Elf64_Shdr){.sh_name = section_name(t, &names, ".shstrtab"),
                          .sh_type = SHT_STRTAB,
                          .sh_offset = offsetof(placeholder, sections),
                          .sh_size = sizeof t->sections,
                          .sh_addralign = 1};
  t->sh[5] = (Elf64_Shdr){.sh_name = section_name(t, &names, ".note.GNU-stack"),
                          .sh_type = SHT_PROGBITS,
                          .sh_offset = offsetof(placeholder, sections),
                          .sh_addralign = 1};
  t->h.e_type = ET_REL, t->h.e_entry = 0, t->h.e_phoff = 0, t->h.e_phnum = 0, t->h.e_phentsize = 0;
  t->h.e_shoff = offsetof(placeholder, sh), t->h.e_shentsize = sizeof(Elf64_Shdr), t->h.e_shnum = 6,
  t->h.e_shstrndx = 4;
  k->placeholder = (bytes){(const uint8_t *)t, sizeof *t};
}

/* ---- the weights in their place -------------------------------------------------------------- */
static _Noreturn void no_place(linking *k) {
  ctx_fail(k->c, E_TARGET, "the linker %s left no place for the weights; ld.lld-19 (Debian package lld-19) does",
           k->linker);
}
static void *inside(linking *k, uint64_t at, uint64_t n) {
  if (at > k->map_bytes || n > k->map_bytes - at) no_place(k);
  return k->map + at;
}
/* e: of the result, whose structures are aligned as linkers write them. at: where the weights are in the file. */
static void widen_library(linking *k, Elf64_Ehdr *e, Elf64_Shdr *sh, Elf64_Shdr *place, uint64_t at) {
  Elf64_Phdr *ph = inside(k, e->e_phoff, (uint64_t)e->e_phnum * sizeof *ph);
  uint64_t was = place->sh_addr + NOTE, to = 0;
  uint32_t note = e->e_phnum, last = e->e_phnum;
  for (uint32_t i = 0; i < e->e_phnum; i++) {
    if (ph[i].p_type == PT_NOTE && ph[i].p_vaddr <= place->sh_addr && place->sh_addr < ph[i].p_vaddr + ph[i].p_memsz)
      note = i;
    if (ph[i].p_type == PT_LOAD) last = i, to = ph[i].p_vaddr + ph[i].p_memsz > to ? ph[i].p_vaddr + ph[i].p_memsz : to;
  }
  if (note == e->e_phnum || last == e->e_phnum) no_place(k);
  to = (to + SEGMENT - 1) / SEGMENT * SEGMENT;
  for (; note < last; note++) ph[note] = ph[note + 1]; /* segments are in the order of their addresses */
  for (; note > last + 1; note--) ph[note] = ph[note - 1];
  ph[note] = (Elf64_Phdr){.p_type = PT_LOAD,
                          .p_flags = PF_R,
                          .p_offset = at,
                          .p_vaddr = to,
                          .p_paddr = to,
                          .p_filesz = k->room,
                          .p_memsz = k->room,
                          .p_align = SEGMENT};
  uint32_t moved = 0;
  for (uint32_t i = 1; i < e->e_shnum; i++) {
    if (sh[i].sh_type != SHT_RELA || !(sh[i].sh_flags & SHF_ALLOC)) continue;
    Elf64_Rela *r = inside(k, sh[i].sh_offset, sh[i].sh_size);
    for (uint64_t j = 0; j < sh[i].sh_size / sizeof *r; j++)
      if ((uint64_t)r[j].r_addend == was) r[j].r_addend = (int64_t)to, moved++;
  }
  if (!moved) no_place(k);
  /* ".note.weights" becomes "weights": it is a note no longer */
  place->sh_addr = to, place->sh_name += 6;
}
static void widen_object(linking *k, Elf64_Ehdr *e, Elf64_Shdr *sh, const Elf64_Shdr *place) {
  bool found = false;
  for (uint32_t i = 1; i < e->e_shnum; i++) {
    if (sh[i].sh_type != SHT_SYMTAB || sh[i].sh_link >= e->e_shnum) continue;
    Elf64_Sym *y = inside(k, sh[i].sh_offset, sh[i].sh_size);
    const Elf64_Shdr *names = &sh[sh[i].sh_link];
    for (uint64_t j = 0; j < sh[i].sh_size / sizeof *y; j++) {
      size_t len = strlen(k->symbol) + 1;
      if (y[j].st_shndx != place - sh || y[j].st_name + len > names->sh_size ||
          memcmp(inside(k, names->sh_offset + y[j].st_name, len), k->symbol, len))
        continue;
      y[j].st_size = k->room;
      found = y[j].st_value == 0;
    }
  }
  if (!found) no_place(k);
}
uint8_t *link_room(linking *k) {
  const char *path = arena_fmt(k->a, "%s/out", k->dir);
  struct stat st;
  int fd = open(path, O_RDWR | O_CLOEXEC), err = 0;
  if (fd < 0 || fstat(fd, &st)) io_fail(k->c, "open", path);
  uint64_t at = k->own_place ? k->own_place : ((uint64_t)st.st_size + SEGMENT - 1) / SEGMENT * SEGMENT;
  uint64_t all = at + k->room;
  void *p = MAP_FAILED;
  err = posix_fallocate(fd, 0, (off_t)all); /* so that a full disk is an error, not a signal */
  if (!err && (p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) err = errno;
  close(fd);
  if (err) {
    errno = err;
    io_fail(k->c, "write", path);
  }
  k->map = p, k->map_bytes = all;
  if (k->own_place) return k->map + at;
  Elf64_Ehdr *e = p, h;
  if (!is_elf((bytes){p, all}, &h)) no_place(k);
  Elf64_Shdr *sh = inside(k, h.e_shoff, (uint64_t)h.e_shnum * sizeof *sh), *place = NULL;
  for (uint32_t i = 1; i < h.e_shnum && h.e_shstrndx < h.e_shnum; i++) {
    /* a name ends with a 0, which ends the file at the latest */
    const char *name = inside(k, sh[h.e_shstrndx].sh_offset + sh[i].sh_name, 1);
    if (!strcmp(name, k->place)) place = &sh[i];
  }
  if (!place) no_place(k);
  if (k->shared)
    widen_library(k, e, sh, place, at);
  else
    widen_object(k, e, sh, place);
  place->sh_type = SHT_PROGBITS, place->sh_offset = at, place->sh_size = k->room, place->sh_addralign = 64;
  return k->map + at;
}

/* The mapping is the file's: pages that leave it are not lost. */
void link_wrote(linking *k, size_t n) {
  enum { SOME = 1 << 20 };
  if ((k->fresh += n) < SOME) return;
  madvise(k->map, k->map_bytes, MADV_DONTNEED);
  k->fresh = 0;
}

/* What the library needs at run time, so that the loader brings it along. */
static const char *system_library(arena *a, const char *name) {
  static const char *const dirs[] = {
      "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib/riscv64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"};
  for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
    const char *p = arena_fmt(a, "%s/%s", dirs[i], name);
    if (access(p, R_OK) == 0) return p;
  }
  return NULL;
}
static void run_linker(linking *k, strvec *args) {
  const char *log = arena_fmt(k->a, "%s/log", k->dir);
  posix_spawn_file_actions_t fa;
  pid_t pid;
  int status = 0, err = posix_spawn_file_actions_init(&fa);
  if (!err) {
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    err = posix_spawn(&pid, k->linker, &fa, NULL, (char *const *)(uintptr_t)args->v, environ);
    posix_spawn_file_actions_destroy(&fa);
  }
  if (err) {
    errno = err;
    io_fail(k->c, "run", k->linker);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  bytes text = {0};
  if (!file_map(k->c, log, &text)) text.n = 0;
  ctx_fail(k->c, E_TARGET, "the linker %s failed: %.*s", k->linker, (int)(text.n < 2000 ? text.n : 2000),
           text.n ? (const char *)text.p : "");
}
static const char *soname(const linking *k) {
  const char *slash = strrchr(k->out, '/');
  return slash ? slash + 1 : k->out;
}
/* A shared library without a linker; false: codegen/image cannot make one of these objects. */
static bool run_own(linking *k, const char *name, const char *tmp) {
  const char *entries[] = {arena_fmt(k->a, "%s_run", name), arena_fmt(k->a, "%s_info", name)}, *why;
  image_library_spec s = {.soname = soname(k), .weights = k->symbol, .n_weights = k->room};
  bytes head;
  struct stat st;
  if (!k->shared ||
      !image_library(k->c, (image_parts){k->objects.v, k->objects.n, entries, 2}, s, &head, &k->own_place, &why))
    return false;
  if (!file_write(k->c, tmp, head.p, head.n)) ctx_unwind(k->c);
  if (stat(tmp, &st) || chmod(tmp, (st.st_mode & 0777) | (st.st_mode & 0444) >> 2)) io_fail(k->c, "write", tmp);
  return true;
}
void link_run(linking *k, const char *name, bool native) {
  const char *tmp = arena_fmt(k->a, "%s/out", k->dir);
  strvec args = {0};
  if (run_own(k, name, tmp)) return;
  find_linker(k);
  for (uint32_t i = 0; i < k->objects.n; i++) write_object(k, k->names.v[i], k->objects.v[i]);
  if (k->symbol) write_object(k, "weights", k->placeholder);
  vec_push(k->a, args, k->linker);
  if (k->shared) {
    const char *flags[] = {"-shared",
                           "--gc-sections",
                           "-s",
                           "--hash-style=gnu",
                           "-z",
                           "noexecstack",
                           "-z",
                           "relro",
                           arena_fmt(k->a, "-soname=%s", soname(k))};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) vec_push(k->a, args, flags[i]);
  } else
    vec_push(k->a, args, "-r");
  vec_push(k->a, args, "-o");
  vec_push(k->a, args, tmp);
  for (uint32_t i = 0; i < k->files.n; i++) vec_push(k->a, args, k->files.v[i]);
  if (k->shared && native) {
    const char *libs[] = {system_library(k->a, "libc.so.6"), system_library(k->a, "libm.so.6")};
    vec_push(k->a, args, "--as-needed");
    for (int i = 0; i < 2; i++)
      if (libs[i]) vec_push(k->a, args, libs[i]);
  }
  vec_push(k->a, args, NULL);
  run_linker(k, &args);
}
uint64_t link_end(linking *k) {
  const char *tmp = arena_fmt(k->a, "%s/out", k->dir);
  struct stat st;
  if (k->map && munmap(k->map, k->map_bytes)) io_fail(k->c, "write", k->out);
  k->map = NULL;
  if (stat(tmp, &st) || rename(tmp, k->out)) io_fail(k->c, "write", k->out);
  return (uint64_t)st.st_size;
}
void link_drop(linking *k) {
  if (!k || !k->dir) return;
  if (k->map) munmap(k->map, k->map_bytes);
  k->map = NULL;
  for (uint32_t i = 0; i < k->files.n; i++) unlink(k->files.v[i]);
  char path[4096];
  static const char *const others[] = {"log", "out"};
  for (int i = 0; i < 2; i++)
    if ((size_t)snprintf(path, sizeof path, "%s/%s", k->dir, others[i]) < sizeof path) unlink(path);
  rmdir(k->dir);
  k->dir = NULL;
}
