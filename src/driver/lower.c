/* How does a graph become expr? See lower.h. Nodes whose results nobody needs are left out. A node that fails leaves its results unknown; nodes that need them are skipped silently, so that one cause
 * gives one error. */
#include "driver/lower.h"
#include <string.h>

typedef struct known {
  bool done;
  arg a;
} known; /* per graph value */
typedef struct low {
  ctx *c;
  arena *a;
  emodule *m;
  const oplib *lib;
  map *vals; /* value * -> index into known + 1 */
  VEC(known) known;
  const dimfix *dims;
  uint32_t ndims;
  map *needed; /* value * */
} low;

static known *slot(low *L, const value *v) {
  uint64_t i;
  if (!map_getu(L->vals, (uint64_t)(uintptr_t)v, &i)) {
    vec_push(L->a, L->known, ((known){0}));
    i = L->known.n;
    map_putu(L->vals, (uint64_t)(uintptr_t)v, i);
  }
  return &L->known.v[i - 1];
}
/* ---- which values are needed ---- */
static void need(low *L, const value *v) {
  if (v) map_putu(L->needed, (uint64_t)(uintptr_t)v, 1);
}
static bool needed(low *L, const value *v) {
  uint64_t d;
  return v && map_getu(L->needed, (uint64_t)(uintptr_t)v, &d);
}
static void mark_graph(low *L, graph *g) {
  for (uint32_t i = 0; i < g->outputs.n; i++) need(L, g->outputs.v[i]);
  for (uint32_t i = g->nodes.n; i-- > 0;) {
    node *n = g->nodes.v[i];
    bool any = false;
    for (uint32_t j = 0; j < n->out.n; j++) any |= needed(L, n->out.v[j]);
    if (!any) continue;
    for (uint32_t j = 0; j < n->in.n; j++) need(L, n->in.v[j]);
    for (uint32_t j = 0; j < n->attrs.n; j++)
      if (n->attrs.v[j].g) mark_graph(L, n->attrs.v[j].g);
  }
}

/* ---- values as arguments ---- */
static void small_values(low *L, arg *a, const ndarray *d) {
  int64_t n;
  if (!nd_count(d, &n) || n > 64) return;
  ekind k = et_kind(d->type);
  if (k == K_STR) return;
  if (k == K_FLOAT) {
    double *f = NEWN(L->a, double, n ? n : 1);
    for (int64_t i = 0; i < n; i++) f[i] = et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).f;
    a->floats = f;
    return;
  }
  sz *v = NEWN(L->a, sz, n ? n : 1);
  for (int64_t i = 0; i < n; i++) v[i] = sym_int(L->c, et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).i);
  a->values = v;
}
static arg *value_arg(low *L, const value *v) { /* NULL: not known (an earlier failure) */
  known *k = slot(L, v);
  if (!k->done && v->data) {
    arg a = {.present = true, .type = v->data->type, .rank = v->data->rank, .shape = v->dims};
    a.t = expr_const_tensor(L->m, v->data, v->name);
    small_values(L, &a, v->data);
    k = slot(L, v);
    k->a = a;
    k->done = true;
  }
  return k->done ? &k->a : NULL;
}
static void set_value(low *L, value *v, arg a) {
  known *k = slot(L, v);
  a.present = true;
  k->a = a;
  k->done = true;
  v->type = a.type;
  v->ranked = true;
  v->rank = a.rank;
  v->dims = a.shape;
  v->values = a.values;
}
static sattr to_sattr(low *L, const attr *a) {
  sattr s = {.name = a->name, .n = a->n, .i = a->i, .f = a->f, .s = a->s, .ints = a->ints, .floats = a->floats, .strings = a->strings, .tensor = a->tensor};
  (void)L;
  switch (a->kind) {
  case AK_INT:
    s.kind = SK_INT;
    break;
  case AK_FLOAT:
    s.kind = SK_FLOAT;
    break;
  case AK_STRING:
    s.kind = SK_STRING;
    break;
  case AK_INTS:
    s.kind = SK_INTS;
    break;
  case AK_FLOATS:
    s.kind = SK_FLOATS;
    break;
  case AK_STRINGS:
    s.kind = SK_STRINGS;
    break;
  case AK_TENSOR:
    s.kind = SK_TENSOR;
    break;
  default:
    s.kind = SK_NONE;
  }
  return s;
}
static bool lower_nodes(low *L, graph *g, uint32_t block);

