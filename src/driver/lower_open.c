/* What becomes of a sequence whose length, or whose tensors' sizes, only the run knows?
 *
 * It is three tensors: the elements of all its tensors one behind the other, the shape of each as a row of a table, and
 * what is known of the sizes that all of them have. The tensors have one element type and one rank. So the operators
 * on sequences are operators on tensors (ops/lists.ek), and sizes that the run finds are late sizes as everywhere:
 * SequenceAt reads from the place where its tensor begins, SplitToSequence along the first axis and
 * ConcatFromSequence along it only say anew what shape the same elements have.
 *
 * A loop may append one tensor a trip to a sequence that nothing in it reads. Where these tensors have one shape they
 * are collected. Else the loop runs twice: once for the shapes, which are collected, and, when it is known how many
 * elements there are, once more to put each tensor in its place. A loop that only a condition ends runs once before
 * that, to be counted: no size has to be guessed.
 */
#include "driver/lower_in.h"
#include <string.h>

/* ---- from a list of tensors ------------------------------------------------------------------ */
static void set_open(low *L, value *v, arg data, arg sizes, const sz *dims, uint32_t rank) {
  known *k = low_slot(L, v);
  *k = (known){.done = true, .list = true, .open = true, .data = data, .sizes = sizes, .rank = rank};
  k->dims = arena_dup(L->a, dims, (rank + 1) * sizeof *dims);
}
static sz *copy_dims(low *L, const sz *dims, uint32_t rank) {
  sz *d = NEWN(L->a, sz, rank + 1);
  for (uint32_t i = 0; i < rank; i++) d[i] = dims[i];
  return d;
}
/* dims[d] stays where x has that size, else it becomes 0: the tensors differ in it */
static void join_dims(low *L, sz *dims, const sz *other, uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++)
    if (!dims[d] || !other[d] || !sym_eq(L->c, dims[d], other[d])) dims[d] = 0;
}
/* Sizes as a tensor whose contents are known; a size of 0 counts as -1. */
static arg sizes_arg(low *L, uint32_t block, const sz *dims, uint32_t rank, const char *name) {
  sz *values = NEWN(L->a, sz, rank + 1), *shape = NEWN(L->a, sz, 1), at;
  const sz minus = sym_int(L->c, -1);
  shape[0] = sym_int(L->c, rank);
  for (uint32_t d = 0; d < rank; d++) values[d] = dims[d] ? sym_canon(L->c, dims[d]) : minus;
  axis *axes = NEWN(L->a, axis, 1);
  axes[0] = expr_axis1(L->m, "k", shape[0], &at);
  sz e = rank ? values[rank - 1] : minus;
  for (uint32_t d = rank; d-- > 1;) e = sym_sel(L->c, sym_addi(L->c, sym_neg(L->c, at), d - 1), values[d - 1], e);
  tid t = expr_tensor(L->m, TK_STAGE, ET_I64, shape, 1, name, NULL);
  expr_stage(L->m, block, t, axes, 1, expr_index(L->m, e));
  return (arg){.present = true, .type = ET_I64, .rank = 1, .shape = shape, .t = t, .values = values};
}
static arg number_arg(low *L, uint32_t block, sz v, const char *name) {
  sz *values = NEWN(L->a, sz, 1);
  values[0] = v;
  return (arg){.present = true,
               .type = ET_I64,
               .shape = NEWN(L->a, sz, 1),
               .t = low_scalar(L, block, v, name, NULL),
               .values = values};
}
static bool fits(low *L, const node *n, const known *l, const arg *x) {
  if (l->data.type == x->type && l->rank == x->rank) return true;
  diag_error(
      L->c, E_UNSUPPORTED, n->name,
      "%s: the tensors of a sequence whose length only the run knows must have one type and rank, not %s of rank "
      "%u beside %s of rank %u",
      n->op, et_name(x->type), x->rank, et_name(l->data.type), l->rank);
  return false;
}
/* A list whose tensors are known one by one, as an open one. */
bool low_pack(low *L, const node *n, uint32_t block, known *l) {
  if (l->open) return true;
  if (!l->n) {
    diag_error(L->c, E_UNSUPPORTED, n->name, "%s: the sequence is empty here, and what its tensors are is not known",
               n->op);
    return false;
  }
  arg *flat = NEWN(L->a, arg, l->n + 1), *rows = NEWN(L->a, arg, l->n + 1);
  known all = {.done = true, .list = true, .open = true, .data = l->items[0], .rank = l->items[0].rank};
  sz *dims = copy_dims(L, l->items[0].shape, all.rank);
  const int64_t minus = -1, zero = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const arg *x = &l->items[i];
    if (!fits(L, n, &all, x)) return false;
    if (x->type == ET_STR) {
      diag_error(L->c, E_UNSUPPORTED, n->name,
                 "%s: a sequence of strings needs a length and positions that are known when the model is compiled",
                 n->op);
      return false;
    }
    join_dims(L, dims, x->shape, all.rank);
    arg in[2] = {*x, low_ints(L, ET_I64, &minus, 1, true, arena_fmt(L->a, "%s.flat", n->name))};
    if (!low_call(L, block, n->name, "Reshape", in, 2, NULL, 0, &flat[i], 1)) return false;
    in[0] = sizes_arg(L, block, x->shape, x->rank, arena_fmt(L->a, "%s.shape", n->name));
    in[1] = low_ints(L, ET_I64, &zero, 1, true, arena_fmt(L->a, "%s.row", n->name));
    if (!low_call(L, block, n->name, "Unsqueeze", in, 2, NULL, 0, &rows[i], 1)) return false;
  }
  sattr axis0 = {.name = "axis", .kind = SK_INT};
  if (!low_call(L, block, n->name, "Concat", flat, l->n, &axis0, 1, &all.data, 1) ||
      !low_call(L, block, n->name, "Concat", rows, l->n, &axis0, 1, &all.sizes, 1))
    return false;
  all.dims = dims;
  *l = all;
  return true;
}

