/* codegen/c: loop programs to freestanding C17. No library at all, not even libm: what C has no operator for was
 * expanded by loop_expand or is a small function in the text.
 *
 * The source is one file: types of runtime.h (if that was not included before), helper functions that are used,
 * constants as an array, a static function per kernel, NAME_run and NAME_info. Kernels run in the caller's
 * thread. Vectors (a target without vectors has none) are arrays and loops over them. Integer arithmetic goes
 * through unsigned types, memory through types that may alias, so nothing is undefined.
 * Clean under gcc -std=c17 -ffreestanding -Wall -Wextra -pedantic.
 */
#ifndef EK_C_H
#define EK_C_H
#include "codegen/codegen.h"

/* The text of weights, in pieces. n: of all of them; begin with the others 0. */
typedef struct c_words {
  size_t n;        /* bytes of all pieces together */
  size_t at;       /* bytes put so far */
  uint8_t word[4]; /* bytes that do not fill a word yet */
} c_words;
void c_weights(c_words *w, bytes piece, sbuf *b);
/* The source of a model; appends to b. Gives the place in b where the weights' text belongs: where x->weights.p is
 * NULL the caller puts it there. x NULL: only the functions, not static (for tests and for reading). Unwinds on what C
 * cannot say (instructions declared by a target). */
size_t c_source(ctx *c, const lmodule *m, const target *t, const code_model *x, sbuf *b);
#endif
