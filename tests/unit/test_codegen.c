/* Do loop programs compute what they say, as machine code? Small kernels made by hand, compiled in this process at
 * both levels and for each x86 target this machine can run, against plain C. */
#include "jitkit.h"
#include <math.h>
#include <time.h>

static const char *const targets[] = {"host", "x86-64-v3", "x86-64", "x86-64"};
enum {
  TARGETS = 3,
  AS_C = TARGETS,
  LEVELS = 3,
  /* AS_C: as C source, whose vectors are those of the last target. Levels 0 and 1 are LLVM's; OWN: by
        * codegen/x86 where it can */
  OWN = 2
};
typedef void (*build_fn)(lmodule *m, lfunc *f, lbuild *b, const target *t);
/* Compiles the kernel for target ti, level l, and runs it. */
static void run_on(int ti, int l, build_fn fn, const int64_t *args, int64_t chunks) {
  ctx *c = ctx_new();
  assert_non_null(c);
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "k", "test kernel");
  lbuild b = loop_builder(f);
  fn(m, f, &b, target_get(c, targets[ti]));
  jit *j = NULL;
  void *lib = NULL;
  ek_rt_kernel k = (ek_rt_kernel)(ti == AS_C ? kit_find_c(c, m, "k", &lib)
                                             : kit_find_by(c, m, targets[ti], l > 0,
                                                           l == OWN ? EK_CODE_AUTO : EK_CODE_LLVM, "k", &j));
  k(args, 0, chunks, 0);
  if (lib) dlclose(lib);
  jit_free(j);
  ctx_free(c);
}
#define EVERYWHERE_AND_C                                                                                               \
  for (int ti = 0; ti <= AS_C; ti++)                                                                                   \
    for (int l = 0; l < (ti == AS_C ? 1 : LEVELS); l++)
#define EVERYWHERE                                                                                                     \
  for (int ti = 0; ti < TARGETS; ti++)                                                                                 \
    for (int l = 0; l < LEVELS; l++)
static lv ptr_in(lbuild *b, const char *n, etype t) { return lb_param(b, n, lptr(t), LP_READ | LP_NOALIAS, 0); }
static lv ptr_out(lbuild *b, const char *n, etype t) { return lb_param(b, n, lptr(t), LP_WRITE | LP_NOALIAS, 0); }
static unsigned lanes_of(const target *t, etype e) { return target_lanes(t, e); }

/* ---- saxpy with a masked tail ---------------------------------------------------------------- */
static void saxpy(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f;
  unsigned v = lanes_of(t, ET_F32);
  lv x = ptr_in(b, "x", ET_F32), y = ptr_out(b, "y", ET_F32), n = lb_param(b, "n", lt(ET_I64, 1), 0, 0), i;
  lv whole = lb_muli(b, lb_op(b, OP_IDIV, lt(ET_I64, 1), n, lb_int(b, v), 0), v),
     k = lb_const(b, lt(ET_F32, v), (scalar){.f = 2.5});
  lb_for(b, "i", lb_int(b, 0), whole, lb_int(b, v), 2, &i);
  lb_store(b, y, i,
           lb_op(b, OP_FMA, lt(ET_F32, v), lb_load(b, lt(ET_F32, v), x, i), k, lb_load(b, lt(ET_F32, v), y, i)));
  lb_end(b);
  lv rest = lb_sub(b, n, whole);
  lb_if(b, lb_cmp(b, OP_GT, rest, lb_int(b, 0)));
  lv r = lb_op(b, OP_FMA, lt(ET_F32, v), lb_load_ex(b, lt(ET_F32, v), x, whole, 0, rest, 0, 0), k,
               lb_load_ex(b, lt(ET_F32, v), y, whole, 0, rest, 0, 0));
  lb_store_ex(b, y, whole, r, 0, rest, 0, 0);
  lb_end(b);
}
static void test_saxpy(void **s) {
  (void)s;
  EVERYWHERE for (int n = 0; n < 70; n += 7) {
    float x[70], y[70];
    for (int i = 0; i < 70; i++) x[i] = (float)i * 0.25f, y[i] = (float)(i * i);
    run_on(ti, l, saxpy, (int64_t[]){ARG(x), ARG(y), n}, 1);
    /* exact with or without fma */
    for (int i = 0; i < 70; i++) assert_true(y[i] == (float)(i * i) + (i < n ? 2.5f * x[i] : 0));
  }
}

/* ---- more values than registers, loaded from where others are stored, and from where nothing is ---- */
enum { HELD = 48, BLOCKS = 3 };
static void reversed(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f;
  unsigned v = lanes_of(t, ET_F32);
  lv x = ptr_in(b, "x", ET_F32), y = lb_param(b, "y", lptr(ET_F32), LP_READ | LP_WRITE | LP_NOALIAS, 0), old[HELD],
     add[HELD], i;
  ltype V = lt(ET_F32, v);
  lb_for(b, "i", lb_int(b, 0), lb_int(b, BLOCKS * HELD * (int64_t)v), lb_int(b, HELD * (int64_t)v), 0, &i);
  for (int k = 0; k < HELD; k++)
    old[k] = lb_load(b, V, y, lb_addi(b, i, k * (int64_t)v)), add[k] = lb_load(b, V, x, lb_addi(b, i, k * (int64_t)v));
  for (int k = 0; k < HELD; k++)
    lb_store(b, y, lb_addi(b, i, k * (int64_t)v),
             lb_op(b, OP_ADD, V, lb_op(b, OP_ADD, V, old[HELD - 1 - k], add[HELD - 1 - k], 0), add[k], 0));
  lb_end(b);
}
static void test_reversed(void **s) {
  (void)s;
  EVERYWHERE {
    enum { MOST = 16 * HELD * BLOCKS };
    static float x[MOST], y[MOST];
    int v = 0;
    ctx *c = ctx_new();
    v = (int)lanes_of(target_get(c, targets[ti]), ET_F32);
    ctx_free(c);
    for (int i = 0; i < MOST; i++) x[i] = (float)(i % 1000), y[i] = (float)(3 * i);
    run_on(ti, l, reversed, (int64_t[]){ARG(x), ARG(y)}, 1);
    for (int i = 0; i < v * HELD * BLOCKS; i++) {
      int block = i / (v * HELD), k = i / v % HELD, from = (block * HELD + HELD - 1 - k) * v + i % v;
      assert_true(y[i] == (float)(3 * from) + (float)(from % 1000) + (float)(i % 1000));
    }
  }
}

