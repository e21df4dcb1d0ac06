/* The batches of tests/step: the same for whoever trains. */
#include <stdint.h>
enum { ROWS = 8, STEPS = 200 };
static void fill(int step, double x[ROWS][4], int64_t target[ROWS]) {
  for (int i = 0; i < ROWS; i++) {
    target[i] = (i + step) % 3;
    for (int k = 0; k < 4; k++) x[i][k] = ((i * 7 + step * 3 + k * 5) % 11 - 5) / 4.0 + (double)(target[i] == k);
  }
}
