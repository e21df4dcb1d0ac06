/* Which factors of a sum wait for the end of its innermost loop?
 *
 * Those that do not hang on its variable, as the scale of a block of terms: they are multiplied once, with what the
 * loop has added up (the distributive law; sums of floats may be reassociated). Where what is left are whole numbers
 * that are multiplied as such and then converted, f32(i32(x) * i32(w)), the loop adds up integers, which is exact, and
 * an instruction of the target may do it; one conversion follows. */
#include "schedule/tile.h"

enum { BYTE_TERMS = 1 << 16 /* products of two bytes whose sum fits 32 bits, whatever they are */ };

/* Is it a product of two bytes? */
static bool multiplies_bytes(const emodule *m, ex x) {
  const ex_node *n = exn(m, x);
  if (n->type != ET_I32 || n->kind != EX_OP || n->op != OP_MUL) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const ex_node *c = exn(m, n->args[i]);
    const etype from = c->kind == EX_OP && c->op == OP_CAST ? (etype)exn(m, c->args[0])->type : ET_NONE;
    if (from != ET_U8 && from != ET_I8) return false;
  }
  return true;
}
bool sum_factors(index_view *iv, const ex_node *red, atom var, factored *out) {
  emodule *m = iv->m;
  u32vec f = {0}, loads = {0};
  ex inner = 0;
  uint32_t many = 0;
  if (red->kind != EX_REDUCE || red->op != RED_SUM || red->where || red->type != ET_F32 || red->acc != ET_F32 ||
      exn(m, red->body)->type != ET_F32 || expr_range(m, var))
    return false;
  *out = (factored){.inner = *red, .points = 1};
  expr_operands(m, red->body, OP_MUL, iv->a, &f);
  expr_loads(m, red->body, iv->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(m, loads.v[i])->otherwise) return false;
  for (uint32_t i = 0; i < f.n; i++) {
    const bool hangs = value_uses(iv, f.v[i], var);
    if (!hangs && EK_PLANTED("schedule-factors")) continue;
    ex *to = hangs ? &inner : &out->outer;
    *to = expr_times(m, *to, f.v[i]), many += hangs;
  }
  if (!inner) return false;
  out->inner.body = inner;
  const ex_node *n = exn(m, inner);
  const int64_t terms = sym_int_or(iv->c, sym_extent(iv->c, var), INT64_MAX);
  if (out->outer && many == 1 && n->kind == EX_OP && n->op == OP_CAST && terms <= BYTE_TERMS &&
      multiplies_bytes(m, n->args[0]))
    out->inner.body = n->args[0], out->inner.acc = out->inner.type = ET_I32;
  return true;
}
bool nest_factors(index_view *iv, const nest *n, uint32_t stage, factored *out) {
  const u32vec *vars = &n->reds[stage];
  return vars->n && !n->windows[stage] &&
         sum_factors(iv, exn(iv->m, xs(iv->m, n->stages.v[stage])->value), vars->v[vars->n - 1], out);
}
const ex_node *sum_of_integers(index_view *iv, const ex_node *red, atom var, factored *room) {
  for (uint32_t i = 0; i < red->nargs && red->kind == EX_REDUCE; i++)
    if ((!var || red->args[i] == var) && sum_factors(iv, red, red->args[i], room) && room->inner.acc == ET_I32)
      return &room->inner;
  return red;
}
