/* Which arms of a nest's choices does one variable decide alone?
 *
 * A formula may choose by the value of a variable of few values: the gradients of a recurrence's gates, one behind the
 * other, are `q == 0 ? .. : 0` plus `q == 1 ? .. : 0` and so on. A loop over q would compute every arm at every step,
 * for all lanes. Where it is written out, its number is a constant, conditions are known, and only the arm that is
 * taken is emitted (emit.c): the code is about as long, and runs through once instead of once for each value.
 */
#include "schedule/kernel_in.h"

typedef struct deciding {
  atom var;   /* the variable */
  int64_t at; /* its value */
  bool any;   /* a choice was decided */
} deciding;
static bool value_at(void *env, atom a, int64_t *v) {
  const deciding *d = env;
  *v = d->at;
  return a == d->var && !EK_PLANTED("schedule-decided");
}
/* The value of whole numbers or a condition; false: the variable does not decide it alone. */
static bool known(deciding *d, emodule *m, ex x, int64_t *v) {
  const ex_node n = *exn(m, x);
  int64_t in[2] = {0};
  *v = n.k.i;
  if (et_kind((etype)n.type) == K_FLOAT) return false;
  if (n.kind == EX_INDEX) return sym_eval(m->c, n.index, value_at, d, v);
  if (n.kind != EX_OP || n.nargs > 2) return n.kind == EX_CONST;
  for (uint32_t i = 0; i < n.nargs; i++)
    if (!known(d, m, n.args[i], &in[i])) return false;
  return loop_eval_int((sop)n.op, (etype)exn(m, n.args[0])->type, in[0], in[1], v);
}
static ex arm_taken(void *env, emodule *m, ex x) {
  const ex_node n = *exn(m, x);
  deciding *d = env;
  int64_t is;
  if (n.kind != EX_OP || n.op != OP_SEL || !known(d, m, n.args[0], &is)) return x;
  d->any = true;
  return n.args[is ? 1 : 2];
}
bool decides_choices(index_view *iv, const u32vec *stages, atom var, int64_t extent, uint64_t *whole, uint64_t *taken) {
  bool any = false;
  *whole = *taken = 0;
  for (uint32_t i = 0; i < stages->n; i++) {
    const ex value = view_canonical(iv, xs(iv->m, stages->v[i])->value);
    *whole += expr_cost(iv->m, value);
    for (int64_t at = 0; at < extent; at++) {
      deciding d = {.var = var, .at = at};
      *taken += expr_cost(iv->m, expr_rewrite(iv->m, value, &(ex_map){.node = arm_taken, .env = &d}));
      any |= d.any;
    }
  }
  return any;
}
