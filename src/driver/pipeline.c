/* What happens to a model on its way to native code, and in which order? The functions below are the answer, top to
 * bottom: load, lower, optimise, program, jit. Each ends in a call of `ran`, which tells the time of the pass to who
 * asked, verifies the result, prints it for --after, and says whether to go on. */
#include "driver/pipeline.h"
#include "passes/passes.h"
#include <ctype.h>
#include <string.h>

/* ---- the table: what stands in it before and after the passes of expr ------------------------ */
static const pipe_pass first_passes[] = {
    {PL_GRAPH, "load", "reads the model: every node in the newest form of its operator, in dependence order", 0},
    {PL_EXPR, "lower", "replaces every node by the stages of its operator's definition; infers types and shapes", 0},
};
static const pipe_pass last_passes[] = {
    {PL_LOOP, "schedule", "lays out the tensors and writes every kernel as explicit loops over memory", 0},
    {PL_PROGRAM, "program", "orders the kernels, plans the memory, writes the functions plan and run", 0},
    {PL_CODE, "code", "emits machine code for every function", 0},
    {PL_CODE, "weights", "writes the constants in the order in which the code reads them", 0},
};
const pipe_pass *pipe_passes(arena *a, uint32_t *n) {
  VEC(pipe_pass) all = {0};
  for (size_t i = 0; i < sizeof first_passes / sizeof *first_passes; i++) vec_push(a, all, first_passes[i]);
  for (const expr_pass *e = expr_passes; e->name; e++)
    vec_push(a, all, ((pipe_pass){PL_EXPR, e->name, e->doc, e->level}));
  for (size_t i = 0; i < sizeof last_passes / sizeof *last_passes; i++) vec_push(a, all, last_passes[i]);
  *n = all.n;
  return all.v;
}
const char *plevel_name(plevel l) {
  static const char *const names[] = {"", "graph", "expr", "loop", "program", "code"};
  return names[l];
}
pass_ref pipe_pass_ref(ctx *c, const char *text) {
  uint32_t n;
  const pipe_pass *all = pipe_passes(ctx_arena(c), &n);
  const char *hash = strchr(text, '#');
  size_t len = hash ? (size_t)(hash - text) : strlen(text);
  pass_ref r = {intern_n(c, text, len), 0};
  if (hash) {
    for (const char *d = hash + 1; *d; d++) {
      if (!isdigit((unsigned char)*d) || r.nth > 100000)
        ctx_fail(c, E_USAGE, "pass %s: a number is expected after #", text);
      r.nth = r.nth * 10 + (uint32_t)(*d - '0');
    }
  }
  sbuf known = sbuf_new(ctx_arena(c));
  strvec names = {0};
  for (uint32_t i = 0; i < n; i++) {
    if (!strcmp(all[i].name, r.name)) return r;
    bool before = false;
    for (uint32_t j = 0; j < i; j++) before |= !strcmp(all[j].name, all[i].name);
    vec_push(ctx_arena(c), names, all[i].name);
    if (!before) sb_fmt(&known, "%s%s", i ? ", " : "", all[i].name);
  }
  ctx_fail(c, E_USAGE, "there is no pass %s; the passes are %s%s", r.name, known.s,
           did_you_mean(ctx_arena(c), r.name, names.v, names.n));
}
static bool is_nth(pass_ref r, const char *pass, uint32_t nth) {
  return r.name && !strcmp(r.name, pass) && (!r.nth || r.nth == nth);
}

