/* Compiled code as a handle: made by compiling in this process, by loading a saved library, or, for comparison, without
 * any code (the evaluator). All three are described by one record (ek_rt_model), so that runs and the functions that
 * tell about inputs and outputs need not know which it is. */
#include "codegen/image/image.h"
#include "driver/cache.h"
#include "eval/eval.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- description ----------------------------------------------------------------------------- */
static const ek_rt_tensor *tensors(ctx *c, emodule *m, const io *v, uint32_t n) {
  arena *a = ctx_arena(c);
  ek_rt_tensor *r = NEWN(a, ek_rt_tensor, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    const tensor *t = xt(m, v[i].t);
    int64_t *dims = NEWN(a, int64_t, t->rank + 1);
    const char **names = NEWN(a, const char *, t->rank + 1);
    for (uint32_t d = 0; d < t->rank; d++) {
      if (sym_is_int(c, t->shape[d], &dims[d])) continue;
      dims[d] = -1;
      names[d] = sym_str(c, t->shape[d]);
    }
    r[i] = (ek_rt_tensor){
        .name = v[i].name, .type = et_to_onnx(t->type), .rank = (int32_t)t->rank, .dims = dims, .dim_names = names};
  }
  return r;
}
/* The axes of all states as they lie; NULL: all are row-major. */
static const int64_t *orders(ctx *c, const program *p) {
  VEC(int64_t) axes = {0};
  bool any = false;
  for (uint32_t i = 0; i < p->states.n; i++) {
    const uint32_t *order = p->states.v[i].order;
    any |= order != NULL;
    for (uint32_t k = 0; k < p->inputs.v[p->inputs.n - p->states.n + i].rank; k++)
      vec_push(ctx_arena(c), axes, order ? order[k] : k);
  }
  return any ? axes.v : NULL;
}
/* Without a program the first values, one after the other, are the weights, and every state has two places. */
static void describe_states(ctx *c, emodule *m, const program *p, ek_rt_model *d) {
  const uint32_t n = m->states.n;
  ek_rt_state *all = NEWN(ctx_arena(c), ek_rt_state, n + 1);
  sbuf first = sbuf_new(ctx_arena(c));
  for (uint32_t i = 0; i < n; i++) {
    all[i] = (ek_rt_state){-1, p && p->states.v[i].in_place ? 1 : 2};
    if (!m->states.v[i]) continue;
    const ndarray *x = p ? NULL : expr_data(m, m->states.v[i]);
    all[i].first = p ? (int64_t)p->buffers.v[p->states.v[i].first].weight_offset : (int64_t)first.n;
    if (x) sb_putn(&first, x->data, x->bytes);
  }
  if (!p) d->weights = (const uint8_t *)first.s, d->weight_bytes = (int64_t)first.n;
  d->states = n, d->between = all;
  d->state = tensors(c, m, m->inputs.v + m->inputs.n - n, n);
  if (p) d->orders = orders(c, p);
  d->version = model_version(d);
}
ek_rt_model *describe(ctx *c, emodule *m, const program *p, const char *name, const char *memory) {
  ek_rt_model *d = NEW(ctx_arena(c), ek_rt_model);
  *d = (ek_rt_model){.version = 2, .name = name, .memory = memory};
  d->inputs = m->inputs.n - m->states.n, d->outputs = m->outputs.n - m->states.n;
  d->in = tensors(c, m, m->inputs.v, (uint32_t)d->inputs);
  d->out = tensors(c, m, m->outputs.v, (uint32_t)d->outputs);
  if (m->states.n) describe_states(c, m, p, d);
  for (uint32_t i = 0; i < m->inputs.n + m->outputs.n; i++) {
    const io *v = i < m->inputs.n ? &m->inputs.v[i] : &m->outputs.v[i - m->inputs.n];
    if (et_kind(xt(m, v->t)->type) == K_STR)
      ctx_fail(c, E_UNSUPPORTED, "%s %s holds strings: compiled models take and give numbers only",
               i < m->inputs.n ? "input" : "output", v->name);
  }
  return d;
}
void report_program(pipeline *p, ek_report *r) {
  r->memory = program_memory(p->p);
  r->least_memory = p->p->live_bound ? sym_str(p->c, p->p->live_bound) : NULL;
  r->weight_bytes = p->p->weight_bytes;
  r->kernels = p->s->launches.n;
  r->functions = p->s->l->funcs.n;
  r->rewrites = p->rewrites;
}
void report_times(pipeline *p, ek_report *r) {
  r->load_ms = p->load_ms, r->passes_ms = p->passes_ms, r->schedule_ms = p->schedule_ms, r->code_ms = p->code_ms;
  r->total_ms = now_ms() - p->began;
}

