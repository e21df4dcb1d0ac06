/* Is a module well-formed?
 *
 * Run after every pass in debugging builds and by the tests: cheap structural checks of what expr.h promises. In order:
 * (1) each stage alone: types, ranks, which variables its values may use; (2) variables belong to one stage (a
 * recurrence's to its group) and no reduction binds what encloses it; (3) blocks hold each live stage once and control
 * flow is typed; (4) whatever is read stands earlier or in an enclosing block, in a recurrence possibly a step earlier;
 * (5) kernels hold the stages. Complaints are about us: E_INTERNAL, naming the pass; about a text (no pass): E_MODEL.
 * expr_verify_ranges is separate, because it needs the prover: accesses without `else` must be in range given the
 * conditions around them.
 */
#include "expr/build.h"
#include <stdio.h>
#include <string.h>

struct check;
/* ---- under which conditions? ----------------------------------------------------------------- */
/* Walks a value with the prover knowing the conditions around each place: `where` for the body, a decided condition
 * for a branch. */
typedef struct ranges {
  emodule *m;                                       /* the module */
  arena *a;                                         /* memory */
  void (*load)(struct ranges *r, const ex_node *n); /* called for each load */
  map *done;                                        /* values looked at */
  const char *stage;                                /* for expr_verify_ranges: name of the stage */
  sbuf *out;                                        /* for expr_verify_ranges: gets the lines; NULL: count only */
  uint32_t unproved;                                /* for expr_verify_ranges: indices that are not proved in range */
  struct check *k;                                  /* for the steps of a recurrence: the check */
  uint32_t reader;                                  /* for the steps of a recurrence: the stage that reads */
} ranges;

static void visit(ranges *r, ex e);
static void visit_size(ranges *r, sz s) {
  u32vec d = {0};
  if (!sym_uses_kind(r->m->c, s, AT_DATA)) return;
  sym_atoms(r->m->c, s, AT_DATA, r->a, &d);
  for (uint32_t i = 0; i < d.n; i++) visit(r, sym_data_id(r->m->c, d.v[i]));
}
/* Pushes what a condition says about sizes: conjunctions of comparisons of i64 values. */
static void assume(ranges *r, ex cond, bool holds) {
  emodule *m = r->m;
  ctx *c = m->c;
  const ex_node n = *exn(m, cond);
  if (n.kind != EX_OP) return;
  if (n.op == OP_NOT) assume(r, n.args[0], !holds);
  if (n.op == (holds ? OP_AND : OP_OR)) assume(r, n.args[0], holds), assume(r, n.args[1], holds);
  if (n.op < OP_EQ || n.op > OP_GE || exn(m, n.args[0])->type != ET_I64) return;
  sz a = expr_as_size(m, n.args[0]), b = expr_as_size(m, n.args[1]), ab = sym_sub(c, a, b), ba = sym_sub(c, b, a);
  sop op = n.op;
  if (!holds)
    op = op == OP_LT   ? OP_GE
         : op == OP_LE ? OP_GT
         : op == OP_GT ? OP_LE
         : op == OP_GE ? OP_LT
         : op == OP_NE ? OP_EQ
                       : OP_NONE;
  if (op == OP_LT) sym_push(c, sym_addi(c, ba, -1));
  if (op == OP_LE || op == OP_EQ) sym_push(c, ba);
  if (op == OP_GT) sym_push(c, sym_addi(c, ab, -1));
  if (op == OP_GE || op == OP_EQ) sym_push(c, ab);
}
static void visit_under(ranges *r, ex e, ex cond, bool holds) {
  uint32_t mark = sym_mark(r->m->c);
  map *was = r->done; /* proved under a condition is not proved elsewhere */
  if (cond) r->done = map_new(r->a), assume(r, cond, holds);
  visit(r, e);
  if (cond) r->done = was;
  sym_pop(r->m->c, mark);
}
static void visit(ranges *r, ex e) {
  uint64_t x;
  if (!e || map_getu(r->done, e, &x)) return;
  map_putu(r->done, e, 1);
  const ex_node n = *exn(r->m, e);
  if (n.kind == EX_INDEX)
    visit_size(r, n.index);
  else if (n.kind == EX_LOAD) {
    for (uint32_t i = 0; i < n.nargs; i++) visit_size(r, n.args[i]);
    r->load(r, &n);
    visit(r, n.otherwise);
  } else if (n.kind == EX_REDUCE) {
    visit(r, n.where);
    visit_under(r, n.body, n.where, true);
    if (n.payload) visit_under(r, n.payload, n.where, true);
  } else if (n.kind == EX_OP && n.op == OP_SEL) {
    visit(r, n.args[0]);
    visit_under(r, n.args[1], n.args[0], true), visit_under(r, n.args[2], n.args[0], false);
  } else if (n.kind == EX_OP && (n.op == OP_AND || n.op == OP_OR)) {
    visit(r, n.args[0]);
    visit_under(r, n.args[1], n.args[0], n.op == OP_AND);
  } else if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) visit(r, n.args[i]);
}

