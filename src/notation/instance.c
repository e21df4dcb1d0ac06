/* instance: how is a legal call of a definition guessed?
 *
 * 1. Attributes that stand in input dims are small numbers. 2. Inputs from left to right: unknown names of dims
 *   get sizes, unknown packs lengths 0..3; with some probability a pack is like an earlier
 * one (a suffix, places set to 1), so that broadcasts fit; dims that are formulas of known names are computed. An
 * attribute that marks an axis becomes the position. 3. Inputs whose values take part in shapes get axes, shapes of the
 * first input in another order, or small numbers. 4. The other attributes: the default, a literal of the body, lists as
 * long as the packs. 5. Elaboration is the judge. 6. What it refuses is guessed again with a symbol for each size: the
 * equations that elaboration then asks for (n == x0*x1, w*2 == h) say which sizes follow from others; the others are
 * drawn, and the same call is elaborated with these numbers.
 */
#include "notation/instance.h"
#include "notation/ast.h"
#include <string.h>

typedef struct named {
  const char *name; /* name of a size or pack */
  bool pack;        /* it is a pack */
  uint32_t n;       /* number of sizes: 1 without pack */
  sz d[MAX_RANK];   /* the sizes */
} named;
typedef enum pass { P_DIRECT, P_SYMBOLS, P_SOLVED } pass; /* sizes: drawn; symbols; what solves the equations */
typedef struct unknown {
  sz symbol;    /* the symbol that stands for it */
  int64_t size; /* 0: none found yet */
} unknown;
typedef struct guess {
  ctx *c;                  /* context */
  arena *a;                /* memory */
  const opdef *d;          /* the definition */
  opinst *o;               /* the instance that is made */
  opinst_opts opt;         /* what is wanted */
  uint64_t state;          /* state of the random numbers */
  VEC(named) env;          /* sizes and packs with a value */
  VEC(const char *) words; /* string literals of the body */
  VEC(int64_t) numbers;    /* integer literals of the body */
  bool given[OPINST_MAX];  /* attributes decided */
  etype tv[OPINST_MAX];    /* per type variable: the type chosen; ET_NONE: not yet */
  uint32_t list;           /* common length of attribute lists without a pack, 0: none */
  int64_t top;             /* integers are at most this */
  uint32_t serial;         /* sizes of one call are not those of another: what one call makes equal would stay equal */
  const oplib *lib;        /* the library */
  VEC(const fndef *) fns;  /* functions whose literals were read */
  pass pass;               /* how sizes are chosen now */
  uint64_t seed;           /* seed of the instance */
  VEC(unknown) unknowns;   /* one for each size asked for, in order; empty in P_DIRECT */
  uint32_t asked;          /* sizes asked for so far */
} guess;

static uint32_t rnd(guess *g, uint32_t n) {
  g->state = g->state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(g->state >> 33) % n : 0;
}
static bool chance(guess *g, uint32_t percent) { return rnd(g, 100) < percent; }

/* ---- literals -------------------------------------------------------------------------------- */
static void block_words(guess *g, const blk *b);
static void words(guess *g, const ast *e) {
  if (!e) return;
  if (e->kind == A_STR) vec_push(g->a, g->words, e->name);
  if (e->kind == A_INT) vec_push(g->a, g->numbers, e->k.i);
  for (int i = 0; i < 3; i++) words(g, e->kid[i]);
  for (uint32_t i = 0; i < e->nel; i++) words(g, e->el[i].e);
  for (uint32_t i = 0; i < e->nkw; i++) words(g, e->kw[i].e);
  const fndef *f = e->kind == A_CALL ? lib_fn(g->lib, g->d->file, e->name) : NULL;
  for (uint32_t i = 0; f && i < g->fns.n; i++)
    if (g->fns.v[i] == f) f = NULL;
  if (f) {
    vec_push(g->a, g->fns, f);
    words(g, f->body);
  }
}
static void block_words(guess *g, const blk *b) {
  for (uint32_t i = 0; b && i < b->n; i++) {
    const stmt *s = b->s[i];
    if (s->kind != ST_REQUIRE) words(g, s->e);
    words(g, s->cond);
    if (s->fn) words(g, s->fn->body);
    for (uint32_t k = 0; k < s->nlist; k++) words(g, s->list[k]);
    block_words(g, s->body), block_words(g, s->other);
  }
}
static bool mentions(const ast *e, const char *name) {
  if (!e) return false;
  if (e->kind == A_NAME && e->name == name) return true;
  for (int i = 0; i < 3; i++)
    if (mentions(e->kid[i], name)) return true;
  for (uint32_t i = 0; i < e->nel; i++)
    if (mentions(e->el[i].e, name)) return true;
  return false;
}
static bool is_type_code(const ast *e, const char *attr) { /* onnx_type(attr) somewhere */
  if (!e) return false;
  if (e->kind == A_CALL && !strcmp(e->name, "onnx_type") && e->nel == 1 && mentions(e->el[0].e, attr)) return true;
  for (int i = 0; i < 3; i++)
    if (is_type_code(e->kid[i], attr)) return true;
  for (uint32_t i = 0; i < e->nel; i++)
    if (is_type_code(e->el[i].e, attr)) return true;
  return false;
}
static bool is_equation(const ast *e, const char *attr) { /* einsum_plan(attr, ..) somewhere */
  if (!e) return false;
  if (e->kind == A_CALL && !strcmp(e->name, "einsum_plan") && e->nel && mentions(e->el[0].e, attr)) return true;
  for (int i = 0; i < 3; i++)
    if (is_equation(e->kid[i], attr)) return true;
  return false;
}
static bool block_equation(const blk *b, const char *attr) {
  for (uint32_t i = 0; b && i < b->n; i++)
    if (is_equation(b->s[i]->e, attr)) return true;
  return false;
}
static bool block_type_code(const blk *b, const char *attr) {
  for (uint32_t i = 0; b && i < b->n; i++)
    if (is_type_code(b->s[i]->e, attr) || block_type_code(b->s[i]->body, attr) || block_type_code(b->s[i]->other, attr))
      return true;
  return false;
}

typedef enum use { U_UNKNOWN, U_LIST, U_ONE } use;
static bool is_name(const ast *e, const char *name) { return e && e->kind == A_NAME && e->name == name; }
/* What `name` must be: a list, where its length is asked for, a place of it or a tensor made of it; one value, where
 * it is compared with a word. */