/* ---- the operators --------------------------------------------------------------------------- */
/* Position input i: 1 given, 0 not given, -1 an error. */
static int position_arg(low *L, const node *n, uint32_t i, arg *out) {
  if (i >= n->in.n || !n->in.v[i]) return 0;
  if (!low_tensor(L, n, n->in.v[i], out)) return -1;
  if (out->type == ET_I64) return 1;
  sattr to = {.name = "to", .kind = SK_INT, .i = et_to_onnx(ET_I64)};
  arg in = *out;
  return low_call(L, 0, n->name, "Cast", &in, 1, &to, 1, out, 1) ? 1 : -1;
}
static arg known_dims(low *L, uint32_t block, const node *n, const known *l) {
  return sizes_arg(L, block, l->dims, l->rank, arena_fmt(L->a, "%s.known", n->name));
}
void low_open_at(low *L, node *n, uint32_t block, known *l) {
  arg out, in[4];
  if (!low_pack(L, n, block, l) || position_arg(L, n, 1, &in[3]) < 1) return;
  in[0] = l->data, in[1] = l->sizes, in[2] = known_dims(L, block, n, l);
  if (low_call(L, block, n->name, "ListAt", in, 4, NULL, 0, &out, 1)) low_set(L, n->out.v[0], out);
}
void low_open_insert(low *L, node *n, uint32_t block, known *l) {
  arg x, in[4] = {{0}}, out[2];
  if (!low_tensor(L, n, n->in.v[1], &x)) return;
  const int given = position_arg(L, n, 2, &in[3]);
  if (given < 0 || !low_pack(L, n, block, l) || !fits(L, n, l, &x)) return;
  in[0] = l->data, in[1] = l->sizes, in[2] = x;
  if (!low_call(L, block, n->name, "ListInsert", in, 3 + (uint32_t)given, NULL, 0, out, 2)) return;
  sz *dims = copy_dims(L, l->dims, l->rank);
  join_dims(L, dims, x.shape, l->rank);
  set_open(L, n->out.v[0], out[0], out[1], dims, l->rank);
}
void low_open_erase(low *L, node *n, uint32_t block, known *l) {
  arg in[4] = {{0}}, out[2];
  const int given = position_arg(L, n, 1, &in[3]);
  if (given < 0 || !low_pack(L, n, block, l)) return;
  in[0] = l->data, in[1] = l->sizes, in[2] = known_dims(L, block, n, l);
  if (low_call(L, block, n->name, "ListErase", in, 3 + (uint32_t)given, NULL, 0, out, 2))
    set_open(L, n->out.v[0], out[0], out[1], l->dims, l->rank);
}
void low_open_split(low *L, node *n, uint32_t block, const arg *x, const arg *parts, int64_t axis, bool keep) {
  arg in[2] = {*x}, out[2];
  sattr at[2] = {{.name = "axis", .kind = SK_INT, .i = axis}, {.name = "keep", .kind = SK_INT, .i = keep}};
  const bool by = parts && parts->rank == 1;
  sz *dims = copy_dims(L, x->shape, x->rank);
  uint32_t rank = x->rank;
  int64_t one = 1;
  if (parts) in[1] = *parts;
  if (parts && !by && in[1].values) sym_is_int(L->c, sym_canon(L->c, in[1].values[0]), &one);
  dims[axis] = !by && (!parts || (in[1].values && one == 1)) ? sym_int(L->c, 1) : 0;
  if (!keep) {
    for (uint32_t d = (uint32_t)axis; d + 1 < rank; d++) dims[d] = dims[d + 1];
    rank--;
  }
  if (low_call(L, block, n->name, by ? "ListSplitBy" : "ListSplit", in, parts ? 2 : 1, at, by ? 1 : 2, out, 2))
    set_open(L, n->out.v[0], out[0], out[1], dims, rank);
}
void low_open_concat(low *L, node *n, uint32_t block, const known *l, int64_t axis, bool fresh) {
  arg in[3] = {l->data, l->sizes, known_dims(L, block, n, l)}, out;
  sattr ax = {.name = "axis", .kind = SK_INT, .i = axis};
  if (low_call(L, block, n->name, fresh ? "ListStack" : "ListConcat", in, 3, &ax, 1, &out, 1))
    low_set(L, n->out.v[0], out);
}
void low_open_length(low *L, node *n, uint32_t block, const known *l) {
  low_set(L, n->out.v[0], number_arg(L, block, l->sizes.shape[0], n->out.v[0]->name));
}

