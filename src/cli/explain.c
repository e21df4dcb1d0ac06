/* einkorn explain: where does the time of a run go, and how far is each kernel from what the machine can do?
 *
 * The model runs for the given time with a clock around each kernel; a kernel's time is the median over the runs.
 * Beside it stands the least time that the machine allows: its operations at the peak of multiply-adds, or its bytes at
 * the bandwidth of where they lie, whichever is longer; both are measured just before, unless --peak states them.
 * Constants lie where all that the run touches fits, everything else where the kernel's own bytes fit. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 2000, LONG = 90 };
typedef struct row {
  ek_kernel k;   /* ms: the median */
  double floor;  /* ms; -1 not known */
  bool by_bytes; /* bytes bound it; else operations */
  double *all;   /* ms of each run */
} row;
typedef struct account {
  row *rows;           /* the kernels */
  size_t n;            /* number of kernels */
  double total;        /* milliseconds of a run, median */
  double between;      /* milliseconds outside of kernels, median */
  double kernels;      /* milliseconds: sum of the rows' medians */
  double floor;        /* milliseconds: sum of the rows' floors */
  double ops;          /* operations of a run, as the model defines them; -1: not known */
  double set;          /* bytes that a run touches */
  int threads;         /* threads of a run */
  uint32_t runs;       /* number of runs measured */
  bool stated;         /* the machine's figures were given by --peak */
  ek_machine at;       /* what the machine can do */
  int64_t memory;      /* working memory of the run as compiled, scratch areas included, in bytes */
  const char *formula; /* working memory as a formula; NULL: not known */
  ek_memory_use use;   /* what it takes, and what runs again for it */
  const char *least;   /* most bytes live at one time, a number or a formula; NULL: not known */
} account;

static int by_time(const void *a, const void *b) {
  double x = ((const row *)a)->k.ms, y = ((const row *)b)->k.ms;
  return (x < y) - (x > y);
}

/* ---- what the machine can do ----------------------------------------------------------------- */
/* ns to read so many bytes that are used again and again: what does not fit a level comes from the next */
static double reading(const ek_machine *m, double bytes) {
  double ns = 0, below = 0;
  for (int i = 0; i < m->levels && bytes > below; i++) {
    double to = bytes < (double)m->level[i].bytes ? bytes : (double)m->level[i].bytes;
    ns += (to - below) / m->level[i].gbs, below = to;
  }
  return ns;
}
static bool read_peak(cli *k, ek_machine *m) { /* GFLOPS:GBS */
  char *end = NULL;
  *m = (ek_machine){.levels = 1};
  m->gflops = num_parse(k->c, k->peak, &end);
  m->level[0].bytes = UINT64_MAX;
  if (end != k->peak && *end == ':') {
    const char *from = end + 1;
    m->level[0].gbs = num_parse(k->c, from, &end);
    if (end != from && !*end && m->gflops > 0 && m->level[0].gbs > 0) return true;
  }
  return false;
}
static void floors(account *s) {
  for (size_t i = 0; i < s->n; i++) {
    row *r = &s->rows[i];
    const ek_kernel *k = &r->k;
    if (k->ops < 0 || k->bytes < 0 || k->weight_bytes < 0) {
      r->floor = -1;
      continue;
    }
    double sums = k->ops / s->at.gflops, own = k->bytes + k->weight_bytes;
    double moves = reading(&s->at, own);
    /* constants were last read a run ago */
    if (k->starts == 1 && s->set > own)
      moves = reading(&s->at, k->bytes) + reading(&s->at, s->set) * k->weight_bytes / s->set;
    r->by_bytes = moves > sums;
    r->floor = (r->by_bytes ? moves : sums) * 1e-6 * (double)k->starts;
    s->floor += r->floor;
  }
}

