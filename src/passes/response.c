/* How large are the values of a stage, and how do they change with what it reads?
 *
 * By trying: the stage's formula is computed for values of one tensor, from 3 standard deviations below their mean to 3
 * above, weighted as in a normal distribution. All other tensors have values of their size. Of a constant some element
 * is taken, another one each time. From one point to the next the change of the result is seen.
 *     tanh of values of size 1     gain 1.1, peak 3
 *     tanh of values of size 20    gain 2.8, peak 30     flat but near 0, where it magnifies a small change
 *     Relu, sums, products         gain 1
 * The terms of a sum with a constant factor have either sign. Another sum is n times their mean, and if no term is
 * below 0 it does not come near 0 (what Softmax divides by): it is taken to be half of that at least. */
#include "passes/response.h"
#include <math.h>

enum {
  POINTS = 32,      /* values tried for a load */
  TERMS = 256,      /* terms of a sum that are looked at */
  MOST_NODES = 100, /* nodes computed for a value, at most */
  MOST_LOADS = 8    /* loads of a stage, at most */
};
static const double WIDEST = 3;   /* largest distance from the mean that is tried, in standard deviations */
static const double EQUAL = 1e-3; /* values count as equal whose deviation is less, relative to their size */
typedef struct trial {
  pw *p;                 /* the run of passes */
  const spread *spreads; /* what values are like, by tensor */
  ex varied;             /* the load whose value is given; 0: none */
  double value;          /* its value */
  uint64_t random;       /* state of the generator that chooses elements of constants */
  uint32_t nodes;        /* nodes computed for a value so far */
  bool constants;        /* whether any constant was read */
} trial;

