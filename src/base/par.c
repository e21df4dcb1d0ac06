/* How does the compiler use more than one core? Threads are started for the call, take items from one counter, and are joined: a compilation has few and long items, a pool would gain nothing.
 * Each item runs in its own frame; the first failure stops the taking. Also here: how many cores there are, and the clock. */
#include "base/ctx.h"
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct job {
  ctx *c;
  void (*fn)(ctx *c, void *arg, uint32_t i);
  void *arg;
  uint32_t n;
  atomic_uint next;
  atomic_bool failed;
} job;

static void *work(void *p) {
  job *j = p;
  while (!atomic_load_explicit(&j->failed, memory_order_relaxed)) {
    uint32_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
    if (i >= j->n) break;
    CTX_TRY(j->c) { j->fn(j->c, j->arg, i); }
    CTX_CATCH { atomic_store(&j->failed, true); }
  }
  return NULL;
}

enum { MAX_THREADS = 256 };

void par_for(ctx *c, uint32_t threads, uint32_t n, void (*fn)(ctx *c, void *arg, uint32_t i), void *arg) {
  job j = {.c = c, .fn = fn, .arg = arg, .n = n};
  pthread_t t[MAX_THREADS];
  uint32_t started = 0;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if (n > UINT32_MAX - MAX_THREADS) ctx_bug(c, "par_for over %u items", n);                                       /* the counter would come round */
  while (started + 1 < threads && started + 1 < n && pthread_create(&t[started], NULL, work, &j) == 0) started++; /* fewer than wanted will do */
  work(&j);
  for (uint32_t i = 0; i < started; i++) pthread_join(t[i], NULL);
  if (j.failed) ctx_unwind(c);
}

/* Whole cores granted by a quota of `q` microseconds in `period`; 0 when there is no quota. */
static uint32_t quota_cores(long q, long period) { return q > 0 && period > 0 ? (uint32_t)((q + period - 1) / period) : 0; }

static bool read_text(const char *path, char *buf, size_t n) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  size_t got = fread(buf, 1, n - 1, f);
  fclose(f);
  buf[got] = 0;
  return got > 0;
}

/* The smallest quota on the way from our control group to the root (version 2), or that of version 1's cpu controller. */
static uint32_t cgroup_cores(void) {
  char text[4096], path[PATH_MAX], dir[2048] = "";
  uint32_t best = 0;
  if (read_text("/proc/self/cgroup", text, sizeof text)) {
    const char *s = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (s) {
      s = strchr(s, '/');
      size_t len = s ? strcspn(s, "\n") : 0;
      if (len < sizeof dir) {
        memcpy(dir, s ? s : "", len);
        dir[len] = 0;
      }
    }
  }
  for (;;) {
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", strcmp(dir, "/") == 0 ? "" : dir);
    if (read_text(path, text, sizeof text)) {
      char *end;
      long q = strtol(text, &end, 10); /* "max" reads as 0: no quota */
      uint32_t n = quota_cores(q, strtol(end, NULL, 10));
      if (n && (!best || n < best)) best = n;
    }
    char *slash = strrchr(dir, '/');
    if (!slash) break;
    *slash = 0;
  }
  char period[64];
  if (!best && read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text) && read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
    best = quota_cores(strtol(text, NULL, 10), strtol(period, NULL, 10));
  return best;
}

uint32_t cpu_count(void) {
  uint32_t n = 0, q = cgroup_cores();
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = (uint32_t)CPU_COUNT(&set);
  if (!n) {
    long k = sysconf(_SC_NPROCESSORS_ONLN);
    n = k > 0 ? (uint32_t)k : 1;
  }
  return q && q < n ? q : n;
}

double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
