/* Saving the graph itself as an ONNX file, for other programs: what only this compilation's sizes and constants
 * decide is decided.
 *
 *   functions are inlined, nodes are in the newest form of their operators (both done at import); sizes that
 *   --dim fixes are numbers
 *   what constants alone decide is computed, unless it would take more room than they do, or undo a quantisation;
 *   so are small integers that follow from shapes
 *   an If whose condition is known is the branch that is taken; Identity nodes and nodes whose results nobody
 *   needs are gone
 *
 * Shapes and values come from the operators' definitions. A model that cannot be lowered (an operator without a
 * definition, strings, sequences at its ports) is written as it was read.
 */
#include "eval/eval.h"
#include "driver/driver.h"
#include "onnx/onnx.h"
#include <string.h>

enum { SMALL = 1 << 16 /* bytes of a computed constant that are never too many */ };
typedef struct saver {
  pipeline *p; /* the compilation */
  graph *g;    /* the graph */
  arena *a;    /* memory */
  map *by;     /* value -> the value that stands for it */
  map *needed; /* values */
  map *random; /* names of nodes */
} saver;
static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }
static bool has(const map *m, const void *p) { return map_getu(m, key(p), NULL); }
static bool is_output(const saver *s, const value *v) {
  for (uint32_t i = 0; i < s->g->outputs.n; i++)
    if (s->g->outputs.v[i] == v) return true;
  return false;
}

/* ---- is the model one of tensors of numbers, whose operators are all known? ------------------ */
static bool plain_value(const value *v) { return !v || (v->kind == VALUE_TENSOR && v->type != ET_STR); }
static bool plain(const saver *s, const graph *g) {
  for (uint32_t i = 0; i < g->inputs.n; i++)
    if (!plain_value(g->inputs.v[i])) return false;
  for (uint32_t i = 0; i < g->outputs.n; i++)
    if (!plain_value(g->outputs.v[i])) return false;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    for (uint32_t k = 0; k < n->in.n; k++)
      if (!plain_value(n->in.v[k])) return false;
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g && !plain(s, n->attrs.v[k].g)) return false;
  }
  return true;
}
/* Types, shapes and small values of everything; NULL when the model cannot be lowered. */
static emodule *infer(saver *s, graph *g) {
  emodule *volatile m = NULL;
  ctx *c = s->p->c;
  uint32_t before = diag_mark(c);
  CTX_TRY(c) { m = lower_graph(g, s->p->lib, s->p->o.dims, s->p->o.ndims); }
  CTX_CATCH { m = NULL; }
  if (!m) diag_reset(c, before);
  return m;
}

/* ---- branches and copies ------------------------------------------------------------------------ */
static const attr *branch(const node *n, bool then) { return node_attr(n, then ? "then_branch" : "else_branch"); }
static bool condition(const node *n, bool *then) {
  if (n->domain[0] || strcmp(n->op, "If") || !n->in.n || !n->in.v[0] || !n->in.v[0]->data ||
      n->in.v[0]->data->type != ET_BOOL || n->in.v[0]->data->bytes < 1)
    return false;
  *then = *(const uint8_t *)n->in.v[0]->data->data != 0;
  return branch(n, *then) && branch(n, *then)->g && branch(n, *then)->g->outputs.n >= n->out.n;
}
/* Identity nodes and decided branches; true when there were any. */
static bool shorten(saver *s) {
  graph *g = s->g;
  VEC(node *) out = {0};
  bool any = false, then;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    if (!n->domain[0] && !strcmp(n->op, "Identity") && n->in.n == 1 && n->in.v[0] && n->out.n == 1 && n->out.v[0] &&
        !is_output(s, n->out.v[0])) {
      map_putu(s->by, key(n->out.v[0]), key(n->in.v[0]));
      any = true;
    } else if (condition(n, &then)) {
      graph *b = branch(n, then)->g;
      for (uint32_t k = 0; k < b->nodes.n; k++) vec_push(s->a, out, b->nodes.v[k]);
      for (uint32_t k = 0; k < b->values.n; k++) vec_push(s->a, g->values, b->values.v[k]);
      for (uint32_t k = 0; k < n->out.n; k++) {
        if (!n->out.v[k]) continue;
        if (!is_output(s, n->out.v[k])) {
          map_putu(s->by, key(n->out.v[k]), key(b->outputs.v[k]));
          continue;
        }
        node *same = graph_node(g, "Identity", "", arena_fmt(s->a, "%s.%u", n->name, k));
        g->nodes.n--; /* the node stands in the new list now */
        vec_push(s->a, same->in, b->outputs.v[k]);
        vec_push(s->a, same->out, n->out.v[k]);
        n->out.v[k]->def = same;
        vec_push(s->a, out, same);
      }
      any = true;
    } else
      vec_push(s->a, out, n);
  }
  g->nodes.v = (void *)out.v, g->nodes.n = out.n, g->nodes.cap = out.cap;
  graph_replace_uses(g, s->by);
  return any;
}

