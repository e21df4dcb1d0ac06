/* base: contexts and frames, arenas, maps, text, numbers, element types, files, arrays, parallel for. */
#include "base/ctx.h"
#include "base/json.h"
#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the standard headers */
#include <cmocka.h>

static int setup(void **state) {
  *state = ctx_new();
  return *state ? 0 : -1;
}
static int teardown(void **state) {
  ctx_free(*state);
  return 0;
}

/* ---- frames and diagnostics ------------------------------------------------------------------ */
static void frames_nest(void **state) {
  ctx *c = *state;
  volatile int path = 0;
  CTX_TRY(c) {
    CTX_TRY(c) { ctx_fail(c, E_MODEL, "inner %d", 1); }
    CTX_CATCH {
      path = path * 10 + 1;
      ctx_fail(c, E_SHAPE, "from the catch block"); /* goes outwards */
    }
    path = path * 10 + 9;
  }
  CTX_CATCH { path = path * 10 + 2; }
  assert_int_equal(path, 12);
  assert_null(*ctx_frame_slot(c));
  assert_int_equal(diag_errors(c), 2);
  assert_int_equal(diag_code(c), E_MODEL);
  assert_string_equal(diag_first(c)->text, "inner 1");
  assert_string_equal(diag_first(c)->next->text, "from the catch block");
}

static void frames_of_two_contexts(void **state) {
  ctx *c = *state, *d = ctx_new();
  volatile int path = 0;
  CTX_TRY(c) {
    CTX_TRY(d) { ctx_fail(c, E_FAILED, "x"); }
    CTX_CATCH { path = 1; }
  }
  CTX_CATCH { path = path * 10 + 2; }
  assert_int_equal(path, 2); /* d's frame was not taken; it dies with d */
  ctx_free(d);
}

static void diagnostics(void **state) {
  ctx *c = *state;
  diag_warn(c, "conv1", "odd %s", "padding");
  uint32_t m = diag_mark(c);
  diag_add(c, D_ERROR, E_USAGE, (srcpos){"a.ek", 3, 7}, NULL, "no");
  assert_int_equal(diag_errors(c), 1);
  assert_int_equal(diag_first(c)->next->pos.line, 3);
  diag_reset(c, m);
  assert_int_equal(diag_errors(c), 0);
  assert_int_equal(diag_code(c), E_OK);
  assert_string_equal(diag_first(c)->node, "conv1");
  assert_null(diag_first(c)->next);
  diag_error(c, E_IO, "n", "after the reset");
  assert_string_equal(diag_first(c)->next->text, "after the reset");
  volatile int n = 0;
  CTX_TRY(c) {
    for (;; n++) diag_error(c, E_MODEL, NULL, "and again");
  }
  CTX_CATCH {}
  assert_int_equal(n, 99);
}

static void bugs(void **state) {
  ctx *c = *state;
  CTX_TRY(c) { CTX_ASSERT(c, 1 + 1 == 3); }
  CTX_CATCH {}
  assert_int_equal(diag_code(c), E_INTERNAL);
  assert_non_null(strstr(diag_first(c)->text, "1 + 1 == 3"));
}