/* ---- register-tiled matrix product: MR x NR accumulators ------------------------------------- */
enum { MR = 8, NR = 32, K = 256 };
static void matmul(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f;
  unsigned v = lanes_of(t, ET_F32), nv = 2, rows = v == 16 ? MR : 4; /* 8 x 2 of 32 registers, 4 x 2 of 16 */
  lv a = lb_param(b, "a", lptr(ET_F32), LP_READ, 64), w = lb_param(b, "w", lptr(ET_F32), LP_READ | LP_NOALIAS, 64),
     y = lb_param(b, "y", lptr(ET_F32), LP_WRITE, 64);
  lv rep = lb_param(b, "rep", lt(ET_I64, 1), 0, 0), z, r0, c0, k, acc[MR * NR];
  lb_for(b, "z", lb_int(b, 0), rep, lb_int(b, 1), 0, &z);
  lb_for(b, "r0", lb_int(b, 0), lb_int(b, MR), lb_int(b, rows), 0, &r0);
  lb_for(b, "c0", lb_int(b, 0), lb_int(b, NR), lb_int(b, nv * v), 0, &c0);
  for (unsigned i = 0; i < rows * nv; i++) acc[i] = lb_reg(b, lb_const(b, lt(ET_F32, v), (scalar){.f = 0}));
  lb_for(b, "k", lb_int(b, 0), lb_int(b, K), lb_int(b, 1), 4, &k);
  lv bv[NR];
  for (unsigned j = 0; j < nv; j++)
    bv[j] = lb_load_ex(b, lt(ET_F32, v), w, lb_addi(b, lb_add(b, lb_muli(b, k, NR), c0), j * v), 0, 0, 0, v * 4);
  for (unsigned i = 0; i < rows; i++) {
    lv x = lb_splat(b, (uint16_t)v, lb_load(b, lt(ET_F32, 1), a, lb_add(b, lb_muli(b, lb_addi(b, r0, i), K), k)));
    for (unsigned j = 0; j < nv; j++)
      lb_set(b, acc[i * nv + j], lb_op(b, OP_FMA, lt(ET_F32, v), x, bv[j], lb_get(b, acc[i * nv + j])));
  }
  lb_end(b);
  for (unsigned i = 0; i < rows; i++)
    for (unsigned j = 0; j < nv; j++)
      lb_store(b, y, lb_addi(b, lb_add(b, lb_muli(b, lb_addi(b, r0, i), NR), c0), j * v), lb_get(b, acc[i * nv + j]));
  lb_end(b);
  lb_end(b);
  lb_end(b);
}
static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
/* Independent multiply-adds in registers only: the machine's peak at this moment. */
static void peak(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f;
  unsigned v = lanes_of(t, ET_F32);
  lv p = ptr_out(b, "p", ET_F32), n = lb_param(b, "n", lt(ET_I64, 1), 0, 0), i, acc[12];
  lv x = lb_load(b, lt(ET_F32, v), p, lb_int(b, 0));
  for (int j = 0; j < 12; j++) acc[j] = lb_reg(b, lb_load(b, lt(ET_F32, v), p, lb_int(b, j)));
  lb_for(b, "i", lb_int(b, 0), n, lb_int(b, 1), 4, &i);
  for (int j = 0; j < 12; j++) lb_set(b, acc[j], lb_op(b, OP_FMA, lt(ET_F32, v), lb_get(b, acc[j]), x, x));
  lb_end(b);
  for (int j = 0; j < 12; j++) lb_store(b, p, lb_int(b, j * v), lb_get(b, acc[j]));
}
static void test_matmul(void **s) {
  (void)s;
  static _Alignas(64) float a[MR * K], w[K * NR], y[MR * NR], want[MR * NR], pk[12 * 16];
  for (int i = 0; i < MR * K; i++) a[i] = (float)((i * 37) % 19 - 9) * 0.125f;
  for (int i = 0; i < K * NR; i++) w[i] = (float)((i * 53) % 23 - 11) * 0.0625f;
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += (double)a[i * K + k] * w[k * NR + j];
      want[i * NR + j] = (float)sum;
    }
  EVERYWHERE {
    memset(y, 0, sizeof y);
    run_on(ti, l, matmul, (int64_t[]){ARG(a), ARG(w), ARG(y), 1}, 1);
    for (int i = 0; i < MR * NR; i++) assert_true(y[i] == want[i]); /* all sums are exact */
  }
  for (int ti = 0; ti < 2; ti++) { /* speed, printed only */
    ctx *c = ctx_new();
    const target *t = target_get(c, targets[ti]);
    lmodule *m = loop_module(c, ctx_arena(c));
    lfunc *f = loop_func(m, LF_KERNEL, "matmul", NULL), *g = loop_func(m, LF_KERNEL, "peak", NULL);
    lbuild b = loop_builder(f), pb = loop_builder(g);
    matmul(m, f, &b, t);
    peak(m, g, &pb, t);
    jit *j = NULL;
    ek_rt_kernel mm = (ek_rt_kernel)kit_find(c, m, targets[ti], 1, "matmul", &j),
                 pp = (ek_rt_kernel)jit_find(j, "peak");
    double best = 1e9, top = 1e9;
    for (int i = 0; i < 20; i++) {
      double t0 = now_s();
      mm((int64_t[]){ARG(a), ARG(w), ARG(y), 500}, 0, 1, 0);
      double t1 = now_s();
      for (int q = 0; q < 192; q++) pk[q] = 0.5f;
      pp((int64_t[]){ARG(pk), 50000}, 0, 1, 0);
      double t2 = now_s();
      if (t1 - t0 < best) best = t1 - t0;
      if (t2 - t1 < top) top = t2 - t1;
    }
    double gf = 2.0 * MR * NR * K * 500 / best * 1e-9, pf = 2.0 * 12 * target_lanes(t, ET_F32) * 50000 / top * 1e-9;
    jit_stats st = jit_get_stats(j);
    printf(
        "%s: 8x32x256 micro-kernel %.0f GFLOP/s, peak %.0f: %.0f %%; emit %.1f ms, passes %.1f, code %.1f, link %.1f\n",
        targets[ti], gf, pf, 100 * gf / pf, st.emit_ms, st.pass_ms, st.code_ms, st.link_ms);
    jit_free(j);
    ctx_free(c);
  }
}

