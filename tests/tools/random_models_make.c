/* How is a random model drawn?
 *
 * A few inputs come with the first nodes. Then each node is a call of a definition: its inputs
 * are values that are there already, where type and shape fit, else new inputs of the model or constants
 * (src/notation/instance.h). One definition is tried most patiently, by the model's seed, so that seeds in a row have
 * all of them. A call that is not legal, or whose results are none for a model
 * (random_models_value.c), is drawn again. One model in ten has an If, a Loop or a Scan (random_models_flow.c). */
#include "random_models.h"
#include "notation/ast.h"
#include <string.h>

/* tries of a definition; of the one that is tried most patiently, how many calls and how many legal ones, and how often
 * the contents of each are drawn; nodes of a model */
enum { TRIES = 12, CALLS = 4000, LEGAL = 40, CONTENTS = 30, LEAST = 5, SPAN = 56 };

uint32_t model_family(const opdef *d, const char **name) {
  static const char *const files[] = {"contrib", "experts",   "lists",  "math",  "misc",   "ml",   "nn",
                                      "quant",   "recurrent", "reduce", "shape", "states", "text", "flow"};
  const uint32_t n = sizeof files / sizeof *files;
  if (!d) return *name = "flow", n - 1;
  const char *file = strrchr(d->file, '/') ? strrchr(d->file, '/') + 1 : d->file;
  for (uint32_t i = 0; i < n; i++)
    if (!strncmp(files[i], file, strlen(files[i])) && !strcmp(file + strlen(files[i]), ".ek"))
      return *name = files[i], i;
  return *name = "other", n;
}
uint32_t node_family(const model *m, const mnode *n) {
  const char *name;
  return model_family(n->kind == NODE_CALL ? notation_nth(m->lib, n->op) : NULL, &name);
}
/* May a node of this scope read v? */
static bool visible(const model *m, const mvalue *v, uint32_t scope) {
  while (scope && scope != v->scope) scope = m->scopes.v[scope].parent;
  return scope == v->scope;
}
/* The latest values are offered more often: chains are long then. */
static uint32_t offers(model *m, arg *offer, uint32_t *which, uint32_t most) {
  uint32_t n = 0;
  for (uint32_t i = 0; m->values.n && i < most; i++) {
    uint32_t back = draw(&m->state, 1 + draw(&m->state, m->values.n));
    const mvalue *v = &m->values.v[m->values.n - 1 - back];
    if (!visible(m, v, m->scope)) continue;
    which[n] = m->values.n - back;
    offer[n++] = (arg){.present = true, .type = v->type, .rank = v->rank, .shape = v->shape};
  }
  return n;
}
/* Inputs of the call that are no value yet become inputs of the model, or constants. */
static void place_inputs(model *m, mnode *n, const uint32_t *which) {
  opinst *o = n->i;
  for (uint32_t i = 0; i < o->nin; i++) {
    if (!o->in[i].present || xt(o->m, o->in[i].t)->kind == TK_CONST) continue;
    if (o->from[i])
      n->in[i] = which[o->from[i] - 1];
    else
      n->in[i] = value_given(m, draw(&m->state, 3) ? MADE_INPUT : MADE_CONST, o->in[i].type, &o->data[i]);
  }
}
/* Computes the node, and puts it at the end. */
static bool push_node(model *m, mnode *n) {
  const uint32_t values = m->values.n;
  n->scope = m->scope;
  if (!node_values(m, n, true)) {
    m->values.n = values;
    return false;
  }
  vec_push(ctx_arena(m->c), m->nodes, *n);
  return true;
}
/* A node of this definition; contents: how often its contents are drawn. Counts the legal calls. */
static bool add_node(model *m, uint32_t op, uint32_t contents, uint32_t *legal) {
  enum { OFFERS = 24 };
  arg offer[OFFERS];
  uint32_t which[OFFERS], values = m->values.n, outputs = 0;
  opinst *call = NEW(ctx_arena(m->c), opinst);
  mnode n = {.op = op, .i = call, .name = arena_fmt(ctx_arena(m->c), "n%u", m->nodes.n)};
  const opinst_opts o = {.types = m->from->types,
                         .sizes = m->from->sizes,
                         .strings = true,
                         .node = n.name,
                         .offers = offer,
                         .noffers = offers(m, offer, which, draw(&m->state, 8) ? OFFERS : 0)};
  if (!notation_instance(m->c, m->lib, notation_nth(m->lib, op), m->state, o, call)) return false;
  ++*legal;
  n.nin = call->nin, n.nout = call->nout;
  for (uint32_t i = 0; i < call->nout; i++) outputs += call->out[i].present && call->out[i].want;
  if (!outputs || !call_allowed(call)) return false;
  for (uint32_t i = 0; i < contents; i++) {
    if (i) notation_contents(m->c, m->state, call);
    for (uint32_t k = 0; k < call->nout; k++) n.out[k] = call->out[k].present && call->out[k].want;
    place_inputs(m, &n, which);
    if (push_node(m, &n)) return true;
    m->values.n = values;
    draw(&m->state, 2);
  }
  return false;
}
static void add_asked(model *m) {
  uint32_t legal = 0;
  const drawing *d = m->from;
  const uint32_t op = d->asked ? d->asked - 1 : d->ops.v[m->seed % d->ops.n];
  for (int i = 0; i < CALLS && legal < LEGAL && !add_node(m, op, CONTENTS, &legal); i++) draw(&m->state, 2);
}
uint32_t add_call(model *m, const char *op, const uint32_t *in, uint32_t nin) {
  const opdef *d = notation_find(m->lib, "", op);
  opinst *call = NEW(ctx_arena(m->c), opinst);
  mnode n = {.i = call, .name = arena_fmt(ctx_arena(m->c), "n%u", m->nodes.n), .nin = nin, .nout = 1};
  uint32_t mark = diag_mark(m->c);
  volatile bool ok = false;
  while (notation_nth(m->lib, n.op) != d) n.op++;
  *call = (opinst){.m = expr_module(m->c), .nin = nin, .nout = 1};
  for (uint32_t i = 0; i < nin; i++) {
    const mvalue *v = &m->values.v[in[i] - 1];
    tid t = expr_tensor(call->m, TK_INPUT, v->type, v->shape, v->rank, "x", NULL);
    vec_push(call->m->a, call->m->inputs, ((io){t, "x"}));
    call->in[i] = (arg){.present = true, .type = v->type, .rank = v->rank, .shape = v->shape, .t = t};
    n.in[i] = in[i];
  }
  call->out[0] = (arg){.want = true}, n.out[0] = 1;
  uint32_t facts = sym_mark(m->c);
  CTX_TRY(m->c) { ok = notation_elaborate(m->lib, d, call->m, 0, n.name, call->in, nin, NULL, 0, call->out, 1); }
  CTX_CATCH { ok = false; }
  sym_pop(m->c, facts), diag_reset(m->c, mark);
  return ok && push_node(m, &n) ? n.out[0] : 0;
}
/* One of all definitions, or one of a family, all of which are equally likely: so the small ones meet, too. */
static uint32_t some_op(model *m) {
  const drawing *d = m->from;
  const u32vec *from = &d->of[draw(&m->state, FAMILIES)];
  if (!from->n) from = &d->ops; /* more often than not */
  return from->v[draw(&m->state, from->n)];
}
bool add_nodes(model *m, uint32_t n) {
  const uint32_t had = m->nodes.n;
  for (uint32_t tries = 0; m->nodes.n < had + n && tries < 40 * n; tries++) {
    const uint32_t op = some_op(m);
    uint32_t legal = 0;
    for (int i = 0; i < TRIES && !add_node(m, op, 1, &legal); i++) continue;
  }
  return m->nodes.n > had;
}
bool model_make(model *m) {
  m->state = m->seed * 0x9e3779b97f4a7c15u + 7;
  for (int i = 0; i < 4; i++) draw(&m->state, 2);
  const uint32_t wanted = LEAST + draw(&m->state, SPAN), before = draw(&m->state, wanted);
  const bool symbols = draw(&m->state, 3) == 0, flow = draw(&m->state, 9) == 0;
  vec_push(ctx_arena(m->c), m->scopes, ((mscope){0}));
  if (before) add_nodes(m, before);
  add_asked(m);
  for (uint32_t i = 1 + draw(&m->state, 2), tries = 0; flow && i && tries < 20; tries++) i -= add_flow(m);
  if (m->nodes.n < wanted) add_nodes(m, wanted - m->nodes.n);
  for (uint32_t i = 0; symbols && i < m->values.n; i++) m->values.v[i].open = m->values.v[i].made == MADE_INPUT;
  model_recount(m);
  return m->nodes.n >= LEAST;
}
static void count_pair(const model *m, coverage *c, uint32_t v, uint32_t reader) {
  const mvalue *x = &m->values.v[v - 1];
  if (x->made == MADE_NODE) c->pairs[node_family(m, &m->nodes.v[x->node])][reader]++;
  if (x->made == MADE_BODY) c->pairs[node_family(m, &(mnode){.kind = NODE_LOOP})][reader]++;
}
void model_count(const model *m, coverage *c) {
  bool open = false, flow[4] = {false};
  c->models++, c->nodes += m->nodes.n;
  for (uint32_t i = 0; i < m->values.n; i++) open |= m->values.v[i].open;
  c->open += open;
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    flow[n->kind] = true;
    if (n->kind == NODE_CALL) c->ops[n->op]++;
    for (uint32_t k = 0; k < n->nin; k++)
      if (n->in[k]) count_pair(m, c, n->in[k], node_family(m, n));
  }
  for (uint32_t s = 1; s < m->scopes.n; s++)
    for (uint32_t k = 0; k < m->scopes.v[s].out.n; k++)
      count_pair(m, c, m->scopes.v[s].out.v[k], node_family(m, &(mnode){.kind = NODE_LOOP}));
  for (int i = 1; i < 4; i++) c->flow[i] += flow[i];
}
