/* Where does every tensor lie?
 *
 * Inputs and outputs are row-major, by contract. Of the others, in execution order: the axis whose variable runs
 * over the lanes of the stage that computes the tensor is innermost (so a contraction's columns: channels last);
 * the other axes keep the order in which the stage's largest operand has them, but what readers sum over is
 * innermost. A tensor that is only a piece of another one (a placement without a kernel) gets its place inside
 * that one's buffer.
 * Guarded reads with a constant outside value of a tensor in the arena become a halo of that constant when it is
 * narrow: then the reads need no guard. An input read so several times at each place is copied into such a
 * buffer first, whose order is the one that the readers' lanes want (windows.c).
 */
#include "schedule/kernel.h"
#include "schedule/layout.h"
#include "schedule/tile.h"
#include <stdlib.h>
#include <string.h>

enum {
  MAX_PAD_LINES = 8,
  MAX_HALO = 8,
  HALO_GROWTH = 2,
  /* most places of a halo where a sum would need a guard at every step, or as many as make the tensor so many times as
   * large */
  SUM_GROWTH = 8
};
typedef struct hal {
  bool any;                           /* there is a halo */
  scalar fill;                        /* value of the halo */
  int64_t lo[MAX_RANK], hi[MAX_RANK]; /* per axis: elements before and after */
} hal;
typedef struct place {
  uint32_t stage;  /* stage + 1 of the placement; 0: none */
  uint32_t update; /* number of its update */
} place;
typedef struct lay {
  splan *p;        /* the plan */
  emodule *m;      /* the module */
  ctx *c;          /* context */
  arena *a;        /* memory */
  bool *mat;       /* per tensor: it has memory */
  hal *halo;       /* per tensor */
  place *in;       /* per tensor: placement that it stands in */
  uint32_t *leaps; /* per tensor: axes in which its readers go on by whole vectors, or more */
  u32vec *readers; /* per tensor: the stages whose values load it, in order; NULL: not asked for yet */
} lay;

/* So many places of an axis, `steps` of it apart, are wanted together: a set of the nearest cache shall not be asked
 * for more of them than it holds. count 0: none. */
typedef struct padding {
  uint32_t axis; /* the axis */
  int64_t steps; /* places between two that are read together */
  int64_t count; /* places that are read together; 0: none */
} padding;
/* How a tensor is padded. */
typedef struct paddings {
  int64_t size;   /* bytes of an element */
  padding far[2]; /* the places that are wanted together; of an axis in both, each counts */
} paddings;
static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b, b = r;
  }
  return a;
}
sz layout_padded_stride(splan *p, sz stride, int64_t size, int64_t steps, int64_t count) {
  const target *t = p->t;
  int64_t way = t->l1_ways ? (int64_t)(t->l1 / t->l1_ways) : 0, line = max64(1, (int64_t)t->line / size), n;
  if (!way || !t->line || !sym_is_int(p->m->c, stride, &n) || n >= INT32_MAX || n < line) return stride;
  count = min64(count, (int64_t)(t->l1 / t->line));
  for (int64_t more = 0; more < MAX_PAD_LINES; more++) {
    /* sets of the cache that the places fall on */
    int64_t sets = way / gcd((n + more * line) * size * steps, way);
    if (sets * t->l1_ways >= count)
      return sym_addi(p->m->c, stride, (EK_PLANTED("schedule-padding") ? -1 : 1) * more * line);
  }
  return stride;
}
/* The layout of axes in this order, outermost first (NULL: as they are numbered), with elements before and after each
 * (NULL: none); pad NULL: no padding. */
static layout in_order(splan *p, const sz *shape, uint32_t rank, const uint32_t *order, const sz *lo, const sz *hi,
                       const paddings *pad, sz *elems) {
  ctx *c = p->m->c;
  layout l = {.known = true, .rank = rank, .axes = NEWN(p->l->a, laxis, rank ? rank : 1), .base = sym_int(c, 0)};
  sz stride = sym_int(c, 1);
  for (uint32_t k = rank; k-- > 0;) {
    uint32_t ax = order ? order[k] : k;
    for (uint32_t i = 0; pad && i < 2; i++) {
      const padding *far = &pad->far[i];
      if (far->count && ax == far->axis) stride = layout_padded_stride(p, stride, pad->size, far->steps, far->count);
    }
    ldigit *d = NEW(p->l->a, ldigit);
    *d = (ldigit){shape[ax], stride};
    l.axes[ax] = (laxis){.n = 1, .d = d, .lo = lo ? lo[ax] : 0, .hi = hi ? hi[ax] : 0};
    sz full = shape[ax];
    if (lo && lo[ax]) {
      l.base = sym_add(c, l.base, sym_mul(c, lo[ax], stride));
      full = sym_add(c, full, lo[ax]);
    }
    if (hi && hi[ax]) full = sym_add(c, full, hi[ax]);
    stride = sym_mul(c, stride, full);
  }
  *elems = stride;
  return l;
}
layout layout_dense(splan *p, const sz *shape, uint32_t rank, const uint32_t *order, const sz *lo, const sz *hi,
                    sz *elems) {
  return in_order(p, shape, rank, order, lo, hi, NULL, elems);
}
bool layout_materialised(const splan *p, tid t) { return p->layouts[t].buffer != 0; }
bool layout_inside(const emodule *m, const stage *s) {
  return s->kernel && s->updates.n && m->kernels.v[s->kernel - 1].cls == KC_BLOCKS;
}

