/* What is a model made of, and how much work is it? Layers are the nodes of the graph; their work is counted in the
 * stages that their definitions expand to, before any rewriting, so that the figures do not depend on the compiler's
 * cleverness. Counts are polynomials in the open dimensions. A multiplication whose result goes straight into a sum is
 * one MAC together with the addition; padding counts like data; both branches of an If count, the body of a loop counts
 * as often as it runs (once where that is not known before the run). */
#include "driver/driver.h"
#include "train/train.h"
#include <string.h>
#include <strings.h>

enum { W_MAC, W_ADD, W_MUL, W_DIV, W_FUN, W_CMP, W_ACT, W_ACT_BYTES, W_COUNT };
typedef struct layer {
  const node *n;      /* the node */
  sz w[W_COUNT];      /* each kind of work */
  int64_t parameters; /* elements of the constants that it reads */
} layer;
typedef struct counting {
  ctx *c;                  /* context */
  arena *a;                /* memory */
  emodule *m;              /* the module */
  VEC(layer) layers;       /* the nodes */
  map *by_name;            /* node name -> layer */
  map *constants;          /* bytes -> counted */
  sz w[W_COUNT];           /* each kind of work of the whole model */
  int64_t parameters;      /* elements of all constants */
  int64_t parameter_bytes; /* bytes of all constants */
  int64_t nodes;           /* number of nodes */
  sz stage[W_COUNT];       /* each kind of work of the current stage */
  map *seen;               /* ex -> visited */
} counting;

/* ---- layers from the graph ------------------------------------------------------------------- */
static sz elements(counting *k, const value *v) {
  sz n = sym_int(k->c, 1);
  for (uint32_t d = 0; d < v->rank; d++) n = sym_mul(k->c, n, v->dims[d]);
  return n;
}
static void parameters(counting *k, const value *v, layer *l) {
  int64_t n;
  uint64_t seen;
  if (!v || !v->data || !nd_count(v->data, &n)) return;
  l->parameters += n;
  if (map_getu(k->constants, (uint64_t)(uintptr_t)v, &seen)) return;
  map_putu(k->constants, (uint64_t)(uintptr_t)v, 1);
  k->parameters += n;
  k->parameter_bytes += n * et_bytes(v->data->type);
}
static void add_layers(counting *k, const graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    layer l = {.n = n};
    for (int q = 0; q < W_COUNT; q++) l.w[q] = sym_int(k->c, 0);
    for (uint32_t j = 0; j < n->in.n; j++) parameters(k, n->in.v[j], &l);
    for (uint32_t j = 0; j < n->out.n; j++) {
      const value *v = n->out.v[j];
      if (!v || !v->ranked || !v->type) continue;
      sz e = elements(k, v);
      l.w[W_ACT] = sym_add(k->c, l.w[W_ACT], e);
      l.w[W_ACT_BYTES] = sym_add(k->c, l.w[W_ACT_BYTES], sym_muli(k->c, e, et_bytes(v->type)));
    }
    for (int q = W_ACT; q < W_COUNT; q++) k->w[q] = sym_add(k->c, k->w[q], l.w[q]);
    uint64_t have;
    if (!map_gets(k->by_name, n->name, &have)) map_puts(k->by_name, n->name, k->layers.n);
    vec_push(k->a, k->layers, l);
    k->nodes++;
    for (uint32_t j = 0; j < n->attrs.n; j++)
      if (n->attrs.v[j].g) add_layers(k, n->attrs.v[j].g);
  }
}

