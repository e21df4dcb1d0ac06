/* Compiled code as a handle: made by compiling in this process, by loading a saved library, or, for comparison, without any code (the evaluator). All three are described by one record (ek_rt_model),
 * so that runs and the functions that tell about inputs and outputs need not know which it is. */
#include "driver/driver.h"
#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* ---- description ---- */
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
    r[i] = (ek_rt_tensor){.name = v[i].name, .type = et_to_onnx(t->type), .rank = (int32_t)t->rank, .dims = dims, .dim_names = names};
  }
  return r;
}
const ek_rt_model *describe(ctx *c, emodule *m, const char *name, const char *memory) {
  ek_rt_model *d = NEW(ctx_arena(c), ek_rt_model);
  *d = (ek_rt_model){.version = 1, .name = name, .inputs = m->inputs.n, .outputs = m->outputs.n, .memory = memory};
  d->in = tensors(c, m, m->inputs.v, m->inputs.n);
  d->out = tensors(c, m, m->outputs.v, m->outputs.n);
  for (uint32_t i = 0; i < m->inputs.n + m->outputs.n; i++) {
    const io *v = i < m->inputs.n ? &m->inputs.v[i] : &m->outputs.v[i - m->inputs.n];
    if (et_kind(xt(m, v->t)->type) == K_STR) ctx_fail(c, E_UNSUPPORTED, "%s %s holds strings: compiled models take and give numbers only", i < m->inputs.n ? "input" : "output", v->name);
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
  r->load_ms = p->load_ms, r->passes_ms = p->passes_ms, r->schedule_ms = p->schedule_ms, r->code_ms = p->code_ms;
  r->total_ms = now_ms() - p->began;
}

/* ---- in this process ---- */
static void bind_code(pipeline *p, ek_module *m) {
  ek_rt_model *d = (ek_rt_model *)describe(p->c, p->m, p->g->name, program_memory(p->p));
  d->plan = (ek_rt_main)jit_find(m->j, p->p->plan_fn->name);
  d->run = (ek_rt_main)jit_find(m->j, p->p->run_fn->name);
  size_t n = ((size_t)p->p->weight_bytes + 64) / 64 * 64;
  m->weights = aligned_alloc(64, n);
  if (!m->weights) ctx_fail(p->c, E_MEMORY, "no memory for %zu bytes of constants", n);
  pipe_weights(p, m->weights);
  d->weights = m->weights;
  d->weight_bytes = (int64_t)p->p->weight_bytes;
  m->d = d;
  report_program(p, &m->report);
  jit_stats s = jit_get_stats(m->j);
  m->report.code_bytes = s.code_bytes;
  m->report.compiled = s.compiled + s.cached;
}
static void make_code(pipeline *p, ek_module *m) {
  if (!pipe_optimise(p) || !pipe_program(p)) return;
  pipe_release_constants(p);
  m->j = pipe_jit(p);
  CTX_TRY(p->c) {
    if (!p->stopped) bind_code(p, m);
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
  ek_module *m;
  const ek_options *o;
} making;
static ek_code make(pipeline *p, void *env) {
  making *k = env;
  ek_module *m = k->m;
  m->p = p;
  m->threads = k->o && k->o->threads ? k->o->threads : (int)cpu_count();
  if (k->o && k->o->evaluate) {
    m->kind = MODULE_EVAL;
    if (k->o->evaluate > 1) pipe_optimise(p);
    if (!p->stopped) m->d = describe(p->c, p->m, p->g->name, "0");
    m->report = (ek_report){.memory = "0", .load_ms = p->load_ms, .total_ms = now_ms() - p->began};
  } else
    make_code(p, m);
  if (!p->stopped) return EK_OK;
  diag_add(p->c, D_ERROR, E_CANCELLED, (srcpos){0}, NULL, "compilation ended after pass %s, as asked", p->o.stop_after.name);
  return EK_CANCELLED;
}
static ek_module *module_new(ek_session *s, module_kind k) {
  ek_module *m = calloc(1, sizeof *m);
  if (m && pthread_mutex_init(&m->lock, NULL)) {
    free(m);
    return NULL;
  }
  if (!m) return NULL;
  m->s = s, m->kind = k;
  m->next = s->modules, s->modules = m;
  return m;
}
ek_code ek_compile(ek_model *model, const ek_options *o, ek_module **out) {
  *out = NULL;
  ek_module *m = module_new(model->s, MODULE_JIT);
  if (!m) return session_fail(model->s, EK_MEMORY, "out of memory");
  making k = {m, o};
  ctx *c;
  ek_code code = in_pipe(model, o, NULL, make, &k, &c);
  if (code) {
    ek_module_close(m);
    return code;
  }
  m->c = c;
  *out = m;
  return EK_OK;
}

/* ---- a saved library: the name of its info function is read from its symbols, since the file may have been renamed ---- */
static const char *info_symbol(ctx *c, bytes f, const char *path) {
  Elf64_Ehdr h;
  if (f.n < sizeof h || memcmp(f.p, ELFMAG, SELFMAG) || f.p[EI_CLASS] != ELFCLASS64) ctx_fail(c, E_MODEL, "%s is not a shared library", path);
  memcpy(&h, f.p, sizeof h);
  if (h.e_type != ET_DYN || h.e_shoff > f.n || h.e_shentsize != sizeof(Elf64_Shdr) || (size_t)h.e_shnum * sizeof(Elf64_Shdr) > f.n - h.e_shoff)
    ctx_fail(c, E_MODEL, "%s is not a shared library, or truncated", path);
  for (uint32_t i = 0; i < h.e_shnum; i++) {
    Elf64_Shdr s, strs;
    memcpy(&s, f.p + h.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_DYNSYM || s.sh_link >= h.e_shnum || s.sh_offset > f.n || s.sh_size > f.n - s.sh_offset) continue;
    memcpy(&strs, f.p + h.e_shoff + s.sh_link * sizeof s, sizeof s);
    if (strs.sh_offset > f.n || strs.sh_size > f.n - strs.sh_offset || !strs.sh_size || f.p[strs.sh_offset + strs.sh_size - 1]) continue;
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
static void open_library(ctx *c, ek_module *m, const char *path) {
  CTX_TRY(c) {
    bytes f;
    if (!file_map(c, path, &f)) ctx_unwind(c);
    const char *symbol = info_symbol(c, f, path);
    cpu_of(c, f, path);
    const char *file = strchr(path, '/') ? path : arena_fmt(ctx_arena(c), "./%s", path);
    m->lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!m->lib) {
      const char *why = dlerror();
      ctx_fail(c, E_IO, "cannot load %s: %s", path, why ? why : "unknown reason");
    }
    const ek_rt_model *(*info)(void) = (const ek_rt_model *(*)(void))dlsym(m->lib, symbol);
    if (!info) ctx_fail(c, E_MODEL, "%s: %s cannot be called", path, symbol);
    const ek_rt_model *d = info();
    if (d->version != 1) ctx_fail(c, E_UNSUPPORTED, "%s has descriptor version %lld, this Einkorn reads version 1: compile it again", path, (long long)d->version);
    m->d = d;
    m->report = (ek_report){.memory = d->memory, .weight_bytes = (uint64_t)d->weight_bytes, .file_bytes = f.n};
  }
  CTX_CATCH {}
}
ek_code ek_module_load(ek_session *s, const char *path, ek_module **out) {
  *out = NULL;
  double t0 = now_ms();
  ek_module *m = module_new(s, MODULE_SAVED);
  if (!m) return session_fail(s, EK_MEMORY, "out of memory");
  ctx *c = ctx_new();
  if (c) open_library(c, m, path);
  ek_code code = session_done(s, c, m->d ? EK_OK : EK_FAILED);
  ctx_free(c);
  if (code) {
    ek_module_close(m);
    return code;
  }
  m->threads = (int)cpu_count();
  m->report.total_ms = m->report.load_ms = now_ms() - t0;
  *out = m;
  return EK_OK;
}

/* ---- the end ---- */
void ek_module_close(ek_module *m) {
  if (!m) return;
  for (ek_module **p = &m->s->modules; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  while (m->runs) ek_run_destroy(m->runs);
  jit_free(m->j);
  free(m->weights);
  ctx_free(m->c);
  if (m->lib) dlclose(m->lib);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

/* ---- telling about it ---- */
int32_t ek_module_inputs(const ek_module *m) { return (int32_t)m->d->inputs; }
int32_t ek_module_outputs(const ek_module *m) { return (int32_t)m->d->outputs; }
static void info(const ek_rt_tensor *t, ek_tensor_info *out) {
  *out = (ek_tensor_info){.name = t->name, .type = (ek_type)t->type, .rank = t->rank};
  for (int32_t i = 0; i < t->rank && i < EK_MAX_RANK; i++) {
    out->dims[i] = t->dims[i];
    if (t->dims[i] < 0) out->dim_names[i] = t->dim_names[i] ? t->dim_names[i] : "?";
  }
}
ek_code ek_module_input(const ek_module *m, int32_t i, ek_tensor_info *out) {
  if (i < 0 || i >= m->d->inputs) return session_fail(m->s, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)m->d->inputs);
  info(&m->d->in[i], out);
  return EK_OK;
}
ek_code ek_module_output(const ek_module *m, int32_t i, ek_tensor_info *out) {
  if (i < 0 || i >= m->d->outputs) return session_fail(m->s, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)m->d->outputs);
  info(&m->d->out[i], out);
  return EK_OK;
}
void ek_module_report(const ek_module *m, ek_report *out) { *out = m->report; }
