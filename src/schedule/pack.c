/* How does a constant operand get the storage its tile wants? As a weights buffer of its own: [selecting
 * variables..., panel, reduction variables..., lane within the panel], the last panel filled up with zeros, so that
 * the inner loop reads whole aligned vectors one after the other (the packed B of Goto and van de Geijn, "Anatomy
 * of high-performance matrix multiplication", 2008).
 *
 * Constants of which one factor is made lie side by side: [.., reduction variables..., side, lane within the panel].
 *
 * The schedule leaves a recipe only. Who wants the bytes (a module's weights, a file, a digest) has them written
 * where they belong, in pieces, on several threads: weights are never there twice, and where nobody wants
 * them the model's file is not read. */
#include "schedule/tile.h"
#include <string.h>

/* points of 4 bytes that are read together where a lane's points lie side by side: a line of the cache is then read
 * once */
enum { STRIP = BUFFER_ALIGN / 4 };

int64_t packing_items(const packing *k) {
  int64_t n = k->panels;
  for (int64_t i = 0; i < k->nsel; i++) n *= k->count[i];
  return n;
}
int64_t packing_row(const packing *k) { return k->nr * max64(1, k->interleaved); }
int64_t packing_item(const packing *k) {
  int64_t row = packing_row(k), depth = k->depth * k->nr / row;
  if (k->bits) return depth * row * k->bits / 8;
  return k->size * (k->fixed_point ? k->nr + depth * fixed_point_row(row, k->fixed_point) : depth * row);
}
int64_t packing_bytes(const packing *k) { return packing_items(k) * packing_item(k); }
/* where in the source a choice of the selecting variables begins */
static int64_t chosen(const packing *k, int64_t sel) {
  int64_t at = k->base;
  for (int64_t d = k->nsel; d-- > 0; sel /= k->count[d]) at += sel % k->count[d] * k->step[d];
  return at;
}
int64_t packing_item_at(const packing *k, int64_t item) {
  return chosen(k, item / k->panels) + item % k->panels * k->nr * k->lane_step;
}
static int64_t point(const packing *k, int64_t p) {
  int64_t at = 0;
  for (int64_t d = k->nsel + k->nred; d-- > k->nsel; p /= k->count[d]) at += p % k->count[d] * k->step[d];
  return at;
}
int64_t packing_point_at(const packing *k, int64_t p) { return point(k, p); }
typedef uint32_t four __attribute__((vector_size(4 * sizeof(uint32_t))));
/* 4 x 4 elements of 4 bytes */
static inline void exchange_four(uint8_t *dst, size_t dst_row, const uint8_t *src, size_t src_row) {
  four r[4];
  for (int i = 0; i < 4; i++) memcpy(&r[i], src + (size_t)i * src_row, sizeof r[i]);
  four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5), b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
       c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7), d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  four t[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
               __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (int i = 0; i < 4; i++) memcpy(dst + (size_t)i * dst_row, &t[i], sizeof t[i]);
}
/* np points whose elements lie `step` apart, each of n lanes */
static inline void strip(uint8_t *dst, const uint8_t *src, size_t size, int64_t np, int64_t step, int64_t n,
                         int64_t lane_step, int64_t nr) {
  if (lane_step == 1 || step != 1) {
    for (int64_t p = 0; p < np; p++, dst += (size_t)nr * size, src += step * (int64_t)size) {
      if (lane_step == 1)
        memcpy(dst, src, (size_t)n * size);
      else
        /* mapped constants may be misaligned */
        for (int64_t i = 0; i < n; i++) memcpy(dst + (size_t)i * size, src + i * lane_step * (int64_t)size, size);
    }
    return;
  }
  int64_t i = 0;
  for (; size == 4 && lane_step > 0 && np % 4 == 0 && i + 4 <= n; i += 4)
    for (int64_t p = 0; p < np; p += 4)
      exchange_four(dst + (p * nr + i) * 4, (size_t)nr * 4, src + (i * lane_step + p) * 4, (size_t)lane_step * 4);
  for (; i < n; i++)
    for (int64_t p = 0; p < np; p++)
      memcpy(dst + (size_t)(p * nr + i) * size, src + (i * lane_step + p) * (int64_t)size, size);
}
/* values of the innermost variable; where it was joined with others these are whole groups */
static int64_t innermost(const packing *k) { return k->nred ? k->count[k->nsel + k->nred - 1] : 1; }
static int64_t whole_groups(int64_t n, int64_t g) { return (n + g - 1) / g * g; }
static void write_groups(const packing *k, const uint8_t *source, pack_piece piece, uint8_t *to) {
  const size_t size = (size_t)k->size;
  const int64_t g = k->group, run = innermost(k), whole = whole_groups(run, g);
  for (int64_t item = piece.first; item < piece.last; item++) {
    int64_t lane = item % k->panels * k->nr, n = min64(k->nr, k->lanes - lane),
            at = chosen(k, item / k->panels) + lane * k->lane_step;
    uint8_t *dst = to + ((size_t)(item - piece.first) * (size_t)k->depth + (size_t)piece.from) * (size_t)k->nr * size;
    memset(dst, 0, (size_t)(piece.to - piece.from) * (size_t)k->nr * size);
    for (int64_t p = piece.from; p < piece.to; p += g, dst += (size_t)(k->nr * g) * size)
      for (int64_t h = 0; h < g && p % whole + h < run; h++) {
        const uint8_t *src = source + (at + point(k, p / whole * run + p % whole + h)) * k->size;
        uint8_t *place = dst + (size_t)(EK_PLANTED("schedule-packed-groups") ? 0 : h) * size;
        for (int64_t i = 0; i < n; i++) memcpy(place + (size_t)(g * i) * size, src + i * k->lane_step * k->size, size);
      }
  }
}
void packing_write(const packing *k, const void *source, pack_piece piece, uint8_t *to) {
  if (k->bits) {
    bit_pack_write(k, source, piece, to);
    return;
  }
  if (k->group) {
    write_groups(k, source, piece, to);
    return;
  }
  const size_t size = (size_t)k->size, row = (size_t)k->nr * size;
  const int64_t inner = k->nred ? k->count[k->nsel + k->nred - 1] : 1,
                step = k->nred ? k->step[k->nsel + k->nred - 1] : 0;
  for (int64_t item = piece.first; item < piece.last; item++) {
    int64_t panel = item % k->panels, lane = panel * k->nr,
            n = min64(k->nr, k->lanes - lane - EK_PLANTED("schedule-pack")), np;
    int64_t at = chosen(k, item / k->panels) + lane * k->lane_step;
    uint8_t *dst = to + ((size_t)(item - piece.first) * (size_t)k->depth + (size_t)piece.from) * row;
    for (int64_t p = piece.from; p < piece.to; p += np, dst += (size_t)np * row) {
      const uint8_t *src = (const uint8_t *)source + (at + point(k, p)) * k->size;
      np = min64(min64(inner - p % inner, piece.to - p), STRIP);
      if (size == 4)
        strip(dst, src, 4, np, step, n, k->lane_step, k->nr);
      else
        strip(dst, src, size, np, step, n, k->lane_step, k->nr);
      for (int64_t q = 0; n < k->nr && q < np; q++)
        memset(dst + (size_t)q * row + (size_t)n * size, 0, (size_t)(k->nr - n) * size);
    }
  }
}
/* Widens lo..hi by `count` indices at this step, whichever side they go to. */
static void reach(int64_t *lo, int64_t *hi, int64_t count, int64_t step) {
  *(step < 0 ? lo : hi) += (count - 1) * step;
}
bytes packing_reads(const packing *k, const void *source, pack_piece w) {
  int64_t lo = k->base, hi = k->base, s0 = w.first / k->panels, s1 = (w.last - 1) / k->panels;
  if (s0 == s1) {
    int64_t p0 = w.first % k->panels, p1 = (w.last - 1) % k->panels;
    lo = hi = chosen(k, s0) + p0 * k->nr * k->lane_step;
    reach(&lo, &hi, min64(k->lanes, (p1 + 1) * k->nr) - p0 * k->nr, k->lane_step);
  } else {
    reach(&lo, &hi, k->lanes, k->lane_step);
    if (k->nsel == 1)
      lo += s0 * k->step[0], hi += s0 * k->step[0], reach(&lo, &hi, s1 - s0 + 1, k->step[0]);
    else
      for (int64_t d = 0; d < k->nsel; d++) reach(&lo, &hi, k->count[d], k->step[d]);
  }
  if (k->nred == 1)
    lo += w.from * k->step[k->nsel], hi += w.from * k->step[k->nsel],
        reach(&lo, &hi, min64(w.to, k->count[k->nsel]) - w.from, k->step[k->nsel]);
  else
    for (int64_t d = k->nsel; d < k->nsel + k->nred; d++) reach(&lo, &hi, k->count[d], k->step[d]);
  return (bytes){(const uint8_t *)source + lo * k->size, (size_t)((hi - lo + 1) * k->size)};
}

