/* walk: expressions of a definition to values.
 *
 * Indices are bound by the left side of a stage, by a reduction, by `for` and by comprehensions (there: numbers). Where
 * no bound is written the range comes from, in this order: the dim or pack of that name; the declared position on the
 * left side; a direct use `X[.., k, ..]` at the position of X's declared type. All uses must agree. An access is in
 * range by proof; else it needs `else`, or leaves a guard on sizes. Conditions (`?:`, and, or, where) are facts for the
 * prover while the guarded part is evaluated.
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)
enum { MAX_STEPS = 20000000, MAX_CALLS = 64 };

/* ---- names ----------------------------------------------------------------------------------- */
binding *find_global(el *x, const char *name) {
  for (binding *b = x->globals; b; b = b->next)
    if (b->name == name) return b;
  return NULL;
}
binding *find(el *x, const char *name) {
  for (binding *b = x->locals; b; b = b->next)
    if (b->name == name && !(x->stat && b->role == R_INDEX)) return b;
  return find_global(x, name);
}
static binding *bind(el *x, binding **chain, const char *name, role r, val v) {
  binding *b = NEW(x->a, binding);
  b->name = name;
  b->role = (uint8_t)r;
  b->v = v;
  b->next = *chain;
  return *chain = b;
}
binding *bind_local(el *x, const char *name, role r, val v) { return bind(x, &x->locals, name, r, v); }
binding *bind_global(el *x, const char *name, role r, val v) {
  binding *b = find_global(x, name); /* lets may be bound again (each, fold) */
  if (!b) return bind(x, &x->globals, name, r, v);
  b->role = (uint8_t)r;
  b->v = v;
  return b;
}

static val constant(const char *n, bool *ok) {
  *ok = true;
  etype t = et_parse(n);
  if (t != ET_NONE) return v_type(t);
  if (!strcmp(n, "true") || !strcmp(n, "false")) return v_bool(*n == 't');
  if (!strcmp(n, "none")) return v_none();
  if (!strcmp(n, "inf")) return v_float(__builtin_inf());
  if (!strcmp(n, "nan")) return v_float(__builtin_nan(""));
  if (!strcmp(n, "pi")) return v_float(3.14159265358979323846);
  *ok = false;
  return v_none();
}

static val name_value(el *x, const ast *e) {
  binding *b = find(x, e->name);
  if (b) {
    if (b->role == R_FN) FAIL(e, "%s is a function; call it with (..)", e->name);
    return b->v;
  }
  bool ok;
  val v = constant(e->name, &ok);
  if (ok) return v;
  if (x->stat)
    for (b = x->locals; b; b = b->next)
      if (b->name == e->name) FAIL(e, "%s is an index, but here a size known before the run is needed", e->name);
  FAIL(e, "unknown name %s (or one that has no value here)", e->name);
}

/* size(k): the range of the index k, or the size called k */
static val size_of(el *x, const ast *e) {
  const ast *n = e->nel == 1 ? e->el[0].e : NULL;
  if (!n || n->kind != A_NAME) FAIL(e, "size(k) takes the name of an index, dim or pack");
  bool local_param = false;
  for (binding *b = x->locals; b; b = b->next)
    if (b->name == n->name) {
      if (b->role == R_INDEX && b->range.kind) return b->range;
      local_param = true;
      break;
    }
  binding *b = find_global(x, n->name);
  if (b && (b->v.kind == V_SIZE || b->v.kind == V_LIST)) return b->v;
  if (local_param)
    FAIL(e, "%s is a parameter here; its size is not known, pass size(..) as another parameter", n->name);
  FAIL(e, "%s is not an index, dim or pack", n->name);
}

/* ---- lists ----------------------------------------------------------------------------------- */
val ev_elems(el *x, const elem *els, uint32_t n) {
  VEC(val) v = {0};
  for (uint32_t i = 0; i < n; i++) {
    val q = ev(x, els[i].e);
    if (!els[i].splat)
      vec_push(x->a, v, q);
    else {
      if (q.kind != V_LIST) FAIL(els[i].e, "`...` splices a pack, but this is %s", v_describe(x, q));
      for (uint32_t j = 0; j < q.p.l->n; j++) vec_push(x->a, v, q.p.l->v[j]);
    }
  }
  val r = v_list(x, v.n);
  if (v.n) memcpy(r.p.l->v, v.v, v.n * sizeof *v.v);
  return r;
}
val ev_static(el *x, const ast *e) {
  bool save = x->stat;
  x->stat = true;
  val v = ev(x, e);
  x->stat = save;
  return v;
}