/* ---- the report ------------------------------------------------------------------------------ */
static double rate(double amount, const row *r) {
  return amount >= 0 && r->k.ms > 0 ? amount * (double)r->k.starts / (r->k.ms * 1e6) : 0;
}
static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }
static const char *shortened(cli *k, const char *s) {
  uint32_t n = 1;
  if (k->verbose || strlen(s) <= LONG) return s;
  for (const char *p = s; *p; p++) n += *p == ',' || (*p == ' ' && p[-1] != ',');
  return arena_fmt(k->a, "%.*s ... (%u)", LONG, s, n);
}
static void tell_reasons(cli *k, const account *s) { /* Prints how often each reason occurs, with an example. */
  strvec why = {0}, example = {0};
  VEC(uint32_t) times = {0};
  for (size_t i = 0; i < s->n; i++)
    for (const char *p = s->rows[i].k.apart; *p;) {
      size_t n = strcspn(p, "\n"), at = strcspn(p, ":");
      const char *text = arena_strndup(k->a, p + at + 2, n - at - 2);
      uint32_t q = 0;
      while (q < why.n && strcmp(why.v[q], text) != 0) q++;
      if (q == why.n) {
        vec_push(k->a, why, text);
        vec_push(k->a, example, (const char *)arena_fmt(k->a, "%s after %.*s", s->rows[i].k.name, (int)at, p));
        vec_push(k->a, times, 0u);
      }
      times.v[q]++;
      p += n + (p[n] == '\n');
    }
  if (why.n) puts("\nkernels stand apart from those that they read from (-v: each) because");
  for (uint32_t i = 0; i < why.n; i++) printf("  %4u x %s, such as %s\n", times.v[i], why.v[i], example.v[i]);
}
static void tell(cli *k, const account *s) {
  printf("%9s %6s %9s %7s %7s %9s %7s  kernel\n", "ms", "share", "GFLOP/s", "of peak", "GB/s", "floor ms", "reached");
  for (size_t i = 0; i < s->n; i++) {
    const row *r = &s->rows[i];
    if (!r->k.starts && !k->verbose) continue;
    double f = rate(r->k.ops, r), g = rate(r->k.bytes < 0 ? -1 : r->k.bytes + r->k.weight_bytes, r);
    printf("%9.5f %5.1f%% %9.1f %6.1f%% %7.1f %9.5f %6.1f%% %s %s%s%s %s", r->k.ms, share(r->k.ms, s->kernels), f,
           share(f, s->at.gflops), g, r->floor, share(r->floor, r->k.ms), r->by_bytes ? "b" : "f", r->k.name,
           r->k.parallel ? "*" : "", r->k.starts != 1 ? arena_fmt(k->a, " x%llu", (unsigned long long)r->k.starts) : "",
           r->k.kind);
    printf("%s%s%s: %s\n", *r->k.how ? " (" : "", r->k.how, *r->k.how ? ")" : "",
           shortened(k, *r->k.nodes ? r->k.nodes : r->k.tensors));
    for (const char *p = r->k.apart; k->verbose && *p;) {
      size_t n = strcspn(p, "\n");
      printf("%60s apart from %.*s\n", "", (int)n, p);
      p += n + (p[n] == '\n');
    }
  }
  printf("\n%.5f ms a run (median of %u, %d threads), %.5f in kernels, %.5f between them; %.5f at least on this "
         "machine: %.1f%% reached\n",
         s->total, s->runs, s->threads, s->kernels, s->between, s->floor, share(s->floor, s->kernels));
  if (s->ops > 0)
    printf("%.1f GFLOP/s as the model defines its work: %.1f%% of the peak\n", s->ops / (s->total * 1e6),
           share(s->ops / (s->total * 1e6), s->at.gflops));
  printf("machine (%s): %.1f GFLOP/s;", s->stated ? "stated" : "measured now", s->at.gflops);
  for (int i = 0; i < s->at.levels; i++)
    if (s->at.level[i].bytes != UINT64_MAX)
      printf(" %.1f GB/s within %.1f MB,", s->at.level[i].gbs, (double)s->at.level[i].bytes / 1e6);
    else
      printf(" %.1f GB/s from memory\n", s->at.level[i].gbs);
  printf("working memory: %lld bytes", (long long)s->memory);
  if (strspn(s->formula, "0123456789") != strlen(s->formula)) printf(" (%s)", s->formula);
  if (s->least) printf(", of which %s must be live at one time: no order of it in memory takes less", s->least);
  if (s->use.repeated)
    printf("; %llu kernels (again: ..) run once more for less memory, %.1f%% of the estimated time",
           (unsigned long long)s->use.repeated, 100 * s->use.repeated_cost);
  puts("");
  puts("floor: the longer of operations at the peak (f) and bytes at their bandwidth (b); *: in several threads; "
       "[node]: "
       "nothing of it is left by itself, its work is done here or in other kernels that name it");
  tell_reasons(k, s);
}
static void tell_json(const cli *k, const account *s) {
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  json_obj(&j, NULL);
  json_str(&j, "model", k->args.v[0]);
  json_int(&j, "threads", s->threads);
  json_uint(&j, "runs", s->runs);
  json_num(&j, "median_ms", s->total);
  json_num(&j, "kernels_ms", s->kernels);
  json_num(&j, "between_ms", s->between);
  json_num(&j, "floor_ms", s->floor);
  if (s->ops >= 0) json_num(&j, "model_ops", s->ops);
  json_int(&j, "memory", s->memory);
  json_str(&j, "memory_formula", s->formula);
  if (s->least) json_str(&j, "least_memory", s->least);
  json_uint(&j, "repeated", s->use.repeated);
  json_num(&j, "repeated_cost", s->use.repeated_cost);
  json_obj(&j, "machine");
  json_bool(&j, "stated", s->stated);
  json_num(&j, "gflops", s->at.gflops);
  json_arr(&j, "levels");
  for (int i = 0; i < s->at.levels; i++) {
    json_obj(&j, NULL);
    if (s->at.level[i].bytes != UINT64_MAX) json_uint(&j, "bytes", s->at.level[i].bytes);
    json_num(&j, "gbs", s->at.level[i].gbs);
    json_end(&j);
  }
  json_end(&j);
  json_end(&j);
  json_arr(&j, "kernels");
  for (size_t i = 0; i < s->n; i++) {
    const row *r = &s->rows[i];
    json_obj(&j, NULL);
    json_str(&j, "name", r->k.name);
    json_str(&j, "kind", r->k.kind);
    json_str(&j, "how", r->k.how);
    json_str(&j, "nodes", r->k.nodes);
    json_str(&j, "tensors", r->k.tensors);
    json_bool(&j, "parallel", r->k.parallel != 0);
    json_uint(&j, "starts", r->k.starts);
    json_num(&j, "ms", r->k.ms);
    if (r->floor >= 0) {
      json_num(&j, "ops", r->k.ops);
      json_num(&j, "bytes", r->k.bytes);
      json_num(&j, "weight_bytes", r->k.weight_bytes);
      json_num(&j, "floor_ms", r->floor);
      json_str(&j, "bound", r->by_bytes ? "bytes" : "operations");
    }
    json_arr(&j, "apart");
    for (const char *p = r->k.apart; *p;) {
      size_t n = strcspn(p, "\n"), at = strcspn(p, ":");
      json_obj(&j, NULL);
      json_strn(&j, "kernel", p, at);
      json_strn(&j, "why", p + at + 2, n - at - 2);
      json_end(&j);
      p += n + (p[n] == '\n');
    }
    json_end(&j);
    json_end(&j);
  }
  json_end(&j);
  json_end(&j);
  print_json(&text);
}

