/* Running a module: one call record, the memory it points to, and the threads. Nothing here touches a context or the session, so that runs of one module work side by side.
 * prepare() asks the module's plan for sizes and gets memory; execute() with the same sizes gets none. */
#include "driver/driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ek_run {
  ek_module *m;
  ek_run *next;
  const ek_rt_model *d;
  ek_rt_call call;
  ek_rt_pool *pool;
  int threads;
  bool prepared;
  const void **in;
  void **out, **bound, **own; /* out: what the next call gets: bound or own */
  size_t *own_bytes;
  int64_t *in_dims, *out_dims, *bounds, *room; /* bounds: out_dims by plan; room: bytes of each output by plan */
  uint32_t *in_at, *out_at;                    /* where a tensor's dims begin */
  size_t arena_bytes;
  text message;
};

static ek_code fail(ek_run *r, ek_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static ek_code fail(ek_run *r, ek_code code, const char *fmt, ...) {
  char buf[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  text_set(&r->message, buf);
  return code;
}
static uint8_t *aligned(size_t bytes) { return bytes > SIZE_MAX - 128 ? NULL : aligned_alloc(64, (bytes + 64) / 64 * 64); }

/* ---- making and ending ---- */
static uint32_t lay_out(const ek_rt_tensor *t, int64_t n, uint32_t *at) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    at[i] = total;
    total += (uint32_t)t[i].rank;
  }
  return total;
}
static bool make_arrays(ek_run *r) {
  size_t ni = (size_t)r->d->inputs + 1, no = (size_t)r->d->outputs + 1;
  r->in_at = calloc(ni, sizeof *r->in_at), r->out_at = calloc(no, sizeof *r->out_at);
  r->in = calloc(ni, sizeof *r->in);
  r->out = calloc(no, sizeof *r->out), r->bound = calloc(no, sizeof *r->bound), r->own = calloc(no, sizeof *r->own), r->own_bytes = calloc(no, sizeof *r->own_bytes),
  r->room = calloc(no, sizeof *r->room);
  if (!r->in_at || !r->out_at || !r->in || !r->out || !r->bound || !r->own || !r->own_bytes || !r->room) return false;
  uint32_t ti = lay_out(r->d->in, r->d->inputs, r->in_at), to = lay_out(r->d->out, r->d->outputs, r->out_at);
  r->in_dims = calloc(ti + 1, sizeof *r->in_dims);
  r->out_dims = calloc(to + 1, sizeof *r->out_dims), r->bounds = calloc(to + 1, sizeof *r->bounds);
  if (!r->in_dims || !r->out_dims || !r->bounds) return false;
  for (int64_t i = 0; i < r->d->inputs; i++)
    for (int32_t k = 0; k < r->d->in[i].rank; k++) r->in_dims[r->in_at[i] + (uint32_t)k] = r->d->in[i].dims[k];
  return true;
}
ek_code ek_run_create(ek_module *m, int threads, ek_run **out) {
  *out = NULL;
  if (threads < 0 || threads > 1024) return session_fail(m->s, EK_USAGE, "%d threads: 1 to 1024 are possible, or 0 for what the module was compiled for", threads);
  ek_run *r = calloc(1, sizeof *r);
  if (!r) return session_fail(m->s, EK_MEMORY, "out of memory");
  r->m = m, r->d = m->d, r->threads = threads ? threads : m->threads;
  r->next = m->runs, m->runs = r;
  bool saved = m->kind == MODULE_SAVED;
  bool ok = make_arrays(r);
  if (ok && r->threads > 1 && m->kind != MODULE_EVAL) {
    if (saved && !m->d->pool_create)
      r->threads = 1;
    else
      ok = (r->pool = saved ? m->d->pool_create(r->threads) : ek_rt_pool_create(r->threads)) != NULL;
  }
  if (!ok) {
    ek_run_destroy(r);
    return session_fail(m->s, EK_MEMORY, "out of memory");
  }
  r->call = (ek_rt_call){
      .in = r->in, .out = r->out, .in_dims = r->in_dims, .out_dims = r->out_dims, .weights = m->d->weights, .parallel = saved ? NULL : ek_rt_parallel, .pool = r->pool, .threads = r->threads};
  *out = r;
  return EK_OK;
}
void ek_run_destroy(ek_run *r) {
  if (!r) return;
  for (ek_run **p = &r->m->runs; *p; p = &(*p)->next)
    if (*p == r) {
      *p = r->next;
      break;
    }
  if (r->pool) r->m->kind == MODULE_SAVED ? r->d->pool_destroy(r->pool) : ek_rt_pool_destroy(r->pool);
  for (int64_t i = 0; r->own && i < r->d->outputs; i++) free(r->own[i]);
  free(r->in_at), free(r->out_at), free(r->in), free(r->out), free(r->bound), free(r->own), free(r->own_bytes), free(r->room), free(r->in_dims), free(r->out_dims), free(r->bounds);
  free(r->call.arena);
  free(r->message.s);
  free(r);
}

