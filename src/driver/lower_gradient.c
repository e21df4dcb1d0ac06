/* Lowering of the standard's operator Gradient: the derivative of one value of the graph with respect to others.
 *
 * On import (onnx/import.c) the value that is differentiated, which the model names in an attribute, has become the
 * node's last input; the first ones are the values to differentiate by. All are stages by now, so that the derivative
 * is what src/grad makes of them. Of a value with several elements it is that of their sum.
 */
#include "driver/lower_in.h"
#include "grad/grad.h"

static bool is_float(low *L, const node *n, const value *v, arg *out) {
  if (!v) return diag_error(L->c, E_MODEL, n->name, "Gradient: an input is missing"), false;
  if (!low_tensor(L, n, v, out)) return false;
  if (et_kind(out->type) == K_FLOAT) return true;
  diag_error(L->c, E_MODEL, n->name, "Gradient: '%s' has type %s, a type of floats is needed", v->source,
             et_name(out->type));
  return false;
}
void low_gradient(low *L, const graph *g, node *n, uint32_t block) {
  const attr *xs = node_attr(n, "xs");
  uint32_t nx = xs && xs->kind == AK_STRINGS ? xs->n : 0;
  arg y, *x = NEWN(L->a, arg, nx + 1);
  tid *wrt = NEWN(L->a, tid, nx + 1), *adjoints = NEWN(L->a, tid, nx + 1);
  if (g->parent) { /* what it depends on may be computed outside of this block */
    diag_error(L->c, E_UNSUPPORTED, n->name, "Gradient in a branch or a body is not supported; move it out of it");
    return;
  }
  if (!nx || n->in.n <= nx || n->out.n > nx || !n->in.v[n->in.n - 1]) {
    diag_error(L->c, E_MODEL, n->name,
               "Gradient has %u inputs, %u outputs and %u names in xs; the values named in xs and zs, then the one "
               "named in y, and an output for each name in xs are expected",
               n->in.n, n->out.n, nx);
    return;
  }
  if (!is_float(L, n, n->in.v[n->in.n - 1], &y)) return;
  for (uint32_t i = 0; i < nx; i++) {
    if (!is_float(L, n, n->in.v[i], &x[i])) return;
    wrt[EK_PLANTED("lower-gradient") ? nx - 1 - i : i] = x[i].t;
  }
  uint32_t before = L->m->tensors.n;
  if (!grad_reverse(L->m, block, &y.t, NULL, 1, wrt, nx, adjoints)) return;
  for (uint32_t t = before; t < L->m->tensors.n; t++)
    if (!xt(L->m, t)->origin) xt(L->m, t)->origin = n->name;
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!low_needed(L, n->out.v[i])) continue;
    arg to = x[i];
    to.t = adjoints[i], to.values = NULL, to.floats = NULL;
    low_set(L, n->out.v[i], to);
  }
}
