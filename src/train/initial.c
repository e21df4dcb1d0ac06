/* What values does a training begin with? How a parameter is used says what it is, by the index formulas of the module
 * alone; how large its first values are follows from the sizes of the variables in them.
 *
 *   weight     multiplied, with variables that the other factors do not have: those of a sum that runs over it, or
 *              those of the result. A sum reads fan_in of its elements; an element of another factor meets fan_out.
 *   looked up  an index comes from data; `fan_out` elements are read at a time
 *   scale      multiplied element by element, unconditionally
 *   bias       added
 *   other      everything else, or different things
 *
 * Stages that do nothing but rename, move or convert elements are looked through. */
#include "train/train.h"
#include <math.h>
#include <string.h>

typedef struct factor {        /* what an expression is multiplied by */
  ex e;                        /* the value */
  const struct factor *before; /* the one before it; NULL: none */
} factor;
typedef struct place {     /* where an expression stands in the value of a stage */
  const factor *factors;   /* within the innermost sum */
  const struct place *sum; /* the sum around it; NULL: none */
  const ex_node *over;     /* that sum */
  bool added, chosen;      /* something is added to it; it counts only where a condition holds */
  bool other;              /* it divides, or decides */
} place;
typedef struct finder {
  emodule *m;     /* the module */
  arena *a;       /* memory */
  tid of;         /* the parameter */
  train_use use;  /* what was found so far */
  uint32_t found; /* number of uses */
} finder;

/* ---- one use --------------------------------------------------------------------------------- */
/* The load that a value is, but for conversions; 0: it is more than that. */
static ex load_in(const emodule *m, ex e) {
  while (e && exn(m, e)->kind == EX_OP && exn(m, e)->op == OP_CAST) e = exn(m, e)->args[0];
  return e && exn(m, e)->kind == EX_LOAD ? e : 0;
}
/* Does the stage do nothing but move elements? */
static bool moves(const emodule *m, const stage *s) {
  const ex load = load_in(m, s->value);
  return load && !expr_by_data(m, exn(m, load));
}
/* The element of the parameter that is read, through stages that only move elements; 0: something else is read. */
static ex element(const finder *f, ex load) {
  while (load && exn(f->m, load)->tensor != f->of) {
    const tensor *t = xt(f->m, exn(f->m, load)->tensor);
    if (t->kind != TK_STAGE || !moves(f->m, xs(f->m, t->stage))) return 0;
    load = load_in(f->m, expr_written_in(f->m, load));
  }
  return load;
}
/* Does it read the parameter, or (own false) something that is computed or given? */
static bool reads(const finder *f, ex e, bool own) {
  u32vec loads = {0};
  expr_loads(f->m, e, f->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++)
    if (own ? element(f, loads.v[i]) != 0 : xt(f->m, exn(f->m, loads.v[i])->tensor)->kind != TK_CONST) return true;
  return false;
}
static void variables(const finder *f, const ex_node *load, u32vec *out) {
  for (uint32_t i = 0; i < load->nargs; i++) sym_atoms(f->m->c, load->args[i], AT_VAR, f->a, out);
}
static double product_of(const finder *f, const u32vec *vars) {
  double n = 1;
  for (uint32_t i = 0; i < vars->n; i++) n *= (double)expr_typical(f->m, sym_extent(f->m->c, vars->v[i]));
  return n;
}
/* The variables of the parameter's element that no axis of the factors determines: an axis does where its index has no
 * other variables. */
static u32vec free_variables(const finder *f, const u32vec *own, const factor *k) {
  u32vec bound = {0}, rest = {0};
  for (; k; k = k->before) {
    u32vec loads = {0};
    expr_loads(f->m, k->e, f->a, &loads);
    for (uint32_t i = 0; i < loads.n; i++) {
      const ex_node *l = exn(f->m, loads.v[i]);
      for (uint32_t j = 0; j < l->nargs; j++) {
        u32vec v = {0};
        bool all = true;
        sym_atoms(f->m->c, l->args[j], AT_VAR, f->a, &v);
        for (uint32_t q = 0; q < v.n; q++) all &= vec_has(own, v.v[q]);
        for (uint32_t q = 0; q < v.n && all; q++) vec_push(f->a, bound, v.v[q]);
      }
    }
  }
  for (uint32_t i = 0; i < own->n; i++)
    if (!vec_has(&bound, own->v[i])) vec_push(f->a, rest, own->v[i]);
  return rest;
}
static u32vec summed_variables(const finder *f, const u32vec *own, const place *p) {
  u32vec found = {0};
  for (; p; p = p->sum)
    for (uint32_t i = EK_PLANTED("train-fan") ? 1 : 0; p->over && i < p->over->nargs; i++)
      if (vec_has(own, p->over->args[i])) vec_push(f->a, found, p->over->args[i]);
  return found;
}
static bool multiplies_own(const finder *f, const factor *k) {
  while (k && !reads(f, k->e, true)) k = k->before;
  return k != NULL;
}
static train_use use_at(const finder *f, ex load, const place *p) {
  const ex_node *n = exn(f->m, load);
  u32vec own = {0};
  train_use use = {.role = TRAIN_OTHER};
  variables(f, n, &own);
  if (p->other || multiplies_own(f, p->factors)) return use;
  if (expr_by_data(f->m, n)) {
    use.role = TRAIN_LOOKED_UP, use.fan_out = product_of(f, &own);
    return use;
  }
  const u32vec summed = summed_variables(f, &own, p), rest = free_variables(f, &own, p->factors);
  use.fan_in = product_of(f, &summed), use.fan_out = product_of(f, &rest);
  if (p->factors && (use.fan_in > 1 || use.fan_out > 1))
    use.role = TRAIN_WEIGHT;
  else if (use.fan_in == 1 && !p->chosen && !p->sum)
    use.role = p->factors ? TRAIN_SCALE : p->added ? TRAIN_BIAS : TRAIN_OTHER;
  return use;
}
/* A weight that is something else, too, such as the table of an embedding that is the last layer as well, is one. */
static void add_use(finder *f, const train_use *u) {
  const bool first = f->found++ == 0;
  if (!first && (f->use.role == TRAIN_WEIGHT || f->use.role == u->role)) return;
  if (first || u->role == TRAIN_WEIGHT)
    f->use = *u;
  else
    f->use = (train_use){.role = TRAIN_OTHER};
}

