/* How is a kernel of one group divided among the threads? Chunks are points of outer variables, blocks of rows, or
 * blocks of lanes. */
#include "schedule/halo.h"
#include "schedule/kernel_in.h"

/* Is the number of the point in u or v itself a part of the value? As quotient and rest of one variable it would
 * cost a division at each point. */
static bool counts_points(kctx *k, ex x, atom u, atom v, map *seen) {
  const ex_node *n = exn(k->m, x);
  uint64_t dummy;
  if (map_getu(seen, x, &dummy)) return false;
  map_putu(seen, x, 1);
  if (n->kind == EX_INDEX) {
    sz at = emit_resolve(&k->e, n->index);
    return address_uses(&k->e, at, u) || address_uses(&k->e, at, v);
  }
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++)
    if (counts_points(k, n->args[i], u, v, seen)) return true;
  return n->kind == EX_LOAD && n->otherwise && counts_points(k, n->otherwise, u, v, seen);
}
enum { SHORT_ROW = 32 };
/* Joins neighbouring variables of a group into one wherever all addresses allow it: u (outer), v (inner, extent e)
 * become w = u*e + v. */
static bool merge_pair(kctx *k, const u32vec *group, u32vec *domain, uint32_t at) {
  atom u = domain->v[at], v = domain->v[at + 1];
  for (uint32_t i = 0; i < group->n && sym_int_or(k->c, sym_extent(k->c, v), SHORT_ROW) >= SHORT_ROW; i++)
    if (counts_points(k, xs(k->m, group->v[i])->value, u, v, map_new(k->a))) return false;
  /* a condition that leaves places out does so for one value of its variable, as a factor is chosen */
  const ex_node *lead = exn(k->m, xs(k->m, group->v[0])->value);
  if (lead->kind == EX_REDUCE && counts_points(k, lead->body, u, v, map_new(k->a))) return false;
  if (lead->kind == EX_REDUCE && lead->where &&
      (value_uses(&k->e, lead->where, u) || value_uses(&k->e, lead->where, v)))
    return false;
  sz eu = sym_extent(k->c, u), ev = sym_extent(k->c, v), w = sym_var(k->c, "f", sym_mul(k->c, eu, ev));
  atom wa;
  if (!sym_is_atom(k->c, w, &wa)) return false;
  uint32_t nb = k->e.binds.n;
  emit_bind_ex(&k->e, (binding){.var = u, .subst = kernel_quot(k->c, w, ev)});
  emit_bind_ex(&k->e, (binding){.var = v, .subst = kernel_rem(k->c, w, ev)});
  if (!group_linear(&k->e, group, k->stored, wa)) {
    emit_unbind(&k->e, nb);
    return false;
  }
  domain->v[at] = wa;
  for (uint32_t i = at + 1; i + 1 < domain->n; i++) domain->v[i] = domain->v[i + 1];
  domain->n--;
  return true;
}
static bool strided_or_linear(kctx *k, const accesses *acc, atom w, uint32_t lanes) {
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    sz idx[MAX_RANK];
    if (a->guarded && !emit_plain(&k->e, a->load, idx)) return false;
    if (address_coef(&k->e, a->address, w) == INT64_MIN &&
        (a->store || a->constant || !lanes_strided(&k->e, a->address, w, lanes)))
      return false;
  }
  return true;
}
/* Columns that fill a part of the lanes only, in groups whose results lie side by side: as many groups as there is
 * room for share a vector, but where registers of half the width do for one. What a group reads is spread over its
 * lanes. Columns v of group u: w = v + columns * (u mod n). */
