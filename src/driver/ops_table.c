/* Which operators are there, and what is known about each? A table in Markdown, made from the definitions alone:
 * nothing in it is written by hand but the rows of operators that have no definition.
 *
 * Versions: all opsets are read; listed are those whose change needs a rewriting on import. Gradient and cost come from
 * calls made up from the signature (notation/instance.h): a definition is differentiated for a few random calls, and
 * costs are formulas of one call with symbolic sizes.
 */
#include "driver/driver.h"
#include "grad/grad.h"
#include "notation/instance.h"
#include "onnx/onnx.h"
#include <string.h>

enum { CALLS = 6, SEEDS = 5000, COST_SEEDS = 1500, LONGEST = 100 };

/* ---- gradients ------------------------------------------------------------------------------- */
typedef struct gradient_facts {
  uint32_t calls;   /* calls that were made up */
  uint32_t floats;  /* calls with floats that go in and come out */
  uint32_t derived; /* calls with a gradient that is not 0 */
  uint32_t zero;    /* calls whose gradient is 0 everywhere */
  uint32_t refused; /* calls whose gradient was refused */
  uint32_t dims;    /* calls whose floats only decide sizes */
  const char *why;  /* the last refusal; NULL: there was none */
} gradient_facts;
static bool is_zero(emodule *m, tid t) {
  const tensor *x = xt(m, t);
  if (x->kind != TK_STAGE || xs(m, x->stage)->updates.n) return false;
  const ex_node *n = exn(m, xs(m, x->stage)->value);
  return n->kind == EX_CONST && n->k.f == 0;
}
static void differentiate(ctx *c, opinst *i, gradient_facts *f) {
  tid outs[OPINST_MAX], wrt[OPINST_MAX], adj[OPINST_MAX];
  uint32_t no = 0, nw = 0, values = 0;
  for (uint32_t k = 0; k < i->nout; k++)
    if (i->out[k].present && i->out[k].want && et_kind(i->out[k].type) == K_FLOAT) outs[no++] = i->out[k].t;
  for (uint32_t k = 0; k < i->nin; k++)
    if (i->in[k].present && et_kind(i->in[k].type) == K_FLOAT) {
      if (xt(i->m, i->in[k].t)->kind == TK_INPUT)
        wrt[nw++] = i->in[k].t;
      else
        values++;
    }
  f->calls++;
  f->dims += values && !nw;
  if (!no || !nw) return;
  f->floats++;
  uint32_t mark = diag_mark(c);
  if (!grad_reverse(i->m, 0, outs, NULL, no, wrt, nw, adj)) {
    f->refused++;
    for (const diag *d = diag_first(c); d; d = d->next)
      if (d->level == D_ERROR) f->why = d->text;
    diag_reset(c, mark);
    return;
  }
  bool any = false;
  for (uint32_t k = 0; k < nw; k++) any |= !is_zero(i->m, adj[k]);
  if (any)
    f->derived++;
  else
    f->zero++;
}
static const char *gradient_of(ctx *c, const oplib *lib, const opdef *d, arena *a) {
  gradient_facts f = {0};
  const uint32_t floats = 1u << ET_F64 | 1u << ET_F32 | 1u << ET_I64 | 1u << ET_I32 | 1u << ET_BOOL;
  for (uint32_t s = 1; s <= SEEDS && f.floats < CALLS && f.calls < 20 * CALLS; s++) {
    opinst i;
    if (notation_instance(c, lib, d, s, (opinst_opts){.types = floats}, &i)) differentiate(c, &i, &f);
  }
  sbuf b = sbuf_new(a);
  bool stated = false;
  for (uint32_t i = 0; i < opdef_inputs(d); i++)
    if (notation_stated_gradient(lib, d, opdef_input(d, i))) {
      sb_fmt(&b, "%s%s", stated ? ", " : "stated for ", opdef_input(d, i));
      stated = true;
    }
  if (stated) return b.s;
  if (f.derived) return f.refused ? arena_fmt(a, "derived; not in every form: %s", f.why) : "derived";
  if (f.refused) return arena_fmt(a, "no: %s", f.why);
  if (f.zero) return "zero (piecewise constant)";
  return f.dims    ? "no: its floats are values known when compiling"
         : f.calls ? "no: no floats go in and come out"
                   : "no: strings, or types below f32";
}

