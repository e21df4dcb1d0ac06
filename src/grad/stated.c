/* Where does a gradient that the definition states take part? (`stated` of expr.h)
 *
 * A given argument is a copy that the call alone reads. It is not active for the stages of the call, so nothing is
 * derived through them on its account; the results of the call are active nevertheless. When the walk reaches the copy,
 * all results are behind it and their adjoints complete: the note is asked for the stages that compute the stated
 * adjoints, once per call.
 */
#include "grad/grad_in.h"

void grad_stated_begin(gr *g) {
  emodule *m = g->m;
  g->given = arena_alloc(g->a, m->tensors.n + 1);
  g->call_in = NEWN(g->a, uint32_t, m->tensors.n + 1), g->call_out = NEWN(g->a, uint32_t, m->tensors.n + 1);
  g->stated = NEWN(g->a, tid *, m->stated.n + 1);
  for (uint32_t i = 0; i < m->stated.n; i++) {
    const stated_call *s = &m->stated.v[i];
    for (uint32_t k = 0; k < s->nargs; k++)
      if (s->given[k] && !(EK_PLANTED("grad-stated") && k)) g->call_in[s->args[k]] = i + 1;
    for (uint32_t k = 0; k < s->nouts; k++) g->call_out[s->outs[k]] = i + 1;
  }
}
bool grad_stated_live(gr *g, tid out) {
  if (out >= g->ntensors || !g->call_out[out]) return false;
  const stated_call *s = &g->m->stated.v[g->call_out[out] - 1];
  for (uint32_t k = 0; k < s->nargs; k++)
    if (s->given[k] && g->given[s->args[k]]) return true;
  return false;
}
/* What the stages of a stated gradient read of a given argument: the tensor behind the copy, through which they can be
 * differentiated in their turn. */
static tid behind(gr *g, tid copy) {
  const tensor *t = xt(g->m, copy);
  const ex value = t->kind == TK_STAGE ? xs(g->m, t->stage)->value : 0;
  return value && exn(g->m, value)->kind == EX_LOAD ? exn(g->m, value)->tensor : copy;
}
tid grad_stated(gr *g, tid in) {
  emodule *m = g->m;
  uint32_t i = g->call_in[in] - 1;
  const stated_call s = m->stated.v[i];
  if (!g->stated[i]) {
    tid *adj = NEWN(g->a, tid, s.nouts + 1);
    bool any = false;
    for (uint32_t k = 0; k < s.nouts; k++) any |= s.outs[k] && (adj[k] = g->adj[s.outs[k]]);
    if (!any) return 0;
    for (uint32_t k = 0; k < s.nouts; k++)
      if (s.outs[k] && !adj[k] && et_kind(xt(m, s.outs[k])->type) == K_FLOAT) adj[k] = grad_zeros(g, s.outs[k]);
    g->stated[i] = NEWN(g->a, tid, s.nargs + 1);
    tid *args = NEWN(g->a, tid, s.nargs + 1);
    for (uint32_t k = 0; k < s.nargs; k++) args[k] = s.given[k] ? behind(g, s.args[k]) : s.args[k];
    s.give(s.env, m, g->block, args, s.outs, adj, g->stated[i]);
  }
  for (uint32_t k = 0; k < s.nargs; k++)
    if (s.args[k] == in) return g->stated[i][k];
  return 0;
}
