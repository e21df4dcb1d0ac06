/* The doors of einkorn.h to sessions and models. Each opens the outermost frame, works in a context of its own, and
 * turns the diagnostics into a code and a message. */
#include "codegen/llvm/llvm.h"
#include "driver/driver.h"
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)EK_CANCELLED == (int)E_CANCELLED && (int)EK_INTERNAL == (int)E_INTERNAL,
               "ek_code and ecode are the same");
_Static_assert(EK_MAX_RANK == MAX_RANK, "ranks agree");

const char *ek_version(void) { return EK_VERSION; }
static char llvm_path[4096];
static void find_llvm(void) {
  if (!llvm_file(llvm_path, sizeof llvm_path)) llvm_path[0] = 0;
}
const char *ek_llvm_path(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_llvm);
  return llvm_path;
}
const char *ek_code_name(ek_code code) {
  static const char *const names[] = {"success",
                                      "failure",
                                      "wrong use",
                                      "not supported",
                                      "malformed model",
                                      "shapes or types do not fit",
                                      "file error",
                                      "out of memory, or over a limit",
                                      "no code for the target",
                                      "internal error",
                                      "cancelled"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "unknown code";
}
const char *ek_type_name(ek_type t) {
  etype e = et_from_onnx((int)t);
  return e ? et_name(e) : "?";
}
size_t ek_type_bytes(ek_type t) {
  etype e = et_from_onnx((int)t);
  return e ? et_bytes(e) : 0;
}

/* ---- diagnostics ----------------------------------------------------------------------------- */
static const char *const levels[] = {"error", "warning", "note", "info"};
void diag_print(const diag *d, sbuf *b) {
  if (d->pos.file) sb_fmt(b, "%s:%u:%u: ", d->pos.file, d->pos.line, d->pos.col);
  sb_fmt(b, "%s: ", d->code == E_INTERNAL ? "internal error" : levels[d->level]);
  if (d->node && d->node[0]) sb_fmt(b, "%s: ", d->node);
  sb_put(b, d->text);
}
/* To the caller's function; without one to stderr, if EINKORN_LOG asked for this level when the session was made. */
static void tell(const ek_session *s, int level, const char *line) {
  if (s->log)
    s->log(s->log_user, level, line);
  else if (level < s->env_levels)
    fprintf(stderr, "einkorn: %s\n", line);
}
/* The same when the context has no memory left to print in. */
static void hand_over_plainly(ek_session *s, const ctx *c) {
  text_set(&s->message, "");
  for (const diag *d = diag_first(c); d; d = d->next) {
    if (d->level != D_ERROR) continue;
    const char *parts[] = {s->message.n ? "\n" : "", "error: ", d->node && d->node[0] ? d->node : "",
                           d->node && d->node[0] ? ": " : "", d->text};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) text_put(&s->message, parts[i], strlen(parts[i]));
  }
}
static void hand_over(ek_session *s, ctx *c) {
  arena *a = ctx_arena(c);
  for (const diag *d = diag_first(c); d; d = d->next) {
    sbuf b = sbuf_new(a);
    diag_print(d, &b);
    if (d->level == D_ERROR) {
      text_put(&s->message, b.s, b.n);
      text_put(&s->message, "\n", 1);
    }
    tell(s, (int)d->level, b.s);
  }
  if (s->message.n && s->message.s[s->message.n - 1] == '\n') s->message.s[--s->message.n] = 0;
}
static ek_code done(ek_session *s, ctx *c, ek_code otherwise) {
  text_set(&s->message, "");
  if (!c) {
    text_set(&s->message, "error: out of memory");
    return EK_MEMORY;
  }
  CTX_TRY(c) { hand_over(s, c); }
  CTX_CATCH { hand_over_plainly(s, c); }
  ek_code code = (ek_code)diag_code(c);
  return code ? code : otherwise;
}
ek_code session_done(ek_session *s, ctx *c, ek_code otherwise) {
  pthread_mutex_lock(&s->lock);
  ek_code code = done(s, c, otherwise);
  pthread_mutex_unlock(&s->lock);
  return code;
}
ek_code session_fail(ek_session *s, ek_code code, const char *fmt, ...) {
  char buf[1024] = "error: ";
  size_t n = strlen(buf);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf + n, sizeof buf - n, fmt, ap);
  va_end(ap);
  pthread_mutex_lock(&s->lock);
  text_set(&s->message, buf);
  pthread_mutex_unlock(&s->lock);
  tell(s, 0, buf);
  return code;
}
ek_code session_null(ek_session *s) {
  return s ? session_fail(s, EK_USAGE, "NULL was given where something is needed") : EK_USAGE;
}