static void plain_node(low *L, graph *g, node *n, uint32_t block) {
  const opdef *d = notation_find(L->lib, n->domain, n->op);
  (void)g;
  if (!d) {
    diag_error(L->c, E_UNSUPPORTED, n->name, "operator %s%s%s is not defined; define it in a .ek file and give it with --ops", n->domain, n->domain[0] ? "::" : "", n->op);
    return;
  }
  VEC(arg) in = {0};
  VEC(sattr) at = {0};
  for (uint32_t i = 0; i < n->in.n; i++) {
    arg a = {0};
    if (n->in.v[i]) {
      arg *k = value_arg(L, n->in.v[i]);
      if (!k) return;
      a = *k;
    }
    vec_push(L->a, in, a);
  }
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (!n->attrs.v[i].g) {
      sattr s = to_sattr(L, &n->attrs.v[i]);
      vec_push(L->a, at, s);
    }
  arg *out = NEWN(L->a, arg, n->out.n ? n->out.n : 1);
  for (uint32_t i = 0; i < n->out.n; i++) out[i].want = needed(L, n->out.v[i]);
  uint32_t errors = diag_errors(L->c);
  if (!notation_elaborate(L->lib, d, L->m, block, n->name, in.v, in.n, at.v, at.n, out, n->out.n)) {
    if (diag_errors(L->c) == errors) diag_error(L->c, E_SHAPE, n->name, "%s: the inputs do not fit the definition", n->op);
    return;
  }
  for (uint32_t i = 0; i < n->out.n; i++)
    if (out[i].want) set_value(L, n->out.v[i], out[i]);
}

