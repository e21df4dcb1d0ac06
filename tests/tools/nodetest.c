/* nodetest: runs the standard's backend tests, through the evaluator or compiled.
 *
 *   nodetest [-v] [-e] [-c | -C] [-n | -a] [-b] [-j JOBS] [-k WORD] [-l LIST] FOLDER...
 *
 * Each FOLDER holds model.onnx and test_data_set_0/input_N.pb, output_N.pb. The model is imported, elaborated and
 * evaluated without any pass, or with -c optimised, scheduled, compiled in this process and run on 2 threads, or with
 * -C saved as C source, which the C compiler makes a library of under its strictest warnings; outputs are compared at
 * the standard's tolerance (rtol 1e-3, atol 1e-7, bfloat16 2^-6). -n: the pass that computes constants is left out, so
 * the evaluator is never called (that is counted: the linker puts a counter around its two doors); -a: for every second
 * test. All inputs are given at run time, if the model compiles so; else small inputs (at most 64 elements and rank at
 * most 1, or integers) are compiled in as constants, since the tests give axes, shapes and scales as inputs; -b lists
 * those. One line per failure, then what the run was like and a summary. -v prints the module of each test, -e leaves
 * out the expanded variants, -k keeps the folders whose name holds WORD. -l: a list of expected failures
 * (tests/node_failures.txt); a test that is on it and passes is an error. Tensors of strings are given and taken as
 * bytes, sequences as their tensors. The tests are shared out among JOBS processes; one that crashes costs its test
 * only. The exit status is 0 if all went as expected.
 */
#include "eval/eval.h"
#include "codegen/c/c.h"
#include "driver/driver.h"
#include "onnx/onnx.h"
#include <dlfcn.h>
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
  bool ok, ran;         /* ran: compiled code gave the results */
  uint32_t bound;       /* inputs compiled in */
  uint32_t evaluations; /* cases that the evaluator ran, while compiling and running */
  float compile_ms;
  char text[600], why_bound[200];
} outcome;
static bool as_source, verbose, compiled, no_fold, tell_bound, alternate;

/* ---- the evaluator's doors, counted ---------------------------------------------------------- */
static uint32_t evaluations;
evaluation *__real_expr_eval_new(emodule *m, arena *a, uint32_t threads);
evaluation *__wrap_expr_eval_new(emodule *m, arena *a, uint32_t threads);
bool __real_expr_eval_stage(emodule *m, uint32_t s, arena *a, ndarray *out);
bool __wrap_expr_eval_stage(emodule *m, uint32_t s, arena *a, ndarray *out);
evaluation *__wrap_expr_eval_new(emodule *m, arena *a, uint32_t threads) {
  evaluations++;
  return __real_expr_eval_new(m, a, threads);
}
bool __wrap_expr_eval_stage(emodule *m, uint32_t s, arena *a, ndarray *out) {
  evaluations++;
  return __real_expr_eval_stage(m, s, a, out);
}

static const char *first_error(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR)
      return d->pos.file ? arena_fmt(ctx_arena(c), "%s:%u:%u: %s", d->pos.file, d->pos.line, d->pos.col, d->text)
                         : d->text;
  return "no reason given";
}
static bool load(ctx *c, const char *folder, const char *kind, uint32_t i, value_kind as, const ndarray **out,
                 int64_t *n) {
  const char *path = arena_fmt(ctx_arena(c), "%s/test_data_set_0/%s_%u.pb", folder, kind, i);
  return file_exists(path) && onnx_value_file(c, path, as, out, n);
}

/* Binds a small input to its contents at compile time. */
static bool is_constant(const ndarray *d) {
  int64_t n;
  if (!nd_count(d, &n) || n > 64) return false;
  return d->rank <= 1 || et_kind(d->type) == K_INT || et_kind(d->type) == K_UINT;
}

