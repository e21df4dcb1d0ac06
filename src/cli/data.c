/* Samples of a model's inputs, from the files and folders of --data. A file holds arrays whose first axis counts
 * samples: it is an axis more than the input has, or the input's own first axis, which then is taken in pieces of the
 * input's size (1 where that is open). An array of just the input's sizes is the same in each sample of the file; where
 * numbers of samples would differ, such a file is one sample. A folder holds such files, or is one sample itself:
 * input_0.pb, input_1.pb, .., as the ONNX standard's test data; or it holds folders of these. */
#include "cli/cli.h"
#include "driver/array_file.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct input_array {
  ndarray d;     /* one sample; data: of the first */
  size_t step;   /* bytes from one sample to the next; 0: the same in each */
  size_t places; /* number of samples; 1: the array is one, or the same in each */
} input_array;
typedef struct data_part {
  const char *path; /* file or folder, for messages */
  input_array *in;  /* of each input */
  size_t samples;   /* number of samples */
} data_part;
struct data_set {
  cli *k;                   /* the program */
  const ek_tensor_info *in; /* inputs of the model */
  int32_t n;                /* number of inputs */
  VEC(data_part) parts;     /* in the order of the options */
  size_t samples;           /* of all */
  void **aligned;           /* of each input: memory for a sample that lies at an odd place */
};

/* ---- one array ------------------------------------------------------------------------------- */
/* Do the sizes of d, from axis `skip` on, fit the input's, from axis `from` on? */
static bool fits(const ndarray *d, uint32_t skip, const ek_tensor_info *t, int32_t from) {
  if ((int32_t)(d->rank - skip) != t->rank - from) return false;
  for (int32_t i = from; i < t->rank; i++)
    if (t->dims[i] >= 0 && t->dims[i] != d->dims[skip + (uint32_t)(i - from)]) return false;
  return true;
}
static void drop_axis(ndarray *d) {
  d->rank--;
  memmove(d->dims, d->dims + 1, d->rank * sizeof *d->dims);
}
static bool has_samples(const ndarray *d, const ek_tensor_info *t) {
  const int64_t piece = t->rank > 0 && t->dims[0] >= 0 ? t->dims[0] : 1;
  return fits(d, 1, t, 0) || (t->rank > 0 && fits(d, 1, t, 1) && piece > 0 && d->dims[0] % piece == 0);
}
static input_array one_sample(const ndarray *whole) { return (input_array){.d = *whole, .places = 1}; }
static input_array all_samples(data_set *s, const char *path, const ek_tensor_info *t, const ndarray *whole) {
  input_array x = one_sample(whole);
  ndarray *d = &x.d;
  const int64_t piece = t->rank > 0 && t->dims[0] >= 0 ? t->dims[0] : 1;
  if (!has_samples(d, t)) return x;
  if (fits(d, 1, t, 0)) {
    x.places = (size_t)d->dims[0];
    drop_axis(d);
  } else
    x.places = (size_t)(d->dims[0] / piece), d->dims[0] = piece;
  if (!x.places) ctx_fail(s->k->c, E_SHAPE, "%s: the array of input %s has no sample", path, t->name);
  d->bytes = whole->bytes / x.places;
  x.step = x.places > 1 ? d->bytes : 0;
  return x;
}
static void check_array(data_set *s, const char *path, const ek_tensor_info *t, ndarray *d) {
  const etype want = et_from_onnx((int)t->type);
  const ndarray text = *d;
  if (text.type == ET_STR && !nd_bytes(s->k->a, &text, d))
    ctx_fail(s->k->c, E_MEMORY, "%s: input %s: too many strings", path, t->name);
  if (!type_fits(want, d->type) || !(has_samples(d, t) || fits(d, 0, t, 0)))
    ctx_fail(s->k->c, E_SHAPE,
             "%s: input %s: samples of %s are expected, one after the other along the first axis; the array is %s",
             path, t->name, tensor_text(s->k->a, want, (uint32_t)t->rank, t->dims, t->dim_names),
             tensor_text(s->k->a, d->type, d->rank, d->dims, NULL));
  d->type = want;
}

