/* States: what a run leaves for the next one. Every kind of module agrees over several runs with what feeding outputs
 * back by hand gives; states are reset, restored, and independent of one another; a cache is written in place, and
 * costs no time by its length; each level's text reads back, and what is not well-formed is refused.
 */
#include "driver/lower.h"
#include "passes/passes.h"
#include "program/program.h"
#include "statekit.h"
#include <math.h>
#include <stdlib.h>

/* y = x + s; the next s is y / 2 */
static const char adds[] =
    "graph \"adds\" {\n input s: f32[4]\n input x: f32[4]\n const half: f32[] = [0.5]\n y = Add(x, s)\n"
    " s2 = Mul(y, half)\n output s2\n output y\n}\n";
/* the next h is tanh(h w + x): each place reads all of the old value */
static const char recurrent[] =
    "graph \"recurrent\" {\n input h: f32[1, 64]\n input x: f32[1, 64]\n input w: f32[64, 64]\n p = MatMul(h, w)\n"
    " a = Add(p, x)\n h2 = Tanh(a)\n y = ReduceSum(h2)\n output h2\n output y\n}\n";
/* a row of a table is replaced, and the table summed up */
static const char table[] =
    "graph \"table\" {\n input t: f32[6, 4]\n input at: i64[1, 1]\n input row: f32[1, 4]\n t2 = ScatterND(t, at, row)\n"
    " y = ReduceSum(t2)\n output t2\n output y\n}\n";

static ek_code make(subject *x, const char *text, const char *const *states, kind k, ek_options o) {
  o.states = states;
  return subject_compile(x, text, k, o);
}
static subject made(const char *text, const char *const *states, kind k) {
  ek_options o;
  ek_options_init(&o);
  o.states = states;
  return subject_of(text, k, o);
}
static void give(ek_run *r, const char *name, const void *data, size_t bytes, int64_t n0, int64_t n1) {
  const int64_t dims[] = {n0, n1};
  if (ek_run_set_input(r, name, data, bytes, dims, n1 ? 2 : 1)) fail_msg("%s", ek_run_message(r));
}
static void go(ek_run *r) {
  if (ek_run_execute(r)) fail_msg("%s", ek_run_message(r));
}
static void holds(ek_run *r, const char *name, const float *want, size_t n) {
  ek_array a;
  if (ek_run_snapshot(r, name, &a)) fail_msg("%s", ek_run_message(r));
  assert_int_equal(a.bytes, n * sizeof *want);
  for (size_t i = 0; i < n; i++) assert_float_equal(((const float *)a.data)[i], want[i], 1e-5);
}

/* ---- several runs ---------------------------------------------------------------------------- */
static void several_runs(void **state) {
  (void)state;
  const char *const states[] = {"s2=s", NULL};
  const float x[] = {1, 2, 3, 4}, zeros[4] = {0}, first[] = {8, 8, 8, 8};
  const int64_t four = 4;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(adds, states, k);
    ek_tensor_info t;
    assert_int_equal(ek_module_inputs(u.code), 1);
    assert_int_equal(ek_module_outputs(u.code), 1);
    assert_int_equal(ek_module_states(u.code), 1);
    assert_int_equal(ek_module_state(u.code, 0, &t), EK_OK);
    assert_string_equal(t.name, "s");
    assert_int_equal(ek_module_state(u.code, 1, &t), EK_USAGE);
    ek_run *other;
    assert_int_equal(ek_run_create(u.code, 1, &other), EK_OK);
    give(u.r, "x", x, sizeof x, 4, 0), give(other, "x", x, sizeof x, 4, 0);
    holds(u.r, "s", zeros, 4);
    for (int turn = 0; turn < 2; turn++) {
      float s[4] = {0}, y[4];
      for (int run = 0; run < 5; run++) {
        go(u.r);
        for (int i = 0; i < 4; i++) y[i] = x[i] + s[i], s[i] = y[i] / 2;
        for (int i = 0; i < 4; i++) assert_float_equal(((const float *)ek_run_output_data(u.r, 0))[i], y[i], 1e-5);
        holds(u.r, "s", s, 4);
      }
      holds(other, "s", zeros, 4); /* each run object has its own */
      assert_int_equal(ek_run_reset(u.r, turn ? "s" : NULL), EK_OK);
      holds(u.r, "s", zeros, 4);
    }
    assert_int_equal(ek_run_restore(u.r, "s", first, sizeof first, &four, 1), EK_OK);
    holds(u.r, "s", first, 4);
    go(u.r);
    assert_float_equal(((const float *)ek_run_output_data(u.r, 0))[3], 12, 1e-5);
    ek_session_destroy(u.s);
  }
}
/* The state's old value is read by all places of the new one, so that they cannot be one memory. */
static void two_places(void **state) {
  (void)state;
  const char *const states[] = {"h2=h", NULL};
  float x[64], w[64 * 64], h[64] = {0}, want[6];
  for (int i = 0; i < 64; i++) x[i] = 0.01f * (float)(i % 7);
  for (int i = 0; i < 64 * 64; i++) w[i] = 0.02f * (float)((i * 37) % 11 - 5);
  for (int run = 0; run < 6; run++) {
    float next[64], sum = 0;
    for (int j = 0; j < 64; j++) {
      float a = x[j];
      for (int i = 0; i < 64; i++) a += h[i] * w[i * 64 + j];
      next[j] = tanhf(a), sum += next[j];
    }
    memcpy(h, next, sizeof h), want[run] = sum;
  }
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(recurrent, states, k);
    give(u.r, "x", x, sizeof x, 1, 64), give(u.r, "w", w, sizeof w, 64, 64);
    for (int run = 0; run < 6; run++) {
      go(u.r);
      assert_float_equal(*(const float *)ek_run_output_data(u.r, 0), want[run], 1e-4);
    }
    holds(u.r, "h", h, 64);
    ek_session_destroy(u.s);
  }
}
static void in_place(void **state) {
  (void)state;
  const char *const states[] = {"t2=t", NULL};
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(table, states, k);
    float want[24] = {0}, sum = 0;
    for (int64_t run = 0; run < 4; run++) {
      int64_t at = run * 3 % 6;
      float row[4];
      for (int i = 0; i < 4; i++) row[i] = (float)(run * 10 + i);
      give(u.r, "at", &at, sizeof at, 1, 1), give(u.r, "row", row, sizeof row, 1, 4);
      go(u.r);
      memcpy(want + at * 4, row, sizeof row);
      sum = 0;
      for (int i = 0; i < 24; i++) sum += want[i];
      assert_float_equal(*(const float *)ek_run_output_data(u.r, 0), sum, 1e-4);
      holds(u.r, "t", want, 24);
    }
    ek_session_destroy(u.s);
  }
}
/* Sums that decay, in place: of odd sizes, of each kind of element, in one thread and in two. */
static void own_places(void **state) {
  (void)state;
  enum { N = 40013 };
  static const char *const types[] = {"f32", "i64"};
  const char *const states[] = {"s2=s", NULL};
  for (int t = 0; t < 2; t++)
    for (kind k = 0; k < KINDS; k++) {
      char text[400];
      snprintf(text, sizeof text,
               "graph \"decays\" {\n input s: %s[%d]\n input x: %s[%d]\n const k: %s[] = [3]\n m = Mul(s, k)\n s2 = "
               "Sub(x, m)\n output s2\n}\n",
               types[t], N, types[t], N, types[t]);
      subject u = made(text, states, k);
      float *x = calloc(N, sizeof *x);
      int64_t *y = calloc(N, sizeof *y);
      for (int i = 0; i < N; i++) x[i] = (float)(i % 13), y[i] = i % 13;
      for (int threads = 1; threads <= 2; threads++) {
        ek_run *r;
        ek_array a;
        assert_int_equal(ek_run_create(u.code, threads, &r), EK_OK);
        give(r, "x", t ? (void *)y : (void *)x, N * (t ? sizeof *y : sizeof *x), N, 0);
        go(r), go(r), go(r); /* x, x - 3x, x + 6x */
        assert_int_equal(ek_run_snapshot(r, "s", &a), EK_OK);
        for (int i = 0; i < N; i++)
          if (t ? ((const int64_t *)a.data)[i] != 7 * y[i] : ((const float *)a.data)[i] != 7 * x[i])
            fail_msg("%s %s: place %d", kind_names[k], types[t], i);
      }
      free(x), free(y);
      ek_session_destroy(u.s);
    }
}
/* A weight of 16 rows and 3 columns, less a product whose lanes run along the rows: its rows are loaded side by side,
 * exchanged between lanes, and each column is stored in steps of 3. */
