/* Which instruction of the target computes the innermost part of a sum?
 *
 * An instruction adds to each lane the sum of a group of terms (target/instruction.h). It computes a sum of a stage
 * where both formulas are the same: the term of one is matched with the term of the other, operands of commutative
 * operations in any order, conversions that keep every value left out. Each operand of the instruction is then a load
 * of the stage. Of the sum's innermost variable as many values as a group has are taken at once:
 *   - a load that follows the lanes lies packed so that a lane's values of a group are side by side, one word
 *     (packing.group); a constant when the model is compiled, another operand a panel at a time, unless its tensor
 *     lies so already
 *   - of a load that is equal for all lanes a group lies side by side in memory; the word is read as one, and
 *     broadcast
 * What is left of a sum whose length is no multiple of a group is one more group, filled up with zeros on both sides:
 * so it does only where that adds nothing. */
#include "schedule/kernel_in.h"
#include <string.h>

/* ---- formulas ----------------------------------------------------------------------------------- */
/* Does a conversion keep every value? */
static bool widens(etype from, etype to) {
  if (EK_PLANTED("schedule-widens")) return true;
  if (et_kind(from) == K_FLOAT || et_kind(to) == K_FLOAT)
    return et_kind(from) == et_kind(to) && (to == ET_F64 || to == ET_F32) && et_bits(from) <= et_bits(to) &&
           et_bytes(from) >= 2;
  if (from == ET_BOOL || to == ET_BOOL) return from == to;
  return et_kind(from) == et_kind(to) ? et_bits(from) <= et_bits(to)
                                      : et_kind(from) == K_UINT && et_bits(from) < et_bits(to);
}
static ex unwidened(const emodule *m, ex x) {
  for (const ex_node *n; (n = exn(m, x))->kind == EX_OP && n->op == OP_CAST;) {
    const ex from = n->args[0];
    if (!widens((etype)exn(m, from)->type, (etype)n->type)) break;
    x = from;
  }
  return x;
}
static uint32_t unwidened_node(const instruction *k, uint32_t i) {
  while (k->nodes[i].kind == IN_OP && k->nodes[i].op == OP_CAST &&
         widens(k->nodes[k->nodes[i].args[0]].type, k->nodes[i].type))
    i = k->nodes[i].args[0];
  return i;
}
/* Is x what value i of the formula computes? Sets the loads that its operands are, which are 0 at first. */
static bool matches(const emodule *m, const instruction *k, ex x, uint32_t i, ex *operand) {
  if (exn(m, x)->type != k->nodes[i].type) return false;
  x = unwidened(m, x), i = unwidened_node(k, i);
  const ex_node *n = exn(m, x);
  const instruction_node *f = &k->nodes[i];
  if (n->type != f->type) return false;
  if (f->kind == IN_OPERAND) {
    if (n->kind != EX_LOAD || (operand[f->operand] && operand[f->operand] != x)) return false;
    operand[f->operand] = x;
    return true;
  }
  if (f->kind == IN_CONST)
    return n->kind == EX_CONST && (et_kind(f->type) == K_FLOAT ? n->k.f == f->k.f : n->k.i == f->k.i);
  if (n->kind != EX_OP || n->op != f->op) return false;
  for (uint32_t order = 0; order < (instruction_commutes(f->op) ? 2u : 1u); order++) {
    ex before[INSTRUCTION_OPERANDS];
    bool all = true;
    memcpy(before, operand, sizeof before);
    for (uint32_t j = 0; j < n->nargs && all; j++) all = matches(m, k, n->args[order ? 1 - j : j], f->args[j], operand);
    if (all) return true;
    memcpy(operand, before, sizeof before);
  }
  return false;
}
static bool computes(const emodule *m, const instruction *k, const ex_node *red, ex *operand) {
  memset(operand, 0, INSTRUCTION_OPERANDS * sizeof *operand);
  return k->usable && red->kind == EX_REDUCE && red->op == RED_SUM && !red->where && red->acc == k->operands[0].type &&
         matches(m, k, red->body, k->nnodes - 1, operand);
}
const instruction *instruction_of_sum(const splan *p, const ex_node *red, uint32_t lanes, const char *name) {
  const target *t = p->t;
  const instruction *best = NULL;
  ex operand[INSTRUCTION_OPERANDS];
  for (uint32_t i = 0; i < t->instructions.n; i++) {
    const instruction *k = &t->instructions.v[i];
    if (k->lanes == lanes && (!name || !strcmp(name, k->name)) && computes(p->m, k, red, operand) &&
        (!best || instruction_speed(k) > instruction_speed(best)))
      best = k;
  }
  return best;
}