/* ---- one run as trace events: Chrome's format, which Perfetto reads, too ---------------------- */
static void thread_names(json *j, const ek_event *v, size_t n) {
  int32_t most = 0;
  for (size_t i = 0; i < n; i++)
    if (v[i].thread > most) most = v[i].thread;
  for (int32_t t = 0; t <= most; t++) {
    char name[32];
    snprintf(name, sizeof name, t ? "thread %d" : "caller", t);
    json_obj(j, NULL);
    json_str(j, "name", "thread_name");
    json_str(j, "ph", "M");
    json_int(j, "pid", 1);
    json_int(j, "tid", t);
    json_obj(j, "args");
    json_str(j, "name", name);
    json_end(j);
    json_end(j);
  }
}
static void write_trace(cli *k, ek_run *r) {
  const ek_event *v;
  const ek_kernel *kernels;
  size_t n = 0, nk = 0;
  if (ek_run_events(r, &v, &n) || ek_run_kernels(r, &kernels, &nk))
    ctx_fail(k->c, E_FAILED, "--trace: %s", ek_run_message(r));
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, false);
  json_obj(&j, NULL);
  json_str(&j, "displayTimeUnit", "ns");
  json_arr(&j, "traceEvents");
  thread_names(&j, v, n);
  for (size_t i = 0; i < n; i++) {
    const ek_kernel *of = &kernels[v[i].kernel];
    json_obj(&j, NULL);
    json_str(&j, "name", v[i].piece || !*of->nodes ? of->name : of->nodes);
    json_str(&j, "cat", v[i].piece ? "piece" : of->kind);
    json_str(&j, "ph", "X");
    json_num(&j, "ts", v[i].start_ms * 1000);
    json_num(&j, "dur", v[i].ms * 1000);
    json_int(&j, "pid", 1);
    json_int(&j, "tid", v[i].thread);
    json_obj(&j, "args");
    json_str(&j, "kernel", of->name);
    json_str(&j, "tensors", of->tensors);
    json_num(&j, "ops", of->ops);
    json_num(&j, "bytes", of->bytes);
    json_num(&j, "weight_bytes", of->weight_bytes);
    json_end(&j);
    json_end(&j);
  }
  json_end(&j);
  json_end(&j);
  if (!file_write(k->c, k->trace, text.s, text.n)) ctx_unwind(k->c);
  say(k, "%s: %zu events of one run; open it in chrome://tracing or https://ui.perfetto.dev\n", k->trace, n);
}
/* Nodes that no kernel names: said, so that nobody looks for them in vain. */
static void tell_absent(cli *k, ek_model *model, const account *s) {
  const ek_value_info *v;
  size_t n = 0;
  sbuf b = sbuf_new(k->a);
  const char *last = "";
  uint32_t count = 0;
  if (ek_model_values(model, &v, &n)) return;
  for (size_t i = 0; i < n; i++) {
    bool named = false;
    for (size_t r = 0; r < s->n && !named; r++)
      for (const char *p = s->rows[r].k.nodes; *p && !named;) {
        size_t len = strcspn(p, ","), at = *p == '[', l = len - 2 * at;
        named = l == strlen(v[i].node) && !strncmp(p + at, v[i].node, l);
        p += len;
        p += strspn(p, ", ");
      }
    if (named || !strcmp(last, v[i].node)) continue;
    sb_fmt(&b, "%s%s", b.n ? ", " : "", v[i].node);
    last = v[i].node, count++;
  }
  if (count)
    printf("in no kernel: %u nodes (computed when compiling, or spread over many kernels): %s\n", count,
           k->verbose ? b.s : shortened(k, b.s));
}

