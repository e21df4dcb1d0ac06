/* einkorn bench --against: how fast are other engines on the same model, inputs, threads and minutes?
 *
 * Each engine is a child process, a python with bench/peer.py, which loads the model once and then times slices
 * of runs when it is told to by a line. All take turns, Einkorn first, a slice each;
 * whoever is not measured is stopped, so that no thread of it spins meanwhile. Ratios are taken slice by slice,
 * and their median is told: a machine that becomes slower for a while becomes it for all.
 * The children's outputs are compared with Einkorn's. A start from nothing is measured by starting the program
 * itself once more. */
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  SLOW_START = 600,
  SLOW_SLICE = 120 /* seconds that an engine may take to load a model, and beyond a slice's own time */
};
static const struct {
  const char *name, *packages; /* Python packages, by their names at PyPI */
} engines[] = {
    {"onnxruntime", "onnxruntime numpy"},
    {"openvino", "openvino numpy"},
    {"openvino-bf16", "openvino numpy"},
    {"torch", "torch onnx onnx2torch numpy"},
    {"torch.compile", "torch onnx onnx2torch numpy"},
    {"jax", "jax[cpu] onnx numpy"},
    {"ncnn", "--no-deps ncnn pnnx numpy portalocker tqdm"},
    {"iree", "iree-base-compiler[onnx] iree-base-runtime numpy"},
    {"iree-nhwc", "iree-base-compiler[onnx] iree-base-runtime numpy"},
    {NULL, NULL},
};
typedef VEC(double) numbers;
typedef struct peer {
  const char *name;     /* name of the engine */
  const char *packages; /* Python packages that it needs */
  const char *python;   /* interpreter that has them */
  const char *why;      /* why it is not measured, or no longer; NULL: it is */
  const char *version;  /* version of the engine, as it says */
  const char *remedy;   /* what would help; NULL: not known */
  pid_t pid;            /* 0: does not run */
  int to, from;         /* pipes to the process and from it */
  sbuf in;              /* what came from it and was not read yet */
  numbers times;        /* milliseconds of each run */
  numbers slices;       /* milliseconds: the median of each slice; NAN: the slice failed */
  double cold;          /* milliseconds from nothing to the first result */
  double cached;        /* milliseconds from nothing to the first result with a warm cache; -1: there is none */
  double memory;        /* most bytes that the process had resident */
  double error;         /* largest difference / largest value of an output */
} peer;
typedef struct contest {
  cli *k;             /* the program */
  ek_module *m;       /* Einkorn's module */
  ek_run *r;          /* Einkorn's run */
  host_tensor *in;    /* inputs */
  const char *work;   /* folder for files that the engines read */
  const char *script; /* the engines' program, peer.py */
  const char *inputs; /* file of the inputs */
  VEC(peer) peers;    /* [0] is Einkorn */
  double gflops;      /* 10^9 operations of one run; -1: not known */
  double peak;        /* 10^9 operations a second that the machine does */
  double others;      /* processors that other programs used */
} contest;

/* ---- statistics ------------------------------------------------------------------------------ */
static double at(arena *a, const numbers *v, uint32_t from, double q) {
  uint32_t n = v->n - from;
  if (!n) return NAN;
  double *s = arena_dup(a, v->v + from, n * sizeof *s);
  return quantile(s, n, q);
}
static double ratio(arena *a, const peer *ours, const peer *theirs) {
  numbers r = {0};
  for (uint32_t i = 0; i < ours->slices.n && i < theirs->slices.n; i++)
    if (!isnan(theirs->slices.v[i])) vec_push(a, r, theirs->slices.v[i] / ours->slices.v[i]);
  return at(a, &r, 0, 0.5);
}

