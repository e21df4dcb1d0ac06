/* train: how does a model become one step of training?
 *
 * The step is a graph: the model in its form for training (forms.c), a loss, the standard's operator Gradient, the
 * rule of an optimiser for each parameter, and states that carry parameters, moments and running statistics from one
 * run to the next (step.c). So everything below the graph level serves training as it serves inference: one module,
 * one arena, one plan of memory.
 *
 * Losses, optimisers and metrics are definitions in the notation (ops/train.ek), found by name (rule.c):
 *   einkorn.loss       (prediction, any other inputs; attributes) -> L: T[]
 *   einkorn.optimizer  (lr: f64[], step: i64[], X, G, states..; attributes) -> X2, the states after the step
 *   einkorn.metric     (prediction, any other inputs; attributes) -> sums over the samples: T[k]
 *   einkorn.metric_value  (sums: f64[k]; attributes of the metric) -> its value: f64[]
 *   einkorn.link       (X; some attributes of the loss) -> what the loss of this name computes of its argument
 * step counts from 1. States have the sizes of X, and begin with zeros. Sums of several batches add up; where a metric
 * has no definition of its value, it is the first sum divided by the second.
 * A definition of the user is found in the same way.
 */
#ifndef EK_TRAIN_H
#define EK_TRAIN_H
#include "expr/expr.h"
#include "graph/graph.h"
#include "notation/notation.h"

#define TRAIN_LOSS_DOMAIN "einkorn.loss"
#define TRAIN_OPTIMIZER_DOMAIN "einkorn.optimizer"
#define TRAIN_METRIC_DOMAIN "einkorn.metric"
#define TRAIN_VALUE_DOMAIN "einkorn.metric_value"
#define TRAIN_LINK_DOMAIN "einkorn.link"

/* ---- rule.c: a definition and values of its attributes ---------------------------------------- */
typedef struct train_rule {
  const opdef *d; /* the definition */
  sattr *attrs;   /* attributes that were given */
  uint32_t n;     /* how many */
} train_rule;
/* "NAME" or "NAME:attribute=value,..": a definition of this domain; a list of numbers is "1/2/3".
 * what: "loss", for messages. Unwinds (E_USAGE). */
train_rule train_parse_rule(ctx *c, const oplib *lib, const char *domain, const char *what, const char *text);
/* "attribute=value,..": more attributes, which replace those of the rule */
train_rule train_refine_rule(ctx *c, const train_rule *r, const char *text);
/* A node of the graph that calls it; its outputs are not there yet. */
node *train_add_rule(graph *g, const train_rule *r, const char *name, value *const *in, uint32_t n);

/* ---- schedule.c: learning rates ---------------------------------------------------------------- */
typedef struct train_moment { /* where a training stands */
  double base;                /* the learning rate that the schedule changes */
  int64_t step;               /* updates so far */
  int64_t total;              /* updates in all */
  const double *losses;       /* validation losses so far, the oldest first */
  size_t nlosses;             /* how many */
} train_moment;
/* The rate of the next update, by "NAME" or "NAME:attribute=number,..". Unwinds (E_USAGE). */
double train_schedule_rate(ctx *c, const char *text, const train_moment *m);

/* ---- step.c ----------------------------------------------------------------------------------- */
/* Names of what a step has beside the model's inputs and the loss's. */
#define TRAIN_RATE "train.lr"     /* input f64[]: the learning rate */
#define TRAIN_COUNT "train.step"  /* input i64[]: the number of this update, from 1 */
#define TRAIN_KEY "train.key"     /* input i64[samples]: keys of random numbers; only where there are any */
#define TRAIN_UPDATE "train.last" /* input bool[]: the last of the batches whose gradients are added up; only then */
#define TRAIN_LOSS "train.loss"   /* output: the loss */
#define TRAIN_LOSS_SCALE "train.loss_scale" /* state f32[]: the scale of the loss; only where there is one */
#define TRAIN_FINITE "train.finite_steps"   /* state i64[]: steps in a row with finite gradients; only then */
#define TRAIN_UPDATED "train.updated"       /* output bool[]: the update took place; only then */
#define TRAIN_NORM "train.norm"      /* output: the norm of the gradient, before it is clipped; only where it is */
#define TRAIN_AVERAGE "ema"          /* PARAMETER.ema: state, the average of a parameter */
#define TRAIN_METRIC "train.metric." /* outputs, with the number of the metric behind it */

