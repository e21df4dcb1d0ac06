/* How does a formula become loop values? See emit.h for the idea (copies of a tile share what does not depend on the
 * copy).
 *
 * Memory safety: an access is emitted unguarded only if its index is proved in range (or inside a halo that holds the
 * `otherwise` value). Otherwise an access with `otherwise` is masked or clamped and selected, and one without (an index
 * read from data) is clamped. So both branches of a select may be evaluated.
 */
#include "schedule/emit.h"
#include "cost/cost.h"
#include <string.h>

void emit_begin(ectx *e, splan *p, lfunc *f, launch *l, arena *a) {
  memset(e, 0, sizeof *e);
  view_begin(&e->view, p, a);
  e->p = p;
  e->m = p->m;
  e->c = p->m->c;
  e->a = a;
  e->f = f;
  e->b = loop_builder(f);
  e->lanes = 1;
  e->l = l;
  e->arg_of = map_new(e->a);
  emit_epoch(e);
  emit_scope(e);
}

/* ---- arguments ------------------------------------------------------------------------------- */
static lv argument(ectx *e, uint64_t key, kargs k, const char *name, ltype t, unsigned flags, unsigned align) {
  uint64_t have;
  if (map_getu(e->arg_of, key, &have)) {
    const lv v = key_low(have);
    const uint32_t i = key_high(have);
    if (k.write) {
      e->l->args.v[i].write = true;
      e->f->params.v[i].flags |= LP_WRITE;
    }
    return v;
  }
  lv v = lb_param(&e->b, name, t, flags, align);
  vec_push(e->p->l->a, e->l->args, k);
  map_putu(e->arg_of, key, key_pair(e->l->args.n - 1, v));
  return v;
}
lv emit_buffer(ectx *e, uint32_t buffer, bool write) {
  const struct buffer *b = &e->p->buffers.v[buffer];
  unsigned align = b->kind == BUF_WEIGHTS || b->kind == BUF_ARENA ? BUFFER_ALIGN : 0;
  return argument(
      e, (uint64_t)buffer << 1, (kargs){.is_buffer = true, .buffer = buffer, .write = write},
      arena_fmt(e->a, "b%u", e->l->args.n), lptr(b->type),
      LP_READ | (write ? LP_WRITE : 0u) | (b->kind == BUF_WEIGHTS || b->kind == BUF_ARENA ? LP_NOALIAS : 0u), align);
}
lv emit_symbol(ectx *e, sz size) {
  return argument(e, (uint64_t)size << 1 | 1, (kargs){.size = size}, arena_fmt(e->a, "n%u", e->l->args.n),
                  lt(ET_I64, 1), 0, 0);
}

/* ---- scopes and bindings --------------------------------------------------------------------- */
void emit_scope(ectx *e) {
  memo_scope *s = NEW(e->a, memo_scope);
  s->m = map_new(e->a);
  s->up = e->memo;
  e->memo = s;
}
void emit_unscope(ectx *e) { e->memo = e->memo->up; }
static bool recall(ectx *e, uint64_t key, uint64_t *v) {
  for (memo_scope *s = e->memo; s; s = s->up)
    if (map_getu(s->m, key, v)) return true;
  return false;
}
void emit_bind(ectx *e, atom var, lv base) { view_bind(&e->view, (binding){.var = var, .base = base}); }