/* ---- processes ------------------------------------------------------------------------------- */
static void lose(peer *p, const char *why) {
  p->why = why;
  if (!p->pid) return;
  kill(p->pid, SIGKILL);
  peer_ended(p->pid);
  close(p->to), close(p->from);
  p->pid = 0;
}
/* The next line; NULL: it ended, or took too long. */
static const char *line_of(cli *k, peer *p, double seconds) {
  double end = now_ms() + seconds * 1000;
  for (;;) {
    const char *nl = p->in.n ? memchr(p->in.s, '\n', p->in.n) : NULL;
    if (nl) {
      size_t n = (size_t)(nl - p->in.s);
      const char *line = arena_strndup(k->a, p->in.s, n);
      memmove(p->in.s, p->in.s + n + 1, p->in.n - n - 1);
      p->in.n -= n + 1;
      return line;
    }
    struct pollfd f = {.fd = p->from, .events = POLLIN};
    double left = end - now_ms();
    char buf[65536];
    int got = left > 0 ? poll(&f, 1, (int)left + 1) : 0;
    if (got < 0 && errno == EINTR) continue;
    ssize_t n = got > 0 ? read(p->from, buf, sizeof buf) : 0;
    if (n <= 0) {
      lose(p, got > 0 ? "it ended without a word" : arena_fmt(k->a, "it took over %.0f s", seconds));
      return NULL;
    }
    sb_putn(&p->in, buf, (size_t)n);
  }
}
/* what follows the word; NULL: p is lost */
static const char *reply(cli *k, peer *p, const char *word, double seconds) {
  const char *line = line_of(k, p, seconds);
  size_t n = strlen(word);
  if (!line) return NULL;
  if (!strncmp(line, word, n) && line[n] == ' ') return line + n + 1;
  lose(p, !strncmp(line, "error ", 6) ? line + 6 : line);
  return NULL;
}

