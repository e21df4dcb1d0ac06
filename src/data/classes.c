/* Which number is the class that a text names? Texts are numbered in the order of their bytes, or as another data set
 * or a model numbers them, so that equal texts are equal numbers. */
#include "data/data_in.h"
#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }
/* text -> its number; of equal texts the first */
static map *numbers_of(arena *a, const char *const *labels, uint32_t n) {
  map *m = map_new(a);
  for (uint32_t i = 0; i < n; i++)
    if (!map_gets(m, labels[i], NULL)) map_puts(m, labels[i], i);
  return m;
}
/* Each text once, in the order of their bytes. */
static strvec classes_of(arena *a, const bytes *texts, int64_t n) {
  map *seen = map_new(a);
  strvec labels = {0};
  for (int64_t i = 0; i < n; i++) {
    if (map_get(seen, texts[i].p, texts[i].n, NULL)) continue;
    map_put(seen, texts[i].p, texts[i].n, 1);
    vec_push(a, labels, arena_strndup(a, (const char *)texts[i].p, texts[i].n));
  }
  if (labels.n) qsort(labels.v, labels.n, sizeof *labels.v, by_text);
  return labels;
}
void dataset_add_texts(ctx *c, dataset *d, const char *file, const char *name, const bytes *texts, int64_t n) {
  arena *a = ctx_arena(c);
  const int32_t k = d->like ? dataset_find(d->like, name) : -1;
  const dataset_column *known = k < 0 ? NULL : dataset_column_at(d->like, (uint32_t)k);
  const strvec own = classes_of(a, texts, n);
  const bool given = known && known->labels;
  const char *const *labels = given ? known->labels : own.v;
  const uint32_t classes = given ? known->classes : own.n;
  const map *numbers = numbers_of(a, labels, classes);
  int64_t *values = NEWN(a, int64_t, (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    uint64_t number;
    if (!map_get(numbers, texts[i].p, texts[i].n, &number))
      ctx_fail(c, E_SHAPE, "%s: sample %lld of '%s' is the class '%.*s', which %s does not have", file, (long long)i,
               name, (int)texts[i].n, (const char *)texts[i].p, d->like->path);
    values[i] = (int64_t)number;
  }
  dataset_add(c, d, file, name, &(ndarray){.type = ET_I64, .rank = 1, .dims = {n}, .data = values});
  dataset_column *shown = &d->columns.v[d->columns.n - 1].shown;
  shown->labels = labels, shown->classes = classes;
}
const char *dataset_renumber(ctx *c, dataset *d, uint32_t column_number, const char *const *labels, uint32_t n) {
  arena *a = ctx_arena(c);
  column *k = &d->columns.v[column_number];
  const map *numbers = numbers_of(a, labels, n);
  const int64_t *was = (const int64_t *)(const void *)k->data;
  int64_t *of = NEWN(a, int64_t, k->shown.classes), *values = NEWN(a, int64_t, (size_t)k->n);
  for (uint32_t i = 0; i < k->shown.classes; i++) {
    uint64_t number;
    if (!map_gets(numbers, k->shown.labels[i], &number)) return k->shown.labels[i];
    of[i] = (int64_t)number;
  }
  for (int64_t i = 0; i < k->n; i++) values[i] = of[was[i]];
  k->data = (const uint8_t *)values, k->shown.labels = labels, k->shown.classes = n;
  return NULL;
}
