/* Loop level without any emitter: what the builder folds and shares, the text form (print, parse, print), what the
 * verifier refuses, sharing by hash. */
#include "loop/loop.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char *print(ctx *c, const lmodule *m) {
  sbuf b = sbuf_new(ctx_arena(c));
  loop_print(m, &b, NULL);
  return b.s;
}
/* A module with every kind of instruction. */
static lmodule *everything(ctx *c) {
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "all_1", "every instruction, with a \"note\"");
  lbuild b_ = loop_builder(f), *b = &b_;
  lv x = lb_param(b, "x", lptr(ET_F32), LP_READ | LP_NOALIAS, 64), y = lb_param(b, "y", lptr(ET_F32), LP_WRITE, 0),
     n = lb_param(b, "n", lt(ET_I64, 1), 0, 0), i, j;
  f->scratch_bytes = 256;
  lb_comment(b, "first\nsecond");
  lv acc = lb_reg(b, lb_const(b, lt(ET_F32, 8), (scalar){.f = -INFINITY}));
  lb_for(b, "i", lb_lo(b), lb_hi(b), lb_int(b, 1), 0, &i);
  lb_for(b, "j", lb_int(b, 0), n, lb_int(b, 8), 4, &j);
  lv a = lb_load_ex(b, lt(ET_F32, 8), x, lb_add(b, lb_mul(b, i, n), j), 0, lb_sub(b, n, j), 0, 32);
  lv q = lb_param(b, "q", lptr(ET_I32), LP_READ, 0); /* a parameter asked for late stands at the head */
  lv iv = lb_op(b, OP_ADD, lt(ET_I32, 8), lb_load(b, lt(ET_I32, 8), q, j), lb_iota(b, lt(ET_I32, 8)), 0);
  lv mask = lb_cmp(b, OP_GT, a, lb_const(b, lt(ET_F32, 1), (scalar){.f = 0.1}));
  lv g = lb_gather(b, lt(ET_F32, 8), x, iv, mask);
  lb_set(b, acc,
         lb_op(b, OP_MAX, lt(ET_F32, 8), lb_get(b, acc),
               lb_op(b, OP_FMA, lt(ET_F32, 8), a, g, lb_splat(b, 8, lb_load(b, lt(ET_F32, 1), x, i))), 0));
  lb_scatter(b, y, iv, a, mask);
  lb_store(b, y, i, lb_lookup(b, lt(ET_F32, 8), iv, (uint32_t[]){0, 0x3f800000, 0x80000000, 0x40490fdb}, 4));
  lb_store_ex(b, y, j, a, mask, 0, n, 0);
  lb_if(b, lb_cmp(b, OP_LT, i, lb_worker(b)));
  lb_store(b, y, i, lb_hreduce(b, RED_SUM, a));
  lb_else(b);
  lb_store(b, y, i, lb_extract(b, a, 3));
  lb_end(b);
  lb_end(b);
  int32_t lanes[4] = {0, 9, -1, 3};
  lb_store(b, lb_offset(b, y, i), lb_int(b, 2), lb_shuffle(b, lb_get(b, acc), lb_get(b, acc), lanes, 4));
  lb_end(b);
  lv t = lb_alloc(b, ET_I8, 64), s = lb_scratch(b, ET_I8, 128), v = lb_load(b, lt(ET_I8, 64), s, lb_int(b, 0));
  lb_store(b, t, lb_int(b, 0), v);
  lv dot = lb_intrin(b, "llvm.x86.avx512.vpdpbusd.512", lt(ET_I32, 16),
                     (lv[]){lb_const(b, lt(ET_I32, 16), (scalar){.i = 1}), v, v}, 3);
  lb_store(b, lb_ptrcast(b, ET_I32, t), lb_int(b, 0), dot);
  lb_store(b, lb_ptrcast(b, ET_F16, t), lb_int(b, 0),
           lb_op(b, OP_CAST, lt(ET_F16, 1), lb_const(b, lt(ET_F64, 1), (scalar){.f = NAN}), 0, 0));
  lb_store(b, lb_ptrcast(b, ET_U64, t), lb_int(b, 1), lb_const(b, lt(ET_U64, 1), (scalar){.i = -1}));
  lfunc *r = loop_func(m, LF_MAIN, "run", NULL);
  b_ = loop_builder(r);
  lv in = lb_param(b, "in.0", lptr(ET_F32), LP_READ, 0), out = lb_param(b, "out.0", lptr(ET_F32), LP_WRITE, 0),
     ar = lb_param(b, "arena", lptr(ET_U8), LP_WRITE, 64), d = lb_param(b, "in_dims", lptr(ET_I64), LP_READ, 0);
  lv rows = lb_load(b, lt(ET_I64, 1), d, lb_int(b, 0));
  lb_fail(b, lb_cmp(b, OP_GT, rows, lb_int(b, 100)), E_SHAPE, "too many rows");
  lv args[] = {in, out, rows, lb_ptrcast(b, ET_I32, ar), lb_offset(b, ar, lb_int(b, 640)), lb_int(b, 256)};
  lb_call(b, true, "all_1", rows, args, 6);
  lb_call(b, false, "all_1", lb_int(b, 1), args, 6);
  return m;
}
static void test_text(void **st) {
  (void)st;
  ctx *c = ctx_new();
  const char *volatile one = NULL, *volatile two = NULL;
  volatile bool legal = false;
  volatile uint64_t h1 = 0, h2 = 1;
  CTX_TRY(c) {
    lmodule *m = everything(c);
    m->fast = m->flush = true;
    legal = loop_verify(m, "test");
    one = print(c, m);
    lmodule *p = loop_parse(c, one, "text");
    legal = legal && p->fast && p->flush && loop_verify(p, "parsed");
    two = print(c, p);
    h1 = loop_hash(m->funcs.v[0]), h2 = loop_hash(p->funcs.v[0]);
  }
  CTX_CATCH {}
  for (const diag *d = diag_first(c); d; d = d->next) printf("%u:%u %s\n", d->pos.line, d->pos.col, d->text);
  assert_true(legal);
  if (!two || strcmp(one, two)) printf("%s\n----\n%s\n", one, two ? two : "");
  assert_string_equal(one, two);
  assert_true(h1 == h2);
  ctx_free(c);
}
static void test_hash(void **st) {
  (void)st;
  ctx *c = ctx_new();
  uint64_t h[3];
  for (int k = 0; k < 3; k++) {
    lmodule *m = loop_module(c, ctx_arena(c));
    lfunc *f = loop_func(m, LF_KERNEL, k ? "other" : "name", k ? "note" : NULL);
    lbuild b = loop_builder(f);
    lv x = lb_param(&b, k ? "p" : "q", lptr(ET_F32), LP_WRITE, 0), i;
    lb_comment(&b, k ? "a" : "b");
    lb_for(&b, k ? "i" : "j", lb_int(&b, 0), lb_hi(&b), lb_int(&b, 1), 0, &i);
    lb_store(&b, x, i, lb_const(&b, lt(ET_F32, 1), (scalar){.f = k == 2 ? 1 : 2}));
    lb_end(&b);
    h[k] = loop_hash(f);
  }
  assert_true(h[0] == h[1]);
  assert_true(h[0] != h[2]);
  ctx_free(c);
}

