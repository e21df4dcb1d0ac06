/* Data sets: what each format gives, conversion and standardization, order, split, and what damaged files say. */
#include "base/base.h"
#include "data/image.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
/* after the standard headers */
#include <cmocka.h>

#define DIR EK_BINARY_DIR "/test_data_files"

static int setup(void **state) {
  mkdir(DIR, 0777);
  *state = ctx_new();
  return *state ? 0 : -1;
}
static int teardown(void **state) {
  ctx_free(*state);
  return 0;
}

/* ---- help ------------------------------------------------------------------------------------ */
static const char *put(const char *name, const void *p, size_t n) {
  static char path[64][512];
  static unsigned next;
  char *to = path[next++ % 64];
  snprintf(to, sizeof path[0], "%s/%s", DIR, name);
  FILE *f = fopen(to, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(p, 1, n, f), n);
  fclose(f);
  return to;
}
static const char *put_text(const char *name, const char *text) { return put(name, text, strlen(text)); }
static dataset *open_with(ctx *c, const char *path, dataset_options o) {
  dataset *volatile d = NULL;
  CTX_TRY(c) { d = dataset_open(c, path, &o, NULL); }
  CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
  return d;
}
static dataset *open_it(ctx *c, const char *path) { return open_with(c, path, (dataset_options){0}); }
/* The call must unwind, and the first error says this. line 0: it has no position. */
static void refused(const char *path, const dataset_options *o, uint32_t line, uint32_t col, const char *says) {
  ctx *c = ctx_new_with(&(ctx_memory){.limit = 256 << 20});
  volatile bool unwound = false;
  CTX_TRY(c) { dataset_open(c, path, o ? o : &(dataset_options){0}, NULL); }
  CTX_CATCH { unwound = true; }
  if (!unwound) fail_msg("%s is accepted; expected: %s", path, says);
  const diag *d = diag_first(c);
  if (!strstr(d->text, says)) fail_msg("%s\n  is expected to say: %s", d->text, says);
  assert_true(d->code != E_INTERNAL);
  if (line) {
    assert_string_equal(d->pos.file, path);
    assert_int_equal(d->pos.line, line);
    assert_int_equal(d->pos.col, col);
  } else {
    assert_null(d->pos.file);
  }
  ctx_free(c);
}
/* fn must unwind, and the first error says this; then it is forgotten. */
static void unwinds(ctx *c, void (*fn)(ctx *c, const void *env), const void *env, const char *says) {
  const uint32_t before = diag_mark(c);
  volatile bool unwound = false;
  assert_int_equal(before, 0);
  CTX_TRY(c) { fn(c, env); }
  CTX_CATCH { unwound = true; }
  if (!unwound) fail_msg("no error; expected: %s", says);
  if (!strstr(diag_first(c)->text, says)) fail_msg("%s\n  is expected to say: %s", diag_first(c)->text, says);
  assert_true(diag_code(c) != E_INTERNAL);
  diag_reset(c, before);
}
static void read_to(ctx *c, const dataset *d, uint32_t column, int64_t i, dataset_transform t, void *out) {
  CTX_TRY(c) { dataset_read(c, d, column, i, &t, out); }
  CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
}
static double number_at(ctx *c, const dataset *d, uint32_t column, int64_t i, int64_t element) {
  double x[1024];
  assert_in_range(dataset_column_at(d, column)->elements, 1, 1024);
  read_to(c, d, column, i, (dataset_transform){.type = ET_F64}, x);
  return x[element];
}
static void column_is(const dataset *d, uint32_t i, const char *name, etype type, int64_t elements) {
  assert_in_range(i, 0, dataset_columns(d) - 1);
  const dataset_column *k = dataset_column_at(d, i);
  assert_string_equal(k->name, name);
  assert_string_equal(et_name(k->type), et_name(type));
  assert_int_equal(k->elements, elements);
  assert_int_equal(dataset_find(d, name), i);
}

/* ---- random numbers and order ---------------------------------------------------------------- */
static void known_answers(void **state) { /* of the authors' library Random123, kat_vectors */
  (void)state;
  static const struct {
    uint32_t counter[4];
    uint64_t key;
    uint32_t out[4];
  } known[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, ~UINT64_C(0), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       UINT64_C(0x299f31d0a4093822),
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    uint32_t out[4];
    philox(known[i].counter, known[i].key, out);
    assert_memory_equal(out, known[i].out, sizeof out);
  }
}
static void permutations(void **state) {
  ctx *c = *state;
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 100, 1000, 4095, 4096, 4097};
  bool *seen = NEWN(ctx_arena(c), bool, 4097);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      const int64_t n = sizes[i];
      int64_t fixed = 0, as_before = 0;
      memset(seen, 0, (size_t)n);
      for (int64_t p = 0; p < n; p++) {
        const int64_t x = dataset_shuffled(7, epoch, n, p);
        assert_in_range(x, 0, n - 1);
        assert_false(seen[x]);
        seen[x] = true;
        fixed += x == p, as_before += x == dataset_shuffled(7, epoch + 1, n, p);
      }
      if (n >= 100) assert_in_range(fixed, 0, 8); /* 1 is expected */
      if (n >= 100) assert_in_range(as_before, 0, 8);
    }
  /* far out, too */
  const int64_t n = INT64_MAX, x = dataset_shuffled(1, 2, n, n - 1);
  assert_in_range(x, 0, n - 1);
  assert_true(x != dataset_shuffled(2, 2, n, n - 1));
}
/* Every sample at every place equally often: chi-squared, whose deviation over 1000 places would be 45. */
static void uniform(void **state) {
  (void)state;
  enum { RUNS = 4000 };
  for (int64_t n = 2; n <= 17; n += 3) {
    uint32_t count[17][17] = {{0}};
    for (uint64_t seed = 0; seed < RUNS; seed++)
      for (int64_t p = 0; p < n; p++) count[p][dataset_shuffled(seed, 5, n, p)]++;
    const double expected = (double)RUNS / (double)n, freedom = (double)((n - 1) * (n - 1));
    double chi = 0;
    for (int64_t p = 0; p < n; p++)
      for (int64_t x = 0; x < n; x++) chi += pow(count[p][x] - expected, 2) / expected;
    if (fabs(chi - freedom) > 5 * sqrt(2 * freedom)) fail_msg("n %d: chi squared %g of %g", (int)n, chi, freedom);
  }
}

