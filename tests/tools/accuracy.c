/* How wrong is compiled code? Functions over f32 inputs against the C library in f64; sums and norms by length, and
 * whole models, against the definitions interpreted in f64 (evaluate 3).
 *   accuracy [-a] [-f] [-u] PAGE [MODEL.onnx...]
 *   accuracy -r FROM TO
 * Compares with the tables of PAGE (docs/accuracy.md) and fails where an error is larger than it says. -a: more bit
 * patterns, longer sums, more random networks. -u: even more networks, and writes the page; of functions it keeps what
 * the page says, unless -f measures them anew at every f32 (minutes). Models have references beside them, NAME.npz or
 * NAME.ref.npz, whose inputs are taken. -r prints the errors of random networks by number (networks.h). */
#include "einkorn/einkorn.h"
#include "networks.h"
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 18, ROWS = 512, MAX_INPUTS = 32 };
enum { QUICK_STEP = 1021, STEP = 509 /* of bit patterns */, QUICK_NETWORKS = 6, NETWORKS = 14, PAGE_NETWORKS = 40 };
typedef enum section { FUNCTIONS, SUMS, MODELS, STARRED, SECTIONS } section; /* of the page */
/* A row of the page: the errors of what is named, 0 where the section does not say them. */
typedef struct row {
  section in;
  char name[80];
  double ulp;    /* largest error in ulp of the exact value */
  double error;  /* largest error; absolute or relative to the largest value: the page says which */
  double strict; /* the same with --accuracy strict */
  double moved;  /* how far the exact output moves when each input moves by an ulp, relative to its largest value */
} row;
static const double MOST = 1e-4; /* error of a model */
static row rows[ROWS];
static int n_rows, failed, passed;
static ek_session *session;

static void note(row r) { rows[n_rows++] = r; }
static void stop(const char *what) {
  printf("FAIL %s: %s\n0 passed, 1 failed, 0 skipped\n", what, ek_message(session));
  exit(1);
}

/* ---- running --------------------------------------------------------------------------------- */
typedef struct subject {   /* a model and its inputs */
  const char *path, *text; /* a file, or the text of a graph */
  int32_t n;
  ek_array in[MAX_INPUTS];
} subject;
static subject graph(const char *text, const float *x, int64_t n) { /* whose one input has n elements */
  return (subject){.text = text, .n = 1, .in = {{.type = EK_FLOAT, .rank = 1, .dims = {n}, .data = x}}};
}
typedef enum way { CODE, STRICT_CODE, EXACT } way;
/* NULL: the target is not this machine's. */
static ek_module *compile(const subject *w, const char *target, way how) {
  ek_model *m;
  ek_module *code;
  ek_options o;
  ek_options_init(&o);
  o.target = target, o.threads = 1, o.evaluate = how == EXACT ? 3 : 0;
  o.accuracy = how == STRICT_CODE ? EK_ACCURACY_STRICT : EK_ACCURACY_DEFAULT;
  const ek_code bad =
      w->path ? ek_load(session, w->path, &m) : ek_load_memory(session, w->text, strlen(w->text), "model", &m);
  if (bad || (ek_compile(m, &o, &code) && !target)) stop(w->path ? w->path : w->text);
  ek_model_close(m);
  return code;
}
static ek_run *execute(ek_module *code, const subject *w) {
  ek_run *r;
  if (ek_run_create(code, 1, &r)) stop("run");
  for (int32_t i = 0; i < w->n; i++)
    if ((w->path && ek_run_shape(r, i, w->in[i].dims, w->in[i].rank)) || ek_run_bind_input(r, i, w->in[i].data))
      stop(w->path ? w->path : w->text);
  if (ek_run_execute(r)) stop(w->path ? w->path : w->text);
  return r;
}
static double number(const void *data, ek_type t, int64_t i) {
  return t == EK_FLOAT ? (double)((const float *)data)[i] : ((const double *)data)[i];
}
/* The largest error of output i, relative to its largest value; got is of type t, want in f64. */
static double output_error(ek_run *got, ek_type t, ek_run *want, int32_t i) {
  int64_t dims[EK_MAX_RANK], n = 1;
  int32_t rank;
  if (ek_run_output_dims(got, i, dims, &rank)) stop("dims of an output");
  for (int32_t d = 0; d < rank; d++) n *= dims[d];
  const void *y = ek_run_output_data(got, i);
  const double *z = ek_run_output_data(want, i);
  double most = 0, worst = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!isfinite(z[k]) || fabs(z[k]) > 1e37) continue;
    if (fabs(z[k]) > most) most = fabs(z[k]);
    const double e = fabs(number(y, t, k) - z[k]);
    if (!(e <= worst)) worst = e;
  }
  return most > 0 ? worst / most : worst;
}
/* The largest error of the outputs that `want` has in f64 and `got` in f32, or in f64, too; -1: there are none. */
static double largest_error(ek_module *code, ek_run *got, ek_module *exact, ek_run *want) {
  double worst = -1;
  for (int32_t i = 0; i < ek_module_outputs(code); i++) {
    ek_tensor_info a, b;
    ek_module_output(code, i, &a), ek_module_output(exact, i, &b);
    if (b.type != EK_DOUBLE || (a.type != EK_FLOAT && code != exact)) continue;
    const double e = output_error(got, a.type, want, i);
    if (!(e <= worst)) worst = e;
  }
  return worst;
}
/* The larger error of those that code for AVX-512 and for AVX2 makes, where this machine runs them: the caches in the
 * descriptions of these targets choose the tiles, so that the order of sums does not depend on the machine. */
