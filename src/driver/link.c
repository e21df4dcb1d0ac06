/* How do objects become a library without a compiler on the machine? Any ELF linker will do: it is looked for on PATH and run in a folder of its own beside the result. Weights need no compiler
 * either: an object file that holds nothing but bytes under one name is written here, and its bytes are written straight into the file's mapping, so that they are never twice in memory. */
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
  ctx *c;
  arena *a;
  const char *out, *linker;
  char *dir;
  strvec files;
  void *map;
  size_t map_bytes;
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
linking *link_begin(ctx *c, const char *out) {
  static const char *const linkers[] = {"ld.lld-19", "ld.lld", "ld"};
  arena *a = ctx_arena(c);
  linking *k = NEW(a, linking);
  *k = (linking){.c = c, .a = a, .out = out};
  for (size_t i = 0; !k->linker && i < sizeof linkers / sizeof *linkers; i++) k->linker = on_path(a, linkers[i]);
  if (!k->linker) ctx_fail(c, E_TARGET, "%s: there is no linker on this machine (ld.lld-19, ld.lld or ld on PATH); install the Debian package lld-19, or save as .c", out);
  k->dir = arena_fmt(a, "%s/.einkorn-XXXXXX", path_dir(a, out));
  if (!mkdtemp(k->dir)) {
    const char *dir = path_dir(a, out);
    k->dir = NULL;
    io_fail(c, "write in", dir);
  }
  return k;
}
void link_add(linking *k, const char *name, bytes object) {
  const char *path = arena_fmt(k->a, "%s/%s.o", k->dir, name);
  if (!file_write(k->c, path, object.p, object.n)) ctx_unwind(k->c);
  vec_push(k->a, k->files, path);
}

/* ELF header | n bytes | symbols | names | section names | section headers */
typedef struct tail {
  Elf64_Sym sym[2];
  char names[512];
  Elf64_Shdr sh[6];
} tail;
static const char section_names[] = "\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
uint8_t *link_add_data(linking *k, const char *symbol, size_t n, bytes like) {
  Elf64_Ehdr h;
  tail t;
  memset(&t, 0, sizeof t);
  if (like.n < sizeof h || memcmp(like.p, ELFMAG, SELFMAG) || like.p[EI_CLASS] != ELFCLASS64 || like.p[EI_DATA] != ELFDATA2LSB)
    ctx_fail(k->c, E_TARGET, "the target's object files are not 64-bit little-endian ELF; save as .c");
  memcpy(&h, like.p, sizeof h);
  size_t data = 64, end = (data + n + 63) / 64 * 64, len = strlen(symbol), shstr = len + 2;
  if (shstr + sizeof section_names > sizeof t.names) ctx_fail(k->c, E_USAGE, "the name %s is too long", symbol);
  memcpy(t.names + 1, symbol, len);
  memcpy(t.names + shstr, section_names, sizeof section_names);
  t.sym[1] = (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), .st_other = STV_HIDDEN, .st_shndx = 1, .st_size = n};
  size_t names = end + offsetof(tail, names);
  t.sh[1] = (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_offset = data, .sh_size = n, .sh_addralign = 64};
  t.sh[2] = (Elf64_Shdr){.sh_name = 9, .sh_type = SHT_SYMTAB, .sh_offset = end, .sh_size = sizeof t.sym, .sh_link = 3, .sh_info = 1, .sh_addralign = 8, .sh_entsize = sizeof(Elf64_Sym)};
  t.sh[3] = (Elf64_Shdr){.sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = shstr, .sh_addralign = 1};
  t.sh[4] = (Elf64_Shdr){.sh_name = 25, .sh_type = SHT_STRTAB, .sh_offset = names + shstr, .sh_size = sizeof section_names, .sh_addralign = 1};
  t.sh[5] = (Elf64_Shdr){.sh_name = 35, .sh_type = SHT_PROGBITS, .sh_offset = end, .sh_addralign = 1};
  h.e_type = ET_REL, h.e_entry = 0, h.e_phoff = 0, h.e_phnum = 0, h.e_phentsize = 0;
  h.e_shoff = end + offsetof(tail, sh), h.e_shentsize = sizeof(Elf64_Shdr), h.e_shnum = 6, h.e_shstrndx = 4;
  const char *path = arena_fmt(k->a, "%s/weights.o", k->dir);
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) io_fail(k->c, "write", path);
  size_t all = end + sizeof t;
  int err = posix_fallocate(fd, 0, (off_t)all); /* so that a full disk is an error, not a signal */
  void *p = err ? MAP_FAILED : mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!err && p == MAP_FAILED) err = errno;
  close(fd);
  if (p == MAP_FAILED) {
    errno = err;
    io_fail(k->c, "write", path);
  }
  k->map = p, k->map_bytes = all;
  memcpy(p, &h, sizeof h);
  memcpy((uint8_t *)p + end, &t, sizeof t);
  vec_push(k->a, k->files, path);
  return (uint8_t *)p + data;
}

/* What the library needs at run time, so that the loader brings it along. */
static const char *system_library(arena *a, const char *name) {
  static const char *const dirs[] = {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib/riscv64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"};
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
  ctx_fail(k->c, E_TARGET, "the linker %s failed: %.*s", k->linker, (int)(text.n < 2000 ? text.n : 2000), text.n ? (const char *)text.p : "");
}
uint64_t link_end(linking *k, bool shared, bool native) {
  if (k->map && munmap(k->map, k->map_bytes)) io_fail(k->c, "write", k->out);
  k->map = NULL;
  const char *tmp = arena_fmt(k->a, "%s/out", k->dir), *slash = strrchr(k->out, '/');
  strvec args = {0};
  vec_push(k->a, args, k->linker);
  if (shared) {
    const char *soname = arena_fmt(k->a, "-soname=%s", slash ? slash + 1 : k->out);
    const char *flags[] = {"-shared", "--gc-sections", "-s", "--hash-style=gnu", "-z", "noexecstack", "-z", "relro", soname};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) vec_push(k->a, args, flags[i]);
  } else
    vec_push(k->a, args, "-r");
  vec_push(k->a, args, "-o");
  vec_push(k->a, args, tmp);
  for (uint32_t i = 0; i < k->files.n; i++) vec_push(k->a, args, k->files.v[i]);
  if (shared && native) {
    const char *libs[] = {system_library(k->a, "libc.so.6"), system_library(k->a, "libm.so.6")};
    vec_push(k->a, args, "--as-needed");
    for (int i = 0; i < 2; i++)
      if (libs[i]) vec_push(k->a, args, libs[i]);
  }
  vec_push(k->a, args, NULL);
  run_linker(k, &args);
  struct stat st;
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
