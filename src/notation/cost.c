/* cost: how much work does a call say it is?
 *
 * A stage is evaluated once at each of its places, a reduction's body once at each point; every scalar operation is
 * one, whatever its type, conversions and choices are none. Bytes are those of the tensors that come in and go out:
 * what a program that keeps everything between in registers would move. A definition may state either (`cost flops =
 * ..`) where the formula says more than a good routine does.
 */
#include "notation/ast.h"
#include "notation/instance.h"
#include <stdlib.h>
#include <string.h>

typedef struct product {
  int64_t times;      /* factor */
  uint32_t n;         /* number of sizes */
  sz f[2 * MAX_RANK]; /* the sizes: times * f[0] * f[1] .. */
} product;
typedef struct counting {
  ctx *c;           /* context */
  emodule *m;       /* the module */
  map *seen;        /* values counted */
  VEC(product) sum; /* products that are added */
} counting;

/* ---- sums of products ------------------------------------------------------------------------ */
static product one(void) { return (product){.times = 1}; }
static product by(ctx *c, product p, sz f) {
  int64_t k;
  f = sym_canon(c, f);
  const atom *atoms;
  const uint8_t *exps;
  uint32_t na;
  sz q;
  if (sym_nterms(c, f) == 1 && (k = sym_term(c, f, 0, &na, &atoms, &exps)) > 1 &&
      sym_exact_div(c, f, sym_int(c, k), &q))
    p.times *= k, f = q;
  if (sym_is_int(c, f, &k))
    p.times *= k;
  else if (p.n < 2 * MAX_RANK)
    p.f[p.n++] = f;
  else
    p.f[p.n - 1] = sym_mul(c, p.f[p.n - 1], f);
  return p;
}
static int descending(const void *a, const void *b) {
  return (*(const sz *)a < *(const sz *)b) - (*(const sz *)a > *(const sz *)b);
}
static void add(counting *k, product p) {
  if (!p.times) return;
  qsort(p.f, p.n, sizeof *p.f, descending);
  for (uint32_t i = 0; i < k->sum.n; i++)
    if (k->sum.v[i].n == p.n && !memcmp(k->sum.v[i].f, p.f, p.n * sizeof *p.f)) {
      k->sum.v[i].times += p.times;
      return;
    }
  vec_push(ctx_arena(k->c), k->sum, p);
}
static sz total(counting *k) {
  sz r = sym_int(k->c, 0);
  for (uint32_t i = 0; i < k->sum.n; i++) {
    sz t = sym_int(k->c, k->sum.v[i].times);
    for (uint32_t q = 0; q < k->sum.v[i].n; q++) t = sym_mul(k->c, t, k->sum.v[i].f[q]);
    r = sym_add(k->c, r, t);
  }
  return r;
}
static const char *text(counting *k) {
  sbuf b = sbuf_new(ctx_arena(k->c));
  for (uint32_t i = 0; i < k->sum.n; i++) {
    const product *p = &k->sum.v[i];
    sb_put(&b, i ? " + " : "");
    if (p->times != 1 || !p->n) sb_fmt(&b, "%lld%s", (long long)p->times, p->n ? "*" : "");
    for (uint32_t q = p->n; q-- > 0;) {
      bool whole = sym_nterms(k->c, p->f[q]) < 2;
      sb_put(&b, whole ? "" : "(");
      sym_print(k->c, p->f[q], &b);
      sb_put(&b, whole ? "" : ")");
      sb_put(&b, q ? "*" : "");
    }
  }
  return b.n ? opinst_text(k->c, b.s) : "0";
}

/* ---- stages ---------------------------------------------------------------------------------- */
static bool works(sop op) {
  switch (op) {
  case OP_CAST:
  case OP_BITCAST:
  case OP_SEL:
  case OP_AND:
  case OP_OR:
  case OP_NOT:
    return false;
  default:
    return true;
  }
}
static void count(counting *k, ex e, product points) {
  uint64_t seen;
  if (!e || map_getu(k->seen, e, &seen)) return;
  map_putu(k->seen, e, 1);
  const ex_node n = *exn(k->m, e);
  if (n.kind == EX_OP) {
    product p = points;
    p.times *= n.op == OP_FMA ? 2 : 1;
    if (works((sop)n.op)) add(k, p);
    for (uint32_t i = 0; i < n.nargs; i++) count(k, n.args[i], points);
  } else if (n.kind == EX_LOAD)
    count(k, n.otherwise, points);
  else if (n.kind == EX_REDUCE) {
    for (uint32_t i = EK_PLANTED("notation-cost"); i < n.nargs; i++)
      points = by(k->c, points, sym_extent(k->c, n.args[i]));
    add(k, points);
    count(k, n.where, points), count(k, n.body, points), count(k, n.payload, points);
  }
}
static void count_stage(counting *k, const stage *x) {
  product all = one();
  k->seen = map_new(ctx_arena(k->c));
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t d = 0; d < x->axes[i].n; d++) all = by(k->c, all, x->axes[i].d[d].extent);
  count(k, x->value, all);
  for (uint32_t u = 0; u < x->updates.n; u++) {
    const update *q = &x->updates.v[u];
    product at = one();
    for (uint32_t i = 0; i < q->nvars; i++) at = by(k->c, at, sym_extent(k->c, q->vars[i]));
    count(k, q->value, at), count(k, q->cond, at);
    if (q->op) add(k, at);
  }
}
static void add_bytes(counting *k, const arg *a) {
  product p = one();
  p.times = a->type == ET_STR ? 16 : et_bytes(a->type);
  for (uint32_t i = 0; i < a->rank; i++) p = by(k->c, p, a->shape[i]);
  add(k, p);
}
opcost opinst_cost(ctx *c, const opinst *o) {
  counting f = {.c = c, .m = o->m}, b = {.c = c, .m = o->m};
  for (uint32_t s = 0; s < o->m->stages.n; s++)
    if (!xs(o->m, s)->dead && !expr_of_check(o->m, xs(o->m, s)->tensor)) count_stage(&f, xs(o->m, s));
  for (uint32_t i = 0; i < o->nin; i++)
    if (o->in[i].present) add_bytes(&b, &o->in[i]);
  for (uint32_t i = 0; i < o->nout; i++)
    if (o->out[i].present && o->out[i].want) add_bytes(&b, &o->out[i]);
  for (uint32_t i = 0; i < o->m->costs.n; i++) {
    const cost_note *n = &o->m->costs.v[i];
    counting *k = !strcmp(n->what, "flops") ? &f : !strcmp(n->what, "bytes") ? &b : NULL;
    if (!k) continue;
    k->sum.n = 0;
    add(k, by(c, one(), n->value));
  }
  return (opcost){total(&f), total(&b), text(&f), text(&b)};
}
