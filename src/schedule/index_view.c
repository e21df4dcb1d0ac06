/* What are the variables of formulas at a place, and what does that say of accesses? See index_view.h. */
#include "schedule/index_view.h"
#include <string.h>

void view_begin(index_view *iv, splan *p, arena *a) {
  *iv = (index_view){.p = p, .m = p->m, .c = p->m->c, .a = a, .bind_of = map_new(a)};
}
void view_bind(index_view *iv, binding b) {
  uint64_t had;
  b.hides = map_getu(iv->bind_of, b.var, &had) ? (uint32_t)had : 0;
  b.resolving = iv->resolving;
  if (b.subst || (b.hides && iv->binds.v[b.hides - 1].subst)) iv->resolving = ++iv->p->resolvings;
  iv->substs += b.subst != 0;
  vec_push(iv->a, iv->binds, b);
  map_putu(iv->bind_of, b.var, iv->binds.n);
}
void view_unbind(index_view *iv, uint32_t n) {
  while (iv->binds.n > n) {
    const binding *b = &iv->binds.v[--iv->binds.n];
    iv->substs -= b->subst != 0;
    iv->resolving = b->resolving;
    map_putu(iv->bind_of, b->var, b->hides);
  }
}
binding *view_bound(const index_view *iv, atom a) {
  uint64_t at;
  return map_getu(iv->bind_of, a, &at) && at ? &iv->binds.v[at - 1] : NULL;
}
static sz subst_atom(ctx *c, void *env, atom a) {
  index_view *iv = env;
  if (sym_kind(c, a) != AT_VAR) return 0;
  binding *b = view_bound(iv, a);
  return b ? b->subst : 0;
}
/* An atom's size simplified under the facts of this branch: as its formula was written, before chunks and merged
 * loops make it hard to see through. A branch in which a divisor is 0 is about an empty tensor and is never taken:
 * any value will do. */
static sz built_anew(ctx *c, void *env, atom a) {
  sz g[3];
  uint32_t n = sym_args(c, a, g);
  if (!n || sym_kind(c, a) == AT_VAR) return 0;
  for (uint32_t i = 0; i < n; i++) g[i] = sym_subst(c, g[i], built_anew, env);
  if (n == 3) return sym_sel(c, g[0], g[1], g[2]);
  if (sym_kind(c, a) == AT_DIV && sym_int_or(c, g[1], 1) == 0) return g[1];
  return sym_kind(c, a) == AT_DIV   ? sym_div(c, g[0], g[1])
         : sym_kind(c, a) == AT_MIN ? sym_min(c, g[0], g[1])
                                    : sym_max(c, g[0], g[1]);
}
/* What is known of x (0: a size, 1: a value) under the substitutions and facts of the moment: if it is, *to. */
static struct resolved *known_of(index_view *iv, int value, uint32_t x, bool *is) {
  enum { KNOWN = 4096 };
  struct resolved **all = &iv->p->resolved[value], now = {.from = x, .state = sym_state(iv->c), .by = iv->resolving};
  if (!*all) *all = arena_array(iv->p->l->a, KNOWN, sizeof **all);
  struct resolved *k = &(*all)[hash_u32(x + hash_u32(now.by)) % KNOWN];
  *is = k->to && k->from == now.from && k->state == now.state && k->by == now.by;
  if (!*is) *k = now;
  return k;
}
sz view_resolve(index_view *iv, sz x) {
  bool is;
  if (iv->assumed) x = sym_subst(iv->c, x, built_anew, NULL);
  if (!iv->substs || sym_is_int(iv->c, x, NULL)) return x;
  struct resolved *known = known_of(iv, 0, x, &is);
  if (is) return known->to;
  for (int i = 0; i < 4; i++) { /* a substitution may name variables that are substituted themselves */
    sz y = sym_subst(iv->c, x, subst_atom, iv);
    if (y == x) break;
    x = y;
  }
  return known->to = x;
}