/* The indices of an access: packs spliced, (g, m) as g*size(m) + m. */
static val indices(el *x, const elem *els, uint32_t n) {
  VEC(val) v = {0};
  for (uint32_t i = 0; i < n; i++) {
    const ast *e = els[i].e;
    bool mixed = e->kind == A_TUPLE && !els[i].splat;
    for (uint32_t j = 0; mixed && j < e->nel; j++) mixed = e->el[j].e->kind == A_NAME && !e->el[j].splat;
    if (mixed) {
      sz p = sym_int(x->c, 0);
      for (uint32_t j = 0; j < e->nel; j++) {
        ast probe = {.kind = A_CALL, .line = e->line, .col = e->col, .el = &e->el[j], .nel = 1};
        val r = size_of(x, &probe), q = ev(x, e->el[j].e);
        if (q.kind != V_SIZE || r.kind != V_SIZE)
          FAIL(e, "the digits of (..) in an index are plain indices; %s is %s", e->el[j].e->name, v_describe(x, q));
        p = sym_add(x->c, sym_mul(x->c, p, r.s), q.s);
      }
      vec_push(x->a, v, v_index(p));
      continue;
    }
    val l = ev_elems(x, &els[i], 1);
    for (uint32_t j = 0; j < l.p.l->n; j++) vec_push(x->a, v, l.p.l->v[j]);
  }
  val r = v_list(x, v.n);
  if (v.n) memcpy(r.p.l->v, v.v, v.n * sizeof *v.v);
  return r;
}

/* ---- access ---------------------------------------------------------------------------------- */
val load_at(el *x, nten *t, const sz *idx, ex otherwise) {
  int64_t i;
  if (t->uniform && !otherwise) {
    ast at = {0};
    val v = v_ex(v_lift(x, t->fill, t->type, &at));
    v.b = true;
    return v;
  }
  if (!t->t && t->values && t->rank == 1) { /* a list of sizes */
    if (sym_is_int(x->c, idx[0], &i)) return v_index(t->values[i]);
    int64_t n = sym_int_or(x->c, t->shape[0], 0);
    sz r = n ? t->values[n - 1] : sym_int(x->c, 0);
    for (int64_t j = n - 2; j >= 0; j--) r = sym_sel(x->c, sym_addi(x->c, sym_neg(x->c, idx[0]), j), t->values[j], r);
    return v_index(r);
  }
  materialise(x, t);
  t->read = true;
  if (t->type == ET_STR) return (val){.kind = V_EX, .e = text_load(x, t, idx, otherwise), .str = true};
  return v_ex(expr_load(x->m, t->t, idx, t->rank, otherwise));
}

/* Facts that a contract gives about the data inside an index. Returns the mark to pop to. */
static void contract_facts(el *x, sz idx) {
  u32vec data = {0};
  sym_atoms(x->c, idx, AT_DATA, x->a, &data);
  for (uint32_t i = 0; i < data.n; i++) {
    ex e = sym_data_id(x->c, data.v[i]);
    const ex_node *n = exn(x->m, e);
    while (n->kind == EX_OP && n->op == OP_CAST) n = exn(x->m, n->args[0]);
    if (n->kind != EX_LOAD) continue;
    for (binding *b = x->globals; b; b = b->next)
      if (b->role == R_TENSOR && b->v.kind == V_TEN && b->v.p.t->t == n->tensor && b->v.p.t->hi) {
        sz d = sym_of_atom(x->c, data.v[i]);
        sym_push(x->c, sym_sub(x->c, d, b->v.p.t->lo));
        sym_push(x->c, sym_addi(x->c, sym_sub(x->c, b->v.p.t->hi, d), -1));
      }
  }
}
/* e >= 0 with its indices replaced by the ends of their ranges that make it smallest; 0 if that does not work. An
 * index that a condition around speaks of is replaced by what the condition says. */
static sz without_indices(el *x, sz e) {
  ctx *c = x->c;
  u32vec vars = {0};
  sym_atoms(c, e, AT_VAR, x->a, &vars);
  for (uint32_t i = vars.n; i-- > 0;) {
    atom v = vars.v[i];
    sz coef, rest, k, r;
    if (!sym_linear(c, e, v, &coef, &rest)) return 0;
    bool up = sym_ge0(c, coef); /* where the coefficient is not negative, the lower bound counts */
    if (!up && !sym_ge0(c, sym_neg(c, coef))) return 0;
    sz end = up ? sym_int(c, 0) : sym_addi(c, sym_extent(c, v), -1);
    for (uint32_t j = x->facts.n; j-- > 0;) {
      int64_t one;
      if (!sym_uses(c, x->facts.v[j], v)) continue;
      if (!sym_linear(c, x->facts.v[j], v, &k, &r) || !sym_is_int(c, k, &one) || (one != 1 && one != -1)) return 0;
      if ((one == 1) != up) continue;
      end = up ? sym_neg(c, r) : r; /* v >= -r, or v <= r */
      break;
    }
    e = sym_add(c, rest, sym_mul(c, coef, end));
  }
  return sym_uses_kind(c, e, AT_VAR) ? 0 : e;
}
/* Is 0 <= idx < n? Without a proof, what is left of the inequality when the indices are eliminated becomes a guard;
 * nothing is done for an index read from data (the contract on it is the model's). */