/* ---- loops ----------------------------------------------------------------------------------- */
typedef struct growing {
  value *in;  /* in the body: the list at the beginning of a trip */
  value *out; /* in the body: the list at the end of a trip */
  /* what a trip appends to the list, which it does nothing else with; NULL: the list stays as it is, or `any` */
  value *x;
  bool any;        /* the trips may do anything with the list */
  known init;      /* the list before the loop */
  value *result;   /* the node's result; NULL: not wanted */
  value *parts[2]; /* `any`: of the node without lists */
  sz *dims;        /* sizes that what is appended has in every trip, 0: not so */
} growing;
typedef struct passes {
  low *L;         /* lowering */
  node *n;        /* the node */
  graph *b;       /* its body */
  uint32_t block; /* block that the node stands in */
  uint32_t nc;    /* number of carried values, lists included */
  growing *list;  /* per carried value; in NULL: a tensor */
  value *trips;   /* NULL: as the node has it, with its condition */
} passes;

/* A body like b, without its nodes and ports. Its values are its own: the vector of b moves when b gets more. */
static graph *empty_body(low *L, const graph *b) {
  graph *g = arena_dup(L->a, b, sizeof *g);
  memset(&g->inputs, 0, sizeof g->inputs), memset(&g->outputs, 0, sizeof g->outputs);
  memset(&g->nodes, 0, sizeof g->nodes), memset(&g->values, 0, sizeof g->values);
  return g;
}
static value *fresh_value(low *L, graph *g, const char *name) {
  value *v = graph_value(g, name);
  map_putu(L->needed, (uint64_t)(uintptr_t)v, 1);
  return v;
}
static node *body_node(low *L, const char *op, value *const *in, uint32_t n, value *out) {
  node *m = NEW(L->a, node);
  *m = (node){.op = op, .domain = "", .name = out->name};
  for (uint32_t i = 0; i < n; i++) vec_push(L->a, m->in, in[i]);
  vec_push(L->a, m->out, out);
  out->def = m;
  return m;
}
static uint32_t uses(const graph *g, const value *v) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->outputs.n; i++) n += g->outputs.v[i] == v;
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *m = g->nodes.v[i];
    for (uint32_t k = 0; k < m->in.n; k++) n += m->in.v[k] == v;
    for (uint32_t k = 0; k < m->attrs.n; k++)
      if (m->attrs.v[k].g) n += uses(m->attrs.v[k].g, v);
  }
  return n;
}
/* What v is in the body, behind copies. */
static value *original(value *v) {
  while (v->def && !v->def->domain[0] && !strcmp(v->def->op, "Identity") && v->def->in.n == 1 && v->def->in.v[0])
    v = v->def->in.v[0];
  return v;
}
static bool note_list(passes *p, uint32_t i, const known *init) {
  growing *g = &p->list[i];
  value *in = p->b->inputs.v[i + 2], *out = original(p->b->outputs.v[i + 1]);
  *g = (growing){.in = in, .out = out, .init = *init, .result = i < p->n->out.n ? p->n->out.v[i] : NULL};
  if (out == in) {
    *low_slot(p->L, in) = *init;
    return true;
  }
  const node *d = out->def;
  if (d && !d->domain[0] && !strcmp(d->op, "SequenceInsert") && (d->in.n == 2 || !d->in.v[2]) &&
      original(d->in.v[0]) == in && uses(p->b, in) == 1 && uses(p->b, out) == 1) {
    g->x = d->in.v[1];
    return true;
  }
  g->out = p->b->outputs.v[i + 1];
  return g->any = low_pack(p->L, p->n, p->block, &g->init);
}
/* The node without its lists: these results for `collected` values of the body, which come behind the tensors that are
 * carried; `more` is carried beside them, and becomes `next` in a trip. */
