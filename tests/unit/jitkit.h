/* Shared by the tests of loop and codegen: one context, one target, a kernel compiled and called. */
#ifndef JITKIT_H
#define JITKIT_H
#include "codegen/c/c.h"
#include "codegen/emit/emit.h"
#include "codegen/llvm/llvm.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static inline void kit_diags(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next) fprintf(stderr, "diagnostic: %s\n", d->text);
}
static inline void kit_c_text(ctx *c, lmodule *m, sbuf *b) {
  volatile bool ok = false;
  CTX_TRY(c) {
    if (!loop_verify(m, "test")) ctx_fail(c, E_INTERNAL, "not legal");
    c_source(c, m, NULL, NULL, b);
    ok = true;
  }
  CTX_CATCH {}
  if (!ok) kit_diags(c);
  assert_true(ok);
}
/* Verifies and compiles; the kernel's code lives as long as *j. codegen: see code_opts; NULL where codegen/x86 alone
 * is asked and cannot. */
static inline void *kit_find_by(ctx *c, lmodule *m, const char *target_name, int level, int codegen, const char *name,
                                jit **j) {
  void *volatile k = NULL;
  CTX_TRY(c) {
    if (!loop_verify(m, "test")) ctx_fail(c, E_INTERNAL, "not legal");
    const target *t = target_get(c, target_name);
    if (!t) ctx_unwind(c);
    code_opts o = {.level = level, .threads = 1, .codegen = codegen};
    *j = jit_new(c, t, &o);
    jit_add(*j, m);
    k = jit_find(*j, name);
  }
  CTX_CATCH { k = NULL; }
  if (!k && codegen != EK_CODE_OWN) {
    kit_diags(c);
    sbuf b = sbuf_new(ctx_arena(c));
    loop_print(m, &b, NULL);
    fprintf(stderr, "%s\n", b.s);
    fail();
  }
  return k;
}
static inline void *kit_find(ctx *c, lmodule *m, const char *target_name, int level, const char *name, jit **j) {
  return kit_find_by(c, m, target_name, level, EK_CODE_AUTO, name, j);
}
/* C source through the system's compiler: a shared object in the build folder. */
static inline void *kit_compile_c(ctx *c, const char *text, size_t n) {
  static int serial;
  const char *base = arena_fmt(ctx_arena(c), "%s/kit_%d_%d", EK_BINARY_DIR, (int)getpid(), serial++);
  const char *src = arena_fmt(ctx_arena(c), "%s.c", base), *so = arena_fmt(ctx_arena(c), "%s.so", base);
  assert_true(file_write(c, src, text, n));
  int rc = system(arena_fmt(
      ctx_arena(c), "cc -std=c17 -ffreestanding -Wall -Wextra -pedantic -Werror -O0 -fPIC -shared -nostdlib %s -o %s",
      src, so));
  if (rc) fprintf(stderr, "see %s\n", src);
  assert_int_equal(rc, 0);
  void *lib = dlopen(so, RTLD_NOW);
  if (!lib) fprintf(stderr, "%s\n", dlerror());
  assert_non_null(lib);
  remove(src), remove(so);
  return lib;
}
static inline void *kit_find_c(ctx *c, lmodule *m, const char *name, void **lib) {
  sbuf b = sbuf_new(ctx_arena(c));
  kit_c_text(c, m, &b);
  *lib = kit_compile_c(c, b.s, b.n);
  return dlsym(*lib, name);
}
#define ARG(p) ((int64_t)(uintptr_t)(p))
#endif
