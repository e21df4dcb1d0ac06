/* The C API in a real program: many threads, the program's own threads, memory and limits, cancelling, fork. */
#include "base/base.h"
#include "einkorn/einkorn.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the standard headers */
#include <cmocka.h>

#define DIGITS EK_SOURCE_DIR "/examples/digits/digits.onnx"
#define ALL EK_SOURCE_DIR "/examples/digits/all.npz"

typedef struct fixture {
  ctx *c;
  ek_session *s;
  ek_model *m;
  ek_module *code;
  npz z;
  const float *in, *want;
} fixture;
static const float *member(const npz *z, const char *name) {
  for (uint32_t i = 0; i < z->n; i++)
    if (!strcmp(z->names[i], name)) return z->arrays[i].data;
  return NULL;
}
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->c = ctx_new();
  f->s = ek_session_create();
  assert_true(npz_read(f->c, ALL, &f->z));
  f->in = member(&f->z, "in_0"), f->want = member(&f->z, "out_0");
  assert_int_equal(ek_load(f->s, DIGITS, &f->m), EK_OK);
  if (ek_compile(f->m, NULL, &f->code)) fail_msg("%s", ek_message(f->s));
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
static ek_code shape(ek_run *r, int64_t n) {
  int64_t dims[] = {n, 1, 8, 8};
  return ek_run_shape(r, 0, dims, 4);
}
/* 32 digits are there: batches of n of them. */
static bool right(const ek_run *r, const fixture *f, int64_t n) {
  const float *y = ek_run_output_data(r, 0);
  for (int64_t i = 0; i < 10 * n; i++)
    if (!(fabsf(y[i] - f->want[i]) <= 1e-4f + 1e-3f * fabsf(f->want[i]))) return false;
  return true;
}
static bool works(ek_run *r, const fixture *f, int64_t n) {
  return !shape(r, n) && !ek_run_bind_input(r, 0, f->in) && !ek_run_execute(r) && right(r, f, n);
}

/* ---- many threads on one module -------------------------------------------------------------- */
typedef struct job {
  fixture *f;
  const ek_run_options *o;
  int n;
  bool good;
} job;
static void *makes_and_runs(void *p) {
  job *j = p;
  j->good = true;
  for (int i = 0; j->good && i < 8; i++) {
    ek_run_options o;
    ek_run_options_init(&o);
    if (j->o) o = *j->o;
    o.threads = 1 + (j->n + i) % 3;
    ek_run *r = NULL, *bad = NULL;
    ek_tensor_info t;
    j->good = ek_run_create_with(j->f->code, &o, &r) == EK_OK && ek_run_threads(r) == o.threads;
    j->good = j->good && ek_module_input(j->f->code, 0, &t) == EK_OK && t.rank == 4;
    for (int k = 0; j->good && k < 10; k++) j->good = works(r, j->f, 1 + (j->n * 7 + k * 5) % 32);
    if (i == 3) j->good = j->good && ek_run_create(j->f->code, -1, &bad) == EK_USAGE && !bad;
    ek_run_destroy(r);
  }
  return NULL;
}
static void eight(fixture *f, const ek_run_options *o) {
  job jobs[8];
  pthread_t t[8];
  for (int i = 0; i < 8; i++) jobs[i] = (job){f, o, i, false};
  for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&t[i], NULL, makes_and_runs, &jobs[i]), 0);
  for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < 8; i++) assert_true(jobs[i].good);
}
static void many_threads(void **state) {
  fixture *f = *state;
  eight(f, NULL); /* the session's pool */
  ek_run_options o;
  ek_run_options_init(&o);
  o.pool = ek_pool_create(3);
  assert_non_null(o.pool);
  eight(f, &o);
  ek_run_options two = o;
  two.pool = ek_pool_create(0);
  eight(f, &two);
  ek_pool_destroy(o.pool);
  ek_pool_destroy(two.pool);
  ek_pool_destroy(NULL);
  assert_null(ek_pool_create(-1));
  assert_null(ek_pool_create(100000));
}
/* a library that was loaded from memory; its runs use the session's pool as well */
static void saved_too(void **state) {
  fixture *f = *state;
  char dir[] = "/tmp/einkorn-runs-XXXXXX", path[64];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/digits.so", dir);
  if (ek_save(f->m, NULL, path, NULL)) fail_msg("%s", ek_message(f->s));
  bytes b;
  assert_true(file_map(f->c, path, &b));
  uint8_t *copy = malloc(b.n);
  memcpy(copy, b.p, b.n);
  unlink(path);
  snprintf(path, sizeof path, "%s/digits.h", dir);
  unlink(path);
  assert_int_equal(rmdir(dir), 0);
  ek_module *m;
  assert_int_equal(ek_module_load_memory(f->s, copy, 100, "cut", &m), EK_MODEL);
  assert_non_null(strstr(ek_message(f->s), "cut"));
  assert_int_equal(ek_module_load_memory(f->s, "", 0, NULL, &m), EK_MODEL);
  assert_null(m);
  if (ek_module_load_memory(f->s, copy, b.n, NULL, &m)) fail_msg("%s", ek_message(f->s));
  memset(copy, 0, b.n);
  free(copy);
  ek_module *jit = f->code;
  f->code = m;
  eight(f, NULL);
  f->code = jit;
  ek_module_close(m);
}

