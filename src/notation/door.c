/* door: what notation.h promises, on top of one call of a definition (elab).
 *
 * The caller's arguments become tensors of the elaborator, the results arguments again, with the contents of small
 * ones. Everything runs in an arena of its own, in a frame: an error leaves a message, dead stages and no guards
 * behind. Guards that a call leaves are known to everything lowered after it.
 */
#include "notation/elab.h"
#include <string.h>

enum { KNOWN_OUT = 64 }; /* contents are told of whole-numbered results up to this many elements */

typedef struct job {
  el root;             /* the elaboration */
  const opdef *d;      /* the definition */
  const arg *in;       /* inputs */
  uint32_t nin;        /* number of inputs */
  uint32_t nattrs;     /* number of attributes */
  uint32_t nout;       /* number of outputs */
  const sattr *attrs;  /* attributes */
  arg *out;            /* outputs */
  const arg *adjoints; /* per output, where a stated gradient is wanted; NULL: none is */
  arg *grads;          /* per input, where a stated gradient is wanted */
} job;

static val of_sattr(el *x, const sattr *s) {
  val r;
  switch (s->kind) {
  case SK_INT:
    return v_int(x, s->i);
  case SK_FLOAT:
    return v_float(s->f);
  case SK_STRING:
    return v_str(s->s ? s->s : "");
  case SK_INTS:
  case SK_FLOATS:
  case SK_STRINGS:
    r = v_list(x, s->n);
    for (uint32_t i = 0; i < s->n; i++)
      r.p.l->v[i] = s->kind == SK_INTS     ? v_int(x, s->ints[i])
                    : s->kind == SK_FLOATS ? v_float(s->floats[i])
                                           : v_str(s->strings[i]);
    return r;
  case SK_TENSOR: {
    const ndarray *nd = s->tensor;
    if (nd->type == ET_STR) return v_ten(text_const(x, nd, s->name));
    nten *t = NEW(x->a, nten);
    sz *shape = NEWN(x->m->a, sz, nd->rank + 1);
    for (uint32_t i = 0; i < nd->rank; i++) shape[i] = sym_int(x->c, nd->dims[i]);
    *t = (nten){.name = s->name, .type = nd->type, .rank = nd->rank, .shape = shape, .read = true};
    t->t = expr_const_tensor(x->m, nd, arena_fmt(x->m->a, "%s.%s", x->node ? x->node : "const", s->name));
    return v_ten(t);
  }
  default:
    return v_none();
  }
}

