/* quantize: what the files quantize*.c of the driver share. What happens in which order is in quantize.c. */
#ifndef EK_DRIVER_QUANTIZE_H
#define EK_DRIVER_QUANTIZE_H
#include "driver/driver.h"
#include "quantize/quantize.h"

typedef struct observed {
  value *v;      /* the tensor */
  quant_stats s; /* its values */
} observed;
typedef struct noise { /* of one tensor */
  const char *name;    /* its name */
  double signal;       /* sum of the squares of its values */
  double error;        /* sum of the squares of the differences */
  double rows;         /* number of its rows (the last axis), where they have two elements or more */
  double changed;      /* number of rows whose greatest element is another one */
  size_t samples;      /* how many samples these are of */
  double *signals;     /* what each sample adds to `signal`; NULL: it is not kept */
  double *errors;      /* what it adds to `error`; with `signals` */
  double *changes;     /* what it adds to `changed`; with `signals` */
  bool known;          /* both models have it, in f32, with equal sizes */
} noise;
typedef struct side {
  ek_model *m;     /* a model */
  bool bf16;       /* products of factors in bf16 are computed in bf16 */
  ek_module *code; /* it is compiled */
  ek_run *run;     /* a run of it */
} side;
typedef struct quantiser {
  ek_model *m;              /* the model */
  ek_model *base;           /* what is quantised: the model, or the same with smoothed channels */
  ek_quantize_options want; /* what is asked for */
  ek_options o;             /* how models are compiled */
  const char *path;         /* what is written */
  const char *smooth;       /* where the model with smoothed channels is written */
  const char *trial;        /* where models are written that are only measured */
  ctx *c;                   /* context of the graph; NULL: not there yet */
  arena *a;                 /* its memory */
  graph *g;                 /* the graph */
  map *known;               /* names of what the model computes, as its file has them */
  VEC(quant_layer) layers;  /* nodes with products */
  map *formulas;            /* node -> its quant_formula */
  double *alone;            /* of each layer: SQNR of the outputs where it alone is quantised; NaN: not measured */
  double *before;           /* of each layer: milliseconds in the model as it was; NULL: not measured */
  double *after;            /* of each layer: milliseconds in the quantised model; NULL: not measured */
  VEC(observed) seen;       /* tensors to be observed */
  quant_tensor *ranges;     /* of each of these, the range */
  const float **shifts;     /* of each layer: what makes up for its mean error; NULL: nothing does */
  VEC(quant_cache) caches;  /* states, where these are quantised */
  quant_codes *codes;       /* of each layer's constant, where weights alone are quantised; else NULL */
  uint64_t bytes;           /* size of the written file */
  ek_array *in;             /* the last sample */
  size_t nin;               /* inputs of the model */
  size_t first_compared;    /* number of the first sample that errors are measured on */
  size_t end_observed;      /* end of those that ranges are taken from */
  VEC(ek_smoothed) moved;   /* tensors whose channels were divided */
  ek_quantized *r;          /* the result */
} quantiser;

/* ---- quantize_run.c: samples ----------------------------------------------------------------- */
ek_code quantize_take(quantiser *q, size_t i);   /* q->in becomes sample i */
ek_code quantize_run(quantiser *q, ek_run *run); /* runs it */
typedef struct observation {
  void (*add)(graph *g, void *env);        /* adds to the model what is observed */
  ek_code (*take)(void *env, ek_run *run); /* takes it, after each run; NULL: nothing */
  void *env;                               /* handed to both */
  const char *operators;                   /* definitions of the operators that `add` uses */
  const char *phase;                       /* what progress is told as */
} observation;
/* Runs the model on the samples that are observed. The caller closes *code, which may stay NULL; *run goes with it. */
ek_code quantize_observe_samples(quantiser *q, const observation *o, ek_module **code, ek_run **run);
ek_code quantize_calibrate(quantiser *q); /* runs the model on the samples that are observed: q->seen has the result */
ek_code quantize_open(quantiser *q, side *s, const char *const *watch); /* compiles s->m, and makes a run of it */
void quantize_close(side *s);
ek_options quantize_compile_options(const quantiser *q, const side *s); /* how the side is compiled */
/* Runs both on so many samples from the first one on, and adds to the n of x how far b is from a. */
ek_code quantize_compare(quantiser *q, const side *a, const side *b, size_t first, size_t samples, noise *x,
                         uint32_t n);
/* Noise of a tensor of this name; its samples are kept if it is an output. */
noise quantize_noise(quantiser *q, const char *name, bool output);
double quantize_decibels(const noise *x);                 /* NaN: not known */
double quantize_least_decibels(const noise *x, arena *a); /* with probability 0.99, of as many other samples */
ek_code quantize_progress(quantiser *q, const char *phase, double done);
void quantize_name_inputs(quantiser *q, ek_module *code); /* q->in gets the names of the model's inputs */

/* ---- quantize.c ------------------------------------------------------------------------------- */
ek_code quantize_find_tensors(quantiser *q); /* q->seen: the tensors that the layers read, as q->base has them */

/* ---- quantize_smooth.c: SmoothQuant ------------------------------------------------------------ */
ek_code quantize_smooth_channels(quantiser *q); /* where it is asked for: q->g, its layers and q->base become others */
void quantize_close_smooth(quantiser *q);
/* Observes the channels of the n tensors of x on the samples; lo, hi and square come with room, and 0. */
ek_code quantize_calibrate_channels(quantiser *q, quant_channels *x, uint32_t n);

/* ---- quantize_caches.c: states in eight bits ---------------------------------------------------- */
bool quantize_caches_alone(const quantiser *q); /* is that the scheme? */
ek_code quantize_check_caches(quantiser *q);    /* its options */
void quantize_find_caches(quantiser *q);        /* q->caches, q->seen; unwinds where one cannot be quantised */
ek_code quantize_choose_scales(quantiser *q);   /* the scales of q->caches, by the samples */

/* ---- quantize_correct.c: bias correction -------------------------------------------------------- */
bool quantize_corrects(const quantiser *q); /* is it asked for? */
ek_code quantize_correct(quantiser *q);     /* where it is: q->shifts */

/* ---- quantize_blocks.c: weights of a few bits -------------------------------------------------- */
bool quantize_weights_only(const quantiser *q); /* does the scheme leave computed tensors as they are? */
bool quantize_needs_data(const quantiser *q);   /* is anything decided by samples? */
ek_code quantize_check_blocks(quantiser *q);    /* the options of schemes */
void quantize_keep_other_forms(quantiser *q);   /* keeps the layers that the scheme has no form for */
ek_code quantize_choose_codes(quantiser *q);    /* q->codes, by the samples where the method asks for them */

/* ---- quantize_search.c: the budget ------------------------------------------------------------ */
quant_plan quantize_plan(const quantiser *q, arena *a); /* what the layers become that are not kept */
ek_code quantize_write(quantiser *q, const char *path); /* the model with that, as a file */
bool quantize_has_budget(const quantiser *q);
/* Keeps the layers that cost the outputs most, as few of them as the budget allows. */
ek_code quantize_search(quantiser *q);
void quantize_remove_trial(const quantiser *q);

/* ---- quantize_time.c: the time of each layer --------------------------------------------------- */
/* Runs the model and the one at path with clocks: q->before, q->after, and the whole times in q->r. */
ek_code quantize_time(quantiser *q, const char *path);
ek_code quantize_keep_slower(quantiser *q); /* with only_faster: keeps the layers that are slower in int8 */
#endif
