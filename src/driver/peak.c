/* How many f32 multiply-adds does this machine do just now? A loop of independent fused multiply-adds on registers, written as a loop program and compiled like any kernel, so that it serves every
 * target; the best of many short bursts, since what disturbs a burst only slows it. */
#include "driver/driver.h"
#include <string.h>

enum { ROUNDS = 4000 };
typedef struct peak {
  const char *target;
  int threads;
  double ms, gflops;
} peak;

/* acc[i] = acc[i] * x + y for all accumulators, ROUNDS times a chunk; x and y come from memory, so that nothing folds */
static double peak_kernel(lmodule *m, const target *t) { /* returns flops of a chunk */
  lfunc *f = loop_func(m, LF_KERNEL, "peak", "independent multiply-adds on registers");
  lbuild b = loop_builder(f);
  uint32_t lanes = target_lanes(t, ET_F32), n = t->vector_registers >= 32 ? 24 : t->vector_registers >= 16 ? 12 : 6;
  ltype v = lt(ET_F32, lanes);
  lv p = lb_param(&b, "p", lptr(ET_F32), LP_READ | LP_WRITE, 64), i;
  lv x = lb_splat(&b, (uint16_t)lanes, lb_load(&b, lt(ET_F32, 1), p, lb_int(&b, 0))), y = lb_splat(&b, (uint16_t)lanes, lb_load(&b, lt(ET_F32, 1), p, lb_int(&b, 1)));
  lv acc[32];
  for (uint32_t k = 0; k < n; k++) acc[k] = lb_reg(&b, lb_load(&b, v, p, lb_int(&b, 16)));
  lb_for(&b, "i", lb_mul(&b, lb_lo(&b), lb_int(&b, ROUNDS)), lb_mul(&b, lb_hi(&b), lb_int(&b, ROUNDS)), lb_int(&b, 1), 0, &i);
  for (uint32_t k = 0; k < n; k++) {
    lv a = lb_get(&b, acc[k]);
    lb_set(&b, acc[k], t->fma ? lb_op(&b, OP_FMA, v, a, x, y) : lb_op(&b, OP_ADD, v, lb_op(&b, OP_MUL, v, a, x, 0), y, 0));
  }
  lb_end(&b);
  lv sum = lb_get(&b, acc[0]);
  for (uint32_t k = 1; k < n; k++) sum = lb_op(&b, OP_ADD, v, sum, lb_get(&b, acc[k]), 0);
  lb_store(&b, p, lb_addi(&b, lb_muli(&b, lb_worker(&b), 128), 128), sum);
  return 2.0 * n * lanes * ROUNDS;
}
static double bursts(ek_rt_kernel k, float *data, ek_rt_pool *pool, int threads, double flops, double ms) {
  ek_rt_call call = {.pool = pool, .threads = threads, .parallel = ek_rt_parallel};
  int64_t args[1] = {(int64_t)(intptr_t)data}, chunks = 1;
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
static void measure(ctx *c, peak *k, jit *volatile *j, ek_rt_pool *volatile *pool) {
  const target *t = target_get(c, k->target ? k->target : "host");
  if (!t) ctx_unwind(c);
  if (!t->here) ctx_fail(c, E_TARGET, "code for target %s does not run on this machine", t->name);
  llvm_opts o = {.level = 2, .threads = 1};
  lmodule *m = loop_module(c);
  double flops = peak_kernel(m, t);
  *j = jit_new(c, t, &o);
  jit_add(*j, m);
  float *data = arena_alloc(ctx_arena(c), (size_t)(k->threads + 2) * 128 * sizeof *data + 64);
  data = (float *)(((uintptr_t)data + 63) & ~(uintptr_t)63);
  data[0] = 0.5f, data[1] = 0.25f;
  if (k->threads > 1 && !(*pool = ek_rt_pool_create(k->threads))) ctx_fail(c, E_MEMORY, "no memory for %d threads", k->threads);
  k->gflops = bursts((ek_rt_kernel)jit_find(*j, "peak"), data, *pool, k->threads, flops, k->ms);
}
static void guarded(ctx *c, peak *k) {
  jit *volatile j = NULL;
  ek_rt_pool *volatile pool = NULL;
  CTX_TRY(c) { measure(c, k, &j, &pool); }
  CTX_CATCH {}
  if (pool) ek_rt_pool_destroy(pool);
  jit_free(j);
}
ek_code ek_measure_peak(ek_session *s, const char *target, int threads, double ms, double *gflops) {
  if (threads < 0 || threads > 1024) return session_fail(s, EK_USAGE, "%d threads: 1 to 1024 are possible, or 0 for what the process may use", threads);
  peak k = {target, default_threads(threads), ms, 0};
  ctx *c = session_ctx(s);
  if (c) guarded(c, &k);
  *gflops = k.gflops;
  ek_code code = session_done(s, c, k.gflops > 0 ? EK_OK : EK_FAILED);
  ctx_free(c);
  return code;
}
