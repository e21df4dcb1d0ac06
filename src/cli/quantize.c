/* einkorn quantize: an int8 model of an f32 one. The library does it (ek_quantize); here the data are read, and the
 * result is told. */
#include "cli/cli.h"
#include <math.h>
#include <string.h>

/* The module is compiled for its inputs' types and sizes only. */
static ek_code inputs_of(cli *k, ek_model *model, ek_tensor_info **in, int32_t *n) {
  ek_options o = compile_options(k);
  ek_module *m;
  o.evaluate = 1, o.cache = NULL;
  const ek_code e = ek_compile(model, &o, &m);
  if (e) return e;
  *n = ek_module_inputs(m);
  *in = NEWN(k->a, ek_tensor_info, *n + 1);
  for (int32_t i = 0; i < *n; i++) {
    ek_tensor_info *t = &(*in)[i];
    ek_module_input(m, i, t);
    t->name = arena_strdup(k->a, t->name);
    for (int32_t d = 0; d < t->rank; d++)
      if (t->dim_names[d]) t->dim_names[d] = arena_strdup(k->a, t->dim_names[d]);
  }
  ek_module_close(m);
  return EK_OK;
}

/* --accuracy-budget: a number with % or dB behind it. */
static bool read_budget(cli *k, ek_quantize_options *o) {
  char *end;
  if (!k->budget) return true;
  const double x = num_parse(k->c, k->budget, &end);
  if (end == k->budget || !(x >= 0)) return false;
  if (!strcmp(end, "%"))
    o->most_changed = x;
  else if (!strcmp(end, "dB"))
    o->least_sqnr = x;
  else
    return false;
  return true;
}

/* --smooth: auto, or a number above 0. */
static bool read_smooth(cli *k, ek_quantize_options *o) {
  char *end;
  if (!k->smooth) return true;
  o->smooth = strcmp(k->smooth, "auto") ? num_parse(k->c, k->smooth, &end) : 0;
  return !strcmp(k->smooth, "auto") || (end != k->smooth && !*end && o->smooth > 0 && o->smooth <= 1);
}

