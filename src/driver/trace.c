/* When did what run in which thread? Events of one execute: each launch in the caller, and each piece of a launch that
 * a thread took. They are written without a lock, into room that is got beforehand; what does not fit is left out. */
#include "driver/driver.h"
#include <stdatomic.h>
#include <string.h>

enum { ROOM = 1 << 15 }; /* events */
struct trace {
  const memory *mem; /* where its memory comes from */
  int64_t began;     /* ns, when the execute began */
  atomic_size_t n;   /* number of events, which may exceed ROOM */
  ek_event v[ROOM];  /* the events */
};
typedef struct piece { /* stands in for the arguments of a launch: trace_piece calls the kernel itself */
  trace *t;            /* the trace */
  ek_rt_kernel k;      /* the kernel */
  const int64_t *args; /* its arguments */
  uint32_t launch;     /* number of the launch */
} piece;

trace *trace_new(const memory *mem) {
  trace *t = mem_zero(mem, sizeof *t);
  if (t) t->mem = mem;
  return t;
}
void trace_free(trace *t) {
  if (t) mem_put(t->mem, t);
}
void trace_begin(trace *t, int64_t now) {
  t->began = now;
  atomic_store(&t->n, 0);
}
void trace_add(trace *t, uint32_t launch, int64_t thread, bool part, int64_t from, int64_t to) {
  size_t i = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);
  if (i >= ROOM) return;
  t->v[i] = (ek_event){launch, (int32_t)thread, part, (double)(from - t->began) * 1e-6, (double)(to - from) * 1e-6};
}
static void trace_piece(const int64_t *args, int64_t lo, int64_t hi, int64_t worker) {
  const piece *p = (const void *)args;
  int64_t from = clock_ns();
  p->k(p->args, lo, hi, worker);
  trace_add(p->t, p->launch, worker, true, from, clock_ns());
}
void trace_launch(trace *t, uint32_t launch, ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks,
                  void (*parallel)(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks)) {
  piece p = {t, k, args, launch};
  parallel(call, trace_piece, (const int64_t *)(const void *)&p, chunks);
}
const ek_event *trace_events(const trace *t, size_t *n) {
  size_t all = atomic_load(&t->n);
  *n = all < ROOM ? all : ROOM;
  return t->v;
}
