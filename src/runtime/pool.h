/* Private to runtime: what a pool and its workers are; where their threads stand (place.c). */
#ifndef EK_RUNTIME_POOL_H
#define EK_RUNTIME_POOL_H
#include "runtime/runtime.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

typedef struct worker {
  _Alignas(64) _Atomic uint64_t slot; /* the thread's tickets: epoch << 32 | next << 16 | end */
  /* the region, the same for all threads of it: written before the slot, read before a claim. It lies beside the
   * slot because a thread that learns of the region by one line waits least */
  _Atomic(ek_rt_kernel) kernel;
  _Atomic(const int64_t *) args; /* arguments of the region's kernel */
  _Atomic int64_t total;         /* chunks */
  _Atomic uint32_t tickets;      /* pieces of the kernel's chunks, of equal size or one apart */
  /* threads that take part, each with its slot: the caller has laid out scratch memory for so many */
  _Atomic uint32_t limit;
  _Atomic int32_t cpu;           /* the processor on which the caller was when the region began; -1: not known */
  _Alignas(64) ek_rt_pool *pool; /* the pool that it belongs to */
  int64_t id;                    /* 0 is the caller, which has only its slot and region here */
  pthread_t thread;              /* the system's handle of the thread */
  _Atomic uint32_t inside;       /* may hold a claimed ticket */
  _Atomic int32_t tid;           /* the system's number; 0: has not begun, or has ended */
  _Atomic int32_t avoid;         /* the processor it keeps off, -1: none */
  _Atomic uint32_t tired;        /* its processor is wanted by others: it is to sleep */
  _Atomic int64_t rest;          /* not before this time is it woken */
  _Atomic int64_t rest_ns;       /* how long the last rest was */
  _Atomic uint32_t moving;       /* somebody changes its place just now, and has the following */
#ifdef __linux__
  uint32_t placed; /* its affinity was changed here, to `mine`; the system's choice is `base` */
  cpu_set_t mine;  /* the processors that `avoid` leaves to it */
  cpu_set_t base;  /* the processors that the system let it have */
#endif
} worker;
struct ek_rt_pool {
  _Alignas(64) _Atomic uint32_t done;  /* tickets that workers finished, ever: modulo 2^32, as epoch */
  _Alignas(64) _Atomic uint32_t epoch; /* number of the last region; futex of workers that sleep */
  _Atomic uint32_t busy;               /* a region is running */
  uint32_t due;                        /* what `done` comes to when the region is over; the holder's of `busy` */
  _Alignas(64) _Atomic uint32_t stop;  /* the pool ends */
  _Atomic uint32_t sleeping;           /* a bit per worker, by its number; the last one is shared by all further ones */
  _Atomic uint32_t sleeping_far;       /* how many share it */
  _Atomic uint32_t started;            /* workers running; changed by the holder of `busy` */
  _Atomic uint32_t threads;            /* most, the caller included; fewer when the system gives no more */
  _Atomic uint32_t crowded;            /* a worker was found on the caller's processor */
  /* whose workers they are; negative: being taken over. Used where `alive` is not available */
  _Atomic int32_t pid;
  _Atomic uint32_t *alive; /* HERE; a forked child reads FORKED. NULL: not available */
  worker workers[];        /* [0]: slot and region of the caller */
};

/* ---- place.c: threads and processors. All of it is advice to the system: where it cannot be given, nothing happens
 * ---- */
typedef struct placing {
  int64_t since, worker_ns; /* when the worker's clock was read, and what it said */
  int64_t worker;           /* its number; 0: none is watched */
  _Bool begun, yield;       /* yield: the one waited for can only run here */
} placing;
int32_t ek_rt_place_cpu(void);     /* processor of the calling thread; -1: not known */
void ek_rt_place_enter(worker *w); /* called by a worker first of all; ek_rt_place_leave is called last */
void ek_rt_place_leave(worker *w);
/* called by a worker that saw a new region: leaves the caller's processor to the caller */
void ek_rt_place_region(worker *w);
void ek_rt_place_wake(ek_rt_pool *p, uint32_t bits); /* called by the caller, before it wakes these workers */
void ek_rt_place_rest(worker *w, int64_t now_ns);    /* the worker's processor is wanted by others */
/* called by the caller, again and again while it waits for tickets that were taken; late starts from {0} */
void ek_rt_place_help(ek_rt_pool *p, placing *late, int64_t now_ns);
#endif
