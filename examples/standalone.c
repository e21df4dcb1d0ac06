/* A model compiled ahead of time in a program of its own: no Einkorn, no LLVM, only libc and threads.
 *
 *   einkorn compile digits/digits.onnx -o digits.o       writes digits.o and digits.h
 *   cc standalone.c digits.o -lm -lpthread -o standalone
 *   ./standalone
 *
 * The same calls work with a library (-o digits.so): link it, or load it with dlopen and look up digits_info.
 */
#include "digits.h"
#include <stdio.h>
#include <stdlib.h>

enum { PICTURES = 2, THREADS = 2 };

int main(void) {
  static const char *const drawing[PICTURES][8] = {
      {"...##...", "..####..", ".##..##.", ".#....#.", ".#....#.", ".##..##.", "..####..", "...##..."},
      {"...##...", "..###...", ".####...", "...##...", "...##...", "...##...", "...##...", "...##..."},
  };
  static float image[PICTURES][1][8][8];
  for (int n = 0; n < PICTURES; n++)
    for (int y = 0; y < 8; y++)
      for (int x = 0; x < 8; x++) image[n][0][y][x] = drawing[n][y][x] == '#' ? 16.0f : 0.0f;

  /* 1. What the model is. */
  const ek_rt_model *model = digits_info();
  printf("model %s: %lld input(s), %lld output(s), working memory %s bytes\n", model->name, (long long)model->inputs,
         (long long)model->outputs, model->memory);

  /* 2. Sizes in, sizes out: plan() fills in the outputs' dims and the size of the arena. */
  const void *in[1] = {image};
  int64_t in_dims[4] = {PICTURES, 1, 8, 8}, out_dims[2];
  ek_rt_call call = {.in = in, .in_dims = in_dims, .out_dims = out_dims, .threads = THREADS};
  if (model->plan(&call)) {
    fprintf(stderr, "%s\n", call.message);
    return 1;
  }
  /* 3. Memory and threads are the caller's. The pool is optional: without it everything runs here. */
  float *scores = malloc((size_t)(out_dims[0] * out_dims[1]) * sizeof *scores);
  void *out[1] = {scores};
  call.out = out;
  call.arena = aligned_alloc(64, ((size_t)call.arena_bytes + 63) / 64 * 64 + 64);
  call.pool = model->pool_create ? model->pool_create(THREADS) : NULL;
  if (!scores || !call.arena) return 1;

  /* 4. As often as wanted, without any allocation. */
  if (digits_run(&call)) {
    fprintf(stderr, "%s\n", call.message);
    return 1;
  }
  for (int64_t n = 0; n < out_dims[0]; n++) {
    int64_t best = 0;
    for (int64_t i = 1; i < out_dims[1]; i++)
      if (scores[n * out_dims[1] + i] > scores[n * out_dims[1] + best]) best = i;
    printf("picture %lld: a %lld, sure to %.1f%%\n", (long long)n, (long long)best,
           scores[n * out_dims[1] + best] * 100);
  }
  if (call.pool) model->pool_destroy(call.pool);
  free(call.arena);
  free(scores);
  return 0;
}
