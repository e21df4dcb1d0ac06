/* Definitions in which f32 is read as f64, so that differences of their values are exact. What reads the bits of a
 * number of f32 goes on doing so, and converts it. Included by the tests of gradients. */
#ifndef EK_TEST_WIDE_H
#define EK_TEST_WIDE_H
#include "notation/notation.h"
#include <string.h>

static void wide_text(sbuf *out, const char *p) {
  enum { NESTED = 16 };
  int depth = 0, open[NESTED], n = 0; /* parentheses; where conversions of bits began */
  for (; *p; p++) {
    if (!strncmp(p, "bitcast(f32", 11) && n < NESTED) {
      sb_put(out, "f64(bitcast(f32");
      open[n++] = depth++, p += 10;
      continue;
    }
    const bool f32 = !strncmp(p, "f32", 3);
    depth += (*p == '(') - (*p == ')');
    sb_put(out, f32 ? "f64" : (char[]){*p, 0});
    if (*p == ')' && n && open[n - 1] == depth) n--, sb_putc(out, ')');
    if (f32) p += 2;
  }
  sb_putc(out, '\n');
}
/* The library, with these definitions before its own; NULL: an error was recorded. */
static oplib *wide_library(ctx *c) {
  oplib *lib = notation_lib(c);
  sbuf w = sbuf_new(ctx_arena(c));
  if (!notation_add_builtin(lib)) return NULL;
  for (uint32_t i = 0; i < notation_count(lib); i++) {
    sbuf b = sbuf_new(ctx_arena(c));
    opdef_print(notation_nth(lib, i), &b);
    wide_text(&w, b.s);
  }
  return notation_add(lib, w.s, w.n, "wide.ek") ? lib : NULL;
}
#endif
