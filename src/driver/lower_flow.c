/* How do branches come into the module?
 *
 * Each branch is lowered into a block of its own. A condition known now, or known from the sizes, picks a branch
 * at compile time (for sizes: with an assumption, when the results' shapes differ). Otherwise both stay; of one
 * whose operators cannot fit the sizes there stays a condition that never holds. Where the two give a result of
 * different sizes, each branch also computes that size, as a number; the result of the two is a scalar, and the
 * late size that stands in the result's shape is read from it.
 */
#include "driver/lower_in.h"
#include "expr/expr.h"
#include <string.h>

uint32_t low_block(low *L, uint32_t parent) {
  vec_push(L->a, L->m->blocks, ((block){.parent = parent}));
  vec_push(L->a, L->branch, NULL);
  return L->m->blocks.n - 1;
}
tid low_result(low *L, etype t, const sz *shape, uint32_t rank, const char *name, const char *origin) {
  return expr_tensor(L->m, TK_RESULT, t, shape, rank, name, origin);
}
const axis *low_axes(low *L, const sz *shape, uint32_t rank, sz *at) {
  axis *axes = NEWN(L->a, axis, rank + 1);
  for (uint32_t d = 0; d < rank; d++) {
    at[d] = sym_int(L->c, 0);
    if (sym_int_or(L->c, shape[d], 0) == 1) continue;
    digit *g = NEW(L->a, digit);
    at[d] = sym_var(L->c, "i", shape[d]);
    sym_is_atom(L->c, at[d], &g->var), g->extent = shape[d];
    axes[d] = (axis){1, g};
  }
  return axes;
}
/* A condition of a block has become one of the root block: from now on it holds everywhere. */
void low_learn(low *L, const guard *g) {
  if (!g->is_eq)
    sym_push(L->c, g->ge0);
  else if (!sym_ne(L->c, g->ge0, sym_int(L->c, 0)))
    sym_assume_eq(L->c, g->ge0, sym_int(L->c, 0));
}
/* moves the items of a block to the end of another (a branch that is always taken) */
static void block_splice(low *L, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < L->m->blocks.v[from].items.n; i++) {
    item it = L->m->blocks.v[from].items.v[i];
    if (it.kind == IT_STAGE)
      xs(L->m, it.index)->block = to;
    else if (it.kind == IT_IF)
      L->m->ifs.v[it.index].block = to;
    else
      L->m->loops.v[it.index].block = to;
    vec_push(L->a, L->m->blocks.v[to].items, it);
  }
  for (uint32_t b = 0; b < L->m->blocks.n; b++)
    if (b && L->m->blocks.v[b].parent == from) L->m->blocks.v[b].parent = to;
  for (uint32_t i = 0; i < L->m->guards.n; i++) {
    guard *g = &L->m->guards.v[i];
    if (g->block != from) continue;
    g->block = to;
    if (!to) low_learn(L, g);
  }
  L->m->blocks.v[from].items.n = 0;
}
/* the block in which a tensor gets its value */
static uint32_t block_of(low *L, tid t) {
  emodule *m = L->m;
  if (xt(m, t)->kind == TK_STAGE) return xs(m, xt(m, t)->stage)->block;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t k = 0; k < m->ifs.v[i].n; k++)
      if (m->ifs.v[i].results[k] == t) return m->ifs.v[i].block;
  for (uint32_t i = 0; i < m->loops.n; i++)
    for (uint32_t k = 0; k < m->loops.v[i].ncarried; k++) {
      if (m->loops.v[i].inner[k] == t) return m->loops.v[i].body;
      if (m->loops.v[i].final[k] == t) return m->loops.v[i].block;
    }
  return 0;
}
/* a branch that is never taken: nothing of it stays */
void low_drop(low *L, uint32_t block) {
  emodule *m = L->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->lates.n; i++)
    if (!block_inside(L->m, block_of(L, m->lates.v[i].tensor), block)) m->lates.v[n++] = m->lates.v[i];
  m->lates.n = n, n = 0;
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (block_inside(L->m, xs(m, i)->block, block)) xs(m, i)->dead = true;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    if (block_inside(L->m, m->ifs.v[i].block, block)) m->ifs.v[i].n = 0;
  for (uint32_t i = 0; i < m->loops.n; i++)
    if (block_inside(L->m, m->loops.v[i].block, block)) m->loops.v[i].ncarried = m->loops.v[i].ncollected = 0;
  for (uint32_t i = 0; i < m->guards.n; i++)
    if (!block_inside(L->m, m->guards.v[i].block, block)) m->guards.v[n++] = m->guards.v[i];
  m->guards.n = n, n = 0;
  for (uint32_t i = 0; i < m->checks.n; i++)
    if (!block_inside(L->m, m->checks.v[i].block, block)) m->checks.v[n++] = m->checks.v[i];
  m->checks.n = n;
  for (uint32_t b = 0; b < m->blocks.n; b++)
    if (block_inside(L->m, b, block)) m->blocks.v[b].items.n = 0;
}