/* Neighbours that count through the source together are one, but for an innermost variable without whole groups. */
static void add_dim(packing *k, bool selects, int64_t count, int64_t step) {
  int64_t n = k->nsel + k->nred, *of = selects ? &k->nsel : &k->nred;
  if (count == 1) return;
  const bool whole = selects || !k->group || count % k->group == 0;
  if (*of && whole && k->step[n - 1] == count * step)
    k->count[n - 1] *= count, k->step[n - 1] = step;
  else
    k->count[n] = count, k->step[n] = step, ++*of;
}
contents contents_of(const tensor *t) {
  if (t->transform) return (contents){.source = t->transform->from, .transform = t->transform};
  if (t->narrow.type) return (contents){.source = t->narrow.from, .narrow = t->narrow.type};
  return (contents){.source = {t->data.data, t->data.bytes}};
}
bool pack_places(const packing *k, const linmap *l) {
  const int64_t interleaved = max64(1, k->interleaved), places = linmap_places(l) / interleaved, rows = linmap_rows(l),
                cols = linmap_cols(l), one = rows * cols;
  if (k->group || k->base || k->lane_step != 1 || k->lanes != cols || k->depth != rows * interleaved || k->nsel > 1)
    return false;
  if (k->nsel ? k->count[0] != places || k->step[0] != one * interleaved : places != 1) return false;
  /* the last axis of places */
  if (interleaved > 1 && (interleaved != l->n[l->n[1] > 1] || k->step[k->nsel + k->nred - 1] != one)) return false;
  return k->nred == (rows > 1) + (interleaved > 1) && (rows == 1 || k->step[k->nsel] == cols);
}
/* A digit of the number of a chunk's point that selects: a quotient. By an open size it has no bound but that of the
 * point's number, and that it is inside the constant, of `elems` elements. */
