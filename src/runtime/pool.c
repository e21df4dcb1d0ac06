/* How do chunks of a kernel run on several threads, without waiting for a thread that is not there?
 *
 * By tickets. A region's chunks are cut into tickets, and the tickets divided evenly among the threads that may take
 * part: each has a slot, one 64-bit word (epoch << 32 | next << 16 | end), from which it takes tickets at the front,
 * and others, when their own slot is empty, at the back, by compare-and-swap; a stale epoch can take nothing. So a
 * thread gets the same part of equal regions each time, and finds in its caches what it had there. The caller publishes
 * a region, takes tickets itself, and then waits only until all that were taken are done: a worker that is asleep or
 * was scheduled away before it took anything is never waited for.
 *
 *   caller:  region and slot of each thread, (e, 0, n) -> epoch = e, wake sleepers -> claim ... -> wait until
 *            done has grown by those that it did not run itself
 *   worker:  own slot changed -> read region -> claim ... (a claim by compare-and-swap on epoch e proves that
 *            region e was not over, so that what was read belongs to it)
 *
 * A worker that was scheduled away while it held a ticket is helped by the waiting caller: place.c brings it to the
 * caller's processor, which is free just then. Workers spin for a while after each region (a run of a model is many
 * regions with short gaps), yielding to whoever else wants the processor, then sleep on a futex. They start on the
 * first parallel call that wants them, with all signals blocked. Nothing is allocated in ek_rt_parallel after that.
 * After fork the child has no workers: it notices by a page that the kernel wipes on fork (or, where there is none, by
 * its process id) and starts its own. One region at a time: a second caller of the same pool, or a call from inside a
 * region, runs its chunks itself. A pool serves calls that are laid out for different numbers of threads: workers whose
 * number is too high are neither woken nor let in. Needs only libc and pthreads.
 */
#include "runtime/pool.h"
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sched.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif
enum { TICKETS = 8, MAX_THREADS = 1024, LAST_BIT = 31 };
enum {
  SPIN = 2000,
  SPIN_WAIT = 200,
  /* pauses, 10 to 40 ns each: of a worker before the first yield, of the caller before it looks after the
        * workers, between two such looks */
  BETWEEN_LOOKS = 16
};
enum {
  AWAKE_NS = 300000, /* how long a worker looks out for the next region before it sleeps */
  GAP_NS = 100000    /* a look that took longer than this: somebody else uses the processor */
};
enum { HERE = 1, FORKED = 0, RESET = 2 };

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* Workers sleep on the epoch, each with the bit of its number, so that the caller wakes those it can use. */
static uint32_t bit_of(int64_t id) { return 1u << (id < LAST_BIT ? id : LAST_BIT); }
static void futex_wait(_Atomic uint32_t *p, uint32_t value, uint32_t bits) {
#ifdef __linux__
  syscall(SYS_futex, p, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, bits);
#else
  (void)p, (void)value, (void)bits;
  usleep(50);
#endif
}
static void futex_wake(_Atomic uint32_t *p, int n, uint32_t bits) {
#ifdef __linux__
  syscall(SYS_futex, p, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, bits);
#else
  (void)p, (void)n, (void)bits;
#endif
}
/* where part i begins when `total` things are divided into `parts` */
static int64_t part(int64_t i, int64_t parts, int64_t total) { return total / parts * i + total % parts * i / parts; }
/* Claims and runs tickets of epoch e until there are none. Workers tell of theirs; the caller is given the number of
 * its own. */
