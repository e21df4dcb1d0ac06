/* How does a graph become expr? See lower.h. Nodes whose results nobody needs are left out. A node that fails leaves
 * its results unknown; nodes that need them are skipped silently, so that one cause gives one error. */
#include "driver/lower_in.h"
#include <string.h>

known *low_slot(low *L, const value *v) {
  uint64_t i;
  if (!map_getu(L->vals, (uint64_t)(uintptr_t)v, &i)) {
    vec_push(L->a, L->known, ((known){0}));
    i = L->known.n;
    map_putu(L->vals, (uint64_t)(uintptr_t)v, i);
  }
  return &L->known.v[i - 1];
}
/* ---- which values are needed ----------------------------------------------------------------- */
static void need(low *L, const value *v) {
  if (v) map_putu(L->needed, (uint64_t)(uintptr_t)v, 1);
}
bool low_needed(low *L, const value *v) {
  uint64_t d;
  return v && map_getu(L->needed, (uint64_t)(uintptr_t)v, &d);
}
static void mark_graph(low *L, graph *g) {
  for (uint32_t i = 0; i < g->outputs.n; i++) need(L, g->outputs.v[i]);
  for (uint32_t i = g->nodes.n; i-- > 0;) {
    node *n = g->nodes.v[i];
    bool any = false;
    for (uint32_t j = 0; j < n->out.n; j++) any |= low_needed(L, n->out.v[j]);
    if (!any) continue;
    for (uint32_t j = 0; j < n->in.n; j++) need(L, n->in.v[j]);
    for (uint32_t j = 0; j < n->attrs.n; j++)
      if (n->attrs.v[j].g) mark_graph(L, n->attrs.v[j].g);
  }
}

/* ---- values as arguments --------------------------------------------------------------------- */
static void small_values(low *L, arg *a, const ndarray *d) {
  int64_t n;
  if (!nd_count(d, &n) || n > 64) return;
  ekind k = et_kind(d->type);
  if (k == K_STR) return;
  if (k == K_FLOAT) {
    double *f = NEWN(L->a, double, n ? n : 1);
    for (int64_t i = 0; i < n; i++) f[i] = et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).f;
    a->floats = f;
    return;
  }
  sz *v = NEWN(L->a, sz, n ? n : 1);
  for (int64_t i = 0; i < n; i++)
    v[i] = sym_int(L->c, et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type)).i);
  a->values = v;
}
arg *low_value(low *L, const value *v) { /* NULL: not known (an earlier failure) */
  known *k = low_slot(L, v);
  if (!k->done && v->data) {
    arg a = {.present = true, .type = v->data->type, .rank = v->data->rank, .shape = v->dims};
    ndarray text = *v->data;
    if (text.type == ET_STR && !nd_bytes(L->a, v->data, &text))
      ctx_fail(L->c, E_MEMORY, "constant %s: too many strings", v->name);
    a.t = expr_const_tensor(L->m, &text, v->name);
    small_values(L, &a, v->data);
    k = low_slot(L, v);
    k->a = a;
    k->done = true;
  }
  return k->done && !k->list && !k->absent ? &k->a : NULL;
}
bool low_tensor(low *L, const node *n, const value *v, arg *out) {
  const arg *a = low_value(L, v);
  const known *k = low_slot(L, v);
  if (a)
    *out = *a;
  else if (k->done)
    diag_error(L->c, E_MODEL, n->name, "%s: '%s' is %s, a tensor is needed", n->op, v->source,
               k->list ? "a sequence" : "an empty optional");
  return a != NULL;
}
bool low_single(low *L, const node *n, const value *v, etype t, const char *what, arg *out) {
  if (!low_tensor(L, n, v, out)) return false;
  bool one = true;
  for (uint32_t i = 0; i < out->rank; i++) one = one && sym_int_or(L->c, out->shape[i], 0) == 1;
  if (out->type == t && one) return true;
  diag_error(L->c, E_MODEL, n->name, "%s: %s, '%s', must be one element of type %s; it is %s of rank %u", n->op, what,
             v->source, et_name(t), et_name(out->type), out->rank);
  return false;
}
void low_copy(low *L, value *to, const value *from) {
  const arg *a = low_value(L, from);
  if (a) {
    low_set(L, to, *a);
    return;
  }
  known k = *low_slot(L, from);
  *low_slot(L, to) = k;
}
void low_set(low *L, value *v, arg a) {
  known *k = low_slot(L, v);
  a.present = true;
  *k = (known){.done = true, .a = a};
  if (v->declared) vec_push(L->a, L->declared, ((declaration){v, v->type, v->ranked, v->rank, v->dims}));
  v->type = a.type;
  v->ranked = true;
  v->rank = a.rank;
  v->dims = a.shape;
  v->values = a.values;
}
static sattr to_sattr(low *L, const attr *a) {
  sattr s = {.name = a->name,
             .n = a->n,
             .i = a->i,
             .f = a->f,
             .s = a->s,
             .ints = a->ints,
             .floats = a->floats,
             .strings = a->strings,
             .tensor = a->tensor};
  (void)L;
  switch (a->kind) {
  case AK_INT:
    s.kind = SK_INT;
    break;
  case AK_FLOAT:
    s.kind = SK_FLOAT;
    break;
  case AK_STRING:
    s.kind = SK_STRING;
    break;
  case AK_INTS:
    s.kind = SK_INTS;
    break;
  case AK_FLOATS:
    s.kind = SK_FLOATS;
    break;
  case AK_STRINGS:
    s.kind = SK_STRINGS;
    break;
  case AK_TENSOR:
    s.kind = SK_TENSOR;
    break;
  default:
    s.kind = SK_NONE;
  }
  return s;
}

