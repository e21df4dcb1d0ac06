/* What does a module look like as text?
 *
 * Order: sizes, recurrences, inputs and constants, the blocks' items in their order, outputs, late sizes, guards and
 * checks, kernels. Stages print one statement each; see the head of parse.c for the grammar and print_value.c for
 * names. Sizes and recurrences are met while the rest is printed, so the rest goes to a buffer first. Only what a live
 * item, an input or an output refers to is printed: dead stages are not.
 */
#include "expr/print.h"
#include <stdlib.h>
#include <string.h>

static void put_shape(printer *p, const tensor *x) {
  sb_put(p->b, et_name(x->type)), sb_putc(p->b, '[');
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i) sb_put(p->b, ", ");
    pr_size(p, x->shape[i]);
  }
  sb_putc(p->b, ']');
}
static void put_origin(printer *p, const char *origin) {
  if (origin) sb_put(p->b, "  origin "), pr_string(p, origin);
}
static void indent(printer *p, int depth) {
  for (int i = 0; i < depth; i++) sb_put(p->b, "  ");
}
static const char *tname(printer *p, tid t) { return t ? pr_quoted(p, xt(p->m, t)->name) : "?"; }
/* `name: type[shape] out` of a tensor that no stage computes */
static void put_decl(printer *p, tid t) {
  const tensor *x = xt(p->m, t);
  pr_name(p, x->name), sb_put(p->b, ": ");
  put_shape(p, x);
  if (x->output) sb_put(p->b, " out");
}

/* ---- constants ------------------------------------------------------------------------------- */
enum { INLINE_BYTES = 1024 };
void expr_print_scalar(etype t, scalar v, sbuf *out) {
  if (t == ET_U64)
    sb_fmt(out, "%llu", (unsigned long long)v.i);
  else if (et_kind(t) != K_FLOAT)
    sb_fmt(out, "%lld", (long long)v.i);
  else if (t == ET_F64)
    sb_double(out, v.f);
  else
    sb_float(out, (float)v.f);
}
static void put_const_data(printer *p, const tensor *x, bool all) {
  sbuf *b = p->b;
  int64_t n;
  uint32_t w = et_bytes(x->type);
  bool nan = false;
  if (!nd_count(&x->data, &n)) n = 0;
  size_t bytes = (size_t)n * w;
  for (int64_t i = 0; et_kind(x->type) == K_FLOAT && bytes <= INLINE_BYTES && i < n; i++) {
    scalar v = et_load(x->type, (const char *)x->data.data + i * w);
    nan |= v.f != v.f;
  }
  if (x->data.data && bytes <= INLINE_BYTES && !nan) {
    sb_putc(b, '[');
    for (int64_t i = 0; i < n; i++) {
      if (i) sb_put(b, ", ");
      expr_print_scalar(x->type, et_load(x->type, (const char *)x->data.data + i * w), b);
    }
    sb_putc(b, ']');
  } else if (x->data.data && (all || bytes <= INLINE_BYTES)) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *d = x->data.data;
    sb_put(b, "hex\"");
    for (size_t i = 0; i < bytes; i++) sb_putc(b, digits[d[i] >> 4]), sb_putc(b, digits[d[i] & 15]);
    sb_putc(b, '"');
  } else {
    if (x->data.file)
      sb_putc(b, '@'), pr_string(p, x->data.file), sb_fmt(b, "+%llu:%zu ", (unsigned long long)x->data.offset, bytes);
    sb_fmt(b, "sha256:%s", x->data.data ? sha256_hex(p->a, x->data.data, bytes) : "0");
  }
}

