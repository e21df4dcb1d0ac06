/* stmts: the statements of a definition to stages of the module.
 *
 * A stage's left side is a list of axes: an index, a pack of indices, (g, m) an axis of two digits, `0` an axis of size
 * 1. With `for` the left side is computed: each of its elements must be 0 or one of the bound indices. An update
 * extends the stage that made its target, as long as nobody has read it; else a copy is updated. Integer values that
 * must be sizes but are computed (`let m = sum ..`) become late sizes, unless they can be found now.
 */
#include "notation/elab.h"
#include <string.h>

#define FAIL(at, ...) el_fail(x, E_SHAPE, (at)->line, (at)->col, __VA_ARGS__)

static void *copy_of_array(arena *a, const void *p, uint32_t n, size_t each) {
  return n ? arena_dup(a, p, n * each) : arena_alloc(a, each);
}

nten *new_tensor(el *x, const char *name, etype t, const sz *shape, uint32_t rank) {
  nten *n = NEW(x->a, nten);
  bool text = t == ET_STR;
  sz *dims = NEWN(x->m->a, sz, rank + 1);
  if (rank) memcpy(dims, shape, rank * sizeof *dims);
  for (uint32_t i = 0; i < rank; i++)
    if (sym_ge0(x->c, sym_addi(x->c, sym_neg(x->c, dims[i]), -1)))
      el_fail(x, E_SHAPE, x->d->line, x->d->col, "%s: axis %u has the negative size %s; the input is too small", name,
              i, sym_str(x->c, dims[i]));
  if (text) text_position(x), dims[rank] = x->chr_extent;
  n->name = name;
  n->type = t;
  n->rank = rank;
  n->shape = dims;
  n->t = expr_tensor(x->m, TK_STAGE, text ? ET_U8 : t, n->shape, rank + text,
                     arena_fmt(x->m->a, "%s.%s", x->node ? x->node : x->d->name, name), x->node);
  return n;
}
uint32_t add_stage(el *x, nten *t, const axis *axes, uint32_t n, ex value) {
  axis *copy = NEWN(x->m->a, axis, n + 1);
  if (n) memcpy(copy, axes, n * sizeof *axes);
  if (t->type == ET_STR) {
    atom v;
    digit *d = NEWN(x->m->a, digit, 1);
    *d = (digit){0, x->chr_extent};
    if (sym_is_atom(x->c, text_position(x), &v) && sym_kind(x->c, v) == AT_VAR) d->var = v;
    copy[n++] = (axis){d->var ? 1 : 0, d};
    x->chr = 0;
  }
  uint32_t s = expr_stage(x->m, x->blk, t->t, copy, n, value);
  xs(x->m, s)->region = x->d->name;
  t->stage = s + 1;
  return s;
}
static ex zero_of(el *x, etype t, const ast *at) {
  if (t == ET_STR) return expr_i(x->m, ET_U8, 0);
  return t == ET_BOOL ? expr_bool(x->m, false) : v_lift(x, v_int(x, 0), t, at);
}
static axis *plain_axes(el *x, const sz *shape, uint32_t rank, sz *idx) {
  axis *axes = NEWN(x->m->a, axis, rank ? rank : 1);
  for (uint32_t i = 0; i < rank; i++) axes[i] = expr_axis1(x->m, arena_fmt(x->m->a, "i%u", i), shape[i], &idx[i]);
  return axes;
}
tid materialise(el *x, nten *t) {
  if (t->t) return t->t;
  ast at = {0};
  sz idx[MAX_RANK] = {0};
  nten *n = new_tensor(x, t->name, t->type, t->shape, t->rank);
  axis *axes = plain_axes(x, t->shape, t->rank, idx);
  ex v = t->uniform ? v_lift(x, t->fill, t->type, &at) : v_lift(x, load_at(x, t, idx, 0), t->type, &at);
  add_stage(x, n, axes, t->rank, v);
  t->stage = n->stage;
  return t->t = n->t;
}

/* tensor(pack): numbers become a constant, sizes a list that is read by position */
nten *const_list(el *x, val v, const ast *at) {
  if (v.kind == V_TEN) return v.p.t;
  if (v.kind != V_LIST) FAIL(at, "tensor(..) takes a pack, not %s", v_describe(x, v));
  uint32_t n = v.p.l->n;
  nten *t = NEW(x->a, nten);
  sz *shape = NEWN(x->m->a, sz, 1), *vals = NEWN(x->m->a, sz, n ? n : 1);
  bool numbers = true, floats = false;
  if (n && v.p.l->v[0].kind == V_STR) return text_list(x, v.p.l, at);
  for (uint32_t i = 0; i < n; i++) floats |= v.p.l->v[i].kind == V_FLOAT;
  int64_t *raw = NEWN(x->m->a, int64_t, n ? n : 1);
  double *fl = NEWN(x->m->a, double, n ? n : 1);
  shape[0] = sym_int(x->c, n);
  for (uint32_t i = 0; i < n; i++) {
    val q = v.p.l->v[i];
    if (floats) {
      int64_t k;
      if (q.kind == V_FLOAT)
        fl[i] = q.f;
      else if (v_is_int(x, q, &k))
        fl[i] = (double)k;
      else
        FAIL(at, "tensor(..) mixes numbers and %s", v_describe(x, q));
    } else {
      vals[i] = v_need_size(x, q, at, "an element of tensor(..)");
      numbers &= sym_is_int(x->c, vals[i], &raw[i]);
    }
  }
  *t = (nten){.name = "list",
              .type = floats ? ET_F64 : ET_I64,
              .rank = 1,
              .shape = shape,
              .values = floats ? NULL : vals,
              .floats = floats ? fl : NULL};
  if (numbers) {
    ndarray nd = {
        .type = t->type, .rank = 1, .dims = {n}, .data = floats ? (void *)fl : (void *)raw, .bytes = 8 * (size_t)n};
    t->t = expr_const_tensor(x->m, &nd, arena_fmt(x->m->a, "%s.list", x->node ? x->node : x->d->name));
  }
  return t;
}

