/* einkorn train and einkorn evaluate: options to a trainer, data sets to batches, and what came of it. */
#include "cli/train.h"
#include <math.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */
/* Names of the definitions in a domain. */
static const char *names_of(cli *k, const char *domain) {
  const ek_op_info *ops;
  size_t n = 0;
  sbuf b = sbuf_new(k->a);
  if (ek_ops(k->s, &ops, &n)) return "";
  for (size_t i = 0; i < n; i++)
    if (!strncmp(ops[i].name, domain, strlen(domain)) && !strncmp(ops[i].name + strlen(domain), "::", 2))
      sb_fmt(&b, "%s%s", b.n ? ", " : "", ops[i].name + strlen(domain) + 2);
  return b.n ? b.s : "";
}
static int wrong(cli *k, const char *text) {
  return fail_text(k, EK_USAGE, arena_fmt(k->a, "error: %s: %s", k->cmd->name, text));
}
/* EXIT_DONE, or said why. */
static int check_options(cli *k) {
  const train_args *o = &k->train;
  const bool trains = k->cmd->bit == CMD_TRAIN;
  if (is_library(k->args.v[0])) return wrong(k, "a compiled library; take the model that it was made of");
  if (!k->data.n) return wrong(k, "no data: give some with --data FILE");
  if (!o->loss && (trains || !o->metrics.n))
    return wrong(k, arena_fmt(k->a, "no loss: give one with --loss; there are %s", names_of(k, "einkorn.loss")));
  if (o->batch < 1 || o->accumulate < 1 || (trains && o->keep < 1))
    return wrong(k, "--batch, --accumulate and --keep are at least 1");
  if (trains && !ends_in(k->output, ".onnx")) return wrong(k, "-o: the trained model is written as NAME.onnx");
  return EXIT_DONE;
}
static ek_train_options trainer_options(cli *k, const ek_options *compile, const feed *f) {
  train_args *o = &k->train;
  ek_train_options t;
  ek_train_options_init(&t);
  vec_push(k->a, o->metrics, NULL);
  vec_push(k->a, o->freeze, NULL);
  vec_push(k->a, o->groups, NULL);
  o->metrics.n--, o->freeze.n--, o->groups.n--;
  t.options = compile, t.loss = o->loss, t.optimizer = k->cmd->bit == CMD_EVALUATE ? NULL : o->optimizer;
  t.metrics = o->metrics.v, t.freeze = o->freeze.v, t.groups = o->groups.v, t.output = o->of;
  t.batch = f->batch, t.batch_count = f->n, t.standardize = f->standards, t.standardize_count = f->nstandards;
  t.metadata = class_metadata(k, f).v;
  t.clip_norm = o->clip_norm, t.clip_value = o->clip_value, t.accumulate = o->accumulate, t.seed = k->seed;
  if (o->loss_scale != 0) t.loss_scale = o->loss_scale;
  t.ema = o->ema, t.memory = o->memory, t.init = (const char *const[]){"keep", "he", "xavier"}[o->init];
  return t;
}

/* ---- data ------------------------------------------------------------------------------------ */
/* Options whose texts the data set reads. */
static dataset_options data_options(cli *k) {
  train_args *o = &k->train;
  const char *const given[][2] = {{"target", o->target},     {"image-size", o->image_size}, {"augment", o->augment},
                                  {"sequence", o->sequence}, {"vocabulary", o->vocabulary}, {"standardize", NULL}};
  dataset_options d = {0};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    if (given[i][1] || (o->standardize && !strcmp(given[i][0], "standardize")))
      dataset_option(k->c, &d, given[i][0], given[i][1]);
  return d;
}
static dataset *open_data(cli *k) {
  sbuf path = sbuf_new(k->a);
  const dataset_options o = data_options(k);
  for (uint32_t i = 0; i < k->data.n; i++) sb_fmt(&path, "%s%s", i ? "," : "", k->data.v[i]);
  return dataset_open(k->c, path.s, &o, NULL);
}
/* --validate: a fraction of the samples, or another data set. */
static void open_feeds(training *r, ek_model *model) {
  cli *k = r->k;
  const char *v = k->train.validate;
  dataset *d = open_data(k);
  dataset_part part = dataset_all(d), held = {0};
  char *end = NULL;
  const double fraction = v ? num_parse(k->c, v, &end) : 0;
  const bool split = v && end != v && !*end;
  if (split && !(fraction > 0 && fraction < 1))
    ctx_fail(k->c, E_USAGE, "--validate %s: a fraction between 0 and 1, or a file, is expected", v);
  if (split) dataset_split(k->a, d, fraction, k->seed, &part, &held);
  r->train = feed_open(k, model, d, part);
  r->train.source.augment = data_options(k).augment;
  if (split)
    r->check = feed_like(k, &r->train, d, held);
  else if (v) {
    const dataset_options o = data_options(k);
    const dataset *other = dataset_open(k->c, v, &o, d);
    r->check = feed_like(k, &r->train, other, dataset_all(other));
  }
  say(k, "%lld samples%s\n", (long long)part.n,
      v ? arena_fmt(k->a, ", %lld for validation", (long long)r->check.source.part.n) : "");
}

