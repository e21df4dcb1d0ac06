/* A module that runs without code: the evaluator behind the same calls as compiled functions. plan finds the sizes
 * by symbolic arithmetic, run interprets the definitions and copies the results out.
 * One at a time: the evaluator works in the module's context. */
#include "eval/eval.h"
#include "driver/driver.h"
#include <string.h>

typedef struct sizes {
  ek_module *m; /* the module */
  map *known;   /* symbol -> value */
} sizes;
static bool symbol(void *env, atom a, int64_t *v) {
  sizes *s = env;
  emodule *m = s->m->p->m;
  uint64_t got;
  sz def;
  if (sym_kind(m->c, a) != AT_SYMBOL) return false;
  if (map_getu(s->known, a, &got)) {
    *v = (int64_t)got;
    return true;
  }
  return sym_definition(m->c, a, &def) && sym_eval(m->c, def, symbol, s, v);
}
typedef struct bounds {
  emodule *m; /* the module */
  sz as;      /* what has no bound is at most this */
} bounds;
static bool late_between(void *env, atom a, sz *lo, sz *hi) {
  const bounds *k = env;
  emodule *m = k->m;
  for (uint32_t i = 0; i < m->lates.n; i++)
    if (m->lates.v[i].symbol == a) {
      int64_t least, most;
      sym_range(m->c, m->lates.v[i].bound, &least, &most);
      *hi = least >= EXPR_NO_BOUND ? k->as : m->lates.v[i].bound;
      sym_range(m->c, sym_of_atom(m->c, a), &least, &most);
      *lo = sym_int(m->c, least);
      return true;
    }
  return false;
}
static void bind_symbols(sizes *s, const int64_t *dims) {
  emodule *m = s->m->p->m;
  uint32_t at = 0;
  for (uint32_t i = 0; i < m->inputs.n - m->states.n; i++) {
    const tensor *t = xt(m, m->inputs.v[i].t);
    for (uint32_t d = 0; d < t->rank; d++, at++) {
      atom a;
      uint64_t have;
      if (sym_is_atom(m->c, t->shape[d], &a) && sym_kind(m->c, a) == AT_SYMBOL && !map_getu(s->known, a, &have))
        map_putu(s->known, a, (uint64_t)dims[at]);
    }
  }
  at = 0;
  for (uint32_t i = 0; i < m->inputs.n - m->states.n; i++) {
    const tensor *t = xt(m, m->inputs.v[i].t);
    for (uint32_t d = 0; d < t->rank; d++, at++) {
      int64_t v;
      if (sym_eval(m->c, t->shape[d], symbol, s, &v) && v != dims[at])
        ctx_fail(m->c, E_SHAPE, "input %s: dimension %u must be %s", m->inputs.v[i].name, d,
                 sym_str(m->c, t->shape[d]));
    }
  }
}
static void plan(ek_module *m, ek_rt_call *call) {
  ctx *c = m->c;
  emodule *e = m->p->m;
  sizes s = {m, map_new(ctx_arena(c))};
  bind_symbols(&s, call->in_dims);
  for (uint32_t i = 0; i < e->guards.n; i++) {
    const guard *g = &e->guards.v[i];
    int64_t v;
    if (!g->block && sym_eval(c, g->ge0, symbol, &s, &v) && (g->is_eq ? v != 0 : v < 0))
      ctx_fail(c, E_SHAPE, "%s%s%s", g->node ? g->node : "", g->node ? ": " : "", g->text);
  }
  uint32_t at = 0;
  const uint32_t plain = e->outputs.n - e->states.n;
  for (uint32_t i = 0; i < e->outputs.n; i++) {
    const tensor *t = xt(e, i < plain ? e->outputs.v[i].t : expr_state_in(e, i - plain));
    for (uint32_t d = 0; d < t->rank; d++, at++) {
      sz least, most, any = sym_fresh(c, "unbounded", EXPR_NO_BOUND, 2 * EXPR_NO_BOUND);
      atom a;
      sym_between(c, t->shape[d], late_between, &(bounds){e, any}, &least, &most);
      if (sym_is_atom(c, any, &a) && sym_uses(c, most, a))
        call->out_dims[at] = 0; /* nothing bounds it: room is made when it is known */
      else if (!sym_eval(c, most, symbol, &s, &call->out_dims[at]))
        ctx_fail(c, E_SHAPE, "output %s: dimension %u (%s) has no value for these sizes", e->outputs.v[i].name, d,
                 sym_str(c, t->shape[d]));
    }
  }
  call->arena_bytes = 0;
}
/* Runs the model by the evaluator; false: the outputs need more room. */
static bool interpret(ek_module *m, ek_rt_call *call, const int64_t *room, arena *a) {
  ctx *c = m->c;
  emodule *e = m->p->m;
  evaluation *v = expr_eval_new(e, a, (uint32_t)call->threads);
  expr_eval_lean(v);
  bool enough = true;
  uint32_t at = 0;
  const uint32_t plain_in = e->inputs.n - e->states.n, plain = e->outputs.n - e->states.n;
  const int64_t *state_dims = call->out_dims; /* plan put them there, or the last run */
  for (uint32_t i = 0; i < plain; i++) state_dims += xt(e, e->outputs.v[i].t)->rank;
  for (uint32_t i = 0; i < e->inputs.n; i++) {
    const tensor *t = xt(e, e->inputs.v[i].t);
    ndarray d = {.type = t->type, .rank = t->rank, .data = call->in[i]};
    int64_t n;
    for (uint32_t k = 0; k < t->rank; k++) d.dims[k] = i < plain_in ? call->in_dims[at++] : *state_dims++;
    if (!nd_count(&d, &n)) ctx_fail(c, E_MEMORY, "input %s: its size overflows", e->inputs.v[i].name);
    d.bytes = (size_t)n * et_bytes(t->type);
    expr_eval_input(v, e->inputs.v[i].t, &d);
  }
  expr_eval_checks(v);
  at = 0;
  for (uint32_t i = 0; i < e->outputs.n; i++) {
    const ndarray *r = expr_eval_get(v, e->outputs.v[i].t);
    int64_t n;
    if (!nd_count(r, &n)) ctx_fail(c, E_MEMORY, "output %s: its size overflows", e->outputs.v[i].name);
    size_t bytes = (size_t)n * et_bytes(r->type);
    for (uint32_t k = 0; k < r->rank; k++) {
      if (i >= plain && call->out_dims[at] != r->dims[k])
        ctx_fail(c, E_SHAPE, "state '%s': axis %u of its new value has size %lld, not %lld",
                 e->inputs.v[plain_in + i - plain].name, k, (long long)r->dims[k], (long long)call->out_dims[at]);
      call->out_dims[at++] = r->dims[k];
    }
    if ((int64_t)bytes > room[i])
      enough = false;
    else
      memcpy(call->out[i], r->data, bytes);
  }
  return enough;
}
static ek_code report(ek_module *m, uint32_t mark, text *why) {
  ek_code code = EK_FAILED;
  text_set(why, "out of memory");
  uint32_t i = 0;
  for (const diag *d = diag_first(m->c); d; d = d->next, i++) {
    if (i < mark || d->level != D_ERROR) continue;
    text_set(why, d->node && d->node[0] ? d->node : "");
    if (why->n) text_put(why, ": ", 2);
    text_put(why, d->text, strlen(d->text));
    code = (ek_code)d->code;
    break;
  }
  diag_reset(m->c, mark);
  return code;
}
ek_code eval_plan(ek_module *m, ek_rt_call *call, text *why) {
  volatile bool good = false;
  pthread_mutex_lock(&m->lock);
  uint32_t mark = diag_mark(m->c);
  CTX_TRY(m->c) {
    plan(m, call);
    good = true;
  }
  CTX_CATCH {}
  ek_code code = good ? EK_OK : report(m, mark, why);
  pthread_mutex_unlock(&m->lock);
  return code;
}
static bool run_in(ek_module *m, ek_rt_call *call, const int64_t *room, arena *a, bool *enough) {
  volatile bool good = false, fits = false;
  CTX_TRY(m->c) {
    fits = interpret(m, call, room, a);
    good = true;
  }
  CTX_CATCH{} *enough = fits;
  return good;
}
static arena *new_arena(ctx *c) {
  arena *volatile a = NULL;
  CTX_TRY(c) { a = arena_new(c); }
  CTX_CATCH {}
  return a;
}
int eval_run(ek_module *m, ek_rt_call *call, const int64_t *room, text *why) {
  pthread_mutex_lock(&m->lock);
  uint32_t mark = diag_mark(m->c);
  arena *a = new_arena(m->c);
  bool enough = true;
  int code = a && run_in(m, call, room, a, &enough) ? EK_OK : (int)report(m, mark, why);
  if (!code && !enough) code = EK_RT_ROOM;
  if (a) arena_free(a);
  pthread_mutex_unlock(&m->lock);
  return code;
}
