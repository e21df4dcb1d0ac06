/* elab: one call of a definition: arguments to names, types and dims by unification, the body, the outputs.
 *
 * Unification goes through the inputs from left to right. A new name binds; a known expression is checked; one unknown
 * inside + - * is solved (`g*c` with g known gives c and the condition that g divides). At most one pack of a type may
 * have an unknown length, unless `@axis` fixes where a dim stands. `~n...` accepts a shorter pack whose dims are 1 or
 * equal. What cannot be decided about sizes becomes a guard of the module: conditions from types are contracts (the
 * model is wrong otherwise).
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(line, col, ...) el_fail(x, E_SHAPE, line, col, __VA_ARGS__)

/* ---- are all names of an expression bound? --------------------------------------------------- */
typedef struct scope {
  const binder *b;        /* indices */
  uint32_t n;             /* number of indices */
  const struct scope *up; /* scope around it; NULL: none */
} scope;
static bool bound_names(el *x, const ast *e, const scope *sc) {
  if (!e) return true;
  if (e->kind == A_NAME) {
    for (const scope *s = sc; s; s = s->up)
      for (uint32_t i = 0; i < s->n; i++)
        if (s->b[i].name == e->name) return true;
    return find_global(x, e->name) || et_parse(e->name) != ET_NONE || !strcmp(e->name, "none") ||
           !strcmp(e->name, "true") || !strcmp(e->name, "false") || !strcmp(e->name, "inf") || !strcmp(e->name, "pi") ||
           !strcmp(e->name, "nan");
  }
  scope inner = {e->b, e->nb, sc};
  for (int i = 0; i < 3; i++)
    if (!bound_names(x, e->kid[i], e->nb ? &inner : sc)) return false;
  for (uint32_t i = 0; i < e->nel; i++)
    if (!bound_names(x, e->el[i].e, sc)) return false;
  for (uint32_t i = 0; i < e->nb; i++)
    if (!bound_names(x, e->b[i].lo, sc) || !bound_names(x, e->b[i].hi, sc)) return false;
  return true;
}
bool dims_known(el *x, const elem *dims, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!bound_names(x, dims[i].e, NULL)) return false;
  return true;
}

etype elem_type(el *x, const char *name, uint32_t line, uint32_t col) {
  binding *b = find_global(x, name);
  if (b && b->v.kind == V_TYPE) return (etype)b->v.type;
  etype t = et_parse(name);
  if (t == ET_NONE) FAIL(line, col, "element type %s is not known here: no input given has it", name);
  return t;
}
const param *out_param(el *x, const char *name) {
  for (uint32_t i = 0; i < x->d->nout; i++)
    if (x->d->out[i].name == name) return &x->d->out[i];
  return NULL;
}
/* Evaluates declared dims; segs tells which came from which element. */
static void eval_dims(el *x, const elem *dims, uint32_t n, sz **out, uint32_t *nout, seg **segs) {
  VEC(sz) v = {0};
  seg *sg = NEWN(x->a, seg, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    val l;
    bool save = x->stat;
    x->stat = true;
    l = ev_elems(x, &dims[i], 1);
    x->stat = save;
    sg[i].splat = dims[i].splat;
    sg[i].n = l.p.l->n;
    for (uint32_t j = 0; j < l.p.l->n; j++) vec_push(x->m->a, v, v_need_size(x, l.p.l->v[j], dims[i].e, "a dim"));
  }
  uint32_t at = 0;
  for (uint32_t i = 0; i < n && v.n; i++) sg[i].d = v.v + at, at += sg[i].n;
  *out = v.v;
  *nout = v.n;
  *segs = sg;
}
bool out_dims(el *x, const param *o, sz **dims, uint32_t *n, seg **segs, uint32_t *nsegs) {
  if (!o->type.ranked || !dims_known(x, o->type.dims, o->type.n)) return false;
  binding *save = x->locals;
  x->locals = NULL;
  eval_dims(x, o->type.dims, o->type.n, dims, n, segs);
  x->locals = save;
  *nsegs = o->type.n;
  if (!*dims) *dims = NEWN(x->a, sz, 1);
  return true;
}

