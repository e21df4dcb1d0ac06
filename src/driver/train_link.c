/* Is the model's result already what the loss computes of its argument? A model for use ends in Softmax, and
 * cross_entropy takes what stands before it. The link of a loss, a definition of its name in einkorn.link, says what
 * the loss computes; whether a model's last node is the same function, both tell on random numbers. So no list of
 * operators is needed, and losses of the user have links, too. */
#include "driver/lower.h"
#include "driver/train_value.h"
#include "eval/eval.h"
#include <math.h>
#include <string.h>

/* Random numbers of a tensor with so many axes, all of other sizes. */
static ndarray numbers(arena *a, uint32_t rank) {
  ndarray x = {.type = ET_F64, .rank = rank};
  size_t n = 1;
  for (uint32_t i = 0; i < rank; i++) x.dims[i] = 2 + (int64_t)i % 3, n *= (size_t)x.dims[i];
  double *v = NEWN(a, double, n);
  for (size_t i = 0; i < n; i++) v[i] = (double)((i * 7919 + 13) % 1009) / 250 - 2;
  x.data = v, x.bytes = n * sizeof *v;
  return x;
}
static void add_output(graph *g, node *n, value *in, const char *name) {
  vec_push(ctx_arena(g->c), n->in, in);
  vec_push(ctx_arena(g->c), g->outputs, graph_result(g, n, name));
}
/* The values of the node and of the link for the same argument; false: they differ, or one has none. */
static bool same_values(emodule *m) {
  evaluation *e = expr_eval_new(m, m->a, 1);
  const ndarray *x = expr_eval_get(e, m->outputs.v[0].t), *y = expr_eval_get(e, m->outputs.v[1].t);
  if (x->bytes != y->bytes || x->type != ET_F64 || y->type != ET_F64) return false;
  for (size_t i = 0; i < x->bytes / sizeof(double); i++)
    if (!(fabs(((const double *)x->data)[i] - ((const double *)y->data)[i]) <= 1e-12)) return false;
  return true;
}
static bool is_link(ctx *c, const oplib *lib, const node *n, const train_rule *link, uint32_t rank) {
  graph *g = graph_new(c, NULL, "link");
  const uint32_t mark = diag_mark(c);
  const ndarray x = numbers(ctx_arena(c), rank);
  volatile bool same = false;
  value *in = graph_const(g, "x", &x);
  node *copy = graph_node(g, n->op, n->domain, "node");
  copy->attrs = n->attrs;
  add_output(g, copy, in, "y");
  add_output(g, train_add_rule(g, link, "link", NULL, 0), in, "z");
  CTX_TRY(c) {
    emodule *m = lower_graph(g, lib, NULL, 0);
    same = m && same_values(m);
  }
  CTX_CATCH {}
  diag_reset(c, mark);
  return same;
}
/* The link with the attributes of the loss that it has, and, where the loss leaves it open, this axis. */
static train_rule link_of(ctx *c, const opdef *d, const train_rule *loss, int64_t axis) {
  train_rule r = {d, NEWN(ctx_arena(c), sattr, opdef_attrs(d) + 1), 0};
  for (uint32_t i = 0; i < opdef_attrs(d); i++) {
    skind kind;
    const char *name = opdef_attr(d, i, &kind);
    const uint32_t before = r.n;
    for (uint32_t k = 0; k < loss->n; k++)
      if (!strcmp(loss->attrs[k].name, name)) r.attrs[r.n++] = loss->attrs[k];
    if (r.n == before && !strcmp(name, "axis"))
      r.attrs[r.n++] = (sattr){.name = name, .kind = SK_INT, .i = axis, .n = 1, .ints = &r.attrs[before].i};
  }
  return r;
}
const char *train_before_link(ctx *c, const oplib *lib, const graph *g, const train_rule *loss) {
  const value *y = g->outputs.n ? g->outputs.v[0] : NULL;
  const node *n = y ? y->def : NULL;
  const opdef *d = loss->d ? notation_find(lib, TRAIN_LINK_DOMAIN, opdef_name(loss->d)) : NULL;
  if (!d || !n || n->in.n != 1 || n->out.n != 1 || !n->in.v[0] || !n->in.v[0]->def || !y->ranked || y->rank < 1)
    return NULL;
  for (uint32_t axis = y->rank - 1; axis + 1 > (y->rank > 1); axis--) {
    const train_rule r = link_of(c, d, loss, axis);
    if (is_link(c, lib, n, &r, y->rank) && !EK_PLANTED("train-link")) return n->in.v[0]->source;
  }
  return NULL;
}