/* ---- after every pass ------------------------------------------------------------------------ */
void pipe_print(pipeline *p, plevel l, sbuf *b) {
  switch (l) {
  case PL_GRAPH:
    graph_print(p->g, b, (graph_print_opts){p->o.weights_inline, p->o.show_node});
    break;
  case PL_EXPR:
    expr_print(p->m, b, (print_opts){.weights_inline = p->o.weights_inline, .node = p->o.show_node, .kernels = true});
    break;
  case PL_LOOP:
    loop_print(p->s->l, b, NULL);
    break;
  case PL_PROGRAM:
    program_print(p->p, b);
    break;
  default:
    break;
  }
}
static void verify(pipeline *p, plevel l, const char *pass) {
  bool good = true;
  if (l == PL_GRAPH) good = graph_verify(p->g, pass);
  if (l == PL_EXPR) good = expr_verify(p->m, pass) && expr_verify_whole(p->m, pass);
  if (l == PL_LOOP) good = loop_verify(p->s->l, pass);
  if (l == PL_PROGRAM) good = loop_verify(p->p->l, pass) && program_verify(p->p, pass);
  if (!good) ctx_bug(p->c, "the %s level is not well-formed after pass %s", plevel_name(l), pass);
}
static bool ran(pipeline *p, plevel l, const char *pass, bool changed, double ms) {
  uint64_t nth = 0;
  map_gets(p->runs_of, pass, &nth);
  map_puts(p->runs_of, pass, ++nth);
  p->at = l;
  if (p->o.pass) p->o.pass(p->o.pass_user, plevel_name(l), pass, changed, ms);
  if (p->o.verify) verify(p, l, pass);
  if (is_nth(p->o.show_after, pass, (uint32_t)nth)) {
    sb_fmt(&p->shown, "# %s after %s%s\n", plevel_name(l), pass, changed ? "" : ": unchanged");
    if (changed || nth == 1) pipe_print(p, l, &p->shown);
  }
  if (is_nth(p->o.stop_after, pass, (uint32_t)nth)) p->stopped = true;
  return !p->stopped;
}
static void progress(pipeline *p, const char *phase, double done) {
  if (p->o.progress && p->o.progress(p->o.progress_user, phase, done))
    ctx_fail(p->c, E_CANCELLED, "cancelled while: %s", phase);
}

/* ---- 1. the model ---------------------------------------------------------------------------- */
pipeline *pipe_new(ctx *c, const pipe_opts *o) {
  pipeline *p = NEW(ctx_arena(c), pipeline);
  *p = (pipeline){.c = c,
                  .a = ctx_arena(c),
                  .o = *o,
                  .began = now_ms(),
                  .runs_of = map_new(ctx_arena(c)),
                  .shown = sbuf_new(ctx_arena(c))};
  return p;
}
bool pipe_load(pipeline *p, const source *s) {
  if (p->g || p->stopped) return !p->stopped;
  progress(p, "reading the model", 0);
  double t0 = now_ms();
  bytes b = s->data;
  if (s->path) foreign_folder(p->c, s->path);
  if (s->path && !file_map(p->c, s->path, &b)) ctx_unwind(p->c);
  if (!b.n) ctx_fail(p->c, E_IO, "%s is empty", s->name);
  p->g = front_end_of(b)->load(p->c, s, b, p->standard);
  if (!p->g) {
    if (!diag_errors(p->c)) diag_error(p->c, E_MODEL, NULL, "%s cannot be read", s->name);
    ctx_unwind(p->c);
  }
  if (!graph_verify(p->g, NULL)) ctx_unwind(p->c);
  p->load_ms += now_ms() - t0;
  return ran(p, PL_GRAPH, "load", true, now_ms() - t0);
}

/* ---- 2. what its operators mean -------------------------------------------------------------- */
bool ops_text(ctx *c, const ops_source *s, bytes *out) {
  *out = s->text;
  return s->text.p || file_map(c, s->name, out);
}
oplib *pipe_library(ctx *c, const ops_sources *user) {
  oplib *lib = notation_lib(c);
  if (!notation_add_builtin(lib)) ctx_unwind(c);
  for (uint32_t i = 0; user && i < user->n; i++) {
    bytes b;
    if (!ops_text(c, &user->v[i], &b)) ctx_unwind(c);
    if (!notation_add(lib, (const char *)b.p, b.n, user->v[i].name)) ctx_unwind(c);
  }
  return lib;
}
bool pipe_lower(pipeline *p, const ops_sources *user) {
  if (p->m || p->stopped || p->standard) return !p->stopped;
  progress(p, "reading the operators", 0);
  double t0 = now_ms();
  p->lib = pipe_library(p->c, user);
  if (p->o.unchecked) notation_unchecked(p->lib);
  progress(p, "lowering", 0);
  p->lowered = diag_mark(p->c);
  p->m = lower_graph(p->g, p->lib, p->o.dims, p->o.ndims);
  if (!p->m) ctx_unwind(p->c);
  p->load_ms += now_ms() - t0;
  return ran(p, PL_EXPR, "lower", true, now_ms() - t0);
}

