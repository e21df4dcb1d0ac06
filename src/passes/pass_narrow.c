/* Which tensors are kept in bf16, if the user allows it?
 *
 * Products with constants: where a sum over f32 products has a constant for one factor and a tensor for the other, both
 * are stored in bf16 and the products are those of their values; sums stay in f32, and so does everything else. Halves
 * what is read, and machines that multiply pairs of bf16 do twice as much an instruction (schedule/instruction.c). The
 * error is that of rounding each factor to 8 bits. Not the products of a Winograd transform, whose sums would magnify
 * that: where it beats a product of bf16 it is one of f32.
 *
 * A stage stores its own values rounded, so that whoever reads them gets rounded ones; so do the pieces of a
 * placement. What must keep its type (inputs, outputs, values of branches and recurrences) is copied. Only where
 * an even number of points of the sum lie side by side.
 */
#include "fusion/fusion.h"
#include "passes/pass_const.h"
#include <string.h>

enum { DEPTH = 8 /* placements in placements */ };
typedef struct narrower {
  pw *p;       /* the run of passes */
  emodule *m;  /* the module */
  map *to;     /* f32 tensor -> the bf16 one that is kept instead; constant -> beside it */
  map *stages; /* that store rounded values */
  map *copies; /* tensor << 32 | block -> the copy there */
} narrower;
static tid kept(const narrower *w, tid t) {
  uint64_t r;
  return map_getu(w->to, t, &r) ? (tid)r : 0;
}

/* ---- which sums ------------------------------------------------------------------------------ */
/* Is an axis of x, one from `first` on, gone through by a variable of the sum with an even number of places? */
static bool even_sum(pw *p, ex x, const roles *r, uint32_t first) {
  const ex_node *l = exn(p->m, x);
  for (uint32_t i = first; i < l->nargs; i++)
    for (uint32_t k = 0; k < r->red_both.n; k++) {
      atom v;
      if (sym_is_atom(p->c, l->args[i], &v) && v == r->red_both.v[k] &&
          sym_int_or(p->c, sym_extent(p->c, v), 1) % 2 == 0)
        return true;
    }
  return false;
}
static bool match(pw *p, uint32_t s, ex *x, ex *w, bool *inner) { /* inner: along x's last axis */
  emodule *m = p->m;
  roles r;
  if (!stage_is_reduce(p, s) || xs(m, s)->recurrence || map_getu(p->exact, s, &(uint64_t){0}) ||
      !expr_roles(m, s, p->a, &r))
    return false;
  const ex_node *red = exn(m, r.red);
  if ((r.cls != KC_CONTRACTION && r.cls != KC_MATVEC) || !r.two || !r.b_const || red->op != RED_SUM || red->where ||
      red->type != ET_F32 || red->acc != ET_F32 || r.a.n != 1 || r.b.n != 1)
    return false;
  if (whole_sum(p, r.red)) return false; /* a sum of whole numbers is exact as it is */
  *x = r.a.v[0], *w = r.b.v[0];
  const ex_node *lx = exn(m, *x), *lw = exn(m, *w);
  *inner = lx->kind == EX_LOAD && lx->nargs && even_sum(p, *x, &r, lx->nargs - 1);
  return lx->kind == EX_LOAD && lw->kind == EX_LOAD && lx->type == ET_F32 && lw->type == ET_F32 && !lw->otherwise &&
         xt(m, lw->tensor)->kind == TK_CONST && (!lx->otherwise || exn(m, lx->otherwise)->kind == EX_CONST) &&
         even_sum(p, *x, &r, 0);
}

