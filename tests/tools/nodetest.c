/* nodetest: runs the standard's backend tests, through the evaluator or compiled.
 *
 *   nodetest [-v] [-e] [-c] [-j JOBS] [-k WORD] FOLDER...
 *
 * Each FOLDER holds model.onnx and test_data_set_0/input_N.pb, output_N.pb. The model is imported, elaborated and evaluated without any pass, or with -c optimised, scheduled, compiled in this process and run on 2
 * threads; outputs are compared at the standard's tolerance (rtol 1e-3, atol 1e-7, bfloat16 2^-6). Small inputs (at most 64 elements and rank at most 1, or integers) are compiled in as constants, since the tests give
 * axes, shapes and scales as inputs. One line per failure, then a summary. -v prints the module of each test, -e leaves out the expanded variants, -k keeps the folders whose name holds WORD. The tests are shared out
 * among JOBS processes; one that crashes costs its test only. The exit status is 0 if all passed.
 */
#include "driver/pipeline.h"
#include "onnx/onnx.h"
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct outcome {
  bool ok;
  char text[600];
} outcome;
static bool verbose, compiled;

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

/* ---- compiled: everything after elaboration, as the driver does it ---- */
static uint8_t *room(ctx *c, size_t bytes) { return (uint8_t *)(((uintptr_t)arena_alloc(ctx_arena(c), bytes + 128) + 63) & ~(uintptr_t)63); }
static int64_t dims_before(emodule *m, const io *v, uint32_t i) {
  int64_t n = 0;
  for (uint32_t k = 0; k < i; k++) n += xt(m, v[k].t)->rank;
  return n;
}
static bool compiled_run(ctx *c, pipeline *p, jit *j, const ndarray *in, ndarray *out, const char **why) {
  emodule *m = p->m;
  arena *a = p->a;
  ek_rt_main plan = (ek_rt_main)jit_find(j, p->p->plan_fn->name), run = (ek_rt_main)jit_find(j, p->p->run_fn->name);
  uint8_t *weights = room(c, p->p->weight_bytes);
  pipe_weights(p, weights);
  const void **inputs = NEWN(a, const void *, m->inputs.n + 1);
  void **outputs = NEWN(a, void *, m->outputs.n + 1);
  int64_t *in_dims = NEWN(a, int64_t, dims_before(m, m->inputs.v, m->inputs.n) + 1), *out_dims = NEWN(a, int64_t, dims_before(m, m->outputs.v, m->outputs.n) + 1);
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    uint8_t *d = room(c, in[i].bytes);
    memcpy(d, in[i].data, in[i].bytes);
    inputs[i] = d;
    memcpy(in_dims + dims_before(m, m->inputs.v, i), in[i].dims, in[i].rank * sizeof *in_dims);
  }
  ek_rt_call call = {.in = inputs, .out = outputs, .in_dims = in_dims, .out_dims = out_dims, .weights = weights, .parallel = ek_rt_parallel, .threads = 2};
  *why = "no reason given";
  if (plan(&call)) return *why = call.message ? call.message : *why, false;
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    const tensor *t = xt(m, m->outputs.v[i].t);
    int64_t bytes = et_bytes(t->type);
    for (uint32_t k = 0; k < t->rank; k++) bytes *= out_dims[dims_before(m, m->outputs.v, i) + k];
    outputs[i] = room(c, (size_t)bytes);
  }
  call.arena = room(c, (size_t)call.arena_bytes);
  call.pool = ek_rt_pool_create(2);
  int64_t rc = run(&call);
  ek_rt_pool_destroy(call.pool);
  if (rc) return *why = call.message ? call.message : *why, false;
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    const tensor *t = xt(m, m->outputs.v[i].t);
    int64_t n = 0;
    out[i] = (ndarray){.type = t->type, .rank = t->rank, .data = outputs[i]};
    memcpy(out[i].dims, out_dims + dims_before(m, m->outputs.v, i), t->rank * sizeof *out_dims);
    if (nd_count(&out[i], &n)) out[i].bytes = (size_t)n * et_bytes(t->type);
  }
  return true;
}
static void compile_and_run(ctx *c, graph *g, emodule *m, const ndarray *in, ndarray *out) {
  pipe_opts po = {.level = 3, .compile_threads = 1};
  pipeline *p = pipe_new(c, &po);
  p->g = g, p->m = m;
  const char *why;
  for (uint32_t i = 0; i < m->inputs.n + m->outputs.n; i++)
    if (et_kind(xt(m, (i < m->inputs.n ? m->inputs.v[i] : m->outputs.v[i - m->inputs.n]).t)->type) == K_STR) ctx_fail(c, E_UNSUPPORTED, "strings");
  pipe_optimise(p);
  pipe_program(p);
  jit *volatile j = pipe_jit(p);
  CTX_TRY(c) {
    if (!compiled_run(c, p, j, in, out, &why)) ctx_fail(c, E_FAILED, "%s", why);
  }
  CTX_CATCH {
    jit_free(j);
    ctx_unwind(c);
  }
  jit_free(j);
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
  ndarray *got = NEWN(a, ndarray, m->outputs.n + 1);
  if (compiled) compile_and_run(c, g, m, bound, got);
  else {
    evaluation *v = expr_eval_new(m, a, 1);
    for (uint32_t i = 0; i < kept; i++) expr_eval_input(v, m->inputs.v[i].t, &bound[i]);
    expr_eval_run(v);
    for (uint32_t i = 0; i < m->outputs.n; i++) got[i] = *expr_eval_get(v, m->outputs.v[i].t);
  }
  o->ok = true;
  for (uint32_t i = 0; i < m->outputs.n && o->ok; i++) {
    ndarray want;
    const char *name;
    if (!load(c, folder, "output", i, &want, &name)) {
      snprintf(o->text, sizeof o->text, "output %s has no data", m->outputs.v[i].name);
      o->ok = false;
      return;
    }
    compare(m->outputs.v[i].name, &got[i], &want, o);
  }
}
static void run(const char *folder, outcome *o) {
  ctx *c = ctx_new();
  CTX_TRY(c) run_one(c, folder, o);
  CTX_CATCH {
    o->ok = false;
    snprintf(o->text, sizeof o->text, "%s", first_error(c));
  }
  ctx_free(c);
}

