/* The states of a run object: what stays from one execute to the next. A state in place has one piece of memory,
 * another two, the one with the current value and the one that the next run writes to; after a run that went well they
 * change parts. So nothing is copied between runs. A state begins with its first value as soon as its sizes are known,
 * and whenever it is reset; a long one is read from the model's file then, and nowhere else in memory. A program may
 * keep a state, and its first value, in another order of its axes than row-major; what is given and shown is row-major,
 * and converted here. */
#include "driver/driver.h"
#include <string.h>

typedef struct run_state {
  const ek_rt_tensor *t;     /* what it is */
  const ek_rt_state *rule;   /* what becomes of it between runs */
  int64_t dims[EK_MAX_RANK]; /* its sizes, where `sized` */
  bool sized;                /* its sizes are known, and memory is there */
  bool begun;                /* it has been run or restored: it may not get other sizes */
  bool lost;                 /* a run that failed may have changed it */
  size_t bytes;              /* bytes of a place */
  uint8_t *place[2];         /* the current value, and where the next one goes; the same where it is in place */
  const int64_t *order;      /* its axes as they lie, outermost first; NULL: row-major */
  uint8_t *shown;            /* with an order: the value that was shown last, row-major; NULL: none was */
} run_state;
struct run_states {
  const memory *mem;   /* where memory comes from */
  const ek_module *of; /* has their first values */
  bool marked;         /* memory that nothing is put into yet is filled with ones */
  int64_t n;           /* number of states */
  run_state v[];       /* the states */
};

