/* lib: sets of definitions. What is defined under which name, and which source wins?
 *
 * Operators are keyed by "domain::NAME" ("" is the standard's domain, also spelled ai.onnx); a later source replaces an
 * earlier one. Functions belong to their file first: a definition sees the functions of its own file, then those of
 * earlier sources, so that a user's `fn wrap` changes nothing in the library. A definition with an error is left out
 * (what it would have replaced stays).
 */
#include "notation/ast.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

oplib *notation_lib(ctx *c) {
  arena *a = ctx_arena(c);
  oplib *l = NEW(a, oplib);
  l->c = c;
  l->a = a;
  l->ops = map_new(a);
  l->fns = map_new(a);
  l->unread = map_new(a);
  return l;
}

static const char *op_key(arena *a, const char *domain, const char *name) {
  if (!strcmp(domain, "ai.onnx")) domain = "";
  return arena_fmt(a, "%s::%s", domain, name);
}
static const char *fn_key(arena *a, const char *file, const char *name) { return arena_fmt(a, "%s\n%s", file, name); }

const fndef *lib_fn(const oplib *l, const char *file, const char *name) {
  uint64_t q;
  char key[512];
  size_t n = strlen(file), m = strlen(name);
  if (n + m + 2 <= sizeof key) {
    memcpy(key, file, n);
    key[n] = '\n';
    memcpy(key + n + 1, name, m + 1);
    if (map_gets(l->fns, key, &q) && q) return (const fndef *)(uintptr_t)q;
  }
  return map_gets(l->fns, name, &q) && q ? (const fndef *)(uintptr_t)q : NULL;
}

typedef struct added {
  opdef *d;               /* the operator; NULL: it is a function */
  fndef *f;               /* the function; NULL: it is an operator */
  uint64_t before;        /* what had this name before; 0: nothing */
  uint64_t before_global; /* what had the name of a function before in all files; 0: nothing */
} added;
typedef struct loading {
  oplib *l;     /* the library */
  VEC(added) v; /* what the source adds */
  bool ok;      /* no error so far */
} loading;

static void twice(loading *g, const char *file, uint32_t line, uint32_t col, const char *name, uint32_t first) {
  srcpos pos = {file, line, col};
  diag_add(g->l->c, D_ERROR, E_MODEL, pos, NULL, "%s is defined twice in this file; first in line %u", name, first);
  g->ok = false;
}
static uint64_t lookup(const map *m, const char *key) {
  uint64_t q;
  return map_gets(m, key, &q) ? q : 0;
}
static void add(void *env, opdef *d, fndef *f) {
  loading *g = env;
  oplib *l = g->l;
  added a = {.d = d, .f = f};
  if (d) {
    map *m = l->ops;
    const char *key = op_key(l->a, d->domain, d->name);
    a.before = lookup(m, key);
    const opdef *old = (const opdef *)(uintptr_t)a.before;
    if (old && old->file == d->file) {
      twice(g, d->file, d->line, d->col, d->name, old->line);
      return;
    }
    map_puts(m, key, (uint64_t)(uintptr_t)d);
  } else {
    const char *key = fn_key(l->a, f->file, f->name);
    a.before = lookup(l->fns, key);
    a.before_global = lookup(l->fns, f->name);
    const fndef *old = (const fndef *)(uintptr_t)a.before;
    if (old) {
      twice(g, f->file, f->line, f->col, f->name, old->line);
      return;
    }
    map_puts(l->fns, key, (uint64_t)(uintptr_t)f);
    if (!a.before_global) map_puts(l->fns, f->name, (uint64_t)(uintptr_t)f);
  }
  vec_push(l->a, g->v, a);
}

static bool add_text(oplib *lib, const char *text, size_t n, const char *file, uint32_t line) {
  loading g = {.l = lib, .ok = true};
  bool ok = parse_source(lib, text, n, file, line, add, &g);
  lib->is_sorted = false;
  for (uint32_t i = 0; i < g.v.n; i++) {
    added *a = &g.v.v[i];
    if (a->d ? check_op(lib, a->d) : check_fn(lib, a->f)) continue;
    ok = false;
    if (a->d)
      map_puts(lib->ops, op_key(lib->a, a->d->domain, a->d->name), a->before);
    else {
      map_puts(lib->fns, fn_key(lib->a, a->f->file, a->f->name), a->before);
      map_puts(lib->fns, a->f->name, a->before_global);
    }
  }
  return ok && g.ok;
}
bool notation_add(oplib *lib, const char *text, size_t n, const char *file) { return add_text(lib, text, n, file, 1); }

/* ---- sources that are known to be right ----
 * A model uses a dozen of the library's 300 operators. Their texts are found by their first lines, `op NAME` or a
 * documentation string before it, and read when one is asked for; functions, which are few, at once. */
