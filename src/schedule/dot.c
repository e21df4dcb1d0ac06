/* When does a sum of products take two points at once?
 *
 * Where the machine multiplies pairs of bf16 and adds both products to an f32 (the dot products of AVX512_BF16), a sum
 * of f32(x) * f32(w) over a variable of which x has neighbouring places side by side does so: w, a constant, is packed
 * such that a lane's values of two points are one 32-bit number (packing.pairs), and those of x are read as one. Twice
 * the multiplications an instruction, half the bytes.
 */
#include "schedule/kernel_in.h"

static ex narrow_load(ectx *e, ex x) { /* x is f32(load of a bf16): the load */
  const ex_node *n = exn(e->m, x);
  if (n->kind != EX_OP || n->op != OP_CAST || n->type != ET_F32) return 0;
  const ex_node *l = exn(e->m, n->args[0]);
  return l->kind == EX_LOAD && l->type == ET_BF16 ? n->args[0] : 0;
}
static bool is_constant(ectx *e, ex load) { return xt(e->m, exn(e->m, load)->tensor)->kind == TK_CONST; }
/* Where x's value and its neighbour of var stand: as a number of 32 bits at index half + var / 2. False: they do
 * not, or not without a condition. */
static bool pair_address(ectx *e, ex x, atom var, sz *half) {
  const ex_node *n = exn(e->m, x);
  sz idx[MAX_RANK], coef, rest;
  return view_plain(&e->view, x, idx) &&
         sym_linear(e->c, view_address(e->c, view_layout(&e->view, n->tensor), idx), var, &coef, &rest) &&
         sym_eq(e->c, coef, sym_int(e->c, 1)) && sym_exact_div(e->c, rest, sym_int(e->c, 2), half);
}
void kernel_dots(ectx *e, nest *n) {
  const target *t = e->p->t;
  uint32_t L = n->lanes;
  if (!t->bf16dot || !t->masks || L * 32 != 512 || !n->lane.var || n->lane_reduced) return;
  for (uint32_t i = 0; i < n->stages.n; i++) {
    const ex_node *red = exn(e->m, xs(e->m, n->stages.v[i])->value),
                  *body = red->kind == EX_REDUCE ? exn(e->m, red->body) : NULL;
    const u32vec *vars = &n->reds[i];
    if (!body || red->op != RED_SUM || red->acc != ET_F32 || red->where || body->kind != EX_OP || body->op != OP_MUL ||
        !vars->n)
      continue;
    dotted k = {.row = narrow_load(e, body->args[0]),
                .lane = narrow_load(e, body->args[1]),
                .stage = i,
                .var = vars->v[vars->n - 1]};
    if (k.row && k.lane && is_constant(e, k.row)) k = (dotted){k.lane, k.row, i, k.var};
    sz half;
    if (!k.row || !k.lane || !is_constant(e, k.lane) || is_constant(e, k.row) ||
        sym_int_or(e->c, sym_extent(e->c, k.var), 1) % 2)
      continue;
    if (value_uses(&e->view, k.row, n->lane.var) || (n->row.var && value_uses(&e->view, k.lane, n->row.var)) ||
        !pair_address(e, k.row, k.var, &half))
      continue;
    vec_push(e->a, n->dots, k);
  }
}
const dotted *dot_of(const nest *n, uint32_t stage, ex lane) {
  for (uint32_t i = 0; i < n->dots.n; i++)
    if (n->dots.v[i].stage == stage && (!lane || n->dots.v[i].lane == lane)) return &n->dots.v[i];
  return NULL;
}
void dot_step(ectx *e, const dotted *k, lv acc[], uint32_t mr, uint32_t nv) {
  const packed *w = NULL;
  lv wide[TILE_V],
      at = lb_op(&e->b, OP_SHR, lt(ET_I64, 1), emit_size(e, sym_of_atom(e->c, k->var)), lb_int(&e->b, 1), 0);
  sz half;
  for (uint32_t i = 0; i < e->packs.n; i++)
    if (e->packs.v[i].load == k->lane) w = &e->packs.v[i];
  lv from = lb_ptrcast(&e->b, ET_U32, w->ptr), x = lb_ptrcast(&e->b, ET_U32, emit_source(e, exn(e->m, k->row)->tensor));
  sym_exact_div(e->c, w->off, sym_int(e->c, 2), &half); /* the offset counts whole vectors of pairs */
  for (e->v = 0; e->v < nv; e->v++)
    wide[e->v] =
        lb_load(&e->b, lt(ET_U32, e->lanes), from, lb_addi(&e->b, emit_packed(e, w, half), EK_PLANTED("schedule-dot")));
  e->v = 0;
  for (e->r = 0; e->r < mr; e->r++) {
    pair_address(e, k->row, k->var, &half);
    lv two =
        lb_splat(&e->b, (uint16_t)e->lanes, lb_load(&e->b, lt(ET_U32, 1), x, lb_add(&e->b, emit_size(e, half), at)));
    for (uint32_t v = 0; v < nv; v++) {
      lv *to = &acc[e->r * TILE_V + v], args[3] = {lb_get(&e->b, *to), two, wide[v]};
      lb_set(&e->b, *to, lb_intrin(&e->b, "llvm.x86.avx512bf16.dpbf16ps.512", lt(ET_F32, e->lanes), args, 3));
    }
  }
  e->r = 0;
}
