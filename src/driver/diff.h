/* Private to ek_diff: what its files share.
 *
 *   diff.c         the order of everything: which tensors there are, which run shows them, which is the first wrong one
 *   diff_truth.c   what a definition gives for given inputs, in f64; how far an element may be from it
 *   diff_part.c    the smallest part of the model that shows a difference when it is compiled alone
 *   diff_pass.c    the pass that changed the values
 */
#ifndef EK_DRIVER_DIFF_H
#define EK_DRIVER_DIFF_H
#include "driver/driver.h"

typedef struct tensor_node { /* a tensor that the model computes */
  const char *name;          /* the model's name of it */
  const value *v;            /* in diff.g */
  uint32_t node;             /* place of the node that computes it in diff.g->nodes */
  bool given;                /* may be given instead of computed: its contents do not follow from sizes */
  const ek_rt_tensor *info;  /* type and sizes */
  size_t bytes;              /* most bytes that it takes */
} tensor_node;
typedef struct diff {
  ek_model *m;           /* the model */
  ek_options o;          /* how it is compiled */
  ek_diff_options want;  /* what is asked for */
  ctx *c;                /* context of what is found; its own arena has the texts of the result */
  arena *a;              /* for the tensors that are compared now */
  graph *g;              /* the model's graph, lowered; in a context of its own */
  ctx *graph_ctx;        /* that context */
  VEC(tensor_node) t;    /* tensors, in the order of the nodes */
  map *of;               /* value -> its place in t, plus one */
  map *node_of;          /* node of the root graph -> its place in g->nodes, plus one */
  ek_module *sizes;      /* all tensors as outputs, never run: types and sizes */
  uint32_t walk;         /* number of the last walk over the graph */
  uint32_t *seen_tensor; /* of each tensor the last walk that found it */
  uint32_t *seen_node;   /* of each node the same */
  graph_given *in;       /* the model's inputs */
  uint32_t nin;          /* how many */
  ek_module *code;       /* the module of the last run */
  ek_run *run;           /* the last run */
  bool *looked_at;       /* of each tensor: it was an output of the module in which a tensor was wrong */
  ek_difference *r;      /* the result */
  double done;           /* part of the work that is done, 0..1 */
  int (*progress)(void *user, const char *phase, double done); /* the session's own */
  void *progress_user;                                         /* handed to it */
} diff;

/* ---- diff.c ---- */
/* Compiles the model, or a part of it (x NULL: all), with the tensors of these names as outputs, and runs it; `d->run`
 * has the results. */
ek_code diff_run(diff *d, const ek_options *o, const inner_options *x, const char *const *watch);
ndarray diff_result(diff *d, const char *name); /* of the last run; data NULL: it has no such output */
void diff_end_run(diff *d);                     /* gives the memory of the module back, and that of its results */
typedef struct sources {                        /* what a tensor is computed from */
  u32vec tensors;                               /* the given tensors */
  u32vec nodes;                                 /* places of the nodes between these and it */
} sources;
/* What tensor t is computed from when the tensors of stop[] are given, t itself apart. */
sources diff_sources(diff *d, uint32_t t, const bool *stop);
/* what a part is given under this name; NULL: nothing */
const graph_given *diff_given(const graph_part *p, const char *name);
/* the given tensors, and behind them the model's inputs */
graph_part diff_part(diff *d, const graph_given *given, uint32_t n, const char *const *outputs);

/* ---- diff_truth.c ---- */
typedef enum exactness {
  IN_F64,
  IN_MODEL_TYPES,
  INPUTS_UP,
  INPUTS_DOWN,
  INPUTS_ANYWHERE,
  NOISE,
  OTHER_NOISE,
  EXACTNESSES
} exactness;
/* What the definitions give for a part's outputs, one after the other; `each` returns false to end. */
typedef struct truth_reader {
  bool (*each)(void *env, uint32_t output, const ndarray *x); /* x: valid during the call */
  void *env;                                                  /* handed to each */
} truth_reader;
ek_code diff_truth(diff *d, const graph_part *part, exactness how, const truth_reader *r);
typedef struct truth {
  ndarray x;              /* what the definition gives; floats are f64 */
  double *slack;          /* of each element what rounding explains; NULL: not asked yet */
  const graph_part *part; /* what it is an output of */
  const char *name;       /* the output's name */
} truth;
typedef struct judgement {
  bool wrong;       /* some element differs by more than is allowed */
  const char *why;  /* type or sizes differ; NULL */
  int64_t count;    /* elements */
  int64_t bad;      /* elements that differ by more than is allowed */
  int64_t worst;    /* the one that exceeds it most */
  double got, want; /* that element */
  double allowed;   /* what is allowed there */
  double error;     /* largest difference, divided by the largest value */
} judgement;
judgement diff_judge(diff *d, truth *t, const ndarray *got);
/* The truth about a part's only output, kept until truth_end. false: the definitions fail on it. */
bool truth_of(diff *d, const graph_part *part, truth *t);
void truth_end(truth *t);

/* ---- diff_part.c ---- */
typedef struct shown {
  graph_part part; /* a part of the model whose one output is wrong */
  truth truth;     /* what it should be */
  bool any;        /* there is such a part */
} shown;
typedef enum outcome { RUN_RIGHT, RUN_WRONG, RUN_FAILED } outcome;
/* Is the part's output wrong when it is compiled alone with these options? */
outcome diff_shows(diff *d, const ek_options *o, const inner_options *x, truth *t);
ek_options diff_part_options(const diff *d); /* with which parts are compiled */
/* The smallest part that shows that tensor t is wrong; told in d->r, and saved where that is asked for. */
ek_code diff_find_part(diff *d, uint32_t t, shown *out);
/* The reference is wrong for tensor t, an output of this part: told and saved as the smallest part. */
ek_code diff_reference_part(diff *d, const graph_part *part, uint32_t t, shown *out);
/* No tensor is wrong by itself, but the output of the model of tensor t: the first tensor in whose place the model,
 * ended there, is wrong. */
uint32_t diff_first_end(diff *d, uint32_t t);

/* ---- diff_pass.c ---- */
void diff_find_pass(diff *d, shown *s);
#endif
