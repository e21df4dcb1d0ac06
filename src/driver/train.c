/* ek_trainer: a model, its step of training as a module, and a run of it that holds the states.
 *
 *   1. Definitions of loss, optimiser and metrics are found (train/rule.c), and the graph of the model becomes that of
 *      a step while the module is compiled (train/step.c).
 *   2. A step is one run: the batch, the learning rate and the number of the step go in, the loss comes out.
 *   3. Evaluation is another module, of the model as it is, compiled for the sizes that it is asked for: the last batch
 *      of a set is smaller. Its parameters are inputs, bound to what the step's states hold.
 */
#include "driver/driver.h"
#include "driver/train_init.h"
#include "driver/train_value.h"
#include "onnx/onnx.h"
#include "train/train.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STANDARDIZED "einkorn.standardized" /* metadata: the inputs that the model standardizes */
enum { MOST_SIZES = 4 };                    /* evaluations that are kept */
typedef struct evaluation {                 /* the model for evaluation, of a batch of these sizes */
  const graph_given *batch;                 /* as train_plan.batch */
  ek_module *code;                          /* NULL: an empty place */
  ek_run *run;                              /* its run */
} evaluation;
struct ek_trainer {
  ek_model *m;                   /* the model */
  memory mem;                    /* where the trainer's own memory comes from */
  ctx *c;                        /* context of what is kept here */
  arena *a;                      /* its memory */
  ek_train_options want;         /* what was asked for; texts are copies */
  ek_options o;                  /* how modules are compiled */
  strvec dims;                   /* sizes that the caller fixes */
  train_plan plan;               /* how graphs are made */
  train_made made;               /* what became of the model */
  ek_module *step;               /* the step */
  ek_run *run;                   /* its run */
  evaluation checks[MOST_SIZES]; /* the last one used is the first */
  ek_run *last;                  /* the run of the last step or evaluation; NULL: none */
  bool looked;                   /* plan.output is what it stays */
  bool watched;                  /* a step is compiled whose tensors are all outputs */
  int64_t *keys;                 /* of the samples of the batch: random numbers */
  bool numbered;                 /* the caller said which samples they are */
  int64_t steps;                 /* updates so far */
  int64_t calls;                 /* batches since the last update */
  double *sums;                  /* a metric, as numbers of f64 */
  size_t room;                   /* how many there is room for */
};

static ek_code run_failed(const ek_trainer *t, ek_run *r, ek_code e) {
  return session_fail(t->m->s, e, "%s", ek_run_message(r));
}