/* ---- CSV ------------------------------------------------------------------------------------- */
static void csv(void **state) {
  ctx *c = *state;
  const char *path = put_text("iris.csv", "\xef\xbb\xbfwidth,\"a \"\"b\"\"\",kind\r\n"
                                          "1.5,-2e3,versicolor\r\n"
                                          "\r\n"
                                          "\"2\", .25 ,\"se\"\"to,sa\"\r\n"
                                          "3,4,versicolor");
  dataset *d = open_it(c, path);
  assert_int_equal(dataset_count(d), 3);
  assert_int_equal(dataset_columns(d), 2);
  assert_int_equal(dataset_target(d), 1);
  column_is(d, 0, "x", ET_F64, 2);
  column_is(d, 1, "kind", ET_I64, 1);
  const dataset_column *x = dataset_column_at(d, 0), *y = dataset_column_at(d, 1);
  assert_int_equal(x->rank, 1);
  assert_string_equal(x->components[0], "width");
  assert_string_equal(x->components[1], "a \"b\"");
  assert_int_equal(y->rank, 0);
  assert_int_equal(y->classes, 2);
  assert_string_equal(y->labels[0], "se\"to,sa");
  assert_string_equal(y->labels[1], "versicolor");
  const double want[3][3] = {{1.5, -2000, 1}, {2, 0.25, 0}, {3, 4, 1}};
  for (int64_t i = 0; i < 3; i++)
    for (int64_t k = 0; k < 3; k++) assert_true(number_at(c, d, k / 2, i, k % 2) == want[i][k]);
}
static void csv_targets(void **state) {
  ctx *c = *state;
  const char *path = put_text("t.csv", "x\ty\tz\n1\t2\t0.5\n-3\t+4\t1\n");
  dataset *d = open_with(c, path, (dataset_options){.target = "y"});
  column_is(d, 0, "x", ET_F64, 2);
  column_is(d, 1, "y", ET_I64, 1);
  assert_string_equal(dataset_column_at(d, 0)->components[1], "z");
  assert_true(number_at(c, d, 0, 1, 1) == 1 && number_at(c, d, 1, 1, 0) == 4);
  column_is(open_it(c, path), 1, "z", ET_F64, 1);
  d = open_with(c, path, (dataset_options){.target = "x"}); /* the inputs then have another name */
  column_is(d, 0, "inputs", ET_F64, 2);
  column_is(d, 1, "x", ET_I64, 1);
  assert_int_equal(dataset_target(d), 1);
  d = open_it(c, put_text("big.csv", "a;b\n1;9223372036854775807\n2;-9223372036854775808\n"));
  int64_t y;
  read_to(c, d, 1, 0, (dataset_transform){0}, &y);
  assert_true(y == INT64_MAX);
  read_to(c, d, 1, 1, (dataset_transform){.type = ET_I64}, &y);
  assert_true(y == INT64_MIN);
  column_is(open_it(c, put_text("big.csv", "a;b\n1;1\n2;9223372036854775808\n")), 1, "b", ET_F64, 1);
}
static void csv_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint32_t line, col;
    const char *says;
  } cases[] = {
      {"a,b,c\n1,2,3\n1,,3\n", 3, 3, "the value of column 'b' is missing"},
      {"a,b,c\n1,2,3\n1,2,?\n", 3, 5, "the value of column 'c' is missing (?)"},
      {"a,b,c\n1,2,3\n\"1\", nan,3\n", 3, 5, "the value of column 'b' is missing (nan)"},
      {"a,b,c\n1,2,3\n1,male,3\n", 3, 3, "column 'b': \"male\" is no number; texts are possible in the target only"},
      {"a,b,c\n1,2,3\n1,2,x3\n", 3, 5, "column 'c': \"x3\" is no number; the first value of the target is one"},
      {"a,b,c\n1,2,3\n1,0x2,3\n", 3, 3, "is no number"},
      {"a,b,c\n1,2,3\n1,inf,3\n", 3, 3, "is no number"},
      {"a,b,c\n1,2,3\n1,1.2.3,3\n", 3, 3, "is no number"},
      {"a,b,c\n1,2,3\n4,5\n", 3, 3, "the line has fewer fields than the header, which has 3"},
      {"a,b,c\n1,2,3\n4,5,6,7\n", 3, 7, "the line has more fields than the header, which has 3"},
      {"a,b,c\n1,\"2\n\n3,4", 2, 3, "a quote that is not closed"},
      {"a,b,c\n1,\"2\n\"x,3", 3, 2, "text behind a quoted field"},
      {"1,2,3\n4,5,6\n", 1, 1, "the header of the CSV file has numbers"},
      {"a\n4\n", 1, 1, "has one column"},
      {"a,b\n\n", 0, 0, "has a header and no samples"},
      {"\n\n", 0, 0, "has no header"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refused(put_text("bad.csv", cases[i].text), NULL, cases[i].line, cases[i].col, cases[i].says);
  const char *path = put_text("bad.csv", "wide,long,wide\n1,2,3\n");
  refused(path, &(dataset_options){.target = "lonh"}, 0, 0, "no column 'lonh' for the target; did you mean long?");
  refused(path, &(dataset_options){.target = "wide"}, 0, 0, "two columns have the target's name");
}
static void open_test(ctx *c, const void *train) { dataset_open(c, DIR "/test.csv", &(dataset_options){0}, train); }
static void classes_of_training(void **state) {
  ctx *c = *state;
  dataset *train = open_it(c, put_text("train.csv", "a,b,y\n1,2,cat\n3,4,ant\n5,6,bee\n"));
  const char *path = put_text("test.csv", "a,b,y\n1,2,cat\n");
  dataset *volatile d = NULL;
  CTX_TRY(c) { d = dataset_open(c, path, &(dataset_options){0}, train); }
  assert_non_null(d);
  assert_true(number_at(c, d, 1, 0, 0) == 2); /* alone it would be class 0 */
  static const char *const bad[][2] = {
      {"a,b,y\n1,2,dog\n", "sample 0 of 'y' is the class 'dog', which"},
      {"a,z,y\n1,2,cat\n", "column 2 is z; in"},
      {"a,y\n1,cat\n", "column 2 is missing; in"},
  };
  for (int i = 0; i < 3; i++) {
    put_text("test.csv", bad[i][0]);
    unwinds(c, open_test, train, bad[i][1]);
  }
}

/* ---- .npy and .npz --------------------------------------------------------------------------- */
static const char *put_npz(ctx *c, const char *name, const npz *z) {
  const char *path = put(name, "", 0);
  assert_true(npz_write(c, path, z));
  return path;
}
static const char *put_npy(const char *name, const char *shape, const char *descr, const void *p, size_t n) {
  char text[8192];
  memcpy(text, "\x93NUMPY\x01\x00\x76\x00", 10);
  snprintf(text + 10, 119, "%-117s\n", "");
  int k = snprintf(text + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  text[10 + k] = ' ';
  memcpy(text + 128, p, n);
  return put(name, text, 128 + n);
}
static void arrays(void **state) {
  ctx *c = *state;
  const float x[3][2] = {{1, 2}, {3, 4}, {5, 6}};
  const int32_t y[3] = {7, 8, 9};
  const bytes words[3] = {{(const uint8_t *)"no", 2}, {(const uint8_t *)"yes", 3}, {(const uint8_t *)"no", 2}};
  ndarray all[3] = {{.type = ET_F32, .rank = 2, .dims = {3, 2}, .data = x, .bytes = sizeof x},
                    {.type = ET_I32, .rank = 1, .dims = {3}, .data = y, .bytes = sizeof y},
                    {.type = ET_STR, .rank = 1, .dims = {3}, .data = words, .bytes = sizeof words}};
  const char *names[3] = {"features", "y", "answer"};
  const char *path = put_npz(c, "a.npz", &(npz){3, names, all});
  dataset *d = open_it(c, path);
  assert_int_equal(dataset_count(d), 3);
  column_is(d, 0, "features", ET_F32, 2);
  column_is(d, 1, "y", ET_I32, 1);
  column_is(d, 2, "answer", ET_I64, 1);
  assert_int_equal(dataset_target(d), 2);
  assert_string_equal(dataset_column_at(d, 2)->labels[1], "yes");
  assert_true(number_at(c, d, 0, 2, 1) == 6 && number_at(c, d, 1, 1, 0) == 8 && number_at(c, d, 2, 1, 0) == 1);
  assert_int_equal(dataset_target(open_with(c, path, (dataset_options){.target = "y"})), 1);
  refused(path, &(dataset_options){.target = "feature"}, 0, 0, "did you mean features?");
  /* members, and files side by side */
  const char *list = arena_fmt(ctx_arena(c), "in=%s:features,%s:y", path, path);
  d = open_it(c, list);
  assert_int_equal(dataset_columns(d), 2);
  column_is(d, 0, "in", ET_F32, 2);
  column_is(d, 1, "y", ET_I32, 1);
  const char *a = put_npy("img.npy", "(3, 2)", "<f4", x, sizeof x), *b = put_npy("lab.npy", "(3,)", "<i4", y, sizeof y);
  d = open_it(c, arena_fmt(ctx_arena(c), "%s,z=%s", a, b));
  column_is(d, 0, "img", ET_F32, 2);
  column_is(d, 1, "z", ET_I32, 1);
  assert_true(number_at(c, d, 0, 1, 0) == 3 && number_at(c, d, 1, 2, 0) == 9);
  assert_int_equal(dataset_target(open_it(c, a)), -1);
  d = open_it(c, arena_fmt(ctx_arena(c), "%s,%s", a, a)); /* names are unique */
  column_is(d, 1, "img_2", ET_F32, 2);
  /* errors */
  refused(arena_fmt(ctx_arena(c), "%s:feature", path), NULL, 0, 0, "has no array 'feature'; did you mean features?");
  refused(arena_fmt(ctx_arena(c), "x=%s", path), NULL, 0, 0, "the file has 3 arrays; name one");
  refused(arena_fmt(ctx_arena(c), "%s:y", b), NULL, 0, 0, "only a .npz file has named arrays");
  refused(arena_fmt(ctx_arena(c), "%s,,%s", a, b), NULL, 0, 0, "missing at a comma");
  refused(DIR "/nothing.npy", NULL, 0, 0, "No such file");
  refused(put_npy("s.npy", "()", "<i4", y, 4), NULL, 0, 0, "is a scalar");
  refused(put_npy("s.npy", "(0, 2)", "<i4", y, 4), NULL, 0, 0, "has no samples");
  refused(put_npy("s.npy", "(2, 0)", "<i4", y, 4), NULL, 0, 0, "has no elements");
  refused(put_npy("s.npy", "(0, 4611686018427387904, 4)", "<i4", y, 4), NULL, 0, 0, "too large");
  refused(put_npy("s.npy", "(0, 2305843009213693952)", "<f8", y, 4), NULL, 0, 0, "too large");
  refused(put_npy("s.npy", "(3, 1)", "|S2", words, 6), NULL, 0, 0, "only one text for each sample");
  refused(arena_fmt(ctx_arena(c), "%s,%s", a, put_npy("s.npy", "(2,)", "<i4", y, 8)), NULL, 0, 0,
          "'s' has 2 samples, and 'img' has 3");
  refused(put_text("odd.dat", "what is this"), NULL, 0, 0, "the format is not known");
  refused(put_text("empty.npy", ""), NULL, 0, 0, "the format is not known");
}

/* ---- IDX ------------------------------------------------------------------------------------- */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0,   0,   0,   2,   0,   0,
                                 0, 3, 0, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255},
                     labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 9};