static void in_range(el *x, nten *t, sz idx, sz n, const ast *at) {
  ctx *c = x->c;
  int64_t lo, hi, k;
  sym_range(c, idx, &lo, &hi);
  if (lo >= 0 && hi < SYM_INF && sym_is_int(c, n, &k) && hi < k) return;
  for (uint32_t i = 0; i < x->extents.n; i++) /* nothing happens where a range is empty */
    if (sym_is_int(c, x->extents.v[i], &k) && k <= 0) return;
  uint32_t mark = sym_mark(c);
  for (uint32_t i = 0; i < x->extents.n; i++)
    if (!sym_is_int(c, x->extents.v[i], NULL)) sym_push(c, sym_addi(c, x->extents.v[i], -1));
  contract_facts(x, idx);
  sz goal[2] = {idx, sym_addi(c, sym_sub(c, n, idx), -1)};
  for (int g = 0; g < 2; g++) {
    if (sym_ge0(c, goal[g]) || sym_uses_kind(c, goal[g], AT_DATA)) continue;
    sz left = without_indices(x, goal[g]);
    if (!left || sym_ge0(c, left)) continue;
    if (x->soft) continue;
    if (sym_is_int(c, left, &k)) {
      sym_pop(c, mark);
      FAIL(at, "%s[..]: index %s leaves 0 .. %s - 1; give the value outside with `else`", t->name, sym_str(c, idx),
           sym_str(c, n));
    }
    sym_pop(c, mark);
    guard_ge0(x, left, false,
              arena_fmt(x->m->a, "%s: index %s of %s stays within %s only if %s >= 0", x->d->name, sym_str(c, idx),
                        t->name, sym_str(c, n), sym_str(c, left)));
    mark = sym_mark(c);
  }
  sym_pop(c, mark);
}

/* An integer value as an sz for an index. */
static sz index_sz(el *x, nten *t, val v, const ast *at) {
  if (v.kind == V_SIZE) return sym_canon(x->c, v.s);
  if (v.kind == V_EX && !v.str) {
    etype q = (etype)exn(x->m, v.e)->type;
    if (et_kind(q) == K_INT || et_kind(q) == K_UINT) return expr_as_size(x->m, expr_cast(x->m, ET_I64, v.e));
  }
  FAIL(at, "%s[..]: an index must be an integer, not %s", t->name, v_describe(x, v));
}

val access_tensor(el *x, nten *t, const ast *e) {
  ctx *c = x->c;
  val ix = indices(x, e->el, e->nel);
  uint32_t n = ix.p.l->n, r = t->rank, skip = 0;
  if (e->tilde) {
    if (n < r) FAIL(e, "%s~[..]: %u indices for rank %u", t->name, n, r);
    skip = n - r;
  } else if (n != r)
    FAIL(e, "%s[..]: %u ind%s for rank %u", t->name, n, n == 1 ? "ex" : "ices", r);
  sz *idx = NEWN(x->a, sz, r ? r : 1);
  bool inside = true;
  uint64_t safe = 0; /* a bit for each axis whose range ends where the tensor does */
  for (uint32_t i = 0; i < r; i++) {
    val v = ix.p.l->v[skip + i];
    sz d = sym_canon(c, t->shape[i]);
    idx[i] = index_sz(x, t, v, e);
    if (!e->tilde) continue;
    int64_t k;
    if (sym_is_int(c, d, &k) && k == 1) {
      idx[i] = sym_int(c, 0);
      continue;
    }
    atom a;
    if (e->kid[1] || !sym_is_atom(c, idx[i], &a) || sym_kind(c, a) != AT_VAR) continue;
    sz ext = sym_canon(c, sym_extent(c, a)), rest;
    if (ext != d && sym_exact_div(c, ext, d, &rest) && (at_most_one(x, d) || at_most_one(x, rest))) {
      if (at_most_one(x, d)) idx[i] = sym_int(c, 0); /* the range is empty where d is 0 */
      safe |= (uint64_t)1 << i;
      continue;
    }
    if (ext != d) need_equal(x, d, ext, true, e->line, e->col, arena_fmt(x->a, "broadcast of %s", t->name));
  }
  if (!e->kid[1]) {
    for (uint32_t i = 0; i < r; i++)
      if (!(safe >> i & 1)) in_range(x, t, idx[i], sym_canon(c, t->shape[i]), e);
    return load_at(x, t, idx, 0);
  }
  for (uint32_t i = 0; i < r; i++) { /* the guard stays, unless it is provably idle or provably all there is */
    sz d = sym_canon(c, t->shape[i]), above = sym_addi(c, sym_sub(c, d, idx[i]), -1);
    bool low = sym_ge0(c, idx[i]), high = sym_ge0(c, above);
    if (!low && sym_ge0(c, sym_addi(c, sym_neg(c, idx[i]), -1)))
      return (val){.kind = V_EX, .e = v_lift(x, ev(x, e->kid[1]), t->type, e->kid[1]), .str = t->type == ET_STR};
    if (!high && sym_le(c, d, idx[i]))
      return (val){.kind = V_EX, .e = v_lift(x, ev(x, e->kid[1]), t->type, e->kid[1]), .str = t->type == ET_STR};
    inside &= low && high;
  }
  if (inside) return load_at(x, t, idx, 0);
  return load_at(x, t, idx, v_lift(x, ev(x, e->kid[1]), t->type, e->kid[1]));
}