run_states *states_new(const ek_module *m, bool *ok) {
  const memory *mem = &m->s->mem;
  const ek_rt_model *d = m->d;
  const int64_t n = model_states(d);
  *ok = true;
  if (!n) return NULL;
  run_states *s = mem_zero(mem, sizeof *s + (size_t)n * sizeof *s->v);
  if (!s) return *ok = false, NULL;
  s->mem = mem, s->of = m, s->n = n;
  const int64_t *orders = model_orders(d);
  for (int64_t i = 0, at = 0; i < n; at += d->state[i++].rank) {
    run_state *x = &s->v[i];
    x->t = &d->state[i], x->rule = &d->between[i];
    for (int32_t k = 0; k < x->t->rank && orders && !x->order; k++)
      if (orders[at + k] != k) x->order = orders + at;
  }
  return s;
}
static void drop(const run_states *s, run_state *x) {
  if (x->place[1] != x->place[0]) mem_put(s->mem, x->place[1]);
  mem_put(s->mem, x->place[0]), mem_put(s->mem, x->shown);
  x->place[0] = x->place[1] = x->shown = NULL;
  x->sized = false;
}
void states_free(run_states *s) {
  for (int64_t i = 0; s && i < s->n; i++) drop(s, &s->v[i]);
  if (s) mem_put(s->mem, s);
}
void states_mark(run_states *s) {
  if (s) s->marked = true;
}
static ek_code tell(text *why, ek_code code, const run_state *x, const char *what) {
  text_set(why, "state '"), text_put(why, x->t->name, strlen(x->t->name)), text_put(why, "' ", 2);
  text_put(why, what, strlen(what));
  return code;
}
static ek_code begin(const run_states *s, run_state *x, text *why) {
  const ek_rt_model *d = s->of->d;
  const char *changed = NULL;
  if (x->bytes && x->rule->first >= d->weight_bytes)
    changed = program_first(s->of->p->p, (uint32_t)(x - s->v), x->place[0]);
  else if (x->rule->first >= 0)
    memcpy(x->place[0], d->weights + x->rule->first, x->bytes);
  else
    memset(x->place[0], 0, x->bytes);
  x->begun = false, x->lost = changed != NULL;
  if (!changed) return EK_OK;
  tell(why, EK_IO, x, "cannot begin: the file with its first value was changed since the model was compiled: ");
  text_put(why, changed, strlen(changed));
  return EK_IO;
}
static ek_code get_memory(const run_states *s, run_state *x, const int64_t *dims, text *why) {
  int64_t bytes;
  if (!tensor_bytes(x->t, dims, &bytes)) return tell(why, EK_MEMORY, x, "is too large");
  drop(s, x);
  x->bytes = (size_t)bytes;
  x->place[0] = mem_get(s->mem, x->bytes ? x->bytes : 1);
  x->place[1] = x->rule->places == 1 ? x->place[0] : mem_get(s->mem, x->bytes ? x->bytes : 1);
  if (!x->place[0] || !x->place[1]) {
    drop(s, x);
    return tell(why, EK_MEMORY, x, "has no memory: out of memory");
  }
  if (s->marked) memset(x->place[1], 0xff, x->bytes);
  if (x->t->rank) memcpy(x->dims, dims, (size_t)x->t->rank * sizeof *dims);
  x->sized = true;
  return EK_OK;
}
/* Memory with the first value. */
static ek_code make(const run_states *s, run_state *x, const int64_t *dims, text *why) {
  ek_code code = get_memory(s, x, dims, why);
  if (code) return code;
  code = begin(s, x, why);
  if (code) drop(s, x);
  return code;
}
static bool same_dims(const run_state *x, const int64_t *dims) {
  return !x->t->rank || !memcmp(x->dims, dims, (size_t)x->t->rank * sizeof *dims);
}
ek_code states_size(run_states *s, const int64_t *dims, text *why) {
  ek_code code = EK_OK;
  for (int64_t i = 0; s && i < s->n && !code; i++) {
    run_state *x = &s->v[i];
    const int64_t *its = dims;
    dims += x->t->rank;
    if (x->sized && same_dims(x, its)) continue;
    if (x->sized && x->begun)
      return tell(why, EK_SHAPE, x, "has other sizes than with these inputs: ek_run_reset ends what it holds");
    code = make(s, x, its, why);
  }
  return code;
}
int64_t states_bytes(const run_states *s) {
  int64_t all = 0;
  for (int64_t i = 0; s && i < s->n; i++) all += (int64_t)s->v[i].bytes * s->v[i].rule->places;
  return all;
}
ek_code states_before(run_states *s, const void **in, void **out, text *why) {
  for (int64_t i = 0; s && i < s->n; i++) {
    if (s->v[i].lost)
      return tell(why, EK_USAGE, &s->v[i],
                  "was being changed when an earlier run failed: call ek_run_reset or ek_run_restore");
    in[i] = s->v[i].place[0], out[i] = s->v[i].place[1];
  }
  return EK_OK;
}
void states_after(run_states *s, bool good) {
  for (int64_t i = 0; s && i < s->n; i++) {
    run_state *x = &s->v[i];
    uint8_t *old = x->place[0];
    x->begun = true;
    if (good && !EK_PLANTED("run-states"))
      x->place[0] = x->place[1], x->place[1] = old;
    else
      x->lost |= x->rule->places == 1;
  }
}

/* ---- another order than row-major ------------------------------------------------------------ */
/* Between a value as the program keeps it and the same value row-major. */
static void convert(const run_state *x, uint8_t *kept, uint8_t *rows, bool to_rows) {
  const int32_t rank = x->t->rank;
  const size_t size = ek_type_bytes((ek_type)x->t->type);
  int64_t at[EK_MAX_RANK] = {0}, step[EK_MAX_RANK], n = 1;
  for (int32_t k = rank; k-- > 0; n *= x->dims[k]) step[k] = n;
  const int64_t in = x->order[rank - 1], row = x->dims[in];
  for (int64_t done = 0; done < n; done += row) { /* the places of the axis that lies innermost */
    int64_t from = 0;
    for (int32_t k = 0; k < rank; k++) from += at[k] * step[k];
    for (int64_t i = 0; i < row; i++) {
      uint8_t *a = kept + (size_t)(done + i) * size, *b = rows + (size_t)(from + i * step[in]) * size;
      memcpy(to_rows ? b : a, to_rows ? a : b, size);
    }
    for (int32_t k = rank - 1; k-- > 0 && ++at[x->order[k]] == x->dims[x->order[k]];) at[x->order[k]] = 0;
  }
}