static const char *put_gz(const char *name, const void *p, size_t n) {
  uint8_t packed[4096];
  z_stream z = {.next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n, .next_out = packed, .avail_out = sizeof packed};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return put(name, packed, sizeof packed - z.avail_out);
}
static void idx_is_there(ctx *c, const char *path) {
  dataset *d = open_it(c, path);
  assert_int_equal(dataset_count(d), 2);
  column_is(d, 0, "images", ET_U8, 6);
  column_is(d, 1, "labels", ET_U8, 1);
  const dataset_column *k = dataset_column_at(d, 0);
  assert_true(k->rank == 2 && k->dims[0] == 2 && k->dims[1] == 3);
  assert_true(number_at(c, d, 0, 0, 5) == 5 && number_at(c, d, 0, 1, 5) == 255 && number_at(c, d, 1, 1, 0) == 9);
}
static void idx(void **state) {
  ctx *c = *state;
  mkdir(DIR "/mnist", 0777);
  const char *a = put("mnist/train-images-idx3-ubyte", images, sizeof images);
  const char *b = put_gz("mnist/train-labels-idx1-ubyte.gz", labels, sizeof labels);
  idx_is_there(c, arena_fmt(ctx_arena(c), "%s,%s", a, b));
  rename(DIR "/mnist/train-labels-idx1-ubyte.gz", DIR "/mnist/train-labels-idx1-ubyte");
  idx_is_there(c, DIR "/mnist"); /* recognised by what it is, not by its name */
  put_gz("mnist/t10k-images.idx3-ubyte.gz", images, sizeof images);
  put("mnist/t10k-labels.idx1-ubyte.gz", labels, sizeof labels);
  idx_is_there(c, DIR "/mnist"); /* the pair for training */
  idx_is_there(c, DIR "/mnist:t10k");
  refused(DIR "/mnist:test", NULL, 0, 0, "nor a pair of IDX files");
  /* other elements are big-endian */
  const uint8_t f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0};
  const uint8_t i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0x01, 0x02, 0xff, 0xfe};
  dataset *d = open_it(c, put("f.idx", f32, sizeof f32));
  assert_true(number_at(c, d, 0, 0, 0) == 1 && number_at(c, d, 0, 1, 0) == -2.5);
  d = open_it(c, put("i.idx", i16, sizeof i16));
  assert_true(number_at(c, d, 0, 0, 0) == 258 && number_at(c, d, 0, 1, 0) == -2);
}
static void idx_refused(void **state) {
  ctx *c = *state;
  uint8_t bad[64], packed[4096];
  memcpy(bad, images, sizeof images);
  for (size_t n = 4; n < sizeof images; n++)
    refused(put("bad.idx", bad, n), NULL, 0, 0, n < 16 ? "truncated in its header" : "the IDX file's sizes ask for 12");
  refused(put("bad.idx", bad, sizeof images + 1), NULL, 0, 0, "ask for 12 bytes of elements; 13 are there");
  memset(bad + 4, 0xff, 12);
  refused(put("bad.idx", bad, sizeof images), NULL, 0, 0, "sizes overflow");
  bad[3] = 17;
  refused(put("bad.idx", bad, sizeof images), NULL, 0, 0, "17 axes");
  bad[2] = 0x0a;
  refused(put("bad.idx", bad, sizeof images), NULL, 0, 0, "the format is not known");
  const char *path = put_gz("bad.gz", images, sizeof images);
  FILE *f = fopen(path, "rb");
  const size_t n = fread(packed, 1, sizeof packed, f);
  fclose(f);
  for (size_t k = 18; k < n; k++) refused(put("bad.gz", packed, k), NULL, 0, 0, "damaged or truncated");
  packed[n - 5] ^= 1; /* the checksum */
  refused(put("bad.gz", packed, n), NULL, 0, 0, "damaged or truncated");
  mkdir(DIR "/none", 0777);
  refused(DIR "/none", NULL, 0, 0, "nor a pair of IDX files");
  mkdir(DIR "/half", 0777);
  put("half/train-images-idx3-ubyte", images, sizeof images);
  refused(DIR "/half", NULL, 0, 0, "train-labels-idx1-ubyte': No such file");
  (void)c;
}

