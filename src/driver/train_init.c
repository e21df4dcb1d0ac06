/* First values of a trainer's parameters: the model is lowered, for its index formulas say how each is used
 * (train/initial.c), and the states of the step get the values that follow. */
#include "driver/train_init.h"
#include "train/train.h"
#include <string.h>

static void setup(pipeline *p, void *env) { inner_apply(p, ((const initial_values *)env)->model); }
static tid input_of(const emodule *m, const char *name) {
  for (uint32_t i = 0; i < m->inputs.n; i++)
    if (!strcmp(m->inputs.v[i].name, name)) return m->inputs.v[i].t;
  return 0;
}
static ek_code set_values(pipeline *p, void *env) {
  const initial_values *v = env;
  const train_initial how = train_initial_of(p->c, v->how);
  for (uint32_t i = 0; i < v->names->n; i++) {
    const char *name = v->names->v[i];
    ek_array x;
    const tid t = input_of(p->m, name);
    if (!t || ek_run_snapshot(v->run, name, &x)) continue;
    const train_use u = train_use_of(p->m, t);
    const ndarray now = {.type = et_from_onnx((int)x.type), .data = x.data, .bytes = x.bytes};
    void *to = arena_alloc(p->a, x.bytes);
    if (!train_begin(&u, how, v->seed, name, &now, to)) continue;
    if (ek_run_restore(v->run, name, to, x.bytes, x.dims, x.rank))
      ctx_fail(p->c, E_FAILED, "%s", ek_run_message(v->run));
  }
  return EK_OK;
}
ek_code train_initialise(ek_model *m, const ek_options *o, const initial_values *v) {
  return in_pipe(m, o, setup, set_values, (void *)(uintptr_t)v, NULL);
}
