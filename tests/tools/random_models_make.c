/* How is a random model drawn?
 *
 * A few inputs come with the first nodes. Then each node is a call of a definition: its inputs
 * are values that are there already, where type and shape fit, else new inputs of the model or constants
 * (src/notation/instance.h). One definition is tried most patiently, by the model's seed, so that seeds in a row have
 * all of them. A call that is not legal, or whose results are none for a model
 * (random_models_value.c), is drawn again. */
#include "random_models.h"
#include "notation/ast.h"
#include <string.h>

enum { TRIES = 12, PATIENCE = 80, LEAST = 5, SPAN = 56 };

uint32_t model_family(const opdef *d, const char **name) {
  static const char *const files[] = {"contrib.ek", "experts.ek", "lists.ek", "math.ek",      "misc.ek",
                                      "ml.ek",      "nn.ek",      "quant.ek", "recurrent.ek", "reduce.ek",
                                      "shape.ek",   "states.ek",  "text.ek"};
  const uint32_t n = sizeof files / sizeof *files;
  const char *file = strrchr(d->file, '/') ? strrchr(d->file, '/') + 1 : d->file;
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(files[i], file)) return *name = files[i], i;
  return *name = "other", n;
}
static uint32_t family(const model *m, uint32_t op) {
  const char *name;
  return model_family(notation_nth(m->lib, op), &name);
}
/* The latest values are offered more often: chains are long then. */
static uint32_t offers(model *m, arg *offer, uint32_t *which, uint32_t most) {
  uint32_t n = 0;
  for (uint32_t i = 0; m->values.n && i < most; i++) {
    uint32_t back = draw(&m->state, 1 + draw(&m->state, m->values.n));
    const mvalue *v = &m->values.v[m->values.n - 1 - back];
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
      n->in[i] = value_given(m, draw(&m->state, 3) ? MADE_INPUT : MADE_CONST, &o->data[i]);
  }
}
static bool plain(const opinst *o) {
  for (uint32_t i = 0; i < o->nin; i++)
    if (o->in[i].present && o->in[i].type == ET_STR) return false;
  for (uint32_t i = 0; i < o->nout; i++)
    if (o->out[i].present && o->out[i].type == ET_STR) return false;
  return true;
}
static bool add_node(model *m, uint32_t op) {
  enum { OFFERS = 24 };
  arg offer[OFFERS];
  uint32_t which[OFFERS], values = m->values.n, outputs = 0;
  static const opinst_opts none;
  opinst_opts o = none;
  o.node = arena_fmt(ctx_arena(m->c), "n%u", m->nodes.n), o.offers = offer,
  o.noffers = offers(m, offer, which, draw(&m->state, 8) ? OFFERS : 0);
  opinst *call = NEW(ctx_arena(m->c), opinst);
  uint64_t seed = m->state;
  if (!notation_instance(m->c, m->lib, notation_nth(m->lib, op), seed, o, call) || !plain(call)) return false;
  mnode n = {.op = op, .i = call};
  place_inputs(m, &n, which);
  for (uint32_t i = 0; i < call->nout; i++) {
    n.out[i] = call->out[i].present && call->out[i].want;
    outputs += n.out[i];
  }
  if (!outputs || !node_values(m, &n)) {
    m->values.n = values;
    return false;
  }
  for (uint32_t i = 0; i < call->nin; i++)
    if (n.in[i]) m->values.v[n.in[i] - 1].uses++;
  vec_push(ctx_arena(m->c), m->nodes, n);
  return true;
}
bool model_make(model *m) {
  m->state = m->seed * 0x9e3779b97f4a7c15u + 7;
  for (int i = 0; i < 4; i++) draw(&m->state, 2);
  const uint32_t wanted = LEAST + draw(&m->state, SPAN);
  bool owned = false;
  m->symbols = draw(&m->state, 3) == 0;
  for (uint32_t tries = 0; m->nodes.n < wanted && tries < 40 * wanted; tries++) {
    const bool own = m->nodes.n == wanted / 2 && !owned;
    owned |= own;
    const uint32_t n = notation_count(m->lib), op = own ? (uint32_t)(m->seed % n) : draw(&m->state, n);
    for (int i = 0; i < (own ? PATIENCE : TRIES) && !add_node(m, op); i++) continue;
  }
  for (uint32_t i = 0; m->symbols && i < m->values.n; i++) m->values.v[i].open = m->values.v[i].made == MADE_INPUT;
  return m->nodes.n >= LEAST;
}
void model_count(const model *m, coverage *c) {
  c->models++, c->nodes += m->nodes.n;
  for (uint32_t i = 0; i < m->values.n; i++)
    if (m->values.v[i].open) {
      c->open++;
      break;
    }
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    c->ops[n->op]++;
    for (uint32_t k = 0; k < n->i->nin; k++) {
      if (!n->in[k]) continue;
      const mvalue *v = &m->values.v[n->in[k] - 1];
      if (v->made == MADE_NODE) c->pairs[family(m, m->nodes.v[v->node].op)][family(m, n->op)]++;
    }
  }
}