typedef struct version {
  const char *suffix;     /* what follows the names of what is made */
  VEC(value *) collected; /* values of the body, one for each trip */
  VEC(value *) results;   /* results of the node for `collected` */
  value *more;            /* value that is carried beside the tensors; NULL: none */
  value *more_in;         /* `more` at the beginning of a trip */
  value *next;            /* `more` at the end of a trip */
  value *last;            /* `more` after the last trip */
  node *step;             /* node of the body that computes next */
  bool carried;           /* are the results of what is carried wanted? */
  VEC(node *) first, end; /* nodes of the body in front of its own, and behind them */
} version;
/* A list that the trips change in any way is carried as its two tensors; what their sizes are is found by the loop. */
static void carry_parts(passes *p, uint32_t i, graph *b, node *n, version *v) {
  low *L = p->L;
  growing *g = &p->list[i];
  const bool last = !v->carried || !g->result;
  value *in[2], *out[2];
  for (int k = 0; k < 2; k++) {
    const char *what = k ? "sizes" : "data";
    value *init = fresh_value(L, p->b, arena_fmt(L->a, "%s.%s", g->in->name, what));
    low_set(L, init, k ? g->init.sizes : g->init.data);
    in[k] = fresh_value(L, p->b, init->name),
    out[k] = fresh_value(L, p->b, arena_fmt(L->a, "%s.%s", g->out->name, what));
    g->parts[k] =
        last ? graph_value(p->b, "unused") : fresh_value(L, p->b, arena_fmt(L->a, "%s.%s", g->result->name, what));
    vec_push(L->a, n->in, init);
    vec_push(L->a, b->inputs, in[k]);
    vec_push(L->a, b->outputs, out[k]);
    vec_push(L->a, n->out, g->parts[k]);
  }
  node *first = body_node(L, "ListOf", in, 2, g->in), *end = body_node(L, "ListParts", &g->out, 1, out[0]);
  vec_push(L->a, end->out, out[1]);
  vec_push(L->a, L->carried, ((list_carried){g->in, g->out, copy_dims(L, g->init.dims, g->init.rank), g->init.rank}));
  vec_push(L->a, v->first, first);
  vec_push(L->a, v->end, end);
}
static loop_end lower_version(passes *p, version *v) {
  low *L = p->L;
  graph *b = empty_body(L, p->b);
  node *n = arena_dup(L->a, p->n, sizeof *n);
  memset(&n->in, 0, sizeof n->in), memset(&n->out, 0, sizeof n->out), memset(&n->attrs, 0, sizeof n->attrs);
  n->name = arena_fmt(L->a, "%s%s", p->n->name, v->suffix);
  vec_push(L->a, n->attrs, ((attr){.name = "body", .kind = AK_GRAPH, .g = b}));
  vec_push(L->a, n->in, p->trips ? p->trips : p->n->in.v[0]);
  vec_push(L->a, n->in, p->trips ? NULL : p->n->in.v[1]);
  for (uint32_t i = 0; i < 2; i++) vec_push(L->a, b->inputs, p->b->inputs.v[i]);
  vec_push(L->a, b->outputs, p->trips ? p->b->inputs.v[1] : p->b->outputs.v[0]);
  for (uint32_t i = 0; i < p->nc; i++) {
    if (p->list[i].in) continue;
    value *to = v->carried && i < p->n->out.n ? p->n->out.v[i] : NULL;
    vec_push(L->a, n->in, p->n->in.v[i + 2]);
    vec_push(L->a, b->inputs, p->b->inputs.v[i + 2]);
    vec_push(L->a, b->outputs, p->b->outputs.v[i + 1]);
    vec_push(L->a, n->out, to ? to : graph_value(p->b, "unused"));
  }
  if (v->more) {
    vec_push(L->a, n->in, v->more);
    vec_push(L->a, b->inputs, v->more_in);
    vec_push(L->a, b->outputs, v->next);
    vec_push(L->a, n->out, v->last);
  }
  for (uint32_t i = 0; i < p->nc; i++)
    if (p->list[i].any) carry_parts(p, i, b, n, v);
  for (uint32_t i = 0; i < v->collected.n; i++) {
    vec_push(L->a, b->outputs, v->collected.v[i]);
    vec_push(L->a, n->out, v->results.v[i]);
  }
  for (uint32_t i = 0; i < v->first.n; i++) vec_push(L->a, b->nodes, v->first.v[i]);
  for (uint32_t i = 0; i < p->b->nodes.n; i++) {
    node *m = p->b->nodes.v[i];
    bool list = false;
    for (uint32_t k = 0; k < p->nc; k++) {
      const growing *g = &p->list[k];
      list |= g->in && g->x && m->out.n && (original(m->out.v[0]) == g->out || original(m->out.v[0]) == g->in);
    }
    if (!list) vec_push(L->a, b->nodes, m);
  }
  for (uint32_t i = 0; i < v->end.n; i++) vec_push(L->a, b->nodes, v->end.v[i]);
  if (v->step) vec_push(L->a, b->nodes, v->step);
  const uint32_t blocks = L->m->blocks.n, errors = diag_errors(L->c);
  const char *outer = L->suffix;
  L->suffix = arena_fmt(L->a, "%s%s", outer, v->suffix);
  const loop_end end = low_loop(L, n, p->block);
  L->suffix = outer;
  for (uint32_t i = 0; i < p->nc && v->carried && end && diag_errors(L->c) == errors; i++) {
    const growing *g = &p->list[i];
    if (!g->any || !g->result || !low_needed(L, g->result)) continue;
    const arg data = *low_value(L, g->parts[0]), sizes = *low_value(L, g->parts[1]);
    const sz *dims = NULL;
    for (uint32_t k = 0; k < L->carried.n; k++)
      if (L->carried.v[k].in == g->in) dims = L->carried.v[k].dims;
    set_open(L, g->result, data, sizes, dims, g->init.rank);
  }
  if (end && diag_errors(L->c) == errors) return end;
  for (uint32_t i = blocks; i < L->m->blocks.n; i++)
    if (L->m->blocks.v[i].parent == p->block) low_drop(L, i);
  return LOOP_FAILED;
}
/* Is the number of trips a size that memory can be planned with? */
static bool countable(const passes *p) {
  enum { PLANNED = 1 << 20 };
  const arg *m = p->n->in.v[0] ? low_value(p->L, p->n->in.v[0]) : NULL;
  int64_t most;
  if (!m || !m->values) return false;
  return !sym_is_int(p->L->c, sym_canon(p->L->c, m->values[0]), &most) || most <= PLANNED;
}
/* Runs the loop for its number of trips alone, which becomes a size. */
static bool count_first(passes *p) {
  low *L = p->L;
  const int64_t none = 0, unit = 1;
  value *one = graph_value(p->b, "one");
  version v = {.suffix = "#count",
               .more = fresh_value(L, p->b, "no_trips"),
               .more_in = fresh_value(L, p->b, "trips_before"),
               .next = fresh_value(L, p->b, "trips_then"),
               .last = fresh_value(L, p->b, "trips_made")};
  low_set(L, v.more, low_ints(L, ET_I64, &none, 1, false, v.more->name));
  low_set(L, one, low_ints(L, ET_I64, &unit, 1, false, one->name));
  v.step = body_node(L, "Add", (value *const[]){v.more_in, one}, 2, v.next);
  if (!lower_version(p, &v)) return false;
  arg made = *low_value(L, v.last), size;
  if (!low_call(L, p->block, p->n->name, "ListCount", &made, 1, NULL, 0, &size, 1)) return false;
  p->trips = fresh_value(L, p->b, "trips");
  low_set(L, p->trips, size);
  return true;
}
/* Appends elements behind those that the list had at the beginning. */
static bool append(passes *p, growing *g, arg data, arg sizes, const sz *dims, uint32_t rank) {
  low *L = p->L;
  if (!g->result || !low_needed(L, g->result)) return true;
  sz *all = copy_dims(L, dims, rank);
  if (g->init.open || g->init.n) {
    sattr axis0 = {.name = "axis", .kind = SK_INT};
    if (!low_pack(L, p->n, p->block, &g->init)) return false;
    known now = {.data = data, .rank = rank};
    arg first = g->init.data;
    first.rank = g->init.rank;
    if (!fits(L, p->n, &now, &first)) return false;
    join_dims(L, all, g->init.dims, rank);
    arg d[2] = {g->init.data, data}, s[2] = {g->init.sizes, sizes};
    if (!low_call(L, p->block, p->n->name, "Concat", d, 2, &axis0, 1, &data, 1) ||
        !low_call(L, p->block, p->n->name, "Concat", s, 2, &axis0, 1, &sizes, 1))
      return false;
  }
  set_open(L, g->result, data, sizes, all, rank);
  return true;
}
static void add_others(passes *p, version *v) { /* Adds what the node collects itself. */
  for (uint32_t i = p->nc; i < p->n->out.n; i++) {
    vec_push(p->L->a, v->collected, p->b->outputs.v[i + 1]);
    vec_push(p->L->a, v->results, p->n->out.v[i]);
  }
}
/* Lowers a loop none of whose lists is only appended to. */
static void plainly(passes *p) {
  version v = {.suffix = "", .carried = true};
  add_others(p, &v);
  lower_version(p, &v);
}
/* All tensors have one shape: they are collected. */
static bool in_one_pass(passes *p) {
  low *L = p->L;
  version v = {.suffix = "", .carried = true};
  const uint32_t mark = diag_mark(L->c);
  for (uint32_t i = 0; i < p->nc; i++) {
    if (!p->list[i].x) continue;
    vec_push(L->a, v.collected, p->list[i].x);
    vec_push(L->a, v.results, fresh_value(L, p->b, p->list[i].out->name));
  }
  uint32_t at = v.results.n;
  add_others(p, &v);
  if (!lower_version(p, &v)) {
    diag_reset(L->c, mark);
    return false;
  }
  for (uint32_t i = p->nc; i-- > 0;) {
    if (!p->list[i].x) continue;
    arg all = *low_value(L, v.results.v[--at]), out[2];
    sattr attrs[2] = {{.name = "axis", .kind = SK_INT}, {.name = "keep", .kind = SK_INT}};
    if (!low_call(L, p->block, p->n->name, "ListSplit", &all, 1, attrs, 2, out, 2)) return true;
    if (!append(p, &p->list[i], out[0], out[1], all.shape + 1, all.rank - 1)) return true;
  }
  return true;
}
/* The sizes of x, a tensor of the body of the loop that was lowered last, which do not hang on the trip: none that is
 * known where it was unrolled. */