/* ---- types ----------------------------------------------------------------------------------- */
static const char *set_text(el *x, const tvar *v) {
  sbuf b = sbuf_new(x->a);
  for (uint32_t i = 0; i < v->nsets; i++) sb_fmt(&b, "%s%s", i ? " | " : "", v->sets[i]);
  return b.s;
}
static void bind_type(el *x, const param *p, nten *t) {
  const char *e = p->type.elem;
  for (uint32_t i = 0; i < x->d->ntv; i++) {
    const tvar *v = &x->d->tv[i];
    if (v->name != e) continue;
    binding *b = find_global(x, e);
    if (b && b->v.kind == V_TYPE && b->v.type != t->type)
      FAIL(p->line, p->col, "input %s has element type %s, but %s is %s here (from an earlier input)", p->name,
           et_name(t->type), e, et_name((etype)b->v.type));
    uint32_t mask = 0, m;
    for (uint32_t j = 0; j < v->nsets; j++)
      if (elem_set(v->sets[j], &m)) mask |= m;
    if (v->nsets && !(mask >> t->type & 1))
      FAIL(p->line, p->col, "input %s has element type %s, but %s must be %s", p->name, et_name(t->type), e,
           set_text(x, v));
    if (!b) bind_global(x, e, R_STATIC, v_type(t->type));
    return;
  }
  uint32_t mask;
  if (elem_set(e, &mask) && !(mask >> t->type & 1))
    FAIL(p->line, p->col, "input %s has element type %s, but %s is expected", p->name, et_name(t->type), e);
}