static bool chunk_digit(index_view *iv, const nest *n, const u32vec *reds, sz at, int64_t elems, nvar *out) {
  ctx *c = iv->c;
  u32vec few = {0};
  int64_t lo, hi, step, from, to;
  sz coef, values, g[3];
  sym_atoms(c, at, AT_DIV, iv->a, &few);
  for (uint32_t i = few.n; i-- > 0;) /* what another quotient divides by is no digit */
    for (uint32_t j = 0; j < few.n; j++)
      if (j != i && sym_uses(c, sym_of_atom(c, few.v[j]), few.v[i])) {
        few.v[i] = few.v[--few.n];
        break;
      }
  if (few.n != 1) return false;
  sz digit = sym_of_atom(c, few.v[0]);
  for (uint32_t i = 0; i < reds->n; i++)
    if (sym_uses(c, digit, reds->v[i])) return false;
  if (sym_uses(c, digit, n->lane.var) || (n->row.var && sym_uses(c, digit, n->row.var))) return false;
  sym_range(c, digit, &lo, &hi);
  if (lo || !sym_linear(c, at, few.v[0], &coef, NULL) || !sym_is_int(c, coef, &step) || step < 1) return false;
  sym_range(c, at, &from, &to);
  hi = min64(hi, max64(elems - 1 - max64(from, 0), 0) / step);
  if (n->point.var && sym_args(c, few.v[0], g) == 2 && g[0] == sym_of_atom(c, n->point.var) &&
      sym_exact_div(c, n->point.extent, g[1], &values) && sym_is_int(c, values, &to))
    hi = min64(hi, to - 1);
  *out = (nvar){.var = few.v[0], .extent = sym_int(c, hi + 1)};
  return true;
}
/* The number of a point, counted by two variables, of which the inner one selects: its rest, and how far apart in
 * the constant its values are. 0: it is not so. */