/* ---- work from the stages -------------------------------------------------------------------- */
static int kind_of(sop op) {
  switch (op) {
  case OP_ADD:
  case OP_SUB:
    return W_ADD;
  case OP_MUL:
    return W_MUL;
  case OP_FMA:
    return W_MAC;
  case OP_DIV:
  case OP_IDIV:
  case OP_MOD:
  case OP_FMOD:
    return W_DIV;
  case OP_MIN:
  case OP_MAX:
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
    return W_CMP;
  default:
    return op_cost(op) > 2 ? W_FUN : -1;
  }
}
static void count(counting *k, ex e, sz points);
static void tally(counting *k, int what, sz points) {
  if (what >= 0) k->stage[what] = sym_add(k->c, k->stage[what], points);
}
/* A factor is made once for all that share it: each operation counts as often as its own variables have values. */
static void count_factor(counting *k, ex e, sz points) {
  const ex_node n = *exn(k->m, e);
  u32vec vars = {0};
  sz own = sym_int(k->c, 1);
  uint64_t seen;
  if (n.kind != EX_OP) {
    count(k, e, points);
    return;
  }
  if (map_getu(k->seen, e, &seen)) return;
  map_putu(k->seen, e, 1);
  expr_vars(k->m, e, k->a, &vars);
  for (uint32_t i = 0; i < vars.n; i++) own = sym_mul(k->c, own, sym_extent(k->c, vars.v[i]));
  tally(k, kind_of((sop)n.op), own);
  for (uint32_t i = 0; i < n.nargs; i++) count_factor(k, n.args[i], points);
}
static void count_reduce(counting *k, const ex_node *n, sz points) {
  sz inner = points;
  for (uint32_t i = 0; i < n->nargs; i++) inner = sym_mul(k->c, inner, sym_extent(k->c, n->args[i]));
  ex b = n->body;
  while (exn(k->m, b)->kind == EX_OP && exn(k->m, b)->op == OP_CAST) b = exn(k->m, b)->args[0];
  const ex_node body = *exn(k->m, b);
  if (n->where) count(k, n->where, inner);
  if (n->payload) count(k, n->payload, inner);
  if (n->op == RED_SUM && body.kind == EX_OP && body.op == OP_MUL) {
    tally(k, W_MAC, inner);
    for (uint32_t i = 0; i < body.nargs; i++) count_factor(k, body.args[i], inner);
    return;
  }
  tally(k, n->op == RED_SUM ? W_ADD : n->op == RED_PROD ? W_MUL : W_CMP, inner);
  count(k, n->body, inner);
}
static void count(counting *k, ex e, sz points) {
  uint64_t seen;
  if (!e || map_getu(k->seen, e, &seen)) return;
  map_putu(k->seen, e, 1);
  const ex_node n = *exn(k->m, e);
  if (n.kind == EX_REDUCE) {
    count_reduce(k, &n, points);
    return;
  }
  if (n.kind == EX_LOAD) count(k, n.otherwise, points);
  if (n.kind != EX_OP) return;
  tally(k, kind_of((sop)n.op), points);
  for (uint32_t i = 0; i < n.nargs; i++) count(k, n.args[i], points);
}
static sz times(counting *k, uint32_t block) { /* how often a block runs */
  sz n = sym_int(k->c, 1);
  for (uint32_t b = block; b; b = k->m->blocks.v[b].parent)
    for (uint32_t i = 0; i < k->m->loops.n; i++)
      if (k->m->loops.v[i].body == b && k->m->loops.v[i].trips && !sym_uses_kind(k->c, k->m->loops.v[i].trips, AT_DATA))
        n = sym_mul(k->c, n, k->m->loops.v[i].trips);
  return n;
}
/* counts the work of a stage in k->stage */
static void stage_work(counting *k, const stage *s, sz points) {
  for (int q = 0; q < W_COUNT; q++) k->stage[q] = sym_int(k->c, 0);
  k->seen = map_new(k->a);
  sz all = points;
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t d = 0; d < s->axes[i].n; d++) all = sym_mul(k->c, all, s->axes[i].d[d].extent);
  count(k, s->value, all);
  for (uint32_t u = 0; u < s->updates.n; u++) {
    const update *x = &s->updates.v[u];
    sz at = points;
    for (uint32_t i = 0; i < x->nvars; i++) at = sym_mul(k->c, at, sym_extent(k->c, x->vars[i]));
    count(k, x->value, at);
    count(k, x->cond, at);
    if (x->op) tally(k, kind_of(x->op), at);
  }
}
sz info_stage_ops(ctx *c, emodule *m, const stage *s) {
  counting *k = NEW(ctx_arena(c), counting);
  *k = (counting){.c = c, .a = ctx_arena(c), .m = m};
  stage_work(k, s, sym_int(c, 1));
  sz n = sym_muli(c, k->stage[W_MAC], 2);
  for (int q = W_ADD; q < W_ACT; q++) n = sym_add(c, n, k->stage[q]);
  return n;
}
static void count_stage(counting *k, const stage *s) {
  stage_work(k, s, times(k, s->block));
  uint64_t l;
  const char *origin = xt(k->m, s->tensor)->origin;
  bool known = origin && map_gets(k->by_name, origin, &l);
  for (int q = 0; q < W_ACT; q++) {
    k->w[q] = sym_add(k->c, k->w[q], k->stage[q]);
    if (known) k->layers.v[l].w[q] = sym_add(k->c, k->layers.v[l].w[q], k->stage[q]);
  }
}

