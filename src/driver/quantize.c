/* ek_quantize: a model of f32 becomes one of eight-bit integers.
 *
 *   1. The graph is read as the standard has it, simplified, and each node's formula tells whether it is a layer
 *      (quantize/product.c).
 *   2. The model is compiled with the layers' inputs as further outputs, and runs on the samples: what these tensors
 *      hold is counted in one pass over the data (quantize/statistics.c).
 *   3. Ranges follow (quantize/range.c); the graph gets its new nodes (quantize/insert.c) and is written.
 *   4. The written model and the first one run on the last samples, and their results are compared.
 */
#include "driver/driver.h"
#include "onnx/onnx.h"
#include "quantize/quantize.h"
#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef struct observed {
  value *v;       /* the tensor */
  quant_stats s;  /* its values */
  int32_t input;  /* the model's input that it is; -1: it is computed */
  int32_t output; /* the output of the compiled module */
} observed;
typedef struct noise { /* of one tensor, or of one output */
  const char *name;    /* name of the tensor */
  double signal;       /* sum of the squares of its values */
  double error;        /* sum of the squares of the differences */
  bool known;          /* both models have it, in f32, with equal sizes */
} noise;
typedef struct quantiser {
  ek_model *m;              /* the model */
  ek_quantize_options want; /* what is asked for */
  ek_options o;             /* how models are compiled */
  const char *path;         /* what is written */
  ctx *c;                   /* context of the graph; NULL: not there yet */
  arena *a;                 /* its memory */
  graph *g;                 /* the graph; it gets the new nodes */
  VEC(quant_layer) layers;  /* nodes with products */
  VEC(observed) seen;       /* tensors to be observed */
  uint64_t bytes;           /* size of the written file */
  ek_array *in;             /* the last sample */
  size_t nin;               /* inputs of the model */
  size_t first_compared;    /* number of the first sample that errors are measured on */
  size_t end_observed;      /* end of those that ranges are taken from */
  ek_quantized *r;          /* the result */
} quantiser;

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
    value **inputs = NEWN(q->a, value *, n->in.n + q->g->inputs.n + 1);
    emodule *m = has_region(n) ? NULL : formula(p, n, inputs);
    vec_push(q->a, names, n->name);
    const bool out = excluded(q, n->name, hit);
    if (!m || !quantize_layer(m, n, inputs, &x)) continue;
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
  const observed x = {v, quantize_stats(q->a, q->want.method != EK_QUANTIZE_MINMAX), -1, -1};
  vec_push(q->a, q->seen, x);
}
/* Can each factor be looked at in a run? known: names of what the model computes. */
static bool observable(const quantiser *q, const value *v, const map *known) {
  if (v->data || map_gets(known, v->source, NULL)) return true;
  for (uint32_t i = 0; i < q->g->inputs.n; i++)
    if (q->g->inputs.v[i] == v) return true;
  return false;
}
static void find_tensors(quantiser *q, const map *known) {
  for (uint32_t i = 0; i < q->layers.n; i++) {
    quant_layer *x = &q->layers.v[i];
    if (!x->kept && !(observable(q, x->f[0].v, known) && observable(q, x->f[1].v, known)))
      x->kept = "a factor is no tensor of the model's file, and cannot be observed";
    if (x->kept) continue;
    observe_factor(q, x->f[0].v), observe_factor(q, x->f[1].v);
    q->r->quantized++;
  }
  if (q->r->quantized) return;
  sbuf b = sbuf_new(q->a);
  for (uint32_t i = 0; i < q->layers.n && i < 4; i++)
    sb_fmt(&b, "; %s (%s): %s", q->layers.v[i].n->name, q->layers.v[i].n->op, q->layers.v[i].kept);
  ctx_fail(q->c, E_USAGE, "%s: there is nothing to quantise: %s%s", q->m->name,
           q->layers.n ? "every layer stays as it is" : "no node is a sum of products of two f32 tensors",
           b.n ? b.s : "");
}
static void as_in_file(pipeline *p, void *env) {
  (void)env;
  p->standard = true;
}
static ek_code survey(pipeline *p, void *env) {
  quantiser *q = env;
  const ek_value_info *v;
  size_t n;
  map *known = map_new(p->a);
  q->c = p->c, q->a = p->a, q->g = p->g;
  if (ek_model_values(q->m, &v, &n)) return EK_FAILED;
  for (size_t i = 0; i < n; i++) map_puts(known, v[i].name, 1);
  const ops_sources ops = own_ops_sources(p->c, q->m->ops, q->m->nops);
  simplify_graph(p, &ops);
  find_layers(q, p);
  find_tensors(q, known);
  return EK_OK;
}

