/* Which sums of products are computed in integers?
 *
 * A quantised model multiplies whole numbers of eight bits; its scales have left the sums (pass_factor.c). Where an
 * instruction of the target multiplies integers of two types and adds the products to 32-bit integers, and the whole
 * values of each factor of a sum are no more than its type has, the sum is one of such codes: a factor x is kept as
 * u + a, the other one, y, as v + b, where u and v are of these types (u8 and i8; i16 and i16),
 *
 *   sum x*y = sum u*v + a * sum v + b * sum u + a*b * points
 *
 * The first sum is left to the instruction; it is exact, whatever the order, as long as it fits 32 bits. The others are
 * constants, or have a variable less than the first: each is computed once. Where a type holds a factor as it is, zero
 * point and all, a or b is 0. So it is with integer formulas (MatMulInteger, ConvInteger), and with floats that are
 * whole numbers by their formula, whose sums were rounded before: these become at most more exact.
 *
 * A stage whose values are a factor stores codes (keep.h), and everybody reads these; a place outside of a tensor,
 * where the factor is 0, reads the code that stands for 0. Needs scale, which has put what is constant behind the sums;
 * before inline, which takes the correction to those who read the sum. */
#include "passes/interval.h"
#include "passes/keep.h"
#include "passes/pass_const.h"
#include <math.h>

typedef struct code_factor {
  ex value;    /* the factor in the sum */
  ex load;     /* what is read of it; 0: it is made of constants */
  ex add;      /* the factor is what is read + this i32; 0: + 0 */
  int64_t lo;  /* least value of what is read */
  int64_t hi;  /* greatest value of what is read */
  coding form; /* of the codes: what is read is a code + form.zero */
  tid codes;   /* tensor of the codes, where it is another one than `load` reads and no stage stores them itself */
} code_factor;
typedef struct code_sum {
  uint32_t s;       /* stage of the sum */
  code_factor f[2]; /* factors: operands 1 and 2 of the instruction */
} code_sum;
typedef struct integers {
  pw *p;                 /* the run of passes */
  emodule *m;            /* the module */
  keeper k;              /* what is kept in codes */
  const instruction *by; /* what multiplies integers; NULL: nothing does */
} integers;

/* ---- which sums ------------------------------------------------------------------------------ */
enum {
  MOST_ADDED = 1 << 15, /* to what is read of a factor */
  MOST_CODE_BITS = 16   /* of operands of an instruction */
};
static bool any_of(const u32vec *a, const u32vec *b) {
  for (uint32_t i = 0; i < a->n; i++)
    if (vec_has(b, a->v[i])) return true;
  return false;
}
static bool is_integer(etype t) { return et_kind(t) == K_INT || et_kind(t) == K_UINT; }
/* Does a conversion keep all the values that there may be? */
static bool keeps_values(pw *p, ex converted, ex value) {
  const interval from = interval_of(p, value), to = interval_of(p, converted);
  return from.known && from.whole && to.known && from.lo == to.lo && from.hi == to.hi;
}
/* value = load + *add: what is read, converted and moved by what the sum's variables do not change; *add: an i32, 0: it
 * is not moved. 0: it has no such form */