/* ---- does a value depend on the row copy, the lane? ------------------------------------------ */
enum { D_ROW = 1, D_LANE = 2 };
void emit_epoch(ectx *e) { e->epoch = ++e->p->epochs; }
static unsigned dep_ex(ectx *e, ex x);
static unsigned dep_sz(ectx *e, sz x) {
  STACK_U32VEC(at);
  unsigned d = 0;
  if (sym_is_int(e->c, x, NULL)) return 0;
  sym_atoms(e->c, x, AT_VAR, e->a, &at);
  for (uint32_t i = 0; i < at.n; i++) {
    binding *b = view_bound(&e->view, at.v[i]);
    if (!b) continue;
    if (b->row_step) d |= D_ROW;
    if (b->lane) d |= D_LANE;
  }
  at.n = 0;
  sym_atoms(e->c, x, AT_DATA, e->a, &at);
  for (uint32_t i = 0; i < at.n; i++) d |= dep_ex(e, sym_data_id(e->c, at.v[i]));
  return d;
}
bool emit_scalar(ectx *e, ex x) { return !dep_ex(e, x); }
bool emit_varies(ectx *e, sz x) { return (dep_sz(e, x) & D_LANE) != 0; }
static unsigned dep_ex(ectx *e, ex x) {
  if (!x) return 0;
  u32vec *known = &e->p->depends;
  while (known->n <= x) vec_push(e->p->l->a, *known, 0);
  if (known->v[x] >> 2 == e->epoch) return known->v[x] & 3;
  const ex_node *n = exn(e->m, x);
  unsigned d = 0;
  switch (n->kind) {
  case EX_INDEX:
    d = dep_sz(e, view_resolve(&e->view, n->index));
    break;
  case EX_LOAD: {
    const local *l = view_local(&e->view, n->tensor);
    if (l && l->regs) d = l->single ? 0 : D_ROW | (l->regs_vec ? D_LANE : 0);
    for (uint32_t i = 0; i < n->nargs; i++) d |= dep_sz(e, view_resolve(&e->view, n->args[i]));
    d |= dep_ex(e, n->otherwise);
    break;
  }
  case EX_OP:
    for (uint32_t i = 0; i < n->nargs; i++) d |= dep_ex(e, n->args[i]);
    break;
  case EX_REDUCE:
    d = dep_ex(e, n->body) | dep_ex(e, n->where) | dep_ex(e, n->payload);
    break;
  default:
    break;
  }
  known->v[x] = e->epoch << 2 | d;
  return d;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static int64_t copy_offset(const ectx *e, const binding *b) {
  uint32_t r = b->rows ? 0 : b->row_mod ? e->r % b->row_mod : b->row_div ? e->r / b->row_div : e->r;
  return r * b->row_step + (int64_t)e->v * b->vec_step;
}
static lv emit_atom(ectx *e, atom a, int64_t *off) {
  *off = 0;
  switch (sym_kind(e->c, a)) {
  case AT_SYMBOL: {
    sz def;
    if (sym_definition(e->c, a, &def) && !view_resolve(&e->view, def)) return emit_size(e, def);
    return emit_symbol(e, sym_of_atom(e->c, a));
  }
  case AT_VAR: {
    binding *b = view_bound(&e->view, a);
    if (!b) ctx_bug(e->c, "schedule: variable %s of kernel %s is not bound", sym_name(e->c, a), e->f->name);
    *off = copy_offset(e, b);
    return b->rows ? b->rows[e->r] : b->base;
  }
  case AT_DATA: {
    evalue x = emit_value(e, sym_data_id(e->c, a));
    if (x.vec && e->lanes > 1)
      ctx_bug(e->c, "schedule: lane-dependent data in a scalar index of kernel %s", e->f->name);
    etype t = exn(e->m, sym_data_id(e->c, a))->type;
    return t == ET_I64 ? x.v : lb_op(&e->b, OP_CAST, lt(ET_I64, 1), x.v, 0, 0);
  }
  default:
    break;
  }
  sz g[3];
  uint32_t n = sym_args(e->c, a, g);
  lv x[3] = {0};
  for (uint32_t i = 0; i < n; i++) x[i] = emit_size(e, g[i]);
  switch (sym_kind(e->c, a)) {
  case AT_DIV:
    return lb_op(&e->b, OP_IDIV, lt(ET_I64, 1), x[0], x[1], 0);
  case AT_MIN:
    return lb_op(&e->b, OP_MIN, lt(ET_I64, 1), x[0], x[1], 0);
  case AT_MAX:
    return lb_op(&e->b, OP_MAX, lt(ET_I64, 1), x[0], x[1], 0);
  default:
    return lb_op(&e->b, OP_SEL, lt(ET_I64, 1), lb_cmp(&e->b, OP_GE, x[0], lb_int(&e->b, 0)), x[1], x[2]);
  }
}
/* A scalar size. The constant part, with the copies' constant offsets in it, is added last, so that all copies share
 * the rest and the constant becomes a displacement. */
lv emit_size(ectx *e, sz x) {
  x = view_resolve(&e->view, x);
  int64_t konst = 0;
  if (sym_is_int(e->c, x, &konst)) return lb_int(&e->b, konst);
  u32vec at = {0};
  sym_atoms(e->c, x, AT_VAR, e->a, &at);
  bool only_symbols = at.n == 0 && !sym_uses_kind(e->c, x, AT_DATA);
  if (only_symbols) { /* computed once by the main function and passed as one argument */
    return emit_symbol(e, x);
  }
  konst = 0;
  lv sum = 0;
  uint32_t n = sym_nterms(e->c, x);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *exps;
    int64_t k = sym_term(e->c, x, i, &na, &as, &exps);
    if (na == 0) {
      konst = (int64_t)((uint64_t)konst + (uint64_t)k);
      continue;
    }
    int64_t off;
    if (na == 1 && exps[0] == 1) {
      lv v = emit_atom(e, as[0], &off);
      konst = (int64_t)((uint64_t)konst + (uint64_t)k * (uint64_t)off); /* like the code, modulo 2^64 */
      lv t = lb_muli(&e->b, v, k);
      sum = sum ? lb_add(&e->b, sum, t) : t;
      continue;
    }
    lv prod = 0;
    for (uint32_t j = 0; j < na; j++) {
      lv v = emit_atom(e, as[j], &off);
      if (off) v = lb_addi(&e->b, v, off);
      for (uint8_t q = 0; q < exps[j]; q++) prod = prod ? lb_mul(&e->b, prod, v) : v;
    }
    prod = lb_muli(&e->b, prod, k);
    sum = sum ? lb_add(&e->b, sum, prod) : prod;
  }
  if (!sum) return lb_int(&e->b, konst);
  return lb_addi(&e->b, sum, konst);
}
sz emit_lane_coef(ectx *e, sz address, sz *rest) {
  sz coef;
  if (!e->lane || !sym_linear(e->c, address, e->lane, &coef, rest)) return 0;
  return coef;
}
static ltype ivec(ectx *e) { return lt(ET_I64, e->lanes); }
/* An index as a vector over the lanes (general case). */
static lv size_vec(ectx *e, sz x) {
  x = view_resolve(&e->view, x);
  if (!(dep_sz(e, x) & D_LANE)) return lb_splat(&e->b, (uint16_t)e->lanes, emit_size(e, x));
  lv sum = 0;
  int64_t konst = 0;
  uint32_t n = sym_nterms(e->c, x);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t na;
    const atom *as;
    const uint8_t *exps;
    int64_t k = sym_term(e->c, x, i, &na, &as, &exps);
    if (na == 0) {
      konst += k;
      continue;
    }
    lv prod = 0;
    for (uint32_t j = 0; j < na; j++) {
      lv v;
      sz one = sym_of_atom(e->c, as[j]);
      binding *b = sym_kind(e->c, as[j]) == AT_VAR ? view_bound(&e->view, as[j]) : NULL;
      if (b && b->lane) {
        lv s = lb_addi(&e->b, b->base, copy_offset(e, b));
        v = lb_op(&e->b, OP_ADD, ivec(e), lb_splat(&e->b, (uint16_t)e->lanes, s), lb_iota(&e->b, ivec(e)), 0);
      } else if (!(dep_sz(e, one) & D_LANE)) {
        v = lb_splat(&e->b, (uint16_t)e->lanes, emit_size(e, one));
      } else if (sym_kind(e->c, as[j]) == AT_DATA) {
        ex d = sym_data_id(e->c, as[j]);
        v = emit_vec(e, emit_value(e, d), exn(e->m, d)->type);
        if (exn(e->m, d)->type != ET_I64) v = lb_op(&e->b, OP_CAST, ivec(e), v, 0, 0);
      } else {
        sz g[3];
        uint32_t ng = sym_args(e->c, as[j], g);
        lv y[3] = {0};
        for (uint32_t q = 0; q < ng; q++) y[q] = size_vec(e, g[q]);
        switch (sym_kind(e->c, as[j])) {
        case AT_DIV:
          v = lb_op(&e->b, OP_IDIV, ivec(e), y[0], y[1], 0);
          break;
        case AT_MIN:
          v = lb_op(&e->b, OP_MIN, ivec(e), y[0], y[1], 0);
          break;
        case AT_MAX:
          v = lb_op(&e->b, OP_MAX, ivec(e), y[0], y[1], 0);
          break;
        default:
          v = lb_op(&e->b, OP_SEL, ivec(e),
                    lb_op(&e->b, OP_GE, lt(ET_BOOL, e->lanes), y[0], lb_const(&e->b, ivec(e), (scalar){.i = 0}), 0),
                    y[1], y[2]);
        }
      }
      for (uint8_t q = 0; q < exps[j]; q++) prod = prod ? lb_op(&e->b, OP_MUL, ivec(e), prod, v, 0) : v;
    }
    if (k != 1) prod = lb_op(&e->b, OP_MUL, ivec(e), prod, lb_const(&e->b, ivec(e), (scalar){.i = k}), 0);
    sum = sum ? lb_op(&e->b, OP_ADD, ivec(e), sum, prod, 0) : prod;
  }
  lv kc = lb_const(&e->b, ivec(e), (scalar){.i = konst});
  return sum ? (konst ? lb_op(&e->b, OP_ADD, ivec(e), sum, kc, 0) : sum) : kc;
}