static double error_of(const subject *w, way how, ek_module *exact, ek_run *want) {
  static const char *const targets[] = {"x86-64-v4", "x86-64-v3"};
  double worst = -1;
  for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
    ek_module *code = compile(w, targets[t], how);
    if (!code) continue;
    const double e = largest_error(code, execute(code, w), exact, want);
    if (!(e <= worst)) worst = e;
    ek_module_close(code);
  }
  return worst;
}
/* How far do outputs move when each f32 of the inputs moves by an ulp, up or down? */
static double moved_by_inputs(const subject *w, ek_module *exact, ek_run *want) {
  subject near = *w;
  uint32_t random = 1;
  for (int32_t i = 0; i < w->n; i++) {
    const ek_array *from = &w->in[i];
    if (from->type != EK_FLOAT) continue;
    int64_t n = 1;
    for (int32_t d = 0; d < from->rank; d++) n *= from->dims[d];
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t k = 0; k < n; k++) {
      random = random * 1664525u + 1013904223u;
      x[k] = nextafterf(((const float *)from->data)[k], random >> 31 ? INFINITY : -INFINITY);
    }
    near.in[i].data = x;
  }
  const double e = largest_error(exact, execute(exact, &near), exact, want);
  for (int32_t i = 0; i < w->n; i++)
    if (near.in[i].data != w->in[i].data) free((void *)(uintptr_t)near.in[i].data);
  return e;
}

/* ---- functions ------------------------------------------------------------------------------- */
static double gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static const struct function {
  const char *name, *op;
  double (*ref)(double);
} functions[] = {{"erf", "Erf", erf}, {"Gelu", "Gelu", gelu}, {"tanh", "Tanh", tanh},
                 {"exp", "Exp", exp}, {"log", "Log", log},    {"sigmoid", "Sigmoid", sigmoid}};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };
/* 1 over the distance of neighbouring f32 numbers at an exact value. */
static double per_ulp(double want) {
  uint64_t bits;
  memcpy(&bits, &want, 8);
  const uint64_t e = bits >> 52 & 2047, least = 1023 - 126; /* of normal numbers */
  const uint64_t inverse = (uint64_t)(2 * 1023 + 23 - (e < least ? least : e)) << 52;
  memcpy(&want, &inverse, 8);
  return want;
}
/* Where the exact value is no f32, infinite or NaN, the result must be the C library's, rounded. */
static bool right_outside(double x, double y, double want, bool is_gelu) {
  if (isnan(x) || (is_gelu && isinf(x)) /* -inf * 0 */) return true;
  return isnan(want) ? isnan(y) : isinf(y) && (y > 0) == (want > 0);
}
static void measure(const struct function *f, const float *x, const float *y, const double *exact, double worst[2]) {
  const bool is_gelu = f->ref == gelu;
  for (int i = 0; i < CHUNK; i++) {
    const double want = exact[i], size = fabs(want), e = fabs((double)y[i] - want);
    if (!(size <= 0x1.ffffffp127)) {
      if (!right_outside((double)x[i], (double)y[i], want, is_gelu)) worst[0] = INFINITY;
      continue;
    }
    if (isinf(y[i]) && size > 0x1.fffffcp127) continue;
    const double ulp = e * per_ulp(want);
    if (size >= 0x1p-126 && !(is_gelu && x[i] < 0) && !(ulp <= worst[0])) worst[0] = ulp;
    if (size <= 1 && !(e <= worst[1])) worst[1] = e;
  }
}
/* One bit pattern of `step`, as compiled for this machine and for lesser ones. */
static void test_function(const struct function *f, uint64_t step) {
  enum { TARGETS = 3 };
  static const char *const targets[TARGETS] = {"host", "x86-64-v3", "x86-64"};
  static float x[CHUNK];
  static double exact[CHUNK];
  ek_module *code[TARGETS];
  ek_run *run[TARGETS] = {0};
  double worst[2] = {0};
  char text[400];
  snprintf(text, sizeof text,
           "graph \"f\" ir 8 opset 20 {\n  input x: f32[%d]\n  y: f32[%d] = %s(x) \"f\"\n  output y\n}\n", CHUNK, CHUNK,
           f->op);
  const subject w = graph(text, x, CHUNK);
  for (int t = 0; t < TARGETS; t++) {
    code[t] = compile(&w, targets[t], CODE);
    if (code[t]) run[t] = execute(code[t], &w);
  }
  for (uint64_t at = 0; at >> 32 == 0;) {
    for (int i = 0; i < CHUNK; i++, at += step) {
      const uint32_t bits = (uint32_t)at;
      memcpy(&x[i], &bits, 4);
      exact[i] = f->ref((double)x[i]);
    }
    for (int t = 0; t < TARGETS; t++) {
      if (!run[t]) continue;
      if (ek_run_execute(run[t])) stop(f->op);
      measure(f, x, ek_run_output_data(run[t], 0), exact, worst);
    }
  }
  for (int t = 0; t < TARGETS; t++) ek_module_close(code[t]);
  row r = {.in = FUNCTIONS, .ulp = worst[0], .error = worst[1]};
  snprintf(r.name, sizeof r.name, "%s", f->name);
  note(r);
}

/* ---- what adds up ---------------------------------------------------------------------------- */
static void test_sums(bool all) {
  static const struct {
    const char *name, *shape, *out, *node;
  } some[] = {{"sum", "%ld", "", "ReduceSum(x) {keepdims = 0}"},
              {"mean", "%ld", "", "ReduceMean(x) {keepdims = 0}"},
              {"sum of 4 columns", "%ld, 4", "4", "ReduceSum(x, axis) {keepdims = 0}"},
              {"L2 norm", "%ld", "", "ReduceL2(x) {keepdims = 0}"},
              {"softmax", "1, %ld", "1, %ld", "Softmax(x)"},
              {"layer norm", "1, %ld", "1, %ld", "LayerNormalization(x, one)"},
              {"RMS norm", "1, %ld", "1, %ld", "RMSNormalization(x, one)"}};
  for (int bits = 8; bits <= (all ? 20 : 16); bits += 4) {
    const long n = 1L << bits;
    float *x = malloc((size_t)n * 4 * sizeof *x);
    for (long i = 0; i < 4 * n; i++) x[i] = (float)((uint64_t)i * 2654435761u % 1000003) / 1000003;
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
      char text[1000], shape[40], out[40];
      snprintf(shape, sizeof shape, some[k].shape, n), snprintf(out, sizeof out, some[k].out, n);
      snprintf(
          text, sizeof text,
          "graph \"s\" ir 8 opset 23 {\n  input x: f32[%s]\n  const axis: i64[1] = [0]\n  const one: f32[1] = [1]\n"
          "  y: f32[%s] = %s \"s\"\n  output y\n}\n",
          shape, out, some[k].node);
      const subject w = graph(text, x, 4 * n);
      ek_module *exact = compile(&w, NULL, EXACT);
      row r = {.in = SUMS, .error = error_of(&w, CODE, exact, execute(exact, &w))};
      ek_module_close(exact);
      snprintf(r.name, sizeof r.name, "%s, 2^%d", some[k].name, bits);
      note(r);
    }
    free(x);
  }
}

