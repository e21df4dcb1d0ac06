/* What is a constant times a factor that stays the same along most of its axes? That is what scales become that go
 * into weights, which are large: this one formula is computed by plain loops, to the bits of the evaluator, whose
 * time a model with many of them would feel. */
#include "passes/pass_const.h"
#include <string.h>

enum { CHUNK = 1 << 16 /* elements for a thread at a time */ };
typedef struct factor {
  const uint8_t *p;       /* values of f32, at any address; NULL: they are all `number` */
  float number;           /* the value, where p is NULL */
  int64_t step[MAX_RANK]; /* per axis of the product, elements */
} factor;
typedef struct product {
  factor f[2];           /* the factors */
  uint32_t rank;         /* number of axes of the result */
  int64_t ext[MAX_RANK]; /* size of each axis */
  int64_t points;        /* product of the sizes */
  float *to;             /* gets the result */
} product;

/* A constant of f32 whose address is affine over the digits, or a number. */
static bool find_factor(pw *p, ex e, const digit *d, uint32_t n, factor *f) {
  const ex_node *l = exn(p->m, e);
  *f = (factor){0};
  if (l->type != ET_F32) return false;
  if (l->kind == EX_CONST) {
    f->number = (float)l->k.f;
    return true;
  }
  if (l->kind != EX_LOAD || l->otherwise) return false;
  const tensor *t = xt(p->m, l->tensor);
  sz at = sym_int(p->c, 0), coef;
  int64_t base;
  if (t->kind != TK_CONST || t->type != ET_F32 || !t->data.data) return false;
  for (uint32_t i = 0; i < l->nargs; i++) {
    if (!in_range(p->c, l->args[i], t->shape[i])) return false;
    at = sym_add(p->c, sym_mul(p->c, at, t->shape[i]), l->args[i]);
  }
  for (uint32_t i = 0; i < n; i++)
    if (!sym_linear(p->c, at, d[i].var, &coef, &at) || !sym_is_int(p->c, coef, &f->step[i])) return false;
  if (!sym_is_int(p->c, at, &base)) return false;
  f->p = (const uint8_t *)t->data.data + base * 4;
  return true;
}
/* A formula over few of the digits: its values, one after the other. */
static bool make_factor(pw *p, uint32_t near, ex e, const digit *d, uint32_t n, factor *f) {
  u32vec vars = {0};
  ndarray values;
  int64_t step = 1;
  if (exn(p->m, e)->kind != EX_OP) return find_factor(p, e, d, n, f);
  *f = (factor){0};
  expr_vars(p->m, e, p->a, &vars);
  if (vars.n >= n || exn(p->m, e)->type != ET_F32 || !const_values(p, near, vars.v, vars.n, e, &values)) return false;
  f->p = values.data;
  for (uint32_t k = vars.n; k-- > 0; step *= values.dims[k])
    for (uint32_t i = 0; i < n; i++)
      if (d[i].var == vars.v[k]) f->step[i] = step;
  return true;
}
/* Axes of one element go, and those that both factors walk through like one become one. */
static void merge_axes(product *q) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->rank; i++) {
    if (q->ext[i] == 1) continue;
    bool joins = n > 0;
    for (int k = EK_PLANTED("const-product") ? 2 : 0; k < 2 && joins; k++)
      joins = q->f[k].step[n - 1] == q->f[k].step[i] * q->ext[i];
    n -= joins;
    q->ext[n] = joins ? q->ext[n] * q->ext[i] : q->ext[i];
    for (int k = 0; k < 2; k++) q->f[k].step[n] = q->f[k].step[i];
    n++;
  }
  q->rank = n;
}
static inline float at(const uint8_t *p, int64_t i) {
  float x;
  memcpy(&x, p + i * 4, 4);
  return x;
}
static void multiply(const uint8_t *a, int64_t sa, const uint8_t *b, int64_t sb, int64_t n, float *to) {
  if (sa == 1 && sb == 0) {
    const float by = at(b, 0);
    for (int64_t i = 0; i < n; i++) to[i] = at(a, i) * by;
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = at(a, i * sa) * at(b, i * sb);
  }
}
static const uint8_t *address(const factor *f, int64_t i) { return f->p ? f->p + i * 4 : (const uint8_t *)&f->number; }
static void chunk(ctx *c, void *arg, uint32_t number) {
  const product *q = arg;
  const uint32_t last = q->rank - 1;
  int64_t from = (int64_t)number * CHUNK, end = min64(from + CHUNK, q->points);
  (void)c;
  for (int64_t n; from < end; from += n) {
    int64_t off[2] = {0}, rest = from / q->ext[last], col = from % q->ext[last];
    for (int k = 0; k < 2; k++) off[k] = col * q->f[k].step[last];
    for (uint32_t i = last; i-- > 0; rest /= q->ext[i])
      for (int k = 0; k < 2; k++) off[k] += rest % q->ext[i] * q->f[k].step[i];
    n = min64(q->ext[last] - col, end - from);
    const factor *a = &q->f[0], *b = &q->f[1];
    multiply(address(a, off[0]), a->step[last], address(b, off[1]), b->step[last], n, q->to + from);
  }
}
bool const_product(pw *p, uint32_t near, ex value, const digit *d, uint32_t n, ndarray *out) {
  const ex_node x = *exn(p->m, value);
  product q = {.rank = n, .points = 1};
  *out = (ndarray){.type = ET_F32, .rank = n};
  if (x.kind != EX_OP || x.op != OP_MUL || x.type != ET_F32 || n > MAX_RANK) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (!sym_is_int(p->c, d[i].extent, &q.ext[i]) || q.ext[i] < 1 || !mul64(q.points, q.ext[i], &q.points))
      return false;
    out->dims[i] = q.ext[i];
  }
  for (int k = 0; k < 2; k++)
    if (!make_factor(p, near, x.args[k], d, n, &q.f[k])) return false;
  merge_axes(&q);
  if (!q.rank) return false;          /* one element */
  if (q.f[0].step[q.rank - 1] == 0) { /* the one that varies first */
    const factor f = q.f[0];
    q.f[0] = q.f[1], q.f[1] = f;
  }
  out->bytes = (size_t)q.points * 4;
  out->data = q.to = arena_alloc(p->m->a, out->bytes + 8);
  par_for(p->c, ctx_cpus(p->c), (uint32_t)((q.points + CHUNK - 1) / CHUNK), chunk, &q);
  return true;
}
