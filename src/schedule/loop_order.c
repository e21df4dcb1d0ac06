/* In which order do the loops of a kernel of one group stand, and which are collapsed into one?
 *
 * The variable along which the stored values lie closest is innermost. Neighbouring variables become one wherever all
 * addresses allow it: fewer loops, and longer ones.
 */
#include "schedule/kernel_in.h"
#include <string.h>

/* Is the number of the point in u or v itself a part of the value? As quotient and rest of one variable it would
 * cost a division at each point. */
static bool counts_points(kctx *k, ex x, atom u, atom v, map *seen) {
  const ex_node *n = exn(k->m, x);
  uint64_t dummy;
  if (map_getu(seen, x, &dummy)) return false;
  map_putu(seen, x, 1);
  if (n->kind == EX_INDEX) {
    sz at = view_resolve(&k->e.view, n->index);
    return address_uses(&k->e.view, at, u) || address_uses(&k->e.view, at, v);
  }
  for (uint32_t i = 0; n->kind == EX_OP && i < n->nargs; i++)
    if (counts_points(k, n->args[i], u, v, seen)) return true;
  return n->kind == EX_LOAD && n->otherwise && counts_points(k, n->otherwise, u, v, seen);
}
/* Joins neighbouring variables of a group into one wherever all addresses allow it: u (outer), v (inner, extent e)
 * become w = u*e + v. */
static bool merge_pair(kctx *k, const u32vec *group, u32vec *domain, uint32_t at) {
  atom u = domain->v[at], v = domain->v[at + 1];
  for (uint32_t i = 0; i < group->n && !cost_short_row(sym_int_or(k->c, sym_extent(k->c, v), LARGE_EXTENT)); i++)
    if (counts_points(k, xs(k->m, group->v[i])->value, u, v, map_new(k->a))) return false;
  /* a condition that leaves places out does so for one value of its variable, as a factor is chosen */
  const ex_node *lead = exn(k->m, xs(k->m, group->v[0])->value);
  if (lead->kind == EX_REDUCE && counts_points(k, lead->body, u, v, map_new(k->a))) return false;
  if (lead->kind == EX_REDUCE && lead->where &&
      (value_uses(&k->e.view, lead->where, u) || value_uses(&k->e.view, lead->where, v)))
    return false;
  sz eu = sym_extent(k->c, u), ev = sym_extent(k->c, v), w = sym_var(k->c, "f", sym_mul(k->c, eu, ev));
  atom wa;
  if (!sym_is_atom(k->c, w, &wa)) return false;
  uint32_t nb = k->e.view.binds.n;
  view_bind(&k->e.view, (binding){.var = u, .subst = kernel_quot(k->c, w, ev)});
  view_bind(&k->e.view, (binding){.var = v, .subst = kernel_rem(k->c, w, ev)});
  if (!group_linear(&k->e.view, group, k->stored, wa)) {
    view_unbind(&k->e.view, nb);
    return false;
  }
  kernel_name_joined(k, wa, u, v);
  domain->v[at] = wa;
  for (uint32_t i = at + 1; i + 1 < domain->n; i++) domain->v[i] = domain->v[i + 1];
  domain->n--;
  return true;
}
static bool strided_or_linear(kctx *k, const accesses *acc, atom w, uint32_t lanes) {
  for (uint32_t i = 0; i < acc->n; i++) {
    const access *a = &acc->v[i];
    sz idx[MAX_RANK];
    if (a->guarded && !view_plain(&k->e.view, a->load, idx)) return false;
    if (address_coef(&k->e.view, a->address, w) == INT64_MIN &&
        (a->store || a->constant || !lanes_strided(k->c, a->address, w, lanes)))
      return false;
  }
  return true;
}
/* Columns v of group u: w = v + columns * (u mod n), for n groups a vector of L lanes; u becomes u div n. False: an
 * address does not allow it, and nothing was done. */
