/* The C API: what a program that embeds Einkorn relies on. */
#include "base/base.h"
#include "einkorn/einkorn.h"
#include "sym/sym.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
/* after the standard headers */
#include <cmocka.h>

#define DIGITS EK_SOURCE_DIR "/examples/digits/digits.onnx"
#define ALL EK_SOURCE_DIR "/examples/digits/all.npz"

/* ---- every allocation of the process is counted (but under AddressSanitizer, which has its own) ---- */
static _Atomic int allocations;
#if !defined(__SANITIZE_ADDRESS__)
#define COUNTS 1
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t k);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);
#define COUNTED(call)                                                                                                  \
  {                                                                                                                    \
    allocations++;                                                                                                     \
    return call;                                                                                                       \
  }
__attribute__((visibility("default"))) void *malloc(size_t n) COUNTED(__libc_malloc(n))
    __attribute__((visibility("default"))) void *calloc(size_t n, size_t k) COUNTED(__libc_calloc(n, k))
        __attribute__((visibility("default"))) void *realloc(void *p, size_t n) COUNTED(__libc_realloc(p, n))
            __attribute__((visibility("default"))) void *aligned_alloc(size_t a, size_t n)
                COUNTED(__libc_memalign(a, n))
                    __attribute__((visibility("default"))) void *mmap(void *p, size_t n, int prot, int flags, int fd,
                                                                      off_t at)
                        COUNTED((void *)syscall(SYS_mmap, p, n, prot, flags, fd, at))
#else
#define COUNTS 0
#endif

                            static const ndarray *member(const npz *z, const char *name) {
  for (uint32_t i = 0; i < z->n; i++)
    if (!strcmp(z->names[i], name)) return &z->arrays[i];
  return NULL;
}
typedef struct fixture {
  ctx *c;
  ek_session *s;
  ek_model *m;
  npz z;
  const ndarray *in, *out;
} fixture;
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->c = ctx_new();
  f->s = ek_session_create();
  assert_true(npz_read(f->c, ALL, &f->z));
  f->in = member(&f->z, "in_0"), f->out = member(&f->z, "out_0");
  assert_int_equal(ek_load(f->s, DIGITS, &f->m), EK_OK);
  *state = f;
  return 0;
}
static int teardown(void **state) {
  fixture *f = *state;
  ek_session_destroy(f->s);
  ctx_free(f->c);
  free(f);
  return 0;
}
static ek_module *compiled(fixture *f, int level, int evaluate) {
  ek_options o;
  ek_module *m;
  ek_options_init(&o);
  o.optimize = level, o.evaluate = evaluate, o.verify = 1;
  if (ek_compile(f->m, &o, &m)) fail_msg("%s", ek_message(f->s));
  return m;
}
static void run_on(ek_run *r, const fixture *f, int64_t n) {
  int64_t dims[] = {n, 1, 8, 8};
  assert_int_equal(ek_run_shape(r, 0, dims, 4), EK_OK);
  assert_int_equal(ek_run_bind_input(r, 0, f->in->data), EK_OK);
  if (ek_run_execute(r)) fail_msg("%s", ek_run_message(r));
}
static void assert_close(const float *a, const float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-4f + 1e-3f * fabsf(b[i])))
      fail_msg("element %lld: %g, expected %g", (long long)i, a[i], b[i]);
}

