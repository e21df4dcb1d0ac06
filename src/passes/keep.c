/* How are values stored as codes of a smaller element type, and read? See keep.h. */
#include "passes/keep.h"
#include <stdlib.h>

enum { DEPTH = 8 /* placements in placements */ };

keeper keep_begin(pw *p) {
  return (keeper){.p = p,
                  .m = p->m,
                  .to = map_new(p->a),
                  .stages = map_new(p->a),
                  .copies = map_new(p->a),
                  .form_of = map_new(p->a)};
}
tid kept(const keeper *k, tid t) {
  uint64_t r;
  return map_getu(k->to, t, &r) ? (tid)r : 0;
}
coding kept_form(const keeper *k, tid t) {
  uint64_t i;
  return map_getu(k->form_of, t, &i) ? k->forms.v[i] : (coding){0};
}
static void note_form(keeper *k, tid t, coding as) {
  map_putu(k->form_of, t, k->forms.n);
  vec_push(k->p->a, k->forms, as);
}

/* ---- groups ---------------------------------------------------------------------------------- */
bool keep_groups(pw *p, const roles *r, ex load, uint32_t group, bool whole, bool *last) {
  ctx *c = p->c;
  const ex_node *l = exn(p->m, load);
  bool found = false;
  *last = false;
  for (uint32_t i = 0; i < l->nargs; i++)
    for (uint32_t j = 0; j < r->red_both.n; j++) {
      const atom v = r->red_both.v[j];
      const int64_t n = sym_int_or(c, sym_extent(c, v), whole ? 1 : group);
      sz step, rest;
      if (n < group || (whole && n % group) || !sym_linear(c, l->args[i], v, &step, &rest) ||
          !sym_eq(c, step, sym_int(c, 1)) || (i + 1 < l->nargs && !sym_eq(c, rest, sym_int(c, 0))))
        continue;
      found = true, *last |= i + 1 == l->nargs;
    }
  return found;
}

