/* Private to the passes: their list. To add one: a file with its function, a name here, a line in passes.c. */
#ifndef EK_PASSES_PASS_H
#define EK_PASSES_PASS_H
#include "rewrite/rewrite.h"

// clang-format off
#define PASSES(X) \
  X(widen) X(factor) X(blocks) X(fold) X(dce) X(cse) X(hoist) X(views) X(pieces) X(inline) X(invariant) \
  X(scale) X(trim) X(axes) X(strided) X(piecewise) X(permute) X(direction) X(winograd) X(quotient) X(narrow) X(align) \
  X(integer) X(parts) X(table) X(columns) X(ranges) X(results) X(state) X(stored) X(windows)
// clang-format on
#define X(n) bool pass_##n(pw *p);
PASSES(X)
#undef X
#endif
