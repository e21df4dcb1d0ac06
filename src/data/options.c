/* What do the texts of options say? */
#include "data/data_in.h"
#include <string.h>

static double fraction(ctx *c, const char *text) {
  char *end;
  const double x = num_parse(c, text, &end);
  if (end == text || *end || !(x > 0 && x < 1))
    ctx_fail(c, E_USAGE, "--split %s: a fraction of the samples is expected, such as 0.2", text);
  return x;
}
bool dataset_option(ctx *c, dataset_options *o, const char *name, const char *value) {
  if (!strcmp(name, "target"))
    o->target = value;
  else if (!strcmp(name, "split"))
    o->split = fraction(c, value);
  else if (!strcmp(name, "standardize"))
    o->standardize = true;
  else
    return false;
  return true;
}