static sz point_rest(index_view *iv, const nest *n, sz at, int64_t *step, int64_t *extent) {
  ctx *c = iv->c;
  u32vec few = {0};
  int64_t k;
  sz g[3], coef;
  if (!n->point.var) return 0;
  sz point = sym_of_atom(c, n->point.var);
  sym_atoms(c, at, AT_DIV, iv->a, &few);
  if (few.n != 1 || sym_args(c, few.v[0], g) != 2 || g[0] != point || !sym_is_int(c, g[1], extent) || *extent < 2 ||
      *extent > INT32_MAX)
    return 0;
  if (!sym_linear(c, at, few.v[0], &coef, &at) || !sym_is_int(c, coef, &k) ||
      !sym_linear(c, at, n->point.var, &coef, NULL) || !sym_is_int(c, coef, step) || *step < 1 || *step > INT32_MAX ||
      k != -*step * *extent)
    return 0;
  return sym_mod(c, point, g[1]);
}
/* May the panels be in fixed point? Whole ones, read vector by vector. */
static bool whole_panels(index_view *iv, const nest *n, uint32_t stage, int64_t lanes, int64_t nr, int64_t interleaved,
                         uint32_t L) {
  bool edges = lanes % L == 0 || iv->p->t->masks, ranges = !n->lane.lo || (n->lane.unit && n->lane.unit % nr == 0);
  return L > 1 && interleaved * nr / L >= FIXED_POINT_VECTORS && interleaved * nr <= FIXED_POINT_LANES &&
         !n->lane_reduced && edges && ranges && !n->blocking.panels && !nest_goes_on(iv->m, n, stage) &&
         (stage + 1 >= n->stages.n || !nest_goes_on(iv->m, n, stage + 1));
}
static bool distance_in_factor(index_view *iv, const access *a, const access *b, const u32vec *loads, int64_t *d) {
  return b->stage == a->stage && !b->store && b->t == a->t && vec_has(loads, b->load) &&
         sym_is_int(iv->c, sym_sub(iv->c, b->address, a->address), d);
}
/* Loads of one constant that make a factor, the same number of places apart, lie side by side. False: beside one
 * that comes first. */
bool pack_interleaved(index_view *iv, const accesses *acc, uint32_t at, ex sum, interleaved *out) {
  const access *a = &acc->v[at];
  ex f = factor_of(iv, exn(iv->m, sum), a->load);
  u32vec loads = {0};
  int64_t d, step = INT64_MAX;
  *out = (interleaved){.n = 1, .all = f != 0};
  if (!f || f == a->load) return true;
  expr_loads(iv->m, f, iv->a, &loads);
  for (uint32_t i = 0; i < acc->n; i++) {
    if (i == at || !distance_in_factor(iv, a, &acc->v[i], &loads, &d)) continue;
    if (d <= 0) return false;
    step = min64(step, d);
  }
  out->step = step;
  for (bool more = step < INT64_MAX; more && out->n < MAX_INTERLEAVED;) {
    more = false;
    for (uint32_t i = 0; i < acc->n && !more; i++)
      if (distance_in_factor(iv, a, &acc->v[i], &loads, &d) && d == out->n * step)
        out->loads[out->n++] = acc->v[i].load, more = true;
  }
  out->all = out->n == loads.n;
  return true;
}
contents pack_contents(emodule *m, tid t, const packing *k) {
  const linmap *l = xt(m, t)->transform;
  if (l && !pack_places(k, l)) expr_data(m, t);
  contents x = contents_of(xt(m, t));
  x.pack = k;
  if (x.narrow && k->size == et_bytes(x.narrow)) x.narrow = ET_NONE; /* the bytes are packed as they are */
  return x;
}
uint32_t pack_permuted(splan *p, tid t, const uint32_t *order) {
  const tensor *x = xt(p->m, t);
  int64_t step[MAX_RANK], size[MAX_RANK], elems = 1;
  packing *k = NEW(p->l->a, packing);
  k->size = et_bytes(x->type), k->panels = 1;
  for (uint32_t d = x->rank; d-- > 0;) step[d] = elems, size[d] = sym_int_or(p->m->c, x->shape[d], 0), elems *= size[d];
  if (!elems) return p->layouts[t].buffer;
  for (uint32_t i = 0; i + 1 < x->rank; i++) add_dim(k, false, size[order[i]], step[order[i]]);
  k->lanes = k->nr = size[order[x->rank - 1]], k->lane_step = step[order[x->rank - 1]];
  k->depth = elems / k->lanes;
  vec_push(p->l->a, p->buffers,
           ((buffer){.kind = BUF_WEIGHTS,
                     .type = x->type,
                     .name = arena_fmt(p->l->a, "%s.packed", x->name),
                     .elems = sym_int(p->m->c, elems),
                     .tensor = t,
                     .from = pack_contents(p->m, t, k)}));
  return p->buffers.n - 1;
}
/* Variables that count through a constant while it is packed. */
typedef struct pack_vars {
  nvar v[MAX_RANK * 2]; /* those that select, then those of the reduction */
  uint32_t n;           /* how many there are */
  uint32_t nsel;        /* how many of them select */
  bool digit;           /* one is a digit of the number of a chunk's point */
  int64_t sel;          /* choices of those that select */
  int64_t inner;        /* points of the reduction */
  int64_t uses;         /* uses of each element, at least */
  sz off;               /* number of the current choice */
  sz step;              /* number of the current point of the reduction */
} pack_vars;
/* Where in its constant a load reads, in elements; 0: it may be outside. */
static sz constant_address(index_view *iv, const ex_node *load, const tensor *t) {
  sz at = sym_int(iv->c, 0);
  for (uint32_t i = 0; i < load->nargs; i++) {
    sz idx = view_resolve(iv, load->args[i]);
    if (!view_in_range(iv->c, NULL, i, idx, t->shape[i])) return 0;
    at = sym_add(iv->c, sym_mul(iv->c, at, t->shape[i]), idx);
  }
  return at;
}
/* Lists the variables that an address may have. Returns the address without what a chunk's point selects by its rest,
 * which goes to the pack. */