/* ---- the program's own threads --------------------------------------------------------------- */
typedef struct own {
  int how, calls;
  int64_t most;
  int threads;
} own;
typedef struct one {
  void (*task)(void *arg, int64_t i);
  void *arg;
  int64_t i;
} one;
static void *run_one(void *p) {
  one *o = p;
  o->task(o->arg, o->i);
  return NULL;
}
static void own_for(void *user, int64_t n, void (*task)(void *arg, int64_t i), void *arg) {
  own *w = user;
  w->calls++;
  if (n > w->most) w->most = n;
  if (w->how == 0)
    for (int64_t i = 0; i < n; i++) task(arg, i);
  if (w->how == 1)
    for (int64_t i = n; i-- > 0;) task(arg, i);
  if (w->how == 2) { /* a thread each */
    one o[8];
    pthread_t t[8];
    for (int64_t i = 0; i < n; i++) {
      o[i] = (one){task, arg, i};
      assert_int_equal(pthread_create(&t[i], NULL, run_one, &o[i]), 0);
    }
    for (int64_t i = 0; i < n; i++) pthread_join(t[i], NULL);
  }
  if (w->how == 3) task(arg, n - 1); /* a faulty caller: only the last task is run */
}
static void own_threads(void **state) {
  fixture *f = *state;
  for (int how = 0; how < 4; how++)
    for (int threads = 1; threads <= 8; threads += 7) {
      own w = {.how = how};
      ek_run_options o;
      ek_run *r;
      ek_run_options_init(&o);
      o.threads = threads, o.parallel_for = own_for, o.parallel_user = &w;
      assert_int_equal(ek_run_create_with(f->code, &o, &r), EK_OK);
      for (int i = 0; i < 5; i++) assert_true(works(r, f, 32));
      assert_true(threads == 1 ? w.calls == 0 : w.calls > 0);
      assert_true(w.most <= threads);
      ek_run_destroy(r);
    }
  ek_run_options o;
  ek_run *r;
  ek_run_options_init(&o);
  o.parallel_for = own_for, o.pool = ek_pool_create(2);
  assert_int_equal(ek_run_create_with(f->code, &o, &r), EK_USAGE);
  assert_null(r);
  ek_pool_destroy(o.pool);
  ek_run_options_init(&o);
  o.size = sizeof o + 8;
  assert_int_equal(ek_run_create_with(f->code, &o, &r), EK_USAGE);
}

