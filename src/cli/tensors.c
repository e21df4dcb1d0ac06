/* Data in and out: arrays from files, made-up ones, and how far results are from what was expected. */
#include "cli/cli.h"
#include "notation/notation.h"
#include "onnx/onnx.h"
#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

const char *tensor_text(arena *a, etype t, uint32_t rank, const int64_t *dims, const char *const *names) {
  sbuf b = sbuf_new(a);
  sb_fmt(&b, "%s[", t ? et_name(t) : "?");
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0 && names && names[i])
      sb_fmt(&b, "%s%s", i ? ", " : "", names[i]);
    else
      sb_fmt(&b, "%s%lld", i ? ", " : "", (long long)dims[i]);
  }
  sb_putc(&b, ']');
  return b.s;
}
bool is_library(const char *path) {
  char magic[4] = {0};
  FILE *f = fopen(path, "rbe");
  size_t n = f ? fread(magic, 1, 4, f) : 0;
  if (f) fclose(f);
  return n == 4 && !memcmp(magic, "\177ELF", 4);
}
bool open_module(cli *k, const char *path, ek_model **model, ek_module **module, int *code) {
  *model = NULL;
  ek_code e;
  if (is_library(path))
    e = ek_module_load(k->s, path, module);
  else {
    ek_options o = compile_options(k);
    e = ek_load(k->s, path, model);
    if (!e) e = ek_compile(*model, &o, module);
  }
  if (e == EK_CANCELLED && k->stop_after) {
    print_times(k);
    *code = EXIT_DONE;
    return false;
  }
  if (e) *code = fail(k, e);
  return !e;
}

