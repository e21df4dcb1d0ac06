/* What should a tensor be, and how far may compiled code be from it?
 *
 * A part of the model is interpreted by the evaluator, with every float in f64: that is the truth. Compiled code
 * rounds, so an element may differ by a share of the tensor's largest value (the bound that --accuracy states), and,
 * where the operator magnifies rounding, by more. How much more is measured, for the elements that need it: the same
 * part is interpreted in the model's own types, with each float of the inputs moved to its neighbour, all up, all
 * down, or each somewhere, and with noise on everything that is stored on the way. (Perturbation as a measure of
 * conditioning: Higham, Accuracy and Stability of Numerical Algorithms, section 1.5.) */
#include "driver/diff.h"
#include "eval/eval.h"
#include <math.h>
#include <string.h>

enum { FACTOR = 64 /* so many times what one rounding does may become of all those in a node */ };

/* ---- inputs ---------------------------------------------------------------------------------- */
static double element(const ndarray *x, int64_t i) {
  return et_number(x->type, (const uint8_t *)x->data + i * et_bytes(x->type));
}
static int64_t mantissa_bits(etype t) { /* bits behind the point of a normal number */
  switch (t) {
  case ET_F64:
    return 52;
  case ET_F32:
    return 23;
  case ET_F16:
    return 10;
  case ET_BF16:
    return 7;
  default:
    return et_bits(t) == 8 ? 2 : 1;
  }
}
/* x with each float moved by a unit in its last place */
static ndarray moved(arena *a, const ndarray *x, exactness how) {
  const uint32_t w = et_bytes(x->type);
  ndarray y = *x;
  int64_t n = 0;
  uint32_t random = 1;
  if (how < INPUTS_UP || how > INPUTS_ANYWHERE || et_kind(x->type) != K_FLOAT || !nd_count(x, &n) || !n) return y;
  uint8_t *to = arena_array(a, (size_t)n, w);
  const double unit = ldexp(1, -(int)mantissa_bits(x->type));
  for (int64_t i = 0; i < n; i++) {
    random = random * 1664525u + 1013904223u;
    const bool up = how == INPUTS_UP || (how == INPUTS_ANYWHERE && random >> 31);
    const double v = element(x, i);
    et_store(x->type, to + i * w, (scalar){.f = isfinite(v) ? v * (up ? 1 + unit : 1 - unit) : v});
  }
  y.data = to;
  return y;
}
/* ---- interpreting ---------------------------------------------------------------------------- */
typedef struct interpreting {
  graph_part part;       /* what is interpreted */
  exactness how;         /* how exactly */
  const truth_reader *r; /* gets the outputs */
  uint32_t inputs;       /* the model's inputs among what is given */
} interpreting;
static void choose_part(pipeline *p, void *env) { p->o.part = &((interpreting *)env)->part; }
static evaluation *begin(pipeline *p, const interpreting *k, arena *a) {
  evaluation *v = expr_eval_new(p->m, a, p->o.compile_threads);
  expr_eval_lean(v);
  if (k->how >= NOISE) expr_eval_noise(v, k->how, 0, 0x1p-24); /* f64 stands for f32 here */
  for (uint32_t j = 0; j < p->m->inputs.n; j++) {
    const graph_given *x = diff_given(&k->part, p->m->inputs.v[j].name);
    if (!x) ctx_fail(p->c, E_USAGE, "there is no array for input %s", p->m->inputs.v[j].name);
    const ndarray d = moved(a, &x->data, k->how);
    expr_eval_input(v, p->m->inputs.v[j].t, &d);
  }
  return v;
}
/* Outputs of a part that was cut share little: each is computed by itself, so that nothing stays in memory. */
static ek_code interpret(pipeline *p, void *env) {
  interpreting *k = env;
  if (k->how != IN_MODEL_TYPES) expr_promote(p->m);
  const bool cut = k->part.n > k->inputs;
  arena *a = NULL;
  evaluation *v = NULL;
  bool more = true;
  for (uint32_t i = 0; i < p->m->outputs.n && more; i++) {
    if (!a) a = arena_new(p->c), v = begin(p, k, a);
    more = k->r->each(k->r->env, i, expr_eval_get(v, p->m->outputs.v[i].t));
    if (cut) arena_free(a), a = NULL;
    file_cool(p->c); /* constants leave memory again */
  }
  return EK_OK;
}
ek_code diff_truth(diff *d, const graph_part *part, exactness how, const truth_reader *r) {
  interpreting k = {*part, how, r, d->nin};
  k.part.open = false; /* all sizes are those of the run */
  ek_options o = d->o;
  ctx *c = NULL;
  o.dims = NULL;
  ek_code code = in_pipe(d->m, &o, choose_part, interpret, &k, &c);
  ctx_free(c);
  return code;
}
static bool keep(void *env, uint32_t i, const ndarray *x) {
  truth *t = env;
  (void)i;
  t->x = *x;
  void *copy = mem_get(NULL, x->bytes + 1);
  if (copy) memcpy(copy, x->data, x->bytes);
  t->x.data = copy;
  return false;
}
bool truth_of(diff *d, const graph_part *part, truth *t) {
  *t = (truth){.part = part, .name = part->outputs[0]};
  return diff_truth(d, part, IN_F64, &(truth_reader){keep, t}) == EK_OK && t->x.data;
}
void truth_end(truth *t) {
  mem_put(NULL, (void *)(uintptr_t)t->x.data);
  mem_put(NULL, t->slack);
  *t = (truth){0};
}