/* ---- what is checked ------------------------------------------------------------------------- */
typedef struct check {
  emodule *m;       /* the module */
  ctx *c;           /* context */
  arena *a;         /* memory */
  const char *when; /* for messages: after which pass */
  map *owner;       /* variable -> stage + 1, or a recurrence's complement */
  uint8_t *ready;   /* by tensor: may be read here */
  uint32_t *left;   /* by recurrence: members still to come */
  bool ok;          /* no error so far */
} check;

static void bad(check *k, tid t, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void bad(check *k, tid t, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  char *text = arena_alloc(k->a, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(ap), va_end(again);
  k->ok = false;
  const char *what = t ? "stage " : "", *name = t ? xt(k->m, t)->name : "module",
             *node = t ? xt(k->m, t)->origin : NULL;
  if (k->when)
    diag_error(k->c, E_INTERNAL, node, "after %s: %s%s: %s", k->when, what, name, text);
  else
    diag_error(k->c, E_MODEL, node, "%s%s: %s", what, name, text);
}
static const char *vname(check *k, atom v) { return sym_name(k->c, v); }

/* ---- 1, 2: a stage alone --------------------------------------------------------------------- */
static void own(check *k, uint32_t s, atom v) {
  const stage *x = xs(k->m, s);
  u32vec in = {0};
  size_vars(k->m, sym_extent(k->c, v), k->a, &in);
  if (in.n) bad(k, x->tensor, "variable %s runs to %s, which varies", vname(k, v), sym_str(k->c, sym_extent(k->c, v)));
  uint64_t who, me = s + 1;
  if (x->recurrence && k->m->recurrences.v[x->recurrence].var == v) me = ~(uint64_t)x->recurrence;
  if (!map_getu(k->owner, v, &who))
    map_putu(k->owner, v, me);
  else if (who != me)
    bad(k, x->tensor, "variable %s belongs to another stage too", vname(k, v));
}
static void uses_only(check *k, const stage *x, const u32vec *used, const u32vec *allowed, const char *where) {
  for (uint32_t i = 0; i < used->n; i++) {
    bool found = x->recurrence && k->m->recurrences.v[x->recurrence].var == used->v[i];
    for (uint32_t j = 0; j < allowed->n; j++) found |= allowed->v[j] == used->v[i];
    if (!found) bad(k, x->tensor, "%s uses variable %s, which no loop around it has", where, vname(k, used->v[i]));
  }
}
/* A range's bounds are over the variables of the stage's axes. */
static void check_range(check *k, const stage *x, const u32vec *vars, atom v) {
  const xrange *r = expr_range(k->m, v);
  u32vec used = {0};
  if (!r) return;
  size_vars(k->m, r->lo, k->a, &used), size_vars(k->m, r->hi, k->a, &used);
  for (uint32_t i = 0; i < used.n; i++)
    if (used.v[i] == v) bad(k, x->tensor, "the range of %s hangs on itself", vname(k, v));
  uses_only(k, x, &used, vars, "a range");
}
static void check_nodes(check *k, uint32_t s, const u32vec *vars) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  u32vec nodes = {0};
  stage_nodes(m, s, k->a, &nodes);
  for (uint32_t i = 0; i < nodes.n; i++) {
    const ex_node *n = exn(m, nodes.v[i]);
    if (n->kind == EX_LOAD) {
      const tensor *t = n->tensor && n->tensor < m->tensors.n ? xt(m, n->tensor) : NULL;
      if (!t)
        bad(k, x->tensor, "reads no tensor");
      else if (t->rank != n->nargs || t->type != n->type)
        bad(k, x->tensor, "reads %s as %s of rank %u; it is %s of rank %u", t->name, et_name(n->type), n->nargs,
            et_name(t->type), t->rank);
    } else if (n->kind == EX_OP) {
      etype at[3] = {0}, t = n->type;
      for (uint32_t j = 0; j < n->nargs && j < 3; j++) at[j] = exn(m, n->args[j])->type;
      const char *why = op_type_error(n->op, at, n->nargs, &t);
      if (why) bad(k, x->tensor, "%s: %s", op_name(n->op), why);
    } else if (n->kind == EX_REDUCE) {
      u32vec inner = {0};
      expr_bound(m, n->body, k->a, &inner);
      if (n->where) expr_bound(m, n->where, k->a, &inner);
      if (n->payload) expr_bound(m, n->payload, k->a, &inner);
      for (uint32_t j = 0; j < n->nargs; j++) {
        own(k, s, n->args[j]);
        check_range(k, x, vars, n->args[j]);
        for (uint32_t q = 0; q < inner.n; q++)
          if (inner.v[q] == n->args[j])
            bad(k, x->tensor, "variable %s is bound twice, one inside the other", vname(k, inner.v[q]));
      }
    }
  }
}
static bool never(check *k, sz s) {
  return sym_ge0(k->c, sym_addi(k->c, sym_neg(k->c, s), -1));
} /* a size, since it is negative */
static void check_stage(check *k, uint32_t s) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  if (!x->tensor || x->tensor >= m->tensors.n) {
    bad(k, 0, "stage %u has no tensor", s);
    return;
  }
  const tensor *t = xt(m, x->tensor);
  u32vec vars = {0};
  if (t->kind != TK_STAGE || t->stage != s) bad(k, x->tensor, "its tensor does not name it as its stage");
  if (x->naxes != t->rank) {
    bad(k, x->tensor, "%u axes, its tensor has rank %u", x->naxes, t->rank);
    return;
  }
  if (x->recurrence >= m->recurrences.n && x->recurrence) bad(k, x->tensor, "there is no recurrence %u", x->recurrence);
  for (uint32_t i = 0; i < x->naxes; i++) {
    sz size = sym_int(k->c, 1);
    for (uint32_t j = 0; j < x->axes[i].n; j++) {
      digit d = x->axes[i].d[j];
      if (!d.var || sym_kind(k->c, d.var) != AT_VAR) {
        bad(k, x->tensor, "axis %u has a digit without a variable", i);
        continue;
      }
      for (uint32_t q = 0; q < vars.n; q++)
        if (vars.v[q] == d.var) bad(k, x->tensor, "variable %s is two digits", vname(k, d.var));
      vec_push(k->a, vars, d.var);
      own(k, s, d.var);
      if (never(k, d.extent))
        bad(k, x->tensor, "variable %s runs to %s, which is negative", vname(k, d.var), sym_str(k->c, d.extent));
      if (d.extent != sym_extent(k->c, d.var) && !sym_eq(k->c, d.extent, sym_extent(k->c, d.var)))
        bad(k, x->tensor, "digit %s has extent %s, its variable %s", vname(k, d.var), sym_str(k->c, d.extent),
            sym_str(k->c, sym_extent(k->c, d.var)));
      size = sym_mul(k->c, size, d.extent);
    }
    if (size != t->shape[i] && sym_ne(k->c, size, t->shape[i]))
      bad(k, x->tensor, "axis %u has %s points, its tensor %s", i, sym_str(k->c, size), sym_str(k->c, t->shape[i]));
  }
  if (x->value) {
    u32vec used = {0};
    if (exn(m, x->value)->type != t->type)
      bad(k, x->tensor, "the value is %s, the tensor %s", et_name(exn(m, x->value)->type), et_name(t->type));
    expr_vars(m, x->value, k->a, &used);
    uses_only(k, x, &used, &vars, "the value");
  } else if (!x->updates.n)
    bad(k, x->tensor, "neither value nor updates");
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    u32vec used = {0}, own_vars = {(uint32_t *)u->vars, u->nvars, u->nvars};
    if (u->nidx != t->rank) bad(k, x->tensor, "an update with %u indices, rank %u", u->nidx, t->rank);
    if (u->op != OP_NONE && u->op != OP_ADD && u->op != OP_MUL && u->op != OP_MAX && u->op != OP_MIN)
      bad(k, x->tensor, "an update with %s", op_name(u->op));
    if (!u->value || exn(m, u->value)->type != t->type) bad(k, x->tensor, "an update's value has another type");
    if (u->cond && exn(m, u->cond)->type != ET_BOOL) bad(k, x->tensor, "an update's condition is not bool");
    for (uint32_t j = 0; j < u->nvars; j++) own(k, s, u->vars[j]);
    expr_vars(m, u->value, k->a, &used);
    if (u->cond) expr_vars(m, u->cond, k->a, &used);
    for (uint32_t j = 0; j < u->nidx; j++) size_vars(m, u->idx[j], k->a, &used);
    uses_only(k, x, &used, &own_vars, "an update");
  }
  for (uint32_t i = 0; i < vars.n; i++) check_range(k, x, &vars, vars.v[i]);
  check_nodes(k, s, &vars);
}