/* ---- stages ---------------------------------------------------------------------------------- */
static void put_axes(printer *p, const stage *s) {
  sb_putc(p->b, '[');
  atom t = s->recurrence ? p->m->recurrences.v[s->recurrence].var : 0;
  for (uint32_t i = 0; i < s->naxes; i++) {
    const axis *x = &s->axes[i];
    if (i) sb_put(p->b, ", ");
    if (x->n == 0) sb_putc(p->b, '1');
    if (x->n > 1) sb_putc(p->b, '(');
    for (uint32_t k = 0; k < x->n; k++) {
      if (k) sb_put(p->b, ", ");
      sb_put(p->b, pr_atom(p, x->d[k].var));
      if (x->d[k].var != t) sb_putc(p->b, '<'), pr_size(p, x->d[k].extent);
    }
    if (x->n > 1) sb_putc(p->b, ')');
  }
  sb_putc(p->b, ']');
}
static bool shape_follows(printer *p, const stage *s) {
  const tensor *x = xt(p->m, s->tensor);
  for (uint32_t i = 0; i < s->naxes; i++) {
    sz n = sym_int(p->m->c, 1);
    for (uint32_t k = 0; k < s->axes[i].n; k++) n = sym_mul(p->m->c, n, s->axes[i].d[k].extent);
    if (n != x->shape[i]) return false;
  }
  return true;
}
static void put_update(printer *p, const stage *s, const update *u) {
  static const char *const how[] = {[OP_ADD] = "+=", [OP_MUL] = "*=", [OP_MAX] = "max=", [OP_MIN] = "min="};
  sb_put(p->b, "update [");
  for (uint32_t i = 0; i < u->nvars; i++) {
    if (i) sb_put(p->b, ", ");
    sb_put(p->b, pr_atom(p, u->vars[i])), sb_putc(p->b, '<'), pr_size(p, sym_extent(p->m->c, u->vars[i]));
  }
  sb_put(p->b, "] "), pr_name(p, xt(p->m, s->tensor)->name), sb_putc(p->b, '[');
  for (uint32_t i = 0; i < u->nidx; i++) {
    if (i) sb_put(p->b, ", ");
    pr_size(p, u->idx[i]);
  }
  sb_fmt(p->b, "] %s ", u->op == OP_NONE ? ":=" : u->op <= OP_MAX && how[u->op] ? how[u->op] : "?=");
  pr_value(p, u->value);
  if (u->cond) sb_put(p->b, " if "), pr_value(p, u->cond);
}
/* In a recurrence a stage may read the last step of one that stands below. */
static void put_forward(printer *p, uint32_t id, int depth) {
  u32vec loads = {0};
  uint64_t seen;
  expr_stage_loads(p->m, id, p->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) {
    tid t = exn(p->m, loads.v[i])->tensor;
    if (t == xs(p->m, id)->tensor || xt(p->m, t)->kind != TK_STAGE || map_getu(p->shown, t, &seen)) continue;
    map_putu(p->shown, t, 1);
    indent(p, depth), sb_fmt(p->b, "declare %s: ", tname(p, t)), put_shape(p, xt(p->m, t)), sb_putc(p->b, '\n');
  }
}
static void put_ranges(printer *p, const stage *s) {
  const char *before = " for ";
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t k = 0; k < s->axes[i].n; k++)
      if (expr_range(p->m, s->axes[i].d[k].var)) {
        sb_put(p->b, before), sb_put(p->b, pr_atom(p, s->axes[i].d[k].var)), pr_range(p, s->axes[i].d[k].var);
        before = ", ";
      }
}
static void put_stage(printer *p, uint32_t id, int depth) {
  const stage *s = xs(p->m, id);
  const tensor *x = xt(p->m, s->tensor);
  pr_stage_begin(p);
  if (s->recurrence) { /* the recurrence's text declares the variable */
    bool known = false;
    for (uint32_t i = 0; i < p->recurrences.n; i++) known |= p->recurrences.v[i] == s->recurrence;
    if (!known) vec_push(p->a, p->recurrences, s->recurrence);
    pr_atom(p, p->m->recurrences.v[s->recurrence].var);
  }
  for (uint32_t i = 0; i < s->naxes; i++)
    for (uint32_t k = 0; k < s->axes[i].n; k++) pr_count_range(p, s->axes[i].d[k].var);
  if (s->value) pr_count(p, s->value);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    const update *u = &s->updates.v[i];
    for (uint32_t k = 0; k < u->nidx; k++) pr_count_size(p, u->idx[k]);
    pr_count(p, u->value);
    if (u->cond) pr_count(p, u->cond);
  }
  if (s->recurrence) put_forward(p, id, depth);
  map_putu(p->shown, s->tensor, 1);
  indent(p, depth);
  sb_fmt(p->b, "stage %s: %s ", pr_quoted(p, x->name), et_name(x->type));
  put_axes(p, s);
  if (!shape_follows(p, s)) {
    sb_put(p->b, " as [");
    for (uint32_t i = 0; i < x->rank; i++) {
      if (i) sb_put(p->b, ", ");
      pr_size(p, x->shape[i]);
    }
    sb_putc(p->b, ']');
  }
  if (s->recurrence)
    for (uint32_t i = 0; i < p->recurrences.n; i++)
      if (p->recurrences.v[i] == s->recurrence) sb_fmt(p->b, " recurrence s%u", i + 1);
  if (x->output) sb_put(p->b, " out");
  if (s->tiled) sb_put(p->b, " tiled");
  put_ranges(p, s);
  if (s->value) sb_put(p->b, " = "), pr_value(p, s->value);
  for (uint32_t i = 0; i < s->updates.n; i++) {
    sb_putc(p->b, '\n'), indent(p, depth + 1);
    put_update(p, s, &s->updates.v[i]);
  }
  put_origin(p, x->origin);
  if (s->region) sb_put(p->b, "  region "), pr_string(p, s->region);
  sb_putc(p->b, '\n');
}

