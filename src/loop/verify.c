/* Is a loop module legal? Types of every operand, definition before use in a visible block, structure, calls that
 * fit the kernels they name. Bounds are not checked.
 *
 * Walks each function in the order of the text with the set of visible values; a block's values are forgotten at
 * its end.
 */
#include "loop/ops.h"
#include <stdio.h>
#include <string.h>

typedef struct checker {
  const lmodule *m; /* the module */
  const lfunc *f;   /* the function */
  const char *when; /* for messages: after which pass */
  bool *seen;       /* per value: visible here */
  uint32_t *num;    /* number of each value in the text */
  uint8_t *placed;  /* per instruction: in how many blocks */
  bool ok;          /* no error so far */
  uint32_t errors;  /* number of errors */
} checker;

static void err(checker *k, lv v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void err(checker *k, lv v, const char *fmt, ...) {
  k->ok = false;
  if (++k->errors > 10) return;
  va_list ap;
  va_start(ap, fmt);
  char text[256];
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  diag_error(k->m->c, E_INTERNAL, NULL, "loop verifier (%s): function %s, instruction %u%s: %s", k->when, k->f->name,
             v ? k->num[v] : 0, v && !k->num[v] ? " (no value)" : "", text);
}
static bool same(ltype x, ltype y) { return x.elem == y.elem && x.ptr == y.ptr && x.lanes == y.lanes; }
static const char *tname(checker *k, ltype t) {
  return arena_fmt(ctx_arena(k->m->c), "%s%s x%u", t.ptr ? "ptr " : "",
                   t.elem < ET_COUNT && t.elem ? et_name((etype)t.elem) : "none", t.lanes);
}
/* The type of operand x; false (reported) when it is missing, not visible or without value. */
static bool operand(checker *k, lv v, const char *what, lv x, ltype *t) {
  if (!x || x >= k->f->insts.n) return err(k, v, "%s is missing", what), false;
  if (!k->seen[x]) return err(k, v, "%s, %%%u, is not visible here", what, k->num[x]), false;
  const linst *i = li(k->f, x);
  if (i->kind == L_REG && li(k->f, v)->kind != L_GET && li(k->f, v)->kind != L_SET &&
      (li(k->f, v)->kind != L_FOR || x != li(k->f, v)->mask))
    return err(k, v, "%s is a register; get reads it", what), false;
  *t = i->type;
  return true;
}
static bool want(checker *k, lv v, const char *what, lv x, ltype t) {
  ltype have;
  if (!operand(k, v, what, x, &have)) return false;
  if (!same(have, t)) return err(k, v, "%s is %s, expected %s", what, tname(k, have), tname(k, t)), false;
  return true;
}
static bool want_int(checker *k, lv v, const char *what, lv x) { return want(k, v, what, x, lt(ET_I64, 1)); }
static bool pointer(checker *k, lv v, lv x, ltype *t) {
  if (!operand(k, v, "pointer", x, t)) return false;
  if (!t->ptr) return err(k, v, "operand %%%u is %s, expected a pointer", k->num[x], tname(k, *t)), false;
  return true;
}
static unsigned kind_bit(ltype t) {
  if (t.ptr || !t.elem || t.elem >= ET_COUNT) return 0;
  switch (et_kind((etype)t.elem)) {
  case K_FLOAT:
    return KF;
  case K_INT:
  case K_UINT:
    return KI;
  case K_BOOL:
    return KB;
  default:
    return 0;
  }
}
static void check_op(checker *k, lv v, const linst *i) {
  sop op = (sop)i->op;
  if (op == OP_NONE || op >= OP_COUNT) {
    err(k, v, "no such operation: %u", op);
    return;
  }
  ltype t[3];
  lv o[3] = {i->a, i->b, i->c};
  unsigned n = loop_sop_arity(op);
  for (unsigned j = 0; j < n; j++) {
    if (!operand(k, v, "operand", o[j], &t[j])) return;
    if (t[j].lanes != i->type.lanes) {
      err(k, v, "%s: operand %u has %u lanes, the result %u", loop_sop_name(op), j, t[j].lanes, i->type.lanes);
      return;
    }
  }
  for (unsigned j = n; j < 3; j++)
    if (o[j]) err(k, v, "%s takes %u operands", loop_sop_name(op), n);
  if (op == OP_SEL) {
    if (t[0].elem != ET_BOOL || t[0].ptr) err(k, v, "sel: the condition is %s, expected bool", tname(k, t[0]));
    if (!same(t[1], i->type) || !same(t[2], i->type))
      err(k, v, "sel: branches are %s and %s, the result %s", tname(k, t[1]), tname(k, t[2]), tname(k, i->type));
    return;
  }
  if (!kind_bit(i->type)) err(k, v, "%s cannot yield %s", loop_sop_name(op), tname(k, i->type));
  for (unsigned j = 0; j < n; j++)
    if (!(kind_bit(t[j]) & loop_sop_kinds(op))) {
      err(k, v, "%s does not take %s", loop_sop_name(op), tname(k, t[j]));
      return;
    }
  for (unsigned j = 1; j < n; j++)
    if (!same(t[j], t[0]))
      err(k, v, "%s: operands are %s and %s, expected one type", loop_sop_name(op), tname(k, t[0]), tname(k, t[j]));
  switch (loop_sop_result(op)) {
  case RES_S:
    if (!same(t[0], i->type))
      err(k, v, "%s: operands are %s, the result %s", loop_sop_name(op), tname(k, t[0]), tname(k, i->type));
    break;
  case RES_B:
    if (i->type.elem != ET_BOOL) err(k, v, "%s yields bool, not %s", loop_sop_name(op), tname(k, i->type));
    break;
  case RES_T:
    if (op == OP_BITCAST && et_bits((etype)t[0].elem) != et_bits((etype)i->type.elem))
      err(k, v, "bitcast from %s to %s: different widths", tname(k, t[0]), tname(k, i->type));
    if (op == OP_RAND && (t[0].elem != ET_I64 || i->type.elem != ET_F32)) err(k, v, "rand takes i64 and yields f32");
    break;
  }
}
/* The element bytes of memory are what the pointer says; the value loaded or stored has the same element type. */
static void check_access(checker *k, lv v, const linst *i, bool vec_index) {
  ltype p, x;
  if (!pointer(k, v, i->a, &p)) return;
  if (vec_index) {
    if (!operand(k, v, "index", i->b, &x)) return;
    if ((x.elem != ET_I64 && x.elem != ET_I32 && x.elem != ET_U8) || x.ptr || x.lanes != i->type.lanes)
      err(k, v, "the index is %s, expected i64, i32 or u8 with %u lanes", tname(k, x), i->type.lanes);
    if (i->count || i->stride) err(k, v, "gather and scatter take neither count nor stride");
  } else {
    want_int(k, v, "index", i->b);
  }
  if (i->type.elem != p.elem || i->type.ptr)
    err(k, v, "accesses %s through a pointer to %s", tname(k, i->type), et_name((etype)p.elem));
  if (i->mask) want(k, v, "mask", i->mask, lt(ET_BOOL, i->type.lanes));
  if (i->count) want_int(k, v, "count", i->count);
  if (i->stride) want_int(k, v, "stride", i->stride);
  if (i->align & (i->align - 1)) err(k, v, "alignment %u is not a power of 2", i->align);
}
static const lfunc *find(const lmodule *m, const char *name) {
  for (uint32_t i = 0; i < m->funcs.n; i++)
    if (!strcmp(m->funcs.v[i]->name, name)) return m->funcs.v[i];
  return NULL;
}
static bool uses_scratch(const lfunc *f) {
  for (uint32_t i = 1; i < f->insts.n; i++)
    if (f->insts.v[i].kind == L_SCRATCH) return true;
  return false;
}
static void check_call(checker *k, lv v, const linst *i) {
  want_int(k, v, "number of chunks", i->a);
  const lfunc *g = find(k->m, i->name);
  if (!g || g->kind != LF_KERNEL) {
    err(k, v, "no kernel named %s", i->name);
    return;
  }
  if (i->kind == L_PARALLEL && k->f->kind != LF_MAIN) err(k, v, "parallel outside a main function");
  uint32_t n = g->params.n + (uses_scratch(g) ? 2 : 0);
  if (i->nargs != n) {
    err(k, v, "kernel %s takes %u arguments, not %u", i->name, n, i->nargs);
    return;
  }
  for (uint32_t j = 0; j < n; j++) {
    ltype t, q = j < g->params.n ? g->params.v[j].type : j == g->params.n ? lptr(ET_U8) : lt(ET_I64, 1);
    if (!operand(k, v, "argument", i->args[j], &t)) continue;
    if (t.ptr ? !q.ptr : (q.ptr || t.elem != ET_I64 || t.lanes != 1))
      err(k, v, "argument %u of kernel %s is %s, expected %s", j, i->name, tname(k, t), tname(k, q));
  }
}
static void check_block(checker *k, uint32_t block, uint32_t depth);
static void check_inst(checker *k, lv v, uint32_t depth) {
  const linst *i = li(k->f, v);
  ltype t, u;
  bool value = loop_has_value((lkind)i->kind);
  if (value && i->kind != L_FOR &&
      (!i->type.elem || i->type.elem >= ET_COUNT || et_kind((etype)i->type.elem) == K_STR || !i->type.lanes ||
       (i->type.ptr && i->type.lanes != 1))) {
    err(k, v, "impossible type");
    return;
  }
  switch ((lkind)i->kind) {
  case L_CONST:
    if (i->type.ptr) err(k, v, "a constant pointer");
    break;
  case L_LO:
  case L_HI:
  case L_WORKER:
    if (k->f->kind == LF_MAIN) err(k, v, "main functions have no chunks");
    if (!same(i->type, lt(ET_I64, 1))) err(k, v, "lo, hi and worker are i64");
    break;
  case L_PARAM:
    if (i->k.i < 0 || i->k.i >= (int64_t)k->f->params.n || !same(k->f->params.v[i->k.i].type, i->type))
      err(k, v, "is no parameter of this function");
    else if (!i->type.ptr && !same(i->type, lt(ET_I64, 1)))
      err(k, v, "parameters are pointers or i64");
    break;
  case L_OP:
    check_op(k, v, i);
    break;
  case L_SPLAT:
    t = i->type;
    t.lanes = 1;
    want(k, v, "operand", i->a, t);
    break;
  case L_IOTA:
    if (!(kind_bit(i->type) & KI)) err(k, v, "iota is of integers");
    break;
  case L_LOAD:
  case L_STORE:
    check_access(k, v, i, false);
    if (i->kind == L_STORE) want(k, v, "value", i->c, i->type);
    break;
  case L_GATHER:
  case L_SCATTER:
    check_access(k, v, i, true);
    if (i->kind == L_SCATTER) want(k, v, "value", i->c, i->type);
    break;
  case L_PREFETCH:
    if (operand(k, v, "pointer", i->a, &t) && !t.ptr) err(k, v, "prefetch needs a pointer");
    want(k, v, "index", i->b, lt(ET_I64, 1));
    break;
  case L_HREDUCE: {
    if (!operand(k, v, "operand", i->a, &t)) break;
    bool b = i->op == RED_ANY || i->op == RED_ALL,
         n = i->op == RED_SUM || i->op == RED_PROD || i->op == RED_MAX || i->op == RED_MIN;
    if ((!b && !n) || (b && kind_bit(t) != KB) ||
        (n && !(kind_bit(t) & (KN | (i->op == RED_MAX || i->op == RED_MIN ? KB : 0)))))
      err(k, v, "hreduce %s of %s", loop_rop_name((rop)i->op), tname(k, t));
    t.lanes = 1;
    if (!same(t, i->type)) err(k, v, "yields %s, not %s", tname(k, t), tname(k, i->type));
    break;
  }
  case L_EXTRACT:
    if (!operand(k, v, "operand", i->a, &t)) break;
    if (i->k.i < 0 || i->k.i >= t.lanes) err(k, v, "lane %lld of %u", (long long)i->k.i, t.lanes);
    t.lanes = 1;
    if (!same(t, i->type)) err(k, v, "yields %s, not %s", tname(k, t), tname(k, i->type));
    break;
  case L_SHUFFLE:
    if (!operand(k, v, "operand", i->a, &t) || !want(k, v, "second operand", i->b, t)) break;
    if (i->nargs != i->type.lanes || i->type.elem != t.elem || t.ptr)
      err(k, v, "%u lanes listed for %s of %s", i->nargs, tname(k, i->type), tname(k, t));
    for (uint32_t j = 0; j < i->nargs; j++)
      if ((int32_t)i->args[j] < -1 || (int32_t)i->args[j] >= 2 * t.lanes)
        err(k, v, "lane %d of twice %u", (int)i->args[j], t.lanes);
    break;
  case L_LOOKUP:
    want(k, v, "index", i->a, lt(ET_I32, i->type.lanes));
    if (i->type.ptr || et_bits((etype)i->type.elem) != 32) err(k, v, "lookup of %s", tname(k, i->type));
    if (!i->nargs || i->nargs > 16 || (i->nargs & (i->nargs - 1))) err(k, v, "lookup among %u constants", i->nargs);
    break;
  case L_OFFSET:
    pointer(k, v, i->a, &t);
    want_int(k, v, "index", i->b);
    if (!i->type.ptr) err(k, v, "offset yields a pointer");
    break;
  case L_ALLOC:
    if (i->k.i <= 0 || i->k.i > 1 << 20) err(k, v, "%lld elements of stack", (long long)i->k.i);
    if (!i->type.ptr) err(k, v, "alloc yields a pointer");
    break;
  case L_SCRATCH:
    if (i->k.i < 0) err(k, v, "negative offset");
    if (!i->type.ptr || k->f->kind != LF_KERNEL) err(k, v, "scratch is a pointer in a kernel");
    break;
  case L_REG:
    if (operand(k, v, "initial value", i->a, &t) && !same(t, i->type))
      err(k, v, "initial value is %s, the register %s", tname(k, t), tname(k, i->type));
    break;
  case L_GET:
  case L_SET:
    if (!operand(k, v, "register", i->a, &t)) break;
    if (li(k->f, i->a)->kind != L_REG)
      err(k, v, "%%%u is not a register", k->num[i->a]);
    else if (i->kind == L_SET ? (operand(k, v, "value", i->b, &u) && !same(t, u)) : !same(t, i->type))
      err(k, v, "the register is %s", tname(k, t));
    break;
  case L_FOR: {
    scalar s;
    want_int(k, v, "from", i->a);
    want_int(k, v, "to", i->b);
    want_int(k, v, "step", i->c);
    if (loop_const(k->f, i->c, &s) && s.i <= 0) err(k, v, "step %lld is not positive", (long long)s.i);
    if (!i->body || i->other) err(k, v, "a loop has one block");
    if (i->mask && want(k, v, "the register of while", i->mask, lt(ET_BOOL, 1)) && li(k->f, i->mask)->kind != L_REG)
      err(k, v, "%%%u is not a register", k->num[i->mask]);
    if (i->mask && i->k.i > 1) err(k, v, "a loop with while is not unrolled");
    break;
  }
  case L_IF:
    want(k, v, "condition", i->a, lt(ET_BOOL, 1));
    if (!i->body) err(k, v, "no block");
    break;
  case L_CALL:
  case L_PARALLEL:
    check_call(k, v, i);
    break;
  case L_FAIL:
    want(k, v, "condition", i->a, lt(ET_BOOL, 1));
    if (i->b && operand(k, v, "text", i->b, &t) && !(t.ptr && t.elem == ET_U8)) err(k, v, "the text is no ptr u8");
    if (k->f->kind != LF_MAIN) err(k, v, "fail outside a main function");
    if (i->k.i <= 0) err(k, v, "code %lld", (long long)i->k.i);
    break;
  case L_INTRIN:
    for (uint32_t j = 0; j < i->nargs; j++) operand(k, v, "argument", i->args[j], &t);
    break;
  case L_COMMENT:
    break;
  default:
    err(k, v, "no such instruction: %u", i->kind);
  }
  if (value) k->seen[v] = true;
  if (i->body) check_block(k, i->body, depth + 1);
  if (i->other) check_block(k, i->other, depth + 1);
  if (i->kind == L_FOR) k->seen[v] = false; /* the index belongs to the body */
}
static void check_block(checker *k, uint32_t block, uint32_t depth) {
  if (block >= k->f->blocks.n || depth > 200) {
    err(k, 0, "block %u at depth %u", block, depth);
    return;
  }
  const lblock *b = &k->f->blocks.v[block];
  for (uint32_t j = 0; j < b->insts.n; j++) {
    lv v = b->insts.v[j];
    if (!v || v >= k->f->insts.n || k->placed[v]++)
      err(k, 0, "block %u lists instruction %u twice or out of range", block, v);
    else
      check_inst(k, v, depth);
  }
  for (uint32_t j = 0; j < b->insts.n; j++)
    if (b->insts.v[j] < k->f->insts.n) k->seen[b->insts.v[j]] = false;
}
bool loop_verify(const lmodule *m, const char *when) {
  bool ok = true;
  arena *a = arena_new(m->c);
  for (uint32_t i = 0; i < m->funcs.n; i++) {
    const lfunc *f = m->funcs.v[i];
    checker k = {.m = m, .f = f, .when = when, .ok = true};
    k.seen = NEWN(a, bool, f->insts.n);
    k.placed = NEWN(a, uint8_t, f->insts.n);
    k.num = loop_numbers(f, a);
    for (uint32_t j = 0; j < i; j++)
      if (!strcmp(m->funcs.v[j]->name, f->name)) err(&k, 0, "a second function of this name");
    for (uint32_t j = 0; j < f->params.n; j++)
      if (!f->params.v[j].value || f->params.v[j].value >= f->insts.n || li(f, f->params.v[j].value)->kind != L_PARAM ||
          li(f, f->params.v[j].value)->k.i != (int64_t)j)
        err(&k, 0, "parameter %u has no value", j);
    check_block(&k, 1, 0);
    ok = ok && k.ok;
  }
  arena_free(a);
  return ok;
}