static val index_list(el *x, vlist *l, val i, const ast *at) {
  if (i.kind == V_LIST) {
    val r = v_list(x, i.p.l->n);
    for (uint32_t j = 0; j < i.p.l->n; j++) r.p.l->v[j] = index_list(x, l, i.p.l->v[j], at);
    return r;
  }
  int64_t k = v_need_int(x, i, at, "the position in a pack");
  if (k < 0) k += l->n;
  if (k < 0 || k >= l->n) FAIL(at, "position %lld of a pack of %u", (long long)k, l->n);
  return l->v[k];
}

static val access(el *x, const ast *e) {
  val t = ev(x, e->kid[0]);
  if (t.kind == V_TEN) return access_tensor(x, t.p.t, e);
  if (t.kind == V_LIST) {
    bool tensors = t.p.l->n > 0;
    for (uint32_t i = 0; i < t.p.l->n; i++) tensors &= t.p.l->v[i].kind == V_TEN;
    if (tensors && (e->tilde || e->nel != 1 || e->el[0].splat)) { /* X~[i...] of a variadic input: one element each */
      val r = v_list(x, t.p.l->n);
      for (uint32_t i = 0; i < t.p.l->n; i++) r.p.l->v[i] = access_tensor(x, t.p.l->v[i].p.t, e);
      return r;
    }
    if (e->nel != 1 || e->el[0].splat) FAIL(e, "a pack takes one position");
    return index_list(x, t.p.l, ev(x, e->el[0].e), e->el[0].e);
  }
  if (t.kind == V_NONE) FAIL(e, "this input was omitted; test has(..) before reading it");
  if (!e->nel && !e->kid[1]) return t; /* a scalar that is not a tensor: x[] is x */
  FAIL(e, "[..] reads a tensor or a pack, but this is %s", v_describe(x, t));
}

/* ---- ranges ---------------------------------------------------------------------------------- */
static bool same_name(const elem *q, const char *name, bool splat) {
  return q->e && q->e->kind == A_NAME && q->e->name == name && q->splat == splat;
}

/* Position of the index or pack `name` in a bracket against the dims it stands for. */
bool range_at(el *x, const elem *lhs, uint32_t nlhs, const sz *dims, uint32_t ndims, const seg *segs, uint32_t nsegs,
              const char *name, bool splat, val *out) {
  bool match = segs && nsegs == nlhs;
  for (uint32_t i = 0; match && i < nlhs; i++) match = segs[i].splat == lhs[i].splat;
  if (match) {
    for (uint32_t i = 0; i < nlhs; i++)
      if (same_name(&lhs[i], name, splat)) {
        if (!splat) return *out = v_size(segs[i].d[0]), true;
        *out = v_list(x, segs[i].n);
        for (uint32_t j = 0; j < segs[i].n; j++) out->p.l->v[j] = v_size(segs[i].d[j]);
        return true;
      }
    return false;
  }
  /* lengths: names without `...` count one, known packs their length, one unknown takes the rest */
  int64_t pos = -1, known = 0, unknown = -1, nunknown = 0;
  int64_t *len = NEWN(x->a, int64_t, nlhs ? nlhs : 1);
  for (uint32_t i = 0; i < nlhs; i++) {
    len[i] = 1;
    if (pos < 0 && same_name(&lhs[i], name, splat))
      pos = i, len[i] = splat ? -1 : 1;
    else if (lhs[i].splat) {
      len[i] = -1;
      if (lhs[i].e->kind == A_NAME) {
        binding *b = find(x, lhs[i].e->name);
        if (b && b->v.kind == V_LIST) len[i] = b->v.p.l->n;
      }
    }
    if (len[i] < 0)
      unknown = i, nunknown++;
    else
      known += len[i];
  }
  if (pos < 0 || nunknown > 1 || known > ndims) return false;
  if (nunknown)
    len[unknown] = ndims - known;
  else if (known != ndims)
    return false;
  uint32_t from = 0;
  for (int64_t i = 0; i < pos; i++) from += (uint32_t)len[i];
  if (!splat) return from < ndims ? (*out = v_size(dims[from]), true) : false;
  *out = v_list(x, (uint32_t)len[pos]);
  for (int64_t j = 0; j < len[pos]; j++) out->p.l->v[j] = v_size(dims[from + j]);
  return true;
}

