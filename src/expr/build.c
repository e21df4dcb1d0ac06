/* How does a tensor expression come to be?
 *
 * Idea. Values are hash-consed: a node is looked up by its contents before it is made, so equal structure has equal ids
 * and a DAG never repeats itself. Construction is structural: nothing is simplified here, with two exceptions that keep
 * one value from having two spellings: an index node of an integer constant is the i64 constant, and an index node of a
 * lone data atom is the value behind the atom. Constants are rounded to their type when they are made and all NaNs are
 * one NaN.
 *
 * Invariants. Nodes never change; an ex refers only to smaller ids (also through the data atoms of its indices). Type
 * errors here are ours (ctx_bug). Tensor names are identifiers, unique in the module.
 */
#include "expr/expr.h"
#include "expr/build.h"
#include <math.h>
#include <string.h>

/* ---- operation tables ------------------------------------------------------------------------ */
typedef enum { R_S, R_B, R_T } result_rule;
static const struct {
  const char *name; /* name of the operation */
  uint8_t arity;    /* number of operands */
  uint8_t rule;     /* how the result's type follows */
  uint8_t cost;     /* scalar operations that it counts as */
} ops[OP_COUNT] = {
#define X(id, name, arity, res, cost) [OP_##id] = {name, arity, R_##res, cost},
    SCALAR_OPS(X)
#undef X
};
static const char *const reds[RED_COUNT] = {
#define X(id, name) [RED_##id] = name,
    REDUCTIONS(X)
#undef X
};
const char *op_name(sop op) { return op > OP_NONE && op < OP_COUNT ? ops[op].name : "?"; }
uint32_t op_arity(sop op) { return ops[op].arity; }
bool op_rounds(sop op) {
  switch (op) {
  case OP_CAST:
  case OP_SEL:
  case OP_BITCAST:
  case OP_NEG:
  case OP_ABS:
  case OP_MAX:
  case OP_MIN:
  case OP_SAT:
  case OP_SATF:
    return false;
  default:
    return true;
  }
}
uint32_t op_cost(sop op) { return ops[op].cost; }
const char *red_name(rop op) { return op > RED_NONE && op < RED_COUNT ? reds[op] : "?"; }
bool red_is_arg(rop op) { return op >= RED_ARGMAX; }

sop op_find(const char *name, size_t n) {
  for (int o = 1; o < OP_COUNT; o++)
    if (strlen(ops[o].name) == n && !memcmp(ops[o].name, name, n)) return (sop)o;
  return OP_NONE;
}
rop red_find(const char *name, size_t n) {
  for (int o = 1; o < RED_COUNT; o++)
    if (strlen(reds[o]) == n && !memcmp(reds[o], name, n)) return (rop)o;
  return RED_NONE;
}

static bool needs_float(sop op) {
  return op == OP_DIV || (op >= OP_EXP && op <= OP_NEXTAFTER) || (op >= OP_ISNAN && op <= OP_SIGNBIT);
}
static bool needs_bool(sop op) { return op == OP_AND || op == OP_OR || op == OP_NOT; }
static bool needs_bits(sop op) { return op >= OP_BAND && op <= OP_SHR; }

/* Why operands of these types do not fit, or NULL. *t is the result's type: given by the caller for conversions,
 * checked or filled in for the others. */