static bool join_pair(kctx *k, const u32vec *group, u32vec *domain, uint32_t at, int64_t n, int64_t L) {
  const atom outer = domain->v[at], inner = domain->v[at + 1];
  const int64_t columns = L / n, groups = sym_int_or(k->c, sym_extent(k->c, outer), 0);
  accesses acc = {0};
  atom wa, ua;
  sz w = sym_var(k->c, "f", sym_int(k->c, L)), u = sym_var(k->c, "g", sym_int(k->c, groups / n)),
     by = sym_int(k->c, columns);
  if (!sym_is_atom(k->c, w, &wa)) return false;
  uint32_t nb = k->e.view.binds.n;
  view_bind(&k->e.view,
            (binding){.var = outer, .subst = sym_add(k->c, sym_muli(k->c, u, n), kernel_quot(k->c, w, by))});
  view_bind(&k->e.view, (binding){.var = inner, .subst = kernel_rem(k->c, w, by)});
  group_accesses(&k->e.view, group, k->stored, &acc);
  if (!strided_or_linear(k, &acc, wa, (uint32_t)L)) {
    view_unbind(&k->e.view, nb);
    return false;
  }
  if (!sym_is_atom(k->c, u, &ua)) { /* all groups share one vector */
    ua = 0;
    for (uint32_t i = at; i + 1 < domain->n; i++) domain->v[i] = domain->v[i + 1];
    domain->n--;
  } else
    domain->v[at++] = ua;
  domain->v[at] = wa;
  kernel_name_split(k, (const atom[]){outer, inner}, n, ua, wa);
  return true;
}
/* May neighbouring variables be joined so that their points fill vectors of L lanes? *n: groups a vector. */
static bool fills_lanes(kctx *k, const u32vec *domain, uint32_t at, uint32_t L, int64_t *n) {
  int64_t groups, columns;
  if (!sym_is_int(k->c, sym_extent(k->c, domain->v[at]), &groups) ||
      !sym_is_int(k->c, sym_extent(k->c, domain->v[at + 1]), &columns) || columns < 1 || columns >= L || L % columns)
    return false;
  *n = L / columns >> EK_PLANTED("schedule-join");
  return groups % *n == 0;
}
/* Columns that fill a part of the lanes only, in groups whose results lie side by side: as many groups as there is
 * room for share a vector, but where registers of half the width do for one. What a group reads is spread over its
 * lanes. */
static void join_groups(kctx *k, const u32vec *group, u32vec *domain) {
  const uint32_t L = nest_lanes(&k->e.view, group);
  int64_t n;
  if (domain->n > 1 && fills_lanes(k, domain, domain->n - 2, L, &n) && !(n == 2 && tile_halves(k->p->t, L)))
    join_pair(k, group, domain, domain->n - 2, n, L);
}
static void order_by_store(kctx *k, const u32vec *group, u32vec *domain) {
  accesses acc = {0};
  group_accesses(&k->e.view, group, k->stored, &acc);
  for (uint32_t i = 1; i < domain->n; i++)
    for (uint32_t j = i; j > 0; j--) {
      int64_t a = 0, b = 0;
      for (uint32_t q = 0; q < acc.n; q++)
        if (acc.v[q].store)
          a = address_coef(&k->e.view, acc.v[q].address, domain->v[j - 1]),
          b = address_coef(&k->e.view, acc.v[q].address, domain->v[j]);
      if (a < 0 || b < 0 || a >= b) break; /* symbolic strides keep their order */
      atom t = domain->v[j];
      domain->v[j] = domain->v[j - 1], domain->v[j - 1] = t;
    }
}

/* ---- a stated order ---------------------------------------------------------------------------- */
/* The variables of a directive, each once. Word by word they become one variable; the words `split` and the one after
 * it are u/n and (u%n v). */
