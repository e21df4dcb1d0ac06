/* What do all passes share?
 *
 * The index of readers and accesses, kept current while stages change; fuel; remarks; new stages put in front of old
 * ones. The index makes every pass a worklist over stages and their readers instead of a search over the module.
 */
#include "rewrite/rewrite.h"
#include <string.h>

struct expr_notes {
  uint32_t n;           /* number of remarks */
  const expr_remark *v; /* the remarks */
};
void pass_keep_remarks(pw *p) {
  struct expr_notes *k = NEW(p->m->a, struct expr_notes);
  k->n = p->remarks.n;
  k->v = k->n ? arena_dup(p->m->a, p->remarks.v, k->n * sizeof *p->remarks.v) : NULL;
  p->m->notes = k;
}
uint32_t expr_remarks(const emodule *m, const expr_remark **out) {
  *out = m->notes ? m->notes->v : NULL;
  return m->notes ? m->notes->n : 0;
}

bool pass_spend(pw *p) {
  if (p->fuel && p->spent >= p->fuel) return false;
  p->spent++;
  return true;
}
void pass_remark(pw *p, const char *pass, uint32_t stage, uint32_t with, const char *why) {
  for (uint32_t i = p->remarks.n; i-- > 0 && i + 8 > p->remarks.n;) {
    const expr_remark *r = &p->remarks.v[i];
    if (r->stage == stage && r->with == with && !strcmp(r->why, why)) return;
  }
  vec_push(p->keep, p->remarks, ((expr_remark){pass, stage, with, why}));
}

/* ---- flags and loads of values --------------------------------------------------------------- */
static uint32_t size_flags(pw *p, sz s) {
  if (!sym_uses_kind(p->c, s, AT_DATA)) return 0;
  u32vec d = {0};
  uint32_t f = EXF_DATA;
  sym_atoms(p->c, s, AT_DATA, p->a, &d);
  for (uint32_t i = 0; i < d.n; i++) f |= ex_flags(p, sym_data_id(p->c, d.v[i]));
  return f;
}
bool ex_rounds(const ex_node *n) {
  return n->op == OP_FLOOR || n->op == OP_CEIL || n->op == OP_TRUNC || n->op == OP_ROUND_EVEN || n->op == OP_MOD ||
         (n->op == OP_CAST && et_kind((etype)n->type) != K_FLOAT);
}
uint32_t ex_flags(pw *p, ex e) {
  if (!e) return 0;
  if (e >= p->flags.n) {
    vec_reserve(p->keep, p->flags, p->m->nodes.n);
    memset(p->flags.v + p->flags.n, 0, p->m->nodes.n - p->flags.n);
    p->flags.n = p->m->nodes.n;
  }
  if (p->flags.v[e]) return p->flags.v[e];
  ex_node n = *exn(p->m, e);
  uint32_t f = EXF_KNOWN;
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    break;
  case EX_INDEX:
    f |= EXF_INDEX | size_flags(p, n.index);
    break;
  case EX_LOAD:
    f |= EXF_LOAD | ex_flags(p, n.otherwise);
    for (uint32_t i = 0; i < n.nargs; i++) f |= size_flags(p, n.args[i]);
    break;
  case EX_OP:
    if (n.op == OP_SEL || n.op == OP_AND || n.op == OP_OR) f |= EXF_LAZY;
    if (n.op == OP_DIV || ex_rounds(&n)) f |= EXF_QUOTIENT;
    for (uint32_t i = 0; i < n.nargs; i++) f |= ex_flags(p, n.args[i]);
    break;
  case EX_REDUCE:
    if (n.where) f |= EXF_LAZY;
    f |= EXF_REDUCE | ex_flags(p, n.where) | ex_flags(p, n.body) | ex_flags(p, n.payload);
    break;
  }
  p->flags.v[e] = (uint8_t)f;
  return f;
}

