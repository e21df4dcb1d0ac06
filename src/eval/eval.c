/* What is the value of a tensor, by the semantics of expr.h alone?
 *
 * Tensors are computed on demand and once: need_tensor finds the stage, `if` or loop that makes one, needs what that
 * reads, and runs it. A stage is planned for the sizes at hand and its points are enumerated in row-major order, a
 * strip of 256 at a time; large stages share their strips among threads. Updates run sequentially after the value. The
 * stages of a recurrence run together, a step at a time. Symbols get their values from the inputs' shapes, from late
 * tensors, from loop counters and from the shapes of values that enter a loop's body.
 *
 * This file knows nothing of passes or schedules, on purpose: it is what they are compared with.
 */
#include "eval/eval_in.h"
#include <string.h>

enum { PARALLEL_WORK = 1 << 20 };

typedef struct binding {
  atom symbol;   /* the symbol */
  int64_t value; /* its value */
} binding;
typedef struct room { /* memory that a tensor has left */
  void *p;            /* first byte */
  size_t bytes;       /* how much */
} room;
typedef struct state { /* what eval.h need not know */
  evaluation pub;      /* what eval.h gives out */
  VEC(binding) bound;  /* values of symbols, in the order of binding; loops cut it back to a mark */
  uint8_t *if_done;    /* per branch: it ran */
  uint8_t *loop_done;  /* per loop: it ran */
  u32vec inputs;       /* the inputs, in the model's order */
  tid wanted;          /* lies in keep; 0: none */
  arena *keep;         /* arena of `wanted` */
  uint32_t *readers;   /* of each tensor the stages that have still to read it; NULL: nothing leaves memory */
  VEC(room) left;      /* memory that is free again */
} state;
enum { KEPT = UINT32_MAX /* readers of a tensor that stays */, LEAST_LEFT = 1 << 16 /* bytes worth giving back */ };

static void run_stage(evaluation *v, uint32_t s);
static void run_if(evaluation *v, uint32_t i);
static void run_loop(evaluation *v, uint32_t i);

rt *rt_new(evaluation *v, tid t) {
  const tensor *x = xt(v->m, t);
  rt *r = v->t[t] = NEW(v->a, rt);
  if (x->kind == TK_CONST && x->data.data) r->nd = x->data, r->done = true;
  return r;
}
evaluation *expr_eval_new(emodule *m, arena *a, uint32_t threads) {
  state *st = NEW(a, state);
  evaluation *v = &st->pub;
  *v = (evaluation){.m = m, .c = m->c, .a = a, .threads = threads ? threads : 1, .from = map_new(a)};
  v->t = NEWN(a, rt *, m->tensors.n);
  st->if_done = NEWN(a, uint8_t, m->ifs.n + 1), st->loop_done = NEWN(a, uint8_t, m->loops.n + 1);
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t k = 0; k < m->ifs.v[i].n; k++) map_putu(v->from, m->ifs.v[i].results[k], 2 * i);
  for (uint32_t i = 0; i < m->loops.n; i++) {
    const xloop *l = &m->loops.v[i];
    for (uint32_t k = 0; k < l->ncarried; k++)
      if (l->final[k]) map_putu(v->from, l->final[k], 2 * i + 1);
    for (uint32_t k = 0; k < l->ncollected; k++) map_putu(v->from, l->collected[k], 2 * i + 1);
  }
  return v;
}

