/* What does a program look like as text? Sizes, inputs and outputs, the memory (every buffer, where it lies, and from
 * which to which step it is needed), the conditions at entry, then the steps in order, then the kernels as the loop
 * level prints them. parse.c reads it back; its head has the grammar. */
#include "program/build.h"
#include <string.h>

typedef struct pp {
  const program *p; /* the program */
  ctx *c;           /* context */
  sbuf *b;          /* gets the text */
  int depth;        /* levels of indentation */
  map *noted;       /* kernels whose note was printed */
} pp;

static void indent(pp *k) {
  for (int i = 0; i < k->depth; i++) sb_put(k->b, "  ");
}
static void size(pp *k, sz e) { sym_print(k->c, e, k->b); }
static void string(pp *k, const char *s) { sb_quoted(k->b, s, strlen(s)); }
static bool plain(const char *s) {
  for (; *s; s++)
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_' || *s == '.'))
      return false;
  return true;
}
static void ref(pp *k, uint32_t n) {
  const char *name = k->p->buffers.v[n].name;
  sb_fmt(k->b, "%%%u", n);
  if (!name || !*name) return;
  sb_putc(k->b, '.');
  if (plain(name))
    sb_put(k->b, name);
  else
    string(k, name);
}
static void where(pp *k, place at) {
  ref(k, at.buffer);
  if (sym_int_or(k->c, at.at, 1) != 0) sb_put(k->b, " + "), size(k, at.at);
}
static void sizes(pp *k) {
  for (uint32_t i = 0; i < k->p->sizes.n; i++) {
    const psize *s = &k->p->sizes.v[i];
    sb_put(k->b, "size "), size(k, sym_of_atom(k->c, s->symbol)),
        sb_fmt(k->b, " %lld..%lld", (long long)s->lo, (long long)s->hi);
    if (s->def) sb_put(k->b, " = "), size(k, s->def);
    if (s->bound) sb_put(k->b, " at most "), size(k, s->bound);
    if (s->symbol == k->p->threads) sb_put(k->b, " threads");
    sb_putc(k->b, '\n');
  }
}
static void in_out(pp *k, const char *what, const pio *x) {
  sb_put(k->b, what), string(k, x->name), sb_fmt(k->b, ": %s[", et_name(x->type));
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i) sb_put(k->b, ", ");
    size(k, x->dims[i]);
  }
  sb_put(k->b, "]\n");
}
static void scalar_text(pp *k, etype t, scalar v) {
  if (t == ET_F64)
    sb_double(k->b, v.f);
  else if (et_kind(t) == K_FLOAT)
    sb_float(k->b, (float)v.f);
  else if (et_kind(t) == K_UINT)
    sb_fmt(k->b, "%llu", (unsigned long long)v.i);
  else
    sb_fmt(k->b, "%lld", (long long)v.i);
}
static void buffers(pp *k) {
  static const char *const kinds[] = {"", "input", "output", "weights", "arena"};
  for (uint32_t i = 1; i < k->p->buffers.n; i++) {
    const pbuffer *b = &k->p->buffers.v[i];
    sb_put(k->b, "buffer "), ref(k, i), sb_fmt(k->b, ": %s %s x ", kinds[b->kind], et_name(b->type)), size(k, b->elems);
    if (b->kind == BUF_INPUT || b->kind == BUF_OUTPUT) sb_fmt(k->b, " number %u", b->number);
    if (b->kind == BUF_WEIGHTS)
      sb_put(k->b, " in "), size(k, b->bytes),
          sb_fmt(k->b, " at %llu sha256:%s", (unsigned long long)b->weight_offset, weights_digest(k->p, b, k->b->a));
    if (b->kind == BUF_ARENA)
      sb_put(k->b, " in "), size(k, b->bytes), sb_put(k->b, b->late ? " late at " : " at "), size(k, b->offset),
          sb_fmt(k->b, " steps %u..%u", b->first, b->last);
    if (b->halo) sb_put(k->b, " halo "), scalar_text(k, b->type, b->fill);
    sb_putc(k->b, '\n');
  }
}
static void states(pp *k) {
  const program *p = k->p;
  for (uint32_t i = 0; i < p->states.n; i++) {
    const pstate *s = &p->states.v[i];
    sb_put(k->b, "state "), string(k, p->inputs.v[p->inputs.n - p->states.n + i].name), sb_put(k->b, " = "),
        string(k, p->outputs.v[p->outputs.n - p->states.n + i].name),
        sb_put(k->b, s->in_place ? " in place" : " exchanged");
    if (s->first) sb_put(k->b, " first "), ref(k, s->first);
    if (s->order) sb_put(k->b, " order");
    for (uint32_t d = 0; s->order && d < p->inputs.v[p->inputs.n - p->states.n + i].rank; d++)
      sb_fmt(k->b, " %u", s->order[d]);
    sb_putc(k->b, '\n');
  }
}
static void check(pp *k, const pcheck *g) {
  indent(k), sb_put(k->b, "fail when not "), size(k, g->ge0), sb_put(k->b, g->is_eq ? " == 0 " : " >= 0 "),
      string(k, g->text);
  if (g->node) sb_put(k->b, " node "), string(k, g->node);
  sb_putc(k->b, '\n');
}
static void launch_step(pp *k, const step *s) {
  sb_fmt(k->b, "launch %s(", s->kernel);
  for (uint32_t i = 0; i < s->nargs; i++) {
    const kargs *a = &s->args[i];
    if (i) sb_put(k->b, ", ");
    if (!a->is_buffer)
      size(k, a->size);
    else if (!a->buffer)
      sb_put(k->b, "scratch");
    else {
      if (a->write) sb_put(k->b, "out ");
      ref(k, a->buffer);
      if (a->moved) sb_fmt(k->b, " + %lld", (long long)a->moved);
    }
  }
  sb_put(k->b, ") chunks "), size(k, s->chunks);
  if (s->scratch) sb_put(k->b, " scratch "), size(k, s->scratch);
  if (s->parallel) sb_put(k->b, " parallel");
  if (s->where) sb_put(k->b, " where "), size(k, s->where), sb_put(k->b, " >= 0");
  uint64_t seen;
  if (s->func->note && s->func->note[0] && !map_getu(k->noted, (uint64_t)(uintptr_t)s->func, &seen)) {
    map_putu(k->noted, (uint64_t)(uintptr_t)s->func, 1); /* only the first of several launches shows the note */
    sb_put(k->b, "  # ");
    for (const char *n = s->func->note; *n; n++) sb_putc(k->b, (unsigned char)*n < 32 ? ' ' : *n);
  }
}
static void all_steps(pp *k, const steps *list);
static void braces(pp *k, const steps *list) {
  sb_put(k->b, "{\n");
  k->depth++;
  all_steps(k, list);
  k->depth--;
  indent(k), sb_putc(k->b, '}');
}
static void value_step(pp *k, const pvalue *v) {
  sb_put(k->b, "check "), where(k, v->at), sb_put(k->b, " = "), where(k, v->value), sb_put(k->b, " in "),
      size(k, v->lo), sb_put(k->b, " .. "), size(k, v->hi), sb_put(k->b, " over [");
  for (uint32_t i = 0; i < v->ndims; i++) {
    if (i) sb_put(k->b, ", ");
    size(k, v->dims[i]);
  }
  sb_put(k->b, "] "), string(k, v->text);
  if (v->node) sb_put(k->b, " node "), string(k, v->node);
}
static void all_steps(pp *k, const steps *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    const step *s = &list->v[i];
    if (s->kind == ST_CHECK) {
      check(k, &s->check);
      continue;
    }
    indent(k);
    switch (s->kind) {
    case ST_LAUNCH:
      launch_step(k, s);
      break;
    case ST_LATE:
      sb_put(k->b, "late "), size(k, sym_of_atom(k->c, s->symbol)), sb_put(k->b, " = "), where(k, s->from);
      if (s->node) sb_put(k->b, " node "), string(k, s->node);
      break;
    case ST_VALUE:
      value_step(k, &s->value);
      break;
    case ST_ROOM:
      if (s->room)
        sb_put(k->b, "room "), size(k, s->room);
      else
        sb_fmt(k->b, "room output %u", s->output);
      break;
    case ST_IF:
      sb_put(k->b, "if "), where(k, s->from), sb_putc(k->b, ' '), braces(k, &s->body);
      if (s->other.n) sb_put(k->b, " else "), braces(k, &s->other);
      break;
    case ST_LOOP:
      sb_put(k->b, "loop "), size(k, sym_of_atom(k->c, s->symbol)), sb_put(k->b, " = 0 .. ");
      if (s->trips)
        size(k, s->trips);
      else
        where(k, s->from);
      if (s->first.buffer) sb_put(k->b, " if "), where(k, s->first);
      if (s->again.buffer) sb_put(k->b, " while "), where(k, s->again);
      sb_putc(k->b, ' '), braces(k, &s->body);
      break;
    default:
      break;
    }
    sb_putc(k->b, '\n');
  }
}
void program_print(const program *p, sbuf *b) {
  pp k = {p, p->c, b, 0, map_new(b->a)};
  sb_put(b, "program "), string(&k, p->name), sb_putc(b, '\n');
  sizes(&k);
  for (uint32_t i = 0; i < p->inputs.n; i++) in_out(&k, "input ", &p->inputs.v[i]);
  for (uint32_t i = 0; i < p->outputs.n; i++) in_out(&k, "output ", &p->outputs.v[i]);
  sb_put(b, "arena "), size(&k, p->arena_bytes), sb_put(b, " bytes");
  if (p->live_bound) sb_put(b, ", at least "), size(&k, p->live_bound);
  sb_put(b, "\nscratch "), size(&k, p->scratch_bytes),
      sb_fmt(b, " bytes per worker\nweights %llu bytes", (unsigned long long)p->weight_bytes);
  if (p->first_bytes) sb_fmt(b, ", %llu of first values", (unsigned long long)p->first_bytes);
  sb_putc(b, '\n');
  buffers(&k);
  states(&k);
  for (uint32_t i = 0; i < p->checks.n; i++) check(&k, &p->checks.v[i]);
  all_steps(&k, &p->steps);
  sb_put(b, "kernels\n");
  for (uint32_t i = 0; i < p->l->funcs.n; i++)
    if (p->l->funcs.v[i]->kind == LF_KERNEL) sb_putc(b, '\n'), loop_print_func(p->l->funcs.v[i], b);
}
