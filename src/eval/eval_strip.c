/* What are a plan's values at 256 points?
 *
 * worker_value gives the strip of a node, computing it if its last one is no longer true: a node is true as long as the
 * strip of points is the same, none of the loop variables it depends on has changed since its stamp, and it was
 * computed for the lanes now asked for. Nodes that do not differ between lanes are computed in lane 0 and spread out
 * only when somebody needs more. Who asks guarantees that at least one lane is alive.
 */
#include "eval/eval_in.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void worker_init(worker *w, evaluation *v, const plan *p, arena *a) {
  *w = (worker){.v = v, .p = p, .a = a, .tick = 1, .floor = 1};
  w->st = NEWN(a, node_state, p->nodes.n);
  w->lane = NEWN(a, strip, p->lane_names.n + 1);
  w->loop = NEWN(a, int64_t, p->loop_names.n + 1);
  w->loop_tick = NEWN(a, uint64_t, p->loop_names.n + 1);
}
void worker_forget(worker *w) {
  w->floor = ++w->tick;
  if (w->other) worker_forget(w->other);
}
void worker_strip(worker *w, uint32_t n) { w->strip_tick = ++w->tick, w->n = n; }
void worker_loop(worker *w, uint32_t slot, int64_t x) {
  if (w->loop_tick[slot] && w->loop[slot] == x) return;
  w->loop[slot] = x, w->loop_tick[slot] = ++w->tick;
}
void worker_mask(worker *w, mask *out, const mask *in, const int64_t *cond) {
  out->count = 0;
  memset(out->bits, 0, sizeof out->bits);
  for (uint32_t i = 0; i < w->n; i++) {
    out->on[i] = (!in || in->on[i]) && (!cond || cond[i] != 0);
    out->count += out->on[i];
    out->bits[i / 64] |= (uint64_t)out->on[i] << (i % 64);
  }
}
static bool alive(const mask *mk, uint32_t i) { return !mk || mk->on[i]; }

void worker_fail(worker *w, uint32_t lane, const char *fmt, ...) {
  sbuf b = sbuf_new(w->a);
  const plan *p = w->p;
  char text[512];
  va_list ap;
  for (uint32_t i = 0; i < p->lane_names.n; i++)
    sb_fmt(&b, "%s%s=%lld", i ? ", " : "", p->lane_names.v[i], (long long)w->lane[i].i[lane]);
  for (uint32_t i = 0; i < p->loop_names.n; i++)
    sb_fmt(&b, "%s%s=%lld", i || p->lane_names.n ? ", " : "", p->loop_names.v[i], (long long)w->loop[i]);
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  diag_error(w->v->c, E_MODEL, p->origin, "stage %s at [%s]: %s", p->stage, b.n ? b.s : "", text);
  ctx_unwind(w->v->c);
}

/* ---- indices --------------------------------------------------------------------------------- */
static int64_t same_i(worker *w, uint32_t node) { return node ? worker_value(w, node, NULL, 1)->i[0] : 0; }