/* ---- files ----------------------------------------------------------------------------------- */
static const char *all_inputs(const data_set *s) { return tensor_list(s->k, s->in, s->n); }
/* Numbers of samples differ: the file is one sample, if all arrays have just the inputs' sizes. */
static void take_as_one(data_set *s, data_part *p, ndarray *arrays) {
  for (int32_t i = 0; i < s->n; i++) {
    if (!fits(&arrays[i], 0, &s->in[i], 0))
      ctx_fail(s->k->c, E_SHAPE, "%s: input %s has %zu samples, another input has %zu", p->path, s->in[i].name,
               p->in[i].places, p->samples);
    p->in[i] = one_sample(&arrays[i]);
  }
  p->samples = 1;
}
/* A part of which *of[i] is input i's; NULL: there is none. one: it is one sample. */
static void add_part(data_set *s, const char *path, const ndarray *const *of, bool one) {
  data_part p = {.path = path, .in = NEWN(s->k->a, input_array, s->n + 1), .samples = 1};
  ndarray *arrays = NEWN(s->k->a, ndarray, s->n + 1);
  for (int32_t i = 0; i < s->n; i++) {
    if (!of[i])
      ctx_fail(s->k->c, E_USAGE, "%s has no array for input %s; the model's inputs are %s", path, s->in[i].name,
               all_inputs(s));
    arrays[i] = *of[i];
    check_array(s, path, &s->in[i], &arrays[i]);
    p.in[i] = all_samples(s, path, &s->in[i], &arrays[i]);
    if (p.in[i].places > p.samples) p.samples = p.in[i].places;
  }
  for (int32_t i = 0; i < s->n; i++) one |= p.in[i].places > 1 && p.in[i].places != p.samples;
  if (one) take_as_one(s, &p, arrays);
  vec_push(s->k->a, s->parts, p);
  s->samples += p.samples;
}
static void read_npz(data_set *s, const char *path) {
  npz z = {0};
  const ndarray **of = NEWN(s->k->a, const ndarray *, s->n + 1);
  if (!npz_read(s->k->c, path, &z)) ctx_unwind(s->k->c);
  for (uint32_t j = 0; j < z.n; j++) {
    const int32_t i = array_of(s->k, z.names[j], "in_", s->in, s->n);
    if (i >= 0) of[i] = &z.arrays[j];
  }
  add_part(s, path, of, false);
}
static ndarray *read_one(data_set *s, const char *path) {
  ndarray *d = NEW(s->k->a, ndarray);
  if (!array_file(s->k->c, path, d)) ctx_unwind(s->k->c);
  return d;
}
static void read_file(data_set *s, const char *path) {
  if (ends_in(path, ".npz")) {
    read_npz(s, path);
    return;
  }
  if (file_exists(path) && !ends_in(path, ".npy") && !ends_in(path, ".pb"))
    ctx_fail(s->k->c, E_UNSUPPORTED, "%s: samples are read from .npz, .npy and .pb files", path);
  if (s->n != 1)
    ctx_fail(s->k->c, E_USAGE, "%s holds one array, the model has %d inputs: %s; give a .npz with an array for each",
             path, (int)s->n, all_inputs(s));
  add_part(s, path, (const ndarray *const[]){read_one(s, path)}, ends_in(path, ".pb"));
}

/* ---- folders --------------------------------------------------------------------------------- */
static bool is_file(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode);
}
/* input_0.pb, input_1.pb, ..: one sample. False: the folder has none of them. */
static bool read_test_data(data_set *s, const char *path) {
  const ndarray **of = NEWN(s->k->a, const ndarray *, s->n + 1);
  if (!is_file(arena_fmt(s->k->a, "%s/input_0.pb", path))) return false;
  for (int32_t i = 0; i < s->n; i++) {
    const char *file = arena_fmt(s->k->a, "%s/input_%d.pb", path, (int)i);
    if (is_file(file)) of[i] = read_one(s, file);
  }
  add_part(s, path, of, true);
  return true;
}
static void read_path(data_set *s, const char *path) {
  if (!is_folder(path)) {
    read_file(s, path);
    return;
  }
  if (read_test_data(s, path)) return;
  const size_t before = s->samples;
  strvec names;
  if (!folder_names(s->k->c, path, &names)) ctx_unwind(s->k->c);
  for (uint32_t i = 0; i < names.n; i++) {
    const char *name = path_join(s->k->a, path, names.v[i]);
    if (is_folder(name))
      read_test_data(s, name);
    else if (ends_in(name, ".npz") || ends_in(name, ".npy") || ends_in(name, ".pb"))
      read_file(s, name);
  }
  if (s->samples == before)
    ctx_fail(s->k->c, E_IO,
             "the folder %s has no data: .npz, .npy or .pb files, or folders with input_0.pb are expected", path);
}
data_set *data_read(cli *k, const ek_tensor_info *in, int32_t n) {
  data_set *s = NEW(k->a, data_set);
  *s = (data_set){.k = k, .in = in, .n = n, .aligned = NEWN(k->a, void *, n + 1)};
  for (uint32_t i = 0; i < k->data.n; i++) read_path(s, k->data.v[i]);
  return s;
}
size_t data_samples(const data_set *s) { return s->samples; }

/* ---- one sample ------------------------------------------------------------------------------ */
int data_sample(void *user, size_t i, ek_array *inputs, size_t n) {
  data_set *s = user;
  uint32_t p = 0;
  while (p < s->parts.n && i >= s->parts.v[p].samples) i -= s->parts.v[p++].samples;
  if (p == s->parts.n || n != (size_t)s->n) return 1;
  for (int32_t k = 0; k < s->n; k++) {
    const input_array *x = &s->parts.v[p].in[k];
    const uint8_t *data = (const uint8_t *)x->d.data + i * x->step;
    if ((uintptr_t)data % 8) {
      void *to = realloc(s->aligned[k], x->d.bytes + 1);
      if (!to) return 1;
      s->aligned[k] = to;
      data = memcpy(to, data, x->d.bytes);
    }
    inputs[k].type = s->in[k].type, inputs[k].rank = (int32_t)x->d.rank, inputs[k].data = data;
    inputs[k].bytes = x->d.bytes;
    memcpy(inputs[k].dims, x->d.dims, x->d.rank * sizeof *x->d.dims);
  }
  return 0;
}
