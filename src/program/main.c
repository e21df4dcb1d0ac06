/* The two functions of a compiled model, as loop programs. plan: sizes from the inputs' dims, checks, output bounds, memory. run: the kernels in order, with control flow; all scalar size arithmetic of the model is here,
 * once per run, as native code. */
#include "program/program.h"
#include <string.h>

typedef struct mb {
  program *p;
  splan *s;
  emodule *m;
  ctx *c;
  arena *a;
  lbuild b;
  bool plan;
  map *syms;   /* atom -> value */
  lv arena_p, weights_p, threads, scratch_p;
} mb;

static lv size(mb *k, sz e);
static lv atom_value(mb *k, atom a) {
  uint64_t got;
  if (map_getu(k->syms, a, &got)) return (lv)got;
  sz def, g[3];
  switch (sym_kind(k->c, a)) {
  case AT_SYMBOL:
    if (sym_definition(k->c, a, &def)) return size(k, def);
    if (k->plan)
      for (uint32_t i = 0; i < k->m->lates.n; i++)
        if (k->m->lates.v[i].symbol == a) return size(k, k->m->lates.v[i].bound);
    ctx_bug(k->c, "program: size %s is not known at this point", sym_name(k->c, a));
  case AT_DIV: {
    sym_args(k->c, a, g);
    return lb_op(&k->b, OP_IDIV, lt(ET_I64, 1), size(k, g[0]), size(k, g[1]), 0);
  }
  case AT_MIN:
  case AT_MAX: {
    sym_args(k->c, a, g);
    lv x = size(k, g[0]), y = size(k, g[1]);
    return lb_op(&k->b, sym_kind(k->c, a) == AT_MIN ? OP_MIN : OP_MAX, lt(ET_I64, 1), x, y, 0);
  }
  case AT_SEL: {
    sym_args(k->c, a, g);
    lv x = size(k, g[1]), y = size(k, g[2]);
    return lb_op(&k->b, OP_SEL, lt(ET_I64, 1), lb_cmp(&k->b, OP_GE, size(k, g[0]), lb_int(&k->b, 0)), x, y);
  }
  default: ctx_bug(k->c, "program: %s in a size", sym_name(k->c, a));
  }
}
static lv size(mb *k, sz e) {
  int64_t konst;
  if (sym_is_int(k->c, e, &konst)) return lb_int(&k->b, konst);
  lv sum = 0;
  for (uint32_t i = 0; i < sym_nterms(k->c, e); i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *ex;
    int64_t q = sym_term(k->c, e, i, &na, &as, &ex);
    lv t = lb_int(&k->b, q);
    for (uint32_t j = 0; j < na; j++)
      for (uint8_t z = 0; z < ex[j]; z++) t = lb_mul(&k->b, t, atom_value(k, as[j]));
    sum = sum ? lb_add(&k->b, sum, t) : t;
  }
  return sum ? sum : lb_int(&k->b, 0);
}
static lv field(mb *k, const char *name, ltype t) { return lb_param(&k->b, name, t, 0, 0); }

