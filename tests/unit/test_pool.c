/* Does the thread pool run every chunk exactly once, whoever is there to run it? */
#include "runtime/runtime.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
enum { N = 64 };
static void count(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) {
  _Atomic int *hits = (_Atomic int *)(uintptr_t)args[0];
  _Atomic int *bad = (_Atomic int *)(uintptr_t)args[1];
  if (worker < 0 || worker >= args[2]) atomic_fetch_add(bad, 1);
  for (int64_t i = lo; i < hi; i++) atomic_fetch_add(&hits[i], 1);
}
static void run_regions(ek_rt_pool *p, int threads, int regions) {
  _Atomic int hits[N], bad = 0;
  ek_rt_call call = {.pool = p, .threads = threads};
  for (int r = 0; r < regions; r++) {
    int n = 1 + r * 7 % N;
    memset((void *)hits, 0, sizeof hits);
    int64_t args[3] = {(int64_t)(uintptr_t)hits, (int64_t)(uintptr_t)&bad, threads};
    ek_rt_parallel(&call, count, args, n);
    for (int i = 0; i < N; i++) assert_int_equal(hits[i], i < n);
  }
  assert_int_equal(bad, 0);
}
static void every_chunk_once(void **s) {
  (void)s;
  for (int threads = 1; threads <= 5; threads++) {
    ek_rt_pool *p = ek_rt_pool_create(threads);
    assert_non_null(p);
    run_regions(p, threads, 3000);
    usleep(30000); /* workers fall asleep, and wake again */
    run_regions(p, threads, 100);
    if (threads > 2) run_regions(p, 2, 500); /* a call laid out for fewer: no other worker's number may be seen */
    ek_rt_pool_destroy(p);
  }
}
static void without_pool(void **s) {
  (void)s;
  run_regions(NULL, 1, 20);
  ek_rt_pool_destroy(NULL);
  ek_rt_pool *p = ek_rt_pool_create(3);
  ek_rt_pool_destroy(p); /* never used */
}
static void survives_fork(void **s) {
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(3);
  run_regions(p, 3, 50);
  pid_t child = fork();
  if (child == 0) {
    run_regions(p, 3, 200);
    ek_rt_pool_destroy(p);
    _exit(0);
  }
  run_regions(p, 3, 200);
  int status = 1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ek_rt_pool_destroy(p);
}
static void *caller(void *p) {
  run_regions(p, 4, 500);
  return NULL;
}
static void two_callers(void **s) {
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(4);
  pthread_t t[3];
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, caller, p), 0);
  run_regions(p, 4, 500);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  ek_rt_pool_destroy(p);
}
static void nothing(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) { (void)args, (void)lo, (void)hi, (void)worker; }
static int by_value(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }
static void overhead(void **s) { /* printed, not asserted: machines are shared */
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(2);
  ek_rt_call call = {.pool = p, .threads = 2};
  static double t[801];
  for (int i = 0; i < 801; i++) {
    double t0 = now_us();
    ek_rt_parallel(&call, nothing, NULL, 2);
    t[i] = now_us() - t0;
  }
  qsort(t, 801, sizeof *t, by_value);
  printf("empty region of 2 chunks: median %.2f us, p90 %.2f us\n", t[400], t[720]);
  ek_rt_pool_destroy(p);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_chunk_once), cmocka_unit_test(without_pool), cmocka_unit_test(survives_fork), cmocka_unit_test(two_callers), cmocka_unit_test(overhead)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