static sz list_variables(index_view *iv, const nest *n, const u32vec *reds, const tensor *t, sz at, packing *pack,
                         pack_vars *x) {
  ctx *c = iv->c;
  int64_t elems, spacing = 0, values = 1;
  for (uint32_t i = 0; i < n->outer.n && x->n < MAX_RANK; i++) x->v[x->n++] = n->outer.v[i];
  x->digit = nd_count(&t->data, &elems) && chunk_digit(iv, n, reds, at, elems, &x->v[x->n]);
  x->n += x->digit;
  sz inside = point_rest(iv, n, at, &spacing, &values);
  if (inside) {
    at = sym_sub(c, at, sym_muli(c, inside, spacing));
    add_dim(pack, true, values, spacing + EK_PLANTED("schedule-collapsed-digit"));
    x->off = inside, x->sel = values;
  } else if (n->point.var)
    x->v[x->n++] = n->point;
  for (uint32_t i = 0; i < n->inner.n && x->n < MAX_RANK; i++) x->v[x->n++] = n->inner.v[i];
  x->nsel = x->n;
  for (uint32_t i = 0; i < reds->n && x->n < 2 * MAX_RANK; i++)
    x->v[x->n++] = (nvar){.var = reds->v[i], .extent = sym_extent(c, reds->v[i])};
  return at;
}
/* Takes the variables out of the address into the pack, with the number of the choice and of the point. False: it is
 * not affine in them, or an extent is open. */
