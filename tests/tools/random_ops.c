/* random_ops: random instances of the library's operators, compiled, against the evaluator.
 *
 *   random_ops [-n INSTANCES] [-s FIRST] [-b BATCH] [-j JOBS] [-t SECONDS] [-x WAY] [-v] [NAME...]
 *   NAME:SEED...: these again, as one batch. NAME: DOMAIN::NAME where it has one
 *
 * An instance is one call of a definition with random element types, ranks, shapes, attributes and contents
 * (src/notation/instance.h): its seed and the operator's name say which. BATCH of them (default 48), of different
 * operators, go into one module, which is evaluated as the definitions say, compiled at full optimisation, and compiled
 * at -O0; every element of every output must agree: integers to the bit, floats within a tolerance that follows from
 * their type. (Where f16 or bf16 is computed, full optimisation is held against the evaluator after the pass that
 * computes in f32 instead.) Inputs, outputs and working memory end at pages that nobody may touch. A batch runs in a
 * process of its own; one that fails or crashes is tried again instance by instance, so that each failure names one. A
 * batch is compiled in a way of its own, by its seed or as -x says: words with commas between, see ways(). One line per
 * failure, with what runs it again; at the end `N passed, N failed, N skipped`.
 * -t ends the tries after so many seconds, whatever -n says. */
#include "eval/eval.h"
#include "driver/pipeline.h"
#include "passes/passes.h"
#include "notation/instance.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
/* after loop.h, whose L_SET <fcntl.h> has as a macro */
#include "check.h"

/* Not where a definition leaves the choice: one step of these is so large that a sum in another order changes
 * everything behind it. */
static const uint32_t TYPES = ~(1u << ET_F4E2M1 | 1u << ET_F8E8M0);
static const uint32_t CHAINED = 1u << ET_F32 | 1u << ET_I64 | 1u << ET_BOOL | 1u << ET_U8;
enum { MAX_BATCH = 256, TRIES = 60, MAX_ELEMENTS = 1 << 14, JOBS = 32, TEXT = 400 };
/* How a batch is made and compiled. */
typedef struct way {
  bool symbols; /* sizes are symbols, where the definition allows */
  bool weights; /* some inputs are constants */
  bool chain;   /* inputs are outputs of earlier calls, where shapes fit and rounding stays bounded */
  bool large, empty, strict;
  int level;
  uint32_t threads;
  const char *target;
} way;
typedef struct call {
  uint32_t op;
  uint64_t seed;
  opinst i;
  tid in[OPINST_MAX], made[OPINST_MAX];       /* inputs of the module; wanted outputs */
  uint32_t from[OPINST_MAX], nth[OPINST_MAX]; /* the input is the nth output of call from - 1 */
  ndarray want[OPINST_MAX], wide[OPINST_MAX];
  tolerance tol[OPINST_MAX];
  uint32_t nwant;
  bool narrow, symbols, inner; /* inner: its outputs are read by later calls only */
  bool exact;                  /* no rounding depends on order */
} call;
typedef struct lot {
  uint32_t op;
  uint64_t seed;
} lot;
typedef struct board { /* shared with the children */
  uint32_t made;       /* instances of the batch */
  lot items[MAX_BATCH];
  lot now; /* being made: to know which it was that crashed */
  bool making;
  bool bad[MAX_BATCH];
  char text[TEXT]; /* text of the last call that failed */
  bool failed, finished;
  way way;
} board;
static ctx *lib_ctx;
static oplib *lib;
static uint32_t *wanted, nwanted;
static bool verbose;
static const char *asked_way;
static way the;

/* DOMAIN::NAME, or NAME of the standard's; static */
static const char *full_name(uint32_t op) {
  static char b[200];
  const opdef *d = notation_nth(lib, op);
  snprintf(b, sizeof b, "%s%s%s", opdef_domain(d), *opdef_domain(d) ? "::" : "", opdef_name(d));
  return b;
}

/* ---- ways ------------------------------------------------------------------------------------ */
static uint32_t dice(uint64_t *s, uint32_t n) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*s >> 33) % n;
}
static way way_of(uint64_t seed) {
  uint64_t s = seed * 0x9e3779b97f4a7c15u + 99;
  for (int i = 0; i < 4; i++) dice(&s, 2);
  way w = {.level = 3, .threads = 1};
  w.symbols = dice(&s, 3) == 0, w.weights = dice(&s, 3) == 0, w.chain = dice(&s, 4) == 0, w.large = dice(&s, 4) == 0,
  w.empty = dice(&s, 10) == 0, w.strict = dice(&s, 8) == 0;
  if (dice(&s, 4) == 0) w.level = 1 + (int)dice(&s, 2);
  if (dice(&s, 3) == 0) w.threads = 2 + dice(&s, 3);
  uint32_t t = dice(&s, 5);
  w.target = t == 0 ? "x86-64-v3" : t == 1 ? "x86-64" : NULL;
  return w;
}
static bool has(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *p = text; (p = strstr(p, word)); p++)
    if ((p == text || p[-1] == ',') && (!p[n] || p[n] == ',')) return true;
  return false;
}
static way way_read(const char *t) {
  way w = {.symbols = has(t, "symbols"),
           .weights = has(t, "weights"),
           .chain = has(t, "chain"),
           .large = has(t, "large"),
           .empty = has(t, "empty"),
           .strict = has(t, "strict"),
           .level = 3,
           .threads = 1};
  if (has(t, "O1") || has(t, "O2")) w.level = has(t, "O1") ? 1 : 2;
  for (uint32_t i = 2; i < 5; i++)
    if (has(t, (char[]){'t', (char)('0' + i), 0})) w.threads = i;
  w.target = has(t, "x86-64-v3") ? "x86-64-v3" : has(t, "x86-64") ? "x86-64" : NULL;
  return w;
}
static const char *way_text(const way *w) {
  static char b[200];
  snprintf(b, sizeof b, "O%d,t%u%s%s%s%s%s%s%s%s", w->level, w->threads, w->symbols ? ",symbols" : "",
           w->weights ? ",weights" : "", w->chain ? ",chain" : "", w->large ? ",large" : "", w->empty ? ",empty" : "",
           w->strict ? ",strict" : "", w->target ? "," : "", w->target ? w->target : "");
  return b;
}