const char *op_type_error(sop op, const etype *at, uint32_t n, etype *t) {
  if (op <= OP_NONE || op >= OP_COUNT) return "no such operation";
  if (ops[op].arity != n) return "wrong number of operands";
  for (uint32_t i = 0; i < n; i++)
    if (at[i] == ET_NONE || at[i] == ET_STR) return "operand without a numeric type";
  if (ops[op].rule != R_T) {
    for (uint32_t i = 1; i < n; i++)
      if (at[i] != at[0]) return "operands of different types";
    if (needs_float(op) && et_kind(at[0]) != K_FLOAT) return "operands must be floats";
    if (needs_bool(op) && at[0] != ET_BOOL) return "operands must be bool";
    if (needs_bits(op) && et_kind(at[0]) == K_FLOAT) return "operands must be integers";
    etype r = ops[op].rule == R_B ? ET_BOOL : at[0];
    if (*t == ET_NONE) *t = r;
    return *t == r ? NULL : "result type does not follow from the operands";
  }
  if (op == OP_SEL) {
    if (at[0] != ET_BOOL) return "the condition must be bool";
    if (at[1] != at[2]) return "branches of different types";
    if (*t == ET_NONE) *t = at[1];
    return *t == at[1] ? NULL : "result type is not that of the branches";
  }
  if (op == OP_RAND) {
    if (at[0] != ET_I64 || at[1] != ET_I64) return "operands must be i64";
    if (*t == ET_NONE) *t = ET_F32;
    return *t == ET_F32 ? NULL : "the result is f32";
  }
  if (*t == ET_NONE || *t == ET_STR) return "a conversion needs a numeric result type";
  if (op == OP_BITCAST && et_bits(*t) != et_bits(at[0])) return "bitcast between types of different width";
  return NULL;
}

/* ---- the module and its table of nodes ------------------------------------------------------- */
typedef struct node_slot {
  ex node;       /* 0: empty */
  uint32_t hash; /* hash of the node */
} node_slot;
struct ex_table {
  node_slot *slot; /* open addressing */
  uint32_t cap;    /* a power of two */
  map *names;      /* tensor name -> number of the next suffix to try */
};

emodule *expr_module(ctx *c) {
  arena *a = ctx_arena(c);
  emodule *m = NEW(a, emodule);
  m->c = c, m->a = a, m->values = arena_new(c);
  m->table = NEW(a, struct ex_table);
  m->table->cap = 256;
  m->table->slot = NEWN(m->values, node_slot, m->table->cap);
  m->table->names = map_new(a);
  vec_push(m->values, m->nodes, ((ex_node){0}));
  vec_push(a, m->tensors, ((tensor){0}));
  vec_push(a, m->recurrences, ((recurrence){0}));
  vec_push(a, m->blocks, ((block){0}));
  map_puts(m->table->names, "load", 0); /* words that stand before a bracket in the text form */
  for (int r = 1; r < RED_COUNT; r++) map_puts(m->table->names, reds[r], 0);
  return m;
}
void expr_drop_values(emodule *m) {
  arena_free(m->values);
  m->values = NULL;
  m->nodes.v = NULL, m->nodes.n = m->nodes.cap = 0;
  m->table->slot = NULL, m->table->cap = 0;
  m->marks = m->loads_of = (u32vec){0};
  m->known_loads.v = NULL, m->known_loads.n = m->known_loads.cap = 0;
}

static uint64_t node_hash(const ex_node *n) {
  uint64_t head[6] = {(uint64_t)n->kind | (uint64_t)n->type << 8 | (uint64_t)n->op << 16 | (uint64_t)n->acc << 24 |
                          (uint64_t)n->nargs << 32,
                      n->tensor | (uint64_t)n->otherwise << 32,
                      n->where | (uint64_t)n->body << 32,
                      n->payload,
                      (uint64_t)n->k.i,
                      n->index};
  uint64_t h = hash_bytes(head, sizeof head, 0);
  return n->nargs ? hash_bytes(n->args, n->nargs * sizeof *n->args, h) : h;
}
static bool node_same(const ex_node *a, const ex_node *b) {
  return a->kind == b->kind && a->type == b->type && a->op == b->op && a->acc == b->acc && a->nargs == b->nargs &&
         a->tensor == b->tensor && a->otherwise == b->otherwise && a->where == b->where && a->body == b->body &&
         a->payload == b->payload && a->k.i == b->k.i && a->index == b->index &&
         (!a->nargs || !memcmp(a->args, b->args, a->nargs * sizeof *a->args));
}
static void rehash(emodule *m) {
  struct ex_table *t = m->table;
  const uint32_t cap = t->cap * 2;
  node_slot *slot = NEWN(m->values, node_slot, cap);
  for (uint32_t k = 0; k < t->cap; k++) {
    uint32_t i = t->slot[k].hash & (cap - 1);
    while (t->slot[k].node && slot[i].node) i = (i + 1) & (cap - 1);
    if (t->slot[k].node) slot[i] = t->slot[k];
  }
  arena_drop(m->values, t->slot, t->cap * sizeof *t->slot);
  t->slot = slot, t->cap = cap;
}
static ex node_intern(emodule *m, ex_node n) {
  struct ex_table *t = m->table;
  if (m->nodes.n * 4ull > t->cap * 3ull) rehash(m);
  const uint32_t hash = (uint32_t)node_hash(&n);
  uint32_t i = hash & (t->cap - 1);
  for (; t->slot[i].node; i = (i + 1) & (t->cap - 1))
    if (t->slot[i].hash == hash && node_same(exn(m, t->slot[i].node), &n)) return t->slot[i].node;
  if (n.nargs) n.args = arena_dup(m->values, n.args, n.nargs * sizeof *n.args);
  const ex e = m->nodes.n;
  t->slot[i] = (node_slot){e, hash};
  vec_push(m->values, m->nodes, n);
  return e;
}