/* ---- values ---------------------------------------------------------------------------------- */
lv emit_vec(ectx *e, evalue x, etype t) {
  (void)t;
  return x.vec ? x.v : lb_splat(&e->b, (uint16_t)e->lanes, x.v);
}
static lv lane_mask(ectx *e) {
  if (!e->count) return 0;
  return lb_op(&e->b, OP_LT, lt(ET_BOOL, e->lanes), lb_iota(&e->b, ivec(e)),
               lb_splat(&e->b, (uint16_t)e->lanes, e->count), 0);
}
/* the address at that step of the window, if the read is certain to be inside there */
static bool window_at(ectx *e, const layout *lay, ex load, int64_t step, sz *addr) {
  const uint32_t nb = e->view.binds.n;
  sz idx[MAX_RANK];
  bool safe[MAX_RANK];
  view_bind(&e->view, (binding){.var = e->window, .subst = sym_int(e->c, step)});
  bool in = view_inside(&e->view, load, idx, safe);
  view_unbind(&e->view, nb);
  *addr = view_address(e->c, lay, idx);
  return in || EK_PLANTED("schedule-window");
}
static strided_steps steps_of(ectx *e, ex load, sz addr) {
  strided_steps s = {.addr = addr};
  const layout *lay = view_layout(&e->view, exn(e->m, load)->tensor);
  sz first, last;
  if (!e->shared || !window_at(e, lay, load, 0, &first) ||
      !window_at(e, lay, load, sym_int_or(e->c, sym_extent(e->c, e->window), 1) - 1, &last))
    return s;
  if (sym_is_int(e->c, sym_sub(e->c, addr, first), &s.by) && sym_is_int(e->c, sym_sub(e->c, last, first), &s.last))
    s.addr = first;
  else
    s.by = s.last = 0;
  return s;
}
/* The index of lanes in a table of 256 elements of type t: a u8 where bytes are permuted, else an i32. */
static lv place_in_table(ectx *e, etype t, ex byte) {
  const ltype wide = lt(ET_I32, e->lanes);
  const ex_node *n = exn(e->m, byte);
  if (et_bytes(t) == 1 && cost_table_in_bytes(e->p->t)) return emit_vec(e, emit_value(e, byte), ET_U8);
  if (n->kind != EX_OP || n->op != OP_CAST || exn(e->m, n->args[0])->type != ET_I32)
    return lb_op(&e->b, OP_CAST, wide, emit_vec(e, emit_value(e, byte), ET_U8), 0, 0);
  return lb_op(&e->b, OP_BAND, wide, emit_vec(e, emit_value(e, n->args[0]), ET_I32),
               lb_const(&e->b, wide, (scalar){.i = UINT8_MAX}), 0);
}
static evalue load_at(ectx *e, ex load, etype t, lv ptr, sz addr, lv mask, bool lanewise) {
  sz rest;
  if (!lanewise) return (evalue){lb_load(&e->b, lt(t, 1), ptr, emit_size(e, addr)), false};
  sz coef = emit_lane_coef(e, addr, &rest);
  int64_t k;
  if (coef && sym_is_int(e->c, coef, &k) && !(dep_sz(e, rest) & D_LANE) &&
      (k == 1 || (k && e->shared && k <= MAX_LANE_STEP && k >= -MAX_LANE_STEP))) {
    lv i = emit_size(e, addr), v = 0;
    uint64_t key = key_join(key_join(key_join((uint64_t)(k - 1), ptr), i), e->count), had;
    if (e->shared && !mask && map_getu(e->shared, key, &had)) return (evalue){(lv)had, true};
    if (k == 1)
      v = lb_load_ex(&e->b, lt(t, e->lanes), ptr, i, mask, mask ? 0 : e->count, 0, 0);
    else if (!mask)
      v = lanes_load_strided(e, t, ptr, steps_of(e, load, addr));
    if (e->shared && !mask && v) map_putu(e->shared, key, v);
    if (v) return (evalue){v, true};
  }
  lv near = mask ? 0 : lanes_load_strided(e, t, ptr, steps_of(e, load, addr));
  if (near) return (evalue){near, true};
  if (coef && !(dep_sz(e, rest) & D_LANE) && !(dep_sz(e, coef) & D_LANE)) {
    lv i = emit_size(e, addr), s = emit_size(e, coef);
    return (evalue){lb_load_ex(&e->b, lt(t, e->lanes), ptr, i, mask, mask ? 0 : e->count, s, 0), true};
  }
  const ex byte = mask || e->lanes == 1 ? 0 : expr_in_table(e->m, load);
  if (byte) return (evalue){lb_gather(&e->b, lt(t, e->lanes), ptr, place_in_table(e, t, byte), 0), true};
  if (!mask) mask = lane_mask(e);
  return (evalue){lb_gather(&e->b, lt(t, e->lanes), ptr, size_vec(e, addr), mask), true};
}
lv emit_source(ectx *e, tid t) {
  const local *l = view_scratch(&e->view, t);
  return l ? l->ptr : emit_buffer(e, view_layout(&e->view, t)->buffer, false);
}
lv emit_packed(ectx *e, const packed *k, sz off) { /* the lane variable counts from lane_base within the pack */
  binding *b = view_bound(&e->view, e->lane);
  return lb_addi(&e->b,
                 lb_add(&e->b, emit_size(e, off),
                        k->lane_base ? lb_sub(&e->b, b->base, emit_size(e, k->lane_base)) : lb_int(&e->b, 0)),
                 k->first + e->v * b->vec_step);
}
static uint64_t copy_key(ex x, unsigned dep, uint32_t r, uint32_t v) {
  return key_pair(x, (dep & D_ROW ? (r + 1) << 8 : 0) | (dep & D_LANE ? v + 1 : 0));
}
static lv inside(ectx *e, lv v, sz size) { /* 0 <= v < size */
  lv end = emit_size(e, size), zero = lb_int(&e->b, -EK_PLANTED("schedule-guard"));
  return lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), lb_cmp(&e->b, OP_GE, v, zero), lb_cmp(&e->b, OP_LT, v, end), 0);
}
static lv lanes_inside(ectx *e, sz idx, sz size) { /* for each lane: 0 <= idx < size */
  const ltype bt = lt(ET_BOOL, e->lanes);
  lv v = size_vec(e, idx), end = lb_splat(&e->b, (uint16_t)e->lanes, emit_size(e, size)),
     zero = lb_const(&e->b, ivec(e), (scalar){.i = 0});
  return lb_op(&e->b, OP_AND, bt, lb_op(&e->b, OP_GE, bt, v, zero, 0), lb_op(&e->b, OP_LT, bt, v, end, 0), 0);
}
/* A value in registers: of the point being computed, or the only one of a tensor, which may be read beyond its end. */
static evalue emit_held(ectx *e, ex x, const local *l) {
  const ex_node n = *exn(e->m, x);
  const tensor *t = xt(e->m, n.tensor);
  evalue v = {l->regs[l->single ? 0 : e->r * TILE_V + e->v], l->regs_vec};
  lv all = 0, cond = 0; /* of all lanes; of each */
  for (uint32_t i = 0; i < n.nargs && n.otherwise; i++) {
    const sz idx = view_resolve(&e->view, n.args[i]);
    if (view_in_range(e->c, NULL, i, idx, t->shape[i])) continue;
    const bool lanewise = (dep_sz(e, idx) & D_LANE) != 0;
    lv *to = lanewise ? &cond : &all,
       in = lanewise ? lanes_inside(e, idx, t->shape[i]) : inside(e, emit_size(e, idx), t->shape[i]);
    *to = *to ? lb_op(&e->b, OP_AND, lt(ET_BOOL, lanewise ? e->lanes : 1), *to, in, 0) : in;
  }
  if (!all && !cond) return v;
  evalue o = emit_value(e, n.otherwise);
  if (!cond && !v.vec && !o.vec) return (evalue){lb_op(&e->b, OP_SEL, lt(t->type, 1), all, v.v, o.v), false};
  if (all) all = lb_splat(&e->b, (uint16_t)e->lanes, all);
  cond = all && cond ? lb_op(&e->b, OP_AND, lt(ET_BOOL, e->lanes), all, cond, 0) : all ? all : cond;
  return (evalue){lb_op(&e->b, OP_SEL, lt(t->type, e->lanes), cond, emit_vec(e, v, t->type), emit_vec(e, o, t->type)),
                  true};
}
/* A load from memory while it is emitted. */
typedef struct tensor_load {
  ex load;             /* the load */
  ex_node n;           /* its node */
  const tensor *t;     /* the tensor */
  const layout *lay;   /* its layout */
  lv ptr;              /* pointer to it */
  sz idx[MAX_RANK];    /* the indices, resolved */
  bool safe[MAX_RANK]; /* which of them are certain to be inside */
} tensor_load;
/* A load of places that are all inside. */
static evalue load_inside(ectx *e, const tensor_load *d, bool lanewise) {
  sz addr = view_address(e->c, d->lay, d->idx);
  lv rows[TILE_V];
  if (!lanewise || !lanes_load_rows(e, d->t->type, d->ptr, addr, 0, rows))
    return load_at(e, d->load, d->t->type, d->ptr, addr, 0, lanewise);
  for (uint32_t r = 0; r < e->mr; r++)
    map_putu(e->memo->m, copy_key(d->load, D_ROW | D_LANE, r, e->v), key_pair(true, rows[r]));
  return (evalue){rows[e->r], true};
}
/* One place for all lanes, which may be outside: clamped, then selected; not read at all where the tensor may be
 * empty. */