void expr_eval_noise(evaluation *v, uint32_t seed, double f32, double f64) {
  v->noise = seed, v->noise_f32 = f32, v->noise_f64 = f64;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static void bind(evaluation *v, atom symbol, int64_t x) { vec_push(v->a, ((state *)v)->bound, ((binding){symbol, x})); }
void expr_eval_symbol(evaluation *v, atom symbol, int64_t value) { bind(v, symbol, value); }

static bool is_bound(evaluation *v, atom a, int64_t *x) {
  state *st = (state *)v;
  for (uint32_t i = st->bound.n; i-- > 0;)
    if (st->bound.v[i].symbol == a) {
      *x = st->bound.v[i].value;
      return true;
    }
  return false;
}
static bool size_known(evaluation *v, sz s, int64_t *x);
static void check_guard(evaluation *v, const guard *g);
/* The guards on a size say more than its range, which may come from them. */
static void check_late(evaluation *v, const late *l, int64_t x) {
  int64_t lo, hi, most;
  sym_range(v->c, sym_of_atom(v->c, l->symbol), &lo, &hi);
  bool bounded = size_known(v, l->bound, &most) && most < EXPR_NO_BOUND;
  if (bounded) hi = min64(hi, most);
  if (x >= lo && x <= hi) return;
  for (uint32_t i = 0; i < v->m->guards.n; i++)
    if (v->m->guards.v[i].block == 0 && sym_uses(v->c, v->m->guards.v[i].ge0, l->symbol))
      check_guard(v, &v->m->guards.v[i]);
  const char *name = sym_name(v->c, l->symbol);
  diag_error(v->c, E_SHAPE, xt(v->m, l->tensor)->origin,
             "the size %s, found at run time, is %lld, not in %lld..%lld: give other data%s%s%s", name, (long long)x,
             (long long)lo, (long long)hi, bounded ? ", or compile for more by --dim " : "", bounded ? name : "",
             bounded ? "=N" : "");
  ctx_unwind(v->c);
}
bool symbol_value(evaluation *v, atom a, int64_t *x) {
  if (is_bound(v, a, x)) return true;
  for (uint32_t i = 0; i < v->m->lates.n; i++) {
    late l = v->m->lates.v[i];
    if (l.symbol != a) continue;
    need_tensor(v, l.tensor);
    const ndarray *nd = &rt_of(v, l.tensor)->nd;
    *x = et_load(nd->type, nd->data).i;
    bind(v, a, *x);
    check_late(v, &l, *x);
    return true;
  }
  return false;
}
static bool atom_value(void *env, atom a, int64_t *x) {
  evaluation *v = env;
  sz def;
  if (sym_kind(v->c, a) != AT_SYMBOL) return false;
  if (symbol_value(v, a, x)) return true;
  return sym_definition(v->c, a, &def) && sym_eval(v->c, def, atom_value, v, x);
}
static bool size_known(evaluation *v, sz s, int64_t *x) { return sym_eval(v->c, s, atom_value, v, x); }
static int64_t size_int(evaluation *v, sz s, const char *what, const char *name, const char *origin) {
  int64_t x;
  if (size_known(v, s, &x)) return x;
  diag_error(v->c, E_SHAPE, origin, "%s of %s, %s, cannot be computed: a size in it is not determined by the inputs",
             what, name, sym_str(v->c, s));
  ctx_unwind(v->c);
}
/* Compares a tensor's dimensions with its declared shape; symbols that stand alone and have no value get theirs. */
static void bind_shape(evaluation *v, tid t, const ndarray *nd) {
  const tensor *x = xt(v->m, t);
  if (nd->type != x->type || nd->rank != x->rank)
    ctx_fail(v->c, E_SHAPE, "%s is %s of rank %u; expected %s of rank %u", x->name, et_name(nd->type), nd->rank,
             et_name(x->type), x->rank);
  for (uint32_t i = 0; i < x->rank; i++) {
    atom a;
    int64_t have = nd->dims[i], want, lo, hi;
    if (sym_is_atom(v->c, x->shape[i], &a) && sym_kind(v->c, a) == AT_SYMBOL && !is_bound(v, a, &want)) {
      bool late_one = false;
      for (uint32_t k = 0; k < v->m->lates.n; k++) late_one |= v->m->lates.v[k].symbol == a;
      if (late_one) continue;
      sym_range(v->c, x->shape[i], &lo, &hi);
      if (have < lo || have > hi)
        ctx_fail(v->c, E_SHAPE, "%s: axis %u has size %lld; %s must lie in %lld..%lld", x->name, i, (long long)have,
                 sym_name(v->c, a), (long long)lo, (long long)hi);
      bind(v, a, have);
    }
  }
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t want;
    if (size_known(v, x->shape[i], &want) && want != nd->dims[i])
      ctx_fail(v->c, E_SHAPE, "%s: axis %u has size %lld; expected %s = %lld", x->name, i, (long long)nd->dims[i],
               sym_str(v->c, x->shape[i]), (long long)want);
  }
}
void expr_eval_input(evaluation *v, tid t, const ndarray *data) {
  const tensor *x = xt(v->m, t);
  if (x->kind != TK_INPUT) ctx_fail(v->c, E_USAGE, "%s is not an input", x->name);
  rt *r = rt_of(v, t);
  r->nd = *data, r->done = true;
  bind_shape(v, t, data);
  vec_push(v->a, ((state *)v)->inputs, t);
}