/* ---- 2. samples ------------------------------------------------------------------------------ */
static ek_code take_sample(quantiser *q, size_t i) {
  for (size_t k = 0; k < q->nin; k++) q->in[k] = (ek_array){.name = q->in[k].name};
  if (q->want.sample(q->want.sample_user, i, q->in, q->nin))
    return session_fail(q->m->s, EK_FAILED, "the data of sample %zu could not be had", i);
  return EK_OK;
}
static ek_code run_sample(quantiser *q, ek_run *run) {
  for (size_t k = 0; k < q->nin; k++) {
    const ek_array *x = &q->in[k];
    const ek_code code = ek_run_set_input(run, x->name, x->data, x->bytes, x->dims, x->rank);
    if (code) return session_fail(q->m->s, code, "%s", ek_run_message(run));
  }
  const ek_code code = ek_run_execute(run);
  return code ? session_fail(q->m->s, code, "%s", ek_run_message(run)) : EK_OK;
}
static ek_code progress(quantiser *q, const char *phase, double done) {
  ek_session *s = q->m->s;
  if (s->progress && s->progress(s->progress_user, phase, done))
    return session_fail(s, EK_CANCELLED, "cancelled while: %s", phase);
  return EK_OK;
}
static ek_code observe(quantiser *q, ek_run *run) {
  for (uint32_t i = 0; i < q->seen.n; i++) {
    observed *x = &q->seen.v[i];
    const void *data = x->input >= 0 ? q->in[x->input].data : ek_run_output_data(run, x->output);
    const size_t n = (x->input >= 0 ? q->in[x->input].bytes : ek_run_output_bytes(run, x->output)) / sizeof(float);
    quantize_observe(&x->s, data, (int64_t)n);
    if (x->s.bad)
      return session_fail(
          q->m->s, EK_FAILED,
          "tensor %s has values that are infinite or no numbers; ranges need finite values: look at the "
          "data, or exclude the layers that read it",
          x->v->source);
  }
  return EK_OK;
}
static const char *const *names_of_seen(quantiser *q) {
  const char **names = NEWN(q->a, const char *, q->seen.n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->seen.n; i++)
    if (q->seen.v[i].v->def) names[n++] = q->seen.v[i].v->source;
  return n ? names : NULL;
}
/* Which input or output of the module is each tensor that is observed? */
static void find_ports(quantiser *q, const ek_module *code) {
  for (uint32_t i = 0; i < q->seen.n; i++) {
    observed *x = &q->seen.v[i];
    if (x->v->def)
      x->output = ek_module_find_output(code, x->v->source);
    else
      x->input = ek_module_find_input(code, x->v->source);
  }
}
static void name_inputs(quantiser *q, ek_module *code) {
  q->nin = (size_t)ek_module_inputs(code);
  q->in = NEWN(q->a, ek_array, q->nin + 1);
  for (size_t k = 0; k < q->nin; k++) q->in[k].name = arena_strdup(q->a, code->d->in[k].name);
}
static ek_code calibrate(quantiser *q) {
  ek_module *code = NULL;
  ek_run *run = NULL;
  ek_options o = q->o;
  o.watch = names_of_seen(q);
  ek_code e = ek_compile(q->m, &o, &code);
  if (!e) e = ek_run_create(code, o.threads, &run);
  if (!e) name_inputs(q, code), find_ports(q, code);
  for (size_t i = 0; !e && i < q->end_observed; i++) {
    e = take_sample(q, i);
    if (!e) e = run_sample(q, run);
    if (!e) e = observe(q, run);
    if (!e) e = progress(q, "calibrating", (double)(i + 1) / (double)q->end_observed);
  }
  ek_module_close(code);
  return e;
}

