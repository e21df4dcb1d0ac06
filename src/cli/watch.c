/* Values on the way: what --dump and --expect ask for beside the model's outputs, and where it goes. The compiler makes
 * outputs of them (ek_options.watch); here they are told apart from the model's own. */
#include "cli/cli.h"
#include <string.h>

static const ek_value_info *values_of(cli *k, ek_model *model, size_t *n) {
  const ek_value_info *v = NULL;
  ek_code e = ek_model_values(model, &v, n);
  if (e) ctx_fail(k->c, (ecode)e, "%s", session_text(k));
  return v;
}
static bool names(const char *what, const ek_value_info *v) {
  return !strcmp(what, "all") || !strcmp(what, v->name) || !strcmp(what, v->node);
}
/* An output that is tied to an input is no output any more. */
static bool is_state(const cli *k, const char *name) {
  const size_t n = strlen(name);
  for (uint32_t i = 0; i < k->states.n; i++)
    if (!strncmp(k->states.v[i], name, n) && k->states.v[i][n] == '=') return true;
  return false;
}
bool watched(cli *k, ek_model *model, const char *const **out, int *code) {
  size_t n = 0;
  npz z = {0};
  *out = NULL;
  if (!k->dump.n && !k->expect) return true;
  const ek_value_info *v = values_of(k, model, &n);
  if (k->expect && !npz_read(k->c, k->expect, &z)) ctx_unwind(k->c);
  for (size_t i = 0; i < n; i++) {
    bool wanted = false;
    for (uint32_t d = 0; d < k->dump.n; d += 2) wanted |= names(k->dump.v[d], &v[i]);
    for (uint32_t j = 0; j < z.n; j++) wanted |= !strcmp(z.names[j], v[i].name);
    if (wanted && (v[i].output < 0 || is_state(k, v[i].name))) vec_push(k->a, k->watch, v[i].name);
  }
  for (uint32_t d = 0; d < k->dump.n; d += 2) {
    strvec known = {0};
    bool hit = !strcmp(k->dump.v[d], "all");
    for (size_t i = 0; i < n; i++) {
      hit |= names(k->dump.v[d], &v[i]);
      vec_push(k->a, known, v[i].node);
      vec_push(k->a, known, v[i].name);
    }
    if (hit) continue;
    *code = fail_text(k, EK_USAGE,
                      arena_fmt(k->a, "error: --dump %s: the model has no node, and computes no tensor, of that name%s",
                                k->dump.v[d], did_you_mean(k->a, k->dump.v[d], known.v, known.n)));
    return false;
  }
  if (!k->watch.n) return true;
  vec_push(k->a, k->watch, NULL);
  k->watch.n--;
  *out = k->watch.v;
  return true;
}
bool is_watched(const cli *k, const char *name) { /* Elements of a sequence are named NAME.0, NAME.1, .. */
  for (uint32_t i = 0; i < k->watch.n; i++) {
    size_t n = strlen(k->watch.v[i]);
    if (!strncmp(name, k->watch.v[i], n) && (!name[n] || name[n] == '.')) return true;
  }
  return false;
}
void tell_first(cli *k, ek_model *model, ek_module *m, const bool *same, json *j) {
  size_t n = 0;
  const ek_value_info *v = values_of(k, model, &n);
  for (size_t i = 0; i < n; i++) {
    int32_t o = ek_module_find_output(m, v[i].name);
    if (o < 0 || same[o]) continue;
    if (!k->json) {
      printf("first that departs, in the model's order: %s, which node %s (%s) computes\n", v[i].name, v[i].node,
             v[i].op);
      return;
    }
    json_obj(j, "first");
    json_str(j, "name", v[i].name);
    json_str(j, "node", v[i].node);
    json_str(j, "op", v[i].op);
    json_end(j);
    return;
  }
}

/* ---- --dump ------------------------------------------------------------------------------------------------------ */
static void dump_to(cli *k, const char *file, ek_model *model, ek_module *m, ek_run *r) {
  size_t n = 0;
  const ek_value_info *v = values_of(k, model, &n);
  npz z = {0};
  z.names = NEWN(k->a, const char *, ek_module_outputs(m) + 1);
  z.arrays = NEWN(k->a, ndarray, ek_module_outputs(m) + 1);
  for (size_t i = 0; i < n; i++) {
    ek_tensor_info t;
    bool wanted = false;
    int32_t o = ek_module_find_output(m, v[i].name);
    for (uint32_t d = 0; d < k->dump.n; d += 2) wanted |= !strcmp(k->dump.v[d + 1], file) && names(k->dump.v[d], &v[i]);
    if (!wanted || o < 0) continue;
    z.arrays[z.n] = result_array(k, m, r, o, &t);
    z.names[z.n++] = v[i].name;
  }
  if (!npz_write(k->c, file, &z)) ctx_unwind(k->c);
  say(k, "%s: %u tensors\n", file, z.n);
}
void write_dumps(cli *k, ek_model *model, ek_module *m, ek_run *r) {
  for (uint32_t d = 0; d < k->dump.n; d += 2) {
    bool before = false;
    for (uint32_t e = 0; e < d; e += 2) before |= !strcmp(k->dump.v[e + 1], k->dump.v[d + 1]);
    if (!before) dump_to(k, k->dump.v[d + 1], model, m, r);
  }
}