/* symbols from the inputs' dims; in plan every other dim is checked */
static void bind_symbols(mb *k) {
  lv dims = field(k, "in_dims", lptr(ET_I64));
  uint32_t at = 0;
  for (int pass = 0; pass < 2; pass++) {
    at = 0;
    for (uint32_t i = 0; i < k->m->inputs.n; i++) {
      tensor *t = xt(k->m, k->m->inputs.v[i].t);
      for (uint32_t d = 0; d < t->rank; d++, at++) {
        atom s;
        uint64_t have;
        bool fresh = sym_is_atom(k->c, t->shape[d], &s) && sym_kind(k->c, s) == AT_SYMBOL && !map_getu(k->syms, s, &have);
        if (pass == 0 && fresh) map_putu(k->syms, s, lb_load(&k->b, lt(ET_I64, 1), dims, lb_int(&k->b, at)));
        if (pass == 1 && k->plan) {
          lv v = lb_load(&k->b, lt(ET_I64, 1), dims, lb_int(&k->b, at));
          lb_fail(&k->b, lb_cmp(&k->b, OP_NE, v, size(k, t->shape[d])), E_SHAPE, arena_fmt(k->a, "input %s: dimension %u must be %s", k->m->inputs.v[i].name, d, sym_str(k->c, t->shape[d])));
          if (sym_is_atom(k->c, t->shape[d], &s) && sym_kind(k->c, s) == AT_SYMBOL) {
            int64_t lo, hi;
            sym_range(k->c, t->shape[d], &lo, &hi);
            lv bad = lb_op(&k->b, OP_OR, lt(ET_BOOL, 1), lb_cmp(&k->b, OP_LT, v, lb_int(&k->b, lo)), lb_cmp(&k->b, OP_GT, v, lb_int(&k->b, hi)), 0);
            lb_fail(&k->b, bad, E_SHAPE, arena_fmt(k->a, "input %s: dimension %u (%s) must be in %lld..%lld", k->m->inputs.v[i].name, d, sym_name(k->c, s), (long long)lo, (long long)hi));
          }
        }
      }
    }
  }
}
static void write_out_dims(mb *k) {
  lv out = field(k, "out_dims", lptr(ET_I64));
  uint32_t at = 0;
  for (uint32_t i = 0; i < k->m->outputs.n; i++) {
    tensor *t = xt(k->m, k->m->outputs.v[i].t);
    for (uint32_t d = 0; d < t->rank; d++, at++) lb_store(&k->b, out, lb_int(&k->b, at), size(k, t->shape[d]));
  }
}

/* ---- steps ---- */
static lv buffer_ptr(mb *k, uint32_t i) {
  const buffer *b = &k->s->buffers.v[i];
  switch (b->kind) {
  case BUF_INPUT: return field(k, arena_fmt(k->a, "in.%u", b->index), lptr(b->type));
  case BUF_OUTPUT: return field(k, arena_fmt(k->a, "out.%u", b->index), lptr(b->type));
  case BUF_WEIGHTS: return lb_ptrcast(&k->b, b->type, lb_offset(&k->b, k->weights_p, lb_int(&k->b, (int64_t)k->p->mem[i].weight_offset)));
  default: return lb_ptrcast(&k->b, b->type, lb_offset(&k->b, k->arena_p, size(k, k->p->mem[i].offset)));
  }
}
static void emit_launch(mb *k, const launch *l) {
  VEC(lv) args = {0};
  for (uint32_t i = 0; i < l->args.n; i++) {
    const kargs *a = &l->args.v[i];
    lv v;
    if (!a->is_buffer) v = size(k, a->size);
    else if (!a->buffer) v = k->scratch_p;
    else v = buffer_ptr(k, a->buffer);
    vec_push(k->a, args, v);
  }
  lb_call(&k->b, l->parallel, l->func->name, size(k, l->chunks), args.v, args.n);
}
static lv read_scalar(mb *k, tid t, etype as) {
  const layout *l = &k->s->layouts[t];
  lv v = lb_load(&k->b, lt(xt(k->m, t)->type, 1), buffer_ptr(k, l->buffer), size(k, l->base));
  return xt(k->m, t)->type == as ? v : lb_op(&k->b, OP_CAST, lt(as, 1), v, 0, 0);
}
/* Conditions of the root block are checked before anything runs; those of a branch or body where that begins, as far as their sizes are known by then. */
static bool atoms_known(mb *k, sz e) {
  u32vec atoms = {0};
  uint64_t got;
  sz def;
  sym_atoms(k->c, e, AT_SYMBOL, k->a, &atoms);
  for (uint32_t i = 0; i < atoms.n; i++)
    if (!map_getu(k->syms, atoms.v[i], &got) && !(sym_definition(k->c, atoms.v[i], &def) && atoms_known(k, def))) return false;
  return true;
}
static void check_guards(mb *k, uint32_t block) {
  for (uint32_t i = 0; i < k->m->guards.n; i++) {
    const guard *g = &k->m->guards.v[i];
    if (g->block != block || (block && !atoms_known(k, g->ge0))) continue;
    lb_fail(&k->b, lb_cmp(&k->b, g->is_eq ? OP_NE : OP_LT, size(k, g->ge0), lb_int(&k->b, 0)), E_SHAPE, arena_fmt(k->a, "%s%s%s", g->node ? g->node : "", g->node ? ": " : "", g->text));
  }
}
static void steps(mb *k, uint32_t block) {
  emodule *m = k->m;
  if (block) check_guards(k, block);
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    item it = m->blocks.v[block].items.v[i];
    if (it.kind == IT_IF) {
      xif *x = &m->ifs.v[it.index];
      lb_if(&k->b, read_scalar(k, x->cond, ET_BOOL));
      steps(k, x->then_block);
      lb_else(&k->b);
      steps(k, x->else_block);
      lb_end(&k->b);
    }
    if (it.kind == IT_LOOP) {
      xloop *x = &m->loops.v[it.index];
      lv n = x->trips ? size(k, x->trips) : read_scalar(k, x->trip_tensor, ET_I64), counter;
      lv go = lb_reg(&k->b, x->cond0 ? read_scalar(k, x->cond0, ET_BOOL) : lb_const(&k->b, lt(ET_BOOL, 1), (scalar){.i = 1}));
      lb_for(&k->b, "trip", lb_int(&k->b, 0), n, lb_int(&k->b, 1), 0, &counter);
      lb_if(&k->b, lb_get(&k->b, go));
      map_putu(k->syms, x->counter, counter);
      steps(k, x->body);
      if (x->cond) lb_set(&k->b, go, read_scalar(k, x->cond, ET_BOOL));
      lb_end(&k->b);
      lb_end(&k->b);
    }
    for (uint32_t j = 0; j < k->s->launches.n; j++)
      if (k->s->launches.v[j].block == block && k->s->launches.v[j].item == i) emit_launch(k, &k->s->launches.v[j]);
    if (it.kind == IT_STAGE)
      for (uint32_t j = 0; j < m->lates.n; j++)
        if (m->lates.v[j].tensor == xs(m, it.index)->tensor) map_putu(k->syms, m->lates.v[j].symbol, read_scalar(k, m->lates.v[j].tensor, ET_I64));
  }
}
static mb begin(program *p, const char *name, bool plan) {
  mb k = {.p = p, .s = p->plan, .m = p->plan->m, .c = p->plan->m->c, .a = p->plan->l->a, .plan = plan};
  lfunc *f = loop_func(p->plan->l, LF_MAIN, name, plan ? "sizes, checks, memory" : "the program");
  k.b = loop_builder(f);
  k.syms = map_new(k.a);
  if (plan) p->plan_fn = f;
  else p->run_fn = f;
  return k;
}