/* ---- which tensors need memory --------------------------------------------------------------- */
static void reads(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    tensor *t = xt(L->m, exn(L->m, loads.v[i])->tensor);
    if (t->kind != TK_STAGE) continue;
    stage *s = xs(L->m, t->stage);
    if (s->kernel == 0 || s->kernel != kernel || (s->recurrence && s->recurrence == recurrence))
      L->mat[exn(L->m, loads.v[i])->tensor] = true;
  }
}
static void each_value(lay *L, stage *s, void (*f)(lay *, ex, uint32_t, uint32_t)) {
  if (s->value) f(L, s->value, s->kernel, s->recurrence);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    update *u = &s->updates.v[i];
    f(L, u->value, s->kernel, s->recurrence);
    if (u->cond) f(L, u->cond, s->kernel, s->recurrence);
    for (uint32_t j = 0; j < u->nidx; j++)
      if (sym_uses_kind(L->c, u->idx[j], AT_DATA)) f(L, expr_index(L->m, u->idx[j]), s->kernel, s->recurrence);
  }
}
static void mark(lay *L, tid t) {
  if (t) L->mat[t] = L->p->named[t] = true;
}
static void materialise(lay *L) {
  emodule *m = L->m;
  for (uint32_t i = 0; i < m->stages.n; i++) {
    stage *s = xs(m, i);
    if (s->dead) continue;
    each_value(L, s, reads);
    if (xt(m, s->tensor)->output || (s->updates.n && !layout_inside(m, s)) || s->recurrence ||
        (s->kernel == 0 && L->p->level == 0))
      L->mat[s->tensor] = true;
  }
  for (uint32_t i = 0; i < m->outputs.n; i++) mark(L, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->lates.n; i++) mark(L, m->lates.v[i].tensor);
  for (uint32_t i = 0; i < m->checks.n; i++) mark(L, m->checks.v[i].at), mark(L, m->checks.v[i].value);
  for (uint32_t i = 0; i < m->ifs.n; i++) {
    xif *x = &m->ifs.v[i];
    mark(L, x->cond);
    for (uint32_t j = 0; j < x->n; j++) mark(L, x->results[j]), mark(L, x->then_vals[j]), mark(L, x->else_vals[j]);
  }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    xloop *x = &m->loops.v[i];
    mark(L, x->trip_tensor), mark(L, x->cond0), mark(L, x->cond);
    for (uint32_t j = 0; j < x->ncarried; j++)
      mark(L, x->init[j]), mark(L, x->inner[j]), mark(L, x->next[j]), mark(L, x->final[j]);
    for (uint32_t j = 0; j < x->ncollected; j++) mark(L, x->slice[j]), mark(L, x->collected[j]);
  }
}

/* ---- halos ----------------------------------------------------------------------------------- */
/* bound of an index over its variables: affine with constant coefficients, or else between numbers; 0: not known */
static sz extreme(lay *L, sz idx, bool high) {
  STACK_U32VEC(vs);
  sym_atoms(L->c, idx, AT_VAR, L->a, &vs);
  for (uint32_t i = 0; i < vs.n; i++) {
    sz coef, rest;
    int64_t k;
    if (!sym_linear(L->c, idx, vs.v[i], &coef, &rest) || !sym_is_int(L->c, coef, &k)) {
      int64_t lo, hi;
      sym_range(L->c, idx, &lo, &hi);
      return sym_uses_kind(L->c, idx, AT_DATA) || lo == -SYM_INF || hi == SYM_INF ? 0 : sym_int(L->c, high ? hi : lo);
    }
    idx =
        (k > 0) == high ? sym_add(L->c, rest, sym_muli(L->c, sym_addi(L->c, sym_extent(L->c, vs.v[i]), -1), k)) : rest;
  }
  return sym_uses_kind(L->c, idx, AT_DATA) ? 0 : idx;
}
static bool grows_little(const tensor *t, ctx *c, const int64_t *lo, const int64_t *hi, double most) {
  double by = 1;
  for (uint32_t j = 0; j < t->rank; j++) {
    int64_t n = sym_int_or(c, t->shape[j], 0);
    if (lo[j] <= MAX_HALO && hi[j] <= MAX_HALO) continue;
    if (n <= 0) return false;
    by *= (double)(n + lo[j] + hi[j]) / (double)n;
  }
  return by <= most;
}
static void halo_of(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  (void)kernel, (void)recurrence;
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(L->m, loads.v[i]);
    if (!n->otherwise) continue;
    tensor *t = xt(L->m, n->tensor);
    hal *h = &L->halo[n->tensor];
    const ex_node *o = exn(L->m, n->otherwise);
    if (o->kind != EX_CONST || (h->any && memcmp(&h->fill, &o->k, sizeof o->k))) continue;
    int64_t lo[MAX_RANK], hi[MAX_RANK];
    bool ok = true;
    for (uint32_t j = 0; j < n->nargs && ok; j++) {
      lo[j] = hi[j] = 0;
      if (emit_in_range(&(ectx){.c = L->c}, NULL, j, n->args[j], t->shape[j])) continue;
      sz a = extreme(L, n->args[j], false), b = extreme(L, n->args[j], true);
      int64_t x, y;
      if (!a || !b) {
        ok = false;
        break;
      }
      if (!sym_ge0(L->c, a)) {
        ok &= sym_is_int(L->c, a, &x) && -x <= INT32_MAX;
        lo[j] = ok ? -x : 0;
      }
      sz over = sym_sub(L->c, b, sym_addi(L->c, t->shape[j], -1));
      if (ok && !sym_ge0(L->c, sym_neg(L->c, over))) {
        /* (o - 1)*st + ... - (s - 1) with o = (s + ..)//st: bounded by the interval of the difference */
        int64_t l, u;
        if (sym_is_int(L->c, over, &y))
          ok = y <= INT32_MAX;
        else {
          sym_range(L->c, over, &l, &u);
          y = u;
          ok = u <= MAX_HALO;
          for (int64_t q = 0; !ok && q <= MAX_HALO; q++)
            if (sym_ge0(L->c, sym_addi(L->c, sym_neg(L->c, over), q))) y = q, ok = true;
        }
        hi[j] = ok ? max64(y, 0) : 0;
      }
    }
    if (!ok || !grows_little(t, L->c, lo, hi, exn(L->m, e)->kind == EX_REDUCE ? SUM_GROWTH : HALO_GROWTH)) continue;
    h->any = true;
    h->fill = o->k;
    for (uint32_t j = 0; j < n->nargs; j++) h->lo[j] = max64(h->lo[j], lo[j]), h->hi[j] = max64(h->hi[j], hi[j]);
  }
}

