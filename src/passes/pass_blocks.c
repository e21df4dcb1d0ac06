/* Which sums go block by block?
 *
 * Weights of few bits are whole numbers times a scale that a block of terms has in common, perhaps less a zero point of
 * that block. As floats they would take many times their memory, and products of few rows take as long as their
 * weights take to come from memory. So the scale leaves the innermost part of the sum: with k = g*a + b,
 *
 *   sum[k] x*(q - z)*s = sum[a, b] x*q*s + sum[a] (-z*s) * sum[b] x
 *
 * where z and s hang on k only through a = k // g, or not at all: then there is one block. Then q is a constant of
 * whole numbers, or of floats of one byte, that is kept in bytes (expr/narrow.c) and packed in its bits; z*s is a
 * constant, too, and the inner sum of x is one for all columns. Of many rows, for which panels are computed once
 * (schedule/panel_value.c), a second sum would be more work than it saves:
 *
 *   sum[a, b] x*(q*s + (-z*s))
 *
 * Uses the licence that sums of floats may be reassociated. Needs factor; runs before constants are folded. */
#include "cost/cost.h"
#include "passes/pass_const.h"

enum { DEPTH = 4 /* stages that a factor is read through */ };
typedef struct blocks {
  pw *p;      /* the run of passes */
  emodule *m; /* the module */
  uint32_t s; /* the stage whose value is looked at */
  int depth;  /* stages that are being read through */
  bool any;   /* something changed */
} blocks;
typedef struct block_sum {
  ex others;  /* product of the factors that stay as they are */
  ex codes;   /* a factor of whole numbers */
  ex zero;    /* less this, which is the same in a block; 0: nothing */
  ex scale;   /* times this, which is, too */
  atom var;   /* the variable of the sum that is divided */
  atom block; /* counts its blocks; 0: there is one */
  atom place; /* counts the places of a block */
  sz by;      /* var, of these two */
  bool many;  /* panels are computed: there is one sum */
} block_sum;

/* ---- what is read ---------------------------------------------------------------------------- */
static ex open_node(void *env, emodule *m, ex e);
/* What a load of an element-wise stage reads, of constants as far as it can be followed; else the load. */
static ex opened(blocks *k, ex load) {
  emodule *m = k->m;
  pw *p = k->p;
  const ex_node n = *exn(m, load);
  const uint32_t q = n.otherwise || k->depth == DEPTH ? 0 : producer_of(m, n.tensor);
  if (!q || xs(m, q - 1)->recurrence || !stage_plain(p, q - 1) || (ex_flags(p, xs(m, q - 1)->value) & EXF_DATA))
    return load;
  const ex at = stage_at_load(p, &n, expr_fresh(m, xs(m, q - 1)->value));
  if (!at) return load;
  k->depth++;
  const ex v = expr_rewrite(m, at, &(ex_map){.node = open_node, .env = k});
  k->depth--;
  return v;
}
static ex open_node(void *env, emodule *m, ex e) { return exn(m, e)->kind == EX_LOAD ? opened(env, e) : e; }

/* Is all that is read through a tensor constant? Activations are not opened to find that out. */
static bool of_constants(blocks *k, tid t, int depth) {
  if (xt(k->m, t)->kind == TK_CONST) return true;
  const uint32_t q = depth ? producer_of(k->m, t) : 0;
  if (!q || !stage_plain(k->p, q - 1)) return false;
  const u32vec *loads = stage_loads(k->p, q - 1);
  for (uint32_t i = 0; i < loads->n; i++)
    if (!of_constants(k, exn(k->m, loads->v[i])->tensor, depth - 1)) return false;
  return true;
}

