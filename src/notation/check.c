/* check: what can be said about a definition before it is used with particular types and sizes.
 *
 * Names are known, functions and operators get as many arguments as they take, attributes of called operators exist,
 * element types are types, outputs are computed, nothing is assigned that must not be, and inside a stage a bare name
 * that stands for an index somewhere is an index: as a size it must be written size(k). Ranks, sizes, element types and
 * ranges of accesses are checked at each use, where they are known (elab, walk). Each wrong name is reported once per
 * definition.
 */
#include "notation/ast.h"
#include <stdio.h>
#include <string.h>

typedef enum gkind { G_INPUT = 1, G_ATTR, G_TYPE, G_STATIC, G_TENSOR, G_FN, G_OUTPUT } gkind;
typedef struct checker {
  oplib *l;                 /* the library */
  opdef *d;                 /* the definition */
  const char *file;         /* its source */
  map *globals;             /* name -> gkind, or G_FN | fndef << 8 is kept in fns */
  map *fns;                 /* local functions */
  map *index;               /* names that stand for an index in stages */
  map *reported;            /* names that an error was reported for */
  map *assigned;            /* names that have a value */
  VEC(const char *) locals; /* names bound around the current place */
  bool stage;               /* inside a stage: indices are visible */
  bool in_fn;               /* inside a function */
  bool ok;                  /* no error so far */
} checker;