/* ---- where an input's data comes from -------------------------------------------------------- */
const ndarray *find_array(const npz *z, const char *prefix, const char *name, int32_t i) {
  char number[32];
  size_t n = strlen(prefix);
  const ndarray *named = NULL, *numbered = NULL;
  snprintf(number, sizeof number, "%s%d", prefix, (int)i);
  for (uint32_t j = 0; j < z->n; j++) {
    if (!strcmp(z->names[j], name)) return &z->arrays[j];
    if (!strncmp(z->names[j], prefix, n) && !strcmp(z->names[j] + n, name)) named = &z->arrays[j];
    if (!strcmp(z->names[j], number)) numbered = &z->arrays[j];
  }
  return named ? named : numbered;
}
/* --input NAME=SPEC, --input in_0=SPEC, or --input SPEC for the only input */
static const char *spec_of(cli *k, const char *name, int32_t i) {
  char number[32];
  snprintf(number, sizeof number, "in_%d", (int)i);
  const char *found = NULL;
  for (uint32_t j = 0; j < k->input.n; j++) {
    const char *s = k->input.v[j];
    size_t n = strlen(name);
    if (!strncmp(s, name, n) && s[n] == '=') return s + n + 1;
    n = strlen(number);
    if (!strncmp(s, number, n) && s[n] == '=') found = s + n + 1;
  }
  return found;
}
static void check_specs(cli *k, ek_module *m) { /* every --input must name an input */
  for (uint32_t j = 0; j < k->input.n; j++) {
    const char *s = k->input.v[j];
    bool hit = false;
    sbuf known = sbuf_new(k->a);
    for (int32_t i = 0; i < ek_module_inputs(m); i++) {
      ek_tensor_info t;
      char number[32];
      ek_module_input(m, i, &t);
      snprintf(number, sizeof number, "in_%d=", (int)i);
      size_t n = strlen(t.name);
      hit |= (!strncmp(s, t.name, n) && s[n] == '=') || !strncmp(s, number, strlen(number));
      sb_fmt(&known, "%s%s", i ? ", " : "", t.name);
    }
    if (!hit)
      ctx_fail(k->c, E_USAGE, "--input %s: NAME=SPEC is expected with the name of an input: %s", s,
               known.s ? known.s : "(none)");
  }
}
bool ends_in(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && !strcmp(s + n - m, suffix);
}
static bool read_array(cli *k, const char *path, ndarray *d) {
  bytes b;
  const char *name;
  if (ends_in(path, ".pb")) return onnx_tensor_file(k->c, path, d, &name);
  return file_map(k->c, path, &b) && npy_read(k->c, b, path, d);
}
/* numpy has no bf16 or narrower types: arrays of their bits are taken */
static bool type_fits(etype want, etype got) {
  if (want == got) return true;
  if (want == ET_BF16) return got == ET_U16 || got == ET_I16;
  if (et_bytes(want) == 1 && et_kind(want) != K_BOOL)
    return (et_bits(want) < 8 || et_kind(want) == K_FLOAT) && (got == ET_U8 || got == ET_I8);
  return false;
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

/* ---- made-up data ---------------------------------------------------------------------------- */
static uint64_t next_random(uint64_t *s) { /* splitmix64 */
  uint64_t z = (*s += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static void make_array(cli *k, const ek_tensor_info *t, const int64_t *dims, const char *spec, int32_t number,
                       ndarray *d) {
  etype e = et_from_onnx((int)t->type);
  *d = (ndarray){.type = e, .rank = (uint32_t)t->rank};
  memcpy(d->dims, dims, (size_t)t->rank * sizeof *dims);
  int64_t n;
  if (!nd_count(d, &n)) ctx_fail(k->c, E_MEMORY, "input %s: its size overflows", t->name);
  uint8_t *p = arena_array(k->a, (size_t)n + 64, et_bytes(e) ? et_bytes(e) : 1);
  p = (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
  uint64_t seed = k->seed * 1000003u + (uint64_t)number;
  for (int64_t i = 0; i < n && spec[0] != 'z'; i++) {
    scalar v;
    uint64_t r = next_random(&seed);
    if (et_kind(e) == K_FLOAT)
      v.f = spec[0] == 'o' ? 1 : (double)(r >> 11) / 4503599627370496.0 - 1; /* uniform in [-1, 1) */
    else
      v.i = spec[0] == 'o' ? 1 : (int64_t)(r >> 63);
    et_store(e, p + i * et_bytes(e), v);
  }
  d->data = p, d->bytes = (size_t)n * et_bytes(e);
}

/* ---- all inputs ------------------------------------------------------------------------------ */
/* by --dim, or from the arrays given */
static int64_t known_dim(cli *k, const host_tensor *in, int32_t n, const char *name) {
  int64_t likely = 1;
  for (uint32_t i = 0; i < k->dims.n; i++) {
    const char *eq = strrchr(k->dims.v[i], '='), *colon = strchr(eq, ':');
    size_t len = (size_t)(eq - k->dims.v[i]);
    if (strlen(name) != len || strncmp(k->dims.v[i], name, len) != 0) continue;
    if (!colon) return strtoll(eq + 1, NULL, 10);
    likely = strtoll(colon[1] == ':' ? eq + 1 : colon + 1, NULL, 10);
  }
  for (int32_t i = 0; i < n; i++)
    for (int32_t d = 0; !in[i].made && d < in[i].info.rank; d++)
      if (in[i].info.dim_names[d] && !strcmp(in[i].info.dim_names[d], name)) return in[i].d.dims[d];
  return likely;
}
static void find_inputs(cli *k, ek_module *m, host_tensor *in, int32_t n) {
  npz z = {0};
  check_specs(k, m);
  if (k->inputs && !npz_read(k->c, k->inputs, &z)) ctx_unwind(k->c);
  for (int32_t i = 0; i < n; i++) {
    ek_module_input(m, i, &in[i].info);
    const char *spec = spec_of(k, in[i].info.name, i);
    const ndarray *found = find_array(&z, "in_", in[i].info.name, i);
    in[i].made = spec ? !strcmp(spec, "random") || !strcmp(spec, "zeros") || !strcmp(spec, "ones") : !found;
    if (in[i].made) continue;
    if (!spec)
      in[i].d = *found;
    else if (!read_array(k, spec, &in[i].d))
      ctx_unwind(k->c);
    const ndarray text = in[i].d;
    if (text.type == ET_STR && !notation_text(k->a, &text, &in[i].d))
      ctx_fail(k->c, E_MEMORY, "input %s: too many strings", in[i].info.name);
    check_fit(k, &in[i].info, &in[i].d);
  }
  sbuf random = sbuf_new(k->a);
  for (int32_t i = 0; i < n; i++) {
    if (!in[i].made) continue;
    const char *spec = spec_of(k, in[i].info.name, i);
    int64_t dims[MAX_RANK];
    for (int32_t d = 0; d < in[i].info.rank; d++)
      dims[d] = in[i].info.dims[d] >= 0 ? in[i].info.dims[d] : known_dim(k, in, n, in[i].info.dim_names[d]);
    make_array(k, &in[i].info, dims, spec ? spec : "random", i, &in[i].d);
    if (!spec)
      sb_fmt(&random, "%s%s %s", random.n ? ", " : "", in[i].info.name,
             tensor_text(k->a, in[i].d.type, in[i].d.rank, in[i].d.dims, NULL));
  }
  if (random.n) say(k, "random data (seed %llu) for: %s\n", (unsigned long long)k->seed, random.s);
}
bool bind_inputs(cli *k, ek_module *m, ek_run *r, host_tensor **in, int *code) {
  int32_t n = ek_module_inputs(m);
  *in = NEWN(k->a, host_tensor, n + 1);
  find_inputs(k, m, *in, n);
  for (int32_t i = 0; i < n; i++) {
    const ndarray *d = &(*in)[i].d;
    ek_code e = ek_run_shape(r, i, d->dims, (int32_t)d->rank);
    const void *data = d->data;
    if ((uintptr_t)data % 8) { /* members of an .npz lie anywhere */
      uint8_t *copy = arena_alloc(k->a, d->bytes + 1);
      memcpy(copy, data, d->bytes);
      data = copy;
    }
    if (!e) e = ek_run_bind_input(r, i, data);
    if (e) {
      *code = fail_text(k, e, arena_fmt(k->a, "error: %s", ek_run_message(r)));
      return false;
    }
  }
  return true;
}

/* ---- results --------------------------------------------------------------------------------- */
ndarray output_array(ek_module *m, ek_run *r, int32_t i, ek_tensor_info *info) {
  ndarray d = {0};
  int32_t rank = 0;
  int64_t n = 0;
  ek_module_output(m, i, info);
  d.type = et_from_onnx((int)info->type);
  ek_run_output_dims(r, i, d.dims, &rank);
  d.rank = (uint32_t)rank;
  d.data = ek_run_output_data(r, i);
  if (nd_count(&d, &n)) d.bytes = (size_t)n * et_bytes(d.type);
  return d;
}
static double number(etype t, const void *p) {
  scalar v = et_load(t, p);
  return et_kind(t) == K_FLOAT ? v.f : t == ET_U64 ? (double)(uint64_t)v.i : (double)v.i;
}
double array_number(const ndarray *d, int64_t i) {
  return number(d->type, (const uint8_t *)d->data + i * et_bytes(d->type));
}
/* Strings as the bytes a model gives: at least as many for each as the model has room for. */
static ndarray as_bytes(cli *k, const ndarray *want, const ndarray *got) {
  ndarray b = *want;
  if (want->type != ET_STR || got->rank != want->rank + 1 || !notation_text(k->a, want, &b)) return *want;
  int64_t n, w = b.dims[want->rank], room = got->dims[want->rank];
  if (w >= room || !nd_count(want, &n)) return b;
  uint8_t *p = arena_array(k->a, (size_t)n + 1, (size_t)room);
  for (int64_t i = 0; i < n; i++) memcpy(p + i * room, (const uint8_t *)b.data + i * w, (size_t)w);
  b.dims[want->rank] = room, b.data = p, b.bytes = (size_t)(n * room);
  return b;
}
comparison compare(cli *k, const ndarray *got, const ndarray *expected) {
  comparison r = {.first = -1};
  const ndarray bytes_of = as_bytes(k, expected, got), *want = &bytes_of;
  bool same_rank = got->rank == want->rank;
  for (uint32_t i = 0; same_rank && i < got->rank; i++) same_rank = got->dims[i] == want->dims[i];
  etype wt = want->type;
  if (wt != got->type && type_fits(got->type, wt)) wt = got->type; /* its bits */
  bool floats = et_kind(got->type) == K_FLOAT;
  if (!same_rank || (wt != got->type && !(floats && et_kind(wt) == K_FLOAT))) {
    r.why = arena_fmt(k->a, "%s is expected, got %s", tensor_text(k->a, want->type, want->rank, want->dims, NULL),
                      tensor_text(k->a, got->type, got->rank, got->dims, NULL));
    return r;
  }
  r.fits = true;
  nd_count(got, &r.count);
  double rtol = floats || k->tolerances ? k->rtol : 0, atol = floats || k->tolerances ? k->atol : 0;
  for (int64_t i = 0; i < r.count; i++) {
    const void *gp = (const uint8_t *)got->data + i * et_bytes(got->type),
               *wp = (const uint8_t *)want->data + i * et_bytes(wt);
    double g = number(got->type, gp), w = number(wt, wp), d = fabs(g - w);
    bool exact = !floats && et_load(got->type, gp).i == et_load(wt, wp).i;
    if (exact || g == w || (isnan(g) && isnan(w))) continue;
    if (isnan(d)) d = INFINITY;
    if (d > r.max_abs) r.max_abs = d;
    double rel = w != 0 ? d / fabs(w) : INFINITY;
    if (rel > r.max_rel && (w != 0 || d > atol)) r.max_rel = rel;
    if (d <= atol + rtol * fabs(w) && isfinite(w)) continue;
    if (!r.wrong++) r.first = i, r.got = g, r.want = w;
  }
  r.same = r.wrong == 0;
  return r;
}