/* ---- tensors --------------------------------------------------------------------------------- */
typedef struct rounding {
  const float *from; /* floats */
  uint16_t *to;      /* gets them as bf16 */
  size_t n;          /* number of floats */
} rounding;
enum { STRETCH = 1 << 16 };
static void round_stretch(ctx *c, void *arg, uint32_t i) { /* rounds to nearest, ties to even; NaN stays NaN */
  const rounding *r = arg;
  (void)c;
  for (size_t k = (size_t)i * STRETCH, end = k + STRETCH < r->n ? k + STRETCH : r->n; k < end; k++) {
    uint32_t u;
    memcpy(&u, r->from + k, 4); /* mapped constants may be misaligned */
    r->to[k] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
}
static tid narrow_constant(narrower *w, tid t) {
  tid r = kept(w, t);
  if (r) return r;
  ndarray d = *expr_data(w->m, t);
  int64_t n;
  if (!nd_count(&d, &n)) return 0;
  rounding k = {(const float *)(const void *)d.data, arena_array(w->m->a, (size_t)n, 2), (size_t)n};
  par_for(w->p->c, ctx_cpus(w->p->c), (uint32_t)((k.n + STRETCH - 1) / STRETCH), round_stretch, &k);
  d.type = ET_BF16, d.data = (uint8_t *)k.to, d.bytes = (size_t)n * 2;
  r = expr_const_tensor(w->m, &d, xt(w->m, t)->name);
  map_putu(w->to, t, r);
  return r;
}
/* May the stage that makes t store it in bf16? A placement if all its pieces may. */
static bool can_round(narrower *w, tid t, uint32_t depth) {
  emodule *m = w->m;
  uint32_t q = producer_of(m, t);
  if (!q-- || xt(m, t)->type != ET_F32 || xt(m, t)->output || w->p->pinned.v[t] || xs(m, q)->recurrence || !depth)
    return false;
  const stage *s = xs(m, q);
  if (!s->updates.n) return s->value && (exn(m, s->value)->kind != EX_REDUCE || !red_is_arg((rop)exn(m, s->value)->op));
  if (s->value || !is_placement(w->p, q)) return false;
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const ex_node *l = exn(m, s->updates.v[i].value);
    if (l->kind != EX_LOAD || l->otherwise || (!kept(w, l->tensor) && !can_round(w, l->tensor, depth - 1)))
      return false;
  }
  return true;
}
static void round_stage(narrower *w, tid t) {
  emodule *m = w->m;
  tensor x = *xt(m, t);
  uint32_t s = x.stage;
  if (kept(w, t)) return;
  tid r = expr_tensor(m, TK_STAGE, ET_BF16, x.shape, x.rank, x.name, x.origin);
  map_putu(w->to, t, r);
  map_putu(w->stages, s, 1);
  xt(m, r)->stage = s;
  xs(m, s)->tensor = r;
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) round_stage(w, exn(m, xs(m, s)->updates.v[i].value)->tensor);
}
/* A copy beside t, in the block of its reader, in front of it. */
static tid round_copy(narrower *w, uint32_t reader, tid t) {
  emodule *m = w->m;
  tensor x = *xt(m, t);
  uint32_t blk = xs(m, reader)->block;
  uint64_t key = (uint64_t)t << 32 | blk, had;
  if (map_getu(w->copies, key, &had)) return (tid)had;
  axis *ax = NEWN(m->a, axis, x.rank + 1);
  sz *idx = NEWN(w->p->a, sz, x.rank + 1);
  for (uint32_t i = 0; i < x.rank; i++) ax[i] = expr_axis1(m, "i", x.shape[i], &idx[i]);
  tid r = expr_tensor(m, TK_STAGE, ET_BF16, x.shape, x.rank, arena_fmt(m->a, "%s.bf16", x.name), x.origin);
  uint32_t s = expr_stage(m, blk, r, ax, x.rank, expr_cast(m, ET_BF16, expr_load(m, t, idx, x.rank, 0)));
  m->blocks.v[blk].items.n--; /* appended by expr_stage; it stands in front of the reader instead */
  vec_push(w->p->keep, w->p->pend, ((pending){reader, s}));
  map_putu(w->copies, key, r);
  return r;
}