/* ---- sessions -------------------------------------------------------------------------------- */
ek_session *ek_session_create_with(const ek_session_options *given) {
  ek_session_options o;
  ek_session_options_init(&o);
  if (given && !struct_read(given, &o, sizeof o)) return NULL;
  if (!o.alloc != !o.free) return NULL;
  memory mem = {o.alloc, o.free, o.alloc_user, o.compile_memory > SIZE_MAX ? SIZE_MAX : (size_t)o.compile_memory};
  ek_session *s = mem_zero(&mem, sizeof *s);
  if (!s) return NULL;
  s->mem = mem;
  s->message.mem = s->result.mem = &s->mem;
  if (pthread_mutex_init(&s->lock, NULL)) {
    mem_put(&mem, s);
    return NULL;
  }
  const char *log = getenv("EINKORN_LOG");
  for (int i = 0; log && i < 4; i++)
    if (!strcmp(log, levels[i])) s->env_levels = i + 1;
  return s;
}
ek_session *ek_session_create(void) { return ek_session_create_with(NULL); }
void ek_session_destroy(ek_session *s) {
  if (!s) return;
  while (s->modules) ek_module_close(s->modules);
  while (s->models) ek_model_close(s->models);
  while (s->arrays) ek_arrays_close(s->arrays);
  own_ops_free(&s->mem, s->ops, s->nops);
  text_free(&s->message);
  text_free(&s->result);
  ctx_free(s->scratch);
  ek_rt_pool_destroy(s->pool);
  pthread_mutex_destroy(&s->lock);
  memory mem = s->mem;
  mem_put(&mem, s);
}
const char *ek_message(const ek_session *s) { return s && s->message.s ? s->message.s : ""; }
void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user) {
  if (s) s->log = log, s->log_user = user;
}
void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user) {
  if (s) s->progress = progress, s->progress_user = user;
}