/* ---- 3, 4: blocks and order ------------------------------------------------------------------ */
static bool can_read(check *k, tid t) {
  return t && t < k->m->tensors.n && (k->ready[t] || xt(k->m, t)->kind == TK_INPUT || xt(k->m, t)->kind == TK_CONST);
}
static void need(check *k, tid t, const char *what) {
  if (!can_read(k, t))
    bad(k, 0, "%s reads %s before it is computed, or outside its block", what,
        t && t < k->m->tensors.n ? xt(k->m, t)->name : "no tensor");
}
/* The index at which a load of a recurrence's tensor reads the step, if the step is an axis of its own. */
static sz step_index(check *k, const stage *of, const ex_node *load) {
  atom t = k->m->recurrences.v[of->recurrence].var;
  for (uint32_t i = 0; i < of->naxes; i++)
    if (of->axes[i].n == 1 && of->axes[i].d[0].var == t) return load->args[i];
  return 0;
}
/* A read of a recurrence's own stage: of an earlier step, or of this one if that stage stands above. */
static void check_step(ranges *r, const ex_node *n) {
  check *k = r->k;
  const stage *x = xs(r->m, r->reader);
  const tensor *t = xt(r->m, n->tensor);
  if (t->kind != TK_STAGE || t->stage >= r->m->stages.n || xs(r->m, t->stage)->recurrence != x->recurrence) return;
  sz at = step_index(k, xs(r->m, t->stage), n), now = sym_of_atom(k->c, r->m->recurrences.v[x->recurrence].var);
  if (at && !(k->ready[n->tensor] ? sym_le(k->c, at, now) : sym_lt(k->c, at, now)))
    bad(k, x->tensor, "reads step %s of %s, which is not computed yet", sym_str(k->c, at), t->name);
}
static void check_reads(check *k, uint32_t s) {
  emodule *m = k->m;
  const stage *x = xs(m, s);
  u32vec loads = {0};
  expr_stage_loads(m, s, k->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(m, loads.v[i]);
    const tensor *t = xt(m, n->tensor);
    const stage *of = t->kind == TK_STAGE && t->stage < m->stages.n ? xs(m, t->stage) : NULL;
    if (of && of->dead)
      bad(k, x->tensor, "reads %s, which was removed", t->name);
    else if (x->recurrence && of && of->recurrence == x->recurrence)
      continue;
    else if (!can_read(k, n->tensor))
      bad(k, x->tensor, "reads %s before it is computed, or outside its block", t->name);
    else if (of && of->recurrence && k->left[of->recurrence])
      bad(k, x->tensor, "reads %s while its recurrence is not finished", t->name);
  }
  if (!x->recurrence) return;
  ranges r = {.m = m, .a = k->a, .load = check_step, .done = map_new(k->a), .k = k, .reader = s};
  visit(&r, x->value);
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) {
    const update u = xs(m, s)->updates.v[i];
    visit(&r, u.cond);
    visit_under(&r, u.value, u.cond, true);
    for (uint32_t q = 0; q < u.nidx; q++) visit_size(&r, u.idx[q]);
  }
}
static bool scalar_tensor(check *k, tid t, etype type) {
  return t && t < k->m->tensors.n && xt(k->m, t)->type == type && xt(k->m, t)->rank == 0;
}
static bool one_value(check *k, tid t, etype type) { /* a scalar, or of rank 1 and more with one element */
  bool one = t && t < k->m->tensors.n && xt(k->m, t)->type == type;
  for (uint32_t i = 0; one && i < xt(k->m, t)->rank; i++) one = sym_int_or(k->c, xt(k->m, t)->shape[i], 0) == 1;
  return one;
}
static void same_type(check *k, tid a, tid b, const char *what) {
  if (!a || !b) return;
  const tensor *x = xt(k->m, a), *y = xt(k->m, b);
  if (x->type != y->type || x->rank != y->rank)
    bad(k, 0, "%s: %s is %s of rank %u, %s %s of rank %u", what, x->name, et_name(x->type), x->rank, y->name,
        et_name(y->type), y->rank);
}
static void check_block(check *k, uint32_t blk, uint8_t *placed);
static void check_inner(check *k, uint32_t blk, uint32_t parent, uint8_t *placed) {
  if (blk >= k->m->blocks.n || blk == 0)
    bad(k, 0, "control flow with no block");
  else {
    if (k->m->blocks.v[blk].parent != parent) bad(k, 0, "block %u does not know its parent", blk);
    check_block(k, blk, placed);
  }
}
static void check_if(check *k, const xif *f, uint32_t blk, uint8_t *placed) {
  uint8_t *before = arena_dup(k->a, k->ready, k->m->tensors.n);
  need(k, f->cond, "an if");
  if (!scalar_tensor(k, f->cond, ET_BOOL)) bad(k, 0, "the condition of an if is no bool scalar");
  check_inner(k, f->then_block, blk, placed);
  for (uint32_t i = 0; i < f->n; i++)
    need(k, f->then_vals[i], "an if"), same_type(k, f->results[i], f->then_vals[i], "an if");
  memcpy(k->ready, before, k->m->tensors.n);
  check_inner(k, f->else_block, blk, placed);
  for (uint32_t i = 0; i < f->n; i++)
    need(k, f->else_vals[i], "an if"), same_type(k, f->results[i], f->else_vals[i], "an if");
  memcpy(k->ready, before, k->m->tensors.n);
  for (uint32_t i = 0; i < f->n; i++) k->ready[f->results[i]] = 1;
}
static void of_symbols(check *k, sz s, const char *what) {
  if (s && (sym_uses_kind(k->c, s, AT_VAR) || sym_uses_kind(k->c, s, AT_DATA)))
    bad(k, 0, "%s is %s: not made of sizes alone", what, sym_str(k->c, s));
}
static void check_loop(check *k, const xloop *l, uint32_t blk, uint8_t *placed) {
  uint8_t *before = arena_dup(k->a, k->ready, k->m->tensors.n);
  of_symbols(k, l->trips, "the number of a loop's trips");
  if (l->trip_tensor) need(k, l->trip_tensor, "a loop");
  if (l->trip_tensor && !one_value(k, l->trip_tensor, ET_I64)) bad(k, 0, "the number of a loop's trips is not one i64");
  if (l->cond0) need(k, l->cond0, "a loop");
  if ((l->cond0 && !one_value(k, l->cond0, ET_BOOL)) || (l->cond && !one_value(k, l->cond, ET_BOOL)))
    bad(k, 0, "the condition of a loop is not one bool");
  for (uint32_t i = 0; i < l->ncarried; i++) {
    need(k, l->init[i], "a loop"), same_type(k, l->inner[i], l->init[i], "a loop");
    k->ready[l->inner[i]] = 1;
  }
  check_inner(k, l->body, blk, placed);
  for (uint32_t i = 0; i < l->ncarried; i++)
    need(k, l->next[i], "a loop"), same_type(k, l->inner[i], l->next[i], "a loop");
  for (uint32_t i = 0; i < l->ncollected; i++) need(k, l->slice[i], "a loop");
  if (l->cond) need(k, l->cond, "a loop");
  memcpy(k->ready, before, k->m->tensors.n);
  for (uint32_t i = 0; i < l->ncarried; i++)
    if (l->final[i]) k->ready[l->final[i]] = 1;
  for (uint32_t i = 0; i < l->ncollected; i++) k->ready[l->collected[i]] = 1;
}
static void check_block(check *k, uint32_t blk, uint8_t *placed) {
  emodule *m = k->m;
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_IF)
      check_if(k, &m->ifs.v[it.index], blk, placed);
    else if (it.kind == IT_LOOP)
      check_loop(k, &m->loops.v[it.index], blk, placed);
    else if (it.index >= m->stages.n)
      bad(k, 0, "block %u holds stage %u, which does not exist", blk, it.index);
    else if (!xs(m, it.index)->dead) {
      const stage *x = xs(m, it.index);
      if (placed[it.index]++) bad(k, x->tensor, "stands in two places");
      if (x->block != blk) bad(k, x->tensor, "says it stands in block %u, stands in %u", x->block, blk);
      check_reads(k, it.index);
      k->ready[x->tensor] = 1;
      if (x->recurrence) k->left[x->recurrence]--;
    }
  }
}

