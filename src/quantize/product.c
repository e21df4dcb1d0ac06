/* Is a node a sum of products of two tensors, by its formula? Its stages are written into one another, until the first
 * output is an expression of the node's inputs: a sum over some variables of the product of two elements, to which
 * others may be added. Then a scale of either factor that no variable of the sum changes can stand behind the sum. */
#include "quantize/quantize.h"

typedef struct addend {
  ex load;     /* what is added */
  bool scaled; /* times a constant */
} addend;
typedef struct form {
  emodule *m;        /* the formula */
  arena *a;          /* its memory */
  ex sum;            /* the sum of products; 0: not seen yet */
  bool scaled;       /* it is multiplied by a constant */
  bool other;        /* there is something else than sums, constants and elements */
  VEC(addend) added; /* what is added to it */
} form;

/* ---- one expression -------------------------------------------------------------------------- */
static void take_terms(form *f, ex e, bool scaled) {
  const ex_node n = *exn(f->m, e);
  if (n.kind == EX_CONST) return;
  if (n.kind == EX_REDUCE && n.op == RED_SUM && !f->sum) {
    f->sum = e, f->scaled = scaled;
    return;
  }
  if (n.kind == EX_OP && n.op == OP_ADD) {
    take_terms(f, n.args[0], scaled);
    take_terms(f, n.args[1], scaled);
    return;
  }
  for (int i = 0; i < 2 && n.kind == EX_OP && n.op == OP_MUL; i++)
    if (exn(f->m, n.args[i])->kind == EX_CONST) {
      take_terms(f, n.args[1 - i], true);
      return;
    }
  if (n.kind != EX_LOAD) {
    f->other = true;
    return;
  }
  const ex inner = expr_written_in(f->m, e);
  if (inner)
    take_terms(f, inner, scaled);
  else if (xt(f->m, n.tensor)->kind == TK_STAGE)
    f->other = true;
  else
    vec_push(f->a, f->added, ((addend){e, scaled}));
}
/* The element of an input or constant that a factor is; 0: it is more than that. */
static ex element(form *f, ex e) {
  while (e && exn(f->m, e)->kind == EX_LOAD && xt(f->m, exn(f->m, e)->tensor)->kind == TK_STAGE)
    e = expr_written_in(f->m, e);
  return e && exn(f->m, e)->kind == EX_LOAD ? e : 0;
}

/* ---- factors --------------------------------------------------------------------------------- */
value *quantize_value_of(const emodule *m, ex load, const node *n, value *const *inputs) {
  const tid t = exn(m, load)->tensor;
  for (uint32_t i = 0; i < m->inputs.n; i++)
    if (m->inputs.v[i].t == t) return inputs[i];
  for (uint32_t i = 0; i < n->in.n; i++)
    if (n->in.v[i] && n->in.v[i]->data && n->in.v[i]->data->data == xt(m, t)->data.data) return n->in.v[i];
  return NULL;
}
/* The axis whose index has variables, and none of the sum's; -1: there is none, or more than one. */
static int32_t free_axis(const form *f, ex load, const ex_node *sum) {
  const ex_node *l = exn(f->m, load);
  int32_t found = -1;
  for (uint32_t i = 0; i < l->nargs; i++) {
    bool reduced = false;
    for (uint32_t j = EK_PLANTED("quantize-axis") ? 1 : 0; j < sum->nargs; j++)
      reduced |= sym_uses(f->m->c, l->args[i], sum->args[j]);
    if (reduced || !sym_uses_kind(f->m->c, l->args[i], AT_VAR)) continue;
    if (found >= 0) return -1;
    found = (int32_t)i;
  }
  return found;
}
int32_t quantize_own_axis(const emodule *m, ex load, atom var) {
  const ex_node *l = exn(m, load);
  int32_t found = -1;
  for (uint32_t i = 0; i < l->nargs; i++) {
    atom x;
    if (!sym_uses(m->c, l->args[i], var)) continue;
    if (found >= 0 || !sym_is_atom(m->c, l->args[i], &x) || x != var) return -1;
    found = (int32_t)i;
  }
  return found;
}
/* The longest axes of both factors over which the sum runs in step. */
static void find_channels(const form *f, const ex load[2], const ex_node *sum, quant_layer *out) {
  int64_t most = 0;
  out->f[0].channel = out->f[1].channel = -1;
  for (uint32_t i = 0; i < sum->nargs; i++) {
    const int64_t n = sym_int_or(f->m->c, sym_extent(f->m->c, sum->args[i]), 0);
    const int32_t x = quantize_own_axis(f->m, load[0], sum->args[i]),
                  w = quantize_own_axis(f->m, load[1], sum->args[i]);
    if (x < 0 || w < 0 || n <= most) continue;
    out->f[0].channel = x, out->f[1].channel = w, most = n;
  }
}
/* A constant that is added and has an element for each place of the second factor's axis. */
static value *bias_of(const form *f, ex weight, const quant_layer *q, value *const *inputs) {
  emodule *m = f->m;
  for (uint32_t i = 0; i < f->added.n && q->f[1].axis >= 0 && !f->scaled; i++) {
    const addend *x = &f->added.v[i];
    const ex_node *l = exn(m, x->load);
    value *v = quantize_value_of(f->m, x->load, q->n, inputs);
    if (!x->scaled && v && v->data && v->type == ET_F32 && l->nargs == 1 &&
        sym_eq(m->c, l->args[0], exn(m, weight)->args[q->f[1].axis]) &&
        sym_eq(m->c, v->dims[0], q->f[1].v->dims[q->f[1].axis]))
      return v;
  }
  return NULL;
}
/* The axis of the result that runs along the second factor's axis; -1: there is none. */
static int32_t result_axis(const form *f, const stage *s, ex weight, const quant_layer *q) {
  const value *v = q->n->out.v[0];
  if (q->f[1].axis < 0 || !v->ranked || v->rank != s->naxes) return -1;
  for (uint32_t i = 0; i < s->naxes; i++)
    if (sym_eq(f->m->c, expr_axis_index(f->m, &s->axes[i]), exn(f->m, weight)->args[q->f[1].axis]) &&
        sym_eq(f->m->c, v->dims[i], q->f[1].v->dims[q->f[1].axis]))
      return (int32_t)i;
  return -1;
}
/* Is the layer result[r.., n] = the sum over k of x[r.., k] times an element [k, n] or [n, k] of a constant matrix, to
 * which at most its bias is added? The axis of k in the matrix; -1: it is not. */
