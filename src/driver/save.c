/* Saving compiled code for programs that know nothing of Einkorn: a shared library (.so), an object (.o), or C
 * source (.c), each with a header (.h).
 *
 *   model's object (code, descriptor)  +  room for weights  +  runtime's object (threads)  -> linker -> .so or
 *                                      .o; the weights are packed into the room
 *
 * All symbols but NAME_run and NAME_info are hidden; the runtime's are weak as well, so that several models go
 * into one program. */
#include "codegen/c/c.h"
#include "driver/driver.h"
#include <string.h>

typedef struct saving {
  const char *path;           /* file to be written */
  ek_report *report;          /* gets the facts; NULL: nobody asks */
  linking *link;              /* the link under way */
  ek_model *model;            /* the model */
  ops_sources ops;            /* the user's definitions */
  uint64_t limit;             /* most bytes of working memory; 0: no limit */
  int threads;                /* of a run */
  const inner_options *inner; /* NULL: there are none */
} saving;
static bool ends_in(const char *s, const char *suffix) {
  size_t n = strlen(s), k = strlen(suffix);
  return n > k && !strcmp(s + n - k, suffix);
}
static const char *replace_suffix(arena *a, const char *path, const char *suffix) {
  const char *dot = strrchr(path, '.');
  return arena_fmt(a, "%.*s%s", (int)(dot - path), path, suffix);
}

static void write_header(pipeline *p, const char *path, const char *name, const ek_rt_model *d) {
  const char *h = model_header(p->c, name, d), *file = replace_suffix(p->a, path, ".h");
  if (!file_write(p->c, file, h, strlen(h))) ctx_unwind(p->c);
}

/* ---- objects --------------------------------------------------------------------------------- */
static bool native(const target *t) {
#if defined(__x86_64__)
  return t->host || strstr(t->triple, "x86_64") || strstr(t->triple, "x86-64");
#elif defined(__aarch64__)
  return t->host || strstr(t->triple, "aarch64");
#else
  return t->host;
#endif
}
static void wrote(void *env, size_t n) { link_wrote(env, n); }
static void save_object(pipeline *p, saving *s, ek_rt_model *d, bool shared) {
  const char *name = pipe_symbol(p->a, s->path);
  const emitter *e = emit_of(p->c, p->t);
  if (!e->object) ctx_fail(p->c, E_TARGET, "target %s is for %s: save as .c", p->t->name, e->makes);
  s->link = link_begin(p->c, s->path, shared);
  code_opts o = pipe_code_opts(p);
  double t0 = now_ms();
  bool threads = native(p->t);
  size_t weights = (size_t)p->p->weight_bytes;
  code_model x = {.name = name, .model = d, .weights = {(const uint8_t *)"", weights}, .embed = false, .pool = threads};
  const bytes *objs;
  uint32_t n = emit_objects(p->c, p->s->l, p->t, &o, &x, &objs);
  size_t code = 0;
  p->code_ms = now_ms() - t0;
  for (uint32_t i = 0; i < n; i++) link_add(s->link, arena_fmt(p->a, "model%u", i), objs[i]), code += objs[i].n;
  if (threads)
    link_add(s->link, "runtime",
             (bytes){driver_runtime_object, (size_t)(driver_runtime_object_end - driver_runtime_object)});
  if (weights) link_reserve(s->link, arena_fmt(p->a, "%s_weights", name), weights, objs[0]);
  link_run(s->link, name, threads);
  if (weights) pipe_weights(p, weights, link_room(s->link), wrote, s->link);
  uint64_t bytes = link_end(s->link);
  write_header(p, s->path, name, d);
  if (s->report) s->report->code_bytes = code, s->report->file_bytes = bytes;
}
typedef struct source_file {
  pipeline *p;   /* the compilation */
  const sbuf *b; /* the source without the weights' text */
  size_t at;     /* offset in b where weights go */
  c_words words; /* state of the weights' text */
  sbuf text;     /* text of weights that is not written yet */
  file_out *out; /* the file */
  size_t bytes;  /* bytes written */
} source_file;
static void put_text(source_file *k, const char *s, size_t n) {
  file_put(k->out, s, n);
  k->bytes += n;
}
static void put_weights(void *env, bytes piece) {
  enum { STEP = 1 << 16 };
  source_file *k = env;
  for (size_t at = 0; at < piece.n; at += STEP) {
    k->text.n = 0;
    c_weights(&k->words, (bytes){piece.p + at, piece.n - at < STEP ? piece.n - at : STEP}, &k->text);
    put_text(k, k->text.s, k->text.n);
  }
}
static void put_source(void *env, file_out *out) {
  source_file *k = env;
  k->out = out;
  put_text(k, k->b->s, k->at);
  pipe_weights_stream(k->p, put_weights, k);
  put_text(k, k->b->s + k->at, k->b->n - k->at);
}
static void save_source(pipeline *p, saving *s, ek_rt_model *d) {
  const char *name = pipe_symbol(p->a, s->path);
  double t0 = now_ms();
  size_t weights = (size_t)p->p->weight_bytes;
  code_model x = {.name = name, .model = d, .weights = {NULL, weights}};
  sbuf b = sbuf_new(p->a);
  source_file k = {.p = p, .b = &b, .words = {.n = weights}, .text = sbuf_new(p->a)};
  k.at = emit_table[EMIT_C].source(p->c, p->s->l, p->t, &x, &b);
  p->code_ms = now_ms() - t0;
  if (!file_write_by(p->c, s->path, put_source, &k)) ctx_unwind(p->c);
  write_header(p, s->path, name, d);
  if (s->report) s->report->code_bytes = b.n, s->report->file_bytes = k.bytes;
}
/* A saved model knows no limit when it runs: what a run can take, with the sizes that the model permits, must be
 * within it. */