/* ---- train ----------------------------------------------------------------------------------- */
/* What a file says of training are BatchNormalization and Dropout alone. */
static ek_code tell_forms(cli *k, ek_model *model) {
  const ek_value_info *v;
  size_t n = 0;
  bool windows = false, forms = false;
  const ek_code e = ek_model_values(model, &v, &n);
  if (e) return e;
  for (size_t i = 0; i < n; i++) {
    windows |= !strcmp(v[i].op, "Conv");
    forms |= !strcmp(v[i].op, "BatchNormalization") || !strcmp(v[i].op, "Dropout");
  }
  if (windows && !forms)
    say(k,
        "warning: the model has neither BatchNormalization nor Dropout. If it was exported for inference, these were "
        "folded or removed, and it is trained without them: export it in its training form to keep them\n");
  return EK_OK;
}
/* Where the loss leaves out the model's last node: why, and how to have it otherwise. */
static ek_code tell_output(const training *r, ek_model *model) {
  cli *k = r->k;
  const char *of = ek_trainer_output(r->t);
  const ek_value_info *v;
  size_t n = 0;
  if (!of || k->train.of) return EK_OK;
  const ek_code e = ek_model_values(model, &v, &n);
  for (size_t i = 0; !e && i < n; i++)
    if (v[i].output == 0)
      say(k,
          "note: the model ends in %s, which %.*s computes itself: the loss and the metrics are of its input, %s. The "
          "trained model ends in %s as before; --of %s takes the loss of the model's output\n",
          v[i].op, (int)strcspn(k->train.loss, ":"), k->train.loss, of, v[i].op, v[i].name);
  return e;
}
static void tell_memory(const training *r) {
  ek_memory_use use = {.size = sizeof use};
  ek_trainer_memory(r->t, &use);
  say(r->k, "a step takes %.1f MB: %.1f of working memory, %.1f of parameters and other states, %.1f of constants; ",
      (double)(use.work_bytes + use.state_bytes + use.constant_bytes) / 1e6, (double)use.work_bytes / 1e6,
      (double)use.state_bytes / 1e6, (double)use.constant_bytes / 1e6);
  if (use.repeated)
    say(r->k, "%llu kernels run again, %.1f %% of the estimated time\n", (unsigned long long)use.repeated,
        100 * use.repeated_cost);
  else
    say(r->k, "nothing is computed again\n");
}
static void start(training *r) {
  cli *k = r->k;
  const char *newest = NULL, *from = k->train.resume;
  if (from && ends_in(from, ".safetensors")) newest = from, from = path_dir(k->a, from);
  if (!k->train.checkpoints) k->train.checkpoints = from;
  if (!k->train.checkpoints)
    k->train.checkpoints = arena_fmt(k->a, "%.*s.checkpoints", (int)strlen(k->output) - 5, k->output);
  if (from && !newest) newest = checkpoint_newest(k, from);
  if (!from && checkpoint_newest(k, k->train.checkpoints))
    ctx_fail(k->c, E_USAGE,
             "%s has checkpoints of a training: --resume %s continues it; for a new one remove them, or give another "
             "folder with --checkpoints",
             k->train.checkpoints, k->train.checkpoints);
  checkpoint_folder(k);
  r->best = INFINITY;
  if (newest) {
    checkpoint_read(r, newest);
    say(k, "continues %s: epoch %lld, step %lld\n", newest, (long long)r->epoch + 1, (long long)ek_trainer_steps(r->t));
  } else if (from)
    say(k, "%s has no checkpoint: training begins\n", from);
}
static void json_tally(const training *r, json *j, const char *key, const tally *s) {
  json_obj(j, key);
  if (r->k->train.loss) json_num(j, "loss", tally_loss(s));
  for (uint32_t i = 0; i < r->nmetrics; i++) json_num(j, r->k->train.metrics.v[i], tally_metric(r, s, i));
  json_num(j, "samples", s->samples);
  json_end(j);
}
/* The best weights are written, and what they come to on the validation set. */
static ek_code finish(training *r) {
  cli *k = r->k;
  tally check = {0};
  const char *best = path_join(k->a, k->train.checkpoints, CHECKPOINT_BEST);
  const int64_t steps = ek_trainer_steps(r->t), epochs = r->epoch;
  ek_code e = EK_OK;
  if (r->check.n && r->best_epoch != r->epoch && file_exists(best)) checkpoint_read(r, best);
  if (r->check.n) e = evaluate_all(r, &r->check, &check);
  if (!e) e = ek_trainer_save(r->t, k->output);
  if (e) return e;
  progress_clear();
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_obj(&j, NULL);
    json_str(&j, "model", k->args.v[0]);
    json_str(&j, "written", k->output);
    json_int(&j, "epochs", epochs);
    json_int(&j, "steps", steps);
    json_int(&j, "best_epoch", r->best_epoch);
    json_num(&j, "best_loss", r->best);
    if (r->check.n) json_tally(r, &j, "validation", &check);
    json_end(&j);
    print_json(&text);
  } else if (!k->quiet)
    printf("written: %s, the parameters of epoch %lld\n", k->output, (long long)(r->check.n ? r->best_epoch : epochs));
  return EK_OK;
}
int cmd_train(cli *k) {
  ek_model *model;
  training r = {.k = k};
  const ek_options compile = compile_options(k);
  const int code = check_options(k);
  if (code) return code;
  check_writable(k, "-o", k->output), check_writable(k, "--log", k->train.log);
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (!e) e = tell_forms(k, model);
  if (e) return fail(k, e);
  open_feeds(&r, model);
  const ek_train_options o = trainer_options(k, &compile, &r.train);
  e = ek_trainer_create(model, &o, &r.t);
  if (!e) e = tell_output(&r, model);
  if (e) return fail(k, e);
  if (k->train.memory) tell_memory(&r);
  r.nmetrics = k->train.metrics.n, r.sum = tally_new(k, r.nmetrics);
  start(&r);
  e = train_epochs(&r);
  if (!e && r.stopped) {
    say(k, "stopped; --resume %s continues\n", k->train.checkpoints);
    return EXIT_STOPPED;
  }
  if (!e) e = finish(&r);
  return e ? fail(k, e) : EXIT_DONE;
}

