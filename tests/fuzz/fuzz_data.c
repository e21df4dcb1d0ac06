/* Files of data sets: PNG, JPEG, gzip and IDX by their first bytes, a vocabulary behind a `V`, and everything else as a
 * CSV file. Every sample of what is accepted is read, standardized and divided. */
#include "data/image.h"
#include "fuzz.h"
#include <string.h>
typedef struct input {
  const uint8_t *p;
  size_t n;
} input;
static void use(ctx *c, const dataset *d) {
  dataset_part rest, out;
  const int64_t n = min64(dataset_count(d), 100);
  for (uint32_t k = 0; k < dataset_columns(d); k++) {
    const dataset_column *s = dataset_column_at(d, k);
    const dataset_transform as_is = dataset_converted(d, k, s->type), half = dataset_converted(d, k, ET_F16);
    uint8_t *to = arena_alloc(ctx_arena(c), (size_t)s->elements * 8);
    for (int64_t i = 0; i < n; i++) {
      dataset_read(c, d, k, i, &as_is, to);
      dataset_read(c, d, k, i, &half, to);
    }
    dataset_measure(ctx_arena(c), d, k, (dataset_part){NULL, n});
  }
  if (dataset_count(d) > 1) dataset_split(ctx_arena(c), d, 0.5, 1, &rest, &out);
}
static bool try_one(ctx *c, void *env) {
  const input *in = env;
  if (in->n >= 3 && (!memcmp(in->p, "\x89PN", 3) || !memcmp(in->p, "\xff\xd8\xff", 3))) {
    const image m = read_image(ctx_arena(c), fuzz_file(in->p, in->n));
    image_resized(ctx_arena(c), &m, 3, 5);
    return true;
  }
  dataset d = {.path = "fuzz.csv", .target = -1, .o = {.sequence = 2}};
  data_source s = {.path = "fuzz.csv", .content = {arena_dup(ctx_arena(c), in->p, in->n), in->n}};
  if (in->n && *in->p == 'V') {
    d.o.vocabulary = fuzz_file(in->p + 1, in->n - 1);
    read_text(c, &d, &s);
  } else {
    if (is_gzip(s.content)) s.content = gzip_read(c, s.path, s.content);
    if (is_idx(s.content))
      read_idx(c, &d, &s);
    else
      read_csv(c, &d, &s);
  }
  d.target = (int32_t)d.columns.n - 1;
  use(c, &d);
  return true;
}
void fuzz_one(const uint8_t *p, size_t n) { fuzz_case(try_one, &(input){p, n}, NULL); }
size_t fuzz_change(uint8_t *p, size_t n, size_t cap, unsigned seed) {
  dice d = {seed};
  const bool text = n && *p >= ' ' && *p < 0x7f;
  return text && roll(&d, 4) ? mutate_text(p, n, cap, seed) : mutate_bytes(p, n, cap, &d);
}