static ex moved_load(integers *k, ex value, const u32vec *reduced, ex *add) {
  emodule *m = k->m;
  const ex_node n = *exn(m, value);
  *add = 0;
  if (n.kind == EX_LOAD) return value;
  if (n.kind != EX_OP) return 0;
  if (n.op == OP_CAST) return keeps_values(k->p, value, n.args[0]) ? moved_load(k, n.args[0], reduced, add) : 0;
  if (et_kind((etype)n.type) != K_FLOAT && et_bits((etype)n.type) < 32) return 0; /* sums may wrap */
  for (int i = 0; i < 2 && (n.op == OP_ADD || n.op == OP_SUB); i++) {
    u32vec vars = {0};
    ex inner, by = n.args[1 - i];
    const interval v = interval_of(k->p, by);
    expr_vars(m, by, k->p->a, &vars);
    if ((n.op == OP_SUB && i == 1) || !v.known || !v.whole || fmax(fabs(v.lo), fabs(v.hi)) > MOST_ADDED ||
        any_of(&vars, reduced))
      continue;
    const ex load = moved_load(k, n.args[i], reduced, &inner);
    if (!load) continue;
    by = whole_as_i32(m, by);
    if (n.op == OP_SUB) by = expr_op1(m, OP_NEG, by);
    *add = inner ? expr_op2(m, OP_ADD, inner, by) : by;
    return load;
  }
  return 0;
}
/* The part of v, if it is known, that lies in `all`. */
static interval within(interval v, interval all) {
  return v.known && v.whole ? (interval){true, true, fmax(v.lo, all.lo), fmin(v.hi, all.hi)} : all;
}
/* Whole values, no more than codes of that type hold? */
static bool code_factor_of(integers *k, ex value, const u32vec *reduced, etype type, code_factor *out) {
  pw *p = k->p;
  const bool constant = const_value(p, value);
  interval v;
  *out = (code_factor){.value = value};
  if (!constant) out->load = moved_load(k, value, reduced, &out->add);
  if (!constant && !out->load) return false;
  const tid codes = constant ? 0 : kept(&k->k, exn(k->m, out->load)->tensor);
  v = interval_of(p, constant ? value : out->load);
  if (codes) v = within(v, keep_interval(kept_form(&k->k, codes)));
  if (!v.known || !v.whole || v.hi - v.lo > (double)(code_last(type) - code_first(type))) return false;
  out->lo = (int64_t)v.lo, out->hi = (int64_t)v.hi;
  return true;
}
/* The largest value of a factor, whatever its sign. */
static double most_of(integers *k, const code_factor *f) {
  const double read = fmax(fabs((double)f->lo), fabs((double)f->hi));
  if (!f->add) return read;
  const interval v = interval_of(k->p, f->add);
  return v.known ? read + fmax(fabs(v.lo), fabs(v.hi)) : HUGE_VAL;
}
/* Is it a sum of products of what the instruction multiplies already? */
static bool is_multiplied(integers *k, const ex_node *red) {
  emodule *m = k->m;
  const ex_node *body = exn(m, red->body);
  etype t[2];
  if (red->type != ET_I32 || body->kind != EX_OP || body->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++) {
    const ex_node *c = exn(m, body->args[i]);
    if (c->kind != EX_OP || c->op != OP_CAST || exn(m, c->args[0])->kind != EX_LOAD) return false;
    t[i] = (etype)exn(m, c->args[0])->type;
  }
  const etype a = k->by->operands[1].type, b = k->by->operands[2].type;
  return (t[0] == a && t[1] == b) || (t[0] == b && t[1] == a);
}
static bool match(integers *k, uint32_t s, code_sum *out) {
  emodule *m = k->m;
  pw *p = k->p;
  roles r;
  int64_t points = 1;
  if (!stage_is_reduce(p, s) || !expr_roles(m, s, p->a, &r)) return false;
  const ex_node red = *exn(m, r.red);
  if ((r.cls != KC_CONTRACTION && r.cls != KC_MATVEC) || !r.two || red.op != RED_SUM || red.where || r.a.n != 1 ||
      r.b.n != 1)
    return false;
  if (red.type != ET_F32 && red.type != ET_I32) return false;
  for (uint32_t i = 0; i < red.nargs; i++)
    points = sat_mul64(points, sym_int_or(p->c, sym_extent(p->c, red.args[i]), INT64_MAX));
  *out = (code_sum){.s = s};
  u32vec reduced = {0};
  for (uint32_t i = 0; i < red.nargs; i++) vec_push(p->a, reduced, red.args[i]);
  const etype t[2] = {k->by->operands[1].type, k->by->operands[2].type};
  if (!code_factor_of(k, r.a.v[0], &reduced, t[0], &out->f[0]) ||
      !code_factor_of(k, r.b.v[0], &reduced, t[1], &out->f[1]))
    return false;
  /* integers wrap where the formula does, floats do not */
  if (red.type == ET_F32 && (double)points * most_of(k, &out->f[0]) * most_of(k, &out->f[1]) >= 0x1p31) return false;
  bool last;
  return out->f[0].load && keep_groups(p, &r, out->f[0].load, k->by->group, false, &last) && !is_multiplied(k, &red);
}

