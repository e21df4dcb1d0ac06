/* Whose threads does a run use? The pool of its session, a pool that the caller made, or the caller's own threads
 * behind a parallel-for; and how many are there to use. */
#include "driver/driver.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 1024, TICKETS = 8 };

int ek_threads(void) {
  const char *text = getenv("EINKORN_NUM_THREADS");
  char *end = NULL;
  long n = text && *text ? strtol(text, &end, 10) : 0;
  if (end && !*end && n >= 1 && n <= MOST) return (int)n;
  uint32_t cpus = cpu_count();
  return cpus > MOST ? MOST : (int)cpus;
}
int default_threads(int asked) { return asked > 0 ? asked : ek_threads(); }

struct ek_pool {
  ek_rt_pool *rt; /* the runtime's pool */
};
ek_pool *ek_pool_create(int threads) {
  if (threads < 0 || threads > MOST) return NULL;
  ek_pool *p = mem_zero(NULL, sizeof *p);
  if (p) p->rt = ek_rt_pool_create(default_threads(threads));
  if (p && p->rt) return p;
  mem_put(NULL, p);
  return NULL;
}
void ek_pool_destroy(ek_pool *p) {
  if (!p) return;
  ek_rt_pool_destroy(p->rt);
  mem_put(NULL, p);
}
ek_rt_pool *pool_of(ek_pool *p) { return p->rt; }

/* Threads of a pool start when a run wants them, so that a pool may be made for more than most runs want. */
ek_rt_pool *session_pool(ek_session *s, int threads) {
  pthread_mutex_lock(&s->lock);
  if (!s->pool) {
    int most = default_threads(0);
    s->pool_threads = threads > most ? threads : most;
    s->pool = ek_rt_pool_create(s->pool_threads);
  }
  ek_rt_pool *p = threads <= s->pool_threads ? s->pool : NULL;
  pthread_mutex_unlock(&s->lock);
  return p;
}

/* ---- the caller's threads: each task takes tickets from one counter, so that all are done whichever tasks run at
 * once, or one after the other ---- */
typedef struct share {
  ek_rt_kernel k;       /* the kernel */
  const int64_t *args;  /* its arguments */
  int64_t total;        /* number of chunks */
  int64_t grain;        /* chunks of a ticket */
  int64_t threads;      /* number of tasks */
  _Atomic int64_t next; /* next chunk that nobody has */
} share;
static void task(void *arg, int64_t i) {
  share *s = arg;
  if (i < 0 || i >= s->threads) return;
  for (;;) {
    int64_t lo = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed) * s->grain;
    if (lo >= s->total) return;
    s->k(s->args, lo, lo + s->grain < s->total ? lo + s->grain : s->total, i);
  }
}
void borrowed_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t total) {
  const borrowed *b = call->pool;
  if (total <= 1 || call->threads <= 1) {
    if (total > 0) k(args, 0, total, 0);
    return;
  }
  int64_t most = call->threads * TICKETS, grain = (total + most - 1) / most, tickets = (total + grain - 1) / grain;
  share s = {.k = k,
             .args = args,
             .total = total,
             .grain = grain,
             .threads = call->threads < tickets ? call->threads : tickets};
  b->parallel_for(b->user, s.threads, task, &s);
  task(&s, 0); /* nothing is left, unless a task was forgotten */
}