/* ---- codes ----------------------------------------------------------------------------------- */
static bool is_integer(etype t) { return et_kind(t) == K_INT || et_kind(t) == K_UINT; }
static int64_t to_whole(const emodule *m, ex e) {
  const ex_node *n = exn(m, e);
  return et_kind((etype)n->type) == K_FLOAT ? (int64_t)n->k.f : n->k.i;
}
/* value = base + *add, where base has an integer type of 8 bits; 0: it has no such form */
static ex split_base(emodule *m, ex value, int64_t *add) {
  const ex_node *n = exn(m, value);
  *add = 0;
  if (et_bits((etype)n->type) == 8 && is_integer((etype)n->type)) return value;
  if (n->kind != EX_OP) return 0;
  int64_t inner;
  if (n->op == OP_CAST) return split_base(m, n->args[0], add);
  for (int i = 0; i < 2 && (n->op == OP_ADD || n->op == OP_SUB); i++) {
    const ex c = n->args[1 - i];
    if (exn(m, c)->kind != EX_CONST || (n->op == OP_SUB && i == 1)) continue;
    const ex base = split_base(m, n->args[i], &inner);
    *add = inner + (n->op == OP_ADD ? to_whole(m, c) : -to_whole(m, c));
    return base;
  }
  return 0;
}
ex whole_as_i32(emodule *m, ex value) {
  const ex_node n = *exn(m, value);
  if (n.kind == EX_CONST) return expr_i(m, ET_I32, to_whole(m, value));
  if (n.kind == EX_OP && (n.op == OP_ADD || n.op == OP_SUB) && et_kind((etype)n.type) == K_FLOAT)
    return expr_op2(m, n.op, whole_as_i32(m, n.args[0]), whole_as_i32(m, n.args[1]));
  if (n.kind == EX_OP && n.op == OP_CAST && is_integer((etype)exn(m, n.args[0])->type)) value = n.args[0];
  return expr_cast(m, ET_I32, value);
}
/* x + by of whole numbers, where neither sum is rounded */
static ex moved(emodule *m, ex x, int64_t by) {
  const ex_node n = *exn(m, x);
  const etype t = (etype)n.type;
  if (n.kind == EX_OP && n.op == OP_ADD && exn(m, n.args[1])->kind == EX_CONST)
    x = n.args[0], by += to_whole(m, n.args[1]);
  return by ? expr_op2(m, OP_ADD, x, expr_f(m, t, (double)by)) : x;
}
/* The code of a whole number, which is one of those that the form holds. */
static ex whole_code(pw *p, ex value, coding as) {
  emodule *m = p->m;
  int64_t add;
  const ex base = split_base(m, value, &add);
  if (base && add == as.zero && exn(m, base)->type == as.type) return base;
  if (base && exn(m, base)->kind == EX_OP && exn(m, base)->op == OP_SAT) {
    /* the clamped number moved is the moved number clamped, but for NaN, which becomes 0 */
    const etype from = (etype)exn(m, base)->type;
    const ex x = exn(m, base)->args[0];
    const interval v = interval_of(p, x);
    const int64_t by = add - as.zero;
    if (v.known && v.whole && code_first(from) + by == code_first(as.type) &&
        code_last(from) + by == code_last(as.type))
      return expr_op(m, OP_SAT, as.type, &(ex){moved(m, x, by)}, 1);
  }
  if (base && et_bits(as.type) > et_bits((etype)exn(m, base)->type) && llabs(add - as.zero) <= code_last(as.type)) {
    /* both numbers and their sum are in the range of the codes */
    const ex code = expr_cast(m, as.type, base);
    return simplify(p, add == as.zero ? code : expr_op2(m, OP_ADD, code, expr_i(m, as.type, add - as.zero)));
  }
  const ex whole = base ? expr_op2(m, OP_ADD, expr_cast(m, ET_I32, base), expr_i(m, ET_I32, add - as.zero))
                        : expr_op2(m, OP_SUB, whole_as_i32(m, value), expr_i(m, ET_I32, as.zero));
  return simplify(p, expr_cast(m, as.type, whole));
}
static ex uncast(const emodule *m, ex e, etype t) { /* f32(x) of a value x of type t becomes x */
  const ex_node *n = exn(m, e);
  return n->kind == EX_OP && n->op == OP_CAST && exn(m, n->args[0])->type == t ? n->args[0] : 0;
}
int64_t code_first(etype t) { return et_kind(t) == K_UINT ? 0 : -(INT64_C(1) << (et_bits(t) - 1)); }
int64_t code_last(etype t) { return code_first(t) + (INT64_C(1) << et_bits(t)) - 1; }
interval keep_interval(coding as) {
  return (interval){true, true, (double)(as.zero + code_first(as.type)), (double)(as.zero + code_last(as.type))};
}
ex keep_code(pw *p, ex value, coding as) {
  emodule *m = p->m;
  if (et_kind(as.type) != K_FLOAT) return whole_code(p, value, as);
  const ex_node n = *exn(m, value);
  if (n.kind == EX_REDUCE) return expr_reduce(m, n.op, n.args, n.nargs, n.where, n.body, n.payload, n.acc, as.type);
  const ex r = uncast(m, value, as.type);
  return r ? r : expr_cast(m, as.type, value);
}
ex keep_value(emodule *m, ex code, etype t, coding as) {
  if (et_kind(as.type) == K_FLOAT) return expr_cast(m, t, code);
  const ex whole = expr_cast(m, ET_I32, code);
  return expr_cast(m, t, as.zero ? expr_op2(m, OP_ADD, whole, expr_i(m, ET_I32, as.zero)) : whole);
}
ex keep_read(const keeper *k, ex load, tid of) {
  emodule *m = k->m;
  const ex_node n = *exn(m, load);
  const coding as = kept_form(k, of);
  ex other = 0;
  if (n.otherwise && !EK_PLANTED("keep"))
    other = exn(m, n.otherwise)->kind == EX_CONST && et_kind(as.type) == K_FLOAT
                ? expr_const(m, as.type, exn(m, n.otherwise)->k)
                : keep_code(k->p, n.otherwise, as); /* coded as what it stands beside */
  return keep_value(m, expr_load(m, of, n.args, n.nargs, other), (etype)n.type, as);
}

