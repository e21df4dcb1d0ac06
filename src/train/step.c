/* The graph of a step: the model, its loss, the gradient, and an update of each parameter. See train.h. */
#include "train/train.h"
#include <string.h>

typedef struct builder {
  graph *g;                /* the graph */
  arena *a;                /* its memory */
  const train_plan *p;     /* what is wanted */
  train_made *made;        /* what was made */
  value *prediction;       /* the tensor that the loss is of */
  value *loss;             /* the loss */
  value *rate;             /* TRAIN_RATE */
  value *count;            /* TRAIN_COUNT */
  value *good;             /* bool[]: the update takes place */
  value *scale;            /* f32[]: the scale of the loss; NULL: there is none */
  train_values parameters; /* what is trained */
  value **grads;           /* the gradient of each */
} builder;

/* ---- pieces of a graph ----------------------------------------------------------------------- */
static value *add(builder *b, const char *op, const char *domain, const char *name, value *const *in, uint32_t n) {
  node *x = graph_node(b->g, op, domain, name);
  for (uint32_t i = 0; i < n; i++) vec_push(b->a, x->in, in[i]);
  return graph_result(b->g, x, name);
}
static value *input(builder *b, const char *name, etype t, const ndarray *like) {
  value *v = graph_value(b->g, name);
  const uint32_t rank = like ? like->rank : 0;
  sz *dims = NEWN(b->a, sz, rank + 1);
  for (uint32_t i = 0; i < rank; i++) dims[i] = sym_int(b->g->c, like->dims[i]);
  v->type = t, v->ranked = true, v->rank = rank, v->dims = dims;
  vec_push(b->a, b->g->inputs, v);
  return v;
}
static value *number(builder *b, const char *name, etype t, double x) {
  uint8_t *data = arena_alloc(b->a, 16);
  et_store(t, data, (scalar){.f = x});
  const ndarray d = {.type = t, .data = data, .bytes = et_bytes(t)};
  return graph_const(b->g, name, &d);
}
static const char *about(const builder *b, const char *what, const value *v) {
  return arena_fmt(b->a, "train.%s.%s", what, v->source);
}

/* ---- the loss -------------------------------------------------------------------------------- */
value *train_tensor(graph *g, const char *name) {
  arena *a = ctx_arena(g->c);
  strvec known = {0};
  if (!name) {
    if (!g->outputs.n) ctx_fail(g->c, E_MODEL, "the model has no output that a loss could be of");
    return g->outputs.v[0];
  }
  for (uint32_t i = 0; i < g->nodes.n; i++)
    for (uint32_t k = 0; k < g->nodes.v[i]->out.n; k++) {
      value *v = g->nodes.v[i]->out.v[k];
      if (v && !strcmp(v->source, name)) return v;
      if (v) vec_push(a, known, v->source);
    }
  ctx_fail(g->c, E_USAGE, "the model computes no tensor of the name %s%s", name,
           did_you_mean(a, name, known.v, known.n));
}
/* An input of a loss or a metric: the model's of that name, or one that the batch has. NULL: there is none. */
static value *given(builder *b, const char *name) {
  for (uint32_t i = 0; i < b->g->inputs.n; i++)
    if (!strcmp(b->g->inputs.v[i]->source, name)) return b->g->inputs.v[i];
  for (uint32_t i = 0; i < b->p->nbatch; i++)
    if (!strcmp(b->p->batch[i].name, name)) return input(b, name, b->p->batch[i].data.type, &b->p->batch[i].data);
  return NULL;
}
/* Labels of narrow integers, such as bytes, are widened where the definition takes i64 alone. */
static value *widened(builder *b, const train_rule *r, uint32_t i, value *v) {
  if (!v || opdef_input_takes(r->d, i, v->type) || et_kind(v->type) == K_FLOAT || !opdef_input_takes(r->d, i, ET_I64))
    return v;
  value *wide = add(b, "Cast", "", about(b, "labels", v), &v, 1);
  node_set_int(b->g, wide->def, "to", et_to_onnx(ET_I64));
  return wide;
}
static value *call_rule(builder *b, const train_rule *r, const char *what, const char *name) {
  const uint32_t n = opdef_inputs(r->d);
  value **in = NEWN(b->a, value *, n + 1);
  uint32_t last = 0;
  for (uint32_t i = 0; i < n; i++) {
    in[i] = i ? widened(b, r, i, given(b, opdef_input(r->d, i))) : b->prediction;
    if (in[i]) last = i + 1;
    if (in[i] || opdef_input_is_optional(r->d, i)) continue;
    sbuf has = sbuf_new(b->a);
    for (uint32_t k = 0; k < b->p->nbatch; k++) sb_fmt(&has, "%s%s", k ? ", " : "", b->p->batch[k].name);
    ctx_fail(b->g->c, E_USAGE, "the %s %s needs the tensor '%s' beside the model's result; the batch has %s", what,
             opdef_name(r->d), opdef_input(r->d, i), has.n ? has.s : "nothing");
  }
  node *x = train_add_rule(b->g, r, name, in, last);
  value *v = graph_result(b->g, x, name);
  vec_push(b->a, b->g->outputs, v);
  return v;
}
static void losses(builder *b) {
  if (b->p->loss.d) b->loss = call_rule(b, &b->p->loss, "loss", TRAIN_LOSS);
  for (uint32_t i = 0; i < b->p->nmetrics; i++)
    call_rule(b, &b->p->metrics[i], "metric", arena_fmt(b->a, TRAIN_METRIC "%u", i));
}