/* ---- control flow ---- */
static uint32_t new_block(low *L, uint32_t parent) {
  vec_push(L->a, L->m->blocks, ((block){.parent = parent}));
  return L->m->blocks.n - 1;
}
static tid result_tensor(low *L, etype t, const sz *shape, uint32_t rank, const char *name, const char *origin) { return expr_tensor(L->m, TK_RESULT, t, shape, rank, name, origin); }
static bool within(low *L, uint32_t b, uint32_t outer) { /* b is outer or nested in it */
  while (b != outer) {
    if (!b) return false;
    b = L->m->blocks.v[b].parent;
  }
  return true;
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
  for (uint32_t i = 0; i < L->m->guards.n; i++)
    if (L->m->guards.v[i].block == from) L->m->guards.v[i].block = to;
  L->m->blocks.v[from].items.n = 0;
}
/* a branch that is never taken: nothing of it stays */
static void block_drop(low *L, uint32_t block) {
  emodule *m = L->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (within(L, xs(m, i)->block, block)) xs(m, i)->dead = true;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    if (within(L, m->ifs.v[i].block, block)) m->ifs.v[i].n = 0;
  for (uint32_t i = 0; i < m->loops.n; i++)
    if (within(L, m->loops.v[i].block, block)) m->loops.v[i].ncarried = m->loops.v[i].ncollected = 0;
  for (uint32_t i = 0; i < m->guards.n; i++)
    if (!within(L, m->guards.v[i].block, block)) m->guards.v[n++] = m->guards.v[i];
  m->guards.n = n, n = 0;
  for (uint32_t i = 0; i < m->lates.n; i++) {
    const tensor *t = xt(m, m->lates.v[i].tensor);
    if (t->kind != TK_STAGE || !xs(m, t->stage)->dead) m->lates.v[n++] = m->lates.v[i];
  }
  m->lates.n = n;
  for (uint32_t b = 0; b < m->blocks.n; b++)
    if (within(L, b, block)) m->blocks.v[b].items.n = 0;
}
static void lower_if(low *L, graph *g, node *n, uint32_t block) {
  const attr *ta = node_attr(n, "then_branch"), *ea = node_attr(n, "else_branch");
  (void)g;
  if (!ta || !ea || !ta->g || !ea->g || n->in.n < 1 || !n->in.v[0]) {
    diag_error(L->c, E_MODEL, n->name, "If needs a condition and the attributes then_branch and else_branch");
    return;
  }
  arg *c = value_arg(L, n->in.v[0]);
  if (!c) return;
  int64_t v;
  graph *br[2] = {ta->g, ea->g};
  for (int i = 0; i < 2; i++)
    if (br[i]->outputs.n < n->out.n) {
      diag_error(L->c, E_MODEL, n->name, "If has %u outputs, its branch %s has %u", n->out.n, br[i]->name, br[i]->outputs.n);
      return;
    }
  int pick = -1;
  if (c->values && sym_is_int(L->c, c->values[0], &v)) pick = v ? 0 : 1;
  if (pick >= 0) {
    if (!lower_nodes(L, br[pick], block)) return;
    for (uint32_t i = 0; i < n->out.n; i++)
      if (needed(L, n->out.v[i])) {
        arg *r = value_arg(L, br[pick]->outputs.v[i]);
        if (r) set_value(L, n->out.v[i], *r);
      }
    return;
  }
  uint32_t blocks[2];
  arg *vals[2];
  for (int b = 0; b < 2; b++) {
    blocks[b] = new_block(L, block);
    vals[b] = NEWN(L->a, arg, n->out.n ? n->out.n : 1);
    uint32_t facts = sym_mark(L->c);
    bool good = lower_nodes(L, br[b], blocks[b]);
    sym_pop(L->c, facts);
    if (!good) return;
    for (uint32_t i = 0; i < n->out.n; i++)
      if (needed(L, n->out.v[i])) {
        arg *r = value_arg(L, br[b]->outputs.v[i]);
        if (!r) return;
        vals[b][i] = *r;
      }
  }
  xif x = {.cond = c->t, .then_block = blocks[0], .else_block = blocks[1], .block = block, .origin = n->name};
  x.results = NEWN(L->a, tid, n->out.n + 1), x.then_vals = NEWN(L->a, tid, n->out.n + 1), x.else_vals = NEWN(L->a, tid, n->out.n + 1);
  int side = -1; /* a branch that must be assumed, since the two differ in rank or size */
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!needed(L, n->out.v[i])) continue;
    arg *t = &vals[0][i], *e = &vals[1][i];
    if (t->type != e->type) {
      diag_error(L->c, E_SHAPE, n->name, "output %u is %s in one branch and %s in the other", i, et_name(t->type), et_name(e->type));
      return;
    }
    bool same = t->rank == e->rank;
    for (uint32_t d = 0; same && d < t->rank; d++) same = sym_eq(L->c, t->shape[d], e->shape[d]);
    if (!same) {
      /* the branch whose rank the model declares for the result, else the first */
      value *o = n->out.v[i];
      side = o->declared && o->ranked && o->rank == e->rank && o->rank != t->rank ? 1 : 0;
    }
  }
  if (side >= 0) {
    if (!c->values) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "the branches give results of different shapes and the condition depends on data; results must have one shape");
      return;
    }
    block_drop(L, blocks[1 - side]);
    block_splice(L, blocks[side], block);
    notation_assume(L->m, block, c->values[0], side == 0, n->name, "these input sizes take the other branch of this If; compile for them with --dim");
    for (uint32_t i = 0; i < n->out.n; i++)
      if (needed(L, n->out.v[i])) set_value(L, n->out.v[i], vals[side][i]);
    return;
  }
  for (uint32_t i = 0; i < n->out.n; i++) {
    if (!needed(L, n->out.v[i])) continue;
    arg *t = &vals[0][i];
    tid r = result_tensor(L, t->type, t->shape, t->rank, n->out.v[i]->name, n->name);
    x.results[x.n] = r, x.then_vals[x.n] = t->t, x.else_vals[x.n] = vals[1][i].t;
    x.n++;
    set_value(L, n->out.v[i], (arg){.type = t->type, .rank = t->rank, .shape = t->shape, .t = r});
  }
  vec_push(L->a, L->m->ifs, x);
  vec_push(L->a, L->m->blocks.v[block].items, ((item){IT_IF, L->m->ifs.n - 1}));
}
static sz slice_index(low *L, atom counter) { return sym_of_atom(L->c, counter); }
static atom new_counter(low *L, const char *name, sz trips) {
  int64_t lo, hi;
  sym_range(L->c, trips, &lo, &hi);
  sz s = sym_fresh(L->c, name, 0, hi == SYM_INF ? 1000000000 : max64(hi - 1, 0));
  atom a = 0;
  sym_is_atom(L->c, s, &a);
  return a;
}
static tid slice_stage(low *L, uint32_t block, const arg *x, uint32_t ax, sz at, const char *name, const char *origin, arg *out) {
  axis axes[MAX_RANK];
  sz idx[MAX_RANK], shape[MAX_RANK];
  uint32_t r = 0;
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i == ax) {
      idx[i] = at;
      continue;
    }
    shape[r] = x->shape[i];
    axes[r] = expr_axis1(L->m, "s", x->shape[i], &idx[i]);
    r++;
  }
  tid t = expr_tensor(L->m, TK_STAGE, x->type, shape, r, name, origin);
  expr_stage(L->m, block, t, axes, r, expr_load(L->m, x->t, idx, x->rank, 0));
  *out = (arg){.present = true, .type = x->type, .rank = r, .shape = arena_dup(L->a, shape, (r ? r : 1) * sizeof(sz)), .t = t};
  return t;
}
/* What a Scan collected at axis 0, in the order of the trips, as the node wants it: at another axis, or backwards. */
static void turn_collected(low *L, uint32_t block, const node *n, value *v, int64_t ax, bool back) {
  arg from = *value_arg(L, v);
  sz shape[MAX_RANK], idx[MAX_RANK];
  axis axes[MAX_RANK];
  if (ax < 0) ax += from.rank;
  if (ax < 0 || ax >= from.rank) {
    diag_error(L->c, E_SHAPE, n->name, "Scan: output axis %lld of a tensor of rank %u", (long long)ax, from.rank);
    return;
  }
  for (uint32_t d = 0; d < from.rank; d++) { /* axis d of the result is axis `of` of what was collected */
    uint32_t of = d == (uint32_t)ax ? 0 : d < (uint32_t)ax ? d + 1 : d;
    shape[d] = from.shape[of];
    axes[d] = expr_axis1(L->m, "t", shape[d], &idx[of]);
  }
  if (back) idx[0] = sym_sub(L->c, sym_addi(L->c, from.shape[0], -1), idx[0]);
  tid t = expr_tensor(L->m, TK_STAGE, from.type, arena_dup(L->a, shape, from.rank * sizeof *shape), from.rank, v->name, n->name);
  expr_stage(L->m, block, t, axes, from.rank, expr_load(L->m, from.t, idx, from.rank, 0));
  set_value(L, v, (arg){.type = from.type, .rank = from.rank, .shape = xt(L->m, t)->shape, .t = t});
}
/* Loop: inputs M, cond, carried...; body (i, cond, carried...) -> (cond, carried..., scan outputs...). Scan: carried..., scanned...; body (carried..., slices...) -> (carried..., scan outputs...) */
static void lower_loop(low *L, graph *g, node *n, uint32_t block) {
  const attr *ba = node_attr(n, "body");
  bool scan = !strcmp(n->op, "Scan");
  (void)g;
  if (!ba || !ba->g) {
    diag_error(L->c, E_MODEL, n->name, "%s needs the attribute body", n->op);
    return;
  }
  graph *b = ba->g;
  const attr *ns = node_attr(n, "num_scan_inputs");
  uint32_t nscan = scan ? (uint32_t)(ns ? ns->i : 0) : 0, first = scan ? 0 : 2, bfirst = scan ? 0 : 2, boff = scan ? 0 : 1;
  if (n->in.n < first + nscan || (ns && (ns->i < 0 || ns->i > n->in.n))) {
    diag_error(L->c, E_MODEL, n->name, "%s has too few inputs", n->op);
    return;
  }
  uint32_t nc = n->in.n - first - nscan;
  if (b->inputs.n != bfirst + nc + nscan || b->outputs.n < boff + nc || n->out.n > b->outputs.n - boff) {
    diag_error(L->c, E_MODEL, n->name, "%s: the body has %u inputs and %u outputs; %u inputs and at least %u outputs expected", n->op, b->inputs.n, b->outputs.n, bfirst + nc + nscan, boff + nc);
    return;
  }
  uint32_t nk = b->outputs.n - boff - nc;
  xloop x = {.block = block, .origin = n->name, .ncarried = nc, .ncollected = 0};
  x.body = new_block(L, block);
  x.init = NEWN(L->a, tid, nc + 1), x.inner = NEWN(L->a, tid, nc + 1), x.next = NEWN(L->a, tid, nc + 1), x.final = NEWN(L->a, tid, nc + 1);
  x.slice = NEWN(L->a, tid, nk + 1), x.collected = NEWN(L->a, tid, nk + 1);
  const attr *dirs = node_attr(n, "scan_input_directions"), *odirs = node_attr(n, "scan_output_directions"), *axs = node_attr(n, "scan_input_axes"), *oaxs = node_attr(n, "scan_output_axes");
  if (scan) {
    if (!nscan) {
      diag_error(L->c, E_MODEL, n->name, "Scan needs at least one scan input");
      return;
    }
    arg *s = value_arg(L, n->in.v[nc]);
    if (!s) return;
    int64_t ax = axs && axs->n ? axs->ints[0] : 0;
    if (ax < 0) ax += s->rank;
    if (ax < 0 || ax >= s->rank) {
      diag_error(L->c, E_SHAPE, n->name, "Scan: axis %lld of a tensor of rank %u", (long long)ax, s->rank);
      return;
    }
    x.trips = s->shape[ax];
  } else if (n->in.v[0]) {
    arg *m = value_arg(L, n->in.v[0]);
    if (!m) return;
    if (m->values)
      x.trips = sym_max(L->c, m->values[0], sym_int(L->c, 0));
    else
      x.trip_tensor = m->t;
  } else {
    diag_error(L->c, E_UNSUPPORTED, n->name, "a Loop without a trip count is not supported yet; give input M an upper bound");
    return;
  }
  if (!scan && n->in.v[1]) {
    arg *c0 = value_arg(L, n->in.v[1]);
    if (!c0) return;
    int64_t v;
    if (!(c0->values && sym_is_int(L->c, c0->values[0], &v) && v)) x.cond0 = c0->t;
  }
  x.counter = new_counter(L, "trip", x.trips ? x.trips : sym_int(L->c, 1000000000));
  if (!scan) {
    sz one[1] = {0};
    value *iv = b->inputs.v[0];
    tid t = expr_tensor(L->m, TK_STAGE, ET_I64, one, 0, iv->name, n->name);
    expr_stage(L->m, x.body, t, NULL, 0, expr_index(L->m, slice_index(L, x.counter)));
    set_value(L, iv, (arg){.type = ET_I64, .rank = 0, .shape = one, .t = t});
    tid ct = expr_tensor(L->m, TK_STAGE, ET_BOOL, one, 0, b->inputs.v[1]->name, n->name);
    expr_stage(L->m, x.body, ct, NULL, 0, expr_bool(L->m, true));
    set_value(L, b->inputs.v[1], (arg){.type = ET_BOOL, .rank = 0, .shape = one, .t = ct});
  }
  for (uint32_t i = 0; i < nc; i++) {
    arg *a = value_arg(L, n->in.v[first + i]);
    if (!a) return;
    x.init[i] = a->t;
    value *iv = b->inputs.v[bfirst + i];
    x.inner[i] = result_tensor(L, a->type, a->shape, a->rank, iv->name, n->name);
    arg in = *a;
    in.t = x.inner[i], in.values = NULL, in.floats = NULL;
    set_value(L, iv, in);
  }
  for (uint32_t i = 0; i < nscan; i++) {
    arg *a = value_arg(L, n->in.v[nc + i]);
    if (!a) return;
    int64_t ax = axs && i < axs->n ? axs->ints[i] : 0;
    if (ax < 0) ax += a->rank;
    if (ax < 0 || ax >= a->rank) {
      diag_error(L->c, E_SHAPE, n->name, "Scan: axis %lld of a tensor of rank %u", (long long)ax, a->rank);
      return;
    }
    if (!sym_eq(L->c, a->shape[ax], x.trips)) {
      guard same = {.ge0 = sym_sub(L->c, a->shape[ax], x.trips), .is_eq = true, .text = "Scan: the scanned inputs have different lengths", .node = n->name, .block = block};
      vec_push(L->a, L->m->guards, same);
    }
    sz at = slice_index(L, x.counter);
    if (dirs && i < dirs->n && dirs->ints[i]) at = sym_sub(L->c, sym_addi(L->c, x.trips, -1), at);
    arg s;
    arg from = *a;
    slice_stage(L, x.body, &from, (uint32_t)ax, at, b->inputs.v[nc + i]->name, n->name, &s);
    set_value(L, b->inputs.v[nc + i], s);
  }
  uint32_t facts = sym_mark(L->c);
  bool good = lower_nodes(L, b, x.body);
  sym_pop(L->c, facts);
  if (!good) return;
  if (!scan) {
    arg *c = value_arg(L, b->outputs.v[0]);
    if (!c) return;
    int64_t v;
    if (!(c->values && sym_is_int(L->c, c->values[0], &v) && v) && c->t != value_arg(L, b->inputs.v[1])->t) x.cond = c->t;
  }
  bool counted = x.trips && !x.cond && !x.cond0;
  for (uint32_t i = 0; i < nc; i++) {
    arg *a = value_arg(L, b->outputs.v[boff + i]);
    if (!a) return;
    tensor *in = xt(L->m, x.inner[i]);
    bool same = a->rank == in->rank && a->type == in->type;
    for (uint32_t d = 0; same && d < a->rank; d++) same = sym_eq(L->c, a->shape[d], in->shape[d]);
    if (!same) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "carried value %s changes its type or shape from trip to trip; that is not supported yet", b->inputs.v[bfirst + i]->source);
      return;
    }
    x.next[i] = a->t;
    if (i >= n->out.n) continue;
    tensor t = *xt(L->m, x.inner[i]);
    x.final[i] = result_tensor(L, t.type, t.shape, t.rank, n->out.v[i] ? n->out.v[i]->name : "final", n->name);
    if (n->out.v[i]) set_value(L, n->out.v[i], (arg){.type = t.type, .rank = t.rank, .shape = t.shape, .t = x.final[i]});
  }
  for (uint32_t i = nc; i < n->out.n; i++) {
    if (!needed(L, n->out.v[i])) continue;
    arg *a = value_arg(L, b->outputs.v[boff + i]);
    if (!a) return;
    if (!counted) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "collected output %u of a loop whose number of trips depends on data is not supported yet", i);
      return;
    }
    if (a->rank + 1 >= MAX_RANK) {
      diag_error(L->c, E_UNSUPPORTED, n->name, "collected output %u would have rank %u; %d is the most", i, a->rank + 1, MAX_RANK);
      return;
    }
    sz shape[MAX_RANK];
    shape[0] = x.trips;
    for (uint32_t d = 0; d < a->rank; d++) shape[d + 1] = a->shape[d];
    x.slice[x.ncollected] = a->t;
    tid t = result_tensor(L, a->type, arena_dup(L->a, shape, (a->rank + 1) * sizeof(sz)), a->rank + 1, n->out.v[i]->name, n->name);
    x.collected[x.ncollected++] = t;
    set_value(L, n->out.v[i], (arg){.type = a->type, .rank = a->rank + 1, .shape = xt(L->m, t)->shape, .t = t});
  }
  vec_push(L->a, L->m->loops, x);
  vec_push(L->a, L->m->blocks.v[block].items, ((item){IT_LOOP, L->m->loops.n - 1}));
  for (uint32_t i = nc; scan && i < n->out.n; i++) {
    uint32_t k = i - nc;
    int64_t ax = oaxs && k < oaxs->n ? oaxs->ints[k] : 0;
    bool back = odirs && k < odirs->n && odirs->ints[k];
    if (needed(L, n->out.v[i]) && (ax || back)) turn_collected(L, block, n, n->out.v[i], ax, back);
  }
}