static void exchanged(void **state) {
  (void)state;
  static const char text[] =
      "graph \"narrow\" {\n input w: f32[16, 3]\n input x: f32[32, 16]\n input d: f32[32, 3]\n t = Transpose(x) {perm "
      "= [1, 0]}\n g = MatMul(t, d)\n w2 = Sub(w, g)\n output w2\n}\n";
  const char *const states[] = {"w2=w", NULL};
  float x[32 * 16], d[32 * 3];
  for (int i = 0; i < 32 * 16; i++) x[i] = (float)(i % 7);
  for (int i = 0; i < 32 * 3; i++) d[i] = (float)(i % 5);
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(text, states, k);
    float want[16 * 3] = {0};
    give(u.r, "x", x, sizeof x, 32, 16), give(u.r, "d", d, sizeof d, 32, 3);
    for (int run = 0; run < 2; run++) {
      go(u.r);
      for (int i = 0; i < 16 * 3; i++)
        for (int n = 0; n < 32; n++) want[i] -= x[n * 16 + i / 3] * d[n * 3 + i % 3];
      holds(u.r, "w", want, 16 * 3);
    }
    ek_session_destroy(u.s);
  }
}
/* A part of a table that is updated is not the table. */
static void a_part(void **state) {
  (void)state;
  static const char part[] =
      "graph \"part\" {\n input t: f32[6, 4]\n input at: i64[1, 1]\n input row: f32[1, 4]\n const from: i64[1] = [0]\n "
      "const to: i64[1] = [2]\n t2 = ScatterND(t, at, row)\n y = Slice(t2, from, to)\n output y\n}\n";
  const float t[24] = {9}, row[] = {1, 2, 3, 4};
  const int64_t at = 1;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(part, NULL, k);
    give(u.r, "t", t, sizeof t, 6, 4), give(u.r, "at", &at, sizeof at, 1, 1), give(u.r, "row", row, sizeof row, 1, 4);
    go(u.r);
    assert_int_equal(ek_run_output_bytes(u.r, 0), 8 * sizeof *row);
    const float *y = ek_run_output_data(u.r, 0);
    assert_true(y[0] == 9 && y[3] == 0 && y[4] == 1 && y[7] == 4);
    ek_session_destroy(u.s);
  }
}
/* A run that fails may have changed what is changed in place: nobody goes on with that by mistake. */
static void failed_runs(void **state) {
  (void)state;
  const char *const states[] = {"t2=t", NULL};
  const float row[4] = {1, 2, 3, 4};
  const int64_t good = 2, bad = 6;
  ek_array a;
  subject u = made(table, states, JIT);
  give(u.r, "row", row, sizeof row, 1, 4), give(u.r, "at", &good, sizeof good, 1, 1);
  go(u.r);
  give(u.r, "at", &bad, sizeof bad, 1, 1);
  assert_int_equal(ek_run_execute(u.r), EK_SHAPE);
  assert_int_equal(ek_run_snapshot(u.r, "t", &a), EK_USAGE);
  give(u.r, "at", &good, sizeof good, 1, 1);
  assert_int_equal(ek_run_execute(u.r), EK_USAGE);
  assert_non_null(strstr(ek_run_message(u.r), "ek_run_reset"));
  assert_int_equal(ek_run_reset(u.r, NULL), EK_OK);
  go(u.r);
  assert_float_equal(*(const float *)ek_run_output_data(u.r, 0), 10, 1e-5);
  ek_session_destroy(u.s);
  u = made(table, states, EVAL); /* two places: nothing is lost */
  give(u.r, "row", row, sizeof row, 1, 4), give(u.r, "at", &good, sizeof good, 1, 1);
  go(u.r);
  give(u.r, "at", &bad, sizeof bad, 1, 1);
  assert_int_equal(ek_run_execute(u.r), EK_SHAPE);
  give(u.r, "at", &good, sizeof good, 1, 1);
  go(u.r);
  ek_session_destroy(u.s);
}
/* An initialiser is what the state begins with, and begins with again. */
static void first_values(void **state) {
  (void)state;
  const char *const states[] = {"n2=n", NULL};
  static const char counts[] = "graph \"counts\" {\n input x: i64[2]\n const n: i64[2] = [7, 70]\n n2 = Add(n, x)\n"
                               " y = Neg(n)\n output y\n output n2\n}\n";
  const int64_t x[] = {1, 2};
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(counts, states, k);
    give(u.r, "x", x, sizeof x, 2, 0);
    for (int turn = 0; turn < 2; turn++) {
      for (int64_t run = 0; run < 3; run++) {
        go(u.r);
        const int64_t *y = ek_run_output_data(u.r, 0);
        assert_int_equal(y[0], -(7 + run));
        assert_int_equal(y[1], -(70 + 2 * run));
      }
      ek_run_reset(u.r, "n");
    }
    ek_session_destroy(u.s);
  }
}
/* A state that is computed from itself has one place, also where something else reads the old value, which runs before,
 * and where parts of it are computed apart, each from its own place. Parts that change places have two. */