/* ---- whole models ---------------------------------------------------------------------------- */
/* A model over the bound gets a star where plain sums err as much: one that rounds by itself or magnifies rounding. */
static void whole_model(const char *name, const subject *w) {
  ek_module *exact = compile(w, NULL, EXACT);
  ek_run *want = execute(exact, w);
  row r = {.in = MODELS, .error = error_of(w, CODE, exact, want)};
  snprintf(r.name, sizeof r.name, "%s", name);
  if (r.error > MOST) {
    r.strict = error_of(w, STRICT_CODE, exact, want), r.moved = moved_by_inputs(w, exact, want);
    if (r.error <= 2 * r.strict) r.in = STARRED;
  }
  if (r.error >= 0) note(r); /* else it has no floats */
  ek_module_close(exact);
}
/* The model in a file, if there is a reference beside it. */
static void stored_model(const char *path) {
  char npz[1000], name[80];
  const char *from = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  const int stem = (int)strcspn(from, "."), upto = (int)(from - path) + stem;
  subject w = {.path = path};
  ek_arrays *in;
  snprintf(npz, sizeof npz, "%.*s.npz", upto, path);
  if (access(npz, R_OK)) snprintf(npz, sizeof npz, "%.*s.ref.npz", upto, path);
  if (access(npz, R_OK)) return;
  if (ek_arrays_load(session, npz, &in)) stop(npz);
  for (; w.n < MAX_INPUTS; w.n++) {
    snprintf(name, sizeof name, "in_%d", w.n);
    if (ek_arrays_find(in, name, &w.in[w.n])) break;
  }
  snprintf(name, sizeof name, "%.*s", stem, from);
  whole_model(name, &w);
  ek_arrays_close(in);
}
static network net;
static char net_name[80];
static subject numbered_network(int k) {
  static float x[MAX_CHANNELS * LINE_PLACES];
  const int64_t n = sizeof x / sizeof *x;
  random_network(&net, k);
  snprintf(net_name, sizeof net_name, "network %d: %d-D, %d layers", k, 1 + net.plane, net.layers);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(below(&net, 2001) - 1000) / 1000;
  return graph(net.text, x, n);
}
static int print_networks(int from, int to) {
  printf("network\terror\twith plain sums\twhen inputs move by an ulp\n");
  for (int k = from; k < to; k++) {
    const subject w = numbered_network(k);
    ek_module *exact = compile(&w, NULL, EXACT);
    ek_run *want = execute(exact, &w);
    printf("%s\t%.3e\t%.3e\t%.3e\n", net_name, error_of(&w, CODE, exact, want), error_of(&w, STRICT_CODE, exact, want),
           moved_by_inputs(&w, exact, want));
    fflush(stdout);
    ek_module_close(exact);
  }
  return 0;
}

