/* ek_quantize: a model of f32 becomes one of eight-bit integers.
 *
 *   1. The graph is read as the standard has it, simplified, and each node's formula tells whether it is a layer
 *      (quantize/product.c).
 *      Where it is asked for, magnitudes of channels move into weights (quantize_smooth.c), and the model with these
 *      takes the place of the first one.
 *      With weights alone, only products with rows of a constant matrix, and step 2 is quantize_blocks.c.
 *   2. The model is compiled with kernels that count what the layers' inputs hold (quantize/observe.c), and runs once
 *      on each sample (quantize_run.c). Ranges follow (quantize/range.c).
 *      The quantised model runs once more, and tells the mean error of each layer (quantize_correct.c).
 *   3. Layers are kept that are slower in int8, where that is asked for (quantize_time.c), and with a budget those that
 *      cost the outputs most (quantize_search.c).
 *   4. The graph gets its new nodes (quantize/insert.c) and is written; the written model and the first one run on the
 *      last samples, and their results are compared.
 */
#include "driver/quantize.h"
#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- 1. layers ------------------------------------------------------------------------------- */
/* The formula of one node by itself: its inputs that are not constant are the first inputs of a graph of one node;
 * those of the model follow, which give open sizes their values. NULL: it has none. */
static emodule *formula(pipeline *p, node *n, value **inputs) {
  graph *one = graph_new(p->c, NULL, "formula");
  emodule *volatile m = NULL;
  if (!n->out.n || !n->out.v[0]) return NULL;
  const value before = *n->out.v[0];
  one->names = p->g->names;
  for (uint32_t i = 0; i < n->in.n; i++) {
    value *v = n->in.v[i];
    bool had = !v || v->data;
    for (uint32_t k = 0; k < one->inputs.n; k++) had |= one->inputs.v[k] == v;
    if (had) continue;
    inputs[one->inputs.n] = v;
    vec_push(p->a, one->inputs, v);
  }
  for (uint32_t i = 0; i < p->g->inputs.n; i++) {
    bool had = false;
    for (uint32_t k = 0; k < one->inputs.n; k++) had |= one->inputs.v[k] == p->g->inputs.v[i];
    if (had) continue;
    inputs[one->inputs.n] = p->g->inputs.v[i];
    vec_push(p->a, one->inputs, p->g->inputs.v[i]);
  }
  vec_push(p->a, one->nodes, n);
  vec_push(p->a, one->outputs, n->out.v[0]);
  const uint32_t mark = diag_mark(p->c);
  CTX_TRY(p->c) { m = lower_graph(one, p->lib, NULL, 0); }
  CTX_CATCH { m = NULL; }
  if (!m) diag_reset(p->c, mark);
  *n->out.v[0] = before; /* types and sizes are those of the whole graph */
  return m;
}
static bool excluded(const quantiser *q, const char *name, bool *hit) {
  bool any = false;
  for (uint32_t i = 0; q->want.exclude && q->want.exclude[i]; i++)
    if (!fnmatch(q->want.exclude[i], name, 0)) any = hit[i] = true;
  return any;
}
static bool has_region(const node *n) {
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (n->attrs.v[i].g) return true;
  return false;
}
/* Number of an input that the layer leaves out, and by which its formula would add a bias; -1: there is none. */
static int32_t bias_input(pipeline *p, const quant_layer *x) {
  node *n = x->n;
  uint32_t at = 0;
  if (!quantize_correctable(x) || x->bias) return -1;
  while (at < n->in.n && n->in.v[at]) at++;
  const node was = *n;
  memset(&n->in, 0, sizeof n->in);
  for (uint32_t i = 0; i < was.in.n || i <= at; i++) vec_push(p->a, n->in, i < was.in.n ? was.in.v[i] : NULL);
  const int64_t channels = quantize_channels_of(x);
  const ndarray zeros = {.type = ET_F32,
                         .rank = 1,
                         .dims = {channels},
                         .data = (const uint8_t *)NEWN(p->a, float, channels + 1),
                         .bytes = (size_t)channels * sizeof(float)};
  value *bias = n->in.v[at] = graph_const(p->g, "quantize.bias", &zeros);
  quant_layer y;
  value **inputs = NEWN(p->a, value *, n->in.n + p->g->inputs.n + 1);
  emodule *m = formula(p, n, inputs);
  const bool adds = m && quantize_layer(m, n, inputs, &y) && !y.kept && y.bias == bias;
  *n = was, p->g->values.n--;
  return adds ? (int32_t)at : -1;
}
static void find_formulas(quantiser *q, pipeline *p) {
  for (uint32_t i = 0; i < q->g->nodes.n; i++) {
    node *n = q->g->nodes.v[i];
    quant_formula *f = NEW(q->a, quant_formula);
    f->inputs = NEWN(q->a, value *, n->in.n + q->g->inputs.n + 1);
    f->m = has_region(n) ? NULL : formula(p, n, f->inputs);
    if (f->m) map_putu(q->formulas, (uint64_t)(uintptr_t)n, (uint64_t)(uintptr_t)f);
  }
}
static void find_layers(quantiser *q, pipeline *p) {
  uint32_t patterns = 0;
  while (q->want.exclude && q->want.exclude[patterns]) patterns++;
  bool *hit = NEWN(q->a, bool, patterns + 1);
  strvec names = {0};
  for (uint32_t i = 0; i < q->g->nodes.n; i++) {
    node *n = q->g->nodes.v[i];
    quant_layer x;
    if (!n->domain[0] && (!strcmp(n->op, "QuantizeLinear") || !strcmp(n->op, "DequantizeLinear")))
      ctx_fail(q->c, E_USAGE, "%s: the model is quantised already (node %s); take the f32 model that it was made of",
               q->m->name, n->name);
    uint64_t at;
    vec_push(q->a, names, n->name);
    const bool out = excluded(q, n->name, hit);
    if (!map_getu(q->formulas, (uint64_t)(uintptr_t)n, &at)) continue;
    const quant_formula *f = (const quant_formula *)(uintptr_t)at;
    if (!quantize_layer(f->m, n, f->inputs, &x)) continue;
    if (quantize_corrects(q) && !out) x.bias_input = bias_input(p, &x);
    if (out) x.kept = "excluded";
    vec_push(q->a, q->layers, x);
  }
  for (uint32_t i = 0; i < patterns; i++)
    if (!hit[i])
      ctx_fail(q->c, E_USAGE, "exclude %s: the model has no node of that name%s", q->want.exclude[i],
               did_you_mean(q->a, q->want.exclude[i], names.v, names.n));
}
static void observe_factor(quantiser *q, value *v) {
  if (v->data) return;
  for (uint32_t i = 0; i < q->seen.n; i++)
    if (q->seen.v[i].v == v) return;
  vec_push(q->a, q->seen, ((observed){v, quantize_nothing()}));
}
/* Can a tensor be looked at in a run? */
static bool observable(const quantiser *q, const value *v) {
  if (v->data || map_gets(q->known, v->source, NULL)) return true;
  for (uint32_t i = 0; i < q->g->inputs.n; i++)
    if (q->g->inputs.v[i] == v) return true;
  return false;
}
static void find_tensors(quantiser *q) {
  bool some = false;
  q->seen.n = 0;
  for (uint32_t i = 0; i < q->layers.n; i++) {
    quant_layer *x = &q->layers.v[i];
    const bool observed = !quantize_weights_only(q) || q->want.method == EK_QUANTIZE_GPTQ;
    if (!x->kept && observed && q->want.scheme != EK_QUANTIZE_BF16 &&
        !(observable(q, x->f[0].v) && observable(q, x->f[1].v)))
      x->kept = "a factor is no tensor of the model's file, and cannot be observed";
    if (x->kept) continue;
    if (observed) observe_factor(q, x->f[0].v), observe_factor(q, x->f[1].v);
    some = true;
  }
  if (some) return;
  sbuf b = sbuf_new(q->a);
  for (uint32_t i = 0; i < q->layers.n && i < 4; i++)
    sb_fmt(&b, "; %s (%s): %s", q->layers.v[i].n->name, q->layers.v[i].n->op, q->layers.v[i].kept);
  ctx_fail(q->c, E_USAGE, "%s: there is nothing to quantise: %s%s", q->m->name,
           q->layers.n ? "every layer stays as it is" : "no node is a sum of products of two f32 tensors",
           b.n ? b.s : "");
}
static ek_code know_values(quantiser *q) {
  const ek_value_info *v;
  size_t n;
  const ek_code e = ek_model_values(q->base, &v, &n);
  q->known = map_new(q->a);
  for (size_t i = 0; !e && i < n; i++) map_puts(q->known, v[i].name, 1);
  return e;
}
ek_code quantize_find_tensors(quantiser *q) {
  volatile ek_code code = know_values(q);
  CTX_TRY(q->c) {
    if (!code) find_tensors(q);
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}
static void as_in_file(pipeline *p, void *env) {
  (void)env;
  p->standard = true;
}
static ek_code survey(pipeline *p, void *env) {
  quantiser *q = env;
  q->c = p->c, q->a = p->a, q->g = p->g, q->formulas = map_new(p->a);
  q->trial = arena_fmt(p->a, "%.*s.trial.onnx", (int)strlen(q->path) - 5, q->path);
  q->smooth = arena_fmt(p->a, "%.*s.smooth.onnx", (int)strlen(q->path) - 5, q->path);
  if (know_values(q)) return EK_FAILED;
  const ops_sources ops = own_ops_sources(p->c, q->m->ops, q->m->nops);
  simplify_graph(p, &ops);
  find_formulas(q, p);
  if (quantize_caches_alone(q))
    quantize_find_caches(q);
  else {
    find_layers(q, p);
    quantize_keep_other_forms(q);
    find_tensors(q);
  }
  q->alone = NEWN(q->a, double, q->layers.n + 1);
  for (uint32_t i = 0; i < q->layers.n; i++) q->alone[i] = NAN;
  return EK_OK;
}

/* ---- 2. ranges ------------------------------------------------------------------------------- */
static void find_ranges(quantiser *q) {
  q->ranges = NEWN(q->a, quant_tensor, q->seen.n + 1);
  for (uint32_t i = 0; i < q->seen.n; i++)
    q->ranges[i] = (quant_tensor){
        q->seen.v[i].v, quantize_range(&q->seen.v[i].s, (quant_method)q->want.method, q->want.percentile, q->a)};
}

/* ---- 4. errors ------------------------------------------------------------------------------- */
static double correction(const quantiser *q, uint32_t layer) {
  const float *by = q->shifts ? q->shifts[layer] : NULL;
  const int64_t n = by ? quantize_channels_of(&q->layers.v[layer]) : 0;
  double all = 0;
  for (int64_t c = 0; c < n; c++) all += (double)by[c] * (double)by[c];
  return n ? sqrt(all / (double)n) : 0;
}
static void fill_result(quantiser *q, const noise *x, uint64_t before) {
  ek_quantized *r = q->r;
  ek_quantized_layer *l = NEWN(q->a, ek_quantized_layer, q->layers.n + q->caches.n + 1);
  ek_quantized_output *o = NEWN(q->a, ek_quantized_output, q->g->outputs.n + 1);
  double all = 0, some = 0;
  for (uint32_t i = 0; i < q->layers.n; i++) {
    const quant_layer *y = &q->layers.v[i];
    l[i] = (ek_quantized_layer){.name = y->n->name,
                                .op = y->n->op,
                                .output = x[i].name,
                                .kept = y->kept,
                                .sqnr = quantize_decibels(&x[i]),
                                .alone = q->alone[i],
                                .macs = q->layers.v[i].macs,
                                .corrected = y->kept ? 0 : correction(q, i),
                                .ms_before = q->before ? q->before[i] : NAN,
                                .ms_after = q->after ? q->after[i] : NAN};
    all += q->layers.v[i].macs, some += y->kept ? 0 : q->layers.v[i].macs, r->quantized += !y->kept;
  }
  for (uint32_t i = 0; i < q->caches.n; i++)
    l[i] = (ek_quantized_layer){.name = q->caches.v[i].in->source,
                                .op = "state",
                                .output = q->caches.v[i].out->source,
                                .sqnr = NAN,
                                .alone = NAN,
                                .ms_before = NAN,
                                .ms_after = NAN};
  r->quantized += q->caches.n;
  for (uint32_t i = 0; i < q->g->outputs.n; i++) {
    const noise *y = &x[q->layers.n + i];
    if (y->known)
      o[r->output_count++] =
          (ek_quantized_output){y->name, quantize_decibels(y), y->rows > 0 ? 100 * y->changed / y->rows : NAN,
                                y->samples > 1 ? quantize_least_decibels(y, q->a) : NAN};
  }
  r->layer_count = q->layers.n + q->caches.n, r->layers = l, r->outputs = o, r->share = all > 0 ? some / all : 0;
  r->samples = q->want.samples, r->observed = q->end_observed, r->compared = q->want.samples - q->first_compared;
  r->bytes_before = before, r->bytes_after = q->bytes;
  r->smoothed_count = q->moved.n, r->smoothed = q->moved.v;
}
static uint64_t size_of(const ek_model *m) {
  struct stat s;
  return m->data ? m->bytes : m->path && !stat(m->path, &s) ? (uint64_t)s.st_size : 0;
}
/* Is the bound that a budget was held against made of few samples? */
static void warn_of_few(const quantiser *q, const noise *x) {
  if (!x->known || q->want.least_sqnr <= 0) return;
  const size_t power = quantize_half(x->signals, x->samples, q->a), error = quantize_half(x->errors, x->samples, q->a);
  const size_t few = error && error < power ? error : power;
  if (few && few < DECIDING_SAMPLES)
    diag_warn(q->c, NULL,
              "half of the %s of output %s is that of %zu of %zu samples: the budget may not hold on other data; give "
              "more samples, or such as differ less in magnitude",
              few == error ? "error" : "power", x->name, few, x->samples);
}
static ek_code measure(quantiser *q) {
  const uint32_t n = q->layers.n + q->g->outputs.n;
  noise *x = NEWN(q->a, noise, n + 1);
  const char **watch = NEWN(q->a, const char *, q->layers.n + 1);
  side a = {.m = q->base}, b = {.bf16 = q->want.scheme == EK_QUANTIZE_BF16};
  for (uint32_t i = 0; i < n; i++)
    x[i] = quantize_noise(
        q, i < q->layers.n ? q->layers.v[i].n->out.v[0]->source : q->g->outputs.v[i - q->layers.n]->source,
        i >= q->layers.n);
  for (uint32_t i = 0, k = 0; i < q->layers.n; i++) { /* what has this name in both files */
    const value *v = q->layers.v[i].n->out.v[0];
    if (map_gets(q->known, v->source, NULL) && !strcmp(v->name, v->source)) watch[k++] = v->source;
  }
  if (!q->want.samples) {
    fill_result(q, x, size_of(q->m));
    return EK_OK;
  }
  ek_code e = ek_load(q->m->s, q->path, &b.m);
  if (!e) e = quantize_open(q, &a, watch);
  if (!e) e = quantize_open(q, &b, watch);
  if (!e) e = quantize_progress(q, "comparing", 0);
  if (!e) e = quantize_compare(q, &a, &b, q->first_compared, q->want.samples - q->first_compared, x, n);
  quantize_close(&a);
  quantize_close(&b);
  ek_model_close(b.m);
  if (e) return e;
  fill_result(q, x, size_of(q->m));
  diag_reset(q->c, 0); /* what was said about the model is told already */
  for (uint32_t i = q->layers.n; i < n; i++) warn_of_few(q, &x[i]);
  return session_done(q->m->s, q->c, EK_OK);
}

/* ---- all of it ------------------------------------------------------------------------------- */
static ek_code check_options(quantiser *q, const ek_quantize_options *given) {
  ek_session *s = q->m->s;
  const size_t n = strlen(q->path);
  if (!struct_read(given, &q->want, sizeof q->want))
    return session_fail(s, EK_USAGE, STRUCT_UNKNOWN("ek_quantize_options"), given->size, sizeof q->want);
  if (q->want.options && !struct_read(q->want.options, &q->o, sizeof q->o))
    return session_fail(s, EK_USAGE, STRUCT_UNKNOWN("ek_options"), q->want.options->size, sizeof q->o);
  if (n < 6 || strcmp(q->path + n - 5, ".onnx"))
    return session_fail(s, EK_USAGE, "%s: the quantised model is written as NAME.onnx", q->path);
  ek_code e = quantize_check_blocks(q);
  if (!e) e = quantize_check_caches(q);
  if (e) return e;
  if (quantize_needs_data(q) && (!q->want.samples || !q->want.sample))
    return session_fail(s, EK_USAGE,
                        "ek_quantize: ranges are measured on data: give at least one sample of the inputs");
  if ((unsigned)q->want.method > EK_QUANTIZE_GPTQ)
    return session_fail(s, EK_USAGE, "ek_quantize: there is no method %d", (int)q->want.method);
  if (!(q->want.least_sqnr >= 0 && q->want.most_changed <= 100))
    return session_fail(s, EK_USAGE, "ek_quantize: a budget is a number of dB, or a share of rows from 0 to 100");
  if (!(q->want.smooth <= 1))
    return session_fail(s, EK_USAGE, "ek_quantize: smooth is at most 1, 0 to search, below 0 for none, not %g",
                        q->want.smooth);
  if (!(q->want.percentile > 0 && q->want.percentile <= 100))
    return session_fail(s, EK_USAGE, "ek_quantize: the percentile must be above 0 and at most 100, not %g",
                        q->want.percentile);
  return EK_OK;
}
static bool same_file(const char *a, const char *b) { /* both are there, and one file */
  struct stat x, y;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
ek_code ek_quantize(ek_model *m, const ek_quantize_options *given, const char *path, ek_quantized *out) {
  /* One of so many samples is compared on only; with a budget they decide, too, and tell how much samples vary. */
  enum { HELD_OUT = 5, HELD_OUT_TO_DECIDE = 2 };
  if (out) *out = (ek_quantized){0};
  if (!m || !given || !path || !out) return session_null(m ? m->s : NULL);
  quantiser q = {.m = m, .base = m, .path = path, .r = out};
  ek_quantize_options_init(&q.want), ek_options_init(&q.o);
  ek_code e = check_options(&q, given);
  if (!e && m->path && same_file(m->path, path))
    e = session_fail(m->s, EK_USAGE, "%s is the model itself, which the result is compared with; give another file",
                     path);
  q.o.cache = NULL, q.o.watch = NULL, q.o.profile = 0, q.o.evaluate = 0, q.o.stop_after = NULL, q.o.pass = NULL;
  if (!quantize_caches_alone(&q)) q.o.states = NULL;
  const size_t held = q.want.samples / (quantize_has_budget(&q) ? HELD_OUT_TO_DECIDE : HELD_OUT);
  q.end_observed = q.want.samples - held, q.first_compared = held ? q.end_observed : 0;
  if (!quantize_needs_data(&q)) q.end_observed = q.first_compared = 0;
  ctx *c = NULL;
  ek_options as_written = q.o;
  if (quantize_caches_alone(&q)) as_written.states = as_written.dims = NULL; /* they are open in the file */
  if (!e) e = in_pipe(m, &as_written, as_in_file, survey, &q, &c);
  q.c = c;
  if (!e) e = quantize_smooth_channels(&q);
  if (!e && quantize_weights_only(&q)) e = quantize_choose_codes(&q);
  if (!e && q.want.scheme == EK_QUANTIZE_INT8) e = quantize_calibrate(&q);
  if (!e && quantize_caches_alone(&q)) e = quantize_choose_scales(&q);
  if (!e) find_ranges(&q);
  if (!e) e = quantize_correct(&q);
  if (!e) e = quantize_keep_slower(&q);
  if (!e) e = quantize_search(&q);
  if (!e) e = quantize_write(&q, path);
  if (!e && q.want.samples) e = quantize_time(&q, path);
  if (!e) e = measure(&q);
  quantize_close_smooth(&q);
  ctx_free(m->s->scratch);
  m->s->scratch = c; /* the result's texts */
  if (!e)
    text_set(&m->s->message, "");
  else
    *out = (ek_quantized){0};
  return e;
}