static bool close_enough(etype t, scalar got, scalar want) {
  if (et_kind(t) != K_FLOAT) return got.i == want.i;
  double rtol = t == ET_BF16 ? 1.0 / 64 : 1e-3, atol = 1e-7;
  if (isnan(want.f)) return isnan(got.f);
  return got.f == want.f || fabs(got.f - want.f) <= atol + rtol * fabs(want.f);
}
/* Strings come as bytes with zeros behind (notation.h). */
static void compare_text(const char *name, const ndarray *got, const ndarray *want, outcome *o) {
  int64_t n, bad = 0, width = got->rank ? got->dims[got->rank - 1] : 0;
  bool same = got->type == ET_U8 && got->rank == want->rank + 1;
  for (uint32_t i = 0; same && i < want->rank; i++) same = got->dims[i] == want->dims[i];
  snprintf(o->text, sizeof o->text, "%s has another type or shape than the strings expected", name);
  o->ok = false;
  if (!same || !nd_count(want, &n)) return;
  for (int64_t i = 0; i < n; i++) {
    const bytes *s = (const bytes *)want->data + i;
    const char *g = (const char *)got->data + i * width;
    size_t len = strnlen(g, (size_t)width);
    if (len == s->n && (!len || !memcmp(g, s->p, len))) continue;
    if (!bad++)
      snprintf(o->text, sizeof o->text, "%s[%lld] is \"%.*s\", \"%.*s\" expected", name, (long long)i, (int)len, g,
               (int)s->n, (const char *)s->p);
  }
  o->ok = !bad;
  if (o->ok) o->text[0] = 0;
}
static void compare(const char *name, const ndarray *got, const ndarray *want, outcome *o) {
  if (want->type == ET_STR) {
    compare_text(name, got, want, o);
    return;
  }
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
      for (uint32_t i = 0; i < d->rank; i++)
        k += snprintf(at + k, room - (size_t)k, "%s%lld", i ? ", " : "", (long long)d->dims[i]);
      k += snprintf(at + k, room - (size_t)k, side ? "] expected" : "], [");
    }
    return;
  }
  if (!nd_count(want, &n)) return;
  uint32_t w = et_bytes(want->type);
  for (int64_t i = 0; i < n; i++) {
    scalar a = et_load(got->type, (const uint8_t *)got->data + i * w),
           b = et_load(want->type, (const uint8_t *)want->data + i * w);
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

/* ---- compiled: everything after elaboration, as the driver does it --------------------------- */
static uint8_t *room(ctx *c, size_t bytes) {
  return (uint8_t *)(((uintptr_t)arena_alloc(ctx_arena(c), bytes + 128) + 63) & ~(uintptr_t)63);
}
static int64_t dims_before(emodule *m, const io *v, uint32_t i) {
  int64_t n = 0;
  for (uint32_t k = 0; k < i; k++) n += xt(m, v[k].t)->rank;
  return n;
}
static bool compiled_run(ctx *c, pipeline *p, ek_rt_main plan, ek_rt_main run, const uint8_t *weights,
                         const ndarray *in, ndarray *out, const char **why) {
  emodule *m = p->m;
  arena *a = p->a;
  const void **inputs = NEWN(a, const void *, m->inputs.n + 1);
  void **outputs = NEWN(a, void *, m->outputs.n + 1);
  int64_t *in_dims = NEWN(a, int64_t, dims_before(m, m->inputs.v, m->inputs.n) + 1),
          *out_dims = NEWN(a, int64_t, dims_before(m, m->outputs.v, m->outputs.n) + 1);
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    uint8_t *d = room(c, in[i].bytes);
    memcpy(d, in[i].data, in[i].bytes);
    inputs[i] = d;
    memcpy(in_dims + dims_before(m, m->inputs.v, i), in[i].dims, in[i].rank * sizeof *in_dims);
  }
  ek_rt_call call = {.in = inputs,
                     .out = outputs,
                     .in_dims = in_dims,
                     .out_dims = out_dims,
                     .weights = weights,
                     .parallel = ek_rt_parallel,
                     .threads = 2};
  *why = "no reason given";
  if (plan(&call)) return *why = call.message ? call.message : *why, false;
  call.pool = ek_rt_pool_create(2);
  int64_t rc;
  do {
    for (uint32_t i = 0; i < m->outputs.n; i++) {
      const tensor *t = xt(m, m->outputs.v[i].t);
      int64_t bytes = et_bytes(t->type);
      for (uint32_t k = 0; k < t->rank; k++) bytes *= out_dims[dims_before(m, m->outputs.v, i) + k];
      outputs[i] = room(c, (size_t)bytes);
    }
    call.arena = room(c, (size_t)call.arena_bytes);
  } while ((rc = run(&call)) == EK_RT_ROOM);
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
/* As C source: compiled by the C compiler, with the strictest warnings as errors, and loaded. */
static void source_and_run(ctx *c, pipeline *p, const ndarray *in, ndarray *out, double began, outcome *o) {
  char dir[] = "/tmp/nodetest-XXXXXX", line[600], said[300] = "";
  ek_rt_model *d = describe(c, p->m, p->p, "model", program_memory(p->p));
  uint8_t *weights = room(c, p->p->weight_bytes);
  pipe_weights(p, p->p->weight_bytes, weights, NULL, NULL);
  code_model x = {.name = "m", .model = d, .weights = {weights, (size_t)p->p->weight_bytes}};
  sbuf b = sbuf_new(p->a);
  c_source(c, p->s->l, p->t, &x, &b);
  if (!mkdtemp(dir)) ctx_fail(c, E_IO, "no folder for the source");
  const char *file = arena_fmt(p->a, "%s/m.c", dir), *so = arena_fmt(p->a, "%s/m.so", dir), *why;
  bool good = file_write(c, file, b.s, b.n);
  snprintf(line, sizeof line,
           "%s -std=c17 -ffreestanding -Wall -Wextra -pedantic -Werror -O1 -fPIC -shared -o %s %s 2>&1",
           getenv("CC") ? getenv("CC") : "gcc", so, file);
  FILE *f = good ? popen(line, "re") : NULL;
  size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
  said[n] = 0;
  good = f && pclose(f) == 0;
  void *h = good ? dlopen(so, RTLD_NOW | RTLD_LOCAL) : NULL;
  o->compile_ms = (float)(now_ms() - began);
  unlink(file), unlink(so), rmdir(dir);
  if (!h) ctx_fail(c, E_FAILED, "the C compiler: %s", said);
  const ek_rt_model *(*info)(void) = (const ek_rt_model *(*)(void))dlsym(h, "m_info");
  if (!compiled_run(c, p, info()->plan, info()->run, NULL, in, out, &why)) ctx_fail(c, E_FAILED, "%s", why);
  o->ran = true;
}
static void compile_and_run(ctx *c, graph *g, emodule *m, const ndarray *in, ndarray *out, double began, outcome *o) {
  pipe_opts po = {.level = 3, .compile_threads = 1, .skip = no_fold ? "fold" : NULL, .target = as_source ? "c" : NULL};
  pipeline *p = pipe_new(c, &po);
  p->g = g, p->m = m;
  const char *why;
  for (uint32_t i = 0; i < m->inputs.n + m->outputs.n; i++)
    if (et_kind(xt(m, (i < m->inputs.n ? m->inputs.v[i] : m->outputs.v[i - m->inputs.n]).t)->type) == K_STR)
      ctx_fail(c, E_UNSUPPORTED, "strings");
  pipe_optimise(p);
  pipe_program(p);
  if (as_source) {
    source_and_run(c, p, in, out, began, o);
    return;
  }
  jit *volatile j = pipe_jit(p);
  o->compile_ms = (float)(now_ms() - began);
  uint8_t *weights = room(c, p->p->weight_bytes);
  pipe_weights(p, p->p->weight_bytes, weights, NULL, NULL);
  CTX_TRY(c) {
    if (!compiled_run(c, p, (ek_rt_main)jit_find(j, p->p->plan_fn->name), (ek_rt_main)jit_find(j, p->p->run_fn->name),
                      weights, in, out, &why))
      ctx_fail(c, E_FAILED, "%s", why);
    o->ran = true;
  }
  CTX_CATCH {
    jit_free(j);
    ctx_unwind(c);
  }
  jit_free(j);
}

/* False: no results; o->text says why. */
static bool results(ctx *c, const char *folder, bool bind, outcome *o) {
  arena *a = ctx_arena(c);
  double began = now_ms();
  graph *g = onnx_load_file(c, path_join(a, folder, "model.onnx"));
  if (!g) return false;
  uint32_t n = g->inputs.n, n_out = g->outputs.n, kept = 0;
  VEC(ndarray) data = {0};
  value **inputs = NEWN(a, value *, n + 1);
  for (uint32_t i = 0; i < n; i++) inputs[i] = g->inputs.v[i];
  value_kind *kinds = NEWN(a, value_kind, n_out + 1);
  for (uint32_t i = 0; i < n_out; i++) kinds[i] = g->outputs.v[i]->kind;
  for (uint32_t i = 0; i < n; i++) { /* a list becomes as many inputs as the data has tensors */
    value *v = inputs[i];
    const ndarray *d;
    int64_t count;
    if (!load(c, folder, "input", i, v->kind, &d, &count)) {
      diag_error(c, E_IO, NULL, "input %s has no data", v->source);
      return false;
    }
    for (int64_t k = 0; k < count; k++) {
      ndarray one = d[k];
      if (one.type == ET_STR && !nd_bytes(a, &d[k], &one)) return false;
      vec_push(a, data, one);
    }
    if (v->kind == VALUE_TENSOR) continue;
    if (count > 0 && !v->ranked) v->rank = d->rank, v->dims = NEWN(a, sz, v->rank + 1), v->ranked = true;
    graph_settle(g, v, count);
  }
  ndarray *bound = NEWN(a, ndarray, data.n + 1);
  for (uint32_t i = 0; i < data.n; i++) {
    value *v = g->inputs.v[i];
    const ndarray *d = &data.v[i];
    if (!bind || !is_constant(d) || v->type == ET_STR) {
      bound[kept] = *d;
      g->inputs.v[kept++] = v;
      continue;
    }
    sz *dims = NEWN(a, sz, d->rank + 1);
    for (uint32_t k = 0; k < d->rank; k++) dims[k] = sym_int(c, d->dims[k]);
    v->data = d;
    v->type = d->type;
    v->ranked = true;
    v->rank = d->rank;
    v->dims = dims;
    o->bound++;
  }
  g->inputs.n = kept;
  oplib *lib = notation_lib(c);
  if (!notation_add_builtin(lib)) return false;
  emodule *m = lower_graph(g, lib, NULL, 0);
  if (!m) return false;
  if (verbose) {
    sbuf b = sbuf_new(a);
    expr_print(m, &b, (print_opts){0});
    puts(b.s);
  }
  if (!expr_verify(m, "elaboration")) return false;
  ndarray *got = NEWN(a, ndarray, m->outputs.n + 1);
  if (compiled)
    compile_and_run(c, g, m, bound, got, began, o);
  else {
    evaluation *v = expr_eval_new(m, a, 1);
    for (uint32_t i = 0; i < kept; i++) expr_eval_input(v, m->inputs.v[i].t, &bound[i]);
    expr_eval_run(v);
    for (uint32_t i = 0; i < m->outputs.n; i++) got[i] = *expr_eval_get(v, m->outputs.v[i].t);
  }
  o->ok = true;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n_out && o->ok; i++) {
    const ndarray *want;
    int64_t count;
    if (!load(c, folder, "output", i, kinds[i], &want, &count)) {
      snprintf(o->text, sizeof o->text, "output %u has no data", i);
      o->ok = false;
    }
    for (int64_t k = 0; k < count && o->ok; k++, at++) {
      if (at < m->outputs.n)
        compare(m->outputs.v[at].name, &got[at], &want[k], o);
      else
        o->ok = false;
    }
  }
  if (o->ok && at != m->outputs.n) o->ok = false;
  if (!o->ok && !o->text[0]) snprintf(o->text, sizeof o->text, "%u output tensors, %u compared", m->outputs.n, at);
  return true;
}
static bool attempt(const char *folder, bool bind, outcome *o) {
  ctx *c = ctx_new();
  volatile bool got = false;
  *o = (outcome){0};
  evaluations = 0;
  CTX_TRY(c)
  got = results(c, folder, bind, o);
  CTX_CATCH got = false;
  if (!got) snprintf(o->text, sizeof o->text, "%s", first_error(c)), o->ok = false, o->ran = false;
  o->evaluations = evaluations;
  ctx_free(c);
  return got;
}
static void run(const char *folder, outcome *o) {
  char why[sizeof o->why_bound];
  if (attempt(folder, false, o)) return;
  snprintf(why, sizeof why, "%.199s", o->text);
  attempt(folder, true, o);
  memcpy(o->why_bound, why, sizeof why);
}

