/* Does each declared instruction compute its formula? Those of the built-in targets that this machine runs, by
 * codegen/x86, by LLVM and as C, on random values and on the least and greatest ones, against the evaluator on the
 * formula. And is a wrong declaration refused, with its line and the reason? */
#include "eval/eval.h"
#include "expr/expr.h"
#include "jitkit.h"
#include "target/target.h"

enum { MOST_BYTES = 512, ROUNDS = 40 };
typedef struct operands {
  _Alignas(64) uint8_t v[INSTRUCTION_OPERANDS][MOST_BYTES];
} operands;
static uint64_t state = 1;
static uint32_t draw(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}
static uint32_t elements(const instruction *k, uint32_t o) { return k->lanes * (o ? k->group : 1); }
/* An element: the least, the greatest, 0, 1 or -1, or any. corner 0: any */
static scalar element(etype t, uint32_t corner) {
  const uint32_t bits = et_bits(t);
  const int64_t top = bits >= 64 ? INT64_MAX : ((int64_t)1 << (bits - (et_kind(t) != K_UINT))) - 1,
                low = et_kind(t) == K_UINT ? 0 : -top - 1;
  if (et_kind(t) == K_FLOAT) {
    static const double corners[] = {0, 1, -1, 1e15, -1e15, 1e-15};
    return (scalar){.f = corner ? corners[corner % 6] : ((double)draw(1 << 20) / (1 << 19) - 1) * 8};
  }
  const int64_t corners[] = {low, top, low, top, 0, 1, et_kind(t) == K_UINT ? top : -1};
  return (scalar){.i = corner ? corners[corner % 7]
                              : low + (int64_t)(((uint64_t)draw(1u << 31) << 31 | draw(1u << 31)) %
                                                ((uint64_t)top - (uint64_t)low + 1))};
}
static void fill(const instruction *k, uint32_t round, operands *x) {
  for (uint32_t o = 0; o < k->noperands; o++) {
    const etype t = k->operands[o].type;
    for (uint32_t i = 0; i < elements(k, o);
         i++) /* rounds of one corner each, then of drawn ones, then of any values */
      et_store(t, x->v[o] + (size_t)i * et_bytes(t),
               element(t, round < 7            ? 1 + (round + o) % 7
                          : round < ROUNDS / 2 ? 1 + draw(41)
                                               : 0));
  }
}
static void expected(const instruction *k, const operands *x, uint8_t *y, double *size) {
  ctx *c = ctx_new();
  CTX_TRY(c) {
    emodule *m = expr_module(c);
    tid in[INSTRUCTION_OPERANDS], out;
    assert_true(instruction_stage(m, k, in, &out));
    evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
    for (uint32_t o = 0; o < k->noperands; o++) {
      const etype t = k->operands[o].type;
      ndarray d = {
          .type = t, .rank = xt(m, in[o])->rank, .dims = {k->lanes, k->group}, .data = (void *)(uintptr_t)x->v[o]};
      d.bytes = (size_t)elements(k, o) * et_bytes(t);
      expr_eval_input(v, in[o], &d);
    }
    const ndarray *r = expr_eval_get(v, out);
    memcpy(y, r->data, r->bytes);
    for (uint32_t i = 0; i < k->lanes; i++) { /* how large the terms are, by which sums of floats may differ */
      size[i] = 0;
      for (uint32_t o = 0; o < k->noperands; o++) {
        double most = 0;
        const uint32_t n = o ? k->group : 1;
        for (uint32_t j = 0; j < n; j++) {
          const double e =
              et_load(k->operands[o].type, x->v[o] + (size_t)(i * n + j) * et_bytes(k->operands[o].type)).f;
          most = most > (e < 0 ? -e : e) ? most : e < 0 ? -e : e;
        }
        size[i] = o < 2 ? (o ? size[i] + most : most) : size[i] + size[i] * most;
      }
    }
  }
  CTX_CATCH { fail(); }
  ctx_free(c);
}
static lmodule *kernel_of(ctx *c, const instruction *k) {
  lmodule *m = loop_module(c, ctx_arena(c));
  lbuild b = loop_builder(loop_func(m, LF_KERNEL, "k", k->name));
  static const etype words[] = {[1] = ET_U8, [2] = ET_U16, [4] = ET_U32, [8] = ET_U64};
  lv args[INSTRUCTION_OPERANDS], zero = lb_int(&b, 0);
  lv to = lb_param(&b, "y", lptr(k->operands[0].type), LP_READ | LP_WRITE | LP_NOALIAS, 0);
  args[0] = lb_load(&b, lt(k->operands[0].type, k->lanes), to, zero);
  for (uint32_t o = 1; o < k->noperands; o++) {
    const etype w = words[instruction_word(k, o)];
    args[o] = lb_load(&b, lt(w, k->lanes), lb_param(&b, k->operands[o].name, lptr(w), LP_READ | LP_NOALIAS, 0), zero);
  }
  lb_store(&b, to, zero, lb_intrin(&b, k->name, lt(k->operands[0].type, k->lanes), args, k->noperands));
  return m;
}
static void compare(const instruction *k, ek_rt_kernel f, const char *by) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    operands x;
    uint8_t y[MOST_BYTES];
    double size[64];
    const etype t = k->operands[0].type;
    fill(k, round, &x);
    expected(k, &x, y, size);
    int64_t args[INSTRUCTION_OPERANDS];
    for (uint32_t o = 0; o < k->noperands; o++) args[o] = ARG(x.v[o]);
    f(args, 0, 1, 0);
    for (uint32_t i = 0; i < k->lanes; i++) {
      const scalar a = et_load(t, x.v[0] + (size_t)i * et_bytes(t)), e = et_load(t, y + (size_t)i * et_bytes(t));
      const double d = et_kind(t) == K_FLOAT ? a.f - e.f : (double)(a.i - e.i);
      if ((d < 0 ? -d : d) <= (et_kind(t) == K_FLOAT ? 1e-6 * size[i] + 1e-30 : 0)) continue;
      fprintf(stderr, "%s by %s, round %u, lane %u: %g (%lld), expected %g (%lld)\n", k->name, by, round, i, a.f,
              (long long)a.i, e.f, (long long)e.i);
      fail();
    }
  }
}
static uint32_t try_instruction(const target *t, const instruction *k) {
  static const struct {
    const char *name;
    int codegen;
  } by[] = {{"codegen/x86", EK_CODE_OWN}, {"LLVM", EK_CODE_LLVM}};
  uint32_t tried = 0;
  for (int i = 0; i < 3; i++) {
    ctx *c = ctx_new();
    lmodule *m = kernel_of(c, k);
    jit *j = NULL;
    void *lib = NULL;
    ek_rt_kernel f = NULL;
    if (i < 2 && (i || k->x86.bits)) f = (ek_rt_kernel)(uintptr_t)kit_find_by(c, m, t->name, 1, by[i].codegen, "k", &j);
    if (i == 2) {
      sbuf b = sbuf_new(ctx_arena(c));
      c_source(c, m, t, NULL, &b);
      lib = kit_compile_c(c, b.s, b.n);
      f = (ek_rt_kernel)(uintptr_t)dlsym(lib, "k");
    }
    if (i != 0 || k->x86.bits) assert_non_null(f);
    if (f) compare(k, f, i < 2 ? by[i].name : "C"), tried++;
    if (lib) dlclose(lib);
    if (j) jit_free(j);
    ctx_free(c);
  }
  return tried;
}
static void test_builtin(void **s) {
  (void)s;
  ctx *c = ctx_new();
  const char **names;
  uint32_t tried = 0, usable = 0;
  for (uint32_t i = 0, n = target_names(c, &names); i < n; i++) {
    const target *t = target_get(c, names[i]);
    for (uint32_t j = 0; t->here && j < t->instructions.n; j++)
      if (t->instructions.v[j].usable) usable++, tried += try_instruction(t, &t->instructions.v[j]);
  }
  ctx_free(c);
  printf("%u instructions, %u comparisons\n", usable, tried);
  if (!usable) skip();
  assert_true(tried >= 2 * usable);
}
/* Of AVX-VNNI, which no processor with a target of its own has without AVX-512: in VEX. */
static void test_vex(void **s) {
  (void)s;
  static const char text[] = "extends = x86-64-v3\nrequires = avx2 fma f16c bmi2 avxvnni\n";
  const char *path = EK_BINARY_DIR "/vex.target";
  ctx *c = ctx_new();
  assert_true(file_write(c, path, text, sizeof text - 1));
  const target *t = target_get(c, path);
  assert_non_null(t);
  const bool here = t->here;
  const instruction *k = target_instruction(t, "vpdpbusd");
  assert_true(k->usable && k->x86.vex && !target_instruction(target_get(c, "x86-64-v3"), "vpdpbusd")->usable);
  if (here) assert_int_equal(try_instruction(t, k), 3);
  ctx_free(c);
  remove(path);
  if (!here) skip();
}
/* Of SSE2, whose terms another instruction adds, is written by LLVM alone; of AVX2, by both. */
static void test_added(void **s) {
  (void)s;
  ctx *c = ctx_new();
  const instruction *k = target_instruction(target_get(c, "x86-64-v3"), "vpmaddwd"),
                    *plain = target_instruction(target_get(c, "x86-64"), "pmaddwd"),
                    *dot = target_instruction(target_get(c, "zen5"), "vpdpbusd");
  assert_true(k->usable && k->x86.vex && k->x86.added && k->nllvm == 2 && k->symmetric);
  assert_true(plain->usable && !plain->x86.bits && plain->nllvm == 2);
  assert_true(instruction_scratch(k) == 1 && instruction_scratch(plain) == 1 && instruction_scratch(dot) == 0);
  ctx_free(c);
}
/* ---- declarations ------------------------------------------------------------------------------- */
#define OPERANDS "operands = c: i32[8], a: u8[8, 4], b: i8[8, 4]\n"
#define FORMULA "formula = c[i] + sum[k] i32(a[i, k]) * i32(b[i, k])\n"
#define COST "per_cycle = 2\nlatency = 4\n"
#define ALL OPERANDS FORMULA COST
static void test_declarations(void **s) {
  (void)s;
  static const struct {
    const char *text, *why;
    uint32_t line;
  } bad[] = {
      {"operands = c: i32[8]\n", "belongs to an instruction", 2},
      {"instruction = dot\n" FORMULA COST, "instruction dot: operands: it is missing", 2},
      {"instruction = dot\n" OPERANDS FORMULA "latency = 4\n", "per_cycle: it is missing", 2},
      {"instruction = dot\n" OPERANDS OPERANDS, "`operands` is set twice", 4},
      {"instruction = dot\n" ALL "instruction = dot\n" ALL, "declared twice", 7},
      {"instruction = a dot\n" ALL, "a word of letters", 2},
      {"instruction = dot\noperands = c: i32[8], a: u8[8, 3], b: i8[8, 3]\n" FORMULA COST, "a power of two", 3},
      {"instruction = dot\noperands = c: i32[8], a: u8[4, 4], b: i8[8, 4]\n" FORMULA COST, "equal lanes", 3},
      {"instruction = dot\noperands = c: i32[8, 4], a: u8[8, 4]\n" FORMULA COST, "the accumulator, has one", 3},
      {"instruction = dot\noperands = c: i32[8], a: u9[8, 4]\n" FORMULA COST, "expected operands as in", 3},
      {"instruction = dot\noperands = c: i32[8], a: u8[8, 4], a: i8[8, 4]\n" FORMULA COST, "expected operands as in",
       3},
      {"instruction = dot\n" OPERANDS "formula = c[i] + sum[k] a[i, k] * b[i, k]\n" COST, "formula: ", 4},
      {"instruction = dot\n" OPERANDS "formula = c[i] +\n" COST, "formula: ", 4},
      {"instruction = dot\n" OPERANDS "formula = c[i] - sum[k] i32(a[i, k]) * i32(b[i, k])\n" COST,
       "added to it a term", 4},
      {"instruction = dot\n" OPERANDS "formula = c[i] + sum[k] i32(a[i, k]) * c[i]\n" COST, "accumulator is read again",
       4},
      {"instruction = dot\n" OPERANDS "formula = c[i] + sum[k] i32(a[i, k]) * i32(b[7 - i, k])\n" COST,
       "at other places", 4},
      {"instruction = dot\n" OPERANDS FORMULA "per_cycle = 0\nlatency = 4\n", "a number above 0", 5},
      {"instruction = dot\n" OPERANDS FORMULA "per_cycle = 2\nlatency = none\n", "expected 1 to 64", 5},
      {"instruction = dot\n" ALL "needs = avx2 avx1024\n", "no CPU flag `avx1024`", 7},
      {"instruction = dot\n" ALL "llvm = vpdpbusd c a b\n", "expected an intrinsic", 7},
      {"instruction = dot\n" ALL "llvm = llvm.x86.dot c a\n", "each operand once", 7},
      {"instruction = dot\n" ALL "llvm = llvm.x86.dot c a b b\n", "more behind", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.256.66.0F38.W0 50 /r c a\n", "each operand once", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.256.66.0F38.W0 50 /r a b c\n", "ModRM.reg is the accumulator", 7},
      {"instruction = dot\n" ALL "llvm = llvm.x86.dot a a\n", "each operand once", 7},
      {"instruction = dot\n" ALL "x86 = VEX.256.66.0F.WIG F5 /r a\n", "each operand once", 7},
      {"instruction = dot\n" ALL "x86 = VEX.256.66.0F.WIG F5 /r a b b\n", "more behind", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.512.66.0F38.W0 50 /r c a b\n", "fills 256 bits", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.256.67.0F38.W0 50 /r c a b\n", "expected an encoding", 7},
      {"instruction = dot\n" ALL "x86 = XOP.256.66.0F38.W0 50 /r c a b\n", "expected an encoding", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.256.66.0F38.W0 5G /r c a b\n", "expected an encoding", 7},
      {"instruction = dot\n" ALL "x86 = EVEX.256.66.0F38.W0 50 /r c a b/m64bcst\n", "a word for all lanes", 7},
      {"instruction = dot\n" ALL "x86 = VEX.256.66.MAP5.W0 50 /r c a b\n", "VEX has vectors", 7},
  };
  const char *path = EK_BINARY_DIR "/instruction.target";
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ctx *c = ctx_new();
    const char *text = arena_fmt(ctx_arena(c), "extends = x86-64-v3\n%s", bad[i].text);
    assert_true(file_write(c, path, text, strlen(text)));
    const target *t = target_get(c, path);
    const diag *d = diag_first(c);
    if (t || !d || !strstr(d->text, bad[i].why) || d->pos.line != bad[i].line)
      fprintf(stderr, "%s%s:%u: %s\n", bad[i].text, path, d ? d->pos.line : 0, d ? d->text : "no error");
    assert_null(t);
    assert_true(d && strstr(d->text, bad[i].why) && d->pos.line == bad[i].line);
    ctx_free(c);
  }
  remove(path);
}
/* One without a name in LLVM and without an encoding is spelled; a later file replaces what it extends. */
static void test_spelled(void **s) {
  (void)s;
  static const char text[] = "instruction = dot\n" ALL "instruction = odd\n"
                             "operands = acc: f32[4], x: i16[4], y: f32[4], z: u8[4]\n"
                             "formula = f32(x[i]) * max(y[i], 0.5) + acc[i]\nneeds = avx10.1\n" COST;
  const char *path = EK_BINARY_DIR "/spelled.target", *mine = EK_BINARY_DIR "/spelled2.target";
  ctx *c = ctx_new();
  const char *all = arena_fmt(ctx_arena(c), "extends = x86-64\n%s", text);
  assert_true(file_write(c, path, all, strlen(all)));
  const target *t = target_get(c, path);
  assert_non_null(t);
  const instruction *dot = target_instruction(t, "dot"), *odd = target_instruction(t, "odd");
  assert_true(dot->usable && dot->lanes == 8 && dot->group == 4 && !dot->symmetric && dot->noperands == 3);
  assert_true(!odd->usable && odd->group == 1 && odd->noperands == 4 && !target_instruction(t, "none"));
  assert_null(target_products(t, ET_F32, ET_BF16, ET_BF16));
  if (t->here) assert_true(try_instruction(t, dot) == 2);
  const char *again = "extends = zen5\ninstruction = vdpbf16ps\n" ALL;
  assert_true(file_write(c, mine, again, strlen(again)));
  const target *q = target_get(c, mine);
  assert_true(q && target_instruction(q, "vdpbf16ps")->operands[1].type == ET_U8);
  assert_int_equal(q->instructions.n, target_get(c, "zen5")->instructions.n);
  ctx_free(c);
  remove(path), remove(mine);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_builtin), cmocka_unit_test(test_vex),
                                     cmocka_unit_test(test_added), cmocka_unit_test(test_declarations),
                                     cmocka_unit_test(test_spelled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
