/* Is a module a whole model: does every tensor and every size get a value from somewhere?
 *
 * expr_verify asks whether a module is well-formed, and pieces of one may be. Who compiles it relies on more: each
 * input is in the list of inputs, and where a size is used its symbols have a value. They have one if they are a
 * dimension of an input that is no state, alone; defined by such as have one; a late size, from the place where its
 * tensor is computed to the end of that block; a loop's counter, in its body. One walk over the blocks in their order.
 */
#include "expr/build.h"

typedef struct whole {
  emodule *m;       /* the module */
  ctx *c;           /* context */
  arena *a;         /* memory */
  const char *when; /* for messages: after which pass */
  u32vec known;     /* symbols, at this point of the walk */
  bool ok;          /* no error so far */
} whole;

static void lacks(whole *w, const char *who, const char *fmt, const char *what) {
  w->ok = false;
  const char *text = arena_fmt(w->a, fmt, what);
  if (w->when)
    diag_error(w->c, E_INTERNAL, NULL, "after %s: %s: %s", w->when, who, text);
  else
    diag_error(w->c, E_MODEL, NULL, "%s: %s", who, text);
}
static bool has_value(whole *w, atom symbol, int depth) {
  sz def;
  for (uint32_t i = 0; i < w->known.n; i++)
    if (w->known.v[i] == symbol) return true;
  if (depth > 64 || !sym_definition(w->c, symbol, &def)) return false;
  u32vec in = {0};
  sym_atoms(w->c, def, AT_SYMBOL, w->a, &in);
  for (uint32_t i = 0; i < in.n; i++)
    if (!has_value(w, in.v[i], depth + 1)) return false;
  return true;
}
static void size(whole *w, sz s, const char *who) {
  u32vec in = {0};
  if (!s || sym_is_int(w->c, s, NULL)) return;
  sym_atoms(w->c, s, AT_SYMBOL, w->a, &in);
  for (uint32_t i = 0; i < in.n; i++)
    if (!has_value(w, in.v[i], 0)) {
      lacks(w, who, "nothing gives the size %s a value here; a size is a dimension of an input, or `late`",
            sym_name(w->c, in.v[i]));
      vec_push(w->a, w->known, in.v[i]); /* what is known is said once */
    }
}
static void shape(whole *w, tid t) {
  const tensor *x = xt(w->m, t);
  for (uint32_t i = 0; t && i < x->rank; i++) size(w, x->shape[i], x->name);
}
static void gets_value(whole *w, atom symbol, const char *who) {
  for (uint32_t i = 0; i < w->known.n; i++)
    if (w->known.v[i] == symbol) {
      lacks(w, who, "the size %s has a value already", sym_name(w->c, symbol));
      return;
    }
  vec_push(w->a, w->known, symbol);
}
static void computed(whole *w, tid t) { /* late sizes that it holds, checks that follow it */
  for (uint32_t i = 0; t && i < w->m->checks.n; i++) {
    const value_check *k = &w->m->checks.v[i];
    if (k->value != t) continue;
    size(w, k->lo, xt(w->m, t)->name), size(w, k->hi, xt(w->m, t)->name);
    for (uint32_t j = 0; j < k->ndims; j++) size(w, k->dims[j], xt(w->m, t)->name);
  }
  for (uint32_t i = 0; t && i < w->m->lates.n; i++) {
    const late *l = &w->m->lates.v[i];
    if (l->tensor != t || xt(w->m, t)->kind == TK_CONST) continue;
    if (!l->bound) lacks(w, xt(w->m, t)->name, "the late size %s has no bound", sym_name(w->c, l->symbol));
    size(w, l->bound, xt(w->m, t)->name);
    gets_value(w, l->symbol, xt(w->m, t)->name);
  }
}
static void stage_sizes(whole *w, uint32_t s) {
  const stage *x = xs(w->m, s);
  const char *who = xt(w->m, x->tensor)->name;
  u32vec nodes = {0};
  shape(w, x->tensor);
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t k = 0; k < x->axes[i].n; k++) size(w, x->axes[i].d[k].extent, who);
  if (x->recurrence) size(w, w->m->recurrences.v[x->recurrence].extent, who);
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    for (uint32_t k = 0; k < u->nidx; k++) size(w, u->idx[k], who);
    for (uint32_t k = 0; k < u->nvars; k++) size(w, sym_extent(w->c, u->vars[k]), who);
  }
  stage_nodes(w->m, s, w->a, &nodes);
  for (uint32_t i = 0; i < nodes.n; i++) {
    const ex_node *n = exn(w->m, nodes.v[i]);
    if (n->kind == EX_INDEX) size(w, n->index, who);
    for (uint32_t k = 0; n->kind == EX_LOAD && k < n->nargs; k++) size(w, n->args[k], who);
    for (uint32_t k = 0; n->kind == EX_REDUCE && k < n->nargs; k++) size(w, sym_extent(w->c, n->args[k]), who);
  }
}
static void block_sizes(whole *w, uint32_t blk);
static void if_sizes(whole *w, const xif *x) {
  block_sizes(w, x->then_block), block_sizes(w, x->else_block);
  for (uint32_t i = 0; i < x->n; i++) computed(w, x->results[i]);
  for (uint32_t i = 0; i < x->n; i++) shape(w, x->results[i]);
}
static void loop_sizes(whole *w, const xloop *x) {
  uint32_t outside = w->known.n;
  size(w, x->trips, "a loop's trips");
  if (!x->trips && !x->trip_tensor) lacks(w, "a loop", "%s", "it has no number of trips");
  if (x->counter) gets_value(w, x->counter, "a loop's counter");
  for (uint32_t i = 0; i < x->ncarried; i++) computed(w, x->inner[i]);
  for (uint32_t i = 0; i < x->ncarried; i++) shape(w, x->inner[i]);
  block_sizes(w, x->body);
  w->known.n = outside;
  for (uint32_t i = 0; i < x->ncarried; i++) computed(w, x->final[i]);
  for (uint32_t i = 0; i < x->ncarried; i++) shape(w, x->final[i]);
  for (uint32_t i = 0; i < x->ncollected; i++) shape(w, x->collected[i]);
}
static void block_sizes(whole *w, uint32_t blk) {
  uint32_t outside = w->known.n;
  for (uint32_t i = 0; i < w->m->blocks.v[blk].items.n; i++) {
    item it = w->m->blocks.v[blk].items.v[i];
    if (it.kind == IT_IF)
      if_sizes(w, &w->m->ifs.v[it.index]);
    else if (it.kind == IT_LOOP)
      loop_sizes(w, &w->m->loops.v[it.index]);
    else if (!xs(w->m, it.index)->dead)
      stage_sizes(w, it.index), computed(w, xs(w->m, it.index)->tensor);
  }
  if (blk) w->known.n = outside;
}
bool expr_verify_whole(emodule *m, const char *when) {
  arena *a = arena_new(m->c);
  whole w = {.m = m, .c = m->c, .a = a, .when = when, .ok = true};
  uint8_t *listed = arena_alloc(a, m->tensors.n + 1);
  for (uint32_t i = 0; i < m->inputs.n; i++) {
    const tensor *x = xt(m, m->inputs.v[i].t);
    listed[m->inputs.v[i].t] = 1;
    /* nobody hands over a state: its sizes come from the other inputs */
    for (uint32_t k = 0; i < m->inputs.n - m->states.n && k < x->rank; k++) {
      atom s;
      if (sym_is_atom(m->c, x->shape[k], &s) && sym_kind(m->c, s) == AT_SYMBOL) vec_push(a, w.known, s);
    }
  }
  for (uint32_t i = 0; i < m->lates.n; i++) /* a late size that was folded is a number */
    if (xt(m, m->lates.v[i].tensor)->kind == TK_CONST) vec_push(a, w.known, m->lates.v[i].symbol);
  for (tid t = 1; t < m->tensors.n; t++) {
    if (xt(m, t)->kind != TK_INPUT) continue;
    if (!listed[t]) lacks(&w, xt(m, t)->name, "%s", "neither computed, nor an input of the model, nor a constant");
    shape(&w, t);
  }
  block_sizes(&w, 0);
  for (uint32_t i = 0; i < m->outputs.n; i++) shape(&w, m->outputs.v[i].t);
  arena_free(a);
  return w.ok;
}
