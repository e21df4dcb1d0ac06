/* text: tensors of strings.
 *
 * A tensor of strings is a u8 tensor with one axis more: the bytes of each, zeros behind its end, all as long as
 * the longest place. Definitions do not see that axis. A statement that handles strings has one position in
 * them, x->chr, an index like any other: reading an element reads the byte at it (0 behind a narrower tensor's
 * end), what is stored is a stage with that index as its last axis. So movement needs nothing of its own.
 * Comparing two strings is a reduction over the position. `B = bytes(X)` shows the axis, `Y = text(B)` hides it:
 * operators that work inside strings do so on numbers.
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)

static sz width_of(el *x, const nten *t) { return sym_canon(x->c, xt(x->m, t->t)->shape[t->rank]); }
static sz widest(el *x, sz w, const val *v) {
  /* attributes may be results too */
  if (v->kind == V_STR) return sym_max(x->c, w, sym_int(x->c, (int64_t)strlen(v->p.str)));
  if (v->kind == V_TEN && v->p.t->type == ET_STR && v->p.t->t) return sym_max(x->c, w, width_of(x, v->p.t));
  if (v->kind == V_LIST)
    for (uint32_t i = 0; i < v->p.l->n; i++) w = widest(x, w, &v->p.l->v[i]);
  return w;
}
sz text_position(el *x) {
  if (x->chr) return x->chr;
  sz w = sym_int(x->c, 1);
  for (const binding *b = x->globals; b; b = b->next) w = widest(x, w, &b->v);
  x->chr_extent = sym_canon(x->c, w);
  return x->chr = sym_var(x->c, "chr", x->chr_extent);
}
ex text_load(el *x, nten *t, const sz *idx, ex otherwise) {
  ctx *c = x->c;
  sz at = text_position(x), w = width_of(x, t), full[MAX_RANK + 1];
  if (t->rank >= MAX_RANK) ctx_fail(c, E_UNSUPPORTED, "strings of rank %u: %d is the most", t->rank, MAX_RANK - 1);
  memcpy(full, idx, t->rank * sizeof *full);
  full[t->rank] = at;
  if (sym_le(c, x->chr_extent, w)) return expr_load(x->m, t->t, full, t->rank + 1, otherwise);
  ex zero = expr_i(x->m, ET_U8, 0), out = zero;
  if (otherwise) { /* outside for the byte alone: the string's end; else what stands in for the string */
    ex inside = expr_bool(x->m, true);
    for (uint32_t i = 0; i < t->rank; i++) {
      ex e = expr_from_size(x->m, idx[i]), d = expr_from_size(x->m, sym_canon(c, t->shape[i])),
         z = expr_i(x->m, ET_I64, 0);
      inside = expr_op2(x->m, OP_AND, inside,
                        expr_op2(x->m, OP_AND, expr_op2(x->m, OP_GE, e, z), expr_op2(x->m, OP_LT, e, d)));
    }
    out = expr_sel(x->m, inside, zero, otherwise);
  }
  return expr_load(x->m, t->t, full, t->rank + 1, out);
}

/* ---- constants ------------------------------------------------------------------------------- */
nten *text_const(el *x, const ndarray *strings, const char *name) {
  ndarray d;
  if (!nd_bytes(x->m->a, strings, &d)) ctx_fail(x->c, E_MEMORY, "%s: too many strings", name);
  nten *t = NEW(x->a, nten);
  sz *shape = NEWN(x->m->a, sz, d.rank);
  for (uint32_t i = 0; i < d.rank; i++) shape[i] = sym_int(x->c, d.dims[i]);
  *t = (nten){.name = name, .type = ET_STR, .rank = strings->rank, .shape = shape, .read = true};
  t->t = expr_const_tensor(x->m, &d, arena_fmt(x->m->a, "%s.%s", x->node ? x->node : "const", name));
  return t;
}
nten *text_list(el *x, vlist *l, const ast *at) {
  bytes *b = NEWN(x->a, bytes, l->n + 1);
  for (uint32_t i = 0; i < l->n; i++) {
    if (l->v[i].kind != V_STR) FAIL(at, "tensor(..) mixes strings and %s", v_describe(x, l->v[i]));
    b[i] = (bytes){(const uint8_t *)l->v[i].p.str, strlen(l->v[i].p.str)};
  }
  ndarray d = {.type = ET_STR, .rank = 1, .dims = {l->n}, .data = b};
  return text_const(x, &d, "list");
}
/* The byte of a literal at the current position. */
ex text_literal(el *x, const char *s, const ast *at) {
  size_t n = strlen(s);
  sz pos = text_position(x), k = sym_int(x->c, (int64_t)n);
  ex zero = expr_i(x->m, ET_U8, 0);
  if (!n) return zero;
  if (!sym_le(x->c, k, x->chr_extent)) FAIL(at, "the string \"%s\" is longer than any other string here", s);
  ndarray d = {.type = ET_U8, .rank = 1, .dims = {(int64_t)n}, .data = arena_dup(x->m->a, s, n), .bytes = n};
  tid t = expr_const_tensor(x->m, &d, arena_fmt(x->m->a, "%s.word", x->node ? x->node : "const"));
  return expr_load(x->m, t, &pos, 1, sym_le(x->c, x->chr_extent, k) ? 0 : zero);
}

/* ---- comparing ------------------------------------------------------------------------------- */
val text_equal(el *x, val a, val b, binop o, const ast *at) {
  if (o != BO_EQ && o != BO_NE)
    FAIL(at, "`%s` of strings; they can be compared with == and !=, and taken apart with bytes(..)", binop_text(o));
  ex same = expr_op2(x->m, OP_EQ, v_lift(x, a, ET_STR, at), v_lift(x, b, ET_STR, at));
  atom v, w;
  if (sym_is_atom(x->c, text_position(x), &v) && sym_kind(x->c, v) == AT_VAR) { /* a position of the comparison's own */
    sz own = sym_var(x->c, "chr", x->chr_extent);
    same = expr_subst_vars(x->m, same, &v, &own, 1);
    if (sym_is_atom(x->c, own, &w)) same = expr_reduce(x->m, RED_ALL, &w, 1, 0, same, 0, ET_BOOL, ET_BOOL);
  }
  return v_ex(o == BO_EQ ? same : expr_op1(x->m, OP_NOT, same));
}

/* ---- inside ---------------------------------------------------------------------------------- */
bool text_call(el *x, const ast *e, const char *name, nten **out) {
  bool bytes_of = e->kind == A_CALL && !strcmp(e->name, "bytes"), text = e->kind == A_CALL && !strcmp(e->name, "text");
  if ((!bytes_of && !text) || e->nel != 1) return false;
  val v = ev(x, e->el[0].e);
  nten *t = v.kind == V_TEN ? v.p.t : NULL;
  if (!t || t->type != (text ? ET_U8 : ET_STR) || (text && !t->rank))
    FAIL(e,
         text ? "text(..) takes a u8 tensor, whose last axis are the bytes, not %s"
              : "bytes(..) takes a tensor of strings, not %s",
         v_describe(x, v));
  tid m = materialise(x, t);
  t->read = true;
  nten *r = NEW(x->a, nten);
  *r = (nten){.name = name,
              .type = text ? ET_STR : ET_U8,
              .rank = text ? t->rank - 1 : t->rank + 1,
              .shape = xt(x->m, m)->shape,
              .t = m,
              .read = true};
  *out = r;
  return true;
}