/* ---- memory ---------------------------------------------------------------------------------- */
typedef struct purse {
  _Atomic size_t live, calls, largest;
  size_t fail_at; /* this call and all later ones; 0: never */
} purse;
static void *purse_alloc(void *user, size_t bytes, size_t align) {
  purse *p = user;
  size_t n = ++p->calls;
  assert_true(bytes > 0 && align <= 64 && (align & (align - 1)) == 0);
  if (p->fail_at && n >= p->fail_at) return NULL;
  uint8_t *m = aligned_alloc(align, (bytes + align - 1) / align * align);
  memset(m, 0xa5, bytes); /* nobody may rely on zeros */
  p->live += bytes;
  if (bytes > p->largest) p->largest = bytes;
  return m;
}
static void purse_free(void *user, void *m, size_t bytes) {
  purse *p = user;
  assert_true(p->live >= bytes);
  memset(m, 0x5a, bytes);
  p->live -= bytes;
  free(m);
}
/* A whole life, from the session to the result, as far as it gets. */
static ek_code whole_life(fixture *f, purse *p, bool *good) {
  ek_session_options so;
  ek_session_options_init(&so);
  so.alloc = purse_alloc, so.free = purse_free, so.alloc_user = p;
  ek_session *s = ek_session_create_with(&so);
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_code e = s ? ek_load(s, DIGITS, &m) : EK_MEMORY;
  if (!e) e = ek_compile(m, NULL, &code);
  if (!e) e = ek_run_create(code, 2, &r);
  if (!e) e = shape(r, 32);
  if (!e) e = ek_run_bind_input(r, 0, f->in);
  if (!e) e = ek_run_execute(r);
  *good = !e && right(r, f, 32);
  if (e && s) assert_non_null(ek_message(s));
  ek_session_destroy(s);
  return e;
}
static void own_allocator(void **state) {
  fixture *f = *state;
  purse p = {0};
  bool good;
  assert_int_equal(whole_life(f, &p, &good), EK_OK);
  assert_true(good);
  assert_int_equal(p.live, 0);
  assert_true(p.largest >= 7296 * 32); /* working memory came from there */
  size_t all = p.calls;
  assert_true(all > 20);
  for (size_t n = 1; n <= all; n += n < 60 ? 1 : all / 40 + 1) { /* none left from call n on */
    p = (purse){.fail_at = n};
    ek_code e = whole_life(f, &p, &good);
    if (e != EK_MEMORY && !(e == EK_OK && good)) fail_msg("allocation %zu of %zu fails: code %d", n, all, (int)e);
    assert_int_equal(p.live, 0);
  }
  ek_session_options o;
  ek_session_options_init(&o);
  o.alloc = purse_alloc;
  assert_null(ek_session_create_with(&o));
  ek_session_options_init(&o);
  o.size = 4096;
  assert_null(ek_session_create_with(&o));
}
static void compiler_limit(void **state) {
  (void)state;
  ek_session_options o;
  ek_session_options_init(&o);
  o.compile_memory = 100000;
  ek_session *s = ek_session_create_with(&o);
  ek_model *m;
  ek_module *code;
  ek_code e = ek_load(s, DIGITS, &m);
  if (!e) e = ek_compile(m, NULL, &code);
  assert_int_equal(e, EK_MEMORY);
  assert_non_null(strstr(ek_message(s), "100000"));
  ek_session_destroy(s);
}
static void run_limit(void **state) {
  fixture *f = *state;
  purse p = {0};
  ek_session_options so;
  ek_session_options_init(&so);
  so.alloc = purse_alloc, so.free = purse_free, so.alloc_user = &p;
  ek_session *s = ek_session_create_with(&so);
  ek_model *m;
  ek_module *code;
  ek_run *r;
  ek_run_options o;
  assert_int_equal(ek_load(s, DIGITS, &m), EK_OK);
  assert_int_equal(ek_compile(m, NULL, &code), EK_OK);
  ek_report rep;
  ek_module_report(code, &rep);
  ek_run_options_init(&o);
  o.threads = 1, o.memory_limit = 100000;
  assert_int_equal(ek_run_create_with(code, &o, &r), EK_OK);
  assert_int_equal(shape(r, 32), EK_OK);
  assert_int_equal(ek_run_bind_input(r, 0, f->in), EK_OK);
  size_t before = p.live;
  assert_int_equal(ek_run_execute(r), EK_MEMORY);
  assert_true(p.live - before < 4096); /* the message at most */
  char value[32];
  snprintf(value, sizeof value, "%lld", (long long)ek_run_memory(r));
  assert_true(ek_run_memory(r) > 100000);
  assert_non_null(strstr(ek_run_message(r), value));
  assert_non_null(strstr(ek_run_message(r), rep.memory));
  assert_non_null(strstr(ek_run_message(r), "100000"));
  assert_true(works(r, f, 8)); /* smaller sizes fit */
  assert_int_equal(shape(r, 32), EK_OK);
  assert_int_equal(ek_run_prepare(r), EK_MEMORY);
  assert_true(works(r, f, 8));
  ek_run_destroy(r);
  /* outputs count where the run has to hold them */
  assert_int_equal(ek_run_create(code, 1, &r), EK_OK);
  assert_int_equal(shape(r, 32), EK_OK);
  assert_int_equal(ek_run_prepare(r), EK_OK);
  o.memory_limit = (uint64_t)ek_run_memory(r) + 100;
  ek_run_destroy(r);
  assert_int_equal(ek_run_create_with(code, &o, &r), EK_OK);
  float out[320];
  assert_int_equal(shape(r, 32), EK_OK);
  assert_int_equal(ek_run_bind_input(r, 0, f->in), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_MEMORY);
  assert_int_equal(ek_run_bind_output(r, 0, out), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_int_equal(ek_run_bind_output(r, 0, NULL), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_MEMORY);
  /* a model whose memory is known is refused when it is compiled, and the limit is that of its runs */
  ek_options co;
  const char *dims[] = {"N=32", NULL};
  ek_module *small = NULL;
  ek_options_init(&co);
  co.dims = dims, co.memory_limit = 1000;
  assert_int_equal(ek_compile(m, &co, &small), EK_MEMORY);
  assert_non_null(strstr(ek_message(s), "1000"));
  co.dims = NULL;
  assert_int_equal(ek_compile(m, &co, &small), EK_OK);
  assert_int_equal(ek_run_create(small, 1, &r), EK_OK);
  assert_int_equal(shape(r, 1), EK_OK);
  assert_int_equal(ek_run_prepare(r), EK_MEMORY);
  ek_session_destroy(s);
  assert_int_equal(p.live, 0);
}

/* ---- open sizes with bounds ------------------------------------------------------------------ */
static void bounded_sizes(void **state) {
  fixture *f = *state;
  ek_options o;
  ek_module *m;
  ek_run *r;
  ek_options_init(&o);
  const char *dims[] = {"N=2:8:16", NULL};
  o.dims = dims;
  if (ek_compile(f->m, &o, &m)) fail_msg("%s", ek_message(f->s));
  ek_tensor_info t;
  assert_int_equal(ek_module_input(m, 0, &t), EK_OK);
  assert_int_equal(t.dims[0], -1);
  assert_int_equal(ek_run_create(m, 2, &r), EK_OK);
  for (int64_t n = 2; n <= 16; n++) assert_true(works(r, f, n)); /* 8 by its variant */
  static const int64_t outside[] = {0, 1, 17, 1000000};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    assert_int_equal(shape(r, outside[i]), EK_OK);
    assert_int_equal(ek_run_execute(r), EK_SHAPE);
    assert_non_null(strstr(ek_run_message(r), "input image: dimension 0 (N) must be in 2..16"));
  }
  assert_true(works(r, f, 16));
  static const char *const bad[] = {"N=8:2:16",
                                    "N=1:8",
                                    "N=1:8:",
                                    "N=1::",
                                    "N=9::8",
                                    "N=::8",
                                    "N=1:8:16:",
                                    "N=1:8:16x",
                                    "N=-1:8:16",
                                    "N=+1",
                                    "N= 1",
                                    "M=1:2:3",
                                    "N=1:2:99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    dims[0] = bad[i];
    if (ek_compile(f->m, &o, &m) != EK_USAGE) fail_msg("%s was accepted", bad[i]);
  }
  ek_report open, bounded; /* one number where all of the range is one number */
  ek_module_report(f->code, &open);
  assert_non_null(strstr(open.memory, "N"));
  for (int likely = 0; likely < 2; likely++) {
    dims[0] = likely ? "N=8:8:8" : "N=8::8";
    assert_int_equal(ek_compile(f->m, &o, &m), EK_OK);
    ek_module_report(m, &bounded);
    assert_null(strstr(bounded.memory, "N"));
  }
}