/* ---- conversion ------------------------------------------------------------------------------ */
typedef struct one_read {
  const dataset *d;
  int64_t i;
  etype type;
  const char *says;
} one_read;
static void read_one(ctx *c, const void *env) {
  const one_read *r = env;
  uint64_t out;
  dataset_read(c, r->d, 0, r->i, &(dataset_transform){.type = r->type}, &out);
}
static void conversion(void **state) {
  ctx *c = *state;
  uint8_t every[16 + 256] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 16};
  for (int i = 0; i < 256; i++) every[16 + i] = (uint8_t)i;
  dataset *d = open_it(c, put("every.idx", every, sizeof every));
  float f[256];
  read_to(c, d, 0, 0, dataset_converted(d, 0, ET_F32), f);
  for (int i = 0; i < 256; i++) assert_true(f[i] == (float)i / 255.0f); /* rounded once */
  read_to(c, d, 0, 0, (dataset_transform){.type = ET_F32}, f);
  assert_true(f[255] == 255);
  int64_t l[256];
  read_to(c, d, 0, 0, dataset_converted(d, 0, ET_I64), l);
  assert_true(l[200] == 200);
  const double mean[2] = {1, 2}, factor[2] = {10, 100};
  read_to(c, d, 0, 0, (dataset_transform){.type = ET_F32, .groups = 2, .mean = mean, .factor = factor}, f);
  assert_true(f[127] == 1260 && f[128] == 12600);
  uint16_t h[256];
  read_to(c, d, 0, 0, dataset_converted(d, 0, ET_F16), h);
  assert_int_equal(h[255], 0x3c00);
  /* whole numbers become integers, others don't */
  const double v[5] = {3, -1, 0.5, 1e300, NAN};
  d = open_it(c, put_npy("v.npy", "(5,)", "<f8", v, sizeof v));
  int8_t b = 0;
  read_to(c, d, 0, 0, (dataset_transform){.type = ET_I8}, &b);
  assert_int_equal(b, 3);
  const one_read bad[] = {
      {d, 1, ET_U8, "sample 1: -1 is no value of u8"},    {d, 1, ET_U64, "sample 1: -1 is no value of u64"},
      {d, 2, ET_I32, "sample 2: 0.5 is no value of i32"}, {d, 3, ET_I64, "sample 3: 1e+300 is no value of i64"},
      {d, 4, ET_I64, "sample 4: nan is no value of i64"}, {d, 0, ET_BOOL, "sample 0: 3 is no value of bool"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) unwinds(c, read_one, &bad[i], bad[i].says);
}
static void standardization(void **state) {
  ctx *c = *state;
  /* two features: far from 0 with small deviations, and constant */
  const double x[4][2] = {{1e8 + 1, 7}, {1e8 + 3, 7}, {1e8 + 5, 7}, {-1e9, 7}};
  dataset *d = open_it(c, put_npy("n.npy", "(4, 2)", "<f8", x, sizeof x));
  const int64_t part[3] = {0, 1, 2};
  dataset_statistics t = {0};
  CTX_TRY(c) { t = dataset_measure(ctx_arena(c), d, 0, (dataset_part){part, 3}); }
  assert_int_equal(t.groups, 2);
  assert_true(t.mean[0] == 1e8 + 3 && t.mean[1] == 7);
  assert_true(fabs(t.deviation[0] - sqrt(8.0 / 3)) < 1e-12 && t.deviation[1] == 1);
  /* channels: two samples of 2 channels of 1 x 2; bytes of images are read as 0 to 1 */
  const uint8_t p[8] = {0, 2, 10, 10, 4, 6, 10, 30};
  d = open_it(c, put_npy("p.npy", "(2, 2, 1, 2)", "|u1", p, sizeof p));
  CTX_TRY(c) { t = dataset_measure(ctx_arena(c), d, 0, dataset_all(d)); }
  assert_int_equal(t.groups, 2);
  assert_true(fabs(t.mean[0] - 3.0 / 255) < 1e-15 && fabs(t.mean[1] - 15.0 / 255) < 1e-15);
  assert_true(fabs(t.deviation[0] - sqrt(5) / 255) < 1e-14 && fabs(t.deviation[1] - sqrt(75) / 255) < 1e-14);
  /* noise in units of these deviations: the same numbers, scaled channel by channel */
  float plain[4], scaled[4], noisy[4];
  const dataset_augment g = {.noise = 0.5};
  dataset_transform how[2] = {dataset_converted(d, 0, ET_F32)};
  CTX_TRY(c) { how[1] = dataset_scaled_noise(ctx_arena(c), d, 0, ET_F32, &t); }
  CTX_TRY(c) {
    dataset_read(c, d, 0, 1, &how[1], plain);
    dataset_read_augmented(c, d, 0, &(dataset_draw){1, 2, 1}, &how[0], &g, noisy);
    dataset_read_augmented(c, d, 0, &(dataset_draw){1, 2, 1}, &how[1], &g, scaled);
  }
  for (int i = 0; i < 4; i++)
    assert_true(fabs((scaled[i] - plain[i]) - (noisy[i] - plain[i]) * t.deviation[i / 2]) < 1e-6);
  d = open_it(c, put_npy("p.npy", "(2, 2, 2)", "|u1", p, sizeof p)); /* a gray image: one group */
  CTX_TRY(c) { t = dataset_measure(ctx_arena(c), d, 0, dataset_all(d)); }
  assert_int_equal(t.groups, 1);
  assert_true(fabs(t.mean[0] - 9.0 / 255) < 1e-15);
}

