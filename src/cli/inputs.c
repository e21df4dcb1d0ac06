/* Where does the data of each input come from? From --input and --inputs, all of which must be used: what they name and
 * the model does not have is an error, and so is an input that they leave out. Made-up data are for who asks for them
 * (random, zeros, ones), or gives no data at all. Open sizes that nothing decides take the least value that the model
 * takes. What is not decided by the user is told on stderr. */
#include "cli/cli.h"
#include "driver/array_file.h"
#include <stdlib.h>
#include <string.h>

typedef struct feeding {
  cli *k;               /* the program */
  ek_module *m;         /* the module */
  ek_run *r;            /* the run */
  host_tensor *in;      /* the inputs */
  int32_t n;            /* number of inputs */
  const char **spec;    /* what --input says of each input; NULL: nothing */
  const ndarray **from; /* the array of each input in --inputs; NULL: there is none */
} feeding;

static bool made_up(const char *spec) {
  return !strcmp(spec, "random") || !strcmp(spec, "zeros") || !strcmp(spec, "ones");
}
const char *tensor_list(cli *k, const ek_tensor_info *t, int32_t n) {
  sbuf b = sbuf_new(k->a);
  for (int32_t i = 0; i < n; i++)
    sb_fmt(&b, "%s%s: %s", i ? ", " : "", t[i].name,
           tensor_text(k->a, et_from_onnx((int)t[i].type), (uint32_t)t[i].rank, t[i].dims, t[i].dim_names));
  return n ? b.s : "(none)";
}
static const char *input_list(feeding *f) {
  ek_tensor_info *t = NEWN(f->k->a, ek_tensor_info, f->n + 1);
  for (int32_t i = 0; i < f->n; i++) t[i] = f->in[i].info;
  return tensor_list(f->k, t, f->n);
}
static const char *meant(feeding *f, const char *word) {
  strvec names = {0};
  for (int32_t i = 0; i < f->n; i++) vec_push(f->k->a, names, f->in[i].info.name);
  return did_you_mean(f->k->a, word, names.v, names.n);
}

/* ---- --input: NAME=SPEC, in_0=SPEC, or SPEC alone -------------------------------------------------------------- */
/* The input that the text before '=' names: *spec is what stands behind. -1: none of them. */
static int32_t named_input(feeding *f, const char *text, const char **spec) {
  for (int numbered = 0; numbered < 2; numbered++)
    for (int32_t i = 0; i < f->n; i++) {
      const char *name = numbered ? arena_fmt(f->k->a, "in_%d", (int)i) : f->in[i].info.name;
      size_t n = strlen(name);
      if (!strncmp(text, name, n) && text[n] == '=') return *spec = text + n + 1, i;
    }
  return -1;
}
static void read_specs(feeding *f) {
  const char *all = NULL, *spec = NULL;
  for (uint32_t j = 0; j < f->k->input.n; j++) {
    const char *s = f->k->input.v[j], *eq = strchr(s, '=');
    int32_t i = named_input(f, s, &spec);
    if (i < 0 && !eq && made_up(s)) {
      all = s;
      continue;
    }
    if (i < 0 && !eq && f->n == 1) i = 0, spec = s;
    if (i < 0)
      ctx_fail(f->k->c, E_USAGE, "--input %s: NAME=SPEC is expected with the name of an input: %s%s", s, input_list(f),
               eq ? meant(f, arena_strndup(f->k->a, s, (size_t)(eq - s))) : "");
    if (f->spec[i]) ctx_fail(f->k->c, E_USAGE, "--input %s: input %s was given before", s, f->in[i].info.name);
    f->spec[i] = spec;
  }
  for (int32_t i = 0; all && i < f->n; i++)
    if (!f->spec[i]) f->spec[i] = all;
}