/* ---- one module of many calls ---------------------------------------------------------------- */
static bool compared(const arg *out) { return out->present && out->want && out->type != ET_STR; }
/* The shape of an input with a symbol for every size above 1; equal sizes of a call have equal symbols, so that what
 * fits still does. A module has symbols of its own: what one that was only tried assumes stays with them. */
static uint32_t modules;
static const sz *shape_of(ctx *c, const call *k, const arg *a) {
  if (!k->symbols) return a->shape;
  sz *s = NEWN(ctx_arena(c), sz, a->rank + 1);
  for (uint32_t i = 0; i < a->rank; i++) {
    int64_t n = sym_int_or(c, a->shape[i], 0);
    s[i] = n < 2 ? a->shape[i]
                 : sym_symbol(c,
                              arena_fmt(ctx_arena(c), "s%u.%llu.%u_%lld", k->op, (unsigned long long)k->seed, modules,
                                        (long long)n),
                              1, 1000000);
  }
  return s;
}
static bool place_call(emodule *m, call *k, const call *all) {
  ctx *c = m->c;
  const opdef *d = notation_nth(lib, k->op);
  opinst *o = &k->i;
  arg in[OPINST_MAX], out[OPINST_MAX];
  for (uint32_t i = 0; i < o->nin; i++) {
    in[i] = o->in[i];
    k->in[i] = 0;
    if (!in[i].present) continue;
    if (xt(o->m, o->in[i].t)->kind == TK_CONST) {
      in[i].t = expr_const_tensor(m, &o->data[i], "c");
      continue;
    }
    if (all && k->from[i]) {
      in[i].t = all[k->from[i] - 1].made[k->nth[i]];
      in[i].shape = xt(m, in[i].t)->shape;
      continue;
    }
    uint64_t s = k->seed + i;
    if (the.weights && i && dice(&s, 2)) {
      ndarray w = o->data[i]; /* a copy: packing gives the memory of large constants back */
      w.data = arena_dup(ctx_arena(c), w.data, w.bytes + 1);
      in[i].t = expr_const_tensor(m, &w, "w");
      continue;
    }
    in[i].shape = shape_of(c, k, &in[i]);
    in[i].t = k->in[i] = expr_tensor(m, TK_INPUT, in[i].type, in[i].shape, in[i].rank, "x", NULL);
    vec_push(m->a, m->inputs, ((io){in[i].t, xt(m, in[i].t)->name}));
  }
  for (uint32_t i = 0; i < o->nout; i++) out[i] = (arg){.want = o->out[i].want};
  uint32_t mark = sym_mark(c);
  bool ok = notation_elaborate(lib, d, m, 0, "node", in, o->nin, o->attr, o->nattr, out, o->nout);
  sym_pop(c, mark);
  for (uint32_t i = 0, at = 0; ok && i < o->nout; i++) {
    if (!compared(&out[i])) continue;
    tid t = k->made[at++] = out[i].t;
    if (all && k->inner) continue;
    xt(m, t)->output = true;
    vec_push(m->a, m->outputs, ((io){t, arena_fmt(m->a, "%s%u", xt(m, t)->name, m->outputs.n)}));
  }
  return ok;
}
static emodule *module_of(ctx *c, call *k, uint32_t n) {
  emodule *m = expr_module(c);
  modules++;
  for (uint32_t i = 0; i < n; i++)
    if (!place_call(m, &k[i], n > 1 ? k : NULL))
      ctx_fail(c, E_INTERNAL, "what was a legal call is none the second time");
  return m;
}
/* Floats move by a rounding or two, or stay. */
static void nudge(etype t, void *data, int64_t n, uint64_t *s) {
  double step = t == ET_F64 ? 4e-16 : 2.4e-7;
  for (int64_t e = 0; e < n; e++) {
    uint8_t *x = (uint8_t *)data + e * et_bytes(t);
    et_store(t, x, (scalar){.f = et_load(t, x).f * (1 + step * ((double)dice(s, 3) - 1))});
  }
}
/* What the definition says, in the call's own module; nudges: so does what is computed on the way. False: the
 * contents do not fit (an index out of range), or it is much. */
