/* What does a program look like as text? Its memory first (every buffer, where it lies, and from which to which step it is needed), then the steps in order. Functions of the kernels are the loop
 * level's text. */
#include "program/program.h"
#include <string.h>

typedef struct pp {
  const program *p;
  splan *s;
  emodule *m;
  ctx *c;
  sbuf *b;
  int depth;
} pp;

static void indent(pp *k) {
  for (int i = 0; i < k->depth; i++) sb_put(k->b, "  ");
}
static void name_of(pp *k, uint32_t buf) {
  const buffer *b = &k->s->buffers.v[buf];
  sb_fmt(k->b, "%%%u", buf);
  if (b->name) sb_fmt(k->b, ".%s", b->name);
}
static void tensor_place(pp *k, tid t) {
  const layout *l = &k->s->layouts[t];
  name_of(k, l->buffer);
  int64_t at;
  if (!sym_is_int(k->c, l->base ? l->base : sym_int(k->c, 0), &at) || at) sb_fmt(k->b, " + %s", sym_str(k->c, l->base));
}
static void buffers(pp *k) {
  static const char *const kinds[] = {"", "input", "output", "weights", "arena"};
  for (uint32_t i = 1; i < k->s->buffers.n; i++) {
    const buffer *b = &k->s->buffers.v[i];
    const membuf *m = &k->p->mem[i];
    if (!m->used && (b->kind == BUF_ARENA || b->kind == BUF_WEIGHTS)) continue;
    sb_put(k->b, "buffer ");
    name_of(k, i);
    sb_fmt(k->b, ": %s %s x %s", kinds[b->kind], et_name(b->type), sym_str(k->c, b->elems));
    if (b->kind == BUF_INPUT || b->kind == BUF_OUTPUT) sb_fmt(k->b, " number %u", b->index);
    if (b->kind == BUF_WEIGHTS) sb_fmt(k->b, " at %llu", (unsigned long long)m->weight_offset);
    if (b->kind == BUF_ARENA) sb_fmt(k->b, " at %s steps %u..%u", sym_str(k->c, m->offset), m->first, m->last);
    if (b->halo) sb_put(k->b, " halo");
    sb_putc(k->b, '\n');
  }
}
static void print_launch(pp *k, const launch *l) {
  indent(k);
  sb_fmt(k->b, "launch %s(", l->func->name);
  for (uint32_t i = 0; i < l->args.n; i++) {
    const kargs *a = &l->args.v[i];
    if (i) sb_put(k->b, ", ");
    if (!a->is_buffer)
      sb_put(k->b, sym_str(k->c, a->size));
    else if (!a->buffer)
      sb_put(k->b, "scratch");
    else {
      if (a->write) sb_put(k->b, "out ");
      name_of(k, a->buffer);
    }
  }
  sb_fmt(k->b, ") chunks %s%s", sym_str(k->c, l->chunks), l->parallel ? " parallel" : "");
  if (l->func->note && l->func->note[0]) sb_fmt(k->b, "  # %s", l->func->note);
  sb_putc(k->b, '\n');
}
static void launches(pp *k, uint32_t block, uint32_t item) {
  for (uint32_t i = 0; i < k->s->launches.n; i++)
    if (k->s->launches.v[i].block == block && k->s->launches.v[i].item == item) print_launch(k, &k->s->launches.v[i]);
}
static void steps(pp *k, uint32_t block) {
  emodule *m = k->m;
  for (uint32_t i = 0; i < m->blocks.v[block].items.n; i++) {
    item it = m->blocks.v[block].items.v[i];
    if (it.kind == IT_IF) {
      const xif *x = &m->ifs.v[it.index];
      indent(k), sb_put(k->b, "if "), tensor_place(k, x->cond), sb_put(k->b, " {\n");
      k->depth++, steps(k, x->then_block), k->depth--;
      indent(k), sb_put(k->b, "} else {\n");
      k->depth++, steps(k, x->else_block), k->depth--;
      indent(k), sb_put(k->b, "}\n");
    }
    if (it.kind == IT_LOOP) {
      const xloop *x = &m->loops.v[it.index];
      indent(k), sb_fmt(k->b, "loop %s = 0 .. ", sym_name(k->c, x->counter));
      if (x->trips)
        sb_put(k->b, sym_str(k->c, x->trips));
      else
        tensor_place(k, x->trip_tensor);
      if (x->cond0) sb_put(k->b, " if "), tensor_place(k, x->cond0);
      if (x->cond) sb_put(k->b, " while "), tensor_place(k, x->cond);
      sb_put(k->b, " {\n");
      k->depth++, steps(k, x->body), k->depth--;
      indent(k), sb_put(k->b, "}\n");
    }
    launches(k, block, i);
    if (it.kind == IT_STAGE)
      for (uint32_t j = 0; j < m->lates.n; j++)
        if (m->lates.v[j].tensor == xs(m, it.index)->tensor) {
          indent(k), sb_fmt(k->b, "late %s = ", sym_name(k->c, m->lates.v[j].symbol));
          tensor_place(k, m->lates.v[j].tensor);
          sb_fmt(k->b, " at most %s\n", sym_str(k->c, m->lates.v[j].bound));
        }
  }
}
void program_print(const program *p, sbuf *b) {
  pp k = {p, p->plan, p->plan->m, p->plan->m->c, b, 0};
  sb_fmt(b, "program %s\nmemory %s\n", p->name ? p->name : "", program_memory(p));
  if (p->live_bound) sb_fmt(b, "least memory %s\n", sym_str(k.c, p->live_bound));
  sb_fmt(b, "weights %llu\n", (unsigned long long)p->weight_bytes);
  buffers(&k);
  for (uint32_t i = 0; i < k.m->guards.n; i++) {
    const guard *g = &k.m->guards.v[i];
    sb_fmt(b, "fail when not %s %s 0 ", sym_str(k.c, g->ge0), g->is_eq ? "==" : ">=");
    sb_quoted(b, g->text, g->text ? strlen(g->text) : 0);
    sb_putc(b, '\n');
  }
  steps(&k, 0);
}
