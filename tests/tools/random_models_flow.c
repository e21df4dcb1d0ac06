/* If, Loop and Scan of random models: how are they drawn, and what do they compute?
 *
 * A body is a scope: its nodes stand in the model's list before the node that it belongs to, and may read what stands
 * in the scopes around it. While a body is drawn its values are those of the first trip. Then all trips are computed,
 * and the node is taken only where every node of the body is allowed in every trip (random_models_value.c). Both
 * branches of an If are computed; what is taken is the one that the condition says. */
#include "random_models.h"
#include <math.h>
#include <string.h>

static arena *mem(const model *m) { return ctx_arena(m->c); }
/* Are all its sizes known before a run? That of the bytes of strings is not. */
static bool numbers(const model *m, const mvalue *v) {
  int64_t n;
  if (v->type == ET_STR) return false;
  for (uint32_t i = 0; i < v->rank; i++)
    if (!sym_is_int(m->c, v->shape[i], &n)) return false;
  return true;
}
static bool seen(const model *m, const mvalue *v) {
  uint32_t s = m->scope;
  while (s && s != v->scope) s = m->scopes.v[s].parent;
  return s == v->scope;
}
static bool alike(const mvalue *a, const mvalue *b, bool sizes) {
  bool same = a->type == b->type && a->rank == b->rank;
  for (uint32_t i = 0; sizes && same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
  return same;
}
/* Some value that can be read here; own: one that a node of this scope makes. */
typedef bool (*fitting)(const model *m, const mvalue *v, const mvalue *like);
static uint32_t some(model *m, fitting fits, const mvalue *like, bool own) {
  const mvalue want = like ? *like : (mvalue){0};
  const uint32_t n = m->values.n, from = draw(&m->state, n);
  for (uint32_t i = 0; i < n; i++) {
    const mvalue *v = &m->values.v[(from + i) % n];
    if (own ? v->made != MADE_NODE || v->scope != m->scope : !seen(m, v)) continue;
    if (fits(m, v, &want)) return (from + i) % n + 1;
  }
  return 0;
}
static bool same(const model *m, const mvalue *v, const mvalue *like) { return (void)m, alike(v, like, true); }
static bool same_rank(const model *m, const mvalue *v, const mvalue *like) { return (void)m, alike(v, like, false); }
static bool known(const model *m, const mvalue *v, const mvalue *like) { return (void)like, numbers(m, v); }
static bool rows(const model *m, const mvalue *v, const mvalue *like) {
  return v->rank && numbers(m, v) && (like->rank ? v->shape[0] == like->shape[0] : v->at[0].dims[0] > 0);
}
/* A scalar that is an input or a constant. */
static uint32_t scalar_of(model *m, etype t, int64_t x, making made) {
  uint8_t *b = arena_alloc(mem(m), 16);
  et_store(t, b, (scalar){.i = x});
  return value_given(m, made, t, &(ndarray){.type = t, .data = b, .bytes = et_bytes(t)});
}
static uint32_t open_scope(model *m) {
  vec_push(mem(m), m->scopes, ((mscope){.parent = m->scope}));
  return m->scope = m->scopes.n - 1;
}
/* An input of the body, with these contents in the first trip. */
static uint32_t body_input(model *m, const mvalue *first) {
  mvalue v = *first;
  v.made = MADE_BODY, v.scope = m->scope, v.open = false;
  vec_push(mem(m), m->values, v);
  vec_push(mem(m), m->scopes.v[m->scope].in, m->values.n);
  return m->values.n;
}
static void body_result(model *m, uint32_t v) { vec_push(mem(m), m->scopes.v[m->scope].out, v); }

/* ---- drawing --------------------------------------------------------------------------------- */
static bool push_flow(model *m, mnode *n, uint32_t outer) {
  m->scope = n->scope = outer;
  for (int i = 0; i < (n->kind == NODE_IF ? 2 : 1); i++) m->scopes.v[n->body[i]].node = m->nodes.n;
  n->name = arena_fmt(mem(m), "n%u", m->nodes.n);
  if (!node_values(m, n, true)) return false;
  vec_push(mem(m), m->nodes, *n);
  return true;
}
static uint32_t copied(model *m, uint32_t v) { /* a constant of the same contents */
  ndarray d = m->values.v[v - 1].at[0];
  return value_given(m, MADE_CONST, d.type, &d);
}
static bool add_if(model *m) {
  const uint32_t outer = m->scope;
  mnode n = {.kind = NODE_IF, .nin = 1, .nout = 1 + draw(&m->state, 2)};
  const mvalue flag = {.type = ET_BOOL};
  n.in[0] = draw(&m->state, 2) ? some(m, same, &flag, false) : 0;
  if (!n.in[0]) n.in[0] = scalar_of(m, ET_BOOL, draw(&m->state, 2), draw(&m->state, 8) ? MADE_INPUT : MADE_CONST);
  n.body[0] = open_scope(m);
  if (!add_nodes(m, 1 + draw(&m->state, 5))) return false;
  for (uint32_t i = 0; i < n.nout; i++) body_result(m, some(m, known, NULL, true));
  m->scope = outer;
  n.body[1] = open_scope(m);
  if (!add_nodes(m, 1 + draw(&m->state, 5))) return false;
  for (uint32_t i = 0; i < n.nout; i++) {
    const uint32_t there = m->scopes.v[n.body[0]].out.v[i];
    if (!there) return false;
    const mvalue *like = &m->values.v[there - 1];
    uint32_t here = some(m, draw(&m->state, 3) ? same : same_rank, like, true);
    if (!here) here = some(m, draw(&m->state, 3) ? same : same_rank, like, false);
    body_result(m, here ? here : copied(m, there));
  }
  return push_flow(m, &n, outer);
}
/* The next contents of a state: what a node of the body makes, or else something of it. */
static uint32_t next_state(model *m, uint32_t state) {
  static const char *const floats[] = {"Tanh", "Sigmoid", "Neg", "Abs"};
  const mvalue v = m->values.v[state - 1];
  uint32_t r = some(m, same, &v, true);
  if (r) return r;
  const ekind k = et_kind(v.type);
  r = add_call(m, k == K_FLOAT ? floats[draw(&m->state, 4)] : k == K_BOOL ? "Not" : "Identity", &state, 1);
  return r ? r : state;
}
/* States, and what else the trips hand out, of the body of a Loop or Scan; first: its inputs before the states. */
static bool body_of(model *m, mnode *n, uint32_t first, uint32_t states, uint32_t most) {
  const uint32_t body = m->scope;
  if (!add_nodes(m, 1 + draw(&m->state, 6))) return false;
  if (n->kind == NODE_LOOP) {
    const uint32_t iter = m->scopes.v[body].in.v[0], flag = m->scopes.v[body].in.v[1];
    const uint32_t stop = draw(&m->state, 3) ? 0 : scalar_of(m, ET_I64, 1 + draw(&m->state, 3), MADE_CONST);
    const uint32_t go = stop ? add_call(m, "Less", (uint32_t[]){iter, stop}, 2) : flag;
    if (!go) return false;
    body_result(m, go);
  }
  for (uint32_t i = 0; i < states; i++) body_result(m, next_state(m, m->scopes.v[body].in.v[first + i]));
  n->nout = states;
  for (uint32_t i = 0; i < most; i++) {
    const uint32_t v = some(m, known, NULL, true);
    if (!v) return false;
    body_result(m, v);
    n->nout++;
  }
  return n->nout > 0;
}
static bool add_loop(model *m) {
  const uint32_t outer = m->scope, states = 1 + draw(&m->state, 2);
  mnode n = {.kind = NODE_LOOP, .nin = 2 + states};
  /* where only the run knows how many trips there are, there is no room for what each of them hands out */
  const bool given = draw(&m->state, 3) == 0;
  n.in[0] = scalar_of(m, ET_I64, draw(&m->state, 5), given ? MADE_INPUT : MADE_CONST);
  if (draw(&m->state, 2)) n.in[1] = scalar_of(m, ET_BOOL, 1, MADE_CONST);
  for (uint32_t i = 0; i < states; i++)
    if (!(n.in[2 + i] = some(m, known, NULL, false))) return false;
  const uint32_t iter = scalar_of(m, ET_I64, 0, MADE_CONST), flag = scalar_of(m, ET_BOOL, 1, MADE_CONST);
  const mvalue first = m->values.v[iter - 1], go = m->values.v[flag - 1];
  n.body[0] = open_scope(m);
  body_input(m, &first), body_input(m, &go);
  for (uint32_t i = 0; i < states; i++) {
    const mvalue v = m->values.v[n.in[2 + i] - 1];
    body_input(m, &v);
  }
  return body_of(m, &n, 2, states, given ? 0 : draw(&m->state, 3)) && push_flow(m, &n, outer);
}
/* Slice i of the first axis. */
static ndarray slice(const ndarray *d, int64_t i) {
  ndarray r = {.type = d->type, .rank = d->rank - 1};
  for (uint32_t k = 1; k < d->rank; k++) r.dims[k - 1] = d->dims[k];
  r.bytes = d->dims[0] ? d->bytes / (size_t)d->dims[0] : 0;
  r.data = (const uint8_t *)d->data + (size_t)i * r.bytes;
  return r;
}
static bool back(const mnode *n, uint32_t i) { return n->back >> i & 1; }
static bool add_scan(model *m) {
  const uint32_t outer = m->scope, states = draw(&m->state, 3);
  mnode n = {
      .kind = NODE_SCAN, .scanned = 1 + draw(&m->state, 2), .back = draw(&m->state, 4) ? 0 : draw(&m->state, 2048)};
  n.nin = states + n.scanned;
  for (uint32_t i = 0; i < states; i++)
    if (!(n.in[i] = some(m, known, NULL, false))) return false;
  for (uint32_t i = 0; i < n.scanned; i++)
    if (!(n.in[states + i] = some(m, rows, i ? &m->values.v[n.in[states] - 1] : NULL, false))) return false;
  n.body[0] = open_scope(m);
  for (uint32_t i = 0; i < n.nin; i++) {
    mvalue v = m->values.v[n.in[i] - 1];
    if (i >= states) {
      const int64_t last = v.at[0].dims[0] - 1;
      for (int k = 0; k <= VARIANTS; k++) v.at[k] = slice(&v.at[k], back(&n, i - states) ? last : 0);
      v.rank--, v.shape++;
    }
    body_input(m, &v);
  }
  return body_of(m, &n, 0, states, 1 + draw(&m->state, 2)) && push_flow(m, &n, outer);
}
bool add_flow(model *m) {
  const uint32_t values = m->values.n, nodes = m->nodes.n, scopes = m->scopes.n, scope = m->scope,
                 way = draw(&m->state, 3);
  if (way == 0 ? add_if(m) : way == 1 ? add_loop(m) : add_scan(m)) return true;
  m->values.n = values, m->nodes.n = nodes, m->scopes.n = scopes, m->scope = scope;
  return false;
}

/* ---- contents -------------------------------------------------------------------------------- */
/* Result i of the node has these contents. */
static bool give(model *m, mnode *n, uint32_t i, const mvalue *from, bool fresh) {
  mvalue v = *from;
  v.made = MADE_NODE, v.node = m->nodes.n, v.scope = n->scope, v.open = false;
  if (fresh) {
    vec_push(mem(m), m->values, v);
    n->out[i] = m->values.n;
    return value_allowed(&m->values.v[m->values.n - 1]);
  }
  mvalue *to = &m->values.v[n->out[i] - 1];
  for (uint32_t k = 0; k < to->rank; k++)
    if (to->at[0].dims[k] != v.at[0].dims[k]) return false;
  memcpy(to->at, v.at, sizeof to->at);
  to->spread = fmax(to->spread, v.spread);
  return value_allowed(to);
}
static bool if_values(model *m, mnode *n, bool fresh) {
  if (!fresh && !(nodes_values(m, n->body[0]) && nodes_values(m, n->body[1]))) return false;
  const bool flag = *(const uint8_t *)m->values.v[n->in[0] - 1].at[0].data;
  bool ok = true;
  for (uint32_t i = 0; ok && i < n->nout; i++) {
    mvalue v = m->values.v[m->scopes.v[n->body[!flag]].out.v[i] - 1];
    const mvalue *other = &m->values.v[m->scopes.v[n->body[flag]].out.v[i] - 1];
    sz *shape = NEWN(mem(m), sz, v.rank + 1);
    for (uint32_t k = 0; k < v.rank; k++)
      shape[k] = v.shape[k] == other->shape[k] ? v.shape[k] : sym_fresh(m->c, "late", 0, 1000000);
    v.shape = shape;
    ok = give(m, n, i, &v, fresh);
  }
  return ok;
}
/* The inputs of the body in trip t; the states are there from the trip before. */
static void begin_trip(model *m, const mnode *n, int64_t t, int64_t trips) {
  const mscope *s = &m->scopes.v[n->body[0]];
  if (n->kind == NODE_LOOP) {
    for (int k = 0; k <= VARIANTS; k++) {
      uint8_t *b = arena_alloc(mem(m), 16);
      et_store(ET_I64, b, (scalar){.i = t});
      m->values.v[s->in.v[0] - 1].at[k].data = b;
    }
    return;
  }
  for (uint32_t i = 0; i < n->scanned; i++)
    for (int k = 0; k <= VARIANTS; k++)
      m->values.v[s->in.v[n->nin - n->scanned + i] - 1].at[k] =
          slice(&m->values.v[n->in[n->nin - n->scanned + i] - 1].at[k], back(n, i) ? trips - 1 - t : t);
}
/* What the trips handed out, one slice a trip. */
typedef struct stack {
  VEC(ndarray) slices[1 + VARIANTS];
} stack;
static ndarray stacked(arena *a, const ndarray *slices, uint32_t n, const ndarray *like, bool reverse) {
  ndarray r = {.type = like->type, .rank = like->rank + 1, .bytes = n * like->bytes};
  for (uint32_t k = 0; k < like->rank; k++) r.dims[k + 1] = like->dims[k];
  r.dims[0] = n;
  uint8_t *b = arena_alloc(a, r.bytes + 16);
  for (uint32_t i = 0; i < n; i++)
    if (like->bytes) memcpy(b + (reverse ? n - 1 - i : i) * like->bytes, slices[i].data, like->bytes);
  r.data = b;
  return r;
}
/* The trips, one by one; false: a node of the body is not allowed in one of them. Counts them. */
static bool all_trips(model *m, mnode *n, uint32_t states, stack *out, uint32_t *count) {
  const mscope *s = &m->scopes.v[n->body[0]];
  const bool loop = n->kind == NODE_LOOP;
  const uint32_t first = loop ? 2 : 0, skip = loop;
  int64_t trips =
      loop ? *(const int64_t *)m->values.v[n->in[0] - 1].at[0].data : m->values.v[n->in[states] - 1].at[0].dims[0];
  for (uint32_t i = 0; i < states; i++)
    memcpy(m->values.v[s->in.v[first + i] - 1].at, m->values.v[n->in[first + i] - 1].at, sizeof(ndarray[1 + VARIANTS]));
  for (*count = 0; *count < trips; ++*count) {
    begin_trip(m, n, *count, trips);
    if (!nodes_values(m, n->body[0])) return false;
    for (uint32_t i = states; i < n->nout; i++)
      for (int k = 0; k <= VARIANTS; k++) vec_push(mem(m), out[i].slices[k], m->values.v[s->out.v[skip + i] - 1].at[k]);
    ndarray next[OPINST_MAX][1 + VARIANTS]; /* all at once: a state may be what another one was */
    for (uint32_t i = 0; i < states; i++) memcpy(next[i], m->values.v[s->out.v[skip + i] - 1].at, sizeof next[i]);
    for (uint32_t i = 0; i < states; i++) memcpy(m->values.v[s->in.v[first + i] - 1].at, next[i], sizeof next[i]);
    if (loop && !*(const uint8_t *)m->values.v[s->out.v[0] - 1].at[0].data) return ++*count, true;
  }
  return true;
}
static bool loop_values(model *m, mnode *n, bool fresh) {
  const bool loop = n->kind == NODE_LOOP;
  const uint32_t first = loop ? 2 : 0, states = n->nin - n->scanned - first;
  stack *out = NEWN(mem(m), stack, n->nout + 1);
  uint32_t count;
  bool ok = all_trips(m, n, states, out, &count);
  for (uint32_t i = 0; ok && i < n->nout; i++) {
    mvalue v = m->values.v[m->scopes.v[n->body[0]].out.v[loop + i] - 1];
    if (i < states) {
      memcpy(v.at, m->values.v[m->scopes.v[n->body[0]].in.v[first + i] - 1].at, sizeof v.at);
    } else {
      sz *shape = NEWN(mem(m), sz, v.rank + 2);
      shape[0] = loop ? sym_fresh(m->c, "late", 0, 1000000) : sym_int(m->c, count);
      for (uint32_t k = 0; k < v.rank; k++) shape[k + 1] = v.shape[k];
      for (int k = 0; k <= VARIANTS; k++)
        v.at[k] = stacked(mem(m), out[i].slices[k].v, count, &v.at[k], back(n, 8 + i - states));
      v.rank++, v.shape = shape;
    }
    ok = give(m, n, i, &v, fresh);
  }
  return ok;
}
bool flow_values(model *m, mnode *n, bool fresh) {
  return n->kind == NODE_IF ? if_values(m, n, fresh) : loop_values(m, n, fresh);
}
void model_recount(model *m) {
  for (uint32_t i = 0; i < m->values.n; i++) m->values.v[i].uses = 0;
  for (uint32_t i = m->nodes.n; i-- > 0;) {
    mnode *n = &m->nodes.v[i];
    n->gone = n->dead || (n->scope && m->nodes.v[m->scopes.v[n->scope].node].gone);
    for (uint32_t k = 0; !n->gone && k < n->nin; k++)
      if (n->in[k]) m->values.v[n->in[k] - 1].uses++;
  }
  for (uint32_t s = 1; s < m->scopes.n; s++)
    for (uint32_t k = 0; !m->nodes.v[m->scopes.v[s].node].gone && k < m->scopes.v[s].out.n; k++)
      m->values.v[m->scopes.v[s].out.v[k] - 1].uses++;
}