/* ---- models ---------------------------------------------------------------------------------- */
static void inspect(void **state) {
  fixture *f = *state;
  ek_tensor_info t;
  assert_int_equal(ek_model_inputs(f->m), 1);
  assert_int_equal(ek_model_outputs(f->m), 1);
  assert_int_equal(ek_model_input(f->m, 0, &t), EK_OK);
  assert_string_equal(t.name, "image");
  assert_int_equal(t.type, EK_FLOAT);
  assert_int_equal(t.rank, 4);
  assert_int_equal(t.dims[0], -1);
  assert_string_equal(t.dim_names[0], "N");
  assert_int_equal(t.dims[3], 8);
  assert_int_equal(ek_model_output(f->m, 0, &t), EK_OK);
  assert_int_equal(t.dims[1], 10);
  assert_int_equal(ek_model_input(f->m, 1, &t), EK_USAGE);
}
static void bad_models(void **state) {
  fixture *f = *state;
  ek_model *m;
  bytes b;
  assert_int_equal(ek_load(f->s, "/nowhere/model.onnx", &m), EK_IO);
  assert_non_null(strstr(ek_message(f->s), "/nowhere/model.onnx"));
  assert_null(m);
  assert_int_not_equal(ek_load_memory(f->s, "\x08\x07garbage", 9, "garbage", &m), EK_OK);
  assert_string_not_equal(ek_message(f->s), "");
  assert_true(file_map(f->c, DIGITS, &b));
  for (size_t n = 0; n < b.n; n += 97) { /* truncated anywhere: an error, or a smaller model */
    ek_code e = ek_load_memory(f->s, b.p, n, "truncated", &m);
    assert_int_not_equal(e, EK_INTERNAL);
    if (!e) ek_check(m, NULL);
    ek_model_close(m);
  }
  assert_int_equal(ek_load_memory(f->s, b.p, b.n, "whole", &m), EK_OK);
  assert_int_equal(ek_check(m, NULL), EK_OK);
}
static void bad_options(void **state) {
  fixture *f = *state;
  ek_options o;
  ek_module *m;
  ek_options_init(&o);
  o.optimize = 7;
  assert_int_equal(ek_compile(f->m, &o, &m), EK_USAGE);
  ek_options_init(&o);
  const char *dims[] = {"Q=3", NULL};
  o.dims = dims;
  assert_int_equal(ek_compile(f->m, &o, &m), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "Q"));
  dims[0] = "N";
  assert_int_equal(ek_compile(f->m, &o, &m), EK_USAGE);
  ek_options_init(&o);
  o.target = "pdp11";
  assert_int_not_equal(ek_compile(f->m, &o, &m), EK_OK);
  assert_non_null(strstr(ek_message(f->s), "pdp11"));
  ek_options_init(&o);
  o.stop_after = "lower";
  assert_int_equal(ek_compile(f->m, &o, &m), EK_CANCELLED);
  o.stop_after = "nonsense";
  assert_int_equal(ek_compile(f->m, &o, &m), EK_USAGE);
}
static int cancel(void *user, const char *phase, double done) {
  (void)phase, (void)done;
  return ++*(int *)user > 3;
}
static void cancelled(void **state) {
  fixture *f = *state;
  ek_module *m;
  int calls = 0;
  ek_set_progress(f->s, cancel, &calls);
  assert_int_equal(ek_compile(f->m, NULL, &m), EK_CANCELLED);
  assert_null(m);
  ek_set_progress(f->s, NULL, NULL);
}