/* ---- late sizes ------------------------------------------------------------------------------ */
sz notation_upper(emodule *m, ex value) {
  sz lo, hi;
  expr_bounds(m, value, 0, &lo, &hi);
  return hi;
}
val late_size(el *x, ex value, const char *name) {
  ctx *c = x->c;
  pval p = point_ex(x, value);
  if (p.kind == PV_INT && !sym_uses_kind(c, p.s, AT_DATA)) return v_size(sym_canon(c, p.s));
  for (uint32_t i = 0; i < x->m->lates.n; i++) { /* the same size is found once */
    const tensor *had = xt(x->m, x->m->lates.v[i].tensor);
    if (had->kind != TK_STAGE || xs(x->m, had->stage)->dead || xs(x->m, had->stage)->value != value) continue;
    uint32_t b = x->blk, at = xs(x->m, had->stage)->block;
    while (b != at && b) b = x->m->blocks.v[b].parent;
    if (b == at) return v_size(sym_of_atom(c, x->m->lates.v[i].symbol));
  }
  sz least, u;
  expr_bounds(x->m, value, x->blk, &least, &u);
  const char *node = x->node ? x->node : x->d->name, *full = arena_fmt(x->m->a, "%s%s.%s", node, x->path, name);
  sbuf b = sbuf_new(x->m->a);
  bool changed = false;
  for (const char *s = full; *s; s++) {
    bool ok = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9' && s > full) ||
              *s == '_' || (*s == '.' && s > full);
    changed |= !ok;
    sb_putc(&b, ok ? *s : '_');
  }
  if (changed) sb_fmt(&b, "_%06llx", (unsigned long long)(hash_bytes(full, strlen(full), 1) & 0xffffff));
  if ((*x->serial)++) sb_fmt(&b, ".%u", *x->serial);
  nten *t = new_tensor(x, name, ET_I64, NULL, 0);
  add_stage(x, t, NULL, 0, value);
  int64_t hi = u ? sym_int_or(c, u, 1000000000) : 1000000000;
  sz s = sym_fresh(c, b.s, least && sym_ge0(c, least) ? 0 : -1000000000, hi);
  atom a;
  if (!sym_is_atom(c, s, &a)) return v_size(s);
  late l = {.symbol = a, .tensor = t->t, .bound = u ? u : sym_int(c, 1000000000)};
  vec_push(x->m->a, x->m->lates, l);
  return v_size(s);
}

/* A number in a shape: models write 2^63 - 1 for "to the end"; anything beyond 2^40 counts as 2^40, so that sums of
 * sizes cannot overflow. */
sz bounded_size(el *x, sz s) {
  int64_t i, limit = (int64_t)1 << 40;
  if (sym_is_int(x->c, s, &i) && (i > limit || i < -limit)) return sym_int(x->c, i > 0 ? limit : -limit);
  return sym_canon(x->c, s);
}
/* values(t): the contents of a small tensor as a pack. Integers that are not known become late sizes; a length that
 * is not known is refused, since a rank would hang on it. */
val known_list(el *x, nten *t, const ast *at) {
  ctx *c = x->c;
  if (t->type == ET_STR) FAIL(at, "values(%s): strings are not known when compiling", t->name);
  int64_t n = 1, d;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (!sym_is_int(c, sym_canon(c, t->shape[i]), &d))
      el_fail(x, E_UNSUPPORTED, at->line, at->col,
              "the length of %s is only known at run time (%s), but the rank of the result hangs on it", t->name,
              sym_str(c, t->shape[i]));
    n *= d;
  }
  if (n > 1 << 16) FAIL(at, "values(%s): %lld elements are too many for a list of sizes", t->name, (long long)n);
  const sz *iv = t->values;
  const double *fv = t->floats;
  if (!iv && !fv && t->t) point_values(x, t->t, &iv, &fv);
  val r = v_list(x, (uint32_t)n);
  bool fl = et_kind(t->type) == K_FLOAT;
  for (int64_t i = 0; i < n; i++) {
    val *o = &r.p.l->v[i];
    if (t->uniform)
      *o = t->fill;
    else if (fl && fv)
      *o = v_float(fv[i]);
    else if (!fl && iv && iv[i] && !sym_uses_kind(c, iv[i], AT_DATA))
      *o = v_size(bounded_size(x, iv[i]));
    else {
      sz idx[MAX_RANK];
      int64_t p = i;
      for (uint32_t k = t->rank; k-- > 0;) {
        d = sym_int_or(c, sym_canon(c, t->shape[k]), 1);
        idx[k] = sym_int(c, p % d);
        p /= d;
      }
      val e = load_at(x, t, idx, 0);
      *o = fl ? e
              : late_size(x, expr_cast(x->m, ET_I64, v_lift(x, e, t->type, at)),
                          arena_fmt(x->a, "%s%lld", t->name, (long long)i));
    }
  }
  return r;
}