/* ---- compiling ------------------------------------------------------------------------------- */
/* Which tensor is the loss of, where the caller does not say it? */
static void find_output(ek_trainer *t, graph *g) {
  const ops_sources ops = own_ops_sources(g->c, t->m->ops, t->m->nops);
  t->looked = true;
  if (t->plan.output) return;
  const char *name = train_before_link(g->c, pipe_library(g->c, &ops), g, &t->plan.loss);
  if (name) t->plan.output = arena_strdup(t->a, name);
}
static void build(graph *g, void *env) {
  ek_trainer *t = env;
  train_made made;
  if (!t->looked) find_output(t, g);
  train_build(g, &t->plan, &made);
  if (t->watched) watch_values(g, (const char *const[]){"*", NULL});
  if (t->plan.evaluate || t->watched) return;
  strvec *const from[] = {&made.parameters, &made.statistics, &made.moments};
  strvec *const to[] = {&t->made.parameters, &t->made.statistics, &t->made.moments};
  for (int k = 0; k < 3; k++)
    for (uint32_t i = 0; i < from[k]->n; i++) vec_push(t->a, *to[k], arena_strdup(t->a, from[k]->v[i]));
}
static void copy_batch(ek_trainer *t) {
  graph_given *batch = NEWN(t->a, graph_given, t->want.batch_count + 1);
  for (size_t i = 0; i < t->want.batch_count; i++) {
    const ek_array *x = &t->want.batch[i];
    batch[i].name = arena_strdup(t->a, x->name ? x->name : "");
    batch[i].data.type = et_from_onnx((int)x->type);
    if (!batch[i].data.type || x->rank < 0 || x->rank > EK_MAX_RANK)
      ctx_fail(t->c, E_USAGE, "batch: array '%s' has no element type or rank", batch[i].name);
    batch[i].data.rank = (uint32_t)x->rank;
    for (int32_t k = 0; k < x->rank; k++) batch[i].data.dims[k] = x->dims[k];
  }
  t->plan.batch = batch, t->plan.nbatch = (uint32_t)t->want.batch_count;
  int64_t least = 0;
  for (uint32_t i = 0; i < t->plan.nbatch; i++)
    if (batch[i].data.rank && batch[i].data.dims[0] > 0 && (!least || batch[i].data.dims[0] < least))
      least = batch[i].data.dims[0];
  t->plan.samples = least ? least : 1;
  t->keys = NEWN(t->a, int64_t, t->plan.samples);
}
static _Noreturn void no_array(const ek_trainer *t, const char *name) {
  sbuf has = sbuf_new(t->a);
  for (uint32_t k = 0; k < t->plan.nbatch; k++) sb_fmt(&has, "%s%s", k ? ", " : "", t->plan.batch[k].name);
  ctx_fail(t->c, E_USAGE, "batch: there is no array '%s', which is an input of the model; the batch has %s", name,
           has.n ? has.s : "nothing");
}
/* Open sizes of the model's inputs are those of the batch. */
static void fix_sizes(ek_trainer *t) {
  strvec dims = {0};
  for (uint32_t i = 0; i < t->dims.n; i++) vec_push(t->a, dims, t->dims.v[i]);
  for (int32_t i = 0; i < ek_model_inputs(t->m); i++) {
    ek_tensor_info in;
    if (ek_model_input(t->m, i, &in)) ctx_fail(t->c, E_MODEL, "%s", ek_message(t->m->s));
    bool there = false;
    for (uint32_t k = 0; k < t->plan.nbatch; k++) {
      const ndarray *d = &t->plan.batch[k].data;
      if (strcmp(t->plan.batch[k].name, in.name) != 0) continue;
      there = true;
      if (in.type && d->type != et_from_onnx((int)in.type))
        ctx_fail(t->c, E_SHAPE, "batch: array '%s' is of %s, the model's input of %s: convert the array", in.name,
                 et_name(d->type), et_name(et_from_onnx((int)in.type)));
      if (in.rank != (int32_t)d->rank)
        ctx_fail(t->c, E_SHAPE, "batch: array '%s' has %u axes, the model's input %d", in.name, d->rank, (int)in.rank);
      for (uint32_t j = 0; j < d->rank; j++)
        if (in.dim_names[j]) vec_push(t->a, dims, arena_fmt(t->a, "%s=%lld", in.dim_names[j], (long long)d->dims[j]));
    }
    if (!there) no_array(t, in.name);
  }
  vec_push(t->a, dims, NULL);
  t->o.dims = dims.v;
}
static const char *const *copy_texts(ek_trainer *t, const char *const *list) {
  strvec v = {0};
  for (; list && *list; list++) vec_push(t->a, v, arena_strdup(t->a, *list));
  vec_push(t->a, v, NULL);
  return v.v;
}
static void read_groups(ek_trainer *t) {
  VEC(train_group) groups = {0};
  for (const char *const *x = t->want.groups; x && *x; x++) {
    const char *colon = strchr(*x, ':');
    if (!colon) ctx_fail(t->c, E_USAGE, "group '%s': PATTERN:attribute=value,.. is expected", *x);
    vec_push(t->a, groups,
             ((train_group){intern_n(t->c, *x, (size_t)(colon - *x)),
                            train_refine_rule(t->c, &t->plan.optimizer, colon + 1)}));
  }
  t->plan.groups = groups.v, t->plan.ngroups = groups.n;
}
static void read_rules(ek_trainer *t) {
  const ops_sources ops = own_ops_sources(t->c, t->m->ops, t->m->nops);
  const oplib *lib = pipe_library(t->c, &ops);
  VEC(train_rule) metrics = {0};
  t->plan.lib = lib;
  if (t->want.loss) t->plan.loss = train_parse_rule(t->c, lib, TRAIN_LOSS_DOMAIN, "loss", t->want.loss);
  if (t->want.optimizer)
    t->plan.optimizer = train_parse_rule(t->c, lib, TRAIN_OPTIMIZER_DOMAIN, "optimizer", t->want.optimizer);
  for (const char *const *x = t->want.metrics; x && *x; x++)
    vec_push(t->a, metrics, train_parse_rule(t->c, lib, TRAIN_METRIC_DOMAIN, "metric", *x));
  t->plan.metrics = metrics.v, t->plan.nmetrics = metrics.n;
  if (t->want.optimizer) read_groups(t);
}
/* Inputs that are standardized; those of the model must not be, or they would be twice. */
static void read_standards(ek_trainer *t) {
  train_standard *to = NEWN(t->a, train_standard, t->want.standardize_count + 1);
  const ek_metadata *said;
  size_t n;
  if (!t->want.standardize_count) return;
  if (ek_model_metadata(t->m, &said, &n)) ctx_fail(t->c, E_MODEL, "%s", ek_message(t->m->s));
  for (size_t i = 0; i < n; i++)
    if (!strcmp(said[i].key, STANDARDIZED))
      ctx_fail(
          t->c, E_USAGE,
          "standardize: the model standardizes its input %s already, by the data that it was trained on, and takes raw "
          "values: leave this out",
          said[i].text);
  for (size_t i = 0; i < t->want.standardize_count; i++) {
    const ek_standardization *x = &t->want.standardize[i];
    if (!x->input || !x->mean || !x->deviation || !x->count)
      ctx_fail(t->c, E_USAGE, "standardize: an input, its mean and its deviation are needed");
    to[i] = (train_standard){arena_strdup(t->a, x->input), arena_dup(t->a, x->mean, x->count * sizeof *x->mean),
                             arena_dup(t->a, x->deviation, x->count * sizeof *x->deviation), (int64_t)x->count};
  }
  t->plan.standards = to, t->plan.nstandards = (uint32_t)t->want.standardize_count;
}
static void read_metadata(ek_trainer *t) {
  t->want.metadata = copy_texts(t, t->want.metadata);
  for (const char *const *x = t->want.metadata; *x; x++)
    if (!strchr(*x, '=') || **x == '=') ctx_fail(t->c, E_USAGE, "metadata '%s': KEY=TEXT is expected", *x);
}
static ek_code plan(ek_trainer *t) {
  volatile ek_code e = EK_OK;
  CTX_TRY(t->c) {
    read_rules(t);
    copy_batch(t);
    read_standards(t);
    read_metadata(t);
    for (const char *const *x = t->o.dims; x && *x; x++) vec_push(t->a, t->dims, arena_strdup(t->a, *x));
    t->plan.freeze = copy_texts(t, t->want.freeze);
    t->plan.output = t->want.output ? arena_strdup(t->a, t->want.output) : NULL;
    t->plan.ema = t->want.ema;
    t->plan.clip_norm = t->want.clip_norm, t->plan.clip_value = t->want.clip_value;
    t->plan.accumulate = t->want.accumulate;
    t->plan.loss_scale = t->o.precision == EK_PRECISION_F16 ? t->want.loss_scale : 0;
    t->plan.loss_scale_steps = t->want.loss_scale_interval;
  }
  CTX_CATCH { e = session_done(t->m->s, t->c, EK_FAILED); }
  return e;
}
/* The next compilation is of a step, or of an evaluation, with the sizes of t->plan.batch. */
static ek_code prepare(ek_trainer *t, bool evaluate) {
  volatile ek_code e = EK_OK;
  t->plan.evaluate = evaluate;
  CTX_TRY(t->c) { fix_sizes(t); }
  CTX_CATCH { e = session_done(t->m->s, t->c, EK_FAILED); }
  return e;
}
static ek_code compile(ek_trainer *t, bool evaluate, ek_module **code, ek_run **run) {
  const inner_options as_step = {.edit = build, .edit_env = t, .memory = evaluate || t->watched ? 0 : t->want.memory};
  ek_code e = prepare(t, evaluate);
  if (!e) e = compile_inner(t->m, &t->o, &as_step, code);
  return e ? e : ek_run_create(*code, t->o.threads, run);
}

