/* Which column of a data set is which array of a batch? An input of the model takes the column of its name, or the only
 * column that is no target. What a loss or a metric is computed from, beside the model's result, takes the column of
 * its name, and `target` the target. Then the sizes must fit. */
#include "cli/train.h"
#include <string.h>

/* ---- sizes ----------------------------------------------------------------------------------- */
static int64_t elements(const int64_t *dims, int32_t rank, int32_t from) {
  int64_t n = 1;
  for (int32_t i = from; i < rank; i++)
    if (dims[i] < 0 || !mul64(n, dims[i], &n)) return -1;
  return n;
}
/* The same sizes but for axes of 1, or a table's row, which has no shape of its own. */
static bool may_reshape(const dataset_column *x, const int64_t *dims, int32_t rank, int32_t from) {
  uint32_t i = 0;
  if (elements(dims, rank, from) != x->elements) return false;
  if (x->rank < 2) return true;
  for (int32_t j = from; j < rank; j++) {
    if (dims[j] == 1) continue;
    while (i < x->rank && x->dims[i] == 1) i++;
    if (i == x->rank || x->dims[i++] != dims[j]) return false;
  }
  return true;
}
static const char *sample_text(cli *k, const dataset_column *x) {
  return tensor_text(k->a, x->type, x->rank, x->dims, NULL);
}

/* ---- columns --------------------------------------------------------------------------------- */
static const char *column_list(cli *k, const dataset *d) {
  sbuf b = sbuf_new(k->a);
  for (uint32_t i = 0; i < dataset_columns(d); i++) {
    const dataset_column *x = dataset_column_at(d, i);
    sb_fmt(&b, "%s%s: %s", i ? ", " : "", x->name, sample_text(k, x));
  }
  return b.s;
}
static void add_array(cli *k, ek_model *model, feed *f, const char *name, uint32_t column, etype type) {
  for (size_t i = 0; i < f->n; i++)
    if (!strcmp(f->batch[i].name, name)) return;
  match_classes(k, model, f->set, column, name);
  const dataset_column *x = dataset_column_at(f->source.set, column);
  ek_array *to = &f->batch[f->n];
  f->fields[f->n] = (dataset_field){.column = column, .how = dataset_converted(f->source.set, column, type)};
  f->room[f->n++] = arena_array(k->a, (size_t)f->rows, (size_t)x->elements * et_bytes(type));
  *to = (ek_array){.name = name, .type = (ek_type)et_to_onnx(type), .rank = (int32_t)x->rank + 1};
  to->dims[0] = f->rows;
  memcpy(to->dims + 1, x->dims, x->rank * sizeof *x->dims);
}
/* the last array gets these sizes, but for the first axis */
static void shape_as(feed *f, const int64_t *dims, int32_t rank, int32_t from) {
  ek_array *to = &f->batch[f->n - 1];
  to->rank = rank - from + 1;
  memcpy(to->dims + 1, dims + from, (size_t)(rank - from) * sizeof *dims);
}
/* The model is to standardize the last array; noise is in units of what it reads then. */
static void standardize(cli *k, feed *f) {
  dataset_field *x = &f->fields[f->n - 1];
  const dataset_statistics s = dataset_measure(k->a, f->source.set, x->column, f->source.part);
  f->standards[f->nstandards++] = (ek_standardization){f->batch[f->n - 1].name, s.mean, s.deviation, s.groups};
  if (k->train.augment) x->how = dataset_scaled_noise(k->a, f->source.set, x->column, x->how.type, &s);
}
static void add_input(cli *k, ek_model *model, feed *f, const ek_tensor_info *in, uint32_t column) {
  const dataset_column *x = dataset_column_at(f->source.set, column);
  const etype type = et_from_onnx((int)in->type);
  int64_t dims[MAX_RANK];
  if (in->rank < 1 || (in->dims[0] >= 0 && in->dims[0] != f->rows))
    ctx_fail(k->c, E_SHAPE, "input %s is %s: its first axis should be the samples of a batch, open or %lld (--batch)",
             in->name, tensor_text(k->a, type, (uint32_t)in->rank, in->dims, in->dim_names), (long long)f->rows);
  bool fits = x->rank + 1 == (uint32_t)in->rank;
  for (int32_t i = 1; i < in->rank; i++) {
    dims[i] = fits && in->dims[i] < 0 ? x->dims[i - 1] : in->dims[i];
    fits &= i < in->rank && fits && dims[i] == x->dims[i - 1];
  }
  if (!fits && !may_reshape(x, dims, in->rank, 1))
    ctx_fail(k->c, E_SHAPE, "column %s: its samples are %s, which does not fit the model's input %s: %s%s", x->name,
             sample_text(k, x), in->name, tensor_text(k->a, type, (uint32_t)in->rank, in->dims, in->dim_names),
             x->resizable ? "; --image-size HEIGHTxWIDTHxCHANNELS resizes images" : "");
  const char *name = arena_strdup(k->a, in->name);
  add_array(k, model, f, name, column, type);
  shape_as(f, dims, in->rank, 1);
  if (k->train.standardize && et_kind(type) == K_FLOAT) standardize(k, f);
  f->fields[f->n - 1].augmented = et_kind(type) == K_FLOAT;
  say(k, "input %s: column %s, %s%s\n", name, x->name, sample_text(k, x), fits ? "" : ", reshaped");
}
static void add_inputs(cli *k, ek_model *model, feed *f) {
  const int32_t n = ek_model_inputs(model), target = dataset_target(f->source.set);
  for (int32_t i = 0; i < n; i++) {
    ek_tensor_info in;
    if (ek_model_input(model, i, &in)) ctx_fail(k->c, E_MODEL, "%s", session_text(k));
    int32_t column = dataset_find(f->source.set, in.name);
    if (column < 0 && n == 1 && dataset_columns(f->source.set) == (target < 0 ? 1 : 2)) column = target == 0 ? 1 : 0;
    if (column < 0)
      ctx_fail(k->c, E_USAGE, "no column for the model's input %s: the data have %s; NAME=FILE names one", in.name,
               column_list(k, f->source.set));
    add_input(k, model, f, &in, (uint32_t)column);
  }
}