static void collect_value(pw *p, ex e, u32vec *out);
static void collect_size(pw *p, sz s, u32vec *out) {
  if (!s || !sym_uses_kind(p->c, s, AT_DATA)) return;
  u32vec d = {0};
  sym_atoms(p->c, s, AT_DATA, p->a, &d);
  for (uint32_t i = 0; i < d.n; i++) collect_value(p, sym_data_id(p->c, d.v[i]), out);
}
static void fit_memo(pw *p, ex e) {
  if (e < p->memo.n) return;
  uint32_t n = p->m->nodes.n;
  vec_reserve(p->keep, p->memo, n);
  vec_reserve(p->keep, p->memo_epoch, n);
  memset(p->memo_epoch.v + p->memo_epoch.n, 0, (n - p->memo_epoch.n) * sizeof *p->memo_epoch.v);
  p->memo.n = p->memo_epoch.n = n;
}
static void collect_value(pw *p, ex e, u32vec *out) {
  if (!e) return;
  uint32_t f = ex_flags(p, e);
  if (!(f & EXF_LOAD)) return;
  fit_memo(p, e);
  if (p->memo_epoch.v[e] == p->epoch) return;
  p->memo_epoch.v[e] = p->epoch;
  ex_node n = *exn(p->m, e);
  switch ((ex_kind)n.kind) {
  case EX_CONST:
    return;
  case EX_INDEX:
    collect_size(p, n.index, out);
    return;
  case EX_LOAD:
    for (uint32_t i = 0; i < n.nargs; i++) collect_size(p, n.args[i], out);
    collect_value(p, n.otherwise, out);
    vec_push(p->keep, *out, e);
    return;
  case EX_OP:
    for (uint32_t i = 0; i < n.nargs; i++) collect_value(p, n.args[i], out);
    return;
  case EX_REDUCE:
    collect_value(p, n.where, out), collect_value(p, n.body, out), collect_value(p, n.payload, out);
    return;
  }
}
static void collect_stage(pw *p, uint32_t s, u32vec *out) {
  const stage *x = xs(p->m, s);
  uint32_t outer = p->epoch;
  p->epoch = ++p->epochs;
  collect_value(p, x->value, out);
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    collect_value(p, u->value, out), collect_value(p, u->cond, out);
    for (uint32_t k = 0; k < u->nidx; k++) collect_size(p, u->idx[k], out);
  }
  p->epoch = outer;
}