static void note_reads(lay *L, ex e, uint32_t kernel, uint32_t recurrence) {
  (void)kernel, (void)recurrence;
  u32vec loads = {0};
  expr_loads(L->m, e, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    vec_push(L->a, L->p->readers[exn(L->m, loads.v[i])->tensor],
             ((reading){loads.v[i], exn(L->m, e)->kind == EX_REDUCE ? e : 0}));
}

/* ---- rows and pieces that lie apart ----
 * What lies a multiple of a way of the nearest cache apart falls on the same of its sets: of a tile's rows only as many
 * stay as it has ways, and what streams through pushes them out. So do the pieces that are written together, or read at
 * one place. Where a product's rows or a placement's pieces would lie so, lines are left free between them. What counts
 * rows and places inside of them by one variable would then see a leap, so that both must have variables of their own
 * wherever the tensor is read or written. */
static bool uses(lay *L, const ex_node *load, atom v) {
  for (uint32_t i = 0; i < load->nargs; i++)
    if (sym_uses(L->c, load->args[i], v)) return true;
  return false;
}
/* A variable of the results counts that axis, and another factor does not have it: in steps of so many; 0: none
 * does. */
static int64_t row_steps(lay *L, const reading *r, uint32_t axis) {
  STACK_U32VEC(vs);
  u32vec loads = {0};
  if (!r->sum) return 0;
  const ex_node *red = exn(L->m, r->sum);
  sym_atoms(L->c, exn(L->m, r->load)->args[axis], AT_VAR, L->a, &vs);
  expr_loads(L->m, r->sum, L->a, &loads);
  for (uint32_t k = 0; k < vs.n; k++) {
    bool own = true;
    for (uint32_t i = 0; i < red->nargs; i++) own &= red->args[i] != vs.v[k];
    sz coef;
    int64_t by = 1;
    if (own && (!sym_linear(L->c, exn(L->m, r->load)->args[axis], vs.v[k], &coef, NULL) ||
                !sym_is_int(L->c, coef, &by) || by < 1 || by > INT16_MAX))
      by = 1;
    for (uint32_t i = 0; i < loads.n && own; i++)
      if (!uses(L, exn(L->m, loads.v[i]), vs.v[k])) return by;
  }
  return 0;
}
/* axes order[0..at], and those behind */
static bool share_variables(lay *L, const sz *idx, const uint32_t *order, uint32_t n, uint32_t at) {
  for (uint32_t i = 0; i <= at; i++) {
    STACK_U32VEC(vs);
    sym_atoms(L->c, idx[order[i]], AT_VAR, L->a, &vs);
    for (uint32_t k = 0; k < vs.n; k++)
      for (uint32_t j = at + 1; j < n; j++)
        if (sym_uses(L->c, idx[order[j]], vs.v[k])) return true;
  }
  return false;
}
/* May the steps of axis order[at] be made longer? */
static bool may_grow(lay *L, tid t, const uint32_t *order, uint32_t at) {
  const tensor *x = xt(L->m, t);
  const stage *s = xs(L->m, x->stage);
  if (at + 1 == x->rank) return false;
  for (uint32_t i = 0; i < L->p->readers[t].n; i++)
    if (share_variables(L, exn(L->m, L->p->readers[t].v[i].load)->args, order, x->rank, at)) return false;
  for (uint32_t i = 0; i < s->updates.n; i++)
    if (share_variables(L, s->updates.v[i].idx, order, x->rank, at)) return false;
  return true;
}
/* The innermost axis that counts rows. */
static padding row_padding(lay *L, tid t, const uint32_t *order) {
  padding far = {.count = L->p->t->l1_ways + 1};
  uint32_t at = xt(L->m, t)->rank;
  while (!far.steps && at-- > 0)
    for (uint32_t i = 0; i < L->p->readers[t].n; i++)
      far.steps = max64(far.steps, row_steps(L, &L->p->readers[t].v[i], order[at]));
  if (!far.steps || !may_grow(L, t, order, at)) return (padding){0};
  far.axis = order[at];
  return far;
}
/* Axes of which nothing but constants is asked, by all that is put there or by one reader: places of that are wanted
 * together. The innermost of them, where these are the outer ones. */
static void find_constants(lay *L, const sz *idx, uint32_t n, uint32_t *axes) {
  for (uint32_t i = 0; i < n; i++)
    if (!sym_is_int(L->c, idx[i], NULL)) *axes &= ~(1u << i);
}
static padding piece_padding(lay *L, tid t, const uint32_t *order) {
  const tensor *x = xt(L->m, t);
  const stage *s = xs(L->m, x->stage);
  const uint32_t all = (1u << x->rank) - 1;
  uint32_t axes = s->tiled && s->updates.n ? all : 0, at = 0;
  padding far = {.steps = 1, .count = 1};
  for (uint32_t i = 0; i < s->updates.n; i++) find_constants(L, s->updates.v[i].idx, x->rank, &axes);
  for (uint32_t i = 0; i < L->p->readers[t].n && !axes; i++) {
    axes = all;
    find_constants(L, exn(L->m, L->p->readers[t].v[i].load)->args, x->rank, &axes);
  }
  while (at < x->rank && axes >> order[at] & 1 &&
         mul64(far.count, sym_int_or(L->c, x->shape[order[at]], 1), &far.count))
    far.axis = order[at++];
  return at && far.count > 1 && may_grow(L, t, order, at - 1) ? far : (padding){0};
}

/* ---- order of the axes ----------------------------------------------------------------------- */
static void to_end(uint32_t *order, uint32_t rank, uint32_t axis) {
  uint32_t at = 0;
  while (order[at] != axis) at++;
  for (; at + 1 < rank; at++) order[at] = order[at + 1];
  order[rank - 1] = axis;
}
/* whatever of the index' variables goes on, it goes on by a vector or more, or anywhere */
static bool leaps(ctx *c, sz index) {
  enum { LEAP = 8 };
  if (sym_uses_kind(c, index, AT_DATA)) return true; /* the place is found by data */
  STACK_U32VEC(vs);
  int64_t least = INT64_MAX, k;
  sz coef, rest;
  sym_atoms(c, index, AT_VAR, ctx_arena(c), &vs);
  for (uint32_t v = 0; v < vs.n; v++)
    least = min64(least, sym_linear(c, index, vs.v[v], &coef, &rest) && sym_is_int(c, coef, &k) ? llabs(k) : 1);
  return vs.n && least >= LEAP;
}
/* Axes of tensors in which their readers go on by whole vectors or more; also those in which a reader goes on in
 * steps of one, but stores what the next one will read so. */
static void leaps_of(lay *L, uint32_t si) {
  emodule *m = L->m;
  const stage *s = xs(m, si);
  u32vec loads = {0};
  place in = L->in[s->tensor];
  const update *u =
      in.stage && in.update < xs(m, in.stage - 1)->updates.n ? &xs(m, in.stage - 1)->updates.v[in.update] : NULL;
  if (!s->value || exn(m, s->value)->kind == EX_REDUCE) return;
  expr_loads(m, s->value, L->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(m, loads.v[i]);
    for (uint32_t j = 0; j < n->nargs; j++) {
      atom v;
      if (!sym_is_atom(L->c, n->args[j], &v) || sym_kind(L->c, v) != AT_VAR) {
        if (leaps(L->c, n->args[j])) L->leaps[n->tensor] |= 1u << j;
        continue;
      }
      for (uint32_t x = 0; u && x < s->naxes; x++)
        for (uint32_t z = 0; z < u->nidx && s->axes[x].n == 1 && s->axes[x].d[0].var == v; z++)
          if (u->idx[z] == exn(m, u->value)->args[x] && L->leaps[xs(m, in.stage - 1)->tensor] >> z & 1)
            L->leaps[n->tensor] |= 1u << j;
    }
  }
}
/* A placement whose readers would gather along its innermost axis gets another one: the last that they read in steps
 * of one. */
static void no_leaps(lay *L, tid t, uint32_t *order) {
  const tensor *x = xt(L->m, t);
  uint32_t n = x->rank;
  kernel_class k =
      x->kind == TK_STAGE && xs(L->m, x->stage)->kernel ? L->m->kernels.v[xs(L->m, x->stage)->kernel - 1].cls : 0;
  if (x->kind != TK_STAGE || !(xs(L->m, x->stage)->tiled || k == KC_ELEMENTWISE || k == KC_GATHER) || !n ||
      !(L->leaps[t] >> order[n - 1] & 1))
    return;
  for (uint32_t ax = n; ax-- > 0;)
    if (!(L->leaps[t] >> ax & 1) && sym_int_or(L->c, x->shape[ax], 0) > 1) {
      to_end(order, n, ax);
      return;
    }
}
/* Makes the axis that v counts the innermost one. */
static void innermost(const stage *s, atom v, uint32_t *order) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++)
      if (s->axes[i].d[j].var == v) {
        to_end(order, s->naxes, i);
        return;
      }
}
static void domain_of(const stage *s, arena *a, u32vec *out) {
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t j = 0; j < s->axes[i].n; j++) vec_push(a, *out, s->axes[i].d[j].var);
}
/* a: for the answer's accesses, and all that is needed on the way */
static choice choose(lay *L, ectx *e, uint32_t si, const map *stored, accesses *acc, arena *a) {
  emodule *m = L->m;
  stage *s = xs(m, si);
  launch dummy = {0};
  lfunc *f = loop_func(loop_module(L->c, a), LF_KERNEL, "layout", "");
  u32vec one = {0}, dom = {0}, red = {0};
  emit_begin(e, L->p, f, &dummy, a);
  vec_push(a, one, si);
  domain_of(s, a, &dom);
  const ex_node *root = exn(m, s->value);
  if (root->kind == EX_REDUCE)
    for (uint32_t i = 0; i < root->nargs; i++) vec_push(a, red, root->args[i]);
  group_accesses(e, &one, stored, acc);
  return tile_choose(e, &one, acc, &dom, &red, &(tile_given){0});
}
/* How well its lanes run, where it lies as it will if that is known: an output does in rows. */
static double reader_score(lay *L, uint32_t si) {
  stage *s = xs(L->m, si);
  layout had = L->p->layouts[s->tensor];
  arena *a = arena_new(L->c);
  map *stored = map_new(a);
  ectx e;
  sz elems;
  accesses acc = {0};
  for (uint32_t i = 0; i < L->m->outputs.n; i++)
    if (L->m->outputs.v[i].t == s->tensor)
      map_putu(stored, s->tensor, 1),
          L->p->layouts[s->tensor] = layout_dense(L->p, xt(L->m, s->tensor)->shape, s->naxes, NULL, NULL, NULL, &elems);
  const sym_draft draft = sym_draft_begin(L->c);
  double score = choose(L, &e, si, stored, &acc, a).score;
  sym_draft_end(L->c, &draft);
  arena_free(a);
  L->p->layouts[s->tensor] = had;
  return score;
}
static u32vec readers_of(lay *L, tid t) {
  if (L->readers) return L->readers[t];
  L->readers = NEWN(L->a, u32vec, L->m->tensors.n);
  for (uint32_t r = 0; r < L->m->stages.n; r++) {
    if (xs(L->m, r)->dead || !xs(L->m, r)->value) continue;
    u32vec l = schedule_loads(L->p, r);
    for (uint32_t k = 0; k < l.n; k++) {
      u32vec *of = &L->readers[exn(L->m, l.v[k])->tensor];
      if (!of->n || of->v[of->n - 1] != r) vec_push(L->a, *of, r);
    }
  }
  return L->readers[t];
}
/* A copy of an input has the order that its readers' lanes want most; the input's own one, if they don't mind. */
static void wanted(lay *L, uint32_t si, uint32_t *order) {
  enum { COPY_GAIN = 1 }; /* score that a copy gains where it is no longer one of whole rows */
  const stage *s = xs(L->m, si);
  const uint32_t rank = s->naxes;
  layout had = L->p->layouts[s->tensor];
  double best = 0;
  uint32_t in = 0;
  if (!rank) return;
  const u32vec readers = readers_of(L, s->tensor);
  /* which axis innermost? As it stands first. One of open size may be too short for lanes. */
  for (uint32_t i = rank; i-- > 0;) {
    uint32_t o[MAX_RANK];
    double score = 0;
    sz elems;
    if (i < rank - 1 && !sym_is_int(L->c, xt(L->m, s->tensor)->shape[i], NULL)) continue;
    memcpy(o, order, rank * sizeof *o);
    to_end(o, rank, i);
    L->p->layouts[s->tensor] = layout_dense(L->p, xt(L->m, s->tensor)->shape, rank, o, NULL, NULL, &elems);
    for (uint32_t r = 0; r < readers.n; r++) score += reader_score(L, readers.v[r]);
    if (i == rank - 1 || score > best + COPY_GAIN) best = score, in = i;
  }
  L->p->layouts[s->tensor] = had;
  to_end(order, rank, in);
}
/* So has a part of one that stands in a placement. */
static void wanted_piece(lay *L, uint32_t si, uint32_t *order) {
  const place in = L->in[xs(L->m, si)->tensor];
  const stage *s = xs(L->m, si), *whole = xs(L->m, in.stage - 1);
  const update *u = in.update < whole->updates.n ? &whole->updates.v[in.update] : NULL;
  uint32_t all[MAX_RANK], o[MAX_RANK], rank = whole->naxes, n = 0;
  if (!u || !rank || L->in[whole->tensor].stage) return;
  for (uint32_t i = 0; i < rank; i++) all[i] = i;
  wanted(L, in.stage - 1, all);
  for (int last = 0; last < 2; last++)
    for (uint32_t i = 0; i < s->naxes; i++) {
      u32vec vars = {0};
      bool inner = false;
      sym_atoms(L->c, exn(L->m, u->value)->args[order[i]], AT_VAR, L->a, &vars);
      for (uint32_t v = 0; v < vars.n; v++) inner |= sym_uses(L->c, u->idx[all[rank - 1]], vars.v[v]);
      if (inner == last) o[n++] = order[i];
    }
  memcpy(order, o, n * sizeof *o);
}
/* Axes over which all readers sum lie innermost, if the innermost is one: then the others, which count rows, follow
 * one another as one. */
