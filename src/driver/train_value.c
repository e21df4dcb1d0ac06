/* The value of a metric, from its sums: by the definition of the same name in einkorn.metric_value, which the evaluator
 * runs, or by division. */
#include "driver/train_value.h"
#include "eval/eval.h"
#include <string.h>

double train_metric_value(ctx *c, const oplib *lib, const train_rule *r, const double *sums, size_t n) {
  const opdef *d = notation_find(lib, TRAIN_VALUE_DOMAIN, opdef_name(r->d));
  if (!d && n < 2)
    ctx_fail(c, E_USAGE, "metric %s: the value is the first sum by the second; there are %zu", opdef_name(r->d), n);
  if (!d) return sums[0] / sums[1];
  emodule *m = expr_module(c);
  sattr *attrs = NEWN(m->a, sattr, r->n + 1);
  uint32_t nattrs = 0;
  for (uint32_t i = 0; i < r->n; i++)
    for (uint32_t k = 0; k < opdef_attrs(d); k++) {
      skind kind;
      if (!strcmp(opdef_attr(d, k, &kind), r->attrs[i].name)) attrs[nattrs++] = r->attrs[i];
    }
  const ndarray data = {.type = ET_F64, .rank = 1, .dims = {(int64_t)n}, .data = sums, .bytes = n * sizeof *sums};
  const tid in = expr_const_tensor(m, &data, "S");
  const arg x = {.present = true, .type = ET_F64, .rank = 1, .shape = xt(m, in)->shape, .t = in};
  arg value = {.want = true};
  if (!notation_elaborate(lib, d, m, 0, opdef_name(d), &x, 1, attrs, nattrs, &value, 1))
    ctx_fail(c, E_SHAPE, "metric %s: it has no value for %zu sums", opdef_name(d), n);
  if (value.type != ET_F64 || value.rank)
    ctx_fail(c, E_USAGE, "metric %s: its value is no number of f64", opdef_name(d));
  return *(const double *)expr_eval_get(expr_eval_new(m, m->a, 1), value.t)->data;
}