static use use_of(const ast *e, const char *name) {
  if (!e) return U_UNKNOWN;
  if ((e->kind == A_ACCESS || e->kind == A_SLICE) && is_name(e->kid[0], name)) return U_LIST;
  if (e->kind == A_CALL && e->nel == 1 && is_name(e->el[0].e, name) &&
      (!strcmp(e->name, "len") || !strcmp(e->name, "tensor")))
    return U_LIST;
  if (e->kind == A_BIN && binop_compares(e->op))
    for (int i = 0; i < 2; i++)
      if (is_name(e->kid[i], name) && e->kid[1 - i]->kind == A_STR) return U_ONE;
  use u = U_UNKNOWN;
  for (int i = 0; i < 3 && !u; i++) u = use_of(e->kid[i], name);
  for (uint32_t i = 0; i < e->nel && !u; i++) u = use_of(e->el[i].e, name);
  for (uint32_t i = 0; i < e->nkw && !u; i++) u = use_of(e->kw[i].e, name);
  return u;
}
static use block_use(const blk *b, const char *name) {
  use u = U_UNKNOWN;
  for (uint32_t i = 0; b && i < b->n && !u; i++) {
    const stmt *s = b->s[i];
    u = use_of(s->e, name);
    if (!u) u = use_of(s->cond, name);
    if (!u && s->fn) u = use_of(s->fn->body, name);
    for (uint32_t k = 0; k < s->nlist && !u; k++) u = use_of(s->list[k], name);
    if (!u) u = block_use(s->body, name);
    if (!u) u = block_use(s->other, name);
  }
  return u;
}

/* ---- element types --------------------------------------------------------------------------- */
static etype pick_type(guess *g, uint32_t mask) {
  mask &= ((1u << ET_COUNT) - 2) & ~(g->opt.strings ? 0 : 1u << ET_STR);
  if (mask & g->opt.types)
    mask &= g->opt.types;
  else if (g->opt.symbolic && (mask >> ET_I64 & 1))
    return ET_I64;
  uint32_t n = (uint32_t)__builtin_popcount(mask);
  if (!n) return ET_F32;
  uint32_t k = rnd(g, n);
  for (int t = 1; t < ET_COUNT; t++)
    if ((mask >> t & 1) && !k--) return (etype)t;
  return ET_F32;
}
/* The number of the definition's type variable of that name; OPINST_MAX: there is none. types: those that it may be. */
static uint32_t type_variable(const guess *g, const char *name, uint32_t *types) {
  uint32_t m;
  for (uint32_t i = 0; i < g->d->ntv && i < OPINST_MAX; i++) {
    const tvar *v = &g->d->tv[i];
    if (v->name != name) continue;
    *types = v->nsets ? 0 : ~0u;
    for (uint32_t j = 0; j < v->nsets; j++)
      if (elem_set(v->sets[j], &m)) *types |= m;
    return i;
  }
  return OPINST_MAX;
}
static etype type_of(guess *g, const char *elem) {
  uint32_t types, i = type_variable(g, elem, &types);
  if (i == OPINST_MAX) return elem_set(elem, &types) ? pick_type(g, types) : ET_F32;
  if (!g->tv[i]) g->tv[i] = pick_type(g, types);
  return g->tv[i];
}

/* ---- names ----------------------------------------------------------------------------------- */
static named *known(guess *g, const char *name) {
  for (uint32_t i = 0; i < g->env.n; i++)
    if (g->env.v[i].name == name) return &g->env.v[i];
  return NULL;
}
static int64_t some_size(guess *g) {
  if (g->opt.empty && chance(g, 12)) return 0;
  if (g->opt.sizes && chance(g, 50)) return 1 + rnd(g, g->opt.sizes);
  return 1 + rnd(g, chance(g, 20) ? 6 : 3);
}
static sz new_size(guess *g, const char *name) {
  if (g->opt.symbolic) return sym_symbol(g->c, arena_fmt(g->a, "%s__%u", name, g->serial), 1, 1000000);
  if (g->pass == P_SYMBOLS) {
    unknown u = {.symbol = sym_fresh(g->c, name, 1, 1000000)};
    vec_push(g->a, g->unknowns, u);
    return u.symbol;
  }
  if (g->pass == P_SOLVED && g->asked < g->unknowns.n) return sym_int(g->c, g->unknowns.v[g->asked++].size);
  return sym_int(g->c, some_size(g));
}
static named *bind_size(guess *g, const char *name) {
  named n = {.name = name, .n = 1};
  n.d[0] = new_size(g, name);
  vec_push(g->a, g->env, n);
  return &g->env.v[g->env.n - 1];
}
static named *bind_pack(guess *g, const char *name, uint32_t others) {
  named n = {.name = name, .pack = true};
  const named *like = NULL;
  if (chance(g, 60))
    for (uint32_t i = 0; i < g->env.n; i++)
      if (g->env.v[i].pack && (!like || chance(g, 50))) like = &g->env.v[i];
  if (like) {
    uint32_t skip = chance(g, 30) ? rnd(g, like->n + 1) : 0;
    for (uint32_t i = skip; i < like->n; i++) n.d[n.n++] = chance(g, 20) ? sym_int(g->c, 1) : like->d[i];
    if (n.n && chance(g, 25)) n.d[rnd(g, n.n)] = new_size(g, arena_fmt(g->a, "%s%u", name, n.n));
  } else {
    n.n = g->opt.symbolic ? (others >= 2     ? 2
                             : others        ? 1
                             : chance(g, 60) ? 2
                                             : 3 + rnd(g, 2))
          : others >= 2   ? (chance(g, 15) ? 0 : 1 + rnd(g, 2))
                          : rnd(g, others ? 3 : 5);
    for (uint32_t i = 0; i < n.n; i++) n.d[i] = new_size(g, arena_fmt(g->a, "%s%u", name, i));
  }
  vec_push(g->a, g->env, n);
  return &g->env.v[g->env.n - 1];
}
static const sattr *given_attr(guess *g, const char *name) {
  for (uint32_t i = 0; i < g->o->nattr; i++)
    if (!strcmp(g->o->attr[i].name, name)) return &g->o->attr[i];
  return NULL;
}
static sz dim_value(guess *g, const ast *e) { /* The value of a dim; 0: not known. */
  named *n;
  sz a, b;
  switch (e->kind) {
  case A_INT:
    return sym_int(g->c, e->k.i);
  case A_NAME: {
    const sattr *at = given_attr(g, e->name);
    if (at) return at->kind == SK_INT ? sym_int(g->c, at->i) : 0;
    for (uint32_t i = 0; i < g->d->nattr; i++)
      if (g->d->attr[i].name == e->name) return g->d->attr[i].def ? dim_value(g, g->d->attr[i].def) : 0;
    if (!(n = known(g, e->name))) n = bind_size(g, e->name);
    return n->pack ? 0 : n->d[0];
  }
  case A_BIN:
    a = dim_value(g, e->kid[0]), b = dim_value(g, e->kid[1]);
    if (!a || !b) return 0;
    if (e->op == BO_ADD) return sym_add(g->c, a, b);
    if (e->op == BO_SUB) return sym_sub(g->c, a, b);
    if (e->op == BO_MUL) return sym_mul(g->c, a, b);
    return 0;
  default:
    return 0;
  }
}