typedef struct search {
  el *x;            /* the elaboration */
  const char *name; /* the index */
  bool splat;       /* it is a pack */
  bool found;       /* its extent is known */
  val v;            /* its extent */
} search;
static void search_in(search *s, const ast *e) {
  if (!e) return;
  el *x = s->x;
  if (e->kind == A_ACCESS && !e->tilde && e->kid[0]->kind == A_NAME) {
    binding *b = find_global(x, e->kid[0]->name);
    val v;
    if (b && b->v.kind == V_TEN &&
        range_at(x, e->el, e->nel, b->v.p.t->shape, b->v.p.t->rank, b->v.p.t->segs, b->v.p.t->nsegs, s->name, s->splat,
                 &v)) {
      if (!s->found)
        s->found = true, s->v = v;
      else if (!s->splat)
        need_equal(x, s->v.s, v.s, false, e->line, e->col,
                   arena_fmt(x->a, "the ranges of index %s (here from %s)", s->name, b->name));
      else {
        if (s->v.p.l->n != v.p.l->n) FAIL(e, "index pack %s has %u and %u indices", s->name, s->v.p.l->n, v.p.l->n);
        for (uint32_t i = 0; i < v.p.l->n; i++)
          need_equal(x, s->v.p.l->v[i].s, v.p.l->v[i].s, false, e->line, e->col,
                     arena_fmt(x->a, "the ranges of index %s (here from %s)", s->name, b->name));
      }
    }
  }
  for (int i = 0; i < 3; i++) search_in(s, e->kid[i]);
  for (uint32_t i = 0; i < e->nel; i++) search_in(s, e->el[i].e);
}
bool range_from_accesses(el *x, const char *name, bool splat, const ast **exprs, uint32_t n, val *out) {
  search s = {.x = x, .name = name, .splat = splat};
  for (uint32_t i = 0; i < n; i++) search_in(&s, exprs[i]);
  *out = s.v;
  return s.found;
}

/* ---- binders --------------------------------------------------------------------------------- */
static val one_index(el *x, const char *name, sz lo, sz hi, u32vec *vars) {
  sz ext = sym_canon(x->c, sym_sub(x->c, hi, lo));
  sz v = sym_var(x->c, name, ext);
  atom a;
  if (sym_is_atom(x->c, v, &a)) vec_push(x->a, *vars, a);
  vec_push(x->a, x->extents, ext);
  return v_index(sym_add(x->c, lo, v));
}
void bind_index(el *x, const char *name, bool splat, val lo, val hi, u32vec *vars, uint32_t line, uint32_t col) {
  ast at = {.line = line, .col = col};
  sz zero = sym_int(x->c, 0);
  val v;
  if (splat) {
    if (hi.kind != V_LIST) FAIL(&at, "index pack %s... needs a pack as its range, not %s", name, v_describe(x, hi));
    v = v_list(x, hi.p.l->n);
    val range = v_list(x, hi.p.l->n);
    for (uint32_t i = 0; i < hi.p.l->n; i++) {
      sz q = v_need_size(x, hi.p.l->v[i], &at, arena_fmt(x->a, "the range of index %s", name));
      range.p.l->v[i] = v_size(q);
      v.p.l->v[i] = one_index(x, intern(x->c, arena_fmt(x->a, "%s%u", name, i)), zero, q, vars);
    }
    hi = range;
  } else {
    if (hi.kind == V_LIST) FAIL(&at, "index %s ranges over a pack; write %s...", name, name);
    const char *what = arena_fmt(x->a, "the range of index %s", name);
    sz l = lo.kind && lo.kind != V_NONE ? v_need_size(x, lo, &at, what) : zero, h = v_need_size(x, hi, &at, what);
    hi = v_size(h);
    v = one_index(x, name, l, h, vars);
  }
  bind_local(x, name, R_INDEX, v)->range = hi;
}