/* ---- an engine ------------------------------------------------------------------------------- */
/* The array for output i: under its name, prefix and name, or prefix and number. NULL: there is none. */
static const ndarray *find_array(const npz *z, const char *prefix, const char *name, int32_t i) {
  char number[32];
  size_t n = strlen(prefix);
  const ndarray *named = NULL, *numbered = NULL;
  snprintf(number, sizeof number, "%s%d", prefix, (int)i);
  for (uint32_t j = 0; j < z->n; j++) {
    if (!strcmp(z->names[j], name)) return &z->arrays[j];
    if (!strncmp(z->names[j], prefix, n) && !strcmp(z->names[j] + n, name)) named = &z->arrays[j];
    if (!strcmp(z->names[j], number)) numbered = &z->arrays[j];
  }
  return named ? named : numbered;
}
/* largest, relative to the largest value of its output; NAN: not comparable */
static double difference(contest *t, const char *path) {
  cli *k = t->k;
  npz z = {0};
  double worst = 0;
  if (!npz_read(k->c, path, &z)) ctx_unwind(k->c);
  for (int32_t i = 0; i < ek_module_outputs(t->m); i++) {
    ek_tensor_info info;
    ndarray mine = output_array(t->m, t->r, i, &info);
    const ndarray *theirs = find_array(&z, "out_", info.name, i);
    int64_t n = 0, m = -1;
    if (!theirs || !nd_count(&mine, &n) || !nd_count(theirs, &m) || n != m || et_kind(mine.type) == K_STR ||
        et_kind(theirs->type) == K_STR)
      return NAN;
    double most = 0, off = 0;
    for (int64_t j = 0; j < n; j++) {
      double g = array_number(&mine, j), w = array_number(theirs, j),
             d = g == w || (isnan(g) && isnan(w)) ? 0 : fabs(g - w);
      if (!(d <= off)) off = isnan(d) ? INFINITY : d;
      if (fabs(w) > most && isfinite(w)) most = fabs(w);
    }
    double e = off == 0 ? 0 : off / (most > 0 ? most : 1);
    if (e > worst) worst = e;
  }
  return worst;
}
static void start_peer(contest *t, peer *p) {
  cli *k = t->k;
  int to[2], from[2];
  p->python = peer_python(k, t->script, p->name);
  const char *peers = k->peers ? k->peers : "PEERS";
  p->remedy = arena_fmt(k->a, "python3 -m venv %s/%s && %s/%s/bin/pip install %s%s", peers, p->name, peers, p->name,
                        p->packages, k->peers ? "" : ", then --peers PEERS");
  if (!p->python) {
    lose(p, k->peers ? arena_fmt(k->a, "no python in %s has it", k->peers) : "python3 does not have it");
    return;
  }
  if (pipe2(to, O_CLOEXEC)) return lose(p, "no pipe");
  if (pipe2(from, O_CLOEXEC)) {
    close(to[0]), close(to[1]);
    return lose(p, "no pipe");
  }
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const char *results = arena_fmt(k->a, "%s/%s.npz", t->work, p->name);
  char *argv[] = {(char *)p->python,
                  (char *)t->script,
                  (char *)p->name,
                  "serve",
                  (char *)k->args.v[0],
                  (char *)t->inputs,
                  (char *)results,
                  (char *)arena_fmt(k->a, "%d", ek_run_threads(t->r)),
                  (char *)arena_fmt(k->a, "%lld", (long long)now.tv_sec * 1000000000 + now.tv_nsec),
                  NULL};
  p->pid = peer_start(argv, to[0], from[1]);
  close(to[0]), close(from[1]);
  p->to = to[1], p->from = from[0], p->in = sbuf_new(k->a);
  if (p->pid < 0) {
    p->pid = 0;
    close(p->to), close(p->from);
    return lose(p, "no process");
  }
  const char *ready = reply(k, p, "ready", SLOW_START);
  if (!ready) return;
  size_t n = strcspn(ready, " ");
  p->version = arena_strndup(k->a, ready, n);
  p->cold = num_parse(k->c, ready[n] ? ready + n + 1 : "0", NULL);
  if (!file_exists(results)) return lose(p, "it wrote no results");
  p->error = difference(t, results);
  kill(p->pid, SIGSTOP);
}
static void peer_slice(cli *k, peer *p, double seconds) {
  double median = NAN;
  uint32_t before = p->times.n;
  if (p->pid) {
    const char *ask = arena_fmt(k->a, "run %.6f\n", seconds), *got = NULL;
    kill(p->pid, SIGCONT);
    if (write(p->to, ask, strlen(ask)) == (ssize_t)strlen(ask)) got = reply(k, p, "times", seconds + SLOW_SLICE);
    for (char *end = NULL; got && *got; got = end + (*end == ' ')) {
      double ms = num_parse(k->c, got, &end);
      if (end == got) break;
      vec_push(k->a, p->times, ms);
    }
    if (p->pid) p->memory = process_peak(p->pid), kill(p->pid, SIGSTOP);
    if (p->times.n > before) median = at(k->a, &p->times, before, 0.5);
  }
  vec_push(k->a, p->slices, median);
}
static ek_code own_slice(contest *t, double seconds) {
  cli *k = t->k;
  peer *p = &t->peers.v[0];
  ek_code e = EK_OK;
  sample times = {0};
  double warm = now_ms() + 1000 * (seconds / 4 < 0.05 ? seconds / 4 : 0.05), end;
  do e = ek_run_execute(t->r);
  while (!e && now_ms() < warm);
  end = now_ms() + seconds * 1000;
  for (double t0 = now_ms(); !e && (t0 < end || times.seen < 3);) {
    e = ek_run_execute(t->r);
    double t1 = now_ms();
    sample_add(k->a, &times, t1 - t0);
    t0 = t1;
  }
  for (uint32_t i = 0; i < times.n; i++) vec_push(k->a, p->times, times.v[i]);
  double median = times.n ? quantile(times.v, times.n, 0.5) : NAN;
  vec_push(k->a, p->slices, median);
  return e;
}

