/* models: the differential runner. Every model, with every reference beside it, must give the reference's numbers in
 * every mode.
 *
 *   models [-j JOBS] [-m MODES] [-t SECONDS] [-k TOLERANCES] [-v] MODEL.onnx...
 *
 *   eval    the definitions, interpreted           O0    compiled as simply as possible, 1 thread      so   saved
 *           as a library and loaded, 1 and 2 threads
 *   passes  what the passes made of them           jit   compiled in full, 1 and 2 threads             c    saved
 *           as C, compiled by cc (strictest warnings are errors), loaded
 *   likely  as jit, with --dim S=0:V:100000 for    cache as jit, then taken from a cache on disk, 1 and 2 threads
 *           open sizes, V of the first reference: it uses the variant, others the general code
 *   onnx    saved as a model, which is read again and compiled               bf16 as jit, with --precision bf16:
 *           within 0.05 and 5 % of the references, or 2 % of their largest value; and within 1 % of the largest value
 *           of what the evaluator makes of the passes' module, which rounds the same tensors
 *   fast    as jit, with --accuracy fast: within 1e-3 of each reference's largest value, or as exact as others
 *   bits    as jit, with --reproducible: the same bits with 1, 2, 3 and 4 threads
 *
 * References: NAME.npz, NAME.v*.npz and NAME.ref*.npz beside NAME.onnx. Models over 200 M multiply-adds are too
 * slow for eval and passes, which are then skipped. Compiled modes check also that
 *   - a second run gives the same bits and calls neither malloc, calloc, realloc, aligned_alloc nor mmap,
 *   - nothing is touched past the end of inputs, outputs and working memory (check.h),
 *   - the working memory is the value of the printed formula,
 *   - a library exports NAME_run and NAME_info and nothing else,
 *   - what comes from the cache was neither passed over nor generated, and is there, from reading the model on,
 *     after at most 60 ms of the processor's time and 1 ms for each MB of weights.
 * Each mode of each model is a process of its own, so that a crash is one failure. TOLERANCES: lines
 * `NAME.ref.npz RTOL ATOL reason`, or `NAME.ref.npz cosine C reason` (the least of every row of the last axis),
 * for references that are not exact themselves; rtol 1e-3, atol 1e-4 otherwise.
 * One line per failure, and at the end `N passed, N failed, N skipped`, counted by reference, mode and number of
 * threads. */
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef enum {
  M_EVAL,
  M_PASSES,
  M_O0,
  M_JIT,
  M_BF16,
  M_FAST,
  M_BITS,
  M_LIKELY,
  M_CACHE,
  M_SO,
  M_C,
  M_ONNX,
  MODES
} mode;
static const char *const mode_names[MODES] = {"eval", "passes", "O0",    "jit", "bf16", "fast",
                                              "bits", "likely", "cache", "so",  "c",    "onnx"};
static const int64_t eval_limit = 200 * 1000 * 1000;
static bool verbose;
static const char *tolerances;

/* ---- what a child says: lines to stdout, which is a file that the parent reads --------------- */
static void say_pass(void) { puts("P"); }
static void say_fail(const char *what, const char *why) {
  printf("F %s: ", what);
  for (; *why; why++) putchar(*why == '\n' ? ' ' : *why);
  putchar('\n');
}
static void say_at(const char *what) {
  printf("@ %s\n", what);
  fflush(stdout);
}

/* ---- one model in one mode ------------------------------------------------------------------- */
typedef struct subject {
  ek_session *s;
  ctx *c;
  arena *a;
  const char *path, *base, *work;
  mode m;
  strvec refs;
  uint64_t bits; /* hash of the outputs of the last run */
} subject;