static void join_groups(kctx *k, const u32vec *group, u32vec *domain) {
  uint32_t L = nest_lanes(&k->e, group), at = domain->n - 2;
  int64_t groups, columns;
  accesses acc = {0};
  atom wa, ua;
  if (domain->n < 2 || !sym_is_int(k->c, sym_extent(k->c, domain->v[at]), &groups) ||
      !sym_is_int(k->c, sym_extent(k->c, domain->v[at + 1]), &columns) || columns < 1 || columns >= L || L % columns ||
      groups % (L / columns) || (columns * 2 == L && tile_halves(k->p->t, L)))
    return;
  sz w = sym_var(k->c, "f", sym_int(k->c, L)), u = sym_var(k->c, "g", sym_int(k->c, groups * columns / L)),
     by = sym_int(k->c, columns);
  if (!sym_is_atom(k->c, w, &wa)) return;
  uint32_t nb = k->e.binds.n;
  emit_bind_ex(&k->e, (binding){.var = domain->v[at],
                                .subst = sym_add(k->c, sym_muli(k->c, u, L / columns), kernel_quot(k->c, w, by))});
  emit_bind_ex(&k->e, (binding){.var = domain->v[at + 1], .subst = kernel_rem(k->c, w, by)});
  group_accesses(&k->e, group, k->stored, &acc);
  if (!strided_or_linear(k, &acc, wa, L)) {
    emit_unbind(&k->e, nb);
    return;
  }
  domain->v[at + 1] = wa;
  if (sym_is_atom(k->c, u, &ua))
    domain->v[at] = ua;
  else
    domain->v[at] = wa, domain->n--;
}
static void order_by_store(kctx *k, const u32vec *group, u32vec *domain) {
  accesses acc = {0};
  group_accesses(&k->e, group, k->stored, &acc);
  for (uint32_t i = 1; i < domain->n; i++)
    for (uint32_t j = i; j > 0; j--) {
      int64_t a = 0, b = 0;
      for (uint32_t q = 0; q < acc.n; q++)
        if (acc.v[q].store)
          a = address_coef(&k->e, acc.v[q].address, domain->v[j - 1]),
          b = address_coef(&k->e, acc.v[q].address, domain->v[j]);
      if (a < 0 || b < 0 || a >= b) break; /* symbolic strides keep their order */
      atom t = domain->v[j];
      domain->v[j] = domain->v[j - 1], domain->v[j - 1] = t;
    }
}

/* How many variables from the front have together at least `enough` points, as far as is known; *known: how many
 * they have for certain. */
static uint32_t points_enough(kctx *k, const nvars *vars, int64_t enough, int64_t *known) {
  uint32_t take = 0;
  while (take < vars->n && *known < enough) *known *= max64(1, emit_extent(k->c, vars->v[take++].extent, 1));
  return take;
}
sz kernel_flatten(kctx *k, nvars *vars, uint32_t take) {
  ctx *c = k->c;
  if (take == 1) return vars->v[0].extent;
  sz points = sym_int(c, 1);
  for (uint32_t i = 0; i < take; i++) points = sym_mul(c, points, vars->v[i].extent);
  sz w = sym_var(c, "chunk", points), rem = w;
  atom wa;
  if (!sym_is_atom(c, w, &wa)) ctx_bug(c, "schedule: chunk variable");
  for (uint32_t i = take; i-- > 0;) {
    emit_bind_ex(&k->e, (binding){.var = vars->v[i].var, .subst = i ? kernel_rem(c, rem, vars->v[i].extent) : rem});
    rem = kernel_quot(c, rem, EK_PLANTED("schedule-flatten") && i > 1 ? vars->v[i - 1].extent : vars->v[i].extent);
  }
  vars->v[0] = (nvar){.var = wa, .extent = points};
  for (uint32_t i = take; i < vars->n; i++) vars->v[i - take + 1] = vars->v[i];
  vars->n -= take - 1;
  return points;
}
/* the range of a variable for the blocks lo..hi-1 */
static void block_range(kctx *k, nvar *v, lv lo, lv hi, int64_t block) {
  lbuild *b = &k->e.b;
  lv end = emit_size(&k->e, v->extent);
  v->lo = lb_muli(b, lo, block + EK_PLANTED("schedule-chunks"));
  v->hi = lb_op(b, OP_MIN, lt(ET_I64, 1), lb_muli(b, hi, block), end, 0);
  v->unit = block;
}
/* Opens the loop over the points w of the chunks lo..hi-1, with the blocks of each (block 0: none) as the range of
 * the rows or lanes. */