static val of_arg(el *x, const arg *a, const char *name) {
  if (!a->present) return v_none();
  nten *t = NEW(x->a, nten);
  sz *shape = NEWN(x->m->a, sz, a->rank + 1);
  for (uint32_t k = 0; k < a->rank; k++) {
    shape[k] = sym_canon(x->c, a->shape[k]);
    if (!sym_ge0(x->c, shape[k])) sym_push(x->c, shape[k]); /* no tensor has a negative size */
  }
  *t = (nten){.name = name,
              .type = a->type,
              .rank = a->rank,
              .shape = shape,
              .t = a->t,
              .values = a->values,
              .floats = a->floats,
              .read = true};
  if (!t->t)
    t->t = expr_tensor(x->m, TK_INPUT, a->type, shape, a->rank,
                       arena_fmt(x->m->a, "%s.%s", x->node ? x->node : "node", name), x->node);
  if (a->values || a->floats) {
    known_values *k = NEW(x->a, known_values);
    *k = (known_values){.values = a->values, .floats = a->floats};
    map_putu(x->known, t->t, (uint64_t)(uintptr_t)k);
  }
  return v_ten(t);
}
/* An output is a tensor of its own, never an input or a constant under another name. */
static nten *own_output(job *j, nten *t) {
  el *x = &j->root;
  bool alias = xt(x->m, t->t)->kind != TK_STAGE;
  for (uint32_t i = 0; i < j->nin; i++) alias |= j->in[i].present && j->in[i].t == t->t;
  if (!alias) return t;
  el scope = *x;
  scope.d = j->d;
  if (t->type == ET_STR) bind_global(&scope, t->name, R_TENSOR, v_ten(t));
  sz idx[MAX_RANK];
  axis *axes = NEWN(x->m->a, axis, t->rank + 1);
  for (uint32_t i = 0; i < t->rank; i++) axes[i] = expr_axis1(x->m, arena_fmt(x->m->a, "i%u", i), t->shape[i], &idx[i]);
  nten *n = new_tensor(&scope, t->name, t->type, t->shape, t->rank);
  add_stage(&scope, n, axes, t->rank, load_at(&scope, t, idx, 0).e);
  return n;
}
static void to_arg(job *j, nten *t, arg *o) {
  el *x = &j->root;
  t = own_output(j, t);
  sz *shape = NEWN(x->m->a, sz, t->rank + 1);
  for (uint32_t k = 0; k < t->rank; k++) shape[k] = sym_canon(x->c, t->shape[k]);
  *o = (arg){.want = o->want, .present = true, .type = t->type, .rank = t->rank, .shape = shape, .t = t->t};
  /* floats are hardly ever sizes: whoever wants their contents has them found */
  int64_t count = t->type == ET_STR || et_kind(t->type) == K_FLOAT ? KNOWN_OUT + 1 : 1, k;
  for (uint32_t q = 0; q < t->rank; q++)
    count =
        sym_is_int(x->c, shape[q], &k) && k >= 0 && k <= KNOWN_OUT && count <= KNOWN_OUT ? count * k : KNOWN_OUT + 1;
  if (count <= KNOWN_OUT) point_values(x, t->t, &o->values, &o->floats);
  for (int64_t q = 0; o->values && q < count; q++)
    if (sym_uses_kind(x->c, o->values[q], AT_DATA)) o->values = NULL;
}

static void run(job *j) {
  el *x = &j->root;
  const opdef *d = j->d;
  val *args = NEWN(x->a, val, j->nin + 1), *kwv = NEWN(x->a, val, j->nattrs + 1),
      *out = NEWN(x->a, val, j->nout + d->nout + 1);
  kwarg *kw = NEWN(x->a, kwarg, j->nattrs + 1);
  for (uint32_t i = 0; i < j->nin; i++) args[i] = of_arg(x, &j->in[i], arena_fmt(x->a, "in%u", i));
  for (uint32_t i = 0; i < j->nattrs; i++)
    kw[i].name = intern(x->c, j->attrs[i].name), kwv[i] = of_sattr(x, &j->attrs[i]);
  ast at = {.line = d->line, .col = d->col};
  gradient g = {0};
  if (j->adjoints) {
    val *adj = NEWN(x->a, val, j->nout + 1);
    for (uint32_t i = 0; i < j->nout; i++) adj[i] = of_arg(x, &j->adjoints[i], arena_fmt(x->a, "adjoint%u", i));
    g = (gradient){
        .adjoints = adj, .nout = j->nout, .nin = j->nin, .want = j->grads, .out = NEWN(x->a, val, j->nin + 1)};
    x->grad = &g;
  }
  uint32_t n = elaborate(x, d, args, j->nin, kw, kwv, j->nattrs, j->nout, j->out, out, &at);
  contents_whole(x);
  for (uint32_t i = 0; i < j->nout && j->out; i++) {
    if (i < n && out[i].kind == V_TEN)
      to_arg(j, out[i].p.t, &j->out[i]);
    else if (j->out[i].want)
      el_fail(x, E_SHAPE, d->line, d->col, "%s gives %u outputs, but output %u is used", d->name, n, i);
    else
      j->out[i] = (arg){0};
  }
  for (uint32_t i = 0; i < j->nin && j->adjoints; i++)
    if (j->grads[i].want) to_arg(j, g.out[i].p.t, &j->grads[i]);
}

/* From now on everybody may rely on guards: those of the root block for good, those of a branch until whoever lowers
 * the branch pops the facts. Equalities of the root block are substitutions already.
 */