/* ---- the gradient ---------------------------------------------------------------------------- */
/* A state without axes, which begins with this number. */
static value *number_state(builder *b, const char *name, etype t, double first) {
  value *v = number(b, name, t, first);
  vec_push(b->a, b->made->moments, v->source);
  return v;
}
/* What is differentiated: the loss, or its multiple. */
static value *scaled_loss(builder *b) {
  if (!(b->p->loss_scale > 0)) return b->loss;
  b->scale = number_state(b, TRAIN_LOSS_SCALE, ET_F32, b->p->loss_scale);
  value *in[] = {b->loss, b->scale}, *v = add(b, "loss_scaled", "einkorn.train", "train.scaled", in, 2);
  return v;
}
static void gradient(builder *b) {
  const uint32_t n = b->parameters.n;
  strvec names = {0};
  value *of = scaled_loss(b);
  node *x = graph_node(b->g, "Gradient", "ai.onnx.preview.training", "train.gradient");
  b->grads = NEWN(b->a, value *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    vec_push(b->a, x->in, b->parameters.v[i]);
    vec_push(b->a, names, b->parameters.v[i]->source);
    b->grads[i] = graph_result(b->g, x, about(b, "gradient", b->parameters.v[i]));
    b->grads[i]->type = b->parameters.v[i]->type;
  }
  vec_push(b->a, x->in, of);
  node_set_strings(b->g, x, "xs", names.v, names.n);
  node_set_string(b->g, x, "y", of->source);
  for (uint32_t i = 0; i < n && b->scale; i++) {
    value *in[] = {b->grads[i], b->scale};
    b->grads[i] = add(b, "unscaled", "einkorn.train", about(b, "unscaled", b->parameters.v[i]), in, 2);
  }
}
static void clip_values(builder *b) {
  for (uint32_t i = 0; i < b->parameters.n && b->p->clip_value > 0; i++) {
    const value *p = b->parameters.v[i];
    value *in[] = {b->grads[i], number(b, "train.least", p->type, -b->p->clip_value),
                   number(b, "train.most", p->type, b->p->clip_value)};
    b->grads[i] = add(b, "Clip", "", about(b, "cut", p), in, 3);
  }
}
/* The square of the norm of all gradients together. */
static value *square_norm(builder *b, const char *name) {
  value **squares = NEWN(b->a, value *, b->parameters.n + 1);
  for (uint32_t i = 0; i < b->parameters.n; i++)
    squares[i] = add(b, "square_norm", "einkorn.train", arena_fmt(b->a, "%s.%u", name, i), &b->grads[i], 1);
  return add(b, "Sum", "", name, squares, b->parameters.n);
}
static void clip_norm(builder *b) {
  if (!(b->p->clip_norm > 0)) return;
  value *square = square_norm(b, "train.square");
  value *factor = add(b, "clip_factor", "einkorn.train", "train.factor", &square, 1);
  node_set_float(b->g, factor->def, "most", b->p->clip_norm);
  value *norm = graph_result(b->g, factor->def, TRAIN_NORM);
  vec_push(b->a, b->g->outputs, norm);
  for (uint32_t i = 0; i < b->parameters.n; i++) {
    value *scaled[] = {b->grads[i], factor};
    b->grads[i] = add(b, "scale", "einkorn.train", about(b, "clipped", b->parameters.v[i]), scaled, 2);
  }
}

