/* quantize: how does a graph of f32 become one of eight-bit integers?
 *
 * A layer is a node whose result is a sum of products of two tensors, by the formula of its operator (product.c): no
 * list of operators says so. Both factors are quantised: a constant in i8, symmetric, with one scale or one for each
 * channel; a tensor that is computed in u8, with the range that it was seen to have (statistics.c, range.c). In the
 * graph that is said as the ONNX standard says it (insert.c): QuantizeLinear and DequantizeLinear stand between a
 * factor and all its readers, so that any engine runs the model, and the factors' product is one of integers by
 * algebra.
 *
 * What a run of the model is, is not known here: who runs it shows the values to quantize_observe.
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
} quant_factor;
typedef struct quant_layer {
  node *n;           /* the node */
  quant_factor f[2]; /* factors of the products; a constant one is the second */
  value *bias;       /* constant that is added, with an element for each place of f[1].axis; NULL: none */
  const char *kept;  /* why it stays as it is; NULL: it is quantised */
} quant_layer;
/* m: the formula of n alone, whose inputs are `inputs` in this order, and whose first output is n's first one. False:
 * n multiplies no two tensors. True: it does; out->kept says why it cannot be quantised, if so. */
bool quantize_layer(emodule *m, node *n, value *const *inputs, quant_layer *out);

/* ---- statistics.c: what values does a tensor have? ------------------------------------------- */
enum { QUANT_BINS = 1 << 16 /* one for each value of the upper half of an f32 */ };
typedef struct quant_stats {
  float lo;       /* least value */
  float hi;       /* greatest value; below lo: nothing was seen */
  bool bad;       /* there was an infinity, or a NaN */
  uint64_t *bins; /* QUANT_BINS numbers: how many values had this sign, exponent and 7 bits; NULL: not counted */
} quant_stats;
quant_stats quantize_stats(arena *a, bool bins);
void quantize_observe(quant_stats *s, const float *x, int64_t n);

/* ---- range.c: which values have a code? ------------------------------------------------------ */
typedef enum { QUANT_MINMAX, QUANT_PERCENTILE, QUANT_ENTROPY, QUANT_MSE } quant_method;
typedef struct quant_range {
  double lo; /* least value that has a code, at most 0 */
  double hi; /* greatest value that has a code, at least 0 */
} quant_range;
/* The range of a tensor, by a method; all but QUANT_MINMAX need bins. percentile: of the absolute values, 0 to 100 */
quant_range quantize_range(const quant_stats *s, quant_method how, double percentile, arena *a);

/* ---- insert.c: the graph --------------------------------------------------------------------- */
typedef struct quant_tensor {
  value *v;          /* a tensor that is computed, or an input */
  quant_range range; /* its range */
} quant_tensor;
typedef struct quant_plan {
  const quant_layer *layers;   /* those whose `kept` is NULL are quantised */
  uint32_t nlayers;            /* number of layers */
  const quant_tensor *tensors; /* ranges of their factors that are not constant */
  uint32_t ntensors;           /* number of tensors */
  bool per_channel;            /* constant factors have a scale for each place of their axis */
  bool least_error;            /* their scales make the square of the error least; else they reach the greatest value */
} quant_plan;
void quantize_insert(graph *g, const quant_plan *p);
#endif