/* ---- in this process ------------------------------------------------------------------------- */
/* all: what states begin with is kept in memory, too, where a file has it */
static void bind_code(pipeline *p, ek_module *m, ek_rt_model *d, bool all) {
  d->plan = (ek_rt_main)jit_find(m->j, p->p->plan_fn->name);
  d->run = (ek_rt_main)jit_find(m->j, p->p->run_fn->name);
  const uint64_t kept = p->p->weight_bytes - (all ? 0 : p->p->first_bytes);
  size_t n = ((size_t)kept + 64) / 64 * 64;
  m->weights = mem_ahead_end(m->room, n);
  m->room = NULL;
  if (!m->weights) m->weights = mem_get(&m->s->mem, n);
  if (!m->weights) ctx_fail(p->c, E_MEMORY, "no memory for %zu bytes of constants", n);
  pipe_weights(p, kept, m->weights, NULL, NULL);
  d->weights = m->weights;
  d->weight_bytes = (int64_t)kept;
  m->d = d;
  report_times(p, &m->report);
  jit_stats s = jit_get_stats(m->j);
  m->report.code_bytes = s.code_bytes;
  m->report.compiled = s.compiled;
}
/* Is the working memory known, and with the states over the limit? The message, in the module's context. */
static const char *too_large(const ek_module *m, ctx *c) {
  int64_t bytes;
  const uint64_t states = m->use.state_bytes;
  if (!m->memory_limit || m->kind != MODULE_JIT || !m->d || !run_need(m->d, m->threads, &bytes) ||
      (uint64_t)bytes + states <= m->memory_limit)
    return NULL;
  return arena_fmt(ctx_arena(c),
                   "the model needs %lld bytes of working memory (%s) in %d threads%s; the limit is %llu bytes",
                   (long long)bytes, m->d->memory, m->threads,
                   states ? arena_fmt(ctx_arena(c), " and %llu of states", (unsigned long long)states) : "",
                   (unsigned long long)m->memory_limit);
}
/* Packed constants take the room of those in the model at least, four times that where windows are transformed. What
 * states begin with goes to them. */
static void begin_room(const pipeline *p, ek_module *m) {
  size_t n = 0;
  bool *first = arena_alloc(p->a, p->m->tensors.n * sizeof *first);
  for (uint32_t i = 0; i < p->m->states.n; i++) first[p->m->states.v[i]] = true;
  for (uint32_t t = 1; t < p->m->tensors.n; t++) {
    const tensor *x = xt(p->m, t);
    if (x->kind == TK_CONST && !first[t] && (x->narrow.type ? x->narrow.from.p : x->data.data)) n += x->data.bytes;
  }
  if (p->o.compile_threads > 1 && n < SIZE_MAX / 8) m->room = mem_ahead(&m->s->mem, n, 4 * n);
}
/* What the passes made of them: forms of windows' constants are some times as large. Constants that the passes
 * computed leave memory while they are packed: for so much there need not be room before. */