static sz *same_in_all(low *L, const arg *x, loop_end end) {
  if (end == LOOP_UNROLLED) return NEWN(L->a, sz, x->rank + 1);
  const xloop *loop = &L->m->loops.v[L->m->loops.n - 1];
  const sz none = 0;
  low_local k = {.L = L, .block = loop->body, .n = 1, .symbols = &loop->counter, .his = &none};
  sz *dims = copy_dims(L, x->shape, x->rank);
  for (uint32_t d = 0; d < x->rank; d++)
    if (low_is_local(&k, dims[d]) && !EK_PLANTED("lower-open")) dims[d] = 0;
  return dims;
}
/* Once for the shapes, then once for each list's elements. */
static void in_two_passes(passes *p) {
  low *L = p->L;
  version v = {.suffix = "#sizes", .carried = true};
  graph *b = p->b;
  const graph before = *b;
  VEC(node *) nodes = {0};
  for (uint32_t i = 0; i < b->nodes.n; i++) vec_push(L->a, nodes, b->nodes.v[i]);
  for (uint32_t i = 0; i < p->nc; i++) {
    if (!p->list[i].x) continue;
    value *shape = fresh_value(L, b, arena_fmt(L->a, "%s.shape", p->list[i].x->name));
    vec_push(L->a, nodes, body_node(L, "Shape", &p->list[i].x, 1, shape));
    vec_push(L->a, v.collected, shape);
    vec_push(L->a, v.results, fresh_value(L, b, arena_fmt(L->a, "%s.shapes", p->list[i].out->name)));
  }
  const uint32_t lists = v.results.n;
  add_others(p, &v);
  b->nodes.v = (void *)nodes.v, b->nodes.n = nodes.n, b->nodes.cap = nodes.cap;
  const loop_end end = lower_version(p, &v);
  b->nodes = before.nodes;
  if (!end) return;
  for (uint32_t i = 0; i < p->nc; i++)
    if (p->list[i].x) p->list[i].dims = same_in_all(L, low_value(L, p->list[i].x), end);
  uint32_t at = 0;
  for (uint32_t i = 0; i < p->nc && at < lists; i++) {
    growing *g = &p->list[i];
    if (!g->x) continue;
    value *shapes = v.results.v[at++];
    arg table = *low_value(L, shapes), zeros;
    const arg x = *low_value(L, g->x);
    sattr type = {.name = "type", .kind = SK_INT, .i = et_to_onnx(x.type)};
    if (!low_call(L, p->block, p->n->name, "ListZeros", &table, 1, &type, 1, &zeros, 1)) return;
    version w = {.suffix = arena_fmt(L->a, "#%u", at),
                 .more = fresh_value(L, b, "room"),
                 .more_in = fresh_value(L, b, "so_far"),
                 .next = fresh_value(L, b, "with_it"),
                 .last = fresh_value(L, b, "all")};
    low_set(L, w.more, zeros);
    w.step = body_node(L, "ListPut", (value *const[]){w.more_in, shapes, g->x, b->inputs.v[0]}, 4, w.next);
    p->trips = fresh_value(L, b, "trips");
    low_set(L, p->trips, number_arg(L, p->block, table.shape[0], p->trips->name));
    if (!lower_version(p, &w)) return;
    if (!append(p, g, *low_value(L, w.last), table, g->dims, x.rank)) return;
  }
}
void low_open_loop(low *L, node *n, uint32_t block) {
  const attr *ba = node_attr(n, "body");
  graph *b = ba ? ba->g : NULL;
  passes p = {.L = L, .n = n, .b = b, .block = block, .nc = n->in.n >= 2 ? n->in.n - 2 : 0};
  if (!b || n->in.n < 2 || b->inputs.n != p.nc + 2 || b->outputs.n < p.nc + 1 || n->out.n > b->outputs.n - 1) {
    diag_error(L->c, E_MODEL, n->name, "Loop needs a body that fits its inputs and outputs");
    return;
  }
  p.list = NEWN(L->a, growing, p.nc + 1);
  bool any = false, grows = false, changes = false;
  for (uint32_t i = 0; i < p.nc; i++) {
    if (n->in.v[i + 2]) low_value(L, n->in.v[i + 2]);
    if (!n->in.v[i + 2] || !low_slot(L, n->in.v[i + 2])->done) return;
    const known init = *low_slot(L, n->in.v[i + 2]);
    if (!init.list) continue;
    if (!note_list(&p, i, &init)) return;
    any = true, grows |= p.list[i].x != NULL, changes |= p.list[i].x || p.list[i].any;
    if (!p.list[i].x && !p.list[i].any && i < n->out.n && n->out.v[i]) *low_slot(L, n->out.v[i]) = init;
  }
  if (!any) {
    low_loop(L, n, block);
    return;
  }
  if (changes && !countable(&p) && !count_first(&p)) return;
  if (!grows)
    plainly(&p);
  else if (!in_one_pass(&p))
    in_two_passes(&p);
}