/* ---- tensors --------------------------------------------------------------------------------- */
/* The smallest free memory of so many bytes, none of it wasted by half; NULL: there is none. */
static void *room_left(state *st, size_t *bytes) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < st->left.n; i++)
    if (st->left.v[i].bytes >= *bytes && st->left.v[i].bytes / 2 <= *bytes &&
        (best == UINT32_MAX || st->left.v[i].bytes < st->left.v[best].bytes))
      best = i;
  if (best == UINT32_MAX) return NULL;
  const room r = st->left.v[best];
  st->left.v[best] = st->left.v[--st->left.n];
  *bytes = r.bytes;
  return memset(r.p, 0, r.bytes);
}
/* Room for a tensor of the declared shape; memory of an earlier round (in a loop) is used again. */
static void make_room(evaluation *v, tid t, bool clear) {
  const tensor *x = xt(v->m, t);
  rt *r = rt_of(v, t);
  ndarray nd = {.type = x->type, .rank = x->rank, .data = r->nd.data};
  for (uint32_t i = 0; i < x->rank; i++) {
    nd.dims[i] = size_int(v, x->shape[i], "an axis", x->name, x->origin);
    if (nd.dims[i] < 0)
      ctx_fail(v->c, E_SHAPE, "%s: axis %u has the negative size %lld", x->name, i, (long long)nd.dims[i]);
  }
  int64_t n;
  size_t bytes;
  if (!nd_count(&nd, &n) || __builtin_mul_overflow((size_t)n, (size_t)et_bytes(x->type), &bytes))
    ctx_fail(v->c, E_SHAPE, "%s is too large", x->name);
  nd.bytes = bytes;
  if (bytes > r->cap || !nd.data) {
    state *st = (state *)v;
    r->cap = bytes;
    nd.data = t == st->wanted ? NULL : room_left(st, &r->cap);
    if (!nd.data) nd.data = arena_alloc(t == st->wanted ? st->keep : v->a, bytes + 8);
  } else if (clear)
    memset((void *)(uintptr_t)nd.data, 0, bytes);
  r->nd = nd;
}
void need_tensor(evaluation *v, tid t) {
  rt *r = rt_of(v, t);
  const tensor *x = xt(v->m, t);
  uint64_t from;
  if (r->done) return;
  if (x->kind == TK_INPUT) ctx_fail(v->c, E_USAGE, "input %s was not given", x->name);
  if (r->busy) ctx_bug(v->c, "evaluator: tensor %s depends on itself", x->name);
  r->busy = true;
  if (x->kind == TK_STAGE)
    run_stage(v, x->stage);
  else if (x->kind == TK_CONST && x->narrow.type) {
    uint8_t *to = arena_alloc(v->a, x->data.bytes);
    narrow_write(x->narrow.type, x->narrow.from.p, x->narrow.from.n, to);
    r->nd = x->data, r->nd.data = to, r->done = true;
  } else if (x->kind == TK_CONST)
    r->nd = *expr_data(v->m, t), r->done = true;
  else if (map_getu(v->from, t, &from)) {
    if (from & 1)
      run_loop(v, (uint32_t)(from / 2));
    else
      run_if(v, (uint32_t)(from / 2));
  } else
    ctx_bug(v->c, "evaluator: nothing computes tensor %s", x->name);
  r->busy = false;
}
const ndarray *expr_eval_get(evaluation *v, tid t) {
  need_tensor(v, t);
  return &rt_of(v, t)->nd;
}

/* ---- the points of a stage ------------------------------------------------------------------- */
/* A loop nest whose points go through strips: the digits of a stage's axes (without a recurrence's variable), or the
 * variables of an update. */
typedef struct nest {
  uint32_t n;      /* number of variables */
  int64_t *extent; /* number of values of each variable, outer to inner */
  int64_t *stride; /* elements of the tensor between two values, where variables are a stage's digits */
  int64_t points;  /* product of the extents */
  int64_t base;    /* offset of the first point, in elements */
} nest;
static void fill_strip(const nest *g, worker *w, int64_t from, uint32_t n) {
  int64_t d[256], p = from;
  for (uint32_t k = g->n; k-- > 0;) d[k] = p % g->extent[k], p /= g->extent[k];
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < g->n; k++) w->lane[k].i[i] = d[k];
    for (uint32_t k = g->n; k-- > 0;) {
      if (++d[k] < g->extent[k]) break;
      d[k] = 0;
    }
  }
  worker_strip(w, n);
}
static void count_points(evaluation *v, nest *g, const char *name) {
  g->points = 1;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->extent[k] < 0 || !mul64(g->points, g->extent[k], &g->points))
      ctx_fail(v->c, E_SHAPE, "stage %s: an axis has a negative size or there are too many points", name);
}
typedef struct up {
  plan p;          /* plan of the update */
  worker w;        /* its worker */
  nest g;          /* points of the update */
  uint32_t value;  /* node of the value */
  uint32_t cond;   /* node of the condition; 0: none */
  uint32_t *idx;   /* node of each index */
  const update *u; /* the update */
} up;
typedef struct job {
  evaluation *v;  /* the evaluation */
  const stage *s; /* the stage */
  plan p;         /* plan of the value */
  nest g;         /* points of the stage */
  uint32_t value; /* node of the value */
  bool has_t;     /* a recurrence's stage: slot 0 of the loops is the step */
  worker w;       /* worker of the value */
  up *ups;        /* the updates */
  uint32_t items; /* parallel pieces */
  arena **arenas; /* one per piece */
} job;

