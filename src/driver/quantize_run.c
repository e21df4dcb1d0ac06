/* The runs of ek_quantize: the one that counts what tensors hold, and those that compare two models. */
#include "driver/quantize.h"
#include <math.h>
#include <string.h>

/* ---- one sample ------------------------------------------------------------------------------ */
ek_code quantize_take(quantiser *q, size_t i) {
  for (size_t k = 0; k < q->nin; k++) q->in[k] = (ek_array){.name = q->in[k].name};
  if (q->want.sample(q->want.sample_user, i, q->in, q->nin))
    return session_fail(q->m->s, EK_FAILED, "the data of sample %zu could not be had", i);
  return EK_OK;
}
ek_code quantize_run(quantiser *q, ek_run *run) {
  for (uint32_t i = 0; i < q->caches.n; i++) /* each sample begins anew */
    if (ek_run_reset(run, q->caches.v[i].in->source))
      return session_fail(q->m->s, EK_FAILED, "%s", ek_run_message(run));
  for (size_t k = 0; k < q->nin; k++) {
    const ek_array *x = &q->in[k];
    const ek_code code = ek_run_set_input(run, x->name, x->data, x->bytes, x->dims, x->rank);
    if (code) return session_fail(q->m->s, code, "%s", ek_run_message(run));
  }
  const ek_code code = ek_run_execute(run);
  return code ? session_fail(q->m->s, code, "%s", ek_run_message(run)) : EK_OK;
}
ek_code quantize_progress(quantiser *q, const char *phase, double done) {
  ek_session *s = q->m->s;
  if (s->progress && s->progress(s->progress_user, phase, done))
    return session_fail(s, EK_CANCELLED, "cancelled while: %s", phase);
  return EK_OK;
}
/* ---- what tensors hold ----------------------------------------------------------------------- */
static ek_code limits_of(void *env, ek_run *run) {
  quantiser *q = env;
  for (uint32_t i = 0; i < q->seen.n; i++) {
    ek_array lo, hi;
    ek_code e = ek_run_get_output(run, quantize_observed(q->a, i, QUANT_LEAST), &lo);
    if (!e) e = ek_run_get_output(run, quantize_observed(q->a, i, QUANT_GREATEST), &hi);
    if (e) return session_fail(q->m->s, e, "%s", ek_run_message(run));
    observed *x = &q->seen.v[i];
    if (!quantize_add(&x->s, *(const float *)lo.data, *(const float *)hi.data))
      return session_fail(
          q->m->s, EK_FAILED,
          "tensor %s has values that are infinite or no numbers; ranges need finite values: look at the "
          "data, or exclude the layers that read it",
          x->v->source);
  }
  return EK_OK;
}
static ek_code bins_of(quantiser *q, ek_run *run) {
  for (uint32_t i = 0; i < q->seen.n; i++) {
    ek_array counts;
    const ek_code e = ek_run_snapshot(run, quantize_observed(q->a, i, QUANT_COUNTS), &counts);
    if (e) return session_fail(q->m->s, e, "%s", ek_run_message(run));
    q->seen.v[i].s.bins = arena_dup(q->a, counts.data, counts.bytes);
  }
  return EK_OK;
}
void quantize_name_inputs(quantiser *q, ek_module *code) {
  q->nin = (size_t)ek_module_inputs(code);
  q->in = NEWN(q->a, ek_array, q->nin + 1);
  for (size_t k = 0; k < q->nin; k++) q->in[k].name = arena_strdup(q->a, code->d->in[k].name);
}
static bool counts_bins(const quantiser *q) { return q->want.method != EK_QUANTIZE_MINMAX; }
static void add_statistics(graph *g, void *env) {
  const quantiser *q = env;
  const char **names = NEWN(ctx_arena(g->c), const char *, q->seen.n + 1);
  for (uint32_t i = 0; i < q->seen.n; i++) names[i] = q->seen.v[i].v->source;
  quantize_observe(g, names, q->seen.n, counts_bins(q));
}
ek_code quantize_observe_samples(quantiser *q, const observation *o, ek_module **code, ek_run **run) {
  const inner_options adding = {.edit = o->add, .edit_env = o->env, .edit_ops = o->operators};
  ek_code e = compile_inner(q->base, &q->o, &adding, code);
  if (!e) e = ek_run_create(*code, q->o.threads, run);
  if (!e) quantize_name_inputs(q, *code);
  for (size_t i = 0; !e && i < q->end_observed; i++) {
    e = quantize_take(q, i);
    if (!e) e = quantize_run(q, *run);
    if (!e && o->take) e = o->take(o->env, *run);
    if (!e) e = quantize_progress(q, o->phase, (double)(i + 1) / (double)q->end_observed);
  }
  return e;
}
ek_code quantize_calibrate(quantiser *q) {
  const observation counting = {
      .add = add_statistics, .take = limits_of, .env = q, .operators = quantize_operators, .phase = "calibrating"};
  ek_module *code = NULL;
  ek_run *run = NULL;
  ek_code e = quantize_observe_samples(q, &counting, &code, &run);
  if (!e && counts_bins(q)) e = bins_of(q, run);
  ek_module_close(code);
  return e;
}