/* ---- sizes that control flow decides --------------------------------------------------------- */
tid low_scalar(low *L, uint32_t block, sz v, const char *name, const char *origin) {
  tid t = expr_tensor(L->m, TK_STAGE, ET_I64, NEWN(L->a, sz, 1), 0, name, origin);
  expr_stage(L->m, block, t, NULL, 0, expr_index(L->m, v));
  return t;
}
sz low_size_symbol(low *L, const char *of, uint32_t dim) {
  char *name = arena_fmt(L->a, "%s.%u", of, dim);
  for (char *s = name; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
          (s > name && ((*s >= '0' && *s <= '9') || *s == '.'))))
      *s = '_';
  return sym_fresh(L->c, name, 0, LOW_MOST);
}
void low_late(low *L, sz symbol, tid t, sz bound) {
  late l = {.tensor = t, .bound = bound};
  sym_is_atom(L->c, symbol, &l.symbol);
  vec_push(L->m->a, L->m->lates, l);
}
sz low_given(low *L, const char *name, sz bound) {
  for (uint32_t i = 0; i < L->ndims; i++)
    if (!strcmp(L->dims[i].name, name)) L->used[i] = true, bound = sym_min(L->c, bound, sym_int(L->c, L->dims[i].hi));
  return bound;
}
sz low_given_size(low *L, sz symbol, sz bound) {
  atom a;
  for (uint32_t i = 0; sym_is_atom(L->c, symbol, &a) && i < L->ndims; i++)
    if (sym_named(L->c, a, L->dims[i].name)) return low_given(L, L->dims[i].name, bound);
  return bound;
}
static bool local_between(void *env, atom a, sz *lo, sz *hi) {
  low_local *k = env;
  low *L = k->L;
  int64_t least, most;
  for (uint32_t i = 0; i < k->n; i++)
    if (k->symbols[i] == a) {
      if (!k->his[i]) return false;
      *lo = sym_int(L->c, 0), *hi = k->his[i];
      return true;
    }
  for (uint32_t i = 0; i < L->m->lates.n; i++)
    if (L->m->lates.v[i].symbol == a && block_inside(L->m, block_of(L, L->m->lates.v[i].tensor), k->block)) {
      sym_range(L->c, sym_of_atom(L->c, a), &least, &most);
      *lo = sym_int(L->c, least), *hi = L->m->lates.v[i].bound;
      return true;
    }
  return false;
}
sz low_upper(low_local *k, sz e) {
  sz lo, hi;
  sym_between(k->L->c, e, local_between, k, &lo, &hi);
  return hi;
}
bool low_is_local(low_local *k, sz e) {
  u32vec at = {0};
  sz lo, hi;
  sym_atoms(k->L->c, e, AT_SYMBOL, k->L->a, &at);
  for (uint32_t i = 0; i < at.n; i++) {
    for (uint32_t j = 0; j < k->n; j++)
      if (k->symbols[j] == at.v[i]) return true;
    if (local_between(k, at.v[i], &lo, &hi)) return true;
  }
  return false;
}

/* ---- If -------------------------------------------------------------------------------------- */
/* The size of a result on which the branches differ: x gets a scalar result, computed in either branch. */
static sz either(low *L, xif *x, sz t, sz e, const char *of, uint32_t dim) {
  low_local in_then = {.L = L, .block = x->then_block}, in_else = {.L = L, .block = x->else_block};
  sz s = low_size_symbol(L, of, dim),
     bound = sym_max(
         L->c,
         sym_max(L->c, low_upper(&in_then, t), EK_PLANTED("lower-flow") ? sym_int(L->c, 0) : low_upper(&in_else, e)),
         sym_int(L->c, 0));
  const char *name = arena_fmt(L->a, "%s.size%u", of, dim);
  x->results[x->n] = low_result(L, ET_I64, NEWN(L->a, sz, 1), 0, name, x->origin);
  x->then_vals[x->n] = low_scalar(L, x->then_block, t, arena_fmt(L->a, "%s.then", name), x->origin);
  x->else_vals[x->n] = low_scalar(L, x->else_block, e, arena_fmt(L->a, "%s.else", name), x->origin);
  low_late(L, s, x->results[x->n++], bound);
  return s;
}
/* Does e hang on a size that is found in a run? */
static bool found_in_run(low *L, sz e) {
  for (uint32_t i = 0; i < L->m->lates.n; i++)
    if (sym_uses(L->c, e, L->m->lates.v[i].symbol)) return true;
  return false;
}
/* A branch whose operators do not fit the sizes of this model cannot be taken: nothing of it stays but a condition
 * that never holds, and results of the other branch's shapes. Where a node is at fault, or what is unknown of it, it
 * is an error. */