/* The parameters get the values that a training begins with. */
static ek_code initialise(ek_trainer *t) {
  const inner_options model = {.edit = build, .edit_env = t};
  const initial_values v = {&model, &t->made.parameters, t->run, t->want.init, t->want.seed};
  ek_code e = prepare(t, true);
  if (!e) e = train_initialise(t->m, &t->o, &v);
  if (e) return e;
  e = ek_run_prepare(t->run);
  return e ? run_failed(t, t->run, e) : EK_OK;
}

/* ---- creating -------------------------------------------------------------------------------- */
static ek_code check_options(ek_trainer *t, const ek_train_options *given) {
  ek_session *s = t->m->s;
  if (!struct_read(given, &t->want, sizeof t->want))
    return session_fail(s, EK_USAGE, STRUCT_UNKNOWN("ek_train_options"), given->size, sizeof t->want);
  if (t->want.options && !struct_read(t->want.options, &t->o, sizeof t->o))
    return session_fail(s, EK_USAGE, STRUCT_UNKNOWN("ek_options"), t->want.options->size, sizeof t->o);
  if (!t->want.loss && (t->want.optimizer || !t->want.metrics || !*t->want.metrics))
    return session_fail(s, EK_USAGE, "ek_train_options: a loss is needed");
  if ((t->want.batch_count && !t->want.batch) || (t->want.standardize_count && !t->want.standardize))
    return session_null(s);
  if (!(t->want.clip_norm >= 0 && t->want.clip_value >= 0))
    return session_fail(s, EK_USAGE, "ek_train_options: clip_norm and clip_value are 0 or above");
  if (!(t->want.ema >= 0 && t->want.ema < 1))
    return session_fail(s, EK_USAGE, "ek_train_options: ema is at least 0 and below 1");
  if (t->want.accumulate < 1)
    return session_fail(s, EK_USAGE, "ek_train_options: accumulate is at least 1, not %d", t->want.accumulate);
  if (!(t->want.loss_scale > 0 && t->want.loss_scale < INFINITY && t->want.loss_scale_interval >= 1))
    return session_fail(s, EK_USAGE, "ek_train_options: loss_scale is above 0, and loss_scale_interval at least 1");
  t->o.cache = NULL, t->o.watch = NULL, t->o.states = NULL, t->o.stop_after = NULL, t->o.pass = NULL;
  return EK_OK;
}
ek_code ek_trainer_create(ek_model *m, const ek_train_options *o, ek_trainer **out) {
  if (out) *out = NULL;
  if (!m || !o || !out) return session_null(m ? m->s : NULL);
  ek_trainer *t = mem_zero(&m->s->mem, sizeof *t);
  if (!t) return session_fail(m->s, EK_MEMORY, "out of memory");
  t->m = m, t->mem = m->s->mem, t->c = session_ctx(m->s);
  ek_train_options_init(&t->want), ek_options_init(&t->o);
  ek_code e = t->c ? check_options(t, o) : session_fail(m->s, EK_MEMORY, "out of memory");
  if (!e) t->a = ctx_arena(t->c), e = plan(t);
  if (!e && t->want.optimizer) e = compile(t, false, &t->step, &t->run);
  if (!e && t->run) {
    e = ek_run_prepare(t->run);
    if (e) run_failed(t, t->run, e);
  }
  if (!e && t->run && t->want.init && strcmp(t->want.init, "keep") != 0) e = initialise(t);
  if (e) {
    ek_trainer_close(t);
    return e;
  }
  *out = t;
  return EK_OK;
}
void ek_trainer_close(ek_trainer *t) {
  if (!t) return;
  for (int i = 0; i < MOST_SIZES; i++) ek_module_close(t->checks[i].code);
  ek_module_close(t->step);
  ctx_free(t->c);
  const memory mem = t->mem;
  mem_put(&mem, t);
}