/* ---- values ---------------------------------------------------------------------------------- */
static ex read_as(emodule *m, ex e, tid t) {
  ex_node n = *exn(m, e);
  ex other = !n.otherwise || EK_PLANTED("narrow")    ? 0
             : exn(m, n.otherwise)->kind == EX_CONST ? expr_const(m, ET_BF16, exn(m, n.otherwise)->k)
                                                     /* rounded as what it stands beside */
                                                     : expr_cast(m, ET_BF16, n.otherwise);
  return expr_cast(m, ET_F32, expr_load(m, t, n.args, n.nargs, other));
}
static ex read_kept(void *env, emodule *m, ex e) { /* Reads of tensors that are kept in bf16 only. */
  narrower *w = env;
  const ex_node *n = exn(m, e);
  tid t = n->kind == EX_LOAD ? kept(w, n->tensor) : 0;
  return t && xt(m, t)->kind == TK_STAGE ? read_as(m, e, t) : e;
}
typedef struct product {
  uint32_t s; /* stage of the product */
  ex x;       /* load of the factor that is no constant */
  ex w;       /* load of the constant */
  tid copy;   /* copy of x's tensor in bf16; 0: the tensor itself is kept so */
} product;
typedef struct factors {
  narrower *w;      /* the pass */
  const product *q; /* the product */
} factors;
static ex read_factor(void *env, emodule *m, ex e) {
  const factors *f = env;
  if (e == f->q->w) return read_as(m, e, narrow_constant(f->w, exn(m, e)->tensor));
  if (e == f->q->x && f->q->copy) return read_as(m, e, f->q->copy);
  return e;
}
static ex uncast(const emodule *m, ex e) { /* f32(x) of a bf16 value x becomes x */
  const ex_node *n = exn(m, e);
  return n->kind == EX_OP && n->op == OP_CAST && exn(m, n->args[0])->type == ET_BF16 ? n->args[0] : 0;
}
static void store_narrow(emodule *m, uint32_t s) {
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++)
    xs(m, s)->updates.v[i].value = uncast(m, xs(m, s)->updates.v[i].value);
  ex v = xs(m, s)->value;
  if (!v) return;
  ex_node n = *exn(m, v);
  ex r = n.kind == EX_REDUCE ? expr_reduce(m, n.op, n.args, n.nargs, n.where, n.body, n.payload, n.acc, ET_BF16)
                             : uncast(m, v);
  xs(m, s)->value = r ? r : expr_cast(m, ET_BF16, v);
}

bool pass_narrow(pw *p) {
  emodule *m = p->m;
  narrower w = {p, m, map_new(p->a), map_new(p->a), map_new(p->a)};
  VEC(product) all = {0};
  u32vec order = {0};
  if (!p->narrow) return false;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    product q = {.s = order.v[i]};
    bool inner;
    if (!match(p, q.s, &q.x, &q.w, &inner)) continue;
    tid t = exn(m, q.x)->tensor;
    bool round = !kept(&w, t) && can_round(&w, t, DEPTH);
    if ((!kept(&w, t) && !round && !inner) || !pass_spend(p)) continue; /* a copy lies as what it is of */
    if (round) round_stage(&w, t);
    if (!kept(&w, t)) q.copy = round_copy(&w, q.s, t);
    vec_push(p->a, all, q);
  }
  for (uint32_t i = 0; i < all.n; i++) {
    ex v = expr_rewrite(m, xs(m, all.v[i].s)->value, &(ex_map){.node = read_factor, .env = &(factors){&w, &all.v[i]}});
    xs(m, all.v[i].s)->value = v;
  }
  for (uint32_t i = 0; i < order.n; i++) {
    stage_rewrite(m, order.v[i], &(ex_map){.node = read_kept, .env = &w});
    if (map_getu(w.stages, order.v[i], &(uint64_t){0})) store_narrow(m, order.v[i]);
  }
  pass_flush(p);
  pass_index(p);
  return all.n > 0;
}
