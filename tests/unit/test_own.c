/* Does codegen/x86 make all functions of models itself? What it refuses LLVM compiles, with the right results and a
 * fiftieth of the speed: nothing else would fail. Every model of tests/models, for AVX2, AVX-512, and AVX-512 with
 * products of bf16 (--precision bf16); the code is made, not run, so the machine does not matter. It may need no
 * instruction set that the machine lacks.
 *   test_own MODEL...    only prints what would be left to LLVM of these */
#include "codegen/llvm/llvm.h"
#include "codegen/x86/x86.h"
#include "driver/pipeline.h"
#include "each_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct machine {
  const char *name, *target;
  bool narrow;
  uint32_t has; /* instruction sets that code for it may need */
} machine;
enum {
  V3 = IS_AVX | IS_AVX2 | IS_FMA | IS_F16C | IS_BMI2,
  V4 = V3 | IS_AVX512F | IS_AVX512VL | IS_AVX512BW | IS_AVX512DQ
};
static char bf16_target[512];
static const machine machines[] = {{"AVX2", "x86-64-v3", false, V3},
                                   {"AVX-512", "x86-64-v4", false, V4},
                                   {"bf16", bf16_target, true, V4 | IS_AVX512BF16}};
static uint32_t functions, declared;

static const char *symbol(void *env, const char *func) { return (void)env, func; }
/* Functions of the model that are refused, or need an instruction set that the machine lacks. */
static uint32_t refused(const machine *t, const char *path) {
  ctx *c = ctx_new();
  volatile uint32_t bad = 0;
  CTX_TRY(c) {
    pipeline *p = pipe_new(
        c,
        &(pipe_opts){.level = 3, .compile_threads = 1, .target = t->target, .narrow = t->narrow ? ET_BF16 : ET_NONE});
    if (pipe_load(p, &(source){.path = path, .name = path}) && pipe_lower(p, NULL) && pipe_optimise(p) &&
        pipe_program(p))
      for (uint32_t i = 0; i < p->s->l->funcs.n; i++) {
        lfunc g = *p->s->l->funcs.v[i];
        emitted x = {.refused = ""};
        functions++;
        g.a = arena_new(c);
        loop_expand(p->s->l, &g, llvm_native, (void *)p->t);
        bool made = x86_object(
            c, g.a, &(code_function){.m = p->s->l, .f = &g, .t = p->t, .symbol = g.name, .callee = symbol}, &x);
        if (!made) printf("%s: %s: there is %s in %s\n", t->name, path, x.refused, g.name), bad++;
        if (x.needs & ~t->has)
          printf("%s: %s: %s needs %s\n", t->name, path, g.name, x86_flags(g.a, x.needs & ~t->has)), bad++;
        for (uint32_t k = 0; k < x.also.n; k++) {
          const char *flag = cpu_flag_lacking(g.a, x.also.v[k], p->t->required);
          if (flag) printf("%s: %s: %s needs %s\n", t->name, path, g.name, flag), bad++;
          declared++;
        }
        arena_free(g.a);
      }
  }
  CTX_CATCH { bad++; }
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) printf("%s: %s\n", path, d->text);
  ctx_free(c);
  return bad;
}
static void refuse_all(void *env, const char *path) {
  for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) *(uint32_t *)env += refused(&machines[k], path);
}
static void test_models(void **state) {
  (void)state;
  uint32_t bad = 0;
  assert_true(each_model(refuse_all, &bad) > 0);
  printf("%u functions, %u declared instructions\n", functions, declared);
  assert_true(declared > 0);
  assert_int_equal(bad, 0);
}
static bool write_target(void) { /* x86-64-v4 with products of bf16 */
  static const char text[] = "extends = x86-64-v4\n"
                             "requires = avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma f16c bmi2 avx512bf16\n";
  ctx *c = ctx_new();
  snprintf(bf16_target, sizeof bf16_target, "%s/bf16.target", EK_BINARY_DIR);
  bool ok = file_write(c, bf16_target, text, sizeof text - 1);
  ctx_free(c);
  return ok;
}
int main(int argc, char **argv) {
  if (!write_target()) return 1;
  for (int i = 1; i < argc; i++)
    for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) refused(&machines[k], argv[i]);
  if (argc > 1) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
