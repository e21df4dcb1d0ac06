/* Trains by a saved step, with nothing but libm, and tells the losses. -DCHECK: then also the evaluation, by what the
 * states hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data.h"
#include "step.h"
#ifdef CHECK
#include "check.h"
#endif

static void *memory(size_t n) { return aligned_alloc(64, (n + 127) / 64 * 64); }
#ifdef CHECK
/* The state of that name, row-major. */
static double *value(const step_states *s, const char *name) {
  for (int64_t i = 0; i < step_STATES; i++)
    if (!strcmp(step_info()->state[i].name, name)) {
      double *x = memory(s->bytes[i]);
      step_snapshot(s, i, x);
      return x;
    }
  return NULL;
}
#endif
int main(void) {
  static double x[ROWS][4];
  static int64_t target[ROWS];
  step_states s;
  double loss, norm;
  const double rate = 0.01;
  const int64_t bytes = step_begin(NULL, NULL, 0);
  void *states = memory((size_t)bytes), *arena = memory(step_ARENA_BYTES(1));
  if (bytes < 0 || step_begin(&s, states, (size_t)bytes) != bytes) return 1;
  for (int64_t k = 0; k < STEPS; k++) {
    const int64_t count = k + 1;
    fill((int)k, x, target);
    if (step_call(&x[0][0], target, &rate, &count, &loss, &norm, &s, arena, step_ARENA_BYTES(1))) return 2;
    printf("%.17g\n", loss);
  }
#ifdef CHECK
  double y[ROWS * 3], *p[6];
  static const char *const names[] = {"w1", "g", "o", "mean", "var", "w2"};
  void *work = memory(check_ARENA_BYTES(1));
  for (int i = 0; i < 6; i++) p[i] = value(&s, names[i]);
  if (check_call(&x[0][0], target, p[0], p[1], p[2], p[3], p[4], p[5], y, &loss, work, check_ARENA_BYTES(1))) return 3;
  printf("evaluation %.17g\n", loss);
  for (int i = 0; i < 6; i++) free(p[i]);
  free(work);
#endif
  free(states), free(arena);
  return 0;
}