/* ---- dims ------------------------------------------------------------------------------------ */
static bool unknown_name(el *x, const ast *e) { return e->kind == A_NAME && !find_global(x, e->name); }
static uint32_t free_names(el *x, const ast *e) {
  if (!e) return 0;
  if (e->kind == A_NAME) return !bound_names(x, e, NULL);
  uint32_t n = 0;
  for (int i = 0; i < 3; i++) n += free_names(x, e->kid[i]);
  for (uint32_t i = 0; i < e->nel; i++) n += free_names(x, e->el[i].e);
  return n;
}
static void solve(el *x, const ast *e, sz d, const param *p) {
  ctx *c = x->c;
  const char *what = arena_fmt(x->a, "a dim of input %s", p->name);
  uint32_t n = free_names(x, e);
  if (!n) {
    need_equal(x, v_need_size(x, ev_static(x, e), e, what), d, false, e->line, e->col, what);
    return;
  }
  if (e->kind == A_NAME) {
    bind_global(x, e->name, R_STATIC, v_size(d));
    return;
  }
  if (e->kind == A_BIN && n == 1 && (e->op == BO_MUL || e->op == BO_ADD || e->op == BO_SUB)) {
    bool left = free_names(x, e->kid[0]) != 0;
    const ast *u = e->kid[left ? 0 : 1], *k = e->kid[left ? 1 : 0];
    sz w = v_need_size(x, ev_static(x, k), k, what), q;
    if (e->op == BO_ADD)
      solve(x, u, sym_sub(c, d, w), p);
    else if (e->op == BO_SUB)
      solve(x, u, left ? sym_add(c, d, w) : sym_sub(c, w, d), p);
    else {
      if (!sym_exact_div(c, d, w, &q)) {
        int64_t i, j;
        if (sym_is_int(c, w, &i) && (i == 0 || (sym_is_int(c, d, &j) && j % i)))
          FAIL(e->line, e->col, "%s, %s, is not a multiple of %s", what, sym_str(c, d), sym_str(c, w));
        q = sym_div(c, d, w);
        need_equal(x, sym_mul(c, q, w), d, false, e->line, e->col,
                   arena_fmt(x->a, "%s must be a multiple of %s", what, sym_str(c, w)));
      }
      solve(x, u, q, p);
    }
    return;
  }
  FAIL(e->line, e->col, "%s: too many unknown names in this expression", what);
}
static int64_t marker(el *x, const ast *at, int64_t rank, const param *p) {
  val v = ev_static(x, at);
  if (v.kind == V_TEN) {
    val l = known_list(x, v.p.t, at);
    if (l.p.l->n < 1) FAIL(at->line, at->col, "input %s is empty, but gives an axis", v.p.t->name);
    v = l.p.l->v[0];
  }
  int64_t ax = v_need_int(x, v, at, "an axis"), a = ax < 0 ? ax + rank : ax;
  if (a < 0 || a > rank)
    FAIL(at->line, at->col, "axis %lld is out of range for %s, whose rank is %lld", (long long)ax, p->name,
         (long long)rank);
  return a;
}
static void unify(el *x, const param *p, nten *t) {
  const elem *dims = p->type.dims;
  uint32_t k = p->type.n, n = t->rank;
  int64_t *len = NEWN(x->a, int64_t, k + 1);
  for (uint32_t j = 0; j < k; j++) {
    if (!dims[j].e)
      len[j] = 0;
    else if (!dims[j].splat)
      len[j] = 1;
    else if (dims[j].tilde || unknown_name(x, dims[j].e))
      len[j] = -1;
    else {
      val l = ev_static(x, dims[j].e);
      if (l.kind != V_LIST) FAIL(dims[j].e->line, dims[j].e->col, "`...` needs a pack, not %s", v_describe(x, l));
      len[j] = l.p.l->n;
    }
  }
  for (uint32_t j = 0; j < k; j++) {
    if (!dims[j].at) continue;
    int64_t ax = marker(x, dims[j].at, n, p), sum = 0, open = -1, nopen = 0;
    for (uint32_t q = 0; q < j; q++)
      if (len[q] < 0)
        open = q, nopen++;
      else
        sum += len[q];
    if (nopen == 1)
      len[open] = ax - sum;
    else if (nopen || sum != ax)
      FAIL(dims[j].at->line, dims[j].at->col, "axis %lld does not fit the type of %s", (long long)ax, p->name);
  }
  int64_t sum = 0, open = -1;
  for (uint32_t j = 0; j < k; j++) {
    if (len[j] >= 0)
      sum += len[j];
    else if (open >= 0)
      FAIL(p->line, p->col, "the type of %s has several packs of unknown length; mark a position with @", p->name);
    else
      open = j;
  }
  if (open >= 0) len[open] = n - sum, sum = n;
  bool fits = sum == n;
  for (uint32_t j = 0; j < k; j++) fits &= len[j] >= 0;
  if (!fits) FAIL(p->line, p->col, "input %s has rank %u, which does not fit its type", p->name, n);
  seg *segs = NEWN(x->a, seg, k + 1);
  uint32_t ns = 0, at = 0;
  bool *later = NEWN(x->a, bool, k + 1);
  for (uint32_t j = 0; j < k; j++) {
    const elem *q = &dims[j];
    if (!q->e) continue;
    const sz *d = t->shape + at;
    uint32_t l = (uint32_t)len[j];
    at += l;
    segs[ns++] = (seg){q->splat, l, d};
    if (q->fixed) v_need_int(x, v_size(d[0]), q->e, arena_fmt(x->a, "a dim of %s that decides a rank", p->name));
    if (q->splat && unknown_name(x, q->e)) {
      val v = v_list(x, l);
      for (uint32_t i = 0; i < l; i++) v.p.l->v[i] = v_size(d[i]);
      bind_global(x, q->e->name, R_STATIC, v);
    } else if (q->splat || q->tilde) {
      val v = q->splat ? ev_static(x, q->e) : v_list(x, 1);
      if (!q->splat) v.p.l->v[0] = ev_static(x, q->e);
      if (l > v.p.l->n) FAIL(q->e->line, q->e->col, "input %s has %u dims here, at most %u fit", p->name, l, v.p.l->n);
      for (uint32_t i = 0; i < l; i++) {
        sz w = v_need_size(x, v.p.l->v[v.p.l->n - l + i], q->e, "a dim");
        int64_t one;
        if (q->tilde && sym_is_int(x->c, sym_canon(x->c, d[i]), &one) && one == 1) continue;
        need_equal(x, d[i], w, false, q->e->line, q->e->col,
                   arena_fmt(x->a, "dim %u of input %s", (uint32_t)(d + i - t->shape), p->name));
      }
    } else if (unknown_name(x, q->e))
      bind_global(x, q->e->name, R_STATIC, v_size(d[0]));
    else
      later[j] = true;
  }
  at = 0;
  for (uint32_t j = 0; j < k; j++) {
    if (later[j]) solve(x, dims[j].e, sym_canon(x->c, t->shape[at]), p);
    at += (uint32_t)len[j];
  }
  t->segs = segs;
  t->nsegs = ns;
}