/* ---- 5: kernels ------------------------------------------------------------------------------ */
static void check_kernels(check *k) {
  emodule *m = k->m;
  uint32_t *in = NEWN(k->a, uint32_t, m->stages.n + 1);
  for (uint32_t i = 0; i < m->kernels.n; i++) {
    const kernel *q = &m->kernels.v[i];
    if (q->dead) continue;
    for (uint32_t j = 0; j < q->stages.n; j++) {
      uint32_t s = q->stages.v[j];
      if (s >= m->stages.n || xs(m, s)->dead) {
        bad(k, 0, "kernel %u holds a stage that does not exist", i);
        continue;
      }
      if (in[s]) bad(k, xs(m, s)->tensor, "is in two kernels");
      in[s] = i + 1;
      if (xs(m, s)->block != q->block) bad(k, xs(m, s)->tensor, "is in a kernel of another block");
    }
    for (uint32_t j = 0; q->canon && j < map_count(q->canon); j++) {
      size_t n;
      uint64_t to;
      map_key(q->canon, j, &n, &to);
      bool found = false;
      for (uint32_t x = 0; x < q->outer.n; x++) found |= q->outer.v[x] == to;
      if (!found && sym_kind(k->c, (atom)to) != AT_VAR)
        bad(k, 0, "kernel %u maps a variable to something that is none", i);
    }
  }
  for (uint32_t s = 0; s < m->stages.n; s++)
    if (!xs(m, s)->dead && in[s] != xs(m, s)->kernel)
      bad(k, xs(m, s)->tensor, "says kernel %u, is in %u", xs(m, s)->kernel, in[s]);
}