static void run_points(job *j, worker *w, int64_t from, int64_t to) {
  const ndarray *nd = &rt_of(j->v, j->s->tensor)->nd;
  void *out = (void *)(uintptr_t)nd->data;
  for (int64_t p = from; p < to; p += LANES) {
    uint32_t n = (uint32_t)min64(LANES, to - p);
    fill_strip(&j->g, w, p, n);
    const strip *r = worker_value(w, j->value, NULL, n);
    if (!j->has_t) {
      lanes_write(nd->type, out, p, r, n);
      continue;
    }
    uint32_t wd = et_bytes(nd->type);
    for (uint32_t i = 0; i < n; i++) {
      int64_t off = j->g.base;
      for (uint32_t k = 0; k < j->g.n; k++) off += w->lane[k].i[i] * j->g.stride[k];
      et_store(nd->type, (char *)out + off * wd, lanes_get(nd->type, r, i));
    }
  }
}
static void run_item(ctx *c, void *env, uint32_t i) {
  job *j = env;
  worker w;
  (void)c;
  int64_t strips = (j->g.points + LANES - 1) / LANES, from = strips * i / j->items * LANES,
          to = strips * (i + 1) / j->items * LANES;
  worker_init(&w, j->v, &j->p, j->arenas[i]);
  run_points(j, &w, from, min64(to, j->g.points));
}
/* Rough number of node evaluations a point takes: all loops of the plan multiplied where they nest is too precise;
 * the longest is enough. */
static double point_work(const plan *p) {
  double work = p->nodes.n;
  for (uint32_t i = 1; i < p->nodes.n; i++) {
    const pnode *n = &p->nodes.v[i];
    double trips = 1;
    for (uint32_t k = 0; n->kind == PN_REDUCE && k < n->nargs; k++) {
      const pnode *e = &p->nodes.v[n->args[k]];
      trips *= e->kind == PN_CONST ? (double)e->k.i : 16;
    }
    if (trips > 1) work += trips * 4;
  }
  return work;
}

static void run_update(job *j, up *u) {
  evaluation *v = j->v;
  const ndarray *nd = &rt_of(v, j->s->tensor)->nd;
  etype t = nd->type;
  uint32_t wd = et_bytes(t);
  for (int64_t p = 0; p < u->g.points; p += LANES) {
    uint32_t n = (uint32_t)min64(LANES, u->g.points - p);
    mask part;
    const mask *mk = NULL;
    const strip *idx[MAX_RANK];
    fill_strip(&u->g, &u->w, p, n);
    if (u->cond) {
      worker_mask(&u->w, &part, NULL, worker_value(&u->w, u->cond, NULL, n)->i);
      if (!part.count) continue;
      if (part.count < n) mk = &part;
    }
    for (uint32_t k = 0; k < nd->rank; k++) idx[k] = worker_value(&u->w, u->idx[k], mk, n);
    const strip *val = worker_value(&u->w, u->value, mk, n);
    for (uint32_t i = 0; i < n; i++) {
      if (mk && !mk->on[i]) continue;
      int64_t off = 0;
      for (uint32_t k = 0; k < nd->rank; k++) {
        int64_t x = idx[k]->i[i];
        if (x < 0 || x >= nd->dims[k])
          worker_fail(&u->w, i, "update writes index %lld of axis %u of %s, whose size is %lld", (long long)x, k,
                      xt(v->m, j->s->tensor)->name, (long long)nd->dims[k]);
        off = off * nd->dims[k] + x;
      }
      char *at = (char *)(uintptr_t)nd->data + off * wd;
      scalar x = lanes_get(t, val, i);
      if (u->u->op != OP_NONE) {
        strip a, b;
        lanes_put(t, &a, 0, et_load(t, at)), lanes_put(t, &b, 0, x);
        lanes_op(u->u->op, t, t, &a, &a, &b, NULL, 1);
        x = lanes_get(t, &a, 0);
      }
      et_store(t, at, x);
    }
  }
}