static etype type_of(emodule *m, ex e) {
  if (!e || e >= m->nodes.n) ctx_bug(m->c, "expr: no value %u", e);
  return exn(m, e)->type;
}

/* ---- values ---------------------------------------------------------------------------------- */
ex expr_const(emodule *m, etype t, scalar k) {
  if (t == ET_NONE || t == ET_STR) ctx_bug(m->c, "expr: constant of type %s", t ? "str" : "none");
  k = t == ET_BOOL ? (scalar){.i = k.i != 0} : et_round(t, k);
  if (et_kind(t) == K_FLOAT && isnan(k.f)) k.f = NAN;
  return node_intern(m, (ex_node){.kind = EX_CONST, .type = t, .k = k});
}
ex expr_f(emodule *m, etype t, double v) {
  return expr_const(m, t, et_kind(t) == K_FLOAT ? (scalar){.f = v} : et_convert(t, ET_F64, (scalar){.f = v}));
}
ex expr_i(emodule *m, etype t, int64_t v) {
  return expr_const(m, t, et_kind(t) == K_FLOAT ? (scalar){.f = (double)v} : (scalar){.i = v});
}
ex expr_bool(emodule *m, bool v) { return expr_const(m, ET_BOOL, (scalar){.i = v}); }

ex expr_index(emodule *m, sz e) {
  int64_t v;
  atom a;
  if (!e) ctx_bug(m->c, "expr: index node without a size");
  if (sym_is_int(m->c, e, &v)) return expr_i(m, ET_I64, v);
  if (sym_is_atom(m->c, e, &a) && sym_kind(m->c, a) == AT_DATA) return sym_data_id(m->c, a);
  return node_intern(m, (ex_node){.kind = EX_INDEX, .type = ET_I64, .index = e});
}
ex expr_from_size(emodule *m, sz e) { return expr_index(m, e); }

ex expr_load(emodule *m, tid t, const sz *idx, uint32_t n, ex otherwise) {
  if (!t || t >= m->tensors.n) ctx_bug(m->c, "expr: load of no tensor (%u)", t);
  const tensor *x = xt(m, t);
  if (x->rank != n) ctx_bug(m->c, "expr: load of %s with %u indices, its rank is %u", x->name, n, x->rank);
  if (otherwise && type_of(m, otherwise) != x->type)
    ctx_bug(m->c, "expr: load of %s: else value is %s, the tensor %s", x->name, et_name(type_of(m, otherwise)),
            et_name(x->type));
  for (uint32_t i = 0; i < n; i++)
    if (!idx[i]) ctx_bug(m->c, "expr: load of %s: index %u is missing", x->name, i);
  return node_intern(
      m, (ex_node){
             .kind = EX_LOAD, .type = x->type, .nargs = (uint8_t)n, .tensor = t, .otherwise = otherwise, .args = idx});
}

