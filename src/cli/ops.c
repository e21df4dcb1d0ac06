/* einkorn ops: what operators there are, from their definitions. */
#include "cli/cli.h"
#include <string.h>

static int one(cli *k, const char *name) {
  const char *text;
  ek_code e = ek_op_source(k->s, name, &text);
  if (e) return fail(k, e);
  fputs(text, stdout);
  return EXIT_DONE;
}
static int table(cli *k) {
  const char *text;
  ek_code e = ek_ops_table(k->s, &text);
  if (e) return fail(k, e);
  fputs(text, stdout);
  return EXIT_DONE;
}
int cmd_ops(cli *k) {
  const ek_op_info *ops;
  size_t n;
  if (k->table) return table(k);
  if (k->args.n && !k->json) return one(k, k->args.v[0]);
  ek_code e = ek_ops(k->s, &ops, &n);
  if (e) return fail(k, e);
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_arr(&j, NULL);
    for (size_t i = 0; i < n; i++) {
      if (k->args.n && strcmp(k->args.v[0], ops[i].name) != 0) continue;
      json_obj(&j, NULL);
      json_str(&j, "name", ops[i].name);
      json_str(&j, "signature", ops[i].signature);
      json_str(&j, "doc", ops[i].doc);
      json_str(&j, "file", ops[i].file);
      json_int(&j, "line", ops[i].line);
      json_end(&j);
    }
    json_end(&j);
    print_json(&text);
    return EXIT_DONE;
  }
  for (size_t i = 0; i < n; i++) {
    printf("%s\n", ops[i].signature);
    if (k->verbose && ops[i].doc[0]) printf("    %s  (%s:%u)\n", ops[i].doc, ops[i].file, ops[i].line);
  }
  say(k, "%zu operators; `einkorn ops NAME` prints a definition\n", n);
  return EXIT_DONE;
}