/* ---- two models ------------------------------------------------------------------------------ */
ek_options quantize_compile_options(const quantiser *q, const side *s) {
  ek_options o = q->o;
  if (s->bf16) o.precision = EK_PRECISION_BF16;
  return o;
}
ek_code quantize_open(quantiser *q, side *s, const char *const *watch) {
  ek_options o = quantize_compile_options(q, s);
  o.watch = watch;
  const ek_code e = ek_compile(s->m, &o, &s->code);
  if (!e && !q->in) quantize_name_inputs(q, s->code);
  return e ? e : ek_run_create(s->code, o.threads, &s->run);
}
void quantize_close(side *s) {
  ek_module_close(s->code); /* with its run */
  s->code = NULL, s->run = NULL;
}
static int64_t greatest(const float *x, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 1; i < n; i++)
    if (x[i] > x[at]) at = i;
  return at;
}
static void compare(const side *a, const side *b, noise *x) {
  const int32_t i = ek_module_find_output(a->code, x->name), k = ek_module_find_output(b->code, x->name);
  const size_t bytes = i < 0 ? 0 : ek_run_output_bytes(a->run, i);
  int64_t dims[EK_MAX_RANK], n = (int64_t)(bytes / sizeof(float));
  int32_t rank = 0;
  x->known = i >= 0 && k >= 0 && a->code->d->out[i].type == EK_FLOAT && b->code->d->out[k].type == EK_FLOAT &&
             bytes == ek_run_output_bytes(b->run, k);
  if (!x->known) return;
  const float *want = ek_run_output_data(a->run, i), *got = ek_run_output_data(b->run, k);
  double signal = 0, error = 0;
  for (int64_t j = 0; j < n; j++) {
    const double d = (double)want[j] - (double)got[j];
    signal += (double)want[j] * (double)want[j], error += d * d;
  }
  x->signal += signal, x->error += error;
  ek_run_output_dims(a->run, i, dims, &rank);
  const int64_t row = rank ? dims[rank - 1] : 1;
  double changed = 0;
  for (int64_t j = 0; row > 1 && j < n; j += row)
    x->rows++, changed += greatest(want + j, row) != greatest(got + j, row);
  x->changed += changed;
  if (x->signals) x->signals[x->samples] = signal, x->errors[x->samples] = error, x->changes[x->samples] = changed;
  x->samples++;
}
noise quantize_noise(quantiser *q, const char *name, bool output) {
  noise x = {.name = name};
  const size_t n = q->want.samples - q->first_compared + 1;
  if (output) x.signals = NEWN(q->a, double, n), x.errors = NEWN(q->a, double, n), x.changes = NEWN(q->a, double, n);
  return x;
}
double quantize_decibels(const noise *x) {
  return !x->known ? NAN : x->error == 0 ? INFINITY : 10 * log10(x->signal / x->error);
}
double quantize_least_decibels(const noise *x, arena *a) {
  return x->known ? 10 * log10(quantize_ratio_at_least(x->signals, x->errors, x->samples, a)) : NAN;
}
ek_code quantize_compare(quantiser *q, const side *a, const side *b, size_t first, size_t samples, noise *x,
                         uint32_t n) {
  ek_code e = EK_OK;
  for (size_t i = 0; !e && i < samples; i++) {
    e = quantize_take(q, first + i);
    if (!e) e = quantize_run(q, a->run);
    if (!e) e = quantize_run(q, b->run);
    for (uint32_t k = 0; !e && k < n; k++) compare(a, b, &x[k]);
  }
  return e;
}