static evalue load_guarded(ectx *e, const tensor_load *d) {
  const etype type = d->t->type;
  lv cond = 0;
  bool some = true;
  for (uint32_t i = 0; i < d->n.nargs; i++) {
    if (d->safe[i]) continue;
    some &= sym_ge0(e->c, sym_addi(e->c, d->t->shape[i], -1));
    lv in = inside(e, emit_size(e, d->idx[i]), d->t->shape[i]);
    cond = cond ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), cond, in, 0) : in;
  }
  lv at = emit_size(e, view_address(e->c, d->lay, d->idx));
  if (some) at = lb_op(&e->b, OP_SEL, lt(ET_I64, 1), cond, at, emit_size(e, d->lay->base));
  lv v = some ? lb_load(&e->b, lt(type, 1), d->ptr, at) : lb_load_ex(&e->b, lt(type, 1), d->ptr, at, cond, 0, 0, 0);
  if (!d->n.otherwise) return (evalue){v, false};
  evalue o = emit_value(e, d->n.otherwise);
  if (!o.vec) return (evalue){lb_op(&e->b, OP_SEL, lt(type, 1), cond, v, o.v), false};
  return (evalue){lb_op(&e->b, OP_SEL, lt(type, e->lanes), lb_splat(&e->b, (uint16_t)e->lanes, cond),
                        lb_splat(&e->b, (uint16_t)e->lanes, v), o.v),
                  true};
}
/* A vector of places of which some lanes may be outside: these are masked. An index that is one for all lanes goes to 0
 * where it is outside: a vector of which no lane counts may lie where there is no memory, and takes long even so. */
