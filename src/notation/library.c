/* library: the operator library as it is linked into the program. The .ek files are embedded by the assembler; CMake
 * passes the folder (EK_OPS_DIR) and makes this object depend on them. */
#include "notation/ast.h"

#define SOURCES(X)                                                                                                     \
  X(lib)                                                                                                               \
  X(math)                                                                                                              \
  X(reduce) X(shape) X(nn) X(recurrent) X(quant) X(misc) X(text) X(ml) X(contrib) X(experts) X(states) X(lists) X(train)
#define X(name)                                                                                                        \
  __asm__(".pushsection .rodata\n"                                                                                     \
          ".balign 16\n"                                                                                               \
          "ek_ops_" #name "_begin:\n"                                                                                  \
          ".incbin \"" EK_OPS_DIR "/" #name ".ek\"\n"                                                                  \
          "ek_ops_" #name "_end:\n"                                                                                    \
          ".byte 0\n"                                                                                                  \
          ".popsection\n");                                                                                            \
  extern const char ek_ops_##name##_begin[] __attribute__((visibility("hidden")));                                     \
  extern const char ek_ops_##name##_end[] __attribute__((visibility("hidden")));
SOURCES(X)
#undef X

bool notation_builtin(uint32_t i, bytes *text, const char **file) {
  static const struct {
    const char *file;  /* name of the source */
    const char *begin; /* first character */
    const char *end;   /* end of the text */
  } sources[] = {
#define X(name) {"ops/" #name ".ek", ek_ops_##name##_begin, ek_ops_##name##_end},
      SOURCES(X)
#undef X
  };
  if (i >= sizeof sources / sizeof *sources) return false;
  *text = (bytes){(const uint8_t *)sources[i].begin, (size_t)(sources[i].end - sources[i].begin)},
  *file = sources[i].file;
  return true;
}
void notation_unchecked(oplib *lib) { lib->unchecked = true; }
bool notation_add_builtin(oplib *lib) {
  bool ok = true;
  bytes text;
  const char *file;
  for (uint32_t i = 0; notation_builtin(i, &text, &file); i++)
    ok &= notation_add_later(lib, (const char *)text.p, text.n, file);
  return ok;
}