static bool add_variables(index_view *iv, sz at, packing *pack, pack_vars *x) {
  ctx *c = iv->c;
  for (uint32_t i = 0; i < x->n; i++) {
    const nvar *v = &x->v[i];
    int64_t ext, step;
    sz coef, rest, here = sym_of_atom(c, v->var);
    if (!sym_linear(c, at, v->var, &coef, &rest) || !sym_is_int(c, coef, &step)) return false;
    if (step == 0 && (i < x->nsel || i + 1 == x->n)) { /* a variable of step 0 does not select, nor is it a step */
      if (i < x->nsel) x->uses = fixed_point_uses(iv->p, x->uses, v->extent);
      continue;
    }
    if (!sym_is_int(c, v->extent, &ext)) return false;
    at = rest;
    add_dim(pack, i < x->nsel, ext, step);
    if (i < x->nsel)
      x->sel *= ext, x->off = sym_add(c, sym_muli(c, x->off, ext), here);
    else {
      if (pack->group && i + 1 == x->n) ext = whole_groups(ext, pack->group);
      x->inner *= ext, x->step = sym_add(c, sym_muli(c, x->step, ext), here);
    }
  }
  return sym_is_int(c, at, &pack->base);
}
bool pack_constant(index_view *iv, nest *n, ex load, uint32_t stage, const interleaved *lanes_of, packload *out) {
  ctx *c = iv->c;
  const u32vec *reds = &n->reds[stage];
  const ex_node *ln = exn(iv->m, load);
  tensor *t = xt(iv->m, ln->tensor);
  if (t->kind != TK_CONST || ln->otherwise || !n->lane.var) return false;
  int64_t lanes, lane_stride;
  sz at = constant_address(iv, ln, t), coef, rest;
  if (!at || !sym_is_int(c, n->lane.extent, &lanes) || !sym_linear(c, at, n->lane.var, &coef, &rest) ||
      !sym_is_int(c, coef, &lane_stride) || lane_stride == 0)
    return false;
  packing *pack = NEW(iv->p->l->a, packing);
  const tensorised *by = instruction_of(n, stage, load);
  if (by) pack->group = by->by->group;
  pack_vars x = {.sel = 1, .inner = 1, .off = sym_int(c, 0), .step = sym_int(c, 0)};
  x.uses = fixed_point_uses(iv->p, n->row.var ? fixed_point_uses(iv->p, 1, n->row.extent) : 1,
                            n->row2.var ? n->row2.extent : sym_int(c, 1));
  rest = list_variables(iv, n, reds, t, rest, pack, &x);
  if (!add_variables(iv, rest, pack, &x)) return false;
  const uint32_t L = n->lanes;
  const int64_t nr = n->lane_reduced ? lanes : (int64_t)n->nv * L, npanels = (lanes + nr - 1) / nr, inner = x.inner;
  sz off = sym_add(c, sym_muli(c, x.off, npanels), n->panel ? sym_of_atom(c, n->panel) : sym_int(c, 0));
  int64_t total, k, elems, size = et_bytes(t->type);
  /* no element may be packed more than once */
  if (x.digit &&
      (!nd_count(&t->data, &elems) || !mul64(x.sel, inner, &total) || !mul64(total, lanes, &total) || total > elems))
    return false;
  if (!mul64(x.sel * npanels * inner * lanes_of->n, nr, &total) || !mul64(total, size, &k)) return false;
  if (lanes_of->n > 1) add_dim(pack, false, lanes_of->n, lanes_of->step), pack->interleaved = lanes_of->n;
  const few_bits few =
      lanes_of->n == 1 && !x.digit && inner > 1 ? bit_pack_of(iv, n, stage, load, nr, x.uses) : (few_bits){0};
  if (few.bits) size = 1, pack->bits = few.bits < 8 ? few.bits : 0, pack->low = pack->bits ? few.low : 0;
  pack->size = size, pack->lane_step = lane_stride, pack->lanes = lanes, pack->nr = nr, pack->panels = npanels,
  pack->depth = inner * lanes_of->n;
  const contents from = pack_contents(iv->m, ln->tensor, pack);
  if (!x.digit && !pack->group && lanes_of->all && whole_panels(iv, n, stage, lanes, nr, lanes_of->n, L) &&
      fixed_point_pays(iv, load, exn(iv->m, xs(iv->m, n->stages.v[stage])->value), x.uses / lanes_of->n))
    pack->fixed_point = L;
  const etype type = few.bits == 8 ? bit_pack_carrier(few) : few.bits || pack->fixed_point ? ET_I32 : t->type;
  size = et_bytes(type);
  const int64_t all = packing_row(pack),
                row = pack->fixed_point ? fixed_point_row(all, L) : all / bit_pack_points(few.bits),
                item = packing_item(pack) / size;
  sz next = sym_muli(c, sym_addi(c, off, 1), item), steps = sym_muli(c, off, item);
  off = sym_add(c, sym_addi(c, steps, item - inner * row), sym_muli(c, x.step, row));
  total = packing_bytes(pack) / size;
  buffer b = {.kind = BUF_WEIGHTS,
              .type = type,
              .name = arena_fmt(iv->p->l->a, "%s.packed", t->name),
              .elems = sym_int(c, total),
              .tensor = ln->tensor,
              .from = from};
  vec_push(iv->p->l->a, iv->p->buffers, b);
  *out = (packload){.load = load,
                    .stage = stage,
                    .constant = true,
                    .buffer = iv->p->buffers.n - 1,
                    .off = off,
                    .next = next,
                    .step = x.step,
                    .depth = inner,
                    .nr = row,
                    .fixed_point = pack->fixed_point ? (uint32_t)(all / L) : 0,
                    .steps = steps,
                    .group = (uint32_t)pack->group,
                    .few = few};
  return true;
}
