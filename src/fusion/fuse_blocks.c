/* When does a contraction run block by block, together with what makes its operand and what reads its result?
 *
 * A kernel before a contraction writes all of an operand, the contraction reads it, writes all of its result, and the
 * kernels behind read that. Where these are larger than the L2 cache, each is fetched from the L3 cache or memory. If
 * all of them have variables in common - each reads the others' values at the very point of these variables -, they run
 * one after the other for a point of some of them, and what they hand over takes the room of that point only. The
 * operand may be a placement, whose pieces the kernel before computes (the tiles of a Winograd transform), or an
 * ordinary tensor (a depthwise convolution before a pointwise one).
 *
 * It pays when much is handed over, against the constants of the contraction, which are read again for every
 * point; and each point must keep enough rows for a tile of the contraction.
 */
#include "fusion/fuse.h"

/* A variable that all share: its canonical name in each kernel. */
typedef struct common {
  atom of;        /* its name in the contraction */
  uint32_t digit; /* number of the operand's digit */
  atom before;    /* its name in the kernel that makes the operand */
  u32vec after;   /* per kernel behind */
  bool bad;       /* it cannot be shared */
} common;
typedef struct chain {
  fuser *f;         /* the grouping */
  uint32_t k1;      /* node of the kernel that makes the operand */
  uint32_t k2;      /* node of the contraction */
  uint32_t c2;      /* stage of the contraction */
  uint32_t place;   /* node of the placement, or UINT32_MAX */
  uint32_t operand; /* its stage */
  u32vec after;     /* kernels behind */
  VEC(common) vars; /* shared variables, in the order of the operand's digits */
} chain;

static uint32_t own_stage(fuser *f, tid t) { /* The stage of this block that computes t, or UINT32_MAX. */
  uint32_t q = producer_of(f->m, t);
  return q && xs(f->m, q - 1)->block == f->block && f->where[q - 1] ? q - 1 : UINT32_MAX;
}
static bool leaves(fuser *f, uint32_t s) { return f->p->pinned.v[xs(f->m, s)->tensor] || f->placed[s]; }
/* what stage st hands over at a point of the common variables `without` */
static int64_t bytes_of(const chain *h, uint32_t st, const u32vec *without) {
  fuser *f = h->f;
  const stage *s = xs(f->m, st);
  uint32_t nd = expr_ndigits(s);
  digit *d = NEWN(f->a, digit, nd + 1);
  u32vec vars = {0};
  expr_digits(s, d);
  for (uint32_t i = 0; i < nd; i++) {
    bool out = st != h->operand && vec_has(without, fuse_canon(f, d[i].var));
    for (uint32_t k = 0; k < h->vars.n && st == h->operand; k++)
      out |= h->vars.v[k].digit == i && vec_has(without, h->vars.v[k].of);
    if (!out) vec_push(f->a, vars, d[i].var);
  }
  return fuse_bytes(f, st, &vars);
}

/* The operand: the only tensor that c2 reads besides constants, with no more than a constant outside of it; it
 * leaves no other way. */