/* ---- readers --------------------------------------------------------------------------------- */
static void fit_tables(pw *p) {
  uint32_t nt = p->m->tensors.n, ns = p->m->stages.n;
  if (p->readers.n < nt) {
    vec_reserve(p->keep, p->readers, nt);
    vec_reserve(p->keep, p->pinned, nt);
    vec_reserve(p->keep, p->consts, nt);
    memset(p->readers.v + p->readers.n, 0, (nt - p->readers.n) * sizeof *p->readers.v);
    memset(p->pinned.v + p->pinned.n, 0, nt - p->pinned.n);
    memset(p->consts.v + p->consts.n, 0, (nt - p->consts.n) * sizeof *p->consts.v);
    p->readers.n = p->pinned.n = p->consts.n = nt;
  }
  if (p->loads.n < ns) {
    vec_reserve(p->keep, p->loads, ns);
    vec_reserve(p->keep, p->placed, ns);
    memset(p->loads.v + p->loads.n, 0, (ns - p->loads.n) * sizeof *p->loads.v);
    memset(p->placed.v + p->placed.n, 0, ns - p->placed.n);
    p->loads.n = p->placed.n = ns;
  }
}
static void drop_reader(u32vec *r, uint32_t s) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->v[i] == s) {
      memmove(r->v + i, r->v + i + 1, (r->n - i - 1) * sizeof *r->v);
      r->n--;
      return;
    }
}
static void forget(pw *p, uint32_t s) {
  u32vec *l = &p->loads.v[s];
  for (uint32_t i = 0; i < l->n; i++) drop_reader(&p->readers.v[exn(p->m, l->v[i])->tensor], s);
  l->n = 0;
}
void pass_changed(pw *p, uint32_t s) {
  fit_tables(p);
  forget(p, s);
  p->placed.v[s] = 0;
  if (xs(p->m, s)->dead) return;
  u32vec l = p->loads.v[s];
  collect_stage(p, s, &l);
  p->loads.v[s] = l;
  for (uint32_t i = 0; i < l.n; i++) {
    u32vec *r = &p->readers.v[exn(p->m, l.v[i])->tensor];
    if (!r->n || r->v[r->n - 1] != s) {
      bool have = false;
      for (uint32_t k = 0; k < r->n && !have; k++) have = r->v[k] == s;
      if (!have) vec_push(p->keep, *r, s);
    }
  }
}
void pass_set(pw *p, uint32_t s, ex v) {
  xs(p->m, s)->value = v;
  pass_changed(p, s);
}
void pass_kill(pw *p, uint32_t s) {
  forget(p, s);
  xs(p->m, s)->dead = true;
}
static void pin(pw *p, tid t) {
  if (t) p->pinned.v[t] = 1;
}
static void index_block(pw *p, uint32_t b) {
  emodule *m = p->m;
  for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind == IT_STAGE) {
      if (!xs(m, it.index)->dead) {
        pass_changed(p, it.index);
        if (xt(m, xs(m, it.index)->tensor)->output) pin(p, xs(m, it.index)->tensor);
      }
    } else if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      pin(p, x->cond);
      for (uint32_t k = 0; k < x->n; k++) pin(p, x->then_vals[k]), pin(p, x->else_vals[k]);
      index_block(p, x->then_block), index_block(p, x->else_block);
    } else {
      const xloop *x = &m->loops.v[it.index];
      pin(p, x->trip_tensor), pin(p, x->cond0), pin(p, x->cond);
      for (uint32_t k = 0; k < x->ncarried; k++) pin(p, x->init[k]), pin(p, x->next[k]);
      for (uint32_t k = 0; k < x->ncollected; k++) pin(p, x->slice[k]);
      index_block(p, x->body);
    }
  }
}
void pass_index(pw *p) {
  emodule *m = p->m;
  fit_tables(p);
  for (uint32_t i = 0; i < p->readers.n; i++) p->readers.v[i].n = 0, p->pinned.v[i] = 0;
  for (uint32_t i = 0; i < p->loads.n; i++) p->loads.v[i].n = 0;
  for (uint32_t i = 0; i < m->outputs.n; i++) pin(p, m->outputs.v[i].t);
  for (uint32_t i = 0; i < m->lates.n; i++) {
    pin(p, m->lates.v[i].tensor);
    map_putu(p->lates, m->lates.v[i].symbol, m->lates.v[i].tensor);
  }
  for (uint32_t i = 0; i < m->checks.n; i++) pin(p, m->checks.v[i].at), pin(p, m->checks.v[i].value);
  index_block(p, 0);
}