/* ---- options --------------------------------------------------------------------------------- */
/* One of the numbers of NAME=8 or NAME=1:8:64. */
static bool read_size(const char **s, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(*s, &end, 10);
  if (end == *s || errno || v < 0 || !isdigit((unsigned char)**s)) return false;
  *s = end, *out = v;
  return true;
}
static bool read_dim(ctx *c, const char *text, dimfix *out) {
  const char *eq = strrchr(text, '='), *s = eq ? eq + 1 : text;
  dimfix d = {0};
  bool good = eq && eq != text && read_size(&s, &d.value);
  d.lo = d.hi = d.value;
  if (good && *s == ':') {
    s++;
    if (*s == ':')
      d.value = -1;
    else
      good = read_size(&s, &d.value);
    good = good && *s++ == ':' && read_size(&s, &d.hi);
  }
  if (!good || *s) {
    diag_error(c, E_USAGE, NULL,
               "dimension '%s': NAME=NUMBER is expected, such as N=8, or NAME=LEAST:LIKELY:MOST, such as N=1:8:64",
               text);
    return false;
  }
  if (d.lo > d.hi || (d.value >= 0 && (d.lo > d.value || d.value > d.hi))) {
    diag_error(c, E_USAGE, NULL, "dimension '%s': %s is not between the least, %lld, and the most, %lld", text,
               d.value < 0 ? "nothing" : "the likely size", (long long)d.lo, (long long)d.hi);
    return false;
  }
  if (d.lo == d.hi) d.value = d.lo;
  d.name = intern_n(c, text, (size_t)(eq - text));
  *out = d;
  return true;
}
ek_options all_options(const ek_options *given) {
  ek_options o;
  ek_options_init(&o);
  if (given) struct_read(given, &o, sizeof o);
  return o;
}
bool options_read(ctx *c, const ek_session *s, const ek_options *given, pipe_opts *out) {
  ek_options o;
  ek_options_init(&o);
  if (given && !struct_read(given, &o, sizeof o)) {
    diag_error(c, E_USAGE, NULL, STRUCT_UNKNOWN("ek_options"), given->size, sizeof o);
    return false;
  }
  if (o.optimize < 0 || o.optimize > 3) {
    diag_error(c, E_USAGE, NULL, "optimisation level %d: 0 to 3 are known", o.optimize);
    return false;
  }
  if (o.threads < 0 || o.threads > MAX_RUN_THREADS || o.compile_threads < 0 || o.compile_threads > MAX_RUN_THREADS) {
    diag_error(c, E_USAGE, NULL, "%d threads: 1 to %d are possible, or 0 for what the process may use",
               o.threads < 0 || o.threads > MAX_RUN_THREADS ? o.threads : o.compile_threads, MAX_RUN_THREADS);
    return false;
  }
  if (o.accuracy != EK_ACCURACY_DEFAULT && o.accuracy != EK_ACCURACY_STRICT && o.accuracy != EK_ACCURACY_FAST) {
    diag_error(c, E_USAGE, NULL, "accuracy %d: EK_ACCURACY_DEFAULT, EK_ACCURACY_STRICT and EK_ACCURACY_FAST are known",
               (int)o.accuracy);
    return false;
  }
  if (o.precision != EK_PRECISION_MODEL && o.precision != EK_PRECISION_BF16 && o.precision != EK_PRECISION_F16) {
    diag_error(c, E_USAGE, NULL, "precision %d: EK_PRECISION_MODEL, EK_PRECISION_BF16 and EK_PRECISION_F16 are known",
               (int)o.precision);
    return false;
  }
  if (o.codegen != EK_CODEGEN_AUTO && o.codegen != EK_CODEGEN_LLVM) {
    diag_error(c, E_USAGE, NULL, "codegen %d: EK_CODEGEN_AUTO and EK_CODEGEN_LLVM are known", (int)o.codegen);
    return false;
  }
  *out = (pipe_opts){.level = o.optimize,
                     .strict = o.accuracy == EK_ACCURACY_STRICT,
                     .fast = o.accuracy == EK_ACCURACY_FAST,
                     .narrow = o.precision == EK_PRECISION_BF16  ? ET_BF16
                               : o.precision == EK_PRECISION_F16 ? ET_F16
                                                                 : ET_NONE,
                     .only_llvm = o.codegen == EK_CODEGEN_LLVM,
                     .unchecked = o.unchecked != 0,
                     .reproducible = o.reproducible != 0,
                     .compile_threads = (uint32_t)default_threads(o.compile_threads),
                     .target = o.target,
                     .fuel = o.fuel,
                     .schedules = o.schedule,
                     .schedules_name = o.schedule_name ? o.schedule_name : "schedule",
                     .verify = o.verify != 0,
                     .bound = {.bytes = o.memory_limit, .threads = default_threads(o.threads)},
                     .watch = o.watch,
                     .states = o.states,
                     .pass = o.pass,
                     .pass_user = o.pass_user};
  out->progress = s->progress, out->progress_user = s->progress_user;
  if (o.stop_after) out->stop_after = pipe_pass_ref(c, o.stop_after);
  VEC(dimfix) dims = {0};
  bool good = true;
  for (const char *const *d = o.dims; d && *d; d++) {
    dimfix f;
    if (read_dim(c, *d, &f))
      vec_push(ctx_arena(c), dims, f);
    else
      good = false;
  }
  out->dims = dims.v, out->ndims = dims.n;
  return good;
}