static void keep_limit(pipeline *p, const saving *s) {
  int64_t least, arena, scratch;
  if (!s->limit) return;
  sym_range(p->c, p->p->arena_bytes, &least, &arena);
  sym_range(p->c, p->p->scratch_bytes, &least, &scratch);
  bool late = false; /* memory for sizes that only a run finds */
  for (uint32_t i = 1; i < p->p->buffers.n; i++) late |= p->p->buffers.v[i].late;
  const bool known = !late && arena < SYM_INF / 2 && scratch < SYM_INF / 2 / s->threads;
  const int64_t all = known ? arena + scratch * s->threads : 0;
  if (known && (uint64_t)all <= s->limit) return;
  ctx_fail(p->c, E_MEMORY, "a run may take %s bytes of working memory (%s) in %d threads; the limit is %llu bytes%s",
           known ? arena_fmt(p->a, "%lld", (long long)all) : "any number of", program_memory(p->p), s->threads,
           (unsigned long long)s->limit,
           sym_is_int(p->c, p->p->arena_bytes, NULL)
               ? ""
               : ". Open sizes count with the most that they may be: --dim NAME=LEAST::MOST bounds one");
}
static void save(pipeline *p, saving *s) {
  if (p->standard && p->g->states.n) ctx_fail(p->c, E_UNSUPPORTED, "%s: a .onnx file has no states", s->path);
  if (p->standard) {
    save_as_onnx(p, &s->ops, s->path, s->report);
    return;
  }
  if (!pipe_optimise(p) || !pipe_program(p)) return;
  keep_limit(p, s);
  ek_rt_model *d = describe(p->c, p->m, p->p, p->g->name, program_memory(p->p));
  if (s->report) report_program(p, s->report);
  pipe_release(p);
  if (ends_in(s->path, ".so") || ends_in(s->path, ".o"))
    save_object(p, s, d, ends_in(s->path, ".so"));
  else if (ends_in(s->path, ".c"))
    save_source(p, s, d);
  else
    ctx_fail(p->c, E_USAGE, "%s: the suffix says what to make: .so, .o, .c or .onnx", s->path);
  if (s->report) report_times(p, s->report);
}
static void setup(pipeline *p, void *env) {
  saving *s = env;
  inner_apply(p, s->inner);
  if (ends_in(s->path, ".c") && !p->o.target) p->o.target = "c";
  p->standard = ends_in(s->path, ".onnx");
  if (p->standard) s->ops = own_ops_sources(p->c, s->model->ops, s->model->nops);
}
static ek_code save_in(pipeline *p, void *env) {
  saving *s = env;
  CTX_TRY(p->c) { save(p, s); }
  CTX_CATCH {
    link_drop(s->link);
    ctx_unwind(p->c);
  }
  link_drop(s->link);
  if (!p->stopped) return EK_OK;
  diag_add(p->c, D_ERROR, E_CANCELLED, (srcpos){0}, NULL, "compilation ended after pass %s, as asked",
           p->o.stop_after.name);
  return EK_CANCELLED;
}
ek_code ek_save(ek_model *m, const ek_options *o, const char *path, ek_report *report) {
  return save_inner(m, o, NULL, path, report);
}
ek_code save_inner(ek_model *m, const ek_options *o, const inner_options *x, const char *path, ek_report *report) {
  if (report) *report = (ek_report){.memory = ""};
  if (!m || !path) return session_null(m ? m->s : NULL);
  ek_options all = all_options(o);
  saving s = {.path = path, .report = report, .model = m, .limit = all.memory_limit, .inner = x};
  s.threads = default_threads(all.threads);
  ctx *c;
  ek_code code = in_pipe(m, o, setup, save_in, &s, &c);
  if (code) return code;
  ctx_free(m->s->scratch);
  m->s->scratch = c;
  return EK_OK;
}
