/* States in codes that are written as floats: QuantizeLinear of all that DequantizeLinear and a few new rows give.
 *
 * Where the function of codes gives every code back, the state is changed in place, and only new rows are computed.
 * Where it does not for a single code, or only the run knows, it stays as it is written. Values are those of a plain
 * computation either way.
 */
#include "statekit.h"
#include <math.h>
#include <stdbool.h>

enum { MOST = 8, WIDTH = 2 };
/* y = the sums of rows, plus m; UNIT, ZERO: of what was there; UNIT2, ZERO2: of what comes out; WHOLE: what the sums
 * are of, `all` or what becomes of its codes */
#define CODES(unit, zero, unit2, zero2, join, whole, shape)                                                            \
  "graph \"codes\" {\n input x: f32[S, 2]\n input m: f32[T]\n input past: i8" shape "\n const s: f32[] = [" unit       \
  "]\n const z: i8[] = [" zero "]\n const s2: f32[] = [" unit2 "]\n const z2: i8[] = [" zero2                          \
  "]\n const one: i64[1] = [1]\n old = DequantizeLinear(past, s, z)\n" join                                            \
  "\n codes = QuantizeLinear(all, s2, z2)\n wide = DequantizeLinear(codes, s2, z2)\n sums = ReduceSum(" whole          \
  ", one) {keepdims = 0}\n y = Add(sums, m)\n output y\n output codes\n}\n"
#define GROWS(unit, zero, unit2, zero2, whole)                                                                         \
  CODES(unit, zero, unit2, zero2, " all = Concat(old, x) {axis = 0}", whole, "[P, 2]")
/* rows 3 and 1 of a table of 8 are written */
#define WRITES(unit, zero, unit2, zero2)                                                                               \
  CODES(unit, zero, unit2, zero2, " const at: i64[2, 1] = [3, 1]\n all = ScatterND(old, at, x)", "wide", "[8, 2]")
/* the same behind two transpositions and before a bound for all */
#define BOUNDED(low)                                                                                                   \
  CODES("0.3", "5", "0.3", "5",                                                                                        \
        " const at: i64[2, 1] = [3, 1]\n const low: f32[] = [" low "]\n turned = Transpose(old)\n"                     \
        " back = Transpose(turned)\n rows = ScatterND(back, at, x)\n all = Max(rows, low)",                            \
        "wide", "[8, 2]")
/* row pos of a table is written: a choice */
#define CHOOSES(unit, zero, unit2, zero2)                                                                              \
  CODES(unit, zero, unit2, zero2,                                                                                      \
        " input pos: i64[1]\n const nil: i64[] = [0]\n const next: i64[] = [1]\n row = Gather(x, nil)\n shape = "      \
        "Shape(past)\n"                                                                                                \
        " rows = Gather(shape, nil)\n places = Range(nil, rows, next)\n here = Equal(places, pos)\n"                   \
        " column = Unsqueeze(here, one)\n all = Where(column, row, old)",                                              \
        "wide", "[T, 2]")
static const char *const states[] = {"codes=past", NULL}, *const bound[] = {"P=0::8", NULL};