static void sums_last(lay *L, tid t, uint32_t rank, uint32_t *order) {
  const readings *rs = &L->p->readers[t];
  bool summed[MAX_RANK] = {0};
  for (uint32_t i = 0; i < rs->n; i++) {
    const ex_node *red = rs->v[i].sum ? exn(L->m, rs->v[i].sum) : NULL, *load = exn(L->m, rs->v[i].load);
    for (uint32_t d = 0; d < rank; d++) {
      bool one = false;
      for (uint32_t r = 0; red && r < red->nargs; r++) one |= load->args[d] == sym_of_atom(L->c, red->args[r]);
      if (i && one != summed[d]) return;
      summed[d] = one;
    }
  }
  if (!rank || !summed[order[rank - 1]]) return;
  uint32_t o[MAX_RANK], n = 0;
  for (int last = 0; last < 2; last++)
    for (uint32_t k = 0; k < rank; k++)
      if (summed[order[k]] == last) o[n++] = order[k];
  memcpy(order, o, rank * sizeof *o);
}
static void preferred(lay *L, uint32_t si, uint32_t *order) {
  emodule *m = L->m;
  stage *s = xs(m, si);
  uint32_t rank = s->naxes;
  for (uint32_t i = 0; i < rank; i++) order[i] = i;
  if (!s->value || L->p->level == 0) return;
  atom row;
  if (kernel_is_point_recurrence(L->p, si, NULL, &row)) {
    innermost(s, row, order);
    return;
  }
  const ex_node *root = exn(m, s->value);
  if (root->kind == EX_LOAD && (!root->otherwise || L->in[s->tensor].stage) && xt(m, root->tensor)->kind == TK_INPUT &&
      s->kernel) {
    const kernel *k = &m->kernels.v[s->kernel - 1];
    if (L->in[s->tensor].stage)
      wanted_piece(L, si, order);
    else if (k->cls == KC_COPY)
      wanted(L, si, order);
    /* a copy in front of a window: as it was made (windows.c) */
    if (k->cls == KC_COPY || k->stages.v[k->stages.n - 1] != si) return;
  }
  ectx e;
  accesses acc = {0};
  arena *a = arena_new(L->c);
  const sym_draft draft = sym_draft_begin(L->c); /* its addresses are of no use to kernels, which number points anew */
  choice ch = choose(L, &e, si, map_new(a), &acc, a);
  u32vec dom = {0};
  domain_of(s, a, &dom);
  /* order of the largest operand's strides */
  access *big = NULL;
  uint32_t big_rank = 0;
  for (uint32_t i = 0; i < acc.n; i++) {
    uint32_t used = 0;
    for (uint32_t d = 0; d < dom.n; d++) used += address_coef(&e, acc.v[i].address, dom.v[d]) > 0;
    if (!acc.v[i].constant && (!big || used > big_rank)) big = &acc.v[i], big_rank = used;
  }
  if (big && root->kind != EX_REDUCE) {
    int64_t st[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
      st[i] = 0;
      for (uint32_t j = 0; j < s->axes[i].n; j++) {
        int64_t k = address_coef(&e, big->address, s->axes[i].d[j].var);
        if (k > 0 && (st[i] == 0 || k < st[i])) st[i] = k;
        if (k == INT64_MIN + 1) st[i] = INT64_MAX / 2 - i; /* symbolic stride: outer */
      }
    }
    for (uint32_t i = 1; i < rank; i++)
      /* stable: an axis the operand does not have keeps its place relative to the one before */
      for (uint32_t j = i; j > 0; j--) {
        uint32_t x = order[j - 1], y = order[j];
        if (!st[x] || !st[y] || st[x] >= st[y]) break;
        order[j - 1] = y, order[j] = x;
      }
  }
  sym_draft_end(L->c, &draft);
  arena_free(a);
  if (ch.lane && !ch.lane_reduced) innermost(s, ch.lane, order);
}

