/* When does a sum close what it has so far?
 *
 * A float that has grown to 2^24 times its terms no longer changes when one is added, and long before that each
 * addition loses what lies below its last place. So a sum of many terms in one register goes in blocks: behind each,
 * the register is added to a second one and begins again at 0. The error of n terms is at most about (block + n /
 * block) roundings instead of n. Where the machine has registers for both, as in statistics and sums of gradients,
 * blocks take no time and are short. The tile of a product fills the registers; there a block moves all of them to
 * memory and back, and only sums of very many terms have any.
 *
 * The blocks are those of one variable of the sum: the innermost one with which the variables inside of it may
 * have more terms than a block. Those inside are short, those outside repeat whole blocks; only where the number
 * of values is open, and so may be small, terms are counted over several turns of the variable. */
#include "schedule/nest.h"

/* Sums of up to `without` terms a register stay as they are. */
typedef struct block_sizes {
  int64_t block, without;
} block_sizes;
static const block_sizes SHORT = {1 << 8, 1 << 10}, LONG = {1 << 12, 1 << 15};

/* Both sets of registers fit in the machine, or blocks have to be rare. */
static block_sizes sizes_for(const ectx *e, const lv *acc, uint32_t n) {
  uint32_t registers = 0;
  for (uint32_t i = 0; i < n; i++) registers += acc[i] != 0;
  return 2 * registers <= e->p->t->vector_registers ? SHORT : LONG;
}
/* The most terms that var brings; it is known, or as long as the memory of any machine */
static int64_t most(ectx *e, atom var) {
  int64_t lo, hi;
  sym_range(e->c, sym_extent(e->c, var), &lo, &hi);
  return max64(1, min64(hi, SAT64));
}

bool long_sum_begin(ectx *e, long_sum *s, const ex_node *red, const u32vec *vars, int64_t last_step, lv *acc,
                    uint32_t n) {
  const etype t = (etype)red->acc;
  int64_t inner = 1, all = 1;
  *s = (long_sum){.acc = acc, .n = n, .before = e->long_sum};
  if (red->op != RED_SUM || (t != ET_F32 && et_bytes(t) > 2) || et_kind(t) != K_FLOAT) return false;
  for (uint32_t i = 0; i < vars->n; i++) all = sat_mul64(all, most(e, vars->v[i]));
  const block_sizes sizes = sizes_for(e, acc, n);
  if (all / last_step <= sizes.without || EK_PLANTED("schedule-long-sum")) return false;
  for (uint32_t i = vars->n; i-- > 0 && !s->var;) {
    const int64_t step = i + 1 == vars->n ? last_step : 1, here = max64(1, most(e, vars->v[i]) / step);
    if (sat_mul64(inner, here) > sizes.block) {
      s->var = vars->v[i], s->repeats = i > 0;
      s->block = max64(SUM_GROUP, sizes.block / inner & -SUM_GROUP) * step;
    }
    inner = sat_mul64(inner, here);
  }
  s->sums = NEWN(e->a, lv, n);
  for (uint32_t i = 0; i < n; i++)
    if (acc[i]) s->sums[i] = lb_reg(&e->b, lb_const(&e->b, li(e->f, acc[i])->type, (scalar){.f = 0}));
  if (s->repeats) s->terms = lb_reg(&e->b, lb_int(&e->b, 0));
  e->long_sum = s;
  return true;
}
static void add(ectx *e, const lv *to, const lv *from, uint32_t n, bool clear) {
  for (uint32_t i = 0; i < n; i++) {
    if (!to[i]) continue;
    lv x = lb_get(&e->b, to[i]), y = lb_get(&e->b, from[i]);
    ltype t = li(e->f, x)->type;
    lb_set(&e->b, to[i], lb_op(&e->b, OP_ADD, t, x, y, 0));
    if (clear) lb_set(&e->b, from[i], lb_const(&e->b, t, (scalar){.f = 0}));
  }
}
bool long_sum_block(ectx *e, atom var, lv *lo, lv *hi) {
  long_sum *s = e->long_sum;
  if (!s || s->var != var || s->inside) return false;
  lv from = lb_int(&e->b, 0), at;
  s->end = emit_size(e, sym_extent(e->c, var));
  bounded(e, var, &from, &s->end);
  lb_for(&e->b, "block", from, s->end, lb_int(&e->b, s->block), 0, &at);
  emit_scope(e);
  *lo = at, *hi = lb_op(&e->b, OP_MIN, lt(ET_I64, 1), lb_addi(&e->b, at, s->block), s->end, 0);
  vec_push(e->a, e->ranges, ((var_range){.var = var, .lo = *lo, .hi = *hi}));
  s->inside = true, s->part = e->sum_block, e->sum_block = var;
  return true;
}
void long_sum_close(ectx *e, lv lo, lv hi) {
  long_sum *s = e->long_sum;
  lv full = 0;
  s->inside = false, e->sum_block = s->part, e->ranges.n--;
  if (s->repeats) {
    lv terms = lb_add(&e->b, lb_get(&e->b, s->terms), lb_sub(&e->b, hi, lo));
    lb_set(&e->b, s->terms, terms);
    full = lb_cmp(&e->b, OP_GE, terms, lb_int(&e->b, s->block));
  } else
    full = lb_cmp(&e->b, OP_LT, hi, s->end);
  lb_if(&e->b, full);
  add(e, s->sums, s->acc, s->n, true);
  if (s->repeats) lb_set(&e->b, s->terms, lb_int(&e->b, 0));
  lb_end(&e->b);
  emit_unscope(e);
  lb_end(&e->b);
}
void long_sum_end(ectx *e, long_sum *s) {
  if (!s->var) return;
  e->long_sum = s->before;
  add(e, s->acc, s->sums, s->n, false);
}