static bool never_fits(low *L, uint32_t block, uint32_t mark, const node *n, const char *which) {
  const diag *first = NULL;
  uint32_t at = 0;
  bool warned = false; /* the graph is being lowered a second time */
  for (const diag *d = diag_first(L->c); d; d = d->next, at++) {
    warned |= at < mark && d->level == D_WARNING && d->node && n->name && !strcmp(d->node, n->name);
    if (at < mark || d->level != D_ERROR) continue;
    if (d->code != E_SHAPE) return false;
    if (!first) first = d;
  }
  if (!first) return false;
  char *text = arena_fmt(L->m->a, "the %s branch of this If does not fit these sizes: %s%s%s", which,
                         first->node ? first->node : "", first->node ? ": " : "", first->text);
  diag_reset(L->c, mark);
  if (!warned) diag_warn(L->c, n->name, "%s; a run that takes it fails", text);
  low_drop(L, block);
  vec_push(L->m->a, L->m->guards, ((guard){.ge0 = sym_int(L->c, -1), .text = text, .node = n->name, .block = block}));
  return true;
}
static arg nothing_like(low *L, uint32_t block, uint32_t other, const arg *a, const char *name) {
  low_local local = {.L = L, .block = other};
  sz *shape = NEWN(L->a, sz, a->rank + 1), *at = NEWN(L->a, sz, a->rank + 1);
  for (uint32_t d = 0; d < a->rank; d++) shape[d] = low_is_local(&local, a->shape[d]) ? sym_int(L->c, 0) : a->shape[d];
  const axis *axes = low_axes(L, shape, a->rank, at);
  tid t = expr_tensor(L->m, TK_STAGE, a->type, shape, a->rank, name, NULL);
  expr_stage(L->m, block, t, axes, a->rank, expr_const(L->m, a->type, (scalar){0}));
  return (arg){.present = true, .type = a->type, .rank = a->rank, .shape = shape, .t = t};
}
void low_if(low *L, node *n, uint32_t block) {
  const attr *ta = node_attr(n, "then_branch"), *ea = node_attr(n, "else_branch");
  if (!ta || !ea || !ta->g || !ea->g || n->in.n < 1 || !n->in.v[0]) {
    diag_error(L->c, E_MODEL, n->name, "If needs a condition and the attributes then_branch and else_branch");
    return;
  }
  arg cond;
  if (!low_single(L, n, n->in.v[0], ET_BOOL, "the condition", &cond)) return;
  arg *c = &cond;
  int64_t v;
  graph *br[2] = {ta->g, ea->g};
  for (int i = 0; i < 2; i++)
    if (br[i]->outputs.n < n->out.n) {
      diag_error(L->c, E_MODEL, n->name, "If has %u outputs, its branch %s has %u", n->out.n, br[i]->name,
                 br[i]->outputs.n);
      return;
    }
  int pick = -1;
  if (c->values && sym_is_int(L->c, c->values[0], &v)) pick = v ? 0 : 1;
  if (pick >= 0) {
    if (!low_nodes(L, br[pick], block)) return;
    for (uint32_t i = 0; i < n->out.n; i++)
      if (low_needed(L, n->out.v[i])) low_copy(L, n->out.v[i], br[pick]->outputs.v[i]);
    return;
  }
  uint32_t blocks[2];
  arg *vals[2];
  int unfit = -1;
  for (int b = 0; b < 2; b++) {
    blocks[b] = low_block(L, block);
    vals[b] = NEWN(L->a, arg, n->out.n ? n->out.n : 1);
    uint32_t facts = sym_mark(L->c), mark = diag_mark(L->c);
    if (L->branch.v[block]) L->branch.v[blocks[b]] = br[b], low_asked(L, blocks[b]);
    bool good = low_nodes(L, br[b], blocks[b]);
    sym_pop(L->c, facts);
    if (!good && (unfit >= 0 || !never_fits(L, blocks[b], mark, n, b ? "else" : "then"))) return;
    if (!good) {
      unfit = b;
      continue;
    }
    for (uint32_t i = 0; i < n->out.n; i++)
      if (low_needed(L, n->out.v[i])) {
        const known *k = low_slot(L, br[b]->outputs.v[i]);
        if (k->list || k->absent) {
          diag_error(
              L->c, E_UNSUPPORTED, n->name,
              "a branch gives a sequence or an optional; then the condition must be known when the model is compiled");
          return;
        }
        arg *r = low_value(L, br[b]->outputs.v[i]);
        if (!r) return;
        vals[b][i] = *r;
      }
  }
  for (uint32_t i = 0; i < n->out.n && unfit >= 0; i++) {
    const arg *fit = &vals[1 - unfit][i];
    if (low_needed(L, n->out.v[i]))
      vals[unfit][i] = fit->type == ET_STR ? *fit
                                           : nothing_like(L, blocks[unfit], blocks[1 - unfit], fit,
                                                          arena_fmt(L->a, "%s.none", n->out.v[i]->name));
  }
  xif x = {.cond = c->t, .then_block = blocks[0], .else_block = blocks[1], .block = block, .origin = n->name};
  uint32_t room = n->out.n + 1; /* results, and sizes of results */
  for (uint32_t i = 0; i < n->out.n; i++)
    if (low_needed(L, n->out.v[i])) room += vals[0][i].rank;
  x.results = NEWN(L->a, tid, room), x.then_vals = NEWN(L->a, tid, room), x.else_vals = NEWN(L->a, tid, room);
  /* a branch that must be assumed, since the two differ in rank or size */
  int side = unfit >= 0 && c->values ? 1 - unfit : -1;
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!low_needed(L, n->out.v[i])) continue;
    arg *t = &vals[0][i], *e = &vals[1][i];
    if (t->type == ET_STR) {
      diag_error(L->c, E_UNSUPPORTED, n->name,
                 "output %u holds strings; then the condition must be known when the model is compiled", i);
      return;
    }
    if (t->type != e->type) {
      diag_error(L->c, E_SHAPE, n->name, "output %u is %s in one branch and %s in the other", i, et_name(t->type),
                 et_name(e->type));
      return;
    }
    bool same = t->rank == e->rank;
    for (uint32_t d = 0; same && d < t->rank; d++) same = sym_eq(L->c, t->shape[d], e->shape[d]);
    /* both shapes stay possible */
    if (!same && t->rank == e->rank && (!c->values || found_in_run(L, c->values[0]))) continue;
    if (!same) {
      /* the branch whose rank the model declares for the result, else that of typical sizes, else the first */
      value *o = n->out.v[i];
      side = t->rank == e->rank                               ? c->values && expr_typical(L->m, c->values[0]) == 0
             : o->declared && o->ranked && o->rank == e->rank ? 1
                                                              : 0;
    }
  }
  if (side >= 0) {
    if (!c->values) {
      diag_error(
          L->c, E_UNSUPPORTED, n->name,
          "the branches give results of different rank and the condition depends on data; results must have one rank");
      return;
    }
    low_drop(L, blocks[1 - side]);
    block_splice(L, blocks[side], block);
    if (!EK_PLANTED("lower-branch"))
      notation_assume(L->m, block, c->values[0], side == 0, n->name,
                      "these input sizes take the other branch of this If; compile for them with --dim");
    for (uint32_t i = 0; i < n->out.n; i++)
      if (low_needed(L, n->out.v[i])) low_set(L, n->out.v[i], vals[side][i]);
    return;
  }
  for (uint32_t i = 0; i < n->out.n; i++) { /* sizes come first: what has them can be looked at then */
    if (!low_needed(L, n->out.v[i])) continue;
    arg *t = &vals[0][i], *e = &vals[1][i];
    sz *shape = NEWN(L->a, sz, t->rank + 1);
    for (uint32_t d = 0; d < t->rank; d++)
      shape[d] = sym_eq(L->c, t->shape[d], e->shape[d]) ? t->shape[d]
                                                        : either(L, &x, t->shape[d], e->shape[d], n->out.v[i]->name, d);
    t->shape = shape;
  }
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!low_needed(L, n->out.v[i])) continue;
    arg *t = &vals[0][i];
    tid r = low_result(L, t->type, t->shape, t->rank, n->out.v[i]->name, n->name);
    x.results[x.n] = r, x.then_vals[x.n] = t->t, x.else_vals[x.n] = vals[1][i].t;
    x.n++;
    low_set(L, n->out.v[i], (arg){.type = t->type, .rank = t->rank, .shape = t->shape, .t = r});
  }
  vec_push(L->a, L->m->ifs, x);
  vec_push(L->a, L->m->blocks.v[block].items, ((item){IT_IF, L->m->ifs.n - 1}));
}