/* ---- left sides ------------------------------------------------------------------------------ */
typedef struct side {
  axis *axes;      /* digits of each axis */
  sz *shape;       /* size of each axis */
  seg *segs;       /* dims and packs as written */
  uint32_t n;      /* number of axes */
  uint32_t nsegs;  /* number of segs */
  bool recurrence; /* one of the axes is the step */
} side;

static val lhs_range(el *x, const stmt *s, const elem *q, const ast *name, bool in_tuple, const sz *od, uint32_t nod,
                     const seg *osegs, uint32_t nosegs) {
  val r;
  const ast *exprs[1] = {s->e};
  if (q->bound) return ev_static(x, q->bound);
  binding *g = find_global(x, name->name);
  if (g && (g->v.kind == V_SIZE || g->v.kind == V_LIST)) return g->v;
  if (od && !in_tuple && range_at(x, s->lhs, s->nlhs, od, nod, osegs, nosegs, name->name, q->splat, &r)) return r;
  if (range_from_accesses(x, name->name, q->splat, exprs, 1, &r)) return r;
  FAIL(name,
       "index %s has no range: no dim has this name, the output's type gives none and no access X[.., %s, ..] does; "
       "write %s < size",
       name->name, name->name, name->name);
}
static digit digit_of(el *x, sz index, sz extent) {
  digit d = {0, extent};
  atom a;
  if (sym_is_atom(x->c, index, &a)) d.var = a;
  return d;
}
static void push_axis(el *x, side *o, uint32_t *cap, const digit *dg, uint32_t n) {
  if (o->n == *cap) {
    *cap = *cap ? 2 * *cap : 8;
    axis *na = NEWN(x->m->a, axis, *cap);
    sz *ns = NEWN(x->m->a, sz, *cap);
    if (o->n) memcpy(na, o->axes, o->n * sizeof *na), memcpy(ns, o->shape, o->n * sizeof *ns);
    o->axes = na, o->shape = ns;
  }
  digit *d = NEWN(x->m->a, digit, n ? n : 1);
  uint32_t m = 0;
  sz ext = sym_int(x->c, 1);
  for (uint32_t i = 0; i < n; i++) {
    ext = sym_mul(x->c, ext, dg[i].extent);
    if (dg[i].var) d[m++] = dg[i];
  }
  o->axes[o->n] = (axis){m, d};
  o->shape[o->n++] = ext;
}
static void push_seg(el *x, side *o, bool splat, uint32_t from) {
  seg *n = NEWN(x->a, seg, o->nsegs + 1);
  if (o->nsegs) memcpy(n, o->segs, o->nsegs * sizeof *n);
  n[o->nsegs] = (seg){splat, o->n - from, NULL};
  o->segs = n;
  o->nsegs++;
}