static int32_t summed_axis(const form *f, const stage *s, const ex_node *sum, const ex load[2], const quant_layer *q) {
  ctx *c = f->m->c;
  const ex_node *x = exn(f->m, load[0]), *w = exn(f->m, load[1]);
  const uint32_t last = s->naxes - 1;
  if (!s->naxes || f->scaled || f->added.n != (q->bias ? 1 : 0) || sum->nargs != 1 || q->f[1].axis < 0 ||
      w->nargs != 2 || x->nargs != s->naxes)
    return -1;
  const sz k = sym_of_atom(c, sum->args[0]);
  for (uint32_t i = 0; i < s->naxes; i++) {
    const axis *a = &s->axes[i];
    const sz place = a->n == 1 ? sym_of_atom(c, a->d[0].var) : sym_int(c, 0);
    const sz extent = a->n == 1 ? a->d[0].extent : sym_int(c, 1);
    if (a->n > 1 || !sym_eq(c, i < last ? x->args[i] : w->args[q->f[1].axis], place) ||
        !sym_eq(c, extent, i < last ? q->f[0].v->dims[i] : q->f[1].v->dims[q->f[1].axis]))
      return -1;
  }
  return sym_eq(c, x->args[last], k) && sym_eq(c, w->args[1 - q->f[1].axis], k) ? 1 - q->f[1].axis : -1;
}
/* Does some stage add up products of two tensors? */
static bool has_product(const emodule *m, ex e, map *seen) {
  const ex_node *n = exn(m, e);
  if (!e || map_getu(seen, e, NULL)) return false;
  map_putu(seen, e, 1);
  if (n->kind == EX_REDUCE && n->op == RED_SUM) {
    const ex_node *b = exn(m, n->body);
    if (b->kind == EX_OP && b->op == OP_MUL && exn(m, b->args[0])->kind == EX_LOAD &&
        exn(m, b->args[1])->kind == EX_LOAD && b->args[0] != b->args[1])
      return true;
  }
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++)
    if (has_product(m, n->args[i], seen)) return true;
  return has_product(m, n->body, seen);
}
static bool any_product(const emodule *m, arena *a) {
  map *seen = map_new(a);
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (has_product(m, m->stages.v[i].value, seen)) return true;
  return false;
}

/* Multiplications of one run: points of the result, times those of the sum. */
static double multiplications(const form *f, const stage *s, const ex_node *sum) {
  double all = 1;
  digit *d = NEWN(f->a, digit, expr_ndigits(s) + 1);
  expr_digits(s, d);
  for (uint32_t i = 0; i < expr_ndigits(s); i++) all *= (double)expr_typical(f->m, d[i].extent);
  for (uint32_t i = 0; i < sum->nargs; i++) all *= (double)expr_typical(f->m, sym_extent(f->m->c, sum->args[i]));
  return all;
}

static const char *match(form *f, value *const *inputs, quant_layer *out) {
  emodule *m = f->m;
  const tid result = m->outputs.v[0].t;
  if (xt(m, result)->kind != TK_STAGE) return "its result is not one formula";
  const stage *s = xs(m, xt(m, result)->stage);
  if (!s->value || s->updates.n || s->recurrence) return "its result is not one formula";
  take_terms(f, s->value, false);
  if (!f->sum || f->other) return "its result is more than a sum of products";
  const ex_node sum = *exn(m, f->sum), body = *exn(m, sum.body);
  out->macs = multiplications(f, s, &sum);
  if (sum.type != ET_F32) return "it is not computed in f32";
  if (sum.where) return "its sum leaves places out";
  if (body.kind != EX_OP || body.op != OP_MUL) return "its products have more than two factors";
  ex load[2];
  for (int i = 0; i < 2; i++) {
    load[i] = element(f, body.args[i]);
    out->f[i].v = load[i] ? quantize_value_of(m, load[i], out->n, inputs) : NULL;
    if (!out->f[i].v) return "a factor of its products is more than an input";
    out->f[i].axis = free_axis(f, load[i], &sum);
  }
  if (out->f[0].v->data && out->f[1].v->data) return "it is constant";
  if (out->f[0].v->data) {
    const quant_factor constant = out->f[0];
    const ex first = load[0];
    out->f[0] = out->f[1], out->f[1] = constant, load[0] = load[1], load[1] = first;
  }
  find_channels(f, load, &sum, out);
  if (out->f[1].v->data) {
    out->bias = bias_of(f, load[1], out, inputs);
    out->result = result_axis(f, s, load[1], out);
    out->summed = summed_axis(f, s, &sum, load, out);
  }
  return NULL;
}
bool quantize_layer(emodule *m, node *n, value *const *inputs, quant_layer *out) {
  arena *a = m->a;
  form f = {.m = m, .a = a};
  *out = (quant_layer){.n = n, .summed = -1, .result = -1, .bias_input = -1};
  if (!m->outputs.n || !any_product(m, a)) return false;
  out->kept = match(&f, inputs, out);
  return true;
}