/* ---- telling --------------------------------------------------------------------------------- */
static const char *decibels(cli *k, double x) {
  return isnan(x) ? "not known" : isinf(x) ? "no difference" : arena_fmt(k->a, "%.1f dB", x);
}
static void json_known(json *j, const char *key, double x) { /* NaN is not known; infinity, no error, is 999 dB */
  if (isnan(x))
    json_null(j, key);
  else
    json_num(j, key, isinf(x) ? 999 : x);
}
static void make_json(cli *k, const ek_quantized *r, json *j) {
  json_obj(j, NULL);
  json_str(j, "model", k->args.v[0]);
  json_str(j, "written", k->output);
  json_uint(j, "quantized", r->quantized);
  json_num(j, "share", r->share);
  json_num(j, "ms_before", r->ms_before);
  json_num(j, "ms_after", r->ms_after);
  json_uint(j, "bytes_before", r->bytes_before);
  json_uint(j, "bytes_after", r->bytes_after);
  json_uint(j, "observed", r->observed);
  json_uint(j, "compared", r->compared);
  json_arr(j, "outputs");
  for (size_t i = 0; i < r->output_count; i++) {
    json_obj(j, NULL);
    json_str(j, "name", r->outputs[i].name);
    json_known(j, "sqnr", r->outputs[i].sqnr);
    json_known(j, "changed", r->outputs[i].changed);
    json_known(j, "least", r->outputs[i].least);
    json_end(j);
  }
  json_end(j);
  json_arr(j, "smoothed");
  for (size_t i = 0; i < r->smoothed_count; i++) {
    json_obj(j, NULL);
    json_str(j, "tensor", r->smoothed[i].tensor);
    json_num(j, "alpha", r->smoothed[i].alpha);
    json_bool(j, "multiplied", r->smoothed[i].multiplied);
    json_end(j);
  }
  json_end(j);
  json_arr(j, "layers");
  for (size_t i = 0; i < r->layer_count; i++) {
    const ek_quantized_layer *l = &r->layers[i];
    json_obj(j, NULL);
    json_str(j, "name", l->name);
    json_str(j, "op", l->op);
    json_str(j, "output", l->output);
    json_str(j, "kept", l->kept);
    json_known(j, "sqnr", l->sqnr);
    json_known(j, "alone", l->alone);
    json_num(j, "macs", l->macs);
    json_known(j, "ms_before", l->ms_before);
    json_known(j, "ms_after", l->ms_after);
    json_num(j, "corrected", l->corrected);
    json_end(j);
  }
  json_end(j);
  json_end(j);
}
static const char *size_text(cli *k, uint64_t bytes) {
  return bytes >= 1 << 20 ? arena_fmt(k->a, "%.1f MiB", (double)bytes / (1 << 20))
                          : arena_fmt(k->a, "%.1f KiB", (double)bytes / 1024);
}
static const char *scheme_text(cli *k) {
  return k->scheme == EK_QUANTIZE_INT8   ? "int8"
         : k->scheme == EK_QUANTIZE_BF16 ? "bf16"
                                         : arena_fmt(k->a, "weights of %d bits", k->bits);
}
static const char *what_became(cli *k, const ek_quantized *r) {
  if (k->scheme == EK_QUANTIZE_CACHES) return arena_fmt(k->a, "%zu states are int8", r->quantized);
  return arena_fmt(k->a, "%zu of %zu layers (%.1f %% of their multiplications) are %s", r->quantized, r->layer_count,
                   100 * r->share, scheme_text(k));
}
static const char *times(cli *k, double before, double after) { /* NaN: not measured */
  return isnan(before) ? "" : arena_fmt(k->a, ", %.3f -> %.3f ms", before, after);
}
static void tell_smoothed(cli *k, const ek_quantized *r) {
  double least = INFINITY, most = 0;
  size_t multiplied = 0;
  if (!k->smooth) return;
  for (size_t i = 0; i < r->smoothed_count; i++) {
    const ek_smoothed *x = &r->smoothed[i];
    least = fmin(least, x->alpha), most = fmax(most, x->alpha), multiplied += x->multiplied != 0;
    if (k->verbose) printf("  %s: smoothed, alpha %g%s\n", x->tensor, x->alpha, x->multiplied ? ", by a Mul" : "");
  }
  if (r->smoothed_count)
    printf("smoothed: %zu tensors, alpha %g to %g, %zu by a Mul\n", r->smoothed_count, least, most, multiplied);
  else
    printf("smoothed: no tensor, as no error would become enough smaller\n");
}
static void tell_output(cli *k, const ek_quantized *r, const ek_quantized_output *x) {
  const bool seen = !r->observed || r->observed + r->compared > r->samples;
  printf("output %s: SQNR %s%s%s (%zu samples%s)\n", x->name, decibels(k, x->sqnr),
         k->budget && isfinite(x->least) ? arena_fmt(k->a, ", of others at least %.1f dB", x->least) : "",
         isnan(x->changed) ? "" : arena_fmt(k->a, ", another greatest element in %.3g %% of rows", x->changed),
         r->compared, seen ? "" : " that gave no ranges");
}
static void tell(cli *k, const ek_quantized *r) {
  const ek_quantized_layer *worst = NULL;
  size_t corrected = 0;
  if (k->quiet) return;
  printf("%s%s; %s -> %s\n", what_became(k, r), r->observed ? arena_fmt(k->a, ", by %zu samples", r->observed) : "",
         size_text(k, r->bytes_before), size_text(k, r->bytes_after));
  for (size_t i = 0; i < r->layer_count; i++) {
    const ek_quantized_layer *l = &r->layers[i];
    if (k->verbose || l->kept)
      printf("  %s (%s): %s%s%s%s%s%s%s\n", l->name, l->op, decibels(k, l->sqnr), times(k, l->ms_before, l->ms_after),
             l->corrected > 0 ? arena_fmt(k->a, ", bias corrected by %.2g", l->corrected) : "",
             l->kept ? ", stays as it is: " : "", l->kept ? l->kept : "", isnan(l->alone) ? "" : "; it alone: outputs ",
             isnan(l->alone) ? "" : decibels(k, l->alone));
    corrected += l->corrected > 0;
    if (!l->kept && !isnan(l->sqnr) && (!worst || l->sqnr < worst->sqnr)) worst = l;
  }
  if (r->compared) printf("kernels of one run: %.3f -> %.3f ms\n", r->ms_before, r->ms_after);
  if (worst) printf("lowest of a layer: %s, %s (%s)\n", decibels(k, worst->sqnr), worst->name, worst->op);
  tell_smoothed(k, r);
  if (corrected) printf("bias: the mean error of %zu layers was subtracted\n", corrected);
  for (size_t i = 0; i < r->output_count; i++) tell_output(k, r, &r->outputs[i]);
  printf("written: %s\n", k->output);
}

