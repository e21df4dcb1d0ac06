/* train_value: what definitions say of a metric and of a loss, beside its formula: the value of a metric, given its
 * sums (train_value.c), and the tensor that a loss is of (train_link.c). */
#ifndef EK_DRIVER_TRAIN_VALUE_H
#define EK_DRIVER_TRAIN_VALUE_H
#include "train/train.h"

/* r: the metric. Unwinds: E_USAGE, E_SHAPE: it has no value for so many sums */
double train_metric_value(ctx *c, const oplib *lib, const train_rule *r, const double *sums, size_t n);
/* The tensor before the model's first output, where the node between the two computes what the loss itself computes of
 * its argument; NULL: there is none. */
const char *train_before_link(ctx *c, const oplib *lib, const graph *g, const train_rule *loss);
#endif
