/* Does compiled code give what the evaluator gives for a random model?
 *
 * The reference is the evaluator with every float in f64 (--eval --promote f64), or, for models that round to floats of
 * 8 bits or less on the way, the evaluator as it is. Allowed are a few roundings of an output's largest value, and four
 * times what moving everything by a rounding does to it. Half of the models are compiled with the default accuracy,
 * whose forms of products may be off by 1e-4 of an output's largest value: a hundred roundings. The evaluator itself is
 * held against the reference, too; then code of the levels of optimisation, in one thread and in several, with the same
 * bits (--reproducible), and what is saved as a library and as C. */
#include "random_models.h"
#include "onnx/onnx.h"
/* after loop.h, whose L_SET <fcntl.h> has as a macro */
#include "check.h"

#define FORMS 1e-4    /* how far products in other forms may be off */
#define ROUNDING 1e-6 /* the step of f32 */
typedef struct trial {
  model *m;
  ek_session *s;
  ek_model *loaded;
  const char *folder;
  ndarray *want; /* for each value; data NULL: not known */
  char *why;
  size_t room;
  uint64_t bits; /* hash of the outputs of the last run */
  bool refused;
  bool forms; /* what runs may have products in other forms */
  bool open;  /* the reference is of fixed sizes, the run of open ones: a product of a size and a float attribute, which
              * files hold in f32, is a fraction then */
} trial;
static bool fail(trial *t, const char *way, const char *what) {
  snprintf(t->why, t->room, "%s: %s", way, what);
  for (char *p = t->why; *p; p++)
    if (*p == '\n') *p = ' ';
  return false;
}
double value_limit(const mvalue *v) { return 4 * v->step * fmax(v->largest, 1e-3) + 4 * v->spread; }
static tolerance allowed(const trial *t, const mvalue *v) {
  if (et_kind(v->type) != K_FLOAT || et_bits(v->type) < 16) return (tolerance){0, 0};
  if (t->open) return (tolerance){1e-5, 1e-5 * v->largest + 16 * v->spread};
  const double times = t->forms && v->step < FORMS ? FORMS / ROUNDING : 1;
  return (tolerance){times > 1 ? fmin(FORMS, times * 16 * v->step) : 16 * v->step, times * value_limit(v)};
}
static bool narrow(const model *m) {
  for (uint32_t i = 0; i < m->values.n; i++)
    if (et_kind(m->values.v[i].type) == K_FLOAT && et_bits(m->values.v[i].type) < 16) return true;
  return false;
}
/* Strings in the same width: the bytes of `d` in that of `like`, where nothing but zeros goes. */
static ndarray as_wide(arena *a, const ndarray *d, const ndarray *like) {
  const int64_t had = d->rank ? d->dims[d->rank - 1] : 0, want = like->rank ? like->dims[like->rank - 1] : 0;
  if (d->rank != like->rank || had == want || !had) return *d;
  const size_t n = d->bytes / (size_t)had;
  ndarray r = *d;
  r.dims[r.rank - 1] = want, r.bytes = n * (size_t)want;
  uint8_t *to = arena_alloc(a, r.bytes + 16);
  for (size_t i = 0; i < n; i++)
    for (int64_t k = 0; k < had; k++) {
      const uint8_t c = ((const uint8_t *)d->data)[i * (size_t)had + (size_t)k];
      if (k < want)
        to[i * (size_t)want + (size_t)k] = c;
      else if (c)
        return *d;
    }
  r.data = to;
  return r;
}
/* What the outputs of a run are: kept as the reference, or compared with it. */
static bool results(trial *t, ek_run *r, const char *way, bool keep) {
  t->bits = 0;
  for (uint32_t v = 1; v <= t->m->values.n; v++) {
    if (!model_output(t->m, v)) continue;
    ek_array got;
    char text[400];
    if (ek_run_get_output(r, value_name(t->m, v), &got)) return fail(t, way, ek_run_message(r));
    ndarray d = {.type = et_from_onnx((int)got.type), .rank = (uint32_t)got.rank, .data = got.data, .bytes = got.bytes};
    memcpy(d.dims, got.dims, (size_t)got.rank * sizeof *d.dims);
    t->bits = hash_bytes(got.data, got.bytes, t->bits);
    if (!keep && t->m->values.v[v - 1].type == ET_STR) d = as_wide(ctx_arena(t->m->c), &d, &t->want[v - 1]);
    if (keep) {
      d.data = arena_dup(ctx_arena(t->m->c), d.data, d.bytes + 1);
      t->want[v - 1] = d;
    } else if (differs(text, sizeof text, value_name(t->m, v), &d, &t->want[v - 1], allowed(t, &t->m->values.v[v - 1])))
      return fail(t, way, text);
  }
  return true;
}
/* One run. Inputs and working memory end at pages that nobody may touch. */
static bool run(trial *t, ek_module *code, const char *way, int threads, bool keep) {
  ek_run *r;
  VEC(void *) inputs = {0};
  bool ok = true;
  if (ek_run_create(code, threads, &r)) return fail(t, way, ek_message(t->s));
  for (uint32_t v = 1; ok && v <= t->m->values.n; v++) {
    if (!model_input(t->m, v)) continue;
    const ndarray *d = &t->m->values.v[v - 1].at[0];
    void *mem = CHECK_OWN_MALLOC && inputs.n < GUARDS / 2 ? guarded(d->bytes) : malloc(d->bytes + 1);
    vec_push(ctx_arena(t->m->c), inputs, mem);
    if (d->bytes) memcpy(mem, d->data, d->bytes);
    ok = !ek_run_set_input(r, value_name(t->m, v), mem, d->bytes, d->dims, (int32_t)d->rank);
  }
  atomic_store(&guarding, !keep && CHECK_OWN_MALLOC);
  ok = ok && !ek_run_prepare(r);
  atomic_store(&guarding, false);
  ok = ok && !ek_run_execute(r);
  ok = ok ? results(t, r, way, keep) : fail(t, way, ek_run_message(r));
  ek_run_destroy(r);
  for (uint32_t i = 0; i < inputs.n; i++) free(inputs.v[i]);
  return ok;
}
static ek_options options(const model *m) {
  ek_options o;
  ek_options_init(&o);
  o.compile_threads = 1, o.threads = 1;
  o.accuracy = m->seed / 64 % 2 ? EK_ACCURACY_DEFAULT : EK_ACCURACY_STRICT;
  o.optimize = m->seed % 8 == 1 ? 1 : m->seed % 8 == 2 ? 2 : 3;
  return o;
}
static bool same_bits(trial *t, uint64_t one) {
  return t->bits == one || fail(t, "threads", "other bits than with one");
}
static bool compiled(trial *t, const char *way, ek_options o, int threads, bool keep) {
  ek_module *code;
  o.reproducible = threads > 1;
  if (ek_compile(t->loaded, &o, &code)) {
    t->refused = strstr(ek_message(t->s), "a size does not fit into 64 bits") != NULL;
    return fail(t, way, ek_message(t->s));
  }
  t->forms = !o.evaluate && o.accuracy != EK_ACCURACY_STRICT;
  bool ok = run(t, code, way, 1, keep);
  /* what a definition assumes of a size that is found at run time need not be so */
  if (!ok && o.evaluate == 1) t->refused = strstr(t->why, "was compiled for") != NULL;
  const uint64_t one = t->bits;
  ok = ok && (threads < 2 || (run(t, code, "threads", threads, keep) && same_bits(t, one)));
  ek_module_close(code);
  return ok;
}
static bool saved(trial *t, const char *way) {
  ek_options o = options(t->m);
  ek_module *code;
  arena *a = ctx_arena(t->m->c);
  bool c = !strcmp(way, "c");
  const char *file = path_join(a, t->folder, c ? "m.c" : "m.so"), *so = path_join(a, t->folder, c ? "c.so" : "m.so");
  if (ek_save(t->loaded, &o, file, NULL)) return fail(t, way, ek_message(t->s));
  if (c && system(arena_fmt(a, "${CC:-gcc} -std=c17 -ffreestanding -w -O1 -fPIC -shared -o '%s' '%s'", so, file)) != 0)
    return fail(t, way, "the C compiler refuses it");
  if (ek_module_load(t->s, so, &code)) return fail(t, way, ek_message(t->s));
  t->forms = o.accuracy != EK_ACCURACY_STRICT;
  bool ok = run(t, code, way, 1, false);
  ek_module_close(code);
  return ok;
}
static bool load(trial *t) {
  const char *path = path_join(ctx_arena(t->m->c), t->folder, "m.onnx");
  if (t->loaded) ek_model_close(t->loaded);
  t->loaded = NULL;
  if (!model_write(t->m, path)) return fail(t, "write", "the model cannot be written");
  return !ek_load(t->s, path, &t->loaded) || fail(t, "load", ek_message(t->s));
}
/* Which inputs may have open sizes? Definitions may ask for numbers, and what a definition assumes of open sizes need
 * not be so for these: then the run of the evaluator is refused. */
