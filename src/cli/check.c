/* einkorn check: everything short of code; all problems at once. */
#include "cli/cli.h"
#include <string.h>

static void problems(json *j, const char *text) {
  json_arr(j, "problems");
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, "\n");
    json_strn(j, NULL, p, n);
    p += n + (p[n] == '\n');
  }
  json_end(j);
}
int cmd_check(cli *k) {
  ek_model *model;
  ek_options o = compile_options(k);
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (!e) e = ek_check(model, &o);
  progress_clear();
  print_times(k);
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_obj(&j, NULL);
    json_str(&j, "model", k->args.v[0]);
    json_bool(&j, "ok", e == EK_OK);
    problems(&j, e ? ek_message(k->s) : "");
    json_end(&j);
    print_json(&text);
    return exit_of(e);
  }
  if (e) return fail(k, e);
  if (!k->quiet) printf("%s: ok\n", k->args.v[0]);
  return EXIT_DONE;
}