/* ---- split ----------------------------------------------------------------------------------- */
static void check_parts(const dataset_part *a, const dataset_part *b, int64_t n) {
  assert_int_equal(a->n + b->n, n);
  for (int64_t i = 0, j = 0, k = 0; i < n; i++) { /* both ascend, and each sample is in one */
    const bool in_a = j < a->n && a->samples[j] == i, in_b = k < b->n && b->samples[k] == i;
    assert_true(in_a != in_b);
    j += in_a, k += in_b;
  }
}
typedef struct one_split {
  const dataset *d;
  double fraction;
} one_split;
static void split_by(ctx *c, const void *env) {
  const one_split *s = env;
  dataset_part rest, out;
  dataset_split(ctx_arena(c), s->d, s->fraction, 3, &rest, &out);
}
static void split(void **state) {
  ctx *c = *state;
  enum { N = 103 };
  int32_t y[N]; /* 60 of class 5, 33 of class -1, 10 of class 2, mixed */
  int count[3] = {0};
  for (int i = 0; i < N; i++) {
    const int64_t at = dataset_shuffled(1, 0, N, i);
    y[i] = at < 60 ? 5 : at < 93 ? -1 : 2;
  }
  dataset *d = open_it(c, arena_fmt(ctx_arena(c), "%s,%s", put_npy("x.npy", "(103,)", "<i4", y, sizeof y),
                                    put_npy("y.npy", "(103,)", "<i4", y, sizeof y)));
  dataset_part rest, out, rest2, out2;
  CTX_TRY(c) {
    dataset_split(ctx_arena(c), d, 0.2, 3, &rest, &out);
    dataset_split(ctx_arena(c), d, 0.2, 4, &rest2, &out2);
  }
  check_parts(&rest, &out, N);
  assert_int_equal(out.n, 21);
  for (int64_t i = 0; i < out.n; i++) count[y[out.samples[i]] == 5 ? 0 : y[out.samples[i]] == 2 ? 1 : 2]++;
  assert_int_equal(count[0], 12);
  assert_int_equal(count[1], 2);
  assert_int_equal(count[2], 7);
  assert_memory_not_equal(out.samples, out2.samples, 21 * sizeof *out.samples); /* another seed */
  CTX_TRY(c) { dataset_split(ctx_arena(c), d, 0.2, 3, &rest2, &out2); }
  assert_memory_equal(out.samples, out2.samples, 21 * sizeof *out.samples); /* the same */
  const double fractions[] = {0, 0.004, 0.999, 1, NAN, -1};
  for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++)
    unwinds(c, split_by, &(one_split){d, fractions[i]}, "leaves one side empty");
  double f[N]; /* floats are no labels */
  for (int i = 0; i < N; i++) f[i] = y[i] + 0.5;
  d = open_it(c, put_npy("f.npy", "(103,)", "<f8", f, sizeof f));
  CTX_TRY(c) { dataset_split(ctx_arena(c), d, 0.2, 3, &rest, &out); }
  check_parts(&rest, &out, N);
  assert_int_equal(out.n, 21);
}