/* ---- 3. expr: simplified, fused, in kernels -------------------------------------------------- */
typedef struct watch {
  pipeline *p;  /* the compilation */
  uint32_t n;   /* passes done */
  uint32_t all; /* passes to do */
} watch;
static bool after_expr(void *env, emodule *m, const char *pass, bool changed, double ms) {
  watch *w = env;
  (void)m;
  progress(w->p, "optimising", w->all ? (double)++w->n / w->all : 0);
  return ran(w->p, PL_EXPR, pass, changed, ms);
}
/* May there be a variant for many rows? Where code and constants twice are little, and nobody said which sizes are
 * likely. */
static bool variants_allowed(const pipeline *p) {
  enum { SMALL = 8 << 20 }; /* bytes of constants */
  uint64_t all = 0;
  for (uint32_t i = 0; i < p->o.ndims; i++)
    if (dim_likely(&p->o.dims[i])) return false;
  for (uint32_t t = 1; t < p->m->tensors.n; t++)
    if (xt(p->m, t)->kind == TK_CONST) all += xt(p->m, t)->data.bytes;
  return p->lib && !p->o.fuel && p->t->l2 && all <= SMALL;
}
/* The model once more, with a variant for many of these. */
static void lower_with_variants(pipeline *p, const u32vec *sizes) {
  VEC(dimfix) dims = {0};
  uint32_t i, k;
  double t0 = now_ms();
  for (i = 0; i < p->o.ndims; i++) vec_push(p->a, dims, p->o.dims[i]);
  for (i = 0; i < sizes->n; i++) {
    const char *name = sym_name(p->c, sizes->v[i]);
    for (k = 0; k < dims.n && strcmp(dims.v[k].name, name); k++) {}
    if (k == dims.n) vec_push(p->a, dims, ((dimfix){.name = name, .value = -1, .hi = INT64_MAX}));
    dims.v[k].variant_from = EXPR_VARIANT_ROWS;
  }
  diag_reset(p->c, p->lowered);
  p->runs_of = map_new(p->a), p->shown = sbuf_new(p->a);
  expr_drop_values(p->m);
  p->m = lower_graph(p->g, p->lib, dims.v, dims.n);
  if (!p->m) ctx_unwind(p->c);
  ran(p, PL_EXPR, "lower", true, now_ms() - t0);
}
/* In which type may factors be kept? In bf16 where the target multiplies pairs of them; ET_NONE: as they are. */
static etype may_narrow(const pipeline *p) {
  const bool can = p->o.narrow != ET_BF16 || target_products(p->t, ET_F32, ET_BF16, ET_BF16) != NULL;
  return can ? p->o.narrow : ET_NONE;
}
/* Tells who asks for bf16 what this machine does with it. */
static void tell_narrow(const pipeline *p) {
  const instruction *by = target_products(p->t, ET_F32, ET_BF16, ET_BF16);
  if (p->o.narrow != ET_BF16) return;
  if (!by)
    diag_warn(p->c, NULL, "target %s has no products of bf16 pairs: what is computed in f32 stays so", p->t->name);
  else if (!instruction_beats_fma(p->t, by))
    diag_warn(
        p->c, NULL,
        "target %s multiplies pairs of bf16 no faster than f32: only large constants that few rows use become bf16, "
        "and in a step of training large values that are kept; products are computed in f32",
        p->t->name);
}
bool pipe_optimise(pipeline *p) {
  if (p->stopped || p->passes_ms > 0) return !p->stopped;
  p->t = target_get(p->c, p->o.target ? p->o.target : "host");
  if (!p->t) ctx_unwind(p->c);
  tell_narrow(p);
  double t0 = now_ms();
  watch w = {.p = p};
  for (const expr_pass *e = expr_passes; e->name; e++) w.all += e->level <= p->o.level;
  expr_observer o = {.after = after_expr,
                     .env = &w,
                     .fuel = p->o.fuel,
                     .skip = p->o.skip,
                     .strict = p->o.strict,
                     .narrow = may_narrow(p),
                     .convert = !p->t->f16c,
                     .spent = &p->rewrites,
                     .t = p->t};
  u32vec many = {0};
  if (variants_allowed(p)) o.variant_sizes = &many;
  expr_optimise(p->m, p->o.level, &o);
  if (many.n && !p->stopped) {
    lower_with_variants(p, &many);
    o.variant_sizes = NULL, w.n = 0;
    expr_optimise(p->m, p->o.level, &o);
  }
  if (diag_errors(p->c)) ctx_unwind(p->c);
  file_cool(p->c);
  p->passes_ms = now_ms() - t0;
  return !p->stopped;
}

