/* What is the smallest model that still fails?
 *
 * First nodes are taken out, many at a time, then one by one: what others read of such a node becomes an input with the
 * contents that the node gave, so that everything behind it computes what it did before. Then what is left is made
 * simpler in steps, each of which is kept where the model is still one, and still fails: open sizes become numbers,
 * sizes smaller, types f32 and i64, attributes and optional inputs are left out, contents become zeros, ones or round
 * numbers. After each step the nodes are elaborated and evaluated anew; where If, Loop or Scan is left, this second
 * part is not tried. In the end nodes are taken out again. */
#include "random_models.h"
#include <math.h>
#include <string.h>

enum { SECONDS = 120 };
typedef struct shrinking {
  model *m;
  bool (*fails)(void *env, model *m);
  void *env;
  double end; /* no step begins after it */
} shrinking;

/* Takes out n of the living nodes from the one at place `from` on; true: the rest still fails. */
static bool without(shrinking *s, uint32_t from, uint32_t n) {
  model *m = s->m;
  u32vec out = {0};
  uint32_t at = 0, left = 0;
  bool inside = false; /* a body changes */
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    if (m->nodes.v[i].gone) continue;
    if (at >= from && at < from + n)
      vec_push(ctx_arena(m->c), out, i), inside |= m->nodes.v[i].scope != 0;
    else
      left++;
    at++;
  }
  for (uint32_t i = 0; i < out.n; i++) m->nodes.v[out.v[i]].dead = true;
  model_recount(m);
  if (left && out.n && (!inside || nodes_values(m, 0)) && s->fails(s->env, m)) return true;
  for (uint32_t i = 0; i < out.n; i++) m->nodes.v[out.v[i]].dead = false;
  model_recount(m);
  if (inside) nodes_values(m, 0);
  return false;
}
static uint32_t living(const model *m) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->nodes.n; i++) n += !m->nodes.v[i].gone;
  return n;
}
static void fewer_nodes(shrinking *s) {
  model *m = s->m;
  for (uint32_t n = (living(m) + 1) / 2; n; n /= 2) {
    bool any = false;
    for (uint32_t from = 0; from < living(m);) {
      if (without(s, from, n))
        any = true;
      else
        from += n;
    }
    if (any && n == 1) n = 2; /* one by one, until nothing goes */
  }
}
static void closed(shrinking *s) {
  model *m = s->m;
  for (uint32_t i = 0; i < m->values.n; i++) {
    if (!m->values.v[i].open) continue;
    m->values.v[i].open = false;
    if (!s->fails(s->env, m)) m->values.v[i].open = true;
  }
}