void bind_all(el *x, const binder *b, uint32_t n, const ast **exprs, uint32_t nexprs, bound *out) {
  *out = (bound){.saved = x->locals, .extents = x->extents.n};
  val *hi = NEWN(x->a, val, n ? n : 1), *lo = NEWN(x->a, val, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) { /* ranges first: a binder's own name is a size in them */
    if (b[i].lo) lo[i] = ev_static(x, b[i].lo);
    if (b[i].hi)
      hi[i] = ev_static(x, b[i].hi);
    else {
      binding *g = find_global(x, b[i].name);
      if (g && (g->v.kind == V_SIZE || g->v.kind == V_LIST)) hi[i] = g->v;
    }
  }
  for (uint32_t i = 0; i < n; i++)
    if (!hi[i].kind && !range_from_accesses(x, b[i].name, b[i].splat, exprs, nexprs, &hi[i]))
      el_fail(x, E_SHAPE, b[i].line, b[i].col,
              "index %s has no range: no dim has this name and no access X[.., %s, ..] gives one; write %s < size",
              b[i].name, b[i].name, b[i].name);
  for (uint32_t i = 0; i < n; i++) bind_index(x, b[i].name, b[i].splat, lo[i], hi[i], &out->vars, b[i].line, b[i].col);
}
void unbind(el *x, bound *b) {
  x->locals = b->saved;
  x->extents.n = b->extents;
}

/* ---- reductions ------------------------------------------------------------------------------ */
static ex identity(el *x, rop op, etype t) {
  bool fl = et_kind(t) == K_FLOAT;
  switch (op) {
  case RED_PROD:
    return expr_cast(x->m, t, fl ? expr_f(x->m, t, 1) : expr_i(x->m, t, 1));
  case RED_MAX:
  case RED_MIN:
    return expr_const(x->m, t, et_bound(t, op == RED_MIN));
  case RED_ANY:
    return expr_bool(x->m, false);
  case RED_ALL:
    return expr_bool(x->m, true);
  default:
    return fl ? expr_f(x->m, t, 0) : expr_i(x->m, t, 0);
  }
}

static val reduce(el *x, const ast *e) {
  rop op = (rop)e->op;
  bool arg = op >= RED_ARGMAX;
  bound bd;
  const ast *exprs[3] = {e->kid[0], e->kid[1], e->kid[2]};
  bind_all(x, e->b, e->nb, exprs, 3, &bd);
  val w = e->kid[1] ? ev(x, e->kid[1]) : v_bool(true);
  if (w.kind == V_LIST) FAIL(e->kid[1], "`where` needs one condition; join a pack with every(..)");
  if (w.kind != V_BOOL && !(w.kind == V_EX && exn(x->m, w.e)->type == ET_BOOL))
    FAIL(e->kid[1], "`where` needs a condition, not %s", v_describe(x, w));
  condmark mark = {0};
  if (w.kind == V_EX) mark = cond_push(x, w.e, true);
  val body = ev(x, e->kid[0]);
  val pay = e->kid[2] ? ev(x, e->kid[2]) : v_none();
  if (arg && !e->kid[2]) {
    if (e->nb != 1 || e->b[0].splat)
      FAIL(e, "over several indices the winner's place needs a payload: argmax[..] e -> place");
    pay = find(x, e->b[0].name)->v;
  }
  if (w.kind == V_EX) cond_pop(x, mark);
  unbind(x, &bd);
  etype t = v_etype(x, body);
  if (!t) t = (body.kind == V_EX ? (etype)exn(x->m, body.e)->type : body.kind == V_SIZE ? ET_I64 : ET_F32);
  if (body.kind == V_LIST) FAIL(e->kid[0], "a reduction needs one value, not a pack");
  if (body.str || pay.str) FAIL(e->kid[0], "a reduction of strings");
  bool logical = op == RED_ANY || op == RED_ALL;
  if (logical != (t == ET_BOOL) && !(t == ET_BOOL && (op == RED_MAX || op == RED_MIN)))
    FAIL(e, logical ? "any and all need conditions, not %s" : "this reduction needs numbers, not %s", et_name(t));
  ex b = v_lift(x, body, t, e->kid[0]), p = 0;
  if (arg) p = v_lift(x, pay, ET_I64, e->kid[2] ? e->kid[2] : e);
  if (w.kind == V_BOOL && !w.b && !arg) return v_ex(identity(x, op, t));
  ex cond = w.kind == V_EX ? w.e : 0;
  if (!bd.vars.n) { /* every range is 1: the body itself */
    if (arg) return v_ex(p);
    return v_ex(cond ? expr_sel(x->m, cond, b, identity(x, op, t)) : b);
  }
  etype acc = t;
  if (e->acc)
    acc = et_parse(e->acc);
  else if ((op == RED_SUM || op == RED_PROD) && et_kind(t) == K_FLOAT && et_bits(t) < 32)
    acc = ET_F32;
  const ex_node *factor = exn(x->m, b);
  /* products are exact in the wider type: one rounding, at the end */
  if (op == RED_SUM && acc != t && et_kind(acc) == K_FLOAT && factor->kind == EX_OP && factor->op == OP_MUL &&
      factor->type == t) {
    ex l = factor->args[0], r = factor->args[1];
    b = expr_op2(x->m, OP_MUL, expr_cast(x->m, acc, l), expr_cast(x->m, acc, r));
    return v_ex(expr_cast(x->m, t, expr_reduce(x->m, op, bd.vars.v, bd.vars.n, cond, b, 0, acc, acc)));
  }
  return v_ex(expr_reduce(x->m, op, bd.vars.v, bd.vars.n, cond, b, p, acc, arg ? ET_I64 : t));
}

