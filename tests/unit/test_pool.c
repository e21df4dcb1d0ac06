/* Does the thread pool run every chunk exactly once, whoever is there to run it? */
#include "base/ctx.h"
#include "runtime/runtime.h"
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
#ifdef __SANITIZE_THREAD__
  return;
#endif
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
#ifdef __SANITIZE_THREAD__ /* this checker allows no threads in a child */
static void forks_in_the_middle(void **s) { (void)s; }
static void child_with_threads(void **s) { (void)s; }
#else
/* Children of a process whose threads are in the middle of regions of the same pool: none may hang. */
static _Atomic int ends;
static void *until_end(void *p) {
  while (!atomic_load(&ends)) run_regions(p, 3, 20);
  return NULL;
}
static void forks_in_the_middle(void **s) {
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(3);
  pthread_t t[2];
  atomic_store(&ends, 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, until_end, p), 0);
  for (int i = 0; i < 30; i++) {
    usleep(2000);
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      for (int k = 0; k < 2; k++) run_regions(p, 2 + k, 30); /* the pool of the parent, with workers of its own */
      pid_t grandchild = fork();
      if (grandchild == 0) {
        run_regions(p, 3, 30);
        _exit(0);
      }
      int status = 1;
      _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  atomic_store(&ends, 1);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  ek_rt_pool_destroy(p);
}
/* Two threads of a child take over the pool at once. */
static void *in_child(void *p) {
  run_regions(p, 3, 50);
  return NULL;
}
static void child_with_threads(void **s) {
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(3);
  run_regions(p, 3, 20);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      pthread_t t[2];
      int bad = 0;
      for (int k = 0; k < 2; k++) bad |= pthread_create(&t[k], NULL, in_child, p);
      for (int k = 0; k < 2; k++) bad |= pthread_join(t[k], NULL);
      _exit(bad);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  ek_rt_pool_destroy(p);
}
#endif
/* workers that may not take part are not waited for, and those that may are woken */
static void mixed_sizes(void **s) {
  (void)s;
  ek_rt_pool *p = ek_rt_pool_create(40);
  static const int sizes[] = {2, 40, 3, 2, 17, 40, 1, 2};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    run_regions(p, sizes[i], 60);
    if (i % 3 == 1) usleep(3000);
  }
  ek_rt_pool_destroy(p);
}
/* a worker that starts is not looked at by those that run already: only tsan sees it, and not each time */
static void growing(void **s) {
  (void)s;
  for (int r = 0; r < 60; r++) {
    ek_rt_pool *p = ek_rt_pool_create(12);
    for (int threads = 2; threads <= 12; threads++) run_regions(p, threads, 6);
    ek_rt_pool_destroy(p);
  }
}
/* ---- good manners ---------------------------------------------------------------------------- */
static _Atomic int in_worker, signals;
static pid_t main_tid;
static void on_signal(int n) {
  (void)n;
  signals++;
  if ((pid_t)syscall(SYS_gettid) != main_tid) in_worker++;
}
static void signals_stay_out(void **s) {
  (void)s;
  main_tid = (pid_t)syscall(SYS_gettid);
  ek_rt_pool *p = ek_rt_pool_create(3);
  run_regions(p, 3, 20);
  struct sigaction a = {.sa_handler = on_signal}, before;
  sigaction(SIGUSR1, &a, &before);
  for (int i = 0; i < 200; i++) {
    kill(getpid(), SIGUSR1);
    if (i % 10 == 0) run_regions(p, 3, 5);
  }
  sigaction(SIGUSR1, &before, NULL);
  assert_true(signals > 0);
  assert_int_equal(in_worker, 0);
  ek_rt_pool_destroy(p);
}
static _Atomic int caller_cpu, same, other;
static void where(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) {
  (void)args;
  int cpu = sched_getcpu();
  if (worker == 0)
    atomic_store(&caller_cpu, cpu);
  else if (cpu == atomic_load(&caller_cpu))
    same++;
  else
    other++;
  double until = now_us() + 2 * (double)(hi - lo);
  while (now_us() < until) {}
}
static void off_the_callers_processor(void **s) { /* a worker that shares the caller's processor is of no use */
  (void)s;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) < 2) skip();
  ek_rt_pool *p = ek_rt_pool_create(2);
  ek_rt_call call = {.pool = p, .threads = 2};
  same = other = 0;
  for (int i = 0; i < 2000; i++) {
    ek_rt_parallel(&call, where, NULL, 16);
    if (i % 50 == 0) usleep(1000);
  }
  printf("tickets of the worker: %d on the caller's processor, %d elsewhere\n", (int)same, (int)other);
  assert_true(same <= 20 + other); /* those before it noticed, and after the caller was moved */
  ek_rt_pool_destroy(p);
}
static void one_processor(void **s) { /* more threads than processors: slower, but whole */
  (void)s;
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(cpu_count(), 1);
  ek_rt_pool *p = ek_rt_pool_create(4);
  run_regions(p, 4, 500);
  ek_rt_pool_destroy(p);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}
static void put(const char *root, const char *path, const char *text) {
  char full[256];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *c = full + strlen(root) + 1; *c; c++)
    if (*c == '/') {
      *c = 0;
      mkdir(full, 0777);
      *c = '/';
    }
  FILE *f = fopen(full, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}
static void quotas(void **s) { /* control groups of both versions, from files as the system shows them */
  (void)s;
  char root[] = "/tmp/einkorn-pool-XXXXXX", command[128];
  assert_non_null(mkdtemp(root));
  assert_int_equal(cgroup_cores(root), 0);
  put(root, "/proc/self/cgroup", "0::/a/b\n");
  assert_int_equal(cgroup_cores(root), 0);
  put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  assert_int_equal(cgroup_cores(root), 0);
  put(root, "/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  assert_int_equal(cgroup_cores(root), 3);
  put(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  assert_int_equal(cgroup_cores(root), 1);
  put(root, "/proc/self/cgroup", "0::/not/shown/in/the/container\n");
  assert_int_equal(cgroup_cores(root), 0);
  put(root, "/sys/fs/cgroup/cpu.max", "200000 100000\n");
  assert_int_equal(cgroup_cores(root), 2);
  /* both versions at once: the smaller one counts */
  put(root, "/proc/self/cgroup", "9:cpuset:/\n4:cpu,cpuacct:/x/y\n0::/\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n");
  put(root, "/sys/fs/cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
  assert_int_equal(cgroup_cores(root), 2);
  put(root, "/sys/fs/cgroup/cpu.max", "max 100000\n");
  assert_int_equal(cgroup_cores(root), 4);
  snprintf(command, sizeof command, "rm -r %s", root);
  assert_int_equal(system(command), 0);
}
static void nothing(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) {
  (void)args, (void)lo, (void)hi, (void)worker;
}
static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
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
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test(f)
      T(every_chunk_once), T(without_pool), T(survives_fork), T(forks_in_the_middle), T(child_with_threads),
      T(two_callers),      T(mixed_sizes),  T(growing),       T(signals_stay_out),    T(off_the_callers_processor),
      T(one_processor),    T(quotas),       T(overhead),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
