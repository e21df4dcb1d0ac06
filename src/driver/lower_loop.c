/* How do Loop and Scan come into the module?
 *
 * The body is lowered once, into a block of its own, with a symbol for the number of the trip. What is carried
 * enters it as values of that block.
 *
 * Sizes may change from trip to trip. Which do is found by trying: the body is lowered with the sizes of the
 * beginning; where what it hands on has another size there, that size becomes a symbol and the body is lowered
 * again, until nothing new changes. Each such symbol is a late size read from a scalar that is carried too: it
 * begins with the size of the beginning, the body computes the next one, and after the loop a second late size
 * is read from its last value. The number of trips that a loop with a condition made is found the same way; it is
 * the length of what was collected. Memory is planned for a bound: a size that grows by at most D a trip
 * has at most BEGINNING + TRIPS*D. So carried values lie densely in a buffer of fixed room, whatever their size
 * at the moment.
 */
#include "driver/lower_in.h"
#include <string.h>

enum { MAX_ATTEMPTS = 2 * MAX_RANK, MAX_UNROLLED = 64 };

typedef struct grown { /* a size that changes */
  uint32_t value;      /* number of the carried value */
  uint32_t dim;        /* its axis */
  sz symbol;           /* the size inside the body */
  tid inner;           /* scalar that has the size at the beginning of a trip */
} grown;
typedef struct looping {
  low *L;                    /* lowering */
  node *n;                   /* the node */
  graph *b;                  /* its body */
  uint32_t block;            /* block that the node stands in */
  uint32_t nc;               /* number of carried values */
  uint32_t nscan;            /* number of scanned inputs (Scan) */
  uint32_t first;            /* index of the first carried value among the node's inputs */
  uint32_t bfirst;           /* index of the first carried value among the body's inputs */
  uint32_t boff;             /* index of the first carried value among the body's outputs */
  bool scan;                 /* it is a Scan */
  xloop x;                   /* the loop that is made */
  sz most;                   /* trips, at most */
  const arg *init;           /* carried values at the beginning */
  const arg *scanned;        /* inputs that are scanned */
  const int64_t *axes;       /* axis of each scanned input and output */
  const bool *back;          /* which scanned inputs and outputs run backwards */
  bool (*changes)[MAX_RANK]; /* per carried value and axis: the size changes from trip to trip */
  sz (*claimed)[MAX_RANK];   /* sizes that the model states for what the body gives, 0: none */
  VEC(grown) sizes;          /* the sizes that change */
} looping;

static tid slice_stage(low *L, uint32_t block, const arg *x, uint32_t ax, sz at, const char *name, const char *origin,
                       arg *out) {
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
  *out = (arg){
      .present = true, .type = x->type, .rank = r, .shape = arena_dup(L->a, shape, (r ? r : 1) * sizeof(sz)), .t = t};
  return t;
}
/* What a Scan collected at axis 0, in the order of the trips, as the node wants it: at another axis, or backwards. */
static void reverse_collected(low *L, uint32_t block, const node *n, value *v, int64_t ax, bool back) {
  arg from = *low_value(L, v);
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
  if (back && !EK_PLANTED("lower-scan")) idx[0] = sym_sub(L->c, sym_addi(L->c, from.shape[0], -1), idx[0]);
  tid t = expr_tensor(L->m, TK_STAGE, from.type, arena_dup(L->a, shape, from.rank * sizeof *shape), from.rank, v->name,
                      n->name);
  expr_stage(L->m, block, t, axes, from.rank, expr_load(L->m, from.t, idx, from.rank, 0));
  low_set(L, v, (arg){.type = from.type, .rank = from.rank, .shape = xt(L->m, t)->shape, .t = t});
}
static atom new_counter(low *L, sz trips) {
  int64_t lo, hi;
  sym_range(L->c, trips, &lo, &hi);
  sz s = sym_fresh(L->c, "trip", 0, max64(min64(hi - 1, LOW_MOST), 0));
  atom a = 0;
  sym_is_atom(L->c, s, &a);
  return a;
}
static sz *copy_shape(low *L, const sz *shape, uint32_t rank) {
  sz *s = NEWN(L->a, sz, rank + 1);
  for (uint32_t i = 0; i < rank; i++) s[i] = shape[i];
  return s;
}
static bool is_true(low *L, const arg *a) {
  int64_t v;
  return a->values && sym_is_int(L->c, sym_canon(L->c, a->values[0]), &v) && v;
}