static void report(checker *k, uint32_t line, uint32_t col, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static void report(checker *k, uint32_t line, uint32_t col, const char *key, const char *fmt, ...) {
  uint64_t q;
  k->ok = false;
  if (key && map_gets(k->reported, key, &q)) return;
  if (key) map_puts(k->reported, key, 1);
  va_list ap;
  va_start(ap, fmt);
  char text[600];
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  srcpos pos = {k->file, line, col};
  diag_add(k->l->c, D_ERROR, E_MODEL, pos, NULL, "%s%s%s", k->d ? k->d->name : "", k->d ? ": " : "", text);
}

static bool is_constant(const char *n) {
  static const char *const names[] = {"true", "false", "none", "inf", "nan", "pi"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(n, names[i])) return true;
  return et_parse(n) != ET_NONE;
}
static bool has(const map *m, const char *n) {
  uint64_t q;
  return map_gets(m, n, &q) && q;
}
static gkind global(checker *k, const char *n) {
  uint64_t q;
  return map_gets(k->globals, n, &q) ? (gkind)q : 0;
}
static bool is_local(checker *k, const char *n) {
  for (uint32_t i = k->locals.n; i-- > 0;)
    if (k->locals.v[i] == n) return true;
  return false;
}

/* ---- expressions ----------------------------------------------------------------------------- */
static void expr(checker *k, const ast *e);
static void static_expr(checker *k, const ast *e) {
  bool s = k->stage;
  k->stage = false;
  expr(k, e);
  k->stage = s;
}
static void name(checker *k, const ast *e) {
  const char *n = e->name;
  if (is_local(k, n) || is_constant(n)) return;
  gkind g = global(k, n);
  if (!g || g == G_OUTPUT) {
    if (g == G_OUTPUT)
      report(k, e->line, e->col, n, "output %s is read before it is computed", n);
    else
      report(k, e->line, e->col, n, "unknown name %s", n);
    return;
  }
  if (g == G_FN) report(k, e->line, e->col, n, "%s is a function; call it with (..)", n);
  if (g == G_STATIC && (k->stage || k->in_fn) && has(k->index, n))
    report(k, e->line, e->col, arena_fmt(k->l->a, "size %s", n),
           "%s is an index inside a stage, but it is not bound here; if its size is meant, write size(%s)", n, n);
}
static void elems(checker *k, const elem *el, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    expr(k, el[i].e);
    if (el[i].bound) static_expr(k, el[i].bound);
  }
}
static uint32_t bind(checker *k, const binder *b, uint32_t n) {
  uint32_t mark = k->locals.n;
  for (uint32_t i = 0; i < n; i++) {
    if (b[i].lo) static_expr(k, b[i].lo);
    if (b[i].hi) static_expr(k, b[i].hi);
  }
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < i; j++)
      if (b[i].name == b[j].name) report(k, b[i].line, b[i].col, NULL, "index %s is bound twice", b[i].name);
    vec_push(k->l->a, k->locals, b[i].name);
  }
  return mark;
}
static void arity(checker *k, const ast *e, uint32_t want, bool splat) {
  if (splat || e->nel == want) return;
  report(k, e->line, e->col, NULL, "%s takes %u argument%s, %u given", e->name, want, want == 1 ? "" : "s", e->nel);
}
static void op_call(checker *k, const ast *e, const opdef *d) {
  bool variadic = d->nin && d->in[d->nin - 1].variadic, splat = false;
  for (uint32_t i = 0; i < e->nel; i++) splat |= e->el[i].splat;
  if (e->nel > d->nin && !variadic)
    report(k, e->line, e->col, NULL, "operator %s has %u inputs, %u given", d->name, d->nin, e->nel);
  for (uint32_t i = e->nel; !splat && i < d->nin; i++)
    if (!d->in[i].optional && !d->in[i].def && !d->in[i].variadic)
      report(k, e->line, e->col, NULL, "operator %s: input %s is missing", d->name, d->in[i].name);
  for (uint32_t i = 0; i < e->nkw; i++) {
    bool found = false;
    for (uint32_t j = 0; j < d->nattr; j++) found |= d->attr[j].name == e->kw[i].name;
    if (!found) report(k, e->kw[i].line, e->kw[i].col, NULL, "operator %s has no attribute %s", d->name, e->kw[i].name);
  }
  for (uint32_t j = 0; j < d->nattr; j++) {
    bool given = d->attr[j].def || d->attr[j].optional;
    for (uint32_t i = 0; i < e->nkw; i++) given |= d->attr[j].name == e->kw[i].name;
    if (!given) report(k, e->line, e->col, NULL, "operator %s: attribute %s is missing", d->name, d->attr[j].name);
  }
}
static void call(checker *k, const ast *e, bool statement) {
  const char *n = e->name;
  int lo, hi;
  uint64_t q;
  if (!strcmp(n, "size") || !strcmp(n, "has") || !strcmp(n, "count")) {
    const ast *a = e->nel == 1 ? e->el[0].e : NULL;
    if (!a || a->kind != A_NAME) {
      report(k, e->line, e->col, NULL, "%s(..) takes one name", n);
      return;
    }
    gkind g = global(k, a->name);
    bool good = *n == 's'   ? is_local(k, a->name) || g == G_STATIC || g == G_ATTR
                : *n == 'h' ? g == G_INPUT || g == G_ATTR
                            : g == G_OUTPUT || g == G_TENSOR;
    if (!good)
      report(k, a->line, a->col, a->name, "%s(%s): %s is not %s", n, a->name, a->name,
             *n == 's'   ? "an index, dim or pack"
             : *n == 'h' ? "an input or attribute"
                         : "a variadic output");
    return;
  }
  for (uint32_t i = 0; i < e->nel; i++) expr(k, e->el[i].e);
  for (uint32_t i = 0; i < e->nkw; i++) static_expr(k, e->kw[i].e);
  bool splat = false;
  for (uint32_t i = 0; i < e->nel; i++) splat |= e->el[i].splat;
  if (is_local(k, n)) {
    report(k, e->line, e->col, NULL, "%s is an index or parameter, not a function", n);
    return;
  }
  const fndef *f = map_gets(k->fns, n, &q) ? (const fndef *)(uintptr_t)q : NULL;
  gkind g = global(k, n);
  if (!f && !g) f = lib_fn(k->l, k->file, n);
  const opdef *d = !f && !g ? lib_called(k->l, k->d, n) : NULL;
  if (f) {
    bool one_pack = f->nparams == 1 && f->params[0].splat;
    arity(k, e, f->nparams, splat || one_pack);
  } else if (d) {
    if (!statement)
      report(k, e->line, e->col, NULL, "operator %s can only be called as a statement: Y = %s(..)", n, n);
    else
      op_call(k, e, d);
    return;
  } else if (g == G_TYPE || g == G_STATIC || et_parse(n) != ET_NONE)
    arity(k, e, 1, splat);
  else if (g != G_FN && builtin_arity(n, &lo, &hi)) {
    if (!strcmp(n, "reshape") && !statement)
      report(k, e->line, e->col, NULL, "reshape can only be used as a statement: Y = reshape(X, ..)");
    if (!splat && ((int)e->nel < lo || (hi >= 0 && (int)e->nel > hi))) {
      if (lo == hi)
        arity(k, e, (uint32_t)lo, false);
      else
        report(k, e->line, e->col, NULL, "%s takes at least %d arguments, %u given", n, lo, e->nel);
    }
  } else {
    report(k, e->line, e->col, n, "unknown function or operator %s", n);
    return;
  }
  if (e->nkw) report(k, e->kw[0].line, e->kw[0].col, NULL, "%s is a function; only operators take attributes", n);
}
static void expr(checker *k, const ast *e) {
  if (!e) return;
  switch (e->kind) {
  case A_NAME:
    name(k, e);
    return;
  case A_CALL:
    call(k, e, false);
    return;
  case A_RED:
  case A_COMP: {
    uint32_t mark = bind(k, e->b, e->nb);
    expr(k, e->kid[0]);
    expr(k, e->kid[1]);
    expr(k, e->kid[2]);
    k->locals.n = mark;
    if (e->acc && et_parse(e->acc) == ET_NONE) report(k, e->line, e->col, NULL, "%s is no element type", e->acc);
    for (uint32_t i = 0; e->kind == A_COMP && i < e->nb; i++)
      if (!e->b[i].hi)
        report(k, e->b[i].line, e->b[i].col, NULL, "%s needs a bound: (.. for %s < n)", e->b[i].name, e->b[i].name);
    return;
  }
  default:
    break;
  }
  if (e->kind == A_ACCESS && e->kid[0]->kind == A_NAME && !is_local(k, e->kid[0]->name)) {
    gkind g = global(k, e->kid[0]->name);
    if (g == G_TYPE || g == G_FN)
      report(k, e->line, e->col, e->kid[0]->name, "%s is no tensor or pack", e->kid[0]->name);
    else if (g == G_STATIC) { /* p[..] of a pack of sizes: never an index pack here */
      if ((k->stage || k->in_fn) && has(k->index, e->kid[0]->name)) name(k, e->kid[0]);
    } else
      name(k, e->kid[0]);
  } else
    expr(k, e->kid[0]);
  expr(k, e->kid[1]);
  expr(k, e->kid[2]);
  elems(k, e->el, e->nel);
}