/* ---- running --------------------------------------------------------------------------------- */
static int64_t key_of(uint64_t seed, uint64_t epoch, uint64_t sample) {
  return (int64_t)(random_word(random_word(seed, epoch), sample) >> 8); /* room for the numbers of layers */
}
ek_code ek_trainer_set_samples(ek_trainer *t, int64_t epoch, const int64_t *samples, size_t n) {
  if (!t || (n && !samples)) return session_null(t ? t->m->s : NULL);
  if (n && n != (size_t)t->plan.samples)
    return session_fail(t->m->s, EK_USAGE, "%zu numbers of samples; a batch has %lld", n, (long long)t->plan.samples);
  t->numbered = n > 0;
  for (size_t i = 0; i < n; i++) t->keys[i] = key_of(t->want.seed, (uint64_t)epoch, (uint64_t)samples[i]);
  return EK_OK;
}
/* Samples that nobody numbered count on from batch to batch. */
static const int64_t *keys_of(const ek_trainer *t) {
  const int64_t n = t->plan.samples, first = (t->steps * t->want.accumulate + t->calls) * n;
  for (int64_t i = 0; i < n && !t->numbered; i++) t->keys[i] = key_of(t->want.seed, 0, (uint64_t)(first + i));
  return t->keys;
}
static const char *sizes_text(const ek_trainer *t, const int64_t *dims, uint32_t rank) {
  sbuf b = sbuf_new(t->a);
  sb_putc(&b, '[');
  for (uint32_t i = 0; i < rank; i++) sb_fmt(&b, "%s%lld", i ? ", " : "", (long long)dims[i]);
  sb_putc(&b, ']');
  return b.s;
}
/* An array was refused: is it because it has other sizes than those that the step was compiled for? */
static ek_code refused(const ek_trainer *t, ek_run *r, const ek_array *x, ek_code e) {
  for (uint32_t k = 0; r == t->run && k < t->plan.nbatch; k++) {
    const ndarray *d = &t->plan.batch[k].data;
    if (strcmp(t->plan.batch[k].name, x->name) != 0 || x->rank < 0 || x->rank > EK_MAX_RANK ||
        ((uint32_t)x->rank == d->rank && !memcmp(d->dims, x->dims, d->rank * sizeof *d->dims)))
      continue;
    return session_fail(t->m->s, EK_SHAPE, "batch: array '%s' is %s; the step was compiled for %s, and takes no others",
                        x->name, sizes_text(t, x->dims, (uint32_t)x->rank), sizes_text(t, d->dims, d->rank));
  }
  return run_failed(t, r, e);
}
static ek_code give(const ek_trainer *t, const ek_module *code, ek_run *r, const ek_array *batch, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const ek_array *x = &batch[i];
    if (!x->name || ek_module_find_input(code, x->name) < 0) continue;
    const ek_code e = ek_run_set_input(r, x->name, x->data, x->bytes, x->dims, x->rank);
    if (e) return refused(t, r, x, e);
  }
  return EK_OK;
}
static ek_code give_number(const ek_trainer *t, ek_module *m, ek_run *r, const char *name, const void *data) {
  const int32_t i = ek_module_find_input(m, name);
  const ek_code e = i < 0 ? EK_OK : ek_run_bind_input(r, i, data);
  return e ? run_failed(t, r, e) : EK_OK;
}
typedef struct moment {
  double lr;           /* learning rate */
  int64_t count;       /* number of the update, from 1 */
  const int64_t *keys; /* of random numbers */
  uint8_t ends;        /* the last batch of an update */
} moment;
static ek_code run_step(const ek_trainer *t, ek_module *m, ek_run *r, const moment *now) {
  ek_code e = give_number(t, m, r, TRAIN_RATE, &now->lr);
  if (!e) e = give_number(t, m, r, TRAIN_COUNT, &now->count);
  if (!e) e = give_number(t, m, r, TRAIN_KEY, now->keys);
  if (!e) e = give_number(t, m, r, TRAIN_UPDATE, &now->ends);
  if (e) return e;
  e = ek_run_execute(r);
  return e ? run_failed(t, r, e) : EK_OK;
}
static double number_of(const ek_array *x, int64_t i) {
  const etype type = et_from_onnx((int)x->type);
  const scalar v = et_load(type, (const uint8_t *)x->data + (size_t)i * et_bytes(type));
  return et_kind(type) == K_FLOAT ? v.f : (double)v.i;
}
static ek_code loss_of(ek_trainer *t, ek_run *r, double *loss) {
  ek_array x;
  const ek_code e = t->want.loss ? ek_run_get_output(r, TRAIN_LOSS, &x) : EK_OK;
  if (e) return run_failed(t, r, e);
  t->last = r;
  *loss = t->want.loss ? number_of(&x, 0) : NAN;
  return EK_OK;
}