/* ---- blocks ---------------------------------------------------------------------------------- */
static void put_block(printer *p, uint32_t blk, int depth);

static void put_if(printer *p, const xif *f, int depth) {
  indent(p, depth);
  sb_fmt(p->b, "if %s", tname(p, f->cond));
  put_origin(p, f->origin);
  sb_put(p->b, " {\n");
  put_block(p, f->then_block, depth + 1);
  indent(p, depth), sb_put(p->b, "} else {\n");
  put_block(p, f->else_block, depth + 1);
  indent(p, depth), sb_put(p->b, "}");
  for (uint32_t i = 0; i < f->n; i++) {
    sb_putc(p->b, '\n'), indent(p, depth + 1);
    sb_put(p->b, "result ");
    put_decl(p, f->results[i]);
    sb_fmt(p->b, " = %s | %s", tname(p, f->then_vals[i]), tname(p, f->else_vals[i]));
    put_origin(p, xt(p->m, f->results[i])->origin);
  }
  sb_putc(p->b, '\n');
}
static void put_loop(printer *p, const xloop *l, int depth) {
  indent(p, depth);
  sb_put(p->b, "loop");
  if (l->trips) sb_put(p->b, " trips "), pr_size(p, l->trips);
  if (l->trip_tensor) sb_fmt(p->b, " times %s", tname(p, l->trip_tensor));
  if (l->counter) sb_put(p->b, " counter "), pr_name(p, pr_atom(p, l->counter));
  if (l->cond0) sb_fmt(p->b, " while %s", tname(p, l->cond0));
  put_origin(p, l->origin);
  sb_put(p->b, " {\n");
  for (uint32_t i = 0; i < l->ncarried; i++) {
    indent(p, depth + 1), sb_put(p->b, "carry ");
    put_decl(p, l->inner[i]);
    sb_fmt(p->b, " = %s", tname(p, l->init[i]));
    put_origin(p, xt(p->m, l->inner[i])->origin);
    sb_putc(p->b, '\n');
  }
  put_block(p, l->body, depth + 1);
  for (uint32_t i = 0; i < l->ncarried; i++) {
    indent(p, depth + 1);
    sb_fmt(p->b, "next %s = %s", tname(p, l->inner[i]), tname(p, l->next[i]));
    if (l->final[i]) {
      sb_put(p->b, " -> "), put_decl(p, l->final[i]);
      put_origin(p, xt(p->m, l->final[i])->origin);
    }
    sb_putc(p->b, '\n');
  }
  if (l->cond) indent(p, depth + 1), sb_fmt(p->b, "while %s\n", tname(p, l->cond));
  for (uint32_t i = 0; i < l->ncollected; i++) {
    indent(p, depth + 1);
    sb_fmt(p->b, "collect %s -> ", tname(p, l->slice[i]));
    put_decl(p, l->collected[i]);
    put_origin(p, xt(p->m, l->collected[i])->origin);
    sb_putc(p->b, '\n');
  }
  indent(p, depth), sb_put(p->b, "}\n");
}
static void put_guard(printer *p, const guard *g) {
  sb_put(p->b, g->assumption ? "assume " : "require ");
  pr_size(p, g->ge0);
  sb_put(p->b, g->is_eq ? " == 0 " : " >= 0 ");
  pr_string(p, g->text ? g->text : "");
  if (g->node) sb_put(p->b, " node "), pr_string(p, g->node);
  sb_putc(p->b, '\n');
}
static void put_check(printer *p, const value_check *k) {
  sb_fmt(p->b, "check %s = %s in ", tname(p, k->at), tname(p, k->value));
  pr_size(p, k->lo), sb_put(p->b, " .. "), pr_size(p, k->hi), sb_put(p->b, " over [");
  for (uint32_t i = 0; i < k->ndims; i++) {
    if (i) sb_put(p->b, ", ");
    pr_size(p, k->dims[i]);
  }
  sb_put(p->b, "] "), pr_string(p, k->text);
  if (k->node) sb_put(p->b, " node "), pr_string(p, k->node);
  sb_putc(p->b, '\n');
}
static void put_conditions(printer *p, uint32_t blk, int depth) {
  emodule *m = p->m;
  for (uint32_t i = 0; i < m->guards.n; i++)
    if (m->guards.v[i].block == blk) indent(p, depth), put_guard(p, &m->guards.v[i]);
  for (uint32_t i = 0; i < m->checks.n; i++)
    if (m->checks.v[i].block == blk) indent(p, depth), put_check(p, &m->checks.v[i]);
}
static void put_block(printer *p, uint32_t blk, int depth) {
  emodule *m = p->m;
  for (uint32_t i = 0; i < m->blocks.v[blk].items.n; i++) {
    item it = m->blocks.v[blk].items.v[i];
    if (it.kind == IT_IF)
      put_if(p, &m->ifs.v[it.index], depth);
    else if (it.kind == IT_LOOP)
      put_loop(p, &m->loops.v[it.index], depth);
    else if (!xs(m, it.index)->dead)
      put_stage(p, it.index, depth);
  }
  if (blk) put_conditions(p, blk, depth);
}