/* ---- attributes ------------------------------------------------------------------------------ */
static sattr *put_attr(guess *g, uint32_t i) {
  sattr *s = &g->o->attr[g->o->nattr++];
  *s = (sattr){.name = g->d->attr[i].name};
  g->given[i] = true;
  return s;
}
static int64_t some_int(guess *g) {
  if (g->numbers.n && chance(g, 30)) return g->numbers.v[rnd(g, g->numbers.n)];
  return (int64_t)rnd(g, (uint32_t)g->top + 1) - (chance(g, 15) ? 1 : 0);
}
/* A few characters: letters, digits, blanks, some of more than one byte, some that stand for others in a pattern. */
static const char *made_word(guess *g) {
  static const char *const letters[] = {"a", "b", "A",      "B",      "s",      "x", "1",
                                        "2", " ", "\u00e9", "\u03a3", "\u00df", ".", "+"};
  sbuf b = sbuf_new(g->a);
  const uint32_t kinds = chance(g, 50) ? 4 : 14;
  for (uint32_t n = rnd(g, 5); n; n--) sb_put(&b, letters[rnd(g, kinds)]);
  return b.n ? b.s : "";
}
static const char *some_word(guess *g) {
  if (g->words.n && !chance(g, 15)) return g->words.v[rnd(g, g->words.n)];
  return g->opt.strings && chance(g, 50) ? made_word(g) : "other";
}
static bytes *string_array(guess *g, size_t n) {
  bytes *b = NEWN(g->a, bytes, n + 1);
  for (size_t i = 0; i < n; i++) {
    const char *s = chance(g, 40) ? some_word(g) : made_word(g);
    b[i] = (bytes){(const uint8_t *)s, strlen(s)};
  }
  return b;
}
static double some_float(guess *g) { /* as files hold it, in f32 */
  return chance(g, 30) ? (double)rnd(g, 3) : (double)(float)(0.1 + 0.05 * rnd(g, 30));
}
static void int_list(guess *g, sattr *s, uint32_t n, int64_t least, bool order) {
  int64_t *v = NEWN(g->a, int64_t, n + 1);
  for (uint32_t k = 0; k < n; k++)
    v[k] = order ? (int64_t)k : least + (chance(g, 40) ? 0 : rnd(g, (uint32_t)g->top + 1));
  for (uint32_t k = n; order && k-- > 1;) {
    uint32_t q = rnd(g, k + 1);
    int64_t t = v[k];
    v[k] = v[q], v[q] = t;
  }
  s->kind = SK_INTS, s->n = n, s->ints = v;
}
static uint32_t pack_length(guess *g, bool pick) {
  uint32_t best = 0, seen = 0;
  for (uint32_t i = 0; i < g->env.n; i++)
    if (g->env.v[i].pack && !rnd(g, ++seen)) best = g->env.v[i].n;
  if (g->list && chance(g, 80)) return g->list;
  return pick && seen && chance(g, 75) ? best : g->o->nin && chance(g, 50) ? g->o->in[0].rank : rnd(g, 4);
}
static void guess_attr(guess *g, uint32_t i) {
  const param *p = &g->d->attr[i];
  const char *k = p->type.elem;
  bool str = !strcmp(k, "str"), flt = !strcmp(k, "float"), in = !strcmp(k, "int");
  bool usual = g->opt.symbolic || g->pass != P_DIRECT; /* the attribute is left out more often than not */
  if (p->def && chance(g, usual ? 90 : 45)) return;
  if (p->optional && !p->def && chance(g, usual ? 80 : 50)) return;
  if (p->nper) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < p->nper; j++) {
      named *q = known(g, p->per[j]);
      n += q ? q->n : 0;
    }
    int64_t least = p->def && p->def->kind == A_INT ? p->def->k.i : 1;
    int_list(g, put_attr(g, i), n, least, false);
    return;
  }
  if (!str && !flt && !in) { /* a tensor */
    sattr *s = put_attr(g, i);
    ndarray *nd = NEW(g->a, ndarray);
    etype t = type_of(g, k);
    uint32_t n = g->list ? g->list : 1 + rnd(g, 3);
    *nd = (ndarray){.type = t, .rank = p->type.ranked ? p->type.n : 1};
    for (uint32_t j = 0; j < nd->rank && j < MAX_RANK; j++) nd->dims[j] = n;
    for (uint32_t j = 1; j < nd->rank; j++) nd->dims[j] = 1;
    if (!nd->rank) n = 1;
    s->kind = SK_TENSOR, s->tensor = nd;
    if (t == ET_STR) {
      nd->data = string_array(g, n), nd->bytes = n * sizeof(bytes);
      return;
    }
    nd->bytes = (size_t)n * et_bytes(t);
    uint8_t *bytes = arena_alloc(g->a, nd->bytes + 16);
    for (uint32_t j = 0; j < n; j++)
      et_store(t, bytes + j * et_bytes(t),
               et_kind(t) == K_FLOAT ? (scalar){.f = some_float(g)} : (scalar){.i = rnd(g, (uint32_t)g->top + 1)});
    nd->data = bytes;
    return;
  }
  bool tuple = p->def && p->def->kind == A_TUPLE,
       none = !p->def || (p->def->kind == A_NAME && !strcmp(p->def->name, "none")),
       list = tuple || (none && chance(g, 50));
  use u = block_use(g->d->body, p->name);
  if (none && u) list = u == U_LIST;
  sattr *s = put_attr(g, i);
  uint32_t n = tuple && chance(g, 50) ? p->def->nel : pack_length(g, true);
  if (in) {
    if (block_type_code(g->d->body, p->name)) {
      s->kind = SK_INT,
      s->i = et_to_onnx(pick_type(
          g, chance(g, 30) ? 1u << ET_F32 | 1u << ET_F64 | 1u << ET_I64 | 1u << ET_I32 | 1u << ET_BOOL : ~0u));
    } else if (list)
      int_list(g, s, n, g->opt.symbolic ? 2 : chance(g, 70) ? 1 : 0, !g->opt.symbolic && chance(g, 40));
    else
      s->kind = SK_INT, s->i = some_int(g);
  } else if (flt) {
    s->kind = list ? SK_FLOATS : SK_FLOAT, s->f = some_float(g), s->n = n;
    double *v = NEWN(g->a, double, n + 1);
    for (uint32_t j = 0; j < n; j++) v[j] = some_float(g);
    s->floats = v;
  } else if (block_equation(g->d->body, p->name)) { /* one letter an axis; some of them stay */
    sbuf b = sbuf_new(g->a);
    for (uint32_t j = 0; j < g->o->nin; j++) {
      if (j) sb_putc(&b, ',');
      for (uint32_t q = 0; q < g->o->in[j].rank; q++) sb_putc(&b, (char)('a' + rnd(g, 4)));
    }
    sbuf l = sbuf_new(g->a);
    for (char ch = 'd'; ch >= 'a'; ch--)
      if (b.n && strchr(b.s, ch) && chance(g, 60)) sb_putc(&l, ch);
    s->kind = SK_STRING, s->s = arena_fmt(g->a, "%s->%s", b.n ? b.s : "", l.n ? l.s : "");
  } else {
    s->kind = list ? SK_STRINGS : SK_STRING, s->s = some_word(g), s->n = n;
    const char **v = NEWN(g->a, const char *, n + 1);
    for (uint32_t j = 0; j < n; j++) v[j] = some_word(g);
    s->strings = v;
  }
}
/* Attributes that dims are made of. */
static void attrs_in_dims(guess *g) {
  for (uint32_t i = 0; i < g->d->nattr && i < OPINST_MAX; i++) {
    bool used = false;
    for (uint32_t j = 0; j < g->d->nin; j++)
      for (uint32_t k = 0; k < g->d->in[j].type.n; k++)
        used |= mentions(g->d->in[j].type.dims[k].e, g->d->attr[i].name);
    if (!used || (g->d->attr[i].def && chance(g, 40))) continue;
    sattr *s = put_attr(g, i);
    s->kind = SK_INT, s->i = 1 + rnd(g, 3);
  }
}

