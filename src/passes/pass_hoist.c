/* Where do reductions stand?
 *
 * Every reduction inside an expression becomes a stage of its own over exactly its free variables, so that afterwards a
 * stage is either one reduction or has none: bias, activation, normalisation never hide inside a reduction stage.
 * First, stages of a recurrence that read nothing of it leave it (their step variable becomes an ordinary index), and a
 * reduction inside a recurrence's stage that reads nothing of it leaves too: the product of all inputs with the weights
 * is one contraction in front of the loop. Reductions that do read it become stages of the recurrence.
 *
 * A reduction under a condition is then computed also where the condition fails: accesses of it that are not
 * provably in range get the `else` value 0, which nobody uses.
 * Needs simplified values; keeps everything.
 */
#include "passes/pass.h"

typedef struct hoist {
  pw *p;      /* the run of passes */
  uint32_t s; /* the stage being looked at */
  ex root;    /* its value when that is a reduction: stays */
  bool lazy;  /* something in the stage is evaluated conditionally */
  map *made;  /* reduction -> load of its stage */
  bool any;   /* something changed */
} hoist;

static ex guard_load(void *env, emodule *m, ex e) {
  pw *p = env;
  ex_node n = *exn(m, e);
  if (n.kind != EX_LOAD || n.otherwise) return e;
  for (uint32_t i = 0; i < n.nargs; i++)
    if (!in_range(p->c, n.args[i], xt(m, n.tensor)->shape[i]))
      return expr_load(m, n.tensor, n.args, n.nargs,
                       et_kind(n.type) == K_FLOAT ? expr_f(m, n.type, 0)
                       : n.type == ET_BOOL        ? expr_bool(m, false)
                                                  : expr_i(m, n.type, 0));
  return e;
}
static ex hoist_node(void *env, emodule *m, ex e) {
  hoist *h = env;
  pw *p = h->p;
  uint64_t made;
  ex_node n = *exn(m, e);
  if (n.kind != EX_REDUCE || e == h->root) return e;
  if (map_getu(h->made, e, &made)) return (ex)made;
  if (!pass_spend(p)) return e;
  const stage *x = xs(m, h->s);
  uint32_t sc = x->recurrence;
  ex value = h->lazy && !EK_PLANTED("hoist") ? expr_rewrite(m, e, &(ex_map){.node = guard_load, .env = p}) : e;
  bool inside = pass_reads_recurrence(p, value, sc);
  /* free variables: the stage's own digits in their order, then those of enclosing reductions */
  u32vec fv = {0}, own = {0}, vars = {0};
  expr_vars(m, value, p->a, &fv);
  stage_vars(m, h->s, p->a, &own);
  for (uint32_t i = 0; i < own.n; i++)
    for (uint32_t k = 0; k < fv.n; k++)
      if (fv.v[k] == own.v[i]) vec_push(p->a, vars, own.v[i]), fv.v[k] = 0;
  for (uint32_t k = 0; k < fv.n; k++)
    if (fv.v[k]) vec_push(p->a, vars, fv.v[k]);
  atom t = sc ? m->recurrences.v[sc].var : 0;
  if (inside && t) { /* the step variable stands first and is shared */
    bool has = false;
    for (uint32_t i = 0; i < vars.n; i++) has |= vars.v[i] == t;
    if (!has) return e; /* reads the recurrence at a fixed step: stays */
  }
  if (vars.n > MAX_RANK) return e;
  ex ld;
  pass_stage_over(p, h->s, vars.v, vars.n, value, "r", &ld);
  map_putu(h->made, e, ld);
  h->any = true;
  return ld;
}
static ex hoist_value(hoist *h, ex e, bool is_root) {
  pw *p = h->p;
  if (!e || !(ex_flags(p, e) & EXF_REDUCE)) return e;
  h->lazy = (ex_flags(p, e) & EXF_LAZY) != 0;
  ex_node n = *exn(p->m, e);
  ex_map f = {.node = hoist_node, .env = h};
  if (!is_root || n.kind != EX_REDUCE) {
    h->root = 0;
    return expr_rewrite(p->m, e, &f);
  }
  uint32_t inner = ex_flags(p, n.body) | ex_flags(p, n.where) | ex_flags(p, n.payload);
  if (!(inner & EXF_REDUCE)) return e;
  h->lazy = n.where || (inner & EXF_LAZY);
  ex where = n.where ? expr_rewrite(p->m, n.where, &f) : 0, body = expr_rewrite(p->m, n.body, &f),
     pay = n.payload ? expr_rewrite(p->m, n.payload, &f) : 0;
  return expr_reduce(p->m, n.op, n.args, n.nargs, where, body, pay, n.acc, n.type);
}
/* A recurrence's stage that reads nothing of it becomes an ordinary stage with a variable of its own; not where a
 * stage in front of it (seen) reads it, of the step before. */