/* ---- 3. the quantised graph ------------------------------------------------------------------ */
static ek_code write_graph(quantiser *q) {
  volatile ek_code code = EK_OK;
  CTX_TRY(q->c) {
    quant_tensor *t = NEWN(q->a, quant_tensor, q->seen.n + 1);
    for (uint32_t i = 0; i < q->seen.n; i++)
      t[i] = (quant_tensor){q->seen.v[i].v,
                            quantize_range(&q->seen.v[i].s, (quant_method)q->want.method, q->want.percentile, q->a)};
    quantize_insert(q->g, &(quant_plan){.layers = q->layers.v,
                                        .nlayers = q->layers.n,
                                        .tensors = t,
                                        .ntensors = q->seen.n,
                                        .per_channel = q->want.per_channel != 0,
                                        .least_error = q->want.method == EK_QUANTIZE_MSE});
    if (!graph_verify(q->g, "quantising") || !onnx_write(q->g, q->path, &q->bytes)) ctx_unwind(q->c);
  }
  CTX_CATCH { code = session_done(q->m->s, q->c, EK_FAILED); }
  return code;
}

/* ---- 4. errors ------------------------------------------------------------------------------- */
typedef struct side {
  ek_model *m;     /* a model */
  ek_module *code; /* compiled, with the layers' results as further outputs */
  ek_run *run;     /* a run of it */
} side;
static ek_code open_side(quantiser *q, side *s, const char *const *watch) {
  ek_options o = q->o;
  o.watch = watch;
  ek_code e = ek_compile(s->m, &o, &s->code);
  return e ? e : ek_run_create(s->code, o.threads, &s->run);
}
static void compare(const side *a, const side *b, noise *x) {
  const int32_t i = ek_module_find_output(a->code, x->name), k = ek_module_find_output(b->code, x->name);
  const size_t bytes = i < 0 ? 0 : ek_run_output_bytes(a->run, i);
  x->known = i >= 0 && k >= 0 && a->code->d->out[i].type == EK_FLOAT && b->code->d->out[k].type == EK_FLOAT &&
             bytes == ek_run_output_bytes(b->run, k);
  if (!x->known) return;
  const float *want = ek_run_output_data(a->run, i), *got = ek_run_output_data(b->run, k);
  double signal = 0, error = 0;
  for (size_t j = 0; j < bytes / sizeof(float); j++) {
    const double d = (double)want[j] - (double)got[j];
    signal += (double)want[j] * (double)want[j], error += d * d;
  }
  x->signal += signal, x->error += error;
}
static double decibels(const noise *x) {
  return !x->known ? NAN : x->error == 0 ? INFINITY : 10 * log10(x->signal / x->error);
}
static ek_code compare_all(quantiser *q, side *a, side *b, noise *x, uint32_t n) {
  const char **watch = NEWN(q->a, const char *, q->layers.n + 1);
  for (uint32_t i = 0; i < q->layers.n; i++) watch[i] = x[i].name;
  ek_code e = open_side(q, a, q->layers.n ? watch : NULL);
  if (!e) e = open_side(q, b, q->layers.n ? watch : NULL);
  for (size_t i = q->first_compared; !e && i < q->want.samples; i++) {
    e = take_sample(q, i);
    if (!e) e = run_sample(q, a->run);
    if (!e) e = run_sample(q, b->run);
    for (uint32_t k = 0; !e && k < n; k++) compare(a, b, &x[k]);
    const double done = (double)(i + 1 - q->first_compared) / (double)(q->want.samples - q->first_compared);
    if (!e) e = progress(q, "comparing", done);
  }
  return e;
}
static void fill_result(quantiser *q, const noise *x, uint64_t before) {
  ek_quantized *r = q->r;
  ek_quantized_layer *l = NEWN(q->a, ek_quantized_layer, q->layers.n + 1);
  ek_quantized_output *o = NEWN(q->a, ek_quantized_output, q->g->outputs.n + 1);
  for (uint32_t i = 0; i < q->layers.n; i++) {
    const quant_layer *y = &q->layers.v[i];
    l[i] = (ek_quantized_layer){y->n->name, y->n->op, x[i].name, y->kept, decibels(&x[i])};
  }
  for (uint32_t i = 0; i < q->g->outputs.n; i++)
    if (x[q->layers.n + i].known)
      o[r->output_count++] = (ek_quantized_output){x[q->layers.n + i].name, decibels(&x[q->layers.n + i])};
  r->layer_count = q->layers.n, r->layers = l, r->outputs = o;
  r->samples = q->want.samples, r->observed = q->end_observed, r->compared = q->want.samples - q->first_compared;
  r->bytes_before = before, r->bytes_after = q->bytes;
}
static uint64_t size_of(const ek_model *m) {
  struct stat s;
  return m->data ? m->bytes : m->path && !stat(m->path, &s) ? (uint64_t)s.st_size : 0;
}
static ek_code measure(quantiser *q) {
  const uint32_t n = q->layers.n + q->g->outputs.n;
  noise *x = NEWN(q->a, noise, n + 1);
  side a = {.m = q->m}, b = {0};
  for (uint32_t i = 0; i < n; i++)
    x[i].name = i < q->layers.n ? q->layers.v[i].n->out.v[0]->source : q->g->outputs.v[i - q->layers.n]->source;
  ek_code e = ek_load(q->m->s, q->path, &b.m);
  if (!e) e = compare_all(q, &a, &b, x, n);
  ek_module_close(a.code);
  ek_module_close(b.code);
  ek_model_close(b.m);
  if (!e) fill_result(q, x, size_of(q->m));
  return e;
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
  if (!q->want.samples || !q->want.sample)
    return session_fail(s, EK_USAGE,
                        "ek_quantize: ranges are measured on data: give at least one sample of the inputs");
  if ((unsigned)q->want.method > EK_QUANTIZE_MSE)
    return session_fail(s, EK_USAGE, "ek_quantize: there is no method %d", (int)q->want.method);
  if (!(q->want.percentile > 0 && q->want.percentile <= 100))
    return session_fail(s, EK_USAGE, "ek_quantize: the percentile must be above 0 and at most 100, not %g",
                        q->want.percentile);
  return EK_OK;
}
ek_code ek_quantize(ek_model *m, const ek_quantize_options *given, const char *path, ek_quantized *out) {
  enum { HELD_OUT = 5 /* one of so many samples is compared on only */ };
  if (out) *out = (ek_quantized){0};
  if (!m || !given || !path || !out) return session_null(m ? m->s : NULL);
  quantiser q = {.m = m, .path = path, .r = out};
  ek_quantize_options_init(&q.want), ek_options_init(&q.o);
  ek_code e = check_options(&q, given);
  q.o.cache = NULL, q.o.watch = NULL, q.o.states = NULL, q.o.profile = 0, q.o.evaluate = 0, q.o.stop_after = NULL,
  q.o.pass = NULL;
  const size_t held = q.want.samples / HELD_OUT;
  q.end_observed = q.want.samples - held, q.first_compared = held ? q.end_observed : 0;
  ctx *c = NULL;
  if (!e) e = in_pipe(m, &q.o, as_in_file, survey, &q, &c);
  q.c = c;
  if (!e) e = calibrate(&q);
  if (!e) e = write_graph(&q);
  if (!e) e = measure(&q);
  ctx_free(m->s->scratch);
  m->s->scratch = c; /* the result's texts */
  if (!e)
    text_set(&m->s->message, "");
  else
    *out = (ek_quantized){0};
  return e;
}