/* In front of a trip its list is made of the two tensors that are carried, and taken apart behind it. What all its
 * tensors have in common at the beginning is taken to stay so, and is given up where a trip says otherwise. */
void low_open_of(low *L, node *n) {
  const arg *data = low_value(L, n->in.v[0]), *sizes = low_value(L, n->in.v[1]);
  for (uint32_t i = L->carried.n; data && sizes && i-- > 0;) {
    const list_carried *l = &L->carried.v[i];
    if (l->in != n->out.v[0]) continue;
    set_open(L, l->in, *data, *sizes, l->dims, l->rank);
    return;
  }
}
bool low_open_holds(low *L, const graph *b) {
  bool same = true;
  for (uint32_t i = 0; i < b->nodes.n; i++)
    for (uint32_t k = 0; !strcmp(b->nodes.v[i]->op, "ListParts") && k < L->carried.n; k++) {
      list_carried *l = &L->carried.v[k];
      const known *out = low_slot(L, l->out);
      if (l->out != b->nodes.v[i]->in.v[0] || !out->done) continue;
      sz *was = copy_dims(L, l->dims, l->rank);
      for (uint32_t j = 0; !out->open && j < out->n; j++) join_dims(L, l->dims, out->items[j].shape, l->rank);
      if (out->open) join_dims(L, l->dims, out->dims, l->rank);
      same &= !memcmp(was, l->dims, l->rank * sizeof *was);
    }
  return same;
}
void low_open_parts(low *L, node *n, uint32_t block) {
  known l = *low_slot(L, n->in.v[0]);
  if (!l.done || !l.list || !low_pack(L, n, block, &l)) return;
  low_set(L, n->out.v[0], l.data);
  low_set(L, n->out.v[1], l.sizes);
}

