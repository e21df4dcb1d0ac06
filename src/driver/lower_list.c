/* What becomes of sequences and optionals?
 *
 * Where they can be they are resolved while the model is compiled: a sequence is a list of tensors whose number is
 * known, an optional is its contents or nothing. Then the operators on them are bookkeeping, compiled code sees
 * tensors only. Positions and lengths must be numbers by then, else the list is an open one (lower_open.c). Loops
 * that build a list are unrolled where the number of trips and the condition are known; a body is lowered anew for
 * each trip, its nodes' names getting `#trip`. At the model's ports a list is so many tensors, NAME.0, NAME.1, ..:
 * how many an input has is said with --dim NAME=N (an optional: 0 or 1), an output has what it turns out to have.
 */
#include "driver/lower_in.h"
#include <string.h>

enum { MAX_LIST = 65536, MAX_TRIPS = 4096 };

typedef VEC(arg) argvec;

static void set_list(low *L, value *v, const arg *items, uint32_t n) {
  if (!v) return;
  known *k = low_slot(L, v);
  *k = (known){.done = true, .list = true, .n = n, .items = n ? arena_dup(L->a, items, n * sizeof *items) : NULL};
}
/* The list that input i of n is. False: an error, recorded here or where the value should have come from. */
static bool list_of(low *L, const node *n, uint32_t i, known *out) {
  if (i >= n->in.n || !n->in.v[i]) {
    diag_error(L->c, E_MODEL, n->name, "%s needs input %u", n->op, i);
    return false;
  }
  *out = *low_slot(L, n->in.v[i]);
  if (out->done && out->list) return true;
  if (out->done || n->in.v[i]->data)
    diag_error(L->c, E_MODEL, n->name, "%s: '%s' is %s, a sequence is needed", n->op, n->in.v[i]->source,
               out->absent ? "an empty optional" : "a tensor");
  return false;
}
static bool number_of(low *L, const node *n, const value *v, const char *what, int64_t *out) {
  arg a;
  if (!low_tensor(L, n, v, &a)) return false;
  if (a.values && sym_is_int(L->c, sym_canon(L->c, a.values[0]), out)) return true;
  diag_error(L->c, E_UNSUPPORTED, n->name, "%s: %s ('%s') must be known when the model is compiled", n->op, what,
             v->source);
  return false;
}
/* Is the position that input i gives, if it does, a number by now? */
static bool position_known(low *L, const node *n, uint32_t i) {
  const arg *a = i < n->in.n && n->in.v[i] ? low_value(L, n->in.v[i]) : NULL;
  return i >= n->in.n || !n->in.v[i] || !a || (a->values && sym_is_int(L->c, sym_canon(L->c, a->values[0]), NULL));
}
/* A position in a list of `count`, of which `end` may be named too. */
static bool position(low *L, const node *n, uint32_t i, int64_t count, bool end, int64_t *out) {
  *out = end ? count : count - 1;
  if (i < n->in.n && n->in.v[i] && !number_of(L, n, n->in.v[i], "the position", out)) return false;
  if (*out < 0) *out += count - EK_PLANTED("lower-list");
  if (*out >= 0 && *out < count + end) return true;
  diag_error(L->c, E_MODEL, n->name, "%s: there is no such position in a sequence of %lld", n->op, (long long)count);
  return false;
}
static int64_t int_attr(const node *n, const char *name, int64_t otherwise) {
  const attr *a = node_attr(n, name);
  return a && a->kind == AK_INT ? a->i : otherwise;
}
static sattr axis_attr(int64_t axis) { return (sattr){.name = "axis", .kind = SK_INT, .i = axis}; }