static uint32_t claim(ek_rt_pool *p, uint32_t e, int64_t who) {
  int64_t at = who, tried = 0;
  uint32_t ran = 0; /* not yet told: until they are the epoch cannot end */
  for (;;) {
    worker *w = &p->workers[at];
    uint64_t t = atomic_load_explicit(&w->slot, memory_order_acquire);
    if ((uint32_t)(t >> 32) != e) return ran;
    ek_rt_kernel k = atomic_load_explicit(&w->kernel, memory_order_relaxed);
    const int64_t *args = atomic_load_explicit(&w->args, memory_order_relaxed);
    int64_t total = atomic_load_explicit(&w->total, memory_order_relaxed),
            limit = atomic_load_explicit(&w->limit, memory_order_relaxed);
    uint32_t tickets = atomic_load_explicit(&w->tickets, memory_order_relaxed), next = (uint32_t)t >> 16,
             end = (uint32_t)t & 0xffff;
    if (next >= end) {
      /* once for all of them, and before it asks others, which takes a while */
      if (who && ran) atomic_fetch_add_explicit(&p->done, ran, memory_order_release), ran = 0;
      if (++tried >= limit) return ran;
      at = at + 1 < limit ? at + 1 : 0;
      continue;
    }
    bool own = at == who;
    __builtin_prefetch(args); /* while the claim waits for its line */
    __builtin_prefetch((const void *)((uintptr_t)args + 64));
    if (!atomic_compare_exchange_weak_explicit(&w->slot, &t, own ? t + 0x10000 : t - 1, memory_order_acq_rel,
                                               memory_order_relaxed))
      continue;
    int64_t ticket = part(at, limit, tickets) + (own ? next : end - 1), lo = part(ticket, tickets, total),
            hi = part(ticket + 1, tickets, total);
    k(args, lo, hi, who);
    ran++;
  }
}
/* Waits for a region of an epoch other than `seen`. False: the pool ends. */
static bool next_epoch(worker *w, uint32_t seen, uint32_t *e) {
  ek_rt_pool *p = w->pool;
  int64_t since = 0, before = 0;
  for (unsigned n = 0; (*e = (uint32_t)(atomic_load_explicit(&w->slot, memory_order_acquire) >> 32)) == seen; n++) {
    if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return false;
    PAUSE();
    bool tired = atomic_load_explicit(&w->tired, memory_order_relaxed);
    if (!tired) {
      if (n < SPIN || n % BETWEEN_LOOKS) continue;
      sched_yield();
      int64_t now = now_ns();
      if (!since) since = before = now;
      if (now - before > GAP_NS)
        ek_rt_place_rest(w, now);
      else if (now - since < AWAKE_NS) {
        before = now;
        continue;
      }
    }
    atomic_store_explicit(&w->tired, 0, memory_order_relaxed);
    uint32_t bit = bit_of(w->id);
    /* sequentially consistent with the caller's stores of slots and epoch and its load of `sleeping` */
    atomic_fetch_or(&p->sleeping, bit);
    if (w->id >= LAST_BIT) atomic_fetch_add(&p->sleeping_far, 1);
    uint32_t last = atomic_load(&p->epoch); /* the last region may be one that this worker was not in */
    if ((uint32_t)(atomic_load(&w->slot) >> 32) == seen && !atomic_load(&p->stop)) futex_wait(&p->epoch, last, bit);
    if (w->id < LAST_BIT)
      atomic_fetch_and(&p->sleeping, ~bit);
    else if (atomic_fetch_sub(&p->sleeping_far, 1) == 1)
      atomic_fetch_and(&p->sleeping, ~bit);
    since = 0, n = 0;
  }
  return !atomic_load_explicit(&p->stop, memory_order_relaxed);
}
static void *work(void *arg) {
  worker *w = arg;
  uint32_t seen = 0;
#ifdef __linux__
  prctl(PR_SET_NAME, "einkorn", 0, 0, 0);
#endif
  ek_rt_place_enter(w);
  while (next_epoch(w, seen, &seen)) {
    ek_rt_place_region(w);
    atomic_store_explicit(&w->inside, 1, memory_order_relaxed);
    claim(w->pool, seen, w->id);
    atomic_store_explicit(&w->inside, 0, memory_order_relaxed);
  }
  ek_rt_place_leave(w);
  return NULL;
}

/* As they are before any is started: not when one starts, for those that run already may look at its slot. */
static void clear_workers(ek_rt_pool *p) {
  for (uint32_t i = 0; i < p->threads; i++) p->workers[i] = (worker){.pool = p, .id = i, .avoid = -1};
}

/* ---- fork: a child has none of the parent's threads, and may have caught its pool in the middle of a region ---- */
static void forget_workers(ek_rt_pool *p) {
  atomic_store(&p->started, 0);
  atomic_store(&p->sleeping, 0);
  atomic_store(&p->sleeping_far, 0);
  atomic_store(&p->busy, 0);
  p->due = atomic_load(&p->done);
  clear_workers(p);
}
/* Is the pool of this process? Made so if it is a parent's; false: another thread of the child is just doing that. */
static bool ours(ek_rt_pool *p) {
  if (p->alive) {
    uint32_t was = atomic_load_explicit(p->alive, memory_order_acquire);
    if (was == HERE) return true;
    if (was == RESET || !atomic_compare_exchange_strong(p->alive, &was, RESET)) return false;
    forget_workers(p);
    atomic_store_explicit(p->alive, HERE, memory_order_release);
    return true;
  }
  int32_t me = (int32_t)getpid(), was = atomic_load_explicit(&p->pid, memory_order_acquire);
  if (was == me) return true;
  if (was == -me || !atomic_compare_exchange_strong(&p->pid, &was, -me)) return false;
  forget_workers(p);
  atomic_store_explicit(&p->pid, me, memory_order_release);
  return true;
}
static bool forked(const ek_rt_pool *p) {
  return p->alive ? atomic_load(p->alive) != HERE : atomic_load(&p->pid) != (int32_t)getpid();
}