/* ---- cost ------------------------------------------------------------------------------------ */
static const char *formula(ctx *c, sz e, const char *text, arena *a) {
  sbuf b = sbuf_new(a);
  if (strlen(text) <= LONGEST) return text;
  sym_print(c, e, &b);
  const char *flat = opinst_text(c, b.s);
  return strlen(flat) <= LONGEST ? flat : "long";
}
/* How well does a call show what the cost depends on? Sizes that stay open count for it, attributes that are not at
 * their default and assumptions about sizes against it. */
static int32_t showing(ctx *c, const opinst *i, opcost k) {
  u32vec syms = {0};
  sym_atoms(c, k.flops, AT_SYMBOL, ctx_arena(c), &syms), sym_atoms(c, k.bytes, AT_SYMBOL, ctx_arena(c), &syms);
  return 4 * (int32_t)syms.n - (int32_t)(2 * i->nattr + 3 * i->m->guards.n) - 20 * (strlen(k.flops_text) > LONGEST) -
         20 * (strlen(k.bytes_text) > LONGEST);
}
static void cost_of(ctx *c, const oplib *lib, const opdef *d, arena *a, sbuf *b) {
  const char *row = NULL;
  int32_t best = INT32_MIN, found = 0;
  for (uint32_t s = 1; s <= COST_SEEDS && found < CALLS * 2; s++) {
    opinst i;
    if (!notation_instance(c, lib, d, s, (opinst_opts){.types = 1u << ET_F32, .symbolic = true}, &i)) continue;
    opcost k = opinst_cost(c, &i);
    int32_t score = showing(c, &i, k);
    found++;
    if (score <= best) continue;
    best = score;
    sbuf call = sbuf_new(a);
    opinst_print(c, d, &i, &call);
    row = arena_fmt(a, " `%s` | `%s` | `%s` |\n", call.s, formula(c, k.flops, k.flops_text, a),
                    formula(c, k.bytes, k.bytes_text, a));
  }
  sb_put(b, row ? row : " | its ranks or sizes follow from attributes or data | |\n");
}

