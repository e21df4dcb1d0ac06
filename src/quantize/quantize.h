/* quantize: how does a graph of f32 become one of eight-bit integers, or of weights of a few bits?
 *
 * A layer is a node whose result is a sum of products of two tensors, by the formula of its operator (product.c): no
 * list of operators says so. Both factors are quantised: a constant in i8, symmetric, with one scale or one for each
 * channel; a tensor that is computed in u8, with the range that it was seen to have (observe.c, range.c). In the
 * graph that is said as the ONNX standard says it (insert.c): QuantizeLinear and DequantizeLinear stand between a
 * factor and all its readers, so that any engine runs the model, and the factors' product is one of integers by
 * algebra.
 *
 * What a run of the model is, is not known here: who compiles and runs it has quantize_observe add nodes that count.
 */
#ifndef EK_QUANTIZE_H
#define EK_QUANTIZE_H
#include "expr/expr.h"
#include "graph/graph.h"

/* ---- product.c: is a node a sum of products? ------------------------------------------------- */
typedef struct quant_factor {
  value *v; /* the tensor */
  /* the axis of `v` along which each result reads one place, so that it may have a scale for each; -1: there is none,
   * or more than one */
  int32_t axis;
  /* the axis of `v` over which the sum runs, and the other factor's `channel` with it; -1: there is none */
  int32_t channel;
} quant_factor;
typedef struct quant_layer {
  node *n;           /* the node */
  quant_factor f[2]; /* factors of the products; a constant one is the second */
  value *bias;       /* constant that is added, with an element for each place of f[1].axis; NULL: none */
  /* The layer is result[r.., n] = sum over k of f[0].v[r.., k] * f[1].v[k, n] (or [n, k]), f[1].v being constant, plus
   * `bias`: the axis of k in f[1].v. -1: it is of another form */
  int32_t summed;
  int32_t result;     /* the axis of the node's result along f[1].axis; -1: there is none */
  int32_t bias_input; /* number of the input that `bias` would be, where there is none; -1: the operator has no such */
  double macs;        /* multiplications of one run, open sizes being 512; 0: not known */
  const char *kept;   /* why it stays as it is; NULL: it is quantised */
} quant_layer;
/* m: the formula of n alone, whose inputs are `inputs` in this order, and whose first output is n's first one. False:
 * n multiplies no two tensors. True: it does; out->kept says why it cannot be quantised, if so. */
bool quantize_layer(emodule *m, node *n, value *const *inputs, quant_layer *out);
/* The input or constant of n that is read; NULL: a stage. */
value *quantize_value_of(const emodule *m, ex load, const node *n, value *const *inputs);
/* The only axis whose index uses the variable, if it is nothing but that; -1: there is none. */
int32_t quantize_own_axis(const emodule *m, ex load, atom var);

/* ---- observe.c: what values does a tensor have? ---------------------------------------------- */
enum { QUANT_BINS = 1 << 16 /* one for each value of the upper half of an f32 */ };
typedef struct quant_stats {
  float lo;            /* least value */
  float hi;            /* greatest value; below lo: nothing was seen */
  const int64_t *bins; /* QUANT_BINS numbers: how many values had this sign, exponent and 7 bits; NULL: not counted */
} quant_stats;
typedef enum { QUANT_LEAST, QUANT_GREATEST, QUANT_COUNTED, QUANT_COUNTS, QUANT_SQUARE } quant_statistic;
extern const char *const quantize_operators; /* definitions, in the notation, of what quantize_observe adds */
/* The graph gets outputs for the tensors of these names: of tensor i the least and the greatest value of a run; and,
 * with bins, the state QUANT_COUNTS. */
void quantize_observe(graph *g, const char *const *names, uint32_t n, bool bins);
typedef struct quant_channels { /* of a tensor along an axis */
  value *v;                     /* the tensor */
  int32_t axis;                 /* its axis */
  int64_t n;                    /* places on it */
  float *lo;                    /* least value of each */
  float *hi;                    /* greatest value of each */
  double *square;               /* mean of the squares of each */
} quant_channels;
/* The same for the channels of tensors: QUANT_LEAST, QUANT_GREATEST and QUANT_SQUARE of a run, each a vector. */
void quantize_observe_channels(graph *g, const quant_channels *x, uint32_t n);
const char *quantize_observed(arena *a, uint32_t i, quant_statistic what); /* name of an output, or of the state */
value *quantize_find(const graph *g, const char *name); /* the input or result of this name; unwinds (E_USAGE) */
/* A node that reads `in`, and whose result, a tensor of this name, is one more output of the graph. */
node *quantize_add_node(graph *g, const char *op, const char *domain, value *in, const char *out);
value *quantize_other_axes(graph *g, uint32_t rank, int32_t axis); /* a constant: all axes but one */
quant_stats quantize_nothing(void);                                /* of a tensor that was not seen yet */
bool quantize_add(quant_stats *s, float lo, float hi); /* the limits of a run; false: they are no finite numbers */