/* Shapes that are not equal as formulas are so by a guard (lowering). */
static void check_states(check *k) {
  emodule *m = k->m;
  if (m->states.n > m->inputs.n || m->states.n > m->outputs.n) {
    bad(k, 0, "there are more states than inputs or outputs");
    return;
  }
  for (uint32_t i = 0; i < m->states.n; i++) {
    const tid in = expr_state_in(m, i), out = expr_state_out(m, i), first = m->states.v[i];
    const tensor *x = xt(m, in), *y = xt(m, out);
    if (x->kind != TK_INPUT) bad(k, in, "the old value of a state is no input");
    if (x->type != y->type || x->rank != y->rank) bad(k, out, "has another type or rank than the state %s", x->name);
    if (!first) continue;
    if (first >= m->tensors.n || xt(m, first)->kind != TK_CONST || xt(m, first)->type != x->type ||
        xt(m, first)->rank != x->rank) {
      bad(k, in, "the state begins with something that is no constant of its type");
      continue;
    }
    for (uint32_t d = 0; d < x->rank; d++)
      if (!sym_eq(m->c, x->shape[d], xt(m, first)->shape[d]))
        bad(k, in, "the state begins with a constant of other sizes");
  }
}

bool expr_verify(emodule *m, const char *when) {
  arena *a = arena_new(m->c);
  check k = {.m = m, .c = m->c, .a = a, .when = when, .owner = map_new(a), .ok = true};
  uint8_t *placed = arena_alloc(a, m->stages.n + 1);
  k.ready = arena_alloc(a, m->tensors.n + 1);
  k.left = NEWN(a, uint32_t, m->recurrences.n + 1);
  for (tid t = 1; t < m->tensors.n; t++)
    for (uint32_t i = 0; i < xt(m, t)->rank; i++)
      if (xt(m, t)->kind != TK_STAGE && never(&k, xt(m, t)->shape[i]))
        bad(&k, t, "the size of axis %u is %s, which is negative", i, sym_str(m->c, xt(m, t)->shape[i]));
      else if (sym_uses_kind(m->c, xt(m, t)->shape[i], AT_VAR))
        bad(&k, t, "the size of axis %u is %s, which varies", i, sym_str(m->c, xt(m, t)->shape[i]));
  for (uint32_t s = 0; s < m->stages.n; s++) {
    if (xs(m, s)->dead) continue;
    check_stage(&k, s);
    if (xs(m, s)->recurrence && xs(m, s)->recurrence < m->recurrences.n) k.left[xs(m, s)->recurrence]++;
  }
  if (k.ok) check_block(&k, 0, placed); /* blocks are checked only where what was checked so far holds */
  if (k.ok) {
    for (uint32_t s = 0; s < m->stages.n; s++)
      if (!xs(m, s)->dead && !placed[s]) bad(&k, xs(m, s)->tensor, "stands in no block");
    for (uint32_t i = 0; i < m->outputs.n; i++) need(&k, m->outputs.v[i].t, "an output");
    check_states(&k);
    for (uint32_t i = 0; i < m->guards.n; i++) of_symbols(&k, m->guards.v[i].ge0, "a guard");
    for (uint32_t i = 0; i < m->lates.n; i++) {
      tid t = m->lates.v[i].tensor;
      of_symbols(&k, m->lates.v[i].bound, "a late size's bound");
      if (!t || t >= m->tensors.n || (et_kind(xt(m, t)->type) != K_INT && et_kind(xt(m, t)->type) != K_UINT) ||
          !one_value(&k, t, xt(m, t)->type))
        bad(&k, 0, "a late size has no integer");
    }
    for (uint32_t i = 0; i < m->checks.n; i++) {
      const value_check *q = &m->checks.v[i];
      if (!one_value(&k, q->at, ET_I64) || !one_value(&k, q->value, ET_I64) || q->ndims > MAX_RANK)
        bad(&k, 0, "a check has no two integers");
      of_symbols(&k, q->lo, "a check"), of_symbols(&k, q->hi, "a check");
      for (uint32_t j = 0; j < q->ndims; j++) of_symbols(&k, q->dims[j], "a check");
    }
    if (m->kernels.n) check_kernels(&k);
  }
  arena_free(a);
  return k.ok;
}