static bool evaluate(ctx *c, call *k, uint64_t *nudges) {
  emodule *m = k->i.m;
  int64_t flops;
  if (the.large && sym_is_int(c, opinst_cost(c, &k->i).flops, &flops) && flops > 3000000) return false;
  evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
  int64_t n;
  for (uint32_t i = 0; i < k->i.nin; i++) {
    if (!k->i.in[i].present) continue;
    if (k->i.in[i].type == ET_STR || !nd_count(&k->i.data[i], &n) || n > MAX_ELEMENTS) return false;
    if (xt(m, k->i.in[i].t)->kind == TK_INPUT) expr_eval_input(v, k->i.in[i].t, &k->i.data[i]);
  }
  for (uint32_t i = 0; nudges && i < m->stages.n; i++) {
    if (xs(m, i)->dead || xs(m, i)->block || et_kind(xt(m, xs(m, i)->tensor)->type) != K_FLOAT) continue;
    const ndarray *r = expr_eval_get(v, xs(m, i)->tensor);
    if (nd_count(r, &n)) nudge(r->type, (void *)(uintptr_t)r->data, n, nudges);
  }
  expr_eval_checks(v);
  k->nwant = 0;
  for (uint32_t i = 0; i < k->i.nout; i++) {
    if (!compared(&k->i.out[i])) continue;
    const ndarray *r = expr_eval_get(v, k->i.out[i].t);
    if (!nd_count(r, &n) || n > MAX_ELEMENTS) return false;
    k->want[k->nwant++] = *r;
  }
  return k->nwant > 0;
}
static bool evaluates(ctx *c, call *k, uint64_t *nudges) {
  uint32_t mark = diag_mark(c);
  volatile bool ok = false;
  CTX_TRY(c) { ok = evaluate(c, k, nudges); }
  CTX_CATCH { ok = false; }
  if (!ok) diag_reset(c, mark);
  return ok;
}
static bool legal(ctx *c, call *k) {
  opinst_opts o = {.types = the.chain ? CHAINED : TYPES,
                   .sizes = the.large   ? 36
                            : the.chain ? 2
                                        : 0,
                   .empty = the.empty};
  return notation_instance(c, lib, notation_nth(lib, k->op), k->seed, o, &k->i) && evaluates(c, k, NULL);
}

/* ---- compiled -------------------------------------------------------------------------------- */
/* Compiled; NULL with a reason when the call refuses. */
static ndarray *compute(ctx *c, emodule *m, const call *k, uint32_t n, int level, const char **why) {
  pipe_opts o = {.level = level, .compile_threads = 1, .target = the.target, .strict = the.strict};
  pipeline *p = pipe_new(c, &o);
  arena *a = ctx_arena(c);
  p->g = graph_new(c, NULL, "random");
  p->m = m;
  uint32_t no = m->outputs.n;
  etype *type = NEWN(a, etype, no + 1);
  uint32_t *rank = NEWN(a, uint32_t, no + 1), total = 0, at = 0;
  for (uint32_t i = 0; i < no; i++)
    type[i] = xt(m, m->outputs.v[i].t)->type, rank[i] = xt(m, m->outputs.v[i].t)->rank, total += rank[i];
  if (!pipe_optimise(p) || !pipe_program(p)) ctx_fail(c, E_INTERNAL, "stopped");
  jit *j = pipe_jit(p);
  ek_rt_main plan = (ek_rt_main)jit_find(j, p->p->plan_fn->name), run = (ek_rt_main)jit_find(j, p->p->run_fn->name);
  uint8_t *weights = aligned_alloc(64, ((size_t)p->p->weight_bytes + 64) / 64 * 64);
  pipe_weights(p, p->p->weight_bytes, weights, NULL, NULL);
  const void **in = NEWN(a, const void *, m->inputs.n + 1);
  int64_t in_dims[4096], *out_dims = NEWN(a, int64_t, total + 1);
  void **out = NEWN(a, void *, no + 1);
  uint32_t ni = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t q = 0; q < k[i].i.nin; q++) {
      if (!k[i].in[q]) continue;
      const ndarray *d = &k[i].i.data[q];
      uint8_t *mem = guarded(d->bytes);
      if (d->bytes) memcpy(mem, d->data, d->bytes);
      in[ni++] = mem;
      for (uint32_t x = 0; x < d->rank; x++) in_dims[at++] = d->dims[x];
    }
  ek_rt_pool *pool = level && the.threads > 1 ? ek_rt_pool_create(the.threads) : NULL;
  ek_rt_call rc = {.in = in,
                   .out = out,
                   .in_dims = in_dims,
                   .out_dims = out_dims,
                   .weights = weights,
                   .threads = pool ? the.threads : 1,
                   .pool = pool,
                   .parallel = ek_rt_parallel};
  int64_t code = plan(&rc);
  for (bool more = !code; more; more = code == EK_RT_ROOM) {
    at = 0;
    for (uint32_t i = 0; i < no; i++) {
      size_t bytes = et_bytes(type[i]);
      for (uint32_t x = 0; x < rank[i]; x++) bytes *= (size_t)out_dims[at++];
      out[i] = guarded(bytes);
      memset(out[i], 0xff, bytes); /* NaN */
    }
    size_t bytes = ((size_t)rc.arena_bytes + 63) / 64 * 64;
    rc.arena = guarded(bytes);
    memset(rc.arena, 0xff, bytes);
    code = run(&rc);
  }
  if (pool) ek_rt_pool_destroy(pool);
  ndarray *r = NULL;
  /* the text is in the code */
  *why = code ? arena_strdup(a, rc.message ? rc.message : "refused without a word") : NULL;
  if (!code) {
    r = NEWN(a, ndarray, no + 1);
    at = 0;
    for (uint32_t i = 0; i < no; i++) {
      r[i] = (ndarray){.type = type[i], .rank = rank[i], .data = out[i]};
      for (uint32_t x = 0; x < rank[i]; x++) r[i].dims[x] = out_dims[at++];
    }
  }
  jit_free(j);
  free(weights);
  return r;
}
static tolerance of_type(etype t) {
  switch (t) {
  case ET_F64:
    return (tolerance){2e-6, 2e-6};
  case ET_F32:
    return (tolerance){2e-4, 2e-5};
  case ET_F16:
    return (tolerance){4e-3, 2e-3};
  case ET_BF16:
    return (tolerance){3e-2, 1e-2};
  case ET_F4E2M1:
    return (tolerance){0.51, 0.51}; /* below: a step */
  case ET_F8E8M0:
    return (tolerance){1.01, 0};
  default:
    return (tolerance){0.26, 0.05};
  }
}
static bool adds(const call *k) { /* is there a sum in it? */
  bool sums = false;
  for (ex e = 1; e < k->i.m->nodes.n; e++) sums |= exn(k->i.m, e)->kind == EX_REDUCE && exn(k->i.m, e)->op == RED_SUM;
  return sums;
}
/* What is computed in f32 inside is no better for being written as f64, nor what is computed in f16 for being
 * written as either: the evaluator rounds there, compiled code does not have to. Where large values cancel,
 * the error follows from them and not from what is left: a few roundings of the result's largest value are
 * allowed, one in narrow types, whose sums may be made in another order too. */