/* ---- running --------------------------------------------------------------------------------- */
static void agree(void **state) { /* the evaluator, before and after the passes, unoptimised and optimised code */
  fixture *f = *state;
  const struct {
    int level, evaluate;
  } ways[] = {{3, 1}, {3, 2}, {0, 0}, {1, 0}, {3, 0}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    ek_run *r;
    ek_module *m = compiled(f, ways[i].level, ways[i].evaluate);
    assert_int_equal(ek_run_create(m, 1, &r), EK_OK);
    run_on(r, f, f->in->dims[0]);
    int64_t dims[EK_MAX_RANK];
    int32_t rank;
    assert_int_equal(ek_run_output_dims(r, 0, dims, &rank), EK_OK);
    assert_int_equal(rank, 2);
    assert_int_equal(dims[0], f->in->dims[0]);
    assert_close(ek_run_output_data(r, 0), f->out->data, dims[0] * dims[1]);
    ek_module_close(m);
  }
}
typedef struct names {
  ctx *c;
  int64_t n, threads;
} names;
static sz name(void *env, const char *s, size_t n) {
  names *k = env;
  if (n == 1 && *s == 'N') return sym_int(k->c, k->n);
  if (n == 7 && !strncmp(s, "threads", n)) return sym_int(k->c, k->threads);
  return 0;
}
static void memory_formula(void **state) {
  fixture *f = *state;
  ek_report rep;
  ek_module *m = compiled(f, 3, 0);
  ek_module_report(m, &rep);
  for (int threads = 1; threads <= 2; threads++)
    for (int64_t n = 1; n <= 32; n *= 2) {
      ek_run *r;
      assert_int_equal(ek_run_create(m, threads, &r), EK_OK);
      run_on(r, f, n);
      names k = {f->c, n, threads};
      const char *s = rep.memory;
      sz value = sym_parse(f->c, &s, name, &k, (srcpos){0});
      assert_int_equal(sym_int_or(f->c, value, -1), ek_run_memory(r));
      ek_run_destroy(r);
    }
}
static void wrong_inputs(void **state) {
  fixture *f = *state;
  ek_run *r;
  assert_int_equal(ek_run_create(compiled(f, 3, 0), 1, &r), EK_OK);
  int64_t dims[] = {2, 1, 8, 9};
  assert_int_equal(ek_run_execute(r), EK_SHAPE); /* N was not said */
  assert_non_null(strstr(ek_run_message(r), "image"));
  assert_int_equal(ek_run_shape(r, 0, dims, 4), EK_SHAPE);
  assert_non_null(strstr(ek_run_message(r), "image"));
  assert_int_equal(ek_run_shape(r, 0, dims, 3), EK_SHAPE);
  dims[3] = 8;
  assert_int_equal(ek_run_shape(r, 0, dims, 4), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_USAGE); /* no data */
  dims[0] = INT64_MAX / 2;
  assert_int_equal(ek_run_shape(r, 0, dims, 4), EK_OK);
  assert_int_not_equal(ek_run_prepare(r), EK_OK);
  assert_int_equal(ek_run_bind_input(r, 1, f->in->data), EK_USAGE);
}
static ek_module *saved(fixture *f, const char *path) {
  ek_module *m;
  if (ek_save(f->m, NULL, path, NULL)) fail_msg("%s", ek_message(f->s));
  if (ek_module_load(f->s, path, &m)) fail_msg("%s", ek_message(f->s));
  return m;
}
static void nothing_given(void **state) { /* NULL where something is needed: an error, not a crash */
  fixture *f = *state;
  ek_model *model = f->m;
  ek_module *m = compiled(f, 0, 1), *m2 = (void *)1;
  ek_run *r, *r2;
  ek_tensor_info t;
  ek_report rep;
  ek_model_info about;
  const char *text;
  const char *const *names;
  const ek_pass_info *passes;
  const ek_op_info *ops;
  size_t n;
  double g;
  int64_t dims[EK_MAX_RANK] = {2, 1, 8, 8};
  int32_t rank;
  assert_int_equal(ek_run_create(m, 1, &r), EK_OK);
  const ek_code codes[] = {ek_load(NULL, DIGITS, &model),
                           ek_load(f->s, NULL, &model),
                           ek_load(f->s, DIGITS, NULL),
                           ek_load_memory(NULL, "", 0, NULL, &model),
                           ek_load_memory(f->s, NULL, 10, NULL, &model),
                           ek_load_memory(f->s, "x", 1, NULL, NULL),
                           ek_load_ops(NULL, "x"),
                           ek_load_ops(f->s, NULL),
                           ek_model_input(NULL, 0, &t),
                           ek_model_input(f->m, 0, NULL),
                           ek_model_output(NULL, 0, &t),
                           ek_model_output(f->m, 0, NULL),
                           ek_compile(NULL, NULL, &m2),
                           ek_compile(f->m, NULL, NULL),
                           ek_save(NULL, NULL, "x.so", NULL),
                           ek_save(f->m, NULL, NULL, NULL),
                           ek_module_load(NULL, "x", &m2),
                           ek_module_load(f->s, NULL, &m2),
                           ek_module_load(f->s, "x", NULL),
                           ek_module_load_memory(NULL, "", 0, NULL, &m2),
                           ek_module_load_memory(f->s, NULL, 9, NULL, &m2),
                           ek_module_load_memory(f->s, "x", 1, NULL, NULL),
                           ek_module_input(NULL, 0, &t),
                           ek_module_input(m, 0, NULL),
                           ek_module_output(NULL, 0, &t),
                           ek_module_output(m, 0, NULL),
                           ek_run_create(NULL, 1, &r2),
                           ek_run_create(m, 1, NULL),
                           ek_run_create_with(NULL, NULL, &r2),
                           ek_run_create_with(m, NULL, NULL),
                           ek_run_shape(NULL, 0, dims, 4),
                           ek_run_shape(r, 0, NULL, 4),
                           ek_run_prepare(NULL),
                           ek_run_bind_input(NULL, 0, dims),
                           ek_run_bind_output(NULL, 0, dims),
                           ek_run_execute(NULL),
                           ek_run_output_dims(NULL, 0, dims, &rank),
                           ek_run_output_dims(r, 0, NULL, &rank),
                           ek_run_output_dims(r, 0, dims, NULL),
                           ek_check(NULL, NULL),
                           ek_show(NULL, NULL, NULL, &text),
                           ek_show(f->m, NULL, NULL, NULL),
                           ek_passes(NULL, &passes, &n),
                           ek_passes(f->s, NULL, &n),
                           ek_passes(f->s, &passes, NULL),
                           ek_model_describe(NULL, NULL, &about),
                           ek_model_describe(f->m, NULL, NULL),
                           ek_ops(NULL, &ops, &n),
                           ek_ops(f->s, NULL, &n),
                           ek_op_source(NULL, "Add", &text),
                           ek_op_source(f->s, NULL, &text),
                           ek_op_source(f->s, "Add", NULL),
                           ek_ops_table(NULL, &text),
                           ek_ops_table(f->s, NULL),
                           ek_targets(NULL, &names, &n),
                           ek_targets(f->s, NULL, &n),
                           ek_measure_peak(NULL, NULL, 1, 1, &g)};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i] != EK_USAGE) fail_msg("call %zu gives %d", i, (int)codes[i]);
  assert_null(m2);
  assert_null(model);
  assert_string_equal(ek_message(NULL), "");
  assert_string_equal(ek_run_message(NULL), "");
  assert_int_equal(ek_compile(f->m, NULL, NULL), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "NULL"));
  assert_true(!ek_model_inputs(NULL) && !ek_model_outputs(NULL) && !ek_module_inputs(NULL) &&
              !ek_module_outputs(NULL) && !ek_run_output_bytes(NULL, 0) && !ek_run_memory(NULL) &&
              !ek_run_threads(NULL));
  assert_null(ek_run_output_data(NULL, 0));
  ek_module_report(NULL, &rep), ek_module_report(m, NULL);
  assert_int_equal(rep.cached, 0);
  ek_run_cancel(NULL), ek_run_destroy(NULL), ek_module_close(NULL), ek_model_close(NULL), ek_session_destroy(NULL),
      ek_pool_destroy(NULL), ek_set_log(NULL, NULL, NULL), ek_set_progress(NULL, NULL, NULL);
  ek_options_init(NULL), ek_run_options_init(NULL), ek_session_options_init(NULL), ek_show_options_init(NULL);
  assert_int_not_equal(ek_load_memory(f->s, NULL, 0, NULL, &model), EK_OK); /* nothing is no model */
  const char all[sizeof(ek_options)] = {0};                                 /* structs that no _init function set up */
  assert_int_equal(ek_compile(f->m, (const void *)all, &m2), EK_USAGE);
  assert_int_equal(ek_run_create_with(m, (const void *)all, &r2), EK_USAGE);
  assert_int_equal(ek_show(f->m, NULL, (const void *)all, &text), EK_USAGE);
  assert_null(ek_session_create_with((const void *)all));
}
static void no_allocation(void **state) {
  fixture *f = *state;
  char path[] = "/tmp/einkorn-api-XXXXXX", so[64];
  assert_non_null(mkdtemp(path));
  snprintf(so, sizeof so, "%s/digits.so", path);
  for (int kind = 0; kind < 2; kind++)
    for (int threads = 1; threads <= 2; threads++) {
      ek_run *r;
      ek_module *m = kind ? saved(f, so) : compiled(f, 3, 0);
      assert_int_equal(ek_run_create(m, threads, &r), EK_OK);
      run_on(r, f, 32);
      int before = allocations;
      ek_code e = ek_run_execute(r);
      int after = allocations;
      assert_int_equal(e, EK_OK);
      if (COUNTS) assert_true(before > 0);
      assert_int_equal(after - before, 0);
      assert_close(ek_run_output_data(r, 0), f->out->data, 320);
      ek_module_close(m);
    }
  unlink(so);
  snprintf(so, sizeof so, "%s/digits.h", path);
  unlink(so);
  assert_int_equal(rmdir(path), 0);
}
typedef struct job {
  fixture *f;
  ek_run *r;
  int64_t n;
  bool good;
} job;
static void *work(void *p) {
  job *j = p;
  float out[320];
  int64_t dims[] = {j->n, 1, 8, 8};
  j->good = ek_run_shape(j->r, 0, dims, 4) == EK_OK && ek_run_bind_input(j->r, 0, j->f->in->data) == EK_OK &&
            ek_run_bind_output(j->r, 0, out) == EK_OK;
  for (int i = 0; j->good && i < 50; i++) {
    memset(out, 0, sizeof out);
    j->good = ek_run_execute(j->r) == EK_OK;
    for (int64_t k = 0; j->good && k < 10 * j->n; k++)
      j->good = fabsf(out[k] - ((const float *)j->f->out->data)[k]) < 1e-4f;
  }
  return NULL;
}
/* several runs of one module, each in its own thread, with sizes and pools of their own */
static void side_by_side(void **state) {
  fixture *f = *state;
  for (int evaluate = 0; evaluate < 2; evaluate++) {
    ek_module *m = compiled(f, 3, evaluate);
    job jobs[4];
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
      jobs[i] = (job){f, NULL, 1 + 7 * i, false};
      assert_int_equal(ek_run_create(m, 1 + i % 2, &jobs[i].r), EK_OK);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, work, &jobs[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) assert_true(jobs[i].good);
  }
}
static void saved_library(void **state) {
  fixture *f = *state;
  char path[] = "/tmp/einkorn-api-XXXXXX", so[64], moved[64];
  assert_non_null(mkdtemp(path));
  snprintf(so, sizeof so, "%s/9 lives.so", path);
  snprintf(moved, sizeof moved, "%s/other.so", path);
  ek_report rep;
  assert_int_equal(ek_save(f->m, NULL, so, &rep), EK_OK);
  assert_true(rep.file_bytes > rep.weight_bytes && rep.kernels > 0);
  void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(lib);
  assert_non_null(dlsym(lib, "m9_lives_run"));
  assert_non_null(dlsym(lib, "m9_lives_info"));
  dlclose(lib);
  assert_int_equal(rename(so, moved), 0);
  ek_module *m;
  ek_tensor_info t;
  assert_int_equal(ek_module_load(f->s, moved, &m), EK_OK);
  assert_int_equal(ek_module_inputs(m), 1);
  assert_int_equal(ek_module_input(m, 0, &t), EK_OK);
  assert_string_equal(t.name, "image");
  assert_string_equal(t.dim_names[0], "N");
  assert_int_equal(ek_module_load(f->s, DIGITS, &m), EK_MODEL);
  assert_int_equal(ek_module_load(f->s, "/nowhere.so", &m), EK_IO);
  assert_int_equal(ek_save(f->m, NULL, "/nowhere/model.so", NULL), EK_IO);
  assert_int_equal(ek_save(f->m, NULL, "model.zip", NULL), EK_USAGE);
  unlink(moved);
  snprintf(so, sizeof so, "%s/9 lives.h", path);
  unlink(so);
  assert_int_equal(rmdir(path), 0); /* nothing else was left there */
}
static void looking_inside(void **state) {
  fixture *f = *state;
  static const char *const stages[] = {"graph", "expr", "schedule", "loop", "program", "llvm", "asm"};
  const char *text;
  ek_show_options w;
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    ek_show_options_init(&w);
    w.stage = stages[i];
    if (ek_show(f->m, NULL, &w, &text)) fail_msg("%s: %s", stages[i], ek_message(f->s));
    assert_true(strlen(text) > 100);
  }
  w.stage = "nonsense";
  assert_int_equal(ek_show(f->m, NULL, &w, &text), EK_USAGE);
  const ek_pass_info *passes;
  size_t n;
  assert_int_equal(ek_passes(f->s, &passes, &n), EK_OK);
  assert_true(n > 10);
  for (size_t i = 0; i < n; i++) assert_true(passes[i].name[0] && passes[i].doc[0]);
  ek_model_info info;
  assert_int_equal(ek_model_describe(f->m, NULL, &info), EK_OK);
  assert_int_equal(info.parameters, 8579);
  assert_int_equal(info.work.macs.value, -1);
  assert_string_equal(info.work.macs.formula, "137472*N");
  const ek_op_info *ops;
  assert_int_equal(ek_ops(f->s, &ops, &n), EK_OK);
  assert_true(n > 150);
  size_t at = 0; /* the names are those that ek_op_source takes */
  while (at < n && strcmp(ops[at].name, "com.microsoft::QuickGelu") != 0) at++;
  assert_true(at < n);
  assert_int_equal(ek_op_source(f->s, "com.microsoft::QuickGelu", &text), EK_OK);
  assert_int_equal(ek_op_source(f->s, "Softmax", &text), EK_OK);
  assert_non_null(strstr(text, "Softmax"));
  assert_int_equal(ek_op_source(f->s, "Nonsense", &text), EK_USAGE);
}
/* A reference that knows one tensor, which is wrong in it: of another shape, or in one element. */
static int b_relu(void *user, const char *const *names, size_t n, ek_array *values) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(names[i], "b_relu")) values[i] = *(const ek_array *)user;
  return 0;
}
static void count(void *user, const ek_checked *x) {
  assert_non_null(x->name);
  ++*(int *)user;
}
static void differences(void **state) {
  fixture *f = *state;
  static float image[64], values[16 * 64];
  ek_array in = {.name = "image", .type = EK_FLOAT, .rank = 4, .dims = {1, 1, 8, 8}, .data = image, .bytes = 256};
  ek_array theirs = {.type = EK_FLOAT, .rank = 4, .dims = {1, 16, 8, 8}, .data = values, .bytes = sizeof values};
  ek_diff_options o;
  ek_difference d;
  int checked = 0;
  ek_diff_options_init(&o);
  assert_int_equal(ek_diff(f->m, &o, &d), EK_USAGE); /* no array for the input */
  assert_non_null(strstr(ek_message(f->s), "image"));
  o.inputs = &in, o.input_count = 1, o.checked = count, o.checked_user = &checked;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_OK);
  assert_int_equal(d.verdict, EK_VERDICT_SAME);
  assert_null(d.tensor);
  assert_int_equal(d.checked, 11);
  assert_int_equal(checked, 11);
  assert_string_equal(ek_message(f->s), "");
  o.reference = b_relu, o.reference_user = &theirs;
  values[70] = 1e6f;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_OK);
  assert_int_equal(d.verdict, EK_VERDICT_REFERENCE);
  assert_string_equal(d.tensor, "b_relu");
  assert_int_equal(d.part_nodes, 5); /* it knows no other tensor: all before it */
  assert_int_equal(d.place[1], 1), assert_int_equal(d.place[3], 6);
  assert_true(d.got == 1e6f);
  theirs.dims[3] = 4, theirs.bytes /= 2;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_OK);
  assert_non_null(strstr(d.why, "f32[1, 16, 8, 4] instead of f32[1, 16, 8, 8]"));
  in.bytes = 128;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_SHAPE);
  in.bytes = 256, in.rank = 5;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_SHAPE);
  in.rank = 4, in.type = EK_DOUBLE;
  assert_int_equal(ek_diff(f->m, &o, &d), EK_SHAPE);
  in.type = EK_FLOAT, o.save = "part.txt";
  assert_int_equal(ek_diff(f->m, &o, &d), EK_USAGE);
  assert_int_equal(ek_diff(NULL, &o, &d), EK_USAGE);
  assert_int_equal(ek_diff(f->m, NULL, &d), EK_USAGE);
}
static void peak(void **state) {
  fixture *f = *state;
  double g = 0;
  assert_int_equal(ek_measure_peak(f->s, NULL, 1, 20, &g), EK_OK);
  assert_true(g > 0.5 && g < 1e6);
}
int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(inspect),        T(bad_models),     T(bad_options),   T(cancelled),     T(agree),
      T(memory_formula), T(wrong_inputs),   T(nothing_given), T(no_allocation), T(side_by_side),
      T(saved_library),  T(looking_inside), T(differences),   T(peak),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
