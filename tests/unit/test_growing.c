/* Caches as exporters write them, as states.
 *
 * States that grow: an output that is its input with something behind it becomes a buffer of bounded length, in which
 * the new places are written where they belong. Steps of several places and of one agree with a plain computation in
 * every kind of module; nothing is copied; what cannot be is refused with the reason. Caches that have room for all
 * tokens: steps agree with what feeding the caches back by hand gives.
 */
#include "statekit.h"
#include <stdbool.h>
#include <stdlib.h>

enum { MOST = 8, WIDTH = 2 };
/* y = the sums of all rows so far, plus m; a row of the mask for each row */
#define ROWS(output)                                                                                                   \
  "graph \"rows\" {\n input x: f32[S, 2]\n input m: f32[T]\n input past: f32[P, 2]\n const one: i64[1] = [1]\n"        \
  " all = " output "\n sums = ReduceSum(all, one) {keepdims = 0}\n y = Add(sums, m)\n output all\n output y\n}\n"
static const char rows[] = ROWS("Concat(past, x) {axis = 0}");
static const char *const states[] = {"all=past", NULL}, *const bound[] = {"P=0::8", NULL};

/* attention with caches of 12 places, of one head of 16 */
#define CACHES EK_SOURCE_DIR "/tests/models/contrib_cache.onnx"
enum { ROOM = 12, HEAD = 16, QUERY = 32, INPUT = 64 };
static const char *const cache_states[] = {"groupqueryattention_2=past_values", "groupqueryattention_1=past_keys",
                                           NULL},
                         *const cache_dims[] = {"L=12", NULL}, *const cache_most[] = {"L=1::12", NULL};

static ek_code make(subject *x, const char *text, const char *const *dims, kind k) {
  ek_options o;
  ek_options_init(&o);
  o.states = states, o.dims = dims;
  return subject_compile(x, text, k, o);
}
static subject made(const char *text, kind k) {
  ek_options o;
  ek_options_init(&o);
  o.states = states, o.dims = bound;
  return subject_of(text, k, o);
}
/* A step of n new rows behind `past` ones. */
static ek_code step(const subject *u, int64_t n, int64_t past) {
  static float x[(MOST + 1) * WIDTH], m[MOST + 1];
  const int64_t x_dims[] = {n, WIDTH}, all = past + n;
  for (int64_t i = 0; i < n * WIDTH; i++) x[i] = (float)(past * WIDTH + i);
  for (int64_t i = 0; i < all; i++) m[i] = 100;
  if (ek_run_set_input(u->r, "x", x, (size_t)(n * WIDTH) * sizeof *x, x_dims, 2) ||
      ek_run_set_input(u->r, "m", m, (size_t)all * sizeof *m, &all, 1))
    return EK_FAILED;
  return ek_run_execute(u->r);
}
static void check_sums(const subject *u, int64_t all) {
  const float *y = ek_run_output_data(u->r, 0);
  int64_t dims[8];
  int32_t rank;
  assert_int_equal(ek_run_output_dims(u->r, 0, dims, &rank), EK_OK);
  assert_int_equal(dims[0], all);
  for (int64_t i = 0; i < all; i++) assert_float_equal(y[i], 100 + (float)(4 * i + 1), 1e-4);
}
static void steps(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(rows, k);
    ek_tensor_info t;
    ek_array a;
    assert_int_equal(ek_module_inputs(u.code), 2);
    assert_int_equal(ek_module_state(u.code, 0, &t), EK_OK);
    assert_int_equal(t.dims[0], MOST);
    for (int round = 0; round < 2; round++) {
      static const int64_t news[] = {3, 1, 1, 2, 1};
      int64_t past = 0;
      for (int i = 0; i < 5; past += news[i++]) {
        if (step(&u, news[i], past)) fail_msg("%d, step %d: %s", (int)k, i, ek_run_message(u.r));
        check_sums(&u, past + news[i]);
      }
      assert_int_equal(past, MOST);
      assert_int_equal(ek_run_snapshot(u.r, "past", &a), EK_OK);
      for (int i = 0; i < MOST * WIDTH; i++) assert_float_equal(((const float *)a.data)[i], i, 1e-6);
    }
    assert_int_equal(step(&u, 1, 4), EK_OK); /* shorter than before: what stood behind is as if it never was */
    check_sums(&u, 5);
    ek_session_destroy(u.s);
  }
}
/* Rows in bytes, which a product reads in floats. */
static const char bytes[] =
    "graph \"bytes\" {\n input x: f32[S, 2]\n input q: f32[S, 2]\n input m: f32[T]\n input past: i8[P, 2]\n"
    " const unit: f32[] = [0.5]\n const zero: i8[] = [0]\n codes = QuantizeLinear(x, unit, zero)\n"
    " all = Concat(past, codes) {axis = 0}\n wide = DequantizeLinear(all, unit, zero)\n"
    " turned = Transpose(wide) {perm = [1, 0]}\n z = MatMul(q, turned)\n y = Add(z, m)\n output all\n output y\n}\n";
