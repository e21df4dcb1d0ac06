/* Hostile names: what each level prints reads back to the same text, whatever the model calls its tensors, nodes,
 * sizes and graphs: the words of that level's language, numbers, nothing, quotes, other alphabets. */
#include "driver/lower.h"
#include "passes/passes.h"
#include "program/program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "output",  "input",   "const",     "graph",   "as",    "ir",      "opset",   "producer", "list",    "optional",
    "float",   "floats",  "strings",   "tensor",  "f32",   "_",       "?",       "",         "1",       "-1",
    "inf",     "nan",     "true",      "false",   "a b",   "a\"b",    "a\\b",    "a\nb",     "a`b",     "a#b",
    "/x/y:0",  "été",     "中",        "\xff",    "\x01",  "stage",   "size",    "scan",     "declare", "out",
    "origin",  "region",  "load",      "else",    "sum",   "max",     "min",     "exp",      "require", "assume",
    "late",    "kernel",  "outer",     "note",    "if",    "loop",    "trips",   "times",    "counter", "while",
    "carry",   "next",    "collect",   "tiled",   "cast",  "bitcast", "sat",     "hex",      "sha256",  "node",
    "where",   "acc",     "to",        "payload", "in",    "b0",      "k0",      "N",        "launch",  "buffer",
    "weights", "room",    "fail",      "when",    "arena", "plan",    "run",     "call",     "for",     "step",
    "reg",     "get",     "set",       "store",   "splat", "fma",     "i64",     "%1",       "$1",      "data",
    "t",       "t_1",     "i",         "i_1",     "x",     "x.1",     "in_dims", "program",  "func",    "end",
    "Squeeze", "nothing", "unbounded", "threads", "}",     "{",       "(",       "=",        "::",      "then",
};
enum { NAMES = sizeof names / sizeof *names };

static const char *model(ctx *c, uint32_t k) { /* The model with names[k] and those behind it. */
  const char *q[16];
  for (uint32_t i = 0; i < 16; i++) {
    sbuf b = sbuf_new(ctx_arena(c));
    const char *s = names[(k + 7 * i) % NAMES];
    sb_quoted(&b, s, strlen(s));
    q[i] = b.s;
  }
  return arena_fmt(
      ctx_arena(c),
      "graph %s ir 10 opset 20 producer %s {\n input %s: f32[n, 4] as %s\n input %s: bool[]\n const %s: f32[4] = [1, "
      "2, "
      "3, 4]\n const %s: i64[] = [3]\n const yes: bool[] = [1]\n %s = Add(%s, %s) %s\n %s = If(%s) {then_branch = "
      "graph %s {\n then1 = Neg(%s) %s\n output then1 as %s\n}, else_branch = graph %s {\n else1 = Exp(%s) \"%u\"\n "
      "output else1 as %s\n}} %s\n %s, %s = Loop(%s, yes, %s) {body = graph \"b\" {\n input trip\n input go\n input "
      "old\n new = Mul(old, %s) %s\n output go\n output new\n output new\n}} %s\n output %s as %s\n output %s as "
      "%s\n}\n",
      q[0], q[1], q[0], q[2], q[1], q[2], q[3], q[4], q[0], q[2], q[5], q[6], q[1], q[7], q[4], q[8], q[9], q[10], q[4],
      k, q[11], q[12], q[5], q[7], q[3], q[6], q[2], q[13], q[14], q[5], q[8], q[7], q[9]);
}
static bool same(const char *level, const char *name, const char *one, const char *two) {
  if (!strcmp(one, two)) return true;
  uint32_t line = 1;
  for (const char *p = one, *r = two; *p == *r; p++, r++) line += *p == '\n';
  printf("%s: \"%s\": line %u differs\n%s\n----\n%s\n", level, name, line, one, two);
  return false;
}
static const char *graph_text(graph *g) {
  sbuf b = sbuf_new(ctx_arena(g->c));
  graph_print(g, &b, (graph_print_opts){.weights_inline = true});
  return b.s;
}
static const char *expr_text(emodule *m) {
  sbuf b = sbuf_new(ctx_arena(m->c));
  expr_print(m, &b, (print_opts){.weights_inline = true, .kernels = true});
  return b.s;
}
static const char *loop_text(ctx *c, const lmodule *l) {
  sbuf b = sbuf_new(ctx_arena(c));
  loop_print(l, &b, NULL);
  return b.s;
}
static const char *program_text(ctx *c, program *p) {
  sbuf b = sbuf_new(ctx_arena(c));
  program_print(p, &b);
  return b.s;
}
static bool expr_reads_back(ctx *c, ctx *other, const char *name, emodule *m) {
  const char *text = expr_text(m);
  emodule *again = expr_parse(other, text, "expr");
  (void)c;
  if (!again) printf("%s\n", text);
  return again && same("expr", name, text, expr_text(again));
}
static bool all_read_back(uint32_t k, ctx *c, ctx *other) {
  const char *name = names[k];
  graph *g = graph_parse(c, model(c, k), "graph");
  if (!g || !graph_verify(g, NULL)) return printf("%s", model(c, k)), false;
  const char *text = graph_text(g);
  graph *h = graph_parse(other, text, "graph");
  if (!h) printf("%s", text);
  if (!h || !same("graph", name, text, graph_text(h))) return false;
  oplib *lib = notation_lib(c);
  emodule *m = notation_add_builtin(lib) ? lower_graph(g, lib, NULL, 0) : NULL;
  if (!m || !expr_reads_back(c, other, name, m)) return false;
  expr_optimise(m, 3, NULL);
  ctx *third = ctx_new();
  bool good = expr_reads_back(c, third, name, m);
  for (const diag *d = diag_first(third); d; d = d->next) printf("%u: %s\n", d->pos.line, d->text);
  ctx_free(third);
  splan *s = good ? schedule_module(m, target_get(c, "x86-64-v3"), (schedule_opts){.level = 3}) : NULL;
  if (!s) return false;
  text = loop_text(c, s->l);
  lmodule *l = loop_parse(other, text, "loop");
  if (!l || !same("loop", name, text, loop_text(other, l))) return false;
  program *p = program_build(s, g->name), *r;
  text = program_text(c, p);
  r = program_parse(other, text, "program");
  return r && same("program", name, text, program_text(other, r));
}
static bool guarded(uint32_t k, ctx *c, ctx *other) {
  volatile bool good = false;
  CTX_TRY(other) { good = all_read_back(k, c, other); }
  CTX_CATCH {}
  return good;
}
static void test_hostile_names(void **state) {
  (void)state;
  for (uint32_t k = 0; k < NAMES; k++) {
    ctx *c = ctx_new(), *other = ctx_new();
    volatile bool good = false;
    CTX_TRY(c) { good = guarded(k, c, other); }
    CTX_CATCH {}
    for (const diag *d = diag_first(c); d; d = d->next) printf("%u: %s\n", d->pos.line, d->text);
    for (const diag *d = diag_first(other); d; d = d->next) printf("%u: %s\n", d->pos.line, d->text);
    ctx_free(other), ctx_free(c);
    if (!good) fail_msg("names from \"%s\" on", names[k]);
  }
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile_names)};
  return cmocka_run_group_tests_name("texts", tests, NULL, NULL);
}
