/* gradient: what becomes of `grad(X) { .. }`?
 *
 * When a definition that states gradients is called, the inputs they are stated for are copied, so that what this call
 * reads of them is told from all other reads, and the call is noted in the module (`stated` of expr.h). Whoever
 * differentiates asks the note: the definition is elaborated once more, with the adjoints of its outputs at hand and
 * the clauses run behind its stages, this time without copies: the adjoints are ordinary stages of the inputs, and of
 * the results that the call gave, so that second derivatives go through them. What is computed of the forward pass a
 * second time is merged with the first by the passes. The call's own values live in the arena of the call, which is
 * kept therefore.
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(line, col, ...) el_fail(x, E_SHAPE, line, col, __VA_ARGS__)

static const stmt *clause(const opdef *d, const char *input) {
  for (uint32_t i = 0; i < d->body->n; i++)
    if (d->body->s[i]->kind == ST_GRAD && d->body->s[i]->names[0].name == input) return d->body->s[i];
  return NULL;
}
bool has_gradient(const opdef *d) {
  for (uint32_t i = 0; i < d->body->n; i++)
    if (d->body->s[i]->kind == ST_GRAD) return true;
  return false;
}
void run_gradients(el *x, gradient *g) {
  const opdef *d = x->d;
  for (uint32_t i = 0; i < d->nout && i < g->nout; i++)
    bind_global(x, intern(x->c, arena_fmt(x->a, "d%s", d->out[i].name)), R_TENSOR, g->adjoints[i]);
  for (uint32_t i = 0; g->results && i < d->nout && i < g->nout; i++) {
    binding *own = g->results[i].kind == V_TEN && !d->out[i].variadic ? find_global(x, d->out[i].name) : NULL;
    if (own) own->v = g->results[i];
  }
  for (uint32_t i = 0; i < d->nin && i < g->nin; i++) {
    const param *p = &d->in[i];
    if (!g->want[i].want) continue;
    const stmt *s = clause(d, p->name);
    const char *name = intern(x->c, arena_fmt(x->a, "d%s", p->name));
    run_block(x, s->body);
    binding *b = find_global(x, name), *in = find_global(x, p->name);
    if (!b || b->v.kind != V_TEN) FAIL(s->line, s->col, "grad(%s) does not compute %s", p->name, name);
    nten *t = b->v.p.t, *of = in->v.p.t;
    if (t->rank != of->rank || t->type != of->type)
      FAIL(s->line, s->col, "%s must have the type and rank of %s", name, p->name);
    for (uint32_t k = 0; k < t->rank; k++)
      need_equal(x, t->shape[k], of->shape[k], false, s->line, s->col, arena_fmt(x->a, "dim %u of %s", k, name));
    materialise(x, t);
    g->out[i] = b->v;
  }
}

static bool is_given(const opdef *d, const val *args, uint32_t i) {
  return i < d->nin && !d->in[i].variadic && !d->in[i].isdims && args[i].kind == V_TEN &&
         et_kind(args[i].p.t->type) == K_FLOAT && clause(d, d->in[i].name);
}
val *stated_inputs(el *parent, const opdef *d, const val *args, uint32_t n) {
  val *r = NEWN(parent->a, val, n + 1);
  el scope = *parent;
  scope.d = d;
  for (uint32_t i = 0; i < n; i++) {
    r[i] = args[i];
    if (!is_given(d, args, i)) continue;
    nten *t = args[i].p.t;
    materialise(&scope, t);
    sz idx[MAX_RANK];
    axis *axes = NEWN(scope.m->a, axis, t->rank + 1);
    for (uint32_t k = 0; k < t->rank; k++)
      axes[k] = expr_axis1(scope.m, arena_fmt(scope.m->a, "i%u", k), t->shape[k], &idx[k]);
    nten *copy = new_tensor(&scope, d->in[i].name, t->type, t->shape, t->rank);
    add_stage(&scope, copy, axes, t->rank, load_at(&scope, t, idx, 0).e);
    copy->values = t->values, copy->floats = t->floats;
    t->read = true;
    r[i] = v_ten(copy);
  }
  return r;
}

/* ---- the note in the module, and what it does when it is asked ------------------------------- */
typedef struct call {
  el parent;       /* elaboration of the caller */
  const opdef *d;  /* definition that is called */
  val *args;       /* arguments */
  const val *kwv;  /* values of the attributes */
  const kwarg *kw; /* attributes */
  uint32_t nargs;  /* number of arguments */
  uint32_t nkw;    /* number of attributes */
  uint32_t nouts;  /* number of results */
  uint32_t asked;  /* number of outputs that the caller takes */
  nten **outs;     /* results; NULL: no tensor */
  ast at;          /* place of the call */
} call;