/* Finds references in the folder of the model: base.npz, base.v*.npz, base.ref*.npz. */
static void find_refs(subject *u) {
  const char *dir = path_dir(u->a, u->path);
  size_t n = strlen(u->base);
  struct dirent **all;
  int count = scandir(dir, &all, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    const char *f = all[i]->d_name, *end = strrchr(f, '.');
    if (!strncmp(f, u->base, n) && f[n] == '.' && end && !strcmp(end, ".npz") &&
        (f + n == end || f[n + 1] == 'v' || !strncmp(f + n + 1, "ref", 3)))
      vec_push(u->a, u->refs, (const char *)path_join(u->a, dir, arena_strdup(u->a, f)));
  }
}
/* NULL: every row of the last axis points where it should; else which does not. */
static const char *turned(char *why, size_t room, const char *name, const ndarray *got, const ndarray *want,
                          double least) {
  int64_t n = 0, row = got->rank ? got->dims[got->rank - 1] : 1;
  /* shapes and types; or what is no number */
  if (differs(why, room, name, got, want, (tolerance){0, INFINITY})) return why;
  nd_count(got, &n);
  for (int64_t at = 0; row && at < n; at += row) {
    double a = 0, b = 0, ab = 0;
    for (int64_t i = at; i < at + row; i++) {
      double x = et_load(got->type, (const uint8_t *)got->data + i * et_bytes(got->type)).f,
             y = et_load(want->type, (const uint8_t *)want->data + i * et_bytes(want->type)).f;
      a += x * x, b += y * y, ab += x * y;
    }
    if (!(ab >= least * sqrt(a * b)))
      return snprintf(why, room, "%s: the cosine of row %lld is %g", name, (long long)(at / row), ab / sqrt(a * b)),
             why;
  }
  return NULL;
}
typedef struct criterion {
  tolerance t;
  double cosine;  /* least cosine of rows that is asked for instead; 0: none */
  double largest; /* allowed difference, as a part of the largest value */
} criterion;
static criterion criterion_of(subject *u, const char *ref) {
  criterion t = {.t = {1e-3, 1e-4}, .largest = u->m == M_FAST ? 1e-3 : 0};
  if (u->m == M_BF16) return (criterion){.t = {0.05, 0.05}, .largest = 0.02};
  const char *name = strrchr(ref, '/') + 1;
  FILE *f = tolerances ? fopen(tolerances, "re") : NULL;
  char line[512], who[256];
  criterion found = {.largest = t.largest};
  while (f && fgets(line, sizeof line, f))
    if ((sscanf(line, "%255s %lf %lf", who, &found.t.rtol, &found.t.atol) == 3 ||
         sscanf(line, "%255s cosine %lf", who, &found.cosine) == 2) &&
        !strcmp(who, name))
      t = found;
  if (f) fclose(f);
  return t;
}
static bool shell(subject *u, const char *command, char *why, size_t room) {
  FILE *p = popen(command, "re");
  if (!p) return false;
  size_t n = fread(why, 1, room - 1, p);
  why[n] = 0;
  (void)u;
  return pclose(p) == 0;
}
/* A saved library has exactly two symbols. */
static void check_exports(subject *u, const char *so) {
  char out[4000];
  bool ok = shell(u, arena_fmt(u->a, "nm -D --defined-only '%s' 2>&1", so), out, sizeof out);
  uint32_t n = 0;
  for (char *line = strtok(out, "\n"); ok && line; line = strtok(NULL, "\n")) {
    const char *name = strrchr(line, ' ') ? strrchr(line, ' ') + 1 : line;
    size_t k = strlen(name);
    if ((k > 4 && !strcmp(name + k - 4, "_run")) || (k > 5 && !strcmp(name + k - 5, "_info")))
      n++;
    else
      ok = false;
    if (!ok) say_fail("exports", arena_fmt(u->a, "%s", name));
  }
  if (ok && n == 2)
    say_pass();
  else if (ok)
    say_fail("exports", "NAME_run and NAME_info are expected");
}
/* The model's open sizes, as the first reference has them. */
static symbols open_sizes(subject *u, ek_model *model) {
  symbols s = {0};
  npz z = {0};
  if (!u->refs.n || !npz_read(u->c, u->refs.v[0], &z)) return s;
  for (int32_t i = 0; i < ek_model_inputs(model); i++) {
    ek_tensor_info t;
    if (ek_model_input(model, i, &t)) continue;
    const ndarray *d = npz_find(&z, "in_", t.name, i);
    for (int32_t k = 0; d && k < t.rank && k < (int32_t)d->rank; k++)
      if (t.dims[k] < 0 && t.dim_names[k]) symbol_set(&s, t.dim_names[k], d->dims[k]);
  }
  return s;
}
/* The second start: from the file to code that runs. */
static void note_pass(void *user, const char *level, const char *pass, int changed, double ms) {
  char *ran = user;
  (void)changed, (void)ms;
  if (strcmp(level, "code") != 0 || strcmp(pass, "cache") != 0) snprintf(ran, 60, "%s: %s", level, pass);
}
static double processor_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static bool second_start(subject *u, ek_options o, ek_module **code) {
  ek_report rep;
  ek_model *again;
  char ran[60] = "", text[100];
  o.pass = note_pass, o.pass_user = ran;
  double t = processor_ms();
  if (ek_load(u->s, u->path, &again) || ek_compile(again, &o, code)) return false;
  t = processor_ms() - t;
  ek_module_report(*code, &rep);
  double most = 60 + (double)rep.weight_bytes / 1e6;
  snprintf(text, sizeof text, "a cached start takes %.0f ms, %.0f are allowed", t, most);
  const char *bad = !rep.cached ? "the second time it was compiled again"
                    : *ran      ? ran
                    : rep.passes_ms > 0 || rep.schedule_ms > 0 || rep.code_ms > 0 ? "something was compiled"
                    : t > most                                                    ? text
                                                                                  : NULL;
  if (bad) say_fail("cache", bad);
  return !bad;
}
static bool get_module(subject *u, ek_model *model, ek_module **code) {
  ek_options o;
  const char *dims[65] = {0};
  symbols s = {0};
  ek_options_init(&o);
  o.compile_threads = 1, o.threads = 1;
  o.optimize = u->m == M_O0 ? 0 : 3;
  o.evaluate = u->m == M_EVAL ? 1 : u->m == M_PASSES ? 2 : 0;
  if (u->m == M_BF16) o.precision = EK_PRECISION_BF16;
  if (u->m == M_FAST) o.accuracy = EK_ACCURACY_FAST;
  o.reproducible = u->m == M_BITS;
  if (u->m == M_LIKELY) s = open_sizes(u, model), o.dims = dims;
  for (uint32_t i = 0; i < s.n; i++) dims[i] = arena_fmt(u->a, "%s=0:%lld:100000", s.name[i], (long long)s.value[i]);
  if (u->m == M_CACHE) {
    o.cache = u->work;
    if (ek_compile(model, &o, code)) return false;
    ek_module_close(*code);
    return second_start(u, o, code);
  }
  if (u->m == M_ONNX) {
    const char *path = path_join(u->a, u->work, "m.onnx");
    ek_model *again;
    return !ek_save(model, &o, path, NULL) && !ek_load(u->s, path, &again) && !ek_compile(again, &o, code);
  }
  if (u->m < M_SO) return ek_compile(model, &o, code) == EK_OK;
  const char *so = path_join(u->a, u->work, "m.so"), *c = path_join(u->a, u->work, "m.c");
  if (ek_save(model, &o, u->m == M_SO ? so : c, NULL)) return false;
  if (u->m == M_C) {
    char out[2000];
    const char *cc = getenv("CC") ? getenv("CC") : "gcc";
    if (!shell(
            u,
            arena_fmt(u->a,
                      "%s -std=c17 -ffreestanding -Wall -Wextra -pedantic -Werror -O1 -fPIC -shared -o '%s' '%s' 2>&1",
                      cc, so, c),
            out, sizeof out)) {
      say_fail(cc, out);
      return false;
    }
  } else
    check_exports(u, so);
  return ek_module_load(u->s, so, code) == EK_OK;
}
static bool macs_allow(subject *u, ek_model *model) {
  ek_model_info info;
  if (u->m != M_EVAL && u->m != M_PASSES && u->m != M_BF16) return true;
  if (ek_model_describe(model, NULL, &info)) return true; /* the compilation will say why */
  int64_t macs = info.work.macs.value;
  if (macs < 0 && info.work.macs.formula && u->refs.n) {
    symbols s = open_sizes(u, model);
    if (!formula(info.work.macs.formula, &s, &macs)) macs = 0;
  }
  return macs <= eval_limit;
}