/* ---- targets --------------------------------------------------------------------------------- */
/* Labels are numbers of classes. */
static void check_labels(cli *k, const feed *f, uint32_t column, const char *rule, int64_t classes) {
  const dataset_column *x = dataset_column_at(f->source.set, column);
  const dataset_transform how = dataset_converted(f->source.set, column, ET_I64);
  const char *ignore = strstr(rule, "ignore_index=");
  const int64_t ignored = ignore ? int_parse(ignore + 13, NULL) : -100;
  int64_t *v = NEWN(k->a, int64_t, (size_t)x->elements);
  for (int64_t i = 0; i < f->source.part.n; i++) {
    const int64_t at = f->source.part.samples ? f->source.part.samples[i] : i;
    dataset_read(k->c, f->source.set, column, at, &how, v);
    for (int64_t j = 0; j < x->elements; j++)
      if ((v[j] < 0 || v[j] >= classes) && v[j] != ignored)
        ctx_fail(k->c, E_SHAPE,
                 "column %s: sample %lld has the label %lld%s, but the model's result has %lld classes: 0 to %lld are "
                 "expected",
                 x->name, (long long)at, (long long)v[j], x->labels ? arena_fmt(k->a, " (%s)", x->labels[v[j]]) : "",
                 (long long)classes, (long long)classes - 1);
  }
}
/* The target has the sizes of the result; or, where it is of labels (rule: what takes them), those without the axis of
 * classes, which is the first or the last of a sample. Other sizes are for the loss to judge. */
static void fit_target(cli *k, feed *f, uint32_t column, const ek_tensor_info *y, const char *rule) {
  const dataset_column *x = dataset_column_at(f->source.set, column);
  const int64_t all = y->rank > 0 ? elements(y->dims, y->rank, 1) : -1;
  if (all == x->elements && may_reshape(x, y->dims, y->rank, 1)) {
    shape_as(f, y->dims, y->rank, 1);
    return;
  }
  if (!rule && all > 0)
    ctx_fail(k->c, E_SHAPE, "column %s: its samples are %s, which does not fit the model's result %s: %s", x->name,
             sample_text(k, x), y->name,
             tensor_text(k->a, et_from_onnx((int)y->type), (uint32_t)y->rank, y->dims, y->dim_names));
  if (!rule || y->rank < 2) return;
  const int64_t first = y->dims[1], last = y->dims[y->rank - 1];
  if (first > 0 && x->elements * first == all && may_reshape(x, y->dims, y->rank, 2)) {
    shape_as(f, y->dims, y->rank, 2);
    check_labels(k, f, column, rule, first);
  } else if (last > 0 && x->rank + 2 == (uint32_t)y->rank)
    check_labels(k, f, column, rule, last);
}
/* Has each sample a number for each place of the result, such as probabilities of classes (0 and 1, too)? Else numbers
 * are labels. Where the result's sizes are open, their type tells. */
