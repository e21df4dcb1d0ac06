/* Running a module: one call record, the memory it points to, and the threads. Nothing here touches a context or the
 * session, so that runs of one module work side by side. prepare() asks the module's plan for sizes, compares them with
 * the limit, and gets memory; execute() with the same sizes gets none. A run may find sizes that plan could not bound:
 * it then stops where it finds them, gets more memory, and begins again; what it got stays for the next run. */
#include "driver/driver.h"
#include <stdio.h>
#include <string.h>

struct ek_run {
  ek_module *m;         /* the module */
  ek_run *next;         /* made before it; NULL: the first */
  const ek_rt_model *d; /* description of the model */
  ek_rt_call call;      /* the record that the code gets */
  /* what call.parallel calls when there is a profile */
  void (*parallel)(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks);
  profile *profile;    /* clocks of the launches; NULL: there are none */
  ek_rt_pool *pool;    /* its own: more threads than the session's pool has */
  borrowed lent;       /* the caller's own threads */
  run_states *states;  /* what stays between executes; NULL: there are none */
  const memory *mem;   /* where memory comes from */
  uint64_t limit;      /* bytes of working memory and outputs; 0: none */
  int threads;         /* threads to use */
  bool prepared;       /* sizes are known and memory is there */
  bool marked;         /* memory that it gets is filled with ones: NaNs and -1 */
  bool sized;          /* the profile knows the sizes */
  const void **in;     /* data of the inputs, then the old values of the states */
  void **out;          /* data of the outputs of the next call, `bound` or `own`, then the states' new values */
  void **bound;        /* memory that the caller gave for an output; NULL: none */
  void **own;          /* memory of the run for an output; NULL: none */
  size_t *own_bytes;   /* bytes of own */
  size_t *bound_bytes; /* bytes of bound; 0: the caller saw to it */
  int64_t *in_dims;    /* sizes of all inputs */
  int64_t *out_dims;   /* sizes of all outputs, then of all states */
  int64_t *bounds;     /* out_dims by plan, or more that a run needed */
  int64_t *room;       /* bytes of the outputs, then of the states, by `bounds` */
  uint32_t *in_at;     /* per input: index of its first size in in_dims */
  uint32_t *out_at;    /* per output: index of its first size in out_dims */
  uint32_t out_total;  /* number of sizes in out_dims */
  size_t arena_bytes;  /* bytes of call.arena */
  text message;        /* text of the last failure */
};

_Static_assert((int)EK_RT_ROOM == (int)PROGRAM_ROOM, "one number");
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

void run_mark_memory(ek_run *r) {
  r->marked = true;
  states_mark(r->states);
}