/* ---- stages coming and going ----------------------------------------------------------------- */
uint32_t pass_stage(pw *p, uint32_t before, const digit *d, uint32_t n, ex value, const char *hint) {
  emodule *m = p->m;
  sz shape[MAX_RANK];
  axis *ax = NEWN(p->a, axis, n + 1);
  uint32_t blk = xs(m, before)->block, rank = n <= MAX_RANK ? n : MAX_RANK, at = 0;
  for (uint32_t i = 0; i < rank; i++) { /* more digits than axes: the first axis takes the surplus */
    uint32_t take = i ? 1 : n - rank + 1;
    digit *dd = arena_dup(m->a, d + at, take * sizeof *d);
    ax[i] = (axis){take, dd};
    shape[i] = d[at].extent;
    for (uint32_t k = 1; k < take; k++) shape[i] = sym_mul(p->c, shape[i], d[at + k].extent);
    at += take;
  }
  const tensor *bt = xt(m, xs(m, before)->tensor);
  tid t = expr_tensor(m, TK_STAGE, (etype)exn(m, value)->type, shape, rank, hint, bt->origin);
  uint32_t s = expr_stage(m, blk, t, ax, rank, value);
  xs(m, s)->region = xs(m, before)->region;
  m->blocks.v[blk].items.n--; /* appended by expr_stage; it stands in front of `before` instead */
  vec_push(p->keep, p->pend, ((pending){before, s}));
  pass_changed(p, s);
  return s;
}
bool pass_reads_recurrence(pw *p, ex e, uint32_t recurrence) {
  u32vec l = {0};
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; recurrence && i < l.n; i++) {
    const uint32_t q = producer_of(p->m, exn(p->m, l.v[i])->tensor);
    if (q && xs(p->m, q - 1)->recurrence == recurrence) return true;
  }
  return false;
}
uint32_t pass_stage_over(pw *p, uint32_t before, const atom *vars, uint32_t n, ex value, const char *hint, ex *load) {
  emodule *m = p->m;
  const uint32_t own = xs(m, before)->recurrence, of = pass_reads_recurrence(p, value, own) ? own : 0;
  const atom step = of ? m->recurrences.v[of].var : 0;
  digit *d = NEWN(p->a, digit, n + 1);
  sz *by = NEWN(p->a, sz, n + 1);
  for (uint32_t j = 0; j < n; j++) {
    d[j].extent = sym_extent(p->c, vars[j]);
    by[j] = vars[j] == step ? sym_of_atom(p->c, step) : sym_var(p->c, sym_name(p->c, vars[j]), d[j].extent);
    sym_is_atom(p->c, by[j], &d[j].var);
  }
  const uint32_t s = pass_stage(p, before, d, n, expr_subst_vars(m, value, vars, by, n), hint);
  xs(m, s)->recurrence = of;
  /* digits beyond the supported rank share an axis: the read index must follow the axes */
  const stage *x = xs(m, s);
  sz *idx = NEWN(p->a, sz, x->naxes + 1);
  for (uint32_t i = 0, k = 0; i < x->naxes; i++) {
    idx[i] = sym_int(p->c, 0);
    for (uint32_t e = 0; e < x->axes[i].n; e++, k++)
      idx[i] = sym_add(p->c, sym_mul(p->c, idx[i], x->axes[i].d[e].extent), sym_of_atom(p->c, vars[k]));
  }
  *load = expr_load(m, x->tensor, idx, x->naxes, 0);
  return s;
}
ex pass_stage_own(pw *p, uint32_t s, ex value, const char *hint) {
  u32vec vars = {0};
  ex load;
  stage_vars(p->m, s, p->a, &vars);
  pass_stage_over(p, s, vars.v, vars.n, expr_fresh(p->m, value), hint, &load);
  return load;
}
static void put_item(pw *p, const map *first, const uint32_t *next, block *b, item it) {
  if (it.kind == IT_STAGE) {
    uint64_t k;
    if (map_getu(first, it.index, &k))
      for (uint32_t j = (uint32_t)k; j != UINT32_MAX; j = next[j])
        put_item(p, first, next, b, (item){IT_STAGE, p->pend.v[j].stage});
    if (xs(p->m, it.index)->dead) return;
  }
  vec_push(p->m->a, b->items, it);
}
void pass_flush(pw *p) {
  emodule *m = p->m;
  map *first = map_new(p->a);
  uint32_t *next = NEWN(p->a, uint32_t, p->pend.n + 1);
  for (uint32_t i = p->pend.n; i-- > 0;) { /* each stage's list is in the order of creation */
    uint64_t k;
    next[i] = map_getu(first, p->pend.v[i].before, &k) ? (uint32_t)k : UINT32_MAX;
    map_putu(first, p->pend.v[i].before, i);
  }
  for (uint32_t b = 0; b < m->blocks.n; b++) {
    block old = m->blocks.v[b], *nb = &m->blocks.v[b];
    memset(&nb->items, 0, sizeof nb->items);
    vec_reserve(m->a, nb->items, old.items.n);
    for (uint32_t i = 0; i < old.items.n; i++) put_item(p, first, next, nb, old.items.v[i]);
  }
  p->pend.n = 0;
}
static void order_block(pw *p, uint32_t b, u32vec *out) {
  emodule *m = p->m;
  for (uint32_t i = 0; i < m->blocks.v[b].items.n; i++) {
    item it = m->blocks.v[b].items.v[i];
    if (it.kind == IT_STAGE) {
      if (!xs(m, it.index)->dead) vec_push(p->a, *out, it.index);
    } else if (it.kind == IT_IF)
      order_block(p, m->ifs.v[it.index].then_block, out), order_block(p, m->ifs.v[it.index].else_block, out);
    else
      order_block(p, m->loops.v[it.index].body, out);
  }
}
void pass_order(pw *p, u32vec *out) { order_block(p, 0, out); }
void pass_enter(pw *p, uint32_t block) {
  if (block == p->block) return;
  if (p->block) sym_pop(p->c, p->outside);
  p->block = block;
  p->outside = expr_enter(p->m, block);
  p->facts = sym_mark(p->c) > p->outside;
}

