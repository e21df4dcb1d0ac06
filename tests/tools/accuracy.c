/* How wrong is compiled code? Functions over f32 inputs against the C library in f64, sums and norms by length, and
 * whole models, against the definitions interpreted in f64 (evaluate 3).
 *   accuracy [-a] [-f] [-u] PAGE [MODEL.onnx...]
 * Compares with the table of PAGE (docs/accuracy.md) and fails where an error is larger than it says; -u writes the
 * page. -a: more bit patterns, longer sums, more and deeper random networks; -f: functions at every f32 (minutes a
 * function). Models have references beside them, MODEL.npz, whose inputs are taken. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 18, ROWS = 512, TEXT = 1 << 16 };
enum { QUICK_STEP = 1021, STEP = 509 /* of bit patterns */, QUICK_NETWORKS = 4, NETWORKS = 24 };
typedef struct row { /* of the page: what, and the largest errors in ulp (-1: not asked) and absolute or relative */
  char name[80];
  double ulp, error;
} row;
static const double MOST = 1e-4; /* error of a model */
static row rows[ROWS];
static int n_rows, failed, passed;
static ek_session *session;

static void note(const char *name, double ulp, double error) {
  snprintf(rows[n_rows].name, sizeof rows->name, "%s", name);
  rows[n_rows].ulp = ulp, rows[n_rows++].error = error;
}
static void stop(const char *what) {
  printf("FAIL %s: %s\n0 passed, 1 failed, 0 skipped\n", what, ek_message(session));
  exit(1);
}
static ek_module *compile(const char *text, const char *target, int evaluate) {
  ek_model *m;
  ek_module *code;
  ek_options o;
  ek_options_init(&o);
  o.target = target, o.evaluate = evaluate, o.threads = 1;
  if (ek_load_memory(session, text, strlen(text), "model", &m) || ek_compile(m, &o, &code)) return NULL;
  return code;
}
static ek_run *run_of(ek_module *code, const void *x) {
  ek_run *r;
  if (ek_run_create(code, 1, &r) || ek_run_bind_input(r, 0, x)) stop("run");
  return r;
}

/* ---- functions ------------------------------------------------------------------------------- */
static double gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static const struct function {
  const char *name, *op;
  double (*ref)(double);
} functions[] = {{"erf", "Erf", erf}, {"Gelu", "Gelu", gelu}, {"tanh", "Tanh", tanh},
                 {"exp", "Exp", exp}, {"log", "Log", log},    {"sigmoid", "Sigmoid", sigmoid}};
static double ulp_of(double want) {
  int e;
  frexp(want, &e);
  return ldexp(1, (e < -125 ? -125 : e) - 24);
}
/* Where the exact value is no f32, infinite or NaN, the result must be the C library's, rounded. */
static void measure(const struct function *f, const float *x, const float *y, double worst[2]) {
  for (int i = 0; i < CHUNK; i++) {
    double want = f->ref((double)x[i]), e = fabs((double)y[i] - want);
    if (isnan(want) || isinf(want) || fabs(want) > 0x1.ffffffp127) {
      if (isnan(x[i]) || (f->ref == gelu && isinf(x[i]))) continue; /* -inf * 0 */
      if (!(isnan(want) ? isnan(y[i]) : isinf(y[i]) && (y[i] > 0) == (want > 0))) worst[0] = INFINITY;
      continue;
    }
    if (isinf(y[i]) && fabs(want) > 0x1.fffffcp127) continue;
    const bool counts = fabs(want) >= 0x1p-126 && !(f->ref == gelu && x[i] < 0);
    if (counts && !(e / ulp_of(want) <= worst[0])) worst[0] = e / ulp_of(want);
    if (fabs(want) <= 1 && !(e <= worst[1])) worst[1] = e;
  }
}
static void test_functions(uint64_t step) {
  static float x[CHUNK];
  static const char *const targets[] = {"host", "x86-64-v3", "x86-64"};
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    char text[400];
    double worst[2] = {0};
    snprintf(text, sizeof text,
             "graph \"f\" ir 8 opset 20 {\n  input x: f32[%d]\n  y: f32[%d] = %s(x) \"f\"\n  output y\n}\n", CHUNK,
             CHUNK, functions[k].op);
    for (int t = 0; t < 3; t++) {
      ek_module *code = compile(text, targets[t], 0);
      if (!code) continue; /* not this machine's */
      ek_run *r = run_of(code, x);
      for (uint64_t at = 0; at >> 32 == 0;) {
        for (int i = 0; i < CHUNK; i++, at += step) {
          uint32_t bits = (uint32_t)at;
          memcpy(&x[i], &bits, 4);
        }
        if (ek_run_execute(r)) stop(functions[k].op);
        measure(&functions[k], x, ek_run_output_data(r, 0), worst);
      }
      ek_run_destroy(r);
    }
    note(functions[k].name, worst[0], worst[1]);
  }
}