/* ---- images ---------------------------------------------------------------------------------- */
#define IMAGES EK_SOURCE_DIR "/tests/data"
#if defined(EK_HAVE_PNG) && defined(EK_HAVE_JPEG)
enum { HAVE_IMAGES = 1 };
#else
enum { HAVE_IMAGES = 0 };
#endif
/* tolerance: of each value, from what Pillow has read */
static void is_image(const image *m, const npz *z, const char *name, int tolerance) {
  uint32_t k = 0;
  while (k < z->n && strcmp(z->names[k], name)) k++;
  assert_true(k < z->n);
  const ndarray *x = &z->arrays[k];
  assert_true(x->dims[0] == m->height && x->dims[1] == m->width && x->dims[2] == m->channels);
  for (size_t i = 0; i < x->bytes; i++)
    if (abs(((const uint8_t *)x->data)[i] - m->pixels[i]) > tolerance)
      fail_msg("%s: value %zu is %d, not %d", name, i, m->pixels[i], ((const uint8_t *)x->data)[i]);
}
static void try_image(ctx *c, const npz *z, const char *name) {
  arena *a = ctx_arena(c);
  const int tolerance = strstr(name, ".jpg") ? 2 : 0;
  const image m = read_image(a, arena_fmt(a, "%s/%s", IMAGES, name));
  is_image(&m, z, name, tolerance);
  image other = image_converted(a, &m, 3);
  other = image_resized(a, &other, 5, 7);
  is_image(&other, z, arena_fmt(a, "%s.rgb", name), 1 + tolerance);
  other = image_converted(a, &m, 1);
  other = image_resized(a, &other, 20, 18);
  is_image(&other, z, arena_fmt(a, "%s.gray", name), 1 + tolerance);
}
static void all_images(void **state) {
  ctx *c = *state;
  if (!HAVE_IMAGES) skip();
  npz z;
  static const char *const names[] = {"gray.png",       "bits.png", "palette.png", "rgb.png",        "alpha.png",
                                      "interlaced.png", "gray.jpg", "rgb.jpg",     "progressive.jpg"};
  assert_true(npz_read(c, IMAGES "/images.npz", &z));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CTX_TRY(c) { try_image(c, &z, names[i]); }
    CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
  }
}
static void read_one_image(ctx *c, const void *path) { read_image(ctx_arena(c), path); }
static void try_changed(const char *path) {
  ctx *own = ctx_new();
  CTX_TRY(own) { read_image(ctx_arena(own), path); }
  CTX_CATCH { assert_true(diag_code(own) == E_IO || diag_code(own) == E_UNSUPPORTED); }
  ctx_free(own);
}
/* Each image cut at many places, which is an error; and with bytes changed, which may also give other pixels. */
static void damaged_images(void **state) {
  ctx *c = *state;
  if (!HAVE_IMAGES) skip();
  static const char *const names[] = {"interlaced.png", "palette.png", "gray.jpg", "progressive.jpg"};
  unwinds(c, read_one_image, IMAGES "/cmyk.jpg", "in CMYK");
  unwinds(c, read_one_image, IMAGES "/images.npz", "neither a PNG nor a JPEG");
  unwinds(c, read_one_image, IMAGES "/none.png", "No such file");
  unwinds(c, read_one_image, IMAGES, "is no file");
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    bytes f;
    assert_true(file_map(c, arena_fmt(ctx_arena(c), "%s/%s", IMAGES, names[k]), &f));
    uint8_t *copy = arena_dup(ctx_arena(c), f.p, f.n);
    for (size_t n = 0; n + 12 < f.n; n += 7) unwinds(c, read_one_image, put("cut.img", copy, n), "cut.img");
    for (size_t i = 8; i < f.n; i += 3) {
      copy[i] ^= (uint8_t)(1 + i % 255);
      try_changed(put("changed.img", copy, f.n));
      copy[i] = f.p[i];
    }
  }
  uint8_t huge[41] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xff\0\0\xff\xff\x08";
  const uint32_t crc = (uint32_t)crc32(0, huge + 12, 17);
  for (int i = 0; i < 4; i++) huge[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
  memcpy(huge + 37, "IDAT", 4);
  unwinds(c, read_one_image, put("huge.png", huge, sizeof huge), "65535 x 65535 pixels; at most");
}
static void copy_image(ctx *c, const char *name, const char *to) {
  bytes f;
  assert_true(file_map(c, arena_fmt(ctx_arena(c), "%s/%s", IMAGES, name), &f));
  put(to, f.p, f.n);
}
static dataset *open_like(ctx *c, const char *path, const dataset *like) {
  dataset *volatile d = NULL;
  CTX_TRY(c) { d = dataset_open(c, path, &(dataset_options){0}, like); }
  CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
  return d;
}
static void image_folder(void **state) {
  ctx *c = *state;
  if (!HAVE_IMAGES) skip();
  mkdir(DIR "/animals", 0777), mkdir(DIR "/animals/dog", 0777), mkdir(DIR "/animals/cat", 0777);
  mkdir(DIR "/others", 0777), mkdir(DIR "/others/dog", 0777);
  copy_image(c, "gray.png", "animals/dog/b.PNG"), copy_image(c, "rgb.png", "animals/dog/a.png");
  copy_image(c, "rgb.png", "animals/cat/x.png"), copy_image(c, "rgb.jpg", "others/dog/y.jpeg");
  put_text("animals/cat/notes.txt", "no image");
  dataset *d = open_it(c, DIR "/animals");
  assert_int_equal(dataset_count(d), 3);
  column_is(d, 0, "images", ET_U8, 3 * 11 * 9);
  column_is(d, 1, "labels", ET_I64, 1);
  assert_string_equal(dataset_column_at(d, 1)->labels[0], "cat");
  assert_true(number_at(c, d, 1, 0, 0) == 0 && number_at(c, d, 1, 2, 0) == 1);
  image m = {0};
  CTX_TRY(c) { m = read_image(ctx_arena(c), IMAGES "/rgb.png"); }
  for (int64_t k = 0; k < 3; k++)
    for (int64_t p = 0; p < 99; p++) assert_true(number_at(c, d, 0, 1, k * 99 + p) == m.pixels[3 * p + k]);
  assert_true(number_at(c, d, 0, 2, 5) == number_at(c, d, 0, 2, 99 + 5)); /* gray as RGB */
  d = open_with(c, DIR "/animals", (dataset_options){.image_height = 4, .image_width = 6, .image_channels = 1});
  column_is(d, 0, "images", ET_U8, 24);
  const dataset *like = open_like(c, DIR "/others", d); /* sizes and classes of another set */
  column_is(like, 0, "images", ET_U8, 24);
  assert_true(number_at(c, like, 1, 0, 0) == 1 && number_at(c, like, 0, 0, 0) > 0);
  copy_image(c, "rgb.jpg", "animals/dog/c.jpg");
  d = open_it(c, DIR "/animals");
  unwinds(c, read_one, &(one_read){d, 3, ET_F32, ""}, "of 24 x 30 pixels, the first image of 11 x 9; --image-size");
  remove(DIR "/animals/dog/c.jpg");
}

/* ---- texts ----------------------------------------------------------------------------------- */
typedef struct one_text {
  const char *path;
  const dataset_options *o;
} one_text;
static void open_text(ctx *c, const void *env) {
  const one_text *t = env;
  dataset_open(c, t->path, t->o, NULL);
}
static void texts(void **state) {
  ctx *c = *state;
  dataset *d = open_with(c, put_text("t.txt", "abcdefghij"), (dataset_options){.sequence = 3});
  assert_int_equal(dataset_count(d), 3);
  column_is(d, 0, "x", ET_U8, 3);
  column_is(d, 1, "y", ET_U8, 3);
  assert_int_equal(dataset_column_at(d, 1)->classes, 256);
  assert_true(number_at(c, d, 0, 2, 0) == 'g' && number_at(c, d, 1, 2, 0) == 'h' && number_at(c, d, 1, 2, 2) == 'j');
  const char *words = put_text("words.txt", "a\nab\nabcd\r\nc\n\\n\n\\x64\\\\\nd");
  d = open_with(c, put_text("t.txt", "ababcabcd\nad\\d"), (dataset_options){.sequence = 7, .vocabulary = words});
  const double want[8] = {1, 1, 3, 2, 4, 0, 5, 6}; /* ab ab c abcd \n a d\ d */
  assert_int_equal(dataset_count(d), 1);
  column_is(d, 0, "x", ET_U32, 7);
  assert_int_equal(dataset_column_at(d, 0)->classes, 7);
  for (int64_t i = 0; i < 7; i++)
    assert_true(number_at(c, d, 0, 0, i) == want[i] && number_at(c, d, 1, 0, i) == want[i + 1]);
  const dataset_options o = {.sequence = 4, .vocabulary = words};
  refused(put_text("t.txt", "ab\nabxab"), &o, 2, 3, "no token of the vocabulary begins with the byte 0x78 here");
  refused(put_text("t.txt", "abab"), &o, 0, 0, "the text has 2 tokens; --sequence 4 needs one more than that");
  refused(put_text("t.txt", ""), &o, 0, 0, "the text has 0 tokens");
  static const struct {
    const char *text, *says;
    uint32_t line, col;
  } bad[] = {{"a\nb\na\n", "the token is that of line 1, too", 3, 1},
             {"a\n\nb", "an empty token", 2, 1},
             {"a\nb\\q", "a backslash must begin", 2, 2},
             {"\\x4", "a backslash must begin", 1, 1},
             {"a\\", "a backslash must begin", 1, 2}};
  const char *text = put_text("t.txt", "aaaaaa");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const dataset_options of = {.sequence = 1, .vocabulary = put_text("bad.txt", bad[i].text)};
    unwinds(c, open_text, &(one_text){text, &of}, bad[i].says);
  }
  refused(text, &(dataset_options){.sequence = 1, .vocabulary = DIR "/nothing"}, 0, 0, "No such file");
  refused(text, &(dataset_options){.sequence = 1, .vocabulary = put_text("bad.txt", "")}, 0, 0, "has no tokens");
  refused(text, &(dataset_options){.target = "z", .sequence = 1}, 0, 0, "no column 'z'");
  refused(text, NULL, 0, 0, "a text with --sequence");
}