static tolerance allowed(const call *k, const ndarray *want) {
  etype t = want->type;
  double big = 0;
  int64_t n = 0;
  const bool sums = adds(k);
  for (ex e = 1; (t == ET_F64 || t == ET_F32) && e < k->i.m->nodes.n; e++) {
    const ex_node *x = exn(k->i.m, e);
    if (x->kind == EX_OP && et_kind(x->type) == K_FLOAT && et_bits(x->type) >= 16 && et_bits(x->type) < et_bits(t))
      t = x->type;
  }
  tolerance r = of_type(t);
  double unit = t == ET_F64                              ? 16 * 1.2e-16
                : t == ET_F32                            ? 16 * 6e-8
                : !sums                                  ? 0
                : t == ET_F16                            ? 0x1p-11
                : t == ET_BF16                           ? 0x1p-8
                : t == ET_F8E5M2 || t == ET_F8E5M2FNUZ   ? 0x1p-3
                : t == ET_F8E4M3FN || t == ET_F8E4M3FNUZ ? 0x1p-4
                                                         : 0;
  nd_count(want, &n);
  for (int64_t i = 0; unit > 0 && i < n; i++) {
    double w = fabs(et_load(want->type, (const uint8_t *)want->data + i * et_bytes(want->type)).f);
    if (w > big && w < 1e9) big = w; /* not what stands for infinity */
  }
  r.atol += big * unit;
  return r;
}
static bool same_array(const ndarray *a, const ndarray *b) {
  bool same = a->type == b->type && a->rank == b->rank;
  for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
  return same;
}
/* What the call gives when its inputs, and what it computes on the way, move by a rounding or two: what is computed
 * in another order is the exact result for inputs as near as that. */
static bool nudged(ctx *c, const call *k, uint64_t *s, call *moved) {
  int64_t n;
  *moved = *k;
  for (uint32_t i = 0; i < k->i.nin; i++) {
    ndarray *d = &moved->i.data[i];
    if (!k->i.in[i].present || et_kind(d->type) != K_FLOAT || !nd_count(d, &n)) continue;
    uint8_t *to = arena_dup(ctx_arena(c), d->data, d->bytes + 1);
    nudge(d->type, to, n, s);
    d->data = to;
  }
  return evaluates(c, moved, s);
}
enum { NUDGES = 4, MAX_ROUNDS = 32 };
static const double STEP = 1e-2; /* relative: larger ones are no sensitivity */
/* How far results move then: a recurrence that lets small differences grow may show this much. */
static double spread(ctx *c, const call *k, uint32_t q) {
  call moved;
  uint64_t s = k->seed;
  double most = 0;
  int64_t n;
  for (int turn = 0; turn < NUDGES; turn++) {
    if (!nudged(c, k, &s, &moved)) continue;
    nd_count(&k->want[q], &n);
    for (int64_t e = 0; same_array(&k->want[q], &moved.want[q]) && e < n; e++) {
      size_t at = (size_t)e * et_bytes(k->want[q].type);
      double v = et_load(k->want[q].type, (const uint8_t *)k->want[q].data + at).f,
             d = fabs(v - et_load(k->want[q].type, (const uint8_t *)moved.want[q].data + at).f);
      if (d > most && d < STEP * fmax(1, fabs(v))) most = d;
    }
  }
  return most;
}
/* Does a rounding decide about much? At a step or a pole. */
static bool jumps(const ndarray *x, const ndarray *y, int64_t e) {
  size_t at = (size_t)e * et_bytes(x->type);
  double a = et_load(x->type, (const uint8_t *)x->data + at).f, b = et_load(y->type, (const uint8_t *)y->data + at).f;
  return isfinite(a) && isfinite(b) ? fabs(a - b) >= STEP * fmax(1, fabs(a)) : !(a == b || (isnan(a) && isnan(b)));
}
/* Whole numbers that were rounded from floats may stand at the border of two: an element that becomes what was
 * computed when the inputs move is as wanted. So is a float that jumps. */