static val with_tensor(arena *a, const nten *like, tid t) {
  nten *n = arena_dup(a, like, sizeof *n);
  n->t = t, n->uniform = false, n->stage = 0, n->read = true;
  return v_ten(n);
}
static void give(void *env, emodule *m, uint32_t block, const tid *args, const tid *outs, const tid *adjoints,
                 tid *out) {
  call *k = env;
  el *x = NEW(k->parent.a, el);
  *x = k->parent;
  x->blk = block;
  uint32_t mark = sym_mark(m->c);
  contents_frame(x);
  val *a = NEWN(x->a, val, k->nargs + 1), *adj = NEWN(x->a, val, k->nouts + 1),
      *results = NEWN(x->a, val, k->nouts + 1), *dummy = NEWN(x->a, val, k->asked + k->d->nout + 1);
  arg *want = NEWN(x->a, arg, k->nargs + 1);
  for (uint32_t i = 0; i < k->nargs; i++) {
    a[i] = k->args[i].kind == V_TEN && args[i] ? with_tensor(x->a, k->args[i].p.t, args[i]) : k->args[i];
    want[i].want = is_given(k->d, k->args, i);
  }
  for (uint32_t i = 0; i < k->nouts; i++) {
    adj[i] = k->outs[i] && adjoints[i] ? with_tensor(x->a, k->outs[i], adjoints[i]) : v_none();
    if (adj[i].kind == V_TEN) adj[i].p.t->values = NULL, adj[i].p.t->floats = NULL;
    results[i] = k->outs[i] && outs[i] ? with_tensor(x->a, k->outs[i], outs[i]) : v_none();
  }
  gradient g = {.adjoints = adj,
                .results = results,
                .nout = k->nouts,
                .nin = k->nargs,
                .want = want,
                .out = NEWN(x->a, val, k->nargs + 1)};
  x->grad = &g;
  elaborate(x, k->d, a, k->nargs, k->kw, k->kwv, k->nkw, k->asked, NULL, dummy, &k->at);
  for (uint32_t i = 0; i < k->nargs; i++) out[i] = want[i].want ? g.out[i].p.t->t : 0;
  sym_pop(m->c, mark);
}
void stated_outputs(el *parent, const opdef *d, val *args, uint32_t nargs, const kwarg *kw, const val *kwv,
                    uint32_t nkw, const val *out, uint32_t nout, uint32_t asked, const ast *at) {
  emodule *m = parent->m;
  call *k = NEW(parent->a, call);
  *k = (call){.parent = *parent,
              .d = d,
              .args = args,
              .nargs = nargs,
              .kw = kw,
              .kwv = kwv,
              .nkw = nkw,
              .nouts = nout,
              .asked = asked,
              .outs = NEWN(parent->a, nten *, nout + 1),
              .at = *at};
  tid *a = NEWN(m->a, tid, nargs + 1), *o = NEWN(m->a, tid, nout + 1);
  bool *given = NEWN(m->a, bool, nargs + 1), any = false;
  for (uint32_t i = 0; i < nargs; i++) {
    a[i] = args[i].kind == V_TEN && !args[i].p.t->uniform ? args[i].p.t->t : 0;
    any |= given[i] = is_given(d, args, i);
  }
  for (uint32_t i = 0; i < nout; i++)
    if (out[i].kind == V_TEN) k->outs[i] = out[i].p.t, o[i] = out[i].p.t->t;
  if (!any) return;
  *parent->keep = true;
  vec_push(
      m->a, m->stated,
      ((stated_call){.nargs = nargs, .nouts = nout, .args = a, .outs = o, .given = given, .give = give, .env = k}));
}
