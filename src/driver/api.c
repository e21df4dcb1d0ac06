/* The doors of einkorn.h to sessions and models. Each opens the outermost frame, works in a context of its own, and turns the diagnostics into a code and a message. */
#include "driver/driver.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)EK_CANCELLED == (int)E_CANCELLED && (int)EK_INTERNAL == (int)E_INTERNAL, "ek_code and ecode are the same");
_Static_assert(EK_MAX_RANK == MAX_RANK, "ranks agree");

const char *ek_version(void) { return EK_VERSION; }
const char *ek_type_name(ek_type t) {
  etype e = et_from_onnx((int)t);
  return e ? et_name(e) : "?";
}
size_t ek_type_bytes(ek_type t) {
  etype e = et_from_onnx((int)t);
  return e ? et_bytes(e) : 0;
}

/* ---- texts that outlive contexts ---- */
bool text_put(text *t, const char *s, size_t n) {
  if (t->n + n + 1 > t->cap) {
    size_t cap = t->cap ? t->cap * 2 : 256;
    while (cap < t->n + n + 1) cap *= 2;
    char *p = realloc(t->s, cap);
    if (!p) return false;
    t->s = p, t->cap = cap;
  }
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
  return true;
}
bool text_set(text *t, const char *s) {
  t->n = 0;
  return text_put(t, s, strlen(s));
}
static void text_free(text *t) {
  free(t->s);
  *t = (text){0};
}

/* ---- diagnostics ---- */
void diag_print(const diag *d, sbuf *b) {
  static const char *const levels[] = {"error", "warning", "note", "info"};
  if (d->pos.file) sb_fmt(b, "%s:%u:%u: ", d->pos.file, d->pos.line, d->pos.col);
  sb_fmt(b, "%s: ", d->code == E_INTERNAL ? "internal error" : levels[d->level]);
  if (d->node && d->node[0]) sb_fmt(b, "%s: ", d->node);
  sb_put(b, d->text);
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
    if (s->log) s->log(s->log_user, (int)d->level, b.s);
  }
  if (s->message.n && s->message.s[s->message.n - 1] == '\n') s->message.s[--s->message.n] = 0;
}
ek_code session_done(ek_session *s, ctx *c, ek_code otherwise) {
  text_set(&s->message, "");
  if (!c) {
    text_set(&s->message, "error: out of memory");
    return EK_MEMORY;
  }
  CTX_TRY(c) { hand_over(s, c); }
  CTX_CATCH { text_set(&s->message, "error: out of memory"); }
  ek_code code = (ek_code)diag_code(c);
  return code ? code : otherwise;
}
ek_code session_fail(ek_session *s, ek_code code, const char *fmt, ...) {
  char buf[1024] = "error: ";
  size_t n = strlen(buf);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf + n, sizeof buf - n, fmt, ap);
  va_end(ap);
  text_set(&s->message, buf);
  if (s->log) s->log(s->log_user, 0, buf);
  return code;
}

/* ---- sessions ---- */
ek_session *ek_session_create(void) { return calloc(1, sizeof(ek_session)); }
void ek_session_destroy(ek_session *s) {
  if (!s) return;
  while (s->modules) ek_module_close(s->modules);
  while (s->models) ek_model_close(s->models);
  for (uint32_t i = 0; i < s->nops; i++) free(s->ops[i]);
  free(s->ops);
  text_free(&s->message);
  text_free(&s->result);
  ctx_free(s->scratch);
  free(s);
}
const char *ek_message(const ek_session *s) { return s->message.s ? s->message.s : ""; }
void ek_set_log(ek_session *s, void (*log)(void *user, int level, const char *text), void *user) { s->log = log, s->log_user = user; }
void ek_set_progress(ek_session *s, int (*progress)(void *user, const char *phase, double done), void *user) { s->progress = progress, s->progress_user = user; }

static void read_ops(ctx *c, const char *path) {
  CTX_TRY(c) {
    bytes b;
    oplib *lib = pipe_library(c, NULL); /* definitions may call built-in ones */
    if (file_map(c, path, &b)) notation_add(lib, (const char *)b.p, b.n, path);
  }
  CTX_CATCH {}
}
ek_code ek_load_ops(ek_session *s, const char *path) {
  ctx *c = ctx_new();
  if (c) read_ops(c, path);
  ek_code code = session_done(s, c, EK_OK);
  ctx_free(c);
  if (code) return code;
  char **ops = realloc(s->ops, (s->nops + 1) * sizeof *ops), *copy = strdup(path);
  if (ops) s->ops = ops;
  if (!ops || !copy) {
    free(copy);
    return session_fail(s, EK_MEMORY, "out of memory");
  }
  s->ops[s->nops++] = copy;
  return EK_OK;
}