/* ---- --inputs ---------------------------------------------------------------------------------------------------- */
int32_t array_of(cli *k, const char *array, const char *prefix, const ek_tensor_info *t, int32_t n) {
  size_t len = strlen(prefix);
  for (int32_t i = 0; i < n; i++)
    if (!strcmp(array, t[i].name)) return i;
  if (strncmp(array, prefix, len) != 0) return -1;
  for (int32_t i = 0; i < n; i++)
    if (!strcmp(array + len, t[i].name)) return i;
  for (int32_t i = 0; i < n; i++)
    if (!strcmp(array + len, arena_fmt(k->a, "%d", (int)i))) return i;
  return -1;
}
/* Arrays of results may lie in the same file: those are --expect's, or --against's. */
static bool is_result(feeding *f, const char *array) {
  const char *inputs = f->k->inputs, *expect = f->k->expect ? f->k->expect : f->k->against;
  if (!strncmp(array, "out_", 4) || (expect && !strcmp(inputs, expect))) return true;
  for (int32_t i = 0; i < ek_module_outputs(f->m); i++) {
    ek_tensor_info t;
    if (!ek_module_output(f->m, i, &t) && !strcmp(t.name, array)) return true;
  }
  return false;
}
static void read_file(feeding *f, npz *z) {
  cli *k = f->k;
  ek_tensor_info *t = NEWN(k->a, ek_tensor_info, f->n + 1);
  const char **by = NEWN(k->a, const char *, f->n + 1);
  for (int32_t i = 0; i < f->n; i++) t[i] = f->in[i].info;
  if (!npz_read(k->c, k->inputs, z)) ctx_unwind(k->c);
  for (uint32_t j = 0; j < z->n; j++) {
    const ndarray *d = &z->arrays[j];
    int32_t i = array_of(k, z->names[j], "in_", t, f->n);
    if (i < 0 && is_result(f, z->names[j])) continue;
    if (i < 0)
      diag_error(k->c, E_FAILED, NULL, "%s: its array '%s' %s is none of the model's inputs, which are %s%s", k->inputs,
                 z->names[j], tensor_text(k->a, d->type, d->rank, d->dims, NULL), input_list(f), meant(f, z->names[j]));
    else if (by[i])
      diag_error(k->c, E_FAILED, NULL, "%s: its arrays '%s' and '%s' are both for input %s", k->inputs, by[i],
                 z->names[j], t[i].name);
    else
      by[i] = z->names[j], f->from[i] = d;
  }
}
/* Data for every input, or the word that they are made up. */
static void all_given(feeding *f) {
  cli *k = f->k;
  for (int32_t i = 0; i < f->n; i++) {
    const ek_tensor_info *t = &f->in[i].info;
    if (f->spec[i] || f->from[i]) continue;
    if (!k->inputs && !k->input.n)
      f->spec[i] = "random";
    else
      diag_error(k->c, E_USAGE, NULL,
                 "input %s: %s has no data: %sgive it with --input %s=FILE.npy, or make it up with --input %s=random",
                 t->name, tensor_text(k->a, et_from_onnx((int)t->type), (uint32_t)t->rank, t->dims, t->dim_names),
                 k->inputs ? arena_fmt(k->a, "%s has no array of that name; ", k->inputs) : "", t->name, t->name);
  }
  if (diag_errors(k->c)) ctx_unwind(k->c);
}

/* ---- arrays of files --------------------------------------------------------------------------------------------- */
static void read_array(cli *k, const char *path, ndarray *d) {
  if (!array_file(k->c, path, d)) ctx_unwind(k->c);
}
static void check_fit(cli *k, const ek_tensor_info *t, const ndarray *d) {
  etype want = et_from_onnx((int)t->type);
  bool fits = type_fits(want, d->type) && (int32_t)d->rank == t->rank;
  for (uint32_t i = 0; fits && i < d->rank; i++) fits = t->dims[i] < 0 || t->dims[i] == d->dims[i];
  if (!fits)
    ctx_fail(k->c, E_SHAPE, "input %s: %s is expected, %s was given", t->name,
             tensor_text(k->a, want, (uint32_t)t->rank, t->dims, t->dim_names),
             tensor_text(k->a, d->type, d->rank, d->dims, NULL));
}
static void take_array(feeding *f, int32_t i) {
  host_tensor *t = &f->in[i];
  if (f->spec[i])
    read_array(f->k, f->spec[i], &t->d);
  else
    t->d = *f->from[i];
  const ndarray text = t->d;
  if (text.type == ET_STR && !nd_bytes(f->k->a, &text, &t->d))
    ctx_fail(f->k->c, E_MEMORY, "input %s: too many strings", t->info.name);
  frames_of(f->k, t);
  check_fit(f->k, &t->info, &t->d);
}