/* ---- cancelling ------------------------------------------------------------------------------ */
static _Atomic bool over;
static void *cancels(void *p) {
  while (!over) {
    ek_run_cancel(p);
    usleep(50);
  }
  return NULL;
}
static void cancelling(void **state) {
  fixture *f = *state;
  ek_run *r;
  assert_int_equal(ek_run_create(f->code, 2, &r), EK_OK);
  assert_true(works(r, f, 32));
  ek_run_cancel(r);
  assert_int_equal(ek_run_execute(r), EK_CANCELLED);
  assert_string_equal(ek_run_message(r), "cancelled");
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_true(right(r, f, 32));
  pthread_t t;
  int cancelled = 0, whole = 0;
  over = false;
  assert_int_equal(pthread_create(&t, NULL, cancels, r), 0);
  for (int i = 0; i < 3000; i++) {
    ek_code e = ek_run_execute(r);
    assert_true(e == EK_OK || e == EK_CANCELLED);
    if (e)
      cancelled++;
    else
      assert_true(right(r, f, 32)), whole++;
  }
  over = true;
  pthread_join(t, NULL);
  assert_true(cancelled > 0 && whole > 0);
  ek_run_execute(r);
  assert_true(works(r, f, 5));
}

/* ---- fork ------------------------------------------------------------------------------------ */
static void forking(void **state) {
  fixture *f = *state;
  ek_run *r;
  assert_int_equal(ek_run_create(f->code, 2, &r), EK_OK);
  assert_true(works(r, f, 32));
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      bool good = true;
      for (int k = 0; k < 5; k++) good = good && works(r, f, 1 + k);
#ifndef __SANITIZE_ADDRESS__
      ek_run *own; /* and what it makes itself */
      ek_module *m;
      good =
          good && ek_run_create(f->code, 3, &own) == EK_OK && works(own, f, 32) && ek_compile(f->m, NULL, &m) == EK_OK;
      ek_session_destroy(f->s);
#endif
      _exit(good ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(works(r, f, 32));
  }
}