/* ---- folding and sharing --------------------------------------------------------------------- */
static void test_folding(void **st) {
  (void)st;
  ctx *c = ctx_new();
  lmodule *m = loop_module(c, ctx_arena(c));
  lfunc *f = loop_func(m, LF_KERNEL, "k", NULL);
  lbuild b_ = loop_builder(f), *b = &b_;
  lv n = lb_param(b, "n", lt(ET_I64, 1), 0, 0), p = lb_param(b, "p", lptr(ET_F32), LP_READ, 0);
  ltype I = lt(ET_I64, 1), F = lt(ET_F32, 1);
  scalar k;
#define INT(v, want) assert_true(loop_const(f, v, &k) && k.i == (want))
  INT(lb_add(b, lb_int(b, 2), lb_int(b, 3)), 5);
  INT(lb_op(b, OP_IDIV, I, lb_int(b, -7), lb_int(b, 2), 0), -4);
  INT(lb_op(b, OP_MOD, I, lb_int(b, -7), lb_int(b, 4), 0), 1);
  INT(lb_op(b, OP_IDIV, I, lb_int(b, 7), lb_int(b, 0), 0), 0);
  INT(lb_op(b, OP_IDIV, I, lb_int(b, INT64_MIN), lb_int(b, -1), 0), INT64_MIN);
  INT(lb_muli(b, n, 0), 0);
  INT(lb_sub(b, n, n), 0);
  INT(lb_op(b, OP_MOD, I, n, lb_int(b, 1), 0), 0);
  INT(lb_cmp(b, OP_LE, n, n), 1);
  INT(lb_op(b, OP_CAST, lt(ET_U8, 1), lb_int(b, 300), 0, 0), 44);
  assert_int_equal(lb_addi(b, n, 0), n);
  assert_int_equal(lb_muli(b, n, 1), n);
  assert_int_equal(lb_addi(b, lb_addi(b, n, 3), -3), n);
  assert_int_equal(lb_add(b, lb_int(b, 3), n), lb_addi(b, n, 3)); /* one value */
  assert_int_equal(lb_sub(b, lb_addi(b, n, 8), lb_addi(b, n, 8)), lb_int(b, 0));
  assert_int_equal(lb_op(b, OP_IDIV, I, n, lb_int(b, 8), 0), lb_op(b, OP_SHR, I, n, lb_int(b, 3), 0));
  lv x = lb_load(b, F, p, n), zero = lb_const(b, F, (scalar){.f = 0}), one = lb_const(b, F, (scalar){.f = 1});
  assert_int_equal(lb_op(b, OP_MUL, F, one, x, 0), x);
  assert_int_not_equal(lb_op(b, OP_ADD, F, x, zero, 0), x);    /* -0 + 0 is 0 */
  assert_int_not_equal(lb_op(b, OP_MUL, F, x, zero, 0), zero); /* NaN */
  assert_int_not_equal(lb_load(b, F, p, n), x);                /* memory may have changed */
  lv big = lb_op(b, OP_ADD, F, lb_const(b, F, (scalar){.f = 1}), lb_const(b, F, (scalar){.f = 0x1p-30}), 0);
  assert_true(loop_const(f, big, &k) && k.f == 1); /* rounded to f32 */
  lv v = lb_splat(b, 8, x), w = lb_op(b, OP_MUL, lt(ET_F32, 8), v, v, 0);
  assert_true(li(f, w)->kind == L_SPLAT); /* uniform work is done once */
  lv i;
  uint32_t before = f->blocks.n;
  lb_for(b, "i", lb_int(b, 4), lb_int(b, 5), lb_int(b, 1), 0, &i);
  INT(i, 4);
  assert_int_equal(f->blocks.n, before);
  lb_end(b);
  /* values made inside a block are not visible after it: made again */
  lb_for(b, "i", lb_int(b, 0), n, lb_int(b, 1), 0, &i);
  lv inside = lb_muli(b, n, 7);
  assert_int_equal(lb_muli(b, n, 7), inside);
  lb_end(b);
  assert_int_not_equal(lb_muli(b, n, 7), inside);
  assert_true(loop_verify(m, "test"));
  ctx_free(c);
}