/* ---- constants ------------------------------------------------------------------------------- */
static bool whole_size(const saver *s, const value *v, int64_t *bytes) {
  int64_t n = 1, d;
  if (!v->ranked || !v->type || v->type == ET_STR || v->rank > MAX_RANK) return false;
  for (uint32_t i = 0; i < v->rank; i++)
    if (!v->dims[i] || !sym_is_int(s->p->c, v->dims[i], &d) || d < 0 || !mul64(n, d, &n)) return false;
  return mul64(n, et_bytes(v->type), bytes);
}
static void make_constant(saver *s, value *v, const ndarray *d) {
  ndarray *copy = NEW(s->a, ndarray);
  *copy = *d;
  v->data = copy, v->def = NULL;
  v->type = d->type, v->ranked = true, v->rank = d->rank;
  sz *dims = NEWN(s->a, sz, d->rank + 1);
  for (uint32_t i = 0; i < d->rank; i++) dims[i] = sym_int(s->p->c, d->dims[i]);
  v->dims = dims;
}
static bool known_values(saver *s, value *v) { /* Are the values integers that follow from shapes? */
  int64_t bytes, x;
  if (!v->values || et_kind(v->type) == K_FLOAT || !whole_size(s, v, &bytes)) return false;
  uint32_t w = et_bytes(v->type);
  ndarray d = {.type = v->type, .rank = v->rank, .bytes = (size_t)bytes};
  uint8_t *p = arena_alloc(s->a, (size_t)bytes + 1);
  for (uint32_t i = 0; i < v->rank; i++) d.dims[i] = sym_int_or(s->p->c, v->dims[i], 0);
  for (int64_t i = 0; i < bytes / w; i++) {
    if (!v->values[i] || !sym_is_int(s->p->c, v->values[i], &x)) return false;
    et_store(v->type, p + i * w, (scalar){.i = x});
  }
  d.data = p;
  make_constant(s, v, &d);
  return true;
}
static bool uses_random(const emodule *m, ex e, map *seen) {
  const ex_node *n = exn(m, e);
  if (!e || map_getu(seen, e, NULL)) return false;
  map_putu(seen, e, 1);
  if (n->kind == EX_OP && n->op == OP_RAND) return true;
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++)
    if (uses_random(m, n->args[i], seen)) return true;
  return uses_random(m, n->otherwise, seen) || uses_random(m, n->where, seen) || uses_random(m, n->body, seen) ||
         uses_random(m, n->payload, seen);
}
static void find_random(saver *s, const emodule *m) {
  for (uint32_t i = 0; i < m->stages.n; i++) {
    const stage *x = xs(m, i);
    const char *origin = xt(m, x->tensor)->origin;
    if (origin && x->value && uses_random(m, x->value, map_new(s->a))) map_puts(s->random, origin, 1);
  }
}
/* Does n follow from constants alone, in no more room than they take? */
static bool computable(saver *s, const node *n, const map *folded) {
  int64_t in = 0, out = 0, b;
  /* what is kept in few bits stays so */
  if (!n->in.n || !n->out.n || map_gets(s->random, n->name, NULL) || !strcmp(n->op, "DequantizeLinear")) return false;
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (n->attrs.v[i].g) return false;
  for (uint32_t i = 0; i < n->in.n; i++) {
    if (!n->in.v[i]) continue;
    if (!(n->in.v[i]->data || has(folded, n->in.v[i])) || !whole_size(s, n->in.v[i], &b)) return false;
    in += b;
  }
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!n->out.v[i] || !has(s->needed, n->out.v[i])) continue;
    if (is_output(s, n->out.v[i]) || !plain_value(n->out.v[i]) || !whole_size(s, n->out.v[i], &b)) return false;
    out += b;
  }
  return out <= in || out <= SMALL;
}
/* What the nodes that constants decide come to, computed by the evaluator; true when there were any. */
static bool fold(saver *s) {
  graph *g = s->g, *some = graph_new(g->c, NULL, "constants");
  map *folded = map_new(s->a);
  bool any = false;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    if (n->out.n == 1 && n->out.v[0] && !is_output(s, n->out.v[0]) && has(s->needed, n->out.v[0]) &&
        known_values(s, n->out.v[0])) {
      any = true;
      continue;
    }
    if (!computable(s, n, folded)) continue;
    vec_push(s->a, some->nodes, n);
    for (uint32_t k = 0; k < n->out.n; k++)
      if (n->out.v[k] && has(s->needed, n->out.v[k]) && !n->out.v[k]->data)
        map_putu(folded, key(n->out.v[k]), 1), vec_push(s->a, some->outputs, n->out.v[k]);
  }
  if (!some->outputs.n) return any;
  some->names = g->names;
  emodule *m = infer(s, some);
  if (!m) return any;
  evaluation *v = expr_eval_new(m, s->a, s->p->o.compile_threads);
  expr_eval_run(v);
  for (uint32_t i = 0; i < some->outputs.n; i++)
    make_constant(s, some->outputs.v[i], expr_eval_get(v, m->outputs.v[i].t));
  return true;
}

static void simplify(saver *s) {
  if (!plain(s, s->g)) return;
  for (int round = 0; round < 8; round++) { /* a branch that is decided may decide others */
    emodule *m = infer(s, s->g);
    if (!m) return;
    find_random(s, m);
    s->needed = graph_needed(s->g);
    bool any = s->p->o.level > 0 && fold(s);
    any |= shorten(s);
    s->needed = graph_needed(s->g);
    graph_drop_unneeded(s->g, s->needed);
    if (!any) return;
  }
  infer(s, s->g);
}
void simplify_graph(pipeline *p, const ops_sources *ops) {
  saver s = {.p = p, .g = p->g, .a = p->a, .by = map_new(p->a), .random = map_new(p->a)};
  p->lib = pipe_library(p->c, ops);
  simplify(&s);
}
void save_as_onnx(pipeline *p, const ops_sources *ops, const char *path, ek_report *report) {
  simplify_graph(p, ops);
  if (!graph_verify(p->g, "saving") || diag_errors(p->c)) ctx_unwind(p->c);
  uint64_t size = 0;
  if (!onnx_write(p->g, path, &size)) ctx_unwind(p->c);
  if (report) report->memory = "", report->file_bytes = size;
}