/* ---- which sums ------------------------------------------------------------------------------ */
/* The sizes of blocks that a value's indices count of a variable, the largest first. */
static void block_sizes(blocks *k, ex value, atom v, u32vec *out) {
  pw *p = k->p;
  u32vec loads = {0}, div = {0};
  int64_t g;
  sz of[3];
  expr_loads(k->m, value, p->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(k->m, loads.v[i]);
    for (uint32_t j = 0; j < n->nargs; j++) sym_atoms(p->c, n->args[j], AT_DIV, p->a, &div);
  }
  const sz at = sym_of_atom(p->c, v);
  const int64_t extent = sym_int_or(p->c, sym_extent(p->c, v), 1);
  for (uint32_t i = 0; i < div.n; i++) {
    if (sym_args(p->c, div.v[i], of) != 2 || of[0] != at || !sym_is_int(p->c, of[1], &g) || g < 2 || extent % g ||
        extent <= g || extent > INT32_MAX)
      continue;
    vec_push(p->a, *out, (uint32_t)g);
    for (uint32_t q = out->n - 1; q > 0 && out->v[q - 1] < out->v[q]; q--) {
      const uint32_t smaller = out->v[q - 1];
      out->v[q - 1] = out->v[q], out->v[q] = smaller;
    }
  }
}
/* Is it a float of one byte, of which the target makes f32 quickly? */
static bool small_float(const blocks *k, ex e) {
  const ex_node *n = exn(k->m, e);
  const etype from = n->kind == EX_OP && n->op == OP_CAST ? (etype)exn(k->m, n->args[0])->type : ET_NONE;
  return k->p->t->f16c && et_kind(from) == K_FLOAT && et_bits(from) == 8;
}
/* Takes what is the same in a block out of the factor; inside: the place in a block. */
static bool split_factor(blocks *k, ex factor, atom inside, block_sum *out) {
  emodule *m = k->m;
  u32vec f = {0};
  ex whole = 0;
  out->codes = out->scale = out->zero = 0;
  expr_operands(m, factor, OP_MUL, k->p->a, &f);
  for (uint32_t i = 0; i < f.n; i++) {
    const ex_node n = *exn(m, f.v[i]);
    if (!expr_uses(k->m, f.v[i], inside, k->p->a))
      out->scale = expr_times(m, out->scale, f.v[i]);
    else if (whole)
      return false;
    else if (n.kind == EX_OP && n.op == OP_SUB && exn(m, n.args[1])->kind != EX_CONST &&
             !expr_uses(k->m, n.args[1], inside, k->p->a))
      whole = f.v[i], out->codes = n.args[0], out->zero = n.args[1];
    else
      whole = out->codes = f.v[i];
  }
  if (!whole || !out->scale) return false;
  return small_float(k, whole) || whole_value(k->p, whole); /* last: it may look at all of a constant */
}
/* Does something that is multiplied slide over a tensor: does an index count terms of the sum and results? Such sums
 * have forms with fewer multiplications. */
static bool slides(blocks *k, const ex_node *red) {
  u32vec loads = {0};
  expr_loads(k->m, red->body, k->p->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    const ex_node *n = exn(k->m, loads.v[i]);
    for (uint32_t j = 0; j < n->nargs; j++) {
      u32vec at = {0};
      uint32_t terms = 0;
      sym_atoms(k->p->c, n->args[j], AT_VAR, k->p->a, &at);
      for (uint32_t v = 0; v < at.n; v++)
        for (uint32_t r = 0; r < red->nargs; r++) terms += red->args[r] == at.v[v];
      if (terms && terms < at.n) return true;
    }
  }
  return false;
}
/* Is it better to keep the weights small? *many: so many terms share each that panels of them are computed. */
static bool kept_small(blocks *k, const ex_node *red, ex factor, bool *many) {
  pw *p = k->p;
  u32vec all = {0}, mine = {0};
  int64_t n = 1, bytes = 4, least, most;
  expr_vars(k->m, red->body, p->a, &all), expr_vars(k->m, factor, p->a, &mine);
  for (uint32_t i = 0; i < all.n; i++) {
    const sz extent = sym_extent(p->c, all.v[i]);
    if (vec_has(&mine, all.v[i])) {
      bytes = sat_mul64(bytes, sym_int_or(p->c, extent, 1));
      continue;
    }
    sym_range(p->c, extent, &least, &most);
    n = sat_mul64(n, max64(1, least));
  }
  *many = n > p->t->memory_balance;
  if (*many && slides(k, red)) return false;
  return target_lanes(p->t, ET_F32) > 1 &&
         cost_keeps_few_bits(p->t, n, bytes, max64(bytes, expr_constant_floats(k->m)));
}
/* Is this factor of the sum the same in blocks of one of its variables, but for whole numbers? */
static bool match_factor(blocks *k, const ex_node *red, ex factor, block_sum *out) {
  pw *p = k->p;
  ctx *c = p->c;
  for (uint32_t j = 0; j < red->nargs; j++) {
    const atom v = red->args[j];
    u32vec sizes = {0};
    block_sizes(k, factor, v, &sizes);
    for (uint32_t i = 0; i < sizes.n; i++) {
      const int64_t extent = sym_int_or(c, sym_extent(c, v), 1), g = sizes.v[i];
      const sz block = sym_var(c, sym_name(c, v), sym_int(c, extent / g)),
               place = sym_var(c, sym_name(c, v), sym_int(c, g));
      sym_is_atom(c, block, &out->block), sym_is_atom(c, place, &out->place);
      out->var = v, out->by = sym_add(c, sym_muli(c, block, g), place);
      if (split_factor(k, simplify_subst(p, factor, &v, &out->by, 1), out->place, out)) return true;
    }
  }
  /* one block: what is the same for all terms of the sum */
  for (uint32_t j = 0; j < red->nargs; j++) {
    out->var = out->place = red->args[j], out->block = 0, out->by = sym_of_atom(c, out->var);
    if (!expr_uses(k->m, factor, out->var, k->p->a)) continue;
    bool one = split_factor(k, factor, out->place, out);
    for (uint32_t i = 0; i < red->nargs && one; i++)
      one = !expr_uses(k->m, out->scale, red->args[i], k->p->a) &&
            (!out->zero || !expr_uses(k->m, out->zero, red->args[i], k->p->a));
    if (one) return true;
  }
  return false;
}
static bool match(blocks *k, const ex_node *red, block_sum *out) {
  emodule *m = k->m;
  pw *p = k->p;
  u32vec f = {0};
  if (red->op != RED_SUM || red->type != ET_F32 || red->acc != ET_F32 || red->where) return false;
  expr_operands(m, red->body, OP_MUL, p->a, &f);
  for (uint32_t i = 0; i < f.n && f.n > 1; i++) {
    *out = (block_sum){0};
    const ex_node *n = exn(m, f.v[i]);
    if (n->kind != EX_LOAD || !of_constants(k, n->tensor, DEPTH)) continue;
    const ex v = simplify(p, opened(k, f.v[i]));
    if (!const_value(p, v) || !kept_small(k, red, v, &out->many) || !match_factor(k, red, v, out)) continue;
    for (uint32_t q = 0; q < f.n; q++)
      if (q != i) out->others = expr_times(m, out->others, f.v[q]);
    return true;
  }
  return false;
}

