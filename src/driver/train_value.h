/* train_value: what is the value of a metric, given its sums? */
#ifndef EK_DRIVER_TRAIN_VALUE_H
#define EK_DRIVER_TRAIN_VALUE_H
#include "train/train.h"

/* r: the metric. Unwinds: E_USAGE, E_SHAPE: it has no value for so many sums */
double train_metric_value(ctx *c, const oplib *lib, const train_rule *r, const double *sums, size_t n);
#endif
