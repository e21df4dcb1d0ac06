/* Many threads on one model that was saved as C: each has its own call record and memory; some have pools, two of
 * them share one, some compute alone. Made for ThreadSanitizer: kernels, pool and this file are built with
 * it, so that two chunks that touch the same place without order are told, and so is anything that runs of one
 * model should not share.
 *   threads SECONDS THREADS        with -DINFO=NAME_info
 * Every result must have the bits of a serial run. Exit: 0 good, 1 wrong, 77 no sizes were found that the model
 * accepts. */
#include "runtime/runtime.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const ek_rt_model *INFO(void);
enum { MOST_DIMS = 256, MOST_IO = 64 };

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static size_t element(int32_t type) { /* ONNX's codes */
  switch (type) {
  case 7:
  case 11:
  case 13:
    return 8;
  case 1:
  case 6:
  case 12:
    return 4;
  case 4:
  case 5:
  case 10:
  case 16:
    return 2;
  default:
    return 1;
  }
}
static void *room(size_t n) {
  void *p = aligned_alloc(64, (n + 64) / 64 * 64);
  if (!p) exit(2);
  memset(p, 0, n);
  return p;
}
/* Sizes that the model leaves open: equal names get equal sizes. */
static void sizes(const ek_rt_model *m, int64_t n, int64_t *dims) {
  int64_t at = 0;
  for (int64_t i = 0; i < m->inputs; i++)
    for (int32_t k = 0; k < m->in[i].rank; k++) dims[at++] = m->in[i].dims[k] >= 0 ? m->in[i].dims[k] : n;
}
static size_t bytes(const ek_rt_tensor *t, const int64_t *dims) {
  size_t n = element(t->type);
  for (int32_t k = 0; k < t->rank; k++)
    if (__builtin_mul_overflow(n, (size_t)dims[k], &n)) return SIZE_MAX;
  return n;
}
enum { ROOM = 64 << 20 }; /* bytes: as many threads times that must fit into memory */
static bool small(const ek_rt_model *m, const int64_t *dims) {
  for (int64_t i = 0; i < m->outputs; dims += m->out[i++].rank)
    if (bytes(&m->out[i], dims) > ROOM) return false;
  return true;
}
static uint32_t dice(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*s >> 40);
}
static void fill(int32_t type, void *p, size_t n, uint64_t *s) { /* small values: also good as indices */
  for (size_t i = 0; i < n / element(type); i++) switch (type) {
    case 1:
      ((float *)p)[i] = (float)dice(s) / 8388608.0f - 1.0f;
      break;
    case 11:
      ((double *)p)[i] = (double)dice(s) / 8388608.0 - 1.0;
      break;
    case 7:
    case 13:
      ((int64_t *)p)[i] = (int64_t)(dice(s) & 1);
      break;
    case 6:
    case 12:
      ((int32_t *)p)[i] = (int32_t)(dice(s) & 1);
      break;
    case 10:
      ((uint16_t *)p)[i] = (uint16_t)(0x3000 + (dice(s) & 0x7ff));
      break;
    case 16:
      ((uint16_t *)p)[i] = (uint16_t)(0x3e00 + (dice(s) & 0x7f));
      break;
    case 4:
    case 5:
      ((uint16_t *)p)[i] = (uint16_t)(dice(s) & 1);
      break;
    default:
      ((uint8_t *)p)[i] = (uint8_t)(dice(s) & 1);
    }
}

