/* Where does the time of a run go? A module compiled for it (ek_options.profile) calls the empty kernel `tick` before
 * and after each launch (program.timed), through the function that hands kernels to threads; the run's own such
 * function looks at the clock there. What runs in between is the code of any other module, so that the times are those
 * of its kernels; only the time between them grows, by two calls a launch.
 *
 * What a launch does is counted in its stages as they are after all passes: operations once a point, and of each tensor
 * from outside, and of each that it stores, the bytes once. Nodes that have no stage of their own any more became part
 * of those that read them. */
#include "driver/driver.h"
#include "expr/expr.h"
#include <string.h>
#include <time.h>

struct profile {
  const ek_module *m; /* the module */
  ek_rt_kernel tick;  /* kernel that the program calls around each launch */
  ek_kernel *table;   /* what each launch is */
  uint64_t *starts;   /* per launch: how often it began */
  int64_t *ns;        /* per launch: nanoseconds */
  uint32_t n;         /* number of launches */
  trace *trace;       /* NULL: none */
  uint32_t current;   /* the launch that is going on */
  int64_t since;      /* nanoseconds: when the current launch began */
  int64_t clock;      /* nanoseconds that reading the clock costs */
};

int64_t clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
profile *profile_new(const ek_module *m) {
  const memory *mem = &m->s->mem;
  uint32_t n = m->p->s->launches.n;
  profile *p = mem_zero(mem, sizeof *p);
  if (!p) return NULL;
  *p = (profile){.m = m, .tick = (ek_rt_kernel)jit_find(m->j, "tick"), .n = n, .clock = INT64_MAX};
  p->table = mem_zero(mem, (n + 1) * sizeof *p->table);
  p->starts = mem_zero(mem, (n + 1) * sizeof *p->starts);
  p->ns = mem_zero(mem, (n + 1) * sizeof *p->ns);
  for (int i = 0; i < 200; i++) {
    int64_t t = clock_ns(), d = clock_ns() - t;
    if (d < p->clock) p->clock = d;
  }
  if (m->traced) p->trace = trace_new(mem);
  if (p->table && p->starts && p->ns && (p->trace || !m->traced)) return p;
  profile_free(p);
  return NULL;
}
void profile_free(profile *p) {
  if (!p) return;
  const memory *mem = &p->m->s->mem;
  mem_put(mem, p->table);
  mem_put(mem, p->starts);
  mem_put(mem, p->ns);
  trace_free(p->trace);
  mem_put(mem, p);
}
void profile_begin(profile *p) {
  memset(p->starts, 0, p->n * sizeof *p->starts);
  memset(p->ns, 0, p->n * sizeof *p->ns);
  if (p->trace) trace_begin(p->trace, clock_ns());
}
bool profile_tick(profile *p, ek_rt_kernel k, int64_t number) {
  if (k != p->tick) return false;
  if (number % 2) {
    int64_t i = number / 2 - 1, d = clock_ns() - p->since - p->clock;
    p->ns[i] += d > 0 ? d : 0;
    p->starts[i]++;
    if (p->trace) trace_add(p->trace, (uint32_t)i, 0, false, p->since, p->since + (d > 0 ? d : 0));
  } else {
    p->current = (uint32_t)(number / 2 - 1);
    p->since = clock_ns();
  }
  return true;
}
trace *profile_trace(const profile *p, uint32_t *launch) {
  *launch = p->current;
  return p->trace;
}
const ek_kernel *profile_table(const profile *p, size_t *n) {
  *n = p->n;
  return p->table;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
typedef struct sizes {
  pipeline *p;    /* the compilation */
  ctx *c;         /* context */
  arena *a;       /* memory */
  map *value;     /* symbol -> its value here */
  map *launch_of; /* stage -> launch + 1 */
  int depth;      /* nested definitions of sizes */
} sizes;
static bool value_of(void *env, atom x, int64_t *v);
static bool value_sz(sizes *z, sz e, int64_t *v) {
  if (z->depth > 64) return false;
  z->depth++;
  bool ok = sym_eval(z->c, e, value_of, z, v);
  z->depth--;
  return ok;
}
static bool value_of(void *env, atom x, int64_t *v) {
  sizes *z = env;
  const program *g = z->p->p;
  uint64_t got;
  sz def = 0;
  if (map_getu(z->value, x, &got)) return *v = (int64_t)got, true;
  if (sym_kind(z->c, x) != AT_SYMBOL) return false;
  for (uint32_t i = 0; i < g->sizes.n && !def; i++)
    if (g->sizes.v[i].symbol == x) def = g->sizes.v[i].def ? g->sizes.v[i].def : g->sizes.v[i].bound;
  for (uint32_t i = 0; i < z->p->m->lates.n && !def; i++)
    if (z->p->m->lates.v[i].symbol == x) def = z->p->m->lates.v[i].bound;
  if (!def && !sym_definition(z->c, x, &def)) return false;
  if (!value_sz(z, def, v)) return false;
  map_putu(z->value, x, (uint64_t)*v);
  return true;
}
static double number(sizes *z, sz e) {
  int64_t v;
  return value_sz(z, e, &v) ? (double)v : -1;
}
static void bind(sizes *z, const int64_t *in_dims) {
  const program *g = z->p->p;
  uint32_t at = 0;
  atom s;
  for (uint32_t i = 0; i < g->inputs.n - g->states.n; i++)
    for (uint32_t d = 0; d < g->inputs.v[i].rank; d++, at++)
      if (sym_is_atom(z->c, g->inputs.v[i].dims[d], &s)) map_putu(z->value, s, (uint64_t)in_dims[at]);
}

/* ---- work of a launch ------------------------------------------------------------------------ */
static double elements(sizes *z, tid t) {
  const tensor *x = xt(z->p->m, t);
  double n = 1;
  for (uint32_t d = 0; d < x->rank; d++) n *= number(z, x->shape[d]);
  return n;
}
typedef struct touched {
  tid t;         /* the tensor */
  double points; /* elements that are read or written */
} touched;
typedef VEC(touched) touches;
static void touch(sizes *z, touches *all, tid t, double points) {
  for (uint32_t i = 0; i < all->n; i++)
    if (all->v[i].t == t) {
      all->v[i].points += points;
      return;
    }
  vec_push(z->a, *all, ((touched){t, points}));
}
static double extents(sizes *z, const u32vec *vars, atom but) {
  double n = 1;
  for (uint32_t i = 0; i < vars->n; i++)
    if (vars->v[i] != but) n *= number(z, sym_extent(z->c, vars->v[i]));
  return n;
}
/* what a value reads from outside the launch; step: a variable that has one value in it */
static void reads(sizes *z, const launch *l, ex value, atom step, touches *all) {
  emodule *m = z->p->m;
  u32vec loads = {0};
  if (!value) return;
  expr_loads(m, value, z->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    tid t = exn(m, loads.v[i])->tensor;
    u32vec vars = {0};
    if (xt(m, t)->kind == TK_STAGE && vec_has(&l->stages, xt(m, t)->stage)) continue;
    expr_vars(m, loads.v[i], z->a, &vars);
    touch(z, all, t, extents(z, &vars, step));
  }
}
/* How much of its room a constant takes where this launch reads it: a pack may be in fixed point, or in few bits. */
static double packed_room(const sizes *z, const launch *l, tid t) {
  for (uint32_t i = 0; i < l->args.n; i++) {
    const buffer *b = &z->p->s->buffers.v[l->args.v[i].buffer];
    const packing *k = l->args.v[i].is_buffer && b->kind == BUF_WEIGHTS && b->tensor == t ? b->from.pack : NULL;
    if (k) return (double)packing_item(k) / (double)(k->depth * k->nr * et_bytes(xt(z->p->m, t)->type));
  }
  return 1;
}
static kernel_class class_of(const sizes *z, const launch *l) {
  return l->kernel < z->p->m->kernels.n ? z->p->m->kernels.v[l->kernel].cls : 0;
}
static void count(sizes *z, const launch *l, ek_kernel *k) {
  emodule *m = z->p->m;
  kernel_class cls = class_of(z, l);
  touches in = {0}, out = {0};
  double steps = l->step ? number(z, l->steps) : 1;
  k->ops = k->bytes = k->weight_bytes = 0;
  for (uint32_t i = 0; i < l->stages.n; i++) {
    const stage *s = xs(m, l->stages.v[i]);
    atom step = l->step && s->recurrence ? m->recurrences.v[s->recurrence].var : 0;
    /* these two forms are not computed as they stand */
    double points = elements(z, s->tensor), ops = cls == KC_PREFIX_SCAN || cls == KC_RANKING
                                                      ? points
                                                      : number(z, info_stage_ops(z->c, m, s)) * (1 - s->idle);
    reads(z, l, s->value, step, &in);
    double written = s->tiled ? points : s->value ? points : 0;
    for (uint32_t u = 0; u < s->updates.n; u++) {
      const update *x = &s->updates.v[u];
      reads(z, l, x->value, step, &in), reads(z, l, x->cond, step, &in);
      u32vec vars = {x->vars, x->nvars, x->nvars};
      if (!s->tiled) written += extents(z, &vars, step);
    }
    if (z->p->s->layouts[s->tensor].buffer) touch(z, &out, s->tensor, written / (step ? steps : 1));
    k->ops = ops < 0 || k->ops < 0 || steps <= 0 ? -1 : k->ops + ops / (step ? steps : 1);
  }
  for (uint32_t i = 0; i < in.n + out.n; i++) {
    touched x = i < in.n ? in.v[i] : out.v[i - in.n];
    double n = elements(z, x.t), b = (x.points >= 0 && x.points < n ? x.points : n) * et_bytes(xt(m, x.t)->type);
    if (i < in.n && xt(m, x.t)->kind == TK_CONST)
      k->weight_bytes += b * packed_room(z, l, x.t);
    else
      k->bytes += b;
  }
}

/* ---- which nodes it computes ----------------------------------------------------------------- */
typedef struct walk {
  sizes *z;                /* sizes */
  VEC(const node *) nodes; /* all, those of branches and bodies after the node that has them */
  u32vec *launches;        /* per node: launches that compute it */
  map *by_name;            /* name -> node */
  map *readers;            /* value -> index into lists */
  VEC(u32vec) lists;       /* nodes that read a value */
} walk;
static void gather(walk *w, const graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    uint64_t have;
    for (uint32_t k = 0; k < n->in.n; k++) {
      if (!n->in.v[k]) continue;
      if (!map_getu(w->readers, (uint64_t)(uintptr_t)n->in.v[k], &have)) {
        map_putu(w->readers, (uint64_t)(uintptr_t)n->in.v[k], have = w->lists.n);
        vec_push(w->z->a, w->lists, ((u32vec){0}));
      }
      vec_push(w->z->a, w->lists.v[have], w->nodes.n);
    }
    if (!map_gets(w->by_name, n->name, &have)) map_puts(w->by_name, n->name, w->nodes.n);
    vec_push(w->z->a, w->nodes, n);
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g) gather(w, n->attrs.v[k].g);
  }
}
enum { SPREAD = 4 }; /* a node without stages that ended in more kernels than that is none of them in particular */
static void name_nodes(sizes *z, profile *p) {
  walk w = {.z = z, .by_name = map_new(z->a), .readers = map_new(z->a)};
  const splan *s = z->p->s;
  uint64_t at;
  gather(&w, z->p->g);
  w.launches = NEWN(z->a, u32vec, w.nodes.n + 1);
  for (uint32_t i = 0; i < s->launches.n; i++)
    for (uint32_t k = 0; k < s->launches.v[i].stages.n; k++) {
      const char *origin = xt(z->p->m, xs(z->p->m, s->launches.v[i].stages.v[k])->tensor)->origin;
      if (origin && map_gets(w.by_name, origin, &at)) vec_once(z->a, &w.launches[at], i);
    }
  bool *own = NEWN(z->a, bool, w.nodes.n + 1);
  for (uint32_t i = 0; i < w.nodes.n; i++) own[i] = w.launches[i].n > 0;
  for (uint32_t i = w.nodes.n; i-- > 0;) { /* readers stand after what they read */
    const node *n = w.nodes.v[i];
    bool varies = false;
    for (uint32_t k = 0; k < n->in.n; k++) varies |= n->in.v[k] && !n->in.v[k]->data && !n->in.v[k]->values;
    if (w.launches[i].n || !varies) continue;
    for (uint32_t k = 0; k < n->out.n; k++) {
      if (!n->out.v[k] || !map_getu(w.readers, (uint64_t)(uintptr_t)n->out.v[k], &at)) continue;
      for (uint32_t r = 0; r < w.lists.v[at].n; r++)
        for (uint32_t q = 0; q < w.launches[w.lists.v[at].v[r]].n; q++)
          vec_once(z->a, &w.launches[i], w.launches[w.lists.v[at].v[r]].v[q]);
    }
    if (w.launches[i].n > SPREAD) w.launches[i].n = 0;
  }
  sbuf *text = NEWN(z->a, sbuf, p->n + 1);
  for (uint32_t i = 0; i < w.nodes.n; i++)
    for (uint32_t k = 0; k < w.launches[i].n; k++) {
      sbuf *b = &text[w.launches[i].v[k]];
      if (!b->s) *b = sbuf_new(z->a);
      sb_fmt(b, own[i] ? "%s%s" : "%s[%s]", b->n ? ", " : "", w.nodes.v[i]->name);
    }
  for (uint32_t i = 0; i < p->n; i++) p->table[i].nodes = text[i].s ? text[i].s : "";
}