/* ---- from nothing ---------------------------------------------------------------------------- */
static void own_start(contest *t, bool cached, double *ms, double *memory) {
  cli *k = t->k;
  strvec v = {0};
  int out[2];
  char text[1 << 16];
  size_t n = 0;
  const char *const head[] = {"/proc/self/exe",
                              "run",
                              k->args.v[0],
                              "--inputs",
                              t->inputs,
                              "--json",
                              "-q",
                              "--threads",
                              arena_fmt(k->a, "%d", ek_run_threads(t->r)),
                              "-O",
                              arena_fmt(k->a, "%d", k->optimize)};
  for (size_t i = 0; i < sizeof head / sizeof *head; i++) vec_push(k->a, v, head[i]);
  for (uint32_t i = 0; i < k->dims.n; i++) vec_push(k->a, v, "--dim"), vec_push(k->a, v, k->dims.v[i]);
  for (uint32_t i = 0; i < k->ops.n; i++) vec_push(k->a, v, "--ops"), vec_push(k->a, v, k->ops.v[i]);
  for (uint32_t i = 0; i < k->states.n; i++) vec_push(k->a, v, "--state"), vec_push(k->a, v, k->states.v[i]);
  if (k->target) vec_push(k->a, v, "--target"), vec_push(k->a, v, k->target);
  if (k->accuracy)
    vec_push(k->a, v, "--accuracy"), vec_push(k->a, v, k->accuracy == EK_ACCURACY_FAST ? "fast" : "strict");
  if (k->precision)
    vec_push(k->a, v, "--precision"), vec_push(k->a, v, k->precision == EK_PRECISION_F16 ? "f16" : "bf16");
  if (k->unchecked) vec_push(k->a, v, "--unchecked");
  if (k->reproducible) vec_push(k->a, v, "--reproducible");
  if (k->schedule) vec_push(k->a, v, "--schedule"), vec_push(k->a, v, k->schedule);
  if (k->codegen) vec_push(k->a, v, "--codegen"), vec_push(k->a, v, "llvm");
  if (!cached) vec_push(k->a, v, "--no-cache");
  vec_push(k->a, v, NULL);
  *ms = -1;
  if (pipe2(out, O_CLOEXEC)) return;
  double t0 = now_ms();
  pid_t pid = peer_start((char *const *)(uintptr_t)v.v, -1, out[1]);
  close(out[1]);
  for (ssize_t got; pid > 0 && n < sizeof text - 1 && (got = read(out[0], text + n, sizeof text - 1 - n)) > 0;)
    n += (size_t)got;
  text[n] = 0;
  if (pid > 0 && peer_ended(pid) == EXIT_DONE) *ms = now_ms() - t0;
  close(out[0]);
  /* The peak is asked of the process itself: wait4 tells no less than what this process had when it started the
   * other */
  const char *told = strstr(text, "\"peak_rss\": ");
  if (memory && told) *memory = strtod(told + strlen("\"peak_rss\": "), NULL);
}

/* ---- how busy others are: the time of all processors, less our own and the children's -------- */
static double all_busy(void) {
  unsigned long long v[8] = {0};
  FILE *f = fopen("/proc/stat", "r");
  if (f &&
      fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7) < 8)
    v[0] = 0;
  if (f) fclose(f);
  return (double)(v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / (double)sysconf(_SC_CLK_TCK);
}
static double own_busy(const contest *t) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  double s = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  for (uint32_t i = 1; i < t->peers.n; i++) {
    char path[64];
    unsigned long long user = 0, sys = 0;
    if (!t->peers.v[i].pid) continue;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)t->peers.v[i].pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &sys) != 2)
      user = sys = 0;
    if (f) fclose(f);
    s += (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
  }
  return s;
}