static void in_bytes(void **state) {
  (void)state;
  static const int64_t news[] = {3, 1, 1, 2, 1};
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(bytes, k);
    ek_array a;
    for (int64_t i = 0, past = 0; i < 5; past += news[i++]) {
      static float x[MOST * WIDTH], m[MOST];
      const int64_t n = news[i], all = past + n, x_dims[] = {n, WIDTH};
      for (int64_t j = 0; j < n * WIDTH; j++) x[j] = (float)(past * WIDTH + j) / 2 - 3;
      for (int64_t j = 0; j < all; j++) m[j] = (float)j;
      assert_int_equal(ek_run_set_input(u.r, "x", x, (size_t)(n * WIDTH) * sizeof *x, x_dims, 2), EK_OK);
      assert_int_equal(ek_run_set_input(u.r, "q", x, (size_t)(n * WIDTH) * sizeof *x, x_dims, 2), EK_OK);
      assert_int_equal(ek_run_set_input(u.r, "m", m, (size_t)all * sizeof *m, &all, 1), EK_OK);
      if (ek_run_execute(u.r)) fail_msg("%d, step %d: %s", (int)k, (int)i, ek_run_message(u.r));
      const float *y = ek_run_output_data(u.r, 0);
      for (int64_t j = 0; j < n; j++)
        for (int64_t t = 0; t < all; t++)
          assert_float_equal(y[j * all + t], m[t] + x[2 * j] * (float)(t - 3) + x[2 * j + 1] * ((float)t - 2.5f), 1e-4);
    }
    assert_int_equal(ek_run_snapshot(u.r, "past", &a), EK_OK);
    for (int i = 0; i < MOST * WIDTH; i++) assert_int_equal(((const int8_t *)a.data)[i], i - 6);
    ek_session_destroy(u.s);
  }
}
/* The past's length is an input's size by itself: only the new length may be too much. */
static void length_alone(void **state) {
  (void)state;
  static const char text[] = "graph \"g\" {\n input x: f32[S]\n input m: f32[P]\n input past: f32[P]\n y = Add(past, "
                             "m)\n all = Concat(past, x) {axis = 0}\n output all\n output y\n}\n";
  static const float x[] = {1, 2, 3, 4, 5}, m[MOST] = {0};
  const int64_t five = 5, none = 0, three = 3;
  subject u = made(text, JIT);
  for (int i = 0; i < 3; i++) {
    const int64_t *new = i == 2 ? &three : &five, *past = i ? &five : &none;
    assert_int_equal(ek_run_set_input(u.r, "x", x, (size_t)*new * sizeof *x, new, 1), EK_OK);
    assert_int_equal(ek_run_set_input(u.r, "m", m, (size_t)*past * sizeof *m, past, 1), EK_OK);
    assert_int_equal(ek_run_execute(u.r), i == 1 ? EK_SHAPE : EK_OK);
    if (i == 1) assert_non_null(strstr(ek_run_message(u.r), "state 'past' has room for 8 places"));
  }
  for (int i = 0; i < 5; i++) assert_float_equal(((const float *)ek_run_output_data(u.r, 0))[i], x[i], 1e-6);
  ek_session_destroy(u.s);
}
/* There is no room behind the last place, and no past of less than nothing. */
static void too_long(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(rows, k);
    assert_int_equal(step(&u, MOST, 0), EK_OK);
    assert_int_equal(step(&u, 1, MOST), EK_SHAPE);
    assert_non_null(strstr(ek_run_message(u.r), "0..8"));
    assert_int_equal(step(&u, 2, -1), EK_SHAPE);
    assert_non_null(strstr(ek_run_message(u.r), "P is negative"));
    ek_session_destroy(u.s);
  }
}
static ek_run *cached(ek_session *s, bool inside, kind k) { /* inside, the bound is the size */
  ek_options o;
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_options_init(&o);
  o.states = inside ? cache_states : NULL, o.dims = inside ? cache_most : cache_dims, o.verify = 1;
  o.evaluate = k == EVAL ? 1 : k == PASSES ? 2 : 0, o.optimize = k == PLAIN ? 0 : 3;
  if (ek_load(s, CACHES, &m) || ek_compile(m, &o, &code) || ek_run_create(code, 1, &r)) fail_msg("%s", ek_message(s));
  return r;
}
static void give(ek_run *r, const char *name, const void *data, size_t bytes, const int64_t *dims, int32_t rank) {
  if (ek_run_set_input(r, name, data, bytes, dims, rank)) fail_msg("%s", ek_run_message(r));
}
/* n new tokens behind `past` ones; what comes out is the query's, then the caches */
static void cached_step(ek_run *r, int64_t n, int64_t past) {
  static float x[ROOM * INPUT];
  static int64_t mask[ROOM];
  const int64_t x_dims[] = {1, n, INPUT}, mask_dims[] = {1, past + n};
  for (int64_t i = 0; i < n * INPUT; i++) x[i] = (float)((past * INPUT + i) * 37 % 101) / 50 - 1;
  for (int64_t i = 0; i < past + n; i++) mask[i] = 1;
  give(r, "x", x, (size_t)(n * INPUT) * sizeof *x, x_dims, 3);
  give(r, "mask", mask, (size_t)(past + n) * sizeof *mask, mask_dims, 2);
  if (ek_run_execute(r)) fail_msg("%s", ek_run_message(r));
}
static void shared_buffers(void **state) {
  (void)state;
  static const int64_t news[] = {5, 1, 1, 3, 2}, dims[] = {1, 1, ROOM, HEAD};
  for (kind k = EVAL; k <= JIT; k++) {
    static float caches[2][ROOM * HEAD];
    ek_session *s = ek_session_create();
    ek_run *by_hand = cached(s, false, EVAL), *in = cached(s, true, k);
    memset(caches, 0, sizeof caches);
    for (int64_t i = 0, past = 0; i < 5; past += news[i++]) {
      ek_array a;
      give(by_hand, "past_keys", caches[0], sizeof caches[0], dims, 4);
      give(by_hand, "past_values", caches[1], sizeof caches[1], dims, 4);
      cached_step(by_hand, news[i], past), cached_step(in, news[i], past);
      const float *want = ek_run_output_data(by_hand, 0), *got = ek_run_output_data(in, 0);
      for (int64_t j = 0; j < news[i] * QUERY; j++) assert_float_equal(got[j], want[j], 1e-4);
      for (int q = 0; q < 2; q++) memcpy(caches[q], ek_run_output_data(by_hand, 1 + q), sizeof caches[q]);
      assert_int_equal(ek_run_snapshot(in, "past_keys", &a), EK_OK);
      for (int64_t j = 0; j < (past + news[i]) * HEAD; j++)
        assert_float_equal(((const float *)a.data)[j], caches[0][j], 1e-4);
    }
    ek_session_destroy(s);
  }
}
static void no_copies(void **state) {
  (void)state;
  const char *out;
  ek_options o;
  ek_show_options w;
  for (int i = 0; i < 2; i++) {
    subject x = {.s = ek_session_create()};
    ek_options_init(&o), ek_show_options_init(&w);
    o.states = i ? cache_states : states, o.dims = i ? cache_dims : bound, w.stage = "program";
    if (i ? ek_load(x.s, CACHES, &x.m) : ek_load_memory(x.s, rows, strlen(rows), "test", &x.m))
      fail_msg("%s", ek_message(x.s));
    if (ek_show(x.m, &o, &w, &out)) fail_msg("%s", ek_message(x.s));
    assert_non_null(strstr(out, "in place\n"));
    assert_null(strstr(out, "exchanged\n"));
    assert_null(strstr(out, i ? ".past_keys," : ".past,")); /* no kernel reads what it was */
    ek_session_destroy(x.s);
  }
}
/* A tensor of all rows in floats would be made again in each step. */
static void no_floats(void **state) {
  (void)state;
  subject x = {.s = ek_session_create()};
  const char *out;
  ek_options o;
  ek_show_options w;
  ek_options_init(&o), ek_show_options_init(&w);
  o.states = states, o.dims = bound, w.stage = "program";
  if (ek_load_memory(x.s, bytes, strlen(bytes), "test", &x.m) || ek_show(x.m, &o, &w, &out))
    fail_msg("%s", ek_message(x.s));
  assert_non_null(strstr(out, "in place\n"));
  assert_null(strstr(out, "DequantizeLinear"));
  ek_session_destroy(x.s);
}
static void refused(void **state) {
  (void)state;
  static const struct {
    const char *text;          /* the model */
    const char *const dims[2]; /* of ek_options */
    ek_code code;              /* how it ends */
    const char *says[2];       /* what the message names */
  } row[] = {
      {rows, {NULL}, EK_SHAPE, {"state 'past' grows", "--dim P=0::N"}},
      {ROWS("Concat(x, past) {axis = 0}"), {"P=0::8"}, EK_UNSUPPORTED, {"state 'past' grows", "(Concat)"}},
      {"graph \"g\" {\n input x: f32[S]\n input past: f32[P]\n all = Concat(past, x) {axis = 0}\n output all\n}\n",
       {"P=0::8"},
       EK_SHAPE,
       {"nothing gives P a value", "the length of a mask"}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    subject x;
    const ek_code code = make(&x, row[i].text, row[i].dims, JIT);
    if (code != row[i].code) fail_msg("%zu: %d %s", i, (int)code, ek_message(x.s));
    for (int k = 0; k < 2; k++)
      if (!strstr(ek_message(x.s), row[i].says[k])) fail_msg("%zu: %s", i, ek_message(x.s));
    ek_session_destroy(x.s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps),          cmocka_unit_test(length_alone), cmocka_unit_test(too_long),
      cmocka_unit_test(shared_buffers), cmocka_unit_test(no_copies),    cmocka_unit_test(refused),
      cmocka_unit_test(in_bytes),       cmocka_unit_test(no_floats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