/* ---- models ---------------------------------------------------------------------------------- */
source model_source(const ek_model *m) { return (source){m->path, {m->data, m->bytes}, m->name}; }
static void load_graph(ek_model *m, const pipe_opts *o) {
  CTX_TRY(m->c) {
    m->p = pipe_new(m->c, o);
    source s = model_source(m);
    pipe_load(m->p, &s);
  }
  CTX_CATCH { m->p = NULL; }
}
static ek_code load(ek_session *s, const char *path, const void *data, size_t bytes, const char *name, ek_model **out) {
  if (out) *out = NULL;
  if (!s || !out || (!path && !data)) return session_null(s);
  const memory *mem = &s->mem;
  ek_model *m = mem_zero(mem, sizeof *m);
  ctx *c = session_ctx(s);
  bool ok = false;
  if (m && c) {
    m->s = s, m->c = c, m->data = data, m->bytes = bytes;
    m->path = path ? mem_str(mem, path) : NULL;
    m->name = mem_str(mem, path ? path : name ? name : "model");
    ok = (!path || m->path) && m->name;
    for (uint32_t i = 0; ok && i < s->nops; i++) ok = own_ops_add(mem, &m->ops, &m->nops, &s->ops[i]);
    pipe_opts o = {.level = 3, .compile_threads = 1, .progress = s->progress, .progress_user = s->progress_user};
    if (ok) load_graph(m, &o);
  }
  ek_code code = ok ? session_done(s, c, m->p ? EK_OK : EK_FAILED) : session_fail(s, EK_MEMORY, "out of memory");
  if (!m) {
    ctx_free(c);
    return code;
  }
  m->c = c;
  m->s = s, m->next = s->models, s->models = m;
  if (code)
    ek_model_close(m);
  else
    *out = m;
  return code;
}
ek_code ek_load(ek_session *s, const char *path, ek_model **out) { return load(s, path, NULL, 0, NULL, out); }
ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out) {
  return load(s, NULL, data || bytes ? data : "", bytes, name, out);
}
void ek_model_close(ek_model *m) {
  if (!m) return;
  for (ek_model **p = &m->s->models; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  const memory *mem = &m->s->mem;
  own_ops_free(mem, m->ops, m->nops);
  mem_put(mem, m->path);
  mem_put(mem, m->name);
  ctx_free(m->c);
  mem_put(mem, m);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */
void fill_tensor(ek_tensor_info *out, const char *name, etype t, uint32_t rank, ctx *c, const sz *shape) {
  *out = (ek_tensor_info){.name = name, .type = (ek_type)et_to_onnx(t), .rank = (int32_t)rank};
  for (uint32_t i = 0; i < rank && i < EK_MAX_RANK; i++) {
    int64_t v;
    bool fixed = shape[i] && sym_is_int(c, shape[i], &v);
    out->dims[i] = fixed ? v : -1;
    if (!fixed) out->dim_names[i] = shape[i] ? sym_str(c, shape[i]) : "?";
  }
}
static ek_code tensor_of(ek_model *m, const value *v, ek_tensor_info *out) {
  *out = (ek_tensor_info){.name = v->source, .type = v->type ? (ek_type)et_to_onnx(v->type) : 0, .rank = -1};
  volatile bool good = false;
  CTX_TRY(m->c) {
    if (v->ranked) fill_tensor(out, v->source, v->type, v->rank, m->c, v->dims);
    good = true;
  }
  CTX_CATCH {}
  return good ? EK_OK : session_done(m->s, m->c, EK_FAILED);
}
static void lower_model(ek_model *m) {
  CTX_TRY(m->c) {
    ops_sources ops = own_ops_sources(m->c, m->ops, m->nops);
    pipe_lower(m->p, &ops);
  }
  CTX_CATCH {}
}
bool model_lowered(ek_model *m, ek_code *code) {
  if (!m->lowered) {
    m->lowered = true;
    uint32_t before = diag_mark(m->c);
    lower_model(m);
    if (!m->p->m) m->lower_code = session_done(m->s, m->c, EK_FAILED);
    diag_reset(m->c, before);
  }
  *code = m->lower_code;
  return m->lower_code == EK_OK;
}
/* Inputs and outputs of states that the file itself ties are none of the model's. */
static uint32_t without_states(const ek_model *m, uint32_t n) { return n - m->p->g->states.n; }
int32_t ek_model_inputs(const ek_model *m) { return !m ? 0 : (int32_t)without_states(m, m->p->g->inputs.n); }
int32_t ek_model_outputs(const ek_model *m) { return !m ? 0 : (int32_t)without_states(m, m->p->g->outputs.n); }
ek_code ek_model_input(ek_model *m, int32_t i, ek_tensor_info *out) {
  if (!m || !out) return session_null(m ? m->s : NULL);
  if (i < 0 || i >= ek_model_inputs(m))
    return session_fail(m->s, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)ek_model_inputs(m));
  return tensor_of(m, m->p->g->inputs.v[i], out);
}
ek_code ek_model_output(ek_model *m, int32_t i, ek_tensor_info *out) {
  ek_code code;
  if (!m || !out) return session_null(m ? m->s : NULL);
  if (i < 0 || i >= ek_model_outputs(m))
    return session_fail(m->s, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)ek_model_outputs(m));
  if (!model_lowered(m, &code)) return code;
  return tensor_of(m, m->p->g->outputs.v[i], out);
}