/* ---- the report ------------------------------------------------------------------------------ */
static void tell_json(contest *t) {
  cli *k = t->k;
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  json_obj(&j, NULL);
  json_str(&j, "model", k->args.v[0]);
  json_int(&j, "threads", ek_run_threads(t->r));
  json_num(&j, "seconds", k->seconds);
  json_uint(&j, "slices", t->peers.v[0].slices.n);
  json_num(&j, "others", t->others);
  json_num(&j, "peak_gflops", t->peak);
  json_arr(&j, "engines");
  for (uint32_t i = 0; i < t->peers.n; i++) {
    const peer *p = &t->peers.v[i];
    double median = at(k->a, &p->times, 0, 0.5);
    json_obj(&j, NULL);
    json_str(&j, "engine", p->name);
    if (p->why) {
      json_str(&j, "why", p->why);
      if (!p->python && p->remedy) json_str(&j, "remedy", p->remedy);
    }
    if (p->times.n) {
      json_str(&j, "version", p->version);
      json_num(&j, "median_ms", median);
      json_num(&j, "p10_ms", at(k->a, &p->times, 0, 0.1));
      json_num(&j, "p90_ms", at(k->a, &p->times, 0, 0.9));
      json_num(&j, "ratio", ratio(k->a, &t->peers.v[0], p));
      if (t->gflops > 0 && t->peak > 0) json_num(&j, "percent_of_peak", 100 * t->gflops / (median * 1e-3) / t->peak);
      json_num(&j, "error", p->error);
      json_num(&j, "cold_ms", p->cold);
      if (p->cached >= 0) json_num(&j, "cached_ms", p->cached);
      json_num(&j, "peak_rss", p->memory);
      json_arr(&j, "slice_ms");
      for (uint32_t s = 0; s < p->slices.n; s++) json_num(&j, NULL, p->slices.v[s]);
      json_end(&j);
    }
    json_end(&j);
  }
  json_end(&j);
  json_end(&j);
  print_json(&text);
}
static void tell(contest *t) {
  cli *k = t->k;
  printf("%-14s %-14s %10s %8s %7s %8s %9s %9s %9s %7s\n", "engine", "version", "median ms", "ratio", "spread",
         "of peak", "error", "cold ms", "cached", "MB");
  for (uint32_t i = 0; i < t->peers.n; i++) {
    const peer *p = &t->peers.v[i];
    if (!p->times.n) continue;
    double median = at(k->a, &p->times, 0, 0.5),
           spread = (at(k->a, &p->times, 0, 0.9) - at(k->a, &p->times, 0, 0.1)) / median;
    printf("%-14s %-14s %10.5f %7.3fx %6.1f%%", p->name, p->version, median, ratio(k->a, &t->peers.v[0], p),
           100 * spread);
    if (t->gflops > 0 && t->peak > 0)
      printf(" %7.1f%%", 100 * t->gflops / (median * 1e-3) / t->peak);
    else
      printf(" %8s", "-");
    printf(" %9s %9.1f", i ? arena_fmt(k->a, "%.1e", p->error) : "-", p->cold);
    printf(" %9s", p->cached >= 0 ? arena_fmt(k->a, "%.1f", p->cached) : "-");
    printf(" %7.0f%s%s\n", p->memory / 1e6, p->why ? "  " : "", p->why ? p->why : "");
  }
  printf("\nratio: theirs to ours, the median over %u slices; spread: 10th to 90th percentile; error: largest "
         "difference to ours by the largest value; cold: process start to first result%s; MB: the "
         "most, python's own 30 included\n",
         t->peers.v[0].slices.n, t->peers.v[0].cached >= 0 ? " (cached: with our cache)" : "");
  printf("%d threads; peak %.1f GFLOP/s; other programs used %.2f processors%s\n", ek_run_threads(t->r), t->peak,
         t->others, t->others > 0.1 ? ": measure again on a quiet machine" : "");
  for (uint32_t i = 1; i < t->peers.n; i++)
    if (!t->peers.v[i].times.n)
      printf("%s: skipped: %s%s%s\n", t->peers.v[i].name, t->peers.v[i].why, t->peers.v[i].python ? "" : "; ",
             t->peers.v[i].python ? "" : t->peers.v[i].remedy);
}