/* Did the update take place? A loss scale leaves out those whose gradients are not finite. */
static ek_code update_of(const ek_trainer *t, bool *updated) {
  ek_array x;
  const ek_code e = t->plan.loss_scale > 0 ? ek_run_get_output(t->run, TRAIN_UPDATED, &x) : EK_OK;
  if (e) return run_failed(t, t->run, e);
  if (t->plan.loss_scale > 0) *updated = number_of(&x, 0) != 0;
  return EK_OK;
}

/* ---- a loss that is not finite ---------------------------------------------------------------- */
static const char *tensor_name(const ek_trainer *t, size_t i, ek_trained_kind *kind);
/* The first element that is NaN, or infinite; -1: none. But -inf alone is what masks are made of. */
static int64_t first_bad(const ek_array *x) {
  const etype type = et_from_onnx((int)x->type);
  for (size_t i = 0; et_kind(type) == K_FLOAT && i < x->bytes / et_bytes(type); i++) {
    const double v = number_of(x, (int64_t)i);
    if (isnan(v) || v == INFINITY) return (int64_t)i;
  }
  return -1;
}
static bool is_bad(const ek_array *x) { return first_bad(x) >= 0; }
static const char *bad_sample(const ek_trainer *t, const ek_array *x) {
  int64_t one = 1; /* elements of a sample */
  for (int32_t i = 1; i < x->rank; i++) one *= x->dims[i];
  return arena_fmt(t->a, "the batch's %s is not finite in its sample %lld", x->name, (long long)(first_bad(x) / one));
}
/* The states of the step, copied to another run of it, or looked at (to NULL): one that is bad. */
static const char *copy_states(const ek_trainer *t, ek_run *to) {
  ek_trained_kind kind;
  const char *name;
  for (size_t i = 0; (name = tensor_name(t, i, &kind)) != NULL; i++) {
    ek_array x;
    if (ek_run_snapshot(t->run, name, &x)) continue;
    if (!to && is_bad(&x)) return name;
    if (to) ek_run_restore(to, name, x.data, x.bytes, x.dims, x.rank);
  }
  return NULL;
}
static const char *first_output(const ek_trainer *t, ek_module *m, ek_run *r) {
  for (int32_t i = 0; i < ek_module_outputs(m); i++) {
    ek_tensor_info info;
    ek_array x;
    if (ek_module_output(m, i, &info) || !strcmp(info.name, TRAIN_LOSS) || !strcmp(info.name, TRAIN_NORM) ||
        !strncmp(info.name, TRAIN_METRIC, strlen(TRAIN_METRIC)) || ek_run_get_output(r, info.name, &x))
      continue;
    if (is_bad(&x)) return arena_fmt(t->a, "the first tensor that is not finite is %s", info.name);
  }
  return "";
}
/* Where does it come from? From the parameters, the batch, or a tensor on the way: the same step once more, which has
 * changed nothing, with all tensors as outputs. */