static bool works_open(trial *t) {
  ek_options o = options(t->m);
  o.evaluate = 1;
  return load(t) && !ek_check(t->loaded, &o) && compiled(t, "open", o, 1, true);
}
static bool open_sizes(trial *t) {
  model *m = t->m;
  bool any = false;
  bool *wanted = NEWN(ctx_arena(m->c), bool, m->values.n + 1);
  for (uint32_t i = 0; i < m->values.n; i++) any |= wanted[i] = m->values.v[i].open;
  if (!any || works_open(t)) return any;
  for (uint32_t i = 0; i < m->values.n; i++) m->values.v[i].open = false;
  any = false;
  for (uint32_t i = 0, tries = 0; i < m->values.n && tries < 6; i++) {
    if (!wanted[i] || !model_input(m, i + 1)) continue;
    tries++;
    m->values.v[i].open = true;
    if (works_open(t))
      any = true;
    else
      m->values.v[i].open = false;
  }
  return any;
}
static bool check_ways(trial *t) {
  ek_options o = options(t->m);
  for (uint32_t i = 0; i < t->m->values.n; i++) t->want[i] = t->m->values.v[i].at[0];
  o.evaluate = 1;
  if (!compiled(t, "eval", o, 1, false)) return false;
  t->open = false;
  if (!compiled(t, "eval", o, 1, true)) return false;
  o.evaluate = 3;
  if (!narrow(t->m) && !compiled(t, "promoted", o, 1, true)) return false;
  o.evaluate = 1;
  if (!narrow(t->m) && !compiled(t, "eval against f64", o, 1, false)) return false;
  o.evaluate = 0;
  if (!compiled(t, "jit", o, t->m->seed % 3 ? 1 : 2 + (int)(t->m->seed / 3 % 3), false)) return false;
  o.optimize = 0;
  if (t->m->seed % 2 && !compiled(t, "O0", o, 1, false)) return false;
  if (t->m->seed % 4 == 0 && !saved(t, "so")) return false;
  return t->m->seed % 32 != 7 || saved(t, "c");
}
verdict model_check(model *m, const char *folder, char *why, size_t room) {
  trial t = {.m = m, .s = ek_session_create(), .folder = folder, .why = why, .room = room};
  t.want = NEWN(ctx_arena(m->c), ndarray, m->values.n + 1);
  t.open = open_sizes(&t);
  bool ok = load(&t) && check_ways(&t);
  ek_session_destroy(t.s);
  return ok ? ALIKE : t.refused ? REFUSED : DIFFERS;
}