/* A number may come as a tensor of one element, whatever its rank. */
static nten *as_number(el *x, const param *p, nten *t) {
  ast at = {.line = p->line, .col = p->col};
  sz one = sym_int(x->c, 1);
  if (!p->type.ranked || p->type.n || !t->rank) return t;
  for (uint32_t i = 0; i < t->rank; i++)
    if (sym_ne(x->c, sym_canon(x->c, t->shape[i]), one))
      FAIL(p->line, p->col, "input %s must be one number; axis %u of what is given has size %s", p->name, i,
           sym_str(x->c, t->shape[i]));
  nten *r = NULL;
  if (t->t && xt(x->m, t->t)->kind == TK_CONST && t->type != ET_STR) {
    ndarray d = xt(x->m, t->t)->data;
    d.rank = 0;
    r = arena_dup(x->a, t, sizeof *t);
    r->rank = 0, r->t = expr_const_tensor(x->m, &d, xt(x->m, t->t)->name);
  } else
    r = reshape_tensor(x, t, &one, 0, p->name, &at);
  r->values = t->values, r->floats = t->floats;
  return r;
}

/* ---- attributes ------------------------------------------------------------------------------ */
static val attribute(el *x, const param *p, val v) {
  const char *k = p->type.elem;
  bool str = !strcmp(k, "str"), flt = !strcmp(k, "float"), in = !strcmp(k, "int");
  uint32_t n = v.kind == V_LIST ? v.p.l->n : 1;
  if (v.kind == V_NONE) return v;
  if (!str && !flt && !in) {
    if (v.kind != V_TEN) FAIL(p->line, p->col, "attribute %s must be a tensor, not %s", p->name, v_describe(x, v));
    bind_type(x, p, v.p.t);
    if (p->type.ranked) unify(x, p, v.p.t);
    return v;
  }
  for (uint32_t i = 0; i < n; i++) {
    val *q = v.kind == V_LIST ? &v.p.l->v[i] : &v;
    int64_t d;
    if (flt && v_is_int(x, *q, &d)) *q = v_float((double)d);
    bool ok = str   ? q->kind == V_STR
              : flt ? q->kind == V_FLOAT || q->kind == V_RAT || q->kind == V_SIZE || q->kind == V_EX
                    : q->kind == V_SIZE;
    if (!ok)
      FAIL(p->line, p->col, "attribute %s must be %s, not %s", p->name,
           str   ? "a string"
           : flt ? "a float"
                 : "an integer",
           v_describe(x, *q));
  }
  return v;
}
static uint32_t per_length(el *x, const param *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->nper; i++) {
    binding *b = find_global(x, p->per[i]);
    if (!b || b->v.kind != V_LIST) FAIL(p->line, p->col, "attribute %s: there is no pack %s", p->name, p->per[i]);
    n += b->v.p.l->n;
  }
  return n;
}
static void defaults(el *x, bool last) {
  for (uint32_t i = 0; i < x->d->nattr; i++) {
    const param *p = &x->d->attr[i];
    if (find_global(x, p->name) || !p->def || p->nper) continue;
    if (bound_names(x, p->def, NULL))
      bind_global(x, p->name, R_STATIC, ev_static(x, p->def));
    else if (last)
      FAIL(p->line, p->col, "the default of attribute %s uses a name that has no value", p->name);
  }
}

