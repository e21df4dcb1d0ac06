/* Which sums of products are computed in integers?
 *
 * A quantised model multiplies whole numbers of eight bits; its scales have left the sums (pass_factor.c). Where the
 * target multiplies bytes and adds the products to 32-bit integers, and each factor of a sum takes at most 256 whole
 * values, the sum is one of bytes: a factor x is kept as u + a with u in u8, the other one, y, as v + b with v in i8,
 *
 *   sum x*y = sum u*v + a * sum v + b * sum u + a*b * points
 *
 * The first sum is left to the instruction; it is exact, whatever the order, as long as it fits 32 bits. The others are
 * constants, or have a variable less than the first: each is computed once. So it is with integer formulas
 * (MatMulInteger, ConvInteger), and with floats that are whole numbers by their formula, whose sums were rounded
 * before: these become at most more exact.
 *
 * A stage whose values are a factor stores bytes (keep.h), and everybody reads these; a place outside of a tensor,
 * where the factor is 0, reads the byte that stands for 0. Needs scale, which has put what is constant behind the sums;
 * before inline, which takes the correction to those who read the sum. */
#include "passes/interval.h"
#include "passes/keep.h"
#include "passes/pass_const.h"
#include <math.h>

typedef struct byte_factor {
  ex value;    /* the factor in the sum */
  ex load;     /* what is read of it; 0: it is made of constants */
  ex add;      /* the factor is what is read + this i32; 0: + 0 */
  int64_t lo;  /* least value of what is read */
  int64_t hi;  /* greatest value of what is read */
  coding form; /* of the bytes: what is read is a byte + form.zero */
  tid bytes;   /* tensor of the bytes, where it is another one than `load` reads and no stage stores them itself */
} byte_factor;
typedef struct byte_sum {
  uint32_t s;       /* stage of the sum */
  byte_factor f[2]; /* factors: of u8, of i8 */
} byte_sum;
typedef struct integers {
  pw *p;                 /* the run of passes */
  emodule *m;            /* the module */
  keeper k;              /* what is kept in bytes */
  const instruction *by; /* what multiplies bytes; NULL: nothing does */
} integers;

/* ---- which sums ------------------------------------------------------------------------------ */
enum { MOST_ADDED = 1 << 15 /* to what is read of a factor */ };
static bool any_of(const u32vec *a, const u32vec *b) {
  for (uint32_t i = 0; i < a->n; i++)
    if (vec_has(b, a->v[i])) return true;
  return false;
}
static bool is_byte(etype t) { return t == ET_U8 || t == ET_I8; }
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
/* At most 256 whole values? */
static bool byte_values(integers *k, ex value, const u32vec *reduced, byte_factor *out) {
  pw *p = k->p;
  const bool constant = const_value(p, value);
  interval v;
  *out = (byte_factor){.value = value};
  if (!constant) out->load = moved_load(k, value, reduced, &out->add);
  if (!constant && !out->load) return false;
  const tid codes = constant ? 0 : kept(&k->k, exn(k->m, out->load)->tensor);
  v = codes ? keep_interval(kept_form(&k->k, codes)) : interval_of(p, constant ? value : out->load);
  if (!v.known || !v.whole || v.hi - v.lo > 255) return false;
  out->lo = (int64_t)v.lo, out->hi = (int64_t)v.hi;
  return true;
}
/* The largest value of a factor, whatever its sign. */
static double most_of(integers *k, const byte_factor *f) {
  const double read = fmax(fabs((double)f->lo), fabs((double)f->hi));
  if (!f->add) return read;
  const interval v = interval_of(k->p, f->add);
  return v.known ? read + fmax(fabs(v.lo), fabs(v.hi)) : HUGE_VAL;
}
/* Is it a sum of products of a u8 and an i8 already? */
static bool is_bytes(integers *k, const ex_node *red) {
  emodule *m = k->m;
  const ex_node *body = exn(m, red->body);
  uint32_t seen = 0;
  if (red->type != ET_I32 || body->kind != EX_OP || body->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++) {
    const ex_node *c = exn(m, body->args[i]);
    if (c->kind != EX_OP || c->op != OP_CAST || exn(m, c->args[0])->kind != EX_LOAD) return false;
    const etype t = (etype)exn(m, c->args[0])->type;
    seen |= t == ET_U8 ? 1 : t == ET_I8 ? 2 : 4;
  }
  return seen == 3;
}
static bool match(integers *k, uint32_t s, byte_sum *out) {
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
  *out = (byte_sum){.s = s};
  u32vec reduced = {0};
  for (uint32_t i = 0; i < red.nargs; i++) vec_push(p->a, reduced, red.args[i]);
  if (!byte_values(k, r.a.v[0], &reduced, &out->f[0]) || !byte_values(k, r.b.v[0], &reduced, &out->f[1])) return false;
  /* integers wrap where the formula does, floats do not */
  if (red.type == ET_F32 && (double)points * most_of(k, &out->f[0]) * most_of(k, &out->f[1]) >= 0x1p31) return false;
  bool last;
  return out->f[0].load && keep_groups(p, &r, out->f[0].load, k->by->group, false, &last) && !is_bytes(k, &red);
}