static void more_room(const pipeline *p, ek_module *m) {
  if (!m->room) return;
  bool *read = arena_alloc(p->a, p->m->tensors.n * sizeof *read);
  size_t n = 0, computed = 0;
  for (uint32_t i = 0; i < p->m->stages.n; i++) {
    const stage *x = xs(p->m, i);
    u32vec loads = {0};
    if (x->dead) continue;
    if (x->value) expr_loads(p->m, x->value, p->a, &loads);
    for (uint32_t u = 0; u < x->updates.n; u++) expr_loads(p->m, x->updates.v[u].value, p->a, &loads);
    for (uint32_t l = 0; l < loads.n; l++) read[exn(p->m, loads.v[l])->tensor] = true;
  }
  for (uint32_t t = 1; t < p->m->tensors.n; t++) {
    const tensor *x = xt(p->m, t);
    if (x->kind != TK_CONST) continue;
    if (read[t]) n += x->narrow.type ? x->narrow.from.n : x->data.bytes;
    if (x->data.data && !x->data.file) computed += x->data.bytes;
  }
  mem_ahead_more(m->room, n - (computed < n ? computed : n));
}
static void make_code(pipeline *p, ek_module *m, cache *k) {
  p->timed = m->timed;
  begin_room(p, m);
  if (!pipe_optimise(p)) return;
  more_room(p, m);
  if (!pipe_program(p)) return;
  ek_rt_model *d = describe(p->c, p->m, p->p, p->g->name, program_memory(p->p));
  report_program(p, &m->report);
  m->use.state_bytes = (uint64_t)schedule_state_bytes(p->s);
  m->use.repeated = p->s->again.launches, m->use.repeated_cost = p->s->again.cost;
  pipe_release(p);
  if (k) p->keep = cache_keep, p->keep_env = k;
  m->j = pipe_jit(p);
  CTX_TRY(p->c) {
    if (!p->stopped) bind_code(p, m, d, k != NULL);
    const char *why = too_large(m, p->c);
    if (why) ctx_fail(p->c, E_MEMORY, "%s", why);
    if (k && !p->stopped && cache_store(k, p, m)) {
      mem_put(&m->s->mem, m->weights);
      m->weights = NULL;
    }
    if (p->stopped || diag_errors(p->c)) {
      jit_free(m->j);
      m->j = NULL;
    }
  }
  CTX_CATCH {
    jit_free(m->j);
    m->j = NULL;
    ctx_unwind(p->c);
  }
}
typedef struct making {
  ek_module *m;               /* the module that is made */
  const ek_options *o;        /* complete */
  cache *cache;               /* where its code is kept; NULL: nowhere */
  const inner_options *inner; /* NULL: there are none */
} making;
void inner_apply(pipeline *p, const inner_options *x) {
  if (x) p->o.part = x->part, p->o.skip = x->skip, p->o.plain = x->plain, p->o.no_sharing = x->no_sharing;
  if (x) p->o.edit = x->edit, p->o.edit_env = x->edit_env, p->o.edit_ops = x->edit_ops;
  if (x && x->after.name) p->o.stop_after = x->after;
  if (x && x->memory) p->o.bound.bytes = x->memory, p->o.bound.whole = true;
}
static void take_inner(pipeline *p, void *env) { inner_apply(p, ((making *)env)->inner); }
static ek_code make(pipeline *p, void *env) {
  making *k = env;
  ek_module *m = k->m;
  m->p = p;
  if (k->o->evaluate) {
    m->kind = MODULE_EVAL;
    if (k->o->evaluate == 2) pipe_optimise(p);
    if (k->inner && k->inner->after.name) p->stopped = false; /* what there is now is what is wanted */
    if (k->o->evaluate == 3 && !p->stopped) {
      if (p->m->states.n) ctx_fail(p->c, E_UNSUPPORTED, "evaluate 3: states are not kept in f64");
      expr_promote(p->m);
    }
    if (!p->stopped) m->d = describe(p->c, p->m, NULL, p->g->name, "0");
    m->report = (ek_report){.memory = "0", .load_ms = p->load_ms, .total_ms = now_ms() - p->began};
  } else
    make_code(p, m, k->cache);
  if (!p->stopped) return EK_OK;
  diag_add(p->c, D_ERROR, E_CANCELLED, (srcpos){0}, NULL, "compilation ended after pass %s, as asked",
           p->o.stop_after.name);
  return EK_CANCELLED;
}
static ek_module *module_new(ek_session *s, module_kind k) {
  ek_module *m = mem_zero(&s->mem, sizeof *m);
  if (!m) return NULL;
  if (pthread_mutex_init(&m->lock, NULL)) {
    mem_put(&s->mem, m);
    return NULL;
  }
  if (pthread_mutex_init(&m->list, NULL)) {
    pthread_mutex_destroy(&m->lock);
    mem_put(&s->mem, m);
    return NULL;
  }
  m->s = s, m->kind = k;
  m->next = s->modules, s->modules = m;
  return m;
}
static void drop_entry(ek_module *m) {
  image_free(m->code);
  m->code = NULL;
  if (m->mapped.n) munmap((void *)(uintptr_t)m->mapped.p, m->mapped.n);
  m->mapped = (bytes){0};
}
static cache *cached(ctx *c, ek_model *model, const ek_options *o, ek_module *m) {
  cache *volatile k = NULL;
  CTX_TRY(c) {
    pipe_opts po;
    if (options_read(c, model->s, o, &po) && (k = cache_begin(c, model, o, &po)) != NULL && cache_load(k, m)) {
      const char *why = too_large(m, c);
      if (why) ctx_fail(c, E_MEMORY, "%s", why);
    }
  }
  CTX_CATCH {
    if (!m->d) drop_entry(m);
  }
  return k;
}
/* o: complete. True: m came from the cache, *c is its context, *code what came of it. */
static bool from_cache(ek_model *model, const ek_options *o, ek_module *m, ctx **c, cache **k, ek_code *code) {
  double t0 = now_ms();
  *c = o->cache ? session_ctx(model->s) : NULL;
  if (!*c) return false;
  *k = cached(*c, model, o, m);
  if (!m->d) {
    if (!diag_errors(*c)) session_done(model->s, *c, EK_OK);
    return false;
  }
  cache_end(*k);
  *k = NULL;
  *code = session_done(model->s, *c, EK_OK);
  m->report.total_ms = m->report.load_ms = now_ms() - t0;
  if (o->pass) o->pass(o->pass_user, "code", "cache", 0, m->report.total_ms);
  return true;
}
ek_code ek_compile(ek_model *model, const ek_options *given, ek_module **out) {
  return compile_inner(model, given, NULL, out);
}
ek_code compile_inner(ek_model *model, const ek_options *given, const inner_options *inner, ek_module **out) {
  if (out) *out = NULL;
  if (!model || !out) return session_null(model ? model->s : NULL);
  ek_module *m = module_new(model->s, MODULE_JIT);
  if (!m) return session_fail(model->s, EK_MEMORY, "out of memory");
  ek_options o = all_options(given);
  making k = {m, &o, NULL, inner};
  ctx *files = NULL;
  ek_code code = EK_OK;
  m->threads = default_threads(o.threads);
  m->memory_limit = o.memory_limit;
  m->timed = o.profile && !o.evaluate, m->traced = m->timed && o.profile > 1;
  if (!inner && from_cache(model, &o, m, &files, &k.cache, &code)) {
    m->c = files;
  } else {
    code = in_pipe(model, given, take_inner, make, &k, &m->c);
    cache_end(k.cache);
    ctx_free(files);
  }
  if (code) {
    ek_module_close(m);
    return code;
  }
  *out = m;
  return EK_OK;
}