static void do_poly(worker *w, const pnode *p, strip *r, const mask *mk, uint32_t n) {
  uint64_t base = (uint64_t)p->k.i;
  bool first = true;
  for (uint32_t t = 0; t < p->nterms; t++) {
    const term *x = &p->terms[t];
    uint64_t coef = (uint64_t)x->coef;
    const strip *f[8];
    uint32_t nf = 0;
    for (uint32_t j = 0; j < x->n; j++) {
      if (!w->p->nodes.v[x->f[j]].lanes)
        coef *= (uint64_t)same_i(w, x->f[j]);
      else if (nf < 8)
        f[nf++] = worker_value(w, x->f[j], mk, n);
      else
        ctx_fail(w->v->c, E_UNSUPPORTED, "stage %s: a product of more than 8 indices", w->p->stage);
    }
    if (!nf) {
      base += coef;
      continue;
    }
    if (nf == 1) {
      const int64_t *a = f[0]->i;
      if (first)
        for (uint32_t i = 0; i < n; i++) r->i[i] = (int64_t)(coef * (uint64_t)a[i]);
      else
        for (uint32_t i = 0; i < n; i++) r->i[i] = (int64_t)((uint64_t)r->i[i] + coef * (uint64_t)a[i]);
    } else
      for (uint32_t i = 0; i < n; i++) {
        uint64_t v = coef;
        for (uint32_t j = 0; j < nf; j++) v *= (uint64_t)f[j]->i[i];
        r->i[i] = (int64_t)(first ? v : (uint64_t)r->i[i] + v);
      }
    first = false;
  }
  if (first)
    for (uint32_t i = 0; i < n; i++) r->i[i] = (int64_t)base;
  else if (base)
    for (uint32_t i = 0; i < n; i++) r->i[i] = (int64_t)((uint64_t)r->i[i] + base);
}
static void do_div(worker *w, const pnode *p, strip *r, const mask *mk, uint32_t n) {
  const strip *a = worker_value(w, p->args[0], mk, n), *b = worker_value(w, p->args[1], mk, n);
  for (uint32_t i = 0; i < n; i++) {
    if (b->i[i] == 0 && alive(mk, i)) worker_fail(w, i, "division of the index %lld by 0", (long long)a->i[i]);
    r->i[i] = b->i[i] == 0 ? 0 : b->i[i] == -1 ? (int64_t)(0 - (uint64_t)a->i[i]) : floordiv64(a->i[i], b->i[i]);
  }
}
/* One of two values by a condition, evaluating only what some live lane takes. */
static void choose(worker *w, etype t, strip *r, const int64_t *cond, uint32_t yes, uint32_t no, const mask *mk,
                   uint32_t n) {
  uint32_t count = 0, total = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!alive(mk, i)) continue;
    total++, count += cond[i] != 0;
  }
  uint32_t bytes = lanes_of(t) == LC_F32 ? 4 : 8;
  if (count == total || count == 0) {
    const strip *s = worker_value(w, count ? yes : no, mk, n);
    memcpy(r, s, bytes * n);
    return;
  }
  mask part;
  int64_t not[LANES];
  worker_mask(w, &part, mk, cond);
  const strip *a = worker_value(w, yes, &part, n);
  for (uint32_t i = 0; i < n; i++) not[i] = !cond[i];
  worker_mask(w, &part, mk, not);
  const strip *b = worker_value(w, no, &part, n);
  if (bytes == 4)
    for (uint32_t i = 0; i < n; i++) r->f[i] = cond[i] ? a->f[i] : b->f[i];
  else
    for (uint32_t i = 0; i < n; i++) r->i[i] = cond[i] ? a->i[i] : b->i[i];
}
static void do_select(worker *w, const pnode *p, strip *r, const mask *mk, uint32_t n) {
  const strip *c = worker_value(w, p->args[0], mk, n);
  int64_t cond[LANES];
  for (uint32_t i = 0; i < n; i++) cond[i] = c->i[i] >= 0;
  choose(w, ET_I64, r, cond, p->args[1], p->args[2], mk, n);
}