static const char *low_name(low *L, const node *n) {
  return L->suffix[0] ? arena_fmt(L->a, "%s%s", n->name, L->suffix) : n->name;
}
bool low_call(low *L, uint32_t block, const char *node, const char *op, const arg *in, uint32_t nin, const sattr *attrs,
              uint32_t nattrs, arg *out, uint32_t nout) {
  const opdef *d = notation_find(L->lib, "", op);
  if (!d) return diag_error(L->c, E_UNSUPPORTED, node, "operator %s is not defined", op), false;
  for (uint32_t i = 0; i < nout; i++) out[i] = (arg){.want = true};
  uint32_t errors = diag_errors(L->c);
  if (!notation_elaborate(L->lib, d, L->m, block, L->suffix[0] ? arena_fmt(L->a, "%s%s", node, L->suffix) : node, in,
                          nin, attrs, nattrs, out, nout)) {
    if (diag_errors(L->c) == errors) diag_error(L->c, E_SHAPE, node, "%s: the inputs do not fit", op);
    return false;
  }
  return true;
}
arg low_ints(low *L, etype t, const int64_t *v, uint32_t n, bool vector, const char *name) {
  uint32_t w = et_bytes(t);
  ndarray d = {.type = t, .rank = vector, .dims = {n}, .bytes = (size_t)n * w};
  uint8_t *bytes = arena_alloc(L->a, d.bytes + 1);
  for (uint32_t i = 0; i < n; i++) et_store(t, bytes + i * w, (scalar){.i = v[i]});
  d.data = bytes;
  sz *shape = NEWN(L->a, sz, 1);
  shape[0] = sym_int(L->c, n);
  arg a = {.present = true, .type = t, .rank = vector, .shape = shape};
  a.t = expr_const_tensor(L->m, &d, name);
  small_values(L, &a, &d);
  return a;
}