/* ---- the sums -------------------------------------------------------------------------------- */
static ex constant(blocks *k, ex value) {
  u32vec vars = {0};
  if (exn(k->m, value)->kind == EX_LOAD) return value;
  expr_vars(k->m, value, k->p->a, &vars);
  return const_make_large(k->p, k->s, vars.v, vars.n, value);
}
static ex sum_node(void *env, emodule *m, ex e) {
  blocks *k = env;
  pw *p = k->p;
  const ex_node n = *exn(m, e);
  block_sum q;
  if (n.kind != EX_REDUCE || !match(k, &n, &q) || !pass_spend(p)) return e;
  const ex codes = constant(k, q.codes), scale = codes ? constant(k, q.scale) : 0,
           zero = q.zero && scale ? constant(k, expr_op1(m, OP_NEG, expr_op2(m, OP_MUL, q.zero, q.scale))) : 0;
  if (!scale || (q.zero && !zero) || !xt(m, exn(m, codes)->tensor)->narrow.type) return e;
  const ex others = simplify_subst(p, q.others, &q.var, &q.by, 1);
  atom *vars = NEWN(p->a, atom, n.nargs + 1);
  uint32_t at = 0;
  for (uint32_t i = 0; i < n.nargs; i++)
    if (n.args[i] != q.var || q.block) vars[at++] = n.args[i] == q.var ? q.block : n.args[i];
  k->any = true;
  ex second = 0;
  if (zero && !q.many) {
    const ex inner = expr_reduce(m, RED_SUM, &q.place, 1, 0, others, 0, ET_F32, ET_F32);
    const ex term = expr_op2(m, OP_MUL, inner, zero);
    second = expr_fresh(m, at ? expr_reduce(m, RED_SUM, vars, at, 0, term, 0, ET_F32, ET_F32) : term);
  }
  vars[at++] = q.place;
  ex body = expr_op2(m, OP_MUL, expr_op2(m, OP_MUL, others, codes), scale);
  if (zero && q.many) { /* one factor, of a panel: not a constant of floats again */
    body = expr_op2(m, OP_MUL, others, expr_op2(m, OP_ADD, expr_op2(m, OP_MUL, codes, scale), zero));
    map_putu(p->codes, exn(m, codes)->tensor, 1);
  }
  const ex first = expr_reduce(m, RED_SUM, vars, at, 0, body, 0, ET_F32, ET_F32);
  return second && !EK_PLANTED("blocks") ? expr_op2(m, OP_ADD, first, second) : first;
}
bool pass_blocks(pw *p) {
  emodule *m = p->m;
  blocks k = {.p = p, .m = m};
  u32vec order = {0};
  pass_order(p, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const uint32_t s = order.v[i];
    const ex v = xs(m, s)->value;
    if (!v || xs(m, s)->updates.n || !(ex_flags(p, v) & EXF_REDUCE)) continue;
    k.s = s;
    const ex now = expr_rewrite(m, v, &(ex_map){.node = sum_node, .env = &k});
    if (now != v) pass_set(p, s, simplify(p, now));
  }
  if (k.any) pass_flush(p);
  return k.any;
}