/* ---- what adds up ---------------------------------------------------------------------------- */
static double largest_error(ek_run *got, ek_run *want, int32_t i) { /* relative to the largest value; < 0: no floats */
  int64_t dims[EK_MAX_RANK], n = 1;
  int32_t rank;
  if (ek_run_output_dims(got, i, dims, &rank)) return -1;
  for (int32_t d = 0; d < rank; d++) n *= dims[d];
  const float *y = ek_run_output_data(got, i);
  const double *z = ek_run_output_data(want, i);
  double most = 0, worst = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!isfinite(z[k]) || fabs(z[k]) > 1e37) continue;
    if (fabs(z[k]) > most) most = fabs(z[k]);
    if (!(fabs((double)y[k] - z[k]) <= worst)) worst = fabs((double)y[k] - z[k]);
  }
  return most > 0 ? worst / most : worst;
}
static double both(const char *text, const void *x) {
  ek_module *code = compile(text, NULL, 0), *exact = compile(text, NULL, 3);
  if (!code || !exact) stop(text);
  ek_run *a = run_of(code, x), *b = run_of(exact, x);
  if (ek_run_execute(a) || ek_run_execute(b)) stop(text);
  double e = largest_error(a, b, 0);
  ek_run_destroy(a), ek_run_destroy(b);
  return e;
}
static void test_sums(bool all) {
  static const struct {
    const char *name, *shape, *out, *node;
  } some[] = {{"sum", "%ld", "", "ReduceSum(x) {keepdims = 0}"},
              {"mean", "%ld", "", "ReduceMean(x) {keepdims = 0}"},
              {"sum of 4 columns", "%ld, 4", "4", "ReduceSum(x, axis) {keepdims = 0}"},
              {"L2 norm", "%ld", "", "ReduceL2(x) {keepdims = 0}"},
              {"softmax", "1, %ld", "1, %ld", "Softmax(x)"},
              {"layer norm", "1, %ld", "1, %ld", "LayerNormalization(x, one)"}};
  for (int bits = 8; bits <= (all ? 20 : 16); bits += 4) {
    const long n = 1L << bits;
    float *x = malloc((size_t)n * 4 * sizeof *x);
    for (long i = 0; i < 4 * n; i++) x[i] = (float)((uint64_t)i * 2654435761u % 1000003) / 1000003;
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
      char text[1000], shape[40], out[40], name[80];
      snprintf(shape, sizeof shape, some[k].shape, n), snprintf(out, sizeof out, some[k].out, n);
      snprintf(
          text, sizeof text,
          "graph \"s\" ir 8 opset 18 {\n  input x: f32[%s]\n  const axis: i64[1] = [0]\n  const one: f32[1] = [1]\n"
          "  y: f32[%s] = %s \"s\"\n  output y\n}\n",
          shape, out, some[k].node);
      snprintf(name, sizeof name, "%s, 2^%d", some[k].name, bits);
      note(name, -1, both(text, x));
    }
    free(x);
  }
}