typedef struct job {
  const ek_rt_model *m;
  int64_t in_dims[MOST_DIMS], out_dims[MOST_DIMS];
  const void *in[MOST_IO];
  void *out[MOST_IO], *want[MOST_IO];
  size_t room[MOST_IO];
  ek_rt_pool *pool;
  int64_t threads;
  double until;
  long runs;
  const char *wrong;
} job;
static int64_t prepare(job *j, ek_rt_call *call) {
  *call = (ek_rt_call){.in = j->in,
                       .out = j->out,
                       .in_dims = j->in_dims,
                       .out_dims = j->out_dims,
                       .threads = j->threads,
                       .pool = j->pool,
                       .parallel = ek_rt_parallel};
  return j->m->plan(call);
}
static void *work(void *p) {
  job *j = p;
  ek_rt_call call;
  if (prepare(j, &call)) {
    j->wrong = call.message;
    return NULL;
  }
  call.arena = room((size_t)call.arena_bytes);
  int64_t at = 0;
  for (int64_t i = 0; i < j->m->outputs; at += j->m->out[i++].rank) j->out[i] = room(j->room[i]);
  do {
    if (j->m->run(&call)) j->wrong = call.message;
    for (int64_t i = 0; !j->wrong && i < j->m->outputs; i++)
      if (memcmp(j->out[i], j->want[i], j->room[i])) j->wrong = "other bits than those of the serial run";
    j->runs++;
  } while (!j->wrong && seconds() < j->until);
  for (int64_t i = 0; i < j->m->outputs; i++) free(j->out[i]);
  free(call.arena);
  return NULL;
}
int main(int argc, char **argv) {
  double for_seconds = argc > 1 ? atof(argv[1]) : 1;
  int n = argc > 2 ? atoi(argv[2]) : 8;
  const ek_rt_model *m = INFO();
  static job first, jobs[64];
  if (n < 1 || n > 64 || m->inputs > MOST_IO || m->outputs > MOST_IO) return 77;
  static const int64_t tries[] = {6, 4, 8, 16, 2, 1, 3, 12, 32, 64, 100};
  ek_rt_call call;
  size_t t = 0;
  first.m = m, first.threads = 1;
  for (; t < sizeof tries / sizeof *tries; t++) {
    sizes(m, tries[t], first.in_dims);
    if (!prepare(&first, &call) && call.arena_bytes < ROOM && small(m, first.out_dims)) break;
  }
  if (t == sizeof tries / sizeof *tries) {
    printf("no sizes were found that it accepts and that are small\n");
    return 77;
  }
  uint64_t seed = 1;
  int64_t at = 0;
  for (int64_t i = 0; i < m->inputs; at += m->in[i++].rank) {
    size_t b = bytes(&m->in[i], first.in_dims + at);
    void *data = room(b);
    fill(m->in[i].type, data, b, &seed);
    first.in[i] = data;
  }
  at = 0;
  for (int64_t i = 0; i < m->outputs; at += m->out[i++].rank) {
    first.room[i] = bytes(&m->out[i], first.out_dims + at);
    first.out[i] = first.want[i] = room(first.room[i]);
  }
  call.arena = room((size_t)call.arena_bytes);
  int64_t code = m->run(&call);
  if (code == EK_RT_ROOM) { /* its threads would each have to ask for their memory */
    printf("sizes that only a run finds need more memory\n");
    return 77;
  }
  if (code) {
    printf("%s\n", call.message ? call.message : "?");
    return 77;
  }
  pthread_t id[64];
  ek_rt_pool *shared = ek_rt_pool_create(4);
  double until = seconds() + for_seconds;
  for (int i = 0; i < n; i++) {
    jobs[i] = first;
    jobs[i].until = until;
    jobs[i].threads = i % 4 ? 1 + i % 4 : 1;
    jobs[i].pool = i % 4 == 0 ? NULL : i % 4 == 1 ? ek_rt_pool_create(2) : shared;
  }
  for (int i = 0; i < n; i++)
    if (pthread_create(&id[i], NULL, work, &jobs[i])) return 2;
  long runs = 0;
  const char *wrong = NULL;
  for (int i = 0; i < n; i++) {
    pthread_join(id[i], NULL);
    runs += jobs[i].runs;
    if (jobs[i].wrong) wrong = jobs[i].wrong;
    if (jobs[i].pool != shared) ek_rt_pool_destroy(jobs[i].pool);
  }
  ek_rt_pool_destroy(shared);
  for (int64_t i = 0; i < m->inputs; i++) free((void *)(uintptr_t)first.in[i]);
  for (int64_t i = 0; i < m->outputs; i++) free(first.want[i]);
  free(call.arena);
  if (wrong) printf("%s\n", wrong);
  printf("%ld runs in %d threads\n", runs, n);
  return wrong ? 1 : 0;
}