static void chunk_loop(kctx *k, nest *n, nvar w, int64_t block, bool rows) {
  lbuild *b = &k->e.b;
  ltype i64 = lt(ET_I64, 1);
  lv lo = lb_lo(b), hi = lb_hi(b), i;
  nvar *v = rows ? nest_rows(n) : &n->lane;
  lv per = block ? emit_size(&k->e, sym_ceildiv(k->c, v->extent, sym_int(k->c, block))) : 0;
  if (per) {
    lv one = lb_int(b, 1);
    lb_for(b, "point", lb_op(b, OP_IDIV, i64, lo, per, 0),
           lb_add(b, lb_op(b, OP_IDIV, i64, lb_sub(b, hi, one), per, 0), one), one, 0, &i);
  } else
    lb_for(b, "point", lo, hi, lb_int(b, 1), 0, &i);
  emit_scope(&k->e);
  emit_bind(&k->e, w.var, i);
  if (!per) return;
  lv first = lb_mul(b, i, per);
  block_range(k, v, lb_sub(b, lb_op(b, OP_MAX, i64, lo, first, 0), first),
              lb_sub(b, lb_op(b, OP_MIN, i64, hi, lb_add(b, first, per), 0), first), block);
}
/* Opens the loop over what the chunks lo..hi-1 of blocks of lanes, and in each of these blocks of rows, are
 * together: what is left of the first lanes' rows, all rows of the lanes that follow, the first rows of the last
 * ones. */
static void grid_loop(kctx *k, nest *n, int64_t rows, int64_t lanes) {
  enum { HEAD, WHOLE, TAIL };
  lbuild *b = &k->e.b;
  const ltype i64 = lt(ET_I64, 1), truth = lt(ET_BOOL, 1);
  nvar *v = nest_rows(n);
  lv zero = lb_int(b, 0), one = lb_int(b, 1), lo = lb_lo(b), hi = lb_hi(b), piece;
  lv each = emit_size(&k->e, sym_ceildiv(k->c, v->extent, sym_int(k->c, rows)));
  lv first = lb_op(b, OP_IDIV, i64, lo, each, 0), from = lb_sub(b, lo, lb_mul(b, first, each)),
     last = lb_op(b, OP_IDIV, i64, hi, each, 0), to = lb_sub(b, hi, lb_mul(b, last, each));
  lv head = lb_cmp(b, OP_GT, from, zero), whole = lb_add(b, first, lb_op(b, OP_SEL, i64, head, one, zero));
  lv tail = lb_op(b, OP_AND, truth, lb_cmp(b, OP_GT, to, zero), lb_cmp(b, OP_GE, last, whole), 0);
  lb_for(b, "piece", lb_op(b, OP_SEL, i64, head, lb_int(b, HEAD), lb_int(b, WHOLE)),
         lb_op(b, OP_SEL, i64, tail, lb_int(b, TAIL + 1 - EK_PLANTED("schedule-grid")), lb_int(b, TAIL)), one, 0,
         &piece);
  lv is_head = lb_cmp(b, OP_EQ, piece, lb_int(b, HEAD)), is_whole = lb_cmp(b, OP_EQ, piece, lb_int(b, WHOLE));
  lv begin = lb_op(b, OP_SEL, i64, is_head, first, lb_op(b, OP_SEL, i64, is_whole, whole, last)),
     end = lb_op(b, OP_SEL, i64, is_whole, last, lb_addi(b, begin, 1));
  lv top =
      lb_op(b, OP_SEL, i64,
            lb_op(b, OP_OR, truth, is_whole, lb_op(b, OP_AND, truth, is_head, lb_cmp(b, OP_LT, first, last), 0), 0),
            each, to);
  lb_if(b, lb_cmp(b, OP_LT, begin, end));
  emit_scope(&k->e);
  block_range(k, v, lb_op(b, OP_SEL, i64, is_head, from, zero), top, rows);
  block_range(k, &n->lane, begin, end, lanes);
}

