/* nodetest: runs the standard's backend tests through the evaluator.
 *
 *   nodetest [-v] [-e] [-k WORD] FOLDER...
 *
 * Each FOLDER holds model.onnx and test_data_set_0/input_N.pb, output_N.pb. The model is imported, elaborated and evaluated without any pass; outputs are compared at the standard's tolerance (rtol
 * 1e-3, atol 1e-7, bfloat16 2^-6). Small inputs (at most 64 elements and rank at most 1, or integers) are compiled in as constants, since the tests give axes, shapes and scales as inputs. One line
 * per failure, then a summary. -v prints the module of each test, -e leaves out the expanded variants, -k keeps the folders whose name holds WORD. The exit status is 0 if all passed.
 */
#include "driver/lower.h"
#include "onnx/onnx.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct outcome {
  bool ok;
  char text[600];
} outcome;
static bool verbose;

static const char *first_error(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) return d->pos.file ? arena_fmt(ctx_arena(c), "%s:%u:%u: %s", d->pos.file, d->pos.line, d->pos.col, d->text) : d->text;
  return "no reason given";
}
static bool load(ctx *c, const char *folder, const char *kind, uint32_t i, ndarray *out, const char **name) {
  const char *path = arena_fmt(ctx_arena(c), "%s/test_data_set_0/%s_%u.pb", folder, kind, i);
  *name = NULL;
  return file_exists(path) && onnx_tensor_file(c, path, out, name);
}

/* Binds a small input to its contents at compile time. */
static bool is_constant(const ndarray *d) {
  int64_t n;
  if (!nd_count(d, &n) || n > 64 || et_kind(d->type) == K_STR) return false;
  return d->rank <= 1 || et_kind(d->type) == K_INT || et_kind(d->type) == K_UINT;
}

static bool close_enough(etype t, scalar got, scalar want) {
  if (et_kind(t) != K_FLOAT) return got.i == want.i;
  double rtol = t == ET_BF16 ? 1.0 / 64 : 1e-3, atol = 1e-7;
  if (isnan(want.f)) return isnan(got.f);
  return got.f == want.f || fabs(got.f - want.f) <= atol + rtol * fabs(want.f);
}
static void compare(const char *name, const ndarray *got, const ndarray *want, outcome *o) {
  int64_t n, bad = 0;
  char *at = o->text;
  size_t room = sizeof o->text;
  o->ok = false;
  if (got->type != want->type) {
    snprintf(at, room, "%s is %s, %s expected", name, et_name(got->type), et_name(want->type));
    return;
  }
  bool same = got->rank == want->rank;
  for (uint32_t i = 0; same && i < got->rank; i++) same = got->dims[i] == want->dims[i];
  if (!same) {
    int k = snprintf(at, room, "%s has shape [", name);
    for (int side = 0; side < 2; side++) {
      const ndarray *d = side ? want : got;
      for (uint32_t i = 0; i < d->rank; i++) k += snprintf(at + k, room - (size_t)k, "%s%lld", i ? ", " : "", (long long)d->dims[i]);
      k += snprintf(at + k, room - (size_t)k, side ? "] expected" : "], [");
    }
    return;
  }
  if (!nd_count(want, &n)) return;
  uint32_t w = et_bytes(want->type);
  for (int64_t i = 0; i < n; i++) {
    scalar a = et_load(got->type, (const uint8_t *)got->data + i * w), b = et_load(want->type, (const uint8_t *)want->data + i * w);
    if (close_enough(want->type, a, b) || bad++) continue;
    if (et_kind(want->type) == K_FLOAT)
      snprintf(at, room, "%s[%lld] is %g, %g expected", name, (long long)i, a.f, b.f);
    else
      snprintf(at, room, "%s[%lld] is %lld, %lld expected", name, (long long)i, (long long)a.i, (long long)b.i);
  }
  if (bad)
    snprintf(at + strlen(at), room - strlen(at), " (%lld of %lld differ)", (long long)bad, (long long)n);
  else
    o->ok = true;
}

static void run_one(ctx *c, const char *folder, outcome *o) {
  arena *a = ctx_arena(c);
  graph *g = onnx_load_file(c, path_join(a, folder, "model.onnx"));
  if (!g) {
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
    return;
  }
  uint32_t n = g->inputs.n, kept = 0;
  ndarray *data = NEWN(a, ndarray, n + 1);
  ndarray *bound = NEWN(a, ndarray, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    value *v = g->inputs.v[i];
    const char *name;
    if (!load(c, folder, "input", i, &data[i], &name)) {
      snprintf(o->text, sizeof o->text, "input %s has no data: %s", v->source, first_error(c));
      return;
    }
    if (is_constant(&data[i])) {
      sz *dims = NEWN(a, sz, data[i].rank + 1);
      for (uint32_t d = 0; d < data[i].rank; d++) dims[d] = sym_int(c, data[i].dims[d]);
      v->data = &data[i];
      v->type = data[i].type;
      v->ranked = true;
      v->rank = data[i].rank;
      v->dims = dims;
      continue;
    }
    bound[kept] = data[i];
    g->inputs.v[kept++] = v;
  }
  g->inputs.n = kept;
  oplib *lib = notation_lib(c);
  if (!notation_add_builtin(lib)) {
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
    return;
  }
  emodule *m = lower_graph(g, lib, NULL, 0);
  if (!m) {
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
    return;
  }
  if (verbose) {
    sbuf b = sbuf_new(a);
    expr_print(m, &b, (print_opts){0});
    puts(b.s);
  }
  if (!expr_verify(m, "elaboration")) {
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
    return;
  }
  evaluation *v = expr_eval_new(m, a, 1);
  for (uint32_t i = 0; i < kept; i++) expr_eval_input(v, m->inputs.v[i].t, &bound[i]);
  expr_eval_run(v);
  o->ok = true;
  for (uint32_t i = 0; i < m->outputs.n && o->ok; i++) {
    ndarray want;
    const char *name;
    if (!load(c, folder, "output", i, &want, &name)) {
      snprintf(o->text, sizeof o->text, "output %s has no data", m->outputs.v[i].name);
      o->ok = false;
      return;
    }
    compare(m->outputs.v[i].name, expr_eval_get(v, m->outputs.v[i].t), &want, o);
  }
}
static outcome run(const char *folder) {
  outcome *o = calloc(1, sizeof *o), r;
  ctx *c = ctx_new();
  CTX_TRY(c) run_one(c, folder, o);
  CTX_CATCH {
    o->ok = false;
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
  }
  ctx_free(c);
  r = *o;
  free(o);
  return r;
}

int main(int argc, char **argv) {
  uint32_t passed = 0, failed = 0;
  bool base_only = false;
  const char *word = "";
  for (int i = 1; i < argc; i++) {
    const char *f = argv[i];
    if (!strcmp(f, "-v"))
      verbose = true;
    else if (!strcmp(f, "-e"))
      base_only = true;
    else if (!strcmp(f, "-k") && i + 1 < argc)
      word = argv[++i];
    else {
      const char *name = strrchr(f, '/') ? strrchr(f, '/') + 1 : f;
      if (!strstr(name, word) || (base_only && strstr(name, "_expanded"))) continue;
      outcome o = run(f);
      if (o.ok)
        passed++;
      else {
        failed++;
        printf("FAIL %s: %s\n", name, o.text);
      }
      fflush(stdout);
    }
  }
  printf("%u passed, %u failed\n", passed, failed);
  return failed != 0;
}