/* ---- sharing out: processes take the next test from a common counter; what they find lies in common memory ---- */
typedef struct board { atomic_uint next; outcome all[]; } board;
static void work(board *b, char **folders, uint32_t n, atomic_uint *mine) {
  for (uint32_t i; (i = atomic_fetch_add(&b->next, 1)) < n;) {
    atomic_store(mine, i);
    alarm(60);
    run(folders[i], &b->all[i]);
    fflush(stdout);
  }
  atomic_store(mine, n);
}
static const char *name_of(const char *folder) { return strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder; }
int main(int argc, char **argv) {
  bool base_only = false;
  const char *word = "";
  int opt, jobs = 1;
  while ((opt = getopt(argc, argv, "vecj:k:")) != -1) {
    if (opt == 'v') verbose = true;
    else if (opt == 'e') base_only = true;
    else if (opt == 'c') compiled = true;
    else if (opt == 'j') jobs = atoi(optarg);
    else if (opt == 'k') word = optarg;
    else return 2;
  }
  if (jobs < 1 || jobs > 64) jobs = 1;
  uint32_t n = 0, passed = 0;
  char **folders = argv + optind;
  for (int i = optind; i < argc; i++)
    if (strstr(name_of(argv[i]), word) && !(base_only && strstr(name_of(argv[i]), "_expanded"))) folders[n++] = argv[i];
  size_t bytes = sizeof(board) + (n + 1) * sizeof(outcome);
  board *b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  atomic_uint *at = mmap(NULL, 64 * sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED || at == MAP_FAILED) return perror("mmap"), 2;
  pid_t pid[64] = {0};
  for (int live = 0, k = 0; k < jobs || live;) {
    if (k < jobs) { /* a worker in place k */
      fflush(NULL);
      if (!(pid[k] = fork())) {
        work(b, folders, n, &at[k]);
        _exit(0);
      }
      live++;
      for (k++; k < jobs && pid[k]; k++) continue;
      continue;
    }
    int status;
    pid_t p = wait(&status);
    for (int i = 0; i < jobs; i++) {
      if (pid[i] != p) continue;
      pid[i] = 0, live--;
      if (!WIFSIGNALED(status)) continue;
      outcome *o = &b->all[atomic_load(&at[i])];
      o->ok = false;
      snprintf(o->text, sizeof o->text, "%s", WTERMSIG(status) == SIGALRM ? "takes too long" : strsignal(WTERMSIG(status)));
      k = i; /* again */
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (b->all[i].ok) passed++;
    else printf("FAIL %s: %s\n", name_of(folders[i]), b->all[i].text);
  printf("%u passed, %u failed\n", passed, n - passed);
  return passed != n;
}
