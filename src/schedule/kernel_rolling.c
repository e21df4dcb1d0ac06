/* How does a contraction run just ahead of a window over what it makes? (When: fuse_rolling.c.)
 *
 *   for blocks of rows of the window's result                          the chunks are many of them: two for each thread
 *     what the block before has computed for both moves to the front   not in a chunk's first block, nor in the
 *     first one of a tensor: there it is computed
 *     rows outside of the tensor get their constant
 *     the contraction and what follows it, for the other rows
 *     the window and what follows it, for the block
 *
 * The rows between them lie in scratch, in half of the second cache, with the axis that slides outermost.
 */
#include "schedule/halo.h"
#include "schedule/kernel_rolling.h"

static bool found(kctx *k, uint32_t reader, ex load, atom last) {
  const ex_node *n = exn(k->m, load);
  rolling *s = &k->rolling;
  if (xt(k->m, n->tensor)->kind != TK_STAGE) return false;
  uint32_t made = xt(k->m, n->tensor)->stage;
  uint64_t stored;
  if (!vec_has(&k->l.stages, made) || map_getu(k->stored, n->tensor, &stored) ||
      !expr_sliding(k->m, load, xs(k->m, reader)->value, &s->window) || kernel_canon(k, s->window.along) != last)
    return false;
  const axis *x = &xs(k->m, made)->axes[s->window.axis];
  if (x->n != 1 || vec_has(&k->outer, kernel_canon(k, x->d[0].var))) return false;
  s->stage = made + 1;
  s->rows.var = kernel_canon(k, x->d[0].var);
  s->places = kernel_extent(k, s->rows.var, 0);
  return true;
}
bool rolling_find(kctx *k, shared_block *along) {
  atom last = k->outer.n ? k->outer.v[k->outer.n - 1] : 0;
  rolling *s = &k->rolling;
  for (uint32_t i = 0; i < k->l.stages.n && last && !s->stage; i++) {
    uint32_t si = k->l.stages.v[i];
    u32vec loads = {0};
    if (!xs(k->m, si)->value || exn(k->m, xs(k->m, si)->value)->kind != EX_REDUCE) continue;
    expr_loads(k->m, xs(k->m, si)->value, k->a, &loads);
    for (uint32_t q = 0; q < loads.n && !s->stage; q++) found(k, si, loads.v[q], last);
  }
  if (!s->stage) return false;
  const stage *made = xs(k->m, s->stage - 1);
  const sliding_window *w = &s->window;
  int64_t plane = et_bytes(xt(k->m, made->tensor)->type);
  for (uint32_t i = 0; i < made->naxes; i++)
    for (uint32_t j = 0; j < made->axes[i].n; j++) {
      atom v = kernel_canon(k, made->axes[i].d[j].var);
      if (v != s->rows.var && !vec_has(&k->outer, v))
        plane = min64(plane * max64(1, min64(kernel_extent(k, v, 1), INT32_MAX)), INT32_MAX);
    }
  /* blocks are large enough that rows are moved behind the place they are moved to */
  int64_t fit = (int64_t)k->p->t->l2 / 2 / plane, least = (w->span - 1) / w->step;
  int64_t size = max64(least, (fit - w->span) / w->step + 1), blocks = (w->values + size - 1) / size;
  for (int64_t n = blocks; n < 2 * blocks; n++) /* blocks enough for two threads, if they can all be as large */
    if (n % 2 == 0 && w->values % n == 0) {
      blocks = n;
      break;
    }
  size = max64(least, (w->values + blocks - 1) / blocks);
  *along = (shared_block){.var = last, .size = min64(size, w->values)};
  s->rows.size = w->step * (along->size - 1) + w->span;
  return true;
}
sz rolling_points(kctx *k, sz points, lv *from, lv *to) {
  enum { EACH = 2 }; /* chunks of a thread */
  lbuild *b = &k->e.b;
  const ltype i64 = lt(ET_I64, 1);
  if (!k->p->threads) k->p->threads = sym_fresh(k->c, "threads", 1, MAX_RUN_THREADS);
  sz chunks = sym_min(k->c, points, sym_muli(k->c, k->p->threads, EACH));
  lv n = emit_size(&k->e, points), all = emit_size(&k->e, chunks);
  *from = lb_op(b, OP_IDIV, i64, lb_mul(b, n, lb_lo(b)), all, 0),
  *to = lb_op(b, OP_IDIV, i64, lb_mul(b, n, lb_hi(b)), all, 0);
  return chunks;
}
void rolling_begins(kctx *k, const shared_block *along) {
  k->rolling.rows.start = sym_addi(k->c, sym_muli(k->c, along->start, k->rolling.window.step), k->rolling.window.first);
}
void rolling_border(kctx *k, laxis *y) {
  const sliding_window *w = &k->rolling.window;
  y->lo = sym_int(k->c, max64(0, -w->first));
  y->hi = sym_int(k->c, max64(0, w->first + w->step * (w->values - 1) + w->span - k->rolling.places));
}
/* the whole range of each axis, with its border; the one that slides is left to the caller */
static void ranges(kctx *k, lv *from, lv *to) {
  const rolling *s = &k->rolling;
  const tensor *t = xt(k->m, xs(k->m, s->stage - 1)->tensor);
  for (uint32_t i = 0; i < s->lay->rank; i++) {
    const laxis *y = &s->lay->axes[i];
    from[i] = y->lo ? emit_size(&k->e, sym_neg(k->c, y->lo)) : lb_int(&k->e.b, 0);
    to[i] = emit_size(&k->e, y->hi ? sym_add(k->c, t->shape[i], y->hi) : t->shape[i]);
  }
}
void rolling_placed(kctx *k, const layout *l, lv ptr) {
  rolling *s = &k->rolling;
  ectx *e = &k->e;
  tid t = xs(k->m, s->stage - 1)->tensor;
  lv from[MAX_RANK], to[MAX_RANK];
  s->lay = l, s->ptr = ptr;
  if (!l->fill) return;
  layout whole = *l; /* layout of the tensor from its first row on */
  whole.base = sym_add(k->c, l->base, sym_mul(k->c, s->rows.start, l->axes[s->window.axis].d[0].stride));
  ranges(k, from, to);
  from[s->window.axis] = lb_int(&e->b, 0), to[s->window.axis] = lb_int(&e->b, s->rows.size);
  for (uint32_t i = 0; i < l->rank; i++) {
    const laxis *y = &l->axes[i];
    lv first = from[i], end = to[i];
    if (i == s->window.axis || !y->lo) continue;
    to[i] = lb_int(&e->b, 0);
    halo_slab(e, t, &whole, ptr, from, to);
    from[i] = emit_size(e, xt(k->m, t)->shape[i]), to[i] = end;
    halo_slab(e, t, &whole, ptr, from, to);
    from[i] = first;
  }
}
/* n elements from `at` on go to the front */
static void move(kctx *k, sz at, sz n) {
  ectx *e = &k->e;
  lbuild *b = &e->b;
  const rolling *s = &k->rolling;
  etype t = xt(k->m, xs(k->m, s->stage - 1)->tensor)->type;
  uint32_t L = target_lanes(k->p->t, t);
  sz whole = sym_muli(k->c, sym_div(k->c, n, sym_int(k->c, L)), L);
  lv i, from = emit_size(e, at), end = emit_size(e, n), vectors = emit_size(e, whole);
  lb_for(b, "v", lb_int(b, 0), vectors, lb_int(b, L), 0, &i);
  lb_store_ex(b, s->ptr, i, lb_load_ex(b, lt(t, L), s->ptr, lb_add(b, from, i), 0, 0, 0, 0), 0, 0, 0, 0);
  lb_end(b);
  lb_for(b, "i", vectors, end, lb_int(b, 1), 0, &i);
  lb_store(b, s->ptr, i, lb_load(b, lt(t, 1), s->ptr, lb_add(b, from, i)));
  lb_end(b);
}
void rolling_point(kctx *k, lv point, lv first, const shared_block *along) {
  rolling *s = &k->rolling;
  ectx *e = &k->e;
  lbuild *b = &e->b;
  const ltype i64 = lt(ET_I64, 1);
  const sliding_window *w = &s->window;
  const uint32_t ax = w->axis;
  sz stride = s->lay->axes[ax].d[0].stride;
  tid t = xs(k->m, s->stage - 1)->tensor;
  lv zero = lb_int(b, 0), places = lb_int(b, s->places), start = emit_size(e, s->rows.start);
  lv last = along->hi ? along->hi : lb_int(b, w->values),
     end = lb_addi(b, lb_muli(b, lb_addi(b, last, -1), w->step), w->first + w->span);
  lv on = lb_op(b, OP_AND, lt(ET_BOOL, 1), lb_cmp(b, OP_LT, first, point),
                lb_cmp(b, OP_LT, zero, emit_size(e, along->start)), 0);
  lb_if(b, on);
  move(k, sym_muli(k->c, stride, w->step * along->size), sym_muli(k->c, stride, w->span - w->step));
  lb_end(b);
  lv had = lb_op(b, OP_SEL, i64, on, lb_int(b, w->span - w->step + EK_PLANTED("schedule-rolling")), zero);
  s->rows.lo = lb_op(b, OP_MAX, i64, lb_add(b, start, had), zero, 0);
  s->rows.hi = lb_op(b, OP_MAX, i64, lb_op(b, OP_MIN, i64, end, places, 0), s->rows.lo, 0);
  s->rows.unit = 1;
  if (!s->lay->fill) return;
  lv from[MAX_RANK], to[MAX_RANK];
  ranges(k, from, to);
  from[ax] = start, to[ax] = lb_op(b, OP_MIN, i64, end, zero, 0);
  halo_slab(e, t, s->lay, s->ptr, from, to);
  from[ax] = lb_op(b, OP_MAX, i64, start, places, 0), to[ax] = EK_PLANTED("schedule-rolling-border") ? from[ax] : end;
  halo_slab(e, t, s->lay, s->ptr, from, to);
}