/* ---- making and ending ----------------------------------------------------------------------- */
static uint32_t lay_out(const ek_rt_tensor *t, int64_t n, uint32_t *at) {
  uint32_t total = 0;
  for (int64_t i = 0; i < n; i++) {
    at[i] = total;
    total += (uint32_t)t[i].rank;
  }
  return total;
}
static bool make_arrays(ek_run *r) {
  const ek_rt_model *d = r->d;
  const size_t ns = (size_t)model_states(d), ni = (size_t)d->inputs + ns + 1, no = (size_t)d->outputs + ns + 1;
  bool ok;
#define ARRAY(what, n) ((r->what = mem_zero(r->mem, (n) * sizeof *r->what)) != NULL)
  if (!ARRAY(in_at, ni) || !ARRAY(out_at, no) || !ARRAY(in, ni) || !ARRAY(out, no) || !ARRAY(bound, no) ||
      !ARRAY(own, no) || !ARRAY(own_bytes, no) || !ARRAY(bound_bytes, no) || !ARRAY(room, no))
    return false;
  uint32_t ti = lay_out(d->in, d->inputs, r->in_at), to = lay_out(d->out, d->outputs, r->out_at);
  for (size_t i = 0; i < ns; i++) to += (uint32_t)d->state[i].rank;
  r->out_total = to;
  r->states = states_new(r->m, &ok);
  if (!ok) return false;
  if (!ARRAY(in_dims, ti + 1) || !ARRAY(out_dims, to + 1) || !ARRAY(bounds, to + 1)) return false;
#undef ARRAY
  for (int64_t i = 0; i < d->inputs; i++)
    for (int32_t k = 0; k < d->in[i].rank; k++) r->in_dims[r->in_at[i] + (uint32_t)k] = d->in[i].dims[k];
  return true;
}
static void run_free(ek_run *r) {
  const memory *mem = r->mem;
  ek_rt_pool_destroy(r->pool);
  for (int64_t i = 0; r->own && i < r->d->outputs; i++) mem_put(mem, r->own[i]);
  void *all[] = {r->in_at,       r->out_at, r->in,      r->out,      r->bound,  r->own,       r->own_bytes,
                 r->bound_bytes, r->room,   r->in_dims, r->out_dims, r->bounds, r->call.arena};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_put(mem, all[i]);
  profile_free(r->profile);
  states_free(r->states);
  text_free(&r->message);
  mem_put(mem, r);
}
static void timed_parallel(ek_rt_call *call, ek_rt_kernel k, const int64_t *args, int64_t chunks) {
  ek_run *r = (ek_run *)((char *)call - offsetof(ek_run, call));
  uint32_t launch;
  if (profile_tick(r->profile, k, chunks)) return;
  trace *t = profile_trace(r->profile, &launch);
  if (t)
    trace_launch(t, launch, call, k, args, chunks, r->parallel);
  else
    r->parallel(call, k, args, chunks);
}
static bool add_profile(ek_run *r) {
  if (!r->m->timed) return true;
  r->profile = profile_new(r->m);
  r->parallel = r->call.parallel, r->call.parallel = timed_parallel;
  return r->profile != NULL;
}
/* The call record's threads: parallel and pool. */
static bool choose_threads(ek_run *r, const ek_run_options *o) {
  if (r->m->kind == MODULE_EVAL) return true;
  r->call.parallel = ek_rt_parallel;
  if (o->parallel_for) {
    r->lent = (borrowed){o->parallel_for, o->parallel_user};
    r->call.parallel = borrowed_parallel, r->call.pool = &r->lent;
  } else if (r->threads > 1) {
    r->call.pool = o->pool ? pool_of(o->pool) : session_pool(r->m->s, r->threads);
    if (!r->call.pool) r->call.pool = r->pool = ek_rt_pool_create(r->threads);
    return r->call.pool != NULL;
  }
  return true;
}
ek_code ek_run_create_with(ek_module *m, const ek_run_options *given, ek_run **out) {
  if (out) *out = NULL;
  if (!m || !out) return session_null(m ? m->s : NULL);
  ek_run_options o;
  ek_run_options_init(&o);
  if (given && !struct_read(given, &o, sizeof o))
    return session_fail(m->s, EK_USAGE, STRUCT_UNKNOWN("ek_run_options"), given->size, sizeof o);
  if (o.threads < 0 || o.threads > MAX_RUN_THREADS)
    return session_fail(m->s, EK_USAGE, "%d threads: 1 to %d are possible, or 0 for what the module was compiled for",
                        o.threads, MAX_RUN_THREADS);
  if (o.pool && o.parallel_for)
    return session_fail(m->s, EK_USAGE, "a pool and a parallel_for: a run has its threads from one of them");
  const memory *mem = &m->s->mem;
  ek_run *r = mem_zero(mem, sizeof *r);
  if (!r) return session_fail(m->s, EK_MEMORY, "out of memory");
  r->m = m, r->d = m->d, r->mem = r->message.mem = mem, r->threads = o.threads ? o.threads : m->threads,
  r->limit = o.memory_limit ? o.memory_limit : m->memory_limit;
  if (!make_arrays(r) || !choose_threads(r, &o) || !add_profile(r)) {
    run_free(r);
    return session_fail(m->s, EK_MEMORY, "out of memory");
  }
  r->call.in = r->in, r->call.out = r->out, r->call.in_dims = r->in_dims, r->call.out_dims = r->out_dims,
  r->call.weights = m->d->weights, r->call.threads = r->threads;
  pthread_mutex_lock(&m->list);
  r->next = m->runs, m->runs = r;
  pthread_mutex_unlock(&m->list);
  *out = r;
  return EK_OK;
}
ek_code ek_run_create(ek_module *m, int threads, ek_run **out) {
  ek_run_options o;
  ek_run_options_init(&o);
  o.threads = threads;
  return ek_run_create_with(m, &o, out);
}
void ek_run_destroy(ek_run *r) {
  if (!r) return;
  pthread_mutex_lock(&r->m->list);
  ek_run **p = &r->m->runs;
  while (*p && *p != r) p = &(*p)->next;
  if (*p) *p = r->next;
  pthread_mutex_unlock(&r->m->list);
  run_free(r);
}