static const char *find_source(ek_trainer *t, const ek_array *batch, size_t n, const moment *now) {
  const char *state = copy_states(t, NULL), *found = "";
  ek_module *m = NULL;
  ek_run *r = NULL;
  if (state) return arena_fmt(t->a, "%s was not finite before it", state);
  for (size_t i = 0; i < n; i++)
    if (is_bad(&batch[i])) return bad_sample(t, &batch[i]);
  t->watched = true;
  ek_code e = compile(t, false, &m, &r);
  t->watched = false;
  if (!e) {
    copy_states(t, r);
    e = ek_run_prepare(r);
    if (!e) e = give(t, m, r, batch, n);
    if (!e) e = run_step(t, m, r, now);
    if (!e) found = first_output(t, m, r);
  }
  ek_module_close(m);
  return found;
}
static ek_code loss_failed(ek_trainer *t, const ek_array *batch, size_t n, const moment *now, double loss) {
  volatile ek_code e = EK_FAILED;
  CTX_TRY(t->c) {
    const char *source = find_source(t, batch, n, now);
    session_fail(t->m->s, EK_FAILED,
                 "step %lld: the loss is %s%s%s; the parameters stay as they were before it. A smaller learning rate, "
                 "clip_norm, or other data may help",
                 (long long)now->count, isnan(loss) ? "no number (NaN)" : "infinite", *source ? ": " : "", source);
  }
  CTX_CATCH { e = session_done(t->m->s, t->c, EK_FAILED); }
  return e;
}
ek_code ek_trainer_step(ek_trainer *t, const ek_array *batch, size_t n, double lr, double *loss) {
  double value = 0;
  if (!t || (n && !batch)) return session_null(t ? t->m->s : NULL);
  if (!t->run) return session_fail(t->m->s, EK_USAGE, "this trainer has no optimizer: it only evaluates");
  if (!isfinite(lr)) return session_fail(t->m->s, EK_USAGE, "the learning rate is %g: no finite number", lr);
  const moment now = {.lr = lr, .count = t->steps + 1, .keys = keys_of(t), .ends = t->calls + 1 == t->want.accumulate};
  ek_code e = give(t, t->step, t->run, batch, n);
  if (!e) e = run_step(t, t->step, t->run, &now);
  if (!e) e = loss_of(t, t->run, &value);
  if (e) return e;
  if (loss) *loss = value;
  if (!isfinite(value)) return loss_failed(t, batch, n, &now, value);
  bool updated = now.ends;
  e = update_of(t, &updated);
  t->calls = now.ends ? 0 : t->calls + 1;
  t->steps += updated;
  return e;
}
/* ---- evaluation ------------------------------------------------------------------------------ */
/* The batch of the trainer with the sizes of these arrays. */
static const graph_given *sizes_of(const ek_trainer *t, const ek_array *batch, size_t n) {
  graph_given *to = arena_dup(t->a, t->plan.batch, t->plan.nbatch * sizeof *to);
  for (uint32_t k = 0; k < t->plan.nbatch; k++)
    for (size_t i = 0; i < n; i++) {
      const ek_array *x = &batch[i];
      if (!x->name || strcmp(x->name, to[k].name) != 0 || x->rank != (int32_t)to[k].data.rank) continue;
      memcpy(to[k].data.dims, x->dims, sizeof *x->dims * (size_t)x->rank);
    }
  return to;
}
static bool same_sizes(const ek_trainer *t, const graph_given *want, const ek_array *batch, size_t n) {
  for (uint32_t k = 0; k < t->plan.nbatch; k++)
    for (size_t i = 0; i < n; i++) {
      const ek_array *x = &batch[i];
      if (x->name && !strcmp(x->name, want[k].name) && x->rank == (int32_t)want[k].data.rank &&
          memcmp(x->dims, want[k].data.dims, sizeof *x->dims * (size_t)x->rank) != 0)
        return false;
    }
  return true;
}
static ek_code compile_evaluation(ek_trainer *t, evaluation *made) {
  const graph_given *const of_step = t->plan.batch;
  t->plan.batch = made->batch;
  const ek_code e = compile(t, true, &made->code, &made->run);
  t->plan.batch = of_step;
  return e;
}
/* The evaluation for a batch of these sizes becomes the first. */
static ek_code find_evaluation(ek_trainer *t, const ek_array *batch, size_t n) {
  evaluation found = {0};
  int i = 0;
  while (i < MOST_SIZES - 1 && t->checks[i].code && !same_sizes(t, t->checks[i].batch, batch, n)) i++;
  evaluation *const at = &t->checks[i];
  if (at->code && same_sizes(t, at->batch, batch, n)) {
    found = *at;
  } else {
    found.batch = sizes_of(t, batch, n);
    const ek_code e = compile_evaluation(t, &found);
    if (e) return ek_module_close(found.code), e;
    if (t->last && t->last == at->run) t->last = NULL;
    ek_module_close(at->code);
  }
  memmove(t->checks + 1, t->checks, sizeof *at * (size_t)i);
  t->checks[0] = found;
  return EK_OK;
}
/* What a parameter or statistic is for inference: the average, where there is one. */
static ek_code for_inference(const ek_trainer *t, const char *name, ek_array *x) {
  const size_t n = strlen(name);
  const char *from = name;
  for (uint32_t i = 0; t->plan.ema > 0 && t->steps && i < t->made.moments.n; i++) {
    const char *moment = t->made.moments.v[i];
    if (!strncmp(moment, name, n) && !strcmp(moment + n, "." TRAIN_AVERAGE)) from = moment;
  }
  return ek_run_snapshot(t->run, from, x);
}
/* The parameters of the evaluated model are what the states of the step hold. */
static ek_code bind_parameters(const ek_trainer *t, const evaluation *v) {
  const strvec *const lists[] = {&t->made.parameters, &t->made.statistics};
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; i < lists[k]->n; i++) {
      ek_array x;
      const int32_t in = ek_module_find_input(v->code, lists[k]->v[i]);
      if (in < 0) continue;
      ek_code e = for_inference(t, lists[k]->v[i], &x);
      if (e) return run_failed(t, t->run, e);
      e = ek_run_bind_input(v->run, in, x.data);
      if (e) return run_failed(t, v->run, e);
    }
  return EK_OK;
}
ek_code ek_trainer_evaluate(ek_trainer *t, const ek_array *batch, size_t n, double *loss) {
  double value = 0;
  if (!t || (n && !batch)) return session_null(t ? t->m->s : NULL);
  ek_code e = find_evaluation(t, batch, n);
  if (e) return e;
  const evaluation *v = &t->checks[0];
  e = give(t, v->code, v->run, batch, n);
  if (!e) e = bind_parameters(t, v);
  if (e) return e;
  e = ek_run_execute(v->run);
  if (e) return run_failed(t, v->run, e);
  e = loss_of(t, v->run, &value);
  if (!e && loss) *loss = value;
  return e;
}
ek_code ek_trainer_metric(ek_trainer *t, size_t i, const double **sums, size_t *n) {
  ek_array x;
  if (!t || !sums || !n) return session_null(t ? t->m->s : NULL);
  if (!t->last || i >= t->plan.nmetrics)
    return session_fail(t->m->s, EK_USAGE, "metric %zu of a trainer with %u, or nothing was computed yet", i,
                        t->plan.nmetrics);
  char name[sizeof TRAIN_METRIC + 24];
  snprintf(name, sizeof name, TRAIN_METRIC "%zu", i);
  const ek_code e = ek_run_get_output(t->last, name, &x);
  if (e) return run_failed(t, t->last, e);
  *n = x.bytes / ek_type_bytes(x.type);
  if (*n > t->room) t->room = *n, t->sums = NEWN(t->a, double, *n);
  for (size_t k = 0; k < *n; k++) t->sums[k] = number_of(&x, (int64_t)k);
  *sums = t->sums;
  return EK_OK;
}
static double value_of(ctx *c, const ek_trainer *t, size_t i, const double *sums, size_t n) {
  const ops_sources ops = own_ops_sources(c, t->m->ops, t->m->nops);
  return train_metric_value(c, pipe_library(c, &ops), &t->plan.metrics[i], sums, n);
}
ek_code ek_trainer_metric_value(ek_trainer *t, size_t i, const double *sums, size_t n, double *value) {
  if (!t || !sums || !value) return session_null(t ? t->m->s : NULL);
  if (i >= t->plan.nmetrics)
    return session_fail(t->m->s, EK_USAGE, "metric %zu of a trainer with %u", i, t->plan.nmetrics);
  ctx *c = session_ctx(t->m->s);
  if (!c) return session_fail(t->m->s, EK_MEMORY, "out of memory");
  volatile ek_code e = EK_FAILED;
  CTX_TRY(c) {
    *value = value_of(c, t, i, sums, n);
    e = EK_OK;
  }
  CTX_CATCH {}
  e = session_done(t->m->s, c, e);
  ctx_free(c);
  return e;
}