typedef struct unread {
  const char *text; /* first character of the definition */
  const char *file; /* name of the source */
  size_t n;         /* number of characters */
  uint32_t line;    /* line of the first character, from 1 */
} unread;
static const char *line_end(const char *s, const char *end) {
  const char *nl = memchr(s, '\n', (size_t)(end - s));
  return nl ? nl + 1 : end;
}
static bool begins(const char *s, const char *end, const char *word) {
  size_t n = strlen(word);
  return (size_t)(end - s) > n && !memcmp(s, word, n);
}
/* `op NAME..`, `op "DOMAIN::NAME"..`; NULL: something else */
static const char *key_of(arena *a, const char *s, const char *end) {
  if (!begins(s, end, "op ")) return NULL;
  s += 3;
  bool quoted = *s == '"';
  const char *from = s += quoted;
  while (s < end && (quoted ? *s != '"' : isalnum((unsigned char)*s) || *s == '_')) s++;
  return quoted ? arena_strndup(a, from, (size_t)(s - from))
                : op_key(a, "", arena_strndup(a, from, (size_t)(s - from)));
}
bool notation_add_later(oplib *lib, const char *text, size_t n, const char *file) {
  const char *end = text + n, *s = text, *from = NULL, *key = NULL, *next_key;
  uint32_t line = 1, from_line = 1;
  bool ok = true, doc = false; /* doc: the piece has only its documentation so far */
  for (; s <= end; line++) {
    bool ends = s == end, starts = !ends && (begins(s, end, "op ") || begins(s, end, "fn ")),
         documents = !ends && begins(s, end, "\"\"\"");
    if (from && (ends || documents || (starts && !doc))) {
      unread *u = NEW(lib->a, unread);
      *u = (unread){from, file, (size_t)(s - from), from_line};
      if (key)
        map_puts(lib->unread, key, (uint64_t)(uintptr_t)u);
      else
        ok &= add_text(lib, u->text, u->n, file, from_line);
      from = NULL;
    }
    if (ends) break;
    next_key = starts ? key_of(lib->a, s, end) : NULL;
    if ((starts || documents) && !from) from = s, from_line = line;
    if (starts) key = next_key;
    if (documents) { /* goes to the end of the string, which may be lines below */
      for (s += 3; s < end && !begins(s, end, "\"\"\""); s++) line += *s == '\n';
      key = NULL;
    }
    doc = documents;
    s = line_end(s, end);
  }
  lib->is_sorted = false;
  return ok;
}
static void read_now(const oplib *lib, const char *key) {
  oplib *l = (oplib *)(uintptr_t)lib;
  uint64_t q;
  if (!map_gets(l->unread, key, &q) || !q) return;
  const unread *u = (const unread *)(uintptr_t)q;
  map_puts(l->unread, key, 0);
  if (!lookup(l->ops, key)) add_text(l, u->text, u->n, u->file, u->line);
}

const opdef *notation_find(const oplib *lib, const char *domain, const char *name) {
  uint64_t q;
  char key[512];
  if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
  size_t n = strlen(domain), m = strlen(name);
  if (n + m + 3 > sizeof key) return NULL;
  memcpy(key, domain, n);
  memcpy(key + n, "::", 2);
  memcpy(key + n + 2, name, m + 1);
  if (!map_gets(lib->ops, key, &q) || !q) read_now(lib, key);
  return map_gets(lib->ops, key, &q) && q ? (const opdef *)(uintptr_t)q : NULL;
}

const opdef *lib_called(const oplib *lib, const opdef *caller, const char *name) {
  const char *sep = strstr(name, "::");
  if (sep) return notation_find(lib, arena_strndup(lib->a, name, (size_t)(sep - name)), sep + 2);
  const opdef *d = notation_find(lib, "", name);
  return d || !caller || !caller->domain[0] ? d : notation_find(lib, caller->domain, name);
}