static int8_t code_of(float x, float s, float z) { return (int8_t)fmaxf(-128, fminf(127, rintf(x / s) + z)); }
static subject made(const char *text, kind k) {
  ek_options o;
  ek_options_init(&o);
  o.states = states, o.dims = strstr(text, "[P, 2]") ? bound : NULL;
  return subject_of(text, k, o);
}
static float element(int64_t i) { return (float)(i * 37 % 101) / 3 - 20; }
typedef struct model {
  const char *text;
  float s[2];  /* scales of what was there and of what comes out */
  float z[2];  /* zero points of both */
  bool before; /* the sums are of floats that were no codes */
} model;
/* A step of n rows, written to `rows`, checked against `codes`. */
static void step(const subject *u, const model *k, const int64_t *rows, int64_t n, int64_t all,
                 int8_t codes[MOST][WIDTH]) {
  static int64_t count;
  float x[MOST][WIDTH], m[MOST], floats[MOST][WIDTH];
  const int64_t dims[] = {n, WIDTH}, one = 1;
  ek_array a;
  for (int64_t i = 0; i < all; i++) {
    m[i] = (float)i;
    for (int d = 0; d < WIDTH; d++) floats[i][d] = ((float)codes[i][d] - k->z[0]) * k->s[0];
  }
  for (int64_t i = 0; i < n; i++)
    for (int d = 0; d < WIDTH; d++) floats[rows[i]][d] = x[i][d] = element(count++);
  for (int64_t i = 0; i < all; i++)
    for (int d = 0; d < WIDTH; d++) codes[i][d] = code_of(floats[i][d], k->s[1], k->z[1]);
  assert_int_equal(ek_run_set_input(u->r, "x", x, (size_t)n * sizeof *x, dims, 2), EK_OK);
  assert_int_equal(ek_run_set_input(u->r, "m", m, (size_t)all * sizeof *m, &all, 1), EK_OK);
  if (strstr(k->text, "input pos")) assert_int_equal(ek_run_set_input(u->r, "pos", rows, sizeof *rows, &one, 1), EK_OK);
  if (ek_run_execute(u->r)) fail_msg("%s", ek_run_message(u->r));
  const float *y = ek_run_output_data(u->r, 0);
  for (int64_t i = 0; i < all; i++) {
    float sum = m[i];
    for (int d = 0; d < WIDTH; d++) sum += k->before ? floats[i][d] : ((float)codes[i][d] - k->z[1]) * k->s[1];
    assert_float_equal(y[i], sum, 1e-3);
  }
  assert_int_equal(ek_run_snapshot(u->r, "past", &a), EK_OK);
  assert_memory_equal(a.data, codes, (size_t)all * WIDTH);
}
static void grown(void **state) {
  (void)state;
  static const model row[] = {{GROWS("0.3", "5", "0.3", "5", "wide"), {0.3f, 0.3f}, {5, 5}, false},
                              {GROWS("0.3", "5", "0.3", "5", "all"), {0.3f, 0.3f}, {5, 5}, true}};
  static const int64_t news[] = {3, 1, 1, 2, 1};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (kind k = 0; k < KINDS; k++) {
      subject u = made(row[i].text, k);
      int8_t codes[MOST][WIDTH];
      for (int64_t j = 0, past = 0; j < 5; past += news[j++]) {
        const int64_t rows[] = {past, past + 1, past + 2};
        step(&u, &row[i], rows, news[j], past + news[j], codes);
      }
      ek_session_destroy(u.s);
    }
}
static void written(void **state) {
  (void)state;
  static const model row[] = {{WRITES("0.3", "5", "0.3", "5"), {0.3f, 0.3f}, {5, 5}, false},
                              {WRITES("0.3", "5", "0.25", "5"), {0.3f, 0.25f}, {5, 5}, false},
                              {WRITES("0.3", "5", "0.3", "4"), {0.3f, 0.3f}, {5, 4}, false},
                              {CHOOSES("0.3", "5", "0.3", "5"), {0.3f, 0.3f}, {5, 5}, false}};
  static const int64_t rows[] = {3, 1}, places[] = {3, 7, 0, 3};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (kind k = 0; k < KINDS; k++) {
      const bool chooses = strstr(row[i].text, "input pos");
      subject u = made(row[i].text, k);
      int8_t codes[MOST][WIDTH] = {{0}};
      for (int j = 0; j < 4; j++) step(&u, &row[i], chooses ? &places[j] : rows, chooses ? 1 : 2, MOST, codes);
      ek_session_destroy(u.s);
    }
}
/* The text of a stage of the compiler. */
static const char *shown(subject *u, const char *text, const char *stage) {
  ek_options o;
  ek_show_options w;
  const char *out;
  ek_options_init(&o), ek_show_options_init(&w);
  o.states = states, o.dims = strstr(text, "[P, 2]") ? bound : NULL, w.stage = stage;
  *u = (subject){.s = ek_session_create()};
  if (ek_load_memory(u->s, text, strlen(text), "test", &u->m) || ek_show(u->m, &o, &w, &out))
    fail_msg("%s", ek_message(u->s));
  return out;
}
static void proofs(void **state) {
  (void)state;
  static const struct {
    const char *text; /* the model */
    bool moves;       /* each code comes back */
  } row[] = {
      {GROWS("0.3", "5", "0.3", "5", "wide"), true},
      {GROWS("0.3", "-128", "0.3", "-128", "wide"), true},
      {WRITES("0.3", "5", "0.3", "5"), true},
      {WRITES("1e-38", "5", "1e-38", "5"), true},
      {WRITES("2e36", "127", "2e36", "127"), false}, /* -128 - 127 overflows */
      {WRITES("1e36", "127", "1e36", "127"), true},
      {WRITES("0", "5", "0", "5"), false},
      {WRITES("0.3", "5", "0.3", "4"), false},
      {WRITES("0.3", "5", "0.301", "5"), true},  /* a code is as it was although the scale is not */
      {WRITES("0.3", "5", "0.302", "5"), false}, /* -133 * 0.3 / 0.302 = -132.1: so is this one, but for the last */
      {CHOOSES("0.3", "5", "0.3", "5"), true},
      {CHOOSES("0.3", "5", "0.3", "4"), false},
      {BOUNDED("-40"), true},
      {BOUNDED("-39"), false}, /* -133 * 0.3 is less */
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    subject u;
    const bool moves = strstr(shown(&u, row[i].text, "expr"), "out = past[") != NULL;
    if (moves != row[i].moves) fail_msg("row %zu", i);
    ek_session_destroy(u.s);
    if (!moves) continue;
    if (!strstr(shown(&u, row[i].text, "program"), "state \"past\" = \"codes\" in place\n")) fail_msg("row %zu", i);
    ek_session_destroy(u.s);
  }
}
/* A scale that only the run knows may be anything. */
static void run_time_scale(void **state) {
  (void)state;
  static const char text[] =
      "graph \"g\" {\n input x: f32[2, 2]\n input s: f32[]\n input past: i8[8, 2]\n const z: i8[] = [0]\n"
      " const at: i64[2, 1] = [3, 1]\n old = DequantizeLinear(past, s, z)\n all = ScatterND(old, at, x)\n"
      " codes = QuantizeLinear(all, s, z)\n output codes\n}\n";
  subject u;
  assert_null(strstr(shown(&u, text, "expr"), "out = past["));
  ek_session_destroy(u.s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(grown), cmocka_unit_test(written), cmocka_unit_test(proofs),
                                     cmocka_unit_test(run_time_scale)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