/* ---- networks -------------------------------------------------------------------------------- */
static uint64_t seed;
static int below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}
static int put(char *text, int n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  n += vsnprintf(text + n, (size_t)(TEXT - n), fmt, ap);
  va_end(ap);
  return n;
}
/* Windows of 3 to 15 along a line or of 3 to 7 in a plane, of all channels or each its own, with residual sums. */
static void network(int number) {
  static char text[TEXT];
  static float x[16 * 1024];
  static const int lines[] = {3, 3, 5, 7, 9, 15}, planes[] = {3, 3, 3, 5, 7};
  seed = (uint64_t)number;
  const bool plane = number % 2;
  const int layers = 10 + below(number < QUICK_NETWORKS ? 6 : 51), channels = 8 << below(2), size = plane ? 16 : 128;
  char place[20], win[20], pads[40], last[20] = "x", name[80];
  snprintf(place, sizeof place, plane ? "%d, %d" : "%d", size, size);
  int n = put(text, 0, "graph \"n\" ir 8 opset 17 {\n  input x: f32[1, %d, %s]\n", channels, place);
  for (int l = 1; l <= layers; l++) {
    const int w = plane ? planes[below(5)] : lines[below(6)], own = below(4) == 0, in = own ? 1 : channels, p = w / 2;
    const double bound = sqrt(6.0 / (in * w * (plane ? w : 1)));
    snprintf(win, sizeof win, plane ? "%d, %d" : "%d", w, w);
    snprintf(pads, sizeof pads, plane ? "%d, %d, %d, %d" : "%d, %d", p, p, p, p);
    n = put(text, n, "  w%d: f32[%d, %d, %s] = RandomUniform() {shape = [%d, %d, %s], ", l, channels, in, win, channels,
            in, win);
    n = put(text, n, "seed = float %d.0, low = float %f, high = float %f} \"w%d\"\n", 100 * number + l, -bound, bound,
            l);
    n = put(text, n, "  c%d: f32[1, %d, %s] = Conv(%s, w%d) {pads = [%s], group = %d} \"c%d\"\n", l, channels, place,
            last, l, pads, own ? channels : 1, l);
    n = put(text, n, "  a%d: f32[1, %d, %s] = %s(c%d) \"a%d\"\n", l, channels, place, below(3) ? "Relu" : "Tanh", l, l);
    const bool adds = below(3) == 0;
    if (adds) n = put(text, n, "  r%d: f32[1, %d, %s] = Add(a%d, %s) \"r%d\"\n", l, channels, place, l, last, l);
    snprintf(last, sizeof last, adds ? "r%d" : "a%d", l);
  }
  put(text, n, "  output %s\n}\n", last);
  for (int i = 0; i < channels * size * (plane ? size : 1); i++) x[i] = (float)(below(2001) - 1000) / 1000;
  snprintf(name, sizeof name, "network %d: %d-D, %d layers", number, 1 + plane, layers);
  note(name, -1, both(text, x));
}
/* A run of the model with its reference's inputs; NULL: it takes others. */
static ek_run *run_model(ek_module *code, const ek_arrays *in) {
  ek_run *r;
  if (ek_run_create(code, 1, &r)) stop("run");
  for (int32_t i = 0; i < ek_module_inputs(code); i++) {
    char name[20];
    ek_array x;
    snprintf(name, sizeof name, "in_%d", i);
    if (ek_arrays_find(in, name, &x) || ek_run_shape(r, i, x.dims, x.rank) || ek_run_bind_input(r, i, x.data)) {
      ek_run_destroy(r);
      return NULL;
    }
  }
  if (!ek_run_execute(r)) return r;
  ek_run_destroy(r);
  return NULL;
}
/* The largest error of the outputs that are f32, of code as accurate as said; -1: there are none */
static double model_error(const char *path, const ek_arrays *in, ek_accuracy accuracy) {
  double worst = -1;
  ek_model *m;
  ek_module *code[2];
  ek_run *r[2] = {0};
  for (int k = 0; k < 2; k++) {
    ek_options o;
    ek_options_init(&o);
    o.threads = 1, o.evaluate = k ? 3 : 0, o.accuracy = accuracy;
    if (ek_load(session, path, &m) || ek_compile(m, &o, &code[k])) stop(path);
    r[k] = run_model(code[k], in);
  }
  for (int32_t i = 0; r[0] && r[1] && i < ek_module_outputs(code[0]); i++) {
    ek_tensor_info a, b;
    ek_module_output(code[0], i, &a), ek_module_output(code[1], i, &b);
    if (a.type != EK_FLOAT || b.type != EK_DOUBLE) continue;
    const double e = largest_error(r[0], r[1], i);
    if (!(e <= worst)) worst = e;
  }
  ek_run_destroy(r[0]), ek_run_destroy(r[1]);
  return worst;
}
/* Marked with a star: a model that rounds by itself, or subtracts nearly equal numbers, so that a plain sum errs as
 * much. */
static void whole_model(const char *path) {
  char npz[1000], name[80];
  const char *from = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  const int stem = (int)strcspn(from, ".");
  ek_arrays *in;
  snprintf(npz, sizeof npz, "%.*s.npz", (int)(from - path) + stem, path);
  if (ek_arrays_load(session, npz, &in)) return;
  const double e = model_error(path, in, EK_ACCURACY_DEFAULT);
  const bool own = e > MOST && e <= 2 * model_error(path, in, EK_ACCURACY_STRICT);
  snprintf(name, sizeof name, "%.*s%s", stem, from, own ? " *" : "");
  if (e >= 0) note(name, -1, e);
  ek_arrays_close(in);
}