static uint32_t new_buffer(lay *L, buffer b) {
  vec_push(L->p->l->a, L->p->buffers, b);
  return L->p->buffers.n - 1;
}
static void own_buffer(lay *L, tid t, const uint32_t *as, bool alone) { /* alone: no other tensor shares its memory */
  uint32_t order[MAX_RANK];
  tensor *x = xt(L->m, t);
  hal *h = &L->halo[t];
  memcpy(order, as, x->rank * sizeof *order);
  no_leaps(L, t, order);
  sz lo[MAX_RANK], hi[MAX_RANK], elems;
  bool is_out = false;
  uint32_t oi = 0;
  for (uint32_t i = 0; i < L->m->outputs.n && !is_out; i++)
    if (L->m->outputs.v[i].t == t && x->kind != TK_INPUT && x->kind != TK_CONST) is_out = true, oi = i;
  bool halo = h->any && !is_out && x->kind == TK_STAGE && L->p->level > 0;
  for (uint32_t i = 0; i < x->rank; i++) lo[i] = sym_int(L->c, h->lo[i]), hi[i] = sym_int(L->c, h->hi[i]);
  sz *shape = NEWN(L->a, sz, x->rank + 1u);
  uint32_t step = 0;
  /* a tensor of a per-point recurrence has memory for one step */
  bool walks = x->kind == TK_STAGE && kernel_is_point_recurrence(L->p, x->stage, &step, NULL);
  for (uint32_t i = 0; i < x->rank; i++) shape[i] = walks && i == step ? sym_int(L->c, 1) : x->shape[i];
  bool ours = alone && !is_out && !walks && x->kind == TK_STAGE; /* its steps may be chosen here */
  padding rows = ours && L->mat[t] ? row_padding(L, t, order) : (padding){0},
          pieces = ours ? piece_padding(L, t, order) : (padding){0};
  L->p->layouts[t] = in_order(L->p, shape, x->rank, is_out ? NULL : order, halo ? lo : NULL, halo ? hi : NULL,
                              &(paddings){et_bytes(x->type), {rows, pieces}}, &elems);
  L->p->layouts[t].together = pieces.count, L->p->layouts[t].pieces = pieces.axis;
  if (halo) L->p->layouts[t].fill = arena_dup(L->a, &h->fill, sizeof h->fill);
  if (walks) {
    ldigit *d = NEW(L->a, ldigit);
    *d = (ldigit){x->shape[step], sym_int(L->c, 0)};
    L->p->layouts[t].axes[step] = (laxis){.n = 1, .d = d};
  }
  if (!L->mat[t]) return;
  uint32_t block = x->kind == TK_STAGE ? xs(L->m, x->stage)->block : 0;
  L->p->layouts[t].buffer = new_buffer(L, (buffer){.kind = is_out ? BUF_OUTPUT : BUF_ARENA,
                                                   .type = x->type,
                                                   .name = x->name,
                                                   .elems = elems,
                                                   .index = oi,
                                                   .tensor = t,
                                                   .block = block,
                                                   .halo = halo,
                                                   .fill = h->fill});
}
bool layout_piece(splan *p, const sz *idx, ex value, const layout *whole, layout *out) {
  emodule *m = p->m;
  ctx *c = m->c;
  arena *a = p->l->a;
  const ex_node *n = exn(m, value);
  if (n->kind != EX_LOAD || n->otherwise) return false;
  ectx e;
  memset(&e, 0, sizeof e);
  e.c = c, e.m = m, e.a = a;
  sz at = emit_address(&e, whole, idx);
  tensor *pt = xt(m, n->tensor);
  *out = (layout){
      .known = true, .buffer = whole->buffer, .rank = n->nargs, .axes = NEWN(a, laxis, n->nargs ? n->nargs : 1)};
  for (uint32_t i = 0; i < n->nargs; i++) {
    sz rem = n->args[i];
    ldigit ds[MAX_RANK];
    uint32_t nd = 0;
    int64_t k;
    if (!sym_is_int(c, rem, &k)) {
      /* the index is a number of digits: one variable each, strides nest */
      u32vec vs = {0};
      sym_atoms(c, rem, AT_VAR, a, &vs);
      sz inner = sym_int(c, 1);
      while (vs.n) {
        uint32_t hit = vs.n;
        for (uint32_t q = 0; q < vs.n; q++) {
          sz coef, rest;
          if (sym_linear(c, rem, vs.v[q], &coef, &rest) && sym_eq(c, coef, inner)) hit = q;
        }
        if (hit == vs.n || nd == MAX_RANK) return false;
        sz coef, rest, st, r2;
        sym_linear(c, rem, vs.v[hit], &coef, &rest);
        rem = rest;
        if (!sym_linear(c, at, vs.v[hit], &st, &r2)) return false;
        at = r2;
        ds[nd++] = (ldigit){sym_extent(c, vs.v[hit]), st};
        inner = sym_mul(c, inner, sym_extent(c, vs.v[hit]));
        vs.v[hit] = vs.v[--vs.n];
      }
      if (!sym_is_int(c, rem, &k) || k != 0 || !sym_eq(c, inner, pt->shape[i])) return false;
    } else if (k != 0 || !sym_is_int(c, pt->shape[i], &k) || k != 1)
      return false;
    if (!nd) ds[nd++] = (ldigit){pt->shape[i], sym_int(c, 0)};
    ldigit *d = NEWN(a, ldigit, nd);
    for (uint32_t q = 0; q < nd; q++) d[q] = ds[nd - 1 - q]; /* outer to inner */
    out->axes[i] = (laxis){.n = nd, .d = d};
  }
  if (sym_uses_kind(c, sym_sub(c, at, whole->base), AT_VAR)) return false;
  out->base = EK_PLANTED("schedule-layout") ? whole->base : at;
  return true;
}
static const sz *placement_index(lay *L, stage *s, uint32_t u, uint32_t *n, ex *value) {
  if (u < s->updates.n) {
    *n = s->updates.v[u].nidx;
    *value = s->updates.v[u].value;
    return s->updates.v[u].idx;
  }
  sz *idx = NEWN(L->a, sz, s->naxes ? s->naxes : 1);
  for (uint32_t i = 0; i < s->naxes; i++) idx[i] = expr_axis_index(L->m, &s->axes[i]);
  *n = s->naxes;
  *value = s->value;
  return idx;
}
/* order: of its axes, outer to inner; NULL: it lies inside a placement that has its place already */
static void place_tensor(lay *L, tid t, const uint32_t *order) {
  if (L->p->layouts[t].known) return;
  place in = L->in[t];
  if (!in.stage) {
    own_buffer(L, t, order, true);
    return;
  }
  stage *v = xs(L->m, in.stage - 1);
  uint32_t n, vo[MAX_RANK], k = 0;
  ex value;
  const sz *idx = placement_index(L, v, in.update, &n, &value);
  const ex_node *ld = exn(L->m, value);
  bool used[MAX_RANK] = {0};
  /* the whole's axes in the order the piece wants */
  uint32_t want[MAX_RANK], nw = 0;
  for (uint32_t q = 0; order && q < ld->nargs; q++) {
    u32vec vs = {0};
    sym_atoms(L->c, ld->args[order[q]], AT_VAR, L->a, &vs);
    for (uint32_t ax = 0; ax < n; ax++)
      for (uint32_t z = 0; z < vs.n; z++)
        if (!used[ax] && sym_uses(L->c, idx[ax], vs.v[z])) used[ax] = true, want[nw++] = ax;
  }
  for (uint32_t ax = 0; ax < n; ax++)
    if (!used[ax]) vo[k++] = ax;
  for (uint32_t q = 0; q < nw; q++) vo[k++] = want[q];
  L->mat[v->tensor] = !layout_inside(L->m, v);
  place_tensor(L, v->tensor, vo);
  layout l;
  if (!layout_piece(L->p, idx, value, &L->p->layouts[v->tensor], &l))
    ctx_bug(L->c, "schedule: tensor %s cannot be stored inside %s", xt(L->m, t)->name, xt(L->m, v->tensor)->name);
  L->p->layouts[t] = l;
}