static evalue load_masked(ectx *e, tensor_load *d) {
  const sz *shape = d->t->shape;
  lv all = 0, cond = 0; /* of all lanes; of each */
  ltype bt = lt(ET_BOOL, e->lanes);
  uint32_t nb = e->view.binds.n;
  for (uint32_t i = 0; i < d->n.nargs; i++) {
    if (d->safe[i] || (dep_sz(e, d->idx[i]) & D_LANE)) continue;
    lv v = emit_size(e, d->idx[i]), in = inside(e, v, shape[i]);
    all = all ? lb_op(&e->b, OP_AND, lt(ET_BOOL, 1), all, in, 0) : in;
    atom at;
    sz there = sym_var(e->c, "inside", shape[i]);
    if (!sym_ge0(e->c, sym_addi(e->c, shape[i], -1))) { /* the axis may be empty */
      cond = lb_splat(&e->b, (uint16_t)e->lanes, all);
      continue;
    }
    if (sym_is_atom(e->c, there, &at))
      emit_bind(e, at,
                EK_PLANTED("schedule-guard-lanes") ? lb_int(&e->b, 0)
                                                   : lb_op(&e->b, OP_SEL, lt(ET_I64, 1), in, v, lb_int(&e->b, 0)));
    d->idx[i] = there;
  }
  for (uint32_t i = 0; i < d->n.nargs; i++) {
    if (d->safe[i] || !(dep_sz(e, d->idx[i]) & D_LANE)) continue;
    lv in = lanes_inside(e, d->idx[i], shape[i]);
    cond = cond ? lb_op(&e->b, OP_AND, bt, cond, in, 0) : in;
  }
  lv mask = cond;
  if (mask && e->count)
    mask = EK_PLANTED("schedule-mask") ? lane_mask(e) : lb_op(&e->b, OP_AND, bt, mask, lane_mask(e), 0);
  evalue v = load_at(e, d->load, d->t->type, d->ptr, view_address(e->c, d->lay, d->idx), mask, true);
  view_unbind(&e->view, nb);
  if (!d->n.otherwise) return v;
  if (all) all = lb_splat(&e->b, (uint16_t)e->lanes, all), cond = cond ? lb_op(&e->b, OP_AND, bt, cond, all, 0) : all;
  evalue o = emit_value(e, d->n.otherwise);
  const etype type = d->t->type;
  return (evalue){lb_op(&e->b, OP_SEL, lt(type, e->lanes), cond, v.v, emit_vec(e, o, type)), true};
}
/* The pack that holds the value of an operand; NULL: none. */
static const packed *packed_of(const ectx *e, ex x) {
  for (uint32_t i = 0; i < e->packs.n; i++)
    if (e->packs.v[i].load == x) return &e->packs.v[i];
  return NULL;
}
static evalue load_packed(ectx *e, const packed *k, etype t) {
  if (k->fixed_point) return (evalue){fixed_point_load(e, k), true};
  if (k->few.bits) return (evalue){bit_pack_load(e, k, t), true};
  return (evalue){lb_load_ex(&e->b, lt(t, e->lanes), k->ptr, emit_packed(e, k, k->off), 0, 0, 0, 0), true};
}
static evalue emit_load(ectx *e, ex x) {
  tensor_load d = {.load = x, .n = *exn(e->m, x)};
  const local *l = view_local(&e->view, d.n.tensor);
  if (l && l->regs) return emit_held(e, x, l);
  const packed *k = packed_of(e, x);
  if (k) return load_packed(e, k, (etype)d.n.type);
  d.lay = view_layout(&e->view, d.n.tensor), d.t = xt(e->m, d.n.tensor), d.ptr = emit_source(e, d.n.tensor);
  bool ok = view_inside(&e->view, x, d.idx, d.safe), lanewise = false;
  for (uint32_t i = 0; i < d.n.nargs; i++) lanewise |= (dep_sz(e, d.idx[i]) & D_LANE) != 0;
  return ok ? load_inside(e, &d, lanewise) : lanewise ? load_masked(e, &d) : load_guarded(e, &d);
}