/* ---- inputs ---------------------------------------------------------------------------------- */
static void mark_axis(guess *g, const ast *at, uint32_t pos, uint32_t rank) {
  for (uint32_t i = 0; i < g->d->nattr && i < OPINST_MAX; i++) {
    if (at->kind != A_NAME || g->d->attr[i].name != at->name || g->given[i]) continue;
    sattr *s = put_attr(g, i);
    s->kind = SK_INT, s->i = chance(g, 50) ? (int64_t)pos : (int64_t)pos - (int64_t)rank;
  }
}
static void shape_like(guess *g, const param *p, sz *shape, uint32_t *rank) {
  uint32_t n = 0, others = 0, from[MAX_RANK] = {0};
  for (uint32_t i = 0; i < p->type.n; i++) others += p->type.dims[i].e && !p->type.dims[i].splat;
  for (uint32_t i = 0; i < p->type.n && n < MAX_RANK; i++) {
    const elem *q = &p->type.dims[i];
    from[i] = n;
    if (!q->e) continue;
    if (!q->splat) {
      if (q->fixed && q->e->kind == A_NAME && !known(g, q->e->name))
        bind_size(g, q->e->name)->d[0] = sym_int(g->c, 1 + rnd(g, 2));
      sz d = dim_value(g, q->e);
      if (!d) d = new_size(g, "n");
      shape[n++] = q->tilde && chance(g, 25) ? sym_int(g->c, 1) : d;
      continue;
    }
    named *k = q->e->kind == A_NAME ? known(g, q->e->name) : NULL;
    if (!k && q->e->kind == A_NAME) k = bind_pack(g, q->e->name, others);
    uint32_t skip = k && q->tilde && chance(g, 40) ? rnd(g, k->n + 1) : 0, m = k ? k->n : rnd(g, 3);
    for (uint32_t j = skip; j < m && n < MAX_RANK; j++)
      shape[n++] = q->tilde && chance(g, 20) ? sym_int(g->c, 1) : k ? k->d[j] : new_size(g, "n");
  }
  for (uint32_t i = 0; i < p->type.n; i++)
    if (p->type.dims[i].at) mark_axis(g, p->type.dims[i].at, from[i], n);
  *rank = n;
}
static void any_shape(guess *g, const param *p, sz *shape, uint32_t *rank, const arg *like) {
  if (like && chance(g, 85)) {
    *rank = like->rank;
    for (uint32_t i = 0; i < *rank; i++) shape[i] = chance(g, 10) ? sym_int(g->c, 1) : like->shape[i];
    if (*rank && chance(g, 35)) shape[rnd(g, *rank)] = new_size(g, arena_fmt(g->a, "%sx", p->name));
    if (*rank && chance(g, 10)) (*rank)--, memmove(shape, shape + 1, *rank * sizeof *shape);
    return;
  }
  *rank = g->opt.symbolic ? 2 : p->isdims || p->optional ? (chance(g, 70) ? 0 : 1) : rnd(g, 4);
  for (uint32_t i = 0; i < *rank; i++)
    shape[i] = p->isdims || p->optional ? sym_int(g->c, 1) : new_size(g, arena_fmt(g->a, "%s%u", p->name, i));
}
/* ---- inputs that are tensors of the caller --------------------------------------------------- */
/* May an input of this element type be of type t? slot: the type variable that this decides; OPINST_MAX: none. */
static bool takes_type(const guess *g, const char *elem, etype t, uint32_t *slot) {
  uint32_t types, i = type_variable(g, elem, &types);
  *slot = OPINST_MAX;
  if (i == OPINST_MAX) return elem_set(elem, &types) && (types >> t & 1);
  if (g->tv[i]) return g->tv[i] == t;
  *slot = i;
  return types >> t & 1;
}
/* How many axes of a shape of this rank each entry of a type stands for: what is known keeps its length, the first
 * other pack takes the rest. */