static void at_borders(ctx *c, const call *k, uint32_t q, ndarray *got) {
  call moved;
  uint64_t s = k->seed;
  int64_t n;
  uint32_t w = et_bytes(got->type);
  if (!same_array(&k->want[q], got) || !nd_count(got, &n)) return;
  for (int turn = 0; turn < MAX_ROUNDS && memcmp(got->data, k->want[q].data, (size_t)n * w); turn++) {
    if (!nudged(c, k, &s, &moved) || !same_array(&moved.want[q], got)) continue;
    for (int64_t e = 0; e < n; e++) {
      size_t at = (size_t)e * w;
      uint8_t *x = (uint8_t *)got->data + at;
      bool border = et_kind(got->type) == K_FLOAT ? jumps(&k->want[q], &moved.want[q], e)
                                                  : !memcmp(x, (const uint8_t *)moved.want[q].data + at, w);
      if (border) memcpy(x, (const uint8_t *)k->want[q].data + at, w);
    }
  }
}
/* What the first pass makes of arithmetic in f16 and bf16 is the meaning of the optimised code. */
static bool first_pass(void *env, emodule *m, const char *pass, bool changed, double ms) {
  return (void)env, (void)m, (void)pass, (void)changed, (void)ms, false;
}
static void widen(ctx *c, call *k) {
  for (ex e = 1; e < k->i.m->nodes.n; e++) {
    const ex_node *n = exn(k->i.m, e);
    k->narrow |= (n->kind == EX_OP || n->kind == EX_REDUCE) && (n->type == ET_F16 || n->type == ET_BF16);
  }
  if (!k->narrow) return;
  emodule *m = module_of(c, k, 1);
  expr_optimise(m, the.level, &(expr_observer){.after = first_pass});
  evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
  for (uint32_t i = 0; i < k->i.nin; i++)
    if (k->in[i]) expr_eval_input(v, k->in[i], &k->i.data[i]);
  for (uint32_t i = 0; i < m->outputs.n; i++) k->wide[i] = *expr_eval_get(v, m->outputs.v[i].t);
}
/* Which calls may follow which: after one that rounds, only what passes errors on as they are. */
typedef enum { ROUNDS, EXACT, MOVES } nature;
static nature nature_of(const emodule *m) {
  bool exact = true, moves = true;
  for (ex e = 1; e < m->nodes.n; e++) {
    const ex_node *x = exn(m, e);
    if (x->kind != EX_OP && x->kind != EX_REDUCE) continue;
    bool fl = et_kind(x->type) == K_FLOAT;
    for (uint32_t i = 0; x->kind == EX_OP && i < x->nargs; i++) fl |= et_kind(exn(m, x->args[i])->type) == K_FLOAT;
    if (x->kind == EX_REDUCE) fl |= et_kind(exn(m, x->body)->type) == K_FLOAT;
    if (!fl) continue;
    bool order = x->kind == EX_REDUCE
                     ? x->op == RED_MAX || x->op == RED_MIN
                     : x->op == OP_MAX || x->op == OP_MIN || x->op == OP_NEG || x->op == OP_ABS || x->op == OP_SEL;
    moves &= order;
    exact &= order || (x->kind == EX_REDUCE
                           ? red_is_arg(x->op)
                           : (x->op >= OP_FLOOR && x->op <= OP_TRUNC) || (x->op >= OP_ISNAN && x->op <= OP_SIGNBIT) ||
                                 (x->op >= OP_EQ && x->op <= OP_GE) || x->op == OP_CAST);
  }
  for (uint32_t i = 0; i < m->stages.n; i++)
    for (uint32_t u = 0; u < xs(m, i)->updates.n; u++)
      if (xs(m, i)->updates.v[u].op == OP_ADD || xs(m, i)->updates.v[u].op == OP_MUL) exact = moves = false;
  return moves ? MOVES : exact ? EXACT : ROUNDS;
}
/* Symbols instead of sizes, where the definition allows it: some decide by the size what they compute, or assume
 * what is not so here. An index may leave its axis where nothing is computed, which numbers show and
 * symbols do not: with empty outputs every condition counts. */