/* ---- states ---------------------------------------------------------------------------------- */
/* OUTPUT=INPUT; where the name of an output has '=' in it, the last place behind one counts. */
static void tie_state(graph *g, const char *text) {
  const char *eq = strchr(text, '=');
  if (!eq || eq == text || !eq[1])
    ctx_fail(g->c, E_USAGE, "state '%s': OUTPUT=INPUT is expected, the names of an output and of an input", text);
  for (const char *at = eq; at; at = strchr(at + 1, '='))
    for (uint32_t i = 0; i < g->outputs.n; i++)
      if (strlen(g->outputs.v[i]->source) == (size_t)(at - text) &&
          !strncmp(g->outputs.v[i]->source, text, (size_t)(at - text)))
        eq = at;
  graph_tie(g, intern_n(g->c, text, (size_t)(eq - text)), eq + 1);
}
/* One `*` on each side of OUTPUT=INPUT stands for the same text: each output that fits is tied. False: no `*`. */
static bool tie_pattern(graph *g, const char *text) {
  const char *eq = strchr(text, '='), *star = strchr(text, '*');
  const char *other = eq ? strchr(eq, '*') : NULL;
  strvec ties = {0};
  if (!eq || !star || !other || star > eq) return false;
  const size_t before = (size_t)(star - text), after = (size_t)(eq - star - 1);
  for (uint32_t i = 0; i < g->outputs.n; i++) { /* tying changes their order */
    const char *name = g->outputs.v[i]->source;
    const size_t n = strlen(name);
    if (n < before + after || strncmp(name, text, before) != 0 || strncmp(name + n - after, star + 1, after) != 0)
      continue;
    vec_push(ctx_arena(g->c), ties,
             arena_fmt(ctx_arena(g->c), "%s=%.*s%.*s%s", name, (int)(other - eq - 1), eq + 1, (int)(n - before - after),
                       name + before, other + 1));
  }
  if (!ties.n) ctx_fail(g->c, E_USAGE, "state '%s': the model has no output whose name fits", text);
  for (uint32_t i = 0; i < ties.n; i++) tie_state(g, ties.v[i]);
  return true;
}
void tie_states(graph *g, const char *const *states) {
  for (; states && *states; states++)
    if (!tie_pattern(g, *states)) tie_state(g, *states);
}

/* ---- a compilation --------------------------------------------------------------------------- */
static ek_code guarded(ctx *c, ek_model *m, const ek_options *o, void (*setup)(pipeline *p, void *env),
                       ek_code (*fn)(pipeline *p, void *env), void *env) {
  volatile ek_code r = EK_FAILED;
  CTX_TRY(c) {
    pipe_opts po;
    if (options_read(c, m->s, o, &po)) {
      pipeline *p = pipe_new(c, &po);
      if (setup) setup(p, env);
      source src = model_source(m);
      if (pipe_load(p, &src)) {
        if (!p->o.part) tie_states(p->g, po.states);
        if (po.watch) watch_values(p->g, po.watch);
        if (p->o.part) graph_cut(p->g, p->o.part);
        if (p->o.edit) p->o.edit(p->g, p->o.edit_env);
        ops_sources ops = own_ops_sources(c, m->ops, m->nops);
        if (p->o.edit_ops)
          vec_push(ctx_arena(c), ops, ((ops_source){"edit", {(const uint8_t *)p->o.edit_ops, strlen(p->o.edit_ops)}}));
        pipe_lower(p, &ops);
      }
      r = fn(p, env);
    }
  }
  CTX_CATCH { r = EK_FAILED; }
  return r;
}
ek_code in_pipe(ek_model *m, const ek_options *o, void (*setup)(pipeline *p, void *env),
                ek_code (*fn)(pipeline *p, void *env), void *env, ctx **keep) {
  if (keep) *keep = NULL;
  if (!m) return EK_USAGE;
  ctx *c = session_ctx(m->s);
  ek_code r = c ? guarded(c, m, o, setup, fn, env) : EK_MEMORY;
  ek_code code = session_done(m->s, c, r);
  if (code && m->s->message.n == 0) session_fail(m->s, code, "the compilation failed without saying why");
  if (keep && !code)
    *keep = c;
  else
    ctx_free(c);
  return code;
}
static ek_code check(pipeline *p, void *env) {
  (void)env;
  p->unread = true;
  if (pipe_optimise(p)) pipe_program(p);
  return EK_OK;
}
ek_code ek_check(ek_model *m, const ek_options *o) { return in_pipe(m, o, NULL, check, NULL, NULL); }