/* ---- all uses -------------------------------------------------------------------------------- */
static void look(finder *f, ex e, const place *p);
static void look_at_operands(finder *f, const ex_node *n, const place *p) {
  const place inside = {0};
  const bool scales = n->op == OP_MUL || n->op == OP_DIV, adds = n->op == OP_ADD || n->op == OP_SUB;
  const bool linear = scales || adds || n->op == OP_NEG || n->op == OP_CAST || n->op == OP_SEL;
  for (uint32_t i = 0; i < n->nargs; i++) {
    place below = *p;
    const factor other = {.e = scales ? n->args[i ? 0 : 1] : 0, .before = p->factors};
    if (scales && reads(f, other.e, false)) below.factors = &other;
    if (n->op == OP_DIV && i == 1) below.other = true;
    if (adds) below.added = true, below.factors = NULL;
    if (n->op == OP_SEL) below.chosen = true, below.other |= i == 0;
    look(f, n->args[i], linear ? &below : &inside);
  }
}
static void look(finder *f, ex e, const place *p) {
  if (!e || !reads(f, e, true)) return;
  const ex_node n = *exn(f->m, e);
  const ex own = n.kind == EX_LOAD ? element(f, e) : 0;
  if (own) {
    const train_use u = use_at(f, own, p);
    add_use(f, &u);
  } else if (n.kind == EX_OP)
    look_at_operands(f, &n, p);
  else if (n.kind == EX_REDUCE) {
    const place within = {.sum = p, .over = &n, .other = p->other || n.op != RED_SUM};
    look(f, n.body, &within);
  }
}
train_use train_use_of(emodule *m, tid t) {
  finder f = {.m = m, .a = m->a, .of = t};
  const place top = {0};
  for (uint32_t i = 0; i < m->stages.n; i++) {
    const stage *s = xs(m, i);
    if (s->dead || moves(m, s)) continue;
    look(&f, s->value, &top);
    for (uint32_t k = 0; k < s->updates.n; k++) {
      const place other = {.other = true};
      look(&f, xs(m, i)->updates.v[k].value, &other);
    }
  }
  return f.use;
}

/* ---- values ---------------------------------------------------------------------------------- */
/* Within 0 .. 1, without the ends. */
static double uniform(uint64_t stream, uint64_t i) { return ((double)(random_word(stream, i) >> 11) + 0.5) * 0x1p-53; }
static double normal(uint64_t stream, uint64_t i) { /* Box, Muller (1958) */
  return sqrt(-2 * log(uniform(stream, 2 * i))) * cos(6.283185307179586 * uniform(stream, 2 * i + 1));
}
static uint64_t stream_of(uint64_t seed, const char *name) {
  uint64_t h = random_word(seed, 0);
  for (; *name; name++) h = random_word(h, (uint8_t)*name);
  return h;
}
static bool all_equal(const ndarray *x, size_t n) {
  const size_t size = et_bytes(x->type);
  for (size_t i = 1; i < n; i++)
    if (memcmp(x->data, (const uint8_t *)x->data + i * size, size) != 0) return false;
  return true;
}
train_initial train_initial_of(ctx *c, const char *text) {
  static const char *const names[] = {"keep", "he", "xavier"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) return (train_initial)i;
  ctx_fail(c, E_USAGE, "init %s: he, xavier or keep is expected", text);
}
bool train_begin(const train_use *u, train_initial how, uint64_t seed, const char *name, const ndarray *now, void *to) {
  const size_t n = now->bytes / et_bytes(now->type);
  const uint64_t stream = stream_of(seed, name);
  const double limit = sqrt(6 / (u->fan_in + u->fan_out)), deviation = sqrt(2 / u->fan_in);
  if (u->role == TRAIN_OTHER || how == TRAIN_KEEP || (u->role == TRAIN_SCALE && all_equal(now, n))) return false;
  for (size_t i = 0; i < n; i++) {
    double x = u->role == TRAIN_SCALE ? 1 : 0;
    if (u->role == TRAIN_LOOKED_UP) x = normal(stream, i) / sqrt(u->fan_out);
    if (u->role == TRAIN_WEIGHT && how == TRAIN_HE) x = normal(stream, i) * deviation;
    if (u->role == TRAIN_WEIGHT && how == TRAIN_XAVIER) x = (2 * uniform(stream, i) - 1) * limit;
    et_store(now->type, (uint8_t *)to + i * et_bytes(now->type), (scalar){.f = x});
  }
  return true;
}