/* ---- rows ------------------------------------------------------------------------------------ */
/* Text for a cell of the table: without bars and line breaks. */
static const char *cell(arena *a, const char *s) {
  sbuf b = sbuf_new(a);
  for (; *s; s++)
    if (*s == '|')
      sb_put(&b, "\\|");
    else
      sb_putc(&b, *s == '\n' ? ' ' : *s);
  return b.n ? b.s : "";
}
static const char *versions(arena *a, const char *domain, const char *op) {
  int v[16];
  uint32_t n = domain[0] ? 0 : onnx_changes(op, v, 16);
  sbuf b = sbuf_new(a);
  sb_put(&b, "all");
  for (uint32_t i = 0; i < n; i++) sb_fmt(&b, "%s%d", i ? ", " : "; rewritten if before ", v[i]);
  return b.s;
}
/* Operators that work on graphs or on lists of tensors: nothing to define element by element. */
static const struct {
  const char *name;     /* name of the operator */
  const char *by;       /* what stands for it */
  const char *gradient; /* what is said about its gradient */
} undefined[] = {
    {"Constant", "a constant of the graph", "no: no inputs"},
    {"If", "branches of the program (driver/lower.c)", "derived"},
    {"Loop", "a loop of the program (driver/lower_loop.c)", "derived where the number of trips is known"},
    {"Scan", "a loop of the program (driver/lower_loop.c)", "derived"},
    {"SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
     "SplitToSequence ConcatFromSequence",
     "lists of tensors while lowering (driver/lower_list.c)", "derived: a list is its tensors"},
    {"Optional OptionalGetElement OptionalHasElement", "a tensor or none while lowering (driver/lower_list.c)",
     "derived: an optional is its tensor"},
    {"ai.onnx.preview.training::Gradient", "what src/grad derives (driver/lower_gradient.c)", "by src/grad again"},
};
/* Operators of onnxruntime (those of its two domains that run on a processor) that are neither defined nor replaced. */
static const struct {
  const char *names; /* names of operators, with spaces between */
  const char *why;   /* why they are left out */
} left_out[] = {
    {"BeamSearch GreedySearch Sampling WhisperBeamSearch",
     "a search that calls a whole decoder, an attribute of the node, again and again: the calling program does that"},
    {"MurmurHash3 NGramHashMapping VarlenNGramHashMapping", "hash values of features"},
    {"BifurcationDetector DynamicTimeWarping",
     "steps of a search in the calling program (decoding by guesses, time stamps)"},
    {"AttnLSTM WordConvEmbedding", "no exporter of today writes it"},
    {"GatherPacked", "its layouts of bytes are those of a file format, not of the operator"},
    {"MaxpoolWithMask", "internal to onnxruntime"},
    {"SparseToDenseMatMul", "a sparse tensor as a value of the model"},
};
static void left_out_rows(arena *a, sbuf *b) {
  sb_put(b, "\n## Operators of onnxruntime that are left out\n\nThe domains com.microsoft and ai.onnx.ml, as far as "
            "onnxruntime 1.32 runs their operators on a processor (105 of them): all others are in the table above.\n\n"
            "| operator | reason |\n|---|---|\n");
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
    char *names = arena_strdup(a, left_out[i].names), *rest = NULL;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
      sb_fmt(b, "| com.microsoft::%s | %s |\n", name, left_out[i].why);
  }
}
/* What definitions say of themselves. */
static void doc_rows(const oplib *all, arena *a, sbuf *b) {
  sb_put(b, "\n## What definitions say of themselves\n\n| definition | attributes | text |\n|---|---|---|\n");
  for (uint32_t i = 0; i < notation_count(all); i++) {
    const opdef *d = notation_nth(all, i);
    const char *domain = opdef_domain(d);
    if (!opdef_doc(d)[0]) continue;
    sbuf attrs = sbuf_new(a);
    opdef_attributes(d, &attrs);
    sb_fmt(b, "| %s%s%s | %s%s%s | %s |\n", domain, domain[0] ? "::" : "", opdef_name(d), attrs.n ? "`" : "",
           attrs.n ? cell(a, attrs.s) : "", attrs.n ? "`" : "", cell(a, opdef_doc(d)));
  }
}
static void replaced_rows(sbuf *b) {
  const char *domain, *op, *by;
  for (uint32_t i = 0; (by = onnx_replaced(i, &domain, &op)); i++)
    sb_fmt(b, "| %s::%s | all | any | replaced on import (onnx/expand.c): %s | as for these | | | |\n", domain, op, by);
}
/* A context for each operator: sizes that one call makes equal must not be equal in another's formulas. */
static void row(ctx *c, const opdef *listed, const oplib *lib, arena *a, sbuf *b) {
  const opdef *d = notation_find(lib, opdef_domain(listed), opdef_name(listed)); /* nothing but this one is read */
  sbuf types = sbuf_new(a);
  opdef_types(d, &types);
  const char *domain = opdef_domain(d), *file = opdef_pos(d).file, *slash = strrchr(file, '/');
  sb_fmt(b, "| %s%s%s | %s | %s | `%s` | %s |", domain, domain[0] ? "::" : "", opdef_name(d),
         versions(a, domain, opdef_name(d)), types.n ? cell(a, types.s) : "", slash ? slash + 1 : file,
         cell(a, gradient_of(c, lib, d, a)));
  cost_of(c, lib, d, a, b);
}
static bool framed_row(ctx *c, const opdef *d, oplib *(*make)(ctx *c, void *env), void *env, arena *a, sbuf *b) {
  volatile bool ok = false;
  CTX_TRY(c) {
    row(c, d, make(c, env), a, b);
    ok = true;
  }
  CTX_CATCH {}
  return ok;
}
void ops_table(ctx *c, oplib *(*make)(ctx *c, void *env), void *env, sbuf *b) {
  arena *a = ctx_arena(c);
  const oplib *all = make(c, env);
  uint32_t n = notation_count(all);
  sb_put(b, "# Operators\n\nMade by `einkorn ops --table` from the definitions; do not edit.\n\n"
            "Versions: opsets 1 to the newest are read; the numbers are opsets whose change is undone on import. "
            "Gradient: what `src/grad` makes of the definition. Cost: operations on elements and "
            "bytes that go in and out, for the call "
            "shown, as formulas of its sizes; an exponential counts as one operation like an addition.\n\n"
            "| operator | versions | types | defined by | gradient | call | operations | bytes "
            "|\n|---|---|---|---|---|---|---|---|\n");
  for (uint32_t i = 0; i < n; i++) {
    ctx *own = ctx_new();
    if (!own) ctx_fail(c, E_MEMORY, "out of memory");
    if (!framed_row(own, notation_nth(all, i), make, env, a, b)) sb_put(b, "|\n");
    ctx_free(own);
  }
  for (size_t i = 0; i < sizeof undefined / sizeof *undefined; i++) {
    char *names = arena_strdup(a, undefined[i].name), *rest = NULL;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
      sb_fmt(b, "| %s | %s | any | %s | %s | | | |\n", name, versions(a, "", name), undefined[i].by,
             undefined[i].gradient);
  }
  replaced_rows(b);
  left_out_rows(a, b);
  doc_rows(all, a, b);
}
