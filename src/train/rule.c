/* Losses, optimisers and metrics by name: definitions of a domain of the library, with attributes from a text. */
#include "train/train.h"
#include <stdlib.h>
#include <string.h>

static const opdef *find(ctx *c, const oplib *lib, const char *domain, const char *what, const char *name) {
  const opdef *d = notation_find(lib, domain, name);
  if (d) return d;
  sbuf b = sbuf_new(ctx_arena(c));
  for (uint32_t i = 0, k = 0; i < notation_count(lib); i++)
    if (!strcmp(opdef_domain(notation_nth(lib, i)), domain))
      sb_fmt(&b, "%s%s", k++ ? ", " : "", opdef_name(notation_nth(lib, i)));
  ctx_fail(c, E_USAGE, "there is no %s of the name '%s'%s; there are %s, and definitions of the domain %s of your own",
           what, name, notation_meant(lib, ctx_arena(c), domain, name), b.s, domain);
}
/* "1", or "1/2/3": a list. false: no such numbers */
static bool read_numbers(ctx *c, const char *text, sattr *s) {
  VEC(int64_t) whole = {0};
  VEC(double) real = {0};
  for (const char *p = text;; p++) {
    char *end = NULL;
    if (s->kind == SK_FLOAT)
      s->f = strtod(p, &end), vec_push(ctx_arena(c), real, s->f);
    else
      s->i = strtoll(p, &end, 0), vec_push(ctx_arena(c), whole, s->i);
    if (end == p || (*end && *end != '/')) return false;
    p = end;
    if (!*p) break;
  }
  s->n = whole.n + real.n, s->ints = whole.v, s->floats = real.v;
  if (s->n > 1) s->kind = s->kind == SK_FLOAT ? SK_FLOATS : SK_INTS;
  return true;
}
static sattr read_attribute(ctx *c, const opdef *d, const char *name, const char *text) {
  strvec known = {0};
  for (uint32_t i = 0; i < opdef_attrs(d); i++) {
    skind kind;
    const char *its = opdef_attr(d, i, &kind);
    vec_push(ctx_arena(c), known, its);
    if (strcmp(its, name) != 0) continue;
    sattr s = {.name = its, .kind = kind, .s = text};
    if (kind == SK_STRING || (kind != SK_NONE && read_numbers(c, text, &s))) return s;
    ctx_fail(c, E_USAGE, "%s: attribute %s=%s: %s is expected", opdef_name(d), name, text,
             kind == SK_INT     ? "an integer"
             : kind == SK_FLOAT ? "a number"
                                : "no attribute of this type can be given as text; nothing");
  }
  sbuf list = sbuf_new(ctx_arena(c));
  for (uint32_t i = 0; i < known.n; i++) sb_fmt(&list, "%s%s", i ? ", " : "", known.v[i]);
  ctx_fail(c, E_USAGE, "%s has no attribute '%s'%s; it has %s", opdef_name(d), name,
           did_you_mean(ctx_arena(c), name, known.v, known.n), known.n ? list.s : "none");
}
train_rule train_refine_rule(ctx *c, const train_rule *r, const char *text) {
  arena *a = ctx_arena(c);
  train_rule out = {r->d, NEWN(a, sattr, opdef_attrs(r->d) + 1), 0};
  for (uint32_t i = 0; i < r->n; i++) out.attrs[out.n++] = r->attrs[i];
  while (*text) {
    const size_t n = strcspn(text, ",");
    const char *eq = memchr(text, '=', n);
    uint32_t at = 0;
    if (!eq)
      ctx_fail(c, E_USAGE, "%s:%.*s: ATTRIBUTE=VALUE is expected behind the colon", opdef_name(r->d), (int)n, text);
    const sattr s = read_attribute(c, r->d, intern_n(c, text, (size_t)(eq - text)),
                                   intern_n(c, eq + 1, n - (size_t)(eq + 1 - text)));
    while (at < out.n && strcmp(out.attrs[at].name, s.name) != 0) at++;
    out.attrs[at] = s;
    out.n += at == out.n;
    text += n + (text[n] == ',');
  }
  return out;
}
train_rule train_parse_rule(ctx *c, const oplib *lib, const char *domain, const char *what, const char *text) {
  const size_t n = strcspn(text, ":");
  const train_rule plain = {.d = find(c, lib, domain, what, intern_n(c, text, n))};
  return train_refine_rule(c, &plain, text + n + (text[n] == ':'));
}
node *train_add_rule(graph *g, const train_rule *r, const char *name, value *const *in, uint32_t n) {
  node *x = graph_node(g, opdef_name(r->d), opdef_domain(r->d), name);
  for (uint32_t i = 0; i < n; i++) vec_push(ctx_arena(g->c), x->in, in[i]);
  for (uint32_t i = 0; i < r->n; i++) {
    const sattr *s = &r->attrs[i];
    if (s->kind == SK_INT) node_set_int(g, x, s->name, s->i);
    if (s->kind == SK_FLOAT) node_set_float(g, x, s->name, s->f);
    if (s->kind == SK_INTS) node_set_ints(g, x, s->name, s->ints, s->n);
    if (s->kind == SK_FLOATS) node_set_floats(g, x, s->name, s->floats, s->n);
    if (s->kind == SK_STRING) node_set_string(g, x, s->name, s->s);
  }
  return x;
}