/* ---- ranges ---------------------------------------------------------------------------------- */
static void prove_load(ranges *r, const ex_node *n) {
  ctx *c = r->m->c;
  const tensor *t = xt(r->m, n->tensor);
  for (uint32_t i = 0; i < n->nargs; i++) {
    if (n->otherwise || (sym_ge0(c, n->args[i]) && sym_lt(c, n->args[i], t->shape[i]))) continue;
    r->unproved++;
    if (r->out)
      sb_fmt(r->out, "stage %s: not proved: 0 <= %s < %s (axis %u of %s)\n", r->stage, sym_str(c, n->args[i]),
             sym_str(c, t->shape[i]), i, t->name);
  }
}
uint32_t expr_verify_ranges(emodule *m, sbuf *out) {
  arena *a = arena_new(m->c);
  ranges r = {.m = m, .a = a, .load = prove_load, .out = out};
  for (uint32_t s = 0; s < m->stages.n; s++) {
    const stage *x = xs(m, s);
    if (x->dead) continue;
    r.stage = xt(m, x->tensor)->name;
    r.done = map_new(a);
    visit(&r, x->value);
    for (uint32_t i = 0; i < x->updates.n; i++) {
      const update u = x->updates.v[i];
      uint32_t mark = sym_mark(m->c);
      r.done = map_new(a);
      visit(&r, u.cond);
      if (u.cond) assume(&r, u.cond, true);
      visit(&r, u.value);
      for (uint32_t k = 0; k < u.nidx; k++) {
        sz at = u.idx[k], size = xt(m, xs(m, s)->tensor)->shape[k];
        visit_size(&r, at);
        if (sym_ge0(m->c, at) && sym_lt(m->c, at, size)) continue;
        r.unproved++;
        if (out)
          sb_fmt(out, "stage %s: not proved: update of 0 <= %s < %s (axis %u)\n", r.stage, sym_str(m->c, at),
                 sym_str(m->c, size), k);
      }
      sym_pop(m->c, mark);
    }
  }
  arena_free(a);
  return r.unproved;
}