/* ---- one reference in one module ------------------------------------------------------------- */
typedef struct bound {
  int32_t ni, no;
  void *in[64], *out[64];
  size_t in_bytes[64], out_bytes[64];
} bound;
static bool bind(subject *u, ek_module *code, ek_run *r, const npz *z, bound *b, symbols *s, char *why, size_t room) {
  bool pages = CHECK_OWN_MALLOC && u->m > M_PASSES;
  *b = (bound){.ni = ek_module_inputs(code), .no = ek_module_outputs(code)};
  if (b->ni > 64 || b->no > 64) return snprintf(why, room, "too many inputs or outputs for this tool"), false;
  for (int32_t i = 0; i < b->ni; i++) {
    ek_tensor_info t;
    ek_module_input(code, i, &t);
    const ndarray *d = as_bytes(u->a, npz_find(z, "in_", t.name, i), NULL);
    if (!d) return snprintf(why, room, "the reference has no input %s", t.name), false;
    if (ek_run_shape(r, i, d->dims, (int32_t)d->rank)) return snprintf(why, room, "%s", ek_run_message(r)), false;
    if (d->bytes != 0 && et_bytes(et_from_onnx((int)t.type)) != et_bytes(d->type))
      return snprintf(why, room, "input %s has another type", t.name), false;
    for (int32_t k = 0; k < t.rank; k++)
      if (t.dims[k] < 0 && t.dim_names[k]) symbol_set(s, t.dim_names[k], d->dims[k]);
    b->in[i] = pages ? guarded(d->bytes) : malloc(d->bytes + 1);
    memcpy(b->in[i], d->data, d->bytes);
    b->in_bytes[i] = d->bytes;
    ek_run_bind_input(r, i, b->in[i]);
  }
  atomic_store(&guarding, pages);
  ek_code e = ek_run_prepare(r);
  atomic_store(&guarding, false);
  if (e) return snprintf(why, room, "%s", ek_run_message(r)), false;
  for (int32_t i = 0; i < b->no; i++) {
    b->out_bytes[i] = ek_run_output_bytes(r, i);
    b->out[i] = pages ? guarded(b->out_bytes[i]) : malloc(b->out_bytes[i] + 1);
    ek_run_bind_output(r, i, b->out[i]);
  }
  return true;
}
static void unbind(ek_run *r, bound *b) {
  for (int32_t i = 0; i < b->ni && i < 64; i++) ek_run_bind_input(r, i, NULL), free(b->in[i]);
  for (int32_t i = 0; i < b->no && i < 64; i++) ek_run_bind_output(r, i, NULL), free(b->out[i]);
}
/* Outputs whose sizes only a run finds get their room when it has said how much. */
static ek_code execute(ek_run *r, bound *b) {
  ek_code e = ek_run_execute(r);
  for (int more = 0; e == EK_MEMORY && more < 64; more++) {
    bool any = false;
    for (int32_t i = 0; i < b->no; i++) {
      size_t need = ek_run_output_bytes(r, i);
      if (need <= b->out_bytes[i]) continue;
      free(b->out[i]);
      b->out[i] = malloc(need + 1), b->out_bytes[i] = need, any = true;
      ek_run_bind_output(r, i, b->out[i]);
    }
    if (!any) return e;
    e = ek_run_execute(r);
  }
  return e;
}
static double largest(const ndarray *d) {
  int64_t n = 0;
  double most = 0;
  if (et_kind(d->type) != K_FLOAT || !nd_count(d, &n)) return 0;
  for (int64_t i = 0; i < n; i++) {
    double v = fabs(et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).f);
    if (isfinite(v)) most = fmax(most, v);
  }
  return most;
}
static uint64_t hash_outputs(ek_module *code, ek_run *r, const bound *b) {
  uint64_t h = 0;
  for (int32_t i = 0; i < b->no; i++) {
    ek_tensor_info t;
    int64_t dims[EK_MAX_RANK];
    int32_t rank;
    ek_module_output(code, i, &t);
    ek_run_output_dims(r, i, dims, &rank);
    size_t n = ek_type_bytes(t.type);
    for (int32_t k = 0; k < rank; k++) n *= (size_t)dims[k];
    h = hash_bytes(b->out[i], n, h);
  }
  return h;
}
static bool compare(arena *a, ek_module *code, ek_run *r, const npz *z, bound *b, criterion k, char *why, size_t room) {
  bool any = b->no == 0;
  for (int32_t i = 0; i < b->no; i++) {
    ek_tensor_info t;
    ek_module_output(code, i, &t);
    const ndarray *want = npz_find(z, "out_", t.name, i);
    if (!want) continue;
    any = true;
    int32_t rank = 0;
    ndarray got = {.type = et_from_onnx((int)t.type), .data = b->out[i]};
    ek_run_output_dims(r, i, got.dims, &rank);
    got.rank = (uint32_t)rank;
    want = as_bytes(a, want, &got);
    bool floats = et_kind(got.type) == K_FLOAT && got.type == want->type;
    if (k.largest) k.t.atol = fmax(k.t.atol, k.largest * largest(want));
    if (k.cosine && floats ? turned(why, room, t.name, &got, want, k.cosine)
                           : differs(why, room, t.name, &got, want, k.t))
      return false;
  }
  return any || (snprintf(why, room, "the reference has no output of the model"), false);
}
/* The same again, with dirty memory. */
static bool run_again(ek_module *code, ek_run *r, bound *b, char *why, size_t room) {
  void *first[64];
  bool same = true;
  size_t used[64] = {0};
  for (int32_t i = 0; i < b->no; i++) {
    ek_tensor_info t;
    ek_module_output(code, i, &t);
    int64_t dims[EK_MAX_RANK];
    int32_t rank;
    ek_run_output_dims(r, i, dims, &rank);
    used[i] = ek_type_bytes(t.type);
    for (int32_t k = 0; k < rank; k++) used[i] *= (size_t)dims[k];
    first[i] = malloc(used[i] + 1); /* there may be room for far more */
    memcpy(first[i], b->out[i], used[i]);
  }
  atomic_store(&calls, 0);
  atomic_store(&counting, true);
  ek_code e = ek_run_execute(r);
  atomic_store(&counting, false);
  if (e) same = (snprintf(why, room, "the second run: %s", ek_run_message(r)), false);
  for (int32_t i = 0; i < b->no; i++) {
    if (same && memcmp(first[i], b->out[i], used[i]) != 0)
      same = (snprintf(why, room, "the second run gives other bits (output %d)", i), false);
    free(first[i]);
  }
  if (same && atomic_load(&calls))
    return snprintf(why, room, "the second run allocates: %d calls", atomic_load(&calls)), false;
  return same;
}
static bool one_run(subject *u, ek_module *code, ek_run *r, const npz *z, criterion k, char *why, size_t room) {
  bound b;
  symbols s = {0};
  ek_report rep;
  ek_module_report(code, &rep);
  bool ok = bind(u, code, r, z, &b, &s, why, room);
  double began = now_ms();
  if (ok && execute(r, &b)) ok = (snprintf(why, room, "%s", ek_run_message(r)), false);
  ok = ok && compare(u->a, code, r, z, &b, k, why, room);
  if (ok) u->bits = hash_outputs(code, r, &b);
  if (ok && u->m > M_PASSES) {
    int64_t bytes = 0;
    symbol_set(&s, "threads", ek_run_threads(r));
    if (strstr(rep.memory, " found at run time"))
      ok = ok && ek_run_memory(r) > 0;
    else if (!formula(rep.memory, &s, &bytes))
      ok =
          (snprintf(why, room, "the memory formula %s cannot be worked out from the inputs' sizes", rep.memory), false);
    else if (bytes != ek_run_memory(r))
      ok = (snprintf(why, room, "working memory is %lld bytes, the printed formula gives %lld: %s",
                     (long long)ek_run_memory(r), (long long)bytes, rep.memory),
            false);
    bool slow = u->m == M_C && now_ms() - began > 2000; /* C source without vectors */
    ok = ok && (slow || run_again(code, r, &b, why, room));
  }
  unbind(r, &b);
  return ok;
}
/* Gets the inputs of z with the outputs that the evaluator finds for what the passes made of the model in bf16. */
static bool evaluated(subject *u, const npz *z, npz *out, char *why, size_t room) {
  ek_options o;
  ek_model *model;
  ek_module *code = NULL;
  ek_run *r = NULL;
  bound b;
  symbols s = {0};
  ek_options_init(&o);
  o.compile_threads = 1, o.threads = 1, o.evaluate = 2, o.precision = EK_PRECISION_BF16;
  if (ek_load(u->s, u->path, &model) || ek_compile(model, &o, &code) || ek_run_create(code, 1, &r))
    return snprintf(why, room, "%s", ek_message(u->s)), false;
  bool ok = bind(u, code, r, z, &b, &s, why, room);
  if (ok && execute(r, &b)) ok = (snprintf(why, room, "%s", ek_run_message(r)), false);
  *out = (npz){.names = NEWN(u->a, const char *, z->n + 64), .arrays = NEWN(u->a, ndarray, z->n + 64)};
  for (int32_t i = 0; ok && i < b.no; i++) {
    ek_tensor_info t;
    int32_t rank;
    ek_module_output(code, i, &t);
    ndarray *d = &out->arrays[out->n];
    *d = (ndarray){.type = et_from_onnx((int)t.type)};
    ek_run_output_dims(r, i, d->dims, &rank);
    d->rank = (uint32_t)rank, d->data = arena_dup(u->a, b.out[i], b.out_bytes[i]), d->bytes = b.out_bytes[i];
    out->names[out->n++] = arena_fmt(u->a, "out_%s", t.name);
  }
  for (uint32_t i = 0; i < z->n; i++)
    if (strncmp(z->names[i], "out_", 4) != 0) out->names[out->n] = z->names[i], out->arrays[out->n++] = z->arrays[i];
  unbind(r, &b);
  ek_run_destroy(r);
  ek_module_close(code);
  return ok;
}
/* One reference: its outputs, and in bf16 those of the evaluator where it is not too slow for the model. */
static bool one_reference(subject *u, ek_module *code, ek_run *r, const char *path, bool small, char *why,
                          size_t room) {
  npz z = {0}, same = {0};
  if (!npz_read(u->c, path, &z)) return snprintf(why, room, "cannot be read"), false;
  if (!one_run(u, code, r, &z, criterion_of(u, path), why, room)) return false;
  if (u->m != M_BF16 || !small) return true;
  const criterion near = {.t = {1e-3, 1e-4}, .largest = 0.01};
  return evaluated(u, &z, &same, why, room) && one_run(u, code, r, &same, near, why, room);
}
static void one_mode(subject *u) {
  ek_model *model = NULL;
  ek_module *code = NULL;
  char why[4000];
  say_at("loading");
  if (ek_load(u->s, u->path, &model)) {
    say_fail("load", ek_message(u->s));
    return;
  }
  const bool small = macs_allow(u, model);
  if (!small && u->m != M_BF16) {
    for (uint32_t i = 0; i < u->refs.n; i++) puts("S");
    return;
  }
  if (u->m == M_LIKELY && !open_sizes(u, model).n) return; /* nothing is open */
  say_at("compiling");
  if (!get_module(u, model, &code)) {
    if (*ek_message(u->s)) say_fail("compile", ek_message(u->s));
    return;
  }
  const bool both = u->m == M_JIT || u->m == M_BF16 || u->m == M_LIKELY || u->m == M_CACHE || u->m == M_SO;
  uint64_t *one = NEWN(u->a, uint64_t, u->refs.n); /* of each reference: the bits of one thread */
  for (int threads = 1; threads <= (u->m == M_BITS ? 4 : both ? 2 : 1); threads++) {
    ek_run *r;
    if (ek_run_create(code, threads, &r)) {
      say_fail("run", ek_message(u->s));
      return;
    }
    for (uint32_t i = 0; i < u->refs.n; i++) {
      const char *slash = strrchr(u->refs.v[i], '/'),
                 *what = arena_fmt(u->a, "%s, %d thread%s", slash ? slash + 1 : u->refs.v[i], threads,
                                   threads > 1 ? "s" : "");
      say_at(what);
      const bool right = one_reference(u, code, r, u->refs.v[i], small, why, sizeof why);
      if (threads == 1) one[i] = u->bits;
      if (!right)
        say_fail(what, why);
      else if (u->m == M_BITS && u->bits != one[i])
        say_fail(what, "other bits than with 1 thread");
      else
        say_pass();
    }
    ek_run_destroy(r);
  }
}
static int child(const char *path, mode m, const char *work, unsigned limit) {
  subject u = {.s = ek_session_create(), .c = ctx_new(), .path = path, .work = work, .m = m};
  alarm(limit);
  u.a = ctx_arena(u.c);
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (!slash) u.path = arena_fmt(u.a, "./%s", path);
  u.base = arena_strndup(u.a, name, strlen(name) - (strrchr(name, '.') ? strlen(strrchr(name, '.')) : 0));
  find_refs(&u);
  if (!u.refs.n)
    say_fail("references", "none beside the model");
  else
    one_mode(&u);
  ek_session_destroy(u.s);
  ctx_free(u.c);
  return 0;
}