static void plain_node(low *L, graph *g, node *n, uint32_t block) {
  const opdef *d = notation_find(L->lib, n->domain, n->op);
  (void)g;
  if (!d) {
    diag_error(L->c, E_UNSUPPORTED, n->name,
               "operator %s%s%s is not defined; define it in a .ek file and give it with --ops%s", n->domain,
               n->domain[0] ? "::" : "", n->op, notation_meant(L->lib, L->a, n->domain, n->op));
    return;
  }
  VEC(arg) in = {0};
  VEC(sattr) at = {0};
  for (uint32_t i = 0; i < n->in.n; i++) {
    arg a = {0};
    if (n->in.v[i] && !low_slot(L, n->in.v[i])->absent && !low_tensor(L, n, n->in.v[i], &a)) return;
    vec_push(L->a, in, a);
  }
  for (uint32_t i = 0; i < n->attrs.n; i++)
    if (!n->attrs.v[i].g) {
      sattr s = to_sattr(L, &n->attrs.v[i]);
      vec_push(L->a, at, s);
    }
  arg *out = NEWN(L->a, arg, n->out.n ? n->out.n : 1);
  for (uint32_t i = 0; i < n->out.n; i++) out[i].want = low_needed(L, n->out.v[i]);
  uint32_t errors = diag_errors(L->c);
  if (!notation_elaborate(L->lib, d, L->m, block, low_name(L, n), in.v, in.n, at.v, at.n, out, n->out.n)) {
    if (diag_errors(L->c) == errors)
      diag_error(L->c, E_SHAPE, n->name, "%s: the inputs do not fit the definition", n->op);
    return;
  }
  for (uint32_t i = 0; i < n->out.n; i++)
    if (out[i].want) low_set(L, n->out.v[i], out[i]);
}

bool low_nodes(low *L, graph *g, uint32_t block) {
  uint32_t before = diag_errors(L->c);
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    node *n = g->nodes.v[i];
    bool any = false;
    for (uint32_t j = 0; j < n->out.n; j++) any |= low_needed(L, n->out.v[j]);
    if (!any) continue;
    ctx_about(L->c, n->name && n->name[0] ? n->name : n->op);
    bool std = !n->domain[0];
    if (std && !strcmp(n->op, "If"))
      low_if(L, n, block);
    else if (std && !strcmp(n->op, "Loop") && low_wants_unrolling(L, n) && low_trips_known(L, n))
      low_unrolled(L, n, block);
    else if (std && !strcmp(n->op, "Loop") && low_wants_unrolling(L, n))
      low_open_loop(L, n, block);
    else if (std && (!strcmp(n->op, "Loop") || !strcmp(n->op, "Scan")))
      low_loop(L, n, block);
    else if (std && low_list_node(L, n, block))
      continue;
    else if (std && !strcmp(n->op, "Squeeze") && low_squeeze(L, n, block))
      continue;
    else if (!strcmp(n->domain, "ai.onnx.preview.training") && !strcmp(n->op, "Gradient"))
      low_gradient(L, g, n, block);
    else
      plain_node(L, g, n, block);
  }
  ctx_about(L->c, NULL);
  return diag_errors(L->c) == before;
}

/* Strings at the model's ports: u8 with one axis more, the bytes (notation.h); an input's has the symbol NAME.bytes. */
static sz low_bytes(low *L, const value *v) {
  sbuf b = sbuf_new(L->a);
  for (const char *s = v->name; *s; s++) {
    bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_', digit = *s >= '0' && *s <= '9';
    if (s == v->name && !letter) sb_putc(&b, '_');
    sb_putc(&b, letter || digit || *s == '.' ? *s : '_');
  }
  sb_put(&b, ".bytes");
  return sym_symbol(L->c, b.s, 1, 1000000000);
}
static void low_port(low *L, value *v) {
  const arg *a = low_value(L, v);
  if (!a || v->type != ET_STR) return;
  const tensor *t = xt(L->m, a->t);
  v->type = ET_U8, v->rank = t->rank, v->dims = t->shape, v->text = true;
}
static void low_port_back(value *v) {
  if (v->text) v->type = ET_STR, v->rank--, v->text = false;
}
static sz fix_dim(ctx *c, void *env, atom a) {
  low *L = env;
  if (sym_kind(c, a) != AT_SYMBOL) return 0;
  for (uint32_t i = 0; i < L->ndims; i++)
    if (L->dims[i].lo == L->dims[i].hi && !strcmp(L->dims[i].name, sym_name(c, a))) return sym_int(c, L->dims[i].value);
  return low_replaced(L, a);
}
/* The names that --dim may give: the symbols in the inputs' sizes, and sequences and optionals among the inputs. They
 * are collected before the first lowering, which writes numbers in their place, and hold for all that follow. */