static bool size_here(void *env, atom a, int64_t *v) { /* The size of a symbol made by shape_of. */
  unsigned op, module;
  unsigned long long seed;
  long long n;
  return sscanf(sym_name(env, a), "s%u.%llu.%u_%lld", &op, &seed, &module, &n) == 4 && (*v = n, true);
}
static bool assumed(ctx *c, const emodule *m, const call *k) {
  bool good = true, empty = false;
  int64_t v;
  for (uint32_t q = 0; q < k->nwant; q++) empty |= nd_count(&k->want[q], &v) && !v;
  for (uint32_t i = 0; i < m->guards.n; i++) {
    const guard *g = &m->guards.v[i];
    if ((g->assumption || empty) && sym_eval(c, g->ge0, size_here, c, &v)) good &= g->is_eq ? v == 0 : v >= 0;
  }
  return good;
}
/* May the first n calls stand together? A size that one hands to the next, as a symbol or worked out in the run, may
 * be what that is not made for: a run says so. */
static bool together(ctx *c, call *k, uint32_t n) {
  uint32_t mark = diag_mark(c), facts = sym_mark(c);
  volatile bool ok = false;
  CTX_TRY(c) {
    emodule *m = module_of(c, k, n);
    evaluation *v = expr_eval_new(m, ctx_arena(c), 1);
    for (uint32_t j = 0; j < n; j++)
      for (uint32_t i = 0; i < k[j].i.nin; i++)
        if (k[j].in[i]) expr_eval_input(v, k[j].in[i], &k[j].i.data[i]);
    expr_eval_run(v);
    ok = assumed(c, m, &k[n - 1]);
  }
  CTX_CATCH { ok = false; }
  sym_pop(c, facts);
  if (!ok) diag_reset(c, mark);
  return ok;
}
/* Call i gets outputs of earlier ones, and what the definition says then is worked out again. */
static void chain(ctx *c, call *k, uint32_t i) {
  call *q = &k[i];
  uint64_t s = q->seed;
  nature kind = nature_of(q->i.m);
  bool any = false;
  call keep = *q;
  for (uint32_t p = 0; p < q->i.nin && !q->narrow; p++) {
    const arg *a = &q->i.in[p];
    if (!a->present || xt(q->i.m, a->t)->kind != TK_INPUT || a->type != ET_F32 || dice(&s, 4) == 0) continue;
    for (uint32_t j = i; j-- > 0 && !q->from[p];)
      for (uint32_t o = 0; o < k[j].nwant && !q->from[p]; o++)
        if (same_array(&k[j].want[o], &q->i.data[p]) && !k[j].narrow && (k[j].exact || kind == MOVES))
          q->from[p] = j + 1, q->nth[p] = o, q->i.data[p] = k[j].want[o], any = true;
  }
  if (any && (!evaluates(c, q, NULL) || !together(c, k, i + 1))) *q = keep;
  for (uint32_t p = 0; p < q->i.nin; p++)
    if (q->from[p]) q->exact &= k[q->from[p] - 1].exact, k[q->from[p] - 1].inner |= dice(&s, 2);
}
static void try_symbols(ctx *c, call *k) {
  uint32_t mark = diag_mark(c), facts = sym_mark(c);
  volatile bool ok = false;
  k->symbols = true;
  CTX_TRY(c) { ok = assumed(c, module_of(c, k, 1), k); }
  CTX_CATCH { ok = false; }
  sym_pop(c, facts);
  k->symbols = ok;
  if (!ok) diag_reset(c, mark);
}
/* A sum that passes the largest number is infinite or not a number, as its terms are added: in which order is left
 * open. */