/* ---- questions about stages ------------------------------------------------------------------ */
bool stage_is_reduce(pw *p, uint32_t s) {
  const stage *x = xs(p->m, s);
  return x->value && !x->updates.n && exn(p->m, x->value)->kind == EX_REDUCE;
}
bool stage_plain(pw *p, uint32_t s) {
  const stage *x = xs(p->m, s);
  return x->value && !x->updates.n && !(ex_flags(p, x->value) & EXF_REDUCE);
}
ex stage_at_load(pw *p, const ex_node *load, ex e) {
  const ex_node n = *load; /* nodes move when new ones are made */
  const uint32_t s = producer_of(p->m, n.tensor) - 1, nd = expr_ndigits(xs(p->m, s));
  digit *d = NEWN(p->a, digit, nd + 1);
  sz *by = NEWN(p->a, sz, nd + 1);
  atom *vars = NEWN(p->a, atom, nd + 1);
  if (!expr_comps(p->m, s, n.args, by, NULL, NULL)) return 0;
  expr_digits(xs(p->m, s), d);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  return expr_subst_vars(p->m, e, vars, by, nd);
}
void stage_vars(const emodule *m, uint32_t s, arena *a, u32vec *out) {
  const stage *x = xs(m, s);
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t k = 0; k < x->axes[i].n; k++) vec_push(a, *out, x->axes[i].d[k].var);
}
bool stage_has_var(const emodule *m, uint32_t s, atom v) {
  const stage *x = xs(m, s);
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t k = 0; k < x->axes[i].n; k++)
      if (x->axes[i].d[k].var == v) return true;
  return false;
}
sz stage_points(emodule *m, uint32_t s) {
  const stage *x = xs(m, s);
  sz n = sym_int(m->c, 1);
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t k = 0; k < x->axes[i].n; k++) n = sym_mul(m->c, n, x->axes[i].d[k].extent);
  return n;
}
int64_t typical_points(emodule *m, const u32vec *vars) {
  int64_t n = 1;
  for (uint32_t i = 0; i < vars->n; i++) n = sat_mul64(n, expr_typical(m, sym_extent(m->c, vars->v[i])));
  return n;
}
uint32_t producer_of(const emodule *m, tid t) {
  const tensor *x = xt(m, t);
  return x->kind == TK_STAGE && x->stage < m->stages.n && !xs(m, x->stage)->dead && xs(m, x->stage)->tensor == t
             ? x->stage + 1
             : 0;
}
bool in_range(ctx *c, sz i, sz n) { return sym_ge0(c, i) && sym_lt(c, i, n); }
bool loads_in_range(pw *p, ex e) {
  u32vec l = {0};
  expr_loads(p->m, e, p->a, &l);
  for (uint32_t i = 0; i < l.n; i++) {
    const ex_node n = *exn(p->m, l.v[i]);
    for (uint32_t k = 0; k < n.nargs && !n.otherwise; k++)
      if (!in_range(p->c, n.args[k], xt(p->m, n.tensor)->shape[k])) return false;
  }
  return true;
}
bool size_uses_only_ints(pw *p, sz e) { return !sym_uses_kind(p->c, e, AT_SYMBOL) && !sym_uses_kind(p->c, e, AT_DATA); }