/* ---- bytes ----------------------------------------------------------------------------------- */
/* How values lo..hi are kept in bytes of a type; 0, which stands outside of tensors, gets a code if it can. */
static coding form_for(etype t, const byte_factor *f) {
  const int64_t first = t == ET_U8 ? 0 : -128, low = f->lo > 0 && f->hi <= 255 ? 0 : f->lo,
                all = t == ET_U8 ? 255 : 127;
  if (low >= first && f->hi <= all && f->lo >= first) return (coding){t, 0};
  return (coding){t, low - first};
}
static bool outside_fits(integers *k, const byte_factor *f) {
  const ex o = exn(k->m, f->load)->otherwise;
  if (!o) return true;
  const interval v = interval_of(k->p, o);
  const int64_t first = f->form.type == ET_U8 ? 0 : -128;
  return v.known && v.whole && v.lo - (double)f->form.zero >= (double)first &&
         v.hi - (double)f->form.zero <= (double)(first + 255);
}
/* Chooses the bytes of a factor that is read, of that type. */
static bool choose(integers *k, const byte_sum *q, byte_factor *f, etype want) {
  const tid t = exn(k->m, f->load)->tensor;
  const etype has = xt(k->m, t)->type;
  if (has == want) {
    f->form = (coding){want, 0};
    return outside_fits(k, f);
  }
  f->form = is_byte(has) ? (coding){want, has == ET_I8 ? -128 : 128} : form_for(want, f);
  if (kept(&k->k, t) && kept_form(&k->k, kept(&k->k, t)).type == want) {
    f->form = kept_form(&k->k, kept(&k->k, t));
    return outside_fits(k, f);
  }
  if (!outside_fits(k, f)) return false;
  if (keep_can(&k->k, t, f->form))
    keep_stage(&k->k, t, f->form);
  else
    f->bytes = keep_copy(&k->k, q->s, t, f->form);
  return true;
}
/* The constant t in bytes of i8, beside it. */
static tid byte_constant(integers *k, tid t, coding as) {
  emodule *m = k->m;
  const tid had = kept(&k->k, t);
  const tensor x = *xt(m, t);
  int64_t n;
  if (had) return had;
  if (x.type == ET_I8 && !as.zero) return t;
  ndarray d = x.data;
  if (!nd_count(&d, &n)) return 0;
  const bool bytes = x.narrow.type != ET_NONE;
  const etype from = bytes ? x.narrow.type : x.type;
  const uint8_t *v = bytes ? x.narrow.from.p : expr_data(m, t)->data;
  if (from != ET_I8 || as.zero) {
    int8_t *to = arena_alloc(m->a, (size_t)n + 1);
    for (int64_t i = 0; i < n; i++) {
      const scalar s = et_load(from, v + i * et_bytes(from));
      to[i] = (int8_t)((et_kind(from) == K_FLOAT ? (int64_t)s.f : s.i) - as.zero);
    }
    v = (const uint8_t *)to;
  }
  d.type = ET_I8, d.data = v, d.bytes = (size_t)n, d.file = NULL, d.offset = 0;
  const tid r = expr_const_tensor(m, &d, x.name);
  keep_constant(&k->k, t, r, as);
  return r;
}
/* A constant factor in i8: the constant itself, where the factor is one of its elements. */
static bool choose_constant(integers *k, const byte_sum *q, byte_factor *f) {
  pw *p = k->p;
  u32vec vars = {0};
  f->form = form_for(ET_I8, f);
  const ex load = moved_load(k, f->value, &(u32vec){0}, &f->add);
  if (load && !exn(k->m, load)->otherwise && (!f->add || exn(k->m, f->add)->kind == EX_CONST)) {
    const interval v = interval_of(p, load);
    f->lo = (int64_t)v.lo, f->hi = (int64_t)v.hi, f->form = form_for(ET_I8, f);
    const tid t = byte_constant(k, exn(k->m, load)->tensor, f->form);
    f->load = load, f->bytes = t;
    return t != 0;
  }
  f->add = 0;
  expr_vars(k->m, f->value, p->a, &vars);
  f->load = const_make(p, q->s, vars.v, vars.n, keep_code(p, f->value, f->form));
  return f->load != 0;
}
/* The byte of a factor in the sum, as an i32. */
static ex byte_of(integers *k, const byte_factor *f) {
  emodule *m = k->m;
  const ex_node n = *exn(m, f->load);
  const tid t = f->bytes ? f->bytes : kept(&k->k, n.tensor) ? kept(&k->k, n.tensor) : n.tensor;
  ex load = f->load;
  if (t != n.tensor) {
    ex other = n.otherwise ? keep_code(k->p, n.otherwise, f->form) : 0;
    load = expr_load(m, t, n.args, n.nargs, other);
  }
  return expr_cast(m, ET_I32, load);
}

