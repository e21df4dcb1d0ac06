/* Are the results what --expect says? Each array of the file must be for an output, or for a value on the way, which is
 * an output then (watch.c), or for an input: a case's file may hold all of them. */
#include "cli/cli.h"
#include <string.h>

const char *place_text(arena *a, uint32_t rank, const int64_t *at) {
  sbuf b = sbuf_new(a);
  sb_put(&b, "[");
  for (uint32_t i = 0; i < rank; i++) sb_fmt(&b, "%s%lld", i ? ", " : "", (long long)at[i]);
  sb_putc(&b, ']');
  return b.s;
}
static const char *place(arena *a, const ndarray *d, int64_t at) { /* of the element with this number */
  int64_t idx[MAX_RANK];
  for (uint32_t i = d->rank; i-- > 0;) {
    idx[i] = at % d->dims[i];
    at /= d->dims[i];
  }
  return place_text(a, d->rank, idx);
}
bool tell_comparison(cli *k, const ndarray *d, const char *name, const ndarray *want, json *j) {
  if (!want) {
    if (k->json)
      json_null(j, "equal");
    else if (!k->quiet)
      printf("%s: no expected values\n", name);
    return true;
  }
  comparison r = compare(k, d, want);
  if (k->json) {
    json_bool(j, "equal", r.same);
    if (r.why) json_str(j, "why", r.why);
    json_num(j, "max_abs", r.max_abs);
    json_num(j, "max_rel", r.max_rel);
    json_int(j, "wrong", r.wrong);
    return r.same;
  }
  bool c = colors(1);
  if (r.same && k->quiet) return true;
  printf("%s %s  ", name, tensor_text(k->a, d->type, d->rank, d->dims, NULL));
  if (r.why)
    printf("%s  ", r.why);
  else
    printf("largest absolute error %.3g, relative %.3g  ", r.max_abs, r.max_rel);
  printf("%s%s%s\n", c ? r.same ? "\033[32m" : "\033[31m" : "", r.same ? "ok" : "MISMATCH", c ? "\033[0m" : "");
  if (r.wrong)
    printf("  %lld of %lld differ, first at %s: %.9g, expected %.9g\n", (long long)r.wrong, (long long)r.count,
           place(k->a, d, r.first), r.got, r.want);
  return r.same;
}

static ek_tensor_info *tensors(cli *k, ek_module *m, int32_t n,
                               ek_code (*of)(const ek_module *, int32_t, ek_tensor_info *)) {
  ek_tensor_info *t = NEWN(k->a, ek_tensor_info, n + 1);
  for (int32_t i = 0; i < n; i++) of(m, i, &t[i]);
  return t;
}
void read_expected(cli *k, ek_module *m, expected *e) {
  int32_t ni = ek_module_inputs(m), no = ek_module_outputs(m);
  ek_tensor_info *in = tensors(k, m, ni, ek_module_input), *out = tensors(k, m, no, ek_module_output);
  const char **by = NEWN(k->a, const char *, no + 1);
  strvec names = {0};
  bool any = false;
  e->of = NEWN(k->a, const ndarray *, no + 1);
  for (int32_t i = 0; i < no; i++) vec_push(k->a, names, out[i].name);
  if (!npz_read(k->c, k->expect, &e->file)) ctx_unwind(k->c);
  for (uint32_t j = 0; j < e->file.n; j++) {
    const char *name = e->file.names[j];
    int32_t i = array_of(k, name, "out_", out, no);
    any |= i >= 0;
    if (i < 0 && array_of(k, name, "in_", in, ni) >= 0) continue;
    if (i < 0)
      diag_error(
          k->c, E_FAILED, NULL,
          "%s: its array '%s' is none of the outputs, which are %s, and no tensor that the model computes on the way%s",
          k->expect, name, tensor_list(k, out, no), did_you_mean(k->a, name, names.v, names.n));
    else if (by[i])
      diag_error(k->c, E_FAILED, NULL, "%s: its arrays '%s' and '%s' are both for output %s", k->expect, by[i], name,
                 out[i].name);
    else
      by[i] = name, e->of[i] = &e->file.arrays[j];
  }
  if (!any && no)
    diag_error(k->c, E_FAILED, NULL, "%s has no array for any output of the model, which are %s", k->expect,
               tensor_list(k, out, no));
  if (diag_errors(k->c)) ctx_unwind(k->c);
}