/* ---- what goes in ---------------------------------------------------------------------------- */
static bool fits(looping *p) {
  low *L = p->L;
  node *n = p->n;
  const attr *ba = node_attr(n, "body"), *ns = node_attr(n, "num_scan_inputs");
  p->scan = !strcmp(n->op, "Scan");
  if (!ba || !ba->g) {
    diag_error(L->c, E_MODEL, n->name, "%s needs the attribute body", n->op);
    return false;
  }
  graph *b = p->b = ba->g;
  p->nscan = p->scan ? (uint32_t)(ns ? ns->i : 0) : 0, p->first = p->bfirst = p->scan ? 0 : 2,
  p->boff = p->scan ? 0 : 1;
  if (n->in.n < p->first + p->nscan || (ns && (ns->i < 0 || ns->i > n->in.n))) {
    diag_error(L->c, E_MODEL, n->name, "%s has too few inputs", n->op);
    return false;
  }
  if (p->scan && !p->nscan) {
    diag_error(L->c, E_MODEL, n->name, "Scan needs at least one scan input");
    return false;
  }
  p->nc = n->in.n - p->first - p->nscan;
  if (b->inputs.n != p->bfirst + p->nc + p->nscan || b->outputs.n < p->boff + p->nc ||
      n->out.n > b->outputs.n - p->boff) {
    diag_error(L->c, E_MODEL, n->name,
               "%s: the body has %u inputs and %u outputs; %u inputs and at least %u outputs expected", n->op,
               b->inputs.n, b->outputs.n, p->bfirst + p->nc + p->nscan, p->boff + p->nc);
    return false;
  }
  return true;
}
/* What is scanned: its slices must be as many as the trips. */
static bool scanned_inputs(looping *p) {
  low *L = p->L;
  const attr *dirs = node_attr(p->n, "scan_input_directions"), *axs = node_attr(p->n, "scan_input_axes");
  arg *in = NEWN(L->a, arg, p->nscan + 1);
  int64_t *axes = NEWN(L->a, int64_t, p->nscan + 1);
  bool *back = NEWN(L->a, bool, p->nscan + 1);
  p->scanned = in, p->axes = axes, p->back = back;
  for (uint32_t i = 0; i < p->nscan; i++) {
    const value *v = p->n->in.v[p->nc + i];
    if (!v || !low_tensor(L, p->n, v, &in[i])) return false;
    axes[i] = axs && i < axs->n ? axs->ints[i] : 0;
    if (axes[i] < 0) axes[i] += in[i].rank;
    if (axes[i] < 0 || axes[i] >= in[i].rank) {
      diag_error(L->c, E_SHAPE, p->n->name, "Scan: axis %lld of a tensor of rank %u", (long long)axes[i], in[i].rank);
      return false;
    }
    back[i] = dirs && i < dirs->n && dirs->ints[i];
    sz size = in[i].shape[axes[i]];
    if (!i) p->x.trips = size;
    if (sym_eq(L->c, size, p->x.trips)) continue;
    guard same = {.ge0 = sym_sub(L->c, size, p->x.trips),
                  .is_eq = true,
                  .text = "Scan: the scanned inputs have different lengths",
                  .node = p->n->name,
                  .block = p->block};
    vec_push(L->a, L->m->guards, same);
  }
  return true;
}
static bool inputs(looping *p) {
  low *L = p->L;
  node *n = p->n;
  arg m, go;
  if (!p->scan && n->in.v[0]) {
    if (!low_single(L, n, n->in.v[0], ET_I64, "the number of trips", &m)) return false;
    if (m.values)
      p->x.trips = sym_max(L->c, m.values[0], sym_int(L->c, 0));
    else {
      sz zero[MAX_RANK];
      for (uint32_t i = 0; i < m.rank; i++) zero[i] = sym_int(L->c, 0);
      sz upper = notation_upper(L->m, expr_load(L->m, m.t, zero, m.rank, 0));
      if (upper) p->most = sym_max(L->c, sym_min(L->c, upper, p->most), sym_int(L->c, 0));
      p->x.trip_tensor = m.t;
    }
  } else if (!p->scan)
    p->x.trips = p->most; /* the loop runs as long as its condition says */
  if (!p->scan && n->in.v[1]) {
    if (!low_single(L, n, n->in.v[1], ET_BOOL, "the condition", &go)) return false;
    if (!is_true(L, &go)) p->x.cond0 = go.t;
  }
  p->most = low_given(L, arena_fmt(L->a, "%s.trips", n->name), p->most);
  arg *init = NEWN(L->a, arg, p->nc + 1);
  p->init = init;
  for (uint32_t i = 0; i < p->nc; i++)
    if (!n->in.v[p->first + i] || !low_tensor(L, n, n->in.v[p->first + i], &init[i])) return false;
  return scanned_inputs(p);
}