/* ---- one stage ------------------------------------------------------------------------------- */
static void need_loads(evaluation *v, uint32_t id, arena *a, uint32_t recurrence) {
  u32vec loads = {0};
  expr_stage_loads(v->m, id, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    tid t = exn(v->m, loads.v[i])->tensor;
    const tensor *x = xt(v->m, t);
    if (recurrence && x->kind == TK_STAGE && xs(v->m, x->stage)->recurrence == recurrence) continue;
    need_tensor(v, t);
  }
}
static void prepare(job *j, evaluation *v, uint32_t id, arena *a) {
  const stage *s = xs(v->m, id);
  const tensor *x = xt(v->m, s->tensor);
  const ndarray *nd = &rt_of(v, s->tensor)->nd;
  planner pl;
  *j = (job){.v = v, .s = s};
  atom t = s->recurrence ? v->m->recurrences.v[s->recurrence].var : 0;
  /* 1. the points: digits outer to inner, each with its stride in the tensor */
  plan_begin(&pl, v, a, &j->p, x->name, x->origin);
  if (t) plan_loop(&pl, t, 1);
  uint32_t nd_digits = 0;
  for (uint32_t i = 0; i < s->naxes; i++) nd_digits += s->axes[i].n;
  if (nd_digits > 256) ctx_fail(v->c, E_UNSUPPORTED, "stage %s has more than 256 index digits", x->name);
  j->g.extent = NEWN(a, int64_t, nd_digits + 1), j->g.stride = NEWN(a, int64_t, nd_digits + 1);
  int64_t stride = 1;
  for (uint32_t i = 0; i < s->naxes; i++) {
    int64_t size = 1;
    for (uint32_t k = 0; k < s->axes[i].n; k++) {
      const digit *d = &s->axes[i].d[k];
      int64_t e = size_int(v, d->extent, "the extent of an axis", x->name, x->origin);
      size *= e;
      if (d->var == t) {
        j->has_t = true;
        continue;
      }
      plan_lane(&pl, d->var, e);
      j->g.extent[j->g.n++] = e;
    }
    if (size != nd->dims[i])
      ctx_bug(v->c, "evaluator: stage %s: axis %u has %lld points, its tensor %lld", x->name, i, (long long)size,
              (long long)nd->dims[i]);
  }
  if (t && !j->has_t) ctx_bug(v->c, "evaluator: stage %s of a recurrence has no axis for its step", x->name);
  uint32_t at = j->g.n;
  for (uint32_t i = s->naxes; i-- > 0;)
    for (uint32_t k = s->axes[i].n; k-- > 0;) {
      const digit *d = &s->axes[i].d[k];
      if (d->var == t)
        j->g.base = stride; /* times the step */
      else
        j->g.stride[--at] = stride;
      stride *= size_int(v, d->extent, "the extent of an axis", x->name, x->origin);
    }
  count_points(v, &j->g, x->name);
  /* 2. the value, 3. the updates, each with points of its own */
  j->value = s->value ? plan_value(&pl, s->value) : 0;
  j->ups = NEWN(a, up, s->updates.n + 1);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    up *u = &j->ups[i];
    u->u = &s->updates.v[i];
    plan_begin(&pl, v, a, &u->p, x->name, x->origin);
    if (t) plan_loop(&pl, t, 1);
    u->g.n = u->u->nvars;
    if (u->g.n > 256 || u->u->nidx != nd->rank) ctx_bug(v->c, "evaluator: stage %s: malformed update", x->name);
    u->g.extent = NEWN(a, int64_t, u->g.n + 1);
    for (uint32_t k = 0; k < u->g.n; k++) {
      u->g.extent[k] = size_int(v, sym_extent(v->c, u->u->vars[k]), "the extent of an update", x->name, x->origin);
      plan_lane(&pl, u->u->vars[k], u->g.extent[k]);
    }
    count_points(v, &u->g, x->name);
    u->idx = NEWN(a, uint32_t, u->u->nidx + 1);
    for (uint32_t k = 0; k < u->u->nidx; k++) u->idx[k] = plan_size(&pl, u->u->idx[k]);
    u->value = plan_value(&pl, u->u->value);
    u->cond = u->u->cond ? plan_value(&pl, u->u->cond) : 0;
    worker_init(&u->w, v, &u->p, a);
  }
  worker_init(&j->w, v, &j->p, a);
}
static void run_alone(evaluation *v, uint32_t id, arena *a) {
  job j;
  need_loads(v, id, a, 0);
  make_room(v, xs(v->m, id)->tensor, !xs(v->m, id)->value);
  prepare(&j, v, id, a);
  if (j.value && j.g.points) {
    double work = point_work(&j.p) * (double)j.g.points;
    j.items = v->threads > 1 && work > PARALLEL_WORK && j.g.points > 2 * LANES
                  ? (uint32_t)min64((j.g.points + LANES - 1) / LANES, 4 * v->threads)
                  : 1;
    j.arenas = NEWN(a, arena *, j.items);
    for (uint32_t i = 0; i < j.items; i++) j.arenas[i] = j.items == 1 ? a : arena_new(v->c);
    if (j.items == 1)
      run_item(v->c, &j, 0);
    else
      par_for(v->c, v->threads, j.items, run_item, &j);
    for (uint32_t i = 0; i < j.items && j.items > 1; i++) arena_free(j.arenas[i]);
  }
  for (uint32_t i = 0; i < j.s->updates.n; i++) run_update(&j, &j.ups[i]);
}
static void run_recurrence(evaluation *v, uint32_t recurrence, arena *a) {
  emodule *m = v->m;
  u32vec group = {0};
  for (uint32_t b = 0; b < m->blocks.n && !group.n;
       b++) /* the stages stand in the order of their block, which passes may have changed */
    for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
      item it = m->blocks.v[b].items.v[i];
      if (it.kind == IT_STAGE && !xs(m, it.index)->dead && xs(m, it.index)->recurrence == recurrence)
        vec_push(a, group, it.index);
    }
  for (uint32_t i = 0; i < group.n; i++) rt_of(v, xs(m, group.v[i])->tensor)->busy = true;
  for (uint32_t i = 0; i < group.n; i++) need_loads(v, group.v[i], a, recurrence);
  for (uint32_t i = 0; i < group.n; i++) make_room(v, xs(m, group.v[i])->tensor, true);
  job *j = NEWN(a, job, group.n);
  for (uint32_t i = 0; i < group.n; i++) prepare(&j[i], v, group.v[i], a);
  int64_t steps = size_int(v, m->recurrences.v[recurrence].extent, "the number of steps", "a recurrence", NULL);
  for (int64_t t = 0; t < steps; t++)
    for (uint32_t i = 0; i < group.n; i++) {
      job *x = &j[i];
      worker_forget(&x->w), worker_loop(&x->w, 0, t);
      int64_t step = x->g.base;
      x->g.base = step * t;
      if (x->value) run_points(x, &x->w, 0, x->g.points);
      x->g.base = step;
      for (uint32_t k = 0; k < x->s->updates.n; k++) {
        worker_forget(&x->ups[k].w), worker_loop(&x->ups[k].w, 0, t);
        run_update(x, &x->ups[k]);
      }
    }
  for (uint32_t i = 0; i < group.n; i++) {
    rt *r = rt_of(v, xs(m, group.v[i])->tensor);
    r->busy = false, r->done = true;
  }
}
static u32vec tensors_read(emodule *m, uint32_t id, arena *a) { /* by a stage, each once */
  u32vec loads = {0}, t = {0};
  expr_stage_loads(m, id, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const tid x = exn(m, loads.v[i])->tensor;
    uint32_t k = 0;
    while (k < t.n && t.v[k] != x) k++;
    if (k == t.n) vec_push(a, t, x);
  }
  return t;
}
static void keep_tensor(state *st, tid t) { st->readers[t] = KEPT; }
void expr_eval_lean(evaluation *v) {
  state *st = (state *)v;
  emodule *m = v->m;
  if (m->ifs.n || m->loops.n) return;
  arena *a = arena_new(v->c);
  st->readers = NEWN(v->a, uint32_t, m->tensors.n);
  for (uint32_t i = 0; i < m->outputs.n; i++) keep_tensor(st, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->lates.n; i++) keep_tensor(st, m->lates.v[i].tensor);
  for (uint32_t i = 0; i < m->checks.n; i++) keep_tensor(st, m->checks.v[i].at), keep_tensor(st, m->checks.v[i].value);
  for (uint32_t id = 0; id < m->stages.n; id++) {
    const stage *s = xs(m, id);
    if (s->dead) continue;
    const u32vec read = tensors_read(m, id, a);
    if (s->recurrence) keep_tensor(st, s->tensor);
    for (uint32_t i = 0; i < read.n; i++)
      if (st->readers[read.v[i]] != KEPT) st->readers[read.v[i]] = s->recurrence ? KEPT : st->readers[read.v[i]] + 1;
  }
  arena_free(a);
}
static void leave(evaluation *v, uint32_t id, arena *a) { /* the stage has run */
  state *st = (state *)v;
  const u32vec read = tensors_read(v->m, id, a);
  for (uint32_t i = 0; i < read.n; i++) {
    const tid t = read.v[i];
    rt *r = rt_of(v, t);
    if (st->readers[t] == KEPT || --st->readers[t] || xt(v->m, t)->kind != TK_STAGE || r->cap < LEAST_LEFT) continue;
    vec_push(v->a, st->left, ((room){(void *)(uintptr_t)r->nd.data, r->cap}));
    r->nd.data = NULL, r->cap = 0, r->done = false; /* it would be computed again */
  }
}
static void run_stage(evaluation *v, uint32_t id) {
  arena *a = arena_new(v->c);
  if (xs(v->m, id)->dead)
    ctx_bug(v->c, "evaluator: stage %s was removed but is needed", xt(v->m, xs(v->m, id)->tensor)->name);
  if (xs(v->m, id)->recurrence)
    run_recurrence(v, xs(v->m, id)->recurrence, a);
  else
    run_alone(v, id, a);
  rt_of(v, xs(v->m, id)->tensor)->done = true;
  if (((state *)v)->readers && !xs(v->m, id)->recurrence) leave(v, id, a);
  arena_free(a);
}

