/* lower: graph → expr. Every node becomes the stages of its definition; If, Loop and Scan become blocks. Types,
 * shapes and small integer values of all graph values are found on the way (that is inference: the same
 * definitions over symbolic sizes) and written into the graph. */
#ifndef EK_DRIVER_LOWER_H
#define EK_DRIVER_LOWER_H
#include "expr/expr.h"
#include "graph/graph.h"
#include "notation/notation.h"
/* --dim N=8: fixed, lo == hi == value. --dim N=1:8:64: stays open, within lo..hi, most often `value`. */
typedef struct dimfix {
  const char *name;     /* name of the dimension */
  int64_t value;        /* fixed or most likely value; -1: none is likely */
  int64_t lo;           /* least value */
  int64_t hi;           /* greatest value */
  int64_t variant_from; /* the graph is lowered a second time for values from this one on; 0: it is not */
} dimfix;
static inline bool dim_likely(const dimfix *d) { return d->lo < d->hi && d->value >= 0; }
/* NULL when there were errors (recorded; all of them, as far as later nodes do not depend on earlier failures). */
emodule *lower_graph(graph *g, const oplib *lib, const dimfix *dims, uint32_t ndims);
#endif