/* ---- why it stands apart from what it reads -------------------------------------------------- */
static const char *refused(const sizes *z, const launch *l, const launch *from) {
  const expr_remark *r;
  uint32_t n = expr_remarks(z->p->m, &r);
  for (uint32_t i = n; i-- > 0;) {
    if (!r[i].with) continue;
    uint32_t a = r[i].stage, b = r[i].with - 1;
    if ((vec_has(&l->stages, a) && vec_has(&from->stages, b)) || (vec_has(&l->stages, b) && vec_has(&from->stages, a)))
      return r[i].why;
  }
  return NULL;
}
static bool reads_directly(sizes *z, const launch *l, const launch *from) {
  for (uint32_t j = 0; j < l->stages.n; j++) {
    const stage *x = xs(z->p->m, l->stages.v[j]);
    u32vec loads = {0};
    if (x->value) expr_loads(z->p->m, x->value, z->a, &loads);
    for (uint32_t q = 0; q < loads.n; q++) {
      const tensor *t = xt(z->p->m, exn(z->p->m, loads.v[q])->tensor);
      if (t->kind == TK_STAGE && vec_has(&from->stages, t->stage)) return true;
    }
  }
  return false;
}
static const char *separated_by(sizes *z, const launch *l, const launch *from) {
  static const kernel_class openers[] = {KC_CONTRACTION, KC_STENCIL, KC_MATVEC,    KC_RECURRENCE, KC_UPDATE,
                                         KC_PREFIX_SCAN, KC_RANKING, KC_COMPOSITE, KC_BLOCKS};
  const char *why = refused(z, l, from);
  kernel_class mine = class_of(z, l), other = class_of(z, from);
  if (why) return why;
  if (l->kernel == from->kernel && l->step) return "another part of the same step";
  if (!mine || !other) return "stages stay apart at this level of optimisation";
  if (l->block != from->block) return "not in the same branch or loop";
  for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
    if (openers[i] == mine) return arena_fmt(z->a, "a %s begins a kernel", kernel_class_name(mine));
  for (size_t i = 3; i < sizeof openers / sizeof *openers; i++)
    if (openers[i] == other) return arena_fmt(z->a, "nothing joins a %s", kernel_class_name(other));
  if (other == KC_COPY) return "only element-wise work joins a copy";
  if (!reads_directly(z, l, from)) return "reads what several kernels put together";
  if (l->stages.n > 1) return "joined another kernel that it reads from";
  return "no rule joins them";
}
/* the launches that a stage reads from; through placements, which are no launch of their own */
static void sources(sizes *z, const stage *x, u32vec *out) {
  u32vec loads = {0};
  if (x->value) expr_loads(z->p->m, x->value, z->a, &loads);
  for (uint32_t u = 0; u < x->updates.n; u++) expr_loads(z->p->m, x->updates.v[u].value, z->a, &loads);
  for (uint32_t q = 0; q < loads.n; q++) {
    const tensor *t = xt(z->p->m, exn(z->p->m, loads.v[q])->tensor);
    uint64_t at;
    if (t->kind != TK_STAGE) continue;
    if (map_getu(z->launch_of, t->stage, &at))
      vec_once(z->a, out, (uint32_t)at - 1);
    else if (!xs(z->p->m, t->stage)->kernel && ++z->depth < 64)
      sources(z, xs(z->p->m, t->stage), out), z->depth--;
  }
}
static void why_separate(sizes *z, uint32_t i, ek_kernel *k) {
  const splan *s = z->p->s;
  const launch *l = &s->launches.v[i];
  u32vec all = {0}, from = {0};
  sbuf b = sbuf_new(z->a);
  for (uint32_t j = 0; j < l->stages.n; j++) sources(z, xs(z->p->m, l->stages.v[j]), &all);
  for (uint32_t j = 0; j < all.n; j++)
    if (all.v[j] != i) vec_push(z->a, from, all.v[j]);
  for (uint32_t j = 0; j < from.n; j++)
    sb_fmt(&b, "%s%s: %s", j ? "\n" : "", s->launches.v[from.v[j]].name, separated_by(z, l, &s->launches.v[from.v[j]]));
  k->apart = b.s ? b.s : "";
}