ex expr_op(emodule *m, sop op, etype t, const ex *args, uint32_t n) {
  etype at[3] = {0};
  for (uint32_t i = 0; i < n && i < 3; i++) at[i] = type_of(m, args[i]);
  const char *why = n > 3 ? "too many operands" : op_type_error(op, at, n, &t);
  if (why)
    ctx_bug(m->c, "expr: %s(%s%s%s%s%s) -> %s: %s", op_name(op), n ? et_name(at[0]) : "", n > 1 ? ", " : "",
            n > 1 ? et_name(at[1]) : "", n > 2 ? ", " : "", n > 2 ? et_name(at[2]) : "", t ? et_name(t) : "none", why);
  return node_intern(m, (ex_node){.kind = EX_OP, .type = t, .op = op, .nargs = (uint8_t)n, .args = args});
}
ex expr_op1(emodule *m, sop op, ex a) { return expr_op(m, op, ET_NONE, &a, 1); }
ex expr_op2(emodule *m, sop op, ex a, ex b) { return expr_op(m, op, ET_NONE, (ex[]){a, b}, 2); }
ex expr_sel(emodule *m, ex c, ex a, ex b) { return expr_op(m, OP_SEL, ET_NONE, (ex[]){c, a, b}, 3); }
ex expr_times(emodule *m, ex a, ex b) { return !a ? b : !b ? a : expr_op2(m, OP_MUL, a, b); }
ex expr_cast(emodule *m, etype to, ex a) { return type_of(m, a) == to ? a : expr_op(m, OP_CAST, to, &a, 1); }

etype red_default_acc(rop op, etype body) {
  bool small = et_kind(body) == K_FLOAT && et_bits(body) <= 16;
  return small && (op == RED_SUM || op == RED_PROD) ? ET_F32 : body;
}
etype red_default_result(rop op, etype body) { return red_is_arg(op) ? ET_I64 : body; }

ex expr_reduce(emodule *m, rop op, const atom *vars, uint32_t n, ex where, ex body, ex payload, etype acc,
               etype result) {
  etype bt = type_of(m, body);
  if (op <= RED_NONE || op >= RED_COUNT) ctx_bug(m->c, "expr: no such reduction %d", op);
  if (where && type_of(m, where) != ET_BOOL)
    ctx_bug(m->c, "expr: %s: where is %s, not bool", red_name(op), et_name(type_of(m, where)));
  if ((op == RED_ANY || op == RED_ALL) && bt != ET_BOOL)
    ctx_bug(m->c, "expr: %s of %s, not bool", red_name(op), et_name(bt));
  if (payload && (!red_is_arg(op) || type_of(m, payload) != ET_I64))
    ctx_bug(m->c, "expr: %s: payload must be i64 and needs an arg-reduction", red_name(op));
  for (uint32_t i = 0; i < n; i++)
    if (!vars[i] || sym_kind(m->c, vars[i]) != AT_VAR)
      ctx_bug(m->c, "expr: %s: %u is no variable", red_name(op), vars[i]);
  if (n > 255) ctx_bug(m->c, "expr: %s over %u variables", red_name(op), n);
  if (acc == ET_NONE) acc = red_default_acc(op, bt);
  if (result == ET_NONE) result = red_default_result(op, bt);
  if (red_is_arg(op) && result != ET_I64) ctx_bug(m->c, "expr: %s gives i64, not %s", red_name(op), et_name(result));
  return node_intern(m, (ex_node){.kind = EX_REDUCE,
                                  .type = result,
                                  .op = op,
                                  .acc = acc,
                                  .nargs = (uint8_t)n,
                                  .where = where,
                                  .body = body,
                                  .payload = payload,
                                  .args = vars});
}

/* ---- values as sizes ------------------------------------------------------------------------- */
/* A range that holds for every value e can take; false if none better than its type's is known. Looks a few levels
 * deep, through loads into the stages and constants they read. */
static bool value_range(emodule *m, ex e, int depth, int64_t *lo, int64_t *hi);
enum { RECURRENCE_DEPTH = 4 };