/* ---- sizes ----------------------------------------------------------------------------------- */
ek_code ek_run_shape(ek_run *r, int32_t i, const int64_t *dims, int32_t rank) {
  if (!r) return EK_USAGE;
  if (i < 0 || i >= r->d->inputs)
    return fail(r, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)r->d->inputs);
  const ek_rt_tensor *t = &r->d->in[i];
  if (rank != t->rank) return fail(r, EK_SHAPE, "input %s has rank %d, not %d", t->name, (int)t->rank, (int)rank);
  if (rank && !dims) return fail(r, EK_USAGE, "input %s: no dims", t->name);
  for (int32_t k = 0; k < rank; k++) {
    if (dims[k] < 0)
      return fail(r, EK_SHAPE, "input %s: dimension %d cannot be %lld", t->name, (int)k, (long long)dims[k]);
    if (t->dims[k] >= 0 && dims[k] != t->dims[k])
      return fail(r, EK_SHAPE, "input %s: dimension %d is %lld in the model, not %lld", t->name, (int)k,
                  (long long)t->dims[k], (long long)dims[k]);
  }
  int64_t *mine = r->in_dims + r->in_at[i];
  if (rank && memcmp(mine, dims, (size_t)rank * sizeof *dims) != 0) {
    memcpy(mine, dims, (size_t)rank * sizeof *dims);
    r->prepared = r->sized = false;
  }
  return EK_OK;
}
bool tensor_bytes(const ek_rt_tensor *t, const int64_t *dims, int64_t *bytes) {
  *bytes = (int64_t)ek_type_bytes((ek_type)t->type);
  bool zero = false;
  for (int32_t k = 0; k < t->rank; k++) zero |= dims[k] == 0;
  if (zero) *bytes = 0;
  for (int32_t k = 0; !zero && k < t->rank; k++)
    if (dims[k] < 0 || !mul64(*bytes, dims[k], bytes)) return false;
  return true;
}
/* Does what is allocated for these sizes stay under the limit? */
static ek_code within(ek_run *r) {
  if (!r->limit) return EK_OK;
  uint64_t outputs = (uint64_t)states_bytes(r->states), arena = (uint64_t)r->call.arena_bytes;
  for (int64_t i = 0; i < r->d->outputs; i++)
    if (!r->bound[i])
      outputs = (uint64_t)r->room[i] > UINT64_MAX - outputs ? UINT64_MAX : outputs + (uint64_t)r->room[i];
  if (arena <= r->limit && outputs <= r->limit - arena) return EK_OK;
  return fail(r, EK_MEMORY,
              "these sizes need %llu bytes of working memory (%s) and %llu for outputs that are not bound%s; the limit "
              "is %llu bytes",
              (unsigned long long)arena, r->d->memory ? r->d->memory : "?", (unsigned long long)outputs,
              r->states ? " and states" : "", (unsigned long long)r->limit);
}
static ek_code get_arena(ek_run *r, size_t need) {
  ek_code over = within(r);
  if (over) return over;
  if (need > r->arena_bytes || !r->call.arena) {
    mem_put(r->mem, r->call.arena);
    r->call.arena = mem_get(r->mem, need);
    if (r->marked && r->call.arena) memset(r->call.arena, 0xff, need);
    r->arena_bytes = r->call.arena ? need : 0;
    if (!r->call.arena)
      return fail(r, EK_MEMORY, "out of memory: these sizes need %zu bytes of working memory (%s)", need,
                  r->d->memory ? r->d->memory : "?");
  }
  return EK_OK;
}
bool run_need(const ek_rt_model *d, int threads, int64_t *bytes) {
  int64_t in[256], out[256];
  uint32_t ni = 0, no = 0;
  for (int64_t i = 0; i < d->inputs; i++)
    for (int32_t k = 0; k < d->in[i].rank; k++) {
      if (ni == 256 || d->in[i].dims[k] < 0) return false;
      in[ni++] = d->in[i].dims[k];
    }
  for (int64_t i = 0; i < d->outputs; i++) no += (uint32_t)d->out[i].rank;
  for (int64_t i = 0; i < model_states(d); i++) no += (uint32_t)d->state[i].rank;
  if (no > 256) return false;
  ek_rt_call call = {.in_dims = in, .out_dims = out, .threads = threads};
  if (d->plan(&call)) return false; /* the run will report why */
  *bytes = call.arena_bytes;
  return true;
}
/* plan has written their sizes behind those of the outputs. */
static ek_code size_states(ek_run *r) {
  uint32_t at = 0;
  for (int64_t i = 0; i < r->d->outputs; i++) at += (uint32_t)r->d->out[i].rank;
  memcpy(r->bounds + at, r->out_dims + at, (r->out_total - at) * sizeof *r->bounds);
  ek_code code = states_size(r->states, r->bounds + at, &r->message);
  for (int64_t i = 0; !code && i < model_states(r->d); at += (uint32_t)r->d->state[i++].rank)
    tensor_bytes(&r->d->state[i], r->bounds + at, &r->room[r->d->outputs + i]);
  return code;
}
ek_code ek_run_prepare(ek_run *r) {
  if (!r) return EK_USAGE;
  if (r->prepared) return EK_OK;
  for (int64_t i = 0; i < r->d->inputs; i++)
    for (int32_t k = 0; k < r->d->in[i].rank; k++)
      if (r->in_dims[r->in_at[i] + (uint32_t)k] < 0)
        return fail(r, EK_SHAPE,
                    "input '%s': the size of dimension %d (%s) was not given: call ek_run_shape or ek_run_set_input",
                    r->d->in[i].name, (int)k, r->d->in[i].dim_names[k] ? r->d->in[i].dim_names[k] : "?");
  int64_t unused;
  for (int64_t i = 0; i < r->d->inputs; i++)
    if (!tensor_bytes(&r->d->in[i], r->in_dims + r->in_at[i], &unused))
      return fail(r, EK_MEMORY, "input %s: its size overflows", r->d->in[i].name);
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
    if (!tensor_bytes(&r->d->out[i], r->out_dims + r->out_at[i], &r->room[i]))
      return fail(r, EK_MEMORY, "output %s: its size overflows", r->d->out[i].name);
    for (int32_t k = 0; k < r->d->out[i].rank; k++)
      r->bounds[r->out_at[i] + (uint32_t)k] = r->out_dims[r->out_at[i] + (uint32_t)k];
  }
  ek_code sized = size_states(r);
  if (sized) return sized;
  if (r->call.arena_bytes < 0)
    return fail(r, EK_MEMORY, "the working memory for these sizes (%s bytes) does not fit into 64 bits",
                r->d->memory ? r->d->memory : "?");
  ek_code code = get_arena(r, (size_t)r->call.arena_bytes);
  r->prepared = !code;
  return code;
}