static bool find_operand(chain *h) {
  fuser *f = h->f;
  const u32vec *l = stage_loads(f->p, h->c2);
  ex load = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const ex_node *n = exn(f->m, l->v[i]);
    if (xt(f->m, n->tensor)->kind == TK_CONST) continue;
    if (load || (n->otherwise && exn(f->m, n->otherwise)->kind != EX_CONST)) return false;
    load = l->v[i];
  }
  if (!load) return false;
  tid t = exn(f->m, load)->tensor;
  const u32vec *r = &f->p->readers.v[t];
  h->operand = own_stage(f, t);
  if (h->operand == UINT32_MAX || leaves(f, h->operand) || r->n != 1 || r->v[0] != h->c2) return false;
  sz *by;
  digit *d;
  uint32_t nd, k = f->where[h->operand] - 1;
  if (k == h->k2 || f->k.v[k].opaque || !fuse_digits(f, h->operand, exn(f->m, load)->args, &by, &d, &nd)) return false;
  h->place = f->k.v[k].virt ? k : UINT32_MAX;
  h->k1 = k;
  for (uint32_t i = 0; i < nd; i++) {
    common v = {.digit = i, .before = fuse_canon(f, d[i].var)};
    atom a;
    bool again = false;
    if (!sym_is_atom(f->c, by[i], &a) || !sym_eq(f->c, sym_extent(f->c, a), d[i].extent)) continue;
    v.of = fuse_canon(f, a);
    if (!vec_has(&f->k.v[h->k2].outer, v.of)) continue;
    for (uint32_t j = 0; j < nd; j++) again |= j != i && sym_uses(f->c, by[j], a);
    if (!again) vec_push(f->a, h->vars, v);
  }
  return h->vars.n > 0;
}
/* The pieces of a placement: one kernel computes them all, and nothing else. */
static bool find_pieces(chain *h) {
  fuser *f = h->f;
  emodule *m = f->m;
  const stage *v = xs(m, h->operand);
  if (v->value) return false;
  h->k1 = UINT32_MAX;
  for (uint32_t i = 0; i < h->vars.n; i++) h->vars.v[i].before = 0;
  for (uint32_t u = 0; u < v->updates.n; u++) {
    const update *up = &v->updates.v[u];
    ex_node l = *exn(m, up->value);
    uint32_t q = own_stage(f, l.tensor), nd, nq;
    sz *by, *at;
    digit *d, *dq;
    if (q == UINT32_MAX || f->placed[q] != h->operand + 1 || !fuse_digits(f, h->operand, up->idx, &by, &d, &nd) ||
        !fuse_digits(f, q, l.args, &at, &dq, &nq))
      return false;
    if (h->k1 != UINT32_MAX && h->k1 != f->where[q] - 1) return false;
    h->k1 = f->where[q] - 1;
    for (uint32_t i = 0; i < h->vars.n; i++) {
      common *x = &h->vars.v[i];
      atom a, c1 = 0;
      if (sym_is_atom(f->c, by[x->digit], &a) && sym_eq(f->c, sym_extent(f->c, a), d[x->digit].extent))
        for (uint32_t j = 0; j < nq; j++)
          if (at[j] == by[x->digit]) c1 = fuse_canon(f, dq[j].var);
      x->bad |= !c1 || (x->before && x->before != c1);
      x->before = c1;
    }
  }
  if (h->k1 == UINT32_MAX) return false;
  for (uint32_t i = 0; i < f->k.v[h->k1].st.n; i++) {
    uint32_t in = f->placed[f->k.v[h->k1].st.v[i]];
    if (in && in != h->operand + 1) return false;
  }
  return true;
}
/* The kernels that read the contraction's values; none when these are stored for others. */
static void find_readers(chain *h) {
  fuser *f = h->f;
  emodule *m = f->m;
  const fnode *n = &f->k.v[h->k2];
  u32vec users = {0};
  fuse_users(f, h->k2, &users);
  for (uint32_t i = 0; i < n->st.n; i++)
    if (leaves(f, n->st.v[i])) return;
  for (uint32_t i = 0; i < users.n; i++)
    if (users.v[i] == UINT32_MAX || f->k.v[users.v[i]].opaque || f->k.v[users.v[i]].virt ||
        !light(f->k.v[users.v[i]].cls))
      return;
  VEC(common) kept = {0};
  for (uint32_t i = 0; i < h->vars.n; i++) vec_push(f->a, kept, h->vars.v[i]);
  for (uint32_t i = 0; i < users.n; i++)
    for (uint32_t j = 0; j < f->k.v[users.v[i]].st.n; j++) {
      uint32_t s = f->k.v[users.v[i]].st.v[j];
      const u32vec *l = stage_loads(f->p, s);
      for (uint32_t z = 0; z < l->n; z++) {
        const ex_node *load = exn(m, l->v[z]);
        uint32_t q = own_stage(f, load->tensor), nd;
        sz *by;
        digit *d;
        if (q == UINT32_MAX || f->where[q] - 1 != h->k2) continue;
        if (load->otherwise || !fuse_digits(f, q, load->args, &by, &d, &nd)) return;
        for (uint32_t a = 0; a < nd; a++)
          for (uint32_t c = 0; c < kept.n; c++) {
            common *x = &kept.v[c];
            atom v;
            if (fuse_canon(f, d[a].var) != x->of) continue;
            if (!sym_is_atom(f->c, by[a], &v) || !stage_has_var(m, s, v) ||
                !vec_has(&f->k.v[users.v[i]].outer, fuse_canon(f, v)) ||
                !sym_ge0(f->c, sym_sub(f->c, d[a].extent, sym_extent(f->c, v))))
              x->bad = true;
            else if (x->after.n == i)
              vec_push(f->a, x->after, fuse_canon(f, v));
            else
              x->bad |= x->after.n < i || (x->after.v[i] != fuse_canon(f, v) && !EK_PLANTED("kernels-blocks"));
          }
      }
    }
  uint32_t good = 0;
  for (uint32_t c = 0; c < kept.n; c++)
    if (!(kept.v[c].bad |= kept.v[c].after.n != users.n)) good++;
  if (!good || !users.n) return;
  for (uint32_t c = 0; c < kept.n; c++) h->vars.v[c] = kept.v[c];
  h->after = users;
}
static bool within(const chain *h, uint32_t x) {
  return x == h->k1 || x == h->k2 || x == h->place || vec_has(&h->after, x);
}
static bool stands_between(const chain *h) {
  fuser *f = h->f;
  for (uint32_t x = 0; x < f->k.n; x++) {
    if (!f->k.v[x].alive || within(h, x) || !depends(f, x, h->k1)) continue;
    if (depends(f, h->k2, x)) return true;
    for (uint32_t i = 0; i < h->after.n; i++)
      if (depends(f, h->after.v[i], x)) return true;
  }
  return false;
}
bool fuse_only_for(fuser *f, uint32_t k, uint32_t operand, bool pieces) {
  const fnode *n = &f->k.v[k];
  for (uint32_t i = 0; i < n->st.n; i++) {
    uint32_t s = n->st.v[i];
    const u32vec *r = &f->p->readers.v[xs(f->m, s)->tensor];
    if (f->p->pinned.v[xs(f->m, s)->tensor] || (!pieces && f->placed[s])) return false;
    for (uint32_t j = 0; j < r->n; j++)
      if (s != operand && r->v[j] != operand && (xs(f->m, r->v[j])->block != f->block || f->where[r->v[j]] != k + 1))
        return false;
  }
  return true;
}
static int64_t handed(const chain *h, const u32vec *without) {
  fuser *f = h->f;
  int64_t b = bytes_of(h, h->operand, without);
  for (uint32_t i = 0; i < f->k.v[h->k2].st.n && h->after.n; i++) {
    const u32vec *r = &f->p->readers.v[xs(f->m, f->k.v[h->k2].st.v[i])->tensor];
    bool out = false;
    for (uint32_t j = 0; j < r->n; j++) out |= f->where[r->v[j]] - 1 != h->k2;
    if (out) b += bytes_of(h, f->k.v[h->k2].st.v[i], without);
  }
  return b;
}
int64_t fuse_constants(fuser *f, uint32_t s) {
  const u32vec *l = stage_loads(f->p, s);
  int64_t b = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    const tensor *t = xt(f->m, exn(f->m, l->v[i])->tensor);
    if (t->kind == TK_CONST) b += (int64_t)t->data.bytes;
  }
  return b;
}
/* rows of the contraction at a point of outer and next */
static int64_t rows_left(const chain *h, const u32vec *outer, atom next) {
  roles r;
  u32vec rows = {0};
  if (!expr_roles(h->f->m, h->c2, h->f->a, &r)) return 0;
  for (uint32_t i = 0; i < r.row.n; i++)
    if (fuse_canon(h->f, r.row.v[i]) != next && !vec_has(outer, fuse_canon(h->f, r.row.v[i])))
      vec_push(h->f->a, rows, r.row.v[i]);
  return rows.n ? fuse_extent(h->f, &rows) : 0;
}
/* Has the variable the same values in every kernel? */
static bool same_values(const chain *h, const common *x) {
  ctx *c = h->f->c;
  sz n = sym_extent(c, x->of);
  bool same = sym_eq(c, n, sym_extent(c, x->before));
  for (uint32_t i = 0; i < x->after.n; i++) same &= sym_eq(c, n, sym_extent(c, x->after.v[i]));
  return same;
}
/* Which of the common variables stand outside: from the front, until a point is small or too few rows would be left;
 * if it is large still, the next one, too, of which the schedule then takes as many values at a time as a
 * tile needs and the cache holds. */
