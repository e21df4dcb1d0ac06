/* Which constants scale a tensor, channel by channel? Where the formula of the node that computes it ends in a product
 * with a constant along the channels (the gain of a normalisation, the weights of a convolution), it is enough to
 * multiply this one; the terms of a sum (a bias) are multiplied together; a maximum with 0 changes nothing of that as
 * long as factors are positive. What a formula only reads is looked at in the node that computes it. A constant counts
 * only if the formula reads it in one place, a tensor only if nothing else reads it. */
#include "quantize/quantize.h"

enum { MAX_READS = 1000 /* no use to count further */ };
typedef struct folding {
  quant_scalable *s;      /* what is looked for */
  const quant_formula *f; /* formula of the node */
  node *n;                /* the node */
  atom channel;           /* variable that counts the channels of its result */
} folding;

/* ---- readers --------------------------------------------------------------------------------- */
static uint32_t uses_of(const graph *g, const value *v) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->outputs.n; i++) n += g->outputs.v[i] == v;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *x = g->nodes.v[i];
    for (uint32_t k = 0; k < x->in.n; k++) n += x->in.v[k] == v;
    for (uint32_t k = 0; k < x->attrs.n; k++)
      if (x->attrs.v[k].g) n += uses_of(x->attrs.v[k].g, v);
  }
  return n;
}
/* In how many places an expression reads tensor t, what it reads of other stages included. */
static uint32_t reads_of(const emodule *m, ex e, tid t, map *known) {
  if (!e) return 0;
  uint64_t had;
  if (map_getu(known, e, &had)) return (uint32_t)had;
  const ex_node n = *exn(m, e);
  uint32_t all = 0;
  if (n.kind == EX_LOAD && n.tensor == t)
    all = 1;
  else if (n.kind == EX_LOAD && xt(m, n.tensor)->kind == TK_STAGE) {
    const stage *s = xs(m, xt(m, n.tensor)->stage);
    all = s->updates.n || s->recurrence ? MAX_READS : reads_of(m, s->value, t, known);
  } else if (n.kind == EX_LOAD && xt(m, n.tensor)->kind == TK_RESULT)
    all = MAX_READS;
  for (uint32_t i = 0; n.kind == EX_OP && i < n.nargs; i++) all += reads_of(m, n.args[i], t, known);
  all += reads_of(m, n.otherwise, t, known) + reads_of(m, n.where, t, known) + reads_of(m, n.body, t, known) +
         reads_of(m, n.payload, t, known);
  if (all > MAX_READS) all = MAX_READS;
  map_putu(known, e, all);
  return all;
}

/* ---- expressions ----------------------------------------------------------------------------- */
static bool scale_expr(const folding *f, ex e);
static bool scale_load(const folding *f, ex e) {
  emodule *m = f->f->m;
  const ex_node n = *exn(m, e);
  const ex inner = expr_written_in(m, e);
  if (inner) return scale_expr(f, inner);
  if (n.otherwise || xt(m, n.tensor)->kind == TK_STAGE) return false;
  value *v = quantize_value_of(m, e, f->n, f->f->inputs);
  const int32_t axis = quantize_own_axis(m, e, f->channel);
  const stage *result = xs(m, xt(m, m->outputs.v[0].t)->stage);
  if (!v || axis < 0 || reads_of(m, result->value, n.tensor, map_new(f->s->a)) != 1) return false;
  if (!v->data) return quantize_scalable(f->s, v, axis, 1);
  if (v->type != ET_F32 || map_getu(f->s->fixed, (uint64_t)(uintptr_t)v, NULL)) return false;
  vec_push(f->s->a, f->s->gains, ((quant_gain){f->n, v, axis}));
  return true;
}
static bool scale_any(const folding *f, const ex *args, uint32_t n) {
  const uint32_t mark = f->s->gains.n;
  for (uint32_t i = 0; i < n; i++) {
    if (scale_expr(f, args[i])) return true;
    f->s->gains.n = mark;
  }
  return false;
}
static bool scale_expr(const folding *f, ex e) {
  const ex_node n = *exn(f->f->m, e);
  if (n.kind == EX_CONST) return n.type == ET_F32 && n.k.f == 0;
  if (n.kind == EX_LOAD) return scale_load(f, e);
  if (n.kind == EX_REDUCE) return (n.op == RED_SUM || n.op == RED_MAX) && !n.payload && scale_expr(f, n.body);
  if (n.kind != EX_OP) return false;
  switch (n.op) {
  case OP_MUL:
    return scale_any(f, n.args, 2);
  case OP_DIV:
  case OP_NEG:
    return scale_expr(f, n.args[0]);
  case OP_ADD:
  case OP_SUB:
  case OP_MAX:
    return scale_expr(f, n.args[0]) && scale_expr(f, n.args[1]);
  default:
    return false;
  }
}

/* ---- tensors --------------------------------------------------------------------------------- */
bool quantize_scalable(quant_scalable *s, value *v, int32_t axis, uint32_t readers) {
  uint64_t had;
  if (!v->def || v->type != ET_F32) return false;
  if (uses_of(s->g, v) != readers && !EK_PLANTED("quantize-fold")) return false;
  if (v->def->out.n > 1 || !map_getu(s->formulas, (uint64_t)(uintptr_t)v->def, &had)) return false;
  const quant_formula *f = (const quant_formula *)(uintptr_t)had;
  if (!f->m->outputs.n || xt(f->m, f->m->outputs.v[0].t)->kind != TK_STAGE) return false;
  const stage *x = xs(f->m, xt(f->m, f->m->outputs.v[0].t)->stage);
  if (!x->value || x->updates.n || x->recurrence || (uint32_t)axis >= x->naxes || x->axes[axis].n != 1) return false;
  const folding inner = {s, f, v->def, x->axes[axis].d[0].var};
  return scale_expr(&inner, x->value);
}