/* ---- codes ----------------------------------------------------------------------------------- */
/* How values lo..hi are kept in codes of a type; 0, which stands outside of tensors, gets a code if it can. */
static coding form_for(etype t, int64_t lo, int64_t hi) {
  const int64_t first = code_first(t), all = code_last(t), low = lo > 0 && hi <= all - first ? 0 : lo;
  if (low >= first && hi <= all && lo >= first) return (coding){t, 0};
  return (coding){t, low - first};
}
static bool outside_fits(integers *k, const code_factor *f) {
  const ex o = exn(k->m, f->load)->otherwise;
  if (!o) return true;
  const interval v = interval_of(k->p, o);
  const interval all = keep_interval(f->form);
  return v.known && v.whole && v.lo >= all.lo && v.hi <= all.hi;
}
/* Chooses the codes of a factor that is read, of that type. */
static bool choose(integers *k, const code_sum *q, code_factor *f, etype want) {
  const tid t = exn(k->m, f->load)->tensor;
  const etype has = xt(k->m, t)->type;
  if (has == want) {
    f->form = (coding){want, 0};
    return outside_fits(k, f);
  }
  f->form = is_integer(has) && et_bits(has) <= et_bits(want) ? form_for(want, code_first(has), code_last(has))
                                                             : form_for(want, f->lo, f->hi);
  if (kept(&k->k, t) && kept_form(&k->k, kept(&k->k, t)).type == want) {
    f->form = kept_form(&k->k, kept(&k->k, t));
    return outside_fits(k, f);
  }
  if (!outside_fits(k, f)) return false;
  if (pass_reads_recurrence(k->p, f->load, xs(k->m, q->s)->recurrence)) {
    u32vec vars = {0};
    expr_vars(k->m, f->load, k->p->a, &vars);
    pass_stage_over(k->p, q->s, vars.v, vars.n, expr_fresh(k->m, keep_code(k->p, f->load, f->form)), "code", &f->load);
    return true;
  }
  if (keep_can(&k->k, t, f->form))
    keep_stage(&k->k, t, f->form);
  else
    f->codes = keep_copy(&k->k, q->s, t, f->form);
  return true;
}
/* The constant t in codes, beside it. */
static tid constant_codes(integers *k, tid t, coding as) {
  emodule *m = k->m;
  const tid had = kept(&k->k, t);
  const tensor x = *xt(m, t);
  int64_t n;
  if (had && kept_form(&k->k, had).type == as.type && kept_form(&k->k, had).zero == as.zero) return had;
  if (x.type == as.type && !as.zero) return t;
  ndarray d = x.data;
  if (!nd_count(&d, &n)) return 0;
  const bool bytes = x.narrow.type != ET_NONE;
  const etype from = bytes ? x.narrow.type : x.type;
  const uint8_t *v = bytes ? x.narrow.from.p : expr_data(m, t)->data;
  const size_t size = et_bytes(as.type);
  if (from != as.type || as.zero) {
    uint8_t *to = arena_alloc(m->a, (size_t)n * size + 1);
    for (int64_t i = 0; i < n; i++) {
      const scalar s = et_load(from, v + i * et_bytes(from));
      et_store(as.type, to + (size_t)i * size,
               (scalar){.i = (et_kind(from) == K_FLOAT ? (int64_t)s.f : s.i) - as.zero});
    }
    v = to;
  }
  d.type = as.type, d.data = v, d.bytes = (size_t)n * size, d.file = NULL, d.offset = 0;
  const tid r = expr_const_tensor(m, &d, x.name);
  keep_constant(&k->k, t, r, as);
  return r;
}
/* A constant factor in codes of that type: the constant itself, where the factor is one of its elements. */
static bool choose_constant(integers *k, const code_sum *q, code_factor *f, etype want) {
  pw *p = k->p;
  u32vec vars = {0};
  f->form = form_for(want, f->lo, f->hi);
  const ex load = moved_load(k, f->value, &(u32vec){0}, &f->add);
  if (load && !exn(k->m, load)->otherwise && (!f->add || exn(k->m, f->add)->kind == EX_CONST)) {
    const interval v = interval_of(p, load);
    f->lo = (int64_t)v.lo, f->hi = (int64_t)v.hi, f->form = form_for(want, f->lo, f->hi);
    const tid t = constant_codes(k, exn(k->m, load)->tensor, f->form);
    f->load = load, f->codes = t;
    return t != 0;
  }
  f->add = 0;
  expr_vars(k->m, f->value, p->a, &vars);
  f->load = const_make(p, q->s, vars.v, vars.n, keep_code(p, f->value, f->form));
  return f->load != 0;
}
/* The code of a factor in the sum, as an i32. */
static ex code_of(integers *k, const code_factor *f) {
  emodule *m = k->m;
  const ex_node n = *exn(m, f->load);
  const tid t = f->codes ? f->codes : kept(&k->k, n.tensor) ? kept(&k->k, n.tensor) : n.tensor;
  ex load = f->load;
  if (t != n.tensor) {
    ex other = n.otherwise ? keep_code(k->p, n.otherwise, f->form) : 0;
    load = expr_load(m, t, n.args, n.nargs, other);
  }
  return expr_cast(m, ET_I32, load);
}