static bool mentions(const ast *e, const char *name) {
  if (!e) return false;
  if ((e->kind == A_NAME || e->kind == A_CALL) && e->name == name) return true;
  for (int i = 0; i < 3; i++)
    if (mentions(e->kid[i], name)) return true;
  for (uint32_t i = 0; i < e->nel; i++)
    if (mentions(e->el[i].e, name) || mentions(e->el[i].bound, name)) return true;
  for (uint32_t i = 0; i < e->nb; i++)
    if (mentions(e->b[i].lo, name) || mentions(e->b[i].hi, name)) return true;
  for (uint32_t i = 0; i < e->nkw; i++)
    if (mentions(e->kw[i].e, name)) return true;
  return false;
}
static bool block_reads(const blk *b, const char *name) {
  for (uint32_t i = 0; b && i < b->n; i++) {
    const stmt *s = b->s[i];
    if (s->kind == ST_GRAD || s->kind == ST_COST) continue;
    if (mentions(s->e, name) || mentions(s->cond, name) || (s->fn && mentions(s->fn->body, name)) ||
        block_reads(s->body, name) || block_reads(s->other, name))
      return true;
    for (uint32_t j = 0; j < s->nlist; j++)
      if (mentions(s->list[j], name)) return true;
    for (uint32_t j = 0; j < s->nlhs; j++)
      if (mentions(s->lhs[j].e, name) || mentions(s->lhs[j].bound, name)) return true;
    for (uint32_t j = 0; j < s->nb; j++)
      if (mentions(s->b[j].hi, name)) return true;
  }
  return false;
}