static void describe_launches(profile *p, sizes *z) {
  const splan *s = z->p->s;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < s->launches.v[i].stages.n; k++)
      map_putu(z->launch_of, s->launches.v[i].stages.v[k], i + 1);
  for (uint32_t i = 0; i < p->n; i++) {
    const launch *l = &s->launches.v[i];
    ek_kernel *k = &p->table[i];
    bool known = l->kernel < z->p->m->kernels.n;
    k->name = l->name, k->tensors = l->note, k->parallel = l->parallel;
    k->kind = !l->stages.n ? "halo" : known ? kernel_class_name(z->p->m->kernels.v[l->kernel].cls) : "stage";
    k->how = known && z->p->m->kernels.v[l->kernel].note ? z->p->m->kernels.v[l->kernel].note : "";
    count(z, l, k);
    why_separate(z, i, k);
  }
  name_nodes(z, p);
}
void profile_kernels(profile *p, const int64_t *in_dims, bool sized) {
  pipeline *q = p->m->p;
  CTX_TRY(q->c) {
    if (!sized) {
      sizes z = {.p = q, .c = q->c, .a = q->a, .value = map_new(q->a), .launch_of = map_new(q->a)};
      bind(&z, in_dims);
      describe_launches(p, &z);
    }
  }
  CTX_CATCH {
    for (uint32_t i = 0; i < p->n; i++)
      p->table[i] = (ek_kernel){.name = "",
                                .kind = "",
                                .tensors = "",
                                .nodes = "",
                                .how = "",
                                .apart = "",
                                .ops = -1,
                                .bytes = -1,
                                .weight_bytes = -1};
  }
  for (uint32_t i = 0; i < p->n; i++) p->table[i].starts = p->starts[i], p->table[i].ms = (double)p->ns[i] * 1e-6;
}