static void one_place(void **state) {
  (void)state;
  static const struct {
    const char *body; /* how s2 and y come about */
    int places;
  } row[] = {
      {"p = MatMul(x, x)\n s2 = Sub(s, p)\n y = MatMul(x, s)\n", 1},
      {"u, v = Split(s)\n p, q = Split(x)\n a = Mul(u, p)\n b = Add(v, q)\n s2 = Concat(a, b) {axis = 0}\n"
       " y = MatMul(x, s)\n",
       1},
      {"u, v = Split(s)\n p, q = Split(x)\n a = Mul(v, p)\n b = Add(u, q)\n s2 = Concat(a, b) {axis = 0}\n"
       " y = MatMul(x, s)\n",
       2},
  };
  enum { SIDE = 8 };
  const char *const states[] = {"s2=s", NULL};
  float x[SIDE * SIDE];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[500];
    snprintf(text, sizeof text,
             "graph \"one\" {\n input s: f32[8, 8]\n input x: f32[8, 8]\n %s output y\n output s2\n}\n", row[i].body);
    subject want = made(text, states, EVAL), got = made(text, states, JIT);
    ek_run *const runs[] = {want.r, got.r};
    ek_memory_use use = {.size = sizeof use};
    ek_module_memory(got.code, &use);
    assert_int_equal(use.state_bytes, row[i].places * (int)sizeof x);
    for (int turn = 0; turn < 3; turn++) {
      ek_array a;
      for (int k = 0; k < SIDE * SIDE; k++) x[k] = (float)((k * 7 + turn) % 11 - 5) / 8;
      for (int k = 0; k < 2; k++) give(runs[k], "x", x, sizeof x, SIDE, SIDE), go(runs[k]);
      const float *y[] = {ek_run_output_data(want.r, 0), ek_run_output_data(got.r, 0)};
      for (int k = 0; k < SIDE * SIDE; k++) assert_float_equal(y[1][k], y[0][k], 1e-5);
      assert_int_equal(ek_run_snapshot(want.r, "s", &a), EK_OK);
      holds(got.r, "s", a.data, SIDE * SIDE);
    }
    ek_session_destroy(want.s), ek_session_destroy(got.s);
  }
}
/* A long first value is in the model's file and not in memory: runs begin with it, whatever changed meanwhile. */
typedef struct stored {
  subject u;     /* a table of LONG values */
  char path[64]; /* of the model's file */
} stored;
enum { LONG = 1 << 15, PERIOD = 251 };
static float long_value(int i) { return (float)(i % PERIOD) / 4; }
static stored store(const char *schedule) {
  static char text[LONG * 8];
  stored x;
  ek_options o;
  size_t n = (size_t)snprintf(text, sizeof text,
                              "graph \"long\" {\n input at: i64[1, 1]\n input row: f32[1, 256]\n"
                              " const t: f32[128, 256] = [");
  for (int i = 0; i < LONG; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%g", i ? "," : "", (double)long_value(i));
  snprintf(text + n, sizeof text - n, "]\n t2 = ScatterND(t, at, row)\n y = ReduceSum(t2)\n output y\n output t2\n}\n");
  x.u = (subject){.s = ek_session_create()};
  snprintf(x.path, sizeof x.path, "/tmp/einkorn_state_%d.onnx", (int)getpid());
  assert_int_equal(ek_load_memory(x.u.s, text, strlen(text), "long", &x.u.m), EK_OK);
  ek_options_init(&o);
  if (ek_save(x.u.m, &o, x.path, NULL)) fail_msg("%s", ek_message(x.u.s));
  ek_model_close(x.u.m);
  assert_int_equal(ek_load(x.u.s, x.path, &x.u.m), EK_OK);
  o.states = (const char *const[]){"t2=t", NULL}, o.verify = 1, o.schedule = schedule;
  if (ek_compile(x.u.m, &o, &x.u.code)) fail_msg("%s", ek_message(x.u.s));
  assert_int_equal(ek_run_create(x.u.code, 1, &x.u.r), EK_OK);
  return x;
}
/* The value of now, in which row 3 was replaced. */
static void long_holds(ek_run *r, const float *row) {
  ek_array a;
  if (ek_run_snapshot(r, "t", &a)) fail_msg("%s", ek_run_message(r));
  assert_int_equal(a.bytes, LONG * sizeof *row);
  for (int i = 0; i < LONG; i++)
    if (((const float *)a.data)[i] != (row && i / 256 == 3 ? row[i % 256] : long_value(i))) fail_msg("element %d", i);
}
static void long_first_values(void **state) {
  (void)state;
  static const char *const schedules[] = {NULL, "schedules 1\ntensor ScatterND_0.Y {\n  layout d1 d0\n}\n"};
  static float row[256];
  const int64_t at = 3;
  for (int k = 0; k < 2; k++) {
    stored x = store(schedules[k]);
    ek_run *again = NULL;
    ek_memory_use use = {.size = sizeof use};
    ek_module_memory(x.u.code, &use);
    assert_int_equal(use.state_bytes, LONG * sizeof *row);
    assert_true(use.constant_bytes < 4096);
    long_holds(x.u.r, NULL);
    give(x.u.r, "at", &at, sizeof at, 1, 1), give(x.u.r, "row", row, sizeof row, 1, 256);
    go(x.u.r);
    long_holds(x.u.r, row);
    assert_int_equal(ek_run_create(x.u.code, 1, &again), EK_OK);
    long_holds(again, NULL);
    assert_int_equal(ek_run_reset(x.u.r, NULL), EK_OK);
    long_holds(x.u.r, NULL);
    go(x.u.r);
    long_holds(x.u.r, row);
    ek_session_destroy(x.u.s);
    unlink(x.path);
  }
}
/* The file is gone, or another one has its name: the value is there. It was written to: it is not, which is told. */
static void first_values_of_a_file_that_changed(void **state) {
  (void)state;
  static float row[256];
  const int64_t at = 3;
  ek_run *again = NULL;
  ek_array a;
  stored x = store(NULL);
  give(x.u.r, "at", &at, sizeof at, 1, 1), give(x.u.r, "row", row, sizeof row, 1, 256);
  go(x.u.r);
  FILE *f = fopen(x.path, "ab");
  assert_true(f != NULL && fputc(0, f) == 0 && fclose(f) == 0);
  go(x.u.r);
  long_holds(x.u.r, row);
  assert_int_equal(ek_run_create(x.u.code, 1, &again), EK_OK);
  assert_int_equal(ek_run_snapshot(again, "t", &a), EK_IO);
  assert_non_null(strstr(ek_run_message(again), "state 't' cannot begin: the file with its first value was changed"));
  assert_int_equal(ek_run_restore(again, "t", row, sizeof row, (const int64_t[]){1, 256}, 2), EK_SHAPE);
  assert_int_equal(ek_run_reset(x.u.r, "t"), EK_IO);
  assert_int_equal(ek_run_execute(x.u.r), EK_USAGE);
  unlink(x.path);
  assert_int_equal(ek_run_reset(x.u.r, "t"), EK_OK);
  long_holds(x.u.r, NULL);
  ek_session_destroy(x.u.s);
}
/* Sizes of a state come from other inputs. They cannot change while it holds something. */
static void open_sizes(void **state) {
  (void)state;
  static const char open[] = "graph \"open\" {\n input x: f32[n]\n input s: f32[n]\n s2 = Add(x, s)\n output s2\n}\n";
  const char *const states[] = {"s2=s", NULL};
  const float x[] = {1, 2, 3};
  const int64_t two = 2;
  ek_array a;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(open, states, k);
    assert_int_equal(ek_run_snapshot(u.r, "s", &a), EK_USAGE);
    give(u.r, "x", x, 2 * sizeof *x, 2, 0);
    go(u.r), go(u.r);
    holds(u.r, "s", (const float[]){2, 4}, 2);
    give(u.r, "x", x, 3 * sizeof *x, 3, 0);
    assert_int_equal(ek_run_execute(u.r), EK_SHAPE);
    assert_non_null(strstr(ek_run_message(u.r), "state 's'"));
    assert_int_equal(ek_run_reset(u.r, NULL), EK_OK);
    go(u.r);
    holds(u.r, "s", x, 3);
    assert_int_equal(ek_run_restore(u.r, "s", x, 2 * sizeof *x, &two, 1), EK_OK);
    give(u.r, "x", x, 2 * sizeof *x, 2, 0);
    go(u.r);
    holds(u.r, "s", (const float[]){2, 4}, 2);
    ek_session_destroy(u.s);
  }
}
/* A graph whose state s becomes s2, which body computes, and begins with `first`. */
static void with_first(char *text, size_t room, const char *body, const float *first, int n) {
  int at = snprintf(text, room,
                    "graph \"g\" {\n input s: f32[2, 3, 5]\n input x: f32[1, 5]\n input at: i64[1, 2]\n const half: "
                    "f32[] = [0.5]\n const w: f32[5, 5] = [1, 2, -1, 0, 1, 0, 1, 0, -2, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, "
                    "0, 0, 1, 0, 0, -1]\n %s\n y = ReduceSum(s2) {keepdims = 0}\n output y\n output s2 state s first "
                    "f32[2, 3, 5] = [",
                    body);
  for (int i = 0; i < n; i++) at += snprintf(text + at, room - (size_t)at, "%s%g", i ? ", " : "", (double)first[i]);
  snprintf(text + at, room - (size_t)at, "]\n}\n");
}
/* A state lies in the order that a schedule states, and is given and shown row-major: the first value, snapshots, what
 * is restored. */