static int by_name(const void *a, const void *b) {
  const opdef *p = *(const opdef *const *)a, *q = *(const opdef *const *)b;
  int r = strcmp(p->name, q->name);
  return r ? r : strcmp(p->domain, q->domain);
}
static void sort(const oplib *lib) {
  oplib *l = (oplib *)(uintptr_t)lib;
  if (l->is_sorted) return;
  for (uint32_t i = 0; i < map_count(l->unread); i++) read_now(l, map_key(l->unread, i, NULL, NULL));
  l->sorted.n = 0;
  for (uint32_t i = 0; i < map_count(l->ops); i++) {
    size_t n;
    uint64_t q;
    map_key(l->ops, i, &n, &q);
    if (q) vec_push(l->a, l->sorted, (const opdef *)(uintptr_t)q);
  }
  if (l->sorted.n) qsort(l->sorted.v, l->sorted.n, sizeof *l->sorted.v, by_name);
  l->is_sorted = true;
}
uint32_t notation_count(const oplib *lib) {
  sort(lib);
  return lib->sorted.n;
}
const opdef *notation_nth(const oplib *lib, uint32_t i) {
  sort(lib);
  return i < lib->sorted.n ? lib->sorted.v[i] : NULL;
}
const char *notation_meant(const oplib *lib, arena *a, const char *domain, const char *name) {
  strvec same_domain = {0};
  for (uint32_t i = 0; i < notation_count(lib); i++) {
    const opdef *d = notation_nth(lib, i);
    const char *full = d->domain[0] ? arena_fmt(a, "%s::%s", d->domain, d->name) : d->name;
    if (!strcasecmp(d->name, name)) return arena_fmt(a, "; did you mean %s?", full);
    if (!strcmp(d->domain, domain)) vec_push(a, same_domain, d->name);
  }
  const char *near = closest_word(name, same_domain.v, same_domain.n);
  return near ? arena_fmt(a, "; did you mean %s%s%s?", domain, domain[0] ? "::" : "", near) : "";
}
const char *opdef_name(const opdef *d) { return d->name; }
srcpos opdef_pos(const opdef *d) { return (srcpos){d->file, d->line, d->col}; }
const char *opdef_domain(const opdef *d) { return d->domain; }
uint32_t opdef_inputs(const opdef *d) { return d->nin; }
const char *opdef_input(const opdef *d, uint32_t i) { return i < d->nin ? d->in[i].name : ""; }
bool opdef_input_is_static(const opdef *d, uint32_t i) { return i < d->nin && d->in[i].isdims; }
bool opdef_input_is_optional(const opdef *d, uint32_t i) {
  return i < d->nin && (d->in[i].optional || d->in[i].def || d->in[i].variadic);
}
bool opdef_input_takes(const opdef *d, uint32_t i, etype t) {
  const char *elem = i < d->nin ? d->in[i].type.elem : "";
  uint32_t mask, all = 0;
  for (uint32_t k = 0; k < d->ntv; k++) {
    if (d->tv[k].name != elem) continue;
    for (uint32_t j = 0; j < d->tv[k].nsets; j++)
      if (elem_set(d->tv[k].sets[j], &mask)) all |= mask;
    return !d->tv[k].nsets || all >> t & 1;
  }
  return elem_set(elem, &mask) && mask >> t & 1;
}
uint32_t opdef_outputs(const opdef *d) { return d->nout; }
uint32_t opdef_attrs(const opdef *d) { return d->nattr; }
const char *opdef_attr(const opdef *d, uint32_t i, skind *kind) {
  static const struct {
    const char *type;
    skind kind;
  } kinds[] = {{"int", SK_INT}, {"float", SK_FLOAT}, {"str", SK_STRING}};
  *kind = SK_NONE;
  for (size_t k = 0; i < d->nattr && k < sizeof kinds / sizeof *kinds; k++)
    if (!d->attr[i].nper && !strcmp(d->attr[i].type.elem, kinds[k].type)) *kind = kinds[k].kind;
  return i < d->nattr ? d->attr[i].name : "";
}
void opdef_types(const opdef *d, sbuf *b) {
  for (uint32_t i = 0; i < d->ntv; i++) {
    sb_fmt(b, "%s%s: ", i ? ", " : "", d->tv[i].name);
    for (uint32_t k = 0; k < d->tv[i].nsets; k++) sb_fmt(b, "%s%s", k ? " | " : "", d->tv[i].sets[k]);
    if (!d->tv[i].nsets) sb_put(b, "any");
  }
  if (d->ntv) sb_put(b, "; ");
  for (uint32_t i = 0; i < d->nin; i++)
    sb_fmt(b, "%s%s%s%s", i ? ", " : "", d->in[i].type.elem, d->in[i].variadic ? ".." : "",
           d->in[i].optional || d->in[i].def ? "?" : "");
  sb_put(b, d->nin ? " -> " : "-> ");
  for (uint32_t i = 0; i < d->nout; i++)
    sb_fmt(b, "%s%s%s%s", i ? ", " : "", d->out[i].type.elem, d->out[i].variadic ? ".." : "",
           d->out[i].optional ? "?" : "");
}
bool opdef_keeps_shape(const opdef *d, uint32_t input, uint32_t output) {
  if (input >= d->nin || output >= d->nout) return false;
  const etypex *a = &d->in[input].type, *b = &d->out[output].type;
  if (d->in[input].variadic || d->out[output].variadic || !a->ranked || !b->ranked || a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    const elem *p = &a->dims[i], *q = &b->dims[i];
    if (p->at || q->at || p->tilde || p->splat != q->splat || p->e->kind != A_NAME || q->e->kind != A_NAME ||
        p->e->name != q->e->name)
      return false;
  }
  return true;
}
bool opdef_broadcasts(const opdef *d, uint32_t input, uint32_t output) {
  if (input >= d->nin || output >= d->nout) return false;
  const etypex *a = &d->in[input].type, *b = &d->out[output].type;
  if (d->in[input].variadic || d->out[output].variadic || !a->ranked || !b->ranked || a->n != 1 || b->n != 1)
    return false;
  const elem *p = &a->dims[0], *q = &b->dims[0];
  return !p->at && p->splat && p->e->kind == A_NAME && q->splat && q->e->kind == A_CALL &&
         !strcmp(q->e->name, "broadcast");
}
const char *opdef_doc(const opdef *d) { return d->doc; }

bool notation_stated_gradient(const oplib *lib, const opdef *d, const char *input) {
  (void)lib;
  for (uint32_t i = 0; i < d->body->n; i++)
    if (d->body->s[i]->kind == ST_GRAD && !strcmp(d->body->s[i]->names[0].name, input)) return true;
  return false;
}
