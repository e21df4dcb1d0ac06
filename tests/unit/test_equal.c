/* Kernels that are equal to one before are not scheduled again (schedule/equal.c). Is everything the same as if they
 * were: the program, with the weights' digests, and the code? Models in which kernels repeat, and such in which they
 * almost do, for AVX2 and AVX-512.
 *   test_equal MODEL...    tells of these how many kernels were not scheduled */
#include "driver/pipeline.h"
#include "each_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const targets[] = {"x86-64-v3", "x86-64-v4"};
enum { TARGETS = sizeof targets / sizeof *targets };

/* The program and its code as text; *equal: launches of a function that was made for another one. */
static const char *compiled(ctx *c, const source *s, const char *target, bool no_reuse, uint32_t *equal) {
  pipeline *p = pipe_new(c, &(pipe_opts){.level = 3, .compile_threads = 1, .target = target, .no_reuse = no_reuse});
  sbuf b = sbuf_new(ctx_arena(c));
  map *made = map_new(ctx_arena(c));
  *equal = 0;
  if (!pipe_load(p, s) || !pipe_lower(p, NULL) || !pipe_optimise(p) || !pipe_program(p)) return NULL;
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const launch *l = &p->s->launches.v[i];
    uint64_t had;
    if (map_getu(made, (uintptr_t)l->func, &had)) ++*equal;
    map_putu(made, (uintptr_t)l->func, 1);
    sb_fmt(&b, "%s: %s; %.6g idle\n", l->name, l->note, l->stages.n ? xs(p->m, l->stages.v[0])->idle : 0);
  }
  program_print(p->p, &b);
  loop_print(p->s->l, &b, NULL);
  return b.s;
}
/* Launches of equal kernels; UINT32_MAX: it doesn't compile, or something differs. */
static uint32_t equal_kernels(const source *s, const char *target) {
  ctx *one = ctx_new(), *two = ctx_new();
  const char *volatile text = NULL, *volatile each = NULL;
  uint32_t n = 0, none = 0;
  CTX_TRY(one) { text = compiled(one, s, target, false, &n); }
  CTX_CATCH {}
  CTX_TRY(two) { each = compiled(two, s, target, true, &none); }
  CTX_CATCH {}
  for (const diag *d = diag_first(one); d; d = d->next)
    if (d->level == D_ERROR) printf("%s: %s\n", s->name, d->text);
  const bool same = text && each && !strcmp(text, each) && !none;
  if (text && each && !same) {
    const char *x = text, *y = each;
    for (; *x == *y; x++, y++) {}
    while (x > text && x[-1] != '\n') x--, y--;
    printf("%s, %s: %.*s\n  each for itself: %.*s\n", s->name, target, (int)strcspn(x, "\n"), x, (int)strcspn(y, "\n"),
           y);
  }
  ctx_free(one), ctx_free(two);
  return same ? n : UINT32_MAX;
}
typedef struct counts {
  uint32_t bad;   /* models for which something differs */
  uint32_t equal; /* launches of equal kernels */
} counts;
static void count(void *env, const char *path) {
  counts *n = env;
  for (size_t k = 0; k < TARGETS; k++) {
    uint32_t found = equal_kernels(&(source){.path = path, .name = path}, targets[k]);
    if (found == UINT32_MAX)
      n->bad++;
    else
      n->equal += found;
  }
}
static void test_models(void **state) {
  (void)state;
  counts n = {0, 0};
  assert_true(each_model(count, &n) > 0);
  printf("%u launches of equal kernels\n", n.equal);
  assert_int_equal(n.bad, 0);
  assert_true(n.equal > 300);
}
/* A dense block: each layer's window adds `growth` channels to what the layers before have, in place. */
static uint32_t dense(int growth, const char *target) {
  enum { LAYERS = 5, ROOT = 32, NARROW = 32 };
  char *s;
  size_t n;
  FILE *f = open_memstream(&s, &n);
  fprintf(f, "graph \"g\" ir 8 opset 17 {\n  input c0: f32[1, %d, 8, 8]\n", ROOT);
  for (int k = 0; k < LAYERS; k++) {
    const int had = ROOT + k * growth;
    fprintf(f, "  const v%d: f32[%d, %d, 1, 1] = [", k, NARROW, had);
    for (int i = 0; i < NARROW * had; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 7 + k) % 11 - 5);
    fprintf(f, "]\n  const w%d: f32[%d, %d, 3, 3] = [", k, growth, NARROW);
    for (int i = 0; i < growth * NARROW * 9; i++) fprintf(f, "%s%d", i ? ", " : "", (i * 5 + k) % 13 - 6);
    fprintf(f, "]\n");
  }
  for (int k = 0; k < LAYERS; k++)
    fprintf(f,
            "  r%d: f32[1, %d, 8, 8] = Relu(c%d)\n  n%d: f32[1, %d, 8, 8] = Conv(r%d, v%d)\n"
            "  a%d: f32[1, %d, 8, 8] = Conv(n%d, w%d) {pads = [1, 1, 1, 1]}\n"
            "  c%d: f32[1, %d, 8, 8] = Concat(c%d, a%d) {axis = 1}\n",
            k, ROOT + k * growth, k, k, NARROW, k, k, k, growth, k, k, k + 1, ROOT + (k + 1) * growth, k, k);
  fprintf(f, "  y: f32[1, %d, 1, 1] = GlobalAveragePool(c%d)\n  output y\n}\n", ROOT + LAYERS * growth, LAYERS);
  fclose(f);
  uint32_t equal = equal_kernels(&(source){.data = {(const uint8_t *)s, n}, .name = "dense"}, target);
  free(s);
  return equal;
}
static void test_dense(void **state) {
  (void)state;
  for (size_t k = 0; k < TARGETS; k++) {
    uint32_t lines = dense(16, targets[k]), others = dense(12, targets[k]);
    printf("%s: %u launches of equal kernels where channels are whole lines, %u where not\n", targets[k], lines,
           others);
    assert_true(lines != UINT32_MAX && others != UINT32_MAX && lines > others);
  }
}
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    for (uint32_t t = 0; t < TARGETS; t++)
      printf("%s, %s: %d\n", argv[i], targets[t],
             (int)equal_kernels(&(source){.path = argv[i], .name = argv[i]}, targets[t]));
  if (argc > 1) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_dense)};
  return cmocka_run_group_tests_name("equal", tests, NULL, NULL);
}
