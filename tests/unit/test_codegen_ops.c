/* Do emitter and evaluator agree on every scalar operation, for every element type? One kernel per type holds all
 * operations, one more per type all conversions from it; both are compared with the evaluator's lanes, bit for
 * bit but for NaNs' payloads, signed zeros of min and max, and the last place of transcendental functions. */
#include "eval/eval_in.h"
#include "jitkit.h"
#include <math.h>

enum {
  N = 256,
  OWN_WIDE = 97,
  OWN_NARROW = 96,
  OWN_ONE = 95 /* percent: all but remainders of floats, and a few saturating conversions without AVX-512 */
};
#define SEED 0x9E3779B97F4A7C15ull
static uint64_t rng = SEED;
static uint64_t rnd(void) {
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return rng;
}
static void sample(etype t, void *p, uint64_t salt) {
  static const double f[] = {0,      -0.0,   1,      -1,      2,      3,          -2.5,         0.5,
                             1.5,    -0.5,   1e-3,   448,     480,    65504,      65520,        1e6,
                             -1e10,  3e38,   1e-40,  5,       7,      -7,         127.5,        128,
                             -128.5, 255.5,  256,    32767.5, -32769, 2147483647, 2147483648.0, -2147483648.0,
                             9.2e18, 9.3e18, 1.8e19, -9.3e18};
  static const int64_t k[] = {0,  1,  -1, 2,   3,    -3,  7,   8,         15,        16,        31,        32,
                              63, 64, 65, 127, -128, 255, 256, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, -7};
  uint32_t w = et_bytes(t);
  for (int i = 0; i < N; i++) {
    uint64_t r = rnd() + salt;
    scalar s;
    if (et_kind(t) == K_FLOAT) {
      s.f = i % 4 == 0    ? f[r % (sizeof f / sizeof *f)]
            : i % 16 == 1 ? INFINITY
            : i % 16 == 2 ? NAN
            : i % 16 == 3 ? -INFINITY
            : i % 4 == 1  ? (double)(int64_t)(r % 41) - 20
                          : ldexp((double)(int64_t)(r >> 11) * 0x1p-52 - 1, (int)(r % 30) - 15);
      if (i % 8 == 7) { /* any code */
        uint64_t code = r;
        if (et_bits(t) < 8) code &= (1u << et_bits(t)) - 1;
        memcpy((char *)p + i * w, &code, w);
        continue;
      }
    } else {
      s.i = i % 3 == 0 ? k[r % (sizeof k / sizeof *k)] : i % 3 == 1 ? (int64_t)(r % 19) - 9 : (int64_t)r;
    }
    et_store(t, (char *)p + i * w, s);
  }
}
static bool takes(sop op, etype t) { /* what expr/ops.h and the loop verifier both allow */
  etype at[3] = {t, t, t}, r = ET_NONE;
  if (op == OP_SEL || op == OP_CAST || op == OP_SAT || op == OP_SATF || op == OP_BITCAST || op == OP_RAND) return false;
  if (t == ET_BOOL) switch (op) {
    case OP_AND:
    case OP_OR:
    case OP_NOT:
    case OP_EQ:
    case OP_NE:
    case OP_MIN:
    case OP_MAX:
    case OP_BAND:
    case OP_BOR:
    case OP_BXOR:
      return true;
    default:
      return false;
    }
  if (op == OP_NEXTAFTER && t == ET_F8E8M0) return false; /* no zero, no sign: not ordered as the others */
  return !op_type_error(op, at, op_arity(op), &r);
}
static bool transcendental(sop op) { return (op >= OP_EXP && op <= OP_ERF && op != OP_SQRT) || op == OP_POW; }
static double as_double(etype t, const void *p) {
  scalar s = et_load(t, p);
  return et_kind(t) == K_FLOAT ? s.f : (double)s.i;
}
static int wrong;
static void compare(const char *what, const char *target, sop op, etype to, etype from, const char *got,
                    const char *want, const char *x, const char *y) {
  uint32_t w = et_bytes(to), wf = et_bytes(from);
  for (int i = 0; i < N; i++) {
    const char *g = got + (uint32_t)i * w, *v = want + (uint32_t)i * w;
    if (!memcmp(g, v, w)) continue;
    if (op == OP_FMA && (!strcmp(target, "x86-64") || !strcmp(target, "c"))) continue; /* not fused there */
    /* the evaluator drops the exponent's top bit */
    if (op == OP_POW && from == ET_U64 && et_load(from, y + (uint32_t)i * wf).i < 0) continue;
    double a = as_double(to, g), b = as_double(to, v), n = as_double(from, y + (uint32_t)i * wf);
    if (op == OP_LDEXP && !(fabs(n) <= (from == ET_F64 ? 2044 : 252))) continue;
    if (et_kind(to) == K_FLOAT) {
      if (isnan(a) && isnan(b)) continue;
      if (a == b && (op == OP_MIN || op == OP_MAX || a != 0)) continue;
      if (transcendental(op)) {
        double eps = to == ET_F64    ? 0x1p-52
                     : to == ET_F32  ? 0x1p-23
                     : to == ET_F16  ? 0x1p-10
                     : to == ET_BF16 ? 0x1p-7
                                     : 0x1p-2;
        if (a == b || fabs(a - b) <= (op == OP_POW && to == ET_F64 ? 2000 : 4) * eps * fabs(b) +
                                         (to == ET_F64   ? 0x1p-1070
                                          : to == ET_F32 ? 0x1p-147
                                                         : 0x1p-9) *
                                             (et_bits(to) <= 16 && op == OP_POW ? 8 : 1))
          continue;
      }
    }
    if (wrong++ < 40)
      printf("%s %s %s <- %s on %s: (%g, %g) gives %g, expected %g\n", what, op_name(op), et_name(to), et_name(from),
             target, as_double(from, x + (uint32_t)i * wf), as_double(from, y + (uint32_t)i * wf), a, b);
    return;
  }
}
/* Several kernels in one module would each be compiled; one kernel with everything is quicker. */
typedef struct job {
  sop op;
  etype to;
  uint32_t at;
} job;
/* only: one job, by its number, through codegen/x86, if it can; -1: all. False: there is no such job. */
static uint32_t own_jobs, own_done;
static bool check_type(etype t, const char *target, int level, int codegen, bool conversions, unsigned W, int only) {
  ctx *c = ctx_new();
  uint32_t room = 0;
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
  lbuild b = loop_builder(f);
  ltype ty = lt(t, W);
  lv in[3], out, i, v[3];
  for (int k = 0; k < 3; k++)
    in[k] = lb_param(&b, (const char *[]){"x", "y", "z"}[k], lptr(t), LP_READ | LP_NOALIAS, 0);
  out = lb_param(&b, "out", lptr(ET_U8), LP_WRITE | LP_NOALIAS, 0);
  lb_for(&b, "i", lb_int(&b, 0), lb_int(&b, N), lb_int(&b, W), 0, &i);
  for (int k = 0; k < 3; k++) v[k] = lb_load(&b, ty, in[k], i);
  job jobs[3 * ET_COUNT + OP_COUNT];
  int n = 0, number = 0;
  for (int q = 1; q < (conversions ? ET_COUNT : OP_COUNT); q++) {
    job j = {.op = (sop)q, .to = t};
    if (conversions) {
      etype to = (etype)q;
      if (et_kind(to) == K_STR) continue;
      j.to = to;
      const sop ops[] = {OP_CAST, OP_SAT, OP_SATF};
      for (int o = 0; o < 3; o++) {
        bool floats = et_kind(to) == K_FLOAT;
        if ((o == 1 && (floats || t == ET_BOOL)) || (o == 2 && (!floats || t == ET_BOOL || to == ET_F8E8M0))) continue;
        j.op = ops[o];
        if (only >= 0 && number++ != only) continue;
        j.at = room;
        room += N * 8;
        jobs[n++] = j;
        lb_store(&b, lb_ptrcast(&b, to, lb_offset(&b, out, lb_int(&b, j.at))), i,
                 lb_op(&b, j.op, lt(to, W), v[0], 0, 0));
      }
      continue;
    }
    if (!takes(j.op, t)) continue;
    etype at[3] = {t, t, t};
    j.to = ET_NONE;
    op_type_error(j.op, at, op_arity(j.op), &j.to);
    if (only >= 0 && number++ != only) continue;
    j.at = room;
    room += N * 8;
    jobs[n++] = j;
    uint32_t ar = op_arity(j.op);
    lb_store(&b, lb_ptrcast(&b, j.to, lb_offset(&b, out, lb_int(&b, j.at))), i,
             lb_op(&b, j.op, lt(j.to, W), v[0], ar > 1 ? v[1] : 0, ar > 2 ? v[2] : 0));
  }
  lb_end(&b);
  jit *j = NULL;
  void *lib = NULL;
  bool in_c = !strcmp(target, "c");
  ek_rt_kernel k = (ek_rt_kernel)(!n     ? NULL
                                  : in_c ? kit_find_c(c, m, "k", &lib)
                                         : kit_find_by(c, m, target, level, codegen, "k", &j));
  if (only >= 0) own_jobs += n > 0, own_done += k != NULL;
  if (n && !k && getenv("EK_TEST_REFUSED"))
    printf("%s %s <- %s x%u on %s: %s\n", op_name(jobs[0].op), et_name(jobs[0].to), et_name(t), W, target,
           diag_first(c) ? diag_first(c)->text : "");
  if (!k) {
    jit_free(j);
    ctx_free(c);
    return n > 0;
  }
  char *x[3], *got = calloc(room + 64, 1), *want = calloc(N, 8);
  for (int q = 0; q < 3; q++) sample(t, x[q] = calloc(N, 8), (uint64_t)q);
  k((int64_t[]){ARG(x[0]), ARG(x[1]), ARG(x[2]), ARG(got)}, 0, 1, 0);
  static strip s[3], r;
  for (int q = 0; q < 3; q++) lanes_read(t, &s[q], x[q], NULL, 0, N);
  for (int q = 0; q < n; q++) {
    strip a[3];
    memcpy(a, s, sizeof a);
    lanes_op(jobs[q].op, jobs[q].to, t, &r, &a[0], &a[1], &a[2], N);
    memset(want, 0, N * 8);
    lanes_write(jobs[q].to, want, 0, &r, N);
    compare(conversions ? "conversion" : "operation", target, jobs[q].op, jobs[q].to, t, got + jobs[q].at, want, x[0],
            x[1]);
  }
  for (int q = 0; q < 3; q++) free(x[q]);
  free(got), free(want);
  jit_free(j);
  if (lib) dlclose(lib);
  ctx_free(c);
  return true;
}
/* ---- the tests: for each machine; where all operations are one function, for each type, too ---- */
typedef struct on_machine {
  const char *target;
  int level;      /* -O of the emitter; codegen/x86 has none */
  unsigned lanes; /* of each vector */
  unsigned least; /* percent of the operations that codegen/x86 must know; 0: LLVM or C */
} on_machine;
static const on_machine machines[] = {{"host", 1, 16, 0},
                                      {"x86-64-v3", 1, 8, 0},
                                      {"x86-64", 0, 4, 0},
                                      {"host", 1, 1, 0},
                                      {"c", 0, 1, 0},
                                      {"c", 0, 4, 0},
                                      {"x86-64-v4", 1, 16, OWN_WIDE},
                                      {"x86-64-v4", 1, 8, OWN_WIDE},
                                      {"x86-64-v4", 1, 1, OWN_ONE},
                                      {"x86-64-v3", 1, 8, OWN_NARROW},
                                      {"x86-64-v3", 1, 1, OWN_ONE}};