/* ---- one call -------------------------------------------------------------------------------- */
static void bind_inputs(el *x, val *args, uint32_t n) {
  const opdef *d = x->d;
  uint32_t used = 0;
  for (uint32_t i = 0; i < d->nin; i++) {
    const param *p = &d->in[i];
    if (p->variadic) {
      uint32_t m = n > i ? n - i : 0;
      val l = v_list(x, m);
      for (uint32_t j = 0; j < m; j++) {
        val v = args[i + j];
        if (v.kind != V_TEN) FAIL(p->line, p->col, "input %s: element %u is omitted", p->name, j);
        nten *t = arena_dup(x->a, v.p.t, sizeof *t);
        v.p.t->read = true;
        t->stage = 0;
        t->name = m > 1 ? arena_fmt(x->a, "%s%u", p->name, j) : p->name;
        l.p.l->v[j] = v_ten(t);
      }
      bind_global(x, p->name, R_TENSOR, l);
      used = n;
      continue;
    }
    val v = i < n ? args[i] : v_none();
    if (i < n) used = i + 1;
    if (v.kind == V_NONE && !p->optional && !p->def) FAIL(p->line, p->col, "input %s is missing", p->name);
    if (v.kind == V_TEN) {
      nten *t = arena_dup(x->a, v.p.t, sizeof *t);
      v.p.t->read = true;
      t->stage = 0;
      t->segs = NULL, t->nsegs = 0;
      t->name = p->name;
      v = v_ten(t);
    } else if (v.kind != V_NONE)
      FAIL(p->line, p->col, "input %s must be a tensor, not %s", p->name, v_describe(x, v));
    bind_global(x, p->name, R_TENSOR, v);
  }
  for (; used < n; used++)
    if (args[used].kind != V_NONE) FAIL(d->line, d->col, "%u inputs given, at most %u are known", n, d->nin);
}
static void default_inputs(el *x) {
  const opdef *d = x->d;
  for (uint32_t i = 0; i < d->nin; i++) {
    const param *p = &d->in[i];
    binding *b = find_global(x, p->name);
    if (b->v.kind != V_NONE || !p->def) continue;
    for (uint32_t j = 0; j < p->type.n; j++) { /* packs nobody else names are empty */
      const elem *q = &p->type.dims[j];
      if (q->e && q->splat && unknown_name(x, q->e)) bind_global(x, q->e->name, R_STATIC, v_list(x, 0));
    }
    nten *t = NEW(x->a, nten);
    t->name = p->name;
    t->uniform = true;
    t->fill = ev_static(x, p->def);
    t->type = elem_type(x, p->type.elem, p->line, p->col);
    sz *dims = NULL;
    seg *segs;
    eval_dims(x, p->type.dims, p->type.n, &dims, &t->rank, &segs);
    t->shape = dims, t->segs = segs, t->nsegs = p->type.n;
    b->v = v_ten(t);
  }
}
static void contracts(el *x) {
  for (uint32_t i = 0; i < x->d->nin; i++) {
    const param *p = &x->d->in[i];
    binding *b = find_global(x, p->name);
    if (!p->hi || b->v.kind != V_TEN || !bound_names(x, p->hi, NULL) || !bound_names(x, p->lo, NULL)) continue;
    b->v.p.t->lo = v_need_size(x, ev_static(x, p->lo), p->lo, "the lower bound of the data");
    b->v.p.t->hi = v_need_size(x, ev_static(x, p->hi), p->hi, "the upper bound of the data");
    require_contract(x, b->v.p.t);
  }
}
static uint32_t outputs(el *x, val *out) {
  const opdef *d = x->d;
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->nout; i++) {
    const param *o = &d->out[i];
    uint64_t q;
    if (o->variadic) {
      valvec *l = map_gets(x->variadic, o->name, &q) ? (valvec *)(uintptr_t)q : NULL;
      binding *b = find_global(x, o->name);
      if (l && !l->n && b && b->v.kind == V_LIST)
        for (uint32_t j = 0; j < b->v.p.l->n; j++) vec_push(x->a, *l, b->v.p.l->v[j]);
      for (uint32_t j = 0; l && j < l->n && n < x->nout; j++) out[n++] = l->v[j];
      continue;
    }
    binding *b = find_global(x, o->name);
    bool unused = map_gets(x->skip, o->name, &q);
    if (!b || b->v.kind != V_TEN) {
      if (!unused && !o->optional) FAIL(o->line, o->col, "output %s was not computed", o->name);
      out[n++] = v_none();
      continue;
    }
    nten *t = b->v.p.t;
    sz *dims;
    seg *segs;
    uint32_t r, ns;
    materialise(x, t);
    if (out_dims(x, o, &dims, &r, &segs, &ns)) {
      if (r != t->rank) FAIL(o->line, o->col, "output %s has rank %u, but %u in its type", o->name, t->rank, r);
      for (uint32_t j = 0; j < r; j++)
        need_equal(x, t->shape[j], dims[j], false, o->line, o->col, arena_fmt(x->a, "dim %u of output %s", j, o->name));
    }
    etype e = elem_type(x, o->type.elem, o->line, o->col);
    if (t->type != e)
      FAIL(o->line, o->col, "output %s has element type %s, but %s in its type", o->name, et_name(t->type), et_name(e));
    out[n++] = v_ten(t);
  }
  return n;
}