static sz resolve_atom(void *env, emodule *m, atom a) {
  sz x = sym_of_atom(m->c, a), y = sym_kind(m->c, a) == AT_VAR ? view_resolve(env, x) : x;
  return y == x ? 0 : y;
}
ex view_canonical(index_view *iv, ex x) {
  bool is;
  struct resolved *known = known_of(iv, 1, x, &is);
  if (is) return known->to;
  return known->to = expr_rewrite(iv->m, x, &(ex_map){.atom = resolve_atom, .env = iv});
}

const local *view_local(const index_view *iv, tid t) {
  for (uint32_t i = iv->locals.n; i-- > 0;)
    if (iv->locals.v[i].t == t) return &iv->locals.v[i];
  return NULL;
}
/* Where a tensor lies in scratch, whether its values are in registers as well or not; NULL: where all tensors lie. */
const local *view_scratch(const index_view *iv, tid t) {
  for (uint32_t i = iv->locals.n; i-- > 0;)
    if (iv->locals.v[i].t == t && iv->locals.v[i].lay) return &iv->locals.v[i];
  return NULL;
}
const layout *view_layout(const index_view *iv, tid t) {
  const local *l = view_scratch(iv, t);
  return l ? l->lay : &iv->p->layouts[t];
}
sz view_address(ctx *c, const layout *lay, const sz *idx) {
  enum { MOST = 2 * MAX_RANK };
  sz at = lay->base, val[MOST], stride[MOST];
  uint32_t n = 0;
  for (uint32_t i = 0; i < lay->rank; i++) {
    const laxis *x = &lay->axes[i];
    sz rem = idx[i];
    for (uint32_t d = x->n; d-- > 0;) {
      if (n == MOST) at = sym_dot(c, at, val, stride, n), n = 0;
      val[n] = rem, stride[n] = x->d[d].stride;
      if (d > 0) {
        sz q;
        if (sym_int_or(c, x->d[d].extent, 1) == 0)
          val[n] = rem; /* an empty tensor: never accessed */
        else if (sym_divmod(c, rem, x->d[d].extent, &q, &val[n], NULL, NULL))
          rem = q;
        else {
          val[n] = sym_mod(c, rem, x->d[d].extent);
          rem = sym_div(c, rem, x->d[d].extent);
        }
      }
      n++;
    }
  }
  return sym_dot(c, at, val, stride, n);
}
bool view_in_range(ctx *c, const layout *lay, uint32_t ax, sz idx, sz size) {
  sz lo = idx;
  if (lay) {
    if (lay->axes[ax].lo) lo = sym_add(c, lo, lay->axes[ax].lo);
    if (lay->axes[ax].hi) size = sym_add(c, size, lay->axes[ax].hi);
  }
  return EK_PLANTED("schedule-inside") || (sym_ge0(c, lo) && sym_lt(c, idx, size));
}
static scalar identity_const(const index_view *iv, ex x, bool *is) {
  const ex_node *n = exn(iv->m, x);
  *is = n->kind == EX_CONST;
  return n->k;
}
const layout *view_halo(const index_view *iv, ex load) {
  const ex_node *n = exn(iv->m, load);
  const layout *lay = view_layout(iv, n->tensor);
  if (!n->otherwise || !lay->fill) return NULL;
  bool is;
  scalar k = identity_const(iv, n->otherwise, &is);
  return is && memcmp(&k, lay->fill, sizeof k) == 0 ? lay : NULL;
}
bool view_inside(index_view *iv, ex load, sz *idx, bool *safe) {
  const ex_node *n = exn(iv->m, load);
  const layout *halo = view_halo(iv, load);
  bool all = true;
  for (uint32_t i = 0; i < n->nargs; i++) {
    idx[i] = view_resolve(iv, n->args[i]);
    safe[i] = view_in_range(iv->c, halo, i, idx[i], xt(iv->m, n->tensor)->shape[i]);
    all &= safe[i];
  }
  return all;
}
bool view_plain(index_view *iv, ex load, sz *idx) {
  bool safe[MAX_RANK];
  const local *l = view_local(iv, exn(iv->m, load)->tensor);
  return !(l && l->regs) && view_inside(iv, load, idx, safe);
}