static bool is_like_result(const dataset_column *x, const ek_tensor_info *y) {
  const int64_t all = y->rank > 0 ? elements(y->dims, y->rank, 1) : -1;
  return all > 0 ? all == x->elements && may_reshape(x, y->dims, y->rank, 1) : et_kind(x->type) == K_FLOAT;
}
static void add_target(cli *k, ek_model *model, feed *f, const ek_tensor_info *y, const ek_rule_input *in,
                       const char *rule) {
  const int32_t named = dataset_find(f->source.set, in->name),
                column = named < 0 && !strcmp(in->name, "target") ? dataset_target(f->source.set) : named;
  if (column < 0 && in->optional) return;
  if (column < 0)
    ctx_fail(k->c, E_USAGE, "no column for '%s', which %s needs: the data have %s; --target names the target", in->name,
             rule, column_list(k, f->source.set));
  const dataset_column *x = dataset_column_at(f->source.set, (uint32_t)column);
  const bool integers = in->integers && (!in->floats || !is_like_result(x, y));
  const size_t before = f->n;
  add_array(k, model, f, arena_strdup(k->a, in->name), (uint32_t)column,
            integers ? ET_I64 : et_from_onnx((int)y->type));
  if (f->n == before) return;
  say(k, "%s: column %s, %s%s\n", in->name, x->name, sample_text(k, x),
      x->labels ? arena_fmt(k->a, ", %u classes", x->classes) : "");
  if (!strcmp(in->name, "target")) fit_target(k, f, (uint32_t)column, y, integers ? rule : NULL);
}
static void add_rule(cli *k, ek_model *model, feed *f, const char *domain, const char *rule) {
  const ek_rule_input *in;
  size_t n;
  ek_tensor_info y;
  if (ek_rule_inputs(k->s, domain, rule, &in, &n)) ctx_fail(k->c, E_USAGE, "%s", session_text(k));
  ek_rule_input *copy = arena_dup(k->a, in, (n + 1) * sizeof *in);
  for (size_t i = 0; i < n; i++) copy[i].name = arena_strdup(k->a, in[i].name);
  if (ek_model_output(model, 0, &y)) ctx_fail(k->c, E_MODEL, "%s", session_text(k));
  for (size_t i = 0; i < n; i++) add_target(k, model, f, &y, &copy[i], rule);
}

/* ---- feeds ----------------------------------------------------------------------------------- */
enum { MAX_ARRAYS = 64 };
feed feed_open(cli *k, ek_model *model, dataset *d, dataset_part part) {
  const bool trains = k->cmd->bit != CMD_EVALUATE;
  feed f = {.rows = k->train.batch, .set = d};
  if (f.rows > part.n && trains)
    ctx_fail(k->c, E_USAGE, "--batch %lld: there are %lld samples to train on; a step takes a whole batch",
             (long long)f.rows, (long long)part.n);
  f.rows = min64(f.rows, part.n);
  f.batch = NEWN(k->a, ek_array, MAX_ARRAYS), f.fields = NEWN(k->a, dataset_field, MAX_ARRAYS);
  f.room = NEWN(k->a, void *, MAX_ARRAYS), f.standards = NEWN(k->a, ek_standardization, MAX_ARRAYS);
  f.source = (dataset_batches){.set = d, .part = part, .batch = f.rows, .keep_last = !trains, .shuffle = trains};
  f.source.seed = k->seed, f.source.fields = f.fields;
  if (ek_model_inputs(model) > MAX_ARRAYS / 2) ctx_fail(k->c, E_UNSUPPORTED, "the model has too many inputs");
  add_inputs(k, model, &f);
  if (k->train.loss) add_rule(k, model, &f, "einkorn.loss", k->train.loss);
  for (uint32_t i = 0; i < k->train.metrics.n && k->train.metrics.v[i]; i++)
    add_rule(k, model, &f, "einkorn.metric", k->train.metrics.v[i]);
  f.source.nfields = (uint32_t)f.n;
  return f;
}
feed feed_like(cli *k, const feed *train, const dataset *d, dataset_part part) {
  const dataset *was_in = train->source.set;
  feed f = *train;
  f.batch = arena_dup(k->a, train->batch, f.n * sizeof *f.batch);
  f.fields = arena_dup(k->a, train->fields, f.n * sizeof *f.fields);
  f.source.set = d, f.source.part = part, f.source.fields = f.fields;
  f.source.keep_last = true, f.source.shuffle = false, f.source.augment = (dataset_augment){0};
  for (size_t i = 0; i < f.n && d != was_in; i++) {
    const dataset_column *was = dataset_column_at(was_in, f.fields[i].column);
    const int32_t column = dataset_find(d, was->name);
    if (column < 0 || dataset_column_at(d, (uint32_t)column)->elements != was->elements)
      ctx_fail(k->c, E_SHAPE, "the validation set has no column %s of %s, as the training set has: its columns are %s",
               was->name, sample_text(k, was), column_list(k, d));
    f.fields[i].column = (uint32_t)column;
    f.fields[i].how = dataset_converted(d, (uint32_t)column, f.fields[i].how.type);
  }
  return f;
}
void feed_use(feed *f, void *const *data, int64_t rows) {
  for (size_t i = 0; i < f->n; i++) {
    ek_array *x = &f->batch[i];
    x->data = data[i], x->dims[0] = rows;
    x->bytes = ek_type_bytes(x->type);
    for (int32_t k = 0; k < x->rank; k++) x->bytes *= (size_t)x->dims[k];
  }
}
int64_t feed_read(cli *k, feed *f, int64_t index) {
  const int64_t rows = dataset_batch_read(k->c, &f->source, 0, index, f->room);
  feed_use(f, f->room, rows);
  return rows;
}