/* ---- a saved library: the name of its info function is read from its symbols, since the file may have been renamed
 * ---- */
static const char *info_symbol(ctx *c, bytes f, const char *path) {
  Elf64_Ehdr h;
  if (f.n < sizeof h || memcmp(f.p, ELFMAG, SELFMAG) || f.p[EI_CLASS] != ELFCLASS64)
    ctx_fail(c, E_MODEL, "%s is not a shared library", path);
  memcpy(&h, f.p, sizeof h);
  if (h.e_type != ET_DYN || h.e_shoff > f.n || h.e_shentsize != sizeof(Elf64_Shdr) ||
      (size_t)h.e_shnum * sizeof(Elf64_Shdr) > f.n - h.e_shoff)
    ctx_fail(c, E_MODEL, "%s is not a shared library, or truncated", path);
  for (uint32_t i = 0; i < h.e_shnum; i++) {
    Elf64_Shdr s, strs;
    memcpy(&s, f.p + h.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_DYNSYM || s.sh_link >= h.e_shnum || s.sh_offset > f.n || s.sh_size > f.n - s.sh_offset)
      continue;
    memcpy(&strs, f.p + h.e_shoff + s.sh_link * sizeof s, sizeof s);
    if (strs.sh_offset > f.n || strs.sh_size > f.n - strs.sh_offset || !strs.sh_size ||
        f.p[strs.sh_offset + strs.sh_size - 1])
      continue;
    const char *names = (const char *)f.p + strs.sh_offset;
    for (size_t k = 0; k + sizeof(Elf64_Sym) <= s.sh_size; k += sizeof(Elf64_Sym)) {
      Elf64_Sym y;
      memcpy(&y, f.p + s.sh_offset + k, sizeof y);
      if (y.st_name >= strs.sh_size || y.st_shndx == SHN_UNDEF) continue;
      const char *n = names + y.st_name;
      size_t len = strlen(n);
      if (len > 5 && !strcmp(n + len - 5, "_info")) return arena_strdup(ctx_arena(c), n);
    }
  }
  ctx_fail(c, E_MODEL, "%s has no function NAME_info: it is not a model compiled by einkorn", path);
}
static bool cpu_of(ctx *c, bytes f, const char *path) {
#if defined(__x86_64__)
  const uint16_t here = EM_X86_64;
#elif defined(__aarch64__)
  const uint16_t here = EM_AARCH64;
#else
  const uint16_t here = EM_RISCV;
#endif
  Elf64_Ehdr h;
  if (f.n < sizeof h) return true;
  memcpy(&h, f.p, sizeof h);
  if (h.e_machine != here) ctx_fail(c, E_TARGET, "%s was compiled for another kind of processor", path);
  return true;
}
/* path: of the file; name: what messages call it */
static void open_library(ctx *c, ek_module *m, const char *path, const char *name) {
  CTX_TRY(c) {
    bytes f;
    if (!file_map(c, path, &f)) ctx_unwind(c);
    const char *symbol = info_symbol(c, f, name);
    cpu_of(c, f, name);
    const char *file = strchr(path, '/') ? path : arena_fmt(ctx_arena(c), "./%s", path);
    m->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!m->lib) {
      const char *why = dlerror();
      ctx_fail(c, E_IO, "cannot load %s: %s", name, why ? why : "unknown reason");
    }
    const ek_rt_model *(*info)(void) = (const ek_rt_model *(*)(void))dlsym(m->lib, symbol);
    if (!info) ctx_fail(c, E_MODEL, "%s: %s cannot be called", name, symbol);
    const ek_rt_model *d = info();
    if (d->version < 2 || d->version > 4)
      ctx_fail(c, E_UNSUPPORTED, "%s has descriptor version %lld, this Einkorn reads versions 2 to 4: compile it again",
               name, (long long)d->version);
    const char *missing;
    size_t len;
    if (d->cpu && !cpu_meets(d->cpu, &missing, &len))
      ctx_fail(c, E_TARGET,
               "%s was compiled for processors with %.*s, which this one does not have: compile it here, or for a more "
               "general target, such as --target x86-64-v3",
               name, (int)len, missing);
    m->d = d;
    m->report = (ek_report){.memory = d->memory, .weight_bytes = (uint64_t)d->weight_bytes, .file_bytes = f.n};
  }
  CTX_CATCH {}
}
static ek_code load_library(ek_session *s, const char *path, const char *name, ek_module **out) {
  if (out) *out = NULL;
  if (!s || !path || !out) return session_null(s);
  double t0 = now_ms();
  ek_module *m = module_new(s, MODULE_SAVED);
  if (!m) return session_fail(s, EK_MEMORY, "out of memory");
  ctx *c = session_ctx(s);
  if (c) open_library(c, m, path, name);
  ek_code code = session_done(s, c, m->d ? EK_OK : EK_FAILED);
  ctx_free(c);
  if (code) {
    ek_module_close(m);
    return code;
  }
  m->threads = default_threads(0);
  m->report.total_ms = m->report.load_ms = now_ms() - t0;
  *out = m;
  return EK_OK;
}
ek_code ek_module_load(ek_session *s, const char *path, ek_module **out) { return load_library(s, path, path, out); }
/* The loader wants a file: one that exists in memory only, and as long as the library is loaded. */
ek_code ek_module_load_memory(ek_session *s, const void *data, size_t bytes, const char *name, ek_module **out) {
  if (out) *out = NULL;
  if (!s || (!data && bytes) || !out) return session_null(s);
  if (!name) name = "the library in memory";
  int fd = memfd_create("einkorn", MFD_CLOEXEC);
  if (fd < 0) return session_fail(s, EK_IO, "%s: no file in memory can be made", name);
  for (size_t at = 0; at < bytes;) {
    ssize_t n = write(fd, (const uint8_t *)data + at, bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(fd);
      return session_fail(s, EK_MEMORY, "%s: no memory for a copy of %zu bytes", name, bytes);
    }
    at += (size_t)n;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ek_code code = load_library(s, path, name, out);
  close(fd);
  return code;
}

/* ---- the end --------------------------------------------------------------------------------- */
void ek_module_close(ek_module *m) {
  if (!m) return;
  for (ek_module **p = &m->s->modules; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  while (m->runs) ek_run_destroy(m->runs);
  jit_free(m->j);
  drop_entry(m);
  mem_ahead_end(m->room, 0);
  mem_put(&m->s->mem, m->weights);
  ctx_free(m->c);
  if (m->lib) dlclose(m->lib);
  pthread_mutex_destroy(&m->list);
  pthread_mutex_destroy(&m->lock);
  mem_put(&m->s->mem, m);
}

/* ---- telling about it ------------------------------------------------------------------------ */
int32_t ek_module_inputs(const ek_module *m) { return !m ? 0 : (int32_t)m->d->inputs; }
int32_t ek_module_outputs(const ek_module *m) { return !m ? 0 : (int32_t)m->d->outputs; }
static void info(const ek_rt_tensor *t, ek_tensor_info *out) {
  *out = (ek_tensor_info){.name = t->name, .type = (ek_type)t->type, .rank = t->rank};
  for (int32_t i = 0; i < t->rank && i < EK_MAX_RANK; i++) {
    out->dims[i] = t->dims[i];
    if (t->dims[i] < 0) out->dim_names[i] = t->dim_names[i] ? t->dim_names[i] : "?";
  }
}
ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out) {
  if (!m || !out) return session_null(m ? m->s : NULL);
  if (i < 0 || i >= m->d->inputs)
    return session_fail(m->s, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)m->d->inputs);
  info(&m->d->in[i], out);
  return EK_OK;
}
ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out) {
  if (!m || !out) return session_null(m ? m->s : NULL);
  if (i < 0 || i >= m->d->outputs)
    return session_fail(m->s, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)m->d->outputs);
  info(&m->d->out[i], out);
  return EK_OK;
}
int32_t ek_module_states(const ek_module *m) { return !m ? 0 : (int32_t)model_states(m->d); }
ek_code ek_module_state(const ek_module *m, int32_t i, ek_tensor_info *out) {
  if (!m || !out) return session_null(m ? m->s : NULL);
  if (i < 0 || i >= ek_module_states(m))
    return session_fail(m->s, EK_USAGE, "state %d of a model with %d states", (int)i, (int)ek_module_states(m));
  info(&m->d->state[i], out);
  return EK_OK;
}
static int32_t find_tensor(const ek_rt_tensor *t, int64_t n, const char *name) {
  for (int64_t i = 0; name && i < n; i++)
    if (!strcmp(t[i].name, name)) return (int32_t)i;
  return -1;
}
int32_t ek_module_find_input(const ek_module *m, const char *name) {
  return m ? find_tensor(m->d->in, m->d->inputs, name) : -1;
}
int32_t ek_module_find_output(const ek_module *m, const char *name) {
  return m ? find_tensor(m->d->out, m->d->outputs, name) : -1;
}
void ek_module_memory(const ek_module *m, ek_memory_use *out) {
  int64_t work;
  if (!out || out->size < sizeof out->size) return;
  const size_t n = out->size;
  ek_memory_use all = m ? m->use : (ek_memory_use){0};
  if (m) all.constant_bytes = m->d ? (uint64_t)m->d->weight_bytes : 0;
  if (m && m->kind == MODULE_JIT && m->d && run_need(m->d, m->threads, &work)) all.work_bytes = (uint64_t)work;
  all.size = n;
  memset(out, 0, n);
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
}
void ek_module_report(const ek_module *m, ek_report *out) {
  if (out) *out = m ? m->report : (ek_report){.memory = ""};
}