static bool const_range(const tensor *x, int64_t *lo, int64_t *hi) {
  int64_t n;
  uint32_t w = et_bytes(x->type);
  if (!x->data.data || !nd_count(&x->data, &n) || n < 1 || n > 1 << 20) return false;
  for (int64_t i = 0; i < n; i++) {
    int64_t v = et_load(x->type, (const char *)x->data.data + i * w).i;
    *lo = i ? min64(*lo, v) : v, *hi = i ? max64(*hi, v) : v;
  }
  return true;
}
static bool tensor_range(emodule *m, tid t, int depth, int64_t *lo, int64_t *hi) {
  const tensor *x = xt(m, t);
  if (et_kind(x->type) == K_FLOAT) return false;
  if (x->kind == TK_CONST) return const_range(x, lo, hi);
  if (x->kind != TK_STAGE || x->stage >= m->stages.n) return false;
  const stage *s = xs(m, x->stage);
  bool any = false;
  if (s->tensor != t) return false; /* a step of a recurrence that is not written yet */
  if (s->recurrence && depth > RECURRENCE_DEPTH) depth = RECURRENCE_DEPTH; /* may read itself, several times */
  if (s->value) {
    if (!value_range(m, s->value, depth, lo, hi)) return false;
    any = true;
  }
  for (uint32_t i = 0; i < s->updates.n; i++) {
    int64_t l, h;
    const update *u = &s->updates.v[i];
    if ((u->op != OP_NONE && u->op != OP_MAX && u->op != OP_MIN) || !value_range(m, u->value, depth, &l, &h))
      return false;
    *lo = any ? min64(*lo, l) : l, *hi = any ? max64(*hi, h) : h, any = true;
  }
  return any;
}
static bool reduce_range(emodule *m, const ex_node *n, int depth, int64_t *lo, int64_t *hi) {
  int64_t l, h, trips = 1;
  for (uint32_t i = 0; i < n->nargs; i++) {
    sym_range(m->c, sym_extent(m->c, n->args[i]), &l, &h);
    if (h == SYM_INF || !mul64(trips, max64(h, 0), &trips)) return false;
  }
  if (red_is_arg(n->op)) {
    if (n->payload) return !n->where && value_range(m, n->payload, depth, lo, hi);
    *lo = 0, *hi = 0;
    if (!n->nargs) return true;
    sym_range(m->c, sym_extent(m->c, n->args[0]), &l, &h);
    *hi = max64(h - 1, 0);
    return true;
  }
  if (n->op == RED_SUM && value_range(m, n->body, depth, &l, &h))
    return mul64(min64(l, 0), trips, lo) && mul64(max64(h, 0), trips, hi);
  return false;
}
static bool op_range(emodule *m, const ex_node *n, int depth, int64_t *lo, int64_t *hi) {
  int64_t l[3], h[3];
  uint32_t first = n->op == OP_SEL;
  if (n->op == OP_MOD || n->op == OP_MIN || n->op == OP_MAX) { /* the bound of one operand may be enough */
    bool a = value_range(m, n->args[0], depth, &l[0], &h[0]), b = value_range(m, n->args[1], depth, &l[1], &h[1]);
    if (n->op == OP_MOD) {
      *lo = 0, *hi = b ? h[1] - 1 : 0;
      return b && l[1] > 0;
    }
    if (!a || !b) return false;
    *lo = n->op == OP_MIN ? min64(l[0], l[1]) : max64(l[0], l[1]),
    *hi = n->op == OP_MIN ? min64(h[0], h[1]) : max64(h[0], h[1]);
    return true;
  }
  for (uint32_t i = first; i < n->nargs; i++)
    if (!value_range(m, n->args[i], depth, &l[i], &h[i])) return false;
  switch ((sop)n->op) {
  case OP_CAST:
    *lo = l[0], *hi = h[0];
    return et_kind(exn(m, n->args[0])->type) != K_FLOAT;
  case OP_SEL:
    *lo = min64(l[1], l[2]), *hi = max64(h[1], h[2]);
    return true;
  case OP_ADD:
    return add64(l[0], l[1], lo) && add64(h[0], h[1], hi);
  case OP_SUB:
    return !__builtin_sub_overflow(l[0], h[1], lo) && !__builtin_sub_overflow(h[0], l[1], hi);
  case OP_NEG:
    *lo = -h[0], *hi = -l[0];
    return l[0] != INT64_MIN;
  case OP_MUL: {
    int64_t p[4];
    if (!mul64(l[0], l[1], &p[0]) || !mul64(l[0], h[1], &p[1]) || !mul64(h[0], l[1], &p[2]) ||
        !mul64(h[0], h[1], &p[3]))
      return false;
    *lo = min64(min64(p[0], p[1]), min64(p[2], p[3])), *hi = max64(max64(p[0], p[1]), max64(p[2], p[3]));
    return true;
  }
  default:
    return false;
  }
}
static bool value_range(emodule *m, ex e, int depth, int64_t *lo, int64_t *hi) {
  const ex_node *n = exn(m, e);
  uint32_t bits = et_bits(n->type);
  bool known = false;
  int64_t l = 0, h = 0;
  if (depth-- > 0) switch ((ex_kind)n->kind) {
    case EX_CONST:
      l = h = n->k.i, known = et_kind(n->type) != K_FLOAT;
      break;
    case EX_INDEX:
      sym_range(m->c, n->index, &l, &h), known = l != -SYM_INF && h != SYM_INF;
      break;
    case EX_LOAD:
      known = tensor_range(m, n->tensor, depth, &l, &h);
      if (known && n->otherwise) {
        int64_t ol, oh;
        known = value_range(m, n->otherwise, depth, &ol, &oh);
        l = min64(l, ol), h = max64(h, oh);
      }
      break;
    case EX_OP:
      known = op_range(m, n, depth, &l, &h);
      break;
    case EX_REDUCE:
      known = reduce_range(m, n, depth, &l, &h);
      break;
    }
  /* the type's own range bounds it too, and wrapping makes a wider one meaningless */
  int64_t tl = INT64_MIN, th = INT64_MAX;
  if (n->type == ET_BOOL)
    tl = 0, th = 1;
  else if (et_kind(n->type) == K_INT && bits < 64)
    tl = -(INT64_C(1) << (bits - 1)), th = (INT64_C(1) << (bits - 1)) - 1;
  else if (et_kind(n->type) == K_UINT && bits < 64)
    tl = 0, th = (INT64_C(1) << bits) - 1;
  else if (et_kind(n->type) == K_FLOAT || n->type == ET_U64)
    known = false;
  if (known && l >= tl && h <= th) {
    *lo = l, *hi = h;
    return true;
  }
  *lo = tl, *hi = th;
  return th != INT64_MAX;
}

