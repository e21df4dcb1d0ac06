/* What tests of states (test_state.c, test_growing.c) run: a model, compiled in one of the ways that there are. */
#ifndef EK_TESTS_STATEKIT_H
#define EK_TESTS_STATEKIT_H
#include "einkorn/einkorn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef enum { EVAL, PASSES, PLAIN, JIT, SAVED, KINDS } kind;
static const char *const kind_names[KINDS] = {"eval", "passes", "O0", "jit", "so"};
typedef struct subject {
  ek_session *s;
  ek_model *m;
  ek_module *code;
  ek_run *r;
} subject;
/* The model of the text, compiled with these options in that way; x->s is to be destroyed in any case. */
static ek_code subject_compile(subject *x, const char *text, kind k, ek_options o) {
  static int libraries;
  char path[64];
  *x = (subject){.s = ek_session_create()};
  o.evaluate = k == EVAL ? 1 : k == PASSES ? 2 : 0, o.verify = 1;
  if (k == PLAIN) o.optimize = 0;
  ek_code e = ek_load_memory(x->s, text, strlen(text), "test", &x->m);
  if (e || k != SAVED) return e ? e : ek_compile(x->m, &o, &x->code);
  snprintf(path, sizeof path, "/tmp/einkorn_state_%d_%d.so", (int)getpid(), libraries++);
  e = ek_save(x->m, &o, path, NULL);
  if (!e) e = ek_module_load(x->s, path, &x->code);
  unlink(path);
  strcpy(strrchr(path, '.'), ".h");
  unlink(path);
  return e;
}
/* The same with a run; the test fails if it cannot be. */
static subject subject_of(const char *text, kind k, ek_options o) {
  subject x;
  if (subject_compile(&x, text, k, o)) fail_msg("%s: %s", kind_names[k], ek_message(x.s));
  assert_int_equal(ek_run_create(x.code, 1, &x.r), EK_OK);
  return x;
}
#endif