/* ---- the operators --------------------------------------------------------------------------- */
static void construct(low *L, node *n) {
  argvec v = {0};
  for (uint32_t i = 0; i < n->in.n; i++) {
    arg a;
    if (!n->in.v[i] || !low_tensor(L, n, n->in.v[i], &a)) return;
    vec_push(L->a, v, a);
  }
  set_list(L, n->out.v[0], v.v, v.n);
}
static void insert(low *L, node *n, uint32_t block) {
  known l;
  arg x;
  int64_t at;
  if (!list_of(L, n, 0, &l)) return;
  if (n->in.n > 1 && n->in.v[1] && (l.open || !position_known(L, n, 2))) {
    low_open_insert(L, n, block, &l);
    return;
  }
  if (n->in.n < 2 || !low_tensor(L, n, n->in.v[1], &x) || !position(L, n, 2, l.n, true, &at)) return;
  if (l.n >= MAX_LIST) {
    diag_error(L->c, E_UNSUPPORTED, n->name, "a sequence of more than %d tensors is not supported", MAX_LIST);
    return;
  }
  argvec v = {0};
  for (uint32_t i = 0; i <= l.n; i++) {
    if (i == at) vec_push(L->a, v, x);
    if (i < l.n) vec_push(L->a, v, l.items[i]);
  }
  set_list(L, n->out.v[0], v.v, v.n);
}
static void erase(low *L, node *n, uint32_t block) {
  known l;
  int64_t at;
  if (!list_of(L, n, 0, &l)) return;
  if (l.open || !position_known(L, n, 1)) {
    low_open_erase(L, n, block, &l);
    return;
  }
  if (!position(L, n, 1, l.n, false, &at)) return;
  argvec v = {0};
  for (uint32_t i = 0; i < l.n; i++)
    if (i != at) vec_push(L->a, v, l.items[i]);
  set_list(L, n->out.v[0], v.v, v.n);
}
static void split(low *L, node *n, uint32_t block) {
  arg in[2];
  int64_t axis = int_attr(n, "axis", 0), size, chunk = 1;
  bool given = n->in.n > 1 && n->in.v[1], keep = given || int_attr(n, "keepdims", 1);
  uint32_t parts;
  if (!n->in.n || !low_tensor(L, n, n->in.v[0], &in[0])) return;
  if (axis < 0) axis += in[0].rank;
  if (axis < 0 || axis >= in[0].rank) {
    diag_error(L->c, E_SHAPE, n->name, "SplitToSequence: axis %lld of a tensor of rank %u", (long long)axis,
               in[0].rank);
    return;
  }
  if (given && !low_tensor(L, n, n->in.v[1], &in[1])) return;
  bool sizes = given && in[1].rank == 1;
  if (!sym_is_int(L->c, sym_canon(L->c, sizes ? in[1].shape[0] : in[0].shape[axis]), &size) ||
      (given && !in[1].values) || size > MAX_LIST) {
    low_open_split(L, n, block, &in[0], given ? &in[1] : NULL, axis, keep);
    return;
  }
  if (sizes) {
    parts = (uint32_t)size;
  } else {
    if (given && !number_of(L, n, n->in.v[1], "the size of the parts", &chunk)) return;
    if (chunk < 1) {
      diag_error(L->c, E_MODEL, n->name, "SplitToSequence: parts of %lld", (long long)chunk);
      return;
    }
    if (size / chunk >= MAX_LIST) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "a sequence of more than %d tensors is not supported", MAX_LIST);
      return;
    }
    parts = (uint32_t)((size + chunk - 1) / chunk);
    int64_t *p = NEWN(L->a, int64_t, parts + 1);
    for (uint32_t i = 0; i < parts; i++) p[i] = min64(chunk, size - i * chunk);
    in[1] = low_ints(L, ET_I64, p, parts, true, arena_fmt(L->a, "%s.sizes", n->name));
  }
  arg *out = NEWN(L->a, arg, parts + 1);
  sattr ax = axis_attr(axis);
  if (parts && !low_call(L, block, n->name, "Split", in, 2, &ax, 1, out, parts)) return;
  for (uint32_t i = 0; i < parts && !keep; i++) {
    arg sq[2] = {out[i], low_ints(L, ET_I64, &axis, 1, true, arena_fmt(L->a, "%s.axis", n->name))};
    if (!low_call(L, block, n->name, "Squeeze", sq, 2, NULL, 0, &out[i], 1)) return;
  }
  set_list(L, n->out.v[0], out, parts);
}
/* Tensors side by side, along an axis of theirs or along a new one. */
static bool concat(low *L, uint32_t block, const char *name, const arg *items, uint32_t count, int64_t axis, bool fresh,
                   arg *out) {
  arg *in = NEWN(L->a, arg, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    in[i] = items[i];
    arg un[2] = {items[i], {0}};
    if (fresh) un[1] = low_ints(L, ET_I64, &axis, 1, true, arena_fmt(L->a, "%s.axis", name));
    if (fresh && !low_call(L, block, name, "Unsqueeze", un, 2, NULL, 0, &in[i], 1)) return false;
  }
  sattr ax = axis_attr(axis);
  return low_call(L, block, name, "Concat", in, count, &ax, 1, out, 1);
}
static void concat_list(low *L, node *n, uint32_t block) {
  known l;
  arg out;
  if (!list_of(L, n, 0, &l)) return;
  if (l.open)
    low_open_concat(L, n, block, &l, int_attr(n, "axis", 0), int_attr(n, "new_axis", 0));
  else if (!l.n)
    diag_error(L->c, E_MODEL, n->name, "ConcatFromSequence: the sequence is empty");
  else if (concat(L, block, n->name, l.items, l.n, int_attr(n, "axis", 0), int_attr(n, "new_axis", 0), &out))
    low_set(L, n->out.v[0], out);
}
static void at_position(low *L, node *n, uint32_t block) {
  known l;
  int64_t at;
  if (!list_of(L, n, 0, &l)) return;
  if (l.open || !position_known(L, n, 1))
    low_open_at(L, n, block, &l);
  else if (position(L, n, 1, l.n, false, &at))
    low_set(L, n->out.v[0], l.items[at]);
}
static void answer(low *L, node *n, etype t, int64_t v) {
  low_set(L, n->out.v[0], low_ints(L, t, &v, 1, false, n->out.v[0]->name));
}
static void map_list(low *L, node *n, uint32_t block) {
  const attr *b = node_attr(n, "body");
  known first;
  if (!b || b->kind != AK_GRAPH || b->g->inputs.n != n->in.n || b->g->outputs.n < n->out.n) {
    diag_error(L->c, E_MODEL, n->name, "SequenceMap needs a body with its inputs and outputs");
    return;
  }
  if (!list_of(L, n, 0, &first)) return;
  for (uint32_t i = 0; i < n->in.n; i++) {
    if (!n->in.v[i]) return;
    low_value(L, n->in.v[i]);
    if (!low_slot(L, n->in.v[i])->open) continue;
    if (low_pack(L, n, block, &first)) low_open_map(L, n, block, &first);
    return;
  }
  argvec *results = NEWN(L->a, argvec, n->out.n + 1);
  const char *outer = L->suffix;
  for (uint32_t k = 0; k < first.n; k++) {
    L->suffix = arena_fmt(L->a, "%s#%u", outer, k);
    for (uint32_t i = 0; i < n->in.n; i++) {
      const known *in = n->in.v[i] ? low_slot(L, n->in.v[i]) : NULL;
      if (in && in->list && in->n <= k) {
        diag_error(L->c, E_MODEL, n->name, "SequenceMap: sequence %u is shorter than the first", i);
        return;
      }
      if (in && in->list)
        low_set(L, b->g->inputs.v[i], in->items[k]);
      else if (in)
        low_copy(L, b->g->inputs.v[i], n->in.v[i]);
    }
    if (!low_nodes(L, b->g, block)) return;
    for (uint32_t i = 0; i < n->out.n; i++) {
      arg a;
      if (!low_tensor(L, n, b->g->outputs.v[i], &a)) return;
      vec_push(L->a, results[i], a);
    }
  }
  L->suffix = outer;
  for (uint32_t i = 0; i < n->out.n; i++) set_list(L, n->out.v[i], results[i].v, results[i].n);
}