/* The axes of a stage's left side; binds its indices. */
static void left_side(el *x, const stmt *s, side *o) {
  ctx *c = x->c;
  sz *od = NULL;
  uint32_t nod = 0, nosegs = 0, cap = 0;
  seg *osegs = NULL;
  const param *out = out_param(x, s->names[0].name);
  if (out) out_dims(x, out, &od, &nod, &osegs, &nosegs);
  if (s->has_for) { /* computed left side */
    bound bd;
    const ast *exprs[1] = {s->e};
    bind_all(x, s->b, s->nb, exprs, 1, &bd);
    val l = ev_elems(x, s->lhs, s->nlhs);
    uint32_t used = 0;
    for (uint32_t i = 0; i < l.p.l->n; i++) {
      val v = l.p.l->v[i];
      atom a;
      int64_t k;
      if (v_is_int(x, v, &k) && k == 0) {
        push_axis(x, o, &cap, NULL, 0);
        push_seg(x, o, false, o->n - 1);
        continue;
      }
      if (v.kind != V_SIZE || !sym_is_atom(c, v.s, &a) || sym_kind(c, a) != AT_VAR)
        FAIL(s, "%s[..] = .. for ..: a left side holds bound indices and 0, not %s", s->names[0].name,
             v_describe(x, v));
      for (uint32_t j = 0; j < o->n; j++)
        if (o->axes[j].n && o->axes[j].d[0].var == a)
          FAIL(s, "%s[..]: index %s stands twice on the left side", s->names[0].name, sym_name(c, a));
      digit d = {a, sym_extent(c, a)};
      push_axis(x, o, &cap, &d, 1);
      push_seg(x, o, false, o->n - 1);
      used++;
    }
    if (used != bd.vars.n)
      FAIL(s, "%s[..] = .. for ..: every bound index must stand once on the left side", s->names[0].name);
  } else {
    uint32_t total = 0;
    for (uint32_t i = 0; i < s->nlhs; i++) total += s->lhs[i].e->kind == A_TUPLE ? s->lhs[i].e->nel : 1;
    val *ranges = NEWN(x->a, val, total ? total : 1);
    uint32_t k = 0;
    for (uint32_t i = 0; i < s->nlhs; i++) { /* ranges are evaluated before any index is bound */
      const elem *q = &s->lhs[i];
      bool tup = q->e->kind == A_TUPLE;
      for (uint32_t j = 0; j < (tup ? q->e->nel : 1); j++) {
        const elem *y = tup ? &q->e->el[j] : q;
        const ast *nm = y->e;
        if (!tup && nm->kind == A_INT && nm->k.i == 0 && !y->splat) {
          k++;
          continue;
        }
        if (nm->kind == A_BIN && nm->op == BO_LT && tup) { /* (g < 2, m) */
          ranges[k++] = ev_static(x, nm->kid[1]);
          continue;
        }
        if (nm->kind != A_NAME)
          FAIL(nm, "a left side holds names of indices, packs, (g, m) and 0; a computed left side needs `for`");
        if (x->recurrence_name && nm->name == x->recurrence_name) {
          ranges[k++] = v_size(x->recurrence_extent);
          continue;
        }
        ranges[k++] = lhs_range(x, s, y, nm, tup, od, nod, osegs, nosegs);
      }
    }
    k = 0;
    u32vec vars = {0};
    for (uint32_t i = 0; i < s->nlhs; i++) {
      const elem *q = &s->lhs[i];
      bool tup = q->e->kind == A_TUPLE;
      uint32_t from = o->n, nd = 0, m = tup ? q->e->nel : 1;
      digit *dg = NEWN(x->a, digit, m);
      for (uint32_t j = 0; j < m; j++, k++) {
        const elem *y = tup ? &q->e->el[j] : q;
        const ast *nm = y->e->kind == A_BIN ? y->e->kid[0] : y->e;
        if (nm->kind == A_INT) {
          push_axis(x, o, &cap, NULL, 0);
          continue;
        }
        if (nm->kind != A_NAME) FAIL(nm, "a left side holds names of indices");
        if (x->recurrence_name && nm->name == x->recurrence_name) {
          dg[nd++] = (digit){x->recurrence_var, x->recurrence_extent};
          o->recurrence = true;
          if (!tup) push_axis(x, o, &cap, dg, 1);
          continue;
        }
        bind_index(x, nm->name, y->splat, v_none(), ranges[k], &vars, nm->line, nm->col);
        binding *b = find(x, nm->name);
        if (y->splat) {
          for (uint32_t z = 0; z < b->v.p.l->n; z++) {
            digit d = digit_of(x, b->v.p.l->v[z].s, b->range.p.l->v[z].s);
            push_axis(x, o, &cap, &d, 1);
          }
        } else {
          dg[nd++] = digit_of(x, b->v.s, b->range.s);
          if (!tup) push_axis(x, o, &cap, &dg[nd - 1], 1);
        }
      }
      if (tup) push_axis(x, o, &cap, dg, nd);
      push_seg(x, o, q->splat && !tup, from);
    }
  }
  uint32_t at = 0;
  for (uint32_t i = 0; i < o->nsegs && o->n; i++) o->segs[i].d = o->shape + at, at += o->segs[i].n;
  if (od) {
    if (nod != o->n) FAIL(s, "%s has %u axes here, but %u in its type", s->names[0].name, o->n, nod);
    for (uint32_t i = 0; i < nod; i++)
      need_equal(x, o->shape[i], od[i], false, s->line, s->col,
                 arena_fmt(x->a, "axis %u of %s, here and in its type", i, s->names[0].name));
  }
  if (o->n > MAX_RANK) FAIL(s, "%s has %u axes; at most %d are supported", s->names[0].name, o->n, MAX_RANK);
}

static etype declared_type(el *x, const stmt *s) {
  if (s->type) return elem_type(x, s->type, s->line, s->col);
  const param *o = out_param(x, s->names[0].name);
  return o ? elem_type(x, o->type.elem, s->line, s->col) : ET_NONE;
}
static etype own_type(el *x, val v) {
  etype t = v_etype(x, v);
  if (t) return t;
  if (v.kind == V_SIZE) return ET_I64;
  if (v.kind == V_EX && exn(x->m, v.e)->type == ET_I64) return ET_I64;
  return ET_F32;
}
static void publish(el *x, const stmt *s, nten *t) {
  const char *name = s->names[0].name;
  const param *o = out_param(x, name);
  uint64_t l;
  if (o && o->variadic && map_gets(x->variadic, name, &l)) {
    valvec *v = (valvec *)(uintptr_t)l;
    vec_push(x->a, *v, v_ten(t));
  } else
    bind_global(x, name, R_TENSOR, v_ten(t));
}
static bool skipped(el *x, const char *name) {
  uint64_t q;
  return map_gets(x->skip, name, &q);
}