/* ---- constants ------------------------------------------------------------------------------- */
enum { MAX_UNIFORM = 4 << 20 }; /* bytes: more are not read to find out */
static bool is_uniform(const ndarray *d, uint32_t w, int64_t n) {
  const uint8_t *q = d->data;
  return n == 1 || !memcmp(q, q + w, (size_t)(n - 1) * w);
}
static void find_affine(cinfo *k, const ndarray *d, int64_t n) {
  uint32_t w = et_bytes(d->type);
  const uint8_t *q = d->data;
  int64_t stride = 1, st[MAX_RANK];
  for (uint32_t i = d->rank; i-- > 0;) st[i] = stride, stride *= d->dims[i];
  k->c0 = et_load(d->type, q).i;
  for (uint32_t i = 0; i < d->rank; i++)
    k->coef[i] = d->dims[i] > 1 ? (int64_t)((uint64_t)et_load(d->type, q + st[i] * w).i - (uint64_t)k->c0) : 0;
  for (int64_t j = 0; j < n; j++) {
    uint64_t want = (uint64_t)k->c0;
    for (uint32_t i = 0; i < d->rank; i++) want += (uint64_t)k->coef[i] * (uint64_t)(j / st[i] % d->dims[i]);
    if ((int64_t)want != et_load(d->type, q + j * w).i) return;
  }
  for (uint32_t i = 0; i < d->rank; i++)
    if (k->coef[i] > INT64_C(1) << 40 || k->coef[i] < -(INT64_C(1) << 40)) return;
  k->affine = k->c0 > -(INT64_C(1) << 60) && k->c0 < INT64_C(1) << 60;
}
const cinfo *tensor_const(pw *p, tid t) {
  const tensor *x = xt(p->m, t);
  if (x->kind != TK_CONST || x->type == ET_STR || !x->data.data) return NULL;
  fit_tables(p);
  if (p->consts.v[t]) return p->consts.v[t];
  cinfo *k = p->consts.v[t] = NEW(p->keep, cinfo);
  int64_t n;
  k->known = nd_count(&x->data, &n);
  if (!k->known || n < 1) return k;
  k->uniform = x->data.bytes <= MAX_UNIFORM && is_uniform(&x->data, et_bytes(x->type), n);
  if (k->uniform)
    k->value = et_load(x->type, x->data.data);
  else if ((x->type == ET_I64 || x->type == ET_I32) && n <= 1 << 20)
    find_affine(k, &x->data, n);
  return k;
}

/* ---- rewriting accesses ---------------------------------------------------------------------- */
static ex replace_node(void *env, emodule *m, ex e) {
  uint64_t to;
  return exn(m, e)->kind == EX_LOAD && map_getu(env, e, &to) ? (ex)to : e;
}
void stage_replace(pw *p, uint32_t s, map *by) {
  stage_rewrite(p->m, s, &(ex_map){.node = replace_node, .env = by});
  if (!simplify_stage(p, s)) pass_changed(p, s);
}
ex stage_value_at(pw *p, uint32_t s, const sz *idx, atom *split_var, sz *split_inner) {
  const stage *x = xs(p->m, s);
  const uint32_t nd = expr_ndigits(x);
  digit *d = NEWN(p->a, digit, nd + 1);
  sz *by = NEWN(p->a, sz, nd + 1);
  atom *vars = NEWN(p->a, atom, nd + 1);
  if (!expr_comps(p->m, s, idx, by, split_var, split_inner)) return 0;
  expr_digits(x, d);
  for (uint32_t i = 0; i < nd; i++) vars[i] = d[i].var;
  return simplify_subst(p, x->value, vars, by, nd);
}
typedef struct reloading {
  pw *p;           /* the run of passes */
  tid t;           /* the tensor */
  reload_to to;    /* gives what stands for a load */
  const void *env; /* handed to `to` */
  map *by;         /* load -> what stands for it */
  bool failed;     /* a load cannot be replaced */
} reloading;
static ex reload_node(void *env, emodule *m, ex e) { /* e reads at places already replaced, as in stage_replace */
  reloading *q = env;
  ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || n.tensor != q->t) return e;
  ex to = q->to(q->p, &n, q->env);
  if (to)
    map_putu(q->by, e, to);
  else
    q->failed = true;
  return to ? to : e;
}
bool reload_make(pw *p, tid t, reload_to to, const void *env, reload *r) {
  *r = (reload){0};
  /* a copy: the list changes with the readers */
  for (uint32_t i = 0; i < p->readers.v[t].n; i++) vec_push(p->a, r->readers, p->readers.v[t].v[i]);
  r->by = NEWN(p->a, map *, r->readers.n + 1);
  for (uint32_t i = 0; i < r->readers.n; i++) {
    const u32vec *l = stage_loads(p, r->readers.v[i]);
    reloading q = {p, t, to, env, r->by[i] = map_new(p->a), false};
    for (uint32_t k = 0; k < l->n && !q.failed; k++)
      if (exn(p->m, l->v[k])->tensor == t) expr_rewrite(p->m, l->v[k], &(ex_map){.node = reload_node, .env = &q});
    if (q.failed) return false;
  }
  return true;
}
void reload_put(pw *p, const reload *r) {
  for (uint32_t i = 0; i < r->readers.n; i++) stage_replace(p, r->readers.v[i], r->by[i]);
}