/* ---- names of a definition ------------------------------------------------------------------- */
static void declare(checker *k, const char *n, gkind g) { map_puts(k->globals, n, g); }
static void dim_names(checker *k, const ast *e, bool bind_them) {
  if (!e) return;
  if (e->kind == A_NAME) {
    if (!is_constant(e->name) && !global(k, e->name) && bind_them) declare(k, e->name, G_STATIC);
    if (global(k, e->name) == G_STATIC) map_puts(k->index, e->name, 1);
    return;
  }
  /* broadcast(a, b) and d[0] use names, they do not bind them */
  if (e->kind == A_CALL || e->kind == A_ACCESS) return;
  for (int i = 0; i < 3; i++) dim_names(k, e->kid[i], bind_them);
}
/* names that some stage, reduction or update binds without a bound: they stand for the index of that dim */
static void index_names_in(checker *k, const ast *e) {
  if (!e) return;
  if (e->kind == A_RED)
    for (uint32_t i = 0; i < e->nb; i++)
      if (!e->b[i].hi) map_puts(k->index, e->b[i].name, 1);
  for (int i = 0; i < 3; i++) index_names_in(k, e->kid[i]);
  for (uint32_t i = 0; i < e->nel; i++) index_names_in(k, e->el[i].e);
}
static void index_names(checker *k, const blk *b) {
  for (uint32_t i = 0; b && i < b->n; i++) {
    const stmt *s = b->s[i];
    index_names_in(k, s->e);
    index_names_in(k, s->cond);
    if (s->fn) index_names_in(k, s->fn->body);
    for (uint32_t j = 0; j < s->nb; j++)
      if (!s->b[j].hi) map_puts(k->index, s->b[j].name, 1);
    if (s->kind == ST_STAGE && !s->has_for)
      for (uint32_t j = 0; j < s->nlhs; j++) {
        const ast *e = s->lhs[j].e;
        if (e->kind == A_NAME && !s->lhs[j].bound) map_puts(k->index, e->name, 1);
        for (uint32_t q = 0; e->kind == A_TUPLE && q < e->nel; q++)
          if (e->el[q].e->kind == A_NAME) map_puts(k->index, e->el[q].e->name, 1);
      }
    index_names(k, s->body);
    index_names(k, s->other);
  }
}