/* ---- the sum --------------------------------------------------------------------------------- */
/* What a factor is beyond its code, as an i32; 0: nothing. */
static ex beyond_code(integers *k, const code_factor *f) {
  emodule *m = k->m;
  ex r = f->add;
  if (f->form.zero) r = r ? expr_op2(m, OP_ADD, r, expr_i(m, ET_I32, f->form.zero)) : expr_i(m, ET_I32, f->form.zero);
  r = r ? simplify(k->p, r) : 0;
  return r && exn(m, r)->kind == EX_CONST && exn(m, r)->k.i == 0 ? 0 : r;
}
/* The sum of a factor's codes over the sum's points, times `by`, as a value of stage s. */
static ex correction(integers *k, uint32_t s, const ex_node *red, ex code, ex by) {
  emodule *m = k->m;
  pw *p = k->p;
  u32vec vars = {0};
  ex all = expr_reduce(m, RED_SUM, red->args, red->nargs, 0, code, 0, ET_I32, ET_I32);
  expr_vars(m, all, p->a, &vars);
  if (const_value(p, all)) {
    const bool whole = exn(m, by)->kind == EX_CONST;
    const ex r = const_make(p, s, vars.v, vars.n, whole ? expr_op2(m, OP_MUL, all, by) : all);
    if (r) return whole ? r : expr_op2(m, OP_MUL, r, by);
  }
  ex load;
  pass_stage_over(p, s, vars.v, vars.n, expr_fresh(m, all), "sum", &load);
  return expr_op2(m, OP_MUL, load, by);
}
/* What the sum's value is, of the sum of products of codes `main`. */
static ex whole_of(integers *k, const code_sum *q, const ex_node *red, ex main, const ex code[2]) {
  emodule *m = k->m;
  const ex a = beyond_code(k, &q->f[0]), b = beyond_code(k, &q->f[1]);
  sz points = sym_int(k->p->c, 1);
  if (a) main = expr_op2(m, OP_ADD, main, correction(k, q->s, red, code[1], a));
  if (b) main = expr_op2(m, OP_ADD, main, correction(k, q->s, red, code[0], b));
  for (uint32_t i = 0; i < red->nargs; i++) points = sym_mul(k->p->c, points, sym_extent(k->p->c, red->args[i]));
  if (a && b && !EK_PLANTED("integer"))
    main = expr_op2(m, OP_ADD, main,
                    expr_op2(m, OP_MUL, expr_op2(m, OP_MUL, a, b), expr_cast(m, ET_I32, expr_index(m, points))));
  return expr_cast(m, (etype)red->type, main);
}
/* The stage's sum becomes a stage of its own, of codes; the stage becomes its value. */
static void rewrite(integers *k, const code_sum *q) {
  emodule *m = k->m;
  pw *p = k->p;
  const ex_node red = *exn(m, xs(m, q->s)->value);
  const ex code[2] = {code_of(k, &q->f[0]), code_of(k, &q->f[1])};
  const ex body = expr_op2(m, OP_MUL, code[0], code[1]);
  const ex main = expr_reduce(m, RED_SUM, red.args, red.nargs, 0, body, 0, ET_I32, ET_I32);
  const ex load = pass_stage_own(p, q->s, main, "dot");
  pass_set(p, q->s, simplify(p, whole_of(k, q, &red, load, code)));
}
/* The instruction of the target that adds most products of integers to i32 in a cycle. */
static const instruction *integer_products(const target *t) {
  const instruction *best = NULL;
  for (uint32_t i = 0; i < t->instructions.n; i++) {
    const instruction *k = &t->instructions.v[i];
    bool narrow = instruction_multiplies(k, ET_I32);
    for (uint32_t o = 1; o < k->noperands; o++)
      narrow &= is_integer(k->operands[o].type) && et_bits(k->operands[o].type) <= MOST_CODE_BITS;
    if (narrow && (!best || instruction_speed(k) > instruction_speed(best))) best = k;
  }
  return best;
}
bool pass_integer(pw *p) {
  emodule *m = p->m;
  integers k = {p, m, keep_begin(p), integer_products(p->t)};
  const etype a = k.by ? k.by->operands[1].type : ET_NONE, b = k.by ? k.by->operands[2].type : ET_NONE;
  VEC(code_sum) all = {0};
  u32vec order = {0};
  if (!k.by) return false;
  interval_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    code_sum q;
    if (!match(&k, order.v[i], &q) || !pass_spend(p)) continue;
    if (q.f[1].load ? !choose(&k, &q, &q.f[1], b) : !choose_constant(&k, &q, &q.f[1], b)) continue;
    if (choose(&k, &q, &q.f[0], a)) vec_push(p->a, all, q);
  }
  const bool extremes = extremes_kept(&k.k, &order);
  for (uint32_t i = 0; i < all.n; i++) rewrite(&k, &all.v[i]);
  keep_end(&k.k, &order);
  whole_values(p, &order);
  return all.n > 0 || extremes;
}