static double size_of(const spread *s) { return sqrt(s->centre * s->centre + s->deviation * s->deviation); }
/* Some element of a constant. */
static bool some_element(trial *q, const tensor *x, scalar *out) {
  int64_t n;
  if (!x->data.data || !nd_count(&x->data, &n) || n < 1) return false;
  q->random = q->random * 6364136223846793005u + 1442695040888963407u;
  const uint64_t at = (q->random >> 33) % (uint64_t)n;
  *out = et_load(x->type, (const char *)x->data.data + at * et_bytes(x->type));
  return true;
}
static bool load_value(trial *q, ex e, const ex_node *n, scalar *out) {
  const tensor *x = xt(q->p->m, n->tensor);
  if (et_kind(x->type) != K_FLOAT) return false;
  if (x->kind == TK_CONST) {
    q->constants = true;
    return some_element(q, x, out);
  }
  out->f = e == q->varied ? q->value : size_of(&q->spreads[n->tensor]);
  return true;
}
static bool compute(trial *q, ex e, scalar *out) {
  const ex_node *n = exn(q->p->m, e);
  scalar args[4];
  bool ok;
  if (++q->nodes > MOST_NODES) return false;
  if (n->kind == EX_CONST) return *out = n->k, true;
  if (n->kind == EX_LOAD) return load_value(q, e, n, out);
  if (n->kind != EX_OP || n->nargs > 4) return false;
  for (uint32_t i = 0; i < n->nargs; i++)
    if (!compute(q, n->args[i], &args[i])) return false;
  const etype at = (etype)(n->nargs ? exn(q->p->m, n->args[0])->type : n->type);
  *out = scalar_apply((sop)n->op, (etype)n->type, at, args, &ok);
  return ok;
}
static bool value_at(trial *q, ex e, double value, double *out) {
  scalar r;
  q->value = value, q->nodes = 0;
  if (et_kind((etype)exn(q->p->m, e)->type) != K_FLOAT || !compute(q, e, &r) || !isfinite(r.f)) return false;
  *out = r.f;
  return true;
}
static bool varied_value(trial *q, ex e, const spread *x, double z, double *out) {
  const double value = x->centre + x->deviation * z;
  return value_at(q, e, fmax(value, x->least), out);
}
/* The response of a formula to one of its loads. */
static bool response_to(trial *q, ex e, ex load, response *out) {
  const spread *x = &q->spreads[exn(q->p->m, load)->tensor];
  const double step = 2 * WIDEST / (POINTS - 1), largest_read = fabs(x->centre) + WIDEST * x->deviation;
  double weights = 0, sum = 0, squares = 0, changes = 0, least = INFINITY, largest = 0, steepest = 0, before, y;
  q->varied = load;
  for (int i = 0; i < POINTS; i++) {
    const double z = step * i - WIDEST, weight = exp(-z * z / 2);
    const uint64_t random = q->random;
    if (!varied_value(q, e, x, z, &y)) return false;
    q->random = random; /* the same constants */
    if (!varied_value(q, e, x, z - step, &before)) return false;
    const double slope = fabs(y - before) / step;
    weights += weight, sum += weight * y, squares += weight * y * y, changes += weight * slope * slope;
    least = fmin(least, y), largest = fmax(largest, fabs(y)), steepest = fmax(steepest, slope);
  }
  const double centre = sum / weights;
  *out = (response){{centre, sqrt(fmax(0, squares / weights - centre * centre)), least}, 1, 1};
  if (!(squares > 0) || x->deviation <= EQUAL * size_of(x)) return true;
  out->gain = fmax(1, size_of(x) / x->deviation * sqrt(changes / squares));
  out->peak = fmax(1, largest_read / x->deviation * steepest / largest);
  return true;
}
/* The largest of what a stage reads; without constants. */
static spread largest_read(pw *p, uint32_t s, const spread *spreads) {
  const u32vec *loads = stage_loads(p, s);
  spread most = {0, 0, -INFINITY};
  for (uint32_t i = 0; i < loads->n; i++) {
    const tid t = exn(p->m, loads->v[i])->tensor;
    if (xt(p->m, t)->kind != TK_CONST && size_of(&spreads[t]) > size_of(&most)) most = spreads[t];
  }
  return size_of(&most) > 0 ? most : (spread){0, 1, -INFINITY};
}
/* Of a reduction: a term, and so many of them. */
static bool reduced(trial *q, const ex_node *red, ex load, spread *out) {
  double squares = 0, n = 1, y;
  for (uint32_t i = 0; i < red->nargs; i++) n *= (double)expr_typical(q->p->m, sym_extent(q->p->c, red->args[i]));
  if (!value_at(q, red->body, 0, &y)) return false;
  if (q->constants) {
    for (int i = 0; i < TERMS; i++, squares += y * y)
      if (!value_at(q, red->body, 0, &y)) return false;
    *out = (spread){0, sqrt(squares / TERMS * (red->op == RED_SUM ? n : 1)), -INFINITY};
    return true;
  }
  response term;
  if (!response_to(q, red->body, load, &term)) return false;
  *out = term.values;
  if (red->op == RED_SUM) {
    out->centre *= n, out->deviation *= sqrt(n);
    out->least = out->least >= 0 ? out->centre / 2 : -INFINITY;
  }
  if (red->op == RED_MAX && n > 1) out->centre += out->deviation * fmin(WIDEST, sqrt(2 * log(n)));
  return true;
}
response stage_response(pw *p, uint32_t s, const spread *spreads) {
  const stage *x = xs(p->m, s);
  const u32vec *loads = stage_loads(p, s);
  trial q = {.p = p, .spreads = spreads, .random = 1};
  const response unknown = {largest_read(p, s, spreads), 1, 1};
  response r = {{0, INFINITY, -INFINITY}, 1, 1};
  if (!x->value || x->updates.n || loads->n > MOST_LOADS || !(stage_plain(p, s) || stage_is_reduce(p, s)))
    return unknown;
  for (uint32_t i = 0; i < loads->n; i++) {
    response one = {{0, 0, -INFINITY}, 1, 1};
    if (xt(p->m, exn(p->m, loads->v[i])->tensor)->kind == TK_CONST) continue;
    const bool known = stage_is_reduce(p, s) ? reduced(&q, exn(p->m, x->value), loads->v[i], &one.values)
                                             : response_to(&q, x->value, loads->v[i], &one);
    if (!known) return unknown;
    if (size_of(&one.values) < size_of(&r.values)) r.values = one.values;
    if (EK_PLANTED("response-gain")) continue;
    r.gain = fmax(r.gain, one.gain), r.peak = fmax(r.peak, one.peak);
  }
  const double size = size_of(&r.values);
  return size > 0 && isfinite(size) ? r : unknown;
}