typedef struct sweep {
  const on_machine *on;
  etype type; /* ET_NONE: all */
  bool conversions;
} sweep;
static void all(void **state) {
  const sweep *s = *state;
  wrong = 0, rng = SEED + s->type;
  check_type(s->type, s->on->target, s->on->level, EK_CODE_LLVM, s->conversions, s->on->lanes, -1);
  assert_int_equal(wrong, 0);
}
/* codegen/x86 by itself, an operation at a time: it refuses functions, not operations. Most it must know. */
static void own(void **state) {
  const sweep *s = *state;
  const on_machine *on = s->on;
  ctx *c = ctx_new();
  const target *t = target_get(c, on->target);
  bool here = t && t->here;
  ctx_free(c);
  wrong = 0, own_jobs = own_done = 0, rng = SEED;
  if (!here) skip();
  for (int k = 1; k < ET_COUNT; k++)
    for (int q = 0; et_kind((etype)k) != K_STR &&
                    check_type((etype)k, on->target, on->level, EK_CODE_OWN, s->conversions, on->lanes, q);
         q++) {}
  assert_int_equal(wrong, 0);
  if (getenv("EK_TEST_REFUSED")) printf("%s x%u: %u of %u\n", on->target, on->lanes, own_done, own_jobs);
  if (own_done * 100 < own_jobs * on->least)
    fail_msg("%s, %u lanes: only %u of %u are known", on->target, on->lanes, own_done, own_jobs);
}
static void test_rand(void **s) {
  (void)s;
  ctx *c = ctx_new();
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
  lbuild b = loop_builder(f);
  lv p = lb_param(&b, "p", lptr(ET_I64), LP_READ, 0), q = lb_param(&b, "q", lptr(ET_I64), LP_READ, 0),
     y = lb_param(&b, "y", lptr(ET_F32), LP_WRITE, 0);
  lb_store(&b, y, lb_int(&b, 0),
           lb_op(&b, OP_RAND, lt(ET_F32, 8), lb_load(&b, lt(ET_I64, 8), p, lb_int(&b, 0)),
                 lb_load(&b, lt(ET_I64, 8), q, lb_int(&b, 0)), 0));
  jit *j = NULL;
  ek_rt_kernel k = (ek_rt_kernel)kit_find(c, m, "host", 1, "k", &j);
  strip a, n, want;
  float got[8];
  for (int i = 0; i < 8; i++) a.i[i] = (int64_t)rnd(), n.i[i] = i < 4 ? i : (int64_t)rnd();
  k((int64_t[]){ARG(a.i), ARG(n.i), ARG(got)}, 0, 1, 0);
  lanes_op(OP_RAND, ET_F32, ET_I64, &want, &a, &n, &n, 8);
  for (int i = 0; i < 8; i++) assert_true(got[i] == want.f[i]);
  jit_free(j);
  ctx_free(c);
}
/* ---- f32 to bf16 in a module that says flush: the exact conversion, but that a subnormal number may be 0 ---- */
static uint32_t flush_bad(const char *target, int codegen, unsigned W) {
  ctx *c = ctx_new();
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
  lbuild b = loop_builder(f);
  lv p = lb_param(&b, "p", lptr(ET_F32), LP_READ | LP_NOALIAS, 0),
     y = lb_param(&b, "y", lptr(ET_BF16), LP_WRITE | LP_NOALIAS, 0), i;
  m->flush = true;
  lb_for(&b, "i", lb_int(&b, 0), lb_int(&b, N), lb_int(&b, W), 0, &i);
  lb_store(&b, y, i, lb_op(&b, OP_CAST, lt(ET_BF16, W), lb_load(&b, lt(ET_F32, W), p, i), 0, 0));
  lb_end(&b);
  jit *j = NULL;
  ek_rt_kernel k = (ek_rt_kernel)kit_find_by(c, m, target, 1, codegen, "k", &j);
  char *x = calloc(N, 8);
  uint16_t got[N], want[N];
  uint32_t bad = k == NULL;
  sample(ET_F32, x, 0);
  for (int q = 0; q < 8; q++) memcpy(x + 4 * q, &(uint32_t){(uint32_t)(q % 2) << 31 | (uint32_t)(1 << 3 * q)}, 4);
  if (k) k((int64_t[]){ARG(x), ARG(got)}, 0, 1, 0);
  for (int q = 0; q < N && k; q++) {
    const scalar v = et_load(ET_F32, x + 4 * q);
    et_store(ET_BF16, &want[q], v);
    const bool zero = fabs(v.f) < 0x1p-126 && (got[q] & 0x7fff) == 0;
    if (got[q] != want[q] && !zero && !(isnan(v.f) && isnan(et_load(ET_BF16, &got[q]).f)) && !bad++)
      printf("%s x%u: %a gives %x, expected %x\n", target, W, v.f, got[q], want[q]);
  }
  free(x);
  jit_free(j);
  ctx_free(c);
  return bad;
}
static void test_flush(void **s) {
  (void)s;
  static const unsigned lanes[] = {1, 4, 8, 16, 32};
  rng = SEED;
  for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
    assert_int_equal(flush_bad("host", EK_CODE_LLVM, lanes[i]), 0);
    assert_int_equal(flush_bad("host", EK_CODE_AUTO, lanes[i]), 0);
  }
}
#define COUNT(x) (sizeof(x) / sizeof *(x))
int main(void) {
  static sweep sweeps[2 * COUNT(machines) * ET_COUNT];
  static struct CMUnitTest tests[COUNT(sweeps) + 2];
  size_t n = 0;
  ctx *c = ctx_new();
  for (int conversions = 0; conversions < 2; conversions++)
    for (size_t k = 0; k < COUNT(machines); k++) {
      const on_machine *on = &machines[k];
      const char *what =
          arena_fmt(ctx_arena(c), "%s %s x%u", conversions ? "conversions" : "operations", on->target, on->lanes);
      for (int t = on->least ? ET_NONE : ET_NONE + 1; t < (on->least ? ET_NONE + 1 : ET_COUNT); t++) {
        if (t != ET_NONE && et_kind((etype)t) == K_STR) continue;
        sweeps[n] = (sweep){on, (etype)t, conversions};
        tests[n] =
            (struct CMUnitTest){.name = arena_fmt(ctx_arena(c), "%s %s", on->least ? "own" : et_name((etype)t), what),
                                .test_func = on->least ? own : all,
                                .initial_state = &sweeps[n]};
        n++;
      }
    }
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_rand);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_flush);
  int r = _cmocka_run_group_tests("operations", tests, n, NULL, NULL);
  ctx_free(c);
  return r;
}