bool low_list_node(low *L, node *n, uint32_t block) {
  const char *op = n->op;
  const value *x = n->in.n ? n->in.v[0] : NULL;
  known l = {0};
  if (x) l = *low_slot(L, x);
  if (!n->out.n) return false;
  if (!strcmp(op, "SequenceConstruct"))
    construct(L, n);
  else if (!strcmp(op, "SequenceEmpty"))
    set_list(L, n->out.v[0], NULL, 0);
  else if (!strcmp(op, "SequenceInsert"))
    insert(L, n, block);
  else if (!strcmp(op, "SequenceErase"))
    erase(L, n, block);
  else if (!strcmp(op, "SequenceAt"))
    at_position(L, n, block);
  else if (!strcmp(op, "SequenceLength")) {
    if (list_of(L, n, 0, &l) && l.open)
      low_open_length(L, n, block, &l);
    else if (l.list)
      answer(L, n, ET_I64, l.n);
  } else if (!strcmp(op, "SplitToSequence"))
    split(L, n, block);
  else if (!strcmp(op, "ConcatFromSequence"))
    concat_list(L, n, block);
  else if (!strcmp(op, "ListOf"))
    low_open_of(L, n);
  else if (!strcmp(op, "ListParts"))
    low_open_parts(L, n, block);
  else if (!strcmp(op, "SequenceMap"))
    map_list(L, n, block);
  else if (!strcmp(op, "OptionalHasElement")) {
    if (!x || x->data || l.done) answer(L, n, ET_BOOL, x && !l.absent);
  } else if (!strcmp(op, "Optional") && !x)
    *low_slot(L, n->out.v[0]) = (known){.done = true, .absent = true};
  else if (!strcmp(op, "OptionalGetElement") && l.absent)
    diag_error(L->c, E_MODEL, n->name, "OptionalGetElement: the optional '%s' is empty", x->source);
  else if (!strcmp(op, "Optional") || !strcmp(op, "OptionalGetElement") ||
           (!strcmp(op, "Identity") && (l.list || l.absent))) {
    if (x) low_copy(L, n->out.v[0], x);
  } else
    return false;
  return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */
static bool handles_lists(const graph *g) {
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    if (!n->domain[0] &&
        (!strncmp(n->op, "Sequence", 8) || !strcmp(n->op, "SplitToSequence") || !strcmp(n->op, "ConcatFromSequence")))
      return true;
    for (uint32_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.v[k].g && handles_lists(n->attrs.v[k].g)) return true;
  }
  return false;
}
bool low_wants_unrolling(low *L, const node *n) {
  const attr *b = node_attr(n, "body");
  for (uint32_t i = 2; i < n->in.n; i++) {
    const known *k = n->in.v[i] ? low_slot(L, n->in.v[i]) : NULL;
    if (k && (k->list || k->absent)) return true;
  }
  return b && b->g && handles_lists(b->g);
}
/* Does v, a value in the body b, hang on nothing but the number of the trip and what is known? */
static bool decided(low *L, const graph *b, const value *v, int depth) {
  if (!v || v->data || v == b->inputs.v[0] || v == b->inputs.v[1]) return true;
  bool inner = false;
  for (uint32_t i = 0; i < b->inputs.n && !inner; i++) inner = b->inputs.v[i] == v;
  if (inner) return false;
  for (uint32_t i = 0; i < b->nodes.n && !inner; i++) inner = b->nodes.v[i] == v->def;
  if (!inner) {
    const arg *a = low_value(L, v);
    return a && a->values;
  }
  bool all = depth > 0;
  for (uint32_t i = 0; all && i < v->def->in.n; i++) all = decided(L, b, v->def->in.v[i], depth - 1);
  return all;
}
bool low_trips_known(low *L, const node *n) {
  enum { DEEP = 16 };
  const attr *b = node_attr(n, "body");
  int64_t trips = 0;
  for (uint32_t i = 0; i < 2 && i < n->in.n; i++) {
    const arg *a = n->in.v[i] ? low_value(L, n->in.v[i]) : NULL;
    if (!n->in.v[i] ? i == 0 : !a || !a->values || !sym_is_int(L->c, sym_canon(L->c, a->values[0]), &trips))
      return false;
    if (i == 0 && trips > MAX_TRIPS) return false;
  }
  return !b || !b->g || b->g->inputs.n < 2 || !b->g->outputs.n || decided(L, b->g, b->g->outputs.v[0], DEEP);
}
bool low_unrolled(low *L, node *n, uint32_t block) {
  const attr *ba = node_attr(n, "body");
  graph *b = ba ? ba->g : NULL;
  uint32_t nc = n->in.n >= 2 ? n->in.n - 2 : 0;
  int64_t trips = MAX_TRIPS + 1, go = 1;
  if (!b || n->in.n < 2 || b->inputs.n != nc + 2 || b->outputs.n < nc + 1 || n->out.n > b->outputs.n - 1) {
    diag_error(L->c, E_MODEL, n->name, "Loop needs a body that fits its inputs and outputs");
    return false;
  }
  if (n->in.v[0] && !number_of(L, n, n->in.v[0], "the number of trips", &trips)) return false;
  if (n->in.v[1] && !number_of(L, n, n->in.v[1], "the condition", &go)) return false;
  known *carried = NEWN(L->a, known, nc + 1);
  argvec *collected = NEWN(L->a, argvec, n->out.n + 1);
  for (uint32_t i = 0; i < nc; i++) {
    if (n->in.v[i + 2]) low_value(L, n->in.v[i + 2]);
    if (!n->in.v[i + 2] || !low_slot(L, n->in.v[i + 2])->done) return false;
    carried[i] = *low_slot(L, n->in.v[i + 2]);
  }
  const char *outer = L->suffix;
  int64_t k = 0;
  for (; k < trips && go; k++) {
    if (k >= MAX_TRIPS) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "a loop on sequences of more than %d trips is not supported", MAX_TRIPS);
      return false;
    }
    L->suffix = arena_fmt(L->a, "%s#%lld", outer, (long long)k);
    int64_t yes = 1;
    low_set(L, b->inputs.v[0], low_ints(L, ET_I64, &k, 1, false, b->inputs.v[0]->name));
    low_set(L, b->inputs.v[1], low_ints(L, ET_BOOL, &yes, 1, false, b->inputs.v[1]->name));
    for (uint32_t i = 0; i < nc; i++) {
      if (!carried[i].list && !carried[i].absent)
        low_set(L, b->inputs.v[i + 2], carried[i].a);
      else
        *low_slot(L, b->inputs.v[i + 2]) = carried[i];
    }
    if (!low_nodes(L, b, block) || !number_of(L, n, b->outputs.v[0], "the condition for going on", &go)) return false;
    for (uint32_t i = 0; i < nc; i++) {
      low_value(L, b->outputs.v[i + 1]); /* the condition is a constant */
      carried[i] = *low_slot(L, b->outputs.v[i + 1]);
      if (!carried[i].done) return false;
    }
    for (uint32_t i = nc; i < n->out.n; i++) {
      arg a;
      if (!low_needed(L, n->out.v[i])) continue;
      if (!low_tensor(L, n, b->outputs.v[i + 1], &a)) return false;
      vec_push(L->a, collected[i], a);
    }
  }
  L->suffix = outer;
  for (uint32_t i = 0; i < n->out.n; i++) {
    arg a;
    if (!low_needed(L, n->out.v[i])) continue;
    if (i < nc) {
      if (!carried[i].list && !carried[i].absent)
        low_set(L, n->out.v[i], carried[i].a);
      else
        *low_slot(L, n->out.v[i]) = carried[i];
      continue;
    }
    if (!k) {
      diag_error(L->c, E_UNSUPPORTED, n->name,
                 "this loop makes no trip, and the shape of what it collects is not known");
      return false;
    }
    if (!concat(L, block, n->name, collected[i].v, collected[i].n, 0, true, &a)) return false;
    low_set(L, n->out.v[i], a);
  }
  return true;
}

