/* Which number is which class? A data set numbers its texts itself; a trained model says in its metadata which number
 * each text had in its training, so that equal texts stay equal numbers. */
#include "cli/train.h"
#include <string.h>

#define CLASSES "einkorn.classes." /* key of the metadata, with the name of an array of the batch behind it */

static const char *metadata_of(cli *k, ek_model *model, const char *key) {
  const ek_metadata *all;
  size_t n;
  if (ek_model_metadata(model, &all, &n)) ctx_fail(k->c, E_MODEL, "%s", session_text(k));
  for (size_t i = 0; i < n; i++)
    if (!strcmp(all[i].key, key)) return all[i].text;
  return NULL;
}
static const char *text_of(cli *k, const char *const *labels, uint32_t n) {
  sbuf b = sbuf_new(k->a);
  json j = json_new(&b, false);
  json_arr(&j, NULL);
  for (uint32_t i = 0; i < n; i++) json_str(&j, NULL, labels[i]);
  json_end(&j);
  return b.s;
}
/* "0 above, 1 below, ..": for people */
static const char *list_of(cli *k, const char *const *labels, uint32_t n) {
  enum { SHOWN = 10 };
  sbuf b = sbuf_new(k->a);
  for (uint32_t i = 0; i < n && i < SHOWN; i++) sb_fmt(&b, "%s%u %s", i ? ", " : "", i, labels[i]);
  if (n > SHOWN) sb_put(&b, ", ..");
  return b.s;
}
void match_classes(cli *k, ek_model *model, dataset *d, uint32_t column, const char *array) {
  const dataset_column *x = dataset_column_at(d, column);
  const char *key = arena_fmt(k->a, CLASSES "%s", array), *said = metadata_of(k, model, key);
  const bool trains = k->cmd->bit != CMD_EVALUATE;
  strvec labels;
  if (!x->labels) return;
  if (said && !json_read_strings(k->a, said, &labels))
    ctx_fail(k->c, E_MODEL, "the model's metadata %s are no JSON array of texts: %s", key, said);
  const char *unknown = said ? dataset_renumber(k->c, d, column, labels.v, labels.n) : NULL;
  if (unknown && !trains)
    ctx_fail(k->c, E_SHAPE, "column %s: the model was not trained on the class '%s'; its classes are %s", x->name,
             unknown, list_of(k, labels.v, labels.n));
  if (unknown)
    say(k, "note: the model was trained on other classes (%s): they are numbered anew: %s\n",
        list_of(k, labels.v, labels.n), list_of(k, x->labels, x->classes));
  if (!said && !trains)
    say(k, "note: the model does not say which class is which number: they are numbered as sorted: %s\n",
        list_of(k, x->labels, x->classes));
}
strvec class_metadata(cli *k, const feed *f) {
  strvec all = {0};
  for (size_t i = 0; i < f->n; i++) {
    const dataset_column *x = dataset_column_at(f->source.set, f->fields[i].column);
    if (!x->labels) continue;
    const char *entry = arena_fmt(k->a, CLASSES "%s=%s", f->batch[i].name, text_of(k, x->labels, x->classes));
    vec_push(k->a, all, entry);
  }
  vec_push(k->a, all, NULL);
  return all;
}
