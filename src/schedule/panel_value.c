/* Which panels of a product are computed in the run?
 *
 * What all rows of a product share may be more than a load: a constant of few bits that is unpacked and scaled. A tile
 * that unpacks it in registers does so again for each of its few rows. Where there are rows enough the panel is
 * computed once, into scratch, before its rows pass: the factors of the sum that follow the lanes are multiplied there,
 * and the tiles read floats, as those of a plain product do. A block of panels that stays in a cache (blocking.c) is
 * computed a part of the sum at a time. What the panel is computed of lies packed as it would for the tiles. */
#include "schedule/tile.h"

/* Is the factor made of constants, each of which is read once and without a condition? Adds the elements of those of
 * few bits. */
static bool reads_constants(index_view *iv, ex f, int64_t *codes) {
  u32vec loads = {0};
  int64_t elems = 0;
  sz idx[MAX_RANK];
  if (value_reduces(iv, f)) return false;
  expr_loads(iv->m, f, iv->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const tensor *t = xt(iv->m, exn(iv->m, loads.v[i])->tensor);
    if (t->kind != TK_CONST || !view_plain(iv, loads.v[i], idx)) return false;
    for (uint32_t j = 0; j < i; j++)
      if (exn(iv->m, loads.v[j])->tensor == exn(iv->m, loads.v[i])->tensor) return false;
    if (t->narrow.type && nd_count(&t->data, &elems)) *codes += elems;
  }
  return loads.n > 0;
}
/* Results, at least, that read an element of the panel again. */
static int64_t uses_of(index_view *iv, ex shared, atom lane, const u32vec *domain) {
  int64_t n = 1, least, most;
  for (uint32_t i = 0; i < domain->n; i++) {
    if (domain->v[i] == lane || value_uses(iv, shared, domain->v[i])) continue;
    sym_range(iv->c, sym_extent(iv->c, domain->v[i]), &least, &most);
    n = sat_mul64(n, max64(1, least));
  }
  return n;
}
ex panel_value(index_view *iv, const ex_node *red, atom lane, atom row, const u32vec *domain, bool *pays) {
  u32vec f = {0};
  int64_t codes = 0;
  bool rest = false, loads = true;
  ex shared = 0;
  if (!lane || !row || red->kind != EX_REDUCE || red->op != RED_SUM || red->where || red->type != ET_F32 ||
      red->acc != ET_F32 || !red->nargs)
    return 0;
  expr_operands(iv->m, red->body, OP_MUL, iv->a, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    const bool lanes = value_uses(iv, f.v[i], lane), rows = value_uses(iv, f.v[i], row);
    rest |= rows;
    if (!lanes) continue;
    if (rows || !reads_constants(iv, f.v[i], &codes)) return 0;
    loads &= exn(iv->m, f.v[i])->kind == EX_LOAD;
    shared = expr_times(iv->m, shared, f.v[i]);
  }
  if (!rest || !codes) return 0;
  const int64_t uses = uses_of(iv, shared, lane, domain);
  *pays =
      !loads || (cost_computes_panels(iv->p->t, uses) &&
                 cost_keeps_few_bits(iv->p->t, uses, sat_mul64(codes, et_bytes(ET_F32)), expr_constant_floats(iv->m)));
  return shared;
}
bool panel_value_reads(index_view *iv, ex shared, ex load) {
  u32vec loads = {0};
  expr_loads(iv->m, shared, iv->a, &loads);
  return vec_has(&loads, load);
}
ex panel_value_rest(index_view *iv, const ex_node *red, ex shared) {
  u32vec f = {0}, mine = {0};
  ex rest = 0;
  expr_operands(iv->m, red->body, OP_MUL, iv->a, &f);
  expr_operands(iv->m, shared, OP_MUL, iv->a, &mine);
  for (uint32_t i = 0; i < f.n; i++)
    if (!vec_has(&mine, f.v[i])) rest = expr_times(iv->m, rest, f.v[i]);
  return rest;
}

/* ---- emission ----------------------------------------------------------------------------------- */
/* Points of the sum whose codes share a word of any constant that the panel is computed of. */
static uint32_t points_of_words(const nest *n, uint32_t stage) {
  uint32_t points = 1;
  for (uint32_t i = 0; i < n->packs.n; i++) {
    const packload *k = &n->packs.v[i];
    const uint32_t each = k->source && k->stage == stage && k->few.bits ? bit_pack_points(k->few.bits) : 1;
    points = each > points ? each : points;
  }
  return points;
}
/* What is the same for all steps of the innermost loop is read before it: its steps find that. */
static void read_before(ectx *e, ex value, atom var, const register_tile *t) {
  u32vec loads = {0};
  expr_loads(e->m, value, e->a, &loads);
  for (e->v = 0; e->v < t->nv; e->v++)
    for (uint32_t i = 0; i < loads.n; i++)
      if (!value_uses(&e->view, loads.v[i], var)) emit_value(e, loads.v[i]);
  e->v = 0;
}
/* The steps of the innermost loop whose codes share words. */
static void unpack_words(ectx *e, const packload *k, const register_tile *t, atom var, lv first, uint32_t points) {
  e->words = map_new(e->a);
  for (e->point = 0; e->point < points; e->point++) {
    const uint32_t nb = e->view.binds.n;
    emit_scope(e);
    emit_bind(e, var, lb_addi(&e->b, first, EK_PLANTED("schedule-panel-value") ? 0 : e->point));
    for (e->v = 0; e->v < t->nv; e->v++) {
      const lv x = emit_vec(e, emit_value(e, k->load), (etype)exn(e->m, k->load)->type);
      lb_store(&e->b, k->ptr, lb_addi(&e->b, emit_size(e, k->off), (int64_t)e->v * t->lanes), x);
    }
    e->v = 0;
    view_unbind(&e->view, nb);
    emit_unscope(e);
  }
  e->words = NULL, e->point = 0;
}
void panel_value_emit(ectx *e, const nest *n, const packload *k, const register_tile *t) {
  const u32vec vars = nest_pack_vars(&e->view, n, k->stage, k->load);
  const uint32_t points = points_of_words(n, k->stage), nb = e->view.binds.n;
  emit_scope(e);
  e->lane = n->lane.var, e->lanes = t->lanes;
  view_bind(&e->view, (binding){.var = n->lane.var, .base = t->lane, .vec_step = t->lanes, .lane = true});
  emit_epoch(e);
  for (uint32_t j = 0; j < vars.n; j++) {
    const atom v = vars.v[j];
    const bool innermost = j + 1 == vars.n;
    lv x, lo = lb_int(&e->b, 0), hi = emit_size(e, sym_extent(e->c, v));
    bounded(e, v, &lo, &hi);
    if (innermost) read_before(e, k->load, v, t);
    lb_for(&e->b, sym_name(e->c, v), lo, hi, lb_int(&e->b, innermost ? points : 1), 0, &x);
    emit_scope(e);
    if (innermost)
      unpack_words(e, k, t, v, x, points);
    else
      emit_bind(e, v, x);
  }
  for (uint32_t j = 0; j < vars.n; j++) {
    emit_unscope(e);
    lb_end(&e->b);
  }
  e->lanes = 1;
  view_unbind(&e->view, nb);
  emit_unscope(e);
  emit_epoch(e);
}