/* ---- memory ---------------------------------------------------------------------------------- */
/* Pieces that are mapped, and arenas whose blocks are: zeroed when new and when taken again, given back whole. */
static void large_pieces(void **state) {
  ctx *c = *state;
  const size_t before = ctx_used(c), sizes[] = {1 << 20, CTX_HUGE_PAGE - 1, CTX_HUGE_PAGE, CTX_HUGE_PAGE + 1, 7654321};
  for (int again = 0; again < 2; again++) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      uint8_t *p = ctx_take(c, sizes[i]);
      size_t set = 0;
      for (size_t k = 0; k < sizes[i]; k++) set += p[k] != 0;
      assert_int_equal(set, 0);
      memset(p, 1, sizes[i]);
      ctx_give(c, p, sizes[i]);
    }
    arena *a = arena_new(c);
    uint8_t *grown = arena_alloc(a, 3 << 20);
    memset(grown, 7, 3 << 20);
    for (int i = 0; i < 20000; i++) {
      uint8_t *p = arena_alloc(a, 1000);
      assert_true(p[0] == 0 && p[999] == 0);
      memset(p, 1, 1000);
    }
    grown = arena_grow(a, grown, 3 << 20, 5 << 20);
    assert_true(grown[0] == 7 && grown[(3 << 20) - 1] == 7 && grown[3 << 20] == 0 && grown[(5 << 20) - 1] == 0);
    arena_free(a);
  }
  assert_int_equal(ctx_used(c), before);
}
static void arenas(void **state) {
  ctx *c = *state;
  arena *a = arena_new(c), *b = arena_new(c);
  arena_free(b);
  for (size_t i = 0; i < 3000; i++) {
    size_t n = i * 7919 % 5000;
    uint8_t *p = arena_alloc(a, n);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t k = 0; k < n; k++) assert_int_equal(p[k], 0);
    memset(p, 0xff, n);
  }
  char *s = arena_grow(a, NULL, 0, 10);
  strcpy(s, "123456789");
  char *t = arena_grow(a, s, 10, 200);
  assert_ptr_equal(s, t); /* the last piece grows where it is */
  assert_int_equal(t[199], 0);
  arena_alloc(a, 1);
  t = arena_grow(a, s, 200, 1 << 21);
  assert_string_equal(t, "123456789");
  assert_int_equal(t[(1 << 21) - 1], 0);
  assert_true(arena_bytes(a) > 1 << 21);
  assert_string_equal(arena_fmt(a, "%d-%s", 5, "x"), "5-x");
  volatile int caught = 0;
  CTX_TRY(c) { arena_array(a, SIZE_MAX / 4, 8); }
  CTX_CATCH { caught++; }
  CTX_TRY(c) { arena_alloc(a, SIZE_MAX - 3); }
  CTX_CATCH { caught++; }
  CTX_TRY(c) { arena_alloc(a, (size_t)PTRDIFF_MAX - 4096); }
  CTX_CATCH { caught++; }
  assert_int_equal(caught, 3);
  assert_int_equal(diag_code(c), E_MEMORY);
  assert_int_equal(diag_errors(c), 1);
  arena_free(a);
}

static void vectors(void **state) {
  arena *a = ctx_arena(*state);
  u32vec v = {0};
  VEC(double) w = {0};
  for (uint32_t i = 0; i < 100000; i++) {
    vec_push(a, v, i);
    vec_push(a, w, i * 0.5);
  }
  for (uint32_t i = 0; i < v.n; i++) assert_true(v.v[i] == i && w.v[i] == i * 0.5);
}

static void maps(void **state) {
  arena *a = ctx_arena(*state);
  map *m = map_new(a);
  uint64_t v;
  char key[32];
  for (uint64_t i = 0; i < 20000; i++) {
    snprintf(key, sizeof key, "key%llu", (unsigned long long)i);
    map_puts(m, key, i);
  }
  map_puts(m, "key7", 70);
  map_put(m, "", 0, 99);
  assert_int_equal(map_count(m), 20001);
  for (uint64_t i = 0; i < 20000; i++) {
    size_t n;
    const char *k = map_key(m, (uint32_t)i, &n, &v);
    snprintf(key, sizeof key, "key%llu", (unsigned long long)i);
    assert_string_equal(k, key);
    assert_int_equal(n, strlen(key));
    assert_int_equal(v, i == 7 ? 70 : i);
    assert_true(map_gets(m, key, &v));
  }
  assert_true(map_get(m, "", 0, &v));
  assert_false(map_gets(m, "key", NULL));
  map *u = map_new(a);
  for (uint64_t i = 0; i < 5000; i++) map_putu(u, i << 32, i);
  for (uint64_t i = 0; i < 5000; i++) assert_true(map_getu(u, i << 32, &v) && v == i);
  assert_false(map_getu(u, 1, NULL));
  for (uint32_t i = 0; i < 5000; i++) {
    uint64_t key_of;
    memcpy(&key_of, map_key(u, i, NULL, &v), sizeof key_of);
    assert_true(key_of == (uint64_t)i << 32 && v == i);
  }
  uint64_t seven = UINT64_C(7) << 32; /* its bytes are another key than the number */
  assert_false(map_get(u, &seven, sizeof seven, NULL));
  map_put(u, &seven, sizeof seven, 77);
  map_putu(u, seven, 70);
  assert_true(map_get(u, &seven, sizeof seven, &v) && v == 77);
  assert_true(map_getu(u, seven, &v) && v == 70);
  assert_int_equal(map_count(u), 5001);
  assert_ptr_equal(intern(*state, "abc"), intern_n(*state, "abcd", 3));
  assert_ptr_not_equal(intern(*state, "abc"), intern(*state, "abd"));
}