/* ---- making and ending ----------------------------------------------------------------------- */
static bool start_one(ek_rt_pool *p, uint32_t i) {
  worker *w = &p->workers[i];
  pthread_attr_t a;
  sigset_t all, before;
  if (pthread_attr_init(&a)) return false;
  pthread_attr_setstacksize(&a, 8u << 20);
  sigfillset(&all); /* the program's signal handlers belong to the program's threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int bad = pthread_create(&w->thread, &a, work, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&a);
  return !bad;
}
static void start(ek_rt_pool *p, uint32_t workers) {
  for (uint32_t n = atomic_load_explicit(&p->started, memory_order_relaxed); n < workers; n++) {
    if (!start_one(p, n + 1)) { /* fewer workers do the same work */
      p->threads = n + 1;
      break;
    }
    atomic_store_explicit(&p->started, n + 1, memory_order_relaxed);
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
  clear_workers(p);
  atomic_store(&p->pid, (int32_t)getpid());
#if defined(__linux__) && defined(MADV_WIPEONFORK)
  long page = sysconf(_SC_PAGESIZE);
  void *m = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m != MAP_FAILED && madvise(m, (size_t)page, MADV_WIPEONFORK)) {
    munmap(m, (size_t)page);
    m = MAP_FAILED;
  }
  p->alive = m == MAP_FAILED ? NULL : m;
  if (p->alive) atomic_store(p->alive, HERE);
#endif
  return p;
}
void ek_rt_pool_destroy(ek_rt_pool *p) {
  if (!p) return;
  if (!forked(p)) {
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, MAX_THREADS, ~0u);
    for (uint32_t i = 1, n = atomic_load(&p->started); i <= n; i++) pthread_join(p->workers[i].thread, NULL);
  }
#ifdef __linux__
  if (p->alive) munmap((void *)p->alive, (size_t)sysconf(_SC_PAGESIZE));
#endif
  free(p);
}

/* ---- a region -------------------------------------------------------------------------------- */
/* Wakes the workers of a region, but not those who rest. */
static void wake(ek_rt_pool *p, int64_t threads) {
  uint32_t usable = threads > LAST_BIT ? ~1u : (1u << threads) - 2, asleep = atomic_load(&p->sleeping) & usable;
  if (!asleep) return;
  int64_t now = now_ns();
  for (int64_t i = 1; i < LAST_BIT && i < threads; i++)
    if (asleep & bit_of(i) && atomic_load_explicit(&p->workers[i].rest, memory_order_relaxed) > now)
      asleep &= ~bit_of(i);
  if (!asleep) return;
  int64_t n = asleep >> LAST_BIT ? (int64_t)atomic_load(&p->sleeping_far) : 0;
  for (uint32_t b = asleep; b; b &= b - 1) n++;
  ek_rt_place_wake(p, asleep);
  futex_wake(&p->epoch, threads - 1 < n ? (int)threads - 1 : (int)n, asleep);
}
static void wait_done(ek_rt_pool *p) {
  placing late = {0};
  for (unsigned n = 0; atomic_load_explicit(&p->done, memory_order_acquire) != p->due; n++) {
    PAUSE();
    if (n < SPIN_WAIT || n % BETWEEN_LOOKS) continue;
    ek_rt_place_help(p, &late, now_ns());
    if (late.yield) sched_yield();
  }
}
void ek_rt_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t total) {
  ek_rt_pool *p = call->pool;
  if (total <= 0) return;
  if (!p || total == 1 || p->threads == 1 || call->threads <= 1 || !ours(p) ||
      atomic_exchange_explicit(&p->busy, 1, memory_order_acquire)) {
    k(args, 0, total, 0);
    return;
  }
  /* a few tickets per thread: a kernel reuses what it has in cache over the chunks of one ticket */
  int64_t threads = call->threads < p->threads ? call->threads : p->threads,
          tickets = total < threads * TICKETS ? total : threads * TICKETS;
  if (threads > tickets) threads = tickets;
  if (atomic_load_explicit(&p->started, memory_order_relaxed) + 1 < threads) start(p, (uint32_t)threads - 1);
  uint32_t e = atomic_load_explicit(&p->epoch, memory_order_relaxed) + 1;
  int32_t cpu = ek_rt_place_cpu();
  for (int64_t i = threads; i-- > 0;) { /* who has to be told first, who knows last */
    worker *w = &p->workers[i];
    atomic_store_explicit(&w->kernel, k, memory_order_relaxed);
    atomic_store_explicit(&w->args, args, memory_order_relaxed);
    atomic_store_explicit(&w->total, total, memory_order_relaxed);
    atomic_store_explicit(&w->tickets, (uint32_t)tickets, memory_order_relaxed);
    atomic_store_explicit(&w->limit, (uint32_t)threads, memory_order_relaxed);
    atomic_store_explicit(&w->cpu, cpu, memory_order_relaxed);
    atomic_store_explicit(&w->slot,
                          (uint64_t)e << 32 | (uint64_t)(part(i + 1, threads, tickets) - part(i, threads, tickets)),
                          memory_order_release);
  }
  atomic_store(&p->epoch, e);
  wake(p, threads);
  p->due += (uint32_t)tickets - claim(p, e, 0);
  wait_done(p);
  atomic_store_explicit(&p->busy, 0, memory_order_release);
}
