/* What are mean and standard deviation of the elements of a column? One pass over the samples: each gives, for every
 * group of its elements, a count, a mean and a sum of squared deviations; they are merged by the formulas of Chan,
 * Golub and LeVeque (1979), which lose nothing where deviations are small beside the mean. */
#include "data/data_in.h"
#include <math.h>

typedef struct moments {
  double mean, squares; /* mean, and sum of the squared deviations from it */
} moments;
static moments of_group(const double *x, size_t n) {
  moments m = {0, 0};
  for (size_t i = 0; i < n; i++) m.mean += x[i];
  m.mean /= (double)n;
  for (size_t i = 0; i < n; i++) m.squares += (x[i] - m.mean) * (x[i] - m.mean);
  return m;
}
/* `have` of `before` groups of the same size as the one that comes. */
static void merge(moments *have, moments next, double before, double size) {
  const double delta = next.mean - have->mean;
  have->mean += delta / (before + 1);
  have->squares += next.squares + delta * delta * size * before / (before + 1);
}
static uint32_t groups_of(const dataset_column *k) {
  return (uint32_t)(k->rank <= 1 ? k->elements : k->rank == 2 ? 1 : k->dims[0]);
}
dataset_statistics dataset_measure(arena *a, const dataset *d, uint32_t column_number, dataset_part part) {
  const dataset_column *k = dataset_column_at(d, column_number);
  if (k->rank <= 1 && k->elements > UINT32_MAX / 2)
    ctx_fail(arena_ctx(a), E_UNSUPPORTED, "%s: samples of '%s' are too large to be standardized", d->path, k->name);
  const uint32_t groups = groups_of(k);
  const size_t size = (size_t)k->elements / groups;
  const dataset_transform how = dataset_converted(d, column_number, ET_F64);
  arena *scratch = arena_new(arena_ctx(a));
  moments *m = NEWN(scratch, moments, groups);
  double *x = NEWN(scratch, double, (size_t)k->elements);
  for (int64_t i = 0; i < part.n; i++) {
    dataset_read(arena_ctx(a), d, column_number, part.samples ? part.samples[i] : i, &how, x);
    for (uint32_t g = 0; g < groups; g++) merge(&m[g], of_group(x + g * size, size), (double)i, (double)size);
  }
  double *mean = NEWN(a, double, groups), *deviation = NEWN(a, double, groups);
  for (uint32_t g = 0; g < groups; g++) {
    const double now = sqrt(m[g].squares / ((double)part.n * (double)size));
    mean[g] = m[g].mean, deviation[g] = now > 0 && !EK_PLANTED("data-standardize") ? now : 1;
  }
  arena_free(scratch);
  return (dataset_statistics){groups, mean, deviation};
}
dataset_transform dataset_scaled_noise(arena *a, const dataset *d, uint32_t column_number, etype type,
                                       const dataset_statistics *s) {
  const dataset_transform plain = dataset_converted(d, column_number, type);
  double *factor = NEWN(a, double, s->groups);
  for (uint32_t g = 0; g < s->groups; g++) factor[g] = plain.groups ? *plain.factor : 1;
  return (dataset_transform){type, s->groups, NEWN(a, double, s->groups), factor, s->deviation};
}
