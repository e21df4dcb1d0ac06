/* For tests of lowering: a graph in text form is lowered and evaluated on inputs that hold 0, 1, 2, .., and what it
 * gives, or why it is refused, is compared. Open sizes are 3. */
#ifndef LOWERKIT_H
#define LOWERKIT_H
#include "eval/eval.h"
#include "driver/lower.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

typedef struct result {
  ctx *c;
  emodule *m;
  evaluation *v;
} result;

static inline const char *message(ctx *c) {
  for (const diag *d = diag_first(c); d; d = d->next)
    if (d->level == D_ERROR) return d->text;
  return "";
}
static inline emodule *lower(ctx *c, const char *text, const dimfix *dims, uint32_t ndims) {
  graph *g = graph_parse(c, text, "test");
  if (!g) return NULL;
  oplib *l = notation_lib(c);
  assert_true(notation_add_builtin(l));
  emodule *m = lower_graph(g, l, dims, ndims);
  if (m) assert_true(graph_verify(g, "lowering") && expr_verify(m, "lowering"));
  return m;
}
static inline result run(const char *text, const dimfix *dims, uint32_t ndims) {
  result r = {.c = ctx_new()};
  CTX_TRY(r.c) {
    r.m = lower(r.c, text, dims, ndims);
    if (r.m) {
      r.v = expr_eval_new(r.m, ctx_arena(r.c), 1);
      for (uint32_t i = 0; i < r.m->inputs.n; i++) {
        const tensor *t = xt(r.m, r.m->inputs.v[i].t);
        ndarray d = {.type = t->type, .rank = t->rank};
        int64_t n = 1;
        for (uint32_t k = 0; k < t->rank; k++) n *= d.dims[k] = sym_int_or(r.c, t->shape[k], 3);
        d.bytes = (size_t)n * et_bytes(t->type);
        uint8_t *p = arena_alloc(ctx_arena(r.c), d.bytes + 1);
        for (int64_t k = 0; k < n; k++)
          et_store(t->type, p + k * et_bytes(t->type),
                   et_kind(t->type) == K_FLOAT ? (scalar){.f = (double)k} : (scalar){.i = k});
        d.data = p;
        expr_eval_input(r.v, r.m->inputs.v[i].t, &d);
      }
      expr_eval_run(r.v);
    }
  }
  CTX_CATCH r.m = NULL;
  return r;
}
static inline void gives(const char *text, const dimfix *dims, uint32_t ndims, const char *want) {
  result r = run(text, dims, ndims);
  if (!r.m) fail_msg("%s: %s", text, message(r.c));
  sbuf b = sbuf_new(ctx_arena(r.c));
  for (uint32_t i = 0; i < r.m->outputs.n; i++) {
    const ndarray *d = expr_eval_get(r.v, r.m->outputs.v[i].t);
    int64_t n;
    assert_true(nd_count(d, &n));
    sb_fmt(&b, "%s%s:", i ? " " : "", r.m->outputs.v[i].name);
    for (int64_t k = 0; k < n; k++) {
      scalar s = et_load(d->type, (const uint8_t *)d->data + k * et_bytes(d->type));
      if (d->type == ET_U8)
        sb_putc(&b, s.i ? (char)s.i : '|'); /* text: a place, 0 as a bar */
      else if (et_kind(d->type) == K_FLOAT)
        sb_fmt(&b, " %g", s.f);
      else
        sb_fmt(&b, " %lld", (long long)s.i);
    }
  }
  if (strcmp(b.s ? b.s : "", want)) fail_msg("%s\ngives %s\nnot   %s", text, b.s ? b.s : "", want);
  ctx_free(r.c);
}
static inline void refused(const char *text, const dimfix *dims, uint32_t ndims, const char *part) {
  result r = run(text, dims, ndims);
  assert_null(r.m);
  if (!strstr(message(r.c), part)) fail_msg("\"%s\" does not say \"%s\"", message(r.c), part);
  ctx_free(r.c);
}

#define G(body) "graph \"g\" ir 10 opset 20 {\n" body "}\n"
#define NUMBER(name, value) "const " name ": i64[] = [" #value "]\n"
#endif
