/* Which samples are held out? Samples are sorted by their label, an integer of the target column (one label for all
 * where targets are none). Of the samples up to the end of each label the rounded fraction is held out, so that the
 * whole is exact and each label is within one sample. Which ones: the first of a permutation of the label's samples. */
#include "data/data_in.h"
#include <stdlib.h>

typedef struct labelled {
  int64_t label, sample;
} labelled;
static int by_label(const void *a, const void *b) {
  const labelled *x = a, *y = b;
  return x->label != y->label ? (x->label < y->label ? -1 : 1) : x->sample < y->sample ? -1 : x->sample > y->sample;
}
static labelled *sorted_labels(arena *scratch, const dataset *d, int64_t n) {
  labelled *of = NEWN(scratch, labelled, (size_t)n);
  const dataset_column *k = d->target < 0 ? NULL : dataset_column_at(d, (uint32_t)d->target);
  const bool has_labels = k && et_kind(k->type) != K_FLOAT && k->elements == 1;
  for (int64_t i = 0; i < n; i++) {
    of[i].sample = i;
    if (has_labels)
      dataset_read(arena_ctx(scratch), d, (uint32_t)d->target, i, &(dataset_transform){.type = ET_I64}, &of[i].label);
  }
  qsort(of, (size_t)n, sizeof *of, by_label);
  return of;
}
/* The samples up to number `end` of all that are held out. */
static int64_t share(double fraction, int64_t end) { return (int64_t)(fraction * (double)end + 0.5); }

void dataset_split(arena *a, const dataset *d, double fraction, uint64_t seed, dataset_part *rest,
                   dataset_part *held_out) {
  const int64_t n = dataset_count(d), out = fraction > 0 && fraction < 1 ? share(fraction, n) : 0;
  if (out < 1 || out >= n)
    ctx_fail(arena_ctx(a), E_USAGE, "%s: a fraction of %g held out of %lld samples leaves one side empty", d->path,
             fraction, (long long)n);
  arena *scratch = arena_new(arena_ctx(a));
  const labelled *of = sorted_labels(scratch, d, n);
  bool *is_out = NEWN(scratch, bool, (size_t)n);
  uint64_t number = 0;
  for (int64_t from = 0, to; from < n; from = to, number++) {
    for (to = from + 1; to < n && (of[to].label == of[from].label || EK_PLANTED("data-split"));) to++;
    const int64_t take = share(fraction, to) - share(fraction, from);
    for (int64_t i = 0; i < take; i++)
      is_out[of[from + permuted(seed, RANDOM_SPLIT, number, to - from, i)].sample] = true;
  }
  int64_t *samples[2] = {NEWN(a, int64_t, (size_t)(n - out)), NEWN(a, int64_t, (size_t)out)}, count[2] = {0, 0};
  for (int64_t i = 0; i < n; i++) samples[is_out[i]][count[is_out[i]]++] = i;
  arena_free(scratch);
  *rest = (dataset_part){samples[0], count[0]}, *held_out = (dataset_part){samples[1], count[1]};
}
dataset_part dataset_all(const dataset *d) { return (dataset_part){NULL, dataset_count(d)}; }