static void learn(emodule *m, uint32_t first, uint32_t block) {
  for (uint32_t i = first; i < m->guards.n; i++) {
    const guard *g = &m->guards.v[i];
    if (g->is_eq && !block) continue;
    sym_push(m->c, g->ge0);
    if (g->is_eq) sym_push(m->c, sym_neg(m->c, g->ge0));
  }
}
static bool run_framed(job *j, emodule *m, const oplib *lib, uint32_t block, const char *node) {
  ctx *c = m->c;
  volatile bool ok = true;
  uint32_t mark = sym_mark(c), stages = m->stages.n, guards = m->guards.n, lates = m->lates.n, checks = m->checks.n;
  arena *a = j->root.a;
  j->root = (el){.c = c,
                 .a = a,
                 .m = m,
                 .lib = lib,
                 .node = node,
                 .file = j->d->file,
                 .path = "",
                 .blk = block,
                 .unchecked = lib->unchecked || j->adjoints};
  j->root.known = map_new(a);
  contents_frame(&j->root);
  j->root.serial = NEW(a, uint32_t);
  j->root.keep = NEW(a, bool);
  CTX_TRY(c)
  run(j);
  CTX_CATCH {
    ok = false;
    for (uint32_t i = stages; i < m->stages.n; i++) m->stages.v[i].dead = true;
    m->guards.n = guards;
    m->lates.n = lates;
    m->checks.n = checks;
  }
  sym_pop(c, mark);
  learn(m, guards, block);
  return ok;
}
static job *new_job(arena *a, const opdef *d, const arg *in, uint32_t nin, const sattr *attrs, uint32_t nattrs) {
  job *j = NEW(a, job);
  *j = (job){.root = {.a = a}, .d = d, .in = in, .nin = nin, .attrs = attrs, .nattrs = nattrs};
  return j;
}

bool notation_elaborate(const oplib *lib, const opdef *d, emodule *m, uint32_t block, const char *node, const arg *in,
                        uint32_t nin, const sattr *attrs, uint32_t nattrs, arg *out, uint32_t nout) {
  arena *a = arena_new(m->c);
  job *j = new_job(a, d, in, nin, attrs, nattrs);
  j->out = out, j->nout = nout;
  bool ok = run_framed(j, m, lib, block, node);
  if (!ok || !*j->root.keep) arena_free(a);
  return ok;
}

bool notation_elaborate_gradient(const oplib *lib, const opdef *d, emodule *m, uint32_t block, const char *node,
                                 const arg *in, uint32_t nin, const sattr *attrs, uint32_t nattrs, const arg *adjoints,
                                 uint32_t nout, arg *grads) {
  for (uint32_t i = 0; i < nin; i++)
    if (grads[i].want && (i >= d->nin || !notation_stated_gradient(lib, d, d->in[i].name))) return false;
  arena *a = arena_new(m->c);
  job *j = new_job(a, d, in, nin, attrs, nattrs);
  j->adjoints = adjoints, j->nout = nout, j->grads = grads;
  bool ok = run_framed(j, m, lib, block, node);
  if (!ok || !*j->root.keep) arena_free(a);
  return ok;
}

void notation_assume(emodule *m, uint32_t block, sz flag, bool truth, const char *node, const char *text) {
  ctx *c = m->c;
  arena *a = arena_new(c);
  el x = {.c = c, .a = a, .m = m, .node = node, .blk = block};
  atom k;
  sz arg[3], cond = sym_addi(c, flag, -1);
  uint32_t mark = sym_mark(c), first = m->guards.n;
  if (sym_is_atom(c, flag, &k) && sym_kind(c, k) == AT_SEL && sym_args(c, k, arg) == 3 && arg[1] == sym_int(c, 1) &&
      arg[2] == sym_int(c, 0))
    cond = arg[0];
  if (!truth) cond = sym_addi(c, sym_neg(c, cond), -1);
  if (sym_is_atom(c, cond, &k) && sym_kind(c, k) == AT_MIN && sym_args(c, k, arg) == 2 && arg[0] == sym_neg(c, arg[1]))
    guard_eq(&x, arg[0], sym_int(c, 0), true, text); /* min(d, -d) >= 0 */
  else
    guard_ge0(&x, cond, true, text);
  sym_pop(c, mark);
  learn(m, first, block);
  arena_free(a);
}