/* ---- augmentation ---------------------------------------------------------------------------- */
enum { SIDE = 6, PLANES = 2, ELEMENTS = PLANES * SIDE * SIDE, SAMPLES = 64 };
static void augmented(ctx *c, const dataset *d, dataset_draw r, const dataset_augment *g, float *out) {
  CTX_TRY(c) { dataset_read_augmented(c, d, 0, &r, &(dataset_transform){.type = ET_F32}, g, out); }
  CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
}
/* Is out the image moved by dy and dx, mirrored or not? */
static bool is_moved(const uint8_t *in, const float *out, int dy, int dx, bool flip) {
  for (int i = 0; i < ELEMENTS; i++) {
    const int x = i % SIDE, sy = i / SIDE % SIDE + dy, sx = (flip ? SIDE - 1 - x : x) + dx;
    const bool inside = sy >= 0 && sy < SIDE && sx >= 0 && sx < SIDE;
    if (out[i] != (float)(inside ? in[i / (SIDE * SIDE) * SIDE * SIDE + sy * SIDE + sx] : 0)) return false;
  }
  return true;
}
/* Which of the 50 ways it was moved in: row, column, mirrored. */
static int way_of(const uint8_t *in, const float *out) {
  int way = -1;
  for (int k = 0; k < 50; k++)
    if (is_moved(in, out, k / 10 - 2, k / 2 % 5 - 2, k & 1)) {
      assert_int_equal(way, -1);
      way = k;
    }
  assert_true(way >= 0);
  return way;
}
static void fill_images(uint8_t *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = (uint8_t)(1 + i % 251);
}
static void places(void **state) {
  ctx *c = *state;
  uint8_t x[SAMPLES][ELEMENTS];
  float out[ELEMENTS], again[ELEMENTS];
  int seen[50] = {0}, ways = 0, flips = 0, same = 0;
  fill_images(x[0], sizeof x);
  dataset *d = open_it(c, put_npy("aug.npy", "(64, 2, 6, 6)", "|u1", x, sizeof x));
  const dataset_augment g = {.flip = true, .crop = 2};
  for (uint64_t epoch = 0; epoch < 16; epoch++)
    for (int64_t i = 0; i < SAMPLES; i++) {
      augmented(c, d, (dataset_draw){5, epoch, i}, &g, out);
      const int way = way_of(x[i], out);
      seen[way]++, flips += way & 1;
      augmented(c, d, (dataset_draw){5, epoch, i}, &g, again);
      assert_memory_equal(out, again, sizeof out);
      augmented(c, d, (dataset_draw){5, epoch + 1, i}, &g, again);
      same += !memcmp(out, again, sizeof out);
    }
  for (int k = 0; k < 50; k++) ways += seen[k] > 0;
  assert_int_equal(ways, 50);
  assert_in_range(flips, 432, 592); /* of 1024 */
  assert_in_range(same, 0, 60);     /* 20 are expected */
}
static void read_noise(ctx *c, const void *d) {
  uint8_t out[ELEMENTS];
  const dataset_augment g = {.noise = 1};
  dataset_read_augmented(c, d, 0, &(dataset_draw){0}, &(dataset_transform){0}, &g, out);
}
static void read_flipped(ctx *c, const void *d) {
  uint8_t out[ELEMENTS];
  const dataset_augment g = {.flip = true};
  dataset_read_augmented(c, d, 0, &(dataset_draw){0}, &(dataset_transform){0}, &g, out);
}
/* Mean, deviation, and no element like the one in front of it. */
static void noise(void **state) {
  ctx *c = *state;
  uint8_t x[SAMPLES][ELEMENTS];
  float out[ELEMENTS];
  double sum = 0, squares = 0, products = 0;
  const double n = SAMPLES * ELEMENTS;
  fill_images(x[0], sizeof x);
  dataset *d = open_it(c, put_npy("aug.npy", "(64, 2, 6, 6)", "|u1", x, sizeof x));
  for (int64_t i = 0; i < SAMPLES; i++) {
    augmented(c, d, (dataset_draw){5, 1, i}, &(dataset_augment){.noise = 3}, out);
    for (int k = 0; k < ELEMENTS; k++) {
      const double z = out[k] - x[i][k];
      sum += z, squares += z * z, products += k ? z * (out[k - 1] - x[i][k - 1]) : 0;
    }
  }
  assert_true(fabs(sum / n) < 5 * 3 / sqrt(n));
  assert_true(fabs(squares / n - 9) < 5 * 9 * sqrt(2 / n));
  assert_true(fabs(products / n) < 5 * 9 / sqrt(n));
  unwinds(c, read_noise, d, "noise needs floats; 'aug' is read as u8");
  d = open_it(c, put_npy("flat.npy", "(64, 72)", "|u1", x, sizeof x));
  unwinds(c, read_flipped, d, "flips and crops need images; samples of 'flat' have 1 axes");
}