/* ---- gather, scatter, strides, masks --------------------------------------------------------- */
static void movement(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv x = ptr_in(b, "x", ET_F32), ix = ptr_in(b, "ix", ET_I64), y = ptr_out(b, "y", ET_F32), u = ptr_in(b, "u", ET_U8),
     w = ptr_out(b, "w", ET_U8);
  lv zero = lb_int(b, 0), iv = lb_load(b, lt(ET_I64, 8), ix, zero);
  lv odd = lb_cmp(b, OP_NE, lb_op(b, OP_BAND, lt(ET_I64, 8), iv, lb_int(b, 1), 0), lb_int(b, 0));
  lb_store(b, y, zero, lb_gather(b, lt(ET_F32, 8), x, iv, 0));
  /* inactive lanes 0 */
  lb_store(b, y, lb_int(b, 8), lb_gather(b, lt(ET_F32, 8), x, iv, odd));
  /* strides */
  lb_store_ex(b, y, lb_int(b, 16), lb_load_ex(b, lt(ET_F32, 8), x, lb_int(b, 1), 0, 0, lb_int(b, 3), 0), 0, 0,
              lb_int(b, 2), 0);
  /* last wins */
  lb_scatter(b, y,
             lb_op(b, OP_ADD, lt(ET_I64, 8),
                   lb_op(b, OP_SHR, lt(ET_I64, 8), lb_iota(b, lt(ET_I64, 8)), lb_int(b, 1), 0), lb_int(b, 40), 0),
             lb_load(b, lt(ET_F32, 8), x, zero), 0);
  lb_store_ex(b, y, lb_int(b, 48), lb_load(b, lt(ET_F32, 8), x, zero), odd, 0, 0, 0);
  lb_store(b, w, zero, lb_gather(b, lt(ET_U8, 8), u, iv, odd));
  lb_store_ex(b, w, lb_int(b, 8), lb_load_ex(b, lt(ET_U8, 8), u, zero, 0, lb_int(b, 5), 0, 0), 0, lb_int(b, 6), 0, 0);
  lv one = lb_load_ex(b, lt(ET_U8, 1), u, lb_int(b, 7), lb_extract(b, odd, 1), 0, 0, 0);
  lb_store(b, w, lb_int(b, 16), one);
  lb_store(b, w, lb_int(b, 24), lb_load_ex(b, lt(ET_U8, 8), u, zero, odd, lb_int(b, 5), 0, 0)); /* a mask and a count */
}
static void test_movement(void **s) {
  (void)s;
  float x[32];
  uint8_t u[32];
  int64_t ix[8] = {5, 2, 31, 0, 7, 7, 12, 9};
  for (int i = 0; i < 32; i++) x[i] = (float)i + 0.5f, u[i] = (uint8_t)(i + 100);
  EVERYWHERE_AND_C {
    float y[64];
    uint8_t w[32];
    for (int i = 0; i < 64; i++) y[i] = -1;
    memset(w, 255, sizeof w);
    run_on(ti, l, movement, (int64_t[]){ARG(x), ARG(ix), ARG(y), ARG(u), ARG(w)}, 1);
    for (int i = 0; i < 8; i++) {
      bool odd = ix[i] & 1;
      assert_true(y[i] == x[ix[i]]);
      assert_true(y[8 + i] == (odd ? x[ix[i]] : 0));
      assert_true(y[16 + 2 * i] == x[1 + 3 * i]);
      if (i < 7) assert_true(y[17 + 2 * i] == -1);
      if (i < 4) assert_true(y[40 + i] == x[2 * i + 1]);
      assert_true(y[48 + i] == (odd ? x[i] : -1));
      assert_int_equal(w[i], odd ? u[ix[i]] : 0);
      assert_int_equal(w[8 + i], i < 5 ? u[i] : i < 6 ? 0 : 255);
      assert_int_equal(w[24 + i], odd && i < 5 ? u[i] : 0);
    }
    assert_int_equal(w[16], ix[1] & 1 ? u[7] : 0);
    assert_int_equal(w[17], 255);
  }
}

/* ---- tables of 256 bytes, of which bytes say the places -------------------------------------- */
static void tables(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv p = ptr_in(b, "p", ET_I8), ix = ptr_in(b, "ix", ET_U8), y = ptr_out(b, "y", ET_I8), odd;
  for (unsigned lanes = 4, at = 0; lanes <= 64; at += lanes, lanes *= 2) {
    const lv i = lb_load(b, lt(ET_U8, (uint16_t)lanes), ix, lb_int(b, at));
    lb_store(b, y, lb_int(b, at), lb_gather(b, lt(ET_I8, (uint16_t)lanes), p, i, 0));
  }
  const lv i = lb_load(b, lt(ET_U8, 16), ix, lb_int(b, 128));
  odd = lb_cmp(b, OP_NE, lb_op(b, OP_BAND, lt(ET_U8, 16), i, lb_const(b, lt(ET_U8, 16), (scalar){.i = 1}), 0),
               lb_const(b, lt(ET_U8, 16), (scalar){.i = 0}));
  lb_store(b, y, lb_int(b, 128), lb_gather(b, lt(ET_I8, 16), p, i, odd));
  for (unsigned lanes = 4, at = 0; lanes <= 64; at += lanes, lanes *= 2) { /* places made of more bits */
    const lv wide = lb_op(b, OP_CAST, lt(ET_I32, (uint16_t)lanes),
                          lb_load(b, lt(ET_U8, (uint16_t)lanes), ix, lb_int(b, at)), 0, 0),
             more = lb_op(b, OP_MUL, lt(ET_I32, (uint16_t)lanes), wide,
                          lb_const(b, lt(ET_I32, (uint16_t)lanes), (scalar){.i = -259}), 0),
             place = lb_op(b, OP_CAST, lt(ET_U8, (uint16_t)lanes), more, 0, 0);
    lb_store(b, y, lb_int(b, 144 + at), lb_gather(b, lt(ET_I8, (uint16_t)lanes), p, place, 0));
  }
}
/* Elements of 8, 16 and 32 bits at places that are i32. */
static void wide_tables(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  const etype of[] = {ET_I8, ET_U16, ET_F32};
  const lv ix = ptr_in(b, "ix", ET_I32);
  for (int k = 0; k < 3; k++) {
    const lv p = ptr_in(b, (const char *[]){"p8", "p16", "p32"}[k], of[k]),
             y = ptr_out(b, (const char *[]){"y8", "y16", "y32"}[k], of[k]);
    for (unsigned lanes = 2, at = 0; lanes <= (k == 2 ? 32u : 64u); at += lanes, lanes *= 2)
      lb_store(
          b, y, lb_int(b, at),
          lb_gather(b, lt(of[k], (uint16_t)lanes), p, lb_load(b, lt(ET_I32, (uint16_t)lanes), ix, lb_int(b, at)), 0));
  }
}
static void test_wide_tables(void **s) {
  (void)s;
  int8_t p8[256];
  uint16_t p16[256];
  float p32[256];
  int32_t ix[126];
  for (int i = 0; i < 256; i++) p8[i] = (int8_t)(i * 37 + 11), p16[i] = (uint16_t)(i * 377), p32[i] = (float)i * 0.5f;
  for (int i = 0; i < 126; i++) ix[i] = (i * 73 + 5) & 255;
  EVERYWHERE_AND_C {
    int8_t y8[126];
    uint16_t y16[126];
    float y32[126];
    run_on(ti, l, wide_tables, (int64_t[]){ARG(ix), ARG(p8), ARG(y8), ARG(p16), ARG(y16), ARG(p32), ARG(y32)}, 1);
    for (int i = 0; i < 126; i++) {
      assert_int_equal(y8[i], p8[ix[i]]);
      assert_int_equal(y16[i], p16[ix[i]]);
      if (i < 62) assert_true(y32[i] == p32[ix[i]]);
    }
  }
}
static void test_tables(void **s) {
  (void)s;
  int8_t p[256];
  uint8_t ix[144];
  for (int i = 0; i < 256; i++) p[i] = (int8_t)(i * 37 + 11);
  for (int i = 0; i < 144; i++) ix[i] = (uint8_t)(i * 73 + 5);
  EVERYWHERE_AND_C {
    int8_t y[268];
    memset(y, 0, sizeof y);
    run_on(ti, l, tables, (int64_t[]){ARG(p), ARG(ix), ARG(y)}, 1);
    for (int i = 0; i < 124; i++) assert_int_equal(y[i], p[ix[i]]);
    for (int i = 128; i < 144; i++) assert_int_equal(y[i], ix[i] & 1 ? p[ix[i]] : 0);
    for (int i = 0; i < 124; i++) assert_int_equal(y[144 + i], p[-259 * ix[i] & 255]);
  }
}