static bool leave_recurrence(pw *p, uint32_t s, const u32vec *seen) {
  emodule *m = p->m;
  uint32_t sc = xs(m, s)->recurrence;
  const u32vec *l = stage_loads(p, s);
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t q = producer_of(m, exn(m, l->v[i])->tensor);
    if (q && xs(m, q - 1)->recurrence == sc && !EK_PLANTED("hoist-recurrence")) return false;
  }
  for (uint32_t i = 0; i < p->readers.v[xs(m, s)->tensor].n; i++)
    if (vec_has(seen, p->readers.v[xs(m, s)->tensor].v[i])) return false;
  if (!pass_spend(p)) return false;
  atom t = m->recurrences.v[sc].var;
  sz ext = m->recurrences.v[sc].extent, nv = t ? sym_var(p->c, sym_name(p->c, t), ext) : 0;
  atom na = 0;
  if (nv) sym_is_atom(p->c, nv, &na);
  stage *x = xs(m, s);
  x->recurrence = 0;
  if (!t) return true;
  for (uint32_t i = 0; i < x->naxes; i++)
    for (uint32_t k = 0; k < x->axes[i].n; k++)
      if (x->axes[i].d[k].var == t) {
        digit *d = arena_dup(m->a, x->axes[i].d, x->axes[i].n * sizeof *d);
        d[k].var = na;
        x->axes[i].d = d;
      }
  ex v = expr_subst_vars(m, x->value, &t, &nv, 1);
  xs(m, s)->value = v;
  pass_changed(p, s);
  return true;
}
bool pass_hoist(pw *p) {
  emodule *m = p->m;
  u32vec order = {0};
  bool any = false;
  pass_order(p, &order);
  u32vec seen = {0};
  for (uint32_t i = 0; i < order.n; i++) {
    if (!xs(m, order.v[i])->recurrence) continue;
    if (!xs(m, order.v[i])->updates.n) any |= leave_recurrence(p, order.v[i], &seen);
    vec_push(p->a, seen, order.v[i]);
  }
  hoist h = {.p = p};
  for (uint32_t i = 0; i < order.n; i++) {
    uint32_t s = order.v[i];
    h.s = s, h.made = map_new(p->a), h.any = false;
    ex v = xs(m, s)->value;
    bool plain = !xs(m, s)->updates.n;
    ex nv = hoist_value(&h, v, plain);
    if (nv != v) xs(m, s)->value = nv;
    for (uint32_t k = 0; k < xs(m, s)->updates.n; k++) { /* the variables of an update are free in its parts */
      update u = xs(m, s)->updates.v[k];
      u.value = hoist_value(&h, u.value, false), u.cond = hoist_value(&h, u.cond, false);
      xs(m, s)->updates.v[k].value = u.value, xs(m, s)->updates.v[k].cond = u.cond;
    }
    if (h.any) simplify_stage(p, s), pass_changed(p, s), any = true;
  }
  pass_flush(p);
  return any;
}
