/* How long does each layer take, in f32 and in int8? Both models run in turns, with a clock around each kernel, and the
 * least time of each kernel counts. A kernel's time is that of the layers that it computes, in equal parts; a kernel
 * that does nothing but quantise a tensor belongs to the layers that read it. */
#include "driver/quantize.h"
#include <math.h>
#include <string.h>

enum { ROUNDS = 10, LEAST_ROUNDS = 3 };
static const double enough_ms = 2000; /* after so many milliseconds LEAST_ROUNDS are enough */
static const double short_ms = 0.02;  /* what takes less is not judged: the clock's own time counts there */
static const double slower_by = 1.05; /* times as long is slower, and no accident of the measurement */
static const char not_faster[] = "it is not faster in int8";

typedef struct timing {
  side s;             /* a model, compiled with clocks */
  double *least;      /* of each kernel: the least time, milliseconds */
  const ek_kernel *k; /* kernels of the last run */
  size_t n;           /* how many */
  double *layers;     /* of each layer: its time */
  double all;         /* of all kernels together */
} timing;

/* ---- which layers does a kernel compute? ----------------------------------------------------- */
/* Is `name` one of the names in `nodes`, with commas between, that a kernel computes? */
static bool computes(const char *nodes, const char *name) {
  const size_t n = strlen(name);
  for (const char *p = strstr(nodes, name); p; p = strstr(p + 1, name))
    if ((p == nodes || (p >= nodes + 2 && p[-1] == ' ' && p[-2] == ',')) && (!p[n] || p[n] == ',')) return true;
  return false;
}
static bool only_quantises(const char *nodes) {
  static const char *const ends[] = {"_QuantizeLinear", "_DequantizeLinear"};
  for (const char *p = nodes; *p;) {
    const size_t n = strcspn(p, ",]");
    bool any = false;
    for (int i = 0; i < 2; i++)
      any |= n >= strlen(ends[i]) && !strncmp(p + n - strlen(ends[i]), ends[i], strlen(ends[i]));
    if (!any) return false;
    p += n;
    p += strspn(p, ",] ");
  }
  return *nodes != 0;
}
static bool reads(quantiser *q, const quant_layer *x, const char *nodes) {
  for (int i = 0; i < 2; i++)
    if (x->f[i].v && strstr(nodes, arena_fmt(q->a, "%s_QuantizeLinear", x->f[i].v->name))) return true;
  return false;
}
static void share(quantiser *q, timing *t, size_t k) {
  const char *nodes = t->k[k].nodes;
  const bool quantises = only_quantises(nodes);
  bool *mine = NEWN(q->a, bool, q->layers.n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->layers.n; i++)
    n += mine[i] = quantises ? reads(q, &q->layers.v[i], nodes) : computes(nodes, q->layers.v[i].n->name);
  for (uint32_t i = 0; i < q->layers.n; i++)
    if (mine[i]) t->layers[i] += t->least[k] / n;
}

/* ---- runs ------------------------------------------------------------------------------------ */
static ek_code open_timed(quantiser *q, timing *t) {
  ek_options o = quantize_compile_options(q, &t->s);
  o.profile = 1;
  const ek_code e = ek_compile(t->s.m, &o, &t->s.code);
  t->layers = NEWN(q->a, double, q->layers.n + 1);
  if (!e && !q->in) quantize_name_inputs(q, t->s.code);
  return e ? e : ek_run_create(t->s.code, o.threads, &t->s.run);
}
static ek_code run_timed(quantiser *q, timing *t) {
  ek_code e = quantize_run(q, t->s.run);
  if (!e && (e = ek_run_kernels(t->s.run, &t->k, &t->n)) != EK_OK)
    session_fail(q->m->s, e, "%s", ek_run_message(t->s.run));
  if (e) return e;
  if (!t->least) {
    t->least = NEWN(q->a, double, t->n + 1);
    for (size_t k = 0; k < t->n; k++) t->least[k] = INFINITY;
  }
  for (size_t k = 0; k < t->n; k++) t->least[k] = fmin(t->least[k], t->k[k].ms);
  return EK_OK;
}
static ek_code run_alternately(quantiser *q, timing *a, timing *b) {
  ek_code e = quantize_take(q, q->first_compared);
  const double from = now_ms();
  for (int i = 0; !e && i < ROUNDS && (i < LEAST_ROUNDS || now_ms() - from < enough_ms); i++) {
    e = run_timed(q, a);
    if (!e) e = run_timed(q, b);
  }
  for (int i = 0; !e && i < 2; i++) {
    timing *t = i ? b : a;
    for (size_t k = 0; k < t->n; k++) share(q, t, k), t->all += t->least[k];
  }
  return e;
}
ek_code quantize_time(quantiser *q, const char *path) {
  timing a = {.s.m = q->m}, b = {.s.bf16 = q->want.scheme == EK_QUANTIZE_BF16};
  ek_code e = quantize_progress(q, "timing", 0);
  if (!e) e = ek_load(q->m->s, path, &b.s.m);
  if (!e) e = open_timed(q, &a);
  if (!e) e = open_timed(q, &b);
  if (!e) e = run_alternately(q, &a, &b);
  quantize_close(&a.s);
  quantize_close(&b.s);
  ek_model_close(b.s.m);
  q->before = a.layers, q->after = b.layers;
  q->r->ms_before = a.all, q->r->ms_after = b.all;
  return e;
}

/* ---- layers that are slower ------------------------------------------------------------------ */
static bool slower(const quantiser *q, uint32_t layer) {
  const bool is = q->before[layer] >= short_ms && q->after[layer] > slower_by * q->before[layer];
  return EK_PLANTED("quantize-faster") ? !is : is;
}
ek_code quantize_keep_slower(quantiser *q) {
  bool some = false;
  if (!q->want.only_faster) return EK_OK;
  ek_code e = quantize_write(q, q->trial);
  if (!e) e = quantize_time(q, q->trial);
  quantize_remove_trial(q);
  for (uint32_t i = 0; !e && i < q->layers.n; i++) {
    if (!q->layers.v[i].kept && slower(q, i)) q->layers.v[i].kept = not_faster;
    some |= !q->layers.v[i].kept;
  }
  if (!e && !some)
    return session_fail(q->m->s, EK_FAILED,
                        "no layer is faster in int8 on this machine; leave the demand out to quantise them anyway");
  return e;
}