static bool choose(const chain *h, u32vec *outer) {
  fuser *f = h->f;
  u32vec none = {0};
  const int64_t constants = fuse_constants(f, h->c2), block = cost_point_bytes(f->p->t);
  if (!cost_blocks_fuse(f->p->t, handed(h, &none), constants)) return false;
  for (uint32_t i = 0;
       i < h->vars.n && handed(h, outer) > block && cost_rows_for_tile(rows_left(h, outer, h->vars.v[i].of)); i++)
    vec_push(f->a, *outer, h->vars.v[i].of);
  int64_t point = min64(handed(h, outer), block);
  if (outer->n && outer->n < h->vars.n && handed(h, outer) > block && same_values(h, &h->vars.v[outer->n])) {
    atom next = h->vars.v[outer->n].of;
    vec_push(f->a, *outer, next);
  }
  return outer->n > 0 && cost_rereads_constants(constants, point);
}
static void try_blocks(fuser *f, uint32_t k2, uint32_t c2) {
  chain h = {.f = f, .k2 = k2, .c2 = c2};
  u32vec outer = {0};
  uint32_t n = 0;
  if (!find_operand(&h) || (h.place != UINT32_MAX && !find_pieces(&h))) return;
  const fnode *before = &f->k.v[h.k1];
  if (before->virt || before->opaque || before->st.n + f->k.v[k2].st.n >= FUSE_MEMBERS ||
      !(light(before->cls) || before->cls == KC_STENCIL))
    return;
  if (!fuse_only_for(f, h.k1, h.operand, h.place != UINT32_MAX)) return;
  for (uint32_t i = 0; i < h.vars.n; i++) h.vars.v[i].bad |= !vec_has(&before->outer, h.vars.v[i].before);
  find_readers(&h);
  for (uint32_t i = 0; i < h.vars.n; i++)
    if (!h.vars.v[i].bad) h.vars.v[n++] = h.vars.v[i];
  h.vars.n = n;
  if (!n || stands_between(&h) || !choose(&h, &outer) || !pass_spend(f->p)) return;
  const stage *v = xs(f->m, h.operand);
  digit *d = NEWN(f->a, digit, expr_ndigits(v) + 1);
  expr_digits(v, d);
  for (uint32_t i = 0; i < n; i++) {
    const common *x = &h.vars.v[i];
    if (!vec_has(&outer, x->of)) continue;
    fuse_rename(f, h.k1, x->before, x->of);
    map_putu(f->canon, d[x->digit].var, x->of);
    for (uint32_t j = 0; j < h.after.n; j++) fuse_rename(f, h.after.v[j], x->after.v[j], x->of);
  }
  f->k.v[k2].outer = outer;
  f->k.v[k2].cls = KC_BLOCKS;
  f->k.v[k2].note = NULL;
  if (h.place != UINT32_MAX) fuse_merge(f, k2, h.place);
  fuse_merge(f, k2, h.k1);
  for (uint32_t j = 0; j < h.after.n; j++) fuse_merge(f, k2, h.after.v[j]);
}
void fuse_blocks(fuser *f) {
  uint32_t n = f->k.n;
  for (uint32_t k = 0; k < n; k++) {
    if (!f->k.v[k].alive || f->k.v[k].virt || f->k.v[k].opaque || f->k.v[k].cls != KC_CONTRACTION) continue;
    for (uint32_t i = 0; i < f->k.v[k].st.n; i++)
      if (heavy(fuse_class(f, f->k.v[k].st.v[i]))) {
        try_blocks(f, k, f->k.v[k].st.v[i]);
        break;
      }
  }
}