ex expr_in_table(const emodule *m, ex load) {
  const ex_node *n = exn(m, load);
  atom at;
  int64_t entries;
  if (n->kind != EX_LOAD || n->nargs != 1 || n->otherwise || !sym_is_atom(m->c, n->args[0], &at) ||
      sym_kind(m->c, at) != AT_DATA)
    return 0;
  const tensor *t = xt(m, n->tensor);
  if (t->kind != TK_CONST || et_bytes(t->type) > 4 || !sym_is_int(m->c, t->shape[0], &entries) || entries != 256)
    return 0;
  const ex_node *x = exn(m, sym_data_id(m->c, at));
  return x->kind == EX_OP && x->op == OP_CAST && exn(m, x->args[0])->type == ET_U8 ? x->args[0] : 0;
}
sz expr_data_size(emodule *m, ex e) {
  int64_t lo = 1, hi = 0;
  if (!value_range(m, e, 12, &lo, &hi)) lo = 1, hi = 0;
  return sym_data(m->c, e, lo, hi);
}
/* A comparison of i64 values as `s >= 0`; 0 if it is none. */
static sz as_condition(emodule *m, ex e, ex *eq) {
  const ex_node *n = exn(m, e);
  ctx *c = m->c;
  *eq = 0;
  if (n->kind != EX_OP || n->op < OP_EQ || n->op > OP_GE || n->op == OP_NE || exn(m, n->args[0])->type != ET_I64)
    return 0;
  sz a = expr_as_size(m, n->args[0]), b = expr_as_size(m, n->args[1]);
  if (n->op == OP_EQ) *eq = 1;
  switch ((sop)n->op) {
  case OP_LT:
    return sym_addi(c, sym_sub(c, b, a), -1);
  case OP_LE:
    return sym_sub(c, b, a);
  case OP_GT:
    return sym_addi(c, sym_sub(c, a, b), -1);
  default:
    return sym_sub(c, a, b);
  }
}
sz expr_as_size(emodule *m, ex e) {
  ctx *c = m->c;
  if (type_of(m, e) != ET_I64) ctx_bug(c, "expr: a size must be i64, not %s", et_name(type_of(m, e)));
  const ex_node *n = exn(m, e);
  if (n->kind == EX_CONST) return sym_int(c, n->k.i);
  if (n->kind == EX_INDEX) return n->index;
  if (n->kind != EX_OP) return expr_data_size(m, e);
  if (n->op == OP_SEL) {
    ex eq;
    sz k = as_condition(m, n->args[0], &eq);
    if (!k) return expr_data_size(m, e);
    sz a = expr_as_size(m, n->args[1]), b = expr_as_size(m, n->args[2]);
    return sym_sel(c, k, eq ? sym_sel(c, sym_neg(c, k), a, b) : a, b);
  }
  switch ((sop)n->op) {
  case OP_NEG:
    return sym_neg(c, expr_as_size(m, n->args[0]));
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_IDIV:
  case OP_MOD:
  case OP_MIN:
  case OP_MAX:
    break;
  default:
    return expr_data_size(m, e);
  }
  sz a = expr_as_size(m, n->args[0]), b = expr_as_size(m, n->args[1]);
  switch ((sop)n->op) {
  case OP_ADD:
    return sym_add(c, a, b);
  case OP_SUB:
    return sym_sub(c, a, b);
  case OP_MUL:
    return sym_mul(c, a, b);
  case OP_MIN:
    return sym_min(c, a, b);
  case OP_MAX:
    return sym_max(c, a, b);
  default: { /* a divisor that may be 0 keeps the operation's own meaning (0) and stays a value */
    int64_t lo, hi;
    sym_range(c, b, &lo, &hi);
    if (lo <= 0 && hi >= 0) return expr_data_size(m, e);
    return n->op == OP_IDIV ? sym_div(c, a, b) : sym_mod(c, a, b);
  }
  }
}