/* ---- data ------------------------------------------------------------------------------------ */
ek_code ek_run_bind_input(ek_run *r, int32_t i, const void *data) {
  if (!r) return EK_USAGE;
  if (i < 0 || i >= r->d->inputs)
    return fail(r, EK_USAGE, "input %d of a model with %d inputs", (int)i, (int)r->d->inputs);
  r->in[i] = data;
  return EK_OK;
}
ek_code ek_run_bind_output(ek_run *r, int32_t i, void *data) {
  if (!r) return EK_USAGE;
  if (i < 0 || i >= r->d->outputs)
    return fail(r, EK_USAGE, "output %d of a model with %d outputs", (int)i, (int)r->d->outputs);
  r->bound[i] = data, r->bound_bytes[i] = 0;
  return EK_OK;
}

/* ---- the same by name -------------------------------------------------------------------------------------------- */
/* -1: there is no such tensor, which is told with those there are. */
static int64_t by_name(ek_run *r, const char *what, const ek_rt_tensor *t, int64_t n, const char *name) {
  char known[512] = "";
  size_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!strcmp(t[i].name, name)) return i;
    if (at < sizeof known) at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", t[i].name);
  }
  if (at >= sizeof known) memcpy(known + sizeof known - 5, " ...", 5);
  fail(r, EK_USAGE, "the model has no %s '%s'; it has %s", what, name, n ? known : "none");
  return -1;
}
ek_code ek_run_set_input(ek_run *r, const char *name, const void *data, size_t bytes, const int64_t *dims,
                         int32_t rank) {
  if (!r) return EK_USAGE;
  if (!name || (!data && bytes) || (!dims && rank))
    return fail(r, EK_USAGE, "NULL was given where something is needed");
  int64_t i = by_name(r, "input", r->d->in, r->d->inputs, name), need = 0;
  if (i < 0) return EK_USAGE;
  ek_code code = ek_run_shape(r, (int32_t)i, dims, rank);
  if (code) return code;
  if (!tensor_bytes(&r->d->in[i], dims, &need) || (uint64_t)need != bytes)
    return fail(r, EK_SHAPE, "input '%s': %zu bytes were given, its dims make %lld elements of %s: %lld bytes", name,
                bytes, (long long)(need / (int64_t)ek_type_bytes((ek_type)r->d->in[i].type)),
                ek_type_name((ek_type)r->d->in[i].type), (long long)need);
  return ek_run_bind_input(r, (int32_t)i, data);
}
ek_code ek_run_set_output(ek_run *r, const char *name, void *data, size_t bytes) {
  if (!r) return EK_USAGE;
  if (!name) return fail(r, EK_USAGE, "NULL was given where something is needed");
  int64_t i = by_name(r, "output", r->d->out, r->d->outputs, name);
  if (i < 0) return EK_USAGE;
  r->bound[i] = data, r->bound_bytes[i] = data && !bytes ? 1 : bytes;
  return EK_OK;
}
ek_code ek_run_get_output(ek_run *r, const char *name, ek_array *out) {
  if (!r) return EK_USAGE;
  if (!name || !out) return fail(r, EK_USAGE, "NULL was given where something is needed");
  int64_t i = by_name(r, "output", r->d->out, r->d->outputs, name), bytes = 0;
  if (i < 0) return EK_USAGE;
  if (!r->out[i]) return fail(r, EK_USAGE, "output '%s' has no data: call ek_run_execute first", name);
  *out = (ek_array){.name = r->d->out[i].name, .type = (ek_type)r->d->out[i].type, .data = r->out[i]};
  ek_run_output_dims(r, (int32_t)i, out->dims, &out->rank);
  if (!tensor_bytes(&r->d->out[i], out->dims, &bytes))
    return fail(r, EK_MEMORY, "output '%s': its size overflows", name);
  out->bytes = (size_t)bytes;
  return EK_OK;
}
/* ---- states ------------------------------------------------------------------------------------------------------ */
ek_code ek_run_reset(ek_run *r, const char *name) {
  if (!r) return EK_USAGE;
  ek_code code = states_reset(r->states, name, &r->message);
  r->prepared = false; /* its sizes may become others */
  return code;
}
ek_code ek_run_snapshot(ek_run *r, const char *name, ek_array *out) {
  if (!r) return EK_USAGE;
  if (!name || !out) return fail(r, EK_USAGE, "NULL was given where something is needed");
  return states_snapshot(r->states, name, out, &r->message);
}
ek_code ek_run_restore(ek_run *r, const char *name, const void *data, size_t bytes, const int64_t *dims, int32_t rank) {
  if (!r) return EK_USAGE;
  if (!name || (!data && bytes) || (!dims && rank) || rank < 0 || rank > EK_MAX_RANK)
    return fail(r, EK_USAGE, "NULL was given where something is needed, or no rank");
  ek_array a = {.name = name, .rank = rank, .data = data, .bytes = bytes};
  for (int32_t i = 0; i < rank; i++) a.dims[i] = dims[i];
  ek_code code = states_restore(r->states, &a, &r->message);
  r->prepared = false;
  return code;
}