/* ---- measuring ------------------------------------------------------------------------------- */
/* What runs: a model, or a step of training, at a learning rate of 0 so that the parameters stay what they are. */
typedef struct subject {
  ek_run *run;     /* its run */
  ek_trainer *t;   /* NULL: a model */
  ek_array *batch; /* of the step */
  size_t n;        /* how many arrays */
} subject;
static ek_code once(const subject *x) {
  return x->t ? ek_trainer_step(x->t, x->batch, x->n, 0, NULL) : ek_run_execute(x->run);
}
static ek_code measure(cli *k, const subject *x, account *s) {
  const ek_kernel *table;
  double *totals = NEWN(k->a, double, MOST_RUNS), *between = NEWN(k->a, double, MOST_RUNS), began = now_ms(),
         end = k->seconds * 1000, warm = end / 5;
  ek_code e = once(x);
  while (!e && now_ms() - began < warm) e = once(x);
  if (e || (e = ek_run_kernels(x->run, &table, &s->n)) != EK_OK) return e;
  s->rows = NEWN(k->a, row, s->n + 1);
  for (size_t i = 0; i < s->n; i++) s->rows[i].all = NEWN(k->a, double, MOST_RUNS);
  while (s->runs < MOST_RUNS && (now_ms() - began < end || s->runs < 5)) {
    double t0 = now_ms();
    if ((e = once(x)) != EK_OK) return e;
    between[s->runs] = totals[s->runs] = now_ms() - t0;
    if ((e = ek_run_kernels(x->run, &table, &s->n)) != EK_OK) return e;
    for (size_t i = 0; i < s->n; i++)
      s->rows[i].k = table[i], s->rows[i].all[s->runs] = table[i].ms, between[s->runs] -= table[i].ms;
    s->runs++;
    progress_phase("measuring", (now_ms() - began) / end);
  }
  s->total = quantile(totals, s->runs, 0.5), s->between = quantile(between, s->runs, 0.5);
  for (size_t i = 0; i < s->n; i++)
    s->rows[i].k.ms = quantile(s->rows[i].all, s->runs, 0.5), s->kernels += s->rows[i].k.ms;
  return EK_OK;
}
/* Measures, and gives the report; model NULL: of a step of training. */
static int account_of(cli *k, const subject *x, const ek_report *rep, account *s, ek_model *model, host_tensor *in,
                      int32_t nin) {
  s->threads = ek_run_threads(x->run);
  ek_code e = EK_OK;
  if (!k->peak) e = ek_measure_machine(k->s, k->target, s->threads, 60, &s->at);
  if (e) return fail(k, e);
  if ((e = measure(k, x, s)) != EK_OK)
    return x->t ? fail(k, e) : fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(x->run)));
  if (k->trace) write_trace(k, x->run);
  s->memory = ek_run_memory(x->run), s->formula = rep->memory, s->least = rep->least_memory;
  s->set = (double)ek_run_memory(x->run) + (double)rep->weight_bytes;
  s->ops = model ? model_macs(k, model, in, nin) * 2 : -1;
  floors(s);
  if (k->sort) qsort(s->rows, s->n, sizeof *s->rows, by_time);
  progress_clear();
  if (k->json) {
    tell_json(k, s);
    return EXIT_DONE;
  }
  tell(k, s);
  if (model) tell_absent(k, model, s);
  return EXIT_DONE;
}
static int explain_step(cli *k, const ek_options *o, account *s) {
  subject x = {0};
  ek_report rep;
  const int code = open_step(k, o, &x.t, &x.batch, &x.n);
  if (code) return code;
  x.run = ek_trainer_run(x.t);
  ek_trainer_report(x.t, &rep);
  ek_trainer_memory(x.t, &s->use);
  return account_of(k, &x, &rep, s, NULL, NULL, 0);
}
int cmd_explain(cli *k) {
  ek_model *model = NULL;
  ek_module *m;
  ek_report rep;
  subject x = {0};
  host_tensor *in;
  int code = EXIT_DONE;
  account s = {.stated = k->peak != NULL, .use = {.size = sizeof s.use}};
  if (k->peak && !read_peak(k, &s.at))
    return fail_text(k, EK_USAGE, "error: --peak: GFLOPS:GBS is expected, two numbers above 0, such as 288:43");
  if (is_library(k->args.v[0]))
    return fail_text(
        k, EK_USAGE,
        "error: a compiled library does not tell about its kernels; explain the model that it was made of");
  ek_options o = compile_options(k);
  o.cache = NULL, o.profile = 1 + (k->trace != NULL);
  if (k->train.loss) return explain_step(k, &o, &s);
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (!e) e = ek_compile(model, &o, &m);
  if (e) return fail(k, e);
  print_times(k);
  if ((e = make_run(k, m, &x.run)) != EK_OK) return fail(k, e);
  if (!bind_inputs(k, m, x.run, &in, &code)) return code;
  ek_module_report(m, &rep);
  ek_module_memory(m, &s.use);
  return account_of(k, &x, &rep, &s, model, in, ek_module_inputs(m));
}