/* ---- the page -------------------------------------------------------------------------------- */
static const char head[] =
    "# Accuracy\n"
    "\n"
    "Largest errors of compiled code, measured by `tests/tools/accuracy.c`. It writes this page (`accuracy -a -u "
    "docs/accuracy.md\n"
    "tests/models/*.onnx`), with a tenth added for other machines, and fails where an error is larger than the page "
    "says:\n"
    "`make check-deep` measures all of it, `make test` a part (every 1021st bit pattern, sums of up to 2^16 terms, "
    "four networks,\n"
    "some models). The reference of functions is the C library in f64; that of the rest is the definitions interpreted "
    "with every\n"
    "float in f64 (`run --eval --promote f64`). Functions are measured as compiled for this machine, for AVX2 and for "
    "SSE2.\n"
    "\n"
    "- Functions: at every 509th f32 bit pattern (`-f`: at each), in ulp of the exact result where that is a normal "
    "number, and\n"
    "  absolute where it is at most 1. Of Gelu the ulp are for x >= 0: below, `x*(1 + erf(x/sqrt 2))/2` keeps the "
    "absolute error of\n"
    "  1 + erf, some 3e-7 times |x|/2, and is 0 from about -5.6 on. A form with erfc would take an exponential more.\n"
    "- Sums (of terms between 0 and 1), norms and models: the largest error divided by the largest value of the "
    "output.\n"
    "  Models shall be within 1e-4 by default. Those with a star round by themselves (casts to f16) or subtract "
    "nearly\n"
    "  equal numbers, and err as much with `--accuracy strict`. The random networks have windows on a line or in a "
    "plane.\n"
    "\n"
    "| what | ulp | error |\n|---|---|---|\n";
static double up(double x) { /* to two digits, a tenth more for other machines */
  if (!(x > 0)) return 0;
  const double unit = pow(10, floor(log10(1.1 * x)) - 1);
  return ceil(1.1 * x / unit) * unit;
}
static bool write_page(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  fputs(head, f);
  for (int i = 0; i < n_rows; i++) {
    fprintf(f, "| %s | ", rows[i].name);
    fprintf(f, rows[i].ulp < 0 ? "" : "%.2g", up(rows[i].ulp));
    fprintf(f, " | %.1e |\n", up(rows[i].error));
  }
  return fclose(f) == 0;
}
static void compare(const char *path) {
  char line[400];
  FILE *f = fopen(path, "r");
  if (!f) printf("FAIL %s cannot be read\n", path), failed++;
  for (int i = 0; f && i < n_rows; i++) {
    double ulp = -1, error = -1;
    const size_t n = strlen(rows[i].name);
    rewind(f);
    while (fgets(line, sizeof line, f))
      if (!strncmp(line, "| ", 2) && !strncmp(line + 2, rows[i].name, n) && !strncmp(line + 2 + n, " | ", 3)) {
        char *at = line + n + 5;
        if (*at != ' ') ulp = strtod(at, &at);
        at = strchr(at, '|');
        if (at) error = strtod(at + 1, NULL);
      }
    if (rows[i].ulp <= ulp + (rows[i].ulp < 0) && rows[i].error <= error)
      passed++;
    else
      printf("FAIL %s: %.3g ulp, error %.3g; the page says %.3g, %.3g\n", rows[i].name, rows[i].ulp, rows[i].error, ulp,
             error),
          failed++;
  }
  if (f) fclose(f);
}
int main(int argc, char **argv) {
  bool all = false, every = false, writes = false;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++)
    all |= argv[i][1] == 'a', every |= argv[i][1] == 'f', writes |= argv[i][1] == 'u';
  if (i == argc || !(session = ek_session_create())) return 2;
  const char *page = argv[i++];
  test_functions(every ? 1 : all ? STEP : QUICK_STEP);
  test_sums(all);
  for (int k = 0; k < (all ? NETWORKS : QUICK_NETWORKS); k++) network(k);
  for (; i < argc; i++) whole_model(argv[i]);
  for (int k = 0; k < n_rows; k++)
    if (rows[k].ulp < 0 && rows[k].error > MOST && !strchr(rows[k].name, '*'))
      printf("FAIL %s: over %g, %.3g\n", rows[k].name, MOST, rows[k].error), failed++;
  if (writes && !write_page(page)) printf("FAIL %s cannot be written\n", page), failed++;
  if (!writes) compare(page);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  ek_session_destroy(session);
  return failed != 0;
}