/* ---- the body -------------------------------------------------------------------------------- */
static void enter(looping *p) {
  low *L = p->L;
  graph *b = p->b;
  const char *origin = p->n->name;
  xloop *x = &p->x;
  x->body = low_block(L, p->block);
  x->counter = new_counter(L, x->trips ? x->trips : p->most);
  sz at = sym_of_atom(L->c, x->counter);
  p->sizes.n = 0;
  if (!p->scan) {
    sz *none = NEWN(L->a, sz, 1), *yes = NEWN(L->a, sz, 1);
    value *iv = b->inputs.v[0];
    low_set(L, iv, (arg){.type = ET_I64, .shape = none, .t = low_scalar(L, x->body, at, iv->name, origin)});
    tid ct = expr_tensor(L->m, TK_STAGE, ET_BOOL, none, 0, b->inputs.v[1]->name, origin);
    expr_stage(L->m, x->body, ct, NULL, 0, expr_bool(L->m, true));
    yes[0] = sym_int(L->c, 1);
    low_set(L, b->inputs.v[1], (arg){.type = ET_BOOL, .shape = none, .t = ct, .values = yes});
  }
  for (uint32_t i = 0; i < p->nc; i++) {
    value *iv = b->inputs.v[p->bfirst + i];
    arg in = p->init[i];
    sz *shape = copy_shape(L, in.shape, in.rank);
    for (uint32_t d = 0; d < in.rank; d++) {
      if (!p->changes[i][d]) continue;
      grown g = {.value = i, .dim = d, .symbol = shape[d] = low_size_symbol(L, iv->name, d)};
      g.inner = low_result(L, ET_I64, NEWN(L->a, sz, 1), 0, arena_fmt(L->a, "%s.size%u", iv->name, d), origin);
      vec_push(L->a, p->sizes, g);
    }
    in.shape = shape, in.values = NULL, in.floats = NULL;
    in.t = low_result(L, in.type, shape, in.rank, iv->name, origin);
    low_set(L, iv, in);
  }
  for (uint32_t i = 0; i < p->nscan; i++) {
    value *iv = b->inputs.v[p->nc + i];
    arg s;
    slice_stage(L, x->body, &p->scanned[i], (uint32_t)p->axes[i],
                p->back[i] ? sym_sub(L->c, sym_addi(L->c, x->trips, -1), at) : at, iv->name, origin, &s);
    low_set(L, iv, s);
  }
}
/* A size that is not known to stay, but that the model states to: a condition then, checked in every trip. */
static bool stated(looping *p, uint32_t out, uint32_t dim, sz have, sz want) {
  low *L = p->L;
  if (!p->claimed[out][dim] || !sym_eq(L->c, p->claimed[out][dim], want) || sym_ne(L->c, have, want)) return false;
  const char *text = arena_fmt(L->a, "%s: axis %u of '%s' must have size %s in every trip, as the model states",
                               p->n->op, dim, p->b->outputs.v[out]->source, sym_str(L->c, want));
  guard g = {.ge0 = sym_sub(L->c, have, want), .is_eq = true, .text = text, .node = p->n->name, .block = p->x.body};
  vec_push(L->m->a, L->m->guards, g);
  return true;
}
static void note_claims(looping *p) {
  low *L = p->L;
  p->claimed = arena_alloc(L->a, (p->b->outputs.n + 1) * sizeof *p->claimed);
  memset(p->claimed, 0, (p->b->outputs.n + 1) * sizeof *p->claimed);
  for (uint32_t i = 0; i < p->b->outputs.n; i++) {
    const value *v = p->b->outputs.v[i];
    for (uint32_t d = 0; v->declared && v->ranked && d < v->rank && d < MAX_RANK; d++)
      if (v->dims[d] && sym_is_int(L->c, v->dims[d], NULL)) p->claimed[i][d] = v->dims[d];
  }
}
typedef enum { FAILED, DONE, AGAIN, OTHER_RANK } body_end;
/* Lowers the body for the sizes that are known to change; says whether more do. */
static body_end lower_body(looping *p, arg *next) {
  low *L = p->L;
  body_end end = DONE;
  enter(p);
  uint32_t facts = sym_mark(L->c);
  if (!low_nodes(L, p->b, p->x.body)) end = FAILED;
  for (uint32_t i = 0; i < p->nc && end != FAILED; i++) {
    const arg *in = low_value(L, p->b->inputs.v[p->bfirst + i]);
    arg was = *in;
    if (!low_tensor(L, p->n, p->b->outputs.v[p->boff + i], &next[i])) {
      end = FAILED;
      break;
    }
    if (next[i].rank != was.rank || next[i].type != was.type) {
      end = OTHER_RANK;
      break;
    }
    for (uint32_t d = 0; d < was.rank; d++) {
      if (p->changes[i][d] || sym_eq(L->c, next[i].shape[d], was.shape[d]) ||
          stated(p, p->boff + i, d, next[i].shape[d], was.shape[d]))
        continue;
      p->changes[i][d] = true, end = AGAIN;
    }
  }
  sym_pop(L->c, facts);
  return end == DONE && !low_open_holds(L, p->b) ? AGAIN : end;
}