static bool cancelled(const ek_run *r) { return __atomic_load_n(&r->call.cancel, __ATOMIC_RELAXED) != 0; }
static ek_code get_outputs(ek_run *r) {
  for (int64_t i = 0; i < r->d->outputs; i++) {
    if (!r->bound[i] && (!r->own[i] || (int64_t)r->own_bytes[i] < r->room[i])) {
      mem_put(r->mem, r->own[i]);
      r->own[i] = mem_get(r->mem, (size_t)r->room[i]);
      r->own_bytes[i] = r->own[i] ? (size_t)r->room[i] : 0;
      if (!r->own[i])
        return fail(r, EK_MEMORY, "out of memory: output %s needs %lld bytes", r->d->out[i].name,
                    (long long)r->room[i]);
      if (r->marked) memset(r->own[i], 0xff, r->own_bytes[i]);
    }
    if (r->bound[i] && r->bound_bytes[i] && (int64_t)r->bound_bytes[i] < r->room[i])
      return fail(r, EK_MEMORY, "output '%s' needs room for %lld bytes, %zu were given to ek_run_set_output",
                  r->d->out[i].name, (long long)r->room[i], r->bound_bytes[i]);
    r->out[i] = r->bound[i] ? r->bound[i] : r->own[i];
  }
  return EK_OK;
}
/* The run has written what it needs. A little more is got, since the next size found may need a little more. */
static ek_code grow(ek_run *r) {
  for (int64_t i = 0; i < r->d->outputs; i++) {
    int64_t bytes;
    const int64_t *dims = r->out_dims + r->out_at[i];
    if (!tensor_bytes(&r->d->out[i], dims, &bytes))
      return fail(r, EK_MEMORY, "output %s: its size overflows", r->d->out[i].name);
    if (bytes <= r->room[i]) continue;
    int64_t had = r->room[i];
    memcpy(r->bounds + r->out_at[i], dims, (size_t)r->d->out[i].rank * sizeof *dims);
    r->room[i] = bytes;
    if (r->bound[i] && r->bound_bytes[i] < (size_t)bytes)
      return fail(r, EK_MEMORY,
                  "output %s needs %lld bytes, which only the run found out; %lld are bound: bind memory of "
                  "ek_run_output_bytes() and run again, or leave the output unbound",
                  r->d->out[i].name, (long long)bytes, (long long)had);
  }
  int64_t need = r->call.arena_bytes;
  if ((uint64_t)need > r->arena_bytes) {
    r->call.arena_bytes = need + need / 8;
    if (within(r)) r->call.arena_bytes = need;
  }
  ek_code code = get_arena(r, (size_t)r->call.arena_bytes);
  if (code) r->prepared = false;
  return code ? code : get_outputs(r);
}
static int64_t call_run(ek_run *r) {
  memcpy(r->out_dims, r->bounds, r->out_total * sizeof *r->out_dims);
  if (r->profile) profile_begin(r->profile);
  return r->d->run(&r->call);
}
static const uint8_t nothing[64] __attribute__((aligned(64))); /* where the elements of empty tensors lie */
ek_code ek_run_execute(ek_run *r) {
  ek_code code = ek_run_prepare(r);
  if (!code) code = within(r); /* the outputs may no longer be bound */
  if (code) return code;
  for (int64_t i = 0; i < r->d->inputs; i++) {
    int64_t bytes;
    if (r->in[i]) continue;
    if (tensor_bytes(&r->d->in[i], r->in_dims + r->in_at[i], &bytes) && bytes == 0)
      r->in[i] = nothing;
    else
      return fail(r, EK_USAGE, "input '%s' has no data: call ek_run_bind_input or ek_run_set_input", r->d->in[i].name);
  }
  if ((code = get_outputs(r))) return code;
  code = states_before(r->states, r->in + r->d->inputs, r->out + r->d->outputs, &r->message);
  if (code) return code;
  int64_t rc = 0;
  if (r->m->kind == MODULE_EVAL) do {
      if (cancelled(r))
        code = fail(r, EK_CANCELLED, "cancelled");
      else if ((rc = eval_run(r->m, &r->call, r->room, &r->message)) != EK_RT_ROOM)
        code = (ek_code)rc;
      else
        code = grow(r);
    } while (!code && rc == EK_RT_ROOM);
  else {
    rc = call_run(r);
    while (rc == EK_RT_ROOM && !(code = grow(r))) rc = call_run(r);
    if (rc && !code) code = fail(r, (ek_code)rc, "%s", r->call.message ? r->call.message : "the run failed");
  }
  states_after(r->states, !code);
  __atomic_store_n(&r->call.cancel, 0, __ATOMIC_RELAXED);
  return code;
}
void ek_run_cancel(ek_run *r) {
  if (r) __atomic_store_n(&r->call.cancel, 1, __ATOMIC_RELAXED);
}
size_t ek_run_output_bytes(const ek_run *r, int32_t i) {
  return !r || i < 0 || i >= r->d->outputs ? 0 : (size_t)r->room[i];
}
ek_code ek_run_output_dims(const ek_run *r, int32_t i, int64_t *dims, int32_t *rank) {
  if (!r || !dims || !rank || i < 0 || i >= r->d->outputs) return EK_USAGE;
  *rank = r->d->out[i].rank;
  memcpy(dims, r->out_dims + r->out_at[i], (size_t)*rank * sizeof *dims);
  return EK_OK;
}
const void *ek_run_output_data(const ek_run *r, int32_t i) {
  return !r || i < 0 || i >= r->d->outputs ? NULL : r->out[i];
}
int64_t ek_run_memory(const ek_run *r) { return !r ? 0 : r->call.arena_bytes; }
int ek_run_threads(const ek_run *r) { return !r ? 0 : r->threads; }
ek_code ek_run_kernels(ek_run *r, const ek_kernel **kernels, size_t *n) {
  if (!r || !kernels || !n) return EK_USAGE;
  *kernels = NULL, *n = 0;
  if (!r->profile) return fail(r, EK_USAGE, "the module was compiled without ek_options.profile");
  if (!r->prepared) return fail(r, EK_USAGE, "nothing was executed with these sizes");
  pthread_mutex_lock(&r->m->lock);
  profile_kernels(r->profile, r->in_dims, r->sized);
  pthread_mutex_unlock(&r->m->lock);
  r->sized = true;
  *kernels = profile_table(r->profile, n);
  return EK_OK;
}
ek_code ek_run_events(ek_run *r, const ek_event **events, size_t *n) {
  uint32_t launch;
  if (!r || !events || !n) return EK_USAGE;
  *events = NULL, *n = 0;
  const trace *t = r->profile ? profile_trace(r->profile, &launch) : NULL;
  if (!t) return fail(r, EK_USAGE, "the module was compiled without ek_options.profile 2");
  if (!r->prepared) return fail(r, EK_USAGE, "nothing was executed with these sizes: call ek_run_execute first");
  *events = trace_events(t, n);
  return EK_OK;
}
const char *ek_run_message(const ek_run *r) { return r && r->message.s ? r->message.s : ""; }
