/* The text of any level, for people: at the end of its passes or after one of them, in full or only what comes from
 * one node of the model. */
#include "codegen/llvm/llvm.h"
#include "driver/driver.h"
#include "train/train.h"
#include <string.h>

typedef struct showing {
  const ek_model *m;   /* the model */
  ek_show_options w;   /* what is wanted */
  inner_options inner; /* more options of the compilation */
  sbuf b;              /* the text */
} showing;
enum { SHOW_LLVM = PL_CODE, SHOW_ASM, SHOW_SCHEDULE, SHOW_COST, SHOW_CANDIDATES };
static int stage_of(ctx *c, const char *name) {
  static const char *const names[] = {"graph", "expr",     "loop", "program",   "llvm",
                                      "asm",   "schedule", "cost", "candidates"};
  for (int i = 0; i < SHOW_CANDIDATES; i++)
    if (!strcmp(name, names[i])) return i + 1;
  ctx_fail(c, E_USAGE,
           "there is no stage %s; the stages are graph, expr, schedule, candidates, loop, cost, program, llvm and asm",
           name);
}
static void setup(pipeline *p, void *env) {
  showing *s = env;
  inner_apply(p, &s->inner);
  p->o.show_node = s->w.node;
  p->o.weights_inline = s->w.weights_inline != 0;
  p->o.record = s->w.stage && (!strcmp(s->w.stage, "schedule") || !strcmp(s->w.stage, "candidates"));
  if (!s->w.after) return;
  p->o.show_after = pipe_pass_ref(p->c, s->w.after);
  /* compilation may fail behind the pass that is shown */
  if (!p->o.stop_after.name && (!strcmp(p->o.show_after.name, "load") || !strcmp(p->o.show_after.name, "lower")))
    p->o.stop_after = p->o.show_after;
}
/* Does a launch compute a tensor of that node? */
static bool launches_node(pipeline *p, const launch *l, const char *node) {
  if (l->kernel >= p->m->kernels.n) return false;
  const kernel *k = &p->m->kernels.v[l->kernel];
  for (uint32_t i = 0; i < k->stages.n; i++) {
    const char *o = xt(p->m, xs(p->m, k->stages.v[i])->tensor)->origin;
    if (o && !strcmp(o, node)) return true;
  }
  return false;
}
static void show_function(pipeline *p, int stage, const char *only, sbuf *b) {
  code_opts o = pipe_code_opts(p);
  if (stage == PL_LOOP)
    loop_print(p->s->l, b, only);
  else if (stage == SHOW_ASM)
    emit_asm(p->c, p->s->l, p->t, &o, only, b);
  else
    llvm_text(p->c, p->s->l, p->t, o.level, only, b);
}
typedef struct of_node {
  pipeline *p;      /* the compilation */
  const char *node; /* the node; NULL: any */
} of_node;
static bool wants_launch(void *env, const launch *l) {
  const of_node *w = env;
  return !w->node || launches_node(w->p, l, w->node);
}
/* Other ways to store the tensors that each kernel computes, and other schedules of it. */
static void show_candidates(pipeline *p, const char *node, sbuf *b) {
  storages all = {0};
  for (uint32_t i = 0; i < p->s->launches.n; i++)
    if (!node || launches_node(p, &p->s->launches.v[i], node)) schedule_storages(p->s, &p->s->launches.v[i], &all);
  for (uint32_t i = 0; i < all.n; i++) candidates_print_tensor(p->a, all.v[i], b);
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const launch *l = &p->s->launches.v[i];
    if (!l->facts || (node && !launches_node(p, l, node))) continue;
    const candidates c = candidates_of(p->a, l->record, l->facts, p->t);
    candidates_print(p->a, &c, b);
  }
}
/* What each kernel is estimated to take in a run, in cycles of one core. */
static void show_costs(pipeline *p, const char *node, sbuf *b) {
  sb_fmt(b, "%12s %12s %12s %12s %12s  kernel\n", "cycles", "core", "l2", "l3", "memory");
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const launch *l = &p->s->launches.v[i];
    if (node && !launches_node(p, l, node)) continue;
    const loop_cost c = launch_cost(p->s, l);
    const double n = l->step ? (double)expr_typical(p->m, l->steps) : 1;
    sb_fmt(b, "%12.0f %12.0f %12.0f %12.0f %12.0f  %s: %s\n", n * c.cycles, n * c.core, n * c.l2, n * c.l3,
           n * c.memory, l->name, l->note);
  }
}
static void show_functions(pipeline *p, int stage, const char *node, sbuf *b) {
  if (!node) {
    show_function(p, stage, NULL, b);
    return;
  }
  map *done = map_new(p->a);
  for (uint32_t i = 0; i < p->s->launches.n; i++) {
    const launch *l = &p->s->launches.v[i];
    uint64_t seen;
    /* only a program that is built shares code between kernels */
    const char *name = (l->code ? l->code : l->func)->name;
    if (!launches_node(p, l, node) || map_gets(done, name, &seen)) continue;
    map_puts(done, name, 1);
    show_function(p, stage, name, b);
  }
  if (!map_count(done))
    ctx_fail(p->c, E_USAGE,
             "no kernel comes from a node %s alone or with others (it may have been folded away, or lie in another "
             "node's kernel)",
             node);
}
/* The names of all nodes, those of regions included. */
static void node_names(const graph *g, arena *a, strvec *v) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    vec_push(a, *v, g->nodes.v[i]->name);
    for (uint32_t k = 0; k < g->nodes.v[i]->attrs.n; k++)
      if (g->nodes.v[i]->attrs.v[k].g) node_names(g->nodes.v[i]->attrs.v[k].g, a, v);
  }
}
static void check_node(pipeline *p, const char *name) {
  strvec names = {0};
  node_names(p->g, p->a, &names);
  for (uint32_t i = 0; i < names.n; i++)
    if (!strcmp(names.v[i], name)) return;
  ctx_fail(p->c, E_USAGE,
           "the model has no node %s%s; `einkorn show MODEL` prints their names, in quotes at the end of each line",
           name, did_you_mean(p->a, name, names.v, names.n));
}
static ek_code show(pipeline *p, void *env) {
  showing *s = env;
  if (s->w.node && p->g) check_node(p, s->w.node);
  int stage = stage_of(p->c, s->w.stage ? s->w.stage : "graph");
  if (s->w.after) {
    uint32_t n;
    const pipe_pass *all = pipe_passes(p->a, &n);
    for (uint32_t i = 0; i < n; i++)
      if (!strcmp(all[i].name, p->o.show_after.name) && (int)all[i].level > stage) stage = (int)all[i].level;
  }
  bool go = !p->stopped;
  if (go && (stage > PL_EXPR || (stage == PL_EXPR && (!s->w.after || !p->shown.n)))) go = pipe_optimise(p);
  if (go && stage > PL_EXPR) go = pipe_program(p);
  if (s->w.after) {
    if (!p->shown.n)
      ctx_fail(p->c, E_USAGE, "pass %s did not run%s", s->w.after,
               p->stopped ? " before the compilation was stopped" : " at this level of optimisation");
    s->b = p->shown;
    return EK_OK;
  }
  s->b = sbuf_new(p->a);
  sb_put(&s->b, "");
  /* stop_after ended the compilation before that stage */
  if (stage > (int)p->at && p->at < PL_PROGRAM) stage = (int)p->at;
  if (stage == SHOW_SCHEDULE)
    schedule_print(p->s, wants_launch, &(of_node){p, s->w.node}, &s->b);
  else if (stage == SHOW_COST)
    show_costs(p, s->w.node, &s->b);
  else if (stage == SHOW_CANDIDATES)
    show_candidates(p, s->w.node, &s->b);
  else if (stage == PL_LOOP || stage >= SHOW_LLVM)
    show_functions(p, stage, s->w.node, &s->b);
  else
    pipe_print(p, (plevel)stage, &s->b);
  return EK_OK;
}
static void add_gradients(graph *g, void *env) {
  const showing *s = env;
  const ops_sources ops = own_ops_sources(g->c, s->m->ops, s->m->nops);
  train_gradients(g, pipe_library(g->c, &ops), *s->w.grad ? s->w.grad : NULL);
}
ek_code show_inner(ek_model *m, const ek_options *o, const inner_options *x, const ek_show_options *w,
                   const char **text) {
  showing s = {.m = m};
  ctx *c;
  *text = "";
  ek_show_options_init(&s.w);
  if (w && !struct_read(w, &s.w, sizeof s.w))
    return session_fail(m->s, EK_USAGE, STRUCT_UNKNOWN("ek_show_options"), w->size, sizeof s.w);
  if (x)
    s.inner = *x;
  else if (s.w.grad)
    s.inner.edit = add_gradients, s.inner.edit_env = &s;
  ek_code code = in_pipe(m, o, setup, show, &s, &c);
  if (code) return code;
  ctx_free(m->s->scratch);
  m->s->scratch = c;
  if (s.b.s) *text = s.b.s;
  return EK_OK;
}
ek_code ek_show(ek_model *m, const ek_options *o, const ek_show_options *w, const char **text) {
  if (text) *text = "";
  return m && text ? show_inner(m, o, NULL, w, text) : session_null(m ? m->s : NULL);
}