static void name_sizes(low *L, graph *g) {
  u32vec at = {0};
  if (g->sizes) return;
  g->sizes = map_new(L->a);
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const value *v = g->inputs.v[i];
    if (v->kind != VALUE_TENSOR) map_puts(g->sizes, v->source, 1);
    for (uint32_t d = 0; v->kind == VALUE_TENSOR && v->ranked && d < v->rank; d++)
      sym_atoms(L->c, v->dims[d], AT_SYMBOL, L->a, &at);
    if (v->kind == VALUE_TENSOR && v->type == ET_STR) sym_atoms(L->c, low_bytes(L, v), AT_SYMBOL, L->a, &at);
  }
  for (uint32_t i = 0; i < at.n; i++) map_puts(g->sizes, sym_name(L->c, at.v[i]), 2);
}
/* Names of the open sizes, for messages. */
static const char *open_names(low *L, const graph *g, const char *meant) {
  sbuf b = sbuf_new(L->a);
  strvec names = {0};
  for (uint32_t i = 0; i < map_count(g->sizes); i++) {
    size_t n;
    uint64_t kind;
    const char *name = map_key(g->sizes, i, &n, &kind);
    sb_fmt(&b, "%s%.*s", b.n ? ", " : "; open are ", (int)n, name);
    vec_push(L->a, names, (const char *)arena_strndup(L->a, name, n));
  }
  sb_put(&b, did_you_mean(L->a, meant, names.v, names.n));
  return b.n ? b.s : "; the model has no open dimensions";
}
/* A dimension that is not certain to be 0 or more, such as W - 2, is looked at when its sizes are known. */
static void guard_dim(emodule *m, const stage *s, const tensor *t, uint32_t d) {
  sz dim = sym_canon(m->c, t->shape[d]);
  if (sym_is_int(m->c, dim, NULL) || sym_uses_kind(m->c, dim, AT_DATA) || sym_ge0(m->c, dim)) return;
  for (uint32_t i = 0; i < m->guards.n; i++)
    if (m->guards.v[i].ge0 == dim && !m->guards.v[i].is_eq &&
        (!m->guards.v[i].block || m->guards.v[i].block == s->block))
      return;
  guard g = {.ge0 = dim,
             .text = arena_fmt(m->a, "%s: the size of axis %u, %s, is negative", t->name, d, sym_str(m->c, dim)),
             .block = s->block};
  vec_push(m->a, m->guards, g);
}
/* A late size that is a dimension of what is computed in its block is not negative: it is refused where it is found. */
static void found_dims(emodule *m) {
  atom a;
  for (uint32_t i = 0; i < m->stages.n; i++) {
    const stage *s = xs(m, i);
    const tensor *t = xt(m, s->tensor);
    for (uint32_t d = 0; !s->dead && d < t->rank; d++)
      for (uint32_t k = 0; sym_is_atom(m->c, t->shape[d], &a) && k < m->lates.n; k++) {
        const tensor *from = xt(m, m->lates.v[k].tensor);
        int64_t lo, hi;
        if (m->lates.v[k].symbol != a || from->kind != TK_STAGE || xs(m, from->stage)->block != s->block) continue;
        sym_range(m->c, t->shape[d], &lo, &hi);
        if (lo < 0 && hi >= 0) sym_symbol(m->c, sym_name(m->c, a), 0, hi);
      }
  }
  for (uint32_t i = 0; i < m->stages.n; i++)
    for (uint32_t d = 0; !xs(m, i)->dead && d < xt(m, xs(m, i)->tensor)->rank; d++)
      guard_dim(m, xs(m, i), xt(m, xs(m, i)->tensor), d);
}
/* The graph's nodes as stages of a new module. */
static bool lower_nodes(low *L, graph *g) {
  uint32_t before = diag_errors(L->c);
  L->m = expr_module(L->c);
  L->vals = map_new(L->a);
  L->branch.n = 0;
  L->variants[0] = L->variants[1] = 0;
  vec_push(L->a, L->branch, g);
  low_asked(L, 0);
  low_growing_guards(L);
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    value *v = g->inputs.v[i];
    if (!v->ranked || !v->type) {
      diag_error(L->c, E_UNSUPPORTED, NULL, "input %s: its element type and rank must be declared", v->source);
      continue;
    }
    bool text = v->type == ET_STR;
    sz *shape = NEWN(L->a, sz, v->rank + 1);
    for (uint32_t d = 0; d < v->rank; d++) shape[d] = sym_subst(L->c, v->dims[d], fix_dim, L);
    if (text) shape[v->rank] = sym_subst(L->c, low_bytes(L, v), fix_dim, L);
    sz *room = arena_dup(L->a, shape, (v->rank + 1) * sizeof *room);
    const low_growth *k = low_grows(L, v);
    if (k) room[k->axis] = sym_int(L->c, k->most);
    tid t = expr_tensor(L->m, TK_INPUT, text ? ET_U8 : v->type, room, v->rank + text, v->name, NULL);
    vec_push(L->a, L->m->inputs, ((io){t, v->source}));
    low_set(L, v, (arg){.type = v->type, .rank = v->rank, .shape = shape, .t = t});
  }
  /* nothing but inputs as yet: does each of their sizes have a value? */
  if (diag_errors(L->c) == before) expr_verify_whole(L->m, NULL);
  return diag_errors(L->c) == before && low_variants(L, g) && diag_errors(L->c) == before;
}
/* Would some tensor have a simpler shape, with what is known about the sizes by now? */
static sz anew(ctx *c, void *env, atom a) {
  sz g[3];
  uint32_t n = sym_args(c, a, g);
  for (uint32_t i = 0; i < n; i++) g[i] = sym_subst(c, g[i], anew, env);
  switch (sym_kind(c, a)) {
  case AT_SYMBOL:
    return sym_canon(c, sym_of_atom(c, a));
  case AT_DIV:
    return sym_div(c, g[0], g[1]);
  case AT_MIN:
    return sym_min(c, g[0], g[1]);
  case AT_MAX:
    return sym_max(c, g[0], g[1]);
  case AT_SEL:
    return sym_sel(c, g[0], g[1], g[2]);
  default:
    return 0;
  }
}
static bool simpler(low *L) {
  const emodule *m = L->m;
  for (uint32_t b = 0; b < m->blocks.n; b++) {
    uint32_t facts = L->branch.v[b] ? expr_enter(L->m, b) : sym_mark(L->c);
    bool any = false;
    for (uint32_t i = 0; i < m->blocks.v[b].items.n && !any; i++) {
      item it = m->blocks.v[b].items.v[i];
      const tensor *x = it.kind == IT_STAGE ? xt(m, xs(m, it.index)->tensor) : NULL;
      for (uint32_t d = 0; x && d < x->rank && !any; d++)
        any = !sym_is_int(L->c, x->shape[d], NULL) && sym_subst(L->c, x->shape[d], anew, NULL) != x->shape[d];
    }
    sym_pop(L->c, facts);
    if (any) return true;
  }
  return false;
}
/* ---- what nodes ask of the sizes of inputs: that an axis has size 1, that two agree, that one is within bounds ----
 * It is checked before the model or the branch of an If runs, and so holds for the nodes before the one that asks, too:
 * where shapes become simpler by it all nodes are lowered anew, knowing it, and what was asked is kept. Not where sizes
 * are found in a run: these would get new names. */
