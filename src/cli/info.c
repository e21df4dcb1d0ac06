/* einkorn info: what a model is made of and how much work it is. Where a figure depends on open dimensions, it is
 * printed as a formula. */
#include "cli/cli.h"

static const char *count(arena *a, ek_count c) {
  return c.value >= 0 ? arena_fmt(a, "%lld", (long long)c.value) : c.formula;
}
static void json_count(json *j, const char *key, ek_count c) {
  if (c.value >= 0)
    json_int(j, key, c.value);
  else
    json_str(j, key, c.formula);
}
static void json_work(json *j, const ek_work *w) {
  json_count(j, "macs", w->macs);
  json_count(j, "additions", w->additions);
  json_count(j, "multiplications", w->multiplications);
  json_count(j, "divisions", w->divisions);
  json_count(j, "functions", w->functions);
  json_count(j, "comparisons", w->comparisons);
  json_count(j, "activations", w->activations);
  json_count(j, "activation_bytes", w->activation_bytes);
}
static void json_tensors(cli *k, json *j, const char *key, ek_model *m, bool out) {
  json_arr(j, key);
  for (int32_t i = 0; i < (out ? ek_model_outputs(m) : ek_model_inputs(m)); i++) {
    ek_tensor_info t;
    if (out ? ek_model_output(m, i, &t) : ek_model_input(m, i, &t)) continue;
    json_obj(j, NULL);
    json_str(j, "name", t.name);
    json_str(j, "type", ek_type_name(t.type));
    json_arr(j, "dims");
    for (int32_t d = 0; d < t.rank; d++) {
      if (t.dims[d] >= 0)
        json_int(j, NULL, t.dims[d]);
      else
        json_str(j, NULL, t.dim_names[d]);
    }
    json_end(j);
    json_end(j);
  }
  json_end(j);
  (void)k;
}
static void json_metadata(json *j, ek_model *m) {
  const ek_metadata *said;
  size_t n;
  json_obj(j, "metadata");
  if (!ek_model_metadata(m, &said, &n))
    for (size_t i = 0; i < n; i++) json_str(j, said[i].key, said[i].text);
  json_end(j);
}
static int as_json(cli *k, ek_model *m, const ek_model_info *f) {
  sbuf text = sbuf_new(k->a);
  json j = json_new(&text, true);
  json_obj(&j, NULL);
  json_str(&j, "model", k->args.v[0]);
  json_str(&j, "name", f->name);
  json_str(&j, "producer", f->producer);
  json_int(&j, "ir_version", f->ir_version);
  json_int(&j, "opset", f->opset);
  json_metadata(&j, m);
  json_tensors(k, &j, "inputs", m, false);
  json_tensors(k, &j, "outputs", m, true);
  json_int(&j, "nodes", f->nodes);
  json_int(&j, "parameters", f->parameters);
  json_int(&j, "parameter_bytes", f->parameter_bytes);
  json_work(&j, &f->work);
  if (k->layers) {
    json_arr(&j, "layers");
    for (size_t i = 0; i < f->layer_count; i++) {
      json_obj(&j, NULL);
      json_str(&j, "name", f->layers[i].name);
      json_str(&j, "op", f->layers[i].op);
      json_str(&j, "output", f->layers[i].output);
      json_int(&j, "parameters", f->layers[i].parameters);
      json_work(&j, &f->layers[i].work);
      json_end(&j);
    }
    json_end(&j);
  }
  json_end(&j);
  print_json(&text);
  return EXIT_DONE;
}
static int tensors(cli *k, ek_model *m, bool out) {
  for (int32_t i = 0; i < (out ? ek_model_outputs(m) : ek_model_inputs(m)); i++) {
    ek_tensor_info t;
    ek_code e = out ? ek_model_output(m, i, &t) : ek_model_input(m, i, &t);
    if (e) return fail(k, e);
    printf("%s %s: %s\n", out ? "output" : "input ", t.name,
           t.rank < 0 ? "?" : tensor_text(k->a, et_from_onnx((int)t.type), (uint32_t)t.rank, t.dims, t.dim_names));
  }
  return EXIT_DONE;
}
static ek_code print_metadata(ek_model *m) {
  const ek_metadata *said;
  size_t n;
  const ek_code e = ek_model_metadata(m, &said, &n);
  for (size_t i = 0; !e && i < n; i++) printf("metadata %s: %s\n", said[i].key, said[i].text);
  return e;
}
int cmd_info(cli *k) {
  ek_model *m;
  ek_model_info f;
  ek_options o = compile_options(k);
  ek_code e = ek_load(k->s, k->args.v[0], &m);
  if (e) return fail(k, e);
  if (!k->json) {
    int code = tensors(k, m, false);
    if (!code) code = tensors(k, m, true);
    if (code) return code;
    for (uint32_t i = 0; i < k->states.n; i++) printf("state  %s\n", k->states.v[i]);
  }
  e = ek_model_describe(m, &o, &f);
  if (e) return fail(k, e);
  if (k->json) return as_json(k, m, &f);
  e = print_metadata(m);
  if (e) return fail(k, e);
  printf("producer: %s\nIR version: %lld, opset: %lld\nnodes: %lld\n", f.producer, (long long)f.ir_version,
         (long long)f.opset, (long long)f.nodes);
  printf("parameters: %lld (%lld bytes)\n", (long long)f.parameters, (long long)f.parameter_bytes);
  const struct {
    const char *name; /* name of the kind of work */
    ek_count c;       /* how much there is */
  } rows[] = {{"MACs", f.work.macs},
              {"additions", f.work.additions},
              {"multiplications", f.work.multiplications},
              {"divisions", f.work.divisions},
              {"functions", f.work.functions},
              {"comparisons", f.work.comparisons},
              {"activations", f.work.activations},
              {"activation bytes", f.work.activation_bytes}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) printf("%s: %s\n", rows[i].name, count(k->a, rows[i].c));
  if (!k->layers) return EXIT_DONE;
  printf("\n%-28s %-20s %-24s %12s %12s %12s\n", "node", "operator", "output", "parameters", "MACs", "other");
  for (size_t i = 0; i < f.layer_count; i++) {
    const ek_layer *l = &f.layers[i];
    const ek_work *w = &l->work;
    bool known = w->additions.value >= 0 && w->multiplications.value >= 0 && w->divisions.value >= 0 &&
                 w->functions.value >= 0 && w->comparisons.value >= 0;
    int64_t other =
        w->additions.value + w->multiplications.value + w->divisions.value + w->functions.value + w->comparisons.value;
    printf("%-28s %-20s %-24s %12lld %12s %12s\n", l->name, l->op, l->output, (long long)l->parameters,
           count(k->a, w->macs), known ? arena_fmt(k->a, "%lld", (long long)other) : "(symbolic)");
  }
  return EXIT_DONE;
}