/* ---- batches --------------------------------------------------------------------------------- */
enum { TABLE = 23, BATCH = 4, PART = 10 };
static const int64_t part_samples[PART] = {0, 2, 3, 5, 7, 11, 13, 17, 19, 22};
static const dataset_field table_fields[2] = {{.column = 0, .how = {.type = ET_F32}}, {.column = 1}};
static dataset_batches table_batches(ctx *c) { /* x is 3 y, 3 y + 1, 3 y + 2; y is the sample */
  int32_t x[TABLE * 3], y[TABLE];
  for (int i = 0; i < TABLE; i++) y[i] = i;
  for (int i = 0; i < TABLE * 3; i++) x[i] = i;
  dataset *d = open_it(c, arena_fmt(ctx_arena(c), "%s,%s", put_npy("x.npy", "(23, 3)", "<i4", x, sizeof x),
                                    put_npy("y.npy", "(23,)", "<i4", y, sizeof y)));
  return (dataset_batches){.set = d,
                           .part = {part_samples, PART},
                           .batch = BATCH,
                           .shuffle = true,
                           .seed = 9,
                           .nfields = 2,
                           .fields = table_fields};
}
static dataset_loader *open_loader(ctx *c, const dataset_batches *b, uint32_t buffers, uint64_t epoch, int64_t index) {
  dataset_loader *volatile l = NULL;
  CTX_TRY(c) { l = dataset_loader_open(c, b, buffers, epoch, index); }
  CTX_CATCH { fail_msg("%s", diag_first(c)->text); }
  return l;
}
static void check_batch(const dataset_batch *got, uint32_t *seen) {
  const float *x = got->data[0];
  const int32_t *y = got->data[1];
  assert_true((uintptr_t)x % 64 == 0 && (uintptr_t)y % 64 == 0);
  assert_int_equal(got->n, got->index == 2 ? 2 : 4);
  for (int64_t i = 0; i < got->n; i++) {
    assert_int_equal(y[i], part_samples[dataset_shuffled(9, got->epoch, PART, got->index * BATCH + i)]);
    for (int j = 0; j < 3; j++) assert_true(x[3 * i + j] == (float)(3 * y[i] + j));
    seen[y[i]] += got->epoch == 4;
  }
}
static void open_small(ctx *c, const void *b) { dataset_loader_open(c, b, 2, 0, 0); }
static void loader(void **state) {
  ctx *c = *state;
  dataset_batches b = table_batches(c);
  for (int keep = 0; keep < 2; keep++)
    for (uint32_t buffers = 2; buffers < 5; buffers++) {
      b.keep_last = keep;
      assert_int_equal(dataset_batch_count(&b), 2 + keep);
      dataset_loader *l = open_loader(c, &b, buffers, 3, 1); /* resumed */
      uint32_t seen[TABLE] = {0};
      for (int64_t k = 1; k < 9; k++) {
        const dataset_batch *got = dataset_loader_next(l);
        assert_int_equal(got->epoch, 3 + k / (2 + keep));
        assert_int_equal(got->index, k % (2 + keep));
        check_batch(got, seen);
      }
      for (int i = 0; keep && i < PART; i++) assert_int_equal(seen[part_samples[i]], 1); /* a whole epoch */
      dataset_loader_close(l);
    }
  for (int k = 0; k < 20; k++) { /* closed at any time */
    dataset_loader *l = open_loader(c, &b, 2, 0, 0);
    for (int i = 0; i < k % 3; i++) dataset_loader_next(l);
    dataset_loader_close(l);
  }
  dataset_loader_close(NULL);
  b.part.n = 3, b.keep_last = false;
  unwinds(c, open_small, &b, "3 samples do not fill one batch of 4");
}
static void next_batch(ctx *c, const void *l) {
  (void)c;
  dataset_loader_next((dataset_loader *)(uintptr_t)l);
}
/* An error of the thread comes with its batch, not before. */
static void loader_error(void **state) {
  ctx *c = *state;
  const double v[6] = {1, 2, 3, 4, 0.5, 6};
  dataset *d = open_it(c, put_npy("v.npy", "(6,)", "<f8", v, sizeof v));
  const dataset_field field = {.how = {.type = ET_I32}};
  const dataset_batches b = {.set = d, .part = dataset_all(d), .batch = 2, .nfields = 1, .fields = &field};
  dataset_loader *l = open_loader(c, &b, 4, 0, 0);
  for (int i = 0; i < 2; i++) {
    const dataset_batch *got = dataset_loader_next(l);
    assert_int_equal(((const int32_t *)got->data[0])[1], 2 * i + 2);
    assert_int_equal(diag_errors(c), 0);
  }
  unwinds(c, next_batch, l, "column 'v', sample 4: 0.5 is no value of i32");
  unwinds(c, next_batch, l, "column 'v', sample 4: 0.5 is no value of i32");
  dataset_loader_close(l);
}

/* ---- options --------------------------------------------------------------------------------- */
static void set_option(ctx *c, const void *env) {
  const char *const *option = env;
  dataset_options o = {0};
  dataset_option(c, &o, option[0], option[1]);
}
static void options(void **state) {
  ctx *c = *state;
  dataset_options o = {0};
  CTX_TRY(c) {
    assert_true(dataset_option(c, &o, "target", "price"));
    assert_true(dataset_option(c, &o, "split", "0.25"));
    assert_true(dataset_option(c, &o, "standardize", NULL));
    assert_true(dataset_option(c, &o, "image-size", "10x20"));
    assert_true(o.image_height == 10 && o.image_width == 20 && o.image_channels == 0);
    assert_true(dataset_option(c, &o, "image-size", "28"));
    assert_true(o.image_height == 28 && o.image_width == 28 && o.image_channels == 0);
    assert_true(dataset_option(c, &o, "image-size", "8x9x3"));
    assert_true(dataset_option(c, &o, "augment", "flip,crop:4,noise:0.1"));
    assert_true(dataset_option(c, &o, "sequence", "64"));
    assert_true(dataset_option(c, &o, "vocabulary", "v.txt"));
    assert_false(dataset_option(c, &o, "epochs", "3"));
  }
  assert_string_equal(o.target, "price");
  assert_true(o.split == 0.25 && o.standardize);
  assert_true(o.image_height == 8 && o.image_width == 9 && o.image_channels == 3);
  assert_true(o.augment.flip && o.augment.crop == 4 && o.augment.noise == 0.1);
  assert_int_equal(o.sequence, 64);
  assert_string_equal(o.vocabulary, "v.txt");
  static const char *const bad[][3] = {{"split", "1", "a fraction"},
                                       {"split", "0", "a fraction"},
                                       {"split", "x", "a fraction"},
                                       {"split", "0.2x", "--split 0.2x: a fraction of the samples is expected"},
                                       {"split", "", "a fraction"},
                                       {"image-size", "", "HEIGHT"},
                                       {"image-size", "0", "HEIGHT"},
                                       {"image-size", "8x", "HEIGHT"},
                                       {"image-size", "8x8x2", "HEIGHT"},
                                       {"image-size", "8x8x0", "HEIGHT"},
                                       {"image-size", "8x8x3x", "HEIGHT"},
                                       {"image-size", "99999999999999999999", "HEIGHT"},
                                       {"augment", "", "flip, crop:PIXELS"},
                                       {"augment", "flip,", "flip, crop:PIXELS"},
                                       {"augment", "flipped", "flip, crop:PIXELS"},
                                       {"augment", "crop:0", "flip, crop:PIXELS"},
                                       {"augment", "noise:-1", "flip, crop:PIXELS"},
                                       {"augment", "noise:inf", "flip, crop:PIXELS"},
                                       {"augment", "noise:nan", "flip, crop:PIXELS"},
                                       {"sequence", "0", "a number of tokens"},
                                       {"sequence", "12k", "a number of tokens"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) unwinds(c, set_option, bad[i], bad[i][2]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      cmocka_unit_test(known_answers),
      T(permutations),
      cmocka_unit_test(uniform),
      T(csv),
      T(csv_targets),
      T(csv_refused),
      T(classes_of_training),
      T(arrays),
      T(idx),
      T(idx_refused),
      T(conversion),
      T(standardization),
      T(split),
      T(all_images),
      T(damaged_images),
      T(image_folder),
      T(texts),
      T(places),
      T(noise),
      T(loader),
      T(loader_error),
      T(options),
#undef T
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