/* ---- SequenceMap ----------------------------------------------------------------------------- */
/* A loop over the places of the first sequence, whose trips append what the body gives. */
void low_open_map(low *L, node *n, uint32_t block, const known *first) {
  graph *b = node_attr(n, "body")->g;
  graph *g = empty_body(L, b);
  node *loop = arena_dup(L->a, n, sizeof *loop);
  value *at = fresh_value(L, b, "place"), *go = fresh_value(L, b, "go"), *trips = fresh_value(L, b, "places");
  memset(&loop->in, 0, sizeof loop->in), memset(&loop->attrs, 0, sizeof loop->attrs);
  loop->op = "Loop";
  vec_push(L->a, loop->attrs, ((attr){.name = "body", .kind = AK_GRAPH, .g = g}));
  low_set(L, trips, number_arg(L, block, first->sizes.shape[0], trips->name));
  vec_push(L->a, loop->in, trips);
  vec_push(L->a, loop->in, NULL);
  vec_push(L->a, g->inputs, at);
  vec_push(L->a, g->inputs, go);
  vec_push(L->a, g->outputs, go);
  for (uint32_t i = 0; i < n->in.n; i++) {
    const bool list = low_slot(L, n->in.v[i])->list;
    value *const in[2] = {n->in.v[i], at};
    vec_push(L->a, g->nodes, body_node(L, list ? "SequenceAt" : "Identity", in, list ? 2 : 1, b->inputs.v[i]));
    map_putu(L->needed, (uint64_t)(uintptr_t)b->inputs.v[i], 1);
  }
  for (uint32_t i = 0; i < b->nodes.n; i++) vec_push(L->a, g->nodes, b->nodes.v[i]);
  for (uint32_t i = 0; i < n->out.n; i++) {
    value *none = fresh_value(L, b, "none"), *so_far = fresh_value(L, b, "so_far"), *more = fresh_value(L, b, "more");
    *low_slot(L, none) = (known){.done = true, .list = true};
    vec_push(L->a, loop->in, none);
    vec_push(L->a, g->inputs, so_far);
    vec_push(L->a, g->nodes, body_node(L, "SequenceInsert", (value *const[]){so_far, b->outputs.v[i]}, 2, more));
    vec_push(L->a, g->outputs, more);
  }
  low_open_loop(L, loop, block);
}
