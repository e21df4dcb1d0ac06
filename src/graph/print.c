/* The text form of graphs:
 *
 *   graph "name" ir 8 opset 17 producer "p" {
 *     input x: f32[N, 3, 32, 32] as "model's name"
 *     const w: f32[8, 3, 3, 3] = @"model.onnx"+1234:864 sha256:9f86...        bytes in a file; up to 1 KB (or
 *     when asked) in place: = [0.5, -1, ...]
 *     y: f32[N, 8, 32, 32], _ = Conv(x, w, _) {pads = [1, 1, 1, 1], group = 1} "conv1"      "_": an omitted optional
 *     z = my.domain::Op(y) {body = graph "b" { ... }} "n2"
 *     output z
 *     output h2 state h first f32[1] = [0.5]      h2 is h in the next run; h begins with 0.5, else with zeros
 *   }
 *
 * Names that are not identifiers, and the words of this language, stand in quotes. Types of values are printed when
 * known; dims are size expressions. Floats print so that they read back to the same value. */
#include "graph/graph.h"
#include <string.h>

static bool ident(const char *s) {
  static const char *const words[] = {"input", "const", "output", "graph"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(s, words[i])) return false;
  if (!s[0] || !strcmp(s, "_") || (s[0] >= '0' && s[0] <= '9')) return false;
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_')) return false;
  return true;
}
static void put_name(sbuf *b, const char *s) {
  if (ident(s))
    sb_put(b, s);
  else
    sb_quoted(b, s, strlen(s));
}
static void put_type(ctx *c, sbuf *b, const value *v) {
  static const char *const kinds[] = {"", "list ", "optional ", "optional list "};
  if (!v->type) return;
  sb_fmt(b, ": %s%s", kinds[v->kind], et_name(v->type));
  if (!v->ranked) return;
  sb_putc(b, '[');
  for (uint32_t i = 0; i < v->rank; i++) {
    if (i) sb_put(b, ", ");
    if (v->dims[i])
      sym_print(c, v->dims[i], b);
    else
      sb_putc(b, '?');
  }
  sb_putc(b, ']');
}
static void put_array(arena *a, sbuf *b, const ndarray *d, bool in_place) {
  sb_fmt(b, "%s[", et_name(d->type));
  for (uint32_t i = 0; i < d->rank; i++) sb_fmt(b, "%s%lld", i ? ", " : "", (long long)d->dims[i]);
  sb_put(b, "] = ");
  int64_t n;
  if (!in_place && d->bytes > 1024 && et_kind(d->type) != K_STR) {
    sb_putc(b, '@');
    sb_quoted(b, d->file ? d->file : "", d->file ? strlen(d->file) : 0);
    sb_fmt(b, "+%llu:%zu sha256:%s", (unsigned long long)d->offset, d->bytes, sha256_hex(a, d->data, d->bytes));
    return;
  }
  sb_putc(b, '[');
  if (nd_count(d, &n))
    for (int64_t i = 0; i < n; i++) {
      if (i) sb_put(b, ", ");
      if (et_kind(d->type) == K_STR) {
        const bytes *s = (const bytes *)d->data + i;
        sb_quoted(b, (const char *)s->p, s->n);
        continue;
      }
      scalar s = et_load(d->type, (const uint8_t *)d->data + i * et_bytes(d->type));
      if (et_kind(d->type) == K_FLOAT)
        sb_double(b, s.f);
      else
        sb_fmt(b, "%lld", (long long)s.i);
    }
  sb_putc(b, ']');
}
static void put_graph(const graph *g, sbuf *b, graph_print_opts o, int depth);
static void put_attr(const graph *g, const attr *t, sbuf *b, graph_print_opts o, int depth) {
  put_name(b, t->name);
  sb_put(b, " = ");
  switch (t->kind) {
  case AK_INT:
    sb_fmt(b, "%lld", (long long)t->i);
    break;
  case AK_FLOAT:
    sb_put(b, "float ");
    sb_double(b, t->f);
    break;
  case AK_STRING:
    sb_quoted(b, t->s, strlen(t->s));
    break;
  case AK_INTS:
    sb_putc(b, '[');
    for (uint32_t i = 0; i < t->n; i++) sb_fmt(b, "%s%lld", i ? ", " : "", (long long)t->ints[i]);
    sb_putc(b, ']');
    break;
  case AK_FLOATS:
    sb_put(b, "floats [");
    for (uint32_t i = 0; i < t->n; i++) {
      if (i) sb_put(b, ", ");
      sb_double(b, t->floats[i]);
    }
    sb_putc(b, ']');
    break;
  case AK_STRINGS:
    sb_put(b, "strings [");
    for (uint32_t i = 0; i < t->n; i++) {
      if (i) sb_put(b, ", ");
      sb_quoted(b, t->strings[i], strlen(t->strings[i]));
    }
    sb_putc(b, ']');
    break;
  case AK_TENSOR:
    sb_put(b, "tensor ");
    put_array(ctx_arena(g->c), b, t->tensor, o.weights_inline);
    break;
  case AK_GRAPH:
    put_graph(t->g, b, o, depth + 1);
    break;
  default:
    sb_put(b, "\"unprintable\"");
  }
}
static void indent(sbuf *b, int depth) {
  for (int i = 0; i < depth; i++) sb_put(b, "  ");
}
static void put_state(const graph *g, const value *out, sbuf *b, graph_print_opts o) {
  for (uint32_t i = 0; i < g->states.n; i++) {
    const graph_state *s = &g->states.v[i];
    if (s->out != out) continue;
    sb_put(b, " state ");
    put_name(b, s->in->name);
    if (!s->first) continue;
    sb_put(b, " first ");
    put_array(ctx_arena(g->c), b, s->first, o.weights_inline);
  }
}
static void put_graph(const graph *g, sbuf *b, graph_print_opts o, int depth) {
  sb_put(b, "graph ");
  sb_quoted(b, g->name, strlen(g->name));
  if (!g->parent && g->ir_version) sb_fmt(b, " ir %lld opset %lld", (long long)g->ir_version, (long long)g->opset);
  if (!g->parent && g->producer) {
    sb_put(b, " producer ");
    sb_quoted(b, g->producer, strlen(g->producer));
  }
  sb_put(b, " {\n");
  for (uint32_t i = 0; !o.node && i < g->inputs.n; i++) {
    indent(b, depth + 1);
    sb_put(b, "input ");
    put_name(b, g->inputs.v[i]->name);
    put_type(g->c, b, g->inputs.v[i]);
    if (strcmp(g->inputs.v[i]->name, g->inputs.v[i]->source)) {
      sb_put(b, " as ");
      sb_quoted(b, g->inputs.v[i]->source, strlen(g->inputs.v[i]->source));
    }
    sb_putc(b, '\n');
  }
  for (uint32_t i = 0; !o.node && i < g->values.n; i++) {
    const value *v = g->values.v[i];
    if (!v->data) continue;
    indent(b, depth + 1);
    sb_put(b, "const ");
    put_name(b, v->name);
    sb_put(b, ": ");
    put_array(ctx_arena(g->c), b, v->data, o.weights_inline);
    sb_putc(b, '\n');
  }
  for (uint32_t i = 0; i < g->nodes.n; i++) {
    const node *n = g->nodes.v[i];
    if (o.node && strcmp(o.node, n->name)) continue;
    indent(b, depth + 1);
    for (uint32_t j = 0; j < n->out.n; j++) {
      if (j) sb_put(b, ", ");
      if (!n->out.v[j]) {
        sb_putc(b, '_');
        continue;
      }
      put_name(b, n->out.v[j]->name);
      put_type(g->c, b, n->out.v[j]);
    }
    sb_put(b, " = ");
    if (n->domain[0]) {
      put_name(b, n->domain);
      sb_put(b, "::");
    }
    put_name(b, n->op);
    sb_putc(b, '(');
    for (uint32_t j = 0; j < n->in.n; j++) {
      if (j) sb_put(b, ", ");
      if (n->in.v[j])
        put_name(b, n->in.v[j]->name);
      else
        sb_putc(b, '_');
    }
    sb_putc(b, ')');
    if (n->attrs.n) {
      sb_put(b, " {");
      for (uint32_t j = 0; j < n->attrs.n; j++) {
        if (j) sb_put(b, ", ");
        put_attr(g, &n->attrs.v[j], b, o, depth + 1);
      }
      sb_putc(b, '}');
    }
    sb_putc(b, ' ');
    sb_quoted(b, n->name, strlen(n->name));
    sb_putc(b, '\n');
  }
  for (uint32_t i = 0; !o.node && i < g->outputs.n; i++) {
    indent(b, depth + 1);
    sb_put(b, "output ");
    put_name(b, g->outputs.v[i]->name);
    if (strcmp(g->outputs.v[i]->name, g->outputs.v[i]->source)) {
      sb_put(b, " as ");
      sb_quoted(b, g->outputs.v[i]->source, strlen(g->outputs.v[i]->source));
    }
    put_state(g, g->outputs.v[i], b, o);
    sb_putc(b, '\n');
  }
  indent(b, depth);
  sb_put(b, "}");
}
void graph_print(const graph *g, sbuf *b, graph_print_opts o) {
  put_graph(g, b, o, 0);
  sb_putc(b, '\n');
}
