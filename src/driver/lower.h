/* lower: graph → expr. Every node becomes the stages of its definition; If, Loop and Scan become blocks. Types,
 * shapes and small integer values of all graph values are found on the way (that is inference: the same
 * definitions over symbolic sizes) and written into the graph. */
#ifndef EK_DRIVER_LOWER_H
#define EK_DRIVER_LOWER_H
#include "expr/expr.h"
#include "graph/graph.h"
#include "notation/notation.h"
/* --dim N=8: fixed, lo == hi == value. --dim N=1:8:64: stays open, within lo..hi, most often value (-1: none is
 * likely). many: the graph is lowered apart for so many and more (0: it is not). */
typedef struct dimfix {
  const char *name;
  int64_t value, lo, hi, variant_from;
} dimfix;
static inline bool dim_likely(const dimfix *d) { return d->lo < d->hi && d->value >= 0; }
/* NULL when there were errors (recorded; all of them, as far as later nodes do not depend on earlier failures). */
emodule *lower_graph(graph *g, const oplib *lib, const dimfix *dims, uint32_t ndims);
#endif