/* ---- --train of other commands ----------------------------------------------------------------- */
int open_step(cli *k, const ek_options *options, ek_trainer **t, ek_array **batch, size_t *n) {
  ek_model *model;
  if (is_library(k->args.v[0])) return wrong(k, "a compiled library; take the model that it was made of");
  if (!k->data.n) return wrong(k, "--train: a step is for batches of given sizes: give some data with --data FILE");
  if (k->train.batch < 1 || k->train.accumulate < 1) return wrong(k, "--batch and --accumulate are at least 1");
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (e) return fail(k, e);
  dataset *d = open_data(k);
  feed f = feed_open(k, model, d, dataset_all(d));
  const ek_train_options o = trainer_options(k, options, &f);
  e = ek_trainer_create(model, &o, t);
  if (e) return fail(k, e);
  if (batch) feed_read(k, &f, 0), *batch = f.batch, *n = f.n;
  return EXIT_DONE;
}
int compile_step(cli *k, ek_report *r) {
  ek_trainer *t;
  const ek_options compile = compile_options(k);
  const int code = open_step(k, &compile, &t, NULL, NULL);
  if (code) return code;
  ek_code e = EK_OK;
  if (k->train.evaluation) e = ek_trainer_compile(t, k->train.evaluation, 1, NULL);
  if (!e) e = ek_trainer_compile(t, k->output, 0, r);
  return e ? fail(k, e) : EXIT_DONE;
}

/* ---- evaluate -------------------------------------------------------------------------------- */
int cmd_evaluate(cli *k) {
  ek_model *model;
  training r = {.k = k};
  tally all;
  const ek_options compile = compile_options(k);
  const int code = check_options(k);
  if (code) return code;
  ek_code e = ek_load(k->s, k->args.v[0], &model);
  if (e) return fail(k, e);
  dataset *d = open_data(k);
  r.train = feed_open(k, model, d, dataset_all(d));
  const ek_train_options o = trainer_options(k, &compile, &r.train);
  e = ek_trainer_create(model, &o, &r.t);
  r.nmetrics = k->train.metrics.n;
  if (!e) e = evaluate_all(&r, &r.train, &all);
  if (e) return fail(k, e);
  progress_clear();
  if (k->json) {
    sbuf text = sbuf_new(k->a);
    json j = json_new(&text, true);
    json_tally(&r, &j, NULL, &all);
    print_json(&text);
    return EXIT_DONE;
  }
  printf("%.0f samples", all.samples);
  if (k->train.loss) printf(", loss %.6g", tally_loss(&all));
  for (uint32_t i = 0; i < r.nmetrics; i++) printf(", %s %.6g", k->train.metrics.v[i], tally_metric(&r, &all, i));
  puts("");
  return EXIT_DONE;
}