typedef struct train_group { /* parameters with other attributes of the optimiser */
  const char *pattern;       /* of their names: * stands for any text, ? for one character */
  train_rule rule;           /* the optimiser with these attributes */
} train_group;
typedef struct train_standard { /* an input that the model standardizes: (x - mean)/deviation */
  const char *input;            /* its name */
  const double *mean;           /* one for each place of the first axes of a sample, so many that it is n places */
  const double *deviation;      /* the same, above 0 */
  int64_t n;                    /* how many */
} train_standard;
typedef struct train_plan {
  const oplib *lib;          /* definitions */
  train_rule loss;           /* the loss */
  train_rule optimizer;      /* the optimiser */
  const train_group *groups; /* the first that fits counts */
  uint32_t ngroups;          /* how many */
  const train_rule *metrics; /* metrics */
  uint32_t nmetrics;         /* how many */
  const char *output;        /* the tensor that the loss is of; NULL: the model's first output */
  const graph_given *batch;  /* inputs of a step: of those that the model does not have, type and sizes are used */
  uint32_t nbatch;           /* how many */
  const train_standard *standards; /* inputs that are standardized */
  uint32_t nstandards;             /* how many */
  int64_t samples;                 /* samples of a batch */
  const char *const *freeze; /* patterns of names of parameters that stay as they are, NULL-terminated; NULL: none */
  double clip_norm;          /* gradients are scaled down to this norm of all together; 0: not */
  double clip_value;         /* each element of a gradient is cut to this absolute value; 0: not */
  double ema;                /* decay of the parameters' averages; 0: there are none */
  double loss_scale;         /* the first scale of the loss; 0: there is none */
  int64_t loss_scale_steps;  /* steps with finite gradients after which it doubles */
  int64_t accumulate;        /* an update follows from the gradients' mean over so many runs */
  bool evaluate;             /* no step: loss, metrics and outputs of the model as it is; parameters are inputs */
} train_plan;
typedef struct train_made { /* what was made */
  strvec parameters;        /* names of the initialisers that are trained: states of the step */
  strvec statistics;        /* names of the initialisers that are running statistics: states, too */
  strvec moments;           /* names of the optimiser's states, and of sums of gradients */
  strvec frozen;            /* names of the initialisers of floats that a pattern keeps */
} train_made;
/* The graph becomes a step. Unwinds: E_USAGE, where names or attributes are wrong or nothing is trained. */
void train_build(graph *g, const train_plan *p, train_made *made);
/* the tensor of this name that a node computes; NULL: the model's first output. Unwinds (E_USAGE) */
value *train_tensor(graph *g, const char *name);
/* does one of the patterns fit? NULL: there is none */
bool train_matches(const char *const *patterns, const char *name);

/* ---- standardize.c ------------------------------------------------------------------------------ */
/* The model begins with the standardization of plan.standards. Unwinds: E_USAGE, E_SHAPE. */
void train_standardize(graph *g, const train_plan *p);
/* ---- forms.c: inference to training ------------------------------------------------------------ */
/* Running statistics whose initialiser is read elsewhere, too (equal initialisers were merged), get one of their own,
 * with the same first value, which is called NAME.1, NAME.2, .. */
void train_separate_statistics(graph *g);
/* Nodes that compute something else in training get that form: running statistics (tied as states), random masks. */
void train_forms(graph *g, const train_plan *p, train_made *made);
/* ---- gradient.c --------------------------------------------------------------------------------- */
#define TRAIN_GRADIENT "gradient" /* name of the node */
#define TRAIN_SLOPE "gradient."   /* outputs, with the name of what is differentiated by behind it */
/* Further outputs: the derivatives of the sum of the tensor `of` (as train_tensor) by the model's inputs of floats and
 * its parameters. Unwinds (E_USAGE). */
void train_gradients(graph *g, const oplib *lib, const char *of);
/* ---- parameters.c ------------------------------------------------------------------------------ */
typedef VEC(value *) train_values;
/* Initialisers of floats with an axis at least, whose contents are no sizes, and that the outputs depend on. */
train_values train_parameters(graph *g, const train_plan *p, train_made *made);
/* ---- initial.c: values that a training begins with --------------------------------------------- */
typedef enum { TRAIN_OTHER, TRAIN_WEIGHT, TRAIN_LOOKED_UP, TRAIN_SCALE, TRAIN_BIAS } train_role;
typedef struct train_use { /* how a parameter is used; initial.c tells what the roles are */
  train_role role;         /* its role */
  double fan_in;           /* weight: its elements that one sum reads */
  double fan_out;          /* weight: its elements that one element of another factor meets; looked up: of one look */
} train_use;
/* m: the model, in which the parameter is an input, as it was lowered */
train_use train_use_of(emodule *m, tid t);
typedef enum { TRAIN_KEEP, TRAIN_HE, TRAIN_XAVIER } train_initial;
train_initial train_initial_of(ctx *c, const char *text); /* by its name; unwinds (E_USAGE) */
/* The first values of a parameter whose values are `now`, a function of seed, name and place, to `to`. Weights are
 * normal with variance 2/fan_in (he: He et al. 2015) or uniform within sqrt(6/(fan_in + fan_out)) of 0 (xavier: Glorot,
 * Bengio 2010); what is looked up is normal with variance 1/fan_out; biases are 0, and scales 1. False: the parameter
 * stays as it is: it has another role, or is a scale whose elements are all equal, as a model begins. */
bool train_begin(const train_use *u, train_initial how, uint64_t seed, const char *name, const ndarray *now, void *to);
#endif