static bool spans(guess *g, const param *p, uint32_t rank, uint32_t *span) {
  uint32_t used = 0, open = p->type.n;
  for (uint32_t i = 0; i < p->type.n; i++) {
    const elem *q = &p->type.dims[i];
    const named *k = q->splat && q->e && q->e->kind == A_NAME ? known(g, q->e->name) : NULL;
    span[i] = !q->splat ? q->e != NULL : k ? k->n : 0;
    if (q->splat && !k) {
      if (open == p->type.n) open = i;
      span[i] = 0;
    }
    used += span[i];
  }
  if (used > rank || (used < rank && open == p->type.n)) return false;
  if (open < p->type.n) span[open] = rank - used;
  return true;
}
/* Binds the names of a type to the sizes of a shape; false: it does not fit. */
static bool bind_shape(guess *g, const param *p, const sz *shape, uint32_t rank) {
  uint32_t span[MAX_RANK], at = 0, from[MAX_RANK];
  if (p->type.n > MAX_RANK || !spans(g, p, rank, span)) return false;
  for (uint32_t i = 0; i < p->type.n; at += span[i++]) {
    const elem *q = &p->type.dims[i];
    from[i] = at;
    if (!q->e) continue;
    if (q->e->kind != A_NAME) {
      if (q->splat || dim_value(g, q->e) != shape[at]) return false;
      continue;
    }
    const named *k = known(g, q->e->name);
    if (!k && !given_attr(g, q->e->name)) {
      named n = {.name = q->e->name, .pack = q->splat, .n = span[i]};
      for (uint32_t j = 0; j < span[i]; j++) n.d[j] = shape[at + j];
      vec_push(g->a, g->env, n);
    } else
      for (uint32_t j = 0; j < span[i]; j++)
        if ((k ? k->d[j] : dim_value(g, q->e)) != shape[at + j] && !(q->tilde && shape[at + j] == sym_int(g->c, 1)))
          return false;
  }
  for (uint32_t i = 0; i < p->type.n; i++)
    if (p->type.dims[i].at) mark_axis(g, p->type.dims[i].at, from[i], rank);
  return true;
}
/* Input k becomes an input of the module: strings as their bytes, one axis more. */
static void input_tensor(opinst *o, uint32_t k, const char *name) {
  arg *a = &o->in[k];
  const bool text = a->type == ET_STR;
  a->t = expr_tensor(o->m, TK_INPUT, text ? ET_U8 : a->type, a->shape, a->rank + text, name, NULL);
  vec_push(o->m->a, o->m->inputs, ((io){a->t, xt(o->m, a->t)->name}));
}
/* Takes one of the offers for input k, if one of a few drawn fits. */
static bool take_offer(guess *g, const param *p, uint32_t k) {
  opinst *o = g->o;
  uint32_t slot;
  for (uint32_t turn = 0; turn < 8 && g->opt.noffers; turn++) {
    const uint32_t n = rnd(g, g->opt.noffers), names = g->env.n;
    const arg *have = &g->opt.offers[n];
    if (!takes_type(g, p->type.elem, have->type, &slot)) continue;
    if (p->type.ranked && !bind_shape(g, p, have->shape, have->rank)) {
      g->env.n = names;
      continue;
    }
    if (slot < OPINST_MAX) g->tv[slot] = have->type;
    o->in[k] = (arg){.present = true, .type = have->type, .rank = have->rank, .shape = have->shape};
    input_tensor(o, k, p->name);
    o->from[k] = n + 1;
    return true;
  }
  return false;
}
/* Contents that shapes hang on. */
static uint32_t dims_values(guess *g, int64_t *v, uint32_t fixed, bool is_fixed) {
  const arg *x = g->o->nin && g->o->in[0].present ? &g->o->in[0] : NULL;
  uint32_t r = x ? x->rank : rnd(g, 3), n;
  switch (rnd(g, 6)) {
  case 0: /* some axes */
    n = 0;
    for (uint32_t i = 0; i < r; i++)
      if (chance(g, 60)) v[n++] = (int64_t)i - (chance(g, 30) ? (int64_t)r : 0);
    break;
  case 1: /* the same elements in another shape */
  case 2:
    n = 0;
    for (uint32_t i = 0; i < r; i++) v[n++] = sym_int_or(g->c, x ? x->shape[i] : 0, 2);
    for (uint32_t i = n; i-- > 1;) {
      uint32_t q = rnd(g, i + 1);
      int64_t t = v[i];
      v[i] = v[q], v[q] = t;
    }
    if (n > 1 && chance(g, 40)) v[n - 2] *= v[n - 1], n--;
    if (n && chance(g, 30)) v[rnd(g, n)] = -1;
    if (n && chance(g, 20)) v[n++] = 1;
    break;
  default:
    n = chance(g, 30) ? 2 * r : chance(g, 60) ? r : rnd(g, 4);
    for (uint32_t i = 0; i < n; i++) v[i] = (int64_t)rnd(g, chance(g, 20) ? 6 : 4) - (chance(g, 10) ? 2 : 0);
  }
  if (is_fixed) {
    for (uint32_t i = n; i < fixed; i++) v[i] = rnd(g, 4);
    n = fixed;
  }
  return n;
}
static ndarray array(guess *g, etype t, uint32_t rank, const int64_t *dims) {
  ndarray nd = {.type = t, .rank = rank};
  size_t n = 1;
  for (uint32_t i = 0; i < rank; i++) nd.dims[i] = dims[i], n *= (size_t)dims[i];
  nd.bytes = n * et_bytes(t);
  nd.data = arena_alloc(g->a, nd.bytes + 16);
  return nd;
}
/* Floats in one of a few ranges, evenly spread in random order: under a small step no winner changes. Integers from
 * low to high. */