/* ---- what comes out -------------------------------------------------------------------------- */
static void carry(looping *p, tid init, tid inner, tid next, tid final) {
  xloop *x = &p->x;
  uint32_t k = x->ncarried++;
  x->init[k] = init, x->inner[k] = inner, x->next[k] = next, x->final[k] = final;
}
/* An upper bound of e in which none of these symbols occurs, 0: none found. `x + min(a, b)` is at most x + a and at
 * most x + b, `x - max(a, b)` at most x - a and at most x - b. */
static sz without(ctx *c, sz e, const atom *symbols, uint32_t n, int depth) {
  bool uses = false;
  for (uint32_t i = 0; i < n; i++) uses |= sym_uses(c, e, symbols[i]);
  if (!uses) return e;
  sz best = 0;
  for (uint32_t i = 0; depth && i < sym_nterms(c, e); i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t k = sym_term(c, e, i, &na, &as, &ex);
    if (na != 1 || ex[0] != 1 || sym_kind(c, as[0]) != (k > 0 ? AT_MIN : AT_MAX)) continue;
    sz g[3], rest = sym_sub(c, e, sym_muli(c, sym_of_atom(c, as[0]), k));
    uint32_t args = sym_args(c, as[0], g);
    for (uint32_t j = 0; j < args; j++) {
      sz one = without(c, sym_add(c, rest, sym_muli(c, g[j], k)), symbols, n, depth - 1);
      if (one) best = best ? sym_min(c, best, one) : one;
    }
    break; /* other sizes are looked at further down */
  }
  return best;
}
/* Upper bounds of the changing sizes. What one trip adds must be known to be bounded. */
static bool bounds(looping *p, const arg *next, sz most, sz *out) {
  low *L = p->L;
  ctx *c = L->c;
  uint32_t n = p->sizes.n, left = n;
  low_local k = {.L = L, .block = p->x.body, .n = n + 1};
  atom *symbols = NEWN(L->a, atom, n + 1);
  sz *his = NEWN(L->a, sz, n + 1);
  for (uint32_t i = 0; i < n; i++) sym_is_atom(c, p->sizes.v[i].symbol, &symbols[i]);
  symbols[n] = p->x.counter, his[n] = sym_max(c, sym_addi(c, most, -1), sym_int(c, 0));
  k.symbols = symbols, k.his = his;
  for (uint32_t round = 0; round <= n && left; round++)
    for (uint32_t i = 0; i < n; i++) {
      if (his[i]) continue;
      const grown *g = &p->sizes.v[i];
      sz init = p->init[g->value].shape[g->dim], hi = low_upper(&k, next[g->value].shape[g->dim]);
      bool uses = false;
      for (uint32_t j = 0; j < n; j++) uses |= j != i && !his[j] && sym_uses(c, hi, symbols[j]);
      if (uses) continue;
      if (!sym_uses(c, hi, symbols[i]))
        out[i] = sym_max(c, init, hi);
      else {
        sz step = sym_sub(c, hi, g->symbol);
        if (sym_ge0(c, sym_neg(c, step)))
          out[i] = init; /* the size never grows */
        else if ((step = without(c, step, &symbols[i], 1, 8)))
          out[i] =
              EK_PLANTED("lower-loop") ? init : sym_add(c, init, sym_mul(c, sym_max(c, step, sym_int(c, 0)), most));
        else
          continue;
      }
      his[i] = out[i] = sym_max(c, out[i], sym_int(c, 0));
      left--;
    }
  for (uint32_t i = 0; i < n && left; i++)
    if (!his[i]) {
      const grown *g = &p->sizes.v[i];
      diag_error(c, E_UNSUPPORTED, p->n->name,
                 "the size of axis %u of carried value %s grows from trip to trip by what has no bound (%s becomes %s)",
                 g->dim, p->b->inputs.v[p->bfirst + g->value]->source, sym_str(c, g->symbol),
                 sym_str(c, next[g->value].shape[g->dim]));
      return false;
    }
  return true;
}
/* Carries the sizes that change, before the values that have them: these need the sizes. */
static bool carry_sizes(looping *p, const arg *next, sz most, sz *after) {
  low *L = p->L;
  const char *origin = p->n->name;
  sz *bound = NEWN(L->a, sz, p->sizes.n + 1);
  if (!bounds(p, next, most, bound)) return false;
  for (uint32_t i = 0; i < p->sizes.n; i++) {
    const grown *g = &p->sizes.v[i];
    const char *name = xt(L->m, g->inner)->name;
    uint32_t out = g->value;
    value *v = out < p->n->out.n ? p->n->out.v[out] : NULL;
    tid init = low_scalar(L, p->block, p->init[g->value].shape[g->dim], arena_fmt(L->a, "%s.init", name), origin);
    tid to = low_scalar(L, p->x.body, next[g->value].shape[g->dim], arena_fmt(L->a, "%s.next", name), origin);
    tid final = low_result(L, ET_I64, NEWN(L->a, sz, 1), 0, arena_fmt(L->a, "%s.final", name), origin);
    carry(p, init, g->inner, to, final);
    after[i] = low_size_symbol(L, v ? v->name : name, g->dim);
    sz most_given = low_given_size(L, after[i], low_given_size(L, g->symbol, bound[i]));
    low_late(L, g->symbol, g->inner, most_given);
    low_late(L, after[i], final, most_given);
  }
  return true;
}
static sz count_trips(looping *p, sz most, const char *of) {
  low *L = p->L;
  const char *origin = p->n->name, *name = arena_fmt(L->a, "%s.trips", of);
  tid init = low_scalar(L, p->block, sym_int(L->c, 0), arena_fmt(L->a, "%s.init", name), origin);
  tid inner = low_result(L, ET_I64, NEWN(L->a, sz, 1), 0, arena_fmt(L->a, "%s.so_far", name), origin);
  tid next = low_scalar(L, p->x.body, sym_addi(L->c, sym_of_atom(L->c, p->x.counter), 1),
                        arena_fmt(L->a, "%s.next", name), origin);
  tid final = low_result(L, ET_I64, NEWN(L->a, sz, 1), 0, name, origin);
  carry(p, init, inner, next, final);
  sz s = low_size_symbol(L, of, 0);
  low_late(L, s, final, most);
  return s;
}
static bool collect(looping *p, uint32_t i, sz trips) {
  low *L = p->L;
  xloop *x = &p->x;
  value *v = p->n->out.v[i];
  arg a;
  if (!low_tensor(L, p->n, p->b->outputs.v[p->boff + i], &a)) return false;
  if (a.rank + 1 >= MAX_RANK) {
    diag_error(L->c, E_UNSUPPORTED, p->n->name, "collected output %u would have rank %u; %d is the most", i, a.rank + 1,
               MAX_RANK);
    return false;
  }
  low_local k = {.L = L, .block = x->body};
  VEC(atom) inside = {0};
  vec_push(L->a, inside, x->counter);
  for (uint32_t j = 0; j < p->sizes.n; j++) {
    atom s;
    sym_is_atom(L->c, p->sizes.v[j].symbol, &s);
    vec_push(L->a, inside, s);
  }
  k.symbols = inside.v, k.n = inside.n, k.his = NEWN(L->a, sz, inside.n);
  sz *shape = NEWN(L->a, sz, a.rank + 1);
  shape[0] = trips;
  for (uint32_t d = 0; d < a.rank; d++) {
    shape[d + 1] = a.shape[d];
    if (low_is_local(&k, a.shape[d])) {
      sz want = p->claimed[p->boff + i][d];
      if (want && stated(p, p->boff + i, d, a.shape[d], want)) {
        shape[d + 1] = want;
        continue;
      }
      diag_error(L->c, E_UNSUPPORTED, p->n->name,
                 "collected output %u: the size of axis %u of what one trip gives (%s) is not the same for every trip",
                 i, d, sym_str(L->c, a.shape[d]));
      return false;
    }
  }
  x->slice[x->ncollected] = a.t;
  tid t = low_result(L, a.type, shape, a.rank + 1, v->name, p->n->name);
  x->collected[x->ncollected++] = t;
  low_set(L, v, (arg){.type = a.type, .rank = a.rank + 1, .shape = shape, .t = t});
  return true;
}
static bool outputs(looping *p, const arg *next) {
  low *L = p->L;
  node *n = p->n;
  xloop *x = &p->x;
  uint32_t collected = n->out.n > p->nc ? n->out.n - p->nc : 0, room = p->nc + p->sizes.n + 2;
  x->init = NEWN(L->a, tid, room), x->inner = NEWN(L->a, tid, room), x->next = NEWN(L->a, tid, room),
  x->final = NEWN(L->a, tid, room);
  x->slice = NEWN(L->a, tid, collected + 1), x->collected = NEWN(L->a, tid, collected + 1);
  if (!p->scan) {
    arg go;
    if (!low_single(L, n, p->b->outputs.v[0], ET_BOOL, "the condition for going on", &go)) return false;
    if (!is_true(L, &go) && go.t != low_value(L, p->b->inputs.v[1])->t) x->cond = go.t;
    if (!n->in.v[0] && !x->cond) {
      diag_error(L->c, E_MODEL, n->name, "this Loop has neither a number of trips nor a condition: it would never end");
      return false;
    }
  }
  bool any = false;
  for (uint32_t i = p->nc; i < n->out.n; i++) any |= low_needed(L, n->out.v[i]);
  sz most = x->trips ? sym_min(L->c, x->trips, p->most) : p->most, trips = x->trips,
     *after = NEWN(L->a, sz, p->sizes.n + 1);
  if (!carry_sizes(p, next, most, after)) return false;
  if (any && (!x->trips || x->cond || x->cond0)) {
    uint32_t i = p->nc;
    while (!low_needed(L, n->out.v[i])) i++;
    trips = count_trips(p, most, n->out.v[i]->name);
  }
  for (uint32_t i = 0; i < p->nc; i++) {
    tid inner = low_value(L, p->b->inputs.v[p->bfirst + i])->t, final = 0;
    if (i < n->out.n) {
      value *v = n->out.v[i];
      tensor t = *xt(L->m, inner);
      sz *shape = copy_shape(L, t.shape, t.rank);
      for (uint32_t j = 0; j < p->sizes.n; j++)
        if (p->sizes.v[j].value == i) shape[p->sizes.v[j].dim] = after[j];
      final = low_result(L, t.type, shape, t.rank, v ? v->name : "final", n->name);
      if (v) low_set(L, v, (arg){.type = t.type, .rank = t.rank, .shape = shape, .t = final});
    }
    carry(p, p->init[i].t, inner, next[i].t, final);
  }
  for (uint32_t i = p->nc; i < n->out.n; i++)
    if (low_needed(L, n->out.v[i]) && !collect(p, i, trips)) return false;
  return true;
}
/* May the loop be unrolled: few trips, whose number is known, and nothing else decides? */
static bool can_unroll(looping *p) {
  int64_t n;
  return !p->scan && p->x.trips && sym_is_int(p->L->c, p->x.trips, &n) && n <= MAX_UNROLLED && !p->x.cond0;
}
loop_end low_loop(low *L, node *n, uint32_t block) {
  looping p = {
      .L = L, .n = n, .block = block, .most = sym_int(L->c, LOW_MOST), .x = {.block = block, .origin = n->name}};
  if (!fits(&p) || !inputs(&p)) return LOOP_FAILED;
  arg *next = NEWN(L->a, arg, p.nc + 1);
  p.changes = arena_alloc(L->a, (p.nc + 1) * sizeof *p.changes);
  memset(p.changes, 0, (p.nc + 1) * sizeof *p.changes);
  note_claims(&p);
  body_end end = AGAIN;
  for (uint32_t i = 0; end == AGAIN && i < MAX_ATTEMPTS; i++) {
    if (i) low_drop(L, p.x.body);
    end = lower_body(&p, next);
  }
  if (end == OTHER_RANK && can_unroll(&p)) {
    low_drop(L, p.x.body);
    return low_unrolled(L, n, block) ? LOOP_UNROLLED : LOOP_FAILED;
  }
  if (end == OTHER_RANK || end == AGAIN)
    diag_error(L->c, E_UNSUPPORTED, n->name, "%s: a carried value changes its type or its rank from trip to trip",
               n->op);
  if (end != DONE || !outputs(&p, next)) return LOOP_FAILED;
  vec_push(L->a, L->m->loops, p.x);
  vec_push(L->a, L->m->blocks.v[block].items, ((item){IT_LOOP, L->m->loops.n - 1}));
  const attr *oaxs = node_attr(n, "scan_output_axes"), *odirs = node_attr(n, "scan_output_directions");
  for (uint32_t i = p.nc; p.scan && i < n->out.n; i++) {
    uint32_t k = i - p.nc;
    int64_t ax = oaxs && k < oaxs->n ? oaxs->ints[k] : 0;
    bool back = odirs && k < odirs->n && odirs->ints[k];
    if (low_needed(L, n->out.v[i]) && (ax || back)) reverse_collected(L, block, n, n->out.v[i], ax, back);
  }
  return LOOP_LOWERED;
}