/* ---- the module ------------------------------------------------------------------------------ */
static const char *const classes[] = {[KC_ELEMENTWISE] = "elementwise",
                                      [KC_ROW] = "row",
                                      [KC_CONTRACTION] = "contraction",
                                      [KC_STENCIL] = "stencil",
                                      [KC_MATVEC] = "matvec",
                                      [KC_RECURRENCE] = "recurrence",
                                      [KC_COPY] = "copy",
                                      [KC_GATHER] = "gather",
                                      [KC_UPDATE] = "update",
                                      [KC_PREFIX_SCAN] = "prefix_scan",
                                      [KC_RANKING] = "ranking",
                                      [KC_COMPOSITE] = "composite",
                                      [KC_BLOCKS] = "blocks"};
const char *kernel_class_name(kernel_class k) {
  return k >= KC_ELEMENTWISE && k <= KC_BLOCKS ? classes[k] : "unclassified";
}

static void put_kernel(printer *p, const kernel *k) {
  sb_fmt(p->b, "kernel %s outer [", kernel_class_name(k->cls));
  for (uint32_t i = 0; i < k->outer.n; i++) {
    uint64_t x;
    bool known = map_getu(p->names, k->outer.v[i], &x);
    if (i) sb_put(p->b, ", ");
    sb_put(p->b, pr_atom(p, k->outer.v[i]));
    if (!known) sb_putc(p->b, '<'), pr_size(p, sym_extent(p->m->c, k->outer.v[i]));
  }
  sb_putc(p->b, ']');
  if (k->note) sb_put(p->b, " note "), pr_string(p, k->note);
  sb_put(p->b, " {\n");
  for (uint32_t i = 0; i < k->stages.n; i++) {
    const stage *s = xs(p->m, k->stages.v[i]);
    sb_fmt(p->b, "  %s", tname(p, s->tensor));
    bool any = false;
    u32vec own = {0}; /* the stage's variables, in the order of its text */
    for (uint32_t x = 0; x < s->naxes; x++)
      for (uint32_t d = 0; d < s->axes[x].n; d++) vec_push(p->a, own, s->axes[x].d[d].var);
    for (uint32_t u = 0; u < s->updates.n; u++)
      for (uint32_t d = 0; d < s->updates.v[u].nvars; d++) vec_push(p->a, own, s->updates.v[u].vars[d]);
    expr_bound(p->m, s->value, p->a, &own);
    for (uint32_t v = 0; v < own.n; v++) {
      uint64_t to;
      if (!k->canon || !map_getu(k->canon, own.v[v], &to)) continue;
      bool named = map_getu(p->names, (atom)to, &(uint64_t){0});
      sb_fmt(p->b, "%s%s=", any ? ", " : ": ", pr_atom(p, own.v[v]));
      sb_put(p->b, pr_atom(p, (atom)to));
      if (!named) sb_putc(p->b, '<'), pr_size(p, sym_extent(p->m->c, (atom)to));
      any = true;
    }
    sb_putc(p->b, '\n');
  }
  sb_put(p->b, "}\n");
}