/* ---- accesses -------------------------------------------------------------------------------- */
static void lane_range(worker *w, uint32_t node, const strip *s, int64_t *lo, int64_t *hi) {
  node_state *st = &w->st[node];
  uint64_t now = w->p->nodes.v[node].kind == PN_LANE ? w->strip_tick : st->gen;
  if (st->range_gen != now) {
    int64_t l = s->i[0], h = s->i[0];
    for (uint32_t i = 1; i < w->n; i++) l = min64(l, s->i[i]), h = max64(h, s->i[i]);
    st->lo = l, st->hi = h, st->range_gen = now;
  }
  *lo = st->lo, *hi = st->hi;
}
static const char *dims_text(worker *w, const ndarray *nd) {
  sbuf b = sbuf_new(w->a);
  for (uint32_t i = 0; i < nd->rank; i++) sb_fmt(&b, "%s%lld", i ? ", " : "", (long long)nd->dims[i]);
  return b.n ? b.s : "";
}
/* Marks the lanes where an index is out of range. */
static void outside(const strip *lane, int64_t add, int64_t dim, int64_t *out, uint32_t n) {
  if (lane)
    for (uint32_t i = 0; i < n; i++) out[i] |= (uint64_t)add + (uint64_t)lane->i[i] >= (uint64_t)dim;
  else
    for (uint32_t i = 0; i < n; i++) out[i] |= (uint64_t)add >= (uint64_t)dim;
}
/* Elements of nd as lanes of type t: the same, or f64 where a module was promoted and nd holds narrower floats. */
static void read_elements(etype t, strip *r, const ndarray *nd, const int64_t *at, int64_t add, uint32_t n) {
  strip narrow;
  if (t == nd->type) {
    lanes_read(t, r, nd->data, at, add, n);
    return;
  }
  lanes_read(nd->type, &narrow, nd->data, at, add, n);
  for (uint32_t i = 0; i < n; i++) r->d[i] = narrow.f[i];
}
static void do_load(worker *w, const pnode *p, strip *r, const mask *mk, uint32_t n) {
  const ndarray *nd = &rt_of(w->v, p->tensor)->nd;
  const strip *lane[MAX_RANK];
  int64_t add[MAX_RANK], base = 0, stride = 1, out[LANES], safe[LANES];
  bool all_in = true, none_in = false;
  /* 1. by the range of each index over the lanes: are all inside, or none? */
  for (uint32_t i = p->nargs; i-- > 0; stride *= max64(nd->dims[i], 1)) {
    int64_t lo = 0, hi = 0, u = add[i] = same_i(w, p->args[2 * i + 1]);
    lane[i] = p->args[2 * i] ? worker_value(w, p->args[2 * i], mk, n) : NULL;
    if (lane[i]) lane_range(w, p->args[2 * i], lane[i], &lo, &hi);
    if (__builtin_add_overflow(lo, u, &lo) || __builtin_add_overflow(hi, u, &hi)) lo = -1, hi = nd->dims[i];
    base = (int64_t)((uint64_t)base + (uint64_t)u * (uint64_t)stride);
    if (lo >= 0 && hi < nd->dims[i]) continue;
    if (all_in) memset(out, 0, n * sizeof *out);
    all_in = false;
    none_in |= hi < 0 || lo >= nd->dims[i] || nd->dims[i] == 0;
    outside(lane[i], add[i], nd->dims[i], out, n);
  }
  /* 2. who is outside needs an else value, or must be dead */
  uint32_t nout = 0;
  for (uint32_t i = 0; !all_in && i < n; i++) nout += out[i] && alive(mk, i);
  for (uint32_t i = 0; nout && !p->otherwise && i < n; i++) {
    if (!out[i] || !alive(mk, i)) continue;
    for (uint32_t k = 0; k < p->nargs; k++) {
      int64_t x = add[k] + (lane[k] ? lane[k]->i[i] : 0);
      if (x < 0 || x >= nd->dims[k])
        worker_fail(w, i, "index %lld of axis %u of tensor %s: %s[%s] is out of range", (long long)x, k,
                    xt(w->v->m, p->tensor)->name, et_name(nd->type), dims_text(w, nd));
    }
  }
  /* 3. read the others; dead lanes, whose index was not checked or is stale, read the first element */
  bool stale = mk && p->flat && !w->p->nodes.v[p->flat].total;
  if (none_in)
    lanes_fill(p->type, r, (scalar){0}, n);
  else if (!p->flat) {
    read_elements(p->type, r, nd, NULL, base, 1);
    lanes_fill(p->type, r, lanes_get(p->type, r, 0), n);
  } else {
    const int64_t *flat = worker_value(w, p->flat, mk, n)->i;
    if (!all_in || stale) {
      for (uint32_t i = 0; i < n; i++) safe[i] = (!all_in && out[i]) || (stale && !mk->on[i]) ? -base : flat[i];
      flat = safe;
    }
    read_elements(p->type, r, nd, flat, base, n);
  }
  if (!nout || !p->otherwise) return;
  mask part;
  const mask *sub = mk;
  if (w->p->nodes.v[p->otherwise].lanes) worker_mask(w, &part, mk, out), sub = &part;
  const strip *o = worker_value(w, p->otherwise, sub, n);
  if (lanes_of(p->type) == LC_F32)
    for (uint32_t i = 0; i < n; i++) r->f[i] = out[i] ? o->f[i] : r->f[i];
  else
    for (uint32_t i = 0; i < n; i++) r->i[i] = out[i] ? o->i[i] : r->i[i];
}