/* ---- the report ------------------------------------------------------------------------------ */
static ek_count figure(ctx *c, sz e) {
  ek_count r = {-1, sym_str(c, e)};
  sym_is_int(c, e, &r.value);
  return r;
}
static ek_work work_of(ctx *c, const sz *w) {
  return (ek_work){figure(c, w[W_MAC]), figure(c, w[W_ADD]), figure(c, w[W_MUL]), figure(c, w[W_DIV]),
                   figure(c, w[W_FUN]), figure(c, w[W_CMP]), figure(c, w[W_ACT]), figure(c, w[W_ACT_BYTES])};
}
static const char *shape_text(ctx *c, const value *v) {
  sbuf b = sbuf_new(ctx_arena(c));
  sb_put(&b, v && v->type ? et_name(v->type) : "?");
  sb_put(&b, "[");
  for (uint32_t d = 0; v && v->ranked && d < v->rank; d++) sb_fmt(&b, "%s%s", d ? ", " : "", sym_str(c, v->dims[d]));
  sb_put(&b, "]");
  return b.s;
}
static ek_code describe_model(pipeline *p, void *env) {
  ek_model_info *out = env;
  if (p->stopped) ctx_fail(p->c, E_CANCELLED, "compilation ended after pass %s, as asked", p->o.stop_after.name);
  counting *k = NEW(p->a, counting);
  *k = (counting){.c = p->c, .a = p->a, .m = p->m, .by_name = map_new(p->a), .constants = map_new(p->a)};
  for (int q = 0; q < W_COUNT; q++) k->w[q] = sym_int(p->c, 0);
  add_layers(k, p->g);
  for (uint32_t i = 0; i < p->m->stages.n; i++)
    if (!xs(p->m, i)->dead && !expr_of_check(p->m, xs(p->m, i)->tensor)) count_stage(k, xs(p->m, i));
  ek_layer *layers = NEWN(p->a, ek_layer, k->layers.n + 1);
  for (uint32_t i = 0; i < k->layers.n; i++) {
    const layer *l = &k->layers.v[i];
    const char *op = l->n->domain[0] ? arena_fmt(p->a, "%s::%s", l->n->domain, l->n->op) : l->n->op;
    layers[i] = (ek_layer){l->n->name, op, shape_text(p->c, l->n->out.n ? l->n->out.v[0] : NULL), work_of(p->c, l->w),
                           l->parameters};
  }
  *out = (ek_model_info){.name = p->g->name,
                         .producer = p->g->producer ? p->g->producer : "",
                         .ir_version = p->g->ir_version,
                         .opset = p->g->opset,
                         .nodes = k->nodes,
                         .parameters = k->parameters,
                         .parameter_bytes = k->parameter_bytes,
                         .work = work_of(p->c, k->w),
                         .layer_count = k->layers.n,
                         .layers = layers};
  return EK_OK;
}
static ek_code kept(ek_session *s, ctx *c, ek_code code) {
  if (code) return code;
  ctx_free(s->scratch);
  s->scratch = c;
  return EK_OK;
}
ek_code ek_model_describe(ek_model *m, const ek_options *o, ek_model_info *out) {
  ctx *c;
  if (out) *out = (ek_model_info){.name = ""};
  if (!m || !out) return session_null(m ? m->s : NULL);
  ek_code code = in_pipe(m, o, NULL, describe_model, out, &c);
  return kept(m->s, c, code);
}