program *program_build(splan *s, const char *name) {
  program *p = NEW(s->l->a, program);
  p->plan = s;
  p->name = name;
  program_memory_plan(p);
  mb k = begin(p, "plan", true);
  bind_symbols(&k);
  check_guards(&k, 0);
  write_out_dims(&k);
  lv rec = field(&k, "call", lptr(ET_I64)), threads = field(&k, "threads", lt(ET_I64, 1));
  lv per = size(&k, p->scratch_bytes);
  lb_store(&k.b, rec, lb_int(&k.b, 9), per);
  lb_store(&k.b, rec, lb_int(&k.b, 10), lb_add(&k.b, size(&k, p->arena_bytes), lb_mul(&k.b, per, threads)));

  k = begin(p, "run", false);
  k.arena_p = field(&k, "arena", lptr(ET_U8));
  k.weights_p = field(&k, "weights", lptr(ET_U8));
  bind_symbols(&k);
  k.scratch_p = lb_offset(&k.b, k.arena_p, size(&k, p->arena_bytes));
  steps(&k, 0);
  write_out_dims(&k);
  return p;
}
void program_weights(const program *p, uint8_t *to) {
  splan *s = p->plan;
  for (uint32_t i = 1; i < s->buffers.n; i++) {
    const buffer *b = &s->buffers.v[i];
    int64_t n = sym_int_or(s->m->c, b->elems, 0);
    if (b->kind == BUF_WEIGHTS && p->mem[i].used) memcpy(to + p->mem[i].weight_offset, b->bytes, (size_t)n * et_bytes(b->type));
  }
}
const char *program_memory(const program *p) {
  ctx *c = p->plan->m->c;
  int64_t per = sym_int_or(c, p->scratch_bytes, -1);
  if (per == 0) return sym_str(c, p->arena_bytes);
  return arena_fmt(p->plan->l->a, "%s + threads*(%s)", sym_str(c, p->arena_bytes), sym_str(c, p->scratch_bytes));
}