/* ---- operations ------------------------------------------------------------------------------ */
static bool rounds(const pnode *p) { return op_rounds((sop)p->op) && (p->type == ET_F32 || p->type == ET_F64); }
/* The same for a node, its lane and the loops around it whenever it is computed again. */
static void add_noise(const worker *w, uint32_t id, strip *r, uint32_t n) {
  const bool wide = w->p->nodes.v[id].type == ET_F64;
  const double unit = 4 * (wide ? w->v->noise_f64 : w->v->noise_f32);
  uint64_t where = w->v->noise * 0x9e3779b97f4a7c15u + id * 0xd1342543de82ef95u;
  for (uint32_t k = 0; k < w->p->loop_names.n; k++) where = where * 0x2545f4914f6cdd1du + (uint64_t)w->loop[k];
  for (uint32_t i = 0; i < n; i++) {
    uint64_t h = (where + i) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    const double part = 1 + ((double)(h >> 11) * 0x1p-53 - 0.5) * unit;
    if (wide)
      r->d[i] *= part;
    else
      r->f[i] = (float)((double)r->f[i] * part);
  }
}
static void do_op(worker *w, const pnode *p, strip *r, const mask *mk, uint32_t n) {
  const strip *x[3] = {0};
  x[0] = worker_value(w, p->args[0], mk, n);
  if (p->op == OP_SEL) {
    choose(w, p->type, r, x[0]->i, p->args[1], p->args[2], mk, n);
    return;
  }
  /* the right side only where the left does not decide */
  if ((p->op == OP_AND || p->op == OP_OR) && !w->p->nodes.v[p->args[1]].total) {
    int64_t open[LANES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) open[i] = (x[0]->i[i] != 0) == (p->op == OP_AND), count += open[i] && alive(mk, i);
    for (uint32_t i = 0; i < n; i++) r->i[i] = p->op == OP_OR;
    if (!count) return;
    mask part;
    bool some = w->p->nodes.v[p->args[1]].lanes || n > 1;
    if (some) worker_mask(w, &part, mk, open);
    const strip *b = worker_value(w, p->args[1], some ? &part : mk, n);
    for (uint32_t i = 0; i < n; i++)
      if (open[i]) r->i[i] = b->i[i] != 0;
    return;
  }
  for (uint32_t i = 1; i < p->nargs; i++) x[i] = worker_value(w, p->args[i], mk, n);
  lanes_op(p->op, p->type, w->p->nodes.v[p->args[0]].type, r, x[0], x[1], x[2], n);
}

/* ---- reductions ------------------------------------------------------------------------------ */
static scalar identity(rop op, etype t) {
  bool fl = et_kind(t) == K_FLOAT, inf = fl && isinf(et_round(t, (scalar){.f = INFINITY}).f);
  switch (op) {
  case RED_PROD:
    return fl ? (scalar){.f = 1} : (scalar){.i = 1};
  case RED_ALL:
    return (scalar){.i = 1};
  case RED_MAX:
    if (!fl) return (scalar){.i = et_kind(t) == K_INT ? (int64_t)(~UINT64_C(0) << (et_bits(t) - 1)) : 0};
    return (scalar){.f = inf ? -INFINITY : et_lowest(t)};
  case RED_MIN:
    if (t == ET_BOOL) return (scalar){.i = 1};
    if (!fl)
      return (scalar){.i = (int64_t)(et_kind(t) == K_INT ? (UINT64_C(1) << (et_bits(t) - 1)) - 1
                                     : et_bits(t) == 64  ? ~UINT64_C(0)
                                                         : (UINT64_C(1) << et_bits(t)) - 1)};
    return (scalar){.f = inf ? INFINITY : et_highest(t)};
  default:
    return fl ? (scalar){.f = 0} : (scalar){.i = 0};
  }
}
static const sop combine[RED_COUNT] = {[RED_SUM] = OP_ADD, [RED_PROD] = OP_MUL, [RED_MAX] = OP_MAX,
                                       [RED_MIN] = OP_MIN, [RED_ANY] = OP_OR,   [RED_ALL] = OP_AND};

