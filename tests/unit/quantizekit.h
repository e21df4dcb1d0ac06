/* What tests of quantisation share: the text of a model that was written. Include it behind cmocka.h. */
#ifndef EK_TESTS_QUANTIZEKIT_H
#define EK_TESTS_QUANTIZEKIT_H
#include "einkorn/einkorn.h"
#include <string.h>

/* The model in that file as text, with its constants; the session owns it. */
static inline const char *written(ek_session *s, const char *path) {
  ek_model *q;
  const char *text = "";
  ek_show_options w;
  ek_show_options_init(&w);
  w.weights_inline = 1;
  if (ek_load(s, path, &q) || ek_show(q, NULL, &w, &text)) fail_msg("%s", ek_message(s));
  return text;
}
static inline void has(const char *text, const char *what) {
  if (!strstr(text, what)) fail_msg("no %s in\n%s", what, text);
}
#endif