/* ---- fold.c: what scales a tensor, channel by channel? ---------------------------------------- */
typedef struct quant_formula {
  emodule *m;     /* the formula of a node, as quantize_layer takes it */
  value **inputs; /* its inputs */
} quant_formula;
typedef struct quant_gain {
  node *n;      /* the node that reads it */
  value *v;     /* a constant: where it is multiplied along `axis`, the tensor is, along its channels */
  int32_t axis; /* its axis */
} quant_gain;
typedef struct quant_scalable {
  const graph *g;        /* the graph */
  arena *a;              /* memory */
  const map *formulas;   /* node -> its quant_formula */
  const map *fixed;      /* constants that may not be multiplied */
  VEC(quant_gain) gains; /* found: constants that are multiplied together */
} quant_scalable;
/* Can the tensor be multiplied along an axis, by constants that are multiplied? It must have `readers` uses. */
bool quantize_scalable(quant_scalable *s, value *v, int32_t axis, uint32_t readers);

/* ---- smooth.c: magnitudes of channels move into weights --------------------------------------- */
typedef struct quant_smoothing {
  graph *g;            /* the graph */
  arena *a;            /* memory for what is added to it */
  quant_layer *layers; /* layers */
  uint32_t nlayers;    /* how many */
  const map *formulas; /* node -> its quant_formula */
  double alpha;        /* how much of the magnitudes moves: above 0, at most 1; 0: what makes the error least */
  bool per_channel;    /* constants will have a scale for each output channel */
} quant_smoothing;
/* Does the layer multiply x by a constant and sum over these channels? */
bool quantize_reads_channels(const quant_layer *l, const quant_channels *x);
typedef struct quant_smoothed {
  double alpha;    /* the exponent; 0: the tensor stays as it is */
  bool multiplied; /* by a Mul; else constants were divided */
} quant_smoothed;
/* Divides the tensor's channels by factors, and multiplies those of the constants that layers multiply it with. The
 * layers of s are the graph's after that. Tensors must come in the reverse of the graph's order. */
quant_smoothed quantize_smooth(const quant_smoothing *s, const quant_channels *x);

/* ---- range.c: which values have a code? ------------------------------------------------------ */
typedef enum { QUANT_MINMAX, QUANT_PERCENTILE, QUANT_ENTROPY, QUANT_MSE } quant_method;
typedef struct quant_range {
  double lo; /* least value that has a code, at most 0 */
  double hi; /* greatest value that has a code, at least 0 */
} quant_range;
/* The range of a tensor, by a method; all but QUANT_MINMAX need bins. percentile: of the absolute values, 0 to 100 */
quant_range quantize_range(const quant_stats *s, quant_method how, double percentile, arena *a);

/* ---- bound.c: the error on other samples ------------------------------------------------------ */
/* A bound of the mean over as many other samples, with probability 0.99. n: at least 1; with one there is no telling
 * how much they vary, and the bound is its value. */
double quantize_at_most(const double *x, size_t n);
/* The same, from below, of the sum of the signals over the sum of the errors; infinity: there are no errors. */
double quantize_ratio_at_least(const double *signal, const double *error, size_t n, arena *a);
/* How many samples, the largest ones, make up half of the sum? 0: the sum is 0. Where it is few, the bounds say little:
 * what decides is hardly among the samples. */
size_t quantize_half(const double *x, size_t n, arena *a);
enum { DECIDING_SAMPLES = 8 };

/* ---- blocks.c: matrices of a few bits, with a scale for each block --------------------------- */
typedef struct quant_form {
  int bits;               /* 2, 3, 4 or 8 of each code; 3 are stored in 4 */
  int64_t block;          /* codes that share a scale: a power of two, 16 to 256 */
  bool zero_points;       /* each block has a zero point; else it is the middle one of the codes */
  bool least_error;       /* scales make the square of the error least; else they reach the greatest value */
  int64_t accuracy_level; /* attribute of MatMulNBits: 4: the other factor may be rounded to eight bits; 0: not */
} quant_form;
typedef struct quant_codes { /* of a matrix of n rows and k columns, which the products are summed along */
  quant_form form;           /* how */
  int64_t n;                 /* rows */
  int64_t k;                 /* columns */
  int64_t blocks;            /* blocks in a row */
  uint8_t *codes;            /* [n, blocks, block]: what is behind the row's end counts as 0 */
  float *scales;             /* [n, blocks] */
  uint8_t *zeros;            /* [n, blocks] */
} quant_codes;
int quantize_stored_bits(const quant_form *f);                                  /* bits that a code is stored in */
int quantize_code(const quant_form *f, double x, float scale, int zero);        /* the code next to x */
float *quantize_matrix(const quant_layer *x, int64_t *n, int64_t *k, arena *a); /* constant of x->summed >= 0, [n, k] */
quant_codes quantize_blocks(const quant_form *f, const float *weights, int64_t n, int64_t k, arena *a); /* rounded */