static const char *printed_name(printer *p, atom a) {
  sbuf t = sbuf_new(p->a), *old = p->b;
  p->b = &t, pr_name(p, pr_atom(p, a)), p->b = old;
  return t.s;
}
static void put_sizes(printer *p) {
  ctx *c = p->m->c;
  sz def;
  VEC(const char *) lines = {0};
  u32vec defs = {0};
  for (uint32_t i = 0; i < p->sizes.n; i++) { /* definitions may bring more symbols */
    atom a = p->sizes.v[i];
    if (!sym_definition(c, a, &def)) continue;
    vec_push(p->a, defs, a);
    sbuf t = sbuf_new(p->a), *old = p->b;
    p->b = &t, pr_size(p, def), p->b = old;
  }
  for (uint32_t i = 0; i < p->sizes.n; i++) {
    atom a = p->sizes.v[i];
    int64_t lo, hi;
    if (sym_definition(c, a, &def)) continue;
    sym_range(c, sym_of_atom(c, a), &lo, &hi);
    sbuf t = sbuf_new(p->a);
    sb_fmt(&t, "size %s", printed_name(p, a));
    if (lo != 1 || hi != 1000000000) {
      sb_put(&t, " in ");
      if (lo == -SYM_INF)
        sb_put(&t, "-inf..");
      else
        sb_fmt(&t, "%lld..", (long long)lo);
      if (hi == SYM_INF)
        sb_put(&t, "inf");
      else
        sb_fmt(&t, "%lld", (long long)hi);
    }
    uint32_t k = lines.n;
    vec_push(p->a, lines, t.s);
    for (; k > 0 && strcmp(lines.v[k - 1], t.s) > 0; k--) lines.v[k] = lines.v[k - 1];
    lines.v[k] = t.s;
  }
  for (uint32_t i = 0; i < lines.n; i++) sb_fmt(p->b, "%s\n", lines.v[i]);
  for (uint32_t i = defs.n; i > 0; i--) { /* a definition's own symbols were met after it */
    sym_definition(c, defs.v[i - 1], &def);
    sb_fmt(p->b, "size %s = ", pr_atom(p, defs.v[i - 1])), pr_size(p, def), sb_putc(p->b, '\n');
  }
}
static void put_input(printer *p, tid t, const char *name) {
  sb_put(p->b, "tensor "), put_decl(p, t), sb_put(p->b, " input ");
  pr_string(p, name ? name : "");
  put_origin(p, xt(p->m, t)->origin);
  sb_putc(p->b, '\n');
}