/* ---- the sum --------------------------------------------------------------------------------- */
/* What a factor is beyond its byte, as an i32; 0: nothing. */
static ex beyond_byte(integers *k, const byte_factor *f) {
  emodule *m = k->m;
  ex r = f->add;
  if (f->form.zero) r = r ? expr_op2(m, OP_ADD, r, expr_i(m, ET_I32, f->form.zero)) : expr_i(m, ET_I32, f->form.zero);
  r = r ? simplify(k->p, r) : 0;
  return r && exn(m, r)->kind == EX_CONST && exn(m, r)->k.i == 0 ? 0 : r;
}
/* The sum of a factor's bytes over the sum's points, times `by`, as a value of stage s. */
static ex correction(integers *k, uint32_t s, const ex_node *red, ex byte, ex by) {
  emodule *m = k->m;
  pw *p = k->p;
  u32vec vars = {0};
  ex all = expr_reduce(m, RED_SUM, red->args, red->nargs, 0, byte, 0, ET_I32, ET_I32);
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
/* What the sum's value is, of the sum of products of bytes `main`. */
static ex whole_of(integers *k, const byte_sum *q, const ex_node *red, ex main, const ex byte[2]) {
  emodule *m = k->m;
  const ex a = beyond_byte(k, &q->f[0]), b = beyond_byte(k, &q->f[1]);
  sz points = sym_int(k->p->c, 1);
  if (a) main = expr_op2(m, OP_ADD, main, correction(k, q->s, red, byte[1], a));
  if (b) main = expr_op2(m, OP_ADD, main, correction(k, q->s, red, byte[0], b));
  for (uint32_t i = 0; i < red->nargs; i++) points = sym_mul(k->p->c, points, sym_extent(k->p->c, red->args[i]));
  if (a && b && !EK_PLANTED("integer"))
    main = expr_op2(m, OP_ADD, main,
                    expr_op2(m, OP_MUL, expr_op2(m, OP_MUL, a, b), expr_cast(m, ET_I32, expr_index(m, points))));
  return expr_cast(m, (etype)red->type, main);
}
/* The stage's sum becomes a stage of its own, in bytes; the stage becomes its value. */
static void rewrite(integers *k, const byte_sum *q) {
  emodule *m = k->m;
  pw *p = k->p;
  const ex_node red = *exn(m, xs(m, q->s)->value);
  const ex byte[2] = {byte_of(k, &q->f[0]), byte_of(k, &q->f[1])};
  const ex body = expr_op2(m, OP_MUL, byte[0], byte[1]);
  const ex main = expr_reduce(m, RED_SUM, red.args, red.nargs, 0, body, 0, ET_I32, ET_I32);
  const ex load = pass_stage_own(p, q->s, main, "dot");
  pass_set(p, q->s, simplify(p, whole_of(k, q, &red, load, byte)));
}
bool pass_integer(pw *p) {
  emodule *m = p->m;
  integers k = {p, m, keep_begin(p), target_products(p->t, ET_I32, ET_U8, ET_I8)};
  VEC(byte_sum) all = {0};
  u32vec order = {0};
  if (!k.by) return false;
  interval_begin(p);
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    byte_sum q;
    if (!match(&k, order.v[i], &q) || !pass_spend(p)) continue;
    if (q.f[1].load ? !choose(&k, &q, &q.f[1], ET_I8) : !choose_constant(&k, &q, &q.f[1])) continue;
    if (choose(&k, &q, &q.f[0], ET_U8)) vec_push(p->a, all, q);
  }
  const bool extremes = extremes_kept(&k.k, &order);
  for (uint32_t i = 0; i < all.n; i++) rewrite(&k, &all.v[i]);
  keep_end(&k.k, &order);
  whole_values(p, &order);
  return all.n > 0 || extremes;
}