/* ---- the command ----------------------------------------------------------------------------- */
int cmd_quantize(cli *k) {
  ek_model *model;
  ek_tensor_info *in;
  int32_t n = 0;
  ek_quantize_options o;
  ek_quantized r;
  ek_options compile = compile_options(k);
  if (is_library(k->args.v[0]))
    return fail_text(k, EK_USAGE, "error: quantize: a compiled library; take the model that it was made of");
  if (!k->data.n && !(k->scheme && k->method != EK_QUANTIZE_GPTQ))
    return fail_text(k, EK_USAGE,
                     "error: quantize: no data: the ranges of tensors are measured on samples of the inputs; give some "
                     "with --data FILE.npz");
  if (k->scheme != EK_QUANTIZE_INT4 && (k->bits || k->block_size || k->zero_points || k->accuracy_level))
    return fail_text(k, EK_USAGE,
                     "error: quantize: --bits, --block-size, --zero-points and --accuracy-level are of weights alone: "
                     "they belong to --scheme int4");
  check_writable(k, "-o", k->output), check_writable(k, "--report", k->report);
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (!e) e = inputs_of(k, model, &in, &n);
  if (e) return fail(k, e);
  data_set *data = k->data.n ? data_read(k, in, n) : NULL;
  ek_quantize_options_init(&o);
  if (!read_budget(k, &o))
    return fail_text(k, EK_USAGE,
                     arena_fmt(k->a,
                               "error: --accuracy-budget %s: a number with %% or dB behind it is expected, such as "
                               "0.5%% or 40dB",
                               k->budget));
  if (!read_smooth(k, &o))
    return fail_text(
        k, EK_USAGE,
        arena_fmt(k->a, "error: --smooth %s: auto, or a number above 0 and at most 1, is expected", k->smooth));
  if (!isnan(k->percentile) && k->method != EK_QUANTIZE_PERCENTILE)
    return fail_text(k, EK_USAGE, "error: --percentile is for --method percentile; give both, or neither");
  vec_push(k->a, k->exclude, NULL);
  o.options = &compile, o.samples = data ? data_samples(data) : 0, o.sample = data_sample, o.sample_user = data;
  o.method = (ek_quantize_method)k->method, o.per_channel = k->per_channel, o.only_faster = k->only_faster,
  o.correct_bias = !k->keep_bias;
  if (!isnan(k->percentile)) o.percentile = k->percentile;
  o.exclude = k->exclude.v;
  o.scheme = (ek_quantize_scheme)k->scheme, o.bits = k->bits ? k->bits : o.bits;
  o.block_size = k->block_size ? k->block_size : o.block_size;
  o.zero_points = k->zero_points, o.accuracy_level = k->accuracy_level;
  k->bits = o.bits; /* for the report */
  e = ek_quantize(model, &o, k->output, &r);
  progress_clear();
  if (e) return fail(k, e);
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  make_json(k, &r, &j);
  if (k->report && !file_write(k->c, k->report, text.s, text.n)) ctx_unwind(k->c);
  if (k->json)
    print_json(&text);
  else
    tell(k, &r);
  return EXIT_DONE;
}