static scalar red_identity(rop op, etype t) {
  bool fl = et_kind(t) == K_FLOAT;
  switch (op) {
  case RED_PROD:
    return fl ? (scalar){.f = 1} : (scalar){.i = 1};
  case RED_MAX:
  case RED_MIN:
    return et_bound(t, op == RED_MIN);
  case RED_ALL:
    return (scalar){.i = 1};
  default:
    return fl ? (scalar){.f = 0} : (scalar){.i = 0};
  }
}
scalar schedule_identity(rop op, etype t) { return red_identity(op, t); }
static sop red_op(rop op) {
  switch (op) {
  case RED_SUM:
    return OP_ADD;
  case RED_PROD:
    return OP_MUL;
  case RED_MAX:
    return OP_MAX;
  case RED_MIN:
    return OP_MIN;
  case RED_ANY:
    return OP_OR;
  default:
    return OP_AND;
  }
}
sop schedule_combine(rop op) { return EK_PLANTED("schedule-combine") && op == RED_PROD ? OP_ADD : red_op(op); }

static bool sums_products(ectx *e, const ex_node *n) {
  const ex_node *b = exn(e->m, n->body);
  return n->op == RED_SUM && b->kind == EX_OP && b->op == OP_MUL && b->type == n->acc &&
         et_kind((etype)n->acc) == K_FLOAT && !n->where && !(e->count && e->lane_reduced);
}
bool schedule_adds_loads(const emodule *m, const ex_node *n) {
  const ex_node *b = exn(m, n->body);
  return n->op == RED_SUM && et_kind((etype)n->acc) == K_FLOAT && !n->where && b->kind == EX_LOAD && !b->otherwise;
}
/* acc = combine(acc, body) where `where`; body of a sum of products becomes an fma. Without acc: the body alone */
lv schedule_step(ectx *e, const ex_node *n, lv acc, bool vec, uint32_t lanes) {
  etype at = (etype)n->acc;
  ltype T = lt(at, vec ? lanes : 1);
  const ex_node *bn = exn(e->m, n->body);
  if (acc && sums_products(e, n)) {
    evalue x = emit_value(e, bn->args[0]), y = emit_value(e, exn(e->m, n->body)->args[1]);
    if (vec) return lb_op(&e->b, OP_FMA, T, emit_vec(e, x, at), emit_vec(e, y, at), acc);
    if (!x.vec && !y.vec) return lb_op(&e->b, OP_FMA, T, x.v, y.v, acc);
  }
  evalue x = emit_value(e, n->body);
  lv v = vec ? emit_vec(e, x, at) : x.v;
  if (bn->type != at) v = lb_op(&e->b, OP_CAST, T, v, 0, 0);
  if (n->where) {
    evalue w = emit_value(e, n->where);
    lv wm = vec ? emit_vec(e, w, ET_BOOL) : w.v;
    v = lb_op(&e->b, OP_SEL, T, wm, v, lb_const(&e->b, T, red_identity((rop)n->op, at)));
  }
  if (e->count && e->lane_reduced && !EK_PLANTED("schedule-reduce-mask"))
    v = lb_op(&e->b, OP_SEL, T, lane_mask(e), v, lb_const(&e->b, T, red_identity((rop)n->op, at)));
  return acc ? lb_op(&e->b, red_op((rop)n->op), T, acc, v, 0) : v;
}
/* argmax and kin: best value and its payload; found: whether there was any yet, or 0 */
void schedule_arg_step(ectx *e, const ex_node *n, lv best, lv pay, lv found, bool vec, uint32_t lanes) {
  etype bt = exn(e->m, n->body)->type;
  uint32_t ln = vec ? lanes : 1;
  ltype T = lt(bt, ln), I = lt(ET_I64, ln), B = lt(ET_BOOL, ln);
  evalue x = emit_value(e, n->body);
  lv v = vec ? emit_vec(e, x, bt) : x.v;
  lv p;
  if (n->payload) {
    evalue q = emit_value(e, n->payload);
    p = vec ? emit_vec(e, q, ET_I64) : q.v;
  } else if (n->nargs) {
    sz first = sym_of_atom(e->c, n->args[0]);
    p = !vec              ? emit_size(e, first)
        : e->lane_reduced ? size_vec(e, first)
                          : lb_splat(&e->b, (uint16_t)ln, emit_size(e, first));
  } else
    p = lb_const(&e->b, I, (scalar){.i = 0});
  lv old = lb_get(&e->b, best);
  bool last = (n->op == RED_ARGMAX_LAST || n->op == RED_ARGMIN_LAST) != EK_PLANTED("schedule-arg"),
       mx = n->op == RED_ARGMAX || n->op == RED_ARGMAX_LAST;
  lv stays = lb_op(&e->b, mx ? (last ? OP_LT : OP_LE) : (last ? OP_GT : OP_GE), B, v, old, 0);
  if (et_kind(bt) == K_FLOAT) { /* NaN wins, the first one (the last one for _last) */
    lv nan = lb_op(&e->b, OP_ISNAN, B, old, 0, 0);
    if (last) nan = lb_op(&e->b, OP_AND, B, nan, lb_op(&e->b, OP_NOT, B, lb_op(&e->b, OP_ISNAN, B, v, 0, 0), 0, 0), 0);
    stays = lb_op(&e->b, OP_OR, B, stays, nan, 0);
  }
  if (found) stays = lb_op(&e->b, OP_AND, B, stays, lb_get(&e->b, found), 0);
  if (n->where) {
    evalue w = emit_value(e, n->where);
    stays = lb_op(&e->b, OP_OR, B, stays, lb_op(&e->b, OP_NOT, B, vec ? emit_vec(e, w, ET_BOOL) : w.v, 0, 0), 0);
  }
  if (e->count && e->lane_reduced)
    stays = lb_op(&e->b, OP_OR, B, stays, lb_op(&e->b, OP_NOT, B, lane_mask(e), 0, 0), 0);
  lb_set(&e->b, best, lb_op(&e->b, OP_SEL, T, stays, old, v));
  lb_set(&e->b, pay, lb_op(&e->b, OP_SEL, I, stays, lb_get(&e->b, pay), p));
  if (found)
    lb_set(&e->b, found, lb_op(&e->b, OP_OR, B, lb_get(&e->b, found), lb_op(&e->b, OP_NOT, B, stays, 0, 0), 0));
}
/* The payload of the first place, if all places count and it is known. */
static bool first_place(ectx *e, const ex_node *n, int64_t *payload) {
  sz at = n->nargs ? sym_of_atom(e->c, n->args[0]) : sym_int(e->c, 0);
  if (n->payload) at = exn(e->m, n->payload)->kind == EX_INDEX ? exn(e->m, n->payload)->index : 0;
  for (uint32_t i = 0; i < n->nargs && at; i++) at = sym_replace(e->c, at, n->args[i], sym_int(e->c, 0));
  return at && !n->where && sym_is_int(e->c, at, payload);
}
/* The value, its payload, and a register that notes whether there was any place; none (0) where the worst value can
 * stand for the first place, until something is better. */