/* ---- rounded and clamped to few bits ---------------------------------------------------------- */
static const etype packed[] = {ET_U8, ET_I8, ET_U16, ET_I16};
static void roundings(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  const lv x = ptr_in(b, "x", ET_F32);
  for (int k = 0; k < 4; k++) {
    const lv y = ptr_out(b, (const char *[]){"u8", "i8", "u16", "i16"}[k], packed[k]),
             in = lb_load(b, lt(ET_F32, 16), x, lb_int(b, 0));
    const lv r = lb_op(b, OP_ROUND_EVEN, lt(ET_F32, 16), in, 0, 0);
    lb_store(b, y, lb_int(b, 0), lb_op(b, OP_SAT, lt(packed[k], 16), r, 0, 0));
    lb_store(b, y, lb_int(b, 16), lb_op(b, OP_SAT, lt(packed[k], 16), in, 0, 0)); /* towards 0 */
  }
  const ltype floats = lt(ET_F32, 16);
  const lv y = ptr_out(b, "i32", ET_I32), in = lb_load(b, floats, x, lb_int(b, 0)),
           low = lb_op(b, OP_MAX, floats, lb_const(b, floats, (scalar){.f = -0x1p31}), in, 0),
           both = lb_op(b, OP_MIN, floats, low, lb_const(b, floats, (scalar){.f = 2147483520}), 0);
  lb_store(b, y, lb_int(b, 0), lb_op(b, OP_CAST, lt(ET_I32, 16), both, 0, 0));
  lb_store(b, y, lb_int(b, 16), lb_op(b, OP_CAST, lt(ET_I32, 16), in, 0, 0));
  lb_store(b, y, lb_int(b, 32), lb_op(b, OP_CAST, lt(ET_I32, 16), low, 0, 0)); /* no bound above */
}
static int32_t low_bits(double x) { return fabs(x) < 0x1p63 ? (int32_t)(uint32_t)(uint64_t)(int64_t)x : 0; }
static void test_roundings(void **s) {
  (void)s;
  const float x[4][16] = {
      {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 254.5f, 255.5f, 253.5f, 127.5f, 126.5f, -128.5f, -127.5f, 0, -0.f, 77.4f, 77.6f},
      {NAN, INFINITY, -INFINITY, 2147483648.f, 4294967296.f, -2147483648.f, -4294967296.f, 3e38f, -3e38f, 1e-40f, 256,
       300, -300, 128, -129, 2147483520.f},
      {32767.5f, 32766.5f, -32768.5f, -32769, 65535, 65535.5f, 65534.5f, 65536, 70000, -70000, 99.5f, -99.5f, 1e9f,
       -1e9f, -NAN, 12345.5f},
      {2147483904.f, -2147483904.f, 6442450944.f, -6442450944.f, 4294967808.f, 1e15f, -1e15f, 9.2e18f, -9.2e18f,
       9.3e18f, 1e10f, -1e10f, 3e9f, -3e9f, 0.9f, -0.9f}};
  EVERYWHERE_AND_C for (int set = 0; set < 4; set++) {
    uint8_t u8[32];
    int8_t i8[32];
    uint16_t u16[32];
    int16_t i16[32];
    int32_t i32[48];
    run_on(ti, l, roundings, (int64_t[]){ARG(x[set]), ARG(u8), ARG(i8), ARG(u16), ARG(i16), ARG(i32)}, 1);
    for (int i = 0; i < 16; i++) {
      const double in = x[set][i], above = isnan(in) ? in : fmax(in, -0x1p31);
      assert_int_equal(i32[i], low_bits(isnan(in) ? in : fmin(above, 2147483520)));
      assert_int_equal(i32[16 + i], low_bits(in));
      assert_int_equal(i32[32 + i], low_bits(above));
    }
    for (int i = 0; i < 32; i++) {
      const double in = x[set][i % 16], v = isnan(in) ? 0 : i < 16 ? nearbyint(in) : trunc(in);
      assert_int_equal(u8[i], fmin(fmax(v, 0), 255));
      assert_int_equal(i8[i], fmin(fmax(v, -128), 127));
      assert_int_equal(u16[i], fmin(fmax(v, 0), 65535));
      assert_int_equal(i16[i], fmin(fmax(v, -32768), 32767));
    }
  }
}

/* In a loop, where each trip has values of its own: the rounding, which is not made by itself, belongs into it. */
static void repeated_roundings(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv x = ptr_in(b, "x", ET_F32), y = ptr_out(b, "y", ET_U8), i;
  lb_for(b, "i", lb_int(b, 0), lb_int(b, 64), lb_int(b, 16), 0, &i);
  const lv r = lb_op(b, OP_ROUND_EVEN, lt(ET_F32, 16), lb_load(b, lt(ET_F32, 16), x, i), 0, 0);
  lb_store(b, y, i, lb_op(b, OP_SAT, lt(ET_U8, 16), r, 0, 0));
  lb_end(b);
}
static void test_repeated_roundings(void **s) {
  (void)s;
  EVERYWHERE_AND_C {
    float x[64];
    uint8_t y[64];
    for (int i = 0; i < 64; i++) x[i] = (float)i + 0.25f;
    run_on(ti, l, repeated_roundings, (int64_t[]){ARG(x), ARG(y)}, 1);
    for (int i = 0; i < 64; i++) assert_int_equal(y[i], i);
  }
}