/* ---- functions ------------------------------------------------------------------------------- */
val ev_fn(el *x, const fndef *f, val *args, uint32_t n, const ast *at) {
  /* one pack parameter takes all arguments */
  if (f->nparams == 1 && f->params[0].splat && !(n == 1 && args[0].kind == V_LIST)) {
    val l = v_list(x, n);
    if (n) memcpy(l.p.l->v, args, n * sizeof *args);
    val *one = NEWN(x->a, val, 1);
    *one = l;
    args = one, n = 1;
  }
  if (n != f->nparams) FAIL(at, "%s takes %u argument%s, %u given", f->name, f->nparams, f->nparams == 1 ? "" : "s", n);
  int64_t len = -1;
  for (uint32_t i = 0; i < n; i++)
    if (args[i].kind == V_LIST && !f->params[i].splat) {
      if (len >= 0 && len != args[i].p.l->n)
        FAIL(at, "%s: packs of different length, %lld and %u", f->name, (long long)len, args[i].p.l->n);
      len = args[i].p.l->n;
    }
  if (len >= 0) { /* a scalar is used for each place of the packs */
    val r = v_list(x, (uint32_t)len), *one = NEWN(x->a, val, n);
    for (uint32_t j = 0; j < len; j++) {
      for (uint32_t i = 0; i < n; i++)
        one[i] = args[i].kind == V_LIST && !f->params[i].splat ? args[i].p.l->v[j] : args[i];
      r.p.l->v[j] = ev_fn(x, f, one, n, at);
    }
    return r;
  }
  if (++x->depth > MAX_CALLS)
    FAIL(at, "%s: functions are nested more than %d deep; they cannot be recursive", f->name, MAX_CALLS);
  binding *save = x->locals;
  const char *file = x->file;
  x->locals = NULL;
  x->file = f->file;
  for (uint32_t i = 0; i < n; i++) bind_local(x, f->params[i].name, R_PARAM, args[i]);
  val r = ev(x, f->body);
  x->locals = save;
  x->file = file;
  x->depth--;
  return r;
}

static val call(el *x, const ast *e) {
  const char *n = e->name;
  if (!strcmp(n, "size")) return size_of(x, e);
  if (!strcmp(n, "has") && e->nel == 1 && e->el[0].e->kind == A_NAME) {
    binding *b = find(x, e->el[0].e->name);
    return v_bool(b && b->v.kind != V_NONE);
  }
  if (!strcmp(n, "count")) return v_int(x, x->nout);
  binding *b = find(x, n);
  const fndef *f = b && b->role == R_FN ? b->fn : NULL;
  if (!b) f = lib_fn(x->lib, x->file, n);
  val args = ev_elems(x, e->el, e->nel), out;
  vlist *l = args.p.l;
  if (f) return ev_fn(x, f, l->v, l->n, e);
  etype t = b && b->v.kind == V_TYPE ? (etype)b->v.type : b ? ET_NONE : et_parse(n);
  if (t != ET_NONE) {
    if (l->n != 1) FAIL(e, "%s(..) converts one value", n);
    return v_cast(x, l->v[0], t, e);
  }
  if (builtin_call(x, e, l->v, l->n, &out)) return out;
  FAIL(e, "unknown function %s", n);
}

/* ---- comprehensions -------------------------------------------------------------------------- */
static void comp(el *x, const ast *e, uint32_t k, valvec *out) {
  if (k == e->nb) {
    if (e->kid[1] && !decide(x, ev(x, e->kid[1]), e->kid[1], "which elements a pack has")) return;
    val v = ev(x, e->kid[0]);
    vec_push(x->a, *out, v);
    return;
  }
  const binder *b = &e->b[k];
  ast at = {.line = b->line, .col = b->col};
  if (!b->hi) FAIL(&at, "%s needs a bound: (.. for %s < n)", b->name, b->name);
  int64_t lo = b->lo ? v_need_int(x, ev_static(x, b->lo), b->lo, "the length of a pack") : 0;
  int64_t hi = v_need_int(x, ev_static(x, b->hi), b->hi, "the length of a pack");
  binding *save = x->locals;
  for (int64_t i = lo; i < hi; i++) {
    bind_local(x, b->name, R_PARAM, v_int(x, i));
    comp(x, e, k + 1, out);
    x->locals = save;
  }
}

