/* Models as modules, their results as arrays, and how far these are from what was expected. */
#include "cli/cli.h"
#include <math.h>
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
    if (!e && !watched(k, *model, &o.watch, code)) return false;
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

bool ends_in(const char *s, const char *suffix) {
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && !strcmp(s + n - m, suffix);
}
/* numpy has no bf16 or narrower types: arrays of their bits are taken */
bool type_fits(etype want, etype got) {
  if (want == got) return true;
  if (want == ET_BF16) return got == ET_U16 || got == ET_I16;
  if (et_bytes(want) == 1 && et_kind(want) != K_BOOL)
    return (et_bits(want) < 8 || et_kind(want) == K_FLOAT) && (got == ET_U8 || got == ET_I8);
  return false;
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
double array_number(const ndarray *d, int64_t i) {
  return et_number(d->type, (const uint8_t *)d->data + i * et_bytes(d->type));
}
/* Strings as the bytes a model gives: at least as many for each as the model has room for. */
static ndarray as_bytes(cli *k, const ndarray *want, const ndarray *got) {
  ndarray b = *want;
  if (want->type != ET_STR || got->rank != want->rank + 1 || !nd_bytes(k->a, want, &b)) return *want;
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
  if (wt != got->type && type_fits(got->type, wt)) wt = got->type; /* the array holds the bits of the type */
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
    double g = et_number(got->type, gp), w = et_number(wt, wp), d = fabs(g - w);
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