static void in_order(const char *body, const char *tensor, const char *axes, kind k) {
  enum { SIZE = 2 * 3 * 5, RUNS = 4 };
  char text[800], schedule[200];
  float first[SIZE], x[5];
  int64_t at[2]; /* the inputs stay where they are until the last run */
  subject want, got;
  ek_options o;
  for (int i = 0; i < SIZE; i++) first[i] = (float)(i % 7) / 4;
  with_first(text, sizeof text, body, first, SIZE);
  snprintf(schedule, sizeof schedule, "schedules 1\ntensor %s {\n  layout %s\n}\n", tensor, axes);
  want = made(text, NULL, EVAL);
  ek_options_init(&o);
  o.schedule = schedule;
  if (make(&got, text, NULL, k, o)) fail_msg("%s: %s", axes, ek_message(got.s));
  assert_int_equal(ek_run_create(got.code, 2, &got.r), EK_OK);
  for (int turn = 0; turn < 3; turn++) {
    ek_run *const runs[] = {want.r, got.r};
    ek_array a;
    for (int64_t run = 0; run < RUNS; run++) {
      at[0] = run % 2, at[1] = (run * 2 + turn) % 3;
      for (int i = 0; i < 5; i++) x[i] = (float)(run * 5 + i + turn) / 8;
      for (int i = 0; i < 2; i++) {
        give(runs[i], "at", at, sizeof at, 1, 2), give(runs[i], "x", x, sizeof x, 1, 5);
        go(runs[i]);
      }
      assert_float_equal(*(const float *)ek_run_output_data(got.r, 0), *(const float *)ek_run_output_data(want.r, 0),
                         1e-3);
      assert_int_equal(ek_run_snapshot(want.r, "s", &a), EK_OK);
      holds(got.r, "s", a.data, SIZE);
    }
    if (turn == 0) { /* the first value again */
      for (int i = 0; i < 2; i++) ek_run_reset(runs[i], NULL);
      holds(got.r, "s", first, SIZE);
    } else { /* a snapshot of two runs before, and then one's own */
      float kept[SIZE];
      assert_int_equal(ek_run_snapshot(got.r, "s", &a), EK_OK);
      memcpy(kept, a.data, sizeof kept);
      for (int i = 0; i < 2; i++) go(runs[i]);
      for (int i = 0; i < 2; i++) assert_int_equal(ek_run_restore(runs[i], "s", kept, sizeof kept, a.dims, 3), EK_OK);
      assert_int_equal(ek_run_snapshot(got.r, "s", &a), EK_OK);
      assert_int_equal(ek_run_restore(got.r, "s", a.data, sizeof kept, a.dims, 3), EK_OK);
      holds(got.r, "s", kept, SIZE);
    }
  }
  ek_session_destroy(want.s), ek_session_destroy(got.s);
}
static void orders(void **state) {
  (void)state;
  static const struct {
    const char *body;   /* how the next value comes about */
    const char *tensor; /* which it is */
    const char *axes;   /* names of its axes */
  } row[] = {
      {"s2 = ScatterND(s, at, x)", "ScatterND_0.Y", "d0 d1 d2"},                    /* a row is written, in place */
      {"h = Mul(s, half)\n s2 = Add(h, x)", "Add_1.C", "i0 i1 i2"},                 /* place by place */
      {"p = MatMul(s, w)\n s2 = Add(p, x)", "Add_1.C", "i0 i1 i2"},                 /* two memories */
      {"r = ReduceMax(s)\n h = Mul(s, r)\n s2 = Add(h, x)", "Add_2.C", "i0 i1 i2"}, /* read twice */
  };
  static const uint8_t orders[][3] = {{0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}, {0, 1, 2}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    for (size_t j = 0; j < sizeof orders / sizeof *orders; j++)
      for (kind k = JIT; k <= SAVED; k++) {
        char axes[16];
        for (int d = 0; d < 3; d++) memcpy(axes + 3 * d, row[i].axes + 3 * orders[j][d], 2), axes[3 * d + 2] = ' ';
        axes[8] = 0;
        in_order(row[i].body, row[i].tensor, axes, k);
      }
}
/* A profile counts the work by the sizes of the inputs alone. */
static void profiled(void **state) {
  (void)state;
  static const char open[] = "graph \"open\" {\n input x: f32[n]\n input s: f32[n]\n s2 = Add(x, s)\n output s2\n}\n";
  const char *const states[] = {"s2=s", NULL};
  const float x[1000] = {1};
  const ek_kernel *k;
  size_t n;
  subject u;
  ek_options o;
  ek_options_init(&o);
  o.profile = 1;
  assert_int_equal(make(&u, open, states, JIT, o), EK_OK);
  assert_int_equal(ek_run_create(u.code, 1, &u.r), EK_OK);
  give(u.r, "x", x, sizeof x, 1000, 0);
  go(u.r);
  assert_int_equal(ek_run_kernels(u.r, &k, &n), EK_OK);
  assert_int_equal(n, 1);
  assert_float_equal(k->ops, 1000, 0);
  assert_float_equal(k->bytes, 12000, 0);
  ek_session_destroy(u.s);
}
/* A size that only a run finds, without a bound: the run begins again with more memory, with the old state. */
static void begins_again(void **state) {
  (void)state;
  static const char finds[] =
      "graph \"finds\" {\n input x: f32[m]\n input t: f32[6, 4]\n input at: i64[1, 1]\n input row: f32[1, 4]\n"
      " z = NonZero(x)\n t2 = ScatterND(t, at, row) {reduction = \"add\"}\n y = Cast(z) {to = 1}\n output y\n output "
      "t2\n}\n";
  const char *const states[] = {"t2=t", NULL};
  const float x[64] = {1, 1, 0, 1}, row[] = {1, 2, 3, 4};
  const int64_t at = 1;
  for (kind k = 0; k < KINDS; k++) {
    subject u = made(finds, states, k);
    give(u.r, "x", x, sizeof x, 64, 0), give(u.r, "at", &at, sizeof at, 1, 1), give(u.r, "row", row, sizeof row, 1, 4);
    float want[24] = {0};
    for (int run = 1; run < 4; run++) {
      go(u.r);
      for (int i = 0; i < 4; i++) want[4 + i] = (float)run * row[i];
      holds(u.r, "t", want, 24);
    }
    ek_session_destroy(u.s);
  }
}

/* ---- what the program says ------------------------------------------------------------------- */
/* The text of a stage, for a certain machine: what is chosen depends on its caches. */
static const char *shown(subject *x, const char *text, const char *const *states, const char *stage) {
  const char *out = NULL;
  ek_options o;
  ek_show_options w;
  ek_options_init(&o), ek_show_options_init(&w);
  o.states = states, o.target = "zen5", w.stage = stage;
  *x = (subject){.s = ek_session_create()};
  assert_int_equal(ek_load_memory(x->s, text, strlen(text), "test", &x->m), EK_OK);
  if (ek_show(x->m, &o, &w, &out)) fail_msg("%s", ek_message(x->s));
  return out;
}
static void says(const char *text, const char *state, const char *want, const char *never) {
  const char *const states[] = {state, NULL};
  subject x;
  const char *out = shown(&x, text, states, "program");
  if (!strstr(out, want)) fail_msg("%s: no `%s` in\n%s", state, want, out);
  if (never && strstr(out, never)) fail_msg("%s: `%s` in\n%s", state, never, out);
  ek_session_destroy(x.s);
}
static void program_text(void **state) {
  (void)state;
  says(recurrent, "h2=h", "state \"h\" = \"h2\" exchanged\n", NULL);
  says(table, "t2=t", "state \"t\" = \"t2\" in place\n", "(%1.t,");
  /* each place from what stood there; not where another result wants that, too, or where places change */
  says("graph \"g\" {\n input s: f32[5, 7]\n input x: f32[5, 7]\n const k: f32[] = [0.5]\n m = Mul(s, k)\n s2 = Add(m, "
       "x)\n "
       "output s2\n}\n",
       "s2=s", "in place\n", NULL);
  says(adds, "s2=s", "exchanged\n", NULL);
  says("graph \"g\" {\n input s: f32[5, 5]\n input x: f32[5, 5]\n t = Transpose(s)\n s2 = Add(t, x)\n output s2\n}\n",
       "s2=s", "exchanged\n", NULL);
  says("graph \"g\" {\n input s: f32[8]\n input x: f32[1]\n const one: i64[1] = [1]\n const end: i64[1] = [8]\n t = "
       "Slice(s, "
       "one, end)\n s2 = Concat(t, x) {axis = 0}\n output s2\n}\n",
       "s2=s", "exchanged\n", NULL);
  /* turned around the update, as exporters write it */
  says("graph \"g\" {\n input t: f32[2, 6, 4]\n input at: i64[1, 1]\n input row: f32[1, 2, 4]\n a = Transpose(t) {perm "
       "= [1, "
       "0, 2]}\n b = ScatterND(a, at, row)\n t2 = Transpose(b) {perm = [1, 0, 2]}\n y = ReduceSum(b)\n output t2\n "
       "output "
       "y\n}\n",
       "t2=t", "state \"t\" = \"t2\" in place\n", ".t,");
  /* one place by a condition, through the stages that make it */
  says("graph \"g\" {\n input t: f32[L, 4]\n input m: f32[L]\n input pos: i64[1]\n input row: f32[1, 4]\n const nil: "
       "i64[] "
       "= [0]\n const one: i64[] = [1]\n const axis: i64[1] = [1]\n shape = Shape(m)\n rows = Gather(shape, nil)\n "
       "places "
       "= Range(nil, rows, one)\n here = Equal(places, pos)\n column = Unsqueeze(here, axis)\n t2 = Where(column, row, "
       "t)\n output t2\n}\n",
       "t2=t", "state \"t\" = \"t2\" in place\n", ".t,");
  /* it is read after the update */
  says("graph \"g\" {\n input t: f32[6, 4]\n input at: i64[1, 1]\n input row: f32[1, 4]\n t2 = ScatterND(t, at, row)\n"
       " s = ReduceSum(t2)\n u = Mul(t, s)\n y = ReduceMax(u)\n output t2\n output y\n}\n",
       "t2=t", "exchanged\n", NULL);
  /* what is written hangs on what stands elsewhere */
  says("graph \"g\" {\n input t: f32[6, 4]\n input at: i64[1, 1]\n const k: i64[1] = [0]\n row = Gather(t, k)\n"
       " t2 = ScatterND(t, at, row)\n output t2\n}\n",
       "t2=t", "state", NULL);
  /* it never changes */
  says("graph \"g\" {\n input t: f32[6]\n y = Neg(t)\n output y\n output t\n}\n", "t=t", "in place\n", "out %1");
}
/* The cost decides: products of several rows with a cache want its length innermost, those of one row do not, nor those
 * of a short cache, or of one whose length is open. */
static void chosen_orders(void **state) {
  (void)state;
  static const struct {
    const char *rows;   /* rows of a product for each head */
    const char *length; /* of the cache */
    const char *want;   /* how it lies */
  } row[] = {{"4", "256", "in place order 0 1 3 2\n"},
             {"1", "256", "in place\n"},
             {"4", "L", "in place\n"},
             {"4", "16", "in place\n"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[600];
    snprintf(text, sizeof text,
             "graph \"g\" {\n input q: f32[1, 2, %s, 32]\n input k: f32[1, 2, 1, 32]\n input pos: i64[1]\n input n: "
             "f32[%s]\n input past: f32[1, 2, %s, 32]\n keys = TensorScatter(past, k, pos)\n turned = Transpose(keys) "
             "{perm = [0, 1, 3, 2]}\n p = MatMul(q, turned)\n y = Add(p, n)\n output y\n output keys\n}\n",
             row[i].rows, row[i].length, row[i].length);
    says(text, "keys=past", row[i].want, NULL);
  }
}
static void same_text(const char *level, const char *one, const char *two) {
  if (strcmp(one, two) != 0) fail_msg("%s:\n%s\n----\n%s", level, one, two);
}
/* Each level's text reads back as the same object. */
static void texts(void **state) {
  (void)state;
  static const char text[] =
      "graph \"g\" {\n input x: f32[1, 4]\n input t: f32[6, 4]\n input n: f32[2]\n const at: i64[1, 1] = [3]\n const "
      "one: "
      "f32[] = [1]\n t2 = ScatterND(t, at, x)\n n2 = Add(n, one)\n y = ReduceSum(t2)\n output y\n output t2 state t\n "
      "output n2 state n first f32[2] = [5, 6]\n}\n";
  ctx *c = ctx_new();
  CTX_TRY(c) {
    sbuf b[6];
    for (int i = 0; i < 6; i++) b[i] = sbuf_new(ctx_arena(c));
    graph *g = graph_parse(c, text, "test");
    assert_non_null(g);
    graph_print(g, &b[0], (graph_print_opts){0});
    graph_print(graph_parse(c, b[0].s, "again"), &b[1], (graph_print_opts){0});
    same_text("graph", b[0].s, b[1].s);
    assert_non_null(strstr(b[0].s, "output n2 state n first f32[2] = [5, 6]\n"));
    oplib *lib = notation_lib(c);
    assert_true(graph_verify(g, "test") && notation_add_builtin(lib));
    emodule *m = lower_graph(g, lib, NULL, 0);
    assert_non_null(m);
    expr_print(m, &b[2], (print_opts){.weights_inline = true});
    emodule *again = expr_parse(c, b[2].s, "again");
    assert_true(again && expr_verify(again, "again") && expr_verify_whole(again, "again"));
    expr_print(again, &b[3], (print_opts){.weights_inline = true});
    same_text("expr", b[2].s, b[3].s);
    expr_optimise(m, 3, NULL);
    program *p = program_build(schedule_module(m, target_get(c, "x86-64-v3"), (schedule_opts){.level = 3}), "g");
    program_print(p, &b[4]);
    program *q = program_parse(c, b[4].s, "again");
    assert_true(q && program_verify(p, "test") && program_verify(q, "again"));
    program_print(q, &b[5]);
    same_text("program", b[4].s, b[5].s);
    assert_non_null(strstr(b[4].s, "state \"t\" = \"t2\" in place\nstate \"n\" = \"n2\" in place first %"));
  }
  CTX_CATCH { fail_msg("%s", diag_first(c) ? diag_first(c)->text : "?"); }
  ctx_free(c);
}
/* The verifier of programs finds a state in place that is read when it has been written. */
static void read_too_late(void **state) {
  (void)state;
  static const char kernel[] = "kernel k(ptr f32 a read, ptr f32 b read write) {\n %1 = param a\n %2 = param b\n"
                               " %3 = load f32 %1 0\n store %2 0 %3\n}\n",
                    elsewhere[] = "kernel k(ptr f32 a read, ptr f32 b read write) {\n %1 = param a\n %2 = param b\n"
                                  " %3 = load f32 %1 1\n store %2 0 %3\n}\n";
  static const struct {
    const char *steps;  /* of the program */
    const char *kernel; /* that they launch */
    bool good;          /* the verifier takes it */
  } row[] = {
      {"launch k(%1, out %2) chunks 1\nlaunch k(%2, out %3) chunks 1\n", kernel, true},
      {"launch k(%2, out %3) chunks 1\nlaunch k(%1, out %2) chunks 1\n", kernel, false},
      {"launch k(%1, out %2) chunks 1\nlaunch k(%1, out %3) chunks 1\n", kernel, true}, /* each in its own place */
      {"launch k(%1, out %2) chunks 1\nlaunch k(%1, out %3) chunks 1\n", elsewhere, false},
      {"launch k(%1, out %3) chunks 1\nlaunch k(%1, out %2) chunks 1\n", kernel, false},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ctx *c = ctx_new();
    const char *text = arena_fmt(ctx_arena(c),
                                 "program \"p\"\ninput \"s\": f32[2]\noutput \"y\": f32[2]\noutput \"s2\": "
                                 "f32[2]\narena 0 bytes\nscratch 0 bytes "
                                 "per worker\nweights 0 bytes\nbuffer %%1: input f32 x 2 number 0\nbuffer %%2: output "
                                 "f32 x 2 number 0\nbuffer %%3: "
                                 "output f32 x 2 number 1\nstate \"s\" = \"s2\" in place\n%s%skernels\n\n%s",
                                 i == 1 ? "launch k(%1, out %2) chunks 1\n" : "", row[i].steps, row[i].kernel);
    program *p = program_parse(c, text, "test");
    assert_non_null(p);
    const bool good = program_verify(p, "test");
    bool told = false;
    for (const diag *d = diag_first(c); d; d = d->next) told |= strstr(d->text, "is in place: step") != NULL;
    if (good != row[i].good || told == good) fail_msg("%zu", i);
    ctx_free(c);
  }
}

/* An order names each axis once. */
static void order_texts(void **state) {
  (void)state;
  static const struct {
    const char *order; /* of the state */
    bool good;         /* the verifier takes it */
  } row[] = {{"", true}, {" order 0 1", true}, {" order 1 0", true}, {" order 1 1", false}, {" order 0 2", false}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ctx *c = ctx_new();
    const char *text = arena_fmt(
        ctx_arena(c),
        "program \"p\"\ninput \"s\": f32[2, 3]\noutput \"s2\": f32[2, 3]\narena 0 bytes\nscratch 0 bytes per worker\n"
        "weights 0 bytes\nbuffer %%1: input f32 x 6 number 0\nbuffer %%2: output f32 x 6 number 0\nstate \"s\" = "
        "\"s2\" "
        "exchanged%s\nlaunch k(%%1, out %%2) chunks 1\nkernels\n\nkernel k(ptr f32 a read, ptr f32 b read write) {\n "
        "%%1 "
        "= param a\n %%2 = param b\n %%3 = load f32 %%1 0\n store %%2 0 %%3\n}\n",
        row[i].order);
    sbuf b = sbuf_new(ctx_arena(c));
    program *p = program_parse(c, text, "test");
    assert_non_null(p);
    const bool good = program_verify(p, "test");
    bool told = false;
    for (const diag *d = diag_first(c); d; d = d->next) told |= strstr(d->text, "its order has not") != NULL;
    if (good != row[i].good || told == good) fail_msg("%zu", i);
    program_print(p, &b);
    if (!strstr(b.s, arena_fmt(ctx_arena(c), " exchanged%s\n", row[i].order))) fail_msg("%s", b.s);
    ctx_free(c);
  }
}

/* ---- what is refused ------------------------------------------------------------------------- */
static void patterns(void **state) {
  (void)state;
  static const char sums[] =
      "graph \"sums\" {\n input a_k: f32[2]\n input a_long_k: f32[2]\n input a_v: f32[2]\n input x: f32[2]\n b_k = "
      "Add(a_k, x)\n b_long_k = Sub(a_long_k, x)\n b_v = Add(a_v, x)\n output b_k\n output b_v\n output b_long_k\n}\n";
  const char *const states[] = {"b_*_k=a_*_k", "b_*=a_*", NULL}, *const some[] = {"b_*_k=a_*_k", NULL},
                    *const last[] = {"b*k=a*k", NULL};
  const float x[] = {1, 2}, minus[] = {-2, -4};
  subject u;
  ek_options o;
  ek_options_init(&o);
  assert_int_equal(make(&u, sums, states, JIT, o), EK_USAGE); /* b_long_k fits both */
  ek_session_destroy(u.s);
  u = made(sums, some, JIT); /* b_k has nothing between the two lines */
  assert_int_equal(ek_module_states(u.code), 1);
  ek_session_destroy(u.s);
  u = made(sums, last, JIT);
  assert_int_equal(ek_module_states(u.code), 2);
  give(u.r, "x", x, sizeof x, 2, 0), give(u.r, "a_v", x, sizeof x, 2, 0);
  go(u.r), go(u.r);
  holds(u.r, "a_k", (const float[]){2, 4}, 2), holds(u.r, "a_long_k", minus, 2);
  ek_session_destroy(u.s);
}
static void refused(void **state) {
  (void)state;
  static const char shapes[] =
      "graph \"g\" {\n input a: f32[4]\n input b: i64[4]\n input c: f32[4, 1]\n input d: f32[5]\n"
      " input n: f32[k]\n y = Neg(a)\n z = Neg(n)\n output y\n output z\n}\n";
  static const struct {
    const char *const states[3]; /* of ek_options */
    ek_code code;                /* how it ends */
    const char *says[3];         /* what the message names */
  } row[] = {
      {{"yy=a"}, EK_USAGE, {"no output of the name yy"}},
      {{"y=aa"}, EK_USAGE, {"no input of the name aa"}},
      {{"y"}, EK_USAGE, {"OUTPUT=INPUT"}},
      {{"y=a", "y=d"}, EK_USAGE, {"tied to an input already"}},
      {{"v*=a*"}, EK_USAGE, {"'v*=a*'", "no output whose name fits"}},
      {{"y*=b*"}, EK_SHAPE, {"'b'", "the output 'y' is f32[4]"}},
      {{"y=a", "z=a"}, EK_USAGE, {"tied to an output already"}},
      {{"y=b"}, EK_SHAPE, {"'b'", "the output 'y' is f32[4]", "the input is i64[4]"}},
      {{"y=c"}, EK_SHAPE, {"f32[4, 1]"}},
      {{"y=d"}, EK_SHAPE, {"f32[5]"}},
      {{"z=n"}, EK_MODEL, {"n", "size k"}},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    subject x;
    ek_options o;
    ek_options_init(&o);
    ek_code code = make(&x, shapes, row[i].states, JIT, o);
    if (code != row[i].code) fail_msg("%zu: %d %s", i, (int)code, ek_message(x.s));
    for (int k = 0; k < 3 && row[i].says[k]; k++)
      if (!strstr(ek_message(x.s), row[i].says[k])) fail_msg("%zu: %s", i, ek_message(x.s));
    ek_session_destroy(x.s);
  }
}
static void refused_calls(void **state) {
  (void)state;
  const char *const states[] = {"s2=s", NULL};
  const float v[4] = {0};
  const int64_t four = 4, five = 5, square[] = {2, 2};
  ek_array a;
  subject u = made(adds, states, JIT);
  assert_int_equal(ek_run_reset(u.r, "x"), EK_USAGE);
  assert_non_null(strstr(ek_run_message(u.r), "it has s"));
  assert_int_equal(ek_run_snapshot(u.r, "x", &a), EK_USAGE);
  assert_int_equal(ek_run_snapshot(u.r, NULL, &a), EK_USAGE);
  assert_int_equal(ek_run_restore(u.r, "x", v, sizeof v, &four, 1), EK_USAGE);
  assert_int_equal(ek_run_restore(u.r, "s", v, sizeof v, &five, 1), EK_SHAPE);
  assert_int_equal(ek_run_restore(u.r, "s", v, sizeof v - 4, &four, 1), EK_SHAPE);
  assert_int_equal(ek_run_restore(u.r, "s", v, sizeof v, square, 2), EK_SHAPE);
  assert_int_equal(ek_run_reset(NULL, NULL), EK_USAGE);
  ek_session_destroy(u.s);
  ek_session *s = ek_session_create(); /* a model is not saved as one with states, and one without has none */
  ek_model *m;
  ek_options o;
  ek_options_init(&o);
  assert_int_equal(ek_load_memory(s, adds, strlen(adds), "test", &m), EK_OK);
  o.states = states;
  assert_int_equal(ek_save(m, &o, "/tmp/einkorn_state.onnx", NULL), EK_UNSUPPORTED);
  ek_session_destroy(s);
  u = made(adds, NULL, JIT);
  assert_int_equal(ek_module_states(u.code), 0);
  assert_int_equal(ek_run_reset(u.r, NULL), EK_OK);
  assert_int_equal(ek_run_snapshot(u.r, "s", &a), EK_USAGE);
  ek_session_destroy(u.s);
}

/* ---- a decoder's caches ---------------------------------------------------------------------- */
#define MODELS EK_SOURCE_DIR "/tests/models/"
static const char *const caches[] = {"values=past_values", "keys=past_keys", NULL};
static ek_module *decoder(ek_session *s, const char *name, bool inside, kind k, const char *length, int profile) {
  char path[300];
  const char *const dims[] = {length, NULL};
  ek_model *m;
  ek_module *code;
  ek_options o;
  ek_options_init(&o);
  o.states = inside ? caches : NULL, o.evaluate = k == EVAL, o.optimize = k == PLAIN ? 0 : 3, o.dims = dims;
  o.profile = profile;
  snprintf(path, sizeof path, MODELS "%s.onnx", name);
  if (ek_load(s, path, &m) || ek_compile(m, &o, &code)) fail_msg("%s: %s", name, ek_message(s));
  return code;
}
/* Steps with the caches inside give what feeding them back by hand gives. */
static void decoders(void **state) {
  (void)state;
  enum { LENGTH = 12, ROW = 16, STEPS = 12 };
  static const char *const models[] = {"cache_tensor_scatter", "cache_scatter_rows", "cache_scatter_turned"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    for (kind k = EVAL; k <= JIT; k += k == EVAL ? 2 : 1) {
      ek_session *s = ek_session_create();
      ek_module *by_hand = decoder(s, models[i], false, EVAL, "L=12", 0),
                *in = decoder(s, models[i], true, k, "L=12", 0);
      ek_run *a, *b;
      static float keys[LENGTH * ROW], values[LENGTH * ROW];
      memset(keys, 0, sizeof keys), memset(values, 0, sizeof values);
      assert_int_equal(ek_run_create(by_hand, 1, &a), EK_OK);
      assert_int_equal(ek_run_create(in, 1, &b), EK_OK);
      for (int64_t pos = 0; pos < STEPS; pos++) {
        float x[ROW];
        for (int j = 0; j < ROW; j++) x[j] = sinf((float)(pos * ROW + j));
        ek_run_bind_input(a, ek_module_find_input(by_hand, "x"), x), ek_run_bind_input(b, 0, x);
        ek_run_bind_input(a, ek_module_find_input(by_hand, "pos"), &pos), ek_run_bind_input(b, 1, &pos);
        ek_run_bind_input(a, ek_module_find_input(by_hand, "past_keys"), keys);
        ek_run_bind_input(a, ek_module_find_input(by_hand, "past_values"), values);
        go(a), go(b);
        const float *want = ek_run_output_data(a, 0), *got = ek_run_output_data(b, 0);
        for (int j = 0; j < ROW; j++) assert_float_equal(got[j], want[j], 1e-4);
        memcpy(keys, ek_run_output_data(a, ek_module_find_output(by_hand, "keys")), sizeof keys);
        memcpy(values, ek_run_output_data(a, ek_module_find_output(by_hand, "values")), sizeof values);
        holds(b, "past_keys", keys, LENGTH * ROW), holds(b, "past_values", values, LENGTH * ROW);
      }
      ek_session_destroy(s);
    }
}
/* The least time, in ms, of the kernel that makes the new cache of keys, of n rows. */
static double cache_ms(bool inside, const char *length, int64_t n) {
  ek_session *s = ek_session_create();
  ek_module *code = decoder(s, "cache_tensor_scatter", inside, JIT, length, 1);
  ek_run *r;
  const ek_kernel *k;
  size_t kernels;
  const float x[16] = {1};
  int64_t pos = n / 2;
  float *old = calloc((size_t)n * 16, sizeof *old);
  double least = 1e9;
  assert_int_equal(ek_run_create(code, 1, &r), EK_OK);
  ek_run_bind_input(r, 0, x), ek_run_bind_input(r, 1, &pos);
  for (int i = 2; i < ek_module_inputs(code); i++) ek_run_bind_input(r, i, old);
  for (int run = 0; run < 100; run++) {
    uint32_t found = 0;
    go(r);
    assert_int_equal(ek_run_kernels(r, &k, &kernels), EK_OK);
    for (size_t i = 0; i < kernels; i++)
      if (!strcmp(k[i].tensors, "TensorScatter_0.Y")) {
        found++;
        if (k[i].ms < least) least = k[i].ms;
      }
    assert_int_equal(found, 1);
  }
  free(old);
  ek_session_destroy(s);
  return least;
}
/* Of a cache in place one row is touched, however long it is. */
static void no_copies(void **state) {
  (void)state;
  const double copied = cache_ms(false, "L=65536", 65536), kept = cache_ms(true, "L=65536", 65536);
  if (kept > copied / 20) fail_msg("%g ms in place, %g ms with a copy", kept, copied);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_runs),
      cmocka_unit_test(two_places),
      cmocka_unit_test(in_place),
      cmocka_unit_test(own_places),
      cmocka_unit_test(exchanged),
      cmocka_unit_test(a_part),
      cmocka_unit_test(failed_runs),
      cmocka_unit_test(first_values),
      cmocka_unit_test(one_place),
      cmocka_unit_test(long_first_values),
      cmocka_unit_test(first_values_of_a_file_that_changed),
      cmocka_unit_test(open_sizes),
      cmocka_unit_test(profiled),
      cmocka_unit_test(begins_again),
      cmocka_unit_test(program_text),
      cmocka_unit_test(texts),
      cmocka_unit_test(read_too_late),
      cmocka_unit_test(refused),
      cmocka_unit_test(refused_calls),
      cmocka_unit_test(decoders),
      cmocka_unit_test(no_copies),
      cmocka_unit_test(orders),
      cmocka_unit_test(chosen_orders),
      cmocka_unit_test(order_texts),
      cmocka_unit_test(patterns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
