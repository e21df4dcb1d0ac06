/* Which operands does a register tile compute before its sum runs?
 *
 * What the rows of a register tile read may be more than a load: a scaled channel, an activation, a narrow number
 * to convert. Inside the innermost loop that would be done one value at a time, again for every panel. So
 * a tile first computes its rows, vectors along the innermost variable of the sum, into scratch [row][point of
 * the reduction], and then multiplies from there. Only for sums of known length whose rows stay in the cache.
 */
#include "schedule/kernel_in.h"

static void buffer_rows(kctx *k, nest *n) {
  ectx *e = &k->e;
  uint32_t L = n->lanes;
  if (!n->row.var || !n->lane_outer || L <= 1) return;
  for (uint32_t i = 0; i < n->stages.n; i++) {
    const ex_node *red = exn(k->m, xs(k->m, n->stages.v[i])->value),
                  *body = red->kind == EX_REDUCE ? exn(k->m, red->body) : NULL;
    const u32vec *vars = &n->reds[i];
    int64_t depth = 1, ext = 0;
    sz at = sym_int(k->c, 0);
    if (instruction_of(n, i, 0) || !body || red->where || body->kind != EX_OP || body->op != OP_MUL || !vars->n)
      continue;
    const bool shared = n->shared && !i;
    const ex args[] = {shared ? panel_value_rest(&e->view, red, n->shared) : body->args[0],
                       shared ? n->shared : body->args[1]};
    for (uint32_t j = 0; j < vars->n && depth; j++) {
      sz size = sym_extent(k->c, vars->v[j]);
      if (!sym_is_int(k->c, size, &ext) || ext > INT32_MAX) depth = ext = 0;
      depth = sat_mul64(depth, ext);
      at = sym_add(k->c, sym_mul(k->c, at, size), sym_of_atom(k->c, vars->v[j]));
    }
    for (uint32_t q = 0; q < 2 && depth && ext >= (int64_t)L; q++) {
      ex x = args[q];
      uint32_t size = et_bytes((etype)exn(k->m, x)->type);
      if (exn(k->m, x)->kind != EX_OP || value_reduces(&e->view, x) || value_uses(&e->view, x, n->lane.var) ||
          !value_uses(&e->view, x, n->row.var) || !value_uses(&e->view, x, vars->v[vars->n - 1]) ||
          !cost_fits_quarter_l2(e->p->t, depth * n->mr * size))
        continue;
      prepared r = {.value = x, .stage = i, .depth = depth, .at = at};
      r.ptr = kernel_scratch(k, (etype)exn(k->m, x)->type, sym_int(k->c, depth * n->mr));
      vec_push(k->a, n->rows, r);
      break;
    }
  }
}
bool buffer_has(kctx *k, const directive *d, const char *word) {
  const bool two = d->words.n == 2, panel = directive_is(d, 0, "panel");
  bool has = false;
  const bool known =
      two ? panel && directive_is(d, 1, "rows") : panel || directive_is(d, 0, "rows") || directive_is(d, 0, "none");
  if (!known) kernel_refuse(k, d, "expected %s", primitive_forms[P_BUFFER].words);
  for (uint32_t i = 0; i < d->words.n; i++) has |= directive_is(d, i, word);
  return has;
}
void kernel_prepare(kctx *k, nest *n) {
  const directive *d = stated(k, &n->stages, P_BUFFER);
  if (d && !buffer_has(k, d, "rows") && !EK_PLANTED("follow-buffer")) return;
  buffer_rows(k, n);
  if (d && !n->rows.n) kernel_refuse(k, d, "the rows of this sum are not computed values of a known number of steps");
}
/* All places of the innermost variable: vectors, then what is left, masked or one by one. */
static void fill(ectx *e, const prepared *r, atom along, uint32_t mr, uint32_t lanes) {
  int64_t ext = sym_int_or(e->c, sym_extent(e->c, along), 0) - EK_PLANTED("schedule-rows-before"),
          full = ext / lanes * lanes;
  bool masks = e->p->t->masks;
  for (uint32_t part = 0; part < 2; part++) {
    uint32_t step = part && !masks ? 1 : lanes, nb = e->view.binds.n;
    lv i;
    if (part ? full == ext : !full) continue;
    lb_for(&e->b, sym_name(e->c, along), lb_int(&e->b, part ? full : 0), lb_int(&e->b, part ? ext : full),
           lb_int(&e->b, step), 0, &i);
    emit_scope(e);
    e->lane = along, e->lanes = step, e->v = 0, e->count = part && masks ? lb_int(&e->b, ext - full) : 0;
    view_bind(&e->view, (binding){.var = along, .base = i, .vec_step = step, .lane = true});
    emit_epoch(e);
    for (e->r = 0; e->r < mr; e->r++) {
      lv v = emit_vec(e, emit_value(e, r->value), (etype)exn(e->m, r->value)->type);
      lv to = lb_addi(&e->b, emit_size(e, r->at), (int64_t)e->r * r->depth);
      lb_store_ex(&e->b, r->ptr, to, v, 0, e->count, 0, 0);
    }
    e->r = 0, e->count = 0;
    view_unbind(&e->view, nb);
    emit_unscope(e);
    lb_end(&e->b);
  }
}
void prepare_rows(ectx *e, const nest *n, uint32_t stage, uint32_t mr) {
  for (uint32_t k = 0; k < n->rows.n; k++) {
    const prepared *r = &n->rows.v[k];
    const u32vec *vars = &n->reds[stage];
    uint32_t nb = e->view.binds.n, lanes = e->lanes;
    atom lane = e->lane;
    if (r->stage != stage) continue;
    for (uint32_t j = 0; j + 1 < vars->n; j++) {
      lv i;
      lb_for(&e->b, sym_name(e->c, vars->v[j]), lb_int(&e->b, 0), emit_size(e, sym_extent(e->c, vars->v[j])),
             lb_int(&e->b, 1), 0, &i);
      emit_scope(e);
      emit_bind(e, vars->v[j], i);
    }
    fill(e, r, vars->v[vars->n - 1], mr, n->lanes);
    for (uint32_t j = 0; j + 1 < vars->n; j++) {
      emit_unscope(e);
      lb_end(&e->b);
    }
    view_unbind(&e->view, nb);
    e->lane = lane, e->lanes = lanes;
    emit_epoch(e);
    e->rows = r;
  }
}
