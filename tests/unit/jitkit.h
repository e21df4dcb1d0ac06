/* Shared by the tests of loop and codegen: one context, one target, a kernel compiled and called. */
#ifndef JITKIT_H
#define JITKIT_H
#include "codegen/llvm/llvm.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void kit_diags(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next) fprintf(stderr, "diagnostic: %s\n", d->text);
}
/* Verifies and compiles; the kernel's code lives as long as *j. */
static void *kit_find(ctx *c, lmodule *m, const char *target_name, int level, const char *name, jit **j) {
  void *volatile k = NULL;
  CTX_TRY(c) {
    if (!loop_verify(m, "test")) ctx_fail(c, E_INTERNAL, "not legal");
    const target *t = target_get(c, target_name);
    if (!t) ctx_unwind(c);
    llvm_opts o = {.level = level, .threads = 1};
    *j = jit_new(c, t, &o);
    jit_add(*j, m);
    k = jit_find(*j, name);
  }
  CTX_CATCH { k = NULL; }
  if (!k) {
    kit_diags(c);
    sbuf b = sbuf_new(ctx_arena(c));
    loop_print(m, &b, NULL);
    fprintf(stderr, "%s\n", b.s);
    fail();
  }
  return k;
}
#define ARG(p) ((int64_t)(uintptr_t)(p))
#endif
