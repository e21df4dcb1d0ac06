/* How does the compiler use more than one core? Threads are started for the call, take items from one counter, and
 * are joined: a compilation has few and long items, a pool would gain nothing.
 * Each item runs in its own frame; the first failure stops the taking. Also here: how many cores there are, and
 * the clock. */
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
  ctx *c;                                    /* context */
  void (*fn)(ctx *c, void *arg, uint32_t i); /* does one item */
  void *arg;                                 /* handed to fn */
  uint32_t n;                                /* number of items */
  atomic_uint next;                          /* next item */
  atomic_bool failed;                        /* an item failed: no other one begins */
} job;

static void work(job *j) {
  while (!atomic_load_explicit(&j->failed, memory_order_relaxed)) {
    uint32_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
    if (i >= j->n) break;
    CTX_TRY(j->c) { j->fn(j->c, j->arg, i); }
    CTX_CATCH { atomic_store(&j->failed, true); }
  }
}

static void *thread(void *p) {
  work(p);
  ctx_slot_done(((job *)p)->c);
  return NULL;
}

enum { MAX_THREADS = 256 };

void par_for(ctx *c, uint32_t threads, uint32_t n, void (*fn)(ctx *c, void *arg, uint32_t i), void *arg) {
  job j = {.c = c, .fn = fn, .arg = arg, .n = n};
  pthread_t t[MAX_THREADS];
  uint32_t started = 0;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if (n > UINT32_MAX - MAX_THREADS) ctx_bug(c, "par_for over %u items", n); /* the counter would come round */
  if (threads > n) threads = n;
  if (threads > 1) threads = 1 + ctx_slots_ready(c, threads - 1);
  /* where the system gives fewer threads than wanted, these will do */
  while (started + 1 < threads && started + 1 < n && pthread_create(&t[started], NULL, thread, &j) == 0) started++;
  work(&j);
  for (uint32_t i = 0; i < started; i++) pthread_join(t[i], NULL);
  if (j.failed) ctx_unwind(c);
}

/* Whole cores granted by a quota of `q` microseconds in `period`; 0 when there is no quota. */
static uint32_t quota_cores(long q, long period) {
  return q > 0 && period > 0 ? (uint32_t)((q + period - 1) / period) : 0;
}

static bool read_text(const char *path, char *buf, size_t n) {
  FILE *f = fopen(path, "re");
  if (!f) return false;
  size_t got = fread(buf, 1, n - 1, f);
  fclose(f);
  buf[got] = 0;
  return got > 0;
}

/* Version 2: "MAX PERIOD" in one file, MAX may be "max" (reads as 0: no quota). Version 1: two files. */
static uint32_t group_cores(const char *folder, bool unified) {
  char path[PATH_MAX], text[64], period[64], *end = text;
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, unified ? "cpu.max" : "cpu.cfs_quota_us") >= sizeof path ||
      !read_text(path, text, sizeof text))
    return 0;
  long q = strtol(text, &end, 10);
  if (unified) return quota_cores(q, strtol(end, NULL, 10));
  if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder) >= sizeof path ||
      !read_text(path, period, sizeof period))
    return 0;
  return quota_cores(q, strtol(period, NULL, 10));
}
/* The smallest quota on the way from a group to the root of its hierarchy. A group that is not there (a container
 * shows its own as the root) has none. */
static uint32_t smallest(const char *mount, const char *group, size_t n, bool unified) {
  char path[PATH_MAX];
  uint32_t best = 0;
  for (;;) {
    while (n && group[n - 1] == '/') n--;
    if ((size_t)snprintf(path, sizeof path, "%s%.*s", mount, (int)n, group) >= sizeof path) return best;
    uint32_t k = group_cores(path, unified);
    if (k && (!best || k < best)) best = k;
    if (!n) return best;
    while (n && group[n - 1] != '/') n--;
  }
}
/* Lines of /proc/self/cgroup: `0::GROUP` (version 2), `7:cpu,cpuacct:GROUP` (version 1). */
uint32_t cgroup_cores(const char *root) {
  char text[4096], path[PATH_MAX];
  uint32_t best = 0;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  if (!read_text(path, text, sizeof text)) return 0;
  for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    size_t len = strcspn(line, "\n");
    const char *kinds = memchr(line, ':', len),
               *group = kinds ? memchr(kinds + 1, ':', len - (size_t)(kinds + 1 - line)) : NULL;
    if (!group) continue;
    size_t n = len - (size_t)(group + 1 - line), nk = (size_t)(group - kinds) - 1;
    bool unified = nk == 0, cpu = false;
    for (const char *k = kinds + 1; k < group; k += strcspn(k, ",:") + 1)
      cpu |= strcspn(k, ",:") == 3 && !strncmp(k, "cpu", 3);
    if (!unified && !cpu) continue;
    static const char *const mounts[2][2] = {{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"},
                                             {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}};
    for (int i = 0; i < 2; i++) {
      snprintf(path, sizeof path, "%s%s", root, mounts[unified][i]);
      uint32_t k = smallest(path, group + 1, n, unified);
      if (k && (!best || k < best)) best = k;
    }
  }
  return best;
}

uint32_t cpu_count(void) {
  uint32_t n = 0, q = cgroup_cores("");
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = (uint32_t)CPU_COUNT(&set);
  if (!n) {
    long k = sysconf(_SC_NPROCESSORS_ONLN);
    n = k > 0 ? (uint32_t)k : 1;
  }
  return q && q < n ? q : n;
}
uint32_t ctx_cpus(ctx *c) {
  uint32_t n = atomic_load(&c->cpus);
  if (!n) atomic_store(&c->cpus, n = cpu_count());
  return n;
}

double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
