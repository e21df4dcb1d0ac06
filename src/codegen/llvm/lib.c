/* Where is LLVM, and how do its functions get into the table? A file with one of the names that LLVM 19 has, in a
 * folder of LD_LIBRARY_PATH or of the system; loaded once per process, and never unloaded. */
#include "codegen/llvm/lib.h"
#include "codegen/llvm/llvm.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

llvm_functions ek_llvm;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[5000]; /* "": loaded */
enum { LLVM_VERSION = 19 };

/* ---- where it is ----------------------------------------------------------------------------- */
static const char *const names[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so"};
static bool there(const char *dir, size_t n, char *path, size_t room, struct stat *st) {
  for (size_t i = 0; n && i < sizeof names / sizeof *names; i++)
    if ((size_t)snprintf(path, room, "%.*s/%s", (int)n, dir, names[i]) < room && !stat(path, st) &&
        S_ISREG(st->st_mode))
      return true;
  return false;
}
static bool find(char *path, size_t room, struct stat *st) {
  static const char *const dirs[] = {"/usr/lib/llvm-19/lib",
                                     "/usr/lib/x86_64-linux-gnu",
                                     "/usr/lib/aarch64-linux-gnu",
                                     "/usr/lib/riscv64-linux-gnu",
                                     "/usr/lib64/llvm19/lib64",
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
bool llvm_file(char *path, size_t room) {
  struct stat st;
  return find(path, room, &st);
}
const char *llvm_identity(ctx *c) {
  char path[4096];
  struct stat st;
  if (!find(path, sizeof path, &st)) return "none";
  return arena_fmt(ctx_arena(c), "%s %llu %lld.%09ld", path, (unsigned long long)st.st_size,
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
  void *lib = dlopen(find(path, sizeof path, &st) ? path : names[0], RTLD_LAZY | RTLD_LOCAL);
  if (!lib) {
    const char *text = dlerror();
    snprintf(why, sizeof why, "%s", text ? text : "unknown reason");
    return;
  }
  static const char *const functions[] = {
  /* names in the order of the table's members */
#define F(type, name, arguments) #name,
#include "codegen/llvm/functions.def"
#undef F
  };
  _Static_assert(sizeof functions == sizeof ek_llvm, "one pointer per name");
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *f = dlsym(lib, functions[i]);
    if (!f) {
      snprintf(why, sizeof why, "it has no function %s", functions[i]);
      return;
    }
    memcpy((char *)&ek_llvm + i * sizeof f, &f, sizeof f);
  }
  unsigned version[3];
  LLVMGetVersion(&version[0], &version[1], &version[2]);
  if (version[0] != LLVM_VERSION) {
    snprintf(why, sizeof why, "%s is version %u, not %d", path, version[0], LLVM_VERSION);
    return;
  }
#define LLVM_TARGET(t)                                                                                                 \
  call(lib, "LLVMInitialize" #t "TargetInfo"), call(lib, "LLVMInitialize" #t "Target"),                                \
      call(lib, "LLVMInitialize" #t "TargetMC"), call(lib, "LLVMInitialize" #t "AsmPrinter"),                          \
      call(lib, "LLVMInitialize" #t "AsmParser"), call(lib, "LLVMInitialize" #t "Disassembler");
  LLVM_TARGET(AArch64)
  LLVM_TARGET(ARM)
  LLVM_TARGET(LoongArch)
  LLVM_TARGET(Mips)
  LLVM_TARGET(PowerPC)
  LLVM_TARGET(RISCV)
  LLVM_TARGET(SystemZ)
  LLVM_TARGET(WebAssembly)
  LLVM_TARGET(X86)
#undef LLVM_TARGET
}
void llvm_need(ctx *c) {
  pthread_once(&once, load);
  if (why[0])
    ctx_fail(c, E_TARGET, "LLVM 19 is needed for this, and cannot be loaded: %s; install the Debian package libllvm19",
             why);
}