/* ---- states ---------------------------------------------------------------------------------- */
/* A state with the sizes of a parameter, which begins with zeros. */
static value *moment(builder *b, const value *p, const char *what) {
  const char *name = arena_fmt(b->a, "%s.%s", p->source, what);
  value *v = input(b, name, p->type, p->data);
  vec_push(b->a, b->made->moments, v->source);
  return v;
}
/* The state `old` is `next` after the run, where the update takes place, and stays as it is elsewhere. */
static void tie(builder *b, value *old, value *next) {
  value *in[] = {b->good, next, old}, *v = add(b, "Where", "", about(b, "kept", old), in, 3);
  vec_push(b->a, b->g->outputs, v);
  graph_tie(b->g, v->source, old->source);
}

/* ---- the update ------------------------------------------------------------------------------ */
static const train_rule *rule_of(const builder *b, const value *p) {
  for (uint32_t i = 0; i < b->p->ngroups; i++)
    if (train_matches((const char *const[]){b->p->groups[i].pattern, NULL}, p->source)) return &b->p->groups[i].rule;
  return &b->p->optimizer;
}
/* A state that follows the parameter, whose next value this is. */
static void average(builder *b, const value *p, value *next) {
  value *old = moment(b, p, TRAIN_AVERAGE), *in[] = {old, next, b->count};
  value *v = add(b, "average", "einkorn.train", about(b, "new", old), in, 3);
  node_set_float(b->g, v->def, "decay", b->p->ema);
  tie(b, old, v);
}
static void add_update(builder *b, uint32_t i) {
  value *p = b->parameters.v[i];
  const train_rule *r = rule_of(b, p);
  const uint32_t n = opdef_inputs(r->d);
  value **in = NEWN(b->a, value *, n + 1), **next = NEWN(b->a, value *, n + 1);
  in[0] = b->rate, in[1] = b->count, in[2] = p, in[3] = b->grads[i];
  for (uint32_t k = 4; k < n; k++) in[k] = moment(b, p, opdef_input(r->d, k));
  node *x = train_add_rule(b->g, r, about(b, "update", p), in, n);
  for (uint32_t k = 0; k < n - 3; k++) next[k] = graph_result(b->g, x, about(b, "new", k ? in[3 + k] : p));
  if (b->p->ema > 0) average(b, p, next[0]);
  for (uint32_t k = 0; k < n - 3; k++) tie(b, k ? in[3 + k] : p, next[k]);
}
static void check_optimizer(const builder *b, const train_rule *r) {
  const uint32_t n = opdef_inputs(r->d);
  if (n >= 4 && opdef_outputs(r->d) == n - 3) return;
  ctx_fail(b->g->c, E_USAGE,
           "optimizer %s: its inputs must be the learning rate, the number of the step, a parameter, its gradient and "
           "states; its outputs the new parameter and the new states; it has %u inputs and %u outputs",
           opdef_name(r->d), n, opdef_outputs(r->d));
}
/* Gradients of several runs are added up; the update follows in the last of them. */
static void accumulate(builder *b) {
  if (b->p->accumulate <= 1) return;
  value *last = input(b, TRAIN_UPDATE, ET_BOOL, NULL);
  value *both[] = {last, b->good};
  for (uint32_t i = 0; i < b->parameters.n; i++) {
    value *p = b->parameters.v[i], *sum = moment(b, p, "sum");
    value *in[] = {sum, b->grads[i], b->good, last};
    b->grads[i] = add(b, "accumulate", "einkorn.train", about(b, "mean", p), in, 4);
    node_set_int(b->g, b->grads[i]->def, "batches", b->p->accumulate);
    value *next = graph_result(b->g, b->grads[i]->def, about(b, "new", sum));
    vec_push(b->a, b->g->outputs, next);
    graph_tie(b->g, next->source, sum->source);
  }
  b->good = add(b, "And", "", "train.updates", both, 2);
}
/* The update takes place where the gradients are finite, and the scale follows. */
static void check_scale(builder *b) {
  if (!b->scale) return;
  value *square = square_norm(b, "train.size"), *count = number_state(b, TRAIN_FINITE, ET_I64, 0);
  value *finite = add(b, "finite", "einkorn.train", "train.all_finite", &square, 1);
  value *in[] = {b->scale, count, finite}, *both[] = {b->good, finite};
  value *next = add(b, "loss_scale", "einkorn.train", "train.next_scale", in, 3);
  node_set_int(b->g, next->def, "interval", b->p->loss_scale_steps);
  tie(b, b->scale, next);
  tie(b, count, graph_result(b->g, next->def, "train.next_steps"));
  b->good = add(b, "And", "", TRAIN_UPDATED, both, 2);
  vec_push(b->a, b->g->outputs, b->good);
}
static void step(builder *b) {
  b->parameters = train_parameters(b->g, b->p, b->made);
  if (!b->parameters.n)
    ctx_fail(b->g->c, E_USAGE, "there is nothing to train: the loss depends on no initialiser of floats%s",
             b->made->frozen.n ? " but on those that are frozen" : "");
  check_optimizer(b, &b->p->optimizer);
  b->rate = input(b, TRAIN_RATE, ET_F64, NULL), b->count = input(b, TRAIN_COUNT, ET_I64, NULL);
  gradient(b);
  b->good = add(b, "finite", "einkorn.train", "train.finite", &b->loss, 1);
  accumulate(b);
  check_scale(b);
  clip_values(b);
  clip_norm(b);
  for (uint32_t i = 0; i < b->parameters.n; i++) add_update(b, i);
}
/* Parameters become inputs. */
static void open_parameters(builder *b) {
  const train_values v = train_parameters(b->g, b->p, b->made);
  for (uint32_t i = 0; i < v.n; i++) {
    v.v[i]->data = NULL;
    vec_push(b->a, b->g->inputs, v.v[i]);
  }
}
void train_build(graph *g, const train_plan *p, train_made *made) {
  builder b = {.g = g, .a = ctx_arena(g->c), .p = p, .made = made};
  *made = (train_made){0};
  b.prediction = train_tensor(b.g, b.p->output);
  train_separate_statistics(g);
  train_standardize(g, p);
  if (!p->evaluate) {
    train_forms(g, p, made);
    const uint32_t n = made->statistics.n; /* outputs of states stay */
    value **states = g->outputs.v + g->outputs.n - n;
    memmove(g->outputs.v, states, n * sizeof *states);
    g->outputs.n = n;
  }
  losses(&b);
  if (!p->evaluate)
    step(&b);
  else if (p->optimizer.d) /* the parameters of now come from a step's states */
    open_parameters(&b);
  graph_states_last(g);
}