/* ---- the page -------------------------------------------------------------------------------- */
static const char head[] =
    "# Accuracy\n"
    "\n"
    "How far are the results of compiled code from exact ones? The tables below are written by a test, and `make\n"
    "check-deep` measures most of it again and fails when an error has become larger (`make test` measures a part).\n"
    "\n"
    "All figures are for f32, one thread and the default `--accuracy`, unless said. Sums, norms and models are\n"
    "compiled for AVX-512 and for AVX2 (targets `x86-64-v4` and `x86-64-v3`): the figures are the larger ones. An ulp\n"
    "is the distance of neighbouring f32 numbers at the exact value: a correctly rounded result is at most 0.5 ulp\n"
    "away.\n";
static const char *const heads[SECTIONS] = {
    "\n"
    "## Functions\n"
    "\n"
    "Largest error over all 2^32 values of the argument, infinities and NaN among them, compared with the C library's\n"
    "function in f64. The error in ulp is that where the exact value is a normal number, the absolute error that "
    "where\n"
    "the exact value is at most 1. Each function is compiled for this machine (AVX-512), for AVX2 and for SSE2; the\n"
    "figures are the largest of the three. The tests take every 509th bit pattern.\n"
    "\n"
    "For Gelu, ulp are those for x >= 0. Below 0, `x*(1 + erf(x/sqrt 2))/2` keeps the absolute error of 1 + erf, some\n"
    "3e-7 times |x|/2, and is 0 from about -5.6 on. A form with erfc would take an exponential more.\n"
    "\n"
    "| function | error in ulp | absolute error |\n|---|---|---|\n",
    "\n"
    "## Sums and norms\n"
    "\n"
    "Of 2^8 to 2^20 terms between 0 and 1. The reference is Einkorn's evaluator: it interprets the operators'\n"
    "definitions with every float in f64 (`einkorn run MODEL --eval --promote f64`). For 74 models the tests\n"
    "compare the evaluator with onnx.reference, which computes in f64 there, too: they agree within 1e-6.\n"
    "The error is the largest one of an output's elements divided by the largest value of that output.\n"
    "\n"
    "| operator, number of terms | error relative to the largest value |\n|---|---|\n",
    "\n"
    "## Whole models\n"
    "\n"
    "Compared with the same reference, and errors divided by the largest value in the same way. By default they are "
    "to\n"
    "be at most 1e-4. The networks with a number are random convolutional networks of 10 to 60 layers, on a line "
    "(1-D)\n"
    "or in a plane (2-D), with 16 to 512 channels; with windows of 1 to 15, dilated, strided, transposed, depthwise "
    "and\n"
    "grouped ones, several activations, batch normalisation, residual sums and concatenations\n"
    "(`tests/tools/networks.h`). No constant of the compiler was chosen by them. Of 200 more, which `accuracy -r 3000\n"
    "3200` measures, none erred by more than 1e-5. The others are the models of `tests/models` and some that others\n"
    "published.\n",
    "\n"
    "These err by more, with plain sums (`--accuracy strict`) as with the default, and do not count: the model itself\n"
    "loses digits. `cast_types` rounds to bf16, which the reference does not do. `norms_both_ways` puts out the\n"
    "difference of two formulas of Gelu, whose values are up to 5,000 times as large. `magika_v3_3` computes a "
    "variance\n"
    "as E[x^2] - E[x]^2, 0.711 - 0.710; onnxruntime errs by as much. The last column says how far the exact output\n"
    "moves when each f32 of the inputs moves by one ulp: a network where that is over 1e-5 magnifies each rounding.\n"
    "\n"
    "| model | error | with plain sums | when inputs move by one ulp |\n|---|---|---|---|\n"};