/* Sums in f32 are exact to half a place however many terms they have: they are f64 until they are whole. */
static bool sums_wide(const pnode *p) { return p->op == RED_SUM && p->acc == ET_F32; }
static void accumulate(const pnode *p, strip *acc, const strip *body, const mask *mk, uint32_t n) {
  strip old;
  size_t w = lanes_of(p->acc) == LC_F32 ? 4 : 8;
  if (sums_wide(p)) {
    for (uint32_t i = 0; i < n && !mk; i++) acc->d[i] += (double)body->f[i];
    for (uint32_t i = 0; i < n && mk; i++)
      if (mk->on[i]) acc->d[i] += (double)body->f[i];
    return;
  }
  if (mk) memcpy(&old, acc, w * n);
  lanes_op(combine[p->op], p->acc, p->acc, acc, acc, body, NULL, n);
  if (mk && w == 4)
    for (uint32_t i = 0; i < n; i++) acc->f[i] = mk->on[i] ? acc->f[i] : old.f[i];
  else if (mk)
    for (uint32_t i = 0; i < n; i++) acc->i[i] = mk->on[i] ? acc->i[i] : old.i[i];
}
/* Is a better than b for this arg-reduction? NaN is better than everything. */
static bool better(rop op, etype t, scalar a, scalar b) {
  bool last = op == RED_ARGMAX_LAST || op == RED_ARGMIN_LAST, max = op == RED_ARGMAX || op == RED_ARGMAX_LAST;
  if (et_kind(t) == K_FLOAT) {
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && (!isnan(b.f) || last);
    return a.f == b.f ? last : (a.f > b.f) == max;
  }
  if (a.i == b.i) return last;
  return (t == ET_U64 ? (uint64_t)a.i > (uint64_t)b.i : a.i > b.i) == max;
}
/* Walks the points of a reduction in row-major order: sets the loop variables; false when there are no more. */
static bool first_point(worker *w, const pnode *p) {
  bool any = true;
  for (uint32_t i = 0; i < p->nargs; i++) any &= same_i(w, p->args[i]) > 0;
  for (uint32_t i = 0; any && i < p->nargs; i++) worker_loop(w, p->vars[i], 0);
  return any;
}
static bool next_point(worker *w, const pnode *p) {
  for (uint32_t i = p->nargs; i-- > 0;) {
    int64_t x = w->loop[p->vars[i]] + 1;
    if (x < same_i(w, p->args[i])) {
      worker_loop(w, p->vars[i], x);
      return true;
    }
    worker_loop(w, p->vars[i], 0);
  }
  return false;
}
static void do_reduce(worker *w, const pnode *p, node_state *st, strip *r, const mask *outer, uint32_t n) {
  bool arg = red_is_arg(p->op);
  const pnode *bn = &w->p->nodes.v[p->body];
  uint8_t seen[LANES] = {0};
  mask inner;
  if (!st->acc) st->acc = NEW(w->a, strip), st->aux = NEW(w->a, strip);
  strip *acc = st->acc, *best = st->aux;
  if (arg)
    memset(acc, 0, sizeof *acc);
  else
    lanes_fill(sums_wide(p) ? ET_F64 : p->acc, acc, identity(p->op, p->acc), n);
  bool exists = first_point(w, p), convert = !arg && bn->type != (etype)p->acc;
  for (bool go = exists; go; go = next_point(w, p)) {
    const mask *mk = outer;
    if (p->where) {
      const strip *c = worker_value(w, p->where, outer, n);
      uint32_t count = 0, of = 0;
      for (uint32_t i = 0; i < n; i++) of += alive(outer, i), count += alive(outer, i) && c->i[i];
      if (!count) continue;
      if (count < of) worker_mask(w, &inner, outer, c->i), mk = &inner;
    }
    const strip *b = worker_value(w, p->body, mk, n);
    if (!arg) {
      strip tmp;
      if (convert) lanes_convert(p->acc, bn->type, &tmp, b, n), b = &tmp;
      accumulate(p, acc, b, mk, n);
      continue;
    }
    const strip *pay = p->payload ? worker_value(w, p->payload, mk, n) : NULL;
    int64_t here = p->nargs ? w->loop[p->vars[0]] : 0;
    for (uint32_t i = 0; i < n; i++) {
      scalar x = lanes_get(bn->type, b, i);
      if (!alive(mk, i) || (seen[i] && !better(p->op, bn->type, x, lanes_get(bn->type, best, i)))) continue;
      seen[i] = 1, lanes_put(bn->type, best, i, x);
      acc->i[i] = pay ? pay->i[i] : here;
    }
  }
  if (!arg) {
    if (sums_wide(p)) lanes_convert(ET_F32, ET_F64, acc, acc, n);
    lanes_convert(p->type, p->acc, r, acc, n);
    return;
  }
  memcpy(r, acc, 8 * n);
}

