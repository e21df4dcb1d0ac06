/* The cache of compiled code: what is found again, what is not, and that nothing that lies in its folder can do
 * harm. */
#include "codegen/image/image.h"
#include "driver/cache.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* after the standard headers */
#include <cmocka.h>

#define DIGITS EK_SOURCE_DIR "/examples/digits/digits.onnx"
static const char tiny[] = "graph \"tiny\" ir 8 opset 17 {\n  input x: f32[N, 4]\n  const w: f32[4] = [1.0, 2.0, 3.0, "
                           "4.0]\n  y: f32[N, 4] = Mul(x, w)\n  z: f32[N, 4] = Exp(y)\n  output z\n}\n";

/* ---- a folder of our own, and what happened -------------------------------------------------- */
static char work[64], folder_[96], path_[256], said[20000];
static const char *in_work(const char *name) {
  snprintf(path_, sizeof path_, "%s/%s", work, name);
  return path_;
}
static void on_log(void *user, int level, const char *text) {
  (void)user, (void)level;
  size_t n = strlen(said);
  snprintf(said + n, sizeof said - n, "%s\n", text);
}
static void empty_folder(const char *dir) {
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      if (unlinkat(dirfd(d), e->d_name, 0)) unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
  if (d) closedir(d);
}
static int entries(char name[300], int *others) { /* how many; the last one's path */
  DIR *d = opendir(folder_);
  int n = 0;
  if (others) *others = 0;
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    size_t k = strlen(e->d_name);
    if (k == 67 && !strcmp(e->d_name + 64, ".ek")) {
      n++;
      if (name) snprintf(name, 300, "%s/%.70s", folder_, e->d_name);
    } else if (k > 2 && others)
      ++*others;
  }
  if (d) closedir(d);
  return n;
}
static int setup(void **state) {
  (void)state;
  const char *tmp = getenv("TMPDIR");
  snprintf(work, sizeof work, "%.30s/einkorn_cache_XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(work)) return -1;
  snprintf(folder_, sizeof folder_, "%s/cache", work);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  chmod(folder_, 0700);
  empty_folder(folder_);
  empty_folder(work);
  return rmdir(work);
}

/* ---- compiling and running ------------------------------------------------------------------- */
typedef struct made {
  ek_session *s;
  ek_model *model;
  ek_module *code;
  ek_report rep;
  float out[64];
  int n;
} made;
static void give_back(made *k) { ek_session_destroy(k->s); }
/* model: a path, or NULL for `data`. The first 64 values of its first output, from an input of 3 rows of small
 * numbers. */
static made make(const char *model, const char *data, ek_options *o, const char *ops) {
  made k = {.s = ek_session_create()};
  ek_run *r;
  said[0] = 0;
  ek_set_log(k.s, on_log, NULL);
  if (ops) assert_int_equal(ek_load_ops(k.s, ops), EK_OK);
  assert_int_equal(model ? ek_load(k.s, model, &k.model) : ek_load_memory(k.s, data, strlen(data), "tiny", &k.model),
                   EK_OK);
  if (ek_compile(k.model, o, &k.code)) fail_msg("%s", ek_message(k.s));
  ek_module_report(k.code, &k.rep);
  assert_int_equal(ek_run_create(k.code, 0, &r), EK_OK);
  int64_t dims[16], n = 1;
  ek_tensor_info t;
  assert_int_equal(ek_module_input(k.code, 0, &t), EK_OK);
  for (int i = 0; i < t.rank; i++) n *= dims[i] = t.dims[i] < 0 ? 3 : t.dims[i];
  assert_int_equal(ek_run_shape(r, 0, dims, t.rank), EK_OK);
  float *x = malloc((size_t)n * sizeof *x + 64);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 17) * 0.05f;
  assert_int_equal(ek_run_bind_input(r, 0, x), EK_OK);
  if (ek_run_execute(r)) fail_msg("%s", ek_run_message(r));
  int64_t out[16];
  int32_t rank;
  ek_run_output_dims(r, 0, out, &rank);
  n = 1;
  for (int i = 0; i < rank; i++) n *= out[i];
  k.n = n > 64 ? 64 : (int)n;
  memcpy(k.out, ek_run_output_data(r, 0), (size_t)k.n * sizeof(float));
  free(x);
  return k;
}
static ek_options options(void) {
  ek_options o;
  ek_options_init(&o);
  o.cache = folder_, o.threads = 2, o.compile_threads = 1;
  return o;
}
/* Was it found? */
static int found(const char *model, const char *data, ek_options *o, const char *ops) {
  made k = make(model, data, o, ops);
  int was = k.rep.cached;
  give_back(&k);
  return was;
}
static bytes slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  uint8_t *p = malloc(n + 1);
  rewind(f);
  assert_int_equal(fread(p, 1, n, f), n);
  fclose(f);
  return (bytes){p, n};
}
static void spill(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(p, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* ---- what names things ----------------------------------------------------------------------- */
static void test_digest(void **state) {
  (void)state;
  static const struct {
    size_t n;
    const char *hex;
  } known[] = {/* BLAKE3 of the bytes i % 251 */
               {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
               {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
               {63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"},
               {65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"},
               {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
               {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
               {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
               {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"},
               {5000, "ee78d92070de3df1c57c37002abf0a6b1a6589acdeef4d8ffac7cf3d9e8f2836"},
               {16384, "f875d6646de28985646f34ee13be9a576fd515f76b5b0a26bb324735041ddde4"},
               {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
               {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
               {1000003, "cd5a3272e01b1a2f47bb4565d8d202db0f95704d32550a2da61a0fd363d4c90d"}};
  uint8_t *p = malloc(1000003), d[32];
  for (size_t i = 0; i < 1000003; i++) p[i] = (uint8_t)(i % 251);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    char hex[65];
    content_digest(p, known[i].n, d);
    for (int k = 0; k < 32; k++) snprintf(hex + 2 * k, 3, "%02x", d[k]);
    assert_string_equal(hex, known[i].hex);
  }
  free(p);
}
static void test_files(void **state) { /* which of them a name means is part of the digest */
  (void)state;
  uint8_t d[3][32];
  char a[128], b[128];
  spill(in_work("a"), "one", 3);
  spill(in_work("b"), "two", 3);
  snprintf(a, sizeof a, "%s/a", work), snprintf(b, sizeof b, "%s/b", work);
  for (int i = 0; i < 3; i++) {
    ctx *c = ctx_new();
    CTX_TRY(c) {
      bytes f;
      assert_true(file_map(c, a, &f) && file_map(c, b, &f) && file_map(c, i == 1 ? b : a, &f));
      file_digest(c, d[i]);
    }
    CTX_CATCH { fail(); }
    ctx_free(c);
  }
  assert_memory_equal(d[0], d[2], 32);
  assert_memory_not_equal(d[0], d[1], 32);
}

/* ---- found again ----------------------------------------------------------------------------- */
static void test_hit(void **state) {
  (void)state;
  ek_options o = options();
  made a = make(DIGITS, NULL, &o, NULL), b = make(DIGITS, NULL, &o, NULL);
  assert_false(a.rep.cached);
  if (entries(NULL, NULL) == 0 && strstr(said, "not kept")) skip(); /* a processor for which there are no images */
  assert_true(b.rep.cached);
  assert_int_equal(entries(NULL, NULL), 1);
  assert_int_equal(a.n, 30);
  assert_memory_equal(a.out, b.out, (size_t)a.n * sizeof(float));
  assert_string_equal(a.rep.memory, b.rep.memory);
  assert_int_equal(a.rep.kernels, b.rep.kernels);
  assert_int_equal(a.rep.functions, b.rep.functions);
  assert_int_equal(a.rep.weight_bytes, b.rep.weight_bytes);
  assert_int_equal(a.rep.code_bytes, b.rep.code_bytes);
  assert_true(b.rep.passes_ms == 0 && b.rep.code_ms == 0 && b.rep.schedule_ms == 0);
  assert_int_equal(ek_module_inputs(b.code), 1);
  ek_tensor_info t, u;
  assert_int_equal(ek_module_input(a.code, 0, &t) | ek_module_input(b.code, 0, &u), EK_OK);
  assert_string_equal(t.name, u.name);
  assert_string_equal(t.dim_names[0], u.dim_names[0]);
  ek_model_close(b.model); /* the module needs neither model nor folder */
  empty_folder(folder_);
  ek_run *r;
  assert_int_equal(ek_run_create(b.code, 1, &r), EK_OK);
  assert_int_equal(ek_run_shape(r, 0, (int64_t[]){0, 1, 8, 8}, 4), EK_OK);
  assert_int_equal(ek_run_execute(r), EK_OK);
  assert_int_not_equal(ek_run_shape(r, 0, (int64_t[]){1, 1, 8, 9}, 4), EK_OK);
  give_back(&a), give_back(&b);
}
static void test_memory_limit(void **state) { /* holds for what is found as well */
  (void)state;
  ek_options o = options();
  o.dims = (const char *const[]){"N=3", NULL};
  assert_false(found(DIGITS, NULL, &o, NULL));
  made k = make(DIGITS, NULL, &o, NULL);
  ek_module *code;
  o.memory_limit = 100;
  assert_int_equal(ek_compile(k.model, &o, &code), EK_MEMORY);
  assert_null(code);
  assert_non_null(strstr(ek_message(k.s), "the limit is 100 bytes"));
  give_back(&k);
}
static void test_memory(void **state) { /* models in memory; found by another session; nothing without being asked */
  (void)state;
  ek_options o = options();
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  o.cache = NULL;
  assert_false(found(NULL, tiny, &o, NULL));
  assert_int_equal(entries(NULL, NULL), 1);
}
static void test_key(void **state) {
  (void)state;
  ek_options o = options();
  assert_false(found(NULL, tiny, &o, NULL));
  o.threads = 1, o.compile_threads = 2;
  assert_true(found(NULL, tiny, &o, NULL));
  o.optimize = 1;
  assert_false(found(NULL, tiny, &o, NULL));
  assert_non_null(strstr(said, "has this model for another level of optimisation"));
  assert_true(found(NULL, tiny, &o, NULL));
  o.optimize = 3, o.dims = (const char *const[]){"N=3", NULL};
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  o.dims = (const char *const[]){"N=2", NULL};
  assert_false(found(NULL, tiny, &o, NULL));
  o.dims = NULL, o.target = "x86-64";
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  const char *path = EK_BINARY_DIR "/cached.target";
  static const char *const costs[] = {"1.5", "2.5"}; /* same length */
  for (size_t i = 0; i < 2; i++) {                   /* any field of a target counts */
    char text[100];
    int n = snprintf(text, sizeof text, "extends = x86-64\nloads_per_cycle = %s\n", costs[i]);
    spill(path, text, (size_t)n);
    o.target = path;
    assert_false(found(NULL, tiny, &o, NULL));
    if (i) assert_non_null(strstr(said, "has this model for a target with other fields"));
    assert_true(found(NULL, tiny, &o, NULL));
  }
  remove(path);
  o.target = NULL;
  for (int a = EK_ACCURACY_STRICT; a <= EK_ACCURACY_FAST; a++) {
    o.accuracy = (ek_accuracy)a;
    assert_false(found(NULL, tiny, &o, NULL));
    assert_true(found(NULL, tiny, &o, NULL));
  }
  o.accuracy = EK_ACCURACY_DEFAULT;
  o.codegen = EK_CODEGEN_LLVM;
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  o.codegen = EK_CODEGEN_AUTO;
  char other[sizeof tiny];
  memcpy(other, tiny, sizeof tiny);
  *strstr(other, "4.0]") = '5';
  assert_false(found(NULL, other, &o, NULL));
  assert_non_null(strstr(said, "does not have this model yet"));
  assert_true(found(NULL, tiny, &o, NULL));
  for (int i = 0; i < 4; i++) { /* these are about the compilation itself */
    ek_options w = options();
    if (i == 0) w.verify = 1;
    if (i == 1) w.evaluate = 1;
    if (i == 2) w.fuel = 1000000;
    if (i == 3) w.evaluate = 2;
    assert_false(found(NULL, tiny, &w, NULL));
  }
}
static void test_key_files(void **state) { /* contents count, names and times do not */
  (void)state;
  ek_options o = options();
  bytes m = slurp(EK_SOURCE_DIR "/tests/models/external_data.onnx"),
        d = slurp(EK_SOURCE_DIR "/tests/models/external_data.data");
  char model[128], data[128], copy[128], ops[128];
  snprintf(model, sizeof model, "%s/m.onnx", work), snprintf(data, sizeof data, "%s/external_data.data", work),
      snprintf(copy, sizeof copy, "%s/n.onnx", work), snprintf(ops, sizeof ops, "%s/o.ek", work);
  spill(model, m.p, m.n), spill(data, d.p, d.n);
  struct stat st;
  assert_int_equal(stat(data, &st), 0);
  made a = make(model, NULL, &o, NULL);
  assert_false(a.rep.cached);
  assert_true(found(model, NULL, &o, NULL));
  spill(copy, m.p, m.n);
  assert_true(found(copy, NULL, &o, NULL));
  ((uint8_t *)(uintptr_t)d.p)[3] ^= 0x80; /* the sign of a weight; as long as before, and dated back */
  spill(data, d.p, d.n);
  assert_int_equal(utimensat(AT_FDCWD, data, (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
  made b = make(model, NULL, &o, NULL);
  assert_false(b.rep.cached);
  assert_memory_not_equal(a.out, b.out, (size_t)a.n * sizeof(float));
  ((uint8_t *)(uintptr_t)d.p)[3] ^= 0x80;
  spill(data, d.p, d.n);
  assert_true(found(model, NULL, &o, NULL));
  /* operators of the user, whether the model has them or not */
  bytes op = slurp(EK_SOURCE_DIR "/examples/ops/local_attention.ek");
  spill(ops, op.p, op.n);
  assert_false(found(model, NULL, &o, ops));
  assert_true(found(model, NULL, &o, ops));
  FILE *more = fopen(ops, "a");
  fputs("\n# different\n", more);
  fclose(more);
  assert_false(found(model, NULL, &o, ops));
  give_back(&a), give_back(&b);
  free((void *)(uintptr_t)m.p), free((void *)(uintptr_t)d.p), free((void *)(uintptr_t)op.p);
}

/* ---- what may lie in the folder -------------------------------------------------------------- */
/* Only tries to load, without compiling when that fails. */
static bool loads(ek_model *model, const ek_options *o) {
  ctx *c = ctx_new();
  ek_module m = {.s = model->s, .kind = MODULE_JIT};
  volatile bool good = false;
  CTX_TRY(c) {
    pipe_opts po;
    cache *k = options_read(c, model->s, o, &po) ? cache_begin(c, model, o, &po) : NULL;
    assert_non_null(k);
    good = cache_load(k, &m);
    cache_end(k);
  }
  CTX_CATCH { fail(); }
  image_free(m.code);
  if (m.mapped.n) munmap((void *)(uintptr_t)m.mapped.p, m.mapped.n);
  ctx_free(c);
  return good;
}
static void test_damage(void **state) {
  (void)state;
  ek_options o = options();
  char name[300];
  made a = make(NULL, tiny, &o, NULL);
  if (entries(name, NULL) != 1) skip();
  assert_true(loads(a.model, &o));
  bytes f = slurp(name);
  uint8_t *p = (uint8_t *)(uintptr_t)f.p;
  size_t end = f.n; /* behind the weights there is nothing but padding */
  while (end && !p[end - 1]) end--;
  /* one bit at a time, in all of the head and the weights */
  for (size_t i = 0; i < end; i += i < 600 || i + 200 > end ? 1 : 131) {
    p[i] ^= (uint8_t)(1u << i % 8);
    spill(name, p, f.n);
    chmod(name, 0600);
    if (loads(a.model, &o)) fail_msg("a wrong bit in byte %zu of %zu is not noticed", i, f.n);
    p[i] ^= (uint8_t)(1u << i % 8);
  }
  for (size_t n = 0; n < f.n; n += n < 300 ? 7 : 509) { /* truncated */
    spill(name, p, n);
    if (loads(a.model, &o)) fail_msg("%zu bytes of %zu are taken for an entry", n, f.n);
  }
  uint8_t *longer = calloc(1, f.n + 4096);
  memcpy(longer, p, f.n);
  spill(name, longer, f.n + 4096);
  assert_false(loads(a.model, &o));
  free(longer);
  static const char foreign[] = "something else altogether";
  spill(name, foreign, sizeof foreign);
  assert_false(loads(a.model, &o));
  assert_false(found(NULL, tiny, &o, NULL)); /* is made anew */
  assert_non_null(strstr(said, "is not used"));
  assert_true(found(NULL, tiny, &o, NULL));
  assert_int_equal(chmod(name, 0622), 0); /* others may have written it */
  assert_false(loads(a.model, &o));
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  char away[300];
  snprintf(away, sizeof away, "%s/away", work);
  assert_int_equal(rename(name, away), 0); /* a link to a good one */
  assert_int_equal(symlink(away, name), 0);
  assert_false(loads(a.model, &o));
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  assert_int_equal(unlink(name), 0);
  assert_int_equal(mkdir(name, 0700), 0); /* not a file */
  assert_false(loads(a.model, &o));
  assert_false(found(NULL, tiny, &o, NULL));
  assert_int_equal(rmdir(name), 0);
  assert_int_equal(mkfifo(name, 0600), 0); /* must not wait for a writer */
  assert_false(loads(a.model, &o));
  assert_int_equal(unlink(name), 0);
  o.optimize = 1; /* a good entry under another one's name */
  assert_false(found(NULL, tiny, &o, NULL));
  char low[300];
  assert_int_equal(entries(low, NULL), 1);
  assert_int_equal(rename(low, name), 0);
  o.optimize = 3;
  assert_false(loads(a.model, &o));
  free(p);
  give_back(&a);
}
static void test_image(void **state) { /* the block behind the digests, as if they agreed */
  (void)state;
  ek_options o = options();
  char name[300];
  made a = make(DIGITS, NULL, &o, NULL);
  if (entries(name, NULL) != 1) skip();
  bytes f = slurp(name);
  size_t at = 4096;
  while (at + 4096 < f.n && memcmp(f.p + at, "EIM1", 4) != 0) at += 4096;
  const char *why;
  size_t n = 0;
  uint32_t h[6];
  memcpy(h, f.p + at, sizeof h);
  n = 32 + (size_t)h[1] + h[2] + (size_t)h[3] * 16 + (size_t)h[4] * 4 + h[5];
  image *i = image_load((bytes){f.p + at, n}, &why);
  assert_non_null(i);
  assert_non_null(image_entry(i, 0));
  assert_null(image_entry(i, h[4]));
  image_free(i);
  uint8_t *q = malloc(n);
  uint64_t seed = 88172645463325252ull;
  for (int k = 0; k < 20000; k++) {
    memcpy(q, f.p + at, n);
    for (int j = 0; j < 3; j++) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      size_t tables = n - 32 - h[1] - h[2], where = seed % (32 + tables);
      q[where < 32 ? where : where + h[1] + h[2]] = (uint8_t)(seed >> 32);
    }
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    size_t m = k % 4 ? n : seed % (n + 1);
    image_free(image_load((bytes){q, m}, &why));
  }
  free(q);
  free((void *)(uintptr_t)f.p);
  give_back(&a);
}
static void test_folder(void **state) {
  (void)state;
  ek_options o = options();
  assert_false(found(NULL, tiny, &o, NULL));
  struct stat st;
  char name[300];
  assert_int_equal(stat(folder_, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  if (entries(name, NULL) != 1) skip();
  assert_int_equal(stat(name, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0600);
  assert_true(found(NULL, tiny, &o, NULL));
  for (int i = 0; i < 3; i++) { /* others could have put something there */
    assert_int_equal(chmod(folder_, (mode_t[]){0777, 0720, 0702}[i]), 0);
    assert_false(found(NULL, tiny, &o, NULL));
    assert_non_null(strstr(said, "others may write"));
  }
  assert_int_equal(chmod(folder_, 0700), 0);
  assert_true(found(NULL, tiny, &o, NULL));
  if (geteuid() == 0) {
    assert_int_equal(chown(folder_, 12345, 12345), 0);
    assert_false(found(NULL, tiny, &o, NULL));
    assert_non_null(strstr(said, "belongs to another user"));
    assert_int_equal(chown(folder_, 0, 0), 0);
    assert_int_equal(chown(name, 12345, 12345), 0);
    assert_false(found(NULL, tiny, &o, NULL));
    assert_non_null(strstr(said, "belongs to another user"));
    assert_true(found(NULL, tiny, &o, NULL));
  } else { /* the cache's folder may be read, not written */
    assert_int_equal(chmod(folder_, 0500), 0);
    assert_true(found(NULL, tiny, &o, NULL));
    o.optimize = 1;
    assert_false(found(NULL, tiny, &o, NULL));
    assert_int_equal(entries(NULL, NULL), 1);
    assert_int_equal(chmod(folder_, 0700), 0);
  }
  static const char *const nowhere[] = {"/proc/self/einkorn", "/dev/null", "/dev/null/x"};
  for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
    o.cache = nowhere[i];
    assert_false(found(NULL, tiny, &o, NULL));
    assert_non_null(strstr(said, "cache: not used"));
  }
  char odd[200];
  snprintf(odd, sizeof odd, "%s/line\n/..", folder_);
  o.cache = odd;
  found(NULL, tiny, &o, NULL);
  assert_true(found(NULL, tiny, &o, NULL));
  odd[strlen(odd) - 3] = 0;
  rmdir(odd);
}
static void test_environment(void **state) {
  (void)state;
  ek_options o = options();
  char xdg[128], home[128], sub[200];
  snprintf(xdg, sizeof xdg, "%s/xdg", work), snprintf(home, sizeof home, "%s/home", work);
  o.cache = "";
  unsetenv("EINKORN_CACHE_DIR"), unsetenv("XDG_CACHE_HOME"), unsetenv("HOME"), unsetenv("EINKORN_CACHE_SIZE");
  assert_false(found(NULL, tiny, &o, NULL));
  assert_non_null(strstr(said, "nor HOME says where"));
  assert_int_equal(mkdir(home, 0755), 0);
  setenv("HOME", home, 1);
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  snprintf(sub, sizeof sub, "%s/.cache/einkorn", home);
  assert_int_equal(access(sub, F_OK), 0);
  setenv("XDG_CACHE_HOME", xdg, 1);
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  empty_folder(sub), rmdir(sub), snprintf(sub, sizeof sub, "%s/.cache", home), rmdir(sub), rmdir(home);
  snprintf(sub, sizeof sub, "%s/einkorn", xdg);
  assert_int_equal(access(sub, F_OK), 0);
  empty_folder(sub), rmdir(sub), rmdir(xdg);
  setenv("EINKORN_CACHE_DIR", folder_, 1);
  assert_false(found(NULL, tiny, &o, NULL));
  setenv("EINKORN_CACHE_SIZE", "1.5 lines", 1);
  assert_false(found(NULL, tiny, &o, NULL));
  assert_non_null(strstr(said, "EINKORN_CACHE_SIZE is not a number"));
  setenv("EINKORN_CACHE_SIZE", "0", 1);
  assert_false(found(NULL, tiny, &o, NULL));
  setenv("EINKORN_CACHE_SIZE", "100", 1);
  empty_folder(folder_);
  assert_false(found(NULL, tiny, &o, NULL));
  assert_non_null(strstr(said, "more than the limit"));
  assert_int_equal(entries(NULL, NULL), 0);
  setenv("EINKORN_CACHE_SIZE", "2MiB", 1);
  assert_false(found(NULL, tiny, &o, NULL));
  assert_true(found(NULL, tiny, &o, NULL));
  unsetenv("EINKORN_CACHE_SIZE"), unsetenv("EINKORN_CACHE_DIR"), unsetenv("XDG_CACHE_HOME");
}
static void age(const char *name, int hours) {
  time_t t = time(NULL) - hours * 3600;
  assert_int_equal(utimensat(AT_FDCWD, name, (struct timespec[]){{t, 0}, {t, 0}}, 0), 0);
}
static void test_limit(void **state) {
  (void)state;
  ek_options o = options();
  char first[300], second[300], other[300], foreign[300];
  assert_false(found(NULL, tiny, &o, NULL));
  if (entries(first, NULL) != 1) skip();
  struct stat st;
  assert_int_equal(stat(first, &st), 0);
  o.optimize = 1;
  assert_false(found(NULL, tiny, &o, NULL));
  DIR *d = opendir(folder_);
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    if (strlen(e->d_name) == 67 && !strstr(first, e->d_name))
      snprintf(second, sizeof second, "%s/%.70s", folder_, e->d_name);
  closedir(d);
  snprintf(other, sizeof other, "%s/.tmp-1-00", folder_), snprintf(foreign, sizeof foreign, "%s/notes.txt", folder_);
  spill(other, "left behind", 11), spill(foreign, "mine", 4);
  age(other, 30), age(foreign, 300);
  age(first, 20), age(second, 10);
  o.optimize = 3;
  assert_true(found(NULL, tiny, &o, NULL)); /* was used now: the second one is the oldest */
  o.optimize = 2, o.cache_bytes = (uint64_t)st.st_size * 5 / 2;
  assert_false(found(NULL, tiny, &o, NULL));
  assert_int_equal(entries(NULL, NULL), 2);
  assert_int_equal(access(first, F_OK), 0);
  assert_int_not_equal(access(second, F_OK), 0);
  assert_int_not_equal(access(other, F_OK), 0);
  assert_int_equal(access(foreign, F_OK), 0); /* not ours */
}
static void test_file_size(void **state) { /* The limit of a file's size stands for a full disk. */
  (void)state;
  ek_options o = options();
  pid_t pid = fork();
  if (!pid) {
    struct rlimit l = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &l);
    made k = make(NULL, tiny, &o, NULL);
    _exit(k.rep.cached || !strstr(said, "not kept"));
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  int others;
  assert_int_equal(entries(NULL, &others), 0);
  assert_int_equal(others, 0);
}
static void test_processes(void **state) { /* several at once: each has its result, and one good entry stays */
  (void)state;
  ek_options o = options();
  for (int round = 0; round < 4; round++) {
    pid_t pid[6];
    for (int i = 0; i < 6; i++) {
      fflush(NULL);
      if ((pid[i] = fork()) != 0) continue;
      made k = make(NULL, tiny, &o, NULL);
      bool good = k.n == 12;
      for (int j = 0; good && j < 50; j++) { /* runs beside a process that removes the entry again and again */
        if (i == 0) empty_folder(folder_);
        made q = make(NULL, tiny, &o, NULL);
        good = !memcmp(k.out, q.out, sizeof(float) * 12);
        give_back(&q);
        if (!q.rep.cached && i) j += 10;
      }
      _exit(!good);
    }
    for (int i = 0; i < 6; i++) {
      int status;
      assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
      if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("process %d ended with %x", i, (unsigned)status);
    }
    int others;
    found(NULL, tiny, &o, NULL);
    assert_true(found(NULL, tiny, &o, NULL));
    assert_int_equal(entries(NULL, &others), 1);
    assert_int_equal(others, 0);
    empty_folder(folder_);
  }
}

/* ---- saved libraries ------------------------------------------------------------------------- */
static void test_processor(void **state) { /* one made for another processor is an error, not a crash */
  (void)state;
  char target[128], so[128], text[1000];
  snprintf(target, sizeof target, "%s/odd.target", work), snprintf(so, sizeof so, "%s/m.so", work);
#if defined(__x86_64__)
  snprintf(text, sizeof text,
           "triple = x86_64-unknown-linux-gnu\ncpu = x86-64\nfeatures =\nrequires = sse2 zork\nemitter = "
           "llvm\nvector_bits = 128\nvector_registers = 16\n");
#else
  skip();
#endif
  spill(target, text, strlen(text));
  ek_session *s = ek_session_create();
  ek_model *m;
  ek_module *code;
  ek_options o;
  ek_options_init(&o);
  o.target = target;
  assert_int_equal(ek_load_memory(s, tiny, strlen(tiny), "tiny", &m), EK_OK);
  ek_code e = ek_save(m, &o, so, NULL);
  if (e == EK_TARGET && strstr(ek_message(s), "linker")) skip();
  assert_int_equal(e, EK_OK);
  assert_int_equal(ek_module_load(s, so, &code), EK_TARGET);
  assert_non_null(strstr(ek_message(s), "zork"));
  void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL); /* a program without Einkorn is told by plan */
  assert_non_null(lib);
  const ek_rt_model *(*info)(void) = (const ek_rt_model *(*)(void))dlsym(lib, "m_info");
  assert_non_null(info);
  int64_t in[2] = {3, 4}, out[2];
  ek_rt_call call = {.in_dims = in, .out_dims = out, .threads = 1};
  assert_int_equal(info()->plan(&call), EK_TARGET);
  assert_non_null(strstr(call.message, "processors"));
  dlclose(lib);
  o.target = NULL;
  assert_int_equal(ek_save(m, &o, so, NULL), EK_OK);
  assert_int_equal(ek_module_load(s, so, &code), EK_OK);
  ek_session_destroy(s);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_digest),
                                     T(test_files),
                                     T(test_hit),
                                     T(test_memory),
                                     T(test_memory_limit),
                                     T(test_key),
                                     T(test_key_files),
                                     T(test_damage),
                                     T(test_image),
                                     T(test_folder),
                                     T(test_environment),
                                     T(test_limit),
                                     T(test_file_size),
                                     T(test_processes),
                                     T(test_processor)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