/* ---- the environment ------------------------------------------------------------------------- */
static void environment(void **state) {
  fixture *f = *state;
  const char *had = getenv("EINKORN_NUM_THREADS");
  char *keep = had ? strdup(had) : NULL;
  unsetenv("EINKORN_NUM_THREADS");
  int cpus = ek_threads();
  assert_true(cpus >= 1);
  setenv("EINKORN_NUM_THREADS", "5", 1);
  assert_int_equal(ek_threads(), 5);
  ek_module *m;
  ek_run *r;
  assert_int_equal(ek_compile(f->m, NULL, &m), EK_OK);
  assert_int_equal(ek_run_create(m, 0, &r), EK_OK);
  assert_int_equal(ek_run_threads(r), 5);
  assert_true(works(r, f, 32));
  static const char *const no[] = {"", "0", "-3", "two", "7x", "99999999999999999999"};
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
    setenv("EINKORN_NUM_THREADS", no[i], 1);
    assert_int_equal(ek_threads(), cpus);
  }
  keep ? setenv("EINKORN_NUM_THREADS", keep, 1) : unsetenv("EINKORN_NUM_THREADS");
  free(keep);
  assert_string_equal(ek_version(), EK_VERSION);
  for (int i = EK_OK; i <= EK_CANCELLED; i++) assert_true(strlen(ek_code_name((ek_code)i)) > 3);
  assert_string_equal(ek_code_name((ek_code)99), "unknown code");
}
/* ---- where the time goes: every launch once, with the sizes of the run, and the same results ---- */
static void test_kernels(void **state) {
  fixture *f = *state;
  ek_module *m;
  ek_run *r;
  const ek_kernel *k;
  size_t n;
  ek_options o;
  assert_int_equal(ek_run_create(f->code, 1, &r), EK_OK);
  assert_int_equal(ek_run_kernels(r, &k, &n), EK_USAGE);
  assert_non_null(strstr(ek_run_message(r), "profile"));
  ek_options_init(&o);
  o.profile = 1;
  o.accuracy = EK_ACCURACY_STRICT; /* windows as they stand */
  assert_int_equal(ek_compile(f->m, &o, &m), EK_OK);
  for (int threads = 1; threads <= 2; threads++) {
    assert_int_equal(ek_run_create(m, threads, &r), EK_OK);
    assert_int_equal(ek_run_kernels(r, &k, &n), EK_USAGE); /* not executed */
    double ops[2] = {0}, weights[2] = {0};
    for (int batch = 1; batch <= 2; batch++) {
      assert_true(works(r, f, batch));
      assert_int_equal(ek_run_kernels(r, &k, &n), EK_OK);
      ek_report rep;
      ek_module_report(m, &rep);
      assert_int_equal(n, rep.kernels);
      for (size_t i = 0; i < n; i++) {
        assert_int_equal(k[i].starts, 1);
        assert_true(k[i].ms >= 0 && k[i].ops > 0 && k[i].bytes > 0);
        assert_true(*k[i].name && *k[i].kind && *k[i].nodes);
        ops[batch - 1] += k[i].ops, weights[batch - 1] += k[i].weight_bytes;
      }
    }
    assert_true(ops[0] > 2 * 137472 && ops[1] == 2 * ops[0]); /* MACs of one picture */
    assert_true(weights[0] > 20000 && weights[1] == weights[0]);
  }
  ek_module_close(m);
}
/* ---- by name, and numpy's files ---- */
static void by_name(void **state) {
  fixture *f = *state;
  ek_run *r;
  ek_array y, all[2];
  float mine[20];
  int64_t dims[] = {2, 1, 8, 8}, wrong[] = {2, 1, 8, 9};
  assert_int_equal(ek_module_find_input(f->code, "image"), 0);
  assert_int_equal(ek_module_find_output(f->code, "scores"), 0);
  assert_int_equal(ek_module_find_input(f->code, "scores"), -1);
  assert_int_equal(ek_module_find_output(NULL, "scores"), -1);
  assert_int_equal(ek_run_create(f->code, 1, &r), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_SHAPE); /* what is missing, and which call gives it */
  assert_non_null(strstr(ek_run_message(r), "'image'"));
  assert_non_null(strstr(ek_run_message(r), "ek_run_set_input"));
  assert_int_equal(ek_run_shape(r, 0, dims, 4), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_USAGE);
  assert_string_equal(ek_run_message(r), "input 'image' has no data: call ek_run_bind_input or ek_run_set_input");
  assert_int_equal(ek_run_get_output(r, "scores", &y), EK_USAGE);
  assert_non_null(strstr(ek_run_message(r), "ek_run_execute"));
  assert_int_equal(ek_run_set_input(r, "picture", f->in, 512, dims, 4), EK_USAGE);
  assert_non_null(strstr(ek_run_message(r), "it has image"));
  assert_int_equal(ek_run_set_input(r, "image", f->in, 512, wrong, 4), EK_SHAPE);
  assert_int_equal(ek_run_set_input(r, "image", f->in, 512, dims, 3), EK_SHAPE);
  assert_int_equal(ek_run_set_input(r, "image", f->in, 511, dims, 4), EK_SHAPE);
  assert_non_null(strstr(ek_run_message(r), "512 bytes"));
  assert_int_equal(ek_run_set_input(r, "image", NULL, 512, dims, 4), EK_USAGE);
  assert_int_equal(ek_run_set_input(NULL, "image", f->in, 512, dims, 4), EK_USAGE);
  assert_int_equal(ek_run_set_input(r, "image", f->in, 512, dims, 4), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_true(right(r, f, 2));
  assert_int_equal(ek_run_get_output(r, "scores", &y), EK_OK);
  assert_true(y.type == EK_FLOAT && y.rank == 2 && y.dims[0] == 2 && y.dims[1] == 10 && y.bytes == 80);
  assert_int_equal(ek_run_get_output(r, "score", &y), EK_USAGE);
  assert_int_equal(ek_run_set_output(r, "scores", mine, 79), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_MEMORY);
  assert_non_null(strstr(ek_run_message(r), "80 bytes, 79"));
  assert_int_equal(ek_run_set_output(r, "scores", mine, sizeof mine), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_ptr_equal(ek_run_output_data(r, 0), mine);
  assert_true(right(r, f, 2));

  char dir[] = "/tmp/einkorn-arrays-XXXXXX", path[64];
  ek_arrays *file;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/a.npz", dir);
  assert_int_equal(ek_run_get_output(r, "scores", &all[0]), EK_OK);
  all[1] = (ek_array){.name = "image", .type = EK_FLOAT, .rank = 4, .data = f->in, .bytes = 512};
  memcpy(all[1].dims, dims, sizeof dims);
  assert_int_equal(ek_arrays_save(f->s, path, all, 2), EK_OK);
  assert_int_equal(ek_arrays_load(f->s, path, &file), EK_OK);
  assert_int_equal(ek_arrays_count(file), 2);
  assert_int_equal(ek_arrays_find(file, "image", &y), EK_OK);
  assert_true(y.rank == 4 && y.dims[0] == 2 && y.bytes == 512 && !memcmp(y.data, f->in, 512));
  assert_int_equal(ek_run_set_input(r, "image", y.data, y.bytes, y.dims, y.rank), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_true(right(r, f, 2));
  assert_int_equal(ek_arrays_find(file, "imag", &y), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "did you mean image?"));
  assert_int_equal(ek_arrays_get(file, 2, &y), EK_USAGE);
  all[1].bytes = 508;
  assert_int_equal(ek_arrays_save(f->s, path, all, 2), EK_SHAPE);
  ek_arrays_close(file);
  unlink(path);
  assert_int_equal(ek_arrays_load(f->s, path, &file), EK_IO);
  assert_null(file);
  rmdir(dir);

  assert_int_equal(ek_arrays_load(f->s, EK_SOURCE_DIR "/examples/digits/test-images.idx", &file), EK_OK);
  assert_int_equal(ek_arrays_get(file, 0, &y), EK_OK);
  assert_true(y.type == EK_UINT8 && y.rank == 3 && y.dims[0] == 450 && y.dims[2] == 8 && y.bytes == 450 * 64);
  assert_int_equal(((const uint8_t *)y.data)[4], 15);
  ek_run_destroy(r);
}
/* ---- values on the way become outputs ---- */
static void watching(void **state) {
  fixture *f = *state;
  const ek_value_info *v;
  size_t n;
  ek_options o;
  ek_module *code, *eval;
  ek_run *r[2];
  ek_array a[2];
  const char *two[] = {"logits", "conv2", NULL}, *all[] = {"*", NULL}, *none[] = {"conv9", NULL};
  assert_int_equal(ek_model_values(f->m, &v, &n), EK_OK);
  assert_true(n > 8 && v[n - 1].output == 0 && !strcmp(v[n - 1].name, "scores") && !strcmp(v[0].node, "scale_input"));
  ek_options_init(&o);
  o.watch = two, o.cache = "";
  assert_int_equal(ek_compile(f->m, &o, &code), EK_OK);
  /* outputs stand in the order of the nodes, behind the model's own */
  assert_int_equal(ek_module_outputs(code), 3);
  assert_int_equal(ek_module_find_output(code, "b"), 1);
  assert_int_equal(ek_module_find_output(code, "logits"), 2);
  ek_module_close(code);
  o.watch = none;
  assert_int_equal(ek_compile(f->m, &o, &code), EK_USAGE);
  assert_non_null(strstr(ek_message(f->s), "did you mean conv1?"));
  o.watch = all;
  assert_int_equal(ek_compile(f->m, &o, &code), EK_OK);
  o.evaluate = 1;
  assert_int_equal(ek_compile(f->m, &o, &eval), EK_OK);
  assert_int_equal(ek_module_outputs(code), (int)n);
  int64_t dims[] = {2, 1, 8, 8};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ek_run_create(i ? eval : code, 1, &r[i]), EK_OK);
    assert_int_equal(ek_run_set_input(r[i], "image", f->in, 512, dims, 4), EK_OK);
    assert_int_equal(ek_run_execute(r[i]), EK_OK);
    assert_true(right(r[i], f, 2));
  }
  for (size_t k = 0; k < n; k++) { /* each the same, compiled and evaluated */
    for (int i = 0; i < 2; i++) assert_int_equal(ek_run_get_output(r[i], v[k].name, &a[i]), EK_OK);
    assert_true(a[0].bytes == a[1].bytes && a[0].type == EK_FLOAT);
    for (size_t e = 0; e < a[0].bytes / 4; e++) {
      float x = ((const float *)a[0].data)[e], y = ((const float *)a[1].data)[e];
      if (!(fabsf(x - y) <= 1e-4f + 1e-3f * fabsf(y))) fail_msg("%s: %g and %g", v[k].name, x, y);
    }
  }
  ek_run_destroy(r[0]), ek_run_destroy(r[1]);
}
/* A caller's struct may be shorter, or longer, than ours. */
static void sizes_of_structs(void **state) {
  (void)state;
  for (size_t n = 0; n <= sizeof(ek_options) + 16; n += 8) {
    char room[256];
    memset(room, 0x5a, sizeof room);
    ek_options_init_sized((void *)room, n);
    for (size_t i = n; i < sizeof room; i++) assert_int_equal(room[i], 0x5a);
    if (n >= 16) assert_int_equal(((ek_options *)room)->size, n);
    if (n >= 16) assert_int_equal(((ek_options *)room)->optimize, 3);
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      T(many_threads), T(saved_too),     T(own_threads), T(own_allocator),    T(compiler_limit),
      T(run_limit),    T(bounded_sizes), T(cancelling),  T(forking),          T(environment),
      T(test_kernels), T(by_name),       T(watching),    T(sizes_of_structs),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