/* ---- what changes ---------------------------------------------------------------------------- */
const char *ek_trainer_output(const ek_trainer *t) { return t ? t->plan.output : NULL; }
int64_t ek_trainer_steps(const ek_trainer *t) { return t ? t->steps : 0; }
ek_code ek_trainer_set_steps(ek_trainer *t, int64_t steps) {
  if (!t || steps < 0) return t ? session_fail(t->m->s, EK_USAGE, "steps are 0 or more") : EK_USAGE;
  t->steps = steps, t->calls = 0;
  return EK_OK;
}
static const char *tensor_name(const ek_trainer *t, size_t i, ek_trained_kind *kind) {
  const strvec *const lists[] = {&t->made.parameters, &t->made.statistics, &t->made.moments};
  for (int k = 0; k < 3; i -= lists[k++]->n)
    if (i < lists[k]->n) return *kind = (ek_trained_kind)k, lists[k]->v[i];
  return NULL;
}
size_t ek_trainer_tensors(const ek_trainer *t) {
  return t ? (size_t)t->made.parameters.n + t->made.statistics.n + t->made.moments.n : 0;
}
ek_trained_kind ek_trainer_tensor_kind(const ek_trainer *t, size_t i) {
  ek_trained_kind kind = EK_TRAINED_PARAMETER;
  if (t) tensor_name(t, i, &kind);
  return kind;
}
ek_code ek_trainer_tensor(ek_trainer *t, size_t i, ek_array *out) {
  ek_trained_kind kind;
  if (!t || !out) return session_null(t ? t->m->s : NULL);
  const char *name = tensor_name(t, i, &kind);
  if (!name)
    return session_fail(t->m->s, EK_USAGE, "tensor %zu of a trainer with %zu tensors", i, ek_trainer_tensors(t));
  const ek_code e = ek_run_snapshot(t->run, name, out);
  return e ? run_failed(t, t->run, e) : EK_OK;
}
ek_code ek_trainer_set_tensor(ek_trainer *t, const ek_array *x) {
  if (!t || !x || !x->name) return session_null(t ? t->m->s : NULL);
  if (!t->run) return session_fail(t->m->s, EK_USAGE, "this trainer has no optimizer: no tensor of it changes");
  ek_code e = ek_run_restore(t->run, x->name, x->data, x->bytes, x->dims, x->rank);
  if (!e) e = ek_run_prepare(t->run);
  return e ? run_failed(t, t->run, e) : EK_OK;
}
void ek_trainer_memory(const ek_trainer *t, ek_memory_use *out) { ek_module_memory(t ? t->step : NULL, out); }
void ek_trainer_report(const ek_trainer *t, ek_report *out) {
  if (t && t->step) ek_module_report(t->step, out);
}