/* ---- what rounding explains ------------------------------------------------------------------ */
static bool widen(void *env, uint32_t i, const ndarray *x) {
  truth *t = env;
  int64_t n = 0;
  (void)i;
  nd_count(&t->x, &n);
  for (int64_t k = 0; k < n && x->bytes / et_bytes(x->type) == (size_t)n; k++) {
    const double e = element(&t->x, k), v = element(x, k), s = v == e ? 0 : fabs(v - e);
    if (!(s <= t->slack[k])) t->slack[k] = isnan(s) ? INFINITY : s;
  }
  return false;
}
static void measure_slack(diff *d, truth *t) {
  int64_t n = 0;
  nd_count(&t->x, &n);
  t->slack = mem_zero(NULL, (size_t)n * sizeof *t->slack + 1);
  if (!t->slack) return;
  const graph_part one = {t->part->given, t->part->n, (const char *const[]){t->name, NULL}, false};
  for (exactness how = IN_MODEL_TYPES; how < EXACTNESSES; how++) diff_truth(d, &one, how, &(truth_reader){widen, t});
}
static double share(const diff *d, etype t) { /* of the largest value that may always be wrong */
  double by_option = d->o.accuracy == EK_ACCURACY_STRICT ? 1e-5 : d->o.accuracy == EK_ACCURACY_FAST ? 1e-3 : 1e-4;
  if (t == ET_F64) by_option = 1e-10;
  if (d->o.precision == EK_PRECISION_BF16 && t != ET_F64) by_option = ldexp(1, -6);
  if (d->o.precision == EK_PRECISION_F16 && t != ET_F64) by_option = ldexp(1, -9);
  return fmax(by_option, ldexp(4, -(int)mantissa_bits(t)));
}

/* Numbers below this one, the smallest normal one (of f16, which is computed in f32, the smallest of all), may be taken
 * for 0. */
static double smallest_safe(etype t) {
  return t == ET_F64 ? 0x1p-1022 : t == ET_F16 ? 0x1p-24 : t == ET_F32 || t == ET_BF16 ? 0x1p-126 : 0;
}

/* ---- judging --------------------------------------------------------------------------------- */
static double rounded(etype t, double x) {
  uint8_t to[16] = {0};
  if (et_kind(t) != K_FLOAT) return x;
  et_store(t, to, (scalar){.f = x});
  return et_load(t, to).f;
}
static double largest(const ndarray *x, int64_t n, etype t) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    const double v = fabs(element(x, i));
    if (v > most && isfinite(rounded(t, v))) most = v;
  }
  return most;
}
static const char *shape_text(arena *a, etype t, const ndarray *x) {
  sbuf b = sbuf_new(a);
  sb_fmt(&b, "%s[", et_name(t));
  for (uint32_t i = 0; i < x->rank; i++) sb_fmt(&b, "%s%lld", i ? ", " : "", (long long)x->dims[i]);
  sb_putc(&b, ']');
  return b.s;
}
/* Compares all elements; false: some need to know what rounding explains. */
static bool compare(diff *d, truth *t, const ndarray *got, double most, judgement *j) {
  const bool floats = et_kind(got->type) == K_FLOAT, stated = d->want.rtol > 0 || d->want.atol > 0;
  const double factor = floats ? FACTOR : 1, tiny = floats ? FACTOR * smallest_safe(got->type) : 0;
  const double always = floats && !stated ? fmax(share(d, got->type) * most, tiny) : d->want.atol;
  double over = 0, error = 0;
  j->bad = 0, j->worst = -1;
  for (int64_t i = 0; i < j->count; i++) {
    const double g = element(got, i), w = element(&t->x, i);
    if (g == w || (isnan(g) && isnan(w)) || g == rounded(got->type, w)) continue;
    double e = fabs(g - w), allowed = always + (stated ? d->want.rtol * fabs(w) : 0);
    if (isnan(e)) e = INFINITY;
    if (e > error) error = e;
    if (e <= allowed) continue;
    if (!t->slack) return false;
    allowed = fmax(allowed, factor * t->slack[i]);
    if (e <= allowed) continue;
    if (!j->bad++ || e - allowed > over)
      over = e - allowed, j->worst = i, j->got = g, j->want = w, j->allowed = allowed;
  }
  j->error = most > 0 ? error / most : error;
  j->wrong = j->bad > 0;
  return true;
}
judgement diff_judge(diff *d, truth *t, const ndarray *got) {
  judgement j = {.worst = -1};
  bool same = got->rank == t->x.rank;
  for (uint32_t i = 0; same && i < got->rank; i++) same = got->dims[i] == t->x.dims[i];
  const bool floats = et_kind(got->type) == K_FLOAT && et_kind(t->x.type) == K_FLOAT;
  if (!same || (!floats && got->type != t->x.type)) {
    j.wrong = true;
    j.why = arena_fmt(d->a, "%s instead of %s", shape_text(d->a, got->type, got),
                      shape_text(d->a, floats ? got->type : t->x.type, &t->x));
    return j;
  }
  nd_count(got, &j.count);
  const double most = largest(&t->x, j.count, got->type);
  if (!compare(d, t, got, most, &j)) {
    measure_slack(d, t);
    if (!t->slack || !compare(d, t, got, most, &j)) j.wrong = true, j.why = "no memory to compare it in";
  }
  return j;
}