/* ---- sizes ---- */
ek_code ek_run_shape(ek_run *r, int32_t i, const int64_t *dims, int32_t rank) {
  if (i < 0 || i >= r->d->inputs) return fail(r, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)r->d->inputs);
  const ek_rt_tensor *t = &r->d->in[i];
  if (rank != t->rank) return fail(r, EK_SHAPE, "input %s has rank %d, not %d", t->name, (int)t->rank, (int)rank);
  for (int32_t k = 0; k < rank; k++) {
    if (dims[k] < 0) return fail(r, EK_SHAPE, "input %s: dimension %d cannot be %lld", t->name, (int)k, (long long)dims[k]);
    if (t->dims[k] >= 0 && dims[k] != t->dims[k]) return fail(r, EK_SHAPE, "input %s: dimension %d is %lld in the model, not %lld", t->name, (int)k, (long long)t->dims[k], (long long)dims[k]);
  }
  int64_t *mine = r->in_dims + r->in_at[i];
  if (rank && memcmp(mine, dims, (size_t)rank * sizeof *dims) != 0) {
    memcpy(mine, dims, (size_t)rank * sizeof *dims);
    r->prepared = false;
  }
  return EK_OK;
}
static bool tensor_bytes(const ek_rt_tensor *t, const int64_t *dims, int64_t *bytes) {
  *bytes = (int64_t)ek_type_bytes((ek_type)t->type);
  bool zero = false;
  for (int32_t k = 0; k < t->rank; k++) zero |= dims[k] == 0;
  if (zero) *bytes = 0;
  for (int32_t k = 0; !zero && k < t->rank; k++)
    if (dims[k] < 0 || !mul64(*bytes, dims[k], bytes)) return false;
  return true;
}
ek_code ek_run_prepare(ek_run *r) {
  if (r->prepared) return EK_OK;
  for (int64_t i = 0; i < r->d->inputs; i++)
    for (int32_t k = 0; k < r->d->in[i].rank; k++)
      if (r->in_dims[r->in_at[i] + (uint32_t)k] < 0)
        return fail(r, EK_SHAPE, "input %s: the size of dimension %d (%s) was not given", r->d->in[i].name, (int)k, r->d->in[i].dim_names[k] ? r->d->in[i].dim_names[k] : "?");
  int64_t unused;
  for (int64_t i = 0; i < r->d->inputs; i++)
    if (!tensor_bytes(&r->d->in[i], r->in_dims + r->in_at[i], &unused)) return fail(r, EK_MEMORY, "input %s: its size overflows", r->d->in[i].name);
  r->call.message = NULL;
  r->call.arena_bytes = 0;
  if (r->m->kind == MODULE_EVAL) {
    ek_code code = eval_plan(r->m, &r->call, &r->message);
    if (code) return code;
  } else {
    int64_t rc = r->d->plan(&r->call);
    if (rc) return fail(r, (ek_code)rc, "%s", r->call.message ? r->call.message : "the sizes do not fit");
  }
  for (int64_t i = 0; i < r->d->outputs; i++) {
    if (!tensor_bytes(&r->d->out[i], r->out_dims + r->out_at[i], &r->room[i])) return fail(r, EK_MEMORY, "output %s: its size overflows", r->d->out[i].name);
    for (int32_t k = 0; k < r->d->out[i].rank; k++) r->bounds[r->out_at[i] + (uint32_t)k] = r->out_dims[r->out_at[i] + (uint32_t)k];
  }
  if (r->call.arena_bytes < 0) return fail(r, EK_MEMORY, "the working memory for these sizes overflows");
  size_t need = (size_t)r->call.arena_bytes;
  if (need > r->arena_bytes || !r->call.arena) {
    free(r->call.arena);
    r->call.arena = aligned(need);
    r->arena_bytes = r->call.arena ? need : 0;
    if (!r->call.arena) return fail(r, EK_MEMORY, "no %zu bytes of working memory", need);
  }
  r->prepared = true;
  return EK_OK;
}