static void mark_used(void *env, tid t) { ((uint8_t *)env)[t] = 1; }
/* Constants worth printing: those a live value reads. */
static void used_tensors(printer *p, uint8_t *used) {
  emodule *m = p->m;
  u32vec loads = {0};
  for (uint32_t i = 0; i < m->stages.n; i++)
    if (!xs(m, i)->dead) expr_stage_loads(m, i, p->a, &loads);
  for (uint32_t i = 0; i < loads.n; i++) used[exn(m, loads.v[i])->tensor] = 1;
  for (uint32_t i = 0; i < m->states.n; i++) used[m->states.v[i]] = 1;
  expr_each_use(m, mark_used, used);
}
static void put_module(printer *p, print_opts o) {
  emodule *m = p->m;
  uint8_t *used = arena_alloc(p->a, m->tensors.n), *named = arena_alloc(p->a, m->tensors.n);
  used_tensors(p, used);
  for (uint32_t i = 0; i < m->inputs.n; i++)
    named[m->inputs.v[i].t] = 1, put_input(p, m->inputs.v[i].t, m->inputs.v[i].name);
  for (tid t = 1; t < m->tensors.n; t++)
    if (xt(m, t)->kind == TK_INPUT && !named[t] && used[t])
      sb_put(p->b, "tensor "), put_decl(p, t), put_origin(p, xt(m, t)->origin), sb_putc(p->b, '\n');
  for (tid t = 1; t < m->tensors.n; t++)
    if (xt(m, t)->kind == TK_CONST && used[t]) {
      sb_put(p->b, "tensor "), put_decl(p, t), sb_put(p->b, " const ");
      expr_data(m, t);
      put_const_data(p, xt(m, t), o.weights_inline);
      put_origin(p, xt(m, t)->origin);
      sb_putc(p->b, '\n');
    }
  put_block(p, 0, 0);
  for (uint32_t i = 0; i < m->outputs.n; i++) {
    sb_fmt(p->b, "output %s ", tname(p, m->outputs.v[i].t));
    pr_string(p, m->outputs.v[i].name ? m->outputs.v[i].name : "");
    const uint32_t plain = m->outputs.n - m->states.n;
    if (i >= plain) sb_fmt(p->b, " state %s", tname(p, expr_state_in(m, i - plain)));
    if (i >= plain && m->states.v[i - plain]) sb_fmt(p->b, " first %s", tname(p, m->states.v[i - plain]));
    sb_putc(p->b, '\n');
  }
  for (uint32_t i = 0; i < m->lates.n; i++) {
    sb_fmt(p->b, "late %s = %s", printed_name(p, m->lates.v[i].symbol), tname(p, m->lates.v[i].tensor));
    if (m->lates.v[i].bound) sb_put(p->b, " <= "), pr_size(p, m->lates.v[i].bound);
    sb_putc(p->b, '\n');
  }
  put_conditions(p, 0, 0);
  for (uint32_t i = 0; o.kernels && i < m->kernels.n; i++)
    if (!m->kernels.v[i].dead) put_kernel(p, &m->kernels.v[i]);
}

void expr_print(emodule *m, sbuf *b, print_opts o) {
  arena *a = arena_new(m->c);
  printer p;
  sbuf body = sbuf_new(a);
  pr_begin(&p, m, a, &body);
  if (o.node) {
    for (uint32_t i = 0; i < m->stages.n; i++) {
      const char *from = xt(m, xs(m, i)->tensor)->origin;
      if (!xs(m, i)->dead && from && !strcmp(from, o.node)) put_stage(&p, i, 0);
    }
  } else
    put_module(&p, o);
  p.b = b;
  put_sizes(&p);
  for (uint32_t i = 0; i < p.recurrences.n; i++) {
    recurrence s = m->recurrences.v[p.recurrences.v[i]];
    sb_fmt(b, "recurrence s%u %s<", i + 1, pr_atom(&p, s.var));
    pr_size(&p, s.extent), sb_putc(b, '\n');
  }
  if (body.n) sb_putn(b, body.s, body.n);
  arena_free(a);
}
