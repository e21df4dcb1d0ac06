/* How do chunks of a kernel run on several threads, without waiting for a thread that is not there?
 *
 * By tickets. One 64-bit word holds (epoch << 32 | next chunk). Whoever sees the current epoch claims chunks from it by compare-and-swap; a stale epoch can claim nothing. The caller publishes a region, claims chunks
 * itself, and then waits only until all claimed chunks are done: a worker that is asleep or was scheduled away before it claimed anything is never waited for.
 *
 *   caller:  region fields, done = 0 -> ticket = (e, 0) -> epoch = e, wake sleepers -> claim ... -> wait done == chunks
 *   worker:  epoch changed -> read region fields -> claim ... (a claim by compare-and-swap on epoch e proves that the fields read belong to e)
 *
 * Workers spin for a while after each region (a run of a model is many regions with short gaps), then sleep on a futex. They start on the first parallel call. Nothing is allocated in ek_rt_parallel after that.
 * After fork the child has no workers: it notices by a page that the kernel wipes on fork (or, where there is none, by its process id) and starts its own. One region at a time: a second caller of the same pool, or a call from inside a region, runs its chunks itself.
 * Needs only libc and pthreads.
 */
#include "runtime/runtime.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif
enum { TICKETS = 8, SPIN = 20000, YIELD_AFTER = 200, MAX_THREADS = 1024 };

typedef struct worker {
  ek_rt_pool *pool;
  int64_t id; /* 1.. */
  pthread_t thread;
} worker;
struct ek_rt_pool {
  _Alignas(64) _Atomic uint64_t ticket;     /* epoch << 32 | next chunk */
  _Alignas(64) _Atomic uint32_t done;       /* chunks finished in this epoch */
  _Alignas(64) _Atomic uint32_t epoch;      /* futex; changes when there is work, or at the end */
  _Atomic uint32_t sleeping, stop;
  _Alignas(64) _Atomic(ek_rt_kernel) kernel; /* the region: written before the ticket, read before a claim */
  _Atomic(const int64_t *) args;
  _Atomic uint32_t chunks;                  /* tickets: pieces of `grain` chunks of the kernel, the last one maybe smaller */
  _Atomic int64_t grain, total;
  _Atomic int64_t limit;                    /* workers with this number or more stay out: the caller has laid out scratch memory for fewer */
  _Alignas(64) _Atomic uint32_t busy;       /* a region is running */
  uint32_t started;                         /* workers running */
  uint32_t threads;                         /* the caller included */
  pid_t pid;                                /* whose workers they are; 0: nobody's yet */
  uint32_t *alive;                          /* 1; a forked child reads 0. NULL: not available */
  worker workers[];
};