/* ---- text ------------------------------------------------------------------------------------ */
static void text(void **state) {
  arena *a = ctx_arena(*state);
  sbuf b = sbuf_new(a);
  for (int i = 0; i < 1000; i++) sb_fmt(&b, "%d,", i);
  assert_int_equal(b.n, 3890);
  assert_int_equal(strlen(b.s), b.n);
  b = sbuf_new(a);
  sb_fmt(&b, "%300s|", "x"); /* longer than the first guess */
  assert_int_equal(b.n, 301);
  b = sbuf_new(a);
  sb_quoted(&b, "a\"b\\\n\x01\xc3\xa9\xff\xe2\x82", 11);
  assert_string_equal(b.s, "\"a\\\"b\\\\\\n\\x01\xc3\xa9\\xff\\xe2\\x82\"");
}

static const char *shown(ctx *c, double x) {
  sbuf b = sbuf_new(ctx_arena(c));
  sb_double(&b, x);
  return b.s;
}
static const char *shownf(ctx *c, float x) {
  sbuf b = sbuf_new(ctx_arena(c));
  sb_float(&b, x);
  return b.s;
}

static void numbers(void **state) {
  ctx *c = *state;
  setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed: a decimal comma must not show */
  assert_string_equal(shown(c, 0.1), "0.1");
  assert_string_equal(shown(c, -0.0), "-0");
  assert_string_equal(shown(c, 1.0 / 3), "0.3333333333333333");
  assert_string_equal(shown(c, 0.1 + 0.2), "0.30000000000000004");
  assert_string_equal(shown(c, 5e-324), "5e-324");
  assert_string_equal(shown(c, 1e22), "1e+22");
  assert_string_equal(shown(c, INFINITY), "inf");
  assert_string_equal(shown(c, -INFINITY), "-inf");
  assert_string_equal(shown(c, NAN), "nan");
  assert_string_equal(shownf(c, 0.1f), "0.1");
  assert_string_equal(shownf(c, 16777216.f), "16777216");
  assert_string_equal(shownf(c, 1e-45f), "1e-45");
  assert_string_equal(shownf(c, FLT_MAX), "3.4028235e+38");
  uint64_t seed = 1;
  for (int i = 0; i < 20000; i++) {
    seed = hash_bytes(&seed, 8, 3);
    double x;
    memcpy(&x, &seed, 8);
    float f;
    memcpy(&f, &seed, 4);
    if (isfinite(x)) assert_true(num_parse(c, shown(c, x), NULL) == x);
    if (isfinite(f)) assert_true(num_parsef(c, shownf(c, f), NULL) == f);
  }
  setlocale(LC_ALL, "C");
}

static void json_strings(void **state) {
  arena *a = ctx_arena(*state);
  static const char *const bad[] = {"",         "[",         "[\"a\"", "[\"a\",]",    "[\"a\" \"b\"]", "[1]",
                                    "[\"a\"]]", "[\"\\x\"]", "[\"a",   "[\"\\u00\"]", "[\"\\ud83d\"]", "[,\"a\"]",
                                    "{}"};
  strvec v;
  assert_true(json_read_strings(a, " [ ] ", &v));
  assert_int_equal(v.n, 0);
  assert_true(json_read_strings(a, "[\"a\\\"\\n\", \"\\u00e9\\u20ac\"\t,\"\"]\n", &v));
  assert_int_equal(v.n, 3);
  assert_string_equal(v.v[0], "a\"\n");
  assert_string_equal(v.v[1], "\xc3\xa9\xe2\x82\xac");
  assert_string_equal(v.v[2], "");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (json_read_strings(a, bad[i], &v)) fail_msg("%s is taken", bad[i]);
}
static void json_text(void **state) {
  sbuf b = sbuf_new(ctx_arena(*state));
  json j = json_new(&b, false);
  json_obj(&j, NULL);
  json_str(&j, "name", "a\"\n\x02\xff");
  json_arr(&j, "dims");
  json_int(&j, NULL, -3);
  json_num(&j, NULL, 0.5);
  json_num(&j, NULL, NAN);
  json_obj(&j, NULL);
  json_end(&j);
  json_end(&j);
  json_bool(&j, "ok", true);
  json_str(&j, "none", NULL);
  json_uint(&j, "big", UINT64_MAX);
  json_end(&j);
  assert_string_equal(b.s, "{\"name\":\"a\\\"\\n\\u0002\xef\xbf\xbd\",\"dims\":[-3,0.5,null,{}],\"ok\":true,\"none\":"
                           "null,\"big\":18446744073709551615}");
}