static void beyond(const call *k, const ndarray *want, ndarray *got) {
  int64_t n;
  if (!adds(k) || et_kind(want->type) != K_FLOAT || !same_array(want, got)) return;
  for (uint32_t i = 0; i < k->i.nin; i++) {
    const ndarray *d = &k->i.data[i];
    if (!k->i.in[i].present || et_kind(d->type) != K_FLOAT || !nd_count(d, &n)) continue;
    for (int64_t e = 0; e < n; e++)
      if (!isfinite(et_load(d->type, (const uint8_t *)d->data + e * et_bytes(d->type)).f)) return;
  }
  nd_count(want, &n);
  for (int64_t e = 0; e < n; e++) {
    scalar w = et_load(want->type, (const uint8_t *)want->data + e * et_bytes(want->type));
    uint8_t *to = (uint8_t *)got->data + e * et_bytes(want->type);
    if (!isfinite(w.f) && !isfinite(et_load(got->type, to).f)) et_store(got->type, to, w);
  }
}
static void check(ctx *c, board *b, call *k, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    k[i].exact = nature_of(k[i].i.m) != ROUNDS;
    if (the.symbols) try_symbols(c, &k[i]);
    widen(c, &k[i]);
  }
  for (uint32_t i = 1; the.chain && i < n; i++) chain(c, k, i);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t q = 0; q < k[i].nwant; q++) {
      tolerance t = allowed(&k[i], k[i].narrow ? &k[i].wide[q] : &k[i].want[q]);
      for (uint32_t p = 0; p < k[i].i.nin; p++)
        if (k[i].from[p])
          t.atol = fmax(t.atol, k[k[i].from[p] - 1].tol[k[i].nth[p]].atol),
          t.rtol = fmax(t.rtol, k[k[i].from[p] - 1].tol[k[i].nth[p]].rtol);
      k[i].tol[q] = t;
    }
  if (verbose) {
    sbuf s = sbuf_new(ctx_arena(c));
    expr_print(module_of(c, k, n), &s, (print_opts){.weights_inline = true});
    printf("%s\n", s.s);
    fflush(stdout);
  }
  for (int level = the.level; level >= 0; level -= the.level) {
    emodule *m = module_of(c, k, n);
    const char *why;
    ndarray *got = compute(c, m, k, n, level, &why);
    if (!got) ctx_fail(c, E_FAILED, "-O%d: %s", level, why);
    for (uint32_t i = 0, at = 0; i < n; i++)
      for (uint32_t q = 0; q < k[i].nwant && !k[i].inner; q++, at++) {
        char text[256];
        const ndarray *want = k[i].narrow && level ? &k[i].wide[q] : &k[i].want[q];
        tolerance t = k[i].narrow ? allowed(&k[i], want) : k[i].tol[q];
        if (!differs(text, sizeof text, m->outputs.v[at].name, &got[at], want, t)) continue;
        if (!k[i].narrow && (want->type == ET_F32 || want->type == ET_F64)) t.atol += 16 * spread(c, &k[i], q);
        if (!k[i].exact) at_borders(c, &k[i], q, &got[at]);
        if (!k[i].exact) beyond(&k[i], want, &got[at]);
        if (!differs(text, sizeof text, m->outputs.v[at].name, &got[at], want, t)) continue;
        if (!b->failed) snprintf(b->text, TEXT, "-O%d: %s", level, text);
        b->bad[i] = b->failed = true;
      }
  }
}