static void function(checker *k, const fndef *f) {
  uint32_t mark = k->locals.n;
  const char *file = k->file;
  bool st = k->stage, in = k->in_fn;
  VEC(const char *) save = {0};
  for (uint32_t i = 0; i < k->locals.n; i++) vec_push(k->l->a, save, k->locals.v[i]);
  k->locals.n = 0;
  k->stage = false;
  k->in_fn = k->d != NULL;
  for (uint32_t i = 0; i < f->nparams; i++) {
    for (uint32_t j = 0; j < i; j++)
      if (f->params[i].name == f->params[j].name)
        report(k, f->line, f->col, NULL, "fn %s has two parameters %s", f->name, f->params[i].name);
    vec_push(k->l->a, k->locals, f->params[i].name);
  }
  expr(k, f->body);
  k->locals.n = 0;
  for (uint32_t i = 0; i < save.n; i++) vec_push(k->l->a, k->locals, save.v[i]);
  k->locals.n = mark;
  k->stage = st, k->in_fn = in;
  k->file = file;
}

/* ---- statements ------------------------------------------------------------------------------ */
static void check_block(checker *k, const blk *b);
static const param *out_of(checker *k, const char *n) {
  for (uint32_t i = 0; i < k->d->nout; i++)
    if (k->d->out[i].name == n) return &k->d->out[i];
  return NULL;
}
static void target(checker *k, const stmt *s, const char *n, bool again) {
  gkind g = global(k, n);
  if (g == G_INPUT || g == G_ATTR)
    report(k, s->line, s->col, n, "%s is an %s and cannot be assigned", n, g == G_INPUT ? "input" : "attribute");
  if (g == G_TYPE || g == G_FN)
    report(k, s->line, s->col, n, "%s is already %s", n, g == G_FN ? "a function" : "an element type");
  if (!again && has(k->assigned, n)) {
    const param *o = out_of(k, n);
    if (!o || !o->variadic)
      report(k, s->line, s->col, arena_fmt(k->l->a, "twice %s", n),
             "%s is computed twice; a tensor is assigned once (updates and fold aside)", n);
  }
  map_puts(k->assigned, n, 1);
  declare(k, n, G_TENSOR);
}
static void left(checker *k, const stmt *s) { /* binds the names of a stage's left side */
  uint32_t from = k->locals.n;
  for (uint32_t i = 0; i < s->nlhs; i++) {
    const elem *q = &s->lhs[i];
    if (q->bound) static_expr(k, q->bound);
    for (uint32_t j = 0; q->e->kind == A_TUPLE && j < q->e->nel; j++)
      if (q->e->el[j].e->kind == A_BIN) static_expr(k, q->e->el[j].e->kid[1]);
  }
  for (uint32_t i = 0; i < s->nlhs; i++) {
    const ast *e = s->lhs[i].e;
    uint32_t n = e->kind == A_TUPLE ? e->nel : 1;
    for (uint32_t j = 0; j < n; j++) {
      const ast *q = e->kind == A_TUPLE ? e->el[j].e : e;
      if (q->kind == A_BIN && q->op == BO_LT) q = q->kid[0];
      if (q->kind == A_INT && q->k.i == 0 && e->kind != A_TUPLE) continue;
      if (q->kind != A_NAME) {
        report(k, q->line, q->col, NULL,
               "a left side holds names of indices, packs, (g, m) and 0; a computed left side needs `for`");
        continue;
      }
      for (uint32_t z = from; z < k->locals.n; z++)
        if (k->locals.v[z] == q->name)
          report(k, q->line, q->col, NULL, "index %s stands twice on the left side", q->name);
      vec_push(k->l->a, k->locals, q->name);
    }
  }
}
static bool stops_inside(const ast *e, bool top) {
  if (!e) return false;
  if (!top && e->kind == A_CALL && !strcmp(e->name, "stop")) return true;
  for (int i = 0; i < 3; i++)
    if (stops_inside(e->kid[i], false)) return true;
  for (uint32_t i = 0; i < e->nel; i++)
    if (stops_inside(e->el[i].e, false)) return true;
  return false;
}
static void check_stmt(checker *k, const stmt *s, bool in_recurrence) {
  uint32_t mark = k->locals.n;
  switch (s->kind) {
  case ST_LET:
    static_expr(k, s->e);
    for (uint32_t i = 0; i < s->nnames; i++) {
      gkind g = global(k, s->names[i].name);
      if (g == G_INPUT || g == G_ATTR || g == G_TENSOR || g == G_OUTPUT)
        report(k, s->line, s->col, s->names[i].name, "let %s: the name is already %s", s->names[i].name,
               g == G_ATTR ? "an attribute" : "a tensor");
      else if (g != G_TYPE)
        declare(k, s->names[i].name, G_STATIC);
    }
    break;
  case ST_REQUIRE:
    if (!s->nlist) {
      static_expr(k, s->e);
      break;
    }
    static_expr(k, s->list[0]), static_expr(k, s->list[1]);
    bind(k, s->b, s->nb);
    k->stage = true;
    expr(k, s->e);
    expr(k, s->cond);
    k->stage = false;
    k->locals.n = mark;
    break;
  case ST_FN:
    function(k, s->fn);
    break;
  case ST_IF: {
    static_expr(k, s->e);
    map *before = k->assigned, *a = map_new(k->l->a), *b = map_new(k->l->a);
    size_t n;
    uint64_t q;
    for (uint32_t i = 0; i < map_count(before); i++) {
      const char *key = map_key(before, i, &n, &q);
      map_put(a, key, n, q), map_put(b, key, n, q);
    }
    k->assigned = a;
    check_block(k, s->body);
    a = k->assigned; /* an `if` inside makes a map of its own */
    k->assigned = b;
    if (s->other) check_block(k, s->other);
    b = k->assigned;
    for (uint32_t i = 0; i < map_count(b); i++) {
      const char *key = map_key(b, i, &n, &q);
      map_put(a, key, n, q);
    }
    k->assigned = a;
    break;
  }
  case ST_FOLD:
    if (s->e->kind == A_CALL)
      call(k, s->e, true);
    else
      static_expr(k, s->e);
    target(k, s, s->names[0].name, false);
    /* fall through */
  case ST_EACH: {
    for (uint32_t i = 0; i < s->nlist; i++) static_expr(k, s->list[i]);
    for (uint32_t i = s->kind == ST_FOLD; i < s->nnames; i++) {
      gkind g = global(k, s->names[i].name);
      if (g && g != G_STATIC && g != G_TENSOR)
        report(k, s->line, s->col, s->names[i].name, "each %s: the name is already taken", s->names[i].name);
      declare(k, s->names[i].name, G_STATIC);
      map_puts(k->index, s->names[i].name, 0);
    }
    check_block(k, s->body);
    break;
  }
  case ST_RECURRENCE: {
    static_expr(k, s->e);
    for (uint32_t i = 0; i < s->body->n; i++) /* stages of a recurrence may name each other */
      if (s->body->s[i]->kind == ST_STAGE)
        target(k, s->body->s[i], s->body->s[i]->names[0].name, false);
      else
        report(k, s->body->s[i]->line, s->body->s[i]->col, NULL, "only stages can stand inside recurrence");
    vec_push(k->l->a, k->locals, s->names[0].name);
    for (uint32_t i = 0; i < s->body->n; i++) {
      const stmt *q = s->body->s[i];
      if (q->kind == ST_STAGE && !q->type)
        report(k, q->line, q->col, NULL, "a stage inside recurrence needs its element type: %s: T[..] = ..",
               q->names[0].name);
      check_stmt(k, q, true);
    }
    break;
  }
  case ST_STAGE: {
    if (s->type && global(k, s->type) != G_TYPE && global(k, s->type) != G_STATIC && et_parse(s->type) == ET_NONE)
      report(k, s->line, s->col, s->type, "%s is no element type", s->type);
    if (s->has_for) {
      bind(k, s->b, s->nb);
      elems(k, s->lhs, s->nlhs);
    } else
      left(k, s);
    k->stage = true;
    expr(k, s->e);
    k->stage = false;
    if (stops_inside(s->e, true)) report(k, s->line, s->col, NULL, "stop(..) must be the whole right side of a stage");
    k->locals.n = mark;
    if (!in_recurrence) target(k, s, s->names[0].name, false);
    break;
  }
  case ST_UPDATE: {
    const char *n = s->names[0].name;
    gkind g = global(k, n);
    if (g != G_TENSOR && g != G_OUTPUT) report(k, s->line, s->col, n, "%s is updated before it is defined", n);
    if (g == G_OUTPUT && s->op != OP_NONE)
      report(k, s->line, s->col, n, "%s is updated before it is defined; only `:=` may fill an output from nothing", n);
    bind(k, s->b, s->nb);
    k->stage = true;
    elems(k, s->lhs, s->nlhs);
    expr(k, s->e);
    expr(k, s->cond);
    k->stage = false;
    k->locals.n = mark;
    target(k, s, n, true);
    break;
  }
  case ST_CALL:
    if (s->e->kind == A_CALL)
      call(k, s->e, true);
    else
      static_expr(k, s->e);
    for (uint32_t i = 0; i < s->nnames; i++) {
      bool again = global(k, s->names[i].name) == G_TENSOR; /* fold rebinds its name */
      target(k, s, s->names[i].name, again);
    }
    break;
  case ST_GRAD: {
    bool found = false;
    for (uint32_t i = 0; i < k->d->nin; i++) found |= k->d->in[i].name == s->names[0].name;
    if (!found) report(k, s->line, s->col, NULL, "grad(%s): there is no such input", s->names[0].name);
    /* inside, dX and dY of every input and output name their adjoints */
    for (uint32_t i = 0; i < k->d->nout; i++)
      declare(k, intern(k->l->c, arena_fmt(k->l->a, "d%s", k->d->out[i].name)), G_INPUT);
    for (uint32_t i = 0; i < k->d->nin; i++) {
      const char *dn = intern(k->l->c, arena_fmt(k->l->a, "d%s", k->d->in[i].name));
      if (!global(k, dn)) declare(k, dn, G_OUTPUT);
    }
    check_block(k, s->body);
    break;
  }
  case ST_COST:
    static_expr(k, s->e);
    break;
  }
  k->locals.n = mark;
}
static void check_block(checker *k, const blk *b) {
  for (uint32_t i = 0; i < b->n; i++)
    if (b->s[i]->kind == ST_FN) {
      const fndef *f = b->s[i]->fn;
      declare(k, f->name, G_FN);
      map_puts(k->fns, f->name, (uint64_t)(uintptr_t)f);
    }
  for (uint32_t pass = 0; pass < 2; pass++) /* functions last: they may name tensors and lets that stand below them */
    for (uint32_t i = 0; i < b->n; i++)
      if ((b->s[i]->kind == ST_FN) == (pass == 1)) check_stmt(k, b->s[i], false);
}