bool can_split(pw *p, uint32_t s, atom v, sz inner) {
  const stage *x = xs(p->m, s);
  int64_t k, n;
  sz q;
  if (x->recurrence && p->m->recurrences.v[x->recurrence].var == v) return false;
  sz ext = sym_extent(p->c, v);
  if (!sym_exact_div(p->c, ext, inner, &q)) return false;
  if (sym_is_int(p->c, inner, &k) && k <= 1) return false;
  return !(sym_is_int(p->c, q, &n) && n <= 1);
}
typedef struct split_env {
  atom v; /* the variable */
  sz by;  /* what stands for it */
} split_env;
static sz split_atom(void *env, emodule *m, atom a) {
  (void)m;
  split_env *s = env;
  return a == s->v ? s->by : 0;
}
atom stage_split(pw *p, uint32_t s, atom v, sz inner) {
  emodule *m = p->m;
  ctx *c = p->c;
  sz q;
  if (!sym_exact_div(c, sym_extent(c, v), inner, &q))
    ctx_bug(c, "expr: split of %s by %s", sym_name(c, v), sym_str(c, inner));
  sz a = sym_var(c, sym_name(c, v), q), b = sym_var(c, sym_name(c, v), inner);
  atom va = 0, vb = 0;
  sym_is_atom(c, a, &va), sym_is_atom(c, b, &vb);
  split_env e = {v, EK_PLANTED("align-split") ? sym_add(c, sym_mul(c, b, q), a) : sym_add(c, sym_mul(c, a, inner), b)};
  stage *x = xs(m, s);
  for (uint32_t i = 0; i < x->naxes; i++) {
    axis *ax = &x->axes[i];
    for (uint32_t k = 0; k < ax->n; k++) {
      if (ax->d[k].var != v) continue;
      digit *d = NEWN(m->a, digit, ax->n + 1);
      memcpy(d, ax->d, k * sizeof *d);
      d[k] = (digit){va, q}, d[k + 1] = (digit){vb, inner};
      memcpy(d + k + 2, ax->d + k + 1, (ax->n - k - 1) * sizeof *d);
      *ax = (axis){ax->n + 1, d};
      k++;
    }
  }
  stage_rewrite(m, s, &(ex_map){.atom = split_atom, .env = &e});
  if (!simplify_stage(p, s)) pass_changed(p, s);
  return vb;
}

/* ---- size symbols of a value -------------------------------------------------------------------- */
static void symbols_in(pw *p, ex e, map *seen, u32vec *out);
/* Size symbols of s, and of the values that its data atoms read. */
static void symbols_of_size(pw *p, sz s, map *seen, u32vec *out) {
  u32vec data = {0};
  sym_atoms(p->c, s, AT_SYMBOL, p->a, out);
  if (!sym_uses_kind(p->c, s, AT_DATA)) return;
  sym_atoms(p->c, s, AT_DATA, p->a, &data);
  for (uint32_t i = 0; i < data.n; i++) symbols_in(p, sym_data_id(p->c, data.v[i]), seen, out);
}
static void symbols_in(pw *p, ex e, map *seen, u32vec *out) {
  uint64_t x;
  if (!e || map_getu(seen, e, &x)) return;
  map_putu(seen, e, 1);
  ex_node n = *exn(p->m, e);
  if (n.kind == EX_INDEX) symbols_of_size(p, n.index, seen, out);
  if (n.kind == EX_LOAD) {
    for (uint32_t i = 0; i < n.nargs; i++) symbols_of_size(p, n.args[i], seen, out);
    symbols_in(p, n.otherwise, seen, out);
  }
  if (n.kind == EX_OP)
    for (uint32_t i = 0; i < n.nargs; i++) symbols_in(p, n.args[i], seen, out);
  if (n.kind == EX_REDUCE) {
    for (uint32_t i = 0; i < n.nargs; i++) symbols_of_size(p, sym_extent(p->c, n.args[i]), seen, out);
    symbols_in(p, n.where, seen, out), symbols_in(p, n.body, seen, out), symbols_in(p, n.payload, seen, out);
  }
}
void expr_symbols(pw *p, ex e, u32vec *out) { symbols_in(p, e, map_new(p->a), out); }