/* ---- made-up data ------------------------------------------------------------------------------------------------ */
static void make_array(cli *k, host_tensor *t, const char *spec, int32_t number) {
  ndarray *d = &t->d;
  etype e = et_from_onnx((int)t->info.type);
  int64_t n;
  if (!nd_count(d, &n)) ctx_fail(k->c, E_MEMORY, "input %s: its size overflows", t->info.name);
  void *there = malloc((size_t)n * (et_bytes(e) ? et_bytes(e) : 1));
  if (!there && n)
    ctx_fail(k->c, E_MEMORY, "out of memory: input %s, %s, takes %lld bytes", t->info.name,
             tensor_text(k->a, e, d->rank, d->dims, NULL), (long long)n * et_bytes(e));
  free(there);
  uint8_t *p = arena_array(k->a, (size_t)n + 64, et_bytes(e) ? et_bytes(e) : 1);
  p = (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
  uint64_t seed = k->seed * 1000003u + (uint64_t)number;
  for (int64_t i = 0; i < n && spec[0] != 'z'; i++) {
    scalar v;
    const uint64_t r = random_word(seed, (uint64_t)i);
    if (et_kind(e) == K_FLOAT)
      v.f = spec[0] == 'o' ? 1 : (double)(r >> 11) / 4503599627370496.0 - 1; /* uniform in [-1, 1) */
    else
      v.i = spec[0] == 'o' ? 1 : (int64_t)(r >> 63);
    et_store(e, p + i * et_bytes(e), v);
  }
  d->data = p, d->bytes = (size_t)n * et_bytes(e);
}

/* ---- sizes of made-up data --------------------------------------------------------------------------------------- */
/* By --dim, or from the arrays given. -1: nothing says. */
static int64_t known_dim(feeding *f, const char *name) {
  cli *k = f->k;
  int64_t likely = -1;
  for (uint32_t i = 0; i < k->dims.n; i++) {
    /* options.c has checked that there is a '=' */
    const char *eq = strrchr(k->dims.v[i], '='), *colon = strchr(eq, ':');
    size_t len = (size_t)(eq - k->dims.v[i]);
    if (strlen(name) != len || strncmp(k->dims.v[i], name, len) != 0) continue;
    if (!colon) return strtoll(eq + 1, NULL, 10);
    likely = strtoll(colon[1] == ':' ? eq + 1 : colon + 1, NULL, 10);
  }
  for (int32_t i = 0; i < f->n; i++)
    for (int32_t d = 0; !f->in[i].made && d < f->in[i].info.rank; d++)
      if (f->in[i].info.dim_names[d] && !strcmp(f->in[i].info.dim_names[d], name)) return f->in[i].d.dims[d];
  return likely;
}
/* What --dim names must be there, in a saved library, too; of a model the compiler has looked. */
static void check_dims(feeding *f) {
  cli *k = f->k;
  strvec names = {0};
  for (int32_t i = 0; i < f->n; i++)
    for (int32_t d = 0; d < f->in[i].info.rank; d++)
      if (f->in[i].info.dim_names[d]) vec_push(k->a, names, f->in[i].info.dim_names[d]);
  for (uint32_t j = 0; j < k->dims.n && is_library(k->args.v[0]); j++) {
    const char *name = arena_strndup(k->a, k->dims.v[j], (size_t)(strrchr(k->dims.v[j], '=') - k->dims.v[j]));
    uint32_t i = 0;
    while (i < names.n && strcmp(names.v[i], name) != 0) i++;
    if (i == names.n)
      ctx_fail(k->c, E_USAGE, "--dim %s: no input of this library has an open dimension of that name; it has %s%s",
               name, input_list(f), did_you_mean(k->a, name, names.v, names.n));
  }
}
enum { MOST_OPEN = 64 };
typedef struct open_sizes {
  const char *name[MOST_OPEN]; /* names of open sizes */
  int64_t value[MOST_OPEN];    /* the size chosen for each */
  uint32_t n;                  /* number of open sizes */
} open_sizes;
static void find_open(feeding *f, open_sizes *s) {
  for (int32_t i = 0; i < f->n; i++)
    for (int32_t d = 0; f->in[i].made && d < f->in[i].info.rank; d++) {
      const char *name = f->in[i].info.dim_names[d];
      uint32_t j = 0;
      if (f->in[i].info.dims[d] >= 0 || known_dim(f, name) >= 0) continue;
      while (j < s->n && strcmp(s->name[j], name) != 0) j++;
      if (j == s->n && j < MOST_OPEN) s->name[s->n] = name, s->value[s->n++] = 1;
    }
}
/* Tells the run all sizes, the open ones as s says. */
static ek_code try_sizes(feeding *f, const open_sizes *s) {
  for (int32_t i = 0; i < f->n; i++) {
    host_tensor *t = &f->in[i];
    for (int32_t d = 0; t->made && d < t->info.rank; d++) {
      int64_t v = t->info.dims[d];
      if (v < 0) v = known_dim(f, t->info.dim_names[d]);
      for (uint32_t j = 0; v < 0 && j < s->n; j++)
        if (!strcmp(s->name[j], t->info.dim_names[d])) v = s->value[j];
      t->d.dims[d] = v < 0 ? 1 : v;
    }
    ek_code e = ek_run_shape(f->r, i, t->d.dims, (int32_t)t->d.rank);
    if (e) return e;
  }
  return ek_run_prepare(f->r);
}
/* All the same, from small to large; then small ones of which each differs from the others. */
static bool any_sizes(feeding *f, open_sizes *s) {
  enum { COMMON = 65536, EACH = 8, TRIES = 4096 };
  for (int64_t v = 1; v <= COMMON; v += v < 64 ? 1 : v < 512 ? 8 : v) {
    for (uint32_t j = 0; j < s->n; j++) s->value[j] = v;
    ek_code e = try_sizes(f, s);
    if (e != EK_SHAPE) return e == EK_OK;
  }
  for (uint32_t j = 0; j < s->n; j++) s->value[j] = 1;
  for (int t = 0; s->n > 1 && t < TRIES; t++) {
    uint32_t j = 0;
    while (j < s->n && s->value[j] == EACH) s->value[j++] = 1;
    if (j == s->n) return false;
    s->value[j]++;
    ek_code e = try_sizes(f, s);
    if (e != EK_SHAPE) return e == EK_OK;
  }
  return false;
}
static void choose_sizes(feeding *f) {
  open_sizes s = {0};
  find_open(f, &s);
  if (!s.n || !any_sizes(f, &s)) {
    for (uint32_t j = 0; j < s.n; j++) s.value[j] = 1;
    ek_code e = try_sizes(f, &s);
    if (e) ctx_fail(f->k->c, (ecode)e, "%s", ek_run_message(f->r));
    return;
  }
  for (uint32_t j = 0; j < s.n; j++) { /* each open size becomes as small as the others allow */
    int64_t most = s.value[j];
    for (s.value[j] = 1; s.value[j] < most && try_sizes(f, &s) != EK_OK; s.value[j]++) {}
  }
  try_sizes(f, &s);
  sbuf b = sbuf_new(f->k->a);
  for (uint32_t j = 0; j < s.n; j++) sb_fmt(&b, "%s%s=%lld", j ? "," : "", s.name[j], (long long)s.value[j]);
  say(f->k, "open sizes: the least that run, %s (--dim says others)\n", b.s);
}

/* ---- all inputs -------------------------------------------------------------------------------------------------- */
static void find_inputs(feeding *f) {
  npz z = {0};
  for (int32_t i = 0; i < f->n; i++) ek_module_input(f->m, i, &f->in[i].info);
  check_dims(f);
  read_specs(f);
  if (f->k->inputs) read_file(f, &z);
  all_given(f);
  sbuf random = sbuf_new(f->k->a);
  for (int32_t i = 0; i < f->n; i++) {
    host_tensor *t = &f->in[i];
    t->made = f->spec[i] && made_up(f->spec[i]);
    t->d = (ndarray){.type = et_from_onnx((int)t->info.type), .rank = (uint32_t)t->info.rank};
    if (!t->made) take_array(f, i);
  }
  choose_sizes(f);
  for (int32_t i = 0; i < f->n; i++) {
    host_tensor *t = &f->in[i];
    if (!t->made) continue;
    make_array(f->k, t, f->spec[i], i);
    if (f->spec[i][0] == 'r')
      sb_fmt(&random, "%s%s %s", random.n ? ", " : "", t->info.name,
             tensor_text(f->k->a, t->d.type, t->d.rank, t->d.dims, NULL));
  }
  if (random.n) say(f->k, "random data (seed %llu) for: %s\n", (unsigned long long)f->k->seed, random.s);
}
bool bind_inputs(cli *k, ek_module *m, ek_run *r, host_tensor **in, int *code) {
  int32_t n = ek_module_inputs(m);
  feeding f = {.k = k, .m = m, .r = r, .n = n};
  *in = f.in = NEWN(k->a, host_tensor, n + 1);
  f.spec = NEWN(k->a, const char *, n + 1);
  f.from = NEWN(k->a, const ndarray *, n + 1);
  find_inputs(&f);
  for (int32_t i = 0; i < n; i++) {
    host_tensor *t = &(*in)[i];
    ek_code e = ek_run_shape(r, i, t->d.dims, (int32_t)t->d.rank);
    if ((uintptr_t)t->d.data % 8) { /* members of an .npz lie anywhere */
      const size_t bytes = t->d.bytes * (size_t)(t->frames ? t->frames : 1);
      uint8_t *copy = arena_alloc(k->a, bytes + 1);
      memcpy(copy, t->d.data, bytes);
      t->d.data = copy;
    }
    if (!e) e = ek_run_bind_input(r, i, t->d.data);
    if (e) {
      *code = fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(r)));
      return false;
    }
  }
  return true;
}