void schedule_arg_start(ectx *e, const ex_node *n, bool lane_reduced, uint32_t lanes, lv *best, lv *pay, lv *found) {
  int64_t first = 0;
  bool all = !lane_reduced && first_place(e, n, &first);
  etype t = exn(e->m, n->body)->type;
  rop most = n->op == RED_ARGMAX || n->op == RED_ARGMAX_LAST ? RED_MAX : RED_MIN;
  *best = lb_reg(&e->b, lb_const(&e->b, lt(t, lanes), all ? red_identity(most, t) : (scalar){.i = 0}));
  *pay = lb_reg(&e->b, lb_const(&e->b, lt(ET_I64, lanes), (scalar){.i = all ? first : 0}));
  *found = all ? 0 : lb_reg(&e->b, lb_const(&e->b, lt(ET_BOOL, lanes), (scalar){.i = 0}));
}

/* A reduction inside a value: loops around registers, the whole of it for this copy. */
static evalue emit_reduce(ectx *e, ex x) {
  ex_node n = *exn(e->m, x);
  bool vec = (dep_ex(e, x) & D_LANE) != 0;
  uint32_t ln = vec ? e->lanes : 1;
  etype at = red_is_arg((rop)n.op) ? exn(e->m, n.body)->type : (etype)n.acc;
  lv acc, pay = 0, found = 0;
  if (red_is_arg((rop)n.op))
    schedule_arg_start(e, &n, false, ln, &acc, &pay, &found);
  else
    acc = lb_reg(&e->b, lb_const(&e->b, lt(at, ln), red_identity((rop)n.op, at)));
  uint32_t nb = e->view.binds.n;
  u32vec vars = {0};
  long_sum blocks = {0};
  for (uint32_t i = 0; i < n.nargs; i++) vec_push(e->a, vars, n.args[i]);
  lv *first = NEWN(e->a, lv, n.nargs + 1u), *last = NEWN(e->a, lv, n.nargs + 1u);
  if (!red_is_arg((rop)n.op)) long_sum_begin(e, &blocks, &n, &vars, 1, &acc, 1);
  for (uint32_t i = 0; i < n.nargs; i++) {
    lv idx, lo = lb_int(&e->b, 0), hi = 0;
    if (long_sum_block(e, n.args[i], &first[i], &last[i])) lo = first[i], hi = last[i];
    if (!hi) hi = emit_size(e, sym_extent(e->c, n.args[i]));
    lb_for(&e->b, sym_name(e->c, n.args[i]), lo, hi, lb_int(&e->b, 1), 0, &idx);
    emit_bind(e, n.args[i], idx);
    emit_scope(e);
  }
  if (red_is_arg((rop)n.op))
    schedule_arg_step(e, &n, acc, pay, found, vec, ln);
  else
    lb_set(&e->b, acc, schedule_step(e, &n, lb_get(&e->b, acc), vec, ln));
  for (uint32_t i = n.nargs; i-- > 0;) {
    emit_unscope(e);
    lb_end(&e->b);
    if (first[i]) long_sum_close(e, first[i], last[i]);
  }
  long_sum_end(e, &blocks);
  view_unbind(&e->view, nb);
  if (red_is_arg((rop)n.op)) return (evalue){lb_get(&e->b, pay), vec};
  lv r = lb_get(&e->b, acc);
  if ((etype)n.type != at) r = lb_op(&e->b, OP_CAST, lt((etype)n.type, ln), r, 0, 0);
  return (evalue){r, vec};
}

