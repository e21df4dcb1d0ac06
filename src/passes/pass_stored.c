/* Which values of a step of training are stored in bf16, if the user allows it?
 *
 * Large ones that one kernel stores and others read: what is kept for the gradient, and what passes between kernels and
 * leaves the caches of a core. This halves the memory that they take and what is read and written; the error is that of
 * rounding each of them to 8 bits. All readers, also those of the same kernel, get what was stored, so that what is
 * computed of it once more is the same.
 *
 * What stays f32: small values, such as statistics; factors of products, of which pass_narrow.c decides; sums and
 * factors of a Winograd transform, which would magnify the error; what two values that are compared are computed of;
 * and what outputs and new states are computed of, such as the gradient of a parameter. Without derivatives
 * everything stays f32: what is read soon gains nothing, and each layer would err once more. Needs kernels.
 */
#include "cost/cost.h"
#include "passes/keep.h"

typedef struct keeping {
  pw *p;             /* the run of passes */
  uint8_t *as_it_is; /* by tensor: it stays f32 */
} keeping;
/* Gets the loads below e; true: they are not all of constants. */
static bool reads(const keeping *k, ex e, u32vec *loads) {
  bool any = false;
  expr_loads(k->p->m, e, k->p->a, loads);
  for (uint32_t i = 0; i < loads->n; i++) any |= xt(k->p->m, exn(k->p->m, loads->v[i])->tensor)->kind != TK_CONST;
  return any;
}
static void keep_loaded(const keeping *k, const u32vec *loads) {
  for (uint32_t i = 0; i < loads->n; i++) k->as_it_is[exn(k->p->m, loads->v[i])->tensor] = 1;
}
static ex compared(void *env, emodule *m, ex e) {
  const keeping *k = env;
  const ex_node n = *exn(m, e);
  u32vec left = {0}, right = {0};
  if (n.kind != EX_OP || n.op < OP_EQ || n.op > OP_GE) return e;
  if (reads(k, n.args[0], &left) && reads(k, n.args[1], &right)) keep_loaded(k, &left), keep_loaded(k, &right);
  return e;
}
/* What stage s needs as it is: all that it reads, and its own result, or only what it compares. */
static void look(const keeping *k, uint32_t s) {
  emodule *m = k->p->m;
  const stage *x = xs(m, s);
  const kernel *in = x->kernel ? &m->kernels.v[x->kernel - 1] : NULL;
  const ex_node *v = x->value ? exn(m, x->value) : NULL;
  const bool product = v && v->kind == EX_REDUCE && v->op == RED_SUM && exn(m, v->body)->kind == EX_OP &&
                       exn(m, v->body)->op == OP_MUL && in && in->cls != KC_ROW && in->cls != KC_ELEMENTWISE;
  const bool exact = map_getu(k->p->exact, s, &(uint64_t){0}), part = map_getu(k->p->parts, s, &(uint64_t){0});
  if (x->value) (void)expr_rewrite(m, x->value, &(ex_map){.node = compared, .env = (void *)k});
  if (exact || part) k->as_it_is[x->tensor] = 1;
  if (exact || product || (k->p->pinned.v[x->tensor] && !EK_PLANTED("stored"))) keep_loaded(k, &k->p->loads.v[s]);
}
/* Do other kernels read the tensor? Of a placement they read the whole, which decides for its pieces. */
static bool leaves_kernel(const pw *p, tid t) {
  const uint32_t kernel = xs(p->m, xt(p->m, t)->stage)->kernel;
  bool any = false;
  for (uint32_t i = 0; i < p->readers.v[t].n; i++) {
    const stage *reader = xs(p->m, p->readers.v[t].v[i]);
    if (reader->updates.n) return false;
    any |= reader->kernel != kernel;
  }
  return any;
}
static bool stays(const keeping *k, tid t) {
  const uint32_t s = xt(k->p->m, t)->stage;
  bool any = k->as_it_is[t];
  for (uint32_t i = 0; i < k->p->loads.v[s].n && xs(k->p->m, s)->updates.n; i++)
    any |= k->as_it_is[exn(k->p->m, k->p->loads.v[s].v[i])->tensor];
  return any;
}
static bool is_large(pw *p, tid t) {
  const int64_t n = expr_typical(p->m, stage_points(p->m, xt(p->m, t)->stage));
  return !cost_fits_quarter_l2(p->t, sat_mul64(n, et_bytes(ET_F32)));
}
bool pass_stored(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  if (p->narrow != ET_BF16 || !m->derived) return false;
  pass_index(p); /* with the copies of results */
  keeper k = keep_begin(p);
  const coding as = {p->narrow, 0};
  const keeping as_they_are = {p, NEWN(p->a, uint8_t, m->tensors.n + 1)};
  const tid n = m->tensors.n;
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) look(&as_they_are, order.v[i]);
  for (tid t = 1; t < n; t++) {
    if (xt(m, t)->kind != TK_STAGE || xt(m, t)->type != ET_F32 || !producer_of(m, t) || stays(&as_they_are, t) ||
        !leaves_kernel(p, t) || !is_large(p, t) || !keep_can(&k, t, as) || !pass_spend(p))
      continue;
    keep_stage(&k, t, as), any = true;
  }
  keep_end(&k, &order);
  return any;
}