/* Results of control flow have buffers of the enclosing block; what the blocks compute for them is stored there
 * directly. A loop's inner and final values are one buffer (the body's last stages overwrite it), a collected
 * tensor is the buffer into which each trip stores its slice. */
static void own_in(lay *L, tid t, uint32_t block) {
  uint32_t order[MAX_RANK];
  for (uint32_t i = 0; i < MAX_RANK; i++) order[i] = i;
  own_buffer(L, t, order, false);
  if (L->p->layouts[t].buffer) L->p->buffers.v[L->p->layouts[t].buffer].block = block;
}
/* Tensors that share memory, one after the other: where their sizes differ (a late size takes other values), each
 * lies densely in the same buffer. */
static void share(lay *L, tid t, tid as) {
  const tensor *x = xt(L->m, t), *y = xt(L->m, as);
  bool same = true;
  sz elems;
  for (uint32_t i = 0; i < x->rank; i++) same &= x->shape[i] == y->shape[i];
  layout l = L->p->layouts[as];
  if (!same) {
    uint32_t buffer = l.buffer;
    l = layout_dense(L->p, x->shape, x->rank, NULL, NULL, NULL, &elems);
    l.buffer = buffer;
  }
  L->p->layouts[t] = l;
}
static void control_flow(lay *L) {
  emodule *m = L->m;
  splan *p = L->p;
  for (uint32_t i = 0; i < m->ifs.n; i++)
    for (uint32_t j = 0; j < m->ifs.v[i].n; j++) {
      xif *x = &m->ifs.v[i];
      own_in(L, x->results[j], x->block);
      share(L, x->then_vals[j], x->results[j]), share(L, x->else_vals[j], x->results[j]);
    }
  for (uint32_t i = 0; i < m->loops.n; i++) {
    xloop *x = &m->loops.v[i];
    for (uint32_t j = 0; j < x->ncarried; j++) {
      own_in(L, x->inner[j], x->block);
      share(L, x->init[j], x->inner[j]), share(L, x->next[j], x->inner[j]);
      if (x->final[j]) share(L, x->final[j], x->inner[j]);
    }
    for (uint32_t j = 0; j < x->ncollected; j++) {
      own_in(L, x->collected[j], x->block);
      layout l = p->layouts[x->collected[j]];
      if (!EK_PLANTED("schedule-collect"))
        l.base = sym_add(L->c, l.base, sym_mul(L->c, l.axes[0].d[0].stride, sym_of_atom(L->c, x->counter)));
      l.axes++;
      l.rank--;
      p->layouts[x->slice[j]] = l;
    }
  }
}