/* ---- element types --------------------------------------------------------------------------- */
static double round_f(etype t, double x) { return et_round(t, (scalar){.f = x}).f; }
static int64_t round_i(etype t, int64_t x) { return et_round(t, (scalar){.i = x}).i; }
static int64_t to_int(etype t, double x) { return et_convert(t, ET_F64, (scalar){.f = x}).i; }
static double to_float(etype t, etype from, int64_t x) { return et_convert(t, from, (scalar){.i = x}).f; }

static void types(void **state) {
  (void)state;
  for (int t = 1; t < ET_COUNT; t++) {
    assert_int_equal(et_parse(et_name((etype)t)), t);
    assert_int_equal(et_from_onnx(et_to_onnx((etype)t)), t);
  }
  assert_int_equal(et_from_onnx(1), ET_F32);
  assert_int_equal(et_from_onnx(99), ET_NONE);
  assert_int_equal(et_parse("f33"), ET_NONE);
  assert_int_equal(et_bytes(ET_U4), 1);
  assert_int_equal(et_bytes(ET_STR), 0);
  assert_true(et_highest(ET_F16) == 65504 && et_lowest(ET_F8E4M3FN) == -448 && et_highest(ET_F8E5M2FNUZ) == 57344 &&
              et_highest(ET_F4E2M1) == 6);
  assert_true(et_highest(ET_F32) == FLT_MAX && et_lowest(ET_I4) == -8 && et_highest(ET_I4) == 7 &&
              et_highest(ET_U2) == 3 && et_lowest(ET_U8) == 0);
}

/* Every code of every narrow float survives loading and storing. */
static void codes_round_trip(void **state) {
  (void)state;
  static const etype all[] = {ET_F16,    ET_BF16,       ET_F8E4M3FN, ET_F8E4M3FNUZ,
                              ET_F8E5M2, ET_F8E5M2FNUZ, ET_F8E8M0,   ET_F4E2M1};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    for (uint32_t code = 0; code < 1u << et_bits(all[k]); code++) {
      uint16_t in = (uint16_t)code, out = 0;
      scalar v = et_load(all[k], &in);
      et_store(all[k], &out, v);
      if (isnan(v.f))
        assert_true(isnan(et_load(all[k], &out).f));
      else
        assert_int_equal(in, out);
    }
}

