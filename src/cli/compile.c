/* einkorn compile: saves a model as a library, an object, C source or a simplified model, and tells what it came to. */
#include "cli/cli.h"

static void tell(cli *k, const ek_report *r) {
  if (k->quiet && !k->json) return;
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_obj(&j, NULL);
    json_str(&j, "model", k->args.v[0]);
    json_str(&j, "output", k->output);
    json_str(&j, "memory", r->memory);
    json_str(&j, "least_memory", r->least_memory);
    json_uint(&j, "weight_bytes", r->weight_bytes);
    json_uint(&j, "code_bytes", r->code_bytes);
    json_uint(&j, "file_bytes", r->file_bytes);
    json_uint(&j, "kernels", r->kernels);
    json_uint(&j, "functions", r->functions);
    json_uint(&j, "rewrites", r->rewrites);
    json_num(&j, "ms", r->total_ms);
    json_times(k, &j);
    json_end(&j);
    print_json(&text);
    return;
  }
  printf("%s: %llu bytes\n", k->output, (unsigned long long)r->file_bytes);
  if (!r->memory[0]) return; /* the file is a model (.onnx), which has no working memory */
  printf("working memory: %s bytes\n", r->memory);
  if (k->verbose && r->least_memory) printf("least possible: %s bytes\n", r->least_memory);
  printf("constants: %llu bytes\nkernels: %u, code: %llu bytes\n", (unsigned long long)r->weight_bytes, r->kernels,
         (unsigned long long)r->code_bytes);
  printf("compiled in %.1f ms", r->total_ms);
  if (k->verbose)
    printf(" (model %.1f, passes %.1f, schedules %.1f, code %.1f; %llu rewrites)", r->load_ms, r->passes_ms,
           r->schedule_ms, r->code_ms, (unsigned long long)r->rewrites);
  putchar('\n');
}
int cmd_compile(cli *k) {
  ek_model *model;
  ek_report r;
  if (k->train.loss) {
    const int code = compile_step(k, &r);
    progress_clear();
    if (code == EXIT_DONE) tell(k, &r);
    return code;
  }
  ek_options o = compile_options(k);
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (e) return fail(k, e);
  e = ek_save(model, &o, k->output ? k->output : ".so", &r); /* without a name it ends after a pass (--stop-after) */
  progress_clear();
  print_times(k);
  if (e == EK_CANCELLED && k->stop_after) return EXIT_DONE;
  if (e) return fail(k, e);
  tell(k, &r);
  return EXIT_DONE;
}