typedef struct stated_order {
  const directive *d;   /* the directive */
  const u32vec *domain; /* the variables that there are */
  u32vec vars;          /* variables in the order of the text */
  u32vec ends;          /* per word: the end of its variables */
  uint32_t split;       /* index of the word u/n; UINT32_MAX: there is none */
  const char *of;       /* u */
  int64_t n;            /* n */
} stated_order;
/* The items of a list "(a (b c)/4 d)"; a word that is none is its own item. */
static strvec items_of(kctx *k, const char *word) {
  strvec out = {0};
  const char *s = word;
  const size_t all = strlen(word);
  if (*s != '(' || word[all - 1] != ')') {
    vec_push(k->a, out, word);
    return out;
  }
  for (const char *end = word + all - 1, *from = ++s; s <= end; s++) {
    int depth = 0;
    for (; s < end && (depth || *s != ' '); s++) depth += (*s == '(') - (*s == ')');
    if (s > from) vec_push(k->a, out, arena_strndup(k->a, from, (size_t)(s - from)));
    from = s + 1;
  }
  return out;
}
static void order_vars(kctx *k, stated_order *o, const char *word) {
  const strvec items = items_of(k, word);
  if (!items.n) kernel_refuse(k, o->d, "%s: a list of no variables", word);
  for (uint32_t i = 0; i < items.n; i++) {
    const char *item = items.v[i];
    if (*item == '(' && item[strlen(item) - 1] != ')')
      kernel_refuse(k, o->d, "%s: a part stands alone as `a/4`, or first as in `(a%%4 b)`", item);
    if (items.n > 1 || *item == '(') {
      order_vars(k, o, item);
      continue;
    }
    const atom v = kernel_var(k, o->d, items.v[i], o->domain);
    if (vec_has(&o->vars, v)) kernel_refuse(k, o->d, "%s is there twice", items.v[i]);
    vec_push(k->a, o->vars, v);
  }
}
/* u and n of u/n or u%n; false: the item is neither. */
static bool part_of(kctx *k, const directive *d, const char *item, char which, const char **of, int64_t *n) {
  const char *end = strrchr(item, ')'), *at = strchr(end ? end : item, which);
  if (!at) return false;
  *of = arena_strndup(k->a, item, (size_t)(at - item));
  *n = kernel_number(k, d, at + 1, 2, INT32_MAX);
  return true;
}
static void end_word(kctx *k, stated_order *o) { vec_push(k->a, o->ends, o->vars.n); }
static void order_word(kctx *k, stated_order *o, const char *word) {
  const strvec items = items_of(k, word);
  const char *of;
  int64_t n;
  if (items.n == 1 && part_of(k, o->d, items.v[0], '/', &of, &n)) {
    if (o->split != UINT32_MAX) kernel_refuse(k, o->d, "%s: one variable can be split", word);
    o->split = o->ends.n, o->of = of, o->n = n;
    order_vars(k, o, of);
  } else if (items.n > 1 && part_of(k, o->d, items.v[0], '%', &of, &n)) {
    if (o->split == UINT32_MAX) { /* its quotient has one value */
      o->split = o->ends.n, o->of = of, o->n = n;
      order_vars(k, o, of), end_word(k, o);
    }
    if (o->split + 1 != o->ends.n || strcmp(of, o->of) || n != o->n)
      kernel_refuse(k, o->d, "%s: expected %s/%lld before it", word, of, (long long)n);
    for (uint32_t i = 1; i < items.n; i++) order_vars(k, o, items.v[i]);
  } else
    order_vars(k, o, word);
  end_word(k, o);
}
static stated_order read_order(kctx *k, const directive *d, const u32vec *domain) {
  stated_order o = {.d = d, .domain = domain, .split = UINT32_MAX};
  for (uint32_t w = 0; w < d->words.n; w++) order_word(k, &o, d->words.v[w]);
  for (uint32_t i = 0; i < domain->n; i++)
    if (!vec_has(&o.vars, domain->v[i])) kernel_refuse(k, d, "%s is missing", kernel_var_text(k, domain->v[i]));
  if (o.split != UINT32_MAX && o.split + 1 == o.ends.n)
    kernel_refuse(k, d, "expected (%s%%%lld ..) after %s/%lld", o.of, (long long)o.n, o.of, (long long)o.n);
  return o;
}
/* The variables of word w become one. */
static void collapse_word(kctx *k, const stated_order *o, const u32vec *group, u32vec *domain, uint32_t w) {
  const uint32_t from = w ? o->ends.v[w - 1] : 0;
  for (uint32_t i = o->ends.v[w]; i-- > from + 1;)
    if (!merge_pair(k, group, domain, i - 1))
      kernel_refuse(k, o->d, "%s and %s cannot be one loop: an address, a value or a condition tells them apart",
                    kernel_var_text(k, domain->v[i - 1]), kernel_var_text(k, domain->v[i]));
}
static void follow_order(kctx *k, const directive *d, const u32vec *group, u32vec *domain) {
  const stated_order o = read_order(k, d, domain);
  const uint32_t L = nest_lanes(&k->e.view, group);
  if (!EK_PLANTED("follow-order")) *domain = o.vars;
  for (uint32_t w = o.ends.n; w-- > 0;) {
    collapse_word(k, &o, group, domain, w);
    if (w != o.split) continue;
    const uint32_t at = w ? o.ends.v[w - 1] : 0;
    int64_t n;
    if (!fills_lanes(k, domain, at, L, &n) || n != o.n || !join_pair(k, group, domain, at, n, L))
      kernel_refuse(k, d, "%s: groups of %lld do not fill vectors of %u lanes", o.of, (long long)o.n, L);
  }
}
/* Is the order the one that is stated? */
static bool as_stated(kctx *k, const directive *d, const u32vec *domain) {
  for (uint32_t i = 0; i < domain->n && domain->n == d->words.n; i++)
    if (!directive_is(d, i, kernel_var_text(k, domain->v[i]))) return false;
  return domain->n == d->words.n;
}
void kernel_loop_order(kctx *k, const u32vec *group, u32vec *domain, bool sum) {
  const directive *d = stated(k, group, P_ORDER);
  const uint32_t nb = k->e.view.binds.n;
  u32vec own = {0};
  for (uint32_t i = 0; d && i < domain->n; i++) vec_push(k->a, own, domain->v[i]);
  if (k->p->level > 0) {
    order_by_store(k, group, domain);
    for (uint32_t i = domain->n; i-- > 1;) merge_pair(k, group, domain, i - 1);
    if (sum) join_groups(k, group, domain);
  }
  if (d && !as_stated(k, d, domain)) {
    view_unbind(&k->e.view, nb);
    *domain = own;
    follow_order(k, d, group, domain);
  }
  kernel_record_vars(k, group, P_ORDER, domain);
}
void kernel_permute(kctx *k, const u32vec *group, u32vec *domain) {
  const directive *d = stated(k, group, P_ORDER);
  if (d) {
    const stated_order o = read_order(k, d, domain);
    if (o.ends.n != o.vars.n || o.split != UINT32_MAX) /* scratch has their layout */
      kernel_refuse(k, d, "the loops of a kernel of several nests are not collapsed or split");
    if (!EK_PLANTED("follow-order")) *domain = o.vars;
  }
  kernel_record_vars(k, group, P_ORDER, domain);
}