static void run_stage(el *x, const stmt *s) {
  side o = {0};
  if (skipped(x, s->names[0].name)) return;
  binding *save = x->locals;
  uint32_t ext = x->extents.n;
  if (x->recurrence_name) {
    bind_local(x, x->recurrence_name, R_INDEX, x->recurrence_index)->range = v_size(x->recurrence_extent);
    vec_push(x->a, x->extents, x->recurrence_extent);
  }
  left_side(x, s, &o);
  etype t = declared_type(x, s);
  nten *r;
  if (x->recurrence_alloc) { /* only the tensor, so that the stages of a recurrence may name each other */
    if (t == ET_STR) FAIL(s, "strings inside recurrence; take them apart with bytes(..)");
    if (!t) FAIL(s, "a stage inside recurrence needs its element type: %s: T[..] = ..", s->names[0].name);
    if (!o.recurrence) FAIL(s, "a stage inside recurrence needs the index %s on its left side", x->recurrence_name);
    r = new_tensor(x, s->names[0].name, t, o.shape, o.n);
    r->segs = o.segs, r->nsegs = o.nsegs;
    publish(x, s, r);
    x->locals = save;
    x->extents.n = ext;
    return;
  }
  const ast *e = s->e;
  bool stop = e->kind == A_CALL && !strcmp(e->name, "stop") && e->nel == 1;
  val v = ev(x, stop ? e->el[0].e : e);
  if (v.kind == V_LIST || v.kind == V_TEN || v.kind == V_NONE)
    FAIL(s, "%s[..] = .. needs one element, not %s", s->names[0].name, v_describe(x, v));
  if (!t) t = own_type(x, v);
  ex value = v_lift(x, v, t, s->e);
  if (x->recurrence_name) {
    binding *b = find_global(x, s->names[0].name);
    r = b->v.p.t;
  } else {
    r = new_tensor(x, s->names[0].name, t, o.shape, o.n);
    r->segs = o.segs, r->nsegs = o.nsegs;
  }
  uint32_t sid = add_stage(x, r, o.axes, o.n, value);
  if (stop) xs(x->m, sid)->stop = true;
  if (x->recurrence_name && x->recurrence_var) xs(x->m, sid)->recurrence = x->recurrence_id;
  if (!x->recurrence_name) publish(x, s, r);
  x->locals = save;
  x->extents.n = ext;
}