static uint64_t asked_by(const low *L, uint32_t block) { /* which graph a block has, of which variant; 0: none */
  uint64_t graph = (uint64_t)(uintptr_t)L->branch.v[block];
  for (uint32_t v = 0; graph && v < 2; v++)
    if (L->variants[v] && block_inside(L->m, block, L->variants[v])) return graph + 1 + v;
  return graph;
}
static void ask(low *L) {
  L->asked.n = 0;
  L->asked_of = map_new(L->a);
  for (uint32_t i = L->m->guards.n; i-- > 0;) {
    asked k = {.what = L->m->guards.v[i]};
    uint64_t key = asked_by(L, k.what.block), next;
    if (!key) continue;
    if (map_getu(L->asked_of, key, &next)) k.next = (uint32_t)next;
    vec_push(L->a, L->asked, k);
    map_putu(L->asked_of, key, L->asked.n);
  }
}
void low_asked(low *L, uint32_t block) {
  uint64_t at = 0;
  if (EK_PLANTED("lower-asked") || !L->asked_of || !map_getu(L->asked_of, asked_by(L, block), &at)) return;
  for (; at; at = L->asked.v[at - 1].next) {
    guard g = L->asked.v[at - 1].what;
    g.block = block;
    vec_push(L->m->a, L->m->guards, g);
  }
  expr_enter(L->m, block);
}
static bool lower_knowing(low *L, graph *g) {
  enum { MAX_ROUNDS = 3 };
  const uint32_t before = diag_errors(L->c);
  if (!lower_nodes(L, g) || !low_find_growing(L, g)) return false;
  if ((L->growing.n || L->replaced.n) && !lower_nodes(L, g)) return false;
  low_state_sizes(L, g);
  for (int nth_round = 1; nth_round < MAX_ROUNDS && !L->m->lates.n && simpler(L); nth_round++) {
    emodule *m = L->m;
    map *vals = L->vals;
    uint32_t mark = diag_mark(L->c);
    ask(L);
    if (!lower_nodes(L, g)) { /* a branch that is never taken may not fit these sizes */
      diag_reset(L->c, mark);
      L->m = m, L->vals = vals;
      break;
    }
    low_state_sizes(L, g);
  }
  return diag_errors(L->c) == before;
}
emodule *lower_graph(graph *g, const oplib *lib, const dimfix *dims, uint32_t ndims) {
  low L = {.c = g->c, .lib = lib, .dims = dims, .ndims = ndims, .suffix = ""};
  L.a = ctx_arena(g->c);
  L.needed = map_new(L.a);
  L.used = NEWN(L.a, bool, ndims + 1);
  uint32_t before = diag_errors(g->c);
  for (uint32_t i = 0; i < g->inputs.n; i++) low_port_back(g->inputs.v[i]);
  name_sizes(&L, g);
  sym_renew(g->c);
  if (!low_settle(&L, g)) return NULL;
  mark_graph(&L, g);
  for (uint32_t i = 0; i < ndims; i++) {
    uint64_t kind = 0;
    L.used[i] |= map_gets(g->sizes, dims[i].name, &kind);
    /* whatever is decided from now on holds in that range; plan checks it */
    if (kind == 2 && dims[i].lo < dims[i].hi) sym_symbol(g->c, dims[i].name, dims[i].lo, dims[i].hi);
  }
  if (lower_knowing(&L, g)) low_list_outputs(&L, g);
  /* a size that is found at run time: at most so large */
  for (uint32_t i = 0; i < ndims && diag_errors(g->c) == before; i++) {
    for (uint32_t k = 0; k < L.m->lates.n; k++)
      if (sym_named(g->c, L.m->lates.v[k].symbol, dims[i].name))
        L.m->lates.v[k].bound = sym_min(g->c, L.m->lates.v[k].bound, sym_int(g->c, dims[i].hi)), L.used[i] = true;
    if (!L.used[i])
      diag_error(g->c, E_USAGE, NULL, "--dim %s: no input has a dimension of that name%s", dims[i].name,
                 open_names(&L, g, dims[i].name));
  }
  for (uint32_t i = 0; i < g->outputs.n; i++) {
    value *v = g->outputs.v[i];
    arg *a = low_value(&L, v);
    if (!a) {
      if (diag_errors(g->c) == before) diag_error(g->c, E_MODEL, NULL, "output %s is computed by no node", v->source);
      continue;
    }
    xt(L.m, a->t)->output = true;
    low_port(&L, v);
    vec_push(L.a, L.m->outputs, ((io){a->t, v->source}));
  }
  for (uint32_t i = 0; i < g->inputs.n; i++) low_port(&L, g->inputs.v[i]);
  if (g->states.n && diag_errors(g->c) == before) low_states(&L, g);
  found_dims(L.m);
  return diag_errors(g->c) == before ? L.m : NULL;
}