/* ---- horizontal reductions, shuffles, NaN ---------------------------------------------------- */
static void horizontal(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv x = ptr_in(b, "x", ET_F32), y = ptr_out(b, "y", ET_F32), q = ptr_out(b, "q", ET_BOOL), z = ptr_in(b, "z", ET_I32),
     zy = ptr_out(b, "zy", ET_I32);
  lv v = lb_load(b, lt(ET_F32, 16), x, lb_int(b, 0)), n = lb_load(b, lt(ET_F32, 16), x, lb_int(b, 16)), k = 0;
  const rop r[] = {RED_SUM, RED_PROD, RED_MAX, RED_MIN};
  for (int i = 0; i < 4; i++) lb_store(b, y, lb_int(b, i), lb_hreduce(b, r[i], v));
  lb_store(b, y, lb_int(b, 4), lb_hreduce(b, RED_MAX, n));
  lb_store(b, y, lb_int(b, 5), lb_hreduce(b, RED_MIN, n));
  lv pos = lb_cmp(b, OP_GT, v, lb_const(b, lt(ET_F32, 16), (scalar){.f = 0}));
  lb_store(b, q, lb_int(b, 0), lb_hreduce(b, RED_ANY, pos));
  lb_store(b, q, lb_int(b, 1), lb_hreduce(b, RED_ALL, pos));
  lb_store(b, q, lb_int(b, 2), pos); /* a vector of bool */
  lv odd = lb_load(b, lt(ET_I32, 6), z, lb_int(b, 0));
  for (int i = 0; i < 4; i++) lb_store(b, zy, lb_int(b, i), lb_hreduce(b, r[i], odd));
  int32_t lanes[4] = {3, 0, 7, 8};
  lb_store(b, zy, lb_int(b, 4), lb_shuffle(b, odd, odd, lanes, 4));
  lv back = lb_load(b, lt(ET_BOOL, 16), q, lb_int(b, 2));
  lb_store(b, y, lb_int(b, 6),
           lb_op(b, OP_SEL, lt(ET_F32, 16), back, v, lb_const(b, lt(ET_F32, 16), (scalar){.f = -7})));
  (void)k;
}
static void test_horizontal(void **s) {
  (void)s;
  float x[32];
  int32_t z[6] = {3, -4, 5, 2, -1, 6};
  for (int i = 0; i < 16; i++) x[i] = i % 3 ? (float)(i + 1) / 8 : -(float)(i + 1) / 8, x[16 + i] = x[i];
  x[16 + 11] = NAN;
  EVERYWHERE_AND_C {
    float y[22];
    uint8_t q[18];
    int32_t zy[8];
    run_on(ti, l, horizontal, (int64_t[]){ARG(x), ARG(y), ARG(q), ARG(z), ARG(zy)}, 1);
    float sum = 0, mx = -1e9f, mn = 1e9f;
    double prod = 1;
    for (int i = 0; i < 16; i++) sum += x[i], prod *= x[i], mx = fmaxf(mx, x[i]), mn = fminf(mn, x[i]);
    assert_true(y[0] == sum);
    assert_true(fabs(y[1] - prod) <= fabs(prod) * 1e-5);
    assert_true(y[2] == mx && y[3] == mn);
    assert_true(isnan(y[4]) && isnan(y[5]));
    assert_true(q[0] == 1 && q[1] == 0);
    for (int i = 0; i < 16; i++) assert_true(q[2 + i] == (x[i] > 0) && y[6 + i] == (x[i] > 0 ? x[i] : -7));
    assert_true(zy[0] == 11 && zy[1] == 3 * -4 * 5 * 2 * -1 * 6 && zy[2] == 6 && zy[3] == -4);
    assert_true(zy[4] == 2 && zy[5] == 3 && zy[6] == -4 && zy[7] == 5);
  }
}

/* ---- lookups: any number of lanes, among 16 constants or fewer ------------------------------- */
static const uint32_t entries[16] = {0x3f800000, 7, 0x80000000, 0xc0490fdb, 5, 0x40000000, 99, 0x7f7fffff, 1,
                                     2,          3, 4,          0x3f000000, 6, 0xffffffff, 8};
static const unsigned looked[] = {1, 4, 6, 16, 32};
static void lookups(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv x = ptr_in(b, "x", ET_I32), y = ptr_out(b, "y", ET_I32), z = ptr_out(b, "z", ET_F32);
  for (int k = 0; k < 5; k++) {
    lv at = lb_load(b, lt(ET_I32, looked[k]), x, lb_int(b, 0)), to = lb_int(b, 32 * k);
    lb_store(b, y, to, lb_lookup(b, lt(ET_I32, looked[k]), at, entries, 16));
    lb_store(b, z, to, lb_lookup(b, lt(ET_F32, looked[k]), at, entries, 8));
  }
  lb_store(b, y, lb_int(b, 160),
           lb_lookup(b, lt(ET_I32, 1), lb_const(b, lt(ET_I32, 1), (scalar){.i = -2}), entries, 16));
}
static void test_lookup(void **s) {
  (void)s;
  int32_t x[32];
  for (int i = 0; i < 32; i++) x[i] = i * 7919 - 100000;
  EVERYWHERE_AND_C {
    uint32_t y[161], z[160];
    run_on(ti, l, lookups, (int64_t[]){ARG(x), ARG(y), ARG(z)}, 1);
    for (int k = 0; k < 5; k++)
      for (unsigned i = 0; i < looked[k]; i++) {
        assert_int_equal(y[32 * k + i], entries[x[i] & 15]);
        assert_int_equal(z[32 * k + i], entries[x[i] & 7]);
      }
    assert_int_equal(y[160], entries[14]);
  }
}

/* ---- orders of lanes: such as one instruction has, with and without lanes of any value, and others; of two
 * registers and of one ---- */