static void fill_numbers(guess *g, uint32_t range, int64_t low, int64_t high, ndarray *nd) {
  static const double ranges[][2] = {{-1, 1}, {0.2, 1.5}, {-0.8, 0.8}, {1.2, 2.5}, {-3, 3}, {0, 4}};
  const double *r = ranges[range % 6];
  uint8_t *b = (uint8_t *)(uintptr_t)nd->data;
  uint32_t w = et_bytes(nd->type), n = (uint32_t)(nd->bytes / w);
  uint32_t *at = NEWN(g->a, uint32_t, n + 1);
  for (uint32_t i = 0; i < n; i++) at[i] = i;
  for (uint32_t i = n; i-- > 1;) {
    uint32_t q = rnd(g, i + 1), t = at[i];
    at[i] = at[q], at[q] = t;
  }
  double shift = 0.2 + 0.006 * rnd(g, 100);
  for (uint32_t i = 0; i < n; i++) {
    scalar s;
    if (et_kind(nd->type) == K_FLOAT)
      s.f = r[0] + (r[1] - r[0]) * (at[i] + shift) / n;
    else if (et_kind(nd->type) == K_BOOL)
      s.i = rnd(g, 2);
    else
      s.i = low + (high >= low ? (int64_t)rnd(g, (uint32_t)(high - low + 1)) : 0);
    et_store(nd->type, b + (size_t)i * w, s);
  }
}
/* Contents of input k. */
static void fill(guess *g, const param *p, uint32_t k) {
  ndarray *nd = &g->o->data[k];
  uint32_t r = rnd(g, 6);
  if (chance(g, 50)) r = 0;
  int64_t low = 0, high = chance(g, 50) ? 1 : g->top;
  g->o->high[k] = 3;
  if (p->hi) { /* the signature restricts the data */
    uint32_t bound = g->env.n;
    sz lo = p->lo ? (p->lo->kind == A_NEG ? 0 : dim_value(g, p->lo)) : 0, hi = dim_value(g, p->hi);
    g->env.n = bound;
    high = hi ? sym_int_or(g->c, hi, 1) - 1 : 0;
    low = lo ? sym_int_or(g->c, lo, 0) : -high - 1;
  }
  if (et_kind(nd->type) == K_UINT && low < 0) low = 0;
  if (p->hi) g->o->low[k] = low, g->o->high[k] = high;
  fill_numbers(g, r, low, high, nd);
}
/* Strings of at most `width` bytes, zeros behind their ends. */
static void fill_words(guess *g, ndarray *nd, uint32_t width) {
  uint8_t *b = (uint8_t *)(uintptr_t)nd->data;
  const size_t n = nd->bytes / width;
  const bytes *s = string_array(g, n);
  memset(b, 0, nd->bytes);
  for (size_t i = 0; i < n; i++) {
    size_t k = s[i].n < width ? s[i].n : width;
    while (k && k < s[i].n && (s[i].p[k] & 0xc0) == 0x80) k--; /* no part of a character */
    memcpy(b + i * width, s[i].p, k);
  }
}
static void guess_input(guess *g, const param *p, const arg *like) {
  opinst *o = g->o;
  uint32_t k = o->nin++, rank = 0;
  sz shape[MAX_RANK + 2];
  int64_t dims[MAX_RANK], values[64];
  arg *a = &o->in[k];
  *a = (arg){0};
  if ((p->optional || p->def) && chance(g, g->opt.symbolic ? 85 : 40)) return;
  if (!p->isdims && g->opt.noffers && g->pass == P_DIRECT && take_offer(g, p, k)) return;
  etype t = type_of(g, p->type.elem);
  if (p->isdims) {
    const elem *q = p->type.n == 1 ? &p->type.dims[0] : NULL;
    named *have = q && q->e && q->e->kind == A_NAME ? known(g, q->e->name) : NULL;
    bool fixed = have || !q || !q->e || q->e->kind != A_NAME;
    uint32_t len = 1;
    if (p->type.ranked && p->type.n == 1) rank = 1;
    if (have) {
      rank = have->pack ? have->n : 1;
      for (uint32_t i = 0; i < rank; i++) len *= (uint32_t)sym_int_or(g->c, have->d[i], 1);
      if (rank > 1) rank = 1;
    } else if (q && q->e && q->e->kind == A_INT)
      len = (uint32_t)q->e->k.i;
    if (len > 40) len = 40;
    uint32_t n = dims_values(g, values, len, fixed);
    if (!have && q && q->e && q->e->kind == A_NAME) {
      if (q->splat && chance(g, 15) && n) n = 1, rank = 0;
      named b = {.name = q->e->name, .pack = q->splat, .n = rank};
      b.d[0] = sym_int(g->c, n);
      vec_push(g->a, g->env, b);
    }
    shape[0] = sym_int(g->c, n), dims[0] = n;
    o->data[k] = array(g, t, rank, dims);
    sz *vals = NEWN(g->a, sz, n + 1);
    double *fl = NEWN(g->a, double, n + 1);
    static const double factors[] = {0.5, 1, 1.5, 2, 2.5, 0.7, 3};
    for (uint32_t i = 0; i < n; i++) {
      uint8_t *to = (uint8_t *)(uintptr_t)o->data[k].data + i * et_bytes(t);
      et_store(t, to,
               et_kind(t) == K_FLOAT  ? (scalar){.f = factors[rnd(g, 7)]}
               : et_kind(t) == K_BOOL ? (scalar){.i = values[i] & 1}
                                      : (scalar){.i = values[i]});
      const scalar have = et_load(t, to); /* a type may not hold what was drawn */
      if (et_kind(t) == K_FLOAT)
        fl[i] = have.f;
      else
        vals[i] = sym_int(g->c, have.i);
    }
    tid c = expr_const_tensor(o->m, &o->data[k], p->name);
    *a = (arg){.present = true, .type = t, .rank = rank, .shape = xt(o->m, c)->shape, .t = c};
    if (et_kind(t) == K_FLOAT)
      a->floats = fl;
    else
      a->values = vals;
    return;
  }
  if (p->type.ranked)
    shape_like(g, p, shape, &rank);
  else
    any_shape(g, p, shape, &rank, like);
  const uint32_t width = t == ET_STR ? 1 + rnd(g, chance(g, 50) ? 3 : 8) : 0;
  shape[rank] = sym_int(g->c, width);
  *a = (arg){.present = true, .type = t, .rank = rank, .shape = arena_dup(o->m->a, shape, (rank + 1) * sizeof *shape)};
  input_tensor(o, k, p->name);
  if (g->opt.symbolic) return;
  for (uint32_t i = 0; i < rank; i++) dims[i] = sym_int_or(g->c, shape[i], 1);
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0 || dims[i] > 64) dims[i] = 1;
    if ((count *= dims[i]) > 1 << 20) ctx_fail(g->c, E_MEMORY, "much");
  }
  if (t == ET_STR) {
    dims[rank] = width;
    o->data[k] = array(g, ET_U8, rank + 1, dims);
    fill_words(g, &o->data[k], width);
    return;
  }
  o->data[k] = array(g, t, rank, dims);
  fill(g, p, k);
}
/* Where a call is guessed twice, each of its parts draws numbers of its own: what one part drew more the second time,
 * contents of the size that was solved, moves no other. */