static double up(double x) { /* to two digits */
  if (!(x > 0) || isinf(x)) return x > 0 ? x : 0;
  const double unit = pow(10, floor(log10(x)) - 1);
  return ceil(x / unit * (1 - 1e-12)) * unit;
}
static void write_row(FILE *f, const row *r) {
  fprintf(f, "| %s | ", r->name);
  if (r->in == FUNCTIONS) fprintf(f, "%.2g | ", up(r->ulp));
  fprintf(f, "%.1e |", up(r->error));
  if (r->in == STARRED) fprintf(f, " %.1e | %.1e |", r->strict, r->moved);
  fputc('\n', f);
}
static bool write_page(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  fputs(head, f);
  for (section s = 0; s < SECTIONS; s++) {
    int n = 0;
    for (int i = 0; i < n_rows; i++) n += rows[i].in == s;
    if (!n) continue;
    fputs(heads[s], f);
    if (s == MODELS) fprintf(f, "\n%d models are within the bound:\n\n| model | error |\n|---|---|\n", n);
    for (int i = 0; i < n_rows; i++)
      if (rows[i].in == s) write_row(f, &rows[i]);
  }
  return fclose(f) == 0;
}
/* The errors that the page says of a row; false: it has no such row. */
static bool read_row(FILE *page, const char *name, section in, double *ulp, double *error) {
  char line[400];
  const size_t n = strlen(name);
  rewind(page);
  while (fgets(line, sizeof line, page)) {
    if (strncmp(line, "| ", 2) != 0 || strncmp(line + 2, name, n) != 0 || strncmp(line + 2 + n, " | ", 3) != 0)
      continue;
    char *at = line + n + 5;
    *ulp = in == FUNCTIONS ? strtod(at, &at) : 0;
    *error = strtod(at + strspn(at, " |"), NULL);
    return true;
  }
  return false;
}
static void compare(FILE *page) {
  for (int i = 0; i < n_rows; i++) {
    const row *r = &rows[i];
    double ulp, error;
    if (!read_row(page, r->name, r->in, &ulp, &error))
      printf("FAIL %s: error %.3g; the page does not say it\n", r->name, r->error), failed++;
    else if (r->ulp <= ulp && r->error <= error)
      passed++;
    else
      printf("FAIL %s: %.3g ulp, error %.3g; the page says %.3g, %.3g\n", r->name, r->ulp, r->error, ulp, error),
          failed++;
  }
}
/* The functions as the page has them. */
static void keep_functions(FILE *page) {
  for (size_t k = 0; k < N_FUNCTIONS; k++) {
    row r = {.in = FUNCTIONS};
    snprintf(r.name, sizeof r.name, "%s", functions[k].name);
    if (read_row(page, r.name, FUNCTIONS, &r.ulp, &r.error)) note(r);
  }
}
int main(int argc, char **argv) {
  bool all = false, every = false, writes = false;
  int i = 1;
  if (!(session = ek_session_create())) return 2;
  if (argc == 4 && !strcmp(argv[1], "-r")) return print_networks(atoi(argv[2]), atoi(argv[3]));
  for (; i < argc && argv[i][0] == '-'; i++)
    all |= argv[i][1] == 'a', every |= argv[i][1] == 'f', writes |= argv[i][1] == 'u';
  if (i == argc) return 2;
  const char *path = argv[i++];
  FILE *page = fopen(path, "r");
  if (!page) printf("FAIL %s cannot be read\n", path), failed++;
  all |= writes;
  if (writes && !every && page)
    keep_functions(page);
  else
    for (size_t k = 0; k < N_FUNCTIONS; k++) test_function(&functions[k], every ? 1 : all ? STEP : QUICK_STEP);
  test_sums(all);
  for (int k = 0; k < (writes ? PAGE_NETWORKS : all ? NETWORKS : QUICK_NETWORKS); k++) {
    const subject w = numbered_network(k);
    whole_model(net_name, &w);
  }
  for (; i < argc; i++) stored_model(argv[i]);
  for (int k = 0; k < n_rows; k++)
    if (rows[k].in == MODELS && !(rows[k].error <= MOST))
      printf("FAIL %s: error %.3g is over %g, with plain sums %.3g\n", rows[k].name, rows[k].error, MOST,
             rows[k].strict),
          failed++;
  if (page && !writes) compare(page);
  if (page) fclose(page);
  if (writes && !write_page(path)) printf("FAIL %s cannot be written\n", path), failed++;
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  ek_session_destroy(session);
  return failed != 0;
}