/* ---- saving ---------------------------------------------------------------------------------- */
typedef struct saving {
  ek_trainer *t;    /* the trainer */
  const char *path; /* what is written */
} saving;
static void as_in_file(pipeline *p, void *env) {
  (void)env;
  p->standard = true;
}
/* The graph's initialisers are the parameters and statistics of now; inference: their averages, where there are any. */
static void put_values(ek_trainer *t, graph *g, bool inference) {
  const size_t n = (size_t)t->made.parameters.n + t->made.statistics.n;
  train_separate_statistics(g);
  for (size_t i = 0; i < n; i++) {
    ek_trained_kind kind;
    ek_array x;
    const char *name = tensor_name(t, i, &kind);
    const ek_code e = inference ? for_inference(t, name, &x) : ek_run_snapshot(t->run, name, &x);
    if (e) ctx_fail(g->c, (ecode)e, "%s", ek_run_message(t->run));
    for (uint32_t k = 0; k < g->values.n; k++) {
      value *v = g->values.v[k];
      if (!v->data || v->def || strcmp(v->source, name) != 0) continue;
      ndarray *d = NEW(ctx_arena(g->c), ndarray);
      *d = *v->data;
      d->data = x.data;
      v->data = d;
    }
  }
}
static void put_metadata(graph *g, const char *key, const char *text) {
  uint32_t i = 0;
  while (i < g->metadata.n && strcmp(g->metadata.v[i].name, key) != 0) i++;
  if (i == g->metadata.n) vec_push(ctx_arena(g->c), g->metadata, ((attr){0}));
  g->metadata.v[i] = (attr){.name = intern(g->c, key), .kind = AK_STRING, .s = intern(g->c, text)};
}
static void put_all_metadata(const ek_trainer *t, graph *g) {
  sbuf inputs = sbuf_new(ctx_arena(g->c));
  for (uint32_t i = 0; i < t->plan.nstandards; i++) sb_fmt(&inputs, "%s%s", i ? ", " : "", t->plan.standards[i].input);
  if (t->plan.nstandards) put_metadata(g, STANDARDIZED, inputs.s);
  for (const char *const *x = t->want.metadata; x && *x; x++) {
    const char *text = strchr(*x, '=');
    put_metadata(g, intern_n(g->c, *x, (size_t)(text - *x)), text + 1);
  }
}
static ek_code write(pipeline *p, void *env) {
  const saving *s = env;
  uint64_t bytes;
  put_values(s->t, p->g, true);
  train_standardize(p->g, &s->t->plan);
  put_all_metadata(s->t, p->g);
  return onnx_write(p->g, s->path, &bytes) ? EK_OK : EK_IO;
}
ek_code ek_trainer_save(ek_trainer *t, const char *path) {
  if (!t || !path) return session_null(t ? t->m->s : NULL);
  const size_t n = strlen(path);
  if (n < 6 || strcmp(path + n - 5, ".onnx"))
    return session_fail(t->m->s, EK_USAGE, "%s: the trained model is written as NAME.onnx", path);
  saving s = {t, path};
  const ek_options o = {.size = sizeof o, .optimize = 3};
  return in_pipe(t->m, &o, as_in_file, write, &s, NULL);
}
static void build_again(graph *g, void *env) {
  ek_trainer *t = env;
  train_made made;
  put_values(t, g, t->plan.evaluate);
  train_build(g, &t->plan, &made);
}
ek_code ek_trainer_show(ek_trainer *t, const ek_show_options *w, const char **text) {
  if (text) *text = "";
  if (!t || !text) return session_null(t ? t->m->s : NULL);
  const inner_options as_step = {.edit = build_again, .edit_env = t};
  const ek_code e = prepare(t, !t->run);
  return e ? e : show_inner(t->m, &t->o, &as_step, w, text);
}
ek_run *ek_trainer_run(ek_trainer *t) { return t ? t->run : NULL; }
ek_code ek_trainer_compile(ek_trainer *t, const char *path, int evaluate, ek_report *report) {
  if (!t || !path) return session_null(t ? t->m->s : NULL);
  if (!evaluate && !t->run)
    return session_fail(t->m->s, EK_USAGE, "this trainer has no optimizer: only its evaluation can be compiled");
  const size_t n = strlen(path);
  if (n > 5 && !strcmp(path + n - 5, ".onnx"))
    return session_fail(t->m->s, EK_USAGE, "%s: a step is written as .so, .o or .c, not as a model", path);
  const inner_options as_step = {.edit = build_again, .edit_env = t, .memory = evaluate ? 0 : t->want.memory};
  const ek_code e = prepare(t, evaluate != 0);
  return e ? e : save_inner(t->m, &t->o, &as_step, path, report);
}