/* ---- control flow ---------------------------------------------------------------------------- */
static void check_guard(evaluation *v, const guard *g) {
  int64_t x;
  if (!size_known(v, g->ge0, &x) || (g->is_eq ? x == 0 : x >= 0)) return;
  const char *text = g->text ? g->text : "a size does not fit";
  if (sym_is_int(v->c, g->ge0, NULL))
    diag_error(v->c, E_SHAPE, g->node, "%s", text);
  else
    diag_error(v->c, E_SHAPE, g->node, "%s (%s = %lld, must be %s 0)", text, sym_str(v->c, g->ge0), (long long)x,
               g->is_eq ? "==" : ">=");
  ctx_unwind(v->c);
}
static void check_guards(evaluation *v, uint32_t blk) {
  for (uint32_t i = 0; i < v->m->guards.n; i++)
    if (v->m->guards.v[i].block == blk) check_guard(v, &v->m->guards.v[i]);
}
static int64_t scalar_of(evaluation *v, tid t);
static void fail_check(evaluation *v, const value_check *k, int64_t at) {
  int64_t place[MAX_RANK] = {0};
  sbuf b = sbuf_new(v->a);
  for (uint32_t i = k->ndims; i-- > 0;) {
    int64_t n = max64(size_int(v, k->dims[i], "a size", k->text, k->node), 1);
    place[i] = at % n, at /= n;
  }
  for (uint32_t i = 0; i < k->ndims; i++) sb_fmt(&b, "%s%lld", i ? ", " : " at [", (long long)place[i]);
  if (k->ndims) sb_putc(&b, ']');
  diag_error(v->c, E_SHAPE, k->node, "%s %lld%s is out of range %lld..%lld", k->text, (long long)scalar_of(v, k->value),
             b.s ? b.s : "", (long long)size_int(v, k->lo, "the least value", k->text, k->node),
             (long long)size_int(v, k->hi, "the greatest value", k->text, k->node) - 1);
  ctx_unwind(v->c);
}
static void check_values(evaluation *v, uint32_t blk) {
  for (uint32_t i = 0; i < v->m->checks.n; i++) {
    const value_check *k = &v->m->checks.v[i];
    if (k->block != blk) continue;
    int64_t at = scalar_of(v, k->at);
    if (at != EXPR_NOWHERE) fail_check(v, k, at);
  }
}
static void check_block(evaluation *v, uint32_t blk) {
  check_guards(v, blk);
  check_values(v, blk);
}
void expr_eval_checks(evaluation *v) { check_block(v, 0); }
static void run_block(evaluation *v, uint32_t blk) {
  emodule *m = v->m;
  state *st = (state *)v;
  check_block(v, blk);
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_STAGE && !xs(m, it.index)->dead) need_tensor(v, xs(m, it.index)->tensor);
    if (it.kind == IT_IF && !st->if_done[it.index]) run_if(v, it.index);
    if (it.kind == IT_LOOP && !st->loop_done[it.index]) run_loop(v, it.index);
  }
}
static int64_t scalar_of(evaluation *v, tid t) {
  need_tensor(v, t);
  const ndarray *nd = &rt_of(v, t)->nd;
  int64_t n;
  if (!nd_count(nd, &n) || n != 1)
    ctx_fail(v->c, E_SHAPE, "%s decides control flow and must have one element", xt(v->m, t)->name);
  return et_load(nd->type, nd->data).i;
}
static void give(evaluation *v, tid t, const ndarray *nd) {
  bind_shape(v, t, nd);
  *rt_of(v, t) = (rt){.nd = *nd, .done = true};
}
static void run_if(evaluation *v, uint32_t i) {
  const xif f = v->m->ifs.v[i];
  bool yes = scalar_of(v, f.cond) != 0;
  run_block(v, yes ? f.then_block : f.else_block);
  for (uint32_t k = 0; k < f.n; k++) {
    tid from = yes ? f.then_vals[k] : f.else_vals[k];
    need_tensor(v, from);
    give(v, f.results[k], &rt_of(v, from)->nd);
  }
  ((state *)v)->if_done[i] = 1;
}
/* Everything a block computes is to be computed anew. */
static void forget_block(evaluation *v, uint32_t blk) {
  emodule *m = v->m;
  state *st = (state *)v;
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_STAGE) rt_of(v, xs(m, it.index)->tensor)->done = false;
    if (it.kind == IT_IF) {
      const xif *f = &m->ifs.v[it.index];
      st->if_done[it.index] = 0;
      for (uint32_t k = 0; k < f->n; k++) rt_of(v, f->results[k])->done = false;
      forget_block(v, f->then_block), forget_block(v, f->else_block);
    }
    if (it.kind == IT_LOOP) {
      const xloop *l = &m->loops.v[it.index];
      st->loop_done[it.index] = 0;
      for (uint32_t k = 0; k < l->ncarried; k++)
        if (l->final[k]) rt_of(v, l->final[k])->done = false;
      for (uint32_t k = 0; k < l->ncollected; k++) rt_of(v, l->collected[k])->done = false;
      forget_block(v, l->body);
    }
  }
}
typedef struct buffer {
  void *p;    /* the memory */
  size_t n;   /* bytes in use */
  size_t cap; /* bytes allocated */
} buffer;
static void put_bytes(evaluation *v, buffer *b, const void *p, size_t n) {
  if (b->n + n > b->cap) {
    size_t cap = max64((int64_t)(2 * b->cap), (int64_t)(b->n + n));
    void *q = arena_alloc(v->a, cap + 8);
    if (b->n) memcpy(q, b->p, b->n);
    b->p = q, b->cap = cap;
  }
  if (n) memcpy((char *)b->p + b->n, p, n);
  b->n += n;
}
static void run_loop(evaluation *v, uint32_t id) {
  const xloop l = v->m->loops.v[id];
  state *st = (state *)v;
  int64_t max = INT64_MAX, trips = 0;
  if (l.trips) max = size_int(v, l.trips, "the number of trips", "a loop", l.origin);
  if (l.trip_tensor) max = min64(max, scalar_of(v, l.trip_tensor));
  bool go = !l.cond0 || scalar_of(v, l.cond0);
  /* carried values live in two buffers by turns: the next is written while the current is still read */
  ndarray *cur = NEWN(v->a, ndarray, l.ncarried + 1), *slice = NEWN(v->a, ndarray, l.ncollected + 1);
  buffer(*turn)[2] = arena_array(v->a, l.ncarried + 1, sizeof *turn), *all = NEWN(v->a, buffer, l.ncollected + 1);
  for (uint32_t k = 0; k < l.ncarried; k++) need_tensor(v, l.init[k]), cur[k] = rt_of(v, l.init[k])->nd;
  uint32_t mark = st->bound.n;
  for (; go && trips < max; trips++) {
    st->bound.n = mark;
    forget_block(v, l.body);
    if (l.counter) bind(v, l.counter, trips);
    for (uint32_t k = 0; k < l.ncarried; k++) give(v, l.inner[k], &cur[k]);
    run_block(v, l.body);
    for (uint32_t k = 0; k < l.ncarried; k++) {
      buffer *b = &turn[k][trips & 1];
      need_tensor(v, l.next[k]);
      const ndarray *nd = &rt_of(v, l.next[k])->nd;
      b->n = 0, put_bytes(v, b, nd->data, nd->bytes);
      cur[k] = *nd, cur[k].data = b->p ? b->p : nd->data;
    }
    for (uint32_t k = 0; k < l.ncollected; k++) {
      need_tensor(v, l.slice[k]);
      const ndarray *nd = &rt_of(v, l.slice[k])->nd;
      if (trips && memcmp(nd->dims, slice[k].dims, sizeof nd->dims))
        ctx_fail(v->c, E_SHAPE, "loop: the slices of %s differ in shape from trip to trip",
                 xt(v->m, l.collected[k])->name);
      slice[k] = *nd;
      put_bytes(v, &all[k], nd->data, nd->bytes);
    }
    if (l.cond) go = scalar_of(v, l.cond);
  }
  st->bound.n = mark;
  st->loop_done[id] = 1;
  for (uint32_t k = 0; k < l.ncarried; k++)
    if (l.final[k]) give(v, l.final[k], &cur[k]);
  for (uint32_t k = 0; k < l.ncollected; k++) {
    const tensor *x = xt(v->m, l.collected[k]);
    ndarray nd = {
        .type = x->type, .rank = x->rank, .data = all[k].p ? all[k].p : arena_alloc(v->a, 8), .bytes = all[k].n};
    nd.dims[0] = trips;
    for (uint32_t i = 1; i < x->rank; i++)
      if (trips)
        nd.dims[i] = slice[k].dims[i - 1];
      else if (!size_known(v, x->shape[i], &nd.dims[i]))
        nd.dims[i] = 0;
    give(v, l.collected[k], &nd);
  }
}