/* ---- tensors, stages ------------------------------------------------------------------------- */
/* An identifier made of s: letters, digits, _ and dots inside; never empty, never starting with a digit. */
const char *name_clean(arena *a, const char *s) {
  size_t n = s ? strlen(s) : 0, at = 0;
  char *r = arena_alloc(a, n + 3);
  if (!n) return memcpy(r, "t", 2);
  if ((s[0] >= '0' && s[0] <= '9') || s[0] == '.') r[at++] = '_';
  for (size_t i = 0; i < n; i++) {
    char ch = s[i];
    bool ok =
        (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '.';
    r[at++] = ok ? ch : '_';
  }
  return r;
}
static const char *unique_name(emodule *m, const char *want) {
  map *names = m->table->names;
  const char *base = name_clean(m->a, want), *name = base;
  uint64_t next = 0, dummy;
  if (map_gets(names, base, &next)) do
      name = arena_fmt(m->a, "%s.%llu", base, (unsigned long long)++next);
    while (map_gets(names, name, &dummy));
  map_puts(names, base, next);
  if (name != base) map_puts(names, name, 0);
  return name;
}

tid expr_tensor(emodule *m, tkind k, etype t, const sz *shape, uint32_t rank, const char *name, const char *origin) {
  if (rank > MAX_RANK)
    ctx_fail(m->c, E_UNSUPPORTED, "tensor %s has rank %u; at most %d axes are supported", name ? name : "?", rank,
             MAX_RANK);
  for (uint32_t i = 0; i < rank; i++)
    if (!shape[i]) ctx_bug(m->c, "expr: tensor %s: axis %u has no size", name ? name : "?", i);
  tensor x = {.kind = k, .type = t, .rank = rank, .origin = origin};
  x.shape = rank ? arena_dup(m->a, shape, rank * sizeof *shape) : NULL;
  x.name = unique_name(m, name);
  vec_push(m->a, m->tensors, x);
  return m->tensors.n - 1;
}
tid expr_const_tensor(emodule *m, const ndarray *data, const char *name) {
  sz shape[MAX_RANK];
  if (data->rank > MAX_RANK)
    ctx_fail(m->c, E_UNSUPPORTED, "constant %s has rank %u; at most %d axes are supported", name ? name : "?",
             data->rank, MAX_RANK);
  for (uint32_t i = 0; i < data->rank; i++) shape[i] = sym_int(m->c, data->dims[i]);
  tid t = expr_tensor(m, TK_CONST, data->type, shape, data->rank, name, NULL);
  ndarray *d = &xt(m, t)->data;
  int64_t n;
  *d = *data;
  if (et_bytes(d->type) && nd_count(d, &n)) d->bytes = (size_t)n * et_bytes(d->type);
  return t;
}
bool expr_of_check(const emodule *m, tid t) {
  for (uint32_t i = 0; i < m->checks.n; i++)
    if (m->checks.v[i].at == t || m->checks.v[i].value == t) return true;
  return false;
}
bool block_inside(const emodule *m, uint32_t b, uint32_t outer) {
  while (b != outer && b) b = m->blocks.v[b].parent;
  return b == outer;
}
uint32_t expr_enter(emodule *m, uint32_t block) {
  uint32_t mark = sym_mark(m->c);
  for (uint32_t i = 0; block && i < m->guards.n; i++) {
    const guard *g = &m->guards.v[i];
    bool out = !g->block || !(block_inside(m, block, g->block) || EK_PLANTED("expr-enter"));
    for (uint32_t j = 0; j < m->lates.n && !out; j++) out = sym_uses(m->c, g->ge0, m->lates.v[j].symbol);
    if (out) continue;
    sym_push(m->c, g->ge0);
    if (g->is_eq) sym_push(m->c, sym_neg(m->c, g->ge0));
  }
  return mark;
}
uint32_t expr_stage(emodule *m, uint32_t blk, tid t, const axis *axes, uint32_t naxes, ex value) {
  const tensor *x = xt(m, t);
  if (blk >= m->blocks.n) ctx_bug(m->c, "expr: no block %u", blk);
  if (naxes != x->rank) ctx_bug(m->c, "expr: stage %s has %u axes, its tensor rank %u", x->name, naxes, x->rank);
  if (value && type_of(m, value) != x->type)
    ctx_bug(m->c, "expr: stage %s is %s, its value %s", x->name, et_name(x->type), et_name(type_of(m, value)));
  if (x->kind == TK_STAGE && x->stage < m->stages.n && !xs(m, x->stage)->dead && xs(m, x->stage)->tensor == t)
    ctx_bug(m->c, "expr: tensor %s already has a stage", x->name);
  stage s = {.tensor = t, .naxes = naxes, .value = value, .block = blk};
  s.axes = naxes ? arena_dup(m->a, axes, naxes * sizeof *axes) : NULL;
  vec_push(m->a, m->stages, s);
  uint32_t id = m->stages.n - 1;
  xt(m, t)->kind = TK_STAGE, xt(m, t)->stage = id;
  vec_push(m->a, m->blocks.v[blk].items, ((item){IT_STAGE, id}));
  return id;
}
axis expr_axis1(emodule *m, const char *name, sz extent, sz *index) {
  sz v = sym_var(m->c, name, extent);
  atom a;
  if (index) *index = v;
  if (!sym_is_atom(m->c, v, &a)) return (axis){0};
  digit *d = NEW(m->a, digit);
  *d = (digit){a, extent};
  return (axis){1, d};
}
sz expr_axis_index(emodule *m, const axis *x) {
  sz r = sym_int(m->c, 0);
  for (uint32_t i = 0; i < x->n; i++)
    r = sym_add(m->c, sym_mul(m->c, r, x->d[i].extent), sym_of_atom(m->c, x->d[i].var));
  return r;
}