/* ---- updates --------------------------------------------------------------------------------- */
/* Does an update with these indices and variables fill a box exactly once? Its volume, or 0. */
static sz box_volume(el *x, const sz *idx, uint32_t n, const u32vec *vars) {
  sz vol = sym_int(x->c, 1);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < n; i++) {
    u32vec in = {0};
    sym_atoms(x->c, idx[i], AT_VAR, x->a, &in);
    if (sym_uses_kind(x->c, idx[i], AT_DATA) || in.n > 1) return 0;
    if (!in.n) continue;
    sz coef, rest;
    int64_t k;
    if (!sym_linear(x->c, idx[i], in.v[0], &coef, &rest) || !sym_is_int(x->c, coef, &k) || k != 1) return 0;
    for (uint32_t j = 0; j < i; j++)
      if (sym_uses(x->c, idx[j], in.v[0])) return 0;
    vol = sym_mul(x->c, vol, sym_extent(x->c, in.v[0]));
    seen++;
  }
  return seen == vars->n ? vol : 0;
}
static void to_end(el *x, uint32_t sid) { /* a stage nobody has read yet moves behind what its update reads */
  block *b = &x->m->blocks.v[x->blk];
  for (uint32_t i = 0; i < b->items.n; i++)
    if (b->items.v[i].kind == IT_STAGE && b->items.v[i].index == sid) {
      item it = b->items.v[i];
      memmove(&b->items.v[i], &b->items.v[i + 1], (b->items.n - i - 1) * sizeof it);
      b->items.v[b->items.n - 1] = it;
      return;
    }
}
static bool reads_tensor(el *x, ex e, tid t) {
  u32vec loads = {0};
  if (!e) return false;
  expr_loads(x->m, e, x->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (exn(x->m, loads.v[i])->tensor == t) return true;
  return false;
}
static void run_update(el *x, const stmt *s) {
  const char *name = s->names[0].name;
  if (skipped(x, name)) return;
  if (x->recurrence_name) FAIL(s, "updates cannot stand inside recurrence");
  binding *g = find_global(x, name);
  nten *t = g && g->v.kind == V_TEN ? g->v.p.t : NULL;
  bool fresh = false;
  if (!t) { /* an output without a base: its updates write every place */
    const param *out = out_param(x, name);
    sz *od;
    uint32_t n, ns;
    seg *segs;
    if (!out || s->op != OP_NONE) FAIL(s, "%s is updated before it is defined", name);
    if (!out_dims(x, out, &od, &n, &segs, &ns))
      FAIL(s, "the sizes of %s are not known yet; its dims need a `let` before this", name);
    t = new_tensor(x, name, declared_type(x, s), od, n);
    t->segs = segs, t->nsegs = ns;
    fresh = true;
  } else if (!t->stage || t->read || xt(x->m, t->t)->kind != TK_STAGE) { /* somebody holds the old contents */
    nten *n = new_tensor(x, name, t->type, t->shape, t->rank);
    sz idx[MAX_RANK];
    axis *axes = plain_axes(x, t->shape, t->rank, idx);
    n->segs = t->segs, n->nsegs = t->nsegs;
    add_stage(x, n, axes, t->rank, v_lift(x, load_at(x, t, idx, 0), t->type, s->e));
    t = n;
  }
  bound bd;
  VEC(const ast *) exprs = {0};
  vec_push(x->a, exprs, s->e);
  for (uint32_t i = 0; i < s->nlhs; i++) vec_push(x->a, exprs, s->lhs[i].e);
  if (s->cond) vec_push(x->a, exprs, s->cond);
  bind_all(x, s->b, s->nb, exprs.v, exprs.n, &bd);
  val cond = s->cond ? ev(x, s->cond) : v_bool(true);
  if (cond.kind != V_BOOL && !(cond.kind == V_EX && exn(x->m, cond.e)->type == ET_BOOL))
    FAIL(s->cond, "`if` needs a condition, not %s", v_describe(x, cond));
  condmark mark = {0};
  if (cond.kind == V_EX) mark = cond_push(x, cond.e, true);
  ast probe = {.kind = A_ACCESS, .line = s->line, .col = s->col, .el = s->lhs, .nel = s->nlhs};
  nten shadow = {.name = name, .type = t->type, .rank = t->rank, .shape = t->shape, .t = t->t};
  val place = access_tensor(x, &shadow, &probe); /* checks the place like an access */
  val v = ev(x, s->e);
  ex value = v_lift(x, v, t->type, s->e);
  if (cond.kind == V_EX) cond_pop(x, mark);
  unbind(x, &bd);
  const ex_node *ld = exn(x->m, place.e);
  uint32_t text = t->type == ET_STR;
  if (text && !sym_le(x->c, x->chr_extent, xt(x->m, t->t)->shape[t->rank]))
    FAIL(s, "%s has no room for the strings it is updated with", name);
  sz *idx = copy_of_array(x->m->a, ld->args, t->rank + text, sizeof *idx);
  if (reads_tensor(x, value, t->t) || (cond.kind == V_EX && reads_tensor(x, cond.e, t->t)))
    FAIL(s, "an update of %s reads %s itself; copy it first", name, name);
  if (fresh) {
    sz dummy[MAX_RANK];
    axis *axes = plain_axes(x, t->shape, t->rank, dummy);
    ast at = {.line = s->line, .col = s->col};
    sz pos = x->chr; /* position in the strings of the update itself */
    x->chr = 0;
    if (t->type == ET_STR) text_position(x);
    uint32_t sid = add_stage(x, t, axes, t->rank, zero_of(x, t->type, &at));
    x->chr = pos;
    xs(x->m, sid)->tiled = true;
    vec_push(x->a, x->tiles, t);
    publish(x, s, t);
  } else {
    g->v = v_ten(t);
    to_end(x, t->stage - 1);
  }
  stage *st = xs(x->m, t->stage - 1);
  if (st->tiled && (cond.kind == V_EX || !box_volume(x, idx, t->rank, &bd.vars))) st->tiled = false;
  if (cond.kind == V_BOOL && !cond.b) return;
  atom chr;
  if (text && sym_is_atom(x->c, text_position(x), &chr) && sym_kind(x->c, chr) == AT_VAR) vec_push(x->a, bd.vars, chr);
  update u = {.nvars = bd.vars.n,
              .nidx = t->rank + text,
              .idx = idx,
              .op = (sop)s->op,
              .value = value,
              .cond = cond.kind == V_EX ? cond.e : 0};
  u.vars = copy_of_array(x->m->a, bd.vars.v, bd.vars.n, sizeof(atom));
  vec_push(x->m->a, st->updates, u);
}
/* At the end: do the updates of a stage without base tile it? Volumes add up and boxes are apart in pairs. */
void settle_tiles(el *x, nten *t) {
  if (!t->stage) return;
  stage *st = xs(x->m, t->stage - 1);
  if (!st->tiled) return;
  ctx *c = x->c;
  sz sum = sym_int(c, 0), all = sym_int(c, 1);
  for (uint32_t i = 0; i < t->rank; i++) all = sym_mul(c, all, t->shape[i]);
  for (uint32_t i = 0; i < st->updates.n; i++) {
    u32vec vars = {.v = st->updates.v[i].vars, .n = st->updates.v[i].nvars};
    sz v = box_volume(x, st->updates.v[i].idx, t->rank, &vars);
    if (!v)
      st->tiled = false;
    else
      sum = sym_add(c, sum, v);
  }
  if (st->tiled && sym_canon(c, sum) != sym_canon(c, all) && !sym_eq(c, sum, all)) st->tiled = false;
  for (uint32_t i = 0; st->tiled && i < st->updates.n; i++)
    for (uint32_t j = 0; st->tiled && j < i; j++) {
      bool apart = false;
      for (uint32_t k = 0; k < t->rank && !apart; k++) {
        sz lo[2], hi[2];
        for (int q = 0; q < 2; q++) {
          const update *u = &st->updates.v[q ? j : i];
          u32vec in = {0};
          sz coef;
          lo[q] = u->idx[k], hi[q] = sym_addi(c, lo[q], 1);
          sym_atoms(c, u->idx[k], AT_VAR, x->a, &in);
          if (in.n && sym_linear(c, u->idx[k], in.v[0], &coef, &lo[q]))
            hi[q] = sym_add(c, lo[q], sym_extent(c, in.v[0]));
        }
        apart = sym_le(c, hi[0], lo[1]) || sym_le(c, hi[1], lo[0]);
      }
      st->tiled = apart;
    }
  if (st->tiled) st->value = 0;
}

/* ---- other statements ------------------------------------------------------------------------ */
static nten *copy_of(el *x, nten *t, const char *name) {
  nten *n = arena_dup(x->a, t, sizeof *t);
  n->name = name;
  n->stage = 0;
  t->read = true;
  return n;
}
static val as_tensor(el *x, val v, const char *name, const ast *at) {
  if (v.kind == V_TEN || v.kind == V_NONE) return v;
  if (v.kind == V_LIST) {
    bool tensors = true;
    for (uint32_t i = 0; i < v.p.l->n; i++) tensors &= v.p.l->v[i].kind == V_TEN;
    return tensors ? v : v_ten(const_list(x, v, at));
  }
  const param *o = out_param(x, name);
  etype t = o ? elem_type(x, o->type.elem, at->line, at->col) : own_type(x, v);
  nten *n = new_tensor(x, name, t, NULL, 0);
  add_stage(x, n, NULL, 0, v_lift(x, v, t, at));
  return v_ten(n);
}
static void run_call(el *x, const stmt *s) {
  const ast *e = s->e;
  const char *name = s->names[0].name;
  nten *shown;
  bool unused = true;
  for (uint32_t i = 0; i < s->nnames; i++) unused &= skipped(x, s->names[i].name);
  if (unused) return;
  const opdef *d = e->kind == A_CALL && !find(x, e->name) ? lib_called(x->lib, x->d, e->name) : NULL;
  if (!d && s->nnames == 1 && text_call(x, e, name, &shown)) {
    publish(x, s, shown);
    return;
  }
  if (e->kind == A_CALL && !strcmp(e->name, "reshape") && !d) {
    if (e->nel < 1) FAIL(e, "reshape(X, dims) needs a tensor");
    val t = ev(x, e->el[0].e);
    if (t.kind != V_TEN) FAIL(e, "reshape needs a tensor, not %s", v_describe(x, t));
    val l = ev_elems(x, e->el + 1, e->nel - 1);
    sz *dims = NEWN(x->m->a, sz, l.p.l->n + 1);
    for (uint32_t i = 0; i < l.p.l->n; i++) dims[i] = v_need_size(x, l.p.l->v[i], e, "a dim of reshape");
    nten *r = reshape_tensor(x, t.p.t, dims, l.p.l->n, name, e);
    seg *segs = NEWN(x->a, seg, e->nel);
    uint32_t at = 0, n = 0;
    for (uint32_t i = 1; i < e->nel; i++) {
      val q = ev_elems(x, &e->el[i], 1);
      segs[n++] = (seg){e->el[i].splat, q.p.l->n, r->shape + at};
      at += q.p.l->n;
    }
    r->segs = segs, r->nsegs = n;
    publish(x, s, r);
    return;
  }
  if (d) {
    val args = ev_elems(x, e->el, e->nel), *kwv = NEWN(x->a, val, e->nkw + 1);
    for (uint32_t i = 0; i < args.p.l->n; i++) args.p.l->v[i] = as_tensor(x, args.p.l->v[i], "argument", e);
    for (uint32_t i = 0; i < e->nkw; i++) kwv[i] = ev(x, e->kw[i].e);
    uint32_t nout = s->nnames == 1 && s->names[0].splat ? x->nout : s->nnames;
    val *out = NEWN(x->a, val, nout + d->nout + 1);
    uint32_t n = elaborate(x, d, args.p.l->v, args.p.l->n, e->kw, kwv, e->nkw, nout, NULL, out, e);
    if (s->nnames == 1 && s->names[0].splat) {
      val l = v_list(x, n);
      for (uint32_t i = 0; i < n; i++) l.p.l->v[i] = out[i];
      bind_global(x, name, R_TENSOR, l);
      return;
    }
    if (n < s->nnames) FAIL(s, "%s has %u outputs, %u are taken", d->name, n, s->nnames);
    for (uint32_t i = 0; i < s->nnames; i++)
      bind_global(x, s->names[i].name, R_TENSOR,
                  out[i].kind == V_TEN ? v_ten(copy_of(x, out[i].p.t, s->names[i].name)) : out[i]);
    return;
  }
  if (s->nnames != 1) FAIL(s, "only a call of an operator gives several tensors");
  val v = as_tensor(x, ev(x, e), name, e);
  if (v.kind == V_TEN) v = v_ten(copy_of(x, v.p.t, name));
  bind_global(x, name, R_TENSOR, v);
}

static void let_value(el *x, const stname *n, val v, const ast *at) {
  if (n->splat && v.kind != V_LIST) FAIL(at, "let %s... needs a pack, not %s", n->name, v_describe(x, v));
  if (v.kind == V_EX && !v.str) {
    etype t = (etype)exn(x->m, v.e)->type;
    if (et_kind(t) == K_INT || et_kind(t) == K_UINT) v = late_size(x, expr_cast(x->m, ET_I64, v.e), n->name);
  } else if (v.kind == V_SIZE) {
    v.idx = false;
    v.s = sym_canon(x->c, v.s);
  }
  bind_global(x, n->name, v.kind == V_TEN ? R_TENSOR : R_STATIC, v);
}
static void run_let(el *x, const stmt *s) {
  val v = ev(x, s->e);
  if (s->nnames == 1) {
    let_value(x, &s->names[0], v, s->e);
    return;
  }
  if (v.kind != V_LIST || v.p.l->n != s->nnames)
    FAIL(s, "let with %u names needs a pack of as many, not %s", s->nnames, v_describe(x, v));
  for (uint32_t i = 0; i < s->nnames; i++) let_value(x, &s->names[i], v.p.l->v[i], s->e);
}
static void run_require(el *x, const stmt *s, val v) {
  if (v.kind == V_LIST) {
    for (uint32_t i = 0; i < v.p.l->n; i++) run_require(x, s, v.p.l->v[i]);
    return;
  }
  if (v.kind == V_BOOL) {
    if (!v.b) FAIL(s, "%s", s->text ? s->text : "a requirement is not met");
    return;
  }
  sz c;
  if (v.kind != V_EX || exn(x->m, v.e)->type != ET_BOOL)
    FAIL(s->e, "require needs a condition, not %s", v_describe(x, v));
  const ex_node *n = exn(x->m, v.e);
  if (!cond_sz(x, v.e, &c) || sym_uses_kind(x->c, c, AT_VAR)) FAIL(s->e, "a requirement can only compare sizes");
  const char *text = s->text ? s->text : arena_fmt(x->m->a, "%s: %s >= 0 is required", x->d->name, sym_str(x->c, c));
  if (n->op == OP_EQ)
    guard_eq(x, expr_as_size(x->m, n->args[0]), expr_as_size(x->m, n->args[1]), s->assume, text);
  else
    guard_ge0(x, c, s->assume, text), sym_push(x->c, c);
}
static void run_each(el *x, const stmt *s, uint32_t skip) {
  uint32_t n = 0;
  val *lists = NEWN(x->a, val, s->nlist);
  for (uint32_t i = 0; i < s->nlist; i++) {
    lists[i] = ev_static(x, s->list[i]);
    if (lists[i].kind != V_LIST) FAIL(s->list[i], "each goes through packs, not %s", v_describe(x, lists[i]));
    if (i && lists[i].p.l->n != n) FAIL(s->list[i], "each: packs of different length, %u and %u", n, lists[i].p.l->n);
    n = lists[i].p.l->n;
  }
  const char *path = x->path;
  for (uint32_t j = 0; j < n; j++) {
    x->path = arena_fmt(x->a, "%s.%u", path, j);
    for (uint32_t i = 0; i < s->nlist; i++) {
      val v = lists[i].p.l->v[j];
      bind_global(x, s->names[skip + i].name, v.kind == V_TEN ? R_TENSOR : R_STATIC, v);
    }
    run_block(x, s->body);
  }
  x->path = path;
}
static void run_recurrence(el *x, const stmt *s) {
  if (x->recurrence_name) FAIL(s, "recurrence inside recurrence");
  sz n = v_need_size(x, ev_static(x, s->e), s->e, "the number of steps");
  x->recurrence_name = s->names[0].name;
  x->recurrence_extent = n;
  sz v = sym_var(x->c, s->names[0].name, n);
  x->recurrence_var = 0;
  if (!sym_is_atom(x->c, v, &x->recurrence_var)) x->recurrence_var = 0;
  x->recurrence_index = v_index(v);
  if (x->recurrence_var) {
    recurrence sc = {x->recurrence_var, n};
    x->recurrence_id = x->m->recurrences.n;
    vec_push(x->m->a, x->m->recurrences, sc);
  }
  for (int pass = 0; pass < 2; pass++) {
    x->recurrence_alloc = pass == 0;
    for (uint32_t i = 0; i < s->body->n; i++) {
      const stmt *q = s->body->s[i];
      if (q->kind != ST_STAGE) FAIL(q, "only stages can stand inside recurrence");
      run_stage(x, q);
    }
  }
  x->recurrence_name = NULL;
  x->recurrence_alloc = false;
}

static void run_stmt(el *x, const stmt *s) {
  x->chr = 0;
  switch (s->kind) {
  case ST_LET:
    run_let(x, s);
    break;
  case ST_REQUIRE:
    if (s->nlist)
      require_values(x, s);
    else
      run_require(x, s, ev(x, s->e));
    break;
  case ST_IF:
    if (decide(x, ev(x, s->e), s->e, "which stages exist"))
      run_block(x, s->body);
    else if (s->other)
      run_block(x, s->other);
    break;
  case ST_EACH:
    run_each(x, s, 0);
    break;
  case ST_FOLD: {
    stmt first = *s;
    first.kind = ST_CALL;
    first.nnames = 1;
    run_call(x, &first);
    run_each(x, s, 1);
    break;
  }
  case ST_RECURRENCE:
    run_recurrence(x, s);
    break;
  case ST_STAGE:
    run_stage(x, s);
    break;
  case ST_UPDATE:
    run_update(x, s);
    break;
  case ST_CALL:
    run_call(x, s);
    break;
  case ST_COST: /* it is the cost of a node, so it counts only where the model calls the definition */
    if (x->depth == 1 && x->m)
      vec_push(x->m->a, x->m->costs,
               ((cost_note){x->node, s->names[0].name, v_need_size(x, ev_static(x, s->e), s->e, "a cost")}));
    break;
  default:
    break; /* fn: bound beforehand; grad: kept for others */
  }
}
void run_block(el *x, const blk *b) {
  for (uint32_t i = 0; i < b->n; i++)
    if (b->s[i]->kind == ST_FN) bind_global(x, b->s[i]->fn->name, R_FN, v_none())->fn = b->s[i]->fn;
  for (uint32_t i = 0; i < b->n; i++) run_stmt(x, b->s[i]);
}