void layout_all(splan *p) {
  emodule *m = p->m;
  lay L = {.p = p, .m = m, .c = m->c, .a = p->l->a};
  uint32_t nt = m->tensors.n;
  L.mat = NEWN(L.a, bool, nt);
  L.halo = NEWN(L.a, hal, nt);
  L.in = NEWN(L.a, place, nt);
  L.leaps = NEWN(L.a, uint32_t, nt);
  p->readers = NEWN(L.a, readings, nt);
  p->named = NEWN(L.a, bool, nt);
  p->layouts = NEWN(L.a, layout, nt);
  materialise(&L);
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (!xs(m, i)->dead && (xs(m, i)->kernel || p->level == 0)) each_value(&L, xs(m, i), halo_of);
  for (uint32_t i = 0; i < m->stages.n && p->level > 0; i++)
    if (!xs(m, i)->dead) each_value(&L, xs(m, i), note_reads);
  for (uint32_t t = 1; t < nt; t++) {
    tensor *x = xt(m, t);
    sz elems;
    if (x->kind != TK_INPUT && x->kind != TK_CONST) continue;
    ctx_about(L.c, x->name);
    p->layouts[t] = layout_dense(p, x->shape, x->rank, NULL, NULL, NULL, &elems);
    buffer b = {.kind = x->kind == TK_INPUT ? BUF_INPUT : BUF_WEIGHTS,
                .type = x->type,
                .name = x->name,
                .elems = elems,
                .tensor = t};
    if (x->kind == TK_CONST) b.from = contents_of(x);
    if (x->kind == TK_INPUT) {
      uint32_t i = 0;
      while (i < m->inputs.n && m->inputs.v[i].t != t) i++;
      if (i == m->inputs.n)
        ctx_fail(m->c, E_MODEL, "%s is neither an input nor a constant: nothing gives it a value", x->name);
      b.index = i;
    }
    p->layouts[t].buffer = new_buffer(&L, b);
  }
  control_flow(&L);
  if (p->level > 0)
    for (uint32_t i = 0; i < m->stages.n; i++) { /* pieces of placements that have no kernel */
      stage *s = xs(m, i);
      if (s->dead || (s->kernel && !layout_inside(m, s))) continue;
      for (uint32_t u = 0; u < (s->updates.n ? s->updates.n : 1); u++) {
        uint32_t n;
        ex value;
        placement_index(&L, s, u, &n, &value);
        const ex_node *ld = exn(m, value);
        if (ld->kind == EX_LOAD && xt(m, ld->tensor)->kind == TK_STAGE) L.in[ld->tensor] = (place){i + 1, u};
      }
    }
  for (uint32_t i = m->stages.n; i-- > 0 && p->level > 0;)
    if (!xs(m, i)->dead) leaps_of(&L, i);
  for (uint32_t b = 0; b < m->blocks.n; b++)
    for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
      item it = m->blocks.v[b].items.v[i];
      if (it.kind != IT_STAGE || xs(m, it.index)->dead) continue;
      tid t = xs(m, it.index)->tensor;
      if (p->layouts[t].known) continue;
      uint32_t order[MAX_RANK];
      ctx_about(L.c, xt(m, t)->name);
      const bool placed = L.in[t].stage && p->layouts[xs(m, L.in[t].stage - 1)->tensor].known;
      if (!placed) preferred(&L, it.index, order);
      if (!placed && p->level > 0) sums_last(&L, t, xt(m, t)->rank, order);
      place_tensor(&L, t, placed ? NULL : order);
    }
  ctx_about(L.c, NULL);
}