/* ---- places ------------------------------------------------------------------------------------- */
/* Where the group of a load's values of var stands that the current one begins: the load needs no condition, and its
 * neighbours lie side by side. */
static bool group_address(ectx *e, ex x, atom var, sz *address) {
  const ex_node *n = exn(e->m, x);
  sz idx[MAX_RANK], coef;
  return view_plain(&e->view, x, idx) &&
         sym_linear(e->c, *address = view_address(e->c, view_layout(&e->view, n->tensor), idx), var, &coef, NULL) &&
         sym_eq(e->c, coef, sym_int(e->c, 1));
}
/* Do the groups of neighbouring lanes lie side by side, and is the variable's range one group? */
static bool lies_in_words(ectx *e, const nest *n, ex x, const tensorised *k) {
  sz at, coef;
  return group_address(e, x, k->var, &at) && sym_linear(e->c, at, n->lane.var, &coef, NULL) &&
         sym_eq(e->c, coef, sym_int(e->c, k->by->group)) && k->by->group > 1 &&
         sym_eq(e->c, sym_extent(e->c, k->var), sym_int(e->c, k->by->group));
}
/* Why the instruction cannot compute the sum of stage i in this nest; NULL: it can, as far as its operands along the
 * lanes will be packed. */
static const char *cannot(ectx *e, const nest *n, uint32_t i, const instruction *by, tensorised *out) {
  const ex_node all = *exn(e->m, xs(e->m, n->stages.v[i])->value), *red = &all; /* nodes move as others are made */
  const u32vec *vars = &n->reds[i];
  factored room;
  *out = (tensorised){.by = by, .stage = i, .var = vars->n ? vars->v[vars->n - 1] : 0};
  if (out->var) red = sum_of_integers(&e->view, &all, out->var, &room);
  out->factored = red != &all;
  if (!computes(e->m, by, red, out->operand)) return "the innermost loop of the sum has another formula";
  if (out->factored && (n->windows[i] || sym_int_or(e->c, sym_extent(e->c, out->var), 1) % by->group))
    return "the innermost variable of the sum does not have whole groups of values";
  if (!n->lane.var || n->lane_reduced || n->lanes != by->lanes) return "the lanes are not those of the nest";
  if (!out->var) return "the sum has one term";
  if (expr_range(e->m, out->var)) return "the innermost variable of the sum has a range";
  if (sym_int_or(e->c, sym_extent(e->c, out->var), by->group) < by->group)
    return "the innermost variable of the sum has fewer values than a group";
  if (et_kind((etype)red->acc) == K_FLOAT && sym_int_or(e->c, sym_extent(e->c, out->var), 1) % by->group)
    return "the innermost variable of the sum does not have whole groups of values";
  if (n->blocking.panels && n->blocking.var == out->var && by->group > 1)
    return "the innermost variable of the sum is divided into parts";
  uint32_t lanes = 0;
  for (uint32_t o = 1; o < by->noperands; o++) {
    const ex x = out->operand[o];
    sz at;
    out->lane[o] = value_uses(&e->view, x, n->lane.var);
    out->words[o] = out->lane[o] && lies_in_words(e, n, x, out);
    lanes += out->lane[o];
    if (out->lane[o] ? n->row.var && value_uses(&e->view, x, n->row.var) : !group_address(e, x, out->var, &at))
      return out->lane[o] ? "an operand follows both lanes and rows"
                          : "an operand does not lie side by side along the innermost variable of the sum";
  }
  return lanes == 1 ? NULL : "it is not one operand that follows the lanes";
}
void kernel_instructions(kctx *k, nest *n) {
  ectx *e = &k->e;
  uint32_t at = 0;
  n->computable = NEWN(k->a, bool, n->stages.n);
  for (uint32_t i = 0; i < n->stages.n; i++) {
    const ex_node red = *exn(k->m, xs(k->m, n->stages.v[i])->value); /* nodes move as others are made */
    factored room;
    if (red.kind != EX_REDUCE) continue;
    const directive *d = stated_next(k, &n->stages, P_INSTRUCTION, &at);
    const char *name = d && !directive_is(d, 0, "none") ? d->words.v[0] : NULL;
    const instruction *by = instruction_of_sum(e->p, sum_of_integers(&e->view, &red, 0, &room), n->lanes, name);
    tensorised to;
    if (name && !target_instruction(e->p->t, name)) kernel_refuse(k, d, "the target has no instruction %s", name);
    if (name && !by && !EK_PLANTED("follow-instruction"))
      kernel_refuse(k, d, "%s does not compute this sum with %u lanes", name, n->lanes);
    n->computable[i] = by != NULL;
    if (!by || directive_is(d, 0, "none")) continue;
    const char *why = cannot(e, n, i, by, &to);
    if (why && name) kernel_refuse(k, d, "%s: %s", name, why);
    if (!why) vec_push(k->a, n->tensorised, to);
  }
}
void kernel_instructions_packed(kctx *k, nest *n) {
  for (uint32_t q = n->tensorised.n; q-- > 0;) {
    const tensorised *t = &n->tensorised.v[q];
    bool all = true;
    for (uint32_t o = 1; o < t->by->noperands; o++) {
      bool packed = !t->lane[o] || t->words[o];
      for (uint32_t i = 0; i < n->packs.n; i++)
        packed |= n->packs.v[i].stage == t->stage && n->packs.v[i].load == t->operand[o] && n->packs.v[i].group;
      all &= packed;
    }
    if (all) continue;
    /* a constant without elements is not packed, and neither is what few rows read */
    for (uint32_t at = 0, i = 0; i <= t->stage; i++) {
      if (exn(k->m, xs(k->m, n->stages.v[i])->value)->kind != EX_REDUCE) continue;
      const directive *d = stated_next(k, &n->stages, P_INSTRUCTION, &at);
      if (d && i == t->stage) kernel_refuse(k, d, "%s: an operand along the lanes is not packed", t->by->name);
    }
    n->tensorised.v[q] = n->tensorised.v[--n->tensorised.n];
  }
}
const tensorised *instruction_of(const nest *n, uint32_t stage, ex lane) {
  for (uint32_t i = 0; i < n->tensorised.n; i++) {
    const tensorised *t = &n->tensorised.v[i];
    if (t->stage != stage) continue;
    for (uint32_t o = 1; o < t->by->noperands; o++)
      if (!lane || (t->lane[o] && t->operand[o] == lane)) return t;
  }
  return NULL;
}