/* ---- the verifier ---------------------------------------------------------------------------- */
static const char ok_text[] = "kernel k (ptr f32 x read, ptr f32 y write, i64 n) {\n  %1 = param x\n  %2 = param y\n  "
                              "%3 = param n\n  %4 = const i64 0\n  %5 = const f32 1\n  %6 = const i64 1\n  %7 = const "
                              "bool 1\n  %8 = const f32x8 2\n  %9 = const boolx8 1\n  %20 = const f32x4 0\n  HERE\n}\n";
static const struct {
  const char *body, *why; /* NULL: legal */
} cases[] = {
    {"store %2 %4 %5", NULL},
    {"%10 = add f32 %5 %4", "operands are"},
    {"%10 = add f32 %8 %8", "lanes"},
    {"%10 = add f32x8 %8 %20", "lanes"},
    {"%10 = add bool %7 %7", "does not take"},
    {"%10 = exp i64 %4", "does not take"},
    {"%10 = lt f32 %5 %5", "yields bool"},
    {"%10 = sel f32 %5 %5 %5", "condition"},
    {"%10 = sel f32 %7 %5 %4", "branches"},
    {"%10 = bitcast i64 %5", "widths"},
    {"%10 = band f32 %5 %5", "does not take"},
    {"%10 = load i32 %1 %4", "through a pointer"},
    {"%10 = load f32 %4 %4", "expected a pointer"},
    {"%10 = load f32 %1 %5", "index"},
    {"%10 = load f32x8 %1 %4 mask %7", "mask"},
    {"%10 = load f32x8 %1 %4 mask %9 count %4", NULL},
    {"%10 = load f32x8 %1 %4 count %5", "count"},
    {"%10 = load f32x8 %1 %4 align 24", "power of 2"},
    {"%10 = gather f32x8 %1 %4", "index"},
    {"store %2 %4 %4", "through a pointer"},
    {"%10 = hreduce any %8", "hreduce"},
    {"%10 = hreduce argmax %8", "hreduce"},
    {"%10 = extract %8 8", "lane 8"},
    {"%10 = shuffle %8 %8 [0 16]", "lane 16"},
    {"%10 = shuffle %8 %20 [0]", "second operand"},
    {"%10 = lookup f32x8 %8 [1 2]", "index"},
    {"%10 = iota i32x8\n %11 = lookup f32x8 %10 [1 2 3]", "3 constants"},
    {"%10 = iota i32x8\n %11 = lookup f64x8 %10 [1 2]", "lookup of f64 x8"},
    {"%10 = iota i32x8\n %11 = lookup f32x8 %10 [1 2]", NULL},
    {"%10 = splat f32x8 %8", "operand"},
    {"%10 = iota f32x8", "integers"},
    {"%10 = reg %5\n %11 = add f32 %10 %5", "register"},
    {"%10 = reg %5\n set %10 %4", "register is"},
    {"set %5 %5", "not a register"},
    {"%10 = get %5", "not a register"},
    {"for %10 = %4 to %3 step %4 { }", "step 0"},
    {"for %10 = %4 to %5 step %6 { }", "to is"},
    {"for %10 = %4 to %3 step %6 while %7 { }", "not a register"},
    {"%10 = reg %5\n for %11 = %4 to %3 step %6 while %10 { }", "while is"},
    {"%10 = reg %7\n for %11 = %4 to %3 step %6 while %10 { set %10 %7 }", NULL},
    {"%10 = reg %7\n for %11 = %4 to %3 step %6 while %10 unroll 4 { }", "not unrolled"},
    {"for %10 = %4 to %3 step %6 { %11 = add i64 %10 %10 }\n store %2 %11 %5", "not visible"},
    {"for %10 = %4 to %3 step %6 { }\n store %2 %10 %5", "not visible"},
    {"if %4 { }", "condition"},
    {"if %7 { %10 = add i64 %3 %6 } else { store %2 %10 %5 }", "not visible"},
    {"%10 = alloc f32 0", "elements of stack"},
    {"call nothing %3 []", "no kernel named"},
    {"call k %3 [%1 %2]", "takes 3 arguments"},
    {"call k %3 [%1 %3 %3]", "argument 1"},
    {"parallel k %3 [%1 %2 %3]", "outside a main"},
    {"fail %7 5 \"no\"", "outside a main"},
    {"%10 = offset ptr f32 %4 %4", "expected a pointer"},
};
static bool parse_and_verify(ctx *c, const char *text, bool *legal) {
  volatile bool parsed = false;
  CTX_TRY(c) {
    lmodule *m = loop_parse(c, text, "case");
    parsed = true;
    *legal = loop_verify(m, "test");
  }
  CTX_CATCH {}
  return parsed;
}
static void test_verifier(void **st) {
  (void)st;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ctx *c = ctx_new();
    const char *at = strstr(ok_text, "HERE");
    bool legal = false,
         parsed = parse_and_verify(
             c, arena_fmt(ctx_arena(c), "%.*s%s%s", (int)(at - ok_text), ok_text, cases[i].body, at + 4), &legal);
    const diag *d = diag_first(c);
    bool good = parsed && (cases[i].why ? !legal && d && strstr(d->text, cases[i].why) : legal);
    if (!good) printf("`%s`: parsed %d, legal %d, says: %s\n", cases[i].body, parsed, legal, d ? d->text : "nothing");
    assert_true(good);
    ctx_free(c);
  }
}
static bool parse_fails(ctx *c, const char *text) {
  volatile bool failed = false;
  CTX_TRY(c) { loop_verify(loop_parse(c, text, "bad"), "test"); }
  CTX_CATCH { failed = true; }
  return failed;
}
static void test_parse_errors(void **st) {
  (void)st;
  static const struct {
    const char *text, *why;
    uint32_t line;
  } bad[] = {
      {"kernel", "expected a word", 1},
      {"kernel k (", "expected a type", 1},
      {"kernel k () {\n  %1 = const f33 1\n}", "expected a type", 2},
      {"kernel k () {\n  %1 = const i64 1\n  %1 = const i64 2\n}", "defined twice", 3},
      {"kernel k () {\n  %1 = frobnicate i64 %1\n}", "no instruction", 2},
      {"kernel k () {\n  %1 = add i64 %2 %2\n}", "not defined above", 2},
      {"kernel k () {\n  store %1\n", "not defined above", 2},
      {"kernel k () {\n", "text ends", 2},
      {"kernel k (i64 n) {\n}", "does not read its parameter n", 2},
      {"kernel k () {\n  %1 = param n\n}", "no parameter n", 2},
      {"kernel k () {\n  %99999999999 = const i64 1\n}", "no value number", 2},
      {"kernel k () {\n  comment \"open\n}\n", "expected `\"`", 2},
      {"procedure p", "expected `kernel`", 1},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ctx *c = ctx_new();
    bool failed = parse_fails(c, bad[i].text);
    const diag *d = diag_first(c);
    bool good = failed && d && strstr(d->text, bad[i].why) && d->pos.line == bad[i].line;
    if (!good) printf("`%s`: says %u: %s\n", bad[i].text, d ? d->pos.line : 0, d ? d->text : "nothing");
    assert_true(good);
    ctx_free(c);
  }
  /* any damage to a good text gives an error or a module, never a crash */
  ctx *c0 = ctx_new();
  char *text = print(c0, everything(c0));
  size_t n = strlen(text);
  uint64_t rng = 12345;
  for (int round = 0; round < 2000; round++) {
    char *copy = arena_strndup(ctx_arena(c0), text, n);
    for (int k = 0; k < 1 + round % 3; k++) {
      rng = rng * 6364136223846793005ull + 1442695040888963407ull;
      copy[(rng >> 33) % n] = " %01x={}[]\"az"[(rng >> 20) % 13];
    }
    if (round % 5 == 0) copy[(rng >> 40) % n] = 0;
    ctx *c = ctx_new();
    parse_fails(c, copy);
    ctx_free(c);
  }
  ctx_free(c0);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_hash),
                                     cmocka_unit_test(test_folding), cmocka_unit_test(test_verifier),
                                     cmocka_unit_test(test_parse_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