/* ---- the model's ports ----------------------------------------------------------------------- */
bool low_settle(low *L, graph *g) {
  uint32_t errors = diag_errors(L->c);
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    value *v = g->inputs.v[i];
    if (v->kind == VALUE_TENSOR) continue;
    bool list = v->kind != VALUE_OPTIONAL;
    int64_t n = -2;
    for (uint32_t k = 0; k < L->ndims; k++)
      if (!strcmp(L->dims[k].name, v->source)) {
        n = L->dims[k].value, L->used[k] = true;
        if (L->dims[k].lo < L->dims[k].hi)
          diag_error(L->c, E_USAGE, NULL, "--dim %s: one number is expected, not a range", v->source);
      }
    if (n == -2)
      diag_error(L->c, E_UNSUPPORTED, NULL,
                 list ? "input %s is a sequence: say how many tensors it has, --dim %s=N"
                      : "input %s is optional: say whether it is given, --dim %s=1 or --dim %s=0",
                 v->source, v->source, v->source);
    else if (n > (list ? MAX_LIST : 1) || n < 0)
      diag_error(L->c, E_USAGE, NULL, "--dim %s=%lld: from 0 to %d", v->source, (long long)n, list ? MAX_LIST : 1);
    else {
      graph_settle(g, v, !list && !n ? -1 : n);
      i = i + (uint32_t)n - 1; /* goes on behind the new values */
    }
  }
  return diag_errors(L->c) == errors;
}
/* Element j of a list, for whoever reads the graph: it has been lowered. */
static value *element(graph *g, value *list, uint32_t j) {
  arena *a = ctx_arena(g->c);
  value *o = graph_value(g, arena_fmt(a, "%s.%u", list->source, j));
  int64_t *at = NEW(a, int64_t);
  *at = j;
  ndarray d = {.type = ET_I64, .data = at, .bytes = sizeof *at};
  node *n = graph_node(g, "SequenceAt", "", o->name);
  vec_push(a, n->in, list);
  vec_push(a, n->in, graph_const(g, arena_fmt(a, "%s.at", o->name), &d));
  vec_push(a, n->out, o);
  o->def = n;
  return o;
}
void low_list_outputs(low *L, graph *g) {
  VEC(value *) out = {0};
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    value *v = g->outputs.v[i];
    const arg *a = low_value(L, v);
    known k = *low_slot(L, v);
    uint32_t n = a ? 1 : k.n;
    if (k.open)
      diag_error(L->c, E_UNSUPPORTED, NULL,
                 "output %s is a sequence of which only the run knows how many tensors it has: give ConcatFromSequence "
                 "or SequenceAt of it instead",
                 v->source);
    if (!a && !k.list && !k.absent) vec_push(ctx_arena(L->c), out, v);
    for (uint32_t j = 0; j < n; j++) { /* an output is a tensor of its own */
      arg own = a ? *a : k.items[j];
      bool mine = xt(L->m, own.t)->kind != TK_INPUT && xt(L->m, own.t)->kind != TK_CONST;
      for (uint32_t q = 0; q < out.n && mine; q++) {
        const arg *other = low_value(L, out.v[q]);
        mine = !other || other->t != own.t;
      }
      if (a && mine) {
        vec_push(ctx_arena(L->c), out, v);
        continue;
      }
      value *o = a ? v : element(g, v, j);
      arg to = own;
      if (!low_call(L, 0, o->name, "Identity", &own, 1, NULL, 0, &to, 1)) return;
      low_set(L, o, to);
      vec_push(ctx_arena(L->c), out, o);
    }
  }
  g->outputs.v = (void *)out.v, g->outputs.n = out.n, g->outputs.cap = out.cap;
}