/* ---- signatures ------------------------------------------------------------------------------ */
static void param_type(checker *k, const param *p, bool attr) {
  uint32_t mask;
  const char *e = p->type.elem;
  bool kind = !strcmp(e, "int") || !strcmp(e, "float") || !strcmp(e, "str");
  if (attr && kind) return;
  if (global(k, e) != G_TYPE && !elem_set(e, &mask))
    report(k, p->line, p->col, e, "%s is no element type, set of types or type variable", e);
}
static bool let_type(const blk *b, const char *n) {
  for (uint32_t i = 0; b && i < b->n; i++) {
    for (uint32_t j = 0; b->s[i]->kind == ST_LET && j < b->s[i]->nnames; j++)
      if (b->s[i]->names[j].name == n) return true;
    if (let_type(b->s[i]->body, n) || let_type(b->s[i]->other, n)) return true;
  }
  return false;
}
static void distinct(checker *k, const param *p, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (global(k, p[i].name))
      report(k, p[i].line, p[i].col, p[i].name, "the name %s stands twice in the signature", p[i].name);
  }
}

bool check_op(oplib *l, opdef *d) {
  arena *a = l->a;
  checker k = {.l = l, .d = d, .file = d->file, .ok = true};
  k.globals = map_new(a), k.fns = map_new(a), k.index = map_new(a), k.reported = map_new(a), k.assigned = map_new(a);
  uint32_t mask;
  for (uint32_t i = 0; i < d->ntv; i++) {
    declare(&k, d->tv[i].name, G_TYPE);
    for (uint32_t j = 0; j < d->tv[i].nsets; j++)
      if (!elem_set(d->tv[i].sets[j], &mask))
        report(&k, d->tv[i].line, d->tv[i].col, d->tv[i].sets[j], "%s is no element type or set of types",
               d->tv[i].sets[j]);
  }
  for (uint32_t i = 0; i < d->nattr; i++) {
    distinct(&k, &d->attr[i], 1);
    declare(&k, d->attr[i].name, G_ATTR);
  }
  for (uint32_t i = 0; i < d->nin; i++) {
    distinct(&k, &d->in[i], 1);
    declare(&k, d->in[i].name, G_INPUT);
  }
  for (uint32_t i = 0; i < d->nout; i++) distinct(&k, &d->out[i], 1);
  for (uint32_t i = 0; i < d->nin; i++) {
    const param *p = &d->in[i];
    param_type(&k, p, false);
    for (uint32_t j = 0; j < p->type.n; j++)
      if (p->type.dims[j].e) dim_names(&k, p->type.dims[j].e, true);
  }
  for (uint32_t i = 0; i < d->nattr; i++) param_type(&k, &d->attr[i], true);
  for (uint32_t i = 0; i < d->nin; i++) { /* uses inside the types, defaults and contracts */
    const param *p = &d->in[i];
    for (uint32_t j = 0; j < p->type.n; j++) {
      static_expr(&k, p->type.dims[j].e);
      static_expr(&k, p->type.dims[j].at);
    }
    static_expr(&k, p->def);
    static_expr(&k, p->lo);
    static_expr(&k, p->hi);
  }
  for (uint32_t i = 0; i < d->nattr; i++) {
    const param *p = &d->attr[i];
    static_expr(&k, p->def);
    for (uint32_t j = 0; j < p->nper; j++)
      if (global(&k, p->per[j]) != G_STATIC)
        report(&k, p->line, p->col, p->per[j], "per %s: no pack of the inputs has this name", p->per[j]);
  }
  for (uint32_t i = 0; i < d->nout; i++) declare(&k, d->out[i].name, G_OUTPUT);
  index_names(&k, d->body);
  for (uint32_t i = 0; i < d->nout; i++)
    for (uint32_t j = 0; j < d->out[i].type.n; j++) {
      const ast *e = d->out[i].type.dims[j].e;
      if (e && e->kind == A_NAME) map_puts(k.index, e->name, 1);
    }
  check_block(&k, d->body);
  for (uint32_t i = 0; i < d->nout; i++) {
    const param *o = &d->out[i];
    const char *e = o->type.elem;
    if (global(&k, e) != G_TYPE && !let_type(d->body, e) && !elem_set(e, &mask))
      report(&k, o->line, o->col, e, "%s is no element type, and no let defines it", e);
    for (uint32_t j = 0; j < o->type.n; j++) static_expr(&k, o->type.dims[j].e);
    if (!has(k.assigned, o->name) && !o->optional)
      report(&k, o->line, o->col, o->name, "output %s is never computed", o->name);
  }
  d->indexnames = k.index;
  return k.ok;
}
bool check_fn(oplib *l, fndef *f) {
  arena *a = l->a;
  checker k = {.l = l, .file = f->file, .ok = true};
  k.globals = map_new(a), k.fns = map_new(a), k.index = map_new(a), k.reported = map_new(a), k.assigned = map_new(a);
  function(&k, f);
  return k.ok;
}