/* ---- options ---- */
void ek_options_init(ek_options *o) { *o = (ek_options){.size = sizeof *o, .optimize = 3}; }
static bool read_dim(ctx *c, const char *text, dimfix *out) {
  const char *eq = strrchr(text, '=');
  char *end = NULL;
  errno = 0;
  long long v = eq ? strtoll(eq + 1, &end, 10) : 0;
  if (!eq || eq == text || end == eq + 1 || *end || errno || v < 0) {
    diag_error(c, E_USAGE, NULL, "dimension '%s': NAME=NUMBER is expected, such as N=8", text);
    return false;
  }
  *out = (dimfix){intern_n(c, text, (size_t)(eq - text)), v};
  return true;
}
bool options_read(ctx *c, const ek_session *s, const ek_options *given, pipe_opts *out) {
  ek_options o;
  ek_options_init(&o);
  if (given) {
    if (given->size < sizeof(size_t) || given->size > sizeof o) {
      diag_error(c, E_USAGE, NULL, "ek_options.size is %zu: set it by ek_options_init", given->size);
      return false;
    }
    memcpy(&o, given, given->size);
  }
  if (o.optimize < 0 || o.optimize > 3) {
    diag_error(c, E_USAGE, NULL, "optimisation level %d: 0 to 3 are known", o.optimize);
    return false;
  }
  if (o.threads < 0 || o.threads > 1024 || o.compile_threads < 0 || o.compile_threads > 1024) {
    diag_error(c, E_USAGE, NULL, "%d threads: 1 to 1024 are possible, or 0 for what the process may use", o.threads < 0 || o.threads > 1024 ? o.threads : o.compile_threads);
    return false;
  }
  *out = (pipe_opts){.level = o.optimize,
                     .compile_threads = o.compile_threads ? (uint32_t)o.compile_threads : cpu_count(),
                     .target = o.target,
                     .fuel = o.fuel,
                     .verify = o.verify != 0,
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

/* ---- models ---- */
source model_source(const ek_model *m) { return (source){m->path, {m->data, m->bytes}, m->name}; }
strvec model_ops(ctx *c, const ek_model *m) {
  strvec v = {0};
  for (uint32_t i = 0; i < m->nops; i++) vec_push(ctx_arena(c), v, m->ops[i]);
  return v;
}
static void load_graph(ek_model *m, const pipe_opts *o) {
  CTX_TRY(m->c) {
    m->p = pipe_new(m->c, o);
    source s = model_source(m);
    pipe_load(m->p, &s);
  }
  CTX_CATCH { m->p = NULL; }
}
static ek_code load(ek_session *s, const char *path, const void *data, size_t bytes, const char *name, ek_model **out) {
  *out = NULL;
  ek_model *m = calloc(1, sizeof *m);
  ctx *c = ctx_new();
  if (m && c) {
    m->s = s, m->c = c, m->data = data, m->bytes = bytes;
    m->path = path ? strdup(path) : NULL;
    m->name = strdup(path ? path : name ? name : "model");
    m->ops = calloc(s->nops + 1, sizeof *m->ops);
    bool ok = (!path || m->path) && m->name && m->ops;
    for (uint32_t i = 0; ok && i < s->nops; i++) ok = (m->ops[m->nops++] = strdup(s->ops[i])) != NULL;
    pipe_opts o = {.level = 3, .compile_threads = 1, .progress = s->progress, .progress_user = s->progress_user};
    if (ok) load_graph(m, &o);
  }
  ek_code code = m && c ? session_done(s, c, m->p ? EK_OK : EK_FAILED) : session_fail(s, EK_MEMORY, "out of memory");
  if (!m) {
    ctx_free(c);
    return code;
  }
  m->s = s, m->next = s->models, s->models = m;
  if (code)
    ek_model_close(m);
  else
    *out = m;
  return code;
}
ek_code ek_load(ek_session *s, const char *path, ek_model **out) { return load(s, path, NULL, 0, NULL, out); }
ek_code ek_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_model **out) { return load(s, NULL, data, bytes, name, out); }
void ek_model_close(ek_model *m) {
  if (!m) return;
  for (ek_model **p = &m->s->models; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  for (uint32_t i = 0; i < m->nops; i++) free(m->ops[i]);
  free(m->ops);
  free(m->path);
  free(m->name);
  ctx_free(m->c);
  free(m);
}

/* ---- inputs and outputs ---- */
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
    strvec ops = model_ops(m->c, m);
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
int32_t ek_model_inputs(const ek_model *m) { return (int32_t)m->p->g->inputs.n; }
int32_t ek_model_outputs(const ek_model *m) { return (int32_t)m->p->g->outputs.n; }
ek_code ek_model_input(ek_model *m, int32_t i, ek_tensor_info *out) {
  if (i < 0 || i >= ek_model_inputs(m)) return session_fail(m->s, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)ek_model_inputs(m));
  return tensor_of(m, m->p->g->inputs.v[i], out);
}
ek_code ek_model_output(ek_model *m, int32_t i, ek_tensor_info *out) {
  ek_code code;
  if (i < 0 || i >= ek_model_outputs(m)) return session_fail(m->s, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)ek_model_outputs(m));
  if (!model_lowered(m, &code)) return code;
  return tensor_of(m, m->p->g->outputs.v[i], out);
}

/* ---- a compilation ---- */
static ek_code guarded(ctx *c, ek_model *m, const ek_options *o, void (*setup)(pipeline *p, void *env), ek_code (*fn)(pipeline *p, void *env), void *env) {
  volatile ek_code r = EK_FAILED;
  CTX_TRY(c) {
    pipe_opts po;
    if (options_read(c, m->s, o, &po)) {
      pipeline *p = pipe_new(c, &po);
      if (setup) setup(p, env);
      source src = model_source(m);
      if (pipe_load(p, &src)) {
        strvec ops = model_ops(c, m);
        pipe_lower(p, &ops);
      }
      r = fn(p, env);
    }
  }
  CTX_CATCH { r = EK_FAILED; }
  return r;
}
ek_code in_pipe(ek_model *m, const ek_options *o, void (*setup)(pipeline *p, void *env), ek_code (*fn)(pipeline *p, void *env), void *env, ctx **keep) {
  if (keep) *keep = NULL;
  ctx *c = ctx_new();
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
  if (pipe_optimise(p)) pipe_program(p);
  return EK_OK;
}
ek_code ek_check(ek_model *m, const ek_options *o) { return in_pipe(m, o, NULL, check, NULL, NULL); }