enum { ORDERS = 14, WIDE = 64 };
/* part: lanes of 16 bytes; -2: this order has no such lanes */
static int32_t order_of(int k, unsigned n, unsigned part, unsigned l, bool one) {
  unsigned in = l % part, block = l / part, y = one ? 0 : n;
  switch (k) {
  case 0:
    return (int32_t)(block * part + in / 2 + (in % 2 ? y : 0));
  case 1:
    return (int32_t)(block * part + part / 2 + in / 2 + (in % 2 ? y : 0));
  case 2:
    return part < 4 ? -2 : (int32_t)(block * part + in / 4 * 2 + in % 2 + (in / 2 % 2 ? y : 0));
  case 3:
    return part < 4 ? -2 : (int32_t)(block * part + part / 2 + in / 4 * 2 + in % 2 + (in / 2 % 2 ? y : 0));
  case 4:
    return n == part   ? -2
           : l < n / 2 ? (int32_t)(2 * block * part + in)
                       : (int32_t)((2 * (block - n / part / 2)) * part + in + y);
  case 5:
    return n == part   ? -2
           : l < n / 2 ? (int32_t)((2 * block + 1) * part + in)
                       : (int32_t)((2 * (block - n / part / 2) + 1) * part + in + y);
  case 6:
    return part == 4 ? (int32_t)(block * 4 + (in == 0 ? 3 : in == 1 ? 0 : in == 2 ? 1 : 2) + (in < 2 ? 0 : y)) : -2;
  case 7:
    return l % 3 == 1 ? -1 : (int32_t)(block * part + in / 2 + (in % 2 ? y : 0));
  case 8:
    return part > 2 && part <= 4 ? (int32_t)(2 * l % n + (2 * l < n ? 0 : y)) : -2; /* every second one */
  case 9:
    return part <= 4 && part > 1 ? (int32_t)(n - 1 - l) : -2; /* backwards */
  case 10:
    return part <= 4 && part > 1 ? (int32_t)(l / 2) : -2; /* each twice */
  case 11:
    return part <= 4 && part > 1 ? (int32_t)((l * 5 + 3) % n + (l % 3 ? y : 0)) : -2;
  case 12:
    return part == 4 ? (int32_t)(l ^ n ^ (one ? n : 0)) : -2; /* the other one */
  default:
    return part <= 4 ? (int32_t)((n / part - 1 - block) * part + in) : -2;
  }
}
static const etype ordered[] = {ET_F32, ET_I32, ET_F64, ET_I64, ET_I16, ET_U8};
static void orders(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f;
  for (unsigned q = 0; q < sizeof ordered / sizeof *ordered; q++) {
    etype et = ordered[q];
    unsigned bytes = et_bytes(et), part = 16 / bytes,
             n = bytes < 4 && t->vector_bits < 256   ? part
                 : t->vector_bits / 8 / bytes < part ? part
                                                     : t->vector_bits / 8 / bytes;
    lv x = lb_param(b, "x", lptr(et), LP_READ, 0), y = lb_param(b, "y", lptr(et), LP_WRITE, 0),
       n_at = lb_param(b, "n", lptr(ET_I64), LP_WRITE, 0);
    lv one = lb_load(b, lt(et, n), x, lb_int(b, 0)), two = lb_load(b, lt(et, n), x, lb_int(b, n));
    lb_store(b, n_at, lb_int(b, 0), lb_int(b, n));
    for (int k = 0; k < 2 * ORDERS; k++) {
      int32_t lane[WIDE];
      bool none = false;
      for (unsigned l = 0; l < n; l++) lane[l] = order_of(k / 2, n, part, l, k % 2), none |= lane[l] == -2;
      if (!none) lb_store(b, y, lb_int(b, k * WIDE), lb_shuffle(b, one, two, lane, (uint16_t)n));
    }
  }
}
static void test_orders(void **s) {
  (void)s;
  static uint8_t x[6][2 * WIDE * 8], y[6][2 * ORDERS * WIDE * 8];
  int64_t n[6];
  for (unsigned i = 0; i < sizeof x; i++) ((uint8_t *)x)[i] = (uint8_t)(i * 7 + i / 64 + 1);
  EVERYWHERE_AND_C {
    memset(y, 0, sizeof y);
    run_on(ti, l, orders,
           (int64_t[]){ARG(x[0]), ARG(y[0]), ARG(&n[0]), ARG(x[1]), ARG(y[1]), ARG(&n[1]), ARG(x[2]), ARG(y[2]),
                       ARG(&n[2]), ARG(x[3]), ARG(y[3]), ARG(&n[3]), ARG(x[4]), ARG(y[4]), ARG(&n[4]), ARG(x[5]),
                       ARG(y[5]), ARG(&n[5])},
           1);
    for (unsigned q = 0; q < 6; q++)
      for (unsigned k = 0; k < 2 * ORDERS; k++)
        for (unsigned i = 0; i < n[q]; i++) {
          unsigned bytes = et_bytes(ordered[q]);
          int32_t at = order_of((int)k / 2, (unsigned)n[q], 16 / bytes, i, k % 2);
          if (at == -2) break;
          if (at >= 0) assert_memory_equal(y[q] + (k * WIDE + i) * bytes, x[q] + (unsigned)at * bytes, bytes);
        }
  }
}

/* ---- structure: nested loops, if, registers, alloc, unrolled loops with rests ---------------- */
static void structure(lmodule *m, lfunc *f, lbuild *b, const target *t) {
  (void)m, (void)f, (void)t;
  lv y = ptr_out(b, "y", ET_I64), n = lb_param(b, "n", lt(ET_I64, 1), 0, 0), i, j, tmp = lb_alloc(b, ET_I64, 16), c;
  lb_for(b, "c", lb_lo(b), lb_hi(b), lb_int(b, 1), 0, &c);
  lb_for(b, "j", lb_int(b, 0), lb_int(b, 16), lb_int(b, 1), 16, &j);
  lb_store(b, tmp, j, lb_mul(b, j, j));
  lb_end(b);
  lv sum = lb_reg(b, lb_int(b, 0));
  lb_for(b, "i", lb_int(b, 1), n, lb_int(b, 3), 4, &i);
  lb_for(b, "j", lb_int(b, 0), lb_int(b, 7), lb_int(b, 2), 3, &j);
  lb_if(b, lb_cmp(b, OP_GT, j, lb_int(b, 3)));
  lb_set(b, sum, lb_add(b, lb_get(b, sum), lb_mul(b, i, j)));
  lb_else(b);
  lb_set(b, sum, lb_add(b, lb_get(b, sum), lb_load(b, lt(ET_I64, 1), tmp, lb_add(b, j, lb_int(b, 2)))));
  lb_end(b);
  lb_end(b);
  lb_end(b);
  lb_store(b, y, c, lb_add(b, lb_get(b, sum), c));
  lb_end(b);
}
static void test_structure(void **s) {
  (void)s;
  EVERYWHERE for (int n = 0; n < 40; n += 3) {
    int64_t y[3] = {-1, -1, -1};
    run_on(ti, l, structure, (int64_t[]){ARG(y), n}, 2);
    int64_t sum = 0;
    for (int i = 1; i < n; i += 3)
      for (int j = 0; j < 7; j += 2) sum += j > 3 ? i * j : (j + 2) * (j + 2);
    assert_true(y[0] == sum && y[1] == sum + 1 && y[2] == -1);
  }
}