/* ---- by name --------------------------------------------------------------------------------- */
/* NULL: there is none, which is told with those there are. */
static run_state *find(run_states *s, const char *name, text *why) {
  for (int64_t i = 0; s && i < s->n; i++)
    if (!strcmp(s->v[i].t->name, name)) return &s->v[i];
  text_set(why, "the module has no state '"), text_put(why, name, strlen(name)), text_put(why, "'; it has ", 10);
  if (!s) text_put(why, "none", 4);
  for (int64_t i = 0; s && i < s->n; i++) {
    if (i) text_put(why, ", ", 2);
    text_put(why, s->v[i].t->name, strlen(s->v[i].t->name));
  }
  return NULL;
}
/* The same, if the model fixes all sizes. */
static ek_code settle(const run_states *s, run_state *x, text *why) {
  if (x->sized) return EK_OK;
  for (int32_t k = 0; k < x->t->rank; k++)
    if (x->t->dims[k] < 0) return tell(why, EK_USAGE, x, "has no sizes yet: call ek_run_prepare or ek_run_execute");
  return make(s, x, x->t->dims, why);
}
ek_code states_reset(run_states *s, const char *name, text *why) {
  run_state *one = name ? find(s, name, why) : NULL;
  if (name && !one) return EK_USAGE;
  ek_code code = EK_OK;
  for (int64_t i = 0; s && i < s->n && !code; i++)
    if ((!one || one == &s->v[i]) && s->v[i].sized) code = begin(s, &s->v[i], why);
  return code;
}
ek_code states_snapshot(run_states *s, const char *name, ek_array *out, text *why) {
  run_state *x = find(s, name, why);
  ek_code code = x ? settle(s, x, why) : EK_USAGE;
  if (code) return code;
  if (x->lost) return tell(why, EK_USAGE, x, "was being changed when an earlier run failed: it holds nothing");
  if (x->order && !x->shown && !(x->shown = mem_get(s->mem, x->bytes ? x->bytes : 1)))
    return tell(why, EK_MEMORY, x, "cannot be shown: out of memory");
  if (x->order && x->bytes) convert(x, x->place[0], x->shown, true);
  *out = (ek_array){
      .name = x->t->name, .type = (ek_type)x->t->type, .rank = x->t->rank, .data = x->order ? x->shown : x->place[0]};
  memcpy(out->dims, x->dims, sizeof out->dims);
  out->bytes = x->bytes;
  return EK_OK;
}
ek_code states_restore(run_states *s, const ek_array *from, text *why) {
  run_state *x = find(s, from->name, why);
  int64_t bytes;
  if (!x) return EK_USAGE;
  if (from->rank != x->t->rank) return tell(why, EK_SHAPE, x, "has another rank than what it is to hold");
  for (int32_t k = 0; k < from->rank; k++)
    if (from->dims[k] < 0 || (x->t->dims[k] >= 0 && x->t->dims[k] != from->dims[k]))
      return tell(why, EK_SHAPE, x, "has other sizes in the model than what it is to hold");
  if (!tensor_bytes(x->t, from->dims, &bytes) || (uint64_t)bytes != from->bytes)
    return tell(why, EK_SHAPE, x, "cannot hold this: the bytes are not what the sizes and the type make");
  ek_code code = x->sized && same_dims(x, from->dims) ? EK_OK : get_memory(s, x, from->dims, why);
  if (code) return code;
  if (x->bytes && x->order && !EK_PLANTED("run-state-order"))
    convert(x, x->place[0], (uint8_t *)(uintptr_t)from->data, false);
  else if (x->bytes)
    memmove(x->place[0], from->data, x->bytes);
  x->begun = true, x->lost = false;
  return EK_OK;
}