static void futex_wait(_Atomic uint32_t *p, uint32_t value) {
#ifdef __linux__
  syscall(SYS_futex, p, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
  (void)p, (void)value;
  usleep(50);
#endif
}
static void futex_wake(_Atomic uint32_t *p, int n) {
#ifdef __linux__
  syscall(SYS_futex, p, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
  (void)p, (void)n;
#endif
}
static void relax(void) {
#ifdef __linux__
  sched_yield();
#endif
}
/* Claims and runs chunks of epoch e until there are none. */
static void claim(ek_rt_pool *p, uint32_t e, int64_t who) {
  for (;;) {
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    if ((uint32_t)(t >> 32) != e) return;
    ek_rt_kernel k = atomic_load_explicit(&p->kernel, memory_order_relaxed);
    const int64_t *args = atomic_load_explicit(&p->args, memory_order_relaxed);
    int64_t grain = atomic_load_explicit(&p->grain, memory_order_relaxed), total = atomic_load_explicit(&p->total, memory_order_relaxed);
    uint32_t next = (uint32_t)t;
    if (next >= atomic_load_explicit(&p->chunks, memory_order_relaxed) || who >= atomic_load_explicit(&p->limit, memory_order_relaxed)) return;
    if (!atomic_compare_exchange_weak_explicit(&p->ticket, &t, t + 1, memory_order_acq_rel, memory_order_relaxed)) continue;
    int64_t lo = next * grain, hi = lo + grain;
    k(args, lo, hi < total ? hi : total, who);
    atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
  }
}
static void *work(void *arg) {
  worker *w = arg;
  ek_rt_pool *p = w->pool;
  uint32_t seen = 0;
  for (;;) {
    uint32_t e;
    for (unsigned n = 0; (e = atomic_load_explicit(&p->epoch, memory_order_acquire)) == seen; n++) {
      if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return NULL;
      if (n < SPIN) {
        PAUSE();
        continue;
      }
      atomic_fetch_add(&p->sleeping, 1); /* sequentially consistent with the caller's epoch store and sleeping load */
      if (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) futex_wait(&p->epoch, seen);
      atomic_fetch_sub(&p->sleeping, 1);
      n = 0;
    }
    seen = e;
    if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return NULL;
    claim(p, e, w->id);
  }
}
/* A forked child has none of the parent's threads, and may have caught its pool in the middle of a region. */
static bool forked(const ek_rt_pool *p) { return p->alive ? !*p->alive : p->pid != getpid(); }
static void reset(ek_rt_pool *p) {
  p->pid = getpid();
  if (p->alive) *p->alive = 1;
  p->started = 0;
  atomic_store(&p->sleeping, 0);
  atomic_store(&p->busy, 0);
}
static void start(ek_rt_pool *p) {
  for (; p->started + 1 < p->threads; p->started++) {
    worker *w = &p->workers[p->started];
    w->pool = p;
    w->id = (int64_t)p->started + 1;
    pthread_attr_t a;
    if (pthread_attr_init(&a)) break;
    pthread_attr_setstacksize(&a, 8u << 20);
    int bad = pthread_create(&w->thread, &a, work, w);
    pthread_attr_destroy(&a);
    if (bad) { /* fewer workers do the same work */
      p->threads = p->started + 1;
      break;
    }
  }
}
ek_rt_pool *ek_rt_pool_create(int64_t threads) {
  if (threads < 1) threads = 1;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  size_t bytes = sizeof(ek_rt_pool) + (size_t)threads * sizeof(worker);
  ek_rt_pool *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (!p) return NULL;
  memset(p, 0, bytes);
  p->threads = (uint32_t)threads;
#if defined(__linux__) && defined(MADV_WIPEONFORK)
  long page = sysconf(_SC_PAGESIZE);
  void *m = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m != MAP_FAILED && madvise(m, (size_t)page, MADV_WIPEONFORK)) {
    munmap(m, (size_t)page);
    m = MAP_FAILED;
  }
  p->alive = m == MAP_FAILED ? NULL : m;
#endif
  reset(p);
  return p;
}
void ek_rt_pool_destroy(ek_rt_pool *p) {
  if (!p) return;
  if (!forked(p)) {
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, MAX_THREADS);
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
  }
#ifdef __linux__
  if (p->alive) munmap(p->alive, (size_t)sysconf(_SC_PAGESIZE));
#endif
  free(p);
}
void ek_rt_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t total) {
  ek_rt_pool *p = call->pool;
  if (total <= 0) return;
  if (p && forked(p)) reset(p);
  if (!p || total == 1 || p->threads == 1 || call->threads <= 1 || atomic_exchange_explicit(&p->busy, 1, memory_order_acquire)) {
    k(args, 0, total, 0);
    return;
  }
  /* a few tickets per thread: a kernel reuses what it has in cache over the chunks of one ticket */
  int64_t most = (call->threads < p->threads ? call->threads : p->threads) * TICKETS, grain = (total + most - 1) / most, chunks = (total + grain - 1) / grain;
  if (p->started + 1 < p->threads) start(p);
  uint32_t e = atomic_load_explicit(&p->epoch, memory_order_relaxed) + 1;
  /* Close the old epoch before its fields change: a claim still looking at it fails. */
  atomic_store_explicit(&p->ticket, (uint64_t)e << 32 | UINT32_MAX, memory_order_seq_cst);
  atomic_store_explicit(&p->done, 0, memory_order_relaxed);
  atomic_store_explicit(&p->kernel, k, memory_order_relaxed);
  atomic_store_explicit(&p->args, args, memory_order_relaxed);
  atomic_store_explicit(&p->chunks, (uint32_t)chunks, memory_order_relaxed);
  atomic_store_explicit(&p->grain, grain, memory_order_relaxed);
  atomic_store_explicit(&p->total, total, memory_order_relaxed);
  atomic_store_explicit(&p->limit, call->threads, memory_order_relaxed);
  atomic_store_explicit(&p->ticket, (uint64_t)e << 32, memory_order_release);
  atomic_store(&p->epoch, e);
  uint32_t asleep = atomic_load(&p->sleeping);
  if (asleep) futex_wake(&p->epoch, chunks - 1 < asleep ? (int)chunks - 1 : (int)asleep);
  claim(p, e, 0);
  for (unsigned n = 0; atomic_load_explicit(&p->done, memory_order_acquire) < (uint32_t)chunks; n++) {
    if (n < YIELD_AFTER) PAUSE();
    else relax();
  }
  atomic_store_explicit(&p->busy, 0, memory_order_release);
}
