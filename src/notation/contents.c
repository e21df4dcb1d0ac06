/* contents: what is known about the elements of small tensors?
 *
 * Nothing is computed before somebody asks: a definition that wants the contents of a tensor as sizes, or whoever
 * lowers a graph, for results that are whole numbers. Then the stages that the tensor follows from are evaluated
 * (point.c), each once: what is found is kept in the module (emodule.contents), also that nothing is. So the work
 * for a model is in proportion to its stages, and the stack does not grow with the length of a chain of them.
 *
 * What was found holds as long as what was assumed when the call began that asked; a branch's facts are gone
 * behind it, and with them what was found there. Nothing is kept of stages of the call itself before all of them are
 * there, nor under a condition of the definition.
 */
#include "notation/elab.h"
#include <string.h>

typedef struct finding {
  const pval *v;         /* NULL: nothing is known */
  uint32_t mark, newest; /* mark and newest fact of what it rests on */
} finding;

void contents_frame(el *x) {
  x->frame = NEW(x->a, elframe);
  *x->frame = (elframe){.mark = sym_mark(x->c), .newest = sym_newest(x->c), .stages = x->m->stages.n};
}
void contents_whole(el *x) { x->frame->stages = UINT32_MAX; }

static bool small(el *x, const tensor *t, int64_t *count) {
  int64_t d;
  *count = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (!sym_is_int(x->c, sym_canon(x->c, t->shape[i]), &d) || d < 0 || d > POINT_PLACES) return false;
    *count *= d;
    if (*count > POINT_PLACES) return false;
  }
  return true;
}
/* ---- what was found -------------------------------------------------------------------------- */
static const finding *found(el *x, tid t) {
  uint64_t at;
  map *passing = x->frame->passing, *kept = x->m->contents;
  if (passing && map_getu(passing, t, &at)) return (const finding *)(uintptr_t)at;
  if (!kept || !map_getu(kept, t, &at)) return NULL;
  const finding *f = (const finding *)(uintptr_t)at;
  return sym_still(x->c, f->mark, f->newest) ? f : NULL;
}
static void keep(el *x, tid t, const pval *v) {
  elframe *k = x->frame;
  const tensor *q = xt(x->m, t);
  bool lasts = !k->conditions && (q->kind != TK_STAGE || q->stage < k->stages);
  map **to = lasts ? &x->m->contents : &k->passing;
  arena *a = lasts ? x->m->a : x->a;
  if (!*to) *to = map_new(a);
  finding *f = NEW(a, finding);
  *f = (finding){.v = v, .mark = k->mark, .newest = k->newest};
  map_putu(*to, t, (uint64_t)(uintptr_t)f);
}
static const pval *as_told(el *x, const tensor *t, known_values *k, int64_t n) {
  if (k->elements) return k->elements;
  pval *r = NEWN(x->a, pval, n ? (size_t)n : 1);
  for (int64_t i = 0; i < n; i++)
    if (!k->values)
      r[i] = (pval){.kind = PV_NUM, .f = k->floats[i]};
    else if (k->values[i])
      r[i] = point_size(x, t->type, sym_canon(x->c, k->values[i]));
  return k->elements = r;
}
const pval *contents_found(el *x, tid t, int64_t *count) {
  uint64_t told;
  const tensor *q = xt(x->m, t);
  if (!small(x, q, count)) return NULL;
  if (map_getu(x->known, t, &told)) return as_told(x, q, (known_values *)(uintptr_t)told, *count);
  const finding *f = found(x, t);
  return f ? f->v : NULL;
}
/* ---- finding it ------------------------------------------------------------------------------ */
static const pval *from_bytes(el *x, const ndarray *nd, int64_t n) {
  pval *r = NEWN(x->m->a, pval, n ? (size_t)n : 1);
  uint32_t w = et_bytes(nd->type);
  for (int64_t i = 0; i < n; i++) {
    scalar k = et_load(nd->type, (const char *)nd->data + (size_t)i * w);
    r[i] = nd->type == ET_BOOL            ? (pval){.kind = PV_BOOL, .b = k.i != 0}
           : et_kind(nd->type) == K_FLOAT ? (pval){.kind = PV_NUM, .f = k.f}
                                          : (pval){.kind = PV_INT, .s = sym_int(x->c, k.i)};
  }
  return r;
}
/* The stage that may tell the tensor's contents; NULL: there is none. */
static const stage *teller(el *x, tid t) {
  const tensor *q = xt(x->m, t);
  const stage *s = q->kind == TK_STAGE ? xs(x->m, q->stage) : NULL;
  return s && s->tensor == t && !s->recurrence && (s->value || s->updates.n) && q->rank <= MAX_RANK ? s : NULL;
}
static const pval *find_now(el *x, tid t, int64_t n) {
  const tensor *q = xt(x->m, t);
  if (q->kind == TK_CONST && q->data.data && et_bytes(q->type)) return from_bytes(x, &q->data, n);
  const stage *s = teller(x, t);
  if (!s) return NULL;
  pval *r = NEWN(x->m->a, pval, n ? (size_t)n : 1);
  point_stage(x, s, r, n);
  for (int64_t i = 0; i < n; i++)
    if (r[i].kind != PV_UNKNOWN) return r;
  return NULL;
}
static void reads_of_size(el *x, sz s, u32vec *loads) {
  u32vec data = {0};
  if (!sym_uses_kind(x->c, s, AT_DATA)) return;
  sym_atoms(x->c, s, AT_DATA, x->a, &data);
  for (uint32_t i = 0; i < data.n; i++) expr_loads(x->m, sym_data_id(x->c, data.v[i]), x->a, loads);
}
static void reads_of(el *x, const stage *s, u32vec *loads) {
  if (s->value) expr_loads(x->m, s->value, x->a, loads);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    expr_loads(x->m, u->value, x->a, loads);
    if (u->cond) expr_loads(x->m, u->cond, x->a, loads);
    for (uint32_t k = 0; k < u->nidx; k++) reads_of_size(x, u->idx[k], loads);
  }
}
static bool settled(el *x, tid t) {
  int64_t n;
  return map_getu(x->known, t, NULL) || !small(x, xt(x->m, t), &n) || found(x, t);
}
/* What a stage reads goes before it: `todo` is a stack of tensors; one comes up a second time when all of that is
 * settled. */
static void settle(el *x, u32vec *todo) {
  map *opened = map_new(x->a);
  int64_t n;
  while (todo->n) {
    tid t = todo->v[todo->n - 1];
    if (settled(x, t)) {
      todo->n--;
      continue;
    }
    if (map_getu(opened, t, NULL)) {
      todo->n--;
      small(x, xt(x->m, t), &n);
      keep(x, t, find_now(x, t, n));
      continue;
    }
    map_putu(opened, t, 1);
    u32vec loads = {0};
    const stage *s = teller(x, t);
    if (s) reads_of(x, s, &loads);
    for (uint32_t i = 0; i < loads.n; i++) {
      tid q = exn(x->m, loads.v[i])->tensor;
      if (EK_PLANTED("notation-settled")) continue;
      if (!map_getu(opened, q, NULL) && !settled(x, q)) vec_push(x->a, *todo, q);
    }
  }
}
void contents_settle_tensor(el *x, tid t) {
  u32vec todo = {0};
  x->frame->passing = NULL;
  vec_push(x->a, todo, t);
  settle(x, &todo);
}
void contents_settle(el *x, ex e) {
  u32vec todo = {0}, loads = {0};
  x->frame->passing = NULL;
  expr_loads(x->m, e, x->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) vec_push(x->a, todo, exn(x->m, loads.v[i])->tensor);
  settle(x, &todo);
}