/* ---- sharing out: processes take the next test from a common counter; what they find lies in common memory ---- */
typedef struct board {
  atomic_uint next;
  outcome all[];
} board;
static void work(board *b, char **folders, uint32_t n, atomic_uint *mine) {
  for (uint32_t i; (i = atomic_fetch_add(&b->next, 1)) < n;) {
    atomic_store(mine, i);
    alarm(60);
    if (alternate) no_fold = i & 1;
    run(folders[i], &b->all[i]);
    fflush(stdout);
  }
  atomic_store(mine, n);
}
static int by_ms(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}
static void report(const outcome *o, uint32_t n) {
  float *ms = calloc(n + 1, sizeof *ms);
  uint32_t ran = 0, bound = 0, passed = 0, evaluated = 0, pure = 0;
  for (uint32_t i = 0; ms && i < n; i++)
    if (o[i].ok) {
      passed++;
      if (o[i].ran) ms[ran++] = o[i].compile_ms;
      if (o[i].bound) bound++;
      if (o[i].evaluations)
        evaluated++;
      else
        pure += o[i].ran;
    }
  if (ms && ran) {
    qsort(ms, ran, sizeof *ms, by_ms);
    printf("compiled code gave the results of %u, %u of them without any call of the evaluator, %u with (constants "
           "computed while compiling); compiling took %.1f ms in the median, %.0f ms at most\n",
           ran, pure, evaluated, ms[ran / 2], ms[ran - 1]);
  }
  printf("all inputs at run time: %u; small inputs compiled in: %u\n", passed - bound, bound);
  free(ms);
}
/* ---- expected failures: lines `NAME WHERE REASON`, WHERE being eval, compiled or both; # begins a comment ---- */
typedef struct listed {
  char name[120], where[20];
} listed;
typedef struct list {
  listed *v;
  uint32_t n;
} list;
static bool read_list(const char *path, list *l) {
  FILE *f = fopen(path, "r");
  char line[1000];
  if (!f) return perror(path), false;
  while (fgets(line, sizeof line, f)) {
    listed x;
    int reason = 0;
    if (line[0] == '#' || line[0] == '\n') continue;
    if (sscanf(line, "%119s %19s %n", x.name, x.where, &reason) < 2 || !reason || !line[reason] ||
        line[reason] == '\n' || (strcmp(x.where, "eval") && strcmp(x.where, "compiled") && strcmp(x.where, "both"))) {
      printf("FAIL %s: not `NAME eval|compiled|both REASON`: %s", path, line);
      return fclose(f), false;
    }
    if (strcmp(x.where, "both") && !strcmp(x.where, "compiled") != compiled) continue;
    listed *more = realloc(l->v, (l->n + 1) * sizeof *more);
    if (!more) return fclose(f), false;
    l->v = more, l->v[l->n++] = x;
  }
  return fclose(f), true;
}
static bool expected(const list *l, const char *name) {
  for (uint32_t i = 0; i < l->n; i++)
    if (!strcmp(l->v[i].name, name)) return true;
  return false;
}
static const char *name_of(const char *folder) { return strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder; }
int main(int argc, char **argv) {
  bool base_only = false;
  const char *word = "", *list_path = NULL;
  list failures = {0};
  int opt, jobs = 1;
  while ((opt = getopt(argc, argv, "veCcnabj:k:l:")) != -1) {
    if (opt == 'v')
      verbose = true;
    else if (opt == 'e')
      base_only = true;
    else if (opt == 'c')
      compiled = true;
    else if (opt == 'C')
      compiled = as_source = true;
    else if (opt == 'n')
      no_fold = true;
    else if (opt == 'a')
      alternate = true;
    else if (opt == 'l')
      list_path = optarg;
    else if (opt == 'b')
      tell_bound = true;
    else if (opt == 'j')
      jobs = atoi(optarg);
    else if (opt == 'k')
      word = optarg;
    else
      return 2;
  }
  if (jobs < 1 || jobs > 64) jobs = 1;
  if (list_path && !read_list(list_path, &failures)) return 2;
  uint32_t n = 0, passed = 0, known = 0, wrong = 0;
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
      snprintf(o->text, sizeof o->text, "%s",
               WTERMSIG(status) == SIGALRM ? "takes too long" : strsignal(WTERMSIG(status)));
      k = i; /* again */
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (b->all[i].ok) {
      passed++;
      if (expected(&failures, name_of(folders[i])))
        wrong++, printf("FAIL %s: passes; take it off %s\n", name_of(folders[i]), list_path);
    } else if (expected(&failures, name_of(folders[i])))
      known++;
    else
      printf("FAIL %s: %s\n", name_of(folders[i]), b->all[i].text);
  for (uint32_t i = 0; tell_bound && i < n; i++)
    if (b->all[i].ok && b->all[i].bound) printf("BOUND %s: %s\n", name_of(folders[i]), b->all[i].why_bound);
  report(b->all, n);
  for (uint32_t k = 0; k < failures.n && !word[0] && !base_only; k++) {
    bool there = false;
    for (uint32_t i = 0; i < n; i++) there |= !strcmp(failures.v[k].name, name_of(folders[i]));
    if (!there) wrong++, printf("FAIL %s: no such test; take it off %s\n", failures.v[k].name, list_path);
  }
  free(failures.v);
  printf("%u passed, %u failed", passed, n - passed - known + wrong);
  if (known) printf(", %u failed as expected", known);
  puts("");
  return passed + known != n || wrong;
}