bool instruction_reads_words(const nest *n, uint32_t stage, ex lane) {
  const tensorised *t = instruction_of(n, stage, lane);
  for (uint32_t o = 1; t && o < t->by->noperands; o++)
    if (t->operand[o] == lane) return t->words[o];
  return false;
}

/* ---- emission ----------------------------------------------------------------------------------- */
static etype unsigned_of(uint32_t bytes) {
  return bytes == 1 ? ET_U8 : bytes == 2 ? ET_U16 : bytes == 4 ? ET_U32 : ET_U64;
}
lv instruction_put(ectx *e, lv word, ltype w, lv x, uint32_t place) {
  lbuild *b = &e->b;
  const ltype t = li(e->f, x)->type;
  const uint32_t bytes = et_bytes((etype)t.elem);
  const etype part = unsigned_of(bytes);
  if ((etype)t.elem != part) x = lb_op(b, OP_BITCAST, lt(part, t.lanes), x, 0, 0);
  if (part != (etype)w.elem) x = lb_op(b, OP_CAST, w, x, 0, 0);
  if (place) x = lb_op(b, OP_SHL, w, x, lb_const(b, w, (scalar){.i = (int64_t)place * bytes * 8}), 0);
  return word ? lb_op(b, OP_BOR, w, word, x, 0) : x;
}
ltype instruction_word_type(const instruction *by, uint32_t operand, uint32_t lanes) {
  return lt(unsigned_of(instruction_word(by, operand)), lanes);
}
/* The first `rest` elements of the group that the current one begins, the others are 0. */
static lv part_of_word(ectx *e, const tensorised *k, uint32_t o, lv rest) {
  const ex_node *n = exn(e->m, k->operand[o]);
  const ltype w = instruction_word_type(k->by, o, 1);
  scalar count;
  const bool known = loop_const(e->f, rest, &count);
  lbuild *b = &e->b;
  sz address;
  group_address(e, k->operand[o], k->var, &address);
  lv from = emit_source(e, n->tensor), at = emit_size(e, address), reg = lb_reg(b, lb_const(b, w, (scalar){.i = 0}));
  for (uint32_t j = 0; j + 1 < k->by->group && !(known && j >= (uint32_t)count.i); j++) {
    if (!known) lb_if(b, lb_cmp(b, OP_GT, rest, lb_int(b, j)));
    lv x = lb_load(b, lt((etype)n->type, 1), from, lb_addi(b, at, j));
    lb_set(b, reg, instruction_put(e, lb_get(b, reg), w, x, j));
    if (!known) lb_end(b);
  }
  return lb_get(b, reg);
}
/* The same where `count` elements are left behind whole groups: the word that ends with them, moved down. */
static lv end_of_word(ectx *e, const tensorised *k, uint32_t o, int64_t count) {
  const ltype w = instruction_word_type(k->by, o, 1);
  const ex_node *n = exn(e->m, k->operand[o]);
  const int64_t before = k->by->group - count;
  lbuild *b = &e->b;
  sz address;
  group_address(e, k->operand[o], k->var, &address);
  const lv first = lb_addi(b, emit_size(e, address), -before),
           at = lb_ptrcast(b, (etype)w.elem, lb_offset(b, emit_source(e, n->tensor), first)),
           word = lb_load_ex(b, w, at, lb_int(b, 0), 0, 0, 0, et_bytes((etype)n->type));
  const int64_t bits = EK_PLANTED("schedule-last-word") ? 0 : before * et_bits((etype)n->type);
  return lb_op(b, OP_SHR, w, word, lb_const(b, w, (scalar){.i = bits}), 0);
}
/* The group of a load that all lanes share, which the current value of the variable begins. */
static lv shared_word(ectx *e, const tensorised *k, uint32_t o, lv rest) {
  lbuild *b = &e->b;
  const ltype w = instruction_word_type(k->by, o, 1);
  const ex_node *n = exn(e->m, k->operand[o]);
  scalar left;
  sz address;
  if (rest && sym_is_int(e->c, sym_extent(e->c, k->var), NULL) && loop_const(e->f, rest, &left))
    return lb_splat(b, (uint16_t)e->lanes, end_of_word(e, k, o, left.i));
  if (rest) return lb_splat(b, (uint16_t)e->lanes, part_of_word(e, k, o, rest));
  group_address(e, k->operand[o], k->var, &address);
  const lv at = lb_ptrcast(b, (etype)w.elem, lb_offset(b, emit_source(e, n->tensor), emit_size(e, address)));
  return lb_splat(b, (uint16_t)e->lanes, lb_load_ex(b, w, at, lb_int(b, 0), 0, 0, 0, et_bytes((etype)n->type)));
}
/* The words of all vectors of an operand along the lanes that lie in its tensor. */
static void stored_words(ectx *e, const tensorised *k, uint32_t o, const register_tile *t, lv *words) {
  const ltype w = instruction_word_type(k->by, o, e->lanes);
  const tid from = exn(e->m, k->operand[o])->tensor;
  sz address, at;
  group_address(e, k->operand[o], k->var, &address);
  sym_linear(e->c, address, k->var, &at, &address); /* its only group begins at 0 */
  if (EK_PLANTED("schedule-stored-words")) address = sym_int(e->c, 0);
  if (!sym_exact_div(e->c, address, sym_int(e->c, k->by->group), &at)) ctx_bug(e->c, "schedule: words begin elsewhere");
  const lv words_of = lb_ptrcast(&e->b, (etype)w.elem, emit_source(e, from));
  for (e->v = 0; e->v < t->nv; e->v++)
    words[e->v] = lb_load_ex(&e->b, w, words_of, emit_size(e, at), 0, e->v + 1 == t->nv ? t->count : 0, 0, 0);
  e->v = 0;
}
/* The words of all vectors of an operand along the lanes. */
static void lane_words(ectx *e, const tensorised *k, uint32_t o, const register_tile *t, lv *words) {
  const packed *p = NULL;
  const uint32_t nv = t->nv;
  const ltype w = instruction_word_type(k->by, o, e->lanes);
  sz off;
  for (uint32_t i = 0; i < e->packs.n; i++)
    if (e->packs.v[i].load == k->operand[o]) p = &e->packs.v[i];
  if (!p) {
    stored_words(e, k, o, t, words);
    return;
  }
  for (e->v = 0; e->v < nv && p->few.bits; e->v++) words[e->v] = bit_pack_word(e, p);
  e->v = 0;
  if (p->few.bits) return;
  lv from = lb_ptrcast(&e->b, (etype)w.elem, p->ptr);
  if (!sym_exact_div(e->c, p->off, sym_int(e->c, k->by->group), &off)) /* it counts whole vectors of groups */
    ctx_bug(e->c, "schedule: a pack whose groups begin elsewhere");
  for (e->v = 0; e->v < nv; e->v++)
    words[e->v] = lb_load(&e->b, w, from, lb_addi(&e->b, emit_packed(e, p, off), EK_PLANTED("schedule-instruction")));
  e->v = 0;
}
void instruction_step(ectx *e, const tensorised *k, lv acc[], const register_tile *t, lv rest) {
  lbuild *b = &e->b;
  lv wide[INSTRUCTION_OPERANDS][TILE_V], args[INSTRUCTION_OPERANDS];
  for (uint32_t o = 1; o < k->by->noperands; o++)
    if (k->lane[o]) lane_words(e, k, o, t, wide[o]);
  for (e->r = 0; e->r < t->mr; e->r++) {
    for (uint32_t o = 1; o < k->by->noperands; o++)
      if (!k->lane[o]) args[o] = shared_word(e, k, o, rest);
    for (uint32_t v = 0; v < t->nv; v++) {
      const lv to = acc[e->r * TILE_V + v];
      if (!to) continue; /* nobody reads this result */
      args[0] = lb_get(b, to);
      for (uint32_t o = 1; o < k->by->noperands; o++)
        if (k->lane[o]) args[o] = wide[o][v];
      lb_set(b, to, lb_intrin(b, k->by->name, lt(k->by->operands[0].type, e->lanes), args, k->by->noperands));
    }
  }
  e->r = 0;
}