uint32_t elaborate(el *parent, const opdef *d, val *args, uint32_t nargs, const kwarg *kw, const val *kwv, uint32_t nkw,
                   uint32_t nout, const arg *want, val *out, const ast *at) {
  if (parent->depth > 16) el_fail(parent, E_MODEL, at->line, at->col, "operators call each other more than 16 deep");
  bool states = parent->keep && !parent->grad && has_gradient(d);
  if (states) args = stated_inputs(parent, d, args, nargs);
  el *x = NEW(parent->a, el);
  *x = (el){.c = parent->c,
            .a = parent->a,
            .m = parent->m,
            .lib = parent->lib,
            .d = d,
            .node = parent->node,
            .file = d->file,
            .blk = parent->blk,
            .depth = parent->depth + 1,
            .nout = nout,
            .known = parent->known,
            .frame = parent->frame,
            .serial = parent->serial,
            .op = parent->op ? parent->op : d->name,
            .unchecked = parent->unchecked,
            .keep = parent->keep};
  x->path = parent->d ? arena_fmt(x->a, "%s.%s", parent->path, d->name) : "";
  x->variadic = map_new(x->a);
  x->skip = map_new(x->a);
  for (uint32_t i = 0; i < d->nout; i++) {
    const param *o = &d->out[i];
    if (o->variadic)
      map_puts(x->variadic, o->name, (uint64_t)(uintptr_t)NEW(x->a, valvec));
    else if ((i >= nout || (want && !want[i].want)) && !block_reads(d->body, o->name))
      map_puts(x->skip, o->name, 1);
  }
  bind_inputs(x, args, nargs);
  for (uint32_t i = 0; i < nkw; i++) {
    const param *p = NULL;
    for (uint32_t j = 0; j < d->nattr; j++)
      if (!strcmp(d->attr[j].name, kw[i].name)) p = &d->attr[j];
    if (!p) FAIL(d->line, d->col, "%s has no attribute %s", d->name, kw[i].name);
    if (kwv[i].kind == V_NONE && p->def) continue;
    bind_global(x, p->name, R_STATIC, kwv[i]);
  }
  for (uint32_t i = 0; i < d->nattr; i++) {
    const param *p = &d->attr[i];
    if (find_global(x, p->name)) continue;
    if (p->def) continue;
    if (!p->optional) FAIL(p->line, p->col, "attribute %s is missing", p->name);
    bind_global(x, p->name, R_STATIC, v_none());
  }
  defaults(x, false);
  for (uint32_t i = 0; i < d->nin; i++) { /* element types first, then dims, each from left to right */
    binding *b = find_global(x, d->in[i].name);
    if (b->v.kind == V_TEN)
      bind_type(x, &d->in[i], b->v.p.t);
    else if (b->v.kind == V_LIST)
      for (uint32_t j = 0; j < b->v.p.l->n; j++) bind_type(x, &d->in[i], b->v.p.l->v[j].p.t);
  }
  for (uint32_t i = 0; i < nkw; i++)
    for (uint32_t j = 0; j < d->nattr; j++)
      if (!strcmp(d->attr[j].name, kw[i].name)) {
        binding *b = find_global(x, d->attr[j].name);
        b->v = attribute(x, &d->attr[j], b->v);
        if (b->v.kind == V_TEN) b->role = R_TENSOR;
      }
  for (uint32_t i = 0; i < d->nin; i++) {
    binding *b = find_global(x, d->in[i].name);
    if (b->v.kind == V_TEN && d->in[i].type.ranked) {
      b->v.p.t = as_number(x, &d->in[i], b->v.p.t);
      unify(x, &d->in[i], b->v.p.t);
    } else if (b->v.kind == V_LIST && d->in[i].type.ranked)
      for (uint32_t j = 0; j < b->v.p.l->n; j++) unify(x, &d->in[i], b->v.p.l->v[j].p.t);
  }
  for (uint32_t i = 0; i < d->nattr; i++) {
    const param *p = &d->attr[i];
    if (!p->nper) continue;
    binding *b = find_global(x, p->name);
    uint32_t n = per_length(x, p);
    if (b && b->v.kind == V_LIST) {
      if (b->v.p.l->n != n)
        FAIL(p->line, p->col, "attribute %s has %u values, but %u axes need one each", p->name, b->v.p.l->n, n);
      continue;
    }
    val one = b && b->v.kind != V_NONE ? b->v : p->def ? ev_static(x, p->def) : v_none(), l = v_list(x, n);
    if (one.kind == V_NONE) continue;
    for (uint32_t j = 0; j < n; j++) l.p.l->v[j] = one;
    bind_global(x, p->name, R_STATIC, l);
  }
  defaults(x, true);
  default_inputs(x);
  contracts(x);
  run_block(x, d->body);
  if (parent->grad) run_gradients(x, parent->grad);
  for (uint32_t i = 0; i < x->tiles.n; i++) settle_tiles(x, x->tiles.v[i]);
  uint32_t n = outputs(x, out);
  if (states) stated_outputs(parent, d, args, nargs, kw, kwv, nkw, out, n, nout, at);
  return n;
}