/* ---- data ---- */
ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data) {
  if (i < 0 || i >= r->d->inputs) return fail(r, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)r->d->inputs);
  r->in[i] = data;
  return EK_OK;
}
ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data) {
  if (i < 0 || i >= r->d->outputs) return fail(r, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)r->d->outputs);
  r->bound[i] = data;
  return EK_OK;
}
static const uint8_t nothing[64] __attribute__((aligned(64))); /* where the elements of empty tensors lie */
ek_code ek_run_execute(ek_run *r) {
  ek_code code = ek_run_prepare(r);
  if (code) return code;
  for (int64_t i = 0; i < r->d->inputs; i++) {
    int64_t bytes;
    if (r->in[i]) continue;
    if (tensor_bytes(&r->d->in[i], r->in_dims + r->in_at[i], &bytes) && bytes == 0)
      r->in[i] = nothing;
    else
      return fail(r, EK_USAGE, "input %s has no data", r->d->in[i].name);
  }
  for (int64_t i = 0; i < r->d->outputs; i++) {
    if (!r->bound[i] && (!r->own[i] || (int64_t)r->own_bytes[i] < r->room[i])) {
      free(r->own[i]);
      r->own[i] = aligned((size_t)r->room[i]);
      r->own_bytes[i] = r->own[i] ? (size_t)r->room[i] : 0;
      if (!r->own[i]) return fail(r, EK_MEMORY, "no %lld bytes for output %s", (long long)r->room[i], r->d->out[i].name);
    }
    r->out[i] = r->bound[i] ? r->bound[i] : r->own[i];
  }
  if (r->m->kind == MODULE_EVAL) return eval_run(r->m, &r->call, r->room, &r->message);
  int64_t rc = r->d->run(&r->call);
  return rc ? fail(r, (ek_code)rc, "%s", r->call.message ? r->call.message : "the run failed") : EK_OK;
}
size_t ek_run_output_bytes(const ek_run *r, int32_t i) { return i < 0 || i >= r->d->outputs ? 0 : (size_t)r->room[i]; }
ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank) {
  if (i < 0 || i >= r->d->outputs) return EK_USAGE;
  *rank = r->d->out[i].rank;
  memcpy(dims, r->out_dims + r->out_at[i], (size_t)*rank * sizeof *dims);
  return EK_OK;
}
const void *ek_run_output_data(const ek_run *r, int32_t i) { return i < 0 || i >= r->d->outputs ? NULL : r->out[i]; }
int64_t ek_run_memory(const ek_run *r) { return r->call.arena_bytes; }
int ek_run_threads(const ek_run *r) { return r->threads; }
const char *ek_run_message(const ek_run *r) { return r->message.s ? r->message.s : ""; }