/* ---- lists: passes, operators, targets ------------------------------------------------------- */
typedef struct listing {
  ek_session *s;      /* the session */
  const char *name;   /* name that is looked for */
  const char *domain; /* its domain; NULL: not asked for */
  const void *list;   /* the entries */
  size_t n;           /* number of entries */
} listing;
static void list_passes(ctx *c, listing *l) {
  uint32_t n;
  const pipe_pass *all = pipe_passes(ctx_arena(c), &n);
  ek_pass_info *r = NEWN(ctx_arena(c), ek_pass_info, n + 1);
  for (uint32_t i = 0; i < n; i++)
    r[i] = (ek_pass_info){plevel_name(all[i].level), all[i].name, all[i].doc, all[i].from};
  l->list = r, l->n = n;
}
static oplib *library(ctx *c, ek_session *s) {
  ops_sources ops = own_ops_sources(c, s->ops, s->nops);
  return pipe_library(c, &ops);
}
static void list_ops(ctx *c, listing *l) {
  oplib *lib = library(c, l->s);
  uint32_t n = notation_count(lib);
  ek_op_info *r = NEWN(ctx_arena(c), ek_op_info, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    const opdef *d = notation_nth(lib, i);
    sbuf b = sbuf_new(ctx_arena(c));
    opdef_signature(d, &b);
    srcpos at = opdef_pos(d);
    const char *name = opdef_name(d), *domain = opdef_domain(d);
    if (domain[0]) name = arena_fmt(ctx_arena(c), "%s::%s", domain, name);
    r[i] = (ek_op_info){name, b.s ? b.s : "", opdef_doc(d), at.file ? at.file : "", at.line};
  }
  l->list = r, l->n = n;
}
static void op_source(ctx *c, listing *l) {
  oplib *lib = library(c, l->s);
  const char *colon = strstr(l->name, "::");
  const opdef *d = colon
                       ? notation_find(lib, arena_strndup(ctx_arena(c), l->name, (size_t)(colon - l->name)), colon + 2)
                       : notation_find(lib, "", l->name);
  if (!d)
    ctx_fail(c, E_USAGE, "there is no operator %s%s; `einkorn ops` lists those there are", l->name,
             notation_meant(lib, ctx_arena(c), "", colon ? colon + 2 : l->name));
  sbuf b = sbuf_new(ctx_arena(c));
  opdef_print(d, &b);
  l->list = b.s ? b.s : "", l->n = b.n;
}
static oplib *session_library(ctx *c, void *s) { return library(c, s); }
static void op_table(ctx *c, listing *l) {
  sbuf b = sbuf_new(ctx_arena(c));
  ops_table(c, session_library, l->s, &b);
  l->list = b.s ? b.s : "", l->n = b.n;
}
static void list_targets(ctx *c, listing *l) {
  const char **names;
  l->n = target_names(c, &names);
  l->list = names;
}
static void rule_inputs(ctx *c, listing *l) {
  const train_rule r = train_parse_rule(c, library(c, l->s), l->domain,
                                        strcmp(l->domain, TRAIN_METRIC_DOMAIN) ? "loss" : "metric", l->name);
  const uint32_t n = opdef_inputs(r.d);
  ek_rule_input *in = NEWN(ctx_arena(c), ek_rule_input, n + 1);
  for (uint32_t i = 1; i < n; i++)
    in[i - 1] = (ek_rule_input){opdef_input(r.d, i), opdef_input_takes(r.d, i, ET_I64),
                                opdef_input_takes(r.d, i, ET_F32), opdef_input_is_optional(r.d, i)};
  l->list = in, l->n = n ? n - 1 : 0;
}
static bool fill(ctx *c, void (*fn)(ctx *c, listing *l), listing *l) {
  volatile bool good = false;
  CTX_TRY(c) {
    fn(c, l);
    good = true;
  }
  CTX_CATCH {}
  return good;
}
static ek_code make_list(ek_session *s, void (*fn)(ctx *c, listing *l), listing *l) {
  ctx *c = session_ctx(s);
  l->s = s;
  bool good = c && fill(c, fn, l);
  ek_code code = session_done(s, c, good ? EK_OK : EK_FAILED);
  if (code) ctx_free(c);
  return kept(s, c, code);
}
ek_code ek_passes(ek_session *s, const ek_pass_info **passes, size_t *n) {
  if (!s || !passes || !n) return session_null(s);
  listing l = {0};
  ek_code code = make_list(s, list_passes, &l);
  *passes = l.list, *n = l.n;
  return code;
}
ek_code ek_ops(ek_session *s, const ek_op_info **ops, size_t *n) {
  if (!s || !ops || !n) return session_null(s);
  listing l = {0};
  ek_code code = make_list(s, list_ops, &l);
  *ops = l.list, *n = l.n;
  return code;
}
ek_code ek_op_source(ek_session *s, const char *name, const char **text) {
  if (!s || !name || !text) return session_null(s);
  listing l = {.name = name};
  ek_code code = make_list(s, op_source, &l);
  *text = l.list ? l.list : "";
  return code;
}
ek_code ek_rule_inputs(ek_session *s, const char *domain, const char *rule, const ek_rule_input **in, size_t *n) {
  if (!s || !domain || !rule || !in || !n) return session_null(s);
  listing l = {.name = rule, .domain = domain};
  ek_code code = make_list(s, rule_inputs, &l);
  *in = l.list, *n = l.n;
  return code;
}
ek_code ek_ops_table(ek_session *s, const char **text) {
  if (!s || !text) return session_null(s);
  listing l = {0};
  ek_code code = make_list(s, op_table, &l);
  *text = l.list ? l.list : "";
  return code;
}
ek_code ek_targets(ek_session *s, const char *const **names, size_t *n) {
  if (!s || !names || !n) return session_null(s);
  listing l = {0};
  ek_code code = make_list(s, list_targets, &l);
  *names = l.list, *n = l.n;
  return code;
}