/* ---- the module ------------------------------------------------------------------------------ */
void expr_eval_run(evaluation *v) {
  state *st = (state *)v;
  /* once more, for sizes that only a later input tells */
  for (uint32_t i = 0; i < st->inputs.n; i++) bind_shape(v, st->inputs.v[i], &rt_of(v, st->inputs.v[i])->nd);
  run_block(v, 0);
}

static bool all_constant(emodule *m, uint32_t s, arena *a) {
  const stage *x = xs(m, s);
  const tensor *t = xt(m, x->tensor);
  u32vec loads = {0};
  if (x->recurrence || x->dead) return false;
  for (uint32_t i = 0; i < t->rank; i++)
    if (sym_uses_kind(m->c, t->shape[i], AT_SYMBOL)) return false;
  expr_stage_loads(m, s, a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (xt(m, exn(m, loads.v[i])->tensor)->kind != TK_CONST) return false;
  return !expr_stage_uses_symbols(m, s, a);
}
/* Its own function: nothing here is changed between the jump's two ends. What is computed on the way is in tmp. */
static bool try_stage(emodule *m, uint32_t s, arena *tmp, arena *a, ndarray *out) {
  uint32_t mark = diag_mark(m->c);
  CTX_TRY(m->c) {
    evaluation *v = expr_eval_new(m, tmp, ctx_cpus(m->c));
    ((state *)v)->wanted = xs(m, s)->tensor, ((state *)v)->keep = a;
    *out = *expr_eval_get(v, xs(m, s)->tensor);
  }
  CTX_CATCH {
    diag_reset(m->c, mark);
    out->data = NULL;
  }
  return out->data != NULL;
}
bool expr_eval_stage(emodule *m, uint32_t s, arena *a, ndarray *out) {
  arena *tmp = arena_new(m->c);
  bool ok = all_constant(m, s, tmp) && try_stage(m, s, tmp, a, out);
  arena_free(tmp);
  return ok;
}
