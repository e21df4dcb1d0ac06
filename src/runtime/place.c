/* On which processor do a pool's threads stand?
 *
 * Mostly the system's business. Two cases cost too much to be left to it:
 *
 * 1. A worker is woken on the caller's own processor although another one is free (schedulers pack threads to
 *   save power). The two then take turns, and two threads are as fast as one, for as long as the process lives.
 *    A worker that finds itself there takes the caller's processor out of its affinity; once that was seen, the
 *    caller does it for the workers it wakes.
 * 2. A worker holds a ticket and another process got its processor. The caller has nothing left to do but to
 *   wait, up to a whole slice of the scheduler. Two readings of the worker's processor-time clock tell that
 *    it stands still; then it is moved to the caller's processor, which is free as soon as the caller yields.
 *
 * A worker that was in the second case, or had to wait for its processor while it looked out for work, rests for
 * 1 ms, and longer when that happens again soon, up to 64 ms: the caller does its work meanwhile. So where
 * every processor is wanted by others, a pool comes to nearly nothing, which is what one thread would take.
 *
 * Only workers are moved, never a thread of the program, and only within the affinity that they were given:
 * `base` is what the system says unless it is what was set here. Where such calls are forbidden nothing changes.
 */
#include "runtime/pool.h"
#include <string.h>
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 20000, WAKE_MOVES = 8 };
enum { REST_NS = 1000000, LONGEST_REST = 64000000, SOON_NS = 20000000 };

int32_t ek_rt_place_cpu(void) { return sched_getcpu(); }
static _Bool begin_move(worker *w) { return !atomic_exchange_explicit(&w->moving, 1, memory_order_acquire); }
static void end_move(worker *w) { atomic_store_explicit(&w->moving, 0, memory_order_release); }

/* The affinity without what was changed here. */
static _Bool base_of(worker *w, int32_t tid, cpu_set_t *set) {
  if (!tid || sched_getaffinity(tid, sizeof *set, set)) return 0;
  if (w->placed && CPU_EQUAL(set, &w->mine))
    *set = w->base;
  else
    w->base = *set;
  return 1;
}
static void set_to(worker *w, int32_t tid, const cpu_set_t *set) {
  if (sched_setaffinity(tid, sizeof *set, set)) return;
  w->mine = *set;
  w->placed = 1;
}
static void keep_off(worker *w, int32_t cpu) {
  if (!begin_move(w)) return;
  cpu_set_t set;
  int32_t tid = atomic_load(&w->tid);
  /* noted also when it cannot be done, so that it is not tried again and again */
  atomic_store_explicit(&w->avoid, cpu, memory_order_relaxed);
  if (cpu < CPU_SETSIZE && base_of(w, tid, &set)) {
    CPU_CLR(cpu, &set);
    if (CPU_COUNT(&set)) set_to(w, tid, &set);
  }
  end_move(w);
}
static void bring_to(worker *w, int32_t cpu) {
  if (!begin_move(w)) return;
  cpu_set_t set, here;
  int32_t tid = atomic_load(&w->tid);
  if (cpu >= 0 && cpu < CPU_SETSIZE && base_of(w, tid, &set) && CPU_ISSET(cpu, &set)) {
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    set_to(w, tid, &here);
    atomic_store_explicit(&w->avoid, -1, memory_order_relaxed);
  }
  end_move(w);
}

void ek_rt_place_enter(worker *w) { atomic_store(&w->tid, (int32_t)syscall(SYS_gettid)); }
void ek_rt_place_leave(worker *w) { /* the system may give the thread's number to another thread soon */
  while (!begin_move(w)) sched_yield();
  atomic_store(&w->tid, 0);
  end_move(w);
}
void ek_rt_place_region(worker *w) {
  int32_t cpu = atomic_load_explicit(&w->cpu, memory_order_relaxed);
  if (cpu < 0 || atomic_load_explicit(&w->avoid, memory_order_relaxed) == cpu || sched_getcpu() != cpu) return;
  atomic_store_explicit(&w->pool->crowded, 1, memory_order_relaxed);
  keep_off(w, cpu);
}
void ek_rt_place_wake(ek_rt_pool *p, uint32_t bits) {
  int32_t cpu = atomic_load_explicit(&p->workers[0].cpu, memory_order_relaxed);
  if (cpu < 0 || !atomic_load_explicit(&p->crowded, memory_order_relaxed)) return;
  for (uint32_t i = 1; i <= WAKE_MOVES && i <= atomic_load_explicit(&p->started, memory_order_relaxed); i++)
    if (bits >> i & 1 && atomic_load_explicit(&p->workers[i].avoid, memory_order_relaxed) != cpu)
      keep_off(&p->workers[i], cpu);
}

void ek_rt_place_rest(worker *w, int64_t now) {
  int64_t last = atomic_load_explicit(&w->rest, memory_order_relaxed),
          ns = atomic_load_explicit(&w->rest_ns, memory_order_relaxed) * 2;
  if (!last || now - last > SOON_NS) ns = REST_NS;
  if (ns > LONGEST_REST) ns = LONGEST_REST;
  atomic_store_explicit(&w->rest_ns, ns, memory_order_relaxed);
  atomic_store_explicit(&w->rest, now + ns, memory_order_relaxed);
  atomic_store_explicit(&w->tired, 1, memory_order_relaxed);
}
static _Bool cpu_time(const worker *w, int64_t *ns) {
  clockid_t id;
  struct timespec t;
  if (pthread_getcpuclockid(w->thread, &id) || clock_gettime(id, &t)) return 0;
  *ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  return 1;
}
/* One worker is watched at a time. */
static void watch_next(ek_rt_pool *p, placing *late, int64_t now) {
  uint32_t n = atomic_load_explicit(&p->started, memory_order_relaxed);
  late->since = now;
  for (uint32_t tried = 0; tried < n; tried++) {
    late->worker = late->worker % n + 1;
    const worker *w = &p->workers[late->worker];
    if (atomic_load_explicit(&w->inside, memory_order_relaxed) && cpu_time(w, &late->worker_ns)) return;
  }
  late->worker = 0;
}
void ek_rt_place_help(ek_rt_pool *p, placing *late, int64_t now) {
  int64_t ns;
  if (!late->begun) {
    late->begun = 1;
    watch_next(p, late, now);
  }
  if (now - late->since < LOOK_NS) return;
  worker *w = late->worker ? &p->workers[late->worker] : NULL;
  if (w && atomic_load_explicit(&w->inside, memory_order_relaxed) && cpu_time(w, &ns) &&
      ns - late->worker_ns < (now - late->since) / 4) {
    bring_to(w, sched_getcpu());
    ek_rt_place_rest(w, now);
    late->yield = 1;
  }
  watch_next(p, late, now);
}
#else
int32_t ek_rt_place_cpu(void) { return -1; }
void ek_rt_place_enter(worker *w) { (void)w; }
void ek_rt_place_leave(worker *w) { (void)w; }
void ek_rt_place_region(worker *w) { (void)w; }
void ek_rt_place_wake(ek_rt_pool *p, uint32_t bits) { (void)p, (void)bits; }
void ek_rt_place_rest(worker *w, int64_t now) { (void)w, (void)now; }
void ek_rt_place_help(ek_rt_pool *p, placing *late, int64_t now) { (void)p, (void)late, (void)now; }
#endif