static void next_part(guess *g, uint32_t part) {
  if (g->pass != P_DIRECT) g->state = (g->seed + part * 0x100000001b3u) * 0x9e3779b97f4a7c15u;
}
static bool guess_call(guess *g) {
  const opdef *d = g->d;
  opinst *o = g->o;
  block_words(g, d->body);
  for (uint32_t i = 0; i < d->nattr; i++) words(g, d->attr[i].def);
  g->list = chance(g, 40) ? 1 + rnd(g, 3) : 0;
  g->top = chance(g, 40) ? 1 : chance(g, 50) ? 2 : 3;
  attrs_in_dims(g);
  for (uint32_t i = 0; i < d->nin; i++) {
    const param *p = &d->in[i];
    next_part(g, 1 + i);
    uint32_t times = p->variadic ? 1 + rnd(g, 3) : 1, first = o->nin;
    for (uint32_t k = 0; k < times && o->nin < OPINST_MAX; k++)
      guess_input(g, p,
                  k && o->in[first].present                             ? &o->in[first]
                  : i && o->in[0].present && !p->optional && !p->isdims ? &o->in[0]
                                                                        : NULL);
  }
  for (uint32_t i = 0; i < d->nattr && i < OPINST_MAX; i++)
    if (!g->given[i]) next_part(g, 100 + i), guess_attr(g, i);
  next_part(g, 200);
  o->nout = 0;
  for (uint32_t i = 0; i < d->nout; i++) {
    uint32_t times = d->out[i].variadic ? 1 + rnd(g, 3) : 1;
    bool want = !d->out[i].optional || chance(g, 60);
    for (uint32_t k = 0; k < times && o->nout < OPINST_MAX; k++) o->out[o->nout++] = (arg){.want = want};
  }
  const char *node = g->opt.node ? g->opt.node : "node";
  return notation_elaborate(g->lib, d, o->m, 0, node, o->in, o->nin, o->attr, o->nattr, o->out, o->nout);
}
/* Elaborated, and no guard of it is known not to hold. */
static bool legal(guess *g) {
  ctx *c = g->c;
  opinst *o = g->o;
  volatile bool ok = false;
  for (int i = 0; i < 4; i++) rnd(g, 2);
  CTX_TRY(c) { ok = guess_call(g); }
  CTX_CATCH { ok = false; }
  for (uint32_t i = 0; ok && i < o->nout; i++)
    for (uint32_t k = 0; o->out[i].present && k < o->out[i].rank; k++)
      ok = ok && sym_int_or(c, o->out[i].shape[k], 1) >= 0;
  for (uint32_t i = 0; ok && i < o->m->guards.n; i++) {
    int64_t v;
    const guard *q = &o->m->guards.v[i];
    if (sym_is_int(c, q->ge0, &v) && (q->is_eq ? v != 0 : v < 0)) ok = false;
  }
  for (uint32_t i = 1; ok && i < o->m->nodes.n; i++) {
    const ex_node *n = exn(o->m, i);
    for (uint32_t k = 0; n->kind == EX_REDUCE && k < n->nargs; k++)
      ok = ok && sym_int_or(c, sym_extent(c, n->args[k]), 1) >= 0;
  }
  return ok;
}
static bool legal_as(guess *g, pass p) {
  const guess from = *g;
  *g = (guess){.c = from.c, .a = from.a, .d = from.d, .o = from.o, .opt = from.opt, .lib = from.lib, .pass = p};
  g->serial = (uint32_t)from.seed, g->seed = from.seed, g->unknowns = from.unknowns;
  g->state = from.seed * 0x9e3779b97f4a7c15u + 12345;
  *g->o = (opinst){.m = expr_module(g->c)};
  return legal(g);
}

/* ---- sizes that follow from others ------------------------------------------------------------- */
enum { DRAWS = 30, MOST = 64 };
static bool unknown_value(void *env, atom a, int64_t *v) {
  const guess *g = env;
  for (uint32_t i = 0; i < g->unknowns.n; i++)
    if (g->unknowns.v[i].symbol == sym_of_atom(g->c, a)) return *v = g->unknowns.v[i].size, *v > 0;
  return false;
}
/* e == 0 gives one of the unknowns, where it stands in e once or minus once. */
static void learn(guess *g, sz e) {
  ctx *c = g->c;
  for (uint32_t i = g->unknowns.n; i-- > 0;) {
    sz coef, rest;
    atom a;
    int64_t k;
    if (!sym_is_atom(c, g->unknowns.v[i].symbol, &a) || !sym_linear(c, e, a, &coef, &rest)) continue;
    if (!sym_is_int(c, coef, &k) || (k != 1 && k != -1)) continue;
    sym_assume_eq(c, g->unknowns.v[i].symbol, k < 0 ? rest : sym_neg(c, rest));
    return;
  }
}
/* Guards that are equations; also those that are two inequalities. */
static void learn_equations(guess *g) {
  const emodule *m = g->o->m;
  for (uint32_t i = 0; i < m->guards.n; i++) {
    sz e = sym_canon(g->c, m->guards.v[i].ge0), minus = sym_neg(g->c, e);
    bool equation = m->guards.v[i].is_eq;
    for (uint32_t k = 0; k < i; k++) equation |= sym_canon(g->c, m->guards.v[k].ge0) == minus;
    if (equation) learn(g, e);
  }
}
/* Sizes for the unknowns that every guard allows, as far as it is known before a run: those that no equation gives
 * are drawn. */