/* ---- 4. loops and memory --------------------------------------------------------------------- */
/* Does all that a run takes keep within the bound? Who knows the sizes looks at a bound of working memory alone. */
static void keep_bound(const pipeline *p) {
  const memory_bound *b = &p->o.bound;
  const int64_t states = schedule_state_bytes(p->s), constants = (int64_t)(p->p->weight_bytes - p->p->first_bytes);
  int64_t arena_bytes, scratch;
  if (!b->bytes || !b->whole) return;
  if (!sym_is_int(p->c, p->p->arena_bytes, &arena_bytes) || !sym_is_int(p->c, p->p->scratch_bytes, &scratch))
    ctx_fail(p->c, E_MEMORY, "the memory of a step is not known before it runs: %s bytes", program_memory(p->p));
  const int64_t work = arena_bytes + scratch * b->threads, all = work + states + constants;
  if ((uint64_t)all <= b->bytes) return;
  if ((uint64_t)(states + constants) >= b->bytes)
    ctx_fail(
        p->c, E_MEMORY,
        "a step keeps %lld bytes of parameters and other states and %lld of constants, and needs working memory; the "
        "limit is %llu bytes",
        (long long)states, (long long)constants, (unsigned long long)b->bytes);
  ctx_fail(
      p->c, E_MEMORY,
      "a step takes %lld bytes at least: %lld of working memory, although %u kernels run again, %lld of parameters "
      "and other states, and %lld of constants; the limit is %llu bytes. %s",
      (long long)all, (long long)work, p->s->again.launches, (long long)states, (long long)constants,
      (unsigned long long)b->bytes, program_peak(p->p));
}
bool pipe_program(pipeline *p) {
  if (p->p || p->stopped) return !p->stopped;
  double t0 = now_ms();
  progress(p, "scheduling", 0);
  schedule_opts o = {.level = p->o.plain ? 0 : p->o.level,
                     .strict = p->o.strict,
                     .unread = p->unread,
                     .no_reuse = p->o.no_reuse,
                     .record = p->o.record,
                     .reproducible = p->o.reproducible};
  if (p->o.schedules && p->o.level == 0)
    ctx_fail(p->c, E_USAGE, "schedules are followed from optimisation level 1 on; level 0 has plain loops");
  if (p->o.schedules) {
    const bytes text = {(const uint8_t *)p->o.schedules, strlen(p->o.schedules)};
    o.stated = schedules_parse(p->c, p->o.schedules_name, text);
  }
  p->s = schedule_module(p->m, p->t, o);
  if (!p->s || diag_errors(p->c)) ctx_unwind(p->c);
  p->s->timed = p->timed, p->s->no_sharing = p->o.no_sharing, p->s->bound = p->o.bound;
  bool go = ran(p, PL_LOOP, "schedule", true, now_ms() - t0);
  double t1 = now_ms();
  if (go) {
    const bool repeats = schedule_repeats(p->s);
    /* kernels stand for them now, unless somebody asks what a launch computes from what */
    if (!p->timed && !repeats) expr_drop_values(p->m);
    const bool narrow = may_narrow(p) == ET_BF16; /* rounds by far more than short forms of functions err */
    p->s->l->fast = p->o.fast || (narrow && !p->o.strict), p->s->l->flush = narrow;
    p->p = program_build(p->s, p->g->name);
    if (!p->p || diag_errors(p->c)) ctx_unwind(p->c);
    if (!p->timed && repeats) expr_drop_values(p->m);
    keep_bound(p);
    go = ran(p, PL_PROGRAM, "program", true, now_ms() - t1);
  }
  p->schedule_ms = now_ms() - t0;
  return go;
}