/* ---- gptq.c: codes that make the error of a product least ------------------------------------- */
/* c: of quantize_blocks; its codes are chosen anew. weights: [n, k]. gram: [k, k], the sum of x x^T over the rows x
 * that were seen. False: gram has no inverse, as it holds no finite numbers. */
bool quantize_gptq(quant_codes *c, const float *weights, const double *gram, arena *a);

/* ---- gram.c: the sums of products that it needs ------------------------------------------------ */
extern const char *const quantize_gram_operators; /* definitions, in the notation, of what quantize_observe_gram adds */
typedef struct quant_gram {
  const char *name; /* a tensor, by its name in the model */
  int64_t k;        /* size of its last axis */
} quant_gram;
/* The graph gets a state for each tensor: f64[k, k], the sum of x x^T over all rows x of all runs. */
void quantize_observe_gram(graph *g, const quant_gram *what, uint32_t n);
const char *quantize_gram_state(arena *a, uint32_t i); /* name of the state */

/* ---- caches.c: states in eight bits ----------------------------------------------------------- */
typedef struct quant_cache {
  value *in;          /* input: what the state was */
  value *out;         /* output: what it becomes */
  bool channels;      /* each place of the last axis has a scale */
  int64_t n;          /* number of scales */
  const float *scale; /* these; NULL: not known yet */
} quant_cache;
/* Why x, one of n, cannot be kept in codes; NULL: it can. formulas: node -> its quant_formula */
const char *quantize_cache_unfit(const graph *g, const map *formulas, const quant_cache *all, uint32_t n,
                                 const quant_cache *x);
void quantize_insert_caches(graph *g, const map *formulas, const quant_cache *x, uint32_t n); /* all of them in i8 */

/* ---- insert.c: the graph --------------------------------------------------------------------- */
typedef struct quant_tensor {
  value *v;          /* a tensor that is computed, or an input */
  quant_range range; /* its range */
} quant_tensor;
typedef struct quant_plan {
  arena *a;                    /* memory of what is added to the graph */
  const quant_layer *layers;   /* those whose `kept` is NULL are quantised */
  uint32_t nlayers;            /* number of layers */
  const quant_tensor *tensors; /* ranges of factors that are not constant */
  uint32_t ntensors;           /* number of tensors */
  const quant_codes *codes;    /* of each layer's constant, which alone is quantised; NULL: the layers become int8 */
  const float *const *shifts;  /* of each layer: what is subtracted from its result, along its axis `result`, or NULL */
  bool bf16;                   /* factors are rounded to bf16 instead */
  bool per_channel;            /* constant factors have a scale for each place of their axis */
  bool least_error;            /* their scales make the square of the error least; else they reach the greatest value */
} quant_plan;
typedef struct quant_undo { /* the graph as it was */
  node *layers;             /* the layers' nodes */
  node **nodes;             /* its nodes */
  uint32_t n;               /* how many */
  uint32_t values;          /* how many values it had */
  uint32_t outputs;         /* how many outputs */
  map *names;               /* names that were taken */
  int64_t opset;            /* version of the operators */
  map *was;                 /* a value that was added -> the one that it stands for */
} quant_undo;
quant_undo quantize_insert(graph *g, const quant_plan *p);
void quantize_remove(graph *g, const quant_plan *p, const quant_undo *u);
void quantize_insert_blocks(graph *g, const quant_plan *p); /* blocks.c: products with p->codes in the layers' places */

/* ---- correct.c: the mean error of a layer ------------------------------------------------------ */
bool quantize_correctable(const quant_layer *x);           /* is there a constant that makes up for its mean error? */
int64_t quantize_channels_of(const quant_layer *x);        /* how many numbers that has */
const char *quantize_error_name(arena *a, uint32_t layer); /* name of the output that quantize_observe_errors adds */
/* The graph, in which p was inserted, gets an output for each layer that can be corrected: the mean of its result minus
 * what it would be exactly for the same input, a vector along its axis `result`. */
void quantize_observe_errors(graph *g, const quant_plan *p, const quant_undo *u);
/* What is to be subtracted: the means of so many samples, each made smaller by as much as it may be an accident of
 * these (James and Stein 1961). sum, square: over the samples, of each channel's errors and their squares. */
float *quantize_shift(const double *sum, const double *square, int64_t channels, size_t samples, arena *a);
/* The layer's bias, or 0, minus `by`: a constant of `rank` axes, of which the first counts the channels; in a. */
value *quantize_shifted(graph *g, const quant_layer *x, const float *by, uint32_t rank, arena *a);
/* A node behind the layer that subtracts `by` from its result; in a. */
node *quantize_shift_result(graph *g, const quant_layer *x, const float *by, arena *a);
#endif