static bool lower_nodes(low *L, graph *g, uint32_t block) {
  uint32_t before = diag_errors(L->c);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    bool any = false;
    for (uint32_t j = 0; j < n->out.n; j++) any |= needed(L, n->out.v[j]);
    if (!any) continue;
    bool std = !n->domain[0];
    if (std && !strcmp(n->op, "If"))
      lower_if(L, g, n, block);
    else if (std && (!strcmp(n->op, "Loop") || !strcmp(n->op, "Scan")))
      lower_loop(L, g, n, block);
    else
      plain_node(L, g, n, block);
  }
  return diag_errors(L->c) == before;
}

static sz fix_dim(ctx *c, void *env, atom a) {
  low *L = env;
  if (sym_kind(c, a) != AT_SYMBOL) return 0;
  for (uint32_t i = 0; i < L->ndims; i++)
    if (!strcmp(L->dims[i].name, sym_name(c, a))) return sym_int(c, L->dims[i].value);
  return 0;
}
emodule *lower_graph(graph *g, const oplib *lib, const dimfix *dims, uint32_t ndims) {
  low L = {.c = g->c, .lib = lib, .dims = dims, .ndims = ndims};
  L.m = expr_module(g->c);
  L.a = L.m->a;
  L.vals = map_new(L.a);
  L.needed = map_new(L.a);
  uint32_t before = diag_errors(g->c);
  mark_graph(&L, g);
  for (uint32_t i = 0; i < ndims; i++) {
    bool hit = false;
    for (uint32_t j = 0; j < g->inputs.n; j++)
      for (uint32_t d = 0; g->inputs.v[j]->ranked && d < g->inputs.v[j]->rank; d++) {
        atom a;
        hit |= sym_is_atom(g->c, g->inputs.v[j]->dims[d], &a) && sym_kind(g->c, a) == AT_SYMBOL && !strcmp(sym_name(g->c, a), dims[i].name);
      }
    if (!hit) diag_error(g->c, E_USAGE, NULL, "--dim %s: no input has a dimension of that name", dims[i].name);
  }
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    value *v = g->inputs.v[i];
    if (!v->ranked || !v->type) {
      diag_error(g->c, E_UNSUPPORTED, NULL, "input %s: its element type and rank must be declared", v->source);
      continue;
    }
    sz *shape = NEWN(L.a, sz, v->rank ? v->rank : 1);
    for (uint32_t d = 0; d < v->rank; d++) shape[d] = sym_subst(g->c, v->dims[d], fix_dim, &L);
    tid t = expr_tensor(L.m, TK_INPUT, v->type, shape, v->rank, v->name, NULL);
    vec_push(L.a, L.m->inputs, ((io){t, v->source}));
    set_value(&L, v, (arg){.type = v->type, .rank = v->rank, .shape = shape, .t = t});
  }
  if (diag_errors(g->c) == before) lower_nodes(&L, g, 0);
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    value *v = g->outputs.v[i];
    arg *a = value_arg(&L, v);
    if (!a) {
      if (diag_errors(g->c) == before) diag_error(g->c, E_MODEL, NULL, "output %s is computed by no node", v->source);
      continue;
    }
    xt(L.m, a->t)->output = true;
    vec_push(L.a, L.m->outputs, ((io){a->t, v->source}));
  }
  return diag_errors(g->c) == before ? L.m : NULL;
}