/* The halo beside the chunks' points; the chunk loop is open when they are points and blocks together. */
static void fill_halos(kctx *k, const u32vec *group, const nest *n, const u32vec *point, bool together) {
  ectx *e = &k->e;
  bool flat = point->n > 1 && !together; /* the points are not one range: they run one after the other */
  for (uint32_t g = 0; g < group->n; g++) {
    buffer *b = &k->p->buffers.v[k->p->layouts[xs(k->m, group->v[g])->tensor].buffer];
    halo_range r[MAX_RANK + 1] = {0};
    uint32_t nr = 0;
    if (!b->halo || b->filled) continue;
    for (uint32_t i = 0; i < point->n; i++) r[nr++].var = point->v[i];
    if (n->row.lo) r[nr++] = (halo_range){n->row.var, n->row.lo, n->row.hi};
    if (n->lane.lo) r[nr++] = (halo_range){n->lane.var, n->lane.lo, n->lane.hi};
    if (!halo_fits(e, group->v[g], r, nr)) continue;
    lv w;
    if (flat) {
      lb_for(&e->b, "point", lb_lo(&e->b), lb_hi(&e->b), lb_int(&e->b, 1), 0, &w);
      emit_scope(e);
      emit_bind(e, n->inner.v[0].var, w);
    }
    for (uint32_t i = 0; i < point->n; i++) {
      r[i].from = point->n == 1 && !together ? lb_lo(&e->b) : emit_size(e, sym_of_atom(k->c, point->v[i]));
      r[i].to = point->n == 1 && !together ? lb_hi(&e->b) : lb_addi(&e->b, r[i].from, 1);
    }
    halo_part(e, group->v[g], r, nr);
    b->filled = true;
    if (!flat) continue;
    emit_unscope(e);
    lb_end(&e->b);
  }
}

/* Where rows are points of two variables: the chunk with the first one fills what is around all of them, of its
 * lanes. */
static void first_fills_halos(kctx *k, const u32vec *group, const nest *n) {
  ectx *e = &k->e;
  if (!n->collapsed.lo) return;
  for (uint32_t g = 0; g < group->n; g++) {
    buffer *b = &k->p->buffers.v[k->p->layouts[xs(k->m, group->v[g])->tensor].buffer];
    halo_range r[] = {{n->lane.var, n->lane.lo, n->lane.hi}, {.var = n->row.var}, {.var = n->row2.var}};
    uint32_t q = !n->lane.lo; /* 1: the range of lanes is left out, since the chunk has them all */
    if (!b->halo || b->filled || !halo_fits(e, group->v[g], r + q, 3 - q)) continue;
    lb_if(&e->b, lb_cmp(&e->b, OP_EQ, n->collapsed.lo, lb_int(&e->b, 0)));
    halo_part(e, group->v[g], r, 1 - q);
    lb_end(&e->b);
    b->filled = true;
  }
}
/* The variable beside the rows leaves the loops for the number of its parts. */
static void row2_in_blocks(kctx *k, nest *n, int64_t size) {
  ctx *c = k->c;
  sz parts = sym_ceildiv(c, n->inner.v[0].extent, sym_int(c, size)), w = sym_var(c, "part", parts);
  n->row2 = n->inner.v[0];
  n->inner.n = 0;
  n->row2.unit = size;
  nvar part = {.extent = parts};
  if (!sym_is_atom(c, w, &part.var)) return; /* there is one part */
  n->begins = sym_muli(c, w, size);
  vec_push(k->a, n->inner, part);
}