static bool drawn(guess *g) {
  ctx *c = g->c;
  int64_t v;
  for (uint32_t i = 0; i < g->unknowns.n; i++) {
    unknown *u = &g->unknowns.v[i];
    u->size = sym_canon(c, u->symbol) == u->symbol ? some_size(g) : 0;
  }
  for (uint32_t i = 0; i < g->unknowns.n; i++) {
    unknown *u = &g->unknowns.v[i];
    if (u->size) continue;
    if (!sym_eval(c, sym_canon(c, u->symbol), unknown_value, g, &v) || v < 1 || v > MOST) return false;
    u->size = v;
  }
  for (uint32_t i = 0; i < g->o->m->guards.n; i++) {
    const guard *q = &g->o->m->guards.v[i];
    if (sym_eval(c, sym_canon(c, q->ge0), unknown_value, g, &v) && (q->is_eq ? v != 0 : v < 0)) return false;
  }
  return true;
}
static bool solved(guess *g) {
  uint32_t facts = sym_mark(g->c);
  bool ok = legal_as(g, P_SYMBOLS);
  if (ok) learn_equations(g);
  for (uint32_t i = 0; ok && i < DRAWS; i++)
    if (drawn(g)) return sym_pop(g->c, facts), legal_as(g, P_SOLVED);
  return sym_pop(g->c, facts), false;
}
bool notation_instance(ctx *c, const oplib *lib, const opdef *d, uint64_t seed, opinst_opts opt, opinst *out) {
  arena *a = ctx_arena(c);
  guess *g = NEW(a, guess);
  uint32_t mark = diag_mark(c), facts = sym_mark(c);
  *out = (opinst){.m = expr_module(c)};
  if (d->nin > OPINST_MAX || d->nattr > OPINST_MAX || d->nout > OPINST_MAX) return false;
  *g = (guess){.c = c, .a = a, .d = d, .o = out, .opt = opt, .lib = lib, .seed = seed};
  bool ok = legal_as(g, P_DIRECT);
  if (!ok && !opt.symbolic) sym_pop(c, facts), ok = solved(g);
  if (!opt.symbolic) sym_pop(c, facts);
  diag_reset(c, mark);
  return ok;
}

/* Each row in ascending order, as offsets, lengths and places often are. */
static void ascend(ndarray *nd) {
  const uint32_t w = et_bytes(nd->type);
  const size_t row = nd->rank ? (size_t)nd->dims[nd->rank - 1] : 1, n = nd->bytes / w;
  uint8_t *b = (uint8_t *)(uintptr_t)nd->data;
  for (size_t i = 1; i < n; i++)
    for (size_t k = i; k % row; k--) {
      const scalar x = et_load(nd->type, b + (k - 1) * w), y = et_load(nd->type, b + k * w);
      if (x.i <= y.i) break;
      et_store(nd->type, b + (k - 1) * w, y), et_store(nd->type, b + k * w, x);
    }
}
void notation_contents(ctx *c, uint64_t seed, opinst *o) {
  guess *g = &(guess){.c = c, .a = ctx_arena(c), .o = o, .state = seed * 0x9e3779b97f4a7c15u + 12345};
  for (int i = 0; i < 4; i++) rnd(g, 2);
  for (uint32_t k = 0; k < o->nin; k++) {
    if (!o->in[k].present || o->from[k] || xt(o->m, o->in[k].t)->kind == TK_CONST || o->in[k].type == ET_STR) continue;
    ndarray *nd = &o->data[k];
    nd->data = arena_dup(g->a, nd->data, nd->bytes + 16);
    const int64_t low = o->low[k], high = o->high[k] > low ? low + rnd(g, (uint32_t)(o->high[k] - low + 1)) : low;
    fill_numbers(g, rnd(g, 6), low, high, nd);
    if ((et_kind(nd->type) == K_INT || et_kind(nd->type) == K_UINT) && chance(g, 40)) ascend(nd);
  }
}

static bool in_name(char ch) {
  return ch == '_' || ch == '.' || (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}
/* Without the numbers that keep the names of calls apart. */
const char *opinst_text(ctx *c, const char *s) {
  sbuf b = sbuf_new(ctx_arena(c));
  while (*s) {
    bool found = !strncmp(s, "node.", 5); /* a size that the call finds when it runs: node.m_24 */
    if (found) s += 5;
    const char *end = s;
    while (in_name(*end)) end++;
    const char *name = end > s ? end : ++end;
    while (name > s && name[-1] >= '0' && name[-1] <= '9') name--;
    if (name - s > 2 && name < end && name[-1] == '_' && name[-2] == '_')
      name -= 2;
    else if (found && name - s > 1 && name < end && name[-1] == '_')
      name--;
    else
      name = end;
    while (s < name) sb_putc(&b, *s++);
    s = end;
  }
  return b.n ? b.s : "";
}
static void print_shape(ctx *c, const arg *a, sbuf *b) {
  sb_fmt(b, "%s[", et_name(a->type));
  for (uint32_t i = 0; i < a->rank; i++)
    sb_fmt(b, "%s%s", i ? ", " : "", opinst_text(c, sym_str(c, sym_canon(c, a->shape[i]))));
  sb_putc(b, ']');
}
void opinst_print(ctx *c, const opdef *d, const opinst *o, sbuf *b) {
  sb_fmt(b, "%s(", d->name);
  for (uint32_t i = 0; i < o->nin; i++) {
    const arg *a = &o->in[i];
    if (i) sb_put(b, ", ");
    if (!a->present)
      sb_putc(b, '-');
    else
      print_shape(c, a, b);
    int64_t n = 1;
    for (uint32_t k = 0; k < a->rank && a->present; k++) n *= sym_int_or(c, a->shape[k], 0);
    for (int64_t k = 0; a->values && k < n; k++)
      sb_fmt(b, "%s%s%s", k ? ", " : " {", sym_str(c, a->values[k]), k == n - 1 ? "}" : "");
    for (int64_t k = 0; a->floats && k < n; k++)
      sb_fmt(b, "%s%g%s", k ? ", " : " {", a->floats[k], k == n - 1 ? "}" : "");
  }
  for (uint32_t i = 0; i < o->nattr; i++) {
    const sattr *s = &o->attr[i];
    sb_fmt(b, "%s%s = ", i ? ", " : "; ", s->name);
    switch (s->kind) {
    case SK_INT:
      sb_fmt(b, "%lld", (long long)s->i);
      break;
    case SK_FLOAT:
      sb_fmt(b, "%g", s->f);
      break;
    case SK_STRING:
      sb_fmt(b, "\"%s\"", s->s);
      break;
    case SK_INTS:
      for (uint32_t k = 0; k < s->n; k++) sb_fmt(b, "%s%lld", k ? " " : "", (long long)s->ints[k]);
      break;
    case SK_FLOATS:
      for (uint32_t k = 0; k < s->n; k++) sb_fmt(b, "%s%g", k ? " " : "", s->floats[k]);
      break;
    case SK_STRINGS:
      for (uint32_t k = 0; k < s->n; k++) sb_fmt(b, "%s%s", k ? " " : "", s->strings[k]);
      break;
    default:
      sb_put(b, "..");
      break;
    }
  }
  sb_putc(b, ')');
}
