/* einkorn run: once through a model; what comes out is told, written, or compared with what was expected. */
#include "cli/cli.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static const uint8_t *element(const ndarray *d, int64_t i) { return (const uint8_t *)d->data + i * et_bytes(d->type); }
static double value_at(const ndarray *d, int64_t i) { return et_number(d->type, element(d, i)); }
static void put_value(sbuf *b, const ndarray *d, int64_t i) {
  if (et_kind(d->type) == K_FLOAT)
    sb_fmt(b, "%.6g", value_at(d, i));
  else if (d->type == ET_U64)
    sb_fmt(b, "%llu", (unsigned long long)et_load(d->type, element(d, i)).i);
  else
    sb_fmt(b, "%lld", (long long)et_load(d->type, element(d, i)).i);
}
/* name f32[1, 10]  min .. max, mean; the first values */
static void tell_output(cli *k, const ndarray *d, const char *name, json *j) {
  int64_t n = 0;
  nd_count(d, &n);
  double lo = INFINITY, hi = -INFINITY, sum = 0;
  int64_t nans = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = value_at(d, i);
    if (isnan(x)) {
      nans++;
      continue;
    }
    if (x < lo) lo = x;
    if (x > hi) hi = x;
    sum += x;
  }
  if (k->json) {
    json_num(j, "min", lo);
    json_num(j, "max", hi);
    json_num(j, "mean", n > nans ? sum / (double)(n - nans) : 0);
    json_int(j, "nans", nans);
    json_arr(j, "values");
    for (int64_t i = 0; i < n && i < 16; i++) {
      if (et_kind(d->type) == K_FLOAT)
        json_num(j, NULL, value_at(d, i));
      else if (d->type == ET_U64)
        json_uint(j, NULL, (uint64_t)et_load(d->type, element(d, i)).i);
      else
        json_int(j, NULL, et_load(d->type, element(d, i)).i);
    }
    json_end(j);
    return;
  }
  sbuf b = sbuf_new(k->a);
  sb_fmt(&b, "%s %s", name, tensor_text(k->a, d->type, d->rank, d->dims, NULL));
  if (n > nans) sb_fmt(&b, "  min %.6g max %.6g mean %.6g", lo, hi, sum / (double)(n - nans));
  if (nans) sb_fmt(&b, "  NaN: %lld", (long long)nans);
  sb_put(&b, " :");
  for (int64_t i = 0; i < n && i < 8; i++) {
    sb_putc(&b, ' ');
    put_value(&b, d, i);
  }
  if (n > 8) sb_put(&b, " ...");
  puts(b.s);
}
static void write_outputs(cli *k, ek_module *m, ek_run *r) {
  npz z = {0};
  z.names = NEWN(k->a, const char *, ek_module_outputs(m) + 1);
  z.arrays = NEWN(k->a, ndarray, ek_module_outputs(m) + 1);
  for (int32_t i = 0; i < ek_module_outputs(m); i++) {
    ek_tensor_info t;
    ndarray d = result_array(k, m, r, i, &t);
    if (is_watched(k, t.name)) continue;
    z.arrays[z.n] = d;
    z.names[z.n++] = arena_strdup(k->a, t.name);
  }
  if (!npz_write(k->c, k->output, &z)) ctx_unwind(k->c);
}
static void begin_report(cli *k, ek_module *m, ek_run *r, double ms, json *j) {
  ek_report rep;
  ek_module_report(m, &rep);
  json_obj(j, NULL);
  json_str(j, "model", k->args.v[0]);
  json_num(j, "compile_ms", rep.total_ms);
  json_bool(j, "cached", rep.cached);
  json_num(j, "run_ms", ms);
  json_int(j, "memory", ek_run_memory(r));
  json_num(j, "peak_rss", process_peak(getpid()));
  json_times(k, j);
  json_arr(j, "outputs");
}
/* What came out of one output: told, or compared. False: it is not what was expected. */
static bool tell_result(cli *k, ek_module *m, ek_run *r, int32_t i, const expected *want, json *j) {
  ek_tensor_info t;
  ndarray d = result_array(k, m, r, i, &t);
  bool same = true;
  /* the output was asked for by --dump alone */
  if (is_watched(k, t.name) && !(k->expect && want->of[i])) return true;
  if (k->json) {
    json_obj(j, NULL);
    json_str(j, "name", t.name);
    json_str(j, "type", et_name(d.type));
    json_arr(j, "dims");
    for (uint32_t q = 0; q < d.rank; q++) json_int(j, NULL, d.dims[q]);
    json_end(j);
  }
  if (k->expect)
    same = tell_comparison(k, &d, t.name, want->of[i], j);
  else if (k->json || !k->quiet || !k->output) /* outputs that are written to a file need not be printed */
    tell_output(k, &d, t.name, j);
  if (k->json) json_end(j);
  return same;
}
static bool tell_results(cli *k, ek_model *model, ek_module *m, ek_run *r, const expected *want, double ms) {
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  int32_t n = ek_module_outputs(m);
  bool *same = NEWN(k->a, bool, n + 1), all = true;
  if (k->json) begin_report(k, m, r, ms, &j);
  for (int32_t i = 0; i < n; i++) all &= same[i] = tell_result(k, m, r, i, want, &j);
  if (k->json) json_end(&j);
  if (!all && n > 1 && model) tell_first(k, model, m, same, &j);
  if (k->json) {
    json_end(&j);
    print_json(&text);
  }
  return all;
}
int cmd_run(cli *k) {
  ek_model *model;
  ek_module *m;
  ek_run *r;
  int code = EXIT_DONE;
  host_tensor *in;
  expected want = {0};
  if (k->promote && (strcmp(k->promote, "f64") || !k->eval || k->passes_eval))
    return fail_text(k, EK_USAGE, "error: --promote: it is `--promote f64`, and goes with --eval");
  if (k->dump.n && is_library(k->args.v[0]))
    return fail_text(k, EK_USAGE,
                     "error: --dump: a compiled library gives its outputs only; take the model that it was made of");
  if (!open_module(k, k->args.v[0], &model, &m, &code)) return code;
  print_times(k);
  ek_code e = make_run(k, m, &r);
  if (e) return fail(k, e);
  if (k->expect) read_expected(k, m, &want);
  if (!bind_inputs(k, m, r, &in, &code)) return code;
  progress_phase("running", 0);
  double t0 = now_ms();
  e = k->frames ? frames_run(k, m, r, in) : ek_run_execute(r);
  double ms = now_ms() - t0;
  if (e) return fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(r)));
  progress_clear();
  bool same = tell_results(k, model, m, r, &want, ms);
  if (k->output) write_outputs(k, m, r);
  write_dumps(k, model, m, r);
  ek_report rep;
  ek_module_report(m, &rep);
  if (k->verbose)
    say(k, "%s in %.1f ms, ran in %.3f ms with %d threads, working memory %lld bytes (%s)\n",
        rep.cached ? "loaded from the cache" : "compiled", rep.total_ms, ms, ek_run_threads(r),
        (long long)ek_run_memory(r), rep.memory);
  return same ? EXIT_DONE : EXIT_FAILED;
}
