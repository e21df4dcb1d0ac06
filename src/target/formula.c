/* What does an instruction compute? Its formula becomes a definition in the notation, which is elaborated, and the
 * stage that comes out becomes a list of scalar operations. Everything is made in a context of its own, so that the
 * compilation's symbols and diagnostics do not see it. */
#include "expr/expr.h"
#include "notation/notation.h"
#include "target/fields.h"

typedef struct flattener {
  arena *a;                    /* memory of the result */
  emodule *m;                  /* module of the stage */
  instruction *k;              /* the instruction */
  const tid *in;               /* its operands as tensors of m */
  atom lane;                   /* variable of the lanes */
  atom place;                  /* variable of the group; 0: one term */
  VEC(instruction_node) nodes; /* the result */
  const char *why;             /* why it is no formula of an instruction; NULL: it is */
} flattener;
static bool is_var(flattener *f, sz index, atom var) {
  atom v;
  return var && sym_is_atom(f->m->c, index, &v) && v == var;
}
/* The operand that a load reads at the lane, and at the place in the group; INSTRUCTION_OPERANDS: none there. */
static uint32_t operand_of(flattener *f, const ex_node *n) {
  for (uint32_t i = 0; i < f->k->noperands; i++) {
    const bool grouped = i && f->place;
    if (n->tensor == f->in[i] && !n->otherwise && n->nargs == 1u + grouped && is_var(f, n->args[0], f->lane) &&
        (!grouped || is_var(f, n->args[1], f->place)))
      return i;
  }
  return INSTRUCTION_OPERANDS;
}
static uint32_t flatten(flattener *f, ex x) {
  const ex_node *n = exn(f->m, x);
  instruction_node to = {.type = (etype)n->type};
  if (n->kind == EX_LOAD) {
    to.kind = IN_OPERAND, to.operand = operand_of(f, n);
    if (to.operand == INSTRUCTION_OPERANDS)
      f->why = "an operand is read at other places than [i], or [i, k] of the sum";
    if (!to.operand) f->why = "the accumulator is read again";
  } else if (n->kind == EX_CONST) {
    to.kind = IN_CONST, to.k = n->k;
  } else if (n->kind == EX_OP) {
    to.kind = IN_OP, to.op = (sop)n->op;
    for (uint32_t i = 0; i < n->nargs && !f->why; i++) to.args[i] = flatten(f, exn(f->m, x)->args[i]);
  } else
    f->why = "a term is made of operands, constants and scalar operations";
  vec_push(f->a, f->nodes, to);
  return f->nodes.n - 1;
}
/* Is value x of the formula value y with operands 1 and 2 exchanged? */
static bool exchanged(const instruction *k, uint32_t x, uint32_t y) {
  const instruction_node *p = &k->nodes[x], *q = &k->nodes[y];
  if (p->kind != q->kind || p->type != q->type || p->op != q->op) return false;
  if (p->kind == IN_OPERAND) return p->operand == 3 - q->operand && k->operands[1].type == k->operands[2].type;
  if (p->kind == IN_CONST) return p->k.i == q->k.i;
  const uint32_t n = op_arity(p->op);
  if (n == 2 && instruction_commutes(p->op) && exchanged(k, p->args[0], q->args[1]) &&
      exchanged(k, p->args[1], q->args[0]))
    return true;
  for (uint32_t i = 0; i < n; i++)
    if (!exchanged(k, p->args[i], q->args[i])) return false;
  return true;
}
/* Finds the accumulator, and the term that is added to it. */
static ex term_of(flattener *f, ex value) {
  const ex_node *n = exn(f->m, value);
  if (n->kind != EX_OP || n->op != OP_ADD) return 0;
  for (uint32_t q = 0; q < 2; q++) {
    const ex_node *c = exn(f->m, n->args[q]), *sum = exn(f->m, n->args[!q]);
    if (c->kind != EX_LOAD || c->tensor != f->in[0] || c->otherwise || !is_var(f, c->args[0], f->lane)) continue;
    if (sum->kind != EX_REDUCE) return f->k->group == 1 ? n->args[!q] : 0;
    if (sum->op != RED_SUM || sum->nargs != 1 || sum->where || sum->acc != f->k->operands[0].type) return 0;
    f->place = sum->args[0];
    return sym_int_or(f->m->c, sym_extent(f->m->c, f->place), 0) == f->k->group ? sum->body : 0;
  }
  return 0;
}
bool instruction_stage(emodule *m, const instruction *k, tid *in, tid *out) {
  ctx *c = m->c;
  arg args[INSTRUCTION_OPERANDS] = {0}, result = {.want = true};
  sbuf text = sbuf_new(ctx_arena(c));
  sb_put(&text, "op formula(");
  for (uint32_t i = 0; i < k->noperands; i++) {
    sz *shape = NEWN(m->a, sz, 2);
    shape[0] = sym_int(c, k->lanes), shape[1] = sym_int(c, k->group);
    arg *x = &args[i];
    *x = (arg){.present = true, .type = k->operands[i].type, .rank = 1u + (i && k->group > 1), .shape = shape};
    x->t = in[i] = expr_tensor(m, TK_INPUT, x->type, shape, x->rank, k->operands[i].name, NULL);
    sb_fmt(&text, "%s%s: %s[%u", i ? ", " : "", k->operands[i].name, et_name(x->type), k->lanes);
    if (x->rank > 1) sb_fmt(&text, ", %u", k->group);
    sb_put(&text, "]");
  }
  sb_fmt(&text, ") -> result: %s[%u] {\n  result[i] = %s\n}\n", et_name(k->operands[0].type), k->lanes,
         k->text[IK_FORMULA]);
  oplib *lib = notation_lib(c);
  if (!notation_add(lib, text.s, text.n, "formula") ||
      !notation_elaborate(lib, notation_find(lib, "", "formula"), m, 0, "formula", args, k->noperands, NULL, 0, &result,
                          1))
    return false;
  *out = result.t;
  return true;
}
static const char *read_formula(ctx *q, arena *a, instruction *k) {
  emodule *m = expr_module(q);
  tid in[INSTRUCTION_OPERANDS], out;
  if (!instruction_stage(m, k, in, &out)) {
    const diag *d = diag_first(q);
    return d ? arena_strdup(a, d->text) : "it is no formula of the notation";
  }
  const stage *s = xs(m, xt(m, out)->stage);
  flattener f = {.a = a, .m = m, .k = k, .in = in};
  if (xt(m, out)->kind != TK_STAGE || !s->value || s->naxes != 1 || s->axes[0].n != 1) return "it is no single value";
  f.lane = s->axes[0].d[0].var;
  const ex term = term_of(&f, s->value);
  if (!term)
    return "expected the first operand at [i], and added to it a term, or the sum of a group of terms in its type";
  flatten(&f, term);
  k->nodes = f.nodes.v, k->nnodes = f.nodes.n;
  k->symmetric = !f.why && k->noperands == 3 && exchanged(k, k->nnodes - 1, k->nnodes - 1);
  return f.why;
}
const char *instruction_formula(arena *a, instruction *k) {
  ctx *const c = arena_ctx(a), *const q = ctx_new();
  const char *volatile why = "out of memory";
  volatile bool ended = false;
  if (!q) return why;
  CTX_TRY(c) { /* its memory may end, too, while what is read goes to a */
    CTX_TRY(q) { why = read_formula(q, a, k); }
    CTX_CATCH { why = arena_strdup(a, diag_first(q) ? diag_first(q)->text : "it cannot be read"); }
  }
  CTX_CATCH { ended = true; }
  ctx_free(q);
  if (ended) ctx_unwind(c);
  return why;
}