/* ---- main functions, calls, scratch, failure; sharing of equal kernels; the pool ------------- */
static lmodule *program(ctx *c) {
  lmodule *m = loop_module(c, ctx_arena(c));
  for (int v = 0; v < 2; v++) { /* two kernels of one text */
    lfunc *f = loop_func(m, LF_KERNEL, v ? "twice" : "double", "y = 2x through scratch");
    lbuild b = loop_builder(f);
    lv x = ptr_in(&b, v ? "p" : "x", ET_F32), y = ptr_out(&b, "y", ET_F32), i, s = lb_scratch(&b, ET_F32, 64);
    f->scratch_bytes = 128;
    lb_for(&b, "i", lb_lo(&b), lb_hi(&b), lb_int(&b, 1), 0, &i);
    lb_store(&b, s, lb_int(&b, 0), lb_load(&b, lt(ET_F32, 1), x, i));
    lb_store(&b, y, i,
             lb_op(&b, OP_MUL, lt(ET_F32, 1), lb_load(&b, lt(ET_F32, 1), s, lb_int(&b, 0)),
                   lb_const(&b, lt(ET_F32, 1), (scalar){.f = 2}), 0));
    lb_end(&b);
  }
  lfunc *p = loop_func(m, LF_MAIN, "plan", NULL);
  lbuild b = loop_builder(p);
  lv d = lb_param(&b, "in_dims", lptr(ET_I64), LP_READ, 0), o = lb_param(&b, "out_dims", lptr(ET_I64), LP_WRITE, 0),
     call = lb_param(&b, "call", lptr(ET_I64), LP_WRITE, 0), th = lb_param(&b, "threads", lt(ET_I64, 1), 0, 0);
  lv n = lb_load(&b, lt(ET_I64, 1), d, lb_int(&b, 0));
  lb_fail(&b, lb_cmp(&b, OP_LT, n, lb_int(&b, 1)), E_SHAPE, "input x: N is at least 1");
  lb_store(&b, o, lb_int(&b, 0), n);
  lv area = lb_muli(&b, lb_op(&b, OP_IDIV, lt(ET_I64, 1), lb_addi(&b, lb_muli(&b, n, 4), 63), lb_int(&b, 64), 0), 64);
  lb_store(&b, call, lb_int(&b, 9), area);
  lb_store(&b, call, lb_int(&b, 10), lb_add(&b, area, lb_muli(&b, th, 128)));
  lfunc *r = loop_func(m, LF_MAIN, "run", NULL);
  b = loop_builder(r);
  lv in = lb_param(&b, "in.0", lptr(ET_F32), LP_READ, 0), out = lb_param(&b, "out.0", lptr(ET_F32), LP_WRITE, 0),
     ar = lb_param(&b, "arena", lptr(ET_U8), LP_WRITE, 64);
  d = lb_param(&b, "in_dims", lptr(ET_I64), LP_READ, 0);
  lv sc = lb_param(&b, "scratch", lt(ET_I64, 1), 0, 0), tmp = lb_ptrcast(&b, ET_F32, ar), sa = lb_offset(&b, ar, sc);
  n = lb_load(&b, lt(ET_I64, 1), d, lb_int(&b, 0));
  lb_call(&b, true, "double", n, (lv[]){in, tmp, sa, lb_int(&b, 128)}, 4);
  lb_call(&b, false, "twice", n, (lv[]){tmp, out, sa, lb_int(&b, 128)}, 4);
  return m;
}
static void test_program(void **s) {
  (void)s;
  for (int l = 0; l < LEVELS; l++)
    for (int threads = 1; threads <= 3; threads++) {
      ctx *c = ctx_new();
      lmodule *m = program(c);
      jit *j = NULL;
      ek_rt_main plan = (ek_rt_main)kit_find_by(c, m, "host", l > 0, l == OWN ? EK_CODE_OWN : EK_CODE_LLVM, "plan", &j),
                 run = (ek_rt_main)jit_find(j, "run");
      assert_ptr_equal(jit_find(j, "double"), jit_find(j, "twice"));
      assert_null(jit_find(j, "thrice"));
      assert_int_equal(jit_get_stats(j).compiled, 3);
      float x[100], y[100];
      for (int i = 0; i < 100; i++) x[i] = (float)i;
      int64_t dims = 0, odims = -1;
      const void *in = x;
      void *out = y;
      ek_rt_call call = {.in = &in,
                         .out = &out,
                         .in_dims = &dims,
                         .out_dims = &odims,
                         .parallel = ek_rt_parallel,
                         .threads = threads,
                         .pool = ek_rt_pool_create(threads)};
      assert_int_equal(plan(&call), E_SHAPE);
      assert_string_equal(call.message, "input x: N is at least 1");
      dims = 100;
      assert_int_equal(plan(&call), 0);
      assert_int_equal(odims, 100);
      assert_int_equal(call.arena_bytes, 448 + threads * 128);
      call.arena = aligned_alloc(64, (size_t)call.arena_bytes);
      assert_int_equal(run(&call), 0);
      for (int i = 0; i < 100; i++) assert_true(y[i] == 4 * x[i]);
      free(call.arena);
      ek_rt_pool_destroy(call.pool);
      jit_free(j);
      ctx_free(c);
    }
}
/* An object file is made for every target, also those this machine cannot run. */
static void test_object(void **s) {
  (void)s;
  for (int ti = 0; ti < TARGETS; ti++) {
    ctx *c = ctx_new();
    volatile bool ok = false;
    CTX_TRY(c) {
      lmodule *m = program(c);
      const int64_t dims[1] = {-1};
      const char *const names[1] = {"N"};
      ek_rt_tensor t = {"x", 1, 1, dims, names}, u = {"y", 1, 1, dims, names};
      ek_rt_model d = {.inputs = 1, .outputs = 1, .in = &t, .out = &u, .memory = "64*ceil(N/16)"};
      code_model x = {.name = "net", .model = &d, .weights = {(const uint8_t *)"abc", 3}, .embed = true};
      code_opts o = {.level = 1};
      const bytes *objs;
      uint32_t n = emit_objects(c, m, target_get(c, targets[ti]), &o, &x, &objs);
      ok = n == 4; /* descriptor, one kernel, plan, run */
      for (uint32_t i = 0; i < n; i++) ok = ok && objs[i].n > 300 && !memcmp(objs[i].p, "\177ELF", 4);
      sbuf b = sbuf_new(ctx_arena(c));
      llvm_text(c, m, target_get(c, targets[ti]), o.level, "run", &b);
      ok = ok && strstr(b.s, "@run(");
      emit_asm(c, m, target_get(c, targets[ti]), &o, NULL, &b);
      ok = ok && strstr(b.s, "double:");
    }
    CTX_CATCH { ok = false; }
    kit_diags(c);
    ctx_free(c);
    assert_true(ok);
  }
}
/* The same program as C source of a whole model, with constants, through the system's compiler. */
static void c_text(ctx *c, sbuf *b) {
  const int64_t dims[1] = {-1};
  const char *const names[1] = {"N"};
  ek_rt_tensor t = {"x \"quoted\"", 1, 1, dims, names}, u = {"y", 1, 0, NULL, NULL};
  ek_rt_model d = {.inputs = 1, .outputs = 1, .in = &t, .out = &u, .memory = "64*ceil(N/16)"};
  code_model x = {.name = "net", .model = &d, .weights = {(const uint8_t *)"abcdefg", 7}};
  volatile bool ok = false;
  CTX_TRY(c) {
    c_source(c, program(c), target_get(c, "c"), &x, b);
    ok = true;
  }
  CTX_CATCH {}
  assert_true(ok);
}
static void test_c_program(void **s) {
  (void)s;
  ctx *c = ctx_new();
  sbuf b = sbuf_new(ctx_arena(c));
  c_text(c, &b);
  void *lib = kit_compile_c(c, b.s, b.n);
  const ek_rt_model *(*info)(void) = (const ek_rt_model *(*)(void))dlsym(lib, "net_info");
  ek_rt_main run = (ek_rt_main)dlsym(lib, "net_run");
  assert_true(info && run && !dlsym(lib, "plan") && !dlsym(lib, "weights"));
  const ek_rt_model *m = info();
  assert_string_equal(m->in[0].name, "x \"quoted\"");
  assert_string_equal(m->in[0].dim_names[0], "N");
  assert_int_equal(m->weight_bytes, 7);
  assert_memory_equal(m->weights, "abcdefg", 7);
  float x[100], y[100];
  for (int i = 0; i < 100; i++) x[i] = (float)i;
  int64_t dims = 100, odims = -1;
  const void *in = x;
  void *out = y;
  ek_rt_call call = {.in = &in, .out = &out, .in_dims = &dims, .out_dims = &odims, .threads = 1};
  assert_int_equal(m->plan(&call), 0);
  assert_int_equal(call.arena_bytes, 448 + 128);
  call.arena = aligned_alloc(64, (size_t)call.arena_bytes);
  assert_int_equal(run(&call), 0);
  for (int i = 0; i < 100; i++) assert_true(y[i] == 4 * x[i]);
  assert_ptr_equal(call.weights, m->weights);
  dims = 0;
  assert_int_equal(m->plan(&call), E_SHAPE);
  assert_string_equal(call.message, "input x: N is at least 1");
  free(call.arena);
  dlclose(lib);
  ctx_free(c);
}
/* ---- modules in one process ----
 * Functions of equal text that call different ones are different. */
