/* Where is LLVM, and how do its functions get into the table? The file that the program was built against, or one of
 * the same name in a folder of LD_LIBRARY_PATH or of the system; loaded once per process, and never unloaded. */
#include "codegen/llvm/lib.h"
#include "codegen/llvm/llvm.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef EK_LLVM_SONAME
#error "the build says what the library is called"
#endif
llvm_functions ek_llvm;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[512]; /* "": loaded */

/* ---- where it is ----------------------------------------------------------------------------- */
static bool there(const char *dir, size_t n, char *path, size_t room, struct stat *st) {
  return n && (size_t)snprintf(path, room, "%.*s/%s", (int)n, dir, EK_LLVM_SONAME) < room && !stat(path, st) &&
         S_ISREG(st->st_mode);
}
static bool find(char *path, size_t room, struct stat *st) {
  static const char *const dirs[] = {EK_LLVM_DIR,
                                     "/usr/lib/x86_64-linux-gnu",
                                     "/usr/lib/aarch64-linux-gnu",
                                     "/usr/lib/riscv64-linux-gnu",
                                     "/usr/lib64",
                                     "/usr/lib",
                                     "/usr/local/lib"};
  const char *own = secure_getenv("LD_LIBRARY_PATH");
  for (const char *s = own ? own : ""; *s;) {
    size_t n = strcspn(s, ":");
    if (there(s, n, path, room, st)) return true;
    s += n + (s[n] == ':');
  }
  for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
    if (there(dirs[i], strlen(dirs[i]), path, room, st)) return true;
  return false;
}
const char *llvm_identity(ctx *c) {
  char path[4096];
  struct stat st;
  if (!find(path, sizeof path, &st)) return EK_LLVM_SONAME;
  return arena_fmt(ctx_arena(c), "%s %llu %lld.%09ld", EK_LLVM_SONAME, (unsigned long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* ---- loading --------------------------------------------------------------------------------- */
static void call(void *lib, const char *name) {
  void (*f)(void) = (void (*)(void))dlsym(lib, name);
  if (f) f();
}
static void load(void) {
  char path[4096];
  struct stat st;
  void *lib = dlopen(find(path, sizeof path, &st) ? path : EK_LLVM_SONAME, RTLD_LAZY | RTLD_LOCAL);
  if (!lib) {
    const char *text = dlerror();
    snprintf(why, sizeof why, "%s", text ? text : "unknown reason");
    return;
  }
  static const char *const names[] = {
  /* in the order of the table's members */
#define F(name) #name,
#include "codegen/llvm/functions.def"
#undef F
  };
  _Static_assert(sizeof names == sizeof ek_llvm, "one pointer per name");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *f = dlsym(lib, names[i]);
    if (!f) {
      snprintf(why, sizeof why, "it has no function %s", names[i]);
      return;
    }
    memcpy((char *)&ek_llvm + i * sizeof f, &f, sizeof f);
  }
#define LLVM_TARGET(t)                                                                                                 \
  call(lib, "LLVMInitialize" #t "TargetInfo"), call(lib, "LLVMInitialize" #t "Target"),                                \
      call(lib, "LLVMInitialize" #t "TargetMC"), call(lib, "LLVMInitialize" #t "AsmPrinter"),                          \
      call(lib, "LLVMInitialize" #t "AsmParser"), call(lib, "LLVMInitialize" #t "Disassembler");
#include <llvm/Config/Targets.def>
}
void llvm_need(ctx *c) {
  pthread_once(&once, load);
  if (why[0])
    ctx_fail(c, E_TARGET, "LLVM is needed to compile, and cannot be loaded: %s; install the Debian package libllvm19",
             why);
}
