/* How does one artefact serve some sizes especially well? The whole graph is lowered twice, into the two branches of
 * a condition on sizes: once with the likely sizes in place of the symbols, so that everything is decided
 * for these numbers, and once in general. Or, where passes found that many rows want other forms than few
 * (pipeline.c), once for many of them, which then is a fact.
 *
 *   if N == 8 { X8[i<8, ..] = X[i, ..];  the graph with 8;  Y[n<N, ..] = its output[n, ..] } else { the graph with N }
 *   if N >= 4 { the graph with N, known to be at least 4 } else { the graph with N }
 *
 * One variant besides the general one, whatever the number of dimensions with a likely size. Conditions of the general
 * branch on the inputs' sizes hold for both, and are checked at entry. Where an output's size is found only while
 * running, or an output is a list, there is no variant. */
#include "driver/lower_in.h"
#include <string.h>

static bool has_variant(const dimfix *d) { return dim_likely(d) || d->variant_from; }
static sz to_likely(ctx *c, void *env, atom a) {
  const low *L = env;
  if (sym_kind(c, a) != AT_SYMBOL) return 0;
  for (uint32_t i = 0; i < L->ndims; i++)
    if (dim_likely(&L->dims[i]) && !strcmp(L->dims[i].name, sym_name(c, a))) return sym_int(c, L->dims[i].value);
  return 0;
}
/* The graph's values are not known any more, but for its constants; what the model declares of them holds again. */
static void forget(low *L) {
  while (L->declared.n) {
    const declaration *d = &L->declared.v[--L->declared.n];
    d->v->type = d->type, d->v->ranked = d->ranked, d->v->rank = d->rank, d->v->dims = d->dims;
  }
  map *old = L->vals;
  L->vals = map_new(L->a);
  for (uint32_t i = 0; i < map_count(old); i++) {
    uint64_t at;
    size_t n;
    uintptr_t v;
    memcpy(&v, map_key(old, i, &n, &at), sizeof v);
    if (((const value *)v)->data) map_putu(L->vals, v, at);
  }
}
/* A stage of this shape with the same elements. */
static arg same(low *L, uint32_t block, const arg *from, const sz *shape, const char *name) {
  emodule *m = L->m;
  sz *at = NEWN(L->a, sz, from->rank + 1);
  const axis *axes = low_axes(L, shape, from->rank, at);
  tid t = expr_tensor(m, TK_STAGE, from->type == ET_STR ? ET_U8 : from->type, shape, from->rank, name, NULL);
  expr_stage(m, block, t, axes, from->rank, expr_load(m, from->t, at, from->rank, 0));
  return (arg){.present = true, .type = from->type, .rank = from->rank, .shape = shape, .t = t};
}
static tid condition(low *L, uint32_t block) {
  emodule *m = L->m;
  const char *name = "many";
  ex all = 0;
  for (uint32_t i = 0; i < L->ndims; i++) {
    const dimfix *d = &L->dims[i];
    if (!has_variant(d)) continue;
    const bool one_size = dim_likely(d);
    if (one_size) name = "likely";
    const int64_t size = one_size ? d->value : d->variant_from;
    sz n = sym_symbol(L->c, d->name, d->lo, d->hi);
    ex one = expr_op2(m, one_size && !EK_PLANTED("lower-variant") ? OP_EQ : OP_GE, expr_index(m, n),
                      expr_i(m, ET_I64, size));
    all = all ? expr_op2(m, OP_AND, all, one) : one;
    /* for whoever asks what is known there; in a later turn low_asked has it */
    if (!L->asked_of)
      vec_push(m->a, m->guards,
               ((guard){.ge0 = sym_addi(L->c, n, -size),
                        .is_eq = one_size,
                        .text = one_size ? "the likely size" : "many of these",
                        .block = block}));
  }
  tid t = expr_tensor(m, TK_STAGE, ET_BOOL, NEWN(L->a, sz, 1), 0, name, NULL);
  expr_stage(m, 0, t, NULL, 0, all);
  return t;
}
static bool lower_into(low *L, graph *g, uint32_t block, const arg *in, arg *out) {
  for (uint32_t i = 0; i < g->inputs.n; i++) low_set(L, g->inputs.v[i], in[i]);
  uint32_t facts = sym_mark(L->c);
  L->branch.v[block] = g;
  low_asked(L, block);
  bool good = low_nodes(L, g, block);
  sym_pop(L->c, facts);
  for (uint32_t i = 0; good && i < g->outputs.n; i++) {
    const arg *a = low_value(L, g->outputs.v[i]);
    if (!a) return false;
    out[i] = *a;
  }
  return good;
}
/* Do the two agree but for the likely sizes, which are known before the run? */
static bool joinable(low *L, const arg *t, const arg *e, uint32_t then_block, uint32_t else_block) {
  low_local in_then = {.L = L, .block = then_block}, in_else = {.L = L, .block = else_block};
  if (t->type != e->type || t->rank != e->rank || t->type == ET_STR) return false;
  for (uint32_t d = 0; d < t->rank; d++)
    if (low_is_local(&in_then, t->shape[d]) || low_is_local(&in_else, e->shape[d]) ||
        !sym_eq(L->c, t->shape[d], sym_subst(L->c, e->shape[d], to_likely, L)))
      return false;
  return true;
}
bool low_variants(low *L, graph *g) {
  bool any = false;
  for (uint32_t i = 0; i < L->ndims; i++) any |= has_variant(&L->dims[i]);
  for (uint32_t i = 0; i < g->inputs.n; i++)
    any = any && low_value(L, g->inputs.v[i]) && g->inputs.v[i]->type != ET_STR;
  if (!any) return low_nodes(L, g, 0);
  uint32_t n = g->outputs.n, tb = low_block(L, 0), eb = low_block(L, 0);
  arg *general = NEWN(L->a, arg, g->inputs.n + 1), *in = NEWN(L->a, arg, g->inputs.n + 1),
      *outs[2] = {NEWN(L->a, arg, n + 1), NEWN(L->a, arg, n + 1)};
  L->variants[0] = tb, L->variants[1] = eb;
  xif x = {.cond = condition(L, tb),
           .then_block = tb,
           .else_block = eb,
           .n = n,
           .results = NEWN(L->a, tid, n + 1),
           .then_vals = NEWN(L->a, tid, n + 1),
           .else_vals = NEWN(L->a, tid, n + 1)};
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const arg *a = &general[i];
    general[i] = in[i] = *low_value(L, g->inputs.v[i]);
    sz *shape = NEWN(L->a, sz, a->rank + 1);
    bool differs = false;
    for (uint32_t d = 0; d < a->rank; d++) {
      shape[d] = sym_subst(L->c, a->shape[d], to_likely, L);
      differs |= !sym_eq(L->c, shape[d], a->shape[d]);
    }
    if (differs) in[i] = same(L, tb, a, shape, arena_fmt(L->a, "%s.likely", g->inputs.v[i]->name));
  }
  bool good = lower_into(L, g, tb, in, outs[0]);
  forget(L);
  good = good && lower_into(L, g, eb, general, outs[1]);
  bool join = good;
  for (uint32_t i = 0; join && i < n; i++) join = joinable(L, &outs[0][i], &outs[1][i], tb, eb);
  if (!join) {
    if (diag_errors(L->c)) return false;
    L->variants[0] = L->variants[1] = 0;
    low_drop(L, tb);
    low_drop(L, eb);
    forget(L);
    for (uint32_t i = 0; i < g->inputs.n; i++) low_set(L, g->inputs.v[i], general[i]);
    return low_nodes(L, g, 0);
  }
  low_local nothing = {.L = L, .block = eb};
  for (uint32_t i = 0; i < L->m->guards.n; i++) {
    guard *k = &L->m->guards.v[i];
    if (k->block != eb || low_is_local(&nothing, k->ge0)) continue;
    k->block = 0;
    low_learn(L, k);
  }
  for (uint32_t i = 0; i < n; i++) {
    const arg *e = &outs[1][i];
    value *v = g->outputs.v[i];
    const arg *t = &outs[0][i];
    bool differs = false;
    for (uint32_t d = 0; d < e->rank; d++) differs |= !sym_eq(L->c, t->shape[d], e->shape[d]);
    x.then_vals[i] = differs ? same(L, tb, t, e->shape, arena_fmt(L->a, "%s.likely", v->name)).t : t->t;
    x.else_vals[i] = e->t;
    x.results[i] = low_result(L, e->type, e->shape, e->rank, v->name, NULL);
    low_set(L, v, (arg){.type = e->type, .rank = e->rank, .shape = e->shape, .t = x.results[i]});
  }
  vec_push(L->a, L->m->ifs, x);
  vec_push(L->a, L->m->blocks.v[0].items, ((item){IT_IF, L->m->ifs.n - 1}));
  return true;
}