/* ---- steps that change nodes: tried, and taken back ------------------------------------------ */
typedef struct step {
  enum { SIZE, SIZE_AND_NUMBERS, AXIS, ATTRIBUTE, INPUT, TYPE, CONTENTS } kind;
  uint32_t which;   /* AXIS, CONTENTS: value, from 1; ATTRIBUTE, INPUT: node */
  uint32_t nth;     /* AXIS: axis; ATTRIBUTE, INPUT: which of the node; CONTENTS: 0, 1 or 2 (round) */
  int64_t from, to; /* SIZE, AXIS: sizes; TYPE: element types */
} step;
static bool given(const model *m, uint32_t v) { /* an input or constant that something reads */
  const mvalue *x = &m->values.v[v - 1];
  return model_input(m, v) || (x->made == MADE_CONST && x->uses);
}
/* The first elements along an axis; where it grows, they are repeated. */
static ndarray resized(arena *a, const ndarray *d, uint32_t axis, int64_t size) {
  ndarray r = *d;
  size_t row = et_bytes(d->type), outer = 1;
  for (uint32_t i = 0; i < d->rank; i++)
    if (i < axis)
      outer *= (size_t)d->dims[i];
    else if (i > axis)
      row *= (size_t)d->dims[i];
  const size_t had = (size_t)d->dims[axis], n = (size_t)size;
  r.dims[axis] = size, r.bytes = outer * n * row;
  uint8_t *to = arena_alloc(a, r.bytes + 16);
  for (size_t o = 0; o < outer; o++)
    for (size_t i = 0; i < n; i++)
      memcpy(to + (o * n + i) * row, (const uint8_t *)d->data + (o * had + i % had) * row, row);
  r.data = to;
  return r;
}
static ndarray converted(arena *a, const ndarray *d, etype t) {
  ndarray r = *d;
  int64_t n = 0;
  nd_count(d, &n);
  r.type = t, r.bytes = (size_t)n * et_bytes(t);
  uint8_t *to = arena_alloc(a, r.bytes + 16);
  for (int64_t i = 0; i < n; i++)
    et_store(t, to + i * et_bytes(t), et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)));
  r.data = to;
  return r;
}
static ndarray simpler(arena *a, const ndarray *d, uint32_t how) {
  ndarray r = *d;
  int64_t n = 0;
  nd_count(d, &n);
  uint8_t *to = arena_dup(a, d->data, d->bytes + 16);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *p = to + i * et_bytes(d->type);
    scalar x = et_load(d->type, p);
    if (et_kind(d->type) == K_FLOAT)
      x.f = how < 2 ? how : nearbyint(x.f * 4) / 4;
    else
      x.i = how < 2 ? how : x.i;
    et_store(d->type, p, x);
  }
  r.data = to;
  return r;
}
/* Sizes in the numbers that a call is given: integer attributes, and inputs that shapes hang on. */
static void renumber(arena *a, opinst *o, int64_t from, int64_t to) {
  for (uint32_t i = 0; i < o->nattr; i++) {
    sattr *s = &o->attr[i];
    if (s->kind == SK_INT && s->i == from) s->i = to;
    if (s->kind != SK_INTS) continue;
    int64_t *v = arena_dup(a, s->ints, (s->n + 1) * sizeof *v);
    for (uint32_t k = 0; k < s->n; k++)
      if (v[k] == from) v[k] = to;
    s->ints = v;
  }
  for (uint32_t i = 0; i < o->nin; i++) {
    arg *x = &o->in[i];
    ndarray *d = &o->data[i];
    int64_t n = 0;
    if (!x->present || !x->values || xt(o->m, x->t)->kind != TK_CONST || !nd_count(d, &n)) continue;
    sz *values = arena_dup(a, x->values, (size_t)(n + 1) * sizeof *values);
    d->data = arena_dup(a, d->data, d->bytes + 16);
    for (int64_t k = 0; k < n; k++) {
      uint8_t *p = (uint8_t *)(uintptr_t)d->data + k * et_bytes(d->type);
      if (et_load(d->type, p).i != from) continue;
      et_store(d->type, p, (scalar){.i = to});
      values[k] = sym_int(o->m->c, to);
    }
    x->values = values;
  }
}
static opinst *own_call(model *m, mnode *n) { return n->i = arena_dup(ctx_arena(m->c), n->i, sizeof *n->i); }
static void resize_all(model *m, const step *t) {
  arena *a = ctx_arena(m->c);
  for (uint32_t v = 1; v <= m->values.n; v++)
    for (uint32_t i = 0; given(m, v) && i < axes(&m->values.v[v - 1]); i++) {
      const mvalue *x = &m->values.v[v - 1];
      if (x->at[0].dims[i] != t->from) continue;
      const ndarray d = resized(a, &x->at[0], i, t->to);
      value_becomes(m, v, x->type, &d);
    }
  for (uint32_t i = 0; t->kind == SIZE_AND_NUMBERS && i < m->nodes.n; i++)
    if (!m->nodes.v[i].gone) renumber(a, own_call(m, &m->nodes.v[i]), t->from, t->to);
}
static void change(model *m, const step *t) {
  arena *a = ctx_arena(m->c);
  if (t->kind == SIZE || t->kind == SIZE_AND_NUMBERS) resize_all(m, t);
  if (t->kind == AXIS || t->kind == CONTENTS) {
    const mvalue *x = &m->values.v[t->which - 1];
    const ndarray d = t->kind == AXIS ? resized(a, &x->at[0], t->nth, t->to) : simpler(a, &x->at[0], t->nth);
    value_becomes(m, t->which, x->type, &d);
  }
  if (t->kind == ATTRIBUTE) {
    opinst *o = own_call(m, &m->nodes.v[t->which]);
    for (uint32_t i = t->nth; i + 1 < o->nattr; i++) o->attr[i] = o->attr[i + 1];
    o->nattr--;
  }
  if (t->kind == INPUT) {
    mnode *n = &m->nodes.v[t->which];
    own_call(m, n)->in[t->nth] = (arg){0};
    n->in[t->nth] = 0;
  }
  for (uint32_t v = 1; t->kind == TYPE && v <= m->values.n; v++) {
    if (!given(m, v) || m->values.v[v - 1].type != (etype)t->from) continue;
    const ndarray d = converted(a, &m->values.v[v - 1].at[0], (etype)t->to);
    value_becomes(m, v, (etype)t->to, &d);
  }
}
/* The step is kept where what comes of it is a model that fails. */
static bool keep(shrinking *s, step t) {
  model *m = s->m;
  arena *a = ctx_arena(m->c);
  if (now_ms() > s->end) return false;
  mvalue *values = arena_dup(a, m->values.v, m->values.n * sizeof *values);
  mnode *nodes = arena_dup(a, m->nodes.v, m->nodes.n * sizeof *nodes);
  change(m, &t);
  model_recount(m);
  bool ok = true;
  for (uint32_t i = 0; ok && i < m->nodes.n; i++)
    if (!m->nodes.v[i].gone) ok = node_anew(m, &m->nodes.v[i]);
  if (ok && s->fails(s->env, m)) return true;
  memcpy(m->values.v, values, m->values.n * sizeof *values);
  memcpy(m->nodes.v, nodes, m->nodes.n * sizeof *nodes);
  return false;
}
static int64_t largest_size(const model *m, int64_t below) { /* of the inputs; 1: none */
  int64_t best = 1;
  for (uint32_t v = 1; v <= m->values.n; v++)
    for (uint32_t i = 0; given(m, v) && i < axes(&m->values.v[v - 1]); i++) {
      const int64_t n = m->values.v[v - 1].at[0].dims[i];
      if (n < below && n > best) best = n;
    }
  return best;
}
static bool smaller_sizes(shrinking *s) {
  model *m = s->m;
  bool any = false;
  for (int64_t n = largest_size(m, INT64_MAX); n > 1; n = largest_size(m, n)) {
    const int64_t to[] = {1, n / 2, n - 1};
    for (int i = 0; i < 3; i++) {
      if (i && to[i] <= to[i - 1]) continue;
      if (keep(s, (step){.kind = SIZE, .from = n, .to = to[i]}) ||
          keep(s, (step){.kind = SIZE_AND_NUMBERS, .from = n, .to = to[i]})) {
        any = true;
        break;
      }
    }
  }
  for (uint32_t v = 1; v <= m->values.n; v++)
    for (uint32_t i = 0; given(m, v) && i < axes(&m->values.v[v - 1]); i++) {
      const int64_t n = m->values.v[v - 1].at[0].dims[i];
      any |= n > 1 && (keep(s, (step){.kind = AXIS, .which = v, .nth = i, .from = n, .to = 1}) ||
                       (n > 2 && keep(s, (step){.kind = AXIS, .which = v, .nth = i, .from = n, .to = n - 1})));
    }
  return any;
}
static bool simpler_calls(shrinking *s) {
  model *m = s->m;
  bool any = false;
  for (uint32_t i = 0; i < m->nodes.n; i++) {
    const mnode *n = &m->nodes.v[i];
    if (n->gone) continue;
    for (uint32_t k = n->i->nattr; k-- > 0;) any |= keep(s, (step){.kind = ATTRIBUTE, .which = i, .nth = k});
    for (uint32_t k = n->i->nin; k-- > 0;)
      any |= n->i->in[k].present && keep(s, (step){.kind = INPUT, .which = i, .nth = k});
  }
  return any;
}
static bool simpler_types(shrinking *s) {
  bool any = false;
  for (int t = 1; t < ET_COUNT; t++) {
    const ekind k = et_kind((etype)t);
    const etype to = k == K_FLOAT ? ET_F32 : k == K_INT || k == K_UINT ? ET_I64 : (etype)t;
    bool used = false;
    for (uint32_t v = 1; v <= s->m->values.n; v++) used |= given(s->m, v) && s->m->values.v[v - 1].type == (etype)t;
    any |= used && to != (etype)t && keep(s, (step){.kind = TYPE, .from = t, .to = to});
  }
  return any;
}
static bool plain(const ndarray *d) { /* all zeros, or all ones */
  int64_t n = 0;
  bool same = true;
  nd_count(d, &n);
  for (int64_t i = 1; i < n; i++)
    same &= !memcmp(d->data, (const uint8_t *)d->data + i * et_bytes(d->type), et_bytes(d->type));
  return same;
}
static void simpler_contents(shrinking *s) {
  for (uint32_t v = 1; v <= s->m->values.n; v++) {
    const mvalue *x = &s->m->values.v[v - 1];
    if (x->type == ET_STR || !given(s->m, v) || plain(&x->at[0])) continue;
    for (uint32_t how = 0; how < 3; how++)
      if (keep(s, (step){.kind = CONTENTS, .which = v, .nth = how})) break;
  }
}
void model_shrink(model *m, bool (*fails)(void *env, model *m), void *env) {
  shrinking s = {.m = m, .fails = fails, .env = env};
  fewer_nodes(&s);
  closed(&s);
  for (uint32_t i = 0; i < m->nodes.n; i++)
    if (!m->nodes.v[i].gone && m->nodes.v[i].kind != NODE_CALL) return;
  s.end = now_ms() + 1e3 * SECONDS;
  for (bool any = true; any;) any = smaller_sizes(&s) | simpler_calls(&s) | simpler_types(&s);
  simpler_contents(&s);
  fewer_nodes(&s);
}
