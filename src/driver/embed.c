/* Files that are part of the program: the runtime's object, which is linked into saved models, and its header, which
 * is written beside them. Their paths come from the build. */
#include "driver/driver.h"

#define EMBED(symbol, path)                                                                                            \
  __asm__(".pushsection .rodata\n.balign 64\n.globl " symbol "\n.hidden " symbol "\n" symbol ":\n.incbin \"" path      \
          "\"\n.globl " symbol "_end\n.hidden " symbol "_end\n" symbol "_end:\n.byte 0\n.popsection\n")
EMBED("driver_runtime_object", EK_RUNTIME_OBJECT);
EMBED("driver_runtime_header", EK_RUNTIME_HEADER);