void kernel_one(kctx *k, const u32vec *group) {
  ectx *e = &k->e;
  ctx *c = k->c;
  u32vec domain = {0}, red = {0};
  kernel_domain(k, group->v[0], &domain);
  kernel_reduced(k, group->v[0], &red);
  kernel_runs(k, &domain);
  bool reduces = exn(k->m, xs(k->m, group->v[0])->value)->kind == EX_REDUCE;
  if (k->p->level > 0) order_by_store(k, group, &domain);
  if (k->p->level > 0)
    for (uint32_t i = domain.n; i-- > 1;) merge_pair(k, group, &domain, i - 1);
  if (k->p->level > 0 && reduces && red.n) join_groups(k, group, &domain);
  accesses acc = {0};
  group_accesses(e, group, k->stored, &acc);
  choice ch = {.mr = 1, .nv = 1, .lanes = nest_lanes(e, group)};
  if (k->p->level > 0) ch = tile_choose(e, group, &acc, &domain, &red);
  /* as a part of the chunk's number it would cost a division at each point */
  if (k->p->level > 0 && !ch.lane && !ch.row && domain.n > 1 &&
      !sym_is_int(c, sym_extent(c, domain.v[domain.n - 1]), NULL))
    ch.row = domain.v[domain.n - 1];
  nest n;
  bool parts = false;
  if (ch.l2_mr) { /* with blocks, rows come from a near cache */
    choice near = ch;
    near.mr = ch.l2_mr, near.nv = ch.l2_nv;
    n = kernel_nest(k, group, &domain, near, &acc);
    if ((parts = kernel_blocking(k, &n, &acc, &near))) ch = near;
  }
  if (!parts) {
    kernel_collapse_rows(&ch);
    n = kernel_nest(k, group, &domain, ch, &acc);
    kernel_collapsed_rows(k, &n, &ch);
  }
  if (!n.collapsed.var && kernel_may_fold_rows(&n, &ch)) row2_in_blocks(k, &n, kernel_row2_block(k, &ch));
  bool lines = !parts && kernel_row_streaming(k, &n, &acc, &ch);
  /* Chunks: the shortest prefix of the remaining variables with enough points, flattened; else blocks of rows, else
   * of lanes, whichever is known to give most (a symbolic size may be 1). Where none gives enough
   * alone, points and blocks together: chunk = point * blocks + block; neighbouring blocks of one point that a
   * thread gets at once are one range. */
  const int64_t enough = k->p->t->chunks, few = enough / 2, line = 1024;
  lv lo = lb_lo(&e->b), hi = lb_hi(&e->b);
  int64_t rext = ch.row ? emit_extent(c, nest_rows(&n)->extent, 1024) : 0,
          lext = ch.lane && !ch.lane_reduced ? kernel_extent(k, ch.lane, 1 << 16) : 0;
  uint32_t L = ch.lanes;
  /* bytes of a row over all lanes */
  const int64_t line_bytes = lext * et_bytes(xt(k->m, xs(k->m, group->v[0])->tensor)->type),
                near = (int64_t)k->p->t->l1;
  if (reduces && ch.row && !ch.lane_outer && near && rext * line_bytes > near)
    n.strip_mine = max64(1, near / 4 / max64(1, line_bytes) / ch.mr) * ch.mr;
  int64_t rb = ch.row ? (rext / 12 + ch.mr - 1) / ch.mr * ch.mr : 0;
  if (rb < ch.mr) rb = ch.mr;
  int64_t rchunks = ch.row ? (rext + rb - 1) / rb : 0;
  int64_t W = (int64_t)n.nv * L, lb = W;
  if (!reduces && lext) lb = (4096 + W - 1) / W * W;
  if (lines) {
    int64_t even = 1; /* parts that a line is divided into, a power of two */
    while (even < lext / line) even *= 2;
    lb = (lext / even + W - 1) / W * W;
  }
  int64_t lchunks = lext ? (lext + lb - 1) / lb : 0;
  /* panels of a run-time operand are packed where they are used: a thread should own whole panels */
  bool by_panels = false;
  for (uint32_t i = 0; i < acc.n && ch.row && ch.lane_outer; i++)
    by_panels |= acc.v[i].load == ch.lane_load && !acc.v[i].constant && lchunks >= few;
  nvars *rest = &n.inner;
  int64_t np = 1;
  uint32_t take = points_enough(k, rest, enough, &np);
  /* not known to be worth a chunk each: digits of a number of a point cost divisions */
  if (k->p->level > 0 && np < enough && !ch.lane && !ch.row && take == rest->n && take > 1) take--;
  bool rows = ch.row && !lines && rchunks > 1 && rchunks >= (reduces && !ch.lane_outer ? min64(few, lchunks) : lchunks),
       lanes = !rows && lchunks > 1;
  int64_t blocks = rows ? rchunks : lanes ? lchunks : 1;
  /* there may be few rows */
  bool together = false, grid = k->parallel && reduces && rows && lchunks > 1 && ch.lane_outer && !parts &&
                                !by_panels && !n.inner.n && !n.outer.n && !sym_is_int(c, nest_rows(&n)->extent, NULL);
  if (!by_panels && (n.outer.n || (np < few && blocks < few))) {
    nvars all = {0};
    for (uint32_t i = 0; i < n.outer.n; i++) vec_push(k->a, all, n.outer.v[i]);
    for (uint32_t i = 0; i < n.inner.n; i++) vec_push(k->a, all, n.inner.v[i]);
    int64_t anp = 1;
    uint32_t atake = points_enough(k, &all, enough, &anp);
    together = atake && (n.outer.n || blocks > 1);
    if (together) {
      n.outer.n = 0;
      n.inner = all;
      take = atake, np = anp;
    }
  }
  u32vec point = {0}; /* the variables of a chunk's point */
  if (parts)
    blocking_chunks(k, &n);
  else if (together || (!by_panels && take && np >= blocks)) {
    for (uint32_t i = 0; i < take; i++) vec_push(k->a, point, rest->v[i].var);
    sz points = kernel_flatten(k, rest, take);
    if (together) {
      nvar w = rest->v[0];
      for (uint32_t i = 1; i < rest->n; i++) rest->v[i - 1] = rest->v[i];
      rest->n--;
      n.point = w;
      chunk_loop(k, &n, w, rows ? rb : lanes ? lb : 0, rows);
      points = sym_mul(c, points,
                       rows || lanes
                           ? sym_ceildiv(c, rows ? nest_rows(&n)->extent : n.lane.extent, sym_int(c, rows ? rb : lb))
                           : sym_int(c, 1));
    } else
      rest->v[0].lo = lo, rest->v[0].hi = hi;
    k->l.chunks = points;
  } else if (grid) {
    grid_loop(k, &n, rb, lb);
    k->l.chunks = sym_mul(c, sym_ceildiv(c, nest_rows(&n)->extent, sym_int(c, rb)),
                          sym_ceildiv(c, n.lane.extent, sym_int(c, lb)));
  } else if (!by_panels && rows) {
    block_range(k, nest_rows(&n), lo, hi, rb);
    k->l.chunks = sym_ceildiv(c, nest_rows(&n)->extent, sym_int(c, rb));
  } else if (lchunks > 1) {
    block_range(k, &n.lane, lo, hi, lb);
    k->l.chunks = sym_ceildiv(c, n.lane.extent, sym_int(c, lb));
  } else {
    k->l.chunks = sym_int(c, 1);
  }
  if (k->p->level > 0) {
    accesses again = {0}; /* addresses with the flattened variable in them */
    group_accesses(e, group, k->stored, &again);
    kernel_packs(k, &n, &again, &ch);
    kernel_prepare(k, &n);
  }
  if (n.collapsed.var)
    first_fills_halos(k, group, &n);
  else
    fill_halos(k, group, &n, &point, together);
  kernel_emit(k, &n);
  if (together || parts || grid) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  if (grid) lb_end(&e->b);
}