static void rounding(void **state) {
  (void)state;
  assert_true(round_f(ET_F16, 2049) == 2048 && round_f(ET_F16, 2051) == 2052);         /* ties to even */
  assert_true(round_f(ET_F16, 65519.99) == 65504 && isinf(round_f(ET_F16, 65520)));    /* the edge of overflow */
  assert_true(round_f(ET_F16, 0x1p-25) == 0 && round_f(ET_F16, 0x1.8p-25) == 0x1p-24); /* subnormal */
  assert_true(signbit(round_f(ET_F16, -1e-30)));
  /* once, not by way of f32 */
  assert_true(round_f(ET_BF16, 1 + 0x1p-8) == 1 && round_f(ET_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
  assert_true(isnan(round_f(ET_F8E4M3FN, 480)) && round_f(ET_F8E4M3FN, 464) == 448);
  assert_true(isnan(round_f(ET_F8E4M3FNUZ, INFINITY)) && !signbit(round_f(ET_F8E4M3FNUZ, -0.0)));
  assert_true(isinf(round_f(ET_F8E5M2, 1e9)) && round_f(ET_F4E2M1, -1e9) == -6 && round_f(ET_F4E2M1, 2.5) == 2);
  assert_true(round_f(ET_F8E8M0, 3) == 4 && round_f(ET_F8E8M0, 0.7) == 0.5 && isnan(round_f(ET_F8E8M0, -1)));
  assert_true(round_f(ET_F32, 0.1) == (double)0.1f);
  assert_int_equal(round_i(ET_I8, 200), -56);
  assert_int_equal(round_i(ET_U8, -1), 255);
  assert_int_equal(round_i(ET_I4, 9), -7);
  assert_int_equal(round_i(ET_U4, 17), 1);
  assert_int_equal(round_i(ET_I2, 2), -2);
  assert_int_equal(round_i(ET_U32, -1), UINT32_MAX);
  assert_int_equal(round_i(ET_BOOL, 256), 1);
}

static void conversions(void **state) {
  (void)state;
  assert_int_equal(to_int(ET_I32, -1.9), -1);
  assert_int_equal(to_int(ET_I32, NAN), 0);
  assert_int_equal(to_int(ET_I32, 4294967297.0), 1);
  assert_int_equal(to_int(ET_I64, 1e30), INT64_MIN);
  assert_true((uint64_t)to_int(ET_U64, 0x1.8p63) == 0xc000000000000000u);
  assert_int_equal(to_int(ET_BOOL, 0.25), 1);
  assert_int_equal(to_int(ET_BOOL, NAN), 1);
  assert_true(to_float(ET_F64, ET_U64, -1) == 0x1p64);
  /* not by way of double's tie */
  assert_true(to_float(ET_F32, ET_I64, (1ll << 62) + (1ll << 38) + 1) == 0x1p62 + 0x1p39);
  assert_true(to_float(ET_F32, ET_I64, INT64_MIN) == -0x1p63);
  assert_int_equal(et_convert(ET_I8, ET_I32, (scalar){.i = 300}).i, 44);
}

/* ---- files ----------------------------------------------------------------------------------- */
static void files(void **state) {
  ctx *c = *state;
  char dir[] = "/tmp/ek_base_XXXXXX";
  assert_non_null(mkdtemp(dir));
  arena *a = ctx_arena(c);
  const char *path = path_join(a, dir, "x.bin");
  bytes b, again;
  assert_false(file_map(c, path, &b));
  assert_int_equal(diag_code(c), E_IO);
  assert_true(file_write(c, path, "hello", 5));
  assert_true(file_map(c, path, &b) && b.n == 5 && memcmp(b.p, "hello", 5) == 0);
  assert_true(file_map(c, path, &again) && again.p == b.p);
  assert_true(file_write(c, path, "", 0)); /* the old mapping stays */
  assert_memory_equal(b.p, "hello", 5);
  assert_true(file_map(c, path, &again) && again.n == 0);
  assert_false(file_map(c, dir, &again));
  assert_false(file_write(c, path_join(a, dir, "no/x"), "a", 1));
  assert_true(file_exists(path));
  assert_true(file_write(c, "/dev/null", "a", 1));
  unlink(path);
  assert_int_equal(rmdir(dir), 0); /* no temporary left behind */
  assert_string_equal(path_dir(a, "a/b/c.onnx"), "a/b");
  assert_string_equal(path_dir(a, "c.onnx"), ".");
  assert_string_equal(path_dir(a, "/c"), "/");
  assert_string_equal(path_join(a, "/", "c"), "/c");
  assert_true(path_inside("w.bin") && path_inside("a/b..c/d") && !path_inside("../w") && !path_inside("a/../../w") &&
              !path_inside("/w") && !path_inside("a/..") && !path_inside(""));
  assert_string_equal(sha256_hex(a, "abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static bytes npy(arena *a, const char *header, const void *data, size_t n) {
  sbuf b = sbuf_new(a);
  size_t h = strlen(header);
  sb_putn(&b, "\x93NUMPY\x01\x00", 8);
  sb_putc(&b, (char)h);
  sb_putc(&b, (char)(h >> 8));
  sb_put(&b, header);
  sb_putn(&b, data, n);
  return (bytes){(const uint8_t *)b.s, b.n};
}

static void npy_files(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  ndarray t;
  int32_t d[6] = {0, 1, 2, 3, 4, 5};
  assert_true(
      npy_read(c, npy(a, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", d, sizeof d), "x", &t));
  const int32_t want[6] = {0, 2, 4, 1, 3, 5};
  assert_int_equal(t.rank, 2);
  assert_memory_equal(t.data, want, sizeof want);
  assert_true(
      npy_read(c, npy(a, "{'shape': (), 'fortran_order': False, 'descr': '>f4'}", "\x3f\x80\x00\x00", 4), "x", &t));
  assert_true(t.rank == 0 && *(const float *)t.data == 1.0f);
  assert_true(npy_read(
      c, npy(a, "{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}", "a\0\0\0\xe9\0\0\0b\0\0\0\0\0\0", 16), "x",
      &t));
  const bytes *s = t.data;
  assert_string_equal(s[0].p, "a\xc3\xa9");
  assert_string_equal(s[1].p, "b");
  assert_int_equal(diag_errors(c), 0);
  static const char *bad[] = {
      "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 3)}",                   /* more than there is */
      "{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", /* overflow */
      "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",  /* overflow in the number */
      "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<i4', 'shape': (1,)}",
      "{'descr': '<i4",
      "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}",
      "",
      "{'shape': (1",
      "{'shape': (-1,)}",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(npy_read(c, npy(a, bad[i], d, sizeof d), "x", &t));
    assert_int_equal(diag_errors(c), i + 1);
  }
  assert_false(npy_read(c, (bytes){(const uint8_t *)"\x93NUMPY\x01\x00\xff\xff", 10}, "x", &t));
}

static void npz_files(void **state) {
  ctx *c = *state;
  arena *a = ctx_arena(c);
  char path[] = "/tmp/ek_npz_XXXXXX";
  close(mkstemp(path));
  float f[3] = {1, 2, 3};
  uint8_t flag = 1;
  bytes words[2] = {{(const uint8_t *)"gr\xc3\xbc\xc3\x9f", 6}, {(const uint8_t *)"", 0}};
  const char *names[] = {"in_0", "b", "s", "none"};
  ndarray arrays[] = {
      {.type = ET_F32, .rank = 2, .dims = {1, 3}, .data = f, .bytes = sizeof f},
      {.type = ET_BOOL, .data = &flag, .bytes = 1},
      {.type = ET_STR, .rank = 1, .dims = {2}, .data = words, .bytes = sizeof words},
      {.type = ET_I64, .rank = 2, .dims = {0, 5}, .data = NULL, .bytes = 0},
  };
  assert_true(npz_write(c, path, &(npz){4, names, arrays}));
  npz z;
  assert_true(npz_read(c, path, &z));
  assert_int_equal(z.n, 4);
  for (uint32_t i = 0; i < 4; i++) {
    assert_string_equal(z.names[i], names[i]);
    assert_int_equal(z.arrays[i].type, arrays[i].type);
    assert_int_equal(z.arrays[i].rank, arrays[i].rank);
    if (arrays[i].type != ET_STR && arrays[i].bytes)
      assert_memory_equal(z.arrays[i].data, arrays[i].data, arrays[i].bytes);
  }
  assert_ptr_equal(z.arrays[0].file, path); /* mapped, not copied */
  assert_string_equal(((const bytes *)z.arrays[2].data)[0].p, "gr\xc3\xbc\xc3\x9f");
  /* every truncation and every flipped byte is an error or another archive, never a crash */
  bytes whole;
  assert_true(file_map(c, path, &whole));
  for (size_t i = 0; i < whole.n; i += 3) {
    uint8_t *copy = arena_dup(a, whole.p, whole.n);
    copy[i] ^= 0x55;
    uint32_t m = diag_mark(c);
    volatile bool done = false;
    CTX_TRY(c) {
      if (file_write(c, path, copy, whole.n)) npz_read(c, path, &z);
      if (file_write(c, path, whole.p, i)) done = !npz_read(c, path, &z);
    }
    CTX_CATCH { done = true; }
    assert_true(done);
    diag_reset(c, m);
  }
  unlink(path);
}

/* ---- threads --------------------------------------------------------------------------------- */
typedef struct shared {
  uint32_t seen[1000];
  const char *name[1000];
  uint32_t fail_at;
} shared;

static void item(ctx *c, void *arg, uint32_t i) {
  shared *s = arg;
  s->seen[i]++;
  char name[16];
  snprintf(name, sizeof name, "n%u", i % 10);
  s->name[i] = intern(c, name);
  memset(arena_alloc(ctx_arena(c), 100), 1, 100);
  if (i % 100 == 0) diag_warn(c, NULL, "at %u", i);
  if (i == s->fail_at) ctx_fail(c, E_TARGET, "item %u", i);
}

static void parallel(void **state) {
  ctx *c = *state;
  static shared s;
  s.fail_at = UINT32_MAX;
  par_for(c, 4, 1000, item, &s);
  for (uint32_t i = 0; i < 1000; i++) {
    assert_int_equal(s.seen[i], 1);
    assert_ptr_equal(s.name[i], s.name[i % 10]);
  }
  assert_int_equal(diag_mark(c), 10);
  par_for(c, 4, 0, item, &s);
  s.fail_at = 500;
  volatile bool caught = false;
  CTX_TRY(c) { par_for(c, 3, 1000, item, &s); }
  CTX_CATCH { caught = true; }
  assert_true(caught);
  assert_int_equal(diag_code(c), E_TARGET);
  assert_true(cpu_count() >= 1);
  double t = now_ms();
  assert_true(now_ms() >= t);
}

static void arithmetic(void **state) {
  (void)state;
  int64_t r;
  assert_false(add64(INT64_MAX, 1, &r));
  assert_false(mul64(1ll << 40, 1ll << 40, &r));
  assert_true(floordiv64(-7, 2) == -4 && floormod64(-7, 2) == 1 && floordiv64(7, -2) == -4 && floormod64(7, -2) == -1 &&
              floordiv64(6, 3) == 2);
  ndarray t = {.rank = 3, .dims = {1ll << 40, 1ll << 40, 0}};
  assert_true(nd_count(&t, &r) && r == 0);
  t.dims[2] = 1;
  assert_false(nd_count(&t, &r));
}

/* ---- a caller's memory ----------------------------------------------------------------------- */
typedef struct purse {
  size_t live, calls, fail_at;
} purse;
static void *purse_alloc(void *user, size_t n) {
  purse *p = user;
  if (p->fail_at && ++p->calls == p->fail_at) return NULL;
  void *m = malloc(n);
  if (m) memset(m, 0xa5, n), p->live += n;
  return m;
}
static void purse_free(void *user, void *m, size_t n) {
  ((purse *)user)->live -= n;
  free(m);
}
static void memory_of_the_caller(void **state) {
  (void)state;
  purse p = {0};
  ctx *c = ctx_new_with(&(ctx_memory){.alloc = purse_alloc, .free = purse_free, .user = &p, .limit = 1 << 20});
  assert_non_null(c);
  assert_int_equal(ctx_used(c), p.live);
  char *z = arena_alloc(ctx_arena(c), 100);
  for (int i = 0; i < 100; i++) assert_int_equal(z[i], 0); /* though the allocator's bytes are not */
  volatile int caught = 0;
  for (int i = 0; i < 2; i++) {
    CTX_TRY(c) { arena_alloc(ctx_arena(c), i ? SIZE_MAX - 8 : 2 << 20); }
    CTX_CATCH { caught++; }
    assert_int_equal(diag_code(c), E_MEMORY);
    if (!i) assert_non_null(strstr(diag_first(c)->text, "over the limit of 1048576"));
    diag_reset(c, 0);
  }
  assert_int_equal(caught, 2);
  CTX_TRY(c) {
    for (;;) arena_alloc(ctx_arena(c), 1000);
  }
  CTX_CATCH { caught++; }
  assert_int_equal(caught, 3);
  assert_true(p.live <= 1 << 20);
  ctx_free(c);
  assert_int_equal(p.live, 0);
  for (size_t n = 1; n < 12; n++) { /* the making of a context fails in the middle */
    p = (purse){.fail_at = n};
    c = ctx_new_with(&(ctx_memory){.alloc = purse_alloc, .free = purse_free, .user = &p});
    ctx_free(c);
    assert_int_equal(p.live, 0);
  }
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(frames_nest),  T(frames_of_two_contexts),
      T(diagnostics),  T(bugs),
      T(arenas),       T(large_pieces),
      T(vectors),      T(maps),
      T(text),         T(numbers),
      T(json_strings), T(json_text),
      T(types),        T(codes_round_trip),
      T(rounding),     T(conversions),
      T(files),        T(npy_files),
      T(npz_files),    T(parallel),
      T(arithmetic),   T(memory_of_the_caller),
  };
  return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