/* ---- a batch, in a child --------------------------------------------------------------------- */
static void run_batch(board *b, bool make, uint32_t n, uint64_t seed) {
  ctx *c = lib_ctx;
  call *k = calloc(n, sizeof *k);
  uint32_t made = 0;
  if (make) { /* finds legal ones */
    b->made = 0, b->making = true;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t op = wanted[(seed + i) % nwanted];
      for (uint64_t t = 0; t < TRIES; t++) {
        call *q = &k[made];
        q->op = op, q->seed = (seed + i) * 1000 + t;
        b->now = (lot){op, q->seed};
        if (!legal(c, q)) continue;
        b->items[made++] = (lot){op, q->seed};
        break;
      }
    }
    b->made = made, b->making = false;
  } else {
    for (uint32_t i = 0; i < n; i++) {
      k[i].op = b->items[i].op, k[i].seed = b->items[i].seed;
      made += legal(c, &k[i]);
    }
    if (made != n) {
      snprintf(b->text, TEXT, "no legal call");
      b->failed = true;
      return;
    }
  }
  volatile bool ok = false;
  CTX_TRY(c) {
    for (uint32_t i = 0; !make && verbose && i < n; i++) {
      sbuf s = sbuf_new(ctx_arena(c));
      opinst_print(c, notation_nth(lib, k[i].op), &k[i].i, &s);
      printf("%s\n", s.s);
    }
    check(c, b, k, made);
    ok = true;
  }
  CTX_CATCH {}
  if (!ok) {
    b->failed = true;
    for (const diag *d = diag_first(c); d; d = d->next)
      if (d->level == D_ERROR) {
        snprintf(b->text, TEXT, "%s", d->text);
        break;
      }
  }
  b->finished = true;
}
/* How it ended; the board has the rest. */
static void wait_for(pid_t pid, board *b) {
  int status;
  if (waitpid(pid, &status, 0) != pid) status = 0;
  if (b->finished || b->failed) return;
  b->failed = true;
  snprintf(b->text, TEXT, "%s",
           WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "takes too long" : strsignal(WTERMSIG(status))
                               : "the process ended");
}
static pid_t start(board *b, bool make, uint32_t n, uint64_t seed) {
  if (make) b->way = asked_way ? way_read(asked_way) : way_of(seed);
  the = b->way;
  b->failed = b->finished = b->making = false;
  b->text[0] = 0;
  memset(b->bad, 0, sizeof b->bad);
  fflush(NULL);
  pid_t pid = fork();
  if (!pid) {
    alarm(make ? 300 : 60);
    run_batch(b, make, n, seed);
    _exit(0);
  }
  return pid;
}
/* Which of a failed batch? Each alone, unless the values say it. */
static uint32_t blame(board *b) {
  the = b->way;
  if (b->making) {
    printf("FAIL %s: %s while the definition is evaluated (random_ops -x %s %s:%llu)\n", full_name(b->now.op), b->text,
           way_text(&the), full_name(b->now.op), (unsigned long long)b->now.seed);
    return 1;
  }
  static lot all[MAX_BATCH];
  bool bad[MAX_BATCH], any = false;
  uint32_t n = b->made, failures = 0;
  memcpy(all, b->items, sizeof all);
  memcpy(bad, b->bad, sizeof bad);
  char whole[TEXT];
  snprintf(whole, sizeof whole, "%s", b->text);
  for (uint32_t i = 0; i < n; i++) any |= bad[i];
  for (uint32_t i = 0; i < n; i++) {
    if (any && !bad[i]) continue;
    b->items[0] = all[i];
    wait_for(start(b, false, 1, 0), b);
    if (!b->failed) continue;
    failures++;
    printf("FAIL %s: %s (random_ops -x %s %s:%llu)\n", full_name(all[i].op), b->text, way_text(&the),
           full_name(all[i].op), (unsigned long long)all[i].seed);
    fflush(stdout);
  }
  if (!failures) { /* only together: which of them? */
    failures = 1;
    for (uint32_t i = 0; i < n && n > 1;) {
      for (uint32_t q = 0, at = 0; q < n; q++)
        if (q != i) b->items[at++] = all[q];
      wait_for(start(b, false, n - 1, 0), b);
      if (b->failed)
        memmove(all + i, all + i + 1, (--n - i) * sizeof *all);
      else
        i++;
    }
    printf("FAIL only together: %s (random_ops -x %s", whole, way_text(&the));
    for (uint32_t i = 0; i < n; i++) printf(" %s:%llu", full_name(all[i].op), (unsigned long long)all[i].seed);
    puts(")");
    fflush(stdout);
  }
  return failures;
}
static bool load_library(void) {
  volatile bool loaded = false;
  CTX_TRY(lib_ctx) {
    lib = notation_lib(lib_ctx);
    loaded = notation_add_builtin(lib);
  }
  CTX_CATCH {}
  return loaded;
}
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(int argc, char **argv) {
  uint64_t n = 2000, first = 0, passed = 0, failed = 0;
  uint32_t batch = 48, jobs = 2;
  double limit = 0;
  int opt;
  while ((opt = getopt(argc, argv, "n:s:b:j:t:x:v")) != -1) {
    if (opt == 'n')
      n = strtoull(optarg, NULL, 10);
    else if (opt == 's')
      first = strtoull(optarg, NULL, 10);
    else if (opt == 'b')
      batch = (uint32_t)atoi(optarg);
    else if (opt == 'j')
      jobs = (uint32_t)atoi(optarg);
    else if (opt == 't')
      limit = atof(optarg);
    else if (opt == 'x')
      asked_way = optarg;
    else if (opt == 'v')
      verbose = true;
    else
      return fputs("usage: random_ops [-n INSTANCES] [-s FIRST] [-b BATCH] [-j JOBS] [-t SECONDS] [-x WAY] [-v] "
                   "[NAME...]\n",
                   stderr),
             2;
  }
  if (!batch || batch > MAX_BATCH) batch = MAX_BATCH;
  if (!jobs || jobs > JOBS) jobs = 1;
  lib_ctx = ctx_new();
  if (!load_library()) return puts("the library does not load"), 1;
  wanted = calloc(notation_count(lib), sizeof *wanted);
  for (uint32_t q = 0; q < notation_count(lib); q++) {
    bool asked = optind == argc;
    for (int j = optind; j < argc; j++) asked |= !strcmp(argv[j], full_name(q));
    if (asked) wanted[nwanted++] = q;
  }
  static lot named[MAX_BATCH];
  uint32_t again = 0;
  for (int j = optind; j < argc; j++) {
    const char *colon = strrchr(argv[j], ':');
    for (uint32_t q = 0; colon && again < MAX_BATCH && q < notation_count(lib); q++) {
      const char *name = full_name(q);
      if (strlen(name) == (size_t)(colon - argv[j]) && !strncmp(name, argv[j], strlen(name)))
        named[again++] = (lot){q, strtoull(colon + 1, NULL, 10)};
    }
  }
  if (!nwanted && !again) return puts("no such operator"), 2;
  board *b = mmap(NULL, sizeof *b * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (b == MAP_FAILED) return perror("mmap"), 2;
  memcpy(b->items, named, sizeof named);
  if (again) {
    verbose = true;
    b->way = way_read(asked_way ? asked_way : "");
    wait_for(start(b, false, again, 0), b);
    printf("%s\n%d passed, %d failed, 0 skipped\n", b->text, !b->failed, b->failed);
    return b->failed;
  }
  pid_t pid[JOBS] = {0};
  double end = limit > 0 ? seconds() + limit : 1e18;
  uint64_t next = first;
  uint32_t empty = 0;
  for (uint32_t live = 0, k = 0;; k = (k + 1) % jobs) {
    if (pid[k]) {
      wait_for(pid[k], &b[k]);
      pid[k] = 0, live--;
      uint32_t bad = b[k].failed ? blame(&b[k]) : 0;
      failed += bad, passed += b[k].made > bad ? b[k].made - bad : 0;
      empty = b[k].made ? 0 : empty + 1;
    }
    bool more = passed + failed + (uint64_t)live * batch < n && seconds() < end && failed < 200 && empty < 100;
    if (!more && !live) break;
    if (!more) continue;
    pid[k] = start(&b[k], true, batch, next);
    next += batch;
    live++;
  }
  printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)passed, (unsigned long long)failed);
  ctx_free(lib_ctx);
  return failed != 0;
}
