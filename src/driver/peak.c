/* How many f32 multiply-adds does this machine do just now, and how many bytes does it read, from each cache and
 * from memory? Loops of independent fused multiply-adds on registers, and of loads, written as loop programs and
 * compiled like any kernel, so that they serve every target; the best of many short bursts, since what disturbs a
 * burst only slows it. */
#include "driver/driver.h"
#include <string.h>

enum { ROUNDS = 4000, STREAMS = 8, OUT = 128 /* elements of a worker's results */ };
typedef struct peak {
  const char *target; /* name of the machine */
  int threads;        /* threads to measure */
  double ms;          /* milliseconds for each figure */
  ek_machine *out;    /* gets the figures */
  bool reads;         /* also the bandwidths */
} peak;

/* acc[i] = acc[i] * x + y for all accumulators, ROUNDS times a chunk; x and y come from memory, so that nothing
 * folds */
static double peak_kernel(lmodule *m, const target *t) { /* returns flops of a chunk */
  lfunc *f = loop_func(m, LF_KERNEL, "peak", "independent multiply-adds on registers");
  lbuild b = loop_builder(f);
  uint32_t lanes = target_lanes(t, ET_F32), n = t->vector_registers >= 32 ? 24 : t->vector_registers >= 16 ? 12 : 6;
  ltype v = lt(ET_F32, lanes);
  lv p = lb_param(&b, "p", lptr(ET_F32), LP_READ | LP_WRITE, 64), i;
  lv x = lb_splat(&b, (uint16_t)lanes, lb_load(&b, lt(ET_F32, 1), p, lb_int(&b, 0))),
     y = lb_splat(&b, (uint16_t)lanes, lb_load(&b, lt(ET_F32, 1), p, lb_int(&b, 1)));
  lv acc[32];
  for (uint32_t k = 0; k < n; k++) acc[k] = lb_reg(&b, lb_load(&b, v, p, lb_int(&b, 16)));
  lb_for(&b, "i", lb_mul(&b, lb_lo(&b), lb_int(&b, ROUNDS)), lb_mul(&b, lb_hi(&b), lb_int(&b, ROUNDS)), lb_int(&b, 1),
         0, &i);
  for (uint32_t k = 0; k < n; k++) {
    lv a = lb_get(&b, acc[k]);
    lb_set(&b, acc[k],
           t->fma ? lb_op(&b, OP_FMA, v, a, x, y) : lb_op(&b, OP_ADD, v, lb_op(&b, OP_MUL, v, a, x, 0), y, 0));
  }
  lb_end(&b);
  lv sum = lb_get(&b, acc[0]);
  for (uint32_t k = 1; k < n; k++) sum = lb_op(&b, OP_ADD, v, sum, lb_get(&b, acc[k]), 0);
  lb_store(&b, p, lb_addi(&b, lb_muli(&b, lb_worker(&b), 128), 128), sum);
  return 2.0 * n * lanes * ROUNDS;
}
/* Every chunk reads the n elements of its worker once. */
static void read_kernel(lmodule *m, const target *t) {
  lfunc *f = loop_func(m, LF_KERNEL, "read", "independent loads");
  lbuild b = loop_builder(f);
  uint32_t lanes = target_lanes(t, ET_F32);
  ltype v = lt(ET_F32, lanes);
  lv p = lb_param(&b, "p", lptr(ET_F32), LP_READ, 64), n = lb_param(&b, "n", lt(ET_I64, 1), 0, 0),
     out = lb_param(&b, "out", lptr(ET_F32), LP_READ | LP_WRITE, 64), r, i;
  lv base = lb_mul(&b, lb_worker(&b), n), acc[STREAMS];
  for (uint32_t k = 0; k < STREAMS; k++) acc[k] = lb_reg(&b, lb_load(&b, v, out, lb_int(&b, 0)));
  lb_for(&b, "r", lb_lo(&b), lb_hi(&b), lb_int(&b, 1), 0, &r);
  lb_for(&b, "i", lb_int(&b, 0), n, lb_int(&b, (int64_t)STREAMS * lanes), 0, &i);
  for (uint32_t k = 0; k < STREAMS; k++)
    lb_set(&b, acc[k],
           lb_op(&b, OP_ADD, v, lb_get(&b, acc[k]),
                 lb_load(&b, v, p, lb_add(&b, base, lb_addi(&b, i, (int64_t)k * lanes))), 0));
  lb_end(&b);
  lb_end(&b);
  lv sum = lb_get(&b, acc[0]);
  for (uint32_t k = 1; k < STREAMS; k++) sum = lb_op(&b, OP_ADD, v, sum, lb_get(&b, acc[k]), 0);
  lb_store(&b, out, lb_addi(&b, lb_muli(&b, lb_worker(&b), OUT), OUT), sum);
}
/* Operations per second of the best burst, in 10^9. */
static double bursts(ek_rt_kernel k, const int64_t *args, ek_rt_pool *pool, int threads, double flops, double ms) {
  ek_rt_call call = {.pool = pool, .threads = threads, .parallel = ek_rt_parallel};
  int64_t chunks = 1;
  double best = 0, end = now_ms() + ms;
  do {
    double t0 = now_ms();
    ek_rt_parallel(&call, k, args, chunks * threads);
    double t = now_ms() - t0;
    if (t < 1.0 && chunks < 1 << 20) { /* a burst should last a few milliseconds */
      chunks *= 2;
      continue;
    }
    double rate = flops * (double)(chunks * threads) / (t * 1e6);
    if (rate > best) best = rate;
  } while (now_ms() < end || best == 0);
  return best;
}
/* What fits where: the caches that the target tells, then the memory. */
static void bandwidths(ctx *c, peak *k, const target *t, ek_rt_kernel read, float *out, ek_rt_pool *pool) {
  ek_machine *m = k->out;
  uint64_t room[3] = {t->l1 * (uint64_t)k->threads, t->l2 * (uint64_t)k->threads, t->l3};
  uint64_t unit = STREAMS * target_lanes(t, ET_F32) * sizeof(float), most = (uint64_t)256 << 20; /* in all threads */
  while (most < 2 * t->l3 && most < (uint64_t)1 << 30) most *= 2;
  float *data = arena_alloc(ctx_arena(c), (size_t)most + 64);
  data = (float *)(((uintptr_t)data + 63) & ~(uintptr_t)63);
  memset(data, 0, (size_t)most);
  for (int i = 0; i < 4; i++) {
    uint64_t bytes = i == 3                   ? most
                     : room[i] / 2 < 16 << 20 ? room[i] / 2
                                              : 16 << 20,
             each = bytes / (uint64_t)k->threads / unit * unit;
    if (!each || (i && i < 3 && room[i] <= room[i - 1])) continue;
    int64_t args[3] = {(int64_t)(intptr_t)data, (int64_t)(each / sizeof(float)), (int64_t)(intptr_t)out};
    m->level[m->levels].bytes = i < 3 ? room[i] : UINT64_MAX;
    m->level[m->levels++].gbs = bursts(read, args, pool, k->threads, (double)each, k->ms);
  }
}
static void measure(ctx *c, peak *k, jit *volatile *j, ek_rt_pool *volatile *pool) {
  const target *t = target_get(c, k->target ? k->target : "host");
  if (!t) ctx_unwind(c);
  if (!t->here) ctx_fail(c, E_TARGET, "code for target %s does not run on this machine", t->name);
  code_opts o = {.level = 2, .threads = 1};
  lmodule *m = loop_module(c, ctx_arena(c));
  double flops = peak_kernel(m, t);
  if (k->reads) read_kernel(m, t);
  *j = jit_new(c, t, &o);
  jit_add(*j, m);
  float *data = arena_alloc(ctx_arena(c), (size_t)(k->threads + 2) * OUT * sizeof *data + 64);
  data = (float *)(((uintptr_t)data + 63) & ~(uintptr_t)63);
  for (uint32_t i = 0; i < OUT; i++) data[i] = 0;
  data[0] = 0.5f, data[1] = 0.25f;
  if (k->threads > 1 && !(*pool = ek_rt_pool_create(k->threads)))
    ctx_fail(c, E_MEMORY, "no memory for %d threads", k->threads);
  int64_t args[1] = {(int64_t)(intptr_t)data};
  double rate = bursts((ek_rt_kernel)jit_find(*j, "peak"), args, *pool, k->threads, flops, k->ms);
  if (k->reads) bandwidths(c, k, t, (ek_rt_kernel)jit_find(*j, "read"), data, *pool);
  k->out->gflops = rate;
}
static void guarded(ctx *c, peak *k) {
  jit *volatile j = NULL;
  ek_rt_pool *volatile pool = NULL;
  CTX_TRY(c) { measure(c, k, &j, &pool); }
  CTX_CATCH {}
  if (pool) ek_rt_pool_destroy(pool);
  jit_free(j);
}
static ek_code measured(ek_session *s, const char *target, int threads, double ms, bool reads, ek_machine *out) {
  if (out) *out = (ek_machine){0};
  if (!s || !out) return session_null(s);
  if (threads < 0 || threads > MAX_RUN_THREADS)
    return session_fail(s, EK_USAGE, "%d threads: 1 to %d are possible, or 0 for what the process may use", threads,
                        MAX_RUN_THREADS);
  peak k = {target, default_threads(threads), ms, out, reads};
  ctx *c = session_ctx(s);
  if (c) guarded(c, &k);
  ek_code code = session_done(s, c, out->gflops > 0 ? EK_OK : EK_FAILED);
  ctx_free(c);
  return code;
}
ek_code ek_measure_peak(ek_session *s, const char *target, int threads, double ms, double *gflops) {
  ek_machine m;
  if (!gflops) return session_null(s);
  ek_code code = measured(s, target, threads, ms, false, &m);
  *gflops = m.gflops;
  return code;
}
ek_code ek_measure_machine(ek_session *s, const char *target, int threads, double ms, ek_machine *out) {
  return measured(s, target, threads, ms, true, out);
}
