/* Which output of a run is an input of the next one? See the head of graph.h. */
#include "graph/graph.h"
#include <string.h>

static const char *kind_text(const graph *g, const value *v) {
  sbuf b = sbuf_new(ctx_arena(g->c));
  sb_put(&b, v->type ? et_name(v->type) : "?");
  if (!v->ranked) return b.s;
  sb_putc(&b, '[');
  for (uint32_t i = 0; i < v->rank; i++) {
    if (i) sb_put(&b, ", ");
    if (v->dims[i])
      sym_print(g->c, v->dims[i], &b);
    else
      sb_putc(&b, '?');
  }
  sb_putc(&b, ']');
  return b.s;
}
const char *graph_untied(const graph *g, const value *in, const value *out) {
  bool same =
      (!in->type || !out->type || in->type == out->type) && (!in->ranked || !out->ranked || in->rank == out->rank);
  if (in->kind != VALUE_TENSOR || out->kind != VALUE_TENSOR)
    return arena_fmt(ctx_arena(g->c), "state '%s': a state is a tensor; '%s' is none", in->source,
                     in->kind != VALUE_TENSOR ? in->source : out->source);
  for (uint32_t i = 0; same && in->ranked && out->ranked && i < in->rank; i++) {
    int64_t x, y;
    if (in->dims[i] && out->dims[i] && sym_is_int(g->c, in->dims[i], &x) && sym_is_int(g->c, out->dims[i], &y))
      same = x == y;
  }
  if (same) return NULL;
  return arena_fmt(ctx_arena(g->c), "state '%s': the output '%s' is %s, the input is %s; they must be equal",
                   in->source, out->source, kind_text(g, out), kind_text(g, in));
}
static bool tied(const graph *g, const value *v) {
  for (uint32_t i = 0; i < g->states.n; i++)
    if (g->states.v[i].in == v || g->states.v[i].out == v) return true;
  return false;
}
/* The value goes behind the others of the list. */
static void move_last(value **list, uint32_t n, const value *v) {
  uint32_t at = 0;
  while (at < n && list[at] != v) at++;
  if (at == n) return; /* the verifier will tell */
  value *last = list[at];
  for (; at + 1 < n; at++) list[at] = list[at + 1];
  list[n - 1] = last;
}
static value *output_of(const graph *g, const char *name) {
  strvec known = {0};
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    if (!strcmp(g->outputs.v[i]->source, name)) return g->outputs.v[i];
    vec_push(ctx_arena(g->c), known, g->outputs.v[i]->source);
  }
  ctx_fail(g->c, E_USAGE, "state: the model has no output of the name %s%s", name,
           did_you_mean(ctx_arena(g->c), name, known.v, known.n));
}
static value *input_of(graph *g, const char *name, const ndarray **first) {
  strvec known = {0};
  *first = NULL;
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    if (!strcmp(g->inputs.v[i]->source, name)) return g->inputs.v[i];
    vec_push(ctx_arena(g->c), known, g->inputs.v[i]->source);
  }
  for (uint32_t i = 0; i < g->values.n; i++) {
    value *v = g->values.v[i];
    if (!v->data || v->def || strcmp(v->source, name) != 0) continue;
    *first = v->data;
    v->data = NULL;
    vec_push(ctx_arena(g->c), g->inputs, v);
    return v;
  }
  ctx_fail(g->c, E_USAGE, "state: the model has no input of the name %s%s", name,
           did_you_mean(ctx_arena(g->c), name, known.v, known.n));
}
void graph_states_last(graph *g) {
  for (uint32_t i = 0; i < g->states.n; i++) {
    move_last(g->inputs.v, g->inputs.n, g->states.v[i].in);
    move_last(g->outputs.v, g->outputs.n, g->states.v[i].out);
  }
}
void graph_tie(graph *g, const char *output, const char *input) {
  graph_state s = {.out = output_of(g, output)};
  s.in = input_of(g, input, &s.first);
  const char *why = graph_untied(g, s.in, s.out);
  if (tied(g, s.in)) ctx_fail(g->c, E_USAGE, "state '%s': the input is tied to an output already", input);
  if (tied(g, s.out)) ctx_fail(g->c, E_USAGE, "state '%s': the output '%s' is tied to an input already", input, output);
  if (why) ctx_fail(g->c, E_SHAPE, "%s", why);
  vec_push(ctx_arena(g->c), g->states, s);
  graph_states_last(g);
}
