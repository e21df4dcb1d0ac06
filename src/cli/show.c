/* einkorn show: a model as text, at any level. */
#include "cli/cli.h"
#include <string.h>

int cmd_show(cli *k) {
  ek_model *model;
  ek_trainer *t;
  const char *text;
  ek_options o = compile_options(k);
  ek_show_options w;
  ek_show_options_init(&w);
  if (k->weights && strcmp(k->weights, "inline") != 0)
    return fail_text(k, EK_USAGE, "error: --weights: only `inline` is known");
  if (k->stage) w.stage = k->stage;
  w.after = k->after, w.node = k->node, w.weights_inline = k->weights != NULL;
  if (k->grad) w.grad = k->train.of ? k->train.of : "";
  ek_code e = EK_OK;
  if (k->grad && k->train.loss)
    return fail_text(k, EK_USAGE, "error: --grad: a step of training (--train) has its gradients already");
  if (k->train.loss) {
    const int code = open_step(k, &o, &t, NULL, NULL);
    if (code) return code;
    e = ek_trainer_show(t, &w, &text);
  } else {
    e = ek_load(k->s, k->args.v[0], &model);
    if (!e) e = ek_show(model, &o, &w, &text);
  }
  if (e) return fail(k, e);
  print_times(k);
  size_t n = strlen(text);
  fwrite(text, 1, n, stdout);
  if (n && text[n - 1] != '\n') putchar('\n');
  return EXIT_DONE;
}
