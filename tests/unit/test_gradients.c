/* Gradients of the standard's operators against PyTorch's, tests/gradients/references.dat, as compiled code.
 * tests/tools/gradient_references.py writes the file, says what its lines mean, and makes the same inputs. */
#include "einkorn/einkorn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the standard headers */
#include <cmocka.h>

enum { LINE = 1 << 14, ARRAYS = 12, MOST = 512, RANK = 8 };
#define TOLERANCE 1e-9

/* ---- one case ---- */
typedef struct array {
  char name[16];        /* name in the graph */
  bool result;          /* a result: these are its weights */
  int rank;             /* number of axes */
  int64_t dims[RANK];   /* size of each axis */
  double element[MOST]; /* contents */
  double grad[MOST];    /* the derivative by it, as PyTorch has it */
  int n, grads;         /* how many of each */
} array;
typedef struct reference {
  char name[256];    /* the operator and its attributes */
  char text[LINE];   /* statements of the graph */
  array all[ARRAYS]; /* inputs, then results */
  int n;             /* how many */
} reference;

static double element(uint64_t seed, uint64_t i) { /* as in gradient_references.py */
  uint64_t z = (seed * 1000003 + i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (double)((z ^ z >> 31) >> 44) / (1 << 20);
}
static array *add(reference *r, const char *name, char *sizes, double low, double high, uint64_t seed) {
  assert_true(r->n < ARRAYS);
  array *a = &r->all[r->n++];
  char *rest = NULL;
  *a = (array){.n = 1};
  snprintf(a->name, sizeof a->name, "%s", name);
  for (char *s = strtok_r(sizes, "x-", &rest); s; s = strtok_r(NULL, "x-", &rest)) {
    a->dims[a->rank++] = atoi(s);
    a->n *= atoi(s);
  }
  assert_true(a->n <= MOST);
  for (int i = 0; i < a->n; i++) a->element[i] = low + (high - low) * element(seed, (uint64_t)i);
  return a;
}
static void read_line(reference *r, char *line) {
  char *rest = NULL, *kind = strtok_r(line, " \n", &rest), *word[5] = {0};
  if (!strcmp(kind, "text")) {
    strncat(r->text, rest, sizeof r->text - strlen(r->text) - 1);
    return;
  }
  const int words = !strcmp(kind, "in") ? 5 : !strcmp(kind, "out") ? 3 : 1;
  for (int i = 0; i < words; i++) assert_non_null(word[i] = strtok_r(NULL, " \n", &rest));
  if (words == 5)
    add(r, word[0], word[1], strtod(word[2], NULL), strtod(word[3], NULL), strtoull(word[4], NULL, 10));
  else if (words == 3)
    add(r, word[0], word[1], -1, 1, strtoull(word[2], NULL, 10))->result = true;
  else
    for (int i = 0; i < r->n; i++)
      if (!strcmp(r->all[i].name, word[0]))
        for (char *w; (w = strtok_r(NULL, " \n", &rest));) r->all[i].grad[r->all[i].grads++] = strtod(w, NULL);
}
/* The next case; false: there is none. `line` holds its first line, then that of the one behind it. */
static bool next(FILE *f, char *line, reference *r) {
  while (strncmp(line, "case ", 5) != 0)
    if (!fgets(line, LINE, f)) return false;
  *r = (reference){0};
  snprintf(r->name, sizeof r->name, "%.*s", (int)strcspn(line + 5, "\n"), line + 5);
  while ((fgets(line, LINE, f) || (*line = 0)) && strncmp(line, "case ", 5) != 0) read_line(r, line);
  return true;
}

/* ---- its model ---- */
static char *put(char *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *put(char *p, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  p += vsprintf(p, format, ap);
  va_end(ap);
  return p;
}
/* The graph of the case; its results, weighted and summed; the derivatives of the sum by all inputs, in their order. */
static void model(const reference *r, char *p) {
  char sum[32] = "none", by[256] = "", names[256] = "", outs[256] = "", *b = by, *n = names, *o = outs;
  p = put(p, "graph \"case\" ir 13 opset 26 {\n");
  for (int i = 0; i < r->n; i++) {
    const array *a = &r->all[i];
    p = put(p, "input %s%s: f64[", a->name, a->result ? "_weight" : "");
    for (int k = 0; k < a->rank; k++) p = put(p, "%s%d", k ? ", " : "", (int)a->dims[k]);
    p = put(p, "]\n");
  }
  p = put(p, "%sconst none: f64[] = [0]\n", r->text);
  for (int i = 0; i < r->n; i++) {
    const char *name = r->all[i].name;
    if (!r->all[i].result) {
      b = put(b, "%s%s", i ? ", " : "", name), n = put(n, "%s\"%s\"", i ? ", " : "", name);
      o = put(o, "%sd_%s", i ? ", " : "", name);
      continue;
    }
    p = put(p, "%s_part = Mul(%s, %s_weight)\n%s_sum = ReduceSum(%s_part) {keepdims = 0}\n", name, name, name, name,
            name);
    p = put(p, "%s_total = Add(%s, %s_sum)\n", name, sum, name);
    snprintf(sum, sizeof sum, "%s_total", name);
  }
  p = put(p, "%s = \"ai.onnx.preview.training\"::Gradient(%s, %s) {xs = strings [%s], y = \"%s\"}\n", outs, by, sum,
          names, sum);
  for (int i = 0; i < r->n; i++)
    if (!r->all[i].result) p = put(p, "output d_%s\n", r->all[i].name);
  put(p, "}\n");
}
/* False, with a line of its own, where something is wrong. */
static bool agrees(const reference *r) {
  static char text[2 * LINE];
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_run *run;
  model(r, text);
  bool ok = !ek_load_memory(s, text, strlen(text), "case", &m) && !ek_compile(m, NULL, &code) &&
            !ek_run_create(code, 1, &run);
  for (int i = 0; ok && i < r->n; i++) ok = !ek_run_bind_input(run, i, r->all[i].element);
  ok = ok && !ek_run_execute(run);
  if (!ok) printf("%s: %s\n%s", r->name, ek_message(s), text);
  for (int i = 0; ok && i < r->n; i++) {
    const array *a = &r->all[i];
    const double *got = a->result ? NULL : ek_run_output_data(run, i);
    for (int k = 0; ok && k < a->grads; k++)
      if (!(fabs(got[k] - a->grad[k]) <= TOLERANCE * (1 + fabs(a->grad[k])))) {
        printf("%s: derivative %d by %s is %.12g instead of %.12g\n", r->name, k, a->name, got[k], a->grad[k]);
        ok = false;
      }
  }
  ek_session_destroy(s);
  return ok;
}

static void references(void **state) {
  static reference r;
  static char line[LINE];
  FILE *f = fopen(EK_SOURCE_DIR "/tests/gradients/references.dat", "r");
  int cases = 0, wrong = 0;
  (void)state;
  assert_non_null(f);
  for (; next(f, line, &r); cases++) wrong += !agrees(&r);
  fclose(f);
  assert_int_equal(wrong, 0);
  assert_true(cases >= 200);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(references)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