/* ---- tensors --------------------------------------------------------------------------------- */
static bool can(const keeper *k, tid t, coding as, uint32_t depth) {
  emodule *m = k->m;
  uint32_t q = producer_of(m, t);
  if (!q-- || et_kind(xt(m, t)->type) != K_FLOAT || xt(m, t)->output || k->p->pinned.v[t] || xs(m, q)->recurrence ||
      !depth)
    return false;
  const stage *s = xs(m, q);
  if (!s->updates.n) return s->value && (exn(m, s->value)->kind != EX_REDUCE || !red_is_arg((rop)exn(m, s->value)->op));
  if (s->value || !is_placement(k->p, q)) return false;
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const ex_node *l = exn(m, s->updates.v[i].value);
    if (l->kind != EX_LOAD || l->otherwise) return false;
    const tid codes = kept(k, l->tensor);
    const coding has = kept_form(k, codes);
    if (codes ? has.type != as.type || has.zero != as.zero : !can(k, l->tensor, as, depth - 1)) return false;
  }
  return true;
}
bool keep_can(const keeper *k, tid t, coding as) { return !kept(k, t) && can(k, t, as, DEPTH); }
void keep_stage(keeper *k, tid t, coding as) {
  emodule *m = k->m;
  const tensor x = *xt(m, t);
  const uint32_t s = x.stage;
  if (kept(k, t)) return;
  const tid r = expr_tensor(m, TK_STAGE, as.type, x.shape, x.rank, x.name, x.origin);
  map_putu(k->to, t, r);
  note_form(k, r, as);
  map_putu(k->stages, s, r);
  xt(m, r)->stage = s;
  xs(m, s)->tensor = r;
  for (uint32_t i = 0; i < xs(m, s)->updates.n; i++) keep_stage(k, exn(m, xs(m, s)->updates.v[i].value)->tensor, as);
}
void keep_constant(keeper *k, tid t, tid codes, coding as) {
  map_putu(k->to, t, codes);
  note_form(k, codes, as);
}
tid keep_copy(keeper *k, uint32_t reader, tid t, coding as) {
  emodule *m = k->m;
  const tensor x = *xt(m, t);
  const uint32_t blk = xs(m, reader)->block;
  const char *name = arena_fmt(k->p->a, "%u %u %s %lld", t, blk, et_name(as.type), (long long)as.zero);
  uint64_t had;
  if (map_gets(k->copies, name, &had)) return (tid)had;
  axis *ax = NEWN(m->a, axis, x.rank + 1);
  sz *idx = NEWN(k->p->a, sz, x.rank + 1);
  for (uint32_t i = 0; i < x.rank; i++) ax[i] = expr_axis1(m, "i", x.shape[i], &idx[i]);
  const tid r =
      expr_tensor(m, TK_STAGE, as.type, x.shape, x.rank, arena_fmt(m->a, "%s.%s", x.name, et_name(as.type)), x.origin);
  const uint32_t s = expr_stage(m, blk, r, ax, x.rank, keep_code(k->p, expr_load(m, t, idx, x.rank, 0), as));
  m->blocks.v[blk].items.n--; /* appended by expr_stage; it stands in front of the reader instead */
  vec_push(k->p->keep, k->p->pend, ((pending){reader, s}));
  note_form(k, r, as);
  vec_push(k->p->a, k->copy_stages, s);
  map_puts(k->copies, name, r);
  return r;
}

/* ---- readers and writers --------------------------------------------------------------------- */
static ex read_kept(void *env, emodule *m, ex e) {
  keeper *k = env;
  const ex_node *n = exn(m, e);
  const tid t = n->kind == EX_LOAD ? kept(k, n->tensor) : 0;
  return t && xt(m, t)->kind == TK_STAGE ? keep_read(k, e, t) : e;
}
void keep_end(keeper *k, const u32vec *order) {
  emodule *m = k->m;
  for (uint32_t i = 0; i < order->n; i++) {
    const uint32_t s = order->v[i];
    uint64_t made;
    stage_rewrite(m, s, &(ex_map){.node = read_kept, .env = k});
    if (!map_getu(k->stages, s, &made)) continue;
    const coding as = kept_form(k, (tid)made);
    for (uint32_t q = 0; q < xs(m, s)->updates.n; q++) {
      const ex v = keep_code(k->p, xs(m, s)->updates.v[q].value, as);
      xs(m, s)->updates.v[q].value = v;
    }
    if (!xs(m, s)->value) continue;
    const ex v = keep_code(k->p, xs(m, s)->value, as);
    xs(m, s)->value = v;
  }
  for (uint32_t i = 0; i < k->copy_stages.n; i++) /* of tensors that are kept in another form, too */
    stage_rewrite(m, k->copy_stages.v[i], &(ex_map){.node = read_kept, .env = k});
  pass_flush(k->p);
  pass_index(k->p);
}