evalue emit_value(ectx *e, ex x) {
  unsigned d = dep_ex(e, x);
  uint64_t key = copy_key(x, d, e->r, e->v), got;
  if (recall(e, key, &got)) return (evalue){key_low(got), key_high(got) != 0};
  ex_node n = *exn(e->m, x);
  evalue r = {0, false};
  if (e->rows && x == e->rows->value)
    r.v = lb_load(&e->b, lt((etype)n.type, 1), e->rows->ptr,
                  lb_addi(&e->b, emit_size(e, e->rows->at), (int64_t)e->r * e->rows->depth));
  else
    switch (n.kind) {
    case EX_CONST:
      r.v = lb_const(&e->b, lt((etype)n.type, 1), n.k);
      break;
    case EX_INDEX: {
      sz i = view_resolve(&e->view, n.index);
      if (d & D_LANE)
        r = (evalue){size_vec(e, i), true};
      else
        r.v = emit_size(e, i);
      break;
    }
    case EX_LOAD:
      r = emit_load(e, x);
      break;
    case EX_REDUCE:
      r = emit_reduce(e, x);
      break;
    case EX_OP: {
      const packed *k = packed_of(e, x);
      if (k) {
        r = load_packed(e, k, (etype)n.type);
        break;
      }
      evalue q[3];
      bool vec = false;
      scalar is;
      if (n.op == OP_SEL && loop_const(e->b.f, emit_value(e, n.args[0]).v, &is)) {
        r = emit_value(e, n.args[is.i && !EK_PLANTED("schedule-arm") ? 1 : 2]); /* the other arm is not computed */
        break;
      }
      for (uint32_t i = 0; i < n.nargs; i++) {
        q[i] = emit_value(e, n.args[i]);
        vec |= q[i].vec;
      }
      lv y[3] = {0};
      for (uint32_t i = 0; i < n.nargs; i++) y[i] = vec ? emit_vec(e, q[i], exn(e->m, n.args[i])->type) : q[i].v;
      r = (evalue){lb_op(&e->b, (sop)n.op, lt((etype)n.type, vec ? e->lanes : 1), y[0], y[1], y[2]), vec};
      break;
    }
    }
  map_putu(e->memo->m, key, key_pair(r.vec, r.v));
  return r;
}

lv emit_target(ectx *e, tid t) {
  const local *l = view_scratch(&e->view, t);
  return l ? l->ptr : emit_buffer(e, view_layout(&e->view, t)->buffer, true);
}
void emit_store(ectx *e, tid t, const sz *index, evalue v, sop op) {
  const layout *lay = view_layout(&e->view, t);
  tensor *tt = xt(e->m, t);
  lv ptr = emit_target(e, t);
  sz idx[MAX_RANK] = {0};
  bool lanewise = false;
  for (uint32_t i = 0; i < lay->rank; i++) {
    if (sym_int_or(e->c, tt->shape[i], 1) == 0) return; /* the tensor has no elements */
    idx[i] = view_resolve(&e->view, index[i]);
    lanewise |= (dep_sz(e, idx[i]) & D_LANE) != 0;
  }
  sz addr = view_address(e->c, lay, idx), rest;
  if (!lanewise) {
    if (v.vec && e->lanes > 1)
      ctx_bug(e->c, "schedule: a vector stored to one place of %s in %s", tt->name, e->f->name);
    lv i = emit_size(e, addr), x = v.v;
    if (op) x = lb_op(&e->b, op, lt(tt->type, 1), lb_load(&e->b, lt(tt->type, 1), ptr, i), x, 0);
    lb_store(&e->b, ptr, i, x);
    return;
  }
  lv x = emit_vec(e, v, tt->type);
  sz coef = emit_lane_coef(e, addr, &rest);
  int64_t k;
  bool side = coef && sym_is_int(e->c, coef, &k) && k == 1 && !(dep_sz(e, rest) & D_LANE);
  if (op && !side) ctx_bug(e->c, "schedule: vector update of %s", tt->name);
  if (op)
    x = lb_op(&e->b, op, lt(tt->type, e->lanes),
              lb_load_ex(&e->b, lt(tt->type, e->lanes), ptr, emit_size(e, addr), 0, e->count, 0, 0), x, 0);
  if (side)
    lb_store_ex(&e->b, ptr, emit_size(e, addr), x, 0, e->count, 0, 0);
  else if (coef && !(dep_sz(e, rest) & D_LANE))
    lb_store_ex(&e->b, ptr, emit_size(e, addr), x, 0, e->count, emit_size(e, coef), 0);
  else
    lb_scatter(&e->b, ptr, size_vec(e, addr), x, lane_mask(e));
}