/* ---- all of it ------------------------------------------------------------------------------- */
static void choose(contest *t) {
  cli *k = t->k;
  sbuf known = sbuf_new(k->a);
  vec_push(k->a, t->peers, ((peer){.name = "einkorn", .version = ek_version(), .cached = -1}));
  for (int i = 0; engines[i].name; i++) sb_fmt(&known, "%s%s", i ? ", " : "", engines[i].name);
  for (const char *s = k->against; *s; s += strcspn(s, ","), s += *s == ',') {
    size_t n = strcspn(s, ",");
    int i = 0;
    while (engines[i].name && !(strlen(engines[i].name) == n && !strncmp(engines[i].name, s, n))) i++;
    if (!engines[i].name) ctx_fail(k->c, E_USAGE, "--against %.*s: the engines are %s", (int)n, s, known.s);
    vec_push(k->a, t->peers, ((peer){.name = engines[i].name, .packages = engines[i].packages, .cached = -1}));
  }
  t->script = peer_script(k);
  if (!t->script)
    ctx_fail(k->c, E_IO,
             "bench/peer.py, which runs other engines, is neither where it is installed (share/einkorn/bench) nor "
             "where Einkorn was built");
}
static void write_inputs(contest *t) {
  cli *k = t->k;
  npz z = {.n = (uint32_t)ek_module_inputs(t->m)};
  z.names = NEWN(k->a, const char *, z.n + 1);
  z.arrays = NEWN(k->a, ndarray, z.n + 1);
  for (uint32_t i = 0; i < z.n; i++) z.names[i] = t->in[i].info.name, z.arrays[i] = t->in[i].d;
  t->inputs = arena_fmt(k->a, "%s/inputs.npz", t->work);
  if (!npz_write(k->c, t->inputs, &z)) ctx_unwind(k->c);
}
static ek_code take_turns(contest *t) {
  cli *k = t->k;
  ek_code e = ek_run_execute(t->r);
  if (e) return e;
  for (uint32_t i = 1; i < t->peers.n; i++) {
    progress_phase(arena_fmt(k->a, "loading the model into %s", t->peers.v[i].name), (double)(i - 1) / t->peers.n);
    start_peer(t, &t->peers.v[i]);
  }
  peer *own = &t->peers.v[0];
  own_start(t, false, &own->cold, &own->memory);
  if (!k->no_cache) own_start(t, true, &own->cached, NULL);
  uint32_t slices = k->slices ? (uint32_t)k->slices : 5;
  double busy = all_busy(), mine = own_busy(t), t0 = now_ms(), each = k->seconds / slices;
  numbers peaks = {0};
  for (uint32_t s = 0; !e && s < slices; s++) {
    double peak = 0; /* 10^9 operations a second; 0: not known */
    e = own_slice(t, each);
    if (!e) ek_measure_peak(k->s, k->target, ek_run_threads(t->r), PEAK_MS, &peak);
    vec_push(k->a, peaks, peak);
    for (uint32_t i = 1; i < t->peers.n; i++) {
      progress_phase("taking turns", (double)s / slices);
      peer_slice(k, &t->peers.v[i], each);
    }
  }
  t->peak = at(k->a, &peaks, 0, 0.5);
  double others = (all_busy() - busy - (own_busy(t) - mine)) / ((now_ms() - t0) * 1e-3);
  t->others = others > 0 ? others : 0;
  return e;
}
int bench_against(cli *k, ek_model *model, ek_module *m, ek_run *r, host_tensor *in) {
  contest t = {.k = k, .m = m, .r = r, .in = in};
  if (!model || !ends_in(k->args.v[0], ".onnx"))
    return fail_text(k, EK_USAGE, "error: --against: other engines read ONNX files; compile -o NAME.onnx makes one");
  choose(&t);
  const char *work = peer_folder(k);
  t.work = work;
  setenv("TMPDIR", work, 1); /* files that engines leave there are removed with the folder */
  /* writing to an engine that is gone must not end this program */
  struct sigaction ignore = {.sa_handler = SIG_IGN}, was;
  sigaction(SIGPIPE, &ignore, &was);
  volatile ek_code e = EK_OK;
  contest *volatile all = &t;
  CTX_TRY(k->c) {
    write_inputs(all);
    e = take_turns(all);
  }
  CTX_CATCH {
    for (uint32_t i = 1; i < all->peers.n; i++) lose(&all->peers.v[i], "");
    peer_remove(work);
    ctx_unwind(k->c);
  }
  for (uint32_t i = 1; i < t.peers.n; i++) lose(&t.peers.v[i], t.peers.v[i].why);
  peer_remove(work);
  sigaction(SIGPIPE, &was, NULL);
  if (e) return fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(r)));
  double macs = model_macs(k, model, in, ek_module_inputs(m));
  t.gflops = macs > 0 ? 2e-9 * macs : -1;
  progress_clear();
  if (k->json)
    tell_json(&t);
  else
    tell(&t);
  return EXIT_DONE;
}