/* ---- one node -------------------------------------------------------------------------------- */
static bool current(const worker *w, const pnode *p, const node_state *st) {
  if (!st->v || st->stamp < w->floor || (p->lanes && st->stamp < w->strip_tick)) return false;
  for (uint32_t i = 0; i < p->ndeps; i++)
    if (st->stamp < w->loop_tick[p->deps[i]]) return false;
  return true;
}
static bool covers(const node_state *st, const mask *mk) {
  if (st->full) return true;
  if (!mk) return false;
  for (int i = 0; i < LANES / 64; i++)
    if (mk->bits[i] & ~st->good[i]) return false;
  return true;
}
static void spread(const pnode *p, node_state *st, uint32_t need) {
  if (p->lanes || st->filled >= need) return;
  lanes_fill(p->type, st->v, lanes_get(p->type, st->v, 0), need);
  st->filled = need;
}
static void compute(worker *w, uint32_t id, const mask *mk) {
  const pnode *p = &w->p->nodes.v[id];
  node_state *st = &w->st[id];
  uint32_t n = p->lanes ? w->n : 1;
  if (!st->v) st->v = NEW(w->a, strip);
  switch ((plan_kind)p->kind) {
  case PN_CONST:
    lanes_put(p->type, st->v, 0, p->k);
    break;
  case PN_LOOP:
    st->v->i[0] = w->loop[p->slot];
    break;
  case PN_POLY:
    do_poly(w, p, st->v, mk, n);
    break;
  case PN_DIV:
    do_div(w, p, st->v, mk, n);
    break;
  case PN_MINMAX:
    lanes_op(p->op, ET_I64, ET_I64, st->v, worker_value(w, p->args[0], mk, n), worker_value(w, p->args[1], mk, n), NULL,
             n);
    break;
  case PN_SELECT:
    do_select(w, p, st->v, mk, n);
    break;
  case PN_LOAD:
    do_load(w, p, st->v, mk, n);
    break;
  case PN_OP:
    do_op(w, p, st->v, mk, n);
    if (w->v->noise && rounds(p)) add_noise(w, id, st->v, n);
    break;
  case PN_REDUCE:
    if (p->keys && id != w->asked)
      reduce_once(w, id, st->v, mk, n);
    else
      do_reduce(w, p, st, st->v, mk, n);
    break;
  case PN_LANE:
    break;
  }
  st->stamp = w->tick, st->gen++, st->filled = n, st->full = !mk;
  if (mk) memcpy(st->good, mk->bits, sizeof st->good);
}
/* Computes the lanes of mk and, again, those that hold a value: a caller up the stack may still read this strip, so
 * that these must stay valid. */
static void compute_more(worker *w, uint32_t id, const mask *mk) {
  const node_state *st = &w->st[id];
  mask both;
  int64_t on[LANES];
  for (uint32_t i = 0; i < w->n; i++) on[i] = mk->on[i] || (st->good[i / 64] >> (i % 64) & 1);
  worker_mask(w, &both, NULL, on);
  compute(w, id, &both);
}
const strip *worker_value(worker *w, uint32_t id, const mask *mk, uint32_t need) {
  const pnode *p = &w->p->nodes.v[id];
  node_state *st = &w->st[id];
  if (p->kind == PN_LANE) return &w->lane[p->slot];
  if (p->total || !p->lanes) mk = NULL;
  bool now = current(w, p, st);
  if (!now)
    compute(w, id, mk);
  else if (!covers(st, mk)) {
    if (mk)
      compute_more(w, id, mk);
    else
      compute(w, id, NULL);
  }
  spread(p, st, need);
  return st->v;
}
