/* lib: sets of definitions. What is defined under which name, and which source wins?
 *
 * Operators are keyed by "domain::NAME" ("" is the standard's domain, also spelled ai.onnx); a later source replaces an earlier one. Functions belong to their file first: a definition sees the
 * functions of its own file, then those of earlier sources, so that a user's `fn wrap` changes nothing in the library. A definition with an error is left out (what it would have replaced stays).
 */
#include "notation/ast.h"
#include <stdlib.h>
#include <string.h>

oplib *notation_lib(ctx *c) {
  arena *a = ctx_arena(c);
  oplib *l = NEW(a, oplib);
  l->c = c;
  l->a = a;
  l->ops = map_new(a);
  l->fns = map_new(a);
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
  opdef *d;
  fndef *f;
  uint64_t before, before_global;
} added;
typedef struct loading {
  oplib *l;
  VEC(added) v;
  bool ok;
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

bool notation_add(oplib *lib, const char *text, size_t n, const char *file) {
  loading g = {.l = lib, .ok = true};
  bool ok = parse_source(lib, text, n, file, add, &g);
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

const opdef *notation_find(const oplib *lib, const char *domain, const char *name) {
  uint64_t q;
  char key[512];
  if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
  size_t n = strlen(domain), m = strlen(name);
  if (n + m + 3 > sizeof key) return NULL;
  memcpy(key, domain, n);
  memcpy(key + n, "::", 2);
  memcpy(key + n + 2, name, m + 1);
  return map_gets(lib->ops, key, &q) && q ? (const opdef *)(uintptr_t)q : NULL;
}

static int by_name(const void *a, const void *b) {
  const opdef *p = *(const opdef *const *)a, *q = *(const opdef *const *)b;
  int r = strcmp(p->name, q->name);
  return r ? r : strcmp(p->domain, q->domain);
}
static void sort(const oplib *lib) {
  oplib *l = (oplib *)(uintptr_t)lib;
  if (l->is_sorted) return;
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
const char *opdef_name(const opdef *d) { return d->name; }
srcpos opdef_pos(const opdef *d) { return (srcpos){d->file, d->line, d->col}; }
const char *opdef_domain(const opdef *d) { return d->domain; }
uint32_t opdef_inputs(const opdef *d) { return d->nin; }
const char *opdef_input(const opdef *d, uint32_t i) { return i < d->nin ? d->in[i].name : ""; }
void opdef_types(const opdef *d, sbuf *b) {
  for (uint32_t i = 0; i < d->ntv; i++) {
    sb_fmt(b, "%s%s: ", i ? ", " : "", d->tv[i].name);
    for (uint32_t k = 0; k < d->tv[i].nsets; k++) sb_fmt(b, "%s%s", k ? " | " : "", d->tv[i].sets[k]);
    if (!d->tv[i].nsets) sb_put(b, "any");
  }
  if (d->ntv) sb_put(b, "; ");
  for (uint32_t i = 0; i < d->nin; i++) sb_fmt(b, "%s%s%s%s", i ? ", " : "", d->in[i].type.elem, d->in[i].variadic ? ".." : "", d->in[i].optional || d->in[i].def ? "?" : "");
  sb_put(b, d->nin ? " -> " : "-> ");
  for (uint32_t i = 0; i < d->nout; i++) sb_fmt(b, "%s%s%s%s", i ? ", " : "", d->out[i].type.elem, d->out[i].variadic ? ".." : "", d->out[i].optional ? "?" : "");
}
const char *opdef_doc(const opdef *d) { return d->doc; }

bool notation_stated_gradient(const oplib *lib, const opdef *d, const char *input) {
  (void)lib;
  for (uint32_t i = 0; i < d->body->n; i++)
    if (d->body->s[i]->kind == ST_GRAD && !strcmp(d->body->s[i]->names[0].name, input)) return true;
  return false;
}