static val conditional(el *x, const ast *e) {
  val c = ev(x, e->kid[0]);
  if (c.kind == V_LIST) { /* element by element */
    val a = ev(x, e->kid[1]), b = ev(x, e->kid[2]), r = v_list(x, c.p.l->n);
    for (uint32_t i = 0; i < c.p.l->n; i++) {
      if ((a.kind == V_LIST && a.p.l->n != c.p.l->n) || (b.kind == V_LIST && b.p.l->n != c.p.l->n))
        FAIL(e, "packs of different length in `? :`");
      r.p.l->v[i] = v_select(x, c.p.l->v[i], a.kind == V_LIST ? a.p.l->v[i] : a, b.kind == V_LIST ? b.p.l->v[i] : b, e);
    }
    return r;
  }
  int64_t i;
  if (v_is_int(x, c, &i)) c = v_bool(i != 0);
  if (c.kind == V_BOOL) return ev(x, e->kid[c.b ? 1 : 2]);
  if (c.kind != V_EX || exn(x->m, c.e)->type != ET_BOOL)
    FAIL(e->kid[0], "`?` needs a condition, not %s", v_describe(x, c));
  condmark mark = cond_push(x, c.e, true);
  val a = ev(x, e->kid[1]);
  cond_pop(x, mark);
  mark = cond_push(x, c.e, false);
  val b = ev(x, e->kid[2]);
  cond_pop(x, mark);
  return v_select(x, c, a, b, e);
}

val ev(el *x, const ast *e) {
  if (++x->steps > MAX_STEPS)
    el_fail(x, E_UNSUPPORTED, e->line, e->col, "this definition takes more than %d steps to elaborate", MAX_STEPS);
  switch (e->kind) {
  case A_INT:
    return v_int(x, e->k.i);
  case A_FLOAT:
    return v_float(e->k.f);
  case A_STR:
    return v_str(e->name);
  case A_NAME:
    return name_value(x, e);
  case A_NEG:
    return v_neg(x, ev(x, e->kid[0]), e);
  case A_NOT:
    return v_not(x, ev(x, e->kid[0]), e);
  case A_COND:
    return conditional(x, e);
  case A_TUPLE:
    return ev_elems(x, e->el, e->nel);
  case A_ACCESS:
    return access(x, e);
  case A_RED:
    return reduce(x, e);
  case A_CALL:
    return call(x, e);
  case A_BIN: {
    val a = ev(x, e->kid[0]);
    if (e->op != BO_AND && e->op != BO_OR) return v_binary(x, (binop)e->op, a, ev(x, e->kid[1]), e);
    bool and = e->op == BO_AND;
    int64_t i;
    if (v_is_int(x, a, &i)) a = v_bool(i != 0);
    if (a.kind == V_BOOL && a.b != and) return a; /* the right side is not evaluated */
    bool fact = a.kind == V_EX && exn(x->m, a.e)->type == ET_BOOL;
    condmark mark = {0};
    if (fact) mark = cond_push(x, a.e, and);
    val b = ev(x, e->kid[1]);
    if (fact) cond_pop(x, mark);
    return v_binary(x, (binop)e->op, a, b, e);
  }
  case A_SLICE: {
    val l = ev(x, e->kid[0]);
    if (l.kind != V_LIST) FAIL(e, "[a:b] cuts a pack, but this is %s", v_describe(x, l));
    int64_t n = l.p.l->n, lo = e->kid[1] ? v_need_int(x, ev(x, e->kid[1]), e->kid[1], "the bound of a slice") : 0;
    int64_t hi = e->kid[2] ? v_need_int(x, ev(x, e->kid[2]), e->kid[2], "the bound of a slice") : n;
    if (lo < 0) lo = max64(lo + n, 0);
    if (hi < 0) hi += n;
    hi = min64(hi, n);
    val r = v_list(x, hi > lo ? (uint32_t)(hi - lo) : 0);
    for (int64_t i = lo; i < hi; i++) r.p.l->v[i - lo] = l.p.l->v[i];
    return r;
  }
  case A_COMP: {
    valvec v = {0};
    comp(x, e, 0, &v);
    val r = v_list(x, v.n);
    if (v.n) memcpy(r.p.l->v, v.v, v.n * sizeof *v.v);
    return r;
  }
  default:
    FAIL(e, "unexpected expression");
  }
}