/* ---- placements ------------------------------------------------------------------------------ */
/* idx = offset + terms of distinct variables that do not overlap (each coefficient reaches beyond what the smaller
 * ones span)? Marks them in seen. */
static bool box_index(pw *p, const update *u, sz idx, uint32_t *seen) {
  ctx *c = p->c;
  if (sym_uses_kind(c, idx, AT_DATA) || sym_uses_kind(c, idx, AT_DIV) || sym_uses_kind(c, idx, AT_SEL)) return false;
  sz span = sym_int(c, 1), rest = idx;
  u32vec vs = {0};
  sym_atoms(c, idx, AT_VAR, p->a, &vs);
  sz *coef = NEWN(p->a, sz, vs.n + 1);
  for (uint32_t i = 0; i < vs.n; i++) {
    uint32_t k = 0;
    while (k < u->nvars && u->vars[k] != vs.v[i]) k++;
    if (k == u->nvars || k >= 32 || *seen >> k & 1 || !sym_linear(c, rest, vs.v[i], &coef[i], &rest)) return false;
    *seen |= 1u << k;
  }
  for (uint32_t done = 0; done < vs.n; done++) { /* smallest first */
    uint32_t best = vs.n;
    for (uint32_t i = 0; i < vs.n; i++)
      if (vs.v[i] && (best == vs.n || sym_le(c, coef[i], coef[best]))) best = i;
    if (!sym_le(c, span, coef[best])) return false;
    span = sym_mul(c, coef[best], sym_extent(c, vs.v[best]));
    vs.v[best] = 0;
  }
  return true;
}
/* May an index fall into the piece? With a stride in the place of a digit of it, read_piece (pass_views.c) does not
 * solve for the digits. */
static bool solid(pw *p, const update *u) {
  uint32_t few[32];
  for (uint32_t k = 0; k < u->nidx; k++) {
    u32vec vs = {few, 0, 32};
    bool one = false;
    sz coef;
    sym_atoms(p->c, u->idx[k], AT_VAR, p->a, &vs);
    for (uint32_t i = 0; i < vs.n && !one; i++)
      one = sym_linear(p->c, u->idx[k], vs.v[i], &coef, NULL) && sym_eq(p->c, coef, sym_int(p->c, 1));
    if (vs.n && !one) return false;
  }
  return true;
}
/* Is the index a number of the axis' digits, each of which is one of its terms, or several? Else a piece has no layout
 * where these digits lie apart. */
static bool has_digits(pw *p, const axis *x, sz idx) {
  for (uint32_t i = x->n; i-- > 1;) {
    sz digit;
    if (!sym_divmod(p->c, idx, x->d[i].extent, &idx, &digit, NULL, NULL)) return false;
  }
  return true;
}
static bool all_boxes(pw *p, const stage *x) {
  for (uint32_t i = 0; i < x->updates.n; i++) {
    const update *u = &x->updates.v[i];
    uint32_t seen = 0;
    if (u->op != OP_NONE || u->cond || u->nvars > 31) return false;
    for (uint32_t k = 0; k < u->nidx; k++)
      if (!box_index(p, u, u->idx[k], &seen) || !has_digits(p, &x->axes[k], u->idx[k])) return false;
    if (seen != (1u << u->nvars) - 1) return false;
  }
  return true;
}
bool is_placement(pw *p, uint32_t s) {
  const stage *x = xs(p->m, s);
  if (!x->tiled || x->value || x->recurrence || !x->updates.n) return false;
  fit_tables(p);
  uint8_t *known = &p->placed.v[s];
  if (!*known) *known = all_boxes(p, x) ? 2 : 1;
  return *known >= 2;
}
bool is_solid_placement(pw *p, uint32_t s) {
  if (!is_placement(p, s)) return false;
  uint8_t *known = &p->placed.v[s];
  const stage *x = xs(p->m, s);
  if (*known == 2) {
    bool any = false;
    for (uint32_t i = 0; i < x->updates.n && !any; i++) any = solid(p, &x->updates.v[i]);
    *known = any ? 4 : 3;
  }
  return *known == 4;
}