/* Weights exist in up to three forms on the way: in the file, folded, packed. Those that the program does not refer
 * to give their memory back before there is code, the others one by one as they are packed, so that never two
 * forms of all are there at once. */
enum { MIN_RELEASED = 1 << 16 };                  /* bytes that are worth a call of the system */
static bool still_used(const splan *s, bytes x) { /* Is any of x used by some buffer? */
  const uint8_t *from = x.p, *to = from + x.n;
  for (uint32_t i = 1; i < s->buffers.n; i++) {
    bytes b = s->buffers.v[i].from.source;
    if (b.p && b.p < to && from < b.p + b.n) return true;
  }
  return false;
}
void pipe_release(pipeline *p) {
  if (p->timed)
    sym_forget_memos(p->c);
  else
    sym_forget(p->c);
  for (uint32_t t = 1; t < p->m->tensors.n; t++) {
    const tensor *x = xt(p->m, t);
    bytes b = x->narrow.type ? x->narrow.from : (bytes){x->data.data, x->data.bytes};
    if (x->kind == TK_CONST && b.p && b.n > MIN_RELEASED && !still_used(p->s, b)) ctx_release(p->c, b.p, b.n);
  }
  file_cool(p->c);
}
typedef struct watching {
  pipeline *p;                        /* the compilation */
  void (*wrote)(void *env, size_t n); /* is told how many bytes are written */
  void *env;                          /* handed to wrote */
} watching;
static void packed(void *env, bytes source) {
  pipeline *p = ((watching *)env)->p;
  if (source.n <= MIN_RELEASED) return;
  ctx_release(p->c, source.p, source.n);
  file_done(p->c, source.p, source.n);
}
static void written(void *env, size_t n) {
  watching *w = env;
  if (w->wrote) w->wrote(w->env, n);
}
void pipe_weights(pipeline *p, uint64_t n, uint8_t *to, void (*wrote)(void *env, size_t n), void *env) {
  double t0 = now_ms();
  program_weights(p->p, n, p->o.compile_threads, to, &(weights_watch){packed, written, &(watching){p, wrote, env}});
  file_cool(p->c);
  ran(p, PL_CODE, "weights", true, now_ms() - t0);
}
void pipe_weights_stream(pipeline *p, void (*put)(void *env, bytes piece), void *env) {
  program_weights_stream(p->p, put, env);
  file_cool(p->c);
}

/* ---- 5. code --------------------------------------------------------------------------------- */
code_opts pipe_code_opts(const pipeline *p) {
  return (code_opts){.level = p->o.level,
                     .codegen = p->o.only_llvm ? EK_CODE_LLVM : EK_CODE_AUTO,
                     .threads = p->o.compile_threads,
                     .keep = p->keep,
                     .keep_env = p->keep_env};
}
jit *pipe_jit(pipeline *p) {
  if (p->stopped) return NULL;
  progress(p, "generating code", 0);
  double t0 = now_ms();
  if (!p->t->host && !emit_of(p->c, p->t)->object)
    ctx_fail(p->c, E_TARGET, "target %s has no code for this process; save it with ek_save", p->t->name);
  if (!p->t->here)
    ctx_fail(p->c, E_TARGET,
             "code for target %s does not run on this machine; save it with `compile -o`, or leave out the target",
             p->t->name);
  code_opts o = pipe_code_opts(p);
  jit *j = jit_new(p->c, p->t, &o);
  CTX_TRY(p->c) {
    jit_add(j, p->s->l);
    p->code_ms = now_ms() - t0;
    ran(p, PL_CODE, "code", true, p->code_ms);
    progress(p, "generating code", 1);
  }
  CTX_CATCH {
    jit_free(j);
    ctx_unwind(p->c);
  }
  return j;
}
const char *pipe_symbol(arena *a, const char *path) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
  size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
  char *s = arena_strndup(a, base, n);
  for (size_t i = 0; i < n; i++)
    if (!isalnum((unsigned char)s[i])) s[i] = '_';
  if (!n) return "model";
  return isdigit((unsigned char)s[0]) ? arena_fmt(a, "m%s", s) : s;
}