static void test_callees(void **s) {
  (void)s;
  ctx *c = ctx_new();
  jit *j = NULL;
  for (int v = 1; v <= 2; v++) {
    lmodule *m = loop_module(c, ctx_arena(c));
    lfunc *f = loop_func(m, LF_KERNEL, "k", "test kernel"), *run = loop_func(m, LF_MAIN, "run", NULL);
    lbuild b = loop_builder(f);
    lb_store(&b, ptr_out(&b, "y", ET_F32), lb_int(&b, 0), lb_const(&b, lt(ET_F32, 1), (scalar){.f = v}));
    b = loop_builder(run);
    lb_call(&b, false, "k", lb_int(&b, 1), (lv[]){lb_param(&b, "out.0", lptr(ET_F32), LP_WRITE, 0)}, 1);
    if (j)
      jit_add(j, m);
    else
      kit_find(c, m, "host", 1, "run", &j);
    float y = 0;
    void *out = &y;
    ek_rt_call call = {.out = &out, .threads = 1};
    assert_int_equal(((ek_rt_main)jit_find(j, "run"))(&call), 0);
    assert_true(y == (float)v);
  }
  jit_free(j);
  ctx_free(c);
}

/* ---- memory that ends ----
 * Each piece that the context asks for while code is made fails once: nothing of LLVM's may be left behind (a
 * build with sanitizers sees it). */
typedef struct purse {
  uint32_t asked, last;
} purse;
static void *some(void *user, size_t bytes) {
  purse *p = user;
  return ++p->asked == p->last ? NULL : malloc(bytes);
}
static void give(void *user, void *p, size_t bytes) { (void)user, (void)bytes, free(p); }
static bool made(ctx *c) {
  volatile bool ok = false;
  CTX_TRY(c) {
    const target *t = target_get(c, "host");
    code_opts o = {.level = 1, .threads = 1};
    lmodule *m = loop_module(c, ctx_arena(c));
    for (int i = 0; i < 2; i++) {
      lfunc *f = loop_func(m, LF_KERNEL, i ? "b" : "a", "test kernel");
      lbuild b = loop_builder(f);
      lv y = ptr_out(&b, "y", ET_F32);
      lb_store(&b, y, lb_int(&b, i), lb_const(&b, lt(ET_F32, 1), (scalar){.f = 1}));
    }
    jit *j = jit_new(c, t, &o);
    CTX_TRY(c) {
      jit_add(j, m);
      sbuf text = sbuf_new(ctx_arena(c));
      llvm_text(c, m, t, o.level, NULL, &text), emit_asm(c, m, t, &o, NULL, &text);
      ok = true;
    }
    CTX_CATCH {}
    jit_free(j);
  }
  CTX_CATCH {}
  return ok;
}
static void test_memory_ends(void **s) {
  (void)s;
  purse p = {0};
  ctx_memory mem = {.alloc = some, .free = give, .user = &p, .separate = true};
  for (bool ok = false; !ok; p.last++) {
    p.asked = 0;
    ctx *c = ctx_new_with(&mem);
    if (!c) continue;
    ok = made(c);
    if (!ok) assert_int_equal(diag_code(c), E_MEMORY);
    ctx_free(c);
    if (!p.last) ok = false; /* the whole, once */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_saxpy),      cmocka_unit_test(test_reversed),
                                     cmocka_unit_test(test_matmul),     cmocka_unit_test(test_movement),
                                     cmocka_unit_test(test_tables),     cmocka_unit_test(test_wide_tables),
                                     cmocka_unit_test(test_roundings),  cmocka_unit_test(test_repeated_roundings),
                                     cmocka_unit_test(test_horizontal), cmocka_unit_test(test_lookup),
                                     cmocka_unit_test(test_orders),     cmocka_unit_test(test_structure),
                                     cmocka_unit_test(test_program),    cmocka_unit_test(test_object),
                                     cmocka_unit_test(test_c_program),  cmocka_unit_test(test_callees),
                                     cmocka_unit_test(test_memory_ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