/* ---- all of them, some at a time ------------------------------------------------------------- */
typedef struct job {
  const char *path;
  mode m;
  pid_t pid;
  FILE *out;
  char work[64];
  double began;
} job;
static uint32_t passed, failed, skipped;
static void remove_tree(const char *dir) {
  DIR *d = opendir(dir);
  char path[512];
  for (struct dirent *e; d && (e = readdir(d));)
    if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) > 0 && strcmp(e->d_name, ".") != 0 &&
        strcmp(e->d_name, "..") != 0)
      unlink(path);
  if (d) closedir(d);
  rmdir(dir);
}
static void begin(job *j, unsigned limit) {
  const char *tmp = getenv("TMPDIR");
  snprintf(j->work, sizeof j->work, "%.30s/einkorn_models_XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(j->work)) perror(j->work);
  j->out = tmpfile();
  j->began = now_ms();
  fflush(NULL);
  j->pid = fork();
  if (j->pid) return;
  setpgid(0, 0); /* what the child starts is in its process group, and ends with it */
  dup2(fileno(j->out), 1);
  int code = child(j->path, j->m, j->work, limit);
  fflush(NULL);
  _exit(code);
}
static void end(job *j, int status) {
  char line[6000], at[512] = "start";
  const char *name = strrchr(j->path, '/') ? strrchr(j->path, '/') + 1 : j->path;
  rewind(j->out);
  while (fgets(line, sizeof line, j->out)) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == 'P')
      passed++;
    else if (line[0] == 'S')
      skipped++;
    else if (line[0] == '@')
      snprintf(at, sizeof at, "%.500s", line + 2);
    else if (line[0] == 'F')
      failed++, printf("FAIL %s %s %.400s\n", name, mode_names[j->m], line + 2);
  }
  if (WIFSIGNALED(status))
    failed++, printf("FAIL %s %s %s: %s\n", name, mode_names[j->m], at,
                     WTERMSIG(status) == SIGALRM ? "takes too long" : strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status))
    failed++, printf("FAIL %s %s %s: exit %d\n", name, mode_names[j->m], at, WEXITSTATUS(status));
  if (verbose) printf("%s %s %.0f ms\n", name, mode_names[j->m], now_ms() - j->began);
  fflush(stdout);
  fclose(j->out);
  if (WIFSIGNALED(status)) kill(-j->pid, SIGKILL);
  remove_tree(j->work);
}
int main(int argc, char **argv) {
  const char *modes = "eval passes O0 jit bf16 fast bits likely cache so c";
  int jobs = 2, opt;
  unsigned limit = 120;
  while ((opt = getopt(argc, argv, "j:m:t:k:v")) != -1) {
    if (opt == 'j')
      jobs = atoi(optarg);
    else if (opt == 'm')
      modes = optarg;
    else if (opt == 't')
      limit = (unsigned)atoi(optarg);
    else if (opt == 'k')
      tolerances = optarg;
    else if (opt == 'v')
      verbose = true;
    else
      return 2;
  }
  if (jobs < 1 || jobs > 64) jobs = 1;
  job running[64] = {0};
  int live = 0;
  for (int i = optind, m = 0; i < argc || live;) {
    if (i < argc && live < jobs) {
      const char *at = strstr(modes, mode_names[m]);
      size_t n = strlen(mode_names[m]);
      while (at && ((at > modes && at[-1] != ' ') || (at[n] && at[n] != ' '))) at = strstr(at + 1, mode_names[m]);
      for (int k = 0; at && k < jobs; k++) {
        if (running[k].pid) continue;
        running[k] = (job){.path = argv[i], .m = (mode)m};
        begin(&running[k], limit);
        live++;
        break;
      }
      if (++m == MODES) m = 0, i++;
      continue;
    }
    int status;
    pid_t p = wait(&status);
    for (int k = 0; k < jobs; k++)
      if (running[k].pid == p) {
        end(&running[k], status);
        running[k].pid = 0;
        live--;
      }
  }
  printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
  return failed != 0;
}
