/* einkorn bench: how fast is a model on this machine? Runs are timed one by one for the given time; the machine's peak
 * of multiply-adds is measured in between, five times, and its median taken: the share of it means something on a
 * machine whose clock moves. */
#include "cli/cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEAKS = 5 };

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
double process_peak(int pid) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/status", pid);
  FILE *f = fopen(path, "r");
  long long kb = 0;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %lld", &kb) == 1) break;
  if (f) fclose(f);
  return (double)kb * 1024;
}
double quantile(double *v, uint32_t n, double q) {
  qsort(v, n, sizeof *v, by_size);
  return n ? v[(uint32_t)(q * (n - 1) + 0.5)] : 0;
}
void sample_add(arena *a, sample *s, double x) {
  enum { MOST = 1 << 16 };
  if (!s->every) s->every = 1;
  if (s->seen++ % s->every) return;
  if (s->n == MOST) {
    for (uint32_t i = 0; i < MOST / 2; i++) s->v[i] = s->v[2 * i];
    s->n = MOST / 2, s->every *= 2;
  }
  vec_push(a, *s, x);
}
double model_macs(cli *k, ek_model *model, const host_tensor *in, int32_t n) {
  if (!model) return -1;
  strvec dims = {0};
  for (int32_t i = 0; i < n; i++)
    for (int32_t d = 0; d < in[i].info.rank; d++) {
      const char *name = in[i].info.dim_names[d];
      bool have = !name;
      for (uint32_t j = 0; name && j < dims.n; j++)
        have |= !strncmp(dims.v[j], name, strlen(name)) && dims.v[j][strlen(name)] == '=';
      if (!have && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(name))
        vec_push(k->a, dims, (const char *)arena_fmt(k->a, "%s=%lld", name, (long long)in[i].d.dims[d]));
    }
  for (uint32_t i = 0; i < k->dims.n; i++) vec_push(k->a, dims, k->dims.v[i]);
  vec_push(k->a, dims, NULL);
  ek_options o;
  ek_options_init(&o);
  o.dims = dims.v;
  ek_model_info f;
  if (ek_model_describe(model, &o, &f)) return -1;
  return (double)f.work.macs.value;
}
typedef struct figures {
  double compile_ms; /* milliseconds to compile or load */
  double first_ms;   /* milliseconds of the first run */
  double median;     /* milliseconds */
  double mean;       /* milliseconds */
  double least;      /* milliseconds */
  double p10;        /* milliseconds: 10th percentile */
  double p90;        /* milliseconds: 90th percentile */
  double p99;        /* milliseconds: 99th percentile */
  double gflops;     /* 10^9 operations a second */
  double peak;       /* 10^9 operations a second that the machine does */
  uint32_t runs;     /* number of runs measured */
  int64_t items;     /* items of one run: the first dimension of the first input; 0: it has none */
  const char *of;    /* the input's name */
  int64_t memory;    /* working memory, bytes */
  uint64_t weights;  /* bytes of the packed constants */
  int threads;       /* threads of a run */
  double rss;        /* most bytes that the process had resident */
  bool cached;       /* the code came from the cache */
} figures;
static void tell(cli *k, const figures *f) {
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_obj(&j, NULL);
    json_str(&j, "model", k->args.v[0]);
    json_int(&j, "threads", f->threads);
    json_num(&j, "compile_ms", f->compile_ms);
    json_bool(&j, "cached", f->cached);
    json_num(&j, "first_run_ms", f->first_ms);
    json_num(&j, "median_ms", f->median);
    json_num(&j, "p10_ms", f->p10);
    json_num(&j, "p90_ms", f->p90);
    json_num(&j, "p99_ms", f->p99);
    json_num(&j, "mean_ms", f->mean);
    json_num(&j, "least_ms", f->least);
    json_uint(&j, "warmup", k->warmup);
    json_num(&j, "runs_per_second", 1000 / f->mean);
    if (f->items) json_num(&j, "items_per_second", 1000 * (double)f->items / f->mean);
    json_uint(&j, "runs", f->runs);
    json_int(&j, "memory", f->memory);
    json_uint(&j, "weight_bytes", f->weights);
    json_num(&j, "peak_rss", f->rss);
    if (f->gflops >= 0) {
      json_num(&j, "gflops", f->gflops);
      json_num(&j, "percent_of_peak", 100 * f->gflops / f->peak);
    }
    json_num(&j, "peak_gflops", f->peak);
    json_end(&j);
    print_json(&text);
    return;
  }
  printf("median %.3f ms, p10 %.3f, p90 %.3f, p99 %.3f, least %.3f (%u runs, %d threads)\n", f->median, f->p10, f->p90,
         f->p99, f->least, f->runs, f->threads);
  printf("%.1f runs a second", 1000 / f->mean);
  if (f->items)
    printf(", %.1f items (a run has %lld: the first dimension of %s)", 1000 * (double)f->items / f->mean,
           (long long)f->items, f->of);
  putchar('\n');
  printf("%s in %.1f ms, first run %.3f ms\n", f->cached ? "loaded from the cache" : "compiled", f->compile_ms,
         f->first_ms);
  printf("working memory %lld bytes, constants %llu bytes, process %.0f MB at most\n", (long long)f->memory,
         (unsigned long long)f->weights, f->rss / 1e6);
  if (f->gflops >= 0)
    printf("%.1f GFLOP/s, %.1f%% of the peak measured now (%.1f GFLOP/s)\n", f->gflops, 100 * f->gflops / f->peak,
           f->peak);
  else
    printf("peak measured now: %.1f GFLOP/s\n", f->peak);
}
/* In PEAKS parts, each of so many runs or so long, with the machine's peak behind it. */
static ek_code measure(cli *k, ek_run *r, figures *f, sample *times, double *peaks) {
  double spent = 0, end = k->seconds * 1000;
  ek_code e = EK_OK;
  f->least = INFINITY;
  for (uint32_t i = 0; !e && i < PEAKS; i++) {
    uint64_t runs = k->iterations * (i + 1) / PEAKS;
    while (!e && (k->iterations ? times->seen < runs : spent * PEAKS < end * (i + 1) || times->seen <= i)) {
      double t0 = now_ms();
      e = ek_run_execute(r);
      double t = now_ms() - t0;
      sample_add(k->a, times, t);
      spent += t;
      if (t < f->least) f->least = t;
      progress_phase("measuring", k->iterations ? (double)times->seen / (double)k->iterations : spent / end);
    }
    if (!e) ek_measure_peak(k->s, k->target, f->threads, PEAK_MS, &peaks[i]);
  }
  f->mean = times->seen ? spent / times->seen : 0;
  return e;
}
int cmd_bench(cli *k) {
  ek_model *model;
  ek_module *m;
  ek_run *r;
  int code = EXIT_DONE;
  host_tensor *in;
  figures f = {0};
  if (!open_module(k, k->args.v[0], &model, &m, &code)) return code;
  print_times(k);
  ek_code e = make_run(k, m, &r);
  if (e) return fail(k, e);
  if (!bind_inputs(k, m, r, &in, &code)) return code;
  if (k->against) return bench_against(k, model, m, r, in);
  ek_report rep;
  ek_module_report(m, &rep);
  f.compile_ms = rep.total_ms, f.weights = rep.weight_bytes, f.threads = ek_run_threads(r), f.cached = rep.cached != 0;
  double t0 = now_ms(), peaks[PEAKS] = {0}; /* 10^9 operations a second; 0: not known */
  e = ek_run_execute(r);
  f.first_ms = now_ms() - t0;
  for (uint64_t i = 1; !e && i < k->warmup; i++) e = ek_run_execute(r);
  sample times = {0};
  if (!e) e = measure(k, r, &f, &times, peaks);
  if (e) return fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(r)));
  f.runs = times.seen, f.median = quantile(times.v, times.n, 0.5), f.p10 = quantile(times.v, times.n, 0.1),
  f.p90 = quantile(times.v, times.n, 0.9), f.p99 = quantile(times.v, times.n, 0.99);
  if (ek_module_inputs(m) && in[0].d.rank) f.items = in[0].d.dims[0], f.of = in[0].info.name;
  f.memory = ek_run_memory(r), f.peak = quantile(peaks, PEAKS, 0.5);
  f.rss = process_peak(getpid());
  double n = model_macs(k, model, in, ek_module_inputs(m));
  f.gflops = n >= 0 && f.median > 0 ? 2 * n / (f.median * 1e6) : -1;
  progress_clear();
  tell(k, &f);
  return EXIT_DONE;
}
