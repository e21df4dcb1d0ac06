/* Safetensors files: what is written reads back, and what damaged ones say. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

#define OUT EK_BINARY_DIR "/test_safetensors.safetensors"

static void round_trip(void **state) {
  (void)state;
  ctx *c = ctx_new();
  const float w[6] = {1, -2, 3, 4, 5, 6.5f};
  const int64_t n[1] = {INT64_MIN};
  const uint8_t b[3] = {7, 8, 9};
  const char *names[] = {"w", "a \"name\" \\ with\n\xc3\xa9", "n", "empty"};
  ndarray arrays[] = {{.type = ET_F32, .rank = 2, .dims = {2, 3}, .data = w, .bytes = sizeof w},
                      {.type = ET_U8, .rank = 1, .dims = {3}, .data = b, .bytes = sizeof b},
                      {.type = ET_I64, .data = n, .bytes = sizeof n},
                      {.type = ET_F16, .rank = 2, .dims = {0, 4}, .data = b}};
  const char *keys[] = {"step", "text"}, *values[] = {"12", "tab\t, quote \""};
  const safetensors s = {4, names, arrays, 2, keys, values};
  safetensors got;
  assert_true(safetensors_write(c, OUT, &s));
  assert_true(safetensors_read(c, OUT, &got));
  assert_int_equal(got.n, 4);
  for (uint32_t i = 0; i < 4; i++) {
    assert_string_equal(got.names[i], names[i]);
    assert_int_equal(got.arrays[i].type, arrays[i].type);
    assert_int_equal(got.arrays[i].rank, arrays[i].rank);
    assert_memory_equal(got.arrays[i].dims, arrays[i].dims, sizeof arrays[i].dims);
    assert_int_equal(got.arrays[i].bytes, arrays[i].bytes);
    assert_int_equal((uintptr_t)got.arrays[i].data % et_bytes(arrays[i].type), 0);
    if (arrays[i].bytes) assert_memory_equal(got.arrays[i].data, arrays[i].data, arrays[i].bytes);
  }
  assert_string_equal(safetensors_note(&got, "step"), "12");
  assert_string_equal(safetensors_note(&got, "text"), values[1]);
  assert_null(safetensors_note(&got, "none"));
  ctx_free(c);
}
static void other_writers(void **state) { /* blanks, escapes, another order than that of the data */
  (void)state;
  ctx *c = ctx_new();
  static const char header[] = "{ \"b\" : {\"shape\":[2], \"data_offsets\":[4,6],\"dtype\":\"U8\"},\n"
                               "\"\\u00e9\\t\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]} }  ";
  uint8_t file[512] = {sizeof header - 1};
  memcpy(file + 8, header, sizeof header - 1);
  const float one = 1;
  memcpy(file + 8 + sizeof header - 1, &one, 4);
  file[8 + sizeof header + 3] = 5;
  safetensors got;
  assert_true(file_write(c, OUT, file, 8 + sizeof header - 1 + 6));
  assert_true(safetensors_read(c, OUT, &got));
  assert_int_equal(got.n, 2);
  assert_string_equal(got.names[1], "\xc3\xa9\t");
  assert_int_equal(*(const uint8_t *)got.arrays[0].data, 5);
  assert_memory_equal(got.arrays[1].data, &one, 4);
  ctx_free(c);
}
static void damaged(void **state) {
  (void)state;
  static const struct {
    const char *header; /* the header */
    size_t bytes;       /* bytes of data */
    const char *said;   /* what the error says */
  } cases[] = {
      {"", 0, "'{' is expected"},
      {"[]", 0, "'{' is expected"},
      {"{} x", 0, "goes on behind its end"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "lacks its type, sizes or place"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "do not fit"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "do not fit"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8, "do not fit"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, "do not fit"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0, "too large"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "need 4 bytes of data, it has 8"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
       1, "the same bytes"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
       3, "need 4 bytes of data, it has 3"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
       "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
       0, "stands there twice"},
      {"{\"a\":{\"dtype\":\"X9\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "'X9' is not known"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"offsets\":[0,0]}}", 0, "'offsets' is not expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 0, "'dtype' is not expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, "a number is expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],\"data_offsets\":[0,0]}}", 0,
       "too long"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' is expected"},
      {"{\"__metadata__\":{\"a\":\"\\q\"}}", 0, "an escape"},
      {"{\"__metadata__\":{\"a\":\"\\u12\"}}", 0, "hexadecimal"},
      {"{\"__metadata__\":{\"a\":\"\\ud800\"}}", 0, "a character"},
      {"{\"__metadata__\":{\"a\":\"x", 0, "'\"' is expected"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ctx *c = ctx_new();
    uint8_t file[512] = {(uint8_t)strlen(cases[i].header)};
    safetensors got;
    memcpy(file + 8, cases[i].header, strlen(cases[i].header));
    assert_true(file_write(c, OUT, file, 8 + strlen(cases[i].header) + cases[i].bytes));
    assert_false(safetensors_read(c, OUT, &got));
    assert_int_equal(diag_code(c), E_IO);
    if (!strstr(diag_first(c)->text, cases[i].said))
      fail_msg("%s: '%s', not '%s'", cases[i].header, diag_first(c)->text, cases[i].said);
    ctx_free(c);
  }
}
static void cut_short(void **state) { /* every beginning of a file is refused, and none harms */
  (void)state;
  static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  uint8_t file[128] = {sizeof header - 1};
  memcpy(file + 8, header, sizeof header - 1);
  for (size_t n = 0; n < 8 + sizeof header - 1 + 4; n++) {
    ctx *c = ctx_new();
    safetensors got;
    assert_true(file_write(c, OUT, file, n));
    assert_false(safetensors_read(c, OUT, &got));
    ctx_free(c);
  }
  memset(file, 0xff, 8);
  ctx *c = ctx_new();
  safetensors got;
  assert_true(file_write(c, OUT, file, sizeof file));
  assert_false(safetensors_read(c, OUT, &got));
  ctx_free(c);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(other_writers),
                                     cmocka_unit_test(damaged), cmocka_unit_test(cut_short)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
