/* Which values are looked up?
 *
 * A quantised model applies functions to values of eight bits, and rounds the results to eight bits again: a sigmoid, a
 * product with it. What is computed from one value that takes at most 256 whole values alone, and is whole and takes
 * at most 256 values itself, is a constant table, read at that value. Where such a value is made of others of its kind,
 * the innermost one is the index: most work is behind it. A table is read where the target does that with fewer
 * operations (cost_table_pays). Its entries are bytes where the target has an instruction for these, else the values.
 *
 * The values of a table are the evaluator's, to the bit. Needs inline and integer; before kernels, which puts together
 * what is computed of one value. */
#include "cost/cost.h"
#include "passes/interval.h"
#include "passes/keep.h"
#include "passes/pass_const.h"

enum { ENTRIES = 256 };
typedef struct tables {
  pw *p;         /* the run of passes */
  emodule *m;    /* the module */
  map *index_of; /* value -> the only value of at most 256 that it is computed from; 0: there is none, or several */
  map *by;       /* value -> its table's value, as it was before the rewriting */
  uint32_t s;    /* stage */
} tables;

/* At most 256 whole values? What is not whole by its form is not looked at: its interval may take all of a constant. */
static bool byte_wide(tables *k, ex e, interval *v) {
  if (!whole_form(k->p, e)) return false;
  *v = interval_of(k->p, e);
  return v->known && v->whole && v->hi - v->lo < ENTRIES;
}
/* The index of what is computed from others. */
static ex index_below(tables *k, const ex_node *n) {
  ex all = 0;
  for (uint32_t i = 0; i < n->nargs; i++) {
    uint64_t one = 0;
    if (exn(k->m, n->args[i])->kind == EX_CONST) continue;
    map_getu(k->index_of, n->args[i], &one);
    if (!one || (all && all != one)) return 0;
    all = (ex)one;
  }
  return all;
}
static void find_index(tables *k, ex e) {
  uint64_t had;
  if (!e || map_getu(k->index_of, e, &had)) return;
  const ex_node n = *exn(k->m, e);
  interval v;
  ex r = 0;
  if (n.kind == EX_OP) {
    for (uint32_t i = 0; i < n.nargs; i++) find_index(k, n.args[i]);
    r = index_below(k, &n);
  }
  if (n.kind == EX_REDUCE) find_index(k, n.where), find_index(k, n.body), find_index(k, n.payload);
  if (n.kind == EX_LOAD) find_index(k, n.otherwise);
  const bool few = et_kind((etype)n.type) == K_FLOAT || et_bits((etype)n.type) <= 8;
  if (!r && few && (n.kind == EX_OP || n.kind == EX_LOAD) && byte_wide(k, e, &v)) r = e;
  map_putu(k->index_of, e, r);
}

typedef struct at_index {
  ex index; /* the value that is the index */
  ex by;    /* what stands in its place */
} at_index;
static ex replace_index(void *env, emodule *m, ex e) {
  (void)m;
  const at_index *x = env;
  return e == x->index ? x->by : e;
}
/* index - lo as a byte */
static ex byte_index(tables *k, ex index, int64_t lo) {
  emodule *m = k->m;
  if (exn(m, index)->type == ET_U8 && !lo) return index;
  const ex whole = expr_op2(m, OP_SUB, whole_as_i32(m, index), expr_i(m, ET_I32, lo + EK_PLANTED("table")));
  return simplify(k->p, expr_cast(m, ET_U8, whole));
}
/* Does a table hold values of this type themselves, instead of codes of a byte? */
static bool holds_values(const tables *k, etype t) {
  const bool whole = (et_kind(t) == K_INT || et_kind(t) == K_UINT) && et_bits(t) >= 8 && et_bits(t) <= 32;
  return (whole || t == ET_F32) && !cost_table_in_bytes(k->p->t);
}
/* The value e, which is computed from `index` alone, of a table; 0: there is none. */
static ex looked_up(tables *k, ex e, ex index) {
  emodule *m = k->m;
  ctx *c = k->p->c;
  interval in, out;
  if (!byte_wide(k, index, &in) || !byte_wide(k, e, &out)) return 0;
  const int64_t lo = (int64_t)in.lo;
  const etype t = (etype)exn(m, e)->type, of = (etype)exn(m, index)->type;
  const bool itself = holds_values(k, t);
  const coding as =
      t == ET_I8 ? (coding){ET_I8, 0} : (coding){ET_U8, out.lo >= 0 && out.hi <= 255 ? 0 : (int64_t)out.lo};
  const sz i = sym_var(c, "i", sym_int(c, ENTRIES));
  atom v;
  sym_is_atom(c, i, &v);
  at_index x = {index, expr_cast(m, of, expr_index(m, sym_addi(c, i, lo)))};
  const ex value = expr_rewrite(m, e, &(ex_map){.node = replace_index, .env = &x});
  const ex at = const_make(k->p, k->s, &v, 1, itself ? value : keep_code(k->p, value, as));
  if (!at) return 0;
  const sz place = expr_as_size(m, expr_cast(m, ET_I64, byte_index(k, index, lo)));
  const ex code = expr_load(m, exn(m, at)->tensor, &place, 1, 0);
  return itself || t == as.type ? code : keep_value(m, code, t, as);
}
/* From the root down: the largest values are taken first. */
static void find_tables(tables *k, ex e, map *seen) {
  uint64_t had;
  if (!e || map_getu(seen, e, &had)) return;
  map_putu(seen, e, 1);
  const ex_node n = *exn(k->m, e);
  interval v;
  if (n.kind == EX_OP) {
    had = 0;
    map_getu(k->index_of, e, &had);
    const ex index = (ex)had;
    if (index && index != e && byte_wide(k, e, &v)) {
      const uint64_t saved = expr_cost(k->m, e) - expr_cost(k->m, index);
      const ex r = cost_table_pays(k->p->t, saved) && pass_spend(k->p) ? looked_up(k, e, index) : 0;
      if (r) {
        map_putu(k->by, e, r);
        return;
      }
    }
    for (uint32_t i = 0; i < n.nargs; i++) find_tables(k, n.args[i], seen);
  }
  if (n.kind == EX_REDUCE) find_tables(k, n.where, seen), find_tables(k, n.body, seen), find_tables(k, n.payload, seen);
  if (n.kind == EX_LOAD) find_tables(k, n.otherwise, seen);
}
static ex replace_value(void *env, emodule *m, ex e) {
  (void)m;
  const tables *k = env;
  uint64_t r;
  return map_getu(k->by, e, &r) ? (ex)r : e;
}
bool pass_table(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  interval_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const stage *s = xs(m, order.v[i]);
    if (!s->value || s->updates.n) continue;
    tables k = {p, m, map_new(p->a), map_new(p->a), order.v[i]};
    find_index(&k, s->value);
    find_tables(&k, s->value, map_new(p->a));
    const ex v = expr_rewrite(m, xs(m, order.v[i])->value, &(ex_map){.node = replace_value, .env = &k});
    if (v == xs(m, order.v[i])->value) continue;
    pass_set(p, order.v[i], v);
    any = true;
  }
  pass_flush(p);
  return any;
}
